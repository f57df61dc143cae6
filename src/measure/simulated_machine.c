/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/simulated_machine.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <string.h>

void simulated_machine_fini(struct simulated_machine *machine)
{
	topology_fini(&machine->truth);
	sys_free(machine->arrays);
	memset(machine, 0, sizeof(*machine));
	topology_init(&machine->truth);
}

/* The link by which a device's own engines send: PCIe, or C2C where it has that. */
static uint32_t own_link(const struct topology *topology, uint32_t vertex)
{
	uint32_t link = topology_uplink(topology, vertex);

	if (link == TOPOLOGY_NONE ||
	    (topology->links[link].kind != TOPOLOGY_LINK_PCI && topology->links[link].kind != TOPOLOGY_LINK_C2C))
		return TOPOLOGY_NONE;
	return link;
}

static int find_names(struct simulated_machine *machine)
{
	const struct probe_rules *rules = &machine->rules;

	for (size_t i = 0; i < rules->neighbour_count; i++) {
		machine->neighbour[i] = topology_find_directed(&machine->truth, rules->neighbours[i].link);
		if (machine->neighbour[i] == TOPOLOGY_NONE)
			return -EINVAL;
	}
	for (size_t i = 0; i < rules->pair_count; i++) {
		machine->pair_from[i] = topology_find(&machine->truth, rules->pairs[i].from);
		machine->pair_to[i] = topology_find(&machine->truth, rules->pairs[i].to);
		if (machine->pair_from[i] == TOPOLOGY_NONE || machine->pair_to[i] == TOPOLOGY_NONE)
			return -EINVAL;
	}
	return 0;
}

int simulated_machine_init(struct simulated_machine *machine, const struct topology *truth,
			   const struct probe_rules *rules)
{
	int r;

	memset(machine, 0, sizeof(*machine));
	topology_init(&machine->truth);
	r = topology_copy(truth, &machine->truth);
	if (r < 0)
		return r;
	machine->rules = *rules;
	machine->arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(machine->own, truth->vertex_count),
								  SYS_ARRAY(machine->neighbour, rules->neighbour_count),
								  SYS_ARRAY(machine->pair_from, rules->pair_count),
								  SYS_ARRAY(machine->pair_to, rules->pair_count) },
					    4);
	for (uint32_t i = 0; machine->arrays && i < truth->vertex_count; i++)
		machine->own[i] = own_link(&machine->truth, i);
	r = machine->arrays ? find_names(machine) : -ENOMEM;
	if (r < 0)
		simulated_machine_fini(machine);
	return r;
}

static enum topology_kind kind_of(const struct simulated_machine *machine, uint32_t vertex)
{
	return machine->truth.vertices[vertex].kind;
}

static bool p2p_can(const struct simulated_machine *machine, const struct topology_flow *flow)
{
	enum topology_class path_class = topology_class_of(&machine->truth, flow->from, flow->to);

	if (flow->from == flow->to)
		return false;
	if (path_class <= TOPOLOGY_CLASS_NVB)
		return true;
	if (path_class <= TOPOLOGY_CLASS_PXB)
		return machine->rules.p2p >= PROBE_RULES_P2P_SWITCH;
	if (path_class <= TOPOLOGY_CLASS_PHB)
		return machine->rules.p2p >= PROBE_RULES_P2P_SOCKET;
	return machine->rules.p2p == PROBE_RULES_P2P_ALL;
}

static bool is_gdr(const struct simulated_machine *machine, uint32_t nic, uint32_t gpu)
{
	return machine->truth.vertices[nic].nic.gdr && machine->truth.vertices[gpu].gpu.gdr;
}

static bool direct_can(const struct simulated_machine *machine, const struct probe_flow *flow)
{
	uint32_t from = flow->flow.from, to = flow->flow.to;
	enum topology_kind source = kind_of(machine, from), sink = kind_of(machine, to);
	bool cores = machine->rules.cores_Bps > 0 && flow->engine == PROBE_ENGINE_DEFAULT;

	if (source == TOPOLOGY_GPU && sink == TOPOLOGY_GPU)
		return p2p_can(machine, &flow->flow);
	if (source == TOPOLOGY_MEMORY && (sink == TOPOLOGY_MEMORY || sink == TOPOLOGY_CPU))
		return cores;
	if (source == TOPOLOGY_CPU && sink == TOPOLOGY_MEMORY)
		return cores;
	if (flow->engine == PROBE_ENGINE_KERNEL && source != TOPOLOGY_GPU && sink != TOPOLOGY_GPU)
		return false;
	if (source == TOPOLOGY_MEMORY || sink == TOPOLOGY_MEMORY) {
		enum topology_kind device = source == TOPOLOGY_MEMORY ? sink : source;

		return device == TOPOLOGY_GPU || device == TOPOLOGY_NIC;
	}
	if (flow->engine == PROBE_ENGINE_KERNEL)
		return false;
	return (source == TOPOLOGY_GPU && sink == TOPOLOGY_NIC && is_gdr(machine, to, from)) ||
	       (source == TOPOLOGY_NIC && sink == TOPOLOGY_GPU && is_gdr(machine, from, to));
}

bool simulated_machine_can(const struct simulated_machine *machine, const struct probe_flow *flow)
{
	struct topology_route route;

	if (flow->flow.from >= machine->truth.vertex_count || flow->flow.to >= machine->truth.vertex_count)
		return false;
	if (flow->flow.way == TOPOLOGY_WAY_HOST) {
		if (kind_of(machine, flow->flow.from) != TOPOLOGY_GPU ||
		    kind_of(machine, flow->flow.to) != TOPOLOGY_GPU || flow->flow.from == flow->flow.to ||
		    flow->engine != PROBE_ENGINE_DEFAULT)
			return false;
	} else if (!direct_can(machine, flow)) {
		return false;
	}
	return measure_experiments_route(&machine->truth, &flow->flow, &route) == 0;
}

/* ------------------------------------------------------------------------------------------------------ constraints */

/* Every rule that might bind, before those that hold nobody are left out: this many rows, in this order. */
struct layout {
	size_t both, out, in, kernel_out, kernel_in, device, cores, alone, count;
};

static struct layout layout_of(const struct simulated_machine *machine, size_t flow_count)
{
	size_t links = machine->truth.link_count, vertices = machine->truth.vertex_count;
	struct layout layout = { .both = 2 * links };

	layout.out = layout.both + links;
	layout.in = layout.out + vertices;
	layout.kernel_out = layout.in + vertices;
	layout.kernel_in = layout.kernel_out + vertices;
	layout.device = layout.kernel_in + vertices;
	layout.cores = layout.device + vertices;
	layout.alone = layout.cores + vertices;
	layout.count = layout.alone + flow_count;
	return layout;
}

static double rate_of(const struct simulated_machine *machine, uint32_t directed, unsigned neighbours)
{
	const struct topology_link *link = &machine->truth.links[directed / 2];
	double rate = (double)link->capacity[directed % 2].rate_Bps;

	for (size_t i = 0; i < machine->rules.neighbour_count; i++)
		if (neighbours >> i & 1 && machine->neighbour[i] == directed)
			rate *= 1 - machine->rules.neighbours[i].part;
	return rate > 0 ? rate : INFINITY;
}

struct filling {
	const struct simulated_machine *machine;
	const struct probe_flow *flows;
	struct layout layout;
	unsigned neighbours;
	struct probe_simulated_rows *rows;
};

static void charge(struct filling *filling, size_t row, size_t flow, double bound, uint32_t device)
{
	filling->rows->bound_Bps[row] = bound;
	filling->rows->weight[row * filling->rows->flow_count + flow] += 1;
	filling->rows->device[row] = device;
}

static void charge_links(struct filling *filling, size_t flow, const struct topology_route *route)
{
	const struct simulated_machine *machine = filling->machine;

	for (size_t i = 0; i < route->count; i++) {
		uint32_t directed = route->links[i];
		const struct topology_link *link = &machine->truth.links[directed / 2];
		double both = rate_of(machine, directed, filling->neighbours) +
			      rate_of(machine, directed ^ 1, filling->neighbours);
		double part = machine->rules.both[link->kind];

		charge(filling, directed, flow, rate_of(machine, directed, filling->neighbours), TOPOLOGY_NONE);
		filling->rows->directed[directed] = directed;
		if (part < 1)
			charge(filling, filling->layout.both + directed / 2, flow, part * both, TOPOLOGY_NONE);
	}
}

/* All that enters and leaves, over all links of the device. */
static double device_rate(const struct simulated_machine *machine, uint32_t vertex)
{
	double sum = 0;

	for (uint32_t i = 0; i < machine->truth.link_count; i++)
		if (machine->truth.links[i].lower == vertex || machine->truth.links[i].upper == vertex)
			sum += (double)machine->truth.links[i].capacity[TOPOLOGY_UP].rate_Bps +
			       (double)machine->truth.links[i].capacity[TOPOLOGY_DOWN].rate_Bps;
	return sum;
}

static void charge_engine(struct filling *filling, size_t flow, uint32_t vertex, bool out)
{
	const struct simulated_machine *machine = filling->machine;
	const struct probe_rules *rules = &machine->rules;
	uint32_t own = machine->own[vertex];
	enum topology_kind kind = kind_of(machine, vertex);
	bool kernel = filling->flows[flow].engine == PROBE_ENGINE_KERNEL;
	double part = kernel ? rules->kernel : out ? rules->engine_out[kind] : rules->engine_in[kind];
	size_t rows = kernel ? (out ? filling->layout.kernel_out : filling->layout.kernel_in)
			     : (out ? filling->layout.out : filling->layout.in);
	double rate;

	if (own == TOPOLOGY_NONE)
		return;
	rate = (double)machine->truth.links[own].capacity[out ? TOPOLOGY_UP : TOPOLOGY_DOWN].rate_Bps;
	if (part >= 1 || rate <= 0)
		return;
	charge(filling, rows + vertex, flow, part * rate, vertex);
}

static bool is_device(const struct simulated_machine *machine, uint32_t vertex)
{
	return kind_of(machine, vertex) == TOPOLOGY_GPU || kind_of(machine, vertex) == TOPOLOGY_NIC;
}

static void charge_devices(struct filling *filling, size_t flow, const struct topology_route *route)
{
	const struct simulated_machine *machine = filling->machine;
	const struct probe_flow *of = &filling->flows[flow];
	uint32_t ends[] = { of->flow.from, of->flow.to };
	bool nvlink = route->count && machine->truth.links[route->links[0] / 2].kind == TOPOLOGY_LINK_NVLINK;
	bool staged = of->flow.way == TOPOLOGY_WAY_HOST;
	/* The NIC reads and writes what a GPU holds; of two GPUs the sender writes. */
	bool sends = kind_of(machine, ends[0]) == TOPOLOGY_NIC ||
		     (kind_of(machine, ends[0]) == TOPOLOGY_GPU && kind_of(machine, ends[1]) != TOPOLOGY_NIC);

	for (size_t i = 0; i < 2; i++) {
		double part = machine->rules.device[kind_of(machine, ends[i])];

		if (is_device(machine, ends[i]) && part < 1)
			charge(filling, filling->layout.device + ends[i], flow, part * device_rate(machine, ends[i]),
			       ends[i]);
	}
	if (nvlink)
		return;
	if (is_device(machine, ends[0]) && (sends || staged))
		charge_engine(filling, flow, ends[0], true);
	if (is_device(machine, ends[1]) && (!sends || staged))
		charge_engine(filling, flow, ends[1], false);
}

/* Cores of the sending side copy, those of a CPU that is an end do the reading or the writing. */
static void charge_cores(struct filling *filling, size_t flow)
{
	const struct simulated_machine *machine = filling->machine;
	uint32_t from = filling->flows[flow].flow.from, to = filling->flows[flow].flow.to;
	uint32_t cpu = kind_of(machine, to) == TOPOLOGY_CPU ? to : topology_cpu_of(&machine->truth, from);

	if (is_device(machine, from) || is_device(machine, to) || cpu == TOPOLOGY_NONE)
		return;
	charge(filling, filling->layout.cores + cpu, flow, machine->rules.cores_Bps, cpu);
}

static double pair_part(const struct simulated_machine *machine, const struct probe_flow *flow,
			enum topology_class path_class)
{
	const struct probe_rules *rules = &machine->rules;
	double part = path_class >= TOPOLOGY_CLASS_SYS   ? rules->p2p_socket
		      : path_class >= TOPOLOGY_CLASS_PHB ? rules->p2p_root
							 : 1;

	/* A pair's own rule would be the rate of its NVLink, which nobody else uses. */
	if (path_class <= TOPOLOGY_CLASS_NVB)
		return 1;
	for (size_t i = 0; i < rules->pair_count; i++)
		if (machine->pair_from[i] == flow->flow.from && machine->pair_to[i] == flow->flow.to)
			part *= rules->pairs[i].part;
	return part;
}

/* What this pair of ends gets, whatever its links could. */
static void charge_alone(struct filling *filling, size_t flow, const struct topology_route *route)
{
	const struct simulated_machine *machine = filling->machine;
	const struct topology_flow *of = &filling->flows[flow].flow;
	double part = 1, narrowest = INFINITY;
	size_t row = flow;

	if (of->way == TOPOLOGY_WAY_HOST)
		part = machine->rules.staged;
	else if (kind_of(machine, of->from) == TOPOLOGY_GPU && kind_of(machine, of->to) == TOPOLOGY_GPU)
		part = pair_part(machine, &filling->flows[flow], route->path_class);
	if (part >= 1)
		return;
	for (size_t i = 0; i < route->count; i++)
		narrowest = fmin(narrowest, rate_of(machine, route->links[i], 0));
	for (size_t i = 0; i < flow; i++)
		if (filling->flows[i].flow.from == of->from && filling->flows[i].flow.to == of->to &&
		    filling->flows[i].flow.way == of->way) {
			row = i;
			break;
		}
	charge(filling, filling->layout.alone + row, flow, part * narrowest, TOPOLOGY_NONE);
}

/* Rows that nobody crosses, or that bound nothing, are left out. */
static void rows_compact(struct probe_simulated_rows *rows)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->count; i++) {
		if (rows->bound_Bps[i] <= 0 || isinf(rows->bound_Bps[i]))
			continue;
		memmove(&rows->weight[kept * rows->flow_count], &rows->weight[i * rows->flow_count],
			rows->flow_count * sizeof(*rows->weight));
		rows->bound_Bps[kept] = rows->bound_Bps[i];
		rows->directed[kept] = rows->directed[i];
		rows->device[kept++] = rows->device[i];
	}
	rows->count = kept;
}

void simulated_rows_fini(struct probe_simulated_rows *rows)
{
	sys_free(rows->arrays);
	memset(rows, 0, sizeof(*rows));
}

int simulated_rows_of(const struct simulated_machine *machine, const struct probe_flow *flows, size_t count,
		      unsigned neighbours, struct probe_simulated_rows *ret)
{
	struct layout layout = layout_of(machine, count);
	struct probe_simulated_rows rows = { .count = layout.count, .flow_count = count };
	struct filling filling = { machine, flows, layout, neighbours, &rows };

	rows.arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(rows.bound_Bps, layout.count),
							      SYS_ARRAY(rows.weight, layout.count * count),
							      SYS_ARRAY(rows.directed, layout.count),
							      SYS_ARRAY(rows.device, layout.count) },
					4);
	if (!rows.arrays)
		return -ENOMEM;
	for (size_t i = 0; i < layout.count; i++)
		rows.directed[i] = rows.device[i] = TOPOLOGY_NONE;
	for (size_t i = 0; i < count; i++) {
		struct topology_route route;

		if (!simulated_machine_can(machine, &flows[i]) ||
		    measure_experiments_route(&machine->truth, &flows[i].flow, &route) < 0) {
			simulated_rows_fini(&rows);
			return -ENOTSUP;
		}
		charge_links(&filling, i, &route);
		charge_devices(&filling, i, &route);
		charge_cores(&filling, i);
		charge_alone(&filling, i, &route);
	}
	rows_compact(&rows);
	*ret = rows;
	return 0;
}
