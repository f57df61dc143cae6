/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/internal.h"

#include "base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void topology_init(struct topology *topology)
{
	memset(topology, 0, sizeof(*topology));
}

void topology_fini(struct topology *topology)
{
	for (size_t i = 0; i < topology->limit_count; i++)
		sys_free(topology->limits[i].members);
	sys_free(topology->vertices);
	sys_free(topology->links);
	sys_free(topology->limits);
	sys_free(topology->pairs);
	topology_init(topology);
}

/* Room for one more, at most `most`. */
static int reserve(void *array, size_t each_bytes, size_t count, size_t most)
{
	return count < most ? sys_grow(array, count, 1, each_bytes) : -E2BIG;
}

/* Fields that are longer than their array would be read beyond it. */
static void terminate(struct topology_vertex *vertex)
{
	vertex->bus_id[sizeof(vertex->bus_id) - 1] = '\0';
	vertex->model[sizeof(vertex->model) - 1] = '\0';
	vertex->nic.interface[sizeof(vertex->nic.interface) - 1] = '\0';
	vertex->cpu.architecture[sizeof(vertex->cpu.architecture) - 1] = '\0';
	vertex->cpu.vendor[sizeof(vertex->cpu.vendor) - 1] = '\0';
	vertex->cpu.affinity[sizeof(vertex->cpu.affinity) - 1] = '\0';
}

int topology_add_vertex(struct topology *topology, const struct topology_vertex *vertex, uint32_t *ret)
{
	struct topology_vertex *place;
	int r;

	if ((unsigned)vertex->kind >= TOPOLOGY_KIND_COUNT || !topology_vertex_name_ok(vertex->name))
		return -EINVAL;
	if (topology_find(topology, vertex->name) != TOPOLOGY_NONE)
		return -EEXIST;
	r = reserve(&topology->vertices, sizeof(*vertex), topology->vertex_count, TOPOLOGY_VERTICES_MAX);
	if (r < 0)
		return r;
	place = &topology->vertices[topology->vertex_count];
	*place = *vertex;
	terminate(place);
	if (ret)
		*ret = (uint32_t)topology->vertex_count;
	topology->vertex_count++;
	return 0;
}

int topology_add_link(struct topology *topology, const struct topology_link *link, uint32_t *ret)
{
	struct topology_link *place;
	int r;

	if ((unsigned)link->kind >= TOPOLOGY_LINK_KIND_COUNT || link->lower >= topology->vertex_count ||
	    link->upper >= topology->vertex_count || link->lower == link->upper || !link->count ||
	    link->count > TOPOLOGY_COUNT_MAX)
		return -EINVAL;
	r = reserve(&topology->links, sizeof(*link), topology->link_count, TOPOLOGY_LINKS_MAX);
	if (r < 0)
		return r;
	place = &topology->links[topology->link_count];
	*place = *link;
	place->pci.port[sizeof(place->pci.port) - 1] = '\0';
	if (ret)
		*ret = (uint32_t)topology->link_count;
	topology->link_count++;
	return 0;
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

	return (first > second) - (first < second);
}

/* A set: ascending, each once. */
static size_t sort_members(uint32_t *members, size_t count)
{
	size_t kept = 0;

	if (count)
		qsort(members, count, sizeof(*members), compare_u32);
	for (size_t i = 0; i < count; i++)
		if (!kept || members[kept - 1] != members[i])
			members[kept++] = members[i];
	return kept;
}

int topology_add_limit(struct topology *topology, const char *name, const struct topology_capacity *capacity,
		       const uint32_t *members, size_t member_count, uint32_t *ret)
{
	struct topology_limit *place;
	uint32_t *copy;
	int r;

	if (!topology_limit_name_ok(name))
		return -EINVAL;
	for (size_t i = 0; i < member_count; i++)
		if (members[i] / 2 >= topology->link_count)
			return -EINVAL;
	if (topology_find_limit(topology, name) != TOPOLOGY_NONE)
		return -EEXIST;
	r = reserve(&topology->limits, sizeof(*place), topology->limit_count, TOPOLOGY_LIMITS_MAX);
	if (r < 0)
		return r;
	copy = sys_zalloc(member_count * sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	if (member_count)
		memcpy(copy, members, member_count * sizeof(*copy));
	place = &topology->limits[topology->limit_count];
	*place = (struct topology_limit){ .capacity = *capacity, .members = copy };
	memcpy(place->name, name, strlen(name) + 1);
	place->member_count = sort_members(copy, member_count);
	if (ret)
		*ret = (uint32_t)topology->limit_count;
	topology->limit_count++;
	return 0;
}

int topology_add_pair(struct topology *topology, const struct topology_pair *pair, uint32_t *ret)
{
	int r;

	if (pair->from >= topology->vertex_count || pair->to >= topology->vertex_count || pair->from == pair->to)
		return -EINVAL;
	if (topology_find_pair(topology, pair->from, pair->to) != TOPOLOGY_NONE)
		return -EEXIST;
	r = reserve(&topology->pairs, sizeof(*pair), topology->pair_count, TOPOLOGY_PAIRS_MAX);
	if (r < 0)
		return r;
	topology->pairs[topology->pair_count] = *pair;
	if (ret)
		*ret = (uint32_t)topology->pair_count;
	topology->pair_count++;
	return 0;
}

/* NULL is a good copy of nothing. `ret`: the address of a pointer that is NULL. */
static int copy_array(const void *from, size_t each_bytes, size_t count, void *ret)
{
	int r = sys_grow(ret, 0, count, each_bytes);

	if (r == 0 && count)
		memcpy(*(void **)ret, from, count * each_bytes);
	return r;
}

static int copy_limits(const struct topology *from, struct topology *to)
{
	int r = sys_grow(&to->limits, 0, from->limit_count, sizeof(*to->limits));

	for (size_t i = 0; r == 0 && i < from->limit_count; i++) {
		const struct topology_limit *limit = &from->limits[i];

		to->limits[i] = *limit;
		to->limits[i].members = NULL;
		to->limit_count++; /* as far as it has got: what topology_fini frees */
		r = copy_array(limit->members, sizeof(*limit->members), limit->member_count, &to->limits[i].members);
	}
	return r;
}

int topology_copy(const struct topology *from, struct topology *ret)
{
	struct topology copy;
	int r;

	topology_init(&copy);
	memcpy(copy.name, from->name, sizeof(copy.name));
	memcpy(copy.driver, from->driver, sizeof(copy.driver));
	r = copy_array(from->vertices, sizeof(*from->vertices), from->vertex_count, &copy.vertices);
	if (r == 0)
		r = copy_array(from->links, sizeof(*from->links), from->link_count, &copy.links);
	if (r == 0)
		r = copy_array(from->pairs, sizeof(*from->pairs), from->pair_count, &copy.pairs);
	if (r == 0)
		r = copy_limits(from, &copy);
	if (r < 0) {
		topology_fini(&copy);
		return r;
	}
	copy.vertex_count = from->vertex_count;
	copy.link_count = from->link_count;
	copy.pair_count = from->pair_count;
	*ret = copy;
	return 0;
}

struct topology_vertex topology_vertex_of(enum topology_kind kind, const char *name)
{
	struct topology_vertex vertex = {
		.kind = kind,
		.gpu = { .index = -1, .mig = -1 },
		.cpu = { .numa = -1, .family = -1, .model = -1 },
	};
	size_t bytes = strlen(name);

	/* A name that does not fit is no name: cut off, it could be another's. topology_add_vertex refuses it. */
	if (bytes < sizeof(vertex.name))
		memcpy(vertex.name, name, bytes + 1);
	return vertex;
}

struct topology_link topology_link_of(enum topology_link_kind kind, uint32_t lower, uint32_t upper)
{
	return (struct topology_link){ .kind = kind, .lower = lower, .upper = upper, .count = 1 };
}

uint64_t topology_pci_Bps(unsigned generation, unsigned lanes)
{
	/* NCCL's figures: a quarter below what the encoding alone would leave. It has none for generation 7. */
	static const uint64_t lane_Bps[TOPOLOGY_GENERATION_MAX + 1] = {
		0, 187500000, 375000000, 750000000, 1500000000, 3000000000, 6000000000, 12000000000,
	};

	if (generation > TOPOLOGY_GENERATION_MAX || lanes > TOPOLOGY_LANES_MAX)
		return 0;
	return lanes * lane_Bps[generation];
}
