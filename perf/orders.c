/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orders: how good the orders of `tributary cluster order` are on random clusters (leaves of unequal size, unequal uplinks,
 * two or three tiers, hosts of half rate, hosts that others have taken), by the simulator's time; and Kendall's tau between
 * the search's closed form and the simulator over random orders of each cluster. Needs no network.
 *
 * A line a cluster: what was found, so that two builds can be compared (perf/orders.py).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "common/args.h"
#include "common/clock.h"
#include "common/clusters.h"
#include "simulate/job.h"
#include "simulate/ranks.h"
#include "tributary/cluster.h"

enum { ORDERS = 24 };
#define BYTES 1073741824.0

struct scene {
	struct simulate_fabric fabric;
	struct ranks_layout layout;
	uint32_t *hosts; /* free ones, mixed */
	size_t host_count;
};

static uint64_t state;

static unsigned draw(unsigned low, unsigned high)
{
	return clusters_number(&state, low, high);
}

/* Plain data parallelism, or Megatron's three, over at least half of the free hosts. */
static void draw_layout(struct scene *scene)
{
	struct ranks_layout *layout = &scene->layout;
	size_t used;

	*layout = (struct ranks_layout){ .gpus = 1U << draw(0, 3), .tensor = 1, .pipeline = 1 };
	used = draw(0, 1) ? scene->host_count : draw((unsigned)scene->host_count / 2 + 1, (unsigned)scene->host_count);
	if (draw(0, 1)) {
		layout->tensor = layout->gpus * draw(1, 3);
		layout->pipeline = 1U << draw(0, 2);
		while (layout->tensor / layout->gpus * layout->pipeline > used) {
			layout->tensor = layout->gpus;
			layout->pipeline /= 2;
		}
	}
	layout->data = (unsigned)(used * layout->gpus / (layout->tensor * layout->pipeline));
}

static int scene_init(struct scene *scene, unsigned seed)
{
	unsigned size = seed % 10 ? draw(1, 3) : draw(4, 8), taken = draw(0, 1) ? draw(10, 40) : 0;
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };
	int r = clusters_draw(&state, size, &cluster, &diag);

	if (r == 0)
		r = simulate_fabric_of_cluster(cluster, &scene->fabric, &diag);
	cluster_free(cluster);
	if (r < 0) {
		fprintf(stderr, "orders: seed %u: %s\n", seed, diag.text);
		return r;
	}
	scene->hosts = scene->fabric.host_count ? calloc(scene->fabric.host_count, sizeof(*scene->hosts)) : NULL;
	if (!scene->hosts)
		return -1;
	simulate_order_random(&scene->fabric, seed, scene->hosts);
	for (size_t i = 0; i < scene->fabric.host_count; i++)
		if (!scene->host_count || draw(1, 100) > taken)
			scene->hosts[scene->host_count++] = scene->hosts[i];
	draw_layout(scene);
	return 0;
}

static void scene_fini(struct scene *scene)
{
	free(scene->hosts);
	simulate_fabric_fini(&scene->fabric);
}

static double time_of(const struct scene *scene, const uint32_t *order, const struct ranks_cost *costs,
		      enum ranks_phase phase)
{
	double time_s = costs[phase].worst_s * BYTES;
	struct diag diag = { 0 };

	if (time_s > 0 && ranks_can_simulate(&scene->layout, phase))
		ranks_time(&scene->fabric, &scene->layout, order, phase, BYTES, SIMULATE_AUTO, &time_s, &diag);
	return time_s;
}

/* Of random orders and ones between them and the best: pairs in order less pairs out of order, of both unequal; tau b. */
static double tau_of(const struct scene *scene, const uint32_t *found, enum ranks_phase phase)
{
	double closed[ORDERS], simulated[ORDERS], balance = 0, by_closed = 0, by_simulated = 0;
	size_t used = ranks_hosts(&scene->layout);
	uint32_t *order = malloc(used * sizeof(*order));
	struct ranks_cost costs[RANKS_PHASE_COUNT];

	if (!order)
		return NAN;
	memcpy(order, found, used * sizeof(*order));
	for (size_t i = 0; i < ORDERS; i++) {
		size_t a = random_below(&state, used), b = random_below(&state, used);
		uint32_t other = order[a];

		ranks_costs(&scene->fabric, &scene->layout, order, costs, NULL);
		closed[i] = costs[phase].worst_s * BYTES;
		simulated[i] = time_of(scene, order, costs, phase);
		order[a] = order[b];
		order[b] = other;
	}
	for (size_t i = 0; i < ORDERS; i++)
		for (size_t j = 0; j < i; j++) {
			double first = closed[i] / closed[j] - 1, second = simulated[i] / simulated[j] - 1;
			int one = (first > 1e-3) - (first < -1e-3), two = (second > 1e-3) - (second < -1e-3);

			balance += one * two;
			by_closed += one != 0;
			by_simulated += two != 0;
		}
	free(order);
	return by_closed > 0 && by_simulated > 0 ? balance / sqrt(by_closed * by_simulated) : NAN;
}

static int search(unsigned seed, bool tau)
{
	struct scene scene = { .host_count = 0 };
	struct ranks_search options = ranks_search_defaults();
	struct ranks_cost costs[RANKS_PHASE_COUNT];
	uint32_t *found;
	double cpu_s;
	int r;

	state = seed * UINT64_C(0x9e3779b97f4a7c15);
	r = scene_init(&scene, seed);
	if (r < 0)
		return r;
	found = calloc(scene.host_count, sizeof(*found));
	options.given = scene.hosts;
	options.bytes = BYTES;
	options.tree_first = seed / 2 % 2;
	cpu_s = perf_cpu_s();
	r = found ? ranks_order(&scene.fabric, &scene.layout, scene.hosts, scene.host_count, &options, found) : -1;
	cpu_s = perf_cpu_s() - cpu_s;
	if (r == 0)
		r = ranks_costs(&scene.fabric, &scene.layout, found, costs, NULL);
	if (r == 0) {
		printf("%u %zu %zu %zu %u %u %u %u %.2f", seed, scene.fabric.host_count, scene.host_count,
		       ranks_hosts(&scene.layout), scene.layout.gpus, scene.layout.tensor, scene.layout.data,
		       scene.layout.pipeline, cpu_s * 1e3);
		for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
			printf(" %.6f", time_of(&scene, found, costs, (enum ranks_phase)phase));
		for (int phase = 0; phase < RANKS_PHASE_COUNT; phase++)
			printf(" %.6f %.3f", costs[phase].uplinks_s * BYTES, costs[phase].crossings);
		for (int phase = 0; tau && phase < RANKS_PIPELINE; phase++)
			printf(" %.3f", tau_of(&scene, found, (enum ranks_phase)phase));
		putchar('\n');
	}
	free(found);
	scene_fini(&scene);
	return r;
}

int main(int argc, char **argv)
{
	int first = 1, count = 200, r;
	bool tau = false;
	const struct args_option options[] = {
		{ "first", ARGS_INT, &first, "the first cluster's seed" },
		{ "count", ARGS_INT, &count, "clusters" },
		{ "tau", ARGS_FLAG, &tau, "rank agreement, too" },
		{ NULL, ARGS_FLAG, NULL, NULL },
	};

	r = args_parse(argc, argv, "orders of hosts on random clusters", options);
	if (r)
		return r < 0 ? 2 : 0;
	puts("# seed hosts free used gpus tensor data pipeline cpu_ms tensor_s ring_s tree_s pipeline_s, uplinks_s and crossings "
	     "of each [tau of the first three]");
	for (int i = 0; r == 0 && i < count; i++)
		r = search((unsigned)(first + i), tau);
	return r ? 1 : 0;
}
