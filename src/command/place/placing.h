/* SPDX-License-Identifier: Apache-2.0 */
/* What `tributary place` works with: slots, jobs that run, jobs that wait, and what was found for them. One thread. */
#ifndef TRIBUTARY_COMMAND_PLACE_PLACING_H
#define TRIBUTARY_COMMAND_PLACE_PLACING_H

#include "plan/place.h"

#include <jansson.h>
#include <stdio.h>

struct command_call;

enum { PLACING_JOBS_MAX = 1024, PLACING_NAME_BYTES = 64 };

enum placing_state { PLACING_WANTS, PLACING_RUNS, PLACING_PLACED, PLACING_WAITS };

struct placing_job {
	char name[PLACING_NAME_BYTES];
	struct plan_place_job job; /* job.slots is `slots` */
	uint32_t *slots;
	enum placing_state state;
	struct plan_place_result result; /* of one that was placed, or that waits as it would share an uplink */
	size_t free;                     /* slots that there were for it */
};

struct placing {
	struct plan_place_tree tree;
	bool hosts; /* slots are hosts, not GPUs */
	unsigned gpus;
	bool share; /* uplinks that are full may be shared */
	bool *busy;
	struct placing_job *jobs;
	size_t job_count;
	size_t order[PLACING_JOBS_MAX]; /* in which those that want were placed */
	size_t order_count;
};

/* The jobs, of the command line and of --jobs; the tree is there. Says what is wrong; an exit status. */
int placing_read(const struct command_call *call, struct placing *placing);
int placing_run(struct placing *placing);
void placing_fini(struct placing *placing); /* but the tree */

#endif
