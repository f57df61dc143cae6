/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/aggregator/share.h"

#include "aggregate/aggregator/internal.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { USERS = 3 };
#define MOST    (UINT64_C(8) << 20)
#define QUANTUM (UINT64_C(512) << 10)

static void woken(void *arg)
{
	++*(unsigned *)arg;
}

struct jobs {
	struct aggregator_share share;
	struct aggregator_share_user users[USERS];
	unsigned wakes[USERS];
};

static void jobs_open(struct jobs *jobs)
{
	aggregator_share_init(&jobs->share, MOST, QUANTUM);
	for (unsigned i = 0; i < USERS; i++) {
		jobs->wakes[i] = 0;
		aggregator_share_join(&jobs->share, &jobs->users[i], woken, &jobs->wakes[i]);
	}
}

static void jobs_close(struct jobs *jobs)
{
	for (unsigned i = 0; i < USERS; i++)
		aggregator_share_leave(&jobs->users[i]);
	assert_null(jobs->share.users);
	aggregator_share_fini(&jobs->share);
}

static double jain(const uint64_t *bytes, unsigned count)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < count; i++) {
		sum += (double)bytes[i];
		squares += (double)bytes[i] * (double)bytes[i];
	}
	return sum * sum / (count * squares);
}

/* What was begun comes over one card, in the order in which it was begun. */
struct card {
	struct {
		unsigned user;
		uint64_t bytes, left;
	} queue[1 << 14];
	size_t head, tail;
};

static void card_takes(struct card *card, unsigned user, uint64_t bytes)
{
	size_t at = card->tail++ % (sizeof(card->queue) / sizeof(card->queue[0]));

	card->queue[at].user = user;
	card->queue[at].bytes = card->queue[at].left = bytes;
}

static void card_moves(struct card *card, struct jobs *jobs, uint64_t bytes, uint64_t *ret_bytes)
{
	while (bytes && card->head != card->tail) {
		size_t at = card->head % (sizeof(card->queue) / sizeof(card->queue[0]));
		uint64_t part = card->queue[at].left < bytes ? card->queue[at].left : bytes;

		card->queue[at].left -= part;
		bytes -= part;
		if (card->queue[at].left)
			return;
		card->head++;
		ret_bytes[card->queue[at].user] += card->queue[at].bytes;
		aggregator_share_end(&jobs->users[card->queue[at].user], card->queue[at].bytes);
	}
}

/*
 * A card that is busy all the time, and three groups that always have more, in segments of different sizes, and look at
 * different moments: each gets a third of the bytes.
 */
static void groups_that_always_have_more_get_the_same_bytes(void **state)
{
	static const uint64_t sizes[][USERS] = { { 512 << 10, 51 << 10, 51 << 10 },
						 { 512 << 10, 512 << 10, 51 << 10 },
						 { 4 << 20, 1 << 10, 100 << 10 } };
	static struct card card;
	uint64_t random = runtime_seed();

	(void)state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint64_t bytes[USERS] = { 0 };
		struct jobs jobs;

		jobs_open(&jobs);
		card.head = card.tail = 0;
		for (unsigned round = 0; round < 50000; round++) {
			unsigned i = (unsigned)random_below(&random, USERS);

			while (aggregator_share_begin(&jobs.users[i], sizes[s][i])) {
				card_takes(&card, i, sizes[s][i]);
			}
			assert_true(jobs.share.under_way_bytes <= MOST);
			card_moves(&card, &jobs, random_below(&random, 64 << 10), bytes);
		}
		if (jain(bytes, USERS) < 0.99)
			fail_msg("case %zu: %llu, %llu, %llu bytes", s, (unsigned long long)bytes[0],
				 (unsigned long long)bytes[1], (unsigned long long)bytes[2]);
		print_message("case %zu: Jain %.4f\n", s, jain(bytes, USERS));
		jobs_close(&jobs);
	}
}

/* What moves over the card in a turn, MOST under way at a time: the second group always has more. */
static void turn(struct jobs *jobs, struct card *card, uint64_t *bytes)
{
	while (aggregator_share_begin(&jobs->users[1], QUANTUM)) {
		card_takes(card, 1, QUANTUM);
	}
	card_moves(card, jobs, QUANTUM, bytes);
}

/* Operations of 8 MiB, and after each it has nothing to begin for as long as 8 MiB take over the card. */
static void who_rests_between_short_operations_gets_as_many_bytes(void **state)
{
	enum { SEGMENTS = 16, OPERATIONS = 200 };
	static struct card card;
	uint64_t bytes[USERS] = { 0 };
	struct jobs jobs;

	(void)state;
	jobs_open(&jobs);
	for (unsigned i = 0; i < 2; i++) /* 4 ms of it are less than the least */
		aggregator_share_rate(&jobs.users[i], 50000000);
	card.head = card.tail = 0;
	for (unsigned operation = 0; operation < OPERATIONS; operation++) {
		uint64_t until = bytes[0] + SEGMENTS * QUANTUM;

		for (unsigned begun = 0; bytes[0] < until; turn(&jobs, &card, bytes)) {
			while (begun < SEGMENTS && aggregator_share_begin(&jobs.users[0], QUANTUM)) {
				card_takes(&card, 0, QUANTUM);
				begun++;
			}
			if (begun == SEGMENTS)
				aggregator_share_rest(&jobs.users[0]);
		}
		for (unsigned i = 0; i < SEGMENTS; i++)
			turn(&jobs, &card, bytes);
	}
	print_message("Jain %.4f\n", jain(bytes, 2));
	assert_true(jain(bytes, 2) > 0.95);
	jobs_close(&jobs);
}

/* Alone one has all there is, and when another comes that is not held against it for more than a little, whoever comes first. */
static void a_long_rest_is_hardly_saved_up(void **state)
{
	static struct card card;

	(void)state;
	for (unsigned first = 0; first < 2; first++) {
		uint64_t bytes[USERS] = { 0 };
		struct jobs jobs;

		jobs_open(&jobs);
		card.head = card.tail = 0;
		for (unsigned i = 0; i < 10000; i++)
			turn(&jobs, &card, bytes);
		while (card.head != card.tail)
			card_moves(&card, &jobs, QUANTUM, bytes);
		aggregator_share_rest(&jobs.users[1]);
		if (first)
			turn(&jobs, &card, bytes);
		memset(bytes, 0, sizeof(bytes));
		for (unsigned i = 0; i < 1000; i++) {
			while (aggregator_share_begin(&jobs.users[0], QUANTUM)) {
				card_takes(&card, 0, QUANTUM);
			}
			turn(&jobs, &card, bytes);
		}
		print_message("%.0f and %.0f MiB\n", (double)bytes[0] / (1 << 20), (double)bytes[1] / (1 << 20));
		assert_true(bytes[0] <= bytes[1] + (AGGREGATOR_SHARE_SAVED + 2) * MOST);
		assert_true(bytes[1] <= bytes[0] + (AGGREGATOR_SHARE_SAVED + 2) * MOST);
		jobs_close(&jobs);
	}
}

static void who_waits_is_woken_when_there_is_room(void **state)
{
	struct jobs jobs;
	unsigned before;

	(void)state;
	jobs_open(&jobs);
	assert_true(aggregator_share_begin(&jobs.users[0], MOST));
	assert_false(aggregator_share_begin(&jobs.users[1], 1000));
	before = jobs.wakes[1];
	assert_int_equal(jobs.wakes[2], 0);
	aggregator_share_end(&jobs.users[0], MOST);
	assert_true(jobs.wakes[1] > before);
	assert_int_equal(jobs.wakes[2], 0); /* it does not wait */
	assert_true(aggregator_share_begin(&jobs.users[1], 1000));
	jobs_close(&jobs);
}

/* Longer than all there may be under way: it goes when nothing else is. */
static void the_longest_segment_gets_through(void **state)
{
	struct jobs jobs;

	(void)state;
	jobs_open(&jobs);
	assert_true(aggregator_share_begin(&jobs.users[0], 1));
	assert_false(aggregator_share_begin(&jobs.users[1], 2 * MOST));
	aggregator_share_end(&jobs.users[0], 1);
	assert_true(aggregator_share_begin(&jobs.users[1], 2 * MOST));
	jobs_close(&jobs);
}

static void who_leaves_holds_up_nobody(void **state)
{
	struct jobs jobs;

	(void)state;
	jobs_open(&jobs);
	assert_true(aggregator_share_begin(&jobs.users[0], MOST));
	assert_false(aggregator_share_begin(&jobs.users[1], 1000)); /* waits, with the least clock */
	aggregator_share_leave(&jobs.users[1]);
	aggregator_share_end(&jobs.users[0], MOST);
	for (unsigned i = 0; i < 100; i++) {
		assert_true(aggregator_share_begin(&jobs.users[2], 1 << 20));
		aggregator_share_end(&jobs.users[2], 1 << 20);
	}
	jobs_close(&jobs);
}

/*
 * One member of a host is late, whose HEADs those segments lack that it leads: what comes behind them is begun first, and has
 * all of the share. When it comes, its host has no receive left for those.
 */
static void a_segment_that_waits_hides_no_stalled_one_behind_it(void **state)
{
	enum { STALLED = 4, HOSTS = 8 };
	static struct aggregator_input inputs[HOSTS];
	struct aggregator_segment segments[1 + STALLED];
	struct aggregator_group group = { .segments_first = segments };
	struct aggregator_share share;
	unsigned wakes = 0;

	(void)state;
	aggregator_share_init(&share, MOST, QUANTUM);
	aggregator_share_join(&share, &group.user, woken, &wakes);
	for (size_t i = 0; i < 1 + STALLED; i++) {
		segments[i] = (struct aggregator_segment){ .group = &group,
							   .head = { .number = i, .bytes = MOST / STALLED / HOSTS },
							   .known = true,
							   .has_slots = true };
		segments[i].levels[AGGREGATOR_STAGE_LEAF] = (struct aggregator_level){ HOSTS, HOSTS, HOSTS, inputs,
										       NULL };
		segments[i].next = i < STALLED ? &segments[i + 1] : NULL;
		if (!i)
			continue;
		segments[i].begun = true;
		segments[i].share_bytes = MOST / STALLED;
		assert_true(aggregator_share_begin(&group.user, segments[i].share_bytes));
	}
	assert_int_equal(aggregator_segments_begin(&group, 1), 0);
	assert_false(segments[0].begun);
	for (int turn = 0; turn < 2; turn++)
		assert_int_equal(aggregator_segments_begin(&group, AGGREGATOR_SHARE_STALL_NS + 1), 0);
	assert_true(segments[0].begun && wakes);
	aggregator_share_leave(&group.user);
	aggregator_share_fini(&share);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_that_always_have_more_get_the_same_bytes),
		cmocka_unit_test(who_rests_between_short_operations_gets_as_many_bytes),
		cmocka_unit_test(a_long_rest_is_hardly_saved_up),
		cmocka_unit_test(who_waits_is_woken_when_there_is_room),
		cmocka_unit_test(the_longest_segment_gets_through),
		cmocka_unit_test(who_leaves_holds_up_nobody),
		cmocka_unit_test(a_segment_that_waits_hides_no_stalled_one_behind_it),
	};

	runtime_start("aggregator_share_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
