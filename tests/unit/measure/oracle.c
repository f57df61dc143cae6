/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * The simplex method on a dense tableau (Dantzig 1947). x = 0 is feasible. Largest coefficient first, and the first one
 * by index (Bland 1977) when that has gone on for long, so that it cannot cycle.
 */
double oracle_maximise(const double *weight, const double *bound, const double *gain, size_t rows, size_t columns)
{
	size_t width = columns + rows + 1;
	double *table = calloc((rows + 1) * width, sizeof(*table)), *goal = &table[rows * width], best;

	assert_non_null(table);
	for (size_t i = 0; i < rows; i++) {
		memcpy(&table[i * width], &weight[i * columns], columns * sizeof(*table));
		table[i * width + columns + i] = 1;
		table[i * width + width - 1] = bound[i];
	}
	memcpy(goal, gain, columns * sizeof(*table));
	for (size_t step = 0;; step++) {
		size_t enter = width, leave = rows;
		double ratio = INFINITY;

		assert_true(step < 20000);
		for (size_t j = 0; j + 1 < width; j++)
			if (goal[j] > 1e-9 && (enter == width || (step < 2000 && goal[j] > goal[enter])))
				enter = j;
		if (enter == width)
			break;
		for (size_t i = 0; i < rows; i++)
			if (table[i * width + enter] > 1e-9 &&
			    table[i * width + width - 1] / table[i * width + enter] < ratio) {
				ratio = table[i * width + width - 1] / table[i * width + enter];
				leave = i;
			}
		assert_true(leave < rows); /* bounded */
		for (size_t i = 0; i <= rows; i++) {
			double factor = table[i * width + enter] / table[leave * width + enter];

			if (i == leave || factor == 0)
				continue;
			for (size_t j = 0; j < width; j++)
				table[i * width + j] -= factor * table[leave * width + j];
		}
		ratio = table[leave * width + enter];
		for (size_t j = 0; j < width; j++)
			table[leave * width + j] /= ratio;
	}
	best = -goal[width - 1];
	free(table);
	return best;
}

size_t oracle_flows(const struct topology *truth, struct probe *probe, struct probe_flow **ret)
{
	size_t count = 0;

	*ret = calloc(PROBE_ENGINE_COUNT * truth->vertex_count * truth->vertex_count, sizeof(**ret));
	assert_non_null(*ret);
	for (uint32_t i = 0; i < truth->vertex_count; i++)
		for (uint32_t j = 0; j < truth->vertex_count; j++) {
			struct probe_flow flow = { .flow = { i, j, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE } };

			if (i != j && probe->ops->can(probe, &flow))
				(*ret)[count++] = flow;
			flow.engine = PROBE_ENGINE_KERNEL;
			if (i != j && probe->ops->can(probe, &flow))
				(*ret)[count++] = flow;
		}
	return count;
}

/* The constraints of the flows that cross one directed link. */
struct program {
	struct probe_simulated_rows rows;
	double *weight, *bound, *gain;
	uint32_t directed;
};

/* The most through the link when it is unbounded itself, with or without the rules of one device. GB/s inside. */
static double most_without(struct program *program, uint32_t device, bool with_link)
{
	const struct probe_simulated_rows *rows = &program->rows;
	size_t count = 0;

	for (size_t i = 0; i < rows->count; i++) {
		if ((rows->directed[i] == program->directed && !with_link) ||
		    (device != TOPOLOGY_NONE && rows->device[i] == device))
			continue;
		memcpy(&program->weight[count * rows->flow_count], &rows->weight[i * rows->flow_count],
		       rows->flow_count * sizeof(double));
		program->bound[count++] = rows->bound_Bps[i] / 1e9;
	}
	/* A link that nothing else bounds may carry anything. */
	for (size_t i = 0; i < rows->flow_count; i++)
		program->weight[count * rows->flow_count + i] = 1;
	program->bound[count++] = 1e5;
	return oracle_maximise(program->weight, program->bound, program->gain, count, rows->flow_count) * 1e9;
}

static bool crosses(const struct topology *truth, const struct probe_flow *flow, uint32_t directed)
{
	struct topology_route route;

	assert_int_equal(topology_route(truth, &flow->flow, &route), 0);
	for (size_t i = 0; i < route.count; i++)
		if (route.links[i] == directed)
			return true;
	return false;
}

static uint32_t device_of(const struct topology *truth, uint32_t directed)
{
	const struct topology_link *link = &truth->links[directed / 2];
	enum topology_kind kind = truth->vertices[link->lower].kind;

	return kind == TOPOLOGY_GPU || kind == TOPOLOGY_NIC ? link->lower : TOPOLOGY_NONE;
}

/*
 * Engines of the device that hold up its usual flows are as good as its link, even if kernels beside them bring a
 * little more.
 */
static bool limited_by_engines(struct program *program, const struct probe_flow *crossing, size_t count,
			       uint32_t device)
{
	double with, without;

	for (size_t i = 0; i < count; i++)
		program->gain[i] = crossing[i].engine == PROBE_ENGINE_DEFAULT;
	with = most_without(program, TOPOLOGY_NONE, false);
	without = most_without(program, device, false);
	return without > with * (1 + 1e-9);
}

static void oracle_link(const struct topology *truth, struct probe *probe, const struct probe_flow *flows, size_t count,
			uint32_t directed, struct oracle_link *ret)
{
	double rate = (double)truth->links[directed / 2].capacity[directed % 2].rate_Bps, free_Bps, engines_Bps;
	struct probe_flow *crossing = calloc(count + 1, sizeof(*crossing));
	struct program program = { .directed = directed };
	uint32_t device = device_of(truth, directed);
	size_t crossing_count = 0;

	assert_non_null(crossing);
	/* Kernels beside copy engines are for what a device's own slot carries. */
	for (size_t i = 0; i < count; i++)
		if ((device != TOPOLOGY_NONE || flows[i].engine == PROBE_ENGINE_DEFAULT) &&
		    crosses(truth, &flows[i], directed))
			crossing[crossing_count++] = flows[i];
	*ret = (struct oracle_link){ .crossed = crossing_count > 0 };
	if (crossing_count) {
		assert_int_equal(simulated_probe_constraints(probe, crossing, crossing_count, &program.rows), 0);
		program.weight = calloc((program.rows.count + 1) * crossing_count, sizeof(double));
		program.bound = calloc(program.rows.count + 1, sizeof(double));
		program.gain = calloc(crossing_count, sizeof(double));
		assert_true(program.weight && program.bound && program.gain);
		for (size_t i = 0; i < crossing_count; i++)
			program.gain[i] = 1;
		ret->most_Bps = most_without(&program, TOPOLOGY_NONE, true);
		free_Bps = most_without(&program, TOPOLOGY_NONE, false);
		ret->loadable = free_Bps >= rate * (1 - 1e-9);
		ret->true_Bps = rate;
		ret->over = free_Bps / rate;
		if (!ret->loadable && device != TOPOLOGY_NONE) {
			engines_Bps = most_without(&program, device, false);
			ret->loadable = engines_Bps > free_Bps * (1 + 1e-9) ||
					limited_by_engines(&program, crossing, crossing_count, device);
			ret->true_Bps = free_Bps;
			ret->over = engines_Bps / free_Bps;
		}
		for (size_t i = 0; i < crossing_count; i++)
			program.gain[i] = crossing[i].engine == PROBE_ENGINE_DEFAULT;
		ret->engine_Bps = most_without(&program, TOPOLOGY_NONE, true);
		simulated_rows_fini(&program.rows);
	}
	free(program.weight);
	free(program.bound);
	free(program.gain);
	free(crossing);
}

void oracle_links(const struct topology *truth, struct probe *probe, struct oracle_link *ret)
{
	struct probe_flow *flows;
	size_t count = oracle_flows(truth, probe, &flows);

	for (uint32_t i = 0; i < 2 * truth->link_count; i++)
		oracle_link(truth, probe, flows, count, i, &ret[i]);
	free(flows);
}
