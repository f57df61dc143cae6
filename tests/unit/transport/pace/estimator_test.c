/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "transport/pace/estimator.h"

enum { QUANTUM = 32 << 10 };
#define GIGABIT_BPS 125000000ULL
#define LEAST       (2ULL * QUANTUM)

/* A link of a capacity, with senders that can do so much: what one window of it delivers under the present budget. */
struct link {
	uint64_t capacity_Bps, senders_Bps, loop_ns, noise_percent, random;
};

static uint64_t link_rate(struct link *link, uint64_t budget_bytes)
{
	uint64_t rate_Bps = (uint64_t)((double)budget_bytes * 1e9 / (double)link->loop_ns), noise;

	if (rate_Bps > link->capacity_Bps)
		rate_Bps = link->capacity_Bps;
	if (rate_Bps > link->senders_Bps)
		rate_Bps = link->senders_Bps;
	noise = link->noise_percent ? random_below(&link->random, 2 * link->noise_percent + 1) : 0;
	return rate_Bps / 100 * (100 - link->noise_percent + noise);
}

static void take_window(struct pace_estimator *estimator, uint64_t bytes, uint64_t window_ns, bool limited)
{
	const struct pace_window window = { .busy_ns = window_ns,
					    .limited_ns = limited ? window_ns : 0,
					    .bytes = bytes };

	pace_estimator_take(estimator, &window, window_ns, false, 0);
}

static void run_windows(struct pace_estimator *estimator, struct link *link, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint64_t rate_Bps = link_rate(link, estimator->budget_bytes);

		take_window(estimator, rate_Bps * 2 / 1000, 2 * NS_PER_MS, true);
		assert_in_range(estimator->budget_bytes, LEAST, PACE_BUDGET_MAX_BYTES);
	}
}

static void the_first_budget_is_nominal_speed_times_200_us_within_its_bounds(void **state)
{
	struct pace_estimator estimator;

	(void)state;
	pace_estimator_init(&estimator, 10 * GIGABIT_BPS, QUANTUM);
	assert_int_equal(estimator.budget_bytes, 250000);
	pace_estimator_init(&estimator, GIGABIT_BPS, QUANTUM);
	assert_int_equal(estimator.budget_bytes, LEAST);
	pace_estimator_init(&estimator, 0, QUANTUM);
	assert_int_equal(estimator.budget_bytes, LEAST);
	pace_estimator_init(&estimator, 80000 * GIGABIT_BPS, QUANTUM);
	assert_int_equal(estimator.budget_bytes, PACE_BUDGET_MAX_BYTES);
}

static void a_nominal_speed_that_is_not_true_goes_with_the_first_window(void **state)
{
	struct pace_estimator estimator;

	(void)state;
	pace_estimator_init(&estimator, 10 * GIGABIT_BPS, QUANTUM);
	take_window(&estimator, 119600 * 2, 2 * NS_PER_MS, true);
	assert_int_equal(pace_estimator_rate(&estimator), 119600000);
	/* 119.6 MB/s × (1.25 × 100 us + 500 us): below the 100 KB that a small switch has for a port. */
	assert_int_equal(estimator.budget_bytes, 74750);
}

static void the_budget_follows_rate_and_usual_loop(void **state)
{
	struct pace_estimator estimator;

	(void)state;
	pace_estimator_init(&estimator, 0, QUANTUM);
	for (unsigned i = 0; i < PACE_LOOP_LEAST; i++)
		pace_estimator_loop(&estimator, 400000 + i % 2 * 200000);
	take_window(&estimator, 1250000 * 2, 2 * NS_PER_MS, true);
	assert_int_equal(pace_estimator_round_trip(&estimator), 600000);
	/* 1.25 GB/s × (1.25 × 400 us + 500 us) */
	assert_int_equal(estimator.budget_bytes, 1250000);
}

static void the_peak_of_long_ago_is_forgotten(void **state)
{
	struct pace_estimator estimator;

	(void)state;
	pace_estimator_init(&estimator, 0, QUANTUM);
	take_window(&estimator, 2500000, 2 * NS_PER_MS, true);
	for (unsigned i = 0; i < PACE_PEAK_WINDOWS - 1; i++)
		take_window(&estimator, 250000, 2 * NS_PER_MS, true);
	assert_int_equal(pace_estimator_rate(&estimator), 1250000000);
	for (unsigned i = 0; i < PACE_PEAK_WINDOWS + 2; i++)
		take_window(&estimator, 250000, 2 * NS_PER_MS, true);
	assert_int_equal(pace_estimator_rate(&estimator), 125000000);
}

static void slow_senders_do_not_keep_the_budget_low(void **state)
{
	struct link link = { .capacity_Bps = 10 * GIGABIT_BPS, .senders_Bps = GIGABIT_BPS / 2, .loop_ns = 500000 };
	const uint64_t product = 10 * GIGABIT_BPS / 10000 * 5;
	struct pace_estimator estimator;

	(void)state;
	pace_estimator_init(&estimator, 10 * GIGABIT_BPS, QUANTUM);
	run_windows(&estimator, &link, 3000);
	link.senders_Bps = UINT64_MAX;
	run_windows(&estimator, &link, 300);
	assert_in_range(estimator.budget_bytes, product * 9 / 10, 4 * product);
}

static void windows_that_the_budget_did_not_limit_never_lower_it(void **state)
{
	struct pace_estimator estimator;

	(void)state;
	pace_estimator_init(&estimator, 10 * GIGABIT_BPS, QUANTUM);
	for (unsigned i = 0; i < 1000; i++)
		take_window(&estimator, 1000, 2 * NS_PER_MS, false);
	assert_int_equal(estimator.budget_bytes, 250000);
	assert_int_equal(pace_estimator_rate(&estimator), 10 * GIGABIT_BPS);
	/* But one that is faster than what was measured counts. */
	take_window(&estimator, 200000, 2 * NS_PER_MS, true);
	take_window(&estimator, 2000000, 2 * NS_PER_MS, false);
	assert_int_equal(pace_estimator_rate(&estimator), 1000000000);
}

static void a_gigabit_link_never_gets_more_than_its_time_bound(void **state)
{
	struct pace_estimator estimator;

	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct link link = { GIGABIT_BPS * 957 / 1000, UINT64_MAX, 300000, 5, seed };

		pace_estimator_init(&estimator, 10 * GIGABIT_BPS, QUANTUM);
		for (unsigned i = 0; i < 200; i++) {
			/* Half of the loops wait for a time slice. */
			pace_estimator_loop(&estimator, 80000 + random_below(&link.random, i % 2 ? 60000 : 3000000));
			run_windows(&estimator, &link, 10);
			assert_in_range(estimator.budget_bytes, LEAST, 100000);
		}
	}
}

static void odd_windows_and_samples_do_no_harm(void **state)
{
	struct pace_estimator estimator;

	(void)state;
	pace_estimator_init(&estimator, GIGABIT_BPS, QUANTUM);
	take_window(&estimator, 1000, 0, true);
	assert_int_equal(estimator.budget_bytes, LEAST);
	take_window(&estimator, 1ULL << 50, 1, true);
	for (unsigned i = 0; i < 2 * PACE_LOOP_SAMPLES; i++)
		pace_estimator_loop(&estimator, i % 2 ? 1ULL << 50 : 0);
	for (unsigned i = 0; i < 1000; i++) {
		take_window(&estimator, i % 3 ? 0 : 1ULL << 40, NS_PER_MS, true);
		assert_in_range(estimator.budget_bytes, LEAST, PACE_BUDGET_MAX_BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_budget_is_nominal_speed_times_200_us_within_its_bounds),
		cmocka_unit_test(a_nominal_speed_that_is_not_true_goes_with_the_first_window),
		cmocka_unit_test(the_budget_follows_rate_and_usual_loop),
		cmocka_unit_test(the_peak_of_long_ago_is_forgotten),
		cmocka_unit_test(slow_senders_do_not_keep_the_budget_low),
		cmocka_unit_test(windows_that_the_budget_did_not_limit_never_lower_it),
		cmocka_unit_test(a_gigabit_link_never_gets_more_than_its_time_bound),
		cmocka_unit_test(odd_windows_and_samples_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
