/* What handing over a plan costs: printed, not asserted. */
#include "plugin/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "unit/plugin/session/hall.h"

enum { ALL = 0xff };

static void most(uint64_t value, uint64_t *ret)
{
	*ret = value > *ret ? value : *ret;
}

/* Printed, not asserted: how long it takes once all ranks have come to the phase. */
static void what_it_costs_is_printed(void **state, const char *where, const char *environment)
{
	uint64_t last_ns = 0, cpu_ns = 0, other_ns = 0, start_ns;
	struct hall *hall = *state;

	hall_start_all(hall, 8, environment);
	for (int64_t comm = 1; comm < 20; comm++) {
		hall_begin(hall, ALL, comm);
		for (unsigned i = 1; i < 8; i++)
			hall_send(hall, i, 0, HALL_ONE, 0);
		assert_true(hall_is_waiting(hall, 7, 0, 20));
		start_ns = clock_now_ns();
		assert_int_equal(hall_do(hall, 0, 0, HALL_ONE, 0), 0);
		most(hall->reply.took_ns, &last_ns);
		most(hall->reply.cpu_ns, &cpu_ns);
		for (unsigned i = 1; i < 8; i++)
			assert_int_equal(hall_wait(hall, i, 0), 0);
		most(clock_now_ns() - start_ns, &other_ns);
		assert_int_equal(hall_read(hall, ALL), ALL);
		hall_tuner(hall, ALL, comm, 1);
	}
	print_message("8 GPUs, %s: planned and published within %.2f ms (%.2f ms of CPU time), by all within %.2f ms\n",
		      where, (double)last_ns / 1e6, (double)cpu_ns / 1e6, (double)other_ns / 1e6);
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
		cmocka_unit_test_setup_teardown(what_it_costs_on_one_host_is_printed, hall_open, hall_close),
		cmocka_unit_test_setup_teardown(what_it_costs_on_several_is_printed, hall_open, hall_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
