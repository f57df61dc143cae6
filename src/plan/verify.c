/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verifier. It walks a plan's hops on the graph itself and adds up what each constraint carries, and has nothing of the
 * planner: no rows, no columns, and its own view of which way data goes.
 */
#include "tributary/plan.h"

#include "base/log.h"
#include "base/minmax.h"
#include "base/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verifier {
	const struct topology *topology;
	const struct plan_request *request;
	const struct plan *plan;
	struct diag *diag;
	void *arrays;            /* the block of the next three */
	uint64_t *links;         /* crossings of each directed link */
	uint64_t *direct, *host; /* of each pair */
	uint64_t wire_in[PLAN_NICS_MAX], wire_out[PLAN_NICS_MAX];
};

static int verifier_init(struct verifier *verifier)
{
	const struct topology *topology = verifier->topology;

	verifier->arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(verifier->links, 2 * topology->link_count),
								   SYS_ARRAY(verifier->direct, topology->pair_count),
								   SYS_ARRAY(verifier->host, topology->pair_count) },
					     3);
	return verifier->arrays ? 0 : -ENOMEM;
}

static const char *name_of(const struct verifier *verifier, uint32_t vertex)
{
	return vertex < verifier->topology->vertex_count ? verifier->topology->vertices[vertex].name : "?";
}

/* ------------------------------------------------------------------------------------------------------------ shape */

static int check_vertices(const struct verifier *verifier, const uint32_t *list, size_t count, enum topology_kind kind)
{
	for (size_t i = 0; i < count; i++) {
		if (list[i] >= verifier->topology->vertex_count || verifier->topology->vertices[list[i]].kind != kind) {
			diag_set(verifier->diag, 0, 0, "the request's %s %zu is none", topology_kind_word(kind), i);
			return -EINVAL;
		}
	}
	return 0;
}

static int check_request(const struct verifier *verifier)
{
	const struct plan_request *request = verifier->request;
	const struct plan *plan = verifier->plan;

	if (!request->gpu_count || request->gpu_count > PLAN_GPUS_MAX || request->nic_count > PLAN_NICS_MAX ||
	    (request->hosts > 1 && !request->nic_count)) {
		diag_set(verifier->diag, 0, 0, "the request has %zu GPUs and %zu NICs", request->gpu_count,
			 request->nic_count);
		return -EINVAL;
	}
	if (check_vertices(verifier, request->gpus, request->gpu_count, TOPOLOGY_GPU) < 0 ||
	    check_vertices(verifier, request->nics, request->nic_count, TOPOLOGY_NIC) < 0)
		return -EINVAL;
	if ((unsigned)plan->pattern >= PLAN_PATTERN_COUNT || plan->gpu_count != request->gpu_count) {
		diag_set(verifier->diag, 0, 0, "a plan for %zu GPUs, asked for %zu", plan->gpu_count,
			 request->gpu_count);
		return -EINVAL;
	}
	if (!plan->channel_count || plan->channel_count > PLAN_CHANNELS_MAX ||
	    (request->channels_max && plan->channel_count > request->channels_max)) {
		diag_set(verifier->diag, 0, 0, "%zu channels", plan->channel_count);
		return -EINVAL;
	}
	return 0;
}

static int check_order(const struct verifier *verifier, size_t channel)
{
	const uint8_t *order = verifier->plan->channels[channel].order;
	uint32_t seen = 0;

	for (size_t i = 0; i < verifier->plan->gpu_count; i++) {
		if (order[i] >= verifier->plan->gpu_count) {
			diag_set(verifier->diag, 0, 0, "channel %zu: there is no GPU %u", channel, order[i]);
			return -EINVAL;
		}
		if (seen & ((uint32_t)1 << order[i])) {
			diag_set(verifier->diag, 0, 0, "channel %zu: %s is in it twice, and another GPU not at all",
				 channel, name_of(verifier, verifier->request->gpus[order[i]]));
			return -EINVAL;
		}
		seen |= (uint32_t)1 << order[i];
	}
	return 0;
}

static int check_nics(const struct verifier *verifier, size_t channel)
{
	const struct plan_channel *one = &verifier->plan->channels[channel];

	if (verifier->request->hosts <= 1) {
		if (!one->nic_in && !one->nic_out)
			return 0;
		diag_set(verifier->diag, 0, 0, "channel %zu: a NIC, with one host", channel);
		return -EINVAL;
	}
	if (one->nic_in >= verifier->request->nic_count || one->nic_out >= verifier->request->nic_count) {
		diag_set(verifier->diag, 0, 0, "channel %zu: there is no NIC %u", channel,
			 one->nic_in >= verifier->request->nic_count ? one->nic_in : one->nic_out);
		return -EINVAL;
	}
	if (one->nic_in != one->nic_out && (verifier->plan->pattern != PLAN_RING || !verifier->request->crossnic)) {
		diag_set(verifier->diag, 0, 0, "channel %zu: in by one NIC and out by another", channel);
		return -EINVAL;
	}
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ loads */

static int walk(struct verifier *verifier, size_t channel, const struct topology_flow *flow,
		enum topology_class *ret_class)
{
	struct topology_route route;
	int r = topology_route(verifier->topology, flow, &route);

	if (r < 0) {
		diag_set(verifier->diag, 0, 0, "channel %zu: no way from %s to %s", channel,
			 name_of(verifier, flow->from), name_of(verifier, flow->to));
		return r == -ENOMEM ? r : -EINVAL;
	}
	for (size_t i = 0; i < route.count; i++)
		verifier->links[route.links[i]]++;
	*ret_class = route.path_class;
	return 0;
}

/* By a buffer at a GPU's CPU: its memory, or the CPU itself where the graph has no memory for it. */
static int walk_by_host(struct verifier *verifier, size_t channel, uint32_t from, uint32_t to, uint32_t buffer_at)
{
	uint32_t memory = topology_memory_of(verifier->topology, buffer_at);
	uint32_t cpu = topology_cpu_of(verifier->topology, buffer_at);
	enum topology_class path_class;
	int r;

	if (memory != TOPOLOGY_NONE) {
		struct topology_flow flow = { from, to, TOPOLOGY_WAY_HOST, memory };

		return walk(verifier, channel, &flow, &path_class);
	}
	if (cpu == TOPOLOGY_NONE) {
		diag_set(verifier->diag, 0, 0, "channel %zu: no host memory between %s and %s", channel,
			 name_of(verifier, from), name_of(verifier, to));
		return -EINVAL;
	}
	r = walk(verifier, channel, &(struct topology_flow){ from, cpu, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE },
		 &path_class);
	if (r < 0)
		return r;
	return walk(verifier, channel, &(struct topology_flow){ cpu, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE },
		    &path_class);
}

static int walk_gpus(struct verifier *verifier, size_t channel, uint8_t from_place, uint8_t to_place)
{
	uint32_t from = verifier->request->gpus[from_place], to = verifier->request->gpus[to_place];
	uint32_t pair = topology_find_pair(verifier->topology, from, to);
	struct topology_flow flow = { from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
	struct topology_route route;

	/* P2P if the driver lets them and NCCL thinks it worth while. */
	if (topology_route(verifier->topology, &flow, &route) == 0 &&
	    route.path_class <= verifier->request->p2p_farthest) {
		enum topology_class path_class;

		if (pair != TOPOLOGY_NONE)
			verifier->direct[pair]++;
		return walk(verifier, channel, &flow, &path_class);
	}
	if (pair != TOPOLOGY_NONE)
		verifier->host[pair]++;
	return walk_by_host(verifier, channel, from, to, to);
}

/* Between a NIC and the GPU that it reads or writes, or whose CPU's memory it does. */
static int walk_to_nic(struct verifier *verifier, size_t channel, uint32_t nic, uint32_t gpu, bool out)
{
	const struct topology_vertex *vertices = verifier->topology->vertices;
	struct topology_flow flow = { out ? gpu : nic, out ? nic : gpu, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
	enum topology_class path_class;

	if (vertices[nic].nic.gdr && vertices[gpu].gpu.gdr &&
	    topology_class_of(verifier->topology, nic, gpu) <= TOPOLOGY_CLASS_PXB)
		return walk(verifier, channel, &flow, &path_class);
	return walk_by_host(verifier, channel, flow.from, flow.to, gpu);
}

/* NCCL's PXN: what is sent by a far NIC goes over NVLink to a GPU that is near it, and from there. */
static uint8_t sender_of(const struct verifier *verifier, uint8_t nic_place, uint8_t gpu_place)
{
	const struct plan_request *request = verifier->request;
	uint32_t nic = request->nics[nic_place], gpu = request->gpus[gpu_place];
	enum topology_class nearest = TOPOLOGY_CLASS_PXB;
	uint8_t sender = gpu_place;

	if (topology_class_of(verifier->topology, gpu, nic) <= TOPOLOGY_CLASS_PXB)
		return gpu_place;
	for (uint8_t i = 0; i < request->gpu_count; i++) {
		enum topology_class path_class = topology_class_of(verifier->topology, request->gpus[i], nic);

		if (i == gpu_place || path_class > nearest || (sender != gpu_place && path_class == nearest) ||
		    topology_class_of(verifier->topology, gpu, request->gpus[i]) != TOPOLOGY_CLASS_NVL ||
		    request->p2p_farthest < TOPOLOGY_CLASS_NVL)
			continue;
		nearest = path_class;
		sender = i;
	}
	return sender;
}

static int walk_nic(struct verifier *verifier, size_t channel, uint8_t nic_place, uint8_t gpu_place, bool out)
{
	uint32_t nic = verifier->request->nics[nic_place], wire = topology_wire_of(verifier->topology, nic);
	uint8_t near = out ? sender_of(verifier, nic_place, gpu_place) : gpu_place;

	if (wire != TOPOLOGY_NONE) {
		bool up = out == (verifier->topology->links[wire].lower == nic);

		verifier->links[topology_directed(wire, up ? TOPOLOGY_UP : TOPOLOGY_DOWN)]++;
	}
	if (out)
		verifier->wire_out[nic_place]++;
	else
		verifier->wire_in[nic_place]++;
	if (near != gpu_place) {
		int r = walk_gpus(verifier, channel, gpu_place, near);

		if (r < 0)
			return r;
	}
	return walk_to_nic(verifier, channel, nic, verifier->request->gpus[near], out);
}

/* A ring: from GPU to GPU and back to the first, or in by a NIC and out by one. */
static int walk_ring(struct verifier *verifier, size_t channel)
{
	const struct plan_channel *one = &verifier->plan->channels[channel];
	size_t last = verifier->plan->gpu_count - 1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < last; i++)
		r = walk_gpus(verifier, channel, one->order[i], one->order[i + 1]);
	if (r < 0)
		return r;
	if (verifier->request->hosts <= 1)
		return last ? walk_gpus(verifier, channel, one->order[last], one->order[0]) : 0;
	r = walk_nic(verifier, channel, one->nic_in, one->order[0], false);
	return r < 0 ? r : walk_nic(verifier, channel, one->nic_out, one->order[last], true);
}

/* A chain: up to the first GPU and down again, and as much over its NIC, or twice that in a tree of many hosts. */
static int walk_chain(struct verifier *verifier, size_t channel)
{
	const struct plan_channel *one = &verifier->plan->channels[channel];
	unsigned times = verifier->plan->pattern == PLAN_TREE && verifier->request->hosts > 2 ? 2 : 1;
	int r = 0;

	for (size_t i = 1; r == 0 && i < verifier->plan->gpu_count; i++) {
		r = walk_gpus(verifier, channel, one->order[i], one->order[i - 1]);
		if (r == 0)
			r = walk_gpus(verifier, channel, one->order[i - 1], one->order[i]);
	}
	for (unsigned i = 0; r == 0 && verifier->request->hosts > 1 && i < times; i++) {
		r = walk_nic(verifier, channel, one->nic_in, one->order[0], false);
		if (r == 0)
			r = walk_nic(verifier, channel, one->nic_in, one->order[0], true);
	}
	return r;
}

/* A head: each other GPU hands it its part and gets the sum back, and as much goes over its NIC. */
static int walk_direct(struct verifier *verifier, size_t channel)
{
	const struct plan_channel *one = &verifier->plan->channels[channel];
	uint8_t head = one->order[0];
	int r = 0;

	for (size_t i = 0; i < channel; i++) {
		if (verifier->plan->channels[i].order[0] != head)
			continue;
		diag_set(verifier->diag, 0, 0, "channel %zu: %s is the head of channel %zu too", channel,
			 name_of(verifier, verifier->request->gpus[head]), i);
		return -EINVAL;
	}
	for (size_t i = 1; r == 0 && i < verifier->plan->gpu_count; i++) {
		r = walk_gpus(verifier, channel, one->order[i], head);
		if (r == 0)
			r = walk_gpus(verifier, channel, head, one->order[i]);
	}
	if (r < 0 || verifier->request->hosts <= 1)
		return r;
	r = walk_nic(verifier, channel, one->nic_in, head, false);
	return r < 0 ? r : walk_nic(verifier, channel, one->nic_in, head, true);
}

static int walk_channel(struct verifier *verifier, size_t channel)
{
	switch (verifier->plan->pattern) {
	case PLAN_RING:
		return walk_ring(verifier, channel);
	case PLAN_DIRECT:
		return walk_direct(verifier, channel);
	default:
		return walk_chain(verifier, channel);
	}
}

static int walk_plan(struct verifier *verifier)
{
	int r = check_request(verifier);

	for (size_t i = 0; r == 0 && i < verifier->plan->channel_count; i++) {
		r = check_order(verifier, i);
		if (r == 0)
			r = check_nics(verifier, i);
		if (r == 0)
			r = walk_channel(verifier, i);
	}
	return r;
}

/* -------------------------------------------------------------------------------------------------- what is charged */

static uint64_t bytes_per_s(const struct topology_capacity *capacity)
{
	return capacity->provenance != TOPOLOGY_UNKNOWN ? capacity->rate_Bps : 0;
}

/* The link to the network knows better than the NIC's speed, if it knows. */
static bool knows_wire(const struct verifier *verifier, uint32_t nic, bool out)
{
	uint32_t wire = topology_wire_of(verifier->topology, nic);
	const struct topology_link *link = wire != TOPOLOGY_NONE ? &verifier->topology->links[wire] : NULL;

	return link && bytes_per_s(&link->capacity[out == (link->lower == nic) ? TOPOLOGY_UP : TOPOLOGY_DOWN]);
}

static void add_load(struct plan_load *loads, size_t *count, enum plan_load_kind kind, uint32_t index,
		     uint64_t crossings, uint64_t capacity_Bps)
{
	if (crossings)
		loads[(*count)++] = (struct plan_load){ kind, index, crossings, capacity_Bps };
}

static size_t list_loads(const struct verifier *verifier, struct plan_load *loads)
{
	const struct topology *topology = verifier->topology;
	size_t count = 0;

	for (uint32_t i = 0; i < 2 * topology->link_count; i++)
		add_load(loads, &count, PLAN_LOAD_LINK, i, verifier->links[i],
			 bytes_per_s(&topology->links[i / 2].capacity[i % 2]));
	for (uint32_t i = 0; i < topology->limit_count; i++) {
		uint64_t crossings = 0;

		for (size_t j = 0; j < topology->limits[i].member_count; j++)
			crossings += verifier->links[topology->limits[i].members[j]];
		add_load(loads, &count, PLAN_LOAD_LIMIT, i, crossings, bytes_per_s(&topology->limits[i].capacity));
	}
	for (uint32_t i = 0; i < topology->pair_count; i++) {
		add_load(loads, &count, PLAN_LOAD_P2P, i, verifier->direct[i], bytes_per_s(&topology->pairs[i].p2p));
		add_load(loads, &count, PLAN_LOAD_HOST, i, verifier->host[i], bytes_per_s(&topology->pairs[i].host));
	}
	for (size_t i = 0; i < verifier->request->nic_count; i++) {
		uint32_t nic = verifier->request->nics[i];

		for (int out = 0; out < 2; out++)
			if (!knows_wire(verifier, nic, out))
				add_load(loads, &count, out ? PLAN_LOAD_NIC_OUT : PLAN_LOAD_NIC_IN, nic,
					 out ? verifier->wire_out[i] : verifier->wire_in[i],
					 topology->vertices[nic].nic.speed_Bps);
	}
	return count;
}

/* The rate at which it is full. */
static uint64_t full_Bps(const struct plan_load *load)
{
	return load->capacity_Bps ? load->capacity_Bps / load->crossings : UINT64_MAX;
}

/* By capacity over crossings; what has no capacity last; else as they were listed. */
static int compare_loads(const void *a, const void *b)
{
	const struct plan_load *first = a, *second = b;

	if (full_Bps(first) != full_Bps(second))
		return full_Bps(first) < full_Bps(second) ? -1 : 1;
	if (first->kind != second->kind)
		return first->kind < second->kind ? -1 : 1;
	return (first->index > second->index) - (first->index < second->index);
}

int plan_verify_loads(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		      struct plan_load **ret, size_t *ret_count, struct diag *diag)
{
	struct verifier verifier = { .topology = topology, .request = request, .plan = plan, .diag = diag };
	size_t most = 2 * topology->link_count + topology->limit_count + 2 * topology->pair_count + 2 * PLAN_NICS_MAX;
	struct plan_load *loads = sys_zalloc((most + 1) * sizeof(*loads));
	int r = verifier_init(&verifier);

	if (r == 0 && !loads)
		r = -ENOMEM;
	if (r == 0)
		r = walk_plan(&verifier);
	if (r == 0) {
		*ret_count = list_loads(&verifier, loads);
		qsort(loads, *ret_count, sizeof(*loads), compare_loads);
		*ret = loads;
		loads = NULL;
	}
	sys_free(loads);
	sys_free(verifier.arrays);
	return r;
}

void plan_load_name(const struct topology *topology, const struct plan_load *load, char *text, size_t text_bytes)
{
	const struct topology_pair *pair;

	text[0] = '\0';
	switch (load->kind) {
	case PLAN_LOAD_LINK:
		(void)topology_directed_name(topology, load->index, text, text_bytes);
		break;
	case PLAN_LOAD_LIMIT:
		snprintf(text, text_bytes, "%s", topology->limits[load->index].name);
		break;
	case PLAN_LOAD_P2P:
	case PLAN_LOAD_HOST:
		pair = &topology->pairs[load->index];
		snprintf(text, text_bytes, "%s to %s %s", topology->vertices[pair->from].name,
			 topology->vertices[pair->to].name, load->kind == PLAN_LOAD_P2P ? "by P2P" : "by the host");
		break;
	default:
		snprintf(text, text_bytes, "%s %s", topology->vertices[load->index].name,
			 load->kind == PLAN_LOAD_NIC_IN ? "in" : "out");
	}
}

/* ------------------------------------------------------------------------------------------------------------ rates */

/* What is full first; no capacity: nothing is. */
static int verify_plan(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		       struct diag *diag, struct plan_load *ret)
{
	struct plan_load *loads = NULL;
	size_t count = 0;
	int r = plan_verify_loads(topology, request, plan, &loads, &count, diag);

	if (r < 0)
		return r;
	*ret = count ? loads[0] : (struct plan_load){ .capacity_Bps = 0 };
	sys_free(loads);
	return 0;
}

int plan_verify_rate(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		     uint64_t *ret_rate_Bps, struct diag *diag)
{
	struct plan_load fullest;
	int r = verify_plan(topology, request, plan, diag, &fullest);

	if (r == 0)
		*ret_rate_Bps = min_u64(full_Bps(&fullest), PLAN_UNBOUNDED_BPS);
	return r;
}

int plan_verify(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		struct diag *diag)
{
	struct plan_load fullest;
	int r = verify_plan(topology, request, plan, diag, &fullest);

	if (r < 0)
		return r;
	if (plan->rate_Bps > min_u64(full_Bps(&fullest), PLAN_UNBOUNDED_BPS - 1) + 1) {
		char name[2 * TOPOLOGY_NAME_BYTES + 16] = "it";

		if (fullest.capacity_Bps)
			plan_load_name(topology, &fullest, name, sizeof(name));
		diag_set(diag, 0, 0,
			 "%s is over its capacity: %" PRIu64 " channels cross it at %" PRIu64
			 " bytes/s each, it carries %" PRIu64,
			 name, fullest.crossings, plan->rate_Bps, fullest.capacity_Bps);
		return -EINVAL;
	}
	if (plan_total_Bps(plan) > plan->bound_Bps) {
		diag_set(diag, 0, 0, "a total of %" PRIu64 " bytes/s, its bound is %" PRIu64, plan_total_Bps(plan),
			 plan->bound_Bps);
		return -EINVAL;
	}
	return 0;
}
