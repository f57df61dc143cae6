/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's part of an AllReduce of floats, ring or tree, or of its halves in a ring, stepped like NCCL's proxy and kernel in turn: each round gives
 * every connection one post and one test and then moves at most one slice of each stage.
 *
 * One thread. All ranks make the same calls in the same order. Errors: 0 or -errno.
 */
#ifndef TRIBUTARY_PERF_COLLECTIVE_H
#define TRIBUTARY_PERF_COLLECTIVE_H

#include <stddef.h>

#include "clock.h"
#include "pipe.h"
#include "schedule.h"

struct oob;

enum { COLLECTIVE_MAX_CHANNELS = 8 };
enum collective_algo { COLLECTIVE_RING, COLLECTIVE_TREE };

struct ring {
	struct pipe in, out;
	struct slice *slices;
	size_t count, at, receive_count;
	uint32_t *receive_bytes;
	uint64_t start;
};

struct tree {
	struct tree_place place;
	struct pipe up_out, down_in, up_in[2], down_out[2];
	struct slice *slices;
	size_t count, up_at, down_at;
	uint32_t *slice_bytes;
	uint64_t up_start[2], down_start;
};

struct collective {
	enum collective_algo algo;
	int rank, size, channels; /* rings; the trees are two channels by nature */
	struct ring rings[COLLECTIVE_MAX_CHANNELS];
	struct tree trees[2];
	const float *input; /* of the run in progress */
	float *output;
};

/* channels: 1 to COLLECTIVE_MAX_CHANNELS, each a ring of its own with its share of the data. endpoint NULL: plain TCP. The collective may be half-built on failure: close it anyway. */
int collective_open(struct collective *collective, struct oob *oob, enum collective_algo algo, int channels,
		    struct endpoint *endpoint);
void collective_close(struct collective *collective);
/* Messages that this rank has sent so far, and how many a byte passes one after the other at most. */
uint64_t collective_messages(const struct collective *collective);
int collective_hops(const struct collective *collective);
/*
 * count: floats of input and output of an AllReduce, of ReduceScatter's output, of AllGather's input; the trees do
 * AllReduce alone. input and output are not the same memory. Ends as NCCL's kernel does, when everything has been received
 * and what is sent lies in the proxy's slots: no kernel waits for the proxy's sends, which may go on into the next run.
 */
int collective_run(struct collective *collective, enum schedule_kind kind, const float *input, float *output,
		   size_t count, struct poller *poller);
/* After the last one of several: until all sends are through. */
int collective_settle(struct collective *collective, struct poller *poller);

#endif
