/* SPDX-License-Identifier: Apache-2.0 */
/* One queue over a transport that does what it is told: what is posted when, and who is asked what it waits for. */
#include "aggregate/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

/* One receive at a time; its request is this. */
static struct {
	bool taken, complete;
	unsigned posted, asked; /* calls of receive that were taken; of progress since the last of them */
	enum transport_next next;
	int error; /* of progress */
} connection;

static int fake_receive(struct transport_connection *unused, int count, void *const *data, const size_t *bytes,
			const int *tags, void *const *registrations, struct transport_request **ret)
{
	(void)unused, (void)count, (void)data, (void)bytes, (void)tags, (void)registrations;
	*ret = connection.taken ? NULL : (struct transport_request *)&connection;
	if (!connection.taken) {
		connection.taken = true;
		connection.posted++;
		connection.asked = 0;
	}
	return 0;
}

static int fake_test(struct transport_request *request, bool *ret_done, size_t *sizes)
{
	(void)request, (void)sizes;
	*ret_done = connection.complete;
	if (connection.complete)
		connection.taken = connection.complete = false;
	return 0;
}

static int fake_progress(struct transport_connection *unused, enum transport_next *ret_next)
{
	(void)unused;
	connection.asked++;
	*ret_next = connection.next;
	return connection.error;
}

static const struct transport_ops fake_ops = {
	.receive = fake_receive,
	.test = fake_test,
	.progress = fake_progress,
};

struct scene {
	struct aggregate_engine engine;
	struct group group;
	struct group_member member;
	struct queue in[2], out[2];
	struct transfer transfers[2];
	unsigned done;
	int result; /* of the last turn */
};
static struct scene scene;

static void transfer_done(struct group *group, struct transfer *transfer)
{
	(void)group, (void)transfer;
	scene.done++;
}

static int begin(void **state)
{
	(void)state;
	memset(&scene, 0, sizeof(scene));
	memset(&connection, 0, sizeof(connection));
	connection.next = TRANSPORT_NEXT_EVENT;
	scene.group.engine = &scene.engine;
	scene.group.count = scene.group.node_count = 1;
	scene.group.in = scene.in;
	scene.group.out = scene.out;
	scene.group.members = &scene.member;
	queue_init(&scene.in[0], &fake_ops, false);
	for (unsigned i = 0; i < 2; i++) {
		scene.transfers[i] = (struct transfer){ .class = TRANSFER_SMALL, .bytes = 8, .done = transfer_done };
		queue_add(&scene.in[0], &scene.transfers[i]);
	}
	return 0;
}

static void turn(void)
{
	scene.group.progressed = scene.group.soon = scene.group.now = false;
	scene.result = queue_progress(&scene.group, &scene.in[0]);
}

static void a_posted_receive_is_asked_what_it_waits_for(void **state)
{
	(void)state;
	connection.next = TRANSPORT_NEXT_SOON;
	turn();
	assert_int_equal(connection.posted, 1);
	assert_int_equal(connection.asked, 1);
	assert_true(scene.group.soon);
}

/* What a finished one made room for is posted at the end of a turn, behind the question. */
static void one_that_is_posted_at_the_end_of_a_turn_is_asked_in_the_next(void **state)
{
	(void)state;
	turn();
	connection.complete = true;
	connection.next = TRANSPORT_NEXT_SOON;
	turn();
	assert_int_equal(scene.done, 1);
	assert_int_equal(connection.posted, 2);
	if (!connection.asked) {
		assert_true(scene.group.now);
		turn();
	}
	assert_int_equal(connection.asked, 1);
	assert_true(scene.group.soon);
}

/* Both receives are through. */
static void finish(void)
{
	turn();
	connection.complete = true;
	turn();
	connection.complete = true;
	turn();
	assert_int_equal(scene.done, 2);
	connection.asked = 0;
}

static void nobody_asks_for_nothing(void **state)
{
	(void)state;
	finish();
	turn();
	assert_int_equal(connection.asked, 0);
	assert_true(queue_is_empty(&scene.in[0]));
}

/* What it holds already is told by no event, and something may be due there next. */
static void an_empty_one_that_is_not_through_is_looked_at_again(void **state)
{
	(void)state;
	finish();
	scene.in[0].ready = true;
	connection.next = TRANSPORT_NEXT_NOW;
	turn();
	assert_int_equal(connection.asked, 1);
	assert_true(scene.in[0].ready);
	assert_true(scene.group.now);
}

static void an_empty_one_may_end(void **state)
{
	(void)state;
	finish();
	scene.in[0].ready = true;
	connection.error = -EREMOTEIO;
	turn();
	assert_true(scene.in[0].lost);
	assert_int_equal(scene.result, 0);
}

/* Its other end has found that operations differ. */
static void an_empty_one_fails_if_a_message_was_too_long(void **state)
{
	(void)state;
	finish();
	scene.in[0].ready = true;
	connection.error = -EMSGSIZE;
	turn();
	assert_int_equal(scene.result, -EMSGSIZE);
}

/* Events that came while its group had no turn are made up for, of what there is. */
static void all_that_stand_are_looked_at(void **state)
{
	(void)state;
	scene.in[1].connection = (struct transport_connection *)&connection;
	queue_stir_all(&scene.group);
	assert_false(scene.in[0].ready);
	assert_true(scene.in[1].ready);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_posted_receive_is_asked_what_it_waits_for, begin),
		cmocka_unit_test_setup(one_that_is_posted_at_the_end_of_a_turn_is_asked_in_the_next, begin),
		cmocka_unit_test_setup(nobody_asks_for_nothing, begin),
		cmocka_unit_test_setup(an_empty_one_that_is_not_through_is_looked_at_again, begin),
		cmocka_unit_test_setup(an_empty_one_may_end, begin),
		cmocka_unit_test_setup(an_empty_one_fails_if_a_message_was_too_long, begin),
		cmocka_unit_test_setup(all_that_stand_are_looked_at, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
