/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a group of three members on two hosts and leaves (the agreement, sums small and large, all of
 * them verified) with every call that can fail failing once: see life.h. All members have their
 * results, and they are right; or those who do not hear of it, with a reason where it is the agreement that fails.
 */
#include "aggregate/group.h"
#include "life.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef TRIBUTARY_FAULTS

enum {
	MEMBERS = 3,
	SMALL = 100,   /* goes in one step */
	LARGE = 70000, /* several segments */
};

enum what { SUM_SMALL, SUM_LARGE, SUM_IN_PLACE, WHATS };

struct faulty {
	struct harness harness;
	/* Of every member and operation: nobody may touch them after the group is closed. */
	int32_t *send[MEMBERS][WHATS], *recv[MEMBERS][WHATS];
};

static void faulty_free(struct faulty *faulty)
{
	for (size_t m = 0; faulty && m < MEMBERS; m++)
		for (size_t i = 0; i < WHATS; i++) {
			free(faulty->send[m][i]);
			free(faulty->recv[m][i]);
		}
	free(faulty);
}

static int32_t input_of(uint64_t seed, size_t member, size_t i)
{
	return (int32_t)(seed % 1000 + member * 7919 + i * 31);
}

static struct faulty *faulty_new(uint64_t seed)
{
	struct faulty *faulty = calloc(1, sizeof(*faulty));

	for (size_t m = 0; faulty && m < MEMBERS; m++)
		for (size_t i = 0; i < WHATS; i++) {
			faulty->send[m][i] = malloc(LARGE * sizeof(int32_t));
			faulty->recv[m][i] = calloc(LARGE, sizeof(int32_t));
			for (size_t k = 0; k < LARGE; k++)
				faulty->send[m][i][k] = input_of(seed, m, k);
		}
	return faulty;
}

static size_t count_of(enum what what)
{
	return what == SUM_SMALL ? SMALL : LARGE;
}

static int post(struct faulty *faulty, size_t m, enum what what, struct aggregate_request **ret)
{
	struct group_harness_member *member = &faulty->harness.members[m];
	int32_t *send = faulty->send[m][what], *recv = faulty->recv[m][what];

	return aggregate_reduce_all(member->group, what == SUM_IN_PLACE ? memcpy(recv, send, LARGE * 4) : send, recv,
				    count_of(what), REDUCE_INT32, REDUCE_SUM, ret);
}

static bool right(const struct faulty *faulty, uint64_t seed, size_t m, enum what what)
{
	const int32_t *recv = faulty->recv[m][what];

	for (size_t i = 0; i < count_of(what); i++) {
		int32_t want = 0;

		for (size_t k = 0; k < MEMBERS; k++)
			want += input_of(seed, k, i);
		if (recv[i] != want)
			return false;
	}
	return true;
}

/* Of one member, all its operations: 0, or its first error. Whatever is done is right. */
static int finish(const struct faulty *faulty, uint64_t seed, size_t m, struct aggregate_request **requests)
{
	uint64_t deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);
	int error = 0;

	for (enum what what = 0; what < WHATS; what++) {
		bool done = false;
		int r = 0;

		while (requests[what] && r == 0 && !done) {
			r = aggregate_test(requests[what], &done, NULL);
			if (runtime_past(deadline_ns))
				return runtime_complain(ETIMEDOUT, "member %zu waits for operation %d", m, (int)what);
			runtime_nap();
		}
		if (done && !right(faulty, seed, m, what))
			return runtime_complain(EBADMSG, "member %zu has a wrong result of operation %d", m, (int)what);
		error = error ? error : r;
	}
	return error;
}

static int operate(struct faulty *faulty, uint64_t seed)
{
	struct aggregate_request *requests[MEMBERS][WHATS] = { 0 };
	size_t there = 0, through = 0;
	int error = 0;

	for (size_t m = 0; m < MEMBERS; m++)
		there += faulty->harness.members[m].group != NULL;
	for (enum what what = 0; what < WHATS; what++)
		for (size_t m = 0; m < MEMBERS; m++) {
			int r = faulty->harness.members[m].group ? post(faulty, m, what, &requests[m][what]) : 0;

			error = error ? error : r;
		}
	for (size_t m = 0; m < MEMBERS; m++) {
		int r = finish(faulty, seed, m, requests[m]);

		if (r == -ETIMEDOUT || r == -EBADMSG)
			return r;
		through += faulty->harness.members[m].group && r == 0;
		error = error ? error : r;
	}
	if (through && there < MEMBERS && !error)
		return runtime_complain(EBADMSG, "operations are through without a member");
	return error;
}

static int life_of_group(uint64_t seed)
{
	struct faulty *faulty = faulty_new(seed);
	struct params params;
	int r, error = 0;

	if (!faulty)
		return -ENOMEM;
	group_harness_params(&params);
	params.timeout_ns = 1000000000ULL * (runtime_sanitized() ? 3 : 1);
	params.streams = 2;
	params.verify = true;
	r = group_harness_gather(&faulty->harness, &params, "a2b");
	if (r == 0) {
		error = group_harness_connect(&faulty->harness);
		for (size_t m = 0; m < MEMBERS; m++)
			if (faulty->harness.members[m].error && !faulty->harness.members[m].reason[0])
				r = runtime_complain(EBADMSG, "member %zu has no group and no reason", m);
	}
	/* Those that have a group hear of it if others have none. */
	if (r == 0)
		r = operate(faulty, seed);
	if (r == 0 && error)
		r = -ECONNABORTED; /* -ETIMEDOUT may be what a member says of another */
	group_harness_close(&faulty->harness);
	faulty_free(faulty);
	return r;
}

/* True: member 0 had no memory for an operation, and all others have heard. */
static bool refused_by_one(struct faulty *faulty)
{
	struct group *group = (struct group *)faulty->harness.members[0].group;
	struct aggregate_request *requests[MEMBERS][WHATS] = { 0 };
	int r;

	atomic_store(&group->retains, true); /* as where aggregators take part: it copies what the result overwrites */
	sys_fault_set(SYS_FAULT_MEMORY, 1, ENOMEM);
	r = post(faulty, 0, SUM_IN_PLACE, &requests[0][SUM_IN_PLACE]);
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	if (r == 0)
		return false; /* some thread's call was the first of that kind */
	assert_int_equal(r, -ENOMEM);
	for (size_t m = 1; m < MEMBERS; m++) {
		r = post(faulty, m, SUM_IN_PLACE, &requests[m][SUM_IN_PLACE]);
		assert_int_equal(r < 0 ? r : finish(faulty, 1, m, requests[m]), -EREMOTEIO);
	}
	assert_int_equal(post(faulty, 0, SUM_SMALL, &requests[0][SUM_SMALL]), -ENOMEM);
	return true;
}

static void a_refused_operation_ends_the_group(void **state)
{
	struct params params;
	bool refused = false;

	(void)state;
	group_harness_params(&params);
	for (unsigned i = 0; i < 5 && !refused; i++) {
		struct faulty *faulty = faulty_new(1);

		assert_non_null(faulty);
		assert_int_equal(group_harness_open(&faulty->harness, &params, "abc"), 0);
		refused = refused_by_one(faulty);
		group_harness_close(&faulty->harness);
		faulty_free(faulty);
	}
	assert_true(refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_refused_operation_ends_the_group) };
	static struct life_fault faults[] = {
		{ SYS_FAULT_MEMORY, "memory", ENOMEM },
		{ SYS_FAULT_THREAD, "thread", EAGAIN },
		{ SYS_FAULT_SOCKET, "socket", EMFILE },
		{ SYS_FAULT_BIND, "bind or listen", EADDRINUSE },
		{ SYS_FAULT_CONNECT, "connect: refused", ECONNREFUSED },
		{ SYS_FAULT_ACCEPT, "accept: descriptors", EMFILE },
		{ SYS_FAULT_READ, "read: reset", ECONNRESET },
		{ SYS_FAULT_WRITE, "write: reset", ECONNRESET },
		{ SYS_FAULT_FILE, "open", EMFILE },
	};

	runtime_start("aggregate_faults_test", 280);
	if (cmocka_run_group_tests(tests, NULL, NULL) != 0)
		return 1;
	return life_run_with_faults(life_of_group, faults, sizeof(faults) / sizeof(faults[0]));
}

#else

int main(void)
{
	return life_skipped();
}

#endif
