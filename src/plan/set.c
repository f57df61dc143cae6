/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/search.h"

#include "base/minmax.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum {
	RING_PERMILLE = 990,
	TREE_PERMILLE = 990,
	EITHER_PERMILLE = 850, /* of the best on one host, and of the best on several */
	CHANNELS_LEAST = 2, /* NCCL doubles them to four, which is what it gives itself where two links leave a GPU */
};

/* One host or several: the model, what the best plan moves, and a bound of that. */
struct side {
	bool used;
	struct plan_model model;
	uint64_t best_Bps, bound_Bps;
};

/* One pattern. */
struct part {
	enum plan_pattern pattern;
	unsigned permille;         /* of the best total */
	uint64_t work_limit, work; /* of all searches for the best channels, and what they took */
	struct side alone, network;
	struct plan_model joined;
	struct plan_search search; /* on whichever of the three it is */
	struct plan_selection selection;
};

static void part_fini(struct part *part)
{
	plan_search_fini(&part->search);
	plan_model_fini(&part->alone.model);
	plan_model_fini(&part->network.model);
	plan_model_fini(&part->joined);
}

static uint64_t left_of(uint64_t limit, uint64_t work)
{
	return limit - min_u64(limit, work);
}

static uint64_t selection_Bps(const struct plan_selection *selection)
{
	unsigned __int128 total = (unsigned __int128)selection->count * selection->capacity_Bps;

	total /= selection->load ? selection->load : 1;
	return total > PLAN_UNBOUNDED_BPS ? PLAN_UNBOUNDED_BPS : (uint64_t)total;
}

/* Where there are several. */
static unsigned hosts_of(const struct plan_request *request)
{
	return request->hosts > 2 ? request->hosts : 2;
}

/* ------------------------------------------------------------------------------------------------------- best plans */

/* The best on one side alone. The search stays open for whoever asks for fewer channels. */
static int search_side(struct part *part, struct side *side, struct plan_search *search, uint64_t work_limit)
{
	uint64_t cuts_Bps;
	int r = plan_cuts_bound(&side->model, &cuts_Bps);

	if (r == 0)
		r = plan_search_init(search, &side->model, work_limit);
	if (r == 0)
		r = plan_search_run(search, cuts_Bps);
	if (r < 0)
		return r;
	part->work += search->columns.work;
	side->best_Bps = selection_Bps(&search->best);
	side->bound_Bps = plan_search_bound(search, cuts_Bps);
	return 0;
}

static int make_side(const struct topology *topology, const struct plan_request *request, enum plan_pattern pattern,
		     unsigned hosts, struct side *side)
{
	int r = plan_model_at(&side->model, topology, request, pattern, hosts);

	side->used = r == 0;
	return r;
}

/* The best channels of the network's side, which may be good rings as well. */
static void offer_ways(struct plan_search *search, const struct plan_search *from)
{
	struct plan_selection ways = { 0 };

	for (size_t i = 0; i < from->best.count; i++)
		if (plan_columns_add(&search->columns, &from->columns.channels[from->best.columns[i]],
				     &ways.columns[ways.count]) == 0)
			ways.count++;
	plan_search_offer(search, &ways);
}

/* Those of one host, with every first GPU that a ring may have, and every NIC; NICs in turn, if they are offered so. */
static void offer_rings(struct plan_search *search, const struct plan_search *from)
{
	size_t gpus, nics = search->model->nics, turns;

	if (!from->model)
		return;
	gpus = from->model->gpus;
	turns = from->model->closed ? gpus : 1;
	for (size_t turn = 0; turn < turns; turn++) {
		struct plan_selection rings = { 0 };

		for (size_t i = 0; i < from->best.count * nics; i++) {
			struct plan_channel seed = from->columns.channels[from->best.columns[i / nics]], turned = seed;
			uint32_t column;

			for (size_t j = 0; j < gpus; j++)
				turned.order[j] = seed.order[(turn + j) % gpus];
			turned.nic_in = turned.nic_out = (uint8_t)(i % nics);
			if (plan_columns_add(&search->columns, &turned, &column) < 0)
				return;
			if (i % nics == i / nics % nics)
				rings.columns[rings.count++] = column;
		}
		plan_search_offer(search, &rings);
	}
}

/* One host is soon done, as a rule; several take most of what is left, and their channels often suit both. */
static int search_joined(struct part *part)
{
	struct plan_search alone = { 0 }, network = { 0 };
	int r = search_side(part, &part->alone, &alone, part->work_limit / 2);

	if (r == 0)
		r = search_side(part, &part->network, &network, left_of(part->work_limit, part->work) * 3 / 4);
	if (r == 0)
		r = plan_model_join(&part->joined, &part->alone.model, part->alone.best_Bps, &part->network.model,
				    part->network.best_Bps);
	if (r == 0)
		r = plan_search_init(&part->search, &part->joined, left_of(part->work_limit, part->work));
	if (r == 0) {
		offer_ways(&part->search, &network);
		offer_rings(&part->search, &alone);
		r = plan_search_run(&part->search, PLAN_JOINED_WHOLE);
		part->work += part->search.columns.work;
	}
	plan_search_fini(&alone);
	plan_search_fini(&network);
	return r;
}

static int search_part(const struct topology *topology, const struct plan_request *request, enum plan_where where,
		       uint64_t work_limit, struct part *part)
{
	int r = 0;

	part->work_limit = work_limit;
	if (where != PLAN_SEVERAL_HOSTS)
		r = make_side(topology, request, part->pattern, 1, &part->alone);
	if (r == 0 && where != PLAN_ONE_HOST)
		r = make_side(topology, request, part->pattern, hosts_of(request), &part->network);
	if (r < 0)
		return r;
	if (where == PLAN_EITHER)
		return search_joined(part);
	return search_side(part, where == PLAN_ONE_HOST ? &part->alone : &part->network, &part->search, work_limit);
}

/* ----------------------------------------------------------------------------------------------- number of channels */

static bool part_few(struct part *part, size_t count)
{
	return plan_search_few(&part->search, count, part->permille, part->search.work_limit, &part->selection);
}

/*
 * What is to be moved, in bytes/s. Between hosts or not: the lesser, because NCCL takes the least number of channels that
 * any host has, and of many slow ones few are left where another host has few.
 */
static uint64_t part_total(const struct part *part)
{
	uint64_t least_Bps = PLAN_UNBOUNDED_BPS;

	if (part->alone.used)
		least_Bps = part->alone.best_Bps;
	if (part->network.used)
		least_Bps = min_u64(least_Bps, part->network.best_Bps);
	return least_Bps < PLAN_UNBOUNDED_BPS ? least_Bps : 0;
}

static size_t least_count(const struct part *ring, const struct part *tree, size_t most)
{
	uint64_t ring_Bps = part_total(ring), tree_Bps = part_total(tree);
	uint64_t count = (ring_Bps > tree_Bps ? ring_Bps : tree_Bps) / PLAN_CHANNEL_MOST_BPS + 1;

	if (count < CHANNELS_LEAST)
		count = CHANNELS_LEAST;
	return count < most ? (size_t)count : most;
}

/* The best that was found so far: rings and trees of one number. */
struct found {
	struct plan_selection ring, tree;
	bool enough; /* for the ring */
};

/* True: it is enough for both. */
static bool try_count(struct part *ring, struct part *tree, size_t count, struct found *found)
{
	bool enough = part_few(ring, count), both;

	if (found->enough && !enough)
		return false;
	both = part_few(tree, count) && enough;
	if (!both && found->ring.count && enough == found->enough &&
	    (enough ? plan_selection_compare(&tree->selection, &found->tree)
		    : plan_selection_compare(&ring->selection, &found->ring)) <= 0)
		return false;
	found->ring = ring->selection;
	found->tree = tree->selection;
	found->enough = enough;
	return both;
}

/* Of the best, the worse of the ring's and the tree's. */
static double worse_share(const struct part *ring, const struct plan_selection *rings, const struct part *tree,
			  const struct plan_selection *trees)
{
	double of_ring = plan_selection_total(rings) / plan_selection_total(&ring->search.best);
	double of_tree = plan_selection_total(trees) / plan_selection_total(&tree->search.best);

	return of_ring < of_tree ? of_ring : of_tree;
}

static void try_fewer(struct part *ring, struct part *tree, size_t count, struct found *found)
{
	bool enough = part_few(ring, count);

	(void)part_few(tree, count);
	if (worse_share(ring, &ring->selection, tree, &tree->selection) <=
	    worse_share(ring, &found->ring, tree, &found->tree))
		return;
	*found = (struct found){ ring->selection, tree->selection, enough };
}

/*
 * The smallest number that is enough for both; else, of those that are enough for the ring, the one with the best tree.
 * Where none is, of as many as it takes that no channel has too much to move, fewer are looked at, too: better a channel
 * that should move a little more than it can than links that are empty.
 */
static size_t choose_count(struct part *ring, struct part *tree, size_t most, uint64_t work_limit)
{
	size_t least = least_count(ring, tree, most);
	struct found found = { .enough = false };
	bool done = false;

	ring->search.work_limit = ring->search.columns.work + work_limit / 2;
	tree->search.work_limit = tree->search.columns.work + work_limit / 2;
	for (size_t count = least; count <= most && !done; count++)
		done = try_count(ring, tree, count, &found);
	for (size_t count = least; !found.enough && count-- > CHANNELS_LEAST;)
		try_fewer(ring, tree, count, &found);
	ring->selection = found.ring;
	tree->selection = found.tree;
	return found.ring.count;
}

/* The most that so many channels move, and then with the fewest detours. */
static int improve(struct part *part, size_t count, uint64_t work_limit)
{
	struct plan_search *search = &part->search;
	struct plan_selection reference = search->best;
	int r = 0;

	search->best = part->selection;
	search->work_limit = search->columns.work + work_limit;
	if (plan_selection_compare(&search->best, &reference) < 0)
		r = plan_search_beat(search, count, search->work_limit);
	if (r == -ENOMEM)
		return r;
	plan_search_polish(search, count, count);
	part->selection = search->best;
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ plans */

static bool short_of_best(const struct side *side, uint64_t rate_Bps, size_t count)
{
	/* Each channel's rate was rounded down. */
	return side->used && side->best_Bps < PLAN_UNBOUNDED_BPS &&
	       (unsigned __int128)(rate_Bps + 1) * count * 1000 < (unsigned __int128)side->best_Bps * EITHER_PERMILLE;
}

static int store_part(struct part *part, enum plan_where where, struct plan_set *set)
{
	struct plan *plan = &set->plans[part->pattern];
	uint64_t intra_Bps = PLAN_UNBOUNDED_BPS, inter_Bps = PLAN_UNBOUNDED_BPS;
	int r = 0;

	*plan = (struct plan){ .pattern = part->pattern, .gpu_count = part->search.model->gpus };
	plan_search_order(&part->search, &part->selection, plan);
	plan_store_classes(part->search.model, plan);
	if (part->alone.used)
		r = plan_channels_rate(&part->alone.model, plan, &intra_Bps);
	if (r == 0 && part->network.used)
		r = plan_channels_rate(&part->network.model, plan, &inter_Bps);
	if (r < 0)
		return r;
	plan->rate_Bps = min_u64(intra_Bps, inter_Bps);
	plan->bound_Bps = min_u64(part->alone.used ? part->alone.bound_Bps : PLAN_UNBOUNDED_BPS,
				  part->network.used ? part->network.bound_Bps : PLAN_UNBOUNDED_BPS);
	if (plan->bound_Bps == PLAN_UNBOUNDED_BPS)
		plan->bound_Bps *= plan->channel_count; /* of channels, and copies of them */
	plan->exact = plan_total_Bps(plan) + PLAN_CHANNELS_MAX >= plan->bound_Bps;
	plan->work = part->search.columns.work;
	set->has[part->pattern] = true;
	set->intra_Bps[part->pattern] = part->alone.used ? intra_Bps : 0;
	set->inter_Bps[part->pattern] = part->network.used ? inter_Bps : 0;
	if (where == PLAN_EITHER && (short_of_best(&part->alone, intra_Bps, plan->channel_count) ||
				     short_of_best(&part->network, inter_Bps, plan->channel_count)))
		return -ENODATA;
	return 0;
}

/*
 * Chains have the trees' channels. With two hosts their load is the same; with more a chain's NIC carries half, and the
 * same way through the machine is as good for both.
 */
static int store_chain(const struct topology *topology, const struct plan_request *request, const struct part *tree,
		       struct plan_set *set)
{
	struct plan *plan = &set->plans[PLAN_CHAIN];
	struct side side = { 0 };
	uint64_t rate_Bps, bound_Bps;
	int r;

	*plan = set->plans[PLAN_TREE];
	plan->pattern = PLAN_CHAIN;
	set->has[PLAN_CHAIN] = true;
	set->intra_Bps[PLAN_CHAIN] = set->intra_Bps[PLAN_TREE];
	set->inter_Bps[PLAN_CHAIN] = set->inter_Bps[PLAN_TREE];
	if (request->hosts <= 2)
		return 0;
	r = make_side(topology, request, PLAN_CHAIN, request->hosts, &side);
	if (r == 0)
		r = plan_channels_rate(&side.model, plan, &rate_Bps);
	if (r == 0)
		r = plan_cuts_bound(&side.model, &bound_Bps);
	if (r == 0) {
		if (tree->alone.used)
			bound_Bps = min_u64(bound_Bps, tree->alone.bound_Bps);
		set->inter_Bps[PLAN_CHAIN] = rate_Bps;
		plan->rate_Bps = set->intra_Bps[PLAN_CHAIN] ? min_u64(set->intra_Bps[PLAN_CHAIN], rate_Bps) : rate_Bps;
		plan->bound_Bps = min_u64(bound_Bps, PLAN_UNBOUNDED_BPS);
		plan->exact = false;
	}
	plan_model_fini(&side.model);
	return r;
}

/* Each GPU with each over an NVSwitch: NCCL's collnet then has the direct way too. */
static bool joined_by_switch(const struct topology *topology, const struct plan_request *request)
{
	size_t gpus = request->gpu_count;
	bool found = topology_count(topology, TOPOLOGY_NVSWITCH) > 0;

	for (size_t a = 0; a < gpus; a++)
		for (size_t b = 0; b < gpus && found; b++)
			found = a == b ||
				topology_class_of(topology, request->gpus[a], request->gpus[b]) == TOPOLOGY_CLASS_NVL;
	return found && gpus > 1 && gpus <= PLAN_DIRECT_GPUS_MAX;
}

static int store_direct(const struct topology *topology, const struct plan_request *request, struct plan_set *set)
{
	struct plan *plan = &set->plans[PLAN_DIRECT];
	struct plan_request several = *request;
	int r;

	several.hosts = hosts_of(request);
	r = plan_make_direct(topology, &several, plan);
	if (r == 0)
		r = plan_rate_at(topology, request, 1, plan, &set->intra_Bps[PLAN_DIRECT]);
	set->inter_Bps[PLAN_DIRECT] = plan->rate_Bps;
	set->has[PLAN_DIRECT] = r == 0;
	return r;
}

/* NCCL 2.30 runs no chain that begins where there is no head; behind a switch any order is as good. */
static int begin_at_heads(const struct topology *topology, const struct plan_request *request, struct plan_set *set)
{
	const struct plan *heads = &set->plans[PLAN_DIRECT];
	struct plan *plan = &set->plans[PLAN_CHAIN];
	int r;

	for (size_t i = 0; i < plan->channel_count; i++)
		plan->channels[i] = heads->channels[i % heads->channel_count];
	plan->intra_class = heads->intra_class;
	plan->inter_class = heads->inter_class;
	plan->exact = false;
	r = plan_rate_at(topology, request, 1, plan, &set->intra_Bps[PLAN_CHAIN]);
	if (r == 0)
		r = plan_rate_at(topology, request, hosts_of(request), plan, &set->inter_Bps[PLAN_CHAIN]);
	plan->rate_Bps = min_u64(set->intra_Bps[PLAN_CHAIN], set->inter_Bps[PLAN_CHAIN]);
	if (set->where == PLAN_SEVERAL_HOSTS)
		set->intra_Bps[PLAN_CHAIN] = 0;
	return r;
}

static int store_collnet(const struct topology *topology, const struct plan_request *request, const struct part *tree,
			 struct plan_set *set)
{
	int r = store_chain(topology, request, tree, set);

	if (r < 0 || !joined_by_switch(topology, request))
		return r;
	r = store_direct(topology, request, set);
	return r < 0 ? r : begin_at_heads(topology, request, set);
}

/* What is true of several hosts alone: whether trees may be balanced, and what more than two move. */
static int verify_several(const struct topology *topology, const struct plan_request *request, struct plan_set *set)
{
	const struct plan *plan = &set->plans[PLAN_TREE];
	int r = 0;

	memcpy(set->many_Bps, set->inter_Bps, sizeof(set->many_Bps));
	set->tree_balanced = plan->gpu_count > 1;
	if (set->where == PLAN_ONE_HOST)
		return 0;
	/* A tree's NIC carries the rate once between two hosts and twice among more; the others' does not change. */
	if (request->hosts <= 2)
		r = plan_rate_at(topology, request, 3, plan, &set->many_Bps[PLAN_TREE]);
	return r < 0 || !set->tree_balanced ? r : plan_tree_balanced(topology, request, plan, &set->tree_balanced);
}

static int store_set(const struct topology *topology, const struct plan_request *request, struct part *ring,
		     struct part *tree, struct plan_set *set)
{
	int r = store_part(ring, set->where, set);

	if (r == 0)
		r = store_part(tree, set->where, set);
	if (r == 0)
		set->channel_count = set->plans[PLAN_RING].channel_count;
	if (r == 0 && set->where != PLAN_ONE_HOST)
		r = store_collnet(topology, request, tree, set);
	if (r == 0)
		r = plan_one_way_rate(topology, request, &set->plans[PLAN_TREE], &set->one_way_Bps);
	return r == 0 ? verify_several(topology, request, set) : r;
}

/* All searches together, in the time that one plan may take; PLAN_EITHER has six of them, and more models to make. */
static uint64_t set_work(const struct plan_request *request, enum plan_where where)
{
	uint64_t work_limit = plan_work_limit(request);

	if (request->work_limit)
		return work_limit;
	if (request->gpu_count > 8)
		return work_limit * 5 / 8;
	return where == PLAN_EITHER ? work_limit * 7 / 8 : work_limit * 9 / 8;
}

int plan_make_set(const struct topology *topology, const struct plan_request *request, enum plan_where where,
		  struct plan_set *ret)
{
	struct part ring = { .pattern = PLAN_RING, .permille = RING_PERMILLE };
	struct part tree = { .pattern = PLAN_TREE, .permille = TREE_PERMILLE };
	struct plan_set set = { .where = where };
	uint64_t left = set_work(request, where);
	int r;

	if ((unsigned)where >= PLAN_WHERE_COUNT)
		return -EINVAL;
	r = search_part(topology, request, where, left * 5 / 8, &ring);
	left = left_of(left, ring.work);
	if (r == 0)
		r = search_part(topology, request, where, left * 5 / 8, &tree);
	left = left_of(left, tree.work);
	if (r == 0) {
		size_t count = choose_count(&ring, &tree, ring.search.model->channels_max, left / 2);

		r = improve(&ring, count, left / 4);
		if (r == 0)
			r = improve(&tree, count, left / 4);
	}
	if (r == 0)
		r = store_set(topology, request, &ring, &tree, &set);
	if (r == 0)
		*ret = set;
	part_fini(&ring);
	part_fini(&tree);
	return r;
}

int plan_make(const struct topology *topology, const struct plan_request *request, enum plan_pattern pattern,
	      struct plan *ret)
{
	struct part part = { .pattern = pattern };
	struct plan_set set = { .channel_count = 0 };
	enum plan_where where = request->hosts > 1 ? PLAN_SEVERAL_HOSTS : PLAN_ONE_HOST;
	int r = plan_request_check(topology, request);

	if (r < 0 || (unsigned)pattern >= PLAN_PATTERN_COUNT)
		return -EINVAL;
	if (pattern == PLAN_DIRECT)
		return plan_make_direct(topology, request, ret);
	r = search_part(topology, request, where, plan_work_limit(request), &part);
	if (r == 0) {
		plan_search_polish(&part.search, 1, part.search.model->channels_max);
		part.selection = part.search.best;
		r = store_part(&part, where, &set);
	}
	if (r == 0) {
		*ret = set.plans[pattern];
		ret->exact = part.search.exact;
	}
	part_fini(&part);
	return r;
}
