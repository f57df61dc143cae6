/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_rdma_memory.h"

#include "base/sys.h"
#include "measure/probe_numa.h"

#include <errno.h>
#include <string.h>

enum { CHECKED_AT_ONCE = 1 << 20 };

static int open_host(struct probe_rdma_memory *memory, int node, struct diag *diag)
{
	struct verbs_range range = { .bytes = memory->bytes, .stays = true, .memory = TRANSPORT_MEMORY_HOST };
	int r = probe_numa_alloc(node, memory->bytes, &memory->host, diag);

	if (r < 0)
		return r;
	range.data = memory->host;
	memory->address = (uintptr_t)memory->host;
	r = verbs_memory_get(memory->card, &range, &memory->registered);
	if (r < 0)
		diag_set(diag, 0, 0, "%s cannot register %zu bytes: %s", memory->card->name, range.bytes, strerror(-r));
	return r < 0 ? -EIO : 0;
}

/* The device keeps its own hold of what the descriptor stands for. */
static int register_dmabuf(struct probe_rdma_memory *memory, struct verbs_range *range)
{
	struct diag unsaid;
	int r;

	if (!(memory->card->memory & TRANSPORT_MEMORY_DMABUF) ||
	    probe_cuda_buffer_dmabuf(memory->cuda, memory->buffer, &range->fd, &unsaid) < 0)
		return -EOPNOTSUPP;
	range->memory = TRANSPORT_MEMORY_DMABUF;
	r = verbs_memory_get(memory->card, range, &memory->registered);
	sys_close(&range->fd);
	/* What it refuses once it is not asked for again, and that it refused is in the log once. */
	if (r < 0 && r != -ENOMEM)
		memory->card->memory &= ~(unsigned)TRANSPORT_MEMORY_DMABUF;
	return r;
}

static int open_gpu(struct probe_rdma_memory *memory, int gpu, struct diag *diag)
{
	struct verbs_range range = { .bytes = memory->bytes, .stays = true, .fd = -1 };
	int r = memory->cuda->lost ? -EIO : 0;

	if (r < 0)
		diag_set(diag, 0, 0, "an earlier copy never ended, the GPUs are not used any more");
	else
		r = probe_cuda_buffer_get(memory->cuda, gpu, -1, &memory->buffer, diag);
	if (r < 0)
		return r;
	memory->address = memory->buffer->address;
	range.data = (void *)(uintptr_t)memory->address;
	r = register_dmabuf(memory, &range);
	if (r < 0 && memory->card->memory & TRANSPORT_MEMORY_CUDA) {
		range.memory = TRANSPORT_MEMORY_CUDA;
		r = verbs_memory_get(memory->card, &range, &memory->registered);
	}
	if (r == -EOPNOTSUPP)
		diag_set(diag, 0, 0, "neither DMA-BUF nor nvidia-peermem lends %s memory of %s", memory->card->name,
			 probe_cuda_gpu_name(memory->cuda, gpu));
	else if (r < 0)
		diag_set(diag, 0, 0, "%s cannot register memory of %s: %s", memory->card->name,
			 probe_cuda_gpu_name(memory->cuda, gpu), strerror(-r));
	return r < 0 && r != -EOPNOTSUPP ? -EIO : r;
}

int probe_rdma_memory_open(struct probe_cuda *cuda, struct verbs_card *card, struct probe_rdma_place place,
			   size_t bytes, struct probe_rdma_memory *ret, struct diag *diag)
{
	*ret = (struct probe_rdma_memory){ .card = card, .cuda = cuda, .bytes = bytes };
	if (place.gpu < 0)
		return open_host(ret, place.node, diag);
	return open_gpu(ret, place.gpu, diag);
}

void probe_rdma_memory_close(struct probe_rdma_memory *memory)
{
	if (memory->card)
		verbs_memory_put(memory->card, memory->registered, true);
	probe_cuda_buffer_put(memory->buffer);
	if (memory->host)
		probe_numa_free(memory->host, memory->bytes);
	*memory = (struct probe_rdma_memory){ 0 };
}

/* ------------------------------------------------------------------------------------------------------------ content */

int probe_rdma_memory_fill(struct probe_rdma_memory *memory, unsigned char value, struct diag *diag)
{
	const struct gpu_cuda *cuda;
	int r;

	if (!memory->buffer) {
		memset(memory->host, value, memory->bytes);
		return 0;
	}
	cuda = memory->cuda->cuda;
	r = probe_cuda_gpu_use(memory->cuda, memory->buffer->gpu, false, diag);
	if (r < 0)
		return r;
	r = cuda->memset_d8(memory->address, value, memory->bytes);
	if (!r)
		r = cuda->ctx_synchronize(); /* the device does not wait for it */
	return probe_cuda_result(memory->cuda, diag, probe_cuda_gpu_name(memory->cuda, memory->buffer->gpu),
				 "cuMemsetD8", r);
}

static bool all_are(const unsigned char *data, unsigned char value, size_t bytes)
{
	return !bytes || (data[0] == value && memcmp(data, data + 1, bytes - 1) == 0);
}

static int gpu_holds(struct probe_rdma_memory *memory, unsigned char value, size_t bytes, unsigned char *copy,
		     bool *ret, struct diag *diag)
{
	int r = probe_cuda_gpu_use(memory->cuda, memory->buffer->gpu, false, diag);
	bool holds = true;

	for (size_t at = 0; r == 0 && holds && at < bytes; at += CHECKED_AT_ONCE) {
		size_t part = bytes - at < CHECKED_AT_ONCE ? bytes - at : CHECKED_AT_ONCE;

		r = probe_cuda_result(memory->cuda, diag, probe_cuda_gpu_name(memory->cuda, memory->buffer->gpu),
				      "cuMemcpyDtoH",
				      memory->cuda->cuda->memcpy_dtoh(copy, memory->address + at, part));
		if (r < 0)
			return r;
		holds = all_are(copy, value, part);
	}
	if (r == 0)
		*ret = holds;
	return r;
}

int probe_rdma_memory_holds(struct probe_rdma_memory *memory, unsigned char value, size_t bytes, bool *ret,
			    struct diag *diag)
{
	unsigned char *copy;
	int r;

	if (!memory->buffer) {
		*ret = all_are(memory->host, value, bytes);
		return 0;
	}
	copy = sys_zalloc(CHECKED_AT_ONCE);
	if (!copy)
		return -ENOMEM;
	r = gpu_holds(memory, value, bytes, copy, ret, diag);
	sys_free(copy);
	return r;
}
