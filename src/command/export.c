/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary export`: the machine as an NCCL topology file, or as a graph for other programs. */
#include "command/command.h"

#include "command/answer.h"
#include "command/cluster_rates.h"
#include "command/file.h"
#include "command/graph_json.h"
#include "command/json.h"
#include "command/print/units.h"
#include "command/source.h"
#include "ncclxml/topology_xml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct topology_xml_shape shape_of(const struct command_call *call, const struct topology *topology)
{
	struct topology_xml_shape shape = { .bridges = true, .p2p_farthest = TOPOLOGY_CLASS_PXB };
	const char *word = command_value(call, "sockets");

	if (!strcmp(word, "cpus"))
		shape.sockets = TOPOLOGY_XML_SOCKETS_CPUS;
	else if (!strcmp(word, "switches"))
		shape.sockets = TOPOLOGY_XML_SOCKETS_SWITCHES;
	else
		shape.p2p_farthest = topology_xml_p2p(topology);
	return shape;
}

static bool lacks_architecture(const struct topology *topology)
{
	for (size_t i = 0; i < topology->vertex_count; i++)
		if (topology->vertices[i].kind == TOPOLOGY_CPU && !topology->vertices[i].cpu.architecture[0])
			return true;
	return false;
}

static size_t count_links(const struct topology *topology, enum topology_provenance least)
{
	size_t count = 0;

	for (size_t i = 0; i < topology->link_count; i++)
		count += topology->links[i].capacity[TOPOLOGY_UP].provenance >= least ||
			 topology->links[i].capacity[TOPOLOGY_DOWN].provenance >= least;
	return count;
}

static void print_summary(const struct source *source, const struct topology_xml_shape *shape,
			  const struct topology_xml_report *report)
{
	size_t measured = count_links(&source->topology, TOPOLOGY_AT_LEAST);
	char off[UNITS_BYTES], measured_rate[UNITS_BYTES];

	/* From what is not measured nobody knows how far off it is. */
	command_say("%zu of NCCL's 256 nodes; %zu of %zu links measured%s%s%s; NCCL %s %s%s", report->node_count,
		    measured, source->topology.link_count, source->profiled ? " (" : "",
		    source->profiled ? source->profile_path : "", source->profiled ? ")" : "",
		    measured ? "will be off by at most" : "reads their rates to within",
		    units_rate(report->worst_error_Bps, off), measured ? " on what the file says" : "");
	if (report->socket_Bps && answer_differs((double)report->socket_Bps / (double)report->nccl_socket_Bps))
		command_say("between sockets NCCL takes %s, a constant of its own, instead of %s; `--sockets "
			    "switches` gives it the rate, and changes classes of paths",
			    units_rate((double)report->nccl_socket_Bps, off),
			    units_rate((double)report->socket_Bps, measured_rate));
	source_note_rates(source);
	if (lacks_architecture(&source->topology))
		command_say(
			"a <cpu> stays without arch, which nothing here says: `tributary lint` says what NCCL makes of "
			"it; on the machine itself the file is whole");
	if (!topology_count(&source->topology, TOPOLOGY_GPU))
		command_say("the machine has no GPU: the file says nothing that NCCL needs");
	if (shape->p2p_farthest >= TOPOLOGY_CLASS_PHB)
		command_say("GPUs are written below one PCI switch, for NCCL to use P2P up to %s: it is "
			    "faster than host memory",
			    topology_class_word(shape->p2p_farthest));
	else if (report->sockets_as_switches)
		command_say("sockets are written as PCI switches under one CPU, to give NCCL their "
			    "measured rate");
	if (report->changed_classes[0])
		command_say("this changes path classes: %s", report->changed_classes);
}

static double worst_error_Bps(const struct topology_xml_report *report)
{
	double between_Bps = fabs((double)report->socket_Bps - (double)report->nccl_socket_Bps);

	return between_Bps > report->worst_error_Bps ? between_Bps : report->worst_error_Bps;
}

static json_t *summary(const struct source *source, const struct topology_xml_shape *shape,
		       const struct topology_xml_report *report, const char *output)
{
	return json_pack("{so sI sI sI so sb ss ss sf}", "file", output ? json_text(output) : json_null(), "nodes",
			 (json_int_t)report->node_count, "links", (json_int_t)source->topology.link_count,
			 "measured_links", (json_int_t)count_links(&source->topology, TOPOLOGY_AT_LEAST), "profile",
			 json_known_text(source->profile_path), "sockets_as_switches", report->sockets_as_switches,
			 "p2p_farthest", topology_class_word(shape->p2p_farthest), "changed_classes",
			 report->changed_classes, "worst_error_Bps", worst_error_Bps(report));
}

static int write_xml(const struct command_call *call, const struct source *source, FILE *out)
{
	const char *output = command_value(call, "output");
	const struct topology_xml_shape shape = shape_of(call, &source->topology);
	struct topology_xml_report report = { 0 };
	struct diag diag = { 0 };
	int status, r;
	size_t bytes;
	char *text;

	r = topology_xml_write(&source->topology, &shape, &text, &bytes, &report, &diag);
	if (r < 0)
		return command_failed(&diag, r, "the machine cannot be written as an NCCL topology file");
	status = file_put(output, text, bytes, out);
	free(text);
	if (status != COMMAND_OK)
		return status;
	if (command_given(call, "json"))
		return json_print("tributary-export 1", summary(source, &shape, &report, output), out);
	print_summary(source, &shape, &report);
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	static const char *const of_graphs[] = { "cluster", "exclude", "fabric", "rate",  "aggregators",
						 "degrade", "payload", "algo",   "order", "size" };
	const char *output = command_value(call, "output");
	struct source source;
	int status;

	if (command_given(call, "graph-json")) {
		if (command_given(call, "json"))
			return command_usage_error("export", "--graph-json has no summary: leave out --json");
		return graph_json_write(call, out);
	}
	for (size_t i = 0; i < sizeof(of_graphs) / sizeof(of_graphs[0]); i++)
		if (command_given(call, of_graphs[i]))
			return command_usage_error(
				"export", "--%s: an NCCL topology file has no cluster: --graph-json has", of_graphs[i]);
	if (command_given(call, "json") && (!output || !strcmp(output, "-")))
		return command_usage_error("export", "--json needs --output FILE: both would go to standard output");
	status = source_load(call, SOURCE_PROFILE_ALONE, &source);
	if (status != COMMAND_OK)
		return status;
	status = write_xml(call, &source, out);
	source_fini(&source);
	return status;
}

const struct command command_export = {
	.name = "export",
	.group = COMMAND_FILES,
	.operands = "",
	.help = "write a topology file that an unmodified NCCL takes (NCCL_TOPO_FILE)",
	.about = "Every link gets the width and speed by which NCCL computes the rate nearest to its measurement. A "
		 "summary goes to standard error.\n"
		 "NCCL has a constant for the link between sockets. Where the measured rate is far from it, sockets "
		 "can be written as PCI switches under one CPU, which gives NCCL the rate but changes classes of "
		 "paths.\n"
		 "--graph-json writes a graph for other programs in its place: the machine with the channels "
		 "planned for it, and, with --cluster or --fabric, a cluster with the flows of one AllReduce and "
		 "their times (without --from that alone).",
	.options = { COMMAND_OPTION_FROM,
		     COMMAND_OPTION_PROFILE,
		     { "output", "FILE", "where to write it; without it, or with -, to standard output", NULL },
		     { "sockets", "auto|cpus|switches",
		       "auto: as switches when that matters and the classes that change are acceptable", "auto" },
		     { "graph-json", NULL, "a graph as JSON, by docs/format/graph.schema.json", NULL },
		     { "cluster", "FILE", "of the graph: a cluster, in any form that `cluster show` reads", NULL },
		     COMMAND_OPTION_EXCLUDE,
		     { "fabric", "FABRIC", "of the graph: a made-up cluster, as simulate takes it", NULL },
		     COMMAND_OPTION_RATE,
		     { "aggregators", "N,RATE", "add so many to each leaf", NULL },
		     { "degrade", "LIST", "links with less: leaf3.up=25Gbit/s,host17=50%", NULL },
		     { "payload", "SHARE", "of the network's rates that carries payload", "1" },
		     { "algo", "ring|tree|hierarchical|aggregators", "whose flows", "ring" },
		     { "order", "WORD", "of ranks: rank (by name), leaf, random:SEED, or a file", "rank" },
		     { "size", "BYTES", "of a rank's buffer", "16M" },
		     { "json", NULL, "print the summary as JSON on standard output; needs --output", NULL } },
	.example = "tributary export --from machine.topology --output topology.xml",
	.run = run,
};
