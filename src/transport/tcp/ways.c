/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/ways.h"

#include "base/minmax.h"
#include "transport/tcp/route.h"
#include "transport/tcp/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

enum { LOOPBACK_INDEX = 1 }; /* in every network namespace */

/* In Mbit/s: what a port of that class carries at least. */
static const unsigned least_mbps[TCP_SPEED_MOST + 1] = { 0, 1000, 2500, 10000, 25000, 50000, 100000, 200000 };

uint8_t tcp_way_speed(const struct tcp_interface *interface)
{
	const uint64_t mbps = interface->speed_Bps * 8 / 1000000;
	uint8_t speed = TCP_SPEED_BELOW_2_5;

	if (interface->speed_assumed || !mbps)
		return TCP_SPEED_UNKNOWN;
	while (speed < TCP_SPEED_MOST && mbps >= least_mbps[speed + 1])
		speed++;
	return speed;
}

const struct sockaddr_storage *tcp_way_own_address(const struct tcp_interface *interface, uint8_t family,
						   socklen_t *ret_bytes)
{
	const sa_family_t wanted = family == 6 ? AF_INET6 : AF_INET;

	if (interface->address.ss_family == wanted) {
		*ret_bytes = interface->address_bytes;
		return &interface->address;
	}
	*ret_bytes = interface->other_bytes;
	return interface->other_bytes && interface->other.ss_family == wanted ? &interface->other : NULL;
}

bool tcp_way_address(const struct tcp_interface *interface, uint8_t family, struct tcp_wire_address *ret)
{
	socklen_t bytes;
	const struct sockaddr_storage *own = tcp_way_own_address(interface, family, &bytes);

	if (!own)
		return false;
	tcp_socket_wire_address(own, 0, ret);
	ret->speed = tcp_way_speed(interface);
	ret->prefix_bits = (uint8_t)(own == &interface->address ? interface->prefix_bits
								: interface->other_prefix_bits);
	return true;
}

/* What decides, less is better. */
static int order_of(const struct tcp_way *a, const struct tcp_way *b)
{
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return (int)b->speed - (int)a->speed;
}

int tcp_way_try_before(const struct tcp_way *a, const struct tcp_way *b)
{
	const bool routed_a = a->rank == TCP_WAY_AS_ROUTED, routed_b = b->rank == TCP_WAY_AS_ROUTED;

	if (routed_a != routed_b)
		return routed_a ? 1 : -1;
	if (a->neighbours != b->neighbours)
		return a->neighbours ? -1 : 1;
	return order_of(a, b);
}

static bool is_far_slower(const struct tcp_way *a, const struct tcp_way *b)
{
	return a->speed && b->speed && least_mbps[b->speed] > TCP_WAY_SLOWER * least_mbps[a->speed];
}

bool tcp_way_is_worse(const struct tcp_way *a, const struct tcp_way *b)
{
	if (a->rank == TCP_WAY_AS_ROUTED || b->rank == TCP_WAY_AS_ROUTED)
		return a->rank > b->rank;
	if (is_far_slower(a, b))
		return true;
	return !is_far_slower(b, a) && order_of(b, a) < 0;
}

bool tcp_way_in_one_subnet(const struct tcp_wire_address *a, const struct tcp_wire_address *b)
{
	const unsigned bits = (unsigned)min_u64(a->prefix_bits, b->prefix_bits);
	const unsigned whole = bits / 8, rest = bits % 8;

	if (a->family != b->family || !bits || memcmp(a->bytes, b->bytes, whole) != 0)
		return false;
	return !rest || (a->bytes[whole] ^ b->bytes[whole]) >> (8 - rest) == 0;
}

static bool is_member(int interface, const int *list, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (list[i] == interface)
			return true;
	return false;
}

static enum tcp_way_rank rank_of(bool own, bool peers)
{
	return own ? peers ? TCP_WAY_OWN : TCP_WAY_OWN_PORT : peers ? TCP_WAY_PEERS_PORT : TCP_WAY_ANY;
}

/* A kernel that does not tell of its routes: the socket will. */
static bool reaches(const struct tcp_interface *interface, const struct sockaddr_storage *own,
		    const struct sockaddr_storage *peer)
{
	const int through = interface->address_only || interface->index <= 0 ? 0 : interface->index;
	int index;

	return tcp_route_find(peer, own, through, &index) != -ENETUNREACH;
}

static bool is_this_host(const struct sockaddr_storage *peer)
{
	int index;

	return tcp_route_find(peer, NULL, 0, &index) == 0 && index == LOOPBACK_INDEX;
}

const struct sockaddr_storage *tcp_way_source(const struct tcp_interface *interface, uint8_t family)
{
	socklen_t bytes;
	const struct sockaddr_storage *own = tcp_way_own_address(interface, family, &bytes);
	const bool gone = own == &interface->address ? atomic_load(&interface->address_gone)
						     : atomic_load(&interface->other_gone);

	return gone ? NULL : own;
}

static bool find_one(const struct tcp_interface *interface, const struct tcp_wire_address *peer, struct tcp_way *ret)
{
	struct tcp_wire_address wire;
	struct sockaddr_storage address;

	if (!tcp_way_address(interface, peer->family, &wire))
		return false;
	tcp_socket_address(peer, (unsigned)interface->index, &address);
	if (!reaches(interface, tcp_way_source(interface, peer->family), &address))
		return false;
	ret->peer = *peer;
	ret->neighbours = tcp_way_in_one_subnet(&wire, peer);
	ret->speed = wire.speed && peer->speed ? (uint8_t)min_u64(wire.speed, peer->speed) : TCP_SPEED_UNKNOWN;
	return true;
}

/* Behind those that it is no better than. */
static void insert(struct tcp_way list[static TCP_WAYS_MAX], unsigned *count, const struct tcp_way *way)
{
	unsigned at = *count;

	while (at > 0 && tcp_way_try_before(way, &list[at - 1]) < 0)
		at--;
	if (at == TCP_WAYS_MAX)
		return;
	*count += *count < TCP_WAYS_MAX; /* else the last one falls out */
	memmove(&list[at + 1], &list[at], (*count - 1 - at) * sizeof(list[0]));
	list[at] = *way;
}

unsigned tcp_ways_find(const struct tcp_interface *interfaces, size_t interface_count, const int *own,
		       unsigned own_count, const struct tcp_wire_address *peers, unsigned peer_count,
		       unsigned peers_own, struct tcp_way ret[static TCP_WAYS_MAX])
{
	bool foreign[TCP_WIRE_WAYS_MAX];
	unsigned count = 0;

	peer_count = (unsigned)min_u64(peer_count, TCP_WIRE_WAYS_MAX);
	for (unsigned p = 0; p < peer_count; p++) {
		const struct tcp_way way = { .interface = TCP_WAY_ROUTED, .peer = peers[p], .rank = TCP_WAY_AS_ROUTED };
		struct sockaddr_storage address;

		tcp_socket_address(&peers[p], 0, &address);
		foreign[p] = !is_this_host(&address);
		if (foreign[p] || !p)
			insert(ret, &count, &way);
	}
	for (size_t i = 0; i < interface_count; i++)
		for (unsigned p = 0; p < peer_count; p++) {
			struct tcp_way way = { .interface = (int)i };

			way.rank = rank_of(is_member((int)i, own, own_count), p < peers_own);
			if (foreign[p] && find_one(&interfaces[i], &peers[p], &way))
				insert(ret, &count, &way);
		}
	return count;
}

void tcp_ways_spread(struct tcp_way *ways, const bool *left_out, unsigned count, uint64_t number)
{
	unsigned end;

	for (unsigned begin = 0; begin < count; begin = end) {
		struct tcp_way alike[TCP_WAYS_MAX];
		unsigned places[TCP_WAYS_MAX], found = 0;

		for (end = begin; end < count && !tcp_way_try_before(&ways[begin], &ways[end]); end++)
			if (!left_out[end]) {
				places[found] = end;
				alike[found++] = ways[end];
			}
		for (unsigned i = 0; i < found; i++)
			ways[places[i]] = alike[(i + number) % found];
	}
}
