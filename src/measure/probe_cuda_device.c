/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_cuda_device.h"

#include "measure/probe_numa.h"

#include <errno.h>
#include <stdlib.h>

int probe_cuda_result(const struct probe_cuda *cuda, struct diag *diag, const char *subject, const char *call,
		      int result)
{
	if (!result)
		return 0;
	diag_set(diag, 0, 0, "%s%s%s: %s (%d)", subject ? subject : "", subject ? ": " : "", call,
		 gpu_cuda_error_name(cuda->cuda, result), result);
	return -EIO;
}

const char *probe_cuda_gpu_name(const struct probe_cuda *cuda, int gpu)
{
	return cuda->probe.topology->vertices[cuda->gpus[gpu].vertex].name;
}

int probe_cuda_gpu_of(const struct probe_cuda *cuda, uint32_t vertex)
{
	for (size_t i = 0; i < cuda->gpu_count; i++)
		if (cuda->gpus[i].vertex == vertex)
			return (int)i;
	return -1;
}

static int kernels_load(struct probe_cuda *cuda, int index, struct diag *diag)
{
	struct probe_cuda_gpu *gpu = &cuda->gpus[index];
	const char *name = probe_cuda_gpu_name(cuda, index);
	struct gpu_cuda_module *module;
	int count, r;

	r = probe_cuda_result(cuda, diag, name, "cuDeviceGetAttribute",
			      cuda->cuda->device_get_attribute(&count, GPU_CUDA_MULTIPROCESSORS, gpu->device));
	if (r < 0)
		return r;
	gpu->multiprocessors = count > 0 ? (unsigned)count : 1;
	r = probe_cuda_result(cuda, diag, name, "cuModuleLoadData",
			      cuda->cuda->module_load_data(&module, probe_cuda_kernels));
	if (r < 0)
		return r;
	r = cuda->cuda->module_get_function(&gpu->copy, module, PROBE_CUDA_COPY_KERNEL);
	if (!r)
		r = cuda->cuda->module_get_function(&gpu->chase, module, PROBE_CUDA_CHASE_KERNEL);
	if (r)
		cuda->cuda->module_unload(module);
	else
		gpu->module = module;
	return probe_cuda_result(cuda, diag, name, "cuModuleGetFunction", r);
}

int probe_cuda_gpu_use(struct probe_cuda *cuda, int index, bool kernels, struct diag *diag)
{
	struct probe_cuda_gpu *gpu = &cuda->gpus[index];
	const char *name = probe_cuda_gpu_name(cuda, index);
	int r;

	if (!gpu->context) {
		struct gpu_cuda_context *context;

		r = probe_cuda_result(cuda, diag, name, "cuDevicePrimaryCtxRetain",
				      cuda->cuda->primary_retain(&context, gpu->device));
		if (r < 0)
			return r;
		gpu->context = context;
	}
	r = probe_cuda_result(cuda, diag, name, "cuCtxSetCurrent", cuda->cuda->ctx_set_current(gpu->context));
	return !r && kernels && !gpu->module ? kernels_load(cuda, index, diag) : r;
}

int probe_cuda_gpu_leave(struct probe_cuda *cuda)
{
	return cuda->cuda->ctx_set_current(NULL);
}

/* ------------------------------------------------------------------------------------------------------------- peers */

bool probe_cuda_peer_possible(const struct probe_cuda *cuda, int gpu, int peer)
{
	int possible = 0;

	return gpu != peer &&
	       !cuda->cuda->device_can_access_peer(&possible, cuda->gpus[gpu].device, cuda->gpus[peer].device) &&
	       possible;
}

/* The context of `gpu` is the current one. */
static void peers_drop_unused(struct probe_cuda *cuda, int gpu)
{
	for (size_t peer = 0; peer < cuda->gpu_count; peer++) {
		uint64_t *used = &cuda->peers[(size_t)gpu * cuda->gpu_count + peer];

		if (!*used || *used == cuda->run)
			continue;
		cuda->cuda->ctx_disable_peer_access(cuda->gpus[peer].context);
		*used = 0;
	}
}

int probe_cuda_peer_enable(struct probe_cuda *cuda, int gpu, int peer, struct diag *diag)
{
	uint64_t *used = &cuda->peers[(size_t)gpu * cuda->gpu_count + (size_t)peer];
	int r = probe_cuda_gpu_use(cuda, peer, false, diag); /* its context must be there */

	if (r < 0)
		return r;
	r = probe_cuda_gpu_use(cuda, gpu, false, diag);
	if (r < 0)
		return r;
	if (*used) {
		*used = cuda->run;
		return 0;
	}
	r = cuda->cuda->ctx_enable_peer_access(cuda->gpus[peer].context, 0);
	if (r == GPU_CUDA_TOO_MANY_PEERS) {
		peers_drop_unused(cuda, gpu);
		r = cuda->cuda->ctx_enable_peer_access(cuda->gpus[peer].context, 0);
	}
	if (r != GPU_CUDA_PEER_ACCESS_ALREADY_ENABLED)
		r = probe_cuda_result(cuda, diag, probe_cuda_gpu_name(cuda, gpu), "cuCtxEnablePeerAccess", r);
	if (r < 0)
		return r;
	*used = cuda->run;
	return 0;
}

/* ----------------------------------------------------------------------------------------------------------- buffers */

struct host_alloc {
	const struct probe_cuda *cuda;
	struct gpu_cuda_context *context;
	void *memory;
};

enum { HOST_FLAGS = GPU_CUDA_HOST_PORTABLE | GPU_CUDA_HOST_DEVICE_MAP };

/* In a thread on the node's cores, so that the driver takes the pages there. */
static int host_alloc(void *arg)
{
	struct host_alloc *job = arg;
	const struct gpu_cuda *cuda = job->cuda->cuda;
	int r = cuda->ctx_set_current(job->context);

	return r ? r : cuda->mem_host_alloc(&job->memory, job->cuda->buffer_bytes, HOST_FLAGS);
}

/* Some systems cannot pin memory that is not CUDA's own. The GPU's context is the current one. */
static int host_buffer_by_driver(struct probe_cuda *cuda, int gpu, struct probe_cuda_buffer *buffer, struct diag *diag)
{
	struct host_alloc job = { cuda, cuda->gpus[gpu].context, NULL };
	int r = probe_numa_run(buffer->node, host_alloc, &job);

	if (r < 0) {
		diag_set(diag, 0, 0, "no core of NUMA node %d is ours to allocate pinned memory there", buffer->node);
		return r == -ENOMEM ? r : -ENOTSUP;
	}
	if (!r)
		buffer->memory = job.memory;
	return probe_cuda_result(cuda, diag, probe_cuda_gpu_name(cuda, gpu), "cuMemHostAlloc", r);
}

static int host_buffer_make(struct probe_cuda *cuda, int gpu, struct probe_cuda_buffer *buffer, struct diag *diag)
{
	const char *name = probe_cuda_gpu_name(cuda, gpu);
	void *pages;
	int r = probe_numa_alloc(buffer->node, cuda->buffer_bytes, &pages, diag);

	if (r < 0)
		return r;
	r = cuda->cuda->mem_host_register(pages, cuda->buffer_bytes, HOST_FLAGS);
	buffer->registered = !r;
	if (!r)
		buffer->memory = pages;
	else
		probe_numa_free(pages, cuda->buffer_bytes);
	if (r == GPU_CUDA_NOT_SUPPORTED)
		r = host_buffer_by_driver(cuda, gpu, buffer, diag);
	else
		r = probe_cuda_result(cuda, diag, name, "cuMemHostRegister", r);
	return r < 0 ? r
		     : probe_cuda_result(cuda, diag, name, "cuMemHostGetDevicePointer",
					 cuda->cuda->mem_host_get_device_pointer(&buffer->address, buffer->memory, 0));
}

/* Pinned memory is for all GPUs, but making it needs one whose context is there. */
static int any_context(const struct probe_cuda *cuda)
{
	for (size_t i = 0; i < cuda->gpu_count; i++)
		if (cuda->gpus[i].context)
			return (int)i;
	return 0;
}

static void buffer_free(struct probe_cuda *cuda, struct probe_cuda_buffer *buffer)
{
	int gpu = buffer->gpu >= 0 ? buffer->gpu : any_context(cuda);

	if (cuda->lost) { /* a copy may still write to it */
		free(buffer);
		return;
	}
	/* What fails here fails for good; the driver takes everything back when the process ends. */
	cuda->cuda->ctx_set_current(cuda->gpus[gpu].context);
	if (buffer->gpu >= 0) {
		if (buffer->address)
			cuda->cuda->mem_free(buffer->address);
	} else if (buffer->registered) {
		cuda->cuda->mem_host_unregister(buffer->memory);
		probe_numa_free(buffer->memory, cuda->buffer_bytes);
	} else if (buffer->memory) {
		cuda->cuda->mem_free_host(buffer->memory);
	}
	free(buffer);
}

int probe_cuda_buffer_get(struct probe_cuda *cuda, int gpu, int node, struct probe_cuda_buffer **ret, struct diag *diag)
{
	struct probe_cuda_buffer *buffer;
	int r, maker = gpu >= 0 ? gpu : any_context(cuda);

	for (buffer = cuda->buffers; buffer; buffer = buffer->next) {
		if (!buffer->busy && buffer->gpu == gpu && buffer->node == node) {
			buffer->busy = true;
			*ret = buffer;
			return 0;
		}
	}
	r = probe_cuda_gpu_use(cuda, maker, false, diag);
	if (r < 0)
		return r;
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return -ENOMEM;
	buffer->gpu = gpu;
	buffer->node = node;
	if (gpu >= 0) {
		r = probe_cuda_result(cuda, diag, probe_cuda_gpu_name(cuda, gpu), "cuMemAlloc",
				      cuda->cuda->mem_alloc(&buffer->address, cuda->buffer_bytes));
		if (r < 0)
			buffer->address = 0;
	} else {
		r = host_buffer_make(cuda, maker, buffer, diag);
	}
	if (r < 0) {
		buffer_free(cuda, buffer);
		return r;
	}
	buffer->busy = true;
	buffer->next = cuda->buffers;
	cuda->buffers = buffer;
	*ret = buffer;
	return 0;
}

void probe_cuda_buffer_put(struct probe_cuda_buffer *buffer)
{
	if (buffer)
		buffer->busy = false;
}

int probe_cuda_buffer_dmabuf(struct probe_cuda *cuda, const struct probe_cuda_buffer *buffer, int *ret_fd,
			     struct diag *diag)
{
	int fd = -1, r = probe_cuda_gpu_use(cuda, buffer->gpu, false, diag);

	if (r < 0)
		return r;
	r = cuda->cuda->mem_get_handle_for_range
		    ? cuda->cuda->mem_get_handle_for_range(&fd, buffer->address, cuda->buffer_bytes,
							   GPU_CUDA_HANDLE_DMABUF, 0)
		    : GPU_CUDA_NOT_SUPPORTED;
	if (r) {
		probe_cuda_result(cuda, diag, probe_cuda_gpu_name(cuda, buffer->gpu), "cuMemGetHandleForAddressRange",
				  r);
		return -ENOTSUP;
	}
	*ret_fd = fd;
	return 0;
}

void probe_cuda_device_fini(struct probe_cuda *cuda)
{
	struct probe_cuda_buffer *buffer = cuda->buffers, *next;

	for (; buffer; buffer = next) {
		next = buffer->next;
		buffer_free(cuda, buffer);
	}
	for (size_t i = 0; i < cuda->gpu_count && !cuda->lost; i++) {
		struct probe_cuda_gpu *gpu = &cuda->gpus[i];

		if (!gpu->context)
			continue;
		cuda->cuda->ctx_set_current(gpu->context);
		for (size_t peer = 0; peer < cuda->gpu_count; peer++)
			if (cuda->peers[i * cuda->gpu_count + peer])
				cuda->cuda->ctx_disable_peer_access(cuda->gpus[peer].context);
		if (gpu->module)
			cuda->cuda->module_unload(gpu->module);
	}
	probe_cuda_gpu_leave(cuda);
	for (size_t i = 0; i < cuda->gpu_count && !cuda->lost; i++)
		if (cuda->gpus[i].context)
			cuda->cuda->primary_release(cuda->gpus[i].device);
	free(cuda->gpus);
	free(cuda->peers);
}
