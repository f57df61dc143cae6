/* SPDX-License-Identifier: Apache-2.0 */
#include "command/plan/channels.h"

#include "command/json.h"
#include "command/plan/flows.h"

static const char *const kinds[PLAN_LOAD_KIND_COUNT] = {
	[PLAN_LOAD_LINK] = "link", [PLAN_LOAD_LIMIT] = "limit",   [PLAN_LOAD_P2P] = "p2p",
	[PLAN_LOAD_HOST] = "host", [PLAN_LOAD_NIC_IN] = "nic_in", [PLAN_LOAD_NIC_OUT] = "nic_out",
};

static json_t *name_of(const struct channels *channels, uint32_t vertex)
{
	return json_text(channels->topology->vertices[vertex].name);
}

static json_t *names_of(const struct channels *channels, const uint32_t *list, size_t count)
{
	json_t *names = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(names, name_of(channels, list[i]));
	return names;
}

static json_t *rate_of(uint64_t rate_Bps)
{
	return rate_Bps >= PLAN_UNBOUNDED_BPS ? json_null() : json_integer((json_int_t)rate_Bps);
}

/* How often a channel goes over each link. */
static json_t *crossings_of(const struct channels_flows *flows, size_t channel)
{
	const struct topology *topology = flows->channels->topology;
	const uint32_t *crossings = flows->flows[flows->flow_of[channel]].crossings;
	char name[2 * TOPOLOGY_NAME_BYTES + 16];
	json_t *value = json_object();

	for (uint32_t i = 0; i < 2 * topology->link_count; i++)
		if (crossings[i] && !topology_directed_name(topology, i, name, sizeof(name)))
			json_object_set_new(value, name, json_integer(crossings[i]));
	return value;
}

static json_t *channel_of(const struct channels_flows *flows, size_t channel)
{
	const struct channels *channels = flows->channels;
	enum plan_pattern pattern = flows->pattern;
	const struct plan_request *request = &channels->request;
	const struct plan_channel *one = &channels->graphs[pattern].plan.channels[channel];
	struct channels_hop hops[CHANNELS_HOPS_MAX];
	size_t count = channels_hops(channels, pattern, channel, hops);
	json_t *gpus = json_array(), *list = json_array();
	bool nics = request->hosts > 1;

	for (size_t i = 0; i < request->gpu_count; i++)
		json_array_append_new(gpus, name_of(channels, request->gpus[one->order[i]]));
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_pack("{so so ss ss}", "from", name_of(channels, hops[i].from), "to",
						      name_of(channels, hops[i].to), "class",
						      topology_class_word(hops[i].path_class), "way",
						      hops[i].host ? "host" : "direct"));
	return json_pack("{so so so so so}", "gpus", gpus, "nic_in",
			 nics ? name_of(channels, request->nics[one->nic_in]) : json_null(), "nic_out",
			 nics ? name_of(channels, request->nics[one->nic_out]) : json_null(), "hops", list, "crossings",
			 crossings_of(flows, channel));
}

static json_t *load_of(const struct channels *channels, const struct channels_graph *graph,
		       const struct plan_load *load)
{
	double share = channels_load_share(graph, load);
	char name[3 * TOPOLOGY_NAME_BYTES];

	plan_load_name(channels->topology, load, name, sizeof(name));
	return json_pack("{so ss sI sI so so sb}", "name", json_text(name), "kind", kinds[load->kind], "crossings",
			 (json_int_t)load->crossings, "load_Bps", (json_int_t)channels_load_Bps(graph, load),
			 "capacity_Bps", json_known(load->capacity_Bps), "share",
			 share >= 0 ? json_real(share) : json_null(), "full", channels_load_is_full(graph, load));
}

static json_t *graph_of(const struct channels *channels, enum plan_pattern pattern)
{
	const struct channels_graph *graph = &channels->graphs[pattern];
	json_t *list = json_array(), *loads = json_array();
	uint64_t bound_Bps = graph->plan.bound_Bps;
	bool ours = bound_Bps != 0;
	struct channels_flows flows;
	char summary[200], full[400];

	if (channels_flows_make(channels, pattern, &flows) < 0)
		return NULL;
	channels_flows_title(&flows, summary, sizeof(summary));
	channels_flows_headline(&flows, full, sizeof(full));
	for (size_t i = 0; i < graph->plan.channel_count; i++)
		json_array_append_new(list, channel_of(&flows, i));
	channels_flows_free(&flows);
	for (size_t i = 0; i < graph->load_count; i++)
		json_array_append_new(loads, load_of(channels, graph, &graph->loads[i]));
	return json_pack("{so so so sI sI so so so so so so ss ss sb so}", "summary", json_text(summary), "bottleneck",
			 json_known_text(full), "channels", list, "copies", (json_int_t)graph->copies, "channel_count",
			 (json_int_t)channels_count(graph), "rate_Bps", rate_of(graph->rate_Bps), "total_Bps",
			 rate_of(channels_total_Bps(graph)), "believed_Bps", rate_of(graph->plan.rate_Bps), "bound_Bps",
			 ours ? rate_of(bound_Bps) : json_null(), "share_of_bound",
			 ours && bound_Bps < PLAN_UNBOUNDED_BPS
				 ? json_real((double)channels_total_Bps(graph) / (double)bound_Bps)
				 : json_null(),
			 "exact", ours ? json_boolean(graph->plan.exact) : json_null(), "intra_class",
			 topology_class_word(graph->plan.intra_class), "inter_class",
			 topology_class_word(graph->plan.inter_class), "fallback", graph->fallback, "loads", loads);
}

json_t *channels_json(const struct channels *channels)
{
	const struct plan_request *request = &channels->request;
	char words[160];
	json_t *value;

	channels_request_words(channels, words, sizeof(words));
	value = json_pack("{so so so so so sb}", "maker", json_text(channels->maker), "summary", json_text(words),
			  "gpus", names_of(channels, request->gpus, request->gpu_count), "nics",
			  names_of(channels, request->nics, request->nic_count), "hosts",
			  channels->where == PLAN_EITHER ? json_null() : json_integer(request->hosts), "verified",
			  true);

	for (int i = 0; i < PLAN_PATTERN_COUNT; i++)
		json_object_set_new(value, channels_pattern_word((enum plan_pattern)i),
				    channels->has[i] ? graph_of(channels, (enum plan_pattern)i) : json_null());
	return value;
}
