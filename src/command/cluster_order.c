/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary cluster order`: which host should have which ranks. */
#include "command/command.h"

#include "command/cluster_order/ordering.h"
#include "command/cluster_rates.h"
#include "command/file.h"
#include "command/json.h"
#include "command/show/page.h"
#include "command/simulate/simulation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "cluster order";

static int read_fabric(const struct command_call *call, struct ordering *ordering)
{
	const char *file = call->operand_count ? call->operands[0] : NULL, *text = command_value(call, "fabric");
	const char *slash = file ? strrchr(file, '/') : NULL;
	struct cluster_rates rates;
	int status = simulation_base(call, file, "FILE", &ordering->fabric, &rates);

	if (status != COMMAND_OK)
		return status;
	snprintf(ordering->title, sizeof(ordering->title), "%.190s", text ? text : (slash ? slash + 1 : file));
	ordering->known = !simulate_fabric_unknown_hosts(&ordering->fabric);
	if (ordering->known)
		cluster_rates_note(&rates, file, "bounds nothing");
	return COMMAND_OK;
}

static int read_hosts(const struct command_call *call, struct ordering *ordering)
{
	const char *list = command_value(call, "hosts"), *file = command_value(call, "hostfile");

	if (list && file)
		return command_usage_error(name, "--hosts and --hostfile both name the hosts: give one");
	ordering->hosts = calloc(ordering->fabric.host_count + 1, sizeof(*ordering->hosts));
	if (!ordering->hosts)
		return command_failed(NULL, ENOMEM, "the hosts cannot be ordered");
	ordering->given = list || file;
	if (list)
		return simulation_hosts_of_list(list, &ordering->fabric, ordering->hosts, &ordering->host_count);
	if (file)
		return simulation_hosts_of_file(file, NULL, &ordering->fabric, ordering->hosts, &ordering->host_count,
						&ordering->slots);
	ordering->host_count = ordering->fabric.host_count;
	for (uint32_t i = 0; i < ordering->host_count; i++)
		ordering->hosts[i] = i;
	return COMMAND_OK;
}

static int read_layout(const struct command_call *call, struct ordering *ordering)
{
	static const char *const options[] = { "gpus", "tp", "pp", "dp" };
	struct ranks_layout *layout = &ordering->layout;
	unsigned *const into[] = { &layout->gpus, &layout->tensor, &layout->pipeline, &layout->data };
	uint64_t ranks, group;

	for (size_t i = 0; i < sizeof(into) / sizeof(into[0]); i++) {
		uint64_t number = 0;

		if (command_number(call, options[i], 1, 65536, &number) != COMMAND_OK)
			return COMMAND_USAGE;
		*into[i] = (unsigned)number;
	}
	ranks = ordering->host_count * (uint64_t)layout->gpus;
	group = (uint64_t)layout->tensor * layout->pipeline;
	if (!layout->data && ranks % group)
		return command_usage_error(
			name, "%zu hosts of %u GPUs cannot be cut into groups of %u × %u: give --dp, or other hosts",
			ordering->host_count, layout->gpus, layout->tensor, layout->pipeline);
	if (!layout->data)
		layout->data = (unsigned)(ranks / group);
	ordering->used = ranks_hosts(layout);
	if (!ordering->used)
		return command_usage_error(name, "--tp × --pp × --dp must fill whole hosts of %u GPUs", layout->gpus);
	if (ordering->used > ordering->host_count)
		return command_usage_error(name, "--tp × --pp × --dp takes %zu hosts of %u GPUs, and there are %zu",
					   ordering->used, layout->gpus, ordering->host_count);
	return COMMAND_OK;
}

static int read_call(const struct command_call *call, struct ordering *ret)
{
	int status;

	ret->search = ranks_search_defaults();
	ret->search.tree_first = !strcmp(command_value(call, "algo"), "tree");
	status = simulation_size(call, &ret->bytes);
	if (status == COMMAND_OK)
		status = read_fabric(call, ret);
	if (status == COMMAND_OK)
		status = read_hosts(call, ret);
	if (status == COMMAND_OK)
		status = read_layout(call, ret);
	if (status == COMMAND_OK && ret->slots && ret->slots != ret->layout.gpus)
		command_say("the hosts file has %llu ranks on a host, and --gpus is %u: give --gpus %llu if "
			    "so many are meant",
			    (unsigned long long)ret->slots, ret->layout.gpus, (unsigned long long)ret->slots);
	return status;
}

static void side_fini(struct ordering_side *side)
{
	free(side->order);
	free(side->load_B);
}

static void ordering_fini(struct ordering *ordering)
{
	side_fini(&ordering->before);
	side_fini(&ordering->after);
	free(ordering->hosts);
	simulate_fabric_fini(&ordering->fabric);
}

static int draw_page(const void *arg, FILE *to)
{
	const struct ordering *ordering = arg;

	page_begin(ordering->title, to);
	return page_end("tributary-cluster-order 1", ordering_json(ordering), to);
}

static int run(const struct command_call *call, FILE *out)
{
	const char *format = command_value(call, "format"), *page = command_value(call, "html");
	struct ordering ordering = { .host_count = 0 };
	int status;

	if (command_given(call, "json") && strcmp(format, "text") != 0)
		return command_usage_error(name, "--json and --format %s: give one", format);
	status = read_call(call, &ordering);
	if (status == COMMAND_OK)
		status = ordering_run(&ordering);
	if (status == COMMAND_OK && page)
		status = file_put_made(page, "the page cannot be drawn", draw_page, &ordering, out);
	if (status == COMMAND_OK && command_given(call, "json"))
		status = json_print("tributary-cluster-order 1", ordering_json(&ordering), out);
	else if (status == COMMAND_OK && !page)
		ordering_print(&ordering, format, out);
	ordering_fini(&ordering);
	return status;
}

const struct command command_cluster_order = {
	.name = "cluster order",
	.group = COMMAND_CLUSTERS,
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
		     { "size", "BYTES", "S, of a rank's buffer; 64M and 64MiB are powers of 1024, 64MB of 1000", "1G" },
		     { "format", "text|hostfile|slurm|torchrun", "what is printed", "text" },
		     { "html", "FILE", "one page: the ranks and the loads of uplinks, before and after", NULL },
		     COMMAND_OPTION_JSON },
	.example = "tributary cluster order cluster --gpus 8 --format slurm",
	.run = run,
};
