/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a socket dies. The receiver leads: it stops reading the old socket for good, then says how far it got (DEAD), and
 * only then does the sender send the rest elsewhere, so no late byte lands in a buffer that was given back.
 *
 *   state of a stream     sender                                  receiver
 *   live                  frames go out and are kept              frames come in, position counts
 *   awaits_dead           socket closed, SUSPECT said,            (none)
 *                         nothing sent again yet
 *   dead                  what DEAD left is sent again on         DEAD said, and again after each loss of
 *                         others; dialled anew with epoch + 1     the stream that carried it
 *   live, next epoch      as at first                             HELLO with a higher epoch came
 *
 * No live stream left: both processes may live all the same. The sender dials every stream at once.
 * The first one that is back carries SUSPECT and DEAD, also for itself (live and awaits_dead), and
 * no data before. The connection fails when the peer's process is gone, as far as this host can see
 * it, when its host refuses three times or its process does not know the connection, and no detour
 * may help, when the receiver has waited two fifths of what replacing a stream may take, and when
 * the time-out has passed. Time alone does not end one that outlives silence (enum transport_setting).
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/process.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HELD_UP_NS (250 * NS_PER_MS)
#define SLOW_NS    (NS_PER_S / 2)

static void drop(struct tcp_connection *connection, struct tcp_stream *stream)
{
	tcp_count_lost(connection, stream);
	transport_watch_remove(&connection->watch, stream->fd);
	sys_close_socket(&stream->fd);
	stream->live = connection->ends = false;
	connection->live_count--;
	if (connection->role == TCP_SENDER && connection->s.primary == stream->index)
		for (unsigned i = 0; i < connection->stream_count; i++)
			if (connection->streams[i].live) {
				connection->s.primary = (uint8_t)i;
				break;
			}
}

static void send_suspect(struct tcp_connection *connection, const struct tcp_stream *stream, uint64_t now_ns)
{
	struct tcp_stream *primary = &connection->streams[connection->s.primary];
	struct tcp_frame frame = { .type = TCP_FRAME_SUSPECT,
				   .stream = stream->index,
				   .epoch = (uint16_t)stream->lost_epoch };

	if (!primary->live || !tcp_stream_has_room(primary))
		return; /* the watch says it again */
	tcp_stream_queue(primary, &frame, NULL);
	tcp_stream_flush(primary, true, now_ns);
}

static void send_dead(struct tcp_connection *connection, const struct tcp_stream *stream, uint32_t epoch,
		      uint64_t position)
{
	struct tcp_stream *primary = tcp_connection_primary(connection);
	struct tcp_frame frame = {
		.type = TCP_FRAME_DEAD, .stream = stream->index, .epoch = (uint16_t)epoch, .position = position
	};

	if (!primary || !tcp_stream_has_room(primary))
		return; /* SUSPECT comes again, and asks again */
	tcp_stream_queue(primary, &frame, NULL);
	connection->r.control_pending = true;
}

static void tell_dead(struct tcp_connection *connection, const struct tcp_stream *stream)
{
	if (stream->died)
		send_dead(connection, stream, stream->dead_epoch, stream->dead_position);
	/* One that brought nothing but signs of life: all that was sent on it is to be sent again. */
	if (stream->died && !stream->live && stream->dead_epoch != stream->epoch)
		send_dead(connection, stream, stream->epoch, 0);
}

/* The frames in it may have to go out again; those of a socket that was only there to ask over do not. */
static void keep_frames(struct tcp_connection *connection, struct tcp_stream *stream)
{
	struct tcp_tx_frame *frames = stream->lost_frames;

	if (stream->awaits_dead)
		return;
	stream->awaits_dead = true;
	connection->s.awaiting++;
	stream->lost_epoch = stream->epoch;
	stream->lost_head = stream->tx_head;
	stream->lost_tail = stream->tx_tail;
	stream->lost_written = stream->tx_written;
	stream->lost_frames = stream->frames;
	stream->frames = frames;
	stream->tx_head = stream->tx_next = stream->tx_tail = 0;
}

static void none_is_live(struct tcp_connection *connection, const char *why, uint64_t now_ns)
{
	connection->lost_ns = now_ns;
	snprintf(connection->lost_why, sizeof(connection->lost_why), "%s", why);
	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		stream->redial_at_ns = now_ns;
		stream->redial_wait_ns = TCP_REDIAL_FIRST_NS;
		if (stream->dial)
			stream->dial->retry_at_ns = stream->dial->refused = 0;
	}
	log_info(LOG_NET, "all streams with host %s are lost, the last one: %s. %s", connection->peer_host, why,
		 connection->role == TCP_SENDER ? "They are dialled anew" : "It may dial them anew");
	transport_service_wake(&connection->transport->service);
}

/* Nothing is left to be said to it, or nobody is left to hear it. */
static bool may_end(const struct tcp_connection *connection)
{
	return connection->peer_closed ||
	       (connection->role == TCP_SENDER && connection->closing && tcp_sender_is_empty(connection));
}

void tcp_failover_lost(struct tcp_connection *connection, struct tcp_stream *stream, const char *why, uint64_t now_ns)
{
	char text[TCP_ADDRESS_TEXT];

	if (!stream->live || connection->error)
		return;
	if (stream->move == TCP_MOVE_CALL) {
		if (!stream->lost_why[0])
			snprintf(stream->lost_why, sizeof(stream->lost_why), "%s", why);
		shutdown(stream->fd, SHUT_RDWR);
		return;
	}
	if (connection->live_count == 1 && may_end(connection)) {
		drop(connection, stream);
		tcp_connection_fail(connection, -EREMOTEIO, "the peer closed it");
		return;
	}
	if (connection->role == TCP_RECEIVER) {
		tcp_receiver_forget_partial(connection, stream);
		stream->rx_left = 0;
		if (stream->rx_used || !stream->died) {
			stream->died = true;
			stream->dead_epoch = stream->epoch;
			stream->dead_position = stream->rx_position;
		}
	}
	drop(connection, stream);
	connection->counted.streams_lost += !connection->peer_closed && !connection->closing;
	if (connection->live_count && !connection->peer_closed && !connection->closing)
		log_info(LOG_NET, "stream %u with host %s (%s) is lost: %s. Going on over the other %u", stream->index,
			 connection->peer_host, tcp_socket_text(&stream->peer, text), why, connection->live_count);
	if (!connection->live_count)
		none_is_live(connection, why, now_ns);
	if (connection->role == TCP_SENDER) {
		keep_frames(connection, stream);
		send_suspect(connection, stream, now_ns);
	} else {
		tcp_receiver_retell(connection);
		for (unsigned i = 0; i < connection->stream_count; i++)
			if (!connection->streams[i].live)
				tell_dead(connection, &connection->streams[i]);
	}
}

void tcp_failover_attach(struct tcp_connection *connection, struct tcp_stream *stream, int fd, uint32_t epoch,
			 uint64_t now_ns)
{
	connection->counted.streams_redialled += stream->was_live;
	tcp_stream_attach(stream, fd, epoch, now_ns);
	connection->live_count++;
	connection->ready = true;
	stream->rests = connection->live_count > 1 && connection->s.rest_ns;
	stream->rests_until_ns = now_ns + connection->s.rest_ns;
	if (connection->live_count > 1)
		return;
	if (connection->role == TCP_SENDER)
		connection->s.primary = stream->index;
	for (unsigned i = 0; i < connection->stream_count; i++) {
		if (connection->role == TCP_RECEIVER)
			tell_dead(connection, &connection->streams[i]);
		else if (connection->streams[i].awaits_dead)
			send_suspect(connection, &connection->streams[i], now_ns);
	}
}

/* Rewrites a frame that arrived in part so that it carries the rest. */
static void keep_rest(struct tcp_tx_frame *out, uint64_t delivered)
{
	struct tcp_frame frame;

	if (tcp_wire_get_frame(out->header, &frame) < 0)
		return;
	frame.value += delivered;
	frame.payload_bytes -= (uint32_t)delivered;
	tcp_wire_put_frame(&frame, out->header);
	out->payload += delivered;
	out->payload_bytes -= (uint32_t)delivered;
	out->value += delivered;
}

static bool needed_again(const struct tcp_connection *connection, const struct tcp_tx_frame *out)
{
	return out->type == TCP_FRAME_EAGER || out->type == TCP_FRAME_RTS || out->type == TCP_FRAME_BYE ||
	       (out->type == TCP_FRAME_DATA && tcp_sender_find(connection, out->message));
}

/*
 * In front of what is to go out again already: that was queued later, or waits since then. There is room: the sender bounds
 * what it keeps (sender.c).
 */
static void send_again(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t position)
{
	struct tcp_sender *s = &connection->s;

	if (s->again_head == s->again_tail)
		s->again_head = s->again_tail = s->again_capacity;
	while (stream->lost_tail != stream->lost_head) {
		struct tcp_tx_frame out = stream->lost_frames[--stream->lost_tail % TCP_TX_FRAMES];
		uint64_t begin = out.end - out.payload_bytes - TCP_WIRE_FRAME_BYTES;

		if (out.end <= position || !needed_again(connection, &out))
			continue;
		if (out.type == TCP_FRAME_DATA && position > begin + TCP_WIRE_FRAME_BYTES)
			keep_rest(&out, position - begin - TCP_WIRE_FRAME_BYTES);
		s->again[--s->again_head % s->again_capacity] = out;
	}
}

int tcp_failover_dead(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns)
{
	struct tcp_stream *stream;

	if (frame->stream >= connection->stream_count)
		return -EPROTO;
	stream = &connection->streams[frame->stream];
	if (stream->live && (uint16_t)stream->epoch == frame->epoch) /* the receiver knows of its death before us */
		tcp_failover_lost(connection, stream, "the receiver gave it up", now_ns);
	if (connection->error || !stream->awaits_dead || (uint16_t)stream->lost_epoch != frame->epoch)
		return 0; /* said before */
	if (frame->position > stream->lost_written)
		return -EPROTO;
	send_again(connection, stream, frame->position);
	stream->awaits_dead = false;
	connection->s.awaiting--;
	stream->redial_wait_ns = TCP_REDIAL_FIRST_NS;
	stream->redial_at_ns = now_ns + TCP_REDIAL_FIRST_NS;
	connection->ready = true;
	return 0;
}

void tcp_failover_suspect(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns)
{
	struct tcp_stream *stream;

	if (frame->stream >= connection->stream_count)
		return;
	stream = &connection->streams[frame->stream];
	if (stream->live && (uint16_t)stream->epoch == frame->epoch)
		tcp_failover_lost(connection, stream, "the sender gave it up", now_ns);
	else if (stream->died && (uint16_t)stream->dead_epoch == frame->epoch)
		send_dead(connection, stream, stream->dead_epoch, stream->dead_position);
	else if (stream->died && (int16_t)(frame->epoch - (uint16_t)stream->dead_epoch) > 0)
		send_dead(connection, stream, frame->epoch, 0);
}

int tcp_failover_rejoin(struct tcp_connection *connection, unsigned index, uint32_t epoch, int fd,
			const struct sockaddr_storage *peer, uint64_t now_ns)
{
	struct tcp_stream *stream;

	if (connection->error || index >= connection->stream_count)
		return -EINVAL;
	stream = &connection->streams[index];
	if (epoch <= stream->epoch)
		return -EINVAL;
	if (stream->live) /* the sender knows of its death before us */
		tcp_failover_lost(connection, stream, "the sender dialled it anew", now_ns);
	if (connection->error)
		return -EINVAL;
	stream->peer = *peer;
	tcp_failover_attach(connection, stream, fd, epoch, now_ns);
	return 0;
}

struct tcp_frame tcp_failover_heartbeat(const struct tcp_connection *connection)
{
	return (struct tcp_frame){ .type = TCP_FRAME_HEARTBEAT,
				   .message = connection->changes,
				   .value = connection->active,
				   .tag = connection->s.growth.asks };
}

static void beat(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t now_ns)
{
	struct tcp_frame frame = tcp_failover_heartbeat(connection);
	uint64_t often_ns = connection->transport->beat_ns;

	if (connection->s.mtu.looks && stream->mtu.result == TCP_MTU_FINE)
		often_ns /= TCP_MTU_SHORTS;
	if (connection->role == TCP_RECEIVER) /* its sign of life acknowledges the sender's, which would pile up */
		frame = (struct tcp_frame){ .type = TCP_FRAME_ACK,
					    .stream = stream->index,
					    .epoch = (uint16_t)stream->epoch,
					    .position = stream->rx_position };
	if (tcp_stream_has_unsent(stream) || !tcp_stream_has_room(stream))
		return;
	/* Another frame was a sign of life, too, but the receiver's may have acknowledged another stream. */
	if (clock_elapsed_ns(stream->last_tx_ns, now_ns) < often_ns &&
	    (connection->role == TCP_SENDER || stream->rx_told == stream->rx_position))
		return;
	stream->rx_told = stream->rx_position;
	tcp_stream_queue(stream, &frame, NULL);
	tcp_stream_flush(stream, connection->role == TCP_SENDER, now_ns);
}

/* Silent while the rest of the connection is not: the path is broken, not the peer. */
static bool is_silent(const struct tcp_connection *connection, const struct tcp_stream *stream, uint64_t now_ns)
{
	const uint64_t limit_ns = connection->transport->stream_timeout_ns;
	/* Where short frames arrive it is soon known whether long ones are lost (mtu.c). */
	const uint64_t moves_ns = stream->mtu.result == TCP_MTU_SUSPECT ? limit_ns : limit_ns / 2;

	if (connection->live_count < 2 || clock_elapsed_ns(connection->last_rx_ns, now_ns) > limit_ns / 2)
		return false;
	if (clock_elapsed_ns(stream->last_rx_ns, now_ns) > limit_ns)
		return true;
	return connection->role == TCP_SENDER && stream->tx_written != stream->tx_acknowledged &&
	       clock_elapsed_ns(stream->last_ack_ns, now_ns) > moves_ns &&
	       connection->last_rx_ns > stream->last_ack_ns;
}

/*
 * The kernel doubles its retransmission timer during an outage, and measures the outage as a round trip. So after it a socket
 * stands still for seconds, or is slow. A new one is neither.
 */
static bool is_held_up(const struct tcp_connection *connection, const struct tcp_stream *stream, uint64_t now_ns)
{
	const uint64_t again_ns = connection->s.again_ns, since_ns = max_u64(again_ns, stream->last_ack_ns);
	struct tcp_socket_sent sent;

	if (connection->role != TCP_SENDER || !again_ns || stream->tx_written == stream->tx_acknowledged ||
	    stream->last_ack_ns > again_ns + connection->transport->beat_ns ||
	    clock_elapsed_ns(since_ns, now_ns) <= HELD_UP_NS || !tcp_socket_sent(stream->fd, &sent))
		return false;
	return sent.repeats || (sent.repeat_after_ns > SLOW_NS && sent.acknowledged_ago_ns > HELD_UP_NS);
}

/* Nobody here looked for a while: that is the silence of none of them. Both clocks of a stream move alike. */
static void forgive(struct tcp_connection *connection, uint64_t looked_ns, uint64_t now_ns)
{
	const uint64_t often_ns = 2 * connection->transport->beat_ns;

	connection->last_rx_ns = clock_heard_ns(connection->last_rx_ns, looked_ns, now_ns, often_ns);
	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		stream->last_rx_ns = clock_heard_ns(stream->last_rx_ns, looked_ns, now_ns, often_ns);
		stream->last_ack_ns = clock_heard_ns(stream->last_ack_ns, looked_ns, now_ns, often_ns);
	}
}

/* No stream is live: is it worth waiting for one? */
static bool is_given_up(const struct tcp_connection *connection, uint64_t now_ns)
{
	const struct tcp_transport *transport = connection->transport;
	uint64_t most_ns = connection->role == TCP_SENDER ? transport->silence_ns : transport->stream_timeout_ns;

	return (!connection->outlives_silence && clock_elapsed_ns(connection->lost_ns, now_ns) > most_ns) ||
	       (connection->peer_process && process_has_ended(connection->peer_process));
}

/*
 * Of several streams the first is the primary and the others carry data, as many on each rail as were dialled for it. After it
 * was lost another one is: until all on that has arrived, since eager messages come in order on one stream.
 */
void tcp_failover_restore_primary(struct tcp_connection *connection)
{
	const struct tcp_stream *first = connection->streams, *primary;

	if (connection->role != TCP_SENDER || !connection->s.primary)
		return;
	primary = &connection->streams[connection->s.primary];
	if (first->live && !first->awaits_dead && !first->rests && primary->live && primary->tx_acknowledged == primary->tx_queued &&
	    connection->s.again_head == connection->s.again_tail)
		connection->s.primary = 0;
}

void tcp_failover_watch(struct tcp_connection *connection, uint64_t looked_ns, uint64_t now_ns)
{
	char reason[96];

	if (connection->error)
		return;
	forgive(connection, looked_ns, now_ns);
	if (!connection->live_count && is_given_up(connection, now_ns)) {
		tcp_connection_fail(connection, -EREMOTEIO, connection->lost_why);
		return;
	}
	if (!connection->outlives_silence &&
	    clock_elapsed_ns(connection->last_rx_ns, now_ns) > connection->transport->silence_ns) {
		snprintf(reason, sizeof(reason), "nothing was heard of it for %.1f s (TRIBUTARY_TIMEOUT)",
			 (double)(clock_elapsed_ns(connection->last_rx_ns, now_ns)) / NS_PER_S);
		tcp_connection_fail(connection, -EREMOTEIO, reason);
		return;
	}
	tcp_failover_restore_primary(connection);
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && is_silent(connection, stream, now_ns))
			tcp_failover_lost(connection, stream, "it fell silent", now_ns);
		if (stream->live && !connection->error && is_held_up(connection, stream, now_ns))
			tcp_failover_lost(connection, stream, "it stands still after an outage", now_ns);
		if (stream->live && !connection->error)
			beat(connection, stream, now_ns);
		if (stream->awaits_dead)
			send_suspect(connection, stream, now_ns);
	}
}

void tcp_failover_watch_stream(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t now_ns)
{
	int r = transport_watch_add(&connection->watch, stream->fd, TCP_WATCH_EVENTS);

	if (r < 0)
		tcp_failover_lost(connection, stream, strerror(-r), now_ns);
}
