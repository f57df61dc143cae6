/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP transport's own structures, shared by the files of this folder and by nobody else.
 *
 * Life of a connection: connector.c dials the streams and acceptor.c answers; then both ends are a struct
 * tcp_connection. progress.c moves its data: read.c hands on what came, sender.c and receiver.c hold what the two roles do
 * with frames, feedback.c what a receiver reports of it, window.c where short messages are kept, stream.c writes to one socket.
 * failover.c is what happens when a socket dies, detour.c when a whole way does, mtu.c when long packets vanish, service.c is
 * the one background thread, movers.c are those that send and receive in place of the caller's, count.c what metrics tell.
 *
 * Locks, always taken in this order: tcp_transport.lock (lists, listeners, devices), tcp_connection.lock (everything in
 * a connection), then one of the pace's own, that of tcp_growth_ways, that of its memory, that of tcp_mtu_ways, and that of
 * tcp_movers. No lock is held across anything that blocks.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_TCP_H
#define TRIBUTARY_TRANSPORT_TCP_TCP_H

#include "base/params.h"
#include "transport/devices.h"
#include "transport/pace/pace.h"
#include "transport/service.h"
#include "transport/tcp/count.h"
#include "transport/tcp/growth.h"
#include "transport/tcp/interface.h"
#include "transport/tcp/movers.h"
#include "transport/tcp/mtu.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/window.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"
#include "transport/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/queue.h>

enum {
	TCP_STREAMS_MAX = TCP_WIRE_STREAMS_MAX,
	TCP_STREAMS_GROWN = 33, /* so many a connection may come to have: 32 with data, and the primary */
	TCP_TX_FRAMES = 128, /* written but not acknowledged, of one stream */
	TCP_STAGING_RECEIVER = 32 << 10,
	TCP_STAGING_SENDER = 4 << 10, /* control frames only */
	/* Beyond data of a long message a read takes at most so much: three headers, and what COPY_UNCOUNTED_BYTES allows. */
	TCP_STAGING_BETWEEN_DATA = TCP_WIRE_FRAME_BYTES + 64,
	TCP_COPY_MOST = 12 << 10,     /* a longer message is eager only where it cannot go unscheduled */
	TCP_BUFFERED_MOST = 64 << 10, /* a longer message is never copied to spare its sender the wait for FIN */
	TCP_BUFFERED_AFTER_NS = 100 * 1000,
	TCP_UNSCHEDULED_WINDOW = TCP_WIRE_UNSCHEDULED_UNITS * TCP_WIRE_EAGER_UNIT,
	TCP_UNSCHEDULED_UNPACED = 512 << 10, /* of a sender that its own senders bound */
	TCP_WORTH_BYTES = 32 << 10, /* fewer are not worth a system call where, in a long frame, they can wait */
	TCP_ACCEPTOR_MAX = 4 * TCP_INTERFACE_MAX, TCP_UNPINNED_MAX = 64,
	TCP_SILENCE_BEATS = 2, /* of the peer, at most: more is an outage, or a process that had no CPU */
	TCP_FAILED_WAYS_MAX = 64, TCP_DETOUR_STREAM = 1, /* which goes another way where a connection's own is lost */
	TCP_WATCH_EVENTS = EPOLLIN | EPOLLOUT | EPOLLRDHUP,
};

_Static_assert((int)TCP_WIRE_REQUESTS_MAX == (int)TRANSPORT_MAX_REQUESTS, "each has a place in the receiver's table");

/* One frame on its way out of a stream, and, at a sender, until the receiver acknowledged it. */
struct tcp_tx_frame {
	uint8_t header[TCP_WIRE_FRAME_BYTES];
	const uint8_t *payload;
	uint32_t payload_bytes;
	uint32_t message;
	uint64_t value; /* offset or window place, as in the header */
	uint64_t end;   /* position in the stream after its last byte */
	uint8_t type;
	bool joined; /* a copy of the header stands right before the payload: one piece to write */
};

struct tcp_stream {
	struct tcp_connection *connection;
	int fd;
	uint8_t index;
	bool live;
	/* movers.c. While a call of theirs is under way its socket stays open, and what it writes from or reads into stays. */
	enum tcp_move_state move;
	TAILQ_ENTRY(tcp_stream) move_link;
	uint64_t giving_bytes; /* sender: what the call may write beyond tx_written */
	char lost_why[48];     /* lost during a call, which sees to it when it ends; "": not lost */
	/*
	 * Sender: one of its sockets was lost, and the receiver has not said yet how far it got. Live all the same: its next
	 * socket is there, as no other stream was left to ask over, and carries nothing that could have to be sent again.
	 */
	bool awaits_dead;
	uint32_t epoch;
	bool rests; /* sender: it is back on a way that was lost, and carries nothing until rests_until_ns */
	uint64_t rests_until_ns;
	bool was_live; /* so its next socket takes the place of one that was lost */
	int interface; /* receiver: that it came in through */
	struct sockaddr_storage peer; /* where it was dialled or came from */

	/* In. Positions count bytes of this stream since its epoch began. */
	uint64_t rx_position;      /* consumed: whole frames, and of a DATA frame what has arrived */
	uint64_t rx_told;          /* receiver: last position acknowledged */
	struct tcp_frame rx_frame; /* whose payload is being read */
	struct tcp_message *rx_message;
	uint8_t *rx_target; /* where the rest of its payload goes */
	uint64_t rx_left;
	uint8_t *staging;
	size_t staging_bytes, staged_begin, staged_end;
	size_t peeked;           /* bytes at the head of the socket that are here already */
	unsigned quiet_polls;    /* reads in a row that found nothing */
	uint64_t rx_after_sends; /* the transport's count of sends when something came last */
	uint64_t rx_due_ns;      /* nothing worth a system call is expected before; 0: at any time */
	uint64_t last_rx_ns;
	/* Receiver: what DEAD says, kept to be said again; of the last socket that brought anything but signs of life. */
	bool died, rx_used;
	uint32_t dead_epoch;
	uint64_t dead_position;
	uint64_t flight_bytes;    /* receiver: the bound on what is on its way; 0: none */
	bool flight_lasts;        /* long enough for the next read */
	bool flight_kept;         /* two segments, the kernel's least, are no more */
	uint64_t flight_from;     /* when so much has been consumed, all that was offered before the bound has come */
	uint64_t flight_position; /* of what had been consumed when it was set */
	uint64_t flight_told;     /* what the kernel was told of it */
	uint64_t flight_grain;    /* the least step of that; 0: not known yet */

	/* Out: frames[head..next) are written, frames[next..tail) are not, all modulo TCP_TX_FRAMES. */
	struct tcp_tx_frame *frames;
	uint32_t tx_head, tx_next, tx_tail;
	uint64_t tx_queued, tx_written, tx_acknowledged; /* positions */
	bool tx_full;                                    /* the socket took no more last time */
	int tx_error;       /* it takes no more at all; what the peer said before it ended is still to be read */
	uint64_t tx_due_ns; /* full: it is not worth asking again before */
	uint64_t last_tx_ns, last_ack_ns;
	uint64_t path_ns;                          /* its round trip as it was connected; 0: not known */
	uint64_t rate_Bps;                         /* acknowledged bytes, smoothed; for striping */
	uint64_t most_Bps;                         /* its limit, whatever socket it has; 0: none */
	uint64_t acknowledged_before; /* by its kernel's count, which includes the greeting */
	uint64_t seen; /* growth.c: bytes that its kernel had had acknowledged at the last look */
	uint64_t rate_busy_ns, rate_from_position; /* of its window: only while bytes were on their way */
	/* Sender, between death and return. While it awaits DEAD: what was written and not acknowledged. */
	struct tcp_tx_frame *lost_frames;
	uint32_t lost_epoch, lost_head, lost_tail;
	uint64_t lost_written;
	uint64_t redial_at_ns, redial_wait_ns;
	struct tcp_dial *dial;
	struct tcp_mtu mtu;
};

struct tcp_receive_slot {
	uint8_t *data;
	size_t bytes;
	uint64_t received;
	int tag;
	bool matched, done;
};

enum tcp_request_kind { TCP_REQUEST_SEND, TCP_REQUEST_RECEIVE, TCP_REQUEST_KIND_COUNT };

struct tcp_request {
	TAILQ_ENTRY(tcp_request) link; /* of those that are open */
	struct tcp_connection *connection;
	enum tcp_request_kind kind;
	bool used, done;
	uint64_t posted_ns;
	/* A send. */
	uint64_t sequence;
	int tag;
	const uint8_t *data;
	uint64_t size, granted, next_offset;
	uint64_t unscheduled; /* bytes that may go behind its RTS; 0 once the receiver has said more of it */
	unsigned unit;        /* where they may wait at the receiver */
	bool received;        /* the receiver has all, and a mover's call may still use `data` */
	/* A group of receives. */
	unsigned count, open_count;
	struct tcp_receive_slot slots[TRANSPORT_MAX_RECVS];
};

enum tcp_message_state {
	TCP_MESSAGE_FREE,
	TCP_MESSAGE_EARLY, /* as WAITS, but an earlier one has not been announced yet */
	TCP_MESSAGE_WAITS, /* no receive matches; the whole, or its unscheduled bytes, lie in a window */
	TCP_MESSAGE_COMES, /* matched, bytes are on their way */
	TCP_MESSAGE_DONE,
	TCP_MESSAGE_STATE_COUNT
};

/* At the receiver: one message between its first frame and the end of everything the sender must be told. */
struct tcp_message {
	TAILQ_ENTRY(tcp_message) link; /* of the unexpected queue */
	uint64_t sequence;
	enum tcp_message_state state;
	bool eager;
	int tag;
	uint64_t size, received;
	uint64_t accepted;    /* received and begun, on any stream: a late byte for a finished message cannot be */
	uint32_t unscheduled; /* bytes */
	uint16_t unit;        /* their place until a receive matches */
	struct tcp_request *request;
	unsigned slot;
	uint64_t grant_told;
	bool tell_again;
	struct pace_message pace;
};

struct tcp_sender {
	uint64_t next_sequence;
	uint64_t unscheduled_most, unscheduled_open; /* bytes: what the receiver said, and what is on its way */
	uint64_t open_bytes;                         /* of the open messages */
	struct tcp_wire_port port;                   /* as the receiver said last */
	uint8_t primary;                             /* RTS and eager messages go here, in order */
	struct tcp_window window;
	struct pace *pace; /* of its device, told that we send; NULL: nothing is received there */
	uint64_t host;     /* whom we send to, as in the handle */
	struct tcp_request *buffered; /* done for its caller and open until FIN; always the first that is open; or NULL */
	uint8_t *buffer;   /* a copy of its data */
	struct tcp_tx_frame *again; /* of dead streams, to go out again, in order */
	uint64_t again_head, again_tail;
	uint32_t again_capacity;
	struct tcp_growth growth;
	unsigned awaiting; /* streams that await DEAD */
	struct tcp_mtu_sender mtu;
	struct tcp_wire_address ways[TCP_WIRE_WAYS_MAX]; /* to the peer, the first of them its device's */
	unsigned way_count, ways_own;
	struct tcp_detour *detour; /* NULL: it has never needed one */
	uint64_t rest_ns;          /* with a detour: what a stream that is back waits; else 0 */
	uint64_t again_ns;         /* when the peer was heard again after a silence; 0: there was none */
	uint64_t better_wait_ns, better_at_ns; /* when to look for a better way than the present one; wait 0: never */
};

struct tcp_receiver {
	/* Messages by RTS, by the sender's request: one that is done stays until that request is used again. */
	struct tcp_message *messages;
	struct tcp_message *eager;            /* by the first unit in the window */
	uint32_t early;                       /* a set of messages: announced ahead of their turn */
	uint32_t coming;                      /* the same: matched and not done */
	uint32_t done_untold;                 /* done, and the sender is to hear of it */
	TAILQ_HEAD(, tcp_message) unexpected; /* no receive matches, in order of sequence */
	uint64_t next_sequence;               /* that the next RTS or eager message must have */
	struct tcp_window window;
	uint8_t *unscheduled;      /* TCP_UNSCHEDULED_WINDOW bytes: places by tcp_message.unit */
	bool window_due;           /* what it holds is to be reported, however little has changed */
	bool window_again;         /* the last report is lost */
	unsigned posted_open;      /* receives that nothing has matched */
	bool long_messages;        /* the last message was not an eager one */
	uint64_t expected_bytes;   /* granted or unscheduled, not here yet */
	bool unpaced;              /* its peer may begin, whatever the pace holds */
	uint64_t unscheduled_told; /* UINT64_MAX: nothing, or it is lost */
	struct tcp_wire_port port_told;
	bool port_again;           /* that is lost */
	uint64_t port_told_ns, ways_told_ns; /* the second: when a stream was dialled anew last */
	uint64_t flight_bytes;     /* the bound on what is on its way, on all streams */
	uint8_t streams_most;      /* that have two segments each of it; 0: there is none */
	bool wants_turn;           /* its sender asks for the port's turn */
	uint32_t open_messages;    /* by RTS, and not done */
	uint64_t done_bytes;       /* of done_untold, where there is no hurry: see may_wait() */
	bool control_pending;
	struct pace *pace;
	struct pace_sender sender; /* its host is never 0 */
	uint64_t host_id;          /* the peer's */
	bool one_port;             /* of the peer's, at a time */
};

enum tcp_role { TCP_SENDER, TCP_RECEIVER };

struct tcp_connection {
	struct tcp_transport *transport;
	LIST_ENTRY(tcp_connection) link; /* of the transport's, under its lock */
	enum tcp_role role;
	pthread_mutex_t lock;
	int error;        /* 0, or what every call returns from now on */
	bool peer_closed; /* it said BYE */
	bool outlives_silence, closing; /* closing: by its user; the service thread lets the last bytes out */
	uint64_t closing_since_ns;
	/*
	 * By an owner, who moves its data, not the caller of test (transport.h). The doorbell is rung when somebody else has
	 * moved or ended the connection, for the owner's event is gone then.
	 */
	struct transport_watch watch;
	/* Streams that movers have, under the movers' lock. An error is told when there is none: no buffer is in use then. */
	_Atomic unsigned moving;
	_Atomic unsigned movers_wait, passed_over; /* for the lock; looks in a row that callers leave out for them */
	_Atomic bool leaves_movers;                /* no stream becomes theirs */
	bool ends; /* a stream's end was read while movers read others: they begin no more before these are heard */
	struct tcp_movers_time moved; /* since the caller's last look */
	_Atomic bool hurries; /* ticks come soon, by whoever has the lock: it lacks a stream, or long packets may be lost */
	bool unread; /* a turn ended before its sockets were empty */
	uint64_t id;
	uint8_t secret[TCP_WIRE_SECRET_BYTES];
	uint32_t listener_id;
	char peer_host[TCP_WIRE_HOST_BYTES];
	int device;
	int carrier; /* the device whose port carries it: its own, or that of another way */
	unsigned stream_count, stream_capacity, live_count, poll_count;
	/*
	 * Sets of streams. Wanted ones have a socket, or get one; active ones carry bytes, and at a sender of several the primary,
	 * which has no data. A receiver's are what the sender said last.
	 */
	uint64_t wanted, active;
	unsigned active_count;
	uint32_t changes; /* of active: what a sender said last counts */
	bool several; /* more than one was active at a time, or may come to be */
	uint64_t lost_ns; /* since when no stream is live */
	char lost_why[256]; /* why the last stream was lost, or the connection failed */
	/*
	 * Its process id, if it is on this host; else 0. Asked only when no stream is left: in a container with another
	 * namespace of process ids it may name nobody, and the connection ends without a redial.
	 */
	uint32_t peer_process;
	unsigned hot, used; /* streams on which something, at a receiver data, came last; hot: polled every time, others seldom */
	struct tcp_stream *streams; /* stream_count of them, and room for stream_capacity */
	uint64_t last_rx_ns, last_tick_ns;
	uint64_t now_ns;    /* the last reading of the clock under the lock */
	bool ready;         /* something came or was posted since the last progress: worth more than a look */
	size_t eager_bytes; /* sender: the longest message that goes out unasked */
	size_t eager_limit; /* the same by TRANSPORT_SET_EAGER_LIMIT alone: what is longer is received when its send is done */
	struct tcp_request requests[TRANSPORT_MAX_REQUESTS];
	TAILQ_HEAD(, tcp_request) open; /* not done yet, in the order of posting */
	unsigned request_count;
	struct transport_totals counted;   /* of sockets that it has lost, and what is no socket's */
	struct transport_totals counted_elsewhere; /* of all, what another carrier has */
	struct transport_counters sampled; /* all, as read last; under the transport's lock */
	bool reported;                     /* "waits since" was said for the present oldest request */
	struct tcp_sender s;
	struct tcp_receiver r;
	/* Receiver, while its streams are still coming in. */
	struct tcp_listener *listener;
	STAILQ_ENTRY(tcp_connection) ready_link;
	unsigned joined_count;
	uint64_t created_ns;
};

static inline bool tcp_stream_is_active(const struct tcp_connection *connection, unsigned index)
{
	return connection->active >> index & 1;
}
static inline void tcp_connection_use(struct tcp_connection *connection, uint64_t active)
{
	connection->active = active;
	connection->active_count = (unsigned)__builtin_popcountll(active);
}
static inline bool tcp_stream_is_wanted(const struct tcp_connection *connection, unsigned index)
{
	return connection->wanted >> index & 1;
}
/* Of several active streams the primary carries no data, behind which RTS would be late. */
static inline unsigned tcp_data_streams(const struct tcp_connection *connection)
{
	return connection->active_count > 1 ? connection->active_count - 1 : 1;
}
/* The first whose caller waits. */
static inline struct tcp_request *tcp_request_awaited(const struct tcp_connection *connection)
{
	struct tcp_request *first = TAILQ_FIRST(&connection->open);

	return first && first == connection->s.buffered ? TAILQ_NEXT(first, link) : first;
}

struct tcp_listener {
	struct tcp_transport *transport;
	LIST_ENTRY(tcp_listener) link;
	uint32_t id;
	int device;
	uint8_t secret[TCP_WIRE_SECRET_BYTES];
	STAILQ_HEAD(, tcp_connection) ready; /* to be accepted */
};

/*
 * A socket of a connection that was closed. If it ended with bytes unread, its kernel would throw away what the peer's has
 * not acknowledged, and that may be the last message or the word that it was received.
 */
struct tcp_lingering {
	LIST_ENTRY(tcp_lingering) link;
	int fd;
	uint64_t until_ns;
};

/* Connections of unauthenticated peers that were closed. */
struct tcp_rejected {
	uint64_t said_ns, unsaid; /* unsaid: since then */
	struct sockaddr_storage peer;
	char what[128];     /* of one that is unsaid */
	bool tells_version; /* which no other replaces */
};

struct tcp_transport {
	struct transport_devices devices; /* first; a member is an index in interfaces */
	const struct params *params;
	pthread_mutex_t lock;
	struct tcp_interface interfaces[TCP_INTERFACE_MAX];
	size_t interface_count;
	struct tcp_acceptor *acceptors[TCP_ACCEPTOR_MAX]; /* made at the first listen, on all interfaces */
	struct tcp_pending *pending;                      /* of them all, so many slots, in no order */
	unsigned pending_most, pending_count;
	uint16_t port, tied_port;                         /* where most of them listen; 0: none yet */
	uint64_t refreshed_ns, changed_ns, lacked_ns; /* addresses: last looked at; last changed; a receiver lacked its way */
	/* Ways that were tried in vain, and how many are being tried. */
	struct {
		uint64_t hash, at_ns;
	} failed_ways[TCP_FAILED_WAYS_MAX];
	unsigned racers;
	uint64_t split_ns; /* when a peer was last found not to be joined to all of our subnets */
	char host[TCP_WIRE_HOST_BYTES];
	/* A word is read up to a beat after it came, and its absence seen up to a beat late: silence_ns leaves them room. */
	uint64_t host_id, timeout_ns, silence_ns, beat_ns, stream_timeout_ns;
	LIST_HEAD(, tcp_listener) listeners;
	LIST_HEAD(, tcp_connector) connectors;
	LIST_HEAD(, tcp_connection) connections; /* live ones, half-joined ones, and closed ones that still empty */
	uint32_t next_listener_id;
	uint64_t next_connector_id;
	struct transport_service service;
	/* The service thread waits for the lock: until it has it, callers that poll get "not yet". */
	_Atomic bool service_waits;
	_Atomic uint64_t sends; /* posted so far, on all connections */
	/* Addresses that could be reached only as the system routes: hashes, the oldest is overwritten. */
	_Atomic uint64_t unpinned[TCP_UNPINNED_MAX];
	_Atomic unsigned unpinned_count;
	struct tcp_rejected rejected;
	LIST_HEAD(, tcp_lingering) lingering;
	unsigned lingering_count;
	bool bounds_windows; /* tcp_kernel_bounds_windows */
	struct tcp_growth_ways ways;
	struct tcp_mtu_ways mtu;
	struct tcp_movers movers;
};

/* What every call says: the error, once nothing uses the buffers of its requests. */
static inline int tcp_connection_error(const struct tcp_connection *connection)
{
	return atomic_load_explicit(&connection->moving, memory_order_acquire) ? 0 : connection->error;
}

/* stream.c. All under the connection's lock. */
int tcp_stream_init(struct tcp_connection *connection, unsigned index);
void tcp_stream_fini(struct tcp_stream *stream);
/* A new socket for it: positions start at 0. */
void tcp_stream_attach(struct tcp_stream *stream, int fd, uint32_t epoch, uint64_t now_ns);
/* Of this socket and of all that take its place. 0: no limit. */
void tcp_stream_limit_rate(struct tcp_stream *stream, uint64_t rate_Bps);
static inline bool tcp_stream_has_room(const struct tcp_stream *stream)
{
	return stream->tx_tail - stream->tx_head < TCP_TX_FRAMES;
}
static inline bool tcp_stream_has_unsent(const struct tcp_stream *stream)
{
	return stream->tx_next != stream->tx_tail;
}
/* Queues a frame; the caller checked tcp_stream_has_room. */
void tcp_stream_queue(struct tcp_stream *stream, const struct tcp_frame *frame, const void *payload);
/* Writes what is queued, or leaves it to movers. An error shows as the stream is read. keep: frames wait to be acknowledged. */
void tcp_stream_flush(struct tcp_stream *stream, bool keep, uint64_t now_ns);
/*
 * The same in three steps, so that the call can be made without the lock: what is to be written, at most `most` bytes (false:
 * nothing); the call; what it has brought (false: the socket takes no more now).
 */
bool tcp_stream_write_begin(struct tcp_stream *stream, size_t most, struct tcp_call *ret);
ssize_t tcp_stream_write(struct tcp_call *call);
bool tcp_stream_write_end(struct tcp_stream *stream, const struct tcp_call *call, ssize_t r, bool keep, uint64_t now_ns);
bool tcp_stream_carries(const struct tcp_stream *stream, uint64_t position); /* unacknowledged, more than signs of life */
/* Frames that are written and acknowledged are let go. */
void tcp_stream_let_go(struct tcp_stream *stream);
/* When `bytes` came since `then_ns`: from when on as many as are worth a system call will have come; 0: at once. */
uint64_t tcp_stream_worth_from(uint64_t bytes, uint64_t then_ns, uint64_t now_ns);
/* read.c. Reads once, at most `most` beyond the payload under way, and hands on what came. *ret_more: there may be more. */
int tcp_stream_read(struct tcp_connection *connection, struct tcp_stream *stream, size_t most, bool *ret_more);
/* What has come of a payload is left to movers once it is worth it, or has waited. False: it is to be read here. */
bool tcp_stream_is_left_to_movers(struct tcp_connection *connection, struct tcp_stream *stream);
/* The payload under way has its place for good, so the call may be made without the lock. */
bool tcp_stream_is_moved_in(const struct tcp_stream *stream);
/* In three steps, as writing: at most payload_most of the payload under way (-EAGAIN: not now), the call, what it has brought. */
int tcp_stream_read_begin(struct tcp_connection *connection, struct tcp_stream *stream, size_t most, size_t payload_most,
			  struct tcp_call *ret);
ssize_t tcp_stream_read_call(struct tcp_call *call);
int tcp_stream_read_end(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_call *call,
			ssize_t got, bool *ret_more);

/* request.c */
/* What a receiver tells goes out on it; NULL: no stream is live. */
struct tcp_stream *tcp_connection_primary(struct tcp_connection *connection);
struct tcp_request *tcp_request_get(struct tcp_connection *connection, enum tcp_request_kind kind, uint64_t now_ns);
void tcp_request_release(struct tcp_request *request);
/* A receiver that has failed: what lies whole in the window can still be received, but nothing comes. */
void tcp_receiver_failed(struct tcp_connection *connection);
/* Sets the error, once, says so, and drops every socket. */
void tcp_connection_fail(struct tcp_connection *connection, int error, const char *why);

/* sender.c */
int tcp_sender_init(struct tcp_connection *connection);
/* Room for all that so many streams may leave to be sent again. -ENOMEM. */
int tcp_sender_grow(struct tcp_connection *connection, unsigned stream_count);
int tcp_sender_send(struct tcp_connection *connection, void *data, size_t bytes, int tag, uint64_t now_ns,
		    struct tcp_request **ret);
/* Whether a send whose FIN is late is done without it: its data is the caller's again, and its request ours. */
bool tcp_sender_buffer(struct tcp_connection *connection, struct tcp_request *request);
int tcp_sender_frame(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns);
void tcp_sender_call_ended(struct tcp_connection *connection); /* what only that kept from being done is done */
/* The receiver has said how many unscheduled bytes may be on their way. */
void tcp_sender_may_begin(struct tcp_connection *connection, uint64_t bytes);
/* True: bytes wait for a socket to take them. */
bool tcp_sender_pump(struct tcp_connection *connection, uint64_t now_ns);
/* Behind all that is still to be sent again; nothing may be sent after it. */
void tcp_sender_say_bye(struct tcp_connection *connection, uint64_t now_ns);
/* The open request of that message, or NULL. */
struct tcp_request *tcp_sender_find(const struct tcp_connection *connection, uint32_t message);
/* Nothing that the peer still needs is left here. */
bool tcp_sender_is_empty(const struct tcp_connection *connection);

/* stripe.c */
/* The longest frame of a message with RTS. */
size_t tcp_stripe_segment(const struct tcp_connection *connection);
/*
 * The stream that would be through with one more segment first; NULL when every one has enough. Of several the primary has no
 * data, as long as another one lives.
 */
struct tcp_stream *tcp_stripe_pick(struct tcp_connection *connection);
/* The same of all that have room for RTS and DATA, also of those that have enough; NULL only where tcp_stripe_room is 0. */
struct tcp_stream *tcp_stripe_least(struct tcp_connection *connection);
unsigned tcp_stripe_room(struct tcp_connection *connection); /* so many times */

/* receiver.c */
int tcp_receiver_init(struct tcp_connection *connection);
int tcp_receiver_receive(struct tcp_connection *connection, int count, void *const *data, const size_t *bytes,
			 const int *tags, uint64_t now_ns, struct tcp_request **ret);
int tcp_receiver_frame(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_frame *frame,
		       uint64_t now_ns);
/* `bytes` of the payload under way are in place. */
int tcp_receiver_payload(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t bytes, uint64_t now_ns);
/* An eager frame whose stream died half-way: as if it had never begun. */
void tcp_receiver_forget_partial(struct tcp_connection *connection, struct tcp_stream *stream);
void tcp_receiver_fini(struct tcp_connection *connection);

/* feedback.c */
void tcp_receiver_flush(struct tcp_connection *connection, uint64_t now_ns);
/* Data of a long message may come: what is read beyond a payload must stay within the uncounted copy. */
bool tcp_receiver_expects_data(const struct tcp_connection *connection);
/* Nobody's budget waits for what has arrived: it may lie in the socket for a moment. */
bool tcp_receiver_may_rest(const struct tcp_connection *connection);
bool tcp_receiver_has_to_tell(const struct tcp_connection *connection);
/* A matched message lacks a grant, which may be given when other connections receive. */
bool tcp_receiver_waits_for_grant(struct tcp_connection *connection);
/* All that the sender cannot do without is told again: the stream that carried it is gone. */
void tcp_receiver_retell(struct tcp_connection *connection);
/* Which messages are done, all once more, ahead of BYE on this stream: it may overtake what another one carries. */
void tcp_receiver_tell_last(struct tcp_connection *connection, uint64_t now_ns);

/* failover.c */
/* This socket is done for. Moves on to the others, or fails the connection. */
void tcp_failover_lost(struct tcp_connection *connection, struct tcp_stream *stream, const char *why, uint64_t now_ns);
/* Sender: the receiver said how far it got. -EPROTO. */
int tcp_failover_dead(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns);
/* Receiver: the sender asks to stop a stream. */
void tcp_failover_suspect(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns);
/* Either side, from time to time, the last one at looked_ns: silent streams, heartbeats, a silent peer. */
void tcp_failover_watch(struct tcp_connection *connection, uint64_t looked_ns, uint64_t now_ns);
/* Receiver: the sender has dialled a dead stream anew. Takes fd, unless an error is returned. */
int tcp_failover_rejoin(struct tcp_connection *connection, unsigned index, uint32_t epoch, int fd,
			const struct sockaddr_storage *peer, uint64_t now_ns);
/* A sender's first stream is the primary again as soon as what another one carries in its place has arrived. */
void tcp_failover_restore_primary(struct tcp_connection *connection);
/* Which streams are active. */
struct tcp_frame tcp_failover_heartbeat(const struct tcp_connection *connection);
/* A stream that was lost, or is new, has a socket. */
void tcp_failover_attach(struct tcp_connection *connection, struct tcp_stream *stream, int fd, uint32_t epoch,
			 uint64_t now_ns);
/* A new socket of a connection that may be watched; one that cannot be is lost. */
void tcp_failover_watch_stream(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t now_ns);

/* connection.c; connection lock held in watch and unwatch */
/*
 * The sockets, present and future, join the owner's epoll set, so each turn reads a socket until it is empty, or says that it
 * did not.
 */
int tcp_connection_watch(struct tcp_connection *connection, int epoll_fd, uint64_t key);
void tcp_connection_unwatch(struct tcp_connection *connection);
/* One that takes more of the window would mostly not find room, and go by RTS. */
size_t tcp_eager_most(const struct tcp_transport *transport);
/* carrier: of the devices the one whose port carries it. */
int tcp_connection_new(struct tcp_transport *transport, enum tcp_role role, int device, int carrier,
		       unsigned stream_count, unsigned active_count, struct tcp_connection **ret);
/* So many streams at least, new ones without a socket. -ENOMEM: as before. Connection lock held. */
int tcp_connection_grow(struct tcp_connection *connection, unsigned stream_count);
/* A wanted stream has no socket, and it is time to dial it, or how far the receiver got is to be asked again. */
bool tcp_connection_lacks_stream(const struct tcp_connection *connection, uint64_t now_ns);
void tcp_connection_free(struct tcp_connection *connection);
/* One that is in the transport's list. Transport lock held. */
void tcp_connection_remove(struct tcp_connection *connection);
/* progress.c */
void tcp_connection_progress(struct tcp_connection *connection);
void tcp_connection_poll(struct tcp_connection *connection); /* the same for callers, and what is due */
/* After a read, with what it returned: the stream or the connection may be lost. heard: something came. */
void tcp_connection_read(struct tcp_connection *connection, struct tcp_stream *stream, int r, bool heard);
/* After reading, what there is to say or to send. all: every stream was read, or may have been. */
void tcp_connection_answer(struct tcp_connection *connection, bool all);
/* For an owner who was woken by one of its sockets. */
int tcp_watch_progress(struct tcp_connection *connection, enum transport_next *ret_next);
/* What has to be done every beat, by the service thread or by a caller that holds the lock all the time. */
void tcp_connection_tick(struct tcp_connection *connection, uint64_t now_ns);
int tcp_connection_test(struct tcp_request *request, bool *ret_done, size_t *sizes);
void tcp_connection_close(struct tcp_connection *connection);

/* service.c */
int tcp_service_start(struct tcp_transport *transport); /* transport lock held; running already: fine */

/* report.c; connection lock held. */
void tcp_report_waiting(struct tcp_connection *connection, uint64_t now_ns);

#endif
