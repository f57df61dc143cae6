/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"
#include "support/tree.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char program[512], source[512], folder[64];

int program_find(void **state)
{
	const char *build = getenv("TRIBUTARY_BUILD"), *repository = getenv("TRIBUTARY_SOURCE");

	(void)state;
	if (build)
		snprintf(program, sizeof(program), "%s/tributary", build);
	if (!build || access(program, X_OK))
		program[0] = '\0';
	snprintf(source, sizeof(source), "%s", repository ? repository : "");
	/* These are the test run's own; the program would rightly call them unknown. */
	unsetenv("TRIBUTARY_BUILD");
	unsetenv("TRIBUTARY_SOURCE");
	unsetenv("TRIBUTARY_PLUGIN");
	/* What the tests compare does not depend on the session that runs them. */
	setenv("LC_ALL", "C.UTF-8", 1);
	unsetenv("NO_COLOR");
	return 0;
}

const char *program_path(void)
{
	return program;
}

const char *program_source(void)
{
	return source;
}

int program_run(const char *arguments, const char *what, char *text, size_t text_bytes)
{
	char line[2048];
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

char *program_source_text(const char *name)
{
	char path[1024], *text;

	if (!source[0]) {
		print_message("skipped: TRIBUTARY_SOURCE is not set\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/%s", source, name);
	text = tree_read(path, NULL);
	if (!text || !text[0])
		fail_msg("%s is missing", path);
	return text;
}

void program_compare(const char *text, const char *golden)
{
	char path[1024], *wanted;

	if (getenv("TRIBUTARY_TEST_UPDATE")) {
		snprintf(path, sizeof(path), "%s/%s", source, golden);
		tree_put(path, text);
	}
	wanted = program_source_text(golden);
	assert_string_equal(text, wanted);
	free(wanted);
}

static void remove_folder(void)
{
	char line[96];

	snprintf(line, sizeof(line), "rm -r '%s'", folder);
	if (system(line))
		fprintf(stderr, "%s cannot be removed\n", folder);
}

const char *program_folder(void)
{
	if (!folder[0]) {
		snprintf(folder, sizeof(folder), "/tmp/tributary-command-test.XXXXXX");
		assert_non_null(mkdtemp(folder));
		assert_int_equal(atexit(remove_folder), 0);
	}
	return folder;
}

const char *program_put(const char *name, const char *text)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", program_folder(), name);
	tree_put(path, text);
	return path;
}

double program_number(const json_t *of, const char *key)
{
	const json_t *value = json_object_get(of, key);

	if (!json_is_number(value))
		fail_msg("%s is no number", key);
	return json_number_value(value);
}

void program_check_near(double is, double expected, double part)
{
	if (fabs(is - expected) > part * expected)
		fail_msg("%g, expected %g", is, expected);
}
