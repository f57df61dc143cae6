/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ranks, what they send over which links, and what that costs. */
#include "simulate/ranks_internal.h"

#include "aggregate/gain_nccl.h"
#include "base/sys.h"
#include "simulate/job_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINKS_AT_ONCE = 8 }; /* that are only read take as long as one on a way */

/* ------------------------------------------------------------------------------------------------------------ groups */

size_t ranks_hosts(const struct ranks_layout *layout)
{
	uint64_t ranks = (uint64_t)layout->tensor * layout->data;

	if (!layout->gpus || !ranks || !layout->pipeline || ranks > UINT32_MAX || ranks * layout->pipeline > UINT32_MAX)
		return 0;
	ranks *= layout->pipeline;
	return ranks % layout->gpus ? 0 : (size_t)(ranks / layout->gpus);
}

static size_t whole_hosts(uint64_t ranks, unsigned gpus)
{
	return ranks > gpus && ranks % gpus == 0 ? (size_t)(ranks / gpus) : 1;
}

size_t ranks_tensor_hosts(const struct ranks_layout *layout)
{
	return whole_hosts(layout->tensor, layout->gpus);
}

size_t ranks_stage_hosts(const struct ranks_layout *layout)
{
	return whole_hosts((uint64_t)layout->tensor * layout->data, layout->gpus);
}

size_t ranks_group_count(const struct ranks_layout *layout, enum ranks_phase phase)
{
	switch (phase) {
	case RANKS_TENSOR:
		return (size_t)layout->data * layout->pipeline;
	case RANKS_PIPELINE:
		return (size_t)layout->tensor * layout->data;
	default:
		return (size_t)layout->tensor * layout->pipeline;
	}
}

void ranks_group(const struct ranks_layout *layout, enum ranks_phase phase, size_t index, struct ranks_group *group)
{
	size_t tensor = layout->tensor, stage = tensor * layout->data, first, stride;

	switch (phase) {
	case RANKS_TENSOR:
		first = index * tensor;
		stride = 1;
		group->ranks = layout->tensor;
		break;
	case RANKS_PIPELINE:
		first = index;
		stride = stage;
		group->ranks = layout->pipeline;
		break;
	default:
		first = index % tensor + index / tensor * stage;
		stride = tensor;
		group->ranks = layout->data;
	}
	group->count = 0;
	for (unsigned i = 0; i < group->ranks; i++) {
		uint32_t place = (uint32_t)((first + i * stride) / layout->gpus);

		if (!group->count || group->places[group->count - 1] != place)
			group->places[group->count++] = place;
	}
}

/* ------------------------------------------------------------------------------------------------------------- edges */

static int add_edge(struct ranks_model *model, uint32_t from, uint32_t to, enum ranks_phase phase, double weight)
{
	int r = sys_grow(&model->edges, model->edge_count, 1, sizeof(*model->edges));

	if (r < 0)
		return r;
	model->edges[model->edge_count++] =
		(struct ranks_edge){ .from = from, .to = to, .phase = (uint8_t)phase, .weight = weight };
	return 0;
}

static int add_ring(struct ranks_model *model, const struct ranks_group *group, enum ranks_phase phase)
{
	double weight = 2 * (group->ranks - 1.0) / group->ranks;
	int r = 0;

	for (size_t i = 0; r == 0 && group->count > 1 && i < group->count; i++)
		r = add_edge(model, group->places[i], group->places[(i + 1) % group->count], phase, weight);
	return r;
}

static int add_trees(struct ranks_model *model, const struct ranks_group *group, enum ranks_phase phase)
{
	int r = 0;

	for (int second = 0; second < 2; second++)
		for (uint32_t i = 0; r == 0 && i < group->count; i++) {
			uint32_t parent = gain_nccl_tree_parent(i, (uint32_t)group->count, second);

			if (parent == GAIN_NCCL_NO_PARENT)
				continue;
			r = add_edge(model, group->places[i], group->places[parent], phase, 0.5);
			if (r == 0)
				r = add_edge(model, group->places[parent], group->places[i], phase, 0.5);
		}
	return r;
}

static int add_stages(struct ranks_model *model, const struct ranks_group *group, enum ranks_phase phase)
{
	int r = 0;

	for (size_t i = 1; r == 0 && i < group->count; i++) {
		r = add_edge(model, group->places[i - 1], group->places[i], phase, 1);
		if (r == 0)
			r = add_edge(model, group->places[i], group->places[i - 1], phase, 1);
	}
	return r;
}

static int compare_edges(const void *a, const void *b)
{
	const struct ranks_edge *first = a, *second = b;

	if (first->phase != second->phase)
		return first->phase < second->phase ? -1 : 1;
	if (first->from != second->from)
		return first->from < second->from ? -1 : 1;
	return (first->to > second->to) - (first->to < second->to);
}

/* Groups that share hosts have the same edges. */
static void join_edges(struct ranks_model *model)
{
	size_t count = 0;

	if (!model->edge_count)
		return;
	qsort(model->edges, model->edge_count, sizeof(*model->edges), compare_edges);
	for (size_t i = 1; i < model->edge_count; i++) {
		if (!compare_edges(&model->edges[count], &model->edges[i]))
			model->edges[count].weight += model->edges[i].weight;
		else
			model->edges[++count] = model->edges[i];
	}
	model->edge_count = count + 1;
}

static int add_edges(struct ranks_model *model)
{
	static int (*const add[])(struct ranks_model *, const struct ranks_group *,
				  enum ranks_phase) = { [RANKS_TENSOR] = add_ring,
							[RANKS_DATA_RING] = add_ring,
							[RANKS_DATA_TREE] = add_trees,
							[RANKS_PIPELINE] = add_stages };
	struct ranks_group group = { .places = sys_zalloc((model->hosts + 1) * sizeof(uint32_t)) };
	int r = group.places ? 0 : -ENOMEM;

	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
		for (size_t i = 0; r == 0 && i < ranks_group_count(&model->layout, (enum ranks_phase)phase); i++) {
			ranks_group(&model->layout, (enum ranks_phase)phase, i, &group);
			r = add[phase](model, &group, (enum ranks_phase)phase);
		}
	sys_free(group.places);
	join_edges(model);
	for (size_t i = 0; i < model->edge_count; i++)
		model->edges[i].weight =
			rint(model->edges[i].weight / (double)model->fabric->rail_count / RANKS_QUANTUM) *
			RANKS_QUANTUM;
	return r;
}

/* The edges of each place, phase after phase. */
static int list_edges(struct ranks_model *model)
{
	size_t keys = RANKS_PHASE_COUNT * model->hosts;
	uint32_t *next;

	model->first_of = sys_zalloc((keys + 2 + 2 * model->edge_count) * sizeof(*model->first_of));
	if (!model->first_of)
		return -ENOMEM;
	model->edges_of = model->first_of + keys + 2;
	next = model->first_of + 1; /* a count of each place, then where it begins, then where its next edge goes */
	for (size_t i = 0; i < model->edge_count; i++) {
		const struct ranks_edge *edge = &model->edges[i];

		next[edge->phase * model->hosts + edge->from + 1]++;
		next[edge->phase * model->hosts + edge->to + 1]++;
		model->first_edge[edge->phase + 1] = i + 1;
	}
	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++) /* one without edges ends where it begins */
		if (model->first_edge[phase + 1] < model->first_edge[phase])
			model->first_edge[phase + 1] = model->first_edge[phase];
	for (size_t i = 1; i <= keys; i++)
		next[i] += next[i - 1];
	for (uint32_t i = 0; i < model->edge_count; i++) {
		const struct ranks_edge *edge = &model->edges[i];

		model->edges_of[next[edge->phase * model->hosts + edge->from]++] = i;
		model->edges_of[next[edge->phase * model->hosts + edge->to]++] = i;
	}
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------- model */

void ranks_model_fini(struct ranks_model *model)
{
	sys_free(model->edges);
	sys_free(model->first_of);
	sys_free(model->s_per_B);
	sys_free(model->load_B);
	sys_free(model->order);
	memset(model, 0, sizeof(*model));
}

int ranks_model_init(struct ranks_model *model, const struct simulate_fabric *fabric, const struct ranks_layout *layout)
{
	int r;

	*model = (struct ranks_model){ .fabric = fabric,
				       .layout = *layout,
				       .hosts = ranks_hosts(layout),
				       .links = simulate_link_count(fabric),
				       .first_uplink = 2 * fabric->host_count * fabric->rail_count };
	if (!model->hosts)
		return -EINVAL;
	model->load_B = sys_zalloc(2 * RANKS_PHASE_COUNT * model->links * sizeof(*model->load_B));
	model->order = sys_zalloc(RANKS_PHASE_COUNT * model->hosts * sizeof(*model->order));
	r = model->load_B && model->order ? simulate_capacities(fabric, &model->s_per_B) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < model->links; i++)
		model->s_per_B[i] = 1 / model->s_per_B[i];
	if (r == 0) {
		model->kept_B = model->load_B + RANKS_PHASE_COUNT * model->links;
		r = add_edges(model);
	}
	if (r == 0)
		r = list_edges(model);
	for (size_t i = 0; r == 0 && i < RANKS_PHASE_COUNT * model->hosts; i++)
		model->order[i] = SIMULATE_NONE;
	if (r < 0)
		ranks_model_fini(model);
	return r;
}

/* As simulate_way, without a list of the links: half of the search's time is spent here. */
static void cross(struct ranks_model *model, double *load_B, uint32_t from, uint32_t to, double weight)
{
	const struct simulate_fabric *fabric = model->fabric;
	const struct simulate_switch *switches = fabric->switches;
	uint32_t up = fabric->nics[from].leaf, down = fabric->nics[to].leaf;
	double *uplinks_B = load_B + model->first_uplink;

	load_B[2 * (size_t)from + SIMULATE_UP] += weight;
	load_B[2 * (size_t)to + SIMULATE_DOWN] += weight;
	model->steps += 2;
	while (up != down) {
		bool climb = down == SIMULATE_NONE ||
			     (up != SIMULATE_NONE && switches[up].depth >= switches[down].depth);
		uint32_t at = climb ? up : down, parent = switches[at].parent;

		*(climb ? &up : &down) = parent;
		if (parent == GAIN_NCCL_NO_PARENT)
			continue;
		uplinks_B[2 * (size_t)at + (climb ? SIMULATE_UP : SIMULATE_DOWN)] += weight;
		model->steps++;
	}
}

static void add_load(struct ranks_model *model, const struct ranks_edge *edge, double sign)
{
	const uint32_t *order = model->order + edge->phase * model->hosts;
	uint32_t from = order[edge->from], to = order[edge->to], rails = (uint32_t)model->fabric->rail_count;

	if (from == SIMULATE_NONE || to == SIMULATE_NONE)
		return;
	for (uint32_t rail = 0; rail < rails; rail++)
		cross(model, model->load_B + edge->phase * model->links, from * rails + rail, to * rails + rail,
		      sign * edge->weight);
}

/* A place without a host has no edges, so an edge between two places is taken away once, and put back once. */
static void fill(struct ranks_model *model, size_t place, uint32_t host)
{
	const uint32_t *edges = model->edges_of, *first = model->first_of;
	double sign = host == SIMULATE_NONE ? -1 : 1;

	if (host != SIMULATE_NONE)
		model->order[place] = host;
	for (uint32_t i = first[place]; i < first[place + 1]; i++)
		add_load(model, &model->edges[edges[i]], sign);
	model->order[place] = host;
}

/* Loads change by the edges of the places that have another host, so a small step is cheap. */
static void go(struct ranks_model *model, enum ranks_phase phase, const uint32_t *order)
{
	size_t changed = 0, hosts = model->hosts, first = phase * hosts;
	uint32_t *at = model->order + first;

	for (size_t place = 0; place < hosts; place++)
		changed += at[place] != order[place];
	model->steps += (double)hosts / LINKS_AT_ONCE;
	if (!changed)
		return;
	model->moved[phase] = true;
	if (changed > hosts / 2) { /* counted from nothing sooner */
		memset(model->load_B + phase * model->links, 0, model->links * sizeof(*model->load_B));
		memcpy(at, order, hosts * sizeof(*order));
		for (size_t i = model->first_edge[phase]; i < model->first_edge[phase + 1]; i++)
			add_load(model, &model->edges[i], 1);
		return;
	}
	for (size_t place = 0; place < hosts; place++)
		if (at[place] != order[place])
			fill(model, first + place, SIMULATE_NONE);
	for (size_t place = 0; place < hosts; place++)
		if (at[place] != order[place])
			fill(model, first + place, order[place]);
}

void ranks_model_keep(struct ranks_model *model)
{
	for (size_t phase = 0; phase < RANKS_PHASE_COUNT; phase++) {
		if (model->moved[phase])
			memcpy(model->kept_B + phase * model->links, model->load_B + phase * model->links,
			       model->links * sizeof(*model->load_B));
		model->moved[phase] = false;
	}
}

void ranks_model_back(struct ranks_model *model, const uint32_t *order)
{
	for (size_t phase = 0; phase < RANKS_PHASE_COUNT; phase++) {
		if (!model->moved[phase])
			continue;
		memcpy(model->order + phase * model->hosts, order, model->hosts * sizeof(*order));
		memcpy(model->load_B + phase * model->links, model->kept_B + phase * model->links,
		       model->links * sizeof(*model->load_B));
		model->moved[phase] = false;
	}
}

struct ranks_cost ranks_model_cost(struct ranks_model *model, enum ranks_phase phase, const uint32_t *order)
{
	const double *load_B = model->load_B + (size_t)phase * model->links;
	struct ranks_cost cost = { 0 };

	if (model->first_edge[phase] == model->first_edge[phase + 1])
		return cost;
	go(model, phase, order);
	for (size_t link = 0; link < model->links; link++) {
		double time_s = load_B[link] > 0 ? load_B[link] * model->s_per_B[link] : 0;

		cost.worst_s = time_s > cost.worst_s ? time_s : cost.worst_s;
		if (link >= model->first_uplink && link < model->first_uplink + 2 * model->fabric->switch_count) {
			cost.uplinks_s += time_s;
			cost.crossings += load_B[link];
		}
	}
	model->steps += (double)model->links / LINKS_AT_ONCE;
	return cost;
}

int ranks_costs(const struct simulate_fabric *fabric, const struct ranks_layout *layout, const uint32_t *order,
		struct ranks_cost ret[static RANKS_PHASE_COUNT], double *load_B)
{
	struct ranks_model model;
	int r = ranks_model_init(&model, fabric, layout);

	if (r < 0)
		return r;
	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
		ret[phase] = ranks_model_cost(&model, (enum ranks_phase)phase, order);
	if (load_B)
		memcpy(load_B, model.load_B, RANKS_PHASE_COUNT * model.links * sizeof(*load_B));
	ranks_model_fini(&model);
	return 0;
}
