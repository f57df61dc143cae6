/* SPDX-License-Identifier: Apache-2.0 */
#include "life.h"

#include "base/params.h"
#include "support/link.h"
#include "support/runtime.h"
#include "support/traffic.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef TRIBUTARY_FAULTS

#define FAULTS_MAX  16
#define RUN_MS      30000 /* one run; the time-out is 1 s, and several may come one after the other */
#define MAX_NTH     20000
#define SPARSE_FROM 300 /* polling makes thousands of reads and writes that are all alike: from here on, one in some */

enum { PAIRS = 60, PAIRS_LONG = 600, PAIRS_NTH = 500 };

extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

enum { SHAPES = 3, TRAFFIC_MS = 30000 };

static const struct traffic_shape shapes[SHAPES] = {
	{ .name = "eager", .messages = 6, .max_bytes = 300, .window = 4 },
	{ .name = "announced", .messages = 3, .min_bytes = 400000, .window = 2 },
	{ .name = "grouped", .messages = 12, .max_bytes = 60000, .group_max = 4, .shuffled = true, .window = 4 },
};

/* Of the run; cmocka's fixtures take one argument. */
static int (*run_now)(uint64_t seed);
static const struct life_fault *faults_now;
static unsigned faults_count;
static const struct transport_ops *ops_now;
static const struct params *params_now;

/* After a fault the buffers are in use until the link is closed. */
struct traffic {
	struct traffic_plan plans[SHAPES];
	struct traffic_end ends[2 * SHAPES];
};

static void traffic_free(struct traffic *traffic)
{
	for (size_t i = 0; traffic && i < 2 * SHAPES; i++)
		traffic_end_fini(&traffic->ends[i]);
	for (size_t i = 0; traffic && i < SHAPES; i++)
		traffic_plan_fini(&traffic->plans[i]);
	free(traffic);
}

static int transfers(struct link *link, uint64_t seed, struct traffic *traffic)
{
	int r = 0;

	for (size_t i = 0; i < SHAPES && r == 0; i++) {
		struct traffic_plan *plan = &traffic->plans[i];

		r = traffic_plan_init(&shapes[i], seed + i, TRANSPORT_MAX_RECVS, plan);
		if (r < 0)
			break;
		traffic_end_init(&traffic->ends[2 * i], link->ops, link->sender, plan, true);
		traffic_end_init(&traffic->ends[2 * i + 1], link->ops, link->receiver, plan, false);
		r = traffic_run_both(&traffic->ends[2 * i], &traffic->ends[2 * i + 1], TRAFFIC_MS);
	}
	return r;
}

/* 0, or the first error. */
static int life(uint64_t seed)
{
	struct transport_properties properties;
	struct transport *transport = NULL;
	struct link link;
	struct traffic *traffic = calloc(1, sizeof(*traffic));
	int r = traffic ? ops_now->open(params_now, &transport) : -ENOMEM;

	if (r < 0) {
		free(traffic);
		return r;
	}
	memset(&link, 0, sizeof(link));
	r = ops_now->device_count(transport);
	if (r == 0)
		r = -ENODEV;
	if (r > 0)
		r = ops_now->device_properties(transport, 0, &properties);
	if (r == 0)
		r = link_open(ops_now, transport, 0, &link);
	if (r == 0)
		r = transfers(&link, seed, traffic);
	link_close(&link);
	traffic_free(traffic);
	ops_now->close(transport);
	return r;
}

static void check_run(const struct life_fault *fault, uint64_t nth, int r, uint64_t took_ms, unsigned fds)
{
	if (r == -ETIMEDOUT || took_ms > RUN_MS * (runtime_sanitized() ? 4u : 1u))
		fail_msg("%s %" PRIu64 " fails with %s: hangs", fault->name, nth, strerror(fault->error));
	if (r == -EBADMSG)
		fail_msg("%s %" PRIu64 " fails with %s: wrong data", fault->name, nth, strerror(fault->error));
	if (runtime_fd_count() != fds)
		fail_msg("%s %" PRIu64 " fails with %s: %u descriptors before, %u after", fault->name, nth,
			 strerror(fault->error), fds, runtime_fd_count());
}

static void every_call_may_fail(void **state)
{
	const struct life_fault *fault = *state;
	unsigned errors = 0, recovered = 0, fds = runtime_fd_count();
	uint64_t nth = 1, step = 1;
	uint64_t random = runtime_seed();
	int r;

	for (bool met = true; met && nth < MAX_NTH; nth += step) {
		uint64_t began_ns = runtime_now_ns();

		sys_fault_set(fault->kind, nth, fault->error);
		r = run_now(runtime_seed() + nth);
		met = sys_fault_calls(fault->kind) >= nth;
		sys_fault_set(fault->kind, 0, 0);
		check_run(fault, nth, r, (runtime_now_ns() - began_ns) / 1000000, fds);
		/* The time-outs are short: a busy machine may miss one. */
		for (unsigned i = 0; !met && r < 0; i++) {
			if (i == 3)
				fail_msg("without a fault: %d", r);
			r = run_now(runtime_seed() + nth + i);
		}
		if (r < 0)
			print_message("%s %" PRIu64 ": error %d\n", fault->name, nth, r);
		errors += r < 0;
		recovered += met && r == 0;
		if (nth >= SPARSE_FROM)
			step = 1 + random_below(&random, nth / 10);
	}
	print_message("%s: %u errors, %u recovered, up to call %" PRIu64 "\n", fault->name, errors, recovered, nth - 1);
	assert_true(errors + recovered > 0);
	if (__lsan_do_recoverable_leak_check)
		assert_int_equal(__lsan_do_recoverable_leak_check(), 0);
}

/* The last call that a pair is looked for in; each power of two as likely as the next. */
static uint64_t random_nth(uint64_t *random, uint64_t most)
{
	uint64_t bound = 1;

	while (bound < most && random_below(random, 10))
		bound *= 2;
	return 1 + random_below(random, bound);
}

/* What makes one fault good may meet the other. */
static void two_calls_may_fail(void **state)
{
	unsigned errors = 0, recovered = 0, fds = runtime_fd_count();
	const unsigned pairs = runtime_long() ? PAIRS_LONG : PAIRS;
	uint64_t random = runtime_seed() ^ 0x7fa175;

	(void)state;
	for (unsigned i = 0; i < pairs; i++) {
		const struct life_fault *first = &faults_now[random_below(&random, faults_count)];
		const struct life_fault *second = &faults_now[random_below(&random, faults_count)];
		const uint64_t nth = random_nth(&random, PAIRS_NTH), then = random_nth(&random, PAIRS_NTH);
		uint64_t began_ns = runtime_now_ns();
		int r;

		sys_fault_set(first->kind, nth, first->error);
		if (second->kind == first->kind)
			sys_fault_set_again(first->kind, then);
		else
			sys_fault_set(second->kind, then, second->error);
		r = run_now(runtime_seed() + i);
		sys_fault_set(first->kind, 0, 0);
		sys_fault_set(second->kind, 0, 0);
		if (r == -ETIMEDOUT || r == -EBADMSG)
			print_message("beside %s %" PRIu64 ":\n", second->name, then);
		check_run(first, nth, r, (runtime_now_ns() - began_ns) / 1000000, fds);
		errors += r < 0;
		recovered += r == 0;
	}
	print_message("pairs: %u errors, %u recovered\n", errors, recovered);
	assert_true(errors > 0);
	if (__lsan_do_recoverable_leak_check)
		assert_int_equal(__lsan_do_recoverable_leak_check(), 0);
}

int life_run_with_faults(int (*run)(uint64_t seed), struct life_fault *faults, unsigned count)
{
	struct CMUnitTest tests[FAULTS_MAX + 1];
	const char *filter = runtime_setting("TEST_FILTER");

	run_now = run;
	faults_now = faults;
	faults_count = count;
	for (unsigned i = 0; i < count; i++)
		tests[i] = (struct CMUnitTest){ .name = faults[i].name,
						.test_func = every_call_may_fail,
						.initial_state = &faults[i] };
	tests[count++] = (struct CMUnitTest)cmocka_unit_test(two_calls_may_fail);
	if (filter)
		cmocka_set_test_filter(filter);
	return _cmocka_run_group_tests("faults", tests, count, NULL, NULL);
}

int life_of(const struct transport_ops *ops, const struct params *params, uint64_t seed)
{
	ops_now = ops;
	params_now = params;
	return life(seed);
}

int life_with_faults(const struct transport_ops *ops, const struct params *params, struct life_fault *faults,
		     unsigned count)
{
	ops_now = ops;
	params_now = params;
	return life_run_with_faults(life, faults, count);
}

#else

int life_skipped(void)
{
	fprintf(stderr, "skipped: built without FAULTS=1\n");
	return 77;
}

#endif
