/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several aggregators, of which one is lost, or not reached; ones that are told to end; and several groups, one after another:
 * who stays, and who gets a place.
 */
#include "aggregate/aggregators.h"
#include "aggregate/group.h"
#include "blow.h"
#include "host_harness.h"
#include "support/log_lines.h"
#include "support/port.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREE = 3, OPERATIONS = 40, BLOW_AT = 5, COUNT = 200000, TIMEOUT_S = 60, DRAIN_S = 180 };
#define DRAIN "--drain 180"

static struct host_harness hosts[THREE];

/* Over the aggregators, one on each of the first leaves. */
static void open_group(struct harness *harness, const char *leaves, size_t aggregator_count)
{
	static struct cluster_aggregator aggregators[THREE];
	struct params params;

	memset(harness, 0, sizeof(*harness));
	group_harness_params(&params);
	params.aggregate_measure = false;
	snprintf(params.secret, sizeof(params.secret), "%s", host_harness_secret_path);
	assert_int_equal(group_harness_gather(harness, &params, leaves), 0);
	for (size_t i = 0; i < aggregator_count; i++)
		aggregators[i] = (struct cluster_aggregator){
			.address = "127.0.0.1", .port = hosts[i].port, .leaf = (int)i, .rate_Bps = UINT64_C(1250000000)
		};
	group_harness_slow_hosts(harness);
	harness->cluster.aggregators = aggregators;
	harness->cluster.aggregator_count = aggregator_count;
	assert_int_equal(group_harness_connect(harness), 0);
}

static size_t aggregators_of(const struct harness *harness)
{
	struct aggregate_facts facts;

	aggregate_facts(harness->members[0].group, &facts);
	return facts.aggregators;
}

/* Sums of ones on all members, to the end. */
static void reduce(struct harness *harness, const float *ones, float *const *results)
{
	struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };

	for (size_t m = 0; m < harness->count; m++)
		assert_int_equal(group_harness_reduce(&harness->members[m], ones, results[m], COUNT, REDUCE_FLOAT32,
						      REDUCE_SUM, &requests[m]),
				 0);
	assert_int_equal(group_harness_finish(harness, requests), 0);
	for (size_t m = 0; m < harness->count; m++)
		for (size_t i = 0; i < COUNT; i++)
			assert_true(results[m][i] == (float)harness->count);
}

/* A firewall that lets through what --listen names, and nothing else. */
static uint8_t closed[TRANSPORT_HANDLE_BYTES];

static int closed_listen(struct transport *transport, int device, uint8_t handle[static TRANSPORT_HANDLE_BYTES],
			 struct transport_listener **ret)
{
	int r = transport_tcp.listen(transport, device, handle, ret);

	memcpy(closed, handle, sizeof(closed));
	return r;
}

static int closed_accept(struct transport_listener *listener, struct transport_connection **ret)
{
	(void)listener;
	*ret = NULL;
	return 0;
}

static int connect_to_open(struct transport *transport, int device, int traffic_class,
			   uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct transport_connection **ret)
{
	*ret = NULL;
	if (!memcmp(handle, closed, sizeof(closed)))
		return 0;
	return transport_tcp.connect(transport, device, traffic_class, handle, ret);
}

/* A virtual machine that is moved to another host stands still, here for longer than an aggregator may take. */
static pid_t stand_still(void)
{
	enum { BEFORE_S = 2, STILL_S = 14 };
	pid_t parent = getpid(), child = fork();

	if (child)
		return child;
	sleep(BEFORE_S);
	kill(parent, SIGSTOP);
	sleep(STILL_S);
	kill(parent, SIGCONT);
	_exit(0);
}

static void one_whose_ports_are_closed_takes_no_other_with_it(void **state)
{
	pid_t child = runtime_long() ? stand_still() : 0;
	static struct harness harness;
	struct transport_ops behind = transport_tcp, others = transport_tcp;

	(void)state;
	behind.listen = closed_listen;
	behind.accept = closed_accept;
	others.connect = connect_to_open;
	for (size_t i = 0; i < THREE; i++)
		host_harness_open_over(&hosts[i], "", TIMEOUT_S, i == 1 ? &behind : &others);
	log_lines_start("which not all of its hosts reach");
	open_group(&harness, "aabbcc", THREE);
	log_set_sink(NULL);
	if (aggregators_of(&harness) != THREE - 1 || log_lines()->found != 1)
		fail_msg("%zu aggregators: %s", aggregators_of(&harness), log_lines()->text);
	if (child)
		assert_int_equal(waitpid(child, NULL, 0), child);
	group_harness_close(&harness);
	for (size_t i = 0; i < THREE; i++)
		host_harness_close(&hosts[i]);
}

static void *tell_the_first_to_end(void *arg)
{
	usleep(1000 * *(unsigned *)arg);
	host_harness_tell_to_end(&hosts[0]);
	return NULL;
}

/* It ends long before it must, while the group works, and nobody calls it a loss. */
static void ends_when_told(struct harness *harness)
{
	uint64_t deadline_ns = runtime_deadline_ns(DRAIN_S / 3 * 1000);
	float *ones = calloc(COUNT, sizeof(*ones)), *results[GROUP_HARNESS_MAX] = { NULL };

	assert_non_null(ones);
	for (size_t i = 0; i < COUNT; i++)
		ones[i] = 1;
	for (size_t m = 0; m < harness->count; m++)
		assert_non_null(results[m] = calloc(COUNT, sizeof(**results)));
	while (!host_harness_has_ended(&hosts[0]) && !runtime_past(deadline_ns))
		reduce(harness, ones, results);
	assert_true(host_harness_has_ended(&hosts[0]));
	for (unsigned k = 0; k < OPERATIONS; k++)
		reduce(harness, ones, results);
	for (size_t m = 0; m < harness->count; m++)
		free(results[m]);
	free(ones);
}

static void the_only_one_ends_when_told(void **state)
{
	static struct harness harness;

	(void)state;
	host_harness_open(&hosts[0], DRAIN, TIMEOUT_S);
	open_group(&harness, "aabb", 1);
	assert_int_equal(aggregators_of(&harness), 1);
	log_lines_start("goes on without aggregator");
	host_harness_tell_to_end(&hosts[0]);
	ends_when_told(&harness);
	log_set_sink(NULL);
	assert_int_equal(log_lines()->found, 0);
	group_harness_close(&harness);
	host_harness_close(&hosts[0]);
}

/* Told after its offer, while another one's is waited for that never comes. */
static void one_ends_when_told_as_a_group_comes_together(void **state)
{
	static struct harness harness;
	unsigned after_ms = 1000;
	pthread_t thread;
	int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	(void)state;
	assert_int_equal(bind(silent, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(silent, 8), 0);
	host_harness_open(&hosts[0], DRAIN, TIMEOUT_S);
	hosts[1].port = port_of(silent);
	log_lines_start("goes on without aggregator");
	assert_int_equal(pthread_create(&thread, NULL, tell_the_first_to_end, &after_ms), 0);
	open_group(&harness, "aabb", 2);
	pthread_join(thread, NULL);
	ends_when_told(&harness);
	log_set_sink(NULL);
	assert_int_equal(log_lines()->found, 0);
	group_harness_close(&harness);
	host_harness_close(&hosts[0]);
	close(silent);
}

/* After so many calls of a kind the first aggregator is gone. */
static void lose_the_first(enum stroke stroke, int64_t calls)
{
	static struct harness harness;
	float *ones = calloc(COUNT, sizeof(*ones)), *results[GROUP_HARNESS_MAX] = { NULL };

	blow_set(STROKE_NONE, false, 0, 0);
	for (size_t i = 0; i < THREE; i++)
		host_harness_open_over(&hosts[i], "", TIMEOUT_S, i ? &transport_tcp : &blow_ops);
	open_group(&harness, "aabbcc", THREE);
	assert_int_equal(aggregators_of(&harness), THREE);
	assert_non_null(ones);
	for (size_t i = 0; i < COUNT; i++)
		ones[i] = 1;
	for (size_t m = 0; m < harness.count; m++)
		assert_non_null(results[m] = calloc(COUNT, sizeof(**results)));
	for (unsigned k = 0; k < OPERATIONS; k++) {
		if (k == BLOW_AT)
			blow_set(stroke, false, calls, 0);
		reduce(&harness, ones, results);
	}
	assert_true(blow_has_fallen());
	for (size_t m = 0; m < harness.count; m++) {
		const struct group_aggregators *known = ((struct group *)harness.members[m].group)->aggregators;

		for (size_t i = 1; i < THREE; i++)
			if (known->lost >> i & 1)
				fail_msg("after %s, %d calls: aggregator %zu, which runs, is lost at member %zu: %s",
					 blow_names[stroke], (int)calls, i, m, known->aggregators[i].why);
		assert_true(known->lost & 1);
		free(results[m]);
	}
	group_harness_close(&harness);
	for (size_t i = 0; i < THREE; i++)
		host_harness_close(&hosts[i]);
	free(ones);
}

static void one_that_is_lost_takes_no_other_with_it(void **state)
{
	(void)state;
	for (int64_t calls = 1; calls < (runtime_long() ? 9 : 3); calls++) {
		lose_the_first(STROKE_INPUT, calls);
		lose_the_first(STROKE_UP, calls);
	}
}

static void the_last_place_is_free_when_its_group_has_ended(void **state)
{
	static struct harness harness;

	(void)state;
	host_harness_open(&hosts[0], "--groups-max 1", TIMEOUT_S);
	for (unsigned i = 0; i < 60; i++) {
		open_group(&harness, "aaa", 1);
		assert_int_equal(aggregators_of(&harness), 1);
		group_harness_close(&harness);
	}
	host_harness_close(&hosts[0]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_lost_takes_no_other_with_it),
		cmocka_unit_test(one_whose_ports_are_closed_takes_no_other_with_it),
		cmocka_unit_test(the_only_one_ends_when_told),
		cmocka_unit_test(one_ends_when_told_as_a_group_comes_together),
		cmocka_unit_test(the_last_place_is_free_when_its_group_has_ended),
	};

	(void)argc;
	runtime_start(argv[0], 300);
	blow_start();
	return cmocka_run_group_tests(tests, host_harness_secret_make, host_harness_secret_remove);
}
