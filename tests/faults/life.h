/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Nth call fails: a whole life of a transport (open, listen, connect, transfers small, announced, grouped, close) is
 * run again and again, with the first, second, third ... call of one kind failing, until it runs through without meeting
 * the fault. Every run ends; its results are right or there is an error; nothing is left behind.
 *
 * Needs a build with FAULTS=1; SAN=address finds what leaks.
 */
#ifndef TESTS_FAULTS_LIFE_H
#define TESTS_FAULTS_LIFE_H

#include "base/sys.h"
#include "transport/transport.h"

#ifdef TRIBUTARY_FAULTS

struct params;

struct life_fault {
	enum sys_fault_kind kind;
	const char *name;
	int error;
};

/*
 * One test for each fault (at most 16), and one for pairs of them, taken from the seed; their number that failed. TRIBUTARY_TEST_FILTER: only those that match. run: a
 * whole life; 0 when all went well, -ETIMEDOUT when something waits without end, -EBADMSG when something is wrong, any
 * other error when it met the fault.
 */
int life_run_with_faults(int (*run)(uint64_t seed), struct life_fault *faults, unsigned count);
/* One whole life of a transport: 0, or its first error. */
int life_of(const struct transport_ops *ops, const struct params *params, uint64_t seed);
/* The life of a transport. */
int life_with_faults(const struct transport_ops *ops, const struct params *params, struct life_fault *faults,
		     unsigned count);

#else

/* The status of a test that needs such a build, which it says. */
int life_skipped(void);

#endif
#endif
