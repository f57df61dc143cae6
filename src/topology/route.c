/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/internal.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

int topology_ways_init(struct topology_ways *ways, const struct topology *topology)
{
	size_t vertices = topology->vertex_count, links = topology->link_count;

	ways->topology = topology;
	ways->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(ways->first, vertices + 2), SYS_ARRAY(ways->incident, 2 * links),
				      SYS_ARRAY(ways->queue, vertices), SYS_ARRAY(ways->reached, vertices) },
		4);
	if (!ways->arrays)
		return -ENOMEM;
	/* Counted two places further on, so that filling moves each start to where it belongs. */
	for (size_t i = 0; i < links; i++) {
		ways->first[topology->links[i].lower + 2]++;
		ways->first[topology->links[i].upper + 2]++;
	}
	for (size_t i = 2; i < vertices + 2; i++)
		ways->first[i] += ways->first[i - 1];
	for (size_t i = 0; i < links; i++) {
		ways->incident[ways->first[topology->links[i].lower + 1]++] = (uint32_t)i;
		ways->incident[ways->first[topology->links[i].upper + 1]++] = (uint32_t)i;
	}
	return 0;
}

static bool is_root(enum topology_kind kind)
{
	return kind == TOPOLOGY_BRIDGE || kind == TOPOLOGY_CPU;
}

/* The class of a way is the farthest of its links' classes. */
static enum topology_class link_class(const struct topology *topology, const struct topology_link *link)
{
	enum topology_kind lower = topology->vertices[link->lower].kind, upper = topology->vertices[link->upper].kind;

	switch (link->kind) {
	case TOPOLOGY_LINK_NVLINK:
		return TOPOLOGY_CLASS_NVL;
	case TOPOLOGY_LINK_C2C:
		return TOPOLOGY_CLASS_C2C;
	case TOPOLOGY_LINK_PCI:
		if (is_root(lower) || is_root(upper))
			return TOPOLOGY_CLASS_PHB;
		if (lower == TOPOLOGY_SWITCH && upper == TOPOLOGY_SWITCH)
			return TOPOLOGY_CLASS_PXB;
		return TOPOLOGY_CLASS_PIX;
	case TOPOLOGY_LINK_MEMORY:
		return TOPOLOGY_CLASS_LOC;
	case TOPOLOGY_LINK_INTERNAL:
		return TOPOLOGY_CLASS_PHB;
	case TOPOLOGY_LINK_SOCKET:
		return TOPOLOGY_CLASS_SYS;
	case TOPOLOGY_LINK_NETWORK:
	default:
		return TOPOLOGY_CLASS_NET;
	}
}

/*
 * Whether bytes that came over `in` may leave a vertex over `out`. GPUs and memories are ends. A NIC or a host joins
 * the network with what is behind it, and forwards nothing between two networks or two slots.
 */
static bool passes(enum topology_kind kind, enum topology_link_kind in, enum topology_link_kind out)
{
	switch (kind) {
	case TOPOLOGY_GPU:
	case TOPOLOGY_MEMORY:
		return false;
	case TOPOLOGY_NIC:
	case TOPOLOGY_HOST:
		return (in == TOPOLOGY_LINK_NETWORK) != (out == TOPOLOGY_LINK_NETWORK);
	default:
		return true;
	}
}

struct search {
	uint32_t from, to;
	enum topology_class farthest; /* links of a farther class are not taken */
	bool c2c_first;               /* an end that has C2C is left and entered by it alone */
};

static uint32_t other_end(const struct topology_link *link, uint32_t vertex)
{
	return link->lower == vertex ? link->upper : link->lower;
}

static bool has_c2c(const struct topology_ways *ways, uint32_t vertex)
{
	for (uint32_t i = ways->first[vertex]; i < ways->first[vertex + 1]; i++)
		if (ways->topology->links[ways->incident[i]].kind == TOPOLOGY_LINK_C2C)
			return true;
	return false;
}

static bool is_gpu(const struct topology_ways *ways, uint32_t vertex)
{
	return ways->topology->vertices[vertex].kind == TOPOLOGY_GPU;
}

static bool may_take(const struct topology_ways *ways, const struct search *search, uint32_t at, uint32_t next,
		     uint32_t link_index)
{
	const struct topology *topology = ways->topology;
	const struct topology_link *link = &topology->links[link_index];

	if (link_class(topology, link) > search->farthest)
		return false;
	if (at != search->from) {
		enum topology_link_kind in = topology->links[ways->reached[at] / 2].kind;
		enum topology_kind kind = topology->vertices[at].kind;

		if (!passes(kind, in, link->kind))
			return false;
		/* Two GPUs whose NVLinks end at one CPU are not joined by NVLink. */
		if (kind == TOPOLOGY_CPU && in == TOPOLOGY_LINK_NVLINK && link->kind == TOPOLOGY_LINK_NVLINK &&
		    search->farthest < TOPOLOGY_CLASS_PHB)
			return false;
	}
	if (!search->c2c_first || link->kind == TOPOLOGY_LINK_C2C)
		return true;
	return !(at == search->from && is_gpu(ways, at) && has_c2c(ways, at)) &&
	       !(next == search->to && is_gpu(ways, next) && has_c2c(ways, next));
}

/*
 * Breadth first, links in order: of the ways with the fewest links the first by index. -ENOENT: there is none. ret is
 * empty before.
 */
static int search_way(struct topology_ways *ways, const struct search *search, struct topology_route *ret)
{
	const struct topology *topology = ways->topology;
	uint32_t steps[TOPOLOGY_ROUTE_MAX];
	size_t head = 0, tail = 0, count = 0;

	memset(ways->reached, 0xff, topology->vertex_count * sizeof(*ways->reached)); /* TOPOLOGY_NONE */
	ways->queue[tail++] = search->from;
	while (head < tail && ways->reached[search->to] == TOPOLOGY_NONE) {
		uint32_t at = ways->queue[head++];

		for (uint32_t i = ways->first[at]; i < ways->first[at + 1]; i++) {
			uint32_t link = ways->incident[i], next = other_end(&topology->links[link], at);

			if (next == search->from || ways->reached[next] != TOPOLOGY_NONE ||
			    !may_take(ways, search, at, next, link))
				continue;
			ways->reached[next] = topology_directed(
				link, topology->links[link].lower == at ? TOPOLOGY_UP : TOPOLOGY_DOWN);
			ways->queue[tail++] = next;
		}
	}
	if (ways->reached[search->to] == TOPOLOGY_NONE)
		return -ENOENT;
	for (uint32_t at = search->to; at != search->from;) {
		uint32_t directed = ways->reached[at];

		if (count == TOPOLOGY_ROUTE_MAX)
			return -E2BIG;
		steps[count++] = directed;
		at = other_end(&topology->links[directed / 2], at);
	}
	while (count) {
		uint32_t directed = steps[--count];

		ret->links[ret->count++] = directed;
		ret->latency_ns += topology->links[directed / 2].capacity[directed % 2].latency_ns;
	}
	return 0;
}

/* The first NVLink of `from` that ends at a GPU from which another one leads to `to`. */
static int search_nvb(struct topology_ways *ways, uint32_t from, uint32_t to, struct topology_route *ret)
{
	const struct topology *topology = ways->topology;

	if (!is_gpu(ways, from) || !is_gpu(ways, to))
		return -ENOENT;
	for (uint32_t i = ways->first[from]; i < ways->first[from + 1]; i++) {
		const struct topology_link *link = &topology->links[ways->incident[i]];
		uint32_t middle = other_end(link, from);

		if (link->kind != TOPOLOGY_LINK_NVLINK || !is_gpu(ways, middle))
			continue;
		for (uint32_t j = ways->first[middle]; j < ways->first[middle + 1]; j++) {
			const struct topology_link *second = &topology->links[ways->incident[j]];

			if (second->kind != TOPOLOGY_LINK_NVLINK || other_end(second, middle) != to)
				continue;
			ret->links[0] = topology_directed(ways->incident[i],
							  link->lower == from ? TOPOLOGY_UP : TOPOLOGY_DOWN);
			ret->links[1] = topology_directed(ways->incident[j],
							  second->lower == middle ? TOPOLOGY_UP : TOPOLOGY_DOWN);
			ret->count = 2;
			ret->latency_ns = link->capacity[ret->links[0] % 2].latency_ns +
					  second->capacity[ret->links[1] % 2].latency_ns;
			return 0;
		}
	}
	return -ENOENT;
}

/* The nearest way that the links allow, whatever the driver says. ret is empty before. */
static int search_nearest(struct topology_ways *ways, uint32_t from, uint32_t to, struct topology_route *ret)
{
	static const enum topology_class nearest_first[] = {
		TOPOLOGY_CLASS_LOC, TOPOLOGY_CLASS_NVL, TOPOLOGY_CLASS_NVB, TOPOLOGY_CLASS_C2C, TOPOLOGY_CLASS_PIX,
		TOPOLOGY_CLASS_PXB, TOPOLOGY_CLASS_P2C, TOPOLOGY_CLASS_PHB, TOPOLOGY_CLASS_SYS, TOPOLOGY_CLASS_NET,
	};
	bool c2c = (is_gpu(ways, from) && has_c2c(ways, from)) || (is_gpu(ways, to) && has_c2c(ways, to));
	int r;

	if (from == to)
		return 0;
	for (size_t i = 0; i < sizeof(nearest_first) / sizeof(nearest_first[0]); i++) {
		struct search search = { .from = from, .to = to, .farthest = nearest_first[i] };

		switch (nearest_first[i]) {
		case TOPOLOGY_CLASS_NVB:
			r = search_nvb(ways, from, to, ret);
			break;
		case TOPOLOGY_CLASS_P2C:
			search.farthest = TOPOLOGY_CLASS_PHB;
			search.c2c_first = true;
			r = c2c ? search_way(ways, &search, ret) : -ENOENT;
			break;
		default:
			r = search_way(ways, &search, ret);
		}
		if (r == 0)
			ret->path_class = nearest_first[i]; /* no nearer one led there */
		if (r != -ENOENT)
			return r;
	}
	return -ENOENT;
}

/* Two GPUs have no direct way if one is a MIG slice, or if the driver refuses P2P and there is no NVLink. */
static bool p2p_allowed(const struct topology *topology, uint32_t from, uint32_t to, enum topology_class path_class)
{
	const struct topology_vertex *first = &topology->vertices[from], *second = &topology->vertices[to];
	uint32_t pair;

	if (first->kind != TOPOLOGY_GPU || second->kind != TOPOLOGY_GPU || from == to)
		return true;
	if (first->gpu.mig >= 0 || second->gpu.mig >= 0)
		return false;
	if (path_class <= TOPOLOGY_CLASS_NVB)
		return true;
	pair = topology_find_pair(topology, from, to);
	return pair == TOPOLOGY_NONE || topology->pairs[pair].p2p_works;
}

static int route_host(struct topology_ways *ways, const struct topology_flow *flow, struct topology_route *ret)
{
	const struct topology *topology = ways->topology;
	struct topology_route second = { 0 };
	uint32_t via = flow->via == TOPOLOGY_NONE ? topology_memory_of(topology, flow->from) : flow->via;
	int r;

	if (via == TOPOLOGY_NONE)
		return -ENOENT;
	if (via >= topology->vertex_count || topology->vertices[via].kind != TOPOLOGY_MEMORY)
		return -EINVAL;
	r = search_nearest(ways, flow->from, via, ret);
	if (r == 0)
		r = search_nearest(ways, via, flow->to, &second);
	if (r < 0)
		return r;
	if (ret->count + second.count > TOPOLOGY_ROUTE_MAX)
		return -E2BIG;
	memcpy(&ret->links[ret->count], second.links, second.count * sizeof(second.links[0]));
	ret->count += second.count;
	ret->latency_ns += second.latency_ns;
	if (second.path_class > ret->path_class)
		ret->path_class = second.path_class;
	return 0;
}

int topology_ways_route(struct topology_ways *ways, const struct topology_flow *flow, struct topology_route *ret)
{
	const struct topology *topology = ways->topology;
	struct topology_route route = { 0 };
	int r;

	if (flow->from >= topology->vertex_count || flow->to >= topology->vertex_count)
		return -EINVAL;
	switch (flow->way) {
	case TOPOLOGY_WAY_NONE:
		return -ENOENT;
	case TOPOLOGY_WAY_DIRECT:
		r = search_nearest(ways, flow->from, flow->to, &route);
		if (r == 0 && !p2p_allowed(topology, flow->from, flow->to, route.path_class))
			r = -ENOENT;
		break;
	case TOPOLOGY_WAY_HOST:
		r = route_host(ways, flow, &route);
		break;
	default:
		return -EINVAL;
	}
	if (r < 0)
		return r;
	*ret = route;
	return 0;
}

int topology_route(const struct topology *topology, const struct topology_flow *flow, struct topology_route *ret)
{
	struct topology_ways ways = { 0 };
	int r = topology_ways_init(&ways, topology);

	if (r < 0)
		return r;
	r = topology_ways_route(&ways, flow, ret);
	sys_free(ways.arrays);
	return r;
}

enum topology_class topology_class_of(const struct topology *topology, uint32_t a, uint32_t b)
{
	enum topology_class path_class = TOPOLOGY_CLASS_DIS;
	struct topology_route route = { 0 };
	struct topology_ways ways = { 0 };

	if (a >= topology->vertex_count || b >= topology->vertex_count || topology_ways_init(&ways, topology) < 0)
		return TOPOLOGY_CLASS_DIS;
	if (search_nearest(&ways, a, b, &route) == 0)
		path_class = route.path_class;
	sys_free(ways.arrays);
	return path_class;
}
