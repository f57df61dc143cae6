/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts whose place is in doubt, slow ones above all: their flows are seldom the ones that lose. Once uplinks are known, a
 * part is asked: all its hosts but one fill its uplink with many flows, and that one sends to the host in question (or
 * the other way round). Inside a leaf that flow loses nothing; over the full uplink it is one of many.
 */
#include "clusterprobe/fabric_internal.h"

#include <string.h>

enum { AGREED = 2, EXAMINED_MAX = 16, JOINS_MAX = 16, UPLINK_FLOWS = 3 };
#define SLOW_HOST   0.75 /* of the median: its flows say little */
#define FILLED      0.75 /* of the uplink's rate: it is full */
#define FAST        0.88 /* of what the two NICs carry */
#define SLOW        0.75
#define MARGIN_WEAK 4.0

/* What one round says: 1: one leaf, -1: two, 0: nothing. */
static int ask(struct fabric_work *work, uint16_t host, uint16_t part, const struct fabric_direction *uplink, bool down,
	       int *ret_says)
{
	size_t count = 0, single = 0, mates = 0, turn = fabric_random(work, 1000), each;
	uint16_t mate = UINT16_MAX;
	double crowd = 0, nic, rate;
	int r;

	*ret_says = 0;
	/* The mate: the fastest, or one of them. */
	for (uint16_t i = 0; i < (uint16_t)work->n; i++) {
		if (work->part[i] != part || i == host)
			continue;
		mates++;
		if (mate == UINT16_MAX ||
		    work->nic_Bps[down][i] * (0.8 + 0.4 * (double)fabric_random(work, 100) / 100) >
			    work->nic_Bps[down][mate])
			mate = i;
	}
	if (mates < 2)
		return 0;
	nic = fabric_nic(work, down ? (struct fabric_flow){ host, mate } : (struct fabric_flow){ mate, host });
	each = 1 + (size_t)(4 * uplink->rate_Bps / nic / (double)(mates - 1));
	each = each < 3 ? 3 : each > FABRIC_FLOWS_EACH ? FABRIC_FLOWS_EACH : each;
	count = fabric_plan_uplink(work, part, part, down, turn, each);
	for (size_t i = 0; i < count;) {
		struct fabric_flow flow = work->flows[i];

		if (flow.from == host || flow.to == host || flow.from == mate || flow.to == mate)
			work->flows[i] = work->flows[--count];
		else
			i++;
	}
	if (count == 0)
		return 0;
	work->flows[count++] = work->flows[0];
	work->flows[single++] = down ? (struct fabric_flow){ host, mate } : (struct fabric_flow){ mate, host };
	r = fabric_run(work, count, single, FABRIC_EXAM);
	if (r < 0)
		return r;
	for (size_t i = 1; i < count; i++)
		crowd += work->rates[i];
	rate = work->rates[0] / nic;
	if (rate < SLOW)
		*ret_says = -1;
	else if (rate > FAST && crowd >= FILLED * uplink->rate_Bps && uplink->rate_Bps / (double)count < 0.6 * nic)
		*ret_says = 1;
	return 0;
}

static bool is_narrow(const struct fabric_direction *uplink)
{
	return uplink->known == FABRIC_NARROW || uplink->known == FABRIC_JOINT;
}

/* Asks both directions of a part, until two rounds agree. */
static int ask_part(struct fabric_work *work, const struct fabric *found, uint16_t host, uint16_t part, int *ret_says)
{
	int sum = 0;

	for (unsigned turn = 0; turn < 2 * AGREED + 2 && sum < AGREED && sum > -AGREED; turn++) {
		bool down = turn % 2;
		const struct fabric_direction *uplink = fabric_direction_of(found, part, down);
		int says = 0, r = 0;

		if (is_narrow(uplink))
			r = ask(work, host, part, uplink, down, &says);
		if (r < 0)
			return r;
		sum += says;
	}
	*ret_says = sum;
	return 0;
}

static int examine(struct fabric_work *work, const struct fabric *found, uint16_t host, bool *ret_moved)
{
	uint16_t own = work->part[host], wide = UINT16_MAX, best = own;
	int says = 0, r = ask_part(work, found, host, own, &says), most = says;

	for (uint16_t p = 0; p < found->leaf_count && r == 0 && most < AGREED; p++) {
		if (p == own)
			continue;
		if (!is_narrow(&found->leaves[p].up) && !is_narrow(&found->leaves[p].down))
			wide = p;
		r = ask_part(work, found, host, p, &says);
		if (r == 0 && says > most && says > 0) {
			most = says;
			best = p;
		}
	}
	if (r < 0)
		return r;
	/* It is in none that could be asked. */
	if (most <= -AGREED && wide != UINT16_MAX)
		best = wide;
	*ret_moved |= best != own;
	work->part[host] = best;
	return 0;
}

static double nics_of_others(const struct fabric_work *work, uint16_t p, uint16_t q, bool down)
{
	double sum = 0;

	for (size_t i = 0; i < work->n; i++)
		sum += work->part[i] == p || work->part[i] == q ? 0 : work->nic_Bps[!down][i];
	return sum;
}

/*
 * A host by itself: one slow flow may have parted it from the only mate that it has. If two small parts together send no
 * more than one of them, or get no more, they have one uplink.
 */
static int join_small(struct fabric_work *work, const struct fabric *found, bool *ret_moved)
{
	unsigned asked = 0;

	for (uint16_t p = 0; p < found->leaf_count; p++)
		for (uint16_t q = 0; q < found->leaf_count && found->leaves[p].host_count == 1; q++)
			for (int down = 0; down < 2; down++) {
				double both = fabric_direction_of(found, p, down)->rate_Bps +
					      fabric_direction_of(found, q, down)->rate_Bps;
				double sum = 0;
				size_t count;
				int r;

				if (p == q || both > nics_of_others(work, p, q, down) || asked++ >= JOINS_MAX ||
				    (p > q && found->leaves[q].host_count == 1))
					continue;
				count = fabric_plan_uplink(work, p, q, down, 0, UPLINK_FLOWS);
				r = fabric_run(work, count, 0, FABRIC_UP);
				if (r < 0)
					return r;
				for (size_t i = 0; i < count; i++)
					sum += work->rates[i];
				if (sum > 0.75 * both)
					continue;
				for (size_t i = 0; i < work->n; i++)
					if (work->part[i] == p)
						work->part[i] = q;
				*ret_moved = true;
				return 0;
			}
	return 0;
}

/* No direction of its uplink was seen full: one that carries all that its hosts do is wide. */
static bool is_open(const struct fabric_leaf *leaf, bool wide)
{
	if (wide)
		return leaf->up.known == FABRIC_HOSTS && leaf->down.known == FABRIC_HOSTS;
	return leaf->up.known > FABRIC_JOINT && leaf->down.known > FABRIC_JOINT;
}

/*
 * Nothing narrow was seen between a wide leaf and one that is open, so they are one: all wide leaves, or, where there is but
 * one, it and the first that is open. What is joined is measured anew.
 */
static bool join_wide(struct fabric_work *work, const struct fabric *found)
{
	uint16_t first = UINT16_MAX, open = UINT16_MAX;
	bool joined = false;

	for (uint16_t p = 0; p < found->leaf_count; p++) {
		if (!is_open(&found->leaves[p], true)) {
			if (open == UINT16_MAX && is_open(&found->leaves[p], false))
				open = p;
			continue;
		}
		if (first == UINT16_MAX) {
			first = p;
			continue;
		}
		joined = true;
		for (size_t i = 0; i < work->n; i++)
			if (found->hosts[i].leaf == p)
				work->part[i] = first;
	}
	for (size_t i = 0; i < work->n && !joined && first != UINT16_MAX && open != UINT16_MAX; i++)
		if (found->hosts[i].leaf == open)
			work->part[i] = first;
	return joined || (first != UINT16_MAX && open != UINT16_MAX);
}

int fabric_examine(struct fabric_work *work, const struct fabric *found, bool *ret_moved)
{
	unsigned examined = 0;
	int joined;

	*ret_moved = found->leaf_count > 1 && join_wide(work, found);
	if (*ret_moved) {
		fabric_number(work);
		return 0;
	}
	for (uint16_t host = 0; host < (uint16_t)work->n && found->leaf_count > 1 && examined < EXAMINED_MAX; host++) {
		double nic = work->nic_Bps[0][host] < work->nic_Bps[1][host] ? work->nic_Bps[0][host]
									     : work->nic_Bps[1][host];
		uint16_t other = 0;
		int r;

		if (nic >= SLOW_HOST * found->median_Bps &&
		    fabric_margin(work, host, work->scratch, &other) >= MARGIN_WEAK)
			continue;
		examined++;
		r = examine(work, found, host, ret_moved);
		if (r < 0)
			return r;
	}
	joined = *ret_moved ? 0 : join_small(work, found, ret_moved);
	if (*ret_moved)
		fabric_number(work);
	return joined;
}
