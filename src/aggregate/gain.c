/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/gain.h"

#include "aggregate/gain_nccl.h"
#include "aggregate/pipeline.h"
#include "aggregate/schedule.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <stdlib.h>

enum { PERMILLE = 1000, LEAST_HOSTS = 3 };

/* The numbers of the group's leaves, by the cluster's switches. */
struct leaves {
	uint16_t number[CLUSTER_SWITCHES_MAX]; /* SCHEDULE_NONE: not among them */
	size_t hosts[CLUSTER_SWITCHES_MAX];    /* of the cluster */
};

static uint16_t leaf_of(struct leaves *leaves, const struct cluster *cluster, int leaf, struct schedule_group *group)
{
	const struct cluster_switch *at = &cluster->switches[leaf];

	if (leaves->number[leaf] == SCHEDULE_NONE) {
		leaves->number[leaf] = (uint16_t)group->leaf_count;
		group->uplink_out_Bps[group->leaf_count] = at->up_rate_Bps;
		group->uplink_in_Bps[group->leaf_count] = at->down_rate_Bps;
		group->leaf_count++;
	}
	return leaves->number[leaf];
}

static void add_node(struct schedule_group *group, uint16_t leaf, uint64_t rate_Bps, bool aggregator)
{
	group->nodes[group->node_count++] = (struct schedule_node){
		.host = (uint16_t)group->host_count++,
		.leaf = leaf,
		.rate_Bps = rate_Bps,
		.aggregator = aggregator,
	};
	group->member_count += !aggregator;
}

static void add_hosts(struct schedule_group *group, struct leaves *leaves, const struct cluster *cluster, int leaf,
		      size_t most, uint64_t rate_Bps)
{
	for (size_t i = 0; i < cluster->host_count && group->member_count < most; i++) {
		const struct cluster_host *host = &cluster->hosts[i];

		if (host->leaf == leaf)
			add_node(group, leaf_of(leaves, cluster, leaf, group),
				 host->rate_Bps ? host->rate_Bps : rate_Bps, false);
	}
}

/* The largest leaf that the group has none of; the first of equal ones. -1: no more. */
static int largest_left(const struct cluster *cluster, const struct leaves *leaves)
{
	size_t most = 0;
	int found = CLUSTER_NONE;

	for (size_t i = 0; i < cluster->switch_count; i++) {
		if (leaves->number[i] != SCHEDULE_NONE || leaves->hosts[i] <= most)
			continue;
		most = leaves->hosts[i];
		found = (int)i;
	}
	return found;
}

static void group_of(const struct cluster *cluster, const struct gain_job *job, struct schedule_group *group)
{
	const struct cluster_host *own = cluster_find(cluster, job->host_name);
	size_t most = job->host_count ? job->host_count : cluster->host_count;
	int leaf = own ? own->leaf : CLUSTER_NONE;
	struct leaves leaves = { .hosts = { 0 } };

	for (size_t i = 0; i < CLUSTER_SWITCHES_MAX; i++)
		leaves.number[i] = SCHEDULE_NONE;
	for (size_t i = 0; i < cluster->host_count; i++)
		leaves.hosts[cluster->hosts[i].leaf]++;
	if (most > SCHEDULE_MEMBERS_MAX)
		most = SCHEDULE_MEMBERS_MAX;
	if (leaf == CLUSTER_NONE)
		leaf = largest_left(cluster, &leaves);
	for (; leaf != CLUSTER_NONE && group->member_count < most; leaf = largest_left(cluster, &leaves))
		add_hosts(group, &leaves, cluster, leaf, most, job->rate_Bps);
	for (size_t i = 0; i < cluster->aggregator_count && i < SCHEDULE_AGGREGATORS_MAX; i++) {
		const struct cluster_aggregator *aggregator = &cluster->aggregators[i];

		/* One of another leaf would be reached through uplinks that nothing else crosses. */
		if (aggregator->leaf >= 0 && leaves.number[aggregator->leaf] != SCHEDULE_NONE)
			add_node(group, leaves.number[aggregator->leaf], aggregator->rate_Bps, true);
	}
}

/* -------------------------------------------------------------------------------------------------------- one order */

/* A leaf's nodes: hosts first, the fastest first. */
struct leaf {
	uint64_t out_Bps, in_Bps, rates_Bps[SCHEDULE_NODES_MAX];
	uint16_t nodes[SCHEDULE_NODES_MAX]; /* of the group that is given: a member of each host, and aggregators */
	uint16_t hosts, count;
};

static int compare(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

static int compare_leaves(const void *a, const void *b)
{
	const struct leaf *first = a, *second = b;
	int order = compare(first->hosts, second->hosts);

	if (!order)
		order = compare(first->count, second->count);
	if (!order)
		order = compare(first->out_Bps, second->out_Bps);
	if (!order)
		order = compare(first->in_Bps, second->in_Bps);
	for (size_t i = 0; !order && i < first->count; i++)
		order = compare(first->rates_Bps[i], second->rates_Bps[i]);
	return order;
}

/* Behind those of its kind that are as fast. */
static void add_to_leaf(struct leaf *leaf, size_t node, uint64_t rate_Bps, bool aggregator)
{
	size_t first = aggregator ? leaf->hosts : 0, at = leaf->count++;

	if (!aggregator)
		leaf->hosts++;
	for (; at > first && leaf->rates_Bps[at - 1] < rate_Bps; at--) {
		leaf->rates_Bps[at] = leaf->rates_Bps[at - 1];
		leaf->nodes[at] = leaf->nodes[at - 1];
	}
	leaf->rates_Bps[at] = rate_Bps;
	leaf->nodes[at] = (uint16_t)node;
}

/* Members come before aggregators. */
static void fill_leaves(const struct schedule_group *group, struct leaf *leaves)
{
	uint64_t rates_Bps[SCHEDULE_NODES_MAX] = { 0 };
	bool is_there[SCHEDULE_NODES_MAX] = { false };

	for (size_t i = 0; i < group->leaf_count; i++) {
		leaves[i].out_Bps = group->uplink_out_Bps[i];
		leaves[i].in_Bps = group->uplink_in_Bps[i];
	}
	for (size_t i = 0; i < group->node_count; i++)
		rates_Bps[group->nodes[i].host] = max_u64(rates_Bps[group->nodes[i].host], group->nodes[i].rate_Bps);
	for (size_t i = 0; i < group->node_count; i++) {
		const struct schedule_node *node = &group->nodes[i];

		if (node->lost || is_there[node->host])
			continue;
		is_there[node->host] = true;
		add_to_leaf(&leaves[node->leaf], i, rates_Bps[node->host], node->aggregator);
	}
}

/* ret_host: of each host of the group, which member of *ret it is. */
static void add_nodes(const struct schedule_group *group, const struct leaf *leaves, bool aggregators,
		      struct schedule_group *ret, uint16_t *ret_host)
{
	for (size_t leaf = 0; leaf < group->leaf_count; leaf++)
		for (size_t i = aggregators ? leaves[leaf].hosts : 0;
		     i < (aggregators ? leaves[leaf].count : leaves[leaf].hosts); i++) {
			ret_host[group->nodes[leaves[leaf].nodes[i]].host] = (uint16_t)ret->node_count;
			add_node(ret, (uint16_t)leaf, leaves[leaf].rates_Bps[i], aggregators);
		}
}

/*
 * The same group, a member for each host, leaf by leaf: equal for all orders in which its hosts and leaves may come, as the schedule's
 * ties go by the order.
 */
static int put_in_order(const struct schedule_group *group, struct schedule_group *ret, uint16_t *ret_host)
{
	struct leaf *leaves = sys_zalloc(group->leaf_count * sizeof(*leaves));

	if (!leaves)
		return -ENOMEM;
	fill_leaves(group, leaves);
	qsort(leaves, group->leaf_count, sizeof(*leaves), compare_leaves);
	ret->leaf_count = group->leaf_count;
	for (size_t i = 0; i < group->leaf_count; i++) {
		ret->uplink_out_Bps[i] = leaves[i].out_Bps;
		ret->uplink_in_Bps[i] = leaves[i].in_Bps;
	}
	add_nodes(group, leaves, false, ret, ret_host);
	add_nodes(group, leaves, true, ret, ret_host);
	sys_free(leaves);
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------- the gain */

static int find_times(const struct schedule_group *group, const uint16_t *order, const struct pipeline_engine *engine,
		      struct gain *ret)
{
	struct gain_nccl nccl = { 0 };
	struct schedule *schedule = NULL;
	int r = schedule_new(group, &schedule);

	if (r == 0)
		r = gain_nccl_find(group, schedule, order, &nccl);
	if (r == 0)
		r = pipeline_find(group, engine, &ret->aggregation_s_per_B);
	schedule_free(schedule);
	if (r == -EINVAL) /* no rate is known */
		return 0;
	ret->ring_s_per_B = nccl.ring_s_per_B;
	ret->tree_s_per_B = nccl.tree_s_per_B;
	return r;
}

int gain_find(const struct schedule_group *group, const uint16_t *order, const struct pipeline_engine *engine,
	      struct gain *ret)
{
	struct pipeline_engine today = pipeline_engine_today();
	uint16_t host[SCHEDULE_NODES_MAX] = { 0 }, members[SCHEDULE_NODES_MAX];
	struct schedule_group *groups = sys_zalloc(2 * sizeof(*groups)), *ordered;
	double faster;
	int r;

	*ret = (struct gain){ .permille = 0 };
	if (!groups)
		return -ENOMEM;
	ordered = groups + 1;
	groups[0] = *group;
	schedule_leave_aggregators(&groups[0]);
	r = put_in_order(&groups[0], ordered, host);
	for (size_t i = 0; r == 0 && i < ordered->member_count; i++)
		members[i] = order ? host[order[i]] : (uint16_t)i;
	if (r == 0 && ordered->member_count >= LEAST_HOSTS)
		r = find_times(ordered, members, engine ? engine : &today, ret);
	sys_free(groups);
	faster = ret->ring_s_per_B < ret->tree_s_per_B ? ret->ring_s_per_B : ret->tree_s_per_B;
	if (r == 0 && ret->aggregation_s_per_B > 0)
		ret->permille = (unsigned)(faster / ret->aggregation_s_per_B * PERMILLE);
	return r;
}

unsigned gain_of_group(const struct schedule_group *group)
{
	struct gain gain;

	return gain_find(group, NULL, NULL, &gain) < 0 ? 0 : gain.permille;
}

unsigned gain_permille(const struct cluster *cluster, const struct gain_job *job)
{
	struct schedule_group *group;
	unsigned gain;

	if (!cluster || !cluster->host_count || job->host_count > SCHEDULE_MEMBERS_MAX)
		return 0;
	group = sys_zalloc(sizeof(*group));
	if (!group)
		return 0;
	group_of(cluster, job, group);
	gain = gain_of_group(group);
	sys_free(group);
	return gain;
}
