/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of the search stand on: what a selection of channels is worth, the best so far, what more would fit. */
#include "plan/search.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

uint64_t plan_work_limit(const struct plan_request *request)
{
	const uint64_t most_8 = 3000000, most_16 = 32000000;

	if (request->work_limit)
		return request->work_limit;
	if (request->gpu_count <= 8)
		return most_8;
	return most_8 + (most_16 - most_8) * (request->gpu_count - 8) / (PLAN_GPUS_MAX - 8);
}

int plan_search_init(struct plan_search *search, const struct plan_model *model, uint64_t work_limit)
{
	size_t rows = model->rows;
	int r = plan_columns_init(&search->columns, model);

	search->model = model;
	search->work_limit = work_limit;
	search->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(search->loads, rows), SYS_ARRAY(search->limits, rows),
				      SYS_ARRAY(search->duals, rows), SYS_ARRAY(search->prices, rows),
				      SYS_ARRAY(search->weights, rows), SYS_ARRAY(search->capacities, rows),
				      SYS_ARRAY(search->shares, search->columns.room) },
		7);
	if (r == 0 && !search->arrays)
		r = -ENOMEM;
	if (r == 0) {
		for (size_t i = 0; i < rows; i++)
			search->capacities[i] = (double)model->capacity_Bps[i];
		r = plan_simplex_init(&search->simplex, rows, search->capacities);
	}
	if (r < 0)
		plan_search_fini(search);
	return r;
}

void plan_search_fini(struct plan_search *search)
{
	plan_columns_fini(&search->columns);
	plan_simplex_fini(&search->simplex);
	sys_free(search->arrays);
	memset(search, 0, sizeof(*search));
}

uint64_t plan_search_bound(const struct plan_search *search, uint64_t cuts_Bps)
{
	/* Up to the next whole byte/s: the arithmetic is in doubles. */
	double relaxed = search->bound_Bps * (1 + 1e-12) + 1;
	uint64_t bound_Bps = cuts_Bps < PLAN_UNBOUNDED_BPS ? cuts_Bps : PLAN_UNBOUNDED_BPS;

	return relaxed < (double)bound_Bps ? (uint64_t)relaxed : bound_Bps;
}

size_t plan_search_add(struct plan_search *search, const struct plan_priced *priced, size_t most)
{
	size_t before = search->columns.count;
	uint32_t column;

	for (size_t i = 0; i < priced->count && i < most; i++)
		if (plan_columns_add(&search->columns, &priced->channels[i], &column) < 0)
			break;
	return search->columns.count - before;
}

/* ----------------------------------------------------------------------------------------------------------- values */

void plan_search_load(struct plan_search *search, uint32_t column, bool add)
{
	const uint16_t *loads = plan_column_loads(&search->columns, column);

	for (size_t row = 0; row < search->model->rows; row++)
		search->loads[row] += add ? loads[row] : (uint32_t)-loads[row];
}

void plan_selection_value(struct plan_search *search, struct plan_selection *selection)
{
	const struct plan_model *model = search->model;
	struct plan_fraction rate;

	memset(search->loads, 0, model->rows * sizeof(*search->loads));
	for (size_t i = 0; i < selection->count; i++)
		plan_search_load(search, selection->columns[i], true);
	rate = plan_model_rate(model, search->loads);
	selection->capacity_Bps = rate.capacity_Bps;
	selection->load = rate.load;
	search->columns.work += model->rows * (selection->count + 2);
}

int plan_selection_compare(const struct plan_selection *a, const struct plan_selection *b)
{
	unsigned __int128 first = (unsigned __int128)a->count * a->capacity_Bps * b->load;
	unsigned __int128 second = (unsigned __int128)b->count * b->capacity_Bps * a->load;

	return (first > second) - (first < second);
}

double plan_selection_total(const struct plan_selection *selection)
{
	return (double)selection->count * (double)selection->capacity_Bps / (double)selection->load;
}

bool plan_search_done(const struct plan_search *search)
{
	return search->best.count && plan_selection_total(&search->best) >= search->bound_Bps * (1 - PLAN_CLOSE);
}

bool plan_search_take(struct plan_search *search, struct plan_selection *selection)
{
	plan_selection_value(search, selection);
	if (search->best.count && plan_selection_compare(selection, &search->best) <= 0)
		return false;
	search->best = *selection;
	return true;
}

void plan_search_offer(struct plan_search *search, const struct plan_selection *selection)
{
	struct plan_selection offered = *selection, *packed = &search->packed[offered.count];

	if (!offered.count)
		return;
	(void)plan_search_take(search, &offered);
	if (!packed->count || plan_selection_compare(&offered, packed) >= 0)
		*packed = offered;
}

/* ----------------------------------------------------------------------------------------------------------- limits */

void plan_search_limits(struct plan_search *search, size_t count, unsigned permille, bool above)
{
	const struct plan_model *model = search->model;
	unsigned __int128 per = (unsigned __int128)search->best.count * search->best.capacity_Bps * permille;

	if (!per) {
		/* Any plan is better than none. */
		for (size_t row = 0; row < model->rows; row++)
			search->limits[row] = UINT16_MAX;
		return;
	}
	for (size_t row = 0; row < model->rows; row++) {
		unsigned __int128 most = (unsigned __int128)count * model->capacity_Bps[row] * search->best.load * 1000;

		most = (most - (above ? 1 : 0)) / per;
		search->limits[row] = most > UINT16_MAX ? UINT16_MAX : (uint32_t)most;
	}
}

bool plan_search_may_fit(const struct plan_search *search, size_t count)
{
	double sum = 0;

	if (!search->bound_closed)
		return true;
	for (size_t row = 0; row < search->model->rows; row++)
		sum += search->duals[row] * search->limits[row];
	return sum >= (double)count * (1 - 1e-9);
}

bool plan_search_fits(const struct plan_search *search, uint32_t column)
{
	const uint16_t *loads = plan_column_loads(&search->columns, column);

	for (size_t row = 0; row < search->model->rows; row++)
		if (search->loads[row] + loads[row] > search->limits[row])
			return false;
	return true;
}
