/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses at which this process listens, and how its peers learn of them. */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

#define LOOK_NS (10 * NS_PER_S) /* at the addresses of interfaces, while no connection lacks its way */

/* Of each interface: one at its address, one there tied to it, and both at its address of the other family. */
enum bank { BANK_ADDRESS, BANK_TIED, BANK_OTHER, BANK_OTHER_TIED };

/* All at one port number where that is free, and all that are tied at another one. */
static int acceptor_new(struct tcp_transport *transport, int interface, int bank)
{
	const bool tied = bank & BANK_TIED, other = bank & BANK_OTHER;
	uint16_t *port = tied ? &transport->tied_port : &transport->port;
	const struct tcp_interface *at = &transport->interfaces[interface];
	struct tcp_acceptor *acceptor = sys_zalloc(sizeof(*acceptor));
	int r;

	if (!acceptor)
		return -ENOMEM;
	acceptor->address = other ? at->other : at->address;
	acceptor->tied = tied;
	r = tcp_socket_listen(at, &acceptor->address, tied, *port, transport->params->port_low,
			      transport->params->port_high, &acceptor->port, &acceptor->fd);
	if (r < 0) {
		sys_free(acceptor);
		return r;
	}
	if (!*port)
		*port = acceptor->port;
	acceptor->interface = interface;
	transport->acceptors[bank * TCP_INTERFACE_MAX + interface] = acceptor;
	return 0;
}

static struct tcp_acceptor *acceptor_of(const struct tcp_transport *transport, int interface, int bank)
{
	return transport->acceptors[bank * TCP_INTERFACE_MAX + interface];
}

static void listen_more(struct tcp_transport *transport, int interface)
{
	const struct tcp_interface *at = &transport->interfaces[interface];

	/* Not allowed, or no port is left: the first socket takes everything. */
	if (tcp_pin_is_needed(at, &at->address))
		(void)acceptor_new(transport, interface, BANK_TIED);
	if (!at->other_bytes)
		return;
	(void)acceptor_new(transport, interface, BANK_OTHER);
	if (tcp_pin_is_needed(at, &at->other))
		(void)acceptor_new(transport, interface, BANK_OTHER_TIED);
}

static int listen_at(struct tcp_transport *transport, int interface)
{
	struct tcp_acceptor *acceptor = acceptor_of(transport, interface, BANK_ADDRESS);
	int r = acceptor ? 0 : acceptor_new(transport, interface, BANK_ADDRESS);

	if (r == 0 && !acceptor)
		listen_more(transport, interface);
	return r;
}

int tcp_acceptor_listen(struct tcp_transport *transport, int device)
{
	const struct transport_device *rails = &transport->devices.list[device];

	if (tcp_pending_make(transport) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < rails->rail_count; i++) {
		const int interface = rails->members[i];
		int r = listen_at(transport, interface);

		if (r < 0) {
			log_warn("cannot listen on interface %s, ports %u to %u (TRIBUTARY_PORTS; 0: any): %s",
				 transport->interfaces[interface].name, transport->params->port_low,
				 transport->params->port_high, strerror(-r));
			return r;
		}
	}
	for (size_t i = 0; i < transport->interface_count; i++)
		(void)listen_at(transport, (int)i); /* what is down now is no way for anybody */
	return 0;
}

static bool address_of(const struct tcp_transport *transport, int interface, bool other, struct tcp_wire_address *ret)
{
	const struct tcp_interface *at = &transport->interfaces[interface];
	const struct tcp_acceptor *acceptor = acceptor_of(transport, interface, other ? BANK_OTHER : BANK_ADDRESS);
	const struct tcp_acceptor *tied = acceptor_of(transport, interface, other ? BANK_OTHER_TIED : BANK_TIED);
	struct tcp_wire_address now;

	if (!acceptor || !tcp_way_address(at, (other ? at->other : at->address).ss_family == AF_INET6 ? 6 : 4, ret))
		return false;
	tcp_socket_wire_address(&acceptor->address, 0, &now);
	memcpy(ret->bytes, now.bytes, sizeof(ret->bytes));
	ret->port = acceptor->port;
	ret->tied_port = tied ? tied->port : 0;
	return true;
}

/* What the interface has in place of it. False: it is still there, or nothing is. */
static bool find_new_address(const struct ifaddrs *all, const char *name, struct sockaddr_storage *address)
{
	struct sockaddr_storage found = { 0 };

	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		struct sockaddr_storage now = { 0 };

		if (!one->ifa_addr || one->ifa_addr->sa_family != address->ss_family ||
		    strcmp(one->ifa_name, name) != 0)
			continue;
		memcpy(&now, one->ifa_addr,
		       address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
		if (tcp_socket_same_address(&now, address))
			return false;
		if (!found.ss_family && !(now.ss_family == AF_INET6 && ((struct sockaddr_in6 *)&now)->sin6_scope_id))
			found = now;
	}
	if (!found.ss_family)
		return false;
	*address = found;
	return true;
}

/* The interface has that one now, perhaps again. */
static void note_gone(struct tcp_transport *transport, int interface, const struct sockaddr_storage *address)
{
	struct tcp_interface *at = &transport->interfaces[interface];

	if (address->ss_family == at->address.ss_family)
		atomic_store(&at->address_gone, !tcp_socket_same_address(address, &at->address));
	else
		atomic_store(&at->other_gone, !tcp_socket_same_address(address, &at->other));
}

void tcp_acceptors_refresh(struct tcp_transport *transport, uint64_t now_ns)
{
	struct ifaddrs *all;

	if (clock_elapsed_ns(transport->refreshed_ns, now_ns) < NS_PER_S || getifaddrs(&all) < 0)
		return;
	transport->refreshed_ns = now_ns;
	for (size_t i = 0; i < TCP_ACCEPTOR_MAX; i++) {
		struct tcp_acceptor *acceptor = transport->acceptors[i];
		const struct tcp_interface *at = acceptor ? &transport->interfaces[acceptor->interface] : NULL;
		struct sockaddr_storage address;
		uint16_t port;
		int fd;

		if (!acceptor || at->address_only)
			continue;
		address = acceptor->address;
		if (!find_new_address(all, at->name, &address) ||
		    tcp_socket_listen(at, &address, acceptor->tied, acceptor->port, transport->params->port_low,
				      transport->params->port_high, &port, &fd) < 0)
			continue;
		sys_close_socket(&acceptor->fd);
		acceptor->fd = fd;
		acceptor->port = port;
		acceptor->address = address;
		note_gone(transport, acceptor->interface, &address);
		acceptor->changed_ns = transport->changed_ns = now_ns;
	}
	freeifaddrs(all);
}

/* Of the ports that are its own. */
static bool own_has_changed(const struct tcp_connection *connection)
{
	const struct tcp_transport *transport = connection->transport;

	for (size_t i = 0; i < TCP_ACCEPTOR_MAX; i++) {
		const struct tcp_acceptor *acceptor = transport->acceptors[i];

		if (acceptor && acceptor->changed_ns > connection->r.ways_told_ns &&
		    transport_device_has(&transport->devices.list[connection->device], acceptor->interface))
			return true;
	}
	return false;
}

/* One that carries nothing; where its own port has changed one that does, the only one as the last. NULL: none. */
static struct tcp_stream *stream_to_end(struct tcp_connection *connection)
{
	const bool own = own_has_changed(connection);
	struct tcp_stream *found = NULL;

	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (!stream->live)
			continue;
		if (connection->live_count > 1 && i && !tcp_stream_is_active(connection, i))
			return stream;
		if (own)
			found = stream;
	}
	return found;
}

void tcp_acceptors_tell(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_transport *transport = connection->transport;
	struct tcp_stream *stream;

	if (connection->role == TCP_SENDER || connection->peer_closed || connection->closing)
		return;
	if (!connection->streams[0].live) /* its address may be another one soon */
		transport->lacked_ns = now_ns;
	if (transport->changed_ns <= connection->r.ways_told_ns)
		return;
	stream = stream_to_end(connection);
	if (!stream)
		return;
	connection->r.ways_told_ns = now_ns;
	tcp_failover_lost(connection, stream, "an address of this host has changed", now_ns);
}

void tcp_acceptors_look(struct tcp_transport *transport, uint64_t now_ns)
{
	if (transport->lacked_ns > transport->refreshed_ns ||
	    clock_elapsed_ns(transport->refreshed_ns, now_ns) > LOOK_NS)
		tcp_acceptors_refresh(transport, now_ns);
}

unsigned tcp_acceptor_ways(const struct tcp_transport *transport, int device,
			   struct tcp_wire_address ret[static TCP_WIRE_WAYS_MAX], unsigned *ret_own)
{
	const struct transport_device *rails = &transport->devices.list[device];
	unsigned count = 0;

	for (int other = 0; other < 2; other++)
		for (unsigned i = 0; i < rails->rail_count && count < TCP_WIRE_WAYS_MAX; i++)
			count += address_of(transport, rails->members[i], other, &ret[count]);
	*ret_own = count;
	for (int other = 0; other < 2; other++)
		for (size_t i = 0; i < transport->interface_count && count < TCP_WIRE_WAYS_MAX; i++)
			if (!transport_device_has(rails, (int)i))
				count += address_of(transport, (int)i, other, &ret[count]);
	return count;
}
