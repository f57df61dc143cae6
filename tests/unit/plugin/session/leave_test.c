/* What is left in shared memory when communicators and processes end. */
#include "unit/plugin/session/hall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

static void expect_nothing_left(struct hall *hall)
{
	char path[160];

	hall_registry(hall, path);
	assert_int_equal(access(path, F_OK), -1);
}

static void nothing_is_left_when_the_last_communicator_ends(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	assert_int_equal(hall_initialise(hall, 3, 1), 3);
	assert_int_equal(hall_initialise(hall, 3, 2), 3);
	assert_int_equal(hall_do(hall, 0, 0, HALL_END, 1), 0);
	assert_int_equal(hall_do(hall, 1, 0, HALL_END, 2), 0);
	assert_int_equal(hall_count(hall, "p-"), 2); /* each has another one */
	assert_int_equal(hall_do(hall, 0, 0, HALL_END, 2), 0);
	assert_int_equal(hall_count(hall, "p-"), 1);
	assert_int_equal(hall_do(hall, 1, 0, HALL_END, 1), 0);
	expect_nothing_left(hall);
	/* A communicator over another network calls no init, and NCCL reads what its variables say. */
	assert_int_equal(hall_read(hall, 3), 0);
	assert_int_equal(hall_do(hall, 0, 0, HALL_TOPOLOGY, 0), 0);
	assert_non_null(strstr(hall->reply.text, "<gpu dev=\"7\""));
	/* And all begins anew. */
	assert_int_equal(hall_initialise(hall, 3, 3), 3);
	assert_int_equal(hall->reply.warnings, 0);
	assert_int_equal(hall_do(hall, 0, 0, HALL_END, 3), 0);
	assert_int_equal(hall_do(hall, 1, 0, HALL_END, 3), 0);
	expect_nothing_left(hall);
}

static void nothing_is_left_of_processes_that_end_without_finalize(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 3, NULL);
	assert_int_equal(hall_initialise(hall, 7, 1), 7);
	assert_int_equal(hall_do(hall, 0, 0, HALL_FORK, 0), 0); /* a child's end changes nothing */
	assert_int_equal(hall_count(hall, "p-"), 3);
	assert_int_equal(hall_count(hall, "g-"), 3);
	hall_exit(hall, 0);
	assert_int_equal(hall_count(hall, "p-"), 2);
	hall_kill(hall, 1); /* whoever comes next cleans up */
	assert_int_equal(hall_count(hall, "p-"), 2);
	hall_start(hall, 0, 0, 3, 3, NULL);
	hall_begin(hall, 1, 2);
	assert_int_equal(hall_count(hall, "p-"), 2);
	hall_exit(hall, 0);
	hall_exit(hall, 2);
	expect_nothing_left(hall);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_left_when_the_last_communicator_ends, hall_open, hall_close),
		cmocka_unit_test_setup_teardown(nothing_is_left_of_processes_that_end_without_finalize, hall_open,
						hall_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
