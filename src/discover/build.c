/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/build.h"

#include "base/sys.h"
#include "ncclmodel/limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------------- CPUs */

/* The CPU of a NUMA node: the package that it is in, or one that is near it, or any. */
static const struct discover_object *package_of(const struct discover_tree *tree, const struct discover_object *node)
{
	const struct discover_object *any = NULL;

	for (uint32_t i = node->parent; i != HWLOC_NONE; i = tree->at[i].parent)
		if (tree->at[i].type == HWLOC_XML_PACKAGE)
			return &tree->at[i];
	for (uint32_t i = 0; i < tree->count; i++) {
		if (tree->at[i].type != HWLOC_XML_PACKAGE)
			continue;
		if (tree->at[i].node == node->os_index)
			return &tree->at[i];
		any = any ? any : &tree->at[i];
	}
	return any;
}

/* As NCCL writes it. hwloc has uname's word, or none in an older file. */
static const char *architecture_of(const struct discover_tree *tree, const char *vendor)
{
	if (!strcmp(tree->architecture, "aarch64"))
		return "arm64";
	if (!strncmp(tree->architecture, "ppc64", 5))
		return "ppc64";
	if (!*tree->architecture && (!strcmp(vendor, "GenuineIntel") || !strcmp(vendor, "AuthenticAMD")))
		return "x86_64";
	return tree->architecture;
}

static int add_cpu(struct discover_build *build, int number, const struct discover_object *node)
{
	const struct discover_object *package = node ? package_of(build->tree, node) : NULL;
	struct topology_vertex vertex;
	char name[TOPOLOGY_NAME_BYTES];
	struct topology_link link;
	uint32_t cpu, memory;
	int r;

	snprintf(name, sizeof(name), "cpu%d", number);
	vertex = topology_vertex_of(TOPOLOGY_CPU, name);
	vertex.cpu.numa = number;
	if (package) {
		memcpy(vertex.model, package->model, sizeof(vertex.model));
		memcpy(vertex.cpu.vendor, package->vendor, sizeof(vertex.cpu.vendor));
		vertex.cpu.family = package->family;
		vertex.cpu.model = package->cpu_model;
	}
	snprintf(vertex.cpu.architecture, sizeof(vertex.cpu.architecture), "%s",
		 architecture_of(build->tree, vertex.cpu.vendor));
	if (node)
		memcpy(vertex.cpu.affinity, node->cpus, sizeof(node->cpus));
	r = discover_add_vertex(build, &vertex, &cpu);
	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "memory%d", number);
	vertex = topology_vertex_of(TOPOLOGY_MEMORY, name);
	vertex.cpu.numa = number;
	vertex.memory_bytes = node ? node->memory_bytes : 0;
	r = discover_add_vertex(build, &vertex, &memory);
	if (r < 0)
		return r;
	link = topology_link_of(TOPOLOGY_LINK_MEMORY, memory, cpu);
	return discover_add_link(build, &link);
}

/* Nodes without cores (memory of a GPU, CXL memory) are no place that a device hangs on; they are facts, not vertices. */
static int add_cpus(struct discover_build *build)
{
	size_t count = 0;
	int r = 0;

	for (uint32_t i = 0; i < build->tree->count && !r; i++) {
		const struct discover_object *node = &build->tree->at[i];

		if (node->type == HWLOC_XML_NODE && node->has_cpus) {
			r = add_cpu(build, node->os_index, node);
			count++;
		}
	}
	return !r && !count ? add_cpu(build, 0, NULL) : r;
}

static int add_sockets(struct discover_build *build)
{
	const struct topology *topology = build->topology;
	int r = 0;

	for (uint32_t a = 0; a < topology->vertex_count; a++) {
		for (uint32_t b = a + 1; b < topology->vertex_count && !r; b++) {
			struct topology_link link = topology_link_of(TOPOLOGY_LINK_SOCKET, a, b);
			const uint32_t ends[2] = { a, b };

			if (topology->vertices[a].kind != TOPOLOGY_CPU || topology->vertices[b].kind != TOPOLOGY_CPU)
				continue;
			for (size_t i = 0; i < 2; i++) {
				link.capacity[i].rate_Bps = ncclmodel_socket_Bps(&topology->vertices[ends[i]].cpu);
				if (link.capacity[i].rate_Bps)
					link.capacity[i].provenance = TOPOLOGY_ASSUMED;
			}
			r = discover_add_link(build, &link);
		}
	}
	return r;
}

/* --------------------------------------------------------------------------------------------------------- the PCI tree */

/* Children in the order of the file. */
static void index_children(struct discover_build *build)
{
	const struct discover_tree *tree = build->tree;

	for (uint32_t i = 0; i < tree->count; i++)
		build->first_child[i] = build->next_sibling[i] = HWLOC_NONE;
	for (uint32_t i = tree->count; i--;) {
		uint32_t parent = tree->at[i].parent;

		if (parent == HWLOC_NONE)
			continue;
		build->next_sibling[i] = build->first_child[parent];
		build->first_child[parent] = i;
	}
}

/* A card in MIG mode that has no slice can be used by nobody. */
static bool usable_gpu(const struct discover_build *build, uint32_t object)
{
	const struct gpu_inventory_device *device = discover_gpu_device(build->gpus, build->tree->at[object].bus_id);

	return build->gpu_index[object] >= 0 && !(device && device->mig && !device->slice_count);
}

static void mark_wanted(struct discover_build *build)
{
	for (uint32_t i = 0; i < build->tree->count; i++) {
		if (build->tree->at[i].type != HWLOC_XML_PCI || (!usable_gpu(build, i) && !discover_is_nic(build, i)))
			continue;
		for (uint32_t at = i; at != HWLOC_NONE && !build->wanted[at]; at = build->tree->at[at].parent)
			build->wanted[at] = true;
	}
}

static int walk(struct discover_build *build, uint32_t object, uint32_t upper, const char *port, bool below_port);

static int walk_children(struct discover_build *build, uint32_t object, uint32_t upper, const char *port,
			 bool below_port)
{
	int r = 0;

	for (uint32_t i = build->first_child[object]; i != HWLOC_NONE && !r; i = build->next_sibling[i])
		if (build->wanted[i])
			r = walk(build, i, upper, port, below_port);
	return r;
}

/* A switch is its upstream bridge with the downstream bridges behind it. */
static int add_switch(struct discover_build *build, uint32_t object, uint32_t upper, const char *port, uint32_t *ret)
{
	const struct discover_object *from = &build->tree->at[object];
	char name[TOPOLOGY_NAME_BYTES];
	struct topology_vertex vertex;
	int r;

	snprintf(name, sizeof(name), "switch:%s", from->bus_id);
	vertex = topology_vertex_of(TOPOLOGY_SWITCH, name);
	memcpy(vertex.bus_id, from->bus_id, sizeof(vertex.bus_id));
	memcpy(vertex.model, from->model, sizeof(vertex.model));
	vertex.pci = from->pci;
	r = discover_add_vertex(build, &vertex, ret);
	return r < 0 ? r : discover_pci_link(build, *ret, upper, port, from, NULL);
}

/*
 * below_port: `port` is the root port or downstream port above this; otherwise this is on the bus inside a host bridge or
 * switch, where bridges are ports.
 */
static int walk(struct discover_build *build, uint32_t object, uint32_t upper, const char *port, bool below_port)
{
	const struct discover_object *at = &build->tree->at[object];
	uint32_t vertex;
	int r = 0;

	if (at->type == HWLOC_XML_PCI) {
		if (build->gpu_index[object] >= 0 && usable_gpu(build, object))
			r = discover_add_gpu(build, object, upper, port);
		if (!r && discover_is_nic(build, object))
			r = discover_add_nics(build, object, upper, port);
		return r;
	}
	if (at->type != HWLOC_XML_BRIDGE || at->host_bridge)
		return 0;
	if (!below_port)
		return walk_children(build, object, upper, at->bus_id, true);
	r = add_switch(build, object, upper, port, &vertex);
	return r < 0 ? r : walk_children(build, object, vertex, "", false);
}

/* The CPU that a part of the tree hangs on; the first where that is not known. */
static uint32_t cpu_near(const struct discover_build *build, const struct discover_object *object)
{
	char name[TOPOLOGY_NAME_BYTES];
	uint32_t cpu;

	snprintf(name, sizeof(name), "cpu%d", object->node);
	cpu = topology_find(build->topology, name);
	for (uint32_t i = 0; cpu == TOPOLOGY_NONE && i < build->topology->vertex_count; i++)
		if (build->topology->vertices[i].kind == TOPOLOGY_CPU)
			cpu = i;
	return cpu;
}

static int add_bridge(struct discover_build *build, const struct discover_object *object, unsigned domain, unsigned bus,
		      uint32_t *ret)
{
	struct topology_vertex vertex;
	struct topology_link link;
	char name[TOPOLOGY_NAME_BYTES];
	int r;

	snprintf(name, sizeof(name), "bridge:%04x:%02x", domain, bus);
	*ret = topology_find(build->topology, name);
	if (*ret != TOPOLOGY_NONE)
		return 0;
	vertex = topology_vertex_of(TOPOLOGY_BRIDGE, name);
	snprintf(vertex.bus_id, sizeof(vertex.bus_id), "%04x:%02x", domain, bus);
	r = discover_add_vertex(build, &vertex, ret);
	if (r < 0)
		return r;
	link = topology_link_of(TOPOLOGY_LINK_INTERNAL, *ret, cpu_near(build, object));
	return discover_add_link(build, &link);
}

/* Host bridges; and what has none above it, as in a file that was written without bridges. */
static int add_tree(struct discover_build *build)
{
	const struct discover_tree *tree = build->tree;
	int r = 0;

	for (uint32_t i = 0; i < tree->count && !r; i++) {
		const struct discover_object *object = &tree->at[i];
		bool inside = object->parent != HWLOC_NONE && (tree->at[object->parent].type == HWLOC_XML_BRIDGE ||
							       tree->at[object->parent].type == HWLOC_XML_PCI);
		unsigned domain, bus;
		uint32_t bridge;

		if (!build->wanted[i] || (inside && !object->host_bridge) ||
		    (object->type != HWLOC_XML_BRIDGE && object->type != HWLOC_XML_PCI))
			continue;
		if (object->host_bridge) {
			r = add_bridge(build, object, object->domain, object->secondary, &bridge);
			if (!r)
				r = walk_children(build, i, bridge, "", false);
		} else if (sscanf(object->bus_id, "%x:%x", &domain, &bus) == 2) {
			r = add_bridge(build, object, domain, bus, &bridge);
			if (!r)
				r = walk(build, i, bridge, "", false);
		}
	}
	return r;
}

/* ------------------------------------------------------------------------------------------------------------ the whole */

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..."; or "... Open Kernel Module for x86_64  550.54.15". */
static void read_driver(struct discover_build *build)
{
	char text[1024], word[64];
	bool open_modules = false;
	unsigned major, minor;

	if (discover_root_read(build->root, text, sizeof(text), "proc/driver/nvidia/version") == 0) {
		open_modules = strstr(text, "Open Kernel Module") != NULL;
		for (const char *at = strstr(text, "Kernel Module"); at && *at; at += strspn(at, " ")) {
			size_t bytes = strcspn(at, " \n");

			if (at[bytes] == '\n' || bytes >= sizeof(word))
				break;
			snprintf(word, sizeof(word), "%.*s", (int)bytes, at);
			if (sscanf(word, "%u.%u", &major, &minor) == 2) {
				snprintf(build->topology->driver, sizeof(build->topology->driver), "nvidia %s", word);
				break;
			}
			at += bytes;
		}
	}
	if (build->gpus && *build->gpus->driver)
		snprintf(build->topology->driver, sizeof(build->topology->driver), "nvidia %.64s", build->gpus->driver);
	build->gdr = open_modules || discover_root_exists(build->root, "sys/module/nvidia_peermem") ||
		     discover_root_exists(build->root, "sys/module/nv_peer_mem");
}

static int fill(struct discover_build *build)
{
	int r;

	index_children(build);
	read_driver(build);
	r = discover_number_gpus(build);
	if (!r)
		mark_wanted(build);
	if (!r)
		r = add_cpus(build);
	if (!r)
		r = add_sockets(build);
	if (!r)
		r = add_tree(build);
	if (!r)
		r = discover_shared_slots(build);
	if (!r)
		r = discover_gpu_links(build);
	if (!r)
		discover_number_cards(build);
	return r;
}

int discover_graph(struct discover_root *root, const struct discover_tree *tree, const struct gpu_inventory *gpus,
		   struct topology *ret, struct diag *diag)
{
	struct discover_build *build = calloc(1, sizeof(*build));
	struct topology topology;
	size_t count = tree->count;
	void *arrays;
	int r = -ENOMEM;

	topology_init(&topology);
	if (!build)
		return r;
	*build = (struct discover_build){
		.root = root, .tree = tree, .gpus = gpus, .topology = &topology, .diag = diag
	};
	arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(build->first_child, count), SYS_ARRAY(build->next_sibling, count),
				      SYS_ARRAY(build->wanted, count), SYS_ARRAY(build->gpu_index, count) },
		4);
	if (arrays) {
		memset(build->gpu_index, 0xff, count * sizeof(*build->gpu_index));
		r = fill(build);
	}
	sys_free(arrays);
	free(build);
	if (r < 0)
		topology_fini(&topology);
	else
		*ret = topology;
	return r;
}
