/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's tuner tables, versions 2 to 6, as one. Any thread. */
#ifndef TESTS_STANDIN_TUNER_TABLE_H
#define TESTS_STANDIN_TUNER_TABLE_H

#include "nccl/types.h"

#include <stdbool.h>
#include <stdint.h>

struct tuner_table {
	int version; /* 0: there is none */
	const void *table;
};

struct tuner_choice {
	int choice;       /* algorithm × 8 + protocol; -1: none */
	int channels;     /* 0: NCCL decides */
	unsigned refused; /* entries that were forbidden and are not any more, or are no times */
};

/* NCCL's profiler, as it tells the plugin of calls. table NULL: it tells another, or none. */
struct tuner_profiler {
	const struct nccl_profiler_v5 *table;
	void *context;
};
void tuner_profiler_open(void *library, int version, uint64_t comm_id, size_t rank_count, size_t node_count,
			 nccl_debug_logger *logger, struct tuner_profiler *ret);
void tuner_profiler_close(struct tuner_profiler *profiler);

/* version 0: none. Where the library has not that version: none. */
void tuner_table_find(void *library, int version, struct tuner_table *ret);
int tuner_table_init(const struct tuner_table *tuner, uint64_t comm_id, size_t rank_count, size_t node_count,
		     nccl_debug_logger *logger, void **ret_context);
/*
 * One of many collectives, with a table of costs that only depends on the communicator's id and the question, so that
 * every rank asks the same. Some entries are forbidden.
 */
int tuner_table_ask(const struct tuner_table *tuner, void *context, uint64_t comm_id, int question,
		    struct tuner_choice *ret);
/*
 * The questions that the played tuning tables have something to say of, in two groups. version 0: NCCL's own choices.
 * Hashes: first, of the group ahead of which the communicator has no connections; rest, of the other.
 */
struct tuner_answers {
	uint32_t first, rest;
};
void tuner_table_follow(const struct tuner_table *tuner, void *context, const struct tuner_profiler *profiler,
			struct tuner_answers *ret);
int tuner_table_end(const struct tuner_table *tuner, void *context);

#endif
