/* SPDX-License-Identifier: Apache-2.0 */
#include "command/show/view.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shares this near to the least one are bottlenecks, too: a symmetric machine has several. */
static const double SAME = 1.05;

void view_free(struct view *view)
{
	sys_free(view->memory);
	memset(view, 0, sizeof(*view));
}

bool view_is_device(const struct topology_vertex *vertex)
{
	return vertex->kind == TOPOLOGY_GPU || vertex->kind == TOPOLOGY_NIC;
}

/* ------------------------------------------------------------------------------------------------------------ tree */

static uint32_t other_end(const struct topology_link *link, uint32_t vertex)
{
	return link->lower == vertex ? link->upper : link->lower;
}

/* A memory may be either end of its link; a network that is known by one NIC alone hangs on it. */
static uint32_t link_up(const struct topology *topology, uint32_t vertex)
{
	enum topology_kind kind = topology->vertices[vertex].kind;
	uint32_t only = TOPOLOGY_NONE;

	if (kind != TOPOLOGY_MEMORY && kind != TOPOLOGY_NETWORK)
		return kind == TOPOLOGY_NVSWITCH ? TOPOLOGY_NONE : topology_uplink(topology, vertex);
	for (uint32_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *at = &topology->links[i];

		if (at->lower != vertex && at->upper != vertex)
			continue;
		if (only != TOPOLOGY_NONE)
			return TOPOLOGY_NONE;
		only = i;
	}
	if (kind == TOPOLOGY_NETWORK && only != TOPOLOGY_NONE &&
	    topology->vertices[other_end(&topology->links[only], vertex)].kind != TOPOLOGY_NIC)
		return TOPOLOGY_NONE;
	return only;
}

static int rank_of(enum topology_kind kind)
{
	static const int ranks[TOPOLOGY_KIND_COUNT] = {
		[TOPOLOGY_CPU] = 0,    [TOPOLOGY_MEMORY] = 1,  [TOPOLOGY_BRIDGE] = 2,
		[TOPOLOGY_SWITCH] = 2, [TOPOLOGY_GPU] = 2,     [TOPOLOGY_NIC] = 2,
		[TOPOLOGY_HOST] = 3,   [TOPOLOGY_NETWORK] = 4, [TOPOLOGY_NVSWITCH] = 5,
	};

	return ranks[kind];
}

/* strcmp with runs of digits by their value. */
static int compare_names(const char *a, const char *b)
{
	while (*a && *b) {
		if (*a >= '0' && *a <= '9' && *b >= '0' && *b <= '9') {
			char *a_end, *b_end;
			unsigned long long x = strtoull(a, &a_end, 10), y = strtoull(b, &b_end, 10);

			if (x != y)
				return x < y ? -1 : 1;
			a = a_end;
			b = b_end;
		} else if (*a != *b) {
			break;
		} else {
			a++;
			b++;
		}
	}
	return (unsigned char)*a - (unsigned char)*b;
}

static int compare_siblings(const struct topology *topology, uint32_t a, uint32_t b)
{
	const struct topology_vertex *x = &topology->vertices[a], *y = &topology->vertices[b];
	int by_kind = rank_of(x->kind) - rank_of(y->kind), by_place = 0;

	if (by_kind)
		return by_kind;
	if (x->bus_id[0] && y->bus_id[0])
		by_place = strcmp(x->bus_id, y->bus_id);
	return by_place ? by_place : compare_names(x->name, y->name);
}

/* Into the list of siblings that begins at *first. */
static void insert_sibling(struct view *view, uint32_t *first, uint32_t vertex)
{
	while (*first != TOPOLOGY_NONE && compare_siblings(view->topology, *first, vertex) <= 0)
		first = &view->next_sibling[*first];
	view->next_sibling[vertex] = *first;
	*first = vertex;
}

/* A graph from a file may be a ring where a tree is meant; then the vertex becomes a root. */
static bool is_above(const struct view *view, uint32_t vertex, uint32_t below)
{
	for (; below != TOPOLOGY_NONE; below = view->parent[below]) {
		if (below == vertex)
			return true;
	}
	return false;
}

static void make_tree(struct view *view)
{
	const struct topology *topology = view->topology;

	view->first_root = TOPOLOGY_NONE;
	for (uint32_t i = 0; i < topology->vertex_count; i++)
		view->up[i] = view->parent[i] = view->first_child[i] = view->next_sibling[i] = TOPOLOGY_NONE;
	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		uint32_t link = link_up(topology, i), above;

		above = link != TOPOLOGY_NONE ? other_end(&topology->links[link], i) : TOPOLOGY_NONE;
		if (above != TOPOLOGY_NONE && !is_above(view, i, above)) {
			view->up[i] = link;
			view->parent[i] = above;
		}
		insert_sibling(view, view->parent[i] == TOPOLOGY_NONE ? &view->first_root : &view->first_child[above],
			       i);
	}
}

bool view_is_tree_link(const struct view *view, uint32_t link)
{
	const struct topology_link *at = &view->topology->links[link];

	return view->up[at->lower] == link || view->up[at->upper] == link;
}

/* ----------------------------------------------------------------------------------------------------------- lanes */

static enum view_band band_of(double share, enum topology_provenance provenance)
{
	if (provenance < TOPOLOGY_AT_LEAST)
		return VIEW_UNMEASURED;
	if (share < 0)
		return VIEW_NO_NOMINAL;
	/* A lower bound says nothing bad of a link. */
	if (provenance == TOPOLOGY_AT_LEAST && share < 0.9)
		return VIEW_BOUND;
	if (share >= 0.9)
		return VIEW_FULL;
	if (share >= 0.75)
		return VIEW_GOOD;
	if (share >= 0.6)
		return VIEW_FAIR;
	return share >= 0.4 ? VIEW_POOR : VIEW_BAD;
}

static void make_lane(const struct topology_link *link, const struct topology_capacity *capacity, struct view_lane *ret)
{
	uint64_t most_Bps = topology_pci_Bps(link->pci.most_generation, link->pci.most_lanes);

	ret->rate_Bps = capacity->rate_Bps ? capacity->rate_Bps : link->nominal_Bps;
	ret->room_Bps = most_Bps > link->nominal_Bps ? most_Bps : link->nominal_Bps;
	if (ret->room_Bps < ret->rate_Bps)
		ret->room_Bps = ret->rate_Bps;
	ret->share = -1;
	if (capacity->provenance >= TOPOLOGY_AT_LEAST && link->nominal_Bps)
		ret->share = (double)capacity->rate_Bps / (double)link->nominal_Bps;
	ret->band = band_of(ret->share, capacity->provenance);
}

bool view_has_band(const struct view *view, enum view_band band)
{
	for (size_t i = 0; i < 2 * view->topology->link_count; i++)
		if (view->lanes[i].band == band)
			return true;
	return false;
}

static void make_lanes(struct view *view)
{
	const struct topology *topology = view->topology;

	for (size_t i = 0; i < topology->link_count; i++) {
		const struct topology_capacity *capacity = topology->links[i].capacity;

		for (int d = 0; d < 2; d++) {
			make_lane(&topology->links[i], &capacity[d], &view->lanes[2 * i + (size_t)d]);
			if (capacity[d].date_s > view->date_s)
				view->date_s = capacity[d].date_s;
		}
		view->measured_links += capacity[0].provenance >= TOPOLOGY_AT_LEAST ||
					capacity[1].provenance >= TOPOLOGY_AT_LEAST;
	}
}

enum topology_direction view_worse(const struct view *view, uint32_t link)
{
	double up = view->lanes[2 * link].share, down = view->lanes[2 * link + 1].share;

	if (up < 0 || down < 0)
		return up < 0 ? TOPOLOGY_DOWN : TOPOLOGY_UP;
	return up < down ? TOPOLOGY_UP : TOPOLOGY_DOWN;
}

/* ------------------------------------------------------------------------------------------------------ bottleneck */

static enum topology_way way_of(const struct topology *topology, uint32_t from, uint32_t to)
{
	uint32_t index = topology_find_pair(topology, from, to);
	const struct topology_pair *pair = index != TOPOLOGY_NONE ? &topology->pairs[index] : NULL;

	if (!pair)
		return TOPOLOGY_WAY_DIRECT;
	if (!pair->p2p_works || (pair->p2p.rate_Bps && pair->host.rate_Bps > pair->p2p.rate_Bps))
		return TOPOLOGY_WAY_HOST;
	return TOPOLOGY_WAY_DIRECT;
}

static void load_all_pairs(const struct topology *topology, const uint32_t *gpus, size_t count, double *load)
{
	struct topology_route route;

	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < count; j++) {
			struct topology_flow flow = { gpus[i], gpus[j], way_of(topology, gpus[i], gpus[j]),
						      TOPOLOGY_NONE };

			if (i == j)
				continue;
			if (topology_route(topology, &flow, &route) < 0) {
				flow.way = TOPOLOGY_WAY_HOST;
				if (topology_route(topology, &flow, &route) < 0)
					continue;
			}
			for (size_t k = 0; k < route.count; k++)
				load[route.links[k]]++;
		}
	}
}

bool view_is_gpus_own(const struct topology *topology, uint32_t directed)
{
	const struct topology_link *link = &topology->links[directed / 2];

	return topology->vertices[link->lower].kind == TOPOLOGY_GPU ||
	       topology->vertices[link->upper].kind == TOPOLOGY_GPU;
}

/* What is left for one pair; INFINITY: nothing of it is known or used. */
static double share_of(uint64_t rate_Bps, double load)
{
	return rate_Bps && load > 0 ? (double)rate_Bps / load : INFINITY;
}

static void mark_bottlenecks(struct view *view, const double *load)
{
	const struct topology *topology = view->topology;
	size_t lanes = 2 * topology->link_count;
	double least = INFINITY;

	for (uint32_t i = 0; i < lanes; i++) {
		double share = share_of(view->lanes[i].rate_Bps, load[i]);

		if (share < least) {
			least = share;
			view->bottleneck = i;
		}
	}
	for (uint32_t i = 0; i < topology->limit_count; i++) {
		const struct topology_limit *limit = &topology->limits[i];
		double sum = 0;

		for (size_t j = 0; j < limit->member_count; j++)
			sum += load[limit->members[j]];
		if (share_of(limit->capacity.rate_Bps, sum) < least) {
			least = share_of(limit->capacity.rate_Bps, sum);
			view->bottleneck = TOPOLOGY_NONE;
			view->bottleneck_limit = i;
		}
	}
	if (isinf(least))
		return;
	view->bottleneck_pair_Bps = (uint64_t)least;
	if (view->bottleneck_limit != TOPOLOGY_NONE) {
		const struct topology_limit *limit = &topology->limits[view->bottleneck_limit];

		for (size_t j = 0; j < limit->member_count; j++)
			view->lanes[limit->members[j]].bottleneck = true;
	}
	for (uint32_t i = 0; i < lanes && view->bottleneck_limit == TOPOLOGY_NONE; i++)
		view->lanes[i].bottleneck = share_of(view->lanes[i].rate_Bps, load[i]) <= least * SAME;
	view->bottleneck_is_own = true;
	for (uint32_t i = 0; i < lanes; i++)
		view->bottleneck_is_own &= !view->lanes[i].bottleneck || view_is_gpus_own(topology, i);
	for (uint32_t i = 0; i < lanes; i++)
		view->lanes[i].bottleneck &= !view->bottleneck_is_own;
}

int view_make(const struct topology *topology, struct view *ret)
{
	struct view view = { .topology = topology, .bottleneck = TOPOLOGY_NONE, .bottleneck_limit = TOPOLOGY_NONE };
	size_t vertices = topology->vertex_count, lanes = 2 * topology->link_count, count;
	double *load;
	const struct sys_array arrays[] = {
		SYS_ARRAY(view.lanes, lanes),           SYS_ARRAY(view.up, vertices),
		SYS_ARRAY(view.parent, vertices),       SYS_ARRAY(view.first_child, vertices),
		SYS_ARRAY(view.next_sibling, vertices), SYS_ARRAY(load, lanes)
	};
	uint32_t *gpus = NULL;
	int r = topology_list(topology, TOPOLOGY_GPU, &gpus, &count);

	if (r < 0)
		return r;
	view.memory = sys_zalloc_arrays(arrays, sizeof(arrays) / sizeof(arrays[0]));
	if (view.memory) {
		make_tree(&view);
		make_lanes(&view);
		load_all_pairs(topology, gpus, count, load);
		mark_bottlenecks(&view, load);
		*ret = view;
	}
	free(gpus);
	return view.memory ? 0 : -ENOMEM;
}
