/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing in every state, suite->rounds times each, at moments taken from the seed. A close never blocks, the other
 * end has its error soon, and in the end no descriptor is left.
 */
#include "base/params.h"
#include "support/link.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "support/transport_suite.h"
#include "support/transport_suite_internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CLOSE_MS  2000  /* far above any close that does not wait, far below any time-out that one could wait for */
#define ERROR_MS  60000 /* many of the tests' time-outs */
#define SETTLE_MS 60000
#define QUICK_NS  UINT64_C(1000000000) /* time-out of connects that are not finished */

enum close_state {
	CLOSE_LISTENING,
	CLOSE_CONNECT_STARTED, /* some steps of connect, none of accept */
	CLOSE_BOTH_STARTED,    /* some steps of both; whatever stands is closed */
	CLOSE_IDLE,
	CLOSE_USED_IDLE, /* after traffic */
	CLOSE_SENDS_OUTSTANDING,
	CLOSE_RECEIVES_OUTSTANDING,
	CLOSE_MID_TRANSFER,
	CLOSE_STATE_COUNT
};

static const char *const close_state_names[CLOSE_STATE_COUNT] = {
	"listening",  "connect started",   "both started",         "idle",
	"used, idle", "sends outstanding", "receives outstanding", "mid-transfer",
};

static const struct traffic_shape close_traffic = {
	.name = "until closed",
	.messages = 64,
	.max_bytes = 1 << 20,
	.window = 8,
	.group_max = 3,
};

/* But for what the machine did. */
static void did_not_wait(uint64_t deadline_ns, uint64_t stalled_ns)
{
	assert_false(runtime_past(deadline_ns + runtime_stalled_ns() - stalled_ns));
}

static void close_one(const struct transport_ops *ops, struct transport_connection **connection)
{
	uint64_t stalled_ns = runtime_stalled_ns(), deadline_ns = runtime_deadline_ns(CLOSE_MS);

	ops->close_connection(*connection);
	*connection = NULL;
	did_not_wait(deadline_ns, stalled_ns);
}

/* Goes on with what it was doing until the other end's absence shows. */
static void must_fail_soon(struct traffic_end *end, enum close_state state)
{
	uint64_t deadline_ns = runtime_deadline_ns(ERROR_MS);
	int r = 0;

	while (r == 0) {
		r = traffic_step_until_error(end);
		if (r == 0 && runtime_past(deadline_ns))
			r = -ETIMEDOUT;
	}
	if (r != -EREMOTEIO)
		fail_msg("%s, %s closed: the other end has %d after %u of %u, %u outstanding", close_state_names[state],
			 end->sends ? "receiver" : "sender", r, end->completed, end->total, end->outstanding);
}

static void steps(struct link *link, const struct transport_suite *suite, unsigned connects, unsigned accepts)
{
	const uint64_t until_ns = runtime_now_ns() + QUICK_NS;
	int r = 0;

	while (connects || accepts) {
		if (connects && !link->sender && r == 0)
			r = suite->ops->connect(suite->transport, suite->device, -1, link->handle, &link->sender);
		assert_true(r == 0 || runtime_past(until_ns)); /* on a busy machine its time may have passed */
		connects -= connects > 0;
		if (accepts && !link->receiver)
			assert_int_equal(suite->ops->accept(link->listener, &link->receiver), 0);
		accepts -= accepts > 0;
	}
}

static void close_while_connecting(const struct transport_suite *suite, enum close_state state, uint64_t *random)
{
	struct link link = { .ops = suite->ops };
	uint64_t deadline_ns, stalled_ns;

	assert_int_equal(suite->ops->listen(suite->transport, suite->device, link.handle, &link.listener), 0);
	if (state == CLOSE_CONNECT_STARTED)
		steps(&link, suite, 1 + (unsigned)random_below(random, 8), 0);
	if (state == CLOSE_BOTH_STARTED)
		steps(&link, suite, 1 + (unsigned)random_below(random, 12), (unsigned)random_below(random, 12));
	stalled_ns = runtime_stalled_ns();
	deadline_ns = runtime_deadline_ns(CLOSE_MS);
	link_close(&link);
	did_not_wait(deadline_ns, stalled_ns);
}

/* Which steps lead to the state; then one end closes and the other is asked. */
static void close_while_connected(const struct transport_suite *suite, enum close_state state, uint64_t *random)
{
	struct traffic_end *ends = calloc(2, sizeof(*ends)); /* 0 sends, 1 receives */
	unsigned closes = (unsigned)random_below(random, 2), turns = 1 + (unsigned)random_below(random, 60);
	struct traffic_plan plan;
	struct link link;

	assert_non_null(ends);
	assert_int_equal(link_open(suite->ops, suite->transport, suite->device, &link), 0);
	if (random_below(random, 2)) {
		suite->ops->close_listener(link.listener);
		link.listener = NULL;
	}
	if (state == CLOSE_USED_IDLE)
		assert_int_equal(link_exchange(&link, random_below(random, 300000), random_next(random)), 0);
	assert_int_equal(traffic_plan_init(&close_traffic, random_next(random), suite->max_recvs, &plan), 0);
	traffic_end_init(&ends[0], suite->ops, link.sender, &plan, true);
	traffic_end_init(&ends[1], suite->ops, link.receiver, &plan, false);
	for (unsigned i = 0; i < turns; i++) {
		if (state == CLOSE_SENDS_OUTSTANDING || state == CLOSE_MID_TRANSFER)
			assert_true(traffic_step(&ends[0]) >= 0);
		if (state == CLOSE_RECEIVES_OUTSTANDING || state == CLOSE_MID_TRANSFER)
			assert_true(traffic_step(&ends[1]) >= 0);
	}
	close_one(suite->ops, closes ? &link.receiver : &link.sender);
	traffic_end_fini(&ends[closes]); /* its buffers go: nothing may touch them now */
	must_fail_soon(&ends[!closes], state);
	link_close(&link);
	traffic_end_fini(&ends[!closes]);
	traffic_plan_fini(&plan);
	free(ends);
}

/* What each descriptor is, for a failure that may not come again. */
static void print_descriptors(void)
{
	char path[64], target[128];

	for (int fd = 0; fd < 256; fd++) {
		ssize_t bytes;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		bytes = readlink(path, target, sizeof(target) - 1);
		if (bytes > 0)
			print_error("descriptor %d: %.*s\n", fd, (int)bytes, target);
	}
}

static void settled(unsigned fds)
{
	uint64_t deadline_ns = runtime_deadline_ns(SETTLE_MS);

	/* Once is enough: a thread of the transport may open something for a moment. */
	while (!runtime_past(deadline_ns)) {
		if (runtime_fd_count() <= fds)
			return;
		usleep(10000);
	}
	print_descriptors();
	fail_msg("%u descriptors before, %u after", fds, runtime_fd_count());
}

/* What the transport opens once and keeps is not counted as lost. The descriptors then. */
static unsigned opened_once(const struct transport_suite *suite)
{
	struct link link;

	assert_int_equal(link_open(suite->ops, suite->transport, suite->device, &link), 0);
	link_close(&link);
	return runtime_fd_count();
}

static void closing_works_in_every_state(void **state)
{
	const struct transport_suite *suite = *state;
	uint64_t random = suite->seed ^ 0xc105e;
	unsigned fds;

	fds = opened_once(suite);
	for (unsigned round = 0; round < suite->rounds; round++) {
		close_while_connecting(suite, CLOSE_LISTENING, &random);
		for (enum close_state at = CLOSE_IDLE; at < CLOSE_STATE_COUNT; at++)
			close_while_connected(suite, at, &random);
	}
	settled(fds);
}

/* They end by themselves after some time; nothing else is in need of that. */
static void unfinished_connects_end(void **state)
{
	struct transport_suite suite = *(const struct transport_suite *)*state;
	struct params quick;
	uint64_t random = suite.seed ^ 0x0f1a15;
	unsigned fds;

	if (suite.params) {
		quick = *suite.params;
		quick.timeout_ns = QUICK_NS;
		assert_int_equal(suite.ops->open(&quick, &suite.transport), 0);
	}
	fds = opened_once(&suite);
	for (unsigned round = 0; round < suite.rounds; round++) {
		close_while_connecting(&suite, CLOSE_CONNECT_STARTED, &random);
		close_while_connecting(&suite, CLOSE_BOTH_STARTED, &random);
	}
	settled(fds);
	if (suite.params)
		suite.ops->close(suite.transport);
}

/* As with a socket: a send that was reported done arrives although the sender is gone. */
static void what_was_done_before_the_close_arrives(void **state)
{
	static const size_t sizes[] = { 0, 1, 1000, 20000, 65536, 100000, 3000000 };
	const struct transport_suite *suite = *state;
	struct traffic_end *ends = calloc(2, sizeof(*ends));
	uint64_t random = suite->seed ^ 0xd07e;

	assert_non_null(ends);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct traffic_shape shape = { .name = "closed after done", .messages = 6, .window = 8 };
		uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
		struct traffic_plan plan;
		struct link link;
		int sent = 0, received = 0;

		shape.min_bytes = sizes[s];
		assert_int_equal(link_open(suite->ops, suite->transport, suite->device, &link), 0);
		assert_int_equal(traffic_plan_init(&shape, random_next(&random), 1, &plan), 0);
		traffic_end_init(&ends[0], suite->ops, link.sender, &plan, true);
		traffic_end_init(&ends[1], suite->ops, link.receiver, &plan, false);
		while (!sent) {
			sent = traffic_step(&ends[0]);
			/* Mostly the sender's turn, so that it is done as early as it can be. */
			if (!sent && !received && !random_below(&random, 20))
				received = traffic_step(&ends[1]);
			assert_true(sent >= 0 && received >= 0);
			assert_false(runtime_past(deadline_ns));
		}
		close_one(suite->ops, &link.sender);
		while (!received) {
			received = traffic_step(&ends[1]);
			assert_true(received >= 0);
			assert_false(runtime_past(deadline_ns));
		}
		link_close(&link);
		traffic_plan_fini(&plan);
	}
	free(ends);
}

/* A connection that failed says so at every later call, and does no more harm. */
static void after_an_error_every_call_fails(void **state)
{
	const struct transport_suite *suite = *state;
	uint64_t deadline_ns = runtime_deadline_ns(ERROR_MS);
	struct transport_request *request = NULL;
	uint8_t byte = 0;
	void *data = &byte, *registration = NULL;
	size_t bytes = 1;
	struct link link;
	int r = 0, tag = 0;

	assert_int_equal(link_open(suite->ops, suite->transport, suite->device, &link), 0);
	close_one(suite->ops, &link.sender);
	while (r == 0 && !runtime_past(deadline_ns)) {
		bool done = false;

		r = request ? suite->ops->test(request, &done, NULL)
			    : suite->ops->receive(link.receiver, 1, &data, &bytes, &tag, &registration, &request);
		assert_false(done);
	}
	assert_int_equal(r, -EREMOTEIO);
	for (unsigned i = 0; i < 50; i++) {
		request = NULL;
		assert_int_equal(suite->ops->receive(link.receiver, 1, &data, &bytes, &tag, &registration, &request),
				 -EREMOTEIO);
	}
	link_close(&link);
}

/* With connections in both directions and in traffic, all is closed in any order while other links go on. */
static void others_go_on_while_one_is_closed(void **state)
{
	const struct transport_suite *suite = *state;
	struct link stays, goes;

	assert_int_equal(link_open(suite->ops, suite->transport, suite->device, &stays), 0);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(link_open(suite->ops, suite->transport, suite->device, &goes), 0);
		assert_int_equal(link_exchange(&stays, 20000 + i, suite->seed + i), 0);
		if (i % 2)
			assert_int_equal(link_exchange(&goes, 20000 + i, suite->seed + i), 0);
		link_close(&goes);
		assert_int_equal(link_exchange(&stays, 20000 + i, suite->seed + i), 0);
	}
	link_close(&stays);
}

const struct transport_suite_case transport_suite_close_cases[] = {
	{ "closing works in every state", closing_works_in_every_state },
	{ "what was done before the close arrives", what_was_done_before_the_close_arrives },
	{ "after an error every call fails", after_an_error_every_call_fails },
	{ "others go on while one is closed", others_go_on_while_one_is_closed },
	{ NULL, NULL },
};

const struct transport_suite_case transport_suite_unfinished_cases[] = {
	{ "unfinished connects end", unfinished_connects_end },
	{ NULL, NULL },
};
