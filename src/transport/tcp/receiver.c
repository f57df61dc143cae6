/*
 * The receiving role. Messages are matched to posted receives by tag, in the order of sending. An eager message that
 * nobody waits for is kept in a window of fixed size, so that the stream behind it never stands still; an announced one
 * waits at the sender. What the sender must be told is state, not events: a flush says what is new in it, and after the
 * loss of a stream everything is said again.
 */
#include "base/clock.h"
#include "base/copy.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <string.h>

enum {
	ACK_BYTES = 64 << 10, /* several streams: the sender balances them by what is acknowledged */
};

int tcp_receiver_init(struct tcp_connection *connection)
{
	struct tcp_receiver *r = &connection->r;

	r->window_bytes = TCP_EAGER_WINDOW;
	r->window = sys_zalloc(TCP_EAGER_WINDOW);
	r->messages = sys_zalloc(TCP_MESSAGES * sizeof(*r->messages));
	return r->window && r->messages ? 0 : -ENOMEM;
}

static struct tcp_message *message_of(struct tcp_receiver *r, uint32_t sequence)
{
	return &r->messages[sequence % TCP_MESSAGES];
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
		struct tcp_message *message = message_of(r, r->eager_walk);

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
		struct tcp_message *message = message_of(r, r->floor_sequence);

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
	if (connection->r.window_free - connection->r.window_told >= connection->r.window_bytes / 4)
		connection->r.control_pending = true;
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
		struct tcp_message *message = message_of(r, sequence);

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
	*ret = request;
	return 0;
}

/* A message's first frame. The sender keeps within the span and the window; one that does not is no sender of ours. */
static struct tcp_message *message_begin(struct tcp_connection *connection, const struct tcp_frame *frame)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_message *message = message_of(r, frame->message);

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
	message->eager_end = frame->value + used;
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

static int data_arrived(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_frame *frame)
{
	struct tcp_message *message = message_of(&connection->r, frame->message);

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
	struct tcp_message *message = message_of(r, stream->rx_frame.message);

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
	struct tcp_message *message = message_of(&connection->r, stream->rx_frame.message);

	if (stream->rx_left && stream->rx_frame.type == TCP_FRAME_DATA)
		message->accepted -= stream->rx_left; /* these come again */
	if (!stream->rx_left || stream->rx_frame.type != TCP_FRAME_EAGER)
		return;
	if (message->request)
		message->request->slots[message->slot].matched = false;
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

/* True when all there was to say about messages is said. */
static bool tell_messages(struct tcp_connection *connection, struct tcp_stream *lead, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;

	for (uint32_t sequence = r->floor_sequence; sequence != r->next_sequence; sequence++) {
		struct tcp_message *message = message_of(r, sequence);
		struct tcp_frame frame = { .message = sequence };

		if (message->sequence != sequence || message->eager)
			continue;
		if (message->state == TCP_MESSAGE_COMES &&
		    (message->grant_told < message->size || message->tell_again)) {
			uint64_t granted = pace_granted(&message->pace);

			if (granted <= message->grant_told && !message->tell_again)
				continue;
			frame.type = TCP_FRAME_GRANT;
			frame.value = granted;
			if (!tell(connection, lead, frame))
				return false;
			r->expected_bytes += granted - message->grant_told;
			message->grant_told = granted;
			message->tell_again = false;
			pace_grant_sent(r->pace, &message->pace, granted, now_ns);
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
		struct tcp_message *message = message_of(r, sequence);

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

	if (freed >= r->window_bytes / 4 || (freed && (r->window_due || tcp_stream_has_unsent(lead)))) {
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
		all = tell_positions(connection, lead);
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
		struct tcp_message *message = message_of(r, sequence);

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

	return r->expected_bytes || (int32_t)(r->ready_told - r->next_sequence) > 0;
}

bool tcp_receiver_may_rest(const struct tcp_connection *connection)
{
	return connection->active_count == 1 && !connection->driven && pace_may_promise(connection->r.pace);
}

bool tcp_receiver_waits_for_grant(struct tcp_connection *connection)
{
	struct tcp_receiver *r = &connection->r;

	for (uint32_t sequence = r->floor_sequence; r->open_messages && sequence != r->next_sequence; sequence++) {
		const struct tcp_message *message = message_of(r, sequence);

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
