/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/gain.h"

#include "aggregate/schedule.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "tributary/cluster.h"

/* LEAST: where both fill the same links it takes up to 1.4 times as long as a ring (perf/run collnet8). */
enum { PERMILLE = 1000, LEAST_PERMILLE = 1500, MOST_PERMILLE = 2000, LEAST_HOSTS = 3 };

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

/* Each host sends and receives as much, and so does each leaf, whose ring comes in and goes out once. 0: not known. */
static double ring_s_per_B(const struct schedule_group *group)
{
	double share = 2.0 * ((double)group->member_count - 1) / (double)group->member_count;
	uint64_t slowest_Bps = 0;

	for (size_t i = 0; i < group->member_count; i++)
		slowest_Bps = min_known_u64(slowest_Bps, group->nodes[i].rate_Bps);
	for (size_t i = 0; group->leaf_count > 1 && i < group->leaf_count; i++) {
		slowest_Bps = min_known_u64(slowest_Bps, group->uplink_out_Bps[i]);
		slowest_Bps = min_known_u64(slowest_Bps, group->uplink_in_Bps[i]);
	}
	return slowest_Bps ? share / (double)slowest_Bps : 0;
}

unsigned gain_of_group(struct schedule_group *group)
{
	double ring = ring_s_per_B(group), ratio;
	struct schedule_loads loads;
	struct schedule *schedule;

	schedule_leave_aggregators(group);
	if (group->member_count < LEAST_HOSTS || !(ring > 0) || schedule_new(group, &schedule) < 0)
		return 0;
	schedule_loads(schedule, &loads);
	schedule_free(schedule);
	ratio = loads.slowest_s_per_B > 0 ? ring / loads.slowest_s_per_B * PERMILLE : 0;
	if (ratio < LEAST_PERMILLE)
		return 0;
	return ratio < MOST_PERMILLE ? (unsigned)ratio : MOST_PERMILLE;
}

unsigned gain_permille(const struct cluster *cluster, const struct gain_job *job)
{
	struct schedule_group *group;
	unsigned gain;

	if (!cluster || !cluster->host_count)
		return 0;
	group = sys_zalloc(sizeof(*group));
	if (!group)
		return 0;
	group_of(cluster, job, group);
	gain = gain_of_group(group);
	sys_free(group);
	return gain;
}
