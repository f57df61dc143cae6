/*
 * Callers that sleep in epoll and never poll (transport.h, watch): every message arrives, whatever holds it back. A wait
 * that finds nothing for a tenth of a second, with work left, is looked at closely: when progress() then moves something
 * that no event told of, an event was lost.
 */
#include "support/link.h"
#include "support/runtime.h"
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

enum {
	SLEEPER_ENDS = 8,
	SILENT_MS = 100,
	SILENCES_MAX = 3, /* a dropped packet of the loop device is sent again after 200 ms */
	RUN_MS = 40000,
	NEWS_MS = 6000, /* until a sleeper learns of the other end's end */
};

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

struct sleeper {
	const struct transport_ops *ops;
	struct traffic_end *ends[SLEEPER_ENDS];
	enum transport_next next[SLEEPER_ENDS];
	bool done[SLEEPER_ENDS];
	unsigned count, silences;
	bool alone; /* nobody else moves anything: silence means something */
	int epoll_fd;
};

static void sleeper_open(struct sleeper *sleeper, const struct transport_ops *ops)
{
	memset(sleeper, 0, sizeof(*sleeper));
	sleeper->ops = ops;
	sleeper->alone = true;
	sleeper->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(sleeper->epoll_fd >= 0);
}

static void sleeper_add(struct sleeper *sleeper, struct traffic_end *end)
{
	unsigned at = sleeper->count++;

	assert_true(at < SLEEPER_ENDS);
	sleeper->ends[at] = end;
	assert_int_equal(sleeper->ops->watch(end->connection, sleeper->epoll_fd, 1000 + at), 0);
}

static bool is_late(const struct traffic_end *end)
{
	const struct traffic_shape *shape = end->plan->shape;

	return end->steps <= (end->sends ? shape->sender_late : shape->receiver_late);
}

/* Posts and tests until neither gets further. 1: something changed. */
static int settle(struct sleeper *sleeper, unsigned at)
{
	struct traffic_end *end = sleeper->ends[at];
	unsigned posted, completed;
	bool changed = false;
	int r;

	do {
		if (sleeper->done[at])
			return changed;
		posted = end->posted;
		completed = end->completed;
		r = traffic_step(end);
		if (r < 0)
			return r;
		sleeper->done[at] = r == 1;
		changed |= posted != end->posted || completed != end->completed;
	} while (posted != end->posted || completed != end->completed);
	return changed;
}

static int progress(struct sleeper *sleeper, unsigned at)
{
	return sleeper->ops->progress(sleeper->ends[at]->connection, &sleeper->next[at]);
}

/* What was slept through: nobody told, and yet there was something to move. */
static int examine_silence(struct sleeper *sleeper)
{
	struct epoll_event events[SLEEPER_ENDS];
	int r = 0;

	for (unsigned i = 0; i < sleeper->count && r == 0; i++) {
		r = progress(sleeper, i);
		if (r == 0)
			r = settle(sleeper, i);
		if (r == 1 && epoll_wait(sleeper->epoll_fd, events, SLEEPER_ENDS, 0) == 0)
			return runtime_complain(ENOMSG, "%s: the %s slept through something: %u of %u done",
						sleeper->ends[i]->plan->shape->name,
						sleeper->ends[i]->sends ? "sender" : "receiver",
						sleeper->ends[i]->completed, sleeper->ends[i]->total);
		if (r > 0)
			return 0;
	}
	if (r == 0 && ++sleeper->silences > SILENCES_MAX)
		return runtime_complain(ENOMSG, "%s: %u times nothing for %d ms", sleeper->ends[0]->plan->shape->name,
					sleeper->silences, SILENT_MS);
	return r;
}

static int serve(struct sleeper *sleeper, int timeout_ms, enum transport_next least)
{
	struct epoll_event events[SLEEPER_ENDS];
	int r = 0, count = epoll_wait(sleeper->epoll_fd, events, SLEEPER_ENDS, timeout_ms);

	for (unsigned i = 0; i < sleeper->count && r == 0; i++)
		if (sleeper->next[i] == TRANSPORT_NEXT_NOW || (count == 0 && sleeper->next[i] == least))
			r = progress(sleeper, i);
	for (int i = 0; i < count && r == 0; i++) {
		if (events[i].data.u64 < 1000 || events[i].data.u64 >= 1000 + sleeper->count)
			return runtime_complain(EBADMSG, "an event with a key that was never given");
		r = progress(sleeper, (unsigned)(events[i].data.u64 - 1000));
	}
	if (r == 0 && count == 0 && timeout_ms == SILENT_MS && sleeper->alone)
		r = examine_silence(sleeper);
	return r;
}

/* 0 when all its ends are through, or the first error. */
static int sleeper_run(struct sleeper *sleeper)
{
	uint64_t deadline_ns = runtime_deadline_ns(RUN_MS);
	bool all = false;
	int r = 0;

	while (r >= 0) {
		enum transport_next least = TRANSPORT_NEXT_EVENT;
		bool busy = false;

		all = true;
		for (unsigned i = 0; i < sleeper->count; i++) {
			r = settle(sleeper, i);
			if (r < 0)
				return r;
			all &= sleeper->done[i];
			busy |= !sleeper->done[i] && is_late(sleeper->ends[i]);
			if (sleeper->next[i] > least)
				least = sleeper->next[i];
		}
		if (all)
			return 0;
		if (runtime_past(deadline_ns))
			return runtime_complain(ETIMEDOUT, "%s: %u of %u", sleeper->ends[0]->plan->shape->name,
						sleeper->ends[0]->completed, sleeper->ends[0]->total);
		r = serve(sleeper,
			  busy || least == TRANSPORT_NEXT_NOW ? 0
			  : least == TRANSPORT_NEXT_SOON      ? 1
							      : SILENT_MS,
			  TRANSPORT_NEXT_SOON);
	}
	return r;
}

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

		sleeper_open(&sleeper, suite->ops);
		asleep_add(&asleep, suite, shape);
		sleeper_add(&sleeper, &asleep.ends[0]);
		sleeper_add(&sleeper, &asleep.ends[1]);
		assert_int_equal(sleeper_run(&sleeper), 0);
		asleep_close(&asleep);
		close(sleeper.epoll_fd);
	}
}

/* Big ones, small ones and too many at once, on connections of one set. */
static void a_sleeper_serves_many_connections(void **state)
{
	static const struct traffic_shape *const shapes[] = { &mixed, &small, &big, &pressed };
	const struct transport_suite *suite = *state;
	struct asleep asleep = { .count = 0 };
	struct sleeper sleeper;

	sleeper_open(&sleeper, suite->ops);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		asleep_add(&asleep, suite, shapes[i]);
		sleeper_add(&sleeper, &asleep.ends[2 * i]);
		sleeper_add(&sleeper, &asleep.ends[2 * i + 1]);
	}
	assert_int_equal(sleeper_run(&sleeper), 0);
	asleep_close(&asleep);
	close(sleeper.epoll_fd);
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

	sleeper_open(&sleepers[0], suite->ops);
	sleeper_open(&sleepers[1], suite->ops);
	sleepers[0].alone = sleepers[1].alone = false;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		asleep_add(&asleep, suite, shapes[i]);
		sleeper_add(&sleepers[0], &asleep.ends[2 * i]);
		sleeper_add(&sleepers[1], &asleep.ends[2 * i + 1]);
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_sleeper, &sleepers[i]), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], &results[i]);
	assert_int_equal((intptr_t)results[0], 0);
	assert_int_equal((intptr_t)results[1], 0);
	asleep_close(&asleep);
	close(sleepers[0].epoll_fd);
	close(sleepers[1].epoll_fd);
}

/* In the midst of traffic, with requests outstanding and bytes on the way, both go to sleep. */
static void falling_asleep_late_loses_nothing(void **state)
{
	const struct transport_suite *suite = *state;
	struct random random;

	random_init(&random, suite->seed ^ 0x1a7e);
	for (unsigned round = 0; round < suite->rounds; round++) {
		unsigned turns = (unsigned)random_below(&random, 300);
		struct asleep asleep = { .count = 0 };
		struct sleeper sleeper;

		sleeper_open(&sleeper, suite->ops);
		asleep_add(&asleep, suite, &mixed);
		for (unsigned i = 0; i < turns; i++) {
			unsigned at = (unsigned)random_below(&random, 2);

			if (asleep.ends[at].completed < asleep.ends[at].total)
				assert_true(traffic_step(&asleep.ends[at]) >= 0);
		}
		sleeper_add(&sleeper, &asleep.ends[0]);
		sleeper_add(&sleeper, &asleep.ends[1]);
		assert_int_equal(suite->ops->watch(asleep.ends[0].connection, sleeper.epoll_fd, 5), -EBUSY);
		assert_int_equal(sleeper_run(&sleeper), 0);
		asleep_close(&asleep);
		close(sleeper.epoll_fd);
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
		assert_int_equal(epoll_wait(epoll_fd, &event, 1, 300), 0);
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
