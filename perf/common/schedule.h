/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each rank does in a collective, as lists of slices. Pure; any thread.
 *
 * AllReduce in a ring, as NCCL runs it: the data goes in loops of `size` chunks of 2 MiB (less in the last loop), and a
 * chunk in slices of at most 1 MiB. In step j of a loop rank r handles chunk r - j:
 *   step 0: send what is here; 1 to N-2: receive, add, send on; N-1: the sum is complete here, keep it and send it on;
 *   N to 2N-3: receive, keep, send on; 2N-2: receive and keep.
 * ReduceScatter is the first N steps, one chunk later, so that rank r ends with the sum of part r; AllGather the last N,
 * the first of which sends the rank's own part.
 *
 * Trees: two binary trees, each with half of the data; a leaf of one is an inner node of the other (unless there is
 * only one rank). Slices go up to the root, added on the way, and come down again.
 */
#ifndef TRIBUTARY_PERF_SCHEDULE_H
#define TRIBUTARY_PERF_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum schedule_kind { SCHEDULE_ALLREDUCE, SCHEDULE_REDUCESCATTER, SCHEDULE_ALLGATHER };

struct slice {
	size_t in, out; /* bytes, in the user's input and output */
	uint32_t bytes;
	bool receive, add, keep, send;
};

/* What one rank of a ring has to do. Offset and bytes: one channel's share of the data, or of each rank's part of it. */
struct schedule_ring {
	enum schedule_kind kind;
	int rank, size;
	size_t offset, bytes;
	size_t part_bytes; /* a rank's part, all channels; not of AllReduce */
};

/* *ret_slices is malloc'ed, the caller's. 0 or -ENOMEM. */
int schedule_ring(const struct schedule_ring *ring, struct slice **ret_slices, size_t *ret_count);
/* The slices of one tree's part, in order; add, keep and the rest are left false. */
int schedule_part(size_t offset, size_t bytes, struct slice **ret_slices, size_t *ret_count);

struct tree_place {
	int parent; /* -1: root */
	int children[2], child_count;
};
/* which: 0 or 1. */
void schedule_tree(int which, int rank, int size, struct tree_place *ret_place);

#endif
