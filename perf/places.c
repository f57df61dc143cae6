/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places: whether hosts that `tributary place` gives a job are the best there are, on random clusters with jobs that run, at
 * the simulator's max-min fair rates, which the closed form of plan/place.c does not know: it takes every job to send all that it
 * can. Of each cluster all ways to take hosts of switches, or as many random ones. Needs no network.
 *
 * A line for each cluster where another placement is better: faster by 5 % and no other job slower, or the reverse.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "common/args.h"
#include "common/clusters.h"
#include "plan/place.h"
#include "simulate/places.h"

enum { RUNNING_MOST = 5, SLOTS_MOST = 1024, NODES_MOST = 64 };
#define ENDLESS_B 1e18
#define MORE      1.05
#define SAME      0.99

struct scene {
	struct cluster *cluster;
	struct plan_place_tree tree;
	struct plan_place_job jobs[RUNNING_MOST + 1]; /* those that run, then the one that is placed */
	uint32_t slots[RUNNING_MOST + 1][SLOTS_MOST];
	size_t running;
	bool used[SLOTS_MOST];
	double before_Bps[RUNNING_MOST + 1]; /* what those that run have without it */
};

struct outcome {
	double rate_Bps; /* of the slowest slot */
	double others;   /* the least part that another job keeps of its rate */
};

static uint64_t state;

static unsigned draw(unsigned low, unsigned high)
{
	return clusters_number(&state, low, high);
}

/* --------------------------------------------------------------------------------------------------------- simulation */

static int try_it(const struct scene *scene, struct outcome *ret)
{
	double after_Bps[RUNNING_MOST + 1];
	int r = places_rates(&scene->tree, scene->jobs, scene->running + 1, after_Bps);

	if (r < 0)
		return r;
	*ret = (struct outcome){ after_Bps[scene->running], 1 };
	for (size_t i = 0; i < scene->running; i++)
		ret->others = fmin(ret->others, after_Bps[i] / scene->before_Bps[i]);
	return 0;
}

static bool is_better(struct outcome a, struct outcome b)
{
	return a.rate_Bps >= SAME * b.rate_Bps && a.others >= SAME * b.others &&
	       (a.rate_Bps > MORE * b.rate_Bps || a.others > MORE * b.others);
}

/* ------------------------------------------------------------------------------------------------------------ drawing */

static size_t free_slots(const struct scene *scene)
{
	size_t count = 0;

	for (size_t i = 0; i < scene->tree.slot_count; i++)
		count += !scene->used[i];
	return count;
}

static void draw_job(struct scene *scene, struct plan_place_job *job, size_t most)
{
	*job = (struct plan_place_job){ .kind = draw(0, 2) ? PLAN_PLACE_PEER : PLAN_PLACE_HOST,
					.rate_Bps = draw(0, 1) ? 0 : CLUSTERS_HOST_BPS * draw(1, 4) / 4,
					.slots = scene->slots[job - scene->jobs],
					.count = draw(1, (unsigned)most) };
	if (job->kind == PLAN_PLACE_PEER && job->count < 2)
		job->count = 2;
}

/* As `tributary place` does it, or anywhere: other schedulers do. */
static int start_job(struct scene *scene, bool anywhere)
{
	struct plan_place_job *job = &scene->jobs[scene->running];
	struct plan_place_result result;
	uint32_t *slots = scene->slots[scene->running];
	int r = 0;

	if (!anywhere)
		r = plan_place(&scene->tree, scene->jobs, scene->running, NULL, job, slots, &result);
	for (size_t i = 0; anywhere && i < job->count; i++) {
		do
			slots[i] = draw(0, (unsigned)scene->tree.slot_count - 1);
		while (scene->used[slots[i]]);
		scene->used[slots[i]] = true;
	}
	for (size_t i = 0; r == 0 && i < job->count; i++)
		scene->used[slots[i]] = true;
	scene->running += r == 0;
	return r;
}

static int scene_init(struct scene *scene, unsigned seed)
{
	struct diag diag = { 0 };
	unsigned running;
	int r;

	state = seed * UINT64_C(0x9e3779b97f4a7c15);
	r = clusters_draw(&state, draw(1, 2), &scene->cluster, &diag);
	if (r == 0)
		r = plan_place_of_cluster(scene->cluster, &scene->tree);
	if (r < 0)
		return r;
	running = draw(1, RUNNING_MOST);
	for (unsigned i = 0; r == 0 && i < running && free_slots(scene) >= 6; i++) {
		draw_job(scene, &scene->jobs[i], free_slots(scene) / 3);
		r = start_job(scene, draw(0, 1));
	}
	if (r == 0)
		r = places_rates(&scene->tree, scene->jobs, scene->running, scene->before_Bps);
	if (r == 0)
		draw_job(scene, &scene->jobs[scene->running], free_slots(scene) / 2);
	return r;
}

/* ----------------------------------------------------------------------------------------------------------- comparing */

struct comparison {
	struct outcome closed, verified, best;
	bool shared[2]; /* by the closed form, verified */
};

/* Random slots, half of the time beside those of the best. */
static void draw_slots(struct scene *scene, const uint32_t *best, uint32_t *slots, size_t count)
{
	bool taken[SLOTS_MOST] = { false };
	size_t kept = draw(0, 1) ? count - draw(1, count > 3 ? 3 : (unsigned)count) : 0;

	for (size_t i = 0; i < count; i++) {
		if (i < kept) {
			slots[i] = best[i];
		} else {
			do
				slots[i] = draw(0, (unsigned)scene->tree.slot_count - 1);
			while (scene->used[slots[i]] || taken[slots[i]]);
		}
		taken[slots[i]] = true;
	}
	for (size_t i = 0; i < count; i++) { /* another part of them is kept next time */
		size_t at = draw(0, (unsigned)count - 1);
		uint32_t other = slots[i];

		slots[i] = slots[at];
		slots[at] = other;
	}
}

static int compare(struct scene *scene, unsigned tries, struct comparison *ret)
{
	struct plan_place_job *job = &scene->jobs[scene->running];
	uint32_t *slots = scene->slots[scene->running], best[SLOTS_MOST];
	struct plan_place_result result = { 0 };
	int r = plan_place(&scene->tree, scene->jobs, scene->running, NULL, job, slots, &result);

	if (r == 0)
		r = try_it(scene, &ret->closed);
	ret->shared[0] = result.shared > 0;
	if (r == 0)
		r = places_find(&scene->tree, scene->jobs, scene->running, NULL, job, slots, &result);
	if (r == 0)
		r = try_it(scene, &ret->verified);
	ret->shared[1] = result.shared > 0;
	memcpy(best, slots, job->count * sizeof(*best));
	ret->best = ret->verified;
	for (unsigned i = 0; r == 0 && i < tries; i++) {
		struct outcome outcome;

		draw_slots(scene, best, slots, job->count);
		r = try_it(scene, &outcome);
		if (r == 0 && is_better(outcome, ret->best)) {
			ret->best = outcome;
			memcpy(best, slots, job->count * sizeof(*best));
		}
	}
	return r;
}

struct counts {
	unsigned better, worse, possible, waits[2];
};

static void report(unsigned seed, const struct scene *scene, const struct comparison *is, struct counts *counts)
{
	const struct plan_place_job *job = &scene->jobs[scene->running];
	bool better = is_better(is->verified, is->closed), possible = is_better(is->best, is->verified);

	counts->better += better;
	counts->possible += possible;
	counts->worse += (is->shared[1] && !is->shared[0]) ||
			 is->verified.rate_Bps < is->closed.rate_Bps * (1 - 1e-6) ||
			 is->verified.others < is->closed.others * (1 - 1e-6);
	for (int i = 0; i < 2; i++)
		counts->waits[i] += is->shared[i];
	if (better || possible)
		printf("cluster %u, %s:%zu of %zu hosts beside %zu jobs: closed form %.2f GB/s, others keep %.2f%s; verified %.2f, "
		       "%.2f%s; best found %.2f, %.2f\n",
		       seed, job->kind == PLAN_PLACE_HOST ? "host" : "peer", job->count, scene->tree.slot_count,
		       scene->running, is->closed.rate_Bps / 1e9, is->closed.others, is->shared[0] ? ", waits" : "",
		       is->verified.rate_Bps / 1e9, is->verified.others, is->shared[1] ? ", waits" : "",
		       is->best.rate_Bps / 1e9, is->best.others);
}

int main(int argc, char **argv)
{
	int first = 1, count = 200, tries = 2000, r;
	struct counts counts = { 0 };
	const struct args_option options[] = {
		{ "first", ARGS_INT, &first, "the first cluster's seed" },
		{ "count", ARGS_INT, &count, "clusters" },
		{ "tries", ARGS_INT, &tries, "other placements of each" },
		{ NULL, ARGS_FLAG, NULL, NULL },
	};

	r = args_parse(argc, argv, "placements of jobs on random clusters", options);
	if (r)
		return r < 0 ? 2 : 0;
	for (int i = 0; r == 0 && i < count; i++) {
		static struct scene scene;
		struct comparison is = { .shared = { false } };

		memset(&scene, 0, sizeof(scene));
		r = scene_init(&scene, (unsigned)(first + i));
		if (r == 0)
			r = compare(&scene, (unsigned)tries, &is);
		if (r == 0)
			report((unsigned)(first + i), &scene, &is, &counts);
		plan_place_fini(&scene.tree);
		cluster_free(scene.cluster);
	}
	if (r < 0)
		fprintf(stderr, "places: %s\n", strerror(-r));
	printf("clusters: %d; verified over closed form: better %u, worse %u; a better one is left in %u; jobs wait in %u, verified "
	       "%u\n",
	       count, counts.better, counts.worse, counts.possible, counts.waits[0], counts.waits[1]);
	return r ? 1 : 0;
}
