/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What probe_cuda holds on the machine: contexts, kernels, peer access, and buffers that stay from run to run. Inner header.
 *
 * Failures are -EIO with the call and CUDA's name for the error in *diag; -ENOTSUP and -ENOMEM where said.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_CUDA_DEVICE_H
#define TRIBUTARY_MEASURE_PROBE_CUDA_DEVICE_H

#include "gpu/cuda.h"
#include "measure/probe_cuda.h"

struct probe_cuda_gpu {
	uint32_t vertex;
	int device;
	unsigned multiprocessors;
	struct gpu_cuda_context *context; /* NULL: not used yet */
	struct gpu_cuda_module *module;   /* NULL: no kernel used yet */
	struct gpu_cuda_function *copy, *chase;
};

/* In a GPU's memory, or pinned in a node's. */
struct probe_cuda_buffer {
	struct probe_cuda_buffer *next;
	int gpu, node;    /* one of both is -1 */
	bool busy;        /* a flow of the present run has it */
	bool registered;  /* pages of ours, pinned; otherwise CUDA's own */
	uint64_t address; /* for GPUs */
	char *memory;     /* for cores; NULL in a GPU */
};

struct probe_cuda {
	struct probe probe; /* first */
	const struct gpu_cuda *cuda;
	size_t buffer_bytes;
	struct probe_cuda_gpu *gpus;
	size_t gpu_count;
	struct probe_cuda_buffer *buffers;
	uint64_t *peers; /* [gpu × gpu_count + peer]: the number of the run that used the access last; 0: not enabled */
	uint64_t run;
	bool lost; /* a copy never ended: nothing can be freed any more */
};

/* What a call of the driver gave: 0, or -EIO and *diag says what failed. subject: "gpu0"; may be NULL. */
int probe_cuda_result(const struct probe_cuda *cuda, struct diag *diag, const char *subject, const char *call,
		      int result);
const char *probe_cuda_gpu_name(const struct probe_cuda *cuda, int gpu);

/* Index of the GPU of a vertex, or -1. */
int probe_cuda_gpu_of(const struct probe_cuda *cuda, uint32_t vertex);
/* Makes its context the current one, and its kernels ready if asked for. */
int probe_cuda_gpu_use(struct probe_cuda *cuda, int gpu, bool kernels, struct diag *diag);
int probe_cuda_gpu_leave(struct probe_cuda *cuda);

/* The driver lets `gpu` reach the memory of `peer`. */
bool probe_cuda_peer_possible(const struct probe_cuda *cuda, int gpu, int peer);
/* It does from now on. A GPU can have few peers at once: those that this run does not need make room. */
int probe_cuda_peer_enable(struct probe_cuda *cuda, int gpu, int peer, struct diag *diag);

/* A free buffer, or a new one; busy until it is put back. -ENOTSUP: no such node. */
int probe_cuda_buffer_get(struct probe_cuda *cuda, int gpu, int node, struct probe_cuda_buffer **ret,
			  struct diag *diag);
void probe_cuda_buffer_put(struct probe_cuda_buffer *buffer); /* NULL is fine */

/* Its memory as a DMA-BUF: a descriptor, the caller's. Of a buffer in a GPU. -ENOTSUP: the driver has none. */
int probe_cuda_buffer_dmabuf(struct probe_cuda *cuda, const struct probe_cuda_buffer *buffer, int *ret_fd,
			     struct diag *diag);

/* Gives everything back, but for what `lost` says. */
void probe_cuda_device_fini(struct probe_cuda *cuda);

/*
 * probe_cuda_kernels.c: our kernels, as PTX text that the driver compiles for the GPU it finds. PTX 6.0 for compute
 * capability 5.0: every driver since CUDA 9 takes it, for every GPU since then.
 *
 *     tributary_copy(to, from, count)   count pieces of 16 bytes, by all threads of the grid in turn
 *     tributary_chase(at, links)        one thread follows a chain of pointers
 *
 * Loads and stores are volatile: no cache of the GPU answers for memory that is not its own.
 */
#define PROBE_CUDA_COPY_KERNEL  "tributary_copy"
#define PROBE_CUDA_CHASE_KERNEL "tributary_chase"
enum { PROBE_CUDA_COPY_UNIT_BYTES = 16, PROBE_CUDA_COPY_THREADS = 512 };
extern const char probe_cuda_kernels[];

#endif
