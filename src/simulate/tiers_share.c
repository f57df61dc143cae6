/*
 * With n hosts in a leaf and m leaves that have hosts, for a place that aggregates y for roots elsewhere and r as root:
 *
 *     a host      1 + (n-1) y + (n+m-3) r      m = 1:  1 + (n-2) r
 *     an aggregator        (n+1) y + (n+m-1) r      m = 1:      n r         no hosts in its leaf:  m r
 *     an uplink   1 + (m-2) root                                       no hosts in the leaf:  m root
 *
 * In a given time each link carries so much; what its own bytes leave of that is for aggregating, and is one pool for all
 * hosts of a leaf and one for its aggregators. What a leaf can root is concave in the part that its hosts aggregate, so its
 * most is found by thirds; the least time in which all roots together come to 1 by halves.
 */
#include "simulate/tiers.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { HALVINGS = 100, THIRDS = 80, SLOW_AGGREGATOR = 4 };

/* In place of what bounds nothing, relative to the fastest that is known. */
#define UNBOUNDED 1e6

struct pool {
	double left, rest, root; /* what it carries still, and what a byte costs in either role */
};

static int compare_rates(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

static int median_of(const struct simulate_place *places, size_t count, double *ret_Bps)
{
	double *rates = sys_zalloc((count + 1) * sizeof(*rates));
	size_t hosts = 0;

	if (!rates)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (!places[i].aggregator)
			rates[hosts++] = places[i].rate_Bps;
	qsort(rates, hosts, sizeof(*rates), compare_rates);
	*ret_Bps = hosts ? rates[(hosts - 1) / 2] : 0;
	sys_free(rates);
	return 0;
}

static void bound_all(struct simulate_place *places, size_t place_count, struct simulate_leaf *leaves,
		      size_t leaf_count)
{
	double most_Bps = 0;

	for (size_t i = 0; i < place_count; i++)
		most_Bps = isinf(places[i].rate_Bps) ? most_Bps : fmax(most_Bps, places[i].rate_Bps);
	for (size_t i = 0; i < leaf_count; i++)
		most_Bps = isinf(leaves[i].uplink_Bps) ? most_Bps : fmax(most_Bps, leaves[i].uplink_Bps);
	most_Bps = most_Bps > 0 ? most_Bps * UNBOUNDED : 1;
	for (size_t i = 0; i < place_count; i++)
		places[i].rate_Bps = fmin(places[i].rate_Bps, most_Bps);
	for (size_t i = 0; i < leaf_count; i++)
		leaves[i].uplink_Bps = fmin(leaves[i].uplink_Bps, most_Bps);
}

static double survey(struct simulate_place *places, size_t place_count, struct simulate_leaf *leaves, size_t leaf_count,
		     double median_Bps)
{
	double member_leaves = 0;

	for (size_t i = 0; i < leaf_count; i++) {
		leaves[i].hosts = leaves[i].aggregators = 0;
		leaves[i].hosts_Bps = leaves[i].aggregators_Bps = 0;
		leaves[i].slowest_Bps = INFINITY;
	}
	for (size_t i = 0; i < place_count; i++) {
		struct simulate_leaf *leaf = &leaves[places[i].leaf];

		if (places[i].aggregator && places[i].rate_Bps * SLOW_AGGREGATOR < median_Bps)
			places[i].rate_Bps = 0;
		leaf->aggregators += places[i].aggregator;
		leaf->aggregators_Bps += places[i].aggregator ? places[i].rate_Bps : 0;
		leaf->hosts += !places[i].aggregator;
		leaf->hosts_Bps += places[i].aggregator ? 0 : places[i].rate_Bps;
		leaf->slowest_Bps = places[i].aggregator ? leaf->slowest_Bps
							 : fmin(leaf->slowest_Bps, places[i].rate_Bps);
	}
	for (size_t i = 0; i < leaf_count; i++)
		member_leaves += leaves[i].hosts > 0;
	return member_leaves;
}

static struct pool hosts_of(const struct simulate_leaf *leaf, double m, double time)
{
	double n = (double)leaf->hosts;
	struct pool pool = { fmax(0, time * leaf->hosts_Bps - n), n - 1, n + m - 3 };

	if (m < 2)
		pool.rest = pool.root = fmax(0, n - 2);
	return pool;
}

static struct pool aggregators_of(const struct simulate_leaf *leaf, double m, double time)
{
	double n = (double)leaf->hosts;
	struct pool pool = { time * leaf->aggregators_Bps, n + 1, n + m - 1 };

	if (m < 2)
		pool.rest = pool.root = n;
	return pool;
}

static double carries(const struct pool *pool, double cost)
{
	return pool->left >= cost ? 1 : pool->left / cost;
}

/* What a pool that aggregates so much can root of it. */
static double roots_of(const struct pool *pool, double aggregates)
{
	double extra = pool->root - pool->rest;

	if (extra <= 0)
		return aggregates;
	return fmax(0, fmin(aggregates, (pool->left - pool->rest * aggregates) / extra));
}

static double roots_at(const struct pool *hosts, const struct pool *aggregators, double by_hosts)
{
	return roots_of(hosts, by_hosts) + roots_of(aggregators, 1 - by_hosts);
}

/* False: it cannot aggregate all its bytes in this time. */
static bool split(struct simulate_leaf *leaf, double m, double time)
{
	struct pool hosts = hosts_of(leaf, m, time), aggregators = aggregators_of(leaf, m, time);
	double low, high, even, most_hosts = carries(&hosts, hosts.rest);
	double most_aggregators = leaf->aggregators ? carries(&aggregators, aggregators.rest) : 0;

	if (most_hosts + most_aggregators < 1 || time * leaf->slowest_Bps < 1)
		return false;
	low = 1 - most_aggregators;
	high = most_hosts;
	/* In proportion to what each could do, and by hosts alone where it costs them nothing, if that roots as much. */
	even = hosts.rest > 0 ? most_hosts / (most_hosts + most_aggregators) : 1;
	even = fmin(fmax(even, low), high);
	for (int i = 0; i < THIRDS; i++) {
		double first = low + (high - low) / 3, second = high - (high - low) / 3;

		if (roots_at(&hosts, &aggregators, first) < roots_at(&hosts, &aggregators, second))
			low = first;
		else
			high = second;
	}
	leaf->by_hosts = (low + high) / 2;
	if (roots_at(&hosts, &aggregators, even) >= roots_at(&hosts, &aggregators, leaf->by_hosts) * (1 - 1e-12))
		leaf->by_hosts = even;
	leaf->hosts_root = roots_of(&hosts, leaf->by_hosts);
	leaf->aggregators_root = roots_of(&aggregators, 1 - leaf->by_hosts);
	leaf->root = leaf->hosts_root + leaf->aggregators_root;
	if (m > 2)
		leaf->root = fmin(leaf->root, (time * leaf->uplink_Bps - 1) / (m - 2));
	return m < 2 || time * leaf->uplink_Bps >= 1;
}

/* True: the time is enough. Aggregators of leaves without hosts root only what the others cannot. */
static bool is_enough(struct simulate_leaf *leaves, size_t leaf_count, double m, double time)
{
	double left = 1, apart = 0;

	for (size_t i = 0; i < leaf_count; i++) {
		if (!leaves[i].hosts)
			continue;
		if (!split(&leaves[i], m, time))
			return false;
		left -= leaves[i].root;
	}
	for (size_t i = 0; i < leaf_count; i++) {
		if (leaves[i].hosts)
			continue;
		leaves[i].root = time * fmin(leaves[i].aggregators_Bps, m > 1 ? leaves[i].uplink_Bps : INFINITY) / m;
		apart += leaves[i].root;
	}
	for (size_t i = 0; i < leaf_count; i++)
		if (!leaves[i].hosts)
			leaves[i].root = left > 0 && apart > 0 ? leaves[i].root * fmin(1, left / apart) : 0;
	return left <= apart;
}

/* Roots come to 1; each pool's part goes to its places in proportion to what they have left. */
static void hand_out(struct simulate_place *places, size_t place_count, struct simulate_leaf *leaves, size_t leaf_count,
		     double m, double time)
{
	double sum = 0;

	for (size_t i = 0; i < leaf_count; i++)
		sum += leaves[i].root;
	for (size_t i = 0; i < leaf_count; i++) {
		struct simulate_leaf *leaf = &leaves[i];
		double could = leaf->hosts_root + leaf->aggregators_root;

		leaf->root /= sum;
		leaf->hosts_root *= could > 0 ? leaf->root / could : 0;
		leaf->aggregators_root *= could > 0 ? leaf->root / could : 0;
	}
	for (size_t i = 0; i < place_count; i++) {
		struct simulate_place *place = &places[i];
		const struct simulate_leaf *leaf = &leaves[place->leaf];
		double n = (double)leaf->hosts, part, all;

		if (place->aggregator) {
			part = leaf->aggregators_Bps > 0 ? place->rate_Bps / leaf->aggregators_Bps : 0;
			all = leaf->hosts ? 1 - leaf->by_hosts : leaf->root;
			place->root = part * (leaf->hosts ? leaf->aggregators_root : leaf->root);
			place->rest = part * all - place->root;
			place->load = leaf->hosts ? (n + 1) * place->rest + (n + m - 1) * place->root : m * place->root;
			place->load = m < 2 && leaf->hosts ? n * place->root : place->load;
			continue;
		}
		part = time * leaf->hosts_Bps - n > 1e-9 * n
			       ? fmax(0, time * place->rate_Bps - 1) / (time * leaf->hosts_Bps - n)
			       : 1 / n;
		place->root = part * leaf->hosts_root;
		place->rest = part * leaf->by_hosts - place->root;
		place->load = m < 2 ? 1 + fmax(0, n - 2) * place->root
				    : 1 + (n - 1) * place->rest + (n + m - 3) * place->root;
	}
}

int simulate_tiers_share(struct simulate_place *places, size_t place_count, struct simulate_leaf *leaves,
			 size_t leaf_count, double *ret_s_per_B)
{
	double median_Bps = 0, m, low = 0, high = 1e-18;
	int r = median_of(places, place_count, &median_Bps);

	if (r < 0)
		return r;
	bound_all(places, place_count, leaves, leaf_count);
	m = survey(places, place_count, leaves, leaf_count, median_Bps);
	while (!is_enough(leaves, leaf_count, m, high) && high < 1e6) {
		low = high;
		high *= 4;
	}
	for (int i = 0; i < HALVINGS; i++) {
		double middle = low + (high - low) / 2;

		if (is_enough(leaves, leaf_count, m, middle))
			high = middle;
		else
			low = middle;
	}
	is_enough(leaves, leaf_count, m, high);
	/* One leaf: whoever aggregates is the root. */
	hand_out(places, place_count, leaves, leaf_count, m, high);
	*ret_s_per_B = high;
	return 0;
}
