/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group of tests that spend their time waiting: each runs in a process of its own, all at the same time, so that the
 * group takes as long as its longest test. The group's setup and teardown run in each of these processes; threads of the
 * caller are not there (start them in the setup).
 */
#ifndef TESTS_SUPPORT_PARALLEL_H
#define TESTS_SUPPORT_PARALLEL_H

#include <stddef.h>

/* Include it after cmocka.h. */
#define parallel_run_group_tests(tests, setup, teardown) \
	parallel_run(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

/*
 * The number of tests that failed. Prints what each of them printed when it ends; where the watchdog rings or the process
 * is told to end, what there is so far. TRIBUTARY_TEST_FILTER: the tests that match, one after the other in this process.
 */
int parallel_run(const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
