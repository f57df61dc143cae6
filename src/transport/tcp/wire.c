/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/wire.h"

#include "base/bytes.h"
#include "base/sha256.h"

#include <errno.h>
#include <string.h>

enum { HANDLE_HOST_AT = 48, HANDLE_TUNING_AT = 72, HANDLE_WAYS_AT = 80, HANDLE_SUM_AT = 116, HANDLE_COOKIE_AT = 120 };
enum { SPEED_SHIFT = 5 };

static void address_codec(struct codec *codec, struct tcp_wire_address *address)
{
	uint8_t facts = (uint8_t)(address->family | address->speed << SPEED_SHIFT);

	CODEC_NUMBER(codec, facts, 1);
	CODEC_NUMBER(codec, address->prefix_bits, 1);
	CODEC_NUMBER(codec, address->port, 2);
	codec_block(codec, address->bytes, sizeof(address->bytes));
	if (!codec->out) {
		address->family = facts & ((1 << SPEED_SHIFT) - 1);
		address->speed = facts >> SPEED_SHIFT;
	}
	codec_check(codec, (address->family == 4 || address->family == 6) && address->port);
	codec_check(codec, address->prefix_bits <= (address->family == 4 ? 32 : 128));
}

/* In five bits: of IPv4 one less, of IPv6 the next of these. */
static const uint8_t prefixes_6[4] = { 48, 56, 64, 128 };

static uint8_t short_prefix(const struct tcp_wire_address *way)
{
	uint8_t code = 0;

	if (way->family == 4)
		return way->prefix_bits ? way->prefix_bits - 1 : 31;
	while (code < 3 && prefixes_6[code] < way->prefix_bits)
		code++;
	return code;
}

/*
 * What is sent of an IPv6 address that follows another one: its first `same` bytes are those of
 * that one; of the rest the first `next` and the last `last` are sent, and all between are zero.
 */
struct cut {
	uint8_t same, next, last;
};

static struct cut cut_of(const uint8_t before[static 16], const uint8_t bytes[static 16])
{
	unsigned same = 0, zeros = 0, from = 16;

	while (same < 15 && bytes[same] == before[same])
		same++;
	for (unsigned i = same, run = 0; i < 16; i++) {
		run = bytes[i] ? 0 : run + 1;
		if (run > zeros) {
			zeros = run;
			from = i + 1 - run;
		}
	}
	if (!zeros)
		from = same;
	return (struct cut){ (uint8_t)same, (uint8_t)(from - same), (uint8_t)(16 - from - zeros) };
}

/* The last IPv6 address before that way. */
static const uint8_t *before(const struct tcp_wire_handle *handle, unsigned at)
{
	static const uint8_t none[16];

	if (at > 0 && handle->ways[at - 1].family == 6)
		return handle->ways[at - 1].bytes;
	return handle->address.family == 6 ? handle->address.bytes : none;
}

static size_t ways_bytes(const struct tcp_wire_handle *handle)
{
	size_t bytes = 1;

	for (unsigned i = 0; i < handle->way_count; i++) {
		const struct cut cut = cut_of(before(handle, i), handle->ways[i].bytes);

		bytes += handle->ways[i].family == 4 ? 5U : 3U + cut.next + cut.last;
	}
	return bytes;
}

bool tcp_wire_add_way(struct tcp_wire_handle *handle, const struct tcp_wire_address *way)
{
	const struct tcp_wire_handle without = *handle;
	unsigned at = handle->way_count;

	if (handle->way_count == TCP_WIRE_HANDLE_WAYS_MAX - 1)
		return false;
	while (way->family == 4 && at > 0 && handle->ways[at - 1].family == 6)
		at--;
	memmove(&handle->ways[at + 1], &handle->ways[at], (handle->way_count - at) * sizeof(handle->ways[0]));
	handle->ways[at] = *way;
	handle->way_count++;
	if (ways_bytes(handle) <= HANDLE_SUM_AT - HANDLE_WAYS_AT)
		return true;
	*handle = without;
	return false;
}

static void cut_codec(struct codec *codec, const uint8_t last_one[static 16], uint8_t bytes[static 16])
{
	struct cut cut = { 0 };
	uint8_t first;

	if (codec->out)
		cut = cut_of(last_one, bytes);
	first = (uint8_t)(cut.same | cut.next << 4);
	CODEC_NUMBER(codec, first, 1);
	CODEC_NUMBER(codec, cut.last, 1);
	if (!codec->out) {
		cut.same = first & 15;
		cut.next = first >> 4;
		codec_check(codec, cut.same + cut.next + cut.last <= 16);
		if (codec->error)
			return;
		memcpy(bytes, last_one, cut.same);
	}
	codec_block(codec, bytes + cut.same, cut.next);
	codec_block(codec, bytes + 16 - cut.last, cut.last);
}

static void short_way_codec(struct codec *codec, struct tcp_wire_handle *handle, unsigned at, uint8_t family)
{
	struct tcp_wire_address *way = &handle->ways[at];
	uint8_t facts = 0;

	if (codec->out)
		facts = (uint8_t)(short_prefix(way) | way->speed << SPEED_SHIFT);
	else
		memset(way, 0, sizeof(*way));
	CODEC_NUMBER(codec, facts, 1);
	if (family == 4)
		codec_block(codec, way->bytes, 4);
	else
		cut_codec(codec, before(handle, at), way->bytes);
	if (codec->out)
		return;
	way->family = family;
	way->port = handle->address.port;
	way->speed = facts >> SPEED_SHIFT;
	facts &= (1 << SPEED_SHIFT) - 1;
	codec_check(codec, family == 4 || facts < 4);
	way->prefix_bits = family == 4 ? (uint8_t)(facts + 1) : prefixes_6[facts % 4];
}

/* Which of them have a tied port, which is the same for all. The first bit is that of the first rail. */
static uint8_t tied_of(const struct tcp_wire_handle *handle, uint16_t port)
{
	uint8_t tied = handle->address.tied_port == port;

	for (unsigned i = 0; i < handle->way_count; i++)
		tied |= (uint8_t)((handle->ways[i].tied_port == port) << (i + 1));
	return port ? tied : 0;
}

static void ways_codec(struct codec *codec, struct tcp_wire_handle *handle, uint8_t counts, uint16_t tied_port)
{
	const unsigned count_4 = counts & 15, count = count_4 + (counts >> 4);
	uint8_t tied = codec->out ? tied_of(handle, tied_port) : 0;
	size_t used;

	CODEC_NUMBER(codec, tied, 1);
	codec_check(codec, count < TCP_WIRE_HANDLE_WAYS_MAX && !(tied >> (count + 1)) && !tied == !tied_port);
	for (unsigned i = 0; i < count && !codec->error; i++)
		short_way_codec(codec, handle, i, i < count_4 ? 4 : 6);
	used = (size_t)((codec->out ? codec->out : codec->in) - codec->begin);
	codec_check(codec, used <= HANDLE_SUM_AT);
	if (codec->error)
		return;
	codec_reserved(codec, HANDLE_SUM_AT - used);
	if (codec->out)
		return;
	handle->way_count = (uint8_t)count;
	handle->address.tied_port = tied & 1 ? tied_port : 0;
	for (unsigned i = 0; i < count; i++)
		handle->ways[i].tied_port = tied >> (i + 1) & 1 ? tied_port : 0;
}

static unsigned count_of(const struct tcp_wire_handle *handle, uint8_t family)
{
	unsigned count = 0;

	for (unsigned i = 0; i < handle->way_count; i++)
		count += handle->ways[i].family == family;
	return count;
}

static uint16_t tied_port_of(const struct tcp_wire_handle *handle)
{
	uint16_t port = handle->address.tied_port;

	for (unsigned i = 0; i < handle->way_count && !port; i++)
		port = handle->ways[i].tied_port;
	return port;
}

int tcp_wire_handle(struct codec *codec, struct tcp_wire_handle *handle)
{
	uint16_t tied_port = codec->out ? tied_port_of(handle) : 0;
	uint8_t counts = codec->out ? (uint8_t)(count_of(handle, 4) | count_of(handle, 6) << 4) : 0;

	codec_magic(codec, "TRB1", 4);
	codec_version(codec, TCP_WIRE_VERSION);
	CODEC_NUMBER(codec, handle->rail_count, 1);
	codec_check(codec, handle->rail_count && handle->rail_count <= TCP_WIRE_RAILS_MAX);
	CODEC_NUMBER(codec, counts, 1);
	address_codec(codec, &handle->address);
	CODEC_NUMBER(codec, handle->listener_id, 4);
	codec_block(codec, handle->secret, TCP_WIRE_SECRET_BYTES);
	if (codec->out) /* at HANDLE_HOST_AT */
		codec_text(codec, handle->host, TCP_WIRE_HANDLE_HOST_BYTES);
	else
		codec_name(codec, handle->host, TCP_WIRE_HANDLE_HOST_BYTES);
	CODEC_NUMBER(codec, handle->host_id, 8);
	CODEC_NUMBER(codec, tied_port, 2);
	CODEC_NUMBER(codec, handle->tuning, 8); /* at HANDLE_TUNING_AT */
	ways_codec(codec, handle, counts, tied_port);
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
	codec_name(CODEC_FROM(bytes + HANDLE_HOST_AT, TCP_WIRE_HANDLE_HOST_BYTES), host, TCP_WIRE_HANDLE_HOST_BYTES);
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

int tcp_wire_challenge(struct codec *codec, struct tcp_wire_challenge *challenge)
{
	codec_magic(codec, "TRBC", 4);
	codec_version(codec, TCP_WIRE_VERSION);
	codec_reserved(codec, 6);
	codec_block(codec, challenge->nonce, TCP_WIRE_NONCE_BYTES);
	codec_sum(codec);
	return codec_end(codec);
}

int tcp_wire_hello(struct codec *codec, struct tcp_wire_hello *hello)
{
	codec_magic(codec, "TRBH", 4);
	codec_version(codec, TCP_WIRE_VERSION);
	CODEC_NUMBER(codec, hello->stream, 1);
	CODEC_NUMBER(codec, hello->stream_count, 1);
	CODEC_NUMBER(codec, hello->listener_id, 4);
	CODEC_NUMBER(codec, hello->epoch, 4);
	codec_block(codec, hello->nonce, TCP_WIRE_NONCE_BYTES);
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
	codec_reserved(codec, TCP_WIRE_PROOF_BYTES); /* tcp_wire_prove */
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
	CODEC_NUMBER(codec, welcome->way_count, 1);
	CODEC_NUMBER(codec, welcome->own_count, 1);
	codec_check(codec, welcome->status < TCP_WELCOME_COUNT && welcome->rail_count <= TCP_WIRE_RAILS_MAX);
	codec_check(codec, welcome->rail_count <= welcome->own_count && welcome->own_count <= welcome->way_count);
	codec_check(codec, welcome->way_count <= TCP_WIRE_WAYS_MAX);
	codec_reserved(codec, 2);
	CODEC_NUMBER(codec, welcome->connection_id, 8);
	CODEC_NUMBER(codec, welcome->eager_window_bytes, 4);
	CODEC_NUMBER(codec, welcome->unscheduled_bytes, 4);
	CODEC_NUMBER(codec, welcome->process_id, 4);
	codec_name(codec, welcome->host, TCP_WIRE_HOST_BYTES);
	for (size_t i = 0; i < TCP_WIRE_WAYS_MAX; i++) {
		if (i < welcome->way_count) {
			address_codec(codec, &welcome->ways[i]);
			CODEC_NUMBER(codec, welcome->ways[i].tied_port, 2);
		} else {
			codec_reserved(codec, 22);
		}
	}
	codec_reserved(codec, 52);
	codec_sum(codec);
	codec_reserved(codec, TCP_WIRE_PROOF_BYTES); /* tcp_wire_prove */
	return codec_end(codec);
}

static void proof_of(enum tcp_wire_direction direction, const uint8_t secret[static TCP_WIRE_SECRET_BYTES],
		     const struct tcp_wire_nonces *nonces, const uint8_t *bytes, size_t count,
		     uint8_t ret[static TCP_WIRE_PROOF_BYTES])
{
	static const char labels[2][24] = { "tributary tcp hello", "tributary tcp welcome" };
	struct hmac_sha256 hmac;

	hmac_sha256_init(&hmac, secret, TCP_WIRE_SECRET_BYTES);
	hmac_sha256_add(&hmac, labels[direction], sizeof(labels[direction]));
	hmac_sha256_add(&hmac, nonces->connecting, TCP_WIRE_NONCE_BYTES);
	hmac_sha256_add(&hmac, nonces->accepting, TCP_WIRE_NONCE_BYTES);
	hmac_sha256_add(&hmac, bytes, count - TCP_WIRE_PROOF_BYTES);
	hmac_sha256_end(&hmac, ret);
}

void tcp_wire_prove(enum tcp_wire_direction direction, const uint8_t secret[static TCP_WIRE_SECRET_BYTES],
		    const struct tcp_wire_nonces *nonces, uint8_t *bytes, size_t count)
{
	proof_of(direction, secret, nonces, bytes, count, bytes + count - TCP_WIRE_PROOF_BYTES);
}

bool tcp_wire_is_proven(enum tcp_wire_direction direction, const uint8_t secret[static TCP_WIRE_SECRET_BYTES],
			const struct tcp_wire_nonces *nonces, const uint8_t *bytes, size_t count)
{
	uint8_t proof[TCP_WIRE_PROOF_BYTES];

	proof_of(direction, secret, nonces, bytes, count, proof);
	return sha256_equal(proof, bytes + count - TCP_WIRE_PROOF_BYTES);
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
	ret->value = (port->each & TCP_WIRE_PORT_RATE_MOST) |
		     (uint64_t)(port->lost & TCP_WIRE_PORT_RATE_MOST) << PORT_LOST_AT |
		     (uint64_t)(port->kept & TCP_WIRE_PORT_KEPT_MOST) << PORT_KEPT_AT |
		     (uint64_t)(port->most & PORT_MOST_MOST) << PORT_MOST_AT |
		     (uint64_t)(port->competes | port->full << 1 | port->turn << 2 | port->measured << 3)
			     << PORT_FLAGS_AT;
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
