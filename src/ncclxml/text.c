/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclxml/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ncclmodel/limits.h"

static void fail(struct ncclxml_text *text, int error, const char *reason)
{
	if (text->out.error)
		return;
	text->out.error = error;
	text->reason = reason;
}

static void end_tag(struct ncclxml_text *text)
{
	if (text->in_tag)
		text_put(&text->out, ">\n");
	text->in_tag = false;
}

static void indent(struct ncclxml_text *text)
{
	for (unsigned i = 0; i < text->depth; i++)
		text_put(&text->out, "  ");
}

static bool is_plain(char c)
{
	return c >= ' ' && c <= '~' && !strchr("<>&\"'", c);
}

bool ncclxml_text_plain(const char *value)
{
	while (*value && is_plain(*value))
		value++;
	return !*value;
}

void ncclxml_text_open(struct ncclxml_text *text, const char *name)
{
	if (text->out.error)
		return;
	if (text->element_count == (text->element_max ? text->element_max : NCCLMODEL_NODE_MAX)) {
		fail(text, -E2BIG, "more elements than NCCL reads");
		return;
	}
	if (text->depth == NCCLXML_TEXT_DEPTH) {
		fail(text, -E2BIG, "elements inside elements, too deep");
		return;
	}
	if (text->depth && ++text->stack[text->depth - 1].children > NCCLMODEL_CHILD_MAX) {
		fail(text, -E2BIG, "more elements inside one than NCCL reads");
		return;
	}
	end_tag(text);
	indent(text);
	text_put(&text->out, "<%s", name);
	text->element_count++;
	text->stack[text->depth].name = name;
	text->stack[text->depth].children = 0;
	text->stack[text->depth].attributes = 0;
	text->depth++;
	text->in_tag = true;
}

void ncclxml_text_attribute(struct ncclxml_text *text, const char *name, const char *fmt, ...)
{
	char value[NCCLMODEL_VALUE_MAX + 1];
	size_t kept = 0;
	va_list args;
	int length;

	if (text->out.error || !text->in_tag)
		return;
	va_start(args, fmt);
	length = vsnprintf(value, sizeof(value), fmt, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(value)) {
		fail(text, -E2BIG, "a value longer than NCCL reads");
		return;
	}
	if (++text->stack[text->depth - 1].attributes > NCCLMODEL_ATTRIBUTE_MAX) {
		fail(text, -E2BIG, "more attributes than NCCL reads");
		return;
	}
	for (size_t i = 0; value[i]; i++)
		if (is_plain(value[i]))
			value[kept++] = value[i];
	if (length && !kept)
		return;
	value[kept] = '\0';
	text_put(&text->out, " %s=\"%s\"", name, value);
}

void ncclxml_text_close(struct ncclxml_text *text)
{
	if (text->out.error || !text->depth)
		return;
	text->depth--;
	if (text->in_tag) {
		text_put(&text->out, "/>\n");
		text->in_tag = false;
		return;
	}
	indent(text);
	text_put(&text->out, "</%s>\n", text->stack[text->depth].name);
}

void ncclxml_text_comment(struct ncclxml_text *text, const char *fmt, ...)
{
	char words[512];
	size_t kept = 0;
	va_list args;

	if (text->out.error)
		return;
	va_start(args, fmt);
	if (vsnprintf(words, sizeof(words), fmt, args) < 0)
		words[0] = '\0';
	va_end(args);
	for (size_t i = 0; words[i]; i++) {
		bool plain = words[i] >= ' ' && words[i] <= '~' && !strchr("<>&=", words[i]);

		if (plain && !(words[i] == '-' && words[i + 1] == '-'))
			words[kept++] = words[i];
	}
	while (kept && words[kept - 1] == '-')
		kept--;
	words[kept] = '\0';
	end_tag(text);
	indent(text);
	text_put(&text->out, "<!-- %s -->\n", words);
}
