/* SPDX-License-Identifier: Apache-2.0 */
/* What both roles share: making and unmaking a connection. */
#include "base/clock.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"

#include <errno.h>

size_t tcp_eager_most(const struct tcp_transport *transport)
{
	return min_u64(transport->params->eager_bytes, TCP_EAGER_WINDOW / 4);
}

int tcp_connection_new(struct tcp_transport *transport, enum tcp_role role, int device, int carrier,
		       unsigned stream_count, unsigned active_count, struct tcp_connection **ret)
{
	struct tcp_connection *connection = sys_zalloc(sizeof(*connection));
	int r;

	if (!connection)
		return -ENOMEM;
	pthread_mutex_init(&connection->lock, NULL);
	connection->transport = transport;
	connection->role = role;
	TAILQ_INIT(&connection->open);
	connection->device = device;
	connection->carrier = carrier;
	connection->stream_count = stream_count;
	connection->stream_capacity = (unsigned)max_u64(stream_count, TCP_STREAMS_GROWN);
	connection->several = active_count > 1;
	connection->wanted = UINT64_MAX >> (64 - stream_count);
	tcp_connection_use(connection, UINT64_MAX >> (64 - active_count));
	connection->eager_bytes = tcp_eager_most(transport);
	connection->eager_limit = SIZE_MAX;
	connection->created_ns = connection->last_rx_ns = connection->last_tick_ns = connection->s.mtu.moved_ns =
		clock_now_ns();
	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS; i++)
		connection->requests[i].connection = connection;
	r = -ENOMEM;
	connection->streams = sys_zalloc(connection->stream_capacity * sizeof(*connection->streams));
	if (!connection->streams)
		goto fail;
	for (unsigned i = 0; i < stream_count; i++)
		connection->streams[i].fd = -1;
	for (unsigned i = 0; i < stream_count; i++) {
		r = tcp_stream_init(connection, i);
		if (r < 0)
			goto fail;
	}
	r = role == TCP_SENDER ? tcp_sender_init(connection) : tcp_receiver_init(connection);
	if (r < 0)
		goto fail;
	if (role == TCP_RECEIVER)
		connection->r.pace = transport->devices.list[carrier].pace;
	else
		connection->s.pace = transport->devices.list[carrier].pace;
	*ret = connection;
	return 0;
fail:
	tcp_connection_free(connection);
	return r;
}

int tcp_connection_grow(struct tcp_connection *connection, unsigned stream_count)
{
	int r = 0;

	if (stream_count <= connection->stream_count)
		return 0;
	if (stream_count > connection->stream_capacity)
		return -ENOMEM;
	connection->several = true;
	if (connection->role == TCP_SENDER)
		r = tcp_sender_grow(connection, stream_count);
	for (unsigned i = connection->stream_count; i < stream_count && r == 0; i++) {
		r = tcp_stream_init(connection, i);
		if (r < 0)
			tcp_stream_fini(&connection->streams[i]);
		else
			connection->stream_count = i + 1;
	}
	return r;
}

bool tcp_connection_lacks_stream(const struct tcp_connection *connection, uint64_t now_ns)
{
	for (unsigned i = 0; i < connection->stream_count; i++) {
		const struct tcp_stream *stream = &connection->streams[i];
		const bool begun = stream->dial && stream->dial->state != TCP_DIAL_START,
			   due = connection->role == TCP_RECEIVER ||
				 (stream->dial && now_ns + connection->transport->beat_ns > stream->redial_at_ns);

		if (stream->awaits_dead || (!stream->live && (begun || (due && tcp_stream_is_wanted(connection, i)))))
			return true;
	}
	return false;
}

int tcp_connection_watch(struct tcp_connection *connection, int epoll_fd, uint64_t key)
{
	int r = transport_watch_begin(&connection->watch, epoll_fd, key);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < connection->stream_count && r == 0; i++)
		if (connection->streams[i].live)
			r = transport_watch_add(&connection->watch, connection->streams[i].fd, TCP_WATCH_EVENTS);
	if (r < 0)
		tcp_connection_unwatch(connection);
	else if (connection->error || connection->unread)
		transport_watch_ring(&connection->watch);
	return r;
}

void tcp_connection_unwatch(struct tcp_connection *connection)
{
	for (unsigned i = 0; connection->streams && i < connection->stream_count; i++)
		transport_watch_remove(&connection->watch, connection->streams[i].fd);
	transport_watch_end(&connection->watch);
}

void tcp_connection_free(struct tcp_connection *connection)
{
	if (!connection)
		return;
	tcp_connection_unwatch(connection);
	for (unsigned i = 0; connection->streams && i < connection->stream_count; i++)
		tcp_stream_fini(&connection->streams[i]);
	sys_free(connection->streams);
	tcp_receiver_fini(connection);
	tcp_detour_free(connection);
	tcp_window_fini(&connection->s.window);
	sys_free(connection->s.again);
	sys_free(connection->s.buffer);
	pthread_mutex_destroy(&connection->lock);
	sys_free(connection);
}

void tcp_connection_remove(struct tcp_connection *connection)
{
	tcp_count_gone(connection);
	LIST_REMOVE(connection, link);
	tcp_connection_free(connection);
}
