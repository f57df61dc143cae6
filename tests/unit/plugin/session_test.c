/* What NCCL finds in its graph file, in processes that call the plugin in NCCL's order. */
#include "plugin/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/tree.h"
#include "unit/plugin/session/hall.h"

enum { FOUR = 0xf, ALL = 0xff };

static void expect_rest(struct hall *hall, unsigned ranks, int64_t comm, unsigned speaker, const char *why)
{
	hall_begin(hall, ranks, comm);
	hall_phase(hall, ranks & ~(1u << speaker));
	assert_int_equal(hall_do(hall, speaker, 0, HALL_PROPERTIES, 0), 0);
	if (!strstr(hall->reply.info, why))
		fail_msg("\"%s\" does not say \"%s\"", hall->reply.info, why);
	assert_int_equal(hall_read(hall, ranks), 0);
}

static void the_gpus_of_a_communicator_get_a_plan(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 4, NULL);
	assert_int_equal(hall_initialise(hall, FOUR, 1), 0xf);
	assert_int_equal(hall->reply.warnings, 0);
	assert_int_equal(hall_count(hall, "d-"), 0); /* nothing is left once all have read it */
}

static void each_communicator_gets_its_own(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 8, NULL);
	assert_int_equal(hall_initialise(hall, ALL, 1), 0xff);
	assert_int_equal(hall_initialise(hall, 0x5a, 2), 0x5a);
	assert_int_equal(hall_initialise(hall, 0x11, 3), 0x11);
	hall_begin(hall, 0xf0, 5);
	hall_begin(hall, 0x0f, 4);
	hall_phase(hall, 0x0f);
	assert_int_equal(hall_read(hall, 0x0f), 0x0f);
	hall_phase(hall, 0xf0);
	assert_int_equal(hall_read(hall, 0xf0), 0xf0);
	hall_tuner(hall, 0x0f, 4, 1);
	hall_tuner(hall, 0xf0, 5, 1);
	assert_int_equal(hall_read(hall, ALL), 0);
}

static void the_plan_says_what_the_topology_file_says(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	assert_int_equal(hall_do(hall, 0, 0, HALL_TOPOLOGY, 0), 0);
	assert_non_null(strstr(hall->reply.text, "<gpu dev=\"7\" sm=\"86\"/>"));
	assert_non_null(strstr(hall->reply.text, "<net name=\"fake0\""));
	assert_null(strstr(hall->reply.text, "latency"));
	assert_null(strstr(hall->reply.text, "gdr"));
}

static void one_gpu_of_several_hosts_gets_a_plan_and_one_alone_none(void **state)
{
	struct hall *hall = *state;

	hall_start(hall, 0, 0, 2, 4, NULL);
	hall_start(hall, 1, 1, 2, 4, NULL);
	assert_int_equal(hall_initialise(hall, 3, 1), 3);
	assert_int_equal(hall_initialise(hall, 1, 2), 1);
	hall_kill(hall, 0);
	hall_kill(hall, 1);
	hall_start_all(hall, 2, NULL);
	assert_int_equal(hall_initialise(hall, 3, 3), 3);
	expect_rest(hall, 1, 4, 0, "it has one GPU");
}

static void ranks_that_say_they_are_of_different_hosts_are_planned_apart(void **state)
{
	struct hall *hall = *state;
	char host[32];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(host, sizeof(host), "NCCL_HOSTID=%u", i / 2);
		hall_start(hall, i, i == 3 ? 0 : (int)i, 4, 4, host);
	}
	hall_begin(hall, FOUR, 1);
	hall_phase(hall, FOUR);
	assert_int_equal(hall_read(hall, 0x3), 0x3);
	assert_int_equal(hall_read(hall, 0xc), 0x5); /* GPU 0 twice, on two "hosts" */
}

static void without_evidence_nothing_is_published(void **state)
{
	struct hall *hall = *state;

	for (unsigned i = 0; i < 3; i++)
		hall_start(hall, i, (int)i, 4, 4, NULL); /* the fourth may be anywhere */
	expect_rest(hall, 7, 1, 1, "of the 4 processes that the job has on this host 3 are known");
	hall_start(hall, 3, 3, 4, 4, NULL);
	hall_begin(hall, 8, 2);
	assert_int_equal(hall_initialise(hall, 7, 3), 7); /* it has come */
	hall_kill(hall, 3);
	expect_rest(hall, 7, 4, 0, "3 are known");
}

static void the_size_can_be_said_by_hand_and_must_be_known(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, "LOCAL_WORLD_SIZE=\nLOCAL_RANK=\n");
	expect_rest(hall, 3, 1, 0, "TRIBUTARY_LOCAL_PROCESSES");
	hall_kill(hall, 0);
	hall_kill(hall, 1);
	hall_start_all(hall, 2, "LOCAL_WORLD_SIZE=\nLOCAL_RANK=\nTRIBUTARY_LOCAL_PROCESSES=2\n");
	assert_int_equal(hall_initialise(hall, 3, 2), 3);
}

static void two_jobs_do_not_count_for_each_other(void **state)
{
	struct hall *hall = *state;

	hall_start(hall, 0, 0, 2, 2, "MASTER_PORT=1\n");
	hall_start(hall, 1, 1, 2, 2, "MASTER_PORT=1\n");
	hall_start(hall, 2, 2, 2, 2, "MASTER_PORT=2\nLOCAL_RANK=0\n");
	hall_begin(hall, 7, 7); /* the processes make themselves known */
	expect_rest(hall, 4, 1, 2, "of the 2 processes that the job has on this host 1 are known");
	hall_start(hall, 3, 3, 2, 2, "MASTER_PORT=2\nLOCAL_RANK=1\n");
	hall_begin(hall, 0x3, 2);
	hall_begin(hall, 0xc, 3);
	hall_phase(hall, FOUR);
	assert_int_equal(hall_read(hall, 0x3), 0x3);
	assert_int_equal(hall_read(hall, 0xc), 0xc);
}

static void a_local_rank_that_is_there_twice_is_no_evidence(void **state)
{
	struct hall *hall = *state;

	hall_start(hall, 0, 0, 2, 2, NULL);
	hall_start(hall, 1, 1, 2, 2, "LOCAL_RANK=0\n");
	expect_rest(hall, 3, 1, 0, "both have local rank 0");
}

static void what_the_user_set_is_not_touched(void **state)
{
	struct hall *hall = *state;

	hall_start(hall, 0, 0, 2, 2, "NCCL_GRAPH_FILE=/nowhere\n");
	hall_start(hall, 1, 1, 2, 2, "NCCL_TOPO_FILE=/nowhere\n");
	hall_start(hall, 2, 1, 2, 2, "NCCL_TOPO_FILE=\n");
	hall_begin(hall, 7, 1);
	assert_int_equal(hall_do(hall, 0, 0, HALL_TOPOLOGY, 0), 0);
	assert_int_equal(hall_do(hall, 0, 0, HALL_READ, 0), -ENOENT);
	assert_int_equal(hall_do(hall, 1, 0, HALL_TOPOLOGY, 0), -ENOENT);
	assert_int_equal(hall_do(hall, 1, 0, HALL_READ, 0), -ENODATA);
	assert_int_equal(hall_count(hall, "p-"), 1); /* neither counts as a rank that has a plan */
}

static void steering_can_be_switched_off_and_down(void **state)
{
	struct hall *hall = *state;

	hall_start(hall, 0, 0, 2, 2, "TRIBUTARY_STEER=off\n");
	hall_start(hall, 1, 1, 2, 2, "TRIBUTARY_STEER=topology\n");
	hall_start(hall, 2, 1, 2, 2, "TRIBUTARY_DISABLE=1\n");
	hall_start(hall, 3, 1, 2, 2, "TRIBUTARY_PROFILE=/nowhere\n");
	hall_begin(hall, 2, 1);
	assert_int_equal(hall_do(hall, 1, 0, HALL_TOPOLOGY, 0), 0);
	assert_int_equal(hall_do(hall, 1, 0, HALL_READ, 0), -ENODATA);
	for (unsigned i = 0; i < 4; i++) {
		if (i == 1)
			continue;
		assert_int_equal(hall_do(hall, i, 0, HALL_BEGIN, 1), 0);
		assert_int_equal(hall_do(hall, i, 0, HALL_TOPOLOGY, 0), -ENODATA);
		assert_int_equal(hall_do(hall, i, 0, HALL_READ, 0), -ENODATA);
	}
	assert_int_equal(hall_count(hall, "p-"), 0);
}

static void inherited_files_are_not_the_users(void **state)
{
	static const char inherited[] = "NCCL_TOPO_FILE=/gone/t-1\nNCCL_GRAPH_FILE=/gone/g-1\n"
					"_TRIBUTARY_FILES=/gone/t-1:/gone/g-1\n";
	struct hall *hall = *state;
	char off[256];

	hall_start_all(hall, 2, inherited);
	assert_int_equal(hall_initialise(hall, 3, 1), 3);
	snprintf(off, sizeof(off), "%sTRIBUTARY_STEER=off\n", inherited);
	hall_start(hall, 2, 2, 3, 3, off);
	hall_begin(hall, 0, 1);
	assert_int_equal(hall_do(hall, 2, 0, HALL_BEGIN, 2), 0);
	assert_int_equal(hall_do(hall, 2, 0, HALL_READ, 0), -ENODATA); /* NCCL would fail without it */
	assert_int_equal(hall_do(hall, 2, 0, HALL_TOPOLOGY, 0), -ENODATA);
}

static void a_rank_without_a_known_gpu_makes_all_rest(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 3, NULL);
	assert_int_equal(hall_do(hall, 1, 0, HALL_GPU, -1), 0);
	expect_rest(hall, 7, 1, 2, "a rank's GPU is not known");
	assert_int_equal(hall_do(hall, 1, 0, HALL_GPU, 15), 0); /* not in the profile */
	expect_rest(hall, 7, 2, 2, "a rank's GPU is not known");
	assert_int_equal(hall_do(hall, 1, 0, HALL_GPU, 0), 0);
	expect_rest(hall, 7, 3, 2, "two ranks share a GPU");
	assert_int_equal(hall_do(hall, 1, 0, HALL_GPU, 1), 0);
	assert_int_equal(hall_initialise(hall, 7, 4), 7);
}

/* What a slice has of its GPU's link nobody has measured, and slices have no P2P. */
static void a_slice_of_a_gpu_makes_its_communicators_rest_and_no_other(void **state)
{
	struct hall *hall = *state;

	hall_slice(hall, 1);
	hall_start_all(hall, 3, NULL);
	expect_rest(hall, 7, 1, 2, "a rank has a slice of a GPU in MIG mode");
	assert_int_equal(hall_initialise(hall, 5, 2), 5);
}

static void settings_of_nccl_that_do_not_go_with_it_make_all_rest(void **state)
{
	struct hall *hall = *state;

	hall_start(hall, 0, 0, 2, 2, NULL);
	hall_start(hall, 1, 1, 2, 2, "NCCL_SHM_DISABLE=1\n");
	expect_rest(hall, 3, 1, 0, "NCCL_SHM_DISABLE is set");
	hall_kill(hall, 1);
	hall_start(hall, 1, 1, 2, 2, "NCCL_OOB_NET_ENABLE=1\n");
	expect_rest(hall, 3, 2, 0, "NCCL_OOB_NET_ENABLE is set");
	hall_kill(hall, 1);
	hall_start(hall, 1, 1, 2, 2, "NCCL_P2P_DISABLE=1\n");
	expect_rest(hall, 3, 3, 0, "the ranks have different profiles, settings or versions");
}

static void a_rank_that_is_gone_makes_the_others_rest(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 3, NULL);
	hall_begin(hall, 7, 1);
	hall_kill(hall, 1);
	assert_int_equal(hall_do(hall, 0, 0, HALL_PROPERTIES, 0), 0);
	assert_non_null(strstr(hall->reply.info, "a rank has gone"));
	hall_phase(hall, 4);
	assert_int_equal(hall_read(hall, 5), 0);
}

static void a_decision_holds_though_who_made_it_is_gone(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 3, NULL);
	hall_begin(hall, 7, 1);
	hall_send(hall, 1, 0, HALL_PROPERTIES, 0);
	hall_send(hall, 2, 0, HALL_PROPERTIES, 0);
	assert_true(hall_is_waiting(hall, 1, 0, 50));
	assert_true(hall_is_waiting(hall, 2, 0, 50));
	assert_int_equal(hall_do(hall, 0, 0, HALL_PROPERTIES, 0), 0); /* who comes last decides */
	hall_kill(hall, 0);
	assert_int_equal(hall_wait(hall, 1, 0), 0);
	assert_int_equal(hall_wait(hall, 2, 0), 0);
	assert_int_equal(hall_read(hall, 6), 7); /* what it had read: they will not get beyond the next exchange */
	hall_start(hall, 0, 0, 3, 3, NULL);
	hall_begin(hall, 1, 2); /* who comes next cleans up */
	assert_int_equal(hall_count(hall, "d-"), 0);
	assert_int_equal(hall_count(hall, "p-"), 3);
	assert_int_equal(hall_count(hall, "g-"), 3);
}

static void an_init_that_is_given_up_makes_the_others_rest(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 3, NULL);
	hall_begin(hall, 7, 1);
	assert_int_equal(hall_do(hall, 1, 0, HALL_END, 1), 0);
	assert_int_equal(hall_do(hall, 2, 0, HALL_PROPERTIES, 0), 0);
	assert_non_null(strstr(hall->reply.info, "a rank has given up"));
	assert_int_equal(hall_read(hall, 4), 0);
}

static void a_split_with_shared_resources_finds_the_file_at_rest(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 4, NULL);
	assert_int_equal(hall_initialise(hall, FOUR, 1), 0xf);
	hall_phase(hall, 3); /* no init */
	assert_int_equal(hall_read(hall, 3), 0);
	/* The same where no tuner of ours has told that the first one is done: NCCL has read its file. */
	hall_begin(hall, FOUR, 2);
	hall_phase(hall, FOUR);
	assert_int_equal(hall_read(hall, FOUR), 0xf);
	hall_phase(hall, 3);
	assert_int_equal(hall_read(hall, 3), 0);
}

static void both(struct hall *hall, enum hall_order order, int64_t arg)
{
	for (unsigned rank = 0; rank < 2; rank++)
		hall_send(hall, rank, 0, order, arg);
	for (unsigned rank = 0; rank < 2; rank++)
		assert_int_equal(hall_wait(hall, rank, 0), 0);
}

static void a_split_after_an_init_that_failed_finds_the_file_at_rest(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	both(hall, HALL_JOIN, 0);
	assert_int_equal(hall_read(hall, 3), 3);
	hall_tuner(hall, 3, 1, 1);
	hall_begin(hall, 3, 2);
	hall_phase(hall, 3); /* published, and given up before it is read; nobody says so */
	hall_phase(hall, 3); /* with virtual devices NCCL may look twice more */
	hall_phase(hall, 3);
	hall_phase(hall, 3);
	assert_int_equal(hall_read(hall, 3), 0);
}

static void devices_that_nccl_joins_are_named_by_their_new_number(void **state)
{
	struct hall *hall = *state;

	hall_start(hall, 0, 0, 2, 4, NULL); /* two of four ranks: there may be several hosts */
	hall_start(hall, 1, 1, 2, 4, NULL);
	hall_begin(hall, 3, 1);
	hall_phase(hall, 3);
	both(hall, HALL_JOIN, 0);
	assert_int_equal(hall_read(hall, 3), 3);
	assert_int_equal(hall_do(hall, 0, 0, HALL_READ, 0), 0);
	assert_null(strstr(hall->reply.text, "<net dev=\"0\"/>"));
	assert_null(strstr(hall->reply.text, "<net dev=\"0x1\"/>"));
	assert_non_null(strstr(hall->reply.text, "<net dev=\"0x2\"/>"));
}

/* tests/standin/order-2.30.7.txt: first and later, NICs fused */
static void fused_devices_may_be_asked_for_as_often_as_nccl_does(void **state)
{
	static const int first[] = { 2, 0, 1, 2, 0, 1, -1 }, later[] = { 0, 1, 2, 0, 1, 2, 0, 1, -1 };
	struct hall *hall = *state;

	hall_start(hall, 0, 0, 2, 4, NULL);
	hall_start(hall, 1, 1, 2, 4, NULL);
	hall_begin(hall, 3, 1);
	hall_phase(hall, 3);
	both(hall, HALL_JOIN, 0);
	for (const int *device = first; *device >= 0; device++)
		both(hall, HALL_ONE, *device);
	assert_int_equal(hall_read(hall, 3), 3);
	hall_tuner(hall, 3, 1, 1);
	hall_begin(hall, 3, 2);
	for (const int *device = later; *device >= 0; device++)
		both(hall, HALL_ONE, *device);
	assert_int_equal(hall_read(hall, 3), 3);
}

static void ranks_of_one_process_rest(void **state)
{
	struct hall *hall = *state;

	hall_start(hall, 0, 0, 2, 2, NULL);
	hall_start(hall, 1, 1, 2, 2, NULL);
	assert_int_equal(hall_do(hall, 1, 1, HALL_GPU, 2), 0);
	hall_begin(hall, 3, 1);
	assert_int_equal(hall_do(hall, 1, 1, HALL_BEGIN, 1), 0);
	assert_int_equal(hall_do(hall, 1, 1, HALL_CHECK, 0), 0);
	hall_phase(hall, 3);
	assert_int_equal(hall_do(hall, 1, 1, HALL_PROPERTIES, 0), 0);
	assert_int_equal(hall_read(hall, 3), 0);
}

static void of_two_communicators_at_once_both_rest(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	/* Process 1 begins another one before the first is decided. */
	assert_int_equal(hall_do(hall, 1, 1, HALL_BEGIN, 2), 0);
	assert_int_equal(hall_do(hall, 1, 1, HALL_CHECK, 0), 0);
	hall_phase(hall, 1);
	assert_int_equal(hall_read(hall, 3), 0);
	assert_int_equal(hall_do(hall, 1, 1, HALL_PROPERTIES, 0), 0);
	hall_phase(hall, 2);
	assert_int_equal(hall_read(hall, 3), 0);
	hall_tuner(hall, 3, 1, 0);
	assert_int_equal(hall_do(hall, 1, 1, HALL_TUNER, 2), 0);
	assert_int_equal(hall_initialise(hall, 3, 3), 3); /* and the next one does not */
}

static void a_second_communicator_waits_for_the_plan_of_the_first(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	hall_phase(hall, 3);
	hall_send(hall, 1, 1, HALL_BEGIN, 2);
	assert_true(hall_is_waiting(hall, 1, 1, 50));
	assert_int_equal(hall_read(hall, 3), 3);
	hall_tuner(hall, 2, 1, 1);
	assert_int_equal(hall_wait(hall, 1, 1), 0);
	assert_int_equal(hall_read(hall, 2), 0);
	assert_int_equal(hall_do(hall, 1, 1, HALL_CHECK, 0), 0);
	assert_int_equal(hall_do(hall, 1, 1, HALL_PROPERTIES, 0), 0);
	assert_int_equal(hall_do(hall, 1, 1, HALL_READ, 0), 0);
	assert_int_equal(hall_gpus(hall->reply.text), 0);
}

static void a_second_communicator_does_not_wait_for_ranks_that_meet(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	hall_send(hall, 0, 0, HALL_PROPERTIES, 0);
	assert_true(hall_is_waiting(hall, 0, 0, 50)); /* for process 1, which has something else to do first */
	assert_int_equal(hall_do(hall, 1, 1, HALL_BEGIN, 2), 0);
	assert_int_equal(hall_wait(hall, 0, 0), 0);
	hall_phase(hall, 2);
	assert_int_equal(hall_read(hall, 3), 0);
	hall_tuner(hall, 3, 1, 0);
}

static void what_never_ends_is_not_waited_for_long(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	hall_phase(hall, 3);
	assert_int_equal(hall_do(hall, 1, 1, HALL_BEGIN, 2), 0);
	assert_in_range(hall->reply.took_ns, 1000000000, 20000000000);
	assert_int_equal(hall_read(hall, 3), 0); /* nobody had read it, so nobody shall */
	hall_tuner(hall, 1, 1, 0);               /* and the tuner does not go by it */
	hall_phase(hall, 2);
	assert_int_equal(hall_read(hall, 3), 0);
	assert_int_equal(hall->reply.warnings, 0);
}

static void threads_that_are_no_more_do_not_count(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	assert_int_equal(hall_do(hall, 1, 1, HALL_BEGIN, 1), 0);
	assert_int_equal(hall_do(hall, 1, 1, HALL_LEAVE, 0), 0);
	for (unsigned i = 0; i < 100 && hall_initialise(hall, 3, 2 + i) == 0; i++)
		assert_true(i < 99); /* the thread takes its time to end */
}

static void connecting_ends_the_phase_and_the_own_thread_does_not(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	hall_phase(hall, 3);
	assert_int_equal(hall_do(hall, 0, 0, HALL_CONNECT, 1), 0); /* NCCL tries GPUDirect RDMA out before the search */
	assert_int_equal(hall_read(hall, 3), 3);
	assert_int_equal(hall_do(hall, 0, 2, HALL_CONNECT, 1), 0);
	assert_int_equal(hall_read(hall, 1), 0);
	assert_int_equal(hall_read(hall, 2), 3);
	assert_int_equal(hall_do(hall, 0, 2, HALL_ONE, 0), 0);     /* a thread that connects asks for properties too */
	assert_int_equal(hall_do(hall, 1, 2, HALL_CONNECT, 9), 0); /* of another communicator */
	assert_int_equal(hall_do(hall, 1, 2, HALL_ONE, 0), 0);
	assert_int_equal(hall_read(hall, 2), 3);
}

static void a_stranger_waits_until_the_file_is_read(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	hall_phase(hall, 3);
	hall_send(hall, 0, 1, HALL_PROPERTIES, 0); /* a split with shared resources, on another thread */
	assert_true(hall_is_waiting(hall, 0, 1, 50));
	assert_int_equal(hall_read(hall, 3), 3);
	assert_int_equal(hall_wait(hall, 0, 1), 0);
	assert_int_equal(hall_do(hall, 0, 1, HALL_READ, 0), 0);
	assert_int_equal(hall_gpus(hall->reply.text), 0);
}

static void a_plan_waits_for_a_stranger(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	assert_int_equal(hall_do(hall, 0, 1, HALL_PROPERTIES, 0), 0); /* and is about to read */
	hall_send(hall, 0, 0, HALL_PROPERTIES, 0);
	hall_send(hall, 1, 0, HALL_PROPERTIES, 0);
	assert_true(hall_is_waiting(hall, 0, 0, 50));
	assert_true(hall_is_waiting(hall, 1, 0, 50));
	assert_int_equal(hall_do(hall, 0, 1, HALL_READ, 0), 0);
	assert_int_equal(hall_gpus(hall->reply.text), 0);
	assert_int_equal(hall_wait(hall, 0, 0), 0);
	assert_int_equal(hall_wait(hall, 1, 0), 0);
	assert_int_equal(hall_read(hall, 3), 3);
}

static void a_forked_child_does_nothing(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	hall_phase(hall, 3);
	assert_int_equal(hall_do(hall, 0, 0, HALL_FORK, 0), 0);
	assert_int_equal(hall_read(hall, 3), 3);
}

static void the_tuner_learns_what_was_given(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	assert_int_equal(hall_do(hall, 0, 0, HALL_TUNER, 1), -ENOENT);
	assert_int_equal(hall_initialise(hall, 3, 1), 3);
	assert_int_equal(hall_do(hall, 0, 0, HALL_TUNER, 0), 1); /* this thread's last */
	assert_int_equal(hall_do(hall, 0, 1, HALL_TUNER, 0), -ENOENT);
	assert_int_equal(hall_do(hall, 0, 0, HALL_TUNER, 2), -ENOENT);
}

static void many_communicators_one_after_the_other(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 3, NULL);
	for (int64_t comm = 1; comm < 200; comm++)
		assert_int_equal(hall_initialise(hall, comm % 2 ? 7 : 5, comm), comm % 2 ? 7 : 5);
	assert_int_equal(hall_count(hall, "d-"), 0);
	assert_int_equal(hall->reply.warnings, 0);
}

static void what_was_given_is_kept_for_who_asks(void **state)
{
	struct hall *hall = *state;
	char path[256];

	hall_start_all(hall, 2, NULL);
	assert_int_equal(hall_initialise(hall, 3, 0xabc), 3);
	snprintf(path, sizeof(path), "%s/session-0000000000000abc-0000:11:00.0.xml", hall->dump);
	assert_int_equal(access(path, R_OK), 0);
}

static void a_folder_that_was_emptied_is_made_again(void **state)
{
	struct hall *hall = *state;
	char path[160];

	hall_start_all(hall, 2, NULL);
	hall_registry(hall, path);
	hall_begin(hall, 3, 1);
	tree_remove(path);
	hall_phase(hall, 1);
	assert_non_null(strstr(hall->reply.info, "the shared folder was emptied meanwhile"));
	hall_phase(hall, 2);
	assert_int_equal(hall_read(hall, 3), 0);
	hall_tuner(hall, 3, 1, 0);
	assert_int_equal(hall_initialise(hall, 3, 2), 3);
	hall_begin(hall, 3, 3);
	hall_phase(hall, 3);
	tree_remove(path);
	assert_int_equal(hall_do(hall, 0, 0, HALL_ONE, 1), 0); /* and once more before the file is read */
	assert_int_equal(hall_do(hall, 1, 0, HALL_ONE, 1), 0);
	assert_int_equal(hall_read(hall, 3), 3);
	hall_tuner(hall, 3, 3, 1);
	tree_remove(path);
	hall_phase(hall, 3); /* a split with shared resources */
	assert_int_equal(hall_read(hall, 3), 0);
}

static void ranks_with_another_shared_folder_are_seen(void **state)
{
	struct hall *hall = *state;
	char other[256];

	snprintf(other, sizeof(other), "TRIBUTARY_SHARED_DIR=%s\nGROUP_RANK=1\n", hall->root);
	hall_start(hall, 0, 0, 1, 2, "LOCAL_RANK=0\n");
	hall_start(hall, 1, 1, 1, 2, other);
	assert_int_equal(hall_do(hall, 1, 0, HALL_BEGIN, 1), 0);
	expect_rest(hall, 1, 1, 0, "have another shared folder");
	hall_kill(hall, 1);
	assert_int_equal(hall_initialise(hall, 1, 2), 1);
}

static void a_registry_of_somebody_else_is_not_used(void **state)
{
	struct hall *hall = *state;
	char path[160];

	hall_registry(hall, path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0755), 0); /* open to others */
	hall_start_all(hall, 2, NULL);
	assert_int_equal(hall_do(hall, 0, 0, HALL_BEGIN, 1), 0);
	assert_non_null(strstr(hall->reply.info, "where this user's 0700 is needed"));
	assert_int_equal(hall_do(hall, 0, 0, HALL_READ, 0), -ENODATA);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink(hall->dump, path), 0);
	assert_int_equal(hall_do(hall, 1, 0, HALL_BEGIN, 1), 0);
	assert_int_equal(hall_do(hall, 1, 0, HALL_READ, 0), -ENODATA);
	assert_int_equal(unlink(path), 0);
}

#define HALL_TEST(name) cmocka_unit_test_setup_teardown(name, hall_open, hall_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HALL_TEST(the_gpus_of_a_communicator_get_a_plan),
		HALL_TEST(each_communicator_gets_its_own),
		HALL_TEST(the_plan_says_what_the_topology_file_says),
		HALL_TEST(one_gpu_of_several_hosts_gets_a_plan_and_one_alone_none),
		HALL_TEST(ranks_that_say_they_are_of_different_hosts_are_planned_apart),
		HALL_TEST(without_evidence_nothing_is_published),
		HALL_TEST(the_size_can_be_said_by_hand_and_must_be_known),
		HALL_TEST(two_jobs_do_not_count_for_each_other),
		HALL_TEST(a_local_rank_that_is_there_twice_is_no_evidence),
		HALL_TEST(what_the_user_set_is_not_touched),
		HALL_TEST(steering_can_be_switched_off_and_down),
		HALL_TEST(inherited_files_are_not_the_users),
		HALL_TEST(a_rank_without_a_known_gpu_makes_all_rest),
		HALL_TEST(a_slice_of_a_gpu_makes_its_communicators_rest_and_no_other),
		HALL_TEST(settings_of_nccl_that_do_not_go_with_it_make_all_rest),
		HALL_TEST(a_rank_that_is_gone_makes_the_others_rest),
		HALL_TEST(a_decision_holds_though_who_made_it_is_gone),
		HALL_TEST(an_init_that_is_given_up_makes_the_others_rest),
		HALL_TEST(a_split_with_shared_resources_finds_the_file_at_rest),
		HALL_TEST(a_split_after_an_init_that_failed_finds_the_file_at_rest),
		HALL_TEST(devices_that_nccl_joins_are_named_by_their_new_number),
		HALL_TEST(fused_devices_may_be_asked_for_as_often_as_nccl_does),
		HALL_TEST(ranks_of_one_process_rest),
		HALL_TEST(of_two_communicators_at_once_both_rest),
		HALL_TEST(a_second_communicator_waits_for_the_plan_of_the_first),
		HALL_TEST(a_second_communicator_does_not_wait_for_ranks_that_meet),
		HALL_TEST(what_never_ends_is_not_waited_for_long),
		HALL_TEST(threads_that_are_no_more_do_not_count),
		HALL_TEST(connecting_ends_the_phase_and_the_own_thread_does_not),
		HALL_TEST(a_stranger_waits_until_the_file_is_read),
		HALL_TEST(a_plan_waits_for_a_stranger),
		HALL_TEST(a_forked_child_does_nothing),
		HALL_TEST(the_tuner_learns_what_was_given),
		HALL_TEST(many_communicators_one_after_the_other),
		HALL_TEST(what_was_given_is_kept_for_who_asks),
		HALL_TEST(a_folder_that_was_emptied_is_made_again),
		HALL_TEST(ranks_with_another_shared_folder_are_seen),
		HALL_TEST(a_registry_of_somebody_else_is_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
