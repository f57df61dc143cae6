/* SPDX-License-Identifier: Apache-2.0 */
/* Coordinator and workers, as threads of one process on the loopback interface: who comes, who does not, who goes. */
#include "clusterprobe/clusterprobe.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/parallel.h"
#include "support/port.h"

static const struct control_secret right = { .bytes = "0123456789abcdef", .count = 16 };
static const struct control_secret wrong = { .bytes = "0123456789abcdeF", .count = 16 };
static _Atomic bool never, now;

/* As a signal does it: at any time, in any thread. */
__attribute__((no_sanitize("thread"))) static void interrupt(void)
{
	now = true;
}

struct one {
	struct clusterprobe_setup setup;
	struct diag diag;
	pthread_t thread;
	int result;
};

static void *run_worker(void *arg)
{
	struct one *one = arg;

	one->result = clusterprobe_worker_run(&one->setup, &one->diag);
	return NULL;
}

static struct clusterprobe_setup setup_of(uint32_t rank, uint32_t size, uint16_t port, uint64_t timeout_ns)
{
	struct clusterprobe_setup setup = {
		.launch = { .rank = rank, .size = size, .address = "127.0.0.1", .port = port },
		.secret = &right,
		.timeout_ns = timeout_ns,
		.stop = &never
	};

	snprintf(setup.name, sizeof(setup.name), "host%u", rank);
	return setup;
}

static void start(struct one *one)
{
	assert_int_equal(sys_thread_start(run_worker, one, "one", &one->thread), 0);
}

static const struct clusterprobe_options options = { .round_ms = 50, .streams = 2, .limit_Bps = 50000000, .seed = 1 };

/* Four ranks on three hosts: the second of a host is sent home; no link is narrow. */
static void a_clusterprobe_measures_and_goes_home(void **state)
{
	uint16_t port = port_free();
	struct one workers[3];
	struct clusterprobe_setup setup = setup_of(0, 4, port, 80 * NS_PER_S);
	struct clusterprobe_result result = { 0 };
	struct diag diag = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		workers[i] = (struct one){ .setup = setup_of(i + 1, 4, port, 80 * NS_PER_S) };
		if (i == 2)
			strcpy(workers[i].setup.name, "host1");
		start(&workers[i]);
	}
	if (clusterprobe_coordinator_run(&setup, &options, &result, &diag) < 0)
		fail_msg("%s", diag.text);
	for (size_t i = 0; i < 3; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].result < 0)
			fail_msg("%s", workers[i].diag.text);
	}
	assert_int_equal(result.host_count, 3);
	assert_string_equal(result.names[0], "host0");
	assert_string_equal(result.names[2], "host2");
	assert_int_equal(result.latency_count, 6);
	assert_true(result.latencies[0].least_ns > 0 && result.latencies[0].least_ns <= result.latencies[0].median_ns);
	assert_true(result.fabric.round_count > 0);
	assert_true(result.fabric.median_Bps > 0);
	/*
	 * What the receivers' kernels counted: the loopback interface carries a hundred times as much, a paced connection
	 * goes by segments of 64 KB there, of which a window of 30 ms has some more or less, on a busy machine.
	 */
	for (size_t i = 0; i < 3; i++)
		if (result.fabric.hosts[i].out_Bps > 8 * (double)options.limit_Bps)
			fail_msg("host %zu sent %g bytes/s", i, result.fabric.hosts[i].out_Bps);
	clusterprobe_result_fini(&result);
}

static void stop_at_the_third_round(size_t round, size_t of, void *arg)
{
	(void)of;
	*(size_t *)arg = round;
	if (round == 3)
		interrupt();
}

/* As Ctrl-C on rank 0 does it, while rounds are going on: it ends there, and whoever takes part is told why. */
static void an_interrupted_coordinator_sends_all_home(void **state)
{
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 3, port, 80 * NS_PER_S);
	struct one workers[2] = { { .setup = setup_of(1, 3, port, 80 * NS_PER_S) },
				  { .setup = setup_of(2, 3, port, 80 * NS_PER_S) } };
	struct clusterprobe_options watched = options;
	struct clusterprobe_result result;
	struct diag diag = { 0 };
	size_t last = 0;

	(void)state;
	now = false;
	setup.stop = &now;
	watched.progress = stop_at_the_third_round;
	watched.progress_arg = &last;
	for (size_t i = 0; i < 2; i++)
		start(&workers[i]);
	assert_int_equal(clusterprobe_coordinator_run(&setup, &watched, &result, &diag), -EINTR);
	assert_string_equal(diag.text, "interrupted");
	assert_in_range(last, 3, 4);
	for (size_t i = 0; i < 2; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].result, -ECANCELED);
		assert_string_equal(workers[i].diag.text, "rank 0 ended it: interrupted");
	}
	now = false;
}

/* What passes in these tests, as somebody is missing: time enough for those who come, on a busy machine too. */
#define MISSED_NS (4 * NS_PER_S)
#define MOST_NS   (80 * NS_PER_S)

static void who_does_not_come_is_named(void **state)
{
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 3, port, MISSED_NS);
	struct one worker = { .setup = setup_of(1, 3, port, MISSED_NS) };
	struct clusterprobe_result result;
	struct diag diag = { 0 };

	(void)state;
	start(&worker);
	assert_int_equal(clusterprobe_coordinator_run(&setup, &options, &result, &diag), -ETIMEDOUT);
	pthread_join(worker.thread, NULL);
	assert_non_null(strstr(diag.text, "1 of 3 ranks did not come"));
	assert_non_null(strstr(diag.text, "(2)"));
	assert_non_null(strstr(diag.text, "\"127.0.0.1\" is a loopback address on this host"));
	assert_true(worker.result < 0);
	assert_non_null(strstr(worker.diag.text, "did not come"));
}

static void another_secret_is_refused(void **state)
{
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 2, port, MISSED_NS);
	struct one worker = { .setup = setup_of(1, 2, port, MISSED_NS) };
	struct clusterprobe_result result;
	struct diag diag = { 0 };

	(void)state;
	worker.setup.secret = &wrong;
	start(&worker);
	assert_int_equal(clusterprobe_coordinator_run(&setup, &options, &result, &diag), -ETIMEDOUT);
	pthread_join(worker.thread, NULL);
	assert_true(worker.result < 0);
	assert_true(worker.result != -ETIMEDOUT);
	assert_non_null(strstr(worker.diag.text, "secret"));
}

static void one_that_goes_ends_it_for_all(void **state)
{
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 3, port, MISSED_NS);
	struct one stays = { .setup = setup_of(1, 3, port, MOST_NS) };
	struct one goes = { .setup = setup_of(2, 3, port, MOST_NS) };
	struct clusterprobe_options endless = options;
	struct clusterprobe_result result;
	struct diag diag = { 0 };

	(void)state;
	endless.round_ms = 100;
	now = false;
	goes.setup.stop = &now;
	start(&stays);
	start(&goes);
	/* It has come, or has not: both end with its name or its number. */
	interrupt();
	assert_true(clusterprobe_coordinator_run(&setup, &endless, &result, &diag) < 0);
	pthread_join(stays.thread, NULL);
	pthread_join(goes.thread, NULL);
	assert_true(stays.result < 0);
	assert_int_equal(goes.result, -EINTR);
	assert_null(strstr(diag.text, "2 of 3 ranks did not come"));
	assert_true(strstr(diag.text, "rank 2") || strstr(diag.text, "(2"));
}

static void ranks_on_one_host_are_no_cluster(void **state)
{
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 2, port, 80 * NS_PER_S);
	struct one worker = { .setup = setup_of(1, 2, port, 80 * NS_PER_S) };
	struct clusterprobe_result result;
	struct diag diag = { 0 };

	(void)state;
	strcpy(worker.setup.name, "host0");
	start(&worker);
	assert_int_equal(clusterprobe_coordinator_run(&setup, &options, &result, &diag), -EINVAL);
	pthread_join(worker.thread, NULL);
	assert_non_null(strstr(diag.text, "host0"));
}

/* Of one start of one kernel, as containers of a host are, or not: a name is no host's alone by itself. */
static void two_hosts_of_one_name_are_refused(void **state)
{
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 3, port, 80 * NS_PER_S);
	struct one workers[2] = { { .setup = setup_of(1, 3, port, 80 * NS_PER_S) },
				  { .setup = setup_of(2, 3, port, 80 * NS_PER_S) } };
	struct clusterprobe_result result = { 0 };
	struct diag diag = { 0 };

	(void)state;
	setup.boot = 7;
	workers[0].setup.boot = 8;
	workers[1].setup.boot = 9;
	strcpy(workers[1].setup.name, "host1");
	for (size_t i = 0; i < 2; i++)
		start(&workers[i]);
	assert_int_equal(clusterprobe_coordinator_run(&setup, &options, &result, &diag), -EINVAL);
	assert_string_equal(diag.text,
			    "two hosts call themselves \"host1\" (ranks 1 and 2): give each a name of its own");
	for (size_t i = 0; i < 2; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].result, -ECANCELED);
	}
}

#ifdef TRIBUTARY_FAULTS
/* Nobody else comes: the coordinator alone could wait for them for long. */
static void what_stops_the_own_worker_is_said_at_once(void **state)
{
	struct clusterprobe_setup setup = setup_of(0, 2, port_free(), MOST_NS);
	struct clusterprobe_result result = { 0 };
	struct diag diag = { 0 };

	(void)state;
	sys_fault_set(SYS_FAULT_CONNECT, 1, EACCES);
	assert_int_equal(clusterprobe_coordinator_run(&setup, &options, &result, &diag), -EACCES);
	sys_fault_set(SYS_FAULT_CONNECT, 0, 0);
	assert_non_null(strstr(diag.text, "Permission denied"));
}

/* Of a coordinator and a worker. In whichever of their threads it is that the call fails, both come to an end. */
static void run_with_fault(enum sys_fault_kind kind, uint64_t nth, uint64_t timeout_ns, bool one_host)
{
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 2, port, timeout_ns);
	struct one worker = { .setup = setup_of(1, 2, port, timeout_ns) };
	struct clusterprobe_result result = { 0 };
	struct diag diag = { 0 };
	int r;

	if (one_host)
		strcpy(worker.setup.name, "host0");
	start(&worker);
	sys_fault_set(kind, nth, kind == SYS_FAULT_MEMORY ? ENOMEM : EIO);
	r = clusterprobe_coordinator_run(&setup, &options, &result, &diag);
	pthread_join(worker.thread, NULL);
	sys_fault_set(kind, 0, 0);
	/* Every failure has a reason, in words or by its number. */
	if (r < 0 && r != -ENOMEM && r != -EIO)
		assert_true(diag.text[0]);
	if (one_host)
		assert_true(r < 0);
	else if (r == 0)
		assert_int_equal(result.host_count, 2);
	clusterprobe_result_fini(&result);
}

static void whatever_fails_at_the_meeting_all_end(void **state)
{
	(void)state;
	for (int kind = SYS_FAULT_MEMORY; kind <= SYS_FAULT_THREAD; kind++)
		for (uint64_t nth = 1; nth <= 6; nth++)
			run_with_fault((enum sys_fault_kind)kind, nth, 300 * NS_PER_MS, true);
}

static void whatever_fails_while_measuring_all_end(void **state)
{
	static const enum sys_fault_kind kinds[] = { SYS_FAULT_MEMORY, SYS_FAULT_SOCKET, SYS_FAULT_READ,
						     SYS_FAULT_WRITE, SYS_FAULT_THREAD };

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		for (uint64_t nth = 7; nth <= 200; nth *= 5)
			run_with_fault(kinds[i], nth, 2 * NS_PER_S, false);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_clusterprobe_measures_and_goes_home),
		cmocka_unit_test(an_interrupted_coordinator_sends_all_home),
		cmocka_unit_test(who_does_not_come_is_named),
		cmocka_unit_test(another_secret_is_refused),
		cmocka_unit_test(one_that_goes_ends_it_for_all),
		cmocka_unit_test(ranks_on_one_host_are_no_cluster),
		cmocka_unit_test(two_hosts_of_one_name_are_refused),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test(what_stops_the_own_worker_is_said_at_once),
		cmocka_unit_test(whatever_fails_at_the_meeting_all_end),
		cmocka_unit_test(whatever_fails_while_measuring_all_end),
#endif
	};

	return parallel_run_group_tests(tests, NULL, NULL);
}
