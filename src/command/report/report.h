/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tributary report` works with: the collectives of each rank, from a trace of PyTorch's profiler or the files of NCCL
 * Inspector, and their sums. One thread.
 *
 * Exposed communication is MAD-Max's: the time in which a kernel of NCCL runs on a GPU and no kernel that computes does, over
 * the union of all streams. Copies and memsets are neither.
 */
#ifndef TRIBUTARY_COMMAND_REPORT_REPORT_H
#define TRIBUTARY_COMMAND_REPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct report_piece;
struct diag;

enum report_collective {
	REPORT_ALLREDUCE,
	REPORT_ALLGATHER,
	REPORT_REDUCESCATTER,
	REPORT_ALLTOALL,
	REPORT_BROADCAST,
	REPORT_REDUCE,
	REPORT_SENDRECV,
	REPORT_OTHER, /* of NCCL, and not said which */
	REPORT_COLLECTIVE_COUNT
};
enum { REPORT_NAME_BYTES = 96 };

/* One collective of one rank, or a kernel that computes. */
struct report_kernel {
	int64_t start_ns, end_ns;
	uint64_t bytes;                    /* the larger of the rank's buffers; 0: not known */
	uint32_t ranks;                    /* of its communicator; 0: not known */
	uint32_t group;                    /* of report.groups */
	enum report_collective collective; /* REPORT_COLLECTIVE_COUNT: it computes */
	bool is_untimed;                   /* its times are not the GPU's, and tell nothing */
};
/* Collectives of one kind, of a class of sizes, on so many ranks. */
struct report_row {
	enum report_collective collective;
	uint64_t bytes_most; /* a power of two, the least that is not below their sizes; 0: not known */
	uint32_t ranks;
	uint64_t count, timed, bytes; /* bytes: of those that are timed */
	int64_t time_ns, exposed_ns;
	int64_t until_ns; /* of the rank at work: what is before it counts already */
};
/* What a GPU did, from a trace. */
struct report_rank {
	char name[REPORT_NAME_BYTES];                       /* "rank 3", "rank 3 GPU 1", or of what file */
	int64_t number;                                     /* -1: not known */
	int64_t begin_ns, end_ns;                           /* of the first step, or kernel, to that of the last */
	int64_t computing_ns, communication_ns, exposed_ns; /* unions */
	int64_t exposed_by[REPORT_COLLECTIVE_COUNT];        /* where two overlap, of both */
	uint64_t count;                                     /* of collectives */
	size_t step_count;                                  /* 0: none is marked */
	int64_t step_least_ns, step_median_ns, step_most_ns;
};
/* A communicator, or a process group of PyTorch's. */
struct report_group {
	char *key; /* that no other has; "": not known */
	char name[REPORT_NAME_BYTES];
};
/* A rank's part in the collectives of one group in which all have the same to do, and so end at the same time. */
struct report_member {
	uint32_t group;
	char name[REPORT_NAME_BYTES], host[REPORT_NAME_BYTES]; /* host: "" where it is not known */
	int64_t number;
	uint64_t count, bytes;
	int64_t time_ns;
};
struct report {
	bool has_traces, has_inspector;
	struct report_rank *ranks; /* of traces */
	size_t rank_count;
	struct report_row *rows; /* by collective, then by size */
	size_t row_count;
	struct report_group *groups;
	size_t group_count;
	struct report_member *members; /* by group, then by rank */
	size_t member_count;
	uint64_t not_by_gpu;              /* collectives of NCCL Inspector whose times are not the GPU's */
	const struct report_member *slow; /* the others of its group wait for it; NULL: for none */
	double slow_ns, others_ns;        /* its time in a collective, and the median of theirs */
	const struct report *before;      /* of --before: steps of the same job; NULL: there is none */
};

void report_fini(struct report *report);
const char *report_collective_word(enum report_collective collective);
/* From the name of a kernel or of a collective: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", "_allgather_base". */
enum report_collective report_collective_of(const char *name);
/* busbw over algbw, as nccl-tests has it; 0: not known. */
double report_bus_factor(enum report_collective collective, uint32_t ranks);

/* sums.c. -ENOMEM. */
struct report_step {
	int64_t number, start_ns, end_ns;
	bool on_gpu;
};
struct report_lane { /* what one GPU did */
	int64_t device;
	struct report_kernel *kernels;
	size_t kernel_count;
	struct report_step *steps;
	size_t step_count;
};
/* The index of the group with that key, which is added if it is not there. */
int report_group_of(struct report *report, const char *key, const char *name, uint32_t *ret);
/* Sums up what a GPU did, and sorts that for it; the rank has its name and number. */
int report_add_lane(struct report *report, const struct report_rank *rank, struct report_lane *lane);
/* One collective, of which the time alone counts, of a member who has his group, name, host and number. */
int report_add_collective(struct report *report, const struct report_member *member,
			  const struct report_kernel *kernel);
/* When all is there: orders it, and finds the slowest rank. */
void report_finish(struct report *report);
/* Of the ranks: their times together. */
struct report_total {
	int64_t time_ns, communication_ns, exposed_ns, exposed_by[REPORT_COLLECTIVE_COUNT];
	size_t step_count;
};
struct report_total report_total(const struct report *report);

/* The mean of the ranks' median steps, and what of a step is exposed; 0: no step is marked. */
double report_step_ns(const struct report *report);
double report_exposed_ns(const struct report *report);

/* read.c: all of a file. An exit status, after saying on stderr what is wrong. */
int report_read(struct report *report, const char *path);

/* trace.c */
struct report_trace {
	int64_t rank; /* -1: not said */
	struct report_lane *lanes;
	size_t lane_count;
	struct report_step *steps; /* of the CPU: of all lanes */
	size_t step_count;
};
/* -errno, or -EINVAL with *diag. */
int report_trace_take(struct report_trace *trace, struct report *report, const struct report_piece *piece,
		      struct diag *diag);
void report_trace_fini(struct report_trace *trace);

/* inspector.c */
struct report_inspector {
	json_t *header, *metadata, *performance; /* of the line at work */
	uint64_t lines;                          /* that said what a collective took */
	uint64_t left_out;                       /* that said something else */
	char other[64], left_out_key[64];        /* what else: of the line at work, of the first of these */
	bool left_out_several;                   /* not the same of all */
};
int report_inspector_take(struct report_inspector *inspector, struct report *report, const struct report_piece *piece,
			  struct diag *diag);
void report_inspector_fini(struct report_inspector *inspector);

/* text.c */
void report_print(const struct report *report, FILE *out);
json_t *report_json(const struct report *report);

#endif
