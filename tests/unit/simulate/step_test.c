/* SPDX-License-Identifier: Apache-2.0 */
/* A training step's streams, by hand; and the published model's results. */
#include "simulate/step.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void check_close(double is, double expected, const char *what)
{
	if (fabs(is - expected) > 1e-9 + 1e-9 * fabs(expected))
		fail_msg("%s is %.9g, expected %.9g", what, is, expected);
}

static const struct step_lookups no_lookups;

/* Two layers, 1 s and 2 s; each layer's sum of 3 s follows its backward: 2 + 2 + 3 + 3, of which 4 + 2 computes. */
static void sums_of_gradients_overlap_what_is_left_of_backward(void **state)
{
	struct step_layers layers = {
		.count = 2, .parallel = STEP_DDP, .forward_s = 1, .backward_s = 2, .reduce_s = 3
	};
	struct step_times times = step_estimate(&no_lookups, &layers, 1);

	(void)state;
	check_close(times.step_s, 2 + 2 + 3 + 3, "step");
	check_close(times.compute_s, 6, "compute");
	check_close(times.communication_s, 6, "communication");
	check_close(times.exposed_s, 4, "exposed");
	layers.reduce_s = 0.5;
	check_close(step_estimate(&no_lookups, &layers, 1).step_s, 6.5, "with quick sums");
}

/* A gather of 0.5 s before each layer, hidden but for the first and the turn; the last scatter of 0.25 s is not. */
static void parameters_are_fetched_a_layer_ahead(void **state)
{
	struct step_layers layers = {
		.count = 3, .parallel = STEP_FSDP, .forward_s = 1, .backward_s = 2, .gather_s = 0.5, .scatter_s = 0.25
	};
	struct step_times times = step_estimate(&no_lookups, &layers, 1);

	(void)state;
	check_close(times.step_s, 0.5 + 3 + 0.5 + 6 + 0.25, "step");
	check_close(times.exposed_s, 1.25, "exposed");
	layers.gather_s = 3;
	/* Gathers in a row set the pace: 3 forward; backward each waits for the scatter before it, or comes before it. */
	assert_true(step_estimate(&no_lookups, &layers, 1).step_s > 18);
}

static void tensor_parallel_layers_wait_for_activations(void **state)
{
	struct step_layers layers = {
		.count = 2, .parallel = STEP_TENSOR, .forward_s = 1, .backward_s = 2, .activations_s = 0.25
	};

	(void)state;
	check_close(step_estimate(&no_lookups, &layers, 1).step_s, 2 * 1.25 + 2 * 2.25, "step");
}

/* A layer beside the lookups' exchange (4 s) computes meanwhile, both ways. */
static void what_does_not_need_lookups_goes_on(void **state)
{
	struct step_lookups lookups = { .forward_s = 1, .backward_s = 1, .exchange_s = 4 };
	struct step_layers layers[2] = { { .count = 1, .beside = true, .forward_s = 1, .backward_s = 2 },
					 { .count = 1, .forward_s = 1, .backward_s = 2 } };

	(void)state;
	check_close(step_estimate(&lookups, layers, 2).step_s, 1 + 4 + 1 + 2 + 4 + 1, "step");
	layers[0].beside = false;
	check_close(step_estimate(&lookups, layers, 2).step_s, 1 + 4 + 2 + 4 + 4 + 1, "nothing beside");
}

/* One layer on each of so many stages. */
static struct step_times pipeline_of(const struct step_layers *layers, size_t stages, size_t micro_batches,
				     double send_s)
{
	struct step_stage each[8];
	struct step_pipeline pipeline = {
		.stages = stages, .micro_batches = micro_batches, .each = each, .send_s = send_s
	};
	struct step_times times = { 0 };

	for (size_t i = 0; i < stages; i++)
		each[i] = (struct step_stage){ &layers[i], 1 };
	assert_int_equal(step_pipeline(&pipeline, &times), 0);
	return times;
}

/* (M + S - 1) (f + b), of which (S - 1) (f + b) is the bubble. */
static void a_pipeline_fills_and_drains(void **state)
{
	struct step_layers layers[8];

	(void)state;
	for (size_t i = 0; i < 8; i++)
		layers[i] = (struct step_layers){ .count = 1, .parallel = STEP_DDP, .forward_s = 1, .backward_s = 2 };
	for (size_t stages = 1; stages <= 8; stages++)
		for (size_t many = 1; many <= 12; many++) {
			struct step_times times = pipeline_of(layers, stages, many, 0);

			check_close(times.step_s, 3.0 * (double)(many + stages - 1), "step");
			check_close(times.compute_s, 3.0 * (double)many, "compute");
			check_close(times.bubble_s, 3.0 * (double)(stages - 1), "bubble");
			check_close(times.exposed_s, 0, "exposed");
		}
}

/*
 * Two stages, f = 1, b = 2, sends of 0.5. Stage 0 does F 0-1, F 1-2, stage 1 F 1.5-2.5, B 2.5-4.5, F 4.5-5.5, B 5.5-7.5,
 * stage 0 B 5-7; with two micro-batches B 8-10; with three F 7-8, B 8-10, stage 1 F 8.5-9.5, B 9.5-11.5, stage 0 B 12-14.
 */
static void stages_wait_for_what_is_sent(void **state)
{
	struct step_layers layers[2] = { { .count = 1, .parallel = STEP_DDP, .forward_s = 1, .backward_s = 2 },
					 { .count = 1, .parallel = STEP_DDP, .forward_s = 1, .backward_s = 2 } };
	struct step_times times = pipeline_of(layers, 2, 2, 0.5);

	(void)state;
	check_close(times.step_s, 10, "two micro-batches");
	check_close(times.exposed_s, 1, "exposed");
	check_close(times.communication_s, 1, "communication");
	check_close(pipeline_of(layers, 2, 3, 0.5).step_s, 14, "three micro-batches");
	check_close(pipeline_of(layers, 2, 42, 0.5).step_s, 10 + 40 * (1 + 2 + 0.5), "many micro-batches");
	/* Sums follow the last backward: of stage 0, at 14. */
	layers[0].reduce_s = layers[1].reduce_s = 1;
	times = pipeline_of(layers, 2, 3, 0.5);
	check_close(times.step_s, 15, "with sums");
	check_close(times.exposed_s, 3, "exposed with sums");
	/* Stage 1's sums are still under way then: its last backward ends at 11.5. */
	layers[1].reduce_s = 5;
	check_close(pipeline_of(layers, 2, 3, 0.5).step_s, 16.5, "long sums of the last stage");
	/* Sends of 4 follow each other: the second micro-batch is there at 9, back at 9 + 3 + 4. */
	layers[0].reduce_s = layers[1].reduce_s = 0;
	check_close(pipeline_of(layers, 2, 2, 4).step_s, 18, "slow sends");
}

/* Stage 1 takes twice as long: F 1-3, B 3-7, F 7-9, B 9-13, and stage 0's last B 13-15. */
static void the_slowest_stage_sets_the_pace(void **state)
{
	struct step_layers layers[2] = { { .count = 1, .forward_s = 1, .backward_s = 2 },
					 { .count = 2, .parallel = STEP_TENSOR, .forward_s = 1, .backward_s = 2 } };
	struct step_times times = pipeline_of(layers, 2, 2, 0);

	(void)state;
	check_close(times.step_s, 15, "step");
	check_close(times.compute_s, 12, "compute");
	check_close(times.bubble_s, 3, "bubble");
	/* Tensor-parallel sums of 0.5, each way, of two layers: F 1-4, B 4-9, F 9-12, B 12-17. */
	layers[1].activations_s = 0.5;
	times = pipeline_of(layers, 2, 2, 0);
	check_close(times.step_s, 19, "step with sums of activations");
	check_close(times.exposed_s, 4, "exposed");
	check_close(times.communication_s, 4, "communication");
}

static void pipelines_that_are_none_are_refused(void **state)
{
	struct step_pipeline pipeline = { .stages = 0, .micro_batches = 1 };
	struct step_times times;

	(void)state;
	assert_int_equal(step_pipeline(&pipeline, &times), -EINVAL);
	pipeline.stages = STEP_STAGES_MAX + 1;
	assert_int_equal(step_pipeline(&pipeline, &times), -EINVAL);
}

/* The recommendation model that was published with its result: 128 and 8 GPUs. */
static void the_published_results_come_out(void **state)
{
	static const struct {
		struct step_system system;
		double step_ms, exposed; /* of communication */
	} cases[] = { { { 128, 16, 600e9, 0.6667, 25e9, 0.56, 8, 0.2746 }, 54.00, 0.7550 },
		      { { 8, 1, 600e9, 0.6667, 25e9, 0.56, 8, 1 }, 28.86, 0.5124 } };
	double flops = 156e12 * 0.705, memory_Bps = 1555e9 * 0.836, parameters = 3994.0 * 3994, batch = 512;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct step_system *system = &cases[i].system;
		double bytes = 4096.0 * 94 * 15 * 2 * batch;
		struct step_lookups lookups = { bytes / memory_Bps, bytes / memory_Bps,
						2 * bytes / (double)system->devices / step_exchange_Bps(system) };
		struct step_layers layers[2] = { { .count = 10,
						   .parallel = STEP_DDP,
						   .beside = true,
						   .forward_s = 2 * parameters * batch / flops,
						   .backward_s = 4 * parameters * batch / flops,
						   .reduce_s = 4 * parameters / step_blend_Bps(system) } };
		struct step_times times;

		layers[1] = layers[0];
		layers[1].beside = false;
		times = step_estimate(&lookups, layers, 2);
		if (fabs(times.step_s * 1e3 - cases[i].step_ms) > 0.0051 ||
		    fabs(times.exposed_s / times.communication_s - cases[i].exposed) > 0.000051)
			fail_msg("%zu devices: %.4f ms, %.4f %% exposed", system->devices, times.step_s * 1e3,
				 100 * times.exposed_s / times.communication_s);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_of_gradients_overlap_what_is_left_of_backward),
		cmocka_unit_test(parameters_are_fetched_a_layer_ahead),
		cmocka_unit_test(tensor_parallel_layers_wait_for_activations),
		cmocka_unit_test(what_does_not_need_lookups_goes_on),
		cmocka_unit_test(a_pipeline_fills_and_drains),
		cmocka_unit_test(stages_wait_for_what_is_sent),
		cmocka_unit_test(the_slowest_stage_sets_the_pace),
		cmocka_unit_test(pipelines_that_are_none_are_refused),
		cmocka_unit_test(the_published_results_come_out),
	};

	return cmocka_run_group_tests_name("step", tests, NULL, NULL);
}
