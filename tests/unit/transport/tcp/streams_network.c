/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "support/random.h"
#include "streams_network.h"

#include <math.h>
#include <string.h>

enum {
	TICK_MS = 10,
	DIAL_MS = 3,
	HOLD_BYTES = 48 << 10, /* of a stream: segment, what one acknowledgement covers, its round trip */
	SEGMENT_BYTES = 16 << 10,
};
#define STEP_S 1e-3

static bool within(double now_s, double from_s, double until_s)
{
	return (from_s <= 0 && until_s <= 0) || (now_s >= from_s && now_s < until_s);
}

double network_seconds(const struct scenario *scenario)
{
	return scenario->seconds > 0 ? scenario->seconds : 10;
}

static double window_of(const struct scenario *scenario)
{
	return (scenario->open_mib > 0 ? scenario->open_mib : 2) * (1 << 20);
}

static void dial(struct network *network, struct connection *connection, unsigned stream)
{
	static const double unequal[] = { 1, 0.5, 0.25, 0.125 };
	uint64_t hash = random_next(&network->random);

	connection->dialling |= 1U << stream;
	connection->dialled_s[stream] = network->now_s;
	connection->path[stream] = (unsigned)(hash % PATHS);
	connection->cap[stream] = network->scenario->caps == CAPS_UNEQUAL ? unequal[hash / PATHS % 4] : 1;
	network->dialled++;
}

/* NCCL's two trees of four hosts, in both directions. From whom each has what it sends: one or two that were before, or none. */
static const struct {
	unsigned from, to;
	int needs[2];
} trees[CONNECTIONS_MOST] = {
	{ 1, 2, { -1, -1 } }, { 3, 2, { -1, -1 } }, { 2, 0, { 0, 1 } }, { 0, 2, { 2, 2 } }, { 2, 1, { 3, 3 } }, { 2, 3, { 3, 3 } },
	{ 0, 1, { -1, -1 } }, { 2, 1, { -1, -1 } }, { 1, 3, { 6, 7 } }, { 3, 1, { 8, 8 } }, { 1, 0, { 9, 9 } }, { 1, 2, { 9, 9 } },
};

static void place(struct connection *connection, const struct scenario *scenario, unsigned index)
{
	connection->port = scenario->one_way ? 0 : index;
	connection->receiver = scenario->pattern == PATTERN_INCAST ? 0 : index;
	if (scenario->pattern == PATTERN_ALLTOALL) {
		connection->port = index / 3;
		connection->receiver = (connection->port + 1 + index % 3) % 4;
	} else if (scenario->pattern == PATTERN_TREES) {
		connection->port = trees[index].from;
		connection->receiver = trees[index].to;
	}
	connection->sender.host = 1 + connection->port;
}

void network_make(struct network *network, const struct scenario *scenario, uint64_t seed, unsigned fixed)
{
	memset(network, 0, sizeof(*network));
	network->scenario = scenario;
	network->random = seed;
	network->fixed = fixed;
	network->connection_count = scenario->connections ? scenario->connections : 1;
	for (unsigned i = 0; i < network->connection_count; i++) {
		struct connection *connection = &network->connections[i];

		tcp_streams_init(&connection->streams);
		for (unsigned k = 0; k < (fixed ? fixed : 1); k++)
			dial(network, connection, k);
		connection->ready = connection->dialling;
		connection->dialling = 0;
		place(connection, scenario, i);
		connection->answer.open = connection->answer.active = connection->ready;
		connection->open_bytes = window_of(scenario) / (scenario->ring ? 2 : 1);
		connection->settled_count = 1;
		network->ways[i].random = seed + i;
		network->turn[i] = -1;
	}
	network->dialled = 0;
	for (unsigned i = 0; i < CONNECTIONS_MOST; i++)
		pace_port_init(&network->receivers[i], (uint64_t)(scenario->receiver_hint * PORT_BPS / 0.94));
	for (unsigned i = 0; i < CONNECTIONS_MOST; i++)
		network->receivers[i].sends = scenario->pattern != PATTERN_INCAST;
	for (unsigned i = 0; i < network->connection_count; i++)
		pace_port_join(&network->receivers[network->connections[i].receiver], &network->connections[i].sender);
}

static double link_capacity(const struct network *network, int link)
{
	const struct scenario *scenario = network->scenario;

	if (link < LINK_SHARED) /* ports */
		return PORT_BPS * network->link_noise[link];
	return (link == LINK_SHARED ? scenario->shared : 0.25) * PORT_BPS * network->link_noise[link];
}

static double flow_cap(const struct network *network, unsigned index, unsigned stream)
{
	const struct scenario *scenario = network->scenario;
	const struct connection *connection = &network->connections[index];
	double cap = PORT_BPS;

	if (scenario->caps && within(network->now_s, scenario->cap_from_s, scenario->cap_until_s) &&
	    (!scenario->one_capped || index == 0))
		cap = scenario->cap * connection->cap[stream] * PORT_BPS;
	if (scenario->round_trip_s > 0) { /* slow start: ten segments, doubled each round trip */
		double trips = (network->now_s - connection->dialled_s[stream]) / scenario->round_trip_s;
		double ramp = 14600 * pow(2, trips < 20 ? trips : 20) / scenario->round_trip_s;

		cap = ramp < cap ? ramp : cap;
	}
	return cap * network->stream_noise[index][stream];
}

static void add_flow(struct network *network, struct connection *connection, unsigned stream, double cap)
{
	const struct scenario *scenario = network->scenario;

	network->flows[network->flow_count++] = (struct flow){
		.connection = connection,
		.stream = stream,
		.link = { connection ? (int)connection->port : -1,
			  connection && scenario->pattern ? (int)(LINK_RECEIVERS + connection->receiver) : -1,
			  scenario->shared > 0 ? LINK_SHARED : -1,
			  connection && scenario->paths ? (int)(LINK_PATHS + connection->path[stream]) : -1 },
		.cap = cap,
	};
}

/* Progressive filling: whoever is bounded lowest, by a link's share or its cap, is fixed first. */
static void share_links(struct network *network)
{
	double left[LINKS];
	unsigned users[LINKS] = { 0 }, open = network->flow_count;

	for (int i = 0; i < LINKS; i++)
		left[i] = link_capacity(network, i);
	for (unsigned i = 0; i < network->flow_count; i++)
		for (unsigned k = 0; k < 4; k++)
			if (network->flows[i].link[k] >= 0)
				users[network->flows[i].link[k]]++;
	while (open) {
		double level = INFINITY;

		for (unsigned i = 0; i < network->flow_count; i++) {
			struct flow *flow = &network->flows[i];

			if (flow->fixed)
				continue;
			flow->rate = flow->cap;
			for (unsigned k = 0; k < 4; k++)
				if (flow->link[k] >= 0)
					flow->rate = fmin(flow->rate, left[flow->link[k]] / users[flow->link[k]]);
			level = fmin(level, flow->rate);
		}
		for (unsigned i = 0; i < network->flow_count; i++) {
			struct flow *flow = &network->flows[i];

			if (flow->fixed || flow->rate > level * (1 + 1e-9))
				continue;
			flow->fixed = true;
			open--;
			for (unsigned k = 0; k < 4; k++) {
				if (flow->link[k] >= 0) {
					left[flow->link[k]] -= level;
					users[flow->link[k]]--;
				}
			}
		}
	}
}

/* Streams that have data: each at least a segment. */
static uint32_t busy_streams(const struct connection *connection)
{
	uint32_t busy = 0;
	double bytes = connection->open_bytes;

	for (unsigned i = 0; i < TCP_STREAMS_RAIL_MAX && bytes > 0; i++) {
		if (connection->answer.active >> i & 1) {
			busy |= 1U << i;
			bytes -= SEGMENT_BYTES;
		}
	}
	return busy;
}

static void collect_flows(struct network *network)
{
	network->flow_count = 0;
	for (unsigned i = 0; i < network->connection_count; i++) {
		uint32_t busy = busy_streams(&network->connections[i]);

		for (unsigned k = 0; k < TCP_STREAMS_RAIL_MAX; k++)
			if (busy >> k & 1)
				add_flow(network, &network->connections[i], k, flow_cap(network, i, k));
	}
	for (unsigned i = 0; i < network->scenario->foreign; i++)
		add_flow(network, NULL, 0, PORT_BPS);
}

static void move_bytes(struct network *network)
{
	const unsigned bucket = (unsigned)(network->now_s * 100);

	for (unsigned i = 0; i < network->connection_count; i++)
		memset(network->connections[i].moved, 0, sizeof(network->connections[i].moved));
	for (unsigned i = 0; i < network->flow_count; i++) {
		const struct flow *flow = &network->flows[i];

		if (flow->connection)
			flow->connection->moved[flow->stream] = flow->rate * STEP_S;
		else
			network->foreign_bytes[bucket] += flow->rate * STEP_S;
	}
}

/* What it sent of what it may send goes to the receiver, or the next hop, and is counted as the sender counts. */
static double account(struct network *network, struct connection *connection, double may_bytes, unsigned bucket)
{
	struct tcp_streams_sample *sample = &connection->sample;
	const unsigned streams = (unsigned)__builtin_popcount(connection->answer.active);
	double limit = connection->answer.waits_above_bytes ? (double)connection->answer.waits_above_bytes
							    : (double)HOLD_BYTES * streams;
	double sum = 0;

	for (unsigned k = 0; k < TCP_STREAMS_RAIL_MAX; k++)
		sum += connection->moved[k];
	double part = sum > may_bytes ? may_bytes / sum : 1;

	const bool has_message = may_bytes > 1 || connection->open_bytes > 1 || network->scenario->receiver > 0;

	if (may_bytes > limit)
		sample->waited_ns += NS_PER_MS;
	else if (may_bytes <= 1 && has_message)
		sample->unwaited_ns += NS_PER_MS;
	if (may_bytes > limit)
		sample->flight_bytes = (uint64_t)fmin(limit, may_bytes);
	*(has_message ? &sample->elapsed_ns : &sample->rested_ns) += NS_PER_MS;
	for (unsigned k = 0; k < TCP_STREAMS_RAIL_MAX; k++) {
		uint64_t bytes = (uint64_t)(connection->moved[k] * part);

		sample->acknowledged_bytes += bytes;
		if (may_bytes > limit)
			sample->waited_bytes[k] += bytes;
	}
	sum *= part;
	network->port_bytes[connection->port] += sum * 1.01; /* words */
	connection->sent += sum;
	network->carried[bucket] += sum;
	return sum;
}

/* A hop of a tree has sent so much more than it may, or less. */
static double tree_may(const struct network *network, unsigned index, double window)
{
	const struct connection *all = network->connections;
	double may = window;

	for (unsigned k = 0; k < 2; k++)
		if (trees[index].needs[k] >= 0)
			may = fmin(may, all[trees[index].needs[k]].sent - all[index].sent);
	for (unsigned i = 0; i < network->connection_count; i++) /* the next hop has room for a window */
		for (unsigned k = 0; k < 2; k++)
			if (trees[i].needs[k] == (int)index)
				may = fmin(may, all[i].sent + window - all[index].sent);
	return fmax(0, may);
}

static void receive(struct network *network, const double *sent)
{
	const uint64_t now_ns = NS_PER_S + (uint64_t)(network->now_s * 1e9);
	bool busy[CONNECTIONS_MOST] = { false };

	for (unsigned i = 0; i < network->connection_count; i++) {
		struct connection *connection = &network->connections[i];
		struct pace_port *receiver = &network->receivers[connection->receiver];

		if (connection->sender.coming_count && !busy[connection->receiver])
			pace_port_pass(receiver, NS_PER_MS);
		busy[connection->receiver] |= connection->sender.coming_count;
		pace_port_came(receiver, &connection->sender, (uint64_t)sent[i], now_ns);
		pace_port_turns(receiver, &connection->sender, now_ns);
		connection->sender.coming_count = connection->open_bytes > 1;
	}
}

/* All begin again when the last one is done. */
static void begin_round(struct network *network)
{
	for (unsigned i = 0; i < network->connection_count; i++)
		if (network->connections[i].open_bytes > 1)
			return;
	for (unsigned i = 0; i < network->connection_count; i++)
		network->connections[i].open_bytes = network->scenario->round_mib * (1 << 20);
}

static void deliver(struct network *network)
{
	const struct scenario *scenario = network->scenario;
	const unsigned bucket = (unsigned)(network->now_s * 100), count = network->connection_count;
	const double window = window_of(scenario), takes = scenario->receiver * PORT_BPS * STEP_S;
	double sent[CONNECTIONS_MOST], may[CONNECTIONS_MOST];

	if (scenario->round_mib > 0)
		begin_round(network);
	for (unsigned i = 0; i < count; i++) {
		struct connection *connection = &network->connections[i];

		may[i] = scenario->pattern == PATTERN_TREES ? tree_may(network, i, window) : fmax(0, connection->open_bytes);
		if (scenario->ring) /* the next hop has room for a window */
			may[i] = fmin(may[i], fmax(0, window - network->connections[(i + 1) % count].open_bytes));
	}
	if (scenario->burst_s > 0)
		for (unsigned i = 0; i < count; i++)
			if (fmod(network->now_s + 1e-6, scenario->burst_s) < STEP_S)
				network->connections[i].open_bytes = may[i] = window;
	for (unsigned i = 1; i < count && scenario->alone_from_s > 0 && network->now_s >= scenario->alone_from_s; i++) {
		network->connections[i].open_bytes = may[i] = 0;
		if (network->turn[0] == (int)i) /* it is lost soon after the last step */
			network->turn[0] = -1;
	}
	for (unsigned i = 0; i < count; i++)
		sent[i] = account(network, &network->connections[i], may[i], bucket);
	for (unsigned i = 0; i < count; i++) {
		struct connection *connection = &network->connections[i];

		if (scenario->ring) {
			connection->open_bytes -= sent[i];
			network->connections[(i + 1) % count].open_bytes += sent[i];
		} else if (scenario->burst_s > 0) {
			connection->open_bytes -= sent[i];
		} else if (scenario->receiver > 0) {
			connection->unconsumed = fmax(0, connection->unconsumed + sent[i] - takes);
			connection->open_bytes = window - connection->unconsumed;
		} else if (scenario->round_mib > 0) {
			connection->open_bytes -= sent[i];
		} else if (scenario->pattern == PATTERN_TREES) {
			connection->open_bytes = tree_may(network, i, window);
		}
	}
	if (scenario->pattern)
		receive(network, sent);
}

/* What the receiver's port says of all senders. */
static void hear_receiver(struct connection *connection, struct pace_port *receiver, struct tcp_streams_sample *sample)
{
	struct pace_port_others others;

	sample->competes = true;
	sample->receiver_full = pace_port_is_full(receiver);
	sample->turn = sample->turn && pace_port_turn(receiver, sample->now_ns) == &connection->sender;
	if (!sample->turn)
		return;
	others = pace_port_others(receiver, sample->now_ns);
	sample->others = (struct tcp_streams_others){ others.measured_ns != 0, others.kept, others.lost_Bps, others.each_Bps };
}

static void take_answer(struct network *network, struct connection *connection, int way)
{
	const unsigned index = (unsigned)(connection - network->connections);
	const struct tcp_streams_answer *answer = &connection->answer;
	const bool late = network->now_s >= network_seconds(network->scenario) - 5;
	enum tcp_streams_state state = connection->streams.state, before = connection->state_before;
	unsigned count = (unsigned)__builtin_popcount(answer->open);

	assert_int_equal(answer->active & ~answer->open, 0);
	assert_int_equal(answer->active & ~connection->ready, 0);
	assert_true(answer->active);
	connection->ready &= answer->open;
	connection->dialling &= answer->open;
	for (unsigned k = 0; k < TCP_STREAMS_RAIL_MAX; k++)
		if (answer->open >> k & 1 && !((connection->ready | connection->dialling) >> k & 1))
			dial(network, connection, k);
	if (answer->turn && network->turn[way] < 0)
		network->turn[way] = (int)index;
	if (!answer->turn && network->turn[way] == (int)index)
		network->turn[way] = -1;
	if (before == TCP_STREAMS_BASE && state == TCP_STREAMS_MORE)
		connection->trial_from = connection->streams.before;
	if ((before == TCP_STREAMS_MORE || before == TCP_STREAMS_AGAIN) && state == TCP_STREAMS_SETTLED &&
	    answer->open == connection->trial_from) {
		network->failed++;
		network->failed_late += late;
	}
	if (state == TCP_STREAMS_SETTLED && !connection->dialling && count != connection->settled_count) {
		network->changes_late += late;
		connection->settled_count = count;
	}
	if (late && count > network->open_most_late && state == TCP_STREAMS_SETTLED)
		network->open_most_late = count;
	connection->state_before = state;
}

/* What earlier jobs kept is there with the first tick after it was asked for. */
static void recall(struct network *network, const struct connection *connection, int way)
{
	static const struct tcp_interface interface = { .name = "eth0", .address.ss_family = AF_INET };
	static const struct sockaddr_storage peer = { .ss_family = AF_INET };
	struct tcp_growth_recall *recall = &network->recall[way];

	if (network->memory) {
		if (connection->answer.turn)
			tcp_growth_memory_ask(network->memory, recall, &interface, &peer);
		assert_true(log_drain(10000));
		tcp_growth_memory_recall(network->memory, recall, &network->ways[way]);
	} else if (connection->answer.turn && !recall->recalled) {
		network->ways[way].remembered = network->scenario->remembered;
		recall->recalled = true;
	}
}

static void tick(struct network *network, struct connection *connection)
{
	const struct scenario *scenario = network->scenario;
	const unsigned index = (unsigned)(connection - network->connections);
	const int way = scenario->one_way ? 0 : (int)index;
	struct pace_port *receiver = &network->receivers[connection->receiver];
	struct tcp_streams_sample *sample = &connection->sample;

	for (unsigned k = 0; k < TCP_STREAMS_RAIL_MAX; k++) {
		if (connection->dialling >> k & 1 && (!scenario->answered || k < scenario->answered) &&
		    network->now_s >= connection->dialled_s[k] + DIAL_MS * 1e-3 + 2 * scenario->round_trip_s) {
			connection->dialling &= ~(1U << k);
			connection->ready |= 1U << k;
			connection->dialled_s[k] = network->now_s;
		}
	}
	sample->now_ns = NS_PER_S + (uint64_t)(network->now_s * 1e9);
	sample->path_ns = (uint64_t)(scenario->round_trip_s > 0 ? scenario->round_trip_s * 1e9 : 100e3);
	sample->port_Bps = (uint64_t)(scenario->hint * PORT_BPS);
	sample->ready = connection->ready;
	sample->most = scenario->most && within(network->now_s, scenario->most_from_s, scenario->most_until_s)
			       ? scenario->most
			       : 0;
	sample->turn = network->turn[way] == (int)index;
	if (scenario->pattern)
		hear_receiver(connection, receiver, sample);
	if (connection->answer.detailed)
		sample->port_bytes = (uint64_t)(network->port_bytes[connection->port] - connection->port_seen);
	connection->port_seen = network->port_bytes[connection->port];
	recall(network, connection, way);
	tcp_streams_step(&connection->streams, &network->ways[way], sample, &connection->answer);
	if (network->memory)
		tcp_growth_memory_note(network->memory, &network->recall[way], &network->ways[way]);
	if (sample->most)
		assert_in_range(__builtin_popcount(connection->answer.active), 1, sample->most);
	take_answer(network, connection, way);
	if (scenario->pattern)
		pace_port_want(receiver, &connection->sender, connection->answer.turn && network->turn[way] == (int)index,
			       (unsigned)__builtin_popcount(connection->answer.active), sample->now_ns);
	network->detailed += connection->answer.detailed;
	memset(sample, 0, sizeof(*sample));
}

static void draw_noise(struct network *network)
{
	const double noise = network->scenario->noise;

	for (unsigned i = 0; i < LINKS; i++)
		network->link_noise[i] = 1;
	for (unsigned i = 0; i < LINKS && noise > 0; i++)
		if (network->scenario->pattern || i < 8 || i >= LINK_SHARED)
			network->link_noise[i] = random_between(&network->random, 1 - noise, 1 + noise);
	for (unsigned i = 0; i < network->connection_count; i++)
		for (unsigned k = 0; k < TCP_STREAMS_RAIL_MAX; k++)
			network->stream_noise[i][k] = noise > 0 ? random_between(&network->random, 1 - noise, 1 + noise)
								: 1;
}

void network_play(struct network *network, double seconds)
{
	for (unsigned ms = 0; ms < (unsigned)(seconds * 1000); ms++) {
		network->now_s = ms * 1e-3;
		if (ms % TICK_MS == 0)
			draw_noise(network);
		collect_flows(network);
		share_links(network);
		move_bytes(network);
		deliver(network);
		for (unsigned i = 0; i < network->connection_count && !network->fixed; i++)
			if (ms % TICK_MS == (i * 3 + 9) % TICK_MS &&
			    (network->scenario->noise <= 0 ||
			     random_below(&network->random, 5))) /* a tick may be late */
				tick(network, &network->connections[i]);
	}
}
