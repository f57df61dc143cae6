/*
 * Many operations at once, of all sizes and kinds, posted and tested in another rhythm by every member; gathers and
 * reduce-scatters; small operations beside large ones.
 */
#include "support/runtime.h"
#include "unit/aggregate/party.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATIONS = 120, OPERATIONS_LONG = 2000, LARGE = 1 << 20, LARGES = 4 };

/* What everybody knows of an operation. */
struct task {
	unsigned kind;         /* 0: reduction, 1: gather, 2: reduce-scatter */
	size_t count;          /* of int32 a member */
	size_t offset, window; /* of gather and scatter, in elements of the virtual buffer */
	bool in_place;
};

struct slot {
	struct aggregate_request *request;
	size_t task;
	int32_t *send, *recv;
	size_t bytes;
};

struct runner {
	struct slot slots[AGGREGATE_MAX_REQUESTS];
	size_t posted, done;
};

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

static void task_any(struct task *task, size_t members, struct random *random)
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

static int post(struct party_member *member, size_t rank, const struct task *task, size_t number, struct slot *slot)
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

static void check(const struct slot *slot, const struct task *task, size_t members, size_t rank)
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

static void step(struct party *party, size_t m, struct runner *runner, const struct task *tasks, size_t total,
		 struct random *random)
{
	struct slot *slot = &runner->slots[random_below(random, AGGREGATE_MAX_REQUESTS)];
	bool done = false;

	if (slot->send) {
		assert_int_equal(aggregate_test(slot->request, &done, NULL), 0);
		if (!done)
			return;
		check(slot, &tasks[slot->task], party->count, m);
		if (slot->recv != slot->send)
			free(slot->recv);
		free(slot->send);
		memset(slot, 0, sizeof(*slot));
		runner->done++;
	} else if (runner->posted < total && random_below(random, 3)) {
		assert_int_equal(post(&party->members[m], m, &tasks[runner->posted], runner->posted, slot), 0);
		assert_non_null(slot->request);
		runner->posted++;
	}
}

static void mixture(const char *leaves, size_t total, bool verify, uint64_t seed)
{
	struct runner *runners = calloc(PARTY_MAX, sizeof(*runners));
	struct task *tasks = calloc(total, sizeof(*tasks));
	uint64_t deadline_ns = runtime_deadline_ns(100000);
	struct params params;
	struct party party;
	struct random random;
	size_t left = 1;

	random_init(&random, seed);
	party_params(&params);
	params.verify = verify;
	assert_int_equal(party_open(&party, &params, leaves), 0);
	for (size_t i = 0; i < total; i++)
		task_any(&tasks[i], party.count, &random);
	while (left) {
		left = 0;
		for (size_t m = 0; m < party.count; m++) {
			/* One of them is slow for a while. */
			size_t steps = m == (runners[0].done / 16) % party.count ? 1 : 1 + random_below(&random, 40);

			for (size_t i = 0; i < steps; i++)
				step(&party, m, &runners[m], tasks, total, &random);
			left += runners[m].done < total;
		}
		if (runtime_past(deadline_ns))
			fail_msg("%s, seed %llx: %zu members wait; the first has done %zu of %zu", leaves,
				 (unsigned long long)seed, left, runners[0].done, total);
		runtime_nap();
	}
	party_close(&party);
	free(runners);
	free(tasks);
}

static void operations_of_all_kinds_at_once(void **state)
{
	static const char *const leaves[] = { "aaaa", "aab", "a2b2c", "aabbb" };
	size_t total = runtime_long() ? OPERATIONS_LONG : OPERATIONS;

	(void)state;
	for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++)
		mixture(leaves[i], total, i == 1, runtime_seed() + i);
}

/*
 * A small operation is through before a large one that was posted before it. This process may get no time to see it, so
 * it may try again; where small ones wait it never sees it.
 */
static bool small_one_first(struct party *party, const float *send, float *const *recv)
{
	struct aggregate_request *large[LARGES][PARTY_MAX] = { 0 }, *small[PARTY_MAX] = { 0 };
	bool done = false, first;

	for (size_t m = 0; m < party->count; m++) {
		for (size_t i = 0; i < LARGES; i++)
			assert_int_equal(party_reduce(&party->members[m], send, recv[m] + i * LARGE, LARGE,
						      REDUCE_FLOAT32, REDUCE_SUM, &large[i][m]),
					 0);
		assert_int_equal(party_reduce(&party->members[m], send, recv[m] + LARGES * LARGE, 1, REDUCE_FLOAT32,
					      REDUCE_SUM, &small[m]),
				 0);
	}
	assert_int_equal(party_finish(party, small), 0);
	assert_int_equal(aggregate_test(large[LARGES - 1][0], &done, NULL), 0);
	first = !done;
	if (done)
		large[LARGES - 1][0] = NULL;
	for (size_t i = 0; i < LARGES; i++)
		assert_int_equal(party_finish(party, large[i]), 0);
	return first;
}

static void small_ones_do_not_wait_for_large_ones(void **state)
{
	float *send = calloc(LARGE, sizeof(float)), *recv[3];
	struct params params;
	struct party party;
	bool first = false;

	(void)state;
	party_params(&params);
	assert_int_equal(party_open(&party, &params, "aaa"), 0);
	for (size_t m = 0; m < 3; m++)
		recv[m] = calloc(LARGES * LARGE + 1, sizeof(float));
	for (unsigned i = 0; i < 20 && !first; i++)
		first = small_one_first(&party, send, recv);
	assert_true(first);
	for (size_t m = 0; m < 3; m++)
		free(recv[m]);
	free(send);
	party_close(&party);
}

/*
 * A member posts a large operation and waits for it before it posts the small ones behind it; their messages from the others
 * lie there all that time, and must not be in the way of the thousands that the large one takes.
 */
static void a_large_one_is_not_held_up_by_what_is_not_posted(void **state)
{
	enum { COUNT = 24 << 20, SMALLS = 12, SMALL = 300 };
	struct aggregate_request *large[PARTY_MAX] = { 0 }, *small[SMALLS][PARTY_MAX] = { 0 };
	uint8_t *data[2], *some[2];
	struct params params;
	struct party party;

	(void)state;
	party_params(&params);
	params.aggregate_segment_bytes = 16 << 10;
	assert_int_equal(party_open(&party, &params, "aa"), 0);
	for (size_t m = 0; m < 2; m++) {
		data[m] = calloc(COUNT, 1);
		some[m] = calloc(SMALLS, SMALL);
		memset(data[m], (int)m + 1, COUNT);
		assert_int_equal(
			party_reduce(&party.members[m], data[m], data[m], COUNT, REDUCE_UINT8, REDUCE_SUM, &large[m]),
			0);
		for (size_t i = 0; i < SMALLS && m == 0; i++)
			assert_int_equal(party_reduce(&party.members[m], some[m], some[m] + i * SMALL, SMALL,
						      REDUCE_UINT8, REDUCE_SUM, &small[i][m]),
					 0);
	}
	assert_int_equal(party_finish(&party, large), 0);
	for (size_t i = 0; i < SMALLS; i++) {
		assert_int_equal(party_reduce(&party.members[1], some[1], some[1] + i * SMALL, SMALL, REDUCE_UINT8,
					      REDUCE_SUM, &small[i][1]),
				 0);
		assert_int_equal(party_finish(&party, small[i]), 0);
	}
	for (size_t i = 0; i < COUNT; i++)
		if (data[0][i] != 3 || data[1][i] != 3)
			fail_msg("element %zu: %u and %u", i, data[0][i], data[1][i]);
	party_close(&party);
	for (size_t m = 0; m < 2; m++) {
		free(data[m]);
		free(some[m]);
	}
}

static void more_than_32_are_come_again(void **state)
{
	struct aggregate_request *requests[2][AGGREGATE_MAX_REQUESTS + 1] = { 0 };
	float numbers[AGGREGATE_MAX_REQUESTS + 1] = { 0 };
	struct params params;
	struct party party;

	(void)state;
	party_params(&params);
	assert_int_equal(party_open(&party, &params, "--"), 0);
	for (size_t i = 0; i <= AGGREGATE_MAX_REQUESTS; i++)
		assert_int_equal(aggregate_reduce_all(party.members[0].group, numbers + i, numbers + i, 1,
						      REDUCE_FLOAT32, REDUCE_MAX, &requests[0][i]),
				 0);
	assert_non_null(requests[0][AGGREGATE_MAX_REQUESTS - 1]);
	assert_null(requests[0][AGGREGATE_MAX_REQUESTS]);
	for (size_t i = 0; i < AGGREGATE_MAX_REQUESTS; i++) {
		struct aggregate_request *both[PARTY_MAX] = { requests[0][i] };
		float other = (float)i;

		assert_int_equal(
			party_reduce(&party.members[1], &other, &other, 1, REDUCE_FLOAT32, REDUCE_MAX, &both[1]), 0);
		assert_int_equal(party_finish(&party, both), 0);
		assert_true(other == (float)i && numbers[i] == (float)i);
	}
	party_close(&party);
}

static void wrong_arguments_are_refused(void **state)
{
	struct aggregate_request *request;
	struct aggregate_part part = { &part, 8 };
	struct params params;
	struct party party;
	float number = 0;

	(void)state;
	party_params(&params);
	assert_int_equal(party_open(&party, &params, "-"), 0);
	assert_int_equal(aggregate_reduce_all(party.members[0].group, &number, &number, 1, REDUCE_TYPE_COUNT,
					      REDUCE_SUM, &request),
			 -EINVAL);
	assert_int_equal(aggregate_reduce_all(party.members[0].group, &number, &number, SIZE_MAX / 2, REDUCE_FLOAT32,
					      REDUCE_SUM, &request),
			 -EINVAL);
	assert_int_equal(
		aggregate_reduce_all(party.members[0].group, NULL, &number, 1, REDUCE_FLOAT32, REDUCE_SUM, &request),
		-EINVAL);
	/* A rank that is none; parts that are not the window; a window beyond the buffer. */
	assert_int_equal(aggregate_gather_all(party.members[0].group, 1, &number, 1, &part, 8, 0, 8, &request),
			 -EINVAL);
	assert_int_equal(aggregate_gather_all(party.members[0].group, 0, &number, 1, &part, 16, 0, 16, &request),
			 -EINVAL);
	assert_int_equal(aggregate_gather_all(party.members[0].group, 0, &number, 1, &part, 8, 4, 8, &request),
			 -EINVAL);
	party_close(&party);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_of_all_kinds_at_once),
		cmocka_unit_test(small_ones_do_not_wait_for_large_ones),
		cmocka_unit_test(a_large_one_is_not_held_up_by_what_is_not_posted),
		cmocka_unit_test(more_than_32_are_come_again),
		cmocka_unit_test(wrong_arguments_are_refused),
	};

	(void)argc;
	runtime_start(argv[0], 400);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
