/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes that travel (docs/format/transport-protocol.md): the handle, the three parts of the handshake, and frames. Little-endian, encoded
 * byte by byte; this file and wire.c are the only place that knows an offset. Pure.
 *
 * Decoders check everything that can be checked without a connection: magic, version, checksum, ranges. They return
 * -EPROTO for another protocol version, -EBADMSG for anything else. Those of frames write *ret only on success; the
 * others are both ways in one (base/codec.h), with room for TCP_WIRE_..._BYTES.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_WIRE_H
#define TRIBUTARY_TRANSPORT_TCP_WIRE_H

#include "base/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TCP_WIRE_VERSION = 7,
	TCP_WIRE_HANDLE_BYTES = 128,
	TCP_WIRE_CHALLENGE_BYTES = 32,
	TCP_WIRE_HELLO_BYTES = 160,
	TCP_WIRE_WELCOME_BYTES = 512,
	TCP_WIRE_FRAME_BYTES = 24,
	TCP_WIRE_SECRET_BYTES = 16,
	TCP_WIRE_NONCE_BYTES = 16,
	TCP_WIRE_PROOF_BYTES = 32,
	TCP_WIRE_HOST_BYTES = 40, /* with its NUL; a handle has the first thirteen letters */
	TCP_WIRE_HANDLE_HOST_BYTES = 14,
	TCP_WIRE_RAILS_MAX = 8,
	TCP_WIRE_HANDLE_WAYS_MAX = 8, /* one of them the first rail */
	TCP_WIRE_WAYS_MAX = 16,
	TCP_WIRE_STREAMS_MAX = 64,
	TCP_WIRE_REQUESTS_MAX = 32, /* sends of a connection that are open at a time */
	TCP_WIRE_EAGER_UNIT = 64,   /* an eager message takes whole units of the window */
	TCP_WIRE_EAGER_UNITS = 1024,
	TCP_WIRE_EAGER_LEAST = 8,           /* and at least so many */
	TCP_WIRE_UNSCHEDULED_UNITS = 32768, /* of a second window, for unscheduled bytes */
	TCP_WIRE_EAGER_MESSAGES = 128, /* so no more of them than this, and each begins in eight units of its own */
};

/*
 * The number of a connection's first message. The wire carries the low 32 bits of the numbers; they wrap early on every
 * connection, so that a mistake with that shows in every test, and not after hours.
 */
#define TCP_WIRE_FIRST_SEQUENCE (UINT32_MAX - 3ULL)

/* Of a port, as 3 bits of the wire: below so many Gbit/s. */
enum tcp_speed {
	TCP_SPEED_UNKNOWN,
	TCP_SPEED_BELOW_2_5,
	TCP_SPEED_BELOW_10,
	TCP_SPEED_BELOW_25,
	TCP_SPEED_BELOW_50,
	TCP_SPEED_BELOW_100,
	TCP_SPEED_BELOW_200,
	TCP_SPEED_MOST,
};

struct tcp_wire_address {
	uint8_t family;      /* 4 or 6; 0: none */
	uint8_t speed;       /* enum tcp_speed, of its interface */
	uint8_t prefix_bits; /* of its subnet; of IPv6 in a handle's other ways 48, 56, 64 or 128 */
	uint16_t port;
	uint16_t tied_port; /* the same, by a socket that takes only what comes in through the interface; 0: none */
	uint8_t bytes[16];  /* the first four for IPv4 */
};

/* What NCCL carries from the listening to the connecting side. */
struct tcp_wire_handle {
	struct tcp_wire_address address; /* of the first rail */
	uint8_t rail_count;              /* 1 to TCP_WIRE_RAILS_MAX */
	/* More that lead to the process, at the first one's port, by tcp_wire_add_way; all tied ports are one. IPv4 comes first. */
	uint8_t way_count;
	struct tcp_wire_address ways[TCP_WIRE_HANDLE_WAYS_MAX - 1];
	uint32_t listener_id;
	uint64_t host_id; /* equal for processes that share boot and network namespace */
	uint8_t secret[TCP_WIRE_SECRET_BYTES];
	char host[TCP_WIRE_HOST_BYTES];
	uint64_t tuning; /* params.tuning_told */
};

/* First bytes on every stream, accepting to connecting side: nothing that follows from the secret. */
struct tcp_wire_challenge {
	uint8_t nonce[TCP_WIRE_NONCE_BYTES];
};

/* The answer, which proves that its sender has the secret: tcp_wire_prove. */
struct tcp_wire_hello {
	uint8_t stream, stream_count; /* index below count; count from 1 to TCP_WIRE_STREAMS_MAX */
	uint8_t active_count;         /* the first so many are used, the rest stand by */
	uint32_t listener_id, epoch, process_id;
	uint8_t nonce[TCP_WIRE_NONCE_BYTES];
	uint64_t connection_id;
	uint64_t host_id;            /* as in the handle */
	uint32_t eager_window_bytes; /* of the sender; the smaller of both counts */
	uint32_t timeout_ms;
	char host[TCP_WIRE_HOST_BYTES];
};

/* The answer, proven too, unless it is TCP_WELCOME_SECRET or _VERSION. Anything but TCP_WELCOME_OK closes the stream. */
enum tcp_welcome { TCP_WELCOME_OK, TCP_WELCOME_VERSION, TCP_WELCOME_SECRET, TCP_WELCOME_FULL, TCP_WELCOME_COUNT };
struct tcp_wire_welcome {
	uint8_t status; /* enum tcp_welcome */
	uint8_t rail_count, own_count, way_count;
	uint32_t process_id;
	uint64_t connection_id;
	uint32_t eager_window_bytes;
	uint32_t unscheduled_bytes; /* as in TCP_FRAME_UNSCHEDULED; counts in the last stream's, while they come in */
	char host[TCP_WIRE_HOST_BYTES];
	/* All that lead to the process; the first own_count the device's, of these the first rail_count one for each rail. */
	struct tcp_wire_address ways[TCP_WIRE_WAYS_MAX];
};

enum tcp_frame_type {
	TCP_FRAME_NONE, /* never sent: all-zero bytes are no frame */
	/* sender to receiver */
	TCP_FRAME_EAGER,   /* message, tag, value: offset in the eager window, payload: the whole message */
	TCP_FRAME_RTS,     /* message, request, tag, value: its size; unscheduled_bytes, unit, hosts; maybe twice */
	TCP_FRAME_DATA,    /* message, request, value: offset, payload */
	TCP_FRAME_SUSPECT, /* stream, epoch: stop it for good and answer DEAD */
	/* receiver to sender; each also acknowledges: stream, epoch, position */
	TCP_FRAME_GRANT,       /* message, value: it may send up to this byte */
	TCP_FRAME_DONE,        /* message: every byte is in place */
	TCP_FRAME_WINDOW_LOW,  /* message: the next to come. value: what messages before it hold of the eager window */
	TCP_FRAME_WINDOW_HIGH, /* the same of the upper half */
	TCP_FRAME_UNSCHEDULED, /* value: bytes that may be on their way before any grant */
	TCP_FRAME_PORT,        /* message, value: struct tcp_wire_port */
	TCP_FRAME_ACK,         /* the acknowledgement alone */
	TCP_FRAME_DEAD,        /* that stream was stopped for good at that position */
	TCP_FRAME_TRUNCATED,   /* message was longer than the receive it matched (value): the connection is over */
	/* both ways */
	/* a sender's: message counts its changes of the set of active streams, which is value; tag: 1: it asks for PORT's turn */
	TCP_FRAME_HEARTBEAT,
	TCP_FRAME_BYE, /* the sender of it closes in good order */
	TCP_FRAME_TYPE_COUNT
};

struct tcp_frame {
	uint8_t type; /* enum tcp_frame_type */
	union {
		uint8_t stream;  /* SUSPECT and receiver's frames */
		uint8_t request; /* RTS, DATA: which of the sender's requests; free again after DONE */
	};
	uint8_t hosts; /* RTS: that its sender sends to, 1 to 16, rounded down in steps of a third at most; 0 is 1 */
	union {
		uint16_t epoch; /* low half of that stream's epoch */
		uint16_t unit;  /* RTS: where unscheduled bytes are kept that no receive matches */
	};
	uint32_t message; /* low half of a sequence number */
	uint64_t value;
	uint64_t position; /* receiver's frames: bytes consumed of `stream` */
	union {
		uint32_t payload_bytes; /* EAGER, DATA */
		uint32_t
			unscheduled_bytes; /* RTS: DATA frames with them follow, of several streams behind the second RTS */
	};
	int32_t tag; /* EAGER, RTS */
};

/* What a receiver says of its port to one of the senders. All 0: no other host sends. */
struct tcp_wire_port {
	uint32_t number;     /* of these, from 1: they may overtake each other */
	bool competes, full; /* several hosts send; it takes no more */
	bool turn;           /* this connection may try other streams */
	uint8_t most;        /* streams that a receive window of two segments leaves room for; 0: no bound */
	/* Of its trial: */
	bool measured; /* it has other streams than at first, for long enough */
	uint16_t kept; /* by others of what they sent before, all is TCP_WIRE_PORT_ALL */
	uint32_t lost; /* the rest, a second, in TCP_WIRE_PORT_UNIT bytes */
	uint32_t each; /* of one of the others, the same */
};
enum {
	TCP_WIRE_PORT_ALL = 1024,
	TCP_WIRE_PORT_UNIT = 64 << 10,
	TCP_WIRE_PORT_RATE_MOST = (1 << 20) - 1,
	TCP_WIRE_PORT_KEPT_MOST = (1 << 12) - 1,
};

int tcp_wire_handle(struct codec *codec, struct tcp_wire_handle *handle);
/* False: there is no room for it. */
bool tcp_wire_add_way(struct tcp_wire_handle *handle, const struct tcp_wire_address *way);
/* Whose handle it is, for an error about a handle of another version; "?" if it is no handle of ours at all. */
void tcp_wire_peek_host(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], char host[static TCP_WIRE_HOST_BYTES],
			uint16_t *ret_version);
/* Of a handle of ours, of verbs too, that has been checked. */
uint64_t tcp_wire_peek_tuning(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES]);
/* The last eight bytes of a handle are not part of it: there the connecting side keeps its place. */
void tcp_wire_put_cookie(uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], uint64_t cookie);
uint64_t tcp_wire_get_cookie(const uint8_t bytes[static TCP_WIRE_HANDLE_BYTES]);

int tcp_wire_challenge(struct codec *codec, struct tcp_wire_challenge *challenge);
int tcp_wire_hello(struct codec *codec, struct tcp_wire_hello *hello);
/* codec.version is the peer's as soon as the magic fits. */
int tcp_wire_welcome(struct codec *codec, struct tcp_wire_welcome *welcome);
/*
 * The last TCP_WIRE_PROOF_BYTES of HELLO or WELCOME, which tcp_wire_hello and tcp_wire_welcome leave alone: HMAC-SHA-256 with the
 * secret over the direction, both nonces and all bytes before them. So nobody who was sent one can use it elsewhere.
 */
enum tcp_wire_direction { TCP_WIRE_CONNECTING, TCP_WIRE_ACCEPTING };
struct tcp_wire_nonces {
	uint8_t connecting[TCP_WIRE_NONCE_BYTES], accepting[TCP_WIRE_NONCE_BYTES];
};
void tcp_wire_prove(enum tcp_wire_direction direction, const uint8_t secret[static TCP_WIRE_SECRET_BYTES],
		    const struct tcp_wire_nonces *nonces, uint8_t *bytes, size_t count);
bool tcp_wire_is_proven(enum tcp_wire_direction direction, const uint8_t secret[static TCP_WIRE_SECRET_BYTES],
			const struct tcp_wire_nonces *nonces, const uint8_t *bytes, size_t count);

void tcp_wire_put_frame(const struct tcp_frame *frame, uint8_t bytes[static TCP_WIRE_FRAME_BYTES]);
/* Payload is bounded by the connection, not here. */
int tcp_wire_get_frame(const uint8_t bytes[static TCP_WIRE_FRAME_BYTES], struct tcp_frame *ret);

void tcp_wire_put_port(const struct tcp_wire_port *port, struct tcp_frame *ret);
/* Of a frame that was checked. */
void tcp_wire_get_port(const struct tcp_frame *frame, struct tcp_wire_port *ret);

/* What an eager message takes of the window at both ends: itself, its header, rounded up. */
static inline unsigned tcp_wire_eager_units(uint64_t payload_bytes)
{
	uint64_t units = (payload_bytes + TCP_WIRE_FRAME_BYTES + TCP_WIRE_EAGER_UNIT - 1) / TCP_WIRE_EAGER_UNIT;

	return (unsigned)(units > TCP_WIRE_EAGER_LEAST ? units : TCP_WIRE_EAGER_LEAST);
}

/* The sequence number with that low half that is nearest to another one. */
static inline uint64_t tcp_wire_sequence(uint32_t low, uint64_t near)
{
	return near + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)near);
}

#endif
