#include "ncclxml/text.h"

#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ncclmodel/limits.h"

static void fail(struct ncclxml_text *text, int error, const char *reason)
{
	if (text->error)
		return;
	text->error = error;
	text->reason = reason;
}

static void put(struct ncclxml_text *text, const char *bytes, size_t count)
{
	if (text->error)
		return;
	if (sys_grow(&text->text, text->bytes, count + 1, 1) < 0) {
		fail(text, -ENOMEM, "no memory");
		return;
	}
	memcpy(text->text + text->bytes, bytes, count);
	text->bytes += count;
	text->text[text->bytes] = '\0';
}

static void put_str(struct ncclxml_text *text, const char *str)
{
	put(text, str, strlen(str));
}

static void end_tag(struct ncclxml_text *text)
{
	if (text->in_tag)
		put_str(text, ">\n");
	text->in_tag = false;
}

static void indent(struct ncclxml_text *text)
{
	for (unsigned i = 0; i < text->depth; i++)
		put_str(text, "  ");
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
	if (text->error)
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
	put_str(text, "<");
	put_str(text, name);
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

	if (text->error || !text->in_tag)
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
	put_str(text, " ");
	put_str(text, name);
	put_str(text, "=\"");
	put_str(text, value);
	put_str(text, "\"");
}

void ncclxml_text_close(struct ncclxml_text *text)
{
	if (text->error || !text->depth)
		return;
	text->depth--;
	if (text->in_tag) {
		put_str(text, "/>\n");
		text->in_tag = false;
		return;
	}
	indent(text);
	put_str(text, "</");
	put_str(text, text->stack[text->depth].name);
	put_str(text, ">\n");
}

void ncclxml_text_comment(struct ncclxml_text *text, const char *fmt, ...)
{
	char words[512];
	size_t kept = 0;
	va_list args;

	if (text->error)
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
	put_str(text, "<!-- ");
	put_str(text, words);
	put_str(text, " -->\n");
}

void ncclxml_text_fini(struct ncclxml_text *text)
{
	free(text->text);
	memset(text, 0, sizeof(*text));
}
