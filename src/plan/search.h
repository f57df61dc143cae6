/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search: columns (candidates for channels) and how to find the cheapest one when each crossing of a row has a price; the
 * linear program over them; then a plan of equal shares, over numbers of channels.
 */
#ifndef TRIBUTARY_PLAN_SEARCH_H
#define TRIBUTARY_PLAN_SEARCH_H

#include "plan/model.h"

struct plan_columns {
	const struct plan_model *model;
	size_t count, room;
	void *arrays; /* the block of all of these */
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

/* -------------------------------------------------------------------------------------------------- linear program */

/*
 * The linear program over columns, which is a plan without the demand for equal shares and a number of channels:
 *
 *     maximise sum x(c)   so that   sum over c of load(c, e) × x(c) <= capacity(e)   for each row e
 *
 * Revised simplex with a dense inverse, in units of the least capacity. Columns can be added between runs.
 */
struct plan_simplex {
	size_t rows;
	double unit;     /* the least capacity */
	void *arrays;    /* the block of all of these */
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

/* ------------------------------------------------------------------------------------------------------------ search */

/* Two totals that differ by less, relative, are equal: what the linear program's arithmetic leaves open. */
#define PLAN_CLOSE 2e-9

/* Channels of equal shares. Their total is count × capacity / load, as a fraction, so that no rounding decides. */
struct plan_selection {
	size_t count;
	uint32_t columns[PLAN_CHANNELS_MAX];
	uint64_t capacity_Bps, load; /* of the row that is full first */
};

struct plan_search {
	const struct plan_model *model;
	struct plan_columns columns;
	struct plan_simplex simplex;
	uint64_t work_limit;
	double bound_Bps;  /* no plan's total is above */
	bool bound_closed; /* the linear program is solved: no channel that is not yet a column can help it */
	void *arrays;      /* the block of all that follow */
	double *duals;     /* of a row: every channel costs at least 1 by them */
	struct plan_selection best;
	struct plan_selection packed[PLAN_CHANNELS_MAX + 1]; /* by their number */
	bool exact;
	/* Scratch, one for each row. */
	uint32_t *loads, *limits;
	double *prices, *weights, *capacities;
	double *shares; /* of columns */
};

/* -ENOMEM. plan_search_fini accepts a zeroed struct. */
int plan_search_init(struct plan_search *search, const struct plan_model *model, uint64_t work_limit);
void plan_search_fini(struct plan_search *search);

/* Whether one more such channel fits into what the loads leave of the limits. */
bool plan_search_fits(const struct plan_search *search, uint32_t column);
/* The best so far, and the best of so many channels, if they are. */
void plan_search_offer(struct plan_search *search, const struct plan_selection *selection);
/* Columns to begin with, packing, the linear program, equal shares. No plan's total is above bound_Bps. */
int plan_search_run(struct plan_search *search, uint64_t bound_Bps);
/* Of GPUs that are joined each to each: channels that share no link. */
void plan_search_seed_mesh(struct plan_search *search);
/* The linear program, by adding columns until no channel is missing; lowers bound_Bps. */
void plan_search_relax(struct plan_search *search);
/* Of plans of so many channels with that total the one with the least detours for each, then the fewest channels. */
void plan_search_polish(struct plan_search *search, size_t least, size_t most);
/*
 * After all that: `count` channels with at least so many thousandths of the best total, or false. *ret: the best that was
 * found, in both cases.
 */
bool plan_search_few(struct plan_search *search, size_t count, unsigned permille, uint64_t work_limit,
		     struct plan_selection *ret);
/*
 * Into the plan, one after the other, each the one that goes best with those before it: NCCL takes only the first channels
 * where another host has fewer or the user asks for fewer. NICs have their turns by their numbers, because a channel
 * leaves each host by that host's NIC of the turn: by the same one on hosts that are alike, however their links deviate.
 */
void plan_search_order(struct plan_search *search, const struct plan_selection *selection, struct plan *plan);
/* All that beats the best so far with `count` channels. 0: no more does, and that is proved; -EAGAIN: nobody knows. */
int plan_search_beat(struct plan_search *search, size_t count, uint64_t work_limit);

/* True: the best plan so far is as good as the bound. */
bool plan_search_done(const struct plan_search *search);

/* plan_make of PLAN_DIRECT. */
int plan_make_direct(const struct topology *topology, const struct plan_request *request, struct plan *ret);

/*
 * Whether NCCL's balanced trees carry as much as those whose first GPU has all edges to other hosts. Of two hosts there
 * is one edge, at the first GPU in both. A host of many has up to three in one of NCCL's two trees and one in the other,
 * each with half of the rate; if balanced, one of the three is the second GPU's. Errors: those of plan_make.
 */
int plan_tree_balanced(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		       bool *ret);

/* Shared by the files of the search. */
/* Steps that take about a nanosecond: perf/results/planner.txt says what they were measured to take. */
uint64_t plan_work_limit(const struct plan_request *request);
/* In whole bytes/s, of a model that is not joined. */
uint64_t plan_search_bound(const struct plan_search *search, uint64_t cuts_Bps);
void plan_store_classes(const struct plan_model *model, struct plan *plan);
/* Adds a column's crossings to search->loads, or takes them away. */
void plan_search_load(struct plan_search *search, uint32_t column, bool add);
void plan_selection_value(struct plan_search *search, struct plan_selection *selection);
int plan_selection_compare(const struct plan_selection *a, const struct plan_selection *b);
double plan_selection_total(const struct plan_selection *selection); /* bytes/s; of models that are joined, parts */
/* Values it, and takes it if it is better than the best so far. */
bool plan_search_take(struct plan_search *search, struct plan_selection *selection);
/*
 * The most crossings of each row for `count` channels to have more than so many thousandths of the best total (above), or
 * at least as much.
 */
void plan_search_limits(struct plan_search *search, size_t count, unsigned permille, bool above);
/* Whether so many channels may fit the limits, by the duals. */
bool plan_search_may_fit(const struct plan_search *search, size_t count);
/* Exchanges channels until all rows are within their limits; false: not found. */
bool plan_search_repair(struct plan_search *search, struct plan_selection *selection, unsigned rounds,
			uint64_t work_limit);
/* Adds the first `most` of what pricing found; how many are new. */
size_t plan_search_add(struct plan_search *search, const struct plan_priced *priced, size_t most);
/* Of complete columns: whether `count` of them fit the limits. 1: yes, *ret has them; 0: no; -EAGAIN: too much work. */
int plan_search_prove(struct plan_search *search, size_t count, uint64_t work_limit, struct plan_selection *ret);

#endif
