/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP keeps no message boundaries: a frame may arrive in any two pieces, with the receive posted before, between or
 * after them. Whatever the pieces, messages of one tag reach their receives in order.
 */
#include "plugin_ops.h"
#include "raw_peer.h"
#include "support/link.h"
#include "support/runtime.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	PAYLOAD = 150,
	WHOLE = TCP_WIRE_FRAME_BYTES + PAYLOAD,
	TAG = 5,
	OTHER_TAG = 6,
	STREAMS = 2,
	PATIENCE_MS = 90000
};

struct raw_link {
	struct transport_listener *listener;
	struct transport_connection *receiver;
	struct transport_request *other; /* of OTHER_TAG: never completed, tested so that data is moved */
	uint8_t other_byte;
	int fds[STREAMS];
};

static struct transport_request *posted(struct raw_link *link, void *data, size_t bytes, int tag)
{
	struct transport_request *request = NULL;
	void *registration = NULL;

	assert_int_equal(plugin_ops.receive(link->receiver, 1, &data, &bytes, &tag, &registration, &request), 0);
	assert_non_null(request);
	return request;
}

static void raw_link_open(struct transport *transport, struct raw_link *link, uint64_t *random)
{
	uint8_t handle_bytes[TRANSPORT_HANDLE_BYTES];
	struct tcp_wire_handle handle;
	struct tcp_wire_hello hello;
	struct sockaddr_in address;

	assert_int_equal(plugin_ops.listen(transport, 0, handle_bytes, &link->listener), 0);
	address = raw_address(handle_bytes, &handle);
	hello = raw_hello(&handle, random);
	for (unsigned i = 0; i < STREAMS; i++) {
		hello.stream = (uint8_t)i;
		link->fds[i] = raw_stream(&address, &hello, handle.secret);
	}
	assert_int_equal(link_accept(&plugin_ops, link->listener, &link->receiver), 0);
	link->other = posted(link, &link->other_byte, 1, OTHER_TAG);
}

static void raw_link_close(struct raw_link *link)
{
	for (unsigned i = 0; i < STREAMS; i++)
		close(link->fds[i]);
	plugin_ops.close_connection(link->receiver);
	plugin_ops.close_listener(link->listener);
}

/* Everything that has arrived is taken: loopback delivers soon. Some polls more look at idle streams, too. */
static void moved(struct raw_link *link)
{
	for (unsigned i = 0; i < 60; i++) {
		bool done = false;

		assert_int_equal(plugin_ops.test(link->other, &done, NULL), 0);
		assert_false(done);
	}
}

static void eager_frame(unsigned message, uint64_t seed, uint8_t *bytes)
{
	struct tcp_frame frame = { .type = TCP_FRAME_EAGER,
				   .message = (uint32_t)(TCP_WIRE_FIRST_SEQUENCE + message),
				   .value = (uint64_t)message * TCP_WIRE_EAGER_LEAST * TCP_WIRE_EAGER_UNIT,
				   .tag = TAG,
				   .payload_bytes = PAYLOAD };

	tcp_wire_put_frame(&frame, bytes);
	pattern_fill(bytes + TCP_WIRE_FRAME_BYTES, PAYLOAD, seed);
}

/* In which of the three moments the receive of the first message is posted. */
static void arrives_in_pieces(struct transport *transport, size_t first_piece, unsigned moment, uint64_t *random)
{
	struct transport_request *requests[2] = { NULL };
	uint8_t frames[2][WHOLE], received[2][PAYLOAD];
	size_t sizes[TRANSPORT_MAX_RECVS];
	struct raw_link link;

	raw_link_open(transport, &link, random);
	eager_frame(0, 100, frames[0]);
	eager_frame(1, 101, frames[1]);
	if (moment == 0)
		requests[0] = posted(&link, received[0], PAYLOAD, TAG);
	raw_put(link.fds[0], frames[0], first_piece);
	moved(&link);
	if (moment == 1)
		requests[0] = posted(&link, received[0], PAYLOAD, TAG);
	raw_put(link.fds[0], frames[0] + first_piece, WHOLE - first_piece);
	moved(&link);
	if (moment == 2)
		requests[0] = posted(&link, received[0], PAYLOAD, TAG);
	raw_put(link.fds[0], frames[1], WHOLE);
	moved(&link);
	requests[1] = posted(&link, received[1], PAYLOAD, TAG);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t deadline_ns = runtime_deadline_ns(PATIENCE_MS);
		bool done = false;

		while (!done && !runtime_past(deadline_ns))
			assert_int_equal(plugin_ops.test(requests[i], &done, sizes), 0);
		if (!done)
			fail_msg("pieces of %zu and %zu bytes, receive posted at moment %u: message %u does not arrive",
				 first_piece, WHOLE - first_piece, moment, i);
		assert_int_equal(sizes[0], PAYLOAD);
		if (pattern_wrong_at(received[i], PAYLOAD, 100 + i) != SIZE_MAX)
			fail_msg("pieces of %zu and %zu bytes, receive posted at moment %u: message %u is not in its "
				 "place",
				 first_piece, WHOLE - first_piece, moment, i);
	}
	raw_link_close(&link);
}

static void every_split_of_an_eager_frame(void **state)
{
	struct transport *transport = raw_opened();
	uint64_t random = runtime_seed();

	(void)state;
	for (unsigned moment = 0; moment < 3; moment++)
		for (size_t piece = 0; piece <= WHOLE; piece += piece < TCP_WIRE_FRAME_BYTES + 4 ? 1 : 13)
			arrives_in_pieces(transport, piece, moment, &random);
	plugin_ops.close(transport);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_split_of_an_eager_frame),
	};

	runtime_start("pieces_test", 60);
	runtime_set_streams(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
