/*
 * The linear program over columns, which is a plan without the demand for equal shares and a number of channels:
 *
 *     maximise sum x(c)   so that   sum over c of load(c, e) × x(c) <= capacity(e)   for each row e
 *
 * Revised simplex with a dense inverse, in units of the least capacity. Columns can be added between runs.
 */
#ifndef TRIBUTARY_PLAN_SIMPLEX_H
#define TRIBUTARY_PLAN_SIMPLEX_H

#include "plan/columns.h"

struct plan_simplex {
	size_t rows;
	double unit;     /* the least capacity */
	double *inverse; /* rows × rows */
	double *values;  /* of the basic variables */
	double *prices;  /* of a row: what one more unit of its capacity, as a share of all of it, would bring */
	double *direction, *scale, *weights;
	uint32_t *basic; /* a column, or SLACK and the row */
};

int plan_simplex_init(struct plan_simplex *simplex, size_t rows, const double *capacities);
void plan_simplex_fini(struct plan_simplex *simplex);
/* To the optimum over the columns there are, or until columns->work reaches a limit (false). */
bool plan_simplex_run(struct plan_simplex *simplex, struct plan_columns *columns, uint64_t work_limit);
/* The solution's share of a column, in the unit; 0 for most. */
void plan_simplex_shares(const struct plan_simplex *simplex, size_t columns, double *ret);

#endif
