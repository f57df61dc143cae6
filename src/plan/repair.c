/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanging channels. Rows over their limit get dearer round by round, and one channel after the other is taken out and
 * put back by the cheapest way there is then, as routers of circuit boards do it.
 */
#include "plan/search.h"

#include "base/sys.h"

#include <string.h>

enum { POLISH_ROUNDS = 4, CHEAP_PRICING = 25000 };

static uint64_t excess(const struct plan_search *search)
{
	uint64_t sum = 0;

	for (size_t row = 0; row < search->model->rows; row++)
		if (search->loads[row] > search->limits[row])
			sum += search->loads[row] - search->limits[row];
	return sum;
}

/* What a column would add to the rows over their limit, by weight; stops where it is not below `most`. */
static double excess_cost(const struct plan_search *search, uint32_t column, double most)
{
	const uint16_t *loads = plan_column_loads(&search->columns, column);
	const uint16_t *touched = plan_column_touched(&search->columns, column);
	size_t count = search->columns.touched_counts[column];
	double cost = 0;

	for (size_t i = 0; i < count && cost < most; i++) {
		size_t row = touched[i];
		uint32_t now = search->loads[row], load = now + loads[row], limit = search->limits[row];

		if (load > limit)
			cost += search->weights[row] * (load - (now > limit ? now : limit));
	}
	return cost;
}

static uint32_t cheapest_column(struct plan_search *search, uint32_t now, double *ret_cost)
{
	uint32_t best = now;
	double least = excess_cost(search, now, 1e300);

	for (uint32_t column = 0; column < search->columns.count; column++) {
		double cost = excess_cost(search, column, least * (1 + 1e-12) + 1e-300);

		if (cost < least ||
		    (cost <= least && search->columns.detours[column] < search->columns.detours[best])) {
			least = cost;
			best = column;
		}
	}
	search->columns.work += search->columns.count * search->model->rows / 2;
	*ret_cost = least;
	return best;
}

/* A new column for the rows as they are with one channel missing. */
static void price_column(struct plan_search *search)
{
	struct plan_priced priced;

	for (size_t row = 0; row < search->model->rows; row++) {
		uint32_t load = search->loads[row] + 1, limit = search->limits[row];

		search->prices[row] = search->weights[row] * (load > limit ? 1 : 0.01 * load / limit);
	}
	plan_price(&search->columns, search->prices, 1e-9, plan_price_work(search->model) <= CHEAP_PRICING, &priced);
	(void)plan_search_add(search, &priced, 2);
}

static bool touches_excess(const struct plan_search *search, uint32_t column)
{
	const uint16_t *touched = plan_column_touched(&search->columns, column);

	for (size_t i = 0; i < search->columns.touched_counts[column]; i++)
		if (search->loads[touched[i]] > search->limits[touched[i]])
			return true;
	return false;
}

bool plan_search_repair(struct plan_search *search, struct plan_selection *selection, unsigned rounds,
			uint64_t work_limit)
{
	size_t rows = search->model->rows;

	for (size_t row = 0; row < rows; row++)
		search->weights[row] = 1;
	plan_selection_value(search, selection);
	for (unsigned round = 0; round < rounds && search->columns.work < work_limit; round++) {
		if (!excess(search))
			return true;
		for (size_t i = 0; i < selection->count; i++) {
			uint32_t now = selection->columns[i];
			double cost;

			if (!touches_excess(search, now))
				continue;
			plan_search_load(search, now, false);
			selection->columns[i] = cheapest_column(search, now, &cost);
			if (cost > 0 && selection->columns[i] == now && !search->columns.complete) {
				price_column(search);
				selection->columns[i] = cheapest_column(search, now, &cost);
			}
			plan_search_load(search, selection->columns[i], true);
		}
		for (size_t row = 0; row < rows; row++)
			if (search->loads[row] > search->limits[row])
				search->weights[row] += 1;
	}
	return !excess(search);
}

/* ---------------------------------------------------------------------------------------------------------- polish */

static uint64_t detours_of(const struct plan_search *search, const struct plan_selection *selection)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < selection->count; i++)
		sum += search->columns.detours[selection->columns[i]];
	return sum;
}

/* Each channel for one with fewer detours, while the rows allow it. */
static void shorten(struct plan_search *search, struct plan_selection *selection)
{
	bool better = true;

	plan_selection_value(search, selection);
	for (unsigned round = 0; better && round < POLISH_ROUNDS; round++) {
		better = false;
		for (size_t i = 0; i < selection->count; i++) {
			uint32_t best = selection->columns[i];

			plan_search_load(search, best, false);
			for (uint32_t column = 0; column < search->columns.count; column++)
				if (search->columns.detours[column] < search->columns.detours[best] &&
				    plan_search_fits(search, column))
					best = column;
			search->columns.work += search->columns.count * 4;
			better = better || best != selection->columns[i];
			selection->columns[i] = best;
			plan_search_load(search, best, true);
		}
	}
}

void plan_search_polish(struct plan_search *search, size_t least, size_t most)
{
	struct plan_selection chosen = search->best;
	uint32_t shortest = 0;
	/* Some work is kept for this. */
	uint64_t limit = search->columns.work + search->work_limit / 4;

	if (search->best.capacity_Bps == PLAN_UNBOUNDED_BPS)
		return;
	search->work_limit = limit;
	for (uint32_t column = 1; column < search->columns.count; column++)
		if (search->columns.detours[column] < search->columns.detours[shortest])
			shortest = column;
	for (size_t count = least; count <= most; count++) {
		struct plan_selection selection = { .count = count };
		uint64_t first, second;

		if (detours_of(search, &chosen) == (uint64_t)chosen.count * search->columns.detours[shortest] &&
		    chosen.count <= count)
			break; /* nothing is shorter, and fewer did not do */
		plan_search_limits(search, count, 1000, false);
		if (!plan_search_may_fit(search, count))
			continue;
		for (size_t i = 0; i < count; i++)
			selection.columns[i] = shortest;
		if (count == search->best.count && !plan_search_repair(search, &selection, POLISH_ROUNDS, limit))
			selection = search->best;
		else if (count != search->best.count && !plan_search_repair(search, &selection, POLISH_ROUNDS, limit))
			continue;
		shorten(search, &selection);
		plan_selection_value(search, &selection);
		first = detours_of(search, &selection) * chosen.count;
		second = detours_of(search, &chosen) * selection.count;
		if (plan_selection_compare(&selection, &search->best) >= 0 &&
		    (first < second || (first == second && selection.count < chosen.count)))
			chosen = selection;
	}
	search->best = chosen;
}
