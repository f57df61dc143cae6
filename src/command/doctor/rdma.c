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

static bool find_fact(const struct doctor *doctor, const char *what, const char *subject, struct doctor_fact *ret)
{
	const char *at = NULL;
	char name[TOPOLOGY_NAME_BYTES];

	while (doctor_next_fact(doctor, what, &at, ret)) {
		doctor_fact_subject(ret, name, sizeof(name));
		if (!strcmp(name, subject))
			return true;
	}
	return false;
}

static const char *interface_of(const struct topology *topology, const char *nic)
{
	uint32_t index = topology_find(topology, nic);

	return index == TOPOLOGY_NONE ? "" : topology->vertices[index].nic.interface;
}

/* "00010000": a digit for each priority. */
static bool any_priority(const char *digits)
{
	return strchr(digits, '1') != NULL;
}

static void examine_roce(struct doctor *doctor, const char *nic, const struct doctor_fact *port)
{
	char pfc[16], notify[16], react[16];
	struct doctor_fact fact;
	bool known_pfc, known_ecn;

	(void)port;
	if (!find_fact(doctor, "roce", interface_of(doctor->topology, nic), &fact)) {
		doctor_add(doctor, DOCTOR_UNKNOWN, nic, "it has no interface that tells of PFC and ECN");
		return;
	}
	known_pfc = doctor_fact_value(&fact, "pfc", pfc, sizeof(pfc));
	known_ecn = doctor_fact_value(&fact, "ecn_notify", notify, sizeof(notify));
	known_ecn &= doctor_fact_value(&fact, "ecn_react", react, sizeof(react));
	if ((known_pfc && any_priority(pfc)) || (known_ecn && any_priority(notify) && any_priority(react)))
		return;
	if (known_pfc && known_ecn)
		doctor_add(doctor, DOCTOR_WARNING, nic, "neither PFC (%s) nor ECN (%s, %s) on any priority", pfc,
			   notify, react);
	else if (known_pfc || known_ecn)
		doctor_add(doctor, DOCTOR_UNKNOWN, nic, "%s is off, and the driver does not show %s",
			   known_pfc ? "PFC" : "ECN", known_pfc ? "ECN" : "PFC");
	else
		doctor_add(doctor, DOCTOR_UNKNOWN, nic, "the driver shows neither PFC nor ECN");
}

/* Calls examine for each RoCE port. */
static void each_roce_port(struct doctor *doctor,
			   void (*examine)(struct doctor *doctor, const char *nic, const struct doctor_fact *port))
{
	char nic[TOPOLOGY_NAME_BYTES], layer[32];
	struct doctor_fact fact;
	const char *at = NULL;
	size_t count = 0, known = 0;

	while (doctor_next_fact(doctor, "rdma", &at, &fact)) {
		if (!doctor_fact_value(&fact, "link_layer", layer, sizeof(layer)))
			continue;
		known++;
		if (strcmp(layer, "Ethernet") != 0)
			continue;
		count++;
		doctor_fact_subject(&fact, nic, sizeof(nic));
		examine(doctor, nic, &fact);
	}
	if (!known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "it is not known whether the RDMA devices are RoCE");
	else if (!count)
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there is no RoCE port");
}

void doctor_roce(struct doctor *doctor)
{
	each_roce_port(doctor, examine_roce);
}

/* ----------------------------------------------------------------------------------------------------- addresses, packets */

static void examine_gids(struct doctor *doctor, const char *nic, const struct doctor_fact *port)
{
	char state[32], first[16];
	struct doctor_fact fact;
	uint64_t v1, v2;

	if (doctor_fact_value(port, "state", state, sizeof(state)) && strcmp(state, "ACTIVE") != 0)
		return; /* without a link there are no addresses; nic-speed says so */
	if (!find_fact(doctor, "gids", nic, &fact) || !doctor_fact_number(&fact, "v1", &v1) ||
	    !doctor_fact_number(&fact, "v2", &v2) || !doctor_fact_value(&fact, "ipv4", first, sizeof(first)))
		doctor_add(doctor, DOCTOR_UNKNOWN, nic, "its addresses are not known");
	else if (!v2)
		doctor_add(doctor, DOCTOR_WARNING, nic, "%llu addresses of RoCE v1, none of v2: no router passes them",
			   (unsigned long long)v1);
	else if (!strcmp(first, "none"))
		doctor_add(doctor, DOCTOR_WARNING, nic,
			   "%llu addresses of RoCE v2, none of them made of an IPv4 address", (unsigned long long)v2);
}

void doctor_roce_gid(struct doctor *doctor)
{
	each_roce_port(doctor, examine_gids);
}

static void examine_packet(struct doctor *doctor, const char *nic, const struct doctor_fact *port)
{
	uint64_t bytes, mtu = 0;
	struct doctor_fact fact;
	bool known = doctor_fact_number(port, "packet_bytes", &bytes);

	if (find_fact(doctor, "interface", interface_of(doctor->topology, nic), &fact))
		(void)doctor_fact_number(&fact, "mtu", &mtu);
	if (!known && mtu) {
		/* As the kernel reckons it: what the MTU leaves beside the headers, rounded down to a power of two. */
		for (bytes = LARGEST_PACKET; bytes > 256 && bytes + ROCE_HEADERS > mtu;)
			bytes /= 2;
		known = true;
	}
	if (!known)
		doctor_add(doctor, DOCTOR_UNKNOWN, nic,
			   "neither the device nor its interface says how long packets are");
	else if (bytes < LARGEST_PACKET)
		doctor_add(doctor, DOCTOR_NOTE, nic,
			   "packets of %llu bytes; %u need an MTU of %u, the interface has %llu",
			   (unsigned long long)bytes, LARGEST_PACKET, LARGEST_PACKET + ROCE_HEADERS,
			   (unsigned long long)mtu);
}

void doctor_roce_packet(struct doctor *doctor)
{
	each_roce_port(doctor, examine_packet);
}

/* Flow control is for priorities, and a packet has the one that its mark gives it. */
static void examine_trust(struct doctor *doctor, const char *nic, const struct doctor_fact *port)
{
	char pfc[16], trust[16], dscp[64];
	struct doctor_fact fact;
	const char *at = dscp;

	(void)port;
	if (!find_fact(doctor, "roce", interface_of(doctor->topology, nic), &fact) ||
	    !doctor_fact_value(&fact, "pfc", pfc, sizeof(pfc))) {
		doctor_add(doctor, DOCTOR_UNKNOWN, nic, "the driver does not show PFC");
		return;
	}
	if (!any_priority(pfc) || *pfc == '1')
		return; /* roce speaks of none; priority 0 is what packets without a mark have */
	if (!doctor_fact_value(&fact, "trust", trust, sizeof(trust))) {
		doctor_add(doctor, DOCTOR_UNKNOWN, nic, "PFC is on (%s), and the driver does not show what it trusts",
			   pfc);
		return;
	}
	if (strcmp(trust, "dscp") != 0) {
		doctor_add(doctor, DOCTOR_WARNING, nic,
			   "PFC is on (%s), but the port trusts %s: packets without a VLAN are of priority 0", pfc,
			   trust);
		return;
	}
	if (!doctor_fact_value(&fact, "dscp", dscp, sizeof(dscp)))
		return; /* the hardware's own table, which nothing shows */
	for (; *at; at += strcspn(at, ","), at += *at == ',') {
		unsigned mark, priority;

		if (sscanf(at, "%2u:%1u", &mark, &priority) == 2 && priority < strlen(pfc) && pfc[priority] == '1')
			return;
	}
	doctor_add(doctor, DOCTOR_WARNING, nic, "PFC is on (%s), but no DSCP leads to such a priority (%s)", pfc, dscp);
}

void doctor_roce_trust(struct doctor *doctor)
{
	each_roce_port(doctor, examine_trust);
}

/* ---------------------------------------------------------------------------------------------------- devices and limits */

void doctor_relaxed_ordering(struct doctor *doctor)
{
	char name[TOPOLOGY_NAME_BYTES];
	struct doctor_fact fact;
	const char *at = NULL;
	size_t unknown = 0, known = 0, software = 0;
	uint64_t on, soft;

	while (doctor_next_fact(doctor, "rdma", &at, &fact))
		software += doctor_fact_number(&fact, "soft", &soft) && soft;
	at = NULL;
	while (doctor_next_fact(doctor, "device", &at, &fact)) {
		uint32_t vertex = TOPOLOGY_NONE;
		struct doctor_fact port;

		if (doctor_fact_value(&fact, "name", name, sizeof(name)))
			vertex = topology_find(doctor->topology, name);
		if (vertex == TOPOLOGY_NONE || doctor->topology->vertices[vertex].kind != TOPOLOGY_NIC ||
		    !doctor->topology->vertices[vertex].nic.rdma)
			continue;
		/* Software writes memory itself. */
		if (find_fact(doctor, "rdma", name, &port) && doctor_fact_number(&port, "soft", &soft) && soft)
			continue;
		if (!doctor_fact_number(&fact, "relaxed_ordering", &on)) {
			unknown++;
			continue;
		}
		known++;
		if (!on)
			doctor_add(doctor, DOCTOR_NOTE, name, "its PCIe function may not use relaxed ordering");
	}
	if (unknown)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine",
			   "the settings of %zu RDMA devices cannot be read; root can", unknown);
	else if (!known && software)
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "the RDMA devices are made of software");
	else if (!known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the settings of the RDMA devices are not known");
}

void doctor_gpudirect(struct doctor *doctor)
{
	uint64_t dmabuf = 0, peermem = 0;
	struct doctor_fact fact;
	const char *at = NULL;

	if (!doctor_next_fact(doctor, "gpudirect", &at, &fact))
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the GPU driver does not say which modules it has");
	else if (doctor_fact_number(&fact, "dmabuf", &dmabuf) && doctor_fact_number(&fact, "peermem", &peermem) &&
		 !dmabuf && !peermem)
		doctor_add(doctor, DOCTOR_WARNING, "machine",
			   "neither DMA-BUF (open kernel modules) nor nvidia_peermem");
}

void doctor_rdma_limits(struct doctor *doctor)
{
	static const struct {
		const char *key, *word;
	} limits[] = { { "max_qp", "queue pairs" }, { "max_mr", "memory regions" } };
	char nic[TOPOLOGY_NAME_BYTES];
	struct doctor_fact fact;
	const char *at = NULL;
	size_t known = 0;
	uint64_t most;

	while (doctor_next_fact(doctor, "rdma", &at, &fact)) {
		doctor_fact_subject(&fact, nic, sizeof(nic));
		for (size_t i = 0; i < 2; i++) {
			if (!doctor_fact_number(&fact, limits[i].key, &most))
				continue;
			known++;
			if (most < MANY_OBJECTS)
				doctor_add(doctor, most < FEW_OBJECTS ? DOCTOR_WARNING : DOCTOR_NOTE, nic,
					   "at most %llu %s", (unsigned long long)most, limits[i].word);
		}
	}
	if (!known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine",
			   "no RDMA device could be asked (libibverbs, and the right to open it)");
}
