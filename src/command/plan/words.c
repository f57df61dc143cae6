/* SPDX-License-Identifier: Apache-2.0 */
#include "command/plan/channels.h"

#include "command/print/units.h"
#include "command/show/view.h"

#include <stdio.h>
#include <string.h>

void channels_capacity_words(const struct topology *topology, const struct plan_load *load, bool utf8, char *text,
			     size_t text_bytes)
{
	/* Of a NIC, what its wire is said to do. */
	struct topology_capacity capacity = { .rate_Bps = load->capacity_Bps, .provenance = TOPOLOGY_NOMINAL };

	if (load->kind == PLAN_LOAD_LINK)
		capacity = topology->links[load->index / 2].capacity[load->index % 2];
	else if (load->kind == PLAN_LOAD_LIMIT)
		capacity = topology->limits[load->index].capacity;
	else if (load->kind == PLAN_LOAD_P2P)
		capacity = topology->pairs[load->index].p2p;
	else if (load->kind == PLAN_LOAD_HOST)
		capacity = topology->pairs[load->index].host;
	view_rate_of(&capacity, utf8, text, text_bytes);
}

void channels_load_words(const struct channels *channels, const struct channels_graph *graph,
			 const struct plan_load *load, bool utf8, char *text, size_t text_bytes)
{
	char rate[24], most[24];

	units_GBps((uint64_t)channels_load_Bps(graph, load), rate);
	channels_capacity_words(channels->topology, load, utf8, most, sizeof(most));
	snprintf(text, text_bytes, "%s of %s", rate, most);
}

void channels_sum_words(const struct channels_graph *graph, bool utf8, char *text, size_t text_bytes)
{
	size_t count = channels_count(graph);
	char each[24], total[24];

	if (graph->rate_Bps >= PLAN_UNBOUNDED_BPS) {
		snprintf(text, text_bytes, "%zu channel%s that nothing known limits", count, count == 1 ? "" : "s");
		return;
	}
	units_GBps(graph->rate_Bps, each);
	units_GBps(channels_total_Bps(graph), total);
	if (count == 1)
		snprintf(text, text_bytes, "1 channel of %s GB/s", each);
	else
		snprintf(text, text_bytes, "%zu channels %s %s = %s GB/s", count, utf8 ? "×" : "x", each, total);
}

/* "0-3,6": the numbers of GPUs, which are in order. */
static void index_words(const struct channels *channels, char *text, size_t text_bytes)
{
	const struct plan_request *request = &channels->request;
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < request->gpu_count && at < text_bytes;) {
		int first = channels->topology->vertices[request->gpus[i]].gpu.index, last = first;

		for (i++; i < request->gpu_count; i++, last++)
			if (channels->topology->vertices[request->gpus[i]].gpu.index != last + 1)
				break;
		at += (size_t)snprintf(text + at, text_bytes - at, last == first ? "%s%d" : "%s%d-%d", at ? "," : "",
				       first, last);
	}
}

void channels_request_words(const struct channels *channels, char *text, size_t text_bytes)
{
	size_t gpus = channels->request.gpu_count, all = topology_count(channels->topology, TOPOLOGY_GPU);
	char which[80] = "", where[64];

	if (all != gpus)
		index_words(channels, which, sizeof(which));
	if (channels->where == PLAN_EITHER)
		snprintf(where, sizeof(where), "on one host or several");
	else if (channels->request.hosts > 1)
		snprintf(where, sizeof(where), "on each of %u hosts", channels->request.hosts);
	else
		snprintf(where, sizeof(where), "on one host");
	if (*which)
		snprintf(text, text_bytes, "%zu of %zu GPUs (%s) %s", gpus, all, which, where);
	else
		snprintf(text, text_bytes, "%zu GPU%s %s", gpus, gpus == 1 ? "" : "s", where);
}

void channels_share_words(const struct channels_graph *graph, char *text, size_t text_bytes)
{
	double share = (double)channels_total_Bps(graph) / (double)graph->plan.bound_Bps;

	text[0] = '\0';
	if (graph->rate_Bps >= PLAN_UNBOUNDED_BPS || !graph->plan.bound_Bps)
		return;
	if (channels_is_optimal(graph))
		snprintf(text, text_bytes, "optimal");
	else /* never rounded up: it is a promise */
		snprintf(text, text_bytes, "at least %.1f %% of optimal", (double)(uint64_t)(share * 1000) / 10);
}

bool channels_is_optimal(const struct channels_graph *graph)
{
	/* Rates are whole bytes/s for each channel. */
	return channels_total_Bps(graph) + channels_count(graph) >= graph->plan.bound_Bps;
}

static void add_hop(const struct channels *channels, uint32_t from, uint32_t to, bool host, size_t *count,
		    struct channels_hop *hops)
{
	hops[(*count)++] = (struct channels_hop){ from, to, topology_class_of(channels->topology, from, to), host };
}

/* A NIC straight to a GPU's memory, as the model has it (docs/design/planner.md). */
static bool is_straight(const struct topology *topology, uint32_t nic, uint32_t gpu)
{
	return topology->vertices[nic].nic.gdr && topology->vertices[gpu].gpu.gdr &&
	       topology_class_of(topology, nic, gpu) <= TOPOLOGY_CLASS_PXB;
}

size_t channels_hops(const struct channels *channels, enum plan_pattern pattern, size_t channel,
		     struct channels_hop ret[CHANNELS_HOPS_MAX])
{
	const struct topology *topology = channels->topology;
	const struct plan_request *request = &channels->request;
	const struct plan_channel *one = &channels->graphs[pattern].plan.channels[channel];
	size_t last = request->gpu_count - 1, count = 0;
	uint32_t first_gpu = request->gpus[one->order[0]], last_gpu = request->gpus[one->order[last]];

	if (request->hosts > 1)
		add_hop(channels, request->nics[one->nic_in], first_gpu,
			!is_straight(topology, request->nics[one->nic_in], first_gpu), &count, ret);
	for (size_t i = 0; i < last; i++) {
		uint32_t from = request->gpus[one->order[pattern == PLAN_DIRECT ? 0 : i]],
			 to = request->gpus[one->order[i + 1]];

		add_hop(channels, from, to, plan_way(topology, request, from, to) == TOPOLOGY_WAY_HOST, &count, ret);
	}
	if (pattern == PLAN_RING && request->hosts <= 1 && last)
		add_hop(channels, last_gpu, first_gpu,
			plan_way(topology, request, last_gpu, first_gpu) == TOPOLOGY_WAY_HOST, &count, ret);
	if (pattern == PLAN_RING && request->hosts > 1)
		add_hop(channels, last_gpu, request->nics[one->nic_out],
			!is_straight(topology, request->nics[one->nic_out], last_gpu), &count, ret);
	return count;
}
