/*
 * What became of this process's communicators, for `tributary status`, which reads the text (docs/command.md). Lines that
 * begin with the same word have the same fields, in this order:
 *
 *     process ID job JOB start S rank R size N network ours|nccl host NAME command NAME why TEXT
 *     comm LAST count N gpus LIST channels N alone GB/s several GB/s why TEXT
 *     end S
 *
 * While the process lives, the text is the file t-ID in the registry's folder. At its end it goes to the recent
 * jobs in the user's state directory (profile/store_jobs.h). The text of a process that was killed is moved there by the
 * next one. What cannot be written there is lost, and no harm.
 *
 * Threads: under the lock of steer.c.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_STATUS_H
#define TRIBUTARY_PLUGIN_STEER_STATUS_H

#include "plugin/steer/setup.h"

/* By which the processes that `tributary run` started are one job, whatever started them. */
#define STEER_JOB_VARIABLE "_TRIBUTARY_JOB"

enum {
	STEER_STATUS_COMMS = 32, /* kinds of communicators that are told apart */
	STEER_STATUS_GPUS_BYTES = 96,
	STEER_STATUS_WORD_BYTES = 65,
	STEER_STATUS_LINE_BYTES = 640,
	STEER_STATUS_TEXT_BYTES = (STEER_STATUS_COMMS + 2) * STEER_STATUS_LINE_BYTES,
};

/* Communicators of the same GPUs of which the same became. */
struct steer_status_comm {
	uint64_t last_id, count;
	unsigned channels;               /* 0: NCCL searches */
	double alone_GBps, several_GBps; /* AllReduce of 256 MiB on one host, and between two; 0: not said */
	char gpus[STEER_STATUS_GPUS_BYTES], why[STEER_REASON_BYTES];
};

struct steer_status {
	bool is_open;
	const struct params *params;
	char process[STEER_STATUS_LINE_BYTES]; /* its line */
	bool has_reason;
	struct steer_status_comm comms[STEER_STATUS_COMMS];
	size_t comm_count;
};

/* After the setup. Also moves what killed processes have left. */
void steer_status_begin(const struct params *params, const struct params_source *source,
			const struct steer_setup *setup, struct steer_status *ret);
/* By the rank that a decision names first. */
void steer_status_add(struct steer_status *status, const struct steer_setup *setup,
		      const struct steer_decision *decision);
/* Before the registry is closed. */
void steer_status_end(struct steer_status *status, struct steer_setup *setup);

/* Of a job whose launcher is known, its key; of another one, that and its process group. Pure. */
uint64_t steer_status_job(const struct steer_job *job, uint64_t process_group);

#endif
