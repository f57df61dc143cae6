/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "ncclmodel/limits.h"
#include "ncclxml/read/reader.h"
#include "ncclxml/read/xml.h"

enum { COUNT_MAX = 1024 };

/* Without an end NCCL gives up on the file; with more links than any GPU has it is no description of one. */
static int count_of(struct ncclxml_reader *reader, const struct ncclxml_element *element, unsigned *ret)
{
	const char *value = ncclxml_attribute(element, "count");
	int count = ncclxml_number_of(element, "count", 0);

	if (count < 1 || count > COUNT_MAX)
		return ncclxml_reader_fail(reader, element, "count \"%.40s\" of <%s> is not from 1 to %d",
					   value ? value : "", element->name, COUNT_MAX);
	*ret = (unsigned)count;
	return 0;
}

static bool begins(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

/* The first, as NCCL finds it, where a bus id is there twice. */
static uint32_t find_gpu(const struct topology *topology, const char *bus_id)
{
	for (uint32_t i = 0; i < topology->vertex_count; i++)
		if (topology->vertices[i].kind == TOPOLOGY_GPU && !strcmp(topology->vertices[i].bus_id, bus_id))
			return i;
	return TOPOLOGY_NONE;
}

/* TOPOLOGY_NONE: NCCL makes no link of it. */
static int find_peer(struct ncclxml_reader *reader, const struct ncclxml_element *nvlink, uint32_t gpu, uint32_t *ret)
{
	const char *class_text = ncclxml_attribute(nvlink, "tclass"), *target = ncclxml_attribute(nvlink, "target");
	struct topology *topology = &reader->topology;
	char bus_id[TOPOLOGY_BUS_ID_BYTES] = "";
	struct topology_vertex nvswitch;
	uint32_t peer = TOPOLOGY_NONE;

	if (target && ncclxml_reader_bus_id(target, bus_id))
		peer = find_gpu(topology, bus_id);
	/* Without a class NCCL looks in sysfs; what it does not find there it takes for an NVSwitch. */
	if (class_text ? begins(class_text, NCCLMODEL_CLASS_GPU) : peer != TOPOLOGY_NONE) {
		*ret = peer == gpu ? TOPOLOGY_NONE : peer;
		return 0;
	}
	if (class_text && begins(class_text, NCCLMODEL_CLASS_CPU)) {
		*ret = topology_cpu_of(topology, gpu);
		return 0;
	}
	*ret = topology_find(topology, "nvswitch0");
	if (*ret != TOPOLOGY_NONE)
		return 0;
	nvswitch = topology_vertex_of(TOPOLOGY_NVSWITCH, "nvswitch0");
	if (topology_find_bus_id(topology, bus_id) == TOPOLOGY_NONE)
		memcpy(nvswitch.bus_id, bus_id, sizeof(nvswitch.bus_id));
	return ncclxml_reader_vertex(reader, nvlink, &nvswitch, ret);
}

static uint32_t find_nvlink(const struct topology *topology, uint32_t lower, uint32_t upper)
{
	for (uint32_t i = 0; i < topology->link_count; i++)
		if (topology->links[i].kind == TOPOLOGY_LINK_NVLINK && topology->links[i].lower == lower &&
		    topology->links[i].upper == upper)
			return i;
	return TOPOLOGY_NONE;
}

static void grow(struct topology_capacity *capacity, uint64_t rate_Bps)
{
	capacity->rate_Bps += rate_Bps;
	capacity->provenance = capacity->rate_Bps ? TOPOLOGY_NOMINAL : TOPOLOGY_UNKNOWN;
}

/*
 * A GPU says how much it sends to a peer GPU, which says the same of the other direction; of a link to anything else it
 * speaks for both. Several elements for one pair add up.
 */
static int add_nvlink(struct ncclxml_reader *reader, const struct ncclxml_element *nvlink, uint32_t gpu)
{
	struct topology *topology = &reader->topology;
	struct topology_link *link;
	uint32_t peer = TOPOLOGY_NONE, at;
	uint64_t rate_Bps;
	unsigned count = 0;
	int r;

	r = count_of(reader, nvlink, &count);
	if (r < 0)
		return r;
	r = find_peer(reader, nvlink, gpu, &peer);
	if (r < 0 || peer == TOPOLOGY_NONE)
		return r;
	/* Without sm NCCL asks the GPU. */
	rate_Bps = topology->vertices[gpu].gpu.sm > 0 ? count * ncclmodel_nvlink_Bps(topology->vertices[gpu].gpu.sm)
						      : 0;
	at = find_nvlink(topology, gpu < peer ? gpu : peer, gpu < peer ? peer : gpu);
	if (at == TOPOLOGY_NONE) {
		struct topology_link fresh = topology_link_of(TOPOLOGY_LINK_NVLINK, gpu < peer ? gpu : peer,
							      gpu < peer ? peer : gpu);

		r = ncclxml_reader_link(reader, &fresh);
		if (r < 0)
			return r;
		at = (uint32_t)topology->link_count - 1;
		topology->links[at].count = 0;
	}
	link = &topology->links[at];
	grow(&link->capacity[gpu < peer ? TOPOLOGY_UP : TOPOLOGY_DOWN], rate_Bps);
	if (topology->vertices[peer].kind != TOPOLOGY_GPU)
		grow(&link->capacity[gpu < peer ? TOPOLOGY_DOWN : TOPOLOGY_UP], rate_Bps);
	/* The GPU with the lower index comes first; what the other one says is the same links seen from its end. */
	if (gpu < peer || topology->vertices[peer].kind != TOPOLOGY_GPU)
		link->count += count;
	else if (link->count < count)
		link->count = count;
	link->nominal_Bps = link->capacity[TOPOLOGY_UP].rate_Bps > link->capacity[TOPOLOGY_DOWN].rate_Bps
				    ? link->capacity[TOPOLOGY_UP].rate_Bps
				    : link->capacity[TOPOLOGY_DOWN].rate_Bps;
	return 0;
}

static int add_c2c(struct ncclxml_reader *reader, const struct ncclxml_element *c2c, uint32_t gpu)
{
	const char *value = ncclxml_attribute(c2c, "bw");
	int each_MBps = ncclxml_number_of(c2c, "bw", 0);
	struct topology_link link;
	unsigned count = 0;
	uint32_t cpu;
	int r;

	r = count_of(reader, c2c, &count);
	if (r < 0)
		return r;
	if (each_MBps < 1)
		return ncclxml_reader_fail(reader, c2c, "bw \"%.40s\" of <c2c> is no rate", value ? value : "");
	cpu = topology_cpu_of(&reader->topology, gpu);
	if (cpu == TOPOLOGY_NONE)
		return 0;
	link = topology_link_of(TOPOLOGY_LINK_C2C, gpu, cpu);
	link.count = count;
	ncclxml_reader_nominal(&link, (uint64_t)each_MBps * 1000000 * count);
	return ncclxml_reader_link(reader, &link);
}

int ncclxml_reader_gpu_links(struct ncclxml_reader *reader, const struct ncclxml_element *system)
{
	struct ncclxml_element *at = system->first;
	int r = 0;

	for (; at && r == 0; at = ncclxml_next(system, at)) {
		uint32_t gpu;

		/* Only what became a GPU: the first <gpu> of a <pci>, itself below a <cpu>. */
		if (strcmp(at->name, "gpu") || !at->user || !at->parent || strcmp(at->parent->name, "pci"))
			continue;
		gpu = at->user;
		if (find_gpu(&reader->topology, reader->topology.vertices[gpu].bus_id) != gpu)
			continue;
		for (const struct ncclxml_element *child = at->first; child && r == 0; child = child->next) {
			if (!strcmp(child->name, "nvlink"))
				r = add_nvlink(reader, child, gpu);
			else if (!strcmp(child->name, "c2c"))
				r = add_c2c(reader, child, gpu);
		}
	}
	return r;
}
