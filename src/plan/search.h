/* From columns to a plan of equal shares: the bound by linear programming, then a search over numbers of channels. */
#ifndef TRIBUTARY_PLAN_SEARCH_H
#define TRIBUTARY_PLAN_SEARCH_H

#include "plan/columns.h"
#include "plan/simplex.h"

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
/* All of what follows but polishing. No plan's total is above bound_Bps. */
int plan_search_run(struct plan_search *search, uint64_t bound_Bps);
/* Columns to begin with, and the best of them alone. True: it crosses nothing that is known. */
bool plan_search_seed(struct plan_search *search);
/* Of GPUs that are joined each to each: channels that share no link. */
void plan_search_seed_mesh(struct plan_search *search);
/* One channel after the other, each by what is least loaded. */
void plan_search_pack(struct plan_search *search);
/* The linear program, by adding columns until no channel is missing; lowers bound_Bps. */
void plan_search_relax(struct plan_search *search);
/* The largest total of equal shares. Sets `exact`. */
int plan_search_equal(struct plan_search *search);
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
