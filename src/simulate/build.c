/* SPDX-License-Identifier: Apache-2.0 */
/* One flow after the other is put together of the links that it crosses. */
#include "simulate/job_internal.h"

#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <string.h>

double simulate_call_bytes(double bytes)
{
	/* As NCCL 2.28.9 and 2.30.7 were seen to do at 31 sizes (tests/unit/simulate/run_test.c). */
	static const struct {
		double enough, least_bytes;
	} rules[] = { { 64, 128 << 10 }, { 8, 64 << 10 }, { 5, 32 << 10 } };
	double channels = bytes < 64 << 10 ? 1 : 2, chunk_bytes = 256 << 10;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		while (floor(bytes / (channels * chunk_bytes)) < rules[i].enough && chunk_bytes > rules[i].least_bytes)
			chunk_bytes /= 2;
	return channels * chunk_bytes;
}

double simulate_operation_bytes(const struct simulate_build *build)
{
	double bytes = build->job->bytes / (double)build->fabric->rail_count, set = build->settings->operation_bytes;

	return fmin(bytes, set > 0 ? set : simulate_call_bytes(bytes));
}

struct simulate_end simulate_nth(const struct simulate_build *build, size_t index, size_t rail)
{
	return (struct simulate_end){ build->job->hosts[index], (uint32_t)rail, 0 };
}

void simulate_cross(struct simulate_build *build, uint32_t link, double weight)
{
	if (weight <= 0)
		return;
	if (build->weight[link] <= 0)
		build->links[build->link_count++] = link;
	build->weight[link] += weight;
}

void simulate_cross_way(struct simulate_build *build, struct simulate_end from, struct simulate_end to, double weight)
{
	struct flow_crossing way[SIMULATE_WAY_MAX];
	size_t count = simulate_way(build->fabric, from, to, way);

	for (size_t i = 0; i < count; i++)
		simulate_cross(build, way[i].link, weight);
}

void simulate_cross_between(struct simulate_build *build, struct simulate_end from, struct simulate_end to,
			    double weight)
{
	struct flow_crossing way[SIMULATE_WAY_MAX];
	size_t count = simulate_way(build->fabric, from, to, way);

	for (size_t i = 1; i + 1 < count; i++)
		simulate_cross(build, way[i].link, weight);
}

void simulate_cross_rows(struct simulate_build *build, size_t host, enum simulate_pattern pattern, double weight)
{
	for (size_t i = 0; i < build->fabric->row_count; i++)
		simulate_cross(build, simulate_row_link(build->fabric, host, i),
			       weight * build->fabric->rows[i].weight[pattern]);
}

double simulate_alone_Bps(const struct simulate_build *build, struct simulate_end from, struct simulate_end to)
{
	struct flow_crossing way[SIMULATE_WAY_MAX];
	size_t count = simulate_way(build->fabric, from, to, way);
	double rate_Bps = INFINITY;

	for (size_t i = 0; i < count; i++)
		rate_Bps = fmin(rate_Bps, build->capacity_Bps[way[i].link] / build->weight[way[i].link]);
	return rate_Bps;
}

double simulate_all_alone_Bps(const struct simulate_build *build)
{
	double rate_Bps = INFINITY;

	for (size_t i = 0; i < build->link_count; i++)
		rate_Bps = fmin(rate_Bps, build->capacity_Bps[build->links[i]] / build->weight[build->links[i]]);
	return rate_Bps;
}

int simulate_add_pipe(struct simulate_build *build, double bytes, struct simulate_pipe pipe)
{
	struct simulate_flows *flows = build->flows;
	int r;

	for (size_t i = 0; i < build->link_count; i++) {
		build->way[i] = (struct flow_crossing){ build->links[i], (float)build->weight[build->links[i]] };
		build->weight[build->links[i]] = 0;
	}
	r = flow_add(build->network, build->way, build->link_count, bytes, build->job->start_s, &pipe.flow);
	build->link_count = 0;
	if (r == 0)
		r = sys_grow(&flows->pipes, flows->pipe_count, 1, sizeof(*flows->pipes));
	if (r == 0)
		flows->pipes[flows->pipe_count++] = pipe;
	return r;
}

int simulate_send(struct simulate_build *build, struct simulate_end from, struct simulate_end to,
		  enum simulate_pattern pattern, double bytes, uint32_t *ret)
{
	size_t count = simulate_way(build->fabric, from, to, build->way);

	for (size_t i = 0; pattern != SIMULATE_PATTERN_COUNT && i < build->fabric->row_count; i++) {
		double weight = build->fabric->rows[i].weight[pattern];

		if (weight > 0)
			build->way[count++] = (struct flow_crossing){ simulate_row_link(build->fabric, from.host, i),
								      (float)weight };
	}
	return flow_add(build->network, build->way, count, bytes, build->job->start_s, ret);
}

/* A flow that began and has no end crosses a link of no capacity: which. */
static void name_dead_link(const struct simulate_build *build)
{
	for (uint32_t flow = 0; flow < flow_count(build->network); flow++) {
		struct flow_result is = flow_result(build->network, flow);
		struct flow_crossing at;

		if (isinf(is.start_s) || !isinf(is.end_s))
			continue;
		for (size_t nth = 0; flow_crosses(build->network, flow, nth, &at); nth++) {
			char name[SIMULATE_NAME_BYTES];

			if (build->capacity_Bps[at.link] > 0)
				continue;
			simulate_link_name(build->fabric, at.link, name, sizeof(name));
			diag_set(build->diag, 0, 0, "it would never end: it has to cross \"%.120s\", a link of rate 0",
				 name);
			return;
		}
	}
}

int simulate_flows(const struct simulate_build *build)
{
	int r = flow_run(build->network);

	if (r == -EDEADLK)
		name_dead_link(build);
	return r;
}
