#include "tributary/predict.h"

enum {
	ALGORITHMS_MAX = 64, /* more is no table of costs */
	NODES_LEAST = 3,
	SMALL_BYTES = 4 << 20, /* up to here nothing that was measured (perf/run small) says that it is faster */
};
/* Somewhat dearer than the cheapest: not taken, and there all the same if NCCL drops the others. */
#define NOT_TAKEN   1.1
/* Times a ring's cost. Veiled, it is about forty times and more; what NCCL finds by itself is nowhere near that. */
#define VEILED_FROM 16

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

static double cost_among(size_t node_count, uint64_t bytes, int collective, double cost, double ring, double other)
{
	double no_less = cost > NOT_TAKEN * other ? cost : NOT_TAKEN * other;

	if (collective != PREDICT_ALLREDUCE || node_count < NODES_LEAST || bytes <= SMALL_BYTES)
		return no_less;
	return ring >= 0 && cost > VEILED_FROM * ring ? cost / PREDICT_CHAIN_VEIL : no_less;
}

bool predict_collnet_edit(size_t node_count, int collective, uint64_t bytes, const struct predict_table *table)
{
	bool is_changed = false;
	float ring, other;

	if (!is_aggregated_collective(collective) || node_count < 2 || !table->costs ||
	    table->protocol_count != PREDICT_PROTOCOL_COUNT || table->algorithm_count <= PREDICT_COLLNET_CHAIN ||
	    table->algorithm_count > ALGORITHMS_MAX)
		return false;
	ring = *cost_of(table, PREDICT_RING, PREDICT_SIMPLE);
	other = cheapest_other(table);
	if (!(other >= 0)) /* asked for by name */
		return false;
	for (size_t i = 0; i < sizeof(aggregated) / sizeof(aggregated[0]); i++) {
		float *cost = cost_of(table, (int)aggregated[i], PREDICT_SIMPLE);

		if (!(*cost >= 0)) /* not NaN */
			continue;
		*cost = (float)cost_among(node_count, bytes, collective, (double)*cost, (double)ring, (double)other);
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
