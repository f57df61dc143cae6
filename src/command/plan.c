/* `tributary plan`: the channels for some GPUs of a machine, drawn, compared, and as a file for NCCL. */
#include "command/command.h"

#include "command/file.h"
#include "command/json.h"
#include "command/plan/flows.h"
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

/* --------------------------------------------------------------------------------------------------------- pictures */

static json_t *plan_json(const struct planned *planned)
{
	const struct source *source = planned->source;
	json_t *value = channels_json(&planned->ours);

	json_object_set_new(value, "name", json_known_text(source->topology.name));
	json_object_set_new(value, "profile", json_known_text(source->profile_path));
	json_object_set_new(value, "compared", planned->compared ? channels_json(&planned->other) : json_null());
	json_object_set_new(value, "machine", json_topology(&source->topology));
	return value;
}

static int draw_pattern(const struct channels *channels, enum plan_pattern pattern, FILE *out)
{
	struct channels_flows flows;
	int r = channels_flows_make(channels, pattern, &flows);

	if (r < 0)
		return r;
	r = channels_svg(&flows, out);
	channels_flows_free(&flows);
	return r;
}

static int draw_svg(const void *arg, FILE *out)
{
	const struct planned *planned = arg;

	return draw_pattern(&planned->ours, planned->pattern, out);
}

/* The viewer takes the drawings in this order. */
static int draw_page(const void *arg, FILE *out)
{
	const struct planned *planned = arg;
	int r = 0;

	page_begin(planned->source->topology.name, out);
	for (int maker = 0; maker < (planned->compared ? 2 : 1); maker++) {
		const struct channels *channels = maker ? &planned->other : &planned->ours;

		for (int i = 0; i < PLAN_PATTERN_COUNT && r == 0; i++)
			if (channels->has[i])
				r = draw_pattern(channels, (enum plan_pattern)i, out);
	}
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
	int status = draw(call, planned, out);

	if (status == COMMAND_OK && graph)
		status = write_graph(call, &planned->ours, out);
	if (status == COMMAND_OK && command_given(call, "json"))
		return json_print("tributary-plan 1", plan_json(planned), out);
	if (status == COMMAND_OK && !graph && !drawn)
		channels_print(&planned->ours, planned->compared ? &planned->other : NULL, &term, out);
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
	.run = run,
};
