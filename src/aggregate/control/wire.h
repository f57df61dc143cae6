/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a control connection between a group's coordinator (or the command) and an aggregator service
 * (docs/format/aggregation-protocol.md): the four units of the handshake, and the payloads of the frames after it, as
 * base/codec.h has it; wire.c alone knows the layout. Pure, any thread.
 *
 * A read checks all that can be checked without a connection: -EPROTO for another protocol version, -EBADMSG for anything
 * else. Text is ASCII, printable, NUL-terminated.
 */
#ifndef TRIBUTARY_AGGREGATE_CONTROL_WIRE_H
#define TRIBUTARY_AGGREGATE_CONTROL_WIRE_H

#include "base/clock.h"
#include "base/codec.h"
#include "transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CONTROL_VERSION = 1,
	CONTROL_NONCE_BYTES = 32,
	CONTROL_NAME_BYTES = 40, /* with its NUL */
	CONTROL_SENTENCE_BYTES = 232,
	CONTROL_ID_BYTES = 16,
	CONTROL_PROOF_BYTES = 32,

	CONTROL_HELLO_BYTES = 88,
	CONTROL_CHALLENGE_BYTES = 88,
	CONTROL_WELCOME_BYTES = 40,

	CONTROL_MEMBERS_MAX = 256,
	CONTROL_AGGREGATORS_MAX = 32,
	CONTROL_GROUPS_MAX = 256,
};

/* The first unit of either side. */
struct control_hello {
	uint8_t nonce[CONTROL_NONCE_BYTES]; /* random */
	char name[CONTROL_NAME_BYTES];      /* the host's, for people */
};
/* codec->version is set whenever the magic fits, so that a sentence can name it. */
int control_wire_hello(struct codec *codec, struct control_hello *hello);

enum control_status { CONTROL_STATUS_OK, CONTROL_STATUS_VERSION, CONTROL_STATUS_SECRET, CONTROL_STATUS_COUNT };
struct control_challenge {
	enum control_status status; /* _VERSION: the other members mean nothing, and the aggregator closes */
	struct control_hello hello;
};
int control_wire_challenge(struct codec *codec, struct control_challenge *challenge);

struct control_welcome {
	enum control_status status; /* _SECRET: the proof means nothing, and the aggregator closes */
	uint8_t proof[CONTROL_PROOF_BYTES];
};
int control_wire_welcome(struct codec *codec, struct control_welcome *welcome);

/* ------------------------------------------------------------------------------------------------------------ frames */

enum control_type {
	CONTROL_NONE, /* never sent */
	/* client to aggregator */
	CONTROL_REQUEST, /* a group wants this aggregator */
	CONTROL_GO,      /* the members know the aggregator: connect */
	CONTROL_ASK,     /* how are you; no payload */
	CONTROL_LEAVE,   /* the group ends in good order; no payload */
	/* aggregator to client */
	CONTROL_OFFER,
	CONTROL_REFUSAL, /* of a request: a sentence */
	CONTROL_READY,   /* every member's connections stand; no payload */
	CONTROL_FAILURE, /* of a group that was offered: a sentence */
	CONTROL_STATE,
	CONTROL_DRAIN, /* the service ends soon: use it no more; no payload */
	/* both */
	CONTROL_HEARTBEAT, /* no payload */
	/* Between the processes of `tributary cluster measure`, which say more in the payload; a service takes neither. */
	CONTROL_REPORT, /* client to aggregator */
	CONTROL_TELL,   /* aggregator to client */
	CONTROL_TYPE_COUNT
};
enum {
	CONTROL_HEADER_BYTES = 8,
	CONTROL_SEAL_BYTES = 32, /* after the payload */
	CONTROL_REQUEST_BYTES = 72,
	CONTROL_GO_BYTES = 8,
	CONTROL_OFFER_BYTES = 152,
	CONTROL_STATE_BYTES = 216,
	CONTROL_GROUP_BYTES = 112,
	CONTROL_PAYLOAD_MAX = CONTROL_REQUEST_BYTES + CONTROL_MEMBERS_MAX * TRANSPORT_HANDLE_BYTES,
};
_Static_assert(CONTROL_STATE_BYTES + CONTROL_GROUPS_MAX * CONTROL_GROUP_BYTES <= CONTROL_PAYLOAD_MAX, "the longest");

/* How often each side speaks: the other may replace it after as little as 10 s (params_replace_ns). */
static inline uint64_t control_beat_ns(uint64_t timeout_ns)
{
	return timeout_ns / 5 < 2 * NS_PER_S ? timeout_ns / 5 : 2 * NS_PER_S;
}

struct control_header {
	enum control_type type;
	size_t payload_bytes; /* within what this type may have */
};
/* from_client: what the other side alone may send is -EBADMSG. */
int control_wire_header(struct codec *codec, bool from_client, struct control_header *header);

/*
 * The structs below are large where they hold handles; handles are those of the caller when encoding, and point into the
 * payload when decoding.
 */
struct control_request {
	uint8_t id[CONTROL_ID_BYTES]; /* random: of the group */
	uint16_t data_version; /* of the members' protocol with the aggregator (docs/format/aggregation-protocol.md) */
	uint16_t types, operations; /* that may come: bit i is enum reduce_type, reduce_operation i */
	char name[CONTROL_NAME_BYTES];
	uint32_t timeout_ms; /* silence after which this group counts as dead */
	uint16_t member_count;
	const uint8_t *handles; /* member_count × TRANSPORT_HANDLE_BYTES */
};
int control_wire_request(struct codec *codec, struct control_request *request);

struct control_offer {
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	uint64_t rate_Bps;     /* of its NIC, one direction, shared with the groups that are there */
	uint64_t window_bytes; /* memory that this group gets for segments under way */
	uint32_t group_count;  /* groups on the aggregator, this one included */
};
int control_wire_offer(struct codec *codec, struct control_offer *offer);

struct control_go {
	uint16_t position;         /* of this aggregator among them */
	uint16_t aggregator_count; /* this one included */
	const uint8_t *handles;    /* aggregator_count × TRANSPORT_HANDLE_BYTES */
};
int control_wire_go(struct codec *codec, struct control_go *go);

/* REFUSAL and FAILURE. */
int control_wire_sentence(struct codec *codec, char *sentence);

struct control_group_state {
	uint8_t id[CONTROL_ID_BYTES];
	char name[CONTROL_NAME_BYTES];
	uint16_t member_count;
	bool ready; /* all connections stand */
	uint64_t age_ms, bytes_in, bytes_out, segments;
	uint64_t rate_in_Bps, rate_out_Bps; /* over the last seconds */
};
struct control_state {
	char version[CONTROL_NAME_BYTES], name[CONTROL_NAME_BYTES];
	uint64_t uptime_ms, bytes_in, bytes_out, segments, rate_in_Bps, rate_out_Bps;
	uint64_t nic_Bps;
	uint64_t memory_bytes, memory_max_bytes;
	uint32_t busy_milli; /* cores in use, times 1000, over the last seconds */
	uint32_t thread_count, groups_max;
	uint64_t groups_served, strangers; /* since it started */
	bool draining;
	uint16_t group_count;
};
/* groups: room for CONTROL_GROUPS_MAX when reading. */
int control_wire_state(struct codec *codec, struct control_state *state, struct control_group_state *groups);

#endif
