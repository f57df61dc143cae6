/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a test: reductions of any size, whose elements say where they belong, so that
 * every result can be checked without a reference.
 */
#ifndef TESTS_UNIT_AGGREGATE_TASKS_H
#define TESTS_UNIT_AGGREGATE_TASKS_H

#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

/* What everybody knows of an operation. */
struct task {
	size_t count; /* of int32 */
	bool in_place;
};

/* One that is under way at a member. */
struct task_slot {
	struct aggregate_request *request;
	size_t task;
	int32_t *send, *recv;
	size_t bytes;
};

void task_any(struct task *task, uint64_t *random);
/* Posts it at that member, which has that rank, as the number-th. slot->request NULL with 0: come again. */
int task_post(struct group_harness_member *member, size_t rank, const struct task *task, size_t number,
	      struct task_slot *slot);
/* Asserts that the result is right. */
void task_check(const struct task_slot *slot, const struct task *task, size_t members);
/* Gives its buffers back. */
void task_forget(struct task_slot *slot);
/* Every member posts all of them, in another rhythm, and finds all results right; else the test fails. */
void tasks_run(struct harness *harness, const struct task *tasks, size_t total, uint64_t *random);

#endif
