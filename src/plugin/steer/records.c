/* What lies in the registry's files, and what follows from it. Pure. */
#include "plugin/steer/registry.h"

#include "base/crc.h"

#include <errno.h>
#include <string.h>

/* "tribstr" and "tribsde" with the layout. */
#define PROCESS_MAGIC  (0x7472696273747200ULL | STEER_LAYOUT)
#define DECISION_MAGIC (0x7472696273646500ULL | STEER_LAYOUT)

const char *steer_reason_text(enum steer_reason reason)
{
	static const char shrink[] =
		"it was made by ncclCommShrink, whose communicators cannot be told apart; those of "
		"ncclCommSplit can";
	static const char *const texts[STEER_REASON_COUNT] = {
		[STEER_ELIGIBLE] = "",
		[STEER_REASON_NO_GPU] = "the GPU of a rank is not known, or not in the profile (tributary measure)",
		[STEER_REASON_MIG] = "a rank has a slice of a GPU in MIG mode: nvidia-smi -mig 0 gives whole GPUs",
		[STEER_REASON_NO_SHM] = "NCCL_SHM_DISABLE is set: unset it",
		[STEER_REASON_NO_ROOM] =
			"shared memory is full: make room there (docker run --shm-size), or set TRIBUTARY_SHARED_DIR",
		[STEER_REASON_GRAPH_FILE] = "NCCL_GRAPH_FILE is set: unset it",
		[STEER_REASON_SWITCHED_OFF] = "TRIBUTARY_STEER=topology: unset it",
		[STEER_REASON_SHRINK] = shrink,
		[STEER_REASON_ID] = "another communicator with the same id was decided on before",
	};

	return (unsigned)reason < STEER_REASON_COUNT ? texts[reason]
						     : "a rank has a reason that this version does not know";
}

uint64_t steer_process_hash(const struct steer_process *process)
{
	const struct process_identity *of = &process->identity;
	const uint64_t words[] = { of->boot, of->pid_namespace, of->start_ticks, of->pid, process->instance };

	return process_hash(PROCESS_HASH_START, words, sizeof(words));
}

/* A struct may have bytes between its fields; all writers clear it first. */
static uint32_t record_checksum(const struct steer_record *record)
{
	struct steer_record copy;

	memcpy(&copy, record, sizeof(copy));
	copy.checksum = 0;
	return crc_ieee32(&copy, sizeof(copy));
}

static uint32_t process_checksum(const struct steer_process_file *file)
{
	uint32_t parts[3] = { crc_ieee32(&file->magic, sizeof(file->magic)), file->bytes,
			      crc_ieee32(&file->process, sizeof(file->process)) };

	return crc_ieee32(parts, sizeof(parts));
}

static bool ends(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

void steer_process_seal(struct steer_process_file *file)
{
	file->magic = PROCESS_MAGIC;
	file->bytes = sizeof(*file);
	file->checksum = process_checksum(file);
}

void steer_record_seal(struct steer_record *record)
{
	record->checksum = record_checksum(record);
}

int steer_process_read(const void *data, size_t bytes, struct steer_process_file *ret)
{
	if (bytes != sizeof(*ret))
		return -EINVAL;
	memcpy(ret, data, sizeof(*ret));
	if (ret->magic != PROCESS_MAGIC || ret->bytes != sizeof(*ret) || ret->checksum != process_checksum(ret))
		return -EINVAL;
	for (size_t i = 0; i < STEER_RECORDS; i++) {
		struct steer_record *record = &ret->records[i];

		if (record->used != 1 || record->checksum != record_checksum(record) ||
		    !ends(record->bus_id, sizeof(record->bus_id)))
			record->used = 0;
	}
	return 0;
}

static uint32_t decision_checksum(const struct steer_decision *decision)
{
	size_t from = offsetof(struct steer_decision, author);

	return crc_ieee32((const char *)decision + from, sizeof(*decision) - from);
}

void steer_decision_seal(struct steer_decision *decision)
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

static bool set_fits(const struct steer_decision *decision)
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
		offsetof(struct steer_decision, request.crossnic),
		offsetof(struct steer_decision, set.has[0]),
		offsetof(struct steer_decision, set.has[1]),
		offsetof(struct steer_decision, set.has[2]),
		offsetof(struct steer_decision, set.has[3]),
		offsetof(struct steer_decision, set.tree_balanced),
		offsetof(struct steer_decision, set.plans[0].exact),
		offsetof(struct steer_decision, set.plans[0].crossnic),
		offsetof(struct steer_decision, set.plans[1].exact),
		offsetof(struct steer_decision, set.plans[1].crossnic),
		offsetof(struct steer_decision, set.plans[2].exact),
		offsetof(struct steer_decision, set.plans[2].crossnic),
		offsetof(struct steer_decision, set.plans[3].exact),
		offsetof(struct steer_decision, set.plans[3].crossnic),
	};

	_Static_assert(PLAN_PATTERN_COUNT == 4, "the list has each pattern's");
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		if (((const unsigned char *)data)[at[i]] > 1)
			return false;
	return true;
}

int steer_decision_read(const void *data, size_t bytes, struct steer_decision *ret)
{
	if (bytes != sizeof(*ret) || !bools_are_bools(data))
		return -EINVAL;
	memcpy(ret, data, sizeof(*ret));
	if (ret->magic != DECISION_MAGIC || ret->bytes != sizeof(*ret) || ret->checksum != decision_checksum(ret) ||
	    !ends(ret->reason, sizeof(ret->reason)) || !ends(ret->author, sizeof(ret->author)) ||
	    ret->member_count > PLAN_GPUS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < PLAN_GPUS_MAX; i++)
		if (!ends(ret->members[i].bus_id, sizeof(ret->members[i].bus_id)))
			return -EINVAL;
	if (ret->verdict == STEER_NCCL_SEARCHES)
		return 0;
	return ret->verdict == STEER_PLAN && set_fits(ret) ? 0 : -EINVAL;
}
