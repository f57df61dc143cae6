/* SPDX-License-Identifier: Apache-2.0 */
/* What a user should know of what was left out, and of what was kept and may not belong. */
#include "cluster/read/wiring.h"

#include <errno.h>
#include <stdlib.h>

static const char *tree_name(const struct wiring_tree *tree, uint32_t machine)
{
	return tree->wiring->machines[machine].name;
}

static void note_machines(struct wiring_tree *tree, const uint32_t *machines, size_t count, const char *what)
{
	char list[WIRING_LIST_BYTES];

	if (!count)
		return;
	wiring_list(tree->wiring, machines, count, list);
	wiring_note(tree->wiring, "%s: %s", list, what);
}

/* Where rails are one leaf, hosts that are not on all of them; it says on which they are, if that is one for all. */
static void note_fewer(struct wiring_tree *tree, const uint32_t *hosts, size_t count, const uint32_t *switches)
{
	char what[WIRING_LIST_BYTES];
	const char *at = count ? tree_name(tree, tree->leaf[hosts[0]]) : "";
	bool same = true;

	for (size_t i = 0; i < count; i++)
		same = same && switches[hosts[i]] == 1 && tree->leaf[hosts[i]] == tree->leaf[hosts[0]];
	snprintf(what, sizeof(what),
		 "on %s%.60s, where other hosts of the leaf are on more switches.  A cable or an adapter's name is "
		 "missing, or a switch of the leaf is for storage: --exclude %.60s leaves it out",
		 same ? "" : "few switches like ", at, same ? at : "SWITCH");
	note_machines(tree, hosts, count, what);
}

int wiring_note_hosts(struct wiring_tree *tree)
{
	size_t room = tree->wiring->machine_count + 1, lost_count = 0, fewer_count = 0, storage_count = 0;
	uint32_t *switches = calloc(5 * room, sizeof(*switches)), *most, *lost, *fewer, *storage;

	if (!switches)
		return -ENOMEM;
	most = switches + room;
	lost = most + room;
	fewer = lost + room;
	storage = fewer + room;
	for (size_t i = 0; i < tree->pairs.count; i++) {
		uint32_t host, at;

		if (!wiring_pair_of_host(tree->wiring, &tree->pairs.at[i], &host, &at))
			continue;
		at = wiring_group_of(tree->group, at);
		if (++switches[host] > most[at])
			most[at] = switches[host];
	}
	for (uint32_t i = 0; i < tree->wiring->machine_count; i++) {
		uint32_t leaf = tree->leaf[i];

		if (leaf == WIRING_NONE && wiring_is(tree->wiring, i, WIRING_HOST))
			lost[lost_count++] = i;
		else if (leaf != WIRING_NONE && wiring_named_for_storage(tree_name(tree, i)))
			storage[storage_count++] = i;
		else if (leaf != WIRING_NONE && !tree->upper[leaf] &&
			 switches[i] < most[wiring_group_of(tree->group, leaf)])
			fewer[fewer_count++] = i;
	}
	note_machines(tree, lost, lost_count, "left out, on no switch that counts");
	note_fewer(tree, fewer, fewer_count, switches);
	note_machines(tree, storage, storage_count,
		      "by their names servers for storage, counted as hosts: --exclude leaves them out");
	free(switches);
	return 0;
}

int wiring_note_unknown(struct wiring_tree *tree)
{
	size_t room = tree->wiring->machine_count + 1, count = 0;
	uint32_t *known = calloc(3 * room, sizeof(*known)), *group_known, *list;

	if (!known)
		return -ENOMEM;
	group_known = known + room;
	list = group_known + room;
	for (size_t i = 0; i < tree->pairs.count; i++)
		for (int end = 0; end < 2; end++) {
			const struct wiring_pair *pair = &tree->pairs.at[i];
			uint32_t at = end ? pair->b : pair->a;

			if (!pair->cable_Bps || !wiring_is(tree->wiring, at, WIRING_SWITCH))
				continue;
			known[at]++;
			group_known[wiring_group_of(tree->group, at)]++;
		}
	for (uint32_t i = 0; i < tree->wiring->machine_count; i++)
		if (wiring_is(tree->wiring, i, WIRING_SWITCH) && tree->level[i] != WIRING_NONE && !known[i] &&
		    group_known[wiring_group_of(tree->group, i)])
			list[count++] = i;
	note_machines(tree, list, count,
		      "counted with the switches beside, but no rate of its cables is known: if it is for "
		      "management, --exclude it");
	free(known);
	return 0;
}
