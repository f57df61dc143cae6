/*
 * What the environment says of steering: NCCL's own variables, and those by which launchers tell a process of its job.
 * The one place that reads them. Read once, before anything is set. Any thread.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_ENVIRONMENT_H
#define TRIBUTARY_PLUGIN_SESSION_ENVIRONMENT_H

#include "base/params.h"
#include "tributary/topology.h"

#include <stdbool.h>
#include <stdint.h>

/* The two that NCCL reads, and the one by which a child process knows that it inherited them from a plugin. */
#define SESSION_TOPOLOGY_VARIABLE "NCCL_TOPO_FILE"
#define SESSION_GRAPH_VARIABLE    "NCCL_GRAPH_FILE"
#define SESSION_MARK_VARIABLE     "_TRIBUTARY_FILES" /* both values, with a colon between */

enum { SESSION_P2P_DEFAULT = -1, SESSION_RANK_UNKNOWN = UINT32_MAX };

enum session_file_owner {
	SESSION_FILE_NONE,
	SESSION_FILE_USERS,     /* never touched */
	SESSION_FILE_INHERITED, /* a parent process's plugin set it */
};

struct session_job {
	uint64_t whole_key;        /* the same for all processes of the job, on all hosts */
	uint64_t key;              /* the same for all processes that one launcher started on this host */
	uint32_t local_size;       /* of them; 0: not known */
	uint32_t local_rank;       /* below it, or SESSION_RANK_UNKNOWN */
	uint32_t world_size;       /* of the job on all hosts; 0: not known */
	const char *size_variable; /* that local_size came from; NULL: none */
};

struct session_environment {
	enum session_file_owner topology_file, graph_file;
	bool bootstrap_by_net; /* NCCL_OOB_NET_ENABLE: NCCL asks for properties before all ranks have come */
	bool no_shm, no_net_inside_host, dumps_topology;
	bool crossnic;      /* NCCL_CROSS_NIC=1: a ring may leave by another NIC than it came in by */
	bool wants_collnet; /* NCCL_COLLNET_ENABLE */
	bool other_tuner;   /* NCCL_TUNER_PLUGIN names another one than ours, or none */
	int p2p_level;      /* enum topology_class, or SESSION_P2P_DEFAULT */
	uint64_t host;      /* NCCL takes ranks for one host whose values are equal */
	struct session_job job;
};

/* local_processes: of the parameters; 0: ask the launcher's variables. */
void session_environment_read(const struct params_source *source, unsigned local_processes,
			      struct session_environment *ret);

/* SLURM's "4(x2),3": how many tasks the host of that number has. 0: not such a text, or no such host. */
uint32_t session_environment_slurm_tasks(const char *text, uint32_t node);

#endif
