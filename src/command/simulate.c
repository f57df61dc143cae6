/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary simulate`: how long collectives take on a cluster that need not exist. */
#include "command/command.h"

#include "command/cluster_rates.h"
#include "command/file.h"
#include "command/json.h"
#include "command/show/page.h"
#include "command/simulate/simulation.h"

#include <stdlib.h>
#include <string.h>

static int draw(const void *arg, FILE *to)
{
	const struct simulation *simulation = arg;

	page_begin(simulation->title, to);
	return page_end("tributary-simulate 1", simulation_json(simulation), to);
}

static int run(const struct command_call *call, FILE *out)
{
	const char *page = command_value(call, "html");
	struct simulation *simulation;
	int status;

	simulation = calloc(1, sizeof(*simulation));
	if (!simulation)
		return command_failed(NULL, 0, "there is no memory for a simulation");
	status = simulation_read(call, simulation);
	if (status == COMMAND_OK) {
		if (simulation->fabric.host_count < 2 && !simulation->fabric.row_count)
			command_say("one host sends nothing over the network; --from FILE says what is inside "
				    "it");
		status = simulation_run(simulation, page != NULL);
		if (status == COMMAND_OK && page)
			status = file_put_made(page, "the page cannot be drawn", draw, simulation, out);
		if (status == COMMAND_OK && command_given(call, "json"))
			status = json_print("tributary-simulate 1", simulation_json(simulation), out);
		else if (status == COMMAND_OK && !page)
			simulation_print(simulation, out);
		simulation_fini(simulation);
	}
	free(simulation);
	return status;
}

const struct command command_simulate = {
	.name = "simulate",
	.group = COMMAND_CLUSTERS,
	.operands = "",
	.help = "how long collectives take on a cluster, real or made up, and which links they fill",
	.about =
		"Compares algorithms and orders of ranks on a cluster: time, bandwidth as nccl-tests counts it, the "
		"bytes on each link, the fullest links. Flows share links fairly; docs/design/simulation.md says how, and how "
		"far to trust it, docs/guide/cluster.md when aggregation gains: a ring in the order of leaves is hard to beat.\n"
		"FABRIC is leaf-spine:LEAVESxHOSTS,RATIO:1,RATE or fat-tree:K,RATIO:1,RATE or "
		"rail-optimised:GROUPSxHOSTSxRAILS,RATIO:1,RATE; RATIO is that of the hosts' rate to the uplink's, "
		"1:1 if it is left out.\n"
		"With --from or --profile, every host is such a machine, and what its links carry bounds the "
		"collective too. Channels are those that the plugin would plan, or with --graph those of a file: "
		"NCCL's own (NCCL_GRAPH_DUMP_FILE), or one for NCCL_GRAPH_FILE.",
	.options = { { "cluster", "FILE", "a cluster, in any form that `cluster show` reads", NULL },
		     COMMAND_OPTION_EXCLUDE,
		     { "fabric", "FABRIC", "a made-up cluster, as leaf-spine:32x32,4:1,100Gbit/s", NULL },
		     COMMAND_OPTION_RATE,
		     { "collective", "allreduce|allgather|reducescatter|alltoall|permutation|incast", "what runs",
		       "allreduce" },
		     { "algo", "LIST",
		       "ring, tree, hierarchical, aggregators: each is a case, the last one by itself where there are some; "
		       "AllGather and ReduceScatter: ring alone",
		       "ring,tree,hierarchical" },
		     { "order", "LIST",
		       "orders of ranks: rank (by name), leaf, random:SEED, or a file with a "
		       "host a line; each is a case",
		       "rank" },
		     { "size", "BYTES", "of a rank's buffer; 64M and 64MiB are powers of 1024, 64MB of 1000", "1G" },
		     { "gpus", "N", "of each host", "1" },
		     { "jobs", "N", "so many at once: the hosts are cut in their order", "1" },
		     { "aggregators", "N,RATE", "add so many to each leaf", NULL },
		     { "degrade", "LIST", "links with less: leaf3.up=25Gbit/s,host17=50%", NULL },
		     { "payload", "SHARE",
		       "of the network's rates that carries payload: 0.957 of 1500-byte TCP packets", "1" },
		     { "latency", "SECONDS", "from the end of a message to when it can be passed on", "0.00001" },
		     { "detail", "auto|steps|pipelined",
		       "every message, or each pipeline as one flow; auto: as many "
		       "steps as there is time for",
		       "auto" },
		     { "from", "FILE", "each host is this machine: a file or folder, as `discover` takes it", NULL },
		     COMMAND_OPTION_PROFILE,
		     { "graph", "FILE", "the channels inside each host: a graph file of NCCL's", NULL },
		     { "html", "FILE",
		       "one page: the cases as bars, a map of the links' loads, a timeline with phases, tables", NULL },
		     COMMAND_OPTION_JSON },
	.example = "tributary simulate --fabric leaf-spine:2x4,8:1,100Gbit/s --size 64M",
	.run = run,
};
