/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connecting side. Each stream is dialled by a small state table; a connection stands when all of them do. One step
 * a call, nothing blocks.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"
#include "transport/tcp/reach.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DIAL_RETRY_NS   (50 * NS_PER_MS)
#define REDIAL_LIMIT_NS (2 * NS_PER_S)
enum {
	DIAL_REFUSED_MAX = 20, /* a second of refusals: nobody listens there any more, or a firewall says so */
	LAST_REFUSED_MAX = 3,  /* the same of a peer whose last stream was lost: its process has ended */
};

/* Puts the socket off and tries again a little later. Some refusals are only a full backlog. */
static int dial_again(struct tcp_transport *transport, struct tcp_dial *dial, int error, uint64_t now_ns)
{
	const uint64_t replace_ns = params_replace_ns(transport->params->timeout_ns);

	sys_close_socket(&dial->fd);
	if (dial->state >= TCP_DIAL_HELLO) {
		dial->hello.epoch++; /* the other side may have taken the last one: only its answer was lost */
		dial->next_pin_ns = now_ns + replace_ns / TCP_PIN_TRIES; /* this way leads there */
	}
	dial->state = TCP_DIAL_START;
	dial->retry_at_ns = now_ns + DIAL_RETRY_NS;
	dial->last_error = error;
	if (tcp_pin_give_up(dial, error, replace_ns, now_ns))
		return 0;
	if (error == -ECONNREFUSED && ++dial->refused >= DIAL_REFUSED_MAX)
		return error;
	return 0;
}

static int dial_start(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	int r;

	if (now_ns < dial->retry_at_ns)
		return 0;
	dial->fd = sys_socket(dial->peer.ss_family, SOCK_STREAM, 0);
	if (dial->fd < 0)
		return dial->fd;
	tcp_socket_tune(dial->fd, dial->peer.ss_family, transport->timeout_ns, dial->traffic_class);
	tcp_mtu_dial(transport, dial);
	tcp_pin_dial(transport, dial);
	r = sys_connect(dial->fd, (const struct sockaddr *)&dial->peer, dial->peer_bytes);
	if (r < 0 && r != -EINPROGRESS)
		return dial_again(transport, dial, r, now_ns);
	dial->state = TCP_DIAL_CONNECT;
	return 0;
}

static int dial_connect(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	int r;

	r = sys_connect(dial->fd, (const struct sockaddr *)&dial->peer, dial->peer_bytes);
	if (r == -EALREADY || r == -EINPROGRESS)
		return 0;
	if (r < 0 && r != -EISCONN)
		return dial_again(transport, dial, r, now_ns);
	tcp_wire_hello(CODEC_TO(dial->bytes), &dial->hello);
	dial->count = 0;
	dial->state = TCP_DIAL_HELLO;
	return 0;
}

static int dial_hello(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	ssize_t r = sys_send(dial->fd, dial->bytes + dial->count, TCP_WIRE_HELLO_BYTES - dial->count);

	if (r == -EAGAIN || r == -EINTR)
		return 0;
	if (r < 0)
		return dial_again(transport, dial, (int)r, now_ns);
	dial->count += (size_t)r;
	if (dial->count < TCP_WIRE_HELLO_BYTES)
		return 0;
	dial->count = 0;
	dial->state = TCP_DIAL_WELCOME;
	return 0;
}

static void say_reach(const struct tcp_transport *transport, const struct tcp_dial *dial, enum tcp_reach reach,
		      int error, unsigned version)
{
	const bool tied = dial->interface >= 0 && dial->pin != TCP_PIN_NONE;
	const struct params *params = transport->params;
	char at[TCP_ADDRESS_TEXT], ports[16], line[TCP_REACH_LINE_BYTES];
	const struct tcp_reach_facts facts = {
		.error = error,
		.ports = params->port_high ? ports : NULL,
		.peers_version = version,
		.own_version = TCP_WIRE_VERSION,
		.own_host = transport->host,
		.host = dial->host,
		.at = tcp_socket_text(&dial->peer, at),
		.interface = tied ? transport->interfaces[dial->interface].name : NULL,
	};

	snprintf(ports, sizeof(ports), "%u-%u", params->port_low, params->port_high);
	tcp_reach_line(reach, &facts, line);
	log_warn("%s", line);
}

static int not_ours(const struct tcp_transport *transport, const struct tcp_dial *dial)
{
	say_reach(transport, dial, TCP_REACH_FOREIGN, 0, 0);
	return -EPROTO;
}

static int dial_welcome(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	ssize_t got = sys_recv(dial->fd, dial->bytes + dial->count, TCP_WIRE_WELCOME_BYTES - dial->count, 0);
	struct codec *codec = CODEC_FROM(dial->bytes, TCP_WIRE_WELCOME_BYTES);
	int r;

	if (got == -EAGAIN || got == -EINTR)
		return 0;
	if (got <= 0) /* pushed out of a crowded accept queue, most likely */
		return dial_again(transport, dial, got ? (int)got : -ECONNRESET, now_ns);
	dial->count += (size_t)got;
	if (dial->count < TCP_WIRE_WELCOME_BYTES)
		return 0;
	r = tcp_wire_welcome(codec, &dial->welcome);
	if (r == -EPROTO || (r == 0 && dial->welcome.status == TCP_WELCOME_VERSION)) {
		say_reach(transport, dial, TCP_REACH_VERSION, 0, codec->version);
		return -EPROTO;
	}
	if (r < 0)
		return not_ours(transport, dial);
	if (dial->welcome.status == TCP_WELCOME_SECRET)
		return -ECONNREFUSED; /* its listener is gone */
	if (dial->welcome.status != TCP_WELCOME_OK)
		return -EBUSY;
	if (dial->welcome.connection_id != dial->hello.connection_id || !dial->welcome.rail_count)
		return not_ours(transport, dial);
	dial->state = TCP_DIAL_READY;
	tcp_pin_ready(transport, dial);
	return 0;
}

static int dial_ready(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	(void)transport, (void)dial, (void)now_ns;
	return 0;
}

static int (*const dial_steps[TCP_DIAL_STATE_COUNT])(struct tcp_transport *transport, struct tcp_dial *dial,
						     uint64_t now_ns) = {
	[TCP_DIAL_START] = dial_start,     [TCP_DIAL_CONNECT] = dial_connect, [TCP_DIAL_HELLO] = dial_hello,
	[TCP_DIAL_WELCOME] = dial_welcome, [TCP_DIAL_READY] = dial_ready,
};

/* One step of one stream; -errno when it has failed for good. */
static int tcp_dial_step(struct tcp_transport *transport, struct tcp_dial *dial, uint64_t now_ns)
{
	enum tcp_dial_state before;
	int r;

	do { /* on to the first state that has to wait */
		before = dial->state;
		r = dial_steps[dial->state](transport, dial, now_ns);
	} while (r == 0 && dial->state > before);
	if (r == 0 && dial->state != TCP_DIAL_READY && now_ns > dial->deadline_ns)
		r = -ETIMEDOUT;
	/* Not while a greeting waits: the way leads there, and a process that is held up is no fault of its. */
	if (r == 0 && dial->state == TCP_DIAL_CONNECT && now_ns > dial->next_pin_ns && dial->pin != TCP_PIN_NONE)
		r = dial_again(transport, dial, -ETIMEDOUT, now_ns);
	return r;
}

static void connector_free(struct tcp_connector *connector)
{
	LIST_REMOVE(connector, link);
	for (unsigned i = 0; i < connector->dial_count; i++)
		sys_close_socket(&connector->dials[i].fd);
	sys_free(connector);
}

void tcp_connector_expire(struct tcp_transport *transport, uint64_t now_ns, bool all)
{
	struct tcp_connector *connector, *next;

	for (connector = LIST_FIRST(&transport->connectors); connector; connector = next) {
		next = LIST_NEXT(connector, link);
		/* Twice the time: as long as somebody calls, the error is reported there. */
		if (all || now_ns > connector->deadline_ns + transport->timeout_ns)
			connector_free(connector);
	}
}

static unsigned streams_a_rail(const struct tcp_transport *transport, const struct transport_device *device)
{
	const struct tcp_interface *interface = &transport->interfaces[device->members[0]];

	if (transport->params->streams)
		return transport->params->streams;
	if (interface->path_count > 1) /* enough that a bond's hash finds every link */
		return 2 * interface->path_count;
	return 1;
}

static void set_up_dial(struct tcp_connector *connector, unsigned index, const struct tcp_wire_address *address)
{
	const struct tcp_transport *transport = connector->transport;
	const struct transport_device *device = &transport->devices.list[connector->device];
	struct tcp_dial *dial = &connector->dials[index];
	int interface = device->rail_count ? device->members[index % device->rail_count] : 0;
	const struct sockaddr_storage *own = &transport->interfaces[interface].address;
	unsigned scope = own->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)own)->sin6_scope_id : 0;

	memset(dial, 0, sizeof(*dial));
	dial->fd = -1;
	dial->peer_bytes = tcp_socket_address(address, scope, &dial->peer);
	dial->interface = connector->handle.host_id == transport->host_id ? -1 : interface;
	dial->port = address->port;
	dial->tied_port = address->tied_port;
	dial->pin = dial->interface < 0 ? TCP_PIN_NONE : TCP_PIN_BOTH;
	dial->may_unpin = true;
	dial->next_pin_ns = clock_now_ns() + params_replace_ns(transport->params->timeout_ns) / TCP_PIN_TRIES;
	dial->traffic_class = connector->traffic_class;
	dial->deadline_ns = connector->deadline_ns; /* of the first stream and of those after it together */
	dial->hello = (struct tcp_wire_hello){
		.stream = (uint8_t)index,
		.stream_count = (uint8_t)connector->dial_count,
		.active_count = (uint8_t)connector->active_count,
		.listener_id = connector->handle.listener_id,
		.process_id = (uint32_t)getpid(),
		.connection_id = connector->connection_id,
		.host_id = transport->host_id,
		.eager_window_bytes = TCP_EAGER_WINDOW,
		.timeout_ms = (uint32_t)(transport->timeout_ns / NS_PER_MS),
	};
	memcpy(dial->hello.secret, connector->handle.secret, TCP_WIRE_SECRET_BYTES);
	memcpy(dial->hello.host, transport->host, TCP_WIRE_HOST_BYTES);
	memcpy(dial->host, connector->handle.host, TCP_WIRE_HOST_BYTES);
}

static int connector_new(struct tcp_transport *transport, int device, int traffic_class,
			 const struct tcp_wire_handle *handle, struct tcp_connector **ret)
{
	struct tcp_connector *connector = sys_zalloc(sizeof(*connector));
	unsigned rails = transport->devices.list[device].rail_count;
	int r;

	if (!connector)
		return -ENOMEM;
	r = tcp_socket_random(&connector->connection_id, sizeof(connector->connection_id));
	if (r < 0) {
		sys_free(connector);
		return r;
	}
	if (handle->rail_count > rails)
		rails = handle->rail_count;
	connector->transport = transport;
	connector->handle = *handle;
	connector->device = device;
	connector->traffic_class = traffic_class;
	connector->active_count = rails * streams_a_rail(transport, &transport->devices.list[device]);
	if (connector->active_count > 1) /* one for words */
		connector->active_count++;
	if (connector->active_count > TCP_STREAMS_MAX)
		connector->active_count = TCP_STREAMS_MAX;
	/* One stream alone would have nothing to fail over to. */
	connector->dial_count = connector->active_count == 1 ? 2 : connector->active_count;
	connector->deadline_ns = clock_now_ns() + transport->timeout_ns;
	for (unsigned i = 0; i < connector->dial_count; i++)
		set_up_dial(connector, i, &handle->address);
	connector->id = ++transport->next_connector_id;
	LIST_INSERT_HEAD(&transport->connectors, connector, link);
	*ret = connector;
	return 0;
}

/* 0: not yet; 1: all streams stand. The first stream's answer says where the others may go. */
static int step_dials(struct tcp_connector *connector, unsigned *ret_failed)
{
	uint64_t now_ns = clock_now_ns();
	bool first_was_ready = connector->dials[0].state == TCP_DIAL_READY;
	unsigned ready = 0;

	for (unsigned i = 0; i < connector->dial_count; i++) {
		int r;

		*ret_failed = i;
		r = tcp_dial_step(connector->transport, &connector->dials[i], now_ns);
		if (r < 0)
			return r;
		if (connector->dials[0].state != TCP_DIAL_READY)
			return 0;
		if (i == 0 && !first_was_ready)
			for (unsigned k = 1; k < connector->dial_count; k++) {
				const struct tcp_wire_welcome *welcome = &connector->dials[0].welcome;

				set_up_dial(connector, k, &welcome->rails[k % welcome->rail_count]);
			}
		if (connector->dials[i].state == TCP_DIAL_READY)
			ready++;
	}
	return ready == connector->dial_count;
}

static int connection_from(struct tcp_connector *connector, struct tcp_connection **ret)
{
	struct tcp_transport *transport = connector->transport;
	struct tcp_connection *connection;
	uint64_t now_ns = clock_now_ns();
	int r = tcp_connection_new(transport, TCP_SENDER, connector->device, connector->dial_count,
				   connector->active_count, &connection);

	if (r < 0)
		return r;
	connection->id = connector->connection_id;
	connection->listener_id = connector->handle.listener_id;
	memcpy(connection->secret, connector->handle.secret, TCP_WIRE_SECRET_BYTES);
	connection->s.host = connector->handle.host_id;
	memcpy(connection->peer_host, connector->dials[0].welcome.host, TCP_WIRE_HOST_BYTES);
	if (connector->handle.host_id == transport->host_id)
		connection->peer_process = connector->handle.process_id;
	for (unsigned i = 0; i < connector->dial_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		tcp_stream_attach(stream, connector->dials[i].fd, connector->dials[i].hello.epoch, now_ns);
		stream->peer = connector->dials[i].peer;
		connector->dials[i].fd = -1;
		/* For dialling it again: the same words to the same place. */
		stream->dial = sys_zalloc(sizeof(*stream->dial));
		if (stream->dial) {
			*stream->dial = connector->dials[i];
			stream->dial->state = TCP_DIAL_START;
			/* It must find this connection: at the listener it would begin another one. */
			stream->dial->hello.listener_id = 0;
		}
		connection->live_count++;
	}
	tcp_sender_may_begin(connection, connector->dials[connector->dial_count - 1].welcome.unscheduled_bytes);
	tcp_growth_init(connection);
	LIST_INSERT_HEAD(&transport->connections, connection, link);
	tcp_count_opened(connection);
	for (unsigned i = 0; i < connection->stream_count; i++)
		tcp_failover_watch_stream(connection, &connection->streams[i], now_ns);
	*ret = connection;
	return 0;
}

static void say_failed(const struct tcp_connector *connector, unsigned index, int error)
{
	const struct tcp_dial *dial = &connector->dials[index];
	bool connected;

	if (error == -EPROTO)
		return; /* said where it was found */
	if (error == -EMFILE || error == -ENFILE) {
		log_warn("cannot connect to host %s: %s. Raise the limit (ulimit -n)", connector->handle.host,
			 strerror(-error));
		return;
	}
	if (error == -EBUSY) {
		log_warn("cannot connect from host %s to host %s: its process has no memory for another connection, or has "
			 "too many that it did not accept",
			 connector->transport->host, connector->handle.host);
		return;
	}
	connected = dial->state >= TCP_DIAL_HELLO;
	if (!connected && dial->last_error)
		error = dial->last_error;
	say_reach(connector->transport, dial,
		  dial->state == TCP_DIAL_WELCOME && dial->welcome.status == TCP_WELCOME_SECRET
			  ? TCP_REACH_SECRET
			  : tcp_reach_of(error, connected),
		  error, 0);
}

static int begin(struct tcp_transport *transport, int device, int traffic_class,
		 uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], struct tcp_connector **ret)
{
	struct tcp_wire_handle handle;
	char host[TCP_WIRE_HOST_BYTES];
	uint16_t version;
	int r = tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &handle);

	if (r < 0) {
		tcp_wire_peek_host(bytes, host, &version);
		if (version)
			log_warn("host %s speaks version %u of Tributary's protocol, this host (%s) speaks %u: install "
				 "the same release on both",
				 host, version, transport->host, TCP_WIRE_VERSION);
		else
			log_warn("a peer of host %s sent a handle that is not Tributary's: is the plugin loaded on "
				 "every host, with the same TRIBUTARY_NET?",
				 transport->host);
		return -EPROTO;
	}
	return connector_new(transport, device, traffic_class, &handle, ret);
}

int tcp_connector_step(struct tcp_transport *transport, int device, int traffic_class,
		       uint8_t handle[static TCP_WIRE_HANDLE_BYTES], struct tcp_connection **ret)
{
	uint64_t cookie = tcp_wire_get_cookie(handle);
	struct tcp_connector *connector;
	unsigned failed = 0;
	int r;

	for (connector = LIST_FIRST(&transport->connectors); connector && connector->id != cookie;)
		connector = LIST_NEXT(connector, link);
	if (!connector) {
		r = cookie ? -EINVAL : begin(transport, device, traffic_class, handle, &connector);
		if (r < 0)
			return r;
		tcp_wire_put_cookie(handle, connector->id);
	}
	r = step_dials(connector, &failed);
	if (r == 0)
		return 0;
	if (r < 0)
		say_failed(connector, failed, r);
	else
		r = connection_from(connector, ret);
	tcp_wire_put_cookie(handle, 0);
	connector_free(connector);
	return r == -ETIMEDOUT || r == -ECONNREFUSED || r == -EBUSY ? -EREMOTEIO : r;
}

/* False: the connection has failed. */
static bool redial_failed(struct tcp_connection *connection, struct tcp_stream *stream, int error, uint64_t now_ns)
{
	/* Nobody listens at its host any more, or its process does not know the connection. */
	if (!connection->live_count && error == -ECONNREFUSED) {
		tcp_connection_fail(connection, -EREMOTEIO, connection->lost_why);
		return false;
	}
	sys_close_socket(&stream->dial->fd);
	stream->dial->state = TCP_DIAL_START;
	stream->dial->refused = 0;
	stream->dial->retry_at_ns = 0;
	stream->redial_at_ns = now_ns + stream->redial_wait_ns;
	if (stream->redial_wait_ns < REDIAL_LIMIT_NS)
		stream->redial_wait_ns *= 2;
	return true;
}

static bool is_to_be_dialled(const struct tcp_connection *connection, const struct tcp_stream *stream, uint64_t now_ns)
{
	const struct tcp_dial *dial = stream->dial;

	if (stream->live || !dial || now_ns < stream->redial_at_ns)
		return false;
	/* A dial that has begun is finished: the peer would log a socket that closes without HELLO. */
	if (!tcp_stream_is_wanted(connection, stream->index) && dial->state == TCP_DIAL_START)
		return false;
	/* How far the receiver got it is asked over another one, if there is one. */
	return !stream->awaits_dead || !connection->live_count || dial->state != TCP_DIAL_START;
}

void tcp_connector_redial(struct tcp_connection *connection, uint64_t now_ns)
{
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];
		struct tcp_dial *dial = stream->dial;
		int r;

		if (!is_to_be_dialled(connection, stream, now_ns))
			continue;
		if (dial->state == TCP_DIAL_START && dial->fd < 0 && !dial->retry_at_ns) {
			dial->deadline_ns = now_ns + connection->transport->timeout_ns;
			dial->next_pin_ns = now_ns + params_replace_ns(connection->transport->params->timeout_ns) / TCP_PIN_TRIES;
			dial->pin = dial->interface < 0 ? TCP_PIN_NONE : TCP_PIN_BOTH;
			dial->gave_up = false;
		}
		/* As long as another stream lives this one waits for its own interface to come back. */
		dial->may_unpin = !connection->live_count;
		if (dial->hello.epoch <= stream->epoch)
			dial->hello.epoch = stream->epoch + 1;
		r = tcp_dial_step(connection->transport, dial, now_ns);
		if (r == 0 && !connection->live_count && dial->refused >= LAST_REFUSED_MAX)
			r = -ECONNREFUSED;
		if (r < 0) {
			if (!redial_failed(connection, stream, r, now_ns))
				return;
		} else if (dial->state == TCP_DIAL_READY) {
			const bool was_live = stream->was_live;
			int fd = dial->fd;

			dial->fd = -1;
			dial->state = TCP_DIAL_START;
			dial->retry_at_ns = 0;
			tcp_failover_attach(connection, stream, fd, dial->hello.epoch, now_ns);
			if (was_live)
				log_info(LOG_NET, "stream %u with host %s is back", i, connection->peer_host);
			tcp_failover_watch_stream(connection, stream, now_ns);
		}
	}
}
