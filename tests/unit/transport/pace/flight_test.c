/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/pace/flight.h"

#define LEAST PACE_FLIGHT_LEAST_BYTES
#define EPOCH PACE_FLIGHT_EPOCH_NS

enum { RATE_BPS = 125000000, PATH_NS = 100000 };

static uint64_t bytes_of(const struct pace_flight *flight)
{
	return pace_flight_bytes(flight, pace_flight_port_bytes(RATE_BPS), RATE_BPS, PATH_NS);
}

static void nobody_and_one_sender_have_no_bound(void **state)
{
	struct pace_flight flight = { 0 };

	(void)state;
	assert_int_equal(bytes_of(&flight), 0);
	pace_flight_note(&flight, 1, 5);
	assert_int_equal(bytes_of(&flight), 0);
}

static void several_share_what_the_path_and_a_small_buffer_hold(void **state)
{
	struct pace_flight flight = { 0 };

	(void)state;
	pace_flight_note(&flight, 4, 1);
	assert_int_equal(bytes_of(&flight), LEAST / 4);
	/* 12.5 GB/s × 50 us × 2, or × 200 us at a port that is known to be as fast. */
	assert_int_equal(pace_flight_port_bytes(0), LEAST);
	assert_int_equal(pace_flight_bytes(&flight, LEAST, 12500000000, 50000), 1250000 / 4);
	assert_int_equal(pace_flight_port_bytes(12500000000), 2500000);
	assert_int_equal(pace_flight_bytes(&flight, 2500000, 12500000000, 50000), 2500000 / 4);
	pace_flight_note(&flight, 8, 2);
	assert_int_equal(bytes_of(&flight), LEAST / 8);
}

static void stragglers_do_not_open_the_window(void **state)
{
	struct pace_flight flight = { 0 };

	(void)state;
	pace_flight_note(&flight, 4, EPOCH);
	pace_flight_note(&flight, 1, EPOCH + 1);
	assert_int_equal(bytes_of(&flight), LEAST / 4);
	pace_flight_note(&flight, 1, 2 * EPOCH);
	assert_int_equal(bytes_of(&flight), LEAST / 4);
	pace_flight_note(&flight, 2, 3 * EPOCH - 1);
	pace_flight_note(&flight, 1, 3 * EPOCH);
	assert_int_equal(bytes_of(&flight), LEAST / 2);
	pace_flight_note(&flight, 1, 4 * EPOCH);
	assert_int_equal(bytes_of(&flight), 0);
}

static void a_rest_forgets_nothing(void **state)
{
	struct pace_flight flight = { 0 };

	(void)state;
	pace_flight_note(&flight, 4, EPOCH);
	for (unsigned i = 2; i < 100; i++)
		pace_flight_note(&flight, 0, i * EPOCH);
	pace_flight_note(&flight, 1, 100 * EPOCH);
	assert_int_equal(bytes_of(&flight), LEAST / 4);
	pace_flight_note(&flight, 1, 101 * EPOCH);
	assert_int_equal(bytes_of(&flight), 0);
}

/* The kernel acknowledges at once whatever leaves it a window as large as the last: each has to be smaller. */
static void after_early_reads_each_is_smaller_than_the_last(void **state)
{
	const uint64_t bound = 64 << 10, grain = 1 << 10;
	uint64_t told = bound;
	unsigned rises = 0;

	(void)state;
	for (unsigned reads = 0; reads < 170; reads++) {
		uint64_t next = pace_flight_tell_bytes(bound, told, grain, bound / 8 * 7);

		assert_true(next <= bound && next >= bound - bound / 4);
		assert_true(next == bound || next == told - grain);
		rises += next > told;
		told = next;
	}
	assert_int_equal(rises, 10); /* 16 steps down, one up */
}

static void after_a_late_read_all_is_open(void **state)
{
	(void)state;
	assert_int_equal(pace_flight_tell_bytes(65536, 60000, 1024, 57345), 65536);
	assert_int_equal(pace_flight_tell_bytes(65536, 65536, 1024, 57345), 65536);
}

static void windows_that_cannot_show_the_step_stay(void **state)
{
	(void)state;
	assert_int_equal(pace_flight_tell_bytes(2896, 2896, 1024, 100), 2896);
	assert_int_equal(pace_flight_tell_bytes(UINT64_MAX, UINT64_MAX, 16384, 100), UINT64_MAX - 16384);
	assert_int_equal(pace_flight_tell_bytes(4096, 65536, 1024, 100), 4096); /* the bound has become smaller */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_and_one_sender_have_no_bound),
		cmocka_unit_test(after_early_reads_each_is_smaller_than_the_last),
		cmocka_unit_test(after_a_late_read_all_is_open),
		cmocka_unit_test(windows_that_cannot_show_the_step_stay),
		cmocka_unit_test(several_share_what_the_path_and_a_small_buffer_hold),
		cmocka_unit_test(stragglers_do_not_open_the_window),
		cmocka_unit_test(a_rest_forgets_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
