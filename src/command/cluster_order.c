/* `tributary cluster order`: which host should have which ranks. */
#include "command/command.h"

#include "command/cluster_order/ordering.h"
#include "command/cluster_rates.h"
#include "command/json.h"

#include <stdlib.h>
#include <string.h>

static int print(const struct command_call *call, const struct ordering *ordering, FILE *out)
{
	const char *format = command_value(call, "format");

	if (command_given(call, "json"))
		return json_print("tributary-cluster-order 1", ordering_json(ordering), out);
	if (!strcmp(format, "hostfile"))
		ordering_print_hostfile(ordering, out);
	else if (!strcmp(format, "slurm"))
		ordering_print_slurm(ordering, out);
	else if (!strcmp(format, "torchrun"))
		ordering_print_torchrun(ordering, out);
	else
		ordering_print(ordering, out);
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	struct ordering ordering;
	int status;

	if (command_given(call, "json") && strcmp(command_value(call, "format"), "text") != 0)
		return command_usage_error("cluster order", "--json and --format %s: give one",
					   command_value(call, "format"));
	status = ordering_read(call, &ordering);
	if (status != COMMAND_OK)
		return status;
	status = ordering_run(&ordering);
	if (status == COMMAND_OK)
		status = print(call, &ordering, out);
	ordering_fini(&ordering);
	return status;
}

const struct command command_cluster_order = {
	.name = "cluster order",
	.operands = "[FILE]",
	.help = "which host should have which ranks, so that narrow links are crossed least",
	.about =
		"Orders the hosts of a cluster (FILE, in any form that `cluster show` reads, or --fabric, as of "
		"`simulate`) for rings and trees as NCCL forms them, with ranks laid out as Megatron does: "
		"tensor-parallel groups of consecutive ranks, then data, then pipeline.\n"
		"Prints what it would bring, or the file for a launcher: mpirun --hostfile, Slurm's SLURM_HOSTFILE "
		"for srun --distribution=arbitrary, a table of node ranks for torchrun. docs/guide/cluster.md says what is "
		"sought.",
	.options = { { "fabric", "FABRIC", "a made-up cluster, as leaf-spine:32x32,4:1,100Gbit/s", NULL },
		     COMMAND_OPTION_EXCLUDE,
		     COMMAND_OPTION_RATE,
		     { "hosts", "LIST", "these hosts alone, in the order in which they are now: node[1-8],x3", NULL },
		     { "hostfile", "FILE", "the same, a host a line", NULL },
		     { "gpus", "N", "ranks of each host", "1" },
		     { "tp", "N", "ranks of a tensor-parallel group", "1" },
		     { "pp", "N", "stages of a pipeline", "1" },
		     { "dp", "N", "ranks of a data-parallel group; without it, as many as there are hosts for", NULL },
		     { "algo", "ring|tree", "what comes first where one order is not best for both", "ring" },
		     { "size", "BYTES", "S, of a rank's buffer; K, M and G are powers of 1024", "1G" },
		     { "format", "text|hostfile|slurm|torchrun", "what is printed", "text" },
		     COMMAND_OPTION_JSON },
	.run = run,
};
