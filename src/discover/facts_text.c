/* SPDX-License-Identifier: Apache-2.0 */
/* Facts are lines of words: how they are written and read. */
#include "discover/facts_internal.h"

#include "base/parse.h"
#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MOST = 8192 };

void discover_facts_add(struct discover_collector *to, const char *fmt, ...)
{
	va_list args;

	if (to->result < 0 || to->count == LINES_MOST)
		return;
	to->result = sys_grow(&to->lines, to->count, 1, sizeof(*to->lines));
	if (to->result < 0)
		return;
	va_start(args, fmt);
	if (vasprintf(&to->lines[to->count], fmt, args) < 0)
		to->result = -ENOMEM;
	else
		to->count++;
	va_end(args);
}

void discover_facts_word(struct discover_collector *from, char *text, size_t room, const char *folder, const char *name,
			 const char *file)
{
	char *to = text;

	if (discover_root_read(from->root, text, room, "%s%s%s", folder, name, file) < 0 || !*text) {
		snprintf(text, room, DISCOVER_UNKNOWN);
		return;
	}
	for (const char *at = text; *at;) {
		size_t bytes = strcspn(at, " \t\n");

		memmove(to, at, bytes);
		to += bytes;
		at += bytes;
		at += strspn(at, " \t\n");
		if (*at)
			*to++ = ',';
	}
	*to = '\0';
}

void discover_facts_value(const char *line, const char *key, char *ret, size_t room)
{
	size_t key_bytes = strlen(key), bytes;
	const char *item;

	snprintf(ret, room, DISCOVER_UNKNOWN);
	while (line && parse_list_next(&line, ' ', &item, &bytes))
		if (bytes > key_bytes && item[key_bytes] == '=' && !strncmp(item, key, key_bytes) &&
		    bytes - key_bytes <= room)
			snprintf(ret, room, "%.*s", (int)(bytes - key_bytes - 1), item + key_bytes + 1);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int discover_facts_join(struct discover_collector *from, struct discover_facts *ret)
{
	struct discover_facts facts = { 0 };
	FILE *out = open_memstream(&facts.text, &facts.bytes);

	if (!out)
		return -ENOMEM;
	if (from->count)
		qsort(from->lines, from->count, sizeof(*from->lines), compare);
	for (size_t i = 0; i < from->count; i++)
		fprintf(out, "%s\n", from->lines[i]);
	if (fclose(out)) {
		free(facts.text);
		return -ENOMEM;
	}
	*ret = facts;
	return 0;
}

void discover_facts_fini(struct discover_facts *facts)
{
	free(facts->text);
	*facts = (struct discover_facts){ 0 };
}
