/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NUMA nodes of hwloc's XML have cores of their own, and which are memory alone: that of a GPU, HBM, CXL. hwloc gives
 * a node without cores the cpuset of the cores that are nearest to it, so an empty cpuset is rare. Pure.
 */
#ifndef TRIBUTARY_DISCOVER_HWLOC_NODES_H
#define TRIBUTARY_DISCOVER_HWLOC_NODES_H

#include "discover/hwloc_xml.h"

enum { HWLOC_NODE_WORDS = 64, HWLOC_CPU_WORDS = 256 };

/* Least significant word first. */
struct hwloc_set {
	uint32_t words[HWLOC_NODE_WORDS];
};

struct hwloc_nodes {
	struct hwloc_node *at;
	size_t count;
	struct hwloc_set *near; /* of each object of the tree: the nodes that it is near to */
	uint32_t near_count;
};

/* A nodeset; without one in it *set stays as it is. */
void hwloc_set_read(const char *text, struct hwloc_set *set);
/* The node `object` of the tree, and its mask of cores; either text may be NULL. -ENOMEM, -EEXIST. */
int hwloc_nodes_add(struct hwloc_nodes *nodes, uint32_t object, int os_index, const char *cpuset, const char *subtype,
		    char ret_mask[static TOPOLOGY_AFFINITY_BYTES]);
/* For each object of the tree, in its order. -ENOMEM. */
int hwloc_nodes_add_near(struct hwloc_nodes *nodes, const struct hwloc_set *set);
/* Sets has_cpus, node and several_nodes of the tree's objects. -ENOMEM. */
int hwloc_nodes_finish(struct hwloc_nodes *nodes, struct discover_tree *tree);
void hwloc_nodes_fini(struct hwloc_nodes *nodes);

#endif
