/* SPDX-License-Identifier: Apache-2.0 */
/* How a stream is dialled, at first (connector.c) and again, and out of which interface (pin.c). */
#ifndef TRIBUTARY_TRANSPORT_TCP_DIAL_H
#define TRIBUTARY_TRANSPORT_TCP_DIAL_H

#include "base/clock.h"
#include "transport/tcp/tcp.h"

enum {
	TCP_PENDING_MAX = 64, /* accepted sockets that have not said who they are */
	TCP_PIN_TRIES = 4,    /* parts of the time-out; the last two are for the system's route */
};

/* A listening socket of one interface, shared by all listeners, and what came to it and has not said hello. */
struct tcp_pending {
	int fd;
	uint64_t since_ns;
	struct sockaddr_storage peer;
	uint8_t bytes[TCP_WIRE_HELLO_BYTES];
	size_t count;
};
struct tcp_acceptor {
	int fd;
	uint16_t port;
	struct tcp_pending pending[TCP_PENDING_MAX];
	unsigned pending_count;
	uint64_t paused_until_ns; /* out of descriptors: not polled meanwhile */
};

#define TCP_REDIAL_FIRST_NS (100 * NS_PER_MS) /* doubled by each failure */

enum tcp_dial_state {
	TCP_DIAL_START,
	TCP_DIAL_CONNECT,
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
	bool gave_up;         /* TCP_PIN_NONE because nothing else reached the peer */
	bool may_unpin;       /* no other stream of the connection lives */
	uint64_t next_pin_ns; /* this pin is tried until then */
	unsigned packet_bytes; /* mtu.c: that the socket sends at most; 0: as the interface has it */
	bool packet_works;     /* such packets arrive */
	int traffic_class;
	char host[TCP_WIRE_HOST_BYTES]; /* whose handle it was */
	uint64_t retry_at_ns, deadline_ns;
	unsigned refused;
	int last_error;
	struct tcp_wire_hello hello;
	uint8_t bytes[TCP_WIRE_WELCOME_BYTES];
	size_t count;
	struct tcp_wire_welcome welcome;
};

/* A connect() that has not ended. The handle's cookie is its id. */
struct tcp_connector {
	struct tcp_transport *transport;
	LIST_ENTRY(tcp_connector) link;
	uint64_t id;
	int device, traffic_class;
	struct tcp_wire_handle handle;
	struct tcp_dial dials[TCP_STREAMS_MAX];
	unsigned dial_count, active_count;
	uint64_t deadline_ns, connection_id;
};

/* connector.c */
/* Transport lock held. One step. *ret stays as it is until the connection stands. */
int tcp_connector_step(struct tcp_transport *transport, int device, int traffic_class,
		       uint8_t handle[static TCP_WIRE_HANDLE_BYTES], struct tcp_connection **ret);
void tcp_connector_expire(struct tcp_transport *transport, uint64_t now_ns, bool all); /* transport lock held */
void tcp_connector_redial(struct tcp_connection *connection, uint64_t now_ns); /* dead streams; connection lock held */

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
/* Whether answers from this interface's address would leave through another one. */
bool tcp_pin_is_needed(const struct tcp_interface *interface);

#endif
