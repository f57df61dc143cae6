/*
 * Owners who sleep (transport.h, watch). The sockets join the owner's epoll set, edge-triggered, so each turn reads a
 * socket until it is empty, or says that it did not. The service thread also reads, a few times a second, and other calls
 * may end the connection: the owner's event is gone then, so they ring a doorbell of their own.
 */
#include "base/clock.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"
#include "transport/watch.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

static int add_stream(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	return transport_watch_add(connection->watch_fd, stream->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP,
				   connection->watch_key);
}

void tcp_watch_ring(const struct tcp_connection *connection)
{
	if (connection->watched)
		transport_watch_ring(connection->doorbell_fd);
}

void tcp_unwatch_stream(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	if (connection->watched && stream->fd >= 0)
		transport_watch_remove(connection->watch_fd, stream->fd);
}

void tcp_unwatch(struct tcp_connection *connection)
{
	if (!connection->watched)
		return;
	for (unsigned i = 0; i < connection->stream_count; i++)
		tcp_unwatch_stream(connection, &connection->streams[i]);
	transport_watch_remove(connection->watch_fd, connection->doorbell_fd);
	sys_close(&connection->doorbell_fd);
	connection->watched = false;
	connection->watch_fd = -1;
}

static int watch_locked(struct tcp_connection *connection, int epoll_fd, uint64_t key)
{
	int r;

	if (connection->watched)
		return -EBUSY;
	r = transport_watch_doorbell(&connection->doorbell_fd);
	if (r < 0)
		return r;
	connection->watch_fd = epoll_fd;
	connection->watch_key = key;
	connection->watched = true;
	r = transport_watch_add(epoll_fd, connection->doorbell_fd, EPOLLIN, key);
	for (unsigned i = 0; i < connection->stream_count && r == 0; i++)
		if (connection->streams[i].live)
			r = add_stream(connection, &connection->streams[i]);
	if (r < 0) {
		tcp_unwatch(connection);
		return r;
	}
	if (connection->error || connection->unread)
		tcp_watch_ring(connection);
	return 0;
}

int tcp_watch(struct tcp_connection *connection, int epoll_fd, uint64_t key)
{
	int r;

	pthread_mutex_lock(&connection->lock);
	r = watch_locked(connection, epoll_fd, key);
	pthread_mutex_unlock(&connection->lock);
	return r;
}

void tcp_watch_stream(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t now_ns)
{
	int r = connection->watched ? add_stream(connection, stream) : 0;

	if (r < 0)
		tcp_failover_lost(connection, stream, strerror(-r), now_ns);
}

int tcp_watch_progress(struct tcp_connection *connection, enum transport_next *ret_next)
{
	int r;

	*ret_next = TRANSPORT_NEXT_EVENT;
	pthread_mutex_lock(&connection->lock);
	connection->now_ns = clock_now_ns();
	connection->unread = false;
	if (!connection->error)
		tcp_connection_progress_watched(connection);
	if (!connection->error &&
	    clock_elapsed_ns(connection->last_tick_ns, connection->now_ns) > connection->transport->beat_ns)
		tcp_connection_tick(connection, connection->now_ns);
	r = connection->error;
	if (r == 0 && connection->unread)
		*ret_next = TRANSPORT_NEXT_NOW;
	else if (r == 0 && connection->role == TCP_RECEIVER && tcp_receiver_waits_for_grant(connection))
		*ret_next = TRANSPORT_NEXT_SOON;
	pthread_mutex_unlock(&connection->lock);
	return r;
}
