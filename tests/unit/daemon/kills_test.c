/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aggregators and members that are killed (SIGKILL), at moments taken from the seed: the built tributaryd, and members in
 * processes of their own, which reduce without end. A killed aggregator costs nobody more than time: every operation ends
 * with the bits that it has without aggregators. A killed member is an error at every other, soon, and no result before is
 * wrong. Nobody hangs.
 *
 * A few of each here; TRIBUTARY_TEST_LONG=1: 500 aggregators and 1000 members. TRIBUTARY_TEST_SEEDS, where it is set, is
 * the number of either.
 */
#include "base/clock.h"
#include "processes.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum { HANG_MS = 150000 };

static unsigned long kills_due(unsigned long few, unsigned long all)
{
	const char *text = runtime_setting("TEST_SEEDS");

	return text ? strtoul(text, NULL, 10) : runtime_long() ? all : few;
}

static struct processes_scene scene_any(uint64_t *random, size_t least_daemons)
{
	struct processes_scene scene = { .seed = *random };

	scene.members = 2 + random_below(random, PROCESSES_MEMBERS_MOST - 1);
	scene.leaves = 1 + random_below(random, 2);
	scene.daemons = least_daemons + random_below(random, PROCESSES_DAEMONS_MOST + 1 - least_daemons);
	processes_expect(scene.members, scene.leaves);
	processes_daemons_ready(scene.daemons);
	return scene;
}

static void aggregators_are_killed(void **state)
{
	unsigned long due = kills_due(6, 500), kills = 0, completed = 0, hung = 0, wrong = 0, ended = 0, unused = 0;
	uint64_t random = runtime_seed();

	(void)state;
	processes_skip_without_program();
	for (unsigned long groups = 0; kills < due; groups++) {
		struct processes_scene scene = scene_any(&random, 1);
		size_t victims, killed = 0;
		int r;

		processes_open(&scene, PROCESSES_TIMEOUT_S);
		unused += scene.daemons - scene.aggregators;
		victims = 1 + random_below(&random, scene.daemons);
		for (; killed < victims; killed++) {
			usleep((useconds_t)random_below(&random, random_below(&random, 3) ? 30000 : 300));
			processes_daemon_kill(&processes_daemons[killed]);
		}
		usleep((useconds_t)random_below(&random, 20000));
		r = processes_end(&scene);
		kills += killed;
		completed += r == 0 ? killed : 0;
		wrong += r == PROCESSES_WRONG;
		ended += r == PROCESSES_SAW_ERROR;
		hung += r == -ETIMEDOUT;
		if (r)
			print_message("seed %" PRIx64 ": %zu members, %zu leaves, %zu aggregators, %zu killed: %d\n",
				      scene.seed, scene.members, scene.leaves, scene.daemons, killed, r);
	}
	print_message(
		"%lu aggregators killed: %lu times all went through, %lu groups ended with an error, %lu hung, %lu "
		"wrong; %lu were not used\n",
		kills, completed, ended, hung, wrong, unused);
	assert_int_equal(hung, 0);
	assert_int_equal(wrong, 0);
	assert_true(completed * 100 >= kills * 99);
}

/* With an aggregator beside it, one time in three. */
static void members_are_killed(void **state)
{
	unsigned long due = kills_due(6, 1000), wrong = 0, hung = 0, late = 0, other = 0;
	uint64_t random = runtime_seed() + 1;
	uint64_t worst_ns = 0;

	(void)state;
	processes_skip_without_program();
	for (unsigned long kills = 0; kills < due; kills++) {
		struct processes_scene scene = scene_any(&random, 0);
		size_t victim = random_below(&random, scene.members);
		uint64_t struck_ns, took_ns;
		int status;

		processes_open(&scene, PROCESSES_TIMEOUT_S);
		usleep((useconds_t)random_below(&random, random_below(&random, 3) ? 40000 : 300));
		if (scene.daemons && random_below(&random, 3) == 0)
			processes_daemon_kill(&processes_daemons[random_below(&random, scene.daemons)]);
		peer_stop(&scene.peers[victim]);
		struck_ns = runtime_now_ns();
		for (size_t i = 0; i < scene.members; i++) {
			if (i == victim)
				continue;
			status = peer_wait(&scene.peers[i], HANG_MS);
			wrong += status == PROCESSES_WRONG;
			hung += status == -ETIMEDOUT;
			other += status != PROCESSES_SAW_ERROR && status != PROCESSES_WRONG && status != -ETIMEDOUT;
			if (status != PROCESSES_SAW_ERROR)
				print_message("seed %" PRIx64 ": member %zu of %zu ended with %d\n", scene.seed, i,
					      scene.members, status);
		}
		took_ns = runtime_now_ns() - struck_ns;
		late += took_ns > (PROCESSES_TIMEOUT_S + 5) * NS_PER_S;
		worst_ns = took_ns > worst_ns ? took_ns : worst_ns;
		processes_drop(&scene);
	}
	print_message(
		"%lu members killed: %lu hung, %lu wrong results, %lu ended otherwise, %lu late; the slowest end took "
		"%llu ms\n",
		due, hung, wrong, other, late, (unsigned long long)(worst_ns / NS_PER_MS));
	assert_int_equal(hung + wrong + other + late, 0);
}

static const struct peer_role roles[] = { { "member", processes_member }, { NULL, NULL } };

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aggregators_are_killed),
		cmocka_unit_test(members_are_killed),
	};

	peer_main(argc, argv, roles, 100);
	runtime_start(argv[0], 110);
	if (runtime_long() || runtime_setting("TEST_SEEDS"))
		runtime_watchdog(4 * 3600);
	if (runtime_setting("TEST_FILTER"))
		cmocka_set_test_filter(runtime_setting("TEST_FILTER"));
	return cmocka_run_group_tests(tests, processes_make, processes_remove);
}
