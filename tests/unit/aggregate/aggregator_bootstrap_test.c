/* SPDX-License-Identifier: Apache-2.0 */
/* What an aggregator says to its transport about the nodes that come to it. */
#include "aggregate/aggregator/internal.h"
#include "base/clock.h"
#include "base/params.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { PATIENCE_MS = 20000, AGGREGATORS = 2 };

static struct transport_ops counting;
static _Atomic unsigned spreads, told_hosts;

static void count_spread(struct transport_connection *connection, enum transport_setting setting, uint64_t value)
{
	if (setting == TRANSPORT_SET_SPREAD) {
		atomic_store(&told_hosts, (unsigned)value);
		atomic_fetch_add(&spreads, 1);
	}
	transport_tcp.set(connection, setting, value);
}

/*
 * Two aggregators and a member that never comes: each aggregator is the other's only incoming. It sends to the member, too, so what
 * it sends here is a part of what its port carries; without the hint a leaf's sums crawl beside its results.
 */
static void aggregators_know_that_aggregators_send_to_many(void **state)
{
	uint8_t handles[AGGREGATORS * TRANSPORT_HANDLE_BYTES], member[TRANSPORT_HANDLE_BYTES];
	struct aggregator_request request = {
		.id = { 7 }, .timeout_ns = 10 * NS_PER_S, .member_count = 1, .handles = member
	};
	struct aggregator_setup setup = {
		.ops = &counting, .thread_count = 1, .groups_max = AGGREGATORS, .memory_max_bytes = 64 << 20
	};
	struct aggregator_group *groups[AGGREGATORS];
	struct transport_listener *listener;
	struct aggregator *aggregator;
	struct params params;
	uint64_t deadline_ns = runtime_deadline_ns(PATIENCE_MS);

	(void)state;
	counting = transport_tcp;
	counting.set = count_spread;
	params_defaults(&params);
	params.net = NET_CHOICE_TCP;
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	setup.params = &params;
	assert_int_equal(transport_tcp.open(&params, &setup.transport), 0);
	assert_int_equal(transport_tcp.listen(setup.transport, 0, member, &listener), 0);
	assert_int_equal(aggregator_open(&setup, &aggregator), 0);
	for (unsigned i = 0; i < AGGREGATORS; i++)
		assert_int_equal(aggregator_begin(aggregator, &request, handles + (size_t)i * TRANSPORT_HANDLE_BYTES,
						  &groups[i]),
				 0);
	for (unsigned i = 0; i < AGGREGATORS; i++)
		assert_int_equal(aggregator_go(groups[i], i, AGGREGATORS, handles), 0);
	while (atomic_load(&spreads) < AGGREGATORS && !runtime_past(deadline_ns))
		runtime_nap();
	assert_int_equal(atomic_load(&spreads), AGGREGATORS);
	assert_int_equal(atomic_load(&told_hosts), 1);
	for (unsigned i = 0; i < AGGREGATORS; i++)
		aggregator_end(groups[i]);
	aggregator_close(aggregator);
	transport_tcp.close_listener(listener);
	transport_tcp.close(setup.transport);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aggregators_know_that_aggregators_send_to_many),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
