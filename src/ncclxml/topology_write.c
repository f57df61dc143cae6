/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements and attributes that NCCL overwrites (rank, keep, host_hash, net's dev) are not written, nor what it asks the
 * machine for anyway and we do not know.
 */
#include "ncclxml/topology_xml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ncclxml/writer.h"

enum { SWITCH_CLASS = 0x060400 };
/* Of a switch that only brings GPUs together: more than any devices below it can use. */
#define WIDE_BPS 1000000000000ULL

static void write_under(struct ncclxml_writer *writer, uint32_t parent);

/*
 * A bus id that no device of the graph has, for a switch that the machine does not have. NCCL looks for it in sysfs,
 * finds nothing, and takes the file's word.
 */
static void make_up_bus_id(struct ncclxml_writer *writer, char bus_id[TOPOLOGY_BUS_ID_BYTES])
{
	do {
		/* A system has one ffff segment at most, and real functions go up to 7. */
		snprintf(bus_id, TOPOLOGY_BUS_ID_BYTES, "ffff:%02x:%02x.0", 0xffU - writer->made_up / 32 % 256,
			 writer->made_up % 32);
		writer->made_up++;
	} while (topology_find_bus_id(writer->topology, bus_id) != TOPOLOGY_NONE && writer->made_up < 256 * 32);
}

/*
 * NCCL takes two levels of these Broadcom switches for one and forgets the link between them (graph/topo.cc,
 * ncclTopoFlattenBcmSwitches). Right where that link carries whatever hangs below it; where it was measured not to, the
 * lower switch is written with another subsystem, by which NCCL would not know it.
 */
static bool must_not_flatten(const struct ncclxml_writer *writer, const struct ncclxml_branch *branch)
{
	const struct topology_pci *own = &branch->at->pci;
	const struct topology_pci *above = &writer->topology->vertices[branch->parent].pci;
	uint64_t rate_Bps, below_Bps;
	bool measured;

	if (own->vendor != 0x1000 || (own->device != 0xc010 && own->device != 0xc030) || above->vendor != own->vendor ||
	    above->device != own->device)
		return false;
	rate_Bps = ncclxml_link_rate(&writer->topology->links[branch->link], &measured);
	below_Bps = ncclxml_tree_sum(&writer->tree, branch->vertex);
	return measured && (!below_Bps || rate_Bps < below_Bps);
}

static void write_switch(struct ncclxml_writer *writer, const struct ncclxml_branch *branch)
{
	struct ncclxml_link_value value = ncclxml_write_value(writer, &writer->topology->links[branch->link]);
	struct topology_vertex vertex = *branch->at;
	char made_up[TOPOLOGY_BUS_ID_BYTES];
	size_t count;

	/*
	 * The machine may not show a switch (a virtual machine), and ours it does not have: NCCL then wants the class
	 * from the file. A leaf may as well be a device whose class nobody knew; that one NCCL finds in sysfs.
	 */
	(void)ncclxml_tree_under(&writer->tree, branch->vertex, &count);
	if (!vertex.pci.class_code && count)
		vertex.pci.class_code = SWITCH_CLASS;
	if (must_not_flatten(writer, branch)) {
		vertex.pci.subsystem_vendor = 0xffff;
		vertex.pci.subsystem_device = 0xffff;
	}
	if (vertex.bus_id[0]) {
		ncclxml_write_pci(writer, &vertex, vertex.bus_id, vertex.bus_id, &value);
	} else {
		make_up_bus_id(writer, made_up);
		ncclxml_write_pci(writer, &vertex, made_up, vertex.name, &value);
	}
	write_under(writer, branch->vertex);
	ncclxml_text_close(&writer->text);
}

/* What is below a host bridge is divided; a switch and what is below it stay together. */
static bool is_left_out(const struct ncclxml_writer *writer, const struct ncclxml_branch *branch)
{
	const struct ncclxml_branch *below;
	size_t count;

	if (writer->part == NCCLXML_ALL)
		return false;
	if (writer->part == NCCLXML_WITH_GPUS || branch->at->kind != TOPOLOGY_BRIDGE)
		return ncclxml_tree_has_gpu(&writer->tree, branch) != (writer->part == NCCLXML_WITH_GPUS);
	below = ncclxml_tree_under(&writer->tree, branch->vertex, &count);
	for (size_t i = 0; i < count; i++)
		if (!is_left_out(writer, &below[i]))
			return false;
	return true;
}

/* How many branches there are below a vertex, of the part that is being written. */
static size_t count_under(const struct ncclxml_writer *writer, uint32_t parent)
{
	size_t count, left_out = 0;
	const struct ncclxml_branch *branches = ncclxml_tree_under(&writer->tree, parent, &count);

	for (size_t i = 0; i < count; i++)
		left_out += is_left_out(writer, &branches[i]);
	return count - left_out;
}

/* Opens a PCI switch that the machine does not have, in the place of that vertex. */
static void open_made_up(struct ncclxml_writer *writer, struct topology_vertex vertex, const char *name,
			 const struct ncclxml_link_value *value)
{
	char bus_id[TOPOLOGY_BUS_ID_BYTES];

	vertex.pci.class_code = SWITCH_CLASS;
	make_up_bus_id(writer, bus_id);
	ncclxml_write_pci(writer, &vertex, bus_id, name, value);
}

/*
 * NCCL has no host bridges: what hangs under one hangs under the <cpu>, each with its own link. What the bridge cannot
 * carry is told by the link of its only child, or by a PCI switch in its place where that is harmless; else it is lost.
 */
static void write_bridge(struct ncclxml_writer *writer, const struct ncclxml_branch *branch)
{
	const struct topology_link *link = &writer->topology->links[branch->link];
	struct ncclxml_link_value value;
	uint64_t rate_Bps, below_Bps;
	size_t count = count_under(writer, branch->vertex);
	bool measured;

	rate_Bps = ncclxml_link_rate(link, &measured);
	below_Bps = ncclxml_tree_sum(&writer->tree, branch->vertex);
	if (!measured || count < 2 || (below_Bps && rate_Bps >= below_Bps) || writer->part == NCCLXML_WITHOUT_GPUS ||
	    !writer->shape->bridges ||
	    !ncclxml_bridge_allows(&writer->tree, branch->vertex, writer->shape->p2p_farthest)) {
		writer->cap_Bps = measured && count == 1 ? rate_Bps : 0;
		writer->cap_name = branch->at->name;
		write_under(writer, branch->vertex);
		writer->cap_Bps = 0;
		return;
	}
	value = ncclxml_write_value(writer, link);
	open_made_up(writer, *branch->at, branch->at->name, &value);
	write_under(writer, branch->vertex);
	ncclxml_text_close(&writer->text);
}

static void write_under(struct ncclxml_writer *writer, uint32_t parent)
{
	size_t count, same;
	const struct ncclxml_branch *branches = ncclxml_tree_under(&writer->tree, parent, &count);
	enum ncclxml_part part = writer->part;

	if (writer->depth == NCCLXML_TEXT_DEPTH && !writer->text.out.error) {
		writer->text.out.error = -E2BIG;
		writer->text.reason = "switches behind switches, too deep";
	}
	writer->depth++;
	for (size_t i = 0; i < count && !writer->text.out.error; i += same) {
		const struct ncclxml_branch *branch = &branches[i];

		for (same = 1; i + same < count && branch->at->bus_id[0] && branch[same].at->kind == branch->at->kind &&
			       !strcmp(branch[same].at->bus_id, branch->at->bus_id);)
			same++;
		if (is_left_out(writer, branch))
			continue;
		if (branch->at->kind == TOPOLOGY_GPU) {
			ncclxml_write_gpu(writer, branch, same);
		} else if (branch->at->kind == TOPOLOGY_NIC) {
			if (branch->at->bus_id[0])
				ncclxml_write_nic(writer, branch, same);
		} else {
			same = 1;
			/* What is below a switch of the machine stays there. */
			writer->part = branch->at->kind == TOPOLOGY_SWITCH ? NCCLXML_ALL : part;
			if (branch->at->kind == TOPOLOGY_SWITCH)
				write_switch(writer, branch);
			else
				write_bridge(writer, branch);
			writer->part = part;
		}
	}
	writer->depth--;
}

/* Opens the switch below which GPUs are brought together. */
static void open_gpus(struct ncclxml_writer *writer)
{
	struct ncclxml_link_value value = ncclxml_link_value_of(WIDE_BPS, 0);

	value.word = topology_provenance_word(TOPOLOGY_ASSUMED);
	open_made_up(writer, topology_vertex_of(TOPOLOGY_SWITCH, NCCLXML_GPUS), NCCLXML_GPUS, &value);
}

/* Where P2P reaches across the host bridges of a CPU, its GPUs are below one switch, and its other devices beside it. */
static void write_under_cpu(struct ncclxml_writer *writer, uint32_t cpu)
{
	if (writer->shape->p2p_farthest < TOPOLOGY_CLASS_PHB) {
		write_under(writer, cpu);
		return;
	}
	writer->part = NCCLXML_WITH_GPUS;
	if (count_under(writer, cpu)) {
		open_gpus(writer);
		write_under(writer, cpu);
		ncclxml_text_close(&writer->text);
	}
	writer->part = NCCLXML_WITHOUT_GPUS;
	write_under(writer, cpu);
	writer->part = NCCLXML_ALL;
}

static void open_cpu(struct ncclxml_writer *writer, const struct topology_vertex *vertex, const char *affinity)
{
	const struct topology_cpu *cpu = &vertex->cpu;
	struct ncclxml_text *text = &writer->text;

	ncclxml_text_open(text, "cpu");
	ncclxml_text_attribute(text, "numaid", "%d", cpu->numa);
	if (affinity)
		ncclxml_text_attribute(text, "affinity", "%s", affinity);
	if (cpu->architecture[0])
		ncclxml_text_attribute(text, "arch", "%s", cpu->architecture);
	if (cpu->vendor[0])
		ncclxml_text_attribute(text, "vendor", "%s", cpu->vendor);
	/* NCCL fills in both or none. */
	if (cpu->family >= 0 && cpu->model >= 0) {
		ncclxml_text_attribute(text, "familyid", "%d", cpu->family);
		ncclxml_text_attribute(text, "modelid", "%d", cpu->model);
	}
}

static int write_cpus(struct ncclxml_writer *writer)
{
	const struct topology *topology = writer->topology;
	uint32_t *cpus;
	size_t count;
	int r;

	r = topology_list(topology, TOPOLOGY_CPU, &cpus, &count);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count && !writer->text.out.error; i++) {
		const struct topology_vertex *vertex = &topology->vertices[cpus[i]];

		open_cpu(writer, vertex, vertex->cpu.affinity[0] ? vertex->cpu.affinity : NULL);
		write_under_cpu(writer, cpus[i]);
		ncclxml_write_virtual_nics(writer, cpus[i]);
		ncclxml_text_close(&writer->text);
	}
	free(cpus);
	return 0;
}

/* A switch for each CPU, with its part of what is being written. */
static void write_socket_switches(struct ncclxml_writer *writer)
{
	const struct ncclxml_sockets *sockets = &writer->sockets;

	for (size_t i = 0; i < sockets->cpu_count; i++) {
		struct ncclxml_link_value value = ncclxml_link_value_of(sockets->rate_Bps[i], 0);

		if (!count_under(writer, sockets->cpus[i]))
			continue;
		value.word = topology_provenance_word(sockets->provenance[i]);
		open_made_up(writer, topology_vertex_of(TOPOLOGY_SWITCH, "socket"),
			     writer->topology->vertices[sockets->cpus[i]].name, &value);
		write_under(writer, sockets->cpus[i]);
		ncclxml_text_close(&writer->text);
	}
}

static void write_sockets(struct ncclxml_writer *writer)
{
	const struct ncclxml_sockets *sockets = &writer->sockets;
	const struct topology *topology = writer->topology;
	char affinity[NCCLMODEL_VALUE_MAX + 1];

	/* An empty mask binds nothing; without the attribute NCCL would bind everything to the first domain. */
	if (!ncclxml_sockets_affinity(topology, sockets, affinity, sizeof(affinity)))
		affinity[0] = '\0';
	open_cpu(writer, &topology->vertices[sockets->cpus[0]], affinity);
	writer->part = NCCLXML_WITH_GPUS;
	if (writer->shape->p2p_farthest >= TOPOLOGY_CLASS_SYS)
		open_gpus(writer);
	write_socket_switches(writer);
	if (writer->shape->p2p_farthest >= TOPOLOGY_CLASS_SYS)
		ncclxml_text_close(&writer->text);
	writer->part = NCCLXML_WITHOUT_GPUS;
	write_socket_switches(writer);
	writer->part = NCCLXML_ALL;
	ncclxml_write_virtual_nics(writer, TOPOLOGY_NONE);
	ncclxml_text_close(&writer->text);
}

static int check_gpus(const struct topology *topology, size_t *ret_count, struct diag *diag)
{
	*ret_count = 0;
	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		const struct topology_vertex *vertex = &topology->vertices[i];

		if (vertex->kind != TOPOLOGY_GPU)
			continue;
		if (!vertex->bus_id[0]) {
			diag_set(diag, 0, 0, "%s has no bus id, by which NCCL would know it", vertex->name);
			return -EINVAL;
		}
		(*ret_count)++;
	}
	return 0;
}

static int write_all(struct ncclxml_writer *writer, struct diag *diag)
{
	struct ncclxml_text *text = &writer->text;
	size_t gpus;
	int r;

	r = check_gpus(writer->topology, &gpus, diag);
	if (r < 0)
		return r;
	r = ncclxml_sockets_decide(writer->topology, writer->shape, &writer->sockets, diag);
	if (r < 0)
		return r;
	r = ncclxml_tree_init(writer->topology, &writer->tree);
	if (r < 0)
		return r;
	ncclxml_text_comment(text,
			     "Written by Tributary. Widths that no slot has are rates, see docs/format/nccl-files.md.");
	ncclxml_text_open(text, "system");
	ncclxml_text_attribute(text, "version", "%d", NCCLMODEL_VERSION);
	if (writer->sockets.as_switches)
		write_sockets(writer);
	else
		r = write_cpus(writer);
	ncclxml_text_close(text);
	if (r == 0 && text->out.error) {
		r = text->out.error;
		diag_set(diag, 0, 0, "the file would have %s", text->reason ? text->reason : "no memory");
	}
	if (r == 0 && writer->gpus_written != gpus) {
		r = -EINVAL;
		diag_set(diag, 0, 0, "%zu of %zu GPUs are below no CPU", gpus - writer->gpus_written, gpus);
	}
	return r;
}

int topology_xml_write(const struct topology *topology, const struct topology_xml_shape *shape, char **ret,
		       size_t *ret_bytes, struct topology_xml_report *ret_report, struct diag *diag)
{
	struct ncclxml_writer writer = { .topology = topology, .shape = shape };
	int r;

	r = write_all(&writer, diag);
	if (r == 0) {
		if (ret_report) {
			memset(ret_report, 0, sizeof(*ret_report));
			ret_report->sockets_as_switches = writer.sockets.as_switches;
			ret_report->worst_error_Bps = writer.worst_error_Bps;
			ncclxml_sockets_missed(topology, &writer.sockets, &ret_report->socket_Bps,
					       &ret_report->nccl_socket_Bps);
			ret_report->node_count = writer.text.element_count;
			ncclxml_sockets_changes(topology, writer.sockets.as_switches, shape->p2p_farthest,
						ret_report->changed_classes, sizeof(ret_report->changed_classes));
		}
		*ret = writer.text.out.at;
		*ret_bytes = writer.text.out.bytes;
		writer.text.out.at = NULL;
	}
	ncclxml_tree_fini(&writer.tree);
	free(writer.text.out.at);
	return r;
}
