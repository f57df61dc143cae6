/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/gpu/fake_cuda.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu_cuda_context {
	int gpu, references;
	bool peers[FAKE_CUDA_GPUS_MAX];
};
struct gpu_cuda_stream {
	int gpu;
	uint64_t busy_until_ns;
};
struct gpu_cuda_event {
	int gpu;
	uint64_t at_ns;
};
struct gpu_cuda_function {
	char name[32];
};
struct gpu_cuda_module {
	struct gpu_cuda_function functions[4];
	size_t function_count;
};

struct fake_cuda fake_cuda;
static struct gpu_cuda_context contexts[FAKE_CUDA_GPUS_MAX];
static _Thread_local struct gpu_cuda_context *current;

enum { START_NS = 3000 };

/* Streams, events and memories, so that what the tested code rightly leaves behind is no leak of the test. */
enum { OBJECTS_MAX = 4096 };
static void *objects[OBJECTS_MAX];

static void *object_new(size_t bytes)
{
	for (size_t i = 0; i < OBJECTS_MAX; i++)
		if (!objects[i])
			return objects[i] = calloc(1, bytes);
	abort();
}

static void object_free(void *object)
{
	for (size_t i = 0; i < OBJECTS_MAX; i++) {
		if (object && objects[i] == object) {
			objects[i] = NULL;
			free(object);
			return;
		}
	}
	abort(); /* freed twice, or never made */
}

static int step(const char *call)
{
	fake_cuda.calls++;
	if (fake_cuda.calls != fake_cuda.fail_at)
		return GPU_CUDA_OK;
	fake_cuda.failed = call;
	return FAKE_CUDA_ERROR;
}

static void misuse(bool wrong, const char *what)
{
	if (!wrong)
		return;
	if (!fake_cuda.misuses++)
		fake_cuda.misuse = what;
}

static bool alive(const struct gpu_cuda_context *context)
{
	return context && context->references > 0;
}

/* ------------------------------------------------------------------------------------------------------------ devices */

static int fake_init(unsigned flags)
{
	(void)flags;
	return fake_cuda.init_result ? fake_cuda.init_result : step("cuInit");
}

static int fake_get_error_name(int result, const char **ret)
{
	static const struct {
		int result;
		const char *name;
	} names[] = {
		{ GPU_CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY" },
		{ GPU_CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE" },
		{ GPU_CUDA_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" },
		{ FAKE_CUDA_ERROR, "CUDA_ERROR_LAUNCH_FAILED" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].result == result) {
			*ret = names[i].name;
			return GPU_CUDA_OK;
		}
	}
	*ret = NULL;
	return 1;
}

static int fake_driver_get_version(int *ret)
{
	*ret = 12040;
	return step("cuDriverGetVersion");
}

static int fake_device_get(int *ret, int ordinal)
{
	*ret = ordinal;
	return step("cuDeviceGet");
}

static int fake_device_get_count(int *ret)
{
	*ret = fake_cuda.gpu_count;
	return step("cuDeviceGetCount");
}

static int fake_device_get_pci_bus_id(char *ret, int bytes, int device)
{
	snprintf(ret, (size_t)bytes, "0000:%02X:00.0", 16 * (device + 1));
	return step("cuDeviceGetPCIBusId");
}

static int fake_device_get_by_pci_bus_id(int *ret, const char *bus_id)
{
	unsigned bus;

	if (sscanf(bus_id, "%*x:%x:", &bus) != 1)
		return 1;
	*ret = (int)bus / 16 - 1;
	return step("cuDeviceGetByPCIBusId");
}

static int fake_device_get_attribute(int *ret, int attribute, int device)
{
	(void)device;
	*ret = attribute == GPU_CUDA_MULTIPROCESSORS ? 4 : 1;
	return step("cuDeviceGetAttribute");
}

static int fake_device_can_access_peer(int *ret, int device, int peer)
{
	*ret = fake_cuda.p2p && device != peer && (!fake_cuda.p2p_one_way || device < peer);
	return step("cuDeviceCanAccessPeer");
}

/* ----------------------------------------------------------------------------------------------------------- contexts */

static int fake_primary_retain(struct gpu_cuda_context **ret, int device)
{
	int r = step("cuDevicePrimaryCtxRetain");

	if (r)
		return r;
	contexts[device].gpu = device;
	contexts[device].references++;
	fake_cuda.contexts++;
	*ret = &contexts[device];
	return r;
}

static int fake_primary_release(int device)
{
	misuse(!alive(&contexts[device]), "release of a context that is not there");
	contexts[device].references--;
	fake_cuda.contexts--;
	/* With the last reference the context goes, and what it has access to. */
	for (int i = 0; i < FAKE_CUDA_GPUS_MAX && !contexts[device].references; i++) {
		fake_cuda.peers -= contexts[device].peers[i];
		contexts[device].peers[i] = false;
	}
	return step("cuDevicePrimaryCtxRelease");
}

static int fake_ctx_set_current(struct gpu_cuda_context *context)
{
	int r = step("cuCtxSetCurrent");

	misuse(context && !alive(context), "a context that is not there is made current");
	if (!r)
		current = context;
	return r;
}

static int fake_ctx_synchronize(void)
{
	misuse(!alive(current), "cuCtxSynchronize without a context");
	return step("cuCtxSynchronize");
}

static int fake_ctx_enable_peer_access(struct gpu_cuda_context *peer, unsigned flags)
{
	int r = step("cuCtxEnablePeerAccess"), enabled = 0;

	misuse(!alive(current) || !alive(peer) || flags, "cuCtxEnablePeerAccess without contexts");
	if (r)
		return r;
	for (int i = 0; i < FAKE_CUDA_GPUS_MAX; i++)
		enabled += current->peers[i];
	if (current->peers[peer->gpu])
		return GPU_CUDA_PEER_ACCESS_ALREADY_ENABLED;
	if (enabled >= fake_cuda.peers_max)
		return GPU_CUDA_TOO_MANY_PEERS;
	current->peers[peer->gpu] = true;
	fake_cuda.peers++;
	return r;
}

static int fake_ctx_disable_peer_access(struct gpu_cuda_context *peer)
{
	misuse(!alive(current) || !alive(peer), "cuCtxDisablePeerAccess without contexts");
	if (!current->peers[peer->gpu])
		return GPU_CUDA_PEER_ACCESS_NOT_ENABLED;
	current->peers[peer->gpu] = false;
	fake_cuda.peers--;
	return step("cuCtxDisablePeerAccess");
}

/* -------------------------------------------------------------------------------------------------- streams and events */

static int fake_stream_create(struct gpu_cuda_stream **ret, unsigned flags)
{
	int r = step("cuStreamCreate");

	misuse(!alive(current) || flags != GPU_CUDA_STREAM_NON_BLOCKING, "cuStreamCreate");
	if (r)
		return r;
	*ret = object_new(sizeof(**ret));
	(*ret)->gpu = current->gpu;
	fake_cuda.streams++;
	return r;
}

static int fake_stream_destroy(struct gpu_cuda_stream *stream)
{
	object_free(stream);
	fake_cuda.streams--;
	return step("cuStreamDestroy");
}

static int fake_stream_synchronize(struct gpu_cuda_stream *stream)
{
	misuse(fake_cuda.hangs, "waits for what never ends");
	if (stream->busy_until_ns > fake_cuda.now_ns)
		fake_cuda.now_ns = stream->busy_until_ns;
	return step("cuStreamSynchronize");
}

static int fake_stream_wait_event(struct gpu_cuda_stream *stream, struct gpu_cuda_event *event, unsigned flags)
{
	int r = step("cuStreamWaitEvent");

	(void)flags;
	if (!r && stream->busy_until_ns < event->at_ns)
		stream->busy_until_ns = event->at_ns;
	return r;
}

static int fake_event_create(struct gpu_cuda_event **ret, unsigned flags)
{
	int r = step("cuEventCreate");

	(void)flags;
	misuse(!alive(current), "cuEventCreate without a context");
	if (r)
		return r;
	*ret = object_new(sizeof(**ret));
	(*ret)->gpu = current->gpu;
	fake_cuda.events++;
	return r;
}

static int fake_event_destroy(struct gpu_cuda_event *event)
{
	object_free(event);
	fake_cuda.events--;
	return step("cuEventDestroy");
}

static int fake_event_record(struct gpu_cuda_event *event, struct gpu_cuda_stream *stream)
{
	int r = step("cuEventRecord");

	misuse(event->gpu != stream->gpu, "event and stream of different contexts");
	if (!r)
		event->at_ns = stream->busy_until_ns > fake_cuda.now_ns ? stream->busy_until_ns : fake_cuda.now_ns;
	return r;
}

static int fake_event_query(struct gpu_cuda_event *event)
{
	int r = step("cuEventQuery");

	fake_cuda.now_ns += fake_cuda.hangs ? NS_PER_MS : fake_cuda.look_ns;
	if (r)
		return r;
	return fake_cuda.hangs || event->at_ns > fake_cuda.now_ns ? GPU_CUDA_NOT_READY : GPU_CUDA_OK;
}

static int fake_event_elapsed_time(float *ret_ms, struct gpu_cuda_event *start, struct gpu_cuda_event *end)
{
	*ret_ms = (float)((double)(end->at_ns - start->at_ns) / 1e6);
	return step("cuEventElapsedTime");
}

/* ------------------------------------------------------------------------------------------------------------- memory */

static int fake_mem_alloc(uint64_t *ret, size_t bytes)
{
	int r = step("cuMemAlloc");

	misuse(!alive(current), "cuMemAlloc without a context");
	if (r)
		return r;
	*ret = (uintptr_t)object_new(bytes);
	fake_cuda.memories++;
	return r;
}

static int fake_mem_free(uint64_t address)
{
	object_free((void *)(uintptr_t)address);
	fake_cuda.memories--;
	return step("cuMemFree");
}

static int fake_mem_host_alloc(void **ret, size_t bytes, unsigned flags)
{
	int r = step("cuMemHostAlloc");

	misuse(!alive(current) || flags != (GPU_CUDA_HOST_PORTABLE | GPU_CUDA_HOST_DEVICE_MAP), "cuMemHostAlloc");
	if (r)
		return r;
	*ret = object_new(bytes);
	fake_cuda.host_memories++;
	return r;
}

static int fake_mem_free_host(void *memory)
{
	object_free(memory);
	fake_cuda.host_memories--;
	return step("cuMemFreeHost");
}

static int fake_mem_host_register(void *memory, size_t bytes, unsigned flags)
{
	int r = step("cuMemHostRegister");

	misuse(!alive(current) || !memory || !bytes || flags != (GPU_CUDA_HOST_PORTABLE | GPU_CUDA_HOST_DEVICE_MAP),
	       "cuMemHostRegister");
	if (r || fake_cuda.cannot_register)
		return r ? r : GPU_CUDA_NOT_SUPPORTED;
	fake_cuda.registered++;
	return r;
}

static int fake_mem_host_unregister(void *memory)
{
	(void)memory;
	fake_cuda.registered--;
	return step("cuMemHostUnregister");
}

static int fake_mem_host_get_device_pointer(uint64_t *ret, void *memory, unsigned flags)
{
	(void)flags;
	*ret = (uintptr_t)memory;
	return step("cuMemHostGetDevicePointer");
}

static int fake_memset_d8(uint64_t to, unsigned char value, size_t bytes)
{
	int r = step("cuMemsetD8");

	misuse(!alive(current), "cuMemsetD8 without a context");
	if (!r)
		memset((void *)(uintptr_t)to, value, bytes);
	return r;
}

/* ------------------------------------------------------------------------------------------------------------- copies */

static void occupy(struct gpu_cuda_stream *stream, uint64_t ns)
{
	uint64_t start_ns = stream->busy_until_ns > fake_cuda.now_ns ? stream->busy_until_ns : fake_cuda.now_ns;

	stream->busy_until_ns = start_ns + ns;
}

static int move(struct gpu_cuda_stream *stream, uint64_t to, uint64_t from, size_t bytes)
{
	misuse(current != &contexts[stream->gpu], "a copy on a stream of another context");
	memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
	if (fake_cuda.corrupts)
		++*(unsigned char *)(uintptr_t)to;
	occupy(stream, (uint64_t)((double)bytes * 1e9 / (double)fake_cuda.rate_Bps));
	fake_cuda.copies++;
	return GPU_CUDA_OK;
}

static int fake_memcpy_async(uint64_t to, uint64_t from, size_t bytes, struct gpu_cuda_stream *stream)
{
	int r = step("cuMemcpyAsync");

	return r ? r : move(stream, to, from, bytes);
}

static int fake_memcpy_htod_async(uint64_t to, const void *from, size_t bytes, struct gpu_cuda_stream *stream)
{
	int r = step("cuMemcpyHtoDAsync");

	return r ? r : move(stream, to, (uintptr_t)from, bytes);
}

static int fake_memcpy_dtoh_async(void *to, uint64_t from, size_t bytes, struct gpu_cuda_stream *stream)
{
	int r = step("cuMemcpyDtoHAsync");

	return r ? r : move(stream, (uintptr_t)to, from, bytes);
}

static int fake_memcpy_dtoh(void *to, uint64_t from, size_t bytes)
{
	int r = step("cuMemcpyDtoH");

	misuse(!alive(current), "cuMemcpyDtoH without a context");
	if (!r)
		memcpy(to, (void *)(uintptr_t)from, bytes);
	return r;
}

static int fake_memcpy_peer_async(uint64_t to, struct gpu_cuda_context *to_context, uint64_t from,
				  struct gpu_cuda_context *from_context, size_t bytes, struct gpu_cuda_stream *stream)
{
	int r = step("cuMemcpyPeerAsync");
	struct gpu_cuda_context *mover = &contexts[stream->gpu],
				*other = mover == to_context ? from_context : to_context;

	misuse(mover != to_context && mover != from_context, "neither GPU moves");
	misuse(!mover->peers[other->gpu], "a copy to a peer without access goes through host memory");
	fake_cuda.peer_copies++;
	return r ? r : move(stream, to, from, bytes);
}

/* ------------------------------------------------------------------------------------------------------------ kernels */

static int fake_module_load_data(struct gpu_cuda_module **ret, const void *image)
{
	int r = step("cuModuleLoadData");

	misuse(!alive(current) || !strstr(image, ".version"), "cuModuleLoadData");
	if (r)
		return r;
	*ret = object_new(sizeof(**ret));
	fake_cuda.modules++;
	return r;
}

static int fake_module_unload(struct gpu_cuda_module *module)
{
	object_free(module);
	fake_cuda.modules--;
	return step("cuModuleUnload");
}

static int fake_module_get_function(struct gpu_cuda_function **ret, struct gpu_cuda_module *module, const char *name)
{
	int r = step("cuModuleGetFunction");

	if (r)
		return r;
	*ret = &module->functions[module->function_count++];
	snprintf((*ret)->name, sizeof((*ret)->name), "%s", name);
	return r;
}

static int fake_launch_kernel(struct gpu_cuda_function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
			      struct gpu_cuda_stream *stream, void **parameters, void **extra)
{
	int r = step("cuLaunchKernel");

	misuse(!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_x > 1024 || block_y != 1 || block_z != 1 ||
		       shared_bytes || extra,
	       "cuLaunchKernel");
	if (r)
		return r;
	if (!strcmp(function->name, "tributary_chase")) {
		const uint64_t *at = *(uint64_t *const *)parameters[0];
		uint64_t links = *(uint64_t *)parameters[1];

		for (uint64_t i = 0; i < links; i++)
			at = (const uint64_t *)(uintptr_t)*at;
		misuse(!at, "a chain that ends");
		occupy(stream, START_NS + links * FAKE_CUDA_LINK_NS);
		return r;
	}
	misuse(strcmp(function->name, "tributary_copy") != 0, "an unknown kernel");
	fake_cuda.kernel_copies++;
	return move(stream, *(uint64_t *)parameters[0], *(uint64_t *)parameters[1], *(uint64_t *)parameters[2] * 16);
}

static const struct gpu_cuda table = {
#define FAKE(member, symbol, arguments) .member = fake_##member,
	GPU_CUDA_SYMBOLS(FAKE)
#undef FAKE
};

const struct gpu_cuda *fake_cuda_table(void)
{
	return &table;
}

static void objects_free(void)
{
	for (size_t i = 0; i < OBJECTS_MAX; i++) {
		free(objects[i]);
		objects[i] = NULL;
	}
}

void fake_cuda_reset(int gpu_count)
{
	objects_free();
	memset(contexts, 0, sizeof(contexts));
	current = NULL;
	fake_cuda = (struct fake_cuda){ .gpu_count = gpu_count,
					.rate_Bps = UINT64_C(10000000000),
					.p2p = true,
					.look_ns = 2 * NS_PER_US,
					.peers_max = 8,
					.now_ns = NS_PER_S };
	gpu_cuda_set_table(&table);
	clock_set_fake(&fake_cuda.now_ns);
}

void fake_cuda_remove(void)
{
	objects_free();
	gpu_cuda_set_table(NULL);
	clock_set_fake(NULL);
}

int fake_cuda_alive(void)
{
	return fake_cuda.contexts + fake_cuda.streams + fake_cuda.events + fake_cuda.memories +
	       fake_cuda.host_memories + fake_cuda.registered + fake_cuda.modules + fake_cuda.peers;
}
