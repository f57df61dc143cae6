/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclxml/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "tributary/topology.h"

static bool hangs(const struct topology_vertex *vertex)
{
	return vertex->kind == TOPOLOGY_GPU || vertex->kind == TOPOLOGY_NIC || vertex->kind == TOPOLOGY_SWITCH ||
	       vertex->kind == TOPOLOGY_BRIDGE;
}

static bool holds(const struct topology_vertex *vertex)
{
	return vertex->kind == TOPOLOGY_CPU || vertex->kind == TOPOLOGY_SWITCH || vertex->kind == TOPOLOGY_BRIDGE;
}

static int compare(const void *left, const void *right)
{
	const struct ncclxml_branch *a = left, *b = right;
	int order;

	if (a->parent != b->parent)
		return a->parent < b->parent ? -1 : 1;
	order = strcmp(a->at->bus_id, b->at->bus_id);
	return order ? order : topology_compare_names(a->at->name, b->at->name);
}

/* A GPU that has C2C alone hangs there, too, so that NCCL knows of it. */
static void place(struct ncclxml_tree *tree, bool *placed, bool c2c)
{
	const struct topology *topology = tree->topology;

	for (uint32_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];
		const struct topology_vertex *lower = &topology->vertices[link->lower];
		bool fits = c2c ? link->kind == TOPOLOGY_LINK_C2C
				: link->kind == TOPOLOGY_LINK_PCI || link->kind == TOPOLOGY_LINK_INTERNAL;

		if (!fits || placed[link->lower] || !hangs(lower) || !holds(&topology->vertices[link->upper]))
			continue;
		placed[link->lower] = true;
		tree->branches[tree->count++] = (struct ncclxml_branch){ link->upper, link->lower, i, lower };
	}
}

int ncclxml_tree_init(const struct topology *topology, struct ncclxml_tree *ret)
{
	struct ncclxml_tree tree = { .topology = topology };
	bool *placed = sys_zalloc(topology->vertex_count + 1);

	tree.branches = sys_zalloc((topology->vertex_count + 1) * sizeof(tree.branches[0]));
	if (!placed || !tree.branches) {
		sys_free(placed);
		sys_free(tree.branches);
		return -ENOMEM;
	}
	place(&tree, placed, false);
	place(&tree, placed, true);
	qsort(tree.branches, tree.count, sizeof(tree.branches[0]), compare);
	sys_free(placed);
	*ret = tree;
	return 0;
}

void ncclxml_tree_fini(struct ncclxml_tree *tree)
{
	sys_free(tree->branches);
	memset(tree, 0, sizeof(*tree));
}

const struct ncclxml_branch *ncclxml_tree_under(const struct ncclxml_tree *tree, uint32_t parent, size_t *ret_count)
{
	size_t low = 0, high = tree->count, end;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (tree->branches[middle].parent < parent)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < tree->count && tree->branches[end].parent == parent;)
		end++;
	*ret_count = end - low;
	return tree->branches + low;
}

bool ncclxml_tree_has_gpu(const struct ncclxml_tree *tree, const struct ncclxml_branch *branch)
{
	size_t count;
	const struct ncclxml_branch *below = ncclxml_tree_under(tree, branch->vertex, &count);

	if (branch->at->kind == TOPOLOGY_GPU)
		return true;
	for (size_t i = 0; i < count; i++)
		if (ncclxml_tree_has_gpu(tree, &below[i]))
			return true;
	return false;
}

uint64_t ncclxml_tree_sum(const struct ncclxml_tree *tree, uint32_t parent)
{
	size_t count;
	const struct ncclxml_branch *branches = ncclxml_tree_under(tree, parent, &count);
	uint64_t sum_Bps = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t rate_Bps = ncclxml_link_rate(&tree->topology->links[branches[i].link], NULL);

		if (!rate_Bps)
			return 0;
		if (i && branches[i].at->bus_id[0] && !strcmp(branches[i].at->bus_id, branches[i - 1].at->bus_id))
			continue;
		sum_Bps = sum_Bps > UINT64_MAX - rate_Bps ? UINT64_MAX : sum_Bps + rate_Bps;
	}
	return sum_Bps;
}

/* ---------------------------------------------------------------------------------------------------------- bridges */

enum { DEPTH_MAX = 32 };

struct device {
	uint32_t vertex;
	size_t port;
};
struct devices {
	struct device at[NCCLMODEL_NODE_MAX];
	size_t count;
	bool too_many;
};

static void collect(const struct ncclxml_tree *tree, uint32_t parent, size_t port, unsigned depth,
		    struct devices *devices)
{
	size_t count;
	const struct ncclxml_branch *branches = ncclxml_tree_under(tree, parent, &count);

	for (size_t i = 0; i < count && !devices->too_many; i++) {
		size_t here = depth ? port : i;
		enum topology_kind kind = branches[i].at->kind;

		if (depth == DEPTH_MAX || devices->count == NCCLMODEL_NODE_MAX)
			devices->too_many = true;
		else if (kind == TOPOLOGY_GPU || kind == TOPOLOGY_NIC)
			devices->at[devices->count++] = (struct device){ branches[i].vertex, here };
		else
			collect(tree, branches[i].vertex, here, depth + 1, devices);
	}
}

static bool pair_allows(const struct topology_vertex *a, const struct topology_vertex *b,
			enum topology_class p2p_farthest)
{
	if (a->kind == TOPOLOGY_NIC)
		return b->kind == TOPOLOGY_NIC || !b->gpu.gdr || !a->nic.gdr;
	if (b->kind == TOPOLOGY_NIC)
		return !a->gpu.gdr || !b->nic.gdr;
	return p2p_farthest >= TOPOLOGY_CLASS_PHB;
}

bool ncclxml_bridge_allows(const struct ncclxml_tree *tree, uint32_t bridge, enum topology_class p2p_farthest)
{
	const struct topology_vertex *vertices = tree->topology->vertices;
	struct devices devices = { .count = 0 };

	collect(tree, bridge, 0, 0, &devices);
	for (size_t i = 0; i < devices.count; i++)
		for (size_t k = 0; k < devices.count; k++)
			if (devices.at[i].port != devices.at[k].port &&
			    !pair_allows(&vertices[devices.at[i].vertex], &vertices[devices.at[k].vertex],
					 p2p_farthest))
				return false;
	return !devices.too_many;
}
