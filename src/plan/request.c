/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct gpu_key {
	uint32_t vertex;
	int index;
	size_t place; /* by name */
};

/* GPUs without a number come last. */
static int compare_gpus(const void *a, const void *b)
{
	const struct gpu_key *first = a, *second = b;
	unsigned first_index = (unsigned)first->index, second_index = (unsigned)second->index;

	if (first_index != second_index)
		return first_index < second_index ? -1 : 1;
	return (first->place > second->place) - (first->place < second->place);
}

static int list_gpus(const struct topology *topology, struct plan_request *request)
{
	struct gpu_key *keys = NULL;
	uint32_t *list;
	size_t count, kept = 0;
	int r = topology_list(topology, TOPOLOGY_GPU, &list, &count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		if (!topology_is_later_slice(topology, list[i]))
			list[kept++] = list[i];
	count = kept;
	r = count && count <= PLAN_GPUS_MAX ? 0 : -EINVAL;
	if (r == 0) {
		keys = malloc(count * sizeof(*keys));
		r = keys ? 0 : -ENOMEM;
	}
	if (r == 0) {
		for (size_t i = 0; i < count; i++)
			keys[i] = (struct gpu_key){ list[i], topology->vertices[list[i]].gpu.index, i };
		qsort(keys, count, sizeof(*keys), compare_gpus);
		for (size_t i = 0; i < count; i++)
			request->gpus[i] = keys[i].vertex;
		request->gpu_count = count;
	}
	free(keys);
	free(list);
	return r;
}

static int list_nics(const struct topology *topology, struct plan_request *request)
{
	uint32_t *list;
	size_t count;
	int r = topology_list(topology, TOPOLOGY_NIC, &list, &count);

	if (r < 0)
		return r;
	if (count <= PLAN_NICS_MAX) {
		memcpy(request->nics, list, count * sizeof(*list));
		request->nic_count = count;
	} else {
		r = -EINVAL;
	}
	free(list);
	return r;
}

/* nccl: graph/paths.cc, ncclTopoCheckP2p */
enum topology_class plan_p2p_default(const struct topology *topology, const uint32_t *gpus, size_t count)
{
	uint32_t cpu = count && count <= 2 ? topology_cpu_of(topology, gpus[0]) : TOPOLOGY_NONE;

	if (cpu != TOPOLOGY_NONE && !strcmp(topology->vertices[cpu].cpu.architecture, "x86_64") &&
	    !strcmp(topology->vertices[cpu].cpu.vendor, "AuthenticAMD"))
		return TOPOLOGY_CLASS_SYS;
	return TOPOLOGY_CLASS_PXB;
}

int plan_request_all(const struct topology *topology, struct plan_request *ret)
{
	struct plan_request request = { .hosts = 1 };
	int r = list_gpus(topology, &request);

	if (r == 0)
		r = list_nics(topology, &request);
	request.p2p_farthest = plan_p2p_default(topology, request.gpus, request.gpu_count);
	if (r == 0)
		*ret = request;
	return r;
}

static bool all_different(const uint32_t *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (list[i] == list[j])
				return false;
	return true;
}

static bool all_of_kind(const struct topology *topology, enum topology_kind kind, const uint32_t *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] >= topology->vertex_count || topology->vertices[list[i]].kind != kind)
			return false;
	return all_different(list, count);
}

int plan_request_check(const struct topology *topology, const struct plan_request *request)
{
	if (!request->gpu_count || request->gpu_count > PLAN_GPUS_MAX || request->nic_count > PLAN_NICS_MAX ||
	    request->channels_max > PLAN_CHANNELS_MAX || !request->hosts || (request->hosts > 1 && !request->nic_count))
		return -EINVAL;
	if (!all_of_kind(topology, TOPOLOGY_GPU, request->gpus, request->gpu_count) ||
	    !all_of_kind(topology, TOPOLOGY_NIC, request->nics, request->nic_count))
		return -EINVAL;
	return 0;
}

int plan_find_way(const struct topology *topology, const struct plan_request *request, uint32_t from, uint32_t to,
		  enum topology_way *ret)
{
	struct topology_flow flow = { from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
	struct topology_route route;
	int r = topology_route(topology, &flow, &route);

	if (r == 0 && route.path_class <= request->p2p_farthest) {
		*ret = TOPOLOGY_WAY_DIRECT;
		return 0;
	}
	if (r < 0 && r != -ENOENT)
		return r;
	/* Both must reach the receiver's CPU, where NCCL puts the buffer (nccl: NCCL_SHM_LOCALITY). */
	flow.to = topology_cpu_of(topology, to);
	r = flow.to == TOPOLOGY_NONE ? -ENOENT : topology_route(topology, &flow, &route);
	if (r == 0) {
		flow = (struct topology_flow){ flow.to, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
		r = topology_route(topology, &flow, &route);
	}
	if (r < 0 && r != -ENOENT)
		return r;
	*ret = r == 0 ? TOPOLOGY_WAY_HOST : TOPOLOGY_WAY_NONE;
	return 0;
}

enum topology_way plan_way(const struct topology *topology, const struct plan_request *request, uint32_t from,
			   uint32_t to)
{
	enum topology_way way;

	return plan_find_way(topology, request, from, to, &way) < 0 ? TOPOLOGY_WAY_NONE : way;
}
