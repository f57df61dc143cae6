/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/wire.h"

#include "base/bytes.h"

#include <errno.h>
#include <string.h>

enum { HANDLE_HOST_AT = 48, HANDLE_TUNING_AT = 102, HANDLE_COOKIE_AT = 120 };

static void address_codec(struct codec *codec, struct tcp_wire_address *address)
{
	CODEC_NUMBER(codec, address->family, 1);
	codec_reserved(codec, 1);
	CODEC_NUMBER(codec, address->port, 2);
	codec_block(codec, address->bytes, sizeof(address->bytes));
	codec_check(codec, (address->family == 4 || address->family == 6) && address->port);
}

int tcp_wire_handle(struct codec *codec, struct tcp_wire_handle *handle)
{
	codec_magic(codec, "TRB1", 4);
	codec_version(codec, TCP_WIRE_VERSION);
	CODEC_NUMBER(codec, handle->rail_count, 1);
	codec_check(codec, handle->rail_count && handle->rail_count <= TCP_WIRE_RAILS_MAX);
	codec_reserved(codec, 1);
	address_codec(codec, &handle->address);
	CODEC_NUMBER(codec, handle->listener_id, 4);
	codec_block(codec, handle->secret, TCP_WIRE_SECRET_BYTES);
	codec_name(codec, handle->host, TCP_WIRE_HOST_BYTES); /* at HANDLE_HOST_AT */
	CODEC_NUMBER(codec, handle->host_id, 8);
	CODEC_NUMBER(codec, handle->process_id, 4);
	CODEC_NUMBER(codec, handle->address.tied_port, 2);
	CODEC_NUMBER(codec, handle->tuning, 8); /* at HANDLE_TUNING_AT */
	codec_reserved(codec, 6);
	codec_sum(codec);
	codec_reserved(codec, TCP_WIRE_HANDLE_BYTES - HANDLE_COOKIE_AT); /* tcp_wire_put_cookie */
	return codec_end(codec);
}

void tcp_wire_peek_host(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], char host[static TCP_WIRE_HOST_BYTES],
			uint16_t *ret_version)
{
	*ret_version = 0;
	memcpy(host, "?", 2);
	if (memcmp(bytes, "TRB1", 4) != 0)
		return;
	*ret_version = (uint16_t)bytes_get(bytes + 4, 2);
	codec_name(CODEC_FROM(bytes + HANDLE_HOST_AT, TCP_WIRE_HOST_BYTES), host, TCP_WIRE_HOST_BYTES);
}

uint64_t tcp_wire_peek_tuning(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES])
{
	return bytes_get(bytes + HANDLE_TUNING_AT, 8);
}

void tcp_wire_put_cookie(uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], uint64_t cookie)
{
	bytes_put(bytes + HANDLE_COOKIE_AT, cookie, 8);
}

uint64_t tcp_wire_get_cookie(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES])
{
	return bytes_get(bytes + HANDLE_COOKIE_AT, 8);
}

int tcp_wire_hello(struct codec *codec, struct tcp_wire_hello *hello)
{
	codec_magic(codec, "TRBH", 4);
	codec_version(codec, TCP_WIRE_VERSION);
	CODEC_NUMBER(codec, hello->stream, 1);
	CODEC_NUMBER(codec, hello->stream_count, 1);
	CODEC_NUMBER(codec, hello->listener_id, 4);
	CODEC_NUMBER(codec, hello->epoch, 4);
	codec_block(codec, hello->secret, TCP_WIRE_SECRET_BYTES);
	CODEC_NUMBER(codec, hello->connection_id, 8);
	CODEC_NUMBER(codec, hello->eager_window_bytes, 4);
	CODEC_NUMBER(codec, hello->timeout_ms, 4);
	CODEC_NUMBER(codec, hello->process_id, 4);
	CODEC_NUMBER(codec, hello->active_count, 1);
	codec_reserved(codec, 3);
	CODEC_NUMBER(codec, hello->host_id, 8);
	codec_name(codec, hello->host, TCP_WIRE_HOST_BYTES);
	codec_reserved(codec, 20);
	codec_sum(codec);
	codec_check(codec, hello->stream_count <= TCP_WIRE_STREAMS_MAX && hello->stream < hello->stream_count);
	codec_check(codec, hello->active_count && hello->active_count <= hello->stream_count);
	return codec_end(codec);
}

int tcp_wire_welcome(struct codec *codec, struct tcp_wire_welcome *welcome)
{
	codec_magic(codec, "TRBW", 4);
	codec_version(codec, TCP_WIRE_VERSION);
	CODEC_NUMBER(codec, welcome->status, 1);
	CODEC_NUMBER(codec, welcome->rail_count, 1);
	codec_check(codec, welcome->status < TCP_WELCOME_COUNT && welcome->rail_count <= TCP_WIRE_RAILS_MAX);
	CODEC_NUMBER(codec, welcome->connection_id, 8);
	CODEC_NUMBER(codec, welcome->eager_window_bytes, 4);
	CODEC_NUMBER(codec, welcome->unscheduled_bytes, 4);
	codec_reserved(codec, 8);
	codec_name(codec, welcome->host, TCP_WIRE_HOST_BYTES);
	for (size_t i = 0; i < TCP_WIRE_RAILS_MAX; i++) {
		if (i < welcome->rail_count)
			address_codec(codec, &welcome->rails[i]);
		else
			codec_reserved(codec, 20);
	}
	for (size_t i = 0; i < TCP_WIRE_RAILS_MAX; i++)
		CODEC_NUMBER(codec, welcome->rails[i].tied_port, 2);
	codec_reserved(codec, 4);
	codec_sum(codec);
	return codec_end(codec);
}

/*
 * Frame: 0 type, 1 stream or request (RTS: + 32 × the number of a step of hosts), 2 epoch or unit, 4 message, 8 value, and then what the direction needs: the
 * receiver's frames have 16 position[8]; the sender's 16 payload or unscheduled bytes[4], 20 tag[4].
 */
static bool from_receiver(uint8_t type)
{
	return type >= TCP_FRAME_GRANT && type <= TCP_FRAME_TRUNCATED;
}

static bool names_request(uint8_t type)
{
	return type == TCP_FRAME_RTS || type == TCP_FRAME_DATA;
}

static const uint8_t host_steps[8] = { 1, 2, 3, 4, 6, 8, 12, 16 };

static uint8_t step_of(uint8_t hosts)
{
	uint8_t step = 0;

	while (step < 7 && host_steps[step + 1] <= hosts)
		step++;
	return step;
}

/* TCP_FRAME_PORT's value: 0 each[20 bits], 20 lost[20], 40 kept[12], 52 most[6], 58 competes, full, turn, measured. */
enum { PORT_LOST_AT = 20, PORT_KEPT_AT = 40, PORT_MOST_AT = 52, PORT_FLAGS_AT = 58, PORT_MOST_MOST = 63 };

void tcp_wire_put_port(const struct tcp_wire_port *port, struct tcp_frame *ret)
{
	ret->message = port->number;
	ret->value = (port->each & TCP_WIRE_PORT_RATE_MOST) | (uint64_t)(port->lost & TCP_WIRE_PORT_RATE_MOST) << PORT_LOST_AT |
		     (uint64_t)(port->kept & TCP_WIRE_PORT_KEPT_MOST) << PORT_KEPT_AT |
		     (uint64_t)(port->most & PORT_MOST_MOST) << PORT_MOST_AT |
		     (uint64_t)(port->competes | port->full << 1 | port->turn << 2 | port->measured << 3) << PORT_FLAGS_AT;
}

void tcp_wire_get_port(const struct tcp_frame *frame, struct tcp_wire_port *ret)
{
	const uint64_t value = frame->value, flags = value >> PORT_FLAGS_AT;

	*ret = (struct tcp_wire_port){
		.number = frame->message,
		.competes = flags & 1,
		.full = flags >> 1 & 1,
		.turn = flags >> 2 & 1,
		.measured = flags >> 3 & 1,
		.most = value >> PORT_MOST_AT & PORT_MOST_MOST,
		.kept = value >> PORT_KEPT_AT & TCP_WIRE_PORT_KEPT_MOST,
		.lost = value >> PORT_LOST_AT & TCP_WIRE_PORT_RATE_MOST,
		.each = value & TCP_WIRE_PORT_RATE_MOST,
	};
}

static bool is_reserved(const struct tcp_frame *frame)
{
	return (frame->type == TCP_FRAME_PORT && frame->value >> PORT_FLAGS_AT >> 4) ||
	       (frame->type == TCP_FRAME_HEARTBEAT && frame->tag & ~1);
}

void tcp_wire_put_frame(const struct tcp_frame *frame, uint8_t bytes[static TCP_WIRE_FRAME_BYTES])
{
	bytes[0] = frame->type;
	bytes[1] = frame->stream;
	if (frame->type == TCP_FRAME_RTS)
		bytes[1] = (uint8_t)(bytes[1] + TCP_WIRE_REQUESTS_MAX * step_of(frame->hosts));
	bytes_put(bytes + 2, frame->epoch, 2);
	bytes_put(bytes + 4, frame->message, 4);
	bytes_put(bytes + 8, frame->value, 8);
	if (from_receiver(frame->type)) {
		bytes_put(bytes + 16, frame->position, 8);
		return;
	}
	bytes_put(bytes + 16, frame->payload_bytes, 4);
	bytes_put(bytes + 20, (uint32_t)frame->tag, 4);
}

int tcp_wire_get_frame(const uint8_t bytes[static TCP_WIRE_FRAME_BYTES], struct tcp_frame *ret)
{
	struct tcp_frame frame = {
		.type = bytes[0],
		.stream = bytes[1],
		.epoch = (uint16_t)bytes_get(bytes + 2, 2),
		.message = (uint32_t)bytes_get(bytes + 4, 4),
		.value = bytes_get(bytes + 8, 8),
	};

	if (frame.type == TCP_FRAME_RTS) {
		frame.hosts = host_steps[frame.request / TCP_WIRE_REQUESTS_MAX];
		frame.request %= TCP_WIRE_REQUESTS_MAX;
	}
	if (frame.type == TCP_FRAME_NONE || frame.type >= TCP_FRAME_TYPE_COUNT ||
	    frame.stream >= (names_request(frame.type) ? TCP_WIRE_REQUESTS_MAX : TCP_WIRE_STREAMS_MAX))
		return -EBADMSG;
	if (from_receiver(frame.type)) {
		frame.position = bytes_get(bytes + 16, 8);
	} else {
		frame.payload_bytes = (uint32_t)bytes_get(bytes + 16, 4);
		frame.tag = (int32_t)(uint32_t)bytes_get(bytes + 20, 4);
		if (frame.payload_bytes && frame.type != TCP_FRAME_EAGER && frame.type != TCP_FRAME_DATA &&
		    (frame.type != TCP_FRAME_RTS || frame.unscheduled_bytes > frame.value))
			return -EBADMSG;
		if (frame.type == TCP_FRAME_DATA && !frame.payload_bytes)
			return -EBADMSG;
	}
	if (is_reserved(&frame))
		return -EBADMSG;
	*ret = frame;
	return 0;
}
