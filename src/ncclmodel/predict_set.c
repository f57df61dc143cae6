/* SPDX-License-Identifier: Apache-2.0 */
#include "tributary/predict.h"

#include <string.h>

static bool is_aggregated(enum plan_pattern pattern)
{
	return pattern == PLAN_CHAIN || pattern == PLAN_DIRECT;
}

/* 0: the set says nothing of that many. */
static uint64_t rate_among(const struct plan_set *set, enum plan_pattern pattern, size_t node_count)
{
	if (node_count < 2)
		return set->intra_Bps[pattern];
	return node_count > 2 ? set->many_Bps[pattern] : set->inter_Bps[pattern];
}

/* Where aggregating moves no fewer bytes than a ring, it is not to be taken for what is large. */
enum { PERMILLE = 1000, NO_GAIN_PERMILLE = 500 };

/*
 * A chain's rate is what passes if the network adds: each NIC sends and receives everything once. Hosts that aggregate
 * move up to twice as much, as a ring's do, but where leaves and aggregators save it.
 */
static double chain_part(const struct plan_set *set)
{
	unsigned gain = set->chain_gain_permille ? set->chain_gain_permille : NO_GAIN_PERMILLE;

	return gain < 2 * PERMILLE ? gain / (2.0 * PERMILLE) : 1;
}

/*
 * Our rate of a tree or chain is what the collective gets: every hop is charged up and down. NCCL's model takes half of what
 * it is told, whichever way channels point.
 */
static double as_nccl_counts(const struct plan_set *set, enum plan_pattern pattern, size_t node_count)
{
	uint64_t rate_Bps = rate_among(set, pattern, node_count);

	if (pattern == PLAN_DIRECT || pattern == PLAN_TREE)
		rate_Bps *= 2;
	else if (pattern == PLAN_CHAIN)
		rate_Bps = 2 * rate_Bps < set->one_way_Bps ? 2 * rate_Bps : set->one_way_Bps;
	return (double)rate_Bps / 1e9 * (is_aggregated(pattern) ? chain_part(set) : 1);
}

/*
 * NCCL lets the direct way count for less where heads are fewer than GPUs, and from sm 90 on for less anyhow (seen in the
 * tables of both versions): a speed is that much higher, so that it comes to what the heads move.
 */
static double direct_part(const struct plan *plan, int sm)
{
	double gpus_each = plan->channel_count ? (double)plan->gpu_count / (double)plan->channel_count : 1;

	return (gpus_each + 1) / 2 / (sm >= 90 ? 0.85 : 1);
}

void predict_speeds_of_set(const struct plan_set *set, enum plan_pattern pattern, int sm, struct predict_speeds *ret)
{
	double part = pattern == PLAN_DIRECT ? direct_part(&set->plans[pattern], sm) : 1;
	bool one = set->where == PLAN_ONE_HOST;

	ret->intra_GBps = as_nccl_counts(set, pattern, one ? 1 : 2) * part;
	ret->inter_GBps = as_nccl_counts(set, pattern, one ? 1 : 3) * part;
	if (is_aggregated(pattern)) {
		ret->intra_GBps /= PREDICT_CHAIN_VEIL;
		ret->inter_GBps /= PREDICT_CHAIN_VEIL;
	}
}

static void graph_of_plan(const struct plan_set *set, enum plan_pattern pattern, const struct predict_speeds *speeds,
			  struct predict_graph *ret)
{
	const struct plan *plan = &set->plans[pattern];

	*ret = (struct predict_graph){
		.usable = speeds->intra_GBps > 0,
		.channel_count = plan->channel_count,
		.intra_GBps = speeds->intra_GBps,
		.inter_GBps = speeds->inter_GBps,
		.intra_class = plan->intra_class,
		.inter_class = plan->inter_class,
		.at_first_gpu = pattern == PLAN_TREE && !set->tree_balanced,
	};
}

static void communicator_of(const struct plan_set *set, size_t node_count, bool as_file,
			    struct predict_communicator *ret)
{
	struct predict_graph graphs[PLAN_PATTERN_COUNT] = { 0 };
	size_t gpu_count = 0;

	for (int p = 0; p < PLAN_PATTERN_COUNT; p++) {
		enum plan_pattern pattern = (enum plan_pattern)p;
		struct predict_speeds speeds;

		if (!set->has[p])
			continue;
		speeds.intra_GBps = as_nccl_counts(set, pattern, node_count);
		speeds.inter_GBps = speeds.intra_GBps;
		if (as_file)
			predict_speeds_of_set(set, pattern, 0, &speeds); /* of direct heads nothing is predicted */
		graph_of_plan(set, pattern, &speeds, &graphs[p]);
		gpu_count = set->plans[p].gpu_count;
	}
	*ret = (struct predict_communicator){
		.rank_count = gpu_count * node_count,
		.node_count = node_count,
		.ring = graphs[PLAN_RING],
		.tree = graphs[PLAN_TREE],
		.chain = graphs[PLAN_CHAIN],
		.constants = predict_constants_default,
	};
}

void predict_of_set(const struct plan_set *set, size_t node_count, struct predict_communicator *ret)
{
	communicator_of(set, node_count, false, ret);
}

void predict_of_file(const struct plan_set *set, size_t node_count, struct predict_communicator *ret)
{
	communicator_of(set, node_count, true, ret);
}

void predict_of_machine(const struct topology *topology, const struct plan_request *request,
			struct predict_communicator *ret)
{
	uint32_t cpu;

	ret->sm = 0;
	ret->cpu = PREDICT_CPU_OTHER;
	for (size_t i = 0; i < request->gpu_count; i++) {
		int sm = topology->vertices[request->gpus[i]].gpu.sm;

		if (i == 0 || sm < ret->sm)
			ret->sm = sm;
	}
	cpu = request->gpu_count ? topology_cpu_of(topology, request->gpus[0]) : TOPOLOGY_NONE;
	if (cpu == TOPOLOGY_NONE)
		return;
	if (strcmp(topology->vertices[cpu].cpu.vendor, "AuthenticAMD") == 0)
		ret->cpu = PREDICT_CPU_AMD;
	else if (strcmp(topology->vertices[cpu].cpu.vendor, "GenuineIntel") == 0)
		ret->cpu = PREDICT_CPU_INTEL;
}
