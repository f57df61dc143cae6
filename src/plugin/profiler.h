/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiler half without NCCL's versions: what each profiler_v*.c in versions/ converts to. It counts this process's
 * operations, and times a sample of them where TRIBUTARY_PROFILER=time asks for that; profile/operations.h says what comes
 * of it and where it lies. NCCL asks it only where the user has no profiler of their own.
 *
 * Counting asks NCCL for its events of operations alone, which come on the thread that enqueues them. Times need KernelCh
 * events, for which NCCL adds an operation of its proxy thread to each channel of each operation and, in a CUDA graph, a
 * host function. So:
 *
 *   - They are asked for during PLUGIN_PROFILER_WINDOW_NS of each PLUGIN_PROFILER_PERIOD_NS, for the first time
 *     PLUGIN_PROFILER_FIRST_NS after the first communicator, as graphs are mostly captured before. NCCL reads the mask
 *     of events again for each operation; whichever operation comes at or after a change's time makes it, so there is
 *     no thread.
 *     A window in which nothing was sampled goes on for as long again: connecting took it all.
 *   - The first operation that is captured ends it for good. NCCL reads the mask before it says that an operation is
 *     captured: where a capture begins within a window, its first operation has a host function, and no other. And
 *     NCCL counts operations on the GPU, where replays count, and on the host, where they do not: from then on it would
 *     take the times of one operation for those of another.
 *   - NCCL before 2.28 does not tell what is captured: there are no times.
 *
 * Where a tuning table is named, it also counts NCCL's calls for the tuner (calls.h), whatever TRIBUTARY_PROFILER says.
 *
 * Threads: any, all at once. Events take no lock and no memory. errno is kept.
 */
#ifndef TRIBUTARY_PLUGIN_PROFILER_H
#define TRIBUTARY_PLUGIN_PROFILER_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define PLUGIN_PROFILER_FIRST_NS  (10 * NS_PER_S)
#define PLUGIN_PROFILER_WINDOW_NS NS_PER_S
#define PLUGIN_PROFILER_PERIOD_NS (60 * NS_PER_S)

struct plugin_profiler; /* of one communicator */

/* What NCCL says of a communicator, and of itself in its version. */
struct plugin_profiler_comm {
	uint64_t id;
	unsigned rank_count, node_count; /* 0: it does not say */
	int rank;                        /* -1 */
	/* Bits of the mask. time_events 0: no times in this version; call_events 0: it does not tell of calls. */
	int count_events, time_events, call_events;
};
/* mask: NCCL's. *ret NULL: nothing is counted. */
void plugin_profiler_init(const struct plugin_profiler_comm *comm, int *mask, struct plugin_profiler **ret);
void plugin_profiler_fini(struct plugin_profiler *profiler);

struct plugin_profiler_operation {
	int collective;          /* enum predict_collective, OPERATIONS_SEND ... */
	int algorithm, protocol; /* -1: none, or not said */
	unsigned channels;       /* 0: not said */
	uint64_t bytes;          /* of the count that the user gave */
};
/*
 * A call of NCCL's, ahead of what it runs for it; the handle is that one's parent. broadcast_bytes: of a broadcast, which is
 * counted at once, as NCCL 2.30 tells no more of it; else NULL. profiler NULL, here and in what follows: nothing.
 */
void plugin_profiler_call(struct plugin_profiler *profiler, const uint64_t *broadcast_bytes, bool captured,
			  void **ret_handle);
/* What it runs. The handle: for its channels, NULL unless they are awaited. */
void plugin_profiler_operation(struct plugin_profiler *profiler, const struct plugin_profiler_operation *operation,
			       const void *parent, void **ret_handle);

/* One channel's kernel has begun; parent: the operation's handle or NULL. gpu_ns: by the GPU's clock. */
void plugin_profiler_channel(const void *parent, uint64_t gpu_ns, void **ret_handle);
void plugin_profiler_channel_ended(const void *handle, uint64_t gpu_ns);
/* Of any event. */
void plugin_profiler_stop(const void *handle);

/* NULL: nothing was counted yet. */
struct operations;
const struct operations *plugin_profiler_operations(void);

/* Tests only. */
void plugin_profiler_reset(void);

#endif
