/* SPDX-License-Identifier: Apache-2.0 */
/* What proves that all ranks of a communicator on this host are known, and what does not. Rules, on made-up machines. */
#include "plugin/steer/evidence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/steer/settings.h"

enum { GPUS = 8, HOST = 7, NAMESPACE = 99, FIRST_PID = 100 };

struct evidence {
	struct steer_snapshot snapshot;
	struct steer_gpus gpus;
	struct steer_compute compute;
	struct diag diag;
};

static void bus_id_of(unsigned gpu, char ret[static STEER_BUS_ID_BYTES])
{
	snprintf(ret, STEER_BUS_ID_BYTES, "0000:%02x:00.0", 0x10 + gpu);
}

/* A process; of a job of that key, or of no launcher (0). */
static struct steer_process *process_add(struct evidence *of, uint64_t job, uint32_t rank, uint32_t size)
{
	struct steer_process *process = &of->snapshot.processes[of->snapshot.process_count];

	*process = (struct steer_process){ .identity = { .boot = 1,
							 .pid_namespace = NAMESPACE,
							 .start_ticks = 5,
							 .pid = FIRST_PID + (uint32_t)of->snapshot.process_count },
					   .job_key = job,
					   .host = HOST,
					   .local_size = size,
					   .local_rank = rank,
					   .world_size = size };
	of->snapshot.process_count++;
	return process;
}

static void member_add(struct evidence *of, const struct steer_process *process, unsigned gpu)
{
	struct steer_member *member = &of->snapshot.members[of->snapshot.member_count++];

	member->process = *process;
	member->record = (struct steer_record){ .comm_id = 0 };
	bus_id_of(gpu, member->record.bus_id);
}

/* NVML sees that process on that GPU. */
static void computes(struct evidence *of, unsigned gpu, uint32_t pid)
{
	of->compute.gpus[gpu].pids[of->compute.gpus[gpu].process_count++] = pid;
}

/* A job's processes, each a rank of the communicator, on GPUs 0 and on, and NVML sees them. */
static void job_add(struct evidence *of, uint64_t job, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned gpu = (unsigned)of->snapshot.member_count;
		struct steer_process *process = process_add(of, job, job ? i : STEER_RANK_UNKNOWN, job ? count : 0);

		member_add(of, process, gpu);
		computes(of, gpu, process->identity.pid);
	}
}

static int open_evidence(void **state)
{
	struct evidence *of = calloc(1, sizeof(*of));

	assert_non_null(of);
	of->gpus.count = of->compute.gpu_count = GPUS;
	of->compute.known = true;
	of->compute.pid_namespace = NAMESPACE;
	for (unsigned gpu = 0; gpu < GPUS; gpu++)
		bus_id_of(gpu, of->compute.gpus[gpu].bus_id);
	*state = of;
	return 0;
}

static int close_evidence(void **state)
{
	free(*state);
	return 0;
}

static bool by_machine(struct evidence *of, bool shares_gpus)
{
	return steer_evidence_machine(&of->snapshot, &of->gpus, shares_gpus, &of->diag);
}

static bool by_launcher(struct evidence *of)
{
	return steer_evidence_launcher(&of->snapshot, &of->diag);
}

static bool by_nvml(struct evidence *of)
{
	return steer_evidence_nvml(&of->snapshot, &of->gpus, &of->compute, &of->diag);
}

/* --------------------------------------------------------------------------------------------------------------- machine */

static void all_gpus_of_the_machine_are_all_ranks(void **state)
{
	struct evidence *of = *state;

	job_add(of, 0, GPUS);
	assert_true(by_machine(of, false));
	assert_false(by_machine(of, true)); /* NCCL_MULTI_RANK_GPU_ENABLE: several ranks may have one */
	assert_non_null(strstr(of->diag.text, "NCCL_MULTI_RANK_GPU_ENABLE"));
	of->gpus.mig = true;
	assert_false(by_machine(of, false));
	assert_non_null(strstr(of->diag.text, "MIG"));
	of->gpus.mig = false;
	of->gpus.count = GPUS + 1; /* a container shows CUDA fewer than sysfs has */
	assert_false(by_machine(of, false));
	of->gpus.count = 0; /* not known */
	assert_false(by_machine(of, false));
}

static void a_rank_without_the_plugin_is_missing_from_the_machine(void **state)
{
	struct evidence *of = *state;

	job_add(of, 0, GPUS - 1);
	assert_false(by_machine(of, false));
	assert_string_equal(of->diag.text, "its ranks have 7 of the 8 GPUs of the machine");
	of->snapshot.member_count = 0;
	of->gpus.count = 0;
	assert_false(by_machine(of, false));
}

/* -------------------------------------------------------------------------------------------------------------- launcher */

static void all_of_the_launchers_processes_are_all_ranks(void **state)
{
	struct evidence *of = *state;

	job_add(of, 1, 4);
	assert_true(by_launcher(of));
	of->snapshot.member_count = 2; /* of a split: the others are known and have no record of it */
	assert_true(by_launcher(of));
	assert_true(steer_is_whole_job(&of->snapshot));
}

static void a_process_that_is_not_there_may_be_a_rank(void **state)
{
	struct evidence *of = *state;

	job_add(of, 1, 4);
	of->snapshot.process_count = 3; /* no plugin, or a container with a registry of its own */
	of->snapshot.member_count = 3;
	assert_false(by_launcher(of));
	assert_string_equal(of->diag.text, "of the 4 processes that the job has on this host 3 are known: all need "
					   "NCCL_ENV_PLUGIN=tributary");
}

static void without_a_launcher_there_is_no_count(void **state)
{
	struct evidence *of = *state;

	job_add(of, 0, 4);
	assert_false(by_launcher(of));
	assert_non_null(strstr(of->diag.text, "TRIBUTARY_LOCAL_PROCESSES"));
}

/* It has the same local rank, is not a rank of this communicator, and stands for nobody. */
static void a_helper_with_the_launchers_variables_neither_spoils_nor_counts(void **state)
{
	struct evidence *of = *state;

	job_add(of, 1, 4);
	process_add(of, 1, 2, 4);
	assert_true(by_launcher(of));
	of->snapshot.processes[3].local_rank = 2; /* two helpers, and local rank 3 is missing */
	of->snapshot.member_count = 3;
	assert_false(by_launcher(of));
}

static void two_ranks_with_one_local_rank_are_no_evidence(void **state)
{
	struct evidence *of = *state;

	job_add(of, 1, 4);
	of->snapshot.members[3].process.local_rank = 2;
	assert_false(by_launcher(of));
	assert_non_null(strstr(of->diag.text, "the same local rank"));
	of->snapshot.members[3].process = of->snapshot.members[2].process; /* two threads of one process */
	of->snapshot.process_count = 4;
	assert_true(by_launcher(of));
}

static void ranks_that_have_no_number_are_counted(void **state)
{
	struct evidence *of = *state;

	job_add(of, 1, 4);
	for (unsigned i = 0; i < 4; i++)
		of->snapshot.processes[i].local_rank = of->snapshot.members[i].process.local_rank = STEER_RANK_UNKNOWN;
	assert_true(by_launcher(of));
	process_add(of, 1, STEER_RANK_UNKNOWN, 4); /* one too many: who is the helper is not known */
	assert_false(by_launcher(of));
}

static void processes_of_another_job_do_not_count(void **state)
{
	struct evidence *of = *state;

	job_add(of, 1, 4);
	of->snapshot.process_count = of->snapshot.member_count = 3;
	process_add(of, 2, 3, 4);
	assert_false(by_launcher(of));
	process_add(of, 1, 3, 5); /* of another count */
	assert_false(by_launcher(of));
	process_add(of, 1, 3, 4);
	assert_true(by_launcher(of));
}

/* Each container's launcher counts its own: ranks of both must be there, each completely. */
static void agents_of_one_job_are_counted_one_by_one(void **state)
{
	struct evidence *of = *state;

	job_add(of, 1, 2);
	job_add(of, 2, 2);
	assert_true(by_launcher(of));
	of->snapshot.process_count = 3;
	assert_false(by_launcher(of));
	assert_false(steer_is_whole_job(&of->snapshot));
}

/* Two jobs of one user that nothing tells apart: what is missing in one must not be made up by the other. */
static void jobs_that_have_no_name_are_counted_by_their_ranks_alone(void **state)
{
	struct evidence *of = *state;

	job_add(of, 1, 4);
	for (unsigned i = 0; i < 4; i++) {
		of->snapshot.processes[i].job_key = of->snapshot.members[i].process.job_key = STEER_JOB_UNNAMED;
		of->snapshot.processes[i].local_rank = of->snapshot.members[i].process.local_rank = STEER_RANK_UNKNOWN;
	}
	assert_true(by_launcher(of));
	process_add(of, STEER_JOB_UNNAMED, STEER_RANK_UNKNOWN, 4); /* of the other job */
	assert_true(by_launcher(of));
	of->snapshot.member_count = 3; /* the fourth has no plugin, or this is a split */
	assert_false(by_launcher(of));
	for (unsigned i = 0; i < 4; i++)
		of->snapshot.processes[i].local_rank = of->snapshot.members[i].process.local_rank = i;
	assert_false(by_launcher(of));
}

static void the_whole_job_is_here_if_it_is_as_large_as_its_part_here(void **state)
{
	struct evidence *of = *state;

	assert_false(steer_is_whole_job(&of->snapshot));
	job_add(of, 1, 4);
	assert_true(steer_is_whole_job(&of->snapshot));
	of->snapshot.processes[2].host = HOST + 1; /* NCCL_HOSTID makes two hosts of this one */
	assert_false(steer_is_whole_job(&of->snapshot));
	of->snapshot.processes[2].host = HOST;
	of->snapshot.members[2].process.job_key = 2;
	assert_false(steer_is_whole_job(&of->snapshot));
	of->snapshot.members[2].process.job_key = 1;
	for (unsigned i = 0; i < 4; i++)
		of->snapshot.members[i].process.world_size = 8;
	assert_false(steer_is_whole_job(&of->snapshot));
	for (unsigned i = 0; i < 4; i++)
		of->snapshot.members[i].process.world_size = 0; /* not known */
	assert_false(steer_is_whole_job(&of->snapshot));
}

/* srun --ntasks=1 starts Ray, or another parent, on each of several hosts; its workers are the ranks. */
static void workers_that_inherit_one_process_s_variables_are_not_the_whole_job(void **state)
{
	struct evidence *of = *state;

	job_add(of, 1, 4);
	for (unsigned i = 0; i < 4; i++) {
		of->snapshot.processes[i].local_size = of->snapshot.processes[i].world_size = 1;
		of->snapshot.members[i].process.local_size = of->snapshot.members[i].process.world_size = 1;
	}
	assert_false(steer_is_whole_job(&of->snapshot));
}

/* ------------------------------------------------------------------------------------------------------------------ NVML */

static void idle_gpus_have_no_ranks(void **state)
{
	struct evidence *of = *state;

	job_add(of, 0, 4);
	assert_true(by_nvml(of));
	process_add(of, 0, STEER_RANK_UNKNOWN, 0); /* another job of this user, which is known */
	computes(of, 6, of->snapshot.processes[4].identity.pid);
	assert_true(by_nvml(of));
	computes(of, 1, of->snapshot.processes[4].identity.pid);
	assert_true(by_nvml(of));
}

static void an_unknown_process_may_be_a_rank(void **state)
{
	struct evidence *of = *state;

	job_add(of, 0, 4);
	computes(of, 6, 4711); /* a local rank without the plugin, or somebody else's job */
	assert_false(by_nvml(of));
	assert_string_equal(of->diag.text,
			    "process 4711 computes on GPU 0000:16:00.0, and whether it is a rank is not known: set "
			    "TRIBUTARY_LOCAL_PROCESSES");
	of->compute.gpus[6].process_count = 0;
	assert_true(by_nvml(of));
	computes(of, 1, 4711); /* on a GPU of a rank */
	assert_false(by_nvml(of));
}

/* With MPS the server is seen in place of its clients; in a container nobody may be. */
static void who_is_not_seen_on_its_own_gpu_shows_that_not_all_are_seen(void **state)
{
	struct evidence *of = *state;

	job_add(of, 0, 4);
	of->compute.gpus[2].process_count = 0;
	assert_false(by_nvml(of));
	assert_non_null(strstr(of->diag.text, "on its own GPU"));
	for (unsigned gpu = 0; gpu < GPUS; gpu++)
		of->compute.gpus[gpu].process_count = 0; /* an empty list proves nothing */
	assert_false(by_nvml(of));
}

/* Its number is one of another process here. */
static void process_ids_of_another_namespace_mean_nothing(void **state)
{
	struct evidence *of = *state;

	job_add(of, 0, 4);
	process_add(of, 0, STEER_RANK_UNKNOWN, 0)->identity.pid_namespace++;
	computes(of, 6, of->snapshot.processes[4].identity.pid);
	assert_false(by_nvml(of));
	of->compute.gpus[6].process_count = 0;
	assert_true(by_nvml(of));
	/* A rank in a container of its own, on whose GPU a process with its number computes. */
	of->snapshot.members[0].process.identity.pid_namespace++;
	of->snapshot.processes[0].identity.pid_namespace++;
	assert_false(by_nvml(of));
	process_add(of, 0, STEER_RANK_UNKNOWN, 0)->identity.pid = of->snapshot.members[0].process.identity.pid;
	assert_false(by_nvml(of)); /* even if that one is known */
	/* All of them in one container: the numbers that NVML shows are of others. */
	for (unsigned i = 0; i < 4; i++)
		of->snapshot.members[i].process.identity.pid_namespace =
			of->snapshot.processes[i].identity.pid_namespace = NAMESPACE + 1;
	assert_false(by_nvml(of));
}

static void what_nvml_does_not_show_proves_nothing(void **state)
{
	struct evidence *of = *state;

	job_add(of, 0, 4);
	of->compute.gpu_count = 6; /* a container with some of the GPUs */
	assert_false(by_nvml(of));
	assert_string_equal(of->diag.text, "NVML shows 6 of the 8 GPUs of the machine: set TRIBUTARY_LOCAL_PROCESSES");
	of->gpus.count = 6;
	assert_true(by_nvml(of));
	of->gpus.mig = true;
	assert_false(by_nvml(of));
	of->gpus.mig = false;
	of->gpus.count = of->compute.gpu_count = 0;
	assert_false(by_nvml(of));
	of->gpus.count = of->compute.gpu_count = GPUS;
	bus_id_of(30, of->compute.gpus[2].bus_id); /* not the GPUs that the ranks have */
	assert_false(by_nvml(of));
	of->compute = (struct steer_compute){ .why = "because" };
	assert_false(by_nvml(of));
	assert_string_equal(of->diag.text, "because");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_evidence, close_evidence)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_gpus_of_the_machine_are_all_ranks),
		TEST(a_rank_without_the_plugin_is_missing_from_the_machine),
		TEST(all_of_the_launchers_processes_are_all_ranks),
		TEST(a_process_that_is_not_there_may_be_a_rank),
		TEST(without_a_launcher_there_is_no_count),
		TEST(a_helper_with_the_launchers_variables_neither_spoils_nor_counts),
		TEST(two_ranks_with_one_local_rank_are_no_evidence),
		TEST(ranks_that_have_no_number_are_counted),
		TEST(processes_of_another_job_do_not_count),
		TEST(agents_of_one_job_are_counted_one_by_one),
		TEST(jobs_that_have_no_name_are_counted_by_their_ranks_alone),
		TEST(the_whole_job_is_here_if_it_is_as_large_as_its_part_here),
		TEST(workers_that_inherit_one_process_s_variables_are_not_the_whole_job),
		TEST(idle_gpus_have_no_ranks),
		TEST(an_unknown_process_may_be_a_rank),
		TEST(who_is_not_seen_on_its_own_gpu_shows_that_not_all_are_seen),
		TEST(process_ids_of_another_namespace_mean_nothing),
		TEST(what_nvml_does_not_show_proves_nothing),
	};

	return cmocka_run_group_tests_name("plugin/steer/evidence", tests, NULL, NULL);
}
