/*
 * The receiving role. Messages are matched to posted receives by tag, in the order of sending. An eager message that
 * nobody waits for is kept in a window of fixed size, so that the stream behind it never stands still; an announced one
 * waits at the sender. What the sender is told of all this is in tell.c.
 */
#include "base/clock.h"
#include "base/copy.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <string.h>

int tcp_receiver_init(struct tcp_connection *connection)
{
	struct tcp_receiver *r = &connection->r;

	r->window_bytes = TCP_EAGER_WINDOW;
	r->window = sys_zalloc(TCP_EAGER_WINDOW);
	r->messages = sys_zalloc(TCP_MESSAGES * sizeof(*r->messages));
	return r->window && r->messages ? 0 : -ENOMEM;
}

void tcp_receiver_fini(struct tcp_connection *connection)
{
	struct tcp_receiver *r = &connection->r;

	for (unsigned i = 0; r->messages && r->pace && i < TCP_MESSAGES; i++)
		if (r->messages[i].state == TCP_MESSAGE_COMES && !r->messages[i].eager)
			pace_remove(r->pace, &r->messages[i].pace);
	sys_free(r->messages);
	sys_free(r->window);
	r->messages = NULL;
	r->window = NULL;
}

static void request_finish(struct tcp_connection *connection, struct tcp_request *request)
{
	transport_open_remove(&connection->open, &request->open);
	request->done = true;
	connection->reported = false;
}

static void slot_finish(struct tcp_connection *connection, struct tcp_message *message)
{
	struct tcp_request *request = message->request;
	struct tcp_receive_slot *slot = &request->slots[message->slot];

	slot->received = message->size;
	slot->done = true;
	message->request = NULL;
	if (--request->open_count == 0)
		request_finish(connection, request);
}

/* How far the eager window is free: up to the oldest message that still needs its place. */
static void window_walk(struct tcp_receiver *r)
{
	while (r->eager_walk != r->next_sequence) {
		struct tcp_message *message = tcp_message_of(r, r->eager_walk);

		if (message->sequence == r->eager_walk && message->eager) {
			if (message->state != TCP_MESSAGE_FREE)
				return;
			r->window_free = message->eager_end;
		}
		r->eager_walk++;
	}
}

static void floor_walk(struct tcp_receiver *r)
{
	while (r->floor_sequence != r->next_sequence) {
		struct tcp_message *message = tcp_message_of(r, r->floor_sequence);

		if (!message->eager && message->sequence == r->floor_sequence) {
			if (message->state != TCP_MESSAGE_DONE)
				return;
			message->state = TCP_MESSAGE_FREE;
		}
		r->floor_sequence++;
	}
}

static void eager_complete(struct tcp_connection *connection, struct tcp_message *message)
{
	slot_finish(connection, message);
	message->state = TCP_MESSAGE_FREE;
	window_walk(&connection->r);
	connection->r.control_pending |= tcp_receiver_window_is_news(&connection->r);
}

static void announced_complete(struct tcp_connection *connection, struct tcp_message *message)
{
	struct tcp_receiver *r = &connection->r;

	pace_remove(r->pace, &message->pace);
	slot_finish(connection, message);
	message->state = TCP_MESSAGE_DONE;
	message->done_told = false;
	r->open_messages--;
	r->untold_done++;
	r->control_pending = true;
	floor_walk(r);
	window_walk(r);
}

static int truncated(struct tcp_connection *connection, const struct tcp_message *message, size_t room, uint64_t now_ns)
{
	struct tcp_frame frame = { .type = TCP_FRAME_TRUNCATED, .message = message->sequence, .value = room };
	struct tcp_stream *lead = tcp_failover_lead(connection);

	if (lead && tcp_stream_has_room(lead)) {
		frame.epoch = (uint16_t)lead->epoch;
		frame.stream = lead->index;
		frame.position = lead->rx_position;
		tcp_stream_queue(lead, &frame, NULL);
		tcp_stream_flush(lead, false, now_ns);
	}
	tcp_connection_fail(connection, -EMSGSIZE, "a message was longer than the receive that it matched");
	return -EMSGSIZE;
}

/*
 * The kernel's own tuning of the receive buffer lifts the bound now and then, so it is set again whenever a window of
 * bytes has come.
 */
static void bound_flight(struct tcp_connection *connection)
{
	uint64_t bytes = pace_flight(connection->r.pace, connection->r.spread) / connection->active_count;

	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (!stream->live || (bytes == stream->flight_bytes &&
				      (!bytes || stream->rx_position - stream->flight_position < bytes)))
			continue;
		stream->flight_bytes = bytes;
		/* Where the reads have brought it to stays, or the kernel would acknowledge all that comes before the next. */
		if (stream->flight_told > bytes || stream->flight_told < bytes - bytes / 4)
			stream->flight_told = bytes;
		tcp_socket_window(stream->fd, stream->flight_told);
		stream->flight_position = stream->rx_position;
	}
}

/* Gives the message its receive. The caller has found that the tags agree. */
static int match(struct tcp_connection *connection, struct tcp_message *message, struct tcp_request *request,
		 unsigned index, uint64_t now_ns)
{
	struct tcp_receive_slot *slot = &request->slots[index];

	if (message->size > slot->bytes)
		return truncated(connection, message, slot->bytes, now_ns);
	if (slot->asked)
		connection->r.asked_open--;
	slot->matched = true;
	message->request = request;
	message->slot = index;
	message->state = TCP_MESSAGE_COMES;
	if (message->eager)
		return 0;
	memset(&message->pace, 0, sizeof(message->pace));
	connection->r.sender.host = connection->peer_id;
	connection->r.sender.spread = connection->r.spread;
	message->pace.sender = &connection->r.sender;
	message->grant_told = 0;
	message->tell_again = false;
	pace_add(connection->r.pace, &message->pace, message->size, now_ns);
	bound_flight(connection);
	connection->r.control_pending = true;
	return 0;
}

/* The oldest posted receive with this tag; *ret_request NULL when there is none. */
static void find_slot(struct tcp_connection *connection, int tag, struct tcp_request **ret_request, unsigned *ret_index)
{
	for (struct tcp_request *request = tcp_request_first(connection); request; request = tcp_request_next(request))
		for (unsigned i = 0; i < request->count; i++)
			if (!request->slots[i].matched && request->slots[i].tag == tag) {
				*ret_request = request;
				*ret_index = i;
				return;
			}
	*ret_request = NULL;
	*ret_index = 0;
}

/* An eager message that is whole and lies in the window goes to its receive. */
static int take_kept(struct tcp_connection *connection, struct tcp_message *message, struct tcp_request *request,
		     unsigned index, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	int error = match(connection, message, request, index, now_ns);

	if (error < 0)
		return error;
	copy_bytes(request->slots[index].data, r->window + message->eager_begin % r->window_bytes,
		   (size_t)message->size);
	eager_complete(connection, message);
	return 0;
}

static int match_kept(struct tcp_connection *connection, struct tcp_message *message, uint64_t now_ns)
{
	struct tcp_request *request;
	unsigned index;

	find_slot(connection, message->tag, &request, &index);
	return request ? take_kept(connection, message, request, index, now_ns) : 0;
}

/* The oldest message that waits for a receive with this tag. */
static struct tcp_message *find_waiting(struct tcp_receiver *r, int tag)
{
	bool first = true;

	for (uint32_t sequence = r->waiting_from; sequence != r->next_sequence; sequence++) {
		struct tcp_message *message = tcp_message_of(r, sequence);

		if (message->sequence != sequence || message->state != TCP_MESSAGE_WAITS) {
			if (first)
				r->waiting_from = sequence + 1;
			continue;
		}
		first = false;
		if (message->tag == tag)
			return message;
	}
	return NULL;
}

static void note_posted(struct tcp_connection *connection, int count, int tag, size_t bytes)
{
	struct tcp_receiver *r = &connection->r;

	r->posts_differ |= count != 1 || (r->posted_sequence && tag != r->posted_tag);
	r->posted_tag = tag;
	r->posted_sequence++;
	if (bytes <= connection->transport->params->eager_bytes)
		r->long_messages = false; /* this one will not be announced */
}

int tcp_receiver_receive(struct tcp_connection *connection, int count, void *const *data, const size_t *bytes,
			 const int *tags, uint64_t now_ns, struct tcp_request **ret)
{
	struct tcp_request *request = tcp_request_get(connection, TCP_REQUEST_RECEIVE, now_ns);

	*ret = NULL;
	if (!request)
		return 0;
	request->count = request->open_count = (unsigned)count;
	note_posted(connection, count, tags[0], bytes[0]);
	for (int i = 0; i < count; i++)
		request->slots[i] = (struct tcp_receive_slot){ .data = data[i], .bytes = bytes[i], .tag = tags[i] };
	transport_open_append(&connection->open, &request->open);
	for (unsigned i = 0; i < request->count && !request->done; i++) {
		struct tcp_message *message = find_waiting(&connection->r, request->slots[i].tag);
		int r;

		if (!message)
			continue;
		r = message->eager ? take_kept(connection, message, request, i, now_ns)
				   : match(connection, message, request, i, now_ns);
		if (r < 0)
			return r;
	}
	if (connection->r.ask_ahead && count == 1 && !request->slots[0].matched && connection->active_count == 1)
		connection->r.asks_due = connection->r.control_pending = true;
	*ret = request;
	return 0;
}

/* A message's first frame. The sender keeps within the span and the window; one that does not is no sender of ours. */
static struct tcp_message *message_begin(struct tcp_connection *connection, const struct tcp_frame *frame)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_message *message = tcp_message_of(r, frame->message);

	floor_walk(r);
	window_walk(r);
	if (frame->message != r->next_sequence || message->state != TCP_MESSAGE_FREE ||
	    r->next_sequence - r->eager_walk >= TCP_MESSAGES || r->next_sequence - r->floor_sequence >= TCP_MESSAGES)
		return NULL;
	message->sequence = frame->message;
	message->tag = frame->tag;
	message->received = message->accepted = 0;
	message->request = NULL;
	message->state = TCP_MESSAGE_WAITS;
	return message;
}

static int eager_arrived(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_frame *frame,
			 uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_message *message;
	struct tcp_request *request;
	unsigned index;
	uint64_t used = tcp_wire_eager_place_bytes(frame->payload_bytes);
	int error;

	if (frame->payload_bytes > r->window_bytes || frame->value % r->window_bytes + used > r->window_bytes ||
	    frame->value < r->window_free || frame->value + used - r->window_free > r->window_bytes)
		return -EPROTO;
	message = message_begin(connection, frame);
	if (!message)
		return -EPROTO;
	message->eager = true;
	r->long_messages = false;
	message->size = frame->payload_bytes;
	message->eager_begin = frame->value;
	message->eager_end = r->window_end = frame->value + used;
	r->control_pending |= tcp_receiver_window_is_news(r);
	find_slot(connection, frame->tag, &request, &index);
	if (request) {
		error = match(connection, message, request, index, now_ns);
		if (error < 0)
			return error;
	}
	stream->rx_frame = *frame;
	stream->rx_left = frame->payload_bytes;
	stream->rx_target = request ? request->slots[index].data : r->window + frame->value % r->window_bytes;
	return frame->payload_bytes ? 0 : tcp_receiver_payload(connection, stream, 0, now_ns);
}

static int announce_arrived(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns)
{
	struct tcp_message *message;
	struct tcp_request *request;
	unsigned index;
	int error;

	if (!frame->value || frame->value > TRANSPORT_MAX_MESSAGE_BYTES)
		return -EPROTO;
	message = message_begin(connection, frame);
	if (!message)
		return -EPROTO;
	connection->r.next_sequence++;
	connection->r.open_messages++;
	message->eager = false;
	message->size = frame->value;
	message->grant_told = 0;
	message->done_told = false;
	connection->r.long_messages = true;
	find_slot(connection, frame->tag, &request, &index);
	if (!request)
		return 0;
	error = match(connection, message, request, index, now_ns);
	if (error < 0 || (int32_t)(message->sequence - connection->r.ready_told) >= 0)
		return error;
	message->grant_told = message->size; /* promised: its data is on the way behind this frame */
	connection->r.expected_bytes += message->size;
	return 0;
}

/*
 * Its data is behind this frame. The sender knows of a receive with that tag; with several it may meet an older one, of
 * which nothing was said.
 */
static int comes_arrived(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_message *message;
	int error = announce_arrived(connection, frame, now_ns);

	if (error < 0)
		return error;
	message = tcp_message_of(r, frame->message);
	if (message->state != TCP_MESSAGE_COMES)
		return -EPROTO;
	r->expected_bytes += message->size - message->grant_told;
	message->grant_told = message->size;
	return 0;
}

static int data_arrived(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_frame *frame)
{
	struct tcp_message *message = tcp_message_of(&connection->r, frame->message);

	if (message->sequence != frame->message || message->state != TCP_MESSAGE_COMES || message->eager ||
	    frame->value >= message->grant_told || frame->payload_bytes > message->grant_told - frame->value ||
	    frame->payload_bytes > message->size - message->accepted)
		return -EPROTO;
	message->accepted += frame->payload_bytes;
	stream->rx_position += TCP_WIRE_FRAME_BYTES;
	stream->rx_frame = *frame;
	stream->rx_left = frame->payload_bytes;
	stream->rx_target = message->request->slots[message->slot].data + frame->value;
	return 0;
}

int tcp_receiver_payload(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t bytes, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_message *message = tcp_message_of(r, stream->rx_frame.message);

	if (message->eager) {
		if (stream->rx_left)
			return 0;
		stream->rx_position += TCP_WIRE_FRAME_BYTES + stream->rx_frame.payload_bytes;
		r->next_sequence++;
		if (message->state == TCP_MESSAGE_COMES)
			eager_complete(connection, message);
		else
			return match_kept(connection, message, now_ns); /* a receive may have come while it did */
		return 0;
	}
	stream->rx_position += bytes;
	message->received += bytes;
	r->expected_bytes -= bytes;
	pace_delivered(r->pace, &message->pace, bytes, now_ns);
	bound_flight(connection);
	if (message->received == message->size)
		announced_complete(connection, message);
	return 0;
}

void tcp_receiver_forget_partial(struct tcp_connection *connection, struct tcp_stream *stream)
{
	struct tcp_message *message = tcp_message_of(&connection->r, stream->rx_frame.message);

	if (stream->rx_left && stream->rx_frame.type == TCP_FRAME_DATA)
		message->accepted -= stream->rx_left; /* these come again */
	if (!stream->rx_left || stream->rx_frame.type != TCP_FRAME_EAGER)
		return;
	if (message->request) {
		message->request->slots[message->slot].matched = false;
		connection->r.asked_open += message->request->slots[message->slot].asked;
	}
	message->request = NULL;
	message->state = TCP_MESSAGE_FREE;
	stream->rx_left = 0;
}

int tcp_receiver_frame(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_frame *frame,
		       uint64_t now_ns)
{
	if (frame->type == TCP_FRAME_EAGER)
		return eager_arrived(connection, stream, frame, now_ns);
	if (frame->type == TCP_FRAME_DATA)
		return data_arrived(connection, stream, frame);
	stream->rx_position += TCP_WIRE_FRAME_BYTES;
	switch (frame->type) {
	case TCP_FRAME_ANNOUNCE:
		return announce_arrived(connection, frame, now_ns);
	case TCP_FRAME_COMES:
		return comes_arrived(connection, frame, now_ns);
	case TCP_FRAME_SUSPECT:
		tcp_failover_suspect(connection, frame, now_ns);
		return 0;
	case TCP_FRAME_HEARTBEAT:
		return 0;
	case TCP_FRAME_BYE: /* the last frame of an orderly end: nothing that is not here is still to come */
		connection->peer_closed = true;
		tcp_connection_fail(connection, -EREMOTEIO, "the sender closed it");
		return 0;
	default:
		return -EPROTO;
	}
}
