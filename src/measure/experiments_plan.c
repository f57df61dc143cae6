/* SPDX-License-Identifier: Apache-2.0 */
/* The plan as it grows: experiments are added, each once. */
#include "measure/experiments_sets.h"

#include "base/sys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool measure_experiments_same_flow(const struct probe_flow *a, const struct probe_flow *b)
{
	return a->flow.from == b->flow.from && a->flow.to == b->flow.to && a->flow.way == b->flow.way &&
	       a->flow.via == b->flow.via && a->engine == b->engine;
}

uint32_t measure_plan_place(const struct measure_planner *planner, uint32_t vertex)
{
	uint32_t link = measure_experiments_is_device(planner->topology, vertex)
				? topology_uplink(planner->topology, vertex)
				: TOPOLOGY_NONE;

	return link == TOPOLOGY_NONE ? vertex : planner->topology->links[link].upper;
}

void measure_experiments_fini(struct measure_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		sys_free(plan->items[i].flows);
	free(plan->items);
	*plan = (struct measure_plan){ 0 };
}

/* The same set from another probe says nothing new either. */
static struct measure_experiment *planned(const struct measure_planner *planner, const struct probe_flow *flows,
					  size_t count)
{
	for (size_t i = 0; i < planner->plan->count; i++) {
		struct measure_experiment *other = &planner->plan->items[i];
		size_t same = 0;

		if (other->count != count)
			continue;
		while (same < count && measure_experiments_same_flow(&other->flows[same], &flows[same]))
			same++;
		if (same == count)
			return other;
	}
	return NULL;
}

int measure_plan_add(struct measure_planner *planner, struct probe_flow *flows, size_t count, unsigned priority,
		     const char *what)
{
	struct measure_plan *plan = planner->plan;
	struct measure_experiment *same;
	const struct topology_vertex *vertices = planner->topology->vertices;

	if (!flows)
		return -ENOMEM;
	same = planned(planner, flows, count);
	if (same || !count) {
		if (same && priority < same->priority)
			same->priority = priority;
		sys_free(flows);
		return 0;
	}
	if (sys_grow(&plan->items, plan->count, 1, sizeof(*plan->items)) < 0) {
		sys_free(flows);
		return -ENOMEM;
	}
	plan->items[plan->count] = (struct measure_experiment){
		.probe = planner->probe,
		.flows = flows,
		.count = count,
		.priority = priority,
		.pair = count == 1 && vertices[flows->flow.from].kind == TOPOLOGY_GPU &&
			vertices[flows->flow.to].kind == TOPOLOGY_GPU,
	};
	snprintf(plan->items[plan->count].what, sizeof(plan->items->what), "%s", what);
	plan->count++;
	return 0;
}

int measure_plan_single(struct measure_planner *planner, const struct probe_flow *flow, unsigned priority)
{
	const struct topology_vertex *vertices = planner->topology->vertices;
	struct probe_flow *copy = sys_zalloc(sizeof(*copy));
	bool through = flow->flow.way == TOPOLOGY_WAY_HOST;
	bool by_nic = measure_experiments_by_nic(planner->topology, &flow->flow);
	const char *by = by_nic ? vertices[flow->flow.via].name : "the host";
	char what[256];

	if (copy)
		*copy = *flow;
	snprintf(what, sizeof(what), "%s>%s%s%s%s", vertices[flow->flow.from].name, vertices[flow->flow.to].name,
		 through ? " through " : "", through ? by : "",
		 flow->engine == PROBE_ENGINE_KERNEL ? " by a kernel" : "");
	return measure_plan_add(planner, copy, 1, priority, what);
}
