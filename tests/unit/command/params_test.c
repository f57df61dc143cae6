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
static char *output_of(int argc, char **argv, int expected_status)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(command_params(argc, argv, out), expected_status);
	fclose(out);
	return text;
}

static void table_has_every_variable_with_its_value(void **state)
{
	char name[] = "params", *argv[] = { name, NULL }, *text, *line;
	struct param_info info;

	(void)state;
	assert_int_equal(setenv("TRIBUTARY_TIMEOUT", "2.5", 1), 0);
	text = output_of(1, argv, COMMAND_OK);
	unsetenv("TRIBUTARY_TIMEOUT");
	for (size_t i = 0; i < params_count(); i++) {
		params_info(i, &info);
		assert_non_null(strstr(text, info.name));
		assert_non_null(strstr(text, info.range));
	}
	line = strstr(text, "TRIBUTARY_TIMEOUT ");
	assert_non_null(line);
	*strchr(line, '\n') = '\0';
	assert_non_null(strstr(line, " 2.5 "));
	assert_non_null(strstr(line, " 10 "));
	free(text);
}

static void lines_are_no_longer_than_100_columns(void **state)
{
	char name[] = "params", *argv[] = { name, NULL }, *text = output_of(1, argv, COMMAND_OK);

	(void)state;
	for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1)
		assert_true(end - at <= 100);
	free(text);
}

static void what_it_does_not_know_is_an_error(void **state)
{
	char name[] = "params", option[] = "--mann", man[] = "--man", more[] = "x";
	char *bad_option[] = { name, option, NULL }, *too_much[] = { name, man, more, NULL }, *text;

	(void)state;
	text = output_of(2, bad_option, COMMAND_USAGE);
	assert_string_equal(text, "");
	free(text);
	text = output_of(3, too_much, COMMAND_USAGE);
	assert_string_equal(text, "");
	free(text);
}

static char *file_text(const char *path)
{
	char *text = calloc(1, 1 << 16);
	FILE *file = fopen(path, "re");

	assert_non_null(text);
	assert_non_null(file);
	assert_in_range(fread(text, 1, (1 << 16) - 1, file), 1, (1 << 16) - 2);
	fclose(file);
	return text;
}

static void man_page_has_the_section_that_is_generated(void **state)
{
	char name[] = "params", man[] = "--man", *argv[] = { name, man, NULL }, path[512], *generated, *page;
	const char *source = getenv("TRIBUTARY_SOURCE"), *begin = "params --man`.\n";

	(void)state;
	if (!source) {
		print_message("skipped: TRIBUTARY_SOURCE is not set\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/docs/tributary.1", source);
	generated = output_of(2, argv, COMMAND_OK);
	page = file_text(path);
	assert_non_null(strstr(page, begin));
	assert_memory_equal(strstr(page, begin) + strlen(begin), generated, strlen(generated));
	assert_int_equal(strncmp(strstr(page, begin) + strlen(begin) + strlen(generated), ".\\\" End", 7), 0);
	free(generated);
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_has_every_variable_with_its_value),
		cmocka_unit_test(lines_are_no_longer_than_100_columns),
		cmocka_unit_test(what_it_does_not_know_is_an_error),
		cmocka_unit_test(man_page_has_the_section_that_is_generated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
