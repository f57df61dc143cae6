/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which flows to run at once, so that each link is loaded to its limit in each direction. docs/design/measuring.md lists them.
 * Pure but for asking the probes what they can move.
 */
#ifndef TRIBUTARY_MEASURE_EXPERIMENTS_H
#define TRIBUTARY_MEASURE_EXPERIMENTS_H

#include "measure/probe.h"

enum { MEASURE_PRIORITY_COUNT = 4 };

struct measure_experiment {
	char what[96];
	struct probe *probe; /* not owned */
	struct probe_flow *flows;
	size_t count;
	unsigned priority; /* 0 first: a plan that does not fit into its time is cut at the end */
	bool pair;         /* one flow between two GPUs: needed for the table of pairs, less precisely than links */
};

/* In order of priority. */
struct measure_plan {
	struct measure_experiment *items;
	size_t count;
};

/* quick: only what the planner needs most. -ENOMEM. */
int measure_experiments_plan(const struct topology *topology, struct probe *const *probes, size_t probe_count,
			     bool quick, struct measure_plan *ret);
void measure_experiments_fini(struct measure_plan *plan);

/*
 * As topology_route; a copy within one memory has a way too: it reads the memory and writes it. So has what a NIC sends to
 * itself: through a memory, or (via: the NIC) from one memory to another, a GPU's for one.
 */
int measure_experiments_route(const struct topology *topology, const struct topology_flow *flow,
			      struct topology_route *ret);
/* Between two memories through a NIC, which reads the one and writes the other. */
bool measure_experiments_by_nic(const struct topology *topology, const struct topology_flow *flow);
bool measure_experiments_same_flow(const struct probe_flow *a, const struct probe_flow *b);
/* A GPU, a NIC, a host or a network: what moves bytes by itself, and is an end of links rather than a crossing. */
bool measure_experiments_is_device(const struct topology *topology, uint32_t vertex);

#endif
