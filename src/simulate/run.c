/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs to flows, and what became of them. */
#include "simulate/job.h"

#include "aggregate/pipeline.h"
#include "base/log.h"
#include "base/sys.h"
#include "simulate/job_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

struct simulate_settings simulate_defaults(void)
{
	return (struct simulate_settings){
		.latency_s = PIPELINE_LATENCY_NS / 1e9,
		.pieces = 2,
		.chunk_bytes = 512 << 10,
		.in_flight = PIPELINE_CALLS,
		.steps_most = 50000,
		.window_steps = 400000,
	};
}

/* --------------------------------------------------------------------------------------------------------------- jobs */

static int refuse(struct simulate_build *build, const char *why)
{
	diag_set(build->diag, 0, 0, "%s", why);
	return -EINVAL;
}

static int check(struct simulate_build *build)
{
	const struct simulate_job *job = build->job;
	bool *seen;
	bool twice = false;

	if (!job->host_count || !job->gpus)
		return refuse(build, "a job needs at least one host with one GPU");
	if (!(job->bytes > 0 && job->bytes < INFINITY) || !(job->start_s >= 0 && job->start_s < INFINITY))
		return refuse(build, "a job needs a size above 0 and a start that is not before 0");
	if (job->algorithm != SIMULATE_RING &&
	    (job->collective == SIMULATE_ALLGATHER || job->collective == SIMULATE_REDUCESCATTER))
		return refuse(build, "AllGather and ReduceScatter are simulated as rings alone: --algo ring");
	if (job->algorithm == SIMULATE_AGGREGATORS && job->collective == SIMULATE_ALLREDUCE &&
	    !build->fabric->aggregator_count)
		return refuse(build, "there are no aggregators in this cluster (--aggregators adds some)");
	seen = sys_zalloc(build->fabric->host_count + 1);
	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < job->host_count; i++) {
		twice |= job->hosts[i] >= build->fabric->host_count || seen[job->hosts[i]];
		if (!twice)
			seen[job->hosts[i]] = true;
	}
	sys_free(seen);
	return twice ? refuse(build, "a host of a job is there twice, or not at all") : 0;
}

static const struct {
	size_t (*count_steps)(const struct simulate_build *build);
	int (*make)(struct simulate_build *build);
} algorithms[] = {
	[SIMULATE_RING] = { simulate_ring_steps, simulate_ring },
	[SIMULATE_TREE] = { simulate_tree_steps, simulate_tree },
	[SIMULATE_HIERARCHICAL] = { simulate_aggregation_steps, simulate_aggregation },
	[SIMULATE_AGGREGATORS] = { simulate_aggregation_steps, simulate_aggregation },
};

static int add_job(struct simulate_build *build)
{
	size_t steps;
	int r = check(build);

	if (r < 0)
		return r;
	*build->flows = (struct simulate_flows){ .first_flow = flow_count(build->network),
						 .last_lag_s = build->job->host_count > 1 ? build->settings->latency_s
											  : 0,
						 .steps = true };
	if (build->job->collective >= SIMULATE_ALLTOALL)
		return simulate_messages(build);
	flow_mark(build->network, SIMULATE_NO_PHASE);
	steps = algorithms[build->job->algorithm].count_steps(build);
	build->flows->steps = build->settings->detail == SIMULATE_STEPS ||
			      (build->settings->detail == SIMULATE_AUTO && steps <= build->settings->steps_most);
	if (build->flows->steps && steps > 64 * build->settings->steps_most)
		return refuse(build, "that would be too many steps: only the pipelined form is possible");
	return algorithms[build->job->algorithm].make(build);
}

static double bus_factor(const struct simulate_job *job)
{
	double ranks = (double)job->host_count * job->gpus;

	switch (job->collective) {
	case SIMULATE_ALLREDUCE:
		return 2 * (ranks - 1) / ranks;
	case SIMULATE_ALLGATHER:
	case SIMULATE_REDUCESCATTER:
	case SIMULATE_ALLTOALL:
		return (ranks - 1) / ranks;
	default:
		return 1;
	}
}

static struct simulate_outcome conclude(const struct simulate_job *job, const struct simulate_flows *pending,
					const struct flow_network *network)
{
	struct simulate_outcome outcome = { .first_flow = pending->first_flow,
					    .flows = pending->end_flow - pending->first_flow,
					    .steps = pending->steps,
					    .bound = pending->bound };

	for (size_t i = 0; i < pending->pipe_count; i++) {
		const struct simulate_pipe *pipe = &pending->pipes[i];
		struct flow_result result = flow_result(network, pipe->flow);

		/* What fills it is timed without the other jobs: its links take at least as long as for all of its bytes. */
		double busy_s = result.end_s - result.start_s;

		outcome.time_s = fmax(outcome.time_s,
				      fmax(fmax(busy_s * pipe->part + pipe->fill_s, busy_s), pipe->least_s));
	}
	for (size_t i = pending->first_flow; pending->steps && i < pending->end_flow; i++)
		outcome.time_s = fmax(outcome.time_s,
				      flow_result(network, (uint32_t)i).end_s - job->start_s + pending->last_lag_s);
	outcome.algbw_Bps = outcome.time_s > 0 ? job->bytes / outcome.time_s : INFINITY;
	outcome.busbw_Bps = outcome.algbw_Bps * bus_factor(job);
	return outcome;
}

static int prepare(struct simulate_build *build, double **ret_capacity_Bps)
{
	size_t links = simulate_link_count(build->fabric);
	int r = simulate_capacities(build->fabric, ret_capacity_Bps);

	if (r < 0)
		return r;
	build->capacity_Bps = *ret_capacity_Bps;
	/* A single message may cross a link that it has crossed already. */
	build->arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(build->weight, links),
								SYS_ARRAY(build->links, links),
								SYS_ARRAY(build->way, links + SIMULATE_WAY_MAX) },
					  3);
	if (!build->arrays)
		return -ENOMEM;
	return flow_network_new(build->capacity_Bps, links, &build->network);
}

static int add_jobs(struct simulate_build *build, const struct simulate_job *jobs, size_t job_count,
		    struct simulate_flows *pending)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < job_count; i++) {
		build->job = &jobs[i];
		build->flows = &pending[i];
		r = add_job(build);
		pending[i].end_flow = flow_count(build->network);
	}
	return r;
}

static int finish(const struct simulate_job *jobs, size_t job_count, const struct simulate_flows *pending,
		  struct flow_network *network, struct simulate_result *ret)
{
	struct simulate_result result = { .network = network, .outcome_count = job_count };

	result.outcomes = sys_zalloc((job_count + 1) * sizeof(*result.outcomes));
	if (!result.outcomes)
		return -ENOMEM;
	for (size_t i = 0; i < job_count; i++) {
		result.outcomes[i] = conclude(&jobs[i], &pending[i], network);
		result.end_s = fmax(result.end_s, jobs[i].start_s + result.outcomes[i].time_s);
	}
	*ret = result;
	return 0;
}

int simulate_run(const struct simulate_fabric *fabric, const struct simulate_job *jobs, size_t job_count,
		 const struct simulate_settings *settings, const uint32_t *watch, size_t watch_count,
		 struct simulate_result *ret, struct diag *diag)
{
	struct simulate_build build = { .fabric = fabric, .settings = settings, .diag = diag };
	struct simulate_flows *pending = sys_zalloc((job_count + 1) * sizeof(*pending));
	double *capacity_Bps = NULL;
	int r = pending ? prepare(&build, &capacity_Bps) : -ENOMEM;

	if (r == 0)
		r = add_jobs(&build, jobs, job_count, pending);
	for (size_t i = 0; r == 0 && i < watch_count; i++)
		r = flow_watch(build.network, watch[i]);
	if (r == 0)
		r = simulate_flows(&build);
	if (r == 0)
		r = finish(jobs, job_count, pending, build.network, ret);
	if (r < 0)
		flow_network_free(build.network);
	for (size_t i = 0; pending && i < job_count; i++)
		sys_free(pending[i].pipes);
	sys_free(pending);
	sys_free(capacity_Bps);
	sys_free(build.arrays);
	return r;
}

/* How often; 0: it does not. */
static double crosses(const struct flow_network *network, uint32_t flow, uint32_t link)
{
	struct flow_crossing at;

	for (size_t nth = 0; flow_crosses(network, flow, nth, &at); nth++)
		if (at.link == link)
			return at.weight;
	return 0;
}

void simulate_phases(const struct simulate_result *result, size_t job, uint32_t link,
		     struct simulate_span ret[static SIMULATE_PHASE_COUNT])
{
	const struct flow_network *network = result->network;
	size_t first = result->outcomes[job].first_flow;

	memset(ret, 0, SIMULATE_PHASE_COUNT * sizeof(*ret));
	for (size_t i = first; i < first + result->outcomes[job].flows; i++) {
		uint32_t flow = (uint32_t)i;
		uint8_t phase = flow_marked(network, flow);
		double bytes = flow_bytes(network, flow);
		struct flow_result is = flow_result(network, flow);

		bytes *= link == SIMULATE_NONE ? 1 : crosses(network, flow, link);
		if (!phase || bytes <= 0)
			continue;
		if (!ret[phase].messages++)
			ret[phase].start_s = is.start_s;
		ret[phase].start_s = fmin(ret[phase].start_s, is.start_s);
		ret[phase].end_s = fmax(ret[phase].end_s, is.end_s);
		ret[phase].bytes += bytes;
	}
}

void simulate_result_fini(struct simulate_result *result)
{
	flow_network_free(result->network);
	sys_free(result->outcomes);
	*result = (struct simulate_result){ .network = NULL };
}
