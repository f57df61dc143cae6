/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/build.h"

#include "ncclmodel/limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVIDIA = 0x10de, GPU_MOST = 4096 };

static bool is_gpu(const struct discover_object *object)
{
	return object->type == HWLOC_XML_PCI && object->pci.vendor == NVIDIA && object->pci.class_code >> 16 == 0x03;
}

const struct gpu_inventory_device *discover_gpu_device(const struct gpu_inventory *gpus, const char *bus_id)
{
	for (size_t i = 0; gpus && *bus_id && i < gpus->device_count; i++)
		if (!strcmp(gpus->devices[i].bus_id, bus_id))
			return &gpus->devices[i];
	return NULL;
}

/* The N of hwloc's device "nvmlN" in a PCI device; -1. */
static int hwloc_index(const struct discover_build *build, uint32_t object)
{
	for (uint32_t i = build->first_child[object]; i != HWLOC_NONE; i = build->next_sibling[i]) {
		const struct discover_object *child = &build->tree->at[i];

		if (child->type == HWLOC_XML_DEVICE && child->device == HWLOC_XML_NVML)
			return (int)strtol(child->name + strlen("nvml"), NULL, 10);
	}
	return -1;
}

static bool number_taken(const struct discover_build *build, int number)
{
	for (uint32_t i = 0; i < build->tree->count; i++)
		if (build->gpu_index[i] == number)
			return true;
	return false;
}

static int compare_by_bus_id(const void *a, const void *b, void *arg)
{
	const struct discover_tree *tree = arg;

	return strcmp(tree->at[*(const uint32_t *)a].bus_id, tree->at[*(const uint32_t *)b].bus_id);
}

/* NVML's numbers, or hwloc's record of them, or the order of bus ids, which is NVML's order too. */
int discover_number_gpus(struct discover_build *build)
{
	const struct discover_tree *tree = build->tree;
	uint32_t *gpus = calloc(tree->count + 1, sizeof(*gpus));
	size_t count = 0;
	int next = 0;

	if (!gpus)
		return -ENOMEM;
	for (uint32_t i = 0; i < tree->count; i++)
		if (is_gpu(&tree->at[i]) && count < GPU_MOST)
			gpus[count++] = i;
	qsort_r(gpus, count, sizeof(*gpus), compare_by_bus_id, (void *)(uintptr_t)tree);
	for (size_t i = 0; i < count; i++) {
		const struct gpu_inventory_device *device = discover_gpu_device(build->gpus, tree->at[gpus[i]].bus_id);

		build->gpu_index[gpus[i]] = build->gpus ? (device ? (int)device->index : -1)
							: hwloc_index(build, gpus[i]);
	}
	for (size_t i = 0; i < count && !build->gpus; i++) {
		if (build->gpu_index[gpus[i]] >= 0)
			continue;
		while (number_taken(build, next))
			next++;
		build->gpu_index[gpus[i]] = next;
	}
	free(gpus);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ vertices */

/* Without NVML: region 1, the aperture to the GPU's memory. "0x... 0x... 0x...": first byte, last byte, flags. */
static uint64_t bar1_bytes(struct discover_root *root, const char *bus_id)
{
	char text[2048];
	const char *line;
	unsigned long long first, last;

	if (discover_root_read(root, text, sizeof(text), "sys/bus/pci/devices/%s/resource", bus_id) < 0)
		return 0;
	line = strchr(text, '\n');
	if (!line || sscanf(line + 1, "0x%16llx 0x%16llx", &first, &last) != 2 || last <= first)
		return 0;
	return last - first + 1;
}

static struct topology_vertex gpu_vertex(struct discover_build *build, uint32_t object, const char *name,
					 const struct gpu_inventory_device *device)
{
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_GPU, name);
	const struct discover_object *from = &build->tree->at[object];

	memcpy(vertex.bus_id, from->bus_id, sizeof(vertex.bus_id));
	memcpy(vertex.model, from->model, sizeof(vertex.model));
	vertex.pci = from->pci;
	vertex.gpu.index = build->gpu_index[object];
	vertex.gpu.mig = -1;
	vertex.gpu.gdr = build->gdr;
	if (!device) {
		vertex.gpu.bar1_bytes = bar1_bytes(build->root, from->bus_id);
		for (uint32_t i = build->first_child[object]; i != HWLOC_NONE; i = build->next_sibling[i])
			if (build->tree->at[i].device == HWLOC_XML_NVML && *build->tree->at[i].model)
				memcpy(vertex.model, build->tree->at[i].model, sizeof(vertex.model));
		return vertex;
	}
	if (*device->name)
		snprintf(vertex.model, sizeof(vertex.model), "%.*s", (int)sizeof(vertex.model) - 1, device->name);
	vertex.gpu.sm = device->sm;
	vertex.gpu.bar1_bytes = device->bar1_bytes;
	vertex.memory_bytes = device->memory_bytes;
	return vertex;
}

/* Slices of a GPU in MIG mode have its bus id and its link, which they share as the functions of one card do. */
static int add_slice(struct discover_build *build, uint32_t object, uint32_t upper, const char *port,
		     const struct gpu_inventory_device *device, const struct gpu_inventory_slice *slice)
{
	char name[TOPOLOGY_NAME_BYTES];
	struct topology_vertex vertex;
	uint32_t index;
	int r;

	snprintf(name, sizeof(name), "gpu%u.%u", device->index, slice->index);
	vertex = gpu_vertex(build, object, name, device);
	if (*slice->name)
		snprintf(vertex.model, sizeof(vertex.model), "%.*s", (int)sizeof(vertex.model) - 1, slice->name);
	vertex.gpu.mig = (int)slice->index;
	vertex.memory_bytes = slice->memory_bytes;
	r = discover_add_vertex(build, &vertex, &index);
	return r < 0 ? r : discover_pci_link(build, index, upper, port, &build->tree->at[object], device);
}

int discover_add_gpu(struct discover_build *build, uint32_t object, uint32_t upper, const char *port)
{
	const struct discover_object *from = &build->tree->at[object];
	const struct gpu_inventory_device *device = discover_gpu_device(build->gpus, from->bus_id);
	struct topology_vertex vertex;
	char name[TOPOLOGY_NAME_BYTES];
	uint32_t index;
	int r = 0;

	for (size_t i = 0; device && device->mig && i < device->slice_count && !r; i++)
		r = add_slice(build, object, upper, port, device, &device->slices[i]);
	if (device && device->mig)
		return r;
	snprintf(name, sizeof(name), "gpu%d", build->gpu_index[object]);
	vertex = gpu_vertex(build, object, name, device);
	r = discover_add_vertex(build, &vertex, &index);
	return r < 0 ? r : discover_pci_link(build, index, upper, port, from, device);
}

/* ------------------------------------------------------------------------------------------------------------- NVLinks */

static int add_nvlinks(struct discover_build *build, uint32_t from, uint32_t to, unsigned count, uint64_t nominal_Bps)
{
	struct topology_link link = topology_link_of(TOPOLOGY_LINK_NVLINK, from < to ? from : to,
						     from < to ? to : from);

	link.count = count;
	link.nominal_Bps = nominal_Bps;
	return discover_add_link(build, &link);
}

/*
 * One vertex for all NVSwitches of the machine, as NCCL has it: a GPU's links are spread over them, and a way through one of
 * several would look as if it had the links to that one alone.
 */
static int add_switch_links(struct discover_build *build, uint32_t from, unsigned count, uint64_t nominal_Bps)
{
	const struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_NVSWITCH, "nvswitch0");
	uint32_t to = topology_find(build->topology, vertex.name);
	int r = to == TOPOLOGY_NONE ? discover_add_vertex(build, &vertex, &to) : 0;

	return r < 0 ? r : add_nvlinks(build, from, to, count, nominal_Bps);
}

static uint32_t gpu_of(const struct discover_build *build, const struct gpu_inventory_device *device)
{
	char name[TOPOLOGY_NAME_BYTES];

	snprintf(name, sizeof(name), "gpu%u", device->index);
	return topology_find(build->topology, name);
}

enum { REMOTE_ELSEWHERE = -1, REMOTE_NVSWITCH = -2, REMOTE_CPU = -3 };

/* The index of the device at the other end, or one of the above. */
static int remote_of(const struct discover_build *build, const struct gpu_inventory_nvlink *link)
{
	const struct gpu_inventory_device *other = discover_gpu_device(build->gpus, link->remote_bus_id);

	if (!link->active)
		return REMOTE_ELSEWHERE;
	if (other)
		return (int)(other - build->gpus->devices);
	if (link->remote == GPU_NVML_REMOTE_NPU)
		return REMOTE_CPU;
	/* A guest may not be told what is there; a GPU of its own it would know. */
	return link->remote == GPU_NVML_REMOTE_GPU ? REMOTE_ELSEWHERE : REMOTE_NVSWITCH;
}

static unsigned count_to(const struct discover_build *build, const struct gpu_inventory_device *device, int remote)
{
	unsigned count = 0;

	for (size_t i = 0; i < device->nvlink_count; i++)
		count += remote_of(build, &device->nvlinks[i]) == remote;
	return count;
}

/* As NCCL counts a link's payload; of a GPU that it could not name, what NVML says of the wire. */
static uint64_t nvlink_Bps(const struct gpu_inventory_device *device)
{
	if (device->sm)
		return ncclmodel_nvlink_Bps(device->sm);
	return device->nvlink_count ? device->nvlinks[0].rate_Bps : 0;
}

static int device_nvlinks(struct discover_build *build, size_t index)
{
	const struct gpu_inventory_device *device = &build->gpus->devices[index];
	uint32_t from = gpu_of(build, device), to = TOPOLOGY_NONE;
	unsigned count;
	int r = 0;

	if (from == TOPOLOGY_NONE)
		return 0;
	for (size_t i = 0; i < build->gpus->device_count && !r; i++) {
		unsigned back = count_to(build, &build->gpus->devices[i], (int)index);

		count = count_to(build, device, (int)i);
		to = gpu_of(build, &build->gpus->devices[i]);
		/* Both ends tell of a link; the one that knows more is right. */
		if (i > index && to != TOPOLOGY_NONE && (count || back))
			r = add_nvlinks(build, from, to, count > back ? count : back,
					(count > back ? count : back) * nvlink_Bps(device));
	}
	count = count_to(build, device, REMOTE_CPU);
	to = topology_cpu_of(build->topology, from);
	if (!r && count && to != TOPOLOGY_NONE)
		r = add_nvlinks(build, from, to, count, count * nvlink_Bps(device));
	count = count_to(build, device, REMOTE_NVSWITCH);
	return !r && count ? add_switch_links(build, from, count, count * nvlink_Bps(device)) : r;
}

/* -------------------------------------------------------------------------------------------- NVLinks, as hwloc has them */

/* One NVLink of generation 2 or 3, by which hwloc's sum is divided. */
enum { HWLOC_NVLINK_MBPS = 25000 };

static uint32_t matrix_gpu(const struct discover_build *build, uint32_t end)
{
	char name[TOPOLOGY_NAME_BYTES];
	uint32_t pci;

	if (end == HWLOC_NONE)
		return TOPOLOGY_NONE;
	pci = build->tree->at[end].type == HWLOC_XML_DEVICE ? build->tree->at[end].parent : end;
	if (pci == HWLOC_NONE || build->gpu_index[pci] < 0)
		return TOPOLOGY_NONE;
	snprintf(name, sizeof(name), "gpu%d", build->gpu_index[pci]);
	return topology_find(build->topology, name);
}

static bool matrix_nvswitch(const struct discover_build *build, uint32_t end)
{
	return end != HWLOC_NONE && build->tree->at[end].type == HWLOC_XML_PCI && build->gpu_index[end] < 0;
}

static unsigned matrix_links(uint64_t rate_MBps)
{
	unsigned count = (unsigned)((rate_MBps + HWLOC_NVLINK_MBPS / 2) / HWLOC_NVLINK_MBPS);

	return count ? count : 1;
}

static int matrix_row(struct discover_build *build, size_t row)
{
	const struct discover_tree *tree = build->tree;
	uint32_t from = matrix_gpu(build, tree->nvlink_ends[row]), to;
	uint64_t to_switches_MBps = 0;
	int r = 0;

	if (from == TOPOLOGY_NONE)
		return 0;
	for (size_t i = 0; i < tree->nvlink_count && !r; i++) {
		uint64_t rate_MBps = tree->nvlink_MBps[row * tree->nvlink_count + i];

		if (!rate_MBps || i == row)
			continue;
		to = matrix_gpu(build, tree->nvlink_ends[i]);
		if (to != TOPOLOGY_NONE && i > row && to != from)
			r = add_nvlinks(build, from, to, matrix_links(rate_MBps), rate_MBps * 1000000);
		else if (matrix_nvswitch(build, tree->nvlink_ends[i]))
			to_switches_MBps += rate_MBps;
	}
	if (!r && to_switches_MBps)
		r = add_switch_links(build, from, matrix_links(to_switches_MBps), to_switches_MBps * 1000000);
	return r;
}

/* --------------------------------------------------------------------------------------------------------------- pairs */

static const struct gpu_inventory_device *device_of(const struct discover_build *build, uint32_t vertex, size_t *ret)
{
	const struct gpu_inventory_device *device = discover_gpu_device(build->gpus,
									build->topology->vertices[vertex].bus_id);

	if (device)
		*ret = (size_t)(device - build->gpus->devices);
	return device;
}

/* Slices have no P2P, whatever NVML says of their cards. */
static int add_pairs(struct discover_build *build)
{
	const struct topology *topology = build->topology;
	int r = 0;

	for (uint32_t from = 0; from < topology->vertex_count && !r; from++) {
		for (uint32_t to = 0; to < topology->vertex_count && !r; to++) {
			struct topology_pair pair = { .from = from, .to = to };
			enum gpu_nvml_p2p status;
			size_t a, b;

			if (from == to || topology->vertices[from].kind != TOPOLOGY_GPU ||
			    topology->vertices[to].kind != TOPOLOGY_GPU || !device_of(build, from, &a) ||
			    !device_of(build, to, &b))
				continue;
			status = gpu_inventory_p2p(build->gpus, a, b);
			if (topology->vertices[from].gpu.mig >= 0 || topology->vertices[to].gpu.mig >= 0)
				status = GPU_NVML_P2P_NOT_SUPPORTED;
			pair.p2p_works = status == GPU_NVML_P2P_OK;
			if (status != GPU_NVML_P2P_UNKNOWN)
				r = topology_add_pair(build->topology, &pair, NULL);
		}
	}
	if (r < 0 && r != -ENOMEM)
		diag_set(build->diag, 0, 0, "more pairs of GPUs than a graph can hold");
	return r == -ENOMEM || !r ? r : -EINVAL;
}

int discover_gpu_links(struct discover_build *build)
{
	int r = 0;

	if (!build->gpus) {
		for (size_t i = 0; i < build->tree->nvlink_count && !r; i++)
			r = matrix_row(build, i);
		return r;
	}
	for (size_t i = 0; i < build->gpus->device_count && !r; i++)
		r = device_nvlinks(build, i);
	return r ? r : add_pairs(build);
}
