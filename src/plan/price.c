/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cheapest channel for given prices. Exactly by dynamic programming over subsets of the GPUs (Held and Karp, 1962):
 *
 *     reach(S, g) = min over h in S without g of reach(S without g, h) + cost(h, g)
 *
 * which is 2^n × n²/2 steps; or by exchanges (moving up to three GPUs elsewhere, turning a stretch round, swapping two)
 * from nearest-neighbour starts and the cheapest columns at hand.
 */
#include "plan/search.h"

#include <string.h>

#define NEVER 1e300

enum { STRIDE = PLAN_GPUS_MAX, STARTS = 3, SUBSETS_NICS_MOST = 4096 };

struct costs {
	size_t gpus;
	double to[PLAN_GPUS_MAX][STRIDE]; /* [to][from] */
	double start[PLAN_GPUS_MAX], end[PLAN_GPUS_MAX];
	double back[PLAN_GPUS_MAX][PLAN_GPUS_MAX]; /* [last][first], of rings that also return */
};

static double hop_cost(const struct plan_model *model, size_t hop, const double *prices, double detour_price)
{
	return detour_price * model->detour[hop] + plan_hop_price(model, hop, prices);
}

static void cost_hops(const struct plan_model *model, const double *prices, double detour_price, struct costs *ret)
{
	ret->gpus = model->gpus;
	for (size_t to = 0; to < model->gpus; to++)
		for (size_t from = 0; from < STRIDE; from++)
			ret->to[to][from] = from < model->gpus && from != to
						    ? hop_cost(model, plan_hop(model, from, to), prices, detour_price)
						    : NEVER;
	for (size_t last = 0; model->returns && last < model->gpus; last++)
		for (size_t first = 0; first < model->gpus; first++)
			ret->back[last][first] = hop_cost(model, plan_hop_back(model, last, first), prices,
							  detour_price);
}

struct ends {
	double in[PLAN_NICS_MAX][PLAN_GPUS_MAX], out[PLAN_NICS_MAX][PLAN_GPUS_MAX];
};

static void cost_ends(const struct plan_model *model, const double *prices, double detour_price, struct ends *ret)
{
	for (size_t nic = 0; nic < model->nics; nic++) {
		for (size_t gpu = 0; gpu < model->gpus; gpu++) {
			ret->in[nic][gpu] = hop_cost(model, plan_hop_in(model, nic, gpu), prices, detour_price);
			ret->out[nic][gpu] = hop_cost(model, plan_hop_out(model, nic, gpu), prices, detour_price);
		}
	}
}

/* ------------------------------------------------------------------------------------------------------------ exact */

static double least_of(const double *row, const double *to)
{
	double least[4] = { NEVER, NEVER, NEVER, NEVER };

	for (size_t i = 0; i < STRIDE; i += 4) {
		for (size_t j = 0; j < 4; j++) {
			double cost = row[i + j] + to[i + j];

			least[j] = cost < least[j] ? cost : least[j];
		}
	}
	least[0] = least[0] < least[1] ? least[0] : least[1];
	least[2] = least[2] < least[3] ? least[2] : least[3];
	return least[0] < least[2] ? least[0] : least[2];
}

/* Ways that begin anywhere, or at one GPU alone. */
enum { ANYWHERE = PLAN_GPUS_MAX };

static void fill_reach(const struct costs *costs, size_t start, double *reach)
{
	size_t subsets = (size_t)1 << costs->gpus;

	for (size_t subset = 1; subset < subsets; subset++) {
		double *row = &reach[subset * STRIDE];

		for (size_t i = 0; i < STRIDE; i++)
			row[i] = NEVER;
		if (start != ANYWHERE && !(subset & ((size_t)1 << start)))
			continue;
		for (size_t i = 0; i < costs->gpus; i++) {
			size_t rest = subset & ~((size_t)1 << i);

			if (rest == subset)
				continue;
			if (!rest)
				row[i] = costs->start[i];
			else
				row[i] = least_of(&reach[rest * STRIDE], costs->to[i]);
		}
	}
}

/* Back from one end. */
static void read_back(const struct costs *costs, const double *reach, size_t at, uint8_t *ret_order)
{
	size_t subset = ((size_t)1 << costs->gpus) - 1;

	for (size_t place = costs->gpus; place-- > 0;) {
		const double *row;
		double best = NEVER;
		size_t next = at;

		ret_order[place] = (uint8_t)at;
		subset &= ~((size_t)1 << at);
		row = &reach[subset * STRIDE];
		for (size_t i = 0; place && i < costs->gpus; i++) {
			if ((subset & ((size_t)1 << i)) && row[i] + costs->to[at][i] < best) {
				best = row[i] + costs->to[at][i];
				next = i;
			}
		}
		at = next;
	}
}

static void insert(struct plan_priced *priced, const struct plan_channel *channel, double cost)
{
	size_t place = priced->count;

	if (cost >= NEVER)
		return;
	if (place == PLAN_PRICED_MAX) {
		if (cost >= priced->costs[place - 1])
			return;
		place--;
	} else {
		priced->count++;
	}
	for (; place && cost < priced->costs[place - 1]; place--) {
		priced->costs[place] = priced->costs[place - 1];
		priced->channels[place] = priced->channels[place - 1];
	}
	priced->costs[place] = cost;
	priced->channels[place] = *channel;
}

/* The cheapest way to each end. *channel has the NICs. The least cost of all. */
static double read_reach(const struct costs *costs, const double *reach, struct plan_channel *channel,
			 struct plan_priced *priced)
{
	const double *row = &reach[(((size_t)1 << costs->gpus) - 1) * STRIDE];
	double least = NEVER;

	for (size_t at = 0; at < costs->gpus; at++) {
		double cost = row[at] + costs->end[at];

		if (cost >= NEVER)
			continue;
		least = cost < least ? cost : least;
		read_back(costs, reach, at, channel->order);
		insert(priced, channel, cost);
	}
	return least;
}

/* The NIC that a ring comes in by is the one it leaves by: one run for each, where that is not too much. */
static bool each_nic(const struct plan_model *model)
{
	return !model->mirrored && !model->crossnic && model->nics > 1 &&
	       model->nics << model->gpus <= SUBSETS_NICS_MOST;
}

uint64_t plan_price_work(const struct plan_model *model)
{
	uint64_t once = ((uint64_t)1 << model->gpus) * model->gpus * STRIDE / 2;

	if (model->returns)
		return once / 2 * model->gpus + 64;
	return once / (model->closed ? 2 : 1) * (each_nic(model) ? model->nics : 1) + 64;
}

static void cheapest_nics(const struct plan_model *model, const struct ends *ends, struct plan_channel *channel,
			  double *ret_cost)
{
	size_t first = channel->order[0], last = channel->order[model->gpus - 1], in = 0, out = 0;

	for (size_t nic = 1; nic < model->nics; nic++) {
		if (model->crossnic) {
			in = ends->in[nic][first] < ends->in[in][first] ? nic : in;
			out = ends->out[nic][last] < ends->out[out][last] ? nic : out;
		} else if (ends->in[nic][first] + ends->out[nic][last] < ends->in[in][first] + ends->out[in][last]) {
			in = out = nic;
		}
	}
	channel->nic_in = (uint8_t)in;
	channel->nic_out = (uint8_t)out;
	*ret_cost = ends->in[in][first] + ends->out[out][last];
}

/* Each end by whichever NIC is cheapest: what costs least if the NICs may differ, and a bound if they may not. */
static void loose_ends(const struct plan_model *model, const struct ends *ends, struct costs *costs)
{
	for (size_t gpu = 0; gpu < model->gpus; gpu++) {
		costs->start[gpu] = costs->end[gpu] = NEVER;
		for (size_t nic = 0; nic < model->nics; nic++) {
			if (ends->in[nic][gpu] < costs->start[gpu])
				costs->start[gpu] = ends->in[nic][gpu];
			if (ends->out[nic][gpu] < costs->end[gpu])
				costs->end[gpu] = ends->out[nic][gpu];
		}
	}
}

static double inner_cost(const struct costs *costs, const uint8_t *order)
{
	double cost = 0;

	for (size_t i = 1; i < costs->gpus; i++)
		cost += costs->to[order[i]][order[i - 1]];
	return cost;
}

static void price_open(struct plan_columns *columns, struct costs *costs, const struct ends *ends,
		       struct plan_priced *ret)
{
	const struct plan_model *model = columns->model;
	struct plan_channel channel = { 0 };
	struct plan_priced loose = { 0 };

	if (!each_nic(model)) {
		loose_ends(model, ends, costs);
		fill_reach(costs, ANYWHERE, columns->reach);
		ret->least = read_reach(costs, columns->reach, &channel, &loose);
		for (size_t i = 0; i < loose.count; i++) {
			double nics_cost;

			cheapest_nics(model, ends, &loose.channels[i], &nics_cost);
			insert(ret, &loose.channels[i], inner_cost(costs, loose.channels[i].order) + nics_cost);
		}
		return;
	}
	ret->least = NEVER;
	for (size_t nic = 0; nic < model->nics; nic++) {
		double least;

		channel.nic_in = channel.nic_out = (uint8_t)nic;
		memcpy(costs->start, ends->in[nic], sizeof(costs->start));
		memcpy(costs->end, ends->out[nic], sizeof(costs->end));
		fill_reach(costs, ANYWHERE, columns->reach);
		least = read_reach(costs, columns->reach, &channel, ret);
		ret->least = least < ret->least ? least : ret->least;
	}
}

/* What the way back costs depends on both ends: one run for each first GPU, after which any NICs can be looked at. */
static void price_returning(struct plan_columns *columns, struct costs *costs, const struct ends *ends,
			    struct plan_priced *ret)
{
	const struct plan_model *model = columns->model;
	const double *row = &columns->reach[(((size_t)1 << costs->gpus) - 1) * STRIDE];

	ret->least = NEVER;
	for (size_t first = 0; first < costs->gpus; first++) {
		for (size_t i = 0; i < costs->gpus; i++)
			costs->start[i] = i == first ? 0 : NEVER;
		fill_reach(costs, first, columns->reach);
		for (size_t last = 0; last < costs->gpus; last++) {
			struct plan_channel channel = { 0 };
			double cost;

			if (row[last] >= NEVER)
				continue;
			channel.order[0] = (uint8_t)first;
			channel.order[costs->gpus - 1] = (uint8_t)last;
			cheapest_nics(model, ends, &channel, &cost);
			cost += row[last] + (costs->gpus > 1 ? costs->back[last][first] : 0);
			ret->least = cost < ret->least ? cost : ret->least;
			if (ret->count == PLAN_PRICED_MAX && cost >= ret->costs[PLAN_PRICED_MAX - 1])
				continue;
			read_back(costs, columns->reach, last, channel.order);
			insert(ret, &channel, cost);
		}
	}
}

/* -------------------------------------------------------------------------------------------------------- exchanges */

/* Cost of an order with the NICs that suit it best; closed: with the way back. */
static double full_cost(const struct plan_model *model, const struct costs *costs, const struct ends *ends,
			struct plan_channel *channel)
{
	double cost = inner_cost(costs, channel->order), nics_cost;

	if (model->closed)
		return cost + (costs->gpus > 1 ? costs->to[channel->order[0]][channel->order[costs->gpus - 1]] : 0);
	cheapest_nics(model, ends, channel, &nics_cost);
	if (model->returns && costs->gpus > 1)
		cost += costs->back[channel->order[costs->gpus - 1]][channel->order[0]];
	return cost + nics_cost;
}

static void move_stretch(const uint8_t *order, size_t count, size_t from, size_t length, size_t to, uint8_t *ret)
{
	uint8_t rest[PLAN_GPUS_MAX] = { 0 };
	size_t place = 0;

	for (size_t i = 0; i < count; i++)
		if (i < from || i >= from + length)
			rest[place++] = order[i];
	memcpy(ret, rest, to);
	memcpy(ret + to, order + from, length);
	memcpy(ret + to + length, rest + to, place - to);
}

static void turn_stretch(const uint8_t *order, size_t count, size_t from, size_t to, uint8_t *ret)
{
	memcpy(ret, order, count);
	for (size_t i = from; i <= to; i++)
		ret[i] = order[from + to - i];
}

/* An order that is being exchanged, and what its stretches cost as they are and the other way round. */
struct exchange {
	struct plan_columns *columns;
	const struct costs *costs;
	const struct ends *ends;
	struct plan_channel *best;
	double cost;
	double forwards[PLAN_GPUS_MAX], backwards[PLAN_GPUS_MAX]; /* of the hops up to each place */
};

static void sum_stretches(struct exchange *exchange)
{
	const uint8_t *order = exchange->best->order;

	for (size_t i = 1; i < exchange->costs->gpus; i++) {
		exchange->forwards[i] = exchange->forwards[i - 1] + exchange->costs->to[order[i]][order[i - 1]];
		exchange->backwards[i] = exchange->backwards[i - 1] + exchange->costs->to[order[i - 1]][order[i]];
	}
	exchange->columns->work += 2 * exchange->costs->gpus;
}

static bool take_if_cheaper(struct exchange *exchange, const struct plan_channel *tried)
{
	struct plan_channel channel = *tried;
	double tried_cost = full_cost(exchange->columns->model, exchange->costs, exchange->ends, &channel);

	exchange->columns->work += 2 * exchange->costs->gpus + exchange->columns->model->nics;
	if (tried_cost >= exchange->cost * (1 - 1e-12))
		return false;
	*exchange->best = channel;
	exchange->cost = tried_cost;
	sum_stretches(exchange);
	return true;
}

/* Whether what an exchange changes, of inner hops alone, can make the channel cheaper. */
static bool worth_trying(struct exchange *exchange, double change)
{
	exchange->columns->work += 6;
	return change < exchange->cost * -1e-11;
}

static double hop_between(const struct exchange *exchange, size_t from_place, size_t to_place)
{
	const uint8_t *order = exchange->best->order;

	return exchange->costs->to[order[to_place]][order[from_place]];
}

/* A stretch goes elsewhere; `to` is its place once it is out. The ends are looked at in full. */
static bool try_move(struct exchange *exchange, size_t from, size_t length, size_t to)
{
	size_t count = exchange->costs->gpus, end = from + length - 1;
	size_t before = to < from ? to - 1 : to + length - 1; /* the place that it then follows */
	struct plan_channel tried = *exchange->best;

	if (from && end + 1 < count && to && to + length < count) {
		double change = hop_between(exchange, from - 1, end + 1) + hop_between(exchange, before, from) +
				hop_between(exchange, end, before + 1) - hop_between(exchange, from - 1, from) -
				hop_between(exchange, end, end + 1) - hop_between(exchange, before, before + 1);

		if (!worth_trying(exchange, change))
			return false;
	}
	move_stretch(exchange->best->order, count, from, length, to, tried.order);
	return take_if_cheaper(exchange, &tried);
}

static bool try_turn(struct exchange *exchange, size_t from, size_t to)
{
	size_t count = exchange->costs->gpus;
	struct plan_channel tried = *exchange->best;

	if (from && to + 1 < count) {
		double change = hop_between(exchange, from - 1, to) + hop_between(exchange, from, to + 1) -
				hop_between(exchange, from - 1, from) - hop_between(exchange, to, to + 1) +
				exchange->backwards[to] - exchange->backwards[from] - exchange->forwards[to] +
				exchange->forwards[from];

		if (!worth_trying(exchange, change))
			return false;
	}
	turn_stretch(exchange->best->order, count, from, to, tried.order);
	return take_if_cheaper(exchange, &tried);
}

static bool try_swap(struct exchange *exchange, size_t first, size_t second)
{
	size_t count = exchange->costs->gpus;
	struct plan_channel tried = *exchange->best;

	/* Neighbours are turned round by the other exchange. */
	if (first && second + 1 < count && second > first + 1) {
		double change = hop_between(exchange, first - 1, second) + hop_between(exchange, second, first + 1) +
				hop_between(exchange, second - 1, first) + hop_between(exchange, first, second + 1) -
				hop_between(exchange, first - 1, first) - hop_between(exchange, first, first + 1) -
				hop_between(exchange, second - 1, second) - hop_between(exchange, second, second + 1);

		if (!worth_trying(exchange, change))
			return false;
	}
	tried.order[first] = exchange->best->order[second];
	tried.order[second] = exchange->best->order[first];
	return take_if_cheaper(exchange, &tried);
}

/* One round of exchanges; false: none helps. */
static bool improve_once(struct exchange *exchange)
{
	size_t count = exchange->costs->gpus;
	bool better = false;

	for (size_t length = 1; length <= 3 && length < count; length++)
		for (size_t from = 0; from + length <= count; from++)
			for (size_t to = 0; to + length <= count; to++)
				if (to != from)
					better |= try_move(exchange, from, length, to);
	for (size_t from = 0; from < count; from++) {
		for (size_t to = from + 1; to < count; to++) {
			better |= try_turn(exchange, from, to);
			better |= try_swap(exchange, from, to);
		}
	}
	return better;
}

static void nearest_neighbours(const struct costs *costs, size_t start, uint8_t *ret_order)
{
	uint32_t left = ((uint32_t)1 << costs->gpus) - 1;
	size_t at = start;

	for (size_t place = 0; place < costs->gpus; place++) {
		double least = NEVER;
		size_t next = at;

		ret_order[place] = (uint8_t)at;
		left &= ~((uint32_t)1 << at);
		for (size_t i = 0; i < costs->gpus; i++) {
			if ((left & ((uint32_t)1 << i)) && costs->to[i][at] < least) {
				least = costs->to[i][at];
				next = i;
			}
		}
		at = next;
	}
}

static void price_roughly(struct plan_columns *columns, const struct costs *costs, const struct ends *ends,
			  struct plan_priced *ret)
{
	for (size_t start = 0; start < STARTS && start < costs->gpus; start++) {
		struct plan_channel channel = { 0 };
		struct exchange exchange = { .columns = columns, .costs = costs, .ends = ends, .best = &channel };

		nearest_neighbours(costs, start * costs->gpus / STARTS, channel.order);
		exchange.cost = full_cost(columns->model, costs, ends, &channel);
		sum_stretches(&exchange);
		while (improve_once(&exchange))
			;
		insert(ret, &channel, exchange.cost);
	}
}

void plan_price(struct plan_columns *columns, const double *prices, double detour_price, bool exact,
		struct plan_priced *ret)
{
	const struct plan_model *model = columns->model;
	struct plan_channel channel = { 0 };
	struct costs costs;
	struct ends ends;

	cost_hops(model, prices, detour_price, &costs);
	cost_ends(model, prices, detour_price, &ends);
	memset(ret, 0, sizeof(*ret));
	columns->work += 4 * model->first[model->hops];
	if (!exact) {
		price_roughly(columns, &costs, &ends, ret);
		return;
	}
	columns->work += plan_price_work(model);
	if (model->returns) {
		price_returning(columns, &costs, &ends, ret);
		return;
	}
	if (!model->closed) {
		price_open(columns, &costs, &ends, ret);
		return;
	}
	for (size_t gpu = 0; gpu < model->gpus; gpu++) {
		costs.start[gpu] = gpu ? NEVER : 0;
		costs.end[gpu] = gpu ? costs.to[0][gpu] : NEVER;
	}
	if (model->gpus == 1)
		costs.end[0] = 0;
	fill_reach(&costs, 0, columns->reach);
	ret->least = read_reach(&costs, columns->reach, &channel, ret);
}
