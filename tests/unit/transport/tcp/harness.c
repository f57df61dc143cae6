/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include "base/clock.h"
#include "support/random.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Short messages and long ones, longer than a segment, and empty ones. */
#define MIXED                                                                                                    \
	{                                                                                                        \
		{ 5, 100 }, { 5, 3000 }, { 5, 0 }, { 5, 256 }, { 5, 5000 }, { 5, 700 }, { 5, 2000 }, { 5, 600 }, \
			{ 5, 900 },                                                                              \
	}
#define MIXED_TAGS                        \
	{                                 \
		5, 5, 5, 5, 5, 5, 5, 5, 5 \
	}
#define FOUR_TAGS                                                                                                \
	{                                                                                                        \
		{ 5, 100 }, { 6, 3000 }, { 7, 0 }, { 8, 256 }, { 5, 5000 }, { 6, 700 }, { 7, 2000 }, { 8, 600 }, \
			{ 5, 900 },                                                                              \
	}

const struct harness_program harness_programs[] = {
	{ "one tag", 9, MIXED, MIXED_TAGS, .group = 0 },
	{ "one tag, paced", 9, MIXED, MIXED_TAGS, .paced = true },
	{ "one tag, receives lead", 9, MIXED, MIXED_TAGS, .receives_primary = true },
	{ "two tags",
	  5,
	  { { 7, 3000 }, { 9, 2500 }, { 7, 2000 }, { 7, 1500 }, { 7, 1000 } },
	  { 7, 7, 7, 7, 9 },
	  .receives_primary = true },
	{ "one of a tag, then another tag",
	  7,
	  { { 9, 3000 }, { 7, 2500 }, { 7, 2000 }, { 7, 1500 }, { 7, 60 }, { 7, 1000 }, { 7, 1000 } },
	  { 9, 7, 7, 7, 7, 7, 7 },
	  .receives_primary = true },
	{ "unmatched ones",
	  11,
	  { { 9, 3000 },
	    { 9, 40 },
	    { 7, 2000 },
	    { 7, 60 },
	    { 8, 80 },
	    { 9, 70 },
	    { 8, 1500 },
	    { 7, 1000 },
	    { 8, 10 },
	    { 7, 0 },
	    { 9, 900 } },
	  { 7, 7, 8, 8, 7, 8, 7, 9, 9, 9, 9 },
	  .late = 4 },
	{ "groups",
	  9,
	  { { 7, 100 },
	    { 6, 3000 },
	    { 5, 2000 },
	    { 5, 1000 },
	    { 6, 0 },
	    { 7, 900 },
	    { 6, 600 },
	    { 5, 200 },
	    { 7, 2000 } },
	  { 5, 6, 7, 5, 6, 7, 5, 6, 7 },
	  .group = 3 },
	{ "groups, receives lead",
	  9,
	  { { 7, 100 },
	    { 6, 3000 },
	    { 5, 2000 },
	    { 5, 1000 },
	    { 6, 0 },
	    { 7, 900 },
	    { 6, 600 },
	    { 5, 200 },
	    { 7, 2000 } },
	  { 5, 6, 7, 5, 6, 7, 5, 6, 7 },
	  .group = 3,
	  .receives_primary = true },
	{ "unscheduled", 9, FOUR_TAGS, { 5, 6, 7, 8, 5, 6, 7, 8, 5 }, .receives_primary = true, .unscheduled = 1600 },
	{ "unscheduled, wholly", 9, FOUR_TAGS, { 5, 6, 7, 8, 5, 6, 7, 8, 5 }, .unscheduled = 20000 },
	{ "unscheduled, unmatched", 9, FOUR_TAGS, { 8, 8, 7, 7, 6, 6, 5, 5, 5 }, .late = 9, .unscheduled = 8000 },
	{ "unscheduled, paced",
	  9,
	  FOUR_TAGS,
	  { 5, 6, 7, 8, 5, 6, 7, 8, 5 },
	  .receives_primary = true,
	  .unscheduled = 1600,
	  .paced = true },
	{ "buffered", 9, FOUR_TAGS, { 5, 6, 7, 8, 5, 6, 7, 8, 5 }, .unscheduled = 20000, .buffers = true },
	{ "buffered, unmatched",
	  9,
	  FOUR_TAGS,
	  { 8, 8, 7, 7, 6, 6, 5, 5, 5 },
	  .late = 9,
	  .unscheduled = 8000,
	  .buffers = true },
	{ .name = NULL },
};

const struct harness_program *harness_program(const char *name)
{
	const struct harness_program *program = harness_programs;

	while (program->name && strcmp(program->name, name) != 0)
		program++;
	assert_non_null(program->name);
	return program;
}

static void attach(struct harness *harness, unsigned index, int fds[2])
{
	int a[2], b[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, a), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, b), 0);
	harness->middles[index].sender = a[1];
	harness->middles[index].receiver = b[1];
	fds[0] = a[0];
	fds[1] = b[0];
}

static void fill(uint8_t bytes[static HARNESS_BYTES], unsigned m)
{
	for (size_t i = 0; i < HARNESS_BYTES; i++)
		bytes[i] = (uint8_t)(i * 31 + m * 7 + (i >> 8));
}

int harness_setup(void **state)
{
	*state = calloc(1, sizeof(struct harness));
	return *state ? 0 : -1;
}

int harness_teardown(void **state)
{
	clock_set_fake(NULL); /* of a test that failed, too: the next one may need the real clock */
	free(*state);
	return 0;
}

void harness_open(struct harness *harness, const struct harness_program *program, unsigned active_count)
{
	struct pace_options options = { .enabled = program->paced, .speed_Bps = 1000000, .quantum_bytes = 512 };

	memset(harness, 0, sizeof(*harness));
	harness->program = program;
	harness->step_ns = 10 * NS_PER_MS;
	harness->now_ns = NS_PER_S;
	clock_set_fake(&harness->now_ns);
	params_defaults(&harness->params);
	harness->params.eager_bytes = HARNESS_EAGER;
	harness->params.segment_bytes = HARNESS_SEGMENT;
	harness->transport.params = &harness->params;
	harness->transport.service.wake_fd = -1;
	harness->transport.timeout_ns = 10 * NS_PER_S;
	harness->transport.silence_ns = 9 * NS_PER_S;
	harness->transport.beat_ns = NS_PER_S / 2;
	harness->transport.stream_timeout_ns = 4 * NS_PER_S;
	harness->transport.host[0] = 'h';
	harness->transport.bounds_windows = true;
	assert_int_equal(pace_new(&options, &harness->transport.devices.list[0].pace), 0);
	assert_int_equal(
		tcp_connection_new(&harness->transport, TCP_SENDER, 0, 0, HARNESS_STREAMS, active_count, &harness->sender),
		0);
	assert_int_equal(tcp_connection_new(&harness->transport, TCP_RECEIVER, 0, 0, HARNESS_STREAMS, active_count,
					    &harness->receiver),
			 0);
	LIST_INSERT_HEAD(&harness->transport.connections, harness->sender, link);
	LIST_INSERT_HEAD(&harness->transport.connections, harness->receiver, link);
	harness->receiver->r.unscheduled_told = pace_unscheduled(harness->receiver->r.pace,
								 &harness->receiver->r.sender);
	tcp_sender_may_begin(harness->sender, program->unscheduled);
	for (unsigned i = 0; i < HARNESS_STREAMS; i++) {
		int fds[2];

		attach(harness, i, fds);
		harness->middles[i].left = HARNESS_WHOLE;
		tcp_stream_attach(&harness->sender->streams[i], fds[0], 0, harness->now_ns);
		tcp_stream_attach(&harness->receiver->streams[i], fds[1], 0, harness->now_ns);
		harness->sender->live_count++;
		harness->receiver->live_count++;
	}
	for (unsigned m = 0; m < HARNESS_MESSAGES; m++)
		fill(harness->out[m], m);
}

static void middle_close(struct harness_middle *middle)
{
	if (middle->sender >= 0)
		close(middle->sender);
	if (middle->receiver >= 0)
		close(middle->receiver);
	middle->sender = middle->receiver = -1;
}

void harness_use_movers(struct harness *harness)
{
	struct tcp_movers *movers = &harness->transport.movers;

	harness->params.movers = 1;
	tcp_movers_init(&harness->transport, tcp_move);
	movers->count = 1; /* which never asks for a stream itself */
	movers->least_bytes = 40;
}

void harness_move(struct harness *harness, unsigned index)
{
	struct tcp_movers *movers = &harness->transport.movers;
	struct tcp_move *move = &harness->moves[index];
	bool again = false;

	if (!move->stream) {
		move->stream = tcp_movers_next(movers);
		if (move->stream && tcp_move_begin(move))
			return;
	} else if (!harness->called[index]) {
		harness->called[index] = true;
		tcp_move_call(move);
		return;
	} else {
		harness->called[index] = false;
		harness->moved++;
		again = tcp_move_end(move);
	}
	if (move->stream)
		tcp_movers_return(movers, move->stream, again);
	move->stream = NULL;
}

static void end_moves(struct harness *harness)
{
	if (!harness->transport.movers.count)
		return;
	for (unsigned i = 0; i < HARNESS_MOVERS; i++)
		while (harness->moves[i].stream)
			harness_move(harness, i);
	tcp_movers_leave(harness->sender);
	tcp_movers_leave(harness->receiver);
	harness->transport.movers.count = 0;
	tcp_movers_fini(&harness->transport.movers);
}

void harness_close(struct harness *harness)
{
	end_moves(harness);
	harness_cut_all(harness);
	tcp_connection_free(harness->sender);
	tcp_connection_free(harness->receiver);
	pace_free(harness->transport.devices.list[0].pace);
	clock_set_fake(NULL);
}

void harness_pass(struct harness_middle *middle)
{
	harness_pass_some(middle, HARNESS_PASS_MOST);
}

void harness_pass_some(struct harness_middle *middle, size_t most)
{
	uint8_t bytes[HARNESS_PASS_MOST];
	ssize_t got;

	if (middle->sender < 0)
		return;
	if (most > middle->left)
		most = middle->left;
	got = most ? recv(middle->sender, bytes, most, 0) : -1;
	if (got > 0) {
		if (send(middle->receiver, bytes, (size_t)got, MSG_NOSIGNAL) != got) {
			middle_close(middle); /* the receiver gave this stream up meanwhile */
			return;
		}
		middle->left -= (size_t)got;
		middle->passed += (size_t)got;
	}
	if (!middle->left) {
		if (middle->death == HARNESS_CLOSED)
			middle_close(middle);
		return; /* silent: nothing passes either way any more */
	}
	got = recv(middle->receiver, bytes, sizeof(bytes), 0);
	if (got > 0 && send(middle->sender, bytes, (size_t)got, MSG_NOSIGNAL) != got)
		middle_close(middle);
}

/* What the service thread and a new dial would do: a fresh pair of sockets under the next epoch. */
void harness_rejoin(struct harness *harness)
{
	for (unsigned i = 0; i < HARNESS_STREAMS; i++) {
		struct tcp_stream *stream = &harness->sender->streams[i];
		struct sockaddr_storage peer = { 0 };
		int fds[2];

		if (stream->live || harness->sender->error || (stream->awaits_dead && harness->sender->live_count))
			continue;
		if (harness->receiver->streams[i].move == TCP_MOVE_CALL) { /* acceptor.c: the sender dials again */
			tcp_failover_lost(harness->receiver, &harness->receiver->streams[i], "dialled anew", harness->now_ns);
			continue;
		}
		middle_close(&harness->middles[i]);
		attach(harness, i, fds);
		harness->middles[i].left = HARNESS_WHOLE;
		assert_int_equal(
			tcp_failover_rejoin(harness->receiver, i, stream->epoch + 1, fds[1], &peer, harness->now_ns),
			0);
		tcp_failover_attach(harness->sender, stream, fds[0], stream->epoch + 1, harness->now_ns);
		harness->rejoins++;
		if (harness->second)
			harness->middles[harness->second_index].left = harness->second_left;
		harness->second = false;
	}
}

static unsigned group_of(const struct harness_program *program)
{
	return program->group ? program->group : 1;
}

static unsigned done_count(const struct harness *harness)
{
	unsigned done = 0;

	for (unsigned i = 0; i < harness->program->count; i++)
		done += harness->received_done[i];
	return done;
}

static void post(struct harness *harness)
{
	const struct harness_program *program = harness->program;
	const unsigned group = group_of(program), at = harness->posted;
	void *data[TRANSPORT_MAX_RECVS];
	size_t bytes[TRANSPORT_MAX_RECVS];
	unsigned may_send = program->count;

	if (at < program->count && !harness->receiver->error &&
	    (at < program->count - program->late || done_count(harness) >= program->count - program->late)) {
		for (unsigned i = 0; i < group; i++) {
			data[i] = harness->in[at + i];
			bytes[i] = HARNESS_BYTES;
		}
		assert_int_equal(tcp_receiver_receive(harness->receiver, (int)group, data, bytes,
						      program->receives + at, harness->now_ns,
						      &harness->receives[at / group]),
				 0);
		harness->posted += harness->receives[at / group] ? group : 0;
	}
	if (program->receives_primary && harness->posted < program->count)
		may_send = harness->posted / 2;
	if (program->buffers && harness->sent && harness->sends[harness->sent - 1])
		may_send = 0;
	if (harness->sent < may_send && !harness->sender->error) {
		const struct harness_message *message = &program->sends[harness->sent];
		struct tcp_request *request = harness_send(harness, harness->out[harness->sent], message->bytes,
							   message->tag);

		harness->came_unscheduled += request && request->unscheduled;
		harness->sends[harness->sent] = request;
		harness->sent += request != NULL;
	}
}

/* Requests that are done are given back, so that they are used again. */
static bool collect(struct harness *harness)
{
	const struct harness_program *program = harness->program;
	const unsigned group = group_of(program);
	size_t sizes[TRANSPORT_MAX_RECVS];
	bool done, all = true;

	for (unsigned m = 0; m < program->count; m++) {
		if (harness->sends[m] && !harness->sends[m]->done && program->buffers &&
		    tcp_sender_buffer(harness->sender, harness->sends[m])) {
			harness->buffered++;
			harness->sends[m] = NULL;
		} else if (harness->sends[m] && harness->sends[m]->done) {
			assert_int_equal(tcp_connection_test(harness->sends[m], &done, sizes), 0);
			assert_int_equal(sizes[0], program->sends[m].bytes);
			harness->sends[m] = NULL;
		}
		if (m < harness->sent && !harness->sends[m] && !harness->sent_done[m]) {
			harness->sent_done[m] = true;
			memset(harness->out[m], 0xee, sizeof(harness->out[m])); /* it is the caller's again */
		}
		if (m % group == 0 && harness->receives[m / group] && harness->receives[m / group]->done) {
			assert_int_equal(tcp_connection_test(harness->receives[m / group], &done, sizes), 0);
			harness->receives[m / group] = NULL;
			for (unsigned i = 0; i < group; i++) {
				harness->received[m + i] = sizes[i];
				harness->received_done[m + i] = true;
			}
		}
		all &= harness->sent_done[m] && harness->received_done[m];
	}
	return all;
}

/* Which message the receive meets. */
static unsigned message_of(const struct harness_program *program, unsigned receive)
{
	const int tag = program->receives[receive];
	unsigned rank = 0, m = 0;

	for (unsigned i = 0; i < receive; i++)
		rank += program->receives[i] == tag;
	for (;; m++)
		if (program->sends[m].tag == tag && rank-- == 0)
			return m;
}

static void check_data(const struct harness *harness)
{
	static const uint8_t nothing[HARNESS_BYTES];

	for (unsigned i = 0; i < harness->program->count; i++) {
		const unsigned m = message_of(harness->program, i);
		const size_t bytes = harness->program->sends[m].bytes;
		uint8_t sent[HARNESS_BYTES];

		fill(sent, m);
		assert_int_equal(harness->received[i], bytes);
		assert_memory_equal(harness->in[i], sent, bytes);
		assert_memory_equal(harness->in[i] + bytes, nothing, HARNESS_BYTES - bytes);
	}
}

static void move_both(struct harness *harness)
{
	harness->sender->ready = harness->receiver->ready = true;
	if (!harness->sender->error)
		tcp_connection_progress(harness->sender);
	if (!harness->receiver->error)
		tcp_connection_progress(harness->receiver);
	for (unsigned i = 0; i < HARNESS_STREAMS; i++)
		harness_pass(&harness->middles[i]);
}

void harness_cut_all(struct harness *harness)
{
	for (unsigned i = 0; i < HARNESS_STREAMS; i++)
		middle_close(&harness->middles[i]);
}

static void cut_in_step(struct harness *harness, unsigned step)
{
	if (!harness->cuts_left || step != harness->cut_all_at)
		return;
	harness_cut_all(harness);
	harness->cut_all_at += 1 + harness->cut_all_at % 7;
	harness->cuts_left--;
}

bool harness_run(struct harness *harness)
{
	uint64_t looked_ns = harness->now_ns;

	for (unsigned step = 0; step < HARNESS_STEPS_MAX; step++) {
		post(harness);
		move_both(harness);
		cut_in_step(harness, step);
		if (harness->rejoin)
			harness_rejoin(harness);
		if (collect(harness)) {
			check_data(harness);
			return true;
		}
		if (harness->sender->error && harness->receiver->error)
			return false;
		harness->now_ns += harness->step_ns; /* a second in a hundred rounds: silence has to show in time */
		if (step % 50 == 49) {
			tcp_failover_watch(harness->sender, looked_ns, harness->now_ns);
			tcp_failover_watch(harness->receiver, looked_ns, harness->now_ns);
			looked_ns = harness->now_ns;
		}
	}
	fail_msg("%s: it hangs", harness->program->name);
	return false;
}

/* Some streams are slow for a while, so that their bytes overtake each other in every way. */
static void pass_at_random(struct harness *harness, uint64_t *random, unsigned slow[static HARNESS_STREAMS])
{
	for (unsigned k = 0; k < HARNESS_STREAMS; k++) {
		unsigned i = (unsigned)random_below(random, HARNESS_STREAMS);

		if (!random_below(random, 40))
			slow[i] = 1 + (unsigned)random_below(random, 12);
		if (!random_below(random, slow[i]))
			harness_pass_some(&harness->middles[i],
					  random_below(random, 2) ? 1 + random_below(random, 60) : HARNESS_PASS_MOST);
	}
}

static void tick_both(struct harness *harness)
{
	if (!harness->sender->error)
		tcp_connection_tick(harness->sender, harness->now_ns);
	if (!harness->receiver->error)
		tcp_connection_tick(harness->receiver, harness->now_ns);
}

void harness_run_random(struct harness *harness, uint64_t *random, unsigned cuts)
{
	unsigned slow[HARNESS_STREAMS] = { 1, 1, 1 };

	for (unsigned step = 0; step < 4 * HARNESS_STEPS_MAX; step++) {
		if (!random_below(random, 3))
			post(harness);
		pass_at_random(harness, random, slow);
		harness->sender->ready |= random_below(random, 2);
		if (random_below(random, 2))
			tcp_connection_progress(random_below(random, 2) ? harness->sender : harness->receiver);
		if (harness->transport.movers.count)
			harness_move(harness, (unsigned)random_below(random, HARNESS_MOVERS));
		harness->early |= harness->receiver->r.early != 0;
		if (cuts && !random_below(random, 80)) {
			cuts--;
			middle_close(&harness->middles[random_below(random, HARNESS_STREAMS)]);
		}
		if (!random_below(random, 20))
			harness_rejoin(harness);
		if (harness->sender->several && !random_below(random, 12))
			harness->changes += tcp_growth_use(harness->sender, 1 | random_below(random, 4) << 1, harness->now_ns);
		assert_int_equal(harness->sender->error, 0);
		assert_int_equal(harness->receiver->error, 0);
		if (collect(harness)) {
			check_data(harness);
			return;
		}
		harness->now_ns += NS_PER_MS;
		if (!random_below(random, 60))
			tick_both(harness);
	}
	fail_msg("%s: it hangs", harness->program->name);
}

void harness_step(struct harness *harness, unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		move_both(harness);
		for (unsigned k = 0; k < 2; k++)
			harness_pass(&harness->middles[0]);
	}
}

struct tcp_request *harness_send(struct harness *harness, const void *data, size_t bytes, int tag)
{
	struct tcp_request *request;

	assert_int_equal(
		tcp_sender_send(harness->sender, (void *)(uintptr_t)data, bytes, tag, harness->now_ns, &request), 0);
	return request;
}

struct tcp_request *harness_receive(struct harness *harness, void *data, size_t bytes, int tag)
{
	struct tcp_request *request;

	assert_int_equal(tcp_receiver_receive(harness->receiver, 1, &data, &bytes, &tag, harness->now_ns, &request), 0);
	return request;
}

size_t harness_finish(struct harness *harness, struct tcp_request *request)
{
	size_t sizes[TRANSPORT_MAX_RECVS];
	bool done;

	assert_non_null(request);
	for (unsigned i = 0; !request->done; i++) {
		harness_step(harness, 1);
		assert_int_equal(harness->receiver->error, 0);
		assert_int_equal(harness->sender->error, 0);
		if (i == 1000)
			fail_msg("%s of tag %d: it hangs", request->kind == TCP_REQUEST_SEND ? "a send" : "a receive",
				 request->kind == TCP_REQUEST_SEND ? request->tag : request->slots[0].tag);
	}
	assert_int_equal(tcp_connection_test(request, &done, sizes), 0);
	assert_true(done);
	return sizes[0];
}

void harness_exchange(struct harness *harness, int tag, size_t bytes, bool receive_first)
{
	struct tcp_request *receive = NULL, *send = NULL;
	static uint8_t out[1 << 20], in[1 << 20];
	static uint8_t seed;

	assert_true(bytes <= sizeof(out));
	memset(out, ++seed, bytes);
	memset(in, ~seed, bytes);
	if (receive_first)
		receive = harness_receive(harness, in, bytes, tag);
	for (unsigned i = 0; !send; i++) {
		send = harness_send(harness, out, bytes, tag);
		harness_step(harness, 1);
		if (i == 100)
			fail_msg("tag %d, %zu bytes: no request is to be had", tag, bytes);
	}
	if (!receive_first)
		receive = harness_receive(harness, in, bytes, tag);
	assert_int_equal(harness_finish(harness, receive), bytes);
	assert_int_equal(harness_finish(harness, send), bytes);
	assert_memory_equal(in, out, bytes);
}
