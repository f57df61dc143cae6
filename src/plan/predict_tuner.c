#include "tributary/predict.h"

#include <math.h>

enum {
	ALGORITHMS_MAX = 64, /* more is no table of costs */
	EDITED_COUNT = 2,    /* of algorithms */
};
/* NCCL counts in floats, and a later release may have mended a constant a little. */
#define RECOGNISED_WITHIN 0.02

static const enum predict_algorithm edited[EDITED_COUNT] = { PREDICT_TREE, PREDICT_RING };

static bool differ(const struct predict_graph *a, const struct predict_graph *b)
{
	return a->intra_GBps < b->intra_GBps || a->intra_GBps > b->intra_GBps;
}

void predict_tuner_make(const struct plan_set *set, size_t rank_count, size_t node_count, int sm,
			const struct predict_constants *constants, struct predict_tuner *ret)
{
	ret->collnet = (struct predict_collnet){ 0 };
	predict_of_file(set, node_count, &ret->file);
	predict_of_set(set, node_count, &ret->truth);
	ret->file.sm = sm;
	ret->truth.sm = sm;
	if (constants) {
		ret->file.constants = *constants;
		ret->truth.constants = *constants;
	}
	/* Where the file told NCCL the truth there is nothing to say. */
	ret->edits = node_count == 1 && rank_count > 1 && rank_count == ret->file.rank_count &&
		     ret->truth.ring.usable && ret->truth.tree.usable &&
		     (differ(&ret->file.ring, &ret->truth.ring) || differ(&ret->file.tree, &ret->truth.tree));
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

static float *cost_of(const struct predict_table *table, enum predict_algorithm algorithm, int protocol)
{
	return &table->costs[(int)algorithm * table->protocol_count + protocol];
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
			float cost = *cost_of(table, edited[i], p);

			if (cost < 0)
				continue;
			if (!is_near((double)cost, time_of(question, &question->tuner->file, edited[i], p)))
				return false;
			seen++;
		}
	}
	return seen > 0;
}

static bool has_known_shape(const struct predict_table *table)
{
	return table->costs && table->protocol_count == PREDICT_PROTOCOL_COUNT &&
	       table->algorithm_count > PREDICT_RING && table->algorithm_count <= ALGORITHMS_MAX;
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
			float *cost = cost_of(table, edited[i], p);
			double file_us = time_of(&question, &tuner->file, edited[i], p);
			double truth_us = time_of(&question, &tuner->truth, edited[i], p);

			if (*cost >= 0)
				*cost = (float)((double)*cost * (truth_us / file_us));
		}
	}
	return true;
}
