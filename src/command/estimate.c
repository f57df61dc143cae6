/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary estimate`: how long a training step takes, and how much of that is waiting for the network. */
#include "command/command.h"

#include "command/cluster_rates.h"
#include "command/estimate/estimation.h"
#include "command/json.h"
#include "command/simulate/simulation.h"

#include <stdlib.h>

static int read_settings(const struct command_call *call, struct estimation *estimation)
{
	int status = simulation_settings(call, &estimation->settings);

	if (status != COMMAND_OK)
		return status;
	estimation->published = command_given(call, "published");
	if (!estimation->published)
		return COMMAND_OK;
	if (command_given(call, "pipeline"))
		return command_usage_error("estimate", "--published has no pipelines");
	if (command_given(call, "cluster") || command_given(call, "fabric"))
		return command_usage_error("estimate", "--published takes all from the system's file, and no cluster");
	return COMMAND_OK;
}

/* A cluster has as many hosts as it has; of each, the file says what it is. */
static int read_fabric(const struct command_call *call, struct estimation *estimation)
{
	struct step_system *rates = &estimation->system.rates;
	size_t gpus = rates->devices / rates->hosts;
	int status = simulation_fabric(call, (unsigned)gpus, SIMULATION_PLANNED, &estimation->fabric);

	if (status == COMMAND_OK) {
		rates->hosts = estimation->fabric.host_count;
		rates->devices = rates->hosts * gpus;
	}
	return status;
}

static int estimate(const struct command_call *call, struct estimation *estimation, FILE *out)
{
	const char *system = command_value(call, "system");
	int status;

	if (!system)
		return command_usage_error("estimate", "give the system: --system FILE");
	status = read_settings(call, estimation);
	if (status == COMMAND_OK)
		status = estimation_read_system(system, &estimation->system);
	if (status == COMMAND_OK && !estimation->published)
		status = read_fabric(call, estimation);
	if (status == COMMAND_OK)
		status = estimation_read_model(call, call->operands[0], &estimation->system, &estimation->model);
	if (status == COMMAND_OK)
		status = estimation_run(call, estimation);
	if (status != COMMAND_OK)
		return status;
	if (command_given(call, "json"))
		return json_print("tributary-estimate 1", estimation_json(estimation), out);
	estimation_print(estimation, out);
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	struct estimation *estimation = calloc(1, sizeof(*estimation));
	int status;

	if (!estimation)
		return command_failed(NULL, 0, "there is no memory for an estimate");
	status = estimate(call, estimation, out);
	simulate_fabric_fini(&estimation->fabric);
	free(estimation);
	return status;
}

const struct command command_estimate = {
	.name = "estimate",
	.group = COMMAND_CLUSTERS,
	.operands = "FILE",
	.help = "how long a training step takes on a cluster, and how much of it waits for the network",
	.about =
		"FILE is a model as JSON; --system says what its devices can do. Computing takes its FLOPs over "
		"what the device reaches; communication what `tributary simulate` predicts for this cluster, as "
		"rings in two orders, by aggregation, and with one more aggregator in each leaf. docs/design/simulation.md "
		"has the forms of the files and the formulas.\n"
		"With --published communication is taken from the system's file by the formulas of the published "
		"model whose files these are, without latency.",
	.options = { { "system", "FILE", "what devices, links and ports can do", NULL },
		     { "parallel", "WORD", "ddp, fsdp or tp:N", "ddp" },
		     { "batch", "N", "samples of each GPU", "1" },
		     { "pipeline", "STAGES", "layers are cut in so many stages, each on a part of the hosts", "1" },
		     { "micro-batches", "N", "the batch goes through the stages in so many parts", "1" },
		     { "published", NULL, "the published formulas", NULL },
		     { "cluster", "FILE", "a cluster, in any form that `cluster show` reads", NULL },
		     COMMAND_OPTION_EXCLUDE,
		     { "fabric", "FABRIC", "a made-up cluster, as simulate takes it", NULL },
		     COMMAND_OPTION_RATE,
		     { "order", "WORD", "of ranks now: rank (by name), leaf, random:SEED, or a file with a host a line",
		       "rank" },
		     { "aggregators", "N,RATE", "add so many to each leaf", NULL },
		     { "degrade", "LIST", "links with less: leaf3.up=25Gbit/s,host17=50%", NULL },
		     { "payload", "SHARE", "of the network's rates that carries payload", "1" },
		     { "latency", "SECONDS", "from the end of a message to when it can be passed on", "0.00001" },
		     { "from", "FILE", "each host is this machine: NCCL's own channels and ours are compared, too",
		       NULL },
		     COMMAND_OPTION_PROFILE,
		     { "graph", "FILE", "NCCL's own channels as its graph file has them, not as they are estimated",
		       NULL },
		     COMMAND_OPTION_JSON },
	.example = "tributary estimate model.json --system system.json --fabric leaf-spine:2x4,4:1,100Gbit/s",
	.run = run,
};
