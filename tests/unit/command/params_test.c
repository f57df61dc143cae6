/* SPDX-License-Identifier: Apache-2.0 */
#include "command/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/params.h"

/* What the command prints; the caller frees it. */
static char *output(void)
{
	char program[] = "tributary", name[] = "params", *argv[] = { program, name, NULL }, *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(command_main(2, argv, out), COMMAND_OK);
	fclose(out);
	return text;
}

static void table_has_every_variable_with_its_value(void **state)
{
	struct param_info info;
	char *text, *line;

	(void)state;
	assert_int_equal(setenv("TRIBUTARY_TIMEOUT", "2.5", 1), 0);
	text = output();
	unsetenv("TRIBUTARY_TIMEOUT");
	for (size_t i = 0; i < params_count(); i++) {
		params_info(i, &info);
		assert_non_null(strstr(text, info.name));
		assert_non_null(strstr(text, info.range));
		assert_int_equal(command_param_index(info.name), i);
	}
	line = strstr(text, "TRIBUTARY_TIMEOUT ");
	assert_non_null(line);
	*strchr(line, '\n') = '\0';
	assert_non_null(strstr(line, " 2.5 "));
	assert_non_null(strstr(line, " 30 "));
	free(text);
}

static void lines_are_no_longer_than_100_columns(void **state)
{
	char *text = output();

	(void)state;
	for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1)
		assert_true(end - at <= 100);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_has_every_variable_with_its_value),
		cmocka_unit_test(lines_are_no_longer_than_100_columns),
	};

	unsetenv("TRIBUTARY_STATE_DIR"); /* the runner's: too long for a line */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
