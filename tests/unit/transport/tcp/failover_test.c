/*
 * Two ends of a connection over socket pairs, with the test in the middle of each: it decides how many bytes pass before a
 * stream dies, so that every byte of the conversation is once the last one. Whatever dies where, every message arrives
 * once, in order and whole; and when all is gone, every request fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAMS = 2, MESSAGES = 9, STEPS_MAX = 20000, WHOLE = 1 << 30 };

/* Both kinds, shorter and longer than a segment, an empty one. */
static const size_t sizes[MESSAGES] = { 100, 3000, 0, 256, 5000, 700, 2000, 600, 900 };

enum death { DEATH_CLOSED, DEATH_SILENT };

struct middle {
	int sender, receiver; /* our ends; -1 when cut */
	size_t left;          /* bytes of the sender's that still pass */
	size_t passed;
	enum death death;
};

struct bed {
	struct params params;
	struct tcp_transport transport;
	struct tcp_connection *sender, *receiver;
	struct middle middles[STREAMS];
	uint64_t now_ns;
	uint8_t out[MESSAGES][8192], in[MESSAGES][8192];
	struct tcp_request *sends[MESSAGES], *receives[MESSAGES];
	unsigned sent, received, posted;
	bool rejoin;
	unsigned rejoins;
	unsigned active_count;
	uint64_t step_ns;
};

static void attach(struct bed *bed, unsigned index, int fds[2])
{
	int a[2], b[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, a), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, b), 0);
	bed->middles[index].sender = a[1];
	bed->middles[index].receiver = b[1];
	fds[0] = a[0];
	fds[1] = b[0];
}

static bool paced; /* small grants at first, promises once the sender was alone for a while */

static bool ahead; /* receives are posted first, and told of as they are */
static unsigned came_ahead;

static void bed_open(struct bed *bed, unsigned active_count)
{
	struct pace_options options = {
		.enabled = paced, .speed_Bps = 1000000, .quantum_bytes = 512, .device_name = "none"
	};

	memset(bed, 0, sizeof(*bed));
	bed->active_count = active_count;
	bed->step_ns = 10 * NS_PER_MS;
	bed->now_ns = NS_PER_S;
	clock_set_fake(&bed->now_ns);
	params_defaults(&bed->params);
	bed->params.eager_bytes = 256;
	bed->params.segment_bytes = 1024;
	bed->transport.params = &bed->params;
	bed->transport.service.wake_fd = -1;
	bed->transport.timeout_ns = 10 * NS_PER_S;
	bed->transport.silence_ns = 9 * NS_PER_S;
	bed->transport.beat_ns = NS_PER_S / 2;
	bed->transport.stream_timeout_ns = 4 * NS_PER_S;
	bed->transport.host[0] = 'h';
	assert_int_equal(pace_new(&options, &bed->transport.devices.list[0].pace), 0);
	assert_int_equal(tcp_connection_new(&bed->transport, TCP_SENDER, 0, STREAMS, active_count, &bed->sender), 0);
	assert_int_equal(tcp_connection_new(&bed->transport, TCP_RECEIVER, 0, STREAMS, active_count, &bed->receiver),
			 0);
	bed->receiver->peer_id = 7;
	bed->receiver->r.ask_ahead = ahead;
	for (unsigned i = 0; i < STREAMS; i++) {
		int fds[2];

		attach(bed, i, fds);
		bed->middles[i].left = WHOLE;
		tcp_stream_attach(&bed->sender->streams[i], fds[0], 0, bed->now_ns);
		tcp_stream_attach(&bed->receiver->streams[i], fds[1], 0, bed->now_ns);
		bed->sender->live_count++;
		bed->receiver->live_count++;
	}
	for (unsigned m = 0; m < MESSAGES; m++)
		for (size_t i = 0; i < sizeof(bed->out[m]); i++)
			bed->out[m][i] = (uint8_t)(i * 31 + m * 7 + (i >> 8));
}

static void middle_close(struct middle *middle)
{
	if (middle->sender >= 0)
		close(middle->sender);
	if (middle->receiver >= 0)
		close(middle->receiver);
	middle->sender = middle->receiver = -1;
}

static void bed_close(struct bed *bed)
{
	for (unsigned i = 0; i < STREAMS; i++)
		middle_close(&bed->middles[i]);
	tcp_connection_free(bed->sender);
	tcp_connection_free(bed->receiver);
	pace_free(bed->transport.devices.list[0].pace);
	clock_set_fake(NULL);
}

static void pass(struct middle *middle)
{
	uint8_t bytes[4096];
	ssize_t got;
	size_t most = middle->left < sizeof(bytes) ? middle->left : sizeof(bytes);

	if (middle->sender < 0)
		return;
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
		if (middle->death == DEATH_CLOSED)
			middle_close(middle);
		return; /* silent: nothing passes either way any more */
	}
	got = recv(middle->receiver, bytes, sizeof(bytes), 0);
	if (got > 0 && send(middle->sender, bytes, (size_t)got, MSG_NOSIGNAL) != got)
		middle_close(middle);
}

/* What the service thread and a new dial would do: a fresh pair of sockets under the next epoch. */
static void rejoin(struct bed *bed)
{
	for (unsigned i = 0; i < STREAMS; i++) {
		struct tcp_stream *stream = &bed->sender->streams[i];
		struct sockaddr_storage peer = { 0 };
		int fds[2];

		if (stream->live || stream->awaits_dead || bed->sender->error)
			continue;
		middle_close(&bed->middles[i]);
		attach(bed, i, fds);
		bed->middles[i].left = WHOLE;
		assert_int_equal(tcp_failover_rejoin(bed->receiver, i, stream->epoch + 1, fds[1], &peer, bed->now_ns),
				 0);
		tcp_stream_attach(stream, fds[0], stream->epoch + 1, bed->now_ns);
		bed->sender->live_count++;
		bed->rejoins++;
	}
}

static int tag_of(unsigned message)
{
	return ahead ? 5 + (int)message % 4 : 5;
}

static void post(struct bed *bed)
{
	unsigned may_send = ahead && bed->posted < MESSAGES ? bed->posted / 2 : MESSAGES;

	if (bed->posted < MESSAGES && !bed->receiver->error) {
		void *data = bed->in[bed->posted];
		size_t bytes = sizeof(bed->in[0]);
		int tag = tag_of(bed->posted);

		tcp_receiver_receive(bed->receiver, 1, &data, &bytes, &tag, bed->now_ns, &bed->receives[bed->posted]);
		bed->posted += bed->receives[bed->posted] != NULL;
	}
	if (bed->sent < may_send && !bed->sender->error) {
		tcp_sender_send(bed->sender, bed->out[bed->sent], sizes[bed->sent], tag_of(bed->sent), bed->now_ns,
				&bed->sends[bed->sent]);
		came_ahead += bed->sends[bed->sent] && bed->sends[bed->sent]->ahead;
		bed->sent += bed->sends[bed->sent] != NULL;
	}
}

static bool all_done(const struct bed *bed)
{
	for (unsigned m = 0; m < MESSAGES; m++)
		if (!bed->sends[m] || !bed->sends[m]->done || !bed->receives[m] || !bed->receives[m]->done)
			return false;
	return true;
}

/* True: everything arrived. False: the connection failed at both ends. Anything else fails the test. */
static bool run(struct bed *bed)
{
	uint64_t looked_ns = bed->now_ns;

	for (unsigned step = 0; step < STEPS_MAX; step++) {
		post(bed);
		bed->sender->stirred = bed->receiver->stirred = true;
		if (!bed->sender->error)
			tcp_connection_progress(bed->sender);
		if (!bed->receiver->error)
			tcp_connection_progress(bed->receiver);
		for (unsigned i = 0; i < STREAMS; i++)
			pass(&bed->middles[i]);
		if (bed->rejoin)
			rejoin(bed);
		if (all_done(bed))
			return true;
		if (bed->sender->error && bed->receiver->error)
			return false;
		bed->now_ns += bed->step_ns; /* a second in a hundred rounds: silence has to show in time */
		if (step % 50 == 49) {
			tcp_failover_watch(bed->sender, looked_ns, bed->now_ns);
			tcp_failover_watch(bed->receiver, looked_ns, bed->now_ns);
			looked_ns = bed->now_ns;
		}
	}
	fail_msg("it hangs");
	return false;
}

static void check_data(const struct bed *bed)
{
	for (unsigned m = 0; m < MESSAGES; m++) {
		assert_int_equal(bed->receives[m]->slots[0].received, sizes[m]);
		assert_memory_equal(bed->in[m], bed->out[m], sizes[m]);
		for (size_t i = sizes[m]; i < sizeof(bed->in[m]); i++)
			assert_int_equal(bed->in[m][i], 0); /* nothing beyond the message */
	}
}

static size_t bytes_of(unsigned index, unsigned active_count)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	size_t bytes;

	assert_non_null(bed);
	bed_open(bed, active_count);
	assert_true(run(bed));
	check_data(bed);
	bytes = bed->middles[index].passed;
	bed_close(bed);
	free(bed);
	return bytes;
}

static void cut_everywhere(unsigned active_count, enum death death, bool with_rejoin, size_t stride)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	unsigned rejoins = 0, runs = 0;

	assert_non_null(bed);
	for (unsigned index = 0; index < STREAMS; index++) {
		size_t bytes = bytes_of(index, active_count);

		for (size_t cut = 0; cut <= bytes; cut += stride, runs++) {
			bed_open(bed, active_count);
			bed->rejoin = with_rejoin;
			bed->middles[index].left = cut;
			bed->middles[index].death = death;
			if (!run(bed))
				fail_msg("stream %u cut after %zu bytes: the connection failed", index, cut);
			check_data(bed);
			rejoins += bed->rejoins;
			bed_close(bed);
		}
	}
	free(bed);
	assert_true(runs > 100);
	if (with_rejoin)
		assert_true(rejoins > runs / 8);
}

static void a_stream_closed_after_any_byte_loses_nothing(void **state)
{
	(void)state;
	cut_everywhere(STREAMS, DEATH_CLOSED, false, 1);
	cut_everywhere(1, DEATH_CLOSED, false, 1);
}

static void a_stream_silent_after_any_byte_loses_nothing(void **state)
{
	(void)state;
	cut_everywhere(STREAMS, DEATH_SILENT, false, 7);
	cut_everywhere(1, DEATH_SILENT, false, 7);
}

static void a_stream_that_comes_back_is_used_again(void **state)
{
	(void)state;
	cut_everywhere(STREAMS, DEATH_CLOSED, true, 3);
	cut_everywhere(1, DEATH_CLOSED, true, 3); /* the lead stays where it went: so must promised data */
}

/* First one, then, after the first came back under a new epoch, the other. */
static void the_lead_may_move_back_and_forth(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	(void)state;
	assert_non_null(bed);
	for (size_t first = 0; first < 4000; first += 97)
		for (size_t second = 0; second < 6000; second += 89) {
			bed_open(bed, 1 + (unsigned)(first / 97 % 2));
			bed->rejoin = true;
			bed->middles[0].left = first;
			bed->middles[1].left = second;
			if (run(bed)) /* both at once may be the end of it; if not, all must be right */
				check_data(bed);
			bed_close(bed);
		}
	free(bed);
}

static void all_streams_gone_fails_both_ends(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	(void)state;
	assert_non_null(bed);
	for (unsigned death = DEATH_CLOSED; death <= DEATH_SILENT; death++)
		for (size_t cut = 0; cut < 3000; cut += 101) {
			struct tcp_request *request = NULL;
			uint64_t begin_ns;

			bed_open(bed, 1 + (unsigned)(cut % 2));
			for (unsigned i = 0; i < STREAMS; i++) {
				bed->middles[i].left = cut;
				bed->middles[i].death = (enum death)death;
			}
			begin_ns = bed->now_ns;
			assert_false(run(bed));
			assert_int_equal(bed->sender->error, -EREMOTEIO);
			assert_int_equal(bed->receiver->error, -EREMOTEIO);
			assert_true(bed->now_ns - begin_ns < bed->transport.timeout_ns * 3 / 2);
			for (unsigned m = 0; m < MESSAGES; m++) {
				bool done = false;
				int r = bed->sends[m] ? tcp_connection_test(bed->sends[m], &done, NULL) : 0;

				assert_true(!bed->sends[m] || done || r == -EREMOTEIO);
			}
			(void)request;
			bed_close(bed);
		}
	free(bed);
}

enum { LONG_MESSAGES = 6, LONG_BYTES = 4 << 20 }; /* together beyond the budget of a sender that is alone */

static void exchange_long_messages(struct bed *bed, uint8_t *out, uint8_t *in)
{
	struct tcp_request *sends[LONG_MESSAGES] = { NULL }, *receives[LONG_MESSAGES] = { NULL };
	struct pace *pace = bed->receiver->r.pace;
	struct pace_sender other_host = { .host = 9 };
	struct pace_message another = { .sender = &other_host };
	unsigned done = 0;

	for (unsigned m = 0; m < LONG_MESSAGES; m++) {
		void *data = in + (size_t)m * LONG_BYTES;
		size_t bytes = LONG_BYTES;
		int tag = 5;

		tcp_receiver_receive(bed->receiver, 1, &data, &bytes, &tag, bed->now_ns, &receives[m]);
	}
	for (unsigned step = 0; step < STEPS_MAX && done < LONG_MESSAGES; step++) {
		/* Half are announced, and granted in part; after a while alone, the others bring the promise. */
		if (step == LONG_MESSAGES / 2)
			bed->now_ns += NS_PER_S;
		if (step < LONG_MESSAGES)
			tcp_sender_send(bed->sender, out + (size_t)step * LONG_BYTES, LONG_BYTES, 5, bed->now_ns,
					&sends[step]);
		bed->sender->stirred = bed->receiver->stirred = true;
		tcp_connection_progress(bed->sender);
		tcp_connection_progress(bed->receiver);
		assert_int_equal(bed->receiver->error, 0);
		/* Right after it another host wants the link, too: no more grants now, but the promise stands. */
		if (bed->receiver->r.ready_told && !another.flow.listed)
			pace_add(pace, &another, LONG_BYTES, bed->now_ns);
		for (unsigned i = 0; i < STREAMS; i++)
			for (unsigned k = 0; k < 16; k++)
				pass(&bed->middles[i]);
		for (done = 0; done < LONG_MESSAGES && receives[done]->done && sends[done] && sends[done]->done;)
			done++;
	}
	assert_true(another.flow.listed);
	pace_remove(pace, &another);
	assert_int_equal(done, LONG_MESSAGES);
	assert_memory_equal(in, out, (size_t)LONG_MESSAGES * LONG_BYTES);
}

/* Part of a message was granted, then the receiver promised to take it whole: both ends must mean the same by it. */
static void a_promise_may_overtake_grants(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	uint8_t *out = malloc((size_t)LONG_MESSAGES * LONG_BYTES), *in = calloc(LONG_MESSAGES, LONG_BYTES);

	(void)state;
	assert_true(bed && out && in);
	for (size_t i = 0; i < (size_t)LONG_MESSAGES * LONG_BYTES; i++)
		out[i] = (uint8_t)(i * 13 + (i >> 12));
	paced = true;
	bed_open(bed, 1);
	exchange_long_messages(bed, out, in);
	assert_true(bed->sender->s.ready_sequence > 0);
	bed_close(bed);
	cut_everywhere(1, DEATH_CLOSED, true, 5);
	paced = false;
	free(bed);
	free(out);
	free(in);
}

static void what_was_asked_for_ahead_is_cut_off_like_any(void **state)
{
	(void)state;
	ahead = true;
	for (int grants = 0; grants < 2; grants++) {
		paced = grants;
		came_ahead = 0;
		cut_everywhere(1, DEATH_CLOSED, false, 13);
		cut_everywhere(1, DEATH_CLOSED, true, 41);
		cut_everywhere(1, DEATH_SILENT, false, 83);
		assert_true(came_ahead > 1000);
	}
	/* Striped data could come before its announcement. */
	came_ahead = 0;
	cut_everywhere(STREAMS, DEATH_CLOSED, false, 41);
	assert_int_equal(came_ahead, 0);
	ahead = paced = false;
}

static void what_was_asked_for_ahead_needs_no_grant(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	void *data;
	size_t bytes = 5000;
	int tag = 5;

	(void)state;
	assert_non_null(bed);
	data = bed->in[0];
	ahead = paced = true;
	bed_open(bed, 1);
	tcp_receiver_receive(bed->receiver, 1, &data, &bytes, &tag, bed->now_ns, &bed->receives[0]);
	bed->receiver->stirred = bed->sender->stirred = true;
	tcp_connection_progress(bed->receiver);
	pass(&bed->middles[0]);
	tcp_connection_progress(bed->sender);
	assert_int_equal(bed->sender->s.asked_count, 1);
	tcp_sender_send(bed->sender, bed->out[0], bytes, tag, bed->now_ns, &bed->sends[0]);
	tcp_connection_progress(bed->sender);
	assert_int_equal(bed->sender->s.asked_count, 0);
	for (unsigned i = 0; i < 3; i++)
		pass(&bed->middles[0]);
	assert_true(bed->middles[0].passed > bytes); /* and the receiver has not run since */
	for (unsigned i = 0; i < 3; i++) {
		bed->receiver->stirred = true;
		tcp_connection_progress(bed->receiver);
	}
	assert_true(bed->receives[0]->done);
	assert_memory_equal(bed->in[0], bed->out[0], bytes);
	bed_close(bed);
	ahead = paced = false;
	free(bed);
}

/* What nobody waits for has no place to go to. */
static void what_nobody_waits_for_is_refused(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	struct tcp_frame frame = { .type = TCP_FRAME_COMES, .tag = 5, .value = 5000 };
	void *data;
	size_t bytes = 5000;
	int tag = 6;

	(void)state;
	assert_non_null(bed);
	data = bed->in[0];
	ahead = true;
	bed_open(bed, 1);
	tcp_receiver_receive(bed->receiver, 1, &data, &bytes, &tag, bed->now_ns, &bed->receives[0]);
	assert_int_equal(tcp_receiver_frame(bed->receiver, bed->receiver->streams, &frame, bed->now_ns), -EPROTO);
	bed_close(bed);
	ahead = false;
	free(bed);
}

static void step_both(struct bed *bed)
{
	for (unsigned i = 0; i < 3; i++) {
		bed->receiver->stirred = bed->sender->stirred = true;
		tcp_connection_progress(bed->receiver);
		tcp_connection_progress(bed->sender);
		for (unsigned k = 0; k < 3; k++)
			pass(&bed->middles[0]);
	}
}

/* Messages meet receives in their order, those that were told of and those that were not, short messages as long ones. */
static void what_was_asked_for_is_met_once(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	void *data[3];
	size_t bytes[3] = { 5000, 5000, 5000 };
	int tags[3] = { 5, 5, 5 };

	(void)state;
	assert_non_null(bed);
	for (unsigned i = 0; i < 3; i++)
		data[i] = bed->in[i];
	ahead = true;
	for (size_t first = 0; first <= 5000; first += 100) { /* unasked, up to 256, and longer */
		bed_open(bed, 1);
		tcp_receiver_receive(bed->receiver, 1, data, bytes, tags, bed->now_ns, &bed->receives[0]);
		step_both(bed);
		assert_int_equal(bed->sender->s.asked_count, 1);
		tcp_sender_send(bed->sender, bed->out[0], first, 5, bed->now_ns, &bed->sends[0]);
		tcp_sender_send(bed->sender, bed->out[1], 5000, 5, bed->now_ns, &bed->sends[1]);
		assert_int_equal(bed->sender->s.asked_count, 0);
		step_both(bed);
		tcp_receiver_receive(bed->receiver, 1, data + 1, bytes, tags, bed->now_ns, &bed->receives[1]);
		step_both(bed);
		step_both(bed);
		assert_int_equal(bed->receiver->error, 0);
		assert_true(bed->receives[0]->done && bed->receives[1]->done);
		assert_memory_equal(bed->in[1], bed->out[1], 5000);
		bed_close(bed);
	}
	/* A group that was posted before is not told of, and met first. */
	bed_open(bed, 1);
	tcp_receiver_receive(bed->receiver, 2, data, bytes, tags, bed->now_ns, &bed->receives[0]);
	tcp_receiver_receive(bed->receiver, 1, data + 2, bytes, tags, bed->now_ns, &bed->receives[1]);
	step_both(bed);
	for (unsigned i = 0; i < 3; i++)
		tcp_sender_send(bed->sender, bed->out[i], 5000, 5, bed->now_ns, &bed->sends[i]);
	step_both(bed);
	step_both(bed);
	assert_int_equal(bed->receiver->error, 0);
	assert_true(bed->receives[0]->done && bed->receives[1]->done);
	for (unsigned i = 0; i < 3; i++)
		assert_memory_equal(bed->in[i], bed->out[i], 5000);
	bed_close(bed);
	ahead = false;
	free(bed);
}

/* The service thread alone looks at an idle connection: every stream's signs of life must be read in time. */
static void an_idle_connection_keeps_its_streams(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	(void)state;
	assert_non_null(bed);
	bed_open(bed, 1);
	for (unsigned beat = 0; beat < 200; beat++) {
		bed->now_ns += bed->transport.beat_ns;
		tcp_connection_tick(bed->sender, bed->now_ns);
		tcp_connection_tick(bed->receiver, bed->now_ns);
		for (unsigned i = 0; i < STREAMS; i++)
			pass(&bed->middles[i]);
	}
	assert_int_equal(bed->sender->live_count, STREAMS);
	assert_int_equal(bed->receiver->live_count, STREAMS);
	assert_true(run(bed));
	check_data(bed);
	bed_close(bed);
	free(bed);
}

/* The machine stood still, or gave this process no CPU: its peer on the same machine is not dead for that. */
static void time_in_which_nobody_looked_is_no_silence(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	uint64_t silent_ns;

	(void)state;
	assert_non_null(bed);
	bed_open(bed, 1);
	bed->now_ns += 5 * bed->transport.timeout_ns;
	tcp_connection_tick(bed->sender, bed->now_ns);
	tcp_connection_tick(bed->receiver, bed->now_ns);
	assert_int_equal(bed->sender->error, 0);
	assert_int_equal(bed->receiver->error, 0);
	assert_int_equal(bed->sender->live_count, STREAMS);
	assert_int_equal(bed->receiver->live_count, STREAMS);
	assert_true(run(bed));
	check_data(bed);
	/* It looks again, and nothing comes: that is. */
	tcp_connection_tick(bed->sender, bed->now_ns);
	silent_ns = bed->now_ns;
	while (!bed->sender->error && bed->now_ns - silent_ns < 2 * bed->transport.timeout_ns)
		tcp_connection_tick(bed->sender, bed->now_ns += bed->transport.beat_ns);
	assert_int_equal(bed->sender->error, -EREMOTEIO);
	assert_true(bed->now_ns - silent_ns <= bed->transport.timeout_ns);
	bed_close(bed);
	free(bed);
}

static unsigned waits_said;
static void hear_waits(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	va_list arguments;

	(void)level, (void)flags, (void)file, (void)line;
	assert_string_equal(fmt, "%s");
	va_start(arguments, fmt);
	waits_said += strstr(va_arg(arguments, const char *), "has waited") != NULL;
	va_end(arguments);
}

static void only_a_connection_that_lives_is_waited_for(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	(void)state;
	assert_non_null(bed);
	for (int lives = 1; lives >= 0; lives--) {
		bed_open(bed, 1);
		tcp_sender_send(bed->sender, bed->out[1], sizes[1], 5, bed->now_ns, &bed->sends[0]);
		assert_non_null(bed->sends[0]);
		if (!lives)
			tcp_connection_fail(bed->sender, -EREMOTEIO, "the test says so");
		waits_said = 0;
		log_set_sink(hear_waits);
		bed->now_ns += bed->params.report_after_ns + NS_PER_S;
		for (unsigned i = 0; i < STREAMS; i++)
			bed->sender->streams[i].last_rx_ns = bed->now_ns;
		bed->sender->last_rx_ns = bed->now_ns;
		tcp_connection_tick(bed->sender, bed->now_ns);
		log_set_sink(NULL);
		assert_int_equal(waits_said, lives);
		bed_close(bed);
		memset(bed, 0, sizeof(*bed));
	}
	free(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_connection_that_lives_is_waited_for),
		cmocka_unit_test(an_idle_connection_keeps_its_streams),
		cmocka_unit_test(time_in_which_nobody_looked_is_no_silence),
		cmocka_unit_test(a_promise_may_overtake_grants),
		cmocka_unit_test(what_was_asked_for_ahead_needs_no_grant),
		cmocka_unit_test(what_nobody_waits_for_is_refused),
		cmocka_unit_test(what_was_asked_for_is_met_once),
		cmocka_unit_test(what_was_asked_for_ahead_is_cut_off_like_any),
		cmocka_unit_test(a_stream_closed_after_any_byte_loses_nothing),
		cmocka_unit_test(a_stream_silent_after_any_byte_loses_nothing),
		cmocka_unit_test(a_stream_that_comes_back_is_used_again),
		cmocka_unit_test(the_lead_may_move_back_and_forth),
		cmocka_unit_test(all_streams_gone_fails_both_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
