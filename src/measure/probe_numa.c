/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_numa.h"

#include "base/log.h"
#include "base/parse.h"
#include "base/sys.h"
#include "base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES "/sys/devices/system/node"
#define CPUS  "/sys/devices/system/cpu"

enum {
	POLICY_BIND = 2, /* MPOL_BIND of linux/mempolicy.h, which not every C library installs */
	NODES_MAX = 1024,
	HUGE_PAGE_BYTES = 2 << 20, /* only to round by: a size that is none on this machine does no harm */
	CACHE_INDEX_MAX = 8,
};

/* "Name:  123 kB" somewhere in a file, in bytes; 0 when it is not there. */
static size_t kilobytes_read(const char *path, const char *name)
{
	char line[256];
	FILE *file = fopen(path, "re");
	unsigned long long value;
	size_t bytes = 0;

	while (file && fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, name);

		if (at && sscanf(at + strlen(name), " %llu kB", &value) == 1) {
			bytes = (size_t)value << 10;
			break;
		}
	}
	if (file)
		fclose(file);
	return bytes;
}

int probe_numa_parse_list(const char *text, struct probe_numa_cpus *ret)
{
	const char *rest = text, *item;
	struct probe_numa_cpus *cpus = ret;
	size_t bytes, count = 0;
	uint64_t low, high;
	int r;

	while (parse_list_next(&rest, ',', &item, &bytes)) {
		char number[32];

		if (bytes >= sizeof(number))
			return -EINVAL;
		memcpy(number, item, bytes);
		number[bytes] = '\0';
		if (memchr(number, '-', bytes)) {
			r = parse_range(number, 0, PROBE_NUMA_CPUS_MAX - 1, &low, &high);
		} else {
			r = parse_u64(number, 0, PROBE_NUMA_CPUS_MAX - 1, &low);
			high = low;
		}
		if (r < 0)
			return r;
		if (count && low <= cpus->cpu[count - 1])
			return -EINVAL;
		for (uint64_t cpu = low; cpu <= high; cpu++)
			cpus->cpu[count++] = (uint16_t)cpu;
	}
	cpus->count = count;
	return 0;
}

/* A kernel without NUMA has one node, 0, and no folder for it. */
static bool kernel_has_nodes(void)
{
	return !access(NODES "/node0", F_OK);
}

bool probe_numa_exists(int node)
{
	char path[96];

	if (node < 0 || node >= NODES_MAX)
		return false;
	snprintf(path, sizeof(path), NODES "/node%d", node);
	return !access(path, F_OK) || (node == 0 && !kernel_has_nodes());
}

/* Takes away what this process may not use. */
static void allowed_only(struct probe_numa_cpus *cpus)
{
	cpu_set_t allowed[PROBE_NUMA_CPUS_MAX / CPU_SETSIZE];
	size_t kept = 0;

	CPU_ZERO_S(sizeof(allowed), allowed);
	if (sched_getaffinity(0, sizeof(allowed), allowed))
		return;
	for (size_t i = 0; i < cpus->count; i++)
		if (CPU_ISSET_S(cpus->cpu[i], sizeof(allowed), allowed))
			cpus->cpu[kept++] = cpus->cpu[i];
	cpus->count = kept;
}

int probe_numa_cpus(int node, struct probe_numa_cpus *ret)
{
	char path[96], text[4096];
	int r;

	if (!probe_numa_exists(node))
		return -ENOTSUP;
	if (kernel_has_nodes())
		snprintf(path, sizeof(path), NODES "/node%d/cpulist", node);
	else
		snprintf(path, sizeof(path), CPUS "/online");
	r = text_file_value(AT_FDCWD, path, text, sizeof(text));
	if (r < 0)
		return r;
	r = probe_numa_parse_list(text, ret);
	if (r < 0)
		return r;
	allowed_only(ret);
	return 0;
}

void probe_numa_cores_only(struct probe_numa_cpus *cpus)
{
	struct probe_numa_cpus *siblings = malloc(sizeof(*siblings));
	bool *taken = calloc(PROBE_NUMA_CPUS_MAX, sizeof(*taken));
	char path[128], text[4096];
	size_t kept = 0;

	for (size_t i = 0; siblings && taken && i < cpus->count; i++) {
		unsigned cpu = cpus->cpu[i];

		if (taken[cpu])
			continue;
		cpus->cpu[kept++] = (uint16_t)cpu;
		snprintf(path, sizeof(path), CPUS "/cpu%u/topology/thread_siblings_list", cpu);
		if (text_file_value(AT_FDCWD, path, text, sizeof(text)) < 0 ||
		    probe_numa_parse_list(text, siblings) < 0)
			continue;
		for (size_t k = 0; k < siblings->count; k++)
			taken[siblings->cpu[k]] = true;
	}
	if (kept)
		cpus->count = kept;
	free(siblings);
	free(taken);
}

/* A CPU's share of the largest cache that it reads through. */
static double cache_share(unsigned cpu)
{
	static const char folder[] = CPUS "/cpu%u/cache/index%u/%s";
	char path[128], text[4096];
	struct probe_numa_cpus *sharing = malloc(sizeof(*sharing));
	double share = 0, largest = 0;
	uint64_t bytes;

	for (unsigned index = 0; sharing && index < CACHE_INDEX_MAX; index++) {
		snprintf(path, sizeof(path), folder, cpu, index, "size");
		if (text_file_value(AT_FDCWD, path, text, sizeof(text)) < 0)
			break;
		if (parse_size(text, 1, SIZE_MAX, &bytes) < 0 || (double)bytes < largest)
			continue;
		snprintf(path, sizeof(path), folder, cpu, index, "shared_cpu_list");
		if (text_file_value(AT_FDCWD, path, text, sizeof(text)) < 0 ||
		    probe_numa_parse_list(text, sharing) < 0 || !sharing->count)
			continue;
		largest = (double)bytes;
		share = largest / (double)sharing->count;
	}
	free(sharing);
	return share;
}

size_t probe_numa_cache_bytes(const struct probe_numa_cpus *cpus)
{
	double bytes = 0;

	for (size_t i = 0; i < cpus->count; i++)
		bytes += cache_share(cpus->cpu[i]);
	return (size_t)bytes;
}

size_t probe_numa_free_bytes(int node)
{
	char path[96];
	size_t bytes, reclaimable;

	snprintf(path, sizeof(path), NODES "/node%d/meminfo", node);
	bytes = kilobytes_read(path, "MemFree:");
	if (!bytes)
		return kilobytes_read("/proc/meminfo", "MemAvailable:");
	/* Clean pages of files go when someone wants the memory. */
	reclaimable = kilobytes_read(path, "Inactive(file):");
	return bytes + reclaimable;
}

int probe_numa_pin(unsigned cpu)
{
	cpu_set_t set[PROBE_NUMA_CPUS_MAX / CPU_SETSIZE];

	CPU_ZERO_S(sizeof(set), set);
	if (cpu >= PROBE_NUMA_CPUS_MAX)
		return -EINVAL;
	CPU_SET_S(cpu, sizeof(set), set);
	return sched_setaffinity(0, sizeof(set), set) ? -errno : 0;
}

static size_t round_up(size_t bytes)
{
	return (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

static int bind_to(int node, void *memory, size_t bytes)
{
	unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))] = { 0 };

	mask[(size_t)node / (8 * sizeof(mask[0]))] = 1ul << ((size_t)node % (8 * sizeof(mask[0])));
	/* The kernel reads one bit less than it is told. */
	return syscall(SYS_mbind, memory, bytes, POLICY_BIND, mask, (unsigned long)NODES_MAX + 1, 0u) ? -errno : 0;
}

struct touch {
	volatile char *memory;
	size_t bytes;
};

static int touch_pages(void *arg)
{
	const struct touch *touch = arg;
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t at = 0; at < touch->bytes; at += page_bytes)
		touch->memory[at] = 0;
	return 0;
}

struct on_node {
	int (*work)(void *arg);
	void *arg;
	const struct probe_numa_cpus *cpus;
	int result;
};

static void *run_on_node(void *arg)
{
	struct on_node *job = arg;
	cpu_set_t set[PROBE_NUMA_CPUS_MAX / CPU_SETSIZE];

	CPU_ZERO_S(sizeof(set), set);
	for (size_t i = 0; i < job->cpus->count; i++)
		CPU_SET_S(job->cpus->cpu[i], sizeof(set), set);
	job->result = sched_setaffinity(0, sizeof(set), set) ? -errno : job->work(job->arg);
	return NULL;
}

int probe_numa_run(int node, int (*work)(void *arg), void *arg)
{
	struct probe_numa_cpus *cpus = malloc(sizeof(*cpus));
	struct on_node job = { work, arg, cpus, 0 };
	pthread_t thread;
	int r = -ENOMEM;

	if (!cpus)
		return r;
	r = probe_numa_cpus(node, cpus);
	if (!r && !cpus->count)
		r = -ENOTSUP;
	if (!r)
		r = sys_thread_start(run_on_node, &job, "numa", &thread);
	if (!r) {
		pthread_join(thread, NULL);
		r = job.result;
	}
	free(cpus);
	return r;
}

int probe_numa_alloc(int node, size_t bytes, void **ret, struct diag *diag)
{
	struct touch touch;
	void *memory;
	int r, bound;

	if (!probe_numa_exists(node)) {
		diag_set(diag, 0, 0, "this machine has no NUMA node %d", node);
		return -ENOTSUP;
	}
	memory = mmap(NULL, round_up(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		diag_set(diag, 0, 0, "no %zu bytes of memory for NUMA node %d", bytes, node);
		return -ENOMEM;
	}
	madvise(memory, round_up(bytes), MADV_HUGEPAGE); /* an improvement only */
	bound = bind_to(node, memory, round_up(bytes));
	touch = (struct touch){ memory, round_up(bytes) };
	r = probe_numa_run(node, touch_pages, &touch);
	/* A memory without cores (CXL) is filled from anywhere, if only the kernel was told where. So is the only memory. */
	if (r < 0 && (!bound || !kernel_has_nodes()))
		r = touch_pages(&touch);
	if (r < 0) {
		diag_set(diag, 0, 0, "memory of NUMA node %d cannot be had: mbind: %s, and no core of it is ours", node,
			 strerror(-bound));
		probe_numa_free(memory, bytes);
		return r == -ENOMEM ? r : -ENOTSUP;
	}
	*ret = memory;
	return 0;
}

void probe_numa_free(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, round_up(bytes));
}
