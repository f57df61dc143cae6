/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine: a probe over a graph whose capacities are the truth, with rules that real machines follow and
 * that the graph cannot say (topo/README.md lists them). Its rates are found by an iteration of its own that shares
 * nothing with the inference or with topology_share, and they are not max-min fair. It does not sleep: the time that a
 * run would have taken is in probe_rates.time_ns. The same seed gives the same rates. One thread.
 */
#ifndef TRIBUTARY_MEASURE_SIMULATED_PROBE_H
#define TRIBUTARY_MEASURE_SIMULATED_PROBE_H

#include "measure/probe.h"

enum { PROBE_RULES_PAIRS_MAX = 64, PROBE_RULES_NEIGHBOURS_MAX = 8 };

/* How far P2P by PCIe works. NVLink always does. */
enum probe_rules_p2p {
	PROBE_RULES_P2P_NONE,
	PROBE_RULES_P2P_SWITCH, /* between GPUs with a common PCIe switch */
	PROBE_RULES_P2P_SOCKET, /* of one CPU */
	PROBE_RULES_P2P_ALL,
	PROBE_RULES_P2P_COUNT
};

/* One pair of GPUs, by name: its P2P runs at this part of what its way could carry. */
struct probe_rules_pair {
	char from[TOPOLOGY_NAME_BYTES], to[TOPOLOGY_NAME_BYTES];
	double part;
};

/* Somebody else takes this part of a directed link from one time to another, by the probe's own clock. */
struct probe_rules_neighbour {
	char link[TOPOLOGY_NAME_BYTES * 2];
	double part;
	uint64_t from_ns, to_ns;
};

/* Parts are of the true capacity of a device's own PCIe link or of the narrowest link on the way. 1: no such rule. */
struct probe_rules {
	double both[TOPOLOGY_LINK_KIND_COUNT]; /* both directions at once, of the sum of the two */
	double engine_out[TOPOLOGY_KIND_COUNT], engine_in[TOPOLOGY_KIND_COUNT]; /* what GPUs and NICs write, and read */
	double device
		[TOPOLOGY_KIND_COUNT]; /* all that enters and leaves a device, of the sum of its links' directions */
	double kernel;                 /* a GPU's cores in place of its copy engine */
	double p2p_root, p2p_socket;   /* P2P through a host bridge; through the link between CPUs */
	double staged;                 /* from GPU to GPU by way of a host memory */
	double cores_Bps; /* the cores of one CPU together, reading, writing or copying memory; 0: none does */
	enum probe_rules_p2p p2p;
	struct probe_rules_pair pairs[PROBE_RULES_PAIRS_MAX];
	struct probe_rules_neighbour neighbours[PROBE_RULES_NEIGHBOURS_MAX];
	size_t pair_count, neighbour_count;
	double noise;    /* standard deviation of a rate; a quarter of its variance is common to the flows of a run */
	double outliers; /* part of the runs that are far off, one in ten of them upwards */
	uint64_t ramp_ns, overhead_ns; /* time constant of the start; warm-up of a run, not part of its duration */
	uint64_t latency_ns;           /* of a copy, without the links' own */
};

void simulated_rules_init(struct probe_rules *rules); /* no rule, no noise, P2P everywhere, no cores */
/* "key value ..." a line, '#' to the end of a line is a comment. -EINVAL with line and reason in *diag. */
int simulated_rules_read(const char *text, size_t bytes, struct probe_rules *ret, struct diag *diag);

/*
 * FOLDER/machine.topology and FOLDER/rules. Errors: as the system said, or -EINVAL; file, line and reason in *diag.
 * The caller ends *ret_truth with topology_fini.
 */
int simulated_probe_read(const char *folder, struct topology *ret_truth, struct probe_rules *ret_rules,
			 struct diag *diag);
/* What discovery would see of the machine: nominal rates, and nothing that was measured. */
int simulated_probe_hide(const struct topology *truth, struct topology *ret);

/* Copies both; the flows of runs name vertices of `truth`. -EINVAL: a rule names what is not there. */
int simulated_probe_open(const struct topology *truth, const struct probe_rules *rules, uint64_t seed,
			 struct probe **ret);
/* The rates without noise, ramp or neighbours. -ENOTSUP as probe_ops.run. */
int simulated_probe_solve(struct probe *probe, const struct probe_flow *flows, size_t count, double *ret_Bps);

/*
 * For tests that need to know what could be reached: the constraints of a set of flows, sum of weight × rate <= bound
 * for each row. A row is a directed link (its index) or a rule (TOPOLOGY_NONE).
 */
struct probe_simulated_rows {
	size_t count, flow_count;
	void *arrays;       /* all that follow */
	double *bound_Bps;  /* of each row */
	double *weight;     /* row by row, flow_count each */
	uint32_t *directed; /* of each row */
	uint32_t *device; /* of each row: whose rule it is, if it is about one device (its engines, its total) or CPU */
};
int simulated_probe_constraints(struct probe *probe, const struct probe_flow *flows, size_t count,
				struct probe_simulated_rows *ret);
void simulated_rows_fini(struct probe_simulated_rows *rows);

#endif
