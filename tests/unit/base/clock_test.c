/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
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

static void *read_until_five(void *arg)
{
	atomic_bool *reads = arg;

	do {
		(void)clock_now_ns();
		atomic_store_explicit(reads, true, memory_order_relaxed);
	} while (clock_now_ns() != 5);
	return NULL;
}

/* For ThreadSanitizer: what the clock was set to before it took the real one's place, in a thread that runs already. */
static void fake_clock_takes_over_while_a_thread_reads(void **state)
{
	atomic_bool reads = false;
	uint64_t now_ns;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, read_until_five, &reads), 0);
	while (!atomic_load_explicit(&reads, memory_order_relaxed))
		sched_yield();
	now_ns = 5;
	clock_set_fake(&now_ns);
	assert_int_equal(pthread_join(thread, NULL), 0);
	clock_set_fake(NULL);
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
		cmocka_unit_test(fake_clock_takes_over_while_a_thread_reads),
		cmocka_unit_test(time_in_which_nobody_looked_is_no_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
