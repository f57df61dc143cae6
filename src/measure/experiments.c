/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/experiments.h"

#include "base/sys.h"
#include "measure/experiments_sets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAN_PEERS = 4, CPUS_FEW = 4, EVERYTHING_MOST = 32, EVERYTHING_OF_DEVICE = 12 };

/* ---------------------------------------------------------------------------------------------------------- helpers */

static bool is_device(const struct measure_planner *planner, uint32_t vertex)
{
	return measure_experiments_is_device(planner->topology, vertex);
}

static bool is_core_flow(const struct measure_candidate *candidate)
{
	bool source = candidate->source == TOPOLOGY_MEMORY || candidate->source == TOPOLOGY_CPU;
	bool sink = candidate->sink == TOPOLOGY_MEMORY || candidate->sink == TOPOLOGY_CPU;

	return source && sink;
}

static bool is_near(const struct measure_planner *planner, const struct measure_candidate *candidate)
{
	return topology_cpu_of(planner->topology, candidate->flow.flow.from) ==
	       topology_cpu_of(planner->topology, candidate->flow.flow.to);
}

/* ------------------------------------------------------------------------------------------------------------- sets */

static int compare_indices(const void *a, const void *b)
{
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

	return first < second ? -1 : first > second;
}

/* A set of one is a single flow, which has its place already. */
static int add_set(struct measure_planner *planner, struct measure_set *set, unsigned priority, const char *what)
{
	struct probe_flow *flows;

	if (set->count < 2)
		return 0;
	qsort(set->members, set->count, sizeof(*set->members), compare_indices);
	flows = sys_zalloc(set->count * sizeof(*flows));
	for (size_t i = 0; flows && i < set->count; i++)
		flows[i] = planner->candidates[set->members[i]].flow;
	return measure_plan_add(planner, flows, set->count, priority, what);
}

/* What one directed link is loaded with. */
enum load {
	LOAD_MEMORIES,
	LOAD_SPREAD, /* each device with two memories */
	LOAD_PEERS,
	LOAD_CORES,
	LOAD_FAN,
	LOAD_EVERYTHING,
	LOAD_COUNT
};

/* One device's flows over its own link: with a memory, and with the nearest peers or else with another memory. */
static void fan_fill(struct measure_set *fan, uint32_t directed)
{
	const struct measure_planner *planner = fan->planner;
	const struct topology_link *link = &planner->topology->links[directed / 2];
	uint32_t device = measure_sets_device_end(planner, directed / 2), memory, other;
	bool sends = (directed % 2 == TOPOLOGY_UP) == (device == link->lower);

	if (device == TOPOLOGY_NONE)
		return;
	memory = measure_sets_to_memory(planner, directed, device, sends, TOPOLOGY_NONE);
	if (memory != TOPOLOGY_NONE)
		measure_set_add(fan, memory);
	measure_sets_fan(fan, directed, FAN_PEERS);
	if (fan->count > 1 || memory == TOPOLOGY_NONE)
		return;
	other = measure_sets_to_memory(planner, directed, device, sends, memory);
	if (other != TOPOLOGY_NONE)
		measure_set_add(fan, other);
}

static int loads_fill(struct measure_set *loads, uint32_t directed)
{
	int r;

	measure_sets_memories(&loads[LOAD_MEMORIES], directed, true, true, false);
	measure_sets_memories(&loads[LOAD_SPREAD], directed, true, true, true);
	r = measure_sets_peers(&loads[LOAD_PEERS], directed);
	if (r == 0)
		r = measure_sets_cores(&loads[LOAD_CORES], directed);
	fan_fill(&loads[LOAD_FAN], directed);
	measure_sets_everything(&loads[LOAD_EVERYTHING], directed,
				loads[LOAD_FAN].count ? EVERYTHING_OF_DEVICE : EVERYTHING_MOST);
	return r;
}

/* Adds the union of those sets that have a bit in `mask`, of one array or two (`more` may be NULL). */
static int add_union(struct measure_planner *planner, const struct measure_set *sets, const struct measure_set *more,
		     unsigned mask, unsigned priority, const char *what)
{
	struct measure_set all;
	int r = measure_sets_init(&all, 1, planner);

	for (unsigned i = 0; r == 0 && mask >> i; i++) {
		if (!(mask >> i & 1))
			continue;
		measure_set_join(&all, &sets[i]);
		if (more)
			measure_set_join(&all, &more[i]);
	}
	if (r == 0)
		r = add_set(planner, &all, priority, what);
	measure_sets_fini(&all);
	return r;
}

static int add_half(struct measure_planner *planner, const struct measure_set *set, unsigned priority, const char *what)
{
	struct measure_set half;
	int r;

	if (set->count < 4)
		return 0;
	r = measure_sets_init(&half, 1, planner);
	for (size_t i = 0; r == 0 && i < set->count; i += 2)
		measure_set_add(&half, set->members[i]);
	if (r == 0)
		r = add_set(planner, &half, priority, what);
	measure_sets_fini(&half);
	return r;
}

static const struct {
	unsigned loads, priority;
	const char *words;
	bool both;       /* both directions at once, too */
	bool not_device; /* the fan is that, with fewer peers */
} unions[] = {
	{ 1 << LOAD_MEMORIES, 0, "memories", .both = true },
	{ 1 << LOAD_PEERS, 1, "peers", .both = true },
	{ 1 << LOAD_CORES, 1, "cores", .both = true },
	{ 1 << LOAD_FAN, 1, "one device", .both = true },
	{ 1 << LOAD_MEMORIES | 1 << LOAD_PEERS, 2, "memories and peers", .both = true, .not_device = true },
	{ 1 << LOAD_MEMORIES | 1 << LOAD_CORES, 2, "memories and cores", .both = true },
	{ 1 << LOAD_SPREAD, 2, "several memories", .not_device = true },
	{ 1 << LOAD_EVERYTHING, 2, "everything", .both = false },
};

static int add_loads(struct measure_planner *planner, const struct measure_set *loads, uint32_t directed)
{
	bool device = measure_sets_device_end(planner, directed / 2) != TOPOLOGY_NONE;
	char name[2 * TOPOLOGY_NAME_BYTES], what[2 * TOPOLOGY_NAME_BYTES + 64];
	int r = topology_directed_name(planner->topology, directed, name, sizeof(name));

	for (size_t i = 0; r == 0 && i < sizeof(unions) / sizeof(unions[0]); i++) {
		if (unions[i].not_device && device)
			continue;
		snprintf(what, sizeof(what), "%s: %s", name, unions[i].words);
		r = add_union(planner, loads, NULL, unions[i].loads, unions[i].priority, what);
	}
	snprintf(what, sizeof(what), "%s: half", name);
	return r == 0 ? add_half(planner, &loads[LOAD_MEMORIES], 1, what) : r;
}

static int add_both(struct measure_planner *planner, const struct measure_set *up, const struct measure_set *down,
		    uint32_t link)
{
	const struct topology_vertex *vertices = planner->topology->vertices;
	bool device = measure_sets_device_end(planner, link) != TOPOLOGY_NONE;
	char what[2 * TOPOLOGY_NAME_BYTES + 64];
	int r = 0;

	snprintf(what, sizeof(what), "%s, %s: both directions", vertices[planner->topology->links[link].lower].name,
		 vertices[planner->topology->links[link].upper].name);
	for (size_t i = 0; r == 0 && i < sizeof(unions) / sizeof(unions[0]); i++)
		if (unions[i].both && !(unions[i].not_device && device))
			r = add_union(planner, up, down, unions[i].loads, unions[i].priority, what);
	return r;
}

/* GPUs' copy engines and their cores together may bring more through a slot than either. */
static int add_engines(struct measure_planner *planner, const struct measure_set *fan, uint32_t directed)
{
	char name[2 * TOPOLOGY_NAME_BYTES], what[2 * TOPOLOGY_NAME_BYTES + 64];
	struct probe_flow *flows = sys_zalloc((2 * fan->count + 1) * sizeof(*flows));
	size_t count = 0;
	int r = flows ? topology_directed_name(planner->topology, directed, name, sizeof(name)) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < fan->count; i++)
		flows[count++] = planner->candidates[fan->members[i]].flow;
	for (size_t i = 0; r == 0 && i < fan->count; i++) {
		flows[count] = flows[i];
		flows[count].engine = PROBE_ENGINE_KERNEL;
		count += planner->probe->ops->can(planner->probe, &flows[count]);
	}
	if (r < 0) {
		sys_free(flows);
		return r;
	}
	snprintf(what, sizeof(what), "%s: engines and kernels", name);
	return measure_plan_add(planner, flows, count > fan->count ? count : 0, 2, what);
}

static int plan_link(struct measure_planner *planner, uint32_t link)
{
	uint32_t up = topology_directed(link, TOPOLOGY_UP), down = topology_directed(link, TOPOLOGY_DOWN);
	struct measure_set loads[2][LOAD_COUNT];
	int r = measure_sets_init(loads[0], 2 * LOAD_COUNT, planner);

	if (r == 0)
		r = loads_fill(loads[0], up);
	if (r == 0)
		r = loads_fill(loads[1], down);
	if (r == 0)
		r = add_loads(planner, loads[0], up);
	if (r == 0)
		r = add_loads(planner, loads[1], down);
	if (r == 0)
		r = add_both(planner, loads[0], loads[1], link);
	if (r == 0)
		r = add_engines(planner, &loads[0][LOAD_FAN], up);
	if (r == 0)
		r = add_engines(planner, &loads[1][LOAD_FAN], down);
	measure_sets_fini(loads[0]);
	return r;
}

/* The first set, the second, and both. */
static int add_ways(struct measure_planner *planner, const struct measure_set sets[static 2], unsigned priority,
		    const char *what)
{
	int r = 0;

	for (unsigned mask = 1; r == 0 && mask <= 3; mask++)
		r = add_union(planner, sets, NULL, mask, priority, what);
	return r;
}

/* A device with several links (NVLink beside PCIe): all of them at once, out, in, and both. */
static int plan_device(struct measure_planner *planner, uint32_t device)
{
	const struct topology *topology = planner->topology;
	struct measure_set ways[2]; /* out, in */
	char what[TOPOLOGY_NAME_BYTES + 32];
	size_t links = 0;
	int r = measure_sets_init(ways, 2, planner);

	for (uint32_t i = 0; r == 0 && i < 2 * topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i / 2];
		bool leaves = (i % 2 == TOPOLOGY_UP ? link->lower : link->upper) == device;
		uint32_t memory;

		if (link->lower != device && link->upper != device)
			continue;
		links += leaves;
		memory = measure_sets_to_memory(planner, i, device, leaves, TOPOLOGY_NONE);
		if (memory != TOPOLOGY_NONE)
			measure_set_add(&ways[!leaves], memory);
		else
			measure_sets_fan(&ways[!leaves], i, 1);
	}
	snprintf(what, sizeof(what), "%s: all its links", topology->vertices[device].name);
	if (r == 0 && links > 1)
		r = add_ways(planner, ways, 2, what);
	measure_sets_fini(ways);
	return r;
}

/* Everything between devices and their own memories at once. */
static int plan_all(struct measure_planner *planner)
{
	struct measure_set ways[2]; /* up, down */
	int r = measure_sets_init(ways, 2, planner);

	if (r < 0)
		return r;
	measure_sets_memories(&ways[0], TOPOLOGY_NONE, true, false, false);
	measure_sets_memories(&ways[1], TOPOLOGY_NONE, false, true, false);
	r = add_ways(planner, ways, 1, "all devices");
	measure_sets_fini(ways);
	return r;
}

/* ---------------------------------------------------------------------------------------------------------- singles */

/* Whether a flow of the same kinds and places was seen before: `index` then needs no experiment of its own. */
static bool has_representative(const struct measure_planner *planner, size_t index)
{
	const struct measure_candidate *candidate = &planner->candidates[index];
	uint32_t from = measure_plan_place(planner, candidate->flow.flow.from),
		 to = measure_plan_place(planner, candidate->flow.flow.to);

	for (size_t i = 0; i < index; i++) {
		const struct measure_candidate *other = &planner->candidates[i];

		if (other->source == candidate->source && other->sink == candidate->sink &&
		    measure_plan_place(planner, other->flow.flow.from) == from &&
		    measure_plan_place(planner, other->flow.flow.to) == to)
			return true;
	}
	return false;
}

/* Negative: none. */
static int single_priority(const struct measure_planner *planner, size_t index)
{
	const struct measure_candidate *candidate = &planner->candidates[index];
	bool first = !has_representative(planner, index);

	if (is_core_flow(candidate))
		return is_near(planner, candidate) ? 0 : planner->cpu_count <= CPUS_FEW ? 1 : 2;
	if (candidate->source == TOPOLOGY_MEMORY || candidate->sink == TOPOLOGY_MEMORY)
		return is_near(planner, candidate) ? 0 : first ? 2 : planner->cpu_count <= CPUS_FEW ? 3 : -1;
	if (candidate->source == candidate->sink)
		return first || !planner->quick ? 1 : -1;
	return first ? (is_near(planner, candidate) ? 1 : 2) : -1;
}

static int plan_kernels(struct measure_planner *planner, const struct measure_candidate *candidate, bool first)
{
	struct probe_flow flow = candidate->flow;

	flow.engine = PROBE_ENGINE_KERNEL;
	if ((candidate->source != TOPOLOGY_GPU && candidate->sink != TOPOLOGY_GPU) ||
	    !planner->probe->ops->can(planner->probe, &flow))
		return 0;
	return measure_plan_single(planner, &flow, first ? 2 : 3);
}

static int plan_singles(struct measure_planner *planner)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < planner->candidate_count; i++) {
		int priority = single_priority(planner, i);

		if (priority < 0)
			continue;
		r = measure_plan_single(planner, &planner->candidates[i].flow, (unsigned)priority);
		if (r == 0 && priority < 2)
			r = plan_kernels(planner, &planner->candidates[i], !has_representative(planner, i));
	}
	return r;
}

/* Through the host: every pair has one, but the first of each two places counts most. */
static int plan_host_pairs(struct measure_planner *planner)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < planner->gpu_count * planner->gpu_count; i++) {
		uint32_t from = planner->gpus[i / planner->gpu_count], to = planner->gpus[i % planner->gpu_count];
		struct probe_flow flow = { .flow = { from, to, TOPOLOGY_WAY_HOST, TOPOLOGY_NONE } };
		bool first = true;

		for (size_t j = 0; j < i && first; j++) {
			uint32_t a = planner->gpus[j / planner->gpu_count], b = planner->gpus[j % planner->gpu_count];

			first = a == b || measure_plan_place(planner, a) != measure_plan_place(planner, from) ||
				measure_plan_place(planner, b) != measure_plan_place(planner, to);
		}
		if (from != to && planner->probe->ops->can(planner->probe, &flow))
			r = measure_plan_single(planner, &flow, first ? 1 : 3);
	}
	return r;
}

/* Each GPU to the next, as collectives do, all at once. */
static int plan_ring(struct measure_planner *planner, enum topology_way way, const char *what)
{
	struct probe_flow *flows;
	size_t count = 0;

	if (planner->gpu_count < 3)
		return 0;
	flows = sys_zalloc(planner->gpu_count * sizeof(*flows));
	for (size_t i = 0; flows && i < planner->gpu_count; i++) {
		uint32_t next = planner->gpus[(i + 1) % planner->gpu_count];
		struct probe_flow flow = { .flow = { planner->gpus[i], next, way, TOPOLOGY_NONE } };

		if (planner->probe->ops->can(planner->probe, &flow))
			flows[count++] = flow;
	}
	return measure_plan_add(planner, flows, count > 1 ? count : 0, 2, what);
}

/* ------------------------------------------------------------------------------------------------------------ whole */

static int candidate_add(struct measure_planner *planner, uint32_t from, uint32_t to)
{
	struct measure_candidate candidate = {
		.flow = { .flow = { from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE } },
		.source = planner->topology->vertices[from].kind,
		.sink = planner->topology->vertices[to].kind,
	};

	if ((from == to && candidate.source != TOPOLOGY_MEMORY) ||
	    !planner->probe->ops->can(planner->probe, &candidate.flow) ||
	    measure_experiments_route(planner->topology, &candidate.flow.flow, &candidate.route) < 0)
		return 0;
	if (sys_grow(&planner->candidates, planner->candidate_count, 1, sizeof(candidate)) < 0)
		return -ENOMEM;
	planner->candidates[planner->candidate_count++] = candidate;
	return 0;
}

/* In the order of names, so that what a plan is does not depend on how the graph was built. */
static int find_candidates(struct measure_planner *planner)
{
	static const enum topology_kind kinds[] = { TOPOLOGY_GPU, TOPOLOGY_NIC,  TOPOLOGY_MEMORY,
						    TOPOLOGY_CPU, TOPOLOGY_HOST, TOPOLOGY_NETWORK };
	uint32_t *ends = sys_zalloc((planner->topology->vertex_count + 1) * sizeof(*ends));
	size_t count = 0;
	int r = ends ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint32_t *list;
		size_t list_count;

		r = topology_list(planner->topology, kinds[i], &list, &list_count);
		if (r < 0)
			break;
		if (list_count)
			memcpy(&ends[count], list, list_count * sizeof(*ends));
		count += list_count;
		if (kinds[i] == TOPOLOGY_CPU)
			planner->cpu_count = list_count;
		free(list);
	}
	for (size_t i = 0; r == 0 && i < count; i++)
		for (size_t j = 0; r == 0 && j < count; j++)
			r = candidate_add(planner, ends[i], ends[j]);
	sys_free(ends);
	return r;
}

static int plan_probe(struct measure_planner *planner)
{
	int r = find_candidates(planner);

	if (r == 0)
		r = plan_singles(planner);
	for (uint32_t i = 0; r == 0 && i < planner->topology->link_count; i++)
		r = plan_link(planner, i);
	for (uint32_t i = 0; r == 0 && i < planner->topology->vertex_count; i++)
		if (is_device(planner, i))
			r = plan_device(planner, i);
	if (r == 0)
		r = plan_all(planner);
	if (r == 0)
		r = plan_host_pairs(planner);
	if (r == 0)
		r = measure_plan_nics(planner);
	if (r == 0)
		r = plan_ring(planner, TOPOLOGY_WAY_DIRECT, "ring of all GPUs");
	if (r == 0)
		r = plan_ring(planner, TOPOLOGY_WAY_HOST, "ring of all GPUs through the host");
	return r;
}

/* By priority, otherwise as they were added; what a quick plan does not have is left out. */
static int plan_sort(struct measure_plan *plan, bool quick)
{
	struct measure_experiment *sorted = NULL;
	size_t count = 0;

	if (sys_grow(&sorted, 0, plan->count, sizeof(*sorted)) < 0)
		return -ENOMEM;
	for (unsigned priority = 0; priority < MEASURE_PRIORITY_COUNT; priority++)
		for (size_t i = 0; i < plan->count; i++)
			if (plan->items[i].priority == priority && !(quick && priority > 1))
				sorted[count++] = plan->items[i];
			else if (plan->items[i].priority == priority)
				sys_free(plan->items[i].flows);
	free(plan->items);
	*plan = (struct measure_plan){ .items = sorted, .count = count };
	return 0;
}

int measure_experiments_plan(const struct topology *topology, struct probe *const *probes, size_t probe_count,
			     bool quick, struct measure_plan *ret)
{
	struct measure_plan plan = { 0 };
	struct measure_planner planner = { .topology = topology, .quick = quick, .plan = &plan };
	int r = topology_list(topology, TOPOLOGY_GPU, &planner.gpus, &planner.gpu_count);

	for (size_t i = 0; r == 0 && i < probe_count; i++) {
		planner.probe = probes[i];
		planner.candidate_count = 0;
		planner.candidates = NULL;
		r = plan_probe(&planner);
		free(planner.candidates);
	}
	if (r == 0)
		r = plan_sort(&plan, quick);
	free(planner.gpus);
	if (r < 0) {
		measure_experiments_fini(&plan);
		return r;
	}
	*ret = plan;
	return 0;
}
