#include "ncclxml/writer.h"

enum { DEPTH_MAX = 32 };

struct device {
	uint32_t vertex;
	size_t port;
};
struct devices {
	struct device at[NCCLXML_NODE_MAX];
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

		if (depth == DEPTH_MAX || devices->count == NCCLXML_NODE_MAX)
			devices->too_many = true;
		else if (kind == TOPOLOGY_GPU || kind == TOPOLOGY_NIC)
			devices->at[devices->count++] = (struct device){ branches[i].vertex, here };
		else
			collect(tree, branches[i].vertex, here, depth + 1, devices);
	}
}

static bool pair_allows(const struct topology *topology, const struct topology_vertex *vertices, uint32_t a, uint32_t b)
{
	uint32_t pair;

	if (vertices[a].kind == TOPOLOGY_NIC)
		return vertices[b].kind == TOPOLOGY_NIC || !vertices[b].gpu.gdr || !vertices[a].nic.gdr;
	if (vertices[b].kind == TOPOLOGY_NIC)
		return !vertices[a].gpu.gdr || !vertices[b].nic.gdr;
	pair = topology_find_pair(topology, a, b);
	return pair != TOPOLOGY_NONE && topology->pairs[pair].p2p_works;
}

bool ncclxml_bridge_allows(const struct ncclxml_tree *tree, uint32_t bridge)
{
	const struct topology *topology = tree->topology;
	struct devices devices = { .count = 0 };

	collect(tree, bridge, 0, 0, &devices);
	for (size_t i = 0; i < devices.count; i++)
		for (size_t k = 0; k < devices.count; k++)
			if (devices.at[i].port != devices.at[k].port &&
			    !pair_allows(topology, topology->vertices, devices.at[i].vertex, devices.at[k].vertex))
				return false;
	return !devices.too_many;
}
