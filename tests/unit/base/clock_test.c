#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <time.h>

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void clock_is_the_monotonic_one(void **state)
{
	uint64_t before = monotonic_ns(), now = clock_now_ns(), after = monotonic_ns();

	(void)state;
	assert_in_range(now, before, after);
}

static void fake_clock_stands_until_the_test_moves_it(void **state)
{
	uint64_t now_ns = 5;

	(void)state;
	clock_set_fake(&now_ns);
	assert_int_equal(clock_now_ns(), 5);
	assert_int_equal(clock_now_ns(), 5);
	now_ns += 3 * NS_PER_S;
	assert_int_equal(clock_now_ns(), 3 * NS_PER_S + 5);
	clock_set_fake(NULL);
	assert_true(clock_now_ns() != 3 * NS_PER_S + 5);
}

static void time_in_which_nobody_looked_is_no_silence(void **state)
{
	(void)state;
	/* Looked for as often as it should be: since it was heard. */
	assert_int_equal(clock_heard_ns(100, 190, 200, 10), 100);
	assert_int_equal(clock_heard_ns(100, 200, 200, 10), 100);
	assert_int_equal(clock_heard_ns(100, 201, 200, 10), 100);
	/* Not for 60, of which 10 are as always. */
	assert_int_equal(clock_heard_ns(100, 140, 200, 10), 150);
	/* Never later than now: it was heard when we last looked. */
	assert_int_equal(clock_heard_ns(195, 100, 200, 10), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clock_is_the_monotonic_one),
		cmocka_unit_test(fake_clock_stands_until_the_test_moves_it),
		cmocka_unit_test(time_in_which_nobody_looked_is_no_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
