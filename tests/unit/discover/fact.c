#include "unit/discover/fact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
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
