/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of all that is cabled belongs to the fabric over which hosts train. Left out, each with a note, are
 *
 * - what the user excludes, by name;
 * - adapters and neighbours without a host's name;
 * - management ports of switches and hosts, by the ports' names (wiring_management.c);
 * - networks for storage and management: a switch that says so by its name, or by the names of the servers on it, where its
 *   hosts are on other switches too; and a switch whose hosts are on several others that have none in common, because leaves
 *   part hosts into groups and a network for all of them does not.
 */
#include "cluster/read/wiring.h"

#include "base/sys.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN_BYTES = 256, OVERLAY_PASSES_MAX = 8, UPPER_MAX = 256 };

/* ----------------------------------------------------------------------------------------------------- what the user says */

/* By its name, as it is or without a domain, or by its identifier. */
static bool fits(const struct wiring_machine *machine, const char *pattern)
{
	char first[WIRING_NAME_MAX + 1];

	snprintf(first, sizeof(first), "%.*s", (int)strcspn(machine->name, "."), machine->name);
	return !fnmatch(pattern, machine->name, 0) || !fnmatch(pattern, first, 0) || !fnmatch(pattern, machine->key, 0);
}

static void exclude(struct wiring *wiring, const char *list)
{
	while (list) {
		size_t bytes = strcspn(list, ","), count = 0;
		char pattern[PATTERN_BYTES];

		snprintf(pattern, sizeof(pattern), "%.*s", (int)(bytes < PATTERN_BYTES ? bytes : PATTERN_BYTES - 1),
			 list);
		for (size_t i = 0; bytes && i < wiring->machine_count; i++) {
			if (!fits(&wiring->machines[i], pattern))
				continue;
			wiring->machines[i].kind = WIRING_LEFT_OUT;
			count++;
		}
		if (bytes && !count)
			wiring_note(wiring, "--exclude %s: no host or switch in the file has such a name", pattern);
		list = list[bytes] ? list + bytes + 1 : NULL;
	}
}

static int note_nameless(struct wiring *wiring)
{
	uint32_t *machines = calloc(wiring->machine_count + 1, sizeof(*machines));
	char list[WIRING_LIST_BYTES];
	size_t count = 0;

	if (!machines)
		return -ENOMEM;
	for (uint32_t i = 0; i < wiring->machine_count; i++)
		if (wiring_is(wiring, i, WIRING_NAMELESS))
			machines[count++] = i;
	if (count) {
		wiring_list(wiring, machines, count, list);
		wiring_note(wiring, "%zu %s%s name%s no host and %s left out (%s).  %s", count, wiring->nameless_what,
			    count == 1 ? "" : "s", count == 1 ? "s" : "", count == 1 ? "is" : "are", list,
			    wiring->nameless_remedy);
	}
	free(machines);
	return 0;
}

/* Both ends may tell of a cable, or one. */
static int count_nameless(struct wiring *wiring)
{
	size_t machines = wiring->machine_count;
	uint32_t *heard = sys_zalloc((2 * machines + 1) * sizeof(*heard)), *told;

	wiring->nameless = heard;
	if (!heard)
		return -ENOMEM;
	told = heard + machines;
	for (size_t i = 0; i < wiring->link_count; i++) {
		const struct wiring_link *link = &wiring->links[i];

		told[link->from] += wiring_is(wiring, link->to, WIRING_NAMELESS);
		heard[link->to] += wiring_is(wiring, link->from, WIRING_NAMELESS);
	}
	for (size_t i = 0; i < machines; i++)
		heard[i] = told[i] > heard[i] ? told[i] : heard[i];
	return 0;
}

/* --------------------------------------------------------------------------------------- storage and management networks */

struct fabric {
	struct wiring *wiring;
	struct wiring_pairs *pairs;
	struct wiring_edges edges;
	void *arrays;    /* the block of all of these */
	uint32_t *count; /* scratch, by machine; zero between uses */
	uint32_t *group; /* scratch: union-find */
	bool *storage;   /* a switch with servers for storage */
};

static const char *name_of(const struct fabric *fabric, uint32_t machine)
{
	return fabric->wiring->machines[machine].name;
}

static bool is_switch(const struct fabric *fabric, uint32_t machine)
{
	return wiring_is(fabric->wiring, machine, WIRING_SWITCH);
}

/* why: a clause about the switch. */
static void leave_out(struct fabric *fabric, uint32_t at, const char *why)
{
	fabric->wiring->machines[at].kind = WIRING_LEFT_OUT;
	wiring_note(fabric->wiring, "the switch %.60s is left out: %s", name_of(fabric, at), why);
}

/* What is cabled to a switch, but for what has such a name itself; and how much of it is cabled to another without one. */
struct beside {
	uint32_t hosts, hosts_elsewhere, switches, switches_elsewhere;
};

static void count_beside(const struct fabric *fabric, struct beside *beside, uint32_t *plain)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < fabric->pairs->count; i++)
			for (int end = 0; end < 2; end++) {
				const struct wiring_pair *pair = &fabric->pairs->at[i];
				uint32_t at = end ? pair->b : pair->a, other = end ? pair->a : pair->b;

				if (!is_switch(fabric, at))
					continue;
				if (!pass) {
					plain[other] += !wiring_named_for_other_work(name_of(fabric, at));
				} else if (wiring_named_for_other_work(name_of(fabric, other))) {
					continue;
				} else if (is_switch(fabric, other)) {
					beside[at].switches++;
					beside[at].switches_elsewhere += plain[other] > 0;
				} else {
					beside[at].hosts++;
					beside[at].hosts_elsewhere += plain[other] > 0;
				}
			}
}

/* By its own name, where most of its hosts, or without hosts most of its switches, are cabled to others too. */
static int leave_out_named(struct fabric *fabric)
{
	size_t machines = fabric->wiring->machine_count;
	struct beside *beside = calloc(machines + 1, sizeof(*beside));

	if (!beside)
		return -ENOMEM;
	count_beside(fabric, beside, fabric->count);
	memset(fabric->count, 0, machines * sizeof(*fabric->count));
	for (uint32_t i = 0; i < machines; i++) {
		const struct beside *at = &beside[i];
		bool is_other = at->hosts ? 2 * at->hosts_elsewhere >= at->hosts
					  : at->switches && 2 * at->switches_elsewhere >= at->switches;

		if (is_other && is_switch(fabric, i) && wiring_named_for_other_work(name_of(fabric, i)))
			leave_out(fabric, i, "its name is that of a network for storage or management");
	}
	free(beside);
	return 0;
}

/* By the servers on it, where all its other hosts are on switches without such servers, too. */
static void leave_out_storage(struct fabric *fabric)
{
	const struct wiring_edges *edges = &fabric->edges;

	for (uint32_t at = 0; at < fabric->wiring->machine_count; at++)
		for (uint32_t i = edges->of_switch[at]; i < edges->of_switch[at + 1]; i++)
			if (wiring_named_for_storage(name_of(fabric, edges->hosts[i])))
				fabric->storage[at] = true;
	for (uint32_t at = 0; at < fabric->wiring->machine_count; at++) {
		uint32_t hosts = 0, elsewhere = 0;

		if (!fabric->storage[at] || !is_switch(fabric, at))
			continue;
		for (uint32_t i = edges->of_switch[at]; i < edges->of_switch[at + 1]; i++) {
			uint32_t host = edges->hosts[i];
			bool is_elsewhere = false;

			if (wiring_named_for_storage(name_of(fabric, host)))
				continue;
			for (uint32_t j = edges->of_host[host]; j < edges->of_host[host + 1]; j++)
				is_elsewhere = is_elsewhere || (is_switch(fabric, edges->switches[j]) &&
								!fabric->storage[edges->switches[j]]);
			hosts++;
			elsewhere += is_elsewhere;
		}
		if (hosts && elsewhere == hosts)
			leave_out(
				fabric, at,
				"it has servers for storage, by their names, and hosts that are on other switches too "
				"(to count it, --exclude the servers)");
	}
}

/* ------------------------------------------------------------------------------------------ a network across the leaves */

static uint32_t host_count(const struct fabric *fabric, uint32_t at)
{
	return fabric->edges.of_switch[at + 1] - fabric->edges.of_switch[at];
}

/* Average of its links to hosts; 0: not known. */
static uint64_t host_rate(const struct fabric *fabric, uint32_t at, const uint64_t *sum_Bps)
{
	uint32_t hosts = host_count(fabric, at);

	return hosts ? sum_Bps[at] / hosts : 0;
}

/*
 * The switches inside `at`: most of their hosts are on it, and they have not all of its hosts that are anywhere else (such a
 * switch is its twin). They are joined where they have one of its hosts in common; the count of parts is returned.
 */
static size_t find_inside(struct fabric *fabric, uint32_t at, uint32_t *ret_inside, size_t *ret_count)
{
	const struct wiring_edges *edges = &fabric->edges;
	uint32_t elsewhere = 0;
	size_t parts = 0;

	*ret_count = 0;
	for (uint32_t i = edges->of_switch[at]; i < edges->of_switch[at + 1]; i++) {
		uint32_t host = edges->hosts[i], others = 0;

		for (uint32_t j = edges->of_host[host]; j < edges->of_host[host + 1]; j++) {
			uint32_t other = edges->switches[j];

			if (other == at || !is_switch(fabric, other))
				continue;
			others++;
			if (!fabric->count[other]++)
				ret_inside[(*ret_count)++] = other;
		}
		elsewhere += others > 0;
	}
	for (size_t i = 0; i < *ret_count; i++) {
		uint32_t other = ret_inside[i];
		uint32_t all = host_count(fabric, other), shared = fabric->count[other];
		/* Of a rail that many hosts do not name, who is on it cannot be told. */
		bool is_inside = 2 * shared > all && shared < elsewhere && 2 * fabric->wiring->nameless[other] < all;

		fabric->group[other] = is_inside ? other : WIRING_NONE;
	}
	for (uint32_t i = edges->of_switch[at]; i < edges->of_switch[at + 1]; i++) {
		uint32_t host = edges->hosts[i], first = WIRING_NONE;

		for (uint32_t j = edges->of_host[host]; j < edges->of_host[host + 1]; j++) {
			uint32_t other = edges->switches[j];

			if (!fabric->count[other] || fabric->group[other] == WIRING_NONE)
				continue;
			if (first == WIRING_NONE)
				first = other;
			fabric->group[wiring_group_of(fabric->group, other)] = wiring_group_of(fabric->group, first);
		}
	}
	for (size_t i = *ret_count; i-- > 0;) {
		uint32_t other = ret_inside[i];

		fabric->count[other] = 0;
		parts += fabric->group[other] == other;
		if (fabric->group[other] == WIRING_NONE)
			ret_inside[i] = ret_inside[--*ret_count];
	}
	return parts;
}

static bool leave_out_across(struct fabric *fabric, uint32_t at, uint32_t *inside, const uint64_t *sum_Bps)
{
	static const char across[] =
		"its hosts are on other switches too, and those have no hosts in common, so that it looks "
		"like a network for storage or management (to count it, --exclude the others)";
	uint64_t own_Bps = host_rate(fabric, at, sum_Bps), fastest_Bps = 0;
	size_t count, known = 0;
	bool any_leaf = false;

	if (find_inside(fabric, at, inside, &count) < 2)
		return false;
	for (size_t i = 0; i < count; i++) {
		uint64_t rate_Bps = host_rate(fabric, inside[i], sum_Bps);

		any_leaf = any_leaf || host_count(fabric, inside[i]) > 1;
		known += rate_Bps > 0;
		fastest_Bps = rate_Bps > fastest_Bps ? rate_Bps : fastest_Bps;
	}
	/* A switch in each host (a DPU) says nothing of the one to which all are cabled. */
	if (!any_leaf)
		return false;
	/* The leaves of a slower network under one fast switch. */
	if (own_Bps && known == count && own_Bps / 3 * 2 >= fastest_Bps) {
		for (size_t i = 0; i < count; i++)
			leave_out(fabric, inside[i],
				  "its hosts have faster links to another switch that has all of them (to count "
				  "it, --exclude that one)");
	} else {
		leave_out(fabric, at, across);
	}
	return true;
}

static int leave_out_all_across(struct fabric *fabric)
{
	size_t machines = fabric->wiring->machine_count;
	bool *unknown, more = true;
	uint32_t *inside;
	uint64_t *sum_Bps;
	void *arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(inside, machines),
							       SYS_ARRAY(sum_Bps, machines),
							       SYS_ARRAY(unknown, machines) },
					 3);

	if (!arrays)
		return -ENOMEM;
	for (size_t i = 0; i < fabric->pairs->count; i++) {
		uint32_t host, at;

		if (!wiring_pair_of_host(fabric->wiring, &fabric->pairs->at[i], &host, &at))
			continue;
		unknown[at] = unknown[at] || !fabric->pairs->at[i].rate_Bps;
		sum_Bps[at] = unknown[at] ? 0 : sum_Bps[at] + fabric->pairs->at[i].rate_Bps;
	}
	for (int pass = 0; more && pass < OVERLAY_PASSES_MAX; pass++) {
		more = false;
		for (uint32_t at = 0; at < fabric->wiring->machine_count; at++)
			more = (is_switch(fabric, at) && leave_out_across(fabric, at, inside, sum_Bps)) || more;
	}
	sys_free(arrays);
	return 0;
}

/* --------------------------------------------------------------------------------------------------- hosts on a spine */

/* Two of the switches beside `at` that have hosts are cabled to each other, as they are where all leaves are. */
static bool is_meshed(const struct wiring_pairs *pairs, const uint32_t *hosts, uint32_t at, uint32_t *stamp)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < pairs->count; i++) {
			uint32_t a = pairs->at[i].a, b = pairs->at[i].b;

			if (!hosts[a] || !hosts[b])
				continue;
			if (!pass && (a == at || b == at))
				stamp[a == at ? b : a] = at + 1;
			else if (pass && a != at && b != at && stamp[a] == at + 1 && stamp[b] == at + 1)
				return true;
		}
	return false;
}

int wiring_find_upper(const struct wiring *wiring, const struct wiring_pairs *pairs, bool *ret)
{
	size_t machines = wiring->machine_count, looked_at = 0;
	uint32_t *hosts = sys_zalloc((3 * machines + 1) * sizeof(*hosts)), *larger, *stamp;

	if (!hosts)
		return -ENOMEM;
	larger = hosts + machines;
	stamp = larger + machines;
	for (size_t i = 0; i < pairs->count; i++) {
		uint32_t host, at;

		if (wiring_pair_of_host(wiring, &pairs->at[i], &host, &at))
			hosts[at]++;
	}
	for (size_t i = 0; i < pairs->count; i++)
		for (int end = 0; end < 2; end++) {
			uint32_t at = end ? pairs->at[i].b : pairs->at[i].a,
				 other = end ? pairs->at[i].a : pairs->at[i].b;

			larger[at] += hosts[at] && hosts[other] > hosts[at];
		}
	for (uint32_t at = 0; at < machines; at++)
		ret[at] = larger[at] > 1 && looked_at++ < UPPER_MAX && !is_meshed(pairs, hosts, at, stamp);
	sys_free(hosts);
	return 0;
}

/* -------------------------------------------------------------------------------------------------------------- whole */

static bool any_host_on_switch(const struct wiring *wiring)
{
	for (size_t i = 0; i < wiring->link_count; i++) {
		const struct wiring_link *link = &wiring->links[i];
		struct wiring_pair pair = { .a = link->from, .b = link->to };
		uint32_t host, at;

		if (!link->management && wiring_pair_of_host(wiring, &pair, &host, &at))
			return true;
	}
	return false;
}

int wiring_leave_out(struct wiring *wiring, const char *excluded, struct wiring_pairs *ret)
{
	struct fabric fabric = { .wiring = wiring, .pairs = ret };
	size_t machines = wiring->machine_count;
	int r;

	r = wiring_mark_management(wiring);
	if (r == 0) {
		bool had_hosts = any_host_on_switch(wiring);

		exclude(wiring, excluded);
		wiring->excluded_all = had_hosts && !any_host_on_switch(wiring);
		r = wiring_mark_first_ports(wiring);
	}
	if (r == 0)
		r = note_nameless(wiring);
	if (r == 0)
		r = count_nameless(wiring);
	if (r == 0)
		r = wiring_note_management(wiring);
	if (r == 0)
		r = wiring_pairs_make(wiring, ret);
	if (r == 0)
		r = wiring_edges_init(wiring, ret, &fabric.edges);
	fabric.arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(fabric.count, machines),
								SYS_ARRAY(fabric.group, machines),
								SYS_ARRAY(fabric.storage, machines) },
					  3);
	if (r == 0 && !fabric.arrays)
		r = -ENOMEM;
	if (r == 0) {
		r = leave_out_named(&fabric);
		leave_out_storage(&fabric);
	}
	if (r == 0) {
		r = leave_out_all_across(&fabric);
		wiring_pairs_prune(wiring, ret);
	}
	sys_free(fabric.edges.arrays);
	sys_free(fabric.arrays);
	return r;
}
