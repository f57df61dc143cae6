/* SPDX-License-Identifier: Apache-2.0 */
/* When movers are at work: the rule is played processes that gain by them, lose, or have no need. */
#include "transport/tcp/movers_rule.h"

#include "base/clock.h"
#include "support/random.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { WINDOWS_A_SECOND = 50 };

/* A process that polls on one thread, as the rule sees it: what its calls take, and what it carries with movers and without. */
struct played {
	struct tcp_movers_rule rule;
	uint64_t now_ns, random;
	double noise;
	double share, share_with; /* of the thread's time in calls; of all, with movers */
	double rate, rate_with;
	uintptr_t thread;
	unsigned on; /* windows in which movers were at work */
};

static double noisy(struct played *p, double value)
{
	return value * (1 + p->noise * ((double)random_below(&p->random, 2001) / 1000 - 1));
}

static bool window(struct played *p)
{
	const bool with = p->rule.state == TCP_MOVERS_TRIAL || p->rule.state == TCP_MOVERS_ON;
	const double polled_ns = (double)TCP_MOVERS_WINDOW_NS;
	struct tcp_movers_window window = { .thread = p->thread, .polled_ns = TCP_MOVERS_WINDOW_NS };

	p->now_ns += TCP_MOVERS_WINDOW_NS;
	window.now_ns = p->now_ns;
	window.time.bytes = (uint64_t)noisy(p, (with ? p->rate_with : p->rate) * polled_ns);
	if (with)
		window.time.movers_ns = (uint64_t)(p->share_with * polled_ns);
	else
		window.time.calls_ns = (uint64_t)noisy(p, p->share * polled_ns);
	with ? p->on++ : 0;
	return tcp_movers_step(&p->rule, &window);
}

static void play(struct played *p, unsigned windows)
{
	p->on = 0;
	for (unsigned i = 0; i < windows; i++)
		window(p);
}

static struct played played(double share, double rate, double rate_with)
{
	return (struct played){ .now_ns = NS_PER_S, .random = runtime_seed(), .share = share, .share_with = 2.5, .rate = rate,
				.rate_with = rate_with, .thread = 1 };
}

static void a_thread_with_time_left_starts_none(void **state)
{
	struct played p = played(0.6, 1, 4);

	(void)state;
	p.noise = 0.1;
	play(&p, 60 * WINDOWS_A_SECOND);
	assert_int_equal(p.on, 0);
}

/* But one in a hundred, where noise hides it. */
static void what_brings_something_is_there_soon_and_stays(void **state)
{
	unsigned late = 0, left = 0;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		struct played p = played(0.95, 1, 1.3 + i % 20 * 0.1);

		p.random += i;
		p.noise = 0.1 * (i % 3);
		play(&p, WINDOWS_A_SECOND);
		late += p.on <= WINDOWS_A_SECOND * 3 / 4 || p.rule.state != TCP_MOVERS_ON;
		play(&p, 60 * WINDOWS_A_SECOND); /* less its checks */
		left += p.on <= 59 * WINDOWS_A_SECOND;
	}
	assert_in_range(late, 0, 2);
	assert_in_range(left, 0, 2);
}

/* No more than a second each time, and rarely later. */
static void what_brings_nothing_is_gone_after_a_second(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		struct played p = played(0.95, 1, 0.9 + i % 10 * 0.01);
		unsigned longest = 0, now = 0;

		p.random += i;
		p.noise = 0.05 * (i % 3);
		p.on = 0;
		for (unsigned k = 0; k < 60 * WINDOWS_A_SECOND; k++) {
			now = window(&p) ? now + 1 : 0;
			longest = now > longest ? now : longest;
		}
		assert_in_range(longest, 1, WINDOWS_A_SECOND);
		assert_true(p.on <= 7 * WINDOWS_A_SECOND);
	}
}

/* What came before the trial was slow for another reason, or nothing at all. */
static void a_wrong_base_is_found_out(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct played p = played(0.95, i % 2 ? 0.3 : 0, 0.8);

		play(&p, 5 + i % 3);
		p.rate = 1;
		play(&p, 60 * WINDOWS_A_SECOND);
		assert_int_not_equal(p.rule.state, TCP_MOVERS_ON);
		assert_true(p.on < 8 * WINDOWS_A_SECOND);
	}
}

/* A neighbour that took the cores has gone, or come: seen within ten seconds. */
static void what_brings_nothing_any_more_ends(void **state)
{
	struct played p = played(0.95, 1, 2);

	(void)state;
	play(&p, WINDOWS_A_SECOND);
	assert_int_equal(p.rule.state, TCP_MOVERS_ON);
	p.rate = 2.5;
	play(&p, 11 * WINDOWS_A_SECOND);
	assert_int_not_equal(p.rule.state, TCP_MOVERS_ON);
}

static void what_makes_it_worse_ends_before(void **state)
{
	struct played p = played(0.95, 1, 0.5);

	(void)state;
	play(&p, WINDOWS_A_SECOND);
	assert_in_range(p.on, 1, 12);
}

/* Two threads by turns: of neither a trial ends, which counts as a failure. */
static void a_trial_that_nobody_ends_has_failed(void **state)
{
	struct played p = played(0.95, 1, 0.5);
	unsigned on = 0;

	(void)state;
	for (unsigned i = 0; i < 90; i++) {
		p.thread = 1 + i % 2;
		play(&p, 8);
		on += p.on;
		p.now_ns += 2 * NS_PER_S;
	}
	assert_true(on < 100);
}

/* The peer's movers begin half a second later, and without them it takes no more. */
static void the_peer_may_begin_later(void **state)
{
	struct played p = played(0.95, 1, 1);

	(void)state;
	play(&p, WINDOWS_A_SECOND / 2);
	assert_int_equal(p.rule.state, TCP_MOVERS_TRIAL);
	p.rate_with = 2;
	play(&p, WINDOWS_A_SECOND * 3 / 4);
	assert_int_equal(p.rule.state, TCP_MOVERS_ON);
}

static void they_end_when_one_thread_is_enough_again(void **state)
{
	struct played p = played(0.95, 1, 2);

	(void)state;
	play(&p, WINDOWS_A_SECOND);
	assert_int_equal(p.rule.state, TCP_MOVERS_ON);
	p.share_with = 0.4;
	p.share = 0.4;
	play(&p, WINDOWS_A_SECOND / 2);
	assert_int_equal(p.rule.state, TCP_MOVERS_ON);
	play(&p, WINDOWS_A_SECOND);
	assert_int_equal(p.rule.state, TCP_MOVERS_OFF);
	p.share = 0.95;
	p.share_with = 2.5;
	play(&p, WINDOWS_A_SECOND / 2); /* without a hold */
	assert_int_equal(p.rule.state, TCP_MOVERS_ON);
}

/* Others' windows judge nothing, and when the one that is judged has ended another one is. */
static void one_thread_is_judged(void **state)
{
	struct played p = played(0.95, 1, 2), idle = played(0.1, 0.1, 0.1);

	(void)state;
	idle.thread = 2;
	for (unsigned i = 0; i < WINDOWS_A_SECOND / 2; i++) {
		window(&p);
		idle.rule = p.rule;
		idle.now_ns = p.now_ns - TCP_MOVERS_WINDOW_NS;
		idle.share_with = 0.1;
		window(&idle);
		p.rule = idle.rule;
	}
	assert_int_equal(p.rule.state, TCP_MOVERS_ON);
	p = played(0.95, 1, 2);
	play(&p, 3);
	p.thread = 3;
	play(&p, 2 * WINDOWS_A_SECOND);
	assert_int_equal(p.rule.state, TCP_MOVERS_ON);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_with_time_left_starts_none),
		cmocka_unit_test(what_brings_something_is_there_soon_and_stays),
		cmocka_unit_test(what_brings_nothing_is_gone_after_a_second),
		cmocka_unit_test(a_wrong_base_is_found_out),
		cmocka_unit_test(what_brings_nothing_any_more_ends),
		cmocka_unit_test(what_makes_it_worse_ends_before),
		cmocka_unit_test(a_trial_that_nobody_ends_has_failed),
		cmocka_unit_test(the_peer_may_begin_later),
		cmocka_unit_test(they_end_when_one_thread_is_enough_again),
		cmocka_unit_test(one_thread_is_judged),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
