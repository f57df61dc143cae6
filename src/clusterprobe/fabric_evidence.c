/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rounds say of each pair of hosts. A flow that is well below what its two NICs carry met something narrow: its
 * hosts are not in one leaf. One at full rate says that they are, but only as much as flows that leave the leaf were slow
 * in the same round: while nothing else runs, everything is fast. So each flow adds
 *
 *     ln P(rate | two leaves) - ln P(rate | one leaf)
 *
 * where in two leaves it is fast with a probability that the round's other flows show, and in one leaf it is fast but
 * for a few that something else (a busy core) held back.
 */
#include "clusterprobe/fabric_internal.h"

#include <math.h>
#include <string.h>

/* Relative to what the NICs carry. */
#define FAST_LOSS   0.02 /* of a flow at full rate, typical */
#define FAST_SPREAD 0.04
#define SLOW_LOSS   0.12 /* more than this is slow */
#define STRAY       0.03 /* so many are slow for no reason of the fabric's */
#define SLOW_WIDTH  0.9  /* losses of flows that are slow are anywhere in this */

/* Probabilities that a flow which crosses a border is fast. */
#define FAST_FULL    0.05 /* its uplink is full */
#define FAST_UNKNOWN 0.85 /* nothing else crosses */

static double loss_of(const struct fabric_work *work, const struct fabric_sample *sample)
{
	double nic = fabric_nic(work, sample->flow);

	return nic > 0 ? 1 - (double)sample->rate_Bps / nic : 0;
}

static double against(double loss, double fast_likely)
{
	double z = loss > FAST_LOSS ? (loss - FAST_LOSS) / FAST_SPREAD : 0;
	double fast = exp(-z * z / 2) / (FAST_SPREAD * 2.5066), slow = 1 / SLOW_WIDTH;

	return log((fast_likely * fast + (1 - fast_likely) * slow) / ((1 - STRAY) * fast + STRAY * slow));
}

/* ------------------------------------------------------------------------------------------------------------ borders */

static void count_crossings(struct fabric_work *work, const struct fabric_round *round)
{
	for (int way = 0; way < 2; way++)
		for (size_t p = 0; p < work->part_count; p++) {
			work->crossing[way][p].flows = work->crossing[way][p].slow = 0;
			work->crossing[way][p].rate_Bps = 0;
		}
	for (size_t i = round->first; i < round->first + round->count; i++) {
		const struct fabric_sample *sample = &work->samples[i];
		uint16_t ends[2] = { work->part[sample->flow.from], work->part[sample->flow.to] };

		for (int way = 0; way < 2 && ends[0] != ends[1]; way++) {
			struct fabric_crossing *at = &work->crossing[way][ends[way]];

			at->flows++;
			at->slow += loss_of(work, sample) > SLOW_LOSS;
			at->rate_Bps += (double)sample->rate_Bps;
		}
	}
}

static void find_most(struct fabric_work *work)
{
	for (int way = 0; way < 2; way++)
		memset(work->crossing[way], 0, work->n * sizeof(*work->crossing[way]));
	for (size_t i = 0; i < work->round_count; i++) {
		if (!fabric_one_to_one(&work->rounds[i]))
			continue;
		count_crossings(work, &work->rounds[i]);
		for (int way = 0; way < 2; way++)
			for (size_t p = 0; p < work->part_count; p++)
				work->crossing[way][p].most_Bps = fmax(work->crossing[way][p].most_Bps,
								       work->crossing[way][p].rate_Bps);
	}
}

/*
 * How likely a flow of two such NICs over that border is fast, from the others that cross it: `own`, it is one of those
 * counted. Slow hosts lose nothing where the others' share is still more than they can take.
 */
static double fast_across(const struct fabric_crossing *at, double nic_Bps, bool own, bool own_slow)
{
	size_t flows = at->flows - own, slow = at->slow - (own && own_slow);
	double part;

	if (!flows)
		return FAST_UNKNOWN;
	if (at->rate_Bps > 0.75 * nic_Bps * (double)at->flows)
		return 0.95;
	part = (double)slow / (double)flows;
	if (part >= 0.7 && at->rate_Bps >= 0.85 * at->most_Bps)
		return FAST_FULL;
	return fmin(0.95, fmax(0.3, 1 - 0.5 * part));
}

static double fast_likely(const struct fabric_work *work, const struct fabric_sample *sample, double loss)
{
	uint16_t from = work->part[sample->flow.from], to = work->part[sample->flow.to];
	bool own = from != to, slow = loss > SLOW_LOSS;
	double nic = fabric_nic(work, sample->flow);
	double out = fast_across(&work->crossing[0][from], nic, own, slow);
	double in = fast_across(&work->crossing[1][to], nic, own, slow);

	/* In one part now: if it were two, the flow would cross the border of one of them. */
	return own ? fmax(FAST_FULL, out * in) : (out + in) / 2;
}

/* Before there are parts: of all flows of the round. */
static double fast_overall(const struct fabric_work *work, const struct fabric_round *round)
{
	size_t fast = 0;

	for (size_t i = round->first; i < round->first + round->count; i++)
		fast += loss_of(work, &work->samples[i]) <= SLOW_LOSS;
	return fmin(0.95, fmax(0.1, ((double)fast + 1) / ((double)round->count + 2)));
}

static void add_evidence(struct fabric_work *work, struct fabric_flow flow, double sum)
{
	work->evidence[flow.from * work->n + flow.to] += sum;
	work->evidence[flow.to * work->n + flow.from] += sum;
}

/*
 * Is what a crowd gets over a border so little that a single flow of such NICs would be slow among it? Flows that something
 * else holds back say little of that, so each counts by its rate.
 */
static bool is_crowded(const struct fabric_crossing *at, double hosts_Bps, double nic_Bps)
{
	return at->flows && at->square_Bps < 0.6 * nic_Bps * at->rate_Bps && at->rate_Bps < 0.8 * hosts_Bps;
}

/* The single flows of a round that crowds uplinks: were they part of the crowd, they would get as little. */
static void add_crowd(struct fabric_work *work, const struct fabric_round *round)
{
	struct fabric_crossing *crossing[2] = { work->crossing[0], work->crossing[1] };
	double *hosts = work->scratch; /* [2 n]: NICs of those that are in the crowd, of each part */
	uint8_t met[FABRIC_HOSTS_MAX] = { 0 };

	memset(hosts, 0, 2 * work->n * sizeof(*hosts));
	for (int way = 0; way < 2; way++)
		memset(crossing[way], 0, work->part_count * sizeof(*crossing[way]));
	for (size_t i = round->first + round->single; i < round->first + round->count; i++) {
		const struct fabric_sample *sample = &work->samples[i];
		uint16_t ends[2] = { sample->flow.from, sample->flow.to };

		for (int way = 0; way < 2; way++) {
			uint16_t part = work->part[ends[way]];

			crossing[way][part].flows++;
			crossing[way][part].rate_Bps += (double)sample->rate_Bps;
			crossing[way][part].square_Bps += (double)sample->rate_Bps * (double)sample->rate_Bps;
			if (!(met[ends[way]] & 1 << way))
				hosts[(size_t)way * work->n + part] += work->nic_Bps[way][ends[way]];
			met[ends[way]] |= (uint8_t)(1 << way);
		}
	}
	for (size_t i = round->first; i < round->first + round->single; i++) {
		const struct fabric_sample *sample = &work->samples[i];
		uint16_t parts[2] = { work->part[sample->flow.from], work->part[sample->flow.to] };
		double nic = fabric_nic(work, sample->flow), full = 0;

		for (int way = 0; way < 2; way++)
			if (is_crowded(&crossing[way][parts[way]], hosts[(size_t)way * work->n + parts[way]], nic))
				full += 0.5;
		/* In one part now, were it two, it would cross the border of one of them, nobody knows which. */
		if (parts[0] != parts[1])
			full = full > 0 ? 1 : 0;
		add_evidence(work, sample->flow, against(loss_of(work, sample), 0.9 - full * (0.9 - FAST_FULL)));
	}
}

static void add_one_to_one(struct fabric_work *work, const struct fabric_round *round)
{
	double overall = fast_overall(work, round);

	if (work->part_count)
		count_crossings(work, round);
	for (size_t i = round->first; i < round->first + round->count; i++) {
		const struct fabric_sample *sample = &work->samples[i];
		double loss = loss_of(work, sample);
		double likely = work->part_count > 1 ? fast_likely(work, sample, loss) : overall;

		add_evidence(work, sample->flow, against(loss, likely));
	}
}

void fabric_evidence(struct fabric_work *work)
{
	memset(work->evidence, 0, work->n * work->n * sizeof(*work->evidence));
	if (work->part_count)
		find_most(work);
	for (size_t r = 0; r < work->round_count; r++)
		if (fabric_one_to_one(&work->rounds[r]))
			add_one_to_one(work, &work->rounds[r]);
	for (size_t r = 0; r < work->round_count; r++)
		if (work->rounds[r].purpose == FABRIC_CROWD)
			add_crowd(work, &work->rounds[r]);
}
