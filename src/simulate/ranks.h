/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which host should have which ranks. A job's ranks are laid out as Megatron does: rank = t + tensor × (d + data × p) for
 * place t in its tensor-parallel, d in its data-parallel and p in its pipeline-parallel group; each host has `gpus`
 * consecutive ones. So an order of hosts says who talks to whom: NCCL takes the hosts of a communicator in the order of
 * their lowest ranks, for its rings as for its trees. docs/guide/cluster.md says what is sought, docs/design/simulation.md how. Pure, deterministic.
 */
#ifndef TRIBUTARY_SIMULATE_RANKS_H
#define TRIBUTARY_SIMULATE_RANKS_H

#include "simulate/fabric.h"
#include "simulate/job.h"

#include <stdbool.h>

struct ranks_layout {
	unsigned gpus; /* of each host */
	unsigned tensor, data, pipeline;
};

/* Who sends. */
enum ranks_phase {
	RANKS_TENSOR,    /* AllReduce of each tensor-parallel group: rings */
	RANKS_DATA_RING, /* AllReduce of each data-parallel group: rings */
	RANKS_DATA_TREE, /* the same: double binary trees */
	RANKS_PIPELINE,  /* each rank to the next stage and back */
	RANKS_PHASE_COUNT
};

/* Of a phase in which every group has one byte for each rank. How many hops follow each other, and so their latency, is the
 * same in any order. */
struct ranks_cost {
	double worst_s;   /* that the slowest link takes */
	double uplinks_s; /* that all uplinks take, together */
	double crossings; /* bytes over all uplinks, whether their rates are known or not */
};

/* How many hosts it takes; 0: the groups do not fill whole hosts, or there is a zero. */
size_t ranks_hosts(const struct ranks_layout *layout);

/* The hosts of a group: places in the order. */
struct ranks_group {
	uint32_t *places;
	size_t count;
	unsigned ranks; /* of the group, on all its hosts */
};
/* Group `index` of a phase, of ranks_group_count; places has room for all hosts. */
size_t ranks_group_count(const struct ranks_layout *layout, enum ranks_phase phase);
void ranks_group(const struct ranks_layout *layout, enum ranks_phase phase, size_t index, struct ranks_group *group);

/*
 * order[ranks_hosts]: hosts. load_B, unless it is NULL: [RANKS_PHASE_COUNT × simulate_link_count], bytes on each link.
 * -EINVAL: ranks_hosts is 0; -ENOMEM.
 */
int ranks_costs(const struct simulate_fabric *fabric, const struct ranks_layout *layout, const uint32_t *order,
		struct ranks_cost ret[static RANKS_PHASE_COUNT], double *load_B);

/*
 * Whether a phase is small enough to be simulated, and the seconds that it takes when each rank has so many bytes. Of
 * pipelines, and of more groups, the slowest link's time stands for it. -EDEADLK, -EINVAL: *diag; -ENOMEM.
 */
bool ranks_can_simulate(const struct ranks_layout *layout, enum ranks_phase phase);
int ranks_time(const struct simulate_fabric *fabric, const struct ranks_layout *layout, const uint32_t *order,
	       enum ranks_phase phase, double bytes, enum simulate_detail detail, double *ret_s, struct diag *diag);

struct ranks_search {
	bool tree_first;       /* trees before rings, where they cannot both have what is best */
	size_t all_orders;     /* of at most so many hosts all orders are tried: then nothing is better */
	double steps_most;     /* crossings of links that the search may look at */
	double bytes;          /* of each rank, for which the best are simulated; 0: none is */
	const uint32_t *given; /* an order that the result must not be worse than, or NULL */
};
struct ranks_search ranks_search_defaults(void);
/*
 * Sought, each where the ones before are equal: the least time of the slowest link for tensor groups, rings, trees,
 * pipelines; then, of each, of all uplinks, and crossings. Of the best, the simulator's fastest. hosts[host_count]: those
 * that there are, at least ranks_hosts; ret[ranks_hosts]. -EINVAL, -ENOMEM.
 */
int ranks_order(const struct simulate_fabric *fabric, const struct ranks_layout *layout, const uint32_t *hosts,
		size_t host_count, const struct ranks_search *search, uint32_t *ret);
/* -1: a is better, 1: b is, 0: equal but for rounding. */
int ranks_compare(const struct ranks_search *search, const struct ranks_cost a[static RANKS_PHASE_COUNT],
		  const struct ranks_cost b[static RANKS_PHASE_COUNT]);

#endif
