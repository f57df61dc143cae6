/* SPDX-License-Identifier: Apache-2.0 */
#include "support/link.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "support/transport_suite.h"
#include "support/transport_suite_internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((size_t)1024 * 1024)

static void open_link(const struct transport_suite *suite, struct link *link)
{
	assert_int_equal(link_open(suite->ops, suite->transport, suite->device, link), 0);
}

/* ---- traffic of every shape ---- */

static void every_shape_of_traffic_arrives(void **state)
{
	const struct transport_suite *suite = *state;
	const struct traffic_shape *shape;
	struct link link;

	open_link(suite, &link);
	for (shape = traffic_shapes; shape->name; shape++)
		assert_int_equal(
			traffic_between(shape, suite->seed, suite->max_recvs, suite->ops, link.sender, link.receiver),
			0);
	link_close(&link);
}

static void big_and_odd_sizes_arrive(void **state)
{
	static const size_t sizes[] = {
		0,
		1,
		2,
		3,
		7,
		8,
		9,
		63,
		64,
		65,
		127,
		128,
		129,
		255,
		511,
		512,
		513,
		1000,
		1448,
		4095,
		4096,
		4097,
		8191,
		8192,
		8193,
		16383,
		16384,
		16385,
		32767,
		32768,
		32769,
		65535,
		65536,
		65537,
		131071,
		131073,
		262143,
		262145,
		524287,
		524289,
		MIB - 1,
		MIB,
		MIB + 1,
		3 * MIB + 17,
		16 * MIB - 3,
		64 * MIB + 1,
	};
	const struct transport_suite *suite = *state;
	size_t count = sizeof(sizes) / sizeof(sizes[0]);
	struct link link;

	open_link(suite, &link);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(link_exchange(&link, sizes[i], suite->seed + i), 0);
	link_close(&link);
}

#define BOTH_WAYS 2

/* Two hosts send to each other at the same time, from one thread. */
static void traffic_goes_both_ways_at_once(void **state)
{
	static const struct traffic_shape shape = {
		.name = "both ways",
		.messages = 60,
		.max_bytes = 1 << 20,
		.window = 8,
		.group_max = 3,
	};
	const struct transport_suite *suite = *state;
	struct traffic_end *ends = calloc(2 * BOTH_WAYS, sizeof(*ends));
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct traffic_plan plans[BOTH_WAYS];
	struct link links[BOTH_WAYS];
	unsigned done = 0;

	assert_non_null(ends);
	for (unsigned i = 0; i < BOTH_WAYS; i++) {
		open_link(suite, &links[i]);
		assert_int_equal(traffic_plan_init(&shape, suite->seed + i, suite->max_recvs, &plans[i]), 0);
		traffic_end_init(&ends[2 * i], suite->ops, links[i].sender, &plans[i], true);
		traffic_end_init(&ends[2 * i + 1], suite->ops, links[i].receiver, &plans[i], false);
	}
	while (done != (1u << 2 * BOTH_WAYS) - 1) {
		for (unsigned i = 0; i < 2 * BOTH_WAYS; i++) {
			int r = done & 1u << i ? 0 : traffic_step(&ends[i]);

			assert_true(r >= 0);
			done |= (unsigned)r << i;
		}
		assert_false(runtime_past(deadline_ns));
	}
	for (unsigned i = 0; i < BOTH_WAYS; i++) {
		traffic_plan_fini(&plans[i]);
		link_close(&links[i]);
	}
	free(ends);
}

/* ---- limits ---- */

struct flood {
	struct transport_request *sends[TRANSPORT_MAX_REQUESTS], *receives[TRANSPORT_MAX_REQUESTS];
	uint8_t from[TRANSPORT_MAX_REQUESTS][600], to[TRANSPORT_MAX_REQUESTS][600];
	unsigned sent, received;
};

static struct transport_request *flood_receive(struct link *link, void *to, size_t bytes)
{
	struct transport_request *request = NULL;
	void *registration = NULL;
	int tag = 3;

	assert_int_equal(link->ops->receive(link->receiver, 1, &to, &bytes, &tag, &registration, &request), 0);
	return request;
}

static struct transport_request *flood_send(struct link *link, void *from, size_t bytes)
{
	struct transport_request *request = NULL;

	assert_int_equal(link->ops->send(link->sender, from, bytes, 3, NULL, &request), 0);
	return request;
}

static void flood_finish(struct link *link, struct flood *flood, size_t bytes)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	unsigned i = 0, j = 0;
	bool done;

	while (i < flood->sent || j < flood->received) {
		done = false;
		if (i < flood->sent)
			assert_int_equal(link->ops->test(flood->sends[i], &done, NULL), 0);
		i += done;
		done = false;
		if (j < flood->received)
			assert_int_equal(link->ops->test(flood->receives[j], &done, NULL), 0);
		j += done;
		assert_false(runtime_past(deadline_ns));
	}
	for (j = 0; j < flood->received; j++)
		assert_memory_equal(flood->to[j], flood->from[j], bytes);
}

/* 32 of each are taken without a single test; one more is "come again"; after one is done there is room. */
static void the_33rd_request_must_come_again(void **state)
{
	static const size_t sizes[] = { 0, 1, 600 };
	const struct transport_suite *suite = *state;
	struct flood *flood = calloc(1, sizeof(*flood));
	uint8_t more_from[600] = { 1 }, more_to[600];
	struct link link;

	assert_non_null(flood);
	open_link(suite, &link);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

		memset(flood, 0, sizeof(*flood));
		while (flood->received < TRANSPORT_MAX_REQUESTS || flood->sent < TRANSPORT_MAX_REQUESTS) {
			if (flood->received < TRANSPORT_MAX_REQUESTS) {
				flood->receives[flood->received] = flood_receive(&link, flood->to[flood->received],
										 600);
				flood->received += flood->receives[flood->received] != NULL;
			}
			if (flood->sent < TRANSPORT_MAX_REQUESTS) {
				pattern_fill(flood->from[flood->sent], 600, flood->sent);
				flood->sends[flood->sent] = flood_send(&link, flood->from[flood->sent], sizes[s]);
				flood->sent += flood->sends[flood->sent] != NULL;
			}
			assert_false(runtime_past(deadline_ns));
		}
		assert_null(flood_receive(&link, more_to, sizeof(more_to)));
		assert_null(flood_send(&link, more_from, sizes[s]));
		flood_finish(&link, flood, sizes[s]);
		assert_int_equal(link_exchange(&link, 100, 5), 0);
	}
	link_close(&link);
	free(flood);
}

/* Nobody receives: sends are refused at some point, never an error, and all arrive when somebody does. */
static void sending_to_nobody_waits(void **state)
{
	static const size_t sizes[] = { 1, 600 };
	const struct transport_suite *suite = *state;
	struct flood *flood = calloc(1, sizeof(*flood));
	struct link link;

	assert_non_null(flood);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint64_t stop_ns = runtime_deadline_ns(100), deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

		open_link(suite, &link);
		memset(flood, 0, sizeof(*flood));
		while (flood->sent < TRANSPORT_MAX_REQUESTS && (!flood->sent || !runtime_past(stop_ns))) {
			assert_false(runtime_past(deadline_ns));
			pattern_fill(flood->from[flood->sent], 600, flood->sent + 99);
			flood->sends[flood->sent] = flood_send(&link, flood->from[flood->sent], sizes[s]);
			flood->sent += flood->sends[flood->sent] != NULL;
		}
		assert_true(flood->sent > 0);
		while (flood->received < flood->sent) {
			flood->receives[flood->received] = flood_receive(&link, flood->to[flood->received], 600);
			flood->received += flood->receives[flood->received] != NULL;
			assert_false(runtime_past(deadline_ns));
		}
		flood_finish(&link, flood, sizes[s]);
		link_close(&link);
	}
	free(flood);
}

static bool done_now(const struct link *link, struct transport_request *request)
{
	bool done = false;

	assert_int_equal(link->ops->test(request, &done, NULL), 0);
	return done;
}

static struct transport_request *send_soon(struct link *link, void *from, size_t bytes)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *request;

	while (!(request = flood_send(link, from, bytes)))
		assert_false(runtime_past(deadline_ns));
	return request;
}

static struct transport_request *receive_soon(struct link *link, void *to, size_t bytes)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *request;

	while (!(request = flood_receive(link, to, bytes)))
		assert_false(runtime_past(deadline_ns));
	return request;
}

static void finish_both(const struct link *link, struct transport_request *send, struct transport_request *receive)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

	while (send || receive) {
		if (send && done_now(link, send))
			send = NULL;
		if (receive && done_now(link, receive))
			receive = NULL;
		assert_false(runtime_past(deadline_ns));
	}
}

/* With a limit of none a send is done when it was received; an empty one needs no asking; and the limit can be lifted. */
static void what_may_go_unasked_can_be_limited(void **state)
{
	const struct transport_suite *suite = *state;
	struct transport_request *send, *other = NULL;
	uint8_t from[600], to[600], other_to[8];
	void *data = other_to, *registration = NULL;
	size_t bytes = sizeof(other_to);
	struct link link;
	int tag = 99;

	if (!suite->ops->set)
		skip();
	open_link(suite, &link);
	suite->ops->set(link.sender, TRANSPORT_SET_EAGER_LIMIT, 0);
	pattern_fill(from, sizeof(from), 7);
	while (!other)
		assert_int_equal(link.ops->receive(link.receiver, 1, &data, &bytes, &tag, &registration, &other), 0);
	send = send_soon(&link, from, sizeof(from));
	for (unsigned i = 0; i < 200; i++) { /* both ends are looked at, and nothing is asked for */
		assert_false(done_now(&link, send));
		assert_false(done_now(&link, other));
	}
	finish_both(&link, send, receive_soon(&link, to, sizeof(to)));
	assert_memory_equal(from, to, sizeof(from));
	finish_both(&link, send_soon(&link, from, 0), NULL);
	finish_both(&link, NULL, receive_soon(&link, to, sizeof(to)));
	suite->ops->set(link.sender, TRANSPORT_SET_EAGER_LIMIT, UINT64_MAX);
	finish_both(&link, send_soon(&link, from, sizeof(from)), NULL); /* although nobody receives it */
	memset(to, 0, sizeof(to));
	finish_both(&link, NULL, receive_soon(&link, to, sizeof(to)));
	assert_memory_equal(from, to, sizeof(from));
	link_close(&link);
}

static void wrong_arguments_are_errors(void **state)
{
	const struct transport_suite *suite = *state;
	struct transport_request *request = NULL;
	size_t bytes[TRANSPORT_MAX_RECVS + 1] = { 0 };
	void *data[TRANSPORT_MAX_RECVS + 1] = { NULL }, *registrations[TRANSPORT_MAX_RECVS + 1] = { NULL };
	int tags[TRANSPORT_MAX_RECVS + 1] = { 0 };
	void *registration = NULL;
	struct link link;

	open_link(suite, &link);
	assert_true(suite->ops->receive(link.receiver, 0, data, bytes, tags, registrations, &request) < 0);
	assert_true(suite->ops->receive(link.receiver, (int)suite->max_recvs + 1, data, bytes, tags, registrations,
					&request) < 0);
	assert_true(suite->ops->memory_register(link.sender, &bytes, sizeof(bytes), TRANSPORT_MEMORY_CUDA,
						&registration) < 0);
	assert_true(suite->ops->memory_register(link.sender, &bytes, sizeof(bytes), 0x40, &registration) < 0);
	assert_null(request);
	/* They do no harm. */
	assert_int_equal(link_exchange(&link, 70000, 1), 0);
	link_close(&link);
}

static void flush_has_nothing_to_do_for_host_memory(void **state)
{
	const struct transport_suite *suite = *state;
	struct transport_request *request = NULL;
	uint8_t bytes[100];
	void *data = bytes, *registration = NULL;
	size_t size = sizeof(bytes);
	struct link link;

	open_link(suite, &link);
	assert_int_equal(suite->ops->memory_register(link.receiver, data, size, TRANSPORT_MEMORY_HOST, &registration),
			 0);
	assert_int_equal(suite->ops->flush(link.receiver, 1, &data, &size, &registration, &request), 0);
	if (request)
		assert_int_equal(link_finish(suite->ops, request, NULL), 0);
	assert_int_equal(suite->ops->memory_deregister(link.receiver, registration), 0);
	link_close(&link);
}

/* Longer than the receive it matches: an error at both ends, soon, and at every later call. */
static void a_message_too_long_for_its_receive_is_an_error(void **state)
{
	static const size_t sizes[] = { 100, 3000000 };
	const struct transport_suite *suite = *state;
	uint8_t *from = calloc(1, 3000000), *to = calloc(1, 3000000);

	assert_non_null(from);
	assert_non_null(to);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
		struct transport_request *send, *receive;
		int sender_is = 0, receiver_is = 0;
		bool sent = false, received = false;
		struct link link;

		open_link(suite, &link);
		receive = flood_receive(&link, to, sizes[s] - 1);
		send = flood_send(&link, from, sizes[s]);
		assert_non_null(receive);
		assert_non_null(send);
		to[sizes[s] - 1] = 0x77;
		while (receiver_is == 0) {
			receiver_is = suite->ops->test(receive, &received, NULL);
			assert_false(receiver_is == 0 && received);
			if (sender_is == 0 && !sent)
				sender_is = suite->ops->test(send, &sent, NULL);
			assert_false(runtime_past(deadline_ns));
		}
		assert_int_equal(to[sizes[s] - 1], 0x77);
		/* An eager send may have been taken before; then the next one fails. */
		while (sender_is == 0) {
			send = NULL;
			sender_is = suite->ops->send(link.sender, from, 10, 3, NULL, &send);
			while (sender_is == 0 && send && !runtime_past(deadline_ns)) {
				sent = false;
				sender_is = suite->ops->test(send, &sent, NULL);
				if (sent)
					break;
			}
			assert_false(sender_is == 0 && runtime_past(deadline_ns));
		}
		link_close(&link);
	}
	free(from);
	free(to);
}

/* FULL_TRIES: a process that got no CPU for FULL_MS has not been refused. */
enum { SHORT_BYTES = 4000, SHORT_MOST = 64, SHORT_FREED = 3, FULL_MS = 80, FULL_TRIES = 1000 };

/*
 * Sends messages that nobody receives, of as many tags, while each is done at once: how many. It ends with one that is
 * refused for a while, or one that waits for its receive: *ret_open.
 */
static unsigned fill_with(const struct transport_suite *suite, struct link *link, uint8_t *data, size_t bytes,
			  unsigned most, struct transport_request **ret_open)
{
	uint64_t full_ns = runtime_deadline_ns(FULL_MS);
	struct transport_request *request = NULL;
	unsigned count = 0, tries = 0;

	while (count < most && (tries < FULL_TRIES || !runtime_past(full_ns))) {
		if (!request)
			assert_int_equal(suite->ops->send(link->sender, data, bytes, (int)count, NULL, &request), 0);
		tries++;
		if (!request || !done_now(link, request))
			continue;
		request = NULL;
		count++;
		tries = 0;
		full_ns = runtime_deadline_ns(FULL_MS);
	}
	*ret_open = request;
	return count;
}

static struct transport_request *receive_tag(const struct link *link, void *data, size_t bytes, int tag)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *request = NULL;
	void *registration = NULL;

	while (!request) {
		assert_int_equal(link->ops->receive(link->receiver, 1, &data, &bytes, &tag, &registration, &request),
				 0);
		assert_false(runtime_past(deadline_ns));
	}
	return request;
}

/* However little it is: the next message may be the one that the receiver waits for. */
static void what_a_receiver_frees_is_told(void **state)
{
	const struct transport_suite *suite = *state;
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	uint8_t *data = calloc(1, SHORT_BYTES), *to = calloc(1, SHORT_BYTES);
	struct transport_request *request = NULL, *open;
	struct link link;
	size_t bytes = 0;
	unsigned count;

	assert_non_null(data);
	assert_non_null(to);
	open_link(suite, &link);
	count = fill_with(suite, &link, data, SHORT_BYTES, SHORT_MOST, &open);
	assert_true(count > SHORT_FREED && count < SHORT_MOST);
	for (unsigned i = 0; i < SHORT_FREED; i++)
		assert_int_equal(link_receive(suite->ops, link.receiver, to, SHORT_BYTES, (int)i, &bytes), 0);
	while (!request) {
		assert_int_equal(suite->ops->send(link.sender, data, SHORT_BYTES, SHORT_MOST, NULL, &request), 0);
		assert_false(runtime_past(deadline_ns));
	}
	finish_both(&link, request, receive_tag(&link, to, SHORT_BYTES, SHORT_MOST));
	if (open)
		finish_both(&link, open, receive_tag(&link, to, SHORT_BYTES, (int)count));
	link_close(&link);
	free(to);
	free(data);
}

/* What a sender is done with is received without its help: it may have gone on to other things, which wait for us. */
static void the_sender_may_look_away(void **state)
{
	enum { TINY_BYTES = 40, TINY_MOST = 150 };
	const struct transport_suite *suite = *state;
	uint8_t from[TINY_BYTES], to[TINY_BYTES];
	struct transport_request *open;
	struct link link;
	size_t bytes = 0;
	unsigned count;

	open_link(suite, &link);
	pattern_fill(from, sizeof(from), 8);
	count = fill_with(suite, &link, from, sizeof(from), TINY_MOST, &open);
	assert_true(count > 0);
	for (unsigned i = 0; i < count; i++) {
		memset(to, 0, sizeof(to));
		assert_int_equal(link_receive(suite->ops, link.receiver, to, sizeof(to), (int)i, &bytes), 0);
		assert_int_equal(bytes, sizeof(from));
		assert_memory_equal(to, from, sizeof(from));
	}
	if (open)
		finish_both(&link, open, receive_tag(&link, to, sizeof(to), (int)count));
	assert_int_equal(link_exchange(&link, 100, 5), 0);
	link_close(&link);
}

const struct transport_suite_case transport_suite_data_cases[] = {
	{ "every shape of traffic arrives", every_shape_of_traffic_arrives },
	{ "big and odd sizes arrive", big_and_odd_sizes_arrive },
	{ "traffic goes both ways at once", traffic_goes_both_ways_at_once },
	{ "the 33rd request must come again", the_33rd_request_must_come_again },
	{ "sending to nobody waits", sending_to_nobody_waits },
	{ "what a receiver frees is told", what_a_receiver_frees_is_told },
	{ "the sender may look away", the_sender_may_look_away },
	{ "what may go unasked can be limited", what_may_go_unasked_can_be_limited },
	{ "wrong arguments are errors", wrong_arguments_are_errors },
	{ "flush has nothing to do for host memory", flush_has_nothing_to_do_for_host_memory },
	{ "a message too long for its receive is an error", a_message_too_long_for_its_receive_is_an_error },
	{ NULL, NULL },
};
