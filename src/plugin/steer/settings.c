/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/settings.h"

#include "base/hash.h"
#include "base/parse.h"
#include "base/process.h"
#include "plugin/installed.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOST_BYTES = 1024, JOB_PROCESSES_MAX = 1u << 20 };

/* By what NCCL takes ranks for one host: NCCL_HOSTID, else the name of the host and this start of its kernel. 0: not known. */
static uint64_t host_of(const struct params_source *source)
{
	const char *name = source->get("NCCL_HOSTID");
	struct process_identity self = { 0 };
	char host[HOST_BYTES] = "";
	uint64_t hash;

	if (name)
		return hash_text(HASH_START, name);
	(void)gethostname(host, sizeof(host) - 1);
	if (process_identity(&self) < 0)
		return 0;
	hash = hash_text(HASH_START, host);
	return hash_bytes(hash, &self.boot, sizeof(self.boot));
}

/* As NCCL reads its numbers: anything that is not one counts as if unset. */
static int64_t number(const struct params_source *source, const char *name, int64_t otherwise)
{
	const char *text = source->get(name);
	int64_t value;

	return text && *text && !parse_i64(text, INT32_MIN, INT32_MAX, &value) ? value : otherwise;
}

/* For what plans cannot be right with: whatever NCCL makes of a strange value, it counts as on. */
static bool may_be_on(const struct params_source *source, const char *name)
{
	const char *text = source->get(name);

	return text && *text && strcmp(text, "0") != 0;
}

bool steer_settings_names_us(const char *plugins)
{
	static const char name[] = "tributary";
	const char *item;
	size_t bytes;

	while (parse_list_next(&plugins, ',', &item, &bytes)) {
		const char *slash = memrchr(item, '/', bytes), *file = slash ? slash + 1 : item;

		if (memmem(file, bytes - (size_t)(file - item), name, sizeof(name) - 1))
			return true;
	}
	return false;
}

/* Unset, NCCL takes that of the net plugin's library only where it finds no libnccl-tuner.so. nccl: plugin/plugin_open.cc */
static bool has_other_tuner(const struct params_source *source)
{
	const char *text = source->get("NCCL_TUNER_PLUGIN");

	return text && *text ? !steer_settings_names_us(text)
			     : plugin_another_is_installed("libnccl-tuner.so", "ncclTunerPlugin_v5");
}

/* A count of processes, or a rank. */
static bool small_number(const struct params_source *source, const char *name, uint32_t *ret)
{
	const char *text = name ? source->get(name) : NULL;
	uint64_t value;

	if (!text || parse_u64(text, 0, JOB_PROCESSES_MAX, &value))
		return false;
	*ret = (uint32_t)value;
	return true;
}

static int p2p_level(const struct params_source *source)
{
	static const enum topology_class old_levels[] = { TOPOLOGY_CLASS_LOC, TOPOLOGY_CLASS_PIX, TOPOLOGY_CLASS_PXB,
							  TOPOLOGY_CLASS_PHB, TOPOLOGY_CLASS_SYS, TOPOLOGY_CLASS_SYS };
	const char *text = source->get("NCCL_P2P_LEVEL");
	uint64_t old;

	if (number(source, "NCCL_P2P_DISABLE", 0) == 1)
		return TOPOLOGY_CLASS_LOC;
	if (!text || !*text)
		return STEER_P2P_DEFAULT;
	for (int i = TOPOLOGY_CLASS_LOC; i <= (int)TOPOLOGY_CLASS_SYS; i++)
		if (!strcmp(text, topology_class_word((enum topology_class)i)))
			return i;
	if (parse_u64(text, 0, UINT64_MAX, &old))
		return STEER_P2P_DEFAULT;
	return (int)old_levels[old < 5 ? old : 5];
}

uint32_t steer_settings_slurm_tasks(const char *text, uint32_t node)
{
	const char *item;
	uint64_t left = node;
	size_t bytes;

	while (parse_list_next(&text, ',', &item, &bytes)) {
		char part[32], *times;
		uint64_t tasks, repeat = 1;

		if (bytes >= sizeof(part))
			return 0;
		memcpy(part, item, bytes);
		part[bytes] = '\0';
		times = strstr(part, "(x");
		if (times) {
			char *end = strchr(times, ')');

			if (!end || end[1])
				return 0;
			*end = '\0';
			if (parse_u64(times + 2, 1, JOB_PROCESSES_MAX, &repeat))
				return 0;
			*times = '\0';
		}
		if (parse_u64(part, 1, JOB_PROCESSES_MAX, &tasks))
			return 0;
		if (left < repeat)
			return (uint32_t)tasks;
		left -= repeat;
	}
	return 0;
}

static bool slurm_local_size(const struct params_source *source, const char *name, uint32_t *ret)
{
	const char *text = source->get(name);
	uint32_t node = 0, tasks;

	if (!text || !small_number(source, "SLURM_NODEID", &node))
		return false;
	tasks = steer_settings_slurm_tasks(text, node);
	if (!tasks)
		return false;
	*ret = tasks;
	return true;
}

/* DeepSpeed's. Other programs use the name, too, so its companions must fit. */
static bool local_size(const struct params_source *source, const char *name, uint32_t *ret)
{
	uint32_t size = 0, rank = 0, world = 0;

	if (!small_number(source, name, &size) || !small_number(source, "LOCAL_RANK", &rank) ||
	    !small_number(source, "WORLD_SIZE", &world) || rank >= size || size > world)
		return false;
	*ret = size;
	return true;
}

/* Innermost first: torchrun under mpirun under Slurm says what torchrun started. */
static const struct family {
	const char *local_size, *local_rank, *world_size;
	bool (*read)(const struct params_source *source, const char *name, uint32_t *ret);
} families[] = {
	{ "LOCAL_WORLD_SIZE", "LOCAL_RANK", "WORLD_SIZE", small_number },
	{ "LOCAL_SIZE", "LOCAL_RANK", "WORLD_SIZE", local_size },
	{ "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", small_number },
	{ "MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE", small_number },
	{ "HOROVOD_LOCAL_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE", small_number },
	{ "PALS_LOCAL_SIZE", "PALS_LOCAL_RANKID", "PMI_SIZE", small_number },
	{ "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "PMI_SIZE", small_number },
	{ "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", slurm_local_size },
};

static uint64_t hash_values(const struct params_source *source, uint64_t hash, const char *const *names)
{
	for (; *names; names++) {
		const char *value = source->get(*names);

		/* With its NUL: "a","" is not "","a". What is not there counts as empty. */
		hash = hash_bytes(hash, value ? value : "", value ? strlen(value) + 1 : 1);
	}
	return hash;
}

/* All that tells one job from another; and then what tells the processes of one agent from those of another. */
static void job_keys(const struct params_source *source, struct steer_job *job)
{
	/* Two jobs of one user on one host never have the same values of these. */
	static const char *const names_job[] = {
		"TORCHELASTIC_RUN_ID",     "MASTER_PORT", "SLURM_JOB_ID", "PMIX_NAMESPACE",
		"OMPI_MCA_ess_base_jobid", "PALS_APID",   "PMI_KVSNAME",  NULL
	};
	static const char *const of_job[] = {
		"TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "WORLD_SIZE", "SLURM_STEP_ID", "OMPI_COMM_WORLD_SIZE", NULL
	};
	static const char *const of_agent[] = { "GROUP_RANK", "SLURM_NODEID", NULL };
	const uint64_t named = hash_values(source, HASH_START, names_job);

	job->whole_key = hash_values(source, named, of_job);
	job->key = STEER_JOB_UNNAMED;
	for (const char *const *name = names_job; *name; name++)
		if (source->get(*name))
			job->key = hash_values(source, job->whole_key, of_agent);
}

static uint64_t users_hash(const struct params_source *source)
{
	static const char *const names[] = { "NCCL_CROSS_NIC",   "NCCL_P2P_LEVEL",         "NCCL_P2P_DISABLE",
					     "NCCL_SHM_DISABLE", "NCCL_NET_DISABLE_INTRA", NULL };

	return hash_values(source, HASH_START, names);
}

static void job_read(const struct params_source *source, unsigned local_processes, struct steer_job *job)
{
	*job = (struct steer_job){ .local_rank = STEER_RANK_UNKNOWN };
	job_keys(source, job);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		const struct family *family = &families[i];
		uint32_t size = 0, rank = 0;

		if (!family->read(source, family->local_size, &size) || !size)
			continue;
		job->local_size = size;
		if (small_number(source, family->local_rank, &rank) && rank < size)
			job->local_rank = rank;
		(void)small_number(source, family->world_size, &job->world_size);
		break;
	}
	if (local_processes && local_processes != job->local_size) {
		job->local_size = local_processes;
		job->local_rank = STEER_RANK_UNKNOWN; /* it counted others */
	}
}

/* As NCCL: a file that it cannot open is none, and nothing is said of it. */
static bool reads_default_topology(const struct params_source *source, const char *root)
{
	char path[PATH_MAX];

	return !source->get(STEER_TOPOLOGY_VARIABLE) &&
	       snprintf(path, sizeof(path), "%s" STEER_DEFAULT_TOPOLOGY, root) < (int)sizeof(path) &&
	       access(path, R_OK) == 0;
}

void steer_settings_read(const struct params_source *source, const char *root, unsigned local_processes,
			 struct steer_settings *ret)
{
	const char *topology = source->get(STEER_TOPOLOGY_VARIABLE), *mark = source->get(STEER_MARK_VARIABLE);

	*ret = (struct steer_settings){
		.users_topology = topology && (!mark || strcmp(topology, mark) != 0),
		.default_topology = reads_default_topology(source, root),
		.users_graph = source->get(STEER_GRAPH_VARIABLE) != NULL,
		.no_shm = may_be_on(source, "NCCL_SHM_DISABLE"),
		.no_net_inside_host = number(source, "NCCL_NET_DISABLE_INTRA", 0) == 1,
		.shares_gpus = may_be_on(source, "NCCL_MULTI_RANK_GPU_ENABLE"),
		/* nccl: at 2, the default, pairs of its rings change places on every other host, so none leaves its rail. */
		.crossnic = number(source, "NCCL_CROSS_NIC", 2) == 1,
		.wants_collnet = number(source, STEER_COLLNET_VARIABLE, 0) == 1,
		.other_tuner = has_other_tuner(source),
		.p2p_level = p2p_level(source),
		.host = host_of(source),
		.hash = users_hash(source),
	};
	job_read(source, local_processes, &ret->job);
}
