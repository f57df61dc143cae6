/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary plan`: the channels for some GPUs of a machine, drawn, compared, and as a file for NCCL. */
#include "command/command.h"

#include "command/answer.h"
#include "command/file.h"
#include "command/json.h"
#include "command/plan/flows.h"
#include "command/print/units.h"
#include "command/show/page.h"
#include "command/source.h"
#include "ncclxml/graph_xml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct planned {
	const struct source *source;
	struct channels ours, other; /* other: NCCL's, if compared */
	bool compared;
	enum plan_pattern pattern; /* of --pattern */
};

/* ----------------------------------------------------------------------------------------------------------- answer */

/* "20.5 GB/s", or on one host and on several where it may be either. */
static void rate_words(const struct channels *channels, enum plan_pattern pattern, char *text, size_t text_bytes)
{
	size_t count = channels_count(&channels->graphs[pattern]);
	char one[UNITS_BYTES], several[UNITS_BYTES];

	if (channels->where == PLAN_EITHER && channels->set.has[pattern])
		snprintf(text, text_bytes, "%s GB/s on one host, %s on several",
			 units_GBps(channels->set.intra_Bps[pattern] * count, one),
			 units_GBps(channels->set.inter_Bps[pattern] * count, several));
	else
		snprintf(text, text_bytes, "%s GB/s", units_GBps(channels_total_Bps(&channels->graphs[pattern]), one));
}

static bool is_bounded(const struct channels *channels, enum plan_pattern pattern)
{
	return channels->has[pattern] && channels->graphs[pattern].rate_Bps < PLAN_UNBOUNDED_BPS;
}

/* How Tributary's channels compare with NCCL's, pattern by pattern where any differs. */
static void answer_compared(const struct planned *planned, struct answer *ret)
{
	const char *separator = "";
	double gains[PLAN_PATTERN_COUNT];
	bool same = true;
	char rate[96];

	for (int i = 0; i < PLAN_PATTERN_COUNT; i++) {
		uint64_t theirs = channels_total_Bps(&planned->other.graphs[i]);

		gains[i] = 0;
		if (!is_bounded(&planned->ours, (enum plan_pattern)i) ||
		    !is_bounded(&planned->other, (enum plan_pattern)i) || !theirs)
			continue;
		gains[i] = (double)channels_total_Bps(&planned->ours.graphs[i]) / (double)theirs;
		same &= !answer_differs(gains[i]);
	}
	if (same)
		answer_add(ret, "No difference: Tributary's channels carry what NCCL's carry");
	else
		answer_add(ret, "Tributary's channels carry ");
	for (int i = 0; i < PLAN_PATTERN_COUNT; i++) {
		const char *word = channels_pattern_word((enum plan_pattern)i);

		if (gains[i] <= 0)
			continue;
		rate_words(&planned->ours, (enum plan_pattern)i, rate, sizeof(rate));
		if (same)
			answer_add(ret, ", %s as %ss", rate, word);
		else
			answer_add(ret, "%s%.2f times what NCCL's carry as %ss (%s)", separator, gains[i], word, rate);
		separator = ", ";
	}
}

static void answer_alone(const struct channels *ours, enum plan_pattern pattern, struct answer *ret)
{
	const struct channels_graph *graph = &ours->graphs[pattern];
	char request[160], rate[96], share[40], name[3 * TOPOLOGY_NAME_BYTES];

	if (ours->where == PLAN_EITHER)
		answer_count(ours->request.gpu_count, "GPU", request);
	else
		channels_request_words(ours, request, sizeof(request));
	rate_words(ours, pattern, rate, sizeof(rate));
	channels_share_words(graph, share, sizeof(share));
	answer_add(ret, "%ss through %s carry %s", pattern == PLAN_RING ? "Ring" : "Tree", request, rate);
	if (channels_is_optimal(graph))
		answer_add(ret, ", as much as any channels can");
	else if (*share)
		answer_add(ret, ", %s", share);
	if (graph->load_count && graph->loads[0].capacity_Bps && channels_load_is_full(graph, &graph->loads[0])) {
		plan_load_name(ours->topology, &graph->loads[0], name, sizeof(name));
		answer_add(ret, ", limited by %s", name);
	}
}

static void answer(const struct planned *planned, struct answer *ret)
{
	const struct channels *ours = &planned->ours;
	enum plan_pattern pattern = ours->has[PLAN_RING] ? PLAN_RING : PLAN_TREE;

	*ret = (struct answer){ .text = "" };
	if (ours->request.gpu_count * ours->request.hosts < 2 && ours->where == PLAN_ONE_HOST)
		answer_add(ret, "One GPU exchanges nothing: it needs no channels.");
	else if (!is_bounded(ours, pattern))
		answer_add(ret,
			   "How fast it is cannot be said, as no rate of the links is known: run `tributary measure`.");
	if (ret->text[0])
		return;
	if (planned->compared)
		answer_compared(planned, ret);
	else
		answer_alone(ours, pattern, ret);
	if (source_is_measured(ours->topology))
		answer_add(ret, "; the plugin plans the same, no setting is needed.");
	else
		answer_add(ret, "; these are nominal rates: `tributary measure` finds what the links really carry.");
}

/* --------------------------------------------------------------------------------------------------------- pictures */

static json_t *plan_json(const struct planned *planned)
{
	const struct source *source = planned->source;
	json_t *value = json_object(), *channels = channels_json(&planned->ours);
	struct answer first;

	answer(planned, &first);
	json_object_set_new(value, "answer", answer_json(&first));
	json_object_update(value, channels);
	json_decref(channels);
	json_object_set_new(value, "name", json_known_text(source->topology.name));
	json_object_set_new(value, "profile", json_known_text(source->profile_path));
	json_object_set_new(value, "compared", planned->compared ? channels_json(&planned->other) : json_null());
	json_object_set_new(value, "machine", json_topology(&source->topology));
	return value;
}

static int draw_svg(const void *arg, FILE *out)
{
	const struct planned *planned = arg;

	return channels_draw(&planned->ours, planned->pattern, out);
}

/* The viewer takes the drawings in this order. */
static int draw_page(const void *arg, FILE *out)
{
	const struct planned *planned = arg;
	int r;

	page_begin(planned->source->topology.name, out);
	r = channels_draw_all(&planned->ours, out);
	if (r == 0 && planned->compared)
		r = channels_draw_all(&planned->other, out);
	return r < 0 ? r : page_end("tributary-plan 1", plan_json(planned), out);
}

static int draw(const struct command_call *call, struct planned *planned, FILE *out)
{
	const char *word = command_value(call, "pattern"), *svg = command_value(call, "svg"),
		   *page = command_value(call, "html");
	int status = COMMAND_OK;

	while (strcmp(channels_pattern_word(planned->pattern), word) != 0)
		planned->pattern++;
	if (svg && !planned->ours.has[planned->pattern])
		return command_usage_error("plan", "there is no %s here: chains are for several hosts", word);
	if (svg)
		status = file_put_made(svg, "the picture cannot be drawn", draw_svg, planned, out);
	if (page && status == COMMAND_OK)
		status = file_put_made(page, "the picture cannot be drawn", draw_page, planned, out);
	return status;
}

/* ------------------------------------------------------------------------------------------------------ NCCL's file */

/* For whom the file is; for anybody else it is fatal. */
static void warn(const struct channels *channels)
{
	const struct plan_request *request = &channels->request;
	const struct topology_vertex *vertices = channels->topology->vertices;
	char clean[TOPOLOGY_NAME_BYTES];

	fprintf(stderr,
		"tributary: NCCL_GRAPH_FILE with this file is for communicators that have exactly these GPUs on each "
		"host, any others fail:");
	for (size_t i = 0; i < request->gpu_count; i++) {
		term_clean(vertices[request->gpus[i]].bus_id, clean, sizeof(clean));
		fprintf(stderr, "%s %d%s%s%s", i ? "," : "", vertices[request->gpus[i]].gpu.index, *clean ? " (" : "",
			clean, *clean ? ")" : "");
	}
	fputc('\n', stderr);
	if (request->hosts <= 1)
		return;
	fputs("tributary: and for network devices in this order:", stderr);
	for (size_t i = 0; i < request->nic_count; i++)
		fprintf(stderr, "%s %zu %s", i ? "," : "", i, vertices[request->nics[i]].name);
	fputs(" (--nets gives another)\n", stderr);
}

static int write_graph(const struct command_call *call, const struct channels *channels, FILE *out)
{
	struct graph_xml_numbers numbers = { .inter_latency_us = 0 };
	struct graph_xml *graphs = calloc(1, sizeof(*graphs));
	struct diag diag = { 0 };
	char *text = NULL;
	size_t bytes = 0;
	int status, r = graphs ? 0 : -ENOMEM;

	for (size_t i = 0; i < channels->request.nic_count; i++)
		numbers.net_devices[i] = (int)i;
	if (r == 0)
		r = graph_xml_of_set(channels->topology, &channels->request, &channels->set, &numbers, graphs, &diag);
	if (r == 0)
		r = graph_xml_write(graphs, &text, &bytes, &diag);
	if (r == 0)
		status = file_put(command_value(call, "output"), text, bytes, out);
	else
		status = command_failed(&diag, r, "the channels cannot be written as a graph file");
	if (status == COMMAND_OK)
		warn(channels);
	free(text);
	free(graphs);
	return status;
}

/* ------------------------------------------------------------------------------------------------------------- whole */

static int show(const struct command_call *call, struct planned *planned, FILE *out)
{
	bool graph = command_given(call, "nccl-graph"),
	     drawn = command_given(call, "svg") || command_given(call, "html");
	struct term term = term_of(call, out);
	struct answer first;
	int status = draw(call, planned, out);

	if (status == COMMAND_OK && graph)
		status = write_graph(call, &planned->ours, out);
	if (status == COMMAND_OK && command_given(call, "json"))
		return json_print("tributary-plan 1", plan_json(planned), out);
	if (status == COMMAND_OK && !graph && !drawn) {
		answer(planned, &first);
		answer_print(&first, out);
		channels_print(&planned->ours, planned->compared ? &planned->other : NULL, &term, out);
	}
	return status;
}

static int plan(const struct command_call *call, struct source *source, FILE *out)
{
	const char *dump = command_value(call, "compare");
	struct planned planned = { .source = source };
	struct plan_request request;
	enum plan_where where;
	int status = channels_request(call, &source->topology, &request, &where);

	if (status == COMMAND_OK)
		status = channels_plan(&source->topology, &request, where, &planned.ours);
	if (status != COMMAND_OK)
		return status;
	if (dump)
		status = channels_read(&source->topology, &planned.ours.request, dump, &planned.other);
	planned.compared = dump && status == COMMAND_OK;
	if (status == COMMAND_OK)
		status = show(call, &planned, out);
	if (planned.compared)
		channels_fini(&planned.other);
	channels_fini(&planned.ours);
	return status;
}

static bool to_stdout(const struct command_call *call, const char *option)
{
	const char *path = command_value(call, option);

	return path && !strcmp(path, "-");
}

static int run(const struct command_call *call, FILE *out)
{
	/* Besides what command_check_outputs() knows: without --output the graph file goes there, too. */
	if (command_given(call, "nccl-graph") && !command_given(call, "output") &&
	    (command_given(call, "json") || to_stdout(call, "svg") || to_stdout(call, "html")))
		return command_usage_error("plan",
					   "only one of JSON, graph file and pictures can go to standard output");
	if (command_given(call, "output") && !command_given(call, "nccl-graph"))
		return command_usage_error("plan", "--output is where --nccl-graph goes");
	return source_run(call, out, plan);
}

const struct command command_plan = {
	.name = "plan",
	.group = COMMAND_PLANNING,
	.operands = "",
	.help = "plan rings and trees for some GPUs from what each link carries",
	.about = "Prints the channels that the links allow, what each moves, the links that they fill, and how far "
		 "from the best possible they are at most. With a profile and no --from: the machine that the "
		 "profile describes; without one, and for files, rates are nominal.\n"
		 "--compare judges the channels that NCCL chose for the same GPUs (NCCL_GRAPH_DUMP_FILE) on the same "
		 "capacities.\n"
		 "The plugin plans by itself and needs none of this. --nccl-graph is for an NCCL without it: a file "
		 "that serves communicators of exactly these GPUs, and makes any other fail.",
	.options = { COMMAND_OPTION_FROM,
		     COMMAND_OPTION_PROFILE,
		     COMMAND_OPTION_GPUS,
		     COMMAND_OPTION_NETS,
		     COMMAND_OPTION_HOSTS,
		     COMMAND_OPTION_COMPARE,
		     { "pattern", "ring|tree|chain", "what --svg draws", "ring" },
		     { "svg", "FILE", "a picture: a stripe for each channel in each link that it crosses", NULL },
		     { "html", "FILE", "one page with all patterns, numbers on hover and tables", NULL },
		     { "nccl-graph", NULL, "write a graph file for NCCL (NCCL_GRAPH_FILE)", NULL },
		     { "output", "FILE", "where --nccl-graph goes; without it, or with -, to standard output", NULL },
		     COMMAND_OPTION_JSON,
		     COMMAND_OPTION_COLOR },
	.example = "tributary plan --from machine.topology --gpus 0-3 --hosts 2",
	.run = run,
};
