/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this process is, so that others of the host can tell whether it is still there; and whether another one is. Reads
 * /proc. Any thread; errno is kept.
 */
#ifndef TRIBUTARY_BASE_PROCESS_H
#define TRIBUTARY_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct process_identity {
	uint64_t boot;          /* of this start of the kernel */
	uint64_t pid_namespace; /* a process id means something only within it */
	uint64_t start_ticks;   /* when the process started: process ids are used again */
	uint32_t pid;
};

/* -ENOENT: /proc is not there, or tells about another process id namespace. */
int process_identity(struct process_identity *ret);

enum process_state {
	PROCESS_ALIVE,
	PROCESS_GONE,    /* certainly */
	PROCESS_UNKNOWN, /* of another namespace, or /proc does not say */
};
enum process_state process_state(const struct process_identity *of, const struct process_identity *self);

/* Equal for processes that share kernel and network namespace, and hardly for others. */
uint64_t process_host(void);

/*
 * This process's user as the host of a rootless container has it, where several are root inside: for names that all users
 * of the host see.
 */
uint32_t process_user(void);
/* The same by the text of /proc/self/uid_map. Pure. */
uint32_t process_user_outside(const char *map, uint32_t inside);

/*
 * A field of the text of /proc/PID/stat, as proc(5) counts them, that is a number; from 3 on. -EINVAL: there is none. Pure.
 */
int process_stat_number(const char *text, unsigned field, uint64_t *ret);

/* A process of this namespace has certainly ended, if only its number is known. False also means: cannot tell. */
bool process_has_ended(uint32_t pid);

#endif
