/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric_ground_truth.h"

#include "support/random.h"
#include "simulate/flow.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NIC_BPS 12.5e6

const struct fabric_noise fabric_noise_none = { 0 };
const struct fabric_noise fabric_noise_testbed = {
	.full = 0.04, .share = 0.15, .sum = 0.02, .hiccup = 0.005, .hiccup_by = 0.5
};
/* As TCP on a machine that is busy with other work: shares of a full link far apart, hosts that stand still. */
const struct fabric_noise fabric_noise_busy = {
	.full = 0.04, .share = 0.35, .sum = 0.05, .hiccup = 0.08, .hiccup_by = 0.2, .stall = 0.015
};

static double normal(uint64_t *random)
{
	double u = random_between(random, 1e-12, 1), v = random_between(random, 0, 1);

	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ------------------------------------------------------------------------------------------------------------ the probe */

static size_t link_of(int direction, size_t host)
{
	return 2 * host + (size_t)direction;
}

static size_t uplink_of(const struct fabric_truth *truth, int direction, size_t leaf)
{
	return 2 * (truth->host_count + leaf) + (size_t)direction;
}

/* Links of a flow. */
static size_t way_of(const struct fabric_truth *truth, struct fabric_flow flow, size_t ret[static 4])
{
	size_t from = truth->leaf_of[flow.from], to = truth->leaf_of[flow.to], count = 0;

	ret[count++] = link_of(0, flow.from);
	if (from != to) {
		ret[count++] = uplink_of(truth, 0, from);
		ret[count++] = uplink_of(truth, 1, to);
	}
	ret[count++] = link_of(1, flow.to);
	return count;
}

static int fair_rates(struct fabric_truth_probe *at, const struct fabric_flow *flows, size_t count, double *ret_Bps)
{
	struct flow_network *network = NULL;
	int r = flow_network_new(at->capacity_Bps, 2 * (at->truth->host_count + at->truth->leaf_count), &network);

	for (size_t i = 0; i < count && r == 0; i++) {
		struct flow_crossing way[4];
		size_t links[4], n = way_of(at->truth, flows[i], links);
		uint32_t id;

		for (size_t j = 0; j < n; j++)
			way[j] = (struct flow_crossing){ (uint32_t)links[j], 1 };
		r = flow_add(network, way, n, 1e12, 0, &id);
	}
	if (r == 0)
		r = flow_step(network) < 0 ? -EDEADLK : 0;
	for (size_t i = 0; i < count && r == 0; i++)
		ret_Bps[i] = flow_rate_Bps(network, (uint32_t)i);
	flow_network_free(network);
	return r;
}

/* Shares of a full link differ, its sum hardly. */
static void add_noise(struct fabric_truth_probe *at, const struct fabric_flow *flows, size_t count, double *rate_Bps)
{
	const struct fabric_truth *truth = at->truth;
	size_t link_count = 2 * (truth->host_count + truth->leaf_count), links[4];
	double *sum = calloc(link_count, sizeof(*sum));

	for (size_t i = 0; i < count; i++) {
		double nic = fmin(truth->nic_Bps[0][flows[i].from], truth->nic_Bps[1][flows[i].to]);

		if (rate_Bps[i] < 0.97 * nic)
			rate_Bps[i] = fmin(nic, rate_Bps[i] * exp(at->noise->share * normal(&at->random)));
	}
	for (int turn = 0; turn < 12; turn++) {
		memset(sum, 0, link_count * sizeof(*sum));
		for (size_t i = 0; i < count; i++)
			for (size_t j = 0, n = way_of(truth, flows[i], links); j < n; j++)
				sum[links[j]] += rate_Bps[i];
		for (size_t i = 0; i < count; i++) {
			double over = 0;

			for (size_t j = 0, n = way_of(truth, flows[i], links); j < n; j++)
				over = fmax(over, sum[links[j]] / at->capacity_Bps[links[j]]);
			rate_Bps[i] /= turn < 11 ? over : fmax(1, over);
		}
	}
	for (size_t host = 0; host < truth->host_count && at->noise->stall > 0; host++) {
		bool stalls = random_between(&at->random, 0, 1) < at->noise->stall;
		double left = random_below(&at->random, 2) ? 0 : 0.5;

		for (size_t i = 0; i < count; i++)
			rate_Bps[i] *= stalls && (flows[i].from == host || flows[i].to == host) ? left : 1;
	}
	for (size_t i = 0; i < count; i++)
		rate_Bps[i] *= (random_between(&at->random, 0, 1) < at->noise->hiccup
					? random_between(&at->random, at->noise->hiccup_by, 1)
					: 1) *
			       (1 - at->noise->full * random_between(&at->random, 0, 1)) *
			       (1 + at->noise->sum * normal(&at->random) / 2);
	free(sum);
}

static int run(struct fabric_probe *probe, const struct fabric_flow *flows, size_t count, size_t round, size_t of,
	       double *ret_Bps, struct diag *diag)
{
	struct fabric_truth_probe *at = (struct fabric_truth_probe *)(void *)probe;
	uint8_t sends[FABRIC_HOSTS_MAX] = { 0 };
	int r;

	(void)round;
	(void)of;
	(void)diag;
	at->rounds++;
	at->flows += count;
	if (at->error && (int)at->rounds == at->fail_at)
		return at->error;
	/* What real hosts refuse. */
	for (size_t i = 0; i < count; i++)
		if (++sends[flows[i].from] > FABRIC_FLOWS_EACH)
			return -E2BIG;
	r = fair_rates(at, flows, count, ret_Bps);
	if (r == 0 && at->noise->share > 0)
		add_noise(at, flows, count, ret_Bps);
	return r;
}

static const struct fabric_probe_ops ops = { .run = run };

int fabric_truth_probe_open(const struct fabric_truth *truth, const struct fabric_noise *noise, uint64_t seed,
			    struct fabric_truth_probe *ret)
{
	*ret = (struct fabric_truth_probe){ .probe.ops = &ops, .truth = truth, .noise = noise, .random = seed };
	ret->capacity_Bps = calloc(2 * (truth->host_count + truth->leaf_count), sizeof(*ret->capacity_Bps));
	if (!ret->capacity_Bps)
		return -ENOMEM;
	for (int way = 0; way < 2; way++) {
		for (size_t i = 0; i < truth->host_count; i++)
			ret->capacity_Bps[link_of(way, i)] = truth->nic_Bps[way][i];
		for (size_t i = 0; i < truth->leaf_count; i++)
			ret->capacity_Bps[uplink_of(truth, way, i)] = truth->uplink_Bps[way][i];
	}
	return 0;
}

void fabric_truth_probe_close(struct fabric_truth_probe *probe)
{
	free(probe->capacity_Bps);
	probe->capacity_Bps = NULL;
}

/* ----------------------------------------------------------------------------------------------------------- the truths */

void fabric_truth_make(const size_t *sizes, const double *ratios, size_t leaf_count, struct fabric_truth *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->leaf_count = leaf_count;
	ret->slow_host = -1;
	for (size_t leaf = 0; leaf < leaf_count; leaf++) {
		ret->uplink_Bps[0][leaf] = ret->uplink_Bps[1][leaf] = NIC_BPS * (double)sizes[leaf] / ratios[leaf];
		for (size_t i = 0; i < sizes[leaf]; i++) {
			ret->nic_Bps[0][ret->host_count] = ret->nic_Bps[1][ret->host_count] = NIC_BPS;
			ret->leaf_of[ret->host_count++] = (uint16_t)leaf;
		}
	}
}

void fabric_truth_shuffle(struct fabric_truth *truth, uint64_t *random)
{
	for (size_t i = truth->host_count - 1; i > 0; i--) {
		size_t j = random_below(random, i + 1);
		uint16_t leaf = truth->leaf_of[i];

		truth->leaf_of[i] = truth->leaf_of[j];
		truth->leaf_of[j] = leaf;
		for (int way = 0; way < 2; way++) {
			double nic = truth->nic_Bps[way][i];

			truth->nic_Bps[way][i] = truth->nic_Bps[way][j];
			truth->nic_Bps[way][j] = nic;
		}
		if (truth->slow_host == (int)i)
			truth->slow_host = (int)j;
		else if (truth->slow_host == (int)j)
			truth->slow_host = (int)i;
	}
}

void fabric_truth_random(uint64_t seed, size_t hosts_max, size_t leaves_max, struct fabric_truth *ret)
{
	static const double choices[] = { 1, 2, 2, 3, 4, 4, 6, 8 };
	uint64_t random = seed;
	size_t sizes[TRUTH_LEAVES_MAX], hosts = 4 + random_below(&random, hosts_max - 3), leaves, each;
	double ratios[TRUTH_LEAVES_MAX], common = choices[random_below(&random, 8)];
	bool mixed = random_below(&random, 2) == 0;

	leaves = 1 + random_below(&random, leaves_max < hosts / 2 ? leaves_max : hosts / 2);
	each = random_below(&random, 2) ? hosts / leaves : 2;
	for (size_t i = 0; i < leaves; i++) {
		sizes[i] = each;
		ratios[i] = mixed ? choices[random_below(&random, 8)] : common;
	}
	for (size_t left = hosts - each * leaves; left > 0; left--)
		sizes[random_below(&random, leaves)]++;
	fabric_truth_make(sizes, ratios, leaves, ret);
	if (random_below(&random, 2)) {
		double part = random_between(&random, 0.2, 0.55);
		size_t ways = random_below(&random, 4); /* 0: out, 1: in, more: both */

		ret->slow_host = (int)random_below(&random, hosts);
		for (size_t way = 0; way < 2; way++)
			if (ways > 1 || ways == way)
				ret->nic_Bps[way][ret->slow_host] *= part;
	}
	if (random_below(&random, 2))
		ret->uplink_Bps[random_below(&random, 2)][random_below(&random, leaves)] *= 0.5;
	fabric_truth_shuffle(ret, &random);
}

/* ---------------------------------------------------------------------------------------------------------- the judge */

/*
 * The most that one leaf's hosts send (0) or receive (1) if nothing else runs; *ret_open: were this uplink without bound;
 * *ret_nics: were all of them.
 */
static double most(const struct fabric_truth *truth, int way, size_t leaf, double *ret_open, double *ret_nics)
{
	double own = 0, others = 0, nics = 0;

	for (size_t i = 0; i < truth->host_count; i++)
		own += truth->leaf_of[i] == leaf ? truth->nic_Bps[way][i] : 0;
	for (size_t other = 0; other < truth->leaf_count; other++) {
		double sum = 0;

		if (other == leaf)
			continue;
		for (size_t i = 0; i < truth->host_count; i++)
			sum += truth->leaf_of[i] == other ? truth->nic_Bps[!way][i] : 0;
		nics += sum;
		others += fmin(sum, truth->uplink_Bps[!way][other]);
	}
	*ret_open = fmin(own, others);
	*ret_nics = fmin(own, nics);
	return fmin(*ret_open, truth->uplink_Bps[way][leaf]);
}

void fabric_truth_visible(const struct fabric_truth *truth, struct fabric_visible *ret)
{
	uint16_t number[TRUTH_LEAVES_MAX];
	uint16_t hidden = UINT16_MAX;

	memset(ret, 0, sizeof(*ret));
	for (size_t leaf = 0; leaf < truth->leaf_count; leaf++) {
		double rate[2], open[2], nics;
		bool seen = false;

		for (int way = 0; way < 2; way++) {
			rate[way] = most(truth, way, leaf, &open[way], &nics);
			seen |= rate[way] < 0.93 * nics && truth->uplink_Bps[way][leaf] < 1.02 * open[way];
		}
		if (!seen && hidden == UINT16_MAX)
			hidden = (uint16_t)ret->leaf_count++;
		number[leaf] = seen ? (uint16_t)ret->leaf_count++ : hidden;
		for (int way = 0; way < 2; way++) {
			ret->direction[way][number[leaf]].rate_Bps = seen ? rate[way] : INFINITY;
			ret->direction[way][number[leaf]].slack = seen ? open[way] / rate[way] : 1;
		}
	}
	for (size_t leaf = 0; leaf < truth->leaf_count; leaf++)
		for (int way = 0; way < 2; way++) {
			double open, nics, own = truth->uplink_Bps[way][leaf];

			most(truth, way, leaf, &open, &nics);
			ret->grey |= own > 0.9 * open && own < 1.02 * open && own < 0.93 * nics &&
				     truth->leaf_count > 2;
		}
	for (size_t i = 0; i < truth->host_count; i++)
		ret->leaf_of[i] = number[truth->leaf_of[i]];
}

/* NULL, or what is wrong: one direction carries far less, and it is its uplink that bounds it; or nearly as much. */
static const char *judge_symmetry(const struct fabric_visible *visible, size_t t, const struct fabric_leaf *found)
{
	double rate[2], slack[2];
	int less;

	for (int way = 0; way < 2; way++) {
		rate[way] = visible->direction[way][t].rate_Bps;
		slack[way] = visible->direction[way][t].slack;
		if (visible->leaf_count == 2) /* of both uplinks together */
			rate[way] = fmin(rate[way], visible->direction[!way][!t].rate_Bps);
	}
	less = rate[1] < rate[0];
	if (rate[less] < 0.65 * rate[!less] && slack[less] > 1.2 && !found->asymmetric)
		return "not asymmetric";
	return rate[less] > 0.85 * rate[!less] && found->asymmetric ? "asymmetric" : NULL;
}

const char *fabric_truth_judge(const struct fabric_truth *truth, const struct fabric *found, double tolerance,
			       char *text, size_t text_bytes)
{
	struct fabric_visible visible;
	int to[FABRIC_HOSTS_MAX], from[FABRIC_HOSTS_MAX];

	fabric_truth_visible(truth, &visible);
	for (size_t i = 0; i < FABRIC_HOSTS_MAX; i++)
		to[i] = from[i] = -1;
	if (found->leaf_count != visible.leaf_count) {
		snprintf(text, text_bytes, "%zu leaves in place of %zu", found->leaf_count, visible.leaf_count);
		return text;
	}
	for (size_t i = 0; i < truth->host_count; i++) {
		int t = visible.leaf_of[i], f = found->hosts[i].leaf;

		if ((to[t] >= 0 && to[t] != f) || (from[f] >= 0 && from[f] != t)) {
			snprintf(text, text_bytes, "host %zu is in the wrong leaf", i);
			return text;
		}
		to[t] = f;
		from[f] = t;
	}
	for (size_t i = 0; i < truth->host_count; i++) {
		bool slow = found->hosts[i].slow != 0, is = (int)i == truth->slow_host;

		/* Of two in a leaf it may be impossible to tell which. */
		if (slow != is && !(is && found->leaves[found->hosts[i].leaf].host_count == 2)) {
			snprintf(text, text_bytes, "host %zu is %sslow", i, slow ? "not " : "");
			return text;
		}
	}
	for (size_t t = 0; t < visible.leaf_count && visible.leaf_count > 1; t++) {
		const char *wrong = judge_symmetry(&visible, t, &found->leaves[to[t]]);

		if (!wrong)
			continue;
		snprintf(text, text_bytes, "leaf %d is %s", to[t], wrong);
		return text;
	}
	for (size_t t = 0; t < visible.leaf_count && visible.leaf_count > 1; t++)
		for (int way = 0; way < 2; way++) {
			const struct fabric_leaf *leaf = &found->leaves[to[t]];
			const struct fabric_direction *is = way ? &leaf->down : &leaf->up;
			double rate = visible.direction[way][t].rate_Bps, slack = visible.direction[way][t].slack;
			bool narrow = is->known == FABRIC_NARROW || is->known == FABRIC_JOINT;

			if (visible.leaf_count == 2) /* of both uplinks together */
				rate = fmin(visible.direction[way][t].rate_Bps, visible.direction[!way][!t].rate_Bps);
			if ((narrow && slack < 1.04 && visible.leaf_count > 2) || (!narrow && slack > 1.2)) {
				snprintf(text, text_bytes, "the uplink of leaf %d, %s, is %snarrow", to[t],
					 way ? "down" : "up", narrow ? "not " : "");
				return text;
			}
			if (narrow && fabs(is->rate_Bps / rate - 1) > tolerance) {
				snprintf(text, text_bytes, "the uplink of leaf %d, %s: %.4g in place of %.4g", to[t],
					 way ? "down" : "up", is->rate_Bps, rate);
				return text;
			}
		}
	return NULL;
}

void fabric_truth_print(const struct fabric_truth *truth, const struct fabric *found)
{
	struct fabric_visible visible;

	fabric_truth_visible(truth, &visible);
	printf("truth: %zu hosts, %zu leaves, %zu visible, slow host %d\n", truth->host_count, truth->leaf_count,
	       visible.leaf_count, truth->slow_host);
	for (size_t leaf = 0; leaf < truth->leaf_count; leaf++) {
		printf("  up %.3f down %.3f:", truth->uplink_Bps[0][leaf] / NIC_BPS,
		       truth->uplink_Bps[1][leaf] / NIC_BPS);
		for (size_t i = 0; i < truth->host_count; i++)
			if (truth->leaf_of[i] == leaf)
				printf(" %zu", i);
		printf("\n");
	}
	printf("found: %zu leaves, %zu rounds, full %.3f loaded %.3f doubtful %.3f\n", found->leaf_count,
	       found->round_count, found->full_part, found->loaded_part, found->doubtful_part);
	for (size_t leaf = 0; leaf < found->leaf_count; leaf++) {
		const struct fabric_leaf *at = &found->leaves[leaf];

		printf("  up %.3f (%d) down %.3f (%d):", at->up.rate_Bps / NIC_BPS, at->up.known,
		       at->down.rate_Bps / NIC_BPS, at->down.known);
		for (size_t i = 0; i < found->host_count; i++)
			if (found->hosts[i].leaf == leaf)
				printf(" %zu%s", i, found->hosts[i].slow ? "!" : "");
		printf("\n");
	}
}
