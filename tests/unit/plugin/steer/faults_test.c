/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a host end with when something fails in one of them. Only with injected faults. */
#include "unit/plugin/steer/host.h"

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
 * The nth call of one kind fails in rank 0, somewhere between init and the tuner's init. False: there are not so many. Both
 * ranks have the plan, or neither; or rank 0 has an error from NCCL, whose init fails then: it is given a file that is not
 * there, or its own init failed.
 */
static bool one_call_fails(struct host *host, enum sys_fault_kind kind, uint64_t nth)
{
	int results[2], calls;
	unsigned gpus[2];

	host_start_all(host, 2, NULL);
	(void)host_do(host, 0, 0, HOST_FAULT, HOST_FAULT_ARG(kind, nth));
	results[0] = host_do(host, 0, 0, HOST_INIT, 7);
	assert_int_equal(host_do(host, 1, 0, HOST_INIT, 7), 0);
	if (results[0] == 0) { /* else rank 1 does not get so far either, were it NCCL */
		(void)host_do(host, 0, 0, HOST_TOPOLOGY, 0);
		(void)host_do(host, 1, 0, HOST_TOPOLOGY, 0);
		for (unsigned i = 0; i < 2; i++) {
			unsigned rank = nth % 2 ? i : 1 - i; /* either is the first */

			results[rank] = host_do(host, rank, 0, HOST_GRAPH, 0);
			gpus[rank] = results[rank] == 0 ? host_gpus(host->reply.text) : 0;
		}
		if (results[0] != -ENOENT && results[1] != -ENOENT && gpus[0] != gpus[1])
			fail_msg("kind %d, call %" PRIu64 ": GPUs %x and %x", kind, nth, gpus[0], gpus[1]);
		if (results[1] == -ENOENT)
			fail_msg("kind %d, call %" PRIu64 ": rank 1, where nothing failed, cannot follow", kind, nth);
		(void)host_ask(host, 0, 0, "NCCL_PROTO");
		(void)host_ask(host, 1, 0, "NCCL_PROTO");
	}
	results[0] = host_do(host, 0, 0, HOST_TUNE, 7);
	assert_true(results[0] == 0 || results[0] == -ENOMEM);
	assert_int_equal(host_do(host, 1, 0, HOST_TUNE, 7), 0);
	calls = host_do(host, 0, 0, HOST_FAULT, HOST_FAULT_ARG(kind, 0));
	assert_int_equal(host_count(host, "d-"), 0);
	host_kill(host, 0);
	host_kill(host, 1);
	return (uint64_t)calls >= nth;
}

static void a_call_that_fails_leaves_the_ranks_agreed(void **state)
{
	static const enum sys_fault_kind kinds[] = { SYS_FAULT_MEMORY, SYS_FAULT_FILE, SYS_FAULT_FILE_DATA,
						     SYS_FAULT_SOCKET, SYS_FAULT_BIND };
	struct host *host = *state;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint64_t nth = 1;

		while (one_call_fails(host, kinds[i], nth))
			nth += 1 + nth / 16;
		print_message("kind %d: %" PRIu64 " calls\n", kinds[i], nth);
		assert_true(nth > 1);
	}
}

/* NCCL fails the communicator's init then; to go on without it would be to choose differently from other ranks. */
static void a_tuner_without_memory_says_so(void **state)
{
	struct host *host = *state;

	host_start_all(host, 2, "WORLD_SIZE=4");
	host_begin(host, 3, 1);
	assert_int_equal(host_graphs(host, 3), 3);
	(void)host_do(host, 0, 0, HOST_FAULT, HOST_FAULT_ARG(SYS_FAULT_MEMORY, 1));
	assert_int_equal(host_do(host, 0, 0, HOST_TUNE, 1), -ENOMEM);
	assert_int_equal(host_do(host, 1, 0, HOST_TUNE, 1), 0);
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
		cmocka_unit_test_setup_teardown(a_call_that_fails_leaves_the_ranks_agreed, host_open, host_close),
		cmocka_unit_test_setup_teardown(a_tuner_without_memory_says_so, host_open, host_close),
#else
		cmocka_unit_test(nothing_fails_without_them),
#endif
	};

	return cmocka_run_group_tests_name("plugin/steer/faults", tests, NULL, NULL);
}
