/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NUMA domains as the kernel numbers them: their cores, their last-level cache, and memory whose pages lie on one of them.
 * Containers often refuse the system calls that bind memory; then a thread on the domain's own cores touches the pages
 * first, which has the same effect. Inner header of the probes; any thread.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_NUMA_H
#define TRIBUTARY_MEASURE_PROBE_NUMA_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;

enum { PROBE_NUMA_CPUS_MAX = 8192 }; /* the kernel's own limit */

/* CPUs that this process may use, ascending. */
struct probe_numa_cpus {
	size_t count;
	uint16_t cpu[PROBE_NUMA_CPUS_MAX];
};

/* "0-3,8,10-11", as sysfs has it, ascending. -EINVAL: not such a list; -ERANGE: a number beyond PROBE_NUMA_CPUS_MAX. */
int probe_numa_parse_list(const char *text, struct probe_numa_cpus *ret);

/* The CPUs of a node; none is no error (a memory without cores, or none that we may use). -ENOTSUP: no such node. */
int probe_numa_cpus(int node, struct probe_numa_cpus *ret);
bool probe_numa_exists(int node);
/* Leaves one CPU of each core: two threads of one core move no more than one. */
void probe_numa_cores_only(struct probe_numa_cpus *cpus);

/* Bytes of last-level cache that these CPUs have between them; 0: the kernel does not say. */
size_t probe_numa_cache_bytes(const struct probe_numa_cpus *cpus);
/* Memory of the node that is free now; of the machine where the kernel does not tell them apart; 0: not known. */
size_t probe_numa_free_bytes(int node);

/* The calling thread runs on this CPU from now on. 0 or -errno. */
int probe_numa_pin(unsigned cpu);

/*
 * Pages of zeros on that node, all of them there already (no fault later), in huge pages where the kernel gives them.
 * -ENOTSUP: no such node, or its memory can be bound neither by call nor by a core of its own; -ENOMEM.
 */
int probe_numa_alloc(int node, size_t bytes, void **ret, struct diag *diag);
void probe_numa_free(void *memory, size_t bytes);

/* Runs work(arg) in a thread on the node's CPUs and waits for it. Its result, -ENOTSUP if the node has none, or -errno. */
int probe_numa_run(int node, int (*work)(void *arg), void *arg);

#endif
