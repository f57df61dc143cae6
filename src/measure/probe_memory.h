/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe of this machine's memories: cores copy between them. Flows:
 *
 *     memoryA -> memoryB   a copy; by A's cores (which write into B), or by B's where A has none
 *     memoryA -> cpuB      B's cores read A and keep nothing
 *     cpuA -> memoryB      A's cores write to B and read nothing
 *
 * A memory of this machine may be both ends of a copy: its bytes are read and written, so it carries twice the rate. On x86
 * the stores go past the caches, as a device's do; elsewhere as memcpy does. A flow runs on as many cores as it takes
 * until no more is gained; flows of one domain share its cores. Buffers are larger than the last-level cache.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_MEMORY_H
#define TRIBUTARY_MEASURE_PROBE_MEMORY_H

#include "measure/probe.h"

struct probe_memory_options {
	size_t buffer_bytes; /* for each direction of each memory; 0: twice the last-level cache, as free memory allows */
	unsigned threads_max; /* of one flow; 0: as many as the domain has cores */
};

/* Closed by its ops->close. options may be NULL. -ENOMEM. A machine without memories in its graph gives a probe that can move nothing. */
int probe_memory_open(const struct topology *topology, const _Atomic bool *stop,
		      const struct probe_memory_options *options, struct probe **ret, struct diag *diag);

#endif
