/* SPDX-License-Identifier: Apache-2.0 */
#include "tributary/predict.h"

#include <math.h>

enum {
	PERMILLE = 1000,
	ALGORITHMS_MAX = 64, /* more is no table of costs */
	NODES_LEAST = 3,
	BATCH_MOST = 8, /* operations that start together; nccl: 10 in 2.28.9 */
	/* What was measured (perf/run small): two steps at most, where a tree takes more. */
	SMALL_BYTES = 64 << 10,
	SMALL_NODES_MOST = 8,
	AGREED_BYTES = 512 << 10,
	LARGE_BYTES = 4 << 20, /* between these nothing that was measured says that it is faster */
	EDITED_COUNT = 2,      /* of algorithms on one host */
};
/* NCCL counts in floats, and a later release may have mended a constant a little. */
#define RECOGNISED_WITHIN 0.02
/* Of the time of the better of ring and tree, as measured. */
#define SMALL_SHARE       0.7
#define LATENCY_MOST_US   1e6
/* Somewhat dearer than the cheapest: not taken, and there all the same if NCCL drops the others. */
#define NOT_TAKEN         1.1
/* Times a ring's cost. Veiled, it is about forty times and more; what NCCL finds by itself is nowhere near that. */
#define VEILED_FROM       16

static const enum predict_algorithm aggregated[] = { PREDICT_COLLNET_DIRECT, PREDICT_COLLNET_CHAIN };

static bool is_aggregated(int algorithm)
{
	return algorithm == PREDICT_COLLNET_DIRECT || algorithm == PREDICT_COLLNET_CHAIN;
}

static float *cost_of(const struct predict_table *table, int algorithm, int protocol)
{
	return &table->costs[algorithm * table->protocol_count + protocol];
}

/* Below 0: nothing else is allowed. */
static float cheapest_other(const struct predict_table *table)
{
	float least = -1;

	for (int a = 0; a < table->algorithm_count; a++) {
		for (int p = 0; p < table->protocol_count && !is_aggregated(a); p++) {
			float cost = *cost_of(table, a, p);

			if (cost >= 0 && (least < 0 || cost < least))
				least = cost;
		}
	}
	return least;
}

/* What NCCL may give to collnet; of the other two nothing is known to gain, so they are never taken for their cost. */
static bool is_aggregated_collective(int collective)
{
	return collective == PREDICT_ALLREDUCE || collective == PREDICT_ALLGATHER ||
	       collective == PREDICT_REDUCESCATTER;
}

/* Of this something that was measured says that hosts which aggregate can gain. */
static bool may_gain(size_t node_count, int collective, uint64_t bytes)
{
	return collective == PREDICT_ALLREDUCE && node_count >= NODES_LEAST && bytes > LARGE_BYTES;
}

static bool gains_steps(const struct predict_collnet *collnet, int collective, uint64_t bytes)
{
	return collective == PREDICT_ALLREDUCE && collnet->sizes_chunks && bytes <= SMALL_BYTES &&
	       collnet->node_count >= NODES_LEAST && collnet->node_count <= SMALL_NODES_MOST;
}

static bool gains_by_agreement(const struct predict_collnet *collnet, int collective, uint64_t bytes)
{
	return collective == PREDICT_ALLREDUCE && collnet->gain_permille > PERMILLE && bytes >= AGREED_BYTES;
}

/* In the host GPUs pass it on by a slower protocol than a tree's. */
static double small_us(double other, double latency_us)
{
	return latency_us > SMALL_SHARE * other ? latency_us : SMALL_SHARE * other;
}

static double not_taken(double cost, double other)
{
	return cost > NOT_TAKEN * other ? cost : NOT_TAKEN * other;
}

static bool has_known_shape(const struct predict_table *table)
{
	return table->costs && table->protocol_count == PREDICT_PROTOCOL_COUNT &&
	       table->algorithm_count > PREDICT_COLLNET_CHAIN && table->algorithm_count <= ALGORITHMS_MAX;
}

static double latency_of(const struct predict_collnet *collnet, enum predict_algorithm algorithm)
{
	return algorithm == PREDICT_COLLNET_CHAIN ? collnet->chain_latency_us : collnet->direct_latency_us;
}

void predict_collnet_truth(const struct predict_collnet *collnet, int collective, uint64_t bytes,
			   const struct predict_table *table)
{
	float other;

	if (collnet->node_count < 2 || !has_known_shape(table) || may_gain(collnet->node_count, collective, bytes))
		return;
	other = cheapest_other(table);
	for (size_t i = 0; other >= 0 && i < sizeof(aggregated) / sizeof(aggregated[0]); i++) {
		float *cost = cost_of(table, (int)aggregated[i], PREDICT_SIMPLE);

		if (!(*cost >= 0))
			continue;
		if (aggregated[i] == PREDICT_COLLNET_CHAIN && gains_steps(collnet, collective, bytes))
			*cost = (float)small_us((double)other, latency_of(collnet, aggregated[i]));
		else
			*cost = (float)not_taken((double)*cost, (double)other);
	}
}

/*
 * NCCL's own latencies, as its model adds them. GPUs of a node count as joined by PCI: what each host's graph says is not
 * known to all ranks, and for collnet NCCL's constants are the same for NVLink. Heads are reached in one step each way.
 */
static double latency_by(const struct predict_constants *of, enum predict_algorithm algorithm, size_t others)
{
	double steps = algorithm == PREDICT_COLLNET_CHAIN ? (double)others : others ? 1 : 0;

	/* With one GPU in each node nothing hides the network. */
	return of->base_latency_us[algorithm][PREDICT_SIMPLE] +
	       2 * steps * of->wire_latency_us[PREDICT_PCI][algorithm][PREDICT_SIMPLE] +
	       of->wire_latency_us[PREDICT_NETWORK][others ? algorithm : PREDICT_TREE][PREDICT_SIMPLE];
}

/* By what NCCL says of its constants, if that is a time at all. */
static double latency_us_of(const struct predict_constants *constants, enum predict_algorithm algorithm, size_t others)
{
	double us = constants ? latency_by(constants, algorithm, others) : -1;

	return us >= 0 && us < LATENCY_MOST_US ? us : latency_by(&predict_constants_default, algorithm, others);
}

void predict_collnet_make(size_t rank_count, size_t node_count, const struct predict_constants *constants,
			  struct predict_collnet *ret)
{
	size_t others = node_count && rank_count > node_count ? rank_count / node_count - 1 : 0;

	ret->node_count = node_count;
	ret->sizes_chunks = false;
	ret->gain_permille = 0;
	ret->chain_latency_us = latency_us_of(constants, PREDICT_COLLNET_CHAIN, others);
	ret->direct_latency_us = latency_us_of(constants, PREDICT_COLLNET_DIRECT, others);
}

struct others {
	double ring, cheapest; /* below 0: not allowed */
};

/* The veil is on the rate alone. */
static double unveiled(double cost, double latency_us)
{
	return cost > latency_us ? latency_us + (cost - latency_us) / PREDICT_CHAIN_VEIL : cost;
}

static double cost_among(const struct others *others, double cost, double latency_us)
{
	double measure = others->ring >= 0 ? others->ring : others->cheapest;

	return cost > VEILED_FROM * measure ? unveiled(cost, latency_us) : not_taken(cost, others->cheapest);
}

bool predict_collnet_edit(const struct predict_collnet *collnet, int collective, uint64_t bytes, int operations,
			  const struct predict_table *table)
{
	double batches = operations > BATCH_MOST ? (operations + BATCH_MOST - 1) / BATCH_MOST : 1;
	bool is_changed = false;
	struct others others;

	if (!is_aggregated_collective(collective) || collnet->node_count < 2 || !has_known_shape(table))
		return false;
	others.ring = (double)*cost_of(table, PREDICT_RING, PREDICT_SIMPLE);
	others.cheapest = (double)cheapest_other(table);
	if (!(others.cheapest >= 0)) /* asked for by name */
		return false;
	for (size_t i = 0; i < sizeof(aggregated) / sizeof(aggregated[0]); i++) {
		double latency_us = latency_of(collnet, aggregated[i]);
		float *cost = cost_of(table, (int)aggregated[i], PREDICT_SIMPLE);

		if (!(*cost >= 0)) /* not NaN */
			continue;
		if (aggregated[i] == PREDICT_COLLNET_CHAIN && gains_steps(collnet, collective, bytes))
			*cost = (float)small_us(others.cheapest, latency_us * batches);
		else if (aggregated[i] == PREDICT_COLLNET_CHAIN && gains_by_agreement(collnet, collective, bytes))
			*cost = (float)(others.cheapest * PERMILLE / collnet->gain_permille);
		else if (may_gain(collnet->node_count, collective, bytes))
			*cost = (float)cost_among(&others, (double)*cost, latency_us * batches);
		else
			*cost = (float)not_taken((double)*cost, others.cheapest);
		is_changed = true;
	}
	return is_changed;
}

size_t predict_chunk_bytes(int collective, int algorithm, int protocol, uint64_t bytes, size_t chunk_bytes)
{
	enum { GRAIN_BYTES = 512 }; /* NCCL rounds chunks of this protocol down to that */

	if (collective != PREDICT_ALLREDUCE || algorithm != PREDICT_COLLNET_CHAIN || protocol != PREDICT_SIMPLE ||
	    !bytes || bytes >= chunk_bytes || bytes + GRAIN_BYTES - 1 >= chunk_bytes)
		return chunk_bytes;
	return (size_t)((bytes + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES);
}

/* ---------------------------------------------------------------------------------------------------------- one host */

static const enum predict_algorithm edited[EDITED_COUNT] = { PREDICT_TREE, PREDICT_RING };

static bool differ(const struct predict_graph *a, const struct predict_graph *b)
{
	return a->intra_GBps < b->intra_GBps || a->intra_GBps > b->intra_GBps;
}

bool predict_tuner_differs(const struct predict_tuner *tuner)
{
	return differ(&tuner->file.ring, &tuner->truth.ring) || differ(&tuner->file.tree, &tuner->truth.tree);
}

void predict_tuner_make(const struct plan_set *set, size_t rank_count, size_t node_count, int sm,
			const struct predict_constants *constants, struct predict_tuner *ret)
{
	ret->collnet = (struct predict_collnet){ 0 };
	predict_of_file(set, node_count, &ret->file);
	predict_of_set(set, node_count, &ret->truth);
	ret->file.sm = sm;
	ret->truth.sm = sm;
	ret->truth.links_decide = node_count == 1;
	if (constants) {
		ret->file.constants = *constants;
		ret->truth.constants = *constants;
	}
	ret->edits = node_count == 1 && rank_count > 1 && rank_count == ret->file.rank_count &&
		     ret->truth.ring.usable && ret->truth.tree.usable;
}

struct question {
	const struct predict_tuner *tuner;
	enum predict_collective collective;
	uint64_t bytes;
	unsigned operations;
};

static double time_of(const struct question *question, const struct predict_communicator *communicator,
		      enum predict_algorithm algorithm, int protocol)
{
	return predict_time_grouped_us(communicator, question->collective, algorithm, (enum predict_protocol)protocol,
				       question->bytes, question->operations);
}

static bool is_near(double cost, double expected)
{
	return expected > 0 && fabs(cost - expected) <= RECOGNISED_WITHIN * expected; /* not NaN */
}

/* Is each allowed entry that would be edited what NCCL's model makes of the graph file? At least one must be there. */
static bool recognised(const struct question *question, const struct predict_table *table)
{
	unsigned seen = 0;

	for (int i = 0; i < EDITED_COUNT; i++) {
		for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++) {
			float cost = *cost_of(table, (int)edited[i], p);

			if (cost < 0)
				continue;
			if (!is_near((double)cost, time_of(question, &question->tuner->file, edited[i], p)))
				return false;
			seen++;
		}
	}
	return seen > 0;
}

bool predict_tuner_edit(const struct predict_tuner *tuner, int collective, uint64_t bytes, int operations,
			const struct predict_table *table)
{
	struct question question = { tuner, (enum predict_collective)collective, bytes, (unsigned)operations };

	if (tuner->collnet.node_count)
		return predict_collnet_edit(&tuner->collnet, collective, bytes, operations, table);
	if (!tuner->edits || collective < 0 || collective >= PREDICT_COLLECTIVE_COUNT || operations < 1 ||
	    !has_known_shape(table) || !recognised(&question, table))
		return false;
	for (int i = 0; i < EDITED_COUNT; i++) {
		for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++) {
			float *cost = cost_of(table, (int)edited[i], p);
			double file_us = time_of(&question, &tuner->file, edited[i], p);
			double truth_us = time_of(&question, &tuner->truth, edited[i], p);

			if (*cost >= 0)
				*cost = (float)((double)*cost * (truth_us / file_us));
		}
	}
	return true;
}
