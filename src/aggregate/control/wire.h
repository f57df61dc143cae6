/*
 * The bytes of a control connection between a group's coordinator (or the command) and an aggregator service
 * (docs/format/control.md): the four units of the handshake, and the payloads of the frames after it. Little-endian,
 * encoded byte by byte; this file and wire.c are the only place that knows an offset. Pure, any thread.
 *
 * Decoders check all that can be checked without a connection and return -EPROTO for another protocol version, -EBADMSG
 * for anything else; *ret is written on success only. Text is ASCII, printable, NUL-terminated.
 */
#ifndef TRIBUTARY_AGGREGATE_CONTROL_WIRE_H
#define TRIBUTARY_AGGREGATE_CONTROL_WIRE_H

#include "base/clock.h"
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
void control_put_hello(const struct control_hello *hello, uint8_t bytes[static CONTROL_HELLO_BYTES]);
/* *ret_version is written whenever the magic fits, so that a sentence can name it. */
int control_get_hello(const uint8_t bytes[static CONTROL_HELLO_BYTES], struct control_hello *ret,
		      uint16_t *ret_version);

enum control_status { CONTROL_STATUS_OK, CONTROL_STATUS_VERSION, CONTROL_STATUS_SECRET, CONTROL_STATUS_COUNT };
struct control_challenge {
	enum control_status status; /* _VERSION: the other members mean nothing, and the aggregator closes */
	struct control_hello hello;
};
void control_put_challenge(const struct control_challenge *challenge, uint8_t bytes[static CONTROL_CHALLENGE_BYTES]);
int control_get_challenge(const uint8_t bytes[static CONTROL_CHALLENGE_BYTES], struct control_challenge *ret,
			  uint16_t *ret_version);

struct control_welcome {
	enum control_status status; /* _SECRET: the proof means nothing, and the aggregator closes */
	uint8_t proof[CONTROL_PROOF_BYTES];
};
void control_put_welcome(const struct control_welcome *welcome, uint8_t bytes[static CONTROL_WELCOME_BYTES]);
int control_get_welcome(const uint8_t bytes[static CONTROL_WELCOME_BYTES], struct control_welcome *ret);

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
void control_put_header(const struct control_header *header, uint8_t bytes[static CONTROL_HEADER_BYTES]);
/* from_client: -EBADMSG for what the other side alone may send. */
int control_get_header(const uint8_t bytes[static CONTROL_HEADER_BYTES], bool from_client, struct control_header *ret);

/*
 * The structs below are large where they hold handles; handles are those of the caller when encoding, and point into the
 * payload when decoding.
 */
struct control_request {
	uint8_t id[CONTROL_ID_BYTES]; /* random: of the group */
	uint16_t data_version;        /* of the members' protocol with the aggregator (docs/format/control.md) */
	uint16_t types, operations;   /* that may come: bit i is enum reduce_type, reduce_operation i */
	char name[CONTROL_NAME_BYTES];
	uint32_t timeout_ms; /* silence after which this group counts as dead */
	uint16_t member_count;
	const uint8_t *handles; /* member_count × TRANSPORT_HANDLE_BYTES */
};
/* Bytes of the payload; it has room for CONTROL_PAYLOAD_MAX. */
size_t control_put_request(const struct control_request *request, uint8_t *payload);
int control_get_request(const uint8_t *payload, size_t bytes, struct control_request *ret);

struct control_offer {
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	uint64_t rate_Bps;     /* of its NIC, one direction, shared with the groups that are there */
	uint64_t window_bytes; /* memory that this group gets for segments under way */
	uint32_t group_count;  /* groups on the aggregator, this one included */
};
size_t control_put_offer(const struct control_offer *offer, uint8_t *payload);
int control_get_offer(const uint8_t *payload, size_t bytes, struct control_offer *ret);

struct control_go {
	uint16_t position;         /* of this aggregator among them */
	uint16_t aggregator_count; /* this one included */
	const uint8_t *handles;    /* aggregator_count × TRANSPORT_HANDLE_BYTES */
};
size_t control_put_go(const struct control_go *go, uint8_t *payload);
int control_get_go(const uint8_t *payload, size_t bytes, struct control_go *ret);

/* REFUSAL and FAILURE. Too long a sentence is cut. */
size_t control_put_sentence(const char *sentence, uint8_t *payload);
int control_get_sentence(const uint8_t *payload, size_t bytes, char ret[static CONTROL_SENTENCE_BYTES]);

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
/* groups: state->group_count of them. */
size_t control_put_state(const struct control_state *state, const struct control_group_state *groups, uint8_t *payload);
/* groups: room for CONTROL_GROUPS_MAX. */
int control_get_state(const uint8_t *payload, size_t bytes, struct control_state *ret,
		      struct control_group_state *ret_groups);

#endif
