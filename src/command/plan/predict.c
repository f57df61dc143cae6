/* SPDX-License-Identifier: Apache-2.0 */
#include "command/plan/channels.h"

#include <string.h>

/* A tree's rate is the collective's, and NCCL's model halves what it is told. As predict_speeds_of_set() has it for ours. */
static double as_nccl_counts(const struct channels *channels, enum plan_pattern pattern)
{
	const struct channels_graph *graph = &channels->graphs[pattern];
	uint64_t rate_Bps = graph->rate_Bps;

	if (pattern != PLAN_RING && channels->has[pattern])
		rate_Bps *= 2;
	return (double)rate_Bps / 1e9;
}

static struct predict_graph graph_of(const struct channels *channels, enum plan_pattern pattern, bool believed)
{
	const struct channels_graph *graph = &channels->graphs[pattern];
	double GBps = as_nccl_counts(channels, pattern);

	return (struct predict_graph){
		.usable = channels->has[pattern],
		.channel_count = channels_count(graph),
		.intra_GBps = believed ? graph->believed_intra_GBps : GBps,
		.inter_GBps = believed ? graph->believed_inter_GBps : GBps,
		.intra_class = graph->plan.intra_class,
		.inter_class = graph->plan.inter_class,
		.same_channels = believed && graph->believed_same, /* really each step takes its time */
		.at_first_gpu = pattern == PLAN_TREE && channels->request.gpu_count < 2,
	};
}

void channels_predict(const struct channels *channels, bool believed, struct predict_communicator *ret)
{
	const struct plan_request *request = &channels->request;

	memset(ret, 0, sizeof(*ret));
	ret->node_count = request->hosts;
	ret->rank_count = request->gpu_count * request->hosts;
	ret->constants = predict_constants_default;
	ret->ring = graph_of(channels, PLAN_RING, believed);
	ret->tree = graph_of(channels, PLAN_TREE, believed);
	predict_of_machine(channels->topology, request, ret);
}
