/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's part of an AllReduce of floats through a plugin's collnet table, in the pattern in which NCCL's proxy calls it
 * for CollNetChain with one GPU a node.
 *
 * Staged (chain_run): the data is cut over the channels and, in each, in chunks; one call covers a chunk of every channel,
 * and always whole chunks, so a small operation carries stale bytes of its slot. CHAIN_SLOTS calls at most are in
 * flight, each with a send and a receive slot of its own. What the GPU's kernel does, filling the one and emptying the
 * other, the caller does here, and it is timed, as in the ring and the trees beside it. Each round fills, posts, tests
 * the oldest call and empties at most one slot.
 *
 * Whole (chain_run_whole): one call of exactly the operation's size on the user's own memory, as NCCL does it with
 * registered buffers.
 *
 * One thread. All ranks make the same calls in the same order. Errors: 0 or -errno; the plugin's are said on stderr.
 */
#ifndef TRIBUTARY_PERF_CHAIN_H
#define TRIBUTARY_PERF_CHAIN_H

#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "collnetplugin.h"
#include "endpoint.h"

struct oob;

enum { CHAIN_SLOTS = 8, CHAIN_MAX_CHANNELS = 8, CHAIN_MAX_CHUNK_BYTES = 256 << 10, CHAIN_MIN_CHUNK_BYTES = 32 << 10 };

struct chain {
	struct endpoint *endpoint;
	struct collnetplugin *plugin;
	void *comm;
	int channels;
	size_t slot_bytes;
	char *send_slots, *recv_slots; /* CHAIN_SLOTS × slot_bytes each */
	void *send_mhandle, *recv_mhandle;
	void *input_mhandle, *output_mhandle; /* of the user's memory, for whole operations */
	uint64_t calls;                       /* posted so far */
	double connect_s;
};

/* How an operation is cut; each step is one call of channels × chunk_bytes. Pure. */
struct chain_shape {
	int channels;
	size_t chunk_bytes, steps;
	size_t part_bytes; /* of the data, for each channel; the last one's may be less */
};
void chain_shape(size_t bytes, int channels, struct chain_shape *ret_shape);

/*
 * channels: 1 to CHAIN_MAX_CHANNELS. input and output: what chain_run_whole() will get, registered here. Half-built on
 * failure: close it anyway.
 */
int chain_open(struct chain *chain, struct oob *oob, struct endpoint *endpoint, int version, int channels, void *input,
	       void *output, size_t bytes);
void chain_close(struct chain *chain); /* zeroed or half-built is fine */

int chain_run(struct chain *chain, const float *input, float *output, size_t count, struct poller *poller);
/* input and output: those of chain_open(), or output twice. */
int chain_run_whole(struct chain *chain, float *input, float *output, size_t count, struct poller *poller);

#endif
