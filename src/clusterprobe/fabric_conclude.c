/* SPDX-License-Identifier: Apache-2.0 */
/* What each uplink carries, and what of each host can be said. */
#include "base/sys.h"
#include "clusterprobe/fabric_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { UPLINK_ROUNDS = 2, UPLINK_ROUNDS_MAX = 6, UPLINK_FLOWS = 3, EXAMS_MAX = 5, RAISED_TOP = 3 };
_Static_assert(FABRIC_SCRATCH >= 2 + 2 * RAISED_TOP, "sums, and the largest of them");
#define AGREE       0.04 /* rounds that are as near need no third */
#define NARROW_PART 0.88 /* of what the hosts or the others carry: more than this is not narrow */
#define MORE        1.05 /* than the rate was: a round saw more cross, so it is no bound */
#define ASYMMETRIC  0.75 /* one direction carries less than this part of the other */
#define SLOW_PART   0.7  /* of the median of all hosts */
#define DOUBT       2.0  /* less evidence than this, either way, is doubt */

static double median(double *values, size_t count)
{
	double upper = fabric_quantile(values, count, 0.5); /* they are sorted from here on */

	return count % 2 ? upper : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ------------------------------------------------------------------------------------------------------------ uplinks */

static int measure_direction(struct fabric_work *work, uint16_t part, bool down, struct fabric_direction *ret)
{
	double sums[UPLINK_ROUNDS_MAX] = { 0 };

	for (ret->rounds = 0; ret->rounds < UPLINK_ROUNDS_MAX; ret->rounds++) {
		size_t count = fabric_plan_uplink(work, part, part, down, ret->rounds, UPLINK_FLOWS);
		double sum = 0;
		int r;

		if (ret->rounds == UPLINK_ROUNDS && fabs(sums[0] - sums[1]) < AGREE * fmax(sums[0], sums[1]))
			break;
		r = fabric_run(work, count, 0, down ? FABRIC_DOWN : FABRIC_UP);
		if (r < 0)
			return r;
		for (size_t i = 0; i < count; i++)
			sum += work->rates[i];
		sums[ret->rounds] = sum;
	}
	ret->rate_Bps = median(sums, ret->rounds);
	/* They do not agree: connections did not get what was there, and hardly any gets more. */
	if (ret->rounds > UPLINK_ROUNDS)
		ret->rate_Bps = sums[ret->rounds - 2];
	return 0;
}

static int measure_uplinks(struct fabric_work *work, struct fabric *found)
{
	for (uint16_t p = 0; p < found->leaf_count && found->leaf_count > 1; p++) {
		work->expected = work->round_count + (found->leaf_count - p) * 2 * UPLINK_ROUNDS;
		for (int down = 0; down < 2; down++) {
			int r = measure_direction(work, p, down, fabric_direction_of(found, p, down));

			if (r < 0)
				return r;
		}
	}
	return 0;
}

/*
 * A leaf that is found as two sends less to all others than it can, as one half's flows wait for the other's: what crossed in
 * rounds of single flows, however many these were, is carried as well. In three of them: on a busy machine hosts count at
 * different times, and the most of a hundred rounds is more than there is, in the test-bed by up to a third.
 */
static void raise_rates(struct fabric_work *work, struct fabric *found)
{
	double *sums = work->scratch, *top = work->scratch + 2 * work->n;
	size_t count = found->leaf_count;

	memset(top, 0, 2 * RAISED_TOP * count * sizeof(*top));
	for (size_t r = 0; r < work->round_count; r++) {
		const struct fabric_round *round = &work->rounds[r];

		if (!fabric_one_to_one(round))
			continue;
		memset(sums, 0, 2 * count * sizeof(*sums));
		for (size_t i = round->first; i < round->first + round->count; i++) {
			const struct fabric_sample *sample = &work->samples[i];
			size_t from = work->part[sample->flow.from], to = work->part[sample->flow.to];

			if (from == to)
				continue;
			sums[2 * from] += (double)sample->rate_Bps;
			sums[2 * to + 1] += (double)sample->rate_Bps;
		}
		for (size_t i = 0; i < 2 * count; i++)
			fabric_keep_top(&top[RAISED_TOP * i], RAISED_TOP, sums[i]);
	}
	for (size_t i = 0; i < 2 * count; i++) {
		struct fabric_direction *at = fabric_direction_of(found, i / 2, i % 2);
		double least = top[RAISED_TOP * i + RAISED_TOP - 1];

		if (least > MORE * at->rate_Bps)
			at->rate_Bps = least;
	}
}

/* After all rates are known: what bounds each direction. */
static void classify_direction(const struct fabric_work *work, struct fabric *found, size_t leaf, bool down)
{
	struct fabric_direction *at = fabric_direction_of(found, leaf, down);
	double nics = 0;

	at->hosts_Bps = at->others_Bps = 0;
	for (size_t i = 0; i < work->n; i++) {
		if (found->hosts[i].leaf == leaf)
			at->hosts_Bps += work->nic_Bps[down][i];
		else
			nics += work->nic_Bps[!down][i];
	}
	for (size_t other = 0; other < found->leaf_count; other++)
		if (other != leaf)
			at->others_Bps += fabric_direction_of(found, other, !down)->rate_Bps;
	if (found->leaf_count == 2)
		at->others_Bps = nics;
	if (at->rate_Bps >= NARROW_PART * at->hosts_Bps)
		at->known = FABRIC_HOSTS;
	else if (at->rate_Bps >= NARROW_PART * at->others_Bps)
		at->known = FABRIC_OTHERS;
	else
		at->known = found->leaf_count == 2 ? FABRIC_JOINT : FABRIC_NARROW;
}

static void classify_leaf(const struct fabric_work *work, struct fabric *found, size_t leaf)
{
	struct fabric_leaf *at = &found->leaves[leaf];
	double sums[2] = { 0 };
	size_t counts[2] = { 0 };

	for (size_t r = 0; r < work->round_count; r++) {
		const struct fabric_round *round = &work->rounds[r];

		for (size_t i = round->first; i < round->first + round->count && round->purpose == FABRIC_FILL; i++) {
			const struct fabric_sample *sample = &work->samples[i];
			bool from = work->part[sample->flow.from] == leaf, to = work->part[sample->flow.to] == leaf;

			if (!from && !to)
				continue;
			sums[from != to] += (double)sample->rate_Bps / fabric_nic(work, sample->flow);
			counts[from != to]++;
		}
	}
	at->inside_count = counts[0];
	at->outside_count = counts[1];
	at->inside_part = counts[0] ? sums[0] / (double)counts[0] : 0;
	at->outside_part = counts[1] ? sums[1] / (double)counts[1] : 0;
	if (at->up.known <= FABRIC_JOINT || at->down.known <= FABRIC_JOINT) {
		bool both = at->up.known <= FABRIC_JOINT && at->down.known <= FABRIC_JOINT;
		bool up_less = at->up.rate_Bps < at->down.rate_Bps;
		double less = fmin(at->up.rate_Bps, at->down.rate_Bps);

		/* A bound from below says something of the other only if it is above it. */
		at->asymmetric = less < ASYMMETRIC * fmax(at->up.rate_Bps, at->down.rate_Bps) &&
				 (both || (up_less ? at->up.known : at->down.known) <= FABRIC_JOINT);
	}
}

/* --------------------------------------------------------------------------------------------------------------- hosts */

/* Slow is said only of a host whose leaf has another that could have given or taken more: else the uplink might be slow. */
static void classify_host(const struct fabric_work *work, struct fabric *found, size_t host)
{
	struct fabric_host *at = &found->hosts[host];

	at->out_Bps = work->nic_Bps[0][host];
	at->in_Bps = work->nic_Bps[1][host];
	at->alone = found->leaf_count > 1 && found->leaves[at->leaf].host_count == 1;
	for (int way = 0; way < 2; way++) {
		double own = work->nic_Bps[way][host], most = 0;

		for (size_t i = 0; i < work->n; i++)
			if (work->part[i] == at->leaf && i != host)
				most = fmax(most, work->nic_Bps[!way][i]);
		if (own < SLOW_PART * found->median_Bps && (at->alone || most > 1.2 * own))
			at->slow |= way ? FABRIC_SLOW_IN : FABRIC_SLOW_OUT;
	}
}

static void sum_up(const struct fabric_work *work, struct fabric *found)
{
	size_t full = 0, all = 0, doubtful = 0;

	found->loaded_part = 1;
	for (size_t r = 0; r < work->round_count; r++) {
		const struct fabric_round *round = &work->rounds[r];
		double sum = 0, nics = 0;

		if (!fabric_one_to_one(round))
			continue;
		for (size_t i = round->first; i < round->first + round->count; i++) {
			double nic = fabric_nic(work, work->samples[i].flow);

			sum += (double)work->samples[i].rate_Bps;
			nics += nic;
			full += (double)work->samples[i].rate_Bps >= 0.88 * nic;
		}
		all += round->count;
		if (nics > 0 && round->purpose == FABRIC_FILL)
			found->loaded_part = fmin(found->loaded_part, sum / nics);
	}
	for (size_t i = 0; i < work->n; i++)
		for (size_t j = 0; j < work->n; j++)
			doubtful += i != j && fabs(work->evidence[i * work->n + j]) < DOUBT;
	found->full_part = all ? (double)full / (double)all : 0;
	found->doubtful_part = (double)doubtful / (double)(work->n * (work->n - 1));
}

/* The leaves as the parts are now, and what their uplinks carry. */
static int find_uplinks(struct fabric_work *work, struct fabric *ret)
{
	size_t n = work->n;
	int r;

	memset(ret->leaves, 0, n * sizeof(*ret->leaves));
	ret->leaf_count = work->part_count;
	for (size_t i = 0; i < n; i++) {
		ret->hosts[i].leaf = work->part[i];
		ret->leaves[work->part[i]].host_count++;
	}
	r = measure_uplinks(work, ret);
	if (r < 0)
		return r;
	for (int way = 0; way < 2; way++)
		memcpy(work->scratch + (size_t)way * n, work->nic_Bps[way], n * sizeof(*work->scratch));
	ret->median_Bps = median(work->scratch, 2 * n);
	if (ret->leaf_count > 2)
		raise_rates(work, ret);
	for (size_t leaf = 0; leaf < ret->leaf_count && ret->leaf_count > 1; leaf++) {
		classify_direction(work, ret, leaf, false);
		classify_direction(work, ret, leaf, true);
	}
	return 0;
}

int fabric_conclude(struct fabric_work *work, struct fabric *ret)
{
	size_t n = work->n;
	bool moved = true;

	ret->hosts = sys_zalloc(n * sizeof(*ret->hosts));
	ret->leaves = sys_zalloc(n * sizeof(*ret->leaves));
	if (!ret->hosts || !ret->leaves)
		return -ENOMEM;
	ret->host_count = n;
	for (unsigned exam = 0; moved; exam++) {
		int r = find_uplinks(work, ret);

		moved = false;
		if (r == 0 && exam < EXAMS_MAX)
			r = fabric_examine(work, ret, &moved);
		if (r < 0)
			return r;
	}
	for (size_t leaf = 0; leaf < ret->leaf_count; leaf++)
		classify_leaf(work, ret, leaf);
	for (size_t i = 0; i < n; i++)
		classify_host(work, ret, i);
	sum_up(work, ret);
	ret->round_count = work->round_count;
	return 0;
}
