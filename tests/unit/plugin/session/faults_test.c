/* What the ranks of a host end with when something fails in one of them. Only with injected faults. */
#include "unit/plugin/session/hall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>

#include "base/sys.h"

#ifdef TRIBUTARY_FAULTS
/*
 * The nth call of one kind fails in rank 0, somewhere between init and the tuner's init. False: there are not so many. A
 * rank whose call fails takes its communicator with it; if none does, both have the plan or neither.
 */
static bool one_call_fails(struct hall *hall, enum sys_fault_kind kind, uint64_t nth)
{
	int results[2], calls, begun;
	unsigned gpus[2];

	hall_start_all(hall, 2, NULL);
	(void)hall_do(hall, 0, 0, HALL_FAULT, HALL_FAULT_ARG(kind, nth));
	begun = hall_do(hall, 0, 0, HALL_BEGIN, 7);
	if (begun == 0)
		begun = hall_do(hall, 0, 0, HALL_CHECK, 0);
	hall_begin(hall, 2, 7);
	/* Who has failed does not come to the topology phase; nor would the other one, were it NCCL. */
	for (unsigned i = 0; i < 2; i++)
		if (i || begun == 0)
			hall_send(hall, i, 0, HALL_PROPERTIES, 0);
	for (unsigned i = 0; i < 2; i++) {
		results[i] = i || begun == 0 ? hall_wait(hall, i, 0) : begun;
		gpus[i] = hall_do(hall, i, 0, HALL_READ, 0) == 0 ? hall_gpus(hall->reply.text) : 0;
		if (results[i] != 0 && results[i] != -EIO && results[i] != -ENOMEM)
			fail_msg("kind %d, call %" PRIu64 ": rank %u has %d", kind, nth, i, results[i]);
	}
	if (!results[0] && !results[1] && gpus[0] != gpus[1])
		fail_msg("kind %d, call %" PRIu64 ": GPUs %x and %x", kind, nth, gpus[0], gpus[1]);
	results[0] = hall_do(hall, 0, 0, HALL_TUNE, 7);
	assert_true(results[0] == 0 || results[0] == -ENOMEM);
	assert_int_equal(hall_do(hall, 1, 0, HALL_TUNE, 7), 0);
	assert_int_equal(hall_read(hall, 2), 0);
	calls = hall_do(hall, 0, 0, HALL_FAULT, HALL_FAULT_ARG(kind, 0));
	hall_kill(hall, 0);
	hall_kill(hall, 1);
	return (uint64_t)calls >= nth;
}

static void a_call_that_fails_leaves_the_ranks_agreed(void **state)
{
	static const enum sys_fault_kind kinds[] = { SYS_FAULT_MEMORY, SYS_FAULT_FILE, SYS_FAULT_FILE_DATA,
						     SYS_FAULT_SOCKET, SYS_FAULT_BIND };
	struct hall *hall = *state;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint64_t nth = 1;

		while (one_call_fails(hall, kinds[i], nth))
			nth += 1 + nth / 16;
		print_message("kind %d: %" PRIu64 " calls\n", kinds[i], nth);
		assert_true(nth > 1);
	}
}

/* NCCL fails the communicator's init then; to go on without it would be to choose differently from other ranks. */
static void a_tuner_without_memory_says_so(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, "WORLD_SIZE=4");
	hall_begin(hall, 3, 1);
	hall_phase(hall, 3);
	assert_int_equal(hall_read(hall, 3), 3);
	(void)hall_do(hall, 0, 0, HALL_FAULT, HALL_FAULT_ARG(SYS_FAULT_MEMORY, 1));
	assert_int_equal(hall_do(hall, 0, 0, HALL_TUNE, 1), -ENOMEM);
	assert_int_equal(hall_do(hall, 1, 0, HALL_TUNE, 1), 0);
	assert_int_equal(hall_read(hall, 3), 0);
}
#else
static void nothing_fails_without_them(void **state)
{
	(void)state;
	print_message("skipped: no faults are injected in this build\n");
	skip();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test_setup_teardown(a_call_that_fails_leaves_the_ranks_agreed, hall_open, hall_close),
		cmocka_unit_test_setup_teardown(a_tuner_without_memory_says_so, hall_open, hall_close),
#else
		cmocka_unit_test(nothing_fails_without_them),
#endif
	};

	return cmocka_run_group_tests_name("plugin/session/faults", tests, NULL, NULL);
}
