/* SPDX-License-Identifier: Apache-2.0 */
/* Callers that sleep in epoll and never poll (transport.h, watch): every message arrives, whatever holds it back. */
#include "support/link.h"
#include "support/runtime.h"
#include "support/sleeper.h"
#include "support/traffic.h"
#include "support/transport_suite.h"
#include "support/transport_suite_internal.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { NEWS_MS = 60000 }; /* until a sleeper learns of the other end's end */

static const struct traffic_shape mixed = {
	.name = "asleep, mixed",
	.messages = 120,
	.max_bytes = 1 << 20,
	.window = 8,
	.group_max = 4,
	.shuffled = true,
	.extra_max = 999,
};
static const struct traffic_shape small = { .name = "asleep, small", .messages = 2000, .max_bytes = 500, .window = 32 };
static const struct traffic_shape big = {
	.name = "asleep, big", .messages = 12, .min_bytes = 8 << 20, .max_bytes = 9 << 20, .window = 3
};
/* More than any window or socket takes, before the first receive. */
static const struct traffic_shape pressed = {
	.name = "asleep, pressed", .messages = 900, .max_bytes = 9000, .window = 32, .receiver_late = 3000
};

struct asleep {
	struct link links[SLEEPER_ENDS / 2];
	struct traffic_plan plans[SLEEPER_ENDS / 2];
	struct traffic_end *ends;
	unsigned count;
};

static void asleep_add(struct asleep *asleep, const struct transport_suite *suite, const struct traffic_shape *shape)
{
	unsigned at = asleep->count++;
	struct link *link = &asleep->links[at];

	assert_true(at < SLEEPER_ENDS / 2);
	if (!asleep->ends)
		asleep->ends = calloc(SLEEPER_ENDS, sizeof(*asleep->ends));
	assert_non_null(asleep->ends);
	assert_int_equal(link_open(suite->ops, suite->transport, suite->device, link), 0);
	assert_int_equal(traffic_plan_init(shape, suite->seed + at, suite->max_recvs, &asleep->plans[at]), 0);
	traffic_end_init(&asleep->ends[2 * at], suite->ops, link->sender, &asleep->plans[at], true);
	traffic_end_init(&asleep->ends[2 * at + 1], suite->ops, link->receiver, &asleep->plans[at], false);
}

static void asleep_close(struct asleep *asleep)
{
	for (unsigned i = 0; i < asleep->count; i++) {
		link_close(&asleep->links[i]);
		traffic_end_fini(&asleep->ends[2 * i]);
		traffic_end_fini(&asleep->ends[2 * i + 1]);
		traffic_plan_fini(&asleep->plans[i]);
	}
	free(asleep->ends);
}

/* ---- the cases ---- */

static void sleepers_get_every_shape(void **state)
{
	const struct transport_suite *suite = *state;

	for (const struct traffic_shape *shape = traffic_shapes; shape->name; shape++) {
		struct asleep asleep = { .count = 0 };
		struct sleeper sleeper;

		assert_int_equal(sleeper_open(&sleeper, suite->ops), 0);
		asleep_add(&asleep, suite, shape);
		assert_int_equal(sleeper_add(&sleeper, &asleep.ends[0]), 0);
		assert_int_equal(sleeper_add(&sleeper, &asleep.ends[1]), 0);
		assert_int_equal(sleeper_run(&sleeper), 0);
		asleep_close(&asleep);
		sleeper_close(&sleeper);
	}
}

/* Big ones, small ones and too many at once, on connections of one set. */
static void a_sleeper_serves_many_connections(void **state)
{
	static const struct traffic_shape *const shapes[] = { &mixed, &small, &big, &pressed };
	const struct transport_suite *suite = *state;
	struct asleep asleep = { .count = 0 };
	struct sleeper sleeper;

	assert_int_equal(sleeper_open(&sleeper, suite->ops), 0);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		asleep_add(&asleep, suite, shapes[i]);
		assert_int_equal(sleeper_add(&sleeper, &asleep.ends[2 * i]), 0);
		assert_int_equal(sleeper_add(&sleeper, &asleep.ends[2 * i + 1]), 0);
	}
	assert_int_equal(sleeper_run(&sleeper), 0);
	asleep_close(&asleep);
	sleeper_close(&sleeper);
}

static void *run_sleeper(void *arg)
{
	return (void *)(intptr_t)sleeper_run(arg);
}

/* All senders in one thread, all receivers in another. */
static void sleepers_of_two_threads_meet(void **state)
{
	static const struct traffic_shape *const shapes[] = { &mixed, &small, &big, &pressed };
	const struct transport_suite *suite = *state;
	struct asleep asleep = { .count = 0 };
	struct sleeper sleepers[2];
	pthread_t threads[2];
	void *results[2];

	assert_int_equal(sleeper_open(&sleepers[0], suite->ops), 0);
	assert_int_equal(sleeper_open(&sleepers[1], suite->ops), 0);
	sleepers[0].alone = sleepers[1].alone = false;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		asleep_add(&asleep, suite, shapes[i]);
		assert_int_equal(sleeper_add(&sleepers[0], &asleep.ends[2 * i]), 0);
		assert_int_equal(sleeper_add(&sleepers[1], &asleep.ends[2 * i + 1]), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_sleeper, &sleepers[i]), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], &results[i]);
	assert_int_equal((intptr_t)results[0], 0);
	assert_int_equal((intptr_t)results[1], 0);
	asleep_close(&asleep);
	sleeper_close(&sleepers[0]);
	sleeper_close(&sleepers[1]);
}

/* In the midst of traffic, with requests outstanding and bytes on the way, both go to sleep. */
static void falling_asleep_late_loses_nothing(void **state)
{
	const struct transport_suite *suite = *state;
	uint64_t random = suite->seed ^ 0x1a7e;

	for (unsigned round = 0; round < suite->rounds; round++) {
		unsigned turns = (unsigned)random_below(&random, 300);
		struct asleep asleep = { .count = 0 };
		struct sleeper sleeper;

		assert_int_equal(sleeper_open(&sleeper, suite->ops), 0);
		asleep_add(&asleep, suite, &mixed);
		for (unsigned i = 0; i < turns; i++) {
			unsigned at = (unsigned)random_below(&random, 2);

			if (asleep.ends[at].completed < asleep.ends[at].total)
				assert_true(traffic_step(&asleep.ends[at]) >= 0);
		}
		assert_int_equal(sleeper_add(&sleeper, &asleep.ends[0]), 0);
		assert_int_equal(sleeper_add(&sleeper, &asleep.ends[1]), 0);
		assert_int_equal(suite->ops->watch(asleep.ends[0].connection, sleeper.epoll_fd, 5), -EBUSY);
		assert_int_equal(sleeper_run(&sleeper), 0);
		asleep_close(&asleep);
		sleeper_close(&sleeper);
	}
}

/* Sleeps until the connection has its error. */
static int sleep_until_error(const struct transport_ops *ops, int epoll_fd, struct transport_connection *connection)
{
	uint64_t deadline_ns = runtime_deadline_ns(NEWS_MS);
	struct epoll_event event;
	enum transport_next next = TRANSPORT_NEXT_EVENT;
	int r = 0;

	while (r == 0 && !runtime_past(deadline_ns)) {
		int count = epoll_wait(epoll_fd, &event, 1, next == TRANSPORT_NEXT_EVENT ? NEWS_MS : 1);

		if (count == 0 && next == TRANSPORT_NEXT_EVENT)
			return -ETIMEDOUT;
		r = ops->progress(connection, &next);
	}
	return r;
}

/* Either end, with and without requests, watched before the end or after it. */
static void the_end_of_the_peer_wakes(void **state)
{
	const struct transport_suite *suite = *state;

	for (unsigned variant = 0; variant < 8; variant++) {
		bool sender_stays = variant & 1, busy = variant & 2, late = variant & 4;
		struct transport_connection **goes, **stays;
		uint8_t byte = 1, room[8] = { 0 };
		struct transport_request *request = NULL;
		void *to = room, *registration = NULL;
		size_t bytes = sizeof(room);
		struct link link;
		int tag = 4, epoll_fd = epoll_create1(EPOLL_CLOEXEC);

		assert_true(epoll_fd >= 0);
		assert_int_equal(link_open(suite->ops, suite->transport, suite->device, &link), 0);
		goes = sender_stays ? &link.receiver : &link.sender;
		stays = sender_stays ? &link.sender : &link.receiver;
		if (!late)
			assert_int_equal(suite->ops->watch(*stays, epoll_fd, 1), 0);
		if (busy && sender_stays)
			assert_int_equal(suite->ops->send(*stays, &byte, 1, tag, NULL, &request), 0);
		else if (busy)
			assert_int_equal(suite->ops->receive(*stays, 1, &to, &bytes, &tag, &registration, &request), 0);
		suite->ops->close_connection(*goes);
		*goes = NULL;
		if (late)
			assert_int_equal(suite->ops->watch(*stays, epoll_fd, 1), 0);
		assert_int_equal(sleep_until_error(suite->ops, epoll_fd, *stays), -EREMOTEIO);
		link_close(&link);
		close(epoll_fd);
	}
}

/* A forked child (a data loader) keeps copies of every descriptor: they must not speak for a connection that is gone. */
static void a_closed_connection_says_no_more(void **state)
{
	const struct transport_suite *suite = *state;
	struct transport_request *request = NULL;
	const int silence_ms = runtime_long() ? 300 : 100;
	struct epoll_event event;
	struct link link;
	uint8_t byte = 1;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	pid_t child;

	assert_true(epoll_fd >= 0);
	for (unsigned sender_goes = 0; sender_goes < 2; sender_goes++) {
		assert_int_equal(link_open(suite->ops, suite->transport, suite->device, &link), 0);
		assert_int_equal(suite->ops->watch(link.sender, epoll_fd, 1), 0);
		assert_int_equal(suite->ops->watch(link.receiver, epoll_fd, 2), 0);
		assert_int_equal(suite->ops->send(link.sender, &byte, 1, 1, NULL, &request), 0);
		child = fork();
		if (!child) {
			pause();
			_exit(0);
		}
		assert_true(child > 0);
		suite->ops->close_connection(link.sender);
		suite->ops->close_connection(link.receiver);
		link.sender = link.receiver = NULL;
		assert_int_equal(epoll_wait(epoll_fd, &event, 1, silence_ms), 0);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		link_close(&link);
	}
	close(epoll_fd);
}

const struct transport_suite_case transport_suite_watch_cases[] = {
	{ "sleepers get every shape", sleepers_get_every_shape },
	{ "a sleeper serves many connections", a_sleeper_serves_many_connections },
	{ "sleepers of two threads meet", sleepers_of_two_threads_meet },
	{ "falling asleep late loses nothing", falling_asleep_late_loses_nothing },
	{ "the end of the peer wakes", the_end_of_the_peer_wakes },
	{ "a closed connection says no more", a_closed_connection_says_no_more },
	{ NULL, NULL },
};
