/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deficit round robin. The leaf of the root is selected, then in each leaf the place (host or aggregator) that aggregates: as
 * the root, or for a root elsewhere. That is whoever lags most behind its share of the bytes so far; what
 * a place lags behind in both roles counts beside what it lags behind in this one, so that neighbouring segments go to
 * different places. Everything here is integers: lags are exact, and the same everywhere.
 */
#include "aggregate/schedule.h"

#include "aggregate/schedule_shares.h"
#include "base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	WHOLE = 1 << 20,     /* weights of those among whom one is selected come to this */
	SLOW_AGGREGATOR = 4, /* an aggregator that is so many times slower than a member's NIC is left out */
	SEGMENT_LEAST_BYTES = 32 * 1024,
	SEGMENT_MOST_BYTES = 256 * 1024,
	AGGREGATORS_LEAST = 3, /* members' NICs; aggregators that are slower together cost more than they bring */
	/* Where most goes through an aggregator: an operation's first segments are on their way down while others go up. */
	AGGREGATOR_SEGMENTS = 8, /* of an operation */
	AGGREGATOR_SEGMENT_MOST_BYTES = 64 * 1024,
	SEGMENT_ALIGN_BYTES = 64,
};
/* Longer segments do not come; lags stay far from overflow. */
#define SELECT_MOST_BYTES (UINT64_C(1) << 40)

struct deficit {
	uint32_t weight;
	int64_t lag; /* bytes × WHOLE that it should have had by now and has not */
};

struct place {
	uint16_t leaf;
	uint16_t host;       /* of members, or SCHEDULE_NONE */
	uint16_t aggregator; /* node, or SCHEDULE_NONE */
	struct deficit root, rest;
	double share; /* of all bytes, that it aggregates */
};

struct schedule {
	struct schedule_group group;
	struct schedule_place problem[SCHEDULE_NODES_MAX]; /* of each place: what its share depends on */
	double uplink_Bps[SCHEDULE_NODES_MAX];
	double leaf_share[SCHEDULE_NODES_MAX], root_share[SCHEDULE_NODES_MAX], rest_share[SCHEDULE_NODES_MAX];
	struct schedule_loads loads;
	bool rates_known;
	uint64_t number;
	struct deficit leaves[SCHEDULE_NODES_MAX];
	size_t place_count;
	struct place places[SCHEDULE_NODES_MAX];                                         /* by leaf, hosts first */
	uint16_t first[SCHEDULE_NODES_MAX + 1];                                          /* of each leaf in places */
	bool has_hosts[SCHEDULE_NODES_MAX];                                              /* of each leaf */
	uint16_t host_first[SCHEDULE_NODES_MAX + 1], host_members[SCHEDULE_MEMBERS_MAX]; /* members of each host */
	uint64_t leaf_bytes[SCHEDULE_MEMBERS_MAX], host_bytes[SCHEDULE_MEMBERS_MAX]; /* each member had of its host's */
	uint16_t leaf_node[SCHEDULE_NODES_MAX], host_node[SCHEDULE_NODES_MAX];       /* of the segment */
};

/* ---------------------------------------------------------------------------------------------------------- the group */

static bool node_ok(const struct schedule_group *group, size_t index)
{
	const struct schedule_node *node = &group->nodes[index];

	if (node->leaf >= group->leaf_count)
		return false;
	if (index >= group->member_count)
		return node->aggregator;
	return !node->aggregator && !node->lost && node->host < group->host_count;
}

static bool group_ok(const struct schedule_group *group)
{
	uint16_t leaf_of[SCHEDULE_NODES_MAX];

	if (!group->member_count || group->member_count > SCHEDULE_MEMBERS_MAX ||
	    group->node_count < group->member_count ||
	    group->node_count - group->member_count > SCHEDULE_AGGREGATORS_MAX ||
	    group->host_count > SCHEDULE_NODES_MAX || group->leaf_count > SCHEDULE_NODES_MAX)
		return false;
	for (size_t i = 0; i < group->node_count; i++)
		if (!node_ok(group, i))
			return false;
	for (size_t i = 0; i < group->host_count; i++)
		leaf_of[i] = SCHEDULE_NONE;
	for (size_t i = 0; i < group->member_count; i++) {
		uint16_t *leaf = &leaf_of[group->nodes[i].host];

		if (*leaf != SCHEDULE_NONE && *leaf != group->nodes[i].leaf)
			return false;
		*leaf = group->nodes[i].leaf;
	}
	return true;
}

static void list_hosts(struct schedule *schedule)
{
	uint16_t count = 0;

	for (size_t host = 0; host < schedule->group.host_count; host++) {
		schedule->host_first[host] = count;
		for (size_t i = 0; i < schedule->group.member_count; i++)
			if (schedule->group.nodes[i].host == host)
				schedule->host_members[count++] = (uint16_t)i;
		schedule->host_first[host + 1] = count;
	}
}

/* ---------------------------------------------------------------------------------------------------------- the rates */

static uint64_t host_rate(const struct schedule *schedule, size_t host)
{
	uint64_t rate_Bps = 0;

	for (size_t i = schedule->host_first[host]; i < schedule->host_first[host + 1]; i++) {
		uint64_t said_Bps = schedule->group.nodes[schedule->host_members[i]].rate_Bps;

		rate_Bps = said_Bps > rate_Bps ? said_Bps : rate_Bps;
	}
	return rate_Bps;
}

static int compare_rates(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

	return (first > second) - (first < second);
}

static double uplink_rate(const struct schedule_group *group, size_t leaf)
{
	uint64_t out_Bps = group->uplink_out_Bps[leaf], in_Bps = group->uplink_in_Bps[leaf];

	if (!out_Bps || !in_Bps)
		return (double)(out_Bps + in_Bps);
	return (double)(out_Bps < in_Bps ? out_Bps : in_Bps);
}

/* Of the hosts' NICs that are known, the middle one, the lower of two. If none is: as fast as the fastest uplink, or 1. */
static double median_rate(const struct schedule *schedule, bool *ret_known)
{
	uint64_t rates[SCHEDULE_NODES_MAX];
	size_t count = 0;
	double most = 1;

	for (size_t host = 0; host < schedule->group.host_count; host++) {
		rates[count] = host_rate(schedule, host);
		if (rates[count])
			count++;
	}
	*ret_known = count > 0;
	if (count) {
		qsort(rates, count, sizeof(*rates), compare_rates);
		count = (count - 1) / 2;
		return (double)rates[count];
	}
	for (size_t leaf = 0; leaf < schedule->group.leaf_count; leaf++) {
		double rate = uplink_rate(&schedule->group, leaf);

		if (rate > 0)
			*ret_known = true;
		most = rate > most ? rate : most;
	}
	return most;
}

/* --------------------------------------------------------------------------------------------------------- the places */

static void add_place(struct schedule *schedule, size_t leaf, size_t host, size_t aggregator, double rate_Bps)
{
	struct schedule_place of = { .leaf = (uint16_t)leaf,
				     .aggregator = aggregator != SCHEDULE_NONE,
				     .rate_Bps = rate_Bps };

	schedule->places[schedule->place_count] =
		(struct place){ .leaf = (uint16_t)leaf, .host = (uint16_t)host, .aggregator = (uint16_t)aggregator };
	schedule->problem[schedule->place_count++] = of;
}

static void add_aggregators(struct schedule *schedule, size_t leaf, double median_Bps)
{
	for (size_t i = schedule->group.member_count; i < schedule->group.node_count; i++) {
		const struct schedule_node *node = &schedule->group.nodes[i];
		double rate_Bps = node->rate_Bps ? (double)node->rate_Bps : median_Bps;

		if (node->leaf == leaf && !node->lost && rate_Bps * SLOW_AGGREGATOR >= median_Bps)
			add_place(schedule, leaf, SCHEDULE_NONE, i, rate_Bps);
	}
}

static void list_places(struct schedule *schedule)
{
	double median_Bps = median_rate(schedule, &schedule->rates_known);

	for (size_t leaf = 0; leaf < schedule->group.leaf_count; leaf++) {
		schedule->first[leaf] = (uint16_t)schedule->place_count;
		for (size_t host = 0; host < schedule->group.host_count; host++) {
			uint16_t first = schedule->host_first[host];
			uint64_t rate_Bps;

			if (first == schedule->host_first[host + 1] ||
			    schedule->group.nodes[schedule->host_members[first]].leaf != leaf)
				continue;
			rate_Bps = host_rate(schedule, host);
			add_place(schedule, leaf, host, SCHEDULE_NONE, rate_Bps ? (double)rate_Bps : median_Bps);
			schedule->has_hosts[leaf] = true;
		}
		add_aggregators(schedule, leaf, median_Bps);
		schedule->uplink_Bps[leaf] = uplink_rate(&schedule->group, leaf);
	}
	schedule->first[schedule->group.leaf_count] = (uint16_t)schedule->place_count;
}

static int find_shares(struct schedule *schedule)
{
	const struct schedule_problem problem = { .leaf_count = schedule->group.leaf_count,
						  .place_count = schedule->place_count,
						  .places = schedule->problem,
						  .uplink_Bps = schedule->uplink_Bps };
	double load[SCHEDULE_NODES_MAX];
	struct schedule_shares shares = {
		.leaf = schedule->leaf_share, .root = schedule->root_share, .rest = schedule->rest_share, .load = load
	};
	int r = schedule_shares_find(&problem, &shares);

	schedule->loads = shares.loads;
	if (!schedule->rates_known)
		schedule->loads.slowest_s_per_B = 0;
	return r;
}

/* Weights that come to WHOLE exactly: what rounding down leaves over goes to the largest, the first of several. */
static void weigh(const double *shares, size_t count, uint32_t *ret)
{
	double sum = 0;
	size_t most = 0;
	uint32_t left = WHOLE;

	if (!count)
		return;
	for (size_t i = 0; i < count; i++) {
		sum += shares[i];
		most = shares[i] > shares[most] ? i : most;
	}
	for (size_t i = 0; i < count; i++) {
		ret[i] = (uint32_t)(shares[i] / sum * WHOLE);
		left -= ret[i];
	}
	ret[most] += left;
}

static void weigh_leaves(struct schedule *schedule)
{
	uint32_t weights[SCHEDULE_NODES_MAX];

	weigh(schedule->leaf_share, schedule->group.leaf_count, weights);
	for (size_t i = 0; i < schedule->group.leaf_count; i++)
		schedule->leaves[i].weight = weights[i];
}

/*
 * A leaf that always has the root has no other leader, and so on: such a role is given like the other one, should
 * rounding ask for it.
 */
static void weigh_places(struct schedule *schedule, size_t leaf)
{
	size_t first = schedule->first[leaf], count = schedule->first[leaf + 1] - first;
	const double *root = schedule->root_share + first, *rest = schedule->rest_share + first;
	uint32_t root_weights[SCHEDULE_NODES_MAX], rest_weights[SCHEDULE_NODES_MAX];
	double roots = 0, rests = 0;

	for (size_t i = 0; i < count; i++) {
		roots += root[i];
		rests += rest[i];
	}
	if (roots + rests <= 0)
		return;
	weigh(roots > 1.0 / WHOLE ? root : rest, count, root_weights);
	weigh(rests > 1.0 / WHOLE ? rest : root, count, rest_weights);
	for (size_t i = 0; i < count; i++) {
		struct place *place = &schedule->places[first + i];

		place->share = root[i] + rest[i];
		place->root.weight = root_weights[i];
		place->rest.weight = rest_weights[i];
	}
}

int schedule_new(const struct schedule_group *group, struct schedule **ret)
{
	struct schedule *schedule;

	if (!group_ok(group))
		return -EINVAL;
	schedule = sys_zalloc(sizeof(*schedule));
	if (!schedule)
		return -ENOMEM;
	schedule->group = *group;
	list_hosts(schedule);
	list_places(schedule);
	if (find_shares(schedule) < 0) {
		schedule_free(schedule);
		return -ENOMEM;
	}
	weigh_leaves(schedule);
	for (size_t leaf = 0; leaf < group->leaf_count; leaf++)
		weigh_places(schedule, leaf);
	*ret = schedule;
	return 0;
}

void schedule_free(struct schedule *schedule)
{
	sys_free(schedule);
}

void schedule_leave_aggregators(struct schedule_group *group)
{
	uint64_t rates[SCHEDULE_MEMBERS_MAX];
	double aggregators_Bps = 0;
	size_t count = 0;

	for (size_t i = 0; i < group->member_count; i++) {
		if (group->nodes[i].leaf != group->nodes[0].leaf)
			return; /* where uplinks are narrow a slow one may save much */
		if (group->nodes[i].rate_Bps)
			rates[count++] = group->nodes[i].rate_Bps;
	}
	for (size_t i = group->member_count; i < group->node_count; i++) {
		if (!group->nodes[i].lost && !group->nodes[i].rate_Bps)
			return; /* nobody says how fast it is, so it is wanted */
		aggregators_Bps += group->nodes[i].lost ? 0 : (double)group->nodes[i].rate_Bps;
	}
	if (!count)
		return;
	qsort(rates, count, sizeof(*rates), compare_rates);
	count = (count - 1) / 2;
	if (aggregators_Bps >= (double)rates[count] * AGGREGATORS_LEAST)
		return;
	for (size_t i = group->member_count; i < group->node_count; i++)
		group->nodes[i].lost = true;
}

/* ---------------------------------------------------------------------------------------------------------- segments */

static uint16_t next_leaf(struct schedule *schedule, int64_t bytes)
{
	struct deficit *best = &schedule->leaves[0];

	for (size_t i = 0; i < schedule->group.leaf_count; i++) {
		struct deficit *deficit = &schedule->leaves[i];

		deficit->lag += bytes * deficit->weight;
		if (deficit->weight && (!best->weight || deficit->lag > best->lag))
			best = deficit;
	}
	best->lag -= bytes * WHOLE;
	return (uint16_t)(best - schedule->leaves);
}

static struct place *next_place(struct schedule *schedule, size_t leaf, bool root, int64_t bytes)
{
	struct place *best = &schedule->places[schedule->first[leaf]];
	bool found = false;
	int64_t best_lag = 0;

	for (size_t i = schedule->first[leaf]; i < schedule->first[leaf + 1]; i++) {
		struct place *place = &schedule->places[i];
		struct deficit *deficit = root ? &place->root : &place->rest;
		int64_t lag;

		deficit->lag += bytes * deficit->weight;
		lag = deficit->lag + place->root.lag + place->rest.lag;
		if (deficit->weight && (!found || lag > best_lag)) {
			best = place;
			best_lag = lag;
			found = true;
		}
	}
	(root ? &best->root : &best->rest)->lag -= bytes * WHOLE;
	return best;
}

/* The member of a host that had least of this kind. */
static uint16_t next_member(const struct schedule *schedule, size_t host, const uint64_t *had)
{
	uint16_t best = schedule->host_members[schedule->host_first[host]];

	for (size_t i = schedule->host_first[host]; i < schedule->host_first[host + 1]; i++)
		if (had[schedule->host_members[i]] < had[best])
			best = schedule->host_members[i];
	return best;
}

static uint16_t next_in_leaf(struct schedule *schedule, size_t leaf, bool root, uint64_t bytes)
{
	const struct place *place = next_place(schedule, leaf, root, (int64_t)bytes);
	uint16_t node;

	if (place->host == SCHEDULE_NONE)
		return place->aggregator;
	node = next_member(schedule, place->host, schedule->leaf_bytes);
	schedule->leaf_bytes[node] += bytes;
	schedule->host_node[place->host] = node;
	return node;
}

void schedule_next(struct schedule *schedule, size_t bytes, struct schedule_segment *ret)
{
	uint64_t count = bytes < SELECT_MOST_BYTES ? bytes : SELECT_MOST_BYTES;
	uint16_t root_leaf;

	if (!count)
		count = 1;
	root_leaf = next_leaf(schedule, (int64_t)count);
	for (size_t i = 0; i < schedule->group.host_count; i++)
		schedule->host_node[i] = SCHEDULE_NONE;
	for (size_t i = 0; i < schedule->group.leaf_count; i++)
		schedule->leaf_node[i] = i == root_leaf || schedule->has_hosts[i]
						 ? next_in_leaf(schedule, i, i == root_leaf, count)
						 : SCHEDULE_NONE;
	for (size_t i = 0; i < schedule->group.host_count; i++) {
		uint16_t *node = &schedule->host_node[i];

		if (schedule->host_first[i] == schedule->host_first[i + 1])
			continue;
		if (*node == SCHEDULE_NONE)
			*node = next_member(schedule, i, schedule->host_bytes);
		schedule->host_bytes[*node] += count;
	}
	*ret = (struct schedule_segment){
		.number = schedule->number++,
		.root = schedule->leaf_node[root_leaf],
		.root_leaf = root_leaf,
		.leaf_node = schedule->leaf_node,
		.host_node = schedule->host_node,
	};
}

/* ------------------------------------------------------------------------------------------------------------ lengths */

static size_t busiest_root(const struct schedule *schedule)
{
	size_t busiest = 0;

	for (size_t i = 0; i < schedule->place_count; i++)
		if (schedule->root_share[i] > schedule->root_share[busiest])
			busiest = i;
	return busiest;
}

/* How many places would share the roots evenly, if each had as much as the busiest has. */
static size_t width(const struct schedule *schedule, size_t busiest)
{
	double most = schedule->root_share[busiest], places = most > 0 ? 1 / most : 1;

	return places < 1 ? 1 : (size_t)(places + 0.5);
}

/*
 * Short ones let an operation's end follow its beginning closely, and of several in flight keep every port busy; but each
 * costs some tens of microseconds of a core at every host, besides its bytes: so a millisecond of a card's rate.
 */
size_t schedule_segment_least_bytes(uint64_t slowest_Bps)
{
	uint64_t wanted = slowest_Bps / 1000;

	if (!slowest_Bps || wanted > SEGMENT_MOST_BYTES)
		return SEGMENT_MOST_BYTES;
	return wanted < SEGMENT_LEAST_BYTES ? SEGMENT_LEAST_BYTES : (size_t)wanted;
}

size_t schedule_segment_bytes(const struct schedule *schedule, size_t operation_bytes, size_t least_bytes)
{
	size_t busiest = busiest_root(schedule), places = width(schedule, busiest), least = least_bytes, number, bytes;
	bool served = schedule->places[busiest].aggregator != SCHEDULE_NONE;
	size_t most = served ? AGGREGATOR_SEGMENT_MOST_BYTES : SEGMENT_MOST_BYTES;

	if (!least)
		least = most;
	most = least > most ? least : most;
	number = operation_bytes / least;
	if (served && number > AGGREGATOR_SEGMENTS)
		number = AGGREGATOR_SEGMENTS;
	else if (number > places && number % places < places / 2)
		number -= number % places; /* every place has as many */
	if (operation_bytes / most >= number)
		number = operation_bytes / most + (operation_bytes % most > 0);
	if (number > operation_bytes / least)
		number = operation_bytes / least;
	if (number <= 1)
		return operation_bytes;
	/* All of one length: a short one at the end costs as much to handle as another. */
	bytes = operation_bytes / number + (operation_bytes % number > 0);
	bytes = (bytes + SEGMENT_ALIGN_BYTES - 1) / SEGMENT_ALIGN_BYTES * SEGMENT_ALIGN_BYTES;
	return bytes < operation_bytes ? bytes : operation_bytes;
}

/* --------------------------------------------------------------------------------------------------------- for people */

double schedule_leaf_share(const struct schedule *schedule, unsigned leaf)
{
	return leaf < schedule->group.leaf_count ? (double)schedule->leaves[leaf].weight / WHOLE : 0;
}

double schedule_node_rate_Bps(const struct schedule *schedule, unsigned node)
{
	for (size_t i = 0; i < schedule->place_count; i++) {
		const struct place *place = &schedule->places[i];

		if (place->aggregator == node ||
		    (node < schedule->group.member_count && place->host == schedule->group.nodes[node].host))
			return schedule->problem[i].rate_Bps;
	}
	return (double)schedule->group.nodes[node].rate_Bps; /* too slow to be a place */
}

double schedule_node_share(const struct schedule *schedule, unsigned node)
{
	for (size_t i = 0; i < schedule->place_count; i++) {
		const struct place *place = &schedule->places[i];

		if (place->aggregator == node)
			return place->share;
		if (node < schedule->group.member_count && place->host == schedule->group.nodes[node].host)
			return place->share /
			       (schedule->host_first[place->host + 1] - schedule->host_first[place->host]);
	}
	return 0;
}

void schedule_loads(const struct schedule *schedule, struct schedule_loads *ret)
{
	*ret = schedule->loads;
}
