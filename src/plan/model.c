/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the graph to hops and rows. Buffers in host memory lie where NCCL puts them: between two GPUs at the receiver
 * (NCCL_SHM_LOCALITY=2, its default), between a NIC and a GPU at the GPU's proxy thread, which is bound to the GPU's
 * CPU. Where the graph has no memory for that CPU, data turns round in the CPU itself.
 */
#include "plan/model.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

struct builder {
	const struct topology *topology;
	const struct plan_request *request;
	struct plan_model *model;
	void *arrays;     /* the block of first, limits, row_of */
	size_t *first;    /* of each directed link in `limits`, and one more at the end */
	uint32_t *limits; /* that the link is a member of */
	enum topology_class nic_class[PLAN_NICS_MAX][PLAN_GPUS_MAX];
	/* Numbered by when they are first met; later sorted. */
	uint32_t *row_of;      /* of each constraint, and 1 */
	uint16_t *dense;       /* rows × hops */
	size_t *support_first; /* of each row in `supports` */
	uint16_t *supports;    /* hops */
	uint64_t *capacity_Bps;
	size_t rows;
};

static void builder_fini(struct builder *builder)
{
	sys_free(builder->arrays);
	sys_free(builder->dense);
	sys_free(builder->support_first);
	sys_free(builder->supports);
	sys_free(builder->capacity_Bps);
}

/* Constraints are numbered: directed links, limits, two for each pair (P2P, host), two for each NIC (in, out). */
static size_t pairs_at(const struct topology *topology)
{
	return 2 * topology->link_count + topology->limit_count;
}

static size_t wires_at(const struct topology *topology)
{
	return pairs_at(topology) + 2 * topology->pair_count;
}

static uint64_t known_Bps(const struct topology_capacity *capacity)
{
	return capacity->provenance == TOPOLOGY_UNKNOWN ? 0 : capacity->rate_Bps;
}

/* 0: not known, bounds nothing. */
static uint64_t constraint_Bps(const struct builder *builder, uint32_t constraint)
{
	const struct topology *topology = builder->topology;
	size_t links = 2 * topology->link_count, pairs = pairs_at(topology), wires = wires_at(topology);

	if (constraint < links)
		return known_Bps(&topology->links[constraint / 2].capacity[constraint % 2]);
	if (constraint < pairs)
		return known_Bps(&topology->limits[constraint - links].capacity);
	if (constraint < wires) {
		const struct topology_pair *pair = &topology->pairs[(constraint - pairs) / 2];

		return known_Bps((constraint - pairs) % 2 ? &pair->host : &pair->p2p);
	}
	return topology->vertices[builder->request->nics[(constraint - wires) / 2]].nic.speed_Bps;
}

static int list_limits(struct builder *builder)
{
	const struct topology *topology = builder->topology;
	size_t directed = 2 * topology->link_count, total = 0;

	for (size_t i = 0; i < topology->limit_count; i++)
		total += topology->limits[i].member_count;
	builder->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(builder->first, directed + 2), SYS_ARRAY(builder->limits, total),
				      SYS_ARRAY(builder->row_of, wires_at(topology) + 2 * PLAN_NICS_MAX) },
		3);
	if (!builder->arrays)
		return -ENOMEM;
	/* Counted two places further on, so that filling moves each start to where it belongs. */
	for (size_t i = 0; i < topology->limit_count; i++)
		for (size_t j = 0; j < topology->limits[i].member_count; j++)
			builder->first[topology->limits[i].members[j] + 2]++;
	for (size_t i = 2; i < directed + 2; i++)
		builder->first[i] += builder->first[i - 1];
	for (size_t i = 0; i < topology->limit_count; i++)
		for (size_t j = 0; j < topology->limits[i].member_count; j++)
			builder->limits[builder->first[topology->limits[i].members[j] + 1]++] = (uint32_t)i;
	return 0;
}

/* A hop crosses a constraint once more. */
static int charge(struct builder *builder, size_t hop, size_t constraint)
{
	size_t hops = builder->model->hops;
	uint64_t rate_Bps = constraint_Bps(builder, (uint32_t)constraint);
	int r = 0;

	if (!rate_Bps)
		return 0;
	if (!builder->row_of[constraint]) {
		r = sys_grow(&builder->capacity_Bps, builder->rows, 1, sizeof(*builder->capacity_Bps));
		if (r == 0)
			r = sys_grow(&builder->dense, builder->rows, 1, hops * sizeof(*builder->dense));
		if (r < 0)
			return r;
		builder->capacity_Bps[builder->rows] = rate_Bps;
		builder->row_of[constraint] = (uint32_t)++builder->rows;
	}
	builder->dense[(builder->row_of[constraint] - 1) * hops + hop]++;
	return 0;
}

static int charge_link(struct builder *builder, size_t hop, uint32_t directed)
{
	int r = charge(builder, hop, directed);

	for (size_t i = builder->first[directed]; r == 0 && i < builder->first[directed + 1]; i++)
		r = charge(builder, hop, 2 * builder->topology->link_count + builder->limits[i]);
	return r;
}

static bool is_crossing(const struct topology *topology, uint32_t directed)
{
	const struct topology_link *link = &topology->links[directed / 2];
	enum topology_kind lower = topology->vertices[link->lower].kind;

	/* The way up out of a switch or a bridge, and between sockets: not the links of the devices themselves. */
	return link->kind == TOPOLOGY_LINK_SOCKET ||
	       ((link->kind == TOPOLOGY_LINK_PCI || link->kind == TOPOLOGY_LINK_INTERNAL) &&
		(lower == TOPOLOGY_SWITCH || lower == TOPOLOGY_BRIDGE));
}

static int charge_route(struct builder *builder, size_t hop, const struct topology_route *route)
{
	struct plan_model *model = builder->model;

	for (size_t i = 0; i < route->count; i++) {
		int r = charge_link(builder, hop, route->links[i]);

		if (r < 0)
			return r;
		model->detour[hop] += 1;
		if (is_crossing(builder->topology, route->links[i]))
			model->detour[hop] += PLAN_DETOUR_SWITCH;
	}
	if (route->path_class > model->path_class[hop])
		model->path_class[hop] = route->path_class;
	return 0;
}

static int charge_direct(struct builder *builder, size_t hop, uint32_t from, uint32_t to)
{
	struct topology_flow flow = { from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
	struct topology_route route;
	int r = topology_route(builder->topology, &flow, &route);

	return r < 0 ? r : charge_route(builder, hop, &route);
}

/* Into host memory at the CPU of `at`, and out of it. */
static int charge_host(struct builder *builder, size_t hop, uint32_t from, uint32_t to, uint32_t at)
{
	uint32_t cpu = topology_cpu_of(builder->topology, at);
	uint32_t middle = topology_memory_of(builder->topology, at);
	int r;

	if (middle == TOPOLOGY_NONE)
		middle = cpu;
	if (middle == TOPOLOGY_NONE)
		return -ENOENT;
	r = charge_direct(builder, hop, from, middle);
	return r < 0 ? r : charge_direct(builder, hop, middle, to);
}

static int charge_gpus(struct builder *builder, size_t hop, uint32_t from, uint32_t to)
{
	const struct topology *topology = builder->topology;
	uint32_t pair = topology_find_pair(topology, from, to);
	enum topology_way way;
	int r = plan_find_way(topology, builder->request, from, to, &way);

	if (r < 0)
		return r;
	switch (way) {
	case TOPOLOGY_WAY_DIRECT:
		r = charge_direct(builder, hop, from, to);
		break;
	case TOPOLOGY_WAY_HOST:
		r = charge_host(builder, hop, from, to, to);
		break;
	default:
		return -ENOENT;
	}
	if (r == 0 && pair != TOPOLOGY_NONE)
		r = charge(builder, hop, pairs_at(topology) + 2 * pair + (way == TOPOLOGY_WAY_HOST));
	return r;
}

/* NCCL's own rules for GPUDirect RDMA: both can, and they are near (nccl: NCCL_NET_GDR_LEVEL, default PXB). */
static bool has_gdr(const struct topology *topology, uint32_t nic, uint32_t gpu, const struct topology_route *route)
{
	return topology->vertices[nic].nic.gdr && topology->vertices[gpu].gpu.gdr &&
	       route->path_class <= TOPOLOGY_CLASS_PXB;
}

/* The wire: its link, or what the NIC says of itself where the link's rate is not known. */
static int charge_wire(struct builder *builder, size_t hop, size_t nic, bool out)
{
	const struct topology *topology = builder->topology;
	uint32_t vertex = builder->request->nics[nic], wire = topology_wire_of(topology, vertex);

	if (wire != TOPOLOGY_NONE) {
		const struct topology_link *link = &topology->links[wire];
		enum topology_direction direction = (link->lower == vertex) == out ? TOPOLOGY_UP : TOPOLOGY_DOWN;
		int r = charge_link(builder, hop, topology_directed(wire, direction));

		if (r < 0 || known_Bps(&link->capacity[direction]))
			return r;
	}
	return charge(builder, hop, wires_at(topology) + 2 * nic + out);
}

/* By GPUDirect RDMA where that is possible, else by a memory near the GPU. */
static int charge_nic(struct builder *builder, size_t hop, size_t nic, uint32_t gpu, bool out)
{
	uint32_t vertex = builder->request->nics[nic];
	uint32_t from = out ? gpu : vertex, to = out ? vertex : gpu;
	struct topology_flow flow = { from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
	struct topology_route route = { .path_class = TOPOLOGY_CLASS_DIS };
	int r = topology_route(builder->topology, &flow, &route);

	if (r < 0)
		return r;
	if (has_gdr(builder->topology, vertex, gpu, &route))
		return charge_route(builder, hop, &route);
	return charge_host(builder, hop, from, to, gpu);
}

/*
 * NCCL sends to a NIC that is not behind the GPU's own switches from a GPU that is, if there is one that NVLink leads to
 * (PXN); it does not receive that way. Place in the request; gpu itself: none.
 */
static size_t sending_gpu(const struct builder *builder, size_t nic, size_t gpu)
{
	const struct plan_model *model = builder->model;
	const enum topology_class *classes = builder->nic_class[nic];
	size_t best = gpu;

	if (classes[gpu] <= TOPOLOGY_CLASS_PXB)
		return gpu;
	for (size_t i = 0; i < model->gpus; i++)
		if (i != gpu && model->path_class[plan_hop(model, gpu, i)] == TOPOLOGY_CLASS_NVL &&
		    classes[i] <= TOPOLOGY_CLASS_PXB && (best == gpu || classes[i] < classes[best]))
			best = i;
	return best;
}

static int charge_send(struct builder *builder, size_t hop, size_t nic, size_t gpu)
{
	const uint32_t *gpus = builder->request->gpus;
	size_t sender = sending_gpu(builder, nic, gpu);
	int r = charge_wire(builder, hop, nic, true);

	if (r == 0 && sender != gpu) {
		r = charge_gpus(builder, hop, gpus[gpu], gpus[sender]);
		if (builder->model->path_class[hop] < TOPOLOGY_CLASS_PXN)
			builder->model->path_class[hop] = TOPOLOGY_CLASS_PXN;
	}
	return r < 0 ? r : charge_nic(builder, hop, nic, gpus[sender], true);
}

static int charge_receive(struct builder *builder, size_t hop, size_t nic, size_t gpu)
{
	int r = charge_wire(builder, hop, nic, false);

	return r < 0 ? r : charge_nic(builder, hop, nic, builder->request->gpus[gpu], false);
}

static int find_nic_classes(struct builder *builder)
{
	const struct plan_model *model = builder->model;

	for (size_t nic = 0; nic < model->nics; nic++) {
		for (size_t gpu = 0; gpu < model->gpus; gpu++) {
			struct topology_flow flow = { builder->request->gpus[gpu], builder->request->nics[nic],
						      TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
			struct topology_route route;
			int r = topology_route(builder->topology, &flow, &route);

			if (r < 0)
				return r;
			builder->nic_class[nic][gpu] = route.path_class;
		}
	}
	return 0;
}

/*
 * A tree's NIC: an edge to another host carries the rate each way. Two hosts have one edge; of more hosts some have three
 * in one of the two trees that share the rate and one in the other, which is two each on average. A chain's first GPU
 * sends and receives once.
 */
static unsigned edges_of(const struct plan_request *request, enum plan_pattern pattern)
{
	return pattern == PLAN_TREE && request->hosts > 2 ? 2 : 1;
}

static int charge_network(struct builder *builder, enum plan_pattern pattern)
{
	struct plan_model *model = builder->model;
	unsigned edges = edges_of(builder->request, pattern);
	int r = find_nic_classes(builder);

	for (size_t nic = 0; nic < model->nics; nic++) {
		for (size_t gpu = 0; gpu < model->gpus; gpu++) {
			size_t in = plan_hop_in(model, nic, gpu), out = plan_hop_out(model, nic, gpu);

			for (unsigned i = 0; r == 0 && i < edges; i++) {
				r = charge_receive(builder, in, nic, gpu);
				if (r == 0)
					r = charge_send(builder, model->mirrored ? in : out, nic, gpu);
			}
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int charge_all(struct builder *builder, enum plan_pattern pattern)
{
	struct plan_model *model = builder->model;
	const uint32_t *gpus = builder->request->gpus;
	int r = 0;

	for (size_t a = 0; a < model->gpus; a++) {
		for (size_t b = 0; r == 0 && b < model->gpus; b++) {
			if (a == b)
				continue;
			r = charge_gpus(builder, plan_hop(model, a, b), gpus[a], gpus[b]);
			if (r == 0 && model->mirrored)
				r = charge_gpus(builder, plan_hop(model, a, b), gpus[b], gpus[a]);
		}
		if (r < 0)
			return r;
	}
	return model->network ? charge_network(builder, pattern) : 0;
}

/* ------------------------------------------------------------------------------------------------------------- rows */

/* By what a row says and not by where it stands in the graph, so that the order of the graph changes nothing. */
static int compare_rows(const struct builder *builder, size_t a, size_t b)
{
	size_t hops = builder->model->hops;

	if (builder->capacity_Bps[a] != builder->capacity_Bps[b])
		return builder->capacity_Bps[a] < builder->capacity_Bps[b] ? -1 : 1;
	for (size_t i = 0; i < hops; i++) {
		unsigned first = builder->dense[a * hops + i], second = builder->dense[b * hops + i];

		if (first != second)
			return first > second ? -1 : 1;
	}
	return 0;
}

/* The hops that cross each row: covers() looks at nothing else. */
static int list_supports(struct builder *builder)
{
	size_t hops = builder->model->hops, count = 0;

	for (size_t i = 0; i < builder->rows * hops; i++)
		count += builder->dense[i] > 0;
	builder->support_first = sys_zalloc((builder->rows + 1) * sizeof(*builder->support_first));
	builder->supports = sys_zalloc((count + 1) * sizeof(*builder->supports));
	if (!builder->support_first || !builder->supports)
		return -ENOMEM;
	count = 0;
	for (size_t row = 0; row < builder->rows; row++) {
		for (size_t hop = 0; hop < hops; hop++)
			if (builder->dense[row * hops + hop])
				builder->supports[count++] = (uint16_t)hop;
		builder->support_first[row + 1] = count;
	}
	return 0;
}

/* Whether row b can never be full before row a is. */
static bool covers(const struct builder *builder, size_t a, size_t b)
{
	size_t hops = builder->model->hops, end = builder->support_first[b + 1];
	const uint16_t *first = &builder->dense[a * hops], *second = &builder->dense[b * hops];

	for (size_t i = builder->support_first[b]; i < end; i++) {
		size_t hop = builder->supports[i];

		if (!first[hop] || (unsigned __int128)second[hop] * builder->capacity_Bps[a] >
					   (unsigned __int128)first[hop] * builder->capacity_Bps[b])
			return false;
	}
	return true;
}

/* Rows that matter, in their order; *ret_count of them. Equal rows: one stays. */
static void choose_rows(const struct builder *builder, uint32_t *order, size_t *ret_count)
{
	size_t count = 0, kept = 0;

	for (uint32_t row = 0; row < builder->rows; row++) {
		size_t place = count++;

		for (; place && compare_rows(builder, row, order[place - 1]) < 0; place--)
			order[place] = order[place - 1];
		order[place] = row;
	}
	for (size_t i = 0; i < count; i++) {
		bool covered = false;

		for (size_t j = 0; j < kept && !covered; j++)
			covered = covers(builder, order[j], order[i]);
		for (size_t j = i + 1; j < count && !covered; j++)
			covered = covers(builder, order[j], order[i]) && !covers(builder, order[i], order[j]);
		if (!covered)
			order[kept++] = order[i];
	}
	*ret_count = kept;
}

static int store_rows(struct builder *builder, const uint32_t *order, size_t rows)
{
	struct plan_model *model = builder->model;
	size_t count = 0;

	for (size_t i = 0; i < rows; i++)
		for (size_t hop = 0; hop < model->hops; hop++)
			count += builder->dense[order[i] * model->hops + hop] > 0;
	model->capacity_Bps = sys_zalloc((rows + 1) * sizeof(*model->capacity_Bps));
	model->crossings = sys_zalloc((count + 1) * sizeof(*model->crossings));
	if (!model->capacity_Bps || !model->crossings)
		return -ENOMEM;
	model->rows = rows;
	for (size_t i = 0; i < rows; i++)
		model->capacity_Bps[i] = builder->capacity_Bps[order[i]];
	count = 0;
	for (size_t hop = 0; hop < model->hops; hop++) {
		model->first[hop] = (uint32_t)count;
		for (size_t i = 0; i < rows; i++) {
			unsigned crossings = builder->dense[order[i] * model->hops + hop];

			if (crossings)
				model->crossings[count++] = (struct plan_crossing){ (uint32_t)i, crossings };
		}
	}
	model->first[model->hops] = (uint32_t)count;
	return 0;
}

static int reduce_rows(struct builder *builder)
{
	uint32_t *order;
	size_t count;
	int r = list_supports(builder);

	if (r < 0)
		return r;
	order = sys_zalloc((builder->rows + 1) * sizeof(*order));
	if (!order)
		return -ENOMEM;
	choose_rows(builder, order, &count);
	r = store_rows(builder, order, count);
	sys_free(order);
	return r;
}

int plan_model_init(struct plan_model *model, const struct topology *topology, const struct plan_request *request,
		    enum plan_pattern pattern)
{
	struct builder builder = { .topology = topology, .request = request, .model = model };
	int r = plan_request_check(topology, request);

	if (r < 0)
		return r;
	if ((unsigned)pattern >= PLAN_PATTERN_COUNT)
		return -EINVAL;
	memset(model, 0, sizeof(*model));
	model->gpus = request->gpu_count;
	model->network = request->hosts > 1;
	model->nics = model->network ? request->nic_count : 1;
	model->channels_max = request->channels_max ? request->channels_max : PLAN_CHANNELS_MAX;
	model->closed = pattern == PLAN_RING && !model->network;
	model->mirrored = pattern != PLAN_RING;
	model->star = pattern == PLAN_DIRECT;
	model->crossnic = request->crossnic && pattern == PLAN_RING && model->network;
	model->hops = model->gpus * (model->gpus + 2 * model->nics);
	r = list_limits(&builder);
	if (r == 0)
		r = charge_all(&builder, pattern);
	if (r == 0)
		r = reduce_rows(&builder);
	builder_fini(&builder);
	if (r < 0)
		plan_model_fini(model);
	return r;
}

int plan_model_at(struct plan_model *model, const struct topology *topology, const struct plan_request *request,
		  enum plan_pattern pattern, unsigned hosts)
{
	struct plan_request here = *request;

	here.hosts = hosts;
	return plan_model_init(model, topology, &here, pattern);
}

void plan_model_fini(struct plan_model *model)
{
	sys_free(model->capacity_Bps);
	sys_free(model->crossings);
	memset(model, 0, sizeof(*model));
}
