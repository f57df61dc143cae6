/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text form, read: NAME{LABEL="VALUE",...} NUMBER. */
#include "command/top/top.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What follows the name, if the line is of that one: its labels or the space before its value. */
static const char *behind_name(const char *line, const char *name)
{
	size_t bytes = strlen(name);

	return !strncmp(line, name, bytes) && (line[bytes] == '{' || line[bytes] == ' ') ? line + bytes : NULL;
}

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : NULL;
}

/* A quoted value; where it ends, or NULL: it does not on this line. What does not fit is left out. */
static const char *read_value(const char *at, char ret[static TOP_LABEL_BYTES])
{
	size_t used = 0;

	for (; *at && *at != '\n' && *at != '"'; at++) {
		char c = *at;

		if (c == '\\' && (at[1] == '\\' || at[1] == '"'))
			c = *++at;
		if (used < TOP_LABEL_BYTES - 1)
			ret[used++] = c;
	}
	ret[used] = '\0';
	return *at == '"' ? at + 1 : NULL;
}

/* at: behind the name. True: it is there, and in ret. *ret_end, unless NULL: where the value of the sample is. */
static bool find_label(const char *at, const char *label, char ret[static TOP_LABEL_BYTES], const char **ret_end)
{
	char value[TOP_LABEL_BYTES];
	bool found = false;

	ret[0] = '\0';
	if (*at == '{')
		at++;
	else
		goto end;
	while (*at && *at != '}' && *at != '\n') {
		const char *equals = strpbrk(at, "=}\n");

		if (!equals || equals[0] != '=' || equals[1] != '"')
			return false;
		if ((size_t)(equals - at) == strlen(label) && !strncmp(at, label, (size_t)(equals - at))) {
			at = read_value(equals + 2, ret);
			found = true;
		} else {
			at = read_value(equals + 2, value);
		}
		if (!at)
			return false;
		at += *at == ',';
	}
	if (*at != '}')
		return false;
	at++;
end:
	if (ret_end)
		*ret_end = at;
	return found;
}

static bool has_label(const char *at, const char *label, const char *wanted)
{
	char value[TOP_LABEL_BYTES];

	find_label(at, label, value, NULL);
	return !strcmp(value, wanted);
}

/* Behind the name of the sample that is meant; NULL: there is none. */
static const char *find_sample(const char *text, const char *name, const struct top_subject *of, const char *channels)
{
	for (const char *line = text; line; line = next_line(line)) {
		const char *at = behind_name(line, name);

		if (at && has_label(at, "process", of->process) && has_label(at, "device", of->device) &&
		    (!channels || has_label(at, "channels", channels)))
			return at;
	}
	return NULL;
}

double top_value(const char *text, const char *name, const struct top_subject *of, const char *channels)
{
	const char *at = find_sample(text, name, of, channels), *number = NULL;
	char unused[TOP_LABEL_BYTES], *end;
	double value;

	if (at)
		find_label(at, "", unused, &number);
	if (!number || *number != ' ')
		return NAN;
	value = strtod(number, &end);
	return end != number && (*end == '\n' || *end == ' ' || !*end) ? value : NAN;
}

bool top_label(const char *text, const char *name, const struct top_subject *of, const char *label,
	       char ret[static TOP_LABEL_BYTES])
{
	const char *at = find_sample(text, name, of, NULL);

	ret[0] = '\0';
	return at && find_label(at, label, ret, NULL);
}

bool top_next_subject(const char **at, struct top_subject *ret)
{
	for (const char *line = *at; line; line = *at) {
		const char *labels = behind_name(line, "tributary_connections");

		*at = next_line(line);
		if (!labels)
			continue;
		find_label(labels, "process", ret->process, NULL);
		if (find_label(labels, "device", ret->device, NULL))
			return true;
	}
	return false;
}
