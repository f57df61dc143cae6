/* SPDX-License-Identifier: Apache-2.0 */
#include "command/print/reach.h"

#include <errno.h>
#include <stdlib.h>

#define NARROW_SHARE 0.75

uint64_t reach_rate_Bps(const struct topology_link *link, enum topology_direction direction)
{
	const struct topology_capacity *capacity = &link->capacity[direction];

	if (capacity->provenance == TOPOLOGY_ASSUMED)
		return 0;
	/* A lower bound is no reason to believe less than the nominal rate. */
	if (capacity->provenance == TOPOLOGY_AT_LEAST && link->nominal_Bps > capacity->rate_Bps)
		return link->nominal_Bps;
	return capacity->rate_Bps ? capacity->rate_Bps : link->nominal_Bps;
}

static struct reach reach_of(const struct topology *topology, uint32_t gpu)
{
	struct reach reach = { .gpu = gpu, .link = TOPOLOGY_NONE };
	uint32_t at = gpu;

	/* A graph from a file may have a circle in it. */
	for (size_t steps = 0; steps <= topology->vertex_count; steps++) {
		uint32_t link = topology_uplink(topology, at);

		if (link == TOPOLOGY_NONE)
			break;
		for (int i = 0; i < 2; i++) {
			uint64_t rate_Bps = reach_rate_Bps(&topology->links[link], (enum topology_direction)i);

			if (!rate_Bps || (reach.rate_Bps && rate_Bps >= reach.rate_Bps))
				continue;
			reach.rate_Bps = rate_Bps;
			reach.link = link;
		}
		at = topology->links[link].upper;
	}
	return reach;
}

static bool has_nvlink(const struct topology *topology)
{
	for (size_t i = 0; i < topology->link_count; i++)
		if (topology->links[i].kind == TOPOLOGY_LINK_NVLINK)
			return true;
	return false;
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct topology *topology = arg;
	const struct reach *first = a, *second = b;

	if (first->rate_Bps != second->rate_Bps)
		return first->rate_Bps < second->rate_Bps ? -1 : 1;
	return topology_compare_names(topology->vertices[first->gpu].name, topology->vertices[second->gpu].name);
}

int reach_list(const struct topology *topology, struct reach **ret, size_t *ret_count)
{
	struct reach *list = malloc((topology->vertex_count + 1) * sizeof(*list));
	size_t count = 0;

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < topology->vertex_count && !has_nvlink(topology); i++) {
		if (topology->vertices[i].kind != TOPOLOGY_GPU || topology_is_later_slice(topology, i))
			continue;
		list[count] = reach_of(topology, i);
		count += list[count].rate_Bps > 0;
	}
	qsort_r(list, count, sizeof(*list), compare, (void *)(uintptr_t)topology);
	*ret = list;
	*ret_count = count;
	return 0;
}

uint64_t reach_usual_Bps(const struct reach *list, size_t count)
{
	return count ? list[count / 2].rate_Bps : 0;
}

bool reach_is_narrow(const struct reach *reach, uint64_t usual_Bps)
{
	return (double)reach->rate_Bps < NARROW_SHARE * (double)usual_Bps;
}
