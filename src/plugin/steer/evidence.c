/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/evidence.h"

#include "plugin/steer/settings.h"

#include <string.h>

static bool no(struct diag *diag, const char *reason)
{
	diag_set(diag, 0, 0, "%s", reason);
	return false;
}

bool steer_evidence_machine(const struct steer_snapshot *snapshot, const struct steer_gpus *gpus, bool shares_gpus,
			    struct diag *diag)
{
	if (shares_gpus)
		return no(diag, "NCCL_MULTI_RANK_GPU_ENABLE is set: unset it");
	if (gpus->mig)
		return no(diag, "a GPU of the machine is in MIG mode: nvidia-smi -mig 0");
	if (gpus->count && snapshot->member_count == gpus->count)
		return true;
	diag_set(diag, 0, 0, "its ranks have %zu of the %zu GPUs of the machine", snapshot->member_count, gpus->count);
	return false;
}

/* ----------------------------------------------------------------------------------------------------------- launcher */

static bool is_of_job(const struct steer_process *process, const struct steer_process *of)
{
	return process->job_key == of->job_key && process->local_size == of->local_size;
}

/* Each local rank that the launcher numbered is there; a helper that inherited the variables of one adds nothing. */
static size_t ranks_present(const struct steer_snapshot *snapshot, const struct steer_process *of)
{
	size_t count = 0;

	for (size_t i = 0; i < snapshot->process_count; i++) {
		const struct steer_process *processes = snapshot->processes;
		bool is_first = is_of_job(&processes[i], of);

		for (size_t k = 0; k < i && processes[i].local_rank != STEER_RANK_UNKNOWN; k++)
			is_first &= !is_of_job(&processes[k], of) || processes[k].local_rank != processes[i].local_rank;
		count += is_first;
	}
	return count;
}

static bool is_same_process(const struct steer_process *a, const struct steer_process *b)
{
	return steer_process_hash(a) == steer_process_hash(b);
}

/* Ranks of one communicator in two processes with one local rank: one of them does not have its own. */
static bool members_share_a_rank(const struct steer_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->member_count; i++) {
		const struct steer_process *a = &snapshot->members[i].process;

		for (size_t k = 0; k < i; k++) {
			const struct steer_process *b = &snapshot->members[k].process;

			if (a->job_key == b->job_key && a->local_rank != STEER_RANK_UNKNOWN &&
			    a->local_rank == b->local_rank && !is_same_process(a, b))
				return true;
		}
	}
	return false;
}

static size_t member_processes(const struct steer_snapshot *snapshot, uint64_t job_key)
{
	size_t count = 0;

	for (size_t i = 0; i < snapshot->member_count; i++) {
		bool is_first = snapshot->members[i].process.job_key == job_key;

		for (size_t k = 0; k < i; k++)
			is_first &= !is_same_process(&snapshot->members[i].process, &snapshot->members[k].process);
		count += is_first;
	}
	return count;
}

bool steer_evidence_launcher(const struct steer_snapshot *snapshot, struct diag *diag)
{
	if (members_share_a_rank(snapshot))
		return no(
			diag,
			"two of its processes have the same local rank: the launcher's variables belong to one of them "
			"alone");
	for (size_t i = 0; i < snapshot->member_count; i++) {
		const struct steer_process *of = &snapshot->members[i].process;
		size_t members = member_processes(snapshot, of->job_key);
		/* Without a name for the job, processes of another one of this user could be taken for its own. */
		size_t known = of->job_key == STEER_JOB_UNNAMED ? members : ranks_present(snapshot, of);

		if (!of->local_size)
			return no(diag, "how many processes the job has on this host is not known: start it with "
					"torchrun, mpirun or srun, or set TRIBUTARY_LOCAL_PROCESSES");
		if (known != of->local_size || members > of->local_size) {
			diag_set(diag, 0, 0, "of the %u processes that the job has on this host %zu are %s",
				 of->local_size, known,
				 of->job_key == STEER_JOB_UNNAMED
					 ? "ranks of it, and no variable tells the job from others: set MASTER_PORT"
					 : "known: all need NCCL_ENV_PLUGIN=tributary");
			return false;
		}
	}
	return true;
}

bool steer_is_whole_job(const struct steer_snapshot *snapshot)
{
	const struct steer_process *first = &snapshot->members[0].process;

	if (!snapshot->member_count || !first->world_size || first->world_size != first->local_size)
		return false;
	for (size_t i = 0; i < snapshot->member_count; i++)
		if (snapshot->members[i].process.job_key != first->job_key)
			return false;
	/* They have inherited the variables of one process, which counts others: workers of Ray that srun started. */
	if (member_processes(snapshot, first->job_key) > first->local_size)
		return false;
	/* NCCL_HOSTID can make several hosts of one. */
	for (size_t i = 0; i < snapshot->process_count; i++)
		if (snapshot->processes[i].job_key == first->job_key && snapshot->processes[i].host != first->host)
			return false;
	return true;
}

/* --------------------------------------------------------------------------------------------------------------- NVML */

/* Process ids of other namespaces are other numbers. */
static bool is_in_registry(const struct steer_snapshot *snapshot, uint64_t namespace, uint32_t pid)
{
	for (size_t i = 0; i < snapshot->process_count; i++)
		if (snapshot->processes[i].identity.pid == pid &&
		    snapshot->processes[i].identity.pid_namespace == namespace)
			return true;
	return false;
}

static const struct steer_member *member_on(const struct steer_snapshot *snapshot, const char *bus_id)
{
	for (size_t i = 0; i < snapshot->member_count; i++)
		if (!strcmp(snapshot->members[i].record.bus_id, bus_id))
			return &snapshot->members[i];
	return NULL;
}

static bool lists(const struct steer_compute *compute, size_t gpu, const struct process_identity *of)
{
	if (of->pid_namespace != compute->pid_namespace)
		return false;
	for (size_t i = 0; i < compute->gpus[gpu].process_count; i++)
		if (compute->gpus[gpu].pids[i] == of->pid)
			return true;
	return false;
}

bool steer_evidence_nvml(const struct steer_snapshot *snapshot, const struct steer_gpus *gpus,
			 const struct steer_compute *compute, struct diag *diag)
{
	size_t found = 0;

	if (!compute->known)
		return no(diag, compute->why);
	if (gpus->mig)
		return no(diag, "a GPU of the machine is in MIG mode: nvidia-smi -mig 0");
	if (compute->gpu_count != gpus->count) {
		diag_set(diag, 0, 0, "NVML shows %zu of the %zu GPUs of the machine: set TRIBUTARY_LOCAL_PROCESSES",
			 compute->gpu_count, gpus->count);
		return false;
	}
	for (size_t g = 0; g < compute->gpu_count; g++) {
		const struct steer_member *member = member_on(snapshot, compute->gpus[g].bus_id);

		/* Who is not seen where it certainly computes shows that NVML does not show everybody. */
		if (member && !lists(compute, g, &member->process.identity))
			return no(diag, "NVML does not list a rank on its own GPU: set TRIBUTARY_LOCAL_PROCESSES");
		found += member != NULL;
		for (size_t i = 0; i < compute->gpus[g].process_count; i++) {
			if (is_in_registry(snapshot, compute->pid_namespace, compute->gpus[g].pids[i]))
				continue;
			diag_set(diag, 0, 0,
				 "process %u computes on GPU %s, and whether it is a rank is not known: set "
				 "TRIBUTARY_LOCAL_PROCESSES",
				 compute->gpus[g].pids[i], compute->gpus[g].bus_id);
			return false;
		}
	}
	return found == snapshot->member_count || no(diag, "NVML does not know the GPU of a rank");
}
