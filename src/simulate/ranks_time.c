/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulator says that a phase takes: all its groups at once. */
#include "simulate/ranks_internal.h"

#include "base/sys.h"
#include "simulate/job.h"

#include <errno.h>

enum { JOBS_MOST = 512, PLACES_MOST = 1 << 16 };

struct jobs {
	struct simulate_job *jobs;
	uint32_t *hosts;
	size_t job_count, host_count;
};

/* Groups inside one host put nothing on the network. */
static void add_jobs(const struct ranks_layout *layout, const uint32_t *order, enum ranks_phase phase, double bytes,
		     struct ranks_group *group, struct jobs *jobs)
{
	for (size_t i = 0; i < ranks_group_count(layout, phase); i++) {
		struct simulate_job *job = &jobs->jobs[jobs->job_count];

		ranks_group(layout, phase, i, group);
		if (group->count < 2)
			continue;
		*job = (struct simulate_job){
			.collective = SIMULATE_ALLREDUCE,
			.algorithm = phase == RANKS_DATA_TREE ? SIMULATE_TREE : SIMULATE_RING,
			.hosts = jobs->hosts + jobs->host_count,
			.host_count = group->count,
			.gpus = group->ranks % group->count ? 1 : (unsigned)(group->ranks / group->count),
			.bytes = bytes,
		};
		for (size_t j = 0; j < group->count; j++)
			jobs->hosts[jobs->host_count++] = order[group->places[j]];
		jobs->job_count++;
	}
}

bool ranks_can_simulate(const struct ranks_layout *layout, enum ranks_phase phase)
{
	size_t groups = ranks_group_count(layout, phase);

	return phase != RANKS_PIPELINE && groups <= JOBS_MOST && groups * ranks_hosts(layout) <= PLACES_MOST;
}

int ranks_time(const struct simulate_fabric *fabric, const struct ranks_layout *layout, const uint32_t *order,
	       enum ranks_phase phase, double bytes, enum simulate_detail detail, double *ret_s, struct diag *diag)
{
	size_t hosts = ranks_hosts(layout), groups = ranks_group_count(layout, phase);
	struct simulate_settings settings = simulate_defaults();
	struct ranks_group group = { .places = NULL };
	struct simulate_result result;
	struct jobs jobs = { .jobs = NULL };
	void *arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(group.places, hosts),
							       SYS_ARRAY(jobs.jobs, groups),
							       SYS_ARRAY(jobs.hosts, groups * hosts) },
					 3);
	int r = arrays ? 0 : -ENOMEM;

	if (r == 0)
		add_jobs(layout, order, phase, bytes, &group, &jobs);
	settings.detail = jobs.job_count > 1 ? SIMULATE_PIPELINED : detail;
	if (r == 0)
		r = simulate_run(fabric, jobs.jobs, jobs.job_count, &settings, NULL, 0, &result, diag);
	if (r == 0) {
		*ret_s = result.end_s;
		simulate_result_fini(&result);
	}
	sys_free(arrays);
	return r;
}
