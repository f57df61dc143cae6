/* SPDX-License-Identifier: Apache-2.0 */
/* Whose port a connection's bytes pass: its messages are in that port's pace, and it counts in that port's metrics. */
#include "transport/tcp/dial.h"

#include "base/hash.h"

#include <netinet/in.h>

int tcp_carrier_of(const struct tcp_transport *transport, int device, int interface)
{
	if (interface < 0 || transport_device_has(&transport->devices.list[device], interface))
		return device;
	return transport->devices.list[interface].pace ? interface : device;
}

/* Identifies the sender for the pace: by the peer's address if the connection uses one port at a time, else by its host. */
static uint64_t source_of(const struct tcp_receiver *r, const struct sockaddr_storage *peer)
{
	uint64_t source = r->host_id;

	if (r->one_port && peer->ss_family == AF_INET6)
		source = hash_bytes(source, &((const struct sockaddr_in6 *)peer)->sin6_addr, sizeof(struct in6_addr));
	else if (r->one_port)
		source = hash_bytes(source, &((const struct sockaddr_in *)peer)->sin_addr, sizeof(struct in_addr));
	return source + !source; /* 0 means no sender, but a peer may send it */
}

void tcp_carrier_join(struct tcp_connection *connection, const struct sockaddr_storage *peer)
{
	struct tcp_receiver *r = &connection->r;

	r->sender = (struct pace_sender){ .host = source_of(r, peer),
					  .spread = r->sender.spread,
					  .hosts = r->sender.hosts };
	pace_join(r->pace, &r->sender);
}

static int carrier_of(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	int interface = stream->interface;

	if (connection->role == TCP_SENDER)
		interface = stream->dial ? stream->dial->interface : -1;
	return interface < 0 ? connection->carrier
			     : tcp_carrier_of(connection->transport, connection->device, interface);
}

static bool is_as_noted(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	if (carrier_of(connection, stream) != connection->carrier)
		return false;
	return connection->role == TCP_SENDER || source_of(&connection->r, &stream->peer) == connection->r.sender.host;
}

/* What was granted is charged to the new one. */
static void move_messages(struct tcp_connection *connection, struct pace *to, const struct tcp_stream *stream,
			  uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	uint32_t moved = 0;

	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS; i++)
		if (r->coming >> i & 1 && pace_holds(&r->messages[i].pace)) {
			pace_remove(r->pace, &r->messages[i].pace);
			moved |= 1U << i;
		}
	pace_leave(r->pace, &r->sender);
	r->pace = to;
	tcp_carrier_join(connection, &stream->peer);
	pace_note_path(to, stream->path_ns);
	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS; i++)
		if (moved >> i & 1)
			pace_add_again(to, &r->messages[i].pace, now_ns);
	if (r->wants_turn)
		pace_want_turn(to, &r->sender, true, tcp_data_streams(connection), now_ns);
	r->control_pending = true;
}

void tcp_carrier_follow(struct tcp_connection *connection, uint64_t now_ns)
{
	const struct tcp_stream *first = NULL;
	struct pace *pace;
	int carrier;

	/* As long as one of its streams goes there nothing changes: others may rest, or have nothing to carry. */
	for (unsigned i = 0; i < connection->stream_count; i++) {
		const struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && is_as_noted(connection, stream))
			return;
		if (stream->live && !first)
			first = stream;
	}
	if (!first || connection->error || connection->closing || atomic_load(&connection->moving))
		return;
	carrier = carrier_of(connection, first);
	pace = connection->transport->devices.list[carrier].pace;
	if (carrier != connection->carrier)
		tcp_count_moves(connection);
	connection->carrier = carrier;
	if (connection->role == TCP_SENDER)
		connection->s.pace = pace;
	else
		move_messages(connection, pace, first, now_ns);
}
