/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our aggregation as flows. Pipelined: every link carries its share of the bytes, at the rate of the slowest, and it takes
 * no less than the calls that are in flight let it (aggregation_steps.c, which has the form step by step too).
 */
#include "simulate/aggregation.h"

#include "aggregate/gain.h"
#include "aggregate/schedule.h"
#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <math.h>

enum { SEGMENT_BYTES = 256 << 10 }; /* the engine's longest; docs/design/aggregation.md */

static void add_place(const struct simulate_build *build, struct simulate_aggregation *aggregation,
		      struct simulate_end end, const struct simulate_port *port)
{
	const double *uplink_Bps = build->fabric->switches[port->leaf].capacity_Bps;
	bool top = build->fabric->switches[port->leaf].parent == SIMULATE_NONE;
	uint32_t *leaf = &aggregation->leaf_of[port->leaf];

	if (*leaf == SIMULATE_NONE) {
		*leaf = (uint32_t)aggregation->leaf_count++;
		aggregation->leaves[*leaf].uplink_Bps = top ? INFINITY : fmin(uplink_Bps[0], uplink_Bps[1]);
		aggregation->first_place[*leaf] = (uint32_t)aggregation->place_count;
	}
	aggregation->ends[aggregation->place_count] = end;
	aggregation->places[aggregation->place_count++] = (struct simulate_place){
		.leaf = *leaf,
		.aggregator = end.host == SIMULATE_NONE,
		.rate_Bps = fmin(port->capacity_Bps[0], port->capacity_Bps[1]),
	};
}

/* Aggregators of the rail's own leaves, and of switches above them. */
static bool serves(const struct simulate_build *build, const struct simulate_aggregation *aggregation, size_t rail,
		   uint32_t leaf)
{
	const struct simulate_fabric *fabric = build->fabric;

	if (aggregation->leaf_of[leaf] != SIMULATE_NONE)
		return true;
	for (size_t host = 0; host < fabric->host_count; host++)
		for (size_t i = 0; i < fabric->rail_count; i++)
			if (fabric->nics[host * fabric->rail_count + i].leaf == leaf)
				return false;
	return !rail; /* on a switch above, for the first rail alone */
}

static int aggregation_init(const struct simulate_build *build, size_t rail, struct simulate_aggregation *aggregation)
{
	const struct simulate_fabric *fabric = build->fabric;
	size_t room = build->job->host_count + fabric->aggregator_count + 1;

	*aggregation = (struct simulate_aggregation){ .place_count = 0 };
	aggregation->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(aggregation->places, room), SYS_ARRAY(aggregation->ends, room),
				      SYS_ARRAY(aggregation->leaves, room), SYS_ARRAY(aggregation->first_place, room),
				      SYS_ARRAY(aggregation->leaf_of, fabric->switch_count) },
		5);
	if (!aggregation->arrays)
		return -ENOMEM;
	for (size_t i = 0; i < fabric->switch_count; i++)
		aggregation->leaf_of[i] = SIMULATE_NONE;
	for (size_t i = 0; i < build->job->host_count; i++)
		add_place(build, aggregation, simulate_nth(build, i, rail),
			  &fabric->nics[build->job->hosts[i] * fabric->rail_count + rail]);
	if (build->job->algorithm != SIMULATE_AGGREGATORS)
		return 0;
	for (uint32_t i = 0; i < fabric->aggregator_count; i++)
		if (serves(build, aggregation, rail, fabric->aggregators[i].leaf))
			add_place(build, aggregation, (struct simulate_end){ SIMULATE_NONE, (uint32_t)rail, i },
				  &fabric->aggregators[i]);
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------- pipelined */

static void cross_nic(struct simulate_build *build, struct simulate_end end, double load)
{
	for (int way = 0; way < 2; way++)
		simulate_cross(
			build,
			end.host == SIMULATE_NONE
				? simulate_aggregator_link(build->fabric, end.aggregator, (enum simulate_direction)way)
				: simulate_nic_link(build->fabric, end.host, end.rail, (enum simulate_direction)way),
			load);
}

/* A leaf sends its sum of what another roots, and the results of what it roots itself. */
static void cross_uplinks(struct simulate_build *build, const struct simulate_aggregation *aggregation)
{
	for (size_t i = 0; i < aggregation->leaf_count; i++)
		for (size_t j = 0; j < aggregation->leaf_count; j++) {
			double sums = aggregation->leaves[i].hosts ? aggregation->leaves[j].root : 0;
			double results = aggregation->leaves[j].hosts ? aggregation->leaves[i].root : 0;

			if (i == j || sums + results <= 0)
				continue;
			simulate_cross_between(build, aggregation->ends[aggregation->first_place[i]],
					       aggregation->ends[aggregation->first_place[j]], sums + results);
		}
}

/*
 * What no window of calls can be had for: sums go up to the leaf and the root and come down again, as many messages after
 * each other as there are levels, and what is in flight bounds how much moves in one such round.
 */
static struct simulate_pipe bound_pipe(const struct simulate_build *build,
				       const struct simulate_aggregation *aggregation, double bytes)
{
	const struct simulate_settings *settings = build->settings;
	double segment_bytes = fmin(bytes, SEGMENT_BYTES), rate_Bps = simulate_all_alone_Bps(build),
	       window_bytes = simulate_operation_bytes(build) * settings->in_flight;
	int levels = aggregation->leaf_count > 1 ? 4 : 2;

	return (struct simulate_pipe){ .part = 1,
				       .fill_s = levels * settings->latency_s + (levels - 1) * segment_bytes / rate_Bps,
				       .least_s = ceil(bytes / window_bytes) * levels * settings->latency_s };
}

static bool too_many(const struct simulate_build *build)
{
	return build->job->host_count > SCHEDULE_MEMBERS_MAX ||
	       build->fabric->aggregator_count > SCHEDULE_AGGREGATORS_MAX;
}

static int add_pipe(struct simulate_build *build, const struct simulate_aggregation *aggregation)
{
	double bytes = build->job->bytes / (double)build->fabric->rail_count;
	struct simulate_pipe pipe = { .part = 1 };
	int r = 0;

	/* A host by itself has nobody to sum with. */
	for (size_t i = 0; build->job->host_count > 1 && i < aggregation->place_count; i++)
		cross_nic(build, aggregation->ends[i], aggregation->places[i].load);
	if (build->job->host_count > 1)
		cross_uplinks(build, aggregation);
	for (size_t i = 0; i < build->job->host_count; i++)
		simulate_cross_rows(build, build->job->hosts[i], SIMULATE_CHAINS, 1);
	build->flows->bound = build->job->host_count > 1 && too_many(build);
	if (build->flows->bound)
		pipe = bound_pipe(build, aggregation, bytes);
	else if (build->job->host_count > 1)
		r = simulate_aggregation_by_window(build, aggregation, &pipe.least_s);
	return r < 0 ? r : simulate_add_pipe(build, bytes, pipe);
}

static int pipe_on(struct simulate_build *build, size_t rail)
{
	struct simulate_aggregation aggregation;
	double s_per_B;
	int r = aggregation_init(build, rail, &aggregation);

	if (r == 0)
		r = simulate_aggregation_share(aggregation.places, aggregation.place_count, aggregation.leaves,
					       aggregation.leaf_count, &s_per_B);
	if (r == 0)
		r = add_pipe(build, &aggregation);
	sys_free(aggregation.arrays);
	return r;
}

/* ------------------------------------------------------------------------------------------------------------- choice */

/* Of segments of the least length: a bound. */
size_t simulate_aggregation_steps(const struct simulate_build *build)
{
	const struct simulate_fabric *fabric = build->fabric;
	double slowest_Bps = INFINITY, segment_bytes, count;

	for (size_t i = 0; i < build->job->host_count; i++)
		for (int way = 0; way < 2; way++)
			slowest_Bps = fmin(slowest_Bps,
					   fabric->nics[build->job->hosts[i] * fabric->rail_count].capacity_Bps[way]);
	segment_bytes = (double)schedule_segment_least_bytes(isinf(slowest_Bps) ? 0 : (uint64_t)slowest_Bps);
	count = ceil(build->job->bytes / (double)fabric->rail_count / segment_bytes) * 3 *
		(double)build->job->host_count * (double)fabric->rail_count;
	return fabric->row_count || too_many(build) || count > 1e9 ? SIZE_MAX : (size_t)count;
}

int simulate_aggregation(struct simulate_build *build)
{
	bool steps = build->flows->steps && build->job->host_count > 1;
	int r = 0;

	if (steps && simulate_aggregation_steps(build) == SIZE_MAX) {
		diag_set(build->diag, 0, 0,
			 "aggregation step by step is for at most %d hosts and %d aggregators, without a machine",
			 SCHEDULE_MEMBERS_MAX, SCHEDULE_AGGREGATORS_MAX);
		return -EINVAL;
	}
	for (size_t rail = 0; r == 0 && rail < build->fabric->rail_count; rail++) {
		struct simulate_aggregation aggregation;

		if (!steps) {
			r = pipe_on(build, rail);
			continue;
		}
		r = aggregation_init(build, rail, &aggregation);
		if (r == 0)
			r = simulate_aggregation_by_steps(build, &aggregation);
		sys_free(aggregation.arrays);
	}
	return r;
}

/* ---------------------------------------------------------------------------------------------------------------- gain */

/* Leaves below switches that bound nothing: more is not known to the engine. */
static bool has_one_level(const struct simulate_fabric *fabric)
{
	bool is_one = fabric->rail_count == 1 && !fabric->row_count;

	for (size_t i = 0; i < fabric->switch_count; i++) {
		const struct simulate_switch *above = fabric->switches[i].parent == SIMULATE_NONE
							      ? NULL
							      : &fabric->switches[fabric->switches[i].parent];

		is_one = is_one && (!above || above->parent == SIMULATE_NONE ||
				    (isinf(above->capacity_Bps[0]) && isinf(above->capacity_Bps[1])));
	}
	return is_one;
}

static int find_gain(const struct simulate_job *job, const struct simulate_aggregation *aggregation, bool by_leaf,
		     struct gain *ret)
{
	struct schedule_group *group = sys_zalloc(sizeof(*group));
	uint16_t order[SCHEDULE_MEMBERS_MAX];
	int r;

	if (!group)
		return -ENOMEM;
	for (size_t i = 0; i < job->host_count; i++)
		order[i] = (uint16_t)i;
	simulate_aggregation_group(aggregation, job->host_count, group);
	r = gain_find(group, by_leaf ? NULL : order, NULL, ret);
	sys_free(group);
	return r;
}

int simulate_gain(const struct simulate_fabric *fabric, const struct simulate_job *job, bool by_leaf, struct gain *ret)
{
	const struct simulate_build build = { .fabric = fabric, .job = job };
	struct simulate_aggregation aggregation;
	int r;

	*ret = (struct gain){ .permille = 0 };
	if (job->collective != SIMULATE_ALLREDUCE || job->bytes < SIMULATE_GAIN_LEAST_BYTES || too_many(&build) ||
	    !has_one_level(fabric))
		return 0;
	r = aggregation_init(&build, 0, &aggregation);
	if (r == 0)
		r = find_gain(job, &aggregation, by_leaf, ret);
	sys_free(aggregation.arrays);
	return r;
}
