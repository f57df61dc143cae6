/* Runs the built program: $TRIBUTARY_BUILD/tributary. */
#include "command/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char program[512];

static int find_program(void **state)
{
	const char *build = getenv("TRIBUTARY_BUILD");

	(void)state;
	if (build)
		snprintf(program, sizeof(program), "%s/tributary", build);
	if (!build || access(program, X_OK))
		program[0] = '\0';
	/* These are the test run's own; the program would rightly call them unknown. */
	unsetenv("TRIBUTARY_BUILD");
	unsetenv("TRIBUTARY_SOURCE");
	unsetenv("TRIBUTARY_PLUGIN");
	return 0;
}

/* stdout and stderr apart; stdout of the program is lost when `what` redirects it. Returns the exit status. */
static int run(const char *arguments, const char *what, char *text, size_t text_bytes)
{
	char line[1024];
	size_t bytes;
	FILE *pipe;
	int status;

	if (!program[0]) {
		print_message("skipped: no program in TRIBUTARY_BUILD\n");
		skip();
	}
	snprintf(line, sizeof(line), "'%s' %s %s", program, arguments, what);
	pipe = popen(line, "re");
	assert_non_null(pipe);
	bytes = fread(text, 1, text_bytes - 1, pipe);
	text[bytes] = '\0';
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

#define STDOUT "2>/dev/null"
#define STDERR "2>&1 >/dev/null"

static void help_lists_every_command(void **state)
{
	static const char *const ways[] = { "help", "--help", "-h" };
	static const char *const names[] = { "devices", "params", "version", "help" };
	char text[4096], one[4096], call[64];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(run(ways[i], STDOUT, text, sizeof(text)), COMMAND_OK);
		for (size_t j = 0; j < 4; j++)
			assert_non_null(strstr(text, names[j]));
	}
	for (size_t j = 0; j < 4; j++) {
		snprintf(call, sizeof(call), "help %s", names[j]);
		assert_int_equal(run(call, STDOUT, text, sizeof(text)), COMMAND_OK);
		assert_non_null(strstr(text, names[j]));
		snprintf(call, sizeof(call), "%s --help", names[j]);
		assert_int_equal(run(call, STDOUT, one, sizeof(one)), COMMAND_OK);
		assert_string_equal(one, text);
	}
}

static void version_is_one_line(void **state)
{
	char text[256], again[256];

	(void)state;
	assert_int_equal(run("version", STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_int_equal(strncmp(text, "tributary ", 10), 0);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	assert_int_equal(run("--version", STDOUT, again, sizeof(again)), COMMAND_OK);
	assert_string_equal(text, again);
}

static void wrong_calls_get_one_line_and_status_2(void **state)
{
	static const char *const calls[] = {
		"",          "nothing",     "--nothing",  "help nothing", "help help help",
		"version x", "devices --x", "params --x", "params x",     "params --man x",
	};
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(run(calls[i], STDERR, text, sizeof(text)), COMMAND_USAGE);
		assert_int_equal(strncmp(text, "tributary", 9), 0);
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
		assert_int_equal(run(calls[i], STDOUT, text, sizeof(text)), COMMAND_USAGE);
		assert_string_equal(text, "");
	}
}

static void output_that_cannot_be_written_is_an_error(void **state)
{
	char text[256];

	(void)state;
	assert_int_equal(run("params", "2>&1 >/dev/full", text, sizeof(text)), COMMAND_FAILED);
	assert_string_equal(text, "tributary: the output cannot be written\n");
}

static void devices_reports_a_name_that_matches_nothing(void **state)
{
	char text[1024];

	(void)state;
	assert_int_equal(setenv("TRIBUTARY_IF", "=nosuchif0", 1), 0);
	assert_int_equal(run("devices", STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "\"nosuchif0\""));
	unsetenv("TRIBUTARY_IF");
}

static void misspelt_variable_is_named_on_stderr(void **state)
{
	char text[1024];

	(void)state;
	assert_int_equal(setenv("TRIBUTARY_STREEMS", "1", 1), 0);
	assert_int_equal(run("params", STDERR, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "did you mean TRIBUTARY_STREAMS?"));
	unsetenv("TRIBUTARY_STREEMS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(help_lists_every_command),
		cmocka_unit_test(version_is_one_line),
		cmocka_unit_test(wrong_calls_get_one_line_and_status_2),
		cmocka_unit_test(output_that_cannot_be_written_is_an_error),
		cmocka_unit_test(devices_reports_a_name_that_matches_nothing),
		cmocka_unit_test(misspelt_variable_is_named_on_stderr),
	};

	return cmocka_run_group_tests(tests, find_program, NULL);
}
