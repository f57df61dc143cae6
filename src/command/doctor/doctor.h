/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with a machine: a table of checks over the graph, its measurements and the facts that discovery found
 * beside it (docs/format/graph.md). Pure. docs/guide/doctor.md lists every check.
 */
#ifndef TRIBUTARY_COMMAND_DOCTOR_DOCTOR_H
#define TRIBUTARY_COMMAND_DOCTOR_DOCTOR_H

#include "discover/discover.h"
#include "tributary/topology.h"

/* In order of severity. */
enum doctor_severity {
	DOCTOR_SKIPPED, /* the machine has nothing of the kind */
	DOCTOR_GOOD,
	DOCTOR_UNKNOWN, /* what it needs to know was not to be had */
	DOCTOR_NOTE,
	DOCTOR_WARNING,
	DOCTOR_ERROR,
	DOCTOR_SEVERITY_COUNT
};
const char *doctor_severity_word(enum doctor_severity severity);

struct doctor;

struct doctor_check {
	const char *word;          /* stable: "link-width" */
	const char *title;         /* a clause: "PCIe links have all their lanes" */
	const char *cost, *remedy; /* whole sentences */
	void (*run)(struct doctor *doctor);
	struct doctor_needs {
		unsigned nodes, gpus, nics, rdma, switches;
	} needs;             /* what the machine must have for the check to say anything */
	const char *unknown; /* what is said if the check did not count anything as known; NULL: it says so itself */
};
extern const struct doctor_check doctor_checks[]; /* ends with word NULL */

struct doctor_finding {
	const struct doctor_check *check;
	enum doctor_severity severity;
	const char *remedy;                    /* the check's, unless the finding has a better one */
	char subject[2 * TOPOLOGY_NAME_BYTES]; /* a vertex, a link, an interface, "machine"; no spaces */
	char evidence[256];
};

struct doctor_report {
	struct doctor_finding *at; /* malloc'ed; the worst first, then in the order of the checks */
	size_t count;
};

/* At least one finding for each check. from_file: the machine is one that a file describes. -ENOMEM at worst. */
int doctor_examine(const struct topology *topology, const struct discover_facts *facts, bool from_file,
		   struct doctor_report *ret);
void doctor_report_fini(struct doctor_report *report);
enum doctor_severity doctor_worst(const struct doctor_report *report);

/* ------------------------------------------------------------------------------------------------- for the checks */

struct doctor {
	const struct topology *topology;
	const struct discover_facts *facts;
	const struct doctor_check *check; /* that runs now */
	bool from_file;
	size_t known; /* what it found that it could judge; 0 when it begins */
	struct doctor_report report;
	int result;
};

/* A check that adds nothing has found nothing: it is good. */
void doctor_add(struct doctor *doctor, enum doctor_severity severity, const char *subject, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* A line of facts, "what subject key=value ...": { .what = "sysctl" } is before the first of them. */
struct doctor_fact {
	const char *what, *next;
	const char *subject, *rest; /* the second word; what follows it, up to the end of the line */
	char line[640];             /* each word a text of its own */
	size_t bytes;
};
bool doctor_next_fact(const struct doctor *doctor, struct doctor_fact *fact);
/* The first of that subject (NULL: of any). */
bool doctor_find_fact(const struct doctor *doctor, const char *what, const char *subject, struct doctor_fact *ret);
/* A key's value; NULL when it is not there or "unknown". It is the fact's own. */
const char *doctor_fact_value(const struct doctor_fact *fact, const char *key);
/* Whether it is that word. */
bool doctor_fact_is(const struct doctor_fact *fact, const char *key, const char *word);
bool doctor_fact_number(const struct doctor_fact *fact, const char *key, uint64_t *ret);

/* Whether the checks have any fact beside the graph. */
bool doctor_has_facts(const struct doctor *doctor);
/* The vertex one nearer to the CPU; TOPOLOGY_NONE. */
uint32_t doctor_above(const struct topology *topology, uint32_t vertex);

/* links.c. Below this part of its nominal rate a measured link wants an explanation: headers and flow control take 10 to 20 %. */
#define DOCTOR_LOW_SHARE 0.7
/* Measured over nominal; negative: it was not measured, or no nominal rate is more than a rule of thumb. */
double doctor_measured_share(const struct topology *topology, uint32_t directed);
void doctor_link_width(struct doctor *doctor);
void doctor_link_speed(struct doctor *doctor);
void doctor_unlike_links(struct doctor *doctor);
void doctor_measured_low(struct doctor *doctor);
/* placement.c */
void doctor_devices(struct doctor *doctor);
void doctor_gpu_nic(struct doctor *doctor);
void doctor_shared_uplink(struct doctor *doctor);
void doctor_oversubscribed(struct doctor *doctor);
void doctor_asymmetric(struct doctor *doctor);
/* acs.c */
void doctor_acs(struct doctor *doctor);
void doctor_iommu(struct doctor *doctor);
/* Whether it translates for some devices. */
bool doctor_iommu_translates(const struct doctor *doctor);
/* peers.c */
void doctor_p2p_refused(struct doctor *doctor);
void doctor_p2p_slow(struct doctor *doctor);
void doctor_bar1(struct doctor *doctor);
void doctor_hidden_gpu(struct doctor *doctor);
/* network.c */
void doctor_mtu(struct doctor *doctor);
void doctor_nic_speed(struct doctor *doctor);
void doctor_tcp_buffers(struct doctor *doctor);
void doctor_rto_min(struct doctor *doctor);
/* rdma.c */
void doctor_roce(struct doctor *doctor);
void doctor_roce_gid(struct doctor *doctor);
void doctor_roce_packet(struct doctor *doctor);
void doctor_roce_trust(struct doctor *doctor);
void doctor_relaxed_ordering(struct doctor *doctor);
void doctor_gpudirect(struct doctor *doctor);
void doctor_rdma_limits(struct doctor *doctor);
/* system.c */
void doctor_plans(struct doctor *doctor);
void doctor_memlock(struct doctor *doctor);
void doctor_numa_balancing(struct doctor *doctor);
void doctor_governor(struct doctor *doctor);

#endif
