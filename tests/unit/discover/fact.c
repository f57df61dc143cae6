/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/discover/fact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fact_value(const struct discover_facts *facts, const char *what, const char *key)
{
	static char value[128];
	const char *next = NULL, *at;
	char words[64], line[4096];

	snprintf(words, sizeof(words), " %s=", key);
	for (const char *from = facts->text; from && *from; from = next) {
		next = strchrnul(from, '\n');
		next += *next == '\n';
		snprintf(line, sizeof(line), "%.*s", (int)(next - from), from);
		if (strncmp(line, what, strlen(what)) != 0 || line[strlen(what)] != ' ')
			continue;
		at = strstr(line + strlen(what), words);
		if (at) {
			at += strlen(words);
			snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, " \n"), at);
			return value;
		}
	}
	return NULL;
}

void fact_assert(const struct discover_facts *facts, const char *what, const char *key, const char *expected)
{
	const char *value = fact_value(facts, what, key);

	if (!value || strcmp(value, expected) != 0)
		fail_msg("%s %s is \"%s\", not \"%s\"", what, key, value ? value : "(none)", expected);
}

char *fact_text(const struct topology *topology, const struct discover_facts *facts)
{
	char *graph, *both;
	size_t bytes;

	assert_int_equal(topology_write(topology, &graph, &bytes), 0);
	assert_true(asprintf(&both, "%sfacts\n%s", graph, facts->text ? facts->text : "") > 0);
	free(graph);
	return both;
}

char *fact_capture_text(const char *path)
{
	struct discover_facts facts = { 0 };
	enum discover_source source;
	struct topology topology;
	struct diag diag = { 0 };
	char *text;

	if (discover(path, &topology, &facts, &source, &diag) < 0)
		fail_msg("%s: line %d: %s", path, diag.line, diag.text);
	assert_int_equal(source, DISCOVER_CAPTURE);
	text = fact_text(&topology, &facts);
	topology_fini(&topology);
	discover_facts_fini(&facts);
	return text;
}

int fact_archive_write(const char *path, struct discover_root *root)
{
	size_t bytes = strlen(path);
	FILE *file = fopen(path, "we");
	int r = file ? discover_archive_write(root, bytes < 4 || strcmp(path + bytes - 4, ".tar") != 0, file) : -errno;

	if (file && fclose(file) && !r)
		r = -errno;
	return r;
}
