/* SPDX-License-Identifier: Apache-2.0 */
/* What documents say that commands can say again. */
#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* Runs a Python program of the repository; fails with what it prints. */
static void run_python(const char *name, const char *arguments)
{
	char line[2048], text[8192];
	size_t bytes;
	FILE *pipe;

	if (!program_source()[0]) {
		print_message("skipped: TRIBUTARY_SOURCE is not set\n");
		skip();
	}
	snprintf(line, sizeof(line), "PYTHONDONTWRITEBYTECODE=1 python3 '%s/%s' %s 2>&1", program_source(), name,
		 arguments);
	pipe = popen(line, "re");
	assert_non_null(pipe);
	bytes = fread(text, 1, sizeof(text) - 1, pipe);
	text[bytes] = '\0';
	if (pclose(pipe) != 0)
		fail_msg("%s", text);
}

static void gains_and_picture_are_what_the_commands_give(void **state)
{
	char arguments[1024];
	const char *end = strrchr(program_path(), '/');

	(void)state;
	if (!end) {
		print_message("skipped: no program in TRIBUTARY_BUILD\n");
		skip();
	}
	snprintf(arguments, sizeof(arguments), "--check --build '%.*s'", (int)(end - program_path()), program_path());
	run_python("perf/gains.py", arguments);
}

static void the_tutorial_shows_what_commands_print(void **state)
{
	char arguments[2048];

	(void)state;
	snprintf(arguments, sizeof(arguments), "'%s' '%s/docs/guide/tutorial.md'", program_path(), program_source());
	run_python("tests/gates/example.py", arguments);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gains_and_picture_are_what_the_commands_give),
		cmocka_unit_test(the_tutorial_shows_what_commands_print),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
