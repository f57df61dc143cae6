/*
 * The rules of messages, on streams that live: order within a tag and nothing between tags, whatever nobody receives;
 * data that follows its announcement at once; sequence numbers that wrap.
 */
#include "harness.h"

#include "base/clock.h"
#include "support/runtime.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct harness_program plain = { .name = "plain" };
static const struct harness_program ask_ahead = { .name = "ask ahead", .ask_ahead = true };
static const struct harness_program ask_ahead_paced = { .name = "ask ahead, paced", .ask_ahead = true, .paced = true };
static const struct harness_program paced = { .name = "paced", .paced = true };

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct harness));
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void every_program_ends(void **state)
{
	struct harness *harness = *state;

	for (const struct harness_program *program = harness_programs; program->name; program++)
		for (unsigned active_count = 1; active_count <= HARNESS_STREAMS; active_count++) {
			harness_open(harness, program, active_count);
			if (!harness_run(harness))
				fail_msg("%s: the connection failed", program->name);
			assert_int_equal(harness->sender->s.window.taken_units <= TCP_WIRE_EAGER_UNITS, true);
			assert_int_equal(harness->receiver->r.window.taken_units, 0);
			assert_int_equal(harness->receiver->r.expected_bytes, 0);
			assert_int_equal(harness->receiver->r.posted_open, 0);
			assert_int_equal(harness->receiver->r.told_open, 0);
			harness_close(harness);
		}
}

enum { GO_ON_MESSAGES = 400 };

/*
 * One tag came first, and then another for long: so many receives ahead of so many sends. How many of the sends knew that
 * their receive is posted.
 */
static unsigned go_on(struct harness *harness, unsigned ahead, unsigned in_flight)
{
	enum { BYTES = 3000, MOST = 16 };
	static uint8_t out[MOST][BYTES], in[MOST][BYTES];
	struct tcp_request *sends[MOST] = { NULL }, *receives[MOST] = { NULL };
	unsigned sent = 0, posted = 0, knew = 0;

	for (unsigned done = 0; done < GO_ON_MESSAGES; done++) {
		for (; posted < GO_ON_MESSAGES && posted < done + ahead; posted++)
			receives[posted % MOST] = harness_receive(harness, in[posted % MOST], BYTES, posted ? 7 : 9);
		for (; sent < GO_ON_MESSAGES && sent < done + in_flight; sent++) {
			memset(out[sent % MOST], (int)sent, BYTES);
			sends[sent % MOST] = harness_send(harness, out[sent % MOST], BYTES, sent ? 7 : 9);
			knew += sends[sent % MOST]->ahead;
		}
		harness_finish(harness, sends[done % MOST]);
		assert_int_equal(harness_finish(harness, receives[done % MOST]), BYTES);
		assert_memory_equal(in[done % MOST], out[done % MOST], BYTES);
	}
	return knew;
}

static void another_tag_goes_on_for_ever(void **state)
{
	for (unsigned active_count = 1; active_count <= HARNESS_STREAMS; active_count++)
		for (unsigned ahead = 1; ahead <= 16; ahead *= 2)
			for (unsigned in_flight = 1; in_flight <= 16; in_flight *= 2) {
				struct harness *harness = *state;

				unsigned knew;

				harness_open(harness, &plain, active_count);
				knew = go_on(harness, ahead > in_flight ? ahead : in_flight, in_flight);
				/* None waits for a grant but the first ones; striped data could come before its announcement. */
				if (active_count == 1 && ahead > in_flight)
					assert_int_equal(knew, GO_ON_MESSAGES - in_flight);
				else
					assert_true(active_count == 1 || !knew);
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
static unsigned leave_unmatched(struct harness *harness, unsigned active_count, unsigned count, size_t bytes)
{
	static uint8_t out[UNMATCHED_MOST][5000], in[5000];
	struct tcp_request *sends[UNMATCHED_MOST];
	unsigned sent;

	harness_open(harness, &plain, active_count);
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
	for (unsigned active_count = 1; active_count <= HARNESS_STREAMS; active_count++) {
		for (size_t bytes = 0; bytes <= 5000; bytes += 250)
			assert_int_equal(leave_unmatched(*state, active_count, 1, bytes), 1);
		assert_int_equal(leave_unmatched(*state, active_count, 100, 100), 100);
		assert_in_range(leave_unmatched(*state, active_count, UNMATCHED_MOST, 100), 100, UNMATCHED_MOST - 1);
		assert_int_equal(leave_unmatched(*state, active_count, TRANSPORT_MAX_REQUESTS - 2, 5000),
				 TRANSPORT_MAX_REQUESTS - 2);
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

enum { LONG_MESSAGES = 6, LONG_BYTES = 4 << 20 }; /* together beyond the budget of a sender that is alone */

static void exchange_long_messages(struct harness *harness, uint8_t *out, uint8_t *in)
{
	struct tcp_request *sends[LONG_MESSAGES] = { NULL }, *receives[LONG_MESSAGES];
	struct pace *pace = harness->receiver->r.pace;
	struct pace_sender other_host = { .host = 9 };
	struct pace_message another = { .sender = &other_host };
	unsigned done = 0;

	for (unsigned m = 0; m < LONG_MESSAGES; m++)
		receives[m] = harness_receive(harness, in + (size_t)m * LONG_BYTES, LONG_BYTES, 5);
	for (unsigned step = 0; step < HARNESS_STEPS_MAX && done < LONG_MESSAGES; step++) {
		/* Half are announced, and granted in part; after a while alone, the others may come at once. */
		if (step == LONG_MESSAGES / 2)
			harness->now_ns += NS_PER_S;
		if (step < LONG_MESSAGES)
			sends[step] = harness_send(harness, out + (size_t)step * LONG_BYTES, LONG_BYTES, 5);
		harness->came_ahead += step < LONG_MESSAGES && sends[step] && sends[step]->ahead;
		/* Right after it another host wants the link, too, and is slow: what was told stands all the same. */
		if (harness->receiver->r.told_open && !another.flow.listed)
			pace_add(pace, &another, LONG_BYTES, harness->now_ns);
		harness_step(harness, 4);
		harness->now_ns += NS_PER_MS;
		assert_int_equal(harness->receiver->error, 0);
		for (done = 0; done < LONG_MESSAGES && receives[done]->done && sends[done] && sends[done]->done;)
			done++;
	}
	assert_true(another.flow.listed);
	pace_remove(pace, &another);
	assert_int_equal(done, LONG_MESSAGES);
	assert_memory_equal(in, out, (size_t)LONG_MESSAGES * LONG_BYTES);
}

/* Part of a message was granted; then the receiver says that receives are posted. */
static void posted_receives_are_told_among_grants(void **state)
{
	uint8_t *out = malloc((size_t)LONG_MESSAGES * LONG_BYTES), *in = calloc(LONG_MESSAGES, LONG_BYTES);
	struct harness *harness = *state;

	assert_true(out && in);
	for (size_t i = 0; i < (size_t)LONG_MESSAGES * LONG_BYTES; i++)
		out[i] = (uint8_t)(i * 13 + (i >> 12));
	harness_open(harness, &paced, 1);
	exchange_long_messages(harness, out, in);
	assert_true(harness->came_ahead > 0);
	harness_close(harness);
	free(out);
	free(in);
}

static unsigned posted_of(const struct harness *harness, int tag)
{
	const struct tcp_sender *s = &harness->sender->s;

	for (unsigned i = 0; i < s->posted_count; i++)
		if (s->posted[i].tag == tag)
			return s->posted[i].count;
	return 0;
}

static void what_was_asked_for_ahead_needs_no_grant(void **state)
{
	struct harness *harness = *state;
	struct tcp_request *receive, *send;
	size_t bytes = 5000;

	harness_open(harness, &ask_ahead_paced, 1);
	receive = harness_receive(harness, harness->in[0], bytes, 5);
	harness->receiver->stirred = true;
	tcp_connection_progress(harness->receiver);
	harness_pass(&harness->middles[0]);
	tcp_connection_progress(harness->sender);
	assert_int_equal(posted_of(harness, 5), 1);
	send = harness_send(harness, harness->out[0], bytes, 5);
	assert_true(send->ahead);
	assert_int_equal(posted_of(harness, 5), 0);
	for (unsigned i = 0; i < 3; i++)
		harness_pass(&harness->middles[0]);
	assert_true(harness->middles[0].passed > bytes); /* and the receiver has not run since */
	assert_int_equal(harness_finish(harness, receive), bytes);
	harness_finish(harness, send);
	assert_memory_equal(harness->in[0], harness->out[0], bytes);
	harness_close(harness);
}

/* What nobody waits for has no place to go to. */
static void what_nobody_waits_for_is_refused(void **state)
{
	struct tcp_frame frame = {
		.type = TCP_FRAME_COMES, .message = (uint32_t)TCP_WIRE_FIRST_SEQUENCE, .tag = 5, .value = 5000
	};
	struct harness *harness = *state;

	harness_open(harness, &ask_ahead, 1);
	harness_receive(harness, harness->in[0], 5000, 6);
	assert_int_equal(tcp_receiver_frame(harness->receiver, harness->receiver->streams, &frame, harness->now_ns),
			 -EPROTO);
	harness_close(harness);
}

/* A message for the sender's request that is still open, one out of turn, data of another message: no sender of ours. */
static void what_no_sender_says_is_refused(void **state)
{
	const struct tcp_frame first = { .type = TCP_FRAME_ANNOUNCE,
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

/* Messages meet receives in their order, those that were told of and those that were not, short messages as long ones. */
static void what_was_asked_for_is_met_once(void **state)
{
	struct harness *harness = *state;
	void *data[3];
	size_t bytes[3] = { 5000, 5000, 5000 };
	int tags[3] = { 5, 5, 5 };
	struct tcp_request *receives[2], *sends[4];

	for (unsigned i = 0; i < 3; i++)
		data[i] = harness->in[i];
	for (size_t first = 0; first <= 5000; first += 100) { /* unasked, up to 256, and longer */
		harness_open(harness, &ask_ahead, 1);
		receives[0] = harness_receive(harness, harness->in[0], 5000, 5);
		harness_step(harness, 3);
		assert_int_equal(posted_of(harness, 5), 1);
		sends[0] = harness_send(harness, harness->out[0], first, 5);
		sends[1] = harness_send(harness, harness->out[1], 5000, 5);
		assert_false(sends[1]->ahead);
		harness_step(harness, 3);
		receives[1] = harness_receive(harness, harness->in[1], 5000, 5);
		for (unsigned i = 0; i < 2; i++) {
			assert_int_equal(harness_finish(harness, receives[i]), i ? 5000 : first);
			harness_finish(harness, sends[i]);
		}
		assert_memory_equal(harness->in[1], harness->out[1], 5000);
		assert_int_equal(posted_of(harness, 5), 0);
		harness_close(harness);
	}
	/* The receives of a group count as those that are posted alone. */
	harness_open(harness, &ask_ahead, 1);
	assert_int_equal(tcp_receiver_receive(harness->receiver, 2, data, bytes, tags, harness->now_ns, &receives[0]),
			 0);
	receives[1] = harness_receive(harness, data[2], 5000, 5);
	harness_step(harness, 3);
	assert_int_equal(posted_of(harness, 5), 3);
	for (unsigned i = 0; i < 4; i++) {
		sends[i] = harness_send(harness, harness->out[i], 5000, 5);
		assert_int_equal(sends[i]->ahead, i < 3);
	}
	for (unsigned i = 0; i < 2; i++)
		harness_finish(harness, receives[i]);
	for (unsigned i = 0; i < 3; i++)
		assert_memory_equal(harness->in[i], harness->out[i], 5000);
	harness_close(harness);
}

/* Read late, or in another order than they were sent, such words never count a receive twice. */
static void late_words_about_receives_do_no_harm(void **state)
{
	struct tcp_frame frame = { .type = TCP_FRAME_POSTED, .value = tcp_wire_put_posted(5, 3) };
	struct harness *harness = *state;
	struct tcp_stream *stream;

	harness_open(harness, &plain, 1);
	stream = harness->sender->streams;
	frame.message = (uint32_t)harness->sender->s.next_sequence;
	harness_send(harness, harness->out[0], 5000, 5);
	harness_send(harness, harness->out[1], 100, 5);
	harness_send(harness, harness->out[2], 100, 6);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(tcp_sender_frame(harness->sender, stream, &frame, harness->now_ns), 0);
		assert_int_equal(posted_of(harness, 5), 1);
	}
	frame.value = tcp_wire_put_posted(5, 2);
	assert_int_equal(tcp_sender_frame(harness->sender, stream, &frame, harness->now_ns), 0);
	assert_int_equal(posted_of(harness, 5), 1);
	assert_true(harness_send(harness, harness->out[3], 5000, 5)->ahead);
	assert_int_equal(posted_of(harness, 5), 0);
	assert_int_equal(tcp_sender_frame(harness->sender, stream, &frame, harness->now_ns), 0);
	assert_int_equal(posted_of(harness, 5), 0);
	frame.message += TCP_TAGS; /* of the future */
	assert_int_equal(tcp_sender_frame(harness->sender, stream, &frame, harness->now_ns), -EPROTO);
	frame.type = TCP_FRAME_WINDOW_HIGH;
	assert_int_equal(tcp_sender_frame(harness->sender, stream, &frame, harness->now_ns), -EPROTO);
	harness_close(harness);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_program_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(another_tag_goes_on_for_ever, setup, teardown),
		cmocka_unit_test_setup_teardown(what_nobody_receives_delays_its_own_tag_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(order_holds_after_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(sequence_numbers_wrap, setup, teardown),
		cmocka_unit_test_setup_teardown(posted_receives_are_told_among_grants, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_asked_for_ahead_needs_no_grant, setup, teardown),
		cmocka_unit_test_setup_teardown(what_nobody_waits_for_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(what_no_sender_says_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_asked_for_is_met_once, setup, teardown),
		cmocka_unit_test_setup_teardown(late_words_about_receives_do_no_harm, setup, teardown),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
