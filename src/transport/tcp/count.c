/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What metrics tell of connections. Nothing is counted for it where data moves: positions in streams and numbers of messages
 * are there anyway, the rest are rare events.
 */
#include "base/clock.h"
#include "base/minmax.h"
#include "transport/metrics.h"
#include "transport/tcp/tcp.h"

static void add_stream(struct transport_totals *totals, const struct tcp_stream *stream)
{
	totals->sent_bytes += stream->tx_written;
	totals->received_bytes += stream->rx_position;
	totals->retransmitted_segments += tcp_socket_retransmissions(stream->fd);
}

void tcp_count_lost(struct tcp_connection *connection, const struct tcp_stream *stream)
{
	if (stream->live)
		add_stream(&connection->counted, stream);
}

/* Under its lock, or where nobody else knows of it. */
static struct transport_totals totals_of(const struct tcp_connection *connection)
{
	struct transport_totals totals = connection->counted;

	for (unsigned i = 0; i < connection->stream_count; i++)
		if (connection->streams[i].live)
			add_stream(&totals, &connection->streams[i]);
	if (connection->role == TCP_SENDER)
		totals.sent_messages = connection->s.next_sequence - TCP_WIRE_FIRST_SEQUENCE;
	else
		totals.received_messages = connection->r.next_sequence - TCP_WIRE_FIRST_SEQUENCE;
	transport_totals_subtract(&totals, &connection->counted_elsewhere);
	return totals;
}

/* A part of it is not granted, and all else is on its way. */
static bool waits_for_grant(const struct tcp_request *request)
{
	return request->kind == TCP_REQUEST_SEND && request->granted < request->size &&
	       request->next_offset == request->granted;
}

static void sample(struct tcp_connection *connection, uint64_t now_ns)
{
	const struct tcp_request *awaited = tcp_request_awaited(connection);
	struct transport_counters *sampled = &connection->sampled;

	*sampled = (struct transport_counters){ .totals = totals_of(connection),
						.streams = tcp_data_streams(connection) };
	if (awaited && !connection->error)
		sampled->oldest_wait_ns = clock_elapsed_ns(awaited->posted_ns, now_ns);
	for (const struct tcp_request *request = TAILQ_FIRST(&connection->open); request;
	     request = TAILQ_NEXT(request, link))
		sampled->sends_waiting += waits_for_grant(request);
}

void tcp_count_opened(struct tcp_connection *connection)
{
	connection->transport->devices.list[connection->carrier].gone.connections_opened++;
}

void tcp_count_gone(struct tcp_connection *connection)
{
	const struct transport_totals totals = totals_of(connection);

	transport_totals_add(&connection->transport->devices.list[connection->carrier].gone, &totals);
}

void tcp_count_moves(struct tcp_connection *connection)
{
	const struct transport_totals totals = totals_of(connection);

	tcp_count_gone(connection);
	transport_totals_add(&connection->counted_elsewhere, &totals);
	connection->sampled = (struct transport_counters){ 0 };
}

static void add_connections(struct tcp_transport *transport, int device, uint64_t now_ns,
			    struct transport_counters *counters)
{
	for (struct tcp_connection *connection = LIST_FIRST(&transport->connections); connection;
	     connection = LIST_NEXT(connection, link)) {
		if (connection->carrier != device)
			continue;
		if (pthread_mutex_trylock(&connection->lock) == 0) { /* else its caller is at work on it */
			sample(connection, now_ns);
			pthread_mutex_unlock(&connection->lock);
		}
		transport_totals_add(&counters->totals, &connection->sampled.totals);
		counters->connections++;
		counters->streams += connection->sampled.streams;
		counters->sends_waiting += connection->sampled.sends_waiting;
		counters->oldest_wait_ns = max_u64(counters->oldest_wait_ns, connection->sampled.oldest_wait_ns);
	}
}

void tcp_count_device(struct transport *opaque, int index, struct transport_counters *ret)
{
	struct tcp_transport *transport = (struct tcp_transport *)opaque;
	const struct transport_device *device = &transport->devices.list[index];
	struct pace *pace;

	pthread_mutex_lock(&transport->lock);
	*ret = (struct transport_counters){ .totals = device->gone, .speed_Bps = device->properties.speed_Bps };
	add_connections(transport, index, clock_now_ns(), ret);
	pace = device->pace;
	pthread_mutex_lock(&transport->movers.lock);
	ret->movers = transport->movers.count;
	pthread_mutex_unlock(&transport->movers.lock);
	pthread_mutex_unlock(&transport->lock);
	if (pace) { /* once it is there it stays */
		struct pace_state state;

		pace_state(pace, &state);
		ret->totals.grant_wait_ns = state.limited_ns;
		ret->grants_waiting = state.waiting_count;
		ret->granted_bytes = state.outstanding_bytes;
		ret->grant_budget_bytes = state.budget_bytes;
	}
}
