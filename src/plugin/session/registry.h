/*
 * Where the processes of one user on one host meet, so that each knows which GPUs of the host a communicator has: a
 * folder, tributary-UID, in /dev/shm. No locks, no shared mappings: a process writes its own files alone, and what
 * must happen once is a rename that fails when the name is taken. Whatever happens to a process, at whatever moment,
 * the others see whole facts or none. docs/session.md describes the files.
 *
 *     p-ID          who it is, of which job, and the communicators that it has begun
 *     l-ID          empty, and locked for as long as the process is there (flock): processes of other process id
 *                   namespaces tell by it
 *     d-COMM-HOST   what was decided for a communicator on this host: by whoever came first, for all
 *     s-ID          room for this process's next decision, so that it cannot fail for want of memory
 *     g-ID          the graph file; x-ID-N, y-ID-N, a plan before it is published, and what takes it back; t-ID, the
 *                   topology file (files.h)
 *
 * The folder must belong to the user and be open to nobody else; everything read from it is checked, because an older
 * or newer plugin may have written it. What processes that have gone left behind is removed by whoever comes next.
 *
 * Threads: under the lock of session.c. Errors: -errno, the reason in *diag.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_REGISTRY_H
#define TRIBUTARY_PLUGIN_SESSION_REGISTRY_H

#include "base/log.h"
#include "base/process.h"
#include "plugin/session/environment.h"
#include "tributary/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SESSION_RECORDS = 64, /* communicators that a process has begun last */
	SESSION_BUS_ID_BYTES = 24,
	SESSION_ID_BYTES = 64,
	SESSION_REASON_BYTES = 128,
	SESSION_PROCESSES_MAX = 512, /* in one registry */
	SESSION_MEMBERS_MAX = 32,    /* more than a plan has: then there is none */
	SESSION_OTHERS_MAX = 1024,   /* ranks of other communicators that matter at a time */
};

/* Why a rank's communicator gets no plan; the words are in session_veto_text. In files: only added to. */
enum session_veto {
	SESSION_WILLING,
	SESSION_VETO_NO_GPU,     /* which GPU is current is not known, or the profile has not got it */
	SESSION_VETO_SLICE,      /* of a GPU in MIG mode */
	SESSION_VETO_CONCURRENT, /* another communicator is being initialised in the same process */
	SESSION_VETO_BOOTSTRAP,  /* NCCL_OOB_NET_ENABLE */
	SESSION_VETO_NO_SHM,     /* NCCL_SHM_DISABLE */
	SESSION_VETO_OLD_DRIVER, /* NCCL probes GPUDirect RDMA with it through the plugin */
	SESSION_VETO_NO_ROOM,    /* in the registry */
	SESSION_VETO_ENDED,      /* its initialisation was given up */
	SESSION_VETO_EMPTIED,    /* the registry was, since it began */
	SESSION_VETO_COUNT
};
const char *session_veto_text(enum session_veto veto);

/* Where a rank is with its topology phase (meeting.h). In files: only added to. */
enum session_phase {
	SESSION_AWAY,    /* before it, or past it, or at rest */
	SESSION_ARRIVED, /* waits within the plugin for the others of the host */
	SESSION_CLAIMS,  /* the same, and is about to decide a plan for all of them */
	SESSION_FOLLOWS, /* has a plan, which NCCL may not have read yet */
	SESSION_HAS_READ,
};

/* One rank of a communicator. */
struct session_record {
	uint64_t comm_id;
	uint64_t host;     /* struct session_environment */
	uint64_t machine;  /* of everything that a plan depends on: equal for all, or none */
	uint64_t begun_ns; /* on the monotonic clock, which all processes of the host share */
	uint64_t serial;   /* of the process's communicators; part of the names of its plan's files */
	uint64_t phase_ns; /* since when it is in its phase */
	uint32_t phase;    /* enum session_phase */
	uint32_t veto;     /* enum session_veto */
	uint32_t thread;
	uint32_t planned; /* how many ranks of the host its plan is for; 0: none, or not known */
	char bus_id[SESSION_BUS_ID_BYTES];
	uint32_t used;
	uint32_t checksum;
};

/* Threads of a process that were let go on at rest, and are not known to have read the graph file. */
struct session_reader_counts {
	uint32_t count;
	uint32_t stranger_count; /* of those, in no initialisation of a communicator that the plugin knows of */
	uint64_t since_ns;       /* when the last of them was let go */
};

struct session_process {
	struct process_identity identity;
	uint64_t job_key, host;
	uint32_t local_size, local_rank, world_size;
	uint32_t overflowed; /* it could not say of which communicators it is a rank */
	struct session_reader_counts readers;
};

/* A process's file, as it lies there. */
struct session_process_file {
	uint64_t magic;
	uint32_t bytes;    /* of all of it */
	uint32_t checksum; /* of magic, bytes and process */
	struct session_process process;
	struct session_record records[SESSION_RECORDS];
};

enum session_verdict { SESSION_REST, SESSION_PLAN };

/* A decision's file, as it lies there. */
struct session_decision {
	uint64_t magic;
	uint32_t bytes, checksum; /* the checksum is of everything else */
	struct process_identity author;
	uint64_t comm_id, host, machine;
	uint32_t verdict; /* enum session_verdict */
	uint32_t member_count;
	char bus_ids[PLAN_GPUS_MAX][SESSION_BUS_ID_BYTES]; /* of a plan: of request.gpus */
	char reason[SESSION_REASON_BYTES];                 /* of a rest, a clause */
	struct plan_request request;
	struct plan_set set;
};

/* Before they are written. */
void session_process_seal(struct session_process_file *file);
void session_record_seal(struct session_record *record);
void session_decision_seal(struct session_decision *decision);
/* -EINVAL: not a whole one. records[].used is 0 for those that are not whole. */
int session_process_read(const void *data, size_t bytes, struct session_process_file *ret);
int session_decision_read(const void *data, size_t bytes, struct session_decision *ret);

struct session_registry {
	int directory, process_fd, life_fd;
	struct process_identity self;
	char id[SESSION_ID_BYTES];
	char path[PARAMS_STRING_BYTES + 32]; /* of the folder */
	struct session_process_file *own;    /* what is in the file */
	bool has_spare;
};

/*
 * Also sweeps. process: identity is filled in; NULL: only the folder is wanted, and nobody is told of this process.
 */
int session_registry_open(const char *shared_folder, const struct session_process *process,
			  struct session_registry *ret, struct diag *diag);
/* False: somebody has removed this process's file. */
bool session_registry_is_there(const struct session_registry *registry);
/* Nobody is told of this process any more; the folder stays open. */
void session_registry_withdraw(struct session_registry *registry);
/* A registry that was never opened must have all descriptors at -1. The files go. */
void session_registry_close(struct session_registry *registry);

/* In one of the process's places. Cannot fail for want of room. */
int session_registry_write(struct session_registry *registry, unsigned slot, const struct session_record *record);
/* From now on no communicator of this process gets a plan. */
int session_registry_overflow(struct session_registry *registry);
int session_registry_readers(struct session_registry *registry, const struct session_reader_counts *readers);

struct session_member {
	struct session_process process;
	struct session_record record;
	enum process_state state;
};
/* A rank of another communicator that is in its topology phase. */
struct session_other {
	struct process_identity identity;
	uint64_t job_key, comm_id, serial, phase_ns;
	enum session_phase phase;
};
struct session_census {
	struct session_process processes[SESSION_PROCESSES_MAX]; /* that are there, or may be */
	enum process_state states[SESSION_PROCESSES_MAX];
	size_t process_count;
	uint64_t now_ns; /* when it was taken */
	struct session_member
		members[SESSION_MEMBERS_MAX];            /* ranks of the communicator, on this host as NCCL sees it */
	size_t member_count;                             /* may be above SESSION_MEMBERS_MAX: not all are there */
	struct session_other others[SESSION_OTHERS_MAX]; /* on this host, of processes that are there */
	size_t other_count;                              /* may be above SESSION_OTHERS_MAX */
};
/* Who is there. */
int session_registry_look(struct session_registry *registry, uint64_t comm_id, uint64_t host,
			  struct session_census *ret, struct diag *diag);

/* Makes sure that this process has room for a decision. */
int session_registry_spare(struct session_registry *registry);
/*
 * Makes *decision (sealed here) what is decided, or takes over into it what somebody else has decided before.
 * -ENOSPC: this process has no room for one, and nobody else has decided.
 */
int session_registry_decide(struct session_registry *registry, struct session_decision *decision, struct diag *diag);
/* -ENOENT: nothing is decided yet. */
int session_registry_decision(struct session_registry *registry, uint64_t comm_id, uint64_t host,
			      struct session_decision *ret, struct diag *diag);
/* Once all ranks must have read it. */
void session_registry_forget(struct session_registry *registry, uint64_t comm_id, uint64_t host);

/* What became of the plan of a process, as its files tell. */
enum session_plan_state {
	SESSION_PLAN_OVER,   /* it was taken back */
	SESSION_PLAN_UNREAD, /* it is published, or about to be, and NCCL has not read it */
	SESSION_PLAN_READ,
};
enum session_plan_state session_registry_plan_state(const struct session_registry *registry,
						    const struct process_identity *of, uint64_t serial);
/* Takes a plan of any process back, or sees to it that it is never published. Of no effect on any other. */
void session_registry_retract(const struct session_registry *registry, const struct process_identity *of,
			      uint64_t serial);
/* Whether the graph file of a process has been read since it was last watched. */
bool session_registry_was_read(const struct session_registry *registry, const struct process_identity *of);

/* Whether all processes that the launchers of these members started on this host are there. The reason in *diag. */
bool session_census_complete(const struct session_census *census, struct diag *diag);
/* Whether the whole job runs on this host, as NCCL sees it. */
bool session_census_is_whole_job(const struct session_census *census);

#endif
