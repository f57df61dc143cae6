/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/growth.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "transport/pace/arbiter.h"
#include "transport/tcp/dial.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* A stream may hold so much, whatever the path: what is queued in the own host and in switches is no waiting. */
#define AHEAD_BYTES  (32 << 10)
#define LOOK_NS      NS_PER_MS
#define STEP_NS      (4 * NS_PER_MS)
/* Nobody looked for longer: what happened meanwhile is not known. */
#define LOOK_MOST_NS (8 * NS_PER_MS)
enum {
	ETHERNET_BYTES = 38, /* of each packet on the wire: preamble, header, checksum, gap */
	COUNTED_BYTES = 14,  /* of these the port's counter has the header */
	HEADER_BYTES = 52,   /* IPv4 and TCP with time stamps */
};

static struct tcp_growth_way *way_of(struct tcp_transport *transport, int interface, uint64_t host)
{
	struct tcp_growth_ways *ways = &transport->ways;
	struct tcp_growth_way *way = NULL;

	pthread_mutex_lock(&ways->lock);
	for (unsigned i = 0; i < ways->count && !way; i++)
		if (ways->list[i].interface == interface && ways->list[i].host == host)
			way = &ways->list[i];
	if (!way && ways->count < TCP_GROWTH_WAYS_MAX) {
		way = &ways->list[ways->count++];
		way->interface = interface;
		way->host = host;
		way->said.logged = way->said.latest = 1;
		(void)tcp_socket_random(&way->way.random, sizeof(way->way.random));
	}
	pthread_mutex_unlock(&ways->lock);
	return way;
}

void tcp_growth_init(struct tcp_connection *connection)
{
	struct tcp_transport *transport = connection->transport;
	const int port = transport->devices.list[connection->carrier].members[0];
	const struct tcp_interface *interface = &transport->interfaces[port];
	struct tcp_growth *growth = &connection->s.growth;

	if (transport->params->streams || connection->stream_count != 2 || connection->active_count != 1 ||
	    interface->path_count > 1 || connection->s.host == transport->host_id)
		return;
	growth->way = way_of(transport, port, connection->s.host);
	tcp_streams_init(&growth->streams);
	growth->answer.open = growth->answer.active = 1;
	growth->payload = 1;
	if (interface->mtu_bytes > HEADER_BYTES) {
		const double bytes = interface->mtu_bytes - HEADER_BYTES;

		growth->payload = bytes / (interface->mtu_bytes + COUNTED_BYTES);
		if (!interface->speed_assumed)
			growth->port_Bps = (uint64_t)((double)interface->speed_Bps * bytes /
						      (interface->mtu_bytes + ETHERNET_BYTES));
	}
}

/* Which bit of the controller's sets a stream is: all that carries data, and with one stream all there is. */
static unsigned bit_of(const struct tcp_connection *connection, unsigned index)
{
	const struct tcp_growth *growth = &connection->s.growth;

	return connection->active_count == 1 || !index ? (unsigned)__builtin_ctz(growth->answer.active | 1U << 31)
						       : index - 1;
}

static uint64_t streams_of(uint32_t set)
{
	return tcp_streams_count(set) > 1 ? UINT64_C(1) | (uint64_t)set << 1 : 1;
}

/* What a stream's kernel has had acknowledged: the receiver's own word comes at the end of messages. */
static uint64_t acknowledged(const struct tcp_stream *stream)
{
	int left = 0;

	if (stream->move == TCP_MOVE_CALL) /* tx_written is behind */
		return max_u64(less_u64(tcp_socket_acknowledged(stream->fd), stream->acknowledged_before),
			       stream->seen);
	if (ioctl(stream->fd, SIOCOUTQ, &left) < 0)
		return stream->tx_acknowledged;
	return less_u64(stream->tx_written, (uint64_t)left);
}

/* Of what is not acknowledged: bytes that have left, and lie in the network or at the receiver. */
static uint64_t in_network(const struct tcp_stream *stream, uint64_t acknowledged_bytes)
{
	int unsent = 0;

	if (ioctl(stream->fd, SIOCOUTQNSD, &unsent) < 0)
		return 0;
	return less_u64(stream->tx_written, acknowledged_bytes + (uint64_t)unsent);
}

/* May be on its way without waiting: a little, and what the streams carry in two round trips. */
static uint64_t most_on_its_way(const struct tcp_connection *connection)
{
	uint64_t bytes = (uint64_t)tcp_data_streams(connection) * AHEAD_BYTES;

	if (connection->s.growth.answer.waits_above_bytes)
		return connection->s.growth.answer.waits_above_bytes;
	for (unsigned i = 0; i < connection->stream_count; i++) {
		const struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && tcp_stream_is_active(connection, i))
			bytes += 2 * (stream->rate_Bps / 1000) * (stream->path_ns / 1000) / 1000;
	}
	return bytes;
}

/* Since the last look: what was acknowledged, and whether frames waited all the time. Not while the streams are to change. */
static void sum(struct tcp_connection *connection, uint64_t past_ns, bool changes)
{
	struct tcp_growth *growth = &connection->s.growth;
	struct tcp_streams_sample *sample = &growth->sample;
	uint64_t bytes[TCP_STREAMS_RAIL_MAX] = { 0 }, on_its_way = 0, acknowledged_bytes = 0, flight_bytes = 0;
	bool waits;

	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];
		uint64_t now = stream->seen;

		if (!stream->live)
			continue;
		if (now != stream->tx_written)
			now = acknowledged(stream);
		bytes[bit_of(connection, i)] += less_u64(now, stream->seen);
		acknowledged_bytes += less_u64(now, stream->seen);
		stream->seen = now;
		on_its_way += stream->tx_queued - now;
		flight_bytes += now != stream->tx_written ? in_network(stream, now) : 0;
	}
	for (const struct tcp_request *request = TAILQ_FIRST(&connection->open); request;
	     request = TAILQ_NEXT(request, link))
		on_its_way += request->granted - request->next_offset;
	waits = on_its_way > most_on_its_way(connection);
	if (past_ns > LOOK_MOST_NS || changes || (!on_its_way && !TAILQ_FIRST(&connection->open))) {
		growth->port_bytes = 0; /* what others sent meanwhile is no part of it */
		growth->waited = waits;
		return;
	}
	sample->elapsed_ns += past_ns;
	sample->acknowledged_bytes += acknowledged_bytes;
	if (waits && growth->waited) {
		sample->waited_ns += past_ns;
		sample->flight_bytes = flight_bytes;
		for (unsigned i = 0; i < TCP_STREAMS_RAIL_MAX; i++)
			sample->waited_bytes[i] += bytes[i];
	} else if (!waits) {
		sample->unwaited_ns += past_ns;
	}
	growth->waited = waits;
}

/* 0: not known. */
static uint64_t port_sent_bytes(const struct tcp_interface *interface)
{
	char path[64 + sizeof(interface->name)], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/tx_bytes", interface->name);
	fd = sys_openat(AT_FDCWD, path, O_RDONLY, 0);
	if (fd < 0)
		return 0;
	(void)sys_pread_whole(fd, text, sizeof(text) - 1, 0);
	sys_close(&fd);
	return strtoull(text, NULL, 10);
}

/* What costs system calls, in a trial alone. A port that cannot be asked sends what this connection does. */
static void add_details(struct tcp_connection *connection)
{
	struct tcp_transport *transport = connection->transport;
	struct tcp_growth *growth = &connection->s.growth;
	struct tcp_streams_sample *sample = &growth->sample;
	uint64_t port_bytes = port_sent_bytes(&transport->interfaces[growth->way->interface]);

	sample->port_bytes = sample->acknowledged_bytes;
	if (growth->port_bytes && port_bytes)
		sample->port_bytes = (uint64_t)((double)less_u64(port_bytes, growth->port_bytes) * growth->payload);
	growth->port_bytes = port_bytes;
}

/*
 * A new one is dialled as a lost one is, in the words of the second stream. It goes the same way,
 * and no further try is made if there is no memory or no descriptor for it: the trial ends as
 * nothing comes of it.
 */
static void dial(struct tcp_connection *connection, unsigned index, uint64_t now_ns)
{
	const struct tcp_dial *words = connection->streams[1].dial;
	struct tcp_stream *stream;

	if (!words || tcp_socket_is_scarce(connection->streams[1].fd) || tcp_connection_grow(connection, index + 1) < 0)
		return;
	stream = &connection->streams[index];
	if (stream->live || stream->dial)
		return;
	stream->dial = sys_zalloc(sizeof(*stream->dial));
	if (!stream->dial)
		return;
	*stream->dial = *words;
	stream->dial->fd = -1;
	stream->dial->state = TCP_DIAL_START;
	stream->dial->retry_at_ns = 0;
	stream->dial->refused = 0;
	stream->dial->hello.stream = (uint8_t)index;
	stream->dial->hello.stream_count = (uint8_t)(index + 1);
	stream->dial->hello.epoch = 0;
	stream->peer = connection->streams[1].peer;
	stream->most_Bps = connection->streams[1].most_Bps;
	stream->redial_at_ns = now_ns;
	stream->redial_wait_ns = TCP_REDIAL_FIRST_NS;
}

void tcp_growth_want(struct tcp_connection *connection, uint32_t set, uint64_t now_ns)
{
	const uint64_t wanted = 3 | streams_of(set);

	for (unsigned i = 2; i < TCP_STREAMS_GROWN; i++)
		if (wanted >> i & 1)
			dial(connection, i, now_ns);
	if (wanted & ~connection->wanted) {
		atomic_store(&connection->hurries, true);
		transport_service_wake(&connection->transport->service);
	}
	connection->wanted = wanted;
}

/*
 * All that is unscheduled is behind its RTS, on the stream where that is: of several streams the
 * primary takes no data. And no stream is being replaced, or the order of the messages would be
 * lost.
 */
static bool may_change(const struct tcp_connection *connection, uint64_t active)
{
	if (connection->s.primary || !connection->streams[0].live || connection->s.awaiting ||
	    connection->s.again_head != connection->s.again_tail)
		return false;
	for (unsigned i = 0; i < connection->stream_count; i++)
		if (active >> i & 1 && !connection->streams[i].was_live)
			return false;
	for (const struct tcp_request *request = TAILQ_FIRST(&connection->open); request;
	     request = TAILQ_NEXT(request, link))
		if (request->next_offset < request->unscheduled)
			return false;
	return active >> connection->stream_count == 0;
}

/* The set of streams and the wish for a turn. On all that are not full of data, so the receiver reads it soon on one of them. */
static void tell(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_frame frame;

	connection->changes++;
	frame = tcp_failover_heartbeat(connection);
	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (!stream->live || !tcp_stream_is_wanted(connection, i) || !tcp_stream_has_room(stream))
			continue;
		tcp_stream_queue(stream, &frame, NULL);
		tcp_stream_flush(stream, true, now_ns);
	}
}

bool tcp_growth_use(struct tcp_connection *connection, uint64_t active, uint64_t now_ns)
{
	if (!may_change(connection, active))
		return false;
	tcp_connection_use(connection, active);
	tell(connection, now_ns);
	return true;
}

/* Once for all connections of the way, whose lock is held. */
static void say(const struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_growth_way *way = connection->s.growth.way;
	const struct tcp_interface *interface = &connection->transport->interfaces[way->interface];
	const unsigned count = (unsigned)max_u64(way->way.found, 1), before = way->said.logged;
	char of[32] = "";

	if (!log_lasts(&way->said, count, now_ns))
		return;
	if (!interface->speed_assumed)
		snprintf(of, sizeof(of), " of %.3g", 8e-9 * (double)interface->speed_Bps);
	if (count < before)
		log_info(LOG_NET, "%s: %u stream%s a connection to host %s carr%s what %u did", interface->name, count,
			 count > 1 ? "s" : "", connection->peer_host, count > 1 ? "y" : "ies", before);
	else
		log_info(LOG_NET,
			 "%s: %u streams a connection to host %s carry %.3g Gbit/s, since one carries %.3g%s Gbit/s",
			 interface->name, count, connection->peer_host, 8e-9 * way->way.all_Bps,
			 8e-9 * way->way.one_Bps, of);
}

static uint32_t ready_of(const struct tcp_connection *connection)
{
	const uint32_t active = connection->s.growth.answer.active;
	uint32_t ready = tcp_streams_count(active) == 1 ? active : 0;

	for (unsigned i = 1; i < connection->stream_count; i++)
		if (connection->streams[i].live && !connection->streams[i].awaits_dead)
			ready |= 1U << (i - 1);
	return ready;
}

/* What one host gains may be another's loss: where several send, it has the receiver's turn first. */
static bool wants_turn(const struct tcp_connection *connection)
{
	const struct tcp_wire_port *port = &connection->s.port;

	return connection->s.growth.answer.turn && (!port->competes || port->turn);
}

/* Among the connections of this process, the processes of the host, and hosts that compete. */
static bool has_turn(const struct tcp_connection *connection, const struct tcp_streams_sample *sample)
{
	struct tcp_growth_way *way = connection->s.growth.way;

	if (!wants_turn(connection))
		return false;
	/* Who rested has not seen whether the other one did. */
	if (way->holder && way->holder != connection->id && sample->now_ns <= way->until_ns + sample->rested_ns)
		return false;
	way->holder = 0;
	if (!pace_arbiter_turn_take(pace_arbiter_of(connection->s.pace), way->host, sample->rested_ns, sample->now_ns))
		return false;
	way->holder = connection->id;
	way->until_ns = sample->now_ns + PACE_ARBITER_TURN_NS;
	return true;
}

static void leave_turn(const struct tcp_connection *connection)
{
	struct tcp_growth_way *way = connection->s.growth.way;

	if (wants_turn(connection) || way->holder != connection->id)
		return;
	way->holder = 0;
	pace_arbiter_turn_leave(pace_arbiter_of(connection->s.pace), way->host);
}

static void add_receiver(const struct tcp_wire_port *port, struct tcp_streams_sample *sample)
{
	sample->competes = port->competes;
	sample->receiver_full = port->full;
	sample->most = port->most;
	sample->others = (struct tcp_streams_others){ .measured = port->measured,
						      .kept = (double)port->kept / TCP_WIRE_PORT_ALL,
						      .lost_Bps = (double)port->lost * TCP_WIRE_PORT_UNIT,
						      .each_Bps = (double)port->each * TCP_WIRE_PORT_UNIT };
}

/* Each connection whose messages are open steps every 4 ms, so the number of steps says how many there are. */
static void add_threads(struct tcp_connection *connection, struct tcp_streams_sample *sample, uint64_t now_ns)
{
	struct tcp_growth *growth = &connection->s.growth;
	const uint64_t steps = atomic_fetch_add(&connection->transport->ways.steps, 1) + 1;
	const uint64_t past_ns = max_u64(clock_elapsed_ns(growth->stepped_ns, now_ns), STEP_NS);
	const uint64_t connections = (steps - growth->steps) * STEP_NS / past_ns;

	growth->steps = steps;
	sample->threads = tcp_movers_streams(connection, (unsigned)min_u64(connections, UINT32_MAX));
	sample->least = tcp_movers_are_proven(connection) ? sample->threads : 0;
}

static void step(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_growth *growth = &connection->s.growth;
	struct tcp_growth_ways *ways = &connection->transport->ways;
	struct tcp_growth_way *way = growth->way;
	struct tcp_streams_sample *sample = &growth->sample;

	sample->now_ns = now_ns;
	sample->rested_ns = clock_elapsed_ns(growth->stepped_ns + sample->elapsed_ns, now_ns);
	sample->path_ns = connection->streams[1].path_ns;
	sample->port_Bps = growth->port_Bps;
	sample->ready = ready_of(connection);
	add_receiver(&connection->s.port, sample);
	add_threads(connection, sample, now_ns);
	if (growth->answer.detailed)
		add_details(connection);
	else
		growth->port_bytes = 0;
	pthread_mutex_lock(&ways->lock);
	sample->turn = has_turn(connection, sample);
	tcp_growth_memory_recall(ways->memory, &way->recall, &way->way);
	tcp_streams_step(&growth->streams, &way->way, sample, &growth->answer);
	tcp_growth_memory_note(ways->memory, &way->recall, &way->way);
	say(connection, now_ns);
	if (growth->answer.turn)
		tcp_growth_memory_ask(ways->memory, &way->recall, &connection->transport->interfaces[way->interface],
				      &connection->streams[1].peer);
	leave_turn(connection);
	pthread_mutex_unlock(&ways->lock);
	memset(sample, 0, sizeof(*sample));
	growth->stepped_ns = now_ns;
	tcp_growth_want(connection, growth->answer.open, now_ns);
}

void tcp_growth_look(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_growth *growth = &connection->s.growth;
	const uint64_t past_ns = clock_elapsed_ns(growth->looked_ns, now_ns);
	bool changes;

	/* In an outage there is nothing to be measured. */
	if (!growth->way || connection->error || connection->closing || connection->watch.on || connection->s.rest_ns ||
	    connection->s.mtu.looks ||
	    clock_elapsed_ns(connection->last_rx_ns, now_ns) > TCP_SILENCE_BEATS * connection->transport->beat_ns)
		return;
	changes = streams_of(growth->answer.active) != connection->active;
	if (changes)
		changes = !tcp_growth_use(connection, streams_of(growth->answer.active), now_ns);
	if (past_ns < LOOK_NS)
		return;
	sum(connection, past_ns, changes);
	growth->looked_ns = now_ns;
	if (connection->s.primary)
		tcp_failover_restore_primary(connection);
	else if (clock_elapsed_ns(growth->stepped_ns, now_ns) >= STEP_NS)
		step(connection, now_ns);
	/* The turn is given back with the streams that it leaves. */
	if (growth->asks != (growth->answer.turn && connection->s.port.competes) &&
	    streams_of(growth->answer.active) == connection->active) {
		growth->asks = !growth->asks;
		tell(connection, now_ns);
	}
}
