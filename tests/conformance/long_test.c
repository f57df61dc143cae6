/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What needs gigabytes, a quiet machine or patience: only with TRIBUTARY_TEST_LONG=1.
 */
#include "base/clock.h"
#include "plugin_ops.h"
#include "support/link.h"
#include "support/peer.h"
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
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define GIB        (1ULL << 30)
#define BIG_BYTES  (4 * GIB + 12345)
#define IDLE_S     3
#define IDLE_SHARE 10 /* of a core: what spins takes all that it is given */
#define IDLE_WAKES 20 /* a second: what naps, and looks, wakes thousands of times */

/*
 * Over 4 GiB. The sender's memory is one small file mapped again and again, so that it costs nothing; its pattern has a
 * period that no stripe has.
 */
#define PERIOD_BYTES (64ULL << 20)

static uint8_t *periodic_memory(size_t bytes)
{
	size_t whole = (bytes + PERIOD_BYTES - 1) / PERIOD_BYTES * PERIOD_BYTES;
	int fd = memfd_create("period", MFD_CLOEXEC);
	uint8_t *memory;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PERIOD_BYTES), 0);
	memory = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(memory != MAP_FAILED);
	for (size_t at = 0; at < whole; at += PERIOD_BYTES)
		assert_true(mmap(memory + at, PERIOD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
			    memory + at);
	close(fd);
	return memory;
}

/* The receiver's is fresh, so that every byte must arrive. */
static void a_message_over_4_gib(struct transport *transport)
{
	size_t bytes = BIG_BYTES, wrong_at = SIZE_MAX;
	uint8_t *from = periodic_memory(bytes);
	uint8_t *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t deadline_ns = runtime_deadline_ns(300000);
	struct transport_request *send = NULL, *receive = NULL;
	void *data = to, *registration = NULL;
	struct link link;
	int tag = 0;

	assert_true(to != MAP_FAILED);
	pattern_fill(from, PERIOD_BYTES, runtime_seed());
	assert_int_equal(link_open(&plugin_ops, transport, 0, &link), 0);
	while (!receive)
		assert_int_equal(plugin_ops.receive(link.receiver, 1, &data, &bytes, &tag, &registration, &receive), 0);
	while (!send)
		assert_int_equal(plugin_ops.send(link.sender, from, bytes, tag, NULL, &send), 0);
	while (send || receive) {
		bool done = false;

		if (send)
			assert_int_equal(plugin_ops.test(send, &done, NULL), 0);
		send = done ? NULL : send;
		done = false;
		if (receive)
			assert_int_equal(plugin_ops.test(receive, &done, NULL), 0);
		receive = done ? NULL : receive;
		assert_false(runtime_past(deadline_ns));
	}
	link_close(&link);
	for (size_t at = 0; at < bytes && wrong_at == SIZE_MAX; at += PERIOD_BYTES)
		wrong_at = pattern_wrong_at(to + at, bytes - at < PERIOD_BYTES ? bytes - at : PERIOD_BYTES,
					    runtime_seed());
	assert_true(wrong_at == SIZE_MAX);
	munmap(from, (bytes + PERIOD_BYTES - 1) / PERIOD_BYTES * PERIOD_BYTES);
	munmap(to, bytes);
}

static void over_4_gib_where_sizes_are_64_bit(void **state)
{
	(void)state;
	for (int version = 9; version <= NETPLUGIN_NEWEST; version += NETPLUGIN_NEWEST - 9) {
		struct transport *transport;

		plugin_ops_choose(version);
		assert_int_equal(plugin_ops.open(NULL, &transport), 0);
		a_message_over_4_gib(transport);
		plugin_ops.close(transport);
	}
}

static uint64_t sleeps_of_all_threads(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return (uint64_t)usage.ru_nvcsw;
}

/*
 * Sixteen connections that nobody uses, and receives posted that nobody polls: the service thread alone runs. Wake-ups are
 * counted: what one costs depends on what else the machine does.
 */
static void idle_communicators_cost_nothing(void **state)
{
	enum { LINKS = 16 };
	struct transport *transport;
	struct link links[LINKS];
	uint64_t cpu_ns, wall_ns, wakes;

	(void)state;
	plugin_ops_choose(0);
	setenv("TRIBUTARY_TIMEOUT", "10", 1); /* the default: the heartbeat depends on it */
	assert_int_equal(plugin_ops.open(NULL, &transport), 0);
	for (unsigned i = 0; i < LINKS; i++) {
		assert_int_equal(link_open(&plugin_ops, transport, 0, &links[i]), 0);
		assert_int_equal(link_exchange(&links[i], 100000, i), 0);
	}
	cpu_ns = runtime_cpu_ns();
	wall_ns = runtime_now_ns();
	wakes = sleeps_of_all_threads();
	sleep(IDLE_S);
	wakes = sleeps_of_all_threads() - wakes;
	cpu_ns = runtime_cpu_ns() - cpu_ns;
	wall_ns = runtime_now_ns() - wall_ns;
	print_message("idle: %" PRIu64 " wake-ups, %" PRIu64 " us of CPU in %" PRIu64 " ms\n", wakes, cpu_ns / 1000,
		      wall_ns / 1000000);
	assert_true(wakes * NS_PER_S < IDLE_WAKES * wall_ns);
	assert_true(runtime_sanitized() || cpu_ns * IDLE_SHARE < wall_ns);
	for (unsigned i = 0; i < LINKS; i++)
		link_close(&links[i]);
	plugin_ops.close(transport);
}

/* Every shape, again and again, with another seed each time. */
static void many_seeds(void **state)
{
	const char *text = runtime_setting("TEST_SEEDS");
	unsigned long seeds = text ? strtoul(text, NULL, 10) : 50;
	struct transport *transport;

	(void)state;
	plugin_ops_choose(0);
	assert_int_equal(plugin_ops.open(NULL, &transport), 0);
	for (unsigned long i = 0; i < seeds; i++) {
		struct link link;

		assert_int_equal(link_open(&plugin_ops, transport, 0, &link), 0);
		for (const struct traffic_shape *shape = traffic_shapes; shape->name; shape++)
			if (traffic_between(shape, runtime_seed() + i, TRANSPORT_MAX_RECVS, &plugin_ops, link.sender,
					    link.receiver) < 0)
				fail_msg("%s: seed %#" PRIx64, shape->name, runtime_seed() + i);
		link_close(&link);
	}
	plugin_ops.close(transport);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_communicators_cost_nothing),
		cmocka_unit_test(over_4_gib_where_sizes_are_64_bit),
		cmocka_unit_test(many_seeds),
	};
	const char *filter;

	runtime_start("long_test", 1000);
	if (!runtime_long()) {
		fprintf(stderr, "skipped: only with TRIBUTARY_TEST_LONG=1\n");
		return 77;
	}
	runtime_set_streams(0);
	filter = runtime_setting("TEST_FILTER");
	if (filter)
		cmocka_set_test_filter(filter);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
