/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a receiver tells the sender: how much may come unscheduled, grants, what is done, what the window holds. It is
 * state, not events: a flush says what is new in it, and after the loss of a stream everything is said again.
 */
#include "base/clock.h"
#include "base/minmax.h"
#include "transport/tcp/tcp.h"

/* Several streams: the sender balances them by what is acknowledged. */
enum {
	ACK_BYTES = 64 << 10,
	ACK_FRAME_BYTES = 128, /* of a stream that has no frame under way: with few control messages it may wait for a beat */
};
#define PORT_NS (4 * NS_PER_MS) /* what a trial does to others; a sender's step */

_Static_assert(PACE_UNSCHEDULED_ALONE_BYTES <= TCP_UNSCHEDULED_WINDOW / 2 &&
		       TCP_UNSCHEDULED_UNPACED <= TCP_UNSCHEDULED_WINDOW / 2,
	       "what may come unscheduled has a place");
_Static_assert(TCP_WIRE_UNSCHEDULED_UNITS <= UINT16_MAX + 1, "a place in 16 bits");

/* Each frame to the sender acknowledges one stream: the one that is furthest ahead of what was told. */
static void acknowledge_in(struct tcp_connection *connection, struct tcp_frame *frame)
{
	struct tcp_stream *furthest = NULL;

	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (stream->live &&
		    (!furthest || stream->rx_position - stream->rx_told > furthest->rx_position - furthest->rx_told))
			furthest = stream;
	}
	if (!furthest)
		return;
	frame->stream = furthest->index;
	frame->epoch = (uint16_t)furthest->epoch;
	frame->position = furthest->rx_position;
	furthest->rx_told = furthest->rx_position;
}

static bool tell(struct tcp_connection *connection, struct tcp_stream *primary, struct tcp_frame frame)
{
	if (!tcp_stream_has_room(primary))
		return false;
	acknowledge_in(connection, &frame);
	tcp_stream_queue(primary, &frame, NULL);
	return true;
}

/*
 * Our kernel keeps what is on its way short, however much the sender has begun. Not so of senders to many: their bounds add up
 * to more than the port holds, since grants let them take turns.
 */
static bool flight_is_bounded(const struct tcp_connection *connection)
{
	if (!connection->transport->bounds_windows || connection->r.sender.spread > 1)
		return false;
	for (unsigned i = 0; i < connection->stream_count; i++) {
		const struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && tcp_stream_is_wanted(connection, i) &&
		    (!stream->flight_bytes || !stream->flight_kept ||
				     (stream->rx_used && tcp_stream_is_active(connection, i) &&
				      stream->rx_position < stream->flight_from)))
			return false;
	}
	return true;
}

static uint64_t unscheduled_most(const struct tcp_connection *connection)
{
	uint64_t bytes;

	if (connection->r.unpaced)
		return TCP_UNSCHEDULED_UNPACED;
	bytes = pace_unscheduled(connection->r.pace, &connection->r.sender);
	/* What comes unscheduled is charged, and could keep somebody from the grant that he waits for. */
	if (bytes < PACE_UNSCHEDULED_BYTES && flight_is_bounded(connection) && !pace_has_waiting(connection->r.pace))
		bytes = PACE_UNSCHEDULED_BYTES;
	return bytes;
}

static bool tell_unscheduled(struct tcp_connection *connection, struct tcp_stream *primary)
{
	const struct tcp_frame frame = { .type = TCP_FRAME_UNSCHEDULED,
					 .value = unscheduled_most(connection) };

	if (frame.value == connection->r.unscheduled_told)
		return true;
	if (!tell(connection, primary, frame))
		return false;
	connection->r.unscheduled_told = frame.value;
	return true;
}

/* Without what a trial does to others. */
static struct tcp_wire_port port_of(const struct tcp_connection *connection)
{
	const struct tcp_receiver *r = &connection->r;

	if (!pace_hosts_compete(r->pace))
		return (struct tcp_wire_port){ 0 };
	return (struct tcp_wire_port){ .competes = true,
				       .full = pace_is_full(r->pace),
				       .turn = pace_has_turn(r->pace, &r->sender),
				       .most = r->streams_most };
}

/* A bound that rises by less than half again is no news: it follows the port's rate. */
static bool port_is_news(const struct tcp_receiver *r, const struct tcp_wire_port *port)
{
	const struct tcp_wire_port *told = &r->port_told;

	return r->port_again || port->competes != told->competes || port->full != told->full || port->turn != told->turn ||
	       (port->most ? !told->most || port->most < told->most || 2 * port->most > 3 * told->most : told->most);
}

static bool tell_port(struct tcp_connection *connection, struct tcp_stream *primary, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_frame frame = { .type = TCP_FRAME_PORT };
	struct tcp_wire_port port = port_of(connection);
	const bool trial_due = port.turn && clock_elapsed_ns(r->port_told_ns, now_ns) >= PORT_NS;

	if (!trial_due && !port_is_news(r, &port))
		return true;
	if (port.turn) {
		const struct pace_port_others others = pace_others(r->pace, now_ns);

		port.measured = others.measured_ns != 0;
		port.kept = (uint16_t)min_u64((uint64_t)(others.kept * TCP_WIRE_PORT_ALL), TCP_WIRE_PORT_KEPT_MOST);
		port.lost = (uint32_t)min_u64((uint64_t)others.lost_Bps / TCP_WIRE_PORT_UNIT, TCP_WIRE_PORT_RATE_MOST);
		port.each = (uint32_t)min_u64((uint64_t)others.each_Bps / TCP_WIRE_PORT_UNIT, TCP_WIRE_PORT_RATE_MOST);
	}
	port.number = r->port_told.number + 1;
	tcp_wire_put_port(&port, &frame);
	if (!tell(connection, primary, frame))
		return false;
	r->port_told = port;
	r->port_told_ns = now_ns;
	r->port_again = false;
	return true;
}

static bool tell_grants(struct tcp_connection *connection, struct tcp_stream *primary, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;

	for (uint32_t left = r->coming; left; left &= left - 1) {
		struct tcp_message *message = &r->messages[__builtin_ctz(left)];
		struct tcp_frame frame = { .type = TCP_FRAME_GRANT, .message = (uint32_t)message->sequence };
		uint64_t granted = pace_granted(&message->pace);

		if (granted <= message->grant_told && !message->tell_again)
			continue;
		frame.value = granted;
		if (!tell(connection, primary, frame))
			return false;
		if (granted > message->grant_told) /* told again, its answer may be here already */
			pace_grant_sent(r->pace, &message->pace, granted, now_ns);
		r->expected_bytes += granted - message->grant_told;
		message->grant_told = granted;
		message->tell_again = false;
	}
	return true;
}

static bool tell_done(struct tcp_connection *connection, struct tcp_stream *primary)
{
	struct tcp_receiver *r = &connection->r;

	for (; r->done_untold; r->done_untold &= r->done_untold - 1) {
		const struct tcp_message *message = &r->messages[__builtin_ctz(r->done_untold)];
		struct tcp_frame frame = { .type = TCP_FRAME_DONE, .message = (uint32_t)message->sequence };

		if (!tell(connection, primary, frame))
			return false;
	}
	r->done_bytes = 0;
	return true;
}

static bool tell_window(struct tcp_connection *connection, struct tcp_stream *primary)
{
	struct tcp_receiver *r = &connection->r;
	uint64_t words[TCP_WINDOW_HALVES];

	if (!tcp_window_is_news(&r->window) && !r->window_again &&
	    !(tcp_window_has_changed(&r->window) && (r->window_due || tcp_stream_has_unsent(primary))))
		return true;
	tcp_window_report(&r->window, r->next_sequence, words);
	for (unsigned half = 0; half < TCP_WINDOW_HALVES; half++) {
		struct tcp_frame frame = { .type = (uint8_t)(TCP_FRAME_WINDOW_LOW + half),
					   .message = (uint32_t)r->next_sequence,
					   .value = words[half] };

		if (!tell(connection, primary, frame))
			return false;
		tcp_window_reported(&r->window, half, r->next_sequence, words[half]);
	}
	r->window.arrived_units = r->window.freed_units = 0;
	r->window_again = r->window_due = false;
	return true;
}

static bool tell_positions(struct tcp_connection *connection, struct tcp_stream *primary)
{
	/* If one stream is active, every frame acknowledges it, so it needs no ACK of its own. */
	for (unsigned i = connection->active_count == 1; connection->several && i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];
		struct tcp_frame frame = { .type = TCP_FRAME_ACK,
					   .stream = stream->index,
					   .epoch = (uint16_t)stream->epoch,
					   .position = stream->rx_position };

		if (!stream->live ||
		    stream->rx_position - stream->rx_told < (stream->rx_left ? ACK_BYTES : ACK_FRAME_BYTES))
			continue;
		if (!tcp_stream_has_room(primary))
			return false;
		stream->rx_told = stream->rx_position;
		tcp_stream_queue(primary, &frame, NULL);
	}
	return true;
}

void tcp_receiver_flush(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_stream *primary = tcp_connection_primary(connection);
	bool all, later;

	if (!primary)
		return;
	pace_poll(r->pace, now_ns);
	all = tell_unscheduled(connection, primary) && tell_port(connection, primary, now_ns) &&
	      tell_grants(connection, primary, now_ns);
	later = r->done_bytes && !r->control_pending && !tcp_stream_has_unsent(primary);
	all = all && (later || tell_done(connection, primary)) && tell_window(connection, primary) &&
	      tell_positions(connection, primary);
	r->control_pending = !all;
	tcp_stream_flush(primary, false, now_ns);
}

void tcp_receiver_tell_last(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_stream *primary = tcp_connection_primary(connection);

	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS; i++)
		if (r->messages[i].state == TCP_MESSAGE_DONE)
			r->done_untold |= 1U << i;
	if (primary && tell_done(connection, primary))
		tcp_stream_flush(primary, false, now_ns);
}

void tcp_receiver_retell(struct tcp_connection *connection)
{
	struct tcp_receiver *r = &connection->r;

	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS; i++) {
		r->messages[i].tell_again = r->messages[i].grant_told >
					    0; /* the bytes stay expected: only the words are lost */
		if (r->messages[i].state == TCP_MESSAGE_DONE)
			r->done_untold |= 1U << i;
	}
	for (unsigned i = 0; i < connection->stream_count; i++)
		connection->streams[i].rx_told = 0;
	r->unscheduled_told = UINT64_MAX;
	r->port_again = r->port_told.competes;
	r->window_again = r->control_pending = true;
}

bool tcp_receiver_expects_data(const struct tcp_connection *connection)
{
	const struct tcp_receiver *r = &connection->r;

	return r->expected_bytes || (r->long_messages && r->posted_open);
}

bool tcp_receiver_may_rest(const struct tcp_connection *connection)
{
	return connection->active_count == 1 && !connection->watch.on && pace_has_one_sender(connection->r.pace);
}

bool tcp_receiver_waits_for_grant(struct tcp_connection *connection)
{
	const struct tcp_receiver *r = &connection->r;

	for (uint32_t left = r->coming; left; left &= left - 1) {
		const struct tcp_message *message = &r->messages[__builtin_ctz(left)];

		if (message->grant_told < message->size)
			return true;
	}
	return false;
}

bool tcp_receiver_has_to_tell(const struct tcp_connection *connection)
{
	const struct tcp_receiver *r = &connection->r;
	const struct tcp_wire_port port = port_of(connection);

	return r->control_pending || r->window_due || r->coming || connection->active_count > 1 ||
	       unscheduled_most(connection) != r->unscheduled_told || port_is_news(r, &port);
}
