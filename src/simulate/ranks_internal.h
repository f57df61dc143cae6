/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks.c (costs), ranks_pack.c (a first order) and ranks_search.c (a better one) share. */
#ifndef TRIBUTARY_SIMULATE_RANKS_INTERNAL_H
#define TRIBUTARY_SIMULATE_RANKS_INTERNAL_H

#include "simulate/ranks.h"

struct ranks_edge { /* between places of the order */
	uint32_t from, to;
	uint8_t phase;
	double weight; /* bytes on each rail, a multiple of RANKS_QUANTUM: sums of them are exact, so loads can be taken back */
};
#define RANKS_QUANTUM 0x1p-28

struct ranks_model {
	const struct simulate_fabric *fabric;
	struct ranks_layout layout;
	size_t hosts;
	struct ranks_edge *edges;
	size_t edge_count;
	size_t first_edge[RANKS_PHASE_COUNT + 1];
	uint32_t *first_of, *edges_of; /* of phase × hosts + place = p: edges_of[first_of[p]] … [first_of[p + 1] - 1] */
	double *s_per_B;               /* of each link; 0: it bounds nothing */
	double *load_B;                /* [phase × links], of its order */
	double *kept_B;                /* the same when ranks_model_keep was called */
	bool moved[RANKS_PHASE_COUNT]; /* since then */
	uint32_t *order; /* [phase × hosts]: an order that is worse in one phase is never counted in the next */
	size_t links, first_uplink;
	double steps; /* links that were looked at so far */
};

int ranks_model_init(struct ranks_model *model, const struct simulate_fabric *fabric,
		     const struct ranks_layout *layout);
void ranks_model_fini(struct ranks_model *model);
/* Of that order, which the phase's loads are of from then on. */
struct ranks_cost ranks_model_cost(struct ranks_model *model, enum ranks_phase phase, const uint32_t *order);
/* Loads are kept; and it is where it was when they were, at this order. */
void ranks_model_keep(struct ranks_model *model);
void ranks_model_back(struct ranks_model *model, const uint32_t *order);

/*
 * Hosts by switch, with as many whole tensor groups in a leaf as there can be, and of these as many whole stages. seed 0:
 * switches as they are; else shuffled.
 */
int ranks_pack(const struct ranks_model *model, const uint32_t *hosts, size_t host_count, uint64_t seed, uint32_t *ret);

/* Hosts that a tensor group, and a stage, take; 1 where they do not fill whole hosts. */
size_t ranks_tensor_hosts(const struct ranks_layout *layout);
size_t ranks_stage_hosts(const struct ranks_layout *layout);

#endif
