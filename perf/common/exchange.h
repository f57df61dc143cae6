/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's part of AlltoAll, or of sendrecv around the ring, stepped like NCCL's proxies and kernels: every other rank is a
 * sender and a receiver of its own, with slices as NCCL cuts them between hosts, and all go at once.
 *
 * One thread. All ranks make the same calls in the same order. Errors: 0 or -errno.
 */
#ifndef TRIBUTARY_PERF_EXCHANGE_H
#define TRIBUTARY_PERF_EXCHANGE_H

#include <stddef.h>

#include "clock.h"
#include "pipe.h"

struct oob;

enum { EXCHANGE_SLICE_BYTES = 128 << 10 }; /* NCCL_P2P_NET_CHUNKSIZE */

struct exchange_peer {
	int to, from;
	struct pipe out, in;
	size_t sent, received; /* slices of the run in progress */
	uint64_t start;
};

struct exchange {
	int rank, count;
	struct exchange_peer *peers; /* [i]: the (i + 1)th rank after this one, and before it */
};

/* Half-built on failure: close it anyway. */
int exchange_open(struct exchange *exchange, struct oob *oob, struct endpoint *endpoint);
void exchange_close(struct exchange *exchange); /* zeroed is fine */
/*
 * count floats for each rank, and of each; input and output in order of rank. Ends as collective_run() does: what is sent
 * lies in the slots.
 */
int exchange_all(struct exchange *exchange, const float *input, float *output, size_t count, struct poller *poller);
/* count floats to the next rank, and from the one before. */
int exchange_next(struct exchange *exchange, const float *input, float *output, size_t count, struct poller *poller);
/* Until all sends are through. */
int exchange_settle(struct exchange *exchange, struct poller *poller);

#endif
