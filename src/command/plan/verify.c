/* SPDX-License-Identifier: Apache-2.0 */
#include "command/plan/internal.h"

#include "command/command.h"
#include "command/show/view.h"
#include "ncclmodel/search.h"
#include "ncclxml/topology_xml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The verifier's loads and rate. Returns -errno. */
static int verifier(const struct channels *channels, const struct plan_request *request, struct channels_graph *graph,
		    struct diag *diag)
{
	struct plan_load *loads;
	size_t count;
	int r = plan_verify_loads(channels->topology, request, &graph->plan, &loads, &count, diag);

	if (r < 0)
		return r;
	graph->rate_Bps = PLAN_UNBOUNDED_BPS;
	for (size_t i = 0; i < count; i++) {
		uint64_t crossings = loads[i].crossings * graph->copies;

		loads[i].crossings = crossings;
		if (loads[i].capacity_Bps && loads[i].capacity_Bps / crossings < graph->rate_Bps)
			graph->rate_Bps = loads[i].capacity_Bps / crossings;
	}
	free(graph->loads);
	graph->loads = loads;
	graph->load_count = count;
	return 0;
}

void channels_begin(const struct topology *topology, const struct plan_request *request, enum plan_where where,
		    const char *maker, struct channels *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->topology = topology;
	ret->request = *request;
	ret->where = where;
	snprintf(ret->maker, sizeof(ret->maker), "%s", maker);
}

/* ------------------------------------------------------------------------------------------------------------- ours */

static int no_plan(const struct plan_request *request, int error)
{
	if (error == -ENODATA)
		command_say("no channels are good both inside one host and between several; NCCL would be left to "
			    "search by itself");
	else if (error == -ENOENT)
		command_say("there are GPUs between which no data can pass: see `tributary doctor`");
	else
		return command_failed(NULL, error, "no channels can be planned for %zu GPUs", request->gpu_count);
	return COMMAND_FAILED;
}

static int take_set(struct channels *channels)
{
	struct plan_request request = channels->request;

	for (int i = 0; i < PLAN_PATTERN_COUNT; i++) {
		struct channels_graph *graph = &channels->graphs[i];
		struct diag diag = { 0 };
		int r;

		if (!channels->set.has[i])
			continue;
		graph->plan = channels->set.plans[i];
		graph->copies = 1;
		request.crossnic = graph->plan.crossnic;
		r = plan_verify(channels->topology, &request, &graph->plan, &diag);
		if (r == 0)
			r = verifier(channels, &request, graph, &diag);
		if (r < 0)
			return command_failed(&diag, r, "the %s was planned wrongly",
					      channels_pattern_word((enum plan_pattern)i));
		channels->has[i] = true;
	}
	return COMMAND_OK;
}

int channels_plan(const struct topology *topology, const struct plan_request *request, enum plan_where where,
		  struct channels *ret)
{
	int status, r;

	channels_begin(topology, request, where, "Tributary", ret);
	r = plan_make_set(topology, request, where, &ret->set);
	if (r < 0)
		return no_plan(request, r);
	/* What is verified as on several hosts, where nobody can tell. */
	if (where == PLAN_EITHER)
		ret->request.hosts = 2;
	status = take_set(ret);
	if (status != COMMAND_OK)
		channels_fini(ret);
	return status;
}

/* ----------------------------------------------------------------------------------------------------------- NCCL's */

/* Whoever leaves by another NIC than it came by needs to be allowed to. */
static bool crosses(const struct plan *plan)
{
	for (size_t i = 0; i < plan->channel_count; i++)
		if (plan->channels[i].nic_in != plan->channels[i].nic_out)
			return true;
	return false;
}

void channels_believe(struct channels *channels, enum plan_pattern pattern, double intra_GBps, double inter_GBps)
{
	struct channels_graph *graph = &channels->graphs[pattern];
	/* nccl: graph/tuning.cc; among two hosts it goes by the speed inside. */
	double GBps = channels->request.hosts > 2 ? inter_GBps : intra_GBps;

	graph->believed_intra_GBps = intra_GBps;
	graph->believed_inter_GBps = inter_GBps;
	/* A tree's collective gets half of what a hop does: NCCL halves it later, the verifier at once. */
	graph->plan.rate_Bps = (uint64_t)(GBps * 1e9 / (pattern == PLAN_RING ? 1 : 2));
}

int channels_verify_other(struct channels *channels, enum plan_pattern pattern, struct diag *diag)
{
	struct channels_graph *graph = &channels->graphs[pattern];
	struct plan_request request = channels->request;
	int r;

	request.channels_max = 0;
	/* The verifier knows one NIC a tree: that by which the first GPU is reached. */
	for (size_t i = 0; i < graph->plan.channel_count && pattern != PLAN_RING; i++)
		graph->plan.channels[i].nic_out = graph->plan.channels[i].nic_in;
	request.crossnic = graph->plan.crossnic = crosses(&graph->plan);
	r = verifier(channels, &request, graph, diag);
	channels->has[pattern] = r == 0;
	return r;
}

static bool all_the_same(const struct plan *plan)
{
	for (size_t i = 1; i < plan->channel_count; i++)
		if (memcmp(plan->channels[i].order, plan->channels[0].order, plan->gpu_count) != 0)
			return false;
	return true;
}

int channels_estimate(const struct topology *topology, const struct plan_request *request, struct channels *ret)
{
	const struct ncclmodel_graph *made[2];
	struct ncclmodel_choice choice;
	struct diag diag = { 0 };
	int r = ncclmodel_choose(topology, request, &choice);

	channels_begin(topology, request, request->hosts > 1 ? PLAN_SEVERAL_HOSTS : PLAN_ONE_HOST, "NCCL (estimate)",
		       ret);
	made[PLAN_RING] = &choice.ring;
	made[PLAN_TREE] = &choice.tree;
	for (int i = 0; i < 2 && r == 0; i++) {
		ret->graphs[i].plan = made[i]->plan;
		ret->graphs[i].copies = made[i]->copies;
		ret->graphs[i].fallback = made[i]->fallback;
		ret->graphs[i].believed_same = all_the_same(&made[i]->plan);
		channels_believe(ret, (enum plan_pattern)i, made[i]->intra_GBps, made[i]->inter_GBps);
		r = channels_verify_other(ret, (enum plan_pattern)i, &diag);
	}
	if (r == 0)
		return COMMAND_OK;
	channels_fini(ret);
	return command_failed(&diag, r, "what NCCL would choose cannot be estimated");
}

/* NCCL by itself sees nominal rates alone. */
static void forget_measured(struct topology *topology)
{
	for (size_t i = 0; i < topology->link_count; i++)
		for (size_t k = 0; k < 2 && topology->links[i].nominal_Bps; k++)
			topology->links[i].capacity[k].provenance = TOPOLOGY_UNKNOWN;
}

static void find_split(const struct topology *topology, const struct topology_xml_shape *shape,
		       const struct plan_request *request, struct diag *ret)
{
	static const uint64_t speeds_Bps[PLAN_NICS_MAX];

	if (!ncclxml_splits(topology, shape, request, speeds_Bps, ret))
		ret->text[0] = '\0';
}

int channels_find_splits(const struct channels *ours, const struct plan_request *nccls, struct channels_splits *ret)
{
	const struct topology_xml_shape found = { .sockets = TOPOLOGY_XML_SOCKETS_CPUS,
						  .p2p_farthest = TOPOLOGY_CLASS_PXB };
	const struct topology_xml_shape shape = { .bridges = true, .p2p_farthest = topology_xml_p2p(ours->topology) };
	struct topology nominal;
	int r = topology_copy(ours->topology, &nominal);

	memset(ret, 0, sizeof(*ret));
	if (r < 0)
		return command_failed(&ret->nccl, r, "what NCCL would choose cannot be estimated");
	forget_measured(&nominal);
	find_split(&nominal, &found, nccls, &ret->nccl);
	topology_fini(&nominal);
	find_split(ours->topology, &shape, &ours->request, &ret->ours);
	return COMMAND_OK;
}
