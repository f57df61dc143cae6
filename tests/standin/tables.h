/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuning tables in schedules: each process has a state directory with tables, with others, or with none; in one the tables
 * come and go. Some jobs name a table, and perhaps one of their processes lacks the name or the file. Whatever they have,
 * the ranks of a communicator choose alike, or NCCL fails it.
 */
#ifndef TESTS_STANDIN_TABLES_H
#define TESTS_STANDIN_TABLES_H

#include "play.h"

/* Below the folder, once; asserts that it worked. The caller removes the folder with all that is in it. */
void tables_make(const char *folder, struct play_tables *ret);
/* Of the job that the next processes are of. */
void tables_choose(struct play *play, unsigned job, unsigned rank_count, unsigned host_count, unsigned process_count);
/* The variables of that process, before it is forked. */
void tables_give(struct play *play, unsigned process, struct board_process *shared);
/* At each turn: in one state directory the tables go, or come back. */
void tables_change(struct play *play);
/* Whether the tuner's init of this process may fail. */
bool tables_may_refuse(const struct play_process *process);
void tables_judge(struct play *play, const struct play_comm *comm);

#endif
