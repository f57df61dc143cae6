/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/tuner.h"

#include "plugin/calls.h"
#include "plugin/state.h"
#include "plugin/steer/tuning.h"
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
	plugin_tuner_edit(tuner, PREDICT_ALLREDUCE, 1024, 1, &(struct predict_table){ costs, 7, 3 }, NULL);
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
		plugin_tuner_edit(tuner, PREDICT_ALLREDUCE, 1024, 1, &(struct predict_table){ &costs[0][0], 7, 3 },
				  NULL);
		assert_int_equal(costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] > 100, cases[i].edits);
		costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = before[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE];
		costs[PREDICT_COLLNET_DIRECT][PREDICT_SIMPLE] = before[PREDICT_COLLNET_DIRECT][PREDICT_SIMPLE];
		assert_memory_equal(costs, before, sizeof(costs));
		plugin_tuner_fini(tuner);
		unsetenv(cases[i].variable);
	}
	plugin_state_reset(NULL, NULL);
}

static const struct steer_table odd = {
	.hash = 5,
	.table = { .choices = {
			   [PREDICT_ALLREDUCE] = {
				   [10] = { 1024, PREDICT_TREE, PREDICT_LL, 3, 8192, 1, 2 },
				   [11] = { 2048, PREDICT_NVLS_TREE, PREDICT_SIMPLE, 3, 0, 1, 2 },
				   [12] = { 4096, -1, -1, 0, 0, 1, 1 },
				   [13] = { 8192, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, 3, 8192, 1, 2 },
			   } } },
};

/* What NCCL takes then, algorithm * 3 + protocol; NVLS is forbidden. */
static int asked(struct plugin_tuner *tuner, size_t bytes, int operations, int *ret_channels)
{
	float costs[7][3];
	int best = 0;

	for (int i = 0; i < 21; i++)
		costs[i / 3][i % 3] = i / 3 == PREDICT_NVLS || i / 3 == PREDICT_NVLS_TREE ? -1 : (float)(100 + i);
	costs[PREDICT_RING][PREDICT_SIMPLE] = 50;
	*ret_channels = 0;
	plugin_tuner_edit(tuner, PREDICT_ALLREDUCE, bytes, operations, &(struct predict_table){ &costs[0][0], 7, 3 },
			  ret_channels);
	for (int i = 0; i < 21; i++) {
		assert_int_equal(costs[i / 3][i % 3] < 0, i / 3 == PREDICT_NVLS || i / 3 == PREDICT_NVLS_TREE);
		if (costs[i / 3][i % 3] >= 0 && costs[i / 3][i % 3] < costs[best / 3][best % 3])
			best = i;
	}
	return best;
}

static void a_table_goes_ahead_where_nccl_allows_what_it_names(void **state)
{
	enum { OWN = PREDICT_RING * 3 + PREDICT_SIMPLE };
	struct plugin_tuner tuner = { .table = &odd };
	int channels;

	(void)state;
	assert_int_equal(asked(&tuner, 1024, 1, &channels), PREDICT_TREE * 3 + PREDICT_LL);
	assert_int_equal(channels, 3);
	assert_int_equal(plugin_tuner_chunk(&tuner, PREDICT_ALLREDUCE, 300, PREDICT_TREE, PREDICT_LL, 65536), 8192);
	assert_int_equal(plugin_tuner_chunk(&tuner, PREDICT_ALLREDUCE, 300, PREDICT_RING, PREDICT_LL, 65536), 65536);
	assert_int_equal(plugin_tuner_chunk(&tuner, PREDICT_BROADCAST, 300, PREDICT_TREE, PREDICT_LL, 65536), 65536);
	assert_int_equal(asked(&tuner, 513, 1, &channels), PREDICT_TREE * 3 + PREDICT_LL);
	/* Not measured: two operations that NCCL has put together, other sizes, and what it forbids. */
	assert_int_equal(asked(&tuner, 1024, 2, &channels), OWN);
	assert_int_equal(asked(&tuner, 512, 1, &channels), OWN);
	assert_int_equal(asked(&tuner, 2048, 1, &channels), OWN);
	assert_int_equal(asked(&tuner, 4096, 1, &channels), OWN);
	assert_int_equal(channels, 0);
	assert_int_equal(plugin_tuner_chunk(&tuner, PREDICT_ALLREDUCE, 300, PREDICT_TREE, PREDICT_LL, 65536), 65536);
	/* As many channels as it is told, which it may not have. */
	assert_int_equal(asked(&tuner, 8192, 1, &channels), PREDICT_COLLNET_CHAIN * 3 + PREDICT_SIMPLE);
	assert_int_equal(channels, 0);
	/* Ahead of the rule of costs, by which collnet is not taken for so little on two nodes. */
	tuner.look.collnet.node_count = 2;
	assert_int_equal(asked(&tuner, 8192, 1, &channels), PREDICT_COLLNET_CHAIN * 3 + PREDICT_SIMPLE);
}

/* However many questions it has, of which hosts that lack the table would answer the second otherwise, and wait. */
static void the_first_group_may_be_nccls_alone(void **state)
{
	struct plugin_calls *calls = plugin_calls_open(7), *others = plugin_calls_open(8);
	struct plugin_tuner tuner = { .table = &odd, .calls = plugin_calls_take(7) };
	int channels;

	(void)state;
	assert_ptr_equal(tuner.calls, calls);
	atomic_store(&tuner.from, STEER_TUNED_FROM_SECOND_GROUP);
	plugin_calls_add(calls);
	plugin_calls_add(calls);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(asked(&tuner, 1024, 1, &channels), PREDICT_RING * 3 + PREDICT_SIMPLE);
		plugin_calls_add(others);
	}
	plugin_calls_add(calls);
	for (int i = 0; i < 2; i++)
		assert_int_equal(asked(&tuner, 1024, 1, &channels), PREDICT_TREE * 3 + PREDICT_LL);
	plugin_calls_close(others);
	plugin_calls_close(calls); /* either may end first */
	assert_null(plugin_calls_take(7));
	assert_int_equal(asked(&tuner, 1024, 1, &channels), PREDICT_TREE * 3 + PREDICT_LL);
	plugin_calls_put(tuner.calls);
}

/* NCCL allows it on all ranks or on none, and until then not all may have been told. */
static void what_heads_agreed_on_waits_for_collnet(void **state)
{
	struct plugin_tuner tuner = { .table = &odd };
	int channels;

	(void)state;
	atomic_store(&tuner.from, STEER_TUNED_FROM_COLLNET);
	for (int i = 0; i < 3; i++) {
		float costs[7][3];

		for (int k = 0; k < 21; k++)
			costs[k / 3][k % 3] = k / 3 > 1 ? -1 : 100;
		plugin_tuner_edit(&tuner, PREDICT_ALLREDUCE, 1024, 1, &(struct predict_table){ &costs[0][0], 7, 3 },
				  &channels);
		assert_true(costs[PREDICT_TREE][PREDICT_LL] > 99);
	}
	assert_int_equal(asked(&tuner, 1024, 1, &channels), PREDICT_TREE * 3 + PREDICT_LL);
}

/* Without the environment half it is not known what NCCL this is, and the other ranks may follow the table. */
static void a_named_table_is_followed_or_an_error(void **state)
{
	struct plugin_tuner *tuner = NULL;

	(void)state;
	setenv("TRIBUTARY_TUNING", "00ab34cd56ef7890", 1);
	plugin_state_reset(NULL, NULL);
	assert_true(plugin_tuner_init(0x1234, 4, 1, NULL, NULL, &tuner) < 0);
	assert_null(tuner);
	unsetenv("TRIBUTARY_TUNING");
	plugin_state_reset(NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_published_plan_of_all_ranks_is_used),
		cmocka_unit_test(the_same_facts_give_the_same_costs),
		cmocka_unit_test(init_without_facts_leaves_everything_to_nccl),
		cmocka_unit_test(several_nodes_change_collnet_alone),
		cmocka_unit_test(a_table_goes_ahead_where_nccl_allows_what_it_names),
		cmocka_unit_test(the_first_group_may_be_nccls_alone),
		cmocka_unit_test(what_heads_agreed_on_waits_for_collnet),
		cmocka_unit_test(a_named_table_is_followed_or_an_error),
	};

	return cmocka_run_group_tests_name("plugin/tuner", tests, NULL, NULL);
}
