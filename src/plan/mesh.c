/*
 * GPUs that are joined each to each, without a switch. There very many channels cost the same, and what matters is that
 * no two of them use the same link. Zigzags over the GPUs in a circle, begun at each in turn, do not (Walecki, 1892):
 *
 *     0, 1, n-1, 2, n-2, ...     n ways over n GPUs; n even: each link once in each direction; n odd: half of them twice,
 *                                and the same backwards the other half
 *     one GPU in the middle of n - 1 in a circle: rings, n odd: each link once in each direction, n - 1 of them
 *
 * Rings over an even number are those over one GPU less, with the last one put into each at another place. That leaves a
 * link of each, n - 2 in all, and two of the last GPU's; if they are a ring, too, each link is in one of n - 1 (Tillson,
 * 1980, showed that there are so many but for four and six GPUs). Where to put it is soon found: a way over all the
 * others that takes one link of each ring.
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

/*
 * Twice nine ways are more than there may be channels. These three, and they again with 3 and with 6 added, take each link
 * once in each direction; found by trying.
 */
static void add_nine(struct tours *tours)
{
	static const uint8_t base[3][9] = { { 0, 1, 2, 3, 5, 7, 4, 8, 6 },
					    { 1, 0, 3, 7, 5, 8, 4, 6, 2 },
					    { 2, 8, 3, 0, 7, 1, 6, 5, 4 } };

	for (size_t turn = 0; turn < 9; turn++, tours->count++)
		for (size_t i = 0; i < 9; i++)
			tours->orders[tours->count][i] = (uint8_t)((base[turn % 3][i] + turn / 3 * 3) % 9);
}

static void make_ways(const struct plan_model *model, struct tours *ret)
{
	*ret = (struct tours){ .gpus = model->gpus };
	if (model->gpus == 9 && !model->mirrored) {
		add_nine(ret);
		return;
	}
	arrange_circle(model, ret);
	add_zigzags(ret, false);
	if (model->gpus % 2 && !model->mirrored)
		add_zigzags(ret, true);
}

/* --------------------------------------------------------------------------------------------------------------- rings */

/* Over an odd number of GPUs: the last one in the middle. */
static void add_circles(struct tours *tours, size_t gpus)
{
	for (size_t turn = 0; turn < gpus - 1; turn++, tours->count++) {
		tours->orders[tours->count][0] = (uint8_t)(gpus - 1);
		for (size_t i = 0; i < gpus - 1; i++)
			tours->orders[tours->count][i + 1] = zigzag(i, gpus - 1, turn);
	}
}

/* A way over all GPUs that takes one link of each tour. */
struct crossing_way {
	size_t gpus, length;
	uint8_t tour_of[PLAN_GPUS_MAX][PLAN_GPUS_MAX]; /* of the link from one GPU to another */
	uint8_t next[PLAN_GPUS_MAX];                   /* to be tried, at each place */
	uint8_t order[PLAN_GPUS_MAX];
	unsigned taken, crossed; /* GPUs, tours */
	unsigned steps;
};

enum { CROSSING_STEPS = 20000 }; /* sixteen GPUs and fewer take 600 */

static bool may_go(const struct crossing_way *way, uint8_t to)
{
	uint8_t from = way->order[way->length - 1];

	return !(way->taken >> to & 1U) && !(way->crossed >> way->tour_of[from][to] & 1U);
}

static void go(struct crossing_way *way, uint8_t to)
{
	way->taken |= 1U << to;
	way->crossed |= 1U << way->tour_of[way->order[way->length - 1]][to];
	way->order[way->length++] = to;
	if (way->length < way->gpus)
		way->next[way->length] = 0;
}

static void go_back(struct crossing_way *way)
{
	uint8_t last = way->order[--way->length];

	way->taken &= ~(1U << last);
	way->crossed &= ~(1U << way->tour_of[way->order[way->length - 1]][last]);
}

static bool find_crossing_way(const struct tours *tours, size_t gpus, struct crossing_way *ret)
{
	*ret = (struct crossing_way){ .gpus = gpus, .length = 1, .taken = 1 }; /* they all look alike from GPU 0 */
	for (size_t i = 0; i < tours->count; i++)
		for (size_t j = 0; j < gpus; j++)
			ret->tour_of[tours->orders[i][j]][tours->orders[i][(j + 1) % gpus]] = (uint8_t)i;
	while (ret->length < gpus) {
		uint8_t to = ret->next[ret->length];

		if (++ret->steps > CROSSING_STEPS)
			return false;
		if (to < gpus) {
			ret->next[ret->length]++;
			if (may_go(ret, to))
				go(ret, to);
		} else if (ret->length > 1) {
			go_back(ret);
		} else {
			return false;
		}
	}
	return true;
}

/* The last GPU between those two of a tour. */
static void put_between(uint8_t *order, size_t gpus, uint8_t before, uint8_t last)
{
	size_t place = 0;

	while (order[place] != before)
		place++;
	memmove(order + place + 2, order + place + 1, gpus - place - 1);
	order[place + 1] = last;
}

static void make_rings(size_t gpus, struct tours *ret)
{
	size_t odd = gpus % 2 ? gpus : gpus - 1;
	struct crossing_way way;

	*ret = (struct tours){ .gpus = gpus };
	add_circles(ret, odd);
	if (odd == gpus)
		return;
	if (!find_crossing_way(ret, odd, &way)) {
		for (size_t i = 0; i < ret->count; i++)
			put_between(ret->orders[i], odd, ret->orders[i][1], (uint8_t)odd);
		return;
	}
	for (size_t i = 0; i + 1 < odd; i++)
		put_between(ret->orders[way.tour_of[way.order[i]][way.order[i + 1]]], odd, way.order[i], (uint8_t)odd);
	memcpy(ret->orders[ret->count], way.order, odd);
	ret->orders[ret->count++][odd] = (uint8_t)odd;
}

/* Each begins at another GPU. */
static void turn_rings(struct tours *tours)
{
	for (size_t i = 0; i < tours->count; i++) {
		uint8_t order[2 * PLAN_GPUS_MAX];
		size_t place = 0;

		memcpy(order, tours->orders[i], tours->gpus);
		memcpy(order + tours->gpus, tours->orders[i], tours->gpus);
		while (order[place] != i)
			place++;
		memcpy(tours->orders[i], order + place, tours->gpus);
	}
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

static void add_hop(struct plan_search *search, size_t hop)
{
	const struct plan_model *model = search->model;

	for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++)
		search->loads[model->crossings[i].row] += model->crossings[i].count;
}

enum { IN = 1, OUT = 2 }; /* ends of a tour */

/* Which NIC each tour gets, at one end or at both: the assignment of the least detours in all, so many places a NIC. */
struct nic_choice {
	unsigned ends;
	size_t nics, places;
	double costs[PLAN_CHANNELS_MAX][PLAN_NICS_MAX];
	uint8_t nic_of[PLAN_CHANNELS_MAX];
};

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

enum { PLACES_MAX = PLAN_CHANNELS_MAX + PLAN_NICS_MAX };

/* Kuhn's method: what tours and places pay stays below the costs, and paths of those that meet them grow. */
struct assignment {
	const struct nic_choice *choice;
	size_t places;
	double tour_pays[PLAN_CHANNELS_MAX + 1], place_pays[PLACES_MAX + 1];
	size_t tour_at[PLACES_MAX + 1]; /* and 1; 0: free. The last place is where a tour begins to look */
};

static void assign_one(struct assignment *assignment, size_t tour)
{
	size_t start = assignment->places, at = start, before[PLACES_MAX + 1] = { 0 };
	double least[PLACES_MAX + 1];
	bool done[PLACES_MAX + 1] = { false };

	assignment->tour_at[start] = tour + 1;
	for (size_t place = 0; place < start; place++)
		least[place] = 1e300;
	while (assignment->tour_at[at]) {
		size_t mover = assignment->tour_at[at] - 1, next = 0;
		double step = 1e300;

		done[at] = true;
		for (size_t place = 0; place < start; place++) {
			double cost = assignment->choice->costs[mover][place / assignment->choice->places] -
				      assignment->tour_pays[mover] - assignment->place_pays[place];

			if (done[place])
				continue;
			if (cost < least[place]) {
				least[place] = cost;
				before[place] = at;
			}
			if (least[place] < step) {
				step = least[place];
				next = place;
			}
		}
		for (size_t place = 0; place <= start; place++) {
			if (done[place]) {
				assignment->tour_pays[assignment->tour_at[place] - 1] += step;
				assignment->place_pays[place] -= step;
			} else {
				least[place] -= step;
			}
		}
		at = next;
	}
	for (; at != start; at = before[at])
		assignment->tour_at[at] = assignment->tour_at[before[at]];
}

static void assign_nics(struct nic_choice *choice, size_t tours)
{
	struct assignment assignment = { .choice = choice, .places = choice->nics * choice->places };

	for (size_t tour = 0; tour < tours; tour++)
		assign_one(&assignment, tour);
	for (size_t place = 0; place < assignment.places; place++)
		if (assignment.tour_at[place])
			choice->nic_of[assignment.tour_at[place] - 1] = (uint8_t)(place / choice->places);
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
		const uint8_t *order = order_at(range, i);
		size_t last = model->gpus - 1;

		for (size_t j = 0; j < last; j++)
			add_hop(search, plan_hop(model, order[j], order[j + 1]));
		if (model->closed)
			add_hop(search, plan_hop(model, order[last], order[0]));
		if (model->returns)
			add_hop(search, plan_hop_back(model, order[last], order[0]));
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

static void choose_nics(const struct plan_search *search, const struct tour_range *range, unsigned ends,
			struct nic_choice *ret)
{
	size_t nics = search->model->nics, places = (range->count + nics - 1) / nics;
	double must_be = least_fullness(search, range->count);

	*ret = (struct nic_choice){ .ends = ends, .nics = nics, .places = places };
	for (size_t i = 0; i < range->count; i++)
		for (size_t nic = 0; nic < nics; nic++)
			ret->costs[i][nic] = cost_of_nic(search, order_at(range, i), nic, ends, must_be);
	assign_nics(ret, range->count);
}

static void offer_range(struct plan_search *search, const struct tour_range *range)
{
	const struct plan_model *model = search->model;
	struct plan_selection selection = { 0 };
	struct nic_choice in = { .nics = 0 }, out;

	if (model->network) {
		add_inner_hops(search, range);
		choose_nics(search, range, model->crossnic ? IN : IN | OUT, &in);
	}
	if (model->crossnic)
		choose_nics(search, range, OUT, &out);
	while (selection.count < range->count) {
		size_t i = selection.count;
		struct plan_channel channel = { .nic_in = in.nic_of[i], .nic_out = in.nic_of[i] };

		if (model->crossnic)
			channel.nic_out = out.nic_of[i];
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

	if (!model->nics || !joined_each_to_each(model))
		return;
	if (!model->closed) {
		make_ways(model, &tours);
		offer_tours(search, &tours);
	}
	if (model->closed || (!model->mirrored && (model->gpus % 2 || model->returns))) {
		make_rings(model->gpus, &tours);
		if (!model->closed)
			turn_rings(&tours);
		offer_tours(search, &tours);
	}
}
