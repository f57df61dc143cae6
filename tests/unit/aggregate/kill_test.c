/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that are killed or stopped, in every state: each member is a process, one of them is struck at a moment taken
 * from the seed, and every other one ends with an error, within the time-out, and with no wrong result before it. Each
 * state is met 21 times with TRIBUTARY_TEST_LONG, else once. And members that are only slow: they are waited for.
 */
#include "support/peer.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum kill_state {
	KILL_LISTENING,  /* it never connects */
	KILL_CONNECTING, /* at some moment of it */
	KILL_IDLE,
	KILL_SMALL,
	KILL_LARGE,
	KILL_MIXED,
	KILL_POSTED, /* it has posted what others have not */
	KILL_STATE_COUNT
};

static const char *const state_names[KILL_STATE_COUNT] = { "listening", "connecting", "idle",  "small",
							   "large",     "mixed",      "posted" };

enum { MEMBERS = 6, TIMEOUT_MS = 5000, TIMEOUT_MOST_MS = 80000, SLACK_MS = 5000 };
enum { ROUNDS = 21, SLOW_ROUNDS = 3, END_MS = 120000 };
/* Exit of a member: it saw the error that was due; all of it was done; or what was wrong. */
enum { EXIT_SAW_ERROR = 10, EXIT_DONE = 11, EXIT_WRONG_SUM = 12, EXIT_BROKEN = 13 };

struct script {
	unsigned state, rank, slow, timeout_ms;
	unsigned per_host; /* members that share one */
	uint64_t seed;
};

/* ---------------------------------------------------------------------------------------------------- a member */

struct life {
	struct script script;
	int control;
	struct params params;
	struct transport *transport;
	struct aggregate_engine *engine;
	struct aggregate_listener *listener;
	struct aggregate_group *group;
	struct cluster cluster;
	struct cluster_host hosts[MEMBERS];
	struct cluster_switch leaves[2];
	char names[MEMBERS][16];
	uint64_t posted;
};

enum { OPEN = 8, ELEMENTS = 200000 };

static int32_t value(uint64_t rank, uint64_t operation)
{
	return (int32_t)(rank * 7 + operation);
}

static size_t count_of(const struct life *life, uint64_t operation)
{
	unsigned state = life->script.state;
	uint64_t random = life->script.seed * 31 + operation;

	if (state == KILL_SMALL || (state == KILL_MIXED && random_below(&random, 2)))
		return 1 + random_below(&random, 1000);
	return 10000 + random_below(&random, ELEMENTS - 10000);
}

struct flight {
	struct aggregate_request *request;
	uint64_t operation;
	int32_t *send, *recv;
};

static int flight_begin(struct life *life, struct flight *flight)
{
	size_t count = count_of(life, life->posted);
	uint64_t rank = life->script.rank;
	int r;

	for (size_t i = 0; i < count; i++)
		flight->send[i] = value(rank, life->posted);
	flight->operation = life->posted;
	r = aggregate_reduce_all(life->group, flight->send, flight->recv, count, REDUCE_INT32, REDUCE_SUM,
				 &flight->request);
	life->posted += flight->request != NULL;
	return r;
}

static bool flight_right(const struct life *life, const struct flight *flight)
{
	size_t count = count_of(life, flight->operation);
	int32_t sum = 0;

	for (unsigned m = 0; m < MEMBERS; m++)
		sum += value(m, flight->operation);
	for (size_t i = 0; i < count; i++)
		if (flight->recv[i] != sum)
			return false;
	return true;
}

/* Operations without end, or until the order comes to end when nothing is outstanding. */
static int life_goes_on(struct life *life)
{
	struct flight flights[OPEN] = { 0 };
	uint64_t last = life->script.slow ? 40 : UINT64_MAX;

	for (size_t i = 0; i < OPEN; i++) {
		flights[i].send = malloc(ELEMENTS * 4);
		flights[i].recv = malloc(ELEMENTS * 4);
		if (!flights[i].send || !flights[i].recv)
			return EXIT_BROKEN;
	}
	for (;;) {
		size_t open = 0;

		for (size_t i = 0; i < OPEN; i++) {
			bool done = false;
			int r = 0;

			if (!flights[i].request && life->posted < last)
				r = flight_begin(life, &flights[i]);
			else if (flights[i].request)
				r = aggregate_test(flights[i].request, &done, NULL);
			if (r < 0)
				return r == -EREMOTEIO ? EXIT_SAW_ERROR : EXIT_BROKEN;
			if (done && !flight_right(life, &flights[i]))
				return EXIT_WRONG_SUM;
			if (done)
				flights[i].request = NULL;
			open += flights[i].request != NULL;
		}
		if (!open && life->posted == last)
			return EXIT_DONE;
		usleep(life->script.slow && life->script.rank == 1 ? 20000 : 200);
	}
}

static int life_bootstrap(struct life *life)
{
	struct aggregate_setup setup = { .params = &life->params,
					 .ops = &transport_tcp,
					 .cluster = &life->cluster,
					 .host_name = life->names[life->script.rank] };
	uint8_t handle[AGGREGATE_HANDLE_BYTES], all[MEMBERS][AGGREGATE_HANDLE_BYTES];
	const uint8_t *handles[MEMBERS];
	char reason[AGGREGATE_REASON_BYTES];
	int r = transport_tcp.open(&life->params, &life->transport);

	setup.transport = life->transport;
	if (r == 0)
		r = aggregate_open(&setup, &life->engine);
	if (r == 0)
		r = aggregate_listen(life->engine, 0, handle, &life->listener);
	if (r == 0)
		r = peer_write(life->control, handle, sizeof(handle));
	if (r == 0)
		r = peer_read(life->control, all, sizeof(all));
	if (r < 0)
		return EXIT_BROKEN;
	for (size_t i = 0; i < MEMBERS; i++)
		handles[i] = all[i];
	if (life->script.state == KILL_LISTENING && life->script.rank == 0) {
		peer_write(life->control, "r", 1);
		for (;;)
			pause();
	}
	if (life->script.state <= KILL_CONNECTING)
		peer_write(life->control, "r", 1);
	r = aggregate_connect(life->listener, MEMBERS, handles, &life->group, reason);
	if (r < 0)
		return life->script.state <= KILL_CONNECTING && reason[0]
			       ? EXIT_SAW_ERROR
			       : -runtime_complain(EXIT_BROKEN, "%s", reason);
	if (life->script.state > KILL_CONNECTING)
		peer_write(life->control, "r", 1);
	return 0;
}

static int member_role(int control, const char *argument)
{
	struct life *life = calloc(1, sizeof(*life));
	int r;

	if (!life ||
	    sscanf(argument, "%u %u %u %u %u %" SCNx64, &life->script.state, &life->script.rank, &life->script.slow,
		   &life->script.timeout_ms, &life->script.per_host, &life->script.seed) != 6)
		return EXIT_BROKEN;
	life->control = control;
	group_harness_params(&life->params);
	life->params.timeout_ns = life->script.timeout_ms * 1000000ULL;
	for (unsigned i = 0; i < MEMBERS; i++) {
		snprintf(life->names[i], sizeof(life->names[i]), "host%u", i / life->script.per_host);
		life->hosts[i / life->script.per_host] =
			(struct cluster_host){ .name = life->names[i], .leaf = (int)(i / life->script.per_host & 1) };
	}
	life->leaves[0] = life->leaves[1] = (struct cluster_switch){ .name = "leaf", .parent = CLUSTER_NONE };
	life->cluster = (struct cluster){ .switch_count = 2,
					  .host_count = MEMBERS / life->script.per_host,
					  .switches = life->leaves,
					  .hosts = life->hosts,
					  .fingerprint = 1 };
	r = life_bootstrap(life);
	if (r == 0 && life->script.state == KILL_IDLE) { /* until told that somebody was struck */
		char order;

		if (peer_read(control, &order, 1) < 0)
			return EXIT_BROKEN;
	}
	if (r == 0 && life->script.state == KILL_POSTED && life->script.rank != 0) {
		char order;

		if (peer_read(control, &order, 1) < 0)
			return EXIT_BROKEN;
	}
	if (r == 0)
		r = life_goes_on(life);
	_exit(r); /* as a process ends that has seen an error */
}

/* ---------------------------------------------------------------------------------------------------- the test */

/*
 * False: they did not come together, for which they have the time-out, and the machine stood still for a part of it. Then
 * none of them is left, and it goes again with twice the time; what is looked at here begins after that.
 */
static bool start_all(struct peer *peers, const struct script *script)
{
	uint8_t handles[MEMBERS][AGGREGATE_HANDLE_BYTES];
	uint64_t stalled_ns = runtime_stalled_ns();
	bool met = true;
	char text[96], ready;

	for (unsigned i = 0; i < MEMBERS; i++) {
		snprintf(text, sizeof(text), "%u %u %u %u %u %" PRIx64, script->state, i, script->slow,
			 script->timeout_ms, script->per_host, script->seed);
		assert_int_equal(peer_start("member", text, &peers[i]), 0);
	}
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_int_equal(peer_read(peers[i].control, handles[i], sizeof(handles[i])), 0);
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_int_equal(peer_write(peers[i].control, handles, sizeof(handles)), 0);
	for (unsigned i = 0; i < MEMBERS; i++)
		met &= peer_read(peers[i].control, &ready, 1) == 0;
	for (unsigned i = 0; i < MEMBERS && !met; i++)
		peer_stop(&peers[i]);
	stalled_ns = runtime_stalled_ns() - stalled_ns;
	if (!met && (script->timeout_ms >= TIMEOUT_MOST_MS || stalled_ns < script->timeout_ms * UINT64_C(1000000) / 5))
		fail_msg("%s, %u on a host, seed %" PRIx64 ": they do not come together", state_names[script->state],
			 script->per_host, script->seed);
	return met;
}

static void start_patiently(struct peer *peers, struct script *script)
{
	for (script->timeout_ms = TIMEOUT_MS; !start_all(peers, script); script->timeout_ms *= 2)
		;
}

/* The one that is struck is number 0: by its handle it is the coordinator in one case of six. */
static void strike(unsigned state, bool stop, unsigned per_host, uint64_t seed)
{
	struct script script = { .state = state, .per_host = per_host, .seed = seed };
	struct peer peers[MEMBERS] = { 0 };
	uint64_t struck_ns, stalled_ns, took_ms, stalled_ms;
	uint64_t random = seed;

	start_patiently(peers, &script);
	usleep((useconds_t)random_below(&random, state == KILL_CONNECTING ? 4000 : 60000));
	stalled_ns = runtime_stalled_ns();
	struck_ns = runtime_now_ns();
	kill(peers[0].pid, stop ? SIGSTOP : SIGKILL);
	if (state == KILL_IDLE || state == KILL_POSTED)
		for (unsigned i = 1; i < MEMBERS; i++)
			assert_int_equal(peer_write(peers[i].control, "g", 1), 0);
	for (unsigned i = 1; i < MEMBERS; i++) {
		int status = peer_wait(&peers[i], END_MS);

		/* It may have been struck after everybody had come together: then the others go on and see it. */
		if (status != EXIT_SAW_ERROR)
			fail_msg("%s, %s, %u on a host, seed %" PRIx64 ": member %u ended with %d", state_names[state],
				 stop ? "stopped" : "killed", per_host, seed, i, status);
	}
	took_ms = (runtime_now_ns() - struck_ns) / 1000000;
	stalled_ms = (runtime_stalled_ns() - stalled_ns) / 1000000;
	if (took_ms > script.timeout_ms + SLACK_MS * (runtime_sanitized() ? 3U : 1U) + stalled_ms)
		fail_msg("%s, %s, %u on a host, seed %" PRIx64 ": it took %" PRIu64 " ms, %" PRIu64
			 " ms of them stalled",
			 state_names[state], stop ? "stopped" : "killed", per_host, seed, took_ms, stalled_ms);
	for (unsigned i = 0; i < MEMBERS; i++)
		peer_stop(&peers[i]);
}

/* Each on a host of its own, all on one, two on each of two. */
static unsigned per_host(unsigned round)
{
	static const unsigned numbers[] = { 1, MEMBERS, 2 };

	return numbers[round % 3];
}

static void members_are_killed_in_every_state(void **state)
{
	unsigned rounds = runtime_long() ? ROUNDS : 1;

	(void)state;
	for (unsigned round = 0; round < rounds; round++)
		for (unsigned at = 0; at < KILL_STATE_COUNT; at++)
			strike(at, false, per_host(round + at), runtime_seed() + round * 100 + at);
}

static void members_are_stopped(void **state)
{
	const unsigned states = KILL_STATE_COUNT - KILL_IDLE;
	unsigned count = runtime_long() ? 6 * states : 1; /* each takes a whole time-out */

	(void)state;
	for (unsigned i = 0; i < count; i++) {
		uint64_t seed = runtime_seed() + i;

		strike(KILL_IDLE + (unsigned)(seed % states), true, per_host((unsigned)(seed / states % 3)), seed);
	}
}

/*
 * Far slower than the time-out all in all, and stopped for a part of it. Where the machine made the whole time-out of that
 * part, they were not only slow: then again, with twice the time-out.
 */
static bool slow_round(unsigned round, struct script *script)
{
	uint64_t stopped_ns, timeout_ns = script->timeout_ms * 1000000ULL;
	struct peer peers[MEMBERS] = { 0 };
	int status[MEMBERS];
	bool done = true;

	if (!start_all(peers, script))
		return false;
	usleep(50000);
	stopped_ns = runtime_now_ns();
	kill(peers[round % MEMBERS].pid, SIGSTOP);
	usleep(TIMEOUT_MS / 5 * 1000);
	kill(peers[round % MEMBERS].pid, SIGCONT);
	stopped_ns = runtime_now_ns() - stopped_ns;
	for (unsigned i = 0; i < MEMBERS; i++) {
		status[i] = peer_wait(&peers[i], END_MS);
		done &= status[i] == EXIT_DONE;
	}
	for (unsigned i = 0; i < MEMBERS; i++)
		peer_stop(&peers[i]);
	if (!done && stopped_ns > timeout_ns / 2 && script->timeout_ms < TIMEOUT_MOST_MS)
		return false;
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_int_equal(status[i], EXIT_DONE);
	return true;
}

static void slow_members_are_waited_for(void **state)
{
	(void)state;
	for (unsigned round = 0; round < (runtime_long() ? SLOW_ROUNDS : 1); round++) {
		struct script script = { .state = KILL_MIXED,
					 .slow = 1,
					 .timeout_ms = TIMEOUT_MS,
					 .per_host = per_host((unsigned)(runtime_seed() % 3) + round),
					 .seed = runtime_seed() + round };

		while (!slow_round(round, &script))
			script.timeout_ms *= 2;
	}
}

static const struct peer_role roles[] = { { "member", member_role }, { NULL, NULL } };

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_killed_in_every_state),
		cmocka_unit_test(members_are_stopped),
		cmocka_unit_test(slow_members_are_waited_for),
	};

	peer_main(argc, argv, roles, 100);
	runtime_start(argv[0], runtime_long() ? 900 : 110);
	runtime_watch_stalls();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
