/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accepting side: one listening socket an interface, shared by all listeners of the process. What connects has to
 * say hello with a listener's or a connection's secret before it costs more than a small slot; when the slots are full
 * the one that has said nothing for the longest makes room, so unauthenticated peers cannot keep the real one out.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/hash.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define REJECTED_SAY_NS       (60 * NS_PER_S)
#define OUT_OF_DESCRIPTORS_NS (50 * NS_PER_MS)
enum { ACCEPTS_AT_ONCE = 256, HALF_JOINED_MAX = 64 };

static int tcp_acceptor_get(struct tcp_transport *transport, int index, struct tcp_acceptor **ret)
{
	struct tcp_acceptor *acceptor = transport->acceptors[index];
	const struct tcp_interface *interface = &transport->interfaces[index % TCP_INTERFACE_MAX];
	bool tied = index >= TCP_INTERFACE_MAX;
	int r;

	if (!acceptor) {
		acceptor = sys_zalloc(sizeof(*acceptor));
		if (!acceptor)
			return -ENOMEM;
		r = tcp_socket_listen(interface, tied, transport->params->port_low, transport->params->port_high,
				      &acceptor->port, &acceptor->fd);
		if (r < 0) {
			if (!tied)
				log_warn("cannot listen on interface %s, ports %u to %u (TRIBUTARY_PORTS; 0: any): %s",
					 interface->name, transport->params->port_low, transport->params->port_high,
					 strerror(-r));
			sys_free(acceptor);
			return r;
		}
		transport->acceptors[index] = acceptor;
	}
	*ret = acceptor;
	return 0;
}

int tcp_acceptor_address(struct tcp_transport *transport, int interface, struct tcp_wire_address *ret)
{
	struct tcp_acceptor *acceptor, *tied;
	bool first = !transport->acceptors[interface];
	int r = tcp_acceptor_get(transport, interface, &acceptor);

	if (r < 0)
		return r;
	tcp_socket_wire_address(&transport->interfaces[interface].address, acceptor->port, ret);
	tied = transport->acceptors[TCP_INTERFACE_MAX + interface];
	if (first && tcp_pin_is_needed(&transport->interfaces[interface]) &&
	    tcp_acceptor_get(transport, TCP_INTERFACE_MAX + interface, &tied) < 0)
		tied = NULL; /* not allowed, or no port is left: the other socket takes everything */
	ret->tied_port = tied ? tied->port : 0;
	return 0;
}

void tcp_acceptor_free(struct tcp_acceptor *acceptor)
{
	if (!acceptor)
		return;
	for (unsigned i = 0; i < acceptor->pending_count; i++)
		sys_close_socket(&acceptor->pending[i].fd);
	sys_close_socket(&acceptor->fd);
	sys_free(acceptor);
}

static void pending_drop(struct tcp_acceptor *acceptor, unsigned index)
{
	sys_close_socket(&acceptor->pending[index].fd);
	acceptor->pending_count--;
	memmove(&acceptor->pending[index], &acceptor->pending[index + 1],
		(acceptor->pending_count - index) * sizeof(acceptor->pending[0]));
}

static void rejected_say(struct tcp_transport *transport, uint64_t now_ns)
{
	struct tcp_rejected *rejected = &transport->rejected;
	char text[TCP_ADDRESS_TEXT], more[64] = "";

	if (rejected->unsaid > 1)
		snprintf(more, sizeof(more), " (and %llu more)", (unsigned long long)rejected->unsaid - 1);
	log_warn("closed a connection from %s to host %s that %s%s", tcp_socket_text(&rejected->peer, text),
		 transport->host, rejected->what, more);
	rejected->said_ns = now_ns;
	rejected->unsaid = 0;
	rejected->tells_version = false;
}

/* One line a minute, whatever unauthenticated peers do; of several reasons the one that a user can act on. */
static void reject(struct tcp_transport *transport, const struct sockaddr_storage *peer, const char *what,
		   uint64_t now_ns)
{
	struct tcp_rejected *rejected = &transport->rejected;

	rejected->unsaid++;
	if (!rejected->tells_version) {
		rejected->peer = *peer;
		snprintf(rejected->what, sizeof(rejected->what), "%s", what);
	}
	if (!rejected->said_ns || clock_elapsed_ns(rejected->said_ns, now_ns) >= REJECTED_SAY_NS)
		rejected_say(transport, now_ns);
}

static void reject_version(struct tcp_transport *transport, const struct sockaddr_storage *peer, uint64_t now_ns)
{
	char what[sizeof(transport->rejected.what)];

	snprintf(
		what, sizeof(what),
		"speaks another version of Tributary's protocol, this host speaks %u: install the same release on both",
		(unsigned)TCP_WIRE_VERSION);
	if (transport->rejected.tells_version) {
		transport->rejected.unsaid++;
		return;
	}
	reject(transport, peer, what, now_ns);
	transport->rejected.tells_version = transport->rejected.unsaid > 0;
}

/* Connections whose streams have not all come. */
static void abandon(struct tcp_transport *transport, uint64_t now_ns)
{
	struct tcp_connection *connection, *next;

	for (connection = LIST_FIRST(&transport->connections); connection; connection = next) {
		next = LIST_NEXT(connection, link);
		if (connection->listener && connection->joined_count < connection->stream_count &&
		    clock_elapsed_ns(connection->created_ns, now_ns) > 2 * transport->timeout_ns)
			tcp_connection_remove(connection);
	}
}

void tcp_acceptor_tick(struct tcp_transport *transport, uint64_t now_ns)
{
	if (transport->rejected.unsaid && clock_elapsed_ns(transport->rejected.said_ns, now_ns) >= REJECTED_SAY_NS)
		rejected_say(transport, now_ns);
	abandon(transport, now_ns);
}

/* device -1: a refusal. */
static bool answer(struct tcp_transport *transport, int fd, int device, enum tcp_welcome status, uint64_t connection_id,
		   uint64_t unscheduled_bytes)
{
	struct tcp_wire_welcome welcome = { .status = (uint8_t)status,
					    .connection_id = connection_id,
					    .eager_window_bytes = TCP_EAGER_WINDOW,
					    .unscheduled_bytes = (uint32_t)unscheduled_bytes };
	uint8_t bytes[TCP_WIRE_WELCOME_BYTES];

	memcpy(welcome.host, transport->host, TCP_WIRE_HOST_BYTES);
	for (unsigned i = 0; device >= 0 && i < transport->devices.list[device].rail_count; i++) {
		int interface = transport->devices.list[device].members[i];

		if (tcp_acceptor_address(transport, interface, &welcome.rails[welcome.rail_count++]) < 0)
			return false;
	}
	tcp_wire_welcome(CODEC_TO(bytes), &welcome);
	/* The first bytes into an empty socket: it takes all of them or is broken. */
	return sys_send(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes);
}

static struct tcp_connection *find_connection(struct tcp_transport *transport, const struct tcp_wire_hello *hello)
{
	for (struct tcp_connection *connection = LIST_FIRST(&transport->connections); connection;
	     connection = LIST_NEXT(connection, link))
		if (connection->role == TCP_RECEIVER && connection->id == hello->connection_id &&
		    (!hello->listener_id || connection->listener_id == hello->listener_id) &&
		    tcp_bytes_equal(connection->secret, hello->secret, TCP_WIRE_SECRET_BYTES))
			return connection;
	return NULL;
}

static struct tcp_listener *find_listener(struct tcp_transport *transport, const struct tcp_wire_hello *hello)
{
	for (struct tcp_listener *listener = LIST_FIRST(&transport->listeners); listener;
	     listener = LIST_NEXT(listener, link))
		if (listener->id == hello->listener_id &&
		    tcp_bytes_equal(listener->secret, hello->secret, TCP_WIRE_SECRET_BYTES))
			return listener;
	return NULL;
}

/*
 * Whose port what comes has to pass, for the pace: one of several of a host, where the connection uses one at a time. Where
 * hosts cannot be told apart by their boot, their addresses do.
 */
static uint64_t source_of(const struct tcp_wire_hello *hello, const struct sockaddr_storage *peer)
{
	if (hello->active_count > 1)
		return hello->host_id;
	if (peer->ss_family == AF_INET6)
		return hash_bytes(hello->host_id, &((const struct sockaddr_in6 *)peer)->sin6_addr,
				  sizeof(struct in6_addr));
	return hash_bytes(hello->host_id, &((const struct sockaddr_in *)peer)->sin_addr, sizeof(struct in_addr));
}

static int connection_begin(struct tcp_transport *transport, struct tcp_listener *listener,
			    const struct tcp_wire_hello *hello, const struct sockaddr_storage *peer,
			    struct tcp_connection **ret)
{
	struct tcp_connection *connection;
	unsigned half_joined = 0;
	int r;

	for (connection = LIST_FIRST(&transport->connections); connection; connection = LIST_NEXT(connection, link))
		half_joined += connection->listener == listener;
	if (half_joined >= HALF_JOINED_MAX)
		return -EBUSY;
	r = tcp_connection_new(transport, TCP_RECEIVER, listener->device, hello->stream_count, hello->active_count,
			       &connection);
	if (r < 0)
		return r;
	connection->id = hello->connection_id;
	connection->listener_id = listener->id;
	connection->listener = listener;
	memcpy(connection->secret, listener->secret, TCP_WIRE_SECRET_BYTES);
	memcpy(connection->peer_host, hello->host, TCP_WIRE_HOST_BYTES);
	connection->r.sender.host = source_of(hello, peer);
	connection->r.sender.host += !connection->r.sender.host; /* 0 has not joined, and the peer says what it likes */
	pace_join(connection->r.pace, &connection->r.sender);
	if (hello->host_id == transport->host_id)
		connection->peer_process = hello->process_id;
	LIST_INSERT_HEAD(&transport->connections, connection, link);
	tcp_count_opened(connection);
	*ret = connection;
	return 0;
}

/* A stream of a connection whose streams are still coming in. Takes fd, unless an error is returned. */
static int join(struct tcp_transport *transport, struct tcp_connection *connection, const struct tcp_wire_hello *hello,
		int fd, const struct sockaddr_storage *peer, uint64_t now_ns)
{
	struct tcp_stream *stream;
	uint64_t unscheduled_bytes;

	if (hello->stream >= connection->stream_count)
		return -EINVAL;
	stream = &connection->streams[hello->stream];
	if (stream->live) { /* the connecting side tries again after it saw no answer */
		sys_close_socket(&stream->fd);
		stream->live = false;
		connection->joined_count--;
		connection->live_count--;
	}
	unscheduled_bytes = pace_unscheduled(connection->r.pace, &connection->r.sender);
	if (hello->stream + 1U ==
	    connection->stream_count) /* whose welcome the sender goes by: need not be said again */
		connection->r.unscheduled_told = unscheduled_bytes;
	if (!answer(transport, fd, connection->device, TCP_WELCOME_OK, connection->id, unscheduled_bytes))
		return -ECONNRESET;
	tcp_socket_tune(fd, peer->ss_family, transport->timeout_ns, -1);
	tcp_pin_accepted(transport, fd, hello, peer);
	tcp_stream_attach(stream, fd, hello->epoch, now_ns);
	pace_note_path(connection->r.pace, stream->path_ns);
	stream->peer = *peer;
	connection->live_count++;
	connection->last_rx_ns = now_ns;
	if (++connection->joined_count < connection->stream_count)
		return 0;
	for (unsigned i = 0; i < connection->stream_count; i++)
		tcp_failover_watch_stream(connection, &connection->streams[i], now_ns);
	STAILQ_INSERT_TAIL(&connection->listener->ready, connection, ready_link);
	return 0;
}

static int rejoin(struct tcp_transport *transport, struct tcp_connection *connection,
		  const struct tcp_wire_hello *hello, int fd, const struct sockaddr_storage *peer, uint64_t now_ns)
{
	int r;

	pthread_mutex_lock(&connection->lock);
	if (connection->error)
		r = -EREMOTEIO;
	else if (hello->stream >= connection->stream_count && tcp_socket_is_scarce(fd))
		r = -EMFILE;
	else
		r = tcp_connection_grow(connection, hello->stream + 1U);
	connection->joined_count = connection->stream_count;
	if (r == 0 && hello->epoch <= connection->streams[hello->stream].epoch)
		r = -EINVAL;
	if (r == 0 && connection->streams[hello->stream].move == TCP_MOVE_CALL) {
		tcp_failover_lost(connection, &connection->streams[hello->stream], "the sender dialled it anew", now_ns);
		r = -EAGAIN; /* the sender dials again */
	}
	if (r == 0)
		r = answer(transport, fd, connection->device, TCP_WELCOME_OK, connection->id, 0) ? 0 : -ECONNRESET;
	if (r == 0) {
		tcp_socket_tune(fd, peer->ss_family, transport->timeout_ns, -1);
		tcp_pin_accepted(transport, fd, hello, peer);
		r = tcp_failover_rejoin(connection, hello->stream, hello->epoch, fd, peer, now_ns);
		if (r == 0)
			tcp_failover_watch_stream(connection, &connection->streams[hello->stream], now_ns);
	}
	pthread_mutex_unlock(&connection->lock);
	return r;
}

/* Of a connection whose streams are still coming in; NULL: of a new one. True: the socket has found its connection. */
static bool new_stream_arrived(struct tcp_transport *transport, struct tcp_connection *connection,
			       const struct tcp_wire_hello *hello, struct tcp_pending *pending, uint64_t now_ns)
{
	struct tcp_listener *listener;
	int r;

	listener = find_listener(transport, hello);
	if (!listener) {
		reject(transport, &pending->peer, "did not prove the secret of a listener", now_ns);
		answer(transport, pending->fd, -1, TCP_WELCOME_SECRET, hello->connection_id, 0);
		return false;
	}
	if (!connection) {
		r = connection_begin(transport, listener, hello, &pending->peer, &connection);
		if (r < 0) {
			answer(transport, pending->fd, -1, TCP_WELCOME_FULL, hello->connection_id, 0);
			return false;
		}
	}
	return join(transport, connection, hello, pending->fd, &pending->peer, now_ns) == 0;
}

/* A whole hello is here. True: the socket has found its connection. */
static bool hello_arrived(struct tcp_transport *transport, struct tcp_pending *pending, uint64_t now_ns)
{
	struct tcp_wire_hello hello;
	struct tcp_connection *connection;
	int r = tcp_wire_hello(CODEC_FROM(pending->bytes, TCP_WIRE_HELLO_BYTES), &hello);

	if (r == -EPROTO) {
		reject_version(transport, &pending->peer, now_ns);
		answer(transport, pending->fd, -1, TCP_WELCOME_VERSION, 0, 0);
		return false;
	}
	if (r < 0) {
		reject(transport, &pending->peer, "did not speak Tributary's protocol", now_ns);
		return false;
	}
	connection = find_connection(transport, &hello);
	if (connection && connection->joined_count == connection->stream_count)
		r = rejoin(transport, connection, &hello, pending->fd, &pending->peer, now_ns);
	else if (!hello.listener_id)
		r = -EREMOTEIO; /* of a connection that has ended here */
	else
		return new_stream_arrived(transport, connection, &hello, pending, now_ns);
	if (r == -EREMOTEIO)
		answer(transport, pending->fd, -1, TCP_WELCOME_SECRET, hello.connection_id, 0);
	else if (r == -EMFILE || r == -ENOMEM)
		answer(transport, pending->fd, -1, TCP_WELCOME_FULL, hello.connection_id, 0);
	return r == 0;
}

/* True: its slot is free again. */
static bool pending_step(struct tcp_transport *transport, struct tcp_acceptor *acceptor, unsigned index,
			 uint64_t now_ns)
{
	struct tcp_pending *pending = &acceptor->pending[index];
	ssize_t got = sys_recv(pending->fd, pending->bytes + pending->count, sizeof(pending->bytes) - pending->count,
			       0);

	if (got == -EAGAIN || got == -EINTR) {
		if (clock_elapsed_ns(pending->since_ns, now_ns) < transport->timeout_ns)
			return false;
		reject(transport, &pending->peer, "said nothing", now_ns);
	} else if (got > 0) {
		pending->count += (size_t)got;
		if (pending->count < sizeof(pending->bytes))
			return false;
		if (hello_arrived(transport, pending, now_ns))
			pending->fd = -1; /* it belongs to a stream now */
	} else {
		reject(transport, &pending->peer, "left without a greeting", now_ns);
	}
	pending_drop(acceptor, index);
	return true;
}

/* Without a free descriptor accept() fails even if no peer has connected. */
static bool has_peer_waiting(const struct tcp_acceptor *acceptor)
{
	struct pollfd fd = { .fd = acceptor->fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

void tcp_acceptor_progress(struct tcp_transport *transport, struct tcp_acceptor *acceptor, uint64_t now_ns)
{
	for (unsigned i = 0; i < ACCEPTS_AT_ONCE && now_ns >= acceptor->paused_until_ns; i++) {
		struct tcp_pending *pending;
		struct sockaddr_storage peer;
		socklen_t bytes = sizeof(peer);
		int fd = sys_accept(acceptor->fd, &peer, &bytes);

		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
			static atomic_flag said = ATOMIC_FLAG_INIT;

			if (has_peer_waiting(acceptor) && log_once(&said))
				log_warn("cannot accept a connection: %s. Raise the limit (ulimit -n)", strerror(-fd));
			acceptor->paused_until_ns = now_ns + OUT_OF_DESCRIPTORS_NS;
			break;
		}
		if (fd == -EAGAIN)
			break;
		if (fd < 0)
			continue; /* that one was gone again before we got it */
		if (acceptor->pending_count == TCP_PENDING_MAX) {
			reject(transport, &acceptor->pending[0].peer, "said nothing before the next ones came", now_ns);
			pending_drop(acceptor, 0);
		}
		pending = &acceptor->pending[acceptor->pending_count++];
		memset(pending, 0, sizeof(*pending));
		pending->fd = fd;
		pending->peer = peer;
		pending->since_ns = now_ns;
		pending_step(transport, acceptor, acceptor->pending_count - 1, now_ns);
	}
	for (unsigned i = 0; i < acceptor->pending_count;)
		if (!pending_step(transport, acceptor, i, now_ns))
			i++;
}
