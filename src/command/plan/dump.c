/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL wrote to NCCL_GRAPH_DUMP_FILE, as channels that can be verified. */
#include "command/plan/internal.h"

#include "command/command.h"
#include "command/file.h"
#include "ncclxml/graph_xml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DUMP_BYTES_MAX = 16 << 20 };

struct dump {
	const char *path;
	const struct plan_request *request;
	struct graph_xml graphs;
	struct graph_xml_numbers numbers;
};

static bool same_channel(const struct graph_xml_channel *a, const struct graph_xml_channel *b)
{
	return a->gpu_count == b->gpu_count && a->net_count == b->net_count &&
	       !memcmp(a->gpus, b->gpus, a->gpu_count * sizeof(a->gpus[0])) &&
	       !memcmp(a->nets, b->nets, a->net_count * sizeof(a->nets[0]));
}

static size_t common(size_t a, size_t b)
{
	while (b) {
		size_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/*
 * NCCL may have more channels than a plan holds, of which many are alike: as few as have the same loads, and how many
 * times that is.
 */
static size_t fold(struct graph_xml_graph *graph)
{
	size_t counts[GRAPH_XML_CHANNELS_MAX] = { 0 }, distinct = 0, copies = 0, count = 0;
	struct graph_xml_channel channels[GRAPH_XML_CHANNELS_MAX];

	for (size_t i = 0; i < graph->channel_count; i++) {
		size_t at = 0;

		while (at < distinct && !same_channel(&channels[at], &graph->channels[i]))
			at++;
		channels[at] = graph->channels[i];
		distinct += at == distinct;
		counts[at]++;
	}
	for (size_t i = 0; i < distinct; i++)
		copies = common(copies, counts[i]);
	for (size_t i = 0; i < distinct; i++)
		for (size_t k = 0; k < counts[i] / copies; k++)
			graph->channels[count++] = channels[i];
	graph->channel_count = count;
	return copies;
}

/* The same for one host or several: a plan's request must say how many there are. */
static int check_hosts(const struct dump *dump, const struct graph_xml_graph *graph)
{
	bool nets = graph->channels[0].net_count > 0, several = dump->request->hosts > 1;

	if (nets == several)
		return COMMAND_OK;
	if (nets)
		command_say("\"%s\" is of several hosts, and here is one: say how many there are", dump->path);
	else
		command_say("\"%s\" is of one host: its channels have no NIC", dump->path);
	return COMMAND_FAILED;
}

static int take_graph(struct dump *dump, struct graph_xml_graph *graph, enum plan_pattern pattern, struct channels *ret)
{
	struct diag diag = { 0 };
	int status, r;

	if (!graph->channel_count)
		return COMMAND_OK;
	status = check_hosts(dump, graph);
	if (status != COMMAND_OK)
		return status;
	ret->graphs[pattern].copies = fold(graph);
	ret->graphs[pattern].believed_same = graph->same_channels;
	r = graph_xml_to_plan(ret->topology, dump->request, &dump->numbers, graph, &ret->graphs[pattern].plan, &diag);
	if (r == 0) {
		ret->graphs[pattern].plan.bound_Bps = 0;
		channels_believe(ret, pattern, graph->intra_GBps, graph->inter_GBps);
		r = channels_verify_other(ret, pattern, &diag);
	}
	return r == 0 ? COMMAND_OK : command_failed(&diag, r, "\"%s\" is no graph for these GPUs and NICs", dump->path);
}

static int read_dump(struct dump *dump)
{
	struct diag diag = { 0 };
	size_t bytes;
	char *text;
	int r, status = file_load(dump->path, DUMP_BYTES_MAX, "NCCL writes one where NCCL_GRAPH_DUMP_FILE says", &text,
				  &bytes);

	if (status != COMMAND_OK)
		return status;
	r = graph_xml_read(text, bytes, &dump->graphs, &diag);
	free(text);
	return r == 0 ? COMMAND_OK : command_failed(&diag, r, "\"%s\" is no graph file of NCCL", dump->path);
}

static int take_graphs(struct dump *dump, struct channels *ret)
{
	/* Heads alone say nothing: chains have them where there is no NVSwitch. */
	static const enum graph_xml_id ids[] = { GRAPH_XML_RING, GRAPH_XML_TREE, GRAPH_XML_CHAIN, GRAPH_XML_DIRECT };
	int patterns = topology_count(ret->topology, TOPOLOGY_NVSWITCH) ? PLAN_PATTERN_COUNT : PLAN_DIRECT;
	int status = COMMAND_OK;

	for (size_t i = 0; i < dump->graphs.graph_count; i++)
		for (int pattern = 0; pattern < patterns && status == COMMAND_OK; pattern++)
			if (dump->graphs.graphs[i].id == ids[pattern])
				status = take_graph(dump, &dump->graphs.graphs[i], (enum plan_pattern)pattern, ret);
	if (status == COMMAND_OK && !ret->has[PLAN_RING] && !ret->has[PLAN_TREE]) {
		command_say("\"%s\" has neither rings nor trees", dump->path);
		status = COMMAND_FAILED;
	}
	return status;
}

int channels_read(const struct topology *topology, const struct plan_request *request, const char *path,
		  struct channels *ret)
{
	struct dump *dump = calloc(1, sizeof(*dump));
	const char *slash = strrchr(path, '/');
	int status;

	if (!dump)
		return command_failed(NULL, ENOMEM, "there is no memory for \"%s\"", path);
	*dump = (struct dump){ .path = path, .request = request };
	for (size_t i = 0; i < PLAN_NICS_MAX; i++)
		dump->numbers.net_devices[i] = i < request->nic_count ? (int)i : -1;
	channels_begin(topology, request, request->hosts > 1 ? PLAN_SEVERAL_HOSTS : PLAN_ONE_HOST, "", ret);
	snprintf(ret->maker, sizeof(ret->maker), "NCCL (%.80s)", slash ? slash + 1 : path);
	status = read_dump(dump);
	if (status == COMMAND_OK)
		status = take_graphs(dump, ret);
	if (status != COMMAND_OK)
		channels_fini(ret);
	free(dump);
	return status;
}
