/* One lane over a transport that does what it is told: what is posted when, and who is asked what it waits for. */
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
	return 0;
}

static const struct transport_ops fake_ops = {
	.receive = fake_receive,
	.test = fake_test,
	.progress = fake_progress,
};

struct scene {
	struct aggregate_engine engine;
	struct group group;
	struct lane in, out;
	struct transfer transfers[2];
	unsigned done;
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
	scene.group.in = &scene.in;
	scene.group.out = &scene.out;
	lane_init(&scene.in, &fake_ops, false);
	for (unsigned i = 0; i < 2; i++) {
		scene.transfers[i] = (struct transfer){ .class = TRANSFER_SMALL, .bytes = 8, .done = transfer_done };
		lane_add(&scene.in, &scene.transfers[i]);
	}
	return 0;
}

static void turn(void)
{
	scene.group.progressed = scene.group.soon = scene.group.now = false;
	lane_progress(&scene.group, &scene.in);
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

static void nobody_asks_for_nothing(void **state)
{
	(void)state;
	turn();
	connection.complete = true;
	turn();
	connection.complete = true;
	turn();
	assert_int_equal(scene.done, 2);
	connection.asked = 0;
	turn();
	assert_int_equal(connection.asked, 0);
	assert_true(lane_is_empty(&scene.in));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_posted_receive_is_asked_what_it_waits_for, begin),
		cmocka_unit_test_setup(one_that_is_posted_at_the_end_of_a_turn_is_asked_in_the_next, begin),
		cmocka_unit_test_setup(nobody_asks_for_nothing, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
