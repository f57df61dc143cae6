/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/build.h"

#include "base/hash.h"
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES_MOST = 64, PORTS_MOST = 16, DEV_PORT_MOST = 255, SOFT_MOST = 64 };

struct interface {
	const char *name;
	unsigned port; /* from 1 */
	bool taken;
};

/* Of one function: its interfaces, and the ports that RDMA devices stand for. */
struct function {
	struct interface interfaces[DEVICES_MOST];
	size_t interface_count;
	bool rdma_port[DEV_PORT_MOST + 2];
};

bool discover_is_nic(const struct discover_build *build, uint32_t object)
{
	for (uint32_t i = build->first_child[object]; i != HWLOC_NONE; i = build->next_sibling[i]) {
		const struct discover_object *child = &build->tree->at[i];

		if (child->type == HWLOC_XML_DEVICE &&
		    (child->device == HWLOC_XML_NETWORK || child->device == HWLOC_XML_RDMA ||
		     child->device == HWLOC_XML_FABRIC))
			return true;
	}
	return false;
}

/* The switch's side of a virtual function ("pf0vf3") or subfunction ("pf0sf88"): no wire of its own. */
static bool is_representor(struct discover_build *build, const char *interface)
{
	char text[64];

	if (discover_root_read(build->root, text, sizeof(text), "sys/class/net/%s/phys_port_name", interface) < 0)
		return false;
	return (*text == 'p' || *text == 'c') && (strstr(text, "vf") || strstr(text, "sf"));
}

static void find_interfaces(struct discover_build *build, uint32_t object, enum hwloc_xml_device kind,
			    struct function *ret)
{
	for (uint32_t i = build->first_child[object]; i != HWLOC_NONE && ret->interface_count < DEVICES_MOST;
	     i = build->next_sibling[i]) {
		const struct discover_object *child = &build->tree->at[i];
		int64_t port = 0;

		if (child->type != HWLOC_XML_DEVICE || child->device != kind || is_representor(build, child->name))
			continue;
		if (discover_root_number(build->root, &port, "sys/class/net/%s/dev_port", child->name) < 0 ||
		    port < 0 || port > DEV_PORT_MOST)
			port = 0;
		ret->interfaces[ret->interface_count++] = (struct interface){ .name = child->name,
									      .port = (unsigned)port + 1 };
	}
}

static uint64_t interface_speed(struct discover_root *root, const char *name)
{
	int64_t mbps;

	if (!*name || discover_root_number(root, &mbps, "sys/class/net/%s/speed", name) < 0 || mbps <= 0 ||
	    mbps > 100000000)
		return 0;
	return (uint64_t)mbps * 125000;
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)". */
static uint64_t rdma_speed(struct discover_root *root, const char *name, unsigned port)
{
	char text[64], *end;
	double gbps;

	if (discover_root_read(root, text, sizeof(text), "sys/class/infiniband/%s/ports/%u/rate", name, port) < 0)
		return 0;
	gbps = strtod(text, &end);
	if (end == text || strncmp(end, " Gb/sec", 7) || !(gbps > 0 && gbps < 1e5))
		return 0;
	return (uint64_t)(gbps * 1e9 / 8 + 0.5);
}

static int add_network(struct discover_build *build, uint32_t nic, const char *name, uint64_t speed_Bps)
{
	struct topology_vertex vertex;
	struct topology_link link;
	char text[TOPOLOGY_NAME_BYTES];
	uint32_t network;
	int r;

	snprintf(text, sizeof(text), "net:%s", name + strlen("nic:"));
	vertex = topology_vertex_of(TOPOLOGY_NETWORK, text);
	r = discover_add_vertex(build, &vertex, &network);
	if (r < 0)
		return r;
	link = topology_link_of(TOPOLOGY_LINK_NETWORK, nic, network);
	link.nominal_Bps = speed_Bps;
	return discover_add_link(build, &link);
}

static int add_nic(struct discover_build *build, uint32_t object, uint32_t upper, const char *slot,
		   const struct topology_nic *nic, const char *device, uint64_t identity)
{
	const struct discover_object *from = &build->tree->at[object];
	char name[TOPOLOGY_NAME_BYTES];
	struct topology_vertex vertex;
	uint32_t index;
	int r;

	if (build->nic_count == DISCOVER_NICS_MOST) {
		diag_set(build->diag, 0, 0, "more than %d network devices", DISCOVER_NICS_MOST);
		return -EINVAL;
	}
	if (nic->rdma && nic->port > 1)
		r = snprintf(name, sizeof(name), "nic:%s:%d", device, nic->port);
	else
		r = snprintf(name, sizeof(name), "nic:%s", device);
	if (r >= (int)sizeof(name)) {
		diag_set(build->diag, 0, 0, "a network device's name is too long: %.80s", device);
		return -EINVAL;
	}
	vertex = topology_vertex_of(TOPOLOGY_NIC, name);
	memcpy(vertex.bus_id, from->bus_id, sizeof(vertex.bus_id));
	memcpy(vertex.model, from->model, sizeof(vertex.model));
	vertex.pci = from->pci;
	vertex.nic = *nic;
	r = discover_add_vertex(build, &vertex, &index);
	if (!r)
		r = discover_pci_link(build, index, upper, slot, from, NULL);
	if (!r)
		r = add_network(build, index, name, nic->speed_Bps);
	if (!r) {
		build->nics[build->nic_count].vertex = index;
		build->nics[build->nic_count++].identity = identity;
	}
	return r;
}

/* The numbers in ports/; without sysfs a device has one port, which is that of all interfaces of the function. */
static size_t find_ports(struct discover_build *build, const char *device, unsigned *ports, struct function *function)
{
	struct discover_names names;
	size_t count = 0;

	discover_root_list(build->root, &names, "sys/class/infiniband/%s/ports", device);
	for (size_t i = 0; i < names.count && count < PORTS_MOST; i++) {
		uint64_t port;

		if (parse_u64(names.at[i], 1, DEV_PORT_MOST, &port) < 0)
			continue;
		ports[count++] = (unsigned)port;
		function->rdma_port[port] = true;
	}
	discover_names_fini(&names);
	if (!count) {
		ports[count++] = 1;
		memset(function->rdma_port, true, sizeof(function->rdma_port));
	}
	return count;
}

/* "ib0" rather than "ib0.8001", which is a partition of it. */
static struct interface *interface_of(struct function *function, unsigned port, bool only_port)
{
	struct interface *found = NULL;

	for (size_t i = 0; i < function->interface_count; i++) {
		struct interface *at = &function->interfaces[i];
		bool fits = at->port == port, better = !found;

		if (at->taken || (!fits && !only_port))
			continue;
		if (found)
			better = fits != (found->port == port) ? fits : strlen(at->name) < strlen(found->name);
		if (better)
			found = at;
	}
	return found;
}

static int add_rdma(struct discover_build *build, uint32_t object, uint32_t upper, const char *slot, const char *device,
		    struct function *function)
{
	unsigned ports[PORTS_MOST];
	size_t count = find_ports(build, device, ports, function);
	uint64_t identity = 0;
	char text[24];
	int r = 0;

	if (discover_root_show(build->root, DISCOVER_SHOWN_IDENTITY, text, sizeof(text),
			       "sys/class/infiniband/%s/sys_image_guid", device) == 0)
		(void)parse_u64(text, 0, UINT64_MAX, &identity);
	for (size_t i = 0; i < count && !r; i++) {
		struct interface *interface = interface_of(function, ports[i], count == 1);
		struct topology_nic nic = { .port = (int)ports[i], .rdma = true, .gdr = build->gdr };

		if (interface) {
			interface->taken = true;
			snprintf(nic.interface, sizeof(nic.interface), "%s", interface->name);
		}
		nic.speed_Bps = rdma_speed(build->root, device, ports[i]);
		if (!nic.speed_Bps)
			nic.speed_Bps = interface_speed(build->root, nic.interface);
		r = add_nic(build, object, upper, slot, &nic, device, identity);
	}
	return r;
}

/* An RDMA device made of software (rxe, siw) is no part of the PCI tree: the interface that it is on is. */
static bool soft_device_on(struct discover_build *build, const char *interface, char *ret, size_t room)
{
	struct discover_names names;
	bool found = false;

	discover_root_list(build->root, &names, "sys/class/infiniband");
	for (size_t i = 0; i < names.count && i < SOFT_MOST && !found; i++) {
		const char *device = names.at[i];
		char on[64];

		if (discover_root_exists(build->root, "sys/class/infiniband/%s/device", device) ||
		    (discover_root_show(build->root, DISCOVER_SHOWN_NAME, on, sizeof(on),
					"sys/class/infiniband/%s/parent", device) < 0 &&
		     discover_root_show(build->root, DISCOVER_SHOWN_NAME, on, sizeof(on),
					"sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0", device) < 0))
			continue;
		found = !strcmp(on, interface) && strlen(device) < room;
		if (found)
			snprintf(ret, room, "%s", device);
	}
	discover_names_fini(&names);
	return found;
}

static int add_interface(struct discover_build *build, uint32_t object, uint32_t upper, const char *slot,
			 const struct interface *interface)
{
	struct topology_nic nic = { .port = (int)interface->port };
	char device[TOPOLOGY_NAME_BYTES];

	snprintf(nic.interface, sizeof(nic.interface), "%s", interface->name);
	nic.speed_Bps = interface_speed(build->root, nic.interface);
	nic.rdma = soft_device_on(build, interface->name, device, sizeof(device));
	if (!nic.rdma)
		return add_nic(build, object, upper, slot, &nic, interface->name, 0);
	/* It reaches the GPUs' memory through the CPU alone; its port is always the first; its rate is none. */
	nic.port = 1;
	return add_nic(build, object, upper, slot, &nic, device, 0);
}

int discover_add_nics(struct discover_build *build, uint32_t object, uint32_t upper, const char *slot)
{
	struct function function = { .interface_count = 0 };
	int r = 0;

	find_interfaces(build, object, HWLOC_XML_NETWORK, &function);
	if (!function.interface_count)
		find_interfaces(build, object, HWLOC_XML_FABRIC, &function);
	for (uint32_t i = build->first_child[object]; i != HWLOC_NONE && !r; i = build->next_sibling[i]) {
		const struct discover_object *child = &build->tree->at[i];

		if (child->type == HWLOC_XML_DEVICE && child->device == HWLOC_XML_RDMA)
			r = add_rdma(build, object, upper, slot, child->name, &function);
	}
	/* A second interface of a port that is an RDMA device's is no NIC of its own. */
	for (size_t i = 0; i < function.interface_count && !r; i++)
		if (!function.interfaces[i].taken && !function.rdma_port[function.interfaces[i].port])
			r = add_interface(build, object, upper, slot, &function.interfaces[i]);
	return r;
}

/* --------------------------------------------------------------------------------------------------------------- cards */

/* "0000:17:00" of "0000:17:00.1". */
static size_t card_bytes(const char *bus_id)
{
	return strcspn(bus_id, ".");
}

static bool same_card(const struct discover_build *build, size_t a, size_t b)
{
	const char *first = build->topology->vertices[build->nics[a].vertex].bus_id;
	const char *second = build->topology->vertices[build->nics[b].vertex].bus_id;

	if (build->nics[a].identity && build->nics[a].identity == build->nics[b].identity)
		return true;
	return card_bytes(first) == card_bytes(second) && !strncmp(first, second, card_bytes(first));
}

/*
 * Two NICs of one card have the same guid, and that is all that it says: it is made of the card's first place, as the
 * real one is a serial number.
 */
void discover_number_cards(struct discover_build *build)
{
	for (size_t i = 0; i < build->nic_count; i++) {
		const char *least = build->topology->vertices[build->nics[i].vertex].bus_id;

		for (size_t j = 0; j < build->nic_count; j++) {
			const char *other = build->topology->vertices[build->nics[j].vertex].bus_id;

			if (same_card(build, i, j) && strcmp(other, least) < 0)
				least = other;
		}
		build->topology->vertices[build->nics[i].vertex].nic.guid = hash_bytes(HASH_START, least,
										       card_bytes(least));
	}
}
