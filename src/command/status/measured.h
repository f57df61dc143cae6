/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a job told of their collectives, beside what was predicted. One thread. */
#ifndef TRIBUTARY_COMMAND_STATUS_MEASURED_H
#define TRIBUTARY_COMMAND_STATUS_MEASURED_H

#include "command/answer.h"
#include "command/jobs.h"
#include "command/status/compare.h"
#include "command/status/expect.h"

#include <jansson.h>
#include <stdio.h>

/* Collectives of one communicator, of one size class, that NCCL ran one way. */
struct measured_row {
	struct operations_line of;   /* count and bytes are those of the rank with most, samples those of all */
	const struct job_comm *comm; /* its GPUs; NULL: not known */
	struct compare_rank *ranks;  /* that told times */
	size_t rank_count;
	struct compare_link link;
	char other_job[JOB_WORD_BYTES + 32];
	struct compare_case at; /* points into this row */
	enum compare_cause cause;
	char why[COMPARE_TEXT_BYTES];
};
struct measured {
	struct measured_row *rows;
	size_t row_count;
	bool has_times;
	enum operations_times times; /* why there are none */
	const char *why_not;         /* nothing is predicted; NULL */
};

/* Whether any rank told a time. */
bool measured_has_times(const struct job *job);
/* Of `job`, which is one of `jobs`; expect NULL: of another machine. It must outlive the result. -ENOMEM. */
int measured_make(const struct job *job, const struct jobs *jobs, struct expect *expect, struct measured *ret);
void measured_fini(struct measured *measured);

/* Mean bytes of what was sampled, times the factor of nccl-tests; 0: it has none. */
double measured_bus_bytes(const struct measured_row *row);
/* The row by whose difference most time was lost; NULL: by none. */
const struct measured_row *measured_worst(const struct measured *measured);
/* "AllReduce of up to 64 MiB reaches 4.1 GB/s where 9.8 GB/s was predicted: " and why. */
void measured_answer(const struct measured_row *row, struct answer *answer);
/* Lines below a job's communicators. */
void measured_print(const struct measured *measured, FILE *out);
json_t *measured_json(const struct measured *measured);

#endif
