/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclmodel/paths.h"

#include "ncclmodel/limits.h"
#include "tributary/predict.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double INTEL_P2P = 1.2; /* P2P by an Intel root complex takes that much of the PCIe links */
static const double ECHO = 0.125;    /* of what is not from a GPU; before sm 80, of the GPU's link the other way */

/* ------------------------------------------------------------------------------------------------------------ rooms */

/* NCCL's constant between CPUs, by the sending one. */
static uint64_t socket_Bps(const struct topology *topology, const struct topology_link *link, unsigned direction)
{
	uint32_t from = direction == TOPOLOGY_UP ? link->lower : link->upper;
	uint64_t constant_Bps = ncclmodel_socket_Bps(&topology->vertices[from].cpu);

	return constant_Bps ? constant_Bps : link->capacity[direction].rate_Bps;
}

static double capacity_of(const struct topology *topology, const struct topology_link *link, unsigned direction)
{
	uint64_t rate_Bps = link->nominal_Bps;

	if (link->kind == TOPOLOGY_LINK_INTERNAL || link->kind == TOPOLOGY_LINK_MEMORY)
		return INFINITY;
	if (link->kind == TOPOLOGY_LINK_SOCKET)
		rate_Bps = socket_Bps(topology, link, direction);
	else if (!rate_Bps && link->kind == TOPOLOGY_LINK_NETWORK &&
		 topology->vertices[link->lower].kind == TOPOLOGY_NIC)
		rate_Bps = topology->vertices[link->lower].nic.speed_Bps;
	else if (!rate_Bps && link->capacity[direction].provenance != TOPOLOGY_UNKNOWN)
		rate_Bps = link->capacity[direction].rate_Bps;
	return rate_Bps ? (double)rate_Bps / 1e9 : INFINITY;
}

static int make_residuals(struct ncclmodel_paths *paths)
{
	const struct topology *topology = paths->topology;

	paths->residual_GBps = calloc(2 * (topology->link_count + PLAN_NICS_MAX), sizeof(*paths->residual_GBps));
	if (!paths->residual_GBps)
		return -ENOMEM;
	for (size_t i = 0; i < 2 * topology->link_count; i++)
		paths->residual_GBps[i] = capacity_of(topology, &topology->links[i / 2], i % 2);
	for (size_t i = 0; i < 2 * paths->request->nic_count; i++) {
		uint64_t speed_Bps = topology->vertices[paths->request->nics[i / 2]].nic.speed_Bps;

		paths->residual_GBps[2 * topology->link_count + i] = speed_Bps ? (double)speed_Bps / 1e9 : INFINITY;
	}
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------- hops */

static int append(const struct ncclmodel_paths *paths, uint32_t from, uint32_t to, struct ncclmodel_hop *hop)
{
	struct topology_flow flow = { from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
	struct topology_route route;
	int r = topology_route(paths->topology, &flow, &route);

	if (r == -ENOMEM)
		return r;
	if (r < 0 || hop->count + route.count > NCCLMODEL_ROWS_MAX) {
		hop->path_class = TOPOLOGY_CLASS_DIS;
		return 0;
	}
	for (size_t i = 0; i < route.count; i++)
		hop->rows[hop->count++] = route.links[i];
	if (route.path_class > hop->path_class)
		hop->path_class = route.path_class;
	return 0;
}

static bool is_intel(const struct topology *topology, uint32_t cpu)
{
	return cpu != TOPOLOGY_NONE && !strcmp(topology->vertices[cpu].cpu.architecture, "x86_64") &&
	       !strcmp(topology->vertices[cpu].cpu.vendor, "GenuineIntel");
}

static bool is_pci(const struct topology *topology, uint32_t row)
{
	return row / 2 < topology->link_count && topology->links[row / 2].kind == TOPOLOGY_LINK_PCI;
}

static void finish_hop(const struct ncclmodel_paths *paths, uint32_t from, struct ncclmodel_hop *hop)
{
	const struct topology *topology = paths->topology;
	bool intel = hop->path_class == TOPOLOGY_CLASS_PHB && topology->vertices[from].kind == TOPOLOGY_GPU &&
		     is_intel(topology, topology_cpu_of(topology, from));

	hop->rate_GBps = INFINITY;
	for (size_t i = 0; i < hop->count; i++) {
		hop->rate_GBps = fmin(hop->rate_GBps, paths->residual_GBps[hop->rows[i]]);
		hop->parts[i] = intel && is_pci(topology, hop->rows[i]) ? INTEL_P2P : 1;
	}
}

/* NCCL's own ways end at CPUs, not at memories. */
static int by_cpu(const struct ncclmodel_paths *paths, uint32_t from, uint32_t to, uint32_t near,
		  struct ncclmodel_hop *hop)
{
	uint32_t cpu = topology_cpu_of(paths->topology, near);
	int r;

	hop->count = 0;
	hop->path_class = TOPOLOGY_CLASS_PHB;
	if (cpu == TOPOLOGY_NONE) {
		hop->path_class = TOPOLOGY_CLASS_DIS;
		return 0;
	}
	r = append(paths, from, cpu, hop);
	return r < 0 ? r : append(paths, cpu, to, hop);
}

static int make_between(struct ncclmodel_paths *paths, size_t a, size_t b)
{
	uint32_t from = paths->request->gpus[a], to = paths->request->gpus[b];
	enum topology_way way = plan_way(paths->topology, paths->request, from, to);
	struct ncclmodel_hop *hop = &paths->between[a][b];
	int r = 0;

	if (way == TOPOLOGY_WAY_DIRECT)
		r = append(paths, from, to, hop);
	else if (way == TOPOLOGY_WAY_HOST)
		r = by_cpu(paths, from, to, to, hop);
	else
		return -ENOENT;
	finish_hop(paths, from, hop);
	return r;
}

static void append_wire(const struct ncclmodel_paths *paths, size_t nic, bool out, struct ncclmodel_hop *hop)
{
	const struct topology *topology = paths->topology;
	uint32_t vertex = paths->request->nics[nic], wire = topology_wire_of(topology, vertex);
	bool up = wire != TOPOLOGY_NONE && out == (topology->links[wire].lower == vertex);

	if (hop->count == NCCLMODEL_ROWS_MAX)
		return;
	hop->rows[hop->count++] = wire == TOPOLOGY_NONE ? (uint32_t)(2 * (topology->link_count + nic) + out)
							: topology_directed(wire, up ? TOPOLOGY_UP : TOPOLOGY_DOWN);
}

static int make_to_nic(struct ncclmodel_paths *paths, size_t gpu, size_t nic, bool out)
{
	const struct topology *topology = paths->topology;
	uint32_t a = paths->request->gpus[gpu], b = paths->request->nics[nic];
	struct ncclmodel_hop *hop = out ? &paths->out[gpu][nic] : &paths->in[nic][gpu];
	bool direct = topology->vertices[a].gpu.gdr && topology->vertices[b].nic.gdr &&
		      topology_class_of(topology, a, b) <= TOPOLOGY_CLASS_PXB;
	int r = direct ? append(paths, out ? a : b, out ? b : a, hop) : by_cpu(paths, out ? a : b, out ? b : a, a, hop);
	size_t last = hop->count - 1; /* the GPU's own link, of what comes in */

	append_wire(paths, nic, out, hop);
	finish_hop(paths, out ? a : b, hop);
	if (!out && last < hop->count && is_pci(topology, hop->rows[last]) && topology->vertices[a].gpu.sm < 80 &&
	    hop->count < NCCLMODEL_ROWS_MAX) {
		hop->parts[hop->count] = ECHO;
		hop->rows[hop->count++] = hop->rows[last] ^ 1;
	}
	return r;
}

/* What is sent by a far NIC may go over NVLink to a GPU that is near it (PXN). */
static void shorten_by_nvlink(struct ncclmodel_paths *paths, size_t gpu, size_t nic)
{
	struct ncclmodel_hop *hop = &paths->out[gpu][nic];

	if (hop->path_class <= TOPOLOGY_CLASS_PXB)
		return;
	for (size_t i = 0; i < paths->request->gpu_count; i++) {
		const struct ncclmodel_hop *first = &paths->between[gpu][i], *second = &paths->out[i][nic];

		if (i == gpu || first->path_class != TOPOLOGY_CLASS_NVL || second->path_class > TOPOLOGY_CLASS_PXB ||
		    first->count + second->count > NCCLMODEL_ROWS_MAX)
			continue;
		*hop = *first;
		memcpy(hop->rows + first->count, second->rows, second->count * sizeof(second->rows[0]));
		hop->count += second->count;
		hop->path_class = TOPOLOGY_CLASS_PXN;
		finish_hop(paths, paths->request->gpus[gpu], hop);
		return;
	}
}

/* -------------------------------------------------------------------------------------------------------- the order */

/* Faster ways first, then shorter ones, then who comes next in order, round and round. */
static bool before(const struct ncclmodel_paths *paths, size_t gpu, size_t a, size_t b)
{
	const struct ncclmodel_hop *first = &paths->between[gpu][a], *second = &paths->between[gpu][b];
	size_t count = paths->request->gpu_count;

	if (floor(first->rate_GBps) != floor(second->rate_GBps))
		return floor(first->rate_GBps) > floor(second->rate_GBps);
	if (first->count != second->count)
		return first->count < second->count;
	return (a + count - gpu) % count < (b + count - gpu) % count;
}

static void order_next(struct ncclmodel_paths *paths, size_t gpu)
{
	size_t gpus = paths->request->gpu_count, count = 0;

	if (paths->next_count < gpus - 1) {
		paths->next[gpu][0] = (uint8_t)((gpu + 1) % gpus);
		paths->next[gpu][1] = (uint8_t)((gpu + gpus - 1) % gpus);
		return;
	}
	for (size_t i = 0; i < gpus; i++) {
		size_t at = count;

		if (i == gpu)
			continue;
		for (; at && before(paths, gpu, i, paths->next[gpu][at - 1]); at--)
			paths->next[gpu][at] = paths->next[gpu][at - 1];
		paths->next[gpu][at] = (uint8_t)i;
		count++;
	}
}

/* ------------------------------------------------------------------------------------------------------------ whole */

static int make_hops(struct ncclmodel_paths *paths)
{
	const struct plan_request *request = paths->request;
	int r = 0;

	for (size_t i = 0; i < request->gpu_count; i++) {
		for (size_t j = 0; j < request->gpu_count && r == 0; j++)
			if (i != j)
				r = make_between(paths, i, j);
		for (size_t j = 0; j < request->nic_count && request->hosts > 1 && r == 0; j++) {
			r = make_to_nic(paths, i, j, true);
			if (r == 0)
				r = make_to_nic(paths, i, j, false);
		}
	}
	for (size_t i = 0; i < request->gpu_count && r == 0 && request->hosts > 1; i++)
		for (size_t j = 0; j < request->nic_count; j++)
			shorten_by_nvlink(paths, i, j);
	paths->next_count = request->gpu_count - 1;
	if (topology_count(paths->topology, TOPOLOGY_NVSWITCH) && paths->next_count > 2)
		paths->next_count = 2;
	for (size_t i = 0; i < request->gpu_count && r == 0; i++)
		order_next(paths, i);
	return r;
}

/* Slots at most, or all NVLinks together. */
static double gpus_own_GBps(const struct ncclmodel_paths *paths, uint32_t gpu)
{
	double nvlink = 0, pci = 0;

	for (size_t i = 0; i < paths->topology->link_count; i++) {
		const struct topology_link *link = &paths->topology->links[i];

		if (link->lower != gpu && link->upper != gpu)
			continue;
		if (link->kind == TOPOLOGY_LINK_NVLINK)
			nvlink += paths->residual_GBps[2 * i];
		else if (link->kind == TOPOLOGY_LINK_PCI)
			pci = paths->residual_GBps[2 * i];
	}
	return fmax(nvlink, pci);
}

static void sum_up(struct ncclmodel_paths *paths)
{
	const struct plan_request *request = paths->request;
	struct predict_communicator machine;

	predict_of_machine(paths->topology, request, &machine);
	paths->sm = machine.sm;
	paths->amd = machine.cpu == PREDICT_CPU_AMD;
	paths->farthest = request->hosts > 1 ? TOPOLOGY_CLASS_LOC : TOPOLOGY_CLASS_SYS;
	for (size_t i = 0; i < request->gpu_count; i++) {
		paths->gpu_GBps = fmax(paths->gpu_GBps, gpus_own_GBps(paths, request->gpus[i]));
		for (size_t j = 0; j < request->gpu_count && request->hosts <= 1; j++)
			if (i != j)
				paths->most_GBps = fmax(paths->most_GBps, paths->between[i][j].rate_GBps);
		for (size_t j = 0; j < request->nic_count && request->hosts > 1; j++) {
			paths->most_GBps = fmax(paths->most_GBps, paths->out[i][j].rate_GBps);
			if (paths->out[i][j].path_class > paths->farthest)
				paths->farthest = paths->out[i][j].path_class;
		}
	}
}

int ncclmodel_paths_init(const struct topology *topology, const struct plan_request *request,
			 struct ncclmodel_paths *ret)
{
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->topology = topology;
	ret->request = request;
	r = make_residuals(ret);
	if (r == 0)
		r = make_hops(ret);
	if (r == 0)
		sum_up(ret);
	else
		ncclmodel_paths_fini(ret);
	return r;
}

void ncclmodel_paths_fini(struct ncclmodel_paths *paths)
{
	free(paths->residual_GBps);
	paths->residual_GBps = NULL;
}
