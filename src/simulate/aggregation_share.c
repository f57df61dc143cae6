/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/aggregation.h"

#include "aggregate/schedule_shares.h"
#include "base/sys.h"
#include "simulate/fabric_internal.h"

#include <errno.h>
#include <math.h>

enum { SLOW_AGGREGATOR = 4 };

/* In place of what bounds nothing, relative to the fastest that is known. */
#define UNBOUNDED 1e6

/* Of the hosts. */
static double median_Bps_of(const struct simulate_place *places, size_t count, double *scratch)
{
	size_t hosts = 0;

	for (size_t i = 0; i < count; i++)
		if (!places[i].aggregator)
			scratch[hosts++] = places[i].rate_Bps;
	return hosts ? simulate_median(scratch, hosts) : 0;
}

/* What is faster than this bounds nothing. */
static double unbounded_Bps(const struct simulate_place *places, size_t place_count, const struct simulate_leaf *leaves,
			    size_t leaf_count)
{
	double most_Bps = 0;

	for (size_t i = 0; i < place_count; i++)
		most_Bps = isinf(places[i].rate_Bps) ? most_Bps : fmax(most_Bps, places[i].rate_Bps);
	for (size_t i = 0; i < leaf_count; i++)
		most_Bps = isinf(leaves[i].uplink_Bps) ? most_Bps : fmax(most_Bps, leaves[i].uplink_Bps);
	return most_Bps > 0 ? most_Bps * UNBOUNDED : 1;
}

/* What the shares are found from, in one block. */
struct work {
	struct schedule_place *places;
	size_t *index; /* of each of these among the places */
	double *rates_Bps, *uplink_Bps;
	struct schedule_shares shares;
};

static void *work_init(struct work *work, size_t place_count, size_t leaf_count)
{
	return sys_zalloc_arrays(
		(struct sys_array[]){
			SYS_ARRAY(work->places, place_count), SYS_ARRAY(work->index, place_count),
			SYS_ARRAY(work->rates_Bps, place_count), SYS_ARRAY(work->uplink_Bps, leaf_count),
			SYS_ARRAY(work->shares.leaf, leaf_count), SYS_ARRAY(work->shares.root, place_count),
			SYS_ARRAY(work->shares.rest, place_count), SYS_ARRAY(work->shares.load, place_count) },
		8);
}

int simulate_aggregation_share(struct simulate_place *places, size_t place_count, struct simulate_leaf *leaves,
			       size_t leaf_count, double *ret_s_per_B)
{
	double median_Bps, most_Bps = unbounded_Bps(places, place_count, leaves, leaf_count);
	struct schedule_problem problem = { .leaf_count = leaf_count };
	struct work work = { 0 };
	void *arrays = work_init(&work, place_count, leaf_count);
	int r;

	if (!arrays)
		return -ENOMEM;
	median_Bps = median_Bps_of(places, place_count, work.rates_Bps);
	problem.places = work.places;
	problem.uplink_Bps = work.uplink_Bps;
	for (size_t i = 0; i < leaf_count; i++) {
		work.uplink_Bps[i] = fmin(leaves[i].uplink_Bps, most_Bps);
		leaves[i].hosts = 0;
	}
	for (size_t i = 0; i < place_count; i++) {
		leaves[places[i].leaf].hosts += !places[i].aggregator;
		places[i].load = 0;
		if (places[i].aggregator && places[i].rate_Bps * SLOW_AGGREGATOR < median_Bps)
			continue;
		work.index[problem.place_count] = i;
		work.places[problem.place_count++] = (struct schedule_place){ places[i].leaf, places[i].aggregator,
									      fmin(places[i].rate_Bps, most_Bps) };
	}
	r = schedule_shares_find(&problem, &work.shares);
	for (size_t i = 0; r == 0 && i < problem.place_count; i++)
		places[work.index[i]].load = work.shares.load[i];
	for (size_t i = 0; r == 0 && i < leaf_count; i++)
		leaves[i].root = work.shares.leaf[i];
	if (r == 0)
		*ret_s_per_B = work.shares.loads.slowest_s_per_B;
	sys_free(arrays);
	return r;
}
