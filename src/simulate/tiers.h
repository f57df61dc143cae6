/*
 * Who aggregates how much on a rail (docs/design/aggregation.md), for any number of hosts: the engine's own rules
 * (aggregate/schedule_shares.h). Pure.
 */
#ifndef TRIBUTARY_SIMULATE_TIERS_H
#define TRIBUTARY_SIMULATE_TIERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/*
 * The first place is a host. An aggregator with less than a quarter of the hosts' median gets nothing. *ret: seconds that
 * the slowest link takes for each byte. -ENOMEM.
 */
int simulate_tiers_share(struct simulate_place *places, size_t place_count, struct simulate_leaf *leaves,
			 size_t leaf_count, double *ret_s_per_B);

#endif
