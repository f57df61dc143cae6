/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a cluster file, from anybody; the text may end anywhere. */
#include "cluster/text.h"

#include "base/parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_BYTES = 40, RATE_BYTES = 40 };

char cluster_text_peek(const struct cluster_text *text)
{
	return text->at < text->bytes ? text->text[text->at] : '\n';
}

/* The end of a line that another system wrote is "\r\n". */
static bool newline_at(const struct cluster_text *text, size_t at)
{
	if (at >= text->bytes || text->text[at] == '\n')
		return true;
	return text->text[at] == '\r' && (at + 1 >= text->bytes || text->text[at + 1] == '\n');
}

static void pass_newline(struct cluster_text *text)
{
	while (text->at < text->bytes && text->text[text->at] != '\n')
		text->at++;
	if (text->at < text->bytes)
		text->at++;
	text->line++;
	text->line_start = text->at;
}

static bool continues_at(const struct cluster_text *text, size_t at)
{
	return text->continues && at < text->bytes && text->text[at] == '\\' && newline_at(text, at + 1);
}

void cluster_text_skip_blanks(struct cluster_text *text)
{
	for (;;) {
		char c = cluster_text_peek(text);

		if (continues_at(text, text->at))
			pass_newline(text);
		else if (c == ' ' || c == '\t')
			text->at++;
		else
			break;
	}
}

bool cluster_text_line_ends(const struct cluster_text *text)
{
	return newline_at(text, text->at) || cluster_text_peek(text) == '#';
}

void cluster_text_next_line(struct cluster_text *text)
{
	pass_newline(text);
}

struct cluster_word cluster_text_word(struct cluster_text *text, const char *stops)
{
	struct cluster_word word = { text->text + text->at, 0, text->line, (int)(text->at - text->line_start) + 1 };

	for (; !cluster_text_line_ends(text) && !continues_at(text, text->at); text->at++) {
		char c = cluster_text_peek(text);

		if (c == ' ' || c == '\t' || (c && strchr(stops, c)))
			break;
		word.bytes++;
	}
	return word;
}

/* Bytes that a terminal would obey are not shown. */
static void shown(const struct cluster_word *word, char ret[static SHOWN_BYTES + 1])
{
	size_t count = word->bytes < SHOWN_BYTES ? word->bytes : SHOWN_BYTES;

	for (size_t i = 0; i < count; i++)
		ret[i] = word->at[i] > ' ' && word->at[i] <= '~' ? word->at[i] : '?';
	ret[count] = '\0';
}

int cluster_fail(struct diag *diag, const struct cluster_word *word, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	diag_set_v(diag, word->line, word->column, fmt, args);
	va_end(args);
	return -EINVAL;
}

int cluster_fail_expected(struct diag *diag, const struct cluster_word *word, const char *expected)
{
	char found[SHOWN_BYTES + 1];

	shown(word, found);
	if (!word->bytes)
		return cluster_fail(diag, word, "expected %s, found nothing", expected);
	return cluster_fail(diag, word, "expected %s, found \"%s\"", expected, found);
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool cluster_word_is(const struct cluster_word *word, const char *other, bool any_case)
{
	if (strlen(other) != word->bytes)
		return false;
	for (size_t i = 0; i < word->bytes; i++) {
		char a = word->at[i], b = other[i];

		if (any_case ? lower(a) != lower(b) : a != b)
			return false;
	}
	return true;
}

static bool name_byte(char c)
{
	return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || c == '.' || c == '-' || c == '_';
}

int cluster_word_name(const struct cluster_word *word, const char *what, struct diag *diag)
{
	bool good = word->bytes > 0 && word->bytes <= CLUSTER_NAME_MAX;
	char expected[128];

	for (size_t i = 0; good && i < word->bytes; i++)
		good = name_byte(word->at[i]);
	if (good)
		return 0;
	snprintf(expected, sizeof(expected), "the name of %s (at most %d of a-z 0-9 . - _)", what, CLUSTER_NAME_MAX);
	return cluster_fail_expected(diag, word, expected);
}

int cluster_word_rate(const struct cluster_word *word, struct diag *diag, uint64_t *ret_Bps)
{
	char text[RATE_BYTES + 1];
	int r = -EINVAL;

	if (word->bytes <= RATE_BYTES) {
		memcpy(text, word->at, word->bytes);
		text[word->bytes] = '\0';
		if (strlen(text) == word->bytes)
			r = parse_rate(text, 1, CLUSTER_RATE_MAX, ret_Bps);
	}
	return r < 0 ? cluster_fail_expected(diag, word, PARSE_RATE_EXPECTED) : 0;
}

/* -------------------------------------------------------------------------------------------------- lists of hosts */

/* A name is made of parts: plain text, then, but for the last, a bracket whose number is counted on. */
struct expression {
	struct {
		struct cluster_word plain, ranges; /* ranges: what is between the brackets */
		size_t at;                         /* behind the range that is being counted */
		uint64_t number, last;
		int width;
	} parts[CLUSTER_EXPRESSION_PARTS_MAX + 1];
	size_t count; /* brackets */
};

struct expansion {
	const char *what;
	struct diag *diag;
	int (*take)(void *arg, const char *name, size_t bytes);
	void *arg;
};

static struct cluster_word piece(const struct cluster_word *word, size_t at, size_t bytes)
{
	return (struct cluster_word){ word->at + at, bytes, word->line, word->column + (int)at };
}

static size_t digits_at(const struct cluster_word *word, size_t at, uint64_t *ret)
{
	size_t count = 0;

	for (*ret = 0; at + count < word->bytes && count < 10; count++) {
		char c = word->at[at + count];

		if (c < '0' || c > '9')
			break;
		*ret = *ret * 10 + (uint64_t)(c - '0');
	}
	return count;
}

/* The next range of a part's brackets. False: there is none; *ret_fault: it is none. */
static bool next_range(struct expression *expression, size_t index, bool *ret_fault)
{
	const struct cluster_word *ranges = &expression->parts[index].ranges;
	size_t at = expression->parts[index].at, count;

	*ret_fault = false;
	if (at > ranges->bytes)
		return false;
	*ret_fault = true;
	count = digits_at(ranges, at, &expression->parts[index].number);
	if (!count || count > 9)
		return false;
	expression->parts[index].width = (int)count;
	expression->parts[index].last = expression->parts[index].number;
	at += count;
	if (at < ranges->bytes && ranges->at[at] == '-') {
		count = digits_at(ranges, at + 1, &expression->parts[index].last);
		at += count + 1;
		if (!count || count > 9 || expression->parts[index].last < expression->parts[index].number)
			return false;
	}
	if (at < ranges->bytes && ranges->at[at] != ',')
		return false;
	*ret_fault = false;
	expression->parts[index].at = at + 1;
	return true;
}

static int fail_range(const struct expression *expression, size_t index, struct diag *diag)
{
	return cluster_fail_expected(diag, &expression->parts[index].ranges,
				     "numbers and ranges like 1-8,12, the lower end first, of at most nine digits");
}

static int first_range(struct expression *expression, size_t index, struct diag *diag)
{
	bool fault;

	expression->parts[index].at = 0;
	return next_range(expression, index, &fault) ? 0 : fail_range(expression, index, diag);
}

/* 1: there was one more; 0: all have been. The last bracket counts fastest. */
static int count_on(struct expression *expression, struct diag *diag)
{
	for (size_t i = expression->count; i-- > 0;) {
		bool fault = false;
		int r;

		if (expression->parts[i].number < expression->parts[i].last) {
			expression->parts[i].number++;
			return 1;
		}
		if (next_range(expression, i, &fault))
			return 1;
		r = fault ? fail_range(expression, i, diag) : first_range(expression, i, diag);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_name(const struct expression *expression, const struct cluster_word *whole,
		     const struct expansion *expansion)
{
	char name[CLUSTER_NAME_MAX + 16];
	size_t bytes = 0;
	struct cluster_word word = *whole;
	int r;

	for (size_t i = 0; i <= expression->count; i++) {
		const struct cluster_word *plain = &expression->parts[i].plain;

		if (bytes + plain->bytes > CLUSTER_NAME_MAX)
			return cluster_word_name(whole, expansion->what, expansion->diag);
		memcpy(name + bytes, plain->at, plain->bytes);
		bytes += plain->bytes;
		if (i < expression->count)
			bytes += (size_t)snprintf(name + bytes, sizeof(name) - bytes, "%0*llu",
						  expression->parts[i].width,
						  (unsigned long long)expression->parts[i].number);
	}
	word.at = name;
	word.bytes = bytes;
	r = cluster_word_name(&word, expansion->what, expansion->diag);
	return r < 0 ? r : expansion->take(expansion->arg, name, bytes);
}

/* Cuts word[0..bytes) into parts. */
static int cut(const struct cluster_word *word, struct expression *ret, struct diag *diag)
{
	size_t start = 0, at = 0;

	ret->count = 0;
	for (;;) {
		const char *end;

		while (at < word->bytes && word->at[at] != '[')
			at++;
		ret->parts[ret->count].plain = piece(word, start, at - start);
		if (at == word->bytes)
			return 0;
		start = at + 1;
		end = memchr(word->at + start, ']', word->bytes - start);
		if (!end || ret->count == CLUSTER_EXPRESSION_PARTS_MAX)
			break;
		at = (size_t)(end - word->at);
		ret->parts[ret->count++].ranges = piece(word, start, at - start);
		start = ++at;
	}
	word = &(struct cluster_word){ word->at + start - 1, word->bytes - start + 1, word->line,
				       word->column + (int)start - 1 };
	return cluster_fail_expected(diag, word, "a closing bracket, and at most 8 pairs of them in a name");
}

static int expand_one(const struct cluster_word *word, const struct expansion *expansion)
{
	struct expression expression;
	int r = cut(word, &expression, expansion->diag);

	for (size_t i = 0; r == 0 && i < expression.count; i++)
		r = first_range(&expression, i, expansion->diag);
	if (r < 0)
		return r;
	do {
		r = take_name(&expression, word, expansion);
		if (r == 0)
			r = count_on(&expression, expansion->diag);
	} while (r == 1);
	return r;
}

int cluster_expand(const struct cluster_word *list, const char *what, struct diag *diag,
		   int (*take)(void *arg, const char *name, size_t bytes), void *arg)
{
	const struct expansion expansion = { what, diag, take, arg };
	size_t start = 0;
	bool inside = false;

	for (size_t at = 0; at <= list->bytes; at++) {
		struct cluster_word one;
		int r;

		if (at < list->bytes && (inside || list->at[at] != ',')) {
			inside = list->at[at] == '[' || (inside && list->at[at] != ']');
			continue;
		}
		one = piece(list, start, at - start);
		r = expand_one(&one, &expansion);
		if (r < 0)
			return r;
		start = at + 1;
	}
	return 0;
}
