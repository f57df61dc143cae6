/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything moves as many bytes in as out, so one number says what a link carries for each byte of an operation. With n
 * hosts in a leaf and m leaves that have hosts, for a place that aggregates the share y for roots elsewhere and the share r
 * as root itself:
 *
 *     a host        1 + (n−1) y + (n+m−3) r      m = 1:  1 + (n−2) r
 *     an aggregator          (n+1) y + (n+m−1) r      m = 1:      n r          no hosts in its leaf:  m r
 *     an uplink     1 + (m−2) ρ                                           no hosts in the leaf:  m ρ
 *
 * For a given time, what is left of each link's capacity bounds these shares. All hosts of a leaf cost the same, and so do
 * all aggregators: what is left of them is one pool each, and how a pool is shared out does not matter to the others. The
 * least time for which the roots come to 1 is found by bisection.
 */
#include "aggregate/schedule_shares.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "members on different machines would come to different shares: double arithmetic must be that of IEEE 754"
#endif

enum { HALVINGS = 128 };

struct leaf {
	size_t hosts, aggregators;
	double hosts_Bps, slowest_Bps; /* sum and least of its hosts */
	double aggregators_Bps;
	double uplink_Bps;
	double time; /* in which its own links carry its share */
};

/* Capacity that is left, and what a byte takes of it. */
struct pool {
	double left;
	double rest, root;
};

/* How a leaf's aggregation is split; most: what it can root then. */
struct split {
	double hosts; /* aggregated by hosts; the remainder by aggregators */
	double hosts_root, aggregators_root;
	double most;
};

struct solver {
	const struct schedule_problem *problem;
	struct leaf *leaves;
	double member_leaves; /* m */
};

static double least(double a, double b)
{
	return a < b ? a : b;
}

static double within(double value, double low, double high)
{
	return value < low ? low : least(value, high);
}

static void survey(struct solver *solver)
{
	const struct schedule_problem *problem = solver->problem;

	for (size_t i = 0; i < problem->leaf_count; i++)
		solver->leaves[i].uplink_Bps = problem->uplink_Bps[i];
	for (size_t i = 0; i < problem->place_count; i++) {
		const struct schedule_place *place = &problem->places[i];
		struct leaf *leaf = &solver->leaves[place->leaf];

		if (place->aggregator) {
			leaf->aggregators++;
			leaf->aggregators_Bps += place->rate_Bps;
			continue;
		}
		leaf->slowest_Bps = leaf->hosts++ ? least(leaf->slowest_Bps, place->rate_Bps) : place->rate_Bps;
		leaf->hosts_Bps += place->rate_Bps;
	}
	for (size_t i = 0; i < problem->leaf_count; i++)
		if (solver->leaves[i].hosts)
			solver->member_leaves += 1;
}

/* What a pool can aggregate at a cost; more than the 1 that there is does not matter. */
static double carries(double left, double cost)
{
	return left >= cost ? 1 : left / cost;
}

/* What this much of a leaf's aggregation by hosts lets it root. extra: what a root costs above another leader. */
static struct split split_at(const struct pool *hosts, const struct pool *aggregators, double by_hosts, double extra)
{
	struct split split = { .hosts = by_hosts, .hosts_root = by_hosts, .aggregators_root = 1 - by_hosts };

	if (extra > 0) {
		split.hosts_root = least(by_hosts, (hosts->left - hosts->rest * by_hosts) / extra);
		split.aggregators_root = least(1 - by_hosts,
					       (aggregators->left - aggregators->rest * (1 - by_hosts)) / extra);
	}
	split.hosts_root = split.hosts_root > 0 ? split.hosts_root : 0;
	split.aggregators_root = split.aggregators_root > 0 ? split.aggregators_root : 0;
	split.most = split.hosts_root + split.aggregators_root;
	return split;
}

/*
 * The split that roots most: the sum of two concave functions with a bend each is greatest at a bend or at an end. Where
 * all are alike, in proportion to what each pool could do, and by hosts alone where that costs them nothing. False: the leaf cannot aggregate everything in this time.
 */
static bool split_leaf(const struct pool *hosts, const struct pool *aggregators, struct split *ret)
{
	double extra = hosts->root - hosts->rest;
	double most_hosts = carries(hosts->left, hosts->rest),
	       most_aggregators = carries(aggregators->left, aggregators->rest);
	double candidates[] = { 0, 1 - most_aggregators, most_hosts, carries(hosts->left, hosts->root),
				1 - carries(aggregators->left, aggregators->root) };

	if (most_hosts + most_aggregators < 1)
		return false;
	candidates[0] = hosts->rest > 0 ? most_hosts / (most_hosts + most_aggregators) : 1;
	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
		double by_hosts = within(candidates[i], 1 - most_aggregators, most_hosts);
		struct split split = split_at(hosts, aggregators, by_hosts, extra);

		if (!i || split.most > ret->most)
			*ret = split;
	}
	return true;
}

static struct pool host_pool(const struct solver *solver, const struct leaf *leaf, double time)
{
	double n = (double)leaf->hosts, m = solver->member_leaves;
	struct pool pool = { .left = time * leaf->hosts_Bps - n, .rest = n - 1, .root = n + m - 3 };

	if (pool.left < 0) /* each has something left, or nothing: this is rounding */
		pool.left = 0;
	if (m < 2) /* whoever aggregates is the root */
		pool.rest = pool.root = n > 2 ? n - 2 : 0;
	return pool;
}

static struct pool aggregator_pool(const struct solver *solver, const struct leaf *leaf, double time)
{
	double n = (double)leaf->hosts, m = solver->member_leaves;
	struct pool pool = { .left = time * leaf->aggregators_Bps, .rest = n + 1, .root = n + m - 1 };

	if (m < 2)
		pool.rest = pool.root = n;
	return pool;
}

/* What a leaf can root in this time; below 0: the time is too short for its part of the rest. */
static double leaf_most(const struct solver *solver, const struct leaf *leaf, double time, struct split *ret)
{
	double m = solver->member_leaves, uplink = 1;
	struct pool hosts, aggregators;

	memset(ret, 0, sizeof(*ret));
	if (!leaf->hosts) {
		if (m < 2 || !leaf->aggregators)
			return 0;
		ret->aggregators_root = ret->most = carries(time * leaf->aggregators_Bps, m);
		return leaf->uplink_Bps > 0 ? least(ret->most, time * leaf->uplink_Bps / m) : ret->most;
	}
	if (time * leaf->slowest_Bps < 1)
		return -1;
	hosts = host_pool(solver, leaf, time);
	aggregators = aggregator_pool(solver, leaf, time);
	if (!split_leaf(&hosts, &aggregators, ret))
		return -1;
	if (m < 2)
		return 1;
	if (leaf->uplink_Bps > 0) {
		uplink = time * leaf->uplink_Bps - 1;
		if (uplink < 0)
			return -1;
		uplink = carries(uplink, m - 2);
	}
	return least(ret->most, uplink);
}

static bool in_time(const struct solver *solver, double time)
{
	double sum = 0;

	for (size_t i = 0; i < solver->problem->leaf_count; i++) {
		struct split split;
		double most = leaf_most(solver, &solver->leaves[i], time, &split);

		if (most < 0)
			return false;
		sum += most;
	}
	return sum >= 1;
}

/* The same for one leaf that roots so much, whatever its uplink takes. */
static bool leaf_in_time(const struct solver *solver, struct leaf leaf, double share, double time)
{
	struct split split;

	leaf.uplink_Bps = 0;
	return leaf_most(solver, &leaf, time, &split) >= share;
}

/* A host's bytes cross its NIC once at least, so the first time is not above the least. */
static double least_time(const struct solver *solver)
{
	double low = 1 / solver->problem->places[0].rate_Bps, high = low;

	for (unsigned i = 0; i < HALVINGS && !in_time(solver, high); i++)
		high *= 2;
	for (unsigned i = 0; i < HALVINGS; i++) {
		double middle = low + (high - low) / 2;

		if (in_time(solver, middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

static double least_leaf_time(const struct solver *solver, const struct leaf *leaf, double share, double time)
{
	double low = 0, high = time;

	for (unsigned i = 0; i < HALVINGS; i++) {
		double middle = low + (high - low) / 2;

		if (leaf_in_time(solver, *leaf, share, middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

/*
 * In proportion to what each leaf could root. Leaves of aggregators alone get only what the others cannot: a root that is
 * elsewhere than the data costs a leaf nothing less when there are two, and a way more.
 */
static void share_leaves(const struct solver *solver, double time, struct schedule_shares *ret)
{
	double with_hosts = 0, others = 0, factor;

	for (size_t i = 0; i < solver->problem->leaf_count; i++) {
		struct split split;

		ret->leaf[i] = leaf_most(solver, &solver->leaves[i], time, &split);
		*(solver->leaves[i].hosts ? &with_hosts : &others) += ret->leaf[i];
	}
	factor = others > 0 && with_hosts < 1 ? (1 - with_hosts) / others : 0;
	for (size_t i = 0; i < solver->problem->leaf_count; i++) {
		if (!solver->leaves[i].hosts)
			ret->leaf[i] *= factor;
		else if (with_hosts > 1)
			ret->leaf[i] /= with_hosts;
	}
}

/* A pool's members share in proportion to what each has left. */
static double part_of(const struct solver *solver, const struct leaf *leaf, const struct schedule_place *place,
		      double time)
{
	double left, all;

	if (place->aggregator)
		return place->rate_Bps / leaf->aggregators_Bps;
	left = time * place->rate_Bps - 1;
	all = host_pool(solver, leaf, time).left;
	return all > 0 && left > 0 ? left / all : all > 0 ? 0 : 1 / (double)leaf->hosts;
}

static void share_places(const struct solver *solver, struct schedule_shares *ret)
{
	for (size_t i = 0; i < solver->problem->place_count; i++) {
		const struct schedule_place *place = &solver->problem->places[i];
		const struct leaf *leaf = &solver->leaves[place->leaf];
		double part = part_of(solver, leaf, place, leaf->time), scale, aggregated;
		struct split split;

		leaf_most(solver, leaf, leaf->time, &split);
		scale = split.most > 0 ? ret->leaf[place->leaf] / split.most : 0;
		ret->root[i] = part * scale * (place->aggregator ? split.aggregators_root : split.hosts_root);
		aggregated = part * (place->aggregator ? 1 - split.hosts : split.hosts);
		ret->rest[i] = leaf->hosts && aggregated > ret->root[i] ? aggregated - ret->root[i] : 0;
	}
}

static void find_loads(const struct solver *solver, struct schedule_shares *ret)
{
	double m = solver->member_leaves;

	for (size_t i = 0; i < solver->problem->place_count; i++) {
		const struct leaf *leaf = &solver->leaves[solver->problem->places[i].leaf];
		bool aggregator = solver->problem->places[i].aggregator, apart = !leaf->hosts;
		struct pool pool = aggregator ? aggregator_pool(solver, leaf, 0) : host_pool(solver, leaf, 0);
		double *most = aggregator ? &ret->loads.aggregator : &ret->loads.host;

		ret->load[i] = pool.rest * ret->rest[i] + (apart ? m : pool.root) * ret->root[i];
		if (!aggregator && (m > 1 || leaf->hosts > 1))
			ret->load[i] += 1;
		*most = ret->load[i] > *most ? ret->load[i] : *most;
	}
	for (size_t i = 0; i < solver->problem->leaf_count && m > 1; i++) {
		double load = solver->leaves[i].hosts ? 1 + (m - 2) * ret->leaf[i] : m * ret->leaf[i];

		ret->loads.uplink = load > ret->loads.uplink ? load : ret->loads.uplink;
	}
}

int schedule_shares_find(const struct schedule_problem *problem, struct schedule_shares *ret)
{
	struct solver solver = { .problem = problem,
				 .leaves = sys_zalloc(problem->leaf_count * sizeof(*solver.leaves)) };
	double time;

	if (!solver.leaves)
		return -ENOMEM;
	survey(&solver);
	time = least_time(&solver);
	share_leaves(&solver, time, ret);
	/* Where the slowest link is not in a leaf, the leaf's own links are evened out all the same. */
	for (size_t i = 0; i < problem->leaf_count; i++)
		solver.leaves[i].time = solver.leaves[i].hosts
						? least_leaf_time(&solver, &solver.leaves[i], ret->leaf[i], time)
						: time;
	share_places(&solver, ret);
	ret->loads = (struct schedule_loads){ .slowest_s_per_B = time };
	find_loads(&solver, ret);
	sys_free(solver.leaves);
	return 0;
}
