/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that send and receive in place of the caller's: nothing is lost by it. movers_rule_test.c: when they are at work. */
#include "conversation.h"
#include "harness.h"

#include "base/clock.h"
#include "base/log.h"
#include "support/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { WINDOWS_A_SECOND = 50 };

/* Others go on while a call is under way: acknowledge, lose the stream, change the set, take receives. */
static void calls_are_overtaken_by_everything(void **state)
{
	struct harness *harness = *state;
	const unsigned rounds = runtime_long() ? 2000 : 60;
	uint64_t random = runtime_seed();
	unsigned moved = 0;

	for (unsigned round = 0; round < rounds; round++)
		for (const struct harness_program *program = harness_programs; program->name; program++) {
			harness_open(harness, program, round % 2 ? 1 : HARNESS_STREAMS);
			harness->sender->several = harness->receiver->several = true;
			harness_use_movers(harness);
			harness_run_random(harness, &random, round % 3 * 4);
			moved += harness->moved;
			harness_close(harness);
		}
	assert_true(moved > 20 * rounds);
}

static struct tcp_request *send_in_call(struct harness *harness, bool called)
{
	struct tcp_request *send;

	harness_open(harness, harness_program("unscheduled, wholly"), 1);
	harness_use_movers(harness);
	send = harness_send(harness, harness->out[0], 5000, 5);
	harness_move(harness, 0);
	assert_int_equal(harness->sender->streams[0].move, TCP_MOVE_CALL);
	if (called)
		harness_move(harness, 0);
	return send;
}

/* The sender's call has not returned meanwhile. */
static struct tcp_request *receive_it(struct harness *harness)
{
	struct tcp_request *receive = harness_receive(harness, harness->in[0], HARNESS_BYTES, 5);

	for (unsigned i = 0; !receive->done; i++) {
		assert_true(i < 100);
		harness_step(harness, 1);
		if (harness->receiver->streams[0].move != TCP_MOVE_NONE)
			harness_move(harness, 1);
	}
	return receive;
}

/* It is done when nothing reads its buffer any more. */
static void what_arrives_before_the_call_returns_is_done_after_it(void **state)
{
	struct harness *harness = *state;
	struct tcp_request *send = send_in_call(harness, true), *receive;

	receive = receive_it(harness);
	assert_int_equal(harness_finish(harness, receive), 5000);
	harness_step(harness, 10);
	assert_true(send->received && !send->done);
	harness_move(harness, 0);
	assert_int_equal(harness_finish(harness, send), 5000);
	assert_int_equal(harness->sender->streams[0].move, TCP_MOVE_NONE);
	assert_true(tcp_sender_is_empty(harness->sender));
	harness_close(harness);
}

/* The buffer is its user's once that knows of the error, and the descriptor may be another one's. */
static void an_error_is_told_when_the_call_has_ended(void **state)
{
	struct harness *harness = *state;
	struct tcp_request *send = send_in_call(harness, false);
	struct tcp_stream *stream = harness->sender->streams;
	bool done;

	tcp_connection_fail(harness->sender, -EREMOTEIO, "a test");
	assert_int_equal(tcp_connection_test(send, &done, NULL), 0);
	assert_false(done);
	assert_return_code(fcntl(stream->fd, F_GETFD), errno);
	harness_move(harness, 0);
	harness_move(harness, 0);
	assert_int_equal(stream->fd, -1);
	assert_int_equal(tcp_connection_test(send, &done, NULL), -EREMOTEIO);
	harness_close(harness);
}

/* It closed, and that is read before the call returns: all was received all the same. */
static void a_peer_that_closes_has_received_it(void **state)
{
	struct harness *harness = *state;
	struct tcp_request *send = send_in_call(harness, true), *receive;

	receive = receive_it(harness);
	harness_step(harness, 10);
	assert_true(send->received && !send->done);
	tcp_connection_fail(harness->sender, -EREMOTEIO, "the receiver closed it");
	harness_move(harness, 0);
	assert_int_equal(harness_finish(harness, receive), 5000);
	assert_true(send->done);
	harness_close(harness);
}

static char said[256];
static _Atomic unsigned said_count;

static void note_line(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	va_list args;
	const char *text;

	(void)flags, (void)file, (void)line, (void)level;
	va_start(args, fmt);
	text = va_arg(args, const char *);
	va_end(args);
	if (!strstr(text, "messages"))
		return;
	snprintf(said, sizeof(said), "%s", text);
	said_count++;
}

/* A thread whose calls take its whole time, and with movers twice as many bytes; or, idle, a tenth of it. */
static void report_windows(struct tcp_connection *connection, uint64_t *now_ns, unsigned windows, bool idle)
{
	for (unsigned i = 0; i < windows; i++) {
		const bool on = atomic_load(&connection->transport->movers.on);
		const uint64_t posted_ns = *now_ns;

		*now_ns += TCP_MOVERS_WINDOW_NS;
		connection->moved.calls_ns = TCP_MOVERS_WINDOW_NS / (idle ? 10 : 1);
		connection->moved.bytes = TCP_MOVERS_WINDOW_NS * (on ? 2 : 1);
		tcp_movers_note(connection, posted_ns, *now_ns);
	}
}

static void threads_that_stay_are_said_once(void **state)
{
	struct harness *harness = *state;
	struct tcp_movers *movers = &harness->transport.movers;
	uint64_t now_ns = NS_PER_S;

	harness_open(harness, harness_program("unscheduled, wholly"), 1);
	harness_use_movers(harness);
	movers->chooses = true;
	movers->core_count = 8;
	movers->on = movers->proven = false;
	log_set_sink(note_line);
	report_windows(harness->sender, &now_ns, WINDOWS_A_SECOND, false);
	assert_int_equal(movers->rule.state, TCP_MOVERS_ON);
	log_drain(1000);
	assert_int_equal(said_count, 0);
	report_windows(harness->sender, &now_ns, 20 * WINDOWS_A_SECOND, false);
	log_drain(1000);
	assert_int_equal(said_count, 1);
	assert_string_equal(said, "up to 6 threads send and receive long messages: 16 Gbit/s, since one carries 8");
	report_windows(harness->sender, &now_ns, 5 * WINDOWS_A_SECOND, true);
	log_drain(1000);
	assert_int_equal(said_count, 2);
	assert_string_equal(said, "one thread sends and receives all messages again");
	log_set_sink(NULL);
	harness_close(harness);
}

/* The peer's last word lies behind a payload on one stream, and another stream has ended. */
static void end_before_the_last_word(struct harness *harness, bool in_call)
{
	struct tcp_connection *receiver;
	struct tcp_frame bye = { .type = TCP_FRAME_BYE };
	struct harness_middle *middle = &harness->middles[1];
	uint8_t bytes[TCP_WIRE_FRAME_BYTES];

	harness_open(harness, harness_program("unscheduled, wholly"), HARNESS_STREAMS);
	receiver = harness->receiver;
	receiver->several = harness->sender->several = true;
	harness_use_movers(harness);
	harness_receive(harness, harness->in[0], HARNESS_BYTES, 5);
	harness_send(harness, harness->out[0], 5000, 5);
	for (unsigned i = 0; i < 20; i++) {
		harness_move(harness, 0);
		tcp_connection_progress(harness->sender);
	}
	harness_pass(&harness->middles[0]);
	harness_pass_some(middle, 500);
	for (unsigned i = 0; i < 3; i++) {
		receiver->poll_count = 0;
		tcp_connection_progress(receiver);
	}
	assert_true(receiver->streams[1].rx_left > 0);
	harness_pass(middle);
	tcp_wire_put_frame(&bye, bytes);
	assert_int_equal(send(middle->receiver, bytes, sizeof(bytes), 0), sizeof(bytes));
	if (in_call) {
		assert_true(tcp_stream_is_left_to_movers(receiver, &receiver->streams[1]));
		harness_move(harness, 1);
		assert_int_equal(receiver->streams[1].move, TCP_MOVE_CALL);
	}
	shutdown(harness->middles[0].receiver, SHUT_RDWR);
}

/* No stream is lost then, which would be told, counted, and dialled anew. */
static void a_peer_that_closes_is_heard_behind_a_payload(void **state)
{
	struct harness *harness = *state;

	for (unsigned in_call = 0; in_call < 2; in_call++) {
		struct tcp_connection *receiver;

		end_before_the_last_word(harness, in_call);
		receiver = harness->receiver;
		receiver->poll_count = 0;
		tcp_connection_progress(receiver);
		assert_int_equal(receiver->error, in_call ? 0 : -EREMOTEIO);
		for (unsigned i = 0; i < 2 * in_call; i++) /* the call, and its end */
			harness_move(harness, 1);
		receiver->poll_count = 0;
		tcp_connection_progress(receiver);
		assert_int_equal(receiver->error, -EREMOTEIO);
		assert_true(receiver->peer_closed);
		assert_int_equal(receiver->counted.streams_lost, 0);
		harness_close(harness);
	}
}

static bool moved_once;

static bool moves_twice(struct tcp_stream *stream)
{
	(void)stream;
	moved_once = !moved_once;
	return moved_once;
}

/* A caller that helps is the last one there. */
static void no_stream_waits_for_threads_that_have_ended(void **state)
{
	struct harness *harness = *state;
	struct tcp_movers *movers = &harness->transport.movers;

	harness_open(harness, harness_program("unscheduled, wholly"), 1);
	harness_use_movers(harness);
	movers->move = moves_twice;
	harness_send(harness, harness->out[0], 5000, 5);
	assert_int_equal(harness->sender->moving, 1);
	movers->count = 0;
	tcp_movers_help(&harness->transport);
	assert_false(moved_once);
	assert_int_equal(harness->sender->moving, 0);
	movers->count = 1;
	harness->sender->streams[0].move = TCP_MOVE_NONE;
	harness_close(harness);
}

/* An abort leaves requests open for ever, and their memory goes. */
static void released_memory_is_left_alone(void **state)
{
	struct harness *harness = *state;
	struct tcp_request *send;

	harness_open(harness, harness_program("unscheduled, wholly"), 1);
	harness_use_movers(harness);
	send = harness_send(harness, harness->out[0], 5000, 5);
	assert_int_equal(harness->sender->moving, 1);
	tcp_movers_pause(harness->sender);
	assert_int_equal(harness->sender->moving, 0);
	assert_false(tcp_movers_are_on(harness->sender));
	harness_finish(harness, harness_receive(harness, harness->in[0], HARNESS_BYTES, 5));
	harness_finish(harness, send);
	harness_send(harness, harness->out[1], 5000, 5);
	assert_true(tcp_movers_are_on(harness->sender));
	harness_close(harness);
}

static void *pause_it(void *sender)
{
	tcp_movers_pause(sender);
	return NULL;
}

static void return_it(struct harness *harness)
{
	struct tcp_movers *movers = &harness->transport.movers;

	pthread_mutex_lock(&movers->lock);
	tcp_movers_return(movers, harness->moves[0].stream, false);
	pthread_mutex_unlock(&movers->lock);
	harness->moves[0].stream = NULL;
	harness->called[0] = false;
}

/* Another thread sends as soon as the last request has ended: before the mover has returned the stream, or after. */
static void new_request_ends_the_pause(struct harness *harness, bool before)
{
	struct tcp_request *send = send_in_call(harness, true);
	struct tcp_connection *sender = harness->sender;
	struct tcp_stream *stream = sender->streams;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, pause_it, sender), 0);
	while (!sender->leaves_movers)
		usleep(100);
	receive_it(harness);
	harness_step(harness, 10);
	assert_false(tcp_move_end(harness->moves));
	assert_true(send->done);
	pthread_mutex_lock(&sender->lock);
	if (!before)
		return_it(harness);
	usleep(1000); /* it may have woken, and want the connection */
	tcp_request_release(send);
	assert_non_null(harness_send(harness, harness->out[1], 5000, 5));
	assert_int_equal(stream->move, TCP_MOVE_HELD);
	pthread_mutex_unlock(&sender->lock);
	pthread_join(thread, NULL);
	if (before)
		return_it(harness);
	assert_int_equal(stream->move, TCP_MOVE_HELD);
	harness_send(harness, harness->out[2], 5000, 5);
	assert_int_equal(sender->moving, 1);
	harness_close(harness);
}

static void a_new_request_ends_the_pause(void **state)
{
	new_request_ends_the_pause(*state, true);
	new_request_ends_the_pause(*state, false);
}

/* It waits to be told, and what was sent behind it is not received in its place. */
static void a_message_that_is_too_long_is_not_passed_by(void **state)
{
	struct harness *harness = *state;
	struct transport_request *request = NULL;
	void *data = harness->in[0], *registration = NULL;
	size_t bytes = 100;
	int tag = 7;

	harness_open(harness, harness_program("unscheduled, wholly"), 1);
	harness_use_movers(harness);
	harness_send(harness, harness->out[0], 200, tag);
	harness_send(harness, harness->out[1], 50, tag);
	harness_receive(harness, harness->in[5], HARNESS_BYTES, 5);
	harness_send(harness, harness->out[2], 5000, 5);
	for (unsigned i = 0; !harness->receiver->moving; i++) {
		assert_true(i < 100);
		if (harness->sender->moving)
			harness_move(harness, 0);
		tcp_connection_progress(harness->sender);
		harness_pass_some(&harness->middles[0], 500);
		harness->receiver->poll_count = 0;
		tcp_connection_progress(harness->receiver);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(transport_tcp.receive((struct transport_connection *)harness->receiver, 1, &data, &bytes, &tag,
						       &registration, &request), 0);
		assert_null(request);
	}
	for (unsigned i = 0; harness->receiver->moving; i++) {
		assert_true(i < 100);
		harness_move(harness, 1);
	}
	assert_int_equal(transport_tcp.receive((struct transport_connection *)harness->receiver, 1, &data, &bytes, &tag,
					       &registration, &request), -EMSGSIZE);
	harness_close(harness);
}

/* Two cores are allowed and 64 seen: with movers the process stands still most of the time. */
static void a_quota_is_no_gain(void **state)
{
	struct harness *harness = *state;
	struct tcp_movers *movers = &harness->transport.movers;
	unsigned on = 0;

	harness_open(harness, harness_program("unscheduled, wholly"), 1);
	harness_use_movers(harness);
	movers->chooses = true;
	movers->core_count = 64;
	movers->count = 0;
	atomic_store(&movers->on, false);
	for (unsigned period = 0; period < 600; period++) {
		const bool with = atomic_load(&movers->on);
		const unsigned runs_ms = with ? 33 : 100;

		for (unsigned ms = 0; ms < runs_ms; ms++) {
			struct tcp_movers_time *time = &harness->sender->moved;

			harness->now_ns += NS_PER_MS;
			*time = (struct tcp_movers_time){ .bytes = with ? 2400000 : 1000000 };
			*(with ? &time->movers_ns : &time->calls_ns) = with ? 5 * NS_PER_MS : NS_PER_MS * 95 / 100;
			tcp_movers_note(harness->sender, 0, harness->now_ns);
		}
		harness->now_ns += (100 - runs_ms) * NS_PER_MS;
		on += with;
	}
	assert_true(on < 100);
	movers->count = 1;
	harness_close(harness);
}

static void note_saturated(struct harness *harness, unsigned windows)
{
	for (unsigned i = 0; i < windows; i++) {
		harness->now_ns += TCP_MOVERS_WINDOW_NS;
		harness->sender->moved = (struct tcp_movers_time){ .calls_ns = TCP_MOVERS_WINDOW_NS, .bytes = 1000000 };
		tcp_movers_note(harness->sender, 0, harness->now_ns);
	}
}

/* As a trial that failed: no thread is tried again with each window. */
static void threads_that_cannot_start_end_the_trial(void **state)
{
	struct harness *harness = *state;
	struct tcp_movers *movers = &harness->transport.movers;

	harness_open(harness, harness_program("unscheduled, wholly"), 1);
	harness_use_movers(harness);
	movers->chooses = true;
	movers->core_count = 64;
	movers->count = 0;
	atomic_store(&movers->on, false);
	harness->now_ns += 3600 * NS_PER_S; /* later than this thread has looked in other tests */
	note_saturated(harness, 10);
	assert_int_equal(movers->rule.state, TCP_MOVERS_TRIAL);
	atomic_store(&movers->most, 0); /* start() */
	atomic_store(&movers->on, false);
	note_saturated(harness, 1);
	assert_int_equal(movers->rule.state, TCP_MOVERS_OFF);
	note_saturated(harness, 10);
	assert_false(movers->on);
	movers->count = 1;
	harness_close(harness);
}

/* The same with threads and real sockets, which are cut meanwhile. */
static void threads_lose_nothing(void **state)
{
	(void)state;
	for (unsigned round = 0; round < (runtime_long() ? 20 : 3); round++) {
		runtime_set_streams(round);
		conversation_with_cuts(CONVERSATION_DRAWN, NULL);
	}
	unsetenv("TRIBUTARY_STREAMS");
	unsetenv("TRIBUTARY_MOVERS");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calls_are_overtaken_by_everything, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(what_arrives_before_the_call_returns_is_done_after_it, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(an_error_is_told_when_the_call_has_ended, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(a_peer_that_closes_has_received_it, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(a_peer_that_closes_is_heard_behind_a_payload, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(no_stream_waits_for_threads_that_have_ended, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(threads_that_stay_are_said_once, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(released_memory_is_left_alone, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(a_new_request_ends_the_pause, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(a_message_that_is_too_long_is_not_passed_by, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(a_quota_is_no_gain, harness_setup, harness_teardown),
		cmocka_unit_test_setup_teardown(threads_that_cannot_start_end_the_trial, harness_setup, harness_teardown),
		cmocka_unit_test(threads_lose_nothing),
	};

	(void)argc;
	runtime_start(argv[0], 120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
