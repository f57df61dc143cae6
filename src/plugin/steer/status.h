/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of this process's communicators, for `tributary status` (profile/job_text.h).
 *
 * While the process lives, the text is the file t-ID in the registry's folder, and what it did with its communicators o-ID
 * (operations.h). One that is not in the registry, which only counts, has both there, too, and is apart from those that are.
 * At its end both go to the recent jobs in the user's state directory (profile/store_jobs.h). The text of a process that was
 * killed is moved there by the next one. What cannot be written there is lost, and no harm.
 *
 * Threads: under the lock of steer.c.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_STATUS_H
#define TRIBUTARY_PLUGIN_STEER_STATUS_H

#include "plugin/steer/setup.h"
#include "profile/job_text.h"
#include "profile/operations.h"

/* By which the processes that `tributary run` started are one job, whatever started them. */
#define STEER_JOB_VARIABLE "_TRIBUTARY_JOB"

struct steer_status {
	const struct params *params; /* NULL: not begun */
	struct job_process process;
	struct job_comm comms[JOB_COMMS];
	size_t comm_count;
	struct operations *operations;                     /* NULL: nobody counts */
	struct steer_registry apart;                       /* directory -1: not needed, or not to be had */
	char text[JOB_TEXT_BYTES + OPERATIONS_TEXT_BYTES]; /* being written */
};

/*
 * After the setup, and again after another one: what is counted goes on, but others see it only at the end. Also moves what
 * killed processes have left. One that was not begun is of zeroes.
 */
void steer_status_begin(const struct params *params, const struct params_source *source,
			const struct steer_setup *setup, struct steer_status *ret);
/* By the rank that a decision names first. */
void steer_status_add(struct steer_status *status, const struct steer_setup *setup,
		      const struct steer_decision *decision);
/* Where to count; the first call makes it. NULL: no memory. */
struct operations *steer_status_operations(struct steer_status *status, const struct steer_setup *setup);
/* Before the registry is closed. */
void steer_status_end(struct steer_status *status, struct steer_setup *setup);

/* Of a job whose launcher is known, its key; of another one, that and its process group. Pure. */
uint64_t steer_status_job(const struct steer_job *job, uint64_t process_group);

#endif
