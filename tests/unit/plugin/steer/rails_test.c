/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs the rings of several hosts come in and go out by. */
#include "plugin/steer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "unit/plugin/steer/host.h"

enum { ALL = 0xff };

/* Whether a ring comes in by one NIC and goes out by another. */
static bool crosses(const char *text)
{
	const char *end = strstr(text, "</graph>");

	assert_non_null(end);
	for (const char *at = strstr(text, "<channel>"); at && at < end; at = strstr(at + 1, "<channel>")) {
		const char *in = strstr(at, "<net dev="), *out = in ? strstr(in + 1, "<net dev=") : NULL;

		assert_non_null(out);
		if (strncmp(in, out, strcspn(in, "/")) != 0)
			return true;
	}
	return false;
}

/* NCCL's own rings never do: NICs may be rails that see each other over a narrow uplink, or not at all. */
static void rings_leave_by_the_nic_they_came_by_unless_the_user_lets_them_not(void **state)
{
	static const struct {
		const char *environment;
		bool crosses;
	} cases[] = { { "WORLD_SIZE=16\n", false },
		      { "WORLD_SIZE=16\nNCCL_CROSS_NIC=2\n", false },
		      { "WORLD_SIZE=16\nNCCL_CROSS_NIC=0\n", false },
		      { "WORLD_SIZE=16\nNCCL_CROSS_NIC=1\n", true } };
	struct host *host = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		host_start_all(host, 8, cases[i].environment);
		host_begin(host, ALL, 1);
		assert_int_equal(host_graphs(host, ALL), ALL);
		assert_int_equal(host_do(host, 0, 0, HOST_GRAPH, 0), 0);
		assert_int_equal(crosses(host->reply.text), cases[i].crosses);
		assert_int_equal(strstr(host->reply.text, "crossnic=\"1\"") != NULL, cases[i].crosses);
		for (unsigned rank = 0; rank < 8; rank++)
			host_kill(host, rank);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rings_leave_by_the_nic_they_came_by_unless_the_user_lets_them_not,
						host_open, host_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
