/*
 * Engine threads (TRIBUTARY_THREADS): they move the data in place of the callers' threads, which then only post and ask.
 * Each sleeps in epoll over the sockets of its connections. A thread that wakes up looks its connection up by number,
 * under the transport's lock, and lets go of that lock once it has the connection's own: so a connection that was
 * unlinked, and whose lock was then free for a moment, is not in use here any more.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	EVENTS_AT_ONCE = 64,
	ROUNDS_AT_ONCE = 8,    /* with one connection, before the others have their turn */
	WAITS_FOR_PACE_MS = 1, /* another connection's delivery may have brought a grant */
	STREAM_BITS = 8,
};

struct tcp_engine {
	struct tcp_transport *transport;
	pthread_t thread;
	int epoll_fd;
};

static struct tcp_engine *engine_of(const struct tcp_connection *connection)
{
	const struct tcp_transport *transport = connection->transport;

	return transport->engine_count ? transport->engines[connection->serial % transport->engine_count] : NULL;
}

static void lock(struct tcp_transport *transport)
{
	if (atomic_load(&transport->service_waits))
		sched_yield(); /* it sleeps on the lock and would lose every race for it */
	pthread_mutex_lock(&transport->lock);
}

/* Its lock is held then. NULL: it is gone. */
static struct tcp_connection *take(struct tcp_transport *transport, uint64_t serial)
{
	struct tcp_connection *connection;

	lock(transport);
	for (connection = transport->connections; connection && connection->serial != serial;)
		connection = connection->next;
	if (connection)
		pthread_mutex_lock(&connection->lock);
	pthread_mutex_unlock(&transport->lock);
	return connection;
}

/* True: there is more to read than it may read in one turn. */
static bool move(struct tcp_connection *connection)
{
	for (unsigned i = 0; i < ROUNDS_AT_ONCE; i++) {
		connection->unread = false;
		connection->stirred = true;
		connection->now_ns = clock_now_ns();
		if (!connection->error)
			tcp_connection_progress(connection);
		if (!connection->unread)
			return false;
	}
	return true;
}

static bool serve(struct tcp_engine *engine, uint64_t key)
{
	struct tcp_connection *connection = take(engine->transport, key >> STREAM_BITS);
	bool more;

	if (!connection)
		return false;
	if (!connection->driven || connection->watched) { /* by its owner, since this event was fetched */
		pthread_mutex_unlock(&connection->lock);
		return false;
	}
	connection->hot = (unsigned)(key & ((1U << STREAM_BITS) - 1));
	connection->poll_count = 1; /* that stream alone */
	more = move(connection);
	if (clock_elapsed_ns(connection->last_tick_ns, connection->now_ns) > engine->transport->beat_ns)
		tcp_connection_tick(connection, connection->now_ns); /* the service thread may have found it locked */
	pthread_mutex_unlock(&connection->lock);
	return more;
}

static bool has_open_messages(const struct tcp_connection *connection)
{
	return !connection->error && connection->role == TCP_RECEIVER &&
	       (connection->r.open_messages || connection->r.control_pending);
}

/* True: it should have another soon. */
static bool turn(struct tcp_connection *connection)
{
	bool waits = connection->unread && move(connection);

	if (!has_open_messages(connection))
		return waits;
	tcp_receiver_flush(connection, clock_now_ns());
	return waits || has_open_messages(connection);
}

/* Those that had more to read than one turn allows, and those whose grants depend on what others received. */
static bool look_around(struct tcp_engine *engine)
{
	struct tcp_transport *transport = engine->transport;
	uint64_t serials[EVENTS_AT_ONCE];
	unsigned count = 0;
	bool waits = false;

	lock(transport);
	for (struct tcp_connection *connection = transport->connections; connection && count < EVENTS_AT_ONCE;
	     connection = connection->next) {
		/* The streams of a connection still join under the transport's lock. */
		if (engine_of(connection) != engine ||
		    (connection->role == TCP_RECEIVER && connection->joined_count < connection->stream_count))
			continue;
		if (pthread_mutex_trylock(&connection->lock) != 0) {
			waits = true;
			continue;
		}
		if (connection->driven && !connection->watched && (connection->unread || has_open_messages(connection)))
			serials[count++] = connection->serial;
		pthread_mutex_unlock(&connection->lock);
	}
	pthread_mutex_unlock(&transport->lock);
	for (unsigned i = 0; i < count; i++) {
		struct tcp_connection *connection = take(transport, serials[i]);

		if (!connection)
			continue;
		if (!connection->watched)
			waits |= turn(connection);
		pthread_mutex_unlock(&connection->lock);
	}
	return waits;
}

static void *run(void *arg)
{
	struct tcp_engine *engine = arg;
	struct tcp_transport *transport = engine->transport;
	const int beat_ms = (int)(transport->beat_ns / NS_PER_MS);
	struct epoll_event events[EVENTS_AT_ONCE];
	bool more = false, waits = false;

	while (!atomic_load(&transport->engines_stop)) {
		int count = epoll_wait(engine->epoll_fd, events, EVENTS_AT_ONCE,
				       more    ? 0
				       : waits ? WAITS_FOR_PACE_MS
					       : beat_ms);

		more = false;
		for (int i = 0; i < count; i++)
			if (events[i].data.u64)
				more |= serve(engine, events[i].data.u64);
		waits = look_around(engine);
	}
	return NULL;
}

static void engine_free(struct tcp_engine *engine)
{
	sys_close(&engine->epoll_fd);
	sys_free(engine);
}

static int engine_start(struct tcp_transport *transport, unsigned index)
{
	/* Level-triggered and never read: once written to, it wakes every engine for good. */
	struct epoll_event stop = { .events = EPOLLIN, .data.u64 = 0 };
	struct tcp_engine *engine = sys_zalloc(sizeof(*engine));
	int r;

	if (!engine)
		return -ENOMEM;
	engine->transport = transport;
	engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = engine->epoll_fd < 0 || epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, transport->engines_stop_fd, &stop) < 0
		    ? -errno
		    : sys_thread_start(run, engine, "tributary-move", &engine->thread);
	if (r < 0) {
		engine_free(engine);
		return r;
	}
	transport->engines[index] = engine;
	return 0;
}

void tcp_engines_start(struct tcp_transport *transport)
{
	unsigned count = 0;
	int r = 0;

	if (transport->engines_tried || !transport->params->threads)
		return;
	transport->engines_tried = true;
	transport->engines_stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (transport->engines_stop_fd < 0)
		r = -errno;
	while (r == 0 && count < transport->params->threads && count < TCP_ENGINES_MAX) {
		r = engine_start(transport, count);
		count += r == 0;
	}
	if (r < 0)
		log_warn("cannot start engine thread %u of %u (TRIBUTARY_THREADS): %s. %s", count + 1,
			 transport->params->threads, strerror(-r),
			 count ? "Going on with those there are" : "The callers' threads move the data");
	transport->engine_count = count; /* the transport's lock is held: no connection has asked for its engine yet */
}

void tcp_engines_stop(struct tcp_transport *transport)
{
	uint64_t one = 1;

	atomic_store(&transport->engines_stop, true);
	if (transport->engine_count && write(transport->engines_stop_fd, &one, sizeof(one)) < 0)
		log_info(LOG_NET, "engine threads end at their next beat: %s", strerror(errno));
	for (unsigned i = 0; i < transport->engine_count; i++) {
		pthread_join(transport->engines[i]->thread, NULL);
		engine_free(transport->engines[i]);
	}
	transport->engine_count = 0;
	sys_close(&transport->engines_stop_fd);
}

void tcp_engine_watch(struct tcp_connection *connection, struct tcp_stream *stream)
{
	struct tcp_engine *engine = engine_of(connection);
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				     .data.u64 = connection->serial << STREAM_BITS | stream->index };

	/* Closing the socket takes it out again. With one that cannot be watched the whole connection is the caller's. */
	if (connection->driven && epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, stream->fd, &event) < 0)
		connection->driven = false;
}

void tcp_engine_unwatch(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	const struct tcp_engine *engine = engine_of(connection);

	if (engine && stream->fd >= 0)
		epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, stream->fd, NULL);
}
