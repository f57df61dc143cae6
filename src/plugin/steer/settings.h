/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's variables that matter to plans, and from the launcher's variables which job this is, its size and this rank's
 * place in it (a new launcher: the tables in settings.c, and that of clusterprobe/launcher.c). Variables of the network
 * alone are read in nets.c. Read once, at the process's first communicator. Any thread.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_SETTINGS_H
#define TRIBUTARY_PLUGIN_STEER_SETTINGS_H

#include "base/params.h"
#include "tributary/topology.h"

#include <stdbool.h>
#include <stdint.h>

#define STEER_COLLNET_VARIABLE        "NCCL_COLLNET_ENABLE"
/* nccl: init.cc, from 2.30 on */
#define STEER_COLLNET_UNLIKE_VARIABLE "NCCL_IGNORE_COLLNET_MISMATCH"
/* The two that NCCL reads, and the one by which a child process knows that the first is inherited from a plugin. */
#define STEER_TOPOLOGY_VARIABLE       "NCCL_TOPO_FILE"
#define STEER_GRAPH_VARIABLE          "NCCL_GRAPH_FILE"
#define STEER_MARK_VARIABLE           "_TRIBUTARY_FILE" /* the same value */
/* NCCL reads it where NCCL_TOPO_FILE is not set. A cloud's virtual machine has it from the provider. nccl: graph/topo.cc */
#define STEER_DEFAULT_TOPOLOGY        "/var/run/nvidia-topologyd/virtualTopology.xml"

enum { STEER_P2P_DEFAULT = -1, STEER_JOB_UNNAMED = 0 };
#define STEER_RANK_UNKNOWN UINT32_MAX

struct steer_job {
	uint64_t whole_key; /* the same for all processes of the job, on all hosts */
	/*
	 * The same for all processes that one launcher started on this host, and another one for other jobs;
	 * STEER_JOB_UNNAMED: nothing tells two jobs of a user apart.
	 */
	uint64_t key;
	uint32_t local_size; /* of them; 0: not known */
	uint32_t local_rank; /* below local_size, or STEER_RANK_UNKNOWN */
	uint32_t world_size; /* of the job on all hosts; 0: not known */
};

struct steer_settings {
	bool users_topology, users_graph; /* NCCL_TOPO_FILE and NCCL_GRAPH_FILE are the user's, and never touched */
	bool default_topology;            /* NCCL reads STEER_DEFAULT_TOPOLOGY: as if the user had named it */
	bool no_shm;                      /* NCCL_SHM_DISABLE */
	bool no_net_inside_host;          /* NCCL_NET_DISABLE_INTRA */
	bool shares_gpus;                 /* NCCL_MULTI_RANK_GPU_ENABLE: several ranks may have one GPU */
	bool crossnic;                    /* NCCL_CROSS_NIC=1: a ring may leave by another NIC than it came in by */
	bool wants_collnet;               /* NCCL_COLLNET_ENABLE */
	bool other_tuner;                 /* NCCL takes another one than ours, or none */
	int p2p_level;                    /* enum topology_class, or STEER_P2P_DEFAULT */
	uint64_t host;                    /* equal for ranks that NCCL takes to be on one host; 0: not known */
	uint64_t hash;                    /* of the user's settings that must be equal on all ranks of a host */
	struct steer_job job;
};

/* root: "" for this machine. local_processes: of the parameters; 0: ask the launcher's variables. */
void steer_settings_read(const struct params_source *source, const char *root, unsigned local_processes,
			 struct steer_settings *ret);

/* Whether NCCL_NET_PLUGIN or one like it names Tributary: a name or a path, or several with commas. The folder says nothing. */
bool steer_settings_names_us(const char *plugins);

/* SLURM's "4(x2),3": how many tasks the host of that number has. 0: not such a text, or no such host. */
uint32_t steer_settings_slurm_tasks(const char *text, uint32_t node);

#endif
