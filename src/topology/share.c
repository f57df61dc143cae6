/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Max-min fair shares by progressive filling. All rates grow together from 0; a constraint that is full stops the flows
 * that cross it, the others go on:
 *
 *     level(c) = (capacity(c) - sum of the stopped flows' rates × crossings) / sum of the growing flows' crossings
 *
 * The constraint with the least level is full first. In whole bytes/s, rounded down: no constraint is ever exceeded,
 * and every machine computes the same.
 */
#include "topology/internal.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

struct share {
	size_t constraint_count;
	void *arrays;        /* the block of all of these but `crossed` */
	uint64_t *room_Bps;  /* of each constraint, what the stopped flows leave; UINT64_MAX: bounds nothing */
	uint64_t *crossings; /* by growing flows, each counted as often as it crosses */
	bool *full;          /* at this level */
	struct topology_memberships memberships;
	struct topology_route *routes; /* of each flow */
	size_t *first;                 /* of each flow in `crossed`, and one more at the end */
	uint32_t *crossed;             /* constraints, one for each crossing */
	uint64_t *rates_Bps;
	bool *growing;
};

/* Constraints are numbered: directed links, then limits, then two for each pair (P2P, by the host). */
static uint32_t limit_constraint(const struct topology *topology, uint32_t limit)
{
	return (uint32_t)(2 * topology->link_count + limit);
}

static uint32_t pair_constraint(const struct topology *topology, uint32_t pair, enum topology_way way)
{
	return (uint32_t)(2 * topology->link_count + topology->limit_count + 2 * pair + (way == TOPOLOGY_WAY_HOST));
}

static uint64_t bound_of(const struct topology_capacity *capacity)
{
	return topology_known(capacity) ? capacity->rate_Bps : UINT64_MAX;
}

static void set_bounds(struct share *share, const struct topology *topology)
{
	for (size_t i = 0; i < 2 * topology->link_count; i++)
		share->room_Bps[i] = bound_of(&topology->links[i / 2].capacity[i % 2]);
	for (uint32_t i = 0; i < topology->limit_count; i++)
		share->room_Bps[limit_constraint(topology, i)] = bound_of(&topology->limits[i].capacity);
	for (uint32_t i = 0; i < topology->pair_count; i++) {
		share->room_Bps[pair_constraint(topology, i, TOPOLOGY_WAY_DIRECT)] = bound_of(&topology->pairs[i].p2p);
		share->room_Bps[pair_constraint(topology, i, TOPOLOGY_WAY_HOST)] = bound_of(&topology->pairs[i].host);
	}
}

static int find_routes(struct share *share, const struct topology *topology, const struct topology_flow *flows,
		       size_t flow_count)
{
	struct topology_ways ways = { 0 };
	int r = topology_ways_init(&ways, topology);

	for (size_t i = 0; r == 0 && i < flow_count; i++)
		r = topology_ways_route(&ways, &flows[i], &share->routes[i]);
	sys_free(ways.arrays);
	return r;
}

/* What bounds nothing is left out. */
static size_t cross(struct share *share, size_t place, uint32_t constraint)
{
	if (share->room_Bps[constraint] == UINT64_MAX)
		return place;
	if (share->crossed) {
		share->crossed[place] = constraint;
		share->crossings[constraint]++;
	}
	return place + 1;
}

/* Every crossing of every flow; counts only, as long as there is no place for them. Returns how many. */
static size_t list_crossings(struct share *share, const struct topology *topology, const struct topology_flow *flows,
			     size_t flow_count)
{
	size_t place = 0;

	for (size_t i = 0; i < flow_count; i++) {
		const struct topology_memberships *of = &share->memberships;
		const struct topology_route *route = &share->routes[i];
		uint32_t pair = topology_find_pair(topology, flows[i].from, flows[i].to);

		share->first[i] = place;
		for (size_t j = 0; j < route->count; j++) {
			uint32_t directed = route->links[j];

			place = cross(share, place, directed);
			for (size_t k = of->first[directed]; k < of->first[directed + 1]; k++)
				place = cross(share, place, limit_constraint(topology, of->limits[k]));
		}
		if (pair != TOPOLOGY_NONE)
			place = cross(share, place, pair_constraint(topology, pair, flows[i].way));
	}
	share->first[flow_count] = place;
	return place;
}

static int prepare(struct share *share, const struct topology *topology, const struct topology_flow *flows,
		   size_t flow_count)
{
	size_t constraints = 2 * (topology->link_count + topology->pair_count) + topology->limit_count;
	int r;

	share->constraint_count = constraints;
	share->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(share->room_Bps, constraints), SYS_ARRAY(share->crossings, constraints),
				      SYS_ARRAY(share->full, constraints), SYS_ARRAY(share->routes, flow_count),
				      SYS_ARRAY(share->first, flow_count + 1), SYS_ARRAY(share->rates_Bps, flow_count),
				      SYS_ARRAY(share->growing, flow_count) },
		7);
	if (!share->arrays)
		return -ENOMEM;
	set_bounds(share, topology);
	r = topology_memberships_init(&share->memberships, topology, NULL);
	if (r == 0)
		r = find_routes(share, topology, flows, flow_count);
	if (r < 0)
		return r;
	share->crossed = sys_zalloc(list_crossings(share, topology, flows, flow_count) * sizeof(*share->crossed));
	if (!share->crossed)
		return -ENOMEM;
	list_crossings(share, topology, flows, flow_count);
	for (size_t i = 0; i < flow_count; i++) {
		share->growing[i] = share->first[i] < share->first[i + 1];
		share->rates_Bps[i] = UINT64_MAX;
	}
	return 0;
}

/* room / crossings of two constraints that are crossed, exactly: -1, 0 or 1. */
static int compare_levels(const struct share *share, uint32_t a, uint32_t b)
{
	unsigned __int128 first = (unsigned __int128)share->room_Bps[a] * share->crossings[b];
	unsigned __int128 second = (unsigned __int128)share->room_Bps[b] * share->crossings[a];

	return (first > second) - (first < second);
}

/* The constraint that is full next; TOPOLOGY_NONE: nothing grows any more. */
static uint32_t next_full(const struct share *share)
{
	uint32_t next = TOPOLOGY_NONE;

	for (uint32_t i = 0; i < share->constraint_count; i++)
		if (share->crossings[i] && (next == TOPOLOGY_NONE || compare_levels(share, i, next) < 0))
			next = i;
	return next;
}

static bool crosses_full(const struct share *share, size_t flow)
{
	for (size_t i = share->first[flow]; i < share->first[flow + 1]; i++)
		if (share->full[share->crossed[i]])
			return true;
	return false;
}

/*
 * Which constraints are full is settled before any flow stops: rounding down leaves a few bytes, which would lift the
 * level for those that come later. Room never runs out, as room >= level × crossings for every constraint.
 */
static void stop_flows(struct share *share, size_t flow_count, uint32_t next)
{
	uint64_t level = share->room_Bps[next] / share->crossings[next];

	for (uint32_t i = 0; i < share->constraint_count; i++)
		share->full[i] = share->crossings[i] && compare_levels(share, i, next) == 0;
	for (size_t i = 0; i < flow_count; i++) {
		if (!share->growing[i] || !crosses_full(share, i))
			continue;
		share->growing[i] = false;
		share->rates_Bps[i] = level;
		for (size_t j = share->first[i]; j < share->first[i + 1]; j++) {
			share->room_Bps[share->crossed[j]] -= level;
			share->crossings[share->crossed[j]]--;
		}
	}
}

int topology_share(const struct topology *topology, const struct topology_flow *flows, size_t flow_count,
		   uint64_t *ret_Bps)
{
	struct share share = { 0 };
	int r = prepare(&share, topology, flows, flow_count);

	if (r == 0) {
		for (uint32_t next = next_full(&share); next != TOPOLOGY_NONE; next = next_full(&share))
			stop_flows(&share, flow_count, next);
		if (flow_count)
			memcpy(ret_Bps, share.rates_Bps, flow_count * sizeof(*ret_Bps));
	}
	sys_free(share.arrays);
	sys_free(share.crossed);
	sys_free(share.memberships.arrays);
	return r;
}
