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

static double median(double values[static COMMUNICATORS])
{
	qsort(values, COMMUNICATORS, sizeof(*values), ascending);
	return values[COMMUNICATORS / 2];
}

static void most(uint64_t ns, double *ret_ms)
{
	*ret_ms = (double)ns / 1e6 > *ret_ms ? (double)ns / 1e6 : *ret_ms;
}

/* Printed, not asserted: the answer to NCCL_GRAPH_FILE, for the slowest rank of a communicator and for all of them. */
static void what_it_costs_is_printed(void **state, const char *where, const char *environment)
{
	double init_ms[COMMUNICATORS] = { 0 }, took_ms[COMMUNICATORS] = { 0 }, cpu_ms[COMMUNICATORS] = { 0 },
	       all_ms[COMMUNICATORS] = { 0 };
	struct host *host = *state;

	host_start_all(host, 8, environment);
	for (unsigned c = 0; c < 1 + COMMUNICATORS; c++) {
		const unsigned at = c ? c - 1 : 0;
		const int64_t comm = 1 + (int64_t)c;
		uint64_t start_ns;

		init_ms[at] = took_ms[at] = cpu_ms[at] = all_ms[at] = 0;
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(host_do(host, i, 0, HOST_INIT, comm), 0);
			most(host->reply.took_ns, &init_ms[at]);
		}
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(host_do(host, i, 0, HOST_TOPOLOGY, 0), 0);
		start_ns = clock_now_ns();
		for (unsigned i = 0; i < 8; i++)
			host_send(host, i, 0, HOST_GRAPH, 0);
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(host_wait(host, i, 0), 0);
			most(host->reply.took_ns, &took_ms[at]);
			most(host->reply.cpu_ns, &cpu_ms[at]);
		}
		most(clock_now_ns() - start_ns, &all_ms[at]);
		assert_int_equal(host_gpus(host->reply.text), ALL);
		host_end(host, ALL, comm, 1);
		if (!c)
			print_message(
				"8 GPUs, %s, the first, which reads the profile: init %.2f ms; planned or found after "
				"%.2f ms\n",
				where, init_ms[0], took_ms[0]);
	}
	print_message("8 GPUs, %s: init %.2f ms; planned or found within %.2f ms (%.2f ms of CPU time), by all within "
		      "%.2f ms; medians of %d communicators\n",
		      where, median(init_ms), median(took_ms), median(cpu_ms), median(all_ms), COMMUNICATORS);
	print_message("the slowest of them: init %.2f ms; planned or found after %.2f ms\n", init_ms[COMMUNICATORS - 1],
		      took_ms[COMMUNICATORS - 1]);
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
