/* SPDX-License-Identifier: Apache-2.0 */
#include "command/conf.h"

#include "base/sys.h"
#include "base/text_file.h"
#include "command/command.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	TEXT_BYTES = 1024, /* NCCL cuts longer names and values */
	FILE_MOST = 1 << 20,
};

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

struct variable {
	struct variable *next;
	char name[TEXT_BYTES], file[PATH_MAX];
	unsigned line;
};

static struct variable *variables;
static bool is_loaded;

static void set(const char *name, const char *value, const char *file, unsigned line)
{
	struct variable *variable;

	if (getenv(name))
		return;
	variable = sys_zalloc(sizeof(*variable));
	if (!variable || setenv(name, value, 0) < 0) {
		sys_free(variable);
		return;
	}
	snprintf(variable->name, sizeof(variable->name), "%s", name);
	snprintf(variable->file, sizeof(variable->file), "%s", file);
	variable->line = line;
	variable->next = variables;
	variables = variable;
}

static bool is_wrapped(const char *value)
{
	size_t bytes = strlen(value);

	return bytes && (strchr("\"'", value[0]) || strchr(" \t\r", value[bytes - 1]));
}

/* NAME=VALUE to the end of the line: neither blanks nor quotes are taken away. */
static void load_line(char *line, const char *file, unsigned number)
{
	char name[TEXT_BYTES], value[TEXT_BYTES];
	size_t bytes = strcspn(line, "=");

	if (line[0] == '#' || !line[strspn(line, " \t\r")])
		return;
	if (line[bytes] != '=' || !bytes || strspn(line, letters) != bytes) {
		command_say("%s, line %u is not NAME=VALUE without blanks: NCCL makes nothing of it", file, number);
		return;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(bytes < TEXT_BYTES ? bytes : TEXT_BYTES - 1), line);
	snprintf(value, sizeof(value), "%s", line + bytes + 1);
	if (is_wrapped(value))
		command_say("%s, line %u: NCCL takes quotes and blanks around a value for a part of it", file, number);
	set(name, value, file, number);
}

/* One that is not there is no matter, as with NCCL; nor is /dev/null, by which a job has none. */
static void load_file(const char *path)
{
	static const struct text_file kind = { .limit_bytes = FILE_MOST, .as_is = true };
	struct diag why = { .text = "" };
	char *text, *end;
	unsigned number = 0;
	size_t bytes;
	int r = strcmp(path, "/dev/null") ? text_file_read(&kind, path, FILE_MOST, &text, &bytes, &why) : -ENOENT;

	if (r < 0) {
		if (r != -ENOENT)
			command_say("NCCL's configuration file %s", why.text);
		return;
	}
	for (char *line = text; line < text + bytes; line = end + 1) {
		end = strchrnul(line, '\n');
		*end = '\0';
		load_line(line, path, ++number);
	}
	sys_free(text);
}

void conf_load(void)
{
	const char *named = getenv("NCCL_CONF_FILE");
	const struct passwd *user = named && *named ? NULL : getpwuid(getuid());
	char path[PATH_MAX];

	if (is_loaded)
		return;
	is_loaded = true;
	if (named && *named) {
		snprintf(path, sizeof(path), "%s", named);
		load_file(path);
	} else if (user && snprintf(path, sizeof(path), "%s/.nccl.conf", user->pw_dir) < (int)sizeof(path)) {
		load_file(path);
	}
	load_file("/etc/nccl.conf");
}

const char *conf_file_of(const char *variable, unsigned *ret_line)
{
	for (const struct variable *at = variables; at; at = at->next) {
		if (strcmp(at->name, variable) != 0)
			continue;
		if (ret_line)
			*ret_line = at->line;
		return at->file;
	}
	return NULL;
}

void conf_unload(void)
{
	while (variables) {
		struct variable *next = variables->next;

		unsetenv(variables->name);
		sys_free(variables);
		variables = next;
	}
	is_loaded = false;
}
