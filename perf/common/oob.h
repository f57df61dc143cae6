/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a benchmark among themselves: a star of TCP connections around rank 0, found by RANK, WORLD_SIZE,
 * MASTER_ADDR and MASTER_PORT as torchrun and the test-bed set them. Blocking, with a time-out; used outside of what is
 * timed, except for the one byte that starts a round of incast.
 *
 * One thread. Errors: 0 or -errno (-ETIMEDOUT, -ECONNRESET when a rank is gone); said once on stderr by oob_open only.
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

/* Every rank calls it. Defaults: rank 0 of 1. */
int oob_open(double timeout_s, struct oob **ret_oob);
/*
 * Forks count - 1 children, which come back from here too: all are ranks over loopback. Call it before any thread or
 * plugin. Rank 0 stays in the calling process; oob_close() waits for the children there and gives the first
 * exit status that is not 0.
 */
int oob_spawn(int count, double timeout_s, struct oob **ret_oob);
int oob_close(struct oob *oob);

/* all: size × bytes, in order of rank; the same on every rank. */
int oob_allgather(struct oob *oob, const void *mine, size_t bytes, void *all);
int oob_broadcast(struct oob *oob, void *data, size_t bytes); /* from rank 0 */
int oob_barrier(struct oob *oob);
/* Moves bytes between rank 0 and another one; peer is 0 for all but rank 0. */
int oob_send(struct oob *oob, int peer, const void *data, size_t bytes);
int oob_receive(struct oob *oob, int peer, void *data, size_t bytes);

#endif
