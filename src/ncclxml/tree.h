/*
 * The PCI tree of a graph, as the writer walks it: each vertex under the one that its first PCI link leads up to. Pure.
 */
#ifndef TRIBUTARY_NCCLXML_TREE_H
#define TRIBUTARY_NCCLXML_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct topology;
struct topology_vertex;

struct ncclxml_branch {
	uint32_t parent, vertex, link; /* link: vertex to parent */
	const struct topology_vertex *at;
};

/* By parent, then bus id (NCCL wants that order), then name. Points into the graph, which must not change meanwhile. */
struct ncclxml_tree {
	const struct topology *topology;
	struct ncclxml_branch *branches;
	size_t count;
};

int ncclxml_tree_init(const struct topology *topology, struct ncclxml_tree *ret);
void ncclxml_tree_fini(struct ncclxml_tree *tree);
/* What hangs under a vertex; *ret_count 0: nothing. */
const struct ncclxml_branch *ncclxml_tree_under(const struct ncclxml_tree *tree, uint32_t parent, size_t *ret_count);
bool ncclxml_tree_has_gpu(const struct ncclxml_tree *tree, const struct ncclxml_branch *branch);
/*
 * What the links of all that hangs under a vertex carry together, a card with several ports once; 0: not known of all.
 */
uint64_t ncclxml_tree_sum(const struct ncclxml_tree *tree, uint32_t parent);

#endif
