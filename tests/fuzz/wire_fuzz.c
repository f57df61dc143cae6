/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle, the greeting, its answer and the frame header, as bytes from anybody. What decodes is in range, and is the
 * same after it was encoded and decoded once more.
 */
#include "support/fuzz.h"
#include "transport/tcp/wire.h"

#include <string.h>

static void address(const struct tcp_wire_address *one)
{
	fuzz_must((one->family == 4 || one->family == 6) && one->port);
}

static void handle(const uint8_t *bytes)
{
	uint8_t again[TCP_WIRE_HANDLE_BYTES];
	struct tcp_wire_handle first, second;

	if (tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &first) < 0)
		return;
	fuzz_must_be_text(first.host, sizeof(first.host));
	address(&first.address);
	fuzz_must(first.rail_count >= 1 && first.rail_count <= TCP_WIRE_RAILS_MAX);
	fuzz_must(first.way_count < TCP_WIRE_HANDLE_WAYS_MAX);
	for (unsigned i = 0; i < first.way_count; i++)
		address(&first.ways[i]);
	tcp_wire_handle(CODEC_TO(again), &first);
	tcp_wire_put_cookie(again, 0x1122334455667788ULL);
	fuzz_must(tcp_wire_get_cookie(again) == 0x1122334455667788ULL);
	fuzz_must(tcp_wire_handle(CODEC_FROM(again, TCP_WIRE_HANDLE_BYTES), &second) == 0);
	fuzz_must(!memcmp(first.secret, second.secret, sizeof(first.secret)) && !strcmp(first.host, second.host));
	fuzz_must(first.listener_id == second.listener_id && first.way_count == second.way_count &&
		  first.host_id == second.host_id && first.address.port == second.address.port);
}

static void hello(const uint8_t *bytes)
{
	uint8_t again[TCP_WIRE_HELLO_BYTES];
	struct tcp_wire_hello first, second;

	if (tcp_wire_hello(CODEC_FROM(bytes, TCP_WIRE_HELLO_BYTES), &first) < 0)
		return;
	fuzz_must_be_text(first.host, sizeof(first.host));
	fuzz_must(first.stream_count >= 1 && first.stream_count <= TCP_WIRE_STREAMS_MAX);
	fuzz_must(first.stream < first.stream_count && first.active_count && first.active_count <= first.stream_count);
	tcp_wire_hello(CODEC_TO(again), &first);
	fuzz_must(tcp_wire_hello(CODEC_FROM(again, TCP_WIRE_HELLO_BYTES), &second) == 0);
	fuzz_must(first.connection_id == second.connection_id && first.epoch == second.epoch &&
		  first.stream == second.stream && first.active_count == second.active_count &&
		  first.timeout_ms == second.timeout_ms && first.eager_window_bytes == second.eager_window_bytes);
}

static void welcome(const uint8_t *bytes)
{
	uint8_t again[TCP_WIRE_WELCOME_BYTES];
	struct tcp_wire_welcome first, second;

	if (tcp_wire_welcome(CODEC_FROM(bytes, TCP_WIRE_WELCOME_BYTES), &first) < 0)
		return;
	fuzz_must_be_text(first.host, sizeof(first.host));
	fuzz_must(first.status < TCP_WELCOME_COUNT && first.rail_count <= TCP_WIRE_RAILS_MAX);
	fuzz_must(first.rail_count <= first.way_count && first.way_count <= TCP_WIRE_WAYS_MAX);
	for (unsigned i = 0; i < first.way_count; i++)
		address(&first.ways[i]);
	tcp_wire_welcome(CODEC_TO(again), &first);
	fuzz_must(tcp_wire_welcome(CODEC_FROM(again, TCP_WIRE_WELCOME_BYTES), &second) == 0);
	fuzz_must(first.connection_id == second.connection_id && first.status == second.status &&
		  first.rail_count == second.rail_count);
}

static void frame(const uint8_t *bytes)
{
	uint8_t again[TCP_WIRE_FRAME_BYTES];
	struct tcp_frame first, second;

	if (tcp_wire_get_frame(bytes, &first) < 0)
		return;
	fuzz_must(first.type > TCP_FRAME_NONE && first.type < TCP_FRAME_TYPE_COUNT);
	tcp_wire_put_frame(&first, again);
	fuzz_must(tcp_wire_get_frame(again, &second) == 0);
	fuzz_must(first.type == second.type && first.stream == second.stream && first.epoch == second.epoch &&
		  first.message == second.message && first.value == second.value && first.position == second.position &&
		  first.payload_bytes == second.payload_bytes && first.tag == second.tag);
}

/* As the fuzzer cannot guess a checksum, each is also tried with the right one, which the encoder computes. */
static void with_right_sums(const uint8_t *bytes)
{
	struct tcp_wire_handle some_handle;
	struct tcp_wire_hello some_hello;
	struct tcp_wire_welcome some_welcome;
	uint8_t encoded[TCP_WIRE_WELCOME_BYTES];

	memcpy(&some_handle, bytes, sizeof(some_handle));
	some_handle.way_count %= TCP_WIRE_HANDLE_WAYS_MAX;
	tcp_wire_handle(CODEC_TO(encoded), &some_handle);
	handle(encoded);
	memcpy(&some_hello, bytes, sizeof(some_hello));
	tcp_wire_hello(CODEC_TO(encoded), &some_hello);
	hello(encoded);
	memcpy(&some_welcome, bytes, sizeof(some_welcome));
	tcp_wire_welcome(CODEC_TO(encoded), &some_welcome);
	welcome(encoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t whole[512] = { 0 };

	memcpy(whole, data, bytes < sizeof(whole) ? bytes : sizeof(whole));
	handle(whole);
	hello(whole);
	welcome(whole);
	frame(whole);
	with_right_sums(whole);
	return 0;
}
