/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process has of steering, for steer.c and steer/ranks.c alone: one state for the process, and one for each of its
 * threads that has initialised a communicator.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_PROCESS_H
#define TRIBUTARY_PLUGIN_STEER_PROCESS_H

#include "plugin/steer/registry.h"
#include "plugin/steer/setup.h"
#include "plugin/steer/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* steer.h has the transitions. */
enum steer_thread_state { STEER_THREAD_IDLE, STEER_THREAD_REGISTERED, STEER_THREAD_TOPOLOGY, STEER_THREAD_DECIDED };

/* Only its own thread uses it, but for next and slot. */
struct steer_thread {
	struct steer_thread *next; /* of all */
	enum steer_thread_state state;
	struct steer_record record;
	uint64_t process; /* steer_process_hash of this one */
	int slot;         /* of the record; negative: it is not in the registry (steer_registry_drop) */
	bool is_author;   /* of the decision */
	int graph_fd;     /* -1: none */
	char graph_path[STEER_PATH_BYTES];
	const char *graph; /* the answer to NCCL_GRAPH_FILE; NULL: none */
	bool has_decision;
	bool cannot_follow; /* there may be one, which cannot be read */
	struct steer_decision decision;
};

struct steer_here {
	pthread_mutex_t lock; /* guards all that follows; what setup has made is not written again */
	atomic_bool ready;    /* setup may be read */
	struct steer_setup setup;
	struct steer_status status;
	struct steer_thread *threads;
	pthread_key_t key; /* if setup.registers */
	uint64_t serials;
	uint64_t *children; /* [child_count]: ids that those of all communicators would have; kept for good */
	size_t child_count;
	bool forgot;                   /* there was no room for one of them */
	_Atomic unsigned nccl_version; /* 0: there is no environment half */
	/* Tests replace these. */
	const struct params_source *source;
	const char *root;
};
extern struct steer_here steer_here;

/* NULL: it has initialised no communicator. */
struct steer_thread *steer_this_thread(void);
/* Makes it, under the lock. NULL: this process does not register, or no memory. */
struct steer_thread *steer_thread_make(void);
/* The record goes and, of its author, the decision. Under the lock. */
void steer_thread_withdraw(struct steer_thread *thread);
/* NCCL reads no more of what this thread was given. The decision stays for the tuner. */
void steer_thread_idle(struct steer_thread *thread);
/* Frees it: a destructor of pthread_key_create. */
void steer_thread_end(void *thread);

/* Takes the decision of the thread's communicator, or makes it; graph and decision are set. Waits as steer.h says. */
void steer_thread_decide(struct steer_thread *thread);

#endif
