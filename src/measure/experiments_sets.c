/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/experiments_sets.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

bool measure_experiments_is_device(const struct topology *topology, uint32_t vertex)
{
	enum topology_kind kind = topology->vertices[vertex].kind;

	return kind == TOPOLOGY_GPU || kind == TOPOLOGY_NIC || kind == TOPOLOGY_HOST || kind == TOPOLOGY_NETWORK;
}

static bool is_device(const struct measure_planner *planner, uint32_t vertex)
{
	return measure_experiments_is_device(planner->topology, vertex);
}

static bool measure_sets_crosses(const struct measure_candidate *candidate, uint32_t directed)
{
	for (size_t i = 0; i < candidate->route.count; i++)
		if (candidate->route.links[i] == directed)
			return true;
	return false;
}

int measure_sets_init(struct measure_set *sets, size_t count, const struct measure_planner *planner)
{
	uint32_t *members = sys_zalloc(count * planner->candidate_count * sizeof(*members));

	for (size_t i = 0; i < count; i++)
		sets[i] = (struct measure_set){ members ? members + i * planner->candidate_count : NULL, 0, planner };
	return members ? 0 : -ENOMEM;
}

void measure_sets_fini(struct measure_set *sets)
{
	sys_free(sets[0].members);
}

static bool set_has(const struct measure_set *set, uint32_t member)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->members[i] == member)
			return true;
	return false;
}

void measure_set_add(struct measure_set *set, uint32_t member)
{
	if (!set_has(set, member))
		set->members[set->count++] = member;
}

void measure_set_join(struct measure_set *set, const struct measure_set *other)
{
	for (size_t i = 0; i < other->count; i++)
		measure_set_add(set, other->members[i]);
}

uint32_t measure_sets_to_memory(const struct measure_planner *planner, uint32_t directed, uint32_t device, bool sends,
				uint32_t beside)
{
	uint32_t best = TOPOLOGY_NONE;

	for (uint32_t i = 0; i < planner->candidate_count; i++) {
		const struct measure_candidate *candidate = &planner->candidates[i];
		uint32_t end = sends ? candidate->flow.flow.from : candidate->flow.flow.to;
		enum topology_kind other = sends ? candidate->sink : candidate->source;

		if (i == beside || end != device || other != TOPOLOGY_MEMORY ||
		    (directed != TOPOLOGY_NONE && !measure_sets_crosses(candidate, directed)))
			continue;
		if (best == TOPOLOGY_NONE || candidate->route.count < planner->candidates[best].route.count)
			best = i;
	}
	return best;
}

void measure_sets_memories(struct measure_set *set, uint32_t directed, bool up, bool down, bool two)
{
	const struct measure_planner *planner = set->planner;
	const bool ways[2] = { down, up };

	for (uint32_t i = 0; i < planner->topology->vertex_count; i++)
		for (unsigned sends = 0; sends < 2 && is_device(planner, i); sends++) {
			uint32_t best = TOPOLOGY_NONE;

			if (ways[sends])
				best = measure_sets_to_memory(planner, directed, i, sends, TOPOLOGY_NONE);
			if (best == TOPOLOGY_NONE)
				continue;
			measure_set_add(set, best);
			best = two ? measure_sets_to_memory(planner, directed, i, sends, best) : TOPOLOGY_NONE;
			if (best != TOPOLOGY_NONE)
				measure_set_add(set, best);
		}
}

/* The shortest candidate between devices over the link, of those whose ends are not marked. */
static uint32_t next_peers(const struct measure_planner *planner, uint32_t directed, const uint8_t *sends,
			   const uint8_t *receives)
{
	uint32_t best = TOPOLOGY_NONE;

	for (uint32_t i = 0; i < planner->candidate_count; i++) {
		const struct measure_candidate *candidate = &planner->candidates[i];

		if (!is_device(planner, candidate->flow.flow.from) || !is_device(planner, candidate->flow.flow.to) ||
		    sends[candidate->flow.flow.from] || receives[candidate->flow.flow.to] ||
		    !measure_sets_crosses(candidate, directed))
			continue;
		if (best == TOPOLOGY_NONE || candidate->route.count < planner->candidates[best].route.count)
			best = i;
	}
	return best;
}

int measure_sets_peers(struct measure_set *set, uint32_t directed)
{
	const struct measure_planner *planner = set->planner;
	uint8_t *sends = sys_zalloc(2 * planner->topology->vertex_count + 1);
	uint8_t *receives;
	uint32_t next;

	if (!sends)
		return -ENOMEM;
	receives = sends + planner->topology->vertex_count;
	while ((next = next_peers(planner, directed, sends, receives)) != TOPOLOGY_NONE) {
		measure_set_add(set, next);
		sends[planner->candidates[next].flow.flow.from] = 1;
		receives[planner->candidates[next].flow.flow.to] = 1;
	}
	sys_free(sends);
	return 0;
}

static size_t shared_links(const struct measure_set *set, const struct measure_candidate *candidate)
{
	size_t shared = 0;

	for (size_t i = 0; i < candidate->route.count; i++)
		for (size_t j = 0; j < set->count; j++)
			shared += measure_sets_crosses(&set->planner->candidates[set->members[j]],
						       candidate->route.links[i]);
	return shared;
}

/* The candidate between devices over the link that shares the fewest links with the set, of those the shortest. */
static uint32_t apart_from(const struct measure_set *set, uint32_t directed, bool alike)
{
	const struct measure_planner *planner = set->planner;
	uint32_t best = TOPOLOGY_NONE;
	size_t least = SIZE_MAX;

	for (uint32_t i = 0; i < planner->candidate_count; i++) {
		const struct measure_candidate *candidate = &planner->candidates[i];
		size_t cost;

		if (!is_device(planner, candidate->flow.flow.from) || !is_device(planner, candidate->flow.flow.to) ||
		    (candidate->source == candidate->sink) != alike || set_has(set, i) ||
		    !measure_sets_crosses(candidate, directed))
			continue;
		cost = TOPOLOGY_ROUTE_MAX * shared_links(set, candidate) + candidate->route.count;
		if (cost >= least)
			continue;
		least = cost;
		best = i;
	}
	return best;
}

/* A NIC moves a GPU's bytes by itself, so peers of another kind come in turns with those of its own. */
void measure_sets_fan(struct measure_set *set, uint32_t directed, size_t most)
{
	for (size_t i = 0; i < most; i++) {
		uint32_t next = apart_from(set, directed, i % 2 == 0);

		if (next == TOPOLOGY_NONE)
			next = apart_from(set, directed, i % 2 != 0);
		if (next != TOPOLOGY_NONE)
			measure_set_add(set, next);
	}
}

static bool moves_by_device(const struct measure_planner *planner, uint32_t index)
{
	const struct topology_flow *flow = &planner->candidates[index].flow.flow;

	return is_device(planner, flow->from) || is_device(planner, flow->to);
}

void measure_sets_everything(struct measure_set *set, uint32_t directed, size_t most)
{
	const struct measure_planner *planner = set->planner;
	size_t count = 0, seen = 0, step;

	for (uint32_t i = 0; i < planner->candidate_count; i++)
		count += moves_by_device(planner, i) && measure_sets_crosses(&planner->candidates[i], directed);
	step = (count + most - 1) / most;
	for (uint32_t i = 0; i < planner->candidate_count; i++)
		if (moves_by_device(planner, i) && measure_sets_crosses(&planner->candidates[i], directed) &&
		    seen++ % step == 0)
			measure_set_add(set, i);
}

int measure_sets_cores(struct measure_set *set, uint32_t directed)
{
	const struct measure_planner *planner = set->planner;
	uint8_t *busy = sys_zalloc(planner->topology->vertex_count + 1);

	if (!busy)
		return -ENOMEM;
	for (uint32_t i = 0; i < planner->candidate_count; i++) {
		const struct measure_candidate *candidate = &planner->candidates[i];
		uint32_t cpu = candidate->source == TOPOLOGY_CPU ? candidate->flow.flow.from : candidate->flow.flow.to;

		if ((candidate->source != TOPOLOGY_CPU && candidate->sink != TOPOLOGY_CPU) || busy[cpu] ||
		    !measure_sets_crosses(candidate, directed))
			continue;
		busy[cpu] = 1;
		measure_set_add(set, i);
	}
	sys_free(busy);
	return 0;
}

uint32_t measure_sets_device_end(const struct measure_planner *planner, uint32_t link)
{
	const struct topology_link *of = &planner->topology->links[link];
	bool lower = is_device(planner, of->lower), upper = is_device(planner, of->upper);

	return lower == upper ? TOPOLOGY_NONE : lower ? of->lower : of->upper;
}

/* By way of a vertex: a memory from which the NIC takes what it has written there, or the NIC between two memories. */
static int route_by(const struct topology *topology, uint32_t from, uint32_t by, uint32_t to,
		    struct topology_route *ret)
{
	struct topology_flow out = { from, by, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
	struct topology_flow back = { by, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
	struct topology_route second = { .count = 0 };
	int r = by == TOPOLOGY_NONE ? -ENOENT : topology_route(topology, &out, ret);

	if (r == 0)
		r = topology_route(topology, &back, &second);
	if (r < 0 || ret->count + second.count > TOPOLOGY_ROUTE_MAX)
		return r < 0 ? r : -ENOENT;
	memcpy(&ret->links[ret->count], second.links, second.count * sizeof(second.links[0]));
	ret->count += second.count;
	return 0;
}

bool measure_experiments_by_nic(const struct topology *topology, const struct topology_flow *flow)
{
	return flow->way == TOPOLOGY_WAY_HOST && flow->via < topology->vertex_count &&
	       topology->vertices[flow->via].kind == TOPOLOGY_NIC;
}

int measure_experiments_route(const struct topology *topology, const struct topology_flow *flow,
			      struct topology_route *ret)
{
	uint32_t link;

	if (measure_experiments_by_nic(topology, flow))
		return route_by(topology, flow->from, flow->via, flow->to, ret);
	if (flow->from != flow->to)
		return topology_route(topology, flow, ret);
	if (flow->from < topology->vertex_count && topology->vertices[flow->from].kind == TOPOLOGY_NIC)
		return route_by(topology, flow->from,
				flow->via == TOPOLOGY_NONE ? topology_memory_of(topology, flow->from) : flow->via,
				flow->to, ret);
	if (flow->from >= topology->vertex_count || topology->vertices[flow->from].kind != TOPOLOGY_MEMORY)
		return -ENOENT;
	link = topology_uplink(topology, flow->from);
	if (link == TOPOLOGY_NONE)
		return -ENOENT;
	*ret = (struct topology_route){ .count = 2 };
	ret->links[0] = topology_directed(link, TOPOLOGY_UP);
	ret->links[1] = topology_directed(link, TOPOLOGY_DOWN);
	return 0;
}
