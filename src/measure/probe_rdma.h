/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe of this machine's RDMA devices, by libibverbs. A flow goes through a memory, as bytes on their way from one card to
 * another do:
 *
 *     nicA -> nicB  TOPOLOGY_WAY_HOST, via memory M   nicA writes into M, nicB reads from M, all the time
 *
 * What nicB reads goes over the network to nicA, which writes it: RDMA writes by nicB. nicA and nicB may be one port: what it
 * reads it sends to itself (loopback), so that both directions of its slot are loaded at the same rate, and the network not.
 * Between two ports the network has to lead from the one to the other; where it does not, a run says so.
 *
 * via: TOPOLOGY_NONE is the memory of nicA's CPU.
 *
 *     gpu -> memory M  TOPOLOGY_WAY_HOST, via nic   nic reads memory of the GPU, sends it to itself, and writes into M
 *     memory M -> gpu  the same                     the other way round
 *
 * The memory of GPUs is the CUDA probe's. A device that does not register that of every GPU is left to memory of the host.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_RDMA_H
#define TRIBUTARY_MEASURE_PROBE_RDMA_H

#include "measure/probe.h"

struct params;
struct verbs_api;

struct probe_rdma_options {
	const struct verbs_api *api; /* NULL: the library of this machine */
	const char *sysfs_root;      /* NULL: "/sys" */
	const struct params
		*params;     /* as the transport: which devices, which of their addresses, ...; NULL: defaults */
	size_t buffer_bytes; /* that a flow reads, and as many that it writes; 0: 16 MiB */
	struct probe *cuda;  /* of probe_cuda.h, not owned, used until the last run; NULL: no memory of GPUs */
	/* Why a device is left to memory of the host, in one clause; "": none is. NULL: not asked. */
	struct diag *ret_no_gpu;
};

/*
 * Closed by its ops->close. options may be NULL. -ENODEV: there is no port to measure, and *diag says why in one clause; -ENOMEM.
 * A run gives -ENOTSUP for ports that do not reach each other, -EIO when a device fails.
 */
int probe_rdma_open(const struct topology *topology, const _Atomic bool *stop, const struct probe_rdma_options *options,
		    struct probe **ret, struct diag *diag);

#endif
