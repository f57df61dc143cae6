/* SPDX-License-Identifier: Apache-2.0 */
/* The connecting side: a connection stands when all its streams do. One step a call, nothing blocks. */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/foreign.h"
#include "transport/tcp/dial.h"
#include "transport/tcp/reach.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SWITCH_NS       NS_PER_S          /* what another rail has to be reached */
#define BETTER_NS       (100 * NS_PER_MS) /* what a better way has */
#define BETTER_FIRST_NS (10 * NS_PER_S)   /* after which it is looked for again */

static void end_better(struct tcp_connector *connector);

static void connector_free(struct tcp_connector *connector)
{
	LIST_REMOVE(connector, link);
	tcp_race_end(&connector->race);
	end_better(connector);
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

/* What it says, whichever way it takes. */
static void set_up_words(struct tcp_connector *connector, unsigned index)
{
	const struct tcp_transport *transport = connector->transport;
	struct tcp_dial *dial = &connector->dials[index];

	memset(dial, 0, sizeof(*dial));
	dial->fd = -1;
	dial->traffic_class = connector->traffic_class;
	dial->peer_is_here = connector->handle.host_id == transport->host_id;
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
	memcpy(dial->secret, connector->handle.secret, TCP_WIRE_SECRET_BYTES);
	memcpy(dial->hello.host, transport->host, TCP_WIRE_HOST_BYTES);
	memcpy(dial->host, connector->handle.host, sizeof(connector->handle.host));
}

/* The way that the first one has taken. */
static void follow_first(struct tcp_connector *connector, struct tcp_dial *dial, uint64_t now_ns)
{
	const struct tcp_dial *first = &connector->dials[0];
	struct tcp_wire_address peer = connector->race.ways[connector->race.taken].peer;

	peer.tied_port = first->tied_port;
	tcp_dial_set_up(connector->transport, dial, &peer, first->interface, now_ns);
	dial->pin = first->pin;
	dial->follows = true;
}

static unsigned own_rail(const struct tcp_connector *connector, const struct tcp_dial *dial)
{
	const struct transport_device *device = &connector->transport->devices.list[connector->device];

	return device->rail_count ? dial->hello.stream % device->rail_count : 0;
}

/* Another rail's way is that of its own ports, as long as they may yet be joined. */
static void set_up_rail(struct tcp_connector *connector, struct tcp_dial *dial, uint64_t now_ns)
{
	const struct transport_device *device = &connector->transport->devices.list[connector->device];
	const struct tcp_wire_welcome *welcome = &connector->dials[0].welcome;
	const unsigned own = own_rail(connector, dial), peers = dial->hello.stream % welcome->rail_count;

	dial->follows = false;
	if (connector->dials[0].peer_is_here)
		tcp_dial_set_up(connector->transport, dial, &welcome->ways[peers], TCP_WAY_ROUTED, now_ns);
	else if (!own && !peers)
		follow_first(connector, dial, now_ns);
	else
		tcp_dial_set_up(connector->transport, dial, &welcome->ways[peers], device->members[own], now_ns);
}

/* WELCOME will most likely send it to the peer's address in the subnet of its own port. False: there is none. */
static bool guess_rail(struct tcp_connector *connector, struct tcp_dial *dial, uint64_t now_ns)
{
	const struct transport_device *device = &connector->transport->devices.list[connector->device];
	const struct tcp_wire_address *first = &connector->handle.address;
	const unsigned own = own_rail(connector, dial), peers = dial->hello.stream % connector->handle.rail_count;

	if (!own && !peers) {
		follow_first(connector, dial, now_ns);
		return true;
	}
	for (unsigned i = 0; i < connector->race.way_count; i++) {
		const struct tcp_way *way = &connector->race.ways[i];
		const bool is_first = !memcmp(way->peer.bytes, first->bytes, sizeof(first->bytes));

		if (way->interface != device->members[own] || !way->neighbours || is_first != !peers)
			continue;
		tcp_dial_set_up(connector->transport, dial, &way->peer, way->interface, now_ns);
		dial->may_unpin = false;
		return true;
	}
	return false;
}

static void leave_ahead(struct tcp_connector *connector)
{
	for (unsigned i = 1; i < connector->dial_count; i++) {
		sys_close_socket(&connector->dials[i].fd);
		connector->dials[i].held = false;
	}
	connector->ahead = false;
}

/* The others connect while the first one waits for WELCOME. */
static void step_ahead(struct tcp_connector *connector, uint64_t now_ns)
{
	const bool begin = !connector->ahead;

	if (connector->dials[0].peer_is_here)
		return;
	connector->ahead = true;
	for (unsigned i = 1; i < connector->dial_count; i++) {
		struct tcp_dial *dial = &connector->dials[i];

		if (begin)
			dial->held = guess_rail(connector, dial, now_ns);
		if (dial->held && tcp_dial_step(connector->transport, dial, now_ns) < 0) {
			sys_close_socket(&dial->fd);
			dial->held = false;
		}
	}
}

static bool is_underway(const struct tcp_dial *dial, const struct tcp_dial *wanted)
{
	return dial->held && dial->fd >= 0 && !dial->gave_up && dial->interface == wanted->interface &&
	       dial->port == wanted->port && dial->tied_port == wanted->tied_port && dial->follows == wanted->follows &&
	       (dial->pin == wanted->pin || !dial->follows) && tcp_socket_same_address(&dial->peer, &wanted->peer);
}

/* Those that are not on the way that WELCOME has for them, or failed, are dialled anew. */
static void set_up_others(struct tcp_connector *connector, uint64_t now_ns)
{
	for (unsigned i = 1; i < connector->dial_count; i++) {
		struct tcp_dial *dial = &connector->dials[i], wanted = *dial;

		set_up_rail(connector, &wanted, now_ns);
		if (is_underway(dial, &wanted)) {
			dial->refused = 0;
			dial->may_unpin = true;
			dial->next_pin_ns = wanted.next_pin_ns;
		} else {
			sys_close_socket(&dial->fd);
			*dial = wanted;
			dial->last_error = dial->version = 0;
			dial->failed_in = TCP_DIAL_START;
		}
		dial->held = false;
	}
}

static void begin_race(struct tcp_connector *connector)
{
	const struct tcp_wire_handle *handle = &connector->handle;
	struct tcp_race *race = &connector->race;
	struct tcp_wire_address peers[TCP_WIRE_HANDLE_WAYS_MAX] = { handle->address };

	memcpy(peers + 1, handle->ways, handle->way_count * sizeof(peers[0]));
	race->transport = connector->transport;
	race->device = connector->device;
	race->dial = &connector->dials[0];
	race->deadline_ns = connector->deadline_ns;
	tcp_race_begin(race, peers, 1U + handle->way_count, 1, clock_now_ns());
	tcp_ways_spread(race->ways, race->dead, race->way_count, connector->transport->next_connector_id);
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
		set_up_words(connector, i);
	begin_race(connector);
	connector->id = ++transport->next_connector_id;
	LIST_INSERT_HEAD(&transport->connectors, connector, link);
	*ret = connector;
	return 0;
}

/* With as good a rank, so it has been tried. */
static bool was_in(const struct tcp_race *race, const struct tcp_way *way)
{
	for (unsigned i = 0; i < race->way_count; i++)
		if (race->ways[i].interface == way->interface && race->ways[i].rank <= way->rank &&
		    race->ways[i].peer.family == way->peer.family &&
		    !memcmp(race->ways[i].peer.bytes, way->peer.bytes, sizeof(way->peer.bytes)))
			return true;
	return false;
}

static void begin_better(struct tcp_connector *connector, uint64_t now_ns)
{
	const struct tcp_dial *first = &connector->dials[0];
	const struct tcp_wire_welcome *welcome = &first->welcome;
	struct tcp_race *race = &connector->race, *better = &connector->better;

	if (first->peer_is_here)
		return;
	connector->better_dial = *first;
	connector->better_dial.fd = -1;
	connector->better_dial.state = TCP_DIAL_START;
	better->transport = connector->transport;
	better->device = connector->device;
	better->dial = &connector->better_dial;
	better->deadline_ns = connector->deadline_ns;
	better->epoch = first->hello.epoch + 1;
	tcp_race_begin(better, welcome->ways, welcome->way_count, welcome->own_count, now_ns);
	for (unsigned i = 0; i < better->way_count; i++) {
		const struct tcp_way *way = &better->ways[i];

		better->dead[i] = way->rank == TCP_WAY_AS_ROUTED || was_in(race, way) ||
				  !tcp_way_is_worse(&race->ways[race->taken], way);
		if (!better->dead[i])
			connector->better_until_ns = now_ns + BETTER_NS;
	}
	tcp_ways_spread(better->ways, better->dead, better->way_count, connector->id);
}

static void end_better(struct tcp_connector *connector)
{
	if (!connector->better.transport) /* never begun */
		return;
	tcp_race_end(&connector->better);
	sys_close_socket(&connector->better_dial.fd);
	connector->better_until_ns = 0;
}

/* The first stream's way becomes that one, before the others greet. */
static void step_better(struct tcp_connector *connector, uint64_t now_ns)
{
	struct tcp_race *race = &connector->race, *better = &connector->better;
	struct tcp_dial *first = &connector->dials[0], *dial = &connector->better_dial;
	int r = tcp_race_step(better, now_ns);

	if (r > 0) {
		r = tcp_dial_step(connector->transport, dial, now_ns);
		if (r == 0 && dial->state == TCP_DIAL_READY) {
			sys_close_socket(&first->fd);
			*first = *dial;
			dial->fd = -1;
			race->ways[race->taken] = better->ways[better->taken];
		}
	}
	/* Once it has sent HELLO the peer may have left the other one for it: that is dialled anew, by a later epoch. */
	if (r < 0 && better->taken >= 0) {
		sys_close_socket(&first->fd);
		first->hello.epoch = dial->hello.epoch + 1;
		first->state = TCP_DIAL_START;
		first->retry_at_ns = 0;
		first->once = false;
		first->deadline_ns = connector->deadline_ns;
	}
	if (r < 0 || dial->state == TCP_DIAL_READY ||
	    (dial->state < TCP_DIAL_HELLO && now_ns > connector->better_until_ns))
		end_better(connector);
}

/* 0: not yet; 1: it stands. */
static int step_first(struct tcp_connector *connector, uint64_t now_ns)
{
	struct tcp_dial *first = &connector->dials[0];
	int r;

	if (connector->first_ready_ns && !connector->better_until_ns && first->state == TCP_DIAL_READY)
		return 1;
	if (!connector->first_ready_ns) {
		r = tcp_race_step(&connector->race, now_ns);
		if (r <= 0)
			return r;
		r = tcp_dial_step(connector->transport, first, now_ns);
		if (r < 0) {
			leave_ahead(connector);
			return tcp_race_failed(&connector->race, r, now_ns);
		}
		step_ahead(connector, now_ns);
		if (first->state != TCP_DIAL_READY)
			return 0;
		connector->first_ready_ns = now_ns;
		begin_better(connector, now_ns);
	}
	if (connector->better_until_ns)
		step_better(connector, now_ns);
	if (connector->better_until_ns)
		return 0;
	r = tcp_dial_step(connector->transport, first, now_ns);
	if (r < 0 || first->state != TCP_DIAL_READY)
		return r;
	tcp_race_say(&connector->race);
	first->once = false;
	connector->first_ready_ns = now_ns;
	set_up_others(connector, now_ns);
	return 1;
}

/* 0: not yet; 1: all streams stand. The first stream's answer says where the others may go. */
static int step_dials(struct tcp_connector *connector, struct tcp_dial **ret_failed)
{
	uint64_t now_ns = clock_now_ns();
	unsigned ready = 1;
	int r = step_first(connector, now_ns);

	*ret_failed = &connector->race.last;
	if (r <= 0)
		return r;
	for (unsigned i = 1; i < connector->dial_count; i++) {
		struct tcp_dial *dial = *ret_failed = &connector->dials[i];

		r = tcp_dial_step(connector->transport, dial, now_ns);
		if (!dial->follows && dial->state != TCP_DIAL_READY && !connector->dials[0].peer_is_here &&
		    r != -EMFILE && r != -ENFILE &&
		    (r < 0 || clock_elapsed_ns(connector->first_ready_ns, now_ns) > SWITCH_NS)) {
			sys_close_socket(&dial->fd);
			dial->hello.epoch += dial->state >= TCP_DIAL_HELLO;
			follow_first(connector, dial, now_ns);
			r = 0;
		}
		if (r < 0)
			return r;
		ready += dial->state == TCP_DIAL_READY;
	}
	return ready == connector->dial_count;
}

/* A better way may answer later. Not looked for where a device has several ports. */
static bool may_improve(const struct tcp_connector *connector)
{
	const struct tcp_race *race = &connector->race;
	const struct tcp_way *taken = &race->ways[race->taken];

	if (connector->dials[0].welcome.rail_count > 1 ||
	    connector->transport->devices.list[connector->device].rail_count > 1)
		return false;
	for (unsigned i = 0; i < race->way_count; i++)
		if (tcp_way_is_worse(taken, &race->ways[i]))
			return true;
	return taken->rank != TCP_WAY_OWN;
}

static int connection_from(struct tcp_connector *connector, struct tcp_connection **ret)
{
	struct tcp_transport *transport = connector->transport;
	struct tcp_connection *connection;
	uint64_t now_ns = clock_now_ns();
	int r = tcp_connection_new(transport, TCP_SENDER, connector->device,
				   tcp_carrier_of(transport, connector->device, connector->dials[0].interface),
				   connector->dial_count, connector->active_count, &connection);

	if (r < 0)
		return r;
	connection->id = connector->connection_id;
	connection->listener_id = connector->handle.listener_id;
	memcpy(connection->secret, connector->handle.secret, TCP_WIRE_SECRET_BYTES);
	connection->s.host = connector->handle.host_id;
	memcpy(connection->peer_host, connector->dials[0].welcome.host, TCP_WIRE_HOST_BYTES);
	if (connector->handle.host_id == transport->host_id)
		connection->peer_process = connector->dials[0].welcome.process_id;
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
	connection->s.way_count = connector->dials[0].welcome.way_count;
	connection->s.ways_own = connector->dials[0].welcome.own_count;
	memcpy(connection->s.ways, connector->dials[0].welcome.ways, sizeof(connection->s.ways));
	if (may_improve(connector)) {
		connection->s.better_wait_ns = BETTER_FIRST_NS;
		connection->s.better_at_ns = now_ns + BETTER_FIRST_NS;
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

static void say_reach(const struct tcp_transport *transport, const struct tcp_dial *dial, enum tcp_reach reach,
		      int error)
{
	const bool tied = dial->interface >= 0 && dial->pin != TCP_PIN_NONE;
	const struct params *params = transport->params;
	char at[TCP_ADDRESS_TEXT], ports[16], line[TCP_REACH_LINE_BYTES];
	const struct tcp_reach_facts facts = {
		.error = error,
		.ports = params->port_high ? ports : NULL,
		.peers_version = dial->version,
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

static void say_failed(const struct tcp_connector *connector, const struct tcp_dial *dial, int error)
{
	if (error == -EMFILE || error == -ENFILE) {
		log_warn("cannot connect to host %s: %s. Raise the limit (ulimit -n)", connector->handle.host,
			 strerror(-error));
		return;
	}
	if (error == -EBUSY) {
		log_warn(
			"cannot connect from host %s to host %s: its process has no memory for another connection, or has "
			"too many that it did not accept",
			connector->transport->host, connector->handle.host);
		return;
	}
	say_reach(connector->transport, dial, tcp_dial_reach(dial), dial->last_error ? dial->last_error : error);
}

static int begin(struct tcp_transport *transport, int device, int traffic_class,
		 uint8_t bytes[static TCP_WIRE_HANDLE_BYTES], struct tcp_connector **ret)
{
	struct tcp_wire_handle handle = { .way_count = 0 };
	char host[TCP_WIRE_HOST_BYTES], line[TRANSPORT_FOREIGN_BYTES];
	uint16_t version;
	int r = tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &handle);

	if (r < 0) {
		tcp_wire_peek_host(bytes, host, &version);
		if (version)
			log_warn("host %s speaks version %u of Tributary's protocol, this host (%s) speaks %u: install "
				 "the same release on both",
				 host, version, transport->host, TCP_WIRE_VERSION);
		else if (transport_handle_is_nccls(bytes, transport->host, "tcp", line))
			log_warn("%s", line);
		else
			log_warn("a peer of host %s sent a handle that is not Tributary's: is the plugin loaded on "
				 "every host, with the same TRIBUTARY_NET?",
				 transport->host);
		return -EPROTO;
	}
	return connector_new(transport, device, traffic_class, &handle, ret);
}

/* The peer has ended, or does not answer: no error of this host's. */
static bool is_the_peers(int error)
{
	return error == -ETIMEDOUT || error == -ECONNREFUSED || error == -ECONNRESET || error == -EPIPE ||
	       error == -EBUSY;
}

int tcp_connector_step(struct tcp_transport *transport, int device, int traffic_class,
		       uint8_t handle[static TCP_WIRE_HANDLE_BYTES], struct tcp_connection **ret)
{
	uint64_t cookie = tcp_wire_get_cookie(handle);
	struct tcp_connector *connector;
	struct tcp_dial *failed = NULL;
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
	return is_the_peers(r) ? -EREMOTEIO : r;
}
