/* SPDX-License-Identifier: Apache-2.0 */
/* One socket of a connection, and frames out of a ring. read.c has the other direction. */
#include "base/clock.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"

#include <errno.h>

enum {
	WAIT_LEAST_NS = 20000, /* on a fast link the next poll is no sooner anyway */
	WAIT_MOST_NS = 200000,
};

int tcp_stream_init(struct tcp_connection *connection, unsigned index)
{
	struct tcp_stream *stream = &connection->streams[index];
	const enum tcp_role role = connection->role;

	stream->connection = connection;
	stream->fd = -1;
	stream->index = (uint8_t)index;
	stream->staging_bytes = role == TCP_SENDER ? TCP_STAGING_SENDER : TCP_STAGING_RECEIVER;
	stream->staging = sys_zalloc(stream->staging_bytes);
	stream->frames = sys_zalloc(TCP_TX_FRAMES * sizeof(*stream->frames));
	if (role == TCP_SENDER)
		stream->lost_frames = sys_zalloc(TCP_TX_FRAMES * sizeof(*stream->lost_frames));
	return stream->staging && stream->frames && (stream->lost_frames || role != TCP_SENDER) ? 0 : -ENOMEM;
}

void tcp_stream_fini(struct tcp_stream *stream)
{
	sys_close_socket(&stream->fd);
	sys_free(stream->staging);
	sys_free(stream->frames);
	sys_free(stream->lost_frames);
	if (stream->dial)
		sys_close_socket(&stream->dial->fd);
	sys_free(stream->dial);
	stream->dial = NULL;
	stream->staging = NULL;
	stream->frames = stream->lost_frames = NULL;
}

/* Each of several may go as fast as all of them: the others may be dead. */
void tcp_stream_limit_rate(struct tcp_stream *stream, uint64_t rate_Bps)
{
	if (stream->live && rate_Bps != stream->most_Bps)
		tcp_socket_pace(stream->fd, rate_Bps);
	stream->most_Bps = rate_Bps;
}

void tcp_stream_attach(struct tcp_stream *stream, int fd, uint32_t epoch, uint64_t now_ns)
{
	stream->fd = fd;
	if (stream->most_Bps)
		tcp_socket_pace(fd, stream->most_Bps);
	stream->live = stream->was_live = true;
	stream->path_ns = tcp_socket_path_ns(fd);
	stream->acknowledged_before = tcp_socket_acknowledged(fd);
	stream->rx_used = false;
	stream->epoch = epoch;
	stream->rx_position = stream->rx_told = stream->rx_left = 0;
	stream->staged_begin = stream->staged_end = stream->peeked = 0;
	stream->flight_bytes = stream->flight_position = stream->flight_told = stream->flight_grain =
		stream->flight_from = 0;
	stream->quiet_polls = 0;
	stream->rx_due_ns = stream->tx_due_ns = 0;
	stream->tx_head = stream->tx_next = stream->tx_tail = UINT32_MAX - 3; /* as TCP_WIRE_FIRST_SEQUENCE */
	stream->tx_queued = stream->tx_written = stream->tx_acknowledged = 0;
	stream->tx_full = false;
	stream->tx_error = 0;
	stream->last_rx_ns = stream->last_tx_ns = stream->last_ack_ns = now_ns;
	stream->mtu = (struct tcp_mtu){ .stuck = stream->mtu.result != TCP_MTU_FINE };
	stream->rate_Bps = stream->rate_from_position = stream->rate_busy_ns = stream->seen = 0;
}

void tcp_stream_queue(struct tcp_stream *stream, const struct tcp_frame *frame, const void *payload)
{
	struct tcp_tx_frame *out = &stream->frames[stream->tx_tail % TCP_TX_FRAMES];

	tcp_wire_put_frame(frame, out->header);
	out->payload = payload;
	out->payload_bytes = payload ? frame->payload_bytes : 0;
	out->message = frame->message;
	out->value = frame->value;
	out->type = frame->type;
	out->joined = false;
	stream->tx_queued += TCP_WIRE_FRAME_BYTES + out->payload_bytes;
	out->end = stream->tx_queued;
	stream->tx_tail++;
}

/* So much of it that the call has no more than `most`. False: there is no room for more. */
static bool add_part(struct tcp_call *call, size_t most, const uint8_t *bytes, size_t count)
{
	const size_t taken = count < most - call->bytes ? count : most - call->bytes;

	if (taken)
		call->parts[call->count++] = (struct iovec){ (void *)(uintptr_t)bytes, taken };
	call->bytes += taken;
	return call->bytes < most;
}

/* The unwritten parts of the queued frames, from the middle of one on. */
bool tcp_stream_write_begin(struct tcp_stream *stream, size_t most, struct tcp_call *ret)
{
	bool room = true;

	ret->fd = stream->fd;
	ret->count = 0;
	ret->bytes = 0;
	ret->was_full = stream->tx_full;
	if (stream->tx_error)
		return false;
	for (uint32_t i = stream->tx_next; room && i != stream->tx_tail && ret->count + 2 <= TCP_CALL_PARTS; i++) {
		const struct tcp_tx_frame *out = &stream->frames[i % TCP_TX_FRAMES];
		uint64_t begin = out->end - out->payload_bytes - TCP_WIRE_FRAME_BYTES;
		uint64_t skip = stream->tx_written > begin ? stream->tx_written - begin : 0;

		if (out->joined) {
			room = add_part(ret, most, out->payload - TCP_WIRE_FRAME_BYTES + skip,
					TCP_WIRE_FRAME_BYTES + out->payload_bytes - skip);
			continue;
		}
		if (skip < TCP_WIRE_FRAME_BYTES) {
			room = add_part(ret, most, out->header + skip, TCP_WIRE_FRAME_BYTES - skip);
			skip = 0;
		} else {
			skip -= TCP_WIRE_FRAME_BYTES;
		}
		if (room && out->payload_bytes > skip)
			room = add_part(ret, most, out->payload + skip, out->payload_bytes - skip);
	}
	return ret->count > 0;
}

ssize_t tcp_stream_write(struct tcp_call *call)
{
	return call->count == 1 ? sys_send(call->fd, call->parts[0].iov_base, call->parts[0].iov_len)
				: sys_sendmsg(call->fd, call->parts, (size_t)call->count);
}

/* A caller that polls every 50 us moves 6 KiB at a time at 1 Gbit/s, and pays a system call for each. */
uint64_t tcp_stream_worth_from(uint64_t bytes, uint64_t then_ns, uint64_t now_ns)
{
	uint64_t wait_ns;

	if (!bytes || bytes >= TCP_WORTH_BYTES)
		return 0;
	wait_ns = clock_elapsed_ns(then_ns, now_ns) * TCP_WORTH_BYTES / bytes;
	if (wait_ns < WAIT_LEAST_NS)
		return 0;
	return now_ns + (wait_ns < WAIT_MOST_NS ? wait_ns : WAIT_MOST_NS);
}

bool tcp_stream_carries(const struct tcp_stream *stream, uint64_t position)
{
	for (uint32_t i = stream->tx_head; i != stream->tx_tail; i++) {
		const struct tcp_tx_frame *out = &stream->frames[i % TCP_TX_FRAMES];

		if (out->end >= position + out->payload_bytes + TCP_WIRE_FRAME_BYTES)
			break;
		if (out->type != TCP_FRAME_HEARTBEAT && out->type != TCP_FRAME_SUSPECT)
			return true;
	}
	return false;
}

void tcp_stream_let_go(struct tcp_stream *stream)
{
	while (stream->tx_head != stream->tx_next &&
	       stream->frames[stream->tx_head % TCP_TX_FRAMES].end <= stream->tx_acknowledged)
		stream->tx_head++;
}

bool tcp_stream_write_end(struct tcp_stream *stream, const struct tcp_call *call, ssize_t r, bool keep, uint64_t now_ns)
{
	stream->tx_due_ns = 0;
	if (r == -EAGAIN || r == -EINTR || r == -ENOBUFS) {
		stream->tx_full = true;
		return false;
	}
	if (r < 0) {
		stream->tx_error = (int)r;
		stream->tx_full = true;
		shutdown(stream->fd, SHUT_WR); /* should it live all the same, the peer ends it now */
		return false;
	}
	if (stream->tx_written <= stream->tx_acknowledged) /* the clock of silence starts now */
		stream->last_ack_ns = now_ns;
	if (call->was_full && (size_t)r < call->bytes)
		stream->tx_due_ns = tcp_stream_worth_from((uint64_t)r, stream->last_tx_ns, now_ns);
	stream->tx_written += (uint64_t)r;
	stream->last_tx_ns = now_ns;
	while (stream->tx_next != stream->tx_tail &&
	       stream->frames[stream->tx_next % TCP_TX_FRAMES].end <= stream->tx_written)
		stream->tx_next++;
	if (keep) {
		tcp_stream_let_go(stream); /* a mover's bytes may be acknowledged before the call has returned */
	} else {
		stream->tx_head = stream->tx_next;
		stream->tx_acknowledged = stream->tx_written;
	}
	stream->tx_full = (size_t)r < call->bytes;
	return !stream->tx_full;
}

void tcp_stream_flush(struct tcp_stream *stream, bool keep, uint64_t now_ns)
{
	struct tcp_movers_time *time = &stream->connection->moved;
	struct tcp_call call;
	bool goes_on = true;

	if (keep && tcp_movers_take(stream, stream->tx_queued - stream->tx_written))
		return;
	stream->tx_due_ns = 0;
	while (goes_on && tcp_stream_write_begin(stream, SIZE_MAX, &call)) {
		const bool is_long = tcp_movers_measure(stream->connection) && call.bytes >= TCP_MOVERS_LEAST_BYTES;
		const uint64_t begin_ns = is_long ? clock_now_ns() : 0;
		ssize_t r = tcp_stream_write(&call);

		time->bytes += r > 0 ? (uint64_t)r : 0;
		time->calls_ns += is_long ? clock_elapsed_ns(begin_ns, clock_now_ns()) : 0;
		goes_on = tcp_stream_write_end(stream, &call, r, keep, now_ns);
	}
	if (goes_on)
		stream->tx_full = stream->tx_error != 0;
}
