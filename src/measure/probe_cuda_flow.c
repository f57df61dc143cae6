/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_cuda_flow.h"

#include "base/clock.h"
#include "measure/probe_numa.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What a batch should take at least: the host queues and looks in microseconds. */
#define BATCH_NS   NS_PER_MS
/* A batch goes over the buffer at most so many times: 50 ms at 40 GB/s of a GPU's own memory bus. */
#define PASSES_MAX 64
enum { CHECKED_BYTES = 4096 };

/* ----------------------------------------------------------------------------------------------------------- resolve */

static int node_of(const struct probe_cuda *cuda, uint32_t vertex)
{
	const struct topology *topology = cuda->probe.topology;
	int node;

	if (vertex >= topology->vertex_count || topology->vertices[vertex].kind != TOPOLOGY_MEMORY)
		return -1;
	node = topology->vertices[vertex].cpu.numa;
	return probe_numa_exists(node) ? node : -1;
}

static int plan_through_host(const struct probe_cuda *cuda, const struct probe_flow *flow, struct probe_cuda_plan *plan)
{
	uint32_t via = flow->flow.via;

	if (plan->from_gpu < 0 || plan->to_gpu < 0)
		return -ENOTSUP;
	if (via == TOPOLOGY_NONE)
		via = topology_memory_of(cuda->probe.topology, flow->flow.from);
	plan->via_node = node_of(cuda, via);
	return plan->via_node < 0 ? -ENOTSUP : 0;
}

static int plan_direct(const struct probe_cuda *cuda, const struct probe_flow *flow, struct probe_cuda_plan *plan)
{
	plan->mover = plan->from_gpu >= 0 ? plan->from_gpu : plan->to_gpu;
	if (plan->from_gpu >= 0 && plan->to_gpu >= 0)
		return probe_cuda_peer_possible(cuda, plan->from_gpu, plan->to_gpu) ? 0 : -ENOTSUP;
	if (plan->to_gpu >= 0)
		plan->from_node = node_of(cuda, flow->flow.from);
	else
		plan->to_node = node_of(cuda, flow->flow.to);
	return plan->mover < 0 || (plan->from_node < 0 && plan->to_node < 0) ? -ENOTSUP : 0;
}

int probe_cuda_plan_of(const struct probe_cuda *cuda, const struct probe_flow *flow, struct probe_cuda_plan *ret)
{
	struct probe_cuda_plan plan = {
		.from_gpu = probe_cuda_gpu_of(cuda, flow->flow.from),
		.to_gpu = probe_cuda_gpu_of(cuda, flow->flow.to),
		.from_node = -1,
		.to_node = -1,
		.via_node = -1,
		.mover = -1,
		.kernels = flow->engine == PROBE_ENGINE_KERNEL,
	};
	int r = -ENOTSUP;

	if (flow->flow.from != flow->flow.to && flow->flow.way == TOPOLOGY_WAY_HOST)
		r = plan_through_host(cuda, flow, &plan);
	else if (flow->flow.from != flow->flow.to && flow->flow.way == TOPOLOGY_WAY_DIRECT)
		r = plan_direct(cuda, flow, &plan);
	if (r < 0)
		return r;
	*ret = plan;
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------- begin */

static int streams_create(struct probe_cuda_flow *flow, struct diag *diag)
{
	const struct gpu_cuda *cuda = flow->cuda->cuda;

	for (size_t i = 0; i < flow->leg_count; i++) {
		struct gpu_cuda_stream *stream;
		int r = probe_cuda_gpu_use(flow->cuda, flow->legs[i].gpu, flow->plan.kernels, diag);

		if (r < 0)
			return r;
		r = probe_cuda_result(flow->cuda, diag, flow->name, "cuStreamCreate",
				      cuda->stream_create(&stream, GPU_CUDA_STREAM_NON_BLOCKING));
		if (r < 0)
			return r;
		flow->legs[i].stream = stream;
	}
	return 0;
}

/* Of the GPU that will record them, whose context is the current one. */
static int events_create(struct probe_cuda_flow *flow, struct gpu_cuda_event **events, size_t count, struct diag *diag)
{
	for (size_t i = 0; i < count; i++) {
		struct gpu_cuda_event *event;
		int r = probe_cuda_result(flow->cuda, diag, flow->name, "cuEventCreate",
					  flow->cuda->cuda->event_create(&event, GPU_CUDA_EVENT_NO_TIMING));

		if (r < 0)
			return r;
		events[i] = event;
	}
	return 0;
}

static int all_events_create(struct probe_cuda_flow *flow, struct diag *diag)
{
	int last = flow->legs[flow->leg_count - 1].gpu, r = 0;

	if (flow->leg_count > 1) {
		r = probe_cuda_gpu_use(flow->cuda, flow->legs[0].gpu, false, diag);
		if (!r)
			r = events_create(flow, flow->filled, PROBE_CUDA_UNITS, diag);
	}
	if (!r)
		r = probe_cuda_gpu_use(flow->cuda, last, false, diag);
	if (!r && flow->leg_count > 1)
		r = events_create(flow, flow->emptied, PROBE_CUDA_UNITS, diag);
	return r < 0 ? r : events_create(flow, flow->marks, PROBE_CUDA_BATCHES, diag);
}

static size_t unit_bytes(const struct probe_cuda_flow *flow)
{
	return flow->cuda->buffer_bytes / PROBE_CUDA_UNITS;
}

/* The first unit of a buffer gets one value: it is copied in every run, and looked at afterwards. */
static int buffer_set(struct probe_cuda_flow *flow, struct probe_cuda_buffer *buffer, unsigned char value,
		      struct diag *diag)
{
	const struct gpu_cuda *cuda = flow->cuda->cuda;
	int r;

	if (buffer->memory) {
		memset(buffer->memory, value, unit_bytes(flow));
		return 0;
	}
	r = probe_cuda_gpu_use(flow->cuda, buffer->gpu, false, diag);
	if (r < 0)
		return r;
	r = probe_cuda_result(flow->cuda, diag, flow->name, "cuMemsetD8",
			      cuda->memset_d8(buffer->address, value, unit_bytes(flow)));
	/* Our streams do not wait for the default one, in which this is done. */
	return r < 0 ? r : probe_cuda_result(flow->cuda, diag, flow->name, "cuCtxSynchronize", cuda->ctx_synchronize());
}

static int buffers_get(struct probe_cuda_flow *flow, struct diag *diag)
{
	const struct probe_cuda_plan *plan = &flow->plan;
	int r = probe_cuda_buffer_get(flow->cuda, plan->from_gpu, plan->from_node, &flow->source, diag);

	if (!r)
		r = probe_cuda_buffer_get(flow->cuda, plan->to_gpu, plan->to_node, &flow->sink, diag);
	if (!r && plan->via_node >= 0)
		r = probe_cuda_buffer_get(flow->cuda, -1, plan->via_node, &flow->ring, diag);
	if (!r)
		r = buffer_set(flow, flow->source, flow->pattern, diag);
	return r < 0 ? r : buffer_set(flow, flow->sink, 0, diag);
}

/* The driver goes by host memory unless it may go straight, and some versions ask both GPUs. */
static int peers_enable(struct probe_cuda_flow *flow, struct diag *diag)
{
	int from = flow->plan.from_gpu, to = flow->plan.to_gpu;
	int r = probe_cuda_peer_enable(flow->cuda, from, to, diag);

	return !r && probe_cuda_peer_possible(flow->cuda, to, from) ? probe_cuda_peer_enable(flow->cuda, to, from, diag)
								    : r;
}

int probe_cuda_flow_begin(struct probe_cuda *cuda, const struct probe_cuda_plan *plan, const struct probe_flow *flow,
			  size_t index, struct probe_cuda_flow *ret, struct diag *diag)
{
	const struct topology_vertex *vertices = cuda->probe.topology->vertices;
	int r = 0;

	*ret = (struct probe_cuda_flow){ .cuda = cuda, .plan = *plan };
	snprintf(ret->name, sizeof(ret->name), "%s>%s", vertices[flow->flow.from].name, vertices[flow->flow.to].name);
	ret->pattern = (unsigned char)(index % 255 + 1); /* never that of an empty sink */
	ret->batch_bytes = unit_bytes(ret);
	ret->last_ns = clock_now_ns();
	ret->leg_count = plan->via_node >= 0 ? 2 : 1;
	ret->legs[0].gpu = plan->via_node >= 0 ? plan->from_gpu : plan->mover;
	ret->legs[1].gpu = plan->to_gpu;
	if (plan->via_node < 0 && plan->from_gpu >= 0 && plan->to_gpu >= 0)
		r = peers_enable(ret, diag);
	if (!r)
		r = streams_create(ret, diag);
	if (!r)
		r = all_events_create(ret, diag);
	return r < 0 ? r : buffers_get(ret, diag);
}

/* ------------------------------------------------------------------------------------------------------------- queue */

struct place {
	const struct probe_cuda_buffer *buffer;
	size_t offset;
};

static int kernel_copy(const struct probe_cuda_flow *flow, const struct probe_cuda_leg *leg, uint64_t to, uint64_t from,
		       size_t bytes)
{
	const struct probe_cuda_gpu *gpu = &flow->cuda->gpus[leg->gpu];
	uint64_t count = bytes / PROBE_CUDA_COPY_UNIT_BYTES;
	uint64_t blocks = (count + PROBE_CUDA_COPY_THREADS - 1) / PROBE_CUDA_COPY_THREADS;
	void *parameters[] = { &to, &from, &count };

	/* Small pieces need no more threads than they have units. */
	if (blocks > gpu->multiprocessors)
		blocks = gpu->multiprocessors;
	return flow->cuda->cuda->launch_kernel(gpu->copy, (unsigned)blocks, 1, 1, PROBE_CUDA_COPY_THREADS, 1, 1, 0,
					       leg->stream, parameters, NULL);
}

static int copy(const struct probe_cuda_flow *flow, const struct probe_cuda_leg *leg, struct place to,
		struct place from, size_t bytes, struct diag *diag)
{
	const struct gpu_cuda *cuda = flow->cuda->cuda;
	const struct probe_cuda_gpu *gpus = flow->cuda->gpus;
	uint64_t to_address = to.buffer->address + to.offset, from_address = from.buffer->address + from.offset;
	const char *call;
	int r;

	if (flow->plan.kernels) {
		call = "cuLaunchKernel";
		r = kernel_copy(flow, leg, to_address, from_address, bytes);
	} else if (from.buffer->memory) {
		call = "cuMemcpyHtoDAsync";
		r = cuda->memcpy_htod_async(to_address, from.buffer->memory + from.offset, bytes, leg->stream);
	} else if (to.buffer->memory) {
		call = "cuMemcpyDtoHAsync";
		r = cuda->memcpy_dtoh_async(to.buffer->memory + to.offset, from_address, bytes, leg->stream);
	} else {
		call = "cuMemcpyPeerAsync";
		r = cuda->memcpy_peer_async(to_address, gpus[to.buffer->gpu].context, from_address,
					    gpus[from.buffer->gpu].context, bytes, leg->stream);
	}
	return probe_cuda_result(flow->cuda, diag, flow->name, call, r);
}

static int wait_for(const struct probe_cuda_flow *flow, const struct probe_cuda_leg *leg, struct gpu_cuda_event *event,
		    struct diag *diag)
{
	return probe_cuda_result(flow->cuda, diag, flow->name, "cuStreamWaitEvent",
				 flow->cuda->cuda->stream_wait_event(leg->stream, event, 0));
}

static int record(const struct probe_cuda_flow *flow, const struct probe_cuda_leg *leg, struct gpu_cuda_event *event,
		  struct diag *diag)
{
	return probe_cuda_result(flow->cuda, diag, flow->name, "cuEventRecord",
				 flow->cuda->cuda->event_record(event, leg->stream));
}

/* One unit through the next slot. Leg 0 waits until the slot is empty, leg 1 until it is full. */
static int copy_by_slot(struct probe_cuda_flow *flow, size_t at, size_t bytes, struct diag *diag)
{
	const struct probe_cuda_leg *fill = &flow->legs[0], *empty = &flow->legs[1];
	size_t slot = flow->slot;
	struct place source = { flow->source, at }, sink = { flow->sink, at }, ring = { flow->ring, slot * bytes };
	int r = probe_cuda_gpu_use(flow->cuda, fill->gpu, false, diag);

	if (!r && flow->slot_used[slot])
		r = wait_for(flow, fill, flow->emptied[slot], diag);
	if (!r)
		r = copy(flow, fill, ring, source, bytes, diag);
	if (!r)
		r = record(flow, fill, flow->filled[slot], diag);
	if (!r)
		r = probe_cuda_gpu_use(flow->cuda, empty->gpu, false, diag);
	if (!r)
		r = wait_for(flow, empty, flow->filled[slot], diag);
	if (!r)
		r = copy(flow, empty, sink, ring, bytes, diag);
	if (!r)
		r = record(flow, empty, flow->emptied[slot], diag);
	flow->slot_used[slot] = true;
	flow->slot = (slot + 1) % PROBE_CUDA_UNITS;
	return r;
}

/* At most to the end of the buffer; by slots one unit at a time, else in one copy. */
static int piece_queue(struct probe_cuda_flow *flow, uint64_t left_bytes, size_t *ret_bytes, struct diag *diag)
{
	size_t bytes = flow->cuda->buffer_bytes - flow->at;
	struct place source = { flow->source, flow->at }, sink = { flow->sink, flow->at };
	int r;

	if (flow->ring)
		bytes = unit_bytes(flow);
	if (bytes > left_bytes)
		bytes = (size_t)left_bytes;
	r = flow->ring ? copy_by_slot(flow, flow->at, bytes, diag)
		       : copy(flow, &flow->legs[0], sink, source, bytes, diag);
	if (r < 0)
		return r;
	flow->at = (flow->at + bytes) % flow->cuda->buffer_bytes;
	*ret_bytes = bytes;
	return 0;
}

static int batch_queue(struct probe_cuda_flow *flow, struct diag *diag)
{
	size_t mark = flow->queued % PROBE_CUDA_BATCHES, bytes;
	int r = probe_cuda_gpu_use(flow->cuda, flow->legs[0].gpu, false, diag);

	for (uint64_t left_bytes = flow->batch_bytes; !r && left_bytes; left_bytes -= bytes) {
		r = piece_queue(flow, left_bytes, &bytes, diag);
		if (r < 0)
			return r;
	}
	if (!r)
		r = record(flow, &flow->legs[flow->leg_count - 1], flow->marks[mark], diag);
	if (r < 0)
		return r;
	flow->mark_bytes[mark] = flow->batch_bytes;
	flow->queued++;
	return 0;
}

int probe_cuda_flow_fill(struct probe_cuda_flow *flow, struct diag *diag)
{
	int r = 0;

	while (!r && flow->queued - flow->done < PROBE_CUDA_BATCHES)
		r = batch_queue(flow, diag);
	return r;
}

/* -------------------------------------------------------------------------------------------------------------- poll */

static void grow(struct probe_cuda_flow *flow, uint64_t batch_ns)
{
	uint64_t most_bytes = (uint64_t)flow->cuda->buffer_bytes * PASSES_MAX;

	if (batch_ns >= BATCH_NS || flow->batch_bytes >= most_bytes)
		flow->settled = true;
	else
		flow->batch_bytes *= 2;
}

/* Completions that are seen at once count as one: only the last of them ended just now. */
static void count(struct probe_cuda_flow *flow, uint64_t bytes, uint64_t now_ns)
{
	if (!flow->counting) {
		flow->counting = true;
		flow->first_ns = now_ns;
		return;
	}
	flow->counted_bytes += bytes;
	flow->counted++;
	flow->until_ns = now_ns;
}

int probe_cuda_flow_poll(struct probe_cuda_flow *flow, bool adapt, struct diag *diag)
{
	uint64_t bytes = 0, ended = 0, now_ns;

	while (!probe_cuda_flow_idle(flow)) {
		size_t mark = flow->done % PROBE_CUDA_BATCHES;
		int r = flow->cuda->cuda->event_query(flow->marks[mark]);

		if (r == GPU_CUDA_NOT_READY)
			break;
		if (r)
			return probe_cuda_result(flow->cuda, diag, flow->name, "cuEventQuery", r);
		bytes += flow->mark_bytes[mark];
		flow->done++;
		ended++;
	}
	if (!ended)
		return 0;
	now_ns = clock_now_ns();
	if (adapt)
		grow(flow, clock_elapsed_ns(flow->last_ns, now_ns) / ended);
	else
		count(flow, bytes, now_ns);
	flow->last_ns = now_ns;
	return 0;
}

/* --------------------------------------------------------------------------------------------------------------- end */

static int piece_check(struct probe_cuda_flow *flow, size_t offset, size_t bytes, struct diag *diag)
{
	unsigned char copied[CHECKED_BYTES];
	const unsigned char *seen = copied;
	int r;

	if (flow->sink->memory) {
		seen = (const unsigned char *)flow->sink->memory + offset;
	} else {
		r = probe_cuda_result(flow->cuda, diag, flow->name, "cuMemcpyDtoH",
				      flow->cuda->cuda->memcpy_dtoh(copied, flow->sink->address + offset, bytes));
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < bytes; i++) {
		if (seen[i] != flow->pattern) {
			diag_set(diag, 0, 0, "%s: other bytes arrive than were sent", flow->name);
			return -EIO;
		}
	}
	return 0;
}

int probe_cuda_flow_check(struct probe_cuda_flow *flow, struct diag *diag)
{
	size_t bytes = unit_bytes(flow) < CHECKED_BYTES ? unit_bytes(flow) : CHECKED_BYTES;
	int r = probe_cuda_gpu_use(flow->cuda, flow->plan.to_gpu >= 0 ? flow->plan.to_gpu : flow->plan.from_gpu, false,
				   diag);

	if (!r)
		r = piece_check(flow, 0, bytes, diag);
	return r < 0 ? r : piece_check(flow, unit_bytes(flow) - bytes, bytes, diag);
}

static void events_destroy(struct probe_cuda_flow *flow, struct gpu_cuda_event **events, size_t count_of_them)
{
	for (size_t i = 0; i < count_of_them; i++)
		if (events[i])
			flow->cuda->cuda->event_destroy(events[i]);
}

void probe_cuda_flow_end(struct probe_cuda_flow *flow)
{
	if (!flow->cuda || flow->cuda->lost)
		return;
	events_destroy(flow, flow->filled, PROBE_CUDA_UNITS);
	events_destroy(flow, flow->emptied, PROBE_CUDA_UNITS);
	events_destroy(flow, flow->marks, PROBE_CUDA_BATCHES);
	for (size_t i = 0; i < flow->leg_count; i++)
		if (flow->legs[i].stream)
			flow->cuda->cuda->stream_destroy(flow->legs[i].stream);
	probe_cuda_buffer_put(flow->source);
	probe_cuda_buffer_put(flow->sink);
	probe_cuda_buffer_put(flow->ring);
}
