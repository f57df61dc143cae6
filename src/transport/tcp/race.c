/* SPDX-License-Identifier: Apache-2.0 */
/* Which way the first stream of a connection takes. */
#include "transport/tcp/dial.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

#define TRY_EVERY_NS   (25 * NS_PER_MS)
#define PATIENCE_NS    (50 * NS_PER_MS)
#define TRY_NS         (300 * NS_PER_MS) /* what a way has to be challenged, doubled by each round */
#define WELCOME_NS     NS_PER_S          /* the same for WELCOME */
#define OWN_TRY_NS     (1200 * NS_PER_MS) /* that of the devices' ports within a subnet: a lost SYN comes again after 1 s */
#define ROUND_EVERY_NS (50 * NS_PER_MS)
#define FAILED_NS      (10 * NS_PER_S) /* a way that failed is not tried before others */
#define SPLIT_NS       (10 * NS_PER_S) /* after two ports of a subnet did not connect, races do not wait for such pairs */
enum { REFUSED_MAX = 20, DETOUR_REFUSED_MAX = 3, ROUNDS_DOUBLED = 4 };

/* One that lost after HELLO, as a stranger does that says no more than a nonce, is taken where there is no other. */
static bool is_worse(const struct tcp_race *race, const struct tcp_way *a, const struct tcp_way *b)
{
	const bool spoiled_a = race->spoiled[a - race->ways], spoiled_b = race->spoiled[b - race->ways];

	return spoiled_a != spoiled_b ? spoiled_a : tcp_way_is_worse(a, b);
}

/* Of a connection that stands: its peer is there, or has gone. */
static bool is_detour(const struct tcp_race *race)
{
	return !race->dial->hello.listener_id;
}

static uint64_t hash_of(const struct tcp_way *way)
{
	struct sockaddr_storage peer;

	tcp_socket_address(&way->peer, 0, &peer);
	return tcp_pin_way(way->interface, &peer);
}

static bool has_failed_lately(const struct tcp_transport *transport, const struct tcp_way *way, uint64_t now_ns)
{
	const uint64_t hash = hash_of(way);

	for (unsigned i = 0; i < TCP_FAILED_WAYS_MAX; i++)
		if (transport->failed_ways[i].hash == hash)
			return clock_elapsed_ns(transport->failed_ways[i].at_ns, now_ns) < FAILED_NS;
	return false;
}

static void note_failed(struct tcp_transport *transport, const struct tcp_way *way, uint64_t now_ns)
{
	const uint64_t hash = hash_of(way);
	unsigned at = 0;

	for (unsigned i = 0; i < TCP_FAILED_WAYS_MAX; i++) {
		if (transport->failed_ways[i].hash == hash) {
			at = i;
			break;
		}
		if (transport->failed_ways[i].at_ns < transport->failed_ways[at].at_ns)
			at = i;
	}
	transport->failed_ways[at].hash = hash;
	transport->failed_ways[at].at_ns = now_ns;
}

void tcp_race_begin(struct tcp_race *race, const struct tcp_wire_address *peers, unsigned peer_count,
		    unsigned peers_own, uint64_t now_ns)
{
	const struct tcp_transport *transport = race->transport;
	const struct transport_device *device = &transport->devices.list[race->device];

	race->begin_ns = now_ns;
	race->taken = -1;
	for (unsigned i = 0; i < TCP_RACERS; i++)
		race->racers[i].way = -1;
	if (race->dial->peer_is_here || !device->rail_count)
		race->ways[race->way_count++] = (struct tcp_way){ .interface = TCP_WAY_ROUTED, .peer = peers[0] };
	else
		race->way_count = tcp_ways_find(transport->interfaces, transport->interface_count, device->members,
						device->rail_count, peers, peer_count, peers_own, race->ways);
}

static void leave(struct tcp_transport *transport, struct tcp_racer *racer)
{
	if (racer->way < 0)
		return;
	sys_close_socket(&racer->dial.fd);
	racer->way = -1;
	transport->racers--;
}

void tcp_race_end(struct tcp_race *race)
{
	for (unsigned i = 0; i < TCP_RACERS; i++)
		leave(race->transport, &race->racers[i]);
}

/* What a user is told of in the end; of those that failed alike the first. */
static bool tells_more(const struct tcp_dial *dial, const struct tcp_dial *than)
{
	const enum tcp_reach reach = tcp_dial_reach(dial), other = tcp_dial_reach(than);
	const bool nobody = reach == TCP_REACH_NO_HOST, silent = reach == TCP_REACH_SILENT;

	if (!than->last_error)
		return true;
	/* That nobody has an address the kernel finds out after some tries at it, and not in all. */
	if (((nobody && other == TCP_REACH_SILENT) || (silent && other == TCP_REACH_NO_HOST)) &&
	    tcp_socket_same_address(&dial->peer, &than->peer))
		return nobody;
	return reach > other;
}

static void failed(struct tcp_race *race, int way, struct tcp_dial *dial, int error, uint64_t now_ns)
{
	dial->last_error = error;
	if (tells_more(dial, &race->last)) {
		race->last = *dial;
		race->last.fd = -1;
	}
	if (dial->hello.epoch > race->epoch)
		race->epoch = dial->hello.epoch;
	if (error == -EPROTO || error == -EBUSY || (error == -ECONNREFUSED && dial->failed_in == TCP_DIAL_WELCOME))
		race->dead[way] = true;
	else if (error == -ECONNREFUSED)
		race->dead[way] = ++race->refused[way] >= (is_detour(race) ? DETOUR_REFUSED_MAX : REFUSED_MAX);
	else
		note_failed(race->transport, &race->ways[way], now_ns);
}

/* It leads to somebody, who is held up or a stranger: it may stay, but nobody waits for it. */
static bool is_held_up(const struct tcp_racer *racer, uint64_t now_ns)
{
	return racer->way >= 0 && racer->dial.state == TCP_DIAL_CHALLENGE && now_ns > racer->until_ns;
}

/* Of a socket that has no say for so long the other end may be gone, and what told of that, too. */
static bool may_be_half_open(const struct tcp_race *race, const struct tcp_racer *racer, uint64_t now_ns)
{
	return is_held_up(racer, now_ns) &&
	       clock_elapsed_ns(racer->until_ns, now_ns) > params_replace_ns(race->transport->params->timeout_ns);
}

/* An address that the peer refuses over a pinned way it refuses over any. */
static bool is_refused(const struct tcp_race *race, const struct tcp_way *way)
{
	for (unsigned i = 0; i < race->way_count; i++) {
		const struct tcp_wire_address *peer = &race->ways[i].peer;

		if (race->refused[i] && peer->family == way->peer.family && peer->port == way->peer.port &&
		    !memcmp(peer->bytes, way->peer.bytes, sizeof(peer->bytes)))
			return true;
	}
	return false;
}

static bool may_try(const struct tcp_race *race, const struct tcp_way *best, unsigned at, uint64_t now_ns)
{
	const struct tcp_way *way = &race->ways[at];
	const uint64_t replace_ns = params_replace_ns(race->transport->params->timeout_ns);

	if (race->dead[at] || (best && !is_worse(race, best, way)))
		return false;
	for (unsigned i = 0; i < TCP_RACERS; i++)
		if (race->racers[i].way == (int)at && !may_be_half_open(race, &race->racers[i], now_ns))
			return false;
	if (!race->round && has_failed_lately(race->transport, way, now_ns))
		return false;
	if (way->rank != TCP_WAY_AS_ROUTED)
		return true;
	/* Where the others do not even have an answer, or none is left. */
	if (is_refused(race, way))
		return false;
	for (unsigned i = 0; i < TCP_RACERS; i++)
		if (race->racers[i].way >= 0 && race->racers[i].dial.state >= TCP_DIAL_CHALLENGE)
			return false;
	for (unsigned i = 0; i < race->way_count; i++)
		if (!race->dead[i] && race->ways[i].rank != TCP_WAY_AS_ROUTED)
			return clock_elapsed_ns(race->begin_ns, now_ns) > replace_ns / TCP_PIN_TRIES;
	return true;
}

static void try_way(struct tcp_race *race, struct tcp_racer *racer, unsigned at, uint64_t now_ns)
{
	struct tcp_transport *transport = race->transport;
	const struct tcp_way *way = &race->ways[at];
	struct tcp_dial *dial = &racer->dial;

	for (unsigned i = 0; i < TCP_RACERS; i++)
		if (race->racers[i].way == (int)at)
			leave(transport, &race->racers[i]);
	leave(transport, racer);
	*dial = *race->dial;
	if (way->rank == TCP_WAY_AS_ROUTED) { /* of the device, for what is said of it */
		tcp_dial_set_up(transport, dial, &way->peer, transport->devices.list[race->device].members[0], now_ns);
		dial->pin = TCP_PIN_NONE;
		dial->gave_up = race->last.last_error != 0;
	} else {
		tcp_dial_set_up(transport, dial, &way->peer, way->interface, now_ns);
		dial->may_unpin = false;
	}
	dial->once = dial->held = true;
	dial->deadline_ns = race->deadline_ns;
	dial->hello.epoch = race->epoch;
	race->tried[at] = true;
	racer->way = (int)at;
	racer->since_ns = now_ns;
	racer->until_ns = now_ns + (TRY_NS << (race->round < ROUNDS_DOUBLED ? race->round : ROUNDS_DOUBLED));
	if (way->rank == TCP_WAY_OWN && way->neighbours && racer->until_ns < now_ns + OWN_TRY_NS)
		racer->until_ns = now_ns + OWN_TRY_NS;
	transport->racers++;
	race->next_ns = now_ns + TRY_EVERY_NS;
}

/* The best of those that have been challenged, or NULL. */
static struct tcp_racer *best_of(struct tcp_race *race)
{
	struct tcp_racer *best = NULL;

	for (unsigned i = 0; i < TCP_RACERS; i++) {
		struct tcp_racer *racer = &race->racers[i];

		if (racer->way >= 0 && racer->dial.state == TCP_DIAL_CHALLENGED &&
		    (!best || is_worse(race, &race->ways[best->way], &race->ways[racer->way])))
			best = racer;
	}
	return best;
}

/* -errno: that no way can help. */
static int step_racers(struct tcp_race *race, uint64_t now_ns)
{
	for (unsigned i = 0; i < TCP_RACERS; i++) {
		struct tcp_racer *racer = &race->racers[i];
		int r;

		if (racer->way < 0)
			continue;
		r = tcp_dial_step(race->transport, &racer->dial, now_ns);
		if (r == 0 && racer->dial.state == TCP_DIAL_CHALLENGED && !race->challenged_ns)
			race->challenged_ns = now_ns;
		/* Who is held up may keep a new connection's socket; a detour is for those that answer. */
		if (r == 0 && now_ns > racer->until_ns &&
		    racer->dial.state < (is_detour(race) ? TCP_DIAL_CHALLENGED : TCP_DIAL_CHALLENGE)) {
			racer->dial.failed_in = racer->dial.state;
			r = -ETIMEDOUT;
		}
		if (r < 0) {
			failed(race, racer->way, &racer->dial, r, now_ns);
			leave(race->transport, racer);
		}
		if ((r == -EMFILE || r == -ENFILE) && !best_of(race))
			return r;
	}
	return 0;
}

/* -1: none is left in this round. */
static int next_way(const struct tcp_race *race, const struct tcp_way *best, uint64_t now_ns)
{
	for (unsigned i = 0; i < race->way_count; i++)
		if (!race->tried[i] && may_try(race, best, i, now_ns))
			return (int)i;
	return -1;
}

static struct tcp_racer *free_racer(struct tcp_race *race, uint64_t now_ns)
{
	struct tcp_racer *held_up = NULL;

	for (unsigned i = 0; i < TCP_RACERS; i++) {
		if (race->racers[i].way < 0)
			return &race->racers[i];
		if (is_held_up(&race->racers[i], now_ns))
			held_up = &race->racers[i];
	}
	return held_up;
}

/* False: nothing is left that could be better than what there is. */
static bool begin_more(struct tcp_race *race, const struct tcp_way *best, uint64_t now_ns)
{
	struct tcp_racer *racer = free_racer(race, now_ns);
	const int way = next_way(race, best, now_ns);
	bool open = false, alone = true;

	for (unsigned i = 0; i < TCP_RACERS; i++) {
		alone &= race->racers[i].way < 0;
		open |= race->racers[i].way >= 0 && race->racers[i].dial.state < TCP_DIAL_CHALLENGED &&
			!is_held_up(&race->racers[i], now_ns) &&
			(!best || is_worse(race, best, &race->ways[race->racers[i].way]));
	}
	if (way < 0 || !racer)
		return open;
	if (alone || ((!open || now_ns >= race->next_ns) && race->transport->racers < TCP_RACERS_MAX))
		try_way(race, racer, (unsigned)way, now_ns);
	return true;
}

/* All have had their time. */
static int end_round(struct tcp_race *race, uint64_t now_ns)
{
	bool all_dead = true;

	for (unsigned i = 0; i < race->way_count; i++)
		all_dead &= race->dead[i] ||
			    (race->ways[i].rank == TCP_WAY_AS_ROUTED && is_refused(race, &race->ways[i]));
	if (now_ns > race->deadline_ns || all_dead)
		return race->last.last_error ? race->last.last_error : race->way_count ? -ETIMEDOUT : -ENETUNREACH;
	memset(race->tried, 0, sizeof(race->tried));
	race->round++;
	race->rests_until_ns = now_ns + ROUND_EVERY_NS;
	return 0;
}

static bool is_faster(const struct tcp_race *race, const struct tcp_way *way)
{
	for (unsigned i = 0; i < race->way_count; i++)
		if (race->ways[i].rank == TCP_WAY_OWN && tcp_way_is_worse(&race->ways[i], way))
			return true;
	return false;
}

static bool waits_for_neighbour(const struct tcp_race *race, const struct tcp_racer *racer)
{
	return racer->way >= 0 && race->ways[racer->way].neighbours && racer->dial.state < TCP_DIAL_CHALLENGE;
}

/* One pair of ports in a subnet that is not joined: others may not be, either. */
static void note_split(const struct tcp_race *race, uint64_t now_ns)
{
	bool is_split = false;

	for (unsigned i = 0; i < race->way_count; i++)
		is_split |= race->ways[i].neighbours && has_failed_lately(race->transport, &race->ways[i], now_ns);
	for (unsigned i = 0; i < TCP_RACERS; i++)
		is_split |= waits_for_neighbour(race, &race->racers[i]) &&
			    clock_elapsed_ns(race->racers[i].since_ns, now_ns) >= PATIENCE_NS;
	if (is_split)
		race->transport->split_ns = now_ns;
}

/* The racer's socket is the first dial's; the others leave. */
static void take(struct tcp_race *race, struct tcp_racer *racer, uint64_t now_ns)
{
	struct tcp_dial *dial = race->dial;

	note_split(race, now_ns);
	race->taken = racer->way;
	*dial = racer->dial;
	racer->dial.fd = -1;
	dial->held = false;
	dial->may_unpin = true;
	dial->deadline_ns = now_ns + (WELCOME_NS << (race->round < ROUNDS_DOUBLED ? race->round : ROUNDS_DOUBLED));
	if (dial->deadline_ns > race->deadline_ns)
		dial->deadline_ns = race->deadline_ns;
	tcp_race_end(race);
	race->challenged_ns = 0;
}

static uint64_t patience_ns(const struct tcp_race *race, const struct tcp_racer *best, uint64_t now_ns)
{
	const uint64_t split_ns = race->transport->split_ns;

	if (split_ns && clock_elapsed_ns(split_ns, now_ns) < SPLIT_NS)
		return PATIENCE_NS;
	for (unsigned i = 0; i < TCP_RACERS; i++) {
		const struct tcp_racer *racer = &race->racers[i];

		if (waits_for_neighbour(race, racer) && race->ways[racer->way].rank == TCP_WAY_OWN &&
		    is_worse(race, &race->ways[best->way], &race->ways[racer->way]))
			return OWN_TRY_NS;
	}
	return PATIENCE_NS;
}

int tcp_race_step(struct tcp_race *race, uint64_t now_ns)
{
	struct tcp_racer *best;
	bool more;
	int r;

	if (race->taken >= 0)
		return 1;
	r = step_racers(race, now_ns);
	if (r < 0)
		return r;
	best = best_of(race);
	if (!best && now_ns < race->rests_until_ns)
		return 0;
	more = begin_more(race, best ? &race->ways[best->way] : NULL, now_ns);
	best = best_of(race);
	if (best && (!more || clock_elapsed_ns(race->challenged_ns, now_ns) >= patience_ns(race, best, now_ns))) {
		take(race, best, now_ns);
		return 1;
	}
	return more || best ? 0 : end_round(race, now_ns);
}

int tcp_race_failed(struct tcp_race *race, int error, uint64_t now_ns)
{
	struct tcp_dial *dial = race->dial;

	if (dial->state >= TCP_DIAL_HELLO) /* it may have been taken there */
		dial->hello.epoch++;
	sys_close_socket(&dial->fd);
	dial->state = TCP_DIAL_START;
	failed(race, race->taken, dial, error, now_ns);
	race->spoiled[race->taken] = true;
	race->taken = -1;
	return end_round(race, now_ns);
}

void tcp_race_say(const struct tcp_race *race)
{
	static _Atomic uint64_t said[256];
	const struct tcp_way *way = &race->ways[race->taken];
	const struct tcp_transport *transport = race->transport;
	const struct tcp_dial *dial = race->dial;
	const uint64_t hash = hash_bytes(hash_of(way) ^ transport->host_id, &race->device, sizeof(race->device));
	char text[TCP_ADDRESS_TEXT];

	if (way->rank == TCP_WAY_OWN || way->rank == TCP_WAY_AS_ROUTED ||
	    atomic_exchange(&said[hash % 256], hash) == hash)
		return;
	log_info(LOG_NET, "connections of device %s with host %s go from interface %s to %s: %s",
		 transport->devices.list[race->device].name, dial->host, transport->interfaces[way->interface].name,
		 tcp_socket_text(&dial->peer, text),
		 is_faster(race, way) ? "that way is faster" : "the two devices' ports are not joined");
}
