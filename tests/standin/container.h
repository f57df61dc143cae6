/* SPDX-License-Identifier: Apache-2.0 */
/* What containers keep from the processes in them, one thing at a time or several. */
#ifndef TESTS_STANDIN_CONTAINER_H
#define TESTS_STANDIN_CONTAINER_H

enum container {
	CONTAINER_SHM = 1,        /* a /dev/shm of its own, 64 MiB as Docker's */
	CONTAINER_PIDS = 2,       /* process ids and a /proc of its own */
	CONTAINER_USERS = 4,      /* a user namespace of its own */
	CONTAINER_READ_ONLY = 8,  /* the root file system cannot be written */
	CONTAINER_POWERLESS = 16, /* no capability */
	CONTAINER_SHM_READ_ONLY = 32,
};

/*
 * The rest of the calling process, of one thread, is in such a container; kinds: a set of enum container. With
 * CONTAINER_PIDS this is a child's return, and the parent has ended as the child does. -errno: it cannot be had here.
 */
int container_enter(unsigned kinds);

#endif
