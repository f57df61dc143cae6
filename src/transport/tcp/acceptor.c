/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accepting side, for all listeners of the process. What connects has to show that it has a listener's or a
 * connection's secret before it costs more than a small slot (pending.c).
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REJECTED_SAY_NS       (60 * NS_PER_S)
#define OUT_OF_DESCRIPTORS_NS (50 * NS_PER_MS)
enum { ACCEPTS_AT_ONCE = 256, HALF_JOINED_MAX = 64 };

/* A peer whose HELLO is here. */
struct tcp_greeted {
	const struct tcp_pending *pending;
	struct tcp_wire_hello hello;
	struct tcp_wire_nonces nonces;
	const uint8_t *secret; /* that it has shown to have; NULL: none */
};

void tcp_acceptors_free(struct tcp_transport *transport)
{
	for (unsigned i = 0; i < transport->pending_count; i++)
		sys_close_socket(&transport->pending[i].fd);
	sys_free(transport->pending);
	for (size_t i = 0; i < TCP_ACCEPTOR_MAX; i++) {
		if (transport->acceptors[i])
			sys_close_socket(&transport->acceptors[i]->fd);
		sys_free(transport->acceptors[i]);
	}
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
static bool answer(struct tcp_transport *transport, const struct tcp_greeted *greeted, int device,
		   enum tcp_welcome status, uint64_t unscheduled_bytes)
{
	struct tcp_wire_welcome welcome = { .status = (uint8_t)status,
					    .process_id = (uint32_t)getpid(),
					    .connection_id = greeted->hello.connection_id,
					    .eager_window_bytes = TCP_EAGER_WINDOW,
					    .unscheduled_bytes = (uint32_t)unscheduled_bytes };
	uint8_t bytes[TCP_WIRE_WELCOME_BYTES];
	unsigned own;

	memcpy(welcome.host, transport->host, TCP_WIRE_HOST_BYTES);
	if (device >= 0) {
		welcome.way_count = (uint8_t)tcp_acceptor_ways(transport, device, welcome.ways, &own);
		welcome.own_count = (uint8_t)own;
		welcome.rail_count = (uint8_t)transport->devices.list[device].rail_count;
	}
	tcp_wire_welcome(CODEC_TO(bytes), &welcome);
	if (greeted->secret)
		tcp_wire_prove(TCP_WIRE_ACCEPTING, greeted->secret, &greeted->nonces, bytes, sizeof(bytes));
	/* Few bytes into an empty socket: it takes all of them or is broken. */
	return sys_send(greeted->pending->fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes);
}

static bool has_secret(const struct tcp_greeted *greeted, const uint8_t secret[static TCP_WIRE_SECRET_BYTES])
{
	return tcp_wire_is_proven(TCP_WIRE_CONNECTING, secret, &greeted->nonces, greeted->pending->bytes,
				  TCP_WIRE_HELLO_BYTES);
}

static struct tcp_connection *find_connection(struct tcp_transport *transport, const struct tcp_greeted *greeted)
{
	const struct tcp_wire_hello *hello = &greeted->hello;

	for (struct tcp_connection *connection = LIST_FIRST(&transport->connections); connection;
	     connection = LIST_NEXT(connection, link))
		if (connection->role == TCP_RECEIVER && connection->id == hello->connection_id &&
		    (!hello->listener_id || connection->listener_id == hello->listener_id) &&
		    has_secret(greeted, connection->secret))
			return connection;
	return NULL;
}

static struct tcp_listener *find_listener(struct tcp_transport *transport, const struct tcp_greeted *greeted)
{
	for (struct tcp_listener *listener = LIST_FIRST(&transport->listeners); listener;
	     listener = LIST_NEXT(listener, link))
		if (listener->id == greeted->hello.listener_id && has_secret(greeted, listener->secret))
			return listener;
	return NULL;
}

static int connection_begin(struct tcp_transport *transport, struct tcp_listener *listener,
			    const struct tcp_greeted *greeted, struct tcp_connection **ret)
{
	const struct tcp_wire_hello *hello = &greeted->hello;
	struct tcp_connection *connection;
	unsigned half_joined = 0;
	int r;

	for (connection = LIST_FIRST(&transport->connections); connection; connection = LIST_NEXT(connection, link))
		half_joined += connection->listener == listener;
	if (half_joined >= HALF_JOINED_MAX)
		return -EBUSY;
	r = tcp_connection_new(transport, TCP_RECEIVER, listener->device,
			       tcp_carrier_of(transport, listener->device, greeted->pending->acceptor->interface),
			       hello->stream_count, hello->active_count, &connection);
	if (r < 0)
		return r;
	connection->id = hello->connection_id;
	connection->listener_id = listener->id;
	connection->listener = listener;
	memcpy(connection->secret, listener->secret, TCP_WIRE_SECRET_BYTES);
	memcpy(connection->peer_host, hello->host, TCP_WIRE_HOST_BYTES);
	connection->r.host_id = hello->host_id;
	connection->r.ways_told_ns = connection->created_ns;
	connection->r.one_port = hello->active_count == 1;
	tcp_carrier_join(connection, &greeted->pending->peer);
	if (hello->host_id == transport->host_id)
		connection->peer_process = hello->process_id;
	LIST_INSERT_HEAD(&transport->connections, connection, link);
	tcp_count_opened(connection);
	*ret = connection;
	return 0;
}

/* A stream of a connection whose streams are still coming in. Takes the socket, unless an error is returned. */
static int join(struct tcp_transport *transport, struct tcp_connection *connection, const struct tcp_greeted *greeted,
		uint64_t now_ns)
{
	const struct tcp_wire_hello *hello = &greeted->hello;
	const struct sockaddr_storage *peer = &greeted->pending->peer;
	const int fd = greeted->pending->fd;
	struct tcp_stream *stream;
	uint64_t unscheduled_bytes;

	if (hello->stream >= connection->stream_count)
		return -EINVAL;
	stream = &connection->streams[hello->stream];
	if (stream->live && hello->epoch < stream->epoch)
		return -EINVAL; /* delayed: a later one is here */
	/* The connecting side tries again after it saw no answer. */
	if (stream->live) {
		sys_close_socket(&stream->fd);
		stream->live = false;
		connection->joined_count--;
		connection->live_count--;
	}
	unscheduled_bytes = pace_unscheduled(connection->r.pace, &connection->r.sender);
	if (hello->stream + 1U ==
	    connection->stream_count) /* whose welcome the sender goes by: need not be said again */
		connection->r.unscheduled_told = unscheduled_bytes;
	if (!answer(transport, greeted, connection->device, TCP_WELCOME_OK, unscheduled_bytes))
		return -ECONNRESET;
	tcp_socket_tune(fd, peer->ss_family, transport->timeout_ns, -1);
	tcp_pin_accepted(transport, fd, hello, peer);
	tcp_stream_attach(stream, fd, hello->epoch, now_ns);
	pace_note_path(connection->r.pace, stream->path_ns);
	stream->peer = *peer;
	stream->interface = greeted->pending->acceptor->interface;
	connection->live_count++;
	connection->last_rx_ns = now_ns;
	if (++connection->joined_count < connection->stream_count)
		return 0;
	for (unsigned i = 0; i < connection->stream_count; i++)
		tcp_failover_watch_stream(connection, &connection->streams[i], now_ns);
	STAILQ_INSERT_TAIL(&connection->listener->ready, connection, ready_link);
	return 0;
}

static int rejoin(struct tcp_transport *transport, struct tcp_connection *connection, const struct tcp_greeted *greeted,
		  uint64_t now_ns)
{
	const struct tcp_wire_hello *hello = &greeted->hello;
	const struct sockaddr_storage *peer = &greeted->pending->peer;
	const int fd = greeted->pending->fd;
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
		tcp_failover_lost(connection, &connection->streams[hello->stream], "the sender dialled it anew",
				  now_ns);
		r = -EAGAIN; /* the sender dials again */
	}
	if (r == 0) {
		tcp_acceptors_refresh(transport, now_ns);
		connection->r.ways_told_ns = now_ns;
		r = answer(transport, greeted, connection->device, TCP_WELCOME_OK, 0) ? 0 : -ECONNRESET;
	}
	if (r == 0) {
		tcp_socket_tune(fd, peer->ss_family, transport->timeout_ns, -1);
		tcp_pin_accepted(transport, fd, hello, peer);
		r = tcp_failover_rejoin(connection, hello->stream, hello->epoch, fd, peer, now_ns);
		if (r == 0) {
			connection->streams[hello->stream].interface = greeted->pending->acceptor->interface;
			tcp_failover_watch_stream(connection, &connection->streams[hello->stream], now_ns);
		}
	}
	pthread_mutex_unlock(&connection->lock);
	return r;
}

/* Of a connection whose streams are still coming in; NULL: of a new one. True: the socket has found its connection. */
static bool new_stream_arrived(struct tcp_transport *transport, struct tcp_connection *connection,
			       struct tcp_greeted *greeted, uint64_t now_ns)
{
	struct tcp_listener *listener;
	int r;

	listener = find_listener(transport, greeted);
	if (!listener) {
		reject(transport, &greeted->pending->peer, "did not prove the secret of a listener", now_ns);
		answer(transport, greeted, -1, TCP_WELCOME_SECRET, 0);
		return false;
	}
	greeted->secret = listener->secret;
	if (!connection) {
		r = connection_begin(transport, listener, greeted, &connection);
		if (r < 0) {
			answer(transport, greeted, -1, TCP_WELCOME_FULL, 0);
			return false;
		}
	}
	return join(transport, connection, greeted, now_ns) == 0;
}

/* A whole hello is here. True: the socket has found its connection. */
static bool hello_arrived(struct tcp_transport *transport, const struct tcp_pending *pending, uint64_t now_ns)
{
	struct tcp_greeted greeted = { .pending = pending };
	struct tcp_connection *connection;
	int r = tcp_wire_hello(CODEC_FROM(pending->bytes, TCP_WIRE_HELLO_BYTES), &greeted.hello);

	if (r == -EPROTO) {
		reject_version(transport, &pending->peer, now_ns);
		answer(transport, &greeted, -1, TCP_WELCOME_VERSION, 0);
		return false;
	}
	if (r < 0) {
		reject(transport, &pending->peer, "did not speak Tributary's protocol", now_ns);
		return false;
	}
	memcpy(greeted.nonces.accepting, pending->nonce, TCP_WIRE_NONCE_BYTES);
	memcpy(greeted.nonces.connecting, greeted.hello.nonce, TCP_WIRE_NONCE_BYTES);
	connection = find_connection(transport, &greeted);
	if (connection)
		greeted.secret = connection->secret;
	if (connection && connection->joined_count == connection->stream_count)
		r = rejoin(transport, connection, &greeted, now_ns);
	else if (!greeted.hello.listener_id)
		r = -EREMOTEIO; /* of a connection that has ended here */
	else
		return new_stream_arrived(transport, connection, &greeted, now_ns);
	if (r == -EREMOTEIO)
		answer(transport, &greeted, -1, TCP_WELCOME_SECRET, 0);
	else if (r == -EMFILE || r == -ENOMEM)
		answer(transport, &greeted, -1, TCP_WELCOME_FULL, 0);
	return r == 0;
}

/* True: its slot is free again. */
static bool pending_step(struct tcp_transport *transport, struct tcp_pending *pending, uint64_t now_ns)
{
	ssize_t got = pending->ready ? sys_recv(pending->fd, pending->bytes + pending->count,
						sizeof(pending->bytes) - pending->count, 0)
				     : -EAGAIN;

	if (got == -EAGAIN || got == -EINTR) {
		/* It is then closed without a line: its network may have failed after it had connected. */
		if (clock_elapsed_ns(pending->since_ns, now_ns) < transport->timeout_ns)
			return false;
	} else if (got > 0) {
		pending->count += (size_t)got;
		if (pending->count < sizeof(pending->bytes))
			return false;
		if (hello_arrived(transport, pending, now_ns))
			pending->fd = -1; /* it belongs to a stream now */
	} else if (pending->count) {      /* else it found a better way */
		reject(transport, &pending->peer, "left without a greeting", now_ns);
	}
	tcp_pending_drop(transport, pending);
	return true;
}

/* False: it is not worth a slot. */
static bool challenge(struct tcp_pending *pending)
{
	struct tcp_wire_challenge challenge;
	uint8_t bytes[TCP_WIRE_CHALLENGE_BYTES];

	if (tcp_socket_random(challenge.nonce, sizeof(challenge.nonce)) < 0)
		return false;
	memcpy(pending->nonce, challenge.nonce, sizeof(pending->nonce));
	tcp_wire_challenge(CODEC_TO(bytes), &challenge);
	return sys_send(pending->fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes);
}

/* Without a free descriptor accept() fails even if no peer has connected. */
static bool has_peer_waiting(const struct tcp_acceptor *acceptor)
{
	struct pollfd fd = { .fd = acceptor->fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

static void make_room(struct tcp_transport *transport, uint64_t now_ns)
{
	struct tcp_pending *victim;

	if (transport->pending_count < transport->pending_most)
		return;
	victim = tcp_pending_victim(transport);
	reject(transport, &victim->peer, "said nothing before the next ones came", now_ns);
	tcp_pending_drop(transport, victim);
}

static void accept_some(struct tcp_transport *transport, struct tcp_acceptor *acceptor, uint64_t now_ns)
{
	for (unsigned i = 0; i < ACCEPTS_AT_ONCE && tcp_pending_has_room(transport, now_ns); i++) {
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
		make_room(transport, now_ns);
		pending = tcp_pending_add(transport, acceptor, fd, &peer, now_ns);
		if (!challenge(pending)) /* nothing can have come yet that is worth a call */
			tcp_pending_drop(transport, pending);
	}
}

void tcp_acceptors_progress(struct tcp_transport *transport, uint64_t now_ns)
{
	for (unsigned i = 0; i < transport->pending_count;)
		if (!pending_step(transport, &transport->pending[i], now_ns))
			i++;
	for (size_t i = 0; i < TCP_ACCEPTOR_MAX; i++)
		if (transport->acceptors[i] && now_ns >= transport->acceptors[i]->paused_until_ns)
			accept_some(transport, transport->acceptors[i], now_ns);
}
