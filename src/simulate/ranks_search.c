/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best order that can be found: of few hosts all are tried; of more, packed orders are improved by exchanging hosts
 * and groups of them, turning parts round, moving the beginning, and taking hosts that the job could have instead, as long
 * as the cost falls. What is best by the slowest link is then simulated.
 */
#include "simulate/ranks_internal.h"

#include "base/log.h"
#include "base/sys.h"
#include "simulate/job_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STARTS = 6, TRIES = 100, TRIES_A_HOST = 5, SIMULATED = 20, KICKS = 3, WAY_LINKS = 4 };
#define ROUNDING 1e-6
#define WORK     3.7  /* of a start: so many times what it takes to count as many orders anew as it tries while idle */
#define CLOSE    1e-3 /* times that differ by less are equal: the simulator's forms do */

struct candidate {
	uint32_t *order; /* [hosts], then those that it leaves out */
	struct ranks_cost cost[RANKS_PHASE_COUNT];
	double time_s[RANKS_PHASE_COUNT]; /* simulated; 0: not yet */
};

struct search {
	struct ranks_model model;
	const struct ranks_search *options;
	const enum ranks_phase *phases; /* what counts most first */
	size_t all;                     /* hosts that there are */
	uint32_t *tried;
	struct candidate now, best[SIMULATED]; /* best: of unequal cost, the best first */
	struct candidate given;
	size_t best_count;
	uint64_t state;
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

static int compare_uplinks(const struct ranks_cost *a, const struct ranks_cost *b)
{
	int order = compare(a->uplinks_s, b->uplinks_s);

	return order ? order : compare(a->crossings, b->crossings);
}

static const enum ranks_phase *phases_of(const struct ranks_search *search)
{
	static const enum ranks_phase ring[] = { RANKS_TENSOR, RANKS_DATA_RING, RANKS_DATA_TREE, RANKS_PIPELINE },
				      tree[] = { RANKS_TENSOR, RANKS_DATA_TREE, RANKS_DATA_RING, RANKS_PIPELINE };

	return search->tree_first ? tree : ring;
}

int ranks_compare(const struct ranks_search *search, const struct ranks_cost a[static RANKS_PHASE_COUNT],
		  const struct ranks_cost b[static RANKS_PHASE_COUNT])
{
	const enum ranks_phase *phases = phases_of(search);
	int order = 0;

	for (int i = 0; !order && i < RANKS_PHASE_COUNT; i++)
		order = compare(a[phases[i]].worst_s, b[phases[i]].worst_s);
	for (int i = 0; !order && i < RANKS_PHASE_COUNT; i++)
		order = compare_uplinks(&a[phases[i]], &b[phases[i]]);
	return order;
}

/* Of equal ones the first, which people can read: it was packed, or given. */
static void keep(struct search *search)
{
	struct candidate spare = search->best[SIMULATED - 1];
	size_t at = search->best_count;
	int order = 1;

	for (; at > 0; at--) {
		order = ranks_compare(search->options, search->now.cost, search->best[at - 1].cost);
		if (order >= 0)
			break;
	}
	if (at == SIMULATED || (at && !order))
		return;
	search->best_count += search->best_count < SIMULATED;
	memmove(&search->best[at + 1], &search->best[at], (SIMULATED - 1 - at) * sizeof(spare));
	memcpy(spare.order, search->now.order, search->all * sizeof(*spare.order));
	memcpy(spare.cost, search->now.cost, sizeof(spare.cost));
	search->best[at] = spare;
}

/* Whether what is tried is better than what there is (-1), equal (0) or worse (1); then it stays where it was. */
static int try_it(struct search *search)
{
	struct ranks_cost cost[RANKS_PHASE_COUNT];
	int order = 0;

	for (int i = 0; order <= 0 && i < RANKS_PHASE_COUNT; i++) {
		enum ranks_phase phase = search->phases[i];

		cost[phase] = ranks_model_cost(&search->model, phase, search->tried);
		if (!order)
			order = compare(cost[phase].worst_s, search->now.cost[phase].worst_s);
	}
	if (!order)
		order = ranks_compare(search->options, cost, search->now.cost);
	if (order > 0) {
		ranks_model_back(&search->model, search->now.order);
		return order;
	}
	memcpy(search->now.order, search->tried, search->all * sizeof(*search->tried));
	memcpy(search->now.cost, cost, sizeof(cost));
	ranks_model_keep(&search->model);
	return order;
}

/* search->now.order, whatever it costs. */
static void begin(struct search *search)
{
	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
		search->now.cost[phase] = ranks_model_cost(&search->model, (enum ranks_phase)phase, search->now.order);
	ranks_model_keep(&search->model);
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
		begin(search);
		keep(search);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		try_all(search, count - 1);
		if (i + 1 < count)
			exchange(&search->now.order[count % 2 ? 0 : i], &search->now.order[count - 1], 1);
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

static uint32_t leaf_of(const struct search *search, uint32_t host)
{
	const struct simulate_fabric *fabric = search->model.fabric;

	return fabric->nics[host * fabric->rail_count].leaf;
}

/* A place; if aligned, the first of the hosts of one leaf that stand together there. */
static size_t draw_place(struct search *search, bool aligned)
{
	const uint32_t *order = search->tried;
	size_t at = simulate_draw(&search->state, search->model.hosts);

	while (aligned && at && leaf_of(search, order[at - 1]) == leaf_of(search, order[at]))
		at--;
	return at;
}

static int compare_places(const void *a, const void *b)
{
	size_t first = *(const size_t *)a, second = *(const size_t *)b;

	return (first > second) - (first < second);
}

/* Two parts beside each other are exchanged; or what is from the first to the last place is turned round. */
static void move_parts(struct search *search, bool turn, bool aligned)
{
	size_t at[3];

	for (int i = 0; i < 3; i++)
		at[i] = draw_place(search, aligned);
	qsort(at, 3, sizeof(at[0]), compare_places);
	if (!turn) {
		turn_round(search->tried + at[0], at[1] - at[0]);
		turn_round(search->tried + at[1], at[2] - at[1]);
	}
	turn_round(search->tried + at[0], at[2] - at[0]);
}

/* The part behind goes to the front. */
static void move_beginning(struct search *search)
{
	size_t hosts = search->model.hosts, at = simulate_draw(&search->state, hosts);

	turn_round(search->tried, at);
	turn_round(search->tried + at, hosts - at);
	turn_round(search->tried, hosts);
}

/* Two calls: arguments are evaluated in an order that the compiler chooses, another one on arm64 than on x86-64. */
static void exchange_spare(struct search *search, size_t hosts, size_t spares)
{
	size_t spare = hosts + simulate_draw(&search->state, spares), host = simulate_draw(&search->state, hosts);

	exchange(&search->tried[host], &search->tried[spare], 1);
}

static void move(struct search *search)
{
	size_t hosts = search->model.hosts, spares = search->all - hosts;
	size_t stage = ranks_stage_hosts(&search->model.layout);
	unsigned kind = (unsigned)simulate_draw(&search->state, 16);

	if (kind < 3)
		move_beginning(search);
	else if (kind < 9)
		move_parts(search, kind >= 7, kind % 4 != 0);
	else if (kind < 11)
		exchange_blocks(search, ranks_tensor_hosts(&search->model.layout));
	else if (kind < 12)
		exchange_blocks(search, stage <= hosts ? stage : 1);
	else if (kind < 14 && spares)
		exchange_spare(search, hosts, spares);
	else
		exchange_blocks(search, 1);
}

/*
 * From search->now until this part of the work is done. Equal ones are gone to as well: what is better may be behind them.
 * Where nothing was better for long it goes on a few steps beside the best.
 */
static void improve(struct search *search, double steps_most)
{
	size_t idle = 0, idle_most = TRIES + TRIES_A_HOST * search->model.hosts;

	begin(search);
	keep(search);
	while (search->model.steps < steps_most) {
		if (idle++ == idle_most) {
			idle = 0;
			memcpy(search->tried, search->best[0].order, search->all * sizeof(*search->tried));
			for (int i = 0; i < KICKS; i++)
				move(search);
			memcpy(search->now.order, search->tried, search->all * sizeof(*search->tried));
			begin(search);
			keep(search);
		}
		memcpy(search->tried, search->now.order, search->all * sizeof(*search->tried));
		move(search);
		if (try_it(search) < 0) {
			idle = 0;
			keep(search);
		}
	}
}

/* Neighbours of one leaf in the order that people expect, if it costs no more. */
static void tidy(struct search *search, struct candidate *candidate)
{
	size_t hosts = search->model.hosts;
	uint32_t *order = search->tried;

	if (search->options->given && !memcmp(candidate->order, search->options->given, hosts * sizeof(*order)))
		return;
	memcpy(search->now.order, candidate->order, search->all * sizeof(*order));
	begin(search);
	memcpy(order, candidate->order, search->all * sizeof(*order));
	for (size_t i = 1; i < hosts; i++)
		for (size_t j = i;
		     j > 0 && order[j - 1] > order[j] && leaf_of(search, order[j - 1]) == leaf_of(search, order[j]);
		     j--)
			exchange(&order[j - 1], &order[j], 1);
	if (try_it(search) > 0)
		return;
	memcpy(candidate->order, search->now.order, search->all * sizeof(*order));
	memcpy(candidate->cost, search->now.cost, sizeof(candidate->cost));
}

/* ---------------------------------------------------------------------------------------------------------- simulation */

static double simulated_s(const struct search *search, struct candidate *candidate, enum ranks_phase phase)
{
	double *time_s = &candidate->time_s[phase], bytes = search->options->bytes;
	struct diag diag = { 0 };

	if (*time_s > 0)
		return *time_s;
	*time_s = candidate->cost[phase].worst_s * bytes;
	/* Where it cannot be simulated the slowest link's time stands for it. */
	if (*time_s > 0 && *time_s < INFINITY && ranks_can_simulate(&search->model.layout, phase))
		ranks_time(search->model.fabric, &search->model.layout, candidate->order, phase, bytes,
			   SIMULATE_PIPELINED, time_s, &diag);
	return *time_s;
}

/*
 * By the first phase whose times differ. No schedule is faster than its slowest link, so few candidates need to be
 * simulated.
 */
static bool is_faster(const struct search *search, struct candidate *candidate, struct candidate *best)
{
	for (int i = 0; i < RANKS_PHASE_COUNT; i++) {
		enum ranks_phase phase = search->phases[i];
		double least_s = candidate->cost[phase].worst_s * search->options->bytes, best_s, time_s;

		if (phase != RANKS_DATA_TREE && !compare(candidate->cost[phase].worst_s, best->cost[phase].worst_s))
			continue;
		best_s = simulated_s(search, best, phase);
		if (least_s > best_s)
			return false;
		time_s = simulated_s(search, candidate, phase);
		if (fabs(time_s - best_s) > CLOSE * best_s)
			return time_s < best_s;
	}
	return false;
}

static struct candidate *choose(struct search *search)
{
	struct candidate *best = &search->best[0];

	for (size_t i = 0; i < search->best_count; i++)
		tidy(search, &search->best[i]);
	for (size_t i = 1; search->options->bytes > 0 && i < search->best_count; i++)
		if (is_faster(search, &search->best[i], best))
			best = &search->best[i];
	if (search->options->bytes > 0 && search->options->given && is_faster(search, &search->given, best))
		best = &search->given;
	return best;
}

/* --------------------------------------------------------------------------------------------------------------- whole */

/* now.order: the hosts of an order first; behind them those that it leaves out, as they were listed. */
static int complete(struct search *search, const uint32_t *hosts)
{
	bool *used = sys_zalloc(search->model.fabric->host_count * sizeof(*used));
	size_t at = search->model.hosts;

	if (!used)
		return -ENOMEM;
	for (size_t i = 0; i < at; i++)
		used[search->now.order[i]] = true;
	for (size_t i = 0; i < search->all; i++)
		if (!used[hosts[i]])
			search->now.order[at++] = hosts[i];
	sys_free(used);
	return 0;
}

static int run(struct search *search, const uint32_t *hosts)
{
	const struct ranks_model *model = &search->model;
	size_t needed = model->hosts;
	double whole_steps = WAY_LINKS * (double)model->edge_count * (double)model->fabric->rail_count;
	double each_steps = fmin(search->options->steps_most / STARTS,
				 WORK * (TRIES + TRIES_A_HOST * (double)needed) * whole_steps);
	int r = 0;

	if (search->options->given) {
		memcpy(search->now.order, search->options->given, needed * sizeof(*hosts));
		r = complete(search, hosts);
		begin(search);
		keep(search);
		memcpy(search->given.order, search->now.order, search->all * sizeof(*hosts));
		memcpy(search->given.cost, search->now.cost, sizeof(search->now.cost));
	}
	if (needed == search->all && needed <= search->options->all_orders) {
		memcpy(search->now.order, hosts, needed * sizeof(*hosts));
		try_all(search, needed);
		return r;
	}
	for (uint64_t start = 0; r == 0 && start < STARTS; start++) {
		r = ranks_pack(model, hosts, search->all, start, search->now.order);
		if (r == 0)
			r = complete(search, hosts);
		if (r == 0)
			improve(search, each_steps * (double)(start + 1));
	}
	return r;
}

int ranks_order(const struct simulate_fabric *fabric, const struct ranks_layout *layout, const uint32_t *hosts,
		size_t host_count, const struct ranks_search *options, uint32_t *ret)
{
	struct search search = {
		.options = options, .phases = phases_of(options), .all = host_count, .state = 88172645463325252U
	};
	uint32_t *orders = NULL;
	int r = ranks_model_init(&search.model, fabric, layout);

	if (r == 0 && search.model.hosts > host_count)
		r = -EINVAL;
	if (r == 0) {
		orders = sys_zalloc((SIMULATED + 3) * host_count * sizeof(*orders));
		r = orders ? 0 : -ENOMEM;
	}
	if (r == 0) {
		search.tried = orders;
		search.now.order = orders + host_count;
		search.given.order = orders + 2 * host_count;
		for (size_t i = 0; i < SIMULATED; i++)
			search.best[i].order = orders + (i + 3) * host_count;
		r = run(&search, hosts);
	}
	if (r == 0)
		memcpy(ret, choose(&search)->order, search.model.hosts * sizeof(*ret));
	sys_free(orders);
	ranks_model_fini(&search.model);
	return r;
}
