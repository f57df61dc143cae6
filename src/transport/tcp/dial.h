/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a stream is dialled (dial.c), the first of a connection over several ways at a time (race.c), and again when it is lost,
 * and out of which interface (pin.c).
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_DIAL_H
#define TRIBUTARY_TRANSPORT_TCP_DIAL_H

#include "base/clock.h"
#include "base/minmax.h"
#include "transport/tcp/reach.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/ways.h"

enum {
	TCP_PENDING_MAX = 1024, /* accepted sockets of a process that have not said who they are, at most */
	TCP_PIN_TRIES = 4,      /* parts of the time-out; the last two are for the system's route */
};

/* What came to a listening socket and has not said hello. */
struct tcp_pending {
	const struct tcp_acceptor *acceptor;
	int fd;
	bool ready;    /* to be read */
	unsigned same; /* how many come from its address, with itself */
	uint64_t since_ns;
	struct sockaddr_storage peer;
	uint8_t nonce[TCP_WIRE_NONCE_BYTES]; /* of the challenge that was sent */
	uint8_t bytes[TCP_WIRE_HELLO_BYTES];
	size_t count;
};

/* A listening socket of one interface, shared by all listeners. */
struct tcp_acceptor {
	int fd;
	int interface;
	struct sockaddr_storage address; /* of the interface */
	uint16_t port;
	bool tied;
	uint64_t paused_until_ns; /* out of descriptors: not polled meanwhile */
	uint64_t changed_ns;      /* the address; 0: it is that of the beginning */
};

#define TCP_REDIAL_FIRST_NS (100 * NS_PER_MS) /* doubled by each failure */

enum tcp_dial_state {
	TCP_DIAL_START,
	TCP_DIAL_CONNECT,
	TCP_DIAL_CHALLENGE,
	TCP_DIAL_CHALLENGED,
	TCP_DIAL_HELLO,
	TCP_DIAL_WELCOME,
	TCP_DIAL_READY,
	TCP_DIAL_STATE_COUNT
};

enum tcp_pin {
	TCP_PIN_BOTH, /* tied to the interface at both ends, if the peer offers that */
	TCP_PIN_HERE,
	TCP_PIN_NONE, /* as the system routes it */
};

struct tcp_dial {
	enum tcp_dial_state state;
	int fd;
	struct sockaddr_storage peer;
	socklen_t peer_bytes;
	uint16_t port, tied_port; /* of the peer: tcp_wire_address */
	int interface;            /* to go out of; -1: the peer is on this host */
	enum tcp_pin pin;
	bool gave_up;          /* TCP_PIN_NONE because nothing else reached the peer */
	bool may_unpin;        /* no other stream of the connection lives */
	uint64_t next_pin_ns;  /* this pin is tried until then */
	uint64_t routed_ns;    /* when tcp_pin_look() last checked its route */
	unsigned packet_bytes; /* mtu.c: that the socket sends at most; 0: as the interface has it */
	bool packet_works;     /* such packets arrive */
	int traffic_class;
	char host[TCP_WIRE_HOST_BYTES]; /* whose handle it was */
	uint64_t retry_at_ns, challenge_by_ns, deadline_ns;
	bool follows; /* the first stream's way */
	unsigned refused;
	bool peer_is_here; /* on this host: no interface leads to it */
	bool once;         /* a failure is the end */
	bool held;         /* no HELLO yet */
	int last_error;
	enum tcp_dial_state failed_in;
	uint16_t version; /* -EPROTO: the peer's; 0: no Tributary answered, or none that has the secret */
	uint8_t secret[TCP_WIRE_SECRET_BYTES];
	struct tcp_wire_nonces nonces;
	struct tcp_wire_hello hello;
	uint8_t bytes[TCP_WIRE_WELCOME_BYTES];
	size_t count;
	struct tcp_wire_welcome welcome;
};

/* One way of a race. */
struct tcp_racer {
	int way; /* -1: unused */
	struct tcp_dial dial;
	uint64_t since_ns, until_ns;
};

/*
 * The first stream over several ways at a time, in the manner of RFC 8305: the first that is challenged gives better ones
 * a little time, the best of these is taken.
 */
enum { TCP_RACERS = 4, TCP_RACERS_MAX = 32 /* of all connections */ };
struct tcp_race {
	struct tcp_transport *transport;
	int device;            /* of ours, that the connection belongs to */
	struct tcp_dial *dial; /* that gets a way; until then its words */
	uint64_t deadline_ns;
	struct tcp_way ways[TCP_WAYS_MAX];
	unsigned way_count, round;
	bool tried[TCP_WAYS_MAX]; /* in this round */
	bool dead[TCP_WAYS_MAX];
	bool spoiled[TCP_WAYS_MAX]; /* taken, and failed after HELLO */
	uint8_t refused[TCP_WAYS_MAX];
	struct tcp_racer racers[TCP_RACERS];
	uint64_t begin_ns, next_ns, challenged_ns, rests_until_ns;
	int taken;            /* the way of the dial; -1: none yet */
	struct tcp_dial last; /* that failed; last_error 0: none has */
	uint32_t epoch;       /* of the next HELLO */
};

/* A connect() that has not ended. The handle's cookie is its id. */
struct tcp_connector {
	struct tcp_transport *transport;
	LIST_ENTRY(tcp_connector) link;
	uint64_t id;
	int device, traffic_class;
	struct tcp_wire_handle handle;
	struct tcp_race race;
	/* For a better way, of those that WELCOME has and the handle had no room for; until better_until_ns, 0: none. */
	struct tcp_race better;
	struct tcp_dial better_dial;
	uint64_t better_until_ns;
	struct tcp_dial dials[TCP_STREAMS_MAX];
	unsigned dial_count, active_count;
	bool ahead; /* the others of the dials connect, too */
	uint64_t deadline_ns, connection_id, first_ready_ns;
};

/* carrier.c. The port whose connections the device's are that use this interface: the device itself where it is a member. */
int tcp_carrier_of(const struct tcp_transport *transport, int device, int interface);
/* A receiver is in its pace, told apart by its peer's address. */
void tcp_carrier_join(struct tcp_connection *connection, const struct sockaddr_storage *peer);
/* From time to time, under both locks: another port's pace and metrics, where its streams go over that one now. */
void tcp_carrier_follow(struct tcp_connection *connection, uint64_t now_ns);

/* addresses.c and acceptor.c; transport lock held in all of them. */
/* On all interfaces. -errno: one of the device's is none. */
int tcp_acceptor_listen(struct tcp_transport *transport, int device);
/* What leads to this process. Returns how many, of which the first *ret_own are the device's: one for each rail, then others. */
unsigned tcp_acceptor_ways(const struct tcp_transport *transport, int device,
			   struct tcp_wire_address ret[static TCP_WIRE_WAYS_MAX], unsigned *ret_own);
/* Interfaces whose address is another one now are listened on at that. Once a second at most. */
void tcp_acceptors_refresh(struct tcp_transport *transport, uint64_t now_ns);
/*
 * A sender knows this host's addresses from the last WELCOME. When one has changed, a stream of a receiver is ended, so that it is
 * dialled anew and told: one that carries nothing, or, when it is its own port's, any. With the connection's lock.
 */
void tcp_acceptors_tell(struct tcp_connection *connection, uint64_t now_ns);
/* At the interfaces' addresses, as often as is needed. */
void tcp_acceptors_look(struct tcp_transport *transport, uint64_t now_ns);
void tcp_acceptors_free(struct tcp_transport *transport);
/* Reads pending sockets that are ready, and accepts. */
void tcp_acceptors_progress(struct tcp_transport *transport, uint64_t now_ns);
/* Says what is unsaid of rejected peers; frees connections that are half-joined for too long. */
void tcp_acceptor_tick(struct tcp_transport *transport, uint64_t now_ns);

/* pending.c; transport lock held. */
int tcp_pending_make(struct tcp_transport *transport);
struct tcp_pending *tcp_pending_add(struct tcp_transport *transport, const struct tcp_acceptor *acceptor, int fd,
				    const struct sockaddr_storage *peer, uint64_t now_ns);
void tcp_pending_drop(struct tcp_transport *transport, struct tcp_pending *pending);
/* The oldest of the address that has the most. */
struct tcp_pending *tcp_pending_victim(const struct tcp_transport *transport);
/* False: every slot is taken, and by none that may be dropped already. */
bool tcp_pending_has_room(const struct tcp_transport *transport, uint64_t now_ns);

/* linger.c; transport lock held. */
/* Takes the sockets of a connection that is closed, each until the peer's kernel has all, for a second at most. */
void tcp_linger(struct tcp_connection *connection, uint64_t now_ns);
/* True: there are some left. */
bool tcp_linger_step(struct tcp_transport *transport, uint64_t now_ns, bool all);

/* dial.c */
/* Where it goes to, out of which interface (TCP_WAY_ROUTED: the system's choice). The rest of *dial is left as it is. */
void tcp_dial_set_up(struct tcp_transport *transport, struct tcp_dial *dial, const struct tcp_wire_address *peer,
		     int interface, uint64_t now_ns);
/* One step of one stream; -errno when it has failed for good. */
int tcp_dial_step(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns);
/* Why it has failed. */
enum tcp_reach tcp_dial_reach(const struct tcp_dial *dial);

/* race.c; transport lock held */
/* The first four members are filled in, the rest is zero. Of the peer's addresses the first peers_own are its device's. */
void tcp_race_begin(struct tcp_race *race, const struct tcp_wire_address *peers, unsigned peer_count,
		    unsigned peers_own, uint64_t now_ns);
/* 1: the dial has a way. -errno: none leads there; race->last is the one to speak of. */
int tcp_race_step(struct tcp_race *race, uint64_t now_ns);
/* The dial, which had a way, has failed with that error. 0: on to the others. */
int tcp_race_failed(struct tcp_race *race, int error, uint64_t now_ns);
/* A new connection's way, where it is not that of the devices' ports; once for each pair of device and host. */
void tcp_race_say(const struct tcp_race *race);
void tcp_race_end(struct tcp_race *race);

/* detour.c; connection lock held, and in step and free the transport's, too */
/* From time to time. True: again soon. */
bool tcp_detour_step(struct tcp_connection *connection, uint64_t now_ns);
void tcp_detour_free(struct tcp_connection *connection);
/* The peer has these addresses now. Instead of one that is gone, the new one at its place is dialled. */
void tcp_detour_note_ways(struct tcp_connection *connection, const struct tcp_wire_welcome *welcome, uint64_t now_ns);
/* Another way is, or will be, tried. */
bool tcp_detour_may_help(const struct tcp_connection *connection);

/* Nothing comes from the peer, or nothing gets to it though the peer is heard, over streams that come and go. */
static inline bool tcp_connection_is_silent(const struct tcp_connection *connection, uint64_t now_ns)
{
	const uint64_t most_ns = connection->transport->stream_timeout_ns / 2;
	const struct tcp_mtu_sender *mtu = &connection->s.mtu;

	if (!connection->live_count || clock_elapsed_ns(connection->last_rx_ns, now_ns) > most_ns)
		return true;
	return connection->role == TCP_SENDER &&
	       clock_elapsed_ns(max_u64(mtu->moved_ns, mtu->left_ns), now_ns) > (mtu->looks ? 2 : 1) * most_ns;
}

/* connector.c */
/* Transport lock held. One step. *ret stays as it is until the connection stands. */
int tcp_connector_step(struct tcp_transport *transport, int device, int traffic_class,
		       uint8_t handle[static TCP_WIRE_HANDLE_BYTES], struct tcp_connection **ret);
void tcp_connector_expire(struct tcp_transport *transport, uint64_t now_ns, bool all); /* transport lock held */

/* redial.c; connection lock held */
void tcp_redial(struct tcp_connection *connection, uint64_t now_ns);

/* pin.c. An own interface and a peer's address, never 0. */
uint64_t tcp_pin_way(int interface, const struct sockaddr_storage *peer);
/* Before connect: ties the socket to the interface if a route leads there, and sets the port to dial. */
void tcp_pin_dial(struct tcp_transport *transport, struct tcp_dial *dial);
/* The peer is not reached that way: true if another way is to be tried. */
bool tcp_pin_give_up(struct tcp_dial *dial, int error, uint64_t timeout_ns, uint64_t now_ns);
/* The dial is ready: if it was not tied to the interface, remembers and logs that. */
void tcp_pin_ready(struct tcp_transport *transport, const struct tcp_dial *dial);
/* The same for a connection that came in. */
void tcp_pin_accepted(struct tcp_transport *transport, int fd, const struct tcp_wire_hello *hello,
		      const struct sockaddr_storage *peer);
/* If routes have changed and lead streams of the connection out of another port, dials them anew, one at a time. */
void tcp_pin_look(struct tcp_connection *connection, uint64_t now_ns);
/* Whether answers from this address of the interface would leave through another one. */
bool tcp_pin_is_needed(const struct tcp_interface *interface, const struct sockaddr_storage *own);

#endif
