/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How well parts explain all one-to-one rounds, each flow in each round: every part has one uplink each way, what that
 * carries is taken from what crossed it, and flows share it fairly, more or less. Pairs of hosts (fabric_evidence.c) say
 * less: a flow over a full uplink may have all that its NICs carry while another has next to nothing, and on a busy host
 * one flow of ten is slow for no reason of the fabric's. It takes time that grows with the fourth power of the hosts, so
 * only few are looked at in this way.
 */
#include "clusterprobe/fabric_internal.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { SWEEPS_MAX = 12, SWAP_HOSTS = 16, STARTS = 6 };

#define GAIN_LEAST     0.01
/* Relative to what the NICs carry. */
#define FAST           0.985 /* of a flow that nothing narrow holds back, */
#define SPREAD         0.03
#define STRAY          0.12 /* but for so many, which are slow anywhere down to nothing */
#define SHARE          0.3  /* standard deviation of a share of a full uplink, relative to a fair one */
#define SHARE_MORE     0.04
#define OPEN           0.92 /* an uplink that carries this part of what was asked of it is not narrow */
/* Natural logarithms: what a narrow direction and a part must be worth. */
#define DIRECTION_COST 4.0
#define PART_COST      2.0

struct model {
	struct fabric_work *work;
	size_t n, parts;
	void *arrays; /* all that follow */
	double *sum,
		*demand; /* [2 n][round_count]: of what crossed each uplink, in the rounds in which something did */
	size_t *crossed, *last; /* [2 n] rounds in which something did, and the last of these */
	double *capacity[2];    /* [n] of each part's uplink; INFINITY: not narrow */
	double *rate;           /* [n] of the round at hand, as predicted */
	double *left[2];        /* [n] of the uplinks */
	uint16_t *active[2];    /* [n] flows that have no rate yet */
	uint16_t *best;         /* [n] */
};

static int model_init(struct fabric_work *work, struct model *model)
{
	size_t n = work->n, crossings = 2 * n * (work->round_count + 1);
	const struct sys_array arrays[] = {
		SYS_ARRAY(model->sum, crossings),
		SYS_ARRAY(model->demand, crossings),
		SYS_ARRAY(model->crossed, 2 * n),
		SYS_ARRAY(model->last, 2 * n),
		SYS_ARRAY(model->rate, n),
		SYS_ARRAY(model->best, n),
		SYS_ARRAY(model->capacity[0], n + 1),
		SYS_ARRAY(model->capacity[1], n + 1),
		SYS_ARRAY(model->left[0], n + 1),
		SYS_ARRAY(model->left[1], n + 1),
		SYS_ARRAY(model->active[0], n + 1),
		SYS_ARRAY(model->active[1], n + 1),
	};

	*model = (struct model){ .work = work, .n = n };
	model->arrays = sys_zalloc_arrays(arrays, sizeof(arrays) / sizeof(arrays[0]));
	return model->arrays ? 0 : -ENOMEM;
}

/* ------------------------------------------------------------------------------------------------------------- uplinks */

/*
 * The upper quarter of the sums in the rounds that asked most of it: whatever else slows flows makes sums less, not more.
 * Other rounds count where they had more than that.
 */
static double find_capacity(double *sums, double *demands, size_t count)
{
	double most = 0, carried;
	size_t loaded = 0, open = 0;

	for (size_t i = 0; i < count; i++)
		most = fmax(most, demands[i]);
	/* The loaded rounds come first. */
	for (size_t i = 0; i < count; i++)
		if (demands[i] >= 0.8 * most) {
			double sum = sums[i];

			sums[i] = sums[loaded];
			demands[i] = demands[loaded];
			sums[loaded++] = sum;
			open += sum >= OPEN * most;
		}
	/* Nearly always so, and sorting takes longest. */
	if (4 * open > loaded || !loaded)
		return INFINITY;
	carried = fabric_quantile(sums, loaded, 0.75);
	carried = fmax(carried, fabric_quantile(sums, count, 0.9));
	return carried >= OPEN * most ? INFINITY : carried;
}

static void sum_up(struct model *model)
{
	const struct fabric_work *work = model->work;

	memset(model->crossed, 0, 2 * model->n * sizeof(*model->crossed));
	memset(model->last, 0, 2 * model->n * sizeof(*model->last));
	for (size_t r = 0; r < work->round_count; r++) {
		const struct fabric_round *round = &work->rounds[r];
		const struct fabric_sample *at = work->samples + round->first;

		for (size_t i = 0; i < round->count && fabric_one_to_one(round); i++) {
			uint16_t ends[2] = { work->part[at[i].flow.from], work->part[at[i].flow.to] };

			for (size_t way = 0; way < 2 && ends[0] != ends[1]; way++) {
				size_t link = way * model->n + ends[way], at_round;

				model->crossed[link] += model->last[link] != r + 1;
				at_round = link * work->round_count + model->crossed[link] - 1;
				if (model->last[link] != r + 1)
					model->sum[at_round] = model->demand[at_round] = 0;
				model->last[link] = r + 1;
				model->sum[at_round] += (double)at[i].rate_Bps;
				model->demand[at_round] += fabric_nic(work, at[i].flow);
			}
		}
	}
}

static double find_capacities(struct model *model)
{
	double cost = 0;

	sum_up(model);
	for (size_t way = 0; way < 2; way++)
		for (size_t p = 0; p < model->parts; p++) {
			size_t link = way * model->n + p, first = link * model->work->round_count;

			model->capacity[way][p] = find_capacity(model->sum + first, model->demand + first,
								model->crossed[link]);
			cost += isfinite(model->capacity[way][p]) ? DIRECTION_COST : 0;
		}
	return cost;
}

/* --------------------------------------------------------------------------------------------------------------- rates */

/* Fair rates of a round's flows, into model->rate. */
static void predict(struct model *model, const struct fabric_round *round)
{
	const struct fabric_work *work = model->work;
	const struct fabric_sample *at = work->samples + round->first;
	size_t narrow = 0;

	for (int way = 0; way < 2; way++) {
		memcpy(model->left[way], model->capacity[way], model->parts * sizeof(**model->left));
		memset(model->active[way], 0, model->parts * sizeof(**model->active));
	}
	for (size_t i = 0; i < round->count; i++) {
		uint16_t out = work->part[at[i].flow.from], in = work->part[at[i].flow.to];

		model->rate[i] = fabric_nic(work, at[i].flow);
		if (out == in || (!isfinite(model->capacity[0][out]) && !isfinite(model->capacity[1][in])))
			continue;
		model->rate[i] = -1;
		model->active[0][out]++;
		model->active[1][in]++;
		narrow++;
	}
	while (narrow > 0) {
		double least = INFINITY;
		bool by_nic = false;

		/* The narrowest share of all: of an uplink, or a NIC that takes less. */
		for (size_t i = 0; i < round->count; i++) {
			uint16_t out = work->part[at[i].flow.from], in = work->part[at[i].flow.to];
			double share, nic;

			if (model->rate[i] >= 0)
				continue;
			nic = fabric_nic(work, at[i].flow);
			share = fmin(model->left[0][out] / model->active[0][out],
				     model->left[1][in] / model->active[1][in]);
			by_nic = share < least || nic < least ? nic <= share : by_nic;
			least = fmin(least, fmin(share, nic));
		}
		for (size_t i = 0; i < round->count; i++) {
			uint16_t out = work->part[at[i].flow.from], in = work->part[at[i].flow.to];

			if (model->rate[i] >= 0 || fmin(fmin(model->left[0][out] / model->active[0][out],
							     model->left[1][in] / model->active[1][in]),
							fabric_nic(work, at[i].flow)) > least * (1 + 1e-9))
				continue;
			model->rate[i] = least;
			model->left[0][out] = fmax(0, model->left[0][out] - least);
			model->left[1][in] = fmax(0, model->left[1][in] - least);
			model->active[0][out]--;
			model->active[1][in]--;
			narrow--;
		}
	}
}

static double normal(double x, double spread)
{
	return exp(-x * x / (2 * spread * spread)) / (spread * 2.5066);
}

static double sample_likelihood(double rate, double predicted, double nic)
{
	double x = nic > 0 ? fmin(1, rate / nic) : 1, share = nic > 0 ? predicted / nic : 1, likely;

	if (share > 0.97)
		likely = x > FAST ? normal(0, SPREAD) : normal(x - FAST, SPREAD);
	else
		likely = normal(x - share, SHARE * share + SHARE_MORE);
	return log((1 - STRAY) * likely + STRAY);
}

/* Of everything that one-to-one rounds showed, given the parts as they are numbered. */
static double likelihood(struct model *model)
{
	const struct fabric_work *work = model->work;
	double sum;

	model->parts = 0;
	for (size_t i = 0; i < model->n; i++)
		model->parts = work->part[i] >= model->parts ? work->part[i] + 1u : model->parts;
	sum = -find_capacities(model) - PART_COST * (double)model->parts;
	for (size_t r = 0; r < work->round_count; r++) {
		const struct fabric_round *round = &work->rounds[r];

		if (!fabric_one_to_one(round))
			continue;
		predict(model, round);
		for (size_t i = 0; i < round->count; i++) {
			const struct fabric_sample *at = &work->samples[round->first + i];

			sum += sample_likelihood((double)at->rate_Bps, model->rate[i], fabric_nic(work, at->flow));
		}
	}
	return sum;
}

/* --------------------------------------------------------------------------------------------------------------- search */

/* Each host where it explains most. */
static bool move_hosts(struct model *model, double *most)
{
	struct fabric_work *work = model->work;
	bool changed = false;

	for (size_t i = 0; i < model->n; i++) {
		uint16_t own, best, parts;

		fabric_number(work);
		own = best = work->part[i];
		parts = (uint16_t)work->part_count;
		for (uint16_t p = 0; p <= parts && p < model->n; p++) {
			double now;

			if (p == own)
				continue;
			work->part[i] = p;
			now = likelihood(model);
			if (now > *most + GAIN_LEAST) {
				*most = now;
				best = p;
			}
		}
		work->part[i] = best;
		changed |= best != own;
	}
	fabric_number(work);
	return changed;
}

static bool swap_hosts(struct model *model, double *most)
{
	uint16_t *part = model->work->part;
	bool changed = false;

	for (size_t i = 0; i < model->n && model->n <= SWAP_HOSTS; i++)
		for (size_t j = i + 1; j < model->n; j++) {
			uint16_t first = part[i], second = part[j];
			double now;

			if (first == second)
				continue;
			part[i] = second;
			part[j] = first;
			now = likelihood(model);
			if (now > *most + GAIN_LEAST) {
				*most = now;
				changed = true;
			} else {
				part[i] = first;
				part[j] = second;
			}
		}
	fabric_number(model->work);
	return changed;
}

static bool join_parts(struct model *model, double *most)
{
	struct fabric_work *work = model->work;
	uint16_t kept[FABRIC_MODEL_HOSTS];
	bool changed = false;

	for (uint16_t p = 0; p < (uint16_t)work->part_count; p++)
		for (uint16_t q = (uint16_t)(p + 1); q < (uint16_t)work->part_count; q++) {
			double now;

			memcpy(kept, work->part, model->n * sizeof(*kept));
			for (size_t i = 0; i < model->n; i++)
				if (work->part[i] == q)
					work->part[i] = p;
			fabric_number(work);
			now = likelihood(model);
			if (now > *most + GAIN_LEAST) {
				*most = now;
				changed = true;
				q--;
				continue;
			}
			memcpy(work->part, kept, model->n * sizeof(*kept));
			fabric_number(work);
		}
	return changed;
}

static double climb(struct model *model)
{
	double most;

	fabric_number(model->work);
	most = likelihood(model);
	for (unsigned sweep = 0; sweep < SWEEPS_MAX; sweep++) {
		bool changed = move_hosts(model, &most);

		changed |= join_parts(model, &most);
		if (!changed && !swap_hosts(model, &most))
			break;
	}
	return most;
}

static void climb_from(struct model *model, const uint16_t *start, double *most)
{
	struct fabric_work *work = model->work;
	double now;

	if (start)
		memcpy(work->part, start, model->n * sizeof(*start));
	now = climb(model);
	if (now > *most + GAIN_LEAST) {
		*most = now;
		memcpy(model->best, work->part, model->n * sizeof(*model->best));
	}
}

static void find_margins(struct model *model, double most)
{
	struct fabric_work *work = model->work;

	for (size_t i = 0; i < model->n; i++) {
		uint16_t own = work->part[i];

		work->margin[i] = 1e300;
		work->other[i] = own;
		for (uint16_t p = 0; p < (uint16_t)work->part_count; p++) {
			double lost;

			if (p == own)
				continue;
			work->part[i] = p;
			lost = most - likelihood(model);
			if (lost < work->margin[i]) {
				work->margin[i] = lost;
				work->other[i] = p;
			}
		}
		work->part[i] = own;
	}
}

int fabric_model_refine(struct fabric_work *work, const uint16_t *before, bool first)
{
	struct model model;
	double most = -INFINITY;
	int r;

	if (work->n > FABRIC_MODEL_HOSTS)
		return 0;
	r = model_init(work, &model);
	if (r < 0)
		return r;
	climb_from(&model, NULL, &most);
	climb_from(&model, before, &most);
	for (unsigned start = 0; start < (first ? STARTS : 1); start++) {
		size_t parts = 2 + start % 3;

		for (size_t i = 0; i < work->n; i++)
			work->order[i] = (uint16_t)i;
		fabric_shuffle(work, work->order, work->n);
		for (size_t i = 0; i < work->n; i++)
			work->part[work->order[i]] = (uint16_t)(i * parts / work->n);
		climb_from(&model, NULL, &most);
	}
	memcpy(work->part, model.best, work->n * sizeof(*work->part));
	fabric_number(work);
	find_margins(&model, most);
	sys_free(model.arrays);
	return 0;
}
