#include "base/cursor.h"

#include "base/bytes.h"

#include <string.h>

static bool is_printable(char c)
{
	return c >= ' ' && c <= '~';
}

void writer_put(struct writer *writer, uint64_t value, unsigned count)
{
	bytes_put(writer->at, value, count);
	writer->at += count;
}

void writer_put_block(struct writer *writer, const void *block, size_t bytes)
{
	memcpy(writer->at, block, bytes);
	writer->at += bytes;
}

void writer_put_text(struct writer *writer, const char *text, size_t bytes)
{
	size_t length = strnlen(text, bytes - 1);

	memset(writer->at, 0, bytes);
	for (size_t i = 0; i < length; i++)
		writer->at[i] = (uint8_t)(is_printable(text[i]) ? text[i] : '?');
	writer->at += bytes;
}

static bool has(struct reader *reader, size_t bytes)
{
	reader->bad |= (size_t)(reader->end - reader->at) < bytes;
	return !reader->bad;
}

uint64_t reader_get(struct reader *reader, unsigned count)
{
	uint64_t value;

	if (!has(reader, count))
		return 0;
	value = bytes_get(reader->at, count);
	reader->at += count;
	return value;
}

bool reader_get_bool(struct reader *reader, unsigned count)
{
	uint64_t value = reader_get(reader, count);

	reader->bad |= value > 1;
	return value == 1;
}

void reader_get_block(struct reader *reader, void *ret, size_t bytes)
{
	if (!has(reader, bytes)) {
		memset(ret, 0, bytes);
		return;
	}
	memcpy(ret, reader->at, bytes);
	reader->at += bytes;
}

void reader_get_text(struct reader *reader, char *ret, size_t bytes)
{
	reader_get_block(reader, ret, bytes);
	reader->bad |= !memchr(ret, '\0', bytes);
	ret[bytes - 1] = '\0';
	for (const char *c = ret; *c; c++)
		reader->bad |= !is_printable(*c);
}
