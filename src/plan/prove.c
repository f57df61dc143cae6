/*
 * Whether a number of channels fits the limits at all, where every channel is known: first the linear program with the
 * limits (whole numbers, so tighter than the capacities), then depth first over columns in the order of their cost by its
 * duals. What is left must pay for the channels still to come, each of which costs at least as much as the next column.
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
	double *duals;
	uint64_t work_limit;
	struct plan_selection found;
};

static int relax_limits(struct plan_search *search, size_t count, uint64_t work_limit, double *ret_duals)
{
	size_t rows = search->model->rows;
	struct plan_simplex simplex;
	double sum = 0, least = 1;
	int r;

	for (size_t row = 0; row < rows; row++)
		search->weights[row] = search->limits[row] ? search->limits[row] : 1e-3;
	r = plan_simplex_init(&simplex, rows, search->weights);
	if (r < 0)
		return r;
	r = plan_simplex_run(&simplex, &search->columns, work_limit) ? 1 : -EAGAIN;
	for (size_t row = 0; row < rows; row++) {
		double price = simplex.prices[row] > 0 ? simplex.prices[row] : 0;

		ret_duals[row] = price * simplex.scale[row];
		sum += ret_duals[row] * search->limits[row];
	}
	/* What the arithmetic left: the duals must be true of every column. */
	for (uint32_t column = 0; column < search->columns.count; column++) {
		const uint16_t *loads = plan_column_loads(&search->columns, column);
		double cost = 0;

		for (size_t row = 0; row < rows; row++)
			cost += ret_duals[row] * loads[row];
		least = cost < least ? cost : least;
	}
	if (r == 1 && least > 0 && sum / least < (double)count * (1 - 1e-7))
		r = 0;
	plan_simplex_fini(&simplex);
	return r;
}

static void list_columns(struct proof *proof)
{
	struct plan_search *search = proof->search;

	memset(search->loads, 0, search->model->rows * sizeof(*search->loads));
	for (uint32_t column = 0; column < search->columns.count; column++) {
		const uint16_t *loads = plan_column_loads(&search->columns, column);
		double cost = 0;
		size_t low = 0, high = proof->count;

		if (!plan_search_fits(search, column))
			continue;
		for (size_t row = 0; row < search->model->rows; row++)
			cost += proof->duals[row] * loads[row];
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

static void change_loads(struct plan_search *search, uint32_t column, bool add)
{
	const uint16_t *loads = plan_column_loads(&search->columns, column);

	for (size_t row = 0; row < search->model->rows; row++)
		search->loads[row] += add ? loads[row] : (uint32_t)-loads[row];
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
		change_loads(search, proof->order[i], true);
		r = choose(proof, i, left - 1, money - proof->costs[i]);
		change_loads(search, proof->order[i], false);
		if (r)
			return r;
	}
	return 0;
}

int plan_search_prove(struct plan_search *search, size_t count, uint64_t work_limit, struct plan_selection *ret)
{
	struct proof proof = { .search = search, .work_limit = work_limit };
	size_t rows = search->model->rows, columns = search->columns.count;
	int r = -ENOMEM;

	proof.order = sys_zalloc((columns + 1) * sizeof(*proof.order));
	proof.costs = sys_zalloc((columns + 1) * sizeof(*proof.costs));
	proof.duals = sys_zalloc((rows + 1) * sizeof(*proof.duals));
	if (proof.order && proof.costs && proof.duals)
		r = relax_limits(search, count, work_limit, proof.duals);
	if (r == 1) {
		double money = 0;

		for (size_t row = 0; row < rows; row++)
			money += proof.duals[row] * search->limits[row];
		list_columns(&proof);
		proof.found.count = count;
		r = choose(&proof, 0, count, money);
		if (r == 1)
			*ret = proof.found;
	}
	sys_free(proof.order);
	sys_free(proof.costs);
	sys_free(proof.duals);
	return r;
}
