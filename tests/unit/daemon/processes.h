/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of processes on the loopback interface: the built tributaryd, and members that reduce without end, operations of
 * 5 KB to 1.6 MB, 16 at a time, a word of 4 bytes between every two. Each compares every result with the first of its kind,
 * and processes_end with those of a group without aggregators. What happens to the processes meanwhile is the test's matter.
 *
 * One thread. All of it ends with the process.
 */
#ifndef TESTS_UNIT_DAEMON_PROCESSES_H
#define TESTS_UNIT_DAEMON_PROCESSES_H

#include "support/peer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROCESSES_MEMBERS_MOST = 5, PROCESSES_DAEMONS_MOST = 4, PROCESSES_TIMEOUT_S = 60 };
/* How a member ends. */
enum {
	PROCESSES_ALL_DONE = 10,
	PROCESSES_SAW_ERROR = 11,
	PROCESSES_WRONG = 12,
	PROCESSES_BROKEN = 13,
	PROCESSES_NO_GROUP = 14
};

struct processes_daemon {
	pid_t pid; /* 0: does not run */
	uint16_t port;
	int err;
};
extern struct processes_daemon processes_daemons[PROCESSES_DAEMONS_MOST];
/* TRIBUTARY_TIMEOUT of those that are started from now on. */
extern unsigned processes_daemon_timeout_s;

struct processes_scene {
	size_t members, daemons, leaves; /* as the test wants it; leaves: 1 or 2 */
	struct peer peers[PROCESSES_MEMBERS_MOST];
	size_t aggregators; /* that the group uses */
	uint64_t seed;
};

/* The role "member" of peer_main. */
int processes_member(int control, const char *argument);
/* Set-up and tear-down of all tests. */
int processes_make(void **state);
int processes_remove(void **state);
/* Skips the test where tributaryd is not built. */
void processes_skip_without_program(void);

/* So many that run; whatever stopped before is started again. */
void processes_daemons_ready(size_t count);
void processes_daemon_kill(struct processes_daemon *daemon);
/* Segments that it has been through so far, as it says itself. */
uint64_t processes_daemon_segments(const struct processes_daemon *daemon);

/* What a group of that kind makes without aggregators is what all others must make. */
void processes_expect(size_t members, size_t leaves);
/* The members, and their group. */
void processes_open(struct processes_scene *scene, double timeout_s);
/* All operations to the end, everywhere, and compared. 0, how the first one ended that did not, or -ETIMEDOUT. */
int processes_end(struct processes_scene *scene);
void processes_drop(struct processes_scene *scene);

#endif
