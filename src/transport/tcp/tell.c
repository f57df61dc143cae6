/*
 * What a receiver tells the sender: grants, receives that are posted, what is done. It is state, not events: a flush says
 * what is new in it, and after the loss of a stream everything is said again, but for receives that are posted: a sender
 * that does not know of them is granted its messages.
 */
#include "transport/tcp/tcp.h"

#include <string.h>

enum {
	ACK_BYTES = 64 << 10, /* several streams: the sender balances them by what is acknowledged */
};

/* How many messages the sender may send without asking, beyond those it has announced: told before they run out. */
static bool should_promise(const struct tcp_connection *connection)
{
	const struct tcp_receiver *r = &connection->r;
	int32_t left = (int32_t)(r->ready_told - r->next_sequence);
	int32_t posted = (int32_t)(r->posted_sequence - r->next_sequence);

	if (r->ready_again)
		return true;
	if (connection->active_count > 1 || r->posts_differ || !r->long_messages || !pace_may_promise(r->pace))
		return false;
	return posted > 0 && (left <= 0 || 2 * left <= posted);
}

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

static bool tell(struct tcp_connection *connection, struct tcp_stream *lead, struct tcp_frame frame)
{
	if (!tcp_stream_has_room(lead))
		return false;
	acknowledge_in(connection, &frame);
	tcp_stream_queue(lead, &frame, NULL);
	return true;
}

/* True when the sender knows of every receive that nothing has matched. */
static bool tell_asks(struct tcp_connection *connection, struct tcp_stream *lead)
{
	struct tcp_receiver *r = &connection->r;

	for (struct tcp_request *request = tcp_request_first(connection); r->asks_due && request;
	     request = tcp_request_next(request)) {
		struct tcp_receive_slot *slot = &request->slots[0];
		struct tcp_frame frame = { .type = TCP_FRAME_ASK,
					   .message = r->next_sequence,
					   .value = tcp_wire_put_ask(slot->tag, slot->bytes) };

		if (request->count > 1 || slot->matched || slot->asked)
			continue;
		if (!tell(connection, lead, frame))
			return false;
		slot->asked = true;
		r->asked_open++;
	}
	r->asks_due = false;
	return true;
}

/* True when all there was to say about messages is said. */
static bool tell_messages(struct tcp_connection *connection, struct tcp_stream *lead, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;

	for (uint32_t sequence = r->floor_sequence; sequence != r->next_sequence; sequence++) {
		struct tcp_message *message = tcp_message_of(r, sequence);
		struct tcp_frame frame = { .message = sequence };

		if (message->sequence != sequence || message->eager)
			continue;
		if (message->state == TCP_MESSAGE_COMES &&
		    (message->grant_told < message->size || message->tell_again)) {
			uint64_t granted = pace_granted(&message->pace);

			if (granted <= message->grant_told && !message->tell_again)
				continue;
			if (granted < message->grant_told) /* it was promised, or asked for, whole */
				granted = message->grant_told;
			frame.type = TCP_FRAME_GRANT;
			frame.value = granted;
			if (!tell(connection, lead, frame))
				return false;
			if (granted > message->grant_told) /* told again, its answer may be here already */
				pace_grant_sent(r->pace, &message->pace, granted, now_ns);
			r->expected_bytes += granted - message->grant_told;
			message->grant_told = granted;
			message->tell_again = false;
		} else if (message->state == TCP_MESSAGE_DONE && !message->done_told) {
			frame.type = TCP_FRAME_DONE;
			frame.value = r->floor_sequence;
			if (!tell(connection, lead, frame))
				return false;
			message->done_told = true;
			r->floor_told = r->floor_sequence;
		}
	}
	return true;
}

/* A promise covers the messages that were announced before it, too. */
static void grant_what_comes(struct tcp_receiver *r)
{
	for (uint32_t sequence = r->floor_sequence; sequence != r->next_sequence; sequence++) {
		struct tcp_message *message = tcp_message_of(r, sequence);

		if (message->sequence != sequence || message->eager || message->state != TCP_MESSAGE_COMES ||
		    (int32_t)(sequence - r->ready_told) >= 0)
			continue;
		r->expected_bytes += message->size - message->grant_told;
		message->grant_told = message->size;
	}
}

static bool tell_positions(struct tcp_connection *connection, struct tcp_stream *lead)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_frame frame = { .type = TCP_FRAME_ACK };
	uint64_t freed = r->window_free - r->window_told;

	if (tcp_receiver_window_is_news(r) || (freed && (r->window_due || tcp_stream_has_unsent(lead)))) {
		frame.type = TCP_FRAME_EAGER_DONE;
		frame.value = r->window_free;
		if (!tell(connection, lead, frame))
			return false;
		r->window_told = r->window_free;
	}
	r->window_due = false;
	if (should_promise(connection)) {
		struct tcp_frame ready = { .type = TCP_FRAME_READY,
					   .message = r->posted_sequence,
					   .value = (uint32_t)r->posted_tag };

		if (r->ready_again && (r->posts_differ || !pace_may_promise(r->pace)))
			ready.message = r->ready_told; /* no more than what it knew */
		if (!tell(connection, lead, ready))
			return false;
		r->ready_told = ready.message;
		r->ready_again = false;
		grant_what_comes(r);
	}
	frame.type = TCP_FRAME_ACK;
	frame.value = 0;
	for (unsigned i = 0; connection->active_count > 1 && i < connection->stream_count; i++) {
		const struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && stream->rx_position - stream->rx_told >= ACK_BYTES &&
		    !tell(connection, lead, frame))
			return false;
	}
	return true;
}

void tcp_receiver_flush(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_stream *lead = tcp_failover_lead(connection);
	bool all;
	int error;

	if (!lead)
		return;
	pace_poll(r->pace, now_ns);
	all = tell_messages(connection, lead, now_ns);
	if (all && r->floor_told != r->floor_sequence) {
		struct tcp_frame frame = { .type = TCP_FRAME_DONE,
					   .message = r->floor_sequence - 1,
					   .value = r->floor_sequence };

		all = tell(connection, lead, frame);
		if (all)
			r->floor_told = r->floor_sequence;
	}
	if (all)
		all = tell_asks(connection, lead) && tell_positions(connection, lead);
	r->control_pending = !all;
	if (all)
		r->untold_done = 0;
	error = tcp_stream_flush(lead, false, now_ns);
	if (error < 0)
		tcp_failover_lost(connection, lead, strerror(-error), now_ns);
}

void tcp_receiver_retell(struct tcp_connection *connection)
{
	struct tcp_receiver *r = &connection->r;

	for (uint32_t sequence = r->floor_sequence; sequence != r->next_sequence; sequence++) {
		struct tcp_message *message = tcp_message_of(r, sequence);

		if (message->sequence != sequence || message->eager)
			continue;
		message->tell_again = message->grant_told > 0; /* the bytes stay expected: only the words are lost */
		message->done_told = false;
	}
	r->floor_told = r->floor_sequence - 1;
	r->window_told = 0;
	r->ready_again = r->ready_told != 0;
	r->control_pending = true;
	for (unsigned i = 0; i < connection->stream_count; i++)
		if (!connection->streams[i].live)
			tcp_failover_send_dead(connection, &connection->streams[i]);
}

bool tcp_receiver_expects_data(const struct tcp_connection *connection)
{
	const struct tcp_receiver *r = &connection->r;

	return r->expected_bytes || r->asked_open || (int32_t)(r->ready_told - r->next_sequence) > 0;
}

bool tcp_receiver_may_rest(const struct tcp_connection *connection)
{
	return connection->active_count == 1 && !connection->driven && pace_may_promise(connection->r.pace);
}

bool tcp_receiver_waits_for_grant(struct tcp_connection *connection)
{
	struct tcp_receiver *r = &connection->r;

	for (uint32_t sequence = r->floor_sequence; r->open_messages && sequence != r->next_sequence; sequence++) {
		const struct tcp_message *message = tcp_message_of(r, sequence);

		if (message->sequence == sequence && !message->eager && message->state == TCP_MESSAGE_COMES &&
		    message->grant_told < message->size)
			return true;
	}
	return false;
}

bool tcp_receiver_has_to_tell(const struct tcp_connection *connection)
{
	const struct tcp_receiver *r = &connection->r;

	return r->control_pending || r->window_due || r->open_messages || connection->active_count > 1 ||
	       should_promise(connection);
}
