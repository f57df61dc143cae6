/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver in this process, as a table for gpu_cuda_set_table: GPUs whose memory is the heap and whose streams take
 * simulated time. It counts what is alive, notes misuse, and makes the Nth call fail. One thread, but for the pinned
 * allocations; one instance.
 */
#ifndef TESTS_UNIT_GPU_FAKE_CUDA_H
#define TESTS_UNIT_GPU_FAKE_CUDA_H

#include "gpu/cuda.h"

#include <stdbool.h>

enum { FAKE_CUDA_GPUS_MAX = 16, FAKE_CUDA_LINK_NS = 1250, FAKE_CUDA_ERROR = 719 };

struct fake_cuda {
	/* How it is; set after fake_cuda_reset. */
	int gpu_count;
	uint64_t rate_Bps;     /* of each stream */
	uint64_t look_ns;      /* that a look at an event takes */
	bool p2p, p2p_one_way; /* works; only from a lower to a higher GPU */
	int peers_max;         /* of one GPU */
	bool cannot_register;  /* CUDA_ERROR_NOT_SUPPORTED */
	bool corrupts;         /* what arrives is something else */
	bool hangs;            /* no copy ends */
	int init_result;
	uint64_t fail_at; /* this call, from 1, fails with FAKE_CUDA_ERROR; 0: none */
	/* What was seen. */
	uint64_t now_ns; /* of clock_set_fake */
	uint64_t calls;
	int contexts, streams, events, memories, host_memories, registered, modules, peers; /* alive */
	unsigned misuses;   /* wrong context, unknown object, copy to a peer without access */
	const char *misuse; /* the first */
	const char *failed; /* the call that was made to fail */
	uint64_t copies, peer_copies, kernel_copies;
};

extern struct fake_cuda fake_cuda;

/* Everything as new: gpu_count GPUs "0000:10:00.0", "0000:20:00.0", ... of 10 GB/s with P2P. Also sets table and clock. */
void fake_cuda_reset(int gpu_count);
/* The real driver and clock again. */
void fake_cuda_remove(void);
/* Things that are alive, all together. */
int fake_cuda_alive(void);
const struct gpu_cuda *fake_cuda_table(void);

#endif
