/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each thread of a process is answered, in every order in which NCCL asks: several communicators at once, splits with
 * shared resources, initialisations that are abandoned, threads and ids that are used again.
 */
#include "plugin/steer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/plugin/steer/host.h"

/* As the answers to NCCL_GRAPH_FILE are: no file. */
enum { NONE = -ENODATA };

static void no_graph(struct host *host, unsigned rank, unsigned thread)
{
	assert_int_equal(host_do(host, rank, thread, HOST_GRAPH, 0), NONE);
}

static unsigned graph(struct host *host, unsigned rank, unsigned thread)
{
	assert_int_equal(host_do(host, rank, thread, HOST_GRAPH, 0), 0);
	return host_gpus(host->reply.text);
}

static void begin(struct host *host, unsigned rank, unsigned thread, int gpu, int64_t comm)
{
	assert_int_equal(host_do(host, rank, thread, HOST_GPU, gpu), 0);
	assert_int_equal(host_do(host, rank, thread, HOST_INIT, comm), 0);
}

static void topology(struct host *host, unsigned rank, unsigned thread)
{
	assert_int_equal(host_do(host, rank, thread, HOST_TOPOLOGY, 0), 0);
}

/* NCCL may load it in ncclGetUniqueId, before a program forks its ranks. */
static void nothing_is_opened_before_the_first_communicator(void **state)
{
	static const char *const names[] = { "NCCL_DEBUG",
					     "NCCL_NET",
					     "NCCL_TOPO_FILE",
					     "NCCL_GRAPH_FILE",
					     "NCCL_PROTO",
					     "NCCL_ALGO",
					     "NCCL_HOSTID",
					     "NCCL_NET_PLUGIN",
					     "NCCL_P2P_LEVEL",
					     "HOME",
					     "NCCL_NET_PLUGIN_REF_COUNT" };
	struct host *host = *state;
	char path[160];

	host_start_all(host, 1, NULL);
	host_registry(host, path);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = host_ask(host, 0, 0, names[i]);

		if (strncmp(names[i], "NCCL_NET_PLUGIN", 15) != 0 && strcmp(names[i], "HOME") != 0)
			assert_null(value);
	}
	assert_int_equal(host_do(host, 0, 0, HOST_FILES, 0), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(host_do(host, 0, 0, HOST_INIT, 1), 0);
	assert_true(host_do(host, 0, 0, HOST_FILES, 0) > 0);
	assert_int_equal(access(path, F_OK), 0);
}

static void before_its_init_a_thread_gets_the_topology_alone(void **state)
{
	struct host *host = *state;

	host_start_all(host, 2, NULL);
	assert_int_equal(host_do(host, 0, 1, HOST_TOPOLOGY, 0), NONE);
	assert_int_equal(host_initialise(host, 3, 1), 3);
	topology(host, 0, 1); /* a split with shared resources on another thread */
	no_graph(host, 0, 1);
	assert_null(host_ask(host, 0, 1, "NCCL_PROTO"));
}

static void a_graph_before_the_topology_is_nobodys(void **state)
{
	struct host *host = *state;

	host_start_all(host, 2, NULL);
	assert_int_equal(host_do(host, 0, 0, HOST_INIT, 1), 0);
	assert_int_equal(host_do(host, 1, 0, HOST_INIT, 1), 0);
	no_graph(host, 0, 0); /* not all local ranks may have begun */
	topology(host, 0, 0);
	topology(host, 1, 0);
	assert_int_equal(graph(host, 0, 0), 3);
}

/* NCCL asks for the topology twice where a dump is asked for, and for the graph once per kind. */
static void questions_may_be_asked_again(void **state)
{
	struct host *host = *state;
	static char first[HOST_TEXT_BYTES];

	host_start_all(host, 2, NULL);
	host_begin(host, 3, 1);
	topology(host, 0, 0);
	topology(host, 1, 0);
	assert_int_equal(host_graphs(host, 3), 3);
	memcpy(first, host->reply.text, sizeof(first));
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(host_graphs(host, 3), 3);
		assert_string_equal(host->reply.text, first);
	}
	host_end(host, 3, 1, 1);
}

static void a_split_with_shared_resources_gets_no_graph(void **state)
{
	struct host *host = *state;

	host_start_all(host, 4, NULL);
	assert_int_equal(host_initialise(host, 0xf, 1), 0xf);
	host_begin(host, 0xf, 2);
	assert_int_equal(host_graphs(host, 0xf), 0xf); /* and is still decided: NCCL_PROTO may not be asked any more */
	assert_null(host_ask(host, 0, 0, "NCCL_NET"));
	no_graph(host, 0, 0);
	topology(host, 1, 0); /* a later NCCL may ask for NCCL_NET once only */
	no_graph(host, 1, 0);
	assert_int_equal(graph(host, 2, 0), 0xf);
	topology(host, 0, 0);
	no_graph(host, 0, 0);
	assert_int_equal(host_do(host, 0, 0, HOST_TUNER, 2), 1); /* the tuner's question may come late */
}

static void after_an_abandoned_init_a_shared_split_gets_no_graph(void **state)
{
	struct host *host = *state;

	host_start_all(host, 2, NULL);
	assert_int_equal(host_do(host, 0, 0, HOST_INIT, 1), 0); /* rank 1 never comes */
	assert_null(host_ask(host, 0, 0, "NCCL_NET"));
	topology(host, 0, 0);
	no_graph(host, 0, 0);
	assert_int_equal(host_do(host, 0, 0, HOST_INIT, 2), 0);
	topology(host, 0, 0);
	assert_null(host_ask(host, 0, 0, "NCCL_NET"));
	topology(host, 0, 0);
	no_graph(host, 0, 0);
	assert_int_equal(host_initialise(host, 3, 3), 3);
}

/* Several GPUs per process: ncclCommInitAll, group calls. */
static void ranks_of_one_process_get_one_plan(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 2, 2, NULL);
	host_start(host, 1, 3, 2, 2, NULL);
	for (unsigned thread = 0; thread < 3; thread++)
		begin(host, 0, thread, (int)thread, 1);
	begin(host, 1, 0, 3, 1);
	for (unsigned thread = 0; thread < 3; thread++)
		topology(host, 0, thread);
	topology(host, 1, 0);
	for (unsigned thread = 0; thread < 3; thread++)
		assert_int_equal(graph(host, 0, thread), 0xf);
	assert_int_equal(graph(host, 1, 0), 0xf);
}

static void one_process_with_all_gpus_of_the_job_gets_a_plan(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 1, 1, NULL);
	for (unsigned thread = 0; thread < 3; thread++)
		begin(host, 0, thread, (int)thread, 1);
	for (unsigned thread = 0; thread < 3; thread++)
		topology(host, 0, thread);
	for (unsigned thread = 0; thread < 3; thread++)
		assert_int_equal(graph(host, 0, thread), 7);
}

static void two_communicators_at_once_have_their_own(void **state)
{
	struct host *host = *state;

	host_start_all(host, 3, NULL);
	for (unsigned rank = 0; rank < 3; rank++) {
		begin(host, rank, 0, (int)rank, 1);
		if (rank < 2)
			begin(host, rank, 1, (int)rank, 2);
	}
	for (unsigned rank = 0; rank < 3; rank++) {
		topology(host, rank, 0);
		if (rank < 2)
			topology(host, rank, 1);
	}
	assert_int_equal(graph(host, 0, 1), 3);
	assert_int_equal(graph(host, 0, 0), 7);
	assert_int_equal(graph(host, 1, 0), 7);
	assert_int_equal(graph(host, 1, 1), 3);
	assert_null(host_ask(host, 0, 1, "NCCL_PROTO"));
	assert_int_equal(graph(host, 2, 0), 7);
	assert_int_equal(host_do(host, 1, 1, HOST_TUNER, 2), 1);
	assert_int_equal(host_do(host, 1, 1, HOST_TUNER, 1), -ENOENT);
}

/* NCCL_COMM_ID gives every world communicator the same id. */
static void an_id_that_comes_again_in_turn_gets_its_own_plan(void **state)
{
	struct host *host = *state;

	host_start_all(host, 3, NULL);
	assert_int_equal(host_initialise(host, 7, 1), 7);
	assert_int_equal(host_initialise(host, 3, 1), 3);
	assert_int_equal(host_initialise(host, 6, 1), 6);
	assert_int_equal(host_count(host, "d-"), 0);
}

static void an_id_that_is_there_twice_gets_no_plan(void **state)
{
	struct host *host = *state;

	host_start_all(host, 2, NULL);
	begin(host, 0, 1, 0, 1); /* abandoned, and its thread stays */
	begin(host, 1, 1, 1, 1);
	host_expect_none(host, 3, 1, "the same id was used twice");
	assert_int_equal(host_initialise(host, 3, 2), 3);
}

/* Decided, and abandoned by all: the next one with its id finds a decision that is not about it. */
static void a_decision_about_others_is_not_followed(void **state)
{
	struct host *host = *state;

	host_start_all(host, 4, NULL);
	assert_int_equal(host_initialise(host, 0xf, 9), 0xf);
	begin(host, 0, 1, 0, 1);
	begin(host, 1, 1, 1, 1);
	topology(host, 0, 1);
	topology(host, 1, 1);
	assert_int_equal(graph(host, 0, 1), 3);
	begin(host, 2, 0, 2, 1);
	begin(host, 3, 0, 3, 1);
	topology(host, 2, 0);
	topology(host, 3, 0);
	no_graph(host, 2, 0);
	assert_non_null(strstr(host->reply.info, "another communicator with the same id"));
	no_graph(host, 3, 0);
	assert_int_equal(graph(host, 1, 1), 3); /* who is in it follows it */
}

/* One of them finds the old decision, and then it goes: the other one must not plan with the first. */
static void a_decision_that_goes_leaves_all_alike(void **state)
{
	struct host *host = *state;

	host_start_all(host, 4, NULL);
	assert_int_equal(host_initialise(host, 0xf, 9), 0xf);
	begin(host, 0, 1, 0, 1);
	begin(host, 1, 1, 1, 1);
	topology(host, 0, 1);
	topology(host, 1, 1);
	assert_int_equal(graph(host, 0, 1), 3);
	begin(host, 2, 0, 2, 1);
	begin(host, 3, 0, 3, 1);
	topology(host, 2, 0);
	topology(host, 3, 0);
	no_graph(host, 2, 0);
	assert_null(host_ask(host, 0, 1, "NCCL_NET"));
	assert_null(host_ask(host, 1, 1, "NCCL_NET"));
	no_graph(host, 3, 0);
}

/* Two at once, with a GPU in both, so there is no plan for either; nor when the first one is through and out of sight. */
static void two_of_one_id_at_once_get_no_plan(void **state)
{
	struct host *host = *state;

	host_start_all(host, 3, NULL);
	assert_int_equal(host_initialise(host, 7, 9), 7);
	begin(host, 0, 1, 0, 1);
	begin(host, 1, 1, 1, 1);
	begin(host, 1, 0, 1, 1);
	begin(host, 2, 0, 2, 1);
	topology(host, 0, 1);
	topology(host, 1, 1);
	topology(host, 1, 0);
	topology(host, 2, 0);
	no_graph(host, 0, 1);
	no_graph(host, 1, 1);
	no_graph(host, 2, 0);
	for (unsigned rank = 0; rank < 2; rank++) {
		assert_null(host_ask(host, rank, 1, "NCCL_PROTO"));
		assert_null(host_ask(host, rank, 1, "NCCL_NET"));
	}
	no_graph(host, 1, 0);
}

static void threads_that_end_take_their_records_along(void **state)
{
	struct host *host = *state;

	host_start_all(host, 2, NULL);
	begin(host, 0, 1, 0, 1);
	assert_int_equal(host_count(host, "s-"), 1);
	assert_int_equal(host_do(host, 0, 1, HOST_LEAVE, 0), 0);
	assert_int_equal(host_count(host, "s-"), 0);
	assert_int_equal(host_initialise(host, 3, 1), 3); /* the same id */
	begin(host, 0, 2, 0, 2);
	begin(host, 1, 2, 1, 2);
	topology(host, 0, 2);
	topology(host, 1, 2);
	assert_int_equal(graph(host, 0, 2), 3);
	assert_int_equal(host_count(host, "d-"), 1);
	assert_int_equal(host_do(host, 0, 2, HOST_LEAVE, 0), 0); /* the author: NCCL has failed there */
	assert_int_equal(host_count(host, "d-"), 0);
}

static void many_communicators_leave_nothing(void **state)
{
	struct host *host = *state;
	int files = 0;

	host_start_all(host, 3, NULL);
	for (int64_t comm = 1; comm < 200; comm++) {
		assert_int_equal(host_initialise(host, comm % 2 ? 7 : 5, comm), comm % 2 ? 7 : 5);
		if (comm == 1)
			files = host_do(host, 0, 0, HOST_FILES, 0);
	}
	assert_int_equal(host_do(host, 0, 0, HOST_FILES, 0), files);
	assert_int_equal(host_count(host, ""), 3 + 1);
	assert_int_equal(host->reply.warnings, 0);
}

/* TRIBUTARY_NET=off leaves the network to NCCL as well, and hears of every communicator. */
static void a_network_that_the_user_chose_is_said_to_keep_plans_away(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 1, 1, "NCCL_NET=Socket\n");
	host_start(host, 1, 1, 1, 1, "NCCL_NET=tributary\n");
	assert_string_equal(host_ask(host, 0, 0, "NCCL_NET"), "Socket");
	assert_string_equal(host_ask(host, 0, 0, "NCCL_NET"), "Socket");
	assert_string_equal(host_ask(host, 1, 0, "NCCL_NET"), "tributary");
	assert_null(strstr(host->reply.info, "NCCL_NET"));
}

#define HOST_TEST(name) cmocka_unit_test_setup_teardown(name, host_open, host_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(nothing_is_opened_before_the_first_communicator),
		HOST_TEST(before_its_init_a_thread_gets_the_topology_alone),
		HOST_TEST(a_graph_before_the_topology_is_nobodys),
		HOST_TEST(questions_may_be_asked_again),
		HOST_TEST(a_split_with_shared_resources_gets_no_graph),
		HOST_TEST(after_an_abandoned_init_a_shared_split_gets_no_graph),
		HOST_TEST(ranks_of_one_process_get_one_plan),
		HOST_TEST(one_process_with_all_gpus_of_the_job_gets_a_plan),
		HOST_TEST(two_communicators_at_once_have_their_own),
		HOST_TEST(an_id_that_comes_again_in_turn_gets_its_own_plan),
		HOST_TEST(an_id_that_is_there_twice_gets_no_plan),
		HOST_TEST(a_decision_about_others_is_not_followed),
		HOST_TEST(a_decision_that_goes_leaves_all_alike),
		HOST_TEST(two_of_one_id_at_once_get_no_plan),
		HOST_TEST(threads_that_end_take_their_records_along),
		HOST_TEST(many_communicators_leave_nothing),
		HOST_TEST(a_network_that_the_user_chose_is_said_to_keep_plans_away),
	};

	return cmocka_run_group_tests_name("plugin/steer/threads", tests, NULL, NULL);
}
