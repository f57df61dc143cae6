/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks.c (costs), ranks_pack.c (a first order) and ranks_search.c (a better one) share. */
#ifndef TRIBUTARY_SIMULATE_RANKS_INTERNAL_H
#define TRIBUTARY_SIMULATE_RANKS_INTERNAL_H

#include "simulate/ranks.h"

struct ranks_edge { /* between places of the order */
	uint32_t from, to;
	uint8_t phase;
	float weight; /* bytes */
};

struct ranks_model {
	const struct simulate_fabric *fabric;
	struct ranks_layout layout;
	size_t hosts;
	struct ranks_edge *edges;
	size_t edge_count;
	double *capacity_Bps;
	double *load_B; /* [phase × links] */
	size_t links;
	double steps; /* links that were looked at so far */
};

int ranks_model_init(struct ranks_model *model, const struct simulate_fabric *fabric,
		     const struct ranks_layout *layout);
void ranks_model_fini(struct ranks_model *model);
void ranks_model_costs(struct ranks_model *model, const uint32_t *order,
		       struct ranks_cost ret[static RANKS_PHASE_COUNT]);

/*
 * Hosts by switch, with as many whole tensor groups in a leaf as there can be, and of these as many whole stages. seed 0:
 * switches as they are; else shuffled.
 */
int ranks_pack(const struct ranks_model *model, const uint32_t *hosts, size_t host_count, uint64_t seed, uint32_t *ret);

/* Hosts that a tensor group, and a stage, take; 1 where they do not fill whole hosts. */
size_t ranks_tensor_hosts(const struct ranks_layout *layout);
size_t ranks_stage_hosts(const struct ranks_layout *layout);

#endif
