/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's ring and double binary tree put on a cluster's links, and how long the busiest link takes for each byte of a large
 * AllReduce. Counts of edges, exact; docs/design/aggregation.md, Gain. Pure.
 */
#ifndef TRIBUTARY_AGGREGATE_GAIN_NCCL_H
#define TRIBUTARY_AGGREGATE_GAIN_NCCL_H

#include <stddef.h>
#include <stdint.h>

struct schedule_group;
struct schedule;

#define GAIN_NCCL_NO_PARENT UINT32_MAX
/*
 * Of NCCL's first or second tree over so many nodes. The first tree: node 0 is the root. The parent of node i > 0 with lowest set bit
 * b is (i - b) + 2b if i has that bit free and the result is below count, which is (i ^ b) | 2b, else i - b. The second tree is
 * the first one with nodes counted from the end if count is even, and shifted by one if it is odd.
 */
uint32_t gain_nccl_tree_parent(uint32_t node, uint32_t count, int second);

/* Seconds for each byte of one rank's buffer; 0: no link that is crossed has a known rate. */
struct gain_nccl {
	double ring_s_per_B, tree_s_per_B;
};
/*
 * One rank on each member of the group, whose hosts differ; NCCL's order is that of order[member_count], members. Rates are those
 * that the schedule of the group takes. -ENOMEM.
 */
int gain_nccl_find(const struct schedule_group *group, const struct schedule *schedule, const uint16_t *order,
		   struct gain_nccl *ret);

#endif
