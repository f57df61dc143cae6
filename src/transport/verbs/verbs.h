/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures shared by the files of this folder (docs/design/transport.md).
 *
 * A connection is one or several queue pairs on one or several rails, and beside them a control connection of the TCP
 * transport in each direction: it carries the handshake, shows that the peer lives, and is what remains when queues fail.
 * Data goes straight into receives that the peer has announced; what is said about it goes in descriptors, which each side
 * writes into a ring in the other's memory. Nothing is ever sent that finds no posted receive at the other end's queue:
 * descriptors and data are counted, and their credit comes back in descriptors.
 *
 * Memory of GPUs is written and read by cards alone: by queue pairs with themselves where no peer does it (loopback.c).
 *
 * handshake.c makes a connection; then sender.c and receiver.c hold the roles, ring.c the descriptors, queue.c the queue pairs,
 * completion.c hands on what came, failover.c what happens when one fails, reserve.c what stands by, control.c the frames,
 * life.c what shows that the peer lives without them, connection.c what is common. progress.c calls them all, service.c is
 * the one thread, which ends what nobody finishes and looks at connections that nobody else looks at.
 *
 * Locks: verbs_transport.lock (connectors, devices, pace, the list of connections), then verbs_connection.lock (all else in
 * it), then the TCP transport's own and that of the paths. The service thread only tries a connection's.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_VERBS_H
#define TRIBUTARY_TRANSPORT_VERBS_VERBS_H

#include "base/params.h"
#include "transport/devices.h"
#include "transport/pace/pace.h"
#include "transport/service.h"
#include "transport/verbs/device.h"
#include "transport/verbs/life.h"
#include "transport/verbs/path.h"
#include "transport/verbs/wire.h"
#include "transport/watch.h"

#include <sys/queue.h>

enum {
	VERBS_ITEMS = 64,         /* on the way in one queue */
	VERBS_ITEMS_OF_DATA = 56, /* of them at most so many are data: descriptors always find a place */
	VERBS_DATA_CREDIT = 48,   /* data notices of one queue that the peer has not been seen to take */
	VERBS_QUEUE_RECEIVES = VERBS_WIRE_DESCRIPTORS + VERBS_DATA_CREDIT + 8,
	VERBS_QUEUE_SENDS = 2 * VERBS_ITEMS, /* an eager message is two work requests */
	VERBS_RING_RESERVE = 4,              /* entries that only credits may use: they are what frees the others */
	VERBS_WINDOW_BYTES = 64 << 10,
	VERBS_WINDOW_UNIT = 512, /* the least that an eager message takes: bounds their number */
	VERBS_UNEXPECTED = VERBS_WINDOW_BYTES / VERBS_WINDOW_UNIT,
	/*
	 * Behind the window, for messages that are copied. They are no part of it, for an eager message may wait in the window
	 * until its receive is posted, and that for such a message.
	 */
	VERBS_PIECES = 4,
	VERBS_PIECE_BYTES = 16 << 10,
	/* Behind those, for each queue: of data whose notice came with none of its bytes, how many they were (fabric.h). */
	VERBS_LENGTHS = 64, /* more than VERBS_DATA_CREDIT */
	VERBS_LENGTHS_AT = VERBS_WINDOW_BYTES + VERBS_PIECES * VERBS_PIECE_BYTES,
	VERBS_PLACES_BYTES = VERBS_LENGTHS_AT + VERBS_WIRE_QUEUES_MAX * VERBS_LENGTHS * 4,
	VERBS_OFFERS = TRANSPORT_MAX_REQUESTS * TRANSPORT_MAX_RECVS,
	VERBS_AGAIN = VERBS_WIRE_QUEUES_MAX * VERBS_ITEMS,
	VERBS_FRAMES = 64,
	VERBS_INLINE_BYTES = 220,
	VERBS_FLUSHES = 16,    /* outstanding, beside the other requests */
	VERBS_LOOP_SENDS = 32, /* on the way in one loop */
	VERBS_LOOP_FIRST = 64, /* loops in the names of work requests: above every queue's index */
	VERBS_TURNS = VERBS_UNEXPECTED + VERBS_PIECES + VERBS_FLUSHES * VERBS_WIRE_RAILS_MAX,
};

_Static_assert((int)VERBS_INLINE_BYTES <= (int)VERBS_WIRE_DESCRIPTOR_BYTES, "what goes inline fits a word");

struct verbs_connection;

/* ---- memory of the caller ---- */

struct verbs_registration {
	LIST_ENTRY(verbs_registration) link;                 /* of the connection's */
	struct verbs_memory *memories[VERBS_WIRE_RAILS_MAX]; /* by rail of the connection; NULL: its card was lost */
	bool stays;                                          /* by the user, not for a request */
	bool gpu;                                            /* the CPU must not touch it */
	bool copied;                                         /* no device took it: messages are copied */
};

/* ---- rails and queues ---- */

/* A queue pair with itself: how a receiver has the card write and read memory of GPUs (loopback.c). */
struct verbs_loop {
	struct ibv_qp *qp; /* NULL: to be made, not before build_at_ns */
	uint32_t epoch;
	unsigned posted;
	uint64_t build_at_ns, dark_since_ns; /* dark: a step saw its port up last */
};

struct verbs_rail {
	struct verbs_port *port;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	unsigned events;            /* taken from the channel and not acknowledged */
	struct verbs_memory *block; /* of the connection's own memory */
	struct verbs_loop loop;
	bool unflushed;       /* it has written what no read has followed yet */
	bool used, told_down; /* something may complete there; its port is down, and the peer was told */
};

enum verbs_queue_state {
	VERBS_QUEUE_NONE,       /* no queue pair */
	VERBS_QUEUE_CONNECTING, /* a thread connects it, and nobody else touches the queue pair */
	VERBS_QUEUE_JOINING,    /* made, not yet connected at both ends */
	VERBS_QUEUE_PROVING,    /* connected; its first write, of no bytes, is not delivered yet */
	VERBS_QUEUE_LIVE,
	VERBS_QUEUE_STOPPING, /* in the error state; what it had received is not all taken yet */
	VERBS_QUEUE_STOPPED,  /* told so; the peer has not said the same yet */
	VERBS_QUEUE_RESTING,  /* both have: what was not delivered goes elsewhere; to be built anew */
	VERBS_QUEUE_STATE_COUNT
};

enum verbs_item_kind { VERBS_ITEM_DESCRIPTOR, VERBS_ITEM_DATA, VERBS_ITEM_PROOF };
struct verbs_item {
	enum verbs_item_kind kind;
	bool whole;
	uint64_t descriptor;           /* its sequence number */
	struct verbs_request *request; /* of data, and of a message's descriptors; else NULL */
	uint64_t offset;
	uint32_t bytes;
};

struct verbs_queue {
	unsigned index, rail, peer_rail;
	enum verbs_queue_state state;
	struct ibv_qp *qp;
	uint32_t epoch, psn;
	struct verbs_wire_queue peer;
	struct verbs_try try;
	unsigned inline_bytes;
	/* Each item brings the peer one notice: what it has counted says which items arrived. */
	struct verbs_item items[VERBS_ITEMS];
	uint64_t head, tail; /* of this epoch: completed, posted */
	uint64_t notices;    /* of this epoch: received */
	unsigned receives;   /* posted */
	/* Data notices since the beginning of the connection, without those that were lost with an epoch. */
	uint64_t data_sent, data_known, data_taken, data_told;
	/* Failing over. */
	bool peer_stopped;
	uint64_t peer_notices;
	uint64_t stopping_since_ns, build_at_ns, build_wait_ns;
	uint64_t rested_ns, lone_wait_ns; /* since when; for so long also where no other queue is live */
	uint64_t path_asked_ns;           /* when it was last asked whether its path may be tried */
	uint64_t waits_since_ns;          /* its oldest item, which is this one: it must be delivered or fail in time */
	uint64_t waits_for;
	bool build_asked, spare;
};

/* ---- descriptors ---- */

struct verbs_ring_out {
	uint8_t *copy;                   /* what is written into the peer's memory, in our own */
	uint64_t written, posted, taken; /* descriptors made, sent (of those made), and known to be taken by the peer */
	uint16_t bytes[VERBS_WIRE_DESCRIPTORS];
	struct verbs_request *requests[VERBS_WIRE_DESCRIPTORS]; /* of a message */
	uint32_t places[VERBS_WIRE_DESCRIPTORS];  /* where its payload goes, from the window's beginning */
	uint32_t payload[VERBS_WIRE_DESCRIPTORS]; /* bytes of it; 0: none */
	uint64_t offsets[VERBS_WIRE_DESCRIPTORS]; /* and where they begin in the message */
	bool staged[VERBS_WIRE_DESCRIPTORS];      /* they lie in `stage`, at the same place */
	bool credit[VERBS_WIRE_DESCRIPTORS];      /* descriptors that bring nothing else */
};
struct verbs_ring_in {
	const uint8_t *memory; /* the peer writes here */
	uint64_t taken, told;
	uint32_t notices; /* of descriptors, not looked at yet */
};

/* ---- requests ---- */

enum verbs_request_kind { VERBS_REQUEST_SEND, VERBS_REQUEST_RECEIVE, VERBS_REQUEST_FLUSH };

struct verbs_slot {
	uint8_t *data;
	size_t bytes;
	int tag;
	bool matched, sized, done;
	bool paced; /* added to the pace */
	uint64_t size, received, granted_told;
	uint64_t placed; /* of what is copied, also what the card is still putting in its place */
	struct pace_message pace;
	struct verbs_registration *registration;
	bool own_registration; /* made for this receive alone */
};

struct verbs_request {
	TAILQ_ENTRY(verbs_request) link; /* of those that are open */
	struct verbs_connection *connection;
	enum verbs_request_kind kind;
	bool used, done;
	struct verbs_registration *registration;
	bool own_registration;
	uint64_t descriptor; /* the one that told of the receive, or of that which a send goes into */
	/* A send. */
	uint8_t *data;
	size_t size;
	int tag;
	bool has_slot, announced, all_posted;
	bool promised;
	bool copied; /* its bytes go in pieces */
	struct verbs_wire_slot slot;
	uint64_t posted, granted;
	unsigned open_items; /* of a flush: its reads */
	unsigned refusals;   /* by a device, since something of it was delivered */
	/* A group of receives. */
	unsigned count, open_count;
	uint32_t generation;
	bool told, receive_promised;
	struct verbs_slot slots[TRANSPORT_MAX_RECVS];
};

/* ---- roles ---- */

struct verbs_offer {
	struct verbs_wire_slot slot;
	uint64_t descriptor; /* that told of it */
	bool promised;
};
/* A piece whose queue stopped before it was delivered. */
struct verbs_piece {
	struct verbs_request *request;
	uint64_t offset;
	uint32_t bytes;
	bool whole;
};

/* An eager message, by its number on this connection: the window holds so few that 32 bits tell them apart. */
struct verbs_unmatched {
	uint32_t number;
	int tag;
};

struct verbs_sender {
	struct verbs_offer offers[VERBS_OFFERS]; /* receives that nothing was sent for yet, oldest first */
	unsigned offer_count;
	struct verbs_unmatched
		unmatched[VERBS_UNEXPECTED]; /* eager messages whose receive is not known yet, oldest first */
	unsigned unmatched_count;
	uint32_t eager_number; /* of the next */
	uint64_t window_begin, window_end;
	uint32_t pieces_free, pieces_sent;
	bool room_asked;
	struct verbs_piece again[VERBS_AGAIN];
	unsigned again_count;
	size_t eager_bytes;
	uint8_t *
		stage; /* as large as the peer's window and pieces: what goes there from memory that is not registered */
};

struct verbs_unexpected {
	uint32_t number;
	int tag;
	bool waits, moves; /* for a receive; the card is about to put it into one */
	uint32_t place;    /* from the window's beginning */
	uint64_t size, place_end;
};

/* What a loop has to do. */
struct verbs_turn {
	uint32_t id;
	unsigned rail;
	bool posted;
	uint64_t since_ns;
	struct verbs_request *request;
	struct verbs_slot *slot; /* that an eager message goes into; NULL: a flush */
	struct verbs_unexpected *unexpected;
	uint64_t address; /* to be written, or read by a flush */
	uint32_t bytes;   /* written */
	uint32_t place;   /* from the window's beginning */
	uint32_t keys[VERBS_WIRE_RAILS_MAX];
};
struct verbs_receiver {
	struct verbs_unexpected unexpected[VERBS_UNEXPECTED];
	uint32_t unexpected_head, unexpected_tail; /* of all that still hold a place in the window */
	unsigned waiting_count;                    /* of them, those without a receive */
	/* Numbers of those that were matched with receives that were not told of: the sender shall strike them off. */
	uint32_t matched[VERBS_UNEXPECTED];
	unsigned matched_count;
	unsigned untold_count; /* open requests that the sender has not been told of: the ring had no room */
	struct verbs_unexpected pieces[VERBS_PIECES];
	uint32_t pieces_free, pieces_told, pieces_taken;
	uint8_t *window;
	uint64_t window_free, window_told, window_end;
	bool room_wanted;
	unsigned paced_count;
	struct pace *pace;
	struct pace_sender sender;
	bool has_loops;
	struct verbs_turn turns[VERBS_TURNS]; /* oldest first */
	unsigned turn_count;
	uint32_t turn_id;
	uint8_t *scratch; /* what flushes read goes here */
};

/* ---- control ---- */

struct verbs_control {
	struct transport_connection *out, *in;
	struct transport_request *sending, *receiving;
	uint8_t sent[VERBS_WIRE_FRAME_BYTES], received[VERBS_WIRE_FRAME_BYTES];
	struct verbs_wire_frame frames[VERBS_FRAMES];
	unsigned frame_head, frame_tail;
	bool unread; /* of a watched one: no event tells what is still there */
};

/* ---- connections ---- */

enum verbs_role { VERBS_SENDER, VERBS_RECEIVER };

/*
 * state    | what it has                                              | left by
 * making   | queue pairs, and a handshake that owns it                | READY at both ends: stands; an error: closed
 * stands   | a place in the transport's list; the service looks at it | error set, at the end of that call: ended
 * ended    | the same without queue pairs; what came before is there  | closed
 */
enum verbs_connection_state { VERBS_CONNECTION_MAKING, VERBS_CONNECTION_STANDS, VERBS_CONNECTION_ENDED };

struct verbs_connection {
	struct verbs_transport *transport;
	LIST_ENTRY(verbs_connection) link; /* under the transport's lock */
	enum verbs_connection_state state;
	pthread_mutex_t lock;
	uint64_t progressed_ns;
	unsigned ready; /* counts what came */
	enum verbs_role role;
	int error;                     /* 0, or what every call returns from now on */
	char why[256];                 /* the same in words */
	bool peer_closed, reserve_off; /* the reserve has refused something */
	unsigned rail_count, queue_count, live_count;
	unsigned own_rail_count, own_queue_count; /* the device's; behind them the reserve and the spare (reserve.h) */
	struct verbs_rail rails[VERBS_WIRE_RAILS_MAX];
	struct verbs_queue queues[VERBS_WIRE_QUEUES_MAX];
	struct verbs_wire_hello peer;                /* what it said at first */
	uint64_t peer_down_ns[VERBS_WIRE_RAILS_MAX]; /* when it said that this rail's port is down; 0: it is not */
	uint8_t service_level, traffic_class;
	unsigned primary;        /* the queue that carries our descriptors */
	unsigned next_queue;     /* to look at for data */
	bool settled;            /* false: the primary stopped, and which descriptors arrived is not known yet */
	uint64_t stuck_since_ns; /* a queue was lost then, and nothing has arrived since; 0: all is well */
	unsigned refusals;       /* by a device, of descriptors, since one was delivered */
	uint8_t *block;          /* rings, window and pieces, registered with every rail */
	size_t block_bytes;
	struct verbs_ring_out out;
	struct verbs_ring_in in;
	struct verbs_control control;
	struct verbs_life life;
	uint64_t tried_ns[VERBS_WIRE_RAILS_MAX][VERBS_WIRE_RAILS_MAX]; /* by the spare: own rail, peer's */
	uint64_t looked_ns;                                            /* at the control connection and the devices */
	LIST_HEAD(, verbs_registration) registrations;
	struct verbs_request requests[TRANSPORT_MAX_REQUESTS + VERBS_FLUSHES];
	TAILQ_HEAD(, verbs_request) open; /* not done yet, in the order of posting */
	unsigned request_count;
	struct transport_watch watch;
	union {
		struct verbs_sender s;
		struct verbs_receiver r;
	};
};

/* What an eager message takes of the window. */
static inline uint64_t verbs_window_used(uint64_t bytes)
{
	return bytes ? (bytes + VERBS_WINDOW_UNIT - 1) / VERBS_WINDOW_UNIT * VERBS_WINDOW_UNIT : VERBS_WINDOW_UNIT;
}

/* The key for the peer; nothing goes by a card that is lost. */
static inline uint32_t verbs_registration_rkey(const struct verbs_registration *registration, unsigned rail)
{
	return registration->memories[rail] ? registration->memories[rail]->mr->rkey : 0;
}

struct verbs_listener {
	struct verbs_transport *transport;
	int device;
	struct transport_listener *control;
	TAILQ_HEAD(, verbs_handshake) pending;
	unsigned pending_count;
};

_Static_assert((int)VERBS_PORTS_MAX <= (int)TRANSPORT_PHYSICAL_MAX, "each is a device");

struct verbs_transport {
	struct transport_devices devices; /* first; a member is an index in cards.ports */
	const struct params *params;
	struct params control_params; /* of the TCP transport below */
	const struct verbs_api *api;
	struct transport *control;
	pthread_mutex_t lock;
	struct verbs_devices cards;
	int control_devices[TRANSPORT_DEVICES_MAX]; /* of the TCP transport, for each */
	uint64_t host_id;
	char host[40];
	struct verbs_paths paths;
	TAILQ_HEAD(, verbs_handshake) connectors;
	LIST_HEAD(, verbs_connection) connections; /* that stand */
	uint64_t next_connector_id;
	_Atomic uint64_t listened_ns;
	struct transport_service service;
};

/* queue.c */
/* A queue pair in the state that can be connected, with its receives posted. */
int verbs_queue_create(struct verbs_connection *connection, struct verbs_queue *queue);
/* Begins to connect it to queue->peer. */
int verbs_queue_connect(struct verbs_connection *connection, struct verbs_queue *queue);
/* False: not yet. Else *ret_result is 0 and the queue can write and be written to, or it is the error. */
bool verbs_queue_connected(struct verbs_queue *queue, int *ret_result);
struct verbs_path_ends verbs_queue_ends(const struct verbs_connection *connection, const struct verbs_queue *queue);
/* What the peer must know of it; number 0: there is no queue pair. */
struct verbs_wire_queue verbs_queue_itself(const struct verbs_connection *connection, const struct verbs_queue *queue);
/* Waits for one that is being connected. */
void verbs_queue_destroy(struct verbs_connection *connection, struct verbs_queue *queue);
int verbs_queue_to(struct verbs_connection *connection, struct verbs_queue *queue, enum ibv_qp_state state);
struct verbs_pair_options verbs_queue_options(const struct verbs_connection *connection);
static inline bool verbs_queue_has_room(const struct verbs_queue *queue)
{
	return queue->tail - queue->head < VERBS_ITEMS;
}
/* Post one item each. The caller looked for room; an error means that the queue has failed. */
int verbs_queue_post_descriptor(struct verbs_connection *connection, struct verbs_queue *queue, uint64_t descriptor);
int verbs_queue_post_data(struct verbs_connection *connection, struct verbs_queue *queue, struct verbs_request *request,
			  uint64_t offset, uint32_t bytes, bool whole);
int verbs_queue_post_receive(struct verbs_connection *connection, struct verbs_queue *queue);
/* It has failed: nothing more goes over it. failover.c does the rest. */
void verbs_queue_lost(struct verbs_connection *connection, struct verbs_queue *queue, const char *why);
/* Its path has failed: the queue could not be connected, or carries nothing. */
void verbs_queue_failed(struct verbs_connection *connection, const struct verbs_queue *queue);
void verbs_queue_moved(struct verbs_connection *connection); /* something of a message has arrived, at either end */
/* A queue for data, by turns, that has room; NULL: none. */
struct verbs_queue *verbs_queue_for_data(struct verbs_connection *connection);
/* Nothing but a notice, which tells nothing: whether it arrives is what matters. */
int verbs_queue_post_proof(struct verbs_connection *connection, struct verbs_queue *queue);
void verbs_queue_proven(struct verbs_connection *connection, struct verbs_queue *queue); /* that arrived */
/* It takes what the peer writes. */
static inline bool verbs_queue_stands(const struct verbs_queue *queue)
{
	return queue->state == VERBS_QUEUE_JOINING || queue->state == VERBS_QUEUE_PROVING ||
	       queue->state == VERBS_QUEUE_LIVE;
}

/* ring.c */
bool verbs_ring_has_room(const struct verbs_connection *connection);
/*
 * Makes the next descriptor: *descriptor's sequence and credit are filled in, and `extra` follows its head. The caller
 * looked for room. Returns its sequence number.
 */
uint64_t verbs_ring_put(struct verbs_connection *connection, struct verbs_descriptor *descriptor, const void *extra,
			size_t extra_bytes);
/* Sends what was made, as far as the primary has room. */
void verbs_ring_flush(struct verbs_connection *connection);
/* Says what was taken: if the peer may run dry; at once, as a sign of life, or to ask for one. False: there is no room. */
void verbs_ring_credit(struct verbs_connection *connection);
bool verbs_ring_beat(struct verbs_connection *connection, bool asks);
/*
 * Data for a receive shows that the descriptor that told of it, and so each before it, has been taken: the receiver has seen
 * that, and the sender has shown it, which needs no descriptor of its own. Data that is lost has shown nothing.
 */
static inline void verbs_ring_seen(struct verbs_connection *connection, uint64_t descriptor)
{
	struct verbs_ring_out *out = &connection->out;

	if (descriptor > out->taken && descriptor <= out->written)
		out->taken = descriptor;
}

static inline void verbs_ring_shown(struct verbs_connection *connection, uint64_t descriptor)
{
	struct verbs_ring_in *in = &connection->in;

	if (descriptor > in->told && descriptor <= in->taken)
		in->told = descriptor;
}

static inline void verbs_ring_shown_nothing(struct verbs_connection *connection)
{
	connection->in.told = connection->in.taken - VERBS_WIRE_DESCRIPTORS / 2;
}

/* sender.c */
int verbs_sender_send(struct verbs_connection *connection, void *data, size_t bytes, int tag,
		      struct verbs_registration *registration, struct verbs_request **ret);
int verbs_sender_descriptor(struct verbs_connection *connection, const struct verbs_descriptor *descriptor,
			    const uint8_t *extra);
void verbs_sender_pump(struct verbs_connection *connection);
/* An item has been delivered; by verbs_completion_delivered(). */
void verbs_sender_delivered(struct verbs_connection *connection, const struct verbs_item *item);
/* An item was not, and will not be by its queue. */
void verbs_sender_lost(struct verbs_connection *connection, const struct verbs_item *item);

/* receiver.c */
int verbs_receiver_receive(struct verbs_connection *connection, int count, void *const *data, const size_t *bytes,
			   const int *tags, void *const *registrations, struct verbs_request **ret);
int verbs_receiver_descriptor(struct verbs_connection *connection, const struct verbs_descriptor *descriptor,
			      const uint8_t *extra);
/* Data that was written into a receive. */
int verbs_receiver_data(struct verbs_connection *connection, uint32_t notice, uint32_t bytes);
/* Grants, and room in the window that is waited for. */
void verbs_receiver_tell(struct verbs_connection *connection);
bool verbs_receiver_has_unexpected(const struct verbs_connection *connection);
/* An eager message, or a piece, is where it belongs. */
void verbs_receiver_moved(struct verbs_connection *connection, const struct verbs_turn *turn);
void verbs_receiver_end(struct verbs_connection *connection);

/* loopback.c: of receivers */
/* From now on memory of GPUs may be received into. */
int verbs_loop_open(struct verbs_connection *connection);
void verbs_loop_close(struct verbs_connection *connection);
/* The card puts an eager message, or a piece, from its place into its receive; verbs_receiver_moved() when it has. */
void verbs_loop_move(struct verbs_connection *connection, struct verbs_request *request, struct verbs_slot *slot,
		     struct verbs_unexpected *unexpected);
/* Reads there by each rail that has written. *ret NULL: none has. */
int verbs_loop_flush(struct verbs_connection *connection, const void *data,
		     const struct verbs_registration *registration, struct verbs_request **ret);
/* Posts what waits, makes what broke. */
void verbs_loop_step(struct verbs_connection *connection);
/* True: *ret has put what it moves in its place. */
bool verbs_loop_completed(struct verbs_connection *connection, unsigned rail, const struct ibv_wc *wc,
			  struct verbs_turn *ret);

/* completion.c */
/* Takes what the queues have to say, at most so many for each rail. *ret_more: there may be more. */
void verbs_completion_poll(struct verbs_connection *connection, unsigned most, bool *ret_more);
/* An item has arrived. */
void verbs_completion_delivered(struct verbs_connection *connection, const struct verbs_item *item);
/* Takes the descriptors that notices have told of. 0 or an error. */
int verbs_completion_take(struct verbs_connection *connection);

/* failover.c */
/* The connection has just been made: its queues prove themselves, and those that are not connected are built later. */
void verbs_failover_begin(struct verbs_connection *connection);
void verbs_failover_frame(struct verbs_connection *connection, const struct verbs_wire_frame *frame);
/* Now and then: drains, rebuilds, gives up. */
void verbs_failover_step(struct verbs_connection *connection, uint64_t now_ns);

/* control.c */
#define VERBS_TOO_LONG "a message was longer than the receive that it matched"
/* From now on every call gives this error, which is returned; the first one counts. */
int verbs_connection_fail(struct verbs_connection *connection, int error, const char *why);
/* The end, and why: a message was longer than the receive that it matched. */
int verbs_control_truncated(struct verbs_connection *connection);
int verbs_control_say(struct verbs_connection *connection, const struct verbs_wire_frame *frame);
/* Why the control connection is lost, and which ports are down. Returns text, or a literal. */
const char *verbs_control_why(struct verbs_connection *connection, char *text, size_t bytes);
/* Adds which ports are down. Returns text. */
const char *verbs_control_ports(const struct verbs_connection *connection, char *text, size_t bytes);
/* Sends what is to be said. An error: the peer is gone. */
int verbs_control_push(struct verbs_connection *connection);
/* One whole frame, for the handshake: 1 when it is through, 0 not yet. *request is the caller's place. */
int verbs_control_send_bytes(struct transport_connection *out, uint8_t bytes[static VERBS_WIRE_FRAME_BYTES],
			     struct transport_request **request);
int verbs_control_receive_bytes(struct transport_connection *in, uint8_t bytes[static VERBS_WIRE_FRAME_BYTES],
				struct transport_request **request);
void verbs_control_close(struct verbs_connection *connection);

/* connection.c */
size_t verbs_eager_most(const struct verbs_transport *transport); /* the longest message that goes into the window */
/* With `queues` queue pairs, fewer where they cannot be had (said once); at least one. */
int verbs_connection_new(struct verbs_transport *transport, enum verbs_role role, int device, int traffic_class,
			 unsigned queues, struct verbs_connection **ret);
int verbs_connection_watch(struct verbs_connection *connection, int epoll_fd, uint64_t key);
void verbs_connection_close(struct verbs_connection *connection); /* half-built ones too; NULL is fine */
/* What we say of ourselves. */
void verbs_connection_hello(const struct verbs_connection *connection, struct verbs_wire_hello *ret);
/* Takes what the peer said; begins to connect every queue. */
int verbs_connection_take_hello(struct verbs_connection *connection, const struct verbs_wire_hello *hello);
/* 1: at least one queue is connected, or was left out to be built later; 0: not yet; else why none could be connected. */
int verbs_connection_connected(struct verbs_connection *connection);
/* Both ends are through: takes over the control connections. Under the transport's lock. */
void verbs_connection_start(struct verbs_connection *connection, struct transport_connection *out,
			    struct transport_connection *in);
/* One that has failed: ends it, once, and says so. Whoever gives the lock back calls it, before anybody hears of the error. */
void verbs_connection_end(struct verbs_connection *connection);

/* request.c */
/* What was registered for it alone: no queue uses it any more. */
void verbs_request_release(struct verbs_request *request);
/* Of any that is not done. */
bool verbs_request_uses(const struct verbs_connection *connection, const struct verbs_registration *registration);
struct verbs_request *verbs_request_get(struct verbs_connection *connection, enum verbs_request_kind kind);
void verbs_request_finish(struct verbs_connection *connection, struct verbs_request *request);
/* One that its user has seen done. sizes may be NULL. */
void verbs_request_put(struct verbs_request *request, size_t *sizes);
int verbs_registration_new(struct verbs_connection *connection, const struct verbs_range *range,
			   struct verbs_registration **ret);
void verbs_registration_free(struct verbs_connection *connection, struct verbs_registration *registration);

/* progress.c */
int verbs_connection_progress(struct verbs_connection *connection, enum transport_next *ret_next);
/* From the service thread: moves what a connection has whose owner has not called for a while. */
void verbs_connection_look(struct verbs_connection *connection, uint64_t now_ns);
int verbs_connection_test(struct verbs_request *request, bool *ret_done, size_t *sizes);

/* service.c */
int verbs_service_start(struct verbs_transport *transport); /* lock held; running already: fine */

/* transport.c */
/* For tests, before open. NULL: the real one. Not thread-safe. */
void verbs_transport_use(const struct verbs_api *api, const char *sysfs_root);

#endif
