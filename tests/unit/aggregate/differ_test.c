/* SPDX-License-Identifier: Apache-2.0 */
/* Members that post different operations. Everybody hears of it, whatever each of them waits for. */
#include "base/clock.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* Those that wait for each other do so for this time; and members must have come together in it, on a busy machine too. */
static void params_of_short_patience(struct params *ret)
{
	group_harness_params(ret);
	ret->timeout_ns = (runtime_sanitized() ? 12 : 4) * NS_PER_S;
}

static void hosts_post_different_operations(void **state)
{
	/* count, type, operation of the odd one; the others post the other count, float32, sum */
	static const struct {
		size_t count, others;
		enum reduce_type type;
		enum reduce_operation operation;
	} cases[] = {
		{ 501, 500, REDUCE_FLOAT32, REDUCE_SUM },      { 500, 500, REDUCE_INT32, REDUCE_SUM },
		{ 500, 500, REDUCE_FLOAT32, REDUCE_MAX },      { 500, 50000, REDUCE_FLOAT32, REDUCE_SUM },
		{ 50000, 500, REDUCE_FLOAT32, REDUCE_SUM },    { 50001, 50000, REDUCE_FLOAT32, REDUCE_SUM },
		{ 50000, 50000, REDUCE_INT32, REDUCE_SUM },    { 50000, 50000, REDUCE_FLOAT32, REDUCE_PROD },
		{ 150000, 50000, REDUCE_FLOAT32, REDUCE_SUM }, { 5001, 5000, REDUCE_FLOAT32, REDUCE_SUM },
		{ 5000, 5000, REDUCE_INT32, REDUCE_SUM },      { 5000, 500, REDUCE_FLOAT32, REDUCE_SUM },
		{ 500, 5000, REDUCE_FLOAT32, REDUCE_SUM },     { 50000, 5000, REDUCE_FLOAT32, REDUCE_SUM },
		{ 5000, 50000, REDUCE_FLOAT32, REDUCE_SUM },
	};
	static const char *const layouts[] = { "aabb", "aabbaca" }; /* short ones are exchanged, or have a root */
	void *send = calloc(150000, 4), *recv[GROUP_HARNESS_MAX];

	(void)state;
	for (size_t m = 0; m < 7; m++)
		recv[m] = malloc(150000 * 4);
	for (size_t k = 0; k < 2 * sizeof(cases) / sizeof(cases[0]); k++) {
		size_t i = k / 2, members = strlen(layouts[k % 2]);
		struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };
		struct params params;
		struct harness harness;
		size_t errors = 0, ends = 0;
		uint64_t deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);

		params_of_short_patience(&params);
		assert_int_equal(group_harness_open(&harness, &params, layouts[k % 2]), 0);
		for (size_t m = 0; m < members; m++)
			assert_int_equal(group_harness_reduce(&harness.members[m], send, recv[m],
							      m == i % members ? cases[i].count : cases[i].others,
							      m == i % members ? cases[i].type : REDUCE_FLOAT32,
							      m == i % members ? cases[i].operation : REDUCE_SUM,
							      &requests[m]),
					 0);
		/* Of a large one, who is through before it is found out has its error with the next operation. */
		while (ends < members) {
			for (size_t m = 0; m < members; m++) {
				bool done = false;
				int r = requests[m] ? aggregate_test(requests[m], &done, NULL) : 0;

				errors += r < 0;
				ends += r < 0 || done;
				if (r < 0 || done)
					requests[m] = NULL;
			}
			assert_false(runtime_past(deadline_ns));
			runtime_nap();
		}
		/* One that is summed by a root, by some for all, or by everybody, is nobody's before the words are heard. */
		assert_true(errors >=
			    (cases[i].others <= 5000 && cases[i].count / 10 == cases[i].others / 10 ? members : 1));
		group_harness_close(&harness);
	}
	for (size_t m = 0; m < 7; m++)
		free(recv[m]);
	free(send);
}

/* Until the others of four have each other's inputs, and wait for this one's alone. */
static void all_others_wait_for(const struct harness *harness, size_t odd, size_t bytes)
{
	uint64_t deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);

	for (size_t m = 0; m < harness->count; runtime_nap()) {
		struct aggregate_counters counters;

		assert_false(runtime_past(deadline_ns));
		aggregate_counters(harness->members[m].group, &counters);
		m += m == odd || counters.bytes_received >= (harness->count - 2) * bytes;
	}
}

/*
 * The others are through with each other when the odd one posts an operation that it begins by waiting for them. Who hears
 * of it ends its group, which nobody else waits for any more.
 */
static void who_waits_in_a_circle_is_told(void **state)
{
	enum { SHORT = 500, LONG = 50000 };
	float *send = calloc(LONG, sizeof(float)), *recv[4];

	(void)state;
	for (size_t m = 0; m < 4; m++)
		recv[m] = malloc(LONG * sizeof(float));
	for (size_t odd = 0; odd < 4; odd++) {
		struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };
		struct params params;
		struct harness harness;

		params_of_short_patience(&params);
		assert_int_equal(group_harness_open(&harness, &params, "aabb"), 0);
		for (size_t m = 0; m < 4; m++)
			if (m != odd)
				assert_int_equal(group_harness_reduce(&harness.members[m], send, recv[m], SHORT,
								      REDUCE_FLOAT32, REDUCE_SUM, &requests[m]),
						 0);
		all_others_wait_for(&harness, odd, SHORT * sizeof(float));
		assert_int_equal(group_harness_reduce(&harness.members[odd], send, recv[odd], LONG, REDUCE_FLOAT32,
						      REDUCE_SUM, &requests[odd]),
				 0);
		assert_int_equal(group_harness_all_fail(&harness, SIZE_MAX, requests), 0);
		group_harness_close(&harness);
	}
	for (size_t m = 0; m < 4; m++)
		free(recv[m]);
	free(send);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_post_different_operations),
		cmocka_unit_test(who_waits_in_a_circle_is_told),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	runtime_watch_stalls();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
