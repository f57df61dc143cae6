/* SPDX-License-Identifier: Apache-2.0 */
/* Places the jobs that want to run, one after the other: each beside those that run by then. */
#include "command/place/placing.h"

#include "command/command.h"
#include "simulate/places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* No slot has two jobs, but one that is busy may have one. */
static size_t count_free(const struct placing *placing)
{
	size_t count = 0;

	for (uint32_t i = 0; i < placing->tree.slot_count; i++)
		count += !placing->busy[i];
	for (size_t i = 0; i < placing->job_count; i++) {
		const struct placing_job *job = &placing->jobs[i];

		if (job->state != PLACING_RUNS && job->state != PLACING_PLACED)
			continue;
		for (size_t j = 0; j < job->job.count; j++)
			count -= !placing->busy[job->slots[j]];
	}
	return count;
}

static int place_one(struct placing *placing, struct placing_job *job)
{
	struct plan_place_job *running = calloc(placing->job_count + 1, sizeof(*running));
	size_t count = 0;
	int r = running ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < placing->job_count; i++)
		if (placing->jobs[i].state == PLACING_RUNS || placing->jobs[i].state == PLACING_PLACED)
			running[count++] = placing->jobs[i].job;
	job->free = count_free(placing);
	job->state = PLACING_WAITS;
	if (r == 0 && job->job.count <= placing->tree.slot_count)
		r = places_find(&placing->tree, running, count, placing->busy, &job->job, job->slots, &job->result);
	if (r == 0 && job->job.count <= job->free && (placing->share || !job->result.shared))
		job->state = PLACING_PLACED;
	free(running);
	return r == -ENOSPC ? 0 : r;
}

int placing_run(struct placing *placing)
{
	struct plan_place_job *wanted = calloc(placing->job_count + 1, sizeof(*wanted));
	size_t *of = calloc(2 * placing->job_count + 1, sizeof(*of)), *order = of + placing->job_count;
	int r = wanted && of ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < placing->job_count; i++)
		if (placing->jobs[i].state == PLACING_WANTS) {
			of[placing->order_count] = i;
			wanted[placing->order_count++] = placing->jobs[i].job;
		}
	if (r == 0)
		plan_place_queue(wanted, placing->order_count, order);
	for (size_t i = 0; r == 0 && i < placing->order_count; i++) {
		placing->order[i] = of[order[i]];
		r = place_one(placing, &placing->jobs[placing->order[i]]);
	}
	free(wanted);
	free(of);
	return r < 0 ? command_failed(NULL, r, "the jobs cannot be placed") : COMMAND_OK;
}
