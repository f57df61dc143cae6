/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipeline parallelism, one forward and one backward by turns (1F1B). A stage first does as many forwards as there are
 * stages after it, then a forward and a backward by turns, then the backwards that are left: what it does next is fixed,
 * and when follows from what its neighbours have sent it.
 */
#include "simulate/step.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

struct stage {
	size_t forwards, backwards; /* done */
	double free_s;              /* it computes until then */
	double sent_on_s, sent_back_s;
	double compute_s;
	double reduced_s; /* its gradients are summed */
};

struct pipe {
	const struct step_pipeline *of;
	bool communicates; /* false: as if that took no time */
	struct stage *stages;
	double *arrived_on, *arrived_back; /* [stages × micro-batches]: the micro-batch is at the stage */
};

static double waits_s(const struct pipe *pipe, const struct step_layers *layers)
{
	return pipe->communicates && layers->parallel == STEP_TENSOR ? layers->activations_s : 0;
}

/* All layers of a stage, one micro-batch in one direction, with the sums that the next layer waits for. */
static double pass_s(const struct pipe *pipe, const struct step_stage *stage, bool backward, double *ret_compute_s)
{
	double time_s = 0, compute_s = 0;

	for (size_t i = 0; i < stage->count; i++) {
		const struct step_layers *layers = &stage->layers[i];
		double each_s = backward ? layers->backward_s : layers->forward_s;

		compute_s += (double)layers->count * each_s;
		time_s += (double)layers->count * (each_s + waits_s(pipe, layers));
	}
	*ret_compute_s = compute_s;
	return time_s;
}

/* Gradients are summed as the last micro-batch's backward goes through the layers. */
static double reduce_s(const struct pipe *pipe, const struct step_stage *stage, double start_s)
{
	double at_s = start_s, network_s = 0;

	for (size_t i = stage->count; i-- > 0;) {
		const struct step_layers *layers = &stage->layers[i];

		for (size_t k = 0; k < layers->count; k++) {
			at_s += layers->backward_s + waits_s(pipe, layers);
			if (pipe->communicates && layers->parallel != STEP_NONE)
				network_s = fmax(network_s, at_s) + layers->reduce_s;
		}
	}
	return fmax(at_s, network_s);
}

/* Sends of one micro-batch after another, in one direction over one boundary. */
static double pass_on(const struct pipe *pipe, double *sent_s, double end_s)
{
	*sent_s = fmax(*sent_s, end_s) + (pipe->communicates ? pipe->of->send_s : 0);
	return *sent_s;
}

static bool goes_forward(const struct pipe *pipe, size_t index)
{
	const struct stage *stage = &pipe->stages[index];
	size_t ahead = pipe->of->stages - index; /* micro-batches that may be there at a time */

	return stage->forwards < pipe->of->micro_batches && stage->forwards - stage->backwards < ahead;
}

/* What the stage does next, if its input has come; false: it has not, or nothing is left. */
static bool stage_step(struct pipe *pipe, size_t index)
{
	size_t many = pipe->of->micro_batches;
	struct stage *stage = &pipe->stages[index];
	const struct step_stage *of = &pipe->of->each[index];
	bool backward = !goes_forward(pipe, index);
	size_t number = backward ? stage->backwards : stage->forwards;
	double arrived_s, start_s, compute_s;

	if (number == many)
		return false;
	arrived_s = (backward ? pipe->arrived_back : pipe->arrived_on)[index * many + number];
	if (arrived_s < 0)
		return false;
	start_s = fmax(stage->free_s, arrived_s);
	stage->free_s = start_s + pass_s(pipe, of, backward, &compute_s);
	stage->compute_s += compute_s;
	if (!backward) {
		stage->forwards++;
		if (index + 1 < pipe->of->stages)
			pipe->arrived_on[(index + 1) * many + number] = pass_on(pipe, &stage->sent_on_s, stage->free_s);
		else
			pipe->arrived_back[index * many + number] = stage->free_s;
		return true;
	}
	stage->backwards++;
	if (index)
		pipe->arrived_back[(index - 1) * many + number] = pass_on(pipe, &stage->sent_back_s, stage->free_s);
	if (stage->backwards == many)
		stage->reduced_s = reduce_s(pipe, of, start_s);
	return true;
}

/* When the last stage is through, with its sums. */
static double run(struct pipe *pipe, double *ret_compute_s)
{
	size_t stages = pipe->of->stages, many = pipe->of->micro_batches;
	double end_s = 0;

	memset(pipe->stages, 0, stages * sizeof(*pipe->stages));
	for (size_t i = 0; i < stages * many; i++) {
		pipe->arrived_on[i] = i < many ? 0 : -1;
		pipe->arrived_back[i] = -1;
	}
	for (bool moved = true; moved;) {
		moved = false;
		for (size_t i = 0; i < stages; i++)
			while (stage_step(pipe, i))
				moved = true;
	}
	*ret_compute_s = 0;
	for (size_t i = 0; i < stages; i++) {
		end_s = fmax(end_s, pipe->stages[i].reduced_s);
		*ret_compute_s = fmax(*ret_compute_s, pipe->stages[i].compute_s);
	}
	return end_s;
}

/* Of the stage that sends and sums most. */
static double communication_s(const struct step_pipeline *of)
{
	double most_s = 0;

	for (size_t i = 0; i < of->stages; i++) {
		double ways = (i > 0) + (i + 1 < of->stages), sum_s = ways * (double)of->micro_batches * of->send_s;

		for (size_t k = 0; k < of->each[i].count; k++) {
			const struct step_layers *layers = &of->each[i].layers[k];
			double many = (double)layers->count;

			if (layers->parallel != STEP_NONE)
				sum_s += many * layers->reduce_s;
			if (layers->parallel == STEP_TENSOR)
				sum_s += 2 * many * (double)of->micro_batches * layers->activations_s;
		}
		most_s = fmax(most_s, sum_s);
	}
	return most_s;
}

int step_pipeline(const struct step_pipeline *pipeline, struct step_times *ret)
{
	struct pipe pipe = { .of = pipeline, .communicates = true };
	size_t places = pipeline->stages * pipeline->micro_batches;
	struct step_times times = { 0 };
	double alone_s;
	int r = -ENOMEM;
	void *arrays;

	if (!places || pipeline->stages > STEP_STAGES_MAX || pipeline->micro_batches > STEP_MICRO_BATCHES_MAX)
		return -EINVAL;
	arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(pipe.stages, pipeline->stages),
							 SYS_ARRAY(pipe.arrived_on, places),
							 SYS_ARRAY(pipe.arrived_back, places) },
				   3);
	if (arrays) {
		times.step_s = run(&pipe, &times.compute_s);
		pipe.communicates = false;
		alone_s = run(&pipe, &times.compute_s);
		times.bubble_s = alone_s - times.compute_s;
		times.communication_s = communication_s(pipeline);
		times.exposed_s = times.step_s - alone_s;
		*ret = times;
		r = 0;
	}
	sys_free(arrays);
	return r;
}
