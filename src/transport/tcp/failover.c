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
 * No live stream left: the connection has failed.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define REDIAL_FIRST_NS (100 * NS_PER_MS)

struct tcp_stream *tcp_failover_lead(struct tcp_connection *connection)
{
	struct tcp_stream *hot = &connection->streams[connection->hot];

	if (hot->live)
		return hot;
	for (unsigned i = 0; i < connection->stream_count; i++)
		if (connection->streams[i].live)
			return &connection->streams[i];
	return NULL;
}

static void drop(struct tcp_connection *connection, struct tcp_stream *stream)
{
	tcp_unwatch_stream(connection, stream);
	sys_close(&stream->fd);
	stream->live = false;
	connection->live_count--;
	if (connection->role == TCP_SENDER && connection->s.lead == stream->index)
		for (unsigned i = 0; i < connection->stream_count; i++)
			if (connection->streams[i].live) {
				connection->s.lead = (uint8_t)i;
				break;
			}
}

static void send_suspect(struct tcp_connection *connection, const struct tcp_stream *stream, uint64_t now_ns)
{
	struct tcp_stream *lead = &connection->streams[connection->s.lead];
	struct tcp_frame frame = { .type = TCP_FRAME_SUSPECT,
				   .stream = stream->index,
				   .epoch = (uint16_t)stream->epoch };

	if (!lead->live || !tcp_stream_has_room(lead))
		return; /* the watch says it again */
	tcp_stream_queue(lead, &frame, NULL);
	if (tcp_stream_flush(lead, true, now_ns) < 0)
		lead->tx_full = true; /* its own loss shows at the next write */
}

void tcp_failover_send_dead(struct tcp_connection *connection, const struct tcp_stream *stream)
{
	struct tcp_stream *lead = tcp_failover_lead(connection);
	struct tcp_frame frame = { .type = TCP_FRAME_DEAD,
				   .stream = stream->index,
				   .epoch = (uint16_t)stream->epoch,
				   .position = stream->dead_position };

	if (!lead || !tcp_stream_has_room(lead))
		return; /* SUSPECT comes again, and asks again */
	tcp_stream_queue(lead, &frame, NULL);
	connection->r.control_pending = true;
}

void tcp_failover_lost(struct tcp_connection *connection, struct tcp_stream *stream, const char *why, uint64_t now_ns)
{
	char text[TCP_ADDRESS_TEXT], reason[160];

	if (!stream->live || connection->error)
		return;
	if (connection->live_count == 1) {
		snprintf(reason, sizeof(reason), "%s", connection->peer_closed ? "the peer closed it" : why);
		drop(connection, stream);
		tcp_connection_fail(connection, -EREMOTEIO, reason);
		return;
	}
	if (connection->role == TCP_RECEIVER) {
		tcp_receiver_forget_partial(connection, stream);
		stream->rx_left = 0;
		stream->dead_position = stream->rx_position;
	}
	drop(connection, stream);
	if (!connection->peer_closed && !connection->closing)
		log_info(LOG_NET, "stream %u with host %s (%s) is lost: %s. Going on over the other %u", stream->index,
			 connection->peer_host, tcp_socket_text(&stream->peer, text), why, connection->live_count);
	if (connection->role == TCP_SENDER) {
		stream->awaits_dead = true;
		send_suspect(connection, stream, now_ns);
	} else {
		tcp_receiver_retell(connection);
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
	return out->type == TCP_FRAME_EAGER || out->type == TCP_FRAME_ANNOUNCE || out->type == TCP_FRAME_COMES ||
	       out->type == TCP_FRAME_BYE || (out->type == TCP_FRAME_DATA && tcp_sender_find(connection, out->message));
}

void tcp_failover_dead(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns)
{
	struct tcp_sender *s = &connection->s;
	struct tcp_stream *stream;

	if (frame->stream >= connection->stream_count) {
		tcp_connection_fail(connection, -EREMOTEIO, "it broke the protocol");
		return;
	}
	stream = &connection->streams[frame->stream];
	if ((uint16_t)stream->epoch != frame->epoch || (!stream->live && !stream->awaits_dead))
		return; /* said before */
	if (frame->position > stream->tx_written) {
		tcp_connection_fail(connection, -EREMOTEIO, "it broke the protocol");
		return;
	}
	if (stream->live)
		drop(connection, stream);
	for (; stream->tx_head != stream->tx_tail; stream->tx_head++) {
		struct tcp_tx_frame out = stream->frames[stream->tx_head % TCP_TX_FRAMES];
		uint64_t begin = out.end - out.payload_bytes - TCP_WIRE_FRAME_BYTES;

		if (out.end <= frame->position || !needed_again(connection, &out))
			continue;
		if (out.type == TCP_FRAME_DATA && frame->position > begin + TCP_WIRE_FRAME_BYTES)
			keep_rest(&out, frame->position - begin - TCP_WIRE_FRAME_BYTES);
		s->again[s->again_tail++ % s->again_capacity] = out;
	}
	stream->tx_next = stream->tx_tail;
	stream->awaits_dead = false;
	stream->redial_wait_ns = REDIAL_FIRST_NS;
	stream->redial_at_ns = now_ns + REDIAL_FIRST_NS;
	if (!connection->live_count)
		tcp_connection_fail(connection, -EREMOTEIO, "its last stream is lost");
}

void tcp_failover_suspect(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns)
{
	struct tcp_stream *stream;

	if (frame->stream >= connection->stream_count)
		return;
	stream = &connection->streams[frame->stream];
	if ((uint16_t)stream->epoch != frame->epoch)
		return;
	if (stream->live)
		tcp_failover_lost(connection, stream, "the sender gave it up", now_ns);
	else
		tcp_failover_send_dead(connection, stream);
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
	tcp_stream_attach(stream, fd, epoch, now_ns);
	stream->peer = *peer;
	connection->live_count++;
	return 0;
}

static void beat(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t now_ns)
{
	struct tcp_frame frame = { .type = TCP_FRAME_HEARTBEAT };
	int r;

	if (connection->role == TCP_RECEIVER) /* its sign of life acknowledges the sender's, which would pile up */
		frame = (struct tcp_frame){ .type = TCP_FRAME_ACK,
					    .stream = stream->index,
					    .epoch = (uint16_t)stream->epoch,
					    .position = stream->rx_position };
	if (tcp_stream_has_unsent(stream) || !tcp_stream_has_room(stream) ||
	    clock_elapsed_ns(stream->last_tx_ns, now_ns) < connection->transport->beat_ns)
		return;
	stream->rx_told = stream->rx_position;
	tcp_stream_queue(stream, &frame, NULL);
	r = tcp_stream_flush(stream, connection->role == TCP_SENDER, now_ns);
	if (r < 0)
		tcp_failover_lost(connection, stream, strerror(-r), now_ns);
}

/* Silent while the rest of the connection is not: the path is broken, not the peer. */
static bool is_silent(const struct tcp_connection *connection, const struct tcp_stream *stream, uint64_t now_ns)
{
	const uint64_t limit_ns = connection->transport->stream_timeout_ns;

	if (connection->live_count < 2 || clock_elapsed_ns(connection->last_rx_ns, now_ns) > limit_ns / 2)
		return false;
	if (clock_elapsed_ns(stream->last_rx_ns, now_ns) > limit_ns)
		return true;
	return connection->role == TCP_SENDER && stream->tx_written != stream->tx_acknowledged &&
	       clock_elapsed_ns(stream->last_ack_ns, now_ns) > limit_ns / 2 &&
	       connection->last_rx_ns > stream->last_ack_ns;
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

void tcp_failover_watch(struct tcp_connection *connection, uint64_t looked_ns, uint64_t now_ns)
{
	char reason[96];

	if (connection->error)
		return;
	forgive(connection, looked_ns, now_ns);
	if (clock_elapsed_ns(connection->last_rx_ns, now_ns) > connection->transport->silence_ns) {
		snprintf(reason, sizeof(reason), "nothing was heard of it for %.1f s (TRIBUTARY_TIMEOUT)",
			 (double)(clock_elapsed_ns(connection->last_rx_ns, now_ns)) / NS_PER_S);
		tcp_connection_fail(connection, -EREMOTEIO, reason);
		return;
	}
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && is_silent(connection, stream, now_ns))
			tcp_failover_lost(connection, stream, "it fell silent", now_ns);
		if (stream->live && !connection->error)
			beat(connection, stream, now_ns);
		if (stream->awaits_dead)
			send_suspect(connection, stream, now_ns);
	}
}
