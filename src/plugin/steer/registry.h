/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the processes of one user on one host tell each other which communicators they initialise with which GPUs: a
 * folder, tributary-UID, in shared memory. There are no shared mappings. A process writes its own files alone; what must
 * happen once is a rename or a symbolic link that fails if the name is taken, so a process that is killed at any moment
 * leaves whole facts or none.
 *
 *     p-ID          who the process is, and a record of each communicator that it is initialising. A process is alive as
 *                   long as the kernel holds its record lock (fcntl) on this file, whatever its process id means elsewhere
 *     s-ID-SLOT     space for the decision of the record in that slot, reserved so that deciding cannot fail for want of it
 *     c-COMM-HOST-LAYOUT   symbolic link to the ID of the process that is planning for this communicator on this host
 *     d-COMM-HOST-LAYOUT   the decision: made by one rank, used by all. Ranks with another layout do not see it, and each
 *                   other's processes keep both from having a plan
 *     w-ID          in place of p-ID: a process that registers nothing and has only what it did here, t-ID and o-ID. Nobody takes
 *                   it for one that has told of its communicators
 *     t-ID          what became of its communicators (status.h)
 *     o-ID          what it did with them (operations.h)
 *     a-ID-SERIAL   what the heads agreed on about collnet (agreed.h)
 *
 * The folder must belong to the user, with mode 0700. All that is read is checked: another version may have written it.
 * Files of processes that are gone are removed by the next process that opens the folder.
 *
 * Threads: under the lock of steer.c, but for steer_registry_decision. Errors: -errno, the reason in *diag. errno itself is
 * kept by the calls of steer.h, not by these.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_REGISTRY_H
#define TRIBUTARY_PLUGIN_STEER_REGISTRY_H

#include "base/log.h"
#include "base/params.h"
#include "base/process.h"
#include "tributary/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STEER_LAYOUT = 5,   /* of the files; another number whenever what is in them changes */
	STEER_RECORDS = 64, /* communicators that a process initialises at the same time */
	STEER_NO_SLOT = -1, /* no errno that steer_registry_add has */
	STEER_BUS_ID_BYTES = 24,
	STEER_ID_BYTES = 80,
	STEER_REASON_BYTES = 192,
	STEER_PROCESSES_MAX = 512, /* in one registry */
	STEER_MEMBERS_MAX = 32,    /* more than a plan has: then there is none */
};

/* Why a rank's communicator gets no plan; steer_reason_text has the words. In files: only added to. */
enum steer_reason {
	STEER_ELIGIBLE,
	STEER_REASON_NO_GPU,       /* which GPU is current is not known, or the profile has not got it */
	STEER_REASON_MIG,          /* a slice of a GPU */
	STEER_REASON_NO_SHM,       /* NCCL_SHM_DISABLE */
	STEER_REASON_NO_ROOM,      /* in shared memory */
	STEER_REASON_GRAPH_FILE,   /* NCCL_GRAPH_FILE is the user's */
	STEER_REASON_SWITCHED_OFF, /* TRIBUTARY_STEER */
	STEER_REASON_SHRINK,       /* a child of ncclCommShrink */
	STEER_REASON_ID,           /* it has found a decision about other ranks under this id */
	STEER_REASON_COUNT
};
const char *steer_reason_text(enum steer_reason reason);

/* For communicators of one host, and of several. */
enum steer_tuning_kind { STEER_TUNING_ALONE, STEER_TUNING_SEVERAL, STEER_TUNING_KINDS };

/* One rank of a communicator. A record does not change, but for a reason; it is dropped when NCCL has read the channels. */
struct steer_record {
	uint64_t comm_id;
	uint64_t machine; /* hash of everything that a plan depends on: equal on all ranks, or no plan */
	uint64_t serial;  /* another one for each record of the process */
	uint64_t tuning[STEER_TUNING_KINDS]; /* the tables that it has, as a number (tuning.h); 0: none */
	uint32_t reason;                     /* enum steer_reason */
	uint32_t named;                      /* TRIBUTARY_TUNING names its table */
	uint32_t follows;                    /* its tuner does what the heads agree on (agreed.h) */
	char bus_id[STEER_BUS_ID_BYTES];
	uint32_t used;
	uint32_t checksum;
};

struct steer_process {
	struct process_identity identity;
	uint64_t instance; /* tells two copies of the library in one process apart */
	uint64_t job_key;
	uint64_t host; /* struct steer_settings */
	uint32_t local_size, local_rank, world_size;
	uint32_t overflowed; /* communicators that it initialises and that found no slot for their record */
};

/* A process's file, as it lies there. */
struct steer_process_file {
	uint64_t magic;
	uint32_t bytes;    /* of all of it */
	uint32_t checksum; /* of process */
	struct steer_process process;
	struct steer_record records[STEER_RECORDS];
};

/* A rank as a decision names it: this record, and no later one with the same id and GPU. */
struct steer_member_name {
	uint64_t process; /* steer_process_hash */
	uint64_t serial;
	char bus_id[STEER_BUS_ID_BYTES];
};

enum steer_result { STEER_NCCL_SEARCHES, STEER_PLAN };

/* A decision's file, as it lies there. */
struct steer_decision {
	uint64_t magic;
	uint32_t bytes, checksum;    /* the checksum is of everything behind it */
	char author[STEER_ID_BYTES]; /* of the process's file */
	uint64_t comm_id, machine;
	uint32_t result;                     /* enum steer_result */
	uint32_t shaped;                     /* 1: all ranks get steer_machine.shaped_text; also without a plan */
	uint64_t tuning[STEER_TUNING_KINDS]; /* of the records of all members, if equal; else 0 */
	uint32_t named;                      /* 1: of any of them */
	uint32_t member_count;
	struct steer_member_name members[PLAN_GPUS_MAX]; /* of a plan: in the order of request.gpus */
	char reason[STEER_REASON_BYTES];                 /* why there is no plan, a clause */
	struct plan_request request;
	struct plan_set set;
};

uint64_t steer_process_hash(const struct steer_process *process);
/* ID of the files' names. */
void steer_process_id(const struct steer_process *process, char id[static STEER_ID_BYTES]);

/* Checksums, before they are written. */
void steer_process_seal(struct steer_process_file *file);
void steer_record_seal(struct steer_record *record);
void steer_decision_seal(struct steer_decision *decision);
/* -EINVAL: not a whole one. records[].used is 0 for those that are not whole. */
int steer_process_read(const void *data, size_t bytes, struct steer_process_file *ret);
int steer_decision_read(const void *data, size_t bytes, struct steer_decision *ret);

struct steer_registry {
	char kind; /* of the process's file: 'p' or 'w' */
	int directory, process_fd;
	char id[STEER_ID_BYTES];
	uint64_t host; /* the process's */
	const char *shared_folder;
	char path[PARAMS_STRING_BYTES + 32]; /* of the folder in it */
	struct steer_process_file *own;      /* what is in the file */
};

/* Also removes what dead processes left. process: identity and instance are filled in. shared_folder: kept. */
int steer_registry_open(const char *shared_folder, const struct steer_process *process, struct steer_registry *ret,
			struct diag *diag);
/* As w-ID. */
int steer_registry_open_apart(const char *shared_folder, const struct steer_process *process,
			      struct steer_registry *ret, struct diag *diag);
/* One that was never opened must have all descriptors at -1. This process's files go, and the folder if it is empty. */
void steer_registry_close(struct steer_registry *registry);
/* Of a process with such a file, by the ID in a name. */
bool steer_registry_is_alive(const struct steer_registry *registry, const char *id);
/* Makes the process's file again if somebody has removed it. */
int steer_registry_restore(struct steer_registry *registry, struct diag *diag);

/*
 * The record's slot. -ENOSPC: all slots are used, or shared memory is full: then no communicator of this user on this host
 * gets a plan until the error is dropped. -ESHUTDOWN: the process is ending.
 */
int steer_registry_add(struct steer_registry *registry, const struct steer_record *record);
/* slot: as returned by steer_registry_add, an error too; or STEER_NO_SLOT. */
void steer_registry_drop(struct steer_registry *registry, int slot);

/* The record has that reason from now on. */
int steer_registry_refuse(struct steer_registry *registry, int slot, enum steer_reason reason);

struct steer_member {
	struct steer_process process;
	struct steer_record record;
};
/* The processes of this user on this host, and the ranks of one communicator, at one moment. */
struct steer_snapshot {
	struct steer_process processes[STEER_PROCESSES_MAX]; /* alive */
	size_t process_count;
	struct steer_member members[STEER_MEMBERS_MAX]; /* of live processes, sorted by GPU */
	size_t member_count;                            /* may be above STEER_MEMBERS_MAX: not all are there */
	size_t dead_member_count;
	size_t foreign_count; /* live processes whose file is of another version of the plugin */
};
/* Whether an ID is of this process, in whichever of its copies of the library. */
bool steer_registry_is_own(const struct steer_registry *registry, const char *id);
/* fd: of the file of another process. False: that is gone. */
bool steer_registry_file_is_locked(int fd);
int steer_registry_scan(struct steer_registry *registry, uint64_t comm_id, struct steer_snapshot *ret,
			struct diag *diag);

/* 0: this process plans, until steer_registry_unclaim. -EEXIST: another one, which is alive, does. */
int steer_registry_claim(struct steer_registry *registry, uint64_t comm_id);
void steer_registry_unclaim(struct steer_registry *registry, uint64_t comm_id);

/* -ENOENT: nothing is decided yet. Any thread, without a lock. */
int steer_registry_decision(const struct steer_registry *registry, uint64_t comm_id, struct steer_decision *ret,
			    struct diag *diag);
/*
 * Makes *decision (sealed here) the decision, with the space of this process's record in `slot`; or replaces *decision by
 * what another rank decided first. *ret_is_author says which.
 */
int steer_registry_decide(struct steer_registry *registry, int slot, struct steer_decision *decision,
			  bool *ret_is_author, struct diag *diag);
/* By its author, once all ranks have read it. */
void steer_registry_forget(struct steer_registry *registry, uint64_t comm_id);

#endif
