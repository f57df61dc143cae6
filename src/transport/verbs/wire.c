/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/wire.h"

#include "base/bytes.h"
#include "base/codec.h"

#include <errno.h>
#include <string.h>

#define MAGIC_TCP   0x31425254U /* "TRB1": a handle of the TCP transport */
#define MAGIC_MARK  0x55425254U /* "TRBU", and the version is added to its last letter */
#define MAGIC_FRAME 0x4e425254U /* "TRBN" */

enum { COOKIE_AT = TRANSPORT_HANDLE_BYTES - 8, MARK_AT = 3, VERSIONS_MAX = 32 };

_Static_assert(TRANSPORT_MAX_RECVS == 8 && TRANSPORT_MAX_REQUESTS * TRANSPORT_MAX_RECVS == 256,
	       "a slot's id has eight bits for its place");
_Static_assert(24 + 4 * VERBS_WIRE_RAILS_MAX <= VERBS_WIRE_EMBEDDED_BYTES / TRANSPORT_MAX_RECVS, "a group fits a word");
_Static_assert(4 * VERBS_WIRE_QUEUES_MAX <= VERBS_WIRE_EMBEDDED_BYTES, "so do the credits of all queues");

/* ---- handle ---- */

void verbs_wire_mark_handle(uint8_t handle[static TRANSPORT_HANDLE_BYTES])
{
	bytes_put(handle, bytes_get(handle, 4) ^ MAGIC_TCP ^ (MAGIC_MARK + (VERBS_WIRE_VERSION << 8 * MARK_AT)), 4);
}

int verbs_wire_unmark_handle(uint8_t handle[static TRANSPORT_HANDLE_BYTES], unsigned *ret_version)
{
	const uint32_t magic = (uint32_t)bytes_get(handle, 4);
	const uint32_t version = (magic - MAGIC_MARK) >> 8 * MARK_AT;

	if (magic == MAGIC_TCP) {
		*ret_version = 0;
		return -EPROTO;
	}
	if ((magic ^ MAGIC_MARK) << 8 == 0 && version > 0 && version < VERSIONS_MAX && version != VERBS_WIRE_VERSION) {
		*ret_version = version;
		return -EPROTO;
	}
	verbs_wire_mark_handle(handle);
	return 0;
}

void verbs_wire_put_cookie(uint8_t handle[static TRANSPORT_HANDLE_BYTES], uint64_t cookie)
{
	bytes_put(handle + COOKIE_AT, cookie, 8);
}

uint64_t verbs_wire_get_cookie(const uint8_t handle[static TRANSPORT_HANDLE_BYTES])
{
	return bytes_get(handle + COOKIE_AT, 8);
}

/* ---- frames: 0 magic, 4 version, 6 type, 8 sum of the rest; what follows is the type's ---- */

enum { FRAME_SUM_AT = 8, FRAME_BODY_AT = 12 };

static void frame_begin(enum verbs_frame_type type, uint8_t bytes[static VERBS_WIRE_FRAME_BYTES])
{
	memset(bytes, 0, VERBS_WIRE_FRAME_BYTES);
	bytes_put(bytes, MAGIC_FRAME, 4);
	bytes_put(bytes + 4, VERBS_WIRE_VERSION, 2);
	bytes_put(bytes + 6, (uint64_t)type, 2);
}

static uint32_t frame_sum(const uint8_t bytes[static VERBS_WIRE_FRAME_BYTES])
{
	return bytes_checksum(bytes + FRAME_BODY_AT, VERBS_WIRE_FRAME_BYTES - FRAME_BODY_AT);
}

static void frame_end(uint8_t bytes[static VERBS_WIRE_FRAME_BYTES])
{
	bytes_put(bytes + FRAME_SUM_AT, frame_sum(bytes), 4);
}

/* The type, or an error. */
static int frame_open(const uint8_t bytes[static VERBS_WIRE_FRAME_BYTES])
{
	uint64_t type = bytes_get(bytes + 6, 2);

	if (bytes_get(bytes, 4) != MAGIC_FRAME)
		return -EBADMSG;
	if (bytes_get(bytes + 4, 2) != VERBS_WIRE_VERSION)
		return -EPROTO;
	if (bytes_get(bytes + FRAME_SUM_AT, 4) != frame_sum(bytes) || type == VERBS_FRAME_NONE ||
	    type >= VERBS_FRAME_TYPE_COUNT)
		return -EBADMSG;
	return (int)type;
}

static void queue_codec(struct codec *codec, struct verbs_wire_queue *queue)
{
	CODEC_NUMBER(codec, queue->number, 4);
	CODEC_NUMBER(codec, queue->psn, 4);
	CODEC_NUMBER(codec, queue->rail, 1);
	codec_bool(codec, &queue->has_ece, 1);
	codec_reserved(codec, 2);
	CODEC_NUMBER(codec, queue->ece.vendor, 4);
	CODEC_NUMBER(codec, queue->ece.options, 4);
	CODEC_NUMBER(codec, queue->ece.mask, 4);
	queue->number &= 0xffffffU;
	queue->psn &= 0xffffffU;
}

static void rail_codec(struct codec *codec, struct verbs_wire_rail *rail)
{
	codec_block(codec, rail->gid, VERBS_WIRE_GID_BYTES);
	CODEC_NUMBER(codec, rail->lid, 2);
	CODEC_NUMBER(codec, rail->mtu, 1);
	codec_check(codec, rail->mtu && rail->mtu <= 5); /* 256 to 4096 bytes */
	codec_bool(codec, &rail->ethernet, 1);
	CODEC_NUMBER(codec, rail->rkey, 4);
	codec_reserved(codec, 4);
}

enum { HELLO_BYTES = 204 + 28 * VERBS_WIRE_RAILS_MAX + 24 * VERBS_WIRE_QUEUES_MAX }; /* with nothing behind it */
_Static_assert(FRAME_BODY_AT + HELLO_BYTES <= VERBS_WIRE_FRAME_BYTES, "it fits");

/* Behind the frame's sum. */
static int hello_codec(struct codec *codec, enum verbs_frame_type type, struct verbs_wire_hello *hello)
{
	CODEC_NUMBER(codec, hello->rail_count, 1);
	CODEC_NUMBER(codec, hello->queue_count, 1);
	codec_check(codec, hello->rail_count && hello->rail_count <= VERBS_WIRE_RAILS_MAX);
	codec_check(codec, hello->queue_count && hello->queue_count <= VERBS_WIRE_QUEUES_MAX);
	CODEC_NUMBER(codec, hello->own_count, 1);
	codec_check(codec, hello->own_count && hello->own_count <= hello->rail_count);
	codec_reserved(codec, 1);
	CODEC_NUMBER(codec, hello->ring_address, 8);
	CODEC_NUMBER(codec, hello->window_address, 8);
	CODEC_NUMBER(codec, hello->window_bytes, 4);
	CODEC_NUMBER(codec, hello->service_level, 1);
	CODEC_NUMBER(codec, hello->traffic_class, 1);
	codec_reserved(codec, 2);
	CODEC_NUMBER(codec, hello->host_id, 8);
	codec_name(codec, hello->host, sizeof(hello->host));
	codec_block(codec, hello->back, sizeof(hello->back));
	for (unsigned i = 0; i < VERBS_WIRE_RAILS_MAX; i++) {
		if (i < hello->rail_count)
			rail_codec(codec, &hello->rails[i]);
		else
			codec_reserved(codec, 28);
	}
	for (unsigned i = 0; i < hello->queue_count && i < VERBS_WIRE_QUEUES_MAX; i++) {
		queue_codec(codec, &hello->queues[i]);
		codec_check(codec, hello->queues[i].rail < hello->own_count);
		codec_check(codec, hello->queues[i].number || type == VERBS_FRAME_WELCOME);
	}
	return codec->error;
}

void verbs_wire_put_hello(enum verbs_frame_type type, const struct verbs_wire_hello *hello,
			  uint8_t bytes[static VERBS_WIRE_FRAME_BYTES])
{
	struct verbs_wire_hello written = *hello;

	frame_begin(type, bytes);
	hello_codec(CODEC_TO(bytes + FRAME_BODY_AT), type, &written);
	frame_end(bytes);
}

int verbs_wire_get_hello(const uint8_t bytes[static VERBS_WIRE_FRAME_BYTES], enum verbs_frame_type type,
			 struct verbs_wire_hello *ret)
{
	struct verbs_wire_hello hello = { 0 };
	int r = frame_open(bytes);

	if (r >= 0)
		r = r == (int)type ? hello_codec(CODEC_FROM(bytes + FRAME_BODY_AT, HELLO_BYTES), type, &hello)
				   : -EBADMSG;
	if (r == 0)
		*ret = hello;
	return r;
}

static int frame_codec(struct codec *codec, struct verbs_wire_frame *frame)
{
	CODEC_NUMBER(codec, frame->queue, 1);
	codec_check(codec, frame->queue < VERBS_WIRE_QUEUES_MAX);
	CODEC_NUMBER(codec, frame->there, 1);
	codec_check(codec, frame->there < VERBS_WIRE_RAILS_MAX);
	codec_reserved(codec, 2);
	CODEC_NUMBER(codec, frame->epoch, 4);
	CODEC_NUMBER(codec, frame->count, 4);
	queue_codec(codec, &frame->made);
	return codec_end(codec);
}

void verbs_wire_put_frame(const struct verbs_wire_frame *frame, uint8_t bytes[static VERBS_WIRE_FRAME_BYTES])
{
	struct verbs_wire_frame written = *frame;

	frame_begin(frame->type, bytes);
	frame_codec(CODEC_TO(bytes + FRAME_BODY_AT), &written);
	frame_end(bytes);
}

int verbs_wire_get_frame(const uint8_t bytes[static VERBS_WIRE_FRAME_BYTES], struct verbs_wire_frame *ret)
{
	enum { BODY_BYTES = 36 };
	struct verbs_wire_frame frame = { 0 };
	int r = frame_open(bytes);

	if (r < 0)
		return r;
	frame.type = (enum verbs_frame_type)r;
	if (frame.type == VERBS_FRAME_HELLO || frame.type == VERBS_FRAME_WELCOME)
		return -EBADMSG;
	r = frame_codec(CODEC_FROM(bytes + FRAME_BODY_AT, BODY_BYTES), &frame);
	if (r == 0)
		*ret = frame;
	return r;
}

/* ---- descriptors: 0 sequence, 4 type, 5 count, 6 flags, 7 pieces, 8 value, 16 size, 24 taken, 28 slot or tag ---- */

enum { FLAG_EMBEDDED = 1, FLAG_WANTS_ROOM = 2, FLAG_PROMISED = 4 };

void verbs_wire_put_descriptor(const struct verbs_descriptor *descriptor, uint8_t bytes[static VERBS_WIRE_HEAD_BYTES])
{
	bytes_put(bytes, descriptor->sequence & UINT32_MAX, 4);
	bytes[4] = (uint8_t)descriptor->type;
	bytes[5] = descriptor->count;
	bytes[6] = (uint8_t)((descriptor->embedded ? FLAG_EMBEDDED : 0) |
			     (descriptor->wants_room ? FLAG_WANTS_ROOM : 0) |
			     (descriptor->promised ? FLAG_PROMISED : 0));
	bytes[7] = descriptor->pieces;
	bytes_put(bytes + 8, descriptor->value, 8);
	bytes_put(bytes + 16, descriptor->size, 8);
	bytes_put(bytes + 24, descriptor->taken & UINT32_MAX, 4);
	bytes_put(bytes + 28, descriptor->type == VERBS_DESCRIPTOR_EAGER ? (uint32_t)descriptor->tag : descriptor->slot,
		  4);
}

int verbs_wire_get_descriptor(const uint8_t bytes[static VERBS_WIRE_HEAD_BYTES], struct verbs_descriptor *ret)
{
	struct verbs_descriptor descriptor = { .type = (enum verbs_descriptor_type)bytes[4] };

	if (descriptor.type == VERBS_DESCRIPTOR_NONE || descriptor.type >= VERBS_DESCRIPTOR_TYPE_COUNT)
		return -EBADMSG;
	descriptor.sequence = bytes_get(bytes, 4);
	descriptor.count = bytes[5];
	descriptor.pieces = bytes[7];
	descriptor.embedded = bytes[6] & FLAG_EMBEDDED;
	descriptor.wants_room = bytes[6] & FLAG_WANTS_ROOM;
	descriptor.promised = bytes[6] & FLAG_PROMISED;
	descriptor.value = bytes_get(bytes + 8, 8);
	descriptor.size = bytes_get(bytes + 16, 8);
	descriptor.taken = bytes_get(bytes + 24, 4);
	if (descriptor.type == VERBS_DESCRIPTOR_EAGER)
		descriptor.tag = (int32_t)bytes_get(bytes + 28, 4);
	else
		descriptor.slot = (uint32_t)bytes_get(bytes + 28, 4);
	if (descriptor.size > TRANSPORT_MAX_MESSAGE_BYTES ||
	    (descriptor.type == VERBS_DESCRIPTOR_SLOTS &&
	     (!descriptor.count || descriptor.count > TRANSPORT_MAX_RECVS ||
	      descriptor.size >= VERBS_WIRE_QUEUES_MAX)) ||
	    (descriptor.type == VERBS_DESCRIPTOR_CREDIT && descriptor.count > VERBS_WIRE_QUEUES_MAX) ||
	    (descriptor.type == VERBS_DESCRIPTOR_MATCHED &&
	     (!descriptor.count || descriptor.count > VERBS_WIRE_MATCHED_MAX)) ||
	    (descriptor.embedded && descriptor.size > VERBS_WIRE_EMBEDDED_BYTES))
		return -EBADMSG;
	*ret = descriptor;
	return 0;
}

void verbs_wire_put_slot(const struct verbs_wire_slot *slot, unsigned rail_count, uint8_t *bytes)
{
	bytes_put(bytes, slot->address, 8);
	bytes_put(bytes + 8, slot->bytes, 8);
	bytes_put(bytes + 16, (uint32_t)slot->tag, 4);
	bytes_put(bytes + 20, slot->id, 4);
	for (unsigned i = 0; i < rail_count; i++)
		bytes_put(bytes + 24 + 4 * (size_t)i, slot->rkeys[i], 4);
}

void verbs_wire_get_slot(const uint8_t *bytes, unsigned rail_count, struct verbs_wire_slot *ret)
{
	ret->address = bytes_get(bytes, 8);
	ret->bytes = bytes_get(bytes + 8, 8);
	ret->tag = (int32_t)bytes_get(bytes + 16, 4);
	ret->id = (uint32_t)bytes_get(bytes + 20, 4) & 0xffffffU;
	for (unsigned i = 0; i < rail_count; i++)
		ret->rkeys[i] = (uint32_t)bytes_get(bytes + 24 + 4 * (size_t)i, 4);
}
