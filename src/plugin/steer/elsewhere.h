/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects processes of this job that use another registry on this host. Containers may have a /dev/shm each and still be one
 * host for NCCL, as those on the host's network are, which have its name: then the ranks in this registry are not all. So
 * each process holds an abstract socket with a telling name, which everybody in its network namespace can see
 * (unix(7), /proc/net/unix). Nothing listens to it.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_ELSEWHERE_H
#define TRIBUTARY_PLUGIN_STEER_ELSEWHERE_H

#include "base/log.h"
#include "base/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STEER_ELSEWHERE_JOB_BYTES = 64, STEER_ELSEWHERE_BYTES = 104 };

struct steer_elsewhere {
	int fd;                              /* -1: none */
	char own[STEER_ELSEWHERE_BYTES];     /* all names of this registry begin so */
	char job[STEER_ELSEWHERE_JOB_BYTES]; /* and all names of this job on this host so */
};

/*
 * directory: the registry's. whole_job: the same for all processes of the job. host: by which NCCL takes ranks for one
 * host; those of others do not matter.
 */
int steer_elsewhere_open(const struct process_identity *self, uint64_t whole_job, uint64_t host, int directory,
			 struct steer_elsewhere *ret);
/* One that was never opened must have -1. */
void steer_elsewhere_close(struct steer_elsewhere *presence);

/* True also when it cannot be told; why in *diag. */
bool steer_elsewhere_is(const struct steer_elsewhere *presence, struct diag *diag);
/* The same in the text of /proc/net/unix. Pure. */
bool steer_elsewhere_in_text(const struct steer_elsewhere *presence, const char *text);

#endif
