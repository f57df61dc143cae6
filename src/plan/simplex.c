/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/search.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

#define SLACK ((uint32_t)1 << 31)

/* Below this a reduced cost or a pivot is taken for 0. */
#define NIL 1e-9

int plan_simplex_init(struct plan_simplex *simplex, size_t rows, const double *capacities)
{
	memset(simplex, 0, sizeof(*simplex));
	simplex->rows = rows;
	simplex->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(simplex->inverse, rows * rows), SYS_ARRAY(simplex->values, rows),
				      SYS_ARRAY(simplex->prices, rows), SYS_ARRAY(simplex->direction, rows),
				      SYS_ARRAY(simplex->scale, rows), SYS_ARRAY(simplex->weights, rows),
				      SYS_ARRAY(simplex->basic, rows) },
		7);
	if (!simplex->arrays)
		return -ENOMEM;
	simplex->unit = rows ? capacities[0] : 1;
	for (size_t i = 1; i < rows; i++)
		simplex->unit = capacities[i] < simplex->unit ? capacities[i] : simplex->unit;
	for (size_t i = 0; i < rows; i++) {
		simplex->scale[i] = simplex->unit / capacities[i];
		simplex->inverse[i * rows + i] = 1;
		/* A little more for each, all different: the rows do not fill at once, and the search does not go round. */
		simplex->values[i] = 1 + 1e-11 * (double)(1 + (i * 37) % 97);
		simplex->basic[i] = SLACK | (uint32_t)i;
	}
	return 0;
}

void plan_simplex_fini(struct plan_simplex *simplex)
{
	sys_free(simplex->arrays);
	memset(simplex, 0, sizeof(*simplex));
}

static void set_prices(struct plan_simplex *simplex)
{
	size_t rows = simplex->rows;

	memset(simplex->prices, 0, rows * sizeof(double));
	for (size_t i = 0; i < rows; i++) {
		if (simplex->basic[i] & SLACK)
			continue;
		for (size_t j = 0; j < rows; j++)
			simplex->prices[j] += simplex->inverse[i * rows + j];
	}
}

/* The variable that promises most: a slack, or a column; SLACK | rows: none, this is the optimum. */
static uint32_t choose_entering(struct plan_simplex *simplex, const struct plan_columns *columns)
{
	size_t rows = simplex->rows;
	double best = NIL, *weights = simplex->weights;
	uint32_t entering = SLACK | (uint32_t)rows;

	for (uint32_t i = 0; i < rows; i++) {
		weights[i] = simplex->prices[i] * simplex->scale[i];
		if (-simplex->prices[i] > best) {
			best = -simplex->prices[i];
			entering = SLACK | i;
		}
	}
	for (uint32_t column = 0; column < columns->count; column++) {
		const uint16_t *loads = plan_column_loads(columns, column);
		double reduced = 1;

		for (size_t i = 0; i < rows; i++)
			reduced -= weights[i] * loads[i];
		if (reduced > best) {
			best = reduced;
			entering = column;
		}
	}
	return entering;
}

static void set_direction(struct plan_simplex *simplex, const struct plan_columns *columns, uint32_t entering)
{
	size_t rows = simplex->rows;

	for (size_t i = 0; i < rows; i++) {
		const double *inverse = &simplex->inverse[i * rows];
		double sum = 0;

		if (entering & SLACK) {
			sum = inverse[entering & ~SLACK];
		} else {
			const uint16_t *loads = plan_column_loads(columns, entering);

			for (size_t j = 0; j < rows; j++)
				sum += inverse[j] * loads[j] * simplex->scale[j];
		}
		simplex->direction[i] = sum;
	}
}

/* The basic variable that is 0 first; rows: none ever is. */
static size_t choose_leaving(const struct plan_simplex *simplex)
{
	size_t leaving = simplex->rows;
	double least = 0;

	for (size_t i = 0; i < simplex->rows; i++) {
		double ratio;

		if (simplex->direction[i] <= NIL)
			continue;
		ratio = simplex->values[i] / simplex->direction[i];
		if (leaving == simplex->rows || ratio < least) {
			least = ratio;
			leaving = i;
		}
	}
	return leaving;
}

static void pivot(struct plan_simplex *simplex, size_t leaving, uint32_t entering)
{
	size_t rows = simplex->rows;
	double *pivot_row = &simplex->inverse[leaving * rows], factor = 1 / simplex->direction[leaving];

	for (size_t j = 0; j < rows; j++)
		pivot_row[j] *= factor;
	simplex->values[leaving] *= factor;
	for (size_t i = 0; i < rows; i++) {
		double *row = &simplex->inverse[i * rows], by = simplex->direction[i];

		if (i == leaving || by == 0)
			continue;
		for (size_t j = 0; j < rows; j++)
			row[j] -= by * pivot_row[j];
		simplex->values[i] -= by * simplex->values[leaving];
		if (simplex->values[i] < 0)
			simplex->values[i] = 0;
	}
	simplex->basic[leaving] = entering;
}

bool plan_simplex_run(struct plan_simplex *simplex, struct plan_columns *columns, uint64_t work_limit)
{
	size_t rows = simplex->rows;

	for (;;) {
		uint32_t entering;
		size_t leaving;

		set_prices(simplex);
		entering = choose_entering(simplex, columns);
		if (entering == (SLACK | (uint32_t)rows))
			return true;
		set_direction(simplex, columns, entering);
		leaving = choose_leaving(simplex);
		if (leaving == rows)
			return true; /* a column that crosses nothing; the caller has looked for those */
		pivot(simplex, leaving, entering);
		columns->work += rows * (3 * rows + columns->count);
		if (columns->work >= work_limit)
			return false;
	}
}

void plan_simplex_shares(const struct plan_simplex *simplex, size_t columns, double *ret)
{
	memset(ret, 0, columns * sizeof(double));
	for (size_t i = 0; i < simplex->rows; i++)
		if (!(simplex->basic[i] & SLACK))
			ret[simplex->basic[i]] = simplex->values[i];
}
