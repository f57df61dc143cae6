/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One flow of a run of probe_cuda: copies queued ahead on its streams, and what of them is done. Inner header.
 *
 * A direct flow has one leg, from end to end. A flow through host memory has two, joined by a ring of slots in pinned
 * memory; each leg waits for the other by events on the GPUs, without the host:
 *
 *     gpuA --leg 0, stream 0--> slot 0 .. slot n-1 --leg 1, stream 1--> gpuB
 *
 * Copies go out in batches, each closed by an event: large enough that the host keeps up with them, small enough that many
 * end within the window.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_CUDA_FLOW_H
#define TRIBUTARY_MEASURE_PROBE_CUDA_FLOW_H

#include "measure/probe_cuda_device.h"

enum {
	PROBE_CUDA_UNITS = 16,  /* a buffer's pieces: the least batch, and the slots of a ring */
	PROBE_CUDA_BATCHES = 4, /* queued at once */
	PROBE_CUDA_LEGS_MAX = 2,
};

/* A flow, resolved to GPUs (index, -1: host memory) and NUMA nodes. */
struct probe_cuda_plan {
	int from_gpu, to_gpu, from_node, to_node;
	int via_node; /* -1: direct */
	int mover;    /* whose engine moves a direct flow */
	bool kernels;
};

/* -ENOTSUP: it cannot be moved by this machine's GPUs. */
int probe_cuda_plan_of(const struct probe_cuda *cuda, const struct probe_flow *flow, struct probe_cuda_plan *ret);

struct probe_cuda_leg {
	int gpu; /* who moves */
	struct gpu_cuda_stream *stream;
};

struct probe_cuda_flow {
	struct probe_cuda *cuda;
	struct probe_cuda_plan plan;
	char name[2 * TOPOLOGY_NAME_BYTES];
	unsigned char pattern;
	struct probe_cuda_buffer *source, *sink, *ring;
	struct probe_cuda_leg legs[PROBE_CUDA_LEGS_MAX];
	size_t leg_count;
	struct gpu_cuda_event *filled[PROBE_CUDA_UNITS], *emptied[PROBE_CUDA_UNITS];
	size_t slot; /* the next one */
	bool slot_used[PROBE_CUDA_UNITS];
	struct gpu_cuda_event *marks[PROBE_CUDA_BATCHES];
	uint64_t mark_bytes[PROBE_CUDA_BATCHES];
	uint64_t queued, done; /* batches ever */
	size_t at;             /* in the buffers */
	uint64_t batch_bytes;
	uint64_t last_ns; /* of the last completion that was seen */
	bool settled;     /* batches take long enough */
	/* In the window: from the first completion that was seen in it to the last. */
	bool counting;
	uint64_t first_ns, until_ns, counted_bytes, counted;
};

/*
 * On failure the flow is still to be ended. index: of the flow in its run. Errors as probe_cuda_device.h has them.
 */
int probe_cuda_flow_begin(struct probe_cuda *cuda, const struct probe_cuda_plan *plan, const struct probe_flow *flow,
			  size_t index, struct probe_cuda_flow *ret, struct diag *diag);
/* Queues batches until PROBE_CUDA_BATCHES are under way. */
int probe_cuda_flow_fill(struct probe_cuda_flow *flow, struct diag *diag);
/* Looks what is done. While `adapt`, batches that end too soon are made larger; otherwise what ends is counted. */
int probe_cuda_flow_poll(struct probe_cuda_flow *flow, bool adapt, struct diag *diag);
static inline bool probe_cuda_flow_idle(const struct probe_cuda_flow *flow)
{
	return flow->queued == flow->done;
}
/* After it is idle: what arrived is what was sent, or -EIO. */
int probe_cuda_flow_check(struct probe_cuda_flow *flow, struct diag *diag);
/* Accepts a half-begun one. Nothing of it is under way any more, or probe_cuda.lost is set. */
void probe_cuda_flow_end(struct probe_cuda_flow *flow);

/* Time of one dependent load by plan->to_gpu from the memory of plan->from_gpu. */
int probe_cuda_latency(struct probe_cuda *cuda, const struct probe_cuda_plan *plan, uint64_t *ret_ns,
		       struct diag *diag);

#endif
