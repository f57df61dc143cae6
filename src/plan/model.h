/*
 * A request in numbers: hops, and the constraints (rows) that each hop charges. The rest of the planner sees no graph.
 *
 * Three patterns are two shapes. A ring on one host is closed. All else is open: a start at the first GPU, hops, an end at
 * the last. For trees and chains (mirrored) a hop charges both directions, and the start all that passes the NIC.
 */
#ifndef TRIBUTARY_PLAN_MODEL_H
#define TRIBUTARY_PLAN_MODEL_H

#include "tributary/plan.h"

enum { PLAN_HOPS_MAX = PLAN_GPUS_MAX * PLAN_GPUS_MAX + 2 * PLAN_NICS_MAX * PLAN_GPUS_MAX };

struct plan_crossing {
	uint32_t row, count;
};

struct plan_model {
	size_t gpus, nics; /* nics: ways in and out; 1 that charges nothing where there is no network */
	size_t channels_max;
	bool closed, mirrored, crossnic, network;
	size_t rows;
	uint64_t *capacity_Bps;            /* of each row */
	size_t hops;                       /* plan_hop, plan_hop_in, plan_hop_out */
	uint32_t first[PLAN_HOPS_MAX + 1]; /* of each hop in `crossings` */
	struct plan_crossing *crossings;
	uint32_t detour[PLAN_HOPS_MAX]; /* what a hop costs where rates are equal: PLAN_DETOUR_SWITCH, and 1 a link */
	enum topology_class path_class[PLAN_HOPS_MAX];
};

/* One more switch or socket to cross weighs more than any number of links of one channel. */
enum { PLAN_DETOUR_SWITCH = 4096 };

static inline size_t plan_hop(const struct plan_model *model, size_t from, size_t to)
{
	return from * model->gpus + to;
}

static inline size_t plan_hop_in(const struct plan_model *model, size_t nic, size_t gpu)
{
	return (model->gpus + nic) * model->gpus + gpu;
}

static inline size_t plan_hop_out(const struct plan_model *model, size_t nic, size_t gpu)
{
	return (model->gpus + model->nics + nic) * model->gpus + gpu;
}

/* Errors: those of plan_make. plan_model_fini accepts a zeroed struct. */
int plan_model_init(struct plan_model *model, const struct topology *topology, const struct plan_request *request,
		    enum plan_pattern pattern);
void plan_model_fini(struct plan_model *model);

/* Kinds and numbers of a request; -EINVAL. */
int plan_request_check(const struct topology *topology, const struct plan_request *request);

/* As plan_way, but tells a way that does not exist from one that could not be looked for (-ENOMEM, -E2BIG). */
int plan_find_way(const struct topology *topology, const struct plan_request *request, uint32_t from, uint32_t to,
		  enum topology_way *ret);

/* An upper bound from cuts, in bytes/s; UINT64_MAX: nothing bounds. */
uint64_t plan_cuts_bound(const struct plan_model *model);

#endif
