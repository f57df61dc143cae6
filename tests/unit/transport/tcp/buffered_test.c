/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send whose FIN is late: its data and its request are the caller's again, and the copy is what may have to go out once more.
 */
#include "harness.h"

#include "base/clock.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

static const struct harness_program buffered = { .name = "buffered", .unscheduled = 8000 };
static const struct harness_program credit = { .name = "credit" };

/* FIN is late: the data is its caller's again, and nobody waits for FIN. */
static void a_send_whose_fin_is_late_is_buffered(void **state)
{
	struct harness *harness = *state;
	struct tcp_connection *sender;
	struct tcp_request *send, *receive;
	uint8_t sent[5000];
	size_t bytes;
	bool done;

	harness_open(harness, &buffered, 1);
	sender = harness->sender;
	memcpy(sent, harness->out[0], sizeof(sent));
	send = harness_send(harness, harness->out[0], sizeof(sent), 5);
	assert_int_equal(tcp_connection_test(send, &done, &bytes), 0);
	assert_false(done);
	harness->now_ns += TCP_BUFFERED_AFTER_NS;
	assert_int_equal(tcp_connection_test(send, &done, &bytes), 0);
	assert_true(done);
	assert_int_equal(bytes, sizeof(sent));
	memset(harness->out[0], 0xee, HARNESS_BYTES);
	assert_int_equal(sender->request_count, 1);
	harness->now_ns += 1000 * NS_PER_S; /* that nobody receives it is no news */
	tcp_connection_tick(sender, harness->now_ns);
	assert_false(sender->reported);

	/* There is one copy. */
	send = harness_send(harness, harness->out[1], 2000, 6);
	harness->now_ns += TCP_BUFFERED_AFTER_NS;
	assert_false(tcp_sender_buffer(sender, send));
	receive = harness_receive(harness, harness->in[0], HARNESS_BYTES, 5);
	assert_int_equal(harness_finish(harness, receive), sizeof(sent));
	assert_memory_equal(harness->in[0], sent, sizeof(sent));
	harness_step(harness, 20);
	assert_null(sender->s.buffered);
	assert_int_equal(sender->request_count, 1);
	assert_true(tcp_sender_buffer(sender, send));
	receive = harness_receive(harness, harness->in[1], HARNESS_BYTES, 6);
	assert_int_equal(harness_finish(harness, receive), 2000);
	harness_step(harness, 20);
	assert_int_equal(sender->request_count, 0);
	harness_close(harness);
}

/* Not before all is written, of one of several, of what waits for credit, or where a send that is done was received. */
static void other_sends_wait_for_fin(void **state)
{
	struct harness *harness = *state;
	static uint8_t big[TCP_BUFFERED_MOST];
	struct tcp_request *sends[2];

	harness_open(harness, &buffered, 1);
	sends[0] = harness_send(harness, harness->out[0], 5000, 5);
	sends[1] = harness_send(harness, harness->out[1], 2000, 5);
	harness->now_ns += NS_PER_S;
	assert_false(tcp_sender_buffer(harness->sender, sends[0]));
	assert_false(tcp_sender_buffer(harness->sender, sends[1]));
	harness_close(harness);

	harness_open(harness, &buffered, 1);
	sends[0] = harness_send(harness, harness->out[0], 9000, 5);
	harness->now_ns += NS_PER_S;
	assert_false(tcp_sender_buffer(harness->sender, sends[0]));
	harness_close(harness);

	for (unsigned limit = 0; limit < 2; limit++) {
		harness_open(harness, &buffered, 1);
		if (limit) /* also where nothing goes unasked anyway */
			harness->sender->eager_limit = 4999;
		sends[0] = harness_send(harness, harness->out[0], 5000, 5);
		harness->now_ns += NS_PER_S;
		assert_int_equal(tcp_sender_buffer(harness->sender, sends[0]), !limit);
		harness_close(harness);
	}

	/* What had credit may be on several streams. */
	harness_open(harness, &credit, HARNESS_STREAMS);
	sends[0] = harness_send(harness, harness->out[0], 5000, 5);
	harness_receive(harness, harness->in[0], HARNESS_BYTES, 5);
	while (sends[0]->next_offset < sends[0]->size)
		harness_step(harness, 1);
	assert_false(sends[0]->done);
	harness->now_ns += NS_PER_S;
	assert_false(tcp_sender_buffer(harness->sender, sends[0]));
	harness_close(harness);

	/* What the socket does not take at once is unwritten: nobody would pump it. */
	for (unsigned small = 0; small < 2; small++) {
		const int bytes = 4096;

		harness_open(harness, &buffered, 1);
		tcp_sender_may_begin(harness->sender, UINT64_MAX);
		if (small)
			assert_int_equal(setsockopt(harness->sender->streams[0].fd, SOL_SOCKET, SO_SNDBUF, &bytes,
						    sizeof(bytes)),
					 0);
		sends[0] = harness_send(harness, big, TCP_BUFFERED_MOST, 5);
		harness->now_ns += NS_PER_S;
		assert_int_equal(tcp_stream_has_unsent(&harness->sender->streams[0]), small);
		assert_int_equal(tcp_sender_buffer(harness->sender, sends[0]), !small);
		harness_close(harness);
	}
}

/* Its stream is lost, or all, at any moment of the way to its close: what is sent again comes before BYE. */
static void a_buffered_send_arrives_though_its_sender_closes(void **state)
{
	enum { STEPS = 24 };
	struct harness *harness = *state;
	uint8_t sent[5000];

	for (unsigned run = 0; run < 4 * STEPS; run++) {
		const bool all = run & 1, several = run >> 1 & 1;
		const size_t bytes = several ? HARNESS_SEGMENT : sizeof(sent);
		struct tcp_request *send, *receive;

		harness_open(harness, &buffered, several ? HARNESS_STREAMS : 1);
		memcpy(sent, harness->out[0], sizeof(sent));
		receive = harness_receive(harness, harness->in[0], HARNESS_BYTES, 5);
		harness->middles[several].left = bytes / 2;
		send = harness_send(harness, harness->out[0], bytes, 5);
		harness->now_ns += TCP_BUFFERED_AFTER_NS;
		assert_true(tcp_sender_buffer(harness->sender, send));
		memset(harness->out[0], 0xee, HARNESS_BYTES);
		harness_step(harness, 2);
		if (all)
			harness_cut_all(harness);
		for (unsigned step = 0; step < run / 4; step++) {
			harness_step(harness, 1);
			harness_rejoin(harness);
		}
		tcp_connection_close(harness->sender);
		for (unsigned step = 0; step < 100; step++) {
			harness_step(harness, 1);
			harness_rejoin(harness);
		}
		assert_int_equal(harness_finish(harness, receive), bytes);
		assert_memory_equal(harness->in[0], sent, bytes);
		harness_close(harness);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_send_whose_fin_is_late_is_buffered, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(other_sends_wait_for_fin, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(a_buffered_send_arrives_though_its_sender_closes, harness_setup,
						harness_teardown),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
