/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to vertices and directed links while a text is read, in constant time: the topology_find_* functions look at
 * everything, which is too slow for a text of some megabytes. It only grows, with the graph.
 */
#ifndef TRIBUTARY_TOPOLOGY_INDEX_H
#define TRIBUTARY_TOPOLOGY_INDEX_H

#include "tributary/topology.h"

struct topology_index {
	void *arrays;       /* the block of all of these; freed by sys_free */
	uint32_t *vertices; /* slots: an index and 1, or 0 */
	uint32_t *links;    /* the same, by both ends and number */
	uint32_t *number;   /* of each link among those that join the same two, from 1 */
	uint32_t *count;    /* how many those are, kept at the first of them */
};

int topology_index_init(struct topology_index *index);

uint32_t topology_index_find(const struct topology_index *index, const struct topology *topology, const char *name);
/* As topology_find_directed. */
uint32_t topology_index_find_directed(const struct topology_index *index, const struct topology *topology,
				      const char *name);
/* The last vertex or link that was added to the graph. */
void topology_index_add_vertex(struct topology_index *index, const struct topology *topology);
void topology_index_add_link(struct topology_index *index, const struct topology *topology);

#endif
