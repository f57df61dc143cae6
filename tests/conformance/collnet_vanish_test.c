/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that vanish, in every state and in every way: every other member has its error within TRIBUTARY_TIMEOUT, nothing
 * that was reported done is wrong, and nobody hangs. Moments are taken from the seed. With TRIBUTARY_TEST_LONG each state
 * is met 20 times in each way, five times where the member is only stopped; else each state with a member that is killed,
 * and one with a member that is stopped or whose child holds its sockets. And members that are only slow: they are waited for.
 */
#include "collnet_crew.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/parallel.h"

/* A sanitized build takes many times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLACK_MS = 12000 };
#else
enum { SLACK_MS = 5000 };
#endif
enum { MEMBERS = 4, ROUNDS_LONG = 20, TIMEOUT_S = 3, TIMEOUT_MOST_S = 48, MOMENT_MS = 60, RUN_MS = 110000 };

enum vanish_state {
	VANISH_IDLE,    /* it has posted nothing, the others have */
	VANISH_SMALL,   /* small operations, all with all */
	VANISH_STAGED,  /* NCCL's chunks, 8 in flight */
	VANISH_WHOLE,   /* large ones in place */
	VANISH_CLOSING, /* it has closed its group with everything in flight */
	VANISH_STATE_COUNT
};
enum vanish_way { VANISH_KILL, VANISH_STOP, VANISH_HELD, VANISH_WAY_COUNT };

static const char *const state_names[] = { "idle", "small", "staged", "whole", "closing" };
static const char *const way_names[] = { "killed", "stopped", "killed while a child holds its sockets" };

enum { WITHOUT_END = 1000000 };
static const struct collnet_shape shapes[VANISH_STATE_COUNT] = {
	{ .name = "idle", .operations = WITHOUT_END, .max_bytes = 100000, .window = 8, .type = -1 },
	{ .name = "small", .operations = WITHOUT_END, .max_bytes = 4000, .window = 8, .type = -1 },
	{ .name = "staged",
	  .operations = WITHOUT_END,
	  .max_bytes = 1 << 20,
	  .window = 8,
	  .type = NCCL_FLOAT32,
	  .whole = true,
	  .oldest_only = true,
	  .nap_us = 50 },
	{ .name = "whole",
	  .operations = WITHOUT_END,
	  .max_bytes = 16 << 20,
	  .window = 2,
	  .type = NCCL_FLOAT32,
	  .in_place = true,
	  .whole = true },
	{ .name = "closing", .operations = WITHOUT_END, .max_bytes = 300000, .window = 8, .type = NCCL_INT32 },
};

struct script {
	unsigned state, way, victim;
};

static struct script script_of(const struct collnet_member *member)
{
	struct script script;

	if (sscanf(member->words, "%u,%u,%u", &script.state, &script.way, &script.victim) != 3)
		exit(2);
	return script;
}

/* Holds what its parent held, like a data loader. It ends when the test lets go of the parent, or by itself. */
static void holder_start(int control)
{
	uint8_t byte;

	if (!fork()) {
		signal(SIGALRM, SIG_DFL);
		alarm(TIMEOUT_MOST_S * 2);
		while (recv(control, &byte, 1, 0) != 0)
			;
		_exit(0);
	}
}

/* Lives until it is killed. */
static int victim_lives(struct collnet_member *member, const struct script *script)
{
	if (script->way == VANISH_HELD)
		holder_start(member->control);
	if (peer_write(member->control, "", 1) < 0)
		return 3;
	if (script->state == VANISH_CLOSING) {
		(void)collnet_member_leave(member, 16, 300000);
		(void)collnet_ops_close_group(&member->ops, member->group);
	} else if (script->state != VANISH_IDLE) {
		(void)collnet_member_run(member, &shapes[script->state], RUN_MS);
	}
	for (;;)
		pause();
}

struct end {
	int result; /* of the first call that failed */
	int later;  /* of one after it */
	uint64_t at_ns;
};

static int member_role(int control, const char *argument)
{
	struct collnet_member member;
	struct script script;
	uint8_t data[8] = { 0 };
	void *request = NULL;
	struct end end;

	collnet_member_open(control, argument, &member);
	script = script_of(&member);
	collnet_member_meet(&member);
	if (collnet_member_connect(&member) != NCCL_SUCCESS)
		return 4;
	if (member.index == script.victim)
		return victim_lives(&member, &script);
	if (peer_write(control, "", 1) < 0)
		return 3;
	end.result = collnet_member_run(&member, &shapes[script.state], RUN_MS);
	end.at_ns = runtime_now_ns();
	end.later = collnet_ops_reduce(&member.ops, member.group, data, data, 1, NCCL_INT8, NCCL_SUM, NULL, &request);
	collnet_member_close(&member);
	return peer_write(control, &end, sizeof(end)) < 0 ? 5 : 0;
}

static void vanish(struct peer *peer, enum vanish_way way)
{
	kill(peer->pid, way == VANISH_STOP ? SIGSTOP : SIGKILL);
}

/* Of the processes that are started from now on. */
static void set_timeout(unsigned timeout_s)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", timeout_s);
	setenv("TRIBUTARY_TIMEOUT", text, 1);
}

/* False: a member has not come into its state, for which they have the time-out, too. */
static bool crew_ready(struct collnet_crew *crew)
{
	uint8_t byte;

	for (unsigned i = 0; i < crew->count; i++)
		if (peer_read(crew->peers[i].control, &byte, 1) < 0)
			return false;
	return true;
}

/* Where the machine stood still for a part of the time-out, again with twice the time; what is looked at comes after it. */
static unsigned crew_start_patiently(const char *role, unsigned count, const char *words, uint64_t seed,
				     struct collnet_crew *crew)
{
	for (unsigned timeout_s = TIMEOUT_S; timeout_s <= TIMEOUT_MOST_S; timeout_s *= 2) {
		uint64_t stalled_ns = runtime_stalled_ns();

		set_timeout(timeout_s);
		collnet_crew_start(role, count, 0, seed, words, crew);
		collnet_crew_introduce(crew, seed);
		if (crew_ready(crew))
			return timeout_s;
		collnet_crew_stop(crew);
		if (runtime_stalled_ns() - stalled_ns < timeout_s * UINT64_C(1000000000) / 5)
			break;
	}
	fail_msg("%s %s: the members do not come together", role, words);
	return 0;
}

static void vanish_once(struct script script, uint64_t seed)
{
	struct collnet_crew crew;
	uint64_t random = seed;
	uint64_t at_ns, stalled_ns;
	unsigned timeout_s;
	char words[64];

	script.victim = (unsigned)random_below(&random, MEMBERS);
	snprintf(words, sizeof(words), "%u,%u,%u", script.state, script.way, script.victim);
	timeout_s = crew_start_patiently("member", MEMBERS, words, seed, &crew);
	usleep((useconds_t)random_below(&random, MOMENT_MS * 1000));
	stalled_ns = runtime_stalled_ns();
	at_ns = runtime_now_ns();
	vanish(&crew.peers[script.victim], (enum vanish_way)script.way);
	for (unsigned i = 0; i < MEMBERS; i++) {
		struct end end = { 0 };
		uint64_t took_ms, stalled_ms;

		if (i == script.victim)
			continue;
		if (peer_read(crew.peers[i].control, &end, sizeof(end)) < 0)
			fail_msg("%s, %s: member %u has not ended", state_names[script.state], way_names[script.way],
				 i);
		if (end.result != NCCL_REMOTE_ERROR || end.later != NCCL_REMOTE_ERROR)
			fail_msg("%s, %s: member %u has %d, later %d", state_names[script.state], way_names[script.way],
				 i, end.result, end.later);
		took_ms = end.at_ns > at_ns ? (end.at_ns - at_ns) / 1000000 : 0;
		stalled_ms = (runtime_stalled_ns() - stalled_ns) / 1000000;
		if (took_ms > timeout_s * 1000 + SLACK_MS + stalled_ms)
			fail_msg("%s, %s: member %u took %u ms, %u of them stalled", state_names[script.state],
				 way_names[script.way], i, (unsigned)took_ms, (unsigned)stalled_ms);
		assert_int_equal(peer_wait(&crew.peers[i], 60000), 0);
	}
	collnet_crew_stop(&crew);
}

static void a_member_that_vanishes_is_found_by_all(void **state)
{
	struct script script = { .way = *(const enum vanish_way *)*state };
	/* Nobody hears of one that is stopped, or whose sockets are held, before the time-out is over. */
	unsigned rounds = !runtime_long() ? 1 : script.way == VANISH_STOP ? ROUNDS_LONG / 4 : ROUNDS_LONG;
	bool all_states = runtime_long() || script.way == VANISH_KILL;
	uint64_t random = runtime_seed() + script.way;

	for (unsigned round = 0; round < rounds; round++) {
		unsigned only = (unsigned)random_below(&random, VANISH_STATE_COUNT);

		for (script.state = 0; script.state < VANISH_STATE_COUNT; script.state++)
			if (all_states || script.state == only)
				vanish_once(script, random_next(&random) >> 8);
	}
}

/* Stopped for a third of the time-out. False: the machine made more of it, and some did not wait. */
static bool slow_member(unsigned *timeout_s)
{
	uint64_t longest_ns = 0, stopped_ns;
	struct collnet_crew crew;
	uint64_t random = runtime_seed();
	int r;

	*timeout_s = crew_start_patiently("slow", 3, "-", runtime_seed(), &crew);
	for (unsigned i = 0; i < (runtime_long() ? 5 : 1); i++) {
		pid_t pid = crew.peers[random_below(&random, 3)].pid;

		usleep((useconds_t)random_below(&random, 100000));
		stopped_ns = runtime_now_ns();
		kill(pid, SIGSTOP);
		usleep(*timeout_s * 1000000 / 3);
		kill(pid, SIGCONT);
		stopped_ns = runtime_now_ns() - stopped_ns;
		longest_ns = stopped_ns > longest_ns ? stopped_ns : longest_ns;
	}
	r = collnet_crew_wait(&crew, 150000);
	if (r && longest_ns < *timeout_s * UINT64_C(500000000))
		fail_msg("the crew ends with %d", r);
	return r == 0;
}

static void a_slow_member_is_waited_for(void **state)
{
	unsigned timeout_s, tries = 0;

	(void)state;
	while (!slow_member(&timeout_s))
		assert_true(++tries < 5);
}

static int slow_role(int control, const char *argument)
{
	static const struct collnet_shape shape = {
		.name = "slow", .operations = 60, .max_bytes = 400000, .window = 8, .type = -1, .nap_us = 5000
	};
	struct collnet_member member;
	int r;

	collnet_member_open(control, argument, &member);
	collnet_member_meet(&member);
	r = collnet_member_connect(&member);
	if (r == 0)
		r = peer_write(control, "r", 1);
	/* Nobody posts anything for longer than the time-out: that is no reason to fail. */
	if (r == 0)
		usleep((useconds_t)strtoul(getenv("TRIBUTARY_TIMEOUT"), NULL, 10) * 1000000 + 500000);
	if (r == 0)
		r = collnet_member_run(&member, &shape, RUN_MS);
	collnet_member_close(&member);
	return r ? runtime_complain(1, "member %u ends with %d", member.index, r), 1 : 0;
}

static int begin(void **state)
{
	(void)state;
	runtime_watch_stalls();
	return 0;
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = { { "member", member_role }, { "slow", slow_role }, { NULL, NULL } };
	static enum vanish_way ways[] = { VANISH_KILL, VANISH_STOP, VANISH_HELD };
	const struct CMUnitTest tests[] = {
		{ "killed", a_member_that_vanishes_is_found_by_all, NULL, NULL, &ways[VANISH_KILL] },
		{ "stopped", a_member_that_vanishes_is_found_by_all, NULL, NULL, &ways[VANISH_STOP] },
		{ "killed while a child holds its sockets", a_member_that_vanishes_is_found_by_all, NULL, NULL,
		  &ways[VANISH_HELD] },
		cmocka_unit_test(a_slow_member_is_waited_for),
	};

	peer_main(argc, argv, roles, 110);
	runtime_start("collnet_vanish_test", runtime_long() ? 1150 : 115);
	runtime_set_streams(0);
	return parallel_run_group_tests(tests, begin, NULL);
}
