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

static size_t size_any(struct random *random)
{
	static const size_t magnitudes[] = { 1, 16, 250, 4096, 20000, 70000, 300000 };
	size_t most = magnitudes[random_below(random, sizeof(magnitudes) / sizeof(magnitudes[0]))];

	return 1 + random_below(random, most);
}

void task_any(struct task *task, size_t members, struct random *random)
{
	memset(task, 0, sizeof(*task));
	task->kind = random_below(random, 6) ? 0 : 1 + (unsigned)random_below(random, 2);
	task->count = task->kind ? 1 + random_below(random, 9000) : size_any(random);
	if (task->kind) {
		task->offset = random_below(random, task->count * members);
		task->window = 1 + random_below(random, task->count * members - task->offset);
	}
	task->in_place = !task->kind && random_below(random, 2);
}

/* The part of the window in the slice of a rank, in elements of the virtual buffer. */
static void slice(const struct task *task, size_t rank, size_t *begin, size_t *end)
{
	size_t window_end = task->offset + task->window;

	*begin = rank * task->count > task->offset ? rank * task->count : task->offset;
	*end = (rank + 1) * task->count < window_end ? (rank + 1) * task->count : window_end;
	if (*end < *begin)
		*end = *begin;
}

/* Two parts of the window, cut anywhere. */
static void cut(const struct task *task, int32_t *data, struct aggregate_part parts[2])
{
	size_t at = task->window * 2 / 5;

	parts[0] = (struct aggregate_part){ data, at * 4 };
	parts[1] = (struct aggregate_part){ data + at + 7, (task->window - at) * 4 };
}

static size_t place(const struct task *task, size_t index)
{
	return index < task->window * 2 / 5 ? index : index + 7;
}

int task_post(struct party_member *member, size_t rank, const struct task *task, size_t number, struct task_slot *slot)
{
	struct aggregate_part parts[2];
	size_t elements = task->kind ? task->window + 7 : task->count, begin = 0, end = 0;

	slot->task = number;
	slot->send = malloc(elements * 4);
	slot->recv = task->in_place ? slot->send : malloc(elements * 4);
	assert_true(slot->send && slot->recv);
	if (!task->kind) {
		for (size_t i = 0; i < task->count; i++)
			slot->send[i] = value(rank, number, i);
		return aggregate_reduce_all(member->group, slot->send, slot->recv, task->count, REDUCE_INT32,
					    REDUCE_SUM, &slot->request);
	}
	slice(task, rank, &begin, &end);
	if (task->kind == 1) {
		for (size_t i = begin; i < end; i++)
			slot->send[i - begin] = value(rank, number, i);
		cut(task, slot->recv, parts);
		return aggregate_gather_all(member->group, rank, slot->send, 2, parts, task->count * 4,
					    task->offset * 4, task->window * 4, &slot->request);
	}
	for (size_t i = 0; i < task->window; i++)
		slot->send[place(task, i)] = value(rank, number, task->offset + i);
	cut(task, slot->send, parts);
	return aggregate_reduce_scatter(member->group, rank, 2, parts, slot->recv, task->count * 4, task->offset * 4,
					task->window * 4, REDUCE_INT32, REDUCE_SUM, &slot->request);
}

static int32_t sum(size_t members, size_t number, size_t i)
{
	uint32_t total = 0;

	for (size_t m = 0; m < members; m++)
		total += (uint32_t)value(m, number, i);
	return (int32_t)total;
}

void task_check(const struct task_slot *slot, const struct task *task, size_t members, size_t rank)
{
	size_t begin, end;

	if (task->kind == 0) {
		for (size_t i = 0; i < task->count; i++)
			assert_int_equal(slot->recv[i], sum(members, slot->task, i));
		return;
	}
	slice(task, rank, &begin, &end);
	for (size_t i = begin; task->kind == 2 && i < end; i++)
		assert_int_equal(slot->recv[i - begin], sum(members, slot->task, i));
	for (size_t i = 0; task->kind == 1 && i < task->window; i++)
		assert_int_equal(slot->recv[place(task, i)],
				 value((task->offset + i) / task->count, slot->task, task->offset + i));
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

static void step(struct party *party, size_t m, struct runner *runner, const struct task *tasks, size_t total,
		 struct random *random)
{
	struct task_slot *slot = &runner->slots[random_below(random, AGGREGATE_MAX_REQUESTS)];
	bool done = false;

	if (slot->send) {
		assert_int_equal(aggregate_test(slot->request, &done, NULL), 0);
		if (!done)
			return;
		task_check(slot, &tasks[slot->task], party->count, m);
		task_forget(slot);
		runner->done++;
	} else if (runner->posted < total && random_below(random, 3)) {
		assert_int_equal(task_post(&party->members[m], m, &tasks[runner->posted], runner->posted, slot), 0);
		assert_non_null(slot->request);
		runner->posted++;
	}
}

void tasks_run(struct party *party, const struct task *tasks, size_t total, struct random *random)
{
	struct runner *runners = calloc(party->count, sizeof(*runners));
	uint64_t seed = random->state, deadline_ns = runtime_deadline_ns(100000);
	size_t left = 1;

	assert_non_null(runners);
	while (left) {
		left = 0;
		for (size_t m = 0; m < party->count; m++) {
			/* One of them is slow for a while. */
			size_t steps = m == (runners[0].done / 16) % party->count ? 1 : 1 + random_below(random, 40);

			for (size_t i = 0; i < steps; i++)
				step(party, m, &runners[m], tasks, total, random);
			left += runners[m].done < total;
		}
		if (runtime_past(deadline_ns))
			fail_msg("seed %llx: %zu members wait; the first has done %zu of %zu", (unsigned long long)seed,
				 left, runners[0].done, total);
		runtime_nap();
	}
	free(runners);
}
