/* SPDX-License-Identifier: Apache-2.0 */
/* What a fingerprint is, as text: lines, their order, and the id. */
#include "profile/fingerprint_lines.h"

#include "base/hash.h"
#include "base/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const words[] = {
	[FINGERPRINT_CARD] = "card", [FINGERPRINT_CPU] = "cpu",   [FINGERPRINT_DRIVER] = "driver",
	[FINGERPRINT_LINK] = "link", [FINGERPRINT_PORT] = "port",
};
_Static_assert(sizeof(words) / sizeof(words[0]) == FINGERPRINT_WHAT_COUNT, "every kind of line has a word");

static int span_order(struct fingerprint_span a, struct fingerprint_span b)
{
	size_t bytes = a.bytes < b.bytes ? a.bytes : b.bytes;
	int order = bytes ? memcmp(a.at, b.at, bytes) : 0;

	return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

bool fingerprint_span_is(struct fingerprint_span a, struct fingerprint_span b)
{
	return a.bytes == b.bytes && !span_order(a, b);
}

bool fingerprint_next_line(struct fingerprint_span *rest, struct fingerprint_span *ret)
{
	const char *newline;

	if (!rest->bytes)
		return false;
	newline = memchr(rest->at, '\n', rest->bytes);
	ret->at = rest->at;
	ret->bytes = newline ? (size_t)(newline - rest->at) : rest->bytes;
	rest->at += ret->bytes + (newline ? 1 : 0);
	rest->bytes -= ret->bytes + (newline ? 1 : 0);
	return true;
}

struct fingerprint_span fingerprint_word(struct fingerprint_span line, size_t index)
{
	struct fingerprint_span word = { line.at, 0 };
	const char *end = line.at + line.bytes;

	for (;; index--) {
		const char *space = memchr(word.at, ' ', (size_t)(end - word.at));

		word.bytes = (size_t)((space ? space : end) - word.at);
		if (!index)
			return word;
		if (!space)
			return (struct fingerprint_span){ end, 0 };
		word.at = space + 1;
	}
}

struct fingerprint_span fingerprint_value(struct fingerprint_span line, const char *key)
{
	size_t key_bytes = strlen(key);
	struct fingerprint_span word = { line.at, 0 };

	for (size_t i = 1; word.at + word.bytes < line.at + line.bytes; i++) {
		word = fingerprint_word(line, i);
		if (word.bytes > key_bytes && word.at[key_bytes] == '=' && !memcmp(word.at, key, key_bytes))
			return (struct fingerprint_span){ word.at + key_bytes + 1, word.bytes - key_bytes - 1 };
	}
	return (struct fingerprint_span){ line.at + line.bytes, 0 };
}

enum fingerprint_what fingerprint_what_of(struct fingerprint_span line)
{
	struct fingerprint_span word = fingerprint_word(line, 0);

	for (unsigned what = 0; what < FINGERPRINT_WHAT_COUNT; what++)
		if (fingerprint_span_is(word, (struct fingerprint_span){ words[what], strlen(words[what]) }))
			return (enum fingerprint_what)what;
	return FINGERPRINT_WHAT_COUNT;
}

const char *fingerprint_fault(struct fingerprint_span before, struct fingerprint_span line)
{
	if (line.bytes + 1 > FINGERPRINT_LINE_BYTES)
		return "the line is too long";
	for (size_t i = 0; i < line.bytes; i++) {
		bool gap = line.at[i] == ' ' && (!i || i + 1 == line.bytes || line.at[i - 1] == ' ');

		if (line.at[i] < ' ' || line.at[i] > '~' || gap)
			return "the line is not words of printable characters with one space between";
	}
	if (fingerprint_what_of(line) == FINGERPRINT_WHAT_COUNT)
		return "the line is of no kind that belongs to a machine";
	if (before.bytes && span_order(before, line) >= 0)
		return "the line is not after the one before it in the order of bytes";
	return NULL;
}

int fingerprint_of_text(const char *text, size_t bytes, struct fingerprint *ret)
{
	struct fingerprint_span rest = { text, bytes }, line, before = { text, 0 };
	size_t count = 0;
	char *copy;

	if (bytes > FINGERPRINT_MOST_BYTES || (bytes && text[bytes - 1] != '\n'))
		return -EINVAL;
	for (; fingerprint_next_line(&rest, &line); before = line)
		if (fingerprint_fault(before, line) || ++count > FINGERPRINT_MOST_LINES)
			return -EINVAL;
	copy = sys_zalloc(bytes + 1);
	if (!copy)
		return -ENOMEM;
	if (bytes)
		memcpy(copy, text, bytes);
	ret->text = copy;
	ret->bytes = bytes;
	/* Two machines of one lab must not meet by chance; nobody gains by making them. */
	snprintf(ret->id, sizeof(ret->id), "%016" PRIx64, hash_bytes(HASH_START, text, bytes));
	return 0;
}

void fingerprint_fini(struct fingerprint *fingerprint)
{
	sys_free(fingerprint->text);
	memset(fingerprint, 0, sizeof(*fingerprint));
}

size_t fingerprint_common(const struct fingerprint *a, const struct fingerprint *b)
{
	struct fingerprint_span rest_a = { a->text, a->bytes }, rest_b = { b->text, b->bytes }, in_a, in_b;
	bool more = fingerprint_next_line(&rest_a, &in_a) && fingerprint_next_line(&rest_b, &in_b);
	size_t common = 0;

	while (more) {
		int order = span_order(in_a, in_b);

		common += !order;
		more = (order > 0 || fingerprint_next_line(&rest_a, &in_a)) &&
		       (order < 0 || fingerprint_next_line(&rest_b, &in_b));
	}
	return common;
}

size_t fingerprint_gpu_count(const struct fingerprint *fingerprint)
{
	static const struct fingerprint_span gpu = { "gpu", 3 };
	struct fingerprint_span rest = { fingerprint->text, fingerprint->bytes }, line;
	size_t count = 0;

	while (fingerprint_next_line(&rest, &line))
		count += fingerprint_what_of(line) == FINGERPRINT_CARD &&
			 fingerprint_span_is(fingerprint_value(line, "kind"), gpu);
	return count;
}
