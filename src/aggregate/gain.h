/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether and by how much aggregation speeds up a large AllReduce (64 MiB and more): the one answer
 * for the plugin, its tuner and all commands, from facts that every member knows. The formula and
 * its error are in docs/design/aggregation.md, "Gain". Pure; the same bits on every machine and for
 * every order of hosts and leaves.
 */
#ifndef TRIBUTARY_AGGREGATE_GAIN_H
#define TRIBUTARY_AGGREGATE_GAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cluster;
struct schedule_group;
struct pipeline_engine;

enum { GAIN_LEAST_PERMILLE = 1500 }; /* from which aggregation is used without being asked for */

/* Seconds for each byte of one rank's buffer, one rank on each host. */
struct gain {
	double ring_s_per_B, tree_s_per_B; /* NCCL's, in the order given */
	double aggregation_s_per_B;
	unsigned permille; /* of the rate of NCCL's faster one; 0: not known, or fewer than three hosts */
};

/*
 * order: hosts of the group in NCCL's order; NULL: leaf by leaf, the best order. engine NULL:
 * today's. Members of one host count as one. Aggregators that are not lost are used, except those
 * that bring too little (schedule_leave_aggregators). Returns 0 or -ENOMEM; what is not known is 0.
 */
int gain_find(const struct schedule_group *group, const uint16_t *order, const struct pipeline_engine *engine,
	      struct gain *ret);
/* Of today's engine, leaf by leaf. 0 also if there is no memory. */
unsigned gain_of_group(const struct schedule_group *group);

struct gain_job {
	const char *host_name; /* of this host */
	size_t host_count;     /* 0: not known, so all of the cluster's */
	uint64_t rate_Bps;     /* of a host's cards, where the cluster does not say; 0: not known */
};
/*
 * The same for a job on as few leaves of the cluster as hold it, this host's first. 0: no cluster,
 * or more hosts than a group may have. If the number of hosts is not known, all that a group may
 * have count.
 */
unsigned gain_permille(const struct cluster *cluster, const struct gain_job *job);

static inline bool gain_is_enough(unsigned permille)
{
	return permille >= GAIN_LEAST_PERMILLE;
}

#endif
