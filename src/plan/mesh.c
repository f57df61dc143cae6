/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs that are joined each to each, as a rule by NVSwitches. There very many channels between hosts cost the same, and what
 * matters is that no two of them use the same link. Zigzags over the GPUs in a circle, begun at each in turn, do not (Walecki,
 * 1892):
 *
 *     0, 1, n-1, 2, n-2, ...     n ways over n GPUs; n even: each link once in each direction; n odd: half of them twice,
 *                                and the same backwards the other half
 *
 * With a switch between them they are as good as any others: each GPU begins, ends and stands inside equally often.
 */
#include "plan/search.h"

#include <string.h>

struct tours {
	size_t gpus, count;
	uint8_t orders[2 * PLAN_GPUS_MAX][PLAN_GPUS_MAX];
	uint8_t circle[PLAN_GPUS_MAX]; /* the GPUs as zigzags go over them */
};

/* By NVLink alone, and more rows than few GPUs have that are not. */
static bool joined_each_to_each(const struct plan_model *model)
{
	if (model->gpus < 5 || model->rows < model->gpus * (model->gpus - 1) / 2)
		return false;
	for (size_t a = 0; a < model->gpus; a++)
		for (size_t b = 0; b < model->gpus; b++)
			if (a != b && model->path_class[plan_hop(model, a, b)] != TOPOLOGY_CLASS_NVL)
				return false;
	return true;
}

static uint8_t zigzag(size_t place, size_t count, size_t turn)
{
	size_t steps = (place + 1) / 2;

	return (uint8_t)((turn + (place % 2 ? steps : count - steps)) % count);
}

/* ---------------------------------------------------------------------------------------------------------------- ways */

/* What ways from one of the two to the other and back take at the least from NIC and to it. */
static uint32_t apart(const struct plan_model *model, size_t a, size_t b)
{
	uint32_t least = UINT32_MAX;

	for (size_t nic = 0; nic < model->nics; nic++) {
		uint32_t detour =
			model->detour[plan_hop_in(model, nic, a)] + model->detour[plan_hop_in(model, nic, b)] +
			model->detour[plan_hop_out(model, nic, a)] + model->detour[plan_hop_out(model, nic, b)];

		least = detour < least ? detour : least;
	}
	return least;
}

/*
 * A zigzag ends on the other side of the circle. There stands a GPU that a NIC is near with the one where it begins, as far
 * as GPUs can be paired so.
 */
static void arrange_circle(const struct plan_model *model, struct tours *tours)
{
	size_t gpus = tours->gpus, half = (gpus + 1) / 2;
	unsigned left = (1U << gpus) - 1;

	for (size_t pair = 0; pair < gpus / 2; pair++) {
		size_t first = 0, second = 0;
		uint32_t least = UINT32_MAX;

		for (size_t a = 0; a < gpus; a++) {
			for (size_t b = a + 1; b < gpus; b++) {
				if (!(left >> a & left >> b & 1U) || (second && apart(model, a, b) >= least))
					continue;
				least = apart(model, a, b);
				first = a;
				second = b;
			}
		}
		left &= ~(1U << first | 1U << second);
		tours->circle[pair] = (uint8_t)first;
		tours->circle[half + pair] = (uint8_t)second;
	}
	for (size_t gpu = 0; gpu < gpus; gpu++)
		if (left >> gpu & 1U)
			tours->circle[half - 1] = (uint8_t)gpu;
}

static void add_zigzags(struct tours *tours, bool backwards)
{
	size_t gpus = tours->gpus;

	for (size_t turn = 0; turn < gpus; turn++, tours->count++)
		for (size_t i = 0; i < gpus; i++)
			tours->orders[tours->count][backwards ? gpus - 1 - i : i] =
				tours->circle[zigzag(i, gpus, turn)];
}

static void make_ways(const struct plan_model *model, struct tours *ret)
{
	*ret = (struct tours){ .gpus = model->gpus };
	arrange_circle(model, ret);
	add_zigzags(ret, false);
	if (model->gpus % 2 && !model->mirrored)
		add_zigzags(ret, true);
}

/* ------------------------------------------------------------------------------------------------------------- columns */

/* How full the fullest row is that a hop crosses, with it. */
static double fullness_with(const struct plan_search *search, size_t hop)
{
	const struct plan_model *model = search->model;
	double most = 0;

	for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++) {
		uint32_t row = model->crossings[i].row;
		double full = (search->loads[row] + model->crossings[i].count) / search->capacities[row];

		most = full > most ? full : most;
	}
	return most;
}

enum { IN = 1, OUT = 2 }; /* ends of a tour */

#define FULL 1e12 /* more than all detours: a link would be fuller than some must be */

static double cost_of_nic(const struct plan_search *search, const uint8_t *order, size_t nic, unsigned ends,
			  double must_be)
{
	const struct plan_model *model = search->model;
	size_t in = plan_hop_in(model, nic, order[0]), out = plan_hop_out(model, nic, order[model->gpus - 1]);
	double cost = (ends & IN ? model->detour[in] : 0.0) + (ends & OUT ? model->detour[out] : 0.0);

	if ((ends & IN && fullness_with(search, in) > must_be) || (ends & OUT && fullness_with(search, out) > must_be))
		cost += FULL;
	return cost;
}

/* Some of the tours, one after the other and the first ones again where that is not enough. */
struct tour_range {
	const struct tours *tours;
	size_t first, count;
};

static const uint8_t *order_at(const struct tour_range *range, size_t i)
{
	return range->tours->orders[(range->first + i) % range->tours->count];
}

/* All that they cross between GPUs. */
static void add_inner_hops(struct plan_search *search, const struct tour_range *range)
{
	const struct plan_model *model = search->model;

	memset(search->loads, 0, model->rows * sizeof(*search->loads));
	for (size_t i = 0; i < range->count; i++) {
		struct plan_channel channel = { 0 };
		uint32_t hops[PLAN_CHANNEL_HOPS_MAX];
		size_t count;

		memcpy(channel.order, order_at(range, i), model->gpus);
		count = plan_channel_hops(model, &channel, hops);
		for (size_t j = 0; j < count; j++)
			if (plan_hop_is_inner(model, hops[j]))
				plan_hop_load(model, hops[j], 1, search->loads);
	}
}

/* No plan's total is above the bound, and some NIC has a whole number of channels: so full some link must be. */
static double least_fullness(const struct plan_search *search, size_t count)
{
	const struct plan_model *model = search->model;
	double by_bound = (double)count / search->bound_Bps, by_nic = 0;
	size_t places = (count + model->nics - 1) / model->nics;

	for (size_t nic = 0; nic < model->nics; nic++) {
		for (size_t gpu = 0; gpu < model->gpus; gpu++) {
			size_t hop = plan_hop_in(model, nic, gpu);
			double full = 0;

			for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++)
				if (1 / search->capacities[model->crossings[i].row] > full)
					full = 1 / search->capacities[model->crossings[i].row];
			by_nic = by_nic > 0 && by_nic < full ? by_nic : full;
		}
	}
	by_nic *= (double)places;
	return (by_nic > by_bound ? by_nic : by_bound) * (1 + 1e-9);
}

enum { PLACES_MAX = PLAN_CHANNELS_MAX + PLAN_NICS_MAX };

/* As many places at each NIC; two tours exchange theirs (or a place that is free) as long as that makes detours fewer. */
static void choose_nics(const struct plan_search *search, const struct tour_range *range, unsigned ends,
			uint8_t ret[PLACES_MAX])
{
	size_t nics = search->model->nics, places = (range->count + nics - 1) / nics * nics;
	double costs[PLACES_MAX][PLAN_NICS_MAX] = { { 0 } }, must_be = least_fullness(search, range->count);
	bool better = true;

	for (size_t i = 0; i < places; i++) {
		ret[i] = (uint8_t)(i % nics);
		for (size_t nic = 0; i < range->count && nic < nics; nic++)
			costs[i][nic] = cost_of_nic(search, order_at(range, i), nic, ends, must_be);
	}
	while (better) {
		better = false;
		for (size_t i = 0; i < range->count; i++) {
			for (size_t j = i + 1; j < places; j++) {
				uint8_t nic = ret[i];

				if (costs[i][ret[j]] + costs[j][nic] >= costs[i][nic] + costs[j][ret[j]])
					continue;
				ret[i] = ret[j];
				ret[j] = nic;
				better = true;
			}
		}
	}
}

static void offer_range(struct plan_search *search, const struct tour_range *range)
{
	const struct plan_model *model = search->model;
	struct plan_selection selection = { 0 };
	uint8_t in[PLACES_MAX] = { 0 }, out[PLACES_MAX] = { 0 };

	if (model->network) {
		add_inner_hops(search, range);
		choose_nics(search, range, model->crossnic ? IN : IN | OUT, in);
	}
	if (model->crossnic)
		choose_nics(search, range, OUT, out);
	while (selection.count < range->count) {
		size_t i = selection.count;
		struct plan_channel channel = { .nic_in = in[i], .nic_out = in[i] };

		if (model->crossnic)
			channel.nic_out = out[i];
		memcpy(channel.order, order_at(range, i), model->gpus);
		if (plan_columns_add(&search->columns, &channel, &selection.columns[selection.count++]) < 0)
			return;
	}
	plan_search_offer(search, &selection);
}

/* Of so many channels. */
static bool nothing_is_better(const struct plan_search *search, size_t count)
{
	const struct plan_selection *packed = &search->packed[count];

	return packed->count && (double)packed->load <= least_fullness(search, count) * (double)packed->capacity_Bps;
}

/* With every NIC; and so many of them together as channels of a plan. */
static void offer_tours(struct plan_search *search, const struct tours *tours)
{
	const struct plan_model *model = search->model;

	for (size_t i = 0; i < tours->count; i++) {
		struct plan_channel channel = { 0 };
		uint32_t column;

		memcpy(channel.order, tours->orders[i], tours->gpus);
		for (size_t nic = 0; nic < model->nics; nic++) {
			channel.nic_in = channel.nic_out = (uint8_t)nic;
			if (plan_columns_add(&search->columns, &channel, &column) < 0)
				return;
		}
	}
	for (size_t count = 1; tours->count && count <= model->channels_max; count++)
		for (size_t first = 0; first < (count % tours->count ? tours->count : 1); first++)
			if (!nothing_is_better(search, count))
				offer_range(search, &(struct tour_range){ tours, first, count });
}

void plan_search_seed_mesh(struct plan_search *search)
{
	const struct plan_model *model = search->model;
	struct tours tours;

	if (model->closed || !model->nics || !joined_each_to_each(model))
		return;
	make_ways(model, &tours);
	offer_tours(search, &tours);
}
