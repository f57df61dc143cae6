/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclxml/writer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_PER_MBIT 125000ULL

/* As sysfs and NCCL write it. */
static void lower_case(const char *bus_id, char lower[TOPOLOGY_BUS_ID_BYTES])
{
	size_t i;

	for (i = 0; i < TOPOLOGY_BUS_ID_BYTES - 1 && bus_id[i]; i++)
		lower[i] = (char)tolower((unsigned char)bus_id[i]);
	lower[i] = '\0';
}

static void ncclxml_write_error(struct ncclxml_writer *writer, uint64_t wanted_Bps, uint64_t value_Bps)
{
	double error_Bps = value_Bps > wanted_Bps ? (double)(value_Bps - wanted_Bps) : (double)(wanted_Bps - value_Bps);

	if (error_Bps > writer->worst_error_Bps)
		writer->worst_error_Bps = error_Bps;
}

struct ncclxml_link_value ncclxml_write_value(struct ncclxml_writer *writer, const struct topology_link *link)
{
	struct ncclxml_link_value value = { 0 };

	if (link->kind != TOPOLOGY_LINK_C2C)
		value = ncclxml_link_value_for(link);
	if (writer->cap_Bps && (!value.wanted_Bps || writer->cap_Bps < value.wanted_Bps)) {
		value = ncclxml_link_value_of(writer->cap_Bps, 0);
		value.of = writer->cap_name;
		value.word = topology_provenance_word(TOPOLOGY_MEASURED);
	}
	writer->cap_Bps = 0;
	return value;
}

/* NCCL takes class, vendor and so on from sysfs where the file has none. */
void ncclxml_write_pci(struct ncclxml_writer *writer, const struct topology_vertex *vertex, const char *bus_id,
		       const char *name, const struct ncclxml_link_value *value)
{
	struct ncclxml_text *text = &writer->text;
	const struct topology_pci *pci = &vertex->pci;
	char lower[TOPOLOGY_BUS_ID_BYTES];

	lower_case(bus_id, lower);
	if (value->word)
		ncclxml_text_comment(text, "tributary: %s %s %.3f GB/s", value->of ? value->of : name, value->word,
				     (double)value->wanted_Bps / 1e9);
	ncclxml_text_open(text, "pci");
	ncclxml_text_attribute(text, "busid", "%s", lower);
	if (pci->class_code)
		ncclxml_text_attribute(text, "class", "0x%06x", pci->class_code & 0xffffffU);
	if (pci->vendor && pci->device) {
		ncclxml_text_attribute(text, "vendor", "0x%04x", pci->vendor);
		ncclxml_text_attribute(text, "device", "0x%04x", pci->device);
	}
	if (pci->subsystem_vendor || pci->subsystem_device) {
		ncclxml_text_attribute(text, "subsystem_vendor", "0x%04x", pci->subsystem_vendor);
		ncclxml_text_attribute(text, "subsystem_device", "0x%04x", pci->subsystem_device);
	}
	if (!value->generation)
		return;
	ncclxml_text_attribute(text, "link_speed", "%s", ncclmodel_speed_text(value->generation));
	ncclxml_text_attribute(text, "link_width", "%llu", (unsigned long long)value->lanes);
	ncclxml_write_error(writer, value->wanted_Bps, value->value_Bps);
}

static void write_nvlink(struct ncclxml_writer *writer, const struct topology_link *link,
			 const struct topology_vertex *peer)
{
	const char *target = peer->bus_id[0] ? peer->bus_id : NCCLMODEL_UNKNOWN_TARGET, *class_text;
	char lower[TOPOLOGY_BUS_ID_BYTES];

	switch (peer->kind) {
	case TOPOLOGY_GPU:
		class_text = "0x030200";
		break;
	case TOPOLOGY_NVSWITCH:
		class_text = NCCLMODEL_CLASS_NVSWITCH;
		break;
	case TOPOLOGY_CPU:
		class_text = NCCLMODEL_CLASS_CPU;
		break;
	default:
		return;
	}
	lower_case(target, lower);
	ncclxml_text_open(&writer->text, "nvlink");
	ncclxml_text_attribute(&writer->text, "target", "%s", lower);
	ncclxml_text_attribute(&writer->text, "count", "%u", link->count ? link->count : 1);
	ncclxml_text_attribute(&writer->text, "tclass", "%s", class_text);
	ncclxml_text_close(&writer->text);
}

static void write_c2c(struct ncclxml_writer *writer, const struct topology_link *link)
{
	uint64_t count = link->count ? link->count : 1;
	uint64_t each_MBps = ncclxml_link_rate(link, NULL) / count / 1000000;

	if (!each_MBps || each_MBps * count > INT32_MAX) /* NCCL multiplies them as ints */
		return;
	ncclxml_text_open(&writer->text, "c2c");
	ncclxml_text_attribute(&writer->text, "bw", "%llu", (unsigned long long)each_MBps);
	ncclxml_text_attribute(&writer->text, "count", "%llu", (unsigned long long)count);
	ncclxml_text_close(&writer->text);
}

struct gpu_link {
	const struct topology_link *link;
	const struct topology_vertex *peer;
};

static int by_peer(const void *left, const void *right)
{
	const struct gpu_link *a = left, *b = right;

	if (a->link->kind != b->link->kind)
		return a->link->kind < b->link->kind ? -1 : 1;
	return strcmp(a->peer->name, b->peer->name);
}

/* By their peers' names. NCCL asks NVML for the NVLinks and C2C links of a GPU that has none here. */
static void write_gpu_links(struct ncclxml_writer *writer, uint32_t gpu)
{
	const struct topology *topology = writer->topology;
	struct gpu_link links[NCCLMODEL_CHILD_MAX + 1] = { 0 }; /* one more than can be written */
	size_t count = 0;

	for (size_t i = 0; i < topology->link_count && count <= NCCLMODEL_CHILD_MAX; i++) {
		const struct topology_link *link = &topology->links[i];

		if (link->lower == link->upper || (link->lower != gpu && link->upper != gpu) ||
		    (link->kind != TOPOLOGY_LINK_NVLINK && link->kind != TOPOLOGY_LINK_C2C))
			continue;
		links[count].link = link;
		links[count++].peer = &topology->vertices[link->lower == gpu ? link->upper : link->lower];
	}
	qsort(links, count, sizeof(links[0]), by_peer);
	for (size_t i = 0; i < count; i++) {
		if (links[i].link->kind == TOPOLOGY_LINK_NVLINK)
			write_nvlink(writer, links[i].link, links[i].peer);
		else
			write_c2c(writer, links[i].link);
	}
}

/*
 * rank and keep are NCCL's own. So is gdr, here and of a <net>: NCCL believes the file, while without it it registers a
 * GPU's memory with the net to find out. What the graph has says what the driver offers.
 */
void ncclxml_write_gpu(struct ncclxml_writer *writer, const struct ncclxml_branch *at, size_t count)
{
	const struct ncclxml_branch *branches = at;
	const struct topology_vertex *vertex;
	struct ncclxml_link_value value;

	writer->gpus_written += count;
	/* Of a bus id that is there twice, NCCL finds the first. */
	for (size_t i = 1; i < count; i++)
		if (branches[i].vertex < at->vertex)
			at = &branches[i];
	vertex = at->at;
	value = ncclxml_write_value(writer, &writer->topology->links[at->link]);
	ncclxml_write_pci(writer, vertex, vertex->bus_id, vertex->bus_id, &value);
	/* Slices of one GPU share a bus id, and which of them a process has is not ours to say: NCCL adds it. */
	if (vertex->gpu.mig < 0) {
		ncclxml_text_open(&writer->text, "gpu");
		if (vertex->gpu.index >= 0)
			ncclxml_text_attribute(&writer->text, "dev", "%d", vertex->gpu.index);
		if (vertex->gpu.sm > 0)
			ncclxml_text_attribute(&writer->text, "sm", "%d", vertex->gpu.sm);
		write_gpu_links(writer, at->vertex);
		ncclxml_text_close(&writer->text);
	}
	ncclxml_text_close(&writer->text);
}

/*
 * By its name NCCL knows which device of the net plugin a <net> is. NULL: the name is not known, or not one that NCCL
 * could read; then there is no <net>, and NCCL puts the device where sysfs has it, which is into the same <pci>.
 */
static const char *net_name(const struct topology_vertex *vertex)
{
	const char *name = strncmp(vertex->name, "nic:", 4) ? vertex->name : vertex->name + 4;
	size_t bytes = strlen(vertex->bus_id);
	/* A second one of that bus id has a number behind it. */
	bool only_a_bus_id = bytes && !strncmp(name, vertex->bus_id, bytes) && (!name[bytes] || name[bytes] == '~');

	return only_a_bus_id || !ncclxml_text_plain(name) ? NULL : name;
}

/* dev and keep are NCCL's own; what is not known here it asks the net plugin. */
static void write_net(struct ncclxml_writer *writer, uint32_t nic)
{
	const struct topology_vertex *vertex = &writer->topology->vertices[nic];
	const char *name = net_name(vertex);
	uint64_t rate_Bps = ncclxml_wire_rate(writer->topology, nic);
	struct ncclxml_text *text = &writer->text;

	if (!name)
		return;
	ncclxml_text_open(text, "net");
	ncclxml_text_attribute(text, "name", "%s", name);
	if (rate_Bps) {
		uint64_t mbit = rate_Bps / BYTES_PER_MBIT + (rate_Bps % BYTES_PER_MBIT >= BYTES_PER_MBIT / 2);

		mbit = mbit < 1 ? 1 : mbit > INT32_MAX ? INT32_MAX : mbit;
		ncclxml_text_attribute(text, "speed", "%llu", (unsigned long long)mbit);
		ncclxml_write_error(writer, rate_Bps, mbit * BYTES_PER_MBIT);
	}
	if (vertex->nic.latency_ns)
		ncclxml_text_attribute(text, "latency", "%.3f", (double)vertex->nic.latency_ns / 1e3);
	if (vertex->nic.port > 0)
		ncclxml_text_attribute(text, "port", "%d", vertex->nic.port);
	if (vertex->nic.guid)
		ncclxml_text_attribute(text, "guid", "0x%llx", (unsigned long long)vertex->nic.guid);
	if (vertex->nic.max_connections > 0)
		ncclxml_text_attribute(text, "maxconn", "%d", vertex->nic.max_connections);
	if (vertex->nic.collnet)
		ncclxml_text_attribute(text, "coll", "1");
	ncclxml_text_close(text);
}

void ncclxml_write_nic(struct ncclxml_writer *writer, const struct ncclxml_branch *at, size_t count)
{
	const struct topology_link *links = writer->topology->links;
	const struct topology_link *widest = &links[at->link];
	struct ncclxml_link_value value;

	/* The ports of one card share its slot; which of their links is that slot is not said, so the widest is. */
	for (size_t i = 1; i < count; i++)
		if (ncclxml_link_rate(&links[at[i].link], NULL) > ncclxml_link_rate(widest, NULL))
			widest = &links[at[i].link];
	value = ncclxml_write_value(writer, widest);
	ncclxml_write_pci(writer, at->at, at->at->bus_id, at->at->bus_id, &value);
	ncclxml_text_open(&writer->text, "nic");
	for (size_t i = 0; i < count; i++)
		write_net(writer, at[i].vertex);
	ncclxml_text_close(&writer->text);
	ncclxml_text_close(&writer->text);
}

void ncclxml_write_virtual_nics(struct ncclxml_writer *writer, uint32_t cpu)
{
	const struct ncclxml_tree *tree = &writer->tree;
	bool open = false;

	for (size_t i = 0; i < tree->count; i++) {
		const struct ncclxml_branch *branch = &tree->branches[i];

		if (branch->at->kind != TOPOLOGY_NIC || branch->at->bus_id[0] || !net_name(branch->at) ||
		    (cpu != TOPOLOGY_NONE && topology_cpu_of(writer->topology, branch->vertex) != cpu))
			continue;
		if (!open)
			ncclxml_text_open(&writer->text, "nic");
		open = true;
		write_net(writer, branch->vertex);
	}
	if (open)
		ncclxml_text_close(&writer->text);
}
