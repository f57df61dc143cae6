/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that is forked in the middle of operations, as data loaders are: it has copies of all sockets and none of the
 * threads. It may live long after; the group goes on, and its end is seen by all although the child holds the sockets.
 */
#include "support/peer.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS = 4, OPERATIONS = 8, LARGE = 200000, SMALL = 50, ROUNDS = 5 };

/* What a busy machine adds to a time-out, beside times in which nothing runs at all. */
#define SLACK_NS UINT64_C(8000000000)

struct flight {
	struct aggregate_request *requests[OPERATIONS][MEMBERS];
	int32_t *send[MEMBERS], *recv[OPERATIONS][MEMBERS];
};

static size_t count_of(size_t operation)
{
	return operation % 2 ? SMALL : LARGE;
}

static void flight_init(struct flight *flight)
{
	for (size_t m = 0; m < MEMBERS; m++) {
		flight->send[m] = malloc(LARGE * sizeof(int32_t));
		for (size_t k = 0; k < LARGE; k++)
			flight->send[m][k] = (int32_t)(m * 1000 + k);
		for (size_t i = 0; i < OPERATIONS; i++)
			flight->recv[i][m] = malloc(LARGE * sizeof(int32_t));
	}
}

static void flight_fini(struct flight *flight)
{
	for (size_t m = 0; m < MEMBERS; m++) {
		free(flight->send[m]);
		for (size_t i = 0; i < OPERATIONS; i++)
			free(flight->recv[i][m]);
	}
}

static void flight_post(struct flight *flight, struct harness *harness, size_t operation)
{
	for (size_t m = 0; m < MEMBERS; m++)
		assert_int_equal(group_harness_reduce(&harness->members[m], flight->send[m], flight->recv[operation][m],
						      count_of(operation), REDUCE_INT32, REDUCE_SUM,
						      &flight->requests[operation][m]),
				 0);
}

static void flight_land(struct flight *flight, struct harness *harness)
{
	for (size_t i = 0; i < OPERATIONS; i++) {
		assert_int_equal(group_harness_finish(harness, flight->requests[i]), 0);
		for (size_t m = 0; m < MEMBERS; m++)
			for (size_t k = 0; k < count_of(i); k++)
				assert_int_equal(flight->recv[i][m][k], 6000 + 4 * k);
	}
}

static void a_child_in_the_middle_of_operations_breaks_nothing(void **state)
{
	struct flight flight = { 0 };
	struct params params;
	struct harness harness;
	pid_t children[ROUNDS];

	(void)state;
	group_harness_params(&params);
	flight_init(&flight);
	assert_int_equal(group_harness_open(&harness, &params, "aabb"), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < OPERATIONS; i++) {
			flight_post(&flight, &harness, i);
			if (i == OPERATIONS * round / ROUNDS) {
				children[round] = peer_fork_idle();
				assert_true(children[round] > 0);
			}
		}
		flight_land(&flight, &harness);
	}
	for (unsigned round = 0; round < ROUNDS; round++)
		peer_end_idle(children[round]);
	for (size_t i = 0; i < OPERATIONS; i++)
		flight_post(&flight, &harness, i);
	flight_land(&flight, &harness);
	group_harness_close(&harness);
	flight_fini(&flight);
}

/* Its sockets stay open in the child. */
static void a_member_that_leaves_is_missed_though_a_child_lives(void **state)
{
	struct aggregate_request *requests[MEMBERS] = { 0 };
	struct flight flight = { 0 };
	struct params params;
	struct harness harness;
	uint64_t begin_ns, stalled_ns;
	pid_t child;

	(void)state;
	group_harness_params(&params);
	params.timeout_ns = runtime_sanitized() ? 12000000000 : 4000000000;
	flight_init(&flight);
	assert_int_equal(group_harness_open(&harness, &params, "aabb"), 0);
	for (size_t i = 0; i < OPERATIONS; i++)
		flight_post(&flight, &harness, i);
	child = peer_fork_idle();
	assert_true(child > 0);
	flight_land(&flight, &harness);
	for (size_t m = 0; m < MEMBERS - 1; m++)
		assert_int_equal(group_harness_reduce(&harness.members[m], flight.send[m], flight.recv[0][m], LARGE,
						      REDUCE_INT32, REDUCE_SUM, &requests[m]),
				 0);
	stalled_ns = runtime_stalled_ns();
	begin_ns = runtime_now_ns();
	aggregate_close_group(harness.members[MEMBERS - 1].group);
	harness.members[MEMBERS - 1].group = NULL;
	for (size_t m = 0; m < MEMBERS - 1; m++) {
		bool done = false;
		int r = 0;

		while (r == 0) {
			r = aggregate_test(requests[m], &done, NULL);
			assert_false(done);
			assert_true(runtime_now_ns() - begin_ns <
				    params.timeout_ns + SLACK_NS + runtime_stalled_ns() - stalled_ns);
			runtime_nap();
		}
		assert_int_equal(r, -EREMOTEIO);
	}
	peer_end_idle(child);
	group_harness_close(&harness);
	flight_fini(&flight);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_in_the_middle_of_operations_breaks_nothing),
		cmocka_unit_test(a_member_that_leaves_is_missed_though_a_child_lives),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	runtime_watch_stalls();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
