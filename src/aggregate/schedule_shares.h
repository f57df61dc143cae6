/*
 * Which shares of the bytes the leaders get, so that the slowest link is done as early as possible. docs/design/aggregation.md
 * derives it. Pure.
 *
 * All members must come to the same shares to the last bit. So: double arithmetic of + − × ÷ and comparisons alone, in a
 * fixed order, never contracted (the Makefile sees to that), which IEEE 754 defines bit for bit.
 */
#ifndef TRIBUTARY_AGGREGATE_SCHEDULE_SHARES_H
#define TRIBUTARY_AGGREGATE_SCHEDULE_SHARES_H

#include "aggregate/schedule.h"

/* What can aggregate in a leaf: a host of members, or an aggregator. */
struct schedule_place {
	uint16_t leaf;
	bool aggregator;
	double rate_Bps; /* above 0 */
};

struct schedule_problem {
	size_t leaf_count, place_count;
	struct schedule_place places[SCHEDULE_NODES_MAX];
	double uplink_Bps[SCHEDULE_NODES_MAX]; /* of each leaf, the slower direction; 0: bounds nothing */
};

/* Of all bytes; a leaf's roots and rests together are 1 where it has hosts, its roots are its share. */
struct schedule_shares {
	double slowest_s_per_B;          /* time of the slowest link for each byte of an operation */
	double leaf[SCHEDULE_NODES_MAX]; /* what it roots */
	double root[SCHEDULE_NODES_MAX]; /* of each place: what it aggregates as the root */
	double rest[SCHEDULE_NODES_MAX]; /* what it aggregates for a root elsewhere */
};

/* At least one place is a host. */
void schedule_shares_find(const struct schedule_problem *problem, struct schedule_shares *ret);
/* What these shares put on the links; all but slowest_s_per_B. */
void schedule_shares_loads(const struct schedule_problem *problem, const struct schedule_shares *shares,
			   struct schedule_loads *ret);

#endif
