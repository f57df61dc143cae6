/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in, through a small staging buffer or straight to their place. */
#include "base/clock.h"
#include "base/copy.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "transport/pace/flight.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <sys/ioctl.h>

enum {
	QUIET_POLLS = 1,       /* a round trip has more, a stream seldom */
	TAIL_BYTES = 64 << 10, /* what ends a frame is waited for, so it is read as it comes */
	SMALL_BYTES = 4 << 10, /* a read that brought no more */
	SMALL_GAP_NS = 20000,  /* and came so soon after the one before */
	SMALL_WAIT_NS = 10000,
	GATHER_NS = 20000, /* a mover that wakes for less has more to do with waking; doubled by each look */
	GATHER_LOOKS = 3,
	END_LOOKS = 16,
};

static int frame_arrived(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_frame *frame,
			 uint64_t now_ns)
{
	int r;

	if (connection->role == TCP_SENDER) {
		stream->rx_position += TCP_WIRE_FRAME_BYTES;
		return frame->type == TCP_FRAME_DEAD ? tcp_failover_dead(connection, frame, now_ns)
						     : tcp_sender_frame(connection, frame, now_ns);
	}
	r = tcp_receiver_frame(connection, stream, frame, now_ns);
	if (frame->type == TCP_FRAME_SUSPECT)
		tcp_failover_suspect(connection, frame, now_ns);
	return r;
}

/* Works through what was staged. Stops when the stream was taken away under it (a failure that frames brought). */
static int consume(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t now_ns)
{
	while (stream->live && !connection->error) {
		size_t staged = stream->staged_end - stream->staged_begin;
		uint8_t *at = stream->staging + stream->staged_begin;
		int r;

		if (stream->rx_left) {
			size_t count = staged < stream->rx_left ? staged : (size_t)stream->rx_left;

			if (!count)
				break;
			copy_bytes(stream->rx_target, at, count);
			stream->rx_target += count;
			stream->rx_left -= count;
			stream->staged_begin += count;
			r = tcp_receiver_payload(connection, stream, count, now_ns);
		} else {
			struct tcp_frame frame;

			if (staged < TCP_WIRE_FRAME_BYTES)
				break;
			r = tcp_wire_get_frame(at, &frame);
			if (r < 0)
				return -EPROTO;
			stream->staged_begin += TCP_WIRE_FRAME_BYTES;
			r = frame_arrived(connection, stream, &frame, now_ns);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * A message that ends a quiet spell in which this process has sent something is most likely an answer, and somebody waits
 * for the next. Reading it would make the kernel send an acknowledgement before the call returns, about a microsecond;
 * peeking does not, and the bytes are taken off the socket by the next read, when nobody waits for it. In a stream of
 * small messages one way the second call would only cost.
 */
static bool is_awaited(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	return stream->quiet_polls > QUIET_POLLS && !connection->watch.on && !tcp_receiver_expects_data(connection) &&
	       atomic_load_explicit(&connection->transport->sends, memory_order_relaxed) != stream->rx_after_sends;
}

/*
 * A stream of small messages one way: looking less often finds several at once, and each look that finds one makes the
 * kernel send an acknowledgement, which costs the sender.
 */
static bool is_dense(const struct tcp_connection *connection, const struct tcp_stream *stream, size_t got,
		     uint64_t now_ns)
{
	return got <= SMALL_BYTES && connection->role == TCP_RECEIVER && !connection->watch.on &&
	       !tcp_receiver_expects_data(connection) && clock_elapsed_ns(stream->last_rx_ns, now_ns) < SMALL_GAP_NS &&
	       atomic_load_explicit(&connection->transport->sends, memory_order_relaxed) == stream->rx_after_sends;
}

static int drop_peeked(struct tcp_stream *stream)
{
	uint8_t *unused = stream->staging + stream->staged_end;
	size_t room = stream->staging_bytes - stream->staged_end;

	while (stream->peeked) {
		ssize_t got = sys_recv(stream->fd, unused, stream->peeked < room ? stream->peeked : room, 0);

		if (got <= 0)
			return got == 0 ? -ECONNRESET : got == -EINTR ? -EAGAIN : (int)got;
		stream->peeked -= (size_t)got;
	}
	return 0;
}

static int make_room(struct tcp_stream *stream)
{
	size_t staged = stream->staged_end - stream->staged_begin;

	if (stream->staged_begin) { /* less than a header is left, or nothing */
		memmove(stream->staging, stream->staging + stream->staged_begin, staged);
		stream->staged_begin = 0;
		stream->staged_end = staged;
	}
	return drop_peeked(stream);
}

/*
 * A bounded window does not shrink as data waits, which the kernel takes for a reader that is fast, and acknowledges every
 * second segment at once. That is 2 % of the link. Told a little less than it offered last, it leaves acknowledging to
 * the next read.
 */
static void let_reads_acknowledge(struct tcp_stream *stream, size_t got)
{
	uint64_t bytes;

	if (!stream->flight_bytes || !stream->flight_lasts)
		return;
	if (!stream->flight_grain)
		stream->flight_grain = tcp_socket_window_grain(stream->fd);
	bytes = pace_flight_tell_bytes(stream->flight_bytes, stream->flight_told, stream->flight_grain, got);
	if (bytes == stream->flight_told)
		return;
	tcp_socket_window(stream->fd, bytes);
	stream->flight_told = bytes;
}

int tcp_stream_read_begin(struct tcp_connection *connection, struct tcp_stream *stream, size_t most, size_t payload_most,
			  struct tcp_call *ret)
{
	const size_t staged = stream->staged_end - stream->staged_begin;
	int r = make_room(stream);

	if (r < 0)
		return r;
	ret->fd = stream->fd;
	ret->flags = 0;
	ret->count = 0;
	ret->bytes = 0;
	ret->amid = stream->rx_left > 0;
	if (ret->amid) {
		ret->bytes = (size_t)min_u64(stream->rx_left, payload_most);
		ret->parts[ret->count++] = (struct iovec){ stream->rx_target, ret->bytes };
	}
	if (most > stream->staging_bytes)
		most = stream->staging_bytes;
	if (most > staged && ret->bytes == stream->rx_left) {
		ret->parts[ret->count++] = (struct iovec){ stream->staging + staged, most - staged };
		ret->bytes += most - staged;
	}
	if (!staged && !ret->amid && is_awaited(connection, stream))
		ret->flags = MSG_PEEK;
	return 0;
}

ssize_t tcp_stream_read_call(struct tcp_call *call)
{
	return call->count == 1 ? sys_recv(call->fd, call->parts[0].iov_base, call->parts[0].iov_len, call->flags)
				: sys_readv(call->fd, call->parts, call->count);
}

int tcp_stream_read_end(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_call *call,
			ssize_t got, bool *ret_more)
{
	uint64_t now_ns;
	size_t direct;
	int r;

	*ret_more = got == -EINTR;
	if (got == -EAGAIN || got == -EINTR) {
		stream->quiet_polls++;
		return 0;
	}
	stream->quiet_polls = 0;
	if (got <= 0)
		return got ? (int)got : -ECONNRESET; /* the end without BYE is as good as a reset */
	if (call->flags & MSG_PEEK)
		stream->peeked = (size_t)got;
	now_ns = clock_now_ns(); /* only now: most polls find nothing, and the clock costs as much as the rest of them */
	let_reads_acknowledge(stream, (size_t)got);
	stream->rx_due_ns = 0;
	if (call->amid && stream->rx_left > (size_t)got + TAIL_BYTES && tcp_receiver_may_rest(connection))
		stream->rx_due_ns = tcp_stream_worth_from((uint64_t)got, stream->last_rx_ns, now_ns);
	else if (!call->amid && is_dense(connection, stream, (size_t)got, now_ns))
		stream->rx_due_ns = now_ns + SMALL_WAIT_NS;
	stream->rx_after_sends = atomic_load_explicit(&connection->transport->sends, memory_order_relaxed);
	if (clock_elapsed_ns(connection->last_rx_ns, now_ns) > TCP_SILENCE_BEATS * connection->transport->beat_ns)
		connection->s.again_ns = now_ns;
	stream->last_rx_ns = connection->last_rx_ns = connection->now_ns = now_ns;
	/* An owner who sleeps hears of what comes after a short read. (Of an end that came with it, at the next beat.) */
	*ret_more = (size_t)got == call->bytes || (got >= TCP_WORTH_BYTES && !connection->watch.on);
	direct = (size_t)min_u64((uint64_t)got, stream->rx_left);
	stream->staged_end += (size_t)got - direct;
	if (direct) {
		stream->rx_target += direct;
		stream->rx_left -= direct;
		r = tcp_receiver_payload(connection, stream, direct, now_ns);
		if (r < 0)
			return r;
	}
	return consume(connection, stream, now_ns);
}

bool tcp_stream_is_moved_in(const struct tcp_stream *stream)
{
	return !stream->rx_left || (!stream->rx_message->eager && stream->rx_message->state == TCP_MESSAGE_COMES);
}

/* Looks that find too little come less and less often: with many streams they would take the core that movers want. */
static bool comes_later(struct tcp_connection *connection, struct tcp_stream *stream, size_t there)
{
	if (there >= connection->transport->movers.least_bytes || there >= stream->rx_left ||
	    (there && stream->quiet_polls > GATHER_LOOKS))
		return false;
	stream->rx_due_ns = clock_now_ns() + ((uint64_t)GATHER_NS << min_u64(stream->quiet_polls, GATHER_LOOKS));
	return ++stream->quiet_polls % END_LOOKS != 0; /* the end of a stream shows as nothing, but in a read */
}

bool tcp_stream_is_left_to_movers(struct tcp_connection *connection, struct tcp_stream *stream)
{
	int there = 0;

	if (connection->role != TCP_RECEIVER)
		return false;
	if (stream->move != TCP_MOVE_NONE)
		return true;
	if (!stream->rx_left || !tcp_stream_is_moved_in(stream) || !tcp_movers_are_on(connection) ||
	    ioctl(stream->fd, FIONREAD, &there) < 0)
		return false;
	if (comes_later(connection, stream, (size_t)there))
		return true;
	return there && tcp_movers_take(stream, max_u64((size_t)there, connection->transport->movers.least_bytes));
}

int tcp_stream_read(struct tcp_connection *connection, struct tcp_stream *stream, size_t most, bool *ret_more)
{
	const bool is_long = tcp_movers_measure(connection) && stream->rx_left >= TCP_MOVERS_LEAST_BYTES / 2;
	struct tcp_movers_time *time = &connection->moved;
	uint64_t begin_ns = 0;
	struct tcp_call call;
	ssize_t got;
	int r;

	*ret_more = false;
	/* While movers are at work nobody holds the lock for long. */
	r = tcp_stream_read_begin(connection, stream, most,
				  tcp_movers_are_on(connection) ? TCP_MOVERS_LEAST_BYTES : SIZE_MAX, &call);
	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	if (is_long)
		begin_ns = clock_now_ns();
	got = tcp_stream_read_call(&call);
	if (is_long && got > 0)
		time->calls_ns += clock_elapsed_ns(begin_ns, clock_now_ns());
	time->bytes += got > 0 ? (uint64_t)got : 0;
	return tcp_stream_read_end(connection, stream, &call, got, ret_more);
}
