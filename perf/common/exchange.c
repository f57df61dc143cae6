/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "oob.h"

int exchange_open(struct exchange *e, struct oob *oob, struct endpoint *endpoint)
{
	int i, r = 0;

	*e = (struct exchange){ .rank = oob->rank, .count = oob->size - 1 };
	e->peers = calloc((size_t)oob->size, sizeof(*e->peers));
	if (!e->peers)
		return -ENOMEM;
	for (i = 0; i < e->count && r == 0; i++) {
		struct exchange_peer *peer = &e->peers[i];
		void *out = NULL, *in = NULL;
		int r2;

		peer->to = (oob->rank + i + 1) % oob->size;
		peer->from = (oob->rank + oob->size - i - 1) % oob->size;
		r = endpoint_link(endpoint, oob, 1, &peer->to, 1, &peer->from, &out, &in);
		if (r < 0)
			break;
		r = pipe_open(&peer->out, endpoint, out, -1, true, EXCHANGE_SLICE_BYTES);
		r2 = pipe_open(&peer->in, endpoint, in, -1, false, EXCHANGE_SLICE_BYTES);
		r = r < 0 ? r : r2;
	}
	return r;
}

void exchange_close(struct exchange *e)
{
	int i;

	for (i = 0; e->peers && i < e->count; i++) {
		pipe_close(&e->peers[i].out);
		pipe_close(&e->peers[i].in);
	}
	free(e->peers);
	*e = (struct exchange){ .count = 0 };
}

/* What all peers of a run have in common; sizes: of each slice. */
struct run {
	const char *input;
	char *output;
	size_t bytes, slices;
	uint32_t *sizes;
	bool by_rank; /* input and output have a part for every rank */
};

static const char *input_of(const struct run *run, const struct exchange_peer *peer)
{
	return run->input + (run->by_rank ? (size_t)peer->to * run->bytes : 0) + peer->sent * EXCHANGE_SLICE_BYTES;
}

static char *output_of(const struct run *run, const struct exchange_peer *peer)
{
	return run->output + (run->by_rank ? (size_t)peer->from * run->bytes : 0) +
	       peer->received * EXCHANGE_SLICE_BYTES;
}

static int step(struct exchange_peer *peer, const struct run *run)
{
	int in = pipe_step_in(&peer->in, run->sizes, run->slices, peer->start), out = pipe_step_out(&peer->out);
	char *room = peer->sent < run->slices ? pipe_room(&peer->out) : NULL;
	const char *front = peer->received < run->slices ? pipe_front(&peer->in) : NULL;

	if (in < 0 || out < 0)
		return in < 0 ? in : out;
	if (room) {
		memcpy(room, input_of(run, peer), run->sizes[peer->sent]);
		pipe_push(&peer->out, run->sizes[peer->sent]);
		peer->sent++;
	}
	if (front) {
		memcpy(output_of(run, peer), front, run->sizes[peer->received]);
		pipe_pop(&peer->in);
		peer->received++;
	}
	return in | out | (room || front);
}

static bool is_done(const struct exchange *e, int count, const struct run *run)
{
	int i;

	for (i = 0; i < count; i++)
		if (e->peers[i].sent < run->slices || e->peers[i].received < run->slices)
			return false;
	return true;
}

/* The first `count` peers. */
static int run_peers(struct exchange *e, int count, struct run *run, struct poller *poller)
{
	int i, r = 0, moved;
	size_t k;

	run->slices = (run->bytes + EXCHANGE_SLICE_BYTES - 1) / EXCHANGE_SLICE_BYTES;
	run->sizes = malloc((run->slices + 1) * sizeof(*run->sizes));
	if (!run->sizes)
		return -ENOMEM;
	for (k = 0; k < run->slices; k++)
		run->sizes[k] = (uint32_t)(run->bytes - k * EXCHANGE_SLICE_BYTES < EXCHANGE_SLICE_BYTES
						   ? run->bytes - k * EXCHANGE_SLICE_BYTES
						   : EXCHANGE_SLICE_BYTES);
	for (i = 0; i < count; i++) {
		e->peers[i].sent = e->peers[i].received = 0;
		e->peers[i].start = e->peers[i].in.kernel;
	}
	while (r >= 0 && !is_done(e, count, run)) {
		for (i = 0, moved = 0; i < count && r >= 0; i++) {
			r = step(&e->peers[i], run);
			moved |= r > 0;
		}
		if (moved)
			poller_moved(poller);
		else if (r >= 0 && !poller_idle(poller))
			r = -ETIMEDOUT;
	}
	free(run->sizes);
	return r < 0 ? r : 0;
}

int exchange_all(struct exchange *e, const float *input, float *output, size_t count, struct poller *poller)
{
	struct run run = {
		.input = (const char *)input, .output = (char *)output, .bytes = count * sizeof(float), .by_rank = true
	};

	memcpy(run.output + (size_t)e->rank * run.bytes, run.input + (size_t)e->rank * run.bytes, run.bytes);
	return run_peers(e, e->count, &run, poller);
}

int exchange_next(struct exchange *e, const float *input, float *output, size_t count, struct poller *poller)
{
	struct run run = { .input = (const char *)input, .output = (char *)output, .bytes = count * sizeof(float) };

	return run_peers(e, e->count < 1 ? 0 : 1, &run, poller);
}

int exchange_settle(struct exchange *e, struct poller *poller)
{
	int i, r, moved;
	bool is_through;

	do {
		for (i = 0, moved = 0, is_through = true; i < e->count; i++) {
			struct pipe *out = &e->peers[i].out;

			if (out->finished == out->kernel)
				continue;
			is_through = false;
			r = pipe_step_out(out);
			if (r < 0)
				return r;
			moved |= r;
		}
		if (moved)
			poller_moved(poller);
		else if (!is_through && !poller_idle(poller))
			return -ETIMEDOUT;
	} while (!is_through);
	return 0;
}
