/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_cuda_flow.h"

#include <errno.h>

enum {
	LINE_BYTES = 128, /* a GPU's cache line */
	LINES_MAX = 512,
	LINKS_FEW = 256,
	LINKS_MANY = 2304,
	TRIES = 5,
};

struct timer {
	struct gpu_cuda_stream *stream;
	struct gpu_cuda_event *start, *end;
};

static int timer_create(struct probe_cuda *cuda, struct timer *ret, struct diag *diag)
{
	struct gpu_cuda_stream *stream;
	struct gpu_cuda_event *event;
	int r = cuda->cuda->stream_create(&stream, GPU_CUDA_STREAM_NON_BLOCKING);

	if (r)
		return probe_cuda_result(cuda, diag, "latency", "cuStreamCreate", r);
	ret->stream = stream;
	for (unsigned i = 0; i < 2; i++) {
		r = cuda->cuda->event_create(&event, 0);
		if (r)
			return probe_cuda_result(cuda, diag, "latency", "cuEventCreate", r);
		*(i ? &ret->end : &ret->start) = event;
	}
	return 0;
}

static void timer_destroy(struct probe_cuda *cuda, struct timer *timer)
{
	if (timer->end)
		cuda->cuda->event_destroy(timer->end);
	if (timer->start)
		cuda->cuda->event_destroy(timer->start);
	if (timer->stream)
		cuda->cuda->stream_destroy(timer->stream);
}

/* A ring of pointers, in the GPUs' addresses. */
static int chain_make(struct probe_cuda *cuda, const struct timer *timer, const struct probe_cuda_buffer *buffer,
		      struct diag *diag)
{
	static uint64_t words[LINES_MAX * LINE_BYTES / sizeof(uint64_t)];
	size_t lines = cuda->buffer_bytes / LINE_BYTES < LINES_MAX ? cuda->buffer_bytes / LINE_BYTES : LINES_MAX;
	int r;

	for (size_t i = 0; i < lines; i++)
		words[i * (LINE_BYTES / sizeof(*words))] = buffer->address + (i + 1) % lines * LINE_BYTES;
	r = cuda->cuda->memcpy_htod_async(buffer->address, words, lines * LINE_BYTES, timer->stream);
	if (!r)
		r = cuda->cuda->stream_synchronize(timer->stream);
	return probe_cuda_result(cuda, diag, "latency", "cuMemcpyHtoDAsync", r);
}

static int follow(struct probe_cuda *cuda, int gpu, const struct timer *timer, uint64_t at, uint64_t links,
		  float *ret_ms, struct diag *diag)
{
	void *parameters[] = { &at, &links };
	const char *call = "cuEventRecord";
	int r = cuda->cuda->event_record(timer->start, timer->stream);

	if (!r) {
		call = "cuLaunchKernel";
		r = cuda->cuda->launch_kernel(cuda->gpus[gpu].chase, 1, 1, 1, 1, 1, 1, 0, timer->stream, parameters,
					      NULL);
	}
	if (!r) {
		call = "cuEventRecord";
		r = cuda->cuda->event_record(timer->end, timer->stream);
	}
	if (!r) {
		call = "cuStreamSynchronize";
		r = cuda->cuda->stream_synchronize(timer->stream);
	}
	if (!r) {
		call = "cuEventElapsedTime";
		r = cuda->cuda->event_elapsed_time(ret_ms, timer->start, timer->end);
	}
	return probe_cuda_result(cuda, diag, probe_cuda_gpu_name(cuda, gpu), call, r);
}

static int least_time(struct probe_cuda *cuda, int gpu, const struct timer *timer, uint64_t at, uint64_t links,
		      float *ret_ms, struct diag *diag)
{
	float least_ms = 0;

	for (unsigned i = 0; i < TRIES; i++) {
		float ms = 0;
		int r = follow(cuda, gpu, timer, at, links, &ms, diag);

		if (r < 0)
			return r;
		if (!i || ms < least_ms)
			least_ms = ms;
	}
	*ret_ms = least_ms;
	return 0;
}

int probe_cuda_latency(struct probe_cuda *cuda, const struct probe_cuda_plan *plan, uint64_t *ret_ns, struct diag *diag)
{
	struct timer timer = { NULL, NULL, NULL };
	struct probe_cuda_buffer *buffer = NULL;
	float few_ms = 0, many_ms = 0;
	double ns;
	int r = probe_cuda_gpu_use(cuda, plan->to_gpu, true, diag);

	if (!r)
		r = probe_cuda_peer_enable(cuda, plan->to_gpu, plan->from_gpu, diag);
	if (!r)
		r = probe_cuda_buffer_get(cuda, plan->from_gpu, -1, &buffer, diag);
	if (!r)
		r = probe_cuda_gpu_use(cuda, plan->to_gpu, false, diag);
	if (!r)
		r = timer_create(cuda, &timer, diag);
	if (!r)
		r = chain_make(cuda, &timer, buffer, diag);
	/* The difference of a long and a short walk: no start of a kernel is in it. */
	if (!r)
		r = least_time(cuda, plan->to_gpu, &timer, buffer->address, LINKS_FEW, &few_ms, diag);
	if (!r)
		r = least_time(cuda, plan->to_gpu, &timer, buffer->address, LINKS_MANY, &many_ms, diag);
	timer_destroy(cuda, &timer);
	probe_cuda_buffer_put(buffer);
	if (r < 0)
		return r;
	ns = ((double)many_ms - (double)few_ms) * 1e6 / (LINKS_MANY - LINKS_FEW);
	*ret_ns = ns > 0 ? (uint64_t)(ns + 0.5) : 0;
	return 0;
}
