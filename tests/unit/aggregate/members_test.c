/* SPDX-License-Identifier: Apache-2.0 */
/* When a group ends because a member has left: by a clock of the test, over connections that are none. */
#include "aggregate/group.h"
#include "base/clock.h"
#include "base/params.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS = 4, SELF = 1, TIMEOUT_S = 10, PATIENCE_S = 9 };

static struct {
	struct params params;
	struct aggregate_engine engine;
	struct group group;
	struct group_member members[MEMBERS];
	struct queue out[2 * MEMBERS], in[2 * MEMBERS];
	uint64_t now_ns;
} the;

static void close_nothing(struct transport_connection *connection)
{
	(void)connection;
}

static const struct transport_ops no_ops = { .close_connection = close_nothing };

static int set_up(void **state)
{
	(void)state;
	memset(&the, 0, sizeof(the));
	the.params.timeout_ns = TIMEOUT_S * NS_PER_S;
	the.engine.setup.params = &the.params;
	the.group.engine = &the.engine;
	the.group.count = the.group.node_count = the.group.host_count = MEMBERS;
	the.group.self = SELF;
	the.group.members = the.members;
	the.group.out = the.out;
	the.group.in = the.in;
	the.group.under_way = 1;
	the.now_ns = 1000 * NS_PER_S;
	for (size_t i = 0; i < MEMBERS; i++)
		snprintf(the.members[i].facts.host, sizeof(the.members[i].facts.host), "host%zu", i);
	for (size_t i = 0; i < 2 * MEMBERS; i++) {
		queue_init(&the.out[i], &no_ops, true);
		queue_init(&the.in[i], &no_ops, false);
		if (i % MEMBERS != SELF) /* some address */
			the.out[i].connection = the.in[i].connection = (struct transport_connection *)&the;
	}
	the.group.progressed = true; /* as when its operation is taken */
	departures_watch(&the.group, the.now_ns);
	the.group.progressed = false;
	return 0;
}

/* Turns, as often as the thread gives them. */
static void pass(unsigned seconds)
{
	for (unsigned i = 0; i < seconds * 10; i++) {
		the.now_ns += NS_PER_S / 10;
		departures_watch(&the.group, the.now_ns);
	}
}

static void leave(size_t member)
{
	the.in[member].lost = the.out[member].lost = true;
	the.in[MEMBERS + member].lost = the.out[MEMBERS + member].lost = true;
}

static void slow_members_are_waited_for(void **state)
{
	(void)state;
	pass(1000);
	assert_int_equal(the.group.broken, 0);
}

static void it_ends_when_one_has_left_and_nothing_moves(void **state)
{
	(void)state;
	leave(3);
	pass(PATIENCE_S - 1);
	assert_int_equal(the.group.broken, 0);
	pass(2);
	assert_int_equal(the.group.broken, -EREMOTEIO);
}

static void it_goes_on_while_something_moves(void **state)
{
	(void)state;
	leave(3);
	for (unsigned i = 0; i < 100; i++) {
		pass(PATIENCE_S - 1);
		the.group.progressed = true;
		departures_watch(&the.group, the.now_ns);
		the.group.progressed = false;
	}
	assert_int_equal(the.group.broken, 0);
}

static void who_is_idle_does_not_mind(void **state)
{
	(void)state;
	leave(3);
	the.group.under_way = 0;
	pass(1000);
	assert_int_equal(the.group.broken, 0);
	the.group.under_way = 1;
	pass(PATIENCE_S - 1);
	assert_int_equal(the.group.broken, 0);
}

/* One connection of four may be lost alone; its member lives, and may be slow. */
static void one_lost_connection_is_no_lost_member(void **state)
{
	(void)state;
	leave(3);
	for (unsigned i = 0; i < 4; i++) {
		struct queue *queues[] = { &the.in[3], &the.out[3], &the.in[MEMBERS + 3], &the.out[MEMBERS + 3] };

		queues[i]->lost = false;
		pass(1000);
		assert_int_equal(the.group.broken, 0);
		queues[i]->lost = true;
	}
}

/* What has been told by no event is asked for: of all, but not of connections to oneself, which there are not. */
static void all_connections_are_asked_first(void **state)
{
	(void)state;
	pass(PATIENCE_S - 1);
	assert_false(the.in[2].ready);
	pass(1);
	for (size_t i = 0; i < 2 * MEMBERS; i++) {
		assert_int_equal(the.in[i].ready, i % MEMBERS != SELF);
		assert_int_equal(the.out[i].ready, i % MEMBERS != SELF);
	}
	pass(1); /* nobody: they are asked again before long */
	leave(0);
	pass(1);
	assert_int_equal(the.group.broken, -EREMOTEIO);
}

/* Nobody else stood still, but they have had no time to answer. */
static void time_in_which_it_was_stopped_does_not_count(void **state)
{
	(void)state;
	leave(3);
	pass(1);
	the.now_ns += 3600 * NS_PER_S;
	departures_watch(&the.group, the.now_ns);
	pass(PATIENCE_S - 3);
	assert_int_equal(the.group.broken, 0);
	pass(3);
	assert_int_equal(the.group.broken, -EREMOTEIO);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(slow_members_are_waited_for, set_up),
		cmocka_unit_test_setup(it_ends_when_one_has_left_and_nothing_moves, set_up),
		cmocka_unit_test_setup(it_goes_on_while_something_moves, set_up),
		cmocka_unit_test_setup(who_is_idle_does_not_mind, set_up),
		cmocka_unit_test_setup(one_lost_connection_is_no_lost_member, set_up),
		cmocka_unit_test_setup(all_connections_are_asked_first, set_up),
		cmocka_unit_test_setup(time_in_which_it_was_stopped_does_not_count, set_up),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
