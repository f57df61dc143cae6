/* SPDX-License-Identifier: Apache-2.0 */
#include "predict_costs.h"
#include "unit/plan/machine_spec.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ALGORITHMS = PREDICT_ALGORITHM_COUNT, PROTOCOLS = PREDICT_PROTOCOL_COUNT };

static const uint64_t sizes[] = { 8, 1024, 65536, 1 << 20, 1 << 24, 1 << 30 };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

enum { SM = 86, GPUS = 4 };

static struct plan_set set_of(enum plan_where where)
{
	struct plan_request request;
	struct topology topology;
	struct plan_set set;

	machine_spec_build(&machine_spec_slow_card, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(request.gpu_count, GPUS);
	assert_int_equal(plan_make_set(&topology, &request, where, &set), 0);
	topology_fini(&topology);
	return set;
}

static struct predict_tuner tuner_on_one_host(void)
{
	struct plan_set set = set_of(PLAN_EITHER);
	struct predict_tuner tuner;

	predict_tuner_make(&set, GPUS, 1, SM, NULL, &tuner);
	assert_true(tuner.edits);
	return tuner;
}

static bool edit(const struct predict_tuner *tuner, enum predict_collective collective, uint64_t bytes, int operations,
		 struct predict_costs *costs)
{
	struct predict_table table = { &costs->us[0][0], ALGORITHMS, PROTOCOLS };

	return predict_tuner_edit(tuner, (int)collective, bytes, operations, &table);
}

static void one_host_gets_the_costs_of_one_host(void **state)
{
	struct predict_tuner tuner = tuner_on_one_host();

	(void)state;
	/* The case is worth something: the file says a fraction of the truth. */
	assert_true(tuner.truth.ring.intra_GBps > 2 * tuner.file.ring.intra_GBps);
	for (int c = 0; c < PREDICT_COLLECTIVE_COUNT; c++) {
		for (size_t i = 0; i < SIZES * 2; i++) {
			enum predict_collective collective = (enum predict_collective)c;
			int operations = i % 2 ? 30 : 1;
			struct predict_costs costs = predict_costs_of(&tuner.file, collective, sizes[i / 2],
								      (unsigned)operations);
			struct predict_costs want = predict_costs_of(&tuner.truth, collective, sizes[i / 2],
								     (unsigned)operations);

			assert_true(edit(&tuner, collective, sizes[i / 2], operations, &costs));
			for (int a = 0; a < ALGORITHMS; a++)
				for (int p = 0; p < PROTOCOLS; p++)
					assert_true(fabsf(costs.us[a][p] - want.us[a][p]) <=
						    1e-5f * fabsf(want.us[a][p]));
		}
	}
}

/* NCCL's cap and its part for each size are those of machines on which a step's time counts; below 8 MiB nothing says otherwise. */
static void a_large_tree_has_its_whole_rate(void **state)
{
	struct plan_set set = set_of(PLAN_ONE_HOST);
	struct predict_tuner tuner;
	struct predict_cost cost;

	(void)state;
	for (unsigned times = 1; times <= 4; times *= 4) { /* NCCL caps the second one */
		predict_tuner_make(&set, GPUS, 1, SM, NULL, &tuner);
		tuner.file.tree.intra_GBps *= times;
		tuner.truth.tree.intra_GBps *= times;
		assert_int_equal(predict_cost_of(&tuner.truth, PREDICT_ALLREDUCE, PREDICT_TREE, PREDICT_SIMPLE, &cost),
				 0);
		for (uint64_t bytes = 1 << 20; bytes <= 4ULL << 30; bytes *= 2) {
			struct predict_costs costs = predict_costs_of(&tuner.file, PREDICT_ALLREDUCE, bytes, 1),
					     before = costs;
			float *tree_us = &costs.us[PREDICT_TREE][PREDICT_SIMPLE];
			const double channels = (double)set.channel_count,
				     links = 0.85 * channels * tuner.truth.tree.intra_GBps;
			const double most = channels * tuner.truth.constants.tree_channel_most_GBps[1][0];
			const double rate_GBps = (links + fmin(links, most)) / 4;
			const double by_links_us = cost.latency_us + (double)bytes / (1000 * rate_GBps);

			assert_true(edit(&tuner, PREDICT_ALLREDUCE, bytes, 1, &costs));
			if (bytes >= 8 << 20) { /* never dearer than NCCL has it, as by its last sizes it may be */
				const double want_us = fmin(by_links_us,
							    (double)before.us[PREDICT_TREE][PREDICT_SIMPLE]);

				assert_true(fabs((double)*tree_us - want_us) <= 1e-5 * want_us);
				*tree_us = before.us[PREDICT_TREE][PREDICT_SIMPLE];
			}
			assert_memory_equal(&costs, &before, sizeof(costs));
		}
	}
}

/* What is large is each operation, on more GPUs than four in proportion to the steps. */
static void a_tree_is_large_by_its_operations_and_gpus(void **state)
{
	struct plan_set set = set_of(PLAN_ONE_HOST);
	struct predict_tuner tuner;

	(void)state;
	predict_tuner_make(&set, GPUS, 1, SM, NULL, &tuner);
	for (size_t ranks = 2; ranks <= 16; ranks++) {
		const uint64_t least_bytes = (8ULL << 20) * (ranks > GPUS ? ranks - 1 : GPUS - 1) / (GPUS - 1);

		tuner.file.rank_count = tuner.truth.rank_count = ranks;
		for (unsigned operations = 1; operations <= 30; operations += 29) {
			struct predict_costs costs = predict_costs_of(&tuner.file, PREDICT_ALLREDUCE,
								      (least_bytes - 1) * operations, operations);
			struct predict_costs before = costs;

			assert_true(edit(&tuner, PREDICT_ALLREDUCE, (least_bytes - 1) * operations, (int)operations,
					 &costs));
			assert_memory_equal(&costs, &before, sizeof(costs));
			before = costs = predict_costs_of(&tuner.file, PREDICT_ALLREDUCE, least_bytes * operations,
							  operations);
			assert_true(edit(&tuner, PREDICT_ALLREDUCE, least_bytes * operations, (int)operations, &costs));
			assert_true(costs.us[PREDICT_TREE][PREDICT_SIMPLE] <= before.us[PREDICT_TREE][PREDICT_SIMPLE]);
		}
	}
}

static void what_is_not_allowed_stays_so(void **state)
{
	struct predict_tuner tuner = tuner_on_one_host();

	(void)state;
	for (unsigned mask = 0; mask < 1U << 6; mask++) {
		struct predict_costs costs = predict_costs_of(&tuner.file, PREDICT_ALLREDUCE, 1 << 20, 1), before;

		for (unsigned i = 0; i < 6; i++)
			if (mask & 1U << i)
				costs.us[i / 3][i % 3] = -1;
		before = costs;
		(void)edit(&tuner, PREDICT_ALLREDUCE, 1 << 20, 1, &costs);
		for (int a = 0; a < ALGORITHMS; a++)
			for (int p = 0; p < PROTOCOLS; p++)
				if (before.us[a][p] < 0)
					assert_memory_equal(&costs.us[a][p], &before.us[a][p], sizeof(float));
	}
}

/* Of other algorithms NCCL knows more than we do. */
static void other_algorithms_keep_their_costs(void **state)
{
	struct predict_tuner tuner = tuner_on_one_host();
	struct predict_costs costs = predict_costs_of(&tuner.file, PREDICT_ALLREDUCE, 1 << 20, 1), before;

	(void)state;
	for (int a = PREDICT_RING + 1; a < ALGORITHMS; a++)
		costs.us[a][PREDICT_SIMPLE] = 12.5f * (float)a;
	before = costs;
	assert_true(edit(&tuner, PREDICT_ALLREDUCE, 1 << 20, 1, &costs));
	for (int a = PREDICT_RING + 1; a < ALGORITHMS; a++)
		assert_memory_equal(costs.us[a], before.us[a], sizeof(before.us[a]));
}

static void assert_left_alone(const struct predict_tuner *tuner, int collective, size_t bytes, int operations,
			      struct predict_table table, size_t floats)
{
	float before[ALGORITHMS * PROTOCOLS];

	memcpy(before, table.costs, floats * sizeof(float));
	assert_false(predict_tuner_edit(tuner, collective, bytes, operations, &table));
	assert_memory_equal(table.costs, before, floats * sizeof(float));
}

/* Another version of NCCL's model, a user's setting, a file that NCCL did not take: one entry that is off is enough. */
static void a_table_of_another_model_is_left_alone(void **state)
{
	struct predict_tuner tuner = tuner_on_one_host();

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct predict_costs costs = predict_costs_of(&tuner.file, PREDICT_ALLREDUCE, 1 << 20, 1);
		float *cost = &costs.us[i / 3][i % 3];

		*cost = *cost < 0 ? 100 : *cost * 1.03f;
		assert_left_alone(&tuner, PREDICT_ALLREDUCE, 1 << 20, 1,
				  (struct predict_table){ &costs.us[0][0], ALGORITHMS, PROTOCOLS }, 21);
	}
	for (size_t i = 0; i < 4; i++) {
		static const float odd[] = { NAN, INFINITY, 0, 1e30f };
		struct predict_costs costs = predict_costs_of(&tuner.file, PREDICT_ALLREDUCE, 1 << 20, 1);

		costs.us[PREDICT_RING][PREDICT_SIMPLE] = odd[i];
		assert_left_alone(&tuner, PREDICT_ALLREDUCE, 1 << 20, 1,
				  (struct predict_table){ &costs.us[0][0], ALGORITHMS, PROTOCOLS }, 21);
	}
}

static void odd_shapes_and_unknown_collectives_are_left_alone(void **state)
{
	struct predict_tuner tuner = tuner_on_one_host();
	struct predict_costs costs = predict_costs_of(&tuner.file, PREDICT_ALLREDUCE, 1 << 20, 1);
	struct predict_table table = { &costs.us[0][0], ALGORITHMS, PROTOCOLS };
	static const int shapes[][2] = { { 0, 3 }, { -1, 3 }, { 1, 3 },       { 7, 2 },        { 7, 4 },
					 { 7, 0 }, { 3, 7 },  { 1 << 30, 3 }, { 1 << 20, -3 }, { 65, 3 } };
	static const int collectives[] = { -1, 5, 6, 7, 8, 1000 };

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		assert_left_alone(&tuner, PREDICT_ALLREDUCE, 1 << 20, 1,
				  (struct predict_table){ &costs.us[0][0], shapes[i][0], shapes[i][1] }, 21);
	for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++)
		assert_left_alone(&tuner, collectives[i], 1 << 20, 1, table, 21);
	assert_left_alone(&tuner, PREDICT_ALLREDUCE, 1 << 20, 0, table, 21);
	assert_left_alone(&tuner, PREDICT_ALLREDUCE, 1 << 20, -5, table, 21);
	assert_false(predict_tuner_edit(&tuner, PREDICT_ALLREDUCE, 1 << 20, 1,
					&(struct predict_table){ NULL, ALGORITHMS, PROTOCOLS }));
	/* An older NCCL, without PAT: rings and trees have the same numbers. */
	assert_true(predict_tuner_edit(&tuner, PREDICT_ALLREDUCE, 1 << 20, 1,
				       &(struct predict_table){ &costs.us[0][0], 6, PROTOCOLS }));
}

static void only_what_is_on_one_host_is_edited(void **state)
{
	struct plan_set either = set_of(PLAN_EITHER), one = set_of(PLAN_ONE_HOST), several = set_of(PLAN_SEVERAL_HOSTS);
	struct predict_tuner tuner;

	(void)state;
	predict_tuner_make(&several, GPUS, 1, SM, NULL, &tuner); /* of one host it says nothing */
	assert_false(tuner.edits);
	predict_tuner_make(&one, GPUS, 1, SM, NULL, &tuner);
	assert_true(tuner.edits);
	for (size_t nodes = 2; nodes <= 8; nodes++) {
		predict_tuner_make(&either, GPUS * nodes, nodes, SM, NULL, &tuner);
		assert_false(tuner.edits);
		predict_tuner_make(&either, GPUS, nodes, SM, NULL, &tuner); /* NCCL split the host */
		assert_false(tuner.edits);
	}
	for (size_t ranks = 0; ranks <= 2 * GPUS; ranks++) {
		predict_tuner_make(&either, ranks, 1, SM, NULL, &tuner);
		assert_int_equal(tuner.edits, ranks == GPUS);
	}
}

static void the_constants_are_those_that_nccl_uses(void **state)
{
	struct plan_set set = set_of(PLAN_EITHER);
	struct predict_constants constants = predict_constants_default;
	struct predict_tuner theirs, ours;
	struct predict_costs costs;

	(void)state;
	constants.base_latency_us[PREDICT_RING][PREDICT_LL] += 10;
	predict_tuner_make(&set, GPUS, 1, SM, &constants, &theirs);
	predict_tuner_make(&set, GPUS, 1, SM, NULL, &ours);
	costs = predict_costs_of(&theirs.file, PREDICT_ALLREDUCE, 1024, 1);
	assert_false(edit(&ours, PREDICT_ALLREDUCE, 1024, 1, &costs));
	assert_true(edit(&theirs, PREDICT_ALLREDUCE, 1024, 1, &costs));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_host_gets_the_costs_of_one_host),
		cmocka_unit_test(a_large_tree_has_its_whole_rate),
		cmocka_unit_test(a_tree_is_large_by_its_operations_and_gpus),
		cmocka_unit_test(what_is_not_allowed_stays_so),
		cmocka_unit_test(other_algorithms_keep_their_costs),
		cmocka_unit_test(a_table_of_another_model_is_left_alone),
		cmocka_unit_test(odd_shapes_and_unknown_collectives_are_left_alone),
		cmocka_unit_test(only_what_is_on_one_host_is_edited),
		cmocka_unit_test(the_constants_are_those_that_nccl_uses),
	};

	return cmocka_run_group_tests_name("ncclmodel/predict_tuner", tests, NULL, NULL);
}
