/* SPDX-License-Identifier: Apache-2.0 */
/* What both roles share: moving the data of a connection, tests, the end. */
#include "base/clock.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <string.h>

#define SOON_NS (5 * NS_PER_MS)
enum {
	READS_AT_ONCE = 16,  /* of one stream, before the others and the caller have their turn */
	POLL_BUSY_EVERY = 4, /* a sender with a full socket looks for words from its receiver this seldom */
	POLL_ALL_EVERY = 16, /* streams on which nothing came lately are looked at this seldom */
	POLL_IDLE_EVERY = 256, /* and those that are not wanted */
};

static void hear(struct tcp_connection *connection, struct tcp_stream *stream)
{
	bool more = true;
	int r = 0;

	for (unsigned i = 0; i < READS_AT_ONCE && more && r == 0 && stream->live && !connection->error; i++)
		r = tcp_stream_read(connection, stream, stream->staging_bytes, &more);
	if (r == -EPROTO)
		tcp_connection_fail(connection, -EREMOTEIO, "it broke the protocol");
	connection->unread |= more;
}

/*
 * A peer that closes says so on one stream, and the end of another may be read first. False: a mover reads one of them now; the
 * end is read again after it.
 */
static bool hear_others(struct tcp_connection *connection, const struct tcp_stream *ended)
{
	connection->ends = false;
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (!stream->live || stream == ended)
			continue;
		if (connection->role == TCP_RECEIVER && stream->move == TCP_MOVE_CALL)
			connection->ends = true;
		else
			hear(connection, stream);
	}
	connection->ends &= ended->live; /* what was heard may have ended it */
	connection->ready = true;
	connection->now_ns = clock_now_ns(); /* that of the last read, or of none */
	return !connection->ends;
}

/* During a detour the stream with the data is not active, and the active one, which rests, brings signs of life alone. */
static bool should_be_hot(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	return connection->role == TCP_RECEIVER ? stream->index == connection->used
						: tcp_stream_is_active(connection, stream->index) && !stream->rests;
}

/*
 * Frames are looked for first, and a receiver sends its own, where data came last, or at a sender on an active stream, while
 * that is live: the sender reads others seldom.
 */
static void heard_on(struct tcp_connection *connection, const struct tcp_stream *stream)
{
	const struct tcp_stream *hot = &connection->streams[connection->hot];

	if (should_be_hot(connection, stream) ||
	    (!stream->rests && (!should_be_hot(connection, hot) || !hot->live || hot->awaits_dead)))
		connection->hot = stream->index;
	connection->ready = true;
}

void tcp_connection_read(struct tcp_connection *connection, struct tcp_stream *stream, int r, bool heard)
{
	if (r == -EPROTO) {
		tcp_connection_fail(connection, -EREMOTEIO, "it broke the protocol");
	} else if (r < 0) {
		if (hear_others(connection, stream))
			tcp_failover_lost(connection, stream, strerror(stream->tx_error ? -stream->tx_error : -r),
					  connection->now_ns);
	} else if (heard) {
		heard_on(connection, stream);
	}
}

static void read_stream(struct tcp_connection *connection, struct tcp_stream *stream)
{
	bool more = true;

	for (unsigned i = 0; i < READS_AT_ONCE && more && stream->live && !connection->error; i++) {
		size_t most = connection->role == TCP_RECEIVER && tcp_receiver_expects_data(connection)
				      ? TCP_STAGING_BETWEEN_DATA
				      : stream->staging_bytes;
		uint64_t heard_ns = stream->last_rx_ns;
		int r;

		if (tcp_stream_is_left_to_movers(connection, stream))
			return;
		r = tcp_stream_read(connection, stream, most, &more);
		tcp_connection_read(connection, stream, r, stream->last_rx_ns != heard_ns);
	}
	connection->unread |= more && stream->live;
}

/* In the midst of a long message most looks at a socket would find little or nothing: not now, then. */
static bool may_skip(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	if (connection->role == TCP_RECEIVER)
		return stream->rx_due_ns && clock_now_ns() < stream->rx_due_ns;
	/* As long as it has more to send than the socket takes, no word from the receiver is urgent. */
	return connection->active_count == 1 && !connection->watch.on && stream->tx_full &&
	       tcp_stream_has_unsent(stream) && connection->poll_count % POLL_BUSY_EVERY != 0;
}

/* Words that a full socket did not take; there may be no more to say, and so no other reason to write. */
static void push_words(struct tcp_connection *connection)
{
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && tcp_stream_has_unsent(stream))
			tcp_stream_flush(stream, false, connection->now_ns);
	}
}

void tcp_connection_answer(struct tcp_connection *connection, bool all)
{
	if (connection->error)
		return;
	if (all)
		connection->now_ns = clock_now_ns();
	if (connection->role == TCP_SENDER) {
		if (connection->ready || all)
			connection->ready = tcp_sender_pump(connection, connection->now_ns);
		tcp_growth_look(connection, connection->now_ns);
	} else if (tcp_receiver_has_to_tell(connection)) {
		tcp_receiver_flush(connection, connection->now_ns);
	}
	if (all && connection->role == TCP_RECEIVER)
		push_words(connection);
}

void tcp_connection_progress(struct tcp_connection *connection)
{
	const bool idle = connection->poll_count % POLL_IDLE_EVERY == 0;
	bool all = connection->poll_count++ % POLL_ALL_EVERY == 0;
	bool spread = connection->active_count > 1 &&
		      (connection->role == TCP_SENDER ? TAILQ_FIRST(&connection->open) != NULL
						      : connection->r.expected_bytes != 0);

	if (connection->role == TCP_RECEIVER) /* a sender's stays until it has written all it may */
		connection->ready = false;
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (!idle && !tcp_stream_is_wanted(connection, i))
			continue;
		if (stream->live &&
		    (all || i == connection->hot || stream->rx_left || (spread && tcp_stream_is_active(connection, i))) &&
		    (all || !may_skip(connection, stream)))
			read_stream(connection, stream);
	}
	if (connection->r.done_bytes && (!connection->ready || !TAILQ_FIRST(&connection->open)))
		connection->r.control_pending = true;
	tcp_connection_answer(connection, all);
}

static void progress_watched(struct tcp_connection *connection)
{
	struct tcp_stream *hot = &connection->streams[connection->hot];
	bool enough;

	connection->ready = false;
	if (hot->live)
		read_stream(connection, hot);
	/* The event does not say which stream. One in reserve has something in a failover only, and is read each beat. */
	enough = connection->ready && connection->active_count == 1 && !connection->several;
	for (unsigned i = 0; i < connection->stream_count && !enough && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && stream != hot)
			read_stream(connection, stream);
	}
	connection->ready = true;
	tcp_connection_answer(connection, true);
}

/* Whose user lets it be so: nothing about it is urgent. */
static bool is_long_silent(const struct tcp_connection *connection, uint64_t now_ns)
{
	return connection->outlives_silence &&
	       clock_elapsed_ns(connection->last_rx_ns, now_ns) > 2 * connection->transport->stream_timeout_ns;
}

void tcp_connection_tick(struct tcp_connection *connection, uint64_t now_ns)
{
	uint64_t looked_ns = connection->last_tick_ns;

	connection->last_tick_ns = now_ns;
	connection->poll_count = 0; /* every stream: silence is judged by what was read */
	connection->ready = true;
	/* The sender may need just that, and nothing else may ever be said. */
	connection->r.window_due = tcp_window_has_changed(&connection->r.window);
	connection->r.control_pending |= connection->r.done_bytes > 0;
	if (!connection->error)
		tcp_connection_progress(connection);
	tcp_failover_watch(connection, looked_ns, now_ns);
	if (connection->role == TCP_SENDER)
		tcp_mtu_watch(connection, looked_ns, now_ns);
	if (connection->role == TCP_SENDER && (!connection->closing || !connection->live_count))
		tcp_redial(connection, now_ns);
	if (!connection->error && tcp_request_awaited(connection) && !connection->reported &&
	    clock_elapsed_ns(tcp_request_awaited(connection)->posted_ns, now_ns) >
		    connection->transport->params->report_after_ns)
		tcp_report_waiting(connection, now_ns);
	atomic_store(&connection->hurries, !connection->error && !is_long_silent(connection, now_ns) &&
						   (connection->s.mtu.looks || tcp_connection_lacks_stream(connection, now_ns) ||
						    (connection->s.way_count && tcp_connection_is_silent(connection, now_ns))));
}

int tcp_watch_progress(struct tcp_connection *connection, enum transport_next *ret_next)
{
	int r;

	*ret_next = TRANSPORT_NEXT_EVENT;
	pthread_mutex_lock(&connection->lock);
	connection->now_ns = clock_now_ns();
	connection->unread = false;
	if (!connection->error)
		progress_watched(connection);
	if (!connection->error &&
	    clock_elapsed_ns(connection->last_tick_ns, connection->now_ns) > connection->transport->beat_ns)
		tcp_connection_tick(connection, connection->now_ns);
	r = tcp_connection_error(connection);
	if (r == 0 && connection->unread)
		*ret_next = TRANSPORT_NEXT_NOW;
	else if (r == 0 && connection->role == TCP_RECEIVER && tcp_receiver_waits_for_grant(connection))
		*ret_next = TRANSPORT_NEXT_SOON;
	pthread_mutex_unlock(&connection->lock);
	return r;
}

static void request_put(struct tcp_request *request, size_t *sizes)
{
	if (sizes && request->kind == TCP_REQUEST_SEND)
		sizes[0] = request->size;
	for (unsigned i = 0; sizes && request->kind == TCP_REQUEST_RECEIVE && i < request->count; i++)
		sizes[i] = request->slots[i].received;
	tcp_request_release(request);
}

/* Also where a stream is to be dialled or looked at soon, as the service thread rarely gets the lock of one that is polled. */
static bool tick_is_due(const struct tcp_connection *connection)
{
	const uint64_t often_ns = atomic_load(&connection->hurries) ? SOON_NS : connection->transport->beat_ns;

	return clock_elapsed_ns(connection->last_tick_ns, connection->now_ns) > often_ns;
}

void tcp_connection_poll(struct tcp_connection *connection)
{
	tcp_connection_progress(connection);
	if (tick_is_due(connection))
		tcp_connection_tick(connection, connection->now_ns);
}

int tcp_connection_test(struct tcp_request *request, bool *ret_done, size_t *sizes)
{
	struct tcp_connection *connection = request->connection;
	struct tcp_transport *transport = connection->transport;
	int r = 0;

	*ret_done = false;
	if (tcp_movers_go_first(connection))
		return 0;
	pthread_mutex_lock(&connection->lock);
	if (!request->done && !connection->error && !connection->watch.on) {
		tcp_connection_poll(connection);
		tcp_movers_note(connection, request->posted_ns, connection->now_ns);
	}
	if (request->done) {
		request_put(request, sizes);
		*ret_done = true;
	} else if (request->kind == TCP_REQUEST_SEND && tcp_sender_buffer(connection, request)) {
		if (sizes)
			sizes[0] = request->size;
		*ret_done = true;
	} else {
		r = tcp_connection_error(connection);
	}
	pthread_mutex_unlock(&connection->lock);
	if (r == 0 && !*ret_done)
		tcp_movers_help(transport);
	return r;
}

/* Sends of the user's own buffers are still open: those bytes are not ours any more, so the sockets end hard. */
static bool must_end_now(const struct tcp_connection *connection)
{
	return connection->error || connection->role == TCP_RECEIVER || tcp_request_awaited(connection);
}

static void say_bye(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_stream *primary = NULL;
	struct tcp_frame frame = { .type = TCP_FRAME_BYE };

	if (connection->role == TCP_RECEIVER) {
		primary = tcp_connection_primary(connection);
	} else if (!must_end_now(connection)) {
		tcp_sender_say_bye(connection, now_ns);
		return;
	}
	/* No more of the user's bytes goes out. Any stream that is not in the midst of a frame will do. */
	for (unsigned i = 0; !primary && i < connection->stream_count; i++)
		if (connection->streams[i].live && !tcp_stream_has_unsent(&connection->streams[i]))
			primary = &connection->streams[i];
	if (!primary || !primary->live || !tcp_stream_has_room(primary))
		return;
	tcp_stream_queue(primary, &frame, NULL);
	tcp_stream_flush(primary, connection->role == TCP_SENDER, now_ns);
}

void tcp_connection_close(struct tcp_connection *connection)
{
	struct tcp_transport *transport = connection->transport;
	uint64_t now_ns = clock_now_ns();
	bool now, lingers;

	tcp_movers_leave(connection);
	pthread_mutex_lock(&transport->lock);
	pthread_mutex_lock(&connection->lock);
	now = must_end_now(connection);
	connection->closing = true;
	connection->closing_since_ns = now_ns;
	tcp_connection_unwatch(connection);
	if (connection->role == TCP_RECEIVER && !connection->error)
		tcp_receiver_tell_last(connection, now_ns); /* its sender is through, not ended by us */
	if (!connection->error)
		say_bye(connection, now_ns);
	if (now) {
		tcp_detour_free(connection);
		tcp_count_gone(connection);
		LIST_REMOVE(connection, link);
		tcp_linger(connection, now_ns);
	}
	lingers = !LIST_EMPTY(&transport->lingering);
	pthread_mutex_unlock(&connection->lock);
	pthread_mutex_unlock(&transport->lock);
	if (now)
		tcp_connection_free(connection);
	if (!now || lingers)
		transport_service_wake(&transport->service);
}
