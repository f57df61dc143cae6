/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA: RoCE's addresses, packets and flow control; what devices and drivers allow. */
#include "command/doctor/doctor.h"

#include <stdio.h>
#include <string.h>

enum {
	LARGEST_PACKET = 4096, /* the most that InfiniBand's transport knows */
	ROCE_HEADERS = 96,     /* the kernel sets aside so many bytes of the MTU for headers and checksum */
	/*
	 * A process has a few queue pairs for each peer and channel: eight GPUs in a ring and trees of 32 channels make
	 * some thousands.
	 */
	FEW_OBJECTS = 1024,
	MANY_OBJECTS = 8192,
};

static const char *interface_of(const struct topology *topology, const char *nic)
{
	uint32_t index = topology_find(topology, nic);

	return index == TOPOLOGY_NONE ? "" : topology->vertices[index].nic.interface;
}

/* "00010000": a digit for each priority. */
static bool any_priority(const char *digits)
{
	return digits && strchr(digits, '1');
}

struct roce_port {
	struct doctor_fact fact; /* "rdma" */
	const char *nic;
	size_t count;
};

/* The next RoCE port: all zero before the first. Says at the end if there is none. */
static bool next_roce_port(struct doctor *doctor, struct roce_port *port)
{
	port->fact.what = "rdma";
	while (doctor_next_fact(doctor, &port->fact)) {
		const char *layer = doctor_fact_value(&port->fact, "link_layer");

		doctor->known += layer != NULL;
		if (!layer || strcmp(layer, "Ethernet") != 0)
			continue;
		port->nic = port->fact.subject;
		port->count++;
		return true;
	}
	if (!doctor->known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "it is not known whether the RDMA devices are RoCE");
	else if (!port->count)
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there is no RoCE port");
	return false;
}

static bool find_roce(const struct doctor *doctor, const struct roce_port *port, struct doctor_fact *ret)
{
	return doctor_find_fact(doctor, "roce", interface_of(doctor->topology, port->nic), ret);
}

void doctor_roce(struct doctor *doctor)
{
	struct roce_port port = { .count = 0 };
	struct doctor_fact fact;

	while (next_roce_port(doctor, &port)) {
		const char *pfc, *notify, *react;
		bool ecn;

		if (!find_roce(doctor, &port, &fact)) {
			doctor_add(doctor, DOCTOR_UNKNOWN, port.nic, "it has no interface that tells of PFC and ECN");
			continue;
		}
		pfc = doctor_fact_value(&fact, "pfc");
		notify = doctor_fact_value(&fact, "ecn_notify");
		react = doctor_fact_value(&fact, "ecn_react");
		ecn = notify && react;
		if (any_priority(pfc) || (any_priority(notify) && any_priority(react)))
			continue;
		if (pfc && ecn)
			doctor_add(doctor, DOCTOR_WARNING, port.nic,
				   "neither PFC (%s) nor ECN (%s, %s) on any priority", pfc, notify, react);
		else if (pfc || ecn)
			doctor_add(doctor, DOCTOR_UNKNOWN, port.nic, "%s is off, and the driver does not show %s",
				   pfc ? "PFC" : "ECN", pfc ? "ECN" : "PFC");
		else
			doctor_add(doctor, DOCTOR_UNKNOWN, port.nic, "the driver shows neither PFC nor ECN");
	}
}

/* ----------------------------------------------------------------------------------------------------- addresses, packets */

void doctor_roce_gid(struct doctor *doctor)
{
	struct roce_port port = { .count = 0 };
	struct doctor_fact fact;

	while (next_roce_port(doctor, &port)) {
		const char *state = doctor_fact_value(&port.fact, "state"), *first = NULL;
		uint64_t v1, v2;

		if (state && strcmp(state, "ACTIVE") != 0)
			continue; /* without a link there are no addresses; nic-speed says so */
		if (doctor_find_fact(doctor, "gids", port.nic, &fact) && doctor_fact_number(&fact, "v1", &v1) &&
		    doctor_fact_number(&fact, "v2", &v2))
			first = doctor_fact_value(&fact, "ipv4");
		if (!first)
			doctor_add(doctor, DOCTOR_UNKNOWN, port.nic, "its addresses are not known");
		else if (!v2)
			doctor_add(doctor, DOCTOR_WARNING, port.nic,
				   "%llu addresses of RoCE v1, none of v2: no router passes them",
				   (unsigned long long)v1);
		else if (!strcmp(first, "none"))
			doctor_add(doctor, DOCTOR_WARNING, port.nic,
				   "%llu addresses of RoCE v2, none of them made of an IPv4 address",
				   (unsigned long long)v2);
	}
}

void doctor_roce_packet(struct doctor *doctor)
{
	struct roce_port port = { .count = 0 };
	struct doctor_fact fact;

	while (next_roce_port(doctor, &port)) {
		uint64_t bytes, mtu = 0;
		bool known = doctor_fact_number(&port.fact, "packet_bytes", &bytes);

		if (doctor_find_fact(doctor, "interface", interface_of(doctor->topology, port.nic), &fact))
			(void)doctor_fact_number(&fact, "mtu", &mtu);
		/* As the kernel reckons it: what the MTU leaves beside the headers, rounded down to a power of two. */
		if (!known && mtu) {
			for (bytes = LARGEST_PACKET; bytes > 256 && bytes + ROCE_HEADERS > mtu;)
				bytes /= 2;
			known = true;
		}
		if (!known)
			doctor_add(doctor, DOCTOR_UNKNOWN, port.nic,
				   "neither the device nor its interface says how long packets are");
		else if (bytes < LARGEST_PACKET)
			doctor_add(doctor, DOCTOR_NOTE, port.nic,
				   "packets of %llu bytes; %u need an MTU of %u, the interface has %llu",
				   (unsigned long long)bytes, LARGEST_PACKET, LARGEST_PACKET + ROCE_HEADERS,
				   (unsigned long long)mtu);
	}
}

/* Whether a DSCP of "10:1,26:3" leads to a priority that has flow control. */
static bool leads_to_pfc(const char *dscp, const char *pfc)
{
	for (const char *at = dscp; *at; at += strcspn(at, ","), at += *at == ',') {
		unsigned mark, priority;

		if (sscanf(at, "%2u:%1u", &mark, &priority) == 2 && priority < strlen(pfc) && pfc[priority] == '1')
			return true;
	}
	return false;
}

/* Flow control is for priorities, and a packet has the one that its mark gives it. */
void doctor_roce_trust(struct doctor *doctor)
{
	struct roce_port port = { .count = 0 };
	struct doctor_fact fact;

	while (next_roce_port(doctor, &port)) {
		const char *pfc, *trust, *dscp;

		pfc = find_roce(doctor, &port, &fact) ? doctor_fact_value(&fact, "pfc") : NULL;
		if (!pfc) {
			doctor_add(doctor, DOCTOR_UNKNOWN, port.nic, "the driver does not show PFC");
			continue;
		}
		if (!any_priority(pfc) || *pfc == '1')
			continue; /* roce speaks of none; priority 0 is what packets without a mark have */
		trust = doctor_fact_value(&fact, "trust");
		dscp = doctor_fact_value(&fact, "dscp"); /* NULL: the hardware's own table, which nothing shows */
		if (!trust)
			doctor_add(doctor, DOCTOR_UNKNOWN, port.nic,
				   "PFC is on (%s), and the driver does not show what it trusts", pfc);
		else if (strcmp(trust, "dscp") != 0)
			doctor_add(doctor, DOCTOR_WARNING, port.nic,
				   "PFC is on (%s), but the port trusts %s: packets without a VLAN are of priority 0",
				   pfc, trust);
		else if (dscp && !leads_to_pfc(dscp, pfc))
			doctor_add(doctor, DOCTOR_WARNING, port.nic,
				   "PFC is on (%s), but no DSCP leads to such a priority (%s)", pfc, dscp);
	}
}

/* ---------------------------------------------------------------------------------------------------- devices and limits */

static bool is_software(const struct doctor_fact *port)
{
	uint64_t soft;

	return doctor_fact_number(port, "soft", &soft) && soft;
}

void doctor_relaxed_ordering(struct doctor *doctor)
{
	struct doctor_fact fact = { .what = "rdma" }, port;
	size_t unknown = 0, software = 0;
	uint64_t on;

	while (doctor_next_fact(doctor, &fact))
		software += is_software(&fact);
	fact = (struct doctor_fact){ .what = "device" };
	while (doctor_next_fact(doctor, &fact)) {
		const char *name = doctor_fact_value(&fact, "name");
		uint32_t vertex = name ? topology_find(doctor->topology, name) : TOPOLOGY_NONE;

		if (vertex == TOPOLOGY_NONE || doctor->topology->vertices[vertex].kind != TOPOLOGY_NIC ||
		    !doctor->topology->vertices[vertex].nic.rdma)
			continue;
		/* Software writes memory itself. */
		if (doctor_find_fact(doctor, "rdma", name, &port) && is_software(&port))
			continue;
		if (!doctor_fact_number(&fact, "relaxed_ordering", &on)) {
			unknown++;
			continue;
		}
		doctor->known++;
		if (!on)
			doctor_add(doctor, DOCTOR_NOTE, name, "its PCIe function may not use relaxed ordering");
	}
	if (unknown)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine",
			   "the settings of %zu RDMA devices cannot be read; root can", unknown);
	else if (!doctor->known && software)
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "the RDMA devices are made of software");
	else if (!doctor->known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the settings of the RDMA devices are not known");
}

void doctor_gpudirect(struct doctor *doctor)
{
	uint64_t dmabuf, peermem;
	struct doctor_fact fact;

	doctor->known = doctor_find_fact(doctor, "gpudirect", NULL, &fact);
	if (doctor->known && doctor_fact_number(&fact, "dmabuf", &dmabuf) &&
	    doctor_fact_number(&fact, "peermem", &peermem) && !dmabuf && !peermem)
		doctor_add(doctor, DOCTOR_WARNING, "machine",
			   "neither DMA-BUF (open kernel modules) nor nvidia_peermem");
}

void doctor_rdma_limits(struct doctor *doctor)
{
	static const struct {
		const char *key, *word;
	} limits[] = { { "max_qp", "queue pairs" }, { "max_mr", "memory regions" } };
	struct doctor_fact fact = { .what = "rdma" };
	uint64_t most;

	while (doctor_next_fact(doctor, &fact)) {
		for (size_t i = 0; i < 2; i++) {
			if (!doctor_fact_number(&fact, limits[i].key, &most))
				continue;
			doctor->known++;
			if (most < MANY_OBJECTS)
				doctor_add(doctor, most < FEW_OBJECTS ? DOCTOR_WARNING : DOCTOR_NOTE, fact.subject,
					   "at most %llu %s", (unsigned long long)most, limits[i].word);
		}
	}
}
