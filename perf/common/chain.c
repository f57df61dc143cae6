/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "oob.h"

/* ---- shape ---- */

/*
 * What NCCL 2.28.9 and 2.30.7 do for CollNetChain with one GPU a node, two channels and buffers of 4 MiB, seen at 33 sizes
 * from 8 bytes to 64 MiB (tests/conformance/chain_test.c): a channel for every 32 KiB, and chunks halved from 256 KiB on while a channel has fewer than 64,
 * then 8, then 5 of them.
 */
void chain_shape(size_t bytes, int channels, struct chain_shape *ret_shape)
{
	static const struct {
		size_t enough, least_bytes;
	} rules[] = { { 64, 128 << 10 }, { 8, 64 << 10 }, { 5, CHAIN_MIN_CHUNK_BYTES } };
	struct chain_shape shape = { .chunk_bytes = CHAIN_MAX_CHUNK_BYTES, .channels = channels };
	size_t i, part;

	while (shape.channels > 1 && bytes < (size_t)shape.channels * CHAIN_MIN_CHUNK_BYTES)
		shape.channels--;
	for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		while (bytes / ((size_t)shape.channels * shape.chunk_bytes) < rules[i].enough &&
		       shape.chunk_bytes > rules[i].least_bytes)
			shape.chunk_bytes /= 2;
	part = (bytes + (size_t)shape.channels - 1) / (size_t)shape.channels;
	shape.part_bytes = (part + 63) & ~(size_t)63;
	shape.steps = (shape.part_bytes + shape.chunk_bytes - 1) / shape.chunk_bytes;
	*ret_shape = shape;
}

/* ---- set-up ---- */

static int failed(const struct chain *chain, const char *call, int result)
{
	fprintf(stderr, "%s (collnet v%d): %s failed with result %d\n", collnetplugin_name(chain->plugin),
		collnetplugin_version(chain->plugin), call, result);
	return -EIO;
}

static int join(struct chain *chain, struct oob *oob)
{
	uint8_t mine[NCCL_HANDLE_BYTES] = { 0 }, *all = calloc((size_t)oob->size, sizeof(mine));
	void **handles = calloc((size_t)oob->size, sizeof(*handles)), *listener = NULL;
	uint64_t start_ns;
	int i, r = NCCL_SUCCESS;

	if (!all || !handles) {
		r = -ENOMEM;
		goto out;
	}
	r = collnetplugin_listen(chain->plugin, chain->endpoint->device, mine, &listener);
	if (r != NCCL_SUCCESS) {
		r = failed(chain, "listen", r);
		goto out;
	}
	r = oob_allgather(oob, mine, sizeof(mine), all);
	if (r < 0)
		goto out;
	for (i = 0; i < oob->size; i++)
		handles[i] = all + (size_t)i * sizeof(mine);
	start_ns = perf_now_ns();
	r = collnetplugin_connect(chain->plugin, handles, oob->size, oob->rank, listener, &chain->comm);
	chain->connect_s = (double)(perf_now_ns() - start_ns) * 1e-9;
	if (r != NCCL_SUCCESS) {
		r = failed(chain, "connect", r); /* the plugin has freed the listener, as NCCL never would */
		goto out;
	}
	r = collnetplugin_close_listen(chain->plugin, listener);
	if (r != NCCL_SUCCESS)
		r = failed(chain, "closeListen", r);
	else if (!chain->comm)
		r = failed(chain, "connect without a comm: no collnet here", r);
out:
	free(all);
	free(handles);
	return r;
}

static int enlist(struct chain *chain, void *data, size_t bytes, void **ret_mhandle)
{
	int r = collnetplugin_reg(chain->plugin, chain->comm, data, bytes, NCCL_POINTER_HOST, ret_mhandle);

	return r == NCCL_SUCCESS ? 0 : failed(chain, "regMr", r);
}

static char *slots_new(size_t bytes)
{
	char *slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (slots == MAP_FAILED)
		return NULL;
	memset(slots, 0xff, bytes); /* NaN: what a small operation carries beside its own bytes */
	return slots;
}

int chain_open(struct chain *chain, struct oob *oob, struct endpoint *endpoint, int version, int channels, void *input,
	       void *output, size_t bytes)
{
	size_t slots_bytes = (size_t)channels * CHAIN_MAX_CHUNK_BYTES * CHAIN_SLOTS;
	int supported = 0, count = 0, r;

	*chain = (struct chain){ .endpoint = endpoint, .channels = channels, .slot_bytes = slots_bytes / CHAIN_SLOTS };
	r = collnetplugin_open(endpoint->plugin, version, &chain->plugin);
	if (r < 0)
		return r;
	r = collnetplugin_init(chain->plugin, 0x636f6c6c6e6574ULL, NULL);
	if (r != NCCL_SUCCESS)
		return failed(chain, "init", r);
	r = collnetplugin_devices(chain->plugin, &count);
	if (r != NCCL_SUCCESS || endpoint->device >= count)
		return failed(chain, "devices", r);
	r = collnetplugin_supports(chain->plugin, NCCL_FLOAT32, NCCL_SUM, &supported);
	if (r != NCCL_SUCCESS || !supported)
		return failed(chain, "reduceSupport of sums of floats", r);
	r = join(chain, oob);
	if (r < 0)
		return r;
	chain->send_slots = slots_new(slots_bytes);
	chain->recv_slots = slots_new(slots_bytes);
	if (!chain->send_slots || !chain->recv_slots)
		return -ENOMEM;
	r = enlist(chain, chain->send_slots, slots_bytes, &chain->send_mhandle);
	if (r == 0)
		r = enlist(chain, chain->recv_slots, slots_bytes, &chain->recv_mhandle);
	if (r == 0)
		r = enlist(chain, input, bytes, &chain->input_mhandle);
	if (r == 0)
		r = enlist(chain, output, bytes, &chain->output_mhandle);
	return r;
}

void chain_close(struct chain *chain)
{
	void *mhandles[] = { chain->send_mhandle, chain->recv_mhandle, chain->input_mhandle, chain->output_mhandle };
	size_t i;

	for (i = 0; i < sizeof(mhandles) / sizeof(mhandles[0]); i++)
		if (mhandles[i])
			collnetplugin_dereg(chain->plugin, chain->comm, mhandles[i]);
	if (chain->comm)
		collnetplugin_close_comm(chain->plugin, chain->comm);
	collnetplugin_close(chain->plugin);
	if (chain->send_slots)
		munmap(chain->send_slots, chain->slot_bytes * CHAIN_SLOTS);
	if (chain->recv_slots)
		munmap(chain->recv_slots, chain->slot_bytes * CHAIN_SLOTS);
	*chain = (struct chain){ 0 };
}

/* ---- staged ---- */

struct staged {
	struct chain *chain;
	struct chain_shape shape;
	const char *input;
	char *output;
	size_t bytes;
	size_t filled, posted, finished, taken; /* steps */
	void *requests[CHAIN_SLOTS];
};

/* What step `step` of a channel has of the user's data. */
static size_t piece(const struct staged *s, size_t step, int channel, size_t *ret_bytes)
{
	size_t begin = s->shape.part_bytes * (size_t)channel, end = begin + s->shape.part_bytes;
	size_t at = begin + step * s->shape.chunk_bytes;

	if (end > s->bytes)
		end = s->bytes;
	*ret_bytes = at >= end ? 0 : end - at < s->shape.chunk_bytes ? end - at : s->shape.chunk_bytes;
	return at;
}

static char *slot(const struct staged *s, char *slots, size_t step, int channel)
{
	return slots + (step % CHAIN_SLOTS) * s->chain->slot_bytes + (size_t)channel * s->shape.chunk_bytes;
}

static int fill(struct staged *s)
{
	size_t at, bytes;
	int channel;

	if (s->filled == s->shape.steps || s->filled - s->taken == CHAIN_SLOTS)
		return 0;
	for (channel = 0; channel < s->shape.channels; channel++) {
		at = piece(s, s->filled, channel, &bytes);
		if (bytes)
			memcpy(slot(s, s->chain->send_slots, s->filled, channel), s->input + at, bytes);
	}
	s->filled++;
	return 1;
}

static int post(struct staged *s)
{
	struct chain *chain = s->chain;
	struct collnetplugin_reduction reduction = {
		.send = slot(s, chain->send_slots, s->posted, 0),
		.recv = slot(s, chain->recv_slots, s->posted, 0),
		.count = s->shape.chunk_bytes * (size_t)s->shape.channels / sizeof(float),
		.type = NCCL_FLOAT32,
		.op = NCCL_SUM,
		.send_mhandle = chain->send_mhandle,
		.recv_mhandle = chain->recv_mhandle,
	};
	void **request = &s->requests[s->posted % CHAIN_SLOTS];
	int r;

	if (s->posted == s->filled)
		return 0;
	*request = NULL;
	r = collnetplugin_reduce_all(chain->plugin, chain->comm, &reduction, request);
	if (r != NCCL_SUCCESS)
		return failed(chain, "iallreduce", r);
	if (!*request)
		return 0;
	s->posted++;
	chain->calls++;
	return 1;
}

static int look(struct staged *s)
{
	int done = 0, bytes = 0, r;

	if (s->finished == s->posted)
		return 0;
	r = collnetplugin_test(s->chain->plugin, s->requests[s->finished % CHAIN_SLOTS], &done, &bytes);
	if (r != NCCL_SUCCESS)
		return failed(s->chain, "test", r);
	s->finished += done != 0;
	return done != 0;
}

static int take(struct staged *s)
{
	size_t at, bytes;
	int channel;

	if (s->taken == s->finished)
		return 0;
	for (channel = 0; channel < s->shape.channels; channel++) {
		at = piece(s, s->taken, channel, &bytes);
		if (bytes)
			memcpy(s->output + at, slot(s, s->chain->recv_slots, s->taken, channel), bytes);
	}
	s->taken++;
	return 1;
}

int chain_run(struct chain *chain, const float *input, float *output, size_t count, struct poller *poller)
{
	struct staged s = {
		.chain = chain, .input = (const char *)input, .output = (char *)output, .bytes = count * sizeof(float)
	};
	int moved, r;

	chain_shape(s.bytes, chain->channels, &s.shape);
	s.shape.chunk_bytes = collnetplugin_chunk_bytes(chain->plugin, s.bytes, s.shape.channels, s.shape.chunk_bytes);
	s.shape.steps = (s.shape.part_bytes + s.shape.chunk_bytes - 1) / s.shape.chunk_bytes;
	while (s.taken < s.shape.steps) {
		moved = fill(&s);
		r = post(&s);
		if (r >= 0) {
			moved |= r;
			r = look(&s);
		}
		if (r < 0)
			return r;
		moved |= r | take(&s);
		if (moved)
			poller_moved(poller);
		else if (!poller_idle(poller))
			return -ETIMEDOUT;
	}
	return 0;
}

/* ---- whole ---- */

int chain_run_whole(struct chain *chain, float *input, float *output, size_t count, struct poller *poller)
{
	struct collnetplugin_reduction reduction = {
		.send = input,
		.recv = output,
		.count = count,
		.type = NCCL_FLOAT32,
		.op = NCCL_SUM,
		.send_mhandle = input == output ? chain->output_mhandle : chain->input_mhandle,
		.recv_mhandle = chain->output_mhandle,
	};
	void *request = NULL;
	int done = 0, bytes = 0, r;

	while (!request) {
		r = collnetplugin_reduce_all(chain->plugin, chain->comm, &reduction, &request);
		if (r != NCCL_SUCCESS)
			return failed(chain, "iallreduce", r);
		if (!request && !poller_idle(poller))
			return -ETIMEDOUT;
	}
	chain->calls++;
	poller_moved(poller);
	while (!done) {
		r = collnetplugin_test(chain->plugin, request, &done, &bytes);
		if (r != NCCL_SUCCESS)
			return failed(chain, "test", r);
		if (!done && !poller_idle(poller))
			return -ETIMEDOUT;
	}
	return 0;
}
