/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of what is cabled: groups of switches, levels, rates. */
#include "cluster/read/wiring.h"

#include "base/log.h"
#include "base/sys.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES_MAX = 16 };
#define MANY (WIRING_NONE - 1)

/* ------------------------------------------------------------------------------------------------------------ groups */

static void join(struct wiring_tree *tree, uint32_t a, uint32_t b)
{
	uint32_t first = wiring_group_of(tree->group, a), second = wiring_group_of(tree->group, b);

	tree->group[first > second ? first : second] = first < second ? first : second;
}

static uint32_t less(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/*
 * More than half of the hosts of either switch are on both. An adapter that names no host may be of any host of the other
 * switch that is not seen here, or of one that has no name there either, if a good part of those that have names are on both.
 */
static bool are_one_leaf(const struct wiring_tree *tree, uint32_t a, uint32_t a_hosts, uint32_t b, uint32_t b_hosts,
			 uint32_t common)
{
	uint32_t a_nameless = tree->wiring->nameless[a], b_nameless = tree->wiring->nameless[b];
	uint32_t a_found = less(a_nameless, b_hosts - common), b_found = less(b_nameless, a_hosts - common);
	uint32_t both = common + a_found + b_found + less(a_nameless - a_found, b_nameless - b_found);

	if (2 * common > a_hosts + b_hosts - common)
		return true;
	return 3 * common > less(a_hosts, b_hosts) && 2 * both > a_hosts + a_nameless + b_hosts + b_nameless - both;
}

static int join_leaves(struct wiring_tree *tree)
{
	struct wiring_edges edges;
	int r = wiring_edges_init(tree->wiring, &tree->pairs, &edges);

	for (uint32_t at = 0; r == 0 && at < tree->wiring->machine_count; at++) {
		uint32_t hosts = edges.of_switch[at + 1] - edges.of_switch[at];

		if (!hosts)
			continue;
		if (!tree->upper[at])
			tree->level[at] = 0;
		for (uint32_t i = edges.of_switch[at]; i < edges.of_switch[at + 1]; i++)
			for (uint32_t host = edges.hosts[i], j = edges.of_host[host]; j < edges.of_host[host + 1]; j++)
				tree->shared[edges.switches[j]]++;
		for (uint32_t i = edges.of_switch[at]; i < edges.of_switch[at + 1]; i++)
			for (uint32_t host = edges.hosts[i], j = edges.of_host[host]; j < edges.of_host[host + 1];
			     j++) {
				uint32_t other = edges.switches[j], common = tree->shared[other];
				uint32_t others = edges.of_switch[other + 1] - edges.of_switch[other];

				if (common && are_one_leaf(tree, at, hosts, other, others, common))
					join(tree, at, other);
				tree->shared[other] = 0;
			}
	}
	sys_free(edges.arrays);
	return r;
}

static const char *name_of(const struct wiring_tree *tree, uint32_t machine)
{
	return tree->wiring->machines[machine].name;
}

/* Of one part alone: what is not known, the sum is not. */
static void add_rate(uint64_t *sum_Bps, bool first, uint64_t rate_Bps)
{
	uint64_t sum = first ? rate_Bps : *sum_Bps + rate_Bps;

	*sum_Bps = rate_Bps && (first || *sum_Bps) ? (sum < WIRING_RATE_MAX ? sum : WIRING_RATE_MAX) : 0;
}

static int refuse_host(const struct wiring_tree *tree, uint32_t host, uint32_t at, size_t others)
{
	char more[48] = "";

	if (others)
		snprintf(more, sizeof(more), " (and so are %zu more)", others);
	diag_set(tree->diag, 0, 0,
		 "the host %.60s is on the switches %.60s and %.60s, which have other hosts too, and not the same%s: "
		 "leave out what is not for training, --exclude NAME[,NAME], be it a switch or, where a cable is in "
		 "the wrong place, the host",
		 name_of(tree, host), name_of(tree, tree->leaf[host]), name_of(tree, at), more);
	return -EINVAL;
}

static int place_hosts(struct wiring_tree *tree)
{
	uint32_t odd = WIRING_NONE, odd_at = WIRING_NONE, last = WIRING_NONE;
	size_t odd_count = 0;
	bool any = false;

	for (size_t i = 0; i < tree->pairs.count; i++) {
		const struct wiring_pair *pair = &tree->pairs.at[i];
		uint32_t host, at;

		if (!wiring_pair_of_host(tree->wiring, pair, &host, &at))
			continue;
		any = true;
		if (tree->leaf[host] != WIRING_NONE &&
		    wiring_group_of(tree->group, tree->leaf[host]) != wiring_group_of(tree->group, at) &&
		    !(tree->upper[at] && tree->upper[tree->leaf[host]])) {
			odd_count += host != last;
			last = host;
			if (odd == WIRING_NONE) {
				odd = host;
				odd_at = at;
			}
			continue;
		}
		add_rate(&tree->host_rate_Bps[host], tree->leaf[host] == WIRING_NONE, pair->rate_Bps);
		tree->leaf[host] = at;
	}
	if (odd != WIRING_NONE)
		return refuse_host(tree, odd, odd_at, odd_count - 1);
	if (any)
		return 0;
	if (tree->wiring->excluded_all) {
		diag_set(tree->diag, 0, 0, "--exclude leaves no host on a switch");
		return -EINVAL;
	}
	diag_set(tree->diag, 0, 0,
		 "nothing in it says which host is on which switch: adapters (InfiniBand) and neighbours (LLDP) must "
		 "have "
		 "their hosts' names, and what a switch hears by LLDP is given as {\"switch\": NAME, \"lldp\": ...}");
	return -EINVAL;
}

/* ------------------------------------------------------------------------------------------------------------ levels */

static bool two_switches(const struct wiring_tree *tree, const struct wiring_pair *pair)
{
	return wiring_is(tree->wiring, pair->a, WIRING_SWITCH) && wiring_is(tree->wiring, pair->b, WIRING_SWITCH);
}

/* Switches that are next to one of this level and to none before: the next one. */
static bool next_level(struct wiring_tree *tree, uint32_t level)
{
	bool any = false;

	for (size_t i = 0; i < tree->pairs.count; i++) {
		const struct wiring_pair *pair = &tree->pairs.at[i];

		for (int end = 0; end < 2 && two_switches(tree, pair); end++) {
			uint32_t below = end ? pair->b : pair->a, above = end ? pair->a : pair->b;

			if (tree->level[below] != level || tree->level[above] <= level)
				continue;
			tree->level[above] = level + 1;
			any = true;
		}
	}
	return any;
}

/* A pair of switches with `below` one level under `above`. */
static bool goes_up(const struct wiring_tree *tree, const struct wiring_pair *pair, uint32_t *ret_below,
		    uint32_t *ret_above)
{
	if (!two_switches(tree, pair) || tree->level[pair->a] == WIRING_NONE || tree->level[pair->b] == WIRING_NONE)
		return false;
	*ret_below = tree->level[pair->a] < tree->level[pair->b] ? pair->a : pair->b;
	*ret_above = *ret_below == pair->a ? pair->b : pair->a;
	return tree->level[*ret_below] + 1 == tree->level[*ret_above];
}

static void find_levels(struct wiring_tree *tree)
{
	for (uint32_t i = 0; i < tree->wiring->machine_count; i++)
		if (tree->level[i])
			tree->level[i] = WIRING_NONE;
	tree->top = 0;
	for (uint32_t level = 0; next_level(tree, level); level++)
		tree->top = level + 1;
}

/* Cables upwards that are far slower than the switch's fastest to another switch: the way to a management switch. */
static bool drop_slow(struct wiring_tree *tree)
{
	size_t kept = 0, count = tree->pairs.count;

	memset(tree->cable_Bps, 0, tree->wiring->machine_count * sizeof(*tree->cable_Bps));
	for (size_t i = 0; i < count; i++) {
		const struct wiring_pair *pair = &tree->pairs.at[i];

		for (int end = 0; end < 2 && two_switches(tree, pair); end++) {
			uint64_t *fastest_Bps = &tree->cable_Bps[end ? pair->b : pair->a];

			*fastest_Bps = pair->cable_Bps > *fastest_Bps ? pair->cable_Bps : *fastest_Bps;
		}
	}
	for (size_t i = 0; i < count; i++) {
		const struct wiring_pair *pair = &tree->pairs.at[i];
		uint32_t below, above;
		bool slow = goes_up(tree, pair, &below, &above) && pair->cable_Bps &&
			    pair->cable_Bps < tree->cable_Bps[below] / WIRING_SLOW_PART;

		if (!slow)
			tree->pairs.at[kept++] = *pair;
	}
	tree->pairs.count = kept;
	return kept < count;
}

/*
 * Every group has one group above it. From below: what a group is cabled to one level up becomes one, so that the groups
 * of a level are done when the next one looks at them.
 */
static void join_above(struct wiring_tree *tree)
{
	memcpy(tree->group, tree->leaf_group, tree->wiring->machine_count * sizeof(*tree->group));
	for (uint32_t i = 0; i < tree->wiring->machine_count; i++)
		tree->parent[i] = WIRING_NONE;
	for (uint32_t level = 0; level < tree->top; level++)
		for (size_t i = 0; i < tree->pairs.count; i++) {
			uint32_t below, above, group;

			if (!goes_up(tree, &tree->pairs.at[i], &below, &above) || tree->level[below] != level)
				continue;
			group = wiring_group_of(tree->group, below);
			if (tree->parent[group] == WIRING_NONE)
				tree->parent[group] = above;
			else
				join(tree, tree->parent[group], above);
		}
}

/* Of each switch above the leaves, the one group of others that it is cabled to, or MANY; WIRING_NONE: none. */
static void find_neighbours(const struct wiring_tree *tree, uint32_t *only)
{
	for (uint32_t i = 0; i < tree->wiring->machine_count; i++)
		only[i] = WIRING_NONE;
	for (size_t i = 0; i < tree->pairs.count; i++) {
		const struct wiring_pair *pair = &tree->pairs.at[i];

		for (int end = 0; end < 2 && two_switches(tree, pair); end++) {
			uint32_t at = end ? pair->b : pair->a,
				 other = wiring_group_of(tree->group, end ? pair->a : pair->b);

			if (other != wiring_group_of(tree->group, at))
				only[at] = only[at] == WIRING_NONE || only[at] == other ? other : MANY;
		}
	}
}

/*
 * A switch without hosts that is cabled to one group alone leads nowhere: a leaf whose hosts are left out, a core above one
 * pod, a router. It would else count as a level, or as a part of the one that does lead somewhere. A leaf keeps what is
 * above it where that is all it has.
 */
static bool leave_dead_ends(struct wiring_tree *tree)
{
	uint32_t *only = tree->first; /* not used yet */
	bool any = false, more = true;

	for (int pass = 0; more && pass < PASSES_MAX; pass++) {
		more = false;
		find_neighbours(tree, only);
		memset(tree->between, 0, tree->wiring->machine_count * sizeof(*tree->between));
		for (size_t i = 0; i < tree->pairs.count; i++) {
			uint32_t below, above;

			if (goes_up(tree, &tree->pairs.at[i], &below, &above) && only[above] == MANY)
				tree->between[wiring_group_of(tree->group, below)] = true;
		}
		for (uint32_t i = 0; i < tree->wiring->machine_count; i++) {
			uint32_t level = tree->level[i];

			if (!wiring_is(tree->wiring, i, WIRING_SWITCH) || tree->upper[i] || !level ||
			    level == WIRING_NONE || only[i] == MANY || only[i] == WIRING_NONE ||
			    (level == 1 && !tree->between[only[i]]))
				continue;
			tree->wiring->machines[i].kind = WIRING_LEFT_OUT;
			any = more = true;
		}
		wiring_pairs_prune(tree->wiring, &tree->pairs);
	}
	memset(tree->between, 0, tree->wiring->machine_count * sizeof(*tree->between));
	for (uint32_t i = 0; i < tree->wiring->machine_count; i++)
		only[i] = WIRING_NONE;
	return any;
}

static void find_tree(struct wiring_tree *tree)
{
	memcpy(tree->leaf_group, tree->group, tree->wiring->machine_count * sizeof(*tree->group));
	for (int pass = 0;; pass++) {
		find_levels(tree);
		for (int slow = 0; slow < PASSES_MAX && drop_slow(tree); slow++)
			find_levels(tree);
		join_above(tree);
		if (pass == PASSES_MAX || !leave_dead_ends(tree))
			break;
	}
}

/* tree->shared: has the group been given a rate. */
static void add_uplinks(struct wiring_tree *tree)
{
	for (size_t i = 0; i < tree->pairs.count; i++) {
		uint32_t below, above;

		if (!goes_up(tree, &tree->pairs.at[i], &below, &above))
			continue;
		below = wiring_group_of(tree->group, below);
		add_rate(&tree->up_rate_Bps[below], !tree->shared[below], tree->pairs.at[i].rate_Bps);
		tree->shared[below] = 1;
	}
	/* Cabled to others of their level, and to nothing above. */
	for (size_t i = 0; i < tree->pairs.count; i++) {
		const struct wiring_pair *pair = &tree->pairs.at[i];
		uint32_t a, b;

		if (!two_switches(tree, pair) || tree->level[pair->a] != tree->level[pair->b])
			continue;
		a = wiring_group_of(tree->group, pair->a);
		b = wiring_group_of(tree->group, pair->b);
		if (a == b || tree->level[a] == WIRING_NONE || tree->parent[a] != WIRING_NONE ||
		    tree->parent[b] != WIRING_NONE)
			continue;
		for (int end = 0; end < 2; end++) {
			uint32_t group = end ? b : a;

			add_rate(&tree->up_rate_Bps[group], !tree->shared[group], pair->rate_Bps);
			tree->shared[group] = 1;
			tree->between[group] = true;
		}
	}
}

/* -------------------------------------------------------------------------------------------------------------- text */

static void name_groups(struct wiring_tree *tree)
{
	for (uint32_t i = 0; i < tree->wiring->machine_count; i++) {
		uint32_t group;

		if (!wiring_is(tree->wiring, i, WIRING_SWITCH))
			continue;
		group = wiring_group_of(tree->group, i);
		if (tree->first[group] == WIRING_NONE ||
		    strverscmp(name_of(tree, i), name_of(tree, tree->first[group])) < 0)
			tree->first[group] = i;
		if (tree->last[group] == WIRING_NONE ||
		    strverscmp(name_of(tree, i), name_of(tree, tree->last[group])) > 0)
			tree->last[group] = i;
	}
}

static void put_group(const struct wiring_tree *tree, uint32_t group, FILE *out)
{
	fputs(name_of(tree, tree->first[group]), out);
	if (tree->first[group] != tree->last[group])
		fprintf(out, "..%.40s", name_of(tree, tree->last[group]));
}

static void put_rate(const char *key, uint64_t rate_Bps, FILE *out)
{
	if (rate_Bps)
		fprintf(out, " %s=%" PRIu64, key, rate_Bps < WIRING_RATE_MAX ? rate_Bps : WIRING_RATE_MAX);
}

static void put_switches(const struct wiring_tree *tree, FILE *out)
{
	bool between = false;

	for (size_t i = 0; i < tree->wiring->machine_count; i++)
		between = between || tree->between[i];
	if (between)
		fputs("switch between\n", out);
	for (uint32_t level = tree->top + 1; level-- > 0;)
		for (uint32_t i = 0; i < tree->wiring->machine_count; i++) {
			if (!wiring_is(tree->wiring, i, WIRING_SWITCH) || tree->level[i] != level ||
			    wiring_group_of(tree->group, i) != i)
				continue;
			fputs("switch ", out);
			put_group(tree, i, out);
			if (tree->parent[i] != WIRING_NONE) {
				fputs(" parent=", out);
				put_group(tree, wiring_group_of(tree->group, tree->parent[i]), out);
			} else if (tree->between[i]) {
				fputs(" parent=between", out);
			}
			if (tree->parent[i] != WIRING_NONE || tree->between[i])
				put_rate("rate", tree->up_rate_Bps[i], out);
			fputc('\n', out);
		}
}

static void put_text(const struct wiring_tree *tree, FILE *out)
{
	fputs("tributary-cluster 1\n", out);
	put_switches(tree, out);
	for (uint32_t i = 0; i < tree->wiring->machine_count; i++) {
		if (tree->leaf[i] == WIRING_NONE)
			continue;
		fprintf(out, "host %s leaf=", name_of(tree, i));
		put_group(tree, wiring_group_of(tree->group, tree->leaf[i]), out);
		put_rate("rate", tree->host_rate_Bps[i], out);
		fputc('\n', out);
	}
}

/* Our own reader checks and orders it. */
static int read_back(const struct wiring_tree *tree, struct cluster **ret)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	struct diag diag = { 0 };
	int r;

	if (!out)
		return -ENOMEM;
	put_text(tree, out);
	r = fclose(out) ? -ENOMEM : cluster_read(text, bytes, ret, &diag);
	if (r == -EINVAL)
		diag_set(tree->diag, 0, 0, "%s", diag.text);
	free(text);
	return r;
}

/* -------------------------------------------------------------------------------------------------------------- whole */

static int tree_init(struct wiring_tree *tree)
{
	size_t room = tree->wiring->machine_count + 1;

	tree->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(tree->group, room), SYS_ARRAY(tree->leaf_group, room),
				      SYS_ARRAY(tree->level, room), SYS_ARRAY(tree->leaf, room),
				      SYS_ARRAY(tree->parent, room), SYS_ARRAY(tree->first, room),
				      SYS_ARRAY(tree->last, room), SYS_ARRAY(tree->shared, room),
				      SYS_ARRAY(tree->host_rate_Bps, room), SYS_ARRAY(tree->up_rate_Bps, room),
				      SYS_ARRAY(tree->cable_Bps, room), SYS_ARRAY(tree->between, room),
				      SYS_ARRAY(tree->upper, room) },
		13);
	if (!tree->arrays)
		return -ENOMEM;
	for (uint32_t i = 0; i < room; i++) {
		tree->group[i] = i;
		tree->level[i] = tree->leaf[i] = tree->parent[i] = tree->first[i] = tree->last[i] = WIRING_NONE;
	}
	return 0;
}

int wiring_cluster(struct wiring *wiring, const struct wiring_options *options, struct cluster **ret, struct diag *diag)
{
	struct wiring_tree tree = { .wiring = wiring, .diag = diag };
	int r = wiring_name_apart(wiring);

	if (r == 0)
		r = wiring_leave_out(wiring, options->exclude, &tree.pairs);
	if (r == 0)
		r = tree_init(&tree);
	if (r == 0)
		r = wiring_find_upper(wiring, &tree.pairs, tree.upper);
	if (r == 0)
		r = join_leaves(&tree);
	if (r == 0)
		r = place_hosts(&tree);
	if (r == 0)
		r = wiring_note_hosts(&tree);
	if (r == 0) {
		find_tree(&tree);
		r = wiring_note_unknown(&tree);
	}
	if (r == 0) {
		add_uplinks(&tree);
		name_groups(&tree);
		r = read_back(&tree, ret);
	}
	sys_free(tree.pairs.at);
	sys_free(tree.arrays);
	return r;
}
