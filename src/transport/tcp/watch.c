/*
 * Owners who sleep (transport.h, watch). The sockets join the owner's epoll set, edge-triggered, so each turn reads a
 * socket until it is empty, or says that it did not. The service thread also reads, a few times a second, and other calls
 * may end the connection: the owner's event is gone then, so they ring a bell of their own.
 */
#include "base/clock.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int add(const struct tcp_connection *connection, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events | EPOLLET, .data.u64 = connection->watch_key };

	return epoll_ctl(connection->watch_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int add_stream(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	return add(connection, stream->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
}

void tcp_watch_ring(const struct tcp_connection *connection)
{
	uint64_t one = 1;

	/* Never read: every write is a new edge, and the counter does not fill up in a life-time. */
	if (connection->watched && write(connection->bell_fd, &one, sizeof(one)) < 0)
		return;
}

void tcp_unwatch_stream(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	if (connection->watched && stream->fd >= 0)
		epoll_ctl(connection->watch_fd, EPOLL_CTL_DEL, stream->fd, NULL);
}

void tcp_unwatch(struct tcp_connection *connection)
{
	if (!connection->watched)
		return;
	for (unsigned i = 0; i < connection->stream_count; i++)
		tcp_unwatch_stream(connection, &connection->streams[i]);
	epoll_ctl(connection->watch_fd, EPOLL_CTL_DEL, connection->bell_fd, NULL);
	sys_close(&connection->bell_fd);
	connection->watched = false;
	connection->watch_fd = -1;
}

static int watch_locked(struct tcp_connection *connection, int epoll_fd, uint64_t key)
{
	int r;

	if (connection->watched)
		return -EBUSY;
	connection->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (connection->bell_fd < 0)
		return -errno;
	connection->watch_fd = epoll_fd;
	connection->watch_key = key;
	connection->watched = true;
	r = add(connection, connection->bell_fd, EPOLLIN);
	for (unsigned i = 0; i < connection->stream_count && r == 0; i++)
		if (connection->streams[i].live)
			r = add_stream(connection, &connection->streams[i]);
	if (r < 0) {
		tcp_unwatch(connection);
		return r;
	}
	for (unsigned i = 0; i < connection->stream_count; i++)
		if (connection->driven && connection->streams[i].live)
			tcp_engine_unwatch(connection, &connection->streams[i]);
	connection->driven = true;
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
	int r = 0;

	if (connection->watched)
		r = add_stream(connection, stream);
	else
		tcp_engine_watch(connection, stream);
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
