/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one background thread of the process. It accepts, keeps the heartbeat of every connection going whatever NCCL and
 * Python do, finds silent peers, dials lost streams anew, lets closed connections empty themselves, and says who waits
 * for whom. Data is moved by the callers' threads; here only for those that have not called for a while.
 */
#include "base/clock.h"
#include "transport/tcp/dial.h"

#include <poll.h>
#include <unistd.h>

enum { POLL_MAX = 1 + TCP_PENDING_MAX + TCP_ACCEPTOR_MAX };

/* True: it is through and freed. */
static bool closing_step(struct tcp_connection *connection, uint64_t now_ns)
{
	bool through = connection->error || tcp_sender_is_empty(connection) ||
		       clock_elapsed_ns(connection->closing_since_ns, now_ns) > connection->transport->timeout_ns;

	if (!through)
		return false;
	pthread_mutex_unlock(&connection->lock);
	tcp_connection_remove(connection);
	return true;
}

/* True when it wants to be looked at again soon. */
static bool connection_look(struct tcp_connection *connection)
{
	uint64_t now_ns, heard_ns;
	bool soon;

	if (pthread_mutex_trylock(&connection->lock) != 0)
		return atomic_load(&connection->hurries); /* its caller is at work on it, and sees to the tick */
	now_ns = clock_now_ns();                          /* under the lock: no earlier than any time noted in it */
	heard_ns = connection->last_rx_ns;
	tcp_connection_tick(connection, now_ns);
	if (connection->last_rx_ns != heard_ns || connection->unread)
		transport_watch_ring(&connection->watch); /* its owner may find nothing in the sockets now */
	if (connection->closing && closing_step(connection, now_ns))
		return false;
	tcp_carrier_follow(connection, now_ns);
	tcp_acceptors_tell(connection, now_ns);
	tcp_pin_look(connection, now_ns);
	soon = tcp_detour_step(connection, now_ns) || connection->closing || atomic_load(&connection->hurries);
	pthread_mutex_unlock(&connection->lock);
	return soon;
}

static bool tick(struct tcp_transport *transport, uint64_t now_ns)
{
	struct tcp_connection *connection, *next;
	bool soon = false;

	for (connection = LIST_FIRST(&transport->connections); connection; connection = next) {
		next = LIST_NEXT(connection, link);
		/* The streams of a connection still join under the transport's lock. */
		if (connection->role == TCP_SENDER || connection->joined_count == connection->stream_count)
			soon |= connection_look(connection);
	}
	transport_devices_tick(&transport->devices, now_ns);
	tcp_connector_expire(transport, now_ns, false);
	tcp_acceptors_look(transport, now_ns);
	tcp_acceptor_tick(transport, now_ns);
	return soon | tcp_linger_step(transport, now_ns, false);
}

/* The pending sockets are fds[1] and so on. Without room peers wait, and that is no event. */
static nfds_t gather(const struct tcp_transport *transport, struct pollfd *fds, bool room, uint64_t now_ns)
{
	nfds_t count = 0;

	fds[count++] = (struct pollfd){ .fd = transport->service.wake_fd, .events = POLLIN };
	for (unsigned i = 0; i < transport->pending_count; i++)
		fds[count++] = (struct pollfd){ .fd = transport->pending[i].fd, .events = POLLIN };
	for (size_t i = 0; i < TCP_ACCEPTOR_MAX; i++) {
		const struct tcp_acceptor *acceptor = transport->acceptors[i];

		if (acceptor && room && now_ns >= acceptor->paused_until_ns)
			fds[count++] = (struct pollfd){ .fd = acceptor->fd, .events = POLLIN };
	}
	return count;
}

/* Only the service thread adds and drops pending sockets: they are still those that were gathered. */
static void note_ready(struct tcp_transport *transport, const struct pollfd *fds)
{
	for (unsigned i = 0; i < transport->pending_count; i++)
		transport->pending[i].ready = fds[1 + i].revents != 0;
}

static void lock_before_callers(struct tcp_transport *transport)
{
	atomic_store(&transport->service_waits, true);
	pthread_mutex_lock(&transport->lock);
	atomic_store(&transport->service_waits, false);
}

static void *run(void *arg)
{
	struct tcp_transport *transport = arg;
	struct pollfd fds[POLL_MAX]; /* not allocated: without this thread no heartbeat goes out */
	uint64_t next_tick_ns = 0, drained;
	bool soon = false, room;

	lock_before_callers(transport);
	while (!transport->service.stop) {
		uint64_t now_ns = clock_now_ns();
		int wait_ms;
		nfds_t count;

		tcp_acceptors_progress(transport, now_ns);
		if (now_ns >= next_tick_ns || soon) {
			soon = tick(transport, now_ns);
			next_tick_ns = now_ns + transport->beat_ns;
		}
		now_ns = clock_now_ns();
		room = tcp_pending_has_room(transport, now_ns);
		count = gather(transport, fds, room, now_ns);
		wait_ms = soon || !room ? 5 : (int)(transport->beat_ns / NS_PER_MS);
		pthread_mutex_unlock(&transport->lock);
		if (poll(fds, count, wait_ms) > 0 && fds[0].revents) {
			if (read(transport->service.wake_fd, &drained, sizeof(drained)) > 0)
				soon = true; /* somebody closed a connection */
		}
		lock_before_callers(transport);
		note_ready(transport, fds);
	}
	pthread_mutex_unlock(&transport->lock);
	return NULL;
}

int tcp_service_start(struct tcp_transport *transport)
{
	return transport->service.runs ? 0 : transport_service_start(&transport->service, run, transport, "tributary");
}
