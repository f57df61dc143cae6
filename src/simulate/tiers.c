/*
 * Our aggregation as flows. Pipelined: every link carries its share of the bytes, at the rate of the slowest, and it takes
 * no less than the calls that are in flight let it (tiers_steps.c, which has the form step by step too).
 */
#include "simulate/tiers.h"

#include "aggregate/schedule.h"
#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <math.h>

enum { SEGMENT_BYTES = 256 << 10 }; /* the engine's longest; docs/design/aggregation.md */

static void add_place(const struct simulate_build *build, struct simulate_tiers *tiers, struct simulate_end end,
		      const struct simulate_port *port)
{
	const double *uplink_Bps = build->fabric->switches[port->leaf].capacity_Bps;
	bool top = build->fabric->switches[port->leaf].parent == SIMULATE_NONE;
	uint32_t *leaf = &tiers->leaf_of[port->leaf];

	if (*leaf == SIMULATE_NONE) {
		*leaf = (uint32_t)tiers->leaf_count++;
		tiers->leaves[*leaf].uplink_Bps = top ? INFINITY : fmin(uplink_Bps[0], uplink_Bps[1]);
		tiers->first_place[*leaf] = (uint32_t)tiers->place_count;
	}
	tiers->ends[tiers->place_count] = end;
	tiers->places[tiers->place_count++] = (struct simulate_place){
		.leaf = *leaf,
		.aggregator = end.host == SIMULATE_NONE,
		.rate_Bps = fmin(port->capacity_Bps[0], port->capacity_Bps[1]),
	};
}

/* Aggregators of the rail's own leaves, and of switches above them. */
static bool serves(const struct simulate_build *build, const struct simulate_tiers *tiers, size_t rail, uint32_t leaf)
{
	const struct simulate_fabric *fabric = build->fabric;

	if (tiers->leaf_of[leaf] != SIMULATE_NONE)
		return true;
	for (size_t host = 0; host < fabric->host_count; host++)
		for (size_t i = 0; i < fabric->rail_count; i++)
			if (fabric->nics[host * fabric->rail_count + i].leaf == leaf)
				return false;
	return !rail; /* on a switch above, for the first rail alone */
}

static int tiers_init(const struct simulate_build *build, size_t rail, struct simulate_tiers *tiers)
{
	const struct simulate_fabric *fabric = build->fabric;
	size_t room = build->job->host_count + fabric->aggregator_count + 1;

	*tiers = (struct simulate_tiers){ .place_count = 0 };
	tiers->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(tiers->places, room), SYS_ARRAY(tiers->ends, room),
				      SYS_ARRAY(tiers->leaves, room), SYS_ARRAY(tiers->first_place, room),
				      SYS_ARRAY(tiers->leaf_of, fabric->switch_count) },
		5);
	if (!tiers->arrays)
		return -ENOMEM;
	for (size_t i = 0; i < fabric->switch_count; i++)
		tiers->leaf_of[i] = SIMULATE_NONE;
	for (size_t i = 0; i < build->job->host_count; i++)
		add_place(build, tiers, simulate_nth(build, i, rail),
			  &fabric->nics[build->job->hosts[i] * fabric->rail_count + rail]);
	if (build->job->algorithm != SIMULATE_AGGREGATORS)
		return 0;
	for (uint32_t i = 0; i < fabric->aggregator_count; i++)
		if (serves(build, tiers, rail, fabric->aggregators[i].leaf))
			add_place(build, tiers, (struct simulate_end){ SIMULATE_NONE, (uint32_t)rail, i },
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
static void cross_uplinks(struct simulate_build *build, const struct simulate_tiers *tiers)
{
	for (size_t i = 0; i < tiers->leaf_count; i++)
		for (size_t j = 0; j < tiers->leaf_count; j++) {
			double sums = tiers->leaves[i].hosts ? tiers->leaves[j].root : 0;
			double results = tiers->leaves[j].hosts ? tiers->leaves[i].root : 0;

			if (i == j || sums + results <= 0)
				continue;
			simulate_cross_between(build, tiers->ends[tiers->first_place[i]],
					       tiers->ends[tiers->first_place[j]], sums + results);
		}
}

/*
 * What no window of calls can be had for: sums go up to the leaf and the root and come down again, as many messages after
 * each other as there are levels, and what is in flight bounds how much moves in one such round.
 */
static struct simulate_pipe bound_pipe(const struct simulate_build *build, const struct simulate_tiers *tiers,
				       double bytes)
{
	const struct simulate_settings *settings = build->settings;
	double segment_bytes = fmin(bytes, SEGMENT_BYTES), rate_Bps = simulate_all_alone_Bps(build),
	       window_bytes = simulate_operation_bytes(build) * settings->in_flight;
	int levels = tiers->leaf_count > 1 ? 4 : 2;

	return (struct simulate_pipe){ .part = 1,
				       .fill_s = levels * settings->latency_s + (levels - 1) * segment_bytes / rate_Bps,
				       .least_s = ceil(bytes / window_bytes) * levels * settings->latency_s };
}

static bool too_many(const struct simulate_build *build)
{
	return build->job->host_count > SCHEDULE_MEMBERS_MAX ||
	       build->fabric->aggregator_count > SCHEDULE_AGGREGATORS_MAX;
}

static int add_pipe(struct simulate_build *build, const struct simulate_tiers *tiers)
{
	double bytes = build->job->bytes / (double)build->fabric->rail_count;
	struct simulate_pipe pipe = { .part = 1 };
	int r = 0;

	/* A host by itself has nobody to sum with. */
	for (size_t i = 0; build->job->host_count > 1 && i < tiers->place_count; i++)
		cross_nic(build, tiers->ends[i], tiers->places[i].load);
	if (build->job->host_count > 1)
		cross_uplinks(build, tiers);
	for (size_t i = 0; i < build->job->host_count; i++)
		simulate_cross_rows(build, build->job->hosts[i], SIMULATE_CHAINS, 1);
	build->flows->bound = build->job->host_count > 1 && too_many(build);
	if (build->flows->bound)
		pipe = bound_pipe(build, tiers, bytes);
	else if (build->job->host_count > 1)
		r = simulate_tiers_by_window(build, tiers, &pipe.least_s);
	return r < 0 ? r : simulate_add_pipe(build, bytes, pipe);
}

static int pipe_on(struct simulate_build *build, size_t rail)
{
	struct simulate_tiers tiers;
	double s_per_B;
	int r = tiers_init(build, rail, &tiers);

	if (r == 0)
		r = simulate_tiers_share(tiers.places, tiers.place_count, tiers.leaves, tiers.leaf_count, &s_per_B);
	if (r == 0)
		r = add_pipe(build, &tiers);
	sys_free(tiers.arrays);
	return r;
}

/* ------------------------------------------------------------------------------------------------------------- choice */

/* Of segments of the least length: a bound. */
size_t simulate_tiers_steps(const struct simulate_build *build)
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

int simulate_tiers(struct simulate_build *build)
{
	bool steps = build->flows->steps && build->job->host_count > 1;
	int r = 0;

	if (steps && simulate_tiers_steps(build) == SIZE_MAX) {
		diag_set(build->diag, 0, 0,
			 "aggregation step by step is for at most %d hosts and %d aggregators, without a machine",
			 SCHEDULE_MEMBERS_MAX, SCHEDULE_AGGREGATORS_MAX);
		return -EINVAL;
	}
	for (size_t rail = 0; r == 0 && rail < build->fabric->rail_count; rail++) {
		struct simulate_tiers tiers;

		if (!steps) {
			r = pipe_on(build, rail);
			continue;
		}
		r = tiers_init(build, rail, &tiers);
		if (r == 0)
			r = simulate_tiers_by_steps(build, &tiers);
		sys_free(tiers.arrays);
	}
	return r;
}
