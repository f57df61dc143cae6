/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the transport suite, each a table of cases that ends with a NULL name. */
#ifndef TESTS_SUPPORT_TRANSPORT_SUITE_INTERNAL_H
#define TESTS_SUPPORT_TRANSPORT_SUITE_INTERNAL_H

struct transport_suite_case {
	const char *name;
	void (*run)(void **state); /* *state: a struct transport_suite */
};

extern const struct transport_suite_case transport_suite_connect_cases[];
extern const struct transport_suite_case transport_suite_data_cases[];
extern const struct transport_suite_case transport_suite_close_cases[];
extern const struct transport_suite_case transport_suite_unfinished_cases[]; /* they wait for a time-out */
extern const struct transport_suite_case transport_suite_watch_cases[]; /* for tables that have watch and progress */

#endif
