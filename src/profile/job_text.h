/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of a process's communicators, as text: the plugin writes it, while the process lives as a file in shared
 * memory and then among the recent jobs (store_jobs.h); `tributary status` reads it (docs/guide/command.md). Lines that begin
 * with the same word have the same fields, in this order:
 *
 *     process ID job JOB start S rank R size N network ours|nccl host NAME command NAME why TEXT
 *     comm LAST count N gpus LIST channels N alone GB/s several GB/s why TEXT
 *     operations ..., operation ...: profile/operations.h
 *     end S
 *
 * Pure.
 */
#ifndef TRIBUTARY_PROFILE_JOB_TEXT_H
#define TRIBUTARY_PROFILE_JOB_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JOB_COMMS = 32, /* kinds of communicators that a process tells apart */
	JOB_PROCESS_BYTES = 80,
	JOB_WORD_BYTES = 65,
	JOB_WHY_BYTES = 192,
	JOB_GPUS_BYTES = 96,
	JOB_LINE_BYTES = 640,
	JOB_TEXT_BYTES = (JOB_COMMS + 2) * JOB_LINE_BYTES,
};

/* The reason of one that wants no channels. */
#define JOB_WHY_ONE_GPU "it has one GPU and needs no channels"

struct job_process {
	char process[JOB_PROCESS_BYTES], job[17], host[JOB_WORD_BYTES], command[JOB_WORD_BYTES];
	char why[JOB_WHY_BYTES]; /* NCCL searches in all its communicators; "" */
	int64_t start_s;
	int rank; /* -1: not known */
	unsigned size;
	bool ours; /* the network */
};

/* Communicators of the same GPUs of which the same became. */
struct job_comm {
	char last_id[17], gpus[JOB_GPUS_BYTES], why[JOB_WHY_BYTES]; /* why: NCCL searches; "" */
	uint64_t count;
	unsigned channels;               /* 0: NCCL searches */
	double alone_GBps, several_GBps; /* AllReduce of 256 MiB on one host, and between two; 0: not said */
};
bool job_comm_is_same(const struct job_comm *a, const struct job_comm *b);

/* A line; what of the host and the command would not be one word is replaced. The bytes, without the NUL. */
size_t job_text_process(const struct job_process *process, char text[static JOB_LINE_BYTES]);
size_t job_text_comm(const struct job_comm *comm, char text[static JOB_LINE_BYTES]);
/* From a line and what is behind it; false: it is no such line. */
bool job_text_read_process(const char *line, struct job_process *ret);
bool job_text_read_comm(const char *line, struct job_comm *ret);

#endif
