/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two ends of a connection say to each other: frames over the control connection (TCP), descriptors in the rings that each
 * writes into the other's memory, and the 32 bits that come with data. Little-endian, encoded byte by byte
 * (docs/format/transport-protocol.md). Pure.
 *
 * Decoders bound every count and give -EBADMSG for anything else, -EPROTO for another version; *ret only on success.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_WIRE_H
#define TRIBUTARY_TRANSPORT_VERBS_WIRE_H

#include "transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	/* 2: PIECE, and receives with address 0; 3: pieces have places of their own; 4: SLOTS are credit, too;
	 * 5: counts begin at VERBS_WIRE_FIRST_COUNT; 6: the control connection's, PORT, proofs, and a spare queue */
	VERBS_WIRE_VERSION = 6,
	VERBS_WIRE_RAILS_MAX = TRANSPORT_MAX_MEMBERS,
	VERBS_WIRE_QUEUES_MAX = 16,
	VERBS_WIRE_FRAME_BYTES = 1024, /* every frame, whatever is in it */
	VERBS_WIRE_HEAD_BYTES = 32,
	VERBS_WIRE_DESCRIPTOR_BYTES = 512, /* an entry of a ring */
	VERBS_WIRE_EMBEDDED_BYTES = VERBS_WIRE_DESCRIPTOR_BYTES - VERBS_WIRE_HEAD_BYTES,
	VERBS_WIRE_DESCRIPTORS = 64, /* entries of a ring */
	VERBS_WIRE_MATCHED_MAX = VERBS_WIRE_EMBEDDED_BYTES / 4,
	VERBS_WIRE_GID_BYTES = 16,
};

/*
 * Whatever is counted (descriptors, notices, items of a queue, eager messages) is counted from here on. 32 bits of it are
 * sent; they wrap in every test, not after hours.
 */
#define VERBS_WIRE_FIRST_COUNT (UINT32_MAX - UINT64_C(50))

/* Of all counts with these lower 32 bits the one that is nearest to `near`. */
static inline uint64_t verbs_wire_count(uint64_t near, uint64_t low)
{
	return near + (uint64_t)(int64_t)(int32_t)(uint32_t)(low - near);
}

/* ---- the handle: that of the control connection's listener, marked with the version ---- */

void verbs_wire_mark_handle(uint8_t handle[static TRANSPORT_HANDLE_BYTES]);
/*
 * Back again. -EPROTO: it is not of this version, but of *ret_version; 0: a handle of our TCP transport. What is no handle
 * at all TCP finds out.
 */
int verbs_wire_unmark_handle(uint8_t handle[static TRANSPORT_HANDLE_BYTES], unsigned *ret_version);
void verbs_wire_put_cookie(uint8_t handle[static TRANSPORT_HANDLE_BYTES], uint64_t cookie);
uint64_t verbs_wire_get_cookie(const uint8_t handle[static TRANSPORT_HANDLE_BYTES]);

/* ---- frames ---- */

enum verbs_frame_type {
	VERBS_FRAME_NONE,
	VERBS_FRAME_HELLO,   /* connecting side: all of struct verbs_wire_hello, and the way back */
	VERBS_FRAME_WELCOME, /* accepting side: the same, but for the way back; queue number 0: it is not connected */
	VERBS_FRAME_READY,   /* connecting side: its queue can be written to; at first all without STOPPED */
	VERBS_FRAME_STOPPED, /* either: this queue is stopped here for good; count: notices that came over it (32 bits) */
	VERBS_FRAME_BUILD,   /* connecting side: a new queue in place of a stopped one, to rail `there` of the other side */
	VERBS_FRAME_BUILT,   /* accepting side: so is ours; number 0: it could not be made */
	VERBS_FRAME_PORT,      /* either: made.rail's port is down, with a count of 0, or up again, with 1 */
	VERBS_FRAME_TRUNCATED, /* either: a message was longer than the receive that it matched: the connection is over */
	VERBS_FRAME_BYE,       /* the end of the connection, in good order */
	VERBS_FRAME_TYPE_COUNT
};

/* What a queue pair can beyond the standard (ECE), or what is left of it at the accepting side; the card's own numbers. */
struct verbs_wire_ece {
	uint32_t vendor, options, mask;
};

struct verbs_wire_queue {
	uint32_t number, psn; /* 24 bits each */
	uint8_t rail;         /* of the side that says it */
	bool has_ece;
	struct verbs_wire_ece ece;
};

struct verbs_wire_rail {
	uint8_t gid[VERBS_WIRE_GID_BYTES];
	uint16_t lid;
	uint8_t mtu; /* enum ibv_mtu */
	bool ethernet;
	uint32_t rkey; /* of the ring, and of the eager window */
};

struct verbs_wire_hello {
	unsigned rail_count, queue_count;
	unsigned own_count; /* of the rails: the device's; the others stand by, and no queue begins there */
	struct verbs_wire_rail rails[VERBS_WIRE_RAILS_MAX];
	struct verbs_wire_queue queues[VERBS_WIRE_QUEUES_MAX];
	uint64_t ring_address, window_address; /* window: of the accepting side alone */
	uint32_t window_bytes;
	uint8_t service_level, traffic_class; /* connecting side: of both ends' packets */
	uint64_t host_id;
	char host[40];
	uint8_t back[TRANSPORT_HANDLE_BYTES]; /* connecting side: where its own listener is */
};

struct verbs_wire_frame {
	enum verbs_frame_type type;
	uint8_t queue, there;
	uint32_t epoch, count;
	struct verbs_wire_queue made;
};

/* HELLO and WELCOME. */
void verbs_wire_put_hello(enum verbs_frame_type type, const struct verbs_wire_hello *hello,
			  uint8_t bytes[static VERBS_WIRE_FRAME_BYTES]);
int verbs_wire_get_hello(const uint8_t bytes[static VERBS_WIRE_FRAME_BYTES], enum verbs_frame_type type,
			 struct verbs_wire_hello *ret);
/* All others. */
void verbs_wire_put_frame(const struct verbs_wire_frame *frame, uint8_t bytes[static VERBS_WIRE_FRAME_BYTES]);
int verbs_wire_get_frame(const uint8_t bytes[static VERBS_WIRE_FRAME_BYTES], struct verbs_wire_frame *ret);

/* ---- notices: the 32 bits that come with a write ---- */

enum verbs_notice { VERBS_NOTICE_NONE, VERBS_NOTICE_DESCRIPTOR, VERBS_NOTICE_WHOLE, VERBS_NOTICE_PART };

/* A receive: index of the request, place in its group, and which use of them it is. */
static inline uint32_t verbs_slot_id(unsigned request, unsigned slot, uint32_t generation)
{
	return (generation & 0xffffU) << 8 | (request * TRANSPORT_MAX_RECVS + slot);
}
static inline unsigned verbs_slot_request(uint32_t id)
{
	return (id & 0xffU) / TRANSPORT_MAX_RECVS;
}
static inline unsigned verbs_slot_place(uint32_t id)
{
	return id % TRANSPORT_MAX_RECVS;
}
static inline uint32_t verbs_slot_generation(uint32_t id)
{
	return id >> 8 & 0xffffU;
}
static inline uint32_t verbs_notice_make(enum verbs_notice kind, uint32_t slot_id)
{
	return (uint32_t)kind << 30 | slot_id;
}
/* Data whose notice came in a write of its own: the number of its bytes is in the receiver's memory (VERBS_LENGTHS_AT). */
#define VERBS_NOTICE_APART (UINT32_C(1) << 24)
static inline enum verbs_notice verbs_notice_kind(uint32_t notice)
{
	return (enum verbs_notice)(notice >> 30);
}
static inline uint32_t verbs_notice_slot(uint32_t notice)
{
	return notice & 0xffffffU;
}

/* ---- descriptors ---- */

enum verbs_descriptor_type {
	VERBS_DESCRIPTOR_NONE, /* never written: an entry of zeroes is no descriptor */
	/* sender to receiver */
	VERBS_DESCRIPTOR_EAGER, /* tag, size, value: place in the window; `embedded`: the message follows the head */
	VERBS_DESCRIPTOR_RTS,   /* slot, size: the message for this slot is so long */
	/* receiver to sender; in each `value` says how far the window is free, `pieces` how many of their places were freed */
	/* count: receives that were posted follow; slot: data notices taken so far from the queue with the number `size` */
	VERBS_DESCRIPTOR_SLOTS,
	VERBS_DESCRIPTOR_GRANT, /* slot, size: it may be written up to here */
	/* count: numbers of eager messages follow that were matched with receives the sender will not hear of */
	VERBS_DESCRIPTOR_MATCHED,
	/* both ways */
	/* count: numbers follow, of notices with data taken from each queue; size 1: the peer's process shall send another back */
	VERBS_DESCRIPTOR_CREDIT,
	/* sender to receiver; slot, size, pieces (its number): the next bytes for this slot, whose message was announced */
	VERBS_DESCRIPTOR_PIECE,
	VERBS_DESCRIPTOR_TYPE_COUNT
};

struct verbs_descriptor {
	enum verbs_descriptor_type type;
	uint64_t sequence; /* of this ring, from 1; 32 bits of it travel, as of taken */
	uint64_t taken;    /* descriptors of the other ring that were taken when this one was written */
	uint8_t count;
	uint8_t pieces;  /* since the beginning, modulo 256 */
	bool embedded;   /* EAGER */
	bool wants_room; /* sender: an eager message waits for the window */
	bool promised;   /* SLOTS: they may be written without being asked for */
	uint32_t slot;   /* its id */
	int32_t tag;
	uint64_t value, size;
};

struct verbs_wire_slot {
	uint64_t address, bytes; /* address 0: it cannot be written, its message shall come in pieces */
	int32_t tag;
	uint32_t id;
	uint32_t rkeys[VERBS_WIRE_RAILS_MAX]; /* rail_count of the receiving side */
};

void verbs_wire_put_descriptor(const struct verbs_descriptor *descriptor, uint8_t bytes[static VERBS_WIRE_HEAD_BYTES]);
int verbs_wire_get_descriptor(const uint8_t bytes[static VERBS_WIRE_HEAD_BYTES], struct verbs_descriptor *ret);
static inline size_t verbs_wire_slot_bytes(unsigned rail_count)
{
	return 24 + 4 * (size_t)rail_count;
}
void verbs_wire_put_slot(const struct verbs_wire_slot *slot, unsigned rail_count, uint8_t *bytes);
void verbs_wire_get_slot(const uint8_t *bytes, unsigned rail_count, struct verbs_wire_slot *ret);

#endif
