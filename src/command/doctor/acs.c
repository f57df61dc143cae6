/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IOMMU, and ACS: ports that send P2P traffic up to the root complex. At a switch this is a detour for devices of the same switch. At a
 * root port the traffic passes the root complex anyway; redirection matters there only if the IOMMU translates it.
 */
#include "command/doctor/doctor.h"

#include <stdio.h>
#include <string.h>

enum translation { TRANSLATION_OFF, TRANSLATION_ON, TRANSLATION_UNKNOWN };

/* A side of the traffic through a port: devices that may have P2P with the other side. */
struct side {
	size_t count;                     /* GPUs and RDMA NICs */
	uint32_t peer_gpu, any_gpu, rdma; /* one of each; TOPOLOGY_NONE. peer_gpu: has P2P with GPUs over PCIe */
};

struct port {
	const char *name;
	uint32_t upper;    /* what it is a port of */
	bool is_root;      /* of no switch */
	uint32_t from, to; /* two devices whose traffic it may redirect */
	bool requests, completions, known;
	enum translation translation; /* of what is below it */
};

static enum translation translation_of(const char *type)
{
	if (!type)
		return TRANSLATION_UNKNOWN;
	return strcmp(type, "none") != 0 && strcmp(type, "off") != 0 && strcmp(type, "identity") != 0 ? TRANSLATION_ON
												      : TRANSLATION_OFF;
}

/* By the type of the device's own group; where it is not known, by the machine's. */
static enum translation device_translation(const struct doctor *doctor, const char *bus_id)
{
	struct doctor_fact fact;
	const char *type = doctor_find_fact(doctor, "device", bus_id, &fact) ? doctor_fact_value(&fact, "iommu") : NULL;

	if (!type)
		type = doctor_find_fact(doctor, "iommu", NULL, &fact) ? doctor_fact_value(&fact, "state") : NULL;
	return translation_of(type);
}

bool doctor_iommu_translates(const struct doctor *doctor)
{
	struct doctor_fact fact;

	return doctor_find_fact(doctor, "iommu", NULL, &fact) &&
	       (doctor_fact_is(&fact, "state", "translated") || doctor_fact_is(&fact, "state", "mixed"));
}

/* GPUs behind an NVSwitch reach each other by it. */
static bool on_nvswitch(const struct topology *topology, uint32_t gpu)
{
	for (size_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];

		if (link->kind == TOPOLOGY_LINK_NVLINK &&
		    ((link->lower == gpu && topology->vertices[link->upper].kind == TOPOLOGY_NVSWITCH) ||
		     (link->upper == gpu && topology->vertices[link->lower].kind == TOPOLOGY_NVSWITCH)))
			return true;
	}
	return false;
}

static void add_device(const struct topology *topology, uint32_t vertex, struct side *side)
{
	const struct topology_vertex *at = &topology->vertices[vertex];

	if (at->kind == TOPOLOGY_NIC && at->nic.rdma) {
		side->rdma = vertex;
	} else if (at->kind == TOPOLOGY_GPU) {
		side->any_gpu = vertex;
		/* Slices have P2P with NICs alone. */
		if (at->gpu.mig < 0 && !on_nvswitch(topology, vertex))
			side->peer_gpu = vertex;
	} else {
		return;
	}
	side->count++;
}

static bool choose(uint32_t from, uint32_t to, struct port *port)
{
	if (from == TOPOLOGY_NONE || to == TOPOLOGY_NONE)
		return false;
	port->from = from;
	port->to = to;
	return true;
}

/* Whether the port is on a path between two GPUs, or a GPU and a NIC, and decides where their traffic goes. */
static bool is_between(const struct doctor *doctor, struct port *port)
{
	const struct topology *topology = doctor->topology;
	struct side below = { 0, TOPOLOGY_NONE, TOPOLOGY_NONE, TOPOLOGY_NONE }, beside = below;

	port->translation = TRANSLATION_OFF;
	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		enum topology_kind kind = topology->vertices[i].kind;
		uint32_t child = i, above = i;
		bool is_below;

		if (kind != TOPOLOGY_GPU && kind != TOPOLOGY_NIC)
			continue;
		/* The child of `upper` that the device hangs on, and by which port. */
		for (size_t steps = 0;
		     above != TOPOLOGY_NONE && above != port->upper && steps <= topology->vertex_count; steps++) {
			child = above;
			above = doctor_above(topology, above);
		}
		is_below = above == port->upper &&
			   !strcmp(topology->links[topology_uplink(topology, child)].pci.port, port->name);
		if (!is_below && !port->is_root && above != port->upper)
			continue;
		add_device(topology, i, is_below ? &below : &beside);
		if (is_below) {
			enum translation own = device_translation(doctor, topology->vertices[i].bus_id);

			if (port->translation != TRANSLATION_ON && own != TRANSLATION_OFF)
				port->translation = own;
		}
	}
	return choose(below.peer_gpu, beside.peer_gpu, port) || choose(below.any_gpu, beside.rdma, port) ||
	       choose(below.rdma, beside.any_gpu, port);
}

static bool find_upper(const struct topology *topology, struct port *port)
{
	for (size_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];

		if (link->kind != TOPOLOGY_LINK_PCI || strcmp(link->pci.port, port->name) != 0)
			continue;
		port->upper = link->upper;
		port->is_root = topology->vertices[link->upper].kind != TOPOLOGY_SWITCH;
		return true;
	}
	return false;
}

/* The next port that is between devices, with what is known of it. */
static bool next_port(const struct doctor *doctor, struct doctor_fact *fact, struct port *ret)
{
	fact->what = "acs";
	while (doctor_next_fact(doctor, fact)) {
		ret->name = fact->subject;
		if (!find_upper(doctor->topology, ret) || !is_between(doctor, ret))
			continue;
		ret->known = doctor_fact_value(fact, "state");
		ret->requests = doctor_fact_is(fact, "ReqRedir", "1");
		ret->completions = doctor_fact_is(fact, "CmpltRedir", "1");
		return true;
	}
	return false;
}

void doctor_iommu(struct doctor *doctor)
{
	struct doctor_fact fact, ports = { .what = NULL };
	size_t redirecting = 0;
	struct port port;
	char more[64] = "";
	uint64_t translated = 0;

	doctor->known = doctor_find_fact(doctor, "iommu", NULL, &fact) && doctor_fact_value(&fact, "state");
	if (!doctor_iommu_translates(doctor))
		return;
	(void)doctor_fact_number(&fact, "translated", &translated);
	while (next_port(doctor, &ports, &port))
		redirecting += (port.requests || port.completions) && port.translation == TRANSLATION_ON;
	if (redirecting)
		snprintf(more, sizeof(more), ", and %zu ports send P2P through it (see acs)", redirecting);
	doctor_add(doctor, DOCTOR_WARNING, "machine", "the IOMMU translates for %llu devices%s",
		   (unsigned long long)translated, more);
}

static void add_finding(struct doctor *doctor, const struct port *port)
{
	const struct topology_vertex *vertices = doctor->topology->vertices;
	const char *what = !port->completions ? "requests"
			   : !port->requests  ? "completions"
					      : "requests and completions";
	char of[TOPOLOGY_NAME_BYTES + 16] = "a root port";

	if (!port->is_root)
		snprintf(of, sizeof(of), "a port of %s", vertices[port->upper].name);
	if (port->translation == TRANSLATION_ON)
		doctor_add(
			doctor, DOCTOR_WARNING, port->name,
			"%s redirects %s to the root, and the IOMMU translates them: P2P of %s and %s is slow or hangs",
			of, what, vertices[port->from].name, vertices[port->to].name);
	else if (!port->is_root)
		doctor_add(doctor, DOCTOR_WARNING, port->name, "%s redirects %s to the root: so for P2P of %s and %s",
			   of, what, vertices[port->from].name, vertices[port->to].name);
	else if (port->translation == TRANSLATION_UNKNOWN)
		doctor_add(
			doctor, DOCTOR_UNKNOWN, port->name,
			"%s redirects %s: it matters to P2P of %s and %s if the IOMMU translates, which is not known",
			of, what, vertices[port->from].name, vertices[port->to].name);
}

/* Of two GPUs, or a GPU and a NIC; 0: nothing has P2P over PCIe here. */
static bool any_traffic(const struct topology *topology)
{
	struct side all = { 0, TOPOLOGY_NONE, TOPOLOGY_NONE, TOPOLOGY_NONE };

	for (uint32_t i = 0; i < topology->vertex_count; i++)
		add_device(topology, i, &all);
	return all.any_gpu != TOPOLOGY_NONE && all.count > 1;
}

void doctor_acs(struct doctor *doctor)
{
	struct doctor_fact fact = { .what = NULL };
	size_t unread = 0, between = 0;
	struct port port;

	if (!any_traffic(doctor->topology)) {
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there is one GPU, and no RDMA device");
		return;
	}
	while (next_port(doctor, &fact, &port)) {
		between++;
		/* What a root port does matters only to an IOMMU that translates. */
		unread += !port.known && (!port.is_root || port.translation != TRANSLATION_OFF);
		if (port.requests || port.completions)
			add_finding(doctor, &port);
	}
	if (unread)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine",
			   "ACS of %zu ports between GPUs, or a GPU and a NIC, cannot be read; root can", unread);
	else if (!between && !doctor_has_facts(doctor))
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "nothing is known of the ports");
}
