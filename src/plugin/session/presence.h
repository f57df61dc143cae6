/*
 * Whether processes of this job use another registry on this host. Containers may have a /dev/shm each and still be one
 * host for NCCL, as those on the host's network are, which have its name: then the ranks in this registry are not all. So
 * each process holds an abstract socket with a telling name, which everybody in its network namespace can see
 * (unix(7), /proc/net/unix). Nothing listens to it.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_PRESENCE_H
#define TRIBUTARY_PLUGIN_SESSION_PRESENCE_H

#include "base/log.h"
#include "base/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SESSION_PRESENCE_JOB_BYTES = 64, SESSION_PRESENCE_BYTES = 104 };

struct session_presence {
	int fd;                               /* -1: none */
	char own[SESSION_PRESENCE_BYTES];     /* all names of this registry begin so */
	char job[SESSION_PRESENCE_JOB_BYTES]; /* and all names of this job on this host so */
};

/*
 * directory: the registry's. whole_job: the same for all processes of the job. host: by which NCCL takes ranks for one
 * host; those of others do not matter.
 */
int session_presence_open(const struct process_identity *self, uint64_t whole_job, uint64_t host, int directory,
			  struct session_presence *ret);
/* One that was never opened must have -1. */
void session_presence_close(struct session_presence *presence);

/* True also when it cannot be told; why in *diag. */
bool session_presence_elsewhere(const struct session_presence *presence, struct diag *diag);
/* The same in the text of /proc/net/unix. Pure. */
bool session_presence_in_text(const struct session_presence *presence, const char *text);

#endif
