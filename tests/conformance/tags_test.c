/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several tags on one connection, through NCCL's interface: messages keep their order within a tag and wait for nothing of
 * another, whether the receives come first, the messages come first, or nobody ever receives some of them.
 */
#include "plugin_ops.h"
#include "raw_peer.h"
#include "support/link.h"
#include "support/runtime.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

enum { AHEAD = 8, PATIENCE_MS = 60000 };

/* A sequence of messages of one connection: tags in the order of sends, and of receives. */
struct stream {
	const int *sends, *receives;
	unsigned count;
	size_t bytes;
	bool receives_first;
};

struct pair {
	struct link link;
	uint8_t *out, *in;
	struct transport_request *send[AHEAD], *receive[AHEAD];
	uint8_t content[AHEAD]; /* of the messages that are received */
	unsigned sent, sends_done, posted, received;
};

static struct transport *transport;

static int open_transport(void **state)
{
	(void)state;
	transport = raw_opened();
	return 0;
}

static int close_transport(void **state)
{
	(void)state;
	plugin_ops.close(transport);
	return 0;
}

static struct transport_request *try_receive(const struct link *link, void *data, size_t bytes, int tag)
{
	struct transport_request *request = NULL;
	void *registration = NULL;

	assert_int_equal(plugin_ops.receive(link->receiver, 1, &data, &bytes, &tag, &registration, &request), 0);
	return request;
}

static struct transport_request *try_send(const struct link *link, void *data, size_t bytes, int tag)
{
	struct transport_request *request = NULL;

	assert_int_equal(plugin_ops.send(link->sender, data, bytes, tag, NULL, &request), 0);
	return request;
}

static bool is_done(struct transport_request *request)
{
	bool done = false;

	assert_int_equal(plugin_ops.test(request, &done, NULL), 0);
	return done;
}

/* What that message is filled with: the n-th receive of a tag expects the n-th message of it. */
static uint8_t content_of(const int *tags, unsigned at)
{
	unsigned rank = 0;

	for (unsigned i = 0; i < at; i++)
		rank += tags[i] == tags[at];
	return (uint8_t)(31 * (unsigned)tags[at] + rank);
}

/* Any of the requests that are open may be done first: of other tags than the oldest. */
static void collect(struct pair *pair, const struct stream *stream)
{
	for (unsigned i = 0; i < AHEAD; i++) {
		const uint8_t *data = pair->in + i * stream->bytes;

		if (pair->send[i] && is_done(pair->send[i])) {
			pair->send[i] = NULL;
			pair->sends_done++;
		}
		if (pair->receive[i] && is_done(pair->receive[i])) {
			pair->receive[i] = NULL;
			pair->received++;
			assert_int_equal(data[0], pair->content[i]);
			assert_memory_equal(data, data + 1, stream->bytes - 1);
		}
	}
}

static void run(const struct stream *stream)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	uint64_t deadline_ns = runtime_deadline_ns(PATIENCE_MS);

	assert_non_null(pair);
	pair->out = malloc(AHEAD * stream->bytes);
	pair->in = malloc(AHEAD * stream->bytes);
	assert_true(pair->out && pair->in);
	assert_int_equal(link_open(&plugin_ops, transport, 0, &pair->link), 0);
	while (pair->sends_done < stream->count || pair->received < stream->count) {
		const unsigned s = pair->sent % AHEAD, p = pair->posted % AHEAD;
		const bool last = pair->posted == stream->count;

		if (!last && !pair->receive[p]) {
			pair->receive[p] = try_receive(&pair->link, pair->in + p * stream->bytes, stream->bytes,
						       stream->receives[pair->posted]);
			pair->content[p] = content_of(stream->receives, pair->posted);
			pair->posted += pair->receive[p] != NULL;
		}
		/* Or else each has its receive for a while before it is sent. */
		if (pair->sent < stream->count && !pair->send[s] &&
		    (!stream->receives_first || last || pair->posted > pair->sent + AHEAD / 2)) {
			memset(pair->out + s * stream->bytes, content_of(stream->sends, pair->sent), stream->bytes);
			pair->send[s] = try_send(&pair->link, pair->out + s * stream->bytes, stream->bytes,
						 stream->sends[pair->sent]);
			pair->sent += pair->send[s] != NULL;
		}
		collect(pair, stream);
		if (runtime_past(deadline_ns))
			fail_msg("stops after %u sends and %u receives of %u", pair->sends_done, pair->received,
				 stream->count);
	}
	link_close(&pair->link);
	free(pair->out);
	free(pair->in);
	free(pair);
}

/* Tag 9 once, then tag 7 for long: long enough that the receiver sees nobody else send to it. */
static void one_of_a_tag_then_another_for_long(void **state)
{
	enum { MESSAGES = 2000, SHORT_MESSAGES = 300 };
	static int tags[MESSAGES];
	struct stream stream = { .sends = tags, .receives = tags, .bytes = MIB };

	(void)state;
	for (unsigned i = 0; i < MESSAGES; i++)
		tags[i] = i ? 7 : 9;
	stream.count = runtime_long() ? MESSAGES : SHORT_MESSAGES;
	run(&stream);
	stream.receives_first = true;
	run(&stream);
}

/* The receiver has said that receives of tag 7 are posted when tag 9 comes between. */
static void every_receive_posted_in_another_order(void **state)
{
	static const int sends[] = { 7, 9, 7, 7, 7 }, receives[] = { 7, 7, 7, 7, 9 };
	static const int later_sends[] = { 7, 7, 7, 7, 7, 9, 7, 7, 7 },
			 later_receives[] = { 7, 7, 7, 7, 7, 7, 7, 7, 9 };
	struct stream streams[] = { { .sends = sends, .receives = receives, .count = 5 },
				    { .sends = later_sends, .receives = later_receives, .count = 9 } };

	(void)state;
	for (size_t bytes = 1; bytes <= 4 * MIB; bytes *= 4)
		for (unsigned i = 0; i < 4; i++) {
			struct stream *stream = &streams[i / 2];

			stream->bytes = bytes;
			stream->receives_first = i % 2;
			run(stream);
		}
}

enum { OTHERS = 300 };

/* One message each way, of hand to hand; its tag's messages are not the ones that nobody receives. */
static void exchange(const struct link *link, size_t bytes, int tag)
{
	static uint8_t out[MIB / 4], in[MIB / 4];
	uint64_t deadline_ns = runtime_deadline_ns(PATIENCE_MS);
	struct transport_request *send = NULL, *receive = NULL;
	bool sent = false, received = false;

	memset(out, (int)bytes + tag, bytes);
	while (!sent || !received) {
		if (!send)
			send = try_send(link, out, bytes, tag);
		if (!receive)
			receive = try_receive(link, in, bytes, tag);
		sent = sent || (send && is_done(send));
		received = received || (receive && is_done(receive));
		if (runtime_past(deadline_ns))
			fail_msg("tag %d, %zu bytes: %s", tag, bytes, send ? "it hangs" : "no request is to be had");
	}
	assert_memory_equal(in, out, bytes);
}

static void leave_unmatched(unsigned count, size_t bytes)
{
	uint8_t *out = malloc(count * (bytes + 1)), *in = malloc(bytes + 1);
	struct transport_request *sends[100] = { NULL };
	uint64_t deadline_ns = runtime_deadline_ns(PATIENCE_MS);
	struct link link;

	assert_true(out && in);
	assert_int_equal(link_open(&plugin_ops, transport, 0, &link), 0);
	for (unsigned m = 0; m < count; m++) {
		memset(out + m * bytes, (int)m, bytes);
		while (!(sends[m] = try_send(&link, out + m * bytes, bytes, 9))) {
			exchange(&link, 8, 5); /* so that both ends are looked at */
			assert_false(runtime_past(deadline_ns));
		}
		if (is_done(sends[m]))
			sends[m] = NULL;
	}
	for (unsigned i = 0; i < OTHERS; i++) {
		exchange(&link, MIB / 4, 7);
		exchange(&link, 100, 8);
	}
	for (unsigned m = 0; m < count; m++) {
		struct transport_request *receive = NULL;
		bool received = false;

		while (!received || sends[m]) {
			if (!receive)
				receive = try_receive(&link, in, bytes, 9);
			received = received || (receive && is_done(receive));
			if (sends[m] && is_done(sends[m]))
				sends[m] = NULL;
			assert_false(runtime_past(deadline_ns));
		}
		assert_memory_equal(in, out + m * bytes, bytes);
	}
	link_close(&link);
	free(out);
	free(in);
}

static void what_nobody_receives_stops_no_other_tag(void **state)
{
	(void)state;
	leave_unmatched(1, 100);
	leave_unmatched(1, MIB / 2);
	leave_unmatched(100, 100);
	leave_unmatched(TRANSPORT_MAX_REQUESTS - 2, MIB / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_a_tag_then_another_for_long),
		cmocka_unit_test(every_receive_posted_in_another_order),
		cmocka_unit_test(what_nobody_receives_stops_no_other_tag),
	};

	runtime_start("tags_test", 60);
	runtime_set_streams(0);
	return cmocka_run_group_tests(tests, open_transport, close_transport);
}
