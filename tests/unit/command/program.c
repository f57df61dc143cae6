#include "program.h"

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
	enum { MOST_BYTES = 1 << 18 };
	char path[1024], *text = calloc(1, MOST_BYTES);
	FILE *file;

	assert_non_null(text);
	if (!source[0]) {
		free(text);
		print_message("skipped: TRIBUTARY_SOURCE is not set\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/%s", source, name);
	file = fopen(path, "re");
	if (!file)
		fail_msg("%s is missing", path);
	assert_in_range(fread(text, 1, MOST_BYTES - 1, file), 1, MOST_BYTES - 2);
	fclose(file);
	return text;
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
