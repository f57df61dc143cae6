/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a collective took beside what was predicted for it, and where they differ the most likely cause: one that something
 * at hand shows, or none. Pure.
 */
#ifndef TRIBUTARY_COMMAND_STATUS_COMPARE_H
#define TRIBUTARY_COMMAND_STATUS_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

/* A difference within it is none. */
#define COMPARE_TOLERANCE 0.15

enum { COMPARE_TEXT_BYTES = 320 };

/* What NCCL runs: enum predict_algorithm and predict_protocol; -1: not known. */
struct compare_way {
	int algorithm, protocol;
};
/* What one rank took for a collective, in the mean. */
struct compare_rank {
	char name[64];
	double time_us;
};
/* A link that carries less than the prediction counts with. */
struct compare_link {
	char name[96];
	double now_Bps, expected_Bps;
};
/* One size class of one collective of a communicator. */
struct compare_case {
	struct compare_way taken, predicted;
	double predicted_us;              /* what was predicted takes; 0: nothing was */
	double taken_us;                  /* what NCCL has taken would, by the same model; 0: not known */
	bool is_tuned;                    /* a tuning table of this host says to take that */
	const struct compare_rank *ranks; /* of this host, whose times are known */
	size_t rank_count;
	const struct compare_link *link; /* the one that lacks most; NULL: none does */
	const char *other_job;           /* whose communicators had the same network or GPUs meanwhile; NULL: none */
};

enum compare_cause {
	COMPARE_NOT_MEASURED, /* or not predicted */
	COMPARE_AGREES,
	COMPARE_FASTER, /* than predicted */
	COMPARE_CHOICE, /* NCCL took another algorithm or protocol */
	COMPARE_SLOW_RANK,
	COMPARE_LINK,
	COMPARE_OTHER_JOB,
	COMPARE_NOT_KNOWN,
	COMPARE_CAUSE_COUNT
};
/* The word of --json: "slow-rank". */
const char *compare_cause_word(enum compare_cause cause);

/* Of the ranks' times, the median: what the collective took. 0: there are none. */
double compare_measured_us(const struct compare_case *at);
/* *ret_text: a clause, with what to do; "" where there is nothing to say. */
enum compare_cause compare_explain(const struct compare_case *at, char ret_text[static COMPARE_TEXT_BYTES]);

#endif
