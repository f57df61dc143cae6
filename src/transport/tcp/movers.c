/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/movers.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/params.h"
#include "base/pin.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum {
	CORES_LEAST = 4,
	OPEN_CALLS = 8,    /* with less on its way a caller is sooner through than a mover is awake */
	CALLER_WAITS = 16, /* looks that it leaves out in a row */
};
#define POLL_MOST_NS (200 * NS_PER_MS) /* a thread that looked longer ago was elsewhere; twice a quota's period */

/* What this thread has measured since its last report. */
static _Thread_local struct tally {
	const struct tcp_transport *transport;
	uint64_t looked_ns;
	struct tcp_movers_window window;
} tally;

/* The processes of this host that share the card do the same. */
static unsigned most_movers(const struct tcp_connection *connection)
{
	const struct tcp_transport *transport = connection->transport;
	struct pace *pace = transport->devices.list[connection->carrier].pace;
	struct pace_state state = { 0 };
	uint64_t processes;

	if (pace)
		pace_state(pace, &state);
	processes = max_u64(max_u64(transport->params->local_processes, state.sharing_processes), 1);
	return (unsigned)min_u64((uint64_t)transport->movers.core_count * 3 / 4 / processes, TCP_MOVERS_MAX);
}

void tcp_movers_init(struct tcp_transport *transport, bool (*move)(struct tcp_stream *stream))
{
	struct tcp_movers *movers = &transport->movers;
	const int wanted = transport->params->movers;

	pthread_mutex_init(&movers->lock, NULL);
	pthread_cond_init(&movers->work, NULL);
	pthread_cond_init(&movers->left, NULL);
	TAILQ_INIT(&movers->queue);
	movers->move = move;
	CPU_ZERO(&movers->cores);
	(void)sched_getaffinity(0, sizeof(movers->cores), &movers->cores);
	movers->core_count = pin_core_count(&movers->cores, "");
	movers->least_bytes = TCP_MOVERS_LEAST_BYTES;
	movers->chooses = wanted < 0 && movers->core_count >= CORES_LEAST;
	atomic_store(&movers->most, wanted > 0 ? (unsigned)wanted : 0);
	atomic_store(&movers->on, wanted > 0);
	atomic_store(&movers->proven, wanted > 0);
}

struct tcp_stream *tcp_movers_next(struct tcp_movers *movers)
{
	struct tcp_stream *stream = TAILQ_FIRST(&movers->queue);

	if (!stream)
		return NULL;
	TAILQ_REMOVE(&movers->queue, stream, move_link);
	atomic_fetch_sub(&movers->queued, 1);
	return stream;
}

static void wait_in_queue(struct tcp_movers *movers, struct tcp_stream *stream)
{
	TAILQ_INSERT_TAIL(&movers->queue, stream, move_link);
	atomic_fetch_add(&movers->queued, 1);
	if (atomic_load(&movers->idle))
		pthread_cond_signal(&movers->work);
}

void tcp_movers_return(struct tcp_movers *movers, struct tcp_stream *stream, bool again)
{
	if (again)
		wait_in_queue(movers, stream);
	else if (atomic_fetch_sub(&stream->connection->moving, 1) == 1)
		pthread_cond_broadcast(&movers->left);
}

static void work(struct tcp_movers *movers, struct tcp_stream *stream)
{
	bool again = movers->move(stream);

	pthread_mutex_lock(&movers->lock);
	while (again && !movers->count) { /* a caller that helps is alone */
		pthread_mutex_unlock(&movers->lock);
		again = movers->move(stream);
		pthread_mutex_lock(&movers->lock);
	}
	tcp_movers_return(movers, stream, again);
	pthread_mutex_unlock(&movers->lock);
}

static void *run(void *arg)
{
	struct tcp_movers *movers = arg;
	const char *near;

	pthread_mutex_lock(&movers->lock);
	near = movers->near;
	pthread_mutex_unlock(&movers->lock);
	(void)sched_setaffinity(0, sizeof(movers->cores), &movers->cores);
	pin_near(near, (int)atomic_load(&movers->most));
	pthread_mutex_lock(&movers->lock);
	for (;;) {
		struct tcp_stream *stream = tcp_movers_next(movers);

		if (stream) {
			pthread_mutex_unlock(&movers->lock);
			work(movers, stream);
			pthread_mutex_lock(&movers->lock);
		} else if (movers->stop || !atomic_load(&movers->on)) {
			break;
		} else {
			atomic_fetch_add(&movers->idle, 1);
			pthread_cond_wait(&movers->work, &movers->lock);
			atomic_fetch_sub(&movers->idle, 1);
		}
	}
	movers->count--;
	pthread_cond_broadcast(&movers->left);
	pthread_mutex_unlock(&movers->lock);
	return NULL;
}

/* One more, if all are busy. What cannot be started is not tried again. */
static void start(struct tcp_movers *movers)
{
	pthread_t thread;
	int r;

	if (movers->count >= atomic_load(&movers->most) || atomic_load(&movers->idle) > atomic_load(&movers->queued))
		return;
	r = sys_thread_start(run, movers, "tributary-move", &thread);
	if (r < 0) {
		log_info(LOG_NET, "no more than %u threads move data: %s", movers->count, strerror(-r));
		atomic_store(&movers->most, movers->count);
		atomic_store(&movers->on, movers->count > 0);
		return;
	}
	pthread_detach(thread);
	movers->count++;
}

bool tcp_movers_measure(const struct tcp_connection *connection)
{
	return connection->transport->movers.chooses;
}

bool tcp_movers_are_on(const struct tcp_connection *connection)
{
	const struct tcp_movers *movers = &connection->transport->movers;
	const size_t open_bytes = connection->role == TCP_SENDER ? connection->s.open_bytes : connection->r.expected_bytes;

	return atomic_load_explicit(&movers->on, memory_order_relaxed) && !connection->watch.on && !connection->leaves_movers &&
	       open_bytes >= OPEN_CALLS * movers->least_bytes;
}

unsigned tcp_movers_streams(const struct tcp_connection *connection, unsigned connections)
{
	const struct tcp_movers *movers = &connection->transport->movers;
	const unsigned half = (atomic_load(&movers->most) + 2) / 3; /* receives need about as many threads */

	if (!atomic_load(&movers->on) && !atomic_load(&movers->proven))
		return 0;
	/* Two connections have enough for all threads each, as they seldom send at once: NCCL's channels. */
	return 2 * half / (unsigned)max_u64(connections / 2, 1);
}

bool tcp_movers_are_proven(const struct tcp_connection *connection)
{
	return atomic_load(&connection->transport->movers.proven);
}

static bool takes_more(const struct tcp_stream *stream)
{
	struct pollfd fd = { .fd = stream->fd, .events = POLLOUT };

	return poll(&fd, 1, 0) > 0;
}

bool tcp_movers_take(struct tcp_stream *stream, uint64_t bytes)
{
	struct tcp_connection *connection = stream->connection;
	struct tcp_movers *movers = &connection->transport->movers;
	bool taken;

	if (stream->move != TCP_MOVE_NONE)
		return true;
	if (!tcp_movers_are_on(connection) || bytes < movers->least_bytes)
		return false;
	if (connection->role == TCP_SENDER && stream->tx_full && !takes_more(stream))
		return true; /* no mover needs to wake for that */
	pthread_mutex_lock(&movers->lock);
	movers->near = connection->transport->devices.list[connection->carrier].properties.pci_path;
	start(movers);
	taken = movers->count && atomic_load(&movers->on) && !movers->stop;
	if (taken) {
		stream->move = TCP_MOVE_HELD;
		atomic_fetch_add(&connection->moving, 1);
		wait_in_queue(movers, stream);
	}
	pthread_mutex_unlock(&movers->lock);
	return taken;
}

void tcp_movers_help(struct tcp_transport *transport)
{
	struct tcp_movers *movers = &transport->movers;
	struct tcp_stream *stream;

	if (!atomic_load_explicit(&movers->queued, memory_order_relaxed) ||
	    atomic_load_explicit(&movers->idle, memory_order_relaxed))
		return;
	pthread_mutex_lock(&movers->lock);
	stream = tcp_movers_next(movers);
	pthread_mutex_unlock(&movers->lock);
	if (stream)
		work(movers, stream);
}

void tcp_movers_leave(struct tcp_connection *connection)
{
	struct tcp_movers *movers = &connection->transport->movers;
	struct tcp_stream *stream, *next;

	pthread_mutex_lock(&connection->lock);
	pthread_mutex_lock(&movers->lock);
	atomic_store(&connection->leaves_movers, true);
	for (stream = TAILQ_FIRST(&movers->queue); stream; stream = next) {
		next = TAILQ_NEXT(stream, move_link);
		if (stream->connection != connection)
			continue;
		TAILQ_REMOVE(&movers->queue, stream, move_link);
		atomic_fetch_sub(&movers->queued, 1);
		stream->move = TCP_MOVE_NONE;
		tcp_movers_return(movers, stream, false);
	}
	pthread_mutex_unlock(&connection->lock);
	/* Those that have one leave it by themselves. */
	while (atomic_load(&connection->moving) && atomic_load(&connection->leaves_movers))
		pthread_cond_wait(&movers->left, &movers->lock);
	pthread_mutex_unlock(&movers->lock);
}

void tcp_movers_resume(struct tcp_connection *connection)
{
	struct tcp_movers *movers = &connection->transport->movers;

	pthread_mutex_lock(&movers->lock);
	atomic_store(&connection->leaves_movers, false);
	pthread_cond_broadcast(&movers->left); /* what pause waits for has ended with its requests */
	pthread_mutex_unlock(&movers->lock);
}

void tcp_movers_pause(struct tcp_connection *connection)
{
	bool waits;

	pthread_mutex_lock(&connection->lock);
	waits = connection->request_count && !connection->closing;
	pthread_mutex_unlock(&connection->lock);
	if (waits)
		tcp_movers_leave(connection);
}

void tcp_movers_fini(struct tcp_movers *movers)
{
	pthread_mutex_lock(&movers->lock);
	movers->stop = true;
	pthread_cond_broadcast(&movers->work);
	while (movers->count)
		pthread_cond_wait(&movers->left, &movers->lock);
	pthread_mutex_unlock(&movers->lock);
	pthread_cond_destroy(&movers->left);
	pthread_cond_destroy(&movers->work);
	pthread_mutex_destroy(&movers->lock);
}

bool tcp_movers_go_first(struct tcp_connection *connection)
{
	if (atomic_load_explicit(&connection->movers_wait, memory_order_relaxed) &&
	    atomic_fetch_add_explicit(&connection->passed_over, 1, memory_order_relaxed) < CALLER_WAITS)
		return true;
	atomic_store_explicit(&connection->passed_over, 0, memory_order_relaxed);
	return false;
}

static void say(struct tcp_movers *movers, uint64_t now_ns)
{
	const bool proven = atomic_load(&movers->proven);

	if ((proven && movers->rule.with <= 0) || !log_lasts(&movers->said, proven, now_ns))
		return;
	if (proven)
		log_info(LOG_NET, "up to %u threads send and receive long messages: %.3g Gbit/s, since one carries %.3g",
			 atomic_load(&movers->most), 8 * movers->rule.with, 8 * movers->rule.without);
	else
		log_info(LOG_NET, "one thread sends and receives all messages again");
}

/* Connection lock held. */
static void report(struct tcp_connection *connection)
{
	struct tcp_movers *movers = &connection->transport->movers;
	const unsigned most = most_movers(connection);
	enum tcp_movers_state state;
	bool were, are = false;

	pthread_mutex_lock(&movers->lock);
	were = atomic_load(&movers->on);
	if (movers->rule.state != TCP_MOVERS_OFF && !atomic_load(&movers->most)) /* none could be started */
		tcp_movers_rule_fail(&movers->rule, tally.window.now_ns);
	else if (most)
		are = tcp_movers_step(&movers->rule, &tally.window);
	if (!were)
		atomic_store(&movers->most, most);
	atomic_store(&movers->on, are);
	if (were && !are)
		pthread_cond_broadcast(&movers->work); /* they end */
	state = movers->rule.state;
	if (state == TCP_MOVERS_ON || state == TCP_MOVERS_OFF)
		atomic_store(&movers->proven, state == TCP_MOVERS_ON);
	say(movers, tally.window.now_ns);
	pthread_mutex_unlock(&movers->lock);
}

void tcp_movers_note(struct tcp_connection *connection, uint64_t posted_ns, uint64_t now_ns)
{
	const struct tcp_movers *movers = &connection->transport->movers;
	struct tcp_movers_time *time = &connection->moved;

	if (!movers->chooses)
		return;
	if (tally.transport != connection->transport)
		tally = (struct tally){ .transport = connection->transport, .window.thread = (uintptr_t)&tally };
	if (now_ns > tally.looked_ns) {
		tally.window.polled_ns += min_u64(clock_elapsed_ns(max_u64(tally.looked_ns, posted_ns), now_ns),
						  POLL_MOST_NS + time->calls_ns);
		tally.looked_ns = now_ns;
	}
	tally.window.time.calls_ns += time->calls_ns;
	tally.window.time.movers_ns += time->movers_ns;
	tally.window.time.bytes += time->bytes;
	*time = (struct tcp_movers_time){ 0 };
	if (tally.window.polled_ns < TCP_MOVERS_WINDOW_NS)
		return;
	tally.window.now_ns = now_ns;
	report(connection);
	tally.window.polled_ns = 0;
	tally.window.time = *time;
}
