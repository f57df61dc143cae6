/* SPDX-License-Identifier: Apache-2.0 */
/* Which communicators get a plan and which none, and why, in processes that call the plugin in NCCL's order. */
#include "plugin/steer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/params.h"
#include "profile/store_jobs.h"
#include "plugin/steer/settings.h"
#include "support/runtime.h"
#include "support/tree.h"
#include "unit/plugin/steer/host.h"

enum { FOUR = 0xf, ALL = 0xff, RECENT_BYTES = 1 << 16 };

/* As of a program that no launcher started. */
/* Of a host of its own: a process that a user runs here beside the tests, without a launcher, is of the same job. */
#define NO_LAUNCHER "LOCAL_WORLD_SIZE=\nLOCAL_RANK=\nWORLD_SIZE=\nTORCHELASTIC_RUN_ID=\nNCCL_HOSTID=steer-test\n"

static void the_gpus_of_a_communicator_get_a_plan(void **state)
{
	struct host *host = *state;

	host_start_all(host, 4, NULL);
	assert_int_equal(host_initialise(host, FOUR, 1), 0xf);
	assert_int_equal(host->reply.warnings, 0);
	/* ".", "..", who is there, and what became of it: no decision, no claim, no space. */
	assert_int_equal(host_count(host, ""), 4 + 1);
	assert_int_equal(host_count(host, "p-"), 4);
	assert_int_equal(host_count(host, "t-"), 1);
}

static void collect(void *arg, const char *text)
{
	char *all = arg;

	snprintf(all + strlen(all), RECENT_BYTES - strlen(all), "%s", text);
}

/* Of each communicator one rank tells, whether it had a plan or not; of a killed process the next one tells. */
static void what_became_of_communicators_is_kept(void **state)
{
	struct host *host = *state;
	struct params params = { 0 };
	char text[RECENT_BYTES] = "";

	snprintf(params.state_dir, sizeof(params.state_dir), "%s/state", host->root);
	host_start_all(host, 4, NULL);
	assert_int_equal(host_initialise(host, FOUR, 1), FOUR);
	assert_int_equal(host_initialise(host, 5, 2), 5);
	for (unsigned i = 0; i < 4; i++)
		host_kill(host, i);
	assert_int_equal(store_jobs_read(&params, collect, text), -ENOENT);
	host_start_all(host, 4, "NCCL_SHM_DISABLE=1\n");
	host_expect_none(host, FOUR, 3, "NCCL_SHM_DISABLE is set: unset it");
	assert_int_equal(store_jobs_read(&params, collect, text), 0);
	assert_non_null(strstr(text, "\ncomm 0000000000000001 count 1 gpus 0,1,2,3 channels "));
	assert_non_null(strstr(text, "\ncomm 0000000000000002 count 1 gpus 0,2 channels "));
	assert_null(strstr(text, " channels 0 "));
	assert_non_null(strstr(text, "\nend "));
	for (unsigned i = 0; i < 4; i++)
		host_kill(host, i);
	host_start_all(host, 1, NULL);
	host_begin(host, 1, 4);
	text[0] = '\0';
	assert_int_equal(store_jobs_read(&params, collect, text), 0);
	assert_non_null(strstr(text,
			       "\ncomm 0000000000000003 count 1 gpus 0,1,2,3 channels 0 alone 0.00 several 0.00 why "
			       "NCCL_SHM_DISABLE is set: unset it\n"));
	assert_null(strstr(strstr(text, "comm 0000000000000003") + 1, "comm 0000000000000003"));
}

/* As a user's NCCL_TOPO_FILE: NCCL reads it, and gets neither topology nor channels from here. */
static void the_providers_topology_stays(void **state)
{
	struct host *host = *state;
	int root = open(host->root, O_RDONLY | O_DIRECTORY);

	assert_true(root >= 0);
	tree_write(root, &STEER_DEFAULT_TOPOLOGY[1], "<system/>", strlen("<system/>"));
	close(root);
	host_start_all(host, 4, NULL);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(host_do(host, i, 0, HOST_INIT, 1), 0);
		if (!strstr(host->reply.info, "Tributary steers nothing: NCCL reads " STEER_DEFAULT_TOPOLOGY))
			fail_msg("%s", host->reply.info);
		assert_int_equal(host_do(host, i, 0, HOST_TOPOLOGY, 0), -ENODATA);
		assert_int_equal(host_do(host, i, 0, HOST_GRAPH, 0), -ENODATA);
	}
}

static void each_communicator_gets_its_own(void **state)
{
	struct host *host = *state;

	host_start_all(host, 8, NULL);
	assert_int_equal(host_initialise(host, ALL, 1), 0xff);
	assert_int_equal(host_initialise(host, 0x5a, 2), 0x5a);
	assert_int_equal(host_initialise(host, 0x11, 3), 0x11);
	host_begin(host, 0xf0, 5);
	host_begin(host, 0x0f, 4);
	assert_int_equal(host_graphs(host, 0x0f), 0x0f);
	assert_int_equal(host_graphs(host, 0xf0), 0xf0);
	host_end(host, 0x0f, 4, 1);
	host_end(host, 0xf0, 5, 1);
}

static void the_topology_file_is_the_profiles(void **state)
{
	struct host *host = *state;

	host_start_all(host, 2, NULL);
	host_begin(host, 3, 1);
	assert_int_equal(host_do(host, 0, 0, HOST_TOPOLOGY, 0), 0);
	assert_non_null(strstr(host->reply.text, "<gpu dev=\"7\" sm=\"86\"/>"));
	assert_non_null(strstr(host->reply.text, "<net name=\"fake0\""));
	assert_null(strstr(host->reply.text, "latency"));
	assert_null(strstr(host->reply.text, "gdr"));
}

static void one_gpu_of_several_hosts_gets_a_plan_and_one_alone_none(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 2, 4, NULL);
	host_start(host, 1, 1, 2, 4, NULL);
	assert_int_equal(host_initialise(host, 3, 1), 3);
	assert_int_equal(host_initialise(host, 1, 2), 1);
	host_kill(host, 0);
	host_kill(host, 1);
	host_start_all(host, 2, NULL);
	assert_int_equal(host_initialise(host, 3, 3), 3);
	host_expect_none(host, 1, 4, "it has one GPU");
}

/* Two NCCL_HOSTIDs on one machine: each "host" is planned for by itself, though the launcher counts both. */
static void ranks_that_say_they_are_of_different_hosts_are_planned_apart(void **state)
{
	struct host *host = *state;
	char name[32];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "NCCL_HOSTID=%u", i / 2);
		host_start(host, i, i == 3 ? 0 : (int)i, 4, 4, name);
	}
	host_begin(host, FOUR, 1);
	assert_int_equal(host_graphs(host, 0x3), 0x3);
	assert_int_equal(host_graphs(host, 0xc), 0x5); /* GPU 0 twice, on two "hosts" */
	host_end(host, FOUR, 1, 1);
}

static void a_whole_machine_needs_no_launcher(void **state)
{
	struct host *host = *state;

	host_start_all(host, 8, NO_LAUNCHER);
	assert_int_equal(host_initialise(host, ALL, 1), ALL);
	assert_int_equal(host_initialise(host, ALL, 2), ALL);
	host_expect_none(host, 0x7f, 3, "how many processes the job has on this host is not known");
}

static void two_ranks_on_a_gpu_are_no_whole_machine(void **state)
{
	struct host *host = *state;

	host_start_all(host, 8, NO_LAUNCHER "NCCL_MULTI_RANK_GPU_ENABLE=1\n");
	host_expect_none(host, ALL, 1, "how many processes the job has on this host is not known");
}

static void without_evidence_there_is_no_plan(void **state)
{
	struct host *host = *state;

	for (unsigned i = 0; i < 3; i++)
		host_start(host, i, (int)i, 4, 4, NULL); /* the fourth has no plugin, or a registry of its own */
	host_expect_none(host, 7, 1, "of the 4 processes that the job has on this host 3 are known");
	host_start(host, 3, 3, 4, 4, NULL);
	host_begin(host, 8, 2);
	assert_int_equal(host_initialise(host, 7, 3), 7); /* it has come */
	host_kill(host, 3);
	host_expect_none(host, 7, 4, "3 are known");
}

static void the_size_can_be_said_by_hand_and_must_be_known(void **state)
{
	struct host *host = *state;

	host_start_all(host, 2, "LOCAL_WORLD_SIZE=\nLOCAL_RANK=\n");
	host_expect_none(host, 3, 1, "TRIBUTARY_LOCAL_PROCESSES");
	host_kill(host, 0);
	host_kill(host, 1);
	host_start_all(host, 2, "LOCAL_WORLD_SIZE=\nLOCAL_RANK=\nTRIBUTARY_LOCAL_PROCESSES=2\n");
	assert_int_equal(host_initialise(host, 3, 2), 3);
}

/* Nothing tells their processes apart, so each is planned for as a whole, and a split of it is not. */
static void two_jobs_without_a_launcher_do_not_count_for_each_other(void **state)
{
	static const char environment[] = NO_LAUNCHER "TRIBUTARY_LOCAL_PROCESSES=3\n";
	struct host *host = *state;

	for (unsigned i = 0; i < 6; i++)
		host_start(host, i, (int)i, 3, 3, environment);
	host_begin(host, 0x38, 1);
	host_expect_none(host, 0x03, 2, "no variable tells the job from others"); /* the third has no plugin */
	host_begin(host, 0x07, 3);
	assert_int_equal(host_graphs(host, 0x07), 0x07);
	assert_int_equal(host_graphs(host, 0x38), 0x38);
}

static void two_jobs_do_not_count_for_each_other(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 2, 2, "MASTER_PORT=1\n");
	host_start(host, 1, 1, 2, 2, "MASTER_PORT=1\n");
	host_start(host, 2, 2, 2, 2, "MASTER_PORT=2\nLOCAL_RANK=0\n");
	host_begin(host, 7, 7); /* the processes make themselves known */
	host_expect_none(host, 4, 1, "of the 2 processes that the job has on this host 1 are known");
	host_start(host, 3, 3, 2, 2, "MASTER_PORT=2\nLOCAL_RANK=1\n");
	host_begin(host, 0x3, 2);
	host_begin(host, 0xc, 3);
	assert_int_equal(host_graphs(host, 0x3), 0x3);
	assert_int_equal(host_graphs(host, 0xc), 0xc);
}

static void a_local_rank_that_is_there_twice_is_no_evidence(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 2, 2, NULL);
	host_start(host, 1, 1, 2, 2, "LOCAL_RANK=0\n");
	host_expect_none(host, 3, 1, "two of its processes have the same local rank");
}

/* It has the variables of the rank that started it, and communicators of its own. */
static void a_helper_process_does_not_spoil_its_job(void **state)
{
	struct host *host = *state;

	host_start_all(host, 3, NULL);
	host_start(host, 3, 3, 3, 3, "LOCAL_RANK=1\n");
	assert_int_equal(host_do(host, 3, 0, HOST_INIT, 9), 0);
	assert_int_equal(host_initialise(host, 7, 1), 7);
	assert_int_equal(host_initialise(host, 3, 2), 3);
}

static void what_the_user_set_is_not_touched(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 2, 2, "NCCL_GRAPH_FILE=/nowhere\n");
	host_start(host, 1, 1, 2, 2, "NCCL_TOPO_FILE=/nowhere\n");
	host_start(host, 2, 2, 2, 2,
		   "NCCL_TOPO_FILE=/nowhere\nNCCL_NET=IB\nNCCL_NET_PLUGIN=other\n"
		   "NCCL_NET_PLUGIN_REF_COUNT=3\nNCCL_PROTO=LL\nTRIBUTARY_NET=off\n");
	host_begin(host, 7, 1);
	assert_int_equal(host_do(host, 0, 0, HOST_TOPOLOGY, 0), 0);
	assert_string_equal(host_ask(host, 0, 0, "NCCL_GRAPH_FILE"), "/nowhere");
	assert_string_equal(host_ask(host, 1, 0, "NCCL_TOPO_FILE"), "/nowhere");
	assert_null(host_ask(host, 1, 0, "NCCL_GRAPH_FILE"));
	assert_string_equal(host_ask(host, 2, 0, "NCCL_NET"), "IB");
	assert_string_equal(host_ask(host, 2, 0, "NCCL_NET_PLUGIN"), "other");
	assert_string_equal(host_ask(host, 2, 0, "NCCL_NET_PLUGIN_REF_COUNT"), "3");
	assert_string_equal(host_ask(host, 2, 0, "NCCL_PROTO"), "LL");
	assert_int_equal(host_count(host, "p-"), 1); /* whose topology is the user's is unknown to the others */
}

/* The others must not have a plan when one of them reads the user's graph file. */
static void a_graph_file_of_the_user_is_told_to_the_others(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 2, 2, NULL);
	host_start(host, 1, 1, 2, 2, "NCCL_GRAPH_FILE=/nowhere\n");
	host_begin(host, 3, 1);
	assert_int_equal(host_do(host, 0, 0, HOST_GRAPH, 0), -ENODATA);
	assert_non_null(strstr(host->reply.info, "NCCL_GRAPH_FILE is set"));
}

static void steering_can_be_switched_off_and_down(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 2, 2, "TRIBUTARY_STEER=off\n");
	host_start(host, 1, 1, 2, 2, "TRIBUTARY_STEER=topology\n");
	host_start(host, 2, 1, 2, 2, "TRIBUTARY_DISABLE=1\n");
	host_start(host, 3, 1, 2, 2, "TRIBUTARY_PROFILE=/nowhere\n");
	host_begin(host, 2, 1);
	assert_int_equal(host_do(host, 1, 0, HOST_TOPOLOGY, 0), 0);
	assert_int_equal(host_do(host, 1, 0, HOST_GRAPH, 0), -ENODATA);
	for (unsigned i = 0; i < 4; i++) {
		if (i == 1)
			continue;
		assert_int_equal(host_do(host, i, 0, HOST_INIT, 1), 0);
		assert_int_equal(host_do(host, i, 0, HOST_TOPOLOGY, 0), -ENODATA);
		assert_int_equal(host_do(host, i, 0, HOST_GRAPH, 0), -ENODATA);
	}
	assert_int_equal(host_count(host, "p-"), 1);
}

static void an_inherited_file_is_not_the_users(void **state)
{
	static const char inherited[] = "NCCL_TOPO_FILE=/gone/t-1\n_TRIBUTARY_FILE=/gone/t-1\n";
	struct host *host = *state;

	host_start_all(host, 2, inherited);
	assert_int_equal(host_initialise(host, 3, 1), 3);
}

static void a_rank_without_a_known_gpu_leaves_all_to_nccl(void **state)
{
	struct host *host = *state;

	host_start_all(host, 3, NULL);
	assert_int_equal(host_do(host, 1, 0, HOST_GPU, -1), 0);
	host_expect_none(host, 7, 1, "the GPU of a rank is not known");
	assert_int_equal(host_do(host, 1, 0, HOST_GPU, 15), 0); /* not in the profile */
	host_expect_none(host, 7, 2, "the GPU of a rank is not known");
	assert_int_equal(host_do(host, 1, 0, HOST_GPU, 0), 0);
	host_expect_none(host, 7, 3, "two ranks have the same GPU");
	assert_int_equal(host_do(host, 1, 0, HOST_GPU, 1), 0);
	assert_int_equal(host_initialise(host, 7, 4), 7);
}

/* What a slice has of its GPU's link nobody has measured, and slices have no P2P. */
static void a_slice_of_a_gpu_leaves_its_communicators_to_nccl_and_no_other(void **state)
{
	struct host *host = *state;

	host_slice(host, 1);
	host_start_all(host, 3, NULL);
	host_expect_none(host, 7, 1, "a rank has a slice of a GPU in MIG mode");
	assert_int_equal(host_initialise(host, 5, 2), 5);
}

static void unlike_settings_leave_all_to_nccl(void **state)
{
	static const struct {
		const char *environment, *why;
	} cases[] = {
		{ "NCCL_SHM_DISABLE=1\n", "NCCL_SHM_DISABLE is set" },
		{ "NCCL_P2P_DISABLE=1\n", "the ranks have different profiles, settings, versions or /dev/shm" },
		{ "NCCL_P2P_LEVEL=SYS\n", "the ranks have different profiles, settings, versions or /dev/shm" },
		{ "NCCL_CROSS_NIC=1\n", "the ranks have different profiles, settings, versions or /dev/shm" },
		{ "TRIBUTARY_STEER=topology\n", "TRIBUTARY_STEER=topology" },
		{ "NCCL_TUNER_PLUGIN=other\n", "the ranks have different profiles, settings, versions or /dev/shm" },
		{ "TRIBUTARY_NET=off\n", "the ranks have different profiles, settings, versions or /dev/shm" },
	};
	struct host *host = *state;

	host_start(host, 0, 0, 2, 2, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		host_start(host, 1, 1, 2, 2, cases[i].environment);
		host_expect_none(host, 3, (int64_t)i + 1, cases[i].why);
		host_kill(host, 1);
	}
	host_start(host, 1, 1, 2, 2, NULL);
	assert_int_equal(host_initialise(host, 3, 99), 3);
}

/* They have one id, so two at once would be taken for one communicator of all. */
static void children_of_shrink_get_no_plan(void **state)
{
	struct host *host = *state;
	const int64_t child = (int64_t)steer_shrink_id(1);

	host_start_all(host, 8, NULL);
	assert_int_equal(host_initialise(host, ALL, 1), ALL);
	host_expect_none(host, 0x0f, child, "it was made by ncclCommShrink"); /* in turn */
	host_expect_none(host, 0x3f, child, "it was made by ncclCommShrink");
	host_begin(host, ALL, child); /* disjoint, at once */
	assert_int_equal(host_graphs(host, 0x0f), 0);
	assert_int_equal(host_graphs(host, 0xf0), 0);
	host_end(host, ALL, child, 0);
	host_expect_none(host, 0x03, (int64_t)steer_shrink_id((uint64_t)child), "it was made by ncclCommShrink");
	assert_int_equal(host_initialise(host, 0x0f, 2), 0x0f);
	assert_int_equal(host_count(host, "d-"), 0);
	/* However many come between. */
	for (int64_t other = 1000; other < 1300; other++)
		(void)host_initialise(host, 0x03, other);
	host_expect_none(host, 0x03, child, "it was made by ncclCommShrink");
}

static void the_network_that_is_left_to_nccl_has_plans(void **state)
{
	struct host *host = *state;

	host_start_all(host, 4, "TRIBUTARY_NET=off\n");
	host_begin(host, FOUR, 1);
	assert_int_equal(host_do(host, 0, 0, HOST_DEVICES, 0),
			 1); /* with none NCCL would tell of no other communicator */
	assert_int_equal(host_do(host, 0, 0, HOST_PROPERTIES, 0), -ENODEV);
	assert_int_equal(host_do(host, 0, 0, HOST_PROPERTIES, 1), -ENODEV);
	assert_string_equal(host_ask(host, 0, 0, "NCCL_NET_PLUGIN_REF_COUNT"), "1000000");
	assert_int_equal(host_graphs(host, FOUR), FOUR);
	host_end(host, FOUR, 1, 1);
	assert_int_equal(host_initialise(host, 5, 2), 5);
	for (unsigned i = 0; i < 4; i++)
		host_kill(host, i);
	host_start_all(host, 1, "TRIBUTARY_NET=off\nTRIBUTARY_STEER=off\n");
	host_begin(host, 1, 1);
	assert_int_equal(host_do(host, 0, 0, HOST_DEVICES, 0), 0);
}

/* What it would need cannot be known over NCCL's own devices. */
static void several_hosts_over_unknown_devices_get_no_plan(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 2, 4, "TRIBUTARY_NET=off\nNCCL_NET_PLUGIN=a,b\n");
	host_start(host, 1, 1, 2, 4, "TRIBUTARY_NET=off\nNCCL_NET_PLUGIN=a,b\n");
	host_expect_none(host, 3, 1,
			 "it may have several hosts, and which of the NCCL_NET_PLUGINs NCCL takes is not known");
}

static void devices_that_nccl_joins_are_named_by_their_new_number(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 2, 4, NULL); /* two of four ranks: there may be several hosts */
	host_start(host, 1, 1, 2, 4, NULL);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(host_do(host, i, 0, HOST_INIT, 1), 0);
		assert_int_equal(host_do(host, i, 0, HOST_JOIN, 0), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(host_do(host, i, 0, HOST_TOPOLOGY, 0), 0);
	assert_int_equal(host_graphs(host, 3), 3);
	assert_int_equal(host_do(host, 0, 0, HOST_GRAPH, 0), 0);
	assert_null(strstr(host->reply.text, "<net dev=\"0\"/>"));
	assert_null(strstr(host->reply.text, "<net dev=\"0x1\"/>"));
	assert_non_null(strstr(host->reply.text, "<net dev=\"0x2\"/>"));
}

/* Without the environment half one file would have to serve all communicators: there is only the topology. */
static void without_the_environment_half_there_is_the_topology_alone(void **state)
{
	struct host *host = *state;

	host_start(host, 0, 0, 2, 2, "HOST_WITHOUT_ENVIRONMENT_HALF=1\n");
	assert_int_equal(host_do(host, 0, 0, HOST_INIT, 1), 0);
	assert_non_null(strstr(host->reply.info, "NCCL_ENV_PLUGIN=tributary"));
	assert_non_null(host_ask(host, 0, 0, "NCCL_TOPO_FILE")); /* getenv's */
	assert_non_null(host_ask(host, 0, 0, "_TRIBUTARY_FILE"));
	assert_int_equal(host_do(host, 0, 0, HOST_GRAPH, 0), -ENODATA);
	assert_int_equal(host_count(host, "p-"), 0);
	host_start(host, 1, 1, 2, 2, "HOST_WITHOUT_ENVIRONMENT_HALF=1\nTRIBUTARY_NET=off\n");
	assert_int_equal(host_do(host, 1, 0, HOST_INIT, 1), 0);
	assert_int_equal(host_do(host, 1, 0, HOST_DEVICES, 0), 0);
}

static void the_tuner_learns_what_was_given(void **state)
{
	struct host *host = *state;

	host_start_all(host, 2, NULL);
	assert_int_equal(host_do(host, 0, 0, HOST_TUNER, 1), -ENOENT);
	assert_int_equal(host_initialise(host, 3, 1), 3);
	assert_int_equal(host_do(host, 0, 0, HOST_TUNER, 0), 1); /* this thread's last */
	assert_int_equal(host_do(host, 0, 1, HOST_TUNER, 0), -ENOENT);
	assert_int_equal(host_do(host, 0, 0, HOST_TUNER, 2), -ENOENT);
	assert_int_equal(host_do(host, 0, 0, HOST_INIT, 2), 0); /* another begins */
	assert_int_equal(host_do(host, 0, 0, HOST_TUNER, 1), -ENOENT);
	assert_int_equal(host_do(host, 0, 0, HOST_TUNER, 0), -ENOENT);
}

static void what_was_given_is_kept_for_who_asks(void **state)
{
	struct host *host = *state;
	char path[256];

	host_start_all(host, 2, NULL);
	assert_int_equal(host_initialise(host, 3, 0xabc), 3);
	snprintf(path, sizeof(path), "%s/steer-0000000000000abc-0000:11:00.0.xml", host->dump);
	assert_int_equal(access(path, R_OK), 0);
}

/* Two containers with one host name and half the GPUs each: the launcher of each counts its own. */
static void ranks_with_another_shared_folder_are_seen(void **state)
{
	struct host *host = *state;
	char other[256];

	snprintf(other, sizeof(other), "TRIBUTARY_SHARED_DIR=%s\nGROUP_RANK=1\n", host->root);
	host_start(host, 0, 0, 1, 2, "LOCAL_RANK=0\n");
	host_start(host, 1, 1, 1, 2, other);
	assert_int_equal(host_do(host, 1, 0, HOST_INIT, 1), 0);
	host_expect_none(host, 1, 1, "have another shared folder");
	host_kill(host, 1);
	assert_int_equal(host_initialise(host, 1, 2), 1);
}

static void a_registry_of_somebody_else_is_not_used(void **state)
{
	struct host *host = *state;
	char path[160];

	host_registry(host, path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0755), 0); /* open to others */
	host_start_all(host, 2, NULL);
	assert_int_equal(host_do(host, 0, 0, HOST_INIT, 1), 0);
	assert_non_null(strstr(host->reply.info, "where this user's 0700 is needed"));
	assert_int_equal(host_do(host, 0, 0, HOST_GRAPH, 0), -ENODATA);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink(host->dump, path), 0);
	assert_int_equal(host_do(host, 1, 0, HOST_INIT, 1), 0);
	assert_int_equal(host_do(host, 1, 0, HOST_GRAPH, 0), -ENODATA);
	assert_int_equal(unlink(path), 0);
}

#define HOST_TEST(name) cmocka_unit_test_setup_teardown(name, host_open, host_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(the_gpus_of_a_communicator_get_a_plan),
		HOST_TEST(what_became_of_communicators_is_kept),
		HOST_TEST(the_providers_topology_stays),
		HOST_TEST(each_communicator_gets_its_own),
		HOST_TEST(the_topology_file_is_the_profiles),
		HOST_TEST(one_gpu_of_several_hosts_gets_a_plan_and_one_alone_none),
		HOST_TEST(ranks_that_say_they_are_of_different_hosts_are_planned_apart),
		HOST_TEST(a_whole_machine_needs_no_launcher),
		HOST_TEST(two_ranks_on_a_gpu_are_no_whole_machine),
		HOST_TEST(without_evidence_there_is_no_plan),
		HOST_TEST(the_size_can_be_said_by_hand_and_must_be_known),
		HOST_TEST(two_jobs_without_a_launcher_do_not_count_for_each_other),
		HOST_TEST(two_jobs_do_not_count_for_each_other),
		HOST_TEST(a_local_rank_that_is_there_twice_is_no_evidence),
		HOST_TEST(a_helper_process_does_not_spoil_its_job),
		HOST_TEST(what_the_user_set_is_not_touched),
		HOST_TEST(a_graph_file_of_the_user_is_told_to_the_others),
		HOST_TEST(steering_can_be_switched_off_and_down),
		HOST_TEST(an_inherited_file_is_not_the_users),
		HOST_TEST(a_rank_without_a_known_gpu_leaves_all_to_nccl),
		HOST_TEST(a_slice_of_a_gpu_leaves_its_communicators_to_nccl_and_no_other),
		HOST_TEST(unlike_settings_leave_all_to_nccl),
		HOST_TEST(children_of_shrink_get_no_plan),
		HOST_TEST(the_network_that_is_left_to_nccl_has_plans),
		HOST_TEST(several_hosts_over_unknown_devices_get_no_plan),
		HOST_TEST(devices_that_nccl_joins_are_named_by_their_new_number),
		HOST_TEST(without_the_environment_half_there_is_the_topology_alone),
		HOST_TEST(the_tuner_learns_what_was_given),
		HOST_TEST(what_was_given_is_kept_for_who_asks),
		HOST_TEST(ranks_with_another_shared_folder_are_seen),
		HOST_TEST(a_registry_of_somebody_else_is_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
