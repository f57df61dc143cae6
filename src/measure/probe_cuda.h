/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe of this machine's GPUs, by the CUDA driver. Flows:
 *
 *     memoryA -> gpuB   the GPU reads pinned memory of that NUMA node
 *     gpuA -> memoryB   the GPU writes to it
 *     gpuA -> gpuB      TOPOLOGY_WAY_DIRECT: P2P, written by gpuA;
 *                       TOPOLOGY_WAY_HOST: gpuA writes to pinned memory of `via`, gpuB reads it, both at work all the time
 *
 * by copy engines, or by the GPUs' cores (PROBE_ENGINE_KERNEL: 16 bytes a thread). Each flow has copies queued ahead until
 * the window has ended in which all are measured; what has arrived is compared with what was sent.
 *
 * The latency is that of a dependent load of the GPU `from` by a core of the GPU `to`; 0 of other flows.
 *
 * A MIG slice stands for the GPU of its bus id: CUDA shows a process one slice.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_CUDA_H
#define TRIBUTARY_MEASURE_PROBE_CUDA_H

#include "measure/probe.h"

struct probe_cuda_options {
	size_t buffer_bytes; /* of each end of each flow; 0: 32 MiB */
};

/*
 * Closed by its ops->close. options may be NULL. -ENODEV: no GPU, or no driver, and *diag says which in a plain sentence; -EIO: the driver fails;
 * -ENOMEM. A run's -EIO has CUDA's name of the error. Nothing is allocated on a GPU before the first run that uses it.
 */
int probe_cuda_open(const struct topology *topology, const _Atomic bool *stop, const struct probe_cuda_options *options,
		    struct probe **ret, struct diag *diag);

#endif
