/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request in numbers: hops, and the constraints (rows) that each hop charges. The rest of the planner sees no graph.
 *
 * Three patterns are two shapes. A ring on one host is closed. All else is open: a start at the first GPU, hops, an end at
 * the last. For trees and chains (mirrored) a hop charges both directions, and the start all that passes the NIC. Two
 * models of one pattern, on one host and on several, can be joined; a ring then is open, and has a way back as well.
 */
#ifndef TRIBUTARY_PLAN_MODEL_H
#define TRIBUTARY_PLAN_MODEL_H

#include "tributary/plan.h"

enum { PLAN_HOPS_MAX = 2 * PLAN_GPUS_MAX * PLAN_GPUS_MAX + 2 * PLAN_NICS_MAX * PLAN_GPUS_MAX };

struct plan_crossing {
	uint32_t row, count;
};

struct plan_model {
	size_t gpus, nics; /* nics: ways in and out; 1 that charges nothing where there is no network */
	size_t channels_max;
	bool closed, mirrored, crossnic, network;
	bool star;    /* mirrored: all hops are from the first GPU */
	bool returns; /* joined rings: open, and plan_hop_back from the last GPU to the first */
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

static inline size_t plan_hop_back(const struct plan_model *model, size_t last, size_t first)
{
	return (model->gpus + 2 * model->nics + last) * model->gpus + first;
}

enum { PLAN_CHANNEL_HOPS_MAX = PLAN_GPUS_MAX + 2 };
/* What a channel goes over: its hops between GPUs (and back) and, unless it is closed, those from and to its NICs last. */
size_t plan_channel_hops(const struct plan_model *model, const struct plan_channel *channel,
			 uint32_t ret[PLAN_CHANNEL_HOPS_MAX]);
static inline bool plan_hop_is_inner(const struct plan_model *model, size_t hop)
{
	return hop < plan_hop_in(model, 0, 0) || hop >= plan_hop_back(model, 0, 0);
}
/* What a hop's crossings cost. */
double plan_hop_price(const struct plan_model *model, size_t hop, const double *prices);
/* Adds a hop's crossings, so many times. */
void plan_hop_load(const struct plan_model *model, size_t hop, uint32_t times, uint32_t *loads);
/* The row that is full first by these loads: the rate is capacity over load. None: PLAN_UNBOUNDED_BPS and 1. */
struct plan_fraction {
	uint64_t capacity_Bps, load;
};
struct plan_fraction plan_model_rate(const struct plan_model *model, const uint32_t *loads);
/* Of each of a plan's channels; and by the model of that many hosts. Errors: those of plan_make. */
int plan_channels_rate(const struct plan_model *model, const struct plan *plan, uint64_t *ret_rate_Bps);
int plan_rate_at(const struct topology *topology, const struct plan_request *request, unsigned hosts,
		 const struct plan *plan, uint64_t *ret_rate_Bps);

/* Errors: those of plan_make. plan_model_fini accepts a zeroed struct. */
int plan_model_init(struct plan_model *model, const struct topology *topology, const struct plan_request *request,
		    enum plan_pattern pattern);
/* The same, with so many hosts in place of the request's. */
int plan_model_at(struct plan_model *model, const struct topology *topology, const struct plan_request *request,
		  enum plan_pattern pattern, unsigned hosts);
void plan_model_fini(struct plan_model *model);

/*
 * Both of one request's models of one pattern, on one host and on several. Capacities are in parts of PLAN_JOINED_WHOLE
 * of what the best plan of either moves in all, so that a plan's total is the lesser of its two shares of the best. What
 * has no bound (PLAN_UNBOUNDED_BPS) is not compared. -ENOMEM.
 */
#define PLAN_JOINED_WHOLE 1000000000000
int plan_model_join(struct plan_model *model, const struct plan_model *alone, uint64_t alone_best_Bps,
		    const struct plan_model *network, uint64_t network_best_Bps);

/* Kinds and numbers of a request; -EINVAL. */
int plan_request_check(const struct topology *topology, const struct plan_request *request);

/* As plan_way, but tells a way that does not exist from one that could not be looked for (-ENOMEM, -E2BIG). */
int plan_find_way(const struct topology *topology, const struct plan_request *request, uint32_t from, uint32_t to,
		  enum topology_way *ret);

/* An upper bound from cuts, in bytes/s; UINT64_MAX: nothing bounds. -ENOMEM. */
int plan_cuts_bound(const struct plan_model *model, uint64_t *ret_Bps);

#endif
