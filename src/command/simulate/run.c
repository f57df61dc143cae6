/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the cases, and finds the links that matter. */
#include "command/simulate/simulation.h"

#include "base/log.h"
#include "command/command.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

double simulation_load(const struct simulation_case *one, uint32_t link)
{
	struct flow_link is = flow_link(one->result.network, link);

	if (isinf(is.capacity_Bps) || is.capacity_Bps <= 0 || one->time_s <= 0)
		return 0;
	return is.bytes / is.capacity_Bps / one->time_s;
}

double simulation_answered_s(const struct simulation *simulation, const struct simulation_case *one)
{
	double s_per_B[SIMULATE_ALGORITHM_COUNT] = { [SIMULATE_RING] = one->gain.ring_s_per_B,
						     [SIMULATE_TREE] = one->gain.tree_s_per_B,
						     [SIMULATE_HIERARCHICAL] = one->gain.aggregation_s_per_B,
						     [SIMULATE_AGGREGATORS] = one->gain.aggregation_s_per_B };

	return simulation->gpus > 1 ? 0 : s_per_B[one->algorithm] * simulation->bytes;
}

static void find_busiest(const struct simulate_fabric *fabric, struct simulation_case *one)
{
	static const enum simulation_kind kinds[] = { [SIMULATE_LINK_NIC] = SIMULATION_NICS,
						      [SIMULATE_LINK_UPLINK] = SIMULATION_UPLINKS,
						      [SIMULATE_LINK_AGGREGATOR] = SIMULATION_AGGREGATORS,
						      [SIMULATE_LINK_ROW] = SIMULATION_INSIDE };
	size_t links = simulate_link_count(fabric);

	one->busiest_count = 0;
	for (uint32_t link = 0; link < links; link++) {
		double load = simulation_load(one, link), bytes = flow_link(one->result.network, link).bytes;
		enum simulate_link_kind kind = simulate_link_of(fabric, link).kind;
		size_t at = one->busiest_count;

		one->most_bytes[kinds[kind]] = fmax(one->most_bytes[kinds[kind]], bytes);
		/* Equal ones in the order of the links, whatever rounding says. */
		while (at > 0 && load > simulation_load(one, one->busiest[at - 1]) * (1 + 1e-9))
			at--;
		if (load <= 0 || at == SIMULATION_BUSIEST)
			continue;
		one->busiest_count += one->busiest_count < SIMULATION_BUSIEST;
		for (size_t i = one->busiest_count - 1; i > at; i--)
			one->busiest[i] = one->busiest[i - 1];
		one->busiest[at] = link;
	}
}

static int run_jobs(const struct simulation *simulation, struct simulation_case *one, const struct simulate_job *jobs,
		    bool watched)
{
	struct simulate_result result;
	struct diag diag = { 0 };
	int r = simulate_run(&simulation->fabric, jobs, simulation->job_count, &simulation->settings, one->busiest,
			     watched ? one->busiest_count : 0, &result, &diag);

	if (r < 0)
		return command_failed(&diag, r, "%s cannot be simulated here",
				      simulation->collective == SIMULATE_ALLREDUCE
					      ? simulation_algorithm_word(one->algorithm)
					      : simulation_collective_word(simulation->collective));
	simulate_result_fini(&one->result);
	one->result = result;
	one->time_s = result.end_s;
	one->worst = result.outcomes[0];
	for (size_t i = 1; i < result.outcome_count; i++)
		if (result.outcomes[i].time_s > one->worst.time_s)
			one->worst = result.outcomes[i];
	for (size_t i = 0; i < result.outcome_count; i++)
		one->worst.bound |= result.outcomes[i].bound;
	find_busiest(&simulation->fabric, one);
	return COMMAND_OK;
}

/* The case's own, and what the plugin goes by: ranks leaf by leaf, and the cluster's aggregators if it has any. */
static int find_gains(const struct simulation *simulation, const struct simulate_job *job, struct simulation_case *one)
{
	const struct simulate_fabric *fabric = &simulation->fabric;
	struct simulate_job plugins = *job;
	int r = simulate_gain(fabric, job, false, &one->gain);

	plugins.algorithm = fabric->aggregator_count ? SIMULATE_AGGREGATORS : SIMULATE_HIERARCHICAL;
	return r < 0 ? r : simulate_gain(fabric, &plugins, true, &one->leaf_gain);
}

/* The hosts in their order, cut into jobs of equal size; what is left over has none. */
static int run_case(const struct simulation *simulation, struct simulation_case *one, bool watched)
{
	size_t each = one->host_count / simulation->job_count;
	struct simulate_job *jobs;
	int status;

	if (!each)
		return command_usage_error("simulate", "%zu hosts cannot be cut into %zu jobs", one->host_count,
					   simulation->job_count);
	jobs = calloc(simulation->job_count, sizeof(*jobs));
	if (!jobs)
		return command_failed(NULL, ENOMEM, "the jobs cannot be made");
	for (size_t i = 0; i < simulation->job_count; i++)
		jobs[i] = (struct simulate_job){ .collective = simulation->collective,
						 .algorithm = one->algorithm,
						 .hosts = one->order + i * each,
						 .host_count = each,
						 .gpus = simulation->gpus,
						 .bytes = simulation->bytes,
						 .seed = i + 1 };
	jobs[0].algorithm = one->algorithm;
	if (simulation->job_count == 1 && find_gains(simulation, jobs, one) < 0)
		status = command_failed(NULL, ENOMEM, "the gain cannot be worked out");
	else
		status = run_jobs(simulation, one, jobs, false);
	if (status == COMMAND_OK && watched)
		status = run_jobs(simulation, one, jobs, true);
	free(jobs);
	return status;
}

int simulation_run(struct simulation *simulation, bool watched)
{
	int status = COMMAND_OK;

	for (size_t i = 0; i < simulation->case_count && status == COMMAND_OK; i++)
		status = run_case(simulation, &simulation->cases[i], watched);
	return status;
}
