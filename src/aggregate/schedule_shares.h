/* SPDX-License-Identifier: Apache-2.0 */
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
	uint32_t leaf;
	bool aggregator;
	double rate_Bps; /* above 0 */
};

/* The first place is a host. */
struct schedule_problem {
	size_t leaf_count, place_count;
	const struct schedule_place *places;
	const double *uplink_Bps; /* of each leaf, the slower direction; 0: bounds nothing */
};

/*
 * Of all bytes; a leaf's roots and rests together are 1 where it has hosts, its roots are its share. The arrays are the
 * caller's.
 */
struct schedule_shares {
	double *leaf;                /* what each roots */
	double *root;                /* of each place: what it aggregates as the root */
	double *rest;                /* what it aggregates for a root elsewhere */
	double *load;                /* bytes on its NIC, each direction */
	struct schedule_loads loads; /* the greatest of each kind, and the time of the slowest link */
};

/* -ENOMEM. */
int schedule_shares_find(const struct schedule_problem *problem, struct schedule_shares *ret);

#endif
