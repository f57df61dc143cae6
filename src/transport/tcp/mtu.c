/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/mtu.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#define STALL_NS   (150 * NS_PER_MS) /* less than Linux's shortest time-out */
#define REFUSED_NS (450 * NS_PER_MS) /* Linux tries again after half a second at the latest */
enum {
	/* Of so many only so many are repeated, before a size is known to work. Delayed acknowledgements repeat some in vain. */
	PROOF_PACKETS = 64,
	PROOF_REPEATED = 2,
	/* Repetitions of a packet whose size was lost on the way before, and of one that is tried. */
	ENOUGH_IF_LOST = 1,
	ENOUGH_IF_TRIED = 2,
	SILENT_BEATS = 4, /* what two sources of ticks make of one, twice */
	GAP_BEATS = 2,
	OUTAGE_BEATS = 3, /* by then such streams were dialled anew */
};

/* IP and TCP, without options. */
static unsigned headers_of(const struct sockaddr_storage *peer)
{
	return peer->ss_family == AF_INET6 ? 60 : 40;
}

static struct tcp_mtu_way *find(struct tcp_mtu_ways *ways, uint64_t way)
{
	for (unsigned i = 0; i < TCP_MTU_WAYS_MAX && i < ways->count; i++)
		if (ways->list[i].way == way)
			return &ways->list[i];
	return NULL;
}

static uint64_t way_of(const struct tcp_stream *stream)
{
	return tcp_pin_way(stream->dial->interface, &stream->peer);
}

/* A copy; all zero: nothing is known of it. */
static struct tcp_mtu_way known(struct tcp_transport *transport, uint64_t way)
{
	struct tcp_mtu_way copy = { 0 }, *found;

	pthread_mutex_lock(&transport->mtu.lock);
	found = find(&transport->mtu, way);
	if (found)
		copy = *found;
	pthread_mutex_unlock(&transport->mtu.lock);
	return copy;
}

void tcp_mtu_dial(struct tcp_transport *transport, struct tcp_dial *dial)
{
	struct tcp_mtu_way way;
	int segment_bytes;

	if (dial->interface < 0)
		return;
	way = known(transport, tcp_pin_way(dial->interface, &dial->peer));
	dial->packet_bytes = way.packet_bytes;
	dial->packet_works = way.works;
	segment_bytes = (int)(dial->packet_bytes - headers_of(&dial->peer));
	if (dial->packet_bytes)
		setsockopt(dial->fd, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof(segment_bytes));
}

/* Packets of that size, which is above the least, are lost. The size that streams are to be dialled with. */
static unsigned shrink(struct tcp_transport *transport, uint64_t way, unsigned lost_bytes)
{
	struct tcp_mtu_ways *ways = &transport->mtu;
	struct tcp_mtu_way *found;
	unsigned packet_bytes;

	pthread_mutex_lock(&ways->lock);
	found = find(ways, way);
	if (!found) {
		found = &ways->list[ways->count++ % TCP_MTU_WAYS_MAX];
		*found = (struct tcp_mtu_way){ .way = way };
	}
	/* Another stream may have found out before. */
	if (!found->packet_bytes || found->packet_bytes >= lost_bytes) {
		if (!found->packet_bytes)
			found->most_bytes = lost_bytes;
		found->lost_bytes = lost_bytes;
		found->works = false;
		found->packet_bytes = tcp_mtu_next(lost_bytes);
	}
	packet_bytes = found->packet_bytes;
	pthread_mutex_unlock(&ways->lock);
	return packet_bytes;
}

/* A stream of the same way that has nothing repeated: whether short frames arrive. */
static void add_other(const struct tcp_connection *connection, const struct tcp_stream *stream,
		      struct tcp_mtu_sample *sample)
{
	const uint64_t way = way_of(stream);

	for (unsigned i = 0; i < connection->stream_count && !sample->other; i++) {
		const struct tcp_stream *other = &connection->streams[i];
		struct tcp_socket_sent sent;

		if (other == stream || !other->live || !other->dial || way_of(other) != way ||
		    !tcp_socket_sent(other->fd, &sent) || sent.repeats)
			continue;
		sample->other = (uint64_t)other->epoch << 8 | (i + 1);
		sample->other_acknowledged = sent.acknowledged_bytes;
		sample->other_repeated = sent.repeated_segments;
	}
}

/*
 * For how long nothing came from the peer over the stream's way. Other ways may work while
 * this one is down, and do not count. The times are the kernel's: a busy process reads late.
 */
static uint64_t silent_ns(const struct tcp_connection *connection, const struct tcp_stream *stream,
			  const struct tcp_socket_sent *sent, uint64_t now_ns)
{
	const uint64_t way = way_of(stream);
	uint64_t least_ns = sent->silent_ns;

	for (unsigned i = 0; i < connection->stream_count; i++) {
		const struct tcp_stream *other = &connection->streams[i];
		struct tcp_socket_sent others;

		if (other != stream && other->live && other->dial && way_of(other) == way &&
		    clock_elapsed_ns(other->last_rx_ns, now_ns) < least_ns && tcp_socket_sent(other->fd, &others))
			least_ns = min_u64(least_ns, others.silent_ns);
	}
	return least_ns;
}

/* All of its way that send longer packets: what this one had would else go over them next. */
static void leave(struct tcp_connection *connection, struct tcp_stream *stream, unsigned lost_bytes, uint64_t now_ns)
{
	const uint64_t way = way_of(stream);
	const unsigned packet_bytes = shrink(connection->transport, way, lost_bytes);

	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *one = &connection->streams[i];

		if (one->live && one->dial && way_of(one) == way &&
		    (!one->dial->packet_bytes || one->dial->packet_bytes > packet_bytes))
			tcp_failover_lost(connection, one, "long packets are lost on its way", now_ns);
	}
}

static void say(const struct tcp_connection *connection, const struct tcp_stream *stream, const struct tcp_mtu_way *way)
{
	const struct tcp_interface *interface = &connection->transport->interfaces[stream->dial->interface];
	char text[TCP_ADDRESS_TEXT];

	log_warn(
		"packets of %u bytes from interface %s to host %s (%s) are lost on the way, those of %u bytes arrive: "
		"connections use these. Set the MTU of the switches between them to %u or more, or that of both hosts to %u",
		way->lost_bytes, interface->name, connection->peer_host, tcp_socket_text(&stream->peer, text),
		way->packet_bytes, interface->mtu_bytes, way->packet_bytes);
}

/* A size that is tried works, once many such packets have arrived. */
static void prove(struct tcp_connection *connection, struct tcp_stream *stream)
{
	struct tcp_mtu_ways *ways = &connection->transport->mtu;
	struct tcp_mtu *mtu = &stream->mtu;
	struct tcp_mtu_way *found, copy = { 0 };
	struct tcp_socket_sent sent;

	if (!tcp_socket_sent(stream->fd, &sent))
		return;
	if (sent.repeated_segments > mtu->repeated + PROOF_REPEATED) {
		mtu->repeated = sent.repeated_segments;
		mtu->acknowledged = sent.acknowledged_bytes;
	}
	if (sent.acknowledged_bytes - mtu->acknowledged < (uint64_t)PROOF_PACKETS * stream->dial->packet_bytes)
		return;
	stream->dial->packet_works = true;
	pthread_mutex_lock(&ways->lock);
	found = find(ways, way_of(stream));
	if (found && found->packet_bytes == stream->dial->packet_bytes && !found->works) {
		found->works = true;
		copy = *found;
	}
	pthread_mutex_unlock(&ways->lock);
	if (copy.works)
		say(connection, stream, &copy);
}

static bool is_tried(const struct tcp_mtu_way *way, const struct tcp_stream *stream)
{
	return way->packet_bytes && !way->works && stream->dial->packet_bytes == way->packet_bytes;
}

/* Its last socket was stuck, too. This one was connected, by short packets, and no long one has arrived since. */
static bool is_stuck_again(const struct tcp_stream *stream, const struct tcp_socket_sent *sent)
{
	return stream->mtu.stuck && sent->acknowledged_bytes - stream->acknowledged_before < TCP_MTU_LEAST;
}

static enum tcp_mtu_result look(struct tcp_connection *connection, struct tcp_stream *stream, uint64_t now_ns)
{
	const struct tcp_mtu_way way = known(connection->transport, way_of(stream));
	const unsigned headers = headers_of(&stream->peer);
	const uint64_t beat_ns = connection->transport->beat_ns;
	struct tcp_mtu_sample sample = { 0 };
	struct tcp_socket_sent sent;
	enum tcp_mtu_result result;

	if (!tcp_socket_sent(stream->fd, &sent))
		return TCP_MTU_FINE;
	sample.repeats = sent.repeats;
	if (sent.refused) /* a veth whose other end has the smaller MTU: the kernel tries again, and counts nothing */
		sample.repeats = (unsigned)min_u64(clock_elapsed_ns(stream->last_ack_ns, now_ns) / REFUSED_NS,
						   UINT32_MAX);
	sample.waiting_bytes = headers + sent.option_bytes + (unsigned)min_u64(sent.segment_bytes, sent.waiting_bytes);
	sample.heard_ns = less_u64(now_ns, silent_ns(connection, stream, &sent, now_ns));
	sample.peer_silent = clock_elapsed_ns(sample.heard_ns, now_ns) > SILENT_BEATS * beat_ns;
	sample.gap_ns = GAP_BEATS * beat_ns;
	sample.stalled_ns = clock_elapsed_ns(stream->last_ack_ns, now_ns);
	if (way.packet_bytes && sample.waiting_bytes > way.packet_bytes)
		sample.enough = ENOUGH_IF_LOST;
	else if (is_tried(&way, stream) || is_stuck_again(stream, &sent))
		sample.enough = ENOUGH_IF_TRIED;
	else if (sample.repeats)
		add_other(connection, stream, &sample);
	result = tcp_mtu_step(&stream->mtu.rule, &sample);
	if (result == TCP_MTU_LOST)
		leave(connection, stream, sample.waiting_bytes, now_ns);
	return result;
}

static void look_at_all(struct tcp_connection *connection, uint64_t now_ns)
{
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];
		const bool waits = stream->tx_written != stream->tx_acknowledged;
		enum tcp_mtu_result result = TCP_MTU_FINE;

		if (!stream->live || !stream->dial || stream->dial->interface < 0)
			continue;
		if (waits && clock_elapsed_ns(stream->last_ack_ns, now_ns) > STALL_NS)
			result = look(connection, stream, now_ns);
		stream->mtu.result = result;
		connection->s.mtu.looks |= result != TCP_MTU_FINE;
		if (stream->live && stream->dial->packet_bytes && !stream->dial->packet_works) {
			connection->s.mtu.looks |= waits;
			prove(connection, stream);
		}
	}
}

/* Something that the receiver needs is on its way. */
static bool has_sent(const struct tcp_connection *connection)
{
	if (connection->s.awaiting || connection->s.again_head != connection->s.again_tail)
		return true;
	for (unsigned i = 0; i < connection->stream_count; i++)
		if (connection->streams[i].live && tcp_stream_carries(&connection->streams[i], UINT64_MAX / 2))
			return true;
	return false;
}

/* Which sizes were tried; "": none. */
static const char *tried(const struct tcp_connection *connection, char *text, size_t bytes)
{
	*text = '\0';
	for (unsigned i = 0; i < connection->stream_count && !*text; i++) {
		const struct tcp_stream *stream = &connection->streams[i];
		struct tcp_mtu_way way = { 0 };

		if (stream->dial && stream->dial->interface >= 0)
			way = known(connection->transport, way_of(stream));
		if (way.most_bytes)
			snprintf(text, bytes, ", with packets of %u to %u bytes", way.most_bytes,
				 way.packet_bytes ? way.packet_bytes : TCP_MTU_LEAST);
	}
	return text;
}

/* Streams are dialled anew and the peer is heard over them, but nothing gets through. */
static void end_if_stuck(struct tcp_connection *connection, uint64_t now_ns)
{
	const uint64_t stuck_ns = clock_elapsed_ns(connection->s.mtu.moved_ns, now_ns);
	const uint64_t silent_ns = clock_elapsed_ns(connection->last_rx_ns, now_ns);
	char reason[256], sizes[64];

	/* failover.c ends connections to silent peers. */
	if (connection->outlives_silence || stuck_ns <= connection->transport->silence_ns ||
	    silent_ns > SILENT_BEATS * connection->transport->beat_ns)
		return;
	snprintf(reason, sizeof(reason),
		 "nothing sent to it has arrived for %.1f s (TRIBUTARY_TIMEOUT), though it was heard %.1f s ago; "
		 "streams were dialled anew %" PRIu64 " times%s",
		 (double)stuck_ns / NS_PER_S, (double)silent_ns / NS_PER_S, connection->counted.streams_redialled,
		 tried(connection, sizes, sizeof(sizes)));
	tcp_connection_fail(connection, -EREMOTEIO, reason);
}

/* Streams that stand still since then are dialled anew first (failover.c). */
static bool is_after_outage(const struct tcp_connection *connection, uint64_t now_ns)
{
	const uint64_t again_ns = connection->s.again_ns;

	return again_ns && clock_elapsed_ns(again_ns, now_ns) < OUTAGE_BEATS * connection->transport->beat_ns;
}

void tcp_mtu_watch(struct tcp_connection *connection, uint64_t looked_ns, uint64_t now_ns)
{
	if (connection->error)
		return;
	connection->s.mtu.moved_ns = clock_heard_ns(connection->s.mtu.moved_ns, looked_ns, now_ns,
						    2 * connection->transport->beat_ns);
	if (!has_sent(connection))
		connection->s.mtu.moved_ns = now_ns;
	connection->s.mtu.looks = false;
	/* A way that was lost loses short packets, too: nothing follows until its streams carry again. */
	if (!connection->s.rest_ns && !is_after_outage(connection, now_ns))
		look_at_all(connection, now_ns);
	end_if_stuck(connection, now_ns);
}
