/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/index.h"

#include "base/hash.h"
#include "base/sys.h"
#include "topology/internal.h"

#include <errno.h>
#include <string.h>

/* Powers of two, twice as many as there can be: a free slot is always near. */
enum { VERTEX_SLOTS = 2 * TOPOLOGY_VERTICES_MAX, LINK_SLOTS = 2 * TOPOLOGY_LINKS_MAX };

int topology_index_init(struct topology_index *index)
{
	index->arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(index->vertices, VERTEX_SLOTS),
								SYS_ARRAY(index->links, LINK_SLOTS),
								SYS_ARRAY(index->number, TOPOLOGY_LINKS_MAX),
								SYS_ARRAY(index->count, TOPOLOGY_LINKS_MAX) },
					  4);
	return index->arrays ? 0 : -ENOMEM;
}

static uint64_t hash_link(uint32_t a, uint32_t b, uint32_t number)
{
	uint32_t least = a < b ? a : b, most = a < b ? b : a;

	return hash_step(hash_step(hash_step(HASH_START, least), most), number);
}

/* The slot where the name is, or would be. */
static uint32_t vertex_slot(const struct topology_index *index, const struct topology *topology, const char *name)
{
	uint32_t slot = (uint32_t)(hash_text(HASH_START, name) % VERTEX_SLOTS);

	while (index->vertices[slot] && strcmp(topology->vertices[index->vertices[slot] - 1].name, name) != 0)
		slot = (slot + 1) % VERTEX_SLOTS;
	return slot;
}

static bool joins(const struct topology_link *link, uint32_t a, uint32_t b)
{
	return (link->lower == a && link->upper == b) || (link->lower == b && link->upper == a);
}

static uint32_t link_slot(const struct topology_index *index, const struct topology *topology, uint32_t a, uint32_t b,
			  uint32_t number)
{
	uint32_t slot = (uint32_t)(hash_link(a, b, number) % LINK_SLOTS);

	for (; index->links[slot]; slot = (slot + 1) % LINK_SLOTS) {
		uint32_t link = index->links[slot] - 1;

		if (index->number[link] == number && joins(&topology->links[link], a, b))
			break;
	}
	return slot;
}

uint32_t topology_index_find(const struct topology_index *index, const struct topology *topology, const char *name)
{
	uint32_t found = index->vertices[vertex_slot(index, topology, name)];

	return found ? found - 1 : TOPOLOGY_NONE;
}

uint32_t topology_index_find_directed(const struct topology_index *index, const struct topology *topology,
				      const char *name)
{
	char from_name[TOPOLOGY_NAME_BYTES], to_name[TOPOLOGY_NAME_BYTES];
	uint32_t from, to, number, link;

	if (!topology_split_directed(name, from_name, to_name, &number))
		return TOPOLOGY_NONE;
	from = topology_index_find(index, topology, from_name);
	to = topology_index_find(index, topology, to_name);
	if (from == TOPOLOGY_NONE || to == TOPOLOGY_NONE)
		return TOPOLOGY_NONE;
	link = index->links[link_slot(index, topology, from, to, number)];
	if (!link)
		return TOPOLOGY_NONE;
	return topology_directed(link - 1, topology->links[link - 1].lower == from ? TOPOLOGY_UP : TOPOLOGY_DOWN);
}

void topology_index_add_vertex(struct topology_index *index, const struct topology *topology)
{
	uint32_t count = (uint32_t)topology->vertex_count;

	index->vertices[vertex_slot(index, topology, topology->vertices[count - 1].name)] = count;
}

void topology_index_add_link(struct topology_index *index, const struct topology *topology)
{
	uint32_t link = (uint32_t)topology->link_count - 1;
	uint32_t a = topology->links[link].lower, b = topology->links[link].upper;
	uint32_t first = index->links[link_slot(index, topology, a, b, 1)];

	first = first ? first - 1 : link;
	index->number[link] = ++index->count[first];
	index->links[link_slot(index, topology, a, b, index->number[link])] = link + 1;
}
