/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/repeat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "support/random.h"

enum { SERIES = 40 };

#define NOISE 0.02
#define LEVEL 1e10

/* Experiments that take turns; the first `victims` of them show it when somebody uses the machine. */
struct fixture {
	struct measure_series series[SERIES];
	uint64_t random;
	uint32_t turn;
};

static double noise(struct fixture *fixture)
{
	double sum = -6;

	for (unsigned i = 0; i < 12; i++)
		sum += random_between(&fixture->random, 0, 1);
	return 1 + NOISE * sum;
}

static void begin(struct fixture *fixture, size_t flow_count)
{
	*fixture = (struct fixture){ .random = 7 };
	for (size_t i = 0; i < SERIES; i++)
		measure_series_init(&fixture->series[i], flow_count, 0.01);
}

static void end(struct fixture *fixture)
{
	for (size_t i = 0; i < SERIES; i++)
		measure_series_fini(&fixture->series[i]);
}

static void run_rounds(struct fixture *fixture, unsigned rounds, size_t victims, double part)
{
	for (unsigned round = 0; round < rounds; round++)
		for (size_t i = 0; i < SERIES; i++) {
			double rates[8];

			for (size_t j = 0; j < fixture->series[i].flow_count; j++)
				rates[j] = LEVEL * noise(fixture) * (i < victims ? part : 1);
			assert_int_equal(measure_series_add(&fixture->series[i], rates, fixture->turn++), 0);
		}
}

static void analysis(struct fixture *fixture)
{
	assert_int_equal(measure_repeat_analyse(fixture->series, SERIES), 0);
}

static void assert_level(const struct measure_series *series)
{
	double expected = LEVEL * (double)series->flow_count;

	assert_true(fabs(series->mean_Bps - expected) < 0.02 * expected);
}

static void quiet_series_are_kept_and_get_precise(void **state)
{
	struct fixture fixture;
	double error, before;

	(void)state;
	begin(&fixture, 1);
	run_rounds(&fixture, 6, 0, 1);
	analysis(&fixture);
	before = fixture.series[3].half;
	assert_true(before > 0.005 && before < 0.06);
	run_rounds(&fixture, 24, 0, 1);
	analysis(&fixture);
	for (size_t i = 0; i < SERIES; i++) {
		assert_level(&fixture.series[i]);
		assert_true(fixture.series[i].kept >= 28);
		assert_int_not_equal(fixture.series[i].state, MEASURE_REPEAT_DISTURBED);
		assert_true(fabs(measure_series_flow(&fixture.series[i], 0, &error) - LEVEL) < 5 * error);
	}
	assert_true(fixture.series[3].half < before);
	end(&fixture);
}

static void lonely_outlier_is_dropped_and_nothing_else(void **state)
{
	static const double factors[] = { 0.6, 1.2 };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct fixture fixture;
		double rate = factors[i] * LEVEL;

		begin(&fixture, 1);
		run_rounds(&fixture, 5, 0, 1);
		assert_int_equal(measure_series_add(&fixture.series[2], &rate, fixture.turn++), 0);
		run_rounds(&fixture, 5, 0, 1);
		analysis(&fixture);
		assert_int_equal(fixture.series[2].at[5].fate, MEASURE_REPEAT_OUTLIER);
		assert_int_equal(fixture.series[2].kept, 10);
		assert_level(&fixture.series[2]);
		end(&fixture);
	}
}

static void neighbour_for_a_while_sets_aside_all_that_ran_then(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture, 1);
	run_rounds(&fixture, 5, 0, 1);
	run_rounds(&fixture, 4, 4, 0.6);
	run_rounds(&fixture, 6, 0, 1);
	analysis(&fixture);
	for (size_t i = 0; i < SERIES; i++) {
		assert_level(&fixture.series[i]);
		assert_int_not_equal(fixture.series[i].state, MEASURE_REPEAT_DISTURBED);
		for (size_t j = 6; j < 8; j++) /* within, for all; at the edges it may be seen either way */
			assert_int_equal(fixture.series[i].at[j].fate, MEASURE_REPEAT_ASIDE);
		assert_int_equal(fixture.series[i].at[2].fate, MEASURE_REPEAT_KEPT);
		assert_true(fixture.series[i].kept >= 9);
	}
	end(&fixture);
}

static void neighbour_for_most_of_the_time_is_not_taken_for_the_machine(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture, 1);
	run_rounds(&fixture, 8, 4, 0.6);
	run_rounds(&fixture, 6, 0, 1);
	analysis(&fixture);
	for (size_t i = 0; i < 4; i++)
		assert_level(&fixture.series[i]);
	end(&fixture);
}

static void newest_repetition_above_all_others_asks_for_more(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture, 1);
	run_rounds(&fixture, 8, 4, 0.6);
	run_rounds(&fixture, 1, 0, 1);
	analysis(&fixture);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(fixture.series[i].state, MEASURE_REPEAT_DISTURBED);
	assert_int_not_equal(fixture.series[10].state, MEASURE_REPEAT_DISTURBED);
	end(&fixture);
}

static void small_lasting_change_is_flagged_rather_than_averaged(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture, 8);
	run_rounds(&fixture, 6, 0, 1);
	run_rounds(&fixture, 6, 4, 0.95);
	analysis(&fixture);
	for (size_t i = 0; i < 4; i++)
		assert_true(fixture.series[i].state == MEASURE_REPEAT_DISTURBED ||
			    fabs(fixture.series[i].mean_Bps / (8 * LEVEL) - 1) < 0.015);
	assert_int_not_equal(fixture.series[10].state, MEASURE_REPEAT_DISTURBED);
	end(&fixture);
}

static void one_flow_of_a_set_that_is_off_drops_the_repetition(void **state)
{
	struct fixture fixture;
	double rates[8];

	(void)state;
	begin(&fixture, 8);
	run_rounds(&fixture, 4, 0, 1);
	for (size_t i = 0; i < 8; i++)
		rates[i] = i == 3 ? 0.7 * LEVEL : LEVEL;
	assert_int_equal(measure_series_add(&fixture.series[1], rates, fixture.turn++), 0);
	run_rounds(&fixture, 4, 0, 1);
	analysis(&fixture);
	assert_int_equal(fixture.series[1].at[4].fate, MEASURE_REPEAT_OUTLIER);
	assert_level(&fixture.series[1]);
	end(&fixture);
}

static void too_few_repetitions_are_never_done(void **state)
{
	struct measure_series series;
	double rate = LEVEL;

	(void)state;
	measure_series_init(&series, 1, 0.01);
	assert_int_equal(measure_repeat_analyse(&series, 1), 0);
	assert_int_equal(series.state, MEASURE_REPEAT_MORE);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(measure_series_add(&series, &rate, i), 0);
		assert_int_equal(measure_repeat_analyse(&series, 1), 0);
		assert_int_equal(series.state, MEASURE_REPEAT_MORE);
	}
	measure_series_fini(&series);
	assert_int_equal(measure_repeat_analyse(NULL, 0), 0);
}

static void student_is_that_of_the_tables(void **state)
{
	(void)state;
	assert_true(isinf(measure_repeat_student(0)));
	assert_true(fabs(measure_repeat_student(4) - 2.776) < 0.001);
	assert_true(fabs(measure_repeat_student(11) - 2.201) < 0.002);
	assert_true(fabs(measure_repeat_student(30) - 2.042) < 0.002);
	assert_true(fabs(measure_repeat_student(100000) - 1.960) < 0.001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quiet_series_are_kept_and_get_precise),
		cmocka_unit_test(lonely_outlier_is_dropped_and_nothing_else),
		cmocka_unit_test(neighbour_for_a_while_sets_aside_all_that_ran_then),
		cmocka_unit_test(neighbour_for_most_of_the_time_is_not_taken_for_the_machine),
		cmocka_unit_test(newest_repetition_above_all_others_asks_for_more),
		cmocka_unit_test(small_lasting_change_is_flagged_rather_than_averaged),
		cmocka_unit_test(one_flow_of_a_set_that_is_off_drops_the_repetition),
		cmocka_unit_test(too_few_repetitions_are_never_done),
		cmocka_unit_test(student_is_that_of_the_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
