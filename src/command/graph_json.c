/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and edges have numbers, from 0: first the machine's vertices and directed links (2 × link + direction), then the
 * cluster's. Every host of the cluster is such a machine; it is there once, and its NICs are joined with every host.
 */
#include "command/graph_json.h"

#include "base/log.h"
#include "command/command.h"
#include "command/file.h"
#include "command/json.h"
#include "command/plan/channels.h"
#include "command/simulate/simulation.h"
#include "command/source.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct graph {
	json_t *nodes, *edges, *sharing, *channels, *flows;
	size_t node_count, edge_count;
	size_t cluster_edges; /* the first of the cluster's: its links have the same order */
};

static json_t *rate_of(double rate_Bps)
{
	return isfinite(rate_Bps) && rate_Bps > 0 ? json_real(rate_Bps) : json_null();
}

static const char *provenance_of(double rate_Bps, bool measured)
{
	if (!isfinite(rate_Bps) || rate_Bps <= 0)
		return topology_provenance_word(TOPOLOGY_UNKNOWN);
	return measured ? topology_provenance_word(TOPOLOGY_MEASURED) : "declared";
}

static size_t add_node(struct graph *graph, const char *type, const char *name)
{
	json_array_append_new(graph->nodes, json_pack("{sI ss so}", "id", (json_int_t)graph->node_count, "type", type,
						      "name", json_text(name)));
	return graph->node_count++;
}

static void add_edge(struct graph *graph, const char *type, size_t from, size_t to, json_t *capacity,
		     const char *provenance)
{
	json_array_append_new(graph->edges, json_pack("{sI ss sI sI so ss}", "id", (json_int_t)graph->edge_count,
						      "type", type, "from", (json_int_t)from, "to", (json_int_t)to,
						      "capacity_Bps", capacity, "provenance", provenance));
	graph->edge_count++;
}

/* ------------------------------------------------------------------------------------------------------------- machine */

static json_t *known_rate(const struct topology_capacity *capacity)
{
	return capacity->rate_Bps ? json_real((double)capacity->rate_Bps) : json_null();
}

static void add_machine(struct graph *graph, const struct topology *topology)
{
	for (size_t i = 0; i < topology->vertex_count; i++)
		add_node(graph, topology_kind_word(topology->vertices[i].kind), topology->vertices[i].name);
	for (size_t i = 0; i < topology->link_count; i++)
		for (int way = 0; way < 2; way++) {
			const struct topology_link *link = &topology->links[i];
			const struct topology_capacity *capacity = &link->capacity[way];

			add_edge(graph, topology_link_kind_word(link->kind),
				 way == TOPOLOGY_UP ? link->lower : link->upper,
				 way == TOPOLOGY_UP ? link->upper : link->lower, known_rate(capacity),
				 topology_provenance_word(capacity->provenance));
		}
	for (size_t i = 0; i < topology->limit_count; i++) {
		const struct topology_limit *limit = &topology->limits[i];
		json_t *members = json_array();

		for (size_t j = 0; j < limit->member_count; j++)
			json_array_append_new(members, json_integer(limit->members[j]));
		json_array_append_new(graph->sharing,
				      json_pack("{sI so so so}", "id", (json_int_t)i, "name", json_text(limit->name),
						"capacity_Bps", known_rate(&limit->capacity), "edges", members));
	}
}

static json_t *channel_of(const struct plan_request *request, const struct plan_channel *channel, size_t gpu_count)
{
	json_t *gpus = json_array();
	bool nics = request->hosts > 1;

	for (size_t i = 0; i < gpu_count; i++)
		json_array_append_new(gpus, json_integer(request->gpus[channel->order[i]]));
	return json_pack("{so so so}", "gpus", gpus, "nic_in",
			 nics ? json_integer(request->nics[channel->nic_in]) : json_null(), "nic_out",
			 nics ? json_integer(request->nics[channel->nic_out]) : json_null());
}

static int add_channels(struct graph *graph, const struct channels *channels, enum plan_pattern pattern)
{
	const struct channels_graph *from = &channels->graphs[pattern];
	json_t *list = json_array(), *crossings = json_array(), *shares = json_array();

	for (size_t i = 0; i < from->plan.channel_count; i++)
		json_array_append_new(list,
				      channel_of(&channels->request, &from->plan.channels[i], from->plan.gpu_count));
	for (size_t i = 0; i < from->load_count; i++) {
		const struct plan_load *load = &from->loads[i];

		if (load->kind == PLAN_LOAD_LINK)
			json_array_append_new(crossings, json_pack("{sI sI}", "edge", (json_int_t)load->index,
								   "crossings", (json_int_t)load->crossings));
		else if (load->kind == PLAN_LOAD_LIMIT)
			json_array_append_new(shares, json_pack("{sI sI}", "sharing", (json_int_t)load->index,
								"crossings", (json_int_t)load->crossings));
	}
	return json_array_append_new(
		graph->channels,
		json_pack("{ss sI so so so so}", "pattern", channels_pattern_word(pattern), "copies",
			  (json_int_t)from->copies, "rate_Bps",
			  from->rate_Bps < PLAN_UNBOUNDED_BPS ? json_real((double)from->rate_Bps) : json_null(),
			  "channels", list, "edges", crossings, "sharing", shares));
}

/* A machine without GPUs, or none that can talk, has no channels. */
static int plan_channels(struct graph *graph, const struct topology *topology, size_t hosts)
{
	struct channels *channels = calloc(1, sizeof(*channels));
	struct plan_request request;
	int status = COMMAND_OK;

	if (!channels)
		return command_failed(NULL, ENOMEM, "channels cannot be planned");
	if (plan_request_all(topology, &request) == 0 && request.gpu_count > 1) {
		request.p2p_farthest = channels_p2p(topology, request.gpus, request.gpu_count);
		request.hosts = (unsigned)(hosts > 1 && request.nic_count ? hosts : 1);
		status = channels_plan(topology, &request, request.hosts > 1 ? PLAN_SEVERAL_HOSTS : PLAN_ONE_HOST,
				       channels);
		for (int i = 0; status == COMMAND_OK && i < PLAN_PATTERN_COUNT; i++)
			if (channels->has[i])
				add_channels(graph, channels, (enum plan_pattern)i);
		if (status == COMMAND_OK)
			channels_fini(channels);
	}
	free(channels);
	return status;
}

/* ------------------------------------------------------------------------------------------------------------- cluster */

/* Two edges: from a node upwards, and back. */
static void add_both(struct graph *graph, const char *type, size_t lower, size_t upper, const double capacity_Bps[2],
		     bool measured)
{
	add_edge(graph, type, lower, upper, rate_of(capacity_Bps[SIMULATE_UP]),
		 provenance_of(capacity_Bps[SIMULATE_UP], measured));
	add_edge(graph, type, upper, lower, rate_of(capacity_Bps[SIMULATE_DOWN]),
		 provenance_of(capacity_Bps[SIMULATE_DOWN], measured));
}

/*
 * The machine is there once, and each host is one: its NICs are the host's. What they carry is said of the host's own
 * edges.
 */
static void add_hosts_nics(struct graph *graph, const struct simulate_fabric *fabric, size_t hosts)
{
	static const double unbounded[2] = { INFINITY, INFINITY };

	for (size_t node = 0; node < hosts; node++) {
		const json_t *type = json_object_get(json_array_get(graph->nodes, node), "type");

		if (strcmp(json_string_value(type), "nic") != 0)
			continue;
		for (size_t i = 0; i < fabric->host_count; i++)
			add_both(graph, "host", node, hosts + i, unbounded, false);
	}
}

/* Edges in the order of the fabric's links, which have no rows here: NICs, switches, aggregators. */
static void add_cluster(struct graph *graph, const struct simulate_fabric *fabric)
{
	size_t hosts = graph->node_count, switches = hosts + fabric->host_count,
	       aggregators = switches + fabric->switch_count, core = aggregators + fabric->aggregator_count;

	graph->cluster_edges = graph->edge_count;
	for (size_t i = 0; i < fabric->host_count; i++)
		add_node(graph, "host", fabric->host_names[i]);
	for (size_t i = 0; i < fabric->switch_count; i++)
		add_node(graph, "network", fabric->switches[i].name);
	for (size_t i = 0; i < fabric->aggregator_count; i++)
		add_node(graph, "aggregator", fabric->aggregator_names[i]);
	add_node(graph, "core", "core"); /* joins the tops; bounds nothing */
	for (size_t i = 0; i < fabric->host_count * fabric->rail_count; i++)
		add_both(graph, "nic", hosts + i / fabric->rail_count, switches + fabric->nics[i].leaf,
			 fabric->nics[i].capacity_Bps, fabric->measured);
	for (size_t i = 0; i < fabric->switch_count; i++) {
		const struct simulate_switch *one = &fabric->switches[i];

		add_both(graph, "uplink", switches + i, one->parent == SIMULATE_NONE ? core : switches + one->parent,
			 one->capacity_Bps, fabric->measured);
	}
	for (size_t i = 0; i < fabric->aggregator_count; i++)
		add_both(graph, "nic", aggregators + i, switches + fabric->aggregators[i].leaf,
			 fabric->aggregators[i].capacity_Bps, false);
	add_hosts_nics(graph, fabric, hosts);
}

static json_t *flow_of(const struct graph *graph, const struct flow_network *network, uint32_t flow)
{
	struct flow_result result = flow_result(network, flow);
	json_t *edges = json_array(), *next = json_array();
	struct flow_crossing crossing;
	double lag_s;
	uint32_t other;

	for (size_t i = 0; flow_crosses(network, flow, i, &crossing); i++)
		json_array_append_new(edges, json_pack("{sI sf}", "edge",
						       (json_int_t)graph->cluster_edges + (json_int_t)crossing.link,
						       "weight", (double)crossing.weight));
	for (size_t i = 0; flow_is_awaited(network, flow, i, &other, &lag_s); i++)
		json_array_append_new(next, json_pack("{sI sf}", "flow", (json_int_t)other, "lag_s", lag_s));
	return json_pack("{sI sf sf sf so so}", "id", (json_int_t)flow, "bytes", flow_bytes(network, flow), "start_s",
			 result.start_s, "end_s", result.end_s, "edges", edges, "next", next);
}

static int add_flows(struct graph *graph, struct simulation *simulation)
{
	const struct flow_network *network;
	int status = simulation_run(simulation, false);

	if (status != COMMAND_OK)
		return status;
	network = simulation->cases[0].result.network;
	for (uint32_t i = 0; i < flow_count(network); i++)
		json_array_append_new(graph->flows, flow_of(graph, network, i));
	return COMMAND_OK;
}

static int read_simulation(const struct command_call *call, struct simulation *ret)
{
	int status = simulation_network(call, &ret->fabric);

	if (status != COMMAND_OK)
		return status;
	ret->gpus = 1;
	ret->job_count = 1;
	ret->settings = simulate_defaults();
	return simulation_case(call, ret);
}

/* --------------------------------------------------------------------------------------------------------------- graph */

static int put_all(const struct command_call *call, struct graph *graph, struct simulation *simulation)
{
	bool cluster = command_given(call, "cluster") || command_given(call, "fabric");
	struct source source;
	int status = cluster ? read_simulation(call, simulation) : COMMAND_OK;

	/* A cluster alone is a graph, too: then the machine here is nobody's business. */
	if (status == COMMAND_OK && (!cluster || command_given(call, "from"))) {
		status = source_load(call, SOURCE_PROFILE_ALONE, &source);
		if (status == COMMAND_OK) {
			add_machine(graph, &source.topology);
			status = plan_channels(graph, &source.topology, simulation->fabric.host_count);
			source_fini(&source);
		}
	}
	if (status == COMMAND_OK && cluster) {
		add_cluster(graph, &simulation->fabric);
		status = add_flows(graph, simulation);
	}
	return status;
}

int graph_json_write(const struct command_call *call, FILE *out)
{
	struct simulation *simulation = calloc(1, sizeof(*simulation));
	struct graph graph = { .nodes = json_array(),
			       .edges = json_array(),
			       .sharing = json_array(),
			       .channels = json_array(),
			       .flows = json_array() };
	json_t *value;
	char *text = NULL;
	int status = simulation ? put_all(call, &graph, simulation)
				: command_failed(NULL, ENOMEM, "the graph cannot be made");

	value = json_pack("{ss so so so so so}", "format", "tributary-graph 1", "nodes", graph.nodes, "edges",
			  graph.edges, "sharing", graph.sharing, "channels", graph.channels, "flows", graph.flows);
	if (status == COMMAND_OK) {
		text = json_dumps(value, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
		status = text ? file_put(command_value(call, "output"), text, strlen(text), out)
			      : command_failed(NULL, ENOMEM, "the graph cannot be written");
	}
	free(text);
	json_decref(value);
	if (simulation)
		simulation_fini(simulation);
	free(simulation);
	return status;
}
