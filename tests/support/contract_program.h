/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over the net contract, compared with the reference model (contract_model.h): 2 to 8 tags, sends and
 * receives in any order, messages that nobody waits for and receives that nobody sends to, from 0 to 4 MiB, groups, ends
 * that look at nothing for a while, connections that are closed amid all of it; both ends in one thread or two, polled or
 * watched. A stall is no progress for five seconds although the model says that something is due.
 *
 * A program follows from its seed. One that fails is cut to its shortest prefix that still fails, and both are printed.
 */
#ifndef TESTS_SUPPORT_CONTRACT_PROGRAM_H
#define TESTS_SUPPORT_CONTRACT_PROGRAM_H

#include "support/contract_end.h"

/* Where connections come from. */
struct contract_mover {
	const char *label;
	const struct transport_ops *ops;
	struct transport *transport;
	int device;
	unsigned max_recvs;
	uint64_t first_seed;
	unsigned stall_ms;                 /* 0: five seconds */
	void (*disturb)(uint64_t *random); /* in some programs, now and then; NULL: never */
};

struct contract_counts {
	uint64_t programs, operations, differences, stalls;
};

/* TRIBUTARY_TEST_SEED, else the same in every run, and others for each mover of a test, which have an index. */
uint64_t contract_first_seed(unsigned index);
/*
 * Programs from mover->first_seed on until they have done so many operations (requests that were taken); ends early
 * after some that failed. Adds to *counts. The number of programs that failed.
 */
unsigned contract_programs_run(const struct contract_mover *mover, uint64_t operations, struct contract_counts *counts);
/* The one line at the end. */
void contract_counts_print(const char *label, const struct contract_counts *counts);

#endif
