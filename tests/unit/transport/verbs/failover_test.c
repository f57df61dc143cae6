/* SPDX-License-Identifier: Apache-2.0 */
/* Connections over the fake: what becomes of traffic when queues, ports and devices fail. */
#include "base/clock.h"
#include "support/link.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/link_harness.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "support/parallel.h"

static void lose_one(uint64_t *random)
{
	fake_verbs_lose((unsigned)random_below(random, 2),
			(enum fake_verbs_loss)random_below(random, FAKE_VERBS_LOSS_COUNT));
}

static void break_or_mend_a_path(uint64_t *random)
{
	fake_verbs_path((unsigned)random_below(random, 2), random_below(random, 2));
}

static void break_reach_or_mend(uint64_t *random)
{
	unsigned device = (unsigned)random_below(random, 2);
	const bool works = random_below(random, 2);

	fake_verbs_path(device, works);
	fake_verbs_unreached(device, works ? UINT_MAX : (unsigned)random_below(random, 3), 20 * NS_PER_MS);
	fake_verbs_lose(1 - device, (enum fake_verbs_loss)random_below(random, FAKE_VERBS_LOSS_COUNT));
}

static void ports_go_down_and_up(uint64_t *random)
{
	unsigned device = (unsigned)random_below(random, 2);

	fake_verbs_port(device, false);
	fake_verbs_port(1 - device, true);
}

static void a_lone_queue_that_fails_is_built_anew(void **state)
{
	(void)state;
	verbs_survive(1, false, verbs_link_harness_lose_one_of_the_first, runtime_long() ? 60 : 12);
}

static void queues_that_fail_leave_their_bytes_to_others(void **state)
{
	(void)state;
	verbs_survive(4, false, verbs_link_harness_lose_one_of_the_first, runtime_long() ? 60 : 12);
}

static void two_rails_lose_no_byte(void **state)
{
	(void)state;
	verbs_survive(2, true, lose_one, runtime_long() ? 60 : 12);
}

static void a_path_may_come_and_go(void **state)
{
	(void)state;
	verbs_survive(1, true, break_or_mend_a_path, runtime_long() ? 50 : 6);
}

static void a_port_that_goes_down_moves_its_traffic(void **state)
{
	(void)state;
	verbs_survive(1, true, ports_go_down_and_up, runtime_long() ? 50 : 6);
}

/* For as long as it takes to build queues again and again. */
static void exchange_for_a_while(struct verbs_link_harness *harness)
{
	const uint64_t end_ns = runtime_deadline_ns(1500);
	unsigned tag = 0;

	do
		assert_int_equal(link_exchange(&harness->link, 100000, ++tag), 0);
	while (!runtime_past(end_ns));
}

/* Until device 1 has tried so many queue pairs more, and as long as it carries nothing if `carries`. */
static void exchange_until(struct verbs_link_harness *harness, uint64_t tries, bool carries)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct fake_verbs_counts before, now;
	unsigned tag = 0;

	fake_verbs_counts(&before);
	do {
		assert_false(runtime_past(deadline_ns));
		assert_int_equal(link_exchange(&harness->link, 300000, ++tag), 0);
		fake_verbs_counts(&now);
	} while (now.connected[1] + now.unreached[1] - before.connected[1] - before.unreached[1] < tries ||
		 (carries && now.posted[1] == before.posted[1]));
}

/* Queues can be built there, and nothing arrives: one of two rails goes on alone. */
static void a_path_that_has_not_proved_itself_gets_no_part_of_a_message(void **state)
{
	struct fake_verbs_counts before, after;
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 1, true);
	fake_verbs_path(1, false);
	assert_int_equal(link_exchange(&harness.link, 1 << 20, 1), 0);
	fake_verbs_counts(&before);
	exchange_until(&harness, 2, false);
	fake_verbs_counts(&after);
	assert_int_equal(after.posted[1], before.posted[1]);
	fake_verbs_port(1, false);
	exchange_for_a_while(&harness);
	fake_verbs_port(1, true);
	exchange_until(&harness, 0, true);
	verbs_link_harness_close(&harness);
}

/* The kernel looks for an address that nobody has: the rail is tried now and then, and others do not wait for it. */
static void a_peer_that_is_not_reached_holds_nothing_up(void **state)
{
	struct fake_verbs_counts counts;
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 4, true);
	fake_verbs_path(1, false);
	fake_verbs_unreached(1, 0, 300 * NS_PER_MS);
	exchange_until(&harness, 3, false);
	fake_verbs_port(1, false);
	exchange_for_a_while(&harness);
	fake_verbs_path(1, true);
	fake_verbs_unreached(1, UINT_MAX, 0);
	fake_verbs_port(1, true);
	exchange_until(&harness, 0, true);
	fake_verbs_counts(&counts);
	assert_int_equal(counts.connected_here, 0);
	verbs_link_harness_close(&harness);
}

/* At one end, or at both, none of its queue pairs or some: the connection is made of the others, and the rest comes later. */
static void a_rail_that_is_not_reached_at_first_comes_later(void **state)
{
	const int members[] = { 0, 1 };

	(void)state;
	for (unsigned after = 0; after < 4; after++) {
		struct fake_verbs_counts before, counts;
		struct verbs_link_harness harness;

		verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 2 }, NULL);
		fake_verbs_unreached(1, after, 20 * NS_PER_MS);
		harness.params.qps = 2;
		assert_int_equal(transport_verbs.device_join(harness.transport, 2, members, &harness.device), 0);
		assert_int_equal(link_open(&transport_verbs, harness.transport, harness.device, &harness.link), 0);
		fake_verbs_counts(&before);
		assert_true(before.unreached[1] > 0);
		for (unsigned i = 0; i < 20; i++)
			assert_int_equal(link_exchange(&harness.link, 300000, i), 0);
		fake_verbs_unreached(1, UINT_MAX, 0);
		fake_verbs_port(1, false);
		exchange_for_a_while(&harness);
		fake_verbs_port(1, true);
		exchange_until(&harness, 0, true);
		fake_verbs_counts(&counts);
		assert_int_equal(counts.connected_here, 0);
		verbs_link_harness_close(&harness);
	}
}

/* The thread is not left alone with the queue pair (the harness looks). */
static void a_connection_is_closed_while_it_connects(void **state)
{
	const uint64_t search_ns = 300 * NS_PER_MS;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
		struct verbs_link_harness harness;
		struct fake_verbs_counts counts;

		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 1, true);
		fake_verbs_path(1, false);
		fake_verbs_unreached(1, i, search_ns); /* of the accepting side, of the connecting one */
		do {
			assert_int_equal(link_exchange(&harness.link, 100000, i), 0);
			fake_verbs_counts(&counts);
			assert_false(runtime_past(deadline_ns));
		} while (!counts.unreached[1]);
		verbs_link_harness_close(&harness);
	}
}

static void a_path_may_be_searched_for_in_vain(void **state)
{
	(void)state;
	verbs_survive(2, true, break_reach_or_mend, runtime_long() ? 50 : 6);
}

static void no_queue_is_built_where_a_port_is_down(void **state)
{
	struct fake_verbs_counts before, after;
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 1, true);
	fake_verbs_port(1, false);
	assert_int_equal(link_exchange(&harness.link, 1 << 20, 1), 0);
	fake_verbs_counts(&before);
	exchange_for_a_while(&harness);
	fake_verbs_counts(&after);
	assert_int_equal(after.connected[1], before.connected[1]);
	fake_verbs_port(1, true);
	exchange_for_a_while(&harness);
	fake_verbs_counts(&before);
	assert_int_equal(before.connected[1], after.connected[1] + 2); /* one at each end */
	verbs_link_harness_close(&harness);
}

/* As its interface loses the address, and gets it again, which may be in another row. */
static void no_queue_is_built_where_a_port_has_lost_its_address(void **state)
{
	enum { ROW = 1, OTHER = 3 };
	const uint8_t address[16] = { [10] = 0xff, 0xff, 10, 9, 3, 1 }; /* the fake's */
	struct fake_verbs_counts before, after;
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 1, true);
	fake_verbs_move_gid(1, ROW, FAKE_VERBS_GIDS);
	assert_int_equal(link_exchange(&harness.link, 1 << 20, 1), 0);
	exchange_for_a_while(&harness);
	fake_verbs_counts(&before);
	exchange_for_a_while(&harness);
	fake_verbs_counts(&after);
	assert_int_equal(after.connected[1] + after.unreached[1], before.connected[1] + before.unreached[1]);
	fake_verbs_set_gid(1, ROW, address);
	fake_verbs_move_gid(1, ROW, OTHER);
	exchange_until(&harness, 0, true);
	assert_int_equal(fake_verbs_last_path(1).grh.sgid_index, OTHER);
	verbs_link_harness_close(&harness);
}

/*
 * The last message has arrived, and the queue fails before its sender hears of that. The receiver has all that it wanted and
 * calls nothing any more; the sender must learn of it all the same.
 */
static void a_peer_that_looks_away_takes_part(void **state)
{
	const struct transport_ops *ops = &transport_verbs;
	uint8_t *from = calloc(1, 300000), *to = calloc(1, 300000);
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *send = NULL, *receive = NULL;
	void *data = to, *registration = NULL;
	size_t bytes = 300000;
	bool done = false;
	struct verbs_link_harness harness;
	int tag = 2;

	(void)state;
	assert_non_null(from);
	assert_non_null(to);
	pattern_fill(from, bytes, 6);
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 1, true);
	assert_int_equal(ops->receive(harness.link.receiver, 1, &data, &bytes, &tag, &registration, &receive), 0);
	while (!verbs_link_harness_sender_has_offers(&harness)) {
		enum transport_next next;

		assert_int_equal(ops->progress(harness.link.sender, &next), 0);
		assert_false(runtime_past(deadline_ns));
	}
	fake_verbs_lose(0, FAKE_VERBS_ARRIVES_WHOLE);
	fake_verbs_lose(1, FAKE_VERBS_ARRIVES_WHOLE);
	assert_int_equal(ops->send(harness.link.sender, from, bytes, tag, NULL, &send), 0);
	assert_non_null(send);
	while (!done) {
		assert_int_equal(ops->test(send, &done, NULL), 0);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(link_finish(ops, receive, NULL), 0);
	assert_memory_equal(from, to, bytes);
	verbs_link_harness_close(&harness);
	free(from);
	free(to);
}

static void both_sides_fail(struct verbs_run *run)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	int r[2] = { 0, 0 };

	for (unsigned i = 0; !r[0] || !r[1]; i++) {
		if (!r[i % 2])
			r[i % 2] = verbs_run_step(run, i % 2);
		if (i % 64 == 0) /* it takes seconds: leave the core to others */
			usleep(100);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(r[0], -EREMOTEIO);
	assert_int_equal(r[1], -EREMOTEIO);
}

/* With no path left both ends have their error in bounded time, not before the time-out. */
static void without_any_path_there_is_an_error(void **state)
{
	uint64_t began_ns;
	struct verbs_link_harness harness;
	struct verbs_run run;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 2, true);
	verbs_run_begin(&run, &harness, runtime_seed());
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(verbs_run_step(&run, i % 2), 0);
	fake_verbs_path(0, false);
	fake_verbs_path(1, false);
	began_ns = runtime_now_ns();
	both_sides_fail(&run);
	assert_true(runtime_now_ns() - began_ns >= 2 * NS_PER_S);
	link_close(&harness.link);
	verbs_run_end(&run);
	verbs_link_harness_close(&harness);
}

/* It stands still for the time-out, then it is built anew. */
static void a_request_that_a_device_forgets_is_sent_again(void **state)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS), began_ns;
	struct verbs_link_harness harness;
	struct verbs_run run;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 1, false);
	verbs_run_begin(&run, &harness, runtime_seed());
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(verbs_run_step(&run, i % 2), 0);
	assert_int_not_equal(run.done, 3);
	fake_verbs_forget(0);
	began_ns = runtime_now_ns();
	for (unsigned i = 0; run.done != 3; i++) {
		if (i % 64 == 0)
			usleep(100);
		assert_int_equal(verbs_run_step(&run, i % 2), 0);
		assert_false(runtime_past(deadline_ns));
	}
	assert_true(runtime_now_ns() - began_ns >= 2 * NS_PER_S);
	verbs_run_end(&run);
	verbs_link_harness_close(&harness);
}

/* Each message loses a queue. Nothing is counted up but what happens with no progress between. */
static void losses_have_no_limit_while_messages_arrive(void **state)
{
	enum { LOSSES = 40 };
	struct fake_verbs_counts counts;
	uint64_t random = runtime_seed();
	struct verbs_link_harness harness;

	(void)state;
	for (unsigned qps = 1; qps < 3; qps++) {
		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, qps, false);
		for (unsigned i = 0; i < LOSSES; i++) {
			verbs_link_harness_lose_one_of_the_first(&random);
			assert_int_equal(link_exchange(&harness.link, 1000 + (size_t)random_below(&random, 300000), i),
					 0);
		}
		for (unsigned i = 0; i < LOSSES; i++) {
			fake_verbs_lose(0, FAKE_VERBS_REFUSED);
			assert_int_equal(link_exchange(&harness.link, 1000 + (size_t)random_below(&random, 300000), i),
					 0);
		}
		fake_verbs_counts(&counts);
		assert_true(counts.failed_queues >= 2 * LOSSES);
		verbs_link_harness_close(&harness);
	}
}

/* Queues can be built, and carry short writes; but nothing gets on, whichever of several queues is live. */
static void a_path_for_short_writes_alone_is_an_error(void **state)
{
	(void)state;
	for (unsigned qps = 1; qps < 4; qps += 2) {
		struct verbs_link_harness harness;
		struct verbs_run run;

		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, qps, false);
		fake_verbs_lose_always(0, 2000, FAKE_VERBS_ARRIVES_NOT);
		verbs_run_begin(&run, &harness, runtime_seed());
		both_sides_fail(&run);
		link_close(&harness.link);
		verbs_run_end(&run);
		verbs_link_harness_close(&harness);
	}
}

/* Each loss asks for a descriptor of credit, which arrives. */
static void a_path_for_credit_alone_is_an_error(void **state)
{
	const struct transport_ops *ops = &transport_verbs;
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *send = NULL, *receive = NULL;
	size_t bytes = 100000;
	void *data = calloc(1, bytes), *to = calloc(1, bytes), *registration = NULL;
	struct verbs_link_harness harness;
	int tag = 1, r = 0;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 3, false);
	fake_verbs_lose_always(0, 2000, FAKE_VERBS_ARRIVES_NOT);
	assert_int_equal(ops->receive(harness.link.receiver, 1, &to, &bytes, &tag, &registration, &receive), 0);
	while (r == 0) {
		bool done;

		assert_false(runtime_past(deadline_ns));
		r = send ? ops->test(send, &done, NULL) : ops->send(harness.link.sender, data, bytes, tag, NULL, &send);
		if (r == 0)
			r = ops->test(receive, &done, NULL);
		usleep(10);
	}
	assert_int_equal(r, -EREMOTEIO);
	link_close(&harness.link);
	verbs_link_harness_close(&harness);
	free(data);
	free(to);
}

/* Others arrive all the time, which must not hide it. */
static void a_message_that_is_always_refused_is_an_error(void **state)
{
	const struct transport_ops *ops = &transport_verbs;
	const size_t bytes = 100000;
	uint8_t *data = calloc(2, bytes);
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *refused[2] = { 0 }, *others[2] = { 0 };
	uint8_t small[2][100] = { { 0 } };
	unsigned arrived = 0;
	struct verbs_link_harness harness;
	int r = 0;

	(void)state;
	assert_non_null(data);
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 2, false);
	fake_verbs_lose_always(0, 2000, FAKE_VERBS_REFUSED);
	while (r == 0) {
		void *to[2] = { data, small[0] }, *registration = NULL;
		size_t rooms[2] = { bytes, sizeof(small[0]) };
		int tags[2] = { 1, 2 };
		bool done[2] = { false, false };

		assert_false(runtime_past(deadline_ns));
		if (!refused[0])
			r = ops->receive(harness.link.receiver, 1, &to[0], &rooms[0], &tags[0], &registration,
					 &refused[0]);
		if (r == 0 && refused[0] && !refused[1])
			r = ops->send(harness.link.sender, data + bytes, bytes, tags[0], NULL, &refused[1]);
		if (r == 0 && !others[0])
			r = ops->receive(harness.link.receiver, 1, &to[1], &rooms[1], &tags[1], &registration,
					 &others[0]);
		if (r == 0 && !others[1])
			r = ops->send(harness.link.sender, small[1], sizeof(small[1]), tags[1], NULL, &others[1]);
		for (unsigned i = 0; i < 2 && r == 0; i++) {
			if (others[i])
				r = ops->test(others[i], &done[i], NULL);
			if (done[i])
				others[i] = NULL;
		}
		arrived += done[0];
	}
	assert_int_equal(r, -EREMOTEIO);
	assert_true(arrived > 0);
	verbs_link_harness_close(&harness);
	free(data);
}

/* Some refused requests are survived, like all that a queue may meet (above); but not without end. */
static void requests_that_are_always_refused_are_an_error(void **state)
{
	struct verbs_link_harness harness;
	struct verbs_run run;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 8, false);
	verbs_run_begin(&run, &harness, runtime_seed());
	fake_verbs_lose_always(0, 0, FAKE_VERBS_REFUSED);
	both_sides_fail(&run);
	link_close(&harness.link);
	verbs_run_end(&run);
	verbs_link_harness_close(&harness);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lone_queue_that_fails_is_built_anew),
		cmocka_unit_test(queues_that_fail_leave_their_bytes_to_others),
		cmocka_unit_test(two_rails_lose_no_byte),
		cmocka_unit_test(a_path_may_come_and_go),
		cmocka_unit_test(a_port_that_goes_down_moves_its_traffic),
		cmocka_unit_test(a_path_that_has_not_proved_itself_gets_no_part_of_a_message),
		cmocka_unit_test(a_peer_that_is_not_reached_holds_nothing_up),
		cmocka_unit_test(a_rail_that_is_not_reached_at_first_comes_later),
		cmocka_unit_test(a_connection_is_closed_while_it_connects),
		cmocka_unit_test(a_path_may_be_searched_for_in_vain),
		cmocka_unit_test(no_queue_is_built_where_a_port_is_down),
		cmocka_unit_test(no_queue_is_built_where_a_port_has_lost_its_address),
		cmocka_unit_test(a_peer_that_looks_away_takes_part),
		cmocka_unit_test(without_any_path_there_is_an_error),
		cmocka_unit_test(a_request_that_a_device_forgets_is_sent_again),
		cmocka_unit_test(losses_have_no_limit_while_messages_arrive),
		cmocka_unit_test(a_path_for_short_writes_alone_is_an_error),
		cmocka_unit_test(a_path_for_credit_alone_is_an_error),
		cmocka_unit_test(a_message_that_is_always_refused_is_an_error),
		cmocka_unit_test(requests_that_are_always_refused_are_an_error),
	};

	runtime_start("verbs_failover_test", 200);
	return parallel_run_group_tests(tests, NULL, NULL);
}
