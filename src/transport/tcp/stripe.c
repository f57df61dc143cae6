/* SPDX-License-Identifier: Apache-2.0 */
/* Which stream takes the next bytes of a connection, and how many. */
#include "base/clock.h"
#include "base/minmax.h"
#include "transport/tcp/tcp.h"

enum {
	/* With one stream to fill there is nothing to balance: fewer, longer frames. */
	LONG_FRAME = 4 << 20,
	/* A shorter one is not worth its system calls. */
	SHORT_FRAME = 16 << 10,
	UNMEASURED_BPS = 125 * 1000 * 1000,
	AHEAD_NS = 4 * 1000 * 1000, /* what a stream may have in flight beyond its path, in time at its own rate */
};

/*
 * Each of several is to have an equal part of what is open, in several segments, so that none waits long for the last one of
 * the oldest message: NCCL has 1 to 4 MiB open, and begins no more before that is through.
 */
size_t tcp_stripe_segment(const struct tcp_connection *connection)
{
	const size_t most = connection->transport->params->segment_bytes;
	uint64_t part;

	if (connection->active_count == 1)
		return LONG_FRAME;
	part = connection->s.open_bytes / (8ULL * tcp_data_streams(connection));
	if (part < SHORT_FRAME)
		part = SHORT_FRAME;
	return part < most ? (size_t)part : most;
}

static bool is_usable(const struct tcp_stream *stream)
{
	return stream->live && !stream->awaits_dead && !stream->rests;
}

static uint64_t in_flight(const struct tcp_stream *stream)
{
	return stream->tx_queued - stream->tx_acknowledged;
}

/* On a long path the rate is what was in flight: twice that, or it would never grow. */
static uint64_t most_in_flight(const struct tcp_stream *stream)
{
	const uint64_t rate_Bps = stream->rate_Bps ? stream->rate_Bps : UNMEASURED_BPS;

	return rate_Bps / 1000 * ((AHEAD_NS + 2 * stream->path_ns) / 1000) / 1000;
}

/* The turn of a stream that was not measured yet comes as if it were the fastest, or it would never be measured. */
static uint64_t assumed_rate_Bps(const struct tcp_connection *connection)
{
	uint64_t most_Bps = UNMEASURED_BPS;

	for (unsigned i = 0; i < connection->stream_count; i++)
		most_Bps = max_u64(most_Bps, connection->streams[i].rate_Bps);
	return most_Bps;
}

/* Until it has acknowledged as much and a segment more. */
static uint64_t ahead_ns(const struct tcp_stream *stream, uint64_t segment, uint64_t assumed_Bps)
{
	const uint64_t rate_Bps = stream->rate_Bps ? stream->rate_Bps : assumed_Bps;

	return (in_flight(stream) + segment) * 1000 / (rate_Bps / 1000000 + 1);
}

/* Frames come in pairs. The primary takes data where no other one is usable, and has an RTS queued more then. */
static unsigned pairs_left(const struct tcp_connection *connection, const struct tcp_stream *stream)
{
	const uint32_t used = stream->tx_tail - stream->tx_head + (stream->index == connection->s.primary);

	return is_usable(stream) && used < TCP_TX_FRAMES ? (TCP_TX_FRAMES - used) / 2 : 0;
}

static bool takes_data(const struct tcp_connection *connection, unsigned index)
{
	if (index == TCP_DETOUR_STREAM && connection->s.rest_ns)
		return false; /* what it has goes out; others carry as soon as they may */
	return index != connection->s.primary && tcp_stream_is_active(connection, index) &&
	       is_usable(&connection->streams[index]);
}

static bool only_primary_is_left(const struct tcp_connection *connection)
{
	for (unsigned i = 0; i < connection->stream_count; i++)
		if (takes_data(connection, i))
			return false;
	return true;
}

unsigned tcp_stripe_room(struct tcp_connection *connection)
{
	unsigned room = 0;

	if (only_primary_is_left(connection))
		return pairs_left(connection, &connection->streams[connection->s.primary]);
	for (unsigned i = 0; i < connection->stream_count; i++)
		room += takes_data(connection, i) ? pairs_left(connection, &connection->streams[i]) : 0;
	return room;
}

struct tcp_stream *tcp_stripe_least(struct tcp_connection *connection)
{
	const uint64_t segment = tcp_stripe_segment(connection), assumed_Bps = assumed_rate_Bps(connection);
	struct tcp_stream *best = NULL;
	uint64_t best_ns = UINT64_MAX;

	if (only_primary_is_left(connection))
		return &connection->streams[connection->s.primary];
	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];
		const uint64_t ns = ahead_ns(stream, segment, assumed_Bps);

		if (!takes_data(connection, i) || !pairs_left(connection, stream) || ns >= best_ns)
			continue;
		best_ns = ns;
		best = stream;
	}
	return best;
}

struct tcp_stream *tcp_stripe_pick(struct tcp_connection *connection)
{
	const uint64_t segment = tcp_stripe_segment(connection), assumed_Bps = assumed_rate_Bps(connection);
	struct tcp_stream *primary = &connection->streams[connection->s.primary], *best = NULL;
	uint64_t best_ns = UINT64_MAX;
	unsigned usable = 0;

	for (unsigned i = 0; i < connection->stream_count && connection->active_count > 1; i++) {
		struct tcp_stream *stream = &connection->streams[i];
		const uint64_t ns = ahead_ns(stream, segment, assumed_Bps);

		if (!takes_data(connection, i))
			continue;
		usable++;
		if (!tcp_stream_has_room(stream) || stream->tx_full ||
		    in_flight(stream) >= segment + most_in_flight(stream))
			continue;
		if (ns < best_ns) {
			best_ns = ns;
			best = stream;
		}
	}
	if (usable)
		return best;
	return is_usable(primary) && tcp_stream_has_room(primary) && !primary->tx_full ? primary : NULL;
}
