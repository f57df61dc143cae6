/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other processes of a test. A peer is this same program, started anew with exec, because a process that has loaded the
 * plugin cannot fork another user of it. Both ends talk over a socket pair, out of band, as NCCL's bootstrap does.
 *
 * The peer dies with its parent. peer_stop() leaves no process behind, whatever state it is in.
 */
#ifndef TESTS_SUPPORT_PEER_H
#define TESTS_SUPPORT_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct peer {
	pid_t pid;   /* 0: none */
	int control; /* -1: none */
};

struct peer_role {
	const char *name;
	int (*run)(int control, const char *argument); /* its result is the exit status */
};

/*
 * Call first in main: if this process is a peer, runs its role and never returns. roles end with a NULL name. argument
 * is what the parent gave.
 */
void peer_main(int argc, char **argv, const struct peer_role *roles, unsigned watchdog_s);

int peer_start(const char *role, const char *argument, struct peer *ret);
/* Exactly `bytes`, or -errno: -ETIMEDOUT after 20 s, -EPIPE when the other side is gone. */
int peer_write(int control, const void *data, size_t bytes);
int peer_read(int control, void *data, size_t bytes);
/* True when a byte, or the end, can be read from it now. */
bool peer_readable(int control);
/* Waits for it to end: its exit status, 128 + signal, or -ETIMEDOUT. */
int peer_wait(struct peer *peer, unsigned milliseconds);
/* Kills it if it still runs and forgets it. NULL or an empty one is fine. */
void peer_stop(struct peer *peer);

/* A forked child that has copies of all descriptors, and does nothing with them; -1. */
pid_t peer_fork_idle(void);
/* Ends it. */
void peer_end_idle(pid_t child);

#endif
