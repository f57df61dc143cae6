/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of one switch are alike but for their numbers, so what is decided is how many of each. Where the ways to do that
 * are few all are tried; else slots are added one by one where they do least harm, and peer-bound jobs are also tried in
 * every part of the tree that has room for them. A job is as fast as its slowest slot: of a node the fastest are taken, and all
 * is tried with the fastest slots alone, then with the next ones, too.
 */
#include "plan/place.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS_MOST = 100000 };
#define GRAIN 0.05 /* of shares that are compared: closer ones are equal */
#define ALIKE 0.9  /* a slot's rate over another's that counts as the same: measured ones differ */
#define FULL  1.02

struct score {
	double shared, lost, second, third, fourth; /* less is better, the first one that differs decides */
	struct plan_place_result result;
};

struct search {
	const struct plan_place_tree *tree;
	const struct plan_place_job *job;
	void *arrays;       /* the block of all of these */
	double *others_Bps; /* on each node's uplink */
	double fastest_Bps; /* of all free slots */
	uint32_t *order;    /* free slots by their nodes, of each the fastest first */
	double *rates_Bps;  /* of `order`, those that are alike as one */
	uint32_t *first;    /* of each node, in `order`; one more for the end */
	uint32_t *free;     /* slots of each node that may be taken now */
	uint32_t *free_below;
	uint32_t *taken, *below; /* by the job: of each node, and of it and all below it */
	uint32_t *best;          /* [kept × nodes]: counts of each node, the best first */
	uint32_t *nodes;         /* with free slots */
	size_t node_count;
	struct score *scores; /* [most] */
	size_t most, kept;
};

double plan_place_rate(const struct plan_place_job *job, double slot_Bps)
{
	return job->rate_Bps > 0 && job->rate_Bps < slot_Bps ? job->rate_Bps : slot_Bps;
}

/* ------------------------------------------------------------------------------------------------------------- loads */

/* Counts of nodes, of those below too: a parent stands before its children. */
static void add_up(const struct plan_place_tree *tree, const uint32_t *of, uint32_t *below)
{
	memcpy(below, of, tree->node_count * sizeof(*below));
	for (size_t i = tree->node_count; i-- > 0;)
		if (tree->nodes[i].parent != PLAN_PLACE_NONE)
			below[tree->nodes[i].parent] += below[i];
}

static int add_running(struct search *search, const struct plan_place_job *job)
{
	const struct plan_place_tree *tree = search->tree;
	double *rate_Bps = sys_zalloc((tree->node_count + 1) * sizeof(*rate_Bps)), least_Bps = INFINITY;

	if (!rate_Bps)
		return -ENOMEM;
	memset(search->taken, 0, tree->node_count * sizeof(*search->taken));
	for (size_t i = 0; i < job->count; i++) {
		const struct plan_place_slot *slot = &tree->slots[job->slots[i]];

		search->taken[slot->node]++;
		rate_Bps[slot->node] += plan_place_rate(job, slot->rate_Bps);
		least_Bps = fmin(least_Bps, plan_place_rate(job, slot->rate_Bps));
	}
	add_up(tree, search->taken, search->below);
	for (size_t i = tree->node_count; i-- > 0;) {
		uint32_t parent = tree->nodes[i].parent;

		if (job->kind == PLAN_PLACE_HOST)
			search->others_Bps[i] += parent == PLAN_PLACE_NONE ? 0 : rate_Bps[i];
		else if (search->below[i] && search->below[i] < job->count)
			search->others_Bps[i] += least_Bps;
		if (parent != PLAN_PLACE_NONE)
			rate_Bps[parent] += rate_Bps[i];
	}
	sys_free(rate_Bps);
	return 0;
}

/* What the job would put on a node's uplink. A host-bound slot's data ends at the root: the memory, or the storage. */
static double own_load(const struct search *search, size_t node, double slot_Bps)
{
	uint32_t below = search->below[node];

	if (!below)
		return 0;
	if (search->job->kind == PLAN_PLACE_HOST)
		return search->tree->nodes[node].parent == PLAN_PLACE_NONE ? 0 : below * slot_Bps;
	return below < search->job->count ? slot_Bps : 0;
}

static double grain(double share)
{
	return floor(share / GRAIN + 0.5) * GRAIN;
}

static double slowest_taken(const struct search *search)
{
	double slowest_Bps = INFINITY;

	for (size_t i = 0; i < search->node_count; i++) {
		uint32_t node = search->nodes[i], taken = search->taken[node];

		if (taken)
			slowest_Bps = fmin(slowest_Bps, search->rates_Bps[search->first[node] + taken - 1]);
	}
	return slowest_Bps;
}

/* Of the counts in search->taken. */
static struct score score_of(struct search *search)
{
	const struct plan_place_tree *tree = search->tree;
	struct score score = { .result = { .worst = PLAN_PLACE_NONE, .share = 1 } };
	double fullest = 0, most_of_one = 0, left = 0, slot_Bps = slowest_taken(search);

	add_up(tree, search->taken, search->below);
	for (uint32_t i = 0; i < tree->node_count; i++) {
		double own_Bps = own_load(search, i, slot_Bps), all_Bps = own_Bps + search->others_Bps[i];
		double capacity_Bps = tree->nodes[i].capacity_Bps;

		most_of_one = fmax(most_of_one, search->taken[i]);
		left += search->taken[i] ? search->free[i] - search->taken[i] : 0;
		if (own_Bps <= 0)
			continue;
		score.result.crossings += own_Bps;
		if (all_Bps / capacity_Bps > fullest) {
			fullest = all_Bps / capacity_Bps;
			score.result.worst = i;
		}
		if (search->others_Bps[i] > 0 && all_Bps > FULL * capacity_Bps)
			score.result.shared++;
	}
	score.result.share = fullest > 1 ? 1 / fullest : 1;
	score.shared = (double)score.result.shared;
	score.lost = grain(1 - score.result.share * slot_Bps / search->fastest_Bps);
	if (search->job->kind == PLAN_PLACE_HOST) {
		score.second = grain(fmin(fullest, 1));
		score.third = most_of_one;
		score.fourth = -left; /* where most are free: others find their neighbours free too */
	} else {
		score.second = score.result.crossings;
		score.third = grain(fmin(fullest, 1));
		score.fourth = left; /* what is left whole is for larger jobs */
	}
	return score;
}

static int compare(const struct score *a, const struct score *b)
{
	const double first[] = { a->shared, a->lost, a->second, a->third, a->fourth },
		     second[] = { b->shared, b->lost, b->second, b->third, b->fourth };

	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		if (fabs(first[i] - second[i]) > 1e-9 * fmax(fabs(first[i]), fabs(second[i])))
			return first[i] < second[i] ? -1 : 1;
	return 0;
}

/* Of equal ones the first is before the others. */
static void consider(struct search *search)
{
	struct score score = score_of(search);
	size_t at = search->kept, nodes = search->tree->node_count;

	while (at && compare(&score, &search->scores[at - 1]) < 0)
		at--;
	/* With slower slots allowed the same ways are found again. */
	for (size_t i = at; i-- > 0 && !compare(&score, &search->scores[i]);)
		if (!memcmp(&search->best[i * nodes], search->taken, nodes * sizeof(*search->best)))
			return;
	if (at == search->most)
		return;
	search->kept += search->kept < search->most;
	memmove(&search->scores[at + 1], &search->scores[at], (search->kept - at - 1) * sizeof(score));
	memmove(&search->best[(at + 1) * nodes], &search->best[at * nodes],
		(search->kept - at - 1) * nodes * sizeof(*search->best));
	search->scores[at] = score;
	memcpy(&search->best[at * nodes], search->taken, nodes * sizeof(*search->best));
}

/* ------------------------------------------------------------------------------------------------------------ search */

/* Ways to take `count` slots, WAYS_MOST + 1 where they are more: a sum over nodes of bounded numbers. */
static size_t count_ways(const struct search *search)
{
	size_t count = search->job->count;
	double *ways = sys_zalloc((count + 1) * sizeof(*ways)), found;

	if (!ways)
		return WAYS_MOST + 1;
	ways[0] = 1;
	for (size_t i = 0; i < search->node_count; i++)
		for (size_t at = count; at > 0; at--)
			for (size_t take = 1; take <= at && take <= search->free[search->nodes[i]]; take++)
				ways[at] = fmin(ways[at] + ways[at - take], WAYS_MOST + 1);
	found = ways[count];
	sys_free(ways);
	return (size_t)found;
}

/*
 * Most first: of equal ones the first is kept, and takes from the first switches. room: free slots from this node on; what
 * those behind it have no room for is taken here, so every branch is a way and their number bounds the time.
 */
static void try_all(struct search *search, size_t node, size_t left, size_t room)
{
	size_t most, least;
	uint32_t at;

	if (!left) {
		consider(search);
		return;
	}
	if (node == search->node_count)
		return;
	at = search->nodes[node];
	room -= search->free[at];
	most = search->free[at] < left ? search->free[at] : left;
	least = left > room ? left - room : 0;
	for (size_t take = most + 1; take-- > least;) {
		search->taken[at] = (uint32_t)take;
		try_all(search, node + 1, left - take, room);
	}
	search->taken[at] = 0;
}

static void add_one_by_one(struct search *search)
{
	memset(search->taken, 0, search->tree->node_count * sizeof(*search->taken));
	for (size_t i = 0; i < search->job->count; i++) {
		struct score least = { 0 };
		uint32_t best = PLAN_PLACE_NONE;

		for (size_t j = 0; j < search->node_count; j++) {
			uint32_t at = search->nodes[j];
			struct score score;

			if (search->taken[at] == search->free[at])
				continue;
			search->taken[at]++;
			score = score_of(search);
			search->taken[at]--;
			if (best != PLAN_PLACE_NONE && compare(&score, &least) >= 0)
				continue;
			best = at;
			least = score;
		}
		search->taken[best]++;
	}
	consider(search);
}

static bool is_below(const struct plan_place_tree *tree, uint32_t node, uint32_t at)
{
	while (node != PLAN_PLACE_NONE && node != at)
		node = tree->nodes[node].parent;
	return node == at;
}

/* Below one switch, from the switches with the most free slots; the last one is that with the fewest that suffice. */
static void fill_below(struct search *search, uint32_t at)
{
	size_t left = search->job->count;

	memset(search->taken, 0, search->tree->node_count * sizeof(*search->taken));
	while (left) {
		uint32_t most = PLAN_PLACE_NONE, fits = PLAN_PLACE_NONE, from;

		for (size_t i = 0; i < search->node_count; i++) {
			uint32_t node = search->nodes[i];

			if (search->taken[node] || !is_below(search->tree, node, at))
				continue;
			if (most == PLAN_PLACE_NONE || search->free[node] > search->free[most])
				most = node;
			if (search->free[node] >= left &&
			    (fits == PLAN_PLACE_NONE || search->free[node] < search->free[fits]))
				fits = node;
		}
		from = fits != PLAN_PLACE_NONE ? fits : most;
		if (from == PLAN_PLACE_NONE)
			return;
		search->taken[from] = search->free[from] < left ? search->free[from] : (uint32_t)left;
		left -= search->taken[from];
	}
	consider(search);
}

static void find(struct search *search)
{
	if (count_ways(search) <= WAYS_MOST) {
		size_t room = 0;

		for (size_t i = 0; i < search->node_count; i++)
			room += search->free[search->nodes[i]];
		memset(search->taken, 0, search->tree->node_count * sizeof(*search->taken));
		try_all(search, 0, search->job->count, room);
		return;
	}
	add_one_by_one(search);
	for (uint32_t i = 0; i < search->tree->node_count; i++)
		if (search->free_below[i] >= search->job->count)
			fill_below(search, i);
}

/* ------------------------------------------------------------------------------------------------------------- whole */

static int search_init(struct search *search)
{
	size_t nodes = search->tree->node_count;

	search->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(search->others_Bps, nodes), SYS_ARRAY(search->free, nodes),
				      SYS_ARRAY(search->free_below, nodes), SYS_ARRAY(search->taken, nodes),
				      SYS_ARRAY(search->below, nodes), SYS_ARRAY(search->best, search->most * nodes),
				      SYS_ARRAY(search->nodes, nodes), SYS_ARRAY(search->first, nodes + 1),
				      SYS_ARRAY(search->order, search->tree->slot_count),
				      SYS_ARRAY(search->rates_Bps, search->tree->slot_count),
				      SYS_ARRAY(search->scores, search->most) },
		11);
	return search->arrays ? 0 : -ENOMEM;
}

/* Rates that are alike become the fastest of them. */
static void round_rates(double *rates_Bps, size_t count)
{
	double top_Bps = INFINITY;

	do {
		double next_Bps = 0;

		for (size_t i = 0; i < count; i++)
			if (rates_Bps[i] < top_Bps)
				next_Bps = fmax(next_Bps, rates_Bps[i]);
		top_Bps = next_Bps;
		for (size_t i = 0; i < count; i++)
			if (rates_Bps[i] < top_Bps && rates_Bps[i] >= top_Bps * ALIKE)
				rates_Bps[i] = top_Bps;
	} while (top_Bps > 0);
}

/* used: of each slot. */
static void sort_free(struct search *search, const bool *used)
{
	const struct plan_place_tree *tree = search->tree;
	uint32_t end = 0;

	for (uint32_t node = 0; node < tree->node_count; node++) {
		search->first[node] = end;
		for (uint32_t i = 0; i < tree->slot_count; i++) {
			if (used[i] || tree->slots[i].node != node)
				continue;
			search->rates_Bps[end] = plan_place_rate(search->job, tree->slots[i].rate_Bps);
			search->order[end++] = i;
		}
	}
	search->first[tree->node_count] = end;
	round_rates(search->rates_Bps, end);
	for (uint32_t node = 0; node < tree->node_count; node++)
		for (uint32_t i = search->first[node]; i < search->first[node + 1]; i++) {
			double rate_Bps = search->rates_Bps[i];
			uint32_t slot = search->order[i], at = i;

			for (; at > search->first[node] && search->rates_Bps[at - 1] < rate_Bps; at--) {
				search->rates_Bps[at] = search->rates_Bps[at - 1];
				search->order[at] = search->order[at - 1];
			}
			search->rates_Bps[at] = rate_Bps;
			search->order[at] = slot;
		}
}

/* Slots of this rate and more may be taken. Returns the next one, 0: there is none. */
static double allow_from(struct search *search, double slot_Bps)
{
	const struct plan_place_tree *tree = search->tree;
	double next_Bps = 0;

	search->node_count = 0;
	for (uint32_t node = 0; node < tree->node_count; node++) {
		uint32_t at = search->first[node];

		while (at < search->first[node + 1] && search->rates_Bps[at] >= slot_Bps)
			at++;
		search->free[node] = at - search->first[node];
		if (search->free[node])
			search->nodes[search->node_count++] = node;
		if (at < search->first[node + 1])
			next_Bps = fmax(next_Bps, search->rates_Bps[at]);
	}
	add_up(tree, search->free, search->free_below);
	return next_Bps;
}

static void find_from_fastest(struct search *search)
{
	double slot_Bps = search->fastest_Bps = allow_from(search, INFINITY);

	while (slot_Bps > 0) {
		double next_Bps = allow_from(search, slot_Bps);
		size_t count = 0;

		for (size_t i = 0; i < search->node_count; i++)
			count += search->free[search->nodes[i]];
		if (count >= search->job->count)
			find(search);
		slot_Bps = next_Bps;
	}
}

static void take_slots(const struct search *search, const uint32_t *best, uint32_t *ret)
{
	size_t count = 0;

	for (uint32_t node = 0; node < search->tree->node_count; node++)
		for (uint32_t i = 0; i < best[node]; i++) {
			uint32_t slot = search->order[search->first[node] + i];
			size_t at = count++;

			for (; at > 0 && ret[at - 1] > slot; at--)
				ret[at] = ret[at - 1];
			ret[at] = slot;
		}
}

int plan_place_best(const struct plan_place_tree *tree, const struct plan_place_job *running, size_t running_count,
		    const bool *busy, const struct plan_place_job *job, size_t most, uint32_t *ret_slots,
		    struct plan_place_result *ret, size_t *ret_count)
{
	struct search search = { .tree = tree, .job = job, .most = most };
	bool *used = sys_zalloc((tree->slot_count + 1) * sizeof(*used));
	int r = used ? search_init(&search) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < running_count; i++) {
		r = add_running(&search, &running[i]);
		for (size_t j = 0; r == 0 && j < running[i].count; j++)
			used[running[i].slots[j]] = true;
	}
	for (size_t i = 0; r == 0 && busy && i < tree->slot_count; i++)
		used[i] = used[i] || busy[i];
	if (r == 0)
		sort_free(&search, used);
	if (r == 0 && job->count)
		find_from_fastest(&search);
	if (r == 0 && !search.kept)
		r = -ENOSPC;
	for (size_t i = 0; r == 0 && i < search.kept; i++) {
		take_slots(&search, &search.best[i * tree->node_count], ret_slots + i * job->count);
		ret[i] = search.scores[i].result;
	}
	if (r == 0)
		*ret_count = search.kept;
	sys_free(search.arrays);
	sys_free(used);
	return r;
}

int plan_place(const struct plan_place_tree *tree, const struct plan_place_job *running, size_t running_count,
	       const bool *busy, const struct plan_place_job *job, uint32_t *ret_slots, struct plan_place_result *ret)
{
	size_t count;

	return plan_place_best(tree, running, running_count, busy, job, 1, ret_slots, ret, &count);
}

void plan_place_queue(const struct plan_place_job *jobs, size_t count, size_t *ret)
{
	for (size_t i = 0; i < count; i++) {
		size_t at = i;

		/* Equal ones as they came. */
		for (; at > 0; at--) {
			const struct plan_place_job *before = &jobs[ret[at - 1]];

			if (before->kind == jobs[i].kind ? before->count >= jobs[i].count
							 : before->kind == PLAN_PLACE_PEER)
				break;
			ret[at] = ret[at - 1];
		}
		ret[at] = i;
	}
}
