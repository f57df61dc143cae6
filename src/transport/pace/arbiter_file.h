/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's file: its layout, and how it is found, checked, mapped, locked and removed. Init and close only; any
 * thread. Nothing but arbiter.c includes this.
 *
 * The file's lock (flock) is held while a process joins or leaves, so that the last one to leave can remove the file
 * while nobody is about to join it. An unlinked file that was opened just before is seen by its link count.
 */
#ifndef TRIBUTARY_TRANSPORT_PACE_ARBITER_FILE_H
#define TRIBUTARY_TRANSPORT_PACE_ARBITER_FILE_H

#include "base/process.h"
#include "transport/pace/arbiter.h"

#include <stdatomic.h>

enum { PACE_ARBITER_NAME_BYTES = 128, PACE_ARBITER_SLOT_BYTES = 128, PACE_ARBITER_TURNS = 64 };

/* A free slot has owner 0. All fields but the owner's word are written by the owner alone, or by who frees the slot. */
struct pace_arbiter_slot {
	_Alignas(PACE_ARBITER_SLOT_BYTES) _Atomic uint64_t owner; /* a random number of the owner's */
	_Atomic uint64_t outstanding_bytes;
	_Atomic uint64_t delivered_bytes; /* never reset, also not by the next owner: others take differences */
	_Atomic uint64_t beat;
	_Atomic uint64_t pid_namespace, start_ticks; /* start time of the process, against reuse of its pid */
	_Atomic uint32_t pid;                        /* 0: not known yet; written last */
	_Atomic uint32_t wants_more;
	_Atomic uint32_t senders; /* that have messages coming to the owner */
	_Atomic uint64_t source;  /* the one host that the owner hears of; PACE_ARBITER_SEVERAL, or 0: none yet */
};

/* Of the processes that send to a host one at a time has the turn (pace_arbiter_turn_take). */
struct pace_arbiter_turn {
	_Atomic uint64_t host;  /* 0: free; once set it stays */
	_Atomic uint64_t lease; /* until when, in ms of the monotonic clock, and in the low 24 bits the owner; 0: free */
};

struct pace_arbiter_shared {
	_Atomic uint64_t magic;
	_Atomic uint32_t generation; /* changes when a slot is taken or freed */
	_Atomic uint32_t high;       /* slots that were ever used: the others need no look */
	struct pace_arbiter_slot slots[PACE_ARBITER_SLOTS];
	struct pace_arbiter_turn turns[PACE_ARBITER_TURNS];
};
_Static_assert(sizeof(struct pace_arbiter_slot) == PACE_ARBITER_SLOT_BYTES, "a slot has its own cache lines");
_Static_assert(sizeof(struct pace_arbiter_shared) ==
		       PACE_ARBITER_SLOT_BYTES * (PACE_ARBITER_SLOTS + 1) + PACE_ARBITER_TURNS * 16,
	       "layout");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics work between processes");

struct pace_arbiter_file {
	int directory_fd, fd; /* -1: none. fd stays open for the lock; the mapping does not need it */
	struct pace_arbiter_shared *shared;
	char name[PACE_ARBITER_NAME_BYTES];
};

/* Opens or creates; returns with the lock held. */
int pace_arbiter_file_open(struct pace_arbiter_file *file, const char *directory, const char *device_name,
			   struct diag *diag);
/* Removes what crashed processes of this user left behind for other devices and namespaces. */
void pace_arbiter_file_sweep(const struct pace_arbiter_file *file, const struct process_identity *self);
int pace_arbiter_file_lock(const struct pace_arbiter_file *file);
void pace_arbiter_file_unlock(const struct pace_arbiter_file *file);
/* With the lock held and no slot taken. */
void pace_arbiter_file_remove(const struct pace_arbiter_file *file);
/* Unmaps and closes. A file that was never opened must have both descriptors at -1. */
void pace_arbiter_file_close(struct pace_arbiter_file *file);

/* True when the owner's process is certainly gone. False also means: cannot tell. */
bool pace_arbiter_slot_is_dead(const struct pace_arbiter_slot *slot, const struct process_identity *self);
/* True when every slot is free or its owner certainly gone. */
bool pace_arbiter_is_deserted(const struct pace_arbiter_shared *shared, const struct process_identity *self);

#endif
