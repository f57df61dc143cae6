/*
 * The built library as jobs use it, through every version of the interfaces: NCCL gets a file that fits, or none. What is
 * expected beyond "nobody fails" is said in each test: a plan, or rest.
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

/* ---- the usual ---- */

static void the_first_communicator_gets_a_plan(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		struct play_launch launch = scene_begin(round < 2 ? &scene.four : &scene.eight, round);
		unsigned count = round < 2 ? 4 : 8;

		launch.world_size = launch.local_size = (int)count;
		scene_expect(scene_run(play_processes(&scene.play, launch, count, 0), scene_all, count), PLAY_PLAN);
	}
}

static void later_ones_on_subsets_in_any_order_get_theirs(void **state)
{
	static const int some[][4] = { { 6, 1, 3 }, { 7, 0 }, { 5, 4, 3, 2 }, { 2, 6, 4, 0 } };
	static const unsigned counts[] = { 3, 2, 4, 4 };

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct play_launch launch = scene_begin(&scene.eight, round);
		unsigned first;

		launch.world_size = launch.local_size = 8;
		first = play_processes(&scene.play, launch, 8, 0);
		scene_expect(scene_run(first, scene_all, 8), PLAY_PLAN);
		for (unsigned i = 0; i < 4; i++)
			scene_expect(scene_run(first, some[i], counts[i]), PLAY_PLAN);
		scene_expect(scene_run(first, some[0], 1), PLAY_REST); /* one GPU has no channels to plan */
	}
}

static void disjoint_subsets_at_the_same_time_get_theirs(void **state)
{
	static const int even[] = { 0, 2, 4, 6 }, odd[] = { 7, 5, 3, 1 };

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct play_launch launch = scene_begin(&scene.eight, round);
		unsigned first, a, b;

		launch.world_size = launch.local_size = 8;
		first = play_processes(&scene.play, launch, 8, 0);
		scene_expect(scene_run(first, scene_all, 8), PLAY_PLAN); /* all have been there */
		a = play_comm_of(&scene.play, first, even, 4);
		b = play_comm_of(&scene.play, first, odd, 4);
		play_run(&scene.play);
		scene_expect(a, PLAY_PLAN);
		scene_expect(b, PLAY_PLAN);
	}
}

static void splits_get_a_plan_or_with_shared_resources_none(void **state)
{
	static const int half[] = { 3, 1 };

	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first, parent;

		if (round >= 2)
			launch.tuner_version = -1;
		first = play_processes(&scene.play, launch, 4, 0);
		parent = scene_run(first, scene_all, 4);
		scene_expect(parent, PLAY_PLAN);
		scene_expect(scene_run_shared(parent, first, half, 2), PLAY_REST);
		scene_expect(scene_run(first, half, 2), PLAY_PLAN);
		scene_expect(scene_run_shared(parent, first, scene_all, 4), PLAY_REST);
		for (unsigned c = 0; c < scene.play.comm_count; c++)
			play_end(&scene.play, c);
		play_run(&scene.play);
		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
	}
}

static void hosts_plan_for_themselves(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 6; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first, comm;

		launch.world_size = 8;
		launch.extra[0] = round == 2 || round == 3 ? "STANDIN_EAGER=1" : NULL;
		launch.extra[1] = round >= 4 ? "NCCL_COLLNET_ENABLE=1" : NULL; /* chains and their heads, too */
		first = play_processes(&scene.play, launch, 4, 0);
		launch.host = 1;
		launch.place = OTHER_HOST;
		if (round == 3)
			launch.profile = ""; /* this host has measured nothing */
		play_processes(&scene.play, launch, 4, 4);
		comm = play_comm(&scene.play, -1, false);
		for (unsigned i = 0; i < 8; i++)
			play_join(&scene.play, comm, first + i, 0, (int)(i % 4));
		play_run(&scene.play);
		scene_nobody_failed();
		assert_int_equal(scene.play.comms[comm].member_count, 8);
		if (round == 3)
			assert_int_equal(scene.play.comms[comm].on_host[1], PLAY_REST);
		else
			assert_int_equal(scene.play.comms[comm].on_host[0], scene.play.comms[comm].on_host[1]);
		if (round >= 4)
			assert_true(scene.play.comms[comm].members[0].graphs[MODEL_CHAIN].from_file ==
				    scene.play.comms[comm].members[0].graphs[MODEL_RING].from_file);
	}
}

/* ---- what the user, or the job, has set ---- */

static void what_the_user_set_stays(void **state)
{
	static const struct board_order read_graph = { .op = BOARD_READ_GRAPH },
					read_topology = { .op = BOARD_READ_TOPOLOGY };
	static const char text[] = "<graphs version=\"1\"></graphs>";
	char path[200], graph[220], topology[220];
	FILE *file;

	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		const struct board_answer *answer;
		unsigned first;

		snprintf(path, sizeof(path), "%s/user.xml", scene.folder);
		snprintf(graph, sizeof(graph), "NCCL_GRAPH_FILE=%s", path);
		snprintf(topology, sizeof(topology), "NCCL_TOPO_FILE=%s", path);
		launch.extra[0] = round < 2 ? graph : topology;
		file = fopen(path, "we");
		assert_non_null(file);
		fputs(text, file);
		fclose(file);
		first = play_processes(&scene.play, launch, 4, 0);
		if (round < 2) {
			scene_expect(scene_run(first, scene_all, 4), PLAY_REST);
			answer = play_order(&scene.play, first, 0, &read_graph);
		} else {
			remove(path); /* a topology file that is not there does no harm */
			scene_expect(scene_run(first, scene_all, 4), PLAY_REST);
			answer = play_order(&scene.play, first, 0, &read_topology);
			assert_true(answer->missing);
		}
		assert_false(answer->unset);
		assert_string_equal(answer->name + strlen(answer->name) - 9, "/user.xml");
		if (round < 2) {
			assert_int_equal(answer->text_bytes, strlen(text));
			assert_memory_equal(answer->text, text, strlen(text));
		}
		remove(path);
	}
}

static void steering_has_three_positions(void **state)
{
	static const struct board_order read_graph = { .op = BOARD_READ_GRAPH },
					read_topology = { .op = BOARD_READ_TOPOLOGY };
	static const char *const positions[] = { "TRIBUTARY_STEER=off", "TRIBUTARY_STEER=topology",
						 "TRIBUTARY_STEER=full" };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct play_launch launch = scene_begin(&scene.four, i);
		unsigned first;

		launch.extra[0] = positions[i];
		first = play_processes(&scene.play, launch, 4, 0);
		scene_expect(scene_run(first, scene_all, 4), i == 2 ? PLAY_PLAN : PLAY_REST);
		assert_int_equal(play_order(&scene.play, first, 0, &read_topology)->unset, i == 0);
		if (i == 0)
			assert_true(play_order(&scene.play, first, 0, &read_graph)->unset);
	}
	{
		struct play_launch launch = scene_begin(&scene.four, 0);
		unsigned first;

		launch.extra[0] = "TRIBUTARY_DISABLE=1";
		launch.extra[1] = "TRIBUTARY_NET=auto";
		first = play_processes(&scene.play, launch, 4, 0);
		/* Without devices NCCL drops the plugin; it must not have set anything by then. */
		assert_true(play_order(&scene.play, first, 0, &read_topology)->unset);
		assert_true(play_order(&scene.play, first, 0, &read_graph)->unset);
	}
}

static void old_interfaces_get_the_topology_alone(void **state)
{
	static const struct board_order read_topology = { .op = BOARD_READ_TOPOLOGY };

	(void)state;
	for (int version = 6; version <= 12; version++) {
		struct play_launch launch = scene_begin(&scene.four, 0);
		unsigned first;

		launch.net_version = version;
		launch.tuner_version = version < 8 ? 2 : version < 9 ? 3 : version < 11 ? 4 : 5;
		first = play_processes(&scene.play, launch, 4, 0);
		scene_expect(scene_run(first, scene_all, 4), version >= 11 ? PLAY_PLAN : PLAY_REST);
		assert_false(play_order(&scene.play, first, 0, &read_topology)->unset);
	}
}

static void every_tuner_leaves_the_ranks_agreed(void **state)
{
	static const int some[] = { 2, 0 };

	(void)state;
	for (int version = -1; version <= 6; version++) {
		struct play_launch launch = scene_begin(&scene.four, (unsigned)(version + 1));
		unsigned first;

		if (version == 0 || version == 1)
			continue;
		launch.tuner_version = version;
		first = play_processes(&scene.play, launch, 4, 0);
		scene_expect(scene_run(first, scene_all, 4), PLAY_PLAN);
		scene_expect(scene_run(first, some, 2), PLAY_PLAN);
	}
}

static void without_the_number_of_local_processes_there_is_rest(void **state)
{
	static const int sizes[] = { 0, 5, 100, 2, 1 };

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		struct play_launch launch = scene_begin(&scene.four, i);
		unsigned first, comm;

		launch.local_size = sizes[i];
		launch.world_size = 8;
		first = play_processes(&scene.play, launch, 4, 0);
		comm = scene_run(first, scene_all, 4);
		scene_nobody_failed();
		if (sizes[i] == 0 || sizes[i] > 4)
			scene_expect(
				comm,
				PLAY_REST); /* too few, or nobody knows; a number that is too small is a lie that may be believed */
	}
}

static void profiles_that_do_not_fit_or_differ(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 6; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first = scene.play.process_count;

		for (unsigned i = 0; i < 4; i++) {
			launch.rank = launch.local_rank = (int)i;
			launch.profile = NULL;
			if (round < 2 || (round < 4 && i == 2))
				launch.profile = "";
			else if (round >= 4 && i % 2)
				launch.profile =
					scene.nvlink.profile; /* other cards: its GPUs are not ours, or not joined so */
			launch.extra[0] = round % 2 ? "TRIBUTARY_STATE_DIR=/nonexistent" : NULL;
			play_process(&scene.play, &launch);
		}
		if (round < 2)
			scene_expect(scene_run(first, scene_all, 4), PLAY_REST);
		else
			scene_run(first, scene_all, 4);
		scene_run(first, scene_all, 3);
		scene_nobody_failed();
	}
}

/* ---- threads ---- */

static void several_gpus_in_a_process_rest(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		struct play_launch launch = scene_begin(&scene.eight, round);
		unsigned first, comm;

		launch.thread_count = 2;
		launch.world_size = launch.local_size = 2;
		first = play_processes(&scene.play, launch, 2, 0);
		comm = play_comm(&scene.play, -1, false);
		for (unsigned i = 0; i < 4; i++)
			play_join(&scene.play, comm, first + i / 2, i % 2, (int)i);
		play_run(&scene.play);
		scene_expect(comm, PLAY_REST);
		/* One GPU of each process is enough for a plan, and the threads take turns. */
		for (unsigned t = 0; t < 2; t++) {
			comm = play_comm(&scene.play, -1, false);
			for (unsigned p = 0; p < 2; p++)
				play_join(&scene.play, comm, first + p, t, (int)(2 * p + t));
			play_run(&scene.play);
			scene_expect(comm, PLAY_PLAN);
		}
	}
}

static void threads_with_a_communicator_each_do_not_mix(void **state)
{
	(void)state;
	for (unsigned round = 0; round < (runtime_long() ? 60u : 4u); round++) {
		struct play_launch launch = scene_begin(&scene.eight, round);
		unsigned first, last;

		launch.thread_count = 2;
		launch.world_size = launch.local_size = 4;
		scene.play.burst = round % 3 * 40;
		scene.play.proxy = round % 4 * 10;
		first = play_processes(&scene.play, launch, 4, 0);
		for (unsigned pair = 0; pair < 2; pair++) {
			for (unsigned t = 0; t < 2; t++) {
				unsigned comm = play_comm(&scene.play, -1, false);

				for (unsigned p = 0; p < (t ? 4 : 3 + pair); p++)
					play_join(&scene.play, comm, first + p, t, (int)(2 * p + t));
			}
			play_run(&scene.play);
			scene_nobody_failed();
		}
		last = play_comm(&scene.play, -1, false);
		for (unsigned p = 0; p < 4; p++)
			play_join(&scene.play, last, first + p, 0, (int)(2 * p));
		scene.play.proxy = 0;
		play_run(&scene.play);
		scene_expect(last, PLAY_PLAN);
	}
}

/* Older communicators connect late, in NCCL's proxy thread, while a new one is in its topology phase. */
static void the_proxy_threads_of_others_do_not_disturb(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 8; round++) {
		struct play_launch launch = scene_begin(&scene.four, round);
		unsigned first, comm;

		launch.world_size = 8;
		first = play_processes(&scene.play, launch, 4, 0);
		launch.host = 1;
		launch.place = OTHER_HOST;
		play_processes(&scene.play, launch, 4, 4);
		comm = play_comm(&scene.play, -1, false);
		for (unsigned i = 0; i < 8; i++)
			play_join(&scene.play, comm, first + i, 0, (int)(i % 4));
		play_run(&scene.play);
		scene.play.proxy = 40;
		for (unsigned i = 0; i < 3; i++) {
			scene_run(first, scene_all, 4 - i % 2);
			scene_nobody_failed();
		}
	}
}

/* ---- other orders of calls ---- */

static void other_orders_of_calls(void **state)
{
	static const char *const extras[] = { "NCCL_OOB_NET_ENABLE=1", "NCCL_TOPO_DUMP_FILE=/dev/null",
					      "STANDIN_EAGER=1", "NCCL_CROSS_NIC=0", "NCCL_NET_FORCE_MERGE=a,b" };
	static const int half[] = { 3, 0 };

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		for (unsigned round = 0; round < 4; round++) {
			struct play_launch launch = scene_begin(&scene.four, round);
			unsigned first, parent, comm;

			launch.extra[0] = extras[i];
			launch.tuner_version = round >= 2 ? -1 : launch.tuner_version;
			launch.extra[1] = i == 4 ? "TRIBUTARY_IF=^nothing" : NULL; /* several devices, if there are */
			launch.world_size = 8;
			first = play_processes(&scene.play, launch, 4, 0);
			launch.host = 1;
			launch.place = OTHER_HOST;
			play_processes(&scene.play, launch, 4, 4);
			parent = scene_run(first, scene_all, 4);
			scene_nobody_failed();
			scene_expect(scene_run_shared(parent, first, half, 2), PLAY_REST);
			comm = play_comm(&scene.play, -1, false);
			for (unsigned p = 0; p < 8; p++)
				play_join(&scene.play, comm, first + p, 0, (int)(p % 4));
			play_run(&scene.play);
			scene_nobody_failed();
			scene_run(first, half, 2);
			scene_nobody_failed();
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_communicator_gets_a_plan),
		cmocka_unit_test(later_ones_on_subsets_in_any_order_get_theirs),
		cmocka_unit_test(disjoint_subsets_at_the_same_time_get_theirs),
		cmocka_unit_test(splits_get_a_plan_or_with_shared_resources_none),
		cmocka_unit_test(hosts_plan_for_themselves),
		cmocka_unit_test(what_the_user_set_stays),
		cmocka_unit_test(steering_has_three_positions),
		cmocka_unit_test(old_interfaces_get_the_topology_alone),
		cmocka_unit_test(every_tuner_leaves_the_ranks_agreed),
		cmocka_unit_test(without_the_number_of_local_processes_there_is_rest),
		cmocka_unit_test(profiles_that_do_not_fit_or_differ),
		cmocka_unit_test(several_gpus_in_a_process_rest),
		cmocka_unit_test(threads_with_a_communicator_each_do_not_mix),
		cmocka_unit_test(the_proxy_threads_of_others_do_not_disturb),
		cmocka_unit_test(other_orders_of_calls),
	};

	runtime_start("standin/cases_test", 110);
	return parallel_run_group_tests(tests, scene_setup, scene_teardown);
}
