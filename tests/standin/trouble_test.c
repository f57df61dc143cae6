/*
 * The built library where something is in the way: registries that are not shared, full or somebody else's, processes
 * that die, fork, or never come. NCCL gets a file that fits, or none.
 */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/parallel.h"

/* ---- registries ---- */

static void containers_with_a_shm_each_rest(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct play_launch launch = scene_begin(&scene.eight, round);
		unsigned first;

		/* One job, told that eight processes are on this host, in two containers. */
		launch.world_size = launch.local_size = 8;
		first = play_processes(&scene.play, launch, 4, 0);
		launch.place = CONTAINER;
		play_processes(&scene.play, launch, 4, 4);
		scene_expect(scene_run(first, scene_all, 8), PLAY_REST);
		scene_expect(scene_run(first, scene_all, 4), PLAY_REST);
	}
}

/*
 * Two containers on one host that share its name (a host's network in Kubernetes): to NCCL they are one host, and each of
 * them is told that it has all four local processes.
 */
static void containers_that_think_to_be_hosts_do_not_fail(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct play_launch launch = scene_begin(&scene.eight, round);
		unsigned first;

		launch.world_size = 8;
		launch.extra[0] = "GROUP_RANK=0";
		first = play_processes(&scene.play, launch, 4, 0);
		launch.extra[0] = "GROUP_RANK=1";
		launch.place = CONTAINER;
		play_processes(&scene.play, launch, 4, 4);
		scene_run(first, scene_all, 8);
		scene_nobody_failed();
	}
}

static void processes_of_other_pid_namespaces_do_not_disturb(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first = play_processes(&scene.play, launch, 2, 0);

		for (unsigned i = 2; i < 4; i++) {
			launch.place = OTHER_PIDS;
			launch.rank = launch.local_rank = (int)i;
			play_process(&scene.play, &launch);
		}
		scene_run(first, scene_all, 4);
		scene_run(first, scene_all, 2);
		scene_run(first, scene_all, 4);
		scene_nobody_failed();
	}
}

/* A container that ends takes its process ids with it, and leaves its files in a /dev/shm that others have, too. */
static void containers_that_have_ended_do_not_disturb(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first, files;

		first = play_processes(&scene.play, launch, 4, 0);
		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
		files = (unsigned)play_place_order(&scene.play, PLAIN, BOARD_PLACE_COUNT_FILES, 0);
		for (unsigned p = 0; p < 4; p++)
			play_kill(&scene.play, first + p);
		/* The same job once more, in a container of its own, and then a third time. */
		launch.place = OTHER_PIDS;
		first = play_processes(&scene.play, launch, 4, 0);
		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
		assert_int_equal(play_place_order(&scene.play, PLAIN, BOARD_PLACE_COUNT_FILES, 0), files);
		for (unsigned p = 0; p < 4; p++)
			play_kill(&scene.play, first + p);
		launch.place = PLAIN;
		first = play_processes(&scene.play, launch, 4, 0);
		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
		assert_int_equal(play_place_order(&scene.play, PLAIN, BOARD_PLACE_COUNT_FILES, 0), files);
	}
}

static void users_do_not_see_each_other(void **state)
{
	(void)state;
	if (getuid() != 0) {
		printf("skipped: needs to be root to be somebody else\n");
		skip();
	}
	for (unsigned round = 0; round < 2; round++) {
		struct play_launch launch = scene_begin(&scene.eight, round);
		unsigned first, comm, mixed;

		first = play_processes(&scene.play, launch, 4, 0);
		launch.job = 1;
		launch.user = 65534;
		play_processes(&scene.play, launch, 4, 0);
		comm = play_comm_of(&scene.play, first, scene_all, 4);
		mixed = play_comm_of(&scene.play, first + 4, scene_all, 4);
		play_run(&scene.play);
		scene_expect(comm, PLAY_PLAN);
		scene_expect(mixed, PLAY_PLAN);
		/* One job of two users is told that there are eight: neither of them counts so many. */
		launch = scene_begin(&scene.eight, round);
		launch.world_size = launch.local_size = 8;
		first = play_processes(&scene.play, launch, 4, 0);
		launch.user = 65534;
		play_processes(&scene.play, launch, 4, 4);
		scene_expect(scene_run(first, scene_all, 8), PLAY_REST);
	}
}

/* Time stands still for the processes, so that a busy machine does not make one of them late. */
static void jobs_at_once_get_their_own(void **state)
{
	static const int low[] = { 0, 1, 2, 3 }, high[] = { 4, 5, 6, 7 };

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct play_launch launch = scene_begin(&scene.eight, round);
		unsigned first = play_processes(&scene.play, launch, 4, 0), a, b;

		launch.job = 1;
		play_processes(&scene.play, launch, 4, 0);
		a = play_comm_of(&scene.play, first, low, 4);
		b = play_comm_of(&scene.play, first, high, 4);
		play_stop_time(&scene.play, true);
		play_run(&scene.play);
		play_stop_time(&scene.play, false);
		scene_nobody_failed();
		scene_expect(a, PLAY_PLAN);
		scene_expect(b, PLAY_PLAN);
	}
}

static void a_full_shm_stops_nobody(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 8; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first;

		launch.place = SMALL;
		scene.play.board->places[SMALL].seed = 0;
		/* From nothing at all to a few pages: somewhere between what works and what does not. */
		play_place_order(&scene.play, SMALL, BOARD_PLACE_FILL, round * 4096);
		first = play_processes(&scene.play, launch, 4, 0);
		scene_run(first, scene_all, 4);
		scene_nobody_failed();
		scene_run(first, scene_all, 3);
		scene_nobody_failed();
	}
}

static void what_others_leave_in_the_registry_is_not_believed(void **state)
{
	(void)state;
	for (unsigned which = 0; which < 7; which++)
		for (unsigned round = 0; round < 2; round++) {
			struct play_launch launch = scene_begin(&scene.four, round);
			unsigned first;

			/* Before anything is there; and what an earlier job left, which nobody uses any more. */
			play_place_order(&scene.play, PLAIN, BOARD_PLACE_HOSTILE, which);
			for (unsigned job = 0; job < 2; job++) {
				launch.job = (int)job;
				first = play_processes(&scene.play, launch, 4, 0);
				scene_run(first, scene_all, 4);
				scene_nobody_failed();
				if (which == 3) /* more files do not disturb a job that runs */
					play_place_order(&scene.play, PLAIN, BOARD_PLACE_HOSTILE, which);
				scene_run(first, scene_all, 3);
				scene_nobody_failed();
				for (unsigned p = 0; p < 4; p++)
					play_kill(&scene.play, first + p);
				play_place_order(&scene.play, PLAIN, BOARD_PLACE_HOSTILE, which);
			}
		}
}

/* ---- what does not go as planned ---- */

static void ranks_that_never_come_leave_nothing_behind(void **state)
{
	static const int rest[] = { 0, 1, 2 };

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first = play_processes(&scene.play, launch, 4, 0), parent, comm;

		parent = scene_run(first, scene_all, 4);
		scene_expect(parent, PLAY_PLAN);
		comm = play_comm_of(&scene.play, first, scene_all, 4);
		scene.play.comms[comm].members[3].state = PLAY_ABSENT;
		scene.play.comms[comm].given_up_quietly = round != 1;
		play_run(&scene.play);
		play_pass_time(&scene.play, 5000); /* the user's patience */
		play_give_up(&scene.play, comm);
		play_run(&scene.play);
		scene_expect(comm, PLAY_GIVEN_UP);
		scene_expect(scene_run_shared(parent, first, rest, 1 + round), PLAY_REST);
		scene_expect(scene_run(first, rest, 3), PLAY_PLAN);
		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
	}
}

static void an_init_that_fails_late_leaves_nothing_behind(void **state)
{
	static const int half[] = { 2, 1 };

	(void)state;
	for (unsigned round = 0; round < 8; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first, parent, comm;

		launch.tuner_version = round < 4 ? launch.tuner_version : -1;
		first = play_processes(&scene.play, launch, 4, 0);
		parent = scene_run(first, scene_all, 4);
		scene_expect(parent, PLAY_PLAN);
		comm = play_comm_of(&scene.play, first, half, 2);
		scene.play.comms[comm].give_up_late = true;
		scene.play.comms[comm].given_up_quietly = round % 4 >= 2;
		play_run(&scene.play);
		scene_expect(comm, PLAY_GIVEN_UP);
		scene_expect(scene_run_shared(parent, first, scene_all, 4), PLAY_REST);
		scene_expect(scene_run(first, scene_all, 3), PLAY_PLAN);
	}
}

/*
 * An init that all its ranks here give up, as somebody elsewhere never comes: nobody says so, and no time passes. What
 * they do next, on the same threads, are splits with shared resources of the parent.
 */
static unsigned give_up(unsigned first, const int *locals, unsigned count, bool late)
{
	unsigned comm = play_comm_of(&scene.play, first, locals, count);

	if (!late) {
		play_join(&scene.play, comm, first + 4, 0, 0);
		scene.play.comms[comm].members[count].state = PLAY_ABSENT;
	}
	scene.play.comms[comm].give_up_late = late;
	scene.play.comms[comm].given_up_quietly = true;
	play_run(&scene.play);
	play_give_up(&scene.play, comm);
	play_run(&scene.play);
	scene_expect(comm, PLAY_GIVEN_UP);
	return comm;
}

/* Of 16 rounds, those that are taken: each waits for what does not come, for seconds. */
static unsigned step(void)
{
	return runtime_long() ? 1 : 16;
}

static unsigned parent_begin(unsigned round, const char *extra, unsigned *first)
{
	struct play_launch launch = scene_begin(&scene.four, round);
	unsigned parent;

	launch.extra[0] = extra;
	launch.world_size = 5;
	launch.tuner_version = round & 4 ? -1 : launch.tuner_version;
	*first = play_processes(&scene.play, launch, 4, 0);
	launch.host = 1;
	launch.place = OTHER_HOST;
	launch.local_size = 1;
	play_processes(&scene.play, launch, 1, 4);
	parent = scene_run(*first, scene_all, 4);
	scene_expect(parent, extra ? scene.play.comms[parent].verdict : PLAY_PLAN);
	return parent;
}

static void splits_after_an_init_that_was_given_up_find_nothing_of_it(void **state)
{
	static const struct {
		int given_up[2][4];
		unsigned given_up_counts[2];
		int split[4];
		unsigned split_count;
		enum play_verdict verdict;
	} cases[] = {
		{ { { 0, 1, 2 } }, { 3 }, { 1, 0 }, 2, PLAY_REST },                 /* some of them */
		{ { { 0, 1 } }, { 2 }, { 1, 0, 3 }, 3, PLAY_REST },                 /* they and another one */
		{ { { 0, 1 } }, { 2 }, { 1, 2, 3 }, 3, PLAY_REST },                 /* one of them and others */
		{ { { 0, 1 }, { 2, 3 } }, { 2, 2 }, { 3, 1, 0, 2 }, 4, PLAY_REST }, /* two such inits at once */
		{ { { 0, 1 }, { 2, 3 } }, { 2, 2 }, { 0, 1, 2 }, 3, PLAY_REST },
		{ { { 0, 1, 2 } }, { 3 }, { 2, 0, 1 }, 3, PLAY_PLAN }, /* just they: the same calls, the same GPUs */
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i += runtime_long() ? 1 : 2)
		for (unsigned round = 0; round < 16; round += step()) {
			unsigned first, parent = parent_begin(round + i, NULL, &first), split;

			for (unsigned k = 0; k < 2 && cases[i].given_up_counts[k]; k++)
				give_up(first, cases[i].given_up[k], cases[i].given_up_counts[k], false);
			split = scene_run_shared(parent, first, cases[i].split, cases[i].split_count);
			scene_expect(split, cases[i].verdict);
			scene_expect(scene_run_shared(parent, first, scene_all, 4), PLAY_REST);
			scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
		}
}

/* Two splits at once, as of one ncclCommSplit() with two colours; each has ranks of what was given up, and others. */
static void splits_in_two_after_that_find_nothing_of_it(void **state)
{
	static const int given_up[] = { 0, 1 };

	(void)state;
	for (unsigned round = 0; round < 16; round += runtime_long() ? 1 : 5) {
		unsigned first, parent = parent_begin(round, NULL, &first), splits[2];

		give_up(first, given_up, 2, round % 2);
		for (unsigned colour = 0; colour < 2; colour++) {
			splits[colour] = play_comm(&scene.play, (int)parent, true);
			for (unsigned i = 0; i < 2; i++)
				play_join(&scene.play, splits[colour], first + colour + 2 * i, 0,
					  (int)(colour + 2 * i));
		}
		play_run(&scene.play);
		scene_expect(splits[0], PLAY_REST);
		scene_expect(splits[1], PLAY_REST);
		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
	}
}

/* The same where NCCL fails between the topology phase and the graph file; also with the phase more that a dump has. */
static void splits_after_an_init_that_failed_late_find_nothing_of_it(void **state)
{
	static const int given_up[] = { 2, 1, 0 }, some[] = { 3, 1 };

	(void)state;
	for (unsigned round = 0; round < 16; round += runtime_long() ? 1 : 5) {
		unsigned first,
			parent = parent_begin(round, round < 8 ? NULL : "NCCL_TOPO_DUMP_FILE=/dev/null", &first);

		give_up(first, given_up, 3, true);
		scene_expect(scene_run_shared(parent, first, round % 2 ? some : given_up, 2), PLAY_REST);
		scene_expect(scene_run_shared(parent, first, scene_all, 4), PLAY_REST);
		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
	}
}

static bool reads_plan(unsigned process)
{
	const struct board_order read = { .op = BOARD_READ_GRAPH, .comm = BOARD_COMMS_MAX - 1 };

	const struct board_answer *answer = play_order(&scene.play, process, 0, &read);

	return memmem(answer->text, answer->text_bytes, "<graph ", 7) != NULL;
}

/*
 * A rank elsewhere dies while all wait for each other: one rank of the host gets to its topology phase, another does not.
 * Both give up, and nobody calls finalize. The second one's next getProperties is that of a split, however late.
 */
static void a_rank_that_meets_nobody_rests(void **state)
{
	(void)state;
	for (unsigned way = 0; way < 4; way += runtime_long() ? 1 : 3) {
		struct play_launch launch = scene_begin(&scene.four, way);
		unsigned first = play_processes(&scene.play, launch, 4, 0);
		struct board_order init = { .op = BOARD_INIT, .comm = BOARD_COMMS_MAX - 1, .comm_id = 1000 + way };
		struct board_order ask = { .op = BOARD_PROPERTIES, .comm = BOARD_COMMS_MAX - 1 };

		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
		for (unsigned p = first; p < first + 2; p++) {
			snprintf(init.bus_id, sizeof(init.bus_id), "%s", scene.play.world->bus_ids[p - first]);
			assert_int_equal(play_order(&scene.play, p, 0, &init)->result, 0);
			assert_int_equal(play_order(&scene.play, p, 0, &ask)->result, 0);
		}
		assert_int_equal(play_order(&scene.play, first, 0, &ask)->result, 0);
		if (way % 2)
			play_pass_time(&scene.play, 60000);
		assert_int_equal(play_order(&scene.play, first + 1, 0, &ask)->result, 0);
		assert_false(reads_plan(first + 1));
		assert_false(reads_plan(first));
		scene_nobody_failed();
	}
}

static void crashes_leave_nothing_that_disturbs(void **state)
{
	unsigned steps = runtime_long() ? 1 : 7;

	(void)state;
	for (unsigned after = 1; after < 60; after += steps) {
		struct play_launch launch = scene_begin(&scene.four, after);
		unsigned first = play_processes(&scene.play, launch, 4, 0);

		scene.play.kill_after_steps = after;
		scene.play.kill_inside = after % 3 == 0;
		scene.play.kill_process = first + after % 4;
		scene_run(first, scene_all, 4);
		scene_run(first, scene_all, 3);
		scene_nobody_failed();
		for (unsigned p = 0; p < 4; p++)
			play_kill(&scene.play, first + p);
		/* The job is started anew on the same host. */
		first = play_processes(&scene.play, launch, 4, 0);
		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
		assert_true(play_place_order(&scene.play, PLAIN, BOARD_PLACE_COUNT_FILES, 0) < 60);
	}
}

static void data_loaders_do_nothing(void **state)
{
	static const struct board_order fork_child = { .op = BOARD_FORK_CHILD };

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first = play_processes(&scene.play, launch, 4, 0), comm;

		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
		for (unsigned p = 0; p < 4; p++)
			assert_int_equal(play_order(&scene.play, first + p, 0, &fork_child)->value, 0);
		/* And while another one is under way. */
		comm = play_comm_of(&scene.play, first, scene_all, 4);
		scene.play.comms[comm].members[3].state = PLAY_ABSENT;
		play_run(&scene.play);
		assert_int_equal(play_order(&scene.play, first + 1, 0, &fork_child)->value, 0);
		scene.play.comms[comm].members[3].state = PLAY_RUNS;
		play_run(&scene.play);
		scene_expect(comm, PLAY_PLAN);
	}
}

/* A process that is started by one of ours, with its environment. */
static void inherited_variables_are_recognised(void **state)
{
	static const struct board_order environment = { .op = BOARD_ENVIRONMENT };
	static char text[PLAY_EXTRA_MAX][BOARD_VALUE_BYTES];

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first = play_processes(&scene.play, launch, 4, 0), count = 0;
		const struct board_answer *answer;

		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
		answer = play_order(&scene.play, first, 0, &environment);
		for (size_t at = 0; at < answer->text_bytes && count < PLAY_EXTRA_MAX;
		     at += strlen(answer->text + at) + 1)
			if (!strstr(answer->text + at, "TRIBUTARY_PROFILE=") &&
			    !strstr(answer->text + at, "TRIBUTARY_IF=") &&
			    !strstr(answer->text + at, "TRIBUTARY_NET=") &&
			    !strstr(answer->text + at, "TRIBUTARY_TIMEOUT=")) {
				snprintf(text[count], BOARD_VALUE_BYTES, "%.199s", answer->text + at);
				launch.extra[count] = text[count];
				count++;
			}
		assert_true(count >= 2);
		launch.job = 1;
		first = play_processes(&scene.play, launch, 4, 0);
		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
		/* Their parents end, and take their files with them. */
		for (unsigned p = 0; p < 4; p++)
			play_kill(&scene.play, p);
		scene_expect(scene_run(first, scene_all, 3), PLAY_PLAN);
	}
}

static void gpus_that_nobody_knows_rest(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 6; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first, comm;

		launch.no_driver = round / 2 == 0;
		first = play_processes(&scene.play, launch, 4, 0);
		comm = play_comm(&scene.play, -1, false);
		for (unsigned i = 0; i < 4; i++) /* none is current in one of them; or two have slices of one */
			play_join(&scene.play, comm, first + i, 0,
				  round / 2 == 1 && i == 2   ? -1
				  : round / 2 == 2 && i == 3 ? 2
							     : (int)i);
		play_run(&scene.play);
		scene_expect(comm, PLAY_REST);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(containers_with_a_shm_each_rest),
		cmocka_unit_test(containers_that_think_to_be_hosts_do_not_fail),
		cmocka_unit_test(processes_of_other_pid_namespaces_do_not_disturb),
		cmocka_unit_test(containers_that_have_ended_do_not_disturb),
		cmocka_unit_test(users_do_not_see_each_other),
		cmocka_unit_test(jobs_at_once_get_their_own),
		cmocka_unit_test(a_full_shm_stops_nobody),
		cmocka_unit_test(what_others_leave_in_the_registry_is_not_believed),
		cmocka_unit_test(ranks_that_never_come_leave_nothing_behind),
		cmocka_unit_test(an_init_that_fails_late_leaves_nothing_behind),
		cmocka_unit_test(splits_after_an_init_that_was_given_up_find_nothing_of_it),
		cmocka_unit_test(splits_in_two_after_that_find_nothing_of_it),
		cmocka_unit_test(splits_after_an_init_that_failed_late_find_nothing_of_it),
		cmocka_unit_test(a_rank_that_meets_nobody_rests),
		cmocka_unit_test(crashes_leave_nothing_that_disturbs),
		cmocka_unit_test(data_loaders_do_nothing),
		cmocka_unit_test(inherited_variables_are_recognised),
		cmocka_unit_test(gpus_that_nobody_knows_rest),
	};

	runtime_start("standin/trouble_test", 110);
	return parallel_run_group_tests(tests, scene_setup, scene_teardown);
}
