/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving role. Messages are matched to posted receives by tag, in the order of sending. One that no receive
 * matches joins the unexpected queue: an eager message lies in the window, of a longer one the unscheduled bytes do and the
 * rest waits at the sender, so the stream behind it never stands still and no other tag waits for it. What the sender is
 * told of all this is in feedback.c.
 */
#include "base/clock.h"
#include "base/copy.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <string.h>

enum { RTS_AHEAD_MAX = TRANSPORT_MAX_REQUESTS + TCP_WIRE_EAGER_MESSAGES }; /* numbers, of several streams */

static void unexpected_append(struct tcp_receiver *r, struct tcp_message *message)
{
	message->state = TCP_MESSAGE_WAITS;
	TAILQ_INSERT_TAIL(&r->unexpected, message, link);
}

int tcp_receiver_init(struct tcp_connection *connection)
{
	struct tcp_receiver *r = &connection->r;

	r->next_sequence = TCP_WIRE_FIRST_SEQUENCE;
	r->unscheduled_told = UINT64_MAX;
	TAILQ_INIT(&r->unexpected);
	r->messages = sys_zalloc(TRANSPORT_MAX_REQUESTS * sizeof(*r->messages));
	r->eager = sys_zalloc(TCP_WIRE_EAGER_MESSAGES * sizeof(*r->eager));
	r->unscheduled = sys_map_pages(TCP_UNSCHEDULED_WINDOW);
	return r->messages && r->eager && r->unscheduled ? tcp_window_init(&r->window) : -ENOMEM;
}

void tcp_receiver_fini(struct tcp_connection *connection)
{
	struct tcp_receiver *r = &connection->r;

	if (r->pace)
		tcp_receiver_failed(connection);
	if (r->sender.host)
		pace_leave(r->pace, &r->sender);
	sys_free(r->messages);
	sys_free(r->eager);
	sys_unmap_pages(r->unscheduled, TCP_UNSCHEDULED_WINDOW);
	r->unscheduled = NULL;
	tcp_window_fini(&r->window);
	r->messages = r->eager = NULL;
}

static void request_finish(struct tcp_connection *connection, struct tcp_request *request)
{
	TAILQ_REMOVE(&connection->open, request, link);
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

static unsigned index_of(const struct tcp_receiver *r, const struct tcp_message *message)
{
	return (unsigned)(message - r->eager);
}

static void eager_complete(struct tcp_connection *connection, struct tcp_message *message)
{
	struct tcp_receiver *r = &connection->r;

	slot_finish(connection, message);
	message->state = TCP_MESSAGE_FREE;
	tcp_window_release(&r->window, index_of(r, message));
	r->control_pending |= tcp_window_is_news(&r->window);
}

/* The oldest posted receive with this tag; *ret_request NULL when there is none. */
static void find_slot(const struct tcp_connection *connection, int tag, struct tcp_request **ret_request,
		      unsigned *ret_index)
{
	for (struct tcp_request *request = TAILQ_FIRST(&connection->open); request; request = TAILQ_NEXT(request, link))
		for (unsigned i = 0; i < request->count; i++)
			if (!request->slots[i].matched && request->slots[i].tag == tag) {
				*ret_request = request;
				*ret_index = i;
				return;
			}
	*ret_request = NULL;
	*ret_index = 0;
}

/*
 * While the caller looks for another of its tag, the word that a short message is through can go with another, or once a look
 * finds nothing: the system call is not on the message's way then. The sender may have as much more on its way meanwhile.
 */
static bool may_wait(const struct tcp_connection *connection, const struct tcp_message *message)
{
	const struct tcp_receiver *r = &connection->r;
	struct tcp_request *next;
	unsigned index;

	/* done_bytes would not show an empty one. */
	if (!message->size || message->unscheduled < message->size || connection->watch.on ||
	    r->unscheduled_told == UINT64_MAX || 2 * (r->done_bytes + message->size) > r->unscheduled_told)
		return false;
	find_slot(connection, message->tag, &next, &index);
	return next != NULL;
}

static void rts_complete(struct tcp_connection *connection, struct tcp_message *message)
{
	struct tcp_receiver *r = &connection->r;
	const uint32_t bit = 1U << (message - r->messages);

	pace_remove(r->pace, &message->pace);
	slot_finish(connection, message);
	message->state = TCP_MESSAGE_DONE;
	r->open_messages--;
	r->coming &= ~bit;
	r->done_untold |= bit;
	if (may_wait(connection, message))
		r->done_bytes += message->size;
	else
		r->control_pending = true;
}

static int truncated(struct tcp_connection *connection, const struct tcp_message *message, size_t room, uint64_t now_ns)
{
	struct tcp_frame frame = { .type = TCP_FRAME_TRUNCATED, .message = (uint32_t)message->sequence, .value = room };
	struct tcp_stream *primary = tcp_connection_primary(connection);

	if (primary && tcp_stream_has_room(primary)) {
		frame.epoch = (uint16_t)primary->epoch;
		frame.stream = primary->index;
		frame.position = primary->rx_position;
		tcp_stream_queue(primary, &frame, NULL);
		tcp_stream_flush(primary, false, now_ns);
	}
	tcp_connection_fail(connection, -EMSGSIZE, "a message was longer than the receive that it matched");
	return -EMSGSIZE;
}

/* The sender is told how many streams that bound has room for. */
static void note_streams_most(struct tcp_connection *connection, uint64_t bytes)
{
	const struct tcp_stream *primary = tcp_connection_primary(connection);
	const uint64_t least = bytes && primary ? tcp_socket_window_least(primary->fd) : 0;

	connection->r.flight_bytes = bytes;
	connection->r.streams_most = least ? (uint8_t)max_u64(min_u64(bytes / least, TCP_STREAMS_RAIL_MAX), 1) : 0;
}

/*
 * The kernel's own tuning of the receive buffer lifts the bound now and then, so it is set again whenever a window of
 * bytes has come, and at the end of a message: the next one may come unscheduled.
 */
static void bound_flight(struct tcp_connection *connection, const struct tcp_message *message)
{
	const bool ends = message->received == message->size;
	const uint64_t all_bytes = pace_flight(connection->r.pace, &connection->r.sender);
	uint64_t bytes = all_bytes / tcp_data_streams(connection);

	if (all_bytes != connection->r.flight_bytes)
		note_streams_most(connection, all_bytes);
	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (!stream->live || !tcp_stream_is_wanted(connection, i) ||
		    (bytes == stream->flight_bytes &&
				      (!bytes || (!ends && stream->rx_position - stream->flight_position < bytes))))
			continue;
		if (bytes && (!stream->flight_bytes || bytes < stream->flight_bytes)) {
			uint64_t from = stream->rx_position + (stream->flight_bytes
								       ? stream->flight_bytes
								       : tcp_socket_window_offered(stream->fd));

			if (from > stream->flight_from) /* senders come one by one: the first bound has the largest */
				stream->flight_from = from;
		}
		stream->flight_bytes = bytes;
		stream->flight_lasts = pace_flight_lasts(connection->r.pace);
		/* Where the reads have brought it to stays, or the kernel would acknowledge all that comes before the next. */
		if (stream->flight_told > bytes || stream->flight_told < bytes - bytes / 4)
			stream->flight_told = bytes;
		stream->flight_kept = tcp_socket_window(stream->fd, stream->flight_told) <= bytes;
		stream->flight_position = stream->rx_position;
	}
}

static uint8_t *place_of(const struct tcp_receiver *r, const struct tcp_message *message)
{
	return r->unscheduled + (size_t)message->unit * TCP_WIRE_EAGER_UNIT;
}

/*
 * What has come of them goes to the receive, and so does the rest, also in a frame's midst: their place is free again. Of several
 * streams' any part may be missing, and comes to the receive later.
 */
static void move_unscheduled(struct tcp_connection *connection, struct tcp_message *message, uint8_t *data)
{
	if (message->received)
		copy_bytes(data, place_of(&connection->r, message),
			   connection->several ? message->unscheduled : (size_t)message->received);
	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && stream->rx_left && stream->rx_message == message)
			stream->rx_target = data + stream->rx_frame.value + stream->rx_frame.payload_bytes - stream->rx_left;
	}
}

static void rts_match(struct tcp_connection *connection, struct tcp_message *message, uint8_t *data, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;

	r->coming |= 1U << (message - r->messages);
	move_unscheduled(connection, message, data);
	if (message->size) {
		message->pace.sender = &r->sender;
		message->pace.unscheduled_bytes = message->unscheduled;
		message->pace.came_bytes = message->received;
		pace_add(r->pace, &message->pace, message->size, now_ns);
		bound_flight(connection, message);
	}
	r->control_pending |= message->unscheduled < message->size;
	if (message->received == message->size)
		rts_complete(connection, message);
}

/* Gives the message its receive. The caller has found that the tags agree. */
static int match(struct tcp_connection *connection, struct tcp_message *message, struct tcp_request *request,
		 unsigned index, uint64_t now_ns)
{
	struct tcp_receive_slot *slot = &request->slots[index];

	if (message->size > slot->bytes)
		return truncated(connection, message, slot->bytes, now_ns);
	connection->r.posted_open--;
	slot->matched = true;
	message->request = request;
	message->slot = index;
	message->state = TCP_MESSAGE_COMES;
	if (!message->eager)
		rts_match(connection, message, slot->data, now_ns);
	return 0;
}

/* An eager message that is whole and lies in the window goes to its receive. */
static int take_kept(struct tcp_connection *connection, struct tcp_message *message, struct tcp_request *request,
		     unsigned index, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	int error = match(connection, message, request, index, now_ns);

	if (error < 0)
		return error;
	copy_bytes(request->slots[index].data,
		   r->window.bytes + (size_t)r->window.entries[index_of(r, message)].first * TCP_WIRE_EAGER_UNIT,
		   (size_t)message->size);
	eager_complete(connection, message);
	return 0;
}

static struct tcp_message *find_unexpected(const struct tcp_receiver *r, int tag)
{
	struct tcp_message *message = TAILQ_FIRST(&r->unexpected);

	while (message && message->tag != tag)
		message = TAILQ_NEXT(message, link);
	return message;
}

int tcp_receiver_receive(struct tcp_connection *connection, int count, void *const *data, const size_t *bytes,
			 const int *tags, uint64_t now_ns, struct tcp_request **ret)
{
	struct tcp_request *request = tcp_request_get(connection, TCP_REQUEST_RECEIVE, now_ns);

	*ret = NULL;
	if (!request)
		return 0;
	request->count = request->open_count = (unsigned)count;
	connection->r.posted_open += (unsigned)count;
	if (bytes[0] <= connection->transport->params->eager_bytes && bytes[0] <= TCP_COPY_MOST)
		connection->r.long_messages = false; /* a message for it is eager */
	for (int i = 0; i < count; i++)
		request->slots[i] = (struct tcp_receive_slot){ .data = data[i], .bytes = bytes[i], .tag = tags[i] };
	TAILQ_INSERT_TAIL(&connection->open, request, link);
	for (unsigned i = 0; i < request->count && !request->done; i++) {
		struct tcp_message *message = find_unexpected(&connection->r, request->slots[i].tag);
		int r;

		/* After the connection's end the rest of a message cannot come, and those behind it must not pass it. */
		if (!message || (connection->error && !message->eager && message->received < message->size))
			continue;
		TAILQ_REMOVE(&connection->r.unexpected, message, link);
		r = message->eager ? take_kept(connection, message, request, i, now_ns)
				   : match(connection, message, request, i, now_ns);
		if (r < 0)
			return r;
	}
	/*
	 * Nobody tests it into being told, and the sender waits for FIN. Of eager messages there is no hurry: a sender that ends
	 * with a word unread would take its last bytes back.
	 */
	if (((request->done && connection->r.done_untold) || connection->watch.on) && !connection->error &&
	    tcp_receiver_has_to_tell(connection))
		tcp_receiver_flush(connection, now_ns);
	*ret = request;
	return 0;
}

static void message_begin(struct tcp_message *message, const struct tcp_frame *frame, uint64_t sequence)
{
	message->sequence = sequence;
	message->state = TCP_MESSAGE_WAITS;
	message->tag = frame->tag;
	message->request = NULL;
}

static int eager_arrived(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_frame *frame,
			 uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_message *message;
	struct tcp_request *request;
	unsigned index;
	int error;

	if (frame->message != (uint32_t)r->next_sequence || frame->value % TCP_WIRE_EAGER_UNIT ||
	    tcp_window_take(&r->window, frame->value / TCP_WIRE_EAGER_UNIT, frame->payload_bytes, frame->tag,
			    r->next_sequence) < 0)
		return -EPROTO;
	message = &r->eager[tcp_window_index(frame->value / TCP_WIRE_EAGER_UNIT)];
	message_begin(message, frame, r->next_sequence);
	message->eager = true;
	message->size = frame->payload_bytes;
	r->long_messages = false;
	find_slot(connection, frame->tag, &request, &index);
	if (request) {
		error = match(connection, message, request, index, now_ns);
		if (error < 0)
			return error;
	}
	stream->rx_frame = *frame;
	stream->rx_message = message;
	stream->rx_left = frame->payload_bytes;
	stream->rx_target = request ? request->slots[index].data : r->window.bytes + frame->value;
	return frame->payload_bytes ? 0 : tcp_receiver_payload(connection, stream, 0, now_ns);
}

/* Announced already, ahead of its turn; or NULL. */
static struct tcp_message *find_early(const struct tcp_receiver *r, uint64_t sequence)
{
	for (uint32_t left = r->early; left; left &= left - 1)
		if (r->messages[__builtin_ctz(left)].sequence == sequence)
			return &r->messages[__builtin_ctz(left)];
	return NULL;
}

/* Those whose turn has come. */
static int admit_early(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_message *message;

	while ((message = find_early(r, r->next_sequence))) {
		struct tcp_request *request;
		unsigned index;
		int error;

		r->early &= ~(1U << (message - r->messages));
		r->next_sequence++;
		r->open_messages++;
		r->long_messages = true;
		find_slot(connection, message->tag, &request, &index);
		if (!request) {
			unexpected_append(r, message);
			continue;
		}
		error = match(connection, message, request, index, now_ns);
		if (error < 0)
			return error;
	}
	return 0;
}

/* It comes twice where its unscheduled bytes take another stream than words do, and then in any order. */
static int rts_arrived(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_message *message = &r->messages[frame->request];
	const uint64_t sequence = tcp_wire_sequence(frame->message, r->next_sequence);
	const uint32_t bit = 1U << frame->request;

	if (sequence < r->next_sequence || (r->early & bit && message->sequence == sequence))
		return 0;
	if (sequence - r->next_sequence > (connection->several ? RTS_AHEAD_MAX : 0) ||
	    frame->value > TRANSPORT_MAX_MESSAGE_BYTES ||
	    (message->state != TCP_MESSAGE_FREE && message->state != TCP_MESSAGE_DONE) ||
	    (uint64_t)frame->unit * TCP_WIRE_EAGER_UNIT + frame->unscheduled_bytes > TCP_UNSCHEDULED_WINDOW)
		return -EPROTO;
	r->done_untold &= ~bit; /* said again for a lost stream, but it was known */
	memset(&message->pace, 0, sizeof(message->pace));
	message_begin(message, frame, sequence);
	message->state = TCP_MESSAGE_EARLY;
	message->size = frame->value;
	message->received = message->accepted = 0;
	message->tell_again = false;
	message->unit = frame->unit;
	message->unscheduled = frame->unscheduled_bytes;
	message->grant_told = frame->unscheduled_bytes;
	/* Where no kernel bounds what is on its way, only the budget does. */
	r->sender.hosts = connection->transport->bounds_windows ? frame->hosts : 1;
	r->expected_bytes += frame->unscheduled_bytes;
	r->early |= bit;
	return admit_early(connection, now_ns);
}

/* What no receive matches yet has a place in the window. On one stream it comes in its order. */
static bool may_come(const struct tcp_connection *connection, const struct tcp_message *message,
		     const struct tcp_frame *frame)
{
	return (message->state == TCP_MESSAGE_WAITS || message->state == TCP_MESSAGE_EARLY) &&
	       (connection->several || frame->value == message->accepted);
}

static int data_arrived(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_frame *frame)
{
	struct tcp_message *message = &connection->r.messages[frame->request];

	if ((uint32_t)message->sequence != frame->message ||
	    (message->state != TCP_MESSAGE_COMES && !may_come(connection, message, frame)) || frame->value >= message->grant_told ||
	    frame->payload_bytes > message->grant_told - frame->value ||
	    frame->payload_bytes > message->size - message->accepted)
		return -EPROTO;
	message->accepted += frame->payload_bytes;
	stream->rx_position += TCP_WIRE_FRAME_BYTES;
	stream->rx_frame = *frame;
	stream->rx_message = message;
	stream->rx_left = frame->payload_bytes;
	stream->rx_target = (message->request ? message->request->slots[message->slot].data
					      : place_of(&connection->r, message)) +
			    frame->value;
	return 0;
}

static int eager_whole(struct tcp_connection *connection, struct tcp_message *message, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_request *request;
	unsigned index;
	int error;

	r->next_sequence++;
	tcp_window_arrived(&r->window, index_of(r, message));
	r->control_pending |= tcp_window_is_news(&r->window);
	if (message->state == TCP_MESSAGE_COMES) {
		eager_complete(connection, message);
		return admit_early(connection, now_ns);
	}
	find_slot(connection, message->tag, &request, &index); /* a receive may have come while it did */
	if (!request) {
		unexpected_append(r, message);
		return admit_early(connection, now_ns);
	}
	error = take_kept(connection, message, request, index, now_ns);
	return error < 0 ? error : admit_early(connection, now_ns);
}

int tcp_receiver_payload(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t bytes, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_message *message = stream->rx_message;

	if (message->eager) {
		if (stream->rx_left)
			return 0;
		stream->rx_position += TCP_WIRE_FRAME_BYTES + stream->rx_frame.payload_bytes;
		return eager_whole(connection, message, now_ns);
	}
	stream->rx_position += bytes;
	message->received += bytes;
	r->expected_bytes -= bytes;
	if (message->state == TCP_MESSAGE_WAITS || message->state == TCP_MESSAGE_EARLY) {
		pace_came(r->pace, bytes, now_ns);
		return 0;
	}
	pace_delivered(r->pace, &message->pace, bytes, now_ns);
	bound_flight(connection, message);
	if (message->received == message->size)
		rts_complete(connection, message);
	return 0;
}

void tcp_receiver_forget_partial(struct tcp_connection *connection, struct tcp_stream *stream)
{
	struct tcp_receiver *r = &connection->r;
	struct tcp_message *message = stream->rx_message;

	if (!stream->rx_left)
		return;
	if (!message->eager) {
		message->accepted -= stream->rx_left; /* these come again */
		return;
	}
	if (message->request) {
		struct tcp_receive_slot *slot = &message->request->slots[message->slot];

		slot->matched = false;
		r->posted_open++;
	}
	message->request = NULL;
	message->state = TCP_MESSAGE_FREE;
	tcp_window_release(&r->window, index_of(r, message));
	stream->rx_left = 0;
}

/* The last frame of an orderly end: nothing that is not here is still to come. Its answer is that it has come. */
static void bye_arrived(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t now_ns)
{
	const struct tcp_frame bye = { .type = TCP_FRAME_BYE };

	if (tcp_stream_has_room(stream)) {
		tcp_stream_queue(stream, &bye, NULL);
		tcp_stream_flush(stream, false, now_ns);
	}
	connection->peer_closed = true;
	tcp_connection_fail(connection, -EREMOTEIO, "the sender closed it");
}

/* Which streams carry bytes. It comes on several streams, in any order. */
static int active_arrived(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns)
{
	struct tcp_receiver *r = &connection->r;

	if ((int32_t)(frame->message - connection->changes) <= 0)
		return 0;
	if (!frame->value || frame->value >> (connection->stream_count - 1) >> 1)
		return -EPROTO;
	connection->changes = frame->message;
	if (frame->value != connection->active) /* what the old ones still bring is read, too */
		connection->wanted = 3 | frame->value | connection->active;
	tcp_connection_use(connection, frame->value);
	if (r->wants_turn || frame->tag)
		pace_want_turn(r->pace, &r->sender, frame->tag, tcp_data_streams(connection), now_ns);
	r->wants_turn = frame->tag;
	return 0;
}

int tcp_receiver_frame(struct tcp_connection *connection, struct tcp_stream *stream, const struct tcp_frame *frame,
		       uint64_t now_ns)
{
	if (frame->type != TCP_FRAME_HEARTBEAT && frame->type != TCP_FRAME_SUSPECT) {
		stream->rx_used = true;
		connection->used = stream->index;
	}
	if (frame->type == TCP_FRAME_EAGER)
		return eager_arrived(connection, stream, frame, now_ns);
	if (frame->type == TCP_FRAME_DATA)
		return data_arrived(connection, stream, frame);
	stream->rx_position += TCP_WIRE_FRAME_BYTES;
	switch (frame->type) {
	case TCP_FRAME_RTS:
		return rts_arrived(connection, frame, now_ns);
	case TCP_FRAME_HEARTBEAT:
		return active_arrived(connection, frame, now_ns);
	case TCP_FRAME_SUSPECT: /* read.c */
		return 0;
	case TCP_FRAME_BYE:
		bye_arrived(connection, stream, now_ns);
		return 0;
	default:
		return -EPROTO;
	}
}
