/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a sum of eight gradients in bfloat16 is from the true one: summed here at once, against a ring, which rounds to
 * bfloat16 after each of its seven additions. Prints both.
 */
#include "reduce/reduce.h"

#include "elements.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

enum { RANKS = 8, COUNT = 1 << 16 };

static uint64_t chance;

static double uniform(void) /* above 0, up to 1 */
{
	return (double)((random_next(&chance) >> 11) + 1) * 0x1p-53;
}

/* Box and Muller: normally distributed, mean 0, deviation 1. */
static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * acos(-1) * uniform());
}

static void error_is_at_most_half_of_a_rings(void **state)
{
	static uint16_t values[RANKS][COUNT], to[COUNT];
	const struct slow_format *format = slow_format_of(REDUCE_BFLOAT16);
	const void *inputs[RANKS];
	double ours = 0, ring = 0;

	(void)state;
	for (unsigned rank = 0; rank < RANKS; rank++) {
		inputs[rank] = values[rank];
		for (size_t i = 0; i < COUNT; i++)
			values[rank][i] = (uint16_t)slow_round(format, normal());
	}
	reduce_at(reduce_level_best(), REDUCE_BFLOAT16, REDUCE_SUM)(to, RANKS, inputs, COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		double exact = 0, stepwise = 0;

		for (unsigned rank = 0; rank < RANKS; rank++) {
			/* A ring begins each of its parts at another rank. */
			double value = slow_value(format, values[(rank + i) % RANKS][i]);

			exact += value;
			stepwise = rank ? slow_value(format, slow_round(format, stepwise + value)) : value;
		}
		ours += pow(slow_value(format, to[i]) - exact, 2);
		ring += pow(stepwise - exact, 2);
	}
	ours = sqrt(ours / COUNT);
	ring = sqrt(ring / COUNT);
	print_message("bfloat16, %d ranks, normal values: root mean square error %.3g, of a ring %.3g: %.3f\n", RANKS,
		      ours, ring, ours / ring);
	assert_true(ours > 0);
	assert_true(ours <= 0.5 * ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_is_at_most_half_of_a_rings),
	};

	runtime_start("accuracy_test", 60);
	chance = runtime_seed();
	return cmocka_run_group_tests_name("reduce/accuracy", tests, NULL, NULL);
}
