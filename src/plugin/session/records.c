/* What lies in the registry's files, and what follows from it. Pure. */
#include "plugin/session/registry.h"

#include "base/crc.h"

#include <errno.h>
#include <string.h>

/* "tribses", and the version of the layouts: another one's files are not read. */
#define PROCESS_MAGIC  0x7472696273657302ULL
#define DECISION_MAGIC 0x7472696264656301ULL

const char *session_veto_text(enum session_veto veto)
{
	static const char *const texts[SESSION_VETO_COUNT] = {
		[SESSION_WILLING] = "",
		[SESSION_VETO_NO_GPU] = "a rank's GPU is not known",
		[SESSION_VETO_SLICE] = "a rank has a slice of a GPU in MIG mode",
		[SESSION_VETO_CONCURRENT] = "a process initialises several communicators at once",
		[SESSION_VETO_BOOTSTRAP] = "NCCL_OOB_NET_ENABLE is set",
		[SESSION_VETO_NO_SHM] = "NCCL_SHM_DISABLE is set",
		[SESSION_VETO_OLD_DRIVER] = "the driver is older than CUDA 11.3",
		[SESSION_VETO_NO_ROOM] = "the shared folder is full",
		[SESSION_VETO_ENDED] = "a rank has given up",
		[SESSION_VETO_EMPTIED] = "the shared folder was emptied meanwhile",
	};

	return (unsigned)veto < SESSION_VETO_COUNT ? texts[veto]
						   : "a rank has a reason that this version does not know";
}

/* A struct may have bytes between its fields; all writers clear it first. */
static uint32_t record_checksum(const struct session_record *record)
{
	struct session_record copy;

	memcpy(&copy, record, sizeof(copy));
	copy.checksum = 0;
	return crc_ieee32(&copy, sizeof(copy));
}

static uint32_t process_checksum(const struct session_process_file *file)
{
	uint32_t parts[3] = { crc_ieee32(&file->magic, sizeof(file->magic)), file->bytes,
			      crc_ieee32(&file->process, sizeof(file->process)) };

	return crc_ieee32(parts, sizeof(parts));
}

static bool ends(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

void session_process_seal(struct session_process_file *file)
{
	file->magic = PROCESS_MAGIC;
	file->bytes = sizeof(*file);
	file->checksum = process_checksum(file);
}

void session_record_seal(struct session_record *record)
{
	record->checksum = record_checksum(record);
}

int session_process_read(const void *data, size_t bytes, struct session_process_file *ret)
{
	if (bytes != sizeof(*ret))
		return -EINVAL;
	memcpy(ret, data, sizeof(*ret));
	if (ret->magic != PROCESS_MAGIC || ret->bytes != sizeof(*ret) || ret->checksum != process_checksum(ret))
		return -EINVAL;
	for (size_t i = 0; i < SESSION_RECORDS; i++) {
		struct session_record *record = &ret->records[i];

		if (record->used != 1 || record->checksum != record_checksum(record) ||
		    !ends(record->bus_id, sizeof(record->bus_id)))
			record->used = 0;
	}
	return 0;
}

static uint32_t decision_checksum(const struct session_decision *decision)
{
	size_t from = offsetof(struct session_decision, author);

	return crc_ieee32((const char *)decision + from, sizeof(*decision) - from);
}

void session_decision_seal(struct session_decision *decision)
{
	decision->magic = DECISION_MAGIC;
	decision->bytes = sizeof(*decision);
	decision->checksum = decision_checksum(decision);
}

static bool is_order(const uint8_t *order, size_t count)
{
	uint32_t seen = 0;

	for (size_t i = 0; i < count; i++) {
		if (order[i] >= count || seen & 1u << order[i])
			return false;
		seen |= 1u << order[i];
	}
	return true;
}

/* Rings, trees and chains are as many as the set says; heads as many as there are, each another GPU. */
static bool count_fits(const struct plan *plan, const struct plan_request *request, size_t channel_count)
{
	uint32_t seen = 0;

	if (plan->pattern != PLAN_DIRECT)
		return plan->channel_count == channel_count;
	if (!plan->channel_count || plan->channel_count > request->gpu_count)
		return false;
	for (size_t i = 0; i < plan->channel_count; i++) {
		uint8_t head = plan->channels[i].order[0];

		if (head >= request->gpu_count || seen >> head & 1U)
			return false;
		seen |= 1U << head;
	}
	return true;
}

static bool plan_fits(const struct plan *plan, const struct plan_request *request, size_t channel_count, size_t pattern)
{
	if ((size_t)plan->pattern != pattern || plan->gpu_count != request->gpu_count ||
	    !count_fits(plan, request, channel_count) || (unsigned)plan->intra_class >= TOPOLOGY_CLASS_COUNT ||
	    (unsigned)plan->inter_class >= TOPOLOGY_CLASS_COUNT)
		return false;
	for (size_t i = 0; i < plan->channel_count; i++) {
		const struct plan_channel *channel = &plan->channels[i];

		if (!is_order(channel->order, request->gpu_count) ||
		    (request->nic_count &&
		     (channel->nic_in >= request->nic_count || channel->nic_out >= request->nic_count)))
			return false;
	}
	return true;
}

static bool set_fits(const struct session_decision *decision)
{
	const struct plan_request *request = &decision->request;
	const struct plan_set *set = &decision->set;

	if (request->gpu_count < 1 || request->gpu_count > PLAN_GPUS_MAX || request->nic_count > PLAN_NICS_MAX ||
	    request->gpu_count != decision->member_count || (unsigned)set->where >= PLAN_WHERE_COUNT ||
	    set->channel_count < 1 || set->channel_count > PLAN_CHANNELS_MAX || !set->has[PLAN_RING] ||
	    !set->has[PLAN_TREE])
		return false;
	for (size_t i = 0; i < PLAN_PATTERN_COUNT; i++)
		if (set->has[i] && !plan_fits(&set->plans[i], request, set->channel_count, i))
			return false;
	return true;
}

/* bool fields that hold neither 0 nor 1 must not be read as bool. */
static bool bools_are_bools(const void *data)
{
	static const size_t at[] = {
		offsetof(struct session_decision, request.crossnic),
		offsetof(struct session_decision, set.has[0]),
		offsetof(struct session_decision, set.has[1]),
		offsetof(struct session_decision, set.has[2]),
		offsetof(struct session_decision, set.has[3]),
		offsetof(struct session_decision, set.tree_balanced),
		offsetof(struct session_decision, set.plans[0].exact),
		offsetof(struct session_decision, set.plans[0].crossnic),
		offsetof(struct session_decision, set.plans[1].exact),
		offsetof(struct session_decision, set.plans[1].crossnic),
		offsetof(struct session_decision, set.plans[2].exact),
		offsetof(struct session_decision, set.plans[2].crossnic),
		offsetof(struct session_decision, set.plans[3].exact),
		offsetof(struct session_decision, set.plans[3].crossnic),
	};

	_Static_assert(PLAN_PATTERN_COUNT == 4, "the list has each pattern's");
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		if (((const unsigned char *)data)[at[i]] > 1)
			return false;
	return true;
}

int session_decision_read(const void *data, size_t bytes, struct session_decision *ret)
{
	if (bytes != sizeof(*ret) || !bools_are_bools(data))
		return -EINVAL;
	memcpy(ret, data, sizeof(*ret));
	if (ret->magic != DECISION_MAGIC || ret->bytes != sizeof(*ret) || ret->checksum != decision_checksum(ret) ||
	    !ends(ret->reason, sizeof(ret->reason)))
		return -EINVAL;
	for (size_t i = 0; i < PLAN_GPUS_MAX; i++)
		if (!ends(ret->bus_ids[i], sizeof(ret->bus_ids[i])))
			return -EINVAL;
	if (ret->verdict == SESSION_REST)
		return 0;
	return ret->verdict == SESSION_PLAN && set_fits(ret) ? 0 : -EINVAL;
}

/* ------------------------------------------------------------------------------------------------------------ census */

/* All that the launcher of `of` started here: as many as it says, and each local rank once where it numbers them. */
static bool group_is_complete(const struct session_census *census, const struct session_process *of, struct diag *diag)
{
	size_t count = 0;

	if (!of->local_size) {
		diag_set(diag, 0, 0,
			 "how many processes the job has on this host is not known (TRIBUTARY_LOCAL_PROCESSES)");
		return false;
	}
	for (size_t i = 0; i < census->process_count; i++) {
		const struct session_process *process = &census->processes[i];

		if (process->job_key != of->job_key)
			continue;
		if (census->states[i] != PROCESS_ALIVE || process->local_size != of->local_size) {
			diag_set(diag, 0, 0,
				 "process %u of the job cannot be looked up or counts others than process %u",
				 process->identity.pid, of->identity.pid);
			return false;
		}
		count++;
		for (size_t k = 0; k < i; k++) {
			const struct session_process *other = &census->processes[k];

			if (other->job_key != of->job_key || process->local_rank == SESSION_RANK_UNKNOWN ||
			    other->local_rank != process->local_rank)
				continue;
			diag_set(diag, 0, 0, "processes %u and %u of the job both have local rank %u",
				 other->identity.pid, process->identity.pid, process->local_rank);
			return false;
		}
	}
	if (count == of->local_size)
		return true;
	diag_set(diag, 0, 0, "of the %u processes that the job has on this host %zu are known", of->local_size, count);
	return false;
}

bool session_census_complete(const struct session_census *census, struct diag *diag)
{
	for (size_t i = 0; i < census->member_count && i < SESSION_MEMBERS_MAX; i++)
		if (!group_is_complete(census, &census->members[i].process, diag))
			return false;
	return true;
}

bool session_census_is_whole_job(const struct session_census *census)
{
	const struct session_process *first = &census->members[0].process;

	if (!census->member_count || !first->world_size || first->world_size != first->local_size)
		return false;
	for (size_t i = 0; i < census->member_count && i < SESSION_MEMBERS_MAX; i++)
		if (census->members[i].process.job_key != first->job_key)
			return false;
	/* NCCL_HOSTID can make several hosts of one. */
	for (size_t i = 0; i < census->process_count; i++)
		if (census->processes[i].job_key == first->job_key && census->processes[i].host != first->host)
			return false;
	return true;
}
