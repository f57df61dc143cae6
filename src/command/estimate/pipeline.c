/* SPDX-License-Identifier: Apache-2.0 */
/* A model's layers on the stages of a pipeline, and what its stages tell each other. */
#include "command/estimate/network.h"

#include "command/command.h"
#include "command/simulate/simulation.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct stages {
	struct step_stage *each;
	struct step_layers *layers; /* [stages × layer_count] */
};

/*
 * Stages compute about as long as each other: a layer is in the stage in which the middle of its time lies. Each stage's
 * layers are those of the model, with how many of them it has.
 */
static bool cut(const struct estimation_model *model, const struct step_layers *layers, struct stages *stages)
{
	double whole_s = 0, at_s = 0;

	for (size_t i = 0; i < model->layer_count; i++)
		whole_s += (double)layers[i].count * layers[i].forward_s;
	for (size_t i = 0; i < model->layer_count; i++) {
		for (size_t k = 0; k < layers[i].count; k++) {
			double middle = whole_s > 0 ? (at_s + layers[i].forward_s / 2) / whole_s : 0;
			size_t stage = (size_t)(middle * (double)model->stages);

			if (stage >= model->stages)
				stage = model->stages - 1;
			stages->layers[stage * model->layer_count + i].count++;
			at_s += layers[i].forward_s;
		}
	}
	for (size_t stage = 0; stage < model->stages; stage++) {
		size_t have = 0;

		for (size_t i = 0; i < model->layer_count; i++) {
			struct step_layers *own = &stages->layers[stage * model->layer_count + i];
			size_t count = own->count;

			*own = layers[i];
			own->count = count;
			have += count;
		}
		stages->each[stage] = (struct step_stage){ stages->layers + stage * model->layer_count,
							   model->layer_count };
		if (!have)
			return false;
	}
	return true;
}

/* The largest output that crosses from a stage to the next. */
static double boundary_bytes(const struct estimation_model *model, const struct stages *stages)
{
	double most = 0;

	for (size_t stage = 0; stage + 1 < model->stages; stage++)
		for (size_t i = model->layer_count; i-- > 0;)
			if (stages->layers[stage * model->layer_count + i].count) {
				most = fmax(most, model->layers[i].output_bytes);
				break;
			}
	return most;
}

/* Every host of a stage sends to the one in its place in the next, all at once. */
static double send_s(struct network *network, size_t stages, double bytes)
{
	size_t hosts = network->fabric->host_count, each = hosts / stages, count = hosts - each;
	struct simulate_job *jobs = calloc(count + 1, sizeof(*jobs));
	uint32_t *pairs = calloc(2 * count + 1, sizeof(*pairs));
	double time_s = 0;

	if (!jobs || !pairs) {
		network->status = command_failed(NULL, ENOMEM, "the pipeline cannot be simulated");
		goto end;
	}
	for (size_t i = 0; network->status == COMMAND_OK && i < count; i++) {
		pairs[2 * i] = network->order[i + each];
		pairs[2 * i + 1] = network->order[i];
		jobs[i] = (struct simulate_job){ .collective = SIMULATE_INCAST,
						 .hosts = pairs + 2 * i,
						 .host_count = 2,
						 .gpus = 1,
						 .bytes = bytes };
	}
	if (network->status == COMMAND_OK && bytes > 0)
		time_s = network_jobs_s(network, jobs, count);
end:
	free(jobs);
	free(pairs);
	return time_s;
}

/* All stages sum their gradients at about the same time, each among its own hosts. */
static double reduce_s(struct network *network, size_t stages, unsigned ranks, double bytes)
{
	size_t each = network->fabric->host_count / stages;
	struct simulate_job *jobs = calloc(stages + 1, sizeof(*jobs));
	double time_s = 0;

	if (!jobs) {
		network->status = command_failed(NULL, ENOMEM, "the pipeline cannot be simulated");
		return 0;
	}
	for (size_t i = 0; network->status == COMMAND_OK && i < stages; i++)
		jobs[i] = (struct simulate_job){ .collective = SIMULATE_ALLREDUCE,
						 .algorithm = network->algorithm,
						 .hosts = network->order + i * each,
						 .host_count = each,
						 .gpus = ranks,
						 .bytes = bytes };
	if (network->status == COMMAND_OK && bytes > 0 && (each > 1 || network->fabric->row_count) && each * ranks > 1)
		time_s = network_jobs_s(network, jobs, stages);
	free(jobs);
	if (!network->fabric->row_count)
		time_s = fmax(time_s,
			      network_inside_s(network, SIMULATE_ALLREDUCE, (double)each * ranks, ranks, bytes));
	return time_s;
}

static void communicate(struct network *network, unsigned replicas, struct step_layers *layers)
{
	const struct estimation_model *model = &network->estimation->model;
	double tensor = (double)model->tensor, parts = (double)model->micro_batches;

	for (size_t i = 0; i < model->layer_count; i++) {
		const struct estimation_layers *from = &model->layers[i];

		layers[i].forward_s /= parts;
		layers[i].backward_s /= parts;
		if (layers[i].parallel == STEP_TENSOR)
			layers[i].activations_s = network_inside_s(network, SIMULATE_ALLREDUCE, tensor, tensor,
								   from->activation_bytes / parts);
		if (layers[i].parallel != STEP_NONE)
			layers[i].reduce_s = reduce_s(network, model->stages, replicas, from->parameter_bytes);
	}
}

int estimation_pipeline(struct network *network, unsigned replicas, struct step_layers *layers, struct step_times *ret)
{
	const struct estimation_model *model = &network->estimation->model;
	struct stages stages = { calloc(model->stages, sizeof(*stages.each)),
				 calloc(model->stages * model->layer_count + 1, sizeof(*stages.layers)) };
	struct step_pipeline pipeline = { .stages = model->stages,
					  .micro_batches = model->micro_batches,
					  .each = stages.each };
	int r = -ENOMEM;

	if (network->fabric->host_count % model->stages) {
		network->status = command_failed(NULL, 0, "%zu hosts cannot be cut in %zu stages",
						 network->fabric->host_count, model->stages);
	} else if (stages.each && stages.layers) {
		communicate(network, replicas, layers);
		if (!cut(model, layers, &stages))
			network->status = command_failed(NULL, 0, "%s: its layers cannot be cut in %zu stages",
							 model->name, model->stages);
		if (network->status == COMMAND_OK)
			pipeline.send_s =
				send_s(network, model->stages,
				       boundary_bytes(model, &stages) / (double)model->micro_batches * replicas);
		r = step_pipeline(&pipeline, ret);
	}
	if (network->status == COMMAND_OK && r < 0)
		network->status = command_failed(NULL, r, "the pipeline cannot be estimated");
	free(stages.each);
	free(stages.layers);
	return network->status;
}
