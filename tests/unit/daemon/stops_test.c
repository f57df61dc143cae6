/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aggregators and members that are stopped (SIGSTOP), as a debugger, a full memory cgroup or a suspended virtual machine
 * does it: their connections stay open and nothing comes. For less than TRIBUTARY_TIMEOUT they are slow, and waited for.
 * After that an aggregator is done without, and a member is an error at every other. One that goes on later harms nobody.
 *
 * One of each here; TRIBUTARY_TEST_SEEDS says how many.
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
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/parallel.h"

/*
 * Of the members; of a group that has to do without an aggregator, which gets a fifth of it; of a stop that is shorter; what
 * a busy machine may add; of aggregators: so much longer that nobody can have waited for it.
 */
enum {
	TIMEOUT_S = 6,
	CONNECT_TIMEOUT_S = 30,
	SHORT_MS = 1000,
	SLACK_MS = 25000,
	DAEMON_TIMEOUT_S = 60,
	HANG_MS = 150000
};

static unsigned long stops_due(void)
{
	const char *text = runtime_setting("TEST_SEEDS");

	return text ? strtoul(text, NULL, 10) : runtime_long() ? 20 : 1;
}

static void ready(struct processes_scene *scene, uint64_t *random)
{
	scene->seed = *random;
	processes_daemon_timeout_s = DAEMON_TIMEOUT_S;
	processes_expect(scene->members, scene->leaves);
	processes_daemons_ready(scene->daemons);
}

static void any_moment(uint64_t *random)
{
	usleep((useconds_t)random_below(random, random_below(random, 3) ? 30000 : 300));
}

static uint64_t since_ms(uint64_t began_ns)
{
	return (runtime_now_ns() - began_ns) / NS_PER_MS;
}

static void an_aggregator_that_stops_is_done_without(void **state)
{
	uint64_t random = runtime_seed();

	(void)state;
	processes_skip_without_program();
	for (unsigned long i = 0; i < stops_due(); i++) {
		/* On two leaves the other one waits for it, and has more patience than the members. */
		struct processes_scene scene = { .members = 4, .leaves = 2 - i % 2 };
		struct processes_scene later = { .members = 2, .daemons = 1, .leaves = 1 };
		uint64_t began_ns, took_ms;
		int r;

		scene.daemons = scene.leaves;
		ready(&scene, &random);
		ready(&later, &random);
		processes_open(&scene, TIMEOUT_S);
		any_moment(&random);
		assert_int_equal(kill(processes_daemons[0].pid, SIGSTOP), 0);
		began_ns = runtime_now_ns();
		r = processes_end(&scene);
		took_ms = since_ms(began_ns);
		assert_int_equal(kill(processes_daemons[0].pid, SIGCONT), 0);
		print_message("seed %" PRIx64 ", %zu leaves, %zu aggregators: through after %" PRIu64 " ms\n",
			      scene.seed, scene.leaves, scene.aggregators, took_ms);
		if (r || took_ms > TIMEOUT_S * 1000 + SLACK_MS)
			fail_msg("seed %" PRIx64 ": %d", scene.seed, r);
		/* It is none the worse for it. */
		processes_open(&later, PROCESSES_TIMEOUT_S);
		assert_int_equal(later.aggregators, 1);
		assert_int_equal(processes_end(&later), 0);
	}
}

/* Its kernel still takes connections. */
static void a_new_group_does_without_a_stopped_aggregator(void **state)
{
	struct processes_scene scene = { .members = 3, .daemons = 2, .leaves = 1 };
	uint64_t random = runtime_seed() + 4;

	(void)state;
	processes_skip_without_program();
	ready(&scene, &random);
	assert_int_equal(kill(processes_daemons[0].pid, SIGSTOP), 0);
	processes_open(&scene, CONNECT_TIMEOUT_S);
	assert_int_equal(scene.aggregators, 1);
	assert_int_equal(kill(processes_daemons[0].pid, SIGCONT), 0);
	assert_int_equal(processes_end(&scene), 0);
}

static void an_aggregator_that_stops_briefly_is_waited_for(void **state)
{
	uint64_t random = runtime_seed() + 1;

	(void)state;
	processes_skip_without_program();
	for (unsigned long i = 0; i < stops_due(); i++) {
		struct processes_scene scene = { .members = 3, .daemons = 1, .leaves = 1 };
		uint64_t before, deadline_ns;

		ready(&scene, &random);
		processes_open(&scene, PROCESSES_TIMEOUT_S);
		assert_int_equal(scene.aggregators, 1);
		any_moment(&random);
		assert_int_equal(kill(processes_daemons[0].pid, SIGSTOP), 0);
		usleep(SHORT_MS * 1000);
		assert_int_equal(kill(processes_daemons[0].pid, SIGCONT), 0);
		deadline_ns = runtime_deadline_ns(HANG_MS);
		before = processes_daemon_segments(&processes_daemons[0]);
		while (processes_daemon_segments(&processes_daemons[0]) == before && !runtime_past(deadline_ns))
			usleep(10000);
		assert_false(runtime_past(deadline_ns));
		assert_int_equal(processes_end(&scene), 0);
	}
}

/* With an aggregator beside it. */
static void a_member_that_stops_is_an_error_everywhere(void **state)
{
	uint64_t random = runtime_seed() + 2;

	(void)state;
	processes_skip_without_program();
	for (unsigned long i = 0; i < stops_due(); i++) {
		struct processes_scene scene = { .members = 3, .daemons = 1, .leaves = 1 };
		size_t victim = random_below(&random, 3);
		uint64_t began_ns, took_ms;

		ready(&scene, &random);
		processes_open(&scene, TIMEOUT_S);
		any_moment(&random);
		assert_int_equal(kill(scene.peers[victim].pid, SIGSTOP), 0);
		began_ns = runtime_now_ns();
		for (size_t m = 0; m < 3; m++)
			if (m != victim)
				assert_int_equal(peer_wait(&scene.peers[m], HANG_MS), PROCESSES_SAW_ERROR);
		took_ms = since_ms(began_ns);
		print_message("seed %" PRIx64 ", member %zu: an error after %" PRIu64 " ms\n", scene.seed, victim,
			      took_ms);
		assert_true(took_ms < TIMEOUT_S * 1000 + SLACK_MS);
		assert_int_equal(kill(scene.peers[victim].pid, SIGCONT), 0);
		assert_int_equal(peer_wait(&scene.peers[victim], HANG_MS), PROCESSES_SAW_ERROR);
		processes_drop(&scene);
	}
}

static void a_member_that_stops_briefly_is_waited_for(void **state)
{
	uint64_t random = runtime_seed() + 3;

	(void)state;
	processes_skip_without_program();
	for (unsigned long i = 0; i < stops_due(); i++) {
		struct processes_scene scene = { .members = 3, .daemons = 1, .leaves = 1 };
		size_t victim = random_below(&random, 3);

		ready(&scene, &random);
		processes_open(&scene, PROCESSES_TIMEOUT_S);
		any_moment(&random);
		assert_int_equal(kill(scene.peers[victim].pid, SIGSTOP), 0);
		usleep(SHORT_MS * 1000);
		assert_int_equal(kill(scene.peers[victim].pid, SIGCONT), 0);
		assert_int_equal(processes_end(&scene), 0);
	}
}

static const struct peer_role roles[] = { { "member", processes_member }, { NULL, NULL } };

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_aggregator_that_stops_is_done_without),
		cmocka_unit_test(a_new_group_does_without_a_stopped_aggregator),
		cmocka_unit_test(an_aggregator_that_stops_briefly_is_waited_for),
		cmocka_unit_test(a_member_that_stops_is_an_error_everywhere),
		cmocka_unit_test(a_member_that_stops_briefly_is_waited_for),
	};

	peer_main(argc, argv, roles, 100);
	runtime_start(argv[0], 110);
	if (runtime_long() || runtime_setting("TEST_SEEDS"))
		runtime_watchdog(4 * 3600);
	return parallel_run_group_tests(tests, processes_make, processes_remove);
}
