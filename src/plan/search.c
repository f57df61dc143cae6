/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/search.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum {
	CHEAP_PRICING = 100000, /* steps: up to here pricing is always exact */
	REPAIR_ROUNDS = 12,
	SEEDS = 3,
};

/* ----------------------------------------------------------------------------------------------------------- seeds */

static void seed_prices(struct plan_search *search, double price, double detour_price)
{
	bool exact = plan_price_work(search->model) <= CHEAP_PRICING;
	struct plan_priced priced;

	for (size_t row = 0; row < search->model->rows; row++)
		search->prices[row] = price / search->capacities[row];
	plan_price(&search->columns, search->prices, detour_price, exact, &priced);
	(void)plan_search_add(search, &priced, 1);
}

static double price_of_hop(const struct plan_search *search, size_t hop)
{
	return 1e-9 * search->model->detour[hop] + plan_hop_price(search->model, hop, search->prices);
}

static struct plan_channel turned_to(const struct plan_model *model, const struct plan_channel *seed, size_t turn,
				     size_t nic, bool backwards)
{
	struct plan_channel channel = { .nic_in = (uint8_t)nic, .nic_out = (uint8_t)nic };

	for (size_t i = 0; i < model->gpus; i++)
		channel.order[i] = seed->order[(turn + (backwards ? model->gpus - i : i)) % model->gpus];
	return channel;
}

/* The turns of a channel, or of it the other way round, that are cheapest to begin and end at a NIC. */
static void seed_nic(struct plan_search *search, const struct plan_channel *seed, size_t nic, bool backwards)
{
	const struct plan_model *model = search->model;
	size_t gpus = model->gpus;
	double prices[PLAN_GPUS_MAX], least = 0;

	for (size_t turn = 0; turn < gpus; turn++) {
		struct plan_channel channel = turned_to(model, seed, turn, nic, backwards);

		prices[turn] = price_of_hop(search, plan_hop_in(model, nic, channel.order[0])) +
			       price_of_hop(search, plan_hop_out(model, nic, channel.order[gpus - 1]));
		least = turn && prices[turn] >= least ? least : prices[turn];
	}
	for (size_t turn = 0; turn < gpus; turn++) {
		struct plan_channel channel = turned_to(model, seed, turn, nic, backwards);
		uint32_t column;

		if (prices[turn] <= least * (1 + 1e-9))
			(void)plan_columns_add(&search->columns, &channel, &column);
	}
}

/*
 * Of many NICs each wants a channel that begins and ends near it; inside, the first columns are as good as any. A chain
 * on one host has ends that carry less, which should not be the same GPUs always.
 */
static void seed_turns(struct plan_search *search)
{
	size_t seeds = search->columns.count < SEEDS ? search->columns.count : SEEDS;

	if (search->model->closed || search->columns.complete)
		return;
	for (size_t i = 0; i < seeds; i++) {
		struct plan_channel seed = search->columns.channels[i];

		for (size_t j = 0; j < 2 * search->model->nics; j++)
			seed_nic(search, &seed, j / 2, j % 2);
	}
}

/* Columns to begin with, and the best of them alone. True: it crosses nothing that is known. */
static bool seed_columns(struct plan_search *search)
{
	double unit = search->simplex.unit;

	seed_prices(search, 0, 1);
	seed_prices(search, unit, 1e-9);
	seed_prices(search, unit * 1e6, 1);
	plan_columns_enumerate(&search->columns, search->work_limit / 2);
	seed_turns(search);
	plan_search_seed_mesh(search);
	for (uint32_t column = 0; column < search->columns.count; column++) {
		struct plan_selection one = { .count = 1, .columns = { column } };

		(void)plan_search_take(search, &one);
		if (one.capacity_Bps == PLAN_UNBOUNDED_BPS)
			return true;
	}
	return false;
}

/* The fuller a row is beside the fullest one, the dearer. */
static void price_loads(struct plan_search *search)
{
	const struct plan_model *model = search->model;
	double unit = search->simplex.unit, most = 0;

	for (size_t row = 0; row < model->rows; row++) {
		double used = search->loads[row] / search->capacities[row];

		most = used > most ? used : most;
	}
	for (size_t row = 0; row < model->rows; row++) {
		double used = most > 0 ? search->loads[row] / search->capacities[row] / most : 0;

		used *= used;
		used *= used;
		search->prices[row] = (used + 0.01) * unit / search->capacities[row];
	}
}

static uint32_t cheapest_known(struct plan_search *search)
{
	uint32_t best = 0;
	double least = 0;

	for (uint32_t column = 0; column < search->columns.count; column++) {
		double cost = 1e-9 * search->columns.detours[column] +
			      plan_column_price(&search->columns, column, search->prices);

		if (column && cost >= least)
			continue;
		best = column;
		least = cost;
	}
	search->columns.work += search->columns.count * search->model->rows;
	return best;
}

/* The same out of the columns there are, which is cheap. */
static void pack_known(struct plan_search *search)
{
	struct plan_selection selection = { 0 };
	uint64_t stop = search->columns.work + search->work_limit / 8;

	memset(search->loads, 0, search->model->rows * sizeof(*search->loads));
	while (selection.count < search->model->channels_max && search->columns.work < stop &&
	       !plan_search_done(search)) {
		price_loads(search);
		selection.columns[selection.count++] = cheapest_known(search);
		plan_search_offer(search, &selection);
	}
}

/* One channel after the other, each by what is least loaded. */
static void pack_columns(struct plan_search *search)
{
	struct plan_columns *columns = &search->columns;
	bool exact = plan_price_work(search->model) <= CHEAP_PRICING;
	struct plan_selection selection = { 0 };
	uint64_t stop;

	if (search->columns.count > SEEDS)
		pack_known(search);
	/* What the linear program and exchanges begin with is good enough. */
	if (plan_selection_total(&search->best) >= 0.9 * search->bound_Bps)
		return;
	stop = search->columns.work + search->work_limit / 4;
	memset(search->loads, 0, search->model->rows * sizeof(*search->loads));
	while (selection.count < search->model->channels_max && columns->work < stop && !plan_search_done(search)) {
		struct plan_priced priced;
		uint32_t column;

		price_loads(search);
		plan_price(columns, search->prices, 1e-9, exact, &priced);
		if (!priced.count || plan_columns_add(columns, &priced.channels[0], &column) < 0)
			break;
		selection.columns[selection.count++] = column;
		plan_search_offer(search, &selection);
	}
}

/* ------------------------------------------------------------------------------------------------------ relaxation */

/* Any prices that are not negative give a bound: no channel costs less than `least`, and all capacity costs `sum`. */
static void take_duals(struct plan_search *search, double sum, double least)
{
	double bound = search->simplex.unit * sum / least;

	if (bound >= search->bound_Bps * (1 - 1e-12) && search->bound_closed)
		return;
	for (size_t row = 0; row < search->model->rows; row++)
		search->duals[row] = search->prices[row] / least;
	search->bound_closed = true;
	if (bound < search->bound_Bps)
		search->bound_Bps = bound;
}

static double price_rows(struct plan_search *search)
{
	const struct plan_simplex *simplex = &search->simplex;
	double sum = 0;

	for (size_t row = 0; row < simplex->rows; row++) {
		double price = simplex->prices[row] > 0 ? simplex->prices[row] : 0;

		sum += price;
		search->prices[row] = price * simplex->scale[row];
	}
	return sum;
}

static double least_column(const struct plan_search *search)
{
	double least = 1;

	for (uint32_t column = 0; column < search->columns.count; column++) {
		double cost = plan_column_price(&search->columns, column, search->prices);

		least = cost < least ? cost : least;
	}
	return least;
}

/* More channels for the prices of now; false: there is none that helps, or no work is left. */
static bool price_more(struct plan_search *search, double sum)
{
	struct plan_columns *columns = &search->columns;
	bool exact = plan_price_work(search->model) <= CHEAP_PRICING;

	for (;; exact = true) {
		struct plan_priced priced;
		size_t helpful = 0;

		if (exact && columns->work + plan_price_work(search->model) > search->work_limit)
			return false;
		plan_price(columns, search->prices, 0, exact, &priced);
		if (exact && priced.least > 0)
			take_duals(search, sum, priced.least);
		while (helpful < priced.count && priced.costs[helpful] < 1 - PLAN_CLOSE / 4)
			helpful++;
		if (helpful)
			return plan_search_add(search, &priced, helpful) > 0;
		if (exact)
			return false;
	}
}

void plan_search_relax(struct plan_search *search)
{
	uint64_t work = search->columns.work, left = search->work_limit > work ? search->work_limit - work : 0;
	uint64_t most = work + left / 2;

	do {
		double sum;

		if (!plan_simplex_run(&search->simplex, &search->columns, most))
			return;
		sum = price_rows(search);
		if (search->columns.complete) {
			take_duals(search, sum, least_column(search));
			return;
		}
		if (!price_more(search, sum))
			return;
	} while (search->columns.work < most && !plan_search_done(search));
}

/* ---------------------------------------------------------------------------------------------------- equal shares */

/* `count` channels in the proportions of the linear program. */
static void round_shares(struct plan_search *search, size_t count, struct plan_selection *ret)
{
	size_t columns = search->columns.count;
	double total = 0;

	memset(ret, 0, sizeof(*ret));
	plan_simplex_shares(&search->simplex, columns, search->shares);
	for (size_t i = 0; i < columns; i++)
		total += search->shares[i];
	while (ret->count < count) {
		size_t most = 0;

		for (size_t i = 1; i < columns; i++)
			if (search->shares[i] > search->shares[most])
				most = i;
		ret->columns[ret->count++] = (uint32_t)most;
		search->shares[most] -= total / (double)count;
	}
	search->columns.work += columns * (count + 1);
}

static bool beat_from(struct plan_search *search, const struct plan_selection *start, uint64_t work_limit)
{
	struct plan_selection selection = *start;

	if (!selection.count)
		return false;
	if (plan_search_take(search, &selection))
		return true;
	plan_search_limits(search, selection.count, 1000, true);
	return plan_search_repair(search, &selection, REPAIR_ROUNDS, work_limit) &&
	       plan_search_take(search, &selection);
}

int plan_search_beat(struct plan_search *search, size_t count, uint64_t work_limit)
{
	for (;;) {
		struct plan_selection selection;
		int r;

		plan_search_limits(search, count, 1000, true);
		if (!plan_search_may_fit(search, count))
			return 0;
		if (search->columns.work >= work_limit)
			return -EAGAIN;
		round_shares(search, count, &selection);
		if (beat_from(search, &selection, work_limit) || beat_from(search, &search->packed[count], work_limit))
			continue;
		if (!search->columns.complete)
			return -EAGAIN;
		plan_search_limits(search, count, 1000, true);
		r = plan_search_prove(search, count, work_limit, &selection);
		if (r != 1)
			return r;
		if (!plan_search_take(search, &selection))
			return -EAGAIN;
	}
}

/* The largest total of equal shares. Sets `exact`. */
static int find_equal(struct plan_search *search)
{
	size_t most = search->model->channels_max;
	bool proved = true;

	/* Each number of channels may take twice its part of the work that is left. */
	for (size_t count = 1; count <= most && !plan_search_done(search); count++) {
		uint64_t left = search->work_limit - search->columns.work;
		int r;

		if (search->columns.work >= search->work_limit)
			left = 0;
		r = plan_search_beat(search, count, search->columns.work + 2 * left / (most - count + 2));
		if (r == -ENOMEM)
			return r;
		proved = proved && r == 0;
	}
	/* A better total found later makes what was proved before no weaker. */
	search->exact = proved || plan_search_done(search);
	return 0;
}

int plan_search_run(struct plan_search *search, uint64_t bound_Bps)
{
	search->bound_Bps = bound_Bps >= PLAN_UNBOUNDED_BPS ? (double)PLAN_UNBOUNDED_BPS : (double)bound_Bps;
	if (seed_columns(search)) {
		search->exact = true;
		return 0;
	}
	pack_columns(search);
	if (!plan_search_done(search))
		plan_search_relax(search);
	return find_equal(search);
}

/* ----------------------------------------------------------------------------------------------------- few channels */

static void take_larger(struct plan_search *search, const struct plan_selection *selection, struct plan_selection *best)
{
	struct plan_selection valued = *selection;

	if (!valued.count)
		return;
	plan_selection_value(search, &valued);
	if (!best->count || plan_selection_compare(&valued, best) > 0)
		*best = valued;
}

/* Of a selection with another number: all of its channels again and again. */
static struct plan_selection repeated(const struct plan_selection *from, size_t count)
{
	struct plan_selection selection = { .count = from->count ? count : 0 };

	for (size_t i = 0; i < selection.count; i++)
		selection.columns[i] = from->columns[i % from->count];
	return selection;
}

static bool enough(const struct plan_search *search, const struct plan_selection *selection, unsigned permille)
{
	return plan_selection_total(selection) >=
	       plan_selection_total(&search->best) * permille / 1000 * (1 - PLAN_CLOSE);
}

bool plan_search_few(struct plan_search *search, size_t count, unsigned permille, uint64_t work_limit,
		     struct plan_selection *ret)
{
	struct plan_selection starts[4] = { repeated(&search->best, count), search->packed[count] };
	size_t start_count = sizeof(starts) / sizeof(starts[0]);

	round_shares(search, count, &starts[2]);
	for (size_t i = 1; i < count; i++)
		if (count % i == 0 && search->packed[i].count)
			starts[3] = repeated(&search->packed[i], count);
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < start_count; i++)
		take_larger(search, &starts[i], ret);
	if (enough(search, ret, permille))
		return true;
	for (size_t i = 0; i < start_count && search->columns.work < work_limit; i++) {
		plan_search_limits(search, count, permille, false);
		if (!plan_search_may_fit(search, count))
			return false;
		if (!starts[i].count)
			continue;
		(void)plan_search_repair(search, &starts[i], REPAIR_ROUNDS, work_limit);
		take_larger(search, &starts[i], ret);
		if (enough(search, ret, permille))
			return true;
	}
	return false;
}
