/*
 * The sending role. A short message is copied into a window that the receiver frees, goes out at once, and its request
 * is done. A longer one is announced; the receiver grants bytes of it; they are cut into frames, each for the stream
 * that will be through first; the request is done when the receiver says that every byte is in place.
 */
#include "base/clock.h"
#include "base/copy.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <string.h>

enum {
	NO_REQUEST = 0xff,
	/* With one stream to fill there is nothing to balance: fewer, longer frames. */
	SENDER_LONG_FRAME = 4 << 20,
	/* Queued for one system call. */
	SENDER_BURST = 4 << 20,
	STRIPE_AHEAD_NS = 4 * 1000 * 1000, /* what a stream may have in flight, in time at its own rate */
	RATE_WINDOW_NS = 5 * 1000 * 1000,
};

int tcp_sender_init(struct tcp_connection *connection)
{
	struct tcp_sender *s = &connection->s;

	memset(s->request_of, NO_REQUEST, sizeof(s->request_of));
	s->window_bytes = TCP_EAGER_WINDOW;
	s->window = sys_zalloc(TCP_EAGER_WINDOW);
	s->again_capacity = connection->stream_count * TCP_TX_FRAMES;
	s->again = sys_zalloc(s->again_capacity * sizeof(*s->again));
	return s->window && s->again ? 0 : -ENOMEM;
}

static uint32_t oldest_open(const struct tcp_connection *connection)
{
	const struct tcp_sender *s = &connection->s;
	uint32_t oldest = s->next_sequence;

	if (tcp_request_first(connection))
		oldest = tcp_request_first(connection)->sequence;
	if (s->kept_head != s->kept_tail) {
		uint32_t kept = s->kept[s->kept_head % (sizeof(s->kept) / sizeof(s->kept[0]))].sequence;

		if ((int32_t)(kept - oldest) < 0)
			oldest = kept;
	}
	return oldest;
}

/* Announcements and eager messages keep their order only on one stream, so none goes out while that one changes. */
static bool order_is_held(const struct tcp_connection *connection)
{
	if (connection->s.again_head != connection->s.again_tail)
		return true;
	for (unsigned i = 0; i < connection->stream_count; i++)
		if (connection->streams[i].awaits_dead)
			return true;
	return false;
}

static bool window_place(struct tcp_sender *s, size_t bytes, uint64_t *ret_begin, uint64_t *ret_end)
{
	uint64_t begin = s->window_end, used = tcp_wire_eager_place_bytes(bytes);

	if (begin % s->window_bytes + used > s->window_bytes) /* never around the corner */
		begin += s->window_bytes - begin % s->window_bytes;
	if (begin + used - s->window_begin > s->window_bytes)
		return false;
	*ret_begin = begin;
	*ret_end = begin + used;
	return true;
}

static bool queue_eager(struct tcp_connection *connection, struct tcp_stream *lead, struct tcp_request *request)
{
	struct tcp_sender *s = &connection->s;
	const uint32_t kept_count = sizeof(s->kept) / sizeof(s->kept[0]);
	struct tcp_frame frame = { .type = TCP_FRAME_EAGER, .message = request->sequence, .tag = request->tag };
	uint64_t begin, end;
	uint8_t *copy;

	if (s->kept_tail - s->kept_head == kept_count || !window_place(s, (size_t)request->size, &begin, &end))
		return false;
	copy = s->window + begin % s->window_bytes + TCP_WIRE_FRAME_BYTES;
	copy_bytes(copy, request->data, (size_t)request->size);
	s->window_end = end;
	s->kept[s->kept_tail++ % kept_count] = (struct tcp_eager_kept){ request->sequence, end };
	frame.value = begin;
	frame.payload_bytes = (uint32_t)request->size;
	tcp_stream_queue(lead, &frame, request->size ? copy : NULL);
	if (request->size) {
		struct tcp_tx_frame *out = &lead->frames[(lead->tx_tail - 1) % TCP_TX_FRAMES];

		memcpy(copy - TCP_WIRE_FRAME_BYTES, out->header, TCP_WIRE_FRAME_BYTES);
		out->joined = true;
	}
	return true;
}

/* A message goes out: the receive that ASK was said for waits no more. Whether it takes the message unasked. */
static bool take_asked(struct tcp_connection *connection, int tag, uint64_t bytes)
{
	struct tcp_sender *s = &connection->s;

	for (unsigned i = 0; i < s->asked_count; i++) {
		bool takes = s->asked[i].tag == tag && s->asked[i].bytes >= bytes;

		if (s->asked[i].tag != tag)
			continue;
		s->asked_count--;
		memmove(&s->asked[i], &s->asked[i + 1], (s->asked_count - i) * sizeof(s->asked[0]));
		return takes && connection->active_count == 1; /* its bytes have to stay behind the announcement */
	}
	return false;
}

int tcp_sender_send(struct tcp_connection *connection, void *data, size_t bytes, int tag, uint64_t now_ns,
		    struct tcp_request **ret)
{
	struct tcp_sender *s = &connection->s;
	struct tcp_stream *lead = &connection->streams[s->lead];
	struct tcp_request *request;

	*ret = NULL;
	if (!lead->live || !tcp_stream_has_room(lead) || order_is_held(connection) ||
	    s->next_sequence - oldest_open(connection) >= TCP_MESSAGES)
		return 0;
	request = tcp_request_get(connection, TCP_REQUEST_SEND, now_ns);
	if (!request)
		return 0;
	request->data = data;
	request->size = bytes;
	request->tag = tag;
	request->sequence = s->next_sequence;
	request->granted = request->next_offset = 0;
	request->ahead = false;
	s->tags_differ |= s->next_sequence && tag != s->ready_tag;
	if (!s->next_sequence)
		s->ready_tag = tag;
	if (bytes <= connection->eager_bytes) {
		if (!queue_eager(connection, lead, request)) {
			request->used = false;
			connection->request_count--;
			return 0;
		}
		take_asked(connection, tag, bytes);
		request->done = true;
		tcp_sender_pump(connection, now_ns);
	} else {
		struct tcp_frame frame = {
			.type = TCP_FRAME_ANNOUNCE, .message = request->sequence, .tag = tag, .value = bytes
		};
		bool others = tcp_request_first(connection) != NULL;

		request->ahead = take_asked(connection, tag, bytes);
		if (request->ahead)
			frame.type = TCP_FRAME_COMES;
		tcp_stream_queue(lead, &frame, NULL);
		s->request_of[request->sequence % TCP_MESSAGES] = (uint8_t)(request - connection->requests);
		transport_open_append(&connection->open, &request->open);
		/* With others under way the caller is about to test one of them; this goes out with their bytes then. */
		if (!others || connection->driven || request->ahead ||
		    (int32_t)(request->sequence - s->ready_sequence) < 0)
			tcp_sender_pump(connection, now_ns);
	}
	s->tag_of[s->next_sequence++ % TCP_MESSAGES] = tag;
	*ret = request;
	return 0;
}

static bool any_active_live(const struct tcp_connection *connection)
{
	for (unsigned i = 0; i < connection->active_count; i++)
		if (connection->streams[i].live)
			return true;
	return false;
}

static uint64_t in_flight(const struct tcp_stream *stream)
{
	return stream->tx_queued - stream->tx_acknowledged;
}

/* The stream that would be through with one more segment first; NULL when every one has enough. */
static struct tcp_stream *pick_stream(struct tcp_connection *connection)
{
	const uint64_t segment = connection->transport->params->segment_bytes;
	unsigned first = any_active_live(connection) ? 0 : connection->active_count;
	unsigned end = first ? connection->stream_count : connection->active_count;
	struct tcp_stream *best = &connection->streams[connection->s.lead];
	uint64_t best_ns = UINT64_MAX;

	/* Nothing to balance; and promised messages have to stay behind their announcements. */
	if (connection->active_count == 1)
		return best->live && tcp_stream_has_room(best) && !best->tx_full ? best : NULL;
	best = NULL;

	for (unsigned i = first; i < end; i++) {
		struct tcp_stream *stream = &connection->streams[i];
		uint64_t rate_Bps = stream->rate_Bps ? stream->rate_Bps : NS_PER_S / 8, ahead_ns;

		if (!stream->live || !tcp_stream_has_room(stream) || stream->tx_full)
			continue;
		if (connection->live_count > 1 && connection->active_count > 1 &&
		    in_flight(stream) >= segment + rate_Bps * STRIPE_AHEAD_NS / NS_PER_S)
			continue;
		ahead_ns = (in_flight(stream) + segment) * 1000 / (rate_Bps / 1000000 + 1);
		if (ahead_ns < best_ns) {
			best_ns = ahead_ns;
			best = stream;
		}
	}
	return best;
}

/*
 * Up to which byte. A promised message may go at once, but only behind its announcement on the same stream, or its data
 * could come first.
 */
static uint64_t may_send(const struct tcp_connection *connection, const struct tcp_stream *stream,
			 const struct tcp_request *request)
{
	const struct tcp_sender *s = &connection->s;

	bool promised = (int32_t)(request->sequence - s->ready_sequence) < 0 && !s->tags_differ;

	if (!(promised || request->ahead) || stream->index != s->lead || order_is_held(connection))
		return request->granted;
	return request->size;
}

/* Queues the next granted piece of the oldest message that has one. 0: there is none. */
static size_t cut_frame(struct tcp_connection *connection, struct tcp_stream *stream)
{
	const size_t longest = connection->active_count > 1 ? connection->transport->params->segment_bytes
							    : SENDER_LONG_FRAME;

	for (struct tcp_request *request = tcp_request_first(connection); request;
	     request = tcp_request_next(request)) {
		struct tcp_frame frame = { .type = TCP_FRAME_DATA,
					   .message = request->sequence,
					   .value = request->next_offset };
		uint64_t limit = may_send(connection, stream, request), bytes;

		if (limit <= request->next_offset) /* below it, too: a promise may rest while the lead changes */
			continue;
		bytes = limit - request->next_offset;
		if (bytes > longest)
			bytes = longest;
		frame.payload_bytes = (uint32_t)bytes;
		tcp_stream_queue(stream, &frame, request->data + request->next_offset);
		request->next_offset += bytes;
		return (size_t)bytes;
	}
	return 0;
}

static bool flush(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t now_ns)
{
	int r = tcp_stream_flush(stream, true, now_ns);

	if (r < 0)
		tcp_failover_lost(connection, stream, strerror(-r), now_ns);
	return r == 0;
}

/* What a dead stream left: order first, and only once every dead stream is accounted for. */
static void send_again(struct tcp_connection *connection)
{
	struct tcp_sender *s = &connection->s;

	for (unsigned i = 0; i < connection->stream_count; i++)
		if (connection->streams[i].awaits_dead)
			return;
	while (s->again_head != s->again_tail) {
		struct tcp_tx_frame *out = &s->again[s->again_head % s->again_capacity];
		bool ordered = out->type != TCP_FRAME_DATA;
		struct tcp_stream *stream = ordered ? &connection->streams[s->lead] : pick_stream(connection);
		struct tcp_frame frame;

		if (!stream || !stream->live || !tcp_stream_has_room(stream))
			return;
		if (tcp_wire_get_frame(out->header, &frame) == 0)
			tcp_stream_queue(stream, &frame, out->payload);
		s->again_head++;
	}
}

bool tcp_sender_pump(struct tcp_connection *connection, uint64_t now_ns)
{
	bool unsent = false;

	send_again(connection);
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (!stream->live || !stream->tx_full || !tcp_stream_has_unsent(stream))
			continue;
		if (connection->driven || !stream->tx_due_ns || clock_now_ns() >= stream->tx_due_ns)
			flush(connection, stream, now_ns);
	}
	while (!connection->error) {
		struct tcp_stream *stream = pick_stream(connection);
		size_t burst = 0, bytes = 1;

		if (!stream)
			break;
		if (in_flight(stream) == 0) { /* an idle spell is no measure of its rate */
			stream->rate_since_ns = now_ns;
			stream->rate_from_position = stream->tx_acknowledged;
		}
		while (burst < SENDER_BURST && bytes && tcp_stream_has_room(stream)) {
			bytes = cut_frame(connection, stream);
			burst += bytes;
			if (connection->active_count > 1)
				break; /* choose anew for the next segment */
		}
		if (!burst)
			break;
		if (!flush(connection, stream, now_ns) || stream->tx_full)
			continue;
	}
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (stream->live && !stream->tx_full && tcp_stream_has_unsent(stream))
			flush(connection, stream, now_ns);
		unsent |= stream->live && tcp_stream_has_unsent(stream);
	}
	return unsent;
}

void tcp_sender_acknowledged(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t position,
			     uint64_t now_ns)
{
	uint64_t window_ns = clock_elapsed_ns(stream->rate_since_ns, now_ns);

	(void)connection;
	if (position <= stream->tx_acknowledged)
		return;
	stream->tx_acknowledged = position;
	stream->last_ack_ns = now_ns;
	while (stream->tx_head != stream->tx_next && stream->frames[stream->tx_head % TCP_TX_FRAMES].end <= position)
		stream->tx_head++;
	if (window_ns >= RATE_WINDOW_NS) {
		uint64_t bytes = position - stream->rate_from_position;
		uint64_t rate_Bps = bytes * 1000 / (window_ns / 1000 + 1) * 1000;

		stream->rate_Bps = stream->rate_Bps ? (stream->rate_Bps + rate_Bps) / 2 : rate_Bps;
		stream->rate_since_ns = now_ns;
		stream->rate_from_position = position;
	}
}

static void finish(struct tcp_connection *connection, struct tcp_request *request)
{
	connection->s.request_of[request->sequence % TCP_MESSAGES] = NO_REQUEST;
	transport_open_remove(&connection->open, &request->open);
	request->done = true;
	connection->reported = false;
}

static struct tcp_request *find(struct tcp_connection *connection, uint32_t sequence)
{
	uint8_t index = connection->s.request_of[sequence % TCP_MESSAGES];

	if (index == NO_REQUEST || connection->requests[index].sequence != sequence)
		return NULL;
	return &connection->requests[index];
}

/* value: every message before that sequence number is done, which repairs what a dead stream swallowed. */
static int done_arrived(struct tcp_connection *connection, const struct tcp_frame *frame)
{
	struct tcp_request *request = find(connection, frame->message);

	if (request && request->next_offset != request->size)
		return -EPROTO;
	if (request)
		finish(connection, request);
	while (tcp_request_first(connection) &&
	       (int32_t)(tcp_request_first(connection)->sequence - (uint32_t)frame->value) < 0) {
		if (tcp_request_first(connection)->next_offset != tcp_request_first(connection)->size)
			return -EPROTO;
		finish(connection, tcp_request_first(connection));
	}
	return 0;
}

static int window_freed(struct tcp_sender *s, uint64_t position)
{
	const uint32_t kept_count = sizeof(s->kept) / sizeof(s->kept[0]);

	if (position > s->window_end)
		return -EPROTO;
	while (s->kept_head != s->kept_tail && s->kept[s->kept_head % kept_count].end <= position)
		s->kept_head++;
	if (position > s->window_begin)
		s->window_begin = position;
	return 0;
}

static int granted(struct tcp_connection *connection, const struct tcp_frame *frame)
{
	struct tcp_request *request = find(connection, frame->message);

	if (!request)
		return 0; /* told again after it was done */
	if (frame->value > request->size)
		return -EPROTO;
	if (frame->value > request->granted)
		request->granted = frame->value;
	return 0;
}

/*
 * A receive waits. If a message with its tag is on the way, or was when this was said, that one met it, or one before it.
 * (What is told over a stream that died may be read late, after many messages.)
 */
static void asked(struct tcp_sender *s, const struct tcp_frame *frame)
{
	struct tcp_asked asked;

	tcp_wire_get_ask(frame->value, &asked.tag, &asked.bytes);
	if (s->next_sequence - frame->message > TCP_MESSAGES || s->asked_count == TRANSPORT_MAX_REQUESTS)
		return;
	for (uint32_t sequence = frame->message; sequence != s->next_sequence; sequence++)
		if (s->tag_of[sequence % TCP_MESSAGES] == asked.tag)
			return;
	s->asked[s->asked_count++] = asked;
}

int tcp_sender_frame(struct tcp_connection *connection, struct tcp_stream *from, const struct tcp_frame *frame,
		     uint64_t now_ns)
{
	struct tcp_stream *stream;

	(void)from;
	switch (frame->type) {
	case TCP_FRAME_HEARTBEAT:
		return 0;
	case TCP_FRAME_BYE:
		connection->peer_closed = true;
		tcp_connection_fail(connection, -EREMOTEIO, "the receiver closed it");
		return 0;
	case TCP_FRAME_DEAD:
		tcp_failover_dead(connection, frame, now_ns);
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
		if (frame->position > stream->tx_written)
			return -EPROTO;
		tcp_sender_acknowledged(connection, stream, frame->position, now_ns);
	}
	switch (frame->type) {
	case TCP_FRAME_GRANT:
		return granted(connection, frame);
	case TCP_FRAME_DONE:
		return done_arrived(connection, frame);
	case TCP_FRAME_READY:
		if (connection->active_count == 1 && (int32_t)frame->value == connection->s.ready_tag &&
		    (int32_t)(frame->message - connection->s.ready_sequence) > 0)
			connection->s.ready_sequence = frame->message;
		return 0;
	case TCP_FRAME_ASK:
		asked(&connection->s, frame);
		return 0;
	case TCP_FRAME_EAGER_DONE:
		return window_freed(&connection->s, frame->value);
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
