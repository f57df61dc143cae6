/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA ports: each with itself, with each other, all at once; and with the memory of GPUs. */
#include "base/sys.h"
#include "measure/experiments_sets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static struct probe_flow between_nics(uint32_t from, uint32_t to)
{
	return (struct probe_flow){ .flow = { from, to, TOPOLOGY_WAY_HOST, TOPOLOGY_NONE } };
}

static int plan_pairs_of_nics(struct measure_planner *planner, const uint32_t *nics, size_t count)
{
	struct probe_flow *loops = sys_zalloc((count + 1) * sizeof(*loops));
	struct probe_flow *ring = sys_zalloc((count + 1) * sizeof(*ring));
	size_t ring_count = 0;
	int r = loops && ring ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < count * count; i++) {
		size_t from = i / count, to = i % count;
		struct probe_flow flow = between_nics(nics[from], nics[to]);

		if (!planner->probe->ops->can(planner->probe, &flow))
			continue;
		if (from == to)
			loops[from] = flow;
		else if (to == (from + 1) % count)
			ring[ring_count++] = flow;
		r = measure_plan_single(planner, &flow, from == to ? 0 : 2);
	}
	if (r < 0) {
		sys_free(loops);
		sys_free(ring);
		return r;
	}
	r = measure_plan_add(planner, loops, count > 1 ? count : 0, 1, "all NICs, each to itself");
	if (r == 0)
		return measure_plan_add(planner, ring, ring_count > 1 ? ring_count : 0, 2, "ring of all NICs");
	sys_free(ring);
	return r;
}

/* ------------------------------------------------------------------------------------------------- memory of GPUs */

/* The other end is the memory of the NIC's CPU. */
static struct probe_flow of_gpu(const struct topology *topology, uint32_t gpu, uint32_t nic, bool out)
{
	uint32_t memory = topology_memory_of(topology, nic);

	return (struct probe_flow){
		.flow = { out ? gpu : memory, out ? memory : gpu, TOPOLOGY_WAY_HOST, nic },
	};
}

/* GPUs and NICs whose bytes a probe can move. near: [gpu × nic_count + nic], no other NIC is nearer to that GPU. */
struct pairing {
	struct measure_planner *planner;
	const uint32_t *nics;
	size_t nic_count;
	bool *can, *near;
	size_t *nic_of; /* each GPU's own, of the nearest the one with the fewest GPUs; nic_count: it has none */
};

/* By NCCL's class, then by links; SIZE_MAX: the probe moves nothing between them. */
static size_t distance_of(const struct measure_planner *planner, uint32_t gpu, uint32_t nic)
{
	const struct topology_flow flow = { gpu, nic, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
	const struct probe_flow out = of_gpu(planner->topology, gpu, nic, true);
	const struct probe_flow in = of_gpu(planner->topology, gpu, nic, false);
	struct topology_route route;

	if (!planner->probe->ops->can(planner->probe, &out) || !planner->probe->ops->can(planner->probe, &in) ||
	    topology_route(planner->topology, &flow, &route) < 0)
		return SIZE_MAX;
	return (size_t)route.path_class * (TOPOLOGY_ROUTE_MAX + 1) + route.count;
}

static void find_near(struct pairing *pairing, size_t gpu, size_t *users)
{
	const struct measure_planner *planner = pairing->planner;
	size_t count = pairing->nic_count, nearest = SIZE_MAX, *own = &pairing->nic_of[gpu];

	*own = count;
	for (size_t nic = 0; nic < count; nic++) {
		size_t distance = distance_of(planner, planner->gpus[gpu], pairing->nics[nic]);

		pairing->can[gpu * count + nic] = distance < SIZE_MAX;
		if (distance < nearest)
			nearest = distance;
	}
	for (size_t nic = 0; nic < count; nic++) {
		size_t index = gpu * count + nic;

		pairing->near[index] = pairing->can[index] &&
				       distance_of(planner, planner->gpus[gpu], pairing->nics[nic]) == nearest;
		if (pairing->near[index] && (*own == count || users[nic] < users[*own]))
			*own = nic;
	}
	if (*own < count)
		users[*own]++;
}

/* Alike are GPUs at the same place with NICs at the same place. */
static bool is_first(const struct pairing *pairing, size_t index)
{
	const struct measure_planner *planner = pairing->planner;
	size_t count = pairing->nic_count;
	uint32_t gpu = measure_plan_place(planner, planner->gpus[index / count]);
	uint32_t nic = measure_plan_place(planner, pairing->nics[index % count]);

	for (size_t i = 0; i < index; i++)
		if (pairing->can[i] && measure_plan_place(planner, planner->gpus[i / count]) == gpu &&
		    measure_plan_place(planner, pairing->nics[i % count]) == nic)
			return false;
	return true;
}

static int plan_single_gpus(const struct pairing *pairing)
{
	struct measure_planner *planner = pairing->planner;
	int r = 0;

	for (size_t i = 0; r == 0 && i < planner->gpu_count * pairing->nic_count; i++) {
		bool first = is_first(pairing, i);

		if (!pairing->can[i] || (!first && !pairing->near[i]))
			continue;
		for (unsigned out = 0; r == 0 && out < 2; out++) {
			const struct probe_flow flow = of_gpu(planner->topology, planner->gpus[i / pairing->nic_count],
							      pairing->nics[i % pairing->nic_count], out);

			r = measure_plan_single(planner, &flow, first && pairing->near[i] ? 1 : 2);
		}
	}
	return r;
}

/* All GPUs near a NIC through it; nic_count: every GPU through its own. */
static int plan_gpus_at_once(const struct pairing *pairing, size_t nic, unsigned directions, const char *what)
{
	struct measure_planner *planner = pairing->planner;
	struct probe_flow *flows = sys_zalloc((2 * planner->gpu_count + 1) * sizeof(*flows));
	size_t count = 0, gpus = 0;

	for (size_t i = 0; flows && i < planner->gpu_count; i++) {
		size_t own = nic < pairing->nic_count ? nic : pairing->nic_of[i];

		if (own == pairing->nic_count || !pairing->near[i * pairing->nic_count + own])
			continue;
		gpus++;
		for (unsigned out = 0; out < 2; out++)
			if (directions >> out & 1)
				flows[count++] = of_gpu(planner->topology, planner->gpus[i], pairing->nics[own], out);
	}
	/* One GPU in one direction is a single flow. */
	return measure_plan_add(planner, flows, gpus > 1 || directions == 3 ? count : 0, directions == 3 ? 2 : 1, what);
}

static int plan_gpus(const struct pairing *pairing)
{
	static const char *const words[] = { "", "to GPUs", "from GPUs", "from and to GPUs" };
	const struct topology_vertex *vertices = pairing->planner->topology->vertices;
	int r = plan_single_gpus(pairing);

	for (size_t i = 0; r == 0 && i <= pairing->nic_count; i++)
		for (unsigned directions = 1; r == 0 && directions <= 3; directions++) {
			char what[2 * TOPOLOGY_NAME_BYTES];

			snprintf(what, sizeof(what), "%s: %s",
				 i < pairing->nic_count ? vertices[pairing->nics[i]].name : "all NICs",
				 words[directions]);
			r = plan_gpus_at_once(pairing, i, directions, what);
		}
	return r;
}

static int plan_memory_of_gpus(struct measure_planner *planner, const uint32_t *nics, size_t count)
{
	struct pairing pairing = { .planner = planner, .nics = nics, .nic_count = count };
	size_t *users;
	void *arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(users, count),
							       SYS_ARRAY(pairing.can, planner->gpu_count * count),
							       SYS_ARRAY(pairing.near, planner->gpu_count * count),
							       SYS_ARRAY(pairing.nic_of, planner->gpu_count) },
					 4);
	int r;

	if (!arrays)
		return -ENOMEM;
	for (size_t i = 0; i < planner->gpu_count; i++)
		find_near(&pairing, i, users);
	r = plan_gpus(&pairing);
	sys_free(arrays);
	return r;
}

/* ------------------------------------------------------------------------------------------------------------ whole */

int measure_plan_nics(struct measure_planner *planner)
{
	size_t nic_count = 0, count = 0;
	uint32_t *nics = NULL;
	int r = topology_list(planner->topology, TOPOLOGY_NIC, &nics, &nic_count);

	for (size_t i = 0; r == 0 && i < nic_count; i++) {
		struct probe_flow loop = between_nics(nics[i], nics[i]);

		if (planner->probe->ops->can(planner->probe, &loop))
			nics[count++] = nics[i];
	}
	if (r == 0)
		r = plan_pairs_of_nics(planner, nics, count);
	if (r == 0 && count)
		r = plan_memory_of_gpus(planner, nics, count);
	free(nics);
	return r;
}
