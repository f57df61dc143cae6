/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclxml/topology_xml.h"

#include "base/log.h"
#include "base/sys.h"
#include "ncclmodel/limits.h"
#include "ncclxml/link_value.h"
#include "ncclxml/sockets.h"
#include "ncclxml/writer.h"
#include "tributary/plan.h"

#include <string.h>

struct split_check {
	const struct topology *topology;
	const struct topology_xml_shape *shape;
	const struct plan_request *request;
	const uint64_t *speeds_Bps;
	struct ncclxml_sockets *sockets;
	struct ncclxml_tree tree;
};

/* NCCL's constant for each link of its kind of GPU. */
static uint64_t nvlink_Bps(const struct topology *topology, const struct topology_link *link)
{
	const struct topology_vertex *lower = &topology->vertices[link->lower],
				     *upper = &topology->vertices[link->upper];
	int sm = lower->kind == TOPOLOGY_GPU ? lower->gpu.sm : upper->gpu.sm;

	return sm > 0 ? ncclmodel_nvlink_Bps(sm) * (link->count ? link->count : 1) : ncclxml_link_rate(link, NULL);
}

/* As NCCL will compute it from the file; 0: not said there. */
static uint64_t value_of(const struct topology *topology, const struct ncclxml_sockets *sockets, uint32_t at)
{
	const struct topology_link *link = &topology->links[at];
	uint64_t least_Bps = 0;

	switch (link->kind) {
	case TOPOLOGY_LINK_PCI:
		return ncclxml_link_value_for(link).value_Bps;
	case TOPOLOGY_LINK_NVLINK:
		return nvlink_Bps(topology, link);
	case TOPOLOGY_LINK_SOCKET:
		if (!sockets->as_switches)
			return ncclmodel_socket_Bps(&topology->vertices[link->lower].cpu);
		for (size_t i = 0; i < sockets->cpu_count; i++)
			if (!least_Bps || sockets->rate_Bps[i] < least_Bps)
				least_Bps = sockets->rate_Bps[i];
		return least_Bps;
	default:
		return ncclxml_link_rate(link, NULL);
	}
}

static uint64_t route_Bps(const struct topology *topology, const struct ncclxml_sockets *sockets,
			  const struct topology_route *route)
{
	uint64_t least_Bps = UINT64_MAX;

	for (size_t i = 0; i < route->count; i++) {
		const struct topology_link *link = &topology->links[route->links[i] / 2];
		uint64_t value_Bps;

		if (link->kind == TOPOLOGY_LINK_MEMORY)
			continue; /* NCCL knows none */
		value_Bps = value_of(topology, sockets, route->links[i] / 2);
		if (!value_Bps && link->kind == TOPOLOGY_LINK_INTERNAL)
			continue;
		least_Bps = value_Bps < least_Bps ? value_Bps : least_Bps;
	}
	return least_Bps;
}

/* 0 if any part of the way is not known, so that nothing is taken for faster than it is. */
static uint64_t between_Bps(const struct topology *topology, const struct ncclxml_sockets *sockets,
			    const struct plan_request *request, uint32_t a, uint32_t b)
{
	struct topology_flow flow = {
		.from = a, .to = b, .way = plan_way(topology, request, a, b), .via = TOPOLOGY_NONE
	};
	struct topology_route route;

	if (flow.way == TOPOLOGY_WAY_NONE || topology_route(topology, &flow, &route) < 0)
		return 0;
	return route_Bps(topology, sockets, &route);
}

/* A host bridge that is written as a PCI switch brings what is below it within NCCL's PXB. */
static bool is_near(const struct split_check *check, const struct topology_route *route)
{
	const struct topology *topology = check->tree.topology;

	if (route->path_class <= TOPOLOGY_CLASS_PXB)
		return true;
	for (size_t i = 0; i < route->count; i++) {
		const struct topology_link *link = &topology->links[route->links[i] / 2];

		if (link->kind != TOPOLOGY_LINK_PCI || topology->vertices[link->upper].kind == TOPOLOGY_CPU)
			return false;
		if (topology->vertices[link->upper].kind == TOPOLOGY_BRIDGE &&
		    !(check->shape->bridges &&
		      ncclxml_bridge_allows(&check->tree, link->upper, check->shape->p2p_farthest)))
			return false;
	}
	return true;
}

static bool same_card(const struct topology_vertex *a, const struct topology_vertex *b)
{
	size_t bytes = strcspn(a->bus_id, ".");

	return bytes && bytes == strcspn(b->bus_id, ".") && !strncmp(a->bus_id, b->bus_id, bytes);
}

/* What the file says of the wire, else what the network does. UINT64_MAX: nobody knows. */
static uint64_t wire_Bps(const struct split_check *check, size_t nic)
{
	uint64_t rate_Bps = ncclxml_wire_rate(check->topology, check->request->nics[nic]);

	rate_Bps = rate_Bps ? rate_Bps : check->speeds_Bps[nic];
	return rate_Bps ? rate_Bps : UINT64_MAX;
}

/* NCCL joins the ports of a card: they count together, and their slot as wide as they need it. */
static uint64_t card_Bps(const struct split_check *check, size_t nic, uint64_t slot_Bps)
{
	const struct topology_vertex *vertices = check->topology->vertices;
	const struct plan_request *request = check->request;
	uint64_t sum_Bps = 0;
	size_t ports = 0;

	for (size_t i = 0; i < request->nic_count; i++) {
		uint64_t rate_Bps;

		if (i != nic && !same_card(&vertices[request->nics[nic]], &vertices[request->nics[i]]))
			continue;
		rate_Bps = wire_Bps(check, i);
		sum_Bps = rate_Bps < UINT64_MAX - sum_Bps ? sum_Bps + rate_Bps : UINT64_MAX;
		ports++;
	}
	return ports > 1 || sum_Bps < slot_Bps ? sum_Bps : slot_Bps;
}

/* The fastest of the NICs that NCCL counts as near. */
static uint64_t near_Bps(const struct split_check *check, uint32_t gpu)
{
	const struct topology *topology = check->topology;
	uint64_t most_Bps = 0;

	for (size_t i = 0; i < check->request->nic_count; i++) {
		struct topology_flow flow = {
			.from = gpu, .to = check->request->nics[i], .way = TOPOLOGY_WAY_DIRECT, .via = TOPOLOGY_NONE
		};
		struct topology_route route;
		uint64_t slot_Bps, rate_Bps;

		if (topology_route(topology, &flow, &route) < 0 || !is_near(check, &route))
			continue;
		slot_Bps = route_Bps(topology, check->sockets, &route);
		rate_Bps = card_Bps(check, i, slot_Bps ? slot_Bps : UINT64_MAX);
		most_Bps = rate_Bps > most_Bps ? rate_Bps : most_Bps;
	}
	return most_Bps;
}

static bool any_pair_splits(const struct split_check *check, struct diag *diag)
{
	const struct topology *topology = check->topology;
	const struct plan_request *request = check->request;
	uint64_t near[PLAN_GPUS_MAX];

	for (size_t i = 0; i < request->gpu_count; i++)
		near[i] = near_Bps(check, request->gpus[i]);
	for (size_t a = 0; a < request->gpu_count; a++) {
		for (size_t b = 0; b < request->gpu_count; b++) {
			uint64_t way_Bps;

			if (a == b || !near[a] || !near[b])
				continue;
			way_Bps = between_Bps(topology, check->sockets, request, request->gpus[a], request->gpus[b]);
			if (near[a] <= way_Bps || near[b] <= way_Bps)
				continue;
			diag_set(diag, 0, 0, "NCCL takes the network between %s and %s, as it is faster",
				 topology->vertices[request->gpus[a]].name, topology->vertices[request->gpus[b]].name);
			return true;
		}
	}
	return false;
}

bool ncclxml_splits(const struct topology *topology, const struct topology_xml_shape *shape,
		    const struct plan_request *request, const uint64_t *speeds_Bps, struct diag *diag)
{
	struct split_check check = {
		.topology = topology, .shape = shape, .request = request, .speeds_Bps = speeds_Bps
	};
	bool splits = true;

	check.sockets = sys_zalloc(sizeof(*check.sockets));
	if (!check.sockets || ncclxml_tree_init(topology, &check.tree) < 0) {
		sys_free(check.sockets);
		diag_set(diag, 0, 0, "no memory");
		return true;
	}
	if (ncclxml_sockets_decide(topology, shape, check.sockets, diag) == 0)
		splits = any_pair_splits(&check, diag);
	ncclxml_tree_fini(&check.tree);
	sys_free(check.sockets);
	return splits;
}
