/* SPDX-License-Identifier: Apache-2.0 */
#include "command/python.h"

#include "base/parse.h"
#include "command/command.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path of this program, and that of the Python file. False: there is none. */
static bool find_files(const char *name, char program[static PATH_MAX], char file[static PATH_MAX])
{
	static const char *const places[] = { "../share/tributary/bench", "../perf/bench", "../../perf/bench" };
	ssize_t bytes = readlink("/proc/self/exe", program, PATH_MAX - 1);
	char *end;

	program[bytes > 0 ? bytes : 0] = '\0';
	end = strrchr(program, '/');
	for (size_t i = 0; end && i < sizeof(places) / sizeof(places[0]); i++) {
		int length = snprintf(file, PATH_MAX, "%.*s/%s/%s", (int)(end - program), program, places[i], name);

		if (length < PATH_MAX && access(file, R_OK) == 0)
			return true;
	}
	return false;
}

/* "--name=value" of what was given; the caller frees it. NULL: no memory. */
static char *option_word(const char *name, const char *value)
{
	size_t bytes = strlen(name) + strlen(value) + sizeof("--=");
	char *word = malloc(bytes);

	if (word)
		snprintf(word, bytes, *value ? "--%s=%s" : "--%s", name, value);
	return word;
}

/* "64K-16M" as "65536-16777216", which Python is given: sizes are read in one place. */
static int sizes_word(const struct command_call *call, const char *name, char **ret)
{
	char text[64], *end;
	uint64_t low = 0, high = 0;

	snprintf(text, sizeof(text), "%s", command_value(call, name));
	end = strchr(text, '-');
	if (end)
		*end++ = '\0';
	if (parse_size(text, 1, UINT64_C(1) << 50, &low) < 0 ||
	    parse_size(end ? end : text, low, UINT64_C(1) << 50, &high) < 0)
		return command_wrong_value(call, name, "FROM-TO, as 64K-16M, the smaller first");
	snprintf(text, sizeof(text), "%" PRIu64 "-%" PRIu64, low, high);
	*ret = option_word(name, text);
	return COMMAND_OK;
}

static int become(const struct command_call *call, char *program, char *file, const char *page)
{
	enum { BEFORE = 3, ADDED = 2 };
	size_t count = options_count(call->command->options), rest = 0, end = BEFORE;
	char **words, *own = getenv("_TRIBUTARY_PYTHON"); /* the Python of the wheel that started this program */
	int error, status = COMMAND_OK;

	while (call->rest && call->rest[rest])
		rest++;
	words = calloc(BEFORE + ADDED + count + 1 + rest + 1, sizeof(*words));
	if (!words)
		return command_failed(NULL, ENOMEM, "python3 cannot be run");
	words[0] = own && *own ? own : (char[]){ "python3" };
	words[1] = (char[]){ "-B" }; /* nothing is written beside the files */
	words[2] = file;
	words[end++] = option_word("program", program);
	if (page)
		words[end++] = option_word("page", page);
	for (size_t i = 0; i < count; i++) {
		const struct options_row *row = &call->command->options[i];
		const char *value = command_value(call, row->name);

		if (value && row->argument && !strcmp(row->argument, "FROM-TO"))
			status = sizes_word(call, row->name, &words[end++]);
		else if (value)
			words[end++] = option_word(row->name, value);
	}
	words[end] = (char[]){ "--" };
	for (size_t i = 0; i < rest; i++)
		words[end + 1 + i] = call->rest[i];
	if (status == COMMAND_OK)
		execvp(words[0], words);
	error = errno;
	for (size_t i = BEFORE; i < end; i++)
		free(words[i]);
	free(words);
	if (status != COMMAND_OK)
		return status;
	return command_failed(NULL, error, "python3 cannot be run, and `tributary %s` needs it, 3.8 or newer",
			      call->command->name);
}

int python_become(const struct command_call *call, const char *name, const char *page, FILE *out)
{
	char program[PATH_MAX], file[PATH_MAX];

	if (!find_files(name, program, file))
		return command_failed(NULL, 0,
				      "%s is neither in ../share/tributary/bench nor in ../perf/bench, seen from "
				      "this program's folder: install it again",
				      name);
	fflush(out);
	return become(call, program, file, page);
}
