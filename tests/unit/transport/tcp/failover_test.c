/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that die. Whatever dies where, and however many at once, every message arrives once, in the order of its tag and
 * whole, as long as one stream lives or is dialled anew in time. Only when all are gone for good does every request fail.
 */
#include "harness.h"

#include "base/clock.h"
#include "base/log.h"
#include "support/log_lines.h"
#include "support/runtime.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t bytes_of(struct harness *harness, const struct harness_program *program, unsigned index,
		       unsigned active_count)
{
	size_t bytes;

	harness_open(harness, program, active_count);
	assert_true(harness_run(harness));
	bytes = harness->middles[index].passed;
	harness_close(harness);
	return bytes;
}

static void must_arrive(struct harness *harness, unsigned index, size_t cut)
{
	if (!harness_run(harness))
		fail_msg("%s: stream %u of %u active cut after %zu bytes: the connection failed",
			 harness->program->name, index, harness->sender->active_count, cut);
}

struct losses {
	unsigned runs, rejoins, came_unscheduled;
};

/* Each stream in turn dies after `first`, `first` + stride, ... bytes: a single loss is never an error. */
static struct losses cut_everywhere(const struct harness_program *program, unsigned active_count,
				    enum harness_death death, bool with_rejoin, size_t first, size_t stride)
{
	struct harness *harness = calloc(1, sizeof(*harness));
	struct losses losses = { 0 };

	assert_non_null(harness);
	for (unsigned index = 0; index < HARNESS_STREAMS; index++) {
		size_t bytes = bytes_of(harness, program, index, active_count);

		for (size_t cut = first; cut <= bytes; cut += stride, losses.runs++) {
			harness_open(harness, program, active_count);
			harness->rejoin = with_rejoin;
			harness->middles[index].left = cut;
			harness->middles[index].death = death;
			must_arrive(harness, index, cut);
			losses.rejoins += harness->rejoins;
			losses.came_unscheduled += harness->came_unscheduled;
			harness_close(harness);
		}
	}
	free(harness);
	return losses;
}

/* Every program, with one active stream and with all, after every so-many-th byte; long_stride: in a long run. */
static struct losses cut_all(enum harness_death death, bool with_rejoin, size_t short_stride, size_t long_stride)
{
	const size_t stride = runtime_long() ? long_stride : short_stride;
	struct losses all = { 0 };
	size_t first = 0;

	for (const struct harness_program *program = harness_programs; program->name; program++)
		for (unsigned active_count = 1; active_count <= HARNESS_STREAMS; active_count += HARNESS_NEXT_ACTIVE) {
			struct losses losses = cut_everywhere(program, active_count, death, with_rejoin,
							      first++ % stride, stride);

			all.runs += losses.runs;
			all.rejoins += losses.rejoins;
			all.came_unscheduled += losses.came_unscheduled;
		}
	return all;
}

static void a_stream_closed_after_any_byte_loses_nothing(void **state)
{
	struct losses all = cut_all(HARNESS_CLOSED, false, 61, 1);

	(void)state;
	assert_true(all.runs > 2000);
	assert_true(all.came_unscheduled > all.runs / 2);
}

static void a_stream_silent_after_any_byte_loses_nothing(void **state)
{
	struct losses all = cut_all(HARNESS_SILENT, false, 331, 31);

	(void)state;
	assert_true(all.runs > 300);
}

static void a_stream_that_comes_back_is_used_again(void **state)
{
	struct losses all = cut_all(HARNESS_CLOSED, true, 61, 3);

	(void)state;
	assert_true(all.runs > 2000);
	assert_true(all.rejoins > all.runs / 8);
}

/* One stream, and when it has come back under a new epoch, the same again or the other one. */
static void two_losses_one_after_the_other_lose_nothing(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));
	unsigned rejoins = 0, runs = 0;
	size_t first = 0;

	(void)state;
	assert_non_null(harness);
	for (const struct harness_program *program = harness_programs; program->name; program++)
		for (unsigned kind = 0; kind < 2 * HARNESS_STREAMS * HARNESS_STREAMS; kind++) {
			const unsigned active_count = kind & 1 ? HARNESS_STREAMS : 1,
				       index = kind / 2 % HARNESS_STREAMS, second_index = kind / 2 / HARNESS_STREAMS;
			const size_t stride = runtime_long() ? 307 : 1499;
			const size_t bytes = bytes_of(harness, program, index, active_count);

			for (first = first % stride; first <= bytes; first += stride)
				for (size_t second = first % 89; second < bytes; second += stride, runs++) {
					harness_open(harness, program, active_count);
					harness->rejoin = harness->second = true;
					harness->middles[index].left = first;
					harness->second_index = second_index;
					harness->second_left = second;
					must_arrive(harness, index, first);
					rejoins += harness->rejoins;
					harness_close(harness);
				}
			first += 7;
		}
	free(harness);
	assert_true(runs > 500);
	assert_true(rejoins > runs);
}

/* Each after a number of bytes of its own, so all may be gone before the first is back. */
static void all_streams_lost_on_the_way_lose_nothing(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));
	const size_t stride = runtime_long() ? 151 : 1201;
	unsigned rejoins = 0, runs = 0;

	(void)state;
	assert_non_null(harness);
	for (const struct harness_program *program = harness_programs; program->name; program++)
		for (unsigned active_count = 1; active_count <= HARNESS_STREAMS; active_count += HARNESS_NEXT_ACTIVE)
			for (size_t first = runs % 97; first < 14000; first += stride)
				for (size_t second = first % 89; second < 14000; second += stride, runs++) {
					harness_open(harness, program, active_count);
					harness->rejoin = true;
					harness->middles[0].left = first;
					harness->middles[1].left = second;
					harness->middles[2].left = (first + second) / 2;
					must_arrive(harness, 0, first);
					rejoins += harness->rejoins;
					harness_close(harness);
				}
	free(harness);
	assert_true(runs > 2000);
	assert_true(rejoins > runs / 2);
}

/* All at once, in every step of every program, and the new ones again and again. */
static void all_streams_cut_at_once_lose_nothing(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));
	const unsigned most = runtime_long() ? 20 : 4;
	unsigned rejoins = 0, runs = 0, cuts = 0;

	(void)state;
	assert_non_null(harness);
	for (const struct harness_program *program = harness_programs; program->name; program++)
		for (unsigned kind = 0; kind < 2 * most; kind++) {
			const unsigned times = 1 + kind / 2 * (runtime_long() ? 1 : 3);

			for (unsigned at = 0, left = 0; left < times; at++, runs++) { /* until it is through before */
				harness_open(harness, program, kind & 1 ? HARNESS_STREAMS : 1);
				harness->rejoin = true;
				harness->cut_all_at = at;
				harness->cuts_left = times;
				if (!harness_run(harness))
					fail_msg("%s: all streams cut in step %u and %u times more: the connection "
						 "failed",
						 program->name, at, times - 1);
				left = harness->cuts_left;
				cuts += times - left;
				rejoins += harness->rejoins;
				harness_close(harness);
			}
		}
	free(harness);
	assert_true(runs > 1000);
	assert_true(rejoins > cuts / 4); /* some cut what is cut already */
}

static void progress(struct tcp_connection *connection)
{
	connection->ready = true;
	tcp_connection_progress(connection);
}

/* What the receiver says last stays on the way. */
static void step_receiver_last(struct harness *harness)
{
	progress(harness->sender);
	for (unsigned i = 0; i < HARNESS_STREAMS; i++)
		harness_pass(&harness->middles[i]);
	progress(harness->receiver);
}

/* It is lost with all streams, and these come back. */
static void replace_all_streams(struct harness *harness)
{
	harness_cut_all(harness);
	for (unsigned i = 0; harness->sender->live_count || harness->receiver->live_count; i++) {
		assert_true(i < 1000);
		harness_step(harness, 1);
	}
	harness_rejoin(harness);
	assert_int_equal(harness->sender->live_count, 1); /* another comes when DEAD has been said */
	harness_step(harness, 10);
	harness_rejoin(harness);
	assert_int_equal(harness->sender->live_count, HARNESS_STREAMS);
	harness_step(harness, 10);
}

static struct tcp_request *send_soon(struct harness *harness, size_t bytes, int tag)
{
	struct tcp_request *request = NULL;

	for (unsigned i = 0; !request; i++) {
		assert_true(i < 1000);
		request = harness_send(harness, harness->out[1], bytes, tag);
		step_receiver_last(harness);
	}
	return request;
}

static void grant_and_done_are_said_again(struct harness *harness)
{
	struct tcp_request *send = send_soon(harness, 3000, 7), *receive;

	harness_step(harness, 10); /* its RTS arrives */
	receive = harness_receive(harness, harness->in[1], HARNESS_BYTES, 7);
	progress(harness->receiver);
	assert_int_equal(harness->receiver->r.messages[send - harness->sender->requests].grant_told, 3000);
	replace_all_streams(harness);
	assert_int_equal(harness_finish(harness, receive), 3000);
	assert_int_equal(harness_finish(harness, send), 3000);

	receive = harness_receive(harness, harness->in[1], HARNESS_BYTES, 7);
	send = send_soon(harness, 3000, 7);
	for (unsigned i = 0; !receive->done; i++) {
		assert_true(i < 1000);
		step_receiver_last(harness);
	}
	assert_int_equal(harness->receiver->r.done_untold, 0);
	assert_false(send->done);
	replace_all_streams(harness);
	assert_int_equal(harness_finish(harness, send), 3000);
	assert_int_equal(harness_finish(harness, receive), 3000);
}

static void unscheduled_is_said_again(struct harness *harness)
{
	tcp_sender_may_begin(harness->sender, 0);
	replace_all_streams(harness);
	harness_exchange(harness, 5, 3000, true);
	assert_int_equal(harness->sender->s.unscheduled_most, PACE_UNSCHEDULED_ALONE_BYTES);
}

/* NULL: the window has no room for it, and nothing that is on its way changes that. */
static struct tcp_request *send_if_room(struct harness *harness)
{
	struct tcp_request *request = harness_send(harness, harness->out[1], HARNESS_EAGER, 5);

	harness_step(harness, 10);
	return request ? request : harness_send(harness, harness->out[1], HARNESS_EAGER, 5);
}

static void window_is_said_again(struct harness *harness)
{
	unsigned count = 0;

	for (struct tcp_request *send; (send = send_if_room(harness)) != NULL; count++)
		assert_int_equal(harness_finish(harness, send), HARNESS_EAGER);
	assert_in_range(count, TCP_WIRE_EAGER_MESSAGES / 2, TCP_WIRE_EAGER_MESSAGES);
	assert_int_equal(harness->receiver->r.next_sequence, harness->sender->s.next_sequence);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(harness_finish(harness, harness_receive(harness, harness->in[1], HARNESS_BYTES, 5)),
				 HARNESS_EAGER);
	progress(harness->receiver);
	assert_false(tcp_window_has_changed(&harness->receiver->r.window));
	replace_all_streams(harness);
	harness_exchange(harness, 5, HARNESS_EAGER, true);
}

/* All of the receiver's state, if all streams are lost while it is on the way; nothing else would say it. */
static void what_the_receiver_said_last_is_said_again(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	(void)state;
	assert_non_null(harness);
	for (unsigned active_count = 1; active_count <= HARNESS_STREAMS; active_count += HARNESS_NEXT_ACTIVE) {
		harness_open(harness, harness_program("unscheduled"), active_count);
		for (unsigned round = 0; round < 3; round++) {
			grant_and_done_are_said_again(harness);
			window_is_said_again(harness);
			unscheduled_is_said_again(harness);
		}
		harness_close(harness);
	}
	free(harness);
}

/* Sent, lost with one stream or with all, and closed before that is known: BYE comes behind what is sent again. */
static void messages_lost_before_the_close_arrive(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	(void)state;
	assert_non_null(harness);
	for (unsigned all = 0; all <= 1; all++) {
		harness_open(harness, harness_programs, 1);
		for (unsigned m = 0; m < 3; m++)
			assert_int_equal(harness_finish(harness, harness_send(harness, harness->out[m], 100, 5)), 100);
		harness->middles[0].left = 0;
		harness_pass(&harness->middles[0]);
		if (all)
			harness_cut_all(harness);
		for (unsigned i = 0; harness->sender->live_count > (all ? 0 : HARNESS_STREAMS - 1); i++) {
			assert_true(i < 1000);
			progress(harness->sender);
		}
		tcp_connection_close(harness->sender);
		for (unsigned i = 0; i < 100; i++) {
			harness_step(harness, 1);
			harness_rejoin(harness);
		}
		assert_true(harness->receiver->peer_closed);
		for (unsigned m = 0; m < 3; m++) {
			assert_int_equal(harness_finish(harness, harness_receive(harness, harness->in[m], 100, 5)),
					 100);
			assert_memory_equal(harness->in[m], harness->out[m], 100);
		}
		harness_close(harness);
	}
	free(harness);
}

enum { FULL_MESSAGES = 30, FULL_LONG = 50000, FULL_SHORT = 200 };

static size_t full_bytes(unsigned message)
{
	return message % 2 ? FULL_SHORT : FULL_LONG;
}

/* One of the streams, or all. Lost ones come back. */
static void cut_and_rejoin(struct harness *harness, unsigned step, unsigned period)
{
	const unsigned which = step / period % (HARNESS_STREAMS + 1);

	if (step % period == period - 1 && which == HARNESS_STREAMS)
		harness_cut_all(harness);
	else if (step % period == period - 1)
		harness->middles[which].left = 0;
	harness_rejoin(harness);
	assert_true(harness->sender->s.again_tail - harness->sender->s.again_head <= harness->sender->s.again_capacity);
}

static void cut_full_streams(struct harness *harness, uint8_t (*out)[FULL_LONG], uint8_t (*in)[FULL_LONG],
			     unsigned period)
{
	struct tcp_request *sends[FULL_MESSAGES] = { NULL }, *receives[FULL_MESSAGES];
	unsigned sent = 0, done = 0;

	for (unsigned i = 0; i < FULL_MESSAGES; i++) {
		memset(in[i], 0, FULL_LONG);
		receives[i] = harness_receive(harness, in[i], FULL_LONG, 5);
	}
	for (unsigned step = 0; done < FULL_MESSAGES; step++) {
		if (sent < FULL_MESSAGES) {
			sends[sent] = harness_send(harness, out[sent], full_bytes(sent), 5);
			sent += sends[sent] != NULL;
		}
		for (unsigned i = 0; i < HARNESS_STREAMS; i++) /* fast: each is given all that it holds */
			harness->sender->streams[i].rate_Bps = NS_PER_S;
		harness_step(harness, 1);
		cut_and_rejoin(harness, step, period);
		assert_int_equal(harness->sender->error, 0);
		assert_int_equal(harness->receiver->error, 0);
		while (done < sent && receives[done]->done && sends[done]->done) {
			assert_int_equal(harness_finish(harness, receives[done]), full_bytes(done));
			assert_int_equal(harness_finish(harness, sends[done]), full_bytes(done));
			assert_memory_equal(in[done], out[done], full_bytes(done));
			done++;
		}
		if (step == HARNESS_STEPS_MAX)
			fail_msg("a cut every %u steps: it hangs", period);
	}
}

/* More frames under way than a stream holds, so that what is sent again is lost again before all of it was out. */
static void full_streams_cut_again_and_again_lose_nothing(void **state)
{
	uint8_t(*out)[FULL_LONG] = calloc(FULL_MESSAGES, FULL_LONG),
	(*in)[FULL_LONG] = calloc(FULL_MESSAGES, FULL_LONG);
	struct harness *harness = calloc(1, sizeof(*harness));

	(void)state;
	assert_non_null(harness);
	assert_non_null(out);
	assert_non_null(in);
	for (unsigned m = 0; m < FULL_MESSAGES; m++)
		for (unsigned i = 0; i < FULL_LONG; i++)
			out[m][i] = (uint8_t)(i * 31 + m * 7 + (i >> 8));
	for (unsigned active_count = 1; active_count <= HARNESS_STREAMS; active_count += HARNESS_NEXT_ACTIVE)
		for (unsigned period = 5; period < (runtime_long() ? 60 : 20); period++) {
			harness_open(harness, harness_programs, active_count);
			harness->params.segment_bytes = 128;
			cut_full_streams(harness, out, in, period);
			harness_close(harness);
		}
	free(harness);
	free(out);
	free(in);
}

static void all_streams_gone_fails_both_ends(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	(void)state;
	assert_non_null(harness);
	for (unsigned death = HARNESS_CLOSED; death <= HARNESS_SILENT; death++)
		for (size_t cut = 0; cut < 3000; cut += 101) {
			uint64_t begin_ns;

			harness_open(harness, harness_programs, cut % 2 ? HARNESS_STREAMS : 1);
			for (unsigned i = 0; i < HARNESS_STREAMS; i++) {
				harness->middles[i].left = cut;
				harness->middles[i].death = (enum harness_death)death;
			}
			begin_ns = harness->now_ns;
			assert_false(harness_run(harness));
			assert_int_equal(harness->sender->error, -EREMOTEIO);
			assert_int_equal(harness->receiver->error, -EREMOTEIO);
			assert_true(harness->now_ns - begin_ns < harness->transport.timeout_ns * 3 / 2);
			assert_true(harness->now_ns - begin_ns >
				    harness->transport.silence_ns); /* they were waited for */
			for (unsigned m = 0; m < HARNESS_MESSAGES; m++) {
				bool done = false;

				if (harness->sends[m])
					assert_int_equal(tcp_connection_test(harness->sends[m], &done, NULL),
							 -EREMOTEIO);
				if (harness->receives[m])
					assert_int_equal(tcp_connection_test(harness->receives[m], &done, NULL),
							 -EREMOTEIO);
				assert_false(done);
			}
			harness_close(harness);
		}
	free(harness);
}

/* Else the rail that was lost would have all streams with data, when it is back, and the other one none. */
static void is_primary_again(unsigned active_count)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	assert_non_null(harness);
	harness_open(harness, harness_program("unscheduled"), active_count);
	harness->middles[0].left = 0;
	harness_exchange(harness, 5, 5000, true);
	harness_exchange(harness, 5, 100, false);
	assert_int_not_equal(harness->sender->s.primary, 0);
	harness_rejoin(harness);
	harness_step(harness, 10);
	assert_int_equal(harness->sender->live_count, HARNESS_STREAMS);
	for (unsigned i = 0; i < 3; i++) {
		harness->now_ns += harness->transport.beat_ns;
		tcp_connection_tick(harness->receiver, harness->now_ns);
		harness_step(harness, 1);
		tcp_connection_tick(harness->sender, harness->now_ns);
	}
	assert_int_equal(harness->sender->s.primary, 0);
	harness_exchange(harness, 5, 100, true);
	harness_exchange(harness, 5, 5000, false);
	harness_close(harness);
	free(harness);
}

static void the_first_stream_is_the_primary_again(void **state)
{
	(void)state;
	is_primary_again(HARNESS_STREAMS);
	is_primary_again(1); /* nor would the words be looked for where the data is */
}

/* The service thread alone looks at an idle connection: every stream's signs of life must be read in time. */
static void an_idle_connection_keeps_its_streams(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	(void)state;
	assert_non_null(harness);
	harness_open(harness, harness_programs, 1);
	for (unsigned beat = 0; beat < 200; beat++) {
		harness->now_ns += harness->transport.beat_ns;
		tcp_connection_tick(harness->sender, harness->now_ns);
		tcp_connection_tick(harness->receiver, harness->now_ns);
		for (unsigned i = 0; i < HARNESS_STREAMS; i++)
			harness_pass(&harness->middles[i]);
	}
	assert_int_equal(harness->sender->live_count, HARNESS_STREAMS);
	assert_int_equal(harness->receiver->live_count, HARNESS_STREAMS);
	assert_true(harness_run(harness));
	harness_close(harness);
	free(harness);
}

/* The sender looks there at every poll, and seldom at a stream in reserve, on which a sign of life may come last. */
static void words_go_on_the_stream_with_data(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));
	struct tcp_request *send;

	(void)state;
	assert_non_null(harness);
	harness_open(harness, harness_program("unscheduled"), 1);
	harness_exchange(harness, 5, 100, true);
	assert_non_null(harness_receive(harness, harness->in[0], HARNESS_BYTES, 5));
	send = harness_send(harness, harness->out[0], 1000, 5);
	assert_non_null(send);
	harness->now_ns += harness->transport.beat_ns;
	tcp_connection_tick(harness->sender, harness->now_ns);
	for (unsigned i = 0; i < HARNESS_STREAMS; i++)
		harness_pass(&harness->middles[i]);
	tcp_connection_tick(harness->receiver, harness->now_ns);
	assert_false(send->done);
	harness_pass(&harness->middles[0]);
	tcp_connection_progress(harness->sender);
	assert_true(send->done);
	harness_close(harness);
	free(harness);
}

/* As during a detour: the active stream is back, rests, and brings signs of life. Another one has the data. */
static void signs_of_life_do_not_draw_looks_off_the_data(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	(void)state;
	assert_non_null(harness);
	harness_open(harness, harness_program("unscheduled"), 1);
	harness->sender->s.rest_ns = 3600 * NS_PER_S;
	harness->middles[0].left = 0;
	harness_exchange(harness, 5, 5000, true);
	harness_rejoin(harness);
	harness_step(harness, 10);
	assert_true(harness->sender->streams[0].rests);
	harness_exchange(harness, 5, 5000, true);
	for (unsigned beat = 0; beat < 4; beat++) {
		harness->now_ns += harness->transport.beat_ns;
		tcp_connection_tick(harness->sender, harness->now_ns);
		tcp_connection_tick(harness->receiver, harness->now_ns);
		for (unsigned i = 0; i < HARNESS_STREAMS; i++)
			harness_pass(&harness->middles[i]);
	}
	assert_int_not_equal(harness->sender->hot, 0);
	assert_int_equal(harness->receiver->hot, harness->sender->s.primary);
	harness_exchange(harness, 5, 5000, true);
	harness_close(harness);
	free(harness);
}

/* The machine stood still, or gave this process no CPU: its peer on the same machine is not dead for that. */
static void time_in_which_nobody_looked_is_no_silence(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));
	uint64_t silent_ns;

	(void)state;
	assert_non_null(harness);
	harness_open(harness, harness_programs, 1);
	harness->now_ns += 5 * harness->transport.timeout_ns;
	tcp_connection_tick(harness->sender, harness->now_ns);
	tcp_connection_tick(harness->receiver, harness->now_ns);
	assert_int_equal(harness->sender->error, 0);
	assert_int_equal(harness->receiver->error, 0);
	assert_int_equal(harness->sender->live_count, HARNESS_STREAMS);
	assert_int_equal(harness->receiver->live_count, HARNESS_STREAMS);
	assert_true(harness_run(harness));
	/* It looks again, and nothing comes: that is. */
	tcp_connection_tick(harness->sender, harness->now_ns);
	silent_ns = harness->now_ns;
	while (!harness->sender->error && harness->now_ns - silent_ns < 2 * harness->transport.timeout_ns)
		tcp_connection_tick(harness->sender, harness->now_ns += harness->transport.beat_ns);
	assert_int_equal(harness->sender->error, -EREMOTEIO);
	assert_true(harness->now_ns - silent_ns <= harness->transport.timeout_ns);
	harness_close(harness);
	free(harness);
}

static void only_a_connection_that_lives_is_waited_for(void **state)
{
	struct harness *harness = calloc(1, sizeof(*harness));

	(void)state;
	assert_non_null(harness);
	for (int lives = 1; lives >= 0; lives--) {
		harness_open(harness, harness_programs, 1);
		assert_non_null(harness_send(harness, harness->out[1], 3000, 5));
		if (!lives)
			tcp_connection_fail(harness->sender, -EREMOTEIO, "the test says so");
		log_lines_start("has waited");
		harness->now_ns += harness->params.report_after_ns + NS_PER_S;
		for (unsigned i = 0; i < HARNESS_STREAMS; i++)
			harness->sender->streams[i].last_rx_ns = harness->now_ns;
		harness->sender->last_rx_ns = harness->now_ns;
		tcp_connection_tick(harness->sender, harness->now_ns);
		log_set_sink(NULL);
		assert_int_equal(log_lines()->found, lives);
		harness_close(harness);
	}
	free(harness);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_connection_that_lives_is_waited_for),
		cmocka_unit_test(the_first_stream_is_the_primary_again),
		cmocka_unit_test(an_idle_connection_keeps_its_streams),
		cmocka_unit_test(words_go_on_the_stream_with_data),
		cmocka_unit_test(signs_of_life_do_not_draw_looks_off_the_data),
		cmocka_unit_test(time_in_which_nobody_looked_is_no_silence),
		cmocka_unit_test(a_stream_closed_after_any_byte_loses_nothing),
		cmocka_unit_test(a_stream_silent_after_any_byte_loses_nothing),
		cmocka_unit_test(a_stream_that_comes_back_is_used_again),
		cmocka_unit_test(two_losses_one_after_the_other_lose_nothing),
		cmocka_unit_test(all_streams_lost_on_the_way_lose_nothing),
		cmocka_unit_test(all_streams_cut_at_once_lose_nothing),
		cmocka_unit_test(what_the_receiver_said_last_is_said_again),
		cmocka_unit_test(messages_lost_before_the_close_arrive),
		cmocka_unit_test(full_streams_cut_again_and_again_lose_nothing),
		cmocka_unit_test(all_streams_gone_fails_both_ends),
	};

	(void)argc;
	runtime_start(argv[0], runtime_long() ? 1200 : 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
