/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Slurm's files share: a switch names those below it. A file that lists every cable has a switch below several others (core
 * switches, spines): those are one level of the tree, and so one switch of it, as what LLDP and ibnetdiscover say is read.
 * The same is so of leaves that have the same hosts: the rails of one group.
 */
#include "cluster/text.h"

#include "base/hash.h"
#include "base/sys.h"
#include "topology/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMINGS_MAX = 16 * CLUSTER_SWITCHES_MAX };

struct naming {
	int parent, child; /* switches of the draft; child: once it is joined */
	size_t name;       /* of the child: offset in the draft's names */
	struct cluster_word where;
};

struct list_of_children {
	struct cluster_namings *namings;
	struct cluster_draft *draft;
	const struct cluster_word *list;
	int parent;
};

static int take_child(void *arg, const char *name, size_t bytes)
{
	const struct list_of_children *of = arg;
	struct cluster_namings *namings = of->namings;
	struct naming naming = { .parent = of->parent, .where = *of->list };
	int r;

	if (namings->count == NAMINGS_MAX)
		return cluster_fail(of->draft->diag, of->list, "more than %d times a switch is named as below another",
				    NAMINGS_MAX);
	r = cluster_draft_keep_name(of->draft, name, bytes, &naming.name);
	if (r == 0)
		r = sys_grow(&namings->at, namings->count, 1, sizeof(*namings->at));
	if (r == 0)
		namings->at[namings->count++] = naming;
	return r;
}

int cluster_namings_add(struct cluster_namings *namings, struct cluster_draft *draft, int parent,
			const struct cluster_word *list)
{
	struct list_of_children of = { namings, draft, list, parent };

	return cluster_expand(list, "a switch", draft->diag, take_child, &of);
}

int cluster_slurm_nodes(struct cluster_draft *draft, const struct cluster_word *list, int leaf)
{
	if (cluster_word_is(list, "ALL", true))
		return cluster_fail(draft->diag, list,
				    "ALL is every node of slurm.conf, whose names this file does not have: write them "
				    "as a list (`sinfo -ho %%N` prints it)");
	return cluster_draft_hosts(draft, list, leaf, 0);
}

void cluster_namings_fini(struct cluster_namings *namings)
{
	sys_free(namings->at);
}

/* ------------------------------------------------------------------------------------------------------------ groups */

struct groups {
	struct cluster_draft *draft;
	const struct cluster_namings *namings;
	int of[CLUSTER_SWITCHES_MAX];     /* the first switch of a group stands for it */
	int height[CLUSTER_SWITCHES_MAX]; /* of a group: levels below it at most */
	int lowest[CLUSTER_SWITCHES_MAX]; /* of a group: the height of the lowest above it */
	int number[CLUSTER_SWITCHES_MAX]; /* of a group that stays a switch */
	struct {
		uint64_t hosts, hash;
	} leaf[CLUSTER_SWITCHES_MAX];
};

static int group_of(const struct groups *groups, int at)
{
	while (groups->of[at] != at)
		at = groups->of[at];
	return at;
}

static void join(struct groups *groups, int a, int b)
{
	int first = group_of(groups, a), second = group_of(groups, b);

	groups->of[first > second ? first : second] = first < second ? first : second;
}

static const char *name_at(const struct cluster_draft *draft, size_t offset)
{
	return draft->names + offset;
}

static int compare_hosts(const void *a, const void *b, void *arg)
{
	const struct draft_host *first = a, *second = b;
	int order = strcmp(name_at(arg, first->name), name_at(arg, second->name));

	return order ? order : (first->leaf > second->leaf) - (first->leaf < second->leaf);
}

/* A host stays on the first of leaves that are joined; what else stands twice is cluster_draft_finish's to refuse. */
static void join_leaves(struct groups *groups)
{
	struct cluster_draft *draft = groups->draft;
	size_t kept = 0;

	qsort_r(draft->hosts, draft->host_count, sizeof(*draft->hosts), compare_hosts, draft);
	for (size_t i = 0; i < draft->host_count; i++) {
		const char *name = name_at(draft, draft->hosts[i].name);

		groups->leaf[draft->hosts[i].leaf].hosts++;
		groups->leaf[draft->hosts[i].leaf].hash += hash_bytes(HASH_START, name, strlen(name));
	}
	for (size_t i = 0; i < draft->host_count; i++) {
		const struct draft_host *last = kept ? &draft->hosts[kept - 1] : NULL, *at = &draft->hosts[i];

		if (last && last->leaf != at->leaf && !strcmp(name_at(draft, last->name), name_at(draft, at->name)) &&
		    !memcmp(&groups->leaf[last->leaf], &groups->leaf[at->leaf], sizeof(groups->leaf[0])))
			join(groups, last->leaf, at->leaf);
		else
			draft->hosts[kept++] = *at;
	}
	draft->host_count = kept;
}

static int find_children(const struct groups *groups)
{
	for (size_t i = 0; i < groups->namings->count; i++) {
		struct naming *naming = &groups->namings->at[i];
		const char *name = name_at(groups->draft, naming->name);

		naming->child = cluster_draft_find_switch(groups->draft, name, strlen(name));
		if (naming->child == CLUSTER_NONE)
			return cluster_fail(groups->draft->diag, &naming->where,
					    "the switch %.60s is named here and nowhere defined: add it, or take its "
					    "name out of this list",
					    name);
	}
	return 0;
}

/* Until nothing changes, which takes as many passes as there are levels; without end where switches go round in a circle. */
static int find_heights(struct groups *groups)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < groups->namings->count; i++) {
			const struct naming *naming = &groups->namings->at[i];
			int child = group_of(groups, naming->child), parent = group_of(groups, naming->parent);

			if (groups->height[parent] > groups->height[child])
				continue;
			groups->height[parent] = groups->height[child] + 1;
			more = true;
			if (parent == child || groups->height[parent] >= CLUSTER_SWITCHES_MAX)
				return cluster_fail(groups->draft->diag, &naming->where,
						    "the switch %s would be below itself: switches form a tree",
						    name_at(groups->draft, naming->name));
		}
	}
	return 0;
}

/*
 * From below, so that the groups of a height are done when what is above them is joined. Where switches of several heights
 * are above a group, those of the lowest are its parent; what is above these needs no cable of its own to count.
 */
static void join_parents(struct groups *groups)
{
	for (int height = 0, more = 1; more; height++) {
		more = 0;
		for (size_t i = 0; i < groups->draft->switch_count; i++)
			groups->lowest[i] = CLUSTER_SWITCHES_MAX;
		for (size_t i = 0; i < groups->namings->count; i++) {
			const struct naming *naming = &groups->namings->at[i];
			int child = group_of(groups, naming->child);
			int above = groups->height[group_of(groups, naming->parent)];

			more = more || groups->height[child] > height;
			if (groups->height[child] == height && above < groups->lowest[child])
				groups->lowest[child] = above;
		}
		for (size_t i = 0; i < groups->namings->count; i++) {
			const struct naming *naming = &groups->namings->at[i];
			int child = group_of(groups, naming->child), parent = group_of(groups, naming->parent);
			int *known = &groups->draft->switches[child].parent;

			if (groups->height[child] != height || groups->height[parent] != groups->lowest[child])
				continue;
			if (*known == CLUSTER_NONE)
				*known = parent;
			else
				join(groups, *known, parent);
		}
	}
}

/* ---------------------------------------------------------------------------------------------------------- switches */

/* "first..last" of the names, as wiring_tree.c names what it joins. */
static int name_group(struct groups *groups, int group)
{
	struct cluster_draft *draft = groups->draft;
	const char *first = NULL, *last = NULL;
	char name[CLUSTER_NAME_MAX + 1];
	int bytes;

	for (size_t i = 0; i < draft->switch_count; i++) {
		const char *at = name_at(draft, draft->switches[i].name);

		if (group_of(groups, (int)i) != group)
			continue;
		first = !first || topology_compare_names(at, first) < 0 ? at : first;
		last = !last || topology_compare_names(at, last) > 0 ? at : last;
	}
	if (first == last)
		return 0;
	bytes = snprintf(name, sizeof(name), "%s..%s", first, last);
	if (bytes >= (int)sizeof(name) || cluster_draft_find_switch(draft, name, (size_t)bytes) != CLUSTER_NONE)
		bytes = snprintf(name, sizeof(name), "%s", first);
	return cluster_draft_keep_name(draft, name, (size_t)bytes, &draft->switches[group].name);
}

/* What is not known of one, the sum is not. */
static uint64_t sum(uint64_t a_Bps, uint64_t b_Bps)
{
	if (!a_Bps || !b_Bps)
		return 0;
	return a_Bps + b_Bps < CLUSTER_RATE_MAX ? a_Bps + b_Bps : CLUSTER_RATE_MAX;
}

/* A group becomes one switch, with the links of all of it. */
static int make_one_of_each(struct groups *groups)
{
	struct cluster_draft *draft = groups->draft;
	int kept = 0, r = 0;

	for (size_t i = 0; r == 0 && i < draft->switch_count; i++)
		if (group_of(groups, (int)i) == (int)i)
			r = name_group(groups, (int)i);
	for (size_t i = 0; r == 0 && i < draft->switch_count; i++) {
		struct draft_switch *at = &draft->switches[i];
		int group = group_of(groups, (int)i);

		if (group == (int)i) {
			groups->number[i] = kept;
			draft->switches[kept++] = *at;
		} else {
			struct draft_switch *of = &draft->switches[groups->number[group]];

			of->up_rate_Bps = sum(of->up_rate_Bps, at->up_rate_Bps);
			of->down_rate_Bps = sum(of->down_rate_Bps, at->down_rate_Bps);
		}
	}
	if (r < 0)
		return r;
	for (int i = 0; i < kept; i++)
		if (draft->switches[i].parent != CLUSTER_NONE)
			draft->switches[i].parent = groups->number[group_of(groups, draft->switches[i].parent)];
	for (size_t i = 0; i < draft->host_count; i++)
		draft->hosts[i].leaf = groups->number[group_of(groups, draft->hosts[i].leaf)];
	draft->switch_count = (size_t)kept;
	return 0;
}

int cluster_namings_join(const struct cluster_namings *namings, struct cluster_draft *draft)
{
	struct groups *groups = sys_zalloc(sizeof(*groups));
	int r;

	if (!groups)
		return -ENOMEM;
	groups->draft = draft;
	groups->namings = namings;
	for (int i = 0; i < CLUSTER_SWITCHES_MAX; i++)
		groups->of[i] = i;
	r = find_children(groups);
	if (r == 0) {
		join_leaves(groups);
		r = find_heights(groups);
	}
	if (r == 0) {
		join_parents(groups);
		r = make_one_of_each(groups);
	}
	sys_free(groups);
	return r;
}
