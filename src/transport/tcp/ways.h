/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways from this process to a peer: a pair of a port of ours and an address of the peer's each. Which one a connection
 * takes, of those that connect: the pair of its own device and the peer's; else one with its own port, one with the peer's
 * device's port, any; among equals the faster, then the first. One of a known speed is out where another is more than
 * TCP_WAY_SLOWER times as fast. Pure, but for tcp_ways_find, which asks the kernel for routes; any thread.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_WAYS_H
#define TRIBUTARY_TRANSPORT_TCP_WAYS_H

#include "transport/tcp/interface.h"
#include "transport/tcp/wire.h"

enum { TCP_WAYS_MAX = 64, TCP_WAY_SLOWER = 8, TCP_WAY_ROUTED = -1 };

enum tcp_way_rank {
	TCP_WAY_OWN, /* both ends are the devices' */
	TCP_WAY_OWN_PORT,
	TCP_WAY_PEERS_PORT,
	TCP_WAY_ANY,
	TCP_WAY_AS_ROUTED, /* whatever port the system sends it through: only where no other connects */
	TCP_WAY_RANK_COUNT
};

struct tcp_way {
	int interface; /* of ours; TCP_WAY_ROUTED */
	struct tcp_wire_address peer;
	enum tcp_way_rank rank;
	bool neighbours; /* one subnet has both */
	uint8_t speed;   /* enum tcp_speed: the slower end's; unknown if one is */
};

/* In which enum tcp_speed a port is. */
uint8_t tcp_way_speed(const struct tcp_interface *interface);
/* What a peer is to know of an interface's address of that family; the ports are the caller's to fill in. False: it has none. */
bool tcp_way_address(const struct tcp_interface *interface, uint8_t family, struct tcp_wire_address *ret);
/* Its own address of that family (4, 6), and how long it is; NULL: none. */
const struct sockaddr_storage *tcp_way_own_address(const struct tcp_interface *interface, uint8_t family,
						   socklen_t *ret_bytes);
/* The same, while it is still there. */
const struct sockaddr_storage *tcp_way_source(const struct tcp_interface *interface, uint8_t family);

/* By the shorter prefix; two that are equal are not told from each other. */
bool tcp_way_in_one_subnet(const struct tcp_wire_address *a, const struct tcp_wire_address *b);

/* In the order in which they are tried. */
int tcp_way_try_before(const struct tcp_way *a, const struct tcp_way *b);
/* A connection that has the choice takes b. */
bool tcp_way_is_worse(const struct tcp_way *a, const struct tcp_way *b);

/*
 * The ways to a peer that has these addresses, the first peers_own of which are its device's, in the order in which they are
 * tried. own: interfaces of the device. Left out are pairs without a route through that interface, and with an address that is
 * this host's, too. The last are those that leave the port to the system. Returns how many there are, at most TCP_WAYS_MAX.
 */
unsigned tcp_ways_find(const struct tcp_interface *interfaces, size_t interface_count, const int *own,
		       unsigned own_count, const struct tcp_wire_address *peers, unsigned peer_count,
		       unsigned peers_own, struct tcp_way ret[static TCP_WAYS_MAX]);
/* Connections of other numbers begin with others of those that are alike; what is left out keeps its place. */
void tcp_ways_spread(struct tcp_way *ways, const bool *left_out, unsigned count, uint64_t number);

#endif
