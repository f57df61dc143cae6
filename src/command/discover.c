/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary discover`: the machine graph, as text or JSON. */
#include "command/command.h"

#include "command/json.h"
#include "command/source.h"
#include "discover/discover.h"

#include <stdlib.h>

static const char *source_word(enum discover_source source)
{
	static const char *const words[DISCOVER_SOURCE_COUNT] = {
		[DISCOVER_HERE] = "here",         [DISCOVER_CAPTURE] = "capture", [DISCOVER_HWLOC_XML] = "hwloc-xml",
		[DISCOVER_NCCL_XML] = "nccl-xml", [DISCOVER_TEXT] = "text",
	};

	return words[source];
}

static int print(const struct command_call *call, const struct topology *topology, const struct discover_facts *facts,
		 enum discover_source source, FILE *out)
{
	json_t *value;
	size_t bytes;
	char *text;

	if (command_given(call, "json")) {
		value = json_topology(topology);
		json_object_set_new(value, "source", json_string(source_word(source)));
		return json_print("tributary-discover 1", value, out);
	}
	if (command_given(call, "facts")) {
		fputs(facts->text ? facts->text : "", out);
		return COMMAND_OK;
	}
	if (topology_write(topology, &text, &bytes) < 0)
		return command_failed(NULL, 0, "there is no memory for the text");
	fwrite(text, 1, bytes, out);
	free(text);
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	const char *from = command_value(call, "from");
	struct discover_facts facts = { 0 };
	enum discover_source source;
	struct topology topology;
	struct diag diag = { 0 };
	int status, r;

	if (command_given(call, "json") && command_given(call, "facts"))
		return command_usage_error("discover", "--json and --facts exclude each other");
	topology_init(&topology);
	r = discover(from, &topology, &facts, &source, &diag);
	if (r == 0 && from && diag.text[0])
		command_warn(&diag, "\"%s\"", from);
	if (r < 0)
		status = source_failed(from, r, &diag);
	else
		status = print(call, &topology, &facts, source, out);
	topology_fini(&topology);
	discover_facts_fini(&facts);
	return status;
}

const struct command command_discover = {
	.name = "discover",
	.group = COMMAND_SEE,
	.operands = "",
	.help = "the machine graph: what is in a machine and how it is joined",
	.about = "Prints the canonical text form (docs/format/graph.md): one vertex, link, limit or pair a line, "
		 "sorted, with nominal rates.",
	.options = { COMMAND_OPTION_FROM,
		     { "facts", NULL, "print what doctor goes by beside the graph (docs/format/graph.md)", NULL },
		     COMMAND_OPTION_JSON },
	.example = "tributary discover --from machine.tar.gz",
	.run = run,
};
