/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many operations at once, of all sizes, posted and tested in another rhythm by every member; small
 * operations beside large ones.
 */
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"
#include "unit/aggregate/tasks.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPERATIONS = 120, OPERATIONS_LONG = 2000, LARGE = 1 << 20, LARGES = 4 };

static void mixture(const char *leaves, size_t total, bool verify, uint64_t seed)
{
	struct task *tasks = calloc(total, sizeof(*tasks));
	struct params params;
	struct harness harness;
	uint64_t random = seed;

	group_harness_params(&params);
	params.verify = verify;
	assert_int_equal(group_harness_open(&harness, &params, leaves), 0);
	for (size_t i = 0; i < total; i++)
		task_any(&tasks[i], &random);
	tasks_run(&harness, tasks, total, &random);
	group_harness_close(&harness);
	free(tasks);
}

static void operations_of_all_kinds_at_once(void **state)
{
	static const char *const leaves[] = { "aaaa", "aab", "a2b2c", "aabbb" };
	size_t total = runtime_long() ? OPERATIONS_LONG : OPERATIONS;

	(void)state;
	for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++)
		mixture(leaves[i], total, i == 1, runtime_seed() + i);
}

/*
 * A small operation is through before a large one that was posted before it. This process may get no time to see it, so
 * it may try again; where small ones wait it never sees it.
 */
static bool small_one_first(struct harness *harness, const float *send, float *const *recv)
{
	struct aggregate_request *large[LARGES][GROUP_HARNESS_MAX] = { 0 }, *small[GROUP_HARNESS_MAX] = { 0 };
	bool done = false, first;

	for (size_t m = 0; m < harness->count; m++) {
		for (size_t i = 0; i < LARGES; i++)
			assert_int_equal(group_harness_reduce(&harness->members[m], send, recv[m] + i * LARGE, LARGE,
							      REDUCE_FLOAT32, REDUCE_SUM, &large[i][m]),
					 0);
		assert_int_equal(group_harness_reduce(&harness->members[m], send, recv[m] + LARGES * LARGE, 1,
						      REDUCE_FLOAT32, REDUCE_SUM, &small[m]),
				 0);
	}
	assert_int_equal(group_harness_finish(harness, small), 0);
	assert_int_equal(aggregate_test(large[LARGES - 1][0], &done, NULL), 0);
	first = !done;
	if (done)
		large[LARGES - 1][0] = NULL;
	for (size_t i = 0; i < LARGES; i++)
		assert_int_equal(group_harness_finish(harness, large[i]), 0);
	return first;
}

static void small_ones_do_not_wait_for_large_ones(void **state)
{
	float *send = calloc(LARGE, sizeof(float)), *recv[3];
	struct params params;
	struct harness harness;
	bool first = false;

	(void)state;
	group_harness_params(&params);
	assert_int_equal(group_harness_open(&harness, &params, "aaa"), 0);
	for (size_t m = 0; m < 3; m++)
		recv[m] = calloc(LARGES * LARGE + 1, sizeof(float));
	for (unsigned i = 0; i < 20 && !first; i++)
		first = small_one_first(&harness, send, recv);
	assert_true(first);
	for (size_t m = 0; m < 3; m++)
		free(recv[m]);
	free(send);
	group_harness_close(&harness);
}

/*
 * A member posts a large operation and waits for it before it posts the small ones behind it; their messages from the others
 * lie there all that time, and must not be in the way of the thousands that the large one takes.
 */
static void a_large_one_is_not_held_up_by_what_is_not_posted(void **state)
{
	enum { COUNT = 24 << 20, SMALLS = 12, SMALL = 300 };
	struct aggregate_request *large[GROUP_HARNESS_MAX] = { 0 }, *small[SMALLS][GROUP_HARNESS_MAX] = { 0 };
	uint8_t *data[2], *some[2];
	struct params params;
	struct harness harness;

	(void)state;
	group_harness_params(&params);
	params.aggregate_segment_bytes = 16 << 10;
	assert_int_equal(group_harness_open(&harness, &params, "aa"), 0);
	for (size_t m = 0; m < 2; m++) {
		data[m] = calloc(COUNT, 1);
		some[m] = calloc(SMALLS, SMALL);
		memset(data[m], (int)m + 1, COUNT);
		assert_int_equal(group_harness_reduce(&harness.members[m], data[m], data[m], COUNT, REDUCE_UINT8,
						      REDUCE_SUM, &large[m]),
				 0);
		for (size_t i = 0; i < SMALLS && m == 0; i++)
			assert_int_equal(group_harness_reduce(&harness.members[m], some[m], some[m] + i * SMALL, SMALL,
							      REDUCE_UINT8, REDUCE_SUM, &small[i][m]),
					 0);
	}
	assert_int_equal(group_harness_finish(&harness, large), 0);
	for (size_t i = 0; i < SMALLS; i++) {
		assert_int_equal(group_harness_reduce(&harness.members[1], some[1], some[1] + i * SMALL, SMALL,
						      REDUCE_UINT8, REDUCE_SUM, &small[i][1]),
				 0);
		assert_int_equal(group_harness_finish(&harness, small[i]), 0);
	}
	for (size_t i = 0; i < COUNT; i++)
		if (data[0][i] != 3 || data[1][i] != 3)
			fail_msg("element %zu: %u and %u", i, data[0][i], data[1][i]);
	group_harness_close(&harness);
	for (size_t m = 0; m < 2; m++) {
		free(data[m]);
		free(some[m]);
	}
}

static void more_than_32_are_come_again(void **state)
{
	struct aggregate_request *requests[2][AGGREGATE_MAX_REQUESTS + 1] = { 0 };
	float numbers[AGGREGATE_MAX_REQUESTS + 1] = { 0 };
	struct params params;
	struct harness harness;

	(void)state;
	group_harness_params(&params);
	assert_int_equal(group_harness_open(&harness, &params, "--"), 0);
	for (size_t i = 0; i <= AGGREGATE_MAX_REQUESTS; i++)
		assert_int_equal(aggregate_reduce_all(harness.members[0].group, numbers + i, numbers + i, 1,
						      REDUCE_FLOAT32, REDUCE_MAX, &requests[0][i]),
				 0);
	assert_non_null(requests[0][AGGREGATE_MAX_REQUESTS - 1]);
	assert_null(requests[0][AGGREGATE_MAX_REQUESTS]);
	for (size_t i = 0; i < AGGREGATE_MAX_REQUESTS; i++) {
		struct aggregate_request *both[GROUP_HARNESS_MAX] = { requests[0][i] };
		float other = (float)i;

		assert_int_equal(group_harness_reduce(&harness.members[1], &other, &other, 1, REDUCE_FLOAT32,
						      REDUCE_MAX, &both[1]),
				 0);
		assert_int_equal(group_harness_finish(&harness, both), 0);
		assert_true(other == (float)i && numbers[i] == (float)i);
	}
	group_harness_close(&harness);
}

static void wrong_arguments_are_refused(void **state)
{
	struct aggregate_request *request;
	struct params params;
	struct harness harness;
	float number = 0;

	(void)state;
	group_harness_params(&params);
	assert_int_equal(group_harness_open(&harness, &params, "-"), 0);
	assert_int_equal(aggregate_reduce_all(harness.members[0].group, &number, &number, 1, REDUCE_TYPE_COUNT,
					      REDUCE_SUM, &request),
			 -EINVAL);
	assert_int_equal(aggregate_reduce_all(harness.members[0].group, &number, &number, SIZE_MAX / 2, REDUCE_FLOAT32,
					      REDUCE_SUM, &request),
			 -EINVAL);
	assert_int_equal(
		aggregate_reduce_all(harness.members[0].group, NULL, &number, 1, REDUCE_FLOAT32, REDUCE_SUM, &request),
		-EINVAL);
	group_harness_close(&harness);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_of_all_kinds_at_once),
		cmocka_unit_test(small_ones_do_not_wait_for_large_ones),
		cmocka_unit_test(a_large_one_is_not_held_up_by_what_is_not_posted),
		cmocka_unit_test(more_than_32_are_come_again),
		cmocka_unit_test(wrong_arguments_are_refused),
	};

	(void)argc;
	runtime_start(argv[0], 400);
	if (runtime_setting("TEST_FILTER"))
		cmocka_set_test_filter(runtime_setting("TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
