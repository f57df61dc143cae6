/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/resources.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A part that carries less than this of the whole does not make it more than one link. */
#define ACTIVE_PART 0.1

static size_t both_of(const struct measure_resources *resources, uint32_t link)
{
	return 2 * resources->topology->link_count + link;
}

static size_t links_of(const struct topology *topology, uint32_t vertex)
{
	size_t count = 0;

	for (size_t i = 0; i < topology->link_count; i++)
		count += topology->links[i].lower == vertex || topology->links[i].upper == vertex;
	return count;
}

static void add(struct measure_resources *resources, enum measure_resource_kind kind, uint32_t subject)
{
	resources->items[resources->count++] = (struct measure_resource){ kind, subject };
}

static void list_resources(struct measure_resources *resources)
{
	const struct topology *topology = resources->topology;

	for (uint32_t i = 0; i < 2 * topology->link_count; i++)
		add(resources, MEASURE_RESOURCE_LINK, i);
	for (uint32_t i = 0; i < topology->link_count; i++)
		add(resources, MEASURE_RESOURCE_BOTH, i);
	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		resources->device[i] = resources->cores[i] = TOPOLOGY_NONE;
		if (topology->vertices[i].kind == TOPOLOGY_CPU) {
			resources->cores[i] = (uint32_t)resources->count;
			add(resources, MEASURE_RESOURCE_CORES, i);
		} else if (topology->vertices[i].kind == TOPOLOGY_GPU && links_of(topology, i) > 1) {
			resources->device[i] = (uint32_t)resources->count;
			add(resources, MEASURE_RESOURCE_DEVICE, i);
			add(resources, MEASURE_RESOURCE_OUT, i);
			add(resources, MEASURE_RESOURCE_IN, i);
		}
	}
	for (uint32_t i = 0; i < 2 * topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i / 2];

		resources->engine[i] = TOPOLOGY_NONE;
		if (!measure_experiments_is_device(topology, link->lower) &&
		    !measure_experiments_is_device(topology, link->upper))
			continue;
		resources->engine[i] = (uint32_t)resources->count;
		add(resources, MEASURE_RESOURCE_ENGINE, i);
		add(resources, MEASURE_RESOURCE_KERNEL, i);
	}
}

/* The CPU whose cores move a flow between memories: probe_memory.h says which. */
static uint32_t home_of(const struct topology *topology, const struct probe_flow *flow)
{
	enum topology_kind source = topology->vertices[flow->flow.from].kind;
	enum topology_kind sink = topology->vertices[flow->flow.to].kind;

	if ((source != TOPOLOGY_MEMORY && source != TOPOLOGY_CPU) || (sink != TOPOLOGY_MEMORY && sink != TOPOLOGY_CPU))
		return TOPOLOGY_NONE;
	return topology_cpu_of(topology, sink == TOPOLOGY_CPU ? flow->flow.to : flow->flow.from);
}

static uint32_t engine_at(const struct measure_resources *resources, const struct probe_flow *flow, uint32_t directed)
{
	uint32_t engine = resources->engine[directed];

	return engine == TOPOLOGY_NONE ? engine : engine + (flow->engine == PROBE_ENGINE_KERNEL);
}

/* Of a NIC between two memories: it reads the one and writes the other. */
static size_t engines_of_nic(const struct measure_resources *resources, const struct probe_flow *of,
			     const struct topology_route *route, uint32_t ret[static 2])
{
	size_t count = 0;

	for (size_t i = 0; i < route->count && count < 2; i++) {
		const struct topology_link *link = &resources->topology->links[route->links[i] / 2];

		if (link->lower == of->flow.via || link->upper == of->flow.via)
			ret[count++] = engine_at(resources, of, route->links[i]);
	}
	return count;
}

/*
 * The engines that move a flow, as probe.h has it: a sending GPU writes; a NIC reads and writes what others hold; a
 * memory moves nothing. Through the host both GPUs do. Returns how many.
 */
static size_t engines_of(const struct measure_resources *resources, size_t result, size_t flow, uint32_t ret[static 2])
{
	const struct probe_flow *of = &resources->results[result].experiment->flows[flow];
	const struct topology_route *route = measure_resources_route(resources, result, flow);
	const struct topology *topology = resources->topology;
	enum topology_kind source = topology->vertices[of->flow.from].kind, sink = topology->vertices[of->flow.to].kind;
	bool from = measure_experiments_is_device(topology, of->flow.from);
	bool to = measure_experiments_is_device(topology, of->flow.to);
	size_t count = 0;

	if (measure_experiments_by_nic(topology, &of->flow))
		return engines_of_nic(resources, of, route, ret);
	if (from && to && of->flow.way == TOPOLOGY_WAY_DIRECT) {
		from = source == sink || source == TOPOLOGY_NIC;
		to = !from;
	}
	if (from && route->count)
		ret[count++] = engine_at(resources, of, route->links[0]);
	if (to && route->count)
		ret[count++] = engine_at(resources, of, route->links[route->count - 1]);
	return count;
}

static size_t use(struct measure_use *list, size_t count, size_t resource)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].resource == resource) {
			list[i].times++;
			return count;
		}
	if (count < MEASURE_USES_MAX)
		list[count++] = (struct measure_use){ (uint32_t)resource, 1 };
	return count;
}

size_t measure_resources_of_flow(const struct measure_resources *resources, size_t result, size_t flow,
				 struct measure_use *ret)
{
	const struct topology_route *route = measure_resources_route(resources, result, flow);
	const struct probe_flow *of = &resources->results[result].experiment->flows[flow];
	uint32_t from = resources->device[of->flow.from], to = resources->device[of->flow.to];
	uint32_t home = home_of(resources->topology, of), engines[2];
	size_t count = 0, engine_count = engines_of(resources, result, flow, engines);

	for (size_t i = 0; i < route->count; i++) {
		count = use(ret, count, route->links[i]);
		count = use(ret, count, both_of(resources, route->links[i] / 2));
	}
	if (from != TOPOLOGY_NONE) {
		count = use(ret, count, from);
		count = use(ret, count, from + 1);
	}
	if (to != TOPOLOGY_NONE) {
		count = use(ret, count, to);
		count = use(ret, count, to + 2);
	}
	if (home != TOPOLOGY_NONE && resources->cores[home] != TOPOLOGY_NONE)
		count = use(ret, count, resources->cores[home]);
	for (size_t i = 0; i < engine_count; i++)
		if (engines[i] != TOPOLOGY_NONE)
			count = use(ret, count, engines[i]);
	return count;
}

size_t measure_resources_members(const struct measure_resources *resources, size_t resource, uint32_t *ret)
{
	const struct measure_resource *item = &resources->items[resource];
	const struct topology *topology = resources->topology;
	size_t count = 0;

	for (uint32_t i = 0; i < 2 * topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i / 2];
		bool leaves = (i % 2 == TOPOLOGY_UP ? link->lower : link->upper) == item->subject;
		bool enters = (i % 2 == TOPOLOGY_UP ? link->upper : link->lower) == item->subject;
		bool member = false;

		switch (item->kind) {
		case MEASURE_RESOURCE_LINK:
			member = i == item->subject;
			break;
		case MEASURE_RESOURCE_BOTH:
			member = i / 2 == item->subject;
			break;
		case MEASURE_RESOURCE_DEVICE:
			member = leaves || enters;
			break;
		case MEASURE_RESOURCE_OUT:
			member = leaves;
			break;
		case MEASURE_RESOURCE_IN:
			member = enters;
			break;
		default:
			break;
		}
		if (member)
			ret[count++] = i;
	}
	return count;
}

/* ------------------------------------------------------------------------------------------------------------ loads */

static void find_loads(struct measure_resources *resources, size_t result, double *sums)
{
	const struct measure_series *series = resources->results[result].series;
	size_t flows = series->flow_count, kept = 0;
	struct measure_use uses[MEASURE_USES_MAX];

	for (size_t i = 0; i < series->count; i++) {
		if (series->at[i].fate != MEASURE_REPEAT_KEPT)
			continue;
		kept++;
		memset(sums, 0, resources->count * sizeof(*sums));
		for (size_t j = 0; j < flows; j++) {
			size_t count = measure_resources_of_flow(resources, result, j, uses);

			for (size_t k = 0; k < count; k++)
				sums[uses[k].resource] += uses[k].times * series->rates[i * flows + j];
		}
		for (size_t j = 0; j < resources->count; j++) {
			struct measure_load *load = measure_resources_load(resources, result, j);

			load->rate_Bps += sums[j];
			load->error_Bps += sums[j] * sums[j];
		}
	}
	for (size_t i = 0; i < flows; i++) {
		size_t count = measure_resources_of_flow(resources, result, i, uses);

		for (size_t j = 0; j < count; j++)
			measure_resources_load(resources, result, uses[j].resource)->users++;
	}
	for (size_t j = 0; kept && j < resources->count; j++) {
		struct measure_load *load = measure_resources_load(resources, result, j);
		double least = series->flow_error_least / sqrt(load->users ? (double)load->users : 1);
		double n = (double)kept, mean = load->rate_Bps / n, squares = load->error_Bps - n * mean * mean;

		load->rate_Bps = mean;
		load->error_Bps = kept > 1 ? sqrt(fmax(squares, 0) / (n - 1) / n) : mean;
		load->error_Bps = fmax(load->error_Bps, fmax(series->error_least, least) * mean);
	}
}

static void find_active(struct measure_resources *resources, size_t result, uint32_t *members)
{
	for (size_t i = 0; i < resources->count; i++) {
		struct measure_load *load = measure_resources_load(resources, result, i);
		enum measure_resource_kind kind = resources->items[i].kind;
		size_t parts = 0, count;

		load->active = load->rate_Bps > 0;
		if (kind == MEASURE_RESOURCE_LINK || kind >= MEASURE_RESOURCE_CORES || !load->active)
			continue;
		count = measure_resources_members(resources, i, members);
		for (size_t j = 0; j < count; j++)
			parts += measure_resources_load(resources, result, members[j])->rate_Bps >
				 ACTIVE_PART * load->rate_Bps;
		load->active = parts > 1;
	}
}

static int find_routes(struct measure_resources *resources)
{
	for (size_t i = 0; i < resources->result_count; i++) {
		const struct measure_experiment *experiment = resources->results[i].experiment;

		for (size_t j = 0; j < experiment->count; j++) {
			int r = measure_experiments_route(resources->topology, &experiment->flows[j].flow,
							  &resources->routes[resources->first_flow[i] + j]);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

void measure_resources_fini(struct measure_resources *resources)
{
	sys_free(resources->arrays);
	sys_free(resources->loads);
	memset(resources, 0, sizeof(*resources));
}

static int arrays_init(struct measure_resources *resources, size_t most)
{
	const struct topology *topology = resources->topology;
	size_t flows = 0;

	for (size_t i = 0; i < resources->result_count; i++)
		flows += resources->results[i].experiment->count;
	resources->arrays =
		sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(resources->items, most),
							SYS_ARRAY(resources->device, topology->vertex_count),
							SYS_ARRAY(resources->cores, topology->vertex_count),
							SYS_ARRAY(resources->engine, 2 * topology->link_count),
							SYS_ARRAY(resources->first_flow, resources->result_count + 1),
							SYS_ARRAY(resources->routes, flows) },
				  6);
	if (!resources->arrays)
		return -ENOMEM;
	for (size_t i = 0; i < resources->result_count; i++)
		resources->first_flow[i + 1] = resources->first_flow[i] + resources->results[i].experiment->count;
	list_resources(resources);
	resources->loads = sys_zalloc(resources->result_count * resources->count * sizeof(*resources->loads));
	return resources->loads ? 0 : -ENOMEM;
}

int measure_resources_init(struct measure_resources *resources, const struct topology *topology,
			   const struct measure_result *results, size_t result_count)
{
	size_t most = 7 * topology->link_count + 3 * topology->vertex_count;
	double *sums = sys_zalloc(most * sizeof(*sums));
	uint32_t *members = sys_zalloc(2 * topology->link_count * sizeof(*members));
	int r;

	*resources =
		(struct measure_resources){ .topology = topology, .results = results, .result_count = result_count };
	r = sums && members ? arrays_init(resources, most) : -ENOMEM;
	if (r == 0)
		r = find_routes(resources);
	for (size_t i = 0; r == 0 && i < result_count; i++)
		if (results[i].usable) {
			find_loads(resources, i, sums);
			find_active(resources, i, members);
		}
	sys_free(sums);
	sys_free(members);
	if (r < 0)
		measure_resources_fini(resources);
	return r;
}
