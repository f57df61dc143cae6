/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/settings.h"

#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const char *const *now_environment;

static const char *environment_of_test(const char *name)
{
	size_t bytes = strlen(name);

	for (const char *const *at = now_environment; *at; at++)
		if (!strncmp(*at, name, bytes) && (*at)[bytes] == '=')
			return *at + bytes + 1;
	return NULL;
}

static const char *now_root = "/nowhere";

#define READ(...) environment_read((const char *const[]){ __VA_ARGS__, NULL }, 0)

static struct steer_settings environment_read(const char *const *environment, unsigned local_processes)
{
	struct params_source source = { .get = environment_of_test };
	struct steer_settings ret;

	now_environment = environment;
	steer_settings_read(&source, now_root, local_processes, &ret);
	return ret;
}

static void nothing_is_known_of_an_empty_environment(void **state)
{
	struct steer_settings none = READ(NULL);

	(void)state;
	assert_false(none.users_topology);
	assert_false(none.users_graph);
	assert_false(none.no_shm || none.no_net_inside_host || none.wants_collnet || none.shares_gpus ||
		     none.other_tuner);
	assert_false(none.crossnic);
	assert_int_equal(none.p2p_level, STEER_P2P_DEFAULT);
	assert_int_equal(none.job.local_size, 0);
	assert_int_equal(none.job.local_rank, STEER_RANK_UNKNOWN);
	assert_int_equal(none.job.world_size, 0);
}

static void each_launcher_is_understood(void **state)
{
	static const struct {
		const char *text[4];
		uint32_t size, rank, world;
	} launchers[] = {
		{ { "LOCAL_WORLD_SIZE=8", "LOCAL_RANK=3", "WORLD_SIZE=16" }, 8, 3, 16 },
		{ { "OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_SIZE=4" },
		  4,
		  0,
		  4 },
		{ { "LOCAL_SIZE=4", "LOCAL_RANK=3", "WORLD_SIZE=8" }, 4, 3, 8 }, /* DeepSpeed */
		{ { "LOCAL_SIZE=4", "LOCAL_RANK=4", "WORLD_SIZE=8" }, 0, STEER_RANK_UNKNOWN, 0 },
		{ { "LOCAL_SIZE=4", "LOCAL_RANK=3", "WORLD_SIZE=3" }, 0, STEER_RANK_UNKNOWN, 0 },
		{ { "LOCAL_SIZE=4", "LOCAL_RANK=3" }, 0, STEER_RANK_UNKNOWN, 0 },
		{ { "LOCAL_SIZE=4", "WORLD_SIZE=8" }, 0, STEER_RANK_UNKNOWN, 0 },
		{ { "MV2_COMM_WORLD_LOCAL_SIZE=2", "MV2_COMM_WORLD_LOCAL_RANK=1", "MV2_COMM_WORLD_SIZE=4" }, 2, 1, 4 },
		{ { "HOROVOD_LOCAL_SIZE=2", "HOROVOD_LOCAL_RANK=1", "HOROVOD_SIZE=4" }, 2, 1, 4 },
		{ { "PALS_LOCAL_SIZE=6", "PALS_LOCAL_RANKID=5", "PMI_SIZE=12" }, 6, 5, 12 },
		{ { "MPI_LOCALNRANKS=2", "MPI_LOCALRANKID=1", "PMI_SIZE=6" }, 2, 1, 6 },
		{ { "SLURM_STEP_TASKS_PER_NODE=4(x2),3", "SLURM_NODEID=2", "SLURM_LOCALID=2" }, 3, 2, 0 },
		{ { "LOCAL_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=1", "LOCAL_RANK=2" }, 2, STEER_RANK_UNKNOWN, 0 },
		{ { "LOCAL_WORLD_SIZE=", "OMPI_COMM_WORLD_LOCAL_SIZE=x", "MPI_LOCALNRANKS=0" },
		  0,
		  STEER_RANK_UNKNOWN,
		  0 },
		{ { "LOCAL_WORLD_SIZE=-1" }, 0, STEER_RANK_UNKNOWN, 0 },
		{ { "SLURM_STEP_TASKS_PER_NODE=4", "SLURM_LOCALID=2" }, 0, STEER_RANK_UNKNOWN, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		struct steer_settings is = environment_read(launchers[i].text, 0);

		assert_int_equal(is.job.local_size, launchers[i].size);
		assert_int_equal(is.job.local_rank, launchers[i].rank);
		assert_int_equal(is.job.world_size, launchers[i].world);
	}
}

static void what_is_said_by_hand_counts(void **state)
{
	const char *const text[] = { "LOCAL_WORLD_SIZE=8", "LOCAL_RANK=3", NULL };
	struct steer_settings same = environment_read(text, 8), other = environment_read(text, 4);

	(void)state;
	assert_int_equal(same.job.local_size, 8);
	assert_int_equal(same.job.local_rank, 3);
	assert_int_equal(other.job.local_size, 4);
	assert_int_equal(other.job.local_rank, STEER_RANK_UNKNOWN);
}

static void slurms_lists_are_read(void **state)
{
	static const struct {
		const char *text;
		uint32_t node, tasks;
	} lists[] = {
		{ "4", 0, 4 },
		{ "4", 1, 0 },
		{ "4(x2),3", 0, 4 },
		{ "4(x2),3", 1, 4 },
		{ "4(x2),3", 2, 3 },
		{ "4(x2),3", 3, 0 },
		{ "2,4(x3)", 3, 4 },
		{ "", 0, 0 },
		{ "x", 0, 0 },
		{ "4(x", 0, 0 },
		{ "4(x0)", 0, 0 },
		{ "4(x2)y", 0, 0 },
		{ "0", 0, 0 },
		{ "4(2)", 0, 0 },
		{ "99999999999", 0, 0 },
		{ "(x2)", 0, 0 },
		{ "4(x4000000000)", 0, 0 },
		{ "11111111111111111111111111111111111111111", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		assert_int_equal(steer_settings_slurm_tasks(lists[i].text, lists[i].node), lists[i].tasks);
}

static void jobs_agents_and_hosts_are_told_apart(void **state)
{
	struct steer_settings a = READ("MASTER_PORT=1", "GROUP_RANK=0"), b = READ("MASTER_PORT=1", "GROUP_RANK=1"),
			      c = READ("MASTER_PORT=2", "GROUP_RANK=0"), d = READ("MASTER_ADDR=1", "GROUP_RANK=0"),
			      host = READ("NCCL_HOSTID=x"), same = READ("NCCL_HOSTID=x", "LOCAL_RANK=1");

	(void)state;
	assert_true(a.job.whole_key == b.job.whole_key);
	assert_true(a.job.key != b.job.key);
	assert_true(a.job.whole_key != c.job.whole_key);
	assert_true(a.job.whole_key != d.job.whole_key);
	assert_true(host.host == same.host && host.job.key == same.job.key);
	assert_true(host.host != a.host && a.host == b.host);
}

/* How many processes there are does not tell two jobs of one user apart. */
static void a_job_without_a_name_has_no_key(void **state)
{
	static const char *const names[] = { "MASTER_PORT=1",    "TORCHELASTIC_RUN_ID=1", "SLURM_JOB_ID=1",
					     "PMIX_NAMESPACE=1", "PALS_APID=1",           "OMPI_MCA_ess_base_jobid=1",
					     "PMI_KVSNAME=1" };

	(void)state;
	assert_true(READ(NULL).job.key == STEER_JOB_UNNAMED);
	assert_true(READ("LOCAL_WORLD_SIZE=8", "WORLD_SIZE=8", "LOCAL_RANK=1", "GROUP_RANK=0").job.key ==
		    STEER_JOB_UNNAMED);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_true(READ(names[i]).job.key != STEER_JOB_UNNAMED);
}

static void settings_of_nccl_are_read_as_it_reads_them(void **state)
{
	static const struct {
		const char *text;
		int level;
	} levels[] = {
		{ "NCCL_P2P_LEVEL=SYS", TOPOLOGY_CLASS_SYS }, { "NCCL_P2P_LEVEL=LOC", TOPOLOGY_CLASS_LOC },
		{ "NCCL_P2P_LEVEL=NVL", TOPOLOGY_CLASS_NVL }, { "NCCL_P2P_LEVEL=0", TOPOLOGY_CLASS_LOC },
		{ "NCCL_P2P_LEVEL=1", TOPOLOGY_CLASS_PIX },   { "NCCL_P2P_LEVEL=3", TOPOLOGY_CLASS_PHB },
		{ "NCCL_P2P_LEVEL=99", TOPOLOGY_CLASS_SYS },  { "NCCL_P2P_LEVEL=sys", STEER_P2P_DEFAULT },
		{ "NCCL_P2P_LEVEL=", STEER_P2P_DEFAULT },     { "NCCL_P2P_DISABLE=1", TOPOLOGY_CLASS_LOC },
		{ "NCCL_P2P_DISABLE=0", STEER_P2P_DEFAULT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		assert_int_equal(READ(levels[i].text).p2p_level, levels[i].level);
	assert_false(READ("NCCL_CROSS_NIC=0").crossnic);
	assert_false(READ("NCCL_CROSS_NIC=2").crossnic);
	assert_true(READ("NCCL_CROSS_NIC=1").crossnic);
	assert_true(READ("NCCL_SHM_DISABLE=1").no_shm);
	assert_true(READ("NCCL_SHM_DISABLE=0x1").no_shm); /* whatever NCCL makes of it */
	assert_false(READ("NCCL_SHM_DISABLE=0").no_shm);
	assert_true(READ("NCCL_NET_DISABLE_INTRA=1").no_net_inside_host);
	assert_true(READ("NCCL_COLLNET_ENABLE=1").wants_collnet);
	assert_false(READ("NCCL_COLLNET_ENABLE=0").wants_collnet);
	assert_true(READ("NCCL_MULTI_RANK_GPU_ENABLE=1").shares_gpus);
	assert_true(READ("NCCL_MULTI_RANK_GPU_ENABLE=yes").shares_gpus);
	assert_false(READ("NCCL_MULTI_RANK_GPU_ENABLE=0").shares_gpus);
	assert_true(READ("NCCL_TUNER_PLUGIN=aws").other_tuner);
	assert_false(READ("NCCL_TUNER_PLUGIN=tributary").other_tuner);
	assert_true(READ("NCCL_TUNER_PLUGIN=/home/tributary/libnccl-tuner-aws.so").other_tuner);
}

/* What must be equal on all ranks of a host, or there is no plan. */
static void settings_that_change_plans_change_the_hash(void **state)
{
	static const char *const texts[] = { "NCCL_CROSS_NIC=1", "NCCL_P2P_LEVEL=SYS", "NCCL_P2P_DISABLE=1",
					     "NCCL_SHM_DISABLE=1", "NCCL_NET_DISABLE_INTRA=1" };
	uint64_t none = READ(NULL).hash;

	(void)state;
	assert_true(READ("LOCAL_RANK=3").hash == none);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_true(READ(texts[i]).hash != none);
		for (size_t k = 0; k < i; k++)
			assert_true(READ(texts[i]).hash != READ(texts[k]).hash);
	}
}

static void an_inherited_file_is_told_from_the_users(void **state)
{
	struct steer_settings is;

	(void)state;
	is = READ("NCCL_TOPO_FILE=/a/t-1", "_TRIBUTARY_FILE=/a/t-1");
	assert_false(is.users_topology);
	assert_false(is.users_graph);
	is = READ("NCCL_TOPO_FILE=/a/t-1", "NCCL_GRAPH_FILE=/b", "_TRIBUTARY_FILE=/a/t-1");
	assert_false(is.users_topology);
	assert_true(is.users_graph);
	assert_true(READ("NCCL_TOPO_FILE=/a/t", "_TRIBUTARY_FILE=/a/t-1").users_topology);
	assert_true(READ("NCCL_TOPO_FILE=/a/t-1", "_TRIBUTARY_FILE=/a/t").users_topology);
	assert_true(READ("NCCL_TOPO_FILE=/a/t").users_topology);
	assert_false(READ("_TRIBUTARY_FILE=/a/t").users_topology);
	is = READ("NCCL_TOPO_FILE=", "NCCL_GRAPH_FILE=", "_TRIBUTARY_FILE=x");
	assert_true(is.users_topology);
	assert_true(is.users_graph);
}

/* What clouds install counts as the user's NCCL_TOPO_FILE does, unless that is set: NCCL does not read it then. */
static void the_providers_topology_is_found(void **state)
{
	struct tree *machine = *state;

	now_root = machine->root;
	assert_false(READ(NULL).default_topology);
	tree_text(machine, "var/run/nvidia-topologyd/virtualTopology.xml", "<system version=\"1\"/>\n");
	assert_true(READ(NULL).default_topology);
	assert_false(READ(NULL).users_topology);
	assert_false(READ("NCCL_TOPO_FILE=/a/t").default_topology);
	assert_false(READ("NCCL_TOPO_FILE=").default_topology);
	assert_false(READ("NCCL_TOPO_FILE=/a/t-1", "_TRIBUTARY_FILE=/a/t-1").default_topology);
	now_root = "/nowhere";
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_providers_topology_is_found, tree_new, tree_free),
		cmocka_unit_test(nothing_is_known_of_an_empty_environment),
		cmocka_unit_test(each_launcher_is_understood),
		cmocka_unit_test(what_is_said_by_hand_counts),
		cmocka_unit_test(slurms_lists_are_read),
		cmocka_unit_test(jobs_agents_and_hosts_are_told_apart),
		cmocka_unit_test(a_job_without_a_name_has_no_key),
		cmocka_unit_test(settings_of_nccl_are_read_as_it_reads_them),
		cmocka_unit_test(settings_that_change_plans_change_the_hash),
		cmocka_unit_test(an_inherited_file_is_told_from_the_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
