/*
 * Owners who sleep (transport.h, watch). The sockets join the owner's epoll set, edge-triggered, so each turn reads a
 * socket until it is empty, or says that it did not. The service thread also reads, a few times a second, and other calls
 * may end the connection: the owner's event is gone then, so they ring a doorbell of their own.
 */
#include "base/sys.h"
#include "transport/tcp/tcp.h"
#include "transport/watch.h"

#include <errno.h>
#include <sys/epoll.h>

int tcp_watch_stream(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	if (!connection->watched)
		return 0;
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
			r = tcp_watch_stream(connection, &connection->streams[i]);
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
