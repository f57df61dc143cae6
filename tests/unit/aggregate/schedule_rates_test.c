/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of aggregators from the times of calibrations: what a model of hosts and aggregators takes is found again. */
#include "aggregate/schedule_rates.h"

#include "aggregate/schedule.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { HOSTS = 8, ROUNDS_MOST = 40 };
#define HOST_BPS UINT64_C(25000000)
#define LIMIT    2.0

/* Hosts of HOST_BPS in one leaf, and one aggregator of that rate, or none. */
static double time_of(uint64_t aggregator_Bps, double *ret_load)
{
	static struct schedule_group group;
	struct schedule_loads loads;
	struct schedule *schedule;

	memset(&group, 0, sizeof(group));
	group.member_count = group.node_count = group.host_count = HOSTS;
	group.leaf_count = 1;
	for (uint16_t i = 0; i < HOSTS; i++)
		group.nodes[i] = (struct schedule_node){ .host = i, .rate_Bps = HOST_BPS };
	if (aggregator_Bps) {
		group.nodes[HOSTS] =
			(struct schedule_node){ .host = HOSTS, .rate_Bps = aggregator_Bps, .aggregator = true };
		group.node_count = group.host_count = HOSTS + 1;
	}
	assert_int_equal(schedule_new(&group, &schedule), 0);
	schedule_loads(schedule, &loads);
	schedule_free(schedule);
	if (ret_load)
		*ret_load = loads.aggregator;
	return loads.slowest_s_per_B;
}

/* A calibration of something that takes so long for a byte of an operation, and for the beginning of a round. */
static unsigned run(struct schedule_rates_calibration *calibration, double s_per_B, double start_s)
{
	unsigned rounds = 0;
	bool over = false;

	while (!over) {
		assert_true(rounds++ < ROUNDS_MOST);
		assert_in_range(calibration->bytes, SCHEDULE_RATES_LEAST_BYTES, SCHEDULE_RATES_MOST_BYTES);
		over = schedule_rates_round(
			calibration,
			(uint64_t)(1e9 * (s_per_B * (double)calibration->bytes * SCHEDULE_RATES_OPERATIONS + start_s)));
	}
	return rounds;
}

static uint64_t found(uint64_t said_Bps, double true_Bps, double busy)
{
	struct schedule_rates_calibration without, with;
	double load, expected = time_of(said_Bps, &load), s_per_B = load / true_Bps, slower;

	schedule_rates_begin(&without, time_of(0, NULL), SCHEDULE_RATES_LEAST_BYTES);
	run(&without, without.expected_s_per_B * busy, 0);
	schedule_rates_begin(&with, expected, SCHEDULE_RATES_LEAST_BYTES);
	run(&with, (s_per_B > expected ? s_per_B : expected) * busy, 0);
	slower = schedule_rates_compare(&with, &without);
	if (slower <= schedule_rates_limit(expected, without.expected_s_per_B))
		return said_Bps;
	return schedule_rates_aggregator(said_Bps, load, expected, slower);
}

static void a_aggregator_that_does_what_was_said_keeps_its_rate(void **state)
{
	(void)state;
	for (uint64_t said_Bps = 80000000; said_Bps <= 2000000000; said_Bps += 20000000) {
		assert_int_equal(found(said_Bps, (double)said_Bps, 1), said_Bps);
		assert_int_equal(found(said_Bps, (double)said_Bps * 4, 1), said_Bps);
		assert_int_equal(found(said_Bps, (double)said_Bps / 1.9, 1), said_Bps);
	}
}

static void a_slow_aggregator_has_the_rate_that_it_showed(void **state)
{
	(void)state;
	for (double part = 0.49; part > 0.001; part /= 1.3) {
		double got = (double)found(200000000, 200e6 * part, 1) / (200e6 * part);

		assert_true(got > 0.999 && got < 1.001);
	}
}

/* The same hosts carry all of it, and the service's host may be one of theirs: what slows everything is not the aggregator's. */
static void a_machine_that_is_slow_in_all_things_is_no_aggregators_fault(void **state)
{
	(void)state;
	assert_int_equal(found(200000000, 200e6, 7), 200000000);
	assert_in_range(found(200000000, 20e6, 7), 19900000, 20100000);
	/* Members faster than said prove nothing: 40e6 of 20e6 / 0.5. */
	assert_in_range(found(200000000, 20e6, 0.5), 39900000, 40100000);
}

static void nobody_said_anything_and_the_aggregator_is_slow(void **state)
{
	(void)state;
	assert_in_range(schedule_rates_aggregator(0, 4, 1e-8, 10), 39999999, 40000001);
	assert_int_equal(schedule_rates_aggregator(0, 1e-9, 1, 2), 1); /* not 0, which is "not said" */
	/* It had less to do than it can: what it showed bounds nothing above that. */
	assert_in_range(schedule_rates_aggregator(400000000, 4, 1e-8, 2), 199999999, 200000001);
}

/* What a round costs besides its bytes is less of a longer one. */
static void a_round_that_is_repeated_is_longer_if_there_is_time(void **state)
{
	struct schedule_rates_calibration calibration;
	double before;

	(void)state;
	schedule_rates_begin(&calibration, 1 / 25e6, SCHEDULE_RATES_LEAST_BYTES);
	assert_int_equal(run(&calibration, 1 / 25e6, 0.03), 1);
	before = calibration.slower;
	schedule_rates_again(&calibration);
	assert_int_equal(calibration.bytes, 2 * SCHEDULE_RATES_LEAST_BYTES);
	assert_int_equal(run(&calibration, 1 / 25e6, 0.03), 1);
	assert_true(calibration.slower < before && calibration.slower > 1);
	run(&calibration, 10 / 25e6, 0);
	schedule_rates_again(&calibration);
	assert_int_equal(calibration.bytes, 2 * SCHEDULE_RATES_LEAST_BYTES);
	schedule_rates_begin(&calibration, 1 / 50e9, SCHEDULE_RATES_LEAST_BYTES);
	run(&calibration, 1 / 50e9, 0);
	schedule_rates_again(&calibration);
	assert_int_equal(calibration.bytes, SCHEDULE_RATES_MOST_BYTES);
}

/* Every host sums two segments in a round, or one where there are many. */
static void a_round_has_work_for_every_host(void **state)
{
	static const uint64_t rates_Bps[] = { 6250000, 25000000, 125000000, 1250000000, UINT64_C(12500000000) };

	(void)state;
	for (size_t i = 0; i < sizeof(rates_Bps) / sizeof(rates_Bps[0]); i++) {
		size_t segment_bytes = schedule_segment_least_bytes(rates_Bps[i]);

		for (size_t hosts = 2; hosts <= 64; hosts++) {
			size_t bytes = schedule_rates_least_bytes(hosts, segment_bytes);

			assert_in_range(bytes, SCHEDULE_RATES_LEAST_BYTES, SCHEDULE_RATES_MOST_BYTES);
			assert_true(bytes / segment_bytes * SCHEDULE_RATES_OPERATIONS >= hosts);
		}
	}
	/* A card of 1 Gbit/s: one operation was one segment, and four of 64 hosts summed. */
	assert_int_equal(schedule_rates_least_bytes(64, 125000), 2 * 64 * 125000 / 4 / 4096 * 4096);
}

/* Beyond the limit it is lowered only if members alone are as fast, or nearly. */
static void a_aggregator_with_which_it_is_faster_keeps_its_rate(void **state)
{
	(void)state;
	assert_true(fabs(schedule_rates_limit(1, 1) - LIMIT) < 1e-9);
	assert_true(fabs(schedule_rates_limit(1, 1.75) - LIMIT) < 1e-9);
	assert_true(fabs(schedule_rates_limit(1, 7) - 6.3) < 1e-9);
	assert_true(fabs(schedule_rates_limit(0, 7) - LIMIT) < 1e-9);
}

static unsigned heard(struct schedule_rates_decision *decision, const double *slower, size_t count)
{
	*decision = (struct schedule_rates_decision){ .limit = LIMIT };
	for (size_t i = 0; i < count; i++)
		if (schedule_rates_hear(decision, slower[i]))
			return (unsigned)i + 1;
	return 0;
}

static void who_seems_slow_is_heard_again(void **state)
{
	static const double good[] = { 1, 1.8 }, cold[] = { 30, 1.7 }, slow[] = { 10, 10, 10.5, 9.9, 10, 11, 10 };
	static const double disturbed[] = { 1, 4, 6, 5, 9, 5, 1.9 }, ramp[] = { 27, 16, 8.4, 5.1, 3, 2.3, 2.2, 1.7 };
	static const double better[] = { 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2 };
	struct schedule_rates_decision decision;

	(void)state;
	assert_int_equal(heard(&decision, good, 2), 2);
	assert_int_equal(heard(&decision, cold, 2), 2);
	assert_true(decision.slower > 1 && decision.slower <= LIMIT);
	assert_int_equal(heard(&decision, slow, 7), 7);
	assert_true(decision.slower > 9.8 && decision.slower < 10);
	assert_int_equal(heard(&decision, disturbed, 7), 7);
	assert_true(decision.slower <= LIMIT);
	assert_int_equal(heard(&decision, ramp, 8), 7); /* it has stopped getting better */
	assert_true(decision.slower > 2.1 && decision.slower < 2.3);
	/* Better and better, but not for ever. */
	assert_int_equal(heard(&decision, better, 12), 11);
	assert_true(decision.slower > 3.9);
}

/* The time for it was over: a lost packet must not cost an aggregator that is as said. */
static void what_ends_early_must_say_more(void **state)
{
	static const double cold[] = { 30 }, odd[] = { 3, 2.6 }, odder[] = { 3, 2.6, 2.4, 3.9, 2.5 },
			    slow[] = { 30, 10 };
	static const double sure[] = { 3, 2.6, 2.4, 2.5, 2.6, 2.5, 2.6 };
	struct schedule_rates_decision decision;

	(void)state;
	heard(&decision, cold, 1);
	assert_true(schedule_rates_slower(&decision) == 1);
	heard(&decision, odd, 2);
	assert_true(schedule_rates_slower(&decision) == 1);
	heard(&decision, odder, 5);
	assert_true(schedule_rates_slower(&decision) == 1);
	heard(&decision, slow, 2);
	assert_true(schedule_rates_slower(&decision) == 10);
	assert_int_equal(heard(&decision, sure, 7), 7);
	assert_true(schedule_rates_slower(&decision) == 2.4);
}

static void rounds_grow_until_they_say_something(void **state)
{
	struct schedule_rates_calibration calibration;

	(void)state;
	/* 10 Gbit/s: the first round is short, and the next one long enough. */
	schedule_rates_begin(&calibration, 1 / 1.25e9, SCHEDULE_RATES_LEAST_BYTES);
	assert_int_equal(run(&calibration, 1 / 1.25e9, 0), 2);
	assert_in_range(calibration.time_ns, 10000000, 25000000);
	/* 400 Gbit/s: as long as there is memory for. */
	schedule_rates_begin(&calibration, 1 / 50e9, SCHEDULE_RATES_LEAST_BYTES);
	run(&calibration, 1 / 50e9, 0);
	assert_int_equal(calibration.bytes, SCHEDULE_RATES_MOST_BYTES);
	/* An aggregator at a hundredth of its rate: not a longer one than the first. */
	schedule_rates_begin(&calibration, 1 / 1.25e9, SCHEDULE_RATES_LEAST_BYTES);
	assert_int_equal(run(&calibration, 100 / 1.25e9, 0), 1);
	assert_true(calibration.slower > 99 && calibration.slower < 101 && calibration.time_ns < 600000000);
	/* However odd the time. */
	schedule_rates_begin(&calibration, 1e300, SCHEDULE_RATES_LEAST_BYTES);
	assert_int_equal(calibration.bytes, SCHEDULE_RATES_LEAST_BYTES);
	assert_true(schedule_rates_round(&calibration, UINT64_MAX));
	schedule_rates_begin(&calibration, 1e-300, SCHEDULE_RATES_LEAST_BYTES);
	assert_int_equal(calibration.bytes, SCHEDULE_RATES_MOST_BYTES);
	assert_true(schedule_rates_round(&calibration, 0));
	assert_true(calibration.slower > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_aggregator_that_does_what_was_said_keeps_its_rate),
		cmocka_unit_test(a_slow_aggregator_has_the_rate_that_it_showed),
		cmocka_unit_test(a_machine_that_is_slow_in_all_things_is_no_aggregators_fault),
		cmocka_unit_test(nobody_said_anything_and_the_aggregator_is_slow),
		cmocka_unit_test(a_round_that_is_repeated_is_longer_if_there_is_time),
		cmocka_unit_test(a_aggregator_with_which_it_is_faster_keeps_its_rate),
		cmocka_unit_test(a_round_has_work_for_every_host),
		cmocka_unit_test(who_seems_slow_is_heard_again),
		cmocka_unit_test(what_ends_early_must_say_more),
		cmocka_unit_test(rounds_grow_until_they_say_something),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
