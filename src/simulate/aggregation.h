/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each host and aggregator sums of a simulated operation, on one rail (docs/design/aggregation.md), for any number of hosts: the engine's own rules
 * (aggregate/schedule_shares.h). Pure.
 */
#ifndef TRIBUTARY_SIMULATE_AGGREGATION_H
#define TRIBUTARY_SIMULATE_AGGREGATION_H

#include "simulate/job_internal.h"

struct simulate_place {
	uint32_t leaf; /* dense, from 0 */
	bool aggregator;
	double rate_Bps; /* above 0; INFINITY: bounds nothing */
	double load;     /* result: bytes on its NIC, each direction, for each byte of an operation */
};
struct simulate_leaf {
	double uplink_Bps; /* the slower direction; INFINITY: bounds nothing */
	double root;       /* result: what it roots; all of them: 1 */
	size_t hosts;      /* result */
};
/* The job's leaves on a rail, as the shares know them, and where each place is. */
struct simulate_aggregation {
	void *arrays;                  /* the block of all of these */
	struct simulate_place *places; /* hosts first */
	struct simulate_end *ends;     /* of places */
	struct simulate_leaf *leaves;  /* numbered by first appearance */
	uint32_t *leaf_of;             /* of switches, or SIMULATE_NONE */
	uint32_t *first_place;         /* of leaves: one that is there */
	size_t place_count, leaf_count;
};

/*
 * The first place is a host. An aggregator with less than a quarter of the hosts' median gets nothing. *ret: seconds that
 * the slowest link takes for each byte. -ENOMEM.
 */
int simulate_aggregation_share(struct simulate_place *places, size_t place_count, struct simulate_leaf *leaves,
			       size_t leaf_count, double *ret_s_per_B);

struct schedule_group;
/* What the engine would know. At most SCHEDULE_MEMBERS_MAX hosts and SCHEDULE_AGGREGATORS_MAX aggregators; *ret is all zero before. */
void simulate_aggregation_group(const struct simulate_aggregation *aggregation, size_t host_count,
				struct schedule_group *ret);
int simulate_aggregation_by_steps(struct simulate_build *build, const struct simulate_aggregation *aggregation);
/*
 * What it takes alone, worked out from as many calls as fill the links and go on for a while: the cost does not depend on
 * the bytes. The build's network stays as it is.
 */
int simulate_aggregation_by_window(struct simulate_build *build, const struct simulate_aggregation *aggregation,
				   double *ret_s);

#endif
