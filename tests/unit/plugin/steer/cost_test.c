/* What a plan costs: printed, not asserted. */
#include "plugin/steer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "unit/plugin/steer/host.h"

enum { ALL = 0xff };

static void most(uint64_t value, uint64_t *ret)
{
	*ret = value > *ret ? value : *ret;
}

/* Printed, not asserted: the answer to NCCL_GRAPH_FILE, for the rank that plans and for all of them. */
static void what_it_costs_is_printed(void **state, const char *where, const char *environment)
{
	uint64_t init_ns = 0, took_ns = 0, cpu_ns = 0, all_ns = 0, start_ns;
	struct host *host = *state;

	host_start_all(host, 8, environment);
	for (int64_t comm = 1; comm < 20; comm++) {
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(host_do(host, i, 0, HOST_INIT, comm), 0);
			if (comm > 1) /* the first one reads the profile */
				most(host->reply.took_ns, &init_ns);
		}
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(host_do(host, i, 0, HOST_TOPOLOGY, 0), 0);
		start_ns = clock_now_ns();
		for (unsigned i = 0; i < 8; i++)
			host_send(host, i, 0, HOST_GRAPH, 0);
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(host_wait(host, i, 0), 0);
			most(host->reply.took_ns, &took_ns);
			most(host->reply.cpu_ns, &cpu_ns);
		}
		most(clock_now_ns() - start_ns, &all_ns);
		assert_int_equal(host_gpus(host->reply.text), ALL);
		host_end(host, ALL, comm, 1);
	}
	print_message("8 GPUs, %s: init %.2f ms; planned or found within %.2f ms (%.2f ms of CPU time), by all within "
		      "%.2f ms\n",
		      where, (double)init_ns / 1e6, (double)took_ns / 1e6, (double)cpu_ns / 1e6, (double)all_ns / 1e6);
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
