/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A one-way connection as NCCL's proxy and kernel share it: PIPE_SLOTS buffers of a slice each, filled at one end by the
 * "kernel" (the caller), sent by the "proxy" (pipe_step), received into the slots of the other end and consumed there.
 * At most PIPE_SLOTS messages are outstanding. Over a plugin's comm, or over a plain TCP socket as the floor.
 *
 * One thread. Errors: 0 or -errno; the plugin's are said on stderr.
 */
#ifndef TRIBUTARY_PERF_PIPE_H
#define TRIBUTARY_PERF_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "endpoint.h"

enum { PIPE_SLOTS = 4, PIPE_SLICE_BYTES = 1 << 20 };

struct pipe {
	struct endpoint *endpoint; /* NULL: plain TCP on fd */
	void *comm, *mhandle;
	int fd;
	bool out;
	size_t slice_bytes; /* at most PIPE_SLICE_BYTES */
	char *memory;       /* PIPE_SLOTS × slice_bytes */
	void *requests[PIPE_SLOTS];
	uint32_t sizes[PIPE_SLOTS];
	size_t moved;                      /* TCP: of the oldest unfinished message */
	uint64_t kernel, posted, finished; /* messages filled or consumed, given to the transport, through it */
};

/* Takes comm or fd over in every case; endpoint NULL: TCP. A failed one is closed by the caller like the others. */
int pipe_open(struct pipe *pipe, struct endpoint *endpoint, void *comm, int fd, bool out, size_t slice_bytes);
void pipe_close(struct pipe *pipe); /* zeroed or half-built is fine */

/* Out: the next slot to fill, NULL when all are in flight; then pipe_push() sends what is in it. */
char *pipe_room(struct pipe *pipe);
void pipe_push(struct pipe *pipe, size_t bytes);
/* In: the oldest message that is here, NULL for none yet; then pipe_pop() gives its slot back. */
char *pipe_front(struct pipe *pipe);
void pipe_pop(struct pipe *pipe);

/*
 * Posts and tests. In: `expected` gives the size of each message from the start of the run, `count` of them, and start is
 * what pipe->kernel was then. 1: something moved, 0: nothing, or -errno.
 */
int pipe_step_out(struct pipe *pipe);
int pipe_step_in(struct pipe *pipe, const uint32_t *expected, uint64_t count, uint64_t start);

#endif
