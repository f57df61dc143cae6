/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's machine as rows of a fabric. The channels are those that the plugin plans for several such hosts, or NCCL's;
 * what they put on each link of the machine, for each byte that they move together, is its weight.
 */
#include "command/simulate/machine.h"

#include "command/command.h"
#include "command/plan/channels.h"
#include "command/source.h"
#include "simulate/fabric.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 4096 };

static const enum plan_pattern patterns[SIMULATE_PATTERN_COUNT] = {
	[SIMULATE_RINGS] = PLAN_RING, [SIMULATE_TREES] = PLAN_TREE, [SIMULATE_CHAINS] = PLAN_CHAIN
};

struct rows {
	struct simulate_row *at;
	size_t count;
};

/* The wire to the network is the fabric's own. */
static bool is_wire(const struct topology *topology, const struct plan_load *load)
{
	return load->kind == PLAN_LOAD_NIC_IN || load->kind == PLAN_LOAD_NIC_OUT ||
	       (load->kind == PLAN_LOAD_LINK && topology->links[load->index / 2].kind == TOPOLOGY_LINK_NETWORK);
}

static void add_row(const struct topology *topology, const struct plan_load *load, int pattern, double weight,
		    struct rows *rows)
{
	char name[SIMULATE_NAME_BYTES];
	size_t at = 0;

	plan_load_name(topology, load, name, sizeof(name));
	while (at < rows->count && strcmp(rows->at[at].name, name) != 0)
		at++;
	if (at == ROWS_MAX)
		return;
	if (at == rows->count) {
		rows->count++;
		memcpy(rows->at[at].name, name, sizeof(name));
		rows->at[at].capacity_Bps = (double)load->capacity_Bps;
	}
	rows->at[at].weight[pattern] += weight;
}

static int add_rows(const struct topology *topology, const struct plan_request *request,
		    const struct plan *const plans[static SIMULATE_PATTERN_COUNT], struct rows *rows)
{
	struct diag diag = { 0 };
	int r = 0;

	for (int i = 0; r == 0 && i < SIMULATE_PATTERN_COUNT; i++) {
		const struct plan *plan = plans[i];
		struct plan_request allows = *request;
		struct plan_load *loads = NULL;
		size_t count = 0;

		if (!plan)
			continue;
		allows.crossnic = plan->crossnic;
		r = plan_verify_loads(topology, &allows, plan, &loads, &count, &diag);
		for (size_t j = 0; r == 0 && j < count; j++)
			if (loads[j].capacity_Bps && !is_wire(topology, &loads[j]))
				add_row(topology, &loads[j], i,
					(double)loads[j].crossings / (double)plan->channel_count, rows);
		free(loads);
	}
	return r < 0 ? command_failed(&diag, r, "the machine's channels cannot be judged") : COMMAND_OK;
}

static int add_ours(const struct topology *topology, const struct plan_request *request, struct rows *rows)
{
	const struct plan *plans[SIMULATE_PATTERN_COUNT] = { NULL };
	struct plan_set *set = calloc(1, sizeof(*set));
	int status, r = set ? plan_make_set(topology, request, PLAN_SEVERAL_HOSTS, set) : -ENOMEM;

	for (int i = 0; r == 0 && i < SIMULATE_PATTERN_COUNT; i++)
		plans[i] = set->has[patterns[i]] ? &set->plans[patterns[i]] : NULL;
	status = r < 0 ? command_failed(NULL, r, "channels cannot be planned for this machine%s",
					request->nic_count ? "" : ", which has no NIC")
		       : add_rows(topology, request, plans, rows);
	free(set);
	return status;
}

/* A file without trees or chains says nothing of what these would be bound by: nobody shall take that for fast. */
static void warn_of_missing(const char *path, const struct channels *channels)
{
	char list[64] = "";

	for (int i = 0; i < SIMULATE_PATTERN_COUNT; i++)
		if (!channels->has[patterns[i]])
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%ss", list[0] ? " and no " : "",
				 channels_pattern_word(patterns[i]));
	if (list[0])
		command_say("\"%s\" has no %s: hosts bound nothing that goes by these", path, list);
}

/* path: NULL: NCCL's own. */
static int add_nccls(const struct topology *topology, const struct plan_request *request, const char *path,
		     struct rows *rows)
{
	const struct plan *plans[SIMULATE_PATTERN_COUNT] = { NULL };
	struct channels *channels = calloc(1, sizeof(*channels));
	int status;

	if (!channels)
		return command_failed(NULL, ENOMEM, "NCCL's channels cannot be estimated");
	status = path ? channels_read(topology, request, path, channels)
		      : channels_estimate(topology, request, channels);
	if (status == COMMAND_OK && path)
		warn_of_missing(path, channels);
	for (int i = 0; status == COMMAND_OK && i < SIMULATE_PATTERN_COUNT; i++)
		plans[i] = channels->has[patterns[i]] ? &channels->graphs[patterns[i]].plan : NULL;
	if (status == COMMAND_OK) {
		status = add_rows(topology, request, plans, rows);
		channels_fini(channels);
	}
	free(channels);
	return status;
}

static int take_machine(const struct command_call *call, const struct topology *topology, unsigned gpus,
			enum simulation_channels whose, struct simulate_fabric *fabric)
{
	const char *path = whose == SIMULATION_GIVEN ? command_value(call, "graph") : NULL;
	struct plan_request request;
	struct rows rows = { 0 };
	int status, r = plan_request_all(topology, &request);

	if (r < 0)
		return command_failed(NULL, r, "the machine has no GPUs that channels can be planned for");
	if (request.gpu_count < gpus)
		return command_usage_error(call->command->name,
					   "%u GPUs of each host are asked for, but the machine has %zu", gpus,
					   request.gpu_count);
	request.gpu_count = gpus;
	request.p2p_farthest = whose == SIMULATION_PLANNED ? channels_p2p(topology, request.gpus, gpus)
							   : plan_p2p_default(topology, request.gpus, gpus);
	request.hosts = (unsigned)fabric->host_count;
	/* Channels are planned for a cluster, of which there happens to be one host; a file is of one host or of several. */
	if (request.hosts < 2 && whose != SIMULATION_GIVEN)
		request.hosts = 2;
	rows.at = calloc(ROWS_MAX, sizeof(*rows.at));
	if (!rows.at)
		status = command_failed(NULL, ENOMEM, "channels cannot be planned");
	else
		status = whose == SIMULATION_PLANNED ? add_ours(topology, &request, &rows)
						     : add_nccls(topology, &request, path, &rows);
	if (status == COMMAND_OK && !rows.count)
		status = command_failed(NULL, 0,
					"no rate of the links inside the machine is known, so nothing bounds its "
					"channels: give --profile FILE, as `tributary measure` writes it");
	if (status == COMMAND_OK && simulate_fabric_set_rows(fabric, rows.at, rows.count) < 0)
		status = command_failed(NULL, ENOMEM, "the machine cannot be put into the fabric");
	free(rows.at);
	return status;
}

int simulation_machine(const struct command_call *call, unsigned gpus, enum simulation_channels whose,
		       struct simulate_fabric *fabric)
{
	struct source source;
	int status = source_load(call, SOURCE_PROFILE_ALONE, &source);

	if (status != COMMAND_OK)
		return status;
	status = take_machine(call, &source.topology, gpus, whose, fabric);
	source_fini(&source);
	return status;
}
