/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that knows the secret and then says anything: the state machines of a receiver and of a sender, fed with frames
 * and pieces of frames over two streams, while requests are posted and tested. Nothing outside a posted buffer is
 * written, nothing is written after a request is done, and no call waits.
 *
 * The input is a list of commands, so that the fuzzer gets further than the first wrong byte; see step().
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "support/fuzz.h"
#include "support/log_lines.h"
#include "transport/pace/flight.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAMS = 2, REQUESTS = 8, MOST_COMMANDS = 200, TAGS = 3 };

struct input {
	const uint8_t *data;
	size_t bytes;
};

struct post {
	struct transport_request *request;
	uint8_t *buffers[TRANSPORT_MAX_RECVS];
};

struct bench {
	struct tcp_connection *connection;
	int peers[STREAMS];
	struct post posts[REQUESTS];
	unsigned post_count;
	uint32_t next_message;
	uint64_t unit; /* of the next eager message */
};

static uint64_t now_ns;

static uint64_t take(struct input *input, size_t count)
{
	uint64_t value = 0;

	for (; count && input->bytes; count--, input->data++, input->bytes--)
		value = value << 8 | *input->data;
	return value;
}

static struct tcp_transport *transport_get(void)
{
	static const struct pace_options options = { .speed_Bps = 1250000000,
						     .quantum_bytes = 65536,
						     .device_name = "lo" };
	static struct params params;
	static struct transport *transport;
	struct tcp_transport *tcp;

	if (transport)
		return (struct tcp_transport *)transport;
	log_set_sink(log_lines_ignore);
	clock_set_fake(&now_ns);
	now_ns = NS_PER_S;
	params_defaults(&params);
	params.net = NET_CHOICE_TCP;
	params.pace = false;
	memcpy(params.interfaces, "lo", 3);
	fuzz_must(transport_tcp.open(&params, &transport) == 0 && transport_tcp.device_count(transport) > 0);
	/* Listening would make the pace, and would start the service thread, which has no place here. */
	tcp = (struct tcp_transport *)transport;
	fuzz_must(tcp->devices.list[0].pace || pace_new(&options, &tcp->devices.list[0].pace) == 0);
	return tcp;
}

static void bench_open(struct bench *bench, enum tcp_role role, unsigned active_count, bool unscheduled)
{
	struct tcp_transport *transport = transport_get();

	memset(bench, 0, sizeof(*bench));
	fuzz_must(tcp_connection_new(transport, role, 0, 0, STREAMS, active_count, &bench->connection) == 0);
	if (role == TCP_SENDER && unscheduled)
		tcp_sender_may_begin(bench->connection, PACE_FLIGHT_LEAST_BYTES);
	bench->next_message = (uint32_t)TCP_WIRE_FIRST_SEQUENCE;
	bench->connection->id = 1;
	bench->connection->joined_count = STREAMS;
	for (unsigned i = 0; i < STREAMS; i++) {
		int pair[2];

		fuzz_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
		tcp_stream_attach(&bench->connection->streams[i], pair[0], 0, now_ns);
		bench->connection->live_count++;
		bench->peers[i] = pair[1];
	}
	pthread_mutex_lock(&transport->lock);
	LIST_INSERT_HEAD(&transport->connections, bench->connection, link);
	pthread_mutex_unlock(&transport->lock);
}

static void post_free(struct post *post)
{
	for (unsigned i = 0; i < TRANSPORT_MAX_RECVS; i++)
		free(post->buffers[i]);
	memset(post, 0, sizeof(*post));
}

static void bench_close(struct bench *bench)
{
	struct tcp_transport *transport = bench->connection->transport;

	/* A sender that is not empty would linger: with its streams lost it does not. */
	pthread_mutex_lock(&bench->connection->lock);
	tcp_connection_fail(bench->connection, -EREMOTEIO, "over");
	pthread_mutex_unlock(&bench->connection->lock);
	tcp_connection_close(bench->connection);
	for (unsigned i = 0; i < STREAMS; i++)
		if (bench->peers[i] >= 0)
			close(bench->peers[i]);
	for (unsigned i = 0; i < bench->post_count; i++)
		post_free(&bench->posts[i]);
	fuzz_must(LIST_EMPTY(&transport->connections));
}

static void peer_says(struct bench *bench, unsigned stream, const void *bytes, size_t count)
{
	ssize_t ignored;

	if (bench->peers[stream] < 0)
		return;
	ignored = send(bench->peers[stream], bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)ignored;
}

/* A frame whose fields are near what is right: the next message, the next place, small sizes; or anything. */
static void say_frame(struct bench *bench, struct input *input)
{
	static const uint64_t corners[] = { 0,     1,          511,        512,        4096,      65535,
					    65536, 1ULL << 32, 1ULL << 40, 1ULL << 63, UINT64_MAX };
	unsigned stream = (unsigned)take(input, 1) % STREAMS;
	unsigned how = (unsigned)take(input, 1);
	uint8_t bytes[TCP_WIRE_FRAME_BYTES + 4096];
	struct tcp_frame frame = { 0 };
	size_t payload = 0;

	frame.type = (uint8_t)(take(input, 1) % (TCP_FRAME_TYPE_COUNT + 1));
	frame.stream = (uint8_t)(take(input, 1) % (STREAMS + 1));
	frame.epoch = (uint16_t)(how & 1 ? take(input, 1) : 0);
	frame.message = bench->next_message - (uint32_t)(how & 2 ? take(input, 1) % 4 : 0);
	frame.tag = (int32_t)(take(input, 1) % TAGS);
	frame.request = frame.stream + (uint8_t)frame.tag; /* its own for most, and some met again */
	frame.value = how & 4 ? corners[take(input, 1) % (sizeof(corners) / sizeof(corners[0]))] : take(input, 2);
	frame.position = how & 8 ? corners[take(input, 1) % (sizeof(corners) / sizeof(corners[0]))] : take(input, 2);
	if (frame.type == TCP_FRAME_EAGER || frame.type == TCP_FRAME_DATA) {
		payload = (size_t)(take(input, 2) % 4096);
		frame.payload_bytes = (uint32_t)payload;
		if (how & 16) /* only a part of it comes */
			payload -= payload ? take(input, 2) % payload : 0;
	}
	if (frame.type == TCP_FRAME_RTS && how & 32) {
		frame.unscheduled_bytes = (uint32_t)(frame.value % 4096);
		frame.unit = (uint16_t)(take(input, 1) * 40);
	}
	if (frame.type == TCP_FRAME_EAGER && !(how & 4)) {
		if (bench->unit + tcp_wire_eager_units(frame.payload_bytes) > TCP_WIRE_EAGER_UNITS)
			bench->unit = 0;
		frame.value = bench->unit * TCP_WIRE_EAGER_UNIT;
		bench->unit += tcp_wire_eager_units(frame.payload_bytes);
	}
	if (frame.type == TCP_FRAME_EAGER || frame.type == TCP_FRAME_RTS)
		bench->next_message = frame.message + 1;
	tcp_wire_put_frame(&frame, bytes);
	memset(bytes + TCP_WIRE_FRAME_BYTES, 0x5c, sizeof(bytes) - TCP_WIRE_FRAME_BYTES);
	peer_says(bench, stream, bytes, TCP_WIRE_FRAME_BYTES + payload);
}

static void say_anything(struct bench *bench, struct input *input)
{
	unsigned stream = (unsigned)take(input, 1) % STREAMS;
	size_t count = (size_t)take(input, 1);

	count = count < input->bytes ? count : input->bytes;
	peer_says(bench, stream, input->data, count);
	input->data += count;
	input->bytes -= count;
}

static void post(struct bench *bench, struct input *input)
{
	unsigned count = bench->connection->role == TCP_SENDER ? 1 : 1 + (unsigned)take(input, 1) % TRANSPORT_MAX_RECVS;
	void *data[TRANSPORT_MAX_RECVS], *registrations[TRANSPORT_MAX_RECVS] = { NULL };
	struct transport_connection *connection = (struct transport_connection *)bench->connection;
	struct post *one = &bench->posts[bench->post_count];
	size_t bytes[TRANSPORT_MAX_RECVS];
	int tags[TRANSPORT_MAX_RECVS];
	int r;

	if (bench->post_count == REQUESTS)
		return;
	for (unsigned i = 0; i < count; i++) {
		bytes[i] = (size_t)take(input, 2);
		bytes[i] *= take(input, 1) % 16 ? 1 : 8;
		tags[i] = (int)(take(input, 1) % TAGS);
		one->buffers[i] = calloc(1, bytes[i] + 1);
		fuzz_must(one->buffers[i] != NULL);
		data[i] = one->buffers[i];
	}
	if (bench->connection->role == TCP_SENDER)
		r = transport_tcp.send(connection, data[0], bytes[0], tags[0], NULL, &one->request);
	else
		r = transport_tcp.receive(connection, (int)count, data, bytes, tags, registrations, &one->request);
	fuzz_must(r <= 0);
	/* After an error nothing may be written any more, as little as after a refusal. */
	if (r < 0 || !one->request)
		post_free(one);
	else
		bench->post_count++;
}

/* Done, or failed: its buffers are free at once, and a write into them is seen. */
static void test(struct bench *bench, struct input *input)
{
	size_t sizes[TRANSPORT_MAX_RECVS];
	unsigned at = (unsigned)take(input, 1);
	bool done = false;
	int r;

	if (!bench->post_count)
		return;
	at %= bench->post_count;
	r = transport_tcp.test(bench->posts[at].request, &done, sizes);
	fuzz_must(r <= 0 && !(r < 0 && done));
	if (r == 0 && !done)
		return;
	post_free(&bench->posts[at]);
	bench->post_count--;
	memmove(&bench->posts[at], &bench->posts[at + 1], (bench->post_count - at) * sizeof(bench->posts[0]));
	memset(&bench->posts[bench->post_count], 0, sizeof(bench->posts[0]));
}

/* Nobody answers here, so the other end's pipe is emptied to keep it from filling up. */
static void listen_to(struct bench *bench)
{
	uint8_t bytes[8192];

	for (unsigned i = 0; i < STREAMS; i++)
		while (bench->peers[i] >= 0 && recv(bench->peers[i], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
}

static void step(struct bench *bench, struct input *input)
{
	unsigned stream;

	switch (take(input, 1) % 10) {
	case 0:
	case 1:
	case 2:
		say_frame(bench, input);
		break;
	case 3:
		say_anything(bench, input);
		break;
	case 4:
	case 5:
		post(bench, input);
		break;
	case 6:
	case 7:
		test(bench, input);
		break;
	case 8:
		now_ns += (take(input, 1) + 1) * NS_PER_MS;
		pthread_mutex_lock(&bench->connection->lock);
		/* A stream on which nothing came lately is looked at every sixteenth time only. */
		for (unsigned i = 0; i < 17 && !bench->connection->error; i++)
			tcp_connection_tick(bench->connection, now_ns);
		pthread_mutex_unlock(&bench->connection->lock);
		listen_to(bench);
		break;
	default:
		stream = (unsigned)take(input, 1) % (4 * STREAMS);
		if (stream < STREAMS && bench->peers[stream] >= 0) {
			close(bench->peers[stream]);
			bench->peers[stream] = -1;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input input = { data, bytes };
	struct bench bench;
	unsigned kind;

	kind = (unsigned)take(&input, 1);
	bench_open(&bench, kind & 1 ? TCP_SENDER : TCP_RECEIVER, kind & 2 ? 1 : STREAMS, kind & 4);
	for (unsigned i = 0; i < MOST_COMMANDS && input.bytes; i++)
		step(&bench, &input);
	bench_close(&bench);
	return 0;
}
