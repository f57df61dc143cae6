/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclxml/sockets.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ncclxml/link_value.h"
#include "tributary/topology.h"

enum { FAR_PERCENT = 25, MASK_WORDS = TOPOLOGY_AFFINITY_BYTES / 2 };

struct pair_rate {
	uint64_t rate_Bps;
	enum topology_provenance provenance; /* the lesser of both directions */
};

static bool is_device(const struct topology_vertex *vertex)
{
	return vertex->kind == TOPOLOGY_GPU || vertex->kind == TOPOLOGY_NIC;
}

/* The smaller direction, because NCCL has one value for both. No rate at all: NCCL's constant, which it would take. */
static struct pair_rate pair_rate_of(const struct topology *topology, uint32_t a, uint32_t b)
{
	uint32_t at = topology_find_link(topology, a, b);
	struct pair_rate pair = { ncclmodel_socket_Bps(&topology->vertices[a].cpu), TOPOLOGY_ASSUMED };
	const struct topology_capacity *capacity;

	if (at == TOPOLOGY_NONE || topology->links[at].kind != TOPOLOGY_LINK_SOCKET)
		return pair;
	capacity = topology->links[at].capacity;
	for (unsigned i = 0; i < 2; i++)
		if (capacity[i].provenance == TOPOLOGY_UNKNOWN || !capacity[i].rate_Bps)
			return pair;
	pair.rate_Bps = capacity[0].rate_Bps < capacity[1].rate_Bps ? capacity[0].rate_Bps : capacity[1].rate_Bps;
	pair.provenance = capacity[0].provenance < capacity[1].provenance ? capacity[0].provenance
									  : capacity[1].provenance;
	return pair;
}

static bool far_off(uint64_t rate_Bps, uint64_t from_Bps)
{
	uint64_t off_Bps = rate_Bps > from_Bps ? rate_Bps - from_Bps : from_Bps - rate_Bps;

	return (double)off_Bps * 100 > (double)from_Bps * FAR_PERCENT;
}

/* Whether the measurement says something else than NCCL's constant. */
static bool surprises(const struct pair_rate *pair, uint64_t constant_Bps)
{
	if (pair->provenance == TOPOLOGY_MEASURED)
		return far_off(pair->rate_Bps, constant_Bps);
	return pair->provenance == TOPOLOGY_AT_LEAST && pair->rate_Bps > constant_Bps &&
	       far_off(pair->rate_Bps, constant_Bps);
}

void ncclxml_sockets_missed(const struct topology *topology, const struct ncclxml_sockets *sockets, uint64_t *ret_Bps,
			    uint64_t *ret_nccl_Bps)
{
	uint64_t most_Bps = 0;

	*ret_Bps = *ret_nccl_Bps = 0;
	for (size_t i = 0; !sockets->as_switches && i < sockets->cpu_count; i++) {
		uint64_t constant_Bps = ncclmodel_socket_Bps(&topology->vertices[sockets->cpus[i]].cpu);

		for (size_t k = 0; k < sockets->cpu_count; k++) {
			struct pair_rate pair = pair_rate_of(topology, sockets->cpus[i], sockets->cpus[k]);
			uint64_t off_Bps = pair.rate_Bps > constant_Bps ? pair.rate_Bps - constant_Bps
									: constant_Bps - pair.rate_Bps;

			if (k == i || off_Bps <= most_Bps ||
			    (pair.provenance == TOPOLOGY_AT_LEAST && pair.rate_Bps < constant_Bps))
				continue;
			most_Bps = off_Bps;
			*ret_Bps = pair.rate_Bps;
			*ret_nccl_Bps = constant_Bps;
		}
	}
}

static int by_domain(const void *left, const void *right, void *arg)
{
	const struct topology *topology = arg;
	const struct topology_vertex *a = &topology->vertices[*(const uint32_t *)left];
	const struct topology_vertex *b = &topology->vertices[*(const uint32_t *)right];

	if (a->cpu.numa != b->cpu.numa)
		return a->cpu.numa < b->cpu.numa ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int find_cpus(const struct topology *topology, struct ncclxml_sockets *sockets, struct diag *diag)
{
	size_t devices = 0;

	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		uint32_t cpu;
		size_t k;

		if (!is_device(&topology->vertices[i]))
			continue;
		cpu = topology_cpu_of(topology, i);
		if (++devices > NCCLMODEL_NODE_MAX) {
			diag_set(diag, 0, 0, "more than %d GPUs and NICs", NCCLMODEL_NODE_MAX);
			return -E2BIG;
		}
		if (cpu == TOPOLOGY_NONE)
			continue;
		for (k = 0; k < sockets->cpu_count && sockets->cpus[k] != cpu; k++)
			;
		if (k == sockets->cpu_count)
			sockets->cpus[sockets->cpu_count++] = cpu; /* at most one for each device */
	}
	qsort_r(sockets->cpus, sockets->cpu_count, sizeof(sockets->cpus[0]), by_domain, (void *)(uintptr_t)topology);
	return 0;
}

/* Each switch's rate. True: a star can say it, and it is worth saying. */
static bool find_rates(const struct topology *topology, struct ncclxml_sockets *sockets, bool *ret_faster)
{
	uint64_t least_Bps = UINT64_MAX, most_Bps = 0;
	bool worth = false, measured = true;

	*ret_faster = true;
	for (size_t i = 0; i < sockets->cpu_count; i++) {
		uint64_t constant_Bps = ncclmodel_socket_Bps(&topology->vertices[sockets->cpus[i]].cpu);

		sockets->rate_Bps[i] = UINT64_MAX;
		for (size_t k = 0; k < sockets->cpu_count; k++) {
			struct pair_rate pair;

			if (k == i)
				continue;
			pair = pair_rate_of(topology, sockets->cpus[i], sockets->cpus[k]);
			if (pair.rate_Bps < sockets->rate_Bps[i]) {
				sockets->rate_Bps[i] = pair.rate_Bps;
				sockets->provenance[i] = pair.provenance;
			}
			least_Bps = pair.rate_Bps < least_Bps ? pair.rate_Bps : least_Bps;
			most_Bps = pair.rate_Bps > most_Bps ? pair.rate_Bps : most_Bps;
			measured = measured && pair.provenance >= TOPOLOGY_AT_LEAST;
			worth = worth || surprises(&pair, constant_Bps);
			*ret_faster = *ret_faster && pair.rate_Bps > constant_Bps;
		}
	}
	return worth && measured && !far_off(most_Bps, least_Bps);
}

static bool p2p_both_ways(const struct topology *topology, uint32_t a, uint32_t b)
{
	uint32_t there = topology_find_pair(topology, a, b), back = topology_find_pair(topology, b, a);

	return there != TOPOLOGY_NONE && back != TOPOLOGY_NONE && topology->pairs[there].p2p_works &&
	       topology->pairs[back].p2p_works;
}

/* Known of every pair, and never possible. */
static bool no_p2p_at_all(const struct topology *topology)
{
	size_t gpus = topology_count(topology, TOPOLOGY_GPU);

	for (size_t i = 0; i < topology->pair_count; i++)
		if (topology->pairs[i].p2p_works)
			return false;
	return gpus && topology->pair_count >= gpus * (gpus - 1);
}

/* The fastest wire of the NICs that NCCL counts as near. */
static uint64_t near_rate(const struct topology *topology, uint32_t gpu)
{
	uint64_t most_Bps = 0;

	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		uint64_t rate_Bps;

		if (topology->vertices[i].kind != TOPOLOGY_NIC ||
		    topology_class_of(topology, gpu, i) > TOPOLOGY_CLASS_PXB)
			continue;
		rate_Bps = ncclxml_wire_rate(topology, i);
		most_Bps = rate_Bps > most_Bps ? rate_Bps : most_Bps;
	}
	return most_Bps;
}

/* What two GPUs' classes and ways allow; see the header. */
static bool gpus_allow(const struct topology *topology, bool faster, uint64_t least_Bps,
		       enum topology_class p2p_farthest)
{
	bool none = no_p2p_at_all(topology);

	for (uint32_t a = 0; a < topology->vertex_count; a++) {
		if (topology->vertices[a].kind != TOPOLOGY_GPU)
			continue;
		for (uint32_t b = a + 1; b < topology->vertex_count; b++) {
			enum topology_class path_class;
			bool p2p;

			if (topology->vertices[b].kind != TOPOLOGY_GPU)
				continue;
			path_class = topology_class_of(topology, a, b);
			p2p = p2p_both_ways(topology, a, b);
			if (path_class == TOPOLOGY_CLASS_SYS && !p2p && !none)
				return false;
			if (path_class == TOPOLOGY_CLASS_SYS && !faster && near_rate(topology, a) > least_Bps &&
			    near_rate(topology, b) > least_Bps)
				return false;
			/* The socket's switch brings them together. */
			if (path_class == TOPOLOGY_CLASS_PHB && p2p_farthest < TOPOLOGY_CLASS_PHB)
				return false;
			if (path_class < TOPOLOGY_CLASS_SYS && !p2p && !faster)
				return false;
		}
	}
	return true;
}

static bool nics_allow(const struct topology *topology, uint64_t least_Bps)
{
	for (uint32_t a = 0; a < topology->vertex_count; a++) {
		bool same = false, other = false;

		for (uint32_t b = 0; topology->vertices[a].kind == TOPOLOGY_GPU && b < topology->vertex_count; b++) {
			enum topology_class path_class;
			uint64_t wire_Bps;

			if (topology->vertices[b].kind != TOPOLOGY_NIC)
				continue;
			path_class = topology_class_of(topology, a, b);
			same = same || path_class == TOPOLOGY_CLASS_PHB;
			other = other || path_class == TOPOLOGY_CLASS_SYS;
			wire_Bps = ncclxml_wire_rate(topology, b);
			if (path_class == TOPOLOGY_CLASS_PHB && (!wire_Bps || wire_Bps > least_Bps))
				return false;
		}
		if (same && other)
			return false;
	}
	return true;
}

/* Only a NIC that shares a switch with a GPU is written beside it; the others are not below the switch of the GPUs. */
bool ncclxml_sockets_bring_nics_nearer(const struct topology *topology, enum topology_class farthest)
{
	for (uint32_t nic = 0; nic < topology->vertex_count; nic++) {
		bool near = false, beyond = false;

		for (uint32_t i = 0; topology->vertices[nic].kind == TOPOLOGY_NIC && i < topology->vertex_count; i++) {
			enum topology_class path_class;

			if (topology->vertices[i].kind != TOPOLOGY_GPU)
				continue;
			path_class = topology_class_of(topology, i, nic);
			near = near || path_class <= TOPOLOGY_CLASS_PXB;
			beyond = beyond || (path_class > TOPOLOGY_CLASS_PXB && path_class <= farthest);
		}
		if (near && beyond)
			return true;
	}
	return false;
}

static uint64_t least_rate(const struct ncclxml_sockets *sockets)
{
	uint64_t least_Bps = UINT64_MAX;

	for (size_t i = 0; i < sockets->cpu_count; i++)
		least_Bps = sockets->rate_Bps[i] < least_Bps ? sockets->rate_Bps[i] : least_Bps;
	return least_Bps;
}

/* What goes through host memory inside a socket would be charged with the rate between sockets. */
static bool all_have_p2p(const struct topology *topology)
{
	for (uint32_t a = 0; a < topology->vertex_count; a++)
		for (uint32_t b = a + 1; topology->vertices[a].kind == TOPOLOGY_GPU && b < topology->vertex_count; b++)
			if (topology->vertices[b].kind == TOPOLOGY_GPU && !p2p_both_ways(topology, a, b))
				return false;
	return true;
}

bool ncclxml_sockets_allow_p2p(const struct topology *topology)
{
	struct ncclxml_sockets sockets = { .cpu_count = 0 };
	char mask[NCCLMODEL_VALUE_MAX + 1];
	struct diag diag = { .text = "" };
	bool faster;

	if (find_cpus(topology, &sockets, &diag) < 0)
		return false;
	(void)find_rates(topology, &sockets, &faster);
	return all_have_p2p(topology) && nics_allow(topology, least_rate(&sockets)) &&
	       !ncclxml_sockets_bring_nics_nearer(topology, TOPOLOGY_CLASS_SYS) &&
	       ncclxml_sockets_affinity(topology, &sockets, mask, sizeof(mask));
}

int ncclxml_sockets_decide(const struct topology *topology, const struct topology_xml_shape *shape,
			   struct ncclxml_sockets *ret, struct diag *diag)
{
	struct ncclxml_sockets sockets = { .cpu_count = 0 };
	const enum topology_xml_sockets asked = shape->sockets;
	char mask[NCCLMODEL_VALUE_MAX + 1];
	uint64_t least_Bps;
	bool worth, faster;
	int r;

	r = find_cpus(topology, &sockets, diag);
	if (r < 0)
		return r;
	worth = find_rates(topology, &sockets, &faster);
	if (asked == TOPOLOGY_XML_SOCKETS_SWITCHES && sockets.cpu_count > 1) {
		for (size_t i = 0; i < sockets.cpu_count; i++) {
			if (sockets.rate_Bps[i])
				continue;
			diag_set(diag, 0, 0, "CPUs as switches: nothing is known of the rate between %s and the others",
				 topology->vertices[sockets.cpus[i]].name);
			return -EINVAL;
		}
		sockets.as_switches = true;
	}
	least_Bps = least_rate(&sockets);
	if (asked == TOPOLOGY_XML_SOCKETS_AUTO && sockets.cpu_count > 1 && worth)
		sockets.as_switches = gpus_allow(topology, faster, least_Bps, shape->p2p_farthest) &&
				      nics_allow(topology, least_Bps) &&
				      !ncclxml_sockets_bring_nics_nearer(topology, TOPOLOGY_CLASS_PHB) &&
				      ncclxml_sockets_affinity(topology, &sockets, mask, sizeof(mask));
	if (asked == TOPOLOGY_XML_SOCKETS_AUTO && sockets.cpu_count > 1 && shape->p2p_farthest >= TOPOLOGY_CLASS_SYS)
		sockets.as_switches = true;
	*ret = sockets;
	return 0;
}

/* The class that the file gives two devices, of which the first is a GPU. */
static enum topology_class class_in_file(const struct topology *topology, bool as_switches,
					 enum topology_class p2p_farthest, uint32_t gpu, uint32_t device)
{
	enum topology_class path_class = topology_class_of(topology, gpu, device);

	if (topology->vertices[device].kind == TOPOLOGY_GPU && path_class >= TOPOLOGY_CLASS_PHB &&
	    path_class <= p2p_farthest)
		return TOPOLOGY_CLASS_PXB;
	return path_class == TOPOLOGY_CLASS_SYS && as_switches ? TOPOLOGY_CLASS_PHB : path_class;
}

void ncclxml_sockets_changes(const struct topology *topology, bool as_switches, enum topology_class p2p_farthest,
			     char *text, size_t text_bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t a = 0; a < topology->vertex_count; a++) {
		for (uint32_t b = 0; topology->vertices[a].kind == TOPOLOGY_GPU && b < topology->vertex_count; b++) {
			char change[2 * TOPOLOGY_NAME_BYTES + 16];
			enum topology_class before, after;
			size_t bytes;

			if (a == b || !is_device(&topology->vertices[b]) ||
			    (b < a && topology->vertices[b].kind == TOPOLOGY_GPU))
				continue;
			before = topology_class_of(topology, a, b);
			after = class_in_file(topology, as_switches, p2p_farthest, a, b);
			if (before == after)
				continue;
			snprintf(change, sizeof(change), "%s%s-%s %s->%s", used ? ", " : "", topology->vertices[a].name,
				 topology->vertices[b].name, topology_class_word(before), topology_class_word(after));
			bytes = strlen(change);
			/* Room for the dots, too: it is a sample then, and looks like one. */
			if (used + bytes + sizeof(", ...") > text_bytes) {
				snprintf(text + used, text_bytes - used, "%s...", used ? ", " : "");
				return;
			}
			memcpy(text + used, change, bytes + 1);
			used += bytes;
		}
	}
}

/*
 * A mask as the kernel writes it: groups of 32 bits, the highest first. Its words are ORed into `words`, lowest first.
 */
static bool mask_add(const char *mask, uint32_t *words, size_t *count)
{
	size_t groups = 1, at;

	for (const char *c = mask; *c; c++)
		groups += *c == ',';
	if (!mask[0] || groups > MASK_WORDS)
		return false;
	*count = groups > *count ? groups : *count;
	for (at = groups; at--; mask++) {
		uint32_t word = 0;
		unsigned digits = 0;

		for (; isxdigit((unsigned char)*mask); mask++, digits++)
			word = word << 4 |
			       (uint32_t)(isdigit((unsigned char)*mask) ? *mask - '0'
									: tolower((unsigned char)*mask) - 'a' + 10);
		if (!digits || digits > 8 || *mask != (at ? ',' : '\0'))
			return false;
		words[at] |= word;
	}
	return true;
}

bool ncclxml_sockets_affinity(const struct topology *topology, const struct ncclxml_sockets *sockets, char *text,
			      size_t text_bytes)
{
	uint32_t words[MASK_WORDS] = { 0 };
	size_t count = 0, used = 0;

	for (size_t i = 0; i < sockets->cpu_count; i++)
		if (!mask_add(topology->vertices[sockets->cpus[i]].cpu.affinity, words, &count))
			return false;
	if (count * 9 + 1 > text_bytes)
		return false;
	text[0] = '\0';
	while (count--)
		used += (size_t)snprintf(text + used, text_bytes - used, "%08x%s", words[count], count ? "," : "");
	return true;
}
