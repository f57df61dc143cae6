/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclxml/read/scan.h"

#include <stdbool.h>
#include <string.h>

#include "ncclmodel/limits.h"

struct scan {
	const char *at, *end;
	int line;
	const char *reason; /* set once NCCL has given up */
	void (*on_escape)(void *arg, int line);
	void *arg;
};

/* '\0' at the end, and everywhere after NCCL has given up. */
static char take(struct scan *scan)
{
	char c;

	if (scan->reason)
		return '\0';
	if (scan->at == scan->end) {
		scan->reason = "the file ends inside a tag";
		return '\0';
	}
	c = *scan->at++;
	return c;
}

/* The line of a byte that was taken is the one before it is counted. */
static void count_line(struct scan *scan, char c)
{
	scan->line += c == '\n' && !scan->reason;
}

static void give_up(struct scan *scan, const char *reason)
{
	if (!scan->reason)
		scan->reason = reason;
}

static char take_value(struct scan *scan)
{
	char quote = take(scan), c;
	int length = 0, line = scan->line;
	bool escape = false;

	if (quote != '"' && quote != '\'') {
		give_up(scan, "a value without quotes");
		return '\0';
	}
	while ((c = take(scan)) && c != quote) {
		count_line(scan, c);
		escape = escape || c == '&';
		/* The place for the quote counts, too. */
		if (++length > NCCLMODEL_VALUE_MAX)
			give_up(scan, "a value of more than 253 characters");
	}
	if (escape && !scan->reason)
		scan->on_escape(scan->arg, line);
	return take(scan);
}

/* A name up to one of " />\n\r", or a name and its value. Returns what ended it, '\0' if NCCL gave up. */
static char take_token(struct scan *scan, bool value_allowed, char *name, size_t name_bytes)
{
	size_t length = 0;
	char c;

	for (;;) {
		c = take(scan);
		if (scan->reason)
			return '\0';
		if (c == '=') {
			if (!value_allowed)
				give_up(scan, "an '=' in the name of an element, or in the first word of a comment");
			name[length < name_bytes ? length : name_bytes - 1] = '\0';
			return take_value(scan);
		}
		if (strchr(" >/\n\r", c) && c)
			break;
		if (length + 1 < name_bytes)
			name[length] = c;
		if (++length > NCCLMODEL_VALUE_MAX)
			give_up(scan, "a name of more than 253 characters");
	}
	name[length < name_bytes ? length : name_bytes - 1] = '\0';
	return c;
}

/* From behind its first word, of which `last` is what ended it. */
static void skip_comment(struct scan *scan, const char *word, char last)
{
	size_t length = strlen(word);
	char end[3] = { '.', '.', '.' };

	for (size_t i = length > 2 ? length - 2 : 0; i < length; i++) {
		end[0] = end[1];
		end[1] = end[2];
		end[2] = word[i];
	}
	for (char c = last;; c = take(scan)) {
		if (scan->reason) {
			scan->reason = "a comment that does not end";
			return;
		}
		count_line(scan, c);
		end[0] = end[1];
		end[1] = end[2];
		end[2] = c;
		if (!memcmp(end, "-->", sizeof(end)))
			return;
	}
}

static void scan_attributes(struct scan *scan, char last)
{
	char name[8] = "";

	while (last == ' ')
		last = take_token(scan, true, name, sizeof(name));
	if (last == '/')
		last = take_token(scan, false, name, sizeof(name));
	if (last == '\n' || last == '\r')
		give_up(scan, "a line break inside a tag");
	else if (last != '>')
		give_up(scan, "something else than a space between two attributes");
}

static void scan_element(struct scan *scan)
{
	char name[16] = "", last = take_token(scan, false, name, sizeof(name));

	if (scan->reason)
		return;
	if (!strncmp(name, "!--", 3)) {
		skip_comment(scan, name + 3, last);
		return;
	}
	if (name[0] == '?') {
		give_up(scan, "an XML declaration or another <?instruction?>");
		return;
	}
	if (name[0] == '!') {
		give_up(scan, "a <!DOCTYPE> or another <!declaration>");
		return;
	}
	if (!name[0] && last == '/') {
		last = take_token(scan, false, name, sizeof(name));
		if (last != '>')
			give_up(scan, "something between the name and the '>' of a closing tag");
		return;
	}
	scan_attributes(scan, last);
}

int ncclxml_scan(const char *text, size_t bytes, void (*on_escape)(void *arg, int line), void *arg,
		 const char **ret_reason)
{
	struct scan scan = { .at = text, .end = text + bytes, .line = 1, .on_escape = on_escape, .arg = arg };

	if (bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
		give_up(&scan, "a byte-order mark");
	while (scan.at < scan.end && !scan.reason) {
		char c = take(&scan);

		count_line(&scan, c);
		if (c == ' ' || c == '\n' || c == '\r')
			continue;
		if (c == '<')
			scan_element(&scan);
		else
			give_up(&scan, c == '\t' ? "a tab between elements" : "text between elements");
	}
	if (!scan.reason)
		return 0;
	*ret_reason = scan.reason;
	return scan.line;
}
