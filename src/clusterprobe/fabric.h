/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The switches between hosts, found by moving bytes: rounds of flows that run at the same time go out to a probe, their
 * rates come back. Hosts whose flows never slow each other down inside, but do so together towards others, share a leaf;
 * what they get out together is its uplink. Pure but for the probe; one thread. docs/design/measuring.md says how, docs/guide/cluster.md what cannot
 * be told.
 *
 * Rounds: at most FABRIC_ROUNDS_FIXED + FABRIC_ROUNDS_EACH for each host.
 */
#ifndef TRIBUTARY_CLUSTERPROBE_FABRIC_H
#define TRIBUTARY_CLUSTERPROBE_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;

enum {
	FABRIC_HOSTS_MAX = 1024,
	FABRIC_ROUNDS_FIXED = 300,
	FABRIC_ROUNDS_EACH = 6,
	FABRIC_FLOWS_EACH = 8, /* that a host sends at the same time; it may receive any number */
};

struct fabric_flow {
	uint16_t from, to; /* hosts, two of them */
};

struct fabric_probe;
struct fabric_probe_ops {
	/* All flows at once; a rate for each. `round` and `of` (rounds that are expected by now) are for people. */
	int (*run)(struct fabric_probe *probe, const struct fabric_flow *flows, size_t count, size_t round, size_t of,
		   double *ret_Bps, struct diag *diag);
};
/* Embedded in each probe's own struct. */
struct fabric_probe {
	const struct fabric_probe_ops *ops;
};

/* How much of a direction of an uplink is known. */
enum fabric_known {
	FABRIC_NARROW, /* rate_Bps is what it carries: less than its hosts can, and than the others can take */
	FABRIC_JOINT,  /* the same, of this uplink and the only other leaf's: which of them it is cannot be told */
	FABRIC_HOSTS,  /* it carries all that the leaf's hosts can, rate_Bps: not narrow */
	FABRIC_OTHERS, /* it carries all that the other leaves give or take, rate_Bps: how much more cannot be told */
};
struct fabric_direction {
	enum fabric_known known;
	double rate_Bps;   /* of all its hosts at once, towards all others or from them */
	double hosts_Bps;  /* what their NICs carry together */
	double others_Bps; /* what the others' NICs and uplinks carry together */
	unsigned rounds;   /* that rate_Bps is the median of */
};

struct fabric_leaf {
	size_t host_count;
	struct fabric_direction up, down;
	/* Flows between its hosts, and between them and others, with all of them sending: rate over what the NICs carry. */
	double inside_part, outside_part;
	size_t inside_count, outside_count;
	bool asymmetric; /* both directions are known, or one is and the other carries far more */
};

enum fabric_slow { FABRIC_SLOW_OUT = 1, FABRIC_SLOW_IN = 2 };
struct fabric_host {
	uint16_t leaf;
	double out_Bps, in_Bps; /* of its NIC, as far as anything else let it be seen */
	unsigned slow;          /* enum fabric_slow: far below the median of all */
	bool alone;             /* in its leaf: a narrow uplink would look like a slow NIC */
};

struct fabric {
	size_t host_count,
		leaf_count; /* one leaf: no narrow link was found, and what leaves there are cannot be told */
	struct fabric_host *hosts;
	struct fabric_leaf *leaves; /* by their first hosts */
	size_t round_count;
	double median_Bps; /* of the hosts' rates, out and in */
	double full_part;  /* of all flows one to one: at the rate of their NICs */
	double loaded_part; /* the least that all hosts together moved in a round that was to fill uplinks, over their NICs */
	double doubtful_part; /* of all pairs of hosts: those whose place in one leaf or two has little evidence */
};

/* -EINVAL: fewer than 2 hosts or more than FABRIC_HOSTS_MAX; -ENOMEM; what the probe says. Freed by fabric_fini. */
int fabric_measure(struct fabric_probe *probe, size_t host_count, uint64_t seed, struct fabric *ret, struct diag *diag);
void fabric_fini(struct fabric *fabric);

#endif
