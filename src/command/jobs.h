/* What became of the communicators of this user's jobs, as their processes have told it (src/plugin/steer/status.h). */
#ifndef TRIBUTARY_COMMAND_JOBS_H
#define TRIBUTARY_COMMAND_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct params;

enum { JOBS_WORD_BYTES = 65, JOBS_WHY_BYTES = 192, JOBS_GPUS_BYTES = 96 };

/* Communicators of the same GPUs of which the same became. */
struct job_comm {
	char last_id[17], gpus[JOBS_GPUS_BYTES], why[JOBS_WHY_BYTES]; /* why: NCCL searches; "" */
	uint64_t count;
	unsigned channels;               /* 0: NCCL searches */
	double alone_GBps, several_GBps; /* predicted; 0: not for such a communicator */
};

/* Processes of one host. */
struct job {
	char id[17], host[JOBS_WORD_BYTES], command[JOBS_WORD_BYTES];
	char why[JOBS_WHY_BYTES]; /* that holds for all communicators; "" */
	bool running, ours;       /* ours: the network */
	int64_t start_s, end_s;   /* of the first and last process that told; end_s means nothing while it runs */
	size_t process_count;     /* that told */
	struct job_comm *comms;
	size_t comm_count;
};

struct jobs {
	struct job *at; /* the newest first */
	size_t count;
};

/* -ENOMEM at worst: what cannot be read is not there. */
int jobs_read(const struct params *params, struct jobs *ret);
void jobs_fini(struct jobs *jobs);
/* Communicators with channels (true) or without. */
uint64_t job_count(const struct job *job, bool with_channels);

/* For tests: adds the processes of a text. running: they are alive. Then jobs_join. */
int jobs_parse(struct jobs *jobs, const char *text, bool running);
/* Makes one job of the processes that have the same id and were there at the same time. */
void jobs_join(struct jobs *jobs);

#endif
