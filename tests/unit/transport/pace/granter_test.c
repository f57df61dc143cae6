/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "transport/pace/granter.h"

enum { QUANTUM = 1000, STALL_NS = 100 };

static void grant_is_cut_into_quanta_and_never_leaves_a_crumb(void **state)
{
	struct pace_granter granter;
	struct pace_flow flow = { 0 };

	(void)state;
	pace_granter_init(&granter, 100 * QUANTUM, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &flow, NULL, 2 * QUANTUM + 499, 1);
	assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 1), &flow);
	assert_int_equal(flow.granted_bytes, QUANTUM);
	assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 1), &flow);
	assert_int_equal(flow.granted_bytes, 2 * QUANTUM + 499);
	assert_null(pace_granter_next(&granter, UINT64_MAX, 1));
	assert_int_equal(granter.outstanding_bytes, 2 * QUANTUM + 499);
	pace_granter_delivered(&granter, &flow, 2 * QUANTUM + 499, 2);
	assert_int_equal(granter.outstanding_bytes, 0);
	pace_granter_remove(&granter, &flow);
	pace_granter_remove(&granter, &flow);
	assert_int_equal(granter.outstanding_bytes, 0);
}

static void grants_stop_at_the_budget_and_at_the_allowance(void **state)
{
	struct pace_granter granter;
	struct pace_flow flow = { 0 };

	(void)state;
	pace_granter_init(&granter, 3 * QUANTUM, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &flow, NULL, 100 * QUANTUM, 1);
	assert_non_null(pace_granter_next(&granter, QUANTUM, 1));
	assert_null(pace_granter_next(&granter, QUANTUM - 1, 1));
	assert_non_null(pace_granter_next(&granter, UINT64_MAX, 1));
	assert_non_null(pace_granter_next(&granter, UINT64_MAX, 1));
	assert_null(pace_granter_next(&granter, UINT64_MAX, 1));
	assert_false(pace_granter_may_give(&granter));
	pace_granter_delivered(&granter, &flow, QUANTUM - 1, 2);
	assert_null(pace_granter_next(&granter, UINT64_MAX, 2));
	pace_granter_delivered(&granter, &flow, 1, 2);
	assert_true(pace_granter_may_give(&granter));
	assert_non_null(pace_granter_next(&granter, UINT64_MAX, 2));
	assert_int_equal(granter.outstanding_bytes, 3 * QUANTUM);
}

static void what_came_unscheduled_is_charged(void **state)
{
	struct pace_granter granter;
	struct pace_flow flow = { 0 }, whole = { 0 };

	(void)state;
	pace_granter_init(&granter, 3 * QUANTUM, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &flow, NULL, 10 * QUANTUM, 1);
	pace_granter_charge(&granter, &flow, 4 * QUANTUM);
	assert_int_equal(granter.outstanding_bytes, 4 * QUANTUM);
	assert_null(pace_granter_next(&granter, UINT64_MAX, 1)); /* over its budget */
	pace_granter_delivered(&granter, &flow, 2 * QUANTUM, 2);
	assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 2), &flow);
	assert_int_equal(flow.granted_bytes, 5 * QUANTUM);
	pace_granter_add(&granter, &whole, NULL, QUANTUM, 2);
	pace_granter_charge(&granter, &whole, QUANTUM);
	assert_false(whole.waits);
	pace_granter_delivered(&granter, &whole, QUANTUM, 3);
	pace_granter_remove(&granter, &whole);
	pace_granter_remove(&granter, &flow);
	assert_int_equal(granter.outstanding_bytes, 0);
	assert_int_equal(granter.waiting_count, 0);
}

static void oldest_and_smallest_take_turns(void **state)
{
	struct pace_granter granter;
	struct pace_flow old = { 0 }, middle = { 0 }, small = { 0 };
	struct pace_flow *const expected[] = { &old, &small, &old, &small, &old, &small, &old };

	(void)state;
	pace_granter_init(&granter, 100 * QUANTUM, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &old, NULL, 50 * QUANTUM, 1);
	pace_granter_add(&granter, &middle, NULL, 40 * QUANTUM, 2);
	pace_granter_add(&granter, &small, NULL, 20 * QUANTUM, 3);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 4), expected[i]);
}

/* The one that waits in vain for longest, and of two the one that came first. */
static void of_flows_passed_over_alike_the_older_is_served_first(void **state)
{
	enum { TURNS = 4 * PACE_PASSED_OVER_FACTOR };
	struct pace_granter granter;
	struct pace_flow flows[4];

	(void)state;
	memset(flows, 0, sizeof(flows));
	pace_granter_init(&granter, 100 * QUANTUM, QUANTUM, STALL_NS);
	for (unsigned i = 0; i < 4; i++)
		pace_granter_add(&granter, &flows[i], NULL, (i == 3 ? 20 : 40) * QUANTUM, 1);
	for (unsigned i = 0; i < TURNS; i++)
		assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 2), &flows[i % 2 ? 3 : 0]);
	assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 2), &flows[1]);
	assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 2), &flows[2]);
	assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 2), &flows[0]);
}

static void smallest_first_never_has_more_than_half_of_the_bytes(void **state)
{
	struct pace_granter granter;
	struct pace_flow old = { 0 }, small[4];
	uint64_t small_bytes = 0, old_bytes = 0;
	unsigned count = 0;

	(void)state;
	memset(small, 0, sizeof(small));
	pace_granter_init(&granter, 20 * QUANTUM, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &old, NULL, 1ULL << 40, 1);
	/* A stream of small ones of 1.4 quanta, which by turns alone would have seven twelfths. */
	for (unsigned i = 0; i < 4; i++)
		pace_granter_add(&granter, &small[i], NULL, QUANTUM + 400, 2);
	for (unsigned i = 0; i < 100000; i++) {
		struct pace_flow *flow = pace_granter_next(&granter, UINT64_MAX, 3);
		uint64_t bytes = granter.outstanding_bytes;

		assert_non_null(flow);
		pace_granter_delivered(&granter, flow, bytes, 3);
		if (flow == &old) {
			old_bytes += bytes;
		} else {
			small_bytes += bytes;
			count++;
			pace_granter_remove(&granter, flow);
			pace_granter_add(&granter, flow, NULL, QUANTUM + 400, 3);
		}
		/* What was passed over for too long goes first in either order, and is counted on neither side here. */
		assert_true(small_bytes <= old_bytes + 2 * QUANTUM);
	}
	assert_true(count > 10000);
}

static void equal_flows_are_served_in_the_order_they_came(void **state)
{
	struct pace_granter granter;
	struct pace_flow flows[5];

	(void)state;
	memset(flows, 0, sizeof(flows));
	pace_granter_init(&granter, QUANTUM, QUANTUM, STALL_NS);
	/* Added out of order, as threads may: the age decides. */
	for (size_t i = 0; i < 5; i++)
		pace_granter_add(&granter, &flows[(i * 3) % 5], NULL, QUANTUM, (i * 3) % 5);
	for (size_t i = 0; i < 5; i++) {
		assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 9), &flows[i]);
		assert_null(pace_granter_next(&granter, UINT64_MAX, 9));
		pace_granter_delivered(&granter, &flows[i], QUANTUM, 9);
	}
}

/* Three messages of each sender, one sender after the other: all get their first before anybody gets a second. */
static void of_senders_who_send_to_others_too_who_holds_least_is_next(void **state)
{
	enum { SENDERS = 4, EACH = 3 };
	struct pace_flow flows[SENDERS][EACH];
	uint64_t held[SENDERS] = { 0 };
	struct pace_granter granter;

	(void)state;
	memset(flows, 0, sizeof(flows));
	pace_granter_init(&granter, 100 * QUANTUM, QUANTUM, STALL_NS);
	for (size_t i = 0; i < SENDERS; i++)
		for (size_t j = 0; j < EACH; j++)
			pace_granter_add(&granter, &flows[i][j], &held[i], QUANTUM, i * EACH + j);
	for (size_t j = 0; j + 1 < EACH; j++)
		for (size_t i = 0; i < SENDERS; i++)
			assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 20), &flows[i][j]);
	/* Whose bytes come is served again; who is slow waits. */
	pace_granter_delivered(&granter, &flows[2][0], QUANTUM, 21);
	assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 21), &flows[2][2]);
	for (size_t i = 0; i < SENDERS; i++) {
		assert_int_equal(held[i], 2 * QUANTUM);
		for (size_t j = 0; j < EACH; j++)
			pace_granter_remove(&granter, &flows[i][j]);
		assert_int_equal(held[i], 0);
	}
	assert_int_equal(granter.outstanding_bytes, 0);
}

/* The network may hold each flow to a part of the port: then it idles while one waits for what others have. */
static void a_sender_that_comes_late_is_served_at_once(void **state)
{
	struct pace_flow flows[3];
	uint64_t held[3] = { 0 };
	struct pace_granter granter;

	(void)state;
	memset(flows, 0, sizeof(flows));
	pace_granter_init(&granter, 20 * QUANTUM, QUANTUM, STALL_NS);
	pace_granter_resize(&granter, 20 * QUANTUM, 5 * QUANTUM);
	for (size_t i = 0; i < 2; i++)
		pace_granter_add(&granter, &flows[i], &held[i], 15 * QUANTUM, i);
	while (pace_granter_next(&granter, UINT64_MAX, 10))
		;
	assert_int_equal(granter.outstanding_bytes, 20 * QUANTUM);
	pace_granter_add(&granter, &flows[2], &held[2], 100 * QUANTUM, 11);
	/* The others are older, and have less left. */
	pace_granter_delivered(&granter, &flows[0], QUANTUM, 12);
	assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 12), &flows[2]);
	assert_int_equal(held[2], QUANTUM);
	/* It holds a small grant now, so the next one is a whole one again. */
	pace_granter_delivered(&granter, &flows[1], 4 * QUANTUM, 13);
	assert_null(pace_granter_next(&granter, UINT64_MAX, 13));
	pace_granter_delivered(&granter, &flows[1], QUANTUM, 14);
	assert_non_null(pace_granter_next(&granter, UINT64_MAX, 14));
	assert_null(pace_granter_next(&granter, UINT64_MAX, 14));
	/* Whoever is through is, too, although a whole grant has no room. */
	pace_granter_delivered(&granter, &flows[2], held[2], 15);
	assert_true(pace_granter_may_give(&granter));
	assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, 15), &flows[2]);
	for (size_t i = 0; i < 3; i++)
		pace_granter_remove(&granter, &flows[i]);
}

/* Else each delivery would bring one, as all their senders hold little. */
static void where_many_wait_there_are_no_small_grants(void **state)
{
	enum { MANY = 12 };
	struct pace_flow flows[MANY];
	uint64_t held[MANY] = { 0 };
	struct pace_granter granter;

	(void)state;
	memset(flows, 0, sizeof(flows));
	pace_granter_init(&granter, 20 * QUANTUM, QUANTUM, STALL_NS);
	pace_granter_resize(&granter, 20 * QUANTUM, 5 * QUANTUM);
	for (size_t i = 0; i < MANY; i++)
		pace_granter_add(&granter, &flows[i], &held[i], 100 * QUANTUM, i);
	while (pace_granter_next(&granter, UINT64_MAX, 20))
		;
	assert_int_equal(granter.outstanding_bytes, 20 * QUANTUM);
	pace_granter_delivered(&granter, &flows[0], QUANTUM, 21);
	assert_null(pace_granter_next(&granter, UINT64_MAX, 21));
	pace_granter_delivered(&granter, &flows[0], 4 * QUANTUM, 22);
	assert_non_null(pace_granter_next(&granter, UINT64_MAX, 22));
	for (size_t i = 0; i < MANY; i++)
		pace_granter_remove(&granter, &flows[i]);
}

static void a_flow_of_many_gigabytes_is_granted_to_its_end(void **state)
{
	const uint64_t total = (5ULL << 32) + 123, quantum = 1ULL << 30;
	struct pace_granter granter;
	struct pace_flow flow = { 0 };
	uint64_t last = 0;

	(void)state;
	pace_granter_init(&granter, 4 * quantum, quantum, STALL_NS);
	pace_granter_add(&granter, &flow, NULL, total, 1);
	while (flow.delivered_bytes < total) {
		while (pace_granter_next(&granter, UINT64_MAX, 1))
			;
		assert_true(flow.granted_bytes > last);
		last = flow.granted_bytes;
		assert_true(granter.outstanding_bytes <= 4 * quantum);
		pace_granter_delivered(&granter, &flow, granter.outstanding_bytes, 1);
	}
	assert_true(flow.granted_bytes == total);
	assert_true(last > UINT32_MAX);
}

static void an_empty_pool_grants_one_quantum_whatever_the_budget(void **state)
{
	struct pace_granter granter;
	struct pace_flow flow = { 0 }, second = { 0 };

	(void)state;
	pace_granter_init(&granter, 0, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &flow, NULL, 3 * QUANTUM, 1);
	pace_granter_add(&granter, &second, NULL, 10, 1);
	assert_ptr_equal(pace_granter_next(&granter, 0, 1), &flow);
	assert_int_equal(flow.granted_bytes, QUANTUM);
	assert_null(pace_granter_next(&granter, UINT64_MAX, 1));
	pace_granter_delivered(&granter, &flow, QUANTUM - 1, 1);
	assert_null(pace_granter_next(&granter, UINT64_MAX, 1));
	pace_granter_delivered(&granter, &flow, 1, 1);
	assert_non_null(pace_granter_next(&granter, 0, 1));
	/* Larger grants for a larger budget are no reason to go over a small allowance. */
	pace_granter_remove(&granter, &flow);
	pace_granter_remove(&granter, &second);
	pace_granter_resize(&granter, 100 * QUANTUM, 10 * QUANTUM);
	pace_granter_add(&granter, &flow, NULL, 50 * QUANTUM, 1);
	assert_non_null(pace_granter_next(&granter, 0, 1));
	assert_int_equal(granter.outstanding_bytes, QUANTUM);
}

static void a_stalled_flow_is_forgiven_and_charged_again_when_it_comes_back(void **state)
{
	struct pace_granter granter;
	struct pace_flow dead = { 0 }, alive = { 0 };

	(void)state;
	pace_granter_init(&granter, 2 * QUANTUM, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &dead, NULL, 10 * QUANTUM, 1);
	while (pace_granter_next(&granter, UINT64_MAX, 1))
		;
	assert_int_equal(dead.granted_bytes, 2 * QUANTUM);
	pace_granter_add(&granter, &alive, NULL, 10 * QUANTUM, 2);
	assert_false(pace_granter_forgive(&granter, STALL_NS));
	assert_null(pace_granter_next(&granter, UINT64_MAX, STALL_NS));
	assert_true(pace_granter_forgive(&granter, STALL_NS + 1));
	assert_false(pace_granter_forgive(&granter, STALL_NS + 1));
	assert_int_equal(granter.outstanding_bytes, 0);
	/* The dead one is the oldest, but gets no more until it shows that it lives. */
	while (pace_granter_next(&granter, UINT64_MAX, STALL_NS + 2))
		;
	assert_int_equal(dead.granted_bytes, 2 * QUANTUM);
	assert_int_equal(alive.granted_bytes, 2 * QUANTUM);
	pace_granter_delivered(&granter, &dead, 1, STALL_NS + 3);
	assert_int_equal(granter.outstanding_bytes, 2 * QUANTUM + 2 * QUANTUM - 1);
	pace_granter_delivered(&granter, &dead, 2 * QUANTUM - 1, STALL_NS + 3);
	assert_int_equal(granter.outstanding_bytes, 2 * QUANTUM);
	pace_granter_delivered(&granter, &alive, 2 * QUANTUM, STALL_NS + 3);
	assert_ptr_equal(pace_granter_next(&granter, UINT64_MAX, STALL_NS + 3), &dead);
}

static void grants_to_a_flow_that_delivers_nothing_do_not_put_off_its_stall(void **state)
{
	struct pace_granter granter;
	struct pace_flow dead = { 0 };

	(void)state;
	pace_granter_init(&granter, 100 * QUANTUM, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &dead, NULL, 10 * QUANTUM, 1);
	for (uint64_t now_ns = 1; now_ns < 10; now_ns++)
		assert_ptr_equal(pace_granter_next(&granter, QUANTUM, now_ns), &dead);
	assert_true(pace_granter_forgive(&granter, STALL_NS + 1));
	/* A flow that holds nothing is not stalled, however long it waits. */
	pace_granter_remove(&granter, &dead);
	pace_granter_add(&granter, &dead, NULL, 10 * QUANTUM, 1);
	assert_false(pace_granter_forgive(&granter, 1000 * STALL_NS));
	assert_non_null(pace_granter_next(&granter, QUANTUM, 1000 * STALL_NS));
	assert_false(pace_granter_forgive(&granter, 1000 * STALL_NS + 1));
}

static void a_flow_that_ends_midway_gives_back_what_it_held(void **state)
{
	struct pace_granter granter;
	struct pace_flow first = { 0 }, second = { 0 };

	(void)state;
	pace_granter_init(&granter, 2 * QUANTUM, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &first, NULL, 10 * QUANTUM, 1);
	pace_granter_add(&granter, &second, NULL, 10 * QUANTUM, 2);
	while (pace_granter_next(&granter, UINT64_MAX, 3))
		;
	pace_granter_delivered(&granter, &first, 10, 3);
	pace_granter_remove(&granter, &first);
	assert_int_equal(granter.waiting_count, 1);
	assert_int_equal(granter.outstanding_bytes, second.granted_bytes);
	/* Forgiven first, then removed: given back once. */
	pace_granter_forgive(&granter, 1000 * STALL_NS);
	assert_int_equal(granter.outstanding_bytes, 0);
	pace_granter_remove(&granter, &second);
	assert_int_equal(granter.outstanding_bytes, 0);
	assert_int_equal(granter.waiting_count, 0);
	assert_null(pace_granter_next(&granter, UINT64_MAX, 4));
	pace_granter_delivered(&granter, &second, 5, 4);
	assert_int_equal(granter.outstanding_bytes, 0);
}

static void bytes_beyond_the_grant_do_not_upset_the_pool(void **state)
{
	struct pace_granter granter;
	struct pace_flow flow = { 0 };

	(void)state;
	pace_granter_init(&granter, QUANTUM, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &flow, NULL, 3 * QUANTUM, 1);
	assert_non_null(pace_granter_next(&granter, UINT64_MAX, 1));
	pace_granter_delivered(&granter, &flow, 2 * QUANTUM, 1);
	assert_int_equal(granter.outstanding_bytes, 0);
	assert_int_equal(flow.granted_bytes, 2 * QUANTUM);
	pace_granter_delivered(&granter, &flow, 50 * QUANTUM, 1);
	assert_int_equal(granter.outstanding_bytes, 0);
	assert_int_equal(granter.waiting_count, 0);
	assert_null(pace_granter_next(&granter, UINT64_MAX, 1));
}

/* ------------------------------------------------------------------------------------------------ random schedules */

enum { FLOWS = 24, SENDERS = 5 };

struct model {
	uint64_t seed, random, now_ns;
	struct pace_granter granter;
	struct pace_flow flows[FLOWS];
	uint64_t sender_held[SENDERS];
	bool stalled[FLOWS];
	uint64_t passed[FLOWS], most_waiting[FLOWS]; /* grants to others since it waits; most that waited with it */
	uint64_t grants, returns;
};

static void check_conservation(const struct model *model)
{
	uint64_t held = 0, of_senders[SENDERS] = { 0 };
	size_t waiting = 0;

	for (size_t i = 0; i < FLOWS; i++) {
		const struct pace_flow *flow = &model->flows[i];

		if (!flow->listed)
			continue;
		if (flow->granted_bytes > flow->total_bytes || flow->delivered_bytes > flow->granted_bytes)
			fail_msg("seed %llu: flow %zu out of order", (unsigned long long)model->seed, i);
		held += flow->forgiven ? 0 : flow->granted_bytes - flow->delivered_bytes;
		if (flow->sender_held_bytes && !flow->forgiven)
			of_senders[flow->sender_held_bytes - model->sender_held] += flow->granted_bytes -
										    flow->delivered_bytes;
		waiting += !flow->forgiven && flow->granted_bytes < flow->total_bytes;
	}
	if (held != model->granter.outstanding_bytes || waiting != model->granter.waiting_count)
		fail_msg("seed %llu: %llu bytes held, %llu booked; %zu wait, %zu booked",
			 (unsigned long long)model->seed, (unsigned long long)held,
			 (unsigned long long)model->granter.outstanding_bytes, waiting, model->granter.waiting_count);
	if (memcmp(of_senders, model->sender_held, sizeof(of_senders)) != 0)
		fail_msg("seed %llu: what senders hold is not what their flows hold", (unsigned long long)model->seed);
}

static void check_grant(struct model *model, const struct pace_flow *to, uint64_t before_bytes, uint64_t room_bytes)
{
	uint64_t given = model->granter.outstanding_bytes - before_bytes;

	if (given > room_bytes && (before_bytes || given > model->granter.quantum_bytes))
		fail_msg("seed %llu: a grant of %llu with room for %llu", (unsigned long long)model->seed,
			 (unsigned long long)given, (unsigned long long)room_bytes);
	for (size_t i = 0; i < FLOWS; i++) {
		struct pace_flow *flow = &model->flows[i];

		if (flow == to) {
			model->passed[i] = 0;
			model->most_waiting[i] = 0;
		} else if (flow->listed && flow->waits) {
			model->passed[i]++;
			if (model->passed[i] >= (PACE_PASSED_OVER_FACTOR + 1) * model->most_waiting[i])
				fail_msg("seed %llu: flow %zu passed over %llu times with at most %llu waiting",
					 (unsigned long long)model->seed, i, (unsigned long long)model->passed[i],
					 (unsigned long long)model->most_waiting[i]);
		}
	}
}

static void note_waiting(struct model *model)
{
	for (size_t i = 0; i < FLOWS; i++) {
		if (!model->flows[i].listed || !model->flows[i].waits) {
			model->passed[i] = 0;
			model->most_waiting[i] = 0;
		} else if (model->most_waiting[i] < model->granter.waiting_count) {
			model->most_waiting[i] = model->granter.waiting_count;
		}
	}
}

static void grant_all(struct model *model)
{
	uint64_t allowance = random_below(&model->random, 3) ? UINT64_MAX : random_below(&model->random, 5000);

	for (;;) {
		uint64_t before = model->granter.outstanding_bytes, room = allowance;
		struct pace_flow *flow;

		note_waiting(model);
		if (model->granter.budget_bytes < before)
			room = 0;
		else if (room > model->granter.budget_bytes - before)
			room = model->granter.budget_bytes - before;
		flow = pace_granter_next(&model->granter, allowance, model->now_ns);
		if (!flow)
			return;
		check_grant(model, flow, before, room);
		allowance -= allowance < model->granter.outstanding_bytes - before
				     ? allowance
				     : model->granter.outstanding_bytes - before;
		model->grants++;
	}
}

static uint64_t random_size(struct model *model)
{
	switch (random_below(&model->random, 4)) {
	case 0:
		return 1 + random_below(&model->random, 100);
	case 1:
		return 1 + random_below(&model->random, 3 * QUANTUM);
	case 2:
		return 1 + random_below(&model->random, 100 * QUANTUM);
	default:
		return 1ULL << 40; /* never ends */
	}
}

static void step(struct model *model)
{
	size_t i = random_below(&model->random, FLOWS);
	struct pace_flow *flow = &model->flows[i];
	uint64_t held = flow->granted_bytes - flow->delivered_bytes;

	model->now_ns += random_below(&model->random, 10);
	switch (random_below(&model->random, 20)) {
	case 0:
		pace_granter_remove(&model->granter, flow);
		break;
	case 1:
		model->stalled[i] = !model->stalled[i];
		break;
	case 2:
		pace_granter_forgive(&model->granter, model->now_ns);
		break;
	case 3:
		pace_granter_resize(&model->granter, random_below(&model->random, 12) * QUANTUM,
				    random_below(&model->random, 3) * QUANTUM);
		break;
	default:
		if (!flow->listed) {
			uint64_t *held_bytes = &model->sender_held[random_below(&model->random, SENDERS)];

			pace_granter_add(&model->granter, flow, random_below(&model->random, 3) ? held_bytes : NULL,
					 random_size(model), model->now_ns);
			if (random_below(&model->random, 4) == 0)
				pace_granter_charge(&model->granter, flow,
						    1 + random_below(&model->random, flow->total_bytes));
			model->stalled[i] = false;
		} else if (held && !model->stalled[i]) {
			model->returns += flow->forgiven;
			pace_granter_delivered(
				&model->granter, flow,
				1 + random_below(&model->random, random_below(&model->random, 2) ? held : 1),
				model->now_ns);
			if (flow->delivered_bytes == flow->total_bytes)
				pace_granter_remove(&model->granter, flow);
		}
	}
}

static void random_schedules_conserve_the_budget_and_starve_no_flow(void **state)
{
	uint64_t grants = 0, returns = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 4000; seed++) {
		struct model model = { .seed = seed, .random = seed };

		pace_granter_init(&model.granter, (1 + random_below(&model.random, 12)) * QUANTUM, QUANTUM, STALL_NS);
		for (unsigned i = 0; i < 400; i++) {
			step(&model);
			note_waiting(&model);
			grant_all(&model);
			check_conservation(&model);
		}
		for (size_t i = 0; i < FLOWS; i++)
			pace_granter_remove(&model.granter, &model.flows[i]);
		assert_int_equal(model.granter.outstanding_bytes, 0);
		assert_true(TAILQ_EMPTY(&model.granter.waiting));
		assert_true(TAILQ_EMPTY(&model.granter.holding));
		grants += model.grants;
		returns += model.returns;
	}
	/* The schedules did reach what they are to test. */
	assert_true(grants > 100000);
	assert_true(returns > 1000);
}

static void a_middle_flow_is_served_between_a_huge_old_one_and_endless_small_ones(void **state)
{
	struct pace_granter granter;
	struct pace_flow huge = { 0 }, middle = { 0 }, small[2];
	unsigned passed = 0, served = 0;

	(void)state;
	memset(small, 0, sizeof(small));
	pace_granter_init(&granter, QUANTUM, QUANTUM, STALL_NS);
	pace_granter_add(&granter, &huge, NULL, 1ULL << 40, 1);
	pace_granter_add(&granter, &middle, NULL, 1ULL << 39, 2);
	for (unsigned i = 0; i < 2; i++)
		pace_granter_add(&granter, &small[i], NULL, QUANTUM, 3);
	for (unsigned i = 0; i < 1000; i++) {
		struct pace_flow *flow = pace_granter_next(&granter, UINT64_MAX, 4);

		assert_non_null(flow);
		pace_granter_delivered(&granter, flow, granter.outstanding_bytes, 4);
		if (flow == &middle) {
			passed = 0;
			served++;
		} else {
			assert_true(++passed < 5 * 4);
		}
		if (flow == &small[0] || flow == &small[1]) {
			pace_granter_remove(&granter, flow);
			pace_granter_add(&granter, flow, NULL, QUANTUM, 4);
		}
	}
	assert_true(served >= 50);
}

/* ---------------------------------------------------------------------------------------- cycles of connections */

enum { NODES = 64, SEGMENTS = 5 };

/*
 * A ring in which node i sends to node i + 1 and one pool serves them all. `ready` says whether the sender of connection
 * i has its next message, from what node i has received: only then is it posted at both sides, and a flow.
 */
static void run_ring(uint64_t budget_bytes, bool concurrent)
{
	struct pace_granter granter;
	struct pace_flow flows[NODES];
	unsigned done[NODES] = { 0 }; /* messages received by node i + 1 over connection i */
	uint64_t seed = 7, now_ns = 1;
	unsigned left = NODES * SEGMENTS;

	memset(flows, 0, sizeof(flows));
	pace_granter_init(&granter, budget_bytes, QUANTUM, 1ULL << 40);
	for (uint64_t round = 0; left; round++, now_ns++) {
		size_t at = random_below(&seed, NODES);

		assert_true(round < 10000000); /* or it hangs */
		for (size_t i = 0; i < NODES; i++) {
			unsigned before = done[(i + NODES - 1) % NODES];
			bool ready = concurrent || (i == 0 ? before == done[0] : before > done[i]);

			if (!flows[i].listed && done[i] < SEGMENTS && ready)
				pace_granter_add(&granter, &flows[i], NULL, 3 * QUANTUM, now_ns);
		}
		while (pace_granter_next(&granter, UINT64_MAX, now_ns))
			;
		assert_true(granter.outstanding_bytes <= (budget_bytes > QUANTUM ? budget_bytes : QUANTUM));
		pace_granter_delivered(&granter, &flows[at], flows[at].granted_bytes - flows[at].delivered_bytes,
				       now_ns);
		if (flows[at].listed && flows[at].delivered_bytes == flows[at].total_bytes) {
			pace_granter_remove(&granter, &flows[at]);
			done[at]++;
			left--;
		}
	}
	assert_int_equal(granter.outstanding_bytes, 0);
}

static void a_cycle_of_64_dependent_connections_completes_under_one_segment(void **state)
{
	(void)state;
	run_ring(QUANTUM, false);
	run_ring(QUANTUM, true);
	run_ring(0, false);
	run_ring(0, true);
	run_ring(10 * QUANTUM, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grant_is_cut_into_quanta_and_never_leaves_a_crumb),
		cmocka_unit_test(grants_stop_at_the_budget_and_at_the_allowance),
		cmocka_unit_test(what_came_unscheduled_is_charged),
		cmocka_unit_test(oldest_and_smallest_take_turns),
		cmocka_unit_test(of_flows_passed_over_alike_the_older_is_served_first),
		cmocka_unit_test(smallest_first_never_has_more_than_half_of_the_bytes),
		cmocka_unit_test(equal_flows_are_served_in_the_order_they_came),
		cmocka_unit_test(of_senders_who_send_to_others_too_who_holds_least_is_next),
		cmocka_unit_test(a_sender_that_comes_late_is_served_at_once),
		cmocka_unit_test(where_many_wait_there_are_no_small_grants),
		cmocka_unit_test(a_flow_of_many_gigabytes_is_granted_to_its_end),
		cmocka_unit_test(an_empty_pool_grants_one_quantum_whatever_the_budget),
		cmocka_unit_test(a_stalled_flow_is_forgiven_and_charged_again_when_it_comes_back),
		cmocka_unit_test(grants_to_a_flow_that_delivers_nothing_do_not_put_off_its_stall),
		cmocka_unit_test(a_flow_that_ends_midway_gives_back_what_it_held),
		cmocka_unit_test(bytes_beyond_the_grant_do_not_upset_the_pool),
		cmocka_unit_test(random_schedules_conserve_the_budget_and_starve_no_flow),
		cmocka_unit_test(a_middle_flow_is_served_between_a_huge_old_one_and_endless_small_ones),
		cmocka_unit_test(a_cycle_of_64_dependent_connections_completes_under_one_segment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
