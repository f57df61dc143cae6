/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/gain_nccl.h"

#include "aggregate/schedule.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum { TREES = 2, WAYS = 2 };

/* Bytes on each link for each byte of the operation, [way][index]: out of it, and into it. */
struct loads {
	double member[WAYS][SCHEDULE_MEMBERS_MAX], uplink[WAYS][SCHEDULE_NODES_MAX];
};

static uint32_t parent_in_first(uint32_t node, uint32_t count)
{
	uint32_t bit = node & -node, parent = (node ^ bit) | bit << 1;

	if (!node)
		return GAIN_NCCL_NO_PARENT;
	return parent < count ? parent : node ^ bit;
}

uint32_t gain_nccl_tree_parent(uint32_t node, uint32_t count, int second)
{
	uint32_t at = count % 2 ? (node + count - 1) % count : count - 1 - node, parent;

	if (!second)
		return parent_in_first(node, count);
	parent = parent_in_first(at, count);
	if (parent == GAIN_NCCL_NO_PARENT)
		return parent;
	return count % 2 ? (parent + 1) % count : count - 1 - parent;
}

static void cross(const struct schedule_group *group, struct loads *loads, uint16_t from, uint16_t to, double bytes)
{
	uint16_t out = group->nodes[from].leaf, in = group->nodes[to].leaf;

	loads->member[0][from] += bytes;
	loads->member[1][to] += bytes;
	if (out == in)
		return;
	loads->uplink[0][out] += bytes;
	loads->uplink[1][in] += bytes;
}

static double longer(double longest, double bytes, double rate_Bps)
{
	return rate_Bps > 0 && bytes / rate_Bps > longest ? bytes / rate_Bps : longest;
}

static double slowest_s_per_B(const struct schedule_group *group, const struct schedule *schedule,
			      const struct loads *loads)
{
	double longest = 0;

	for (int way = 0; way < WAYS; way++) {
		const uint64_t *uplink_Bps = way ? group->uplink_in_Bps : group->uplink_out_Bps;

		for (size_t i = 0; i < group->member_count; i++)
			longest = longer(longest, loads->member[way][i], schedule_node_rate_Bps(schedule, (unsigned)i));
		for (size_t i = 0; i < group->leaf_count; i++)
			longest = longer(longest, loads->uplink[way][i], (double)uplink_Bps[i]);
	}
	return longest;
}

int gain_nccl_find(const struct schedule_group *group, const struct schedule *schedule, const uint16_t *order,
		   struct gain_nccl *ret)
{
	struct loads *loads = sys_zalloc(sizeof(*loads));
	size_t count = group->member_count;
	double part = 2.0 * ((double)count - 1) / (double)count;

	if (!loads)
		return -ENOMEM;
	for (size_t i = 0; count > 1 && i < count; i++)
		cross(group, loads, order[i], order[(i + 1) % count], part);
	ret->ring_s_per_B = slowest_s_per_B(group, schedule, loads);
	memset(loads, 0, sizeof(*loads));
	for (int second = 0; second < TREES; second++)
		for (uint32_t i = 0; i < count; i++) {
			uint32_t parent = gain_nccl_tree_parent(i, (uint32_t)count, second);

			if (parent == GAIN_NCCL_NO_PARENT)
				continue;
			cross(group, loads, order[i], order[parent], 1.0 / TREES);
			cross(group, loads, order[parent], order[i], 1.0 / TREES);
		}
	ret->tree_s_per_B = slowest_s_per_B(group, schedule, loads);
	sys_free(loads);
	return 0;
}
