/* SPDX-License-Identifier: Apache-2.0 */
#include "account.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* One way. Between two on one host nothing crosses a NIC. */
static void transfer(struct account *account, const struct schedule_group *group, uint16_t from, uint16_t to,
		     uint64_t bytes)
{
	const struct schedule_node *source = &group->nodes[from], *sink = &group->nodes[to];

	if (source->host == sink->host)
		return;
	account->host_out[source->host] += bytes;
	account->host_in[sink->host] += bytes;
	if (source->leaf == sink->leaf)
		return;
	account->uplink_out[source->leaf] += bytes;
	account->uplink_in[sink->leaf] += bytes;
}

static void both_ways(struct account *account, const struct schedule_group *group, uint16_t a, uint16_t b,
		      uint64_t bytes)
{
	transfer(account, group, a, b, bytes);
	transfer(account, group, b, a, bytes);
}

static void check_leaf(const struct schedule_group *group, const struct schedule_segment *segment, size_t leaf,
		       bool has_members)
{
	uint16_t node = segment->leaf_node[leaf];

	if (leaf != segment->root_leaf && !has_members) {
		assert_int_equal(node, SCHEDULE_NONE);
		return;
	}
	assert_true(node < group->node_count);
	assert_false(group->nodes[node].lost);
	assert_int_equal(group->nodes[node].leaf, leaf);
	if (leaf == segment->root_leaf)
		assert_int_equal(node, segment->root);
	if (!group->nodes[node].aggregator)
		assert_int_equal(segment->host_node[group->nodes[node].host], node);
}

void account_segment(struct account *account, const struct schedule_group *group,
		     const struct schedule_segment *segment, uint64_t bytes)
{
	bool host_seen[SCHEDULE_NODES_MAX] = { false }, leaf_seen[SCHEDULE_NODES_MAX] = { false };

	assert_true(segment->root_leaf < group->leaf_count);
	account->bytes += bytes;
	account->rooted[segment->root] += bytes;
	for (size_t i = 0; i < group->member_count; i++) {
		const struct schedule_node *member = &group->nodes[i];
		uint16_t node = segment->host_node[member->host];

		assert_true(node < group->member_count);
		assert_true(group->nodes[node].host == member->host);
		leaf_seen[member->leaf] = true;
		if (host_seen[member->host])
			continue;
		host_seen[member->host] = true;
		both_ways(account, group, node, segment->leaf_node[member->leaf], bytes);
	}
	for (size_t leaf = 0; leaf < group->leaf_count; leaf++) {
		uint16_t node = segment->leaf_node[leaf];

		check_leaf(group, segment, leaf, leaf_seen[leaf]);
		if (node == SCHEDULE_NONE)
			continue;
		account->aggregated[node] += bytes;
		if (leaf != segment->root_leaf)
			both_ways(account, group, node, segment->root, bytes);
	}
	for (size_t host = 0; host < group->host_count; host++)
		if (!host_seen[host])
			assert_int_equal(segment->host_node[host], SCHEDULE_NONE);
}

static double longer(double time_s, uint64_t bytes, uint64_t rate_Bps)
{
	double other_s = rate_Bps ? (double)bytes / (double)rate_Bps : 0;

	return other_s > time_s ? other_s : time_s;
}

double account_slowest_s(const struct account *account, const struct schedule_group *group)
{
	uint64_t rates[SCHEDULE_NODES_MAX] = { 0 };
	double time_s = 0;

	for (size_t i = 0; i < group->node_count; i++)
		if (group->nodes[i].rate_Bps > rates[group->nodes[i].host])
			rates[group->nodes[i].host] = group->nodes[i].rate_Bps;
	for (size_t i = 0; i < group->host_count; i++) {
		time_s = longer(time_s, account->host_out[i], rates[i]);
		time_s = longer(time_s, account->host_in[i], rates[i]);
	}
	for (size_t i = 0; i < group->leaf_count; i++) {
		time_s = longer(time_s, account->uplink_out[i], group->uplink_out_Bps[i]);
		time_s = longer(time_s, account->uplink_in[i], group->uplink_in_Bps[i]);
	}
	return time_s;
}

void account_group(struct schedule_group *ret, const unsigned *hosts, size_t leaf_count, unsigned members,
		   uint64_t rate_Bps)
{
	memset(ret, 0, sizeof(*ret));
	ret->leaf_count = leaf_count;
	for (size_t leaf = 0; leaf < leaf_count; leaf++) {
		for (unsigned host = 0; host < hosts[leaf]; host++, ret->host_count++) {
			for (unsigned i = 0; i < members; i++)
				ret->nodes[ret->member_count++] = (struct schedule_node){
					.host = (uint16_t)ret->host_count, .leaf = (uint16_t)leaf, .rate_Bps = rate_Bps
				};
		}
	}
	ret->node_count = ret->member_count;
}

void account_add_aggregator(struct schedule_group *group, uint16_t leaf, uint64_t rate_Bps)
{
	group->nodes[group->node_count++] = (struct schedule_node){
		.host = (uint16_t)group->host_count++, .leaf = leaf, .rate_Bps = rate_Bps, .aggregator = true
	};
	if (leaf >= group->leaf_count)
		group->leaf_count = leaf + 1U;
}

struct schedule *account_schedule(const struct schedule_group *group)
{
	struct schedule *schedule;

	assert_int_equal(schedule_new(group, &schedule), 0);
	return schedule;
}
