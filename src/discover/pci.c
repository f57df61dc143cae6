/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/build.h"

#include "base/parse.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES_MOST = 32 };

/* "8.0 GT/s PCIe"; older kernels "8 GT/s". 0: "Unknown". */
static unsigned generation_of(const char *text)
{
	static const char *const speeds[] = { "2.5", "5", "8", "16", "32", "64", "128" };
	size_t bytes;

	for (unsigned i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		bytes = strlen(speeds[i]);
		if (strncmp(text, speeds[i], bytes))
			continue;
		if (!strncmp(text + bytes, ".0", 2))
			bytes += 2;
		if (!strncmp(text + bytes, " GT/s", 5))
			return i + 1;
	}
	return 0;
}

static unsigned read_generation(struct discover_root *root, const char *bus_id, const char *file)
{
	char text[64];

	if (!*bus_id || discover_root_read(root, text, sizeof(text), "sys/bus/pci/devices/%s/%s", bus_id, file) < 0)
		return 0;
	return generation_of(text);
}

/* The kernel writes 0 or 255 for what it does not know. */
static unsigned read_lanes(struct discover_root *root, const char *bus_id, const char *file)
{
	int64_t lanes;

	if (!*bus_id || discover_root_number(root, &lanes, "sys/bus/pci/devices/%s/%s", bus_id, file) < 0)
		return 0;
	return lanes >= 1 && lanes <= LANES_MOST ? (unsigned)lanes : 0;
}

static unsigned least_known(unsigned a, unsigned b)
{
	return !a ? b : !b ? a : a < b ? a : b;
}

static unsigned first_known(unsigned a, unsigned b)
{
	return a ? a : b;
}

/*
 * hwloc's speed is lanes × rate without the line code: 0.25 and 0.5 GB/s for generations 1 and 2, then 8, 16, ... GT/s
 * × 128/130. Which generation with how many lanes it was cannot be told (3.94 is Gen3 ×4 and Gen4 ×2), but the payload can:
 * it is the same, as NCCL counts it.
 */
static uint64_t payload_of(double link_GBps)
{
	double quarters = link_GBps / 0.25;
	double factor = fabs(quarters - nearbyint(quarters)) < 1e-4 ? 0.75 : 0.75 / (8.0 * 128 / 130 / 8);
	double rate_Bps = link_GBps * factor * 1e9;

	/* In steps of the slowest lane, so that six decimals become the round number again. */
	return (uint64_t)(nearbyint(rate_Bps / 187.5e6) * 187.5e6);
}

static void read_link(struct discover_build *build, const char *bus_id, const char *port,
		      const struct gpu_inventory_device *gpu, struct topology_pci_link *pci)
{
	struct discover_root *root = build->root;

	pci->generation = first_known(read_generation(root, bus_id, "current_link_speed"),
				      read_generation(root, port, "current_link_speed"));
	pci->lanes = first_known(read_lanes(root, bus_id, "current_link_width"),
				 read_lanes(root, port, "current_link_width"));
	pci->most_generation = least_known(read_generation(root, bus_id, "max_link_speed"),
					   read_generation(root, port, "max_link_speed"));
	pci->most_lanes = least_known(read_lanes(root, bus_id, "max_link_width"),
				      read_lanes(root, port, "max_link_width"));
	if (!gpu)
		return;
	pci->generation = first_known(pci->generation, gpu->generation);
	pci->lanes = first_known(pci->lanes, gpu->lanes);
	pci->most_generation = least_known(pci->most_generation, gpu->most_generation);
	pci->most_lanes = least_known(pci->most_lanes, gpu->most_lanes);
}

int discover_pci_link(struct discover_build *build, uint32_t lower, uint32_t upper, const char *port,
		      const struct discover_object *object, const struct gpu_inventory_device *gpu)
{
	struct topology_link link = topology_link_of(TOPOLOGY_LINK_PCI, lower, upper);
	bool idles = object->pci.class_code >> 16 == 0x03;
	unsigned generation;

	read_link(build, object->bus_id, port, gpu, &link.pci);
	snprintf(link.pci.port, sizeof(link.pci.port), "%s", port);
	/* A GPU lowers its speed when it has nothing to do, not its width. */
	generation = idles ? first_known(link.pci.most_generation, link.pci.generation) : link.pci.generation;
	link.nominal_Bps = topology_pci_Bps(generation, link.pci.lanes);
	if (!link.nominal_Bps && object->link_GBps > 0)
		link.nominal_Bps = payload_of(object->link_GBps);
	return discover_add_link(build, &link);
}

/* ---------------------------------------------------------------------------------------------------- behind one port */

/* What names a slot: its port, or what is in it where a guest or a file shows no ports. */
static const char *slot_of(const struct topology *topology, const struct topology_link *link)
{
	return *link->pci.port ? link->pci.port : topology->vertices[link->lower].bus_id;
}

static bool same_slot(const struct topology *topology, const struct topology_link *a, const struct topology_link *b)
{
	const char *slot = slot_of(topology, a);

	return a->kind == TOPOLOGY_LINK_PCI && b->kind == TOPOLOGY_LINK_PCI && a->upper == b->upper && *slot &&
	       !strcmp(slot, slot_of(topology, b));
}

static int add_slot(struct discover_build *build, const struct topology_link *link, const uint32_t *members,
		    size_t count, uint64_t nominal_Bps, enum topology_direction direction)
{
	struct topology_capacity capacity = { .rate_Bps = nominal_Bps,
					      .provenance = nominal_Bps ? TOPOLOGY_NOMINAL : TOPOLOGY_UNKNOWN };
	char name[TOPOLOGY_NAME_BYTES];

	snprintf(name, sizeof(name), "slot:%s.%s", slot_of(build->topology, link),
		 direction == TOPOLOGY_UP ? "up" : "down");
	return discover_add_limit(build, name, &capacity, members, count);
}

static int add_slots(struct discover_build *build, uint32_t first, uint32_t *members)
{
	struct topology *topology = build->topology;
	uint64_t nominal_Bps = 0;
	size_t count = 0;
	int r;

	for (uint32_t i = 0; i < topology->link_count; i++) {
		if (!same_slot(topology, &topology->links[first], &topology->links[i]))
			continue;
		if (i < first)
			return 0; /* its group is done */
		members[count++] = topology_directed(i, TOPOLOGY_UP);
		if (topology->links[i].nominal_Bps > nominal_Bps)
			nominal_Bps = topology->links[i].nominal_Bps;
	}
	if (count < 2)
		return 0;
	r = add_slot(build, &topology->links[first], members, count, nominal_Bps, TOPOLOGY_UP);
	for (size_t i = 0; i < count; i++)
		members[i] = topology_directed(members[i] / 2, TOPOLOGY_DOWN);
	if (!r)
		r = add_slot(build, &topology->links[first], members, count, nominal_Bps, TOPOLOGY_DOWN);
	return r;
}

int discover_shared_slots(struct discover_build *build)
{
	uint32_t *members = calloc(build->topology->link_count + 1, sizeof(*members));
	int r = members ? 0 : -ENOMEM;

	for (uint32_t i = 0; !r && i < build->topology->link_count; i++)
		if (build->topology->links[i].kind == TOPOLOGY_LINK_PCI)
			r = add_slots(build, i, members);
	free(members);
	return r;
}
