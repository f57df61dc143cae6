/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of hosts: what they cost, against a count of crossings that shares no code and against the simulator; and what is
 * found, against all orders there are.
 */
#include "simulate/ranks_internal.h"

#include "base/log.h"
#include "base/random.h"
#include "base/sys.h"
#include "simulate/job.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS_MOST = 64 };

static uint64_t state;

static unsigned draw(unsigned below)
{
	return (unsigned)random_below(&state, below);
}

static void fabric_of(const char *text, struct simulate_fabric *ret)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };

	if (cluster_read(text, strlen(text), &cluster, &diag) < 0 ||
	    simulate_fabric_of_cluster(cluster, ret, &diag) < 0)
		fail_msg("%s in\n%s", diag.text, text);
	cluster_free(cluster);
}

/* Up to 7 leaves below up to 3 switches below one; hosts are listed leaf by leaf, and mixed by their names. */
static void random_fabric(unsigned hosts, struct simulate_fabric *ret)
{
	char text[8192];
	unsigned pods = 1 + draw(3), leaves = 2 + draw(5), used[HOSTS_MOST] = { 0 };
	int at = snprintf(text, sizeof(text), "tributary-cluster 1\nswitch top\n");

	for (unsigned i = 0; i < pods; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "switch pod%u parent=top up=%ukB/s down=%ukB/s\n",
			       i, 1000 + draw(8) * 1000, 1000 + draw(8) * 1000);
	for (unsigned i = 0; i < leaves; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       "switch leaf%u parent=pod%u up=%ukB/s down=%ukB/s\n", i, draw(pods),
			       1000 + draw(4) * 1000, 1000 + draw(4) * 1000);
	for (unsigned i = 0; i < hosts; i++) {
		unsigned name = draw(hosts);

		while (used[name])
			name = (name + 1) % hosts;
		used[name] = 1;
		at += snprintf(text + at, sizeof(text) - (size_t)at, "host h%u leaf=leaf%u rate=%ukB/s\n", name,
			       draw(leaves), draw(4) ? 4000 : 1000);
	}
	fabric_of(text, ret);
}

static struct ranks_layout plain(size_t hosts)
{
	return (struct ranks_layout){ .gpus = 1, .tensor = 1, .data = (unsigned)hosts, .pipeline = 1 };
}

/* ------------------------------------------------------------------------------------- the same, from the definition */

static bool is_below(const struct simulate_fabric *fabric, uint32_t host, uint32_t at)
{
	uint32_t up = fabric->nics[host].leaf;

	while (up != SIMULATE_NONE && up != at)
		up = fabric->switches[up].parent;
	return up == at;
}

/* NCCL's description: the lowest set bit of a node says its parent; the second tree is mirrored, or shifted by one. */
static int parent_of(int node, int count, int second)
{
	int i = !second ? node : (count % 2 ? (node - 1 + count) % count : count - 1 - node), bit = 1, up;

	if (!i)
		return -1;
	while (!(i & bit))
		bit <<= 1;
	up = (i ^ bit) | (bit << 1);
	if (up >= count)
		up = i ^ bit;
	return !second ? up : (count % 2 ? (up + 1) % count : count - 1 - up);
}

struct seen {
	double worst_s, uplinks_s, crossings;
};

static void add_link(struct seen *seen, double bytes, double capacity_Bps, bool uplink)
{
	seen->worst_s = fmax(seen->worst_s, bytes / capacity_Bps);
	if (uplink) {
		seen->uplinks_s += bytes / capacity_Bps;
		seen->crossings += bytes;
	}
}

/* bytes[a][b] from the host at place a to that at b. */
static struct seen count_links(const struct simulate_fabric *fabric, const uint32_t *order, int hosts,
			       double bytes[][HOSTS_MOST])
{
	struct seen seen = { 0 };

	for (uint32_t at = 0; at < fabric->switch_count; at++) {
		double up = 0, down = 0;

		for (int a = 0; a < hosts; a++)
			for (int b = 0; b < hosts; b++) {
				bool from = is_below(fabric, order[a], at), to = is_below(fabric, order[b], at);

				up += from && !to ? bytes[a][b] : 0;
				down += to && !from ? bytes[a][b] : 0;
			}
		if (fabric->switches[at].parent == SIMULATE_NONE)
			continue;
		add_link(&seen, up, fabric->switches[at].capacity_Bps[SIMULATE_UP], true);
		add_link(&seen, down, fabric->switches[at].capacity_Bps[SIMULATE_DOWN], true);
	}
	for (int a = 0; a < hosts; a++) {
		double out = 0, in = 0;

		for (int b = 0; b < hosts; b++) {
			out += bytes[a][b];
			in += bytes[b][a];
		}
		add_link(&seen, out, fabric->nics[order[a]].capacity_Bps[SIMULATE_UP], false);
		add_link(&seen, in, fabric->nics[order[a]].capacity_Bps[SIMULATE_DOWN], false);
	}
	return seen;
}

static struct seen count_ring(const struct simulate_fabric *fabric, const uint32_t *order, int hosts)
{
	double bytes[HOSTS_MOST][HOSTS_MOST] = { { 0 } };

	for (int i = 0; i < hosts; i++)
		bytes[i][(i + 1) % hosts] += 2.0 * (hosts - 1) / hosts;
	return count_links(fabric, order, hosts, bytes);
}

static struct seen count_tree(const struct simulate_fabric *fabric, const uint32_t *order, int hosts)
{
	double bytes[HOSTS_MOST][HOSTS_MOST] = { { 0 } };

	for (int second = 0; second < 2; second++)
		for (int i = 0; i < hosts; i++) {
			int up = parent_of(i, hosts, second);

			if (up < 0)
				continue;
			bytes[i][up] += 0.5;
			bytes[up][i] += 0.5;
		}
	return count_links(fabric, order, hosts, bytes);
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-5 * fmax(fabs(a), fabs(b)) + 1e-12;
}

static void check_cost(const struct ranks_cost *is, struct seen expected)
{
	if (!near(is->worst_s, expected.worst_s) || !near(is->uplinks_s, expected.uplinks_s) ||
	    !near(is->crossings, expected.crossings))
		fail_msg("%g %g %g, expected %g %g %g", is->worst_s, is->uplinks_s, is->crossings, expected.worst_s,
			 expected.uplinks_s, expected.crossings);
}

/* ------------------------------------------------------------------------------------------------------------- tests */

static void groups_are_laid_out_as_megatron_does(void **unused)
{
	const struct ranks_layout layout = { .gpus = 2, .tensor = 4, .data = 2, .pipeline = 3 };
	uint32_t places[12];
	struct ranks_group group = { .places = places };

	(void)unused;
	assert_int_equal(ranks_hosts(&layout), 12);
	assert_int_equal(ranks_group_count(&layout, RANKS_TENSOR), 6);
	ranks_group(&layout, RANKS_TENSOR, 1, &group); /* ranks 4 to 7 */
	assert_int_equal(group.count, 2);
	assert_int_equal(places[0], 2);
	assert_int_equal(places[1], 3);
	assert_int_equal(ranks_group_count(&layout, RANKS_DATA_RING), 12);
	ranks_group(&layout, RANKS_DATA_RING, 5, &group); /* place 1 of the second stage: ranks 9 and 13 */
	assert_int_equal(group.count, 2);
	assert_int_equal(group.ranks, 2);
	assert_int_equal(places[0], 4);
	assert_int_equal(places[1], 6);
	assert_int_equal(ranks_group_count(&layout, RANKS_PIPELINE), 8);
	ranks_group(&layout, RANKS_PIPELINE, 3, &group); /* ranks 3, 11, 19 */
	assert_int_equal(group.count, 3);
	assert_int_equal(places[2], 9);
	assert_int_equal(ranks_hosts(&(struct ranks_layout){ 8, 1, 12, 1 }), 0);
	assert_int_equal(ranks_hosts(&(struct ranks_layout){ 8, 0, 16, 1 }), 0);
}

static void costs_are_those_counted_from_the_definition(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= 200; seed++) {
		unsigned hosts = 2 + seed % 30;
		struct ranks_layout layout = plain(hosts);
		struct ranks_cost costs[RANKS_PHASE_COUNT];
		struct simulate_fabric fabric;
		uint32_t order[HOSTS_MOST];

		state = seed * 77777;
		random_fabric(hosts, &fabric);
		simulate_order_random(&fabric, seed, order);
		assert_int_equal(ranks_costs(&fabric, &layout, order, costs, NULL), 0);
		check_cost(&costs[RANKS_DATA_RING], count_ring(&fabric, order, (int)hosts));
		check_cost(&costs[RANKS_DATA_TREE], count_tree(&fabric, order, (int)hosts));
		assert_true(costs[RANKS_TENSOR].worst_s == 0 && costs[RANKS_PIPELINE].worst_s == 0);
		simulate_fabric_fini(&fabric);
	}
}

/* Bytes on every link, as the simulator moves them. */
static void loads_are_what_the_simulator_moves(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= 40; seed++) {
		unsigned hosts = 3 + seed % 20;
		struct ranks_layout layout = plain(hosts);
		struct ranks_cost costs[RANKS_PHASE_COUNT];
		struct simulate_settings settings = simulate_defaults();
		struct simulate_fabric fabric;
		uint32_t order[HOSTS_MOST];
		double *load_B;
		size_t links;

		state = seed * 99991;
		random_fabric(hosts, &fabric);
		simulate_order_random(&fabric, seed, order);
		links = simulate_link_count(&fabric);
		load_B = calloc(RANKS_PHASE_COUNT * links, sizeof(*load_B));
		assert_non_null(load_B);
		assert_int_equal(ranks_costs(&fabric, &layout, order, costs, load_B), 0);
		settings.detail = SIMULATE_PIPELINED;
		for (int tree = 0; tree < 2; tree++) {
			struct simulate_job job = { .algorithm = tree ? SIMULATE_TREE : SIMULATE_RING,
						    .hosts = order,
						    .host_count = hosts,
						    .gpus = 1,
						    .bytes = 1e9 };
			const double *is = load_B + (size_t)(tree ? RANKS_DATA_TREE : RANKS_DATA_RING) * links;
			struct simulate_result result;
			struct diag diag;

			assert_int_equal(simulate_run(&fabric, &job, 1, &settings, NULL, 0, &result, &diag), 0);
			for (uint32_t link = 0; link < links; link++)
				if (fabs(flow_link(result.network, link).bytes - is[link] * 1e9) > 1e4)
					fail_msg("seed %u, link %u: %g, simulated %g", seed, link, is[link] * 1e9,
						 flow_link(result.network, link).bytes);
			simulate_result_fini(&result);
		}
		free(load_B);
		simulate_fabric_fini(&fabric);
	}
}

/* The slowest links first; then what uplinks carry. */
static bool less(const struct seen a[2], const struct seen b[2], bool tree_first)
{
	double first[6], second[6];

	for (int i = 0; i < 2; i++) {
		const struct seen *x = &a[i ^ tree_first], *y = &b[i ^ tree_first];

		first[i] = x->worst_s;
		second[i] = y->worst_s;
		memcpy(first + 2 + 2 * i, (double[]){ x->uplinks_s, x->crossings }, 2 * sizeof(double));
		memcpy(second + 2 + 2 * i, (double[]){ y->uplinks_s, y->crossings }, 2 * sizeof(double));
	}
	for (int i = 0; i < 6; i++)
		if (!near(first[i], second[i]))
			return first[i] < second[i];
	return false;
}

/* Of all orders. */
static void brute_force(const struct simulate_fabric *fabric, uint32_t *order, int at, int hosts, bool tree_first,
			struct seen best[2], bool *any)
{
	struct seen now[2];

	for (int i = at; i < hosts && at < hosts - 1; i++) {
		uint32_t other = order[at];

		order[at] = order[i];
		order[i] = other;
		brute_force(fabric, order, at + 1, hosts, tree_first, best, any);
		other = order[at];
		order[at] = order[i];
		order[i] = other;
	}
	if (at < hosts - 1)
		return;
	now[0] = count_ring(fabric, order, hosts);
	now[1] = count_tree(fabric, order, hosts);
	if (!*any || less(now, best, tree_first))
		memcpy(best, now, sizeof(now));
	*any = true;
}

/* all_orders 0: the search alone. */
static void compare_with_brute_force(size_t all_orders, bool tree_first)
{
	for (unsigned seed = 1; seed <= 60; seed++) {
		unsigned hosts = 2 + seed % 5;
		struct ranks_layout layout = plain(hosts);
		struct ranks_search search = ranks_search_defaults();
		struct simulate_fabric fabric;
		uint32_t order[HOSTS_MOST], all[HOSTS_MOST], found[HOSTS_MOST];
		struct ranks_cost costs[RANKS_PHASE_COUNT];
		struct seen best[2];
		bool any = false;

		state = seed * 31337;
		random_fabric(hosts, &fabric);
		for (uint32_t i = 0; i < hosts; i++)
			order[i] = all[i] = i;
		brute_force(&fabric, order, 0, (int)hosts, tree_first, best, &any);
		search.all_orders = all_orders;
		search.tree_first = tree_first;
		search.steps_most = 2e6;
		assert_int_equal(ranks_order(&fabric, &layout, all, hosts, &search, found), 0);
		assert_int_equal(ranks_costs(&fabric, &layout, found, costs, NULL), 0);
		check_cost(&costs[RANKS_DATA_RING], best[0]);
		check_cost(&costs[RANKS_DATA_TREE], best[1]);
		simulate_fabric_fini(&fabric);
	}
}

static void few_hosts_get_the_best_of_all_orders(void **unused)
{
	(void)unused;
	compare_with_brute_force(7, false);
	compare_with_brute_force(7, true);
}

static void the_search_finds_it_too(void **unused)
{
	(void)unused;
	compare_with_brute_force(0, false);
	compare_with_brute_force(0, true);
}

/* No ring can do with less: a switch with hosts below it and hosts elsewhere is left once and entered once. */
static double fastest_ring_s(const struct simulate_fabric *fabric)
{
	double bytes = 2.0 * ((double)fabric->host_count - 1) / (double)fabric->host_count, worst_s = 0;

	for (uint32_t i = 0; i < fabric->host_count; i++)
		for (int way = 0; way < 2; way++)
			worst_s = fmax(worst_s, bytes / fabric->nics[i].capacity_Bps[way]);
	for (uint32_t at = 0; at < fabric->switch_count; at++) {
		size_t below = 0;

		for (uint32_t i = 0; i < fabric->host_count; i++)
			below += is_below(fabric, i, at);
		for (int way = 0; below && below < fabric->host_count && way < 2; way++)
			worst_s = fmax(worst_s, bytes / fabric->switches[at].capacity_Bps[way]);
	}
	return worst_s;
}

static void no_ring_is_faster(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= 20; seed++) {
		unsigned hosts = 8 + seed * 2;
		struct ranks_layout layout = plain(hosts);
		struct ranks_search search = ranks_search_defaults();
		struct ranks_cost costs[RANKS_PHASE_COUNT];
		struct simulate_fabric fabric;
		uint32_t all[HOSTS_MOST], found[HOSTS_MOST];

		state = seed * 4242;
		random_fabric(hosts, &fabric);
		simulate_order_random(&fabric, seed, all);
		search.steps_most = 2e6;
		assert_int_equal(ranks_order(&fabric, &layout, all, hosts, &search, found), 0);
		assert_int_equal(ranks_costs(&fabric, &layout, found, costs, NULL), 0);
		assert_true(near(costs[RANKS_DATA_RING].worst_s, fastest_ring_s(&fabric)));
		simulate_fabric_fini(&fabric);
	}
}

/* Where all can: one that cannot sets the time of all, and the others may go where the data-parallel rings want them. */
static void tensor_groups_stay_in_leaves(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= 20; seed++) {
		static const char head[] = "tributary-cluster 1\nswitch top\n";
		unsigned leaves = 2 + seed % 4, size = 2 + seed % 3, hosts = 0, inside = 0;
		struct ranks_layout layout = { .gpus = 4, .tensor = 4 * size, .pipeline = 1 };
		struct ranks_search search = ranks_search_defaults();
		uint32_t all[HOSTS_MOST], found[HOSTS_MOST];
		struct simulate_fabric fabric;
		char text[4096];
		int at = snprintf(text, sizeof(text), "%s", head);

		state = seed * 1234567;
		for (unsigned i = 0; i < leaves; i++) {
			unsigned count = 1 + draw(9);

			at += snprintf(
				text + at, sizeof(text) - (size_t)at,
				"switch leaf%u parent=top rate=600MB/s\nhost l%uh[1-%u] leaf=leaf%u rate=1GB/s\n", i, i,
				count, i);
			hosts += count;
			layout.data += count / size;
		}
		if (!layout.data)
			continue;
		fabric_of(text, &fabric);
		simulate_order_random(&fabric, seed, all);
		search.steps_most = 2e6;
		assert_int_equal(ranks_order(&fabric, &layout, all, hosts, &search, found), 0);
		for (unsigned group = 0; group < layout.data; group++) {
			bool together = true;

			for (unsigned i = 1; i < size; i++)
				together = together && fabric.nics[found[group * size]].leaf ==
							       fabric.nics[found[group * size + i]].leaf;
			inside += together;
		}
		if (inside != layout.data)
			fail_msg("seed %u: %u groups of %u hosts in a leaf, could be %u\n%s", seed, inside, size,
				 layout.data, text);
		simulate_fabric_fini(&fabric);
	}
}

/* Fewer hosts than there are: those of one leaf if they suffice. */
static void a_small_job_gets_one_leaf(void **unused)
{
	struct ranks_layout layout = plain(4);
	struct ranks_search search = ranks_search_defaults();
	struct simulate_fabric fabric;
	uint32_t all[32], found[32];

	(void)unused;
	fabric_of("tributary-cluster 1\nswitch top\nswitch a parent=top rate=1GB/s\nswitch b parent=top rate=1GB/s\n"
		  "switch c parent=top rate=1GB/s\nhost a[1-6] leaf=a\nhost b[1-4] leaf=b\nhost c[1-3] leaf=c\n",
		  &fabric);
	for (uint32_t i = 0; i < 13; i++)
		all[i] = i;
	assert_int_equal(ranks_order(&fabric, &layout, all, 13, &search, found), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(fabric.host_names[found[i]][0], 'b');
	assert_int_equal(ranks_order(&fabric, &layout, all, 3, &search, found), -EINVAL);
	simulate_fabric_fini(&fabric);
}

static void it_is_never_worse_than_what_was_given_nor_different_twice(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= 20; seed++) {
		struct ranks_layout layout = { .gpus = 2, .tensor = 4, .data = 3, .pipeline = 2 };
		struct ranks_search search = ranks_search_defaults();
		struct ranks_cost before[RANKS_PHASE_COUNT], after[RANKS_PHASE_COUNT];
		struct simulate_fabric fabric;
		uint32_t given[HOSTS_MOST], found[HOSTS_MOST], again[HOSTS_MOST];

		state = seed * 271828;
		random_fabric(12, &fabric);
		simulate_order_random(&fabric, seed, given);
		search.given = given;
		search.steps_most = 1e5;
		assert_int_equal(ranks_order(&fabric, &layout, given, 12, &search, found), 0);
		assert_int_equal(ranks_order(&fabric, &layout, given, 12, &search, again), 0);
		assert_memory_equal(found, again, 12 * sizeof(*found));
		assert_int_equal(ranks_costs(&fabric, &layout, given, before, NULL), 0);
		assert_int_equal(ranks_costs(&fabric, &layout, found, after, NULL), 0);
		assert_true(ranks_compare(&search, after, before) <= 0);
		simulate_fabric_fini(&fabric);
	}
}

/* By the times that are shown: those of the simulator. */
static void nor_slower(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= 60; seed++) {
		unsigned hosts = 8 + seed % 20, used = hosts - seed % 3;
		struct ranks_layout layout = plain(used);
		struct ranks_search search = ranks_search_defaults(), again;
		const enum ranks_phase first = seed % 2 ? RANKS_DATA_TREE : RANKS_DATA_RING;
		struct simulate_fabric fabric;
		uint32_t given[HOSTS_MOST], found[HOSTS_MOST], twice[HOSTS_MOST];
		double before_s, after_s;
		uint64_t seen = 0;
		struct diag diag;

		state = seed * 161803;
		random_fabric(hosts, &fabric);
		search.steps_most = 1e5;
		search.bytes = 1e5;
		search.tree_first = seed % 2;
		simulate_order_random(&fabric, seed, given);
		assert_int_equal(ranks_order(&fabric, &layout, given, hosts, &search, found), 0);
		again = search;
		again.given = found;
		again.steps_most = seed % 4 ? 2e6 : 1;
		assert_int_equal(ranks_order(&fabric, &layout, given, hosts, &again, twice), 0);
		assert_int_equal(ranks_time(&fabric, &layout, found, first, 1e5, SIMULATE_AUTO, &before_s, &diag), 0);
		assert_int_equal(ranks_time(&fabric, &layout, twice, first, 1e5, SIMULATE_AUTO, &after_s, &diag), 0);
		if (after_s > before_s * 1.002)
			fail_msg("seed %u: %g s, given %g s", seed, after_s, before_s);
		for (unsigned i = 0; i < used; i++)
			seen |= UINT64_C(1) << twice[i];
		assert_int_equal(__builtin_popcountll(seen), used);
		simulate_fabric_fini(&fabric);
	}
}

static void go(struct ranks_model *model, const uint32_t *order)
{
	for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
		ranks_model_cost(model, (enum ranks_phase)phase, order);
}

/* Loads after many moves, of places changed a few or many at once, are to the bit those of the order counted from nothing. */
static void loads_follow_moves_exactly(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= 40; seed++) {
		struct ranks_layout layout = {
			.gpus = 2, .tensor = 2 + 2 * (seed % 2), .data = 3 + seed % 4, .pipeline = 2
		};
		size_t hosts = ranks_hosts(&layout), bytes;
		struct ranks_model model, whole;
		struct simulate_fabric fabric;
		uint32_t order[HOSTS_MOST], before[HOSTS_MOST];

		state = seed * 57721;
		random_fabric((unsigned)hosts + draw(6), &fabric);
		assert_int_equal(ranks_model_init(&model, &fabric, &layout), 0);
		simulate_order_random(&fabric, seed, order);
		go(&model, order);
		for (int step = 0; step < 200; step++) {
			bool back;

			memcpy(before, order, fabric.host_count * sizeof(*order));
			ranks_model_keep(&model);
			for (unsigned i = 0, moves = draw(8) ? 1 : draw(20); i < moves; i++) {
				unsigned a = draw((unsigned)hosts), b = draw((unsigned)fabric.host_count);
				uint32_t other = order[a];

				order[a] = order[b]; /* beyond the job's hosts: one that it has not */
				order[b] = other;
			}
			/* A search looks at no further phase where one is worse, and goes back. */
			ranks_model_cost(&model, RANKS_DATA_RING, order);
			back = draw(2);
			if (!back || draw(2))
				go(&model, order);
			if (back) {
				memcpy(order, before, fabric.host_count * sizeof(*order));
				ranks_model_back(&model, order);
			}
		}
		assert_int_equal(ranks_model_init(&whole, &fabric, &layout), 0);
		go(&model, order);
		go(&whole, order);
		bytes = RANKS_PHASE_COUNT * model.links * sizeof(*model.load_B);
		assert_memory_equal(model.load_B, whole.load_B, bytes);
		assert_memory_equal(model.order, whole.order, RANKS_PHASE_COUNT * hosts * sizeof(*order));
		ranks_model_fini(&model);
		ranks_model_fini(&whole);
		simulate_fabric_fini(&fabric);
	}
}

/* Of more hosts than are needed, slow ones and those behind narrow uplinks are left out. */
static void slow_hosts_are_left_out(void **unused)
{
	struct ranks_layout layout = plain(8);
	struct ranks_search search = ranks_search_defaults();
	struct ranks_cost costs[RANKS_PHASE_COUNT];
	struct simulate_fabric fabric;
	uint32_t all[16], found[16];

	(void)unused;
	fabric_of("tributary-cluster 1\nswitch top\nswitch a parent=top rate=4GB/s\nswitch b parent=top rate=4GB/s\n"
		  "switch c parent=top rate=100MB/s\nhost a[1-2] leaf=a rate=1GB/s\nhost a[3-6] leaf=a rate=2GB/s\n"
		  "host b[1-4] leaf=b rate=2GB/s\nhost b[5-6] leaf=b rate=1GB/s\nhost c[1-4] leaf=c rate=2GB/s\n",
		  &fabric);
	for (uint32_t i = 0; i < 16; i++)
		all[i] = i;
	assert_int_equal(ranks_order(&fabric, &layout, all, 16, &search, found), 0);
	assert_int_equal(ranks_costs(&fabric, &layout, found, costs, NULL), 0);
	assert_true(near(costs[RANKS_DATA_RING].worst_s, 2 * 7.0 / 8 / 2e9));
	simulate_fabric_fini(&fabric);
}

/* One host, one leaf, no rates, links of rate 0: an order of the hosts that there are, the same with the simulator. */
static void any_cluster_has_an_order(void **unused)
{
	static const char *const texts[] = {
		"tributary-cluster 1\nswitch top\nhost a leaf=top rate=1GB/s\n",
		"tributary-cluster 1\nswitch top\nhost a[1-9] leaf=top rate=1GB/s\n",
		("tributary-cluster 1\nswitch top\nswitch l parent=top\nswitch m parent=top\nhost a[1-5] leaf=l\n"
		 "host b[1-4] leaf=m\n"),
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (int simulated = 0; simulated < 2; simulated++) {
			struct ranks_search search = ranks_search_defaults();
			struct ranks_layout layout;
			struct simulate_fabric fabric;
			uint32_t all[16], found[16], seen = 0;

			fabric_of(texts[i], &fabric);
			layout = plain(fabric.host_count);
			search.bytes = simulated ? 1e9 : 0;
			simulate_order_rank(&fabric, all);
			assert_int_equal(ranks_order(&fabric, &layout, all, fabric.host_count, &search, found), 0);
			for (size_t j = 0; j < fabric.host_count; j++)
				seen |= 1U << found[j];
			assert_int_equal(seen, (1U << fabric.host_count) - 1);
			simulate_fabric_fini(&fabric);
		}
}

/* 512 of 640 hosts. */
static void tensor_groups_of_a_large_cluster_stay_in_leaves(void **unused)
{
	struct ranks_layout layout = { .gpus = 8, .tensor = 16, .data = 64, .pipeline = 4 };
	struct ranks_search search = ranks_search_defaults();
	struct simulate_fabric fabric;
	struct diag diag;
	uint32_t all[1024], found[1024];

	(void)unused;
	assert_int_equal(simulate_fabric_make("leaf-spine:32x20,4:1,100Gbit/s", &fabric, &diag), 0);
	simulate_order_random(&fabric, 5, all);
	search.bytes = 1e9;
	search.steps_most = 1e7;
	assert_int_equal(ranks_hosts(&layout), 512);
	assert_int_equal(ranks_order(&fabric, &layout, all, fabric.host_count, &search, found), 0);
	for (size_t i = 0; i < 512; i += 2) /* tensor groups of two hosts */
		assert_int_equal(fabric.nics[found[i]].leaf, fabric.nics[found[i + 1]].leaf);
	simulate_fabric_fini(&fabric);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_are_laid_out_as_megatron_does),
		cmocka_unit_test(costs_are_those_counted_from_the_definition),
		cmocka_unit_test(loads_are_what_the_simulator_moves),
		cmocka_unit_test(few_hosts_get_the_best_of_all_orders),
		cmocka_unit_test(the_search_finds_it_too),
		cmocka_unit_test(no_ring_is_faster),
		cmocka_unit_test(tensor_groups_stay_in_leaves),
		cmocka_unit_test(a_small_job_gets_one_leaf),
		cmocka_unit_test(loads_follow_moves_exactly),
		cmocka_unit_test(slow_hosts_are_left_out),
		cmocka_unit_test(any_cluster_has_an_order),
		cmocka_unit_test(tensor_groups_of_a_large_cluster_stay_in_leaves),
		cmocka_unit_test(it_is_never_worse_than_what_was_given_nor_different_twice),
		cmocka_unit_test(nor_slower),
	};

	return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}
