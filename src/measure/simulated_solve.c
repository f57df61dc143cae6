/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates as an explicit-rate network finds them: every constraint r advertises a rate R, every flow sends at
 *
 *     x = (sum over its constraints of weight × R^-16)^(-1/16)
 *
 * and every constraint moves R towards what would fill it, R *= sqrt(bound / load). Where this stands still,
 * constraints are full or R is so large that it no longer counts, and the rates are alpha-fair with alpha 16: close
 * to max-min, but a flow with several bottlenecks gets a few percent less than one with one.
 */
#include "measure/simulated_machine.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { ROUNDS_MAX = 4000, STILL_ROUNDS = 4 };

#define STILL  1e-5 /* relative change of a rate in a round */
#define EXCESS 1e-4 /* relative, of a load */
#define FAR    4.0  /* R is never more than this times the largest bound */

struct solving {
	const struct probe_simulated_rows *rows;
	size_t flow_count, row_count; /* of the rows that can bind, the flows' own ones first */
	void *arrays;                 /* all that follow */
	double *bound;                /* over the largest one */
	double *weight;               /* of the rows after the flows' own */
	double *advertised;           /* R */
	double *rate, *before;
	double largest;
};

static double power16(double x)
{
	x *= x;
	x *= x;
	x *= x;
	return x * x;
}

static double root16(double x)
{
	return sqrt(sqrt(sqrt(sqrt(x))));
}

/* What a flow gets when it is alone, in place of all its rows that nobody else fills. */
static double alone(const struct probe_simulated_rows *rows, size_t flow)
{
	double least = INFINITY;

	for (size_t i = 0; i < rows->count; i++) {
		double weight = rows->weight[i * rows->flow_count + flow];

		if (weight > 0)
			least = fmin(least, rows->bound_Bps[i] / weight);
	}
	return least;
}

static int solving_init(struct solving *solving, const struct probe_simulated_rows *rows)
{
	size_t flows = rows->flow_count, room = rows->count + flows + 1;

	*solving = (struct solving){ .rows = rows, .flow_count = flows, .row_count = flows };
	solving->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(solving->bound, room), SYS_ARRAY(solving->weight, room * (flows + 1)),
				      SYS_ARRAY(solving->advertised, room), SYS_ARRAY(solving->rate, flows),
				      SYS_ARRAY(solving->before, flows) },
		5);
	if (!solving->arrays)
		return -ENOMEM;
	for (size_t i = 0; i < flows; i++) {
		solving->bound[i] = alone(rows, i);
		if (isinf(solving->bound[i])) {
			sys_free(solving->arrays);
			return -EINVAL;
		}
		solving->largest = fmax(solving->largest, solving->bound[i]);
	}
	for (size_t i = 0; i < rows->count; i++) {
		const double *weight = &rows->weight[i * flows];
		double most = 0;

		for (size_t j = 0; j < flows; j++)
			if (weight[j] > 0)
				most += weight[j] * solving->bound[j];
		if (most <= rows->bound_Bps[i] * (1 + 1e-9))
			continue;
		memcpy(&solving->weight[(solving->row_count - flows) * flows], weight, flows * sizeof(double));
		solving->bound[solving->row_count++] = rows->bound_Bps[i];
		solving->largest = fmax(solving->largest, rows->bound_Bps[i]);
	}
	for (size_t i = 0; i < solving->row_count; i++) {
		solving->bound[i] /= solving->largest;
		solving->advertised[i] = fmin(solving->bound[i], FAR);
	}
	return 0;
}

static void send_all(struct solving *solving)
{
	size_t flows = solving->flow_count;

	for (size_t i = 0; i < flows; i++)
		solving->rate[i] = 1 / power16(solving->advertised[i]);
	for (size_t i = flows; i < solving->row_count; i++) {
		const double *weight = &solving->weight[(i - flows) * flows];
		double price = 1 / power16(solving->advertised[i]);

		for (size_t j = 0; j < flows; j++)
			solving->rate[j] += weight[j] * price;
	}
	for (size_t i = 0; i < flows; i++)
		solving->rate[i] = 1 / root16(solving->rate[i]);
}

static double load_of(const struct solving *solving, size_t row)
{
	size_t flows = solving->flow_count;
	double load = 0;

	if (row < flows)
		return solving->rate[row];
	for (size_t j = 0; j < flows; j++)
		load += solving->weight[(row - flows) * flows + j] * solving->rate[j];
	return load;
}

static void advertise(struct solving *solving)
{
	for (size_t i = 0; i < solving->row_count; i++)
		solving->advertised[i] = fmin(solving->advertised[i] * sqrt(solving->bound[i] / load_of(solving, i)),
					      FAR);
}

/* A constraint that is in excess moves for a while before it is felt. */
static bool still(const struct solving *solving)
{
	for (size_t i = 0; i < solving->row_count; i++)
		if (load_of(solving, i) > (1 + EXCESS) * solving->bound[i])
			return false;
	for (size_t i = 0; i < solving->flow_count; i++)
		if (fabs(solving->rate[i] - solving->before[i]) > STILL * solving->rate[i])
			return false;
	return true;
}

/* What is left of an excess is taken from those that cause it. */
static void fit(struct solving *solving, double *ret_Bps)
{
	size_t flows = solving->flow_count;

	for (size_t i = 0; i < flows; i++)
		ret_Bps[i] = fmin(solving->rate[i], solving->bound[i]) * solving->largest;
	for (size_t i = flows; i < solving->row_count; i++) {
		double excess = load_of(solving, i) / solving->bound[i];

		for (size_t j = 0; excess > 1 && j < flows; j++)
			if (solving->weight[(i - flows) * flows + j] > 0)
				ret_Bps[j] = fmin(ret_Bps[j], solving->rate[j] / excess * solving->largest);
	}
}

int simulated_solve(const struct probe_simulated_rows *rows, double *ret_Bps)
{
	struct solving solving;
	unsigned still_rounds = 0;
	int r = solving_init(&solving, rows);

	if (r < 0)
		return r;
	for (unsigned round = 0; round < ROUNDS_MAX && still_rounds < STILL_ROUNDS; round++) {
		memcpy(solving.before, solving.rate, solving.flow_count * sizeof(double));
		send_all(&solving);
		still_rounds = still(&solving) ? still_rounds + 1 : 0;
		advertise(&solving);
	}
	fit(&solving, ret_Bps);
	sys_free(solving.arrays);
	return 0;
}
