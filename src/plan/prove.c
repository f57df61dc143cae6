/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a number of channels fits the limits at all, where every channel is known: depth first over columns in the order of
 * their cost by the linear program's duals. What the rows have left must pay for the channels still to come, each of which
 * costs at least as much as the next column.
 */
#include "plan/search.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

struct proof {
	struct plan_search *search;
	uint32_t *order; /* columns that fit alone, cheapest first */
	double *costs;   /* of those */
	size_t count;
	uint64_t work_limit;
	struct plan_selection found;
};

static void list_columns(struct proof *proof)
{
	struct plan_search *search = proof->search;

	memset(search->loads, 0, search->model->rows * sizeof(*search->loads));
	for (uint32_t column = 0; column < search->columns.count; column++) {
		double cost = plan_column_price(&search->columns, column, search->duals);
		size_t low = 0, high = proof->count;

		if (!plan_search_fits(search, column))
			continue;
		while (low < high) {
			size_t middle = (low + high) / 2;

			if (proof->costs[middle] <= cost)
				low = middle + 1;
			else
				high = middle;
		}
		memmove(&proof->costs[low + 1], &proof->costs[low], (proof->count - low) * sizeof(*proof->costs));
		memmove(&proof->order[low + 1], &proof->order[low], (proof->count - low) * sizeof(*proof->order));
		proof->costs[low] = cost;
		proof->order[low] = column;
		proof->count++;
	}
}

/* left: channels still to choose, from `first` on; money: what the rows' free places are worth. */
static int choose(struct proof *proof, size_t first, size_t left, double money)
{
	struct plan_search *search = proof->search;

	if (!left)
		return 1;
	for (size_t i = first; i < proof->count; i++) {
		int r;

		if (proof->costs[i] * (double)left > money + 1e-7)
			return 0;
		search->columns.work += search->model->rows;
		if (search->columns.work >= proof->work_limit)
			return -EAGAIN;
		if (!plan_search_fits(search, proof->order[i]))
			continue;
		proof->found.columns[left - 1] = proof->order[i];
		plan_search_load(search, proof->order[i], true);
		r = choose(proof, i, left - 1, money - proof->costs[i]);
		plan_search_load(search, proof->order[i], false);
		if (r)
			return r;
	}
	return 0;
}

int plan_search_prove(struct plan_search *search, size_t count, uint64_t work_limit, struct plan_selection *ret)
{
	struct proof proof = { .search = search, .work_limit = work_limit, .found.count = count };
	size_t columns = search->columns.count;
	double money = 0;
	int r = -ENOMEM;
	void *arrays;

	arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(proof.order, columns), SYS_ARRAY(proof.costs, columns) }, 2);
	if (arrays) {
		for (size_t row = 0; row < search->model->rows; row++)
			money += search->duals[row] * search->limits[row];
		list_columns(&proof);
		r = choose(&proof, 0, count, money);
	}
	if (r == 1)
		*ret = proof.found;
	sys_free(arrays);
	return r;
}
