/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A first order, from the switches down: units (hosts, then tensor groups) are put together to larger ones (tensor groups,
 * then stages) below the lowest switch that has enough of them. What is left over at a switch goes up to the next.
 */
#include "simulate/ranks_internal.h"

#include "base/sys.h"
#include "simulate/job_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct pack {
	const struct simulate_fabric *fabric;
	uint32_t *
		rank; /* the one block of all of these. Of each switch: in which order those of one parent are walked */
	uint32_t *first, *next; /* children of each switch, by rank */
	uint32_t *hosts;        /* all, unit after unit */
	uint32_t *home;         /* of each unit: the lowest switch that has all of it, or SIMULATE_NONE: above all */
	size_t unit_count, unit_hosts;
	uint32_t *scratch, *scratch_home;
	uint32_t *left; /* units left over, as a stack */
	size_t left_count, done;
	size_t each; /* units that make one larger one */
};

static uint32_t above_both(const struct simulate_fabric *fabric, uint32_t a, uint32_t b)
{
	while (a != b) {
		if (a == SIMULATE_NONE || b == SIMULATE_NONE)
			return SIMULATE_NONE;
		if (fabric->switches[a].depth >= fabric->switches[b].depth)
			a = fabric->switches[a].parent;
		else
			b = fabric->switches[b].parent;
	}
	return a;
}

static void take_unit(struct pack *pack, uint32_t unit)
{
	memcpy(pack->scratch + pack->done * pack->unit_hosts, pack->hosts + unit * pack->unit_hosts,
	       pack->unit_hosts * sizeof(uint32_t));
	pack->scratch_home[pack->done++] = pack->home[unit];
}

/* What is left since `base` is taken, `each` at a time. */
static void take_whole(struct pack *pack, size_t base, size_t each)
{
	size_t whole = (pack->left_count - base) / each * each;

	for (size_t i = 0; i < whole; i++)
		take_unit(pack, pack->left[base + i]);
	memmove(pack->left + base, pack->left + base + whole, (pack->left_count - base - whole) * sizeof(*pack->left));
	pack->left_count -= whole;
}

/* Units are chained by home in pack->next's tail: [switch_count + unit]. At most SIMULATE_DEPTH_MAX deep. */
static void walk(struct pack *pack, uint32_t at, const uint32_t *first_unit, const uint32_t *next_unit)
{
	size_t base = pack->left_count;

	for (uint32_t unit = first_unit[at]; unit != SIMULATE_NONE; unit = next_unit[unit])
		pack->left[pack->left_count++] = unit;
	take_whole(pack, base, pack->each);
	for (uint32_t child = pack->first[at]; child != SIMULATE_NONE; child = pack->next[child])
		walk(pack, child, first_unit, next_unit);
	take_whole(pack, base, pack->each);
}

/* Units by home: of each switch in their order; those above all at [switch_count]. */
static void chain(const struct pack *pack, uint32_t *first_unit, uint32_t *next_unit)
{
	size_t switches = pack->fabric->switch_count;

	for (size_t i = 0; i <= switches; i++)
		first_unit[i] = SIMULATE_NONE;
	for (uint32_t i = (uint32_t)pack->unit_count; i-- > 0;) {
		size_t home = pack->home[i] == SIMULATE_NONE ? switches : pack->home[i];

		next_unit[i] = first_unit[home];
		first_unit[home] = i;
	}
}

/* Larger units of `each`; those that are not whole come last, as they are, and are part of no larger one. */
static int make_larger(struct pack *pack, size_t each)
{
	size_t switches = pack->fabric->switch_count, whole;
	uint32_t *first_unit = sys_zalloc((switches + 1 + pack->unit_count + 1) * sizeof(*first_unit));

	if (!first_unit)
		return -ENOMEM;
	pack->each = each;
	pack->done = pack->left_count = 0;
	chain(pack, first_unit, first_unit + switches + 1);
	for (uint32_t i = 0; i < switches; i++)
		if (pack->fabric->switches[pack->rank[i]].parent == SIMULATE_NONE)
			walk(pack, pack->rank[i], first_unit, first_unit + switches + 1);
	for (uint32_t unit = first_unit[switches]; unit != SIMULATE_NONE; unit = first_unit[switches + 1 + unit])
		pack->left[pack->left_count++] = unit;
	take_whole(pack, 0, each);
	whole = pack->done / each;
	take_whole(pack, 0, 1);
	sys_free(first_unit);
	memcpy(pack->hosts, pack->scratch, pack->unit_count * pack->unit_hosts * sizeof(uint32_t));
	for (size_t i = 0; i < whole; i++) {
		uint32_t home = pack->scratch_home[i * each];

		for (size_t j = 1; j < each; j++)
			home = above_both(pack->fabric, home, pack->scratch_home[i * each + j]);
		pack->home[i] = home;
	}
	pack->unit_count = whole;
	pack->unit_hosts *= each;
	return 0;
}

static void order_switches(struct pack *pack, uint64_t seed)
{
	const struct simulate_fabric *fabric = pack->fabric;
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		pack->rank[i] = i;
		pack->first[i] = SIMULATE_NONE;
	}
	if (seed)
		simulate_shuffle(pack->rank, fabric->switch_count, &state);
	for (size_t i = fabric->switch_count; i-- > 0;) {
		uint32_t at = pack->rank[i], parent = fabric->switches[at].parent;

		if (parent == SIMULATE_NONE)
			continue;
		pack->next[at] = pack->first[parent];
		pack->first[parent] = at;
	}
}

/* ---------------------------------------------------------------------------------------------------------- selection */

/* Units below each switch. */
static void count_below(const struct pack *pack, size_t *below)
{
	memset(below, 0, pack->fabric->switch_count * sizeof(*below));
	for (size_t i = 0; i < pack->unit_count; i++)
		for (uint32_t at = pack->home[i]; at != SIMULATE_NONE; at = pack->fabric->switches[at].parent)
			below[at]++;
}

static bool is_below(const struct pack *pack, uint32_t home, uint32_t at)
{
	while (home != SIMULATE_NONE && home != at)
		home = pack->fabric->switches[home].parent;
	return home == at;
}

/* Whether a unit is on several leaves. */
static bool is_spread(const struct pack *pack, size_t unit)
{
	return pack->home[unit] !=
	       pack->fabric->nics[pack->hosts[unit * pack->unit_hosts] * pack->fabric->rail_count].leaf;
}

/* The switch with the fewest units that suffice, and the one with the fewest at all. */
static void find_switches(const struct pack *pack, const size_t *below, size_t needed, uint32_t *ret_best,
			  uint32_t *ret_least)
{
	uint32_t best = SIMULATE_NONE, least = SIMULATE_NONE;

	for (uint32_t i = 0; i < pack->fabric->switch_count; i++) {
		uint32_t depth = pack->fabric->switches[i].depth;

		if (below[i] >= needed && below[i] < pack->unit_count &&
		    (best == SIMULATE_NONE || below[i] < below[best]))
			best = i;
		if (below[i] && (least == SIMULATE_NONE || below[i] < below[least] ||
				 (below[i] == below[least] && depth > pack->fabric->switches[least].depth)))
			least = i;
	}
	*ret_best = best;
	*ret_least = least;
}

/*
 * Of more units than are needed: those on several leaves go first. Then all that are not below the switch with the fewest
 * that suffice; where there is no such switch, as many as can be from below the switch with the fewest.
 */
static int choose(struct pack *pack, size_t needed)
{
	size_t *below = sys_zalloc((pack->fabric->switch_count + 1) * sizeof(*below));

	if (!below)
		return -ENOMEM;
	for (bool spread = true; pack->unit_count > needed; spread = false) {
		size_t kept = 0, drop = pack->unit_count - needed;
		uint32_t best, least;

		count_below(pack, below);
		find_switches(pack, below, needed, &best, &least);
		for (size_t i = 0; i < pack->unit_count; i++) {
			bool keep = spread ? !is_spread(pack, i)
					   : (best != SIMULATE_NONE ? is_below(pack, pack->home[i], best)
								    : !is_below(pack, pack->home[i], least));

			keep = keep || !drop;
			drop -= !keep;
			if (!keep)
				continue;
			memmove(pack->hosts + kept * pack->unit_hosts, pack->hosts + i * pack->unit_hosts,
				pack->unit_hosts * sizeof(*pack->hosts));
			pack->home[kept++] = pack->home[i];
		}
		/* Nothing below any switch: all of them are spread. */
		pack->unit_count = kept > needed && kept == pack->unit_count && !spread ? needed : kept;
	}
	sys_free(below);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------- whole */

static int pack_init(struct pack *pack, const struct ranks_model *model, const uint32_t *hosts, size_t count)
{
	size_t switches = model->fabric->switch_count;

	*pack = (struct pack){ .fabric = model->fabric, .unit_hosts = 1, .unit_count = count };
	pack->rank = sys_zalloc((3 * switches + 5 * count + 1) * sizeof(*pack->rank));
	if (!pack->rank)
		return -ENOMEM;
	pack->first = pack->rank + switches;
	pack->next = pack->first + switches;
	pack->hosts = pack->next + switches;
	pack->home = pack->hosts + count;
	pack->scratch = pack->home + count;
	pack->scratch_home = pack->scratch + count;
	pack->left = pack->scratch_home + count;
	memcpy(pack->hosts, hosts, count * sizeof(*hosts));
	for (size_t i = 0; i < count; i++)
		pack->home[i] = model->fabric->nics[hosts[i] * model->fabric->rail_count].leaf;
	return 0;
}

int ranks_pack(const struct ranks_model *model, const uint32_t *hosts, size_t host_count, uint64_t seed, uint32_t *ret)
{
	size_t tensor = ranks_tensor_hosts(&model->layout), stage = ranks_stage_hosts(&model->layout);
	struct pack pack;
	int r = pack_init(&pack, model, hosts, host_count);

	if (r == 0) {
		order_switches(&pack, seed);
		r = make_larger(&pack, tensor);
	}
	if (r == 0)
		r = choose(&pack, model->hosts / tensor);
	if (r == 0)
		r = make_larger(&pack, stage % tensor == 0 && stage > tensor ? stage / tensor : 1);
	/* Stages of one switch together. */
	if (r == 0)
		r = make_larger(&pack, 1);
	if (r == 0)
		memcpy(ret, pack.hosts, model->hosts * sizeof(*ret));
	sys_free(pack.rank);
	return r;
}

int simulate_order_leaf(const struct simulate_fabric *fabric, uint32_t *ret)
{
	struct ranks_model model = { .fabric = fabric, .layout = { 1, 1, 1, 1 }, .hosts = fabric->host_count };

	simulate_order_rank(fabric, ret);
	return ranks_pack(&model, ret, fabric->host_count, 0, ret);
}
