/* Which NICs the rings of several hosts come in and go out by. */
#include "plugin/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "unit/plugin/session/hall.h"

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
	struct hall *hall = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		hall_start_all(hall, 8, cases[i].environment);
		hall_begin(hall, ALL, 1);
		hall_phase(hall, ALL);
		assert_int_equal(hall_do(hall, 0, 0, HALL_READ, 0), 0);
		assert_int_equal(hall_gpus(hall->reply.text), ALL);
		assert_int_equal(crosses(hall->reply.text), cases[i].crosses);
		assert_int_equal(strstr(hall->reply.text, "crossnic=\"1\"") != NULL, cases[i].crosses);
		for (unsigned rank = 0; rank < 8; rank++)
			hall_kill(hall, rank);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rings_leave_by_the_nic_they_came_by_unless_the_user_lets_them_not,
						hall_open, hall_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
