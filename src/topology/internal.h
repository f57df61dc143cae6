/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share: bounds, words back to values, the order of names, rates that are known, ways. */
#ifndef TRIBUTARY_TOPOLOGY_INTERNAL_H
#define TRIBUTARY_TOPOLOGY_INTERNAL_H

#include "tributary/topology.h"

/* Of one graph. Whatever can be built can be written, and whatever was written can be read. */
enum {
	TOPOLOGY_VERTICES_MAX = 4096,
	TOPOLOGY_LINKS_MAX = 16384,
	TOPOLOGY_LIMITS_MAX = 16384,
	TOPOLOGY_PAIRS_MAX = 16384,
	TOPOLOGY_COUNT_MAX = 1024, /* parallel links that one link stands for */
	TOPOLOGY_GENERATION_MAX = 7,
	TOPOLOGY_LANES_MAX = 65535, /* some NCCL topology files write any width to get the rate they want */
};

bool topology_kind_of_word(const char *word, enum topology_kind *ret);
bool topology_link_kind_of_word(const char *word, enum topology_link_kind *ret);
bool topology_provenance_of_word(const char *word, enum topology_provenance *ret);

/* Of a vertex: no separators of the text form and of directed names. Of a limit: no spaces, quotes or backslashes. */
bool topology_vertex_name_ok(const char *name);
bool topology_limit_name_ok(const char *name);

/* The place of a link among those that join the same two vertices, from 1; 0 where it is the only one. */
size_t topology_parallel_number(const struct topology *topology, uint32_t link);

static inline bool topology_known(const struct topology_capacity *capacity)
{
	return capacity->provenance != TOPOLOGY_UNKNOWN && capacity->rate_Bps > 0;
}

/*
 * A directed name in its parts: "a>b#2" is a, b and 2, "a>b" is a, b and 1. False: it is none. The names have room for
 * TOPOLOGY_NAME_BYTES.
 */
bool topology_split_directed(const char *name, char *ret_from, char *ret_to, uint32_t *ret_number);

/* The limits that each directed link is a member of. */
struct topology_memberships {
	void *arrays;     /* the block of both; freed by sys_free */
	size_t *first;    /* of each directed link in `limits`, and one more at the end */
	uint32_t *limits; /* ascending for each */
};
/* order: limits in the order that numbers them; NULL: their own. */
int topology_memberships_init(struct topology_memberships *memberships, const struct topology *topology,
			      const uint32_t *order);

/*
 * Finds ways in one graph, any number of them. Holds the links of each vertex; the graph may not change meanwhile.
 */
struct topology_ways {
	const struct topology *topology;
	void *arrays;       /* the block of all of these; freed by sys_free */
	uint32_t *first;    /* of each vertex in `incident`, and one more at the end */
	uint32_t *incident; /* links, ascending for each vertex */
	uint32_t *queue;    /* vertices, of a search */
	uint32_t *reached;  /* by which directed link, of a search */
};

int topology_ways_init(struct topology_ways *ways, const struct topology *topology);
/* As topology_route. */
int topology_ways_route(struct topology_ways *ways, const struct topology_flow *flow, struct topology_route *ret);

#endif
