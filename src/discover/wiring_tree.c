/* A tree of what is cabled: pairs of machines, groups of switches, levels. */
#include "discover/wiring_internal.h"

#include "base/log.h"
#include "base/sys.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOW_PART = 8 }; /* a link that much slower than the host's fastest is for other work */
#define RATE_MAX UINT64_C(1000000000000000)

struct pair { /* of two machines, a < b */
	uint32_t a, b;
	uint64_t rate_Bps; /* of all links between them; 0: not known */
	const char *label; /* of the first end's port */
};

struct tree {
	const struct wiring *wiring;
	struct diag *diag;
	struct pair *pairs;
	size_t pair_count;
	uint32_t *group;                       /* of each switch: the machine that stands for it; union-find */
	uint32_t *level;                       /* of each switch: 0 has hosts, WIRING_NONE: not reached */
	uint32_t *leaf;                        /* of each host: its group */
	uint32_t *parent;                      /* of each group */
	uint32_t *shared;                      /* of each switch: hosts in common with one other */
	uint32_t *first, *last;                /* of each group: its members by name */
	uint64_t *host_rate_Bps, *up_rate_Bps; /* 0: not known */
	bool *between;                         /* the group is below a switch that was put between leaves */
	uint32_t top;                          /* levels */
};

/* ------------------------------------------------------------------------------------------------------------- pairs */

static int compare_links(const void *a, const void *b)
{
	const struct wiring_link *first = *(const struct wiring_link *const *)a,
				 *second = *(const struct wiring_link *const *)b;
	uint32_t low1 = first->from < first->to ? first->from : first->to,
		 high1 = first->from < first->to ? first->to : first->from,
		 low2 = second->from < second->to ? second->from : second->to,
		 high2 = second->from < second->to ? second->to : second->from;

	if (low1 != low2)
		return low1 < low2 ? -1 : 1;
	if (high1 != high2)
		return high1 < high2 ? -1 : 1;
	if (first->from != second->from)
		return first->from < second->from ? -1 : 1;
	return (first > second) - (first < second);
}

/* The links of one end of a pair, of those that are sorted; *ret_count of them. */
static uint64_t end_rate(const struct wiring_link *const *links, size_t count, uint32_t from, size_t *ret_count)
{
	uint64_t sum = 0;
	bool known = true;

	*ret_count = 0;
	for (size_t i = 0; i < count; i++) {
		if (links[i]->from != from)
			continue;
		++*ret_count;
		known = known && links[i]->rate_Bps > 0;
		sum += links[i]->rate_Bps < RATE_MAX ? links[i]->rate_Bps : RATE_MAX;
	}
	return !known ? 0 : (sum < RATE_MAX ? sum : RATE_MAX);
}

static struct pair pair_of(const struct wiring_link *const *links, size_t count)
{
	uint32_t from = links[0]->from, to = links[0]->to;
	size_t forth, back;
	uint64_t forth_Bps = end_rate(links, count, from, &forth), back_Bps = end_rate(links, count, to, &back);
	struct pair pair = { from < to ? from : to, from < to ? to : from, 0, links[0]->label };

	if (forth != back)
		pair.rate_Bps = forth > back ? forth_Bps : back_Bps;
	else
		pair.rate_Bps = forth_Bps > back_Bps ? forth_Bps : back_Bps;
	return pair;
}

static bool is(const struct tree *tree, uint32_t machine, enum wiring_kind kind)
{
	return tree->wiring->machines[machine].kind == kind;
}

/* Of each host, the rate of its fastest link. */
static void find_fastest(const struct tree *tree, uint64_t *fastest_Bps)
{
	for (size_t i = 0; i < tree->wiring->link_count; i++) {
		const struct wiring_link *link = &tree->wiring->links[i];

		for (int end = 0; end < 2; end++) {
			uint32_t machine = end ? link->to : link->from;

			if (link->rate_Bps > fastest_Bps[machine])
				fastest_Bps[machine] = link->rate_Bps;
		}
	}
}

static bool counts(const struct tree *tree, const struct wiring_link *link, const uint64_t *fastest_Bps)
{
	if (link->from == link->to || is(tree, link->from, WIRING_UNKNOWN) || is(tree, link->to, WIRING_UNKNOWN))
		return false;
	for (int end = 0; end < 2; end++) {
		uint32_t machine = end ? link->to : link->from;

		if (is(tree, machine, WIRING_HOST) && link->rate_Bps &&
		    link->rate_Bps < fastest_Bps[machine] / SLOW_PART)
			return false;
	}
	return true;
}

static int make_pairs(struct tree *tree)
{
	const struct wiring *wiring = tree->wiring;
	const struct wiring_link **links = calloc(wiring->link_count + 1, sizeof(struct wiring_link *));
	uint64_t *fastest_Bps = calloc(wiring->machine_count + 1, sizeof(*fastest_Bps));
	size_t count = 0;

	tree->pairs = calloc(wiring->link_count + 1, sizeof(*tree->pairs));
	if (!links || !fastest_Bps || !tree->pairs) {
		free(links);
		free(fastest_Bps);
		return -ENOMEM;
	}
	find_fastest(tree, fastest_Bps);
	for (size_t i = 0; i < wiring->link_count; i++)
		if (counts(tree, &wiring->links[i], fastest_Bps))
			links[count++] = &wiring->links[i];
	qsort(links, count, sizeof(const struct wiring_link *), compare_links);
	for (size_t i = 0, next; i < count; i = next) {
		struct pair pair = pair_of(&links[i], 1);

		for (next = i + 1; next < count; next++) {
			struct pair other = pair_of(&links[next], 1);

			if (other.a != pair.a || other.b != pair.b)
				break;
		}
		tree->pairs[tree->pair_count++] = pair_of(&links[i], next - i);
	}
	free(links);
	free(fastest_Bps);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ groups */

static uint32_t group_of(const struct tree *tree, uint32_t machine)
{
	while (tree->group[machine] != machine) {
		tree->group[machine] = tree->group[tree->group[machine]];
		machine = tree->group[machine];
	}
	return machine;
}

static void join(struct tree *tree, uint32_t a, uint32_t b)
{
	uint32_t first = group_of(tree, a), second = group_of(tree, b);

	tree->group[first > second ? first : second] = first < second ? first : second;
}

/* The switch of a pair of a host and a switch, and the host; false: it is another kind of pair. */
static bool host_and_switch(const struct tree *tree, const struct pair *pair, uint32_t *ret_host, uint32_t *ret_switch)
{
	bool host_first = is(tree, pair->a, WIRING_HOST);

	*ret_host = host_first ? pair->a : pair->b;
	*ret_switch = host_first ? pair->b : pair->a;
	return is(tree, *ret_host, WIRING_HOST) && is(tree, *ret_switch, WIRING_SWITCH);
}

/* For each switch its hosts, for each host its switches: the pairs of hosts, in two orders. */
struct edges {
	uint32_t *of_host, *of_switch; /* first edge, by machine, and one more */
	uint32_t *switches, *hosts;    /* at the other end */
};

static void edges_fini(struct edges *edges)
{
	free(edges->of_host);
	free(edges->of_switch);
	free(edges->switches);
	free(edges->hosts);
}

static int edges_init(const struct tree *tree, struct edges *ret)
{
	size_t machines = tree->wiring->machine_count;

	ret->of_host = calloc(machines + 2, sizeof(uint32_t));
	ret->of_switch = calloc(machines + 2, sizeof(uint32_t));
	ret->switches = calloc(tree->pair_count + 1, sizeof(uint32_t));
	ret->hosts = calloc(tree->pair_count + 1, sizeof(uint32_t));
	if (!ret->of_host || !ret->of_switch || !ret->switches || !ret->hosts)
		return -ENOMEM;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < tree->pair_count; i++) {
			uint32_t host, at;

			if (!host_and_switch(tree, &tree->pairs[i], &host, &at))
				continue;
			if (!pass) {
				ret->of_host[host + 2]++;
				ret->of_switch[at + 2]++;
			} else {
				ret->switches[ret->of_host[host + 1]++] = at;
				ret->hosts[ret->of_switch[at + 1]++] = host;
			}
		}
		for (size_t i = 0; !pass && i < machines; i++) {
			ret->of_host[i + 2] += ret->of_host[i + 1];
			ret->of_switch[i + 2] += ret->of_switch[i + 1];
		}
	}
	return 0;
}

/* Leaves that have more than half of the hosts of either in common. */
static int join_leaves(struct tree *tree)
{
	struct edges edges = { 0 };
	int r = edges_init(tree, &edges);

	for (uint32_t at = 0; r == 0 && at < tree->wiring->machine_count; at++) {
		uint32_t hosts = edges.of_switch[at + 1] - edges.of_switch[at];

		if (!hosts)
			continue;
		tree->level[at] = 0;
		for (uint32_t i = edges.of_switch[at]; i < edges.of_switch[at + 1]; i++)
			for (uint32_t host = edges.hosts[i], j = edges.of_host[host]; j < edges.of_host[host + 1]; j++)
				tree->shared[edges.switches[j]]++;
		for (uint32_t i = edges.of_switch[at]; i < edges.of_switch[at + 1]; i++)
			for (uint32_t host = edges.hosts[i], j = edges.of_host[host]; j < edges.of_host[host + 1];
			     j++) {
				uint32_t other = edges.switches[j], common = tree->shared[other];
				uint32_t either = hosts + edges.of_switch[other + 1] - edges.of_switch[other] - common;

				if (common && 2 * common > either)
					join(tree, at, other);
				tree->shared[other] = 0;
			}
	}
	edges_fini(&edges);
	return r;
}

static const char *name_of(const struct tree *tree, uint32_t machine)
{
	return tree->wiring->machines[machine].name;
}

/* Of one part alone: what is not known, the sum is not. */
static void add_rate(uint64_t *sum_Bps, bool first, uint64_t rate_Bps)
{
	uint64_t sum = first ? rate_Bps : *sum_Bps + rate_Bps;

	*sum_Bps = rate_Bps && (first || *sum_Bps) ? (sum < RATE_MAX ? sum : RATE_MAX) : 0;
}

static int place_hosts(struct tree *tree)
{
	bool any = false;

	for (size_t i = 0; i < tree->pair_count; i++) {
		const struct pair *pair = &tree->pairs[i];
		uint32_t host, at, group;

		if (!host_and_switch(tree, pair, &host, &at))
			continue;
		group = group_of(tree, at);
		if (tree->leaf[host] != WIRING_NONE && group_of(tree, tree->leaf[host]) != group) {
			diag_set(tree->diag, 0, 0,
				 "the host %.60s is on the switches %.60s and %.60s, which have other hosts too, and "
				 "not "
				 "the same: leave out what is not for training",
				 name_of(tree, host), name_of(tree, tree->leaf[host]), name_of(tree, at));
			return -EINVAL;
		}
		add_rate(&tree->host_rate_Bps[host], tree->leaf[host] == WIRING_NONE, pair->rate_Bps);
		tree->leaf[host] = at;
		any = true;
	}
	if (any)
		return 0;
	diag_set(tree->diag, 0, 0, "nothing in it says which host is on which switch");
	return -EINVAL;
}

/* ------------------------------------------------------------------------------------------------------------ levels */

static bool two_switches(const struct tree *tree, const struct pair *pair)
{
	return is(tree, pair->a, WIRING_SWITCH) && is(tree, pair->b, WIRING_SWITCH);
}

/* Switches that are next to one of this level and to none before: the next one. */
static bool next_level(struct tree *tree, uint32_t level)
{
	bool any = false;

	for (size_t i = 0; i < tree->pair_count; i++) {
		const struct pair *pair = &tree->pairs[i];

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
static bool goes_up(const struct tree *tree, const struct pair *pair, uint32_t *ret_below, uint32_t *ret_above)
{
	if (!two_switches(tree, pair) || tree->level[pair->a] == WIRING_NONE || tree->level[pair->b] == WIRING_NONE)
		return false;
	*ret_below = tree->level[pair->a] < tree->level[pair->b] ? pair->a : pair->b;
	*ret_above = *ret_below == pair->a ? pair->b : pair->a;
	return tree->level[*ret_below] + 1 == tree->level[*ret_above];
}

/*
 * Every group has one group above it. From below: what a group is cabled to one level up becomes one, so that the groups
 * of a level are done when the next one looks at them.
 */
static void join_above(struct tree *tree)
{
	for (uint32_t level = 0; next_level(tree, level); level++)
		tree->top = level + 1;
	for (uint32_t level = 0; level < tree->top; level++)
		for (size_t i = 0; i < tree->pair_count; i++) {
			uint32_t below, above, group;

			if (!goes_up(tree, &tree->pairs[i], &below, &above) || tree->level[below] != level)
				continue;
			group = group_of(tree, below);
			if (tree->parent[group] == WIRING_NONE)
				tree->parent[group] = above;
			else
				join(tree, tree->parent[group], above);
		}
}

/* tree->shared: has the group been given a rate. */
static void add_uplinks(struct tree *tree)
{
	for (size_t i = 0; i < tree->pair_count; i++) {
		uint32_t below, above;

		if (!goes_up(tree, &tree->pairs[i], &below, &above))
			continue;
		below = group_of(tree, below);
		add_rate(&tree->up_rate_Bps[below], !tree->shared[below], tree->pairs[i].rate_Bps);
		tree->shared[below] = 1;
	}
	/* Cabled to others of their level, and to nothing above. */
	for (size_t i = 0; i < tree->pair_count; i++) {
		const struct pair *pair = &tree->pairs[i];
		uint32_t a, b;

		if (!two_switches(tree, pair) || tree->level[pair->a] != tree->level[pair->b])
			continue;
		a = group_of(tree, pair->a);
		b = group_of(tree, pair->b);
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

static void name_groups(struct tree *tree)
{
	for (uint32_t i = 0; i < tree->wiring->machine_count; i++) {
		uint32_t group;

		if (!is(tree, i, WIRING_SWITCH))
			continue;
		group = group_of(tree, i);
		if (tree->first[group] == WIRING_NONE ||
		    strverscmp(name_of(tree, i), name_of(tree, tree->first[group])) < 0)
			tree->first[group] = i;
		if (tree->last[group] == WIRING_NONE ||
		    strverscmp(name_of(tree, i), name_of(tree, tree->last[group])) > 0)
			tree->last[group] = i;
	}
}

static void put_group(const struct tree *tree, uint32_t group, FILE *out)
{
	fputs(name_of(tree, tree->first[group]), out);
	if (tree->first[group] != tree->last[group])
		fprintf(out, "..%.40s", name_of(tree, tree->last[group]));
}

static void put_rate(const char *key, uint64_t rate_Bps, FILE *out)
{
	if (rate_Bps)
		fprintf(out, " %s=%" PRIu64, key, rate_Bps < RATE_MAX ? rate_Bps : RATE_MAX);
}

static void put_switches(const struct tree *tree, FILE *out)
{
	bool between = false;

	for (size_t i = 0; i < tree->wiring->machine_count; i++)
		between = between || tree->between[i];
	if (between)
		fputs("switch between\n", out);
	for (uint32_t level = tree->top + 1; level-- > 0;)
		for (uint32_t i = 0; i < tree->wiring->machine_count; i++) {
			if (!is(tree, i, WIRING_SWITCH) || tree->level[i] != level || group_of(tree, i) != i)
				continue;
			fputs("switch ", out);
			put_group(tree, i, out);
			if (tree->parent[i] != WIRING_NONE) {
				fputs(" parent=", out);
				put_group(tree, group_of(tree, tree->parent[i]), out);
			} else if (tree->between[i]) {
				fputs(" parent=between", out);
			}
			if (tree->parent[i] != WIRING_NONE || tree->between[i])
				put_rate("rate", tree->up_rate_Bps[i], out);
			fputc('\n', out);
		}
}

static void put_text(const struct tree *tree, FILE *out)
{
	fputs("tributary-cluster 1\n", out);
	put_switches(tree, out);
	for (uint32_t i = 0; i < tree->wiring->machine_count; i++) {
		if (tree->leaf[i] == WIRING_NONE)
			continue;
		fprintf(out, "host %s leaf=", name_of(tree, i));
		put_group(tree, group_of(tree, tree->leaf[i]), out);
		put_rate("rate", tree->host_rate_Bps[i], out);
		fputc('\n', out);
	}
}

/* Our own reader checks and orders it. */
static int read_back(const struct tree *tree, struct cluster **ret)
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

static void tree_fini(struct tree *tree)
{
	free(tree->pairs);
	free(tree->group);
	free(tree->level);
	free(tree->leaf);
	free(tree->parent);
	free(tree->shared);
	free(tree->first);
	free(tree->last);
	free(tree->host_rate_Bps);
	free(tree->up_rate_Bps);
	free(tree->between);
}

static int tree_init(struct tree *tree)
{
	size_t room = tree->wiring->machine_count + 1;
	uint32_t **const tables[] = { &tree->group, &tree->level, &tree->leaf,  &tree->parent,
				      &tree->first, &tree->last,  &tree->shared };

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		*tables[i] = calloc(room, sizeof(uint32_t));
		if (!*tables[i])
			return -ENOMEM;
	}
	tree->host_rate_Bps = calloc(room, sizeof(uint64_t));
	tree->up_rate_Bps = calloc(room, sizeof(uint64_t));
	tree->between = calloc(room, sizeof(bool));
	if (!tree->host_rate_Bps || !tree->up_rate_Bps || !tree->between)
		return -ENOMEM;
	for (uint32_t i = 0; i < room; i++) {
		tree->group[i] = i;
		tree->level[i] = tree->leaf[i] = tree->parent[i] = tree->first[i] = tree->last[i] = WIRING_NONE;
	}
	return make_pairs(tree);
}

static int compare_names(const void *a, const void *b)
{
	const struct wiring_machine *first = *(struct wiring_machine *const *)a,
				    *second = *(struct wiring_machine *const *)b;

	return strcmp(first->name, second->name);
}

/* Switches that nobody gave a name are all called what their maker calls them: they go by their keys. */
static int name_apart(struct wiring *wiring)
{
	struct wiring_machine **sorted = calloc(wiring->machine_count + 1, sizeof(struct wiring_machine *));
	size_t count = 0;
	int r = sorted ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < wiring->machine_count; i++)
		if (wiring->machines[i].kind == WIRING_SWITCH)
			sorted[count++] = &wiring->machines[i];
	if (count)
		qsort(sorted, count, sizeof(struct wiring_machine *), compare_names);
	for (size_t i = 0, next; r == 0 && i < count; i = next) {
		for (next = i + 1; next < count && !strcmp(sorted[i]->name, sorted[next]->name);)
			next++;
		for (size_t j = i; r == 0 && next > i + 1 && j < next; j++) {
			char *name = wiring_clean_name(sorted[j]->key);

			if (!name) {
				r = -ENOMEM;
				break;
			}
			free(sorted[j]->name);
			sorted[j]->name = name;
		}
	}
	free(sorted);
	return r;
}

int wiring_cluster(struct wiring *wiring, struct cluster **ret, struct diag *diag)
{
	struct tree tree = { .wiring = wiring, .diag = diag };
	int r = name_apart(wiring);

	if (r == 0)
		r = tree_init(&tree);

	if (r == 0)
		r = join_leaves(&tree);
	if (r == 0)
		r = place_hosts(&tree);
	if (r == 0) {
		join_above(&tree);
		add_uplinks(&tree);
		name_groups(&tree);
		r = read_back(&tree, ret);
	}
	tree_fini(&tree);
	return r;
}
