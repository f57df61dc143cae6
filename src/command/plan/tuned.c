/* SPDX-License-Identifier: Apache-2.0 */
#include "command/plan/channels.h"

#include "aggregate/gain.h"
#include "command/command.h"

#include "command/cluster_open.h"
#include <string.h>

static bool is_inside(const struct plan_load *load)
{
	return load->kind != PLAN_LOAD_NIC_IN && load->kind != PLAN_LOAD_NIC_OUT;
}

int channels_need_rates(const struct channels *channels)
{
	size_t inside = 0;

	for (int i = 0; i < PLAN_PATTERN_COUNT; i++) {
		const struct channels_graph *graph = &channels->graphs[i];

		for (size_t j = 0; channels->has[i] && j < graph->load_count; j++) {
			if (is_inside(&graph->loads[j]) && graph->loads[j].capacity_Bps)
				return COMMAND_OK;
			inside += is_inside(&graph->loads[j]);
		}
	}
	if (!inside)
		return COMMAND_OK;
	return command_failed(NULL, 0,
			      "no rate of the links between these devices is known, so no time can be worked out: give "
			      "--profile FILE, as `tributary measure` writes it");
}

int channels_collnet(const struct command_call *call, const struct channels *channels, size_t node_count,
		     struct channels_collnet *ret)
{
	const struct plan_request *request = &channels->request;
	const char *file = command_value(call, "cluster");
	struct gain_job job = { .host_name = "", .host_count = node_count };
	struct cluster *cluster;
	int status;

	*ret = (struct channels_collnet){ .on = command_given(call, "collnet"), .has_file = file != NULL };
	for (size_t i = 0; i < request->nic_count; i++)
		ret->loses_gdr |= channels->topology->vertices[request->nics[i]].nic.gdr;
	if ((ret->on || file) && node_count < 2)
		return command_usage_error(call->command->name, "--%s is for communicators on several hosts",
					   file ? "cluster" : "collnet");
	status = command_cluster_of(call, "cluster", &cluster);
	if (status != COMMAND_OK || !cluster)
		return status;
	if (node_count > cluster->host_count) {
		status = command_usage_error(call->command->name, "\"%s\" has %zu hosts: the communicator is on %zu",
					     file, cluster->host_count, node_count);
		cluster_free(cluster);
		return status;
	}
	for (size_t i = 0; i < request->nic_count; i++)
		job.rate_Bps += channels->topology->vertices[request->nics[i]].nic.speed_Bps;
	ret->gain_permille = gain_permille(cluster, &job);
	if (gain_is_enough(ret->gain_permille))
		ret->on = true;
	cluster_free(cluster);
	return COMMAND_OK;
}

const char *channels_to_set(const struct channels_collnet *collnet, bool is_taken)
{
	if (!collnet->on || !is_taken)
		return "no setting is needed";
	if (gain_is_enough(collnet->gain_permille))
		return "collnet needs NCCL_COLLNET_ENABLE=1, which the plugin sets where TRIBUTARY_CLUSTER names this "
		       "file on every host";
	return collnet->loses_gdr ? "set NCCL_COLLNET_ENABLE=1 on every host, which switches GPUDirect RDMA off"
				  : "set NCCL_COLLNET_ENABLE=1 on every host";
}

void channels_tuner(const struct channels *channels, size_t node_count, const struct channels_collnet *collnet,
		    struct predict_tuner *ret)
{
	size_t rank_count = channels->request.gpu_count * node_count;
	struct predict_communicator machine;
	struct plan_set set = channels->set;

	set.chain_gain_permille = gain_is_enough(collnet->gain_permille) ? collnet->gain_permille : 0;
	predict_of_machine(channels->topology, &channels->request, &machine);
	predict_tuner_make(&set, rank_count, node_count, machine.sm, NULL, ret);
	ret->file.cpu = ret->truth.cpu = machine.cpu;
	if (collnet->on) {
		predict_collnet_make(rank_count, node_count, NULL, &ret->collnet);
		ret->collnet.sizes_chunks = true; /* as the NCCL whose constants these are */
	} else {
		ret->file.chain.usable = ret->truth.chain.usable = false;
	}
}

static void costs_of(const struct predict_communicator *communicator, enum predict_collective collective,
		     uint64_t bytes, struct channels_costs *ret)
{
	for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++)
		for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++)
			ret->us[a][p] = (float)predict_time_us(communicator, collective, (enum predict_algorithm)a,
							       (enum predict_protocol)p, bytes);
}

/* As NCCL does: the first of the cheapest. */
static struct channels_taken take(const struct channels_costs *costs)
{
	struct channels_taken taken = { -1, -1 };
	float least = -1;

	for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++) {
		for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++) {
			if (costs->us[a][p] < 0 || (least >= 0 && costs->us[a][p] >= least))
				continue;
			least = costs->us[a][p];
			taken = (struct channels_taken){ a, p };
		}
	}
	return taken;
}

static double cost_of(const struct channels_costs *costs, struct channels_taken taken)
{
	return taken.algorithm < 0 ? -1 : (double)costs->us[taken.algorithm][taken.protocol];
}

static struct predict_table table_of(struct channels_costs *costs)
{
	return (struct predict_table){ &costs->us[0][0], PREDICT_ALGORITHM_COUNT, PREDICT_PROTOCOL_COUNT };
}

void channels_tune(const struct predict_tuner *tuner, enum predict_collective collective, uint64_t bytes,
		   struct channels_tuned *ret)
{
	struct predict_table table, truth = table_of(&ret->truth);
	struct channels_costs costs;

	ret->bytes = bytes;
	costs_of(&tuner->truth, collective, bytes, &ret->truth);
	predict_collnet_truth(&tuner->collnet, (int)collective, bytes, &truth);
	costs_of(&tuner->file, collective, bytes, &costs);
	ret->alone = take(&costs);
	table = table_of(&costs);
	(void)predict_tuner_edit(tuner, (int)collective, bytes, 1, &table);
	ret->tuned = take(&costs);
	ret->tuned_us = cost_of(&ret->truth, ret->tuned);
	ret->alone_us = cost_of(&ret->truth, ret->alone);
	ret->best_us = cost_of(&ret->truth, take(&ret->truth));
}
