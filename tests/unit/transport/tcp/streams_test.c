/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays networks to the controller of streams. TRIBUTARY_TEST_TABLE=1 prints where each one settles: the worst of the seeds, and
 * how many of them missed what is asked. TRIBUTARY_TEST_FILTER=name plays those networks alone, TRIBUTARY_TEST_SEEDS=n so many
 * seeds of each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "streams_network.h"
#include "support/random.h"
#include "support/runtime.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double mean_Bps(const double *buckets, double from_s, double until_s)
{
	double sum = 0;
	unsigned from = (unsigned)(from_s * 100 + 0.5), until = (unsigned)(until_s * 100 + 0.5);

	for (unsigned i = from; i < until; i++)
		sum += buckets[i];
	return until > from ? sum * 100 / (until - from) : 0;
}

struct outcome {
	double share, settled_s, foreign_kept;
	unsigned streams, failed, failed_late, changes_late, dialled, detailed;
};

/* The first 100 ms with 0.93 of the best. */
static double settled_after_s(const struct network *network, double from_s, double until_s, double best_Bps)
{
	for (double t = from_s; t + 0.1 <= until_s; t += 0.01)
		if (mean_Bps(network->carried, t, t + 0.1) >= 0.93 * best_Bps)
			return t - from_s;
	return INFINITY;
}

static struct outcome play_scenario(const struct scenario *scenario, uint64_t seed)
{
	static struct network network, reference;
	const double seconds = network_seconds(scenario);
	double best_Bps, alone_Bps;

	network_make(&reference, scenario, seed, scenario->foreign ? 1 : TCP_STREAMS_RAIL_MAX);
	reference.fixed = scenario->foreign ? 1 : TCP_STREAMS_RAIL_MAX;
	network_play(&reference, scenario->restart_s + 2);
	best_Bps = mean_Bps(reference.carried, scenario->restart_s + 1, scenario->restart_s + 2);
	alone_Bps = mean_Bps(reference.foreign_bytes, 0, 1);
	network_make(&network, scenario, seed, 0);
	network_play(&network, seconds);
	return (struct outcome){
		.share = mean_Bps(network.carried, seconds - 5, seconds) / best_Bps,
		.settled_s = settled_after_s(&network, scenario->restart_s, seconds, best_Bps),
		.foreign_kept = alone_Bps > 0 ? mean_Bps(network.foreign_bytes, 1, seconds) / alone_Bps : 1,
		.streams = network.open_most_late,
		.failed = network.failed,
		.failed_late = network.failed_late,
		.changes_late = network.changes_late,
		.dialled = network.dialled,
		.detailed = network.detailed,
	};
}

#define TENTH   .caps = CAPS_EQUAL, .cap = 0.1
#define QUARTER .caps = CAPS_EQUAL, .cap = 0.25
#define REACHED .share = 0.93, .settled_s = 1, .failed_most = 9
/* Beside 20 % of noise an eighth is seen, but not always soon, and 0.9 of a rate may seem less. */
#define NOISY   .noise = 0.2, .share = 0.9, .settled_s = 2, .failed_most = 13
/* Several senders, one of which at a time tries. */
#define SEVERAL  .share = 0.93, .settled_s = 2, .failed_most = 9
#define INCAST(n) .pattern = PATTERN_INCAST, .connections = n
#define ALLTOALL .pattern = PATTERN_ALLTOALL, .connections = 12
#define TREES    .pattern = PATTERN_TREES, .connections = 12
static const struct scenario scenarios[] = {
	{ "flows of a tenth", TENTH, .hint = 1, REACHED },
	{ "flows of a tenth, 1 MiB open", TENTH, .hint = 1, .open_mib = 1, REACHED },
	{ "flows of a tenth, 4 MiB open", TENTH, .hint = 1, .open_mib = 4, REACHED },
	{ "flows of a tenth, speed unknown", TENTH, REACHED },
	{ "flows of a tenth, speed 10 x", TENTH, .hint = 10, REACHED },
	{ "flows of a tenth, noise", TENTH, .hint = 1, NOISY },
	{ "flows of a tenth, speed unknown, noise", TENTH, NOISY },
	{ "flows of a quarter", QUARTER, .hint = 1, REACHED },
	{ "flows of a quarter, speed unknown", QUARTER, REACHED },
	{ "flows of a quarter, speed 1/10", QUARTER, .hint = 0.1, REACHED },
	{ "flows of a tenth, speed 1/10", TENTH, .hint = 0.1, .failed_most = 0 },
	{ "flows of a quarter, noise", QUARTER, .hint = 1, NOISY },
	{ "unequal flows", .caps = CAPS_UNEQUAL, .cap = 0.2, .hint = 1, .share = 0.92, .settled_s = 1,
	  .failed_most = 9 },
	{ "unequal flows, speed unknown", .caps = CAPS_UNEQUAL, .cap = 0.2, REACHED },
	{ "unequal flows, noise", .caps = CAPS_UNEQUAL, .cap = 0.2, .hint = 1, NOISY },
	{ "four hashed paths", .paths = true, .hint = 1, .share = 0.93, .settled_s = 1.25, .failed_most = 11 },
	{ "four hashed paths, speed unknown", .paths = true, .share = 0.93, .settled_s = 1.25, .failed_most = 11 },
	{ "four hashed paths, noise", .paths = true, .hint = 1, NOISY },
	{ "a full port", .hint = 1, .untouched = true },
	{ "a full port, speed unknown", .failed_most = 9 },
	{ "a full port, speed unknown, 1 MiB open", .open_mib = 1, .failed_most = 9 },
	{ "a full port, speed unknown, noise", .noise = 0.2, .failed_most = 9 },
	{ "a full port, speed 10 x", .hint = 10, .failed_most = 9 },
	{ "a foreign flow on an uplink", .shared = 0.5, .foreign = 1, .hint = 1, .foreign_kept = 0.9,
	  .failed_most = 9 },
	{ "3 foreign flows", .shared = 0.5, .foreign = 3, .hint = 1, .foreign_kept = 0.9, .failed_most = 9 },
	{ "16 foreign flows", .shared = 0.9, .foreign = 16, .foreign_kept = 0.9, .share = 0.9, .failed_most = 9 },
	{ "a foreign flow, own ones of a tenth", TENTH, .shared = 1, .foreign = 1, .hint = 1, .share = 1,
	  .failed_most = 9 },
	{ "a foreign flow, noise", .shared = 0.5, .foreign = 1, .noise = 0.2, .foreign_kept = 0.9, .failed_most = 9 },
	{ "eight connections, a full port", .connections = 8, .one_way = true, .hint = 1, .untouched = true },
	{ "eight connections, a full port, unknown", .connections = 8, .one_way = true, .failed_most = 9 },
	{ "eight connections, unknown, noise", .connections = 8, .one_way = true, .noise = 0.2, .failed_most = 9 },
	{ "eight connections, tenth", TENTH, .connections = 8, .one_way = true, .hint = 1, REACHED },
	{ "eight connections, tenth, unknown", TENTH, .connections = 8, .one_way = true, REACHED },
	{ "eight connections, tenth, noise", TENTH, .connections = 8, .one_way = true, .noise = 0.2, .share = 0.75,
	  .failed_most = 13 },
	{ "two connections, quarter", QUARTER, .connections = 2, .one_way = true, .hint = 1, REACHED },
	{ "two connections, quarter, then one", QUARTER, .connections = 2, .one_way = true, .alone_from_s = 20, .seconds = 30,
	  .restart_s = 20, .share = 0.93, .settled_s = 2, .failed_most = 20 },
	{ "two connections, a full port, then one", .connections = 2, .one_way = true, .alone_from_s = 20, .seconds = 30,
	  .failed_most = 15 },
	{ "ring of 2, tenth", TENTH, .connections = 2, .ring = true, .hint = 1, REACHED },
	{ "ring of 4, tenth", TENTH, .connections = 4, .ring = true, .hint = 1, REACHED },
	{ "ring of 8, tenth", TENTH, .connections = 8, .ring = true, .hint = 1, REACHED },
	{ "ring of 4, tenth, noise", TENTH, .connections = 4, .ring = true, .hint = 1, NOISY },
	{ "ring of 8, tenth, unknown, noise", TENTH, .connections = 8, .ring = true, .noise = 0.2, .share = 0.9,
	  .settled_s = 3, .failed_most = 13 },
	{ "ring of 2, one hop capped", TENTH, .one_capped = true, .connections = 2, .ring = true, .hint = 1, REACHED },
	{ "ring of 4, one hop capped", TENTH, .one_capped = true, .connections = 4, .ring = true, .hint = 1, REACHED },
	{ "ring of 8, one hop capped", TENTH, .one_capped = true, .connections = 8, .ring = true, .hint = 1, REACHED },
	{ "ring of 8, a full port, unknown", .connections = 8, .ring = true, .failed_most = 9 },
	{ "a receiver that binds, credit", TENTH, .receiver = 0.09, .hint = 1, .failed_most = 0 },
	{ "a cap that comes", TENTH, .cap_from_s = 3, .cap_until_s = 99, .hint = 1, .restart_s = 3, REACHED },
	{ "a cap that comes, unknown", TENTH, .cap_from_s = 3, .cap_until_s = 99, .restart_s = 3, .seconds = 14,
	  .share = 0.93, .settled_s = 1, .failed_most = 15 },
	{ "eight connections, a cap that goes", TENTH, .connections = 8, .one_way = true, .cap_until_s = 5, .hint = 1,
	  .seconds = 40, .share = 0.93, .settled_s = 1, .failed_most = 5, .shrinks = true },
	{ "a cap that goes", TENTH, .cap_until_s = 5, .hint = 1, .seconds = 40, .share = 0.93, .settled_s = 1,
	  .failed_most = 5, .shrinks = true },
	{ "bursts of 1 MiB, tenth", TENTH, .burst_s = 0.1, .open_mib = 1, .seconds = 40, .hint = 1, .share = 0.93, .streams_least = 4,
	  .failed_most = 9 },
	{ "nobody answers", TENTH, .answered = 1, .hint = 1, .failed_most = 0 },
	{ "incast of 4, tenth", INCAST(4), TENTH, .receiver_hint = 1, SEVERAL },
	{ "incast of 4, tenth, speed unknown", INCAST(4), TENTH, SEVERAL },
	{ "incast of 4, tenth, speed 10 x", INCAST(4), TENTH, .receiver_hint = 10, SEVERAL },
	{ "incast of 4, tenth, speed 1/10", INCAST(4), TENTH, .receiver_hint = 0.1, SEVERAL },
	{ "incast of 4, tenth, rounds", INCAST(4), TENTH, .round_mib = 2, SEVERAL },
	{ "incast of 4, tenth, noise", INCAST(4), TENTH, .receiver_hint = 1, NOISY },
	{ "incast of 7, tenth", INCAST(7), TENTH, .receiver_hint = 1, SEVERAL },
	{ "incast of 4, quarter", INCAST(4), QUARTER, .receiver_hint = 1, .untouched = true },
	{ "incast of 4, quarter, rounds", INCAST(4), QUARTER, .receiver_hint = 1, .round_mib = 1, .untouched = true },
	{ "incast of 4, quarter, speed unknown", INCAST(4), QUARTER, .failed_most = 9 },
	{ "incast of 4, quarter, unknown, rounds", INCAST(4), QUARTER, .round_mib = 1, .failed_most = 9 },
	{ "incast of 4, quarter, unknown, noise", INCAST(4), QUARTER, .noise = 0.1, .failed_most = 9 },
	{ "incast of 7, quarter, speed 10 x", INCAST(7), QUARTER, .receiver_hint = 10, .failed_most = 9 },
	{ "AlltoAll of 4, tenth", ALLTOALL, TENTH, .receiver_hint = 1, SEVERAL },
	{ "AlltoAll of 4, tenth, rounds", ALLTOALL, TENTH, .receiver_hint = 1, .round_mib = 4, .share = 0.8,
	  .settled_s = 6, .failed_most = 9, .changes_most = 3 },
	{ "AlltoAll of 4, tenth, rounds, unknown", ALLTOALL, TENTH, .round_mib = 4, .share = 0.8, .settled_s = 6,
	  .failed_most = 9, .changes_most = 3 },
	{ "AlltoAll of 4, tenth, noise", ALLTOALL, TENTH, .receiver_hint = 1, NOISY },
	{ "trees of 4, tenth", TREES, TENTH, .receiver_hint = 1, .share = 0.88, .settled_s = 3, .failed_most = 9,
	  .changes_most = 16 },
	{ "trees of 4, tenth, speed unknown", TREES, TENTH, .share = 0.88, .settled_s = 3, .failed_most = 9,
	  .changes_most = 16 },
	{ "trees of 4, tenth, noise", TREES, TENTH, .receiver_hint = 1, .noise = 0.2, .share = 0.82, .settled_s = 8,
	  .failed_most = 13, .changes_most = 16 },
	{ "incast for a while", TENTH, .most = 2, .most_from_s = 2, .most_until_s = 4, .hint = 1, .restart_s = 4,
	  REACHED },
	{ "memory of 10, right", TENTH, .remembered = 10, .hint = 1, .share = 0.93, .settled_s = 0.2,
	  .failed_most = 2 },
	{ "memory of 4, right", QUARTER, .remembered = 4, .hint = 1, .share = 0.93, .settled_s = 0.2,
	  .failed_most = 2 },
	{ "ring of 4, memory of 10, right", TENTH, .connections = 4, .ring = true, .remembered = 10, .hint = 1,
	  .share = 0.93, .settled_s = 0.2, .failed_most = 2 },
	{ "memory of 10, four streams come to be", QUARTER, .remembered = 10, .answered = 4, .hint = 1, .share = 0.7,
	  .failed_most = 9 },
	{ "eight connections, memory of 10, right", TENTH, .connections = 8, .one_way = true, .remembered = 10, .hint = 1,
	  .share = 0.93, .settled_s = 0.2, .failed_most = 2 },
	{ "memory of 10, right, noise", TENTH, .remembered = 10, .hint = 1, NOISY },
	{ "incast of 4, memory of 3, right", INCAST(4), TENTH, .receiver_hint = 1, .remembered = 3, .share = 0.93,
	  .settled_s = 0.45, .failed_most = 2 },
	{ "incast of 4, memory of 32, unknown", INCAST(4), TENTH, .remembered = 32, SEVERAL },
	{ "incast of 4, quarter, memory of 32, unknown", INCAST(4), QUARTER, .remembered = 32, .failed_most = 9 },
	{ "AlltoAll of 4, memory of 32", ALLTOALL, TENTH, .receiver_hint = 1, .remembered = 32, SEVERAL },
	{ "memory of 32, noise", .remembered = 32, .noise = 0.2, .failed_most = 9 },
	{ "eight connections, memory of 32, noise", .remembered = 32, .connections = 8, .one_way = true, .noise = 0.2,
	  .failed_most = 9 },
	{ "memory of 32, too many", TENTH, .remembered = 32, .hint = 1, REACHED },
	{ "memory of 2, too few", TENTH, .remembered = 2, .hint = 1, REACHED },
	{ "memory of 32, a full port, unknown", .remembered = 32, .open_mib = 1, .failed_most = 9 },
	{ "memory of 32, a full port", .remembered = 32, .hint = 1, .untouched = true },
	{ "10 ms of round trip, tenth", TENTH, .round_trip_s = 0.01, .hint = 1, REACHED },
	{ "50 ms of round trip, tenth", TENTH, .round_trip_s = 0.05, .open_mib = 4, .hint = 1, .share = 0.93,
	  .settled_s = 5, .failed_most = 9, .changes_most = 2 },
};

static unsigned seed_count(void)
{
	const char *text = runtime_setting("TEST_SEEDS");

	return text ? (unsigned)strtoul(text, NULL, 10) : 5;
}

static bool is_met(const struct scenario *scenario, const struct outcome *outcome)
{
	const unsigned ways = scenario->connections && !scenario->one_way ? scenario->connections : 1;
	const unsigned changes_most = scenario->noise > 0 && !scenario->changes_most ? ways : scenario->changes_most;

	if (scenario->shrinks ? outcome->streams != 1 : outcome->changes_late > changes_most)
		return false;
	if (outcome->failed > scenario->failed_most * ways || outcome->failed_late > 6 * ways)
		return false;
	if (scenario->untouched && (outcome->dialled || (outcome->detailed && !scenario->connections)))
		return false;
	if (outcome->streams > 1 && scenario->share <= 0)
		return false;
	return outcome->share >= scenario->share && outcome->streams >= scenario->streams_least &&
	       outcome->foreign_kept >= scenario->foreign_kept &&
	       (scenario->settled_s <= 0 || outcome->settled_s <= scenario->settled_s);
}

static void networks_are_filled_and_nobody_is_hurt(void **state)
{
	const char *filter = runtime_setting("TEST_FILTER");
	const bool table = runtime_setting("TEST_TABLE") != NULL;
	unsigned bad = 0;

	(void)state;
	if (table)
		printf("%-42s %6s %8s %7s %7s %7s %7s %7s  %s\n", "network", "share", "settled", "streams", "changes",
		       "failed", "late", "foreign", "missed");
	for (unsigned i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		const struct scenario *scenario = &scenarios[i];
		struct outcome worst = { .share = INFINITY, .foreign_kept = INFINITY };
		unsigned missed = 0;

		if (filter && !strstr(scenario->name, filter))
			continue;
		for (uint64_t seed = 1; seed <= seed_count(); seed++) {
			struct outcome outcome = play_scenario(scenario, seed * 1000);

			missed += !is_met(scenario, &outcome);
			worst.share = fmin(worst.share, outcome.share);
			worst.settled_s = fmax(worst.settled_s, outcome.settled_s);
			worst.foreign_kept = fmin(worst.foreign_kept, outcome.foreign_kept);
#define WORSE(f) worst.f = outcome.f > worst.f ? outcome.f : worst.f
			WORSE(streams);
			WORSE(failed);
			WORSE(failed_late);
			WORSE(changes_late);
		}
		bad += missed != 0;
		if (table || missed)
			printf("%-42s %6.3f %8.2f %7u %7u %7u %7u %7.2f  %u\n", scenario->name, worst.share,
			       worst.settled_s, worst.streams, worst.changes_late, worst.failed, worst.failed_late,
			       worst.foreign_kept, missed);
	}
	assert_int_equal(bad, 0);
}

/* Returns how long that took. */
static double play_until_more(struct network *network, const struct scenario *scenario, uint64_t seed)
{
	const struct connection *connection = &network->connections[0];
	double seconds = 0;

	network_make(network, scenario, seed, 0);
	while (connection->streams.state != TCP_STREAMS_MORE) {
		seconds += 0.01;
		assert_true(seconds < 1);
		network_make(network, scenario, seed, 0);
		network_play(network, seconds);
	}
	return seconds;
}

/* Plays until the trial of more streams has begun. */
static struct connection *play_until_trial(struct network *network)
{
	static const struct scenario tenth = { "", TENTH, .hint = 1 };

	play_until_more(network, &tenth, 1);
	assert_int_equal(__builtin_popcount(network->connections[0].answer.active), 2);
	return &network->connections[0];
}

/* Noise does not delay what an earlier job has measured. */
static void a_remembered_number_is_tried_soon(void **state)
{
	static const struct scenario noisy = { "", TENTH, .hint = 1, .noise = 0.2, .remembered = 10 };
	static struct network network;
	double seconds = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		seconds += play_until_more(&network, &noisy, seed);
		assert_int_equal(__builtin_popcount(network.connections[0].answer.active), 10);
	}
	assert_true(seconds < 20 * 0.13); /* 0.17 as without a memory */
}

static void a_trial_that_cannot_go_on_leaves_what_was_before(void **state)
{
	static struct network network;

	(void)state;
	for (unsigned what = 0; what < 3; what++) {
		struct connection *connection = play_until_trial(&network);
		struct tcp_streams_sample sample = { .now_ns = 2 * NS_PER_S, .ready = 3, .turn = true };

		sample.turn = what != 0;
		sample.ready = what == 1 ? 1 : 3; /* a new stream is lost */
		sample.most = what == 2;          /* the receiver allows one */
		tcp_streams_step(&connection->streams, &network.ways[0], &sample, &connection->answer);
		assert_int_equal(connection->answer.active, 1);
		assert_int_equal(connection->answer.open, 1);
		assert_false(connection->answer.turn);
		assert_false(connection->answer.detailed);
	}
}

/* A job computes, and then sends as before. */
static void a_trial_outlives_a_rest(void **state)
{
	static struct network network;
	struct connection *connection = play_until_trial(&network);
	struct tcp_streams_sample sample = {
		.now_ns = 20 * NS_PER_S, .rested_ns = 20 * NS_PER_S, .ready = 3, .turn = true
	};

	(void)state;
	tcp_streams_step(&connection->streams, &network.ways[0], &sample, &connection->answer);
	assert_int_equal(connection->streams.state, TCP_STREAMS_MORE);
	assert_int_equal(connection->answer.active, 3);
}

/* For the log: however many trials there were since. */
static void what_one_stream_carried_stays_known(void **state)
{
	static struct network network;
	static const struct scenario scenarios_known[] = {
		{ "", TENTH, .hint = 1 },
		{ "", TENTH, .remembered = 10 },
		{ "", QUARTER },
		{ "", TENTH, .hint = 1, .connections = 4, .ring = true },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(scenarios_known) / sizeof(*scenarios_known); i++) {
		const struct scenario *scenario = &scenarios_known[i];
		const struct tcp_streams_way *way = &network.ways[0];

		network_make(&network, scenario, runtime_seed(), 0);
		network_play(&network, 5);
		assert_true(way->found >= 1 / scenario->cap);
		if (fabs(way->one_Bps / (scenario->cap * PORT_BPS) - 1) > 0.05 || way->all_Bps < 0.8 * PORT_BPS ||
		    way->all_Bps > 1.05 * PORT_BPS)
			fail_msg("%u: %g and %g", i, way->one_Bps, way->all_Bps);
	}
}

/* What another connection of the way has found would take from other hosts. */
static void nothing_is_adopted_where_the_receiver_is_full(void **state)
{
	static struct network network;
	struct connection *connection = &network.connections[0];
	static const struct scenario tenth = { "", TENTH };

	(void)state;
	for (unsigned full = 0; full < 2; full++) {
		struct tcp_streams_sample sample = { .now_ns = 2 * NS_PER_S, .ready = 1, .receiver_full = full };

		network_make(&network, &tenth, 1, 0);
		network_play(&network, 0.1);
		connection->streams.state = TCP_STREAMS_SETTLED;
		connection->streams.open = connection->streams.active = 1;
		network.ways[0].found = 4;
		tcp_streams_step(&connection->streams, &network.ways[0], &sample, &connection->answer);
		assert_int_equal(__builtin_popcount(connection->answer.open), full ? 1 : 4);
	}
}

/* Or one that looks once a second would be held for ever. */
static void a_look_that_ends_early_leaves_the_hold(void **state)
{
	struct tcp_streams streams = { 0 };
	struct tcp_streams_way way = { .random = 1, .found = 1, .held_Bps = 1e8, .failed_more = 12, .more_after_ns = 2 * NS_PER_S };
	struct tcp_streams_answer answer;
	struct tcp_streams_sample sample = { .now_ns = NS_PER_S, .elapsed_ns = 4 * NS_PER_MS, .waited_ns = 4 * NS_PER_MS,
					     .acknowledged_bytes = 100000, .ready = 1, .turn = true };

	(void)state;
	sample.waited_bytes[0] = sample.acknowledged_bytes;
	tcp_streams_init(&streams);
	for (unsigned i = 0; i < 100 && streams.state != TCP_STREAMS_BASE; i++, sample.now_ns += 4 * NS_PER_MS)
		tcp_streams_step(&streams, &way, &sample, &answer);
	assert_int_equal(streams.state, TCP_STREAMS_BASE);
	sample.turn = false;
	tcp_streams_step(&streams, &way, &sample, &answer);
	assert_int_equal(streams.state, TCP_STREAMS_SETTLED);
	assert_int_equal(way.more_after_ns, 2 * NS_PER_S);
}

/*
 * Connections that filled the port have failed often, and are gone. One that is alone there finds room; where its first trial
 * fails by chance, it does not wait for the minutes that theirs had come to.
 */
static void a_look_that_finds_room_forgets_the_long_hold(void **state)
{
	struct tcp_streams streams = { 0 };
	struct tcp_streams_way way = { .random = 1, .found = 1, .held_Bps = 1e8, .failed_more = 12, .more_after_ns = 300 * NS_PER_S };
	struct tcp_streams_answer answer = { .active = 1 };
	struct tcp_streams_sample sample = { .now_ns = NS_PER_S, .elapsed_ns = 4 * NS_PER_MS, .waited_ns = 4 * NS_PER_MS,
					     .acknowledged_bytes = 100000, .port_bytes = 100000, .ready = 3, .turn = true };
	bool tried = false;

	(void)state;
	tcp_streams_init(&streams);
	for (unsigned i = 0; i < 300 && !(tried && streams.state == TCP_STREAMS_SETTLED); i++, sample.now_ns += 4 * NS_PER_MS) {
		const unsigned active = (unsigned)__builtin_popcount(answer.active);

		memset(sample.waited_bytes, 0, sizeof(sample.waited_bytes));
		for (unsigned k = 0; k < active; k++) /* more streams carry no more: another one's packets came in between */
			sample.waited_bytes[k] = sample.acknowledged_bytes / active;
		tcp_streams_step(&streams, &way, &sample, &answer);
		tried |= streams.state == TCP_STREAMS_MORE;
	}
	assert_true(tried);
	assert_int_equal(streams.state, TCP_STREAMS_SETTLED);
	assert_in_range(way.more_after_ns, sample.now_ns, sample.now_ns + NS_PER_S);
}

/* A switch that is down, or drops long packets: more streams would be an endless gain. */
static void where_nothing_passes_no_more_streams_are_tried(void **state)
{
	struct tcp_streams streams = { 0 };
	struct tcp_streams_way way = { .random = 1 };
	struct tcp_streams_answer answer;
	struct tcp_streams_sample sample = { .now_ns = NS_PER_S, .elapsed_ns = 4 * NS_PER_MS, .waited_ns = 4 * NS_PER_MS,
					     .ready = UINT32_MAX, .turn = true };
	bool began = false;

	(void)state;
	tcp_streams_init(&streams);
	for (unsigned i = 0; i < 500; i++, sample.now_ns += 4 * NS_PER_MS) {
		tcp_streams_step(&streams, &way, &sample, &answer);
		began |= streams.state == TCP_STREAMS_BASE;
		assert_int_equal(answer.open, 1);
	}
	assert_true(began);
	assert_int_equal(way.found, 0);
}

static void what_becomes_of_others_has_to_be_known(void **state)
{
	struct tcp_streams_measure before = { .waited_ns = NS_PER_S, .waited_bytes = { 100 << 20 } }, after = before;

	(void)state;
	after.waited_bytes[1] = 100 << 20;
	after.others = (struct tcp_streams_others){ .kept = 1, .each_Bps = 500e6 };
	assert_true(tcp_streams_measure_others_kept(&before, &after, 0));
	after.competes = true;
	assert_false(tcp_streams_measure_others_kept(&before, &after, 0));
	after.others.measured = true;
	assert_true(tcp_streams_measure_others_kept(&before, &after, 0));
	after.others = (struct tcp_streams_others){ .measured = true, .kept = 0.5, .lost_Bps = 100e6, .each_Bps = 300e6 };
	assert_true(tcp_streams_measure_others_kept(&before, &after, 0)); /* they have more than it */
	after.others.lost_Bps = 200e6;
	assert_false(tcp_streams_measure_others_kept(&before, &after, 0)); /* but it gains less than they lose */
}

static void the_limit_of_a_process_that_died_ends(void **state)
{
	struct tcp_streams_way way = { .limit = 1, .limit_until_ns = NS_PER_S };
	struct tcp_streams_sample sample = { .now_ns = NS_PER_S, .ready = 7 };
	struct tcp_streams_answer answer;
	struct tcp_streams streams;

	(void)state;
	tcp_streams_init(&streams);
	streams.open = streams.active = streams.before = 7;
	tcp_streams_step(&streams, &way, &sample, &answer);
	assert_int_equal(__builtin_popcount(answer.active), 1);
	sample.now_ns++;
	tcp_streams_step(&streams, &way, &sample, &answer);
	assert_int_equal(answer.active, 7);
}

static void any_content_of_shared_memory_is_harmless(void **state)
{
	uint64_t random = runtime_seed();
	struct tcp_streams_answer answer = { 0 };
	struct tcp_streams_way way = { 0 };
	struct tcp_streams streams;

	(void)state;
	tcp_streams_init(&streams);
	for (unsigned i = 0; i < 20000; i++) {
		struct tcp_streams_sample sample;
		uint8_t *bytes = (uint8_t *)&sample;

		for (size_t k = 0; k < sizeof(sample); k++)
			bytes[k] = random_below(&random, 4) ? 0 : (uint8_t)random_next(&random);
		sample.turn = random_below(&random, 8) != 0;
		sample.competes = random_below(&random, 2);
		sample.receiver_full = random_below(&random, 2);
		sample.others.measured = random_below(&random, 2);
		sample.ready |= answer.open * (i % 16 != 0);
		for (size_t k = 0; k < sizeof(way) && i % 8 == 0; k++)
			((uint8_t *)&way)[k] = random_below(&random, 3) ? 0 : (uint8_t)random_next(&random);
		tcp_streams_step(&streams, &way, &sample, &answer);
		assert_true(answer.active);
		assert_int_equal(answer.active & ~answer.open, 0);
		assert_in_range(streams.state, 0, TCP_STREAMS_STATE_COUNT - 1);
	}
}

static unsigned open_after(struct tcp_streams *streams, struct tcp_streams_way *way, struct tcp_streams_sample sample, unsigned steps)
{
	static uint64_t now_ns = NS_PER_S;
	struct tcp_streams_answer answer;

	for (unsigned i = 0; i < steps; i++) {
		sample.now_ns = now_ns += 4 * NS_PER_MS;
		tcp_streams_step(streams, way, &sample, &answer);
	}
	assert_int_equal(tcp_streams_count(answer.active), tcp_streams_count(answer.open));
	return tcp_streams_count(answer.open);
}

/* Without a trial, as long as the threads show a gain; beside other hosts it takes one. */
static void threads_have_streams(void **state)
{
	struct tcp_streams_sample sample = { .elapsed_ns = 4 * NS_PER_MS, .waited_ns = 4 * NS_PER_MS,
					     .acknowledged_bytes = 100000, .waited_bytes = { 100000 }, .port_Bps = 25000000, .ready = 0xff };
	struct tcp_streams_way way = { .random = 1 };
	struct tcp_streams streams;

	(void)state;
	tcp_streams_init(&streams);
	assert_int_equal(open_after(&streams, &way, sample, 10), 1);
	sample.threads = sample.least = 4;
	sample.competes = true;
	assert_int_equal(open_after(&streams, &way, sample, 10), 1);
	sample.competes = false;
	assert_int_equal(open_after(&streams, &way, sample, 10), 4);
	sample.threads = sample.least = 2;
	assert_int_equal(open_after(&streams, &way, sample, 10), 4);
	sample.threads = sample.least = 0;
	assert_int_equal(open_after(&streams, &way, sample, 10), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_have_streams),
		cmocka_unit_test(networks_are_filled_and_nobody_is_hurt),
		cmocka_unit_test(a_trial_that_cannot_go_on_leaves_what_was_before),
		cmocka_unit_test(a_remembered_number_is_tried_soon),
		cmocka_unit_test(a_trial_outlives_a_rest),
		cmocka_unit_test(what_one_stream_carried_stays_known),
		cmocka_unit_test(nothing_is_adopted_where_the_receiver_is_full),
		cmocka_unit_test(what_becomes_of_others_has_to_be_known),
		cmocka_unit_test(a_look_that_ends_early_leaves_the_hold),
		cmocka_unit_test(a_look_that_finds_room_forgets_the_long_hold),
		cmocka_unit_test(where_nothing_passes_no_more_streams_are_tried),
		cmocka_unit_test(the_limit_of_a_process_that_died_ends),
		cmocka_unit_test(any_content_of_shared_memory_is_harmless),
	};

	runtime_start("streams", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
