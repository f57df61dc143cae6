/* SPDX-License-Identifier: Apache-2.0 */
#include "support/transport_suite.h"

#include "support/runtime.h"
#include "support/transport_suite_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define MAX_CASES  64
#define NAME_BYTES 96

static struct transport_suite suite_now; /* of the run; cmocka's fixtures take no argument */

static unsigned add_cases(const struct transport_suite_case *cases, const char *label, struct CMUnitTest *tests,
			  char (*names)[NAME_BYTES], unsigned count)
{
	for (; cases->name && count < MAX_CASES; cases++, count++) {
		snprintf(names[count], NAME_BYTES, "%s: %s", label, cases->name);
		tests[count] = (struct CMUnitTest){ .name = names[count],
						    .test_func = cases->run,
						    .initial_state = &suite_now };
	}
	return count;
}

int transport_suite_run(const struct transport_ops *ops, const struct params *params, const char *label,
			unsigned rounds)
{
	static const struct transport_ops *ops_before;
	static char names[MAX_CASES][NAME_BYTES];
	struct CMUnitTest tests[MAX_CASES];
	const char *filter = runtime_setting("TEST_FILTER");
	unsigned count = 0;
	int r;

	suite_now = (struct transport_suite){ .ops = ops, .params = params, .rounds = rounds, .seed = runtime_seed() };
	for (const char *at = label; *at; at++)
		suite_now.seed = suite_now.seed * 31 + (uint8_t)*at;
	r = ops->open(params, &suite_now.transport);
	if (r < 0) {
		runtime_complain(-r, "%s: the transport cannot be opened: %d", label, r);
		return 1;
	}
	suite_now.max_recvs = TRANSPORT_MAX_RECVS; /* TCP takes groups, too, although it wants NCCL to use none */
	count = add_cases(transport_suite_connect_cases, label, tests, names, count);
	count = add_cases(transport_suite_data_cases, label, tests, names, count);
	count = add_cases(transport_suite_close_cases, label, tests, names, count);
	if (runtime_long() || (params && ops != ops_before))
		count = add_cases(transport_suite_unfinished_cases, label, tests, names, count);
	if (ops->watch)
		count = add_cases(transport_suite_watch_cases, label, tests, names, count);
	if (filter)
		cmocka_set_test_filter(filter);
	r = _cmocka_run_group_tests(label, tests, count, NULL, NULL);
	ops->close(suite_now.transport);
	ops_before = ops;
	return r;
}
