/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in the registry's files, and what follows from it. Pure. */
#include "plugin/steer/registry.h"

#include "base/crc.h"
#include "base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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

void steer_process_id(const struct steer_process *process, char id[static STEER_ID_BYTES])
{
	const struct process_identity *of = &process->identity;

	snprintf(id, STEER_ID_BYTES, "%08" PRIx32 "-%" PRIx64 "-%" PRIu32 "-%" PRIx64 "-%" PRIx64, (uint32_t)of->boot,
		 of->pid_namespace, of->pid, of->start_ticks, process->instance);
}

uint64_t steer_process_hash(const struct steer_process *process)
{
	const struct process_identity *of = &process->identity;
	const uint64_t words[] = { of->boot, of->pid_namespace, of->start_ticks, of->pid, process->instance };

	return hash_bytes(HASH_START, words, sizeof(words));
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
	return crc_ieee32(&file->process, sizeof(file->process));
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

int steer_decision_read(const void *data, size_t bytes, struct steer_decision *ret)
{
	if (bytes != sizeof(*ret))
		return -EINVAL;
	memcpy(ret, data, sizeof(*ret));
	if (ret->magic != DECISION_MAGIC || ret->bytes != sizeof(*ret) || ret->checksum != decision_checksum(ret) ||
	    !ends(ret->reason, sizeof(ret->reason)) || !ends(ret->author, sizeof(ret->author)) ||
	    ret->member_count > PLAN_GPUS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < PLAN_GPUS_MAX; i++)
		if (!ends(ret->members[i].bus_id, sizeof(ret->members[i].bus_id)))
			return -EINVAL;
	if (ret->result == STEER_NCCL_SEARCHES)
		return 0;
	return ret->result == STEER_PLAN && ret->member_count == ret->request.gpu_count &&
			       plan_set_fits(&ret->request, &ret->set)
		       ? 0
		       : -EINVAL;
}
