/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that plan experiments share: flows that a probe can move, and sets of them that load a link. */
#ifndef TRIBUTARY_MEASURE_EXPERIMENTS_SETS_H
#define TRIBUTARY_MEASURE_EXPERIMENTS_SETS_H

#include "measure/experiments.h"

/* A flow that a probe can move. */
struct measure_candidate {
	struct probe_flow flow;
	struct topology_route route;
	enum topology_kind source, sink;
};

struct measure_planner {
	const struct topology *topology;
	struct probe *probe;
	bool quick;
	struct measure_candidate *candidates;
	size_t candidate_count, cpu_count;
	uint32_t *gpus;
	size_t gpu_count;
	struct measure_plan *plan;
};

/* Candidates, by index, each once. */
struct measure_set {
	uint32_t *members;
	size_t count;
	const struct measure_planner *planner;
};

/* The end of a link that is a device; TOPOLOGY_NONE: neither, or both (NVLink). */
uint32_t measure_sets_device_end(const struct measure_planner *planner, uint32_t link);

/* Empty ones, whose memory is one block. -ENOMEM; measure_sets_fini is due in any case. */
int measure_sets_init(struct measure_set *sets, size_t count, const struct measure_planner *planner);
void measure_sets_fini(struct measure_set *sets);
void measure_set_add(struct measure_set *set, uint32_t member);
void measure_set_join(struct measure_set *set, const struct measure_set *other);

/*
 * Of the candidates over a link (TOPOLOGY_NONE: any) those between a device and memories: the shortest but `beside`;
 * TOPOLOGY_NONE: there is none.
 */
uint32_t measure_sets_to_memory(const struct measure_planner *planner, uint32_t directed, uint32_t device, bool sends,
				uint32_t beside);
/* Every device's way to a memory and back, or to two, as far as it crosses the link; TOPOLOGY_NONE: any way. */
void measure_sets_memories(struct measure_set *set, uint32_t directed, bool up, bool down, bool two);
/* Devices in pairs across the link, each sending once and receiving once. -ENOMEM. */
int measure_sets_peers(struct measure_set *set, uint32_t directed);
/* One device with others over its link, by ways that have as little else in common as can be. */
void measure_sets_fan(struct measure_set *set, uint32_t directed, size_t most);
/* All that devices can send over the link, or so many of it, evenly chosen. */
void measure_sets_everything(struct measure_set *set, uint32_t directed, size_t most);
/* Cores that read or write memories over the link, those of each CPU once. -ENOMEM. */
int measure_sets_cores(struct measure_set *set, uint32_t directed);

/* Takes `flows`, whatever comes of it; a set that is planned already, and an empty one, are left out. -ENOMEM. */
int measure_plan_add(struct measure_planner *planner, struct probe_flow *flows, size_t count, unsigned priority,
		     const char *what);
int measure_plan_single(struct measure_planner *planner, const struct probe_flow *flow, unsigned priority);
/* Where a device is plugged in; what is alike there is measured once. Other vertices stand for themselves. */
uint32_t measure_plan_place(const struct measure_planner *planner, uint32_t vertex);

/*
 * Through a memory from NIC to NIC: each to itself (loopback), to each other, all at once, and each to the next. Through a NIC
 * between a GPU's memory and the host's: each GPU, all near a NIC, all with their own NICs. -ENOMEM.
 */
int measure_plan_nics(struct measure_planner *planner);

#endif
