/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the ranks of a communicator that the registry knows are all the ranks it has on this host. NCCL fails if a graph
 * file does not list exactly those, and a plan that only some of them have makes the job hang. Any one of three proofs is
 * enough; in doubt the answer is no.
 *
 *   the whole machine   the members hold every GPU that sysfs shows, and NCCL allows one rank per GPU
 *   the launcher        every process that the launchers started here is in the registry, so each rank has its record
 *   NVML                every process that computes on one of the other GPUs is in the registry
 *
 * All ranks have their records when this is asked: NCCL has exchanged the topology of all ranks of the host before.
 * The proofs are pure. The reason for a no is in *diag.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_EVIDENCE_H
#define TRIBUTARY_PLUGIN_STEER_EVIDENCE_H

#include "plugin/steer/registry.h"

struct fingerprint;

enum { STEER_COMPUTE_GPUS_MAX = 32, STEER_COMPUTE_PROCESSES_MAX = 64 };

/* The GPUs of the machine, whatever part of it a container shows to CUDA. */
struct steer_gpus {
	size_t count; /* in sysfs; 0: not known */
	bool mig;     /* one of them is divided, or nobody can tell */
};
/* root: "" for this machine. now: taken below it. */
void steer_gpus_count(const char *root, const struct fingerprint *now, struct steer_gpus *ret);

/* The processes that compute on each GPU, by NVML. */
struct steer_compute {
	bool known;             /* false: the rest says nothing */
	const char *why;        /* it is not known, a clause */
	uint64_t pid_namespace; /* of the process ids */
	size_t gpu_count;       /* of the machine; all of them are below, or known is false */
	struct {
		char bus_id[STEER_BUS_ID_BYTES];
		size_t process_count;
		uint32_t pids[STEER_COMPUTE_PROCESSES_MAX];
	} gpus[STEER_COMPUTE_GPUS_MAX];
};
/* Asks NVML, which is loaded if NCCL has not done so. */
void steer_compute_ask(struct steer_compute *ret);

bool steer_evidence_machine(const struct steer_snapshot *snapshot, const struct steer_gpus *gpus, bool shares_gpus,
			    struct diag *diag);
bool steer_evidence_launcher(const struct steer_snapshot *snapshot, struct diag *diag);
bool steer_evidence_nvml(const struct steer_snapshot *snapshot, const struct steer_gpus *gpus,
			 const struct steer_compute *compute, struct diag *diag);

/* Whether the whole job runs on this host, as NCCL counts hosts. */
bool steer_is_whole_job(const struct steer_snapshot *snapshot);

#endif
