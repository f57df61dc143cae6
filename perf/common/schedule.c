#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

#include "pipe.h"

enum { SLICES_A_CHUNK = 2, CHUNK_BYTES = SLICES_A_CHUNK * PIPE_SLICE_BYTES, GRAIN = 64 };

static size_t up_to(size_t value, size_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* The slices of one chunk in one step, at most SLICES_A_CHUNK; empty ones are left out, alike at both ends. */
static size_t add_slices(struct slice *to, size_t offset, size_t chunk, size_t end, const struct slice *flags)
{
	size_t slice = up_to((chunk + SLICES_A_CHUNK - 1) / SLICES_A_CHUNK, GRAIN), i, count = 0;

	for (i = 0; i < SLICES_A_CHUNK; i++) {
		size_t from = offset + i * slice, until = from + slice;

		if (until > offset + chunk)
			until = offset + chunk;
		if (until > end)
			until = end;
		if (from >= until)
			break;
		to[count] = *flags;
		to[count].offset = from;
		to[count].bytes = (uint32_t)(until - from);
		count++;
	}
	return count;
}

int schedule_ring(int rank, int size, size_t offset, size_t bytes, struct slice **ret_slices, size_t *ret_count)
{
	size_t ranks = (size_t)size, loop_bytes = ranks * CHUNK_BYTES;
	size_t loops = (bytes + loop_bytes - 1) / loop_bytes, count = 0, at, j;
	struct slice *slices = malloc((loops * (2 * ranks - 1) * SLICES_A_CHUNK + 1) * sizeof(*slices));

	if (!slices)
		return -ENOMEM;
	for (at = 0; at < bytes; at += loop_bytes) {
		size_t left = bytes - at;
		size_t chunk = left >= loop_bytes ? CHUNK_BYTES : up_to((left + ranks - 1) / ranks, GRAIN);

		for (j = 0; j <= 2 * ranks - 2; j++) {
			struct slice flags = { .receive = j > 0,
					       .add = j > 0 && j < ranks,
					       .keep = j >= ranks - 1,
					       .send = j < 2 * ranks - 2 };
			size_t which = ((size_t)rank + 2 * ranks - j) % ranks;

			count += add_slices(slices + count, offset + at + which * chunk, chunk, offset + bytes, &flags);
		}
	}
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

		slices[count++] = (struct slice){
			.offset = offset + at, .bytes = (uint32_t)(left < PIPE_SLICE_BYTES ? left : PIPE_SLICE_BYTES)
		};
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
