/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An upper bound without a linear program. A channel goes round through all GPUs (and the network, where there is one), so
 * it leaves every set of them at least once and enters it at least once. These bounds follow, T being a plan's total:
 *
 *     sets:  rows that all hops out of a set S cross:  T <= sum of capacity(row) / least crossings   over such a cover
 *     rows:  take the hops that do not cross a row. A set that they do not lead out of is left by crossing the row, and
 *            such sets are disjoint if each is as small as can be:  T <= capacity(row) / sum of least crossings
 *
 *     NICs:  each channel uses one:  T <= sum over NICs of the least capacity(row) / least crossings of what all its hops
 *            cross
 *
 * A chain on one host ends: it leaves all such sets but one.
 */
#include "plan/model.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum {
	NODES_MAX = PLAN_GPUS_MAX + 1,
	SETS_MAX = 1024,
	CUT_HOPS_MAX = PLAN_HOPS_MAX,
	WIDE_PART = 5, /* a row that at least so much of all hops from or to the network cross */
};

struct cuts {
	const struct plan_model *model;
	size_t nodes; /* the GPUs, and the network */
	uint32_t all;
	uint32_t sets[SETS_MAX];
	size_t set_count;
	uint64_t bound_Bps;
};

static bool ends_open(const struct plan_model *model)
{
	return !model->closed && !model->network;
}

static unsigned crossings_of(const struct plan_model *model, size_t hop, size_t row)
{
	for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++)
		if (model->crossings[i].row == row)
			return model->crossings[i].count;
	return 0;
}

static void take_bound(struct cuts *cuts, uint64_t bound_Bps)
{
	if (bound_Bps < cuts->bound_Bps)
		cuts->bound_Bps = bound_Bps;
}

static void remember_set(struct cuts *cuts, uint32_t set)
{
	for (size_t i = 0; i < cuts->set_count; i++)
		if (cuts->sets[i] == set || cuts->sets[i] == (cuts->all & ~set))
			return;
	if (set && set != cuts->all && cuts->set_count < SETS_MAX)
		cuts->sets[cuts->set_count++] = set;
}

/* ------------------------------------------------------------------------------------------------------------- rows */

/* Fewest crossings of a row from one node to another, by whichever NIC. */
static void fewest_crossings(const struct cuts *cuts, size_t row, unsigned ret[NODES_MAX][NODES_MAX])
{
	const struct plan_model *model = cuts->model;

	for (size_t a = 0; a < model->gpus; a++)
		for (size_t b = 0; b < model->gpus; b++)
			ret[a][b] = a == b ? 0 : crossings_of(model, plan_hop(model, a, b), row);
	if (!model->network)
		return;
	for (size_t gpu = 0; gpu < model->gpus; gpu++) {
		unsigned in = UINT32_MAX, out = UINT32_MAX;

		for (size_t nic = 0; nic < model->nics; nic++) {
			unsigned count = crossings_of(model, plan_hop_in(model, nic, gpu), row);

			in = count < in ? count : in;
			count = crossings_of(model, plan_hop_out(model, nic, gpu), row);
			out = count < out ? count : out;
		}
		ret[model->gpus][gpu] = in;
		ret[gpu][model->gpus] = out;
	}
	ret[model->gpus][model->gpus] = 0;
}

/* Which nodes each node reaches without crossing the row (forward), or is reached from. */
static void close_reach(size_t nodes, unsigned counts[NODES_MAX][NODES_MAX], bool forward, uint32_t *ret)
{
	for (size_t a = 0; a < nodes; a++) {
		ret[a] = (uint32_t)1 << a;
		for (size_t b = 0; b < nodes; b++)
			if (a != b && !(forward ? counts[a][b] : counts[b][a]))
				ret[a] |= (uint32_t)1 << b;
	}
	for (size_t middle = 0; middle < nodes; middle++)
		for (size_t a = 0; a < nodes; a++)
			if (ret[a] & ((uint32_t)1 << middle))
				ret[a] |= ret[middle];
}

static unsigned least_crossings(size_t nodes, unsigned counts[NODES_MAX][NODES_MAX], bool forward, uint32_t set)
{
	unsigned least = UINT32_MAX;

	for (size_t a = 0; a < nodes; a++)
		for (size_t b = 0; b < nodes; b++)
			if ((set & ((uint32_t)1 << a)) && !(set & ((uint32_t)1 << b))) {
				unsigned count = forward ? counts[a][b] : counts[b][a];

				least = count < least ? count : least;
			}
	return least;
}

/* At least so many crossings by every channel: of the sets that are left (forward) or entered by the row alone. */
static uint64_t row_crossings(struct cuts *cuts, unsigned counts[NODES_MAX][NODES_MAX], bool forward)
{
	uint32_t reach[NODES_MAX], done = 0;
	uint64_t sum = 0, most = 0;

	close_reach(cuts->nodes, counts, forward, reach);
	for (size_t a = 0; a < cuts->nodes; a++) {
		uint32_t set = reach[a];
		bool smallest = set != cuts->all && !(set & done);
		unsigned least;

		for (size_t b = 0; b < cuts->nodes; b++)
			if ((set & ((uint32_t)1 << b)) && reach[b] != set)
				smallest = false;
		if (!smallest)
			continue;
		done |= set;
		remember_set(cuts, set);
		least = least_crossings(cuts->nodes, counts, forward, set);
		sum += least;
		most = least > most ? least : most;
	}
	return ends_open(cuts->model) ? sum - most : sum;
}

/* Every node is left once, by at least its cheapest hop. */
static uint64_t node_crossings(const struct cuts *cuts, unsigned counts[NODES_MAX][NODES_MAX], bool forward)
{
	uint64_t sum = 0, most = 0;

	if (cuts->nodes < 2)
		return 0;
	for (size_t a = 0; a < cuts->nodes; a++) {
		unsigned least = least_crossings(cuts->nodes, counts, forward, (uint32_t)1 << a);

		sum += least;
		most = least > most ? least : most;
	}
	return ends_open(cuts->model) ? sum - most : sum;
}

static void bound_row(struct cuts *cuts, size_t row)
{
	unsigned counts[NODES_MAX][NODES_MAX];
	uint64_t crossings = 0;

	fewest_crossings(cuts, row, counts);
	for (int forward = 0; forward < 2; forward++) {
		uint64_t by_sets = row_crossings(cuts, counts, forward);
		uint64_t by_nodes = node_crossings(cuts, counts, forward);

		crossings = by_sets > crossings ? by_sets : crossings;
		crossings = by_nodes > crossings ? by_nodes : crossings;
	}
	if (crossings)
		take_bound(cuts, cuts->model->capacity_Bps[row] / crossings);
}

/* ------------------------------------------------------------------------------------------------------------- sets */

static bool in_set(uint32_t set, size_t node)
{
	return set & ((uint32_t)1 << node);
}

/* The hops that lead out of a set. */
static size_t hops_out(const struct cuts *cuts, uint32_t set, uint32_t *ret)
{
	const struct plan_model *model = cuts->model;
	bool network_in = model->network && in_set(set, model->gpus);
	size_t count = 0;

	for (size_t a = 0; a < model->gpus; a++)
		for (size_t b = 0; b < model->gpus; b++)
			if (in_set(set, a) && !in_set(set, b))
				ret[count++] = (uint32_t)plan_hop(model, a, b);
	for (size_t nic = 0; model->network && nic < model->nics; nic++) {
		for (size_t gpu = 0; gpu < model->gpus; gpu++) {
			if (network_in && !in_set(set, gpu))
				ret[count++] = (uint32_t)plan_hop_in(model, nic, gpu);
			else if (!network_in && in_set(set, gpu))
				ret[count++] = (uint32_t)plan_hop_out(model, nic, gpu);
		}
	}
	return count;
}

/* How many of the hops cross a row; *ret_least: how often at least. */
static size_t covered_by(const struct plan_model *model, const uint32_t *hops, size_t count, size_t row,
			 unsigned *ret_least)
{
	size_t covered = 0;

	*ret_least = UINT32_MAX;
	for (size_t i = 0; i < count; i++) {
		unsigned crossings = crossings_of(model, hops[i], row);

		covered += crossings > 0;
		if (crossings && crossings < *ret_least)
			*ret_least = crossings;
	}
	return covered;
}

/* The row that covers hops at the least capacity for each; *ret_least: its fewest crossings among them. */
static size_t best_row(const struct plan_model *model, const uint32_t *hops, size_t count, unsigned *ret_least)
{
	size_t best = model->rows;
	double best_value = 0;

	for (size_t row = 0; row < model->rows; row++) {
		unsigned least;
		size_t covered = covered_by(model, hops, count, row, &least);
		double value;

		if (!covered)
			continue;
		value = (double)covered * least / (double)model->capacity_Bps[row];
		if (value > best_value) {
			best_value = value;
			best = row;
			*ret_least = least;
		}
	}
	return best;
}

/* `row` first, if there is one, and then greedily. The hops are used up. */
static void cover_hops(struct cuts *cuts, uint32_t *hops, size_t count, size_t row)
{
	const struct plan_model *model = cuts->model;
	uint64_t bound_Bps = 0;
	unsigned least = 1;

	if (row < model->rows && !covered_by(model, hops, count, row, &least))
		return;
	while (count) {
		size_t left = 0;

		if (row == model->rows)
			row = best_row(model, hops, count, &least);
		if (row == model->rows)
			return; /* some hop crosses nothing that is known */
		/* Rounded up: a sum of parts rounded down could be below the bound. */
		bound_Bps += model->capacity_Bps[row] / least + (model->capacity_Bps[row] % least > 0);
		if (bound_Bps >= cuts->bound_Bps)
			return;
		for (size_t i = 0; i < count; i++)
			if (!crossings_of(model, hops[i], row))
				hops[left++] = hops[i];
		count = left;
		row = model->rows;
	}
	take_bound(cuts, bound_Bps);
}

static void bound_set(struct cuts *cuts, uint32_t set)
{
	const struct plan_model *model = cuts->model;
	uint32_t all[CUT_HOPS_MAX], hops[CUT_HOPS_MAX];
	size_t count = hops_out(cuts, set, all);

	if (!count)
		return;
	memcpy(hops, all, count * sizeof(*hops));
	cover_hops(cuts, hops, count, model->rows);
	if (!model->network || (set != 1U << model->gpus && set != (cuts->all & ~(1U << model->gpus))))
		return;
	/* Of the way between sockets, with many NICs on one side and many GPUs on the other, the greedy cover thinks little. */
	for (size_t row = 0; row < model->rows; row++) {
		unsigned least;

		if (covered_by(model, all, count, row, &least) * WIDE_PART < count)
			continue;
		memcpy(hops, all, count * sizeof(*hops));
		cover_hops(cuts, hops, count, row);
	}
}

/* ------------------------------------------------------------------------------------------------------------- NICs */

/* What a NIC can move, by a row that all its hops cross, one way. UINT64_MAX: there is no such row. */
static uint64_t nic_bound(const struct plan_model *model, size_t nic, bool out)
{
	uint64_t bound_Bps = UINT64_MAX;

	for (size_t row = 0; row < model->rows; row++) {
		unsigned least = UINT32_MAX;
		uint64_t most_Bps;

		for (size_t gpu = 0; gpu < model->gpus; gpu++) {
			size_t hop = out ? plan_hop_out(model, nic, gpu) : plan_hop_in(model, nic, gpu);
			unsigned crossings = crossings_of(model, hop, row);

			least = crossings < least ? crossings : least;
		}
		if (!least)
			continue;
		most_Bps = model->capacity_Bps[row] / least + (model->capacity_Bps[row] % least > 0);
		bound_Bps = most_Bps < bound_Bps ? most_Bps : bound_Bps;
	}
	return bound_Bps;
}

/* A cover of what enters and leaves the network that the greedy one may miss: each channel uses one NIC. */
static void bound_nics(struct cuts *cuts)
{
	const struct plan_model *model = cuts->model;

	for (int out = 0; model->network && out < 2; out++) {
		uint64_t sum_Bps = 0;

		for (size_t nic = 0; nic < model->nics && sum_Bps < cuts->bound_Bps; nic++) {
			uint64_t bound_Bps = nic_bound(model, nic, out);

			sum_Bps = bound_Bps < UINT64_MAX - sum_Bps ? sum_Bps + bound_Bps : UINT64_MAX;
		}
		take_bound(cuts, sum_Bps);
	}
}

/* -------------------------------------------------------------------------------------------------------------- all */

/* The cheapest hop out of each GPU (or into it) but the dearest one of these, which may be an end. */
static double least_price(const struct plan_model *model, const double *prices, bool forward)
{
	double sum = 0, most = 0;

	for (size_t a = 0; a < model->gpus; a++) {
		double least = 1e300;

		for (size_t b = 0; b < model->gpus; b++) {
			size_t hop = forward ? plan_hop(model, a, b) : plan_hop(model, b, a);
			double price = a != b ? plan_hop_price(model, hop, prices) : least;

			least = price < least ? price : least;
		}
		sum += least;
		most = least > most ? least : most;
	}
	return model->closed ? sum : sum - most;
}

/* Of a hop's rows the one that is full first. */
static double least_capacity(const struct plan_model *model, size_t hop)
{
	double least = 1e300;

	for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++) {
		const struct plan_crossing *crossing = &model->crossings[i];
		double capacity = (double)model->capacity_Bps[crossing->row] / crossing->count;

		least = capacity < least ? capacity : least;
	}
	return least;
}

/*
 * Rows that hops cross (narrow: of each hop's those that are full first). Those that go together share a weight of 1, which
 * is what all that a row carries costs.
 */
static double price_rows(const struct plan_model *model, bool narrow, double *prices)
{
	double sum = 0;

	memset(prices, 0, model->rows * sizeof(*prices));
	for (size_t hop = 0; hop < model->gpus * model->gpus; hop++) {
		double least = narrow ? least_capacity(model, hop) * (1 + 1e-9) : 1e300;
		double together = 0;

		for (int pass = 0; pass < 2; pass++) {
			for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++) {
				const struct plan_crossing *crossing = &model->crossings[i];

				if ((double)model->capacity_Bps[crossing->row] / crossing->count > least)
					continue;
				if (!pass)
					together++;
				else if (together > prices[crossing->row])
					prices[crossing->row] = together;
			}
		}
	}
	for (size_t row = 0; row < model->rows; row++) {
		double weight = prices[row] > 0 ? 1 / prices[row] : 0;

		prices[row] = weight / (double)model->capacity_Bps[row];
		sum += weight;
	}
	return sum;
}

/*
 * All rows that hops between GPUs cross, at once:  T <= sum of weights / least price of a channel.  It is what bounds
 * machines whose GPUs are joined each to each.
 */
static int bound_all(struct cuts *cuts)
{
	const struct plan_model *model = cuts->model;
	double *prices;

	if (model->gpus < 2)
		return 0;
	prices = sys_zalloc((model->rows + 1) * sizeof(*prices));
	if (!prices)
		return -ENOMEM;
	for (int narrow = 0; narrow < 2; narrow++) {
		double sum = price_rows(model, narrow, prices), forward = least_price(model, prices, true);
		double backward = least_price(model, prices, false);
		double bound = forward > backward ? forward : backward;

		if (bound <= 0)
			continue;
		/* Up, past what the arithmetic in doubles can be wrong by. */
		bound = sum / bound * (1 + 1e-12) + 1;
		if (bound < (double)PLAN_UNBOUNDED_BPS)
			take_bound(cuts, (uint64_t)bound);
	}
	sys_free(prices);
	return 0;
}

int plan_cuts_bound(const struct plan_model *model, uint64_t *ret_Bps)
{
	struct cuts cuts = { .model = model, .bound_Bps = UINT64_MAX };
	int r;

	cuts.nodes = model->gpus + model->network;
	cuts.all = ((uint32_t)1 << cuts.nodes) - 1;
	for (size_t node = 0; node < cuts.nodes; node++)
		remember_set(&cuts, (uint32_t)1 << node);
	for (size_t row = 0; row < model->rows; row++)
		bound_row(&cuts, row);
	for (size_t i = 0; i < cuts.set_count; i++) {
		bound_set(&cuts, cuts.sets[i]);
		bound_set(&cuts, cuts.all & ~cuts.sets[i]);
	}
	bound_nics(&cuts);
	r = bound_all(&cuts);
	if (r == 0)
		*ret_Bps = cuts.bound_Bps;
	return r;
}
