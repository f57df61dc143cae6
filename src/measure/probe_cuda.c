/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_cuda.h"

#include "base/clock.h"
#include "measure/probe_cuda_flow.h"
#include "measure/probe_window.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

enum { BUFFER_BYTES = 32 << 20, COUNTED_LEAST = 4 };
/* Copies that take longer than this never end: P2P through an IOMMU that drops them, for one. */
#define STUCK_NS (5 * NS_PER_S)

static struct probe_cuda *probe_of(struct probe *probe)
{
	return (struct probe_cuda *)probe;
}

static bool cuda_can(struct probe *probe, const struct probe_flow *flow)
{
	struct probe_cuda_plan plan;

	return !probe_cuda_plan_of(probe_of(probe), flow, &plan);
}

/* ---------------------------------------------------------------------------------------------------------------- run */

struct run {
	struct probe_cuda *cuda;
	struct probe_cuda_flow *flows;
	size_t count;
};

/* Once over all flows: looks what is done and queues what is missing. */
static int turn(struct run *run, bool adapt, bool fill, struct diag *diag)
{
	int r = probe_stopped(&run->cuda->probe) && fill ? -EINTR : 0;

	for (size_t i = 0; !r && i < run->count; i++) {
		r = probe_cuda_flow_poll(&run->flows[i], adapt, diag);
		if (!r && fill)
			r = probe_cuda_flow_fill(&run->flows[i], diag);
	}
	if (r == -EINTR)
		diag_set(diag, 0, 0, "stopped");
	return r;
}

static bool all_settled(const struct run *run)
{
	for (size_t i = 0; i < run->count; i++)
		if (!run->flows[i].settled)
			return false;
	return true;
}

static bool all_counted(const struct run *run)
{
	for (size_t i = 0; i < run->count; i++)
		if (run->flows[i].counted < COUNTED_LEAST)
			return false;
	return true;
}

static int stuck(const struct run *run, struct diag *diag)
{
	for (size_t i = 0; i < run->count; i++) {
		if (run->flows[i].counted >= COUNTED_LEAST)
			continue;
		diag_set(diag, 0, 0, "%s: copies do not end", run->flows[i].name);
		return -EIO;
	}
	return 0;
}

static int warm_up(struct run *run, uint64_t duration_ns, struct diag *diag)
{
	uint64_t start_ns = clock_now_ns(), least_ns = probe_window_warm_up_ns(duration_ns), ns;
	int r;

	do {
		r = turn(run, true, true, diag);
		ns = clock_elapsed_ns(start_ns, clock_now_ns());
		/* A disturbed machine may never settle; its batches will do as they are. */
	} while (!r && (ns < least_ns || (!all_settled(run) && ns < least_ns + duration_ns)));
	return r;
}

static int measure(struct run *run, uint64_t duration_ns, struct diag *diag)
{
	uint64_t start_ns, ns;
	int r = warm_up(run, duration_ns, diag);

	start_ns = clock_now_ns();
	while (!r) {
		r = turn(run, false, true, diag);
		ns = clock_elapsed_ns(start_ns, clock_now_ns());
		if (ns >= duration_ns && all_counted(run))
			break;
		if (!r && ns >= duration_ns + STUCK_NS)
			r = stuck(run, diag);
	}
	return r;
}

/* Nothing may be under way when its memory is given back. After an error of CUDA all is over at once. */
static int drain(struct run *run, struct diag *diag)
{
	uint64_t start_ns = clock_now_ns();

	for (;;) {
		bool idle = true;

		for (size_t i = 0; i < run->count; i++)
			idle = idle && probe_cuda_flow_idle(&run->flows[i]);
		if (idle)
			return 0;
		if (turn(run, true, false, diag) < 0)
			return -EIO;
		if (clock_elapsed_ns(start_ns, clock_now_ns()) > STUCK_NS) {
			run->cuda->lost = true;
			diag_set(diag, 0, 0, "copies do not end, the GPUs are not used any more");
			return -EIO;
		}
	}
}

static void synchronize(const struct run *run)
{
	for (size_t i = 0; i < run->count; i++)
		for (size_t k = 0; k < run->flows[i].leg_count; k++)
			if (run->flows[i].legs[k].stream && !run->cuda->lost)
				run->cuda->cuda->stream_synchronize(run->flows[i].legs[k].stream);
}

static void rates_fill(const struct run *run, struct probe_rates *ret)
{
	uint64_t least_ns = UINT64_MAX;

	for (size_t i = 0; i < run->count; i++) {
		const struct probe_cuda_flow *flow = &run->flows[i];
		uint64_t ns = clock_elapsed_ns(flow->first_ns, flow->until_ns);

		ns = ns ? ns : 1;
		ret->rate_Bps[i] = (double)flow->counted_bytes * 1e9 / (double)ns;
		if (ns < least_ns)
			least_ns = ns;
	}
	ret->time_ns = run->count ? least_ns : 0;
}

static int run_flows(struct run *run, const struct probe_flow *flows, uint64_t duration_ns, struct diag *diag)
{
	struct diag second; /* of what only follows from the first failure */
	int r = 0, drained;

	for (size_t i = 0; !r && i < run->count; i++) {
		struct probe_cuda_plan plan;

		r = probe_cuda_plan_of(run->cuda, &flows[i], &plan);
		if (r < 0)
			diag_set(diag, 0, 0, "flow %zu is not one of this machine's GPUs, or they cannot move it", i);
		else
			r = probe_cuda_flow_begin(run->cuda, &plan, &flows[i], i, &run->flows[i], diag);
	}
	if (!r && run->count)
		r = measure(run, duration_ns, diag);
	drained = drain(run, r < 0 ? &second : diag);
	/* After an error what was queued behind the last mark may still run. */
	if (r < 0 || drained < 0)
		synchronize(run);
	if (!r)
		r = drained;
	for (size_t i = 0; !r && i < run->count; i++)
		r = probe_cuda_flow_check(&run->flows[i], diag);
	return r;
}

static int refuse_lost(const struct probe_cuda *cuda, struct diag *diag)
{
	if (!cuda->lost)
		return 0;
	diag_set(diag, 0, 0, "an earlier copy never ended, the GPUs are not used any more");
	return -EIO;
}

static int cuda_run(struct probe *probe, const struct probe_flow *flows, size_t count, uint64_t duration_ns,
		    struct probe_rates *ret, struct diag *diag)
{
	struct probe_cuda *cuda = probe_of(probe);
	struct run run = { cuda, calloc(count ? count : 1, sizeof(*run.flows)), count };
	int r = refuse_lost(cuda, diag);

	if (!run.flows) {
		diag_set(diag, 0, 0, "no memory for the flows");
		return -ENOMEM;
	}
	cuda->run++;
	if (!r)
		r = run_flows(&run, flows, duration_ns, diag);
	if (!r)
		rates_fill(&run, ret);
	for (size_t i = 0; i < count; i++)
		probe_cuda_flow_end(&run.flows[i]);
	probe_cuda_gpu_leave(cuda);
	free(run.flows);
	return r;
}

static int cuda_latency(struct probe *probe, const struct probe_flow *flow, uint64_t *ret_ns, struct diag *diag)
{
	struct probe_cuda *cuda = probe_of(probe);
	struct probe_cuda_plan plan;
	int r = refuse_lost(cuda, diag);

	if (!r)
		r = probe_cuda_plan_of(cuda, flow, &plan);
	if (r == -ENOTSUP)
		diag_set(diag, 0, 0, "not a flow of this machine's GPUs, or they cannot move it");
	if (r < 0)
		return r;
	if (plan.to_gpu < 0 || plan.from_gpu < 0 || plan.via_node >= 0 ||
	    !probe_cuda_peer_possible(cuda, plan.to_gpu, plan.from_gpu)) {
		*ret_ns = 0;
		return 0;
	}
	if (probe_stopped(probe)) {
		diag_set(diag, 0, 0, "stopped");
		return -EINTR;
	}
	cuda->run++;
	r = probe_cuda_latency(cuda, &plan, ret_ns, diag);
	probe_cuda_gpu_leave(cuda);
	return r;
}

/* --------------------------------------------------------------------------------------------------------------- open */

static void cuda_close(struct probe *probe)
{
	struct probe_cuda *cuda = probe_of(probe);

	probe_cuda_device_fini(cuda);
	free(cuda);
}

static const struct probe_ops cuda_ops = { "cuda", cuda_can, cuda_run, cuda_latency, cuda_close };

/* The vertex of a GPU by its bus id; of several slices the first. */
static uint32_t vertex_find(const struct topology *topology, const char *bus_id)
{
	for (size_t i = 0; i < topology->vertex_count; i++)
		if (topology->vertices[i].kind == TOPOLOGY_GPU && !strcasecmp(topology->vertices[i].bus_id, bus_id))
			return (uint32_t)i;
	return TOPOLOGY_NONE;
}

static int gpus_find(struct probe_cuda *cuda, int device_count, struct diag *diag)
{
	for (int i = 0; i < device_count; i++) {
		char bus_id[GPU_CUDA_BUS_ID_BYTES];
		uint32_t vertex;
		int device, r = probe_cuda_result(cuda, diag, NULL, "cuDeviceGet", cuda->cuda->device_get(&device, i));

		if (r < 0)
			return r;
		r = probe_cuda_result(cuda, diag, NULL, "cuDeviceGetPCIBusId",
				      cuda->cuda->device_get_pci_bus_id(bus_id, sizeof(bus_id), device));
		if (r < 0)
			return r;
		vertex = vertex_find(cuda->probe.topology, bus_id);
		if (vertex == TOPOLOGY_NONE || probe_cuda_gpu_of(cuda, vertex) >= 0)
			continue;
		cuda->gpus[cuda->gpu_count++] = (struct probe_cuda_gpu){ .vertex = vertex, .device = device };
	}
	if (cuda->gpu_count)
		return 0;
	diag_set(diag, 0, 0, "none of the %d GPUs that the CUDA driver shows is in the graph", device_count);
	return -ENODEV;
}

int probe_cuda_open(const struct topology *topology, const _Atomic bool *stop, const struct probe_cuda_options *options,
		    struct probe **ret, struct diag *diag)
{
	const struct gpu_cuda *table;
	struct probe_cuda *cuda;
	int device_count, r = gpu_cuda_open(&table, diag);
	size_t bytes = options && options->buffer_bytes ? options->buffer_bytes : BUFFER_BYTES;
	const size_t grain = PROBE_CUDA_UNITS * 4096;

	if (r < 0)
		return -ENODEV; /* a driver that is too old is none for us; *diag says so */
	cuda = calloc(1, sizeof(*cuda));
	if (!cuda)
		return -ENOMEM;
	cuda->probe = (struct probe){ &cuda_ops, topology, stop };
	cuda->cuda = table;
	cuda->buffer_bytes = bytes < grain ? grain : bytes / grain * grain;
	r = probe_cuda_result(cuda, diag, NULL, "cuDeviceGetCount", table->device_get_count(&device_count));
	if (r < 0)
		goto fail;
	if (device_count < 1) {
		diag_set(diag, 0, 0, "the CUDA driver finds no GPU");
		r = -ENODEV;
		goto fail;
	}
	r = -ENOMEM;
	cuda->gpus = calloc((size_t)device_count, sizeof(*cuda->gpus));
	cuda->peers = calloc((size_t)device_count * (size_t)device_count, sizeof(*cuda->peers));
	if (cuda->gpus && cuda->peers)
		r = gpus_find(cuda, device_count, diag);
	if (r < 0)
		goto fail;
	*ret = &cuda->probe;
	return 0;
fail:
	cuda_close(&cuda->probe);
	return r;
}
