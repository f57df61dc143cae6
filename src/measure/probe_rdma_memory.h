/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What probe_rdma reads from and writes to: registered memory of a NUMA node, or of a GPU that the CUDA probe has open. A
 * GPU's by DMA-BUF where driver, library and device have it, otherwise by its address (nvidia-peermem). Inner header; one
 * thread.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_RDMA_MEMORY_H
#define TRIBUTARY_MEASURE_PROBE_RDMA_MEMORY_H

#include "measure/probe_cuda_device.h"
#include "transport/verbs/device.h"

struct probe_rdma_place {
	int gpu;  /* the CUDA probe's index; -1: memory of the host */
	int node; /* of that */
};

struct probe_rdma_memory {
	struct verbs_card *card; /* NULL: nothing is open */
	struct verbs_memory *registered;
	struct probe_cuda *cuda;
	struct probe_cuda_buffer *buffer; /* NULL: memory of the host */
	void *host;
	uint64_t address; /* for the device */
	size_t bytes;
};

/* Zeroed, and not yet closed after a failure, is what close accepts. Errors: -ENOTSUP, -ENOMEM, -EIO, the device's; *diag says. */
int probe_rdma_memory_open(struct probe_cuda *cuda, struct verbs_card *card, struct probe_rdma_place place,
			   size_t bytes, struct probe_rdma_memory *ret, struct diag *diag);
void probe_rdma_memory_close(struct probe_rdma_memory *memory);
static inline bool probe_rdma_memory_is_gpu(const struct probe_rdma_memory *memory)
{
	return memory->buffer;
}

/* Every byte is this one from now on, also for devices. -EIO. */
int probe_rdma_memory_fill(struct probe_rdma_memory *memory, unsigned char value, struct diag *diag);
/* Whether each of the first bytes is this one. -EIO, -ENOMEM. */
int probe_rdma_memory_holds(struct probe_rdma_memory *memory, unsigned char value, size_t bytes, bool *ret,
			    struct diag *diag);

#endif
