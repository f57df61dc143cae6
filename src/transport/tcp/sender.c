/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending role. A short message is copied into the eager window, goes out at once, and its
 * request is done. Of a longer one, or one for which the window has no room, an RTS goes out, with
 * the first bytes behind it as far as the receiver allows; the receiver grants the rest; it is cut
 * into frames, each for the stream that will be through first; the request is done when the
 * receiver says that every byte is in place, or, where that takes long, when a medium message is
 * copied. So no message waits for one with another tag.
 */
#include "base/clock.h"
#include "base/copy.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <string.h>

enum {
	/* Queued for one system call. */
	SENDER_BURST = 4 << 20,
	RATE_WINDOW_NS = 5 * 1000 * 1000,
	SEGMENT_BYTES = 1448,
};

int tcp_sender_init(struct tcp_connection *connection)
{
	struct tcp_sender *s = &connection->s;

	s->next_sequence = TCP_WIRE_FIRST_SEQUENCE;
	if (tcp_sender_grow(connection, connection->stream_count) < 0)
		return -ENOMEM;
	return tcp_window_init(&s->window);
}

int tcp_sender_grow(struct tcp_connection *connection, unsigned stream_count)
{
	struct tcp_sender *s = &connection->s;
	const uint32_t capacity = stream_count * TCP_TX_FRAMES + 1; /* and BYE */
	struct tcp_tx_frame *again = sys_zalloc(capacity * sizeof(*again));
	uint64_t tail = capacity;

	if (!again)
		return -ENOMEM;
	for (uint64_t at = s->again_head; at != s->again_tail; at++)
		again[tail++ % capacity] = s->again[at % s->again_capacity];
	sys_free(s->again);
	s->again = again;
	s->again_head = capacity;
	s->again_tail = tail;
	s->again_capacity = capacity;
	return 0;
}

/* RTS and eager messages keep their order only on one stream, so none goes out while that one changes. */
static bool order_is_held(const struct tcp_connection *connection)
{
	return connection->s.again_head != connection->s.again_tail || connection->s.awaiting;
}

static void queue_eager(struct tcp_connection *connection, struct tcp_stream *primary, struct tcp_request *request,
			unsigned unit)
{
	struct tcp_window *window = &connection->s.window;
	const uint64_t offset = (uint64_t)unit * TCP_WIRE_EAGER_UNIT;
	struct tcp_frame frame = { .type = TCP_FRAME_EAGER,
				   .message = (uint32_t)request->sequence,
				   .tag = request->tag,
				   .value = offset,
				   .payload_bytes = (uint32_t)request->size };
	uint8_t *copy = window->bytes + offset + TCP_WIRE_FRAME_BYTES;

	tcp_window_take(window, unit, request->size, request->tag, request->sequence);
	copy_bytes(copy, request->data, (size_t)request->size);
	tcp_stream_queue(primary, &frame, request->size ? copy : NULL);
	if (request->size) {
		struct tcp_tx_frame *out = &primary->frames[(primary->tx_tail - 1) % TCP_TX_FRAMES];

		memcpy(copy - TCP_WIRE_FRAME_BYTES, out->header, TCP_WIRE_FRAME_BYTES);
		out->joined = true;
	}
	request->done = true;
}

void tcp_sender_may_begin(struct tcp_connection *connection, uint64_t bytes)
{
	connection->s.unscheduled_most = bytes < TCP_UNSCHEDULED_WINDOW / 2 ? bytes : TCP_UNSCHEDULED_WINDOW / 2;
}

static unsigned units_of(uint64_t bytes)
{
	return (unsigned)((bytes + TCP_WIRE_EAGER_UNIT - 1) / TCP_WIRE_EAGER_UNIT);
}

/* The first place at the receiver that no message which may still wait there has; -ENOBUFS. */
static int find_place(const struct tcp_connection *connection, uint64_t bytes)
{
	unsigned unit = 0;
	const struct tcp_request *request = TAILQ_FIRST(&connection->open);

	while (request && unit + units_of(bytes) <= TCP_WIRE_UNSCHEDULED_UNITS) {
		if (request->unscheduled && request->unit < unit + units_of(bytes) &&
		    unit < request->unit + units_of(request->unscheduled)) {
			unit = request->unit + units_of(request->unscheduled);
			request = TAILQ_FIRST(&connection->open);
		} else {
			request = TAILQ_NEXT(request, link);
		}
	}
	return request ? -ENOBUFS : (int)unit;
}

/* How many bytes may follow the RTS. A part of a message that is less than a TCP segment is not worth it. */
static uint64_t unscheduled(const struct tcp_connection *connection, uint64_t bytes)
{
	const struct tcp_sender *s = &connection->s;
	uint64_t left = s->unscheduled_most > s->unscheduled_open ? s->unscheduled_most - s->unscheduled_open : 0;

	return bytes <= left ? bytes : left < SEGMENT_BYTES ? 0 : left;
}

/*
 * From here on two copies cost more than the word that the message is through. Not where that word
 * has to wake a thread, and not where the receiver allows less: then there would be a round trip.
 */
static bool is_better_unscheduled(const struct tcp_connection *connection, uint64_t bytes)
{
	return bytes > TCP_COPY_MOST && !connection->watch.on && unscheduled(connection, bytes) == bytes &&
	       find_place(connection, bytes) >= 0;
}

/*
 * While a stream is replaced the others go on, and may be lost, too. What would have to be sent
 * again never gets more than all streams hold, so that again[] has room for it however often they
 * are lost.
 */
static bool may_keep_more(const struct tcp_connection *connection)
{
	const struct tcp_sender *s = &connection->s;
	uint64_t kept = s->again_tail - s->again_head;

	if (!order_is_held(connection))
		return true; /* each stream's own bound is enough */
	for (unsigned i = 0; i < connection->stream_count; i++) {
		const struct tcp_stream *stream = &connection->streams[i];

		if (stream->awaits_dead)
			kept += stream->lost_tail - stream->lost_head;
		else if (stream->live)
			kept += stream->tx_tail - stream->tx_head;
	}
	return kept + 1 < s->again_capacity;
}

/* The next bytes of the message, behind what the stream has queued already. */
static void queue_data(struct tcp_connection *connection, struct tcp_stream *stream, struct tcp_request *request,
		       uint64_t bytes)
{
	const struct tcp_frame frame = { .type = TCP_FRAME_DATA,
					 .message = (uint32_t)request->sequence,
					 .request = (uint8_t)(request - connection->requests),
					 .value = request->next_offset,
					 .payload_bytes = (uint32_t)bytes };

	tcp_stream_queue(stream, &frame, request->data + request->next_offset);
	request->next_offset += bytes;
}

/*
 * Several streams carry the unscheduled bytes of a message, and on each its RTS comes once more
 * ahead of them: bytes never come unannounced, and no RTS waits behind the bytes of another
 * message.
 */
static void queue_unscheduled(struct tcp_connection *connection, const struct tcp_frame *rts, struct tcp_request *request)
{
	uint64_t announced = UINT64_C(1) << connection->s.primary; /* a set of streams */

	while (request->next_offset < request->unscheduled) {
		struct tcp_stream *stream = tcp_stripe_least(connection);

		if (!(announced >> stream->index & 1))
			tcp_stream_queue(stream, rts, NULL);
		announced |= UINT64_C(1) << stream->index;
		queue_data(connection, stream, request,
			   min_u64(request->unscheduled - request->next_offset, tcp_stripe_segment(connection)));
	}
}

static void queue_rts(struct tcp_connection *connection, struct tcp_stream *primary, struct tcp_request *request)
{
	struct tcp_frame frame = { .type = TCP_FRAME_RTS,
				   .message = (uint32_t)request->sequence,
				   .request = (uint8_t)(request - connection->requests),
				   .tag = request->tag,
				   .value = request->size,
				   .hosts = (uint8_t)pace_hosts_sent_to(connection->s.pace) };
	uint64_t bytes;
	int unit;

	connection->s.open_bytes += request->size;
	bytes = unscheduled(connection, request->size);
	if (connection->active_count > 1)
		bytes = min_u64(bytes, tcp_stripe_segment(connection) * tcp_stripe_room(connection));
	unit = bytes ? find_place(connection, bytes) : -ENOBUFS;
	if (unit < 0)
		bytes = 0;
	request->granted = request->unscheduled = bytes;
	if (bytes) {
		request->unit = (unsigned)unit;
		connection->s.unscheduled_open += bytes;
		frame.unit = (uint16_t)unit;
		frame.unscheduled_bytes = (uint32_t)bytes;
	}
	tcp_stream_queue(primary, &frame, NULL);
	TAILQ_INSERT_TAIL(&connection->open, request, link);
	if (connection->active_count > 1)
		queue_unscheduled(connection, &frame, request);
}

/* The receiver has said more of it, so it has matched it. */
static void unscheduled_matched(struct tcp_connection *connection, struct tcp_request *request)
{
	connection->s.unscheduled_open -= request->unscheduled;
	request->unscheduled = 0;
}

/*
 * All of it is written, with nothing behind it: nobody looks after a send that is done. Not where a
 * thread is woken by FIN, nor where a send that is done was received (the eager limit), nor in a
 * failover, when the frames are elsewhere.
 */
static bool may_buffer(const struct tcp_connection *connection, const struct tcp_request *request)
{
	for (unsigned i = 0; i < connection->stream_count; i++)
		if (connection->streams[i].live && tcp_stream_has_unsent(&connection->streams[i]))
			return false;
	return TAILQ_FIRST(&connection->open) == request && !TAILQ_NEXT(request, link) &&
	       request->size <= TCP_BUFFERED_MOST && request->unscheduled == request->size &&
	       request->next_offset == request->size && !connection->error && !connection->watch.on &&
	       request->size <= connection->eager_limit && !order_is_held(connection);
}

/*
 * NCCL begins a connection's next operation when the sends of the one before are done, and FIN may
 * lie behind all that the receiver's host sends. The copy is made in that time, and only then:
 * where FIN comes soon it would cost more.
 */
bool tcp_sender_buffer(struct tcp_connection *connection, struct tcp_request *request)
{
	struct tcp_sender *s = &connection->s;

	if (!may_buffer(connection, request) ||
	    clock_elapsed_ns(request->posted_ns, clock_now_ns()) < TCP_BUFFERED_AFTER_NS)
		return false;
	if (!s->buffer)
		s->buffer = sys_zalloc(TCP_BUFFERED_MOST);
	if (!s->buffer)
		return false;
	copy_bytes(s->buffer, request->data, (size_t)request->size);
	request->data = s->buffer;
	for (unsigned k = 0; k < connection->stream_count; k++) {
		struct tcp_stream *stream = &connection->streams[k];

		for (uint32_t i = stream->tx_head; i != stream->tx_tail; i++) {
			struct tcp_tx_frame *out = &stream->frames[i % TCP_TX_FRAMES];

			if (out->type == TCP_FRAME_DATA && out->message == (uint32_t)request->sequence)
				out->payload = request->data + out->value;
		}
	}
	s->buffered = request;
	return true;
}

int tcp_sender_send(struct tcp_connection *connection, void *data, size_t bytes, int tag, uint64_t now_ns,
		    struct tcp_request **ret)
{
	struct tcp_sender *s = &connection->s;
	struct tcp_stream *primary = &connection->streams[s->primary];
	const bool others = tcp_request_awaited(connection) != NULL;
	struct tcp_request *request;
	int unit = -ENOBUFS;

	*ret = NULL;
	if (!primary->live || !tcp_stream_has_room(primary) || order_is_held(connection))
		return 0;
	if (bytes <= connection->eager_bytes && !is_better_unscheduled(connection, bytes))
		unit = tcp_window_find(&s->window, bytes, tag);
	if (unit == -EAGAIN)
		return 0;
	request = tcp_request_get(connection, TCP_REQUEST_SEND, now_ns);
	if (!request)
		return 0;
	request->data = data;
	request->size = bytes;
	request->tag = tag;
	request->sequence = s->next_sequence++;
	request->granted = request->next_offset = request->unscheduled = 0;
	request->received = false;
	if (unit >= 0) {
		queue_eager(connection, primary, request, (unsigned)unit);
	} else {
		pace_note_send(s->pace, s->host, now_ns);
		queue_rts(connection, primary, request);
	}
	/* With others under way the caller is about to test one of them; a lone RTS goes out with their bytes then. */
	if (request->done || !others || connection->watch.on || request->unscheduled)
		tcp_sender_pump(connection, now_ns);
	*ret = request;
	return 0;
}

/* What is unscheduled follows its RTS on the same stream, or it could come first. */
static bool may_go(const struct tcp_connection *connection, const struct tcp_stream *stream,
		   const struct tcp_request *request)
{
	return request->next_offset >= request->unscheduled ||
	       (stream->index == connection->s.primary && !order_is_held(connection));
}

/* Queues the next piece of the oldest message that has one which may go. 0: there is none. */
static size_t cut_frame(struct tcp_connection *connection, struct tcp_stream *stream)
{
	const size_t longest = tcp_stripe_segment(connection);

	if (!may_keep_more(connection))
		return 0;
	for (struct tcp_request *request = TAILQ_FIRST(&connection->open); request;
	     request = TAILQ_NEXT(request, link)) {
		uint64_t bytes = request->granted - request->next_offset;

		if (!bytes || !may_go(connection, stream, request))
			continue;
		if (bytes > longest)
			bytes = longest;
		queue_data(connection, stream, request, bytes);
		return (size_t)bytes;
	}
	return 0;
}

/* They stay behind their RTS, which may be lost, too; and before BYE, which may follow a buffered send. */
static bool is_unscheduled(const struct tcp_connection *connection, const struct tcp_tx_frame *out)
{
	const struct tcp_request *request = tcp_sender_find(connection, out->message);

	return request && (request == connection->s.buffered || out->value < request->unscheduled);
}

/* BYE ends the connection, so it waits for a buffered send whose bytes another stream carries. */
static bool data_is_under_way(const struct tcp_connection *connection)
{
	for (unsigned i = 0; i < connection->stream_count; i++) {
		const struct tcp_stream *stream = &connection->streams[i];

		for (uint32_t at = stream->tx_head; stream->live && at != stream->tx_tail; at++)
			if (i != connection->s.primary && stream->frames[at % TCP_TX_FRAMES].type == TCP_FRAME_DATA)
				return true;
	}
	return false;
}

/* What a dead stream left: order first, and only once every dead stream is accounted for. */
static void send_again(struct tcp_connection *connection)
{
	struct tcp_sender *s = &connection->s;

	while (!s->awaiting && s->again_head != s->again_tail) {
		struct tcp_tx_frame *out = &s->again[s->again_head % s->again_capacity];
		bool ordered = out->type != TCP_FRAME_DATA || is_unscheduled(connection, out);
		struct tcp_stream *stream = ordered ? &connection->streams[s->primary] : tcp_stripe_pick(connection);
		struct tcp_frame frame;

		if (!stream || !stream->live || !tcp_stream_has_room(stream) ||
		    (out->type == TCP_FRAME_BYE && data_is_under_way(connection)))
			return;
		if (tcp_wire_get_frame(out->header, &frame) == 0)
			tcp_stream_queue(stream, &frame, out->payload);
		s->again_head++;
	}
}

void tcp_sender_say_bye(struct tcp_connection *connection, uint64_t now_ns)
{
	const struct tcp_frame frame = { .type = TCP_FRAME_BYE };
	struct tcp_sender *s = &connection->s;
	struct tcp_tx_frame *out;

	if (s->again_head == s->again_tail)
		s->again_head = s->again_tail = s->again_capacity;
	out = &s->again[s->again_tail++ % s->again_capacity];
	memset(out, 0, sizeof(*out));
	out->type = frame.type;
	tcp_wire_put_frame(&frame, out->header);
	tcp_sender_pump(connection, now_ns);
}

bool tcp_sender_pump(struct tcp_connection *connection, uint64_t now_ns)
{
	bool unsent = false;

	send_again(connection);
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (!stream->live || !stream->tx_full || !tcp_stream_has_unsent(stream))
			continue;
		if (connection->watch.on || !stream->tx_due_ns || clock_now_ns() >= stream->tx_due_ns)
			tcp_stream_flush(stream, true, now_ns);
	}
	while (!connection->error) {
		struct tcp_stream *stream = tcp_stripe_pick(connection);
		size_t burst = 0, bytes = 1;

		if (!stream)
			break;
		while (burst < SENDER_BURST && bytes && tcp_stream_has_room(stream)) {
			bytes = cut_frame(connection, stream);
			burst += bytes;
			if (connection->active_count > 1)
				break; /* choose anew for the next segment */
		}
		if (!burst)
			break;
		tcp_stream_flush(stream, true, now_ns);
	}
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && !stream->tx_full && tcp_stream_has_unsent(stream))
			tcp_stream_flush(stream, true, now_ns);
		unsent |= stream->live && tcp_stream_has_unsent(stream);
	}
	return unsent;
}

static void acknowledged(struct tcp_stream *stream, uint64_t position, uint64_t now_ns)
{
	if (position <= stream->tx_acknowledged)
		return;
	if (tcp_stream_carries(stream, position))
		stream->connection->s.mtu.moved_ns = now_ns;
	stream->rate_busy_ns += clock_elapsed_ns(stream->last_ack_ns, now_ns);
	stream->tx_acknowledged = position;
	stream->last_ack_ns = now_ns;
	tcp_stream_let_go(stream);
	if (stream->rate_busy_ns >= RATE_WINDOW_NS) {
		uint64_t bytes = position - stream->rate_from_position;
		uint64_t rate_Bps = bytes * 1000 / (stream->rate_busy_ns / 1000 + 1) * 1000;

		stream->rate_Bps = stream->rate_Bps ? (stream->rate_Bps + rate_Bps) / 2 : rate_Bps;
		stream->rate_busy_ns = 0;
		stream->rate_from_position = position;
	}
}

struct tcp_request *tcp_sender_find(const struct tcp_connection *connection, uint32_t message)
{
	struct tcp_request *request = TAILQ_FIRST(&connection->open);

	while (request && (uint32_t)request->sequence != message)
		request = TAILQ_NEXT(request, link);
	return request;
}

static void finish(struct tcp_connection *connection, struct tcp_request *request)
{
	unscheduled_matched(connection, request);
	connection->s.open_bytes -= request->size;
	TAILQ_REMOVE(&connection->open, request, link);
	request->done = true;
	if (request == connection->s.buffered) {
		connection->s.buffered = NULL;
		tcp_request_release(request);
	}
	connection->reported = false;
}

/* A mover's call that writes from its buffer has not returned, although the receiver has all. */
static bool is_in_call(const struct tcp_connection *connection, const struct tcp_request *request)
{
	for (unsigned i = 0; i < connection->stream_count; i++) {
		const struct tcp_stream *stream = &connection->streams[i];

		for (uint32_t at = stream->tx_next; stream->move == TCP_MOVE_CALL && at != stream->tx_tail; at++) {
			const struct tcp_tx_frame *out = &stream->frames[at % TCP_TX_FRAMES];

			if (out->type == TCP_FRAME_DATA && out->message == (uint32_t)request->sequence)
				return true;
		}
	}
	return false;
}

static int done_arrived(struct tcp_connection *connection, const struct tcp_frame *frame)
{
	struct tcp_request *request = tcp_sender_find(connection, frame->message);

	if (!request)
		return 0; /* told again */
	if (request->next_offset != request->size)
		return -EPROTO;
	request->received = true;
	if (!is_in_call(connection, request))
		finish(connection, request);
	return 0;
}

void tcp_sender_call_ended(struct tcp_connection *connection)
{
	struct tcp_request *request, *next;

	for (request = TAILQ_FIRST(&connection->open); request; request = next) {
		next = TAILQ_NEXT(request, link);
		if (request->received && !is_in_call(connection, request))
			finish(connection, request);
	}
}

static int granted(struct tcp_connection *connection, const struct tcp_frame *frame)
{
	struct tcp_request *request = tcp_sender_find(connection, frame->message);

	if (!request)
		return 0; /* told again after it was done */
	if (frame->value > request->size)
		return -EPROTO;
	if (frame->value > request->granted)
		request->granted = frame->value;
	unscheduled_matched(connection, request);
	return 0;
}

static int reported(struct tcp_sender *s, const struct tcp_frame *frame)
{
	uint64_t sequence = tcp_wire_sequence(frame->message, s->next_sequence);

	if (sequence > s->next_sequence)
		return -EPROTO;
	tcp_window_reported(&s->window, frame->type - TCP_FRAME_WINDOW_LOW, sequence, frame->value);
	return 0;
}

int tcp_sender_frame(struct tcp_connection *connection, const struct tcp_frame *frame, uint64_t now_ns)
{
	struct tcp_stream *stream;

	switch (frame->type) {
	case TCP_FRAME_HEARTBEAT:
		return 0;
	case TCP_FRAME_BYE:
		connection->peer_closed = true;
		tcp_connection_fail(connection, -EREMOTEIO, "the receiver closed it");
		return 0;
	case TCP_FRAME_TRUNCATED:
		tcp_connection_fail(connection, -EMSGSIZE, "a message was longer than the receive that it matched");
		return 0;
	default:
		break;
	}
	if (frame->type < TCP_FRAME_GRANT || frame->type > TCP_FRAME_ACK || frame->stream >= connection->stream_count)
		return -EPROTO;
	stream = &connection->streams[frame->stream];
	if (stream->live && (uint16_t)stream->epoch == frame->epoch) {
		if (frame->position > stream->tx_written + stream->giving_bytes)
			return -EPROTO;
		acknowledged(stream, frame->position, now_ns);
	}
	switch (frame->type) {
	case TCP_FRAME_GRANT:
		return granted(connection, frame);
	case TCP_FRAME_DONE:
		return done_arrived(connection, frame);
	case TCP_FRAME_UNSCHEDULED:
		tcp_sender_may_begin(connection, frame->value);
		return 0;
	case TCP_FRAME_PORT:
		if ((int32_t)(frame->message - connection->s.port.number) > 0)
			tcp_wire_get_port(frame, &connection->s.port);
		return 0;
	case TCP_FRAME_WINDOW_LOW:
	case TCP_FRAME_WINDOW_HIGH:
		return reported(&connection->s, frame);
	default:
		return 0;
	}
}

bool tcp_sender_is_empty(const struct tcp_connection *connection)
{
	if (connection->s.again_head != connection->s.again_tail)
		return false;
	for (unsigned i = 0; i < connection->stream_count; i++) {
		const struct tcp_stream *stream = &connection->streams[i];

		if (stream->awaits_dead || (stream->live && stream->tx_head != stream->tx_tail))
			return false;
	}
	return true;
}
