/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form is NCCL's own (NCCL_GRAPH_DUMP_FILE), less what it does not need: no `rank`, which 2.30 believes unchecked, and
 * no graph without channels. Numbers are written without the C library's locale: a job may have set one with a decimal
 * comma, and ranks that differ in that must not differ in the text.
 */
#include "ncclxml/graph_xml.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "ncclmodel/limits.h"
#include "ncclxml/text.h"
#include "tributary/predict.h"

#define RATE_MOST_GBPS 1e6

/* ------------------------------------------------------------------------------------------------------- from plans */

struct maker {
	const struct topology *topology;
	const struct plan_request *request;
	const struct graph_xml_numbers *numbers;
	struct diag *diag;
};

static int make_channel(const struct maker *maker, const struct plan *plan, const struct plan_channel *from, bool nets,
			struct graph_xml_channel *ret)
{
	const uint8_t nics[2] = { from->nic_in, plan->pattern == PLAN_RING ? from->nic_out : from->nic_in };

	for (size_t i = 0; i < plan->gpu_count; i++) {
		const struct topology_vertex *gpu = &maker->topology->vertices[maker->request->gpus[from->order[i]]];

		if (gpu->gpu.index < 0) {
			diag_set(maker->diag, 0, 0, "%s has no index, by which NCCL would know it", gpu->name);
			return -EINVAL;
		}
		ret->gpus[ret->gpu_count++] = gpu->gpu.index;
	}
	for (size_t i = 0; nets && i < 2; i++) {
		int device = maker->numbers->net_devices[nics[i]];

		if (device < 0) {
			diag_set(maker->diag, 0, 0, "%s is none of the plugin's devices",
				 maker->topology->vertices[maker->request->nics[nics[i]]].name);
			return -EINVAL;
		}
		ret->nets[ret->net_count++] = device;
	}
	return 0;
}

static int make_graph(const struct maker *maker, const struct plan_set *set, enum plan_pattern pattern,
		      struct graph_xml_graph *ret)
{
	const struct plan *plan = &set->plans[pattern];
	bool nets = set->where != PLAN_ONE_HOST;
	struct predict_communicator machine = { 0 };
	struct predict_speeds speeds;

	if (plan->rate_Bps >= PLAN_UNBOUNDED_BPS || !plan->rate_Bps) {
		diag_set(maker->diag, 0, 0, "nothing is known of what the links carry");
		return -EINVAL;
	}
	if ((plan->channel_count != set->channel_count && pattern != PLAN_DIRECT) ||
	    plan->gpu_count != maker->request->gpu_count) {
		diag_set(maker->diag, 0, 0, "rings and trees of %zu and %zu channels, NCCL takes the same number",
			 set->channel_count, plan->channel_count);
		return -EINVAL;
	}
	predict_of_machine(maker->topology, maker->request, &machine);
	predict_speeds_of_set(set, pattern, machine.sm, &speeds);
	ret->intra_GBps = speeds.intra_GBps;
	ret->inter_GBps = speeds.inter_GBps;
	ret->inter_latency_us = nets ? maker->numbers->inter_latency_us : 0;
	ret->intra_class = plan->intra_class;
	/* On one host NCCL has no way to a NIC and says PIX, as which LL128 is not refused for the network's sake. */
	ret->inter_class = nets ? plan->inter_class : TOPOLOGY_CLASS_PIX;
	ret->crossnic = nets && plan->crossnic;
	ret->same_channels = false; /* Broadcast and Reduce are charged each step, alike or not: they take it */
	for (size_t i = 0; i < plan->channel_count; i++) {
		int r = make_channel(maker, plan, &plan->channels[i], nets, &ret->channels[i]);

		if (r < 0)
			return r;
		ret->channel_count++;
	}
	return 0;
}

/* NCCL sets collnet up at the first GPUs of the direct graph's channels, and runs chains only from those. */
static void make_heads(const struct graph_xml_graph *chain, struct graph_xml_graph *ret)
{
	*ret = *chain;
	ret->id = GRAPH_XML_DIRECT;
	ret->pattern = GRAPH_XML_PATTERN_DIRECT;
	ret->channel_count = 0;
	for (size_t i = 0; i < chain->channel_count; i++) {
		bool new = true;

		for (size_t j = 0; j < i; j++)
			new = new && chain->channels[j].gpus[0] != chain->channels[i].gpus[0];
		if (new)
			ret->channels[ret->channel_count++] = chain->channels[i];
	}
}

int graph_xml_of_set(const struct topology *topology, const struct plan_request *request, const struct plan_set *set,
		     const struct graph_xml_numbers *numbers, struct graph_xml *ret, struct diag *diag)
{
	struct maker maker = { topology, request, numbers, diag };
	struct graph_xml_graph *graph = ret->graphs;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!set->has[PLAN_RING] || !set->has[PLAN_TREE] || !set->channel_count) {
		diag_set(diag, 0, 0, "no rings or no trees");
		return -EINVAL;
	}
	graph->id = GRAPH_XML_RING;
	graph->pattern = GRAPH_XML_PATTERN_RING;
	r = make_graph(&maker, set, PLAN_RING, graph++);
	if (r < 0)
		return r;
	graph->id = GRAPH_XML_TREE;
	graph->pattern = set->tree_balanced ? GRAPH_XML_PATTERN_BALANCED_TREE : GRAPH_XML_PATTERN_TREE;
	r = make_graph(&maker, set, PLAN_TREE, graph++);
	if (r == 0 && set->has[PLAN_CHAIN] && set->where != PLAN_ONE_HOST &&
	    (set->has[PLAN_DIRECT] || !topology_count(topology, TOPOLOGY_NVSWITCH))) {
		graph->id = GRAPH_XML_CHAIN;
		graph->pattern = GRAPH_XML_PATTERN_TREE;
		r = make_graph(&maker, set, PLAN_CHAIN, graph++);
		graph->id = GRAPH_XML_DIRECT;
		graph->pattern = GRAPH_XML_PATTERN_DIRECT;
		if (r == 0 && set->has[PLAN_DIRECT])
			r = make_graph(&maker, set, PLAN_DIRECT, graph);
		else
			make_heads(graph - 1, graph);
		graph++;
	}
	ret->graph_count = (size_t)(graph - ret->graphs);
	return r;
}

/* ----------------------------------------------------------------------------------------------------------- checks */

static int refuse(struct diag *diag, const struct graph_xml_graph *graph, const char *reason)
{
	diag_set(diag, 0, 0, "graph %d: %s", graph->id, reason);
	return -EINVAL;
}

/* A class that NCCL's files have no word for: the next farther one, never LOC, as which NCCL would take it. */
static const char *class_word(enum topology_class path_class)
{
	if (path_class == TOPOLOGY_CLASS_C2C)
		return topology_class_word(TOPOLOGY_CLASS_PIX);
	return topology_class_word(path_class < TOPOLOGY_CLASS_SYS ? path_class : TOPOLOGY_CLASS_SYS);
}

static bool good_number(double value, double most)
{
	return value >= 0 && value <= most; /* not NaN */
}

/* NCCL has a place for each GPU of the communicator in each channel; NVLS graphs name the first alone. */
bool graph_xml_same_gpus(const struct graph_xml_channel *a, const struct graph_xml_channel *b)
{
	for (size_t i = 0; i < a->gpu_count; i++) {
		size_t place = 0;

		while (place < b->gpu_count && b->gpus[place] != a->gpus[i])
			place++;
		if (place == b->gpu_count)
			return false;
	}
	return a->gpu_count == b->gpu_count;
}

static const char *wrong_with_channel(const struct graph_xml_graph *graph, const struct graph_xml_channel *channel)
{
	if (!channel->gpu_count || channel->gpu_count > GRAPH_XML_GPUS_MAX)
		return "a channel of no GPU or too many";
	if (channel->net_count != 0 && channel->net_count != 2)
		return "a channel with one net";
	for (size_t i = 0; i < channel->net_count; i++)
		if (channel->nets[i] < 0)
			return "a net without a number";
	for (size_t i = 0; i < channel->gpu_count; i++) {
		if (channel->gpus[i] < 0)
			return "a GPU without a number";
		for (size_t j = 0; j < i; j++)
			if (channel->gpus[j] == channel->gpus[i])
				return "a GPU that is twice in a channel";
	}
	return graph->id == GRAPH_XML_NVLS || graph_xml_same_gpus(channel, &graph->channels[0])
		       ? NULL
		       : "channels of different GPUs";
}

static const char *wrong_with_graph(const struct graph_xml_graph *graph)
{
	if ((int)graph->id < GRAPH_XML_RING || (int)graph->id > GRAPH_XML_DIRECT)
		return "NCCL knows no such graph";
	if ((int)graph->pattern < GRAPH_XML_PATTERN_BALANCED_TREE || (int)graph->pattern > GRAPH_XML_PATTERN_DIRECT)
		return "NCCL knows no such pattern";
	if (graph->channel_count > GRAPH_XML_CHANNELS_MAX)
		return "more channels than NCCL has room for";
	if (graph->crossnic < 0 || graph->crossnic > 2)
		return "crossnic is 0, 1 or 2";
	if (!good_number(graph->intra_GBps, RATE_MOST_GBPS) || !good_number(graph->inter_GBps, RATE_MOST_GBPS) ||
	    !good_number(graph->inter_latency_us, 1e6))
		return "a rate or latency that cannot be";
	if ((graph->pattern == GRAPH_XML_PATTERN_BALANCED_TREE || graph->pattern == GRAPH_XML_PATTERN_SPLIT_TREE) &&
	    graph->channel_count && graph->channels[0].gpu_count < 2)
		return "a tree of one GPU whose second has a child";
	for (size_t i = 0; i < graph->channel_count; i++) {
		const char *reason = wrong_with_channel(graph, &graph->channels[i]);

		if (reason)
			return reason;
	}
	return NULL;
}

static int check_graphs(const struct graph_xml *graphs, struct diag *diag)
{
	if (graphs->graph_count > GRAPH_XML_GRAPHS_MAX) {
		diag_set(diag, 0, 0, "%zu graphs", graphs->graph_count);
		return -EINVAL;
	}
	for (size_t i = 0; i < graphs->graph_count; i++) {
		const char *reason = wrong_with_graph(&graphs->graphs[i]);

		if (reason)
			return refuse(diag, &graphs->graphs[i], reason);
		for (size_t j = 0; j < i; j++)
			if (graphs->graphs[i].id == graphs->graphs[j].id)
				return refuse(diag, &graphs->graphs[i], "it is there twice");
	}
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------- text */

/* To six places; what is not nothing stays more than that. */
static void put_decimal(struct ncclxml_text *text, const char *name, double value)
{
	uint64_t millionths = (uint64_t)(value * 1e6 + 0.01); /* down: no more than there is */
	char digits[32];
	size_t length;

	if (!millionths && value > 0)
		millionths = 1;
	snprintf(digits, sizeof(digits), "%" PRIu64 ".%06" PRIu64, millionths / 1000000, millionths % 1000000);
	length = strlen(digits);
	while (digits[length - 1] == '0')
		length--;
	if (digits[length - 1] == '.')
		length--;
	ncclxml_text_attribute(text, name, "%.*s", (int)length, digits);
}

static void put_device(struct ncclxml_text *text, const char *element, int device)
{
	ncclxml_text_open(text, element);
	/* Hexadecimal, however it looks: with "0x" nobody can take it for anything else. */
	ncclxml_text_attribute(text, "dev", "%#x", (unsigned)device);
	ncclxml_text_close(text);
}

static void put_channel(struct ncclxml_text *text, const struct graph_xml_channel *channel)
{
	ncclxml_text_open(text, "channel");
	if (channel->net_count)
		put_device(text, "net", channel->nets[0]);
	for (size_t i = 0; i < channel->gpu_count; i++)
		put_device(text, "gpu", channel->gpus[i]);
	if (channel->net_count)
		put_device(text, "net", channel->nets[1]);
	ncclxml_text_close(text);
}

static void put_graph(struct ncclxml_text *text, const struct graph_xml_graph *graph)
{
	ncclxml_text_open(text, "graph");
	ncclxml_text_attribute(text, "id", "%d", graph->id);
	ncclxml_text_attribute(text, "pattern", "%d", graph->pattern);
	ncclxml_text_attribute(text, "crossnic", "%d", graph->crossnic);
	ncclxml_text_attribute(text, "nchannels", "%zu", graph->channel_count);
	put_decimal(text, "speedintra", graph->intra_GBps);
	put_decimal(text, "speedinter", graph->inter_GBps);
	put_decimal(text, "latencyinter", graph->inter_latency_us);
	ncclxml_text_attribute(text, "typeintra", "%s", class_word(graph->intra_class));
	ncclxml_text_attribute(text, "typeinter", "%s", class_word(graph->inter_class));
	ncclxml_text_attribute(text, "samechannels", "%d", graph->same_channels);
	for (size_t i = 0; i < graph->channel_count; i++)
		put_channel(text, &graph->channels[i]);
	ncclxml_text_close(text);
}

int graph_xml_write(const struct graph_xml *graphs, char **ret, size_t *ret_bytes, struct diag *diag)
{
	struct ncclxml_text text = { .element_max = NCCLMODEL_GRAPH_NODE_MAX };
	int r = check_graphs(graphs, diag);

	if (r < 0)
		return r;
	ncclxml_text_open(&text, "graphs");
	ncclxml_text_attribute(&text, "version", "%d", NCCLMODEL_VERSION);
	for (size_t i = 0; i < graphs->graph_count; i++)
		put_graph(&text, &graphs->graphs[i]);
	ncclxml_text_close(&text);
	if (text.out.error)
		diag_set(diag, 0, 0, "%s", text.reason ? text.reason : "no memory");
	return text_take(&text.out, ret, ret_bytes);
}
