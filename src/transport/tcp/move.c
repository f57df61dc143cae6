/* SPDX-License-Identifier: Apache-2.0 */
/* What a mover does with a stream: one call, without the connection's lock. */
#include "base/clock.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <string.h>

enum { CALL_BYTES = 128 << 10 }; /* on a core that copies 4 GB/s 30 us, after which others have their turn */

static void lock_as_mover(struct tcp_connection *connection)
{
	atomic_fetch_add(&connection->movers_wait, 1);
	pthread_mutex_lock(&connection->lock);
	atomic_fetch_sub(&connection->movers_wait, 1);
}

static bool call_begin(struct tcp_stream *stream, struct tcp_call *call)
{
	struct tcp_connection *connection = stream->connection;

	if (connection->error || connection->leaves_movers || connection->ends || !stream->live)
		return false;
	if (connection->role == TCP_SENDER)
		return tcp_stream_write_begin(stream, CALL_BYTES, call);
	return tcp_stream_is_moved_in(stream) &&
	       tcp_stream_read_begin(connection, stream, TCP_STAGING_BETWEEN_DATA, CALL_BYTES, call) == 0;
}

bool tcp_move_begin(struct tcp_move *move)
{
	struct tcp_stream *stream = move->stream;
	struct tcp_connection *connection = stream->connection;
	bool begins;

	lock_as_mover(connection);
	begins = call_begin(stream, &move->call);
	stream->move = begins ? TCP_MOVE_CALL : TCP_MOVE_NONE;
	stream->giving_bytes = begins && connection->role == TCP_SENDER ? move->call.bytes : 0;
	pthread_mutex_unlock(&connection->lock);
	return begins;
}

void tcp_move_call(struct tcp_move *move)
{
	const uint64_t begin_ns = clock_now_ns();

	move->result = move->stream->connection->role == TCP_SENDER ? tcp_stream_write(&move->call)
								     : tcp_stream_read_call(&move->call);
	move->call_ns = clock_elapsed_ns(begin_ns, clock_now_ns());
}

static void call_end(struct tcp_move *move, uint64_t now_ns)
{
	struct tcp_stream *stream = move->stream;
	struct tcp_connection *connection = stream->connection;
	char why[sizeof(stream->lost_why)];
	bool unused;
	int r;

	if (connection->role == TCP_SENDER) {
		tcp_stream_write_end(stream, &move->call, move->result, true, now_ns);
		tcp_sender_call_ended(connection);
	}
	if (stream->lost_why[0]) { /* what a receiver's call has read comes again */
		memcpy(why, stream->lost_why, sizeof(why));
		stream->lost_why[0] = '\0';
		tcp_failover_lost(connection, stream, why, now_ns);
	} else if (connection->role == TCP_RECEIVER) {
		r = tcp_stream_read_end(connection, stream, &move->call, move->result, &unused);
		tcp_connection_read(connection, stream, r, move->result > 0);
	}
}

static bool has_more(const struct tcp_move *move)
{
	const struct tcp_stream *stream = move->stream;
	const struct tcp_connection *connection = stream->connection;

	if (connection->error || !stream->live || !tcp_movers_are_on(connection))
		return false;
	if (connection->role == TCP_SENDER)
		return tcp_stream_has_unsent(stream) && !stream->tx_full;
	/* A little would be read again and again. */
	return move->result >= (ssize_t)min_u64(move->call.bytes, TCP_WORTH_BYTES) && tcp_stream_is_moved_in(stream);
}

bool tcp_move_end(struct tcp_move *move)
{
	struct tcp_stream *stream = move->stream;
	struct tcp_connection *connection = stream->connection;
	bool more;

	lock_as_mover(connection);
	stream->move = TCP_MOVE_HELD;
	stream->giving_bytes = 0;
	connection->moved.movers_ns += move->call_ns;
	connection->moved.bytes += move->result > 0 ? (uint64_t)move->result : 0;
	if (connection->error) {
		sys_close_socket(&stream->fd);
		if (connection->role == TCP_SENDER) /* the receiver may have had all, and closed */
			tcp_sender_call_ended(connection);
	} else {
		connection->now_ns = clock_now_ns();
		call_end(move, connection->now_ns);
		connection->ready = true;
		tcp_connection_answer(connection, false);
	}
	more = has_more(move);
	stream->move = more ? TCP_MOVE_HELD : TCP_MOVE_NONE;
	pthread_mutex_unlock(&connection->lock);
	return more;
}

bool tcp_move(struct tcp_stream *stream)
{
	struct tcp_move move = { .stream = stream };

	if (!tcp_move_begin(&move))
		return false;
	tcp_move_call(&move);
	return tcp_move_end(&move);
}
