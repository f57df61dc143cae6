/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts such that the evidence against them, summed over all pairs inside, is least: grown from single hosts by the mean
 * between parts, then hosts moved, parts joined and halved until nothing is gained.
 */
#include "clusterprobe/fabric_internal.h"

#include <math.h>
#include <string.h>

enum { SWEEPS_MAX = 20, POWER_TURNS = 60 };
#define GAIN_LEAST 0.5 /* less is nothing, or two places would be equally good for ever */

/* ----------------------------------------------------------------------------------------------------------- from single hosts */

/* Joins the two parts with the lowest mean between them, while that speaks for it. Part numbers are those of hosts. */
static void grow_parts(struct fabric_work *work)
{
	size_t n = work->n;
	double *sum = work->between, *size = work->scratch;

	memcpy(sum, work->evidence, n * n * sizeof(*sum));
	for (size_t i = 0; i < n; i++) {
		work->part[i] = (uint16_t)i;
		size[i] = 1;
	}
	for (;;) {
		size_t into = n, from = n;
		double least = 0;

		for (size_t i = 0; i < n; i++)
			for (size_t j = i + 1; j < n && size[i] > 0; j++)
				if (size[j] > 0 && sum[i * n + j] < least * size[i] * size[j]) {
					least = sum[i * n + j] / (size[i] * size[j]);
					into = i;
					from = j;
				}
		if (into == n)
			break;
		for (size_t i = 0; i < n; i++) {
			sum[into * n + i] += sum[from * n + i];
			sum[i * n + into] = sum[into * n + i];
			if (work->part[i] == from)
				work->part[i] = (uint16_t)into;
		}
		size[into] += size[from];
		size[from] = 0;
	}
	fabric_number(work);
}

/* ---------------------------------------------------------------------------------------------------------------- better */

static bool move_hosts(struct fabric_work *work)
{
	size_t n = work->n;
	double *sum = work->scratch;
	bool changed = false;

	for (size_t i = 0; i < n; i++) {
		size_t best = work->part[i];
		size_t mates = 0;

		memset(sum, 0, (work->part_count + 1) * sizeof(*sum));
		for (size_t j = 0; j < n; j++)
			if (j != i) {
				sum[work->part[j]] += work->evidence[i * n + j];
				mates += work->part[j] == work->part[i];
			}
		for (size_t p = 0; p < work->part_count + (mates > 0 && work->part_count < n); p++)
			if (sum[p] < sum[best] - GAIN_LEAST)
				best = p;
		if (best == work->part[i])
			continue;
		work->part[i] = (uint16_t)best;
		fabric_number(work);
		changed = true;
	}
	return changed;
}

static bool join_parts(struct fabric_work *work)
{
	size_t n = work->n, k = work->part_count, into = 0, from = 0;
	double *sum = work->between, least = -GAIN_LEAST;

	memset(sum, 0, k * k * sizeof(*sum));
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			sum[work->part[i] * k + work->part[j]] += work->evidence[i * n + j];
	for (size_t p = 0; p < k; p++)
		for (size_t q = p + 1; q < k; q++)
			if (sum[p * k + q] < least) {
				least = sum[p * k + q];
				into = p;
				from = q;
			}
	if (into == from)
		return false;
	for (size_t i = 0; i < n; i++)
		if (work->part[i] == from)
			work->part[i] = (uint16_t)into;
	fabric_number(work);
	return true;
}

/* ---------------------------------------------------------------------------------------------------------------- halves */

/*
 * The halves of one part's hosts between which the evidence is highest, against its mean: signs of the eigenvector of the
 * lowest value, then single hosts moved. at: the hosts, ret_side: of each.
 */
static void halve(struct fabric_work *work, const uint16_t *at, size_t count, double *side)
{
	const double *evidence = work->evidence;
	double *next = work->scratch + work->n;
	double mean = 0, shift = 0;
	size_t n = work->n;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < count; j++)
			mean += i == j ? 0 : evidence[at[i] * n + at[j]];
	mean /= (double)(count * (count - 1));
	for (size_t i = 0; i < count; i++) {
		double row = 0;

		for (size_t j = 0; j < count; j++)
			row += i == j ? 0 : fabs(evidence[at[i] * n + at[j]] - mean);
		shift = fmax(shift, row);
		side[i] = (double)fabric_random(work, 2000) - 999.5;
	}
	for (unsigned turn = 0; turn < POWER_TURNS; turn++) {
		double norm = 1e-300;

		for (size_t i = 0; i < count; i++) {
			next[i] = 0.6 * shift * side[i];
			for (size_t j = 0; j < count; j++)
				next[i] -= i == j ? 0 : (evidence[at[i] * n + at[j]] - mean) * side[j];
			norm = fmax(norm, fabs(next[i]));
		}
		for (size_t i = 0; i < count; i++)
			side[i] = next[i] / norm;
	}
	for (size_t i = 0; i < count; i++)
		side[i] = side[i] < 0 ? -1 : 1;
	for (unsigned turn = 0; turn < SWEEPS_MAX; turn++)
		for (size_t i = 0; i < count; i++) {
			double same = 0;

			for (size_t j = 0; j < count; j++)
				same += i == j ? 0 : (evidence[at[i] * n + at[j]] - mean) * side[i] * side[j];
			if (same > 0)
				side[i] = -side[i];
		}
}

void fabric_halves(struct fabric_work *work, uint16_t *ret_half)
{
	uint16_t *members = work->order + work->n;
	double *side = work->scratch;

	for (uint16_t p = 0; p < (uint16_t)work->part_count; p++) {
		size_t count = 0;

		for (size_t i = 0; i < work->n; i++)
			if (work->part[i] == p)
				members[count++] = (uint16_t)i;
		if (count > 1)
			halve(work, members, count, side);
		for (size_t i = 0; i < count; i++)
			ret_half[members[i]] = (uint16_t)(2 * p + (count > 1 && side[i] > 0));
	}
}

static bool split_parts(struct fabric_work *work)
{
	size_t n = work->n, k = work->part_count;
	double *gain = work->scratch + 2 * n;
	bool changed = false;

	fabric_halves(work, work->order);
	memset(gain, 0, k * sizeof(*gain));
	for (size_t i = 0; i < n; i++)
		for (size_t j = i + 1; j < n; j++)
			if (work->part[i] == work->part[j] && work->order[i] != work->order[j])
				gain[work->part[i]] += work->evidence[i * n + j];
	for (size_t p = 0; p < k; p++)
		changed |= gain[p] > GAIN_LEAST;
	if (!changed)
		return false;
	for (size_t p = 0, next = k; p < k; p++) {
		if (gain[p] <= GAIN_LEAST)
			continue;
		for (size_t i = 0; i < n; i++)
			if (work->order[i] == 2 * p + 1)
				work->part[i] = (uint16_t)next;
		next++;
	}
	fabric_number(work);
	return true;
}

double fabric_margin(const struct fabric_work *work, size_t host, double *sum, uint16_t *ret_other)
{
	double best = 1e300;

	if (work->n <= FABRIC_MODEL_HOSTS) {
		*ret_other = work->other[host];
		return work->margin[host];
	}
	memset(sum, 0, work->part_count * sizeof(*sum));
	for (size_t i = 0; i < work->n; i++)
		if (i != host)
			sum[work->part[i]] += work->evidence[host * work->n + i];
	for (uint16_t p = 0; p < (uint16_t)work->part_count; p++)
		if (p != work->part[host] && sum[p] < best) {
			best = sum[p];
			*ret_other = p;
		}
	return best - sum[work->part[host]];
}

int fabric_partition(struct fabric_work *work, bool *ret_changed)
{
	uint16_t before[FABRIC_HOSTS_MAX];
	bool first = work->part_count == 0;
	int r;

	memcpy(before, work->part, work->n * sizeof(*before));
	grow_parts(work);
	for (unsigned sweep = 0; sweep < SWEEPS_MAX; sweep++) {
		bool changed = move_hosts(work);

		changed |= join_parts(work);
		changed |= split_parts(work);
		if (!changed)
			break;
	}
	r = fabric_model_refine(work, before, first);
	*ret_changed = memcmp(before, work->part, work->n * sizeof(*before)) != 0;
	return r;
}
