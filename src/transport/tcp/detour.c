/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection whose own way brings nothing any more goes over another one. Nothing stands by: when all streams are silent,
 * or lost, or take nothing, a sender dials another way to the peer, and closes nothing meanwhile. The peer's WELCOME proves
 * that it lives, and so that the way is lost and not the peer stopped. Then stream DETOUR is that socket, the others are lost
 * by the rules of failover.c, and what they had goes over it. They are dialled anew over their own way. Once
 * a stream has brought bytes of the peer for some time (longer after each loss), it carries data again, and the detour
 * ends.
 *
 * A connection that did not find its devices' ports joined looks for a better way later, too: a port that was down as the job
 * began is used once it is up.
 */
#include "transport/tcp/dial.h"

#include "base/log.h"
#include "base/minmax.h"
#include "base/sys.h"

#include <string.h>

#define HEAR_NS        (100 * NS_PER_MS) /* from WELCOME on: a peer that was stopped sends its signs of life */
#define AGAIN_NS       NS_PER_S          /* no way was found */
#define REST_FIRST_NS  (2 * NS_PER_S)
#define REST_MOST_NS   (60 * NS_PER_S)
#define REST_FORGET_NS (60 * NS_PER_S) /* a loss so long ago has no part in the next one */
#define BETTER_TRY_NS  NS_PER_S        /* what a better way has to answer, later */
#define BETTER_MOST_NS (160 * NS_PER_S)
enum {
	DETOUR = TCP_DETOUR_STREAM,
	HEARD_BEATS = 2, /* what two sources of ticks make of one */
};

struct tcp_detour {
	struct tcp_race race;
	struct tcp_dial dial;
	struct tcp_dial own;       /* of the stream, before */
	bool races, taken, better; /* better: the race is for a better way, which stays */
	uint64_t ready_ns, again_at_ns;
	uint64_t rest_ns, lost_ns; /* what a stream that is back waits, and when the way was lost last */
};

void tcp_detour_free(struct tcp_connection *connection)
{
	struct tcp_detour *detour = connection->s.detour;

	if (!detour)
		return;
	if (detour->races)
		tcp_race_end(&detour->race);
	sys_close_socket(&detour->dial.fd);
	sys_free(detour);
	connection->s.detour = NULL;
}

static bool is_possible(const struct tcp_connection *connection)
{
	return connection->role == TCP_SENDER && connection->s.way_count && connection->stream_count > DETOUR &&
	       connection->streams[DETOUR].dial && !connection->streams[DETOUR].dial->peer_is_here;
}

bool tcp_detour_may_help(const struct tcp_connection *connection)
{
	const struct tcp_detour *detour = connection->s.detour;

	/* Until the first look nobody knows. */
	return is_possible(connection) && (!detour || detour->races);
}

/* Those that its streams have now bring nothing. */
static void leave_out_own(const struct tcp_connection *connection, struct tcp_race *race)
{
	for (unsigned i = 0; i < race->way_count; i++) {
		const struct tcp_way *way = &race->ways[i];

		race->dead[i] = way->rank == TCP_WAY_AS_ROUTED;
		for (unsigned k = 0; k < connection->stream_count; k++) {
			const struct tcp_dial *dial = connection->streams[k].dial;
			struct sockaddr_storage peer;

			tcp_socket_address(&way->peer, 0, &peer);
			race->dead[i] |= dial && dial->interface == way->interface &&
					 tcp_socket_same_address(&dial->peer, &peer);
		}
	}
}

/* Those that are no better than the present one. */
static void leave_out_worse(const struct tcp_connection *connection, struct tcp_race *race)
{
	const struct tcp_dial *dial = connection->streams[0].dial;
	struct tcp_way now = { .rank = TCP_WAY_AS_ROUTED };

	for (unsigned i = 0; i < race->way_count; i++) {
		struct sockaddr_storage peer;

		tcp_socket_address(&race->ways[i].peer, 0, &peer);
		if (dial && race->ways[i].interface == dial->interface && tcp_socket_same_address(&dial->peer, &peer))
			now = race->ways[i];
	}
	for (unsigned i = 0; i < race->way_count; i++)
		race->dead[i] |= !tcp_way_is_worse(&now, &race->ways[i]);
}

static bool is_hopeless(const struct tcp_race *race)
{
	for (unsigned i = 0; i < race->way_count; i++)
		if (!race->dead[i])
			return false;
	return true;
}

static void begin(struct tcp_connection *connection, struct tcp_detour *detour, uint64_t now_ns)
{
	const struct tcp_stream *stream = &connection->streams[DETOUR];
	const struct tcp_sender *s = &connection->s;
	struct tcp_race *race = &detour->race;

	memset(race, 0, sizeof(*race));
	detour->ready_ns = 0;
	detour->dial = *stream->dial;
	detour->dial.fd = -1;
	detour->dial.state = TCP_DIAL_START;
	race->epoch = (uint32_t)max_u64(stream->epoch, stream->dial->hello.epoch) + 1;
	detour->dial.hello.epoch = race->epoch;
	race->transport = connection->transport;
	race->device = connection->device;
	race->dial = &detour->dial;
	race->deadline_ns = detour->dial.deadline_ns = now_ns + connection->transport->timeout_ns;
	tcp_race_begin(race, s->ways, s->way_count, s->ways_own, now_ns);
	leave_out_own(connection, race);
	if (detour->better)
		leave_out_worse(connection, race);
	tcp_ways_spread(race->ways, race->dead, race->way_count, connection->id);
	detour->races = !is_hopeless(race);
	detour->again_at_ns = now_ns + AGAIN_NS;
}

static void give_up(struct tcp_detour *detour, uint64_t now_ns)
{
	tcp_race_end(&detour->race);
	sys_close_socket(&detour->dial.fd);
	detour->races = detour->better = false;
	detour->again_at_ns = now_ns + AGAIN_NS;
}

static void say_other_way(const struct tcp_connection *connection, const struct tcp_detour *detour, bool peer_heard)
{
	const struct tcp_transport *transport = connection->transport;
	const int interface = detour->dial.interface;
	char text[TCP_ADDRESS_TEXT];

	log_info(LOG_NET, "%s host %s%s; the connection goes over interface %s to %s %s",
		 detour->better ? "a better way leads to"
		 : peer_heard   ? "nothing gets to"
				: "nothing comes from",
		 connection->peer_host, detour->better ? "" : " any more",
		 interface < 0 ? "?" : transport->interfaces[interface].name, tcp_socket_text(&detour->dial.peer, text),
		 detour->better ? "now" : "meanwhile");
}

static bool is_among(const struct sockaddr_storage *peer, const struct tcp_wire_address *ways, unsigned count,
		     unsigned *ret_at)
{
	for (unsigned i = 0; i < count; i++) {
		struct sockaddr_storage address;

		*ret_at = i;
		tcp_socket_address(&ways[i], 0, &address);
		if (tcp_socket_same_address(&address, peer))
			return true;
	}
	return false;
}

void tcp_detour_note_ways(struct tcp_connection *connection, const struct tcp_wire_welcome *welcome, uint64_t now_ns)
{
	struct tcp_detour *detour = connection->s.detour;
	struct tcp_sender *s = &connection->s;

	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_dial *dial = i == DETOUR && detour && detour->taken ? &detour->own
									       : connection->streams[i].dial;
		unsigned at, same;

		if (!dial || !is_among(&dial->peer, s->ways, s->way_count, &at) || at >= welcome->way_count ||
		    is_among(&dial->peer, welcome->ways, welcome->way_count, &same) ||
		    welcome->ways[at].family != s->ways[at].family)
			continue;
		sys_close_socket(&dial->fd);
		tcp_dial_set_up(connection->transport, dial, &welcome->ways[at], dial->interface, now_ns);
		connection->streams[i].redial_at_ns = now_ns;
		connection->streams[i].redial_wait_ns = TCP_REDIAL_FIRST_NS;
	}
	s->way_count = welcome->way_count;
	s->ways_own = welcome->own_count;
	memcpy(s->ways, welcome->ways, sizeof(s->ways));
}

static void replace(struct tcp_connection *connection, struct tcp_detour *detour, uint64_t now_ns)
{
	struct tcp_stream *stream = &connection->streams[DETOUR];
	int fd = detour->dial.fd;

	detour->dial.fd = -1;
	sys_close_socket(&stream->dial->fd); /* it may have been dialled meanwhile */
	stream->dial->state = TCP_DIAL_START;
	if (!detour->taken)
		detour->own = *stream->dial;
	detour->races = false;
	detour->taken = true;
	tcp_detour_note_ways(connection, &detour->dial.welcome, now_ns);
	*stream->dial = detour->dial;
	stream->dial->state = TCP_DIAL_START;
	stream->dial->once = false;
	stream->dial->retry_at_ns = 0;
	detour->rest_ns = detour->lost_ns &&
					  clock_elapsed_ns(detour->lost_ns, now_ns) < detour->rest_ns + REST_FORGET_NS
				  ? min_u64(2 * detour->rest_ns, REST_MOST_NS)
				  : REST_FIRST_NS;
	detour->lost_ns = now_ns;
	connection->s.rest_ns = 0;
	tcp_failover_attach(connection, stream, fd, detour->dial.hello.epoch, now_ns);
	connection->s.rest_ns = detour->rest_ns;
	tcp_failover_watch_stream(connection, stream, now_ns);
}

/* All streams go there from now on. */
static void settle(struct tcp_connection *connection, struct tcp_detour *detour, uint64_t now_ns)
{
	struct tcp_stream *stream = &connection->streams[DETOUR];
	const struct tcp_dial *new = &detour->dial;
	int fd = detour->dial.fd;

	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_dial *dial = connection->streams[i].dial;

		if (!dial)
			continue;
		sys_close_socket(&dial->fd); /* it may have been dialled meanwhile */
		dial->state = TCP_DIAL_START;
		dial->peer = new->peer;
		dial->peer_bytes = new->peer_bytes;
		dial->interface = new->interface;
		dial->port = new->port;
		dial->tied_port = new->tied_port;
		dial->pin = new->pin;
		dial->packet_bytes = new->packet_bytes;
		dial->packet_works = new->packet_works;
		dial->retry_at_ns = 0;
	}
	detour->dial.fd = -1;
	detour->races = detour->better = false;
	if (stream->dial)
		stream->dial->hello.epoch = new->hello.epoch;
	tcp_failover_attach(connection, stream, fd, new->hello.epoch, now_ns);
	tcp_failover_watch_stream(connection, stream, now_ns);
}

/* Then it is what we send that does not arrive. */
static bool peer_is_heard(const struct tcp_connection *connection, uint64_t now_ns)
{
	return connection->live_count &&
	       clock_elapsed_ns(connection->last_rx_ns, now_ns) <= TCP_SILENCE_BEATS * connection->transport->beat_ns;
}

/* The way is there. A peer that was only stopped is heard over the old one, too. */
static void take(struct tcp_connection *connection, struct tcp_detour *detour, bool silent, uint64_t now_ns)
{
	struct tcp_stream *stream = &connection->streams[DETOUR];
	const bool peer_heard = peer_is_heard(connection, now_ns);

	if (detour->dial.hello.epoch <= stream->epoch) { /* it came back by itself, and the peer knows of that one */
		give_up(detour, now_ns);
		return;
	}
	if (stream->move == TCP_MOVE_CALL) { /* its mover sees to that first */
		shutdown(stream->fd, SHUT_RDWR);
		return;
	}
	if (silent || detour->better)
		say_other_way(connection, detour, peer_heard);
	tcp_failover_lost(connection, stream, "its connection takes another way", now_ns);
	for (unsigned i = 0; i < connection->stream_count && (silent || detour->better); i++)
		tcp_failover_lost(connection, &connection->streams[i],
				  detour->better ? "a better way is there"
				  : peer_heard   ? "it takes nothing"
						 : "it fell silent",
				  now_ns);
	if (!connection->error && detour->better)
		settle(connection, detour, now_ns);
	else if (!connection->error)
		replace(connection, detour, now_ns);
	if (silent)
		connection->last_rx_ns = connection->s.mtu.left_ns = now_ns; /* WELCOME */
}

static void race(struct tcp_connection *connection, struct tcp_detour *detour, bool silent, uint64_t now_ns)
{
	int r = detour->ready_ns ? 0 : tcp_race_step(&detour->race, now_ns);

	if (r > 0) {
		r = tcp_dial_step(connection->transport, &detour->dial, now_ns);
		if (r < 0)
			r = tcp_race_failed(&detour->race, r, now_ns);
	}
	if (r < 0)
		give_up(detour, now_ns);
	else if (detour->dial.state == TCP_DIAL_READY && !detour->ready_ns)
		detour->ready_ns = now_ns;
	else if (detour->ready_ns && (!connection->live_count || clock_elapsed_ns(detour->ready_ns, now_ns) > HEAR_NS))
		take(connection, detour, silent, now_ns);
}

static bool is_empty(const struct tcp_stream *stream)
{
	return !stream->live || !tcp_stream_carries(stream, stream->tx_queued);
}

/* The first stream is back, and carries what there is to carry. True: as soon as the detour has nothing under way. */
static bool come_back(struct tcp_connection *connection, struct tcp_detour *detour, uint64_t now_ns)
{
	struct tcp_stream *first = &connection->streams[0], *stream = &connection->streams[DETOUR];

	if (!first->live || first->awaits_dead || first->rests)
		return false;
	if (connection->s.primary || !is_empty(stream) || stream->move == TCP_MOVE_CALL)
		return true;
	detour->taken = false;
	connection->s.rest_ns = 0;
	log_info(LOG_NET, "the connection with host %s is back on its own way", connection->peer_host);
	detour->own.hello.epoch = stream->dial->hello.epoch;
	sys_close_socket(&stream->dial->fd);
	*stream->dial = detour->own;
	tcp_failover_lost(connection, stream, "its connection is back on its own way", now_ns);
	return false;
}

/* The kernel knows when data came in. A process that had no CPU reads late, and its clocks are moved (forgive()). */
static bool is_heard(const struct tcp_connection *connection, const struct tcp_stream *stream, uint64_t now_ns)
{
	const uint64_t most_ns = HEARD_BEATS * connection->transport->beat_ns;
	struct tcp_socket_sent sent;

	return (tcp_socket_sent(stream->fd, &sent) ? sent.silent_ns : clock_elapsed_ns(stream->last_rx_ns, now_ns)) <
	       most_ns;
}

/*
 * A stream that was dialled anew rests before it carries data: until the peer has been heard over it for a while, or no
 * other stream is live. Returns true if the rest of a stream ends soon.
 */
static bool let_rested_carry(struct tcp_connection *connection, uint64_t now_ns)
{
	const bool alone = !connection->streams[DETOUR].live;
	bool soon = false;

	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		if (stream->rests && stream->live && !is_heard(connection, stream, now_ns))
			stream->rests_until_ns = now_ns + connection->s.rest_ns;
		if (stream->rests && (alone || now_ns >= stream->rests_until_ns)) {
			stream->rests = false;
			connection->ready = true;
		}
		soon |= stream->rests && now_ns + connection->transport->beat_ns > stream->rests_until_ns;
	}
	return soon;
}

/* Whether to look for a better way. At first after ten seconds, ever more seldom. */
static bool looks_for_better(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_sender *s = &connection->s;

	if (!s->better_wait_ns || now_ns < s->better_at_ns || s->rest_ns || connection->live_count < 1)
		return false;
	s->better_wait_ns = min_u64(2 * s->better_wait_ns, BETTER_MOST_NS);
	s->better_at_ns = now_ns + s->better_wait_ns;
	return true;
}

bool tcp_detour_step(struct tcp_connection *connection, uint64_t now_ns)
{
	bool better = false, soon;
	struct tcp_detour *detour = connection->s.detour;
	const bool silent = tcp_connection_is_silent(connection, now_ns);
	const bool through = connection->error || (connection->closing && tcp_sender_is_empty(connection));

	if (through)
		tcp_detour_free(connection);
	if (through || !is_possible(connection))
		return false;
	if ((!detour || !detour->races) && !silent)
		better = looks_for_better(connection, now_ns);
	if (!detour && (silent || better)) {
		detour = connection->s.detour = sys_zalloc(sizeof(*detour));
		if (detour)
			detour->dial.fd = -1;
	}
	if (!detour)
		return false;
	soon = let_rested_carry(connection, now_ns);
	if (detour->races && detour->dial.state < TCP_DIAL_HELLO &&
	    (detour->better ? silent || clock_elapsed_ns(detour->race.begin_ns, now_ns) > BETTER_TRY_NS : !silent))
		give_up(detour, now_ns);
	if (!detour->races && (better || (silent && now_ns >= detour->again_at_ns))) {
		detour->better = better;
		begin(connection, detour, now_ns);
	}
	if (detour->races)
		race(connection, detour, silent, now_ns);
	else if (detour->taken)
		soon |= come_back(connection, detour, now_ns);
	return detour->races || soon;
}
