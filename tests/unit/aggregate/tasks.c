/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/aggregate/tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static int32_t value(size_t member, size_t task, size_t i)
{
	return (int32_t)(member * 1000003 + task * 10007 + i * 31);
}

static size_t size_any(uint64_t *random)
{
	static const size_t magnitudes[] = { 1, 16, 250, 4096, 20000, 70000, 300000 };
	size_t most = magnitudes[random_below(random, sizeof(magnitudes) / sizeof(magnitudes[0]))];

	return 1 + random_below(random, most);
}

void task_any(struct task *task, uint64_t *random)
{
	*task = (struct task){ .count = size_any(random), .in_place = random_below(random, 2) };
}

int task_post(struct group_harness_member *member, size_t rank, const struct task *task, size_t number,
	      struct task_slot *slot)
{
	slot->task = number;
	slot->send = malloc(task->count * 4);
	slot->recv = task->in_place ? slot->send : malloc(task->count * 4);
	assert_true(slot->send && slot->recv);
	for (size_t i = 0; i < task->count; i++)
		slot->send[i] = value(rank, number, i);
	return aggregate_reduce_all(member->group, slot->send, slot->recv, task->count, REDUCE_INT32, REDUCE_SUM,
				    &slot->request);
}

static int32_t sum(size_t members, size_t number, size_t i)
{
	uint32_t total = 0;

	for (size_t m = 0; m < members; m++)
		total += (uint32_t)value(m, number, i);
	return (int32_t)total;
}

void task_check(const struct task_slot *slot, const struct task *task, size_t members)
{
	for (size_t i = 0; i < task->count; i++)
		assert_int_equal(slot->recv[i], sum(members, slot->task, i));
}

void task_forget(struct task_slot *slot)
{
	if (slot->recv != slot->send)
		free(slot->recv);
	free(slot->send);
	memset(slot, 0, sizeof(*slot));
}

struct runner {
	struct task_slot slots[AGGREGATE_MAX_REQUESTS];
	size_t posted, done;
};

static void step(struct harness *harness, size_t m, struct runner *runner, const struct task *tasks, size_t total,
		 uint64_t *random)
{
	struct task_slot *slot = &runner->slots[random_below(random, AGGREGATE_MAX_REQUESTS)];
	bool done = false;

	if (slot->send) {
		assert_int_equal(aggregate_test(slot->request, &done, NULL), 0);
		if (!done)
			return;
		task_check(slot, &tasks[slot->task], harness->count);
		task_forget(slot);
		runner->done++;
	} else if (runner->posted < total && random_below(random, 3)) {
		assert_int_equal(task_post(&harness->members[m], m, &tasks[runner->posted], runner->posted, slot), 0);
		assert_non_null(slot->request);
		runner->posted++;
	}
}

void tasks_run(struct harness *harness, const struct task *tasks, size_t total, uint64_t *random)
{
	struct runner *runners = calloc(harness->count, sizeof(*runners));
	uint64_t seed = *random, deadline_ns = runtime_deadline_ns(100000);
	size_t left = 1;

	assert_non_null(runners);
	while (left) {
		left = 0;
		for (size_t m = 0; m < harness->count; m++) {
			/* One of them is slow for a while. */
			size_t steps = m == (runners[0].done / 16) % harness->count ? 1 : 1 + random_below(random, 40);

			for (size_t i = 0; i < steps; i++)
				step(harness, m, &runners[m], tasks, total, random);
			left += runners[m].done < total;
		}
		if (runtime_past(deadline_ns))
			fail_msg("seed %llx: %zu members wait; the first has done %zu of %zu", (unsigned long long)seed,
				 left, runners[0].done, total);
		runtime_nap();
	}
	free(runners);
}
