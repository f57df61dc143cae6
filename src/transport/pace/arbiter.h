/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares one device's budget among the processes of a host, through a small file of atomics in /dev/shm: one file for
 * a user, a network namespace and a device name; readable by its owner only. A process has a slot in it, where it says
 * what it has outstanding and whether it wants more. Nobody is asked and nobody waits: each process computes its part
 * from what the others say. While all live processes follow this, the sum of what is outstanding is at most the budget,
 * plus one quantum for each process that would have nothing otherwise.
 *
 * Who is alive. A slot is a lease: its owner changes `beat` whenever it uses it and at every tick. Others ignore a slot
 * that has been quiet for PACE_ARBITER_STALE_NS and free it after PACE_ARBITER_LEASE_NS, by their own clocks and their
 * own ticks. Where the owner's process can be looked up (same PID namespace) a crashed one is freed at the next tick.
 * Locks of the kernel would not do: flock and open-file-description locks live on in forked children (data loaders),
 * classic record locks vanish as soon as anything in the process closes the file, and robust mutexes belong to a thread.
 * A process that was stopped for longer than its lease finds that out at its next tick and takes a new slot.
 *
 * One thread at a time (struct pace holds its mutex), but for turns. Nothing here blocks, but for up to a second in open and close, when
 * another process of the same user holds the file's lock: so neither is called with a transport's lock held.
 */
#ifndef TRIBUTARY_TRANSPORT_PACE_ARBITER_H
#define TRIBUTARY_TRANSPORT_PACE_ARBITER_H

#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PACE_ARBITER_SLOTS = 128 };
#define PACE_ARBITER_STALE_NS 3000000000ULL
#define PACE_ARBITER_LEASE_NS 10000000000ULL
#define PACE_ARBITER_SEVERAL  UINT64_MAX

struct pace_arbiter;

/*
 * directory: "/dev/shm". Fails with a reason in *diag: -EPERM (the file is another user's, or others may read or write
 * it), -EPROTO (not such a file), -EUSERS (all slots are taken), -EBUSY (its lock is held), or what the system said.
 */
int pace_arbiter_open(const char *directory, const char *device_name, struct pace_arbiter **ret, struct diag *diag);
/* Gives the slot back, and removes the file if it was the last one. NULL is fine. */
void pace_arbiter_close(struct pace_arbiter *arbiter);

/*
 * How many bytes this process may grant on top of its outstanding_bytes, at most wanted_bytes. They are taken at once:
 * call pace_arbiter_publish with the truth after granting.
 */
uint64_t pace_arbiter_reserve(struct pace_arbiter *arbiter, uint64_t outstanding_bytes, uint64_t wanted_bytes,
			      uint64_t budget_bytes, uint64_t quantum_bytes);
/*
 * Cheap: stores to memory that the others seldom read. wants_more: flows wait for more than they got. senders: that
 * have messages coming to this process. source: the only host whose messages came lately, PACE_ARBITER_SEVERAL, or 0: none came.
 */
void pace_arbiter_publish(struct pace_arbiter *arbiter, uint64_t outstanding_bytes, bool wants_more, unsigned senders,
			  uint64_t source);
/* What the other processes say: their senders; those of processes that hear of others than `source`, and whether any does. */
struct pace_arbiter_others {
	unsigned senders, senders_elsewhere;
	bool hear_elsewhere;
};
struct pace_arbiter_others pace_arbiter_look(struct pace_arbiter *arbiter, uint64_t source);
/* Adds to what this process has received; the sum over all processes, for the host's rate. */
void pace_arbiter_count_delivered(struct pace_arbiter *arbiter, uint64_t bytes);
uint64_t pace_arbiter_delivered(const struct pace_arbiter *arbiter);
/*
 * The turn to try something on the way to that host, which would disturb what another process tries: true if this process has
 * it now, for PACE_ARBITER_TURN_NS. The owner keeps it by asking again. Another one gets it when it has ended, by the clock or
 * by pace_arbiter_turn_leave; after rested_ns more if it has looked at nothing for so long itself, as the owner may have
 * rested, too. Without an arbiter (NULL), and beyond 64 hosts, each process has its turn. No lock, no system call; any thread.
 */
#define PACE_ARBITER_TURN_NS 100000000ULL
bool pace_arbiter_turn_take(struct pace_arbiter *arbiter, uint64_t host, uint64_t rested_ns, uint64_t now_ns);
void pace_arbiter_turn_leave(struct pace_arbiter *arbiter, uint64_t host);
/* Keeps the own slot, frees those of processes that are gone. */
void pace_arbiter_tick(struct pace_arbiter *arbiter, uint64_t now_ns);
/* Processes that hold a slot and are not stale, this one among them. */
unsigned pace_arbiter_processes(const struct pace_arbiter *arbiter);

#endif
