/* SPDX-License-Identifier: Apache-2.0 */
#include "command/estimate/network.h"

#include "base/log.h"
#include "command/command.h"
#include "command/simulate/simulation.h"

#include <math.h>

double network_inside_s(const struct network *network, enum simulate_collective collective, double ranks, double gpus,
			double bytes)
{
	double rate_Bps = step_intra_Bps(&network->estimation->system.rates);

	if (gpus < 2)
		return 0;
	if (collective == SIMULATE_ALLTOALL)
		return bytes * (gpus - 1) / ranks / rate_Bps;
	return (collective == SIMULATE_ALLREDUCE ? 2 : 1) * bytes * (ranks - 1) / ranks / rate_Bps;
}

double network_jobs_s(struct network *network, const struct simulate_job *jobs, size_t count)
{
	struct simulate_result result = { 0 };
	struct diag diag = { 0 };
	double time_s = 0;
	int r = simulate_run(network->fabric, jobs, count, &network->estimation->settings, NULL, 0, &result, &diag);

	if (r < 0)
		network->status = command_failed(&diag, r, "%s cannot be simulated here",
						 simulation_collective_word(jobs->collective));
	else
		time_s = result.end_s;
	for (size_t i = 0; i < result.outcome_count; i++)
		network->bound |= result.outcomes[i].bound;
	simulate_result_fini(&result);
	return time_s;
}

static double simulated_s(struct network *network, enum simulate_collective collective, unsigned gpus, double bytes)
{
	struct simulate_job job = { .collective = collective,
				    .algorithm = collective == SIMULATE_ALLREDUCE ? network->algorithm : SIMULATE_RING,
				    .hosts = network->order,
				    .host_count = network->fabric->host_count,
				    .gpus = gpus,
				    .bytes = bytes };

	return network_jobs_s(network, &job, 1);
}

double network_time_s(struct network *network, enum simulate_collective collective, unsigned gpus, double bytes)
{
	double ranks = (double)network->fabric->host_count * gpus, time_s = 0;

	if (network->status != COMMAND_OK || bytes <= 0 || ranks < 2)
		return 0;
	for (size_t i = 0; i < network->known_count; i++) {
		const struct network_known *known = &network->known[i];

		if (known->collective == collective && known->gpus == gpus && fabs(known->bytes - bytes) < 0.5)
			return known->time_s;
	}
	if (network->fabric->host_count > 1 || network->fabric->row_count)
		time_s = simulated_s(network, collective, gpus, bytes);
	/* A machine's own links are in the fabric. */
	if (!network->fabric->row_count || collective == SIMULATE_ALLTOALL)
		time_s = fmax(time_s, network_inside_s(network, collective, ranks, gpus, bytes));
	if (network->known_count < NETWORK_KNOWN_MAX)
		network->known[network->known_count++] = (struct network_known){ collective, gpus, bytes, time_s };
	return time_s;
}
