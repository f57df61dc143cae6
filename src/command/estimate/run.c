/* SPDX-License-Identifier: Apache-2.0 */
/* The cases. */
#include "command/estimate/network.h"

#include "base/log.h"
#include "command/command.h"
#include "command/simulate/machine.h"
#include "command/simulate/simulation.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static size_t gpus_of(const struct estimation *estimation)
{
	return estimation->system.rates.devices / estimation->system.rates.hosts;
}

/* ---------------------------------------------------------------------------------------------------------------- cases */

static void compute_layers(const struct estimation_model *model, struct step_layers *layers)
{
	for (size_t i = 0; i < model->layer_count; i++) {
		const struct estimation_layers *from = &model->layers[i];
		double share = from->parallel == STEP_TENSOR ? 1 / (double)model->tensor : 1;

		layers[i] = (struct step_layers){ .count = from->count,
						  .parallel = from->parallel,
						  .beside = from->beside,
						  .forward_s = from->forward_flop * share / from->flop_s };
		layers[i].backward_s = 2 * layers[i].forward_s;
	}
}

static void add_case(struct estimation *estimation, const char *name, const char *why, bool bound,
		     struct step_times times)
{
	if (estimation->case_count == ESTIMATION_CASES_MAX)
		return;
	estimation->cases[estimation->case_count++] = (struct estimation_case){ name, why, bound, times };
}

static int run_published(struct estimation *estimation)
{
	const struct estimation_model *model = &estimation->model;
	const struct step_system *system = &estimation->system.rates;
	struct step_layers layers[ESTIMATION_LAYERS_MAX];
	double lookup_s = model->lookup_bytes / estimation->system.memory_Bps;
	struct step_lookups lookups = { lookup_s, lookup_s, 0 };

	if (system->devices > 1)
		lookups.exchange_s = model->published_exchange_bytes / step_exchange_Bps(system);
	if (system->devices > 1 && !(step_blend_Bps(system) > 0 && step_exchange_Bps(system) > 0))
		return command_failed(NULL, 0,
				      "the system's devices have no link or port between them: --published divides "
				      "by its rate");
	compute_layers(model, layers);
	for (size_t i = 0; i < model->layer_count && system->devices > 1; i++) {
		double bytes = model->layers[i].parameter_bytes;

		if (layers[i].parallel == STEP_TENSOR)
			return command_failed(NULL, 0, "--published has no tensor-parallel layers");
		layers[i].reduce_s = bytes / step_blend_Bps(system);
		layers[i].gather_s = layers[i].scatter_s = layers[i].reduce_s / 2;
	}
	add_case(estimation, "published formulas", "", false, step_estimate(&lookups, layers, model->layer_count));
	return COMMAND_OK;
}

static int run_case(struct estimation *estimation, const char *name, const char *why, struct network *network)
{
	const struct estimation_model *model = &estimation->model;
	unsigned gpus = (unsigned)gpus_of(estimation), replicas = (unsigned)(gpus / model->tensor);
	struct step_layers layers[ESTIMATION_LAYERS_MAX] = { 0 };
	double lookup_s = model->lookup_bytes / estimation->system.memory_Bps;
	struct step_lookups lookups = { lookup_s, lookup_s, 0 };

	network->estimation = estimation;
	compute_layers(model, layers);
	if (model->stages > 1) {
		struct step_times times = { 0 };

		if (estimation_pipeline(network, replicas, layers, &times) == COMMAND_OK)
			add_case(estimation, name, why, network->bound, times);
		return network->status;
	}
	lookups.exchange_s = network_time_s(network, SIMULATE_ALLTOALL, gpus, model->exchange_bytes);
	for (size_t i = 0; i < model->layer_count; i++) {
		double bytes = model->layers[i].parameter_bytes;

		if (layers[i].parallel == STEP_FSDP) {
			layers[i].gather_s = network_time_s(network, SIMULATE_ALLGATHER, gpus, bytes);
			layers[i].scatter_s = network_time_s(network, SIMULATE_REDUCESCATTER, gpus, bytes);
		} else if (layers[i].parallel == STEP_DDP) {
			layers[i].reduce_s = network_time_s(network, SIMULATE_ALLREDUCE, gpus, bytes);
		} else if (layers[i].parallel == STEP_TENSOR) {
			/* Its devices each sum their part, at once, over the same NICs: together the whole. */
			layers[i].reduce_s = network_time_s(network, SIMULATE_ALLREDUCE, replicas, bytes);
			layers[i].activations_s = network_inside_s(network, SIMULATE_ALLREDUCE, (double)model->tensor,
								   (double)model->tensor,
								   model->layers[i].activation_bytes);
		}
	}
	if (network->status == COMMAND_OK)
		add_case(estimation, name, why, network->bound, step_estimate(&lookups, layers, model->layer_count));
	return network->status;
}

/* What an aggregator of a leaf has to carry so that its hosts need no other: as much as they do together. */
static double hosts_of_a_leaf_Bps(const struct simulate_fabric *fabric)
{
	double most_Bps = 0;

	for (size_t i = 0; i < fabric->host_count; i++) {
		double rate_Bps = 0;

		for (size_t j = 0; j < fabric->host_count; j++)
			if (fabric->nics[j * fabric->rail_count].leaf == fabric->nics[i * fabric->rail_count].leaf)
				rate_Bps += fabric->nics[j * fabric->rail_count].capacity_Bps[SIMULATE_UP];
		most_Bps = fmax(most_Bps, rate_Bps);
	}
	return isfinite(most_Bps) ? most_Bps : 0;
}

struct cluster_run {
	const struct command_call *call;
	struct estimation *estimation;
	struct simulate_fabric *fabric;
	uint32_t *rank, *leaf;
};

static int run_nccls_channels(struct cluster_run *run)
{
	struct network network = { .fabric = run->fabric, .algorithm = SIMULATE_RING, .order = run->rank };
	unsigned gpus = (unsigned)gpus_of(run->estimation);
	bool given = command_given(run->call, "graph");
	int status = simulation_machine(run->call, gpus, given ? SIMULATION_GIVEN : SIMULATION_NCCLS, run->fabric);

	if (status == COMMAND_OK)
		status = run_case(run->estimation, "ring, NCCL's own channels", "channels", &network);
	return status == COMMAND_OK ? simulation_machine(run->call, gpus, SIMULATION_PLANNED, run->fabric) : status;
}

static int run_extra(struct cluster_run *run)
{
	struct network network = { .fabric = run->fabric, .algorithm = SIMULATE_AGGREGATORS, .order = run->rank };
	double rate_Bps = hosts_of_a_leaf_Bps(run->fabric);
	int r;

	if (rate_Bps <= 0)
		return COMMAND_OK; /* no rate is known */
	run->estimation->extra_Bps = rate_Bps;
	r = simulate_fabric_add_aggregators(run->fabric, 1, rate_Bps);
	return r < 0 ? command_failed(NULL, r, "aggregators cannot be added")
		     : run_case(run->estimation, "one more aggregator a leaf", "aggregator", &network);
}

static int run_cases(struct cluster_run *run)
{
	struct network by_rank = { .fabric = run->fabric, .algorithm = SIMULATE_RING, .order = run->rank },
		       by_leaf = { .fabric = run->fabric, .algorithm = SIMULATE_RING, .order = run->leaf },
		       ours = { .fabric = run->fabric, .algorithm = SIMULATE_HIERARCHICAL, .order = run->rank },
		       served = { .fabric = run->fabric, .algorithm = SIMULATE_AGGREGATORS, .order = run->rank };
	struct estimation *estimation = run->estimation;
	int status = COMMAND_OK;

	if (run->fabric->row_count)
		status = run_nccls_channels(run);
	if (status == COMMAND_OK)
		status = run_case(estimation, "ring", "", &by_rank);
	if (status == COMMAND_OK)
		status = run_case(estimation, "ring, by leaf", "order", &by_leaf);
	if (status == COMMAND_OK && run->fabric->host_count > 1)
		status = run_case(estimation, "hierarchical", "aggregation", &ours);
	if (status == COMMAND_OK && run->fabric->host_count > 1 && run->fabric->aggregator_count)
		status = run_case(estimation, "with aggregators", "aggregation", &served);
	if (status == COMMAND_OK && run->fabric->host_count > 1)
		status = run_extra(run);
	return status;
}

static int read_order(struct cluster_run *run)
{
	struct simulation_case *one = calloc(1, sizeof(*one));
	int status;

	if (!one)
		return command_failed(NULL, ENOMEM, "the order of ranks cannot be made");
	status = simulation_order(run->call, command_value(run->call, "order"), run->fabric, one);
	run->rank = one->order;
	if (status == COMMAND_OK && one->host_count < run->fabric->host_count)
		status = command_failed(NULL, 0, "the order does not name all %zu hosts", run->fabric->host_count);
	free(one);
	return status;
}

static int run_cluster(struct cluster_run *run)
{
	size_t gpus = gpus_of(run->estimation);
	int status = COMMAND_OK;

	if (gpus > 64)
		return command_failed(NULL, 0, "the system has %zu devices a host, and at most 64 can be simulated",
				      gpus);
	if (gpus % run->estimation->model.tensor)
		return command_failed(NULL, 0, "%zu devices of a host cannot be cut in groups of %zu", gpus,
				      run->estimation->model.tensor);
	status = read_order(run);
	if (status != COMMAND_OK)
		return status;
	run->leaf = calloc(run->fabric->host_count + 1, sizeof(*run->leaf));
	if (!run->leaf || simulate_order_leaf(run->fabric, run->leaf) < 0)
		return command_failed(NULL, ENOMEM, "the cluster cannot be simulated");
	return run_cases(run);
}

int estimation_run(const struct command_call *call, struct estimation *estimation)
{
	struct cluster_run run = { .call = call, .estimation = estimation, .fabric = &estimation->fabric };
	int status;

	status = estimation->published ? run_published(estimation) : run_cluster(&run);
	free(run.rank);
	free(run.leaf);
	for (size_t i = 0; status == COMMAND_OK && i < estimation->case_count; i++)
		if (!(estimation->cases[i].times.step_s > 0))
			status = command_failed(NULL, 0, "%s: the model neither computes nor sends anything",
						estimation->model.name);
	return status;
}
