/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan costs: printed, not asserted. */
#include "plugin/steer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "unit/plugin/steer/host.h"

enum { ALL = 0xff, COMMUNICATORS = 19 };

static int ascending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void most(uint64_t ns, double *ret_ms)
{
	*ret_ms = (double)ns / 1e6 > *ret_ms ? (double)ns / 1e6 : *ret_ms;
}

/* Of the slowest rank of a communicator; ALL_RANKS: from the first question for NCCL_GRAPH_FILE to the last answer. */
enum { INIT, ANSWER, CPU, ALL_RANKS, COSTS };

static void communicator_costs(struct host *host, int64_t comm, double ret_ms[static COSTS])
{
	uint64_t start_ns;

	for (unsigned i = 0; i < COSTS; i++)
		ret_ms[i] = 0;
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(host_do(host, i, 0, HOST_INIT, comm), 0);
		most(host->reply.took_ns, &ret_ms[INIT]);
	}
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(host_do(host, i, 0, HOST_TOPOLOGY, 0), 0);
	start_ns = clock_now_ns();
	for (unsigned i = 0; i < 8; i++)
		host_send(host, i, 0, HOST_GRAPH, 0);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(host_wait(host, i, 0), 0);
		most(host->reply.took_ns, &ret_ms[ANSWER]);
		most(host->reply.cpu_ns, &ret_ms[CPU]);
	}
	most(clock_now_ns() - start_ns, &ret_ms[ALL_RANKS]);
	assert_int_equal(host_gpus(host->reply.text), ALL);
	host_end(host, ALL, comm, 1);
}

/* Printed, not asserted. */
static void what_it_costs_is_printed(void **state, const char *where, const char *environment)
{
	double first_ms[COSTS], one_ms[COSTS], sorted_ms[COSTS][COMMUNICATORS];
	struct host *host = *state;

	host_start_all(host, 8, environment);
	communicator_costs(host, 1, first_ms);
	for (unsigned c = 0; c < COMMUNICATORS; c++) {
		communicator_costs(host, 2 + (int64_t)c, one_ms);
		for (unsigned i = 0; i < COSTS; i++)
			sorted_ms[i][c] = one_ms[i];
	}
	for (unsigned i = 0; i < COSTS; i++)
		qsort(sorted_ms[i], COMMUNICATORS, sizeof(double), ascending);
	print_message("8 GPUs, %s, the first, which reads the profile: init %.2f ms; planned or found after %.2f ms\n",
		      where, first_ms[INIT], first_ms[ANSWER]);
	print_message("8 GPUs, %s: init %.2f ms; planned or found within %.2f ms (%.2f ms of CPU time), by all within "
		      "%.2f ms; medians of %d communicators\n",
		      where, sorted_ms[INIT][COMMUNICATORS / 2], sorted_ms[ANSWER][COMMUNICATORS / 2],
		      sorted_ms[CPU][COMMUNICATORS / 2], sorted_ms[ALL_RANKS][COMMUNICATORS / 2], COMMUNICATORS);
	print_message("the slowest of them: init %.2f ms; planned or found after %.2f ms\n",
		      sorted_ms[INIT][COMMUNICATORS - 1], sorted_ms[ANSWER][COMMUNICATORS - 1]);
}

static void what_it_costs_on_one_host_is_printed(void **state)
{
	what_it_costs_is_printed(state, "one host", NULL);
}

static void what_it_costs_on_several_is_printed(void **state)
{
	what_it_costs_is_printed(state, "one host or several", "WORLD_SIZE=16\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_it_costs_on_one_host_is_printed, host_open, host_close),
		cmocka_unit_test_setup_teardown(what_it_costs_on_several_is_printed, host_open, host_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
