/* Candidates for channels, and how to find the cheapest one when each crossing of a row has a price. */
#ifndef TRIBUTARY_PLAN_COLUMNS_H
#define TRIBUTARY_PLAN_COLUMNS_H

#include "plan/model.h"

struct plan_columns {
	const struct plan_model *model;
	size_t count, room;
	struct plan_channel *channels;
	uint16_t *loads; /* of column c on row e: [c × rows + e] */
	uint16_t *
		touched; /* the rows that a column crosses, in order: as many as touched_counts[c], at the same places */
	uint16_t *touched_counts;
	uint32_t *detours; /* the columns' own */
	uint32_t *slots;   /* hash of loads and detour → column and 1 */
	size_t slot_mask;
	bool complete; /* for every channel there is a column with the same loads and no greater detour */
	/* Of pricing. */
	double *reach; /* [subset × GPUs of a row]: the cheapest way over all of a subset that ends at one of it */
	uint64_t work; /* steps of the inner loops of everything that works on these columns */
};

/* -ENOMEM. plan_columns_fini accepts a zeroed struct. */
int plan_columns_init(struct plan_columns *columns, const struct plan_model *model);
void plan_columns_fini(struct plan_columns *columns);

/* A channel's crossings of each row; returns its detour. */
uint32_t plan_channel_loads(const struct plan_model *model, const struct plan_channel *channel, uint16_t *loads);

/* *ret_column: the new one, or an old one with the same loads (which takes the channel over if its detour is less).
 * -ENOSPC: there is no more room. */
int plan_columns_add(struct plan_columns *columns, const struct plan_channel *channel, uint32_t *ret_column);

static inline const uint16_t *plan_column_loads(const struct plan_columns *columns, uint32_t column)
{
	return &columns->loads[column * columns->model->rows];
}

static inline const uint16_t *plan_column_touched(const struct plan_columns *columns, uint32_t column)
{
	return &columns->touched[column * columns->model->rows];
}

/* What its crossings cost. */
double plan_column_price(const struct plan_columns *columns, uint32_t column, const double *prices);

/* All channels, if they are few and that takes no more work; sets `complete` if so. */
void plan_columns_enumerate(struct plan_columns *columns, uint64_t work_limit);

/* What pricing found: the cheapest channel first, then some others that are cheap. */
enum { PLAN_PRICED_MAX = PLAN_GPUS_MAX };
struct plan_priced {
	struct plan_channel channels[PLAN_PRICED_MAX];
	double costs[PLAN_PRICED_MAX];
	size_t count;
	double least; /* no channel costs less; 0 if it was not exact */
};

/*
 * The cheapest channels when crossing a row costs prices[row] and detours cost `detour_price` each. exact: by dynamic
 * programming over subsets; otherwise by exchanges from a few starts.
 */
void plan_price(struct plan_columns *columns, const double *prices, double detour_price, bool exact,
		struct plan_priced *ret);
/* Steps of one exact pricing. */
uint64_t plan_price_work(const struct plan_model *model);

#endif
