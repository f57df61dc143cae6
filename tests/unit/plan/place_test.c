/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where jobs are placed: against all subsets of slots, verified from the definition by code that is not shared; and the cases
 * that docs/guide/cluster.md names.
 */
#include "plan/place.h"

#include "base/log.h"
#include "base/random.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/plan/place_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 12, RUNNING = 3, FASTEST = 10 };

static uint64_t state;

static unsigned draw(unsigned below)
{
	return (unsigned)random_below(&state, below);
}

/* Two switches of four, whose uplinks carry what two of them can. */
static const char two_switches[] = "tributary-cluster 1\nswitch top\nswitch a parent=top rate=20GB/s\n"
				   "switch b parent=top rate=20GB/s\nhost h[0-3] leaf=a rate=10GB/s\n"
				   "host h[4-7] leaf=b rate=10GB/s\n";

/* ------------------------------------------------------------------------------------------------- from the definition */

static bool is_above(const struct plan_place_tree *tree, uint32_t node, uint32_t slot)
{
	uint32_t at = tree->slots[slot].node;

	while (at != PLAN_PLACE_NONE && at != node)
		at = tree->nodes[at].parent;
	return at == node;
}

static double load_of(const struct plan_place_tree *tree, uint32_t node, enum plan_place_kind kind, double rate_Bps,
		      const uint32_t *slots, size_t count)
{
	double sum_Bps = 0, least_Bps = INFINITY;
	size_t below = 0;

	for (size_t i = 0; i < count; i++) {
		double slot_Bps = fmin(rate_Bps, tree->slots[slots[i]].rate_Bps);

		least_Bps = fmin(least_Bps, slot_Bps); /* a job is as fast as its slowest slot */
		if (!is_above(tree, node, slots[i]))
			continue;
		sum_Bps += slot_Bps;
		below++;
	}
	if (tree->nodes[node].parent == PLAN_PLACE_NONE || !below)
		return 0;
	if (kind == PLAN_PLACE_HOST)
		return sum_Bps;
	return below < count ? least_Bps : 0;
}

struct verdict {
	size_t shared;
	double share, crossings, slot_Bps;
};

static struct verdict verifier(const struct plan_place_tree *tree, const struct plan_place_job *running,
			       size_t running_count, const struct plan_place_job *job)
{
	struct verdict verdict = { .share = 1, .slot_Bps = job->rate_Bps };

	/* It is as fast as its slowest slot. */
	for (size_t i = 0; i < job->count; i++)
		verdict.slot_Bps = fmin(verdict.slot_Bps, tree->slots[job->slots[i]].rate_Bps);
	for (uint32_t node = 0; node < tree->node_count; node++) {
		double own = load_of(tree, node, job->kind, verdict.slot_Bps, job->slots, job->count), others = 0;

		for (size_t i = 0; i < running_count; i++)
			others += load_of(tree, node, running[i].kind, running[i].rate_Bps, running[i].slots,
					  running[i].count);
		if (own <= 0)
			continue;
		verdict.crossings += own;
		verdict.shared += others > 0 && own + others > 1.02 * tree->nodes[node].capacity_Bps;
		verdict.share = fmin(verdict.share, tree->nodes[node].capacity_Bps / (own + others));
	}
	return verdict;
}

/* As good, but for what is too little to matter: a twentieth of the rate. */
static bool is_worse(const struct verdict *a, const struct verdict *b, enum plan_place_kind kind)
{
	double a_Bps = a->share * a->slot_Bps, b_Bps = b->share * b->slot_Bps;

	if (a->shared != b->shared)
		return a->shared > b->shared;
	if (fabs(a_Bps - b_Bps) > 0.0501 * FASTEST)
		return a_Bps < b_Bps;
	return kind == PLAN_PLACE_PEER && fabs(a_Bps - b_Bps) < 1e-9 && a->crossings > b->crossings * (1 + 1e-9);
}

/* ------------------------------------------------------------------------------------------------------------- tests */

struct scene {
	struct cluster *cluster;
	struct plan_place_tree tree;
	uint32_t slots[RUNNING][SLOTS];
	struct plan_place_job running[RUNNING];
	bool used[SLOTS];
	size_t slot_count, free;
};

static void random_scene(struct scene *scene)
{
	unsigned leaves = 2 + draw(4), hosts = 6 + draw(SLOTS - 5), each, slow = draw(3);
	char text[2048];
	int at = snprintf(text, sizeof(text),
			  "tributary-cluster 1\nswitch top\nswitch p parent=top rate=%uMB/s\nswitch q parent=top "
			  "rate=%uMB/s\n",
			  10 + draw(40), 10 + draw(40));

	memset(scene, 0, sizeof(*scene));
	for (unsigned i = 0; i < leaves; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "switch l%u parent=%c rate=%uMB/s\n", i,
			       draw(2) ? 'p' : 'q', 10 + draw(30));
	for (unsigned i = 0; i < hosts; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "host h%u leaf=l%u rate=%uMB/s\n", i, draw(leaves),
			       slow && !draw(slow) ? 1 + draw(FASTEST - 2) : FASTEST); /* none alike */
	scene->cluster = tree_of(text, &scene->tree);
	scene->slot_count = scene->free = hosts;
	each = hosts / 4;
	for (size_t i = 0; i < RUNNING; i++) {
		scene->running[i] = (struct plan_place_job){ .kind = draw(2) ? PLAN_PLACE_PEER : PLAN_PLACE_HOST,
							     .rate_Bps = 4 + draw(6),
							     .slots = scene->slots[i] };
		for (unsigned j = draw(each + 1); j > 0; j--) {
			unsigned slot = draw(hosts);

			if (scene->used[slot])
				continue;
			scene->used[slot] = true;
			scene->slots[i][scene->running[i].count++] = slot;
			scene->free--;
		}
	}
}

/* Of a node's slots. One that is slow by itself could fill no uplink, but that is no merit. */
static bool leaves_a_faster_one(const struct scene *scene, unsigned set)
{
	const struct plan_place_slot *slots = scene->tree.slots;

	for (size_t i = 0; i < scene->slot_count; i++)
		for (size_t j = 0; j < scene->slot_count; j++)
			if ((set & 1U << i) && !(set & 1U << j) && !scene->used[j] && slots[i].node == slots[j].node &&
			    slots[i].rate_Bps < slots[j].rate_Bps)
				return true;
	return false;
}

static void nothing_is_better_than_what_is_found(void **unused)
{
	(void)unused;
	for (unsigned seed = 1; seed <= 300; seed++) {
		struct scene scene;
		struct plan_place_job job = { .kind = seed % 2 ? PLAN_PLACE_PEER : PLAN_PLACE_HOST, .rate_Bps = 10 };
		struct plan_place_result result;
		struct verdict found;
		uint32_t slots[SLOTS];

		state = seed * 65537;
		random_scene(&scene);
		job.count = 1 + draw((unsigned)scene.free);
		job.slots = slots;
		assert_int_equal(plan_place(&scene.tree, scene.running, RUNNING, NULL, &job, slots, &result), 0);
		found = verifier(&scene.tree, scene.running, RUNNING, &job);
		assert_int_equal(result.shared, found.shared);
		assert_true(fabs(result.share - found.share) < 1e-9 && fabs(result.crossings - found.crossings) < 1e-9);
		for (size_t i = 0; i < job.count; i++)
			assert_false(scene.used[slots[i]] || (i && slots[i] <= slots[i - 1]));
		for (unsigned set = 0; set < 1U << scene.slot_count; set++) {
			uint32_t other[SLOTS];
			struct plan_place_job another = { job.kind, job.rate_Bps, other, 0 };
			struct verdict verdict;
			bool good = (size_t)__builtin_popcount(set) == job.count;

			for (uint32_t i = 0; good && i < scene.slot_count; i++) {
				good = !(set & 1U << i) || !scene.used[i];
				if (set & 1U << i)
					other[another.count++] = i;
			}
			if (!good || leaves_a_faster_one(&scene, set))
				continue;
			verdict = verifier(&scene.tree, scene.running, RUNNING, &another);
			if (is_worse(&found, &verdict, job.kind))
				fail_msg("seed %u: %zu shared, share %g, %g crossings; another has %zu, %g, %g", seed,
					 found.shared, found.share, found.crossings, verdict.shared, verdict.share,
					 verdict.crossings);
		}
		plan_place_fini(&scene.tree);
		cluster_free(scene.cluster);
	}
}

/* Names of the slots that a job gets on two_switches beside those that run. */
static void check(const struct plan_place_job *running, size_t running_count, enum plan_place_kind kind, size_t count,
		  const char *expected, size_t shared)
{
	struct plan_place_tree tree;
	struct cluster *cluster = tree_of(two_switches, &tree);
	struct plan_place_job job = { .kind = kind, .count = count };
	struct plan_place_result result;
	uint32_t slots[8];
	char text[64] = "";

	assert_int_equal(plan_place(&tree, running, running_count, NULL, &job, slots, &result), 0);
	for (size_t i = 0; i < count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u", i ? "," : "", slots[i]);
	assert_string_equal(text, expected);
	assert_int_equal(result.shared, shared);
	plan_place_fini(&tree);
	cluster_free(cluster);
}

static void host_bound_jobs_are_spread_and_peer_bound_ones_kept(void **unused)
{
	(void)unused;
	check(NULL, 0, PLAN_PLACE_HOST, 4, "0,1,4,5", 0);
	check(NULL, 0, PLAN_PLACE_PEER, 4, "0,1,2,3", 0);
	check(NULL, 0, PLAN_PLACE_HOST, 2, "0,4", 0);
	check(NULL, 0, PLAN_PLACE_PEER, 2, "0,1", 0);
}

static void a_full_uplink_is_not_shared(void **unused)
{
	static const uint32_t two_of_a[] = { 0, 1 }, one_of_each[] = { 0, 4 };
	const struct plan_place_job host = { PLAN_PLACE_HOST, 10e9, two_of_a, 2 },
				    peer = { PLAN_PLACE_PEER, 10e9, one_of_each, 2 },
				    slow = { PLAN_PLACE_HOST, 1e9, two_of_a, 2 };

	(void)unused;
	check(&host, 1, PLAN_PLACE_HOST, 2, "4,5", 0);     /* a's uplink is full with two */
	check(&host, 1, PLAN_PLACE_PEER, 2, "2,3", 0);     /* below a nothing leaves it, and b stays whole */
	check(&host, 1, PLAN_PLACE_HOST, 4, "4,5,6,7", 0); /* slower, but nobody else is */
	check(&peer, 1, PLAN_PLACE_HOST, 2, "1,5", 0);
	check(&slow, 1, PLAN_PLACE_HOST, 2, "2,4", 0); /* 2 of 20 GB/s leave room */
}

/* Of what has room, the switch that it fills: the others stay whole for larger jobs. */
static void holes_are_filled_first(void **unused)
{
	static const uint32_t two_of_b[] = { 4, 5 };
	const struct plan_place_job peer = { PLAN_PLACE_PEER, 10e9, two_of_b, 2 };

	(void)unused;
	check(&peer, 1, PLAN_PLACE_PEER, 2, "6,7", 0);
}

/* More ways than are tried one by one. */
static void large_clusters_are_placed_well_too(void **unused)
{
	char text[8192];
	int at = snprintf(text, sizeof(text), "tributary-cluster 1\nswitch top\n");
	struct plan_place_tree tree;
	struct plan_place_result result;
	struct plan_place_job job = { .kind = PLAN_PLACE_PEER, .count = 16 };
	struct cluster *cluster;
	uint32_t slots[64];

	(void)unused;
	for (int i = 0; i < 32; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       "switch l%d parent=top rate=4GB/s\nhost l%dh[1-%d] leaf=l%d rate=1GB/s\n", i, i,
			       i == 20 ? 18 : 12, i);
	cluster = tree_of(text, &tree);
	assert_int_equal(plan_place(&tree, NULL, 0, NULL, &job, slots, &result), 0);
	assert_true(result.crossings == 0);
	job.kind = PLAN_PLACE_HOST;
	job.count = 64;
	assert_int_equal(plan_place(&tree, NULL, 0, NULL, &job, slots, &result), 0);
	assert_true(result.share == 1);
	for (uint32_t node = 0; node < tree.node_count; node++)
		if (tree.nodes[node].parent != PLAN_PLACE_NONE)
			assert_true(load_of(&tree, node, PLAN_PLACE_HOST, 1, slots, 64) == 2);
	plan_place_fini(&tree);
	cluster_free(cluster);
}

/* Few ways, but sixteen switches each of which could leave some slots to the others: dead ends are not walked. */
static void nearly_all_of_a_cluster_is_placed_at_once(void **unused)
{
	static const size_t counts[] = { 128, 127, 126, 122 };
	char text[4096] = "tributary-cluster 1\nswitch top\n";
	size_t at = strlen(text);
	struct plan_place_tree tree;
	struct cluster *cluster;

	(void)unused;
	for (unsigned i = 0; i < 16; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "switch s%u parent=top rate=20GB/s\nhost h%u_[0-7] leaf=s%u rate=10GB/s\n", i, i,
				       i);
	cluster = tree_of(text, &tree);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct plan_place_job job = { .kind = PLAN_PLACE_PEER, .count = counts[i] };
		struct plan_place_result result;
		uint32_t slots[128];

		assert_int_equal(plan_place(&tree, NULL, 0, NULL, &job, slots, &result), 0);
	}
	plan_place_fini(&tree);
	cluster_free(cluster);
}

/* 16 of 40 hosts, of which every second has half of the rate: more ways than are tried one by one. */
static void slow_hosts_are_left_out(void **unused)
{
	char text[4096] = "tributary-cluster 1\nswitch top\n";
	size_t at = strlen(text);
	struct plan_place_job job = { .kind = PLAN_PLACE_PEER, .count = 16 };
	struct plan_place_result result;
	struct plan_place_tree tree;
	struct cluster *cluster;
	uint32_t slots[40];

	(void)unused;
	for (unsigned i = 0; i < 10; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "switch s%u parent=top rate=40GB/s\nhost h%u_[0-1] leaf=s%u rate=5GB/s\n"
				       "host h%u_[2-3] leaf=s%u rate=10GB/s\n",
				       i, i, i, i, i);
	cluster = tree_of(text, &tree);
	for (int kind = 0; kind < 2; kind++) {
		job.kind = kind ? PLAN_PLACE_HOST : PLAN_PLACE_PEER;
		assert_int_equal(plan_place(&tree, NULL, 0, NULL, &job, slots, &result), 0);
		for (size_t i = 0; i < job.count; i++)
			assert_true(tree.slots[slots[i]].rate_Bps > 9e9);
		assert_true(result.share == 1);
	}
	plan_place_fini(&tree);
	cluster_free(cluster);
}

static void too_few_free_slots_are_said(void **unused)
{
	struct plan_place_tree tree;
	struct cluster *cluster = tree_of(two_switches, &tree);
	struct plan_place_job job = { .kind = PLAN_PLACE_PEER, .count = 8 };
	struct plan_place_result result;
	bool busy[8] = { [3] = true };
	uint32_t slots[8];

	(void)unused;
	assert_int_equal(plan_place(&tree, NULL, 0, busy, &job, slots, &result), -ENOSPC);
	job.count = 4;
	assert_int_equal(plan_place(&tree, NULL, 0, busy, &job, slots, &result), 0);
	assert_int_equal(slots[0], 4);
	plan_place_fini(&tree);
	cluster_free(cluster);
}

static void queues_have_peer_bound_and_large_jobs_first(void **unused)
{
	static const struct plan_place_job jobs[] = { { .kind = PLAN_PLACE_HOST, .count = 8 },
						      { .kind = PLAN_PLACE_PEER, .count = 2 },
						      { .kind = PLAN_PLACE_PEER, .count = 4 },
						      { .kind = PLAN_PLACE_HOST, .count = 1 },
						      { .kind = PLAN_PLACE_PEER, .count = 2 } };
	static const size_t expected[] = { 2, 1, 4, 0, 3 };
	size_t order[5];

	(void)unused;
	plan_place_queue(jobs, 5, order);
	assert_memory_equal(order, expected, sizeof(expected));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_better_than_what_is_found),
		cmocka_unit_test(host_bound_jobs_are_spread_and_peer_bound_ones_kept),
		cmocka_unit_test(a_full_uplink_is_not_shared),
		cmocka_unit_test(holes_are_filled_first),
		cmocka_unit_test(large_clusters_are_placed_well_too),
		cmocka_unit_test(nearly_all_of_a_cluster_is_placed_at_once),
		cmocka_unit_test(slow_hosts_are_left_out),
		cmocka_unit_test(too_few_free_slots_are_said),
		cmocka_unit_test(queues_have_peer_bound_and_large_jobs_first),
	};

	return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
