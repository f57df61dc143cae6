#include "command/show/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Shares this near to the least one are bottlenecks, too: a symmetric machine has several. */
static const double SAME = 1.05;

void view_free(struct view *view)
{
	free(view->lanes);
	free(view->parent);
	free(view->first_child);
	free(view->next_sibling);
	memset(view, 0, sizeof(*view));
}

bool view_is_device(const struct topology_vertex *vertex)
{
	return vertex->kind == TOPOLOGY_GPU || vertex->kind == TOPOLOGY_NIC;
}

/* ------------------------------------------------------------------------------------------------------------ tree */

/*
 * A host below its leaf switch, a leaf below its spine. A NIC belongs to its host's PCI tree; a network that is known
 * by one NIC alone hangs on it.
 */
static uint32_t network_above(const struct topology *topology, uint32_t vertex)
{
	enum topology_kind kind = topology->vertices[vertex].kind;
	uint32_t only = TOPOLOGY_NONE;
	size_t count = 0;

	if (kind != TOPOLOGY_HOST && kind != TOPOLOGY_NETWORK)
		return TOPOLOGY_NONE;
	for (uint32_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];

		if (link->kind == TOPOLOGY_LINK_NETWORK && link->lower == vertex)
			return i;
		if (link->upper == vertex) {
			only = i;
			count++;
		}
	}
	if (count != 1 || topology->vertices[topology->links[only].lower].kind != TOPOLOGY_NIC)
		return TOPOLOGY_NONE;
	return only;
}

uint32_t view_link_up(const struct view *view, uint32_t vertex)
{
	const struct topology *topology = view->topology;
	uint32_t link = topology_uplink(topology, vertex);

	if (topology->vertices[vertex].kind == TOPOLOGY_NVSWITCH)
		return TOPOLOGY_NONE;
	/* A memory may be either end of its link. */
	for (uint32_t i = 0; link == TOPOLOGY_NONE && i < topology->link_count; i++) {
		const struct topology_link *at = &topology->links[i];

		if (at->kind == TOPOLOGY_LINK_MEMORY && topology->vertices[vertex].kind == TOPOLOGY_MEMORY &&
		    (at->lower == vertex || at->upper == vertex))
			link = i;
	}
	return link != TOPOLOGY_NONE ? link : network_above(topology, vertex);
}

static uint32_t other_end(const struct topology_link *link, uint32_t vertex)
{
	return link->lower == vertex ? link->upper : link->lower;
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
		view->parent[i] = view->first_child[i] = view->next_sibling[i] = TOPOLOGY_NONE;
	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		uint32_t link = view_link_up(view, i), above = TOPOLOGY_NONE;

		if (link != TOPOLOGY_NONE)
			above = other_end(&topology->links[link], i);
		if (above != TOPOLOGY_NONE && !is_above(view, i, above))
			view->parent[i] = above;
		insert_sibling(view, view->parent[i] == TOPOLOGY_NONE ? &view->first_root : &view->first_child[above],
			       i);
	}
}

bool view_is_tree_link(const struct view *view, uint32_t link)
{
	const struct topology_link *at = &view->topology->links[link];

	return (view->parent[at->lower] == at->upper && view_link_up(view, at->lower) == link) ||
	       (view->parent[at->upper] == at->lower && view_link_up(view, at->upper) == link);
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
			view->has_lower_bounds |= capacity[d].provenance == TOPOLOGY_AT_LEAST;
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

/* NVLink by way of NVSwitches is spread over all of them, though a route names one. */
static void add_load(const struct topology *topology, uint32_t directed, double *load)
{
	const struct topology_link *link = &topology->links[directed / 2];
	bool lower = topology->vertices[link->lower].kind == TOPOLOGY_NVSWITCH;
	bool upper = topology->vertices[link->upper].kind == TOPOLOGY_NVSWITCH;
	uint32_t gpu = lower ? link->upper : link->lower;
	size_t count = 0;

	if (lower == upper) {
		load[directed] += 1;
		return;
	}
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < topology->link_count; i++) {
			const struct topology_link *at = &topology->links[i];
			uint32_t end = other_end(at, gpu);

			if ((at->lower != gpu && at->upper != gpu) || topology->vertices[end].kind != TOPOLOGY_NVSWITCH)
				continue;
			if (!pass)
				count++;
			else /* the same way, seen from the GPU */
				load[2 * i +
				     ((at->lower == gpu) == (link->lower == gpu) ? directed % 2 : 1 - directed % 2)] +=
					1.0 / (double)count;
		}
	}
}

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
				add_load(topology, route.links[k], load);
		}
	}
}

static bool is_gpus_own(const struct topology *topology, uint32_t directed)
{
	const struct topology_link *link = &topology->links[directed / 2];

	return topology->vertices[link->lower].kind == TOPOLOGY_GPU ||
	       topology->vertices[link->upper].kind == TOPOLOGY_GPU;
}

static void mark_bottlenecks(struct view *view, const double *load)
{
	const struct topology *topology = view->topology;
	double least = -1, of_limits = -1;

	for (uint32_t i = 0; i < 2 * topology->link_count; i++) {
		double share = load[i] > 0 ? (double)view->lanes[i].rate_Bps / load[i] : 0;

		if (share > 0 && (least < 0 || share < least)) {
			least = share;
			view->bottleneck = i;
		}
	}
	for (uint32_t i = 0; i < topology->limit_count; i++) {
		double sum = 0, share;

		for (size_t j = 0; j < topology->limits[i].member_count; j++)
			sum += load[topology->limits[i].members[j]];
		share = sum > 0 ? (double)topology->limits[i].capacity.rate_Bps / sum : 0;
		if (share > 0 && (of_limits < 0 || share < of_limits)) {
			of_limits = share;
			view->bottleneck_limit = i;
		}
	}
	if (of_limits > 0 && (least < 0 || of_limits < least)) {
		view->bottleneck = TOPOLOGY_NONE;
		view->bottleneck_pair_Bps = (uint64_t)of_limits;
		for (size_t j = 0; j < topology->limits[view->bottleneck_limit].member_count; j++)
			view->lanes[topology->limits[view->bottleneck_limit].members[j]].bottleneck = true;
	} else if (least > 0) {
		view->bottleneck_limit = TOPOLOGY_NONE;
		view->bottleneck_pair_Bps = (uint64_t)least;
		for (uint32_t i = 0; i < 2 * topology->link_count; i++)
			view->lanes[i].bottleneck = load[i] > 0 && view->lanes[i].rate_Bps &&
						    (double)view->lanes[i].rate_Bps / load[i] <= least * SAME;
	}
	view->bottleneck_is_own = view->bottleneck_pair_Bps > 0;
	for (uint32_t i = 0; i < 2 * topology->link_count; i++)
		view->bottleneck_is_own &= !view->lanes[i].bottleneck || is_gpus_own(topology, i);
	for (uint32_t i = 0; view->bottleneck_is_own && i < 2 * topology->link_count; i++)
		view->lanes[i].bottleneck = false;
}

static int find_bottlenecks(struct view *view)
{
	const struct topology *topology = view->topology;
	double *load = calloc(2 * topology->link_count + 1, sizeof(*load));
	uint32_t *gpus = NULL;
	size_t count = 0;
	int r = load ? topology_list(topology, TOPOLOGY_GPU, &gpus, &count) : -ENOMEM;

	view->bottleneck = view->bottleneck_limit = TOPOLOGY_NONE;
	if (r >= 0 && count > 1) {
		load_all_pairs(topology, gpus, count, load);
		mark_bottlenecks(view, load);
	}
	free(gpus);
	free(load);
	return r < 0 ? r : 0;
}

int view_make(const struct topology *topology, struct view *ret)
{
	struct view view = { .topology = topology };
	int r = 0;

	view.lanes = calloc(2 * topology->link_count + 1, sizeof(*view.lanes));
	view.parent = calloc(topology->vertex_count + 1, sizeof(*view.parent));
	view.first_child = calloc(topology->vertex_count + 1, sizeof(*view.first_child));
	view.next_sibling = calloc(topology->vertex_count + 1, sizeof(*view.next_sibling));
	if (!view.lanes || !view.parent || !view.first_child || !view.next_sibling)
		r = -ENOMEM;
	if (!r) {
		make_tree(&view);
		make_lanes(&view);
		r = find_bottlenecks(&view);
	}
	if (r < 0) {
		view_free(&view);
		return r;
	}
	*ret = view;
	return 0;
}
