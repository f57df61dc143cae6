/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which connections are tied to the interface that was chosen. Where two ports are in one subnet the route prefers one
 * of them whatever address a socket has, so that the address alone does not decide which port carries the data: the
 * socket is tied to the device. A tied socket also takes only what comes in through the device, and it cannot use a
 * route that leads elsewhere. So it is tied only where the routes prefer another port and one leads through the device
 * all the same, and if the peer cannot be reached that way (a policy sends its traffic through a tunnel, its answers
 * come in by another port) it is untied.
 */
#include "base/hash.h"
#include "base/log.h"
#include "transport/tcp/route.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LOOK_NS NS_PER_S

enum { LOOPBACK_INDEX = 1 }; /* in every network namespace */

uint64_t tcp_pin_way(int interface, const struct sockaddr_storage *peer)
{
	const uint8_t *at = (const void *)&((const struct sockaddr_in *)peer)->sin_addr;
	size_t bytes = 4;

	if (peer->ss_family == AF_INET6) {
		at = ((const struct sockaddr_in6 *)peer)->sin6_addr.s6_addr;
		bytes = 16;
	}
	return hash_bytes(HASH_START ^ (uint64_t)interface, at, bytes) | 1; /* 0: a free place */
}

static bool is_remembered(struct tcp_transport *transport, uint64_t hash)
{
	for (unsigned i = 0; i < TCP_UNPINNED_MAX; i++) {
		if (atomic_load(&transport->unpinned[i]) == hash)
			return true;
	}
	return false;
}

static const struct sockaddr_storage *own_address(const struct tcp_interface *interface,
						  const struct sockaddr_storage *peer)
{
	return tcp_way_source(interface, peer->ss_family == AF_INET6 ? 6 : 4);
}

static const char *name_of(int index, char name[static IF_NAMESIZE])
{
	return if_indextoname((unsigned)index, name) ? name : "another interface";
}

/* No route leads through the interface. */
static void say_no_route(const struct tcp_interface *interface, const struct tcp_dial *dial)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char text[TCP_ADDRESS_TEXT], name[IF_NAMESIZE];
	int other;

	if (tcp_route_find(&dial->peer, NULL, 0, &other) < 0 || other == LOOPBACK_INDEX || other == interface->index)
		return;
	if (log_once(&said))
		log_warn("no route leads from interface %s to host %s (%s): its traffic goes through %s",
			 interface->name, dial->host, tcp_socket_text(&dial->peer, text), name_of(other, name));
}

/* The kernel lets us name the address only. */
static void say_not_tied(const struct tcp_interface *interface, const struct sockaddr_storage *peer, int error)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char name[IF_NAMESIZE];
	int other;

	if (tcp_route_find(peer, own_address(interface, peer), 0, &other) < 0 || other == interface->index ||
	    !log_once(&said))
		return;
	log_warn("connections cannot be tied to interface %s (%s): the route sends their traffic through %s",
		 interface->name, strerror(-error), name_of(other, name));
}

/* The routes lead through the interface by themselves: then it need not be tied, and takes what comes in anywhere. */
static bool is_routed(const struct tcp_interface *interface, const struct sockaddr_storage *peer)
{
	int index;

	return interface->index > 0 && !tcp_route_find(peer, own_address(interface, peer), 0, &index) &&
	       index == interface->index;
}

static void pin(struct tcp_transport *transport, struct tcp_dial *dial)
{
	const struct tcp_interface *interface = &transport->interfaces[dial->interface];
	const struct sockaddr_storage *own = own_address(interface, &dial->peer);
	bool by_device = !interface->address_only && !is_routed(interface, &dial->peer);
	int index, r;

	if (is_remembered(transport, tcp_pin_way(dial->interface, &dial->peer))) {
		dial->pin = TCP_PIN_NONE;
		return;
	}
	if (by_device && dial->may_unpin && interface->index > 0 &&
	    tcp_route_find(&dial->peer, own, interface->index, &index) == -ENETUNREACH) {
		say_no_route(interface, dial);
		dial->pin = TCP_PIN_NONE;
		return;
	}
	r = by_device ? tcp_route_bind_device(dial->fd, interface) : 0;
	if (r < 0)
		say_not_tied(interface, &dial->peer, r);
	/* Also by its address: rules of the system's may go by it, and the peer sees where it comes from. */
	if (own)
		tcp_route_bind_address(dial->fd, own);
}

void tcp_pin_dial(struct tcp_transport *transport, struct tcp_dial *dial)
{
	if (dial->pin != TCP_PIN_NONE)
		pin(transport, dial);
	tcp_socket_set_port(&dial->peer, dial->pin == TCP_PIN_BOTH && dial->tied_port ? dial->tied_port : dial->port);
}

bool tcp_pin_give_up(struct tcp_dial *dial, int error, uint64_t timeout_ns, uint64_t now_ns)
{
	/* Nobody listens, but the socket of that interface may have been missed: it came in through another one. */
	bool missed = error == -ECONNREFUSED && dial->pin == TCP_PIN_BOTH && dial->tied_port;
	bool unreachable = error == -EHOSTUNREACH || error == -ENETUNREACH || error == -EADDRNOTAVAIL ||
			   error == -EINVAL || error == -ENODEV;

	if (dial->pin == TCP_PIN_NONE || (!missed && !unreachable && now_ns < dial->next_pin_ns))
		return false;
	/* Also where no other way may be tried: a connect that is given its time may yet be answered. */
	dial->next_pin_ns = now_ns + timeout_ns / TCP_PIN_TRIES;
	if (dial->pin == TCP_PIN_BOTH && dial->tied_port && !unreachable)
		dial->pin = TCP_PIN_HERE;
	else if (dial->may_unpin)
		dial->pin = TCP_PIN_NONE;
	else
		return false;
	dial->gave_up = dial->pin == TCP_PIN_NONE;
	return true;
}

void tcp_pin_ready(struct tcp_transport *transport, const struct tcp_dial *dial)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char text[TCP_ADDRESS_TEXT];
	uint64_t hash;

	/* A connection whose streams are all lost was reached before: it may have been the whole path that was down. */
	if (dial->pin != TCP_PIN_NONE || !dial->gave_up || !dial->hello.listener_id)
		return;
	hash = tcp_pin_way(dial->interface, &dial->peer);
	if (is_remembered(transport, hash))
		return;
	atomic_store(&transport->unpinned[atomic_fetch_add(&transport->unpinned_count, 1) % TCP_UNPINNED_MAX], hash);
	if (log_once(&said))
		log_warn("host %s (%s) did not answer through interface %s: its traffic goes as the system routes it",
			 dial->host, tcp_socket_text(&dial->peer, text), transport->interfaces[dial->interface].name);
}

static const struct tcp_interface *interface_of(const struct tcp_transport *transport, int fd)
{
	struct sockaddr_storage own = { 0 };
	socklen_t bytes = sizeof(own);

	if (getsockname(fd, (struct sockaddr *)&own, &bytes) < 0)
		return NULL;
	for (size_t i = 0; i < transport->interface_count; i++) {
		if (tcp_socket_same_address(&own, &transport->interfaces[i].address) ||
		    (transport->interfaces[i].other_bytes &&
		     tcp_socket_same_address(&own, &transport->interfaces[i].other)))
			return &transport->interfaces[i];
	}
	return NULL;
}

/* In a VRF what comes in belongs to the VRF's own interface. */
static bool is_above(const struct tcp_interface *interface, const char *name)
{
	char path[64], target[256];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/sys/class/net/%s/master", interface->name);
	bytes = readlink(path, target, sizeof(target) - 1);
	if (bytes <= 0)
		return false;
	target[bytes] = '\0';
	return strrchr(target, '/') && !strcmp(strrchr(target, '/') + 1, name);
}

void tcp_pin_accepted(struct tcp_transport *transport, int fd, const struct tcp_wire_hello *hello,
		      const struct sockaddr_storage *peer)
{
	const struct tcp_interface *interface = interface_of(transport, fd);
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char buffer[IF_NAMESIZE];
	const char *name;
	int through, index;

	if (!interface || interface->address_only || interface->index <= 0 || hello->host_id == transport->host_id)
		return;
	through = tcp_route_came_through(fd, peer->ss_family);
	if (through == interface->index) {
		/* What is asked of the sender goes back the same way, if there is one. */
		if (!is_routed(interface, peer) &&
		    tcp_route_find(peer, own_address(interface, peer), interface->index, &index) != -ENETUNREACH)
			tcp_route_bind_device(fd, interface);
		return;
	}
	if (through <= 0 || through == LOOPBACK_INDEX)
		return;
	name = name_of(through, buffer);
	if (is_above(interface, name) || !log_once(&said))
		return;
	log_warn("data from host %s to the address of interface %s comes in through %s: the network delivers it there "
		 "(sysctl net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2)",
		 hello->host, interface->name, name);
}

static bool has_link(int fd, int index)
{
	struct ifreq request = { 0 };

	return if_indextoname((unsigned)index, request.ifr_name) && !ioctl(fd, SIOCGIFFLAGS, &request) &&
	       (request.ifr_flags & IFF_RUNNING);
}

/* A route leads through the interface that was chosen, and others are preferred. */
static bool prefer_another(const struct tcp_transport *transport, const struct tcp_stream *stream)
{
	const struct tcp_interface *interface = &transport->interfaces[stream->dial->interface];
	const struct sockaddr_storage *own = own_address(interface, &stream->peer);
	int index;

	return !interface->address_only && !tcp_route_find(&stream->peer, own, 0, &index) &&
	       index != interface->index && has_link(stream->fd, interface->index) &&
	       !tcp_route_find(&stream->peer, own, interface->index, &index);
}

/* One at a time: the new socket may not reach the peer, and until it does another stream must carry. */
void tcp_pin_look(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_stream *first = &connection->streams[0], *astray = NULL;
	unsigned tied = 0;

	if (connection->role != TCP_SENDER || connection->closing || connection->error ||
	    !connection->transport->tied_port) /* none of our ports share a subnet */
		return;
	if (!first->live || !first->dial || first->dial->interface < 0 || first->dial->pin == TCP_PIN_NONE ||
	    clock_elapsed_ns(first->dial->routed_ns, now_ns) < LOOK_NS)
		return;
	first->dial->routed_ns = now_ns;
	if (!prefer_another(connection->transport, first))
		return;
	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (!stream->live || !stream->dial || stream->dial->interface != first->dial->interface)
			continue;
		if (tcp_route_is_bound(stream->fd))
			tied++;
		else if (!astray || astray->index == connection->s.primary)
			astray = stream;
	}
	if (astray && (tied || astray->index != connection->s.primary || connection->stream_count == 1))
		tcp_failover_lost(connection, astray, "the routes lead it out of another port now", now_ns);
}

bool tcp_pin_is_needed(const struct tcp_interface *interface, const struct sockaddr_storage *own)
{
	struct sockaddr_storage neighbour = *own;
	int index;

	if (interface->address_only || interface->index <= 0)
		return false;
	if (neighbour.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&neighbour)->sin6_addr.s6_addr[15] ^= 1;
	else
		((struct sockaddr_in *)&neighbour)->sin_addr.s_addr ^= htonl(1);
	/* Another port of the same subnet, which the routes prefer. */
	return !is_routed(interface, &neighbour) && !tcp_route_find(&neighbour, own, interface->index, &index);
}
