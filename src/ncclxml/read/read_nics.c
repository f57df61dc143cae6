/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ncclmodel/limits.h"
#include "ncclxml/read/reader.h"
#include "ncclxml/read/xml.h"

enum { SHARED_MAX = 4096 }; /* NICs of one slot or wire; the reader accepts no more elements */

/* Mb/s, and 10000 for what is no speed. Without the attribute NCCL asks the net plugin: unknown here. */
static uint64_t speed_of(const struct ncclxml_element *net)
{
	int mbit = ncclxml_number_of(net, "speed", 0);

	if (!ncclxml_attribute(net, "speed"))
		return 0;
	return (uint64_t)(mbit > 0 ? mbit : NCCLMODEL_NET_FALLBACK_MBPS) * 125000;
}

static uint64_t latency_of(const struct ncclxml_element *net)
{
	const char *value = ncclxml_attribute(net, "latency");
	double latency_us = value ? strtod(value, NULL) : 0;

	return latency_us > 0 && latency_us < 1e9 ? (uint64_t)(latency_us * 1e3 + 0.5) : 0;
}

static struct topology_nic nic_of(const struct ncclxml_element *net)
{
	const char *guid = ncclxml_attribute(net, "guid");
	struct topology_nic nic = topology_vertex_of(TOPOLOGY_NIC, "nic").nic;

	nic.port = ncclxml_number_of(net, "port", 0);
	nic.guid = guid ? strtoull(guid, NULL, 16) : 0;
	nic.speed_Bps = speed_of(net);
	nic.latency_ns = latency_of(net);
	nic.max_connections = ncclxml_number_of(net, "maxconn", 0);
	nic.gdr = ncclxml_number_of(net, "gdr", 0) > 0;
	nic.collnet = ncclxml_number_of(net, "coll", 0) > 0;
	return nic;
}

/* The wire of a NIC: known by guid and port, else its own. */
static int find_wire(struct ncclxml_reader *reader, const struct ncclxml_element *net, uint32_t nic, uint32_t *ret)
{
	const struct topology_vertex *vertex = &reader->topology.vertices[nic];
	char name[2 * TOPOLOGY_NAME_BYTES];
	struct topology_vertex wire;

	if (vertex->nic.guid)
		snprintf(name, sizeof(name), "net:0x%" PRIx64 "/%d", vertex->nic.guid, vertex->nic.port);
	else
		snprintf(name, sizeof(name), "net:%s", vertex->name + strlen("nic:"));
	*ret = topology_find(&reader->topology, name);
	if (*ret != TOPOLOGY_NONE && reader->topology.vertices[*ret].kind == TOPOLOGY_NETWORK)
		return 0;
	wire = topology_vertex_of(TOPOLOGY_NETWORK, name);
	return ncclxml_reader_vertex(reader, net, &wire, ret);
}

static int add_nic(struct ncclxml_reader *reader, const struct ncclxml_element *net,
		   const struct topology_vertex *vertex, const struct topology_link *slot, uint32_t *ret)
{
	struct topology_link link = *slot;
	uint32_t wire;
	int r;

	r = ncclxml_reader_vertex(reader, net, vertex, ret);
	if (r < 0)
		return r;
	link.lower = *ret;
	r = ncclxml_reader_link(reader, &link);
	if (r < 0)
		return r;
	r = find_wire(reader, net, *ret, &wire);
	if (r < 0)
		return r;
	link = topology_link_of(TOPOLOGY_LINK_NETWORK, *ret, wire);
	ncclxml_reader_nominal(&link, vertex->nic.speed_Bps);
	return ncclxml_reader_link(reader, &link);
}

/* Both directions of links that share what is behind them, each its own limit: as wide as the widest. */
static int add_limits(struct ncclxml_reader *reader, const char *name, const uint32_t *links, size_t count)
{
	struct topology_capacity capacity = { .provenance = TOPOLOGY_NOMINAL };
	uint32_t members[SHARED_MAX], limit;
	char whole[2 * TOPOLOGY_NAME_BYTES];
	int r = 0;

	for (size_t i = 0; i < count; i++)
		if (reader->topology.links[links[i]].nominal_Bps > capacity.rate_Bps)
			capacity.rate_Bps = reader->topology.links[links[i]].nominal_Bps;
	if (!capacity.rate_Bps)
		return 0;
	for (unsigned direction = TOPOLOGY_UP; direction <= TOPOLOGY_DOWN && r == 0; direction++) {
		const char *word = direction == TOPOLOGY_UP ? "up" : "down";

		for (size_t i = 0; i < count; i++)
			members[i] = topology_directed(links[i], (enum topology_direction)direction);
		snprintf(whole, sizeof(whole), "%s.%s", name, word);
		/* A card whose bus id is there twice. */
		for (unsigned i = 2; topology_find_limit(&reader->topology, whole) != TOPOLOGY_NONE; i++)
			snprintf(whole, sizeof(whole), "%s~%u.%s", name, i, word);
		r = topology_add_limit(&reader->topology, whole, &capacity, members, count, &limit);
	}
	if (r == 0 || r == -ENOMEM)
		return r;
	diag_set(reader->diag, 0, 0, "%s cannot be a limit", name);
	return -EINVAL;
}

/*
 * Since 2.30 NCCL writes net="0" for a device that one of its other plugins has (GIN, RMA, CollNet), or that is a part of
 * a virtual one. No message goes through it.
 */
static bool carries_messages(const struct ncclxml_element *net)
{
	return ncclxml_number_of(net, "net", 1) != 0;
}

int ncclxml_reader_nics(struct ncclxml_reader *reader, const struct ncclxml_element *holder,
			const struct topology_vertex *facts, const struct topology_link *slot)
{
	char name[TOPOLOGY_BUS_ID_BYTES + 8];
	struct topology_vertex vertex;
	uint32_t links[SHARED_MAX];
	bool unknown = slot->kind == TOPOLOGY_LINK_PCI;
	size_t count = 0;
	uint32_t index;
	int r = 0;

	for (const struct ncclxml_element *net = holder->first; net && r == 0; net = net->next) {
		const char *own = ncclxml_attribute(net, "name");
		char long_name[TOPOLOGY_NAME_BYTES];

		if (strcmp(net->name, "net"))
			continue;
		unknown = false;
		if (!carries_messages(net))
			continue;
		if (own && strlen(own) + sizeof("nic:") > sizeof(long_name))
			return ncclxml_reader_fail(reader, net, "the name of a <net> is longer than %zu characters",
						   sizeof(long_name) - sizeof("nic:"));
		if (own)
			snprintf(long_name, sizeof(long_name), "nic:%s", own);
		else
			snprintf(long_name, sizeof(long_name), "nic:%s.%zu", facts->bus_id, count);
		vertex = topology_vertex_of(TOPOLOGY_NIC, long_name);
		vertex.nic = nic_of(net);
		vertex.pci = facts->pci;
		memcpy(vertex.bus_id, facts->bus_id, sizeof(vertex.bus_id));
		r = add_nic(reader, net, &vertex, slot, &index);
		if (r == 0)
			links[count++] = topology_uplink(&reader->topology, index);
	}
	if (r == 0 && count > 1 && slot->kind == TOPOLOGY_LINK_PCI) {
		snprintf(name, sizeof(name), "%s.slot", facts->bus_id);
		return add_limits(reader, name, links, count);
	}
	if (r < 0 || !unknown)
		return r;
	/* A card of which nothing but its place is known: its <net> will come from the net plugin. */
	snprintf(name, sizeof(name), "nic:%s", facts->bus_id);
	vertex = topology_vertex_of(TOPOLOGY_NIC, name);
	vertex.pci = facts->pci;
	memcpy(vertex.bus_id, facts->bus_id, sizeof(vertex.bus_id));
	return add_nic(reader, holder, &vertex, slot, &index);
}

int ncclxml_reader_virtual_nics(struct ncclxml_reader *reader, const struct ncclxml_element *nic, uint32_t cpu)
{
	struct topology_vertex facts = topology_vertex_of(TOPOLOGY_NIC, "nic");
	struct topology_link link = topology_link_of(TOPOLOGY_LINK_INTERNAL, TOPOLOGY_NONE, cpu);

	/* NCCL takes 5000 GB/s: no limit. */
	return ncclxml_reader_nics(reader, nic, &facts, &link);
}

int ncclxml_reader_wires(struct ncclxml_reader *reader)
{
	const struct topology *topology = &reader->topology;
	uint32_t links[SHARED_MAX];
	int r = 0;

	for (uint32_t i = 0; i < topology->vertex_count && r == 0; i++) {
		size_t count = 0;

		if (topology->vertices[i].kind != TOPOLOGY_NETWORK)
			continue;
		for (uint32_t k = 0; k < topology->link_count && count < SHARED_MAX; k++)
			if (topology->links[k].kind == TOPOLOGY_LINK_NETWORK && topology->links[k].upper == i)
				links[count++] = k;
		if (count > 1)
			r = add_limits(reader, topology->vertices[i].name, links, count);
	}
	return r;
}
