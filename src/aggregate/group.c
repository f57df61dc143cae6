/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from who is in a group: the schedule, the facts, the lengths; and why it ends. */
#include "aggregate/group.h"

#include "aggregate/gain.h"
#include "aggregate/aggregators.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *group_host(const struct group *group, size_t position)
{
	return node_is_aggregator(group, position) ? "of an aggregator" : group->members[position].facts.host;
}

/* Where an aggregator's leaf has no members it counts with the first: it can then be a root at least. */
static void plan_aggregators(const struct group *group, struct schedule_group *plan, uint32_t without)
{
	const uint32_t usable = aggregators_usable(group) & ~without;

	for (size_t i = group->count; i < group->node_count; i++) {
		const struct group_aggregator *aggregator = &group->aggregators->aggregators[i - group->count];
		struct schedule_node *node = &plan->nodes[i];

		*node = (struct schedule_node){ .host = (uint16_t)plan->host_count++,
						.rate_Bps = aggregator->rate_Bps,
						.aggregator = true,
						.lost = !(usable & aggregators_bit(i - group->count)) };
		for (size_t k = 0; k < group->count; k++)
			if (group->members[k].facts.leaf == aggregator->leaf)
				node->leaf = group->members[k].leaf;
	}
	plan->node_count = group->node_count;
}

static struct schedule_group *plan_new(const struct group *group, uint32_t without)
{
	struct schedule_group *plan = sys_zalloc(sizeof(*plan));

	if (!plan)
		return NULL;
	plan->member_count = plan->node_count = group->count;
	plan->host_count = group->host_count;
	plan->leaf_count = group->leaf_count;
	for (size_t i = 0; i < group->count; i++) {
		const struct group_member *member = &group->members[i];

		plan->nodes[i] = (struct schedule_node){ .host = member->host,
							 .leaf = member->leaf,
							 .rate_Bps = member->facts.rate_Bps };
		plan->uplink_out_Bps[member->leaf] = member->facts.up_rate_Bps;
		plan->uplink_in_Bps[member->leaf] = member->facts.down_rate_Bps;
	}
	plan_aggregators(group, plan, without);
	return plan;
}

int group_choose(const struct group *group, uint32_t *ret_left)
{
	struct schedule_group *plan = plan_new(group, 0);

	if (!plan)
		return -ENOMEM;
	schedule_leave_aggregators(plan);
	*ret_left = 0;
	for (size_t i = group->count; i < group->node_count; i++)
		if (plan->nodes[i].lost)
			*ret_left |= aggregators_usable(group) & aggregators_bit(i - group->count);
	sys_free(plan);
	return 0;
}

int group_plan(struct group *group, uint32_t without)
{
	struct schedule_group *plan = plan_new(group, without);
	int r;

	if (!plan)
		return -ENOMEM;
	schedule_free(group->schedule);
	group->schedule = NULL;
	r = schedule_new(plan, &group->schedule);
	sys_free(plan);
	return r;
}

int group_expect(const struct group *group, uint32_t without, struct schedule_loads *ret)
{
	struct schedule_group *plan = plan_new(group, without);
	struct schedule *schedule = NULL;
	int r = plan ? schedule_new(plan, &schedule) : -ENOMEM;

	sys_free(plan);
	if (r < 0)
		return r;
	schedule_loads(schedule, ret);
	schedule_free(schedule);
	return 0;
}

unsigned group_gain(const struct group *group, bool assumed)
{
	struct schedule_group *plan = plan_new(group, 0);
	unsigned gain = 0;

	if (!plan)
		return 0;
	for (size_t i = group->count; assumed && i < plan->node_count; i++)
		plan->nodes[i].lost = false;
	gain = gain_of_group(plan);
	sys_free(plan);
	return gain_is_enough(gain) ? gain : 0;
}

void group_find_facts(struct group *group)
{
	struct aggregate_facts *facts = &group->facts;

	*facts = (struct aggregate_facts){ .members = group->count,
					   .hosts = group->host_count,
					   .leaves = group->leaf_count,
					   .gain_permille = facts->gain_permille,
					   .rank_count = facts->rank_count };
	for (size_t i = 0; i < group->count; i++) {
		const struct member_wire_facts *member = &group->members[i].facts;

		facts->rate_Bps = min_known_u64(facts->rate_Bps, member->rate_Bps);
		facts->uplink_Bps = min_known_u64(facts->uplink_Bps, member->up_rate_Bps);
		facts->uplink_Bps = min_known_u64(facts->uplink_Bps, member->down_rate_Bps);
		if (member->leaf == AGGREGATE_LEAF_UNKNOWN && !facts->unknown_host) {
			memcpy(group->unknown_host, member->host, sizeof(group->unknown_host));
			facts->unknown_host = group->unknown_host;
		}
	}
	facts->aggregators = (size_t)__builtin_popcount(aggregators_usable(group));
	if (facts->aggregators) {
		struct schedule_loads loads;

		schedule_loads(group->schedule, &loads);
		facts->host_share = loads.host;
		facts->uplink_share = loads.uplink;
		return;
	}
	for (unsigned leaf = 0; leaf < group->leaf_count; leaf++) {
		double n = (double)(group->leaf_begin[leaf + 1] - group->leaf_begin[leaf]);
		double m = (double)group->leaf_count, rho = schedule_leaf_share(group->schedule, leaf);
		double uplink = m > 1 ? 1 - rho + (m - 1) * rho : 0;
		double host = (2 * (n - 1) + uplink) / n;

		facts->uplink_share = uplink > facts->uplink_share ? uplink : facts->uplink_share;
		facts->host_share = host > facts->host_share ? host : facts->host_share;
	}
}

size_t group_segment_count(const struct group *group, size_t bytes, size_t count)
{
	size_t element = bytes / count, least = (size_t)group->settings.segment_bytes, each, segments;

	each = schedule_segment_bytes(group->schedule, bytes, least);
	if (bytes <= AGGREGATE_ALONE_BYTES && !group->segments_chosen) {
		each = bytes / group->host_count;
		if (each < AGGREGATE_ALONE_SEGMENT_BYTES)
			each = AGGREGATE_ALONE_SEGMENT_BYTES;
	}
	if (each > group->pool.slot_bytes)
		each = group->pool.slot_bytes;
	each = each / element * element;
	segments = (count * element + each - 1) / each;
	return segments ? segments : 1;
}

/* ------------------------------------------------------------------------------------------------- while polled */

void group_break(struct group *group, int error, const char *fmt, ...)
{
	char text[512];
	va_list args;

	if (group->broken)
		return;
	va_start(args, fmt);
	log_sentence_v(text, sizeof(text), fmt, args);
	va_end(args);
	if (group->under_way || atomic_load_explicit(&group->refused, memory_order_relaxed))
		log_warn("aggregation over %zu hosts ends at host %s: %s", group->host_count,
			 group_host(group, group->self), text);
	group->broken = error;
}

bool group_transfer_came_whole(struct group *group, const struct transfer *transfer, size_t from)
{
	if (transfer->received == transfer->bytes)
		return true;
	group_break(group, -EREMOTEIO,
		    "host %s sent %zu bytes where %zu were due: its operations are not the same ones",
		    group_host(group, from), transfer->received, transfer->bytes);
	return false;
}
