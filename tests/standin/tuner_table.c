/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner_table.h"

#include "nccl/profiler.h"
#include "nccl/tuner_v2.h"
#include "nccl/tuner_v3.h"
#include "nccl/tuner_v4.h"
#include "nccl/tuner_v5.h"
#include "nccl/tuner_v6.h"
#include "support/runtime.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void tuner_table_find(void *library, int version, struct tuner_table *ret)
{
	char symbol[32];

	snprintf(symbol, sizeof(symbol), "ncclTunerPlugin_v%d", version);
	ret->table = version ? dlsym(library, symbol) : NULL;
	ret->version = ret->table ? version : 0;
}

/* Numbers of the right order; the plugin may change them. */
static void constants_fill(struct nccl_tuner_constants_v5 *constants)
{
	memset(constants, 0, sizeof(*constants));
	for (int a = 0; a < 7; a++)
		for (int p = 0; p < 3; p++) {
			constants->baseLatencies[a][p] = 6.6 + a + 4 * p;
			for (int w = 0; w < 3; w++)
				constants->hwLatencies[w][a][p] = 1.0 + w + p;
		}
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 3; j++) {
			constants->llMaxBws[i][j] = 40;
			constants->perChMaxRingLL128Bws[i][j] = 20;
			constants->perChMaxTreeLL128Bws[i][j] = 20;
			constants->perChMaxTreeBws[i][j] = 24;
			constants->perChMaxNVLSTreeBws[i][j] = 24;
		}
}

int tuner_table_init(const struct tuner_table *tuner, uint64_t comm_id, size_t rank_count, size_t node_count,
		     nccl_debug_logger *logger, void **ret_context)
{
	struct nccl_tuner_nvl_domain_v5 domain = { (int)node_count, 1, (int)rank_count };
	struct nccl_tuner_constants_v5 constants;

	constants_fill(&constants);
	switch (tuner->version) {
	case 2:
		return (int)((const struct nccl_tuner_v2 *)tuner->table)
			->init(rank_count, node_count, logger, ret_context);
	case 3:
		return (int)((const struct nccl_tuner_v3 *)tuner->table)
			->init(rank_count, node_count, logger, ret_context);
	case 4:
		return (int)((const struct nccl_tuner_v4 *)tuner->table)
			->init(rank_count, node_count, logger, ret_context);
	case 5:
		return (int)((const struct nccl_tuner_v5 *)tuner->table)
			->init(ret_context, comm_id, rank_count, node_count, logger, &domain, &constants);
	default:
		return (int)((const struct nccl_tuner_v6 *)tuner->table)
			->init(ret_context, comm_id, rank_count, node_count, logger, &domain, &constants);
	}
}

/* NCCL hands over an array of arrays under the name of a pointer to pointers. */
static float **as_nccl_hands_it(float table[NCCL_ALGO_COUNT][NCCL_PROTO_COUNT])
{
	return (float **)(void *)table;
}

static int call_table(const struct tuner_table *tuner, void *context, enum nccl_func func, size_t bytes, int ops,
		      int registered, float costs[NCCL_ALGO_COUNT][NCCL_PROTO_COUNT], int *channels)
{
	float **table = as_nccl_hands_it(costs);

	switch (tuner->version) {
	case 3:
		return (int)((const struct nccl_tuner_v3 *)tuner->table)
			->getCollInfo(context, func, bytes, ops, table, NCCL_ALGO_COUNT, NCCL_PROTO_COUNT, channels);
	case 4:
		return (int)((const struct nccl_tuner_v4 *)tuner->table)
			->getCollInfo(context, func, bytes, ops, table, NCCL_ALGO_COUNT, NCCL_PROTO_COUNT, registered,
				      channels);
	case 5:
		return (int)((const struct nccl_tuner_v5 *)tuner->table)
			->getCollInfo(context, func, bytes, ops, table, NCCL_ALGO_COUNT, NCCL_PROTO_COUNT, registered,
				      channels);
	default:
		return (int)((const struct nccl_tuner_v6 *)tuner->table)
			->getCollInfo(context, func, bytes, ops, table, NCCL_ALGO_COUNT, NCCL_PROTO_COUNT, registered,
				      channels);
	}
}

int tuner_table_ask(const struct tuner_table *tuner, void *context, uint64_t comm_id, int question,
		    struct tuner_choice *ret)
{
	float costs[NCCL_ALGO_COUNT][NCCL_PROTO_COUNT], before[NCCL_ALGO_COUNT][NCCL_PROTO_COUNT], least = -1;
	struct tuner_choice choice = { .choice = -1 };
	enum nccl_func func;
	uint64_t random = comm_id * 31 + (uint64_t)question;
	size_t bytes;
	int r, ops, registered;

	func = (enum nccl_func)random_below(&random, 5);
	bytes = (size_t)1 << random_below(&random, 31);
	ops = 1 + (int)random_below(&random, 3);
	registered = (int)random_below(&random, 2);
	for (int a = 0; a < NCCL_ALGO_COUNT; a++)
		for (int p = 0; p < NCCL_PROTO_COUNT; p++)
			costs[a][p] = a > 1 || !random_below(&random, 4) ? NCCL_COST_FORBIDDEN
									 : (float)(10 + random_below(&random, 500));
	memcpy(before, costs, sizeof(costs));
	if (tuner->version == 2) {
		int algorithm = -1, protocol = -1;

		r = (int)((const struct nccl_tuner_v2 *)tuner->table)
			    ->getCollInfo(context, func, bytes, 0, 0, ops, &algorithm, &protocol, &choice.channels);
		choice.choice = algorithm < 0 || protocol < 0 ? -1 : algorithm * 8 + protocol;
		*ret = choice;
		return r;
	}
	r = call_table(tuner, context, func, bytes, ops, registered, costs, &choice.channels);
	for (int a = 0; a < NCCL_ALGO_COUNT; a++)
		for (int p = 0; p < NCCL_PROTO_COUNT; p++) {
			choice.refused += (before[a][p] < 0) != (costs[a][p] < 0) || isnan(costs[a][p]);
			if (costs[a][p] >= 0 && (least < 0 || costs[a][p] < least)) {
				least = costs[a][p];
				choice.choice = a * 8 + p;
			}
		}
	*ret = choice;
	return r;
}

void tuner_profiler_open(void *library, int version, uint64_t comm_id, size_t rank_count, size_t node_count,
			 nccl_debug_logger *logger, struct tuner_profiler *ret)
{
	static int mask; /* NCCL's, of the process */
	char symbol[32];

	snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", version);
	*ret = (struct tuner_profiler){ .table = library && version >= 5 ? dlsym(library, symbol) : NULL };
	if (ret->table)
		(void)ret->table->init(&ret->context, comm_id, &mask, NULL, (int)node_count, (int)rank_count, 0,
				       logger);
}

void tuner_profiler_close(struct tuner_profiler *profiler)
{
	if (profiler->context)
		(void)profiler->table->finalize(profiler->context);
}

/* A group of so many calls begins. */
static void tell_calls(const struct tuner_profiler *profiler, unsigned count)
{
	struct nccl_profiler_event_v5 event = { .type = NCCL_PROFILER_COLL_API };
	void *handle;

	event.collApi.func = "AllReduce";
	event.collApi.datatype = "ncclFloat32";
	for (unsigned i = 0; i < count && profiler->context; i++) {
		(void)profiler->table->startEvent(profiler->context, &handle, &event);
		(void)profiler->table->stopEvent(handle);
	}
}

void tuner_table_follow(const struct tuner_table *tuner, void *context, const struct tuner_profiler *profiler,
			struct tuner_answers *ret)
{
	enum { GROUP = 2, QUESTIONS = 4 };

	*ret = (struct tuner_answers){ 0, 0 };
	for (unsigned i = 0; i < QUESTIONS; i++) {
		uint32_t *hash = i < GROUP ? &ret->first : &ret->rest;
		float costs[NCCL_ALGO_COUNT][NCCL_PROTO_COUNT], least = FLT_MAX;
		uint32_t answer = 0;
		int channels = 0;

		if (i % GROUP == 0)
			tell_calls(profiler, GROUP);
		for (int a = 0; a < NCCL_ALGO_COUNT; a++)
			for (int p = 0; p < NCCL_PROTO_COUNT; p++)
				costs[a][p] = a > 1 ? NCCL_COST_FORBIDDEN : (float)(50 + 10 * p - a);
		if (tuner->version > 2)
			(void)call_table(tuner, context, NCCL_FUNC_ALLREDUCE, (size_t)1 << (37 + i), 1, 0, costs,
					 &channels);
		for (int a = 0; a < 2; a++)
			for (int p = 0; p < NCCL_PROTO_COUNT; p++)
				if (costs[a][p] >= 0 && costs[a][p] < least) {
					least = costs[a][p];
					answer = (uint32_t)(1 + (a * 8 + p) * 64 + channels);
				}
		*hash = *hash * 31 + answer;
	}
}

int tuner_table_end(const struct tuner_table *tuner, void *context)
{
	switch (tuner->version) {
	case 2:
		return (int)((const struct nccl_tuner_v2 *)tuner->table)->destroy(context);
	case 3:
		return (int)((const struct nccl_tuner_v3 *)tuner->table)->destroy(context);
	case 4:
		return (int)((const struct nccl_tuner_v4 *)tuner->table)->destroy(context);
	case 5:
		return (int)((const struct nccl_tuner_v5 *)tuner->table)->finalize(context);
	default:
		return (int)((const struct nccl_tuner_v6 *)tuner->table)->finalize(context);
	}
}
