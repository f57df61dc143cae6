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
	char text[DISCOVER_FACT_BYTES];
	va_list args;

	if (to->result < 0 || to->count == LINES_MOST)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	to->result = sys_grow(&to->lines, to->count, 1, sizeof(*to->lines));
	if (to->result < 0)
		return;
	to->lines[to->count] = strdup(text);
	if (to->lines[to->count])
		to->count++;
	else
		to->result = -ENOMEM;
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
	size_t bytes = 0, used = 0;
	char *text;

	if (from->count)
		qsort(from->lines, from->count, sizeof(*from->lines), compare);
	for (size_t i = 0; i < from->count; i++)
		bytes += strlen(from->lines[i]) + 1;
	text = malloc(bytes + 1);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < from->count; i++) {
		size_t length = strlen(from->lines[i]);

		memcpy(text + used, from->lines[i], length);
		text[used + length] = '\n';
		used += length + 1;
	}
	text[used] = '\0';
	*ret = (struct discover_facts){ text, used };
	return 0;
}

void discover_facts_fini(struct discover_facts *facts)
{
	free(facts->text);
	*facts = (struct discover_facts){ 0 };
}
