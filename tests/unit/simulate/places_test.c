/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of jobs side by side, against figures worked out by hand; and placements, never worse than the closed form's. */
#include "simulate/places.h"

#include "base/log.h"
#include "base/random.h"
#include "tributary/cluster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/plan/place_tree.h"

#include <stdio.h>
#include <string.h>

enum { SLOTS = 24, RUNNING = 4 };

static uint64_t state;

static unsigned draw(unsigned below)
{
	return (unsigned)random_below(&state, below);
}

/*
 * a's uplink carries 4 GB/s, b's 3, c's 12. A ring from a to b: 3 at most. With a host-bound job of two slots in b, all three
 * flows share b's uplink: 1 each; then a has 3 left for a host there, which its own rate bounds.
 */
static void rates_are_max_min_fair(void **unused)
{
	static const uint32_t ring[] = { 0, 1, 4 }, loader[] = { 5, 6 }, alone[] = { 2 };
	const struct plan_place_job jobs[] = {
		{ .kind = PLAN_PLACE_PEER, .slots = ring, .count = 3 },
		{ .kind = PLAN_PLACE_HOST, .slots = loader, .count = 2 },
		{ .kind = PLAN_PLACE_HOST, .rate_Bps = 2.5e9, .slots = alone, .count = 1 },
	};
	struct plan_place_tree tree;
	struct cluster *cluster = tree_of("tributary-cluster 1\nswitch top\nswitch a parent=top rate=4GB/s\n"
					  "switch b parent=top rate=3GB/s\nswitch c parent=top rate=12GB/s\n"
					  "host h[0-3] leaf=a rate=10GB/s\nhost h[4-7] leaf=b rate=10GB/s\n",
					  &tree);
	double rates_Bps[3];

	(void)unused;
	assert_int_equal(places_rates(&tree, jobs, 1, rates_Bps), 0);
	assert_true(fabs(rates_Bps[0] - 3e9) < 1);
	assert_int_equal(places_rates(&tree, jobs, 2, rates_Bps), 0);
	assert_true(fabs(rates_Bps[0] - 1e9) < 1 && fabs(rates_Bps[1] - 1e9) < 1);
	assert_int_equal(places_rates(&tree, jobs, 3, rates_Bps), 0);
	assert_true(fabs(rates_Bps[0] - 1e9) < 1 && fabs(rates_Bps[2] - 2.5e9) < 1);
	plan_place_fini(&tree);
	cluster_free(cluster);
}

/*
 * A ring over a, b and c goes at 1 GB/s, what c's uplink carries: it leaves 9 of a's, and the closed form, which takes it to
 * send 8, sees only 2 there, less than the 5 of d's.
 */
static void a_job_that_is_held_up_elsewhere_leaves_room(void **unused)
{
	static const uint32_t ring[] = { 0, 2, 4 };
	const struct plan_place_job running = { .kind = PLAN_PLACE_PEER, .slots = ring, .count = 3 };
	const struct plan_place_job job = { .kind = PLAN_PLACE_HOST, .count = 1 };
	bool busy[8] = { [3] = true, [5] = true, [7] = true };
	struct plan_place_result result;
	struct plan_place_tree tree;
	struct cluster *cluster = tree_of("tributary-cluster 1\nswitch top\nswitch a parent=top rate=10GB/s\n"
					  "switch b parent=top rate=10GB/s\nswitch c parent=top rate=1GB/s\n"
					  "switch d parent=top rate=5GB/s\nhost h[0-1] leaf=a rate=8GB/s\n"
					  "host h[2-3] leaf=b rate=8GB/s\nhost h[4-5] leaf=c rate=8GB/s\n"
					  "host h[6-7] leaf=d rate=8GB/s\n",
					  &tree);
	uint32_t slot;

	(void)unused;
	assert_int_equal(plan_place(&tree, &running, 1, busy, &job, &slot, &result), 0);
	assert_int_equal(slot, 6);
	assert_int_equal(places_find(&tree, &running, 1, busy, &job, &slot, &result), 0);
	assert_int_equal(slot, 1);
	assert_int_equal(result.shared, 0);
	assert_true(fabs(result.share - 1) < 1e-6);
	plan_place_fini(&tree);
	cluster_free(cluster);
}

struct scene {
	struct plan_place_tree tree;
	struct plan_place_job jobs[RUNNING + 1];
	uint32_t slots[RUNNING + 1][SLOTS];
	size_t running;
	bool used[SLOTS];
};

static struct cluster *scene_init(struct scene *scene)
{
	char text[4096];
	unsigned leaves = 2 + draw(4), left = SLOTS;
	int at = snprintf(text, sizeof(text), "tributary-cluster 1\nswitch top\n");
	struct cluster *cluster;

	for (unsigned i = 0; i < leaves; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "switch l%u parent=top rate=%uGB/s\n", i,
			       1 + draw(12));
	for (unsigned i = 0; i < SLOTS; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "host h%u leaf=l%u rate=%uGB/s\n", i,
			       i < leaves ? i : draw(leaves), draw(4) ? 4 : 2);
	memset(scene, 0, sizeof(*scene));
	cluster = tree_of(text, &scene->tree);
	for (scene->running = 0; scene->running <= RUNNING; scene->running++) {
		struct plan_place_job *job = &scene->jobs[scene->running];
		unsigned count = 1 + draw(left / 3);

		*job = (struct plan_place_job){ .kind = draw(2) ? PLAN_PLACE_PEER : PLAN_PLACE_HOST,
						.rate_Bps = draw(2) ? 0 : 1e9 * (1 + draw(4)),
						.slots = scene->slots[scene->running],
						.count = count };
		if (scene->running == RUNNING)
			break;
		for (unsigned i = 0; i < count; i++) {
			uint32_t slot = draw(SLOTS);

			while (scene->used[slot])
				slot = (slot + 1) % SLOTS;
			scene->used[slot] = true;
			scene->slots[scene->running][i] = slot;
		}
		left -= count;
	}
	return cluster;
}

/* The job's rate, and the least part that another one keeps. */
static void rates_with(struct scene *scene, double *ret_Bps, double *ret_others)
{
	double before_Bps[RUNNING + 1], after_Bps[RUNNING + 1];

	assert_int_equal(places_rates(&scene->tree, scene->jobs, scene->running, before_Bps), 0);
	assert_int_equal(places_rates(&scene->tree, scene->jobs, scene->running + 1, after_Bps), 0);
	*ret_Bps = after_Bps[scene->running];
	*ret_others = 1;
	for (size_t i = 0; i < scene->running; i++)
		*ret_others = fmin(*ret_others, after_Bps[i] / before_Bps[i]);
}

static void it_is_never_worse_than_the_closed_form_nor_different_twice(void **unused)
{
	unsigned better = 0;

	(void)unused;
	for (unsigned seed = 1; seed <= 400; seed++) {
		struct scene scene;
		struct cluster *cluster;
		struct plan_place_result closed, verified;
		double closed_Bps, closed_others, verified_Bps, verified_others;
		uint32_t again[SLOTS], *slots = scene.slots[RUNNING];
		bool taken[SLOTS];

		state = seed * 314159;
		cluster = scene_init(&scene);
		assert_int_equal(
			plan_place(&scene.tree, scene.jobs, RUNNING, NULL, &scene.jobs[RUNNING], slots, &closed), 0);
		rates_with(&scene, &closed_Bps, &closed_others);
		assert_int_equal(
			places_find(&scene.tree, scene.jobs, RUNNING, NULL, &scene.jobs[RUNNING], again, &verified), 0);
		assert_int_equal(
			places_find(&scene.tree, scene.jobs, RUNNING, NULL, &scene.jobs[RUNNING], slots, &verified), 0);
		assert_memory_equal(again, slots, scene.jobs[RUNNING].count * sizeof(*slots));
		memcpy(taken, scene.used, sizeof(taken));
		for (size_t i = 0; i < scene.jobs[RUNNING].count; i++) {
			assert_true(slots[i] < SLOTS && !taken[slots[i]] && (!i || slots[i] > slots[i - 1]));
			taken[slots[i]] = true;
		}
		rates_with(&scene, &verified_Bps, &verified_others);
		if (verified_Bps < closed_Bps * 0.999 || verified_others < closed_others * 0.999 ||
		    (verified.shared && !closed.shared))
			fail_msg("seed %u: %g, others %g, shared %zu; closed form %g, %g, %zu", seed, verified_Bps,
				 verified_others, verified.shared, closed_Bps, closed_others, closed.shared);
		better += verified_Bps > closed_Bps * 1.01 || verified_others > closed_others * 1.01;
		plan_place_fini(&scene.tree);
		cluster_free(cluster);
	}
	assert_true(better > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_max_min_fair),
		cmocka_unit_test(a_job_that_is_held_up_elsewhere_leaves_room),
		cmocka_unit_test(it_is_never_worse_than_the_closed_form_nor_different_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
