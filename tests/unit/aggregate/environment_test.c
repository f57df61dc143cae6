/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that let their CPU take denormal numbers for zero (torch.set_flush_denormal, libraries built with -ffast-math)
 * get the same bits as all others: threads inherit it, and callers' threads make sums.
 */
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
enum { FLUSH = 0x8040 }; /* denormals are zero, before and after */

static unsigned flush_begin(void)
{
	unsigned was = __builtin_ia32_stmxcsr();

	__builtin_ia32_ldmxcsr(was | FLUSH);
	return was;
}

static void flush_end(unsigned was)
{
	__builtin_ia32_ldmxcsr(was);
}
#endif

static void denormals_are_kept(void **state)
{
#if defined(__x86_64__)
	static const enum reduce_operation operations[] = { REDUCE_SUM, REDUCE_MIN, REDUCE_MAX };
	static const size_t counts[] = { 100, 20000, 200000 };       /* one way through each */
	static const uint32_t inputs[] = { 0x00000005, 0x0000000a }; /* bits of floats */
	static const uint32_t results[] = { 0x0000000f, 0x00000005, 0x0000000a };
	struct params params;
	struct harness harness;
	unsigned was;

	(void)state;
	group_harness_params(&params);
	was = flush_begin(); /* the engines' threads, too */
	assert_int_equal(group_harness_open(&harness, &params, "--"), 0);
	for (size_t i = 0; i < 9; i++) {
		struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };
		size_t count = counts[i / 3];
		uint32_t *data[2];

		for (size_t m = 0; m < 2; m++) {
			data[m] = malloc(count * sizeof(*data[m]));
			assert_non_null(data[m]);
			for (size_t k = 0; k < count; k++)
				data[m][k] = inputs[m];
			assert_int_equal(group_harness_reduce(&harness.members[m], data[m], data[m], count,
							      REDUCE_FLOAT32, operations[i % 3], &requests[m]),
					 0);
		}
		assert_int_equal(group_harness_finish(&harness, requests), 0);
		for (size_t m = 0; m < 2; m++) {
			for (size_t k = 0; k < count; k++)
				assert_int_equal(data[m][k], results[i % 3]);
			free(data[m]);
		}
		assert_int_equal(__builtin_ia32_stmxcsr() & FLUSH, FLUSH); /* what is the caller's stays as it is */
	}
	group_harness_close(&harness);
	flush_end(was);
#else
	(void)state;
	skip();
#endif
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(denormals_are_kept),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
