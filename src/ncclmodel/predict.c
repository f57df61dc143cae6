/* SPDX-License-Identifier: Apache-2.0 */
#include "tributary/predict.h"

#include <errno.h>

/*
 * The model in our own terms. A collective is a line of steps, some over the wire inside a node (near), some between
 * nodes (far); its bytes go at the rate of all channels, less what the protocol spends, times the share of the bytes that
 * each link must carry.
 */
struct steps {
	double near, far; /* on the longest way through the collective */
};

#define TREE_PART       0.92 /* of its wires' rate */
#define LARGE_TREE_PART 0.85 /* of the links' rate: a tree that is hardly better is not taken */

enum {
	FIRST_SIZE_LOG2 = 6, /* of tree_share: 64 bytes */
	SIZES = 23,
	LARGE_BYTES = 8 << 20, /* an operation on up to LARGE_HOPS + 1 GPUs; more in proportion */
	LARGE_HOPS = 3,
	BATCH_MOST = 8, /* operations that start together: so many in 2.30.7, 10 in 2.28.9 */
};

/* Percent of a tree's rate that NCCL expects for AllReduce of 64 B, 128 B, ... 256 MiB. */
static const unsigned char tree_share[PREDICT_PROTOCOL_COUNT]
				     [SIZES] = {
					     [PREDICT_LL] = { 100, 100, 100, 100, 90, 80, 70, 70,  70,  70,  60, 50,
							      40,  40,  50,  60,  70, 80, 90, 100, 100, 100, 100 },
					     [PREDICT_LL128] = { 100, 100, 100, 100, 100, 90, 80, 80, 80, 70,  60, 60,
								 60,  60,  60,  60,  80,  90, 90, 90, 90, 100, 100 },
					     [PREDICT_SIMPLE] = { 90, 90, 90, 90, 90, 90, 90, 80, 70, 60, 60, 50,
								  50, 50, 50, 60, 70, 80, 70, 70, 80, 90, 90 },
				     };

static const struct predict_graph *graph_of(const struct predict_communicator *communicator,
					    enum predict_algorithm algorithm)
{
	switch (algorithm) {
	case PREDICT_RING:
		return &communicator->ring;
	case PREDICT_TREE:
	case PREDICT_PAT:
		return &communicator->tree;
	case PREDICT_COLLNET_CHAIN:
		return &communicator->chain;
	default:
		return NULL;
	}
}

static bool gathers(enum predict_collective collective)
{
	return collective == PREDICT_ALLGATHER || collective == PREDICT_REDUCESCATTER;
}

static bool algorithm_does(const struct predict_communicator *communicator, enum predict_algorithm algorithm,
			   enum predict_collective collective)
{
	switch (algorithm) {
	case PREDICT_RING:
		return true;
	case PREDICT_TREE:
	case PREDICT_COLLNET_CHAIN:
		return collective == PREDICT_ALLREDUCE;
	case PREDICT_PAT: /* one GPU in each node */
		return gathers(collective) && communicator->node_count == communicator->rank_count;
	default:
		return false;
	}
}

/* LL128 needs stores of 128 bytes to arrive whole: NVLink inside the node, and a NIC beside the GPU. */
static bool ll128_is_safe(const struct predict_communicator *communicator, const struct predict_graph *graph)
{
	enum topology_class farthest = communicator->sm >= 90 ? TOPOLOGY_CLASS_PXN : TOPOLOGY_CLASS_PXB;

	return communicator->sm >= 70 && graph->intra_class <= TOPOLOGY_CLASS_NVB && graph->inter_class <= farthest;
}

static bool protocol_does(const struct predict_communicator *communicator, enum predict_algorithm algorithm,
			  enum predict_protocol protocol)
{
	if (protocol != PREDICT_SIMPLE && (algorithm == PREDICT_COLLNET_CHAIN || algorithm == PREDICT_PAT))
		return false;
	return protocol != PREDICT_LL128 || ll128_is_safe(communicator, graph_of(communicator, algorithm));
}

static bool runs(const struct predict_communicator *communicator, enum predict_collective collective,
		 enum predict_algorithm algorithm, enum predict_protocol protocol)
{
	const struct predict_graph *graph = graph_of(communicator, algorithm);

	if (!graph || !graph->usable || !graph->channel_count || communicator->rank_count < 2 ||
	    !communicator->node_count || communicator->node_count > communicator->rank_count)
		return false;
	if (algorithm == PREDICT_COLLNET_CHAIN && communicator->node_count < 2)
		return false;
	return algorithm_does(communicator, algorithm, collective) && protocol_does(communicator, algorithm, protocol);
}

/* ------------------------------------------------------------------------------------------------------------- rate */

static double least(double a, double b)
{
	return a < b ? a : b;
}

static unsigned generation_of(int sm)
{
	return sm >= 100 ? 3 : sm >= 90 ? 2 : sm >= 80 ? 1 : 0;
}

static double wires_GBps(const struct predict_communicator *communicator, const struct predict_graph *graph,
			 enum predict_algorithm algorithm)
{
	bool inside = communicator->node_count <= 2 || algorithm == PREDICT_COLLNET_CHAIN;

	return (double)graph->channel_count * (inside ? graph->intra_GBps : graph->inter_GBps);
}

/* What the protocol leaves of the wires' rate, and the caps on it. */
static double protocol_GBps(const struct predict_communicator *communicator, const struct predict_graph *graph,
			    enum predict_algorithm algorithm, enum predict_protocol protocol)
{
	const struct predict_constants *constants = &communicator->constants;
	unsigned generation = generation_of(communicator->sm);
	unsigned nodes = communicator->node_count > 2 ? 2 : (unsigned)communicator->node_count - 1;
	/* Of several nodes the table means the CPU. */
	unsigned ll_row = nodes == 0 ? generation : communicator->cpu == PREDICT_CPU_AMD ? 1 : 0;
	double ll_most = constants->ll_most_GBps[ll_row][nodes];
	double channels = (double)graph->channel_count;
	double rate = wires_GBps(communicator, graph, algorithm);

	if (algorithm == PREDICT_PAT)
		return 0.75 * rate;
	if (algorithm == PREDICT_RING && protocol == PREDICT_LL) /* a flag for each word */
		return least(rate / 2, ll_most);
	if (algorithm == PREDICT_RING && protocol == PREDICT_LL128)
		return least(0.92 * rate, channels * constants->ring_ll128_channel_most_GBps[generation][nodes]);
	if (algorithm != PREDICT_TREE)
		return rate;
	rate = least(TREE_PART * rate, channels * constants->tree_channel_most_GBps[generation][nodes]);
	if (protocol == PREDICT_LL)
		rate = least(rate / 3.8, ll_most);
	if (protocol == PREDICT_LL128)
		rate = least(rate * (nodes == 0 ? 7.0 / 9 : 120.0 / 128),
			     channels * constants->tree_ll128_channel_most_GBps[generation][nodes]);
	return graph->at_first_gpu ? 0.85 * rate : rate;
}

/* Bytes of the collective for each byte on a link. */
static double share_of(const struct predict_communicator *communicator, enum predict_collective collective,
		       enum predict_algorithm algorithm)
{
	if (algorithm == PREDICT_PAT)
		return 1;
	if (algorithm != PREDICT_RING)
		return 0.5;
	/* NCCL divides by the steps: n for a broadcast, whose pipeline fills while it is under way. */
	return collective == PREDICT_BROADCAST || collective == PREDICT_REDUCE
		       ? 1
		       : 1 / predict_bus_factor(collective, communicator->rank_count);
}

/* ---------------------------------------------------------------------------------------------------------- latency */

static unsigned log2_down(uint64_t n)
{
	unsigned result = 0;

	while (n >>= 1)
		result++;
	return result;
}

static enum predict_wire near_wire(const struct predict_graph *graph)
{
	return graph->intra_class == TOPOLOGY_CLASS_NVL ? PREDICT_NVLINK : PREDICT_PCI;
}

static struct steps steps_of(const struct predict_communicator *communicator, enum predict_collective collective,
			     enum predict_algorithm algorithm)
{
	double ranks = (double)communicator->rank_count, nodes = (double)communicator->node_count;
	size_t local = communicator->rank_count / communicator->node_count;
	double inside = (double)local - 1;
	double rounds = collective == PREDICT_ALLREDUCE ? 2 : 1;

	switch (algorithm) {
	case PREDICT_RING:
		return (struct steps){ rounds * (ranks - nodes), rounds * (nodes - 1) };
	case PREDICT_TREE:
		return (struct steps){ 2 * inside, 2 * log2_down(communicator->node_count) };
	case PREDICT_COLLNET_CHAIN:
		return (struct steps){ 2 * inside, 1 };
	case PREDICT_PAT:
		return (struct steps){ 0, log2_down(communicator->node_count) / 3.5 };
	default:
		return (struct steps){ 0, 0 };
	}
}

/* The proxy's work for each message counts as soon as nodes take part, and three times for Simple. */
static double overhead_us(const struct predict_communicator *communicator, enum predict_protocol protocol)
{
	double overhead = communicator->cpu == PREDICT_CPU_AMD ? 2 : 1;

	return communicator->node_count < 2 ? 0 : protocol == PREDICT_SIMPLE ? 3 * overhead : overhead;
}

/* Broadcast and Reduce on a ring: one wire for all steps, and all of them exposed unless every channel is the same. */
static double rooted_us(const struct predict_communicator *communicator, enum predict_protocol protocol)
{
	const struct predict_graph *ring = &communicator->ring;
	enum predict_wire wire = communicator->node_count > 1 ? PREDICT_NETWORK : near_wire(ring);
	bool as_tree = !ring->same_channels && protocol == PREDICT_SIMPLE;
	double step_us = communicator->constants.wire_latency_us[wire][as_tree ? PREDICT_TREE : PREDICT_RING][protocol];

	return ring->same_channels ? step_us : (double)communicator->rank_count * step_us;
}

static double latency_us(const struct predict_communicator *communicator, const struct predict_graph *graph,
			 enum predict_collective collective, enum predict_algorithm algorithm,
			 enum predict_protocol protocol)
{
	const struct predict_constants *constants = &communicator->constants;
	struct steps steps = steps_of(communicator, collective, algorithm);
	/* With one GPU in each node nothing hides the network. */
	bool bare = communicator->rank_count == communicator->node_count;
	double base_us = constants->base_latency_us[algorithm][protocol];
	double near_us = constants->wire_latency_us[near_wire(graph)][algorithm][protocol];
	double far_us = constants->wire_latency_us[PREDICT_NETWORK][bare ? PREDICT_TREE : algorithm][protocol];

	far_us += graph->inter_latency_us * (protocol == PREDICT_SIMPLE ? 2 : 1);
	if (algorithm == PREDICT_RING && !gathers(collective) && collective != PREDICT_ALLREDUCE)
		return base_us + rooted_us(communicator, protocol);
	if (algorithm == PREDICT_RING && near_us < overhead_us(communicator, protocol))
		near_us = overhead_us(communicator, protocol);
	if (algorithm == PREDICT_PAT) /* each rank costs something, too */
		base_us += 2.8 * (double)communicator->rank_count;
	return base_us + steps.near * near_us + steps.far * far_us;
}

/* -------------------------------------------------------------------------------------------------------------- time */

int predict_cost_of(const struct predict_communicator *communicator, enum predict_collective collective,
		    enum predict_algorithm algorithm, enum predict_protocol protocol, struct predict_cost *ret)
{
	const struct predict_graph *graph;
	struct predict_cost cost;

	if (!runs(communicator, collective, algorithm, protocol))
		return -ENOENT;
	graph = graph_of(communicator, algorithm);
	cost.latency_us = latency_us(communicator, graph, collective, algorithm, protocol);
	cost.rate_GBps = protocol_GBps(communicator, graph, algorithm, protocol) *
			 share_of(communicator, collective, algorithm);
	if (!(cost.rate_GBps > 0))
		return -ENOENT;
	*ret = cost;
	return 0;
}

/* Between nodes a ring of more than 64 bytes a rank and channel is slower to start. */
static double plateau(const struct predict_communicator *communicator, enum predict_collective collective,
		      enum predict_algorithm algorithm, enum predict_protocol protocol, uint64_t bytes)
{
	size_t channels = communicator->run_channel_count ? communicator->run_channel_count
							  : 2 * communicator->ring.channel_count;

	if (algorithm != PREDICT_RING || protocol != PREDICT_SIMPLE || collective != PREDICT_ALLREDUCE ||
	    communicator->node_count < 2 || bytes / (channels * communicator->rank_count) < 64)
		return 1;
	return communicator->sm < 80 ? 1.9 : 1.4;
}

/* Smaller operations depend on the time of each step, which no profile has. */
static bool links_decide(const struct predict_communicator *communicator, enum predict_algorithm algorithm,
			 enum predict_protocol protocol, uint64_t bytes, unsigned operations)
{
	const uint64_t hops = communicator->rank_count - 1;

	return communicator->links_decide && algorithm == PREDICT_TREE && protocol == PREDICT_SIMPLE &&
	       bytes / operations >= LARGE_BYTES * (hops > LARGE_HOPS ? hops : LARGE_HOPS) / LARGE_HOPS;
}

/*
 * The mean of two rates: what the links carry, and that under NCCL's cap of a channel, which stands for what thread blocks
 * can move.
 */
static double large_tree_GBps(const struct predict_communicator *communicator)
{
	const struct predict_graph *tree = &communicator->tree;
	const double links = LARGE_TREE_PART * wires_GBps(communicator, tree, PREDICT_TREE);
	const double most = (double)tree->channel_count *
			    communicator->constants.tree_channel_most_GBps[generation_of(communicator->sm)][0];

	return (links + least(links, most)) / 2 * share_of(communicator, PREDICT_ALLREDUCE, PREDICT_TREE);
}

double predict_time_grouped_us(const struct predict_communicator *communicator, enum predict_collective collective,
			       enum predict_algorithm algorithm, enum predict_protocol protocol, uint64_t bytes,
			       unsigned operations)
{
	unsigned size = log2_down(bytes);
	struct predict_cost cost;

	if (predict_cost_of(communicator, collective, algorithm, protocol, &cost) < 0)
		return -1;
	if (algorithm == PREDICT_TREE && size >= FIRST_SIZE_LOG2 && size < FIRST_SIZE_LOG2 + SIZES)
		cost.rate_GBps *= tree_share[protocol][size - FIRST_SIZE_LOG2] / 100.0;
	if (links_decide(communicator, algorithm, protocol, bytes, operations) &&
	    cost.rate_GBps < large_tree_GBps(communicator))
		cost.rate_GBps = large_tree_GBps(communicator);
	cost.latency_us *= plateau(communicator, collective, algorithm, protocol, bytes);
	/* A ring starts anew with each operation; the others do so once for each batch. */
	if (algorithm != PREDICT_RING)
		operations = operations / BATCH_MOST + (operations % BATCH_MOST != 0);
	return cost.latency_us * operations + (double)bytes / (1000 * cost.rate_GBps);
}

double predict_time_us(const struct predict_communicator *communicator, enum predict_collective collective,
		       enum predict_algorithm algorithm, enum predict_protocol protocol, uint64_t bytes)
{
	return predict_time_grouped_us(communicator, collective, algorithm, protocol, bytes, 1);
}

double predict_bus_factor(enum predict_collective collective, size_t rank_count)
{
	double ranks = (double)rank_count;

	if (collective == PREDICT_ALLREDUCE)
		return 2 * (ranks - 1) / ranks;
	return gathers(collective) ? (ranks - 1) / ranks : 1;
}

int predict_best(const struct predict_communicator *communicator, enum predict_collective collective, uint64_t bytes,
		 struct predict_choice *ret)
{
	struct predict_choice best = { .time_us = -1 };

	for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++) {
		for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++) {
			double time_us = predict_time_us(communicator, collective, (enum predict_algorithm)a,
							 (enum predict_protocol)p, bytes);

			if (time_us < 0 || (best.time_us >= 0 && time_us >= best.time_us))
				continue;
			best.algorithm = (enum predict_algorithm)a;
			best.protocol = (enum predict_protocol)p;
			best.time_us = time_us;
		}
	}
	if (best.time_us < 0)
		return -ENOENT;
	best.algbw_GBps = best.time_us > 0 ? (double)bytes / (1000 * best.time_us) : 0;
	best.busbw_GBps = best.algbw_GBps * predict_bus_factor(collective, communicator->rank_count);
	*ret = best;
	return 0;
}
