/* `tributary plan`: the channels for some GPUs of a machine, drawn, compared, and as a file for NCCL. */
#include "command/command.h"

#include "command/plan/picture.h"
#include "command/file.h"
#include "command/json.h"
#include "command/source.h"
#include "ncclxml/graph_xml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum picture { PICTURE_SVG, PICTURE_DOT, PICTURE_HTML, PICTURE_COUNT };
static const char *const picture_options[PICTURE_COUNT] = { "svg", "dot", "html" };

struct planned {
	struct channels ours, other; /* other: NCCL's, if compared */
	bool compared;
};

/* --------------------------------------------------------------------------------------------------------- pictures */

static int draw_page(const struct planned *planned, FILE *out)
{
	struct channels_flows flows[2 * PLAN_PATTERN_COUNT];
	size_t count = 0;
	int r = 0;

	for (int maker = 0; maker < (planned->compared ? 2 : 1); maker++) {
		const struct channels *channels = maker ? &planned->other : &planned->ours;

		for (int i = 0; i < PLAN_PATTERN_COUNT && r == 0; i++) {
			if (!channels->has[i])
				continue;
			r = channels_flows_make(channels, (enum plan_pattern)i, &flows[count]);
			count += r == 0;
		}
	}
	if (r == 0)
		r = channels_page(flows, count, out);
	while (count--)
		channels_flows_free(&flows[count]);
	return r;
}

static int draw_one(const struct planned *planned, enum picture picture, enum plan_pattern pattern, FILE *out)
{
	struct channels_flows flows;
	int r = channels_flows_make(&planned->ours, pattern, &flows);

	if (r < 0)
		return r;
	r = picture == PICTURE_SVG ? channels_svg(&flows, out) : channels_dot(&flows, out);
	channels_flows_free(&flows);
	return r;
}

static int draw(const struct planned *planned, enum picture picture, enum plan_pattern pattern, const char *path,
		FILE *out)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *memory = open_memstream(&text, &bytes);
	int status, r;

	if (!memory)
		return command_failed(NULL, 0, "there is no memory for the picture");
	r = picture == PICTURE_HTML ? draw_page(planned, memory) : draw_one(planned, picture, pattern, memory);
	if (fclose(memory) || r < 0)
		status = command_failed(NULL, r, "the picture cannot be drawn");
	else
		status = file_put(path, text, bytes, out);
	free(text);
	return status;
}

static int draw_all(const struct command_call *call, const struct planned *planned, FILE *out, bool *ret_drawn)
{
	const char *word = command_value(call, "pattern");
	enum plan_pattern pattern = PLAN_RING;
	int status = COMMAND_OK;

	while (strcmp(channels_pattern_word(pattern), word) != 0)
		pattern = (enum plan_pattern)(pattern + 1);
	*ret_drawn = false;
	for (int i = 0; i < PICTURE_COUNT && status == COMMAND_OK; i++) {
		const char *path = command_value(call, picture_options[i]);

		if (path && i != PICTURE_HTML && !planned->ours.has[pattern])
			return command_usage_error("plan", "there is no %s here: chains are for several hosts", word);
		if (path)
			status = draw(planned, (enum picture)i, pattern, path, out);
		*ret_drawn |= path != NULL;
	}
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
	for (size_t i = 0; i < request->nic_count; i++) {
		term_clean(vertices[request->nics[i]].name, clean, sizeof(clean));
		fprintf(stderr, "%s %zu %s", i ? "," : "", i, clean);
	}
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

static int print(const struct command_call *call, const struct source *source, const struct planned *planned, bool done,
		 FILE *out)
{
	const struct channels *other = planned->compared ? &planned->other : NULL;
	struct term term = term_of(call, out);
	json_t *value;

	if (command_given(call, "json")) {
		value = channels_json(&planned->ours);
		json_object_set_new(value, "name",
				    *source->topology.name ? json_text(source->topology.name) : json_null());
		json_object_set_new(value, "profile", source->profiled ? json_text(source->profile_path) : json_null());
		json_object_set_new(value, "compared", other ? channels_json(other) : json_null());
		return json_print(value, out);
	}
	if (!done)
		channels_print(&planned->ours, other, &term, out);
	return COMMAND_OK;
}

static int show(const struct command_call *call, const struct source *source, const struct planned *planned, FILE *out)
{
	bool drawn;
	int status = draw_all(call, planned, out, &drawn);

	if (status == COMMAND_OK && command_given(call, "nccl-graph"))
		status = write_graph(call, &planned->ours, out);
	if (status == COMMAND_OK)
		status = print(call, source, planned, drawn || command_given(call, "nccl-graph"), out);
	return status;
}

static int plan(const struct command_call *call, struct source *source, FILE *out)
{
	const char *dump = command_value(call, "compare");
	struct planned planned = { .compared = false };
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
		status = show(call, source, &planned, out);
	if (planned.compared)
		channels_fini(&planned.other);
	channels_fini(&planned.ours);
	return status;
}

static bool to_stdout(const char *path)
{
	return path && !strcmp(path, "-");
}

/* Two documents on standard output would be none. */
static bool collides(const struct command_call *call)
{
	const char *output = command_value(call, "output");
	unsigned documents = command_given(call, "json");

	if (command_given(call, "nccl-graph") && (!output || to_stdout(output)))
		documents++;
	for (int i = 0; i < PICTURE_COUNT; i++)
		documents += to_stdout(command_value(call, picture_options[i]));
	return documents > 1;
}

static int run(const struct command_call *call, FILE *out)
{
	if (collides(call))
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
		     { "pattern", "ring|tree|chain", "what --svg and --dot draw", "ring" },
		     { "svg", "FILE", "a picture: a stripe for each channel in each link that it crosses", NULL },
		     { "dot", "FILE", "for graphviz", NULL },
		     { "html", "FILE", "one page with all patterns, numbers on hover and tables", NULL },
		     { "nccl-graph", NULL, "write a graph file for NCCL (NCCL_GRAPH_FILE)", NULL },
		     { "output", "FILE", "where --nccl-graph goes; without it, or with -, to standard output", NULL },
		     COMMAND_OPTION_JSON,
		     COMMAND_OPTION_COLOR },
	.run = run,
};
