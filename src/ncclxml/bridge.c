#include "ncclxml/writer.h"

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
