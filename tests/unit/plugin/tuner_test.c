/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/tuner.h"

#include "plugin/state.h"
#include "unit/plan/machine_spec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct steer_facts facts_of(enum plan_where where)
{
	struct steer_facts facts = { .published = true, .sm = 86 };
	struct plan_request request;
	struct topology topology;

	machine_spec_build(&machine_spec_slow_card, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make_set(&topology, &request, where, &facts.set), 0);
	facts.local_gpu_count = request.gpu_count;
	topology_fini(&topology);
	return facts;
}

static void only_a_published_plan_of_all_ranks_is_used(void **state)
{
	struct steer_facts facts = facts_of(PLAN_EITHER), rests = facts, others = facts;
	struct predict_tuner tuner;

	(void)state;
	plugin_tuner_look(&facts, 4, 1, NULL, &tuner);
	assert_true(tuner.edits);
	assert_int_equal(tuner.truth.sm, 86);
	plugin_tuner_look(&facts, 8, 2, NULL, &tuner);
	assert_false(tuner.edits);
	plugin_tuner_look(&facts, 4, 2, NULL, &tuner);
	assert_false(tuner.edits);
	plugin_tuner_look(NULL, 4, 1, NULL, &tuner);
	assert_false(tuner.edits);
	rests.published = false;
	plugin_tuner_look(&rests, 4, 1, NULL, &tuner);
	assert_false(tuner.edits);
	others.local_gpu_count = 3; /* a plan for other GPUs than the ranks' */
	plugin_tuner_look(&others, 4, 1, NULL, &tuner);
	assert_false(tuner.edits);
}

/* Whoever computes it: another rank of this host has the same facts and must get the same costs, to the bit. */
static void the_same_facts_give_the_same_costs(void **state)
{
	struct steer_facts facts = facts_of(PLAN_EITHER);
	struct predict_tuner a, b;

	(void)state;
	memset(&a, 0x55, sizeof(a));
	memset(&b, 0xaa, sizeof(b));
	plugin_tuner_look(&facts, 4, 1, NULL, &a);
	plugin_tuner_look(&facts, 4, 1, NULL, &b);
	for (uint64_t bytes = 8; bytes <= UINT64_C(1) << 30; bytes *= 2) {
		float costs[2][PREDICT_ALGORITHM_COUNT * PREDICT_PROTOCOL_COUNT], before[2];

		for (int i = 0; i < PREDICT_ALGORITHM_COUNT * PREDICT_PROTOCOL_COUNT; i++)
			costs[0][i] = (float)predict_time_us(
				&a.file, PREDICT_ALLREDUCE, (enum predict_algorithm)(i / PREDICT_PROTOCOL_COUNT),
				(enum predict_protocol)(i % PREDICT_PROTOCOL_COUNT), bytes);
		memcpy(costs[1], costs[0], sizeof(costs[0]));
		memcpy(before, costs[0], sizeof(before));
		predict_tuner_edit(
			&a, PREDICT_ALLREDUCE, bytes, 1,
			&(struct predict_table){ costs[0], PREDICT_ALGORITHM_COUNT, PREDICT_PROTOCOL_COUNT });
		predict_tuner_edit(
			&b, PREDICT_ALLREDUCE, bytes, 1,
			&(struct predict_table){ costs[1], PREDICT_ALGORITHM_COUNT, PREDICT_PROTOCOL_COUNT });
		assert_memory_equal(costs[0], costs[1], sizeof(costs[0]));
		assert_memory_not_equal(costs[0], before, sizeof(before));
	}
}

/* Steering knows nothing of the communicator. */
static void init_without_facts_leaves_everything_to_nccl(void **state)
{
	struct plugin_tuner *tuner = (void *)1;
	float costs[21] = { 1, 2, 3, 4, 5, 6 }, before[21];

	(void)state;
	plugin_state_reset(NULL, NULL);
	errno = 77;
	assert_int_equal(plugin_tuner_init(0x1234, 4, 1, NULL, NULL, &tuner), 0);
	assert_null(tuner);
	memcpy(before, costs, sizeof(before));
	plugin_tuner_edit(tuner, PREDICT_ALLREDUCE, 1024, 1, &(struct predict_table){ costs, 7, 3 });
	assert_memory_equal(costs, before, sizeof(before));
	plugin_tuner_fini(tuner);
	assert_int_equal(errno, 77);
}

/* What it goes by is the same on all ranks: the number of nodes. What this host knows is no part of it. */
static void several_nodes_change_collnet_alone(void **state)
{
	static const struct {
		const char *variable;
		bool edits;
	} cases[] = { { "TRIBUTARY_PACE", true }, { "TRIBUTARY_TUNER", false }, { "TRIBUTARY_COLLNET", false } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		float costs[7][3], before[7][3];
		struct plugin_tuner *tuner = NULL;

		for (int a = 0; a < 7; a++)
			for (int p = 0; p < 3; p++)
				costs[a][p] = (float)(100 + 10 * a + p);
		/* Cheapest of all, as NCCL has it, but not for what is small. */
		costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = costs[PREDICT_COLLNET_DIRECT][PREDICT_SIMPLE] = 1;
		memcpy(before, costs, sizeof(before));
		setenv(cases[i].variable, "0", 1);
		plugin_state_reset(NULL, NULL);
		assert_int_equal(plugin_tuner_init(0x77, 16, 8, NULL, NULL, &tuner), 0);
		assert_int_equal(tuner != NULL, cases[i].edits);
		plugin_tuner_edit(tuner, PREDICT_ALLREDUCE, 1024, 1, &(struct predict_table){ &costs[0][0], 7, 3 });
		assert_int_equal(costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] > 100, cases[i].edits);
		costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = before[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE];
		costs[PREDICT_COLLNET_DIRECT][PREDICT_SIMPLE] = before[PREDICT_COLLNET_DIRECT][PREDICT_SIMPLE];
		assert_memory_equal(costs, before, sizeof(costs));
		plugin_tuner_fini(tuner);
		unsetenv(cases[i].variable);
	}
	plugin_state_reset(NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_published_plan_of_all_ranks_is_used),
		cmocka_unit_test(the_same_facts_give_the_same_costs),
		cmocka_unit_test(init_without_facts_leaves_everything_to_nccl),
		cmocka_unit_test(several_nodes_change_collnet_alone),
	};

	return cmocka_run_group_tests_name("plugin/tuner", tests, NULL, NULL);
}
