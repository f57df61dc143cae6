/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph as NCCL would see the file, by its rules (limits.h): nominal rates are those that NCCL computes, also from
 * widths that no slot has and from strings that it takes for generation 3. What NCCL would ask the machine for, because
 * the file leaves it out, is unknown here: a link without link_speed or link_width has no rate, a device without a
 * class is a switch.
 *
 * Several <net> of one <nic> are NICs with one link each, which together carry what the slot carries (limits "<bus
 * id>.slot.up" and ".down"); so the class of a way to each stays what NCCL makes of it. NICs with the same guid and
 * port share a wire: one network vertex, limits "<its name>.up" and ".down". NCCL knows one NVSwitch, whatever the
 * targets say; so does the graph. Links from a GPU to itself or to a GPU that is not in the file are left out, as are
 * <pcilink>s, which NCCL makes anew on every machine.
 */
#include "ncclxml/topology_xml.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ncclmodel/limits.h"
#include "ncclxml/read/reader.h"
#include "ncclxml/read/xml.h"

/* What does not fit is not known: a part of it would be wrong. */
static void text_or_nothing(const struct ncclxml_element *element, const char *name, char *text, size_t text_bytes)
{
	const char *value = ncclxml_attribute(element, name);

	if (value && strlen(value) < text_bytes)
		memcpy(text, value, strlen(value) + 1);
}

/* ------------------------------------------------------------------------------------------------------------- CPUs */

static int read_cpu(struct ncclxml_reader *reader, struct ncclxml_element *element)
{
	const char *numa = ncclxml_attribute(element, "numaid"), *host = ncclxml_attribute(element, "host_hash");
	const char *first_host = ncclxml_attribute(element->parent->first, "host_hash");
	struct topology_vertex vertex;
	struct topology_link link;
	char name[TOPOLOGY_NAME_BYTES];
	uint32_t memory;
	int r;

	if (!numa)
		return ncclxml_reader_fail(reader, element, "a <cpu> without numaid");
	if (host && first_host && strcmp(host, first_host) != 0)
		return ncclxml_reader_fail(
			reader, element,
			"a <cpu> with another host_hash: NCCL joined several hosts in this file; keep "
			"the <cpu>s of one of them");
	snprintf(name, sizeof(name), "cpu%d", ncclxml_number(numa));
	vertex = topology_vertex_of(TOPOLOGY_CPU, name);
	vertex.cpu.numa = ncclxml_number(numa);
	text_or_nothing(element, "arch", vertex.cpu.architecture, sizeof(vertex.cpu.architecture));
	text_or_nothing(element, "vendor", vertex.cpu.vendor, sizeof(vertex.cpu.vendor));
	text_or_nothing(element, "affinity", vertex.cpu.affinity, sizeof(vertex.cpu.affinity));
	if (ncclxml_attribute(element, "familyid") && ncclxml_attribute(element, "modelid")) {
		vertex.cpu.family = ncclxml_number_of(element, "familyid", 0);
		vertex.cpu.model = ncclxml_number_of(element, "modelid", 0);
	}
	r = ncclxml_reader_vertex(reader, element, &vertex, &element->user);
	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "memory%d", vertex.cpu.numa);
	vertex = topology_vertex_of(TOPOLOGY_MEMORY, name);
	vertex.cpu.numa = ncclxml_number(numa);
	r = ncclxml_reader_vertex(reader, element, &vertex, &memory);
	if (r < 0)
		return r;
	link = topology_link_of(TOPOLOGY_LINK_MEMORY, memory, element->user);
	return ncclxml_reader_link(reader, &link);
}

enum cpu_field { CPU_ARCHITECTURE, CPU_VENDOR, CPU_MODEL, CPU_FIELD_COUNT };

static void complete_cpu(struct topology_cpu *to, const struct topology_cpu *from, enum cpu_field field)
{
	if (field == CPU_ARCHITECTURE && !to->architecture[0])
		memcpy(to->architecture, from->architecture, sizeof(to->architecture));
	if (strcmp(to->architecture, from->architecture) != 0)
		return;
	if (field == CPU_VENDOR && !to->vendor[0])
		memcpy(to->vendor, from->vendor, sizeof(to->vendor));
	if (field == CPU_MODEL && (to->family < 0 || to->model < 0) && !strcmp(to->vendor, from->vendor)) {
		to->family = from->family;
		to->model = from->model;
	}
}

/*
 * The CPUs of a machine are alike: what one lacks is what the first other one says that has it.  One field after the other, for
 * a CPU may have its vendor from one that has its model from it.
 */
static void complete_cpus(struct ncclxml_reader *reader, const struct ncclxml_element *system)
{
	struct topology_vertex *vertices = reader->topology.vertices;

	for (enum cpu_field field = 0; field < CPU_FIELD_COUNT; field++)
		for (const struct ncclxml_element *a = system->first; a; a = a->next)
			for (const struct ncclxml_element *b = system->first; b; b = b->next)
				if (!strcmp(a->name, "cpu") && !strcmp(b->name, "cpu"))
					complete_cpu(&vertices[a->user].cpu, &vertices[b->user].cpu, field);
}

/* NCCL takes the constant of the CPU that sends. */
static int join_cpus(struct ncclxml_reader *reader, const struct ncclxml_element *system)
{
	for (const struct ncclxml_element *a = system->first; a; a = a->next) {
		for (const struct ncclxml_element *b = a->next; b; b = b->next) {
			struct topology_link link;
			int r;

			if (strcmp(a->name, "cpu") || strcmp(b->name, "cpu"))
				continue;
			link = topology_link_of(TOPOLOGY_LINK_SOCKET, a->user, b->user);
			for (unsigned i = 0; i < 2; i++) {
				uint32_t sender = i == TOPOLOGY_UP ? a->user : b->user;
				uint64_t rate_Bps = ncclmodel_socket_Bps(&reader->topology.vertices[sender].cpu);

				link.capacity[i].rate_Bps = rate_Bps;
				link.capacity[i].provenance = rate_Bps ? TOPOLOGY_ASSUMED : TOPOLOGY_UNKNOWN;
			}
			r = ncclxml_reader_link(reader, &link);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/*
 * ----------------------------------------------------------------------------------------------------------- devices
 */

static uint16_t id_of(const struct ncclxml_element *element, const char *name)
{
	return (uint16_t)ncclxml_number_of(element, name, 0);
}

/* NCCL compares the beginnings of these strings, and shortens them itself: "0x03" is any class that begins so. */
static uint32_t class_of(const struct ncclxml_element *element)
{
	const char *text = ncclxml_attribute(element, "class");
	uint32_t code = 0;
	unsigned digits = 0;

	if (!text || strncmp(text, "0x", 2) != 0)
		return 0;
	for (text += 2; digits < 6 && isxdigit((unsigned char)*text); digits++, text++)
		code = code << 4 | (uint32_t)(isdigit((unsigned char)*text) ? *text - '0'
									    : tolower((unsigned char)*text) - 'a' + 10);
	return code << 4 * (6 - digits);
}

static void read_pci_facts(const struct ncclxml_element *element, struct topology_pci *pci)
{
	pci->class_code = class_of(element);
	pci->vendor = id_of(element, "vendor");
	pci->device = id_of(element, "device");
	pci->subsystem_vendor = id_of(element, "subsystem_vendor");
	pci->subsystem_device = id_of(element, "subsystem_device");
}

/* How a generation was understood goes into the link only if NCCL knew the string; the rate is what it makes of it. */
static struct topology_link pci_link_of(const struct ncclxml_element *element, uint32_t lower, uint32_t upper)
{
	const char *speed = ncclxml_attribute(element, "link_speed"), *width = ncclxml_attribute(element, "link_width");
	struct topology_link link = topology_link_of(TOPOLOGY_LINK_PCI, lower, upper);
	unsigned generation;
	bool known = false;
	int lanes;

	if (!speed || !width)
		return link;
	generation = ncclmodel_generation(speed, &known);
	lanes = ncclxml_number(width);
	link.pci.generation = known ? generation : 0;
	link.pci.lanes = lanes >= 1 && lanes <= 32 ? (unsigned)lanes : 0;
	ncclxml_reader_nominal(&link, ncclmodel_pci_Bps(speed, lanes));
	/* What NCCL makes up for a speed that it does not know, or for no lanes, is nothing that the slot can. */
	for (unsigned i = 0; i < 2 && (!known || !lanes) && link.nominal_Bps; i++)
		link.capacity[i].provenance = TOPOLOGY_ASSUMED;
	return link;
}

static int read_gpu(struct ncclxml_reader *reader, const struct ncclxml_element *pci, struct ncclxml_element *gpu,
		    const struct topology_vertex *facts, uint32_t parent)
{
	struct topology_vertex vertex;
	char name[TOPOLOGY_NAME_BYTES];
	struct topology_link link;
	uint32_t index;
	int dev, r;

	dev = gpu ? ncclxml_number_of(gpu, "dev", -1) : -1;
	if (dev >= 0)
		snprintf(name, sizeof(name), "gpu%d", dev);
	else
		snprintf(name, sizeof(name), "gpu:%s", facts->bus_id);
	vertex = topology_vertex_of(TOPOLOGY_GPU, name);
	memcpy(vertex.bus_id, facts->bus_id, sizeof(vertex.bus_id));
	vertex.pci = facts->pci;
	vertex.gpu.index = dev >= 0 ? dev : -1;
	if (gpu) {
		vertex.gpu.sm = ncclxml_number_of(gpu, "sm", 0);
		vertex.gpu.gdr = ncclxml_number_of(gpu, "gdr", 0) > 0;
	}
	r = ncclxml_reader_vertex(reader, gpu ? gpu : pci, &vertex, &index);
	if (r < 0)
		return r;
	if (gpu)
		gpu->user = index;
	link = pci_link_of(pci, index, parent);
	return ncclxml_reader_link(reader, &link);
}

static struct ncclxml_element *child_named(const struct ncclxml_element *element, const char *name)
{
	struct ncclxml_element *child = element->first;

	while (child && strcmp(child->name, name))
		child = child->next;
	return child;
}

static bool begins(const char *text, const char *start)
{
	return text && !strncmp(text, start, strlen(start));
}

static int read_pci(struct ncclxml_reader *reader, struct ncclxml_element *element, uint32_t parent)
{
	const char *bus_id = ncclxml_attribute(element, "busid"), *class_text = ncclxml_attribute(element, "class");
	struct ncclxml_element *gpu = child_named(element, "gpu"), *nic = child_named(element, "nic");
	struct topology_vertex vertex;
	char name[TOPOLOGY_NAME_BYTES];
	struct topology_link link;
	int r = 0;

	vertex = topology_vertex_of(TOPOLOGY_SWITCH, "switch");
	if (!bus_id || !ncclxml_reader_bus_id(bus_id, vertex.bus_id))
		return ncclxml_reader_fail(reader, element, "busid \"%.40s\" is not like 0000:17:00.0",
					   bus_id ? bus_id : "");
	if (topology_find_bus_id(&reader->topology, vertex.bus_id) != TOPOLOGY_NONE)
		ncclxml_reader_twice(reader, element, vertex.bus_id);
	read_pci_facts(element, &vertex.pci);
	if (gpu)
		return read_gpu(reader, element, gpu, &vertex, parent);
	link = pci_link_of(element, TOPOLOGY_NONE, parent);
	if (nic)
		return ncclxml_reader_nics(reader, nic, &vertex, &link);
	if (begins(class_text, NCCLMODEL_CLASS_GPU))
		return read_gpu(reader, element, NULL, &vertex, parent);
	if (begins(class_text, NCCLMODEL_CLASS_NIC))
		return ncclxml_reader_nics(reader, element, &vertex, &link);
	/* An NVSwitch's own PCI function carries nothing that NCCL looks at. */
	if (begins(class_text, NCCLMODEL_CLASS_NVSWITCH))
		return 0;
	if (!class_text && !element->first && !reader->classless_count++)
		reader->classless_line = element->line;
	snprintf(name, sizeof(name), "switch:%s", vertex.bus_id);
	memcpy(vertex.name, name, sizeof(vertex.name));
	r = ncclxml_reader_vertex(reader, element, &vertex, &element->user);
	if (r < 0)
		return r;
	link.lower = element->user;
	r = ncclxml_reader_link(reader, &link);
	for (struct ncclxml_element *child = element->first; child && r == 0; child = child->next)
		if (!strcmp(child->name, "pci"))
			r = read_pci(reader, child, element->user);
	return r;
}

/*
 * ------------------------------------------------------------------------------------------------------------- whole
 */

static int check_root(struct ncclxml_reader *reader, const struct ncclxml_document *document)
{
	const struct ncclxml_element *root = document->root;
	const char *version = ncclxml_attribute(root, "version");

	if (!strcmp(root->name, "graphs"))
		return ncclxml_reader_fail(reader, root, "this is an NCCL graph file, not a topology");
	if (!strcmp(root->name, "topology"))
		return ncclxml_reader_fail(reader, root, "this is hwloc's own format, not an NCCL topology");
	if (strcmp(root->name, "system"))
		return ncclxml_reader_fail(reader, root, "<%.40s> is no NCCL topology, which begins with <system>",
					   root->name);
	if (!version || ncclxml_number(version) != NCCLMODEL_VERSION)
		return ncclxml_reader_fail(
			reader, root, "version \"%.40s\" of the format: NCCL has %d, RCCL 2, and this reads NCCL's",
			version ? version : "", NCCLMODEL_VERSION);
	if (document->element_count > NCCLXML_READER_ELEMENTS_MAX)
		return ncclxml_reader_fail(reader, root, "%zu elements, NCCL reads %d", document->element_count,
					   NCCLMODEL_NODE_MAX);
	return 0;
}

static int read_system(struct ncclxml_reader *reader, const struct ncclxml_element *system)
{
	unsigned cpus = 0;
	int r = 0;

	text_or_nothing(system, "name", reader->topology.name, sizeof(reader->topology.name));
	if (strpbrk(reader->topology.name, " \t\r\n"))
		reader->topology.name[0] = '\0';
	for (struct ncclxml_element *cpu = system->first; cpu && r == 0; cpu = cpu->next) {
		if (strcmp(cpu->name, "cpu") != 0)
			continue;
		/* Each is joined with each. */
		if (++cpus > NCCLMODEL_NODE_MAX)
			return ncclxml_reader_fail(reader, cpu, "more than %d CPUs", NCCLMODEL_NODE_MAX);
		r = read_cpu(reader, cpu);
	}
	if (r == 0) {
		complete_cpus(reader, system);
		r = join_cpus(reader, system);
	}
	for (const struct ncclxml_element *cpu = system->first; cpu && r == 0; cpu = cpu->next) {
		if (strcmp(cpu->name, "cpu"))
			continue;
		for (struct ncclxml_element *child = cpu->first; child && r == 0; child = child->next) {
			if (!strcmp(child->name, "pci"))
				r = read_pci(reader, child, cpu->user);
			else if (!strcmp(child->name, "nic"))
				r = ncclxml_reader_virtual_nics(reader, child, cpu->user);
		}
	}
	if (r == 0)
		r = ncclxml_reader_wires(reader);
	return r == 0 ? ncclxml_reader_gpu_links(reader, system) : r;
}

/* A warning about what NCCL accepts but the graph does not show as it is. */
static void warn(const struct ncclxml_reader *reader)
{
	if (reader->twice_line)
		diag_set(reader->diag, reader->twice_line, 0,
			 "%s is there twice: NCCL accepts that, so each is shown; `tributary lint` says more",
			 reader->twice);
	else if (reader->classless_line)
		diag_set(reader->diag, reader->classless_line, 0,
			 "%zu <pci> without class and without children: NCCL asks the machine whether they are GPUs "
			 "or NICs; here they are switches",
			 reader->classless_count);
	else
		diag_set(reader->diag, 0, 0, "%s", "");
}

int topology_xml_read(const char *text, size_t bytes, struct topology *ret, struct diag *diag)
{
	struct ncclxml_reader reader = { .diag = diag };
	struct ncclxml_document document;
	int r;

	topology_init(ret);
	r = ncclxml_document_read(text, bytes, &document, diag);
	if (r < 0)
		return r;
	topology_init(&reader.topology);
	r = check_root(&reader, &document);
	if (r == 0)
		r = read_system(&reader, document.root);
	ncclxml_document_fini(&document);
	if (r < 0) {
		topology_fini(&reader.topology);
		return r;
	}
	warn(&reader);
	*ret = reader.topology;
	return 0;
}
