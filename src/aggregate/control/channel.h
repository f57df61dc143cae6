/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a control connection, without its socket: bytes that came go in, bytes to send come out, frames in between.
 * Both ends prove that they have the secret before any frame counts, and every frame is sealed with its number, so none
 * can be altered, left out, or said again (docs/format/aggregation-protocol.md). Nothing is encrypted.
 *
 *   client   HELLO ->                      -> PROOF ->                       frames
 *   server            -> CHALLENGE ->                  -> WELCOME ->         frames
 *
 * Memory: the struct itself until the peer has proved itself; then what one frame needs, at most CONTROL_PAYLOAD_MAX
 * each way and CONTROL_OUT_MAX waiting to be sent. One thread for each channel.
 */
#ifndef TRIBUTARY_AGGREGATE_CONTROL_CHANNEL_H
#define TRIBUTARY_AGGREGATE_CONTROL_CHANNEL_H

#include "aggregate/control/secret.h"
#include "aggregate/control/wire.h"
#include "base/sha256.h"

enum control_side { CONTROL_CLIENT, CONTROL_SERVER };
enum control_channel_state {
	CONTROL_AWAITS_HELLO,     /* server */
	CONTROL_AWAITS_CHALLENGE, /* client */
	CONTROL_AWAITS_PROOF,     /* server */
	CONTROL_AWAITS_WELCOME,   /* client */
	CONTROL_AWAITS_HEADER,    /* proved */
	CONTROL_AWAITS_PAYLOAD,
	CONTROL_HAS_FRAME, /* until control_channel_take */
	CONTROL_DEAD,
	CONTROL_CHANNEL_STATE_COUNT
};
enum { CONTROL_OUT_MAX = 2 * (CONTROL_PAYLOAD_MAX + CONTROL_HEADER_BYTES + CONTROL_SEAL_BYTES) };

struct control_channel {
	enum control_side side;
	enum control_channel_state state;
	const struct control_secret *secret; /* borrowed; needed until the peer has proved itself */
	char why[CONTROL_SENTENCE_BYTES];    /* of CONTROL_DEAD: a sentence without a full stop */
	char own_name[CONTROL_NAME_BYTES], peer_name[CONTROL_NAME_BYTES];
	uint8_t hello[CONTROL_HELLO_BYTES], challenge[CONTROL_CHALLENGE_BYTES], proof[CONTROL_PROOF_BYTES];
	uint8_t key_in[SHA256_BYTES], key_out[SHA256_BYTES];
	uint64_t number_in, number_out;
	struct control_header header;
	/* In: handshake units and headers come into `unit`, payloads with their seal into `payload`. */
	uint8_t unit[CONTROL_HELLO_BYTES];
	uint8_t *payload; /* NULL but while a frame with one is there */
	size_t in_count;
	uint8_t *out;
	size_t out_room, out_begin, out_end;
};

/*
 * name: of the own host, for people. A client has its HELLO to send at once. -EIO: no random bytes; -ENOMEM.
 * The struct may be finished by control_channel_fini whatever became of it, all zeros too.
 */
int control_channel_init(struct control_channel *channel, enum control_side side, const struct control_secret *secret,
			 const char *name);
void control_channel_fini(struct control_channel *channel);
bool control_channel_proved(const struct control_channel *channel);

/* Where the next bytes of the peer go, and how many are wanted; 0: none before control_channel_take, or dead. */
size_t control_channel_wants(struct control_channel *channel, uint8_t **ret_at);
/* So many of them are there. An error is the end of the channel, and `why` says it: -EBADMSG, -EPROTO, -EACCES, -ENOMEM. */
int control_channel_came(struct control_channel *channel, size_t bytes);
/* A frame is there: its payload stays until control_channel_take. */
const struct control_header *control_channel_frame(const struct control_channel *channel, const uint8_t **ret_payload);
void control_channel_take(struct control_channel *channel);

/* Queues a frame. Before both sides are proved: -ENOTCONN. -ENOBUFS: the peer does not read. -ENOMEM. */
int control_channel_send(struct control_channel *channel, enum control_type type, const void *payload, size_t bytes);
/* What is to be sent; control_channel_went says how much of it was. */
size_t control_channel_pending(const struct control_channel *channel, const uint8_t **ret_at);
void control_channel_went(struct control_channel *channel, size_t bytes);

/*
 * Moves bytes between the channel and a non-blocking socket until a frame is there or the socket has no more. -EPIPE:
 * the peer closed; else as control_channel_came or the socket said. `why` is set.
 */
int control_channel_move(struct control_channel *channel, int fd);

#endif
