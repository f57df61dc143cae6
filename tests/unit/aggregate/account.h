/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What segments put on the links: every transfer is followed from host to host, as the engine would make it. Knows
 * nothing of how the schedule chooses.
 */
#ifndef TESTS_UNIT_AGGREGATE_ACCOUNT_H
#define TESTS_UNIT_AGGREGATE_ACCOUNT_H

#include "aggregate/schedule.h"

struct account {
	uint64_t bytes;                                                         /* of the segments themselves */
	uint64_t host_out[SCHEDULE_NODES_MAX], host_in[SCHEDULE_NODES_MAX];     /* by host */
	uint64_t uplink_out[SCHEDULE_NODES_MAX], uplink_in[SCHEDULE_NODES_MAX]; /* by leaf */
	uint64_t rooted[SCHEDULE_NODES_MAX], aggregated[SCHEDULE_NODES_MAX];    /* by node */
};

/* Asserts that the segment is sound: aggregators of each host and leaf are in it and not lost, and so on. */
void account_segment(struct account *account, const struct schedule_group *group,
		     const struct schedule_segment *segment, uint64_t bytes);

/*
 * The time of the slowest link for the bytes of *account, in seconds; links without a rate take none. Rates of hosts are
 * those of their fastest member.
 */
double account_slowest_s(const struct account *account, const struct schedule_group *group);

/* A group of so many hosts in each leaf, each with so many members and that rate. Uplinks are not known. */
void account_group(struct schedule_group *ret, const unsigned *hosts, size_t leaf_count, unsigned members,
		   uint64_t rate_Bps);
struct schedule *account_schedule(const struct schedule_group *group);
/* One more aggregator; its host is one more host. leaf may be the next that there is not yet. */
void account_add_aggregator(struct schedule_group *group, uint16_t leaf, uint64_t rate_Bps);

#endif
