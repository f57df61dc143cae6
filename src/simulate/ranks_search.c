/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best order that can be found: of few hosts all are tried; of more, packed orders are improved by exchanging hosts
 * and groups of them, turning parts round, and moving the beginning, as long as the cost falls.
 */
#include "simulate/ranks_internal.h"

#include "base/sys.h"
#include "simulate/job_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { STARTS = 6, IDLE_TRIES = 400 };
#define ROUNDING 1e-6 /* weights are floats */

struct search {
	struct ranks_model model;
	const struct ranks_search *options;
	uint32_t *best, *order, *tried;
	struct ranks_cost best_cost[RANKS_PHASE_COUNT], cost[RANKS_PHASE_COUNT];
	uint64_t state;
	bool any;
};

struct ranks_search ranks_search_defaults(void)
{
	return (struct ranks_search){ .all_orders = 7, .steps_most = 2e8 };
}

static int compare(double a, double b)
{
	if (a == b || fabs(a - b) <= ROUNDING * fmax(fabs(a), fabs(b)))
		return 0;
	return a < b ? -1 : 1;
}

int ranks_compare(const struct ranks_search *search, const struct ranks_cost a[static RANKS_PHASE_COUNT],
		  const struct ranks_cost b[static RANKS_PHASE_COUNT])
{
	static const enum ranks_phase ring[] = { RANKS_TENSOR, RANKS_DATA_RING, RANKS_DATA_TREE, RANKS_PIPELINE },
				      tree[] = { RANKS_TENSOR, RANKS_DATA_TREE, RANKS_DATA_RING, RANKS_PIPELINE };
	const enum ranks_phase *phases = search->tree_first ? tree : ring;
	int order = 0;

	for (int i = 0; !order && i < RANKS_PHASE_COUNT; i++) {
		const struct ranks_cost *first = &a[phases[i]], *second = &b[phases[i]];

		order = compare(first->worst_s, second->worst_s);
		if (!order)
			order = compare(first->uplinks_s, second->uplinks_s);
		if (!order)
			order = compare(first->crossings, second->crossings);
	}
	return order;
}

static void keep_best(struct search *search, const uint32_t *order,
		      const struct ranks_cost cost[static RANKS_PHASE_COUNT])
{
	if (search->any && ranks_compare(search->options, cost, search->best_cost) >= 0)
		return;
	search->any = true;
	memcpy(search->best, order, search->model.hosts * sizeof(*order));
	memcpy(search->best_cost, cost, sizeof(search->best_cost));
}

static void exchange(uint32_t *a, uint32_t *b, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t other = a[i];

		a[i] = b[i];
		b[i] = other;
	}
}

static void turn_round(uint32_t *order, size_t count)
{
	for (size_t i = 0; i < count / 2; i++)
		exchange(&order[i], &order[count - 1 - i], 1);
}

/* All orders, each by one exchange from the one before (Heap). */
static void try_all(struct search *search, size_t count)
{
	if (count <= 1) {
		ranks_model_costs(&search->model, search->order, search->cost);
		keep_best(search, search->order, search->cost);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		try_all(search, count - 1);
		if (i + 1 < count)
			exchange(&search->order[count % 2 ? 0 : i], &search->order[count - 1], 1);
	}
}

/* ------------------------------------------------------------------------------------------------------------- moves */

static void exchange_blocks(struct search *search, size_t block)
{
	size_t blocks = search->model.hosts / block;
	size_t a = simulate_draw(&search->state, blocks), b = simulate_draw(&search->state, blocks);

	if (a != b)
		exchange(search->tried + a * block, search->tried + b * block, block);
}

static void move(struct search *search)
{
	size_t hosts = search->model.hosts, tensor = ranks_tensor_hosts(&search->model.layout),
	       stage = ranks_stage_hosts(&search->model.layout);
	size_t low = simulate_draw(&search->state, hosts), high = simulate_draw(&search->state, hosts);

	if (low > high) {
		size_t other = low;

		low = high;
		high = other;
	}
	switch (simulate_draw(&search->state, 5)) {
	case 0:
		turn_round(search->tried + low, high - low + 1);
		break;
	case 1: /* the part behind goes to the front: three turns */
		turn_round(search->tried, low);
		turn_round(search->tried + low, hosts - low);
		turn_round(search->tried, hosts);
		break;
	case 2:
		exchange_blocks(search, tensor);
		break;
	case 3:
		exchange_blocks(search, stage <= hosts ? stage : 1);
		break;
	default:
		exchange(&search->tried[low], &search->tried[high], 1);
	}
}

/* From search->order, until nothing was better for long or the part of the work is done. */
static void improve(struct search *search, double steps_most)
{
	struct ranks_cost cost[RANKS_PHASE_COUNT];
	size_t hosts = search->model.hosts, idle = 0, idle_most = IDLE_TRIES + 20 * hosts;

	ranks_model_costs(&search->model, search->order, search->cost);
	keep_best(search, search->order, search->cost); /* of equal ones the packed one, which people can read */
	while (idle++ < idle_most && search->model.steps < steps_most) {
		int order;

		memcpy(search->tried, search->order, hosts * sizeof(*search->order));
		move(search);
		ranks_model_costs(&search->model, search->tried, cost);
		order = ranks_compare(search->options, cost, search->cost);
		if (order > 0)
			continue;
		/* Equal ones are gone to as well: what is better may be behind them. */
		idle = order < 0 ? 0 : idle;
		memcpy(search->order, search->tried, hosts * sizeof(*search->order));
		memcpy(search->cost, cost, sizeof(cost));
	}
	keep_best(search, search->order, search->cost);
}

static uint32_t leaf_of(const struct search *search, uint32_t host)
{
	const struct simulate_fabric *fabric = search->model.fabric;

	return fabric->nics[host * fabric->rail_count].leaf;
}

/* Neighbours of one leaf in the order that people expect, if it costs no more. */
static void tidy(struct search *search)
{
	size_t hosts = search->model.hosts;

	if (search->options->given && !memcmp(search->best, search->options->given, hosts * sizeof(*search->best)))
		return;
	memcpy(search->order, search->best, hosts * sizeof(*search->best));
	for (size_t i = 1; i < hosts; i++)
		for (size_t j = i; j > 0 && search->order[j - 1] > search->order[j] &&
				   leaf_of(search, search->order[j - 1]) == leaf_of(search, search->order[j]);
		     j--)
			exchange(&search->order[j - 1], &search->order[j], 1);
	ranks_model_costs(&search->model, search->order, search->cost);
	if (ranks_compare(search->options, search->cost, search->best_cost) <= 0)
		memcpy(search->best, search->order, hosts * sizeof(*search->best));
}

/* ------------------------------------------------------------------------------------------------------------- whole */

static int run(struct search *search, const uint32_t *hosts, size_t host_count)
{
	size_t needed = search->model.hosts;
	int r = 0;

	if (search->options->given) {
		ranks_model_costs(&search->model, search->options->given, search->cost);
		keep_best(search, search->options->given, search->cost);
	}
	if (needed == host_count && needed <= search->options->all_orders) {
		memcpy(search->order, hosts, needed * sizeof(*hosts));
		try_all(search, needed);
		return 0;
	}
	for (uint64_t start = 0; r == 0 && start < STARTS; start++) {
		r = ranks_pack(&search->model, hosts, host_count, start, search->order);
		if (r == 0)
			improve(search, search->options->steps_most * (double)(start + 1) / STARTS);
	}
	return r;
}

int ranks_order(const struct simulate_fabric *fabric, const struct ranks_layout *layout, const uint32_t *hosts,
		size_t host_count, const struct ranks_search *options, uint32_t *ret)
{
	struct search search = { .options = options, .state = 88172645463325252U };
	int r = ranks_model_init(&search.model, fabric, layout);

	if (r == 0 && search.model.hosts > host_count)
		r = -EINVAL;
	if (r == 0) {
		search.best = sys_zalloc(3 * search.model.hosts * sizeof(*search.best));
		search.order = search.best + search.model.hosts;
		search.tried = search.order + search.model.hosts;
		r = search.best ? run(&search, hosts, host_count) : -ENOMEM;
	}
	if (r == 0)
		tidy(&search);
	if (r == 0)
		memcpy(ret, search.best, search.model.hosts * sizeof(*ret));
	sys_free(search.best);
	ranks_model_fini(&search.model);
	return r;
}
