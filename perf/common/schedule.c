/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

#include "pipe.h"

enum { SLICES_A_CHUNK = 2, CHUNK_BYTES = SLICES_A_CHUNK * PIPE_SLICE_BYTES, GRAIN = 64 };

static size_t up_to(size_t value, size_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* The slices of one chunk in one step, at most SLICES_A_CHUNK; `bytes` of the chunk are there, alike at both ends. */
static size_t add_slices(struct slice *to, const struct slice *first, size_t chunk, size_t bytes)
{
	size_t slice = up_to((chunk + SLICES_A_CHUNK - 1) / SLICES_A_CHUNK, GRAIN), at, count = 0;

	for (at = 0; at < bytes; at += slice) {
		to[count] = *first;
		to[count].in += at;
		to[count].out += at;
		to[count].bytes = (uint32_t)(bytes - at < slice ? bytes - at : slice);
		count++;
	}
	return count;
}

/* Step j of a loop that has `left` bytes and begins at `at`. */
static size_t add_step(struct slice *to, const struct schedule_ring *ring, size_t at, size_t left, size_t j)
{
	size_t ranks = (size_t)ring->size, rank = (size_t)ring->rank;
	bool whole = ring->kind == SCHEDULE_ALLREDUCE, scatter = ring->kind == SCHEDULE_REDUCESCATTER;
	size_t last = whole ? 2 * ranks - 2 : ranks - 1, which = (rank + 2 * ranks - j - scatter) % ranks;
	struct slice first = { .receive = j > 0, .send = j < last };
	size_t chunk = CHUNK_BYTES, bytes = left < chunk ? left : chunk;

	if (whole) {
		if (left < ranks * chunk)
			chunk = up_to((left + ranks - 1) / ranks, GRAIN);
		bytes = which * chunk >= left ? 0 : left - which * chunk < chunk ? left - which * chunk : chunk;
		first.in = first.out = at + which * chunk;
	} else {
		chunk = up_to(bytes, GRAIN);
		first.in = at + (scatter ? which * ring->part_bytes : 0);
		first.out = at + (scatter ? 0 : which * ring->part_bytes);
	}
	first.add = j > 0 && (scatter || (whole && j < ranks));
	first.keep = scatter ? j == last : whole ? j >= ranks - 1 : true;
	return add_slices(to, &first, chunk, bytes);
}

int schedule_ring(const struct schedule_ring *ring, struct slice **ret_slices, size_t *ret_count)
{
	bool whole = ring->kind == SCHEDULE_ALLREDUCE;
	size_t ranks = (size_t)ring->size, steps = whole ? 2 * ranks - 1 : ranks;
	size_t loop_bytes = whole ? ranks * CHUNK_BYTES : CHUNK_BYTES, count = 0, at, j;
	size_t loops = (ring->bytes + loop_bytes - 1) / loop_bytes;
	struct slice *slices = malloc((loops * steps * SLICES_A_CHUNK + 1) * sizeof(*slices));

	if (!slices)
		return -ENOMEM;
	for (at = 0; at < ring->bytes; at += loop_bytes)
		for (j = 0; j < steps; j++)
			count += add_step(slices + count, ring, ring->offset + at, ring->bytes - at, j);
	*ret_slices = slices;
	*ret_count = count;
	return 0;
}

int schedule_part(size_t offset, size_t bytes, struct slice **ret_slices, size_t *ret_count)
{
	size_t at, count = 0;
	struct slice *slices = malloc((bytes / PIPE_SLICE_BYTES + 1) * sizeof(*slices));

	if (!slices)
		return -ENOMEM;
	for (at = 0; at < bytes; at += PIPE_SLICE_BYTES) {
		size_t left = bytes - at;

		slices[count++] =
			(struct slice){ .in = offset + at,
					.out = offset + at,
					.bytes = (uint32_t)(left < PIPE_SLICE_BYTES ? left : PIPE_SLICE_BYTES) };
	}
	*ret_slices = slices;
	*ret_count = count;
	return 0;
}

/* The number from lo to hi that is divisible by the highest power of two: the top of that interval's tree. */
static int top(int lo, int hi)
{
	int step = 1;

	while ((lo + 2 * step - 1) / (2 * step) * (2 * step) <= hi)
		step *= 2;
	return (lo + step - 1) / step * step;
}

/* In-order tree over 1 … size - 1 with 0 above it: every odd number is a leaf. */
static void place_in_order(int node, int size, struct tree_place *place)
{
	int lo = 1, hi = size - 1, at, above = 0;

	*place = (struct tree_place){ .parent = -1 };
	if (node == 0) {
		if (size > 1)
			place->children[place->child_count++] = top(lo, hi);
		return;
	}
	for (at = top(lo, hi); at != node; at = top(lo, hi)) {
		above = at;
		if (node < at)
			hi = at - 1;
		else
			lo = at + 1;
	}
	place->parent = above;
	if (lo < node)
		place->children[place->child_count++] = top(lo, node - 1);
	if (node < hi)
		place->children[place->child_count++] = top(node + 1, hi);
}

/* The second tree is the first one mirrored (an even number of ranks) or shifted by one: odd and even change places. */
static int renumber(int which, int rank, int size)
{
	if (which == 0)
		return rank;
	return size % 2 == 0 ? size - 1 - rank : (rank + size - 1) % size;
}

static int number_back(int which, int node, int size)
{
	if (which == 0)
		return node;
	return size % 2 == 0 ? size - 1 - node : (node + 1) % size;
}

void schedule_tree(int which, int rank, int size, struct tree_place *ret_place)
{
	struct tree_place place;
	int i;

	place_in_order(renumber(which, rank, size), size, &place);
	if (place.parent >= 0)
		place.parent = number_back(which, place.parent, size);
	for (i = 0; i < place.child_count; i++)
		place.children[i] = number_back(which, place.children[i], size);
	*ret_place = place;
}
