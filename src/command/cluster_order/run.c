/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the order, and what both orders cost. */
#include "command/cluster_order/ordering.h"

#include "base/log.h"
#include "command/command.h"
#include "simulate/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS_MOST = 512, PLACES_MOST = 1 << 16 }; /* more are not simulated: the slowest link's time stands for them */

struct jobs {
	struct simulate_job *jobs;
	uint32_t *hosts;
	size_t job_count, host_count;
};

/* Groups inside one host put nothing on the network. */
static void add_jobs(const struct ordering *ordering, const struct ordering_side *side, enum ranks_phase phase,
		     struct ranks_group *group, struct jobs *jobs)
{
	size_t groups = ranks_group_count(&ordering->layout, phase);

	for (size_t i = 0; i < groups; i++) {
		struct simulate_job *job = &jobs->jobs[jobs->job_count];

		ranks_group(&ordering->layout, phase, i, group);
		if (group->count < 2)
			continue;
		*job = (struct simulate_job){
			.collective = SIMULATE_ALLREDUCE,
			.algorithm = phase == RANKS_DATA_TREE ? SIMULATE_TREE : SIMULATE_RING,
			.hosts = jobs->hosts + jobs->host_count,
			.host_count = group->count,
			.gpus = group->ranks % group->count ? 1 : (unsigned)(group->ranks / group->count),
			.bytes = ordering->bytes,
		};
		for (size_t j = 0; j < group->count; j++)
			jobs->hosts[jobs->host_count++] = side->order[group->places[j]];
		jobs->job_count++;
	}
}

static int simulate(const struct ordering *ordering, const struct jobs *jobs, double *ret_s)
{
	struct simulate_settings settings = simulate_defaults();
	struct simulate_result result;
	struct diag diag = { 0 };
	int r;

	if (jobs->job_count > 1)
		settings.detail = SIMULATE_PIPELINED;
	r = simulate_run(&ordering->fabric, jobs->jobs, jobs->job_count, &settings, NULL, 0, &result, &diag);
	if (r < 0)
		return command_failed(&diag, r, "the order cannot be simulated");
	*ret_s = result.end_s;
	simulate_result_fini(&result);
	return COMMAND_OK;
}

static int predict(const struct ordering *ordering, struct ordering_side *side, enum ranks_phase phase)
{
	size_t groups = ranks_group_count(&ordering->layout, phase), places = groups * ordering->used;
	struct ranks_group group = { .places = calloc(ordering->used, sizeof(uint32_t)) };
	struct jobs jobs = { .jobs = calloc(groups, sizeof(*jobs.jobs)), .hosts = NULL };
	int status = COMMAND_OK;

	side->time_s[phase] = ordering->known ? side->costs[phase].worst_s * ordering->bytes : 0;
	if (phase != RANKS_PIPELINE && groups <= JOBS_MOST && places <= PLACES_MOST && side->time_s[phase] > 0) {
		jobs.hosts = calloc(places, sizeof(*jobs.hosts));
		if (!group.places || !jobs.jobs || !jobs.hosts) {
			status = command_failed(NULL, ENOMEM, "the order cannot be simulated");
		} else {
			add_jobs(ordering, side, phase, &group, &jobs);
			status = simulate(ordering, &jobs, &side->time_s[phase]);
		}
	}
	free(group.places);
	free(jobs.jobs);
	free(jobs.hosts);
	return status;
}

static int side_init(const struct ordering *ordering, struct ordering_side *side)
{
	side->order = calloc(ordering->used, sizeof(*side->order));
	side->load_B = calloc(RANKS_PHASE_COUNT * simulate_link_count(&ordering->fabric), sizeof(*side->load_B));
	return side->order && side->load_B ? 0 : -ENOMEM;
}

int ordering_run(struct ordering *ordering)
{
	struct ordering_side *const sides[] = { &ordering->before, &ordering->after };
	int status = COMMAND_OK, r = side_init(ordering, &ordering->before);

	if (r == 0)
		r = side_init(ordering, &ordering->after);
	if (r == 0) {
		memcpy(ordering->before.order, ordering->hosts, ordering->used * sizeof(*ordering->hosts));
		ordering->search.given = ordering->before.order;
		r = ranks_order(&ordering->fabric, &ordering->layout, ordering->hosts, ordering->host_count,
				&ordering->search, ordering->after.order);
	}
	for (int i = 0; r == 0 && i < 2; i++)
		r = ranks_costs(&ordering->fabric, &ordering->layout, sides[i]->order, sides[i]->costs,
				sides[i]->load_B);
	if (r < 0)
		return command_failed(NULL, r, "the hosts cannot be ordered");
	for (int i = 0; i < 2; i++)
		for (int phase = 0; status == COMMAND_OK && phase < RANKS_PHASE_COUNT; phase++)
			status = predict(ordering, sides[i], (enum ranks_phase)phase);
	return status;
}
