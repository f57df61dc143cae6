/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a benchmark among themselves: a star of TCP connections around rank 0, found by RANK, WORLD_SIZE,
 * MASTER_ADDR and MASTER_PORT as torchrun and the test-bed set them. Blocking, with a time-out; used outside of what is
 * timed, except for the one byte that starts a round of incast.
 *
 * One thread. Errors: 0 or -errno (-ETIMEDOUT, -ECONNRESET when a rank is gone); said once on stderr by oob_run only.
 */
#ifndef TRIBUTARY_PERF_OOB_H
#define TRIBUTARY_PERF_OOB_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

struct oob {
	int rank, size;
	double timeout_s;
	int *fds;                       /* rank 0: one for each other rank; else only [0] */
	struct sockaddr_storage master; /* rank 0's address, as everybody reaches it; port included */
	socklen_t master_bytes;
};

/*
 * What main() does once it has its options: all ranks find each other (without an environment: one rank alone), call run, and
 * part. spawn above 0: forks spawn - 1 children, and all are ranks over loopback; no thread or plugin is there yet. timeout_s: of
 * what run does; ranks wait longer for each other. run returns 0, -errno, which is said, or 1: it has said what is wrong. An exit
 * status, on rank 0 also of the children.
 */
int oob_run(int spawn, double timeout_s, int (*run)(struct oob *oob, void *arg), void *arg);

/* all: size × bytes, in order of rank; the same on every rank. */
int oob_allgather(struct oob *oob, const void *mine, size_t bytes, void *all);
int oob_broadcast(struct oob *oob, void *data, size_t bytes); /* from rank 0 */
int oob_barrier(struct oob *oob);
/* Moves bytes between rank 0 and another one; peer is 0 for all but rank 0. */
int oob_send(struct oob *oob, int peer, const void *data, size_t bytes);
int oob_receive(struct oob *oob, int peer, void *data, size_t bytes);

#endif
