/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of messages, on streams that live: order within a tag and nothing between tags, whatever nobody receives;
 * unscheduled bytes, in a receive or in the window; sequence numbers that wrap.
 */
#include "harness.h"

#include "base/clock.h"
#include "base/copy.h"
#include "support/runtime.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct harness_program plain = { .name = "plain" };
static const struct harness_program unscheduled = { .name = "unscheduled", .unscheduled = 2000 };
static const struct harness_program whole = { .name = "whole", .unscheduled = HARNESS_BYTES };
static const struct harness_program paced = { .name = "paced", .paced = true };

static void every_program_ends(void **state)
{
	struct harness *harness = *state;

	for (const struct harness_program *program = harness_programs; program->name; program++)
		for (unsigned active_count = 1; active_count <= HARNESS_STREAMS; active_count += HARNESS_NEXT_ACTIVE) {
			harness_open(harness, program, active_count);
			if (!harness_run(harness))
				fail_msg("%s: the connection failed", program->name);
			harness_step(harness, 20); /* FIN of buffered ones */
			assert_int_equal(harness->buffered > 0, program->buffers);
			assert_int_equal(harness->sender->request_count, 0);
			assert_null(harness->sender->s.buffered);
			assert_int_equal(harness->sender->s.window.taken_units <= TCP_WIRE_EAGER_UNITS, true);
			assert_int_equal(harness->receiver->r.window.taken_units, 0);
			assert_int_equal(harness->receiver->r.expected_bytes, 0);
			assert_int_equal(harness->receiver->r.posted_open, 0);
			assert_int_equal(harness->sender->s.unscheduled_open, 0);
			harness_close(harness);
		}
}

enum { GO_ON_MESSAGES = 400 };

/* One tag came first, and then another for long: so many receives ahead of so many sends. */
static void go_on(struct harness *harness, unsigned ahead, unsigned in_flight)
{
	enum { BYTES = 3000, MOST = 16 };
	static uint8_t out[MOST][BYTES], in[MOST][BYTES];
	struct tcp_request *sends[MOST] = { NULL }, *receives[MOST] = { NULL };
	unsigned sent = 0, posted = 0;

	for (unsigned done = 0; done < GO_ON_MESSAGES; done++) {
		for (; posted < GO_ON_MESSAGES && posted < done + ahead; posted++)
			receives[posted % MOST] = harness_receive(harness, in[posted % MOST], BYTES, posted ? 7 : 9);
		for (; sent < GO_ON_MESSAGES && sent < done + in_flight; sent++) {
			memset(out[sent % MOST], (int)sent, BYTES);
			sends[sent % MOST] = harness_send(harness, out[sent % MOST], BYTES, sent ? 7 : 9);
		}
		harness_finish(harness, sends[done % MOST]);
		assert_int_equal(harness_finish(harness, receives[done % MOST]), BYTES);
		assert_memory_equal(in[done % MOST], out[done % MOST], BYTES);
	}
}

static void another_tag_goes_on_for_ever(void **state)
{
	static const struct harness_program *const programs[] = { &plain, &unscheduled, &whole };
	struct harness *harness = *state;

	for (unsigned i = 0; i < 6; i++)
		for (unsigned ahead = 1; ahead <= 16; ahead *= 2)
			for (unsigned in_flight = 1; in_flight <= 16; in_flight *= 2) {
				harness_open(harness, programs[i % 3], i < 3 ? 1 : HARNESS_STREAMS);
				go_on(harness, ahead > in_flight ? ahead : in_flight, in_flight);
				harness_close(harness);
			}
}

enum { UNMATCHED_MOST = 200, OTHERS = 100 }; /* three messages each, and more than any table has entries */

/* As many of them as the connection takes without a receive. Those that are done at once are given back. */
static unsigned send_unmatched(struct harness *harness, struct tcp_request *sends[static UNMATCHED_MOST],
			       uint8_t out[static UNMATCHED_MOST][5000], unsigned count, size_t bytes)
{
	unsigned sent = 0;

	for (unsigned tries = 0; sent < count && tries < 100; tries++) {
		memset(out[sent], (int)sent + 1, bytes);
		sends[sent] = harness_send(harness, out[sent], bytes, 9);
		harness_step(harness, 1);
		if (!sends[sent])
			continue;
		if (sends[sent]->done) {
			harness_finish(harness, sends[sent]);
			sends[sent] = NULL;
		}
		sent++;
		tries = 0;
	}
	return sent;
}

/*
 * Messages that nobody receives; then other tags go on as if they were not there, and in the end they are received in their
 * order. Returns how many the connection took.
 */
static unsigned leave_unmatched(struct harness *harness, const struct harness_program *program, unsigned active_count,
				unsigned count, size_t bytes)
{
	static uint8_t out[UNMATCHED_MOST][5000], in[5000];
	struct tcp_request *sends[UNMATCHED_MOST];
	unsigned sent;

	harness_open(harness, program, active_count);
	sent = send_unmatched(harness, sends, out, count, bytes);
	for (unsigned i = 0; i < OTHERS; i++) {
		harness_exchange(harness, 7, 3000, i & 1);
		harness_exchange(harness, 8, 100, i & 1);
		harness_exchange(harness, 7 + (int)(i & 1), 0, i & 2);
	}
	for (unsigned m = 0; m < sent; m++) {
		struct tcp_request *receive = harness_receive(harness, in, sizeof(in), 9);

		assert_int_equal(harness_finish(harness, receive), bytes);
		assert_memory_equal(in, out[m], bytes);
		if (sends[m])
			harness_finish(harness, sends[m]);
	}
	harness_exchange(harness, 9, bytes, true);
	harness_close(harness);
	return sent;
}

static void what_nobody_receives_delays_its_own_tag_alone(void **state)
{
	static const struct harness_program *const programs[] = { &plain, &unscheduled, &whole };

	for (unsigned i = 0; i < 6; i++) {
		const struct harness_program *program = programs[i % 3];
		unsigned active = i < 3 ? 1 : HARNESS_STREAMS, most = TRANSPORT_MAX_REQUESTS - 2;

		for (size_t bytes = 0; bytes <= 5000; bytes += 250)
			assert_int_equal(leave_unmatched(*state, program, active, 1, bytes), 1);
		assert_int_equal(leave_unmatched(*state, program, active, 100, 100), 100);
		assert_in_range(leave_unmatched(*state, program, active, UNMATCHED_MOST, 100), 100, UNMATCHED_MOST - 1);
		assert_int_equal(leave_unmatched(*state, program, active, most, 5000), most);
	}
}

/* What lies in the window is received after the connection's end, but never in the place of what cannot come. */
static void order_holds_after_the_end(void **state)
{
	struct harness *harness = *state;
	struct tcp_request *receive;
	bool done;

	harness_open(harness, &plain, 1);
	harness_send(harness, harness->out[0], 100, 8);
	harness_send(harness, harness->out[1], 5000, 7);
	harness_send(harness, harness->out[2], 100, 7);
	harness_step(harness, 3);
	tcp_connection_fail(harness->receiver, -EREMOTEIO, "the test says so");
	receive = harness_receive(harness, harness->in[0], 5000, 7);
	assert_int_equal(tcp_connection_test(receive, &done, NULL), -EREMOTEIO);
	receive = harness_receive(harness, harness->in[1], 100, 8);
	assert_int_equal(tcp_connection_test(receive, &done, NULL), 0);
	assert_true(done);
	assert_memory_equal(harness->in[1], harness->out[0], 100);
	harness_close(harness);

	harness_open(harness, &whole, 1);
	harness_send(harness, harness->out[0], 5000, 7);
	harness_step(harness, 3);
	harness->middles[0].left = 3000; /* of the next a part, and one behind it not at all */
	harness_send(harness, harness->out[1], 5000, 7);
	harness_send(harness, harness->out[2], 100, 7);
	harness_step(harness, 3);
	tcp_connection_fail(harness->receiver, -EREMOTEIO, "the test says so");
	receive = harness_receive(harness, harness->in[0], 5000, 7);
	assert_int_equal(tcp_connection_test(receive, &done, NULL), 0);
	assert_true(done);
	assert_memory_equal(harness->in[0], harness->out[0], 5000);
	receive = harness_receive(harness, harness->in[1], 5000, 7);
	assert_int_equal(tcp_connection_test(receive, &done, NULL), -EREMOTEIO);
	assert_false(done);
	harness_close(harness);
}

/* As many as have gone over the connection by then; each has brought others with it since the tables began. */
static void sequence_numbers_wrap(void **state)
{
	static const uint64_t numbers[] = { 0,          INT32_MAX - 2ULL, UINT32_MAX - 2ULL,
					    3ULL << 31, 1ULL << 40,       INT64_MAX - 2ULL };
	struct harness *harness = *state;

	for (unsigned paces = 0; paces <= 1; paces++)
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
			harness_open(harness, paces ? &paced : &plain, 1);
			harness_exchange(harness, 7, 100, true);
			harness->sender->s.next_sequence = harness->receiver->r.next_sequence = numbers[i];
			for (unsigned k = 0; k < 20; k++) {
				harness_exchange(harness, 7, 100, k & 1);
				harness_exchange(harness, 8, 5000, k & 1);
			}
			harness_close(harness);
		}
	/* Every connection passes the end of 32 bits soon. */
	harness_open(harness, harness_programs, 1);
	assert_true(harness_run(harness));
	assert_true(harness->sender->s.next_sequence > UINT32_MAX);
	harness_close(harness);
}

/* The receiver has said nothing, and the bytes are there; with a receive, and one that comes when a part has. */
static void unscheduled_bytes_need_no_grant(void **state)
{
	struct harness *harness = *state;
	const size_t bytes = 5000;

	for (size_t posted_at = 0; posted_at <= 2000; posted_at += 50)
		for (unsigned paces = 0; paces <= 1; paces++) {
			struct tcp_request *receive = NULL, *send;
			const struct tcp_message *message;

			harness_open(harness, paces ? harness_program("unscheduled, paced") : &unscheduled, 1);
			message = harness->receiver->r.messages;
			if (!posted_at)
				receive = harness_receive(harness, harness->in[0], bytes, 5);
			send = harness_send(harness, harness->out[0], bytes, 5);
			assert_int_equal(send->unscheduled, paces ? 1600 : 2000);
			harness->middles[0].left = 2 * TCP_WIRE_FRAME_BYTES + posted_at;
			harness->middles[0].death = HARNESS_SILENT;
			harness_pass(&harness->middles[0]);
			harness->receiver->ready = true;
			tcp_connection_progress(harness->receiver);
			assert_int_equal(message->received,
					 posted_at < send->unscheduled ? posted_at : send->unscheduled);
			if (!receive)
				receive = harness_receive(harness, harness->in[0], bytes, 5);
			harness->middles[0].left = HARNESS_WHOLE;
			assert_int_equal(harness_finish(harness, receive), bytes);
			harness_finish(harness, send);
			assert_memory_equal(harness->in[0], harness->out[0], bytes);
			assert_int_equal(harness->sender->s.unscheduled_open, 0);
			harness_close(harness);
		}
}

/* From the second long message on whose receive is posted nothing is copied, however much of it is unscheduled. */
static void long_messages_land_in_their_receive(void **state)
{
	static const struct harness_program *const programs[] = { &plain, &unscheduled, &whole };
	struct harness *harness = *state;

	for (unsigned i = 0; i < 6; i++) {
		harness_open(harness, programs[i % 3], i < 3 ? 1 : HARNESS_STREAMS);
		harness_exchange(harness, 5, 5000, true);
		for (unsigned k = 0; k < 20; k++) {
			struct tcp_request *receive = harness_receive(harness, harness->in[0], HARNESS_BYTES, 5), *send;
			size_t copies = atomic_load(&copy_counts.calls);

			send = harness_send(harness, harness->out[0], 5000 + k, 5);
			assert_int_equal(harness_finish(harness, receive), 5000 + k);
			harness_finish(harness, send);
			assert_int_equal(atomic_load(&copy_counts.calls), copies);
		}
		harness_close(harness);
	}
}

/* Everything that is on its way to this end, and what it does then; the other end sleeps. */
static void look(struct harness *harness, struct tcp_connection *connection)
{
	for (unsigned i = 0; i < 100; i++)
		harness_pass(&harness->middles[i % HARNESS_STREAMS]);
	harness->now_ns += harness->step_ns;
	connection->ready = true;
	tcp_connection_progress(connection);
}

/* The receiver finds its message here, is done, and looks at the connection no more. */
static void a_receiver_that_leaves_has_told_its_sender(void **state)
{
	struct harness *harness = *state;

	for (size_t bytes = 300; bytes <= HARNESS_BYTES; bytes += 263)
		for (unsigned several = 0; several <= (bytes <= HARNESS_SEGMENT); several++) {
			struct tcp_request *send, *receive;

			harness_open(harness, &whole, several ? HARNESS_STREAMS : 1);
			send = harness_send(harness, harness->out[0], bytes, 5);
			look(harness, harness->receiver);
			receive = harness_receive(harness, harness->in[0], bytes, 5);
			assert_true(receive->done);
			look(harness, harness->sender);
			assert_true(send->done);
			harness_close(harness);
		}
}

/* That a short message is through may wait while the receiver goes on looking for another, and no longer. */
static void the_word_that_a_message_is_through_waits_for_a_look(void **state)
{
	struct tcp_request *sends[2], *receives[3];
	struct harness *harness = *state;

	harness_open(harness, &whole, 1);
	for (unsigned i = 0; i < 3; i++)
		receives[i] = harness_receive(harness, harness->in[i], HARNESS_BYTES, 5);
	sends[0] = harness_send(harness, harness->out[0], 5000, 5);
	look(harness, harness->receiver);
	assert_true(receives[0]->done);
	look(harness, harness->sender);
	assert_false(sends[0]->done);
	look(harness, harness->receiver); /* finds nothing */
	look(harness, harness->sender);
	assert_true(sends[0]->done);

	/* One that looks for another tag alone. */
	receives[0] = harness_receive(harness, harness->in[0], HARNESS_BYTES, 6);
	sends[0] = harness_send(harness, harness->out[0], 1000, 6);
	look(harness, harness->receiver);
	assert_true(receives[0]->done);
	look(harness, harness->sender);
	assert_true(sends[0]->done);

	/* Half of what may come unscheduled, at most. */
	harness->receiver->r.done_bytes = harness->receiver->r.unscheduled_told / 2;
	sends[0] = harness_send(harness, harness->out[0], 5000, 5);
	look(harness, harness->receiver);
	look(harness, harness->sender);
	assert_true(sends[0]->done);

	/* With the last receive nobody looks any more. */
	receives[0] = harness_receive(harness, harness->in[0], HARNESS_BYTES, 5);
	for (unsigned i = 0; i < 2; i++)
		sends[i] = harness_send(harness, harness->out[i], 1000, 5);
	look(harness, harness->receiver);
	assert_true(receives[2]->done && receives[0]->done);
	look(harness, harness->sender);
	assert_true(sends[0]->done && sends[1]->done);

	/* Nobody looks but the service thread, which finds a sign of life each time. */
	for (unsigned i = 0; i < 2; i++)
		receives[i] = harness_receive(harness, harness->in[i], HARNESS_BYTES, 5);
	sends[0] = harness_send(harness, harness->out[0], 1000, 5);
	look(harness, harness->receiver);
	assert_true(receives[0]->done);
	harness->now_ns += NS_PER_S;
	tcp_connection_tick(harness->sender, harness->now_ns);
	for (unsigned i = 0; i < 100; i++)
		harness_pass(&harness->middles[i % HARNESS_STREAMS]);
	assert_false(sends[0]->done);
	tcp_connection_tick(harness->receiver, harness->now_ns);
	for (unsigned i = 0; i < 20; i++) /* it may be on any stream, of which most looks read one */
		look(harness, harness->sender);
	assert_true(sends[0]->done);
	harness_close(harness);
}

/* Nor of an empty message, which goes by RTS where the window is full. */
static void the_word_that_an_empty_message_is_through_is_said(void **state)
{
	static uint8_t out[UNMATCHED_MOST][5000];
	struct tcp_request *unmatched[UNMATCHED_MOST], *send;
	struct harness *harness = *state;

	harness_open(harness, &whole, 1);
	send_unmatched(harness, unmatched, out, UNMATCHED_MOST, 100);
	for (unsigned i = 0; i < 2; i++)
		harness_receive(harness, harness->in[i], HARNESS_BYTES, 7);
	send = harness_send(harness, harness->out[0], 0, 7);
	assert_false(send->done);
	harness_finish(harness, send);
	harness_close(harness);
}

/* One that closes with that word unsaid says it first: the message had come. */
static void a_receiver_that_closes_has_told_its_sender(void **state)
{
	struct harness *harness = *state;
	struct tcp_request *send;

	harness_open(harness, &whole, 1);
	for (unsigned i = 0; i < 2; i++)
		harness_receive(harness, harness->in[i], HARNESS_BYTES, 5);
	send = harness_send(harness, harness->out[0], 1000, 5);
	look(harness, harness->receiver);
	look(harness, harness->sender);
	assert_false(send->done);
	tcp_connection_close(harness->receiver);
	harness->receiver = NULL;
	look(harness, harness->sender);
	assert_true(send->done);
	tcp_linger_step(&harness->transport, 0, true);
	harness_close(harness);
}

/* So many at a time, whatever is in flight; the receiver may change it at any time. */
static void unscheduled_bytes_are_bounded(void **state)
{
	struct harness *harness = *state;
	struct tcp_request *sends[4];

	harness_open(harness, &unscheduled, 1);
	for (unsigned i = 0; i < 4; i++)
		sends[i] = harness_send(harness, harness->out[i], 1500, 5 + (int)i % 2);
	assert_int_equal(sends[0]->unscheduled, 1500);
	for (unsigned i = 1; i < 4; i++) /* 500 are less than a segment */
		assert_int_equal(sends[i]->unscheduled, 0);
	for (unsigned i = 0; i < 4; i++)
		harness_finish(harness, harness_receive(harness, harness->in[i], 1500, 5 + (int)i % 2));
	for (unsigned i = 0; i < 4; i++)
		harness_finish(harness, sends[i]);
	tcp_sender_may_begin(harness->sender, UINT64_MAX);
	assert_int_equal(harness->sender->s.unscheduled_most, TCP_UNSCHEDULED_WINDOW / 2);
	sends[0] = harness_send(harness, harness->out[0], HARNESS_BYTES, 5);
	assert_int_equal(sends[0]->unscheduled, HARNESS_BYTES);
	tcp_sender_may_begin(harness->sender, 100);
	sends[1] = harness_send(harness, harness->out[1], HARNESS_BYTES, 5);
	assert_int_equal(sends[1]->unscheduled, 0);
	harness_close(harness);
}

/* Where our kernel bounds what several senders have on their way, they need not wait for a grant. */
static void whose_flight_is_bounded_begins_at_once(void **state)
{
	struct harness *harness = *state;
	struct pace_sender others = { .host = 7 };
	struct pace_sender third = { .host = 8 };
	struct pace_message message = { .sender = &others }, waiting = { .sender = &others },
			    more = { .sender = &third };
	struct tcp_stream *stream;
	struct pace *pace;

	harness_open(harness, &paced, 1);
	stream = &harness->receiver->streams[0];
	pace = harness->receiver->r.pace;
	harness->receiver->r.sender.host = 3;
	pace_join(pace, &harness->receiver->r.sender);
	pace_join(pace, &others);
	harness_exchange(harness, 5, HARNESS_BYTES, true);
	assert_int_equal(pace_flight(pace, NULL), 0);
	assert_int_equal(harness->receiver->r.unscheduled_told, pace_unscheduled(pace, NULL));

	pace_add(pace, &message, 100, harness->now_ns);
	for (unsigned i = 0; i < 3; i++)
		harness_exchange(harness, 5, HARNESS_BYTES, true);
	assert_true(pace_flight(pace, NULL) > 0);
	assert_true(pace_unscheduled(pace, NULL) < PACE_UNSCHEDULED_BYTES);
	assert_int_equal(harness->sender->s.unscheduled_most, PACE_UNSCHEDULED_BYTES);
	harness->transport.bounds_windows = false; /* an older kernel */
	harness_exchange(harness, 5, HARNESS_BYTES, true);
	assert_int_equal(harness->sender->s.unscheduled_most, pace_unscheduled(pace, NULL));
	harness->transport.bounds_windows = true;
	/* What was offered before the bound is not taken back. */
	stream->flight_from = stream->rx_position + 2 * HARNESS_BYTES;
	harness_exchange(harness, 5, HARNESS_BYTES, true);
	assert_int_equal(harness->sender->s.unscheduled_most, pace_unscheduled(pace, NULL));
	harness_exchange(harness, 5, HARNESS_BYTES, true);
	assert_int_equal(harness->sender->s.unscheduled_most, PACE_UNSCHEDULED_BYTES);
	/* A stream that carries data no more keeps nobody waiting. */
	harness->receiver->streams[1].rx_used = true;
	harness->receiver->streams[1].flight_from = UINT64_MAX;
	harness_exchange(harness, 5, HARNESS_BYTES, true);
	assert_int_equal(harness->sender->s.unscheduled_most, PACE_UNSCHEDULED_BYTES);
	/* Nor when the bound shrinks meanwhile. */
	stream->flight_from = stream->rx_position + 12 * HARNESS_BYTES;
	pace_join(pace, &third);
	pace_add(pace, &more, 100, harness->now_ns);
	for (unsigned i = 0; i < 13; i++) {
		harness_exchange(harness, 5, HARNESS_BYTES, true);
		assert_int_equal(harness->sender->s.unscheduled_most,
				 i < 11 ? pace_unscheduled(pace, NULL) : PACE_UNSCHEDULED_BYTES);
	}
	pace_remove(pace, &more);
	pace_leave(pace, &third);
	/* A sender to many takes its turns. */
	harness->receiver->r.sender.spread = 2;
	harness_exchange(harness, 5, HARNESS_BYTES, true);
	assert_int_equal(harness->sender->s.unscheduled_most, pace_unscheduled(pace, NULL));
	harness->receiver->r.sender.spread = 0;
	harness_exchange(harness, 5, HARNESS_BYTES, true);
	assert_int_equal(harness->sender->s.unscheduled_most, PACE_UNSCHEDULED_BYTES);
	/* Somebody waits for a grant. */
	pace_add(pace, &waiting, 1 << 20, harness->now_ns);
	assert_true(pace_has_waiting(pace));
	harness_exchange(harness, 5, HARNESS_BYTES, true);
	assert_int_equal(harness->sender->s.unscheduled_most, pace_unscheduled(pace, NULL));
	pace_remove(pace, &waiting);

	pace_remove(pace, &message);
	for (unsigned i = 0; i < 3; i++) {
		harness->now_ns += NS_PER_S;
		harness_exchange(harness, 5, HARNESS_BYTES, true);
	}
	assert_int_equal(pace_flight(pace, NULL), 0);
	assert_int_equal(harness->sender->s.unscheduled_most, pace_unscheduled(pace, NULL));
	assert_true(pace_unscheduled(pace, NULL) < PACE_UNSCHEDULED_BYTES);
	pace_leave(pace, &others);
	harness_close(harness);
}

/* What no receive matches comes in its order, into its place, and no further. */
static void unscheduled_bytes_without_a_place_are_refused(void **state)
{
	const struct tcp_frame rts = { .type = TCP_FRAME_RTS,
				       .message = (uint32_t)TCP_WIRE_FIRST_SEQUENCE,
				       .tag = 5,
				       .unit = TCP_WIRE_UNSCHEDULED_UNITS - 16,
				       .unscheduled_bytes = 1000,
				       .value = 5000 };
	const struct tcp_frame wrong[] = {
		{ .type = TCP_FRAME_DATA, .message = rts.message, .value = 1, .payload_bytes = 10 },
		{ .type = TCP_FRAME_DATA, .message = rts.message, .payload_bytes = 1001 },
		{ .type = TCP_FRAME_DATA, .message = rts.message, .value = 1000, .payload_bytes = 1 },
		{ .type = TCP_FRAME_RTS,
		  .message = rts.message + 1,
		  .request = 1,
		  .unit = TCP_WIRE_UNSCHEDULED_UNITS - 1,
		  .unscheduled_bytes = TCP_WIRE_EAGER_UNIT + 1,
		  .value = 5000 },
	};
	struct harness *harness = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct tcp_stream *stream;

		harness_open(harness, &plain, 1);
		stream = harness->receiver->streams;
		assert_int_equal(tcp_receiver_frame(harness->receiver, stream, &rts, harness->now_ns), 0);
		assert_int_equal(tcp_receiver_frame(harness->receiver, stream, &wrong[i], harness->now_ns), -EPROTO);
		harness_close(harness);
	}
}

static int arrives(struct harness *harness, unsigned stream, const struct tcp_frame *frame)
{
	struct tcp_stream *in = &harness->receiver->streams[stream];
	int r = tcp_receiver_frame(harness->receiver, in, frame, harness->now_ns);

	if (r < 0 || frame->type != TCP_FRAME_DATA)
		return r;
	memset(in->rx_target, (int)frame->message, in->rx_left);
	in->rx_left = 0;
	return tcp_receiver_payload(harness->receiver, in, frame->payload_bytes, harness->now_ns);
}

/*
 * Three messages of a tag: two on streams of their own, announced there and in order on the first, and in each order in which
 * these frames can come. A receive that is posted early, or late, meets the first.
 */
static void a_message_may_be_announced_twice(void **state)
{
	enum { BYTES = 1000, FRAMES = 7 };
	/* In order within a stream: the first 3 on stream 0, and 2 each on streams 1 and 2. */
	static const uint8_t streams[FRAMES] = { 0, 0, 0, 1, 1, 2, 2 };
	struct harness *harness = *state;
	unsigned orders = 0;

	for (unsigned order = 0; order < 2 * 2187; order++) { /* by the digits of it, to the base 3 */
		const bool early = order & 1;
		struct tcp_request *receives[3] = { NULL };
		unsigned at[3] = { 0, 3, 5 }, end[3] = { 3, 5, 7 }, done = 0;

		harness_open(harness, &plain, HARNESS_STREAMS);
		for (unsigned i = 0; early && i < 3; i++)
			receives[i] = harness_receive(harness, harness->in[i], HARNESS_BYTES, 5);
		for (unsigned left = order / 2; done < FRAMES; left /= 3, done++) {
			unsigned stream = left % 3, k;
			struct tcp_frame frame = { .type = TCP_FRAME_RTS, .tag = 5 };

			if (at[stream] == end[stream])
				break;
			k = at[stream]++;
			assert_int_equal(streams[k], stream);
			/* Of the message that has only its RTS: the middle one, which is empty. */
			frame.request = (uint8_t)(stream ? 2 * (stream - 1) : k);
			frame.message = (uint32_t)(TCP_WIRE_FIRST_SEQUENCE + frame.request);
			frame.value = frame.unscheduled_bytes = frame.request == 1 ? 0 : BYTES;
			frame.unit = frame.request * (BYTES / TCP_WIRE_EAGER_UNIT + 1);
			if (k == 4 || k == 6) {
				frame.type = TCP_FRAME_DATA;
				frame.value = 0;
			}
			assert_int_equal(arrives(harness, stream, &frame), 0);
		}
		for (unsigned i = 0; done == FRAMES && i < 3; i++) {
			if (!early)
				receives[i] = harness_receive(harness, harness->in[i], HARNESS_BYTES, 5);
			assert_true(receives[i]->done);
			assert_int_equal(receives[i]->slots[0].received, i == 1 ? 0 : BYTES);
			for (unsigned k = 0; k < BYTES && i != 1; k++)
				assert_int_equal(harness->in[i][k], (uint8_t)(TCP_WIRE_FIRST_SEQUENCE + i));
		}
		orders += done == FRAMES;
		harness_close(harness);
	}
	assert_int_equal(orders, 2 * 210); /* 7! / (3! 2! 2!) */
}

/* A message for the sender's request that is still open, one out of turn, data of another message: no sender of ours. */
static void what_no_sender_says_is_refused(void **state)
{
	const struct tcp_frame first = { .type = TCP_FRAME_RTS,
					 .message = (uint32_t)TCP_WIRE_FIRST_SEQUENCE,
					 .request = 3,
					 .tag = 5,
					 .value = 5000 };
	struct harness *harness = *state;

	for (unsigned wrong = 0; wrong < 4; wrong++) {
		struct tcp_frame frame = first;
		struct tcp_stream *stream;

		harness_open(harness, &plain, 1);
		stream = harness->receiver->streams;
		assert_int_equal(tcp_receiver_frame(harness->receiver, stream, &frame, harness->now_ns), 0);
		frame.message++;
		if (wrong == 1)
			frame.request++, frame.message++;
		if (wrong == 2)
			frame.request++, frame.value = TRANSPORT_MAX_MESSAGE_BYTES + 1;
		if (wrong == 3)
			frame = (struct tcp_frame){
				.type = TCP_FRAME_DATA, .message = first.message, .request = 3, .payload_bytes = 10
			};
		assert_int_equal(tcp_receiver_frame(harness->receiver, stream, &frame, harness->now_ns), -EPROTO);
		harness_close(harness);
	}
}

static void a_report_of_the_future_is_refused(void **state)
{
	struct tcp_frame frame = { .type = TCP_FRAME_WINDOW_HIGH };
	struct harness *harness = *state;

	harness_open(harness, &plain, 1);
	frame.message = (uint32_t)harness->sender->s.next_sequence + 1;
	assert_int_equal(tcp_sender_frame(harness->sender, &frame, harness->now_ns), -EPROTO);
	harness_close(harness);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_program_ends, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(another_tag_goes_on_for_ever, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(what_nobody_receives_delays_its_own_tag_alone, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(order_holds_after_the_end, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(sequence_numbers_wrap, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(unscheduled_bytes_need_no_grant, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(long_messages_land_in_their_receive, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(a_receiver_that_leaves_has_told_its_sender, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(the_word_that_a_message_is_through_waits_for_a_look, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(the_word_that_an_empty_message_is_through_is_said, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(a_receiver_that_closes_has_told_its_sender, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(unscheduled_bytes_are_bounded, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(whose_flight_is_bounded_begins_at_once, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(unscheduled_bytes_without_a_place_are_refused, harness_setup,
						harness_teardown),
		cmocka_unit_test_setup_teardown(a_message_may_be_announced_twice, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(what_no_sender_says_is_refused, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(a_report_of_the_future_is_refused, harness_setup, harness_teardown),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
