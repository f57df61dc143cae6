/* SPDX-License-Identifier: Apache-2.0 */
#include "command/plan/flows.h"

#include "base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const double NEARLY_FULL = 0.9;

void channels_flows_free(struct channels_flows *flows)
{
	sys_free(flows->memory);
	memset(flows, 0, sizeof(*flows));
}

bool channels_are_alike(const struct plan *plan, size_t a, size_t b)
{
	const struct plan_channel *first = &plan->channels[a], *second = &plan->channels[b];

	return !memcmp(first->order, second->order, plan->gpu_count) && first->nic_in == second->nic_in &&
	       first->nic_out == second->nic_out;
}

static void group(struct channels_flows *flows)
{
	const struct channels_graph *graph = &flows->channels->graphs[flows->pattern];

	for (size_t i = 0; i < graph->plan.channel_count; i++) {
		size_t at = 0;

		while (at < flows->count && !channels_are_alike(&graph->plan, flows->flows[at].channel, i))
			at++;
		if (at == flows->count)
			flows->flows[flows->count++].channel = i;
		flows->flows[at].count += graph->copies;
		flows->flow_of[i] = (uint8_t)at;
	}
}

/* What one of them crosses, by the verifier. */
static int cross(const struct channels_flows *flows, struct channels_flow *flow)
{
	const struct channels *channels = flows->channels;
	struct plan_request request = channels->request;
	struct plan one = channels->graphs[flows->pattern].plan;
	struct plan_load *loads;
	struct diag diag;
	size_t count;
	int r;

	request.crossnic = one.crossnic;
	request.channels_max = 0;
	one.channels[0] = one.channels[flow->channel];
	one.channel_count = 1;
	r = plan_verify_loads(channels->topology, &request, &one, &loads, &count, &diag);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		if (loads[i].kind == PLAN_LOAD_LINK)
			flow->crossings[loads[i].index] = (uint32_t)loads[i].crossings;
	free(loads);
	return 0;
}

static void mark_full(struct channels_flows *flows, const struct plan_load *load)
{
	const struct topology *topology = flows->channels->topology;

	if (load->kind == PLAN_LOAD_LINK)
		flows->full[load->index] = true;
	for (size_t i = 0; load->kind == PLAN_LOAD_LIMIT && i < topology->limits[load->index].member_count; i++) {
		uint32_t member = topology->limits[load->index].members[i];

		flows->full[member] = flows->load_Bps[member] > 0;
	}
}

/* Nothing but GPUs' own links is full, and each GPU has one that nearly is: then none of them is to blame. */
static bool own_links_are_the_limit(const struct channels_flows *flows)
{
	const struct topology *topology = flows->channels->topology;
	const struct plan_request *request = &flows->channels->request;

	for (uint32_t i = 0; i < 2 * topology->link_count; i++)
		if (flows->full[i] && !view_is_gpus_own(topology, i))
			return false;
	for (size_t i = 0; i < request->gpu_count; i++) {
		double most = 0;

		for (uint32_t k = 0; k < 2 * topology->link_count; k++) {
			const struct topology_link *link = &topology->links[k / 2];

			if ((link->lower == request->gpus[i] || link->upper == request->gpus[i]) &&
			    flows->share[k] > most)
				most = flows->share[k];
		}
		if (most < NEARLY_FULL)
			return false;
	}
	return true;
}

static void sum_up(struct channels_flows *flows)
{
	const struct topology *topology = flows->channels->topology;
	const struct channels_graph *graph = &flows->channels->graphs[flows->pattern];

	for (size_t i = 0; i < 2 * topology->link_count; i++)
		flows->share[i] = -1;
	for (size_t i = 0; i < graph->load_count; i++) {
		const struct plan_load *load = &graph->loads[i];

		if (load->kind == PLAN_LOAD_LINK) {
			flows->load_Bps[load->index] = channels_load_Bps(graph, load);
			flows->share[load->index] = channels_load_share(graph, load);
		}
	}
	for (size_t i = 0; i < graph->load_count; i++)
		if (channels_load_is_full(graph, &graph->loads[i]))
			mark_full(flows, &graph->loads[i]);
	flows->full_is_own = own_links_are_the_limit(flows);
	if (graph->load_count && graph->loads[0].capacity_Bps)
		flows->fullest = &graph->loads[0];
}

int channels_flows_make(const struct channels *channels, enum plan_pattern pattern, struct channels_flows *ret)
{
	size_t lanes = 2 * channels->topology->link_count;
	struct channels_flows flows = { .channels = channels, .pattern = pattern };
	uint32_t *crossings;
	int r = 0;

	group(&flows);
	const struct sys_array arrays[] = { SYS_ARRAY(flows.load_Bps, lanes), SYS_ARRAY(flows.share, lanes),
					    SYS_ARRAY(flows.full, lanes), SYS_ARRAY(crossings, flows.count * lanes) };

	flows.memory = sys_zalloc_arrays(arrays, sizeof(arrays) / sizeof(arrays[0]));
	if (!flows.memory)
		return -ENOMEM;
	for (size_t i = 0; i < flows.count && r == 0; i++) {
		flows.flows[i].crossings = crossings + i * lanes;
		r = cross(&flows, &flows.flows[i]);
	}
	if (r < 0) {
		channels_flows_free(&flows);
		return r;
	}
	sum_up(&flows);
	*ret = flows;
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ words */

void channels_flow_words(const struct channels_flows *flows, size_t flow, char *text, size_t text_bytes)
{
	const struct channels *channels = flows->channels;
	struct channels_hop hops[CHANNELS_HOPS_MAX];
	size_t channel = flows->flows[flow].channel, at, count;
	const struct topology_vertex *vertices = channels->topology->vertices;

	count = channels_hops(channels, flows->pattern, channel, hops);
	if (!count) {
		const struct plan_channel *one = &channels->graphs[flows->pattern].plan.channels[channel];

		snprintf(text, text_bytes, "%s", vertices[channels->request.gpus[one->order[0]]].name);
		return;
	}
	at = (size_t)snprintf(text, text_bytes, "%s", vertices[hops[0].from].name);
	for (size_t i = 0; i < count && at < text_bytes; i++)
		at += (size_t)snprintf(text + at, text_bytes - at, " %s %s", flows->pattern == PLAN_RING ? "→" : "↔",
				       vertices[hops[i].to].name);
}

void channels_flows_title(const struct channels_flows *flows, char *text, size_t text_bytes)
{
	static const char *const words[PLAN_PATTERN_COUNT] = { "Ring", "Tree", "Chain", "Direct" };
	const struct channels_graph *graph = &flows->channels->graphs[flows->pattern];
	char sum[96], share[40];

	channels_sum_words(graph, true, sum, sizeof(sum));
	channels_share_words(graph, share, sizeof(share));
	snprintf(text, text_bytes, "%s: %s%s%s", words[flows->pattern], sum, *share ? ", " : "", share);
}

void channels_flows_headline(const struct channels_flows *flows, char *text, size_t text_bytes)
{
	const struct channels_graph *graph = &flows->channels->graphs[flows->pattern];
	char name[3 * TOPOLOGY_NAME_BYTES], load[64];
	size_t full = 0;

	text[0] = '\0';
	if (!flows->fullest)
		return;
	for (size_t i = 0; i < graph->load_count; i++)
		full += channels_load_is_full(graph, &graph->loads[i]);
	plan_load_name(flows->channels->topology, flows->fullest, name, sizeof(name));
	channels_load_words(flows->channels, graph, flows->fullest, true, load, sizeof(load));
	if (flows->full_is_own && flows->fullest->kind == PLAN_LOAD_LINK)
		snprintf(text, text_bytes,
			 "Nothing between the GPUs is full: their own links are the limit (%s, %s GB/s)", name, load);
	else if (full > 1)
		snprintf(text, text_bytes, "Full: %s, %s GB/s, and %zu more", name, load, full - 1);
	else
		snprintf(text, text_bytes, "Full: %s, %s GB/s", name, load);
}

const char *channels_flow_colour(size_t flow)
{
	/*
	 * None is near a colour of loads or of alarm. All have a contrast of 3 and more to white and to the dark paper. Every other
	 * one is dark enough for white numbers, and the ones between are light enough for PICTURE_INK.
	 */
	static const char *const colours[PLAN_CHANNELS_MAX] = {
		"#357b53", "#df7292", "#7456ad", "#829857", "#72631b", "#a286ce", "#904f7f", "#9b9027",
		"#157b8b", "#94948a", "#9f4a46", "#9087a4", "#237c28", "#0ea59c", "#65636c", "#0ea96d",
	};

	return colours[flow % PLAN_CHANNELS_MAX];
}
