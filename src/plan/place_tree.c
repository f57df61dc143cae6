/* SPDX-License-Identifier: Apache-2.0 */
/* Machines and clusters as slots below switches. */
#include "plan/place.h"

#include "tributary/cluster.h"
#include "tributary/topology.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

void plan_place_fini(struct plan_place_tree *tree)
{
	sys_free(tree->nodes);
	sys_free(tree->slots);
	*tree = (struct plan_place_tree){ .nodes = NULL };
}

static int tree_init(struct plan_place_tree *tree, size_t nodes, size_t slots)
{
	*tree = (struct plan_place_tree){ .nodes = sys_zalloc((nodes + 1) * sizeof(*tree->nodes)),
					  .slots = sys_zalloc((slots + 1) * sizeof(*tree->slots)) };
	if (tree->nodes && tree->slots)
		return 0;
	plan_place_fini(tree);
	return -ENOMEM;
}

static double slower(uint64_t a_Bps, uint64_t b_Bps)
{
	uint64_t least = a_Bps && (!b_Bps || a_Bps < b_Bps) ? a_Bps : b_Bps;

	return least ? (double)least : INFINITY;
}

/* A slot whose rate nobody knows is like the fastest of the others. */
static void fill_rates(struct plan_place_tree *tree)
{
	double most_Bps = 0;

	for (size_t i = 0; i < tree->slot_count; i++)
		if (!isinf(tree->slots[i].rate_Bps))
			most_Bps = fmax(most_Bps, tree->slots[i].rate_Bps);
	for (size_t i = 0; i < tree->slot_count; i++)
		if (isinf(tree->slots[i].rate_Bps))
			tree->slots[i].rate_Bps = most_Bps > 0 ? most_Bps : 1;
}

int plan_place_of_cluster(const struct cluster *cluster, struct plan_place_tree *ret)
{
	int r = cluster->host_count ? tree_init(ret, cluster->switch_count, cluster->host_count) : -ENOENT;

	if (r < 0)
		return r;
	for (size_t i = 0; i < cluster->switch_count; i++) {
		const struct cluster_switch *at = &cluster->switches[i];

		ret->nodes[i] = (struct plan_place_node){ .name = at->name,
							  .parent = at->parent == CLUSTER_NONE ? PLAN_PLACE_NONE
											       : (uint32_t)at->parent,
							  .capacity_Bps = slower(at->up_rate_Bps, at->down_rate_Bps) };
	}
	for (uint32_t i = 0; i < cluster->host_count; i++)
		ret->slots[i] = (struct plan_place_slot){ .name = cluster->hosts[i].name,
							  .node = (uint32_t)cluster->hosts[i].leaf,
							  .number = i,
							  .rate_Bps = slower(cluster->hosts[i].rate_Bps, 0) };
	ret->node_count = cluster->switch_count;
	ret->slot_count = cluster->host_count;
	fill_rates(ret);
	return 0;
}

/* ----------------------------------------------------------------------------------------------------------- machines */

static double link_rate(const struct topology *topology, uint32_t link)
{
	const struct topology_link *at = &topology->links[link];
	uint64_t up = at->capacity[TOPOLOGY_UP].rate_Bps, down = at->capacity[TOPOLOGY_DOWN].rate_Bps;

	return up || down ? slower(up, down) : slower(at->nominal_Bps, 0);
}

/* A socket's uplink is what joins it to the others: data between sockets takes it. */
static double socket_rate(const struct topology *topology, uint32_t cpu)
{
	double sum_Bps = 0;

	for (uint32_t i = 0; i < topology->link_count; i++)
		if (topology->links[i].kind == TOPOLOGY_LINK_SOCKET &&
		    (topology->links[i].lower == cpu || topology->links[i].upper == cpu))
			sum_Bps += link_rate(topology, i);
	return sum_Bps > 0 ? sum_Bps : INFINITY;
}

#define IN_THE_MAKING (PLAN_PLACE_NONE - 1)

/* The node of a vertex, made with all above it; of a memory's domain, not of the sockets' links. A circle is cut. */
static uint32_t node_of(const struct topology *topology, uint32_t vertex, uint32_t *nodes, struct plan_place_tree *tree)
{
	uint32_t link = topology_uplink(topology, vertex), parent = PLAN_PLACE_NONE;

	if (nodes[vertex] == IN_THE_MAKING)
		return PLAN_PLACE_NONE;
	if (nodes[vertex] != PLAN_PLACE_NONE)
		return nodes[vertex];
	nodes[vertex] = IN_THE_MAKING;
	if (link != TOPOLOGY_NONE)
		parent = node_of(topology, topology->links[link].upper, nodes, tree);
	nodes[vertex] = (uint32_t)tree->node_count;
	tree->nodes[tree->node_count++] = (struct plan_place_node){
		.name = topology->vertices[vertex].name,
		.parent = parent,
		.capacity_Bps = link != TOPOLOGY_NONE ? link_rate(topology, link) : socket_rate(topology, vertex)
	};
	return nodes[vertex];
}

static int by_number(const void *a, const void *b)
{
	const struct plan_place_slot *first = a, *second = b;

	return (first->number > second->number) - (first->number < second->number);
}

int plan_place_of_machine(const struct topology *topology, struct plan_place_tree *ret)
{
	uint32_t *nodes = sys_zalloc((topology->vertex_count + 1) * sizeof(*nodes)), *gpus = NULL;
	size_t count = 0;
	int r = nodes ? topology_list(topology, TOPOLOGY_GPU, &gpus, &count) : -ENOMEM;

	if (r == 0)
		r = count ? tree_init(ret, topology->vertex_count, count) : -ENOENT;
	for (size_t i = 0; nodes && i < topology->vertex_count; i++)
		nodes[i] = PLAN_PLACE_NONE;
	for (uint32_t i = 0; r == 0 && i < count; i++) {
		uint32_t link = topology_uplink(topology, gpus[i]);
		int index = topology->vertices[gpus[i]].gpu.index;

		ret->slots[ret->slot_count++] = (struct plan_place_slot){
			.name = topology->vertices[gpus[i]].name,
			.node = link == TOPOLOGY_NONE ? node_of(topology, gpus[i], nodes, ret)
						      : node_of(topology, topology->links[link].upper, nodes, ret),
			.number = index >= 0 ? (uint32_t)index : i,
			.rate_Bps = link == TOPOLOGY_NONE ? INFINITY : link_rate(topology, link)
		};
	}
	if (r == 0) {
		qsort(ret->slots, ret->slot_count, sizeof(*ret->slots), by_number);
		fill_rates(ret);
	}
	free(gpus);
	sys_free(nodes);
	return r;
}
