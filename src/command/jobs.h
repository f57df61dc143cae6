/* SPDX-License-Identifier: Apache-2.0 */
/* What became of the communicators of this user's jobs, as their processes have told it (profile/job_text.h). */
#ifndef TRIBUTARY_COMMAND_JOBS_H
#define TRIBUTARY_COMMAND_JOBS_H

#include "profile/job_text.h"
#include "profile/operations.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct params;

/* Processes of one host. */
struct job {
	struct job_process process; /* the first one, but for the reason: of the first that has one */
	bool running;
	int64_t end_s;        /* of the last process that told; means nothing while it runs */
	size_t process_count; /* that told */
	struct job_comm *comms;
	size_t comm_count;
	/* Of all its processes, each rank's for itself. The head: sums, and the times that explain most. */
	struct operations_line *operations;
	size_t operation_count;
	struct operations_head operations_head;
};

struct jobs {
	struct job *at; /* the newest first */
	size_t count;
};

/* -ENOMEM at worst: what cannot be read is not there. */
int jobs_read(const struct params *params, struct jobs *ret);
void jobs_fini(struct jobs *jobs);
/* Communicators with channels (true) or without. */
uint64_t jobs_count(const struct job *job, bool with_channels);

#endif
