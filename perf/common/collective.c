/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "oob.h"
#include "reduce.h"
#include "tcploop.h"

/* ---- connections ---- */

static int open_rings_plugin(struct collective *c, struct oob *oob, struct endpoint *endpoint)
{
	int to[COLLECTIVE_MAX_CHANNELS], from[COLLECTIVE_MAX_CHANNELS], i, r, r2;
	void *outs[COLLECTIVE_MAX_CHANNELS] = { NULL }, *ins[COLLECTIVE_MAX_CHANNELS] = { NULL };

	for (i = 0; i < c->channels; i++) {
		to[i] = (oob->rank + 1) % oob->size;
		from[i] = (oob->rank + oob->size - 1) % oob->size;
	}
	r = endpoint_link(endpoint, oob, c->channels, to, c->channels, from, outs, ins);
	if (r < 0)
		return r;
	for (i = 0; i < c->channels; i++) {
		r2 = pipe_open(&c->rings[i].out, endpoint, outs[i], -1, true, PIPE_SLICE_BYTES);
		r = r < 0 ? r : r2;
		r2 = pipe_open(&c->rings[i].in, endpoint, ins[i], -1, false, PIPE_SLICE_BYTES);
		r = r < 0 ? r : r2;
	}
	return r;
}

static int open_ring_tcp(struct ring *ring, struct oob *oob)
{
	int rank, fd, r = 0;

	for (rank = 0; rank < oob->size && r == 0; rank++) {
		int next = (rank + 1) % oob->size;

		r = tcploop_pair(oob, next, rank, &fd);
		if (r == 0 && oob->rank == rank)
			r = pipe_open(&ring->out, NULL, NULL, fd, true, PIPE_SLICE_BYTES);
		else if (r == 0 && oob->rank == next)
			r = pipe_open(&ring->in, NULL, NULL, fd, false, PIPE_SLICE_BYTES);
	}
	return r;
}

static int open_rings_tcp(struct collective *c, struct oob *oob)
{
	int i, r = 0;

	for (i = 0; i < c->channels && r == 0; i++)
		r = open_ring_tcp(&c->rings[i], oob);
	return r;
}

/* All pipes of a rank, in the order in which both ends list them: tree by tree; and who is at the other end. */
static int list_pipes(struct collective *c, bool out, struct pipe **pipes, int *peers)
{
	int which, i, n = 0;

	for (which = 0; which < 2; which++) {
		struct tree *tree = &c->trees[which];

		if (tree->place.parent >= 0) {
			peers[n] = tree->place.parent;
			pipes[n++] = out ? &tree->up_out : &tree->down_in;
		}
		for (i = 0; i < tree->place.child_count; i++) {
			peers[n] = tree->place.children[i];
			pipes[n++] = out ? &tree->down_out[i] : &tree->up_in[i];
		}
	}
	return n;
}

static int open_trees_plugin(struct collective *c, struct oob *oob, struct endpoint *endpoint)
{
	struct pipe *outs[6], *ins[6];
	int to[6], from[6], out_count = list_pipes(c, true, outs, to), in_count = list_pipes(c, false, ins, from), i, r,
			    r2;
	void *sends[ENDPOINT_MAX_LINKS] = { NULL }, *receives[ENDPOINT_MAX_LINKS] = { NULL };

	r = endpoint_link(endpoint, oob, out_count, to, in_count, from, sends, receives);
	if (r < 0)
		return r;
	for (i = 0; i < out_count; i++) {
		r2 = pipe_open(outs[i], endpoint, sends[i], -1, true, PIPE_SLICE_BYTES);
		r = r < 0 ? r : r2;
	}
	for (i = 0; i < in_count; i++) {
		r2 = pipe_open(ins[i], endpoint, receives[i], -1, false, PIPE_SLICE_BYTES);
		r = r < 0 ? r : r2;
	}
	return r;
}

static int child_index(const struct tree_place *place, int child)
{
	return place->child_count > 1 && place->children[1] == child ? 1 : 0;
}

static int open_edge_tcp(struct collective *c, struct oob *oob, int which, int child, int parent, bool up)
{
	struct tree *tree = &c->trees[which];
	int fd, r = tcploop_pair(oob, parent, child, &fd);

	if (r < 0)
		return r;
	if (oob->rank == child)
		return pipe_open(up ? &tree->up_out : &tree->down_in, NULL, NULL, fd, up, PIPE_SLICE_BYTES);
	if (oob->rank == parent) {
		int i = child_index(&tree->place, child);

		return pipe_open(up ? &tree->up_in[i] : &tree->down_out[i], NULL, NULL, fd, !up, PIPE_SLICE_BYTES);
	}
	return 0;
}

static int open_trees_tcp(struct collective *c, struct oob *oob)
{
	struct tree_place place;
	int which, rank, r = 0;

	for (which = 0; which < 2; which++) {
		for (rank = 0; rank < oob->size && r == 0; rank++) {
			schedule_tree(which, rank, oob->size, &place);
			if (place.parent < 0)
				continue;
			r = open_edge_tcp(c, oob, which, rank, place.parent, true);
			if (r == 0)
				r = open_edge_tcp(c, oob, which, rank, place.parent, false);
		}
	}
	return r;
}

int collective_open(struct collective *c, struct oob *oob, enum collective_algo algo, int channels,
		    struct endpoint *endpoint)
{
	int which;

	*c = (struct collective){ .algo = algo, .rank = oob->rank, .size = oob->size, .channels = channels };
	if (oob->size < 2)
		return 0;
	if (algo == COLLECTIVE_RING)
		return endpoint ? open_rings_plugin(c, oob, endpoint) : open_rings_tcp(c, oob);
	for (which = 0; which < 2; which++)
		schedule_tree(which, oob->rank, oob->size, &c->trees[which].place);
	return endpoint ? open_trees_plugin(c, oob, endpoint) : open_trees_tcp(c, oob);
}

void collective_close(struct collective *c)
{
	int which, i;

	for (i = 0; i < c->channels; i++) {
		pipe_close(&c->rings[i].out);
		pipe_close(&c->rings[i].in);
	}
	for (which = 0; which < 2; which++) {
		struct tree *tree = &c->trees[which];

		pipe_close(&tree->up_out);
		pipe_close(&tree->down_in);
		for (i = 0; i < 2; i++) {
			pipe_close(&tree->up_in[i]);
			pipe_close(&tree->down_out[i]);
		}
	}
}

uint64_t collective_messages(const struct collective *c)
{
	uint64_t messages = 0;
	int which, i;

	for (i = 0; i < c->channels; i++)
		messages += c->rings[i].out.posted;
	for (which = 0; which < 2; which++) {
		messages += c->trees[which].up_out.posted;
		for (i = 0; i < 2; i++)
			messages += c->trees[which].down_out[i].posted;
	}
	return messages;
}

/* One rank alone makes no tree. */
static bool is_ring(const struct collective *c)
{
	return c->algo == COLLECTIVE_RING || c->size < 2;
}

int collective_hops(const struct collective *c)
{
	struct tree_place place;
	int which, rank, at, depth, deepest = 0;

	if (is_ring(c))
		return 2 * (c->size - 1);
	for (which = 0; which < 2; which++) {
		for (rank = 0; rank < c->size; rank++) {
			for (at = rank, depth = -1; at >= 0; at = place.parent, depth++)
				schedule_tree(which, at, c->size, &place);
			deepest = depth > deepest ? depth : deepest;
		}
	}
	return 2 * deepest;
}

/* ---- ring ---- */

static int ring_prepare(struct ring *ring, const struct schedule_ring *share)
{
	size_t i;
	int r = schedule_ring(share, &ring->slices, &ring->count);

	if (r < 0)
		return r;
	ring->receive_bytes = malloc((ring->count + 1) * sizeof(*ring->receive_bytes));
	if (!ring->receive_bytes)
		return -ENOMEM;
	ring->at = ring->receive_count = 0;
	for (i = 0; i < ring->count; i++)
		if (ring->slices[i].receive)
			ring->receive_bytes[ring->receive_count++] = ring->slices[i].bytes;
	ring->start = ring->in.kernel;
	return 0;
}

/* What NCCL's kernel does with one slice. True when it could. */
static bool ring_kernel(struct collective *c, struct ring *ring)
{
	const struct slice *slice;
	const float *mine;
	float *out, *room = NULL;
	char *front = NULL;

	if (ring->at == ring->count)
		return false;
	slice = &ring->slices[ring->at];
	if (slice->receive)
		front = pipe_front(&ring->in);
	if (slice->send)
		room = (float *)(void *)pipe_room(&ring->out);
	mine = c->input + slice->in / sizeof(float);
	out = slice->keep ? c->output + slice->out / sizeof(float) : room;
	if ((slice->receive && !front) || (slice->send && !room) || !out)
		return false;
	if (slice->add)
		reduce_add(out, mine, (const float *)(const void *)front, slice->bytes / sizeof(float));
	else
		memcpy(out, front ? (const void *)front : (const void *)mine, slice->bytes);
	if (slice->keep && slice->send)
		memcpy(room, out, slice->bytes);
	if (slice->receive)
		pipe_pop(&ring->in);
	if (slice->send)
		pipe_push(&ring->out, slice->bytes);
	ring->at++;
	return true;
}

static int ring_step(struct collective *c, struct ring *ring)
{
	int in, out;

	if (c->size < 2)
		return ring_kernel(c, ring);
	in = pipe_step_in(&ring->in, ring->receive_bytes, ring->receive_count, ring->start);
	out = pipe_step_out(&ring->out);
	if (in < 0 || out < 0)
		return in < 0 ? in : out;
	return in | out | ring_kernel(c, ring);
}

static int rings_step(struct collective *c)
{
	int i, r, moved = 0;

	for (i = 0; i < c->channels; i++) {
		r = ring_step(c, &c->rings[i]);
		if (r < 0)
			return r;
		moved |= r;
	}
	return moved;
}

static bool rings_done(const struct collective *c)
{
	int i;

	for (i = 0; i < c->channels; i++)
		if (c->rings[i].at != c->rings[i].count)
			return false;
	return true;
}

static bool rings_settled(const struct collective *c)
{
	int i;

	for (i = 0; i < c->channels; i++)
		if (c->rings[i].out.finished != c->rings[i].out.kernel)
			return false;
	return true;
}

static int rings_prepare(struct collective *c, enum schedule_kind kind, size_t bytes)
{
	size_t part = (bytes / (size_t)c->channels + 63) & ~(size_t)63, at = 0;
	int i, r = 0;

	for (i = 0; i < c->channels && r == 0; i++) {
		struct schedule_ring share = {
			kind, c->rank, c->size, at, i + 1 == c->channels || part > bytes - at ? bytes - at : part, bytes
		};

		r = ring_prepare(&c->rings[i], &share);
		at += share.bytes;
	}
	return r;
}

/* ---- trees ---- */

static int tree_prepare(struct tree *tree, size_t offset, size_t bytes)
{
	size_t i;
	int r = schedule_part(offset, bytes, &tree->slices, &tree->count);

	if (r < 0)
		return r;
	tree->slice_bytes = malloc((tree->count + 1) * sizeof(*tree->slice_bytes));
	if (!tree->slice_bytes)
		return -ENOMEM;
	for (i = 0; i < tree->count; i++)
		tree->slice_bytes[i] = tree->slices[i].bytes;
	tree->up_at = tree->down_at = 0;
	for (i = 0; i < 2; i++)
		tree->up_start[i] = tree->up_in[i].kernel;
	tree->down_start = tree->down_in.kernel;
	return 0;
}

/* Adds what came from the children to what is here: into the parent's slot, or at the root into the result. */
static bool tree_up(struct collective *c, struct tree *tree)
{
	const struct slice *slice;
	bool root = tree->place.parent < 0;
	const float *mine;
	float *to;
	int i;

	if (tree->up_at == tree->count)
		return false;
	slice = &tree->slices[tree->up_at];
	for (i = 0; i < tree->place.child_count; i++)
		if (!pipe_front(&tree->up_in[i]))
			return false;
	to = root ? c->output + slice->out / sizeof(float) : (float *)(void *)pipe_room(&tree->up_out);
	if (!to)
		return false;
	mine = c->input + slice->in / sizeof(float);
	if (tree->place.child_count == 0)
		memcpy(to, mine, slice->bytes);
	for (i = 0; i < tree->place.child_count; i++) {
		reduce_add(to, i == 0 ? mine : to, (const float *)(const void *)pipe_front(&tree->up_in[i]),
			   slice->bytes / sizeof(float));
		pipe_pop(&tree->up_in[i]);
	}
	if (!root)
		pipe_push(&tree->up_out, slice->bytes);
	tree->up_at++;
	return true;
}

/* Keeps what came from the parent and hands it to the children. */
static bool tree_down(struct collective *c, struct tree *tree)
{
	const struct slice *slice;
	bool root = tree->place.parent < 0;
	float *result;
	int i;

	if (tree->down_at == tree->count || (root && tree->down_at == tree->up_at))
		return false;
	slice = &tree->slices[tree->down_at];
	if (!root && !pipe_front(&tree->down_in))
		return false;
	for (i = 0; i < tree->place.child_count; i++)
		if (!pipe_room(&tree->down_out[i]))
			return false;
	result = c->output + slice->out / sizeof(float);
	if (!root) {
		memcpy(result, pipe_front(&tree->down_in), slice->bytes);
		pipe_pop(&tree->down_in);
	}
	for (i = 0; i < tree->place.child_count; i++) {
		memcpy(pipe_room(&tree->down_out[i]), result, slice->bytes);
		pipe_push(&tree->down_out[i], slice->bytes);
	}
	tree->down_at++;
	return true;
}

static int tree_pipes(struct tree *tree)
{
	int i, r, moved = 0;

	for (i = 0; i < tree->place.child_count; i++) {
		r = pipe_step_in(&tree->up_in[i], tree->slice_bytes, tree->count, tree->up_start[i]);
		if (r < 0)
			return r;
		moved |= r;
		r = pipe_step_out(&tree->down_out[i]);
		if (r < 0)
			return r;
		moved |= r;
	}
	if (tree->place.parent < 0)
		return moved;
	r = pipe_step_in(&tree->down_in, tree->slice_bytes, tree->count, tree->down_start);
	if (r < 0)
		return r;
	moved |= r;
	r = pipe_step_out(&tree->up_out);
	return r < 0 ? r : moved | r;
}

static int trees_step(struct collective *c)
{
	int which, r, moved = 0;

	for (which = 0; which < 2; which++) {
		r = tree_pipes(&c->trees[which]);
		if (r < 0)
			return r;
		moved |= r | tree_up(c, &c->trees[which]) | tree_down(c, &c->trees[which]);
	}
	return moved;
}

static bool tree_done(const struct tree *tree)
{
	return tree->down_at == tree->count && tree->up_at == tree->count;
}

static bool tree_settled(const struct tree *tree)
{
	int i;

	for (i = 0; i < tree->place.child_count; i++)
		if (tree->down_out[i].finished != tree->down_out[i].kernel)
			return false;
	return tree->up_out.finished == tree->up_out.kernel;
}

/* ---- a run ---- */

static int prepare(struct collective *c, enum schedule_kind kind, size_t count)
{
	size_t half = count / 2 * sizeof(float), bytes = count * sizeof(float);
	int r;

	if (is_ring(c))
		return rings_prepare(c, kind, bytes);
	r = tree_prepare(&c->trees[0], 0, half);
	return r < 0 ? r : tree_prepare(&c->trees[1], half, bytes - half);
}

static void forget(struct collective *c)
{
	int which, i;

	for (i = 0; i < c->channels; i++) {
		free(c->rings[i].slices);
		free(c->rings[i].receive_bytes);
		c->rings[i].slices = NULL;
		c->rings[i].receive_bytes = NULL;
	}
	for (which = 0; which < 2; which++) {
		free(c->trees[which].slices);
		free(c->trees[which].slice_bytes);
		c->trees[which].slices = NULL;
		c->trees[which].slice_bytes = NULL;
	}
}

static bool done(const struct collective *c)
{
	if (is_ring(c))
		return rings_done(c);
	return tree_done(&c->trees[0]) && tree_done(&c->trees[1]);
}

static bool settled(const struct collective *c)
{
	if (is_ring(c))
		return rings_settled(c);
	return tree_settled(&c->trees[0]) && tree_settled(&c->trees[1]);
}

static int step_until(struct collective *c, bool (*is_so)(const struct collective *c), struct poller *poller)
{
	int r = 0;

	while (r >= 0 && !is_so(c)) {
		r = is_ring(c) ? rings_step(c) : trees_step(c);
		if (r > 0)
			poller_moved(poller);
		else if (r == 0 && !poller_idle(poller))
			r = -ETIMEDOUT;
	}
	return r < 0 ? r : 0;
}

int collective_run(struct collective *c, enum schedule_kind kind, const float *input, float *output, size_t count,
		   struct poller *poller)
{
	int r = prepare(c, kind, count);

	c->input = input;
	c->output = output;
	if (r >= 0)
		r = step_until(c, done, poller);
	forget(c);
	return r < 0 ? r : 0;
}

int collective_settle(struct collective *c, struct poller *poller)
{
	return step_until(c, settled, poller);
}
