/* SPDX-License-Identifier: Apache-2.0 */
#include "command/report/stream.h"

#include "base/log.h"
#include "base/sys.h"
#include "base/text_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Nothing that a trace or NCCL Inspector writes is near the largest value. */
enum { BLOCK_BYTES = 1 << 16, VALUE_MOST = 64 << 20, NO_MORE = -1, FAILED = -2 };

struct report_stream {
	struct archive *archive;
	int fd;
	unsigned char block[BLOCK_BYTES];
	size_t at, end;
	uint64_t line, line_start, block_start; /* from 1; offsets of bytes, unpacked */
	bool is_empty, in_object, in_events;
	char *text; /* room for a NUL more */
	size_t bytes, room;
	struct diag *diag;
};

/* ------------------------------------------------------------------------------------------------------------- bytes */

static int complain(struct report_stream *stream, const char *what)
{
	uint64_t column = stream->block_start + stream->at - stream->line_start + 1;

	diag_set(stream->diag, stream->line < INT_MAX ? (int)stream->line : 0, column < INT_MAX ? (int)column : 0, "%s",
		 what);
	return -EINVAL;
}

/* The next byte, which stays; NO_MORE or FAILED. */
static int peek(struct report_stream *stream)
{
	ssize_t got;

	if (stream->at < stream->end)
		return stream->block[stream->at];
	got = stream->is_empty ? 0 : archive_read_data(stream->archive, stream->block, sizeof(stream->block));
	if (got < 0) {
		complain(stream, archive_error_string(stream->archive));
		return FAILED;
	}
	stream->block_start += stream->end;
	/* A byte-order mark is no part of the text. */
	stream->at = !stream->block_start && got >= 3 && !memcmp(stream->block, "\xef\xbb\xbf", 3) ? 3 : 0;
	stream->end = (size_t)got;
	return stream->at < stream->end ? stream->block[stream->at] : NO_MORE;
}

static void skip(struct report_stream *stream)
{
	if (stream->block[stream->at++] == '\n') {
		stream->line++;
		stream->line_start = stream->block_start + stream->at;
	}
}

/* Commas, too: what writes traces leaves some behind the last element. The byte after them. */
static int skip_space(struct report_stream *stream)
{
	int byte;

	while ((byte = peek(stream)) >= 0 && strchr(" \t\r\n,", byte) && byte)
		skip(stream);
	return byte;
}

static int append(struct report_stream *stream, int byte)
{
	if (stream->bytes >= VALUE_MOST)
		return complain(stream, "a value is longer than 64 MiB");
	if (stream->bytes == stream->room) {
		size_t room = stream->room ? 2 * stream->room : BLOCK_BYTES;
		char *text = realloc(stream->text, room + 1);

		if (!text)
			return -ENOMEM;
		stream->text = text;
		stream->room = room;
	}
	stream->text[stream->bytes++] = (char)byte;
	stream->text[stream->bytes] = '\0';
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ values */

static int cut_off(struct report_stream *stream, int byte)
{
	if (byte == FAILED)
		return -EINVAL; /* it is said */
	complain(stream, "the file ends within a value");
	return -EPIPE;
}

/* A string, object or array, by its brackets alone. */
static int take_bracketed(struct report_stream *stream)
{
	bool in_string = false, escaped = false;
	unsigned depth = 0;
	int byte, r;

	do {
		byte = peek(stream);
		if (byte < 0)
			return cut_off(stream, byte);
		r = append(stream, byte);
		if (r < 0)
			return r;
		skip(stream);
		if (escaped)
			escaped = false;
		else if (in_string && byte == '\\')
			escaped = true;
		else if (byte == '"')
			in_string = !in_string;
		else if (!in_string && (byte == '{' || byte == '['))
			depth++;
		else if (!in_string && depth && (byte == '}' || byte == ']'))
			depth--;
	} while (in_string || depth);
	return 0;
}

/* The value that begins at the next byte. */
static int take_value(struct report_stream *stream)
{
	int byte = peek(stream), r = 0;

	stream->bytes = 0;
	if (byte == '"' || byte == '{' || byte == '[')
		return take_bracketed(stream);
	while (!r && (byte = peek(stream)) > 0 && !strchr(" \t\r\n,]}", byte)) {
		r = append(stream, byte);
		skip(stream);
	}
	if (r < 0 || byte == FAILED)
		return r < 0 ? r : -EINVAL;
	return stream->bytes ? 0 : byte < 0 ? cut_off(stream, byte) : complain(stream, "expected a value");
}

static void mark(const struct report_stream *stream, struct report_piece *piece)
{
	uint64_t column = stream->block_start + stream->at - stream->line_start + 1;

	piece->line = stream->line < INT_MAX ? (int)stream->line : 0;
	piece->column = column < INT_MAX ? (int)column : 0;
}

static int take_piece(struct report_stream *stream, enum report_piece_kind kind, struct report_piece *ret)
{
	int r;

	mark(stream, ret);
	r = take_value(stream);
	ret->kind = kind;
	ret->text = stream->text;
	ret->bytes = stream->bytes;
	return r;
}

static int take_key(struct report_stream *stream, struct report_piece *ret)
{
	size_t bytes;
	int byte = peek(stream), r;

	if (byte != '"')
		return byte < 0 ? cut_off(stream, byte) : complain(stream, "expected \"key\" or }");
	r = take_value(stream);
	if (r < 0)
		return r;
	bytes = stream->bytes - 2 < sizeof(ret->key) ? stream->bytes - 2 : sizeof(ret->key) - 1;
	memcpy(ret->key, stream->text + 1, bytes);
	ret->key[bytes] = '\0';
	byte = skip_space(stream);
	if (byte != ':')
		return byte < 0 ? cut_off(stream, byte) : complain(stream, "expected : after a key");
	skip(stream);
	byte = skip_space(stream);
	return byte < 0 ? cut_off(stream, byte) : 0;
}

/* ------------------------------------------------------------------------------------------------------------ pieces */

/* Within "traceEvents", or an outermost array. Sets *ret_taken when there is an event. */
static int next_event(struct report_stream *stream, struct report_piece *ret, bool *ret_taken)
{
	int byte = skip_space(stream);

	*ret_taken = byte >= 0 && byte != ']';
	if (*ret_taken)
		return take_piece(stream, REPORT_EVENT, ret);
	/* Chrome's form lets an outermost array end with the file. */
	if (byte == FAILED || (byte == NO_MORE && stream->in_object))
		return cut_off(stream, byte);
	if (byte == ']')
		skip(stream);
	stream->in_events = false;
	return 0;
}

/* Between outermost values. Sets *ret_taken at the end of the file. */
static int next_outermost(struct report_stream *stream, struct report_piece *ret, bool *ret_taken)
{
	int byte = skip_space(stream);

	*ret_taken = byte == NO_MORE;
	ret->kind = REPORT_FINISHED;
	if (byte == NO_MORE)
		return 0;
	if (byte == FAILED)
		return -EINVAL;
	if (byte != '{' && byte != '[')
		return complain(stream, "expected { or [ of JSON");
	stream->in_object = byte == '{';
	stream->in_events = byte == '[';
	skip(stream);
	return 0;
}

int report_stream_next(struct report_stream *stream, struct report_piece *ret, struct diag *diag)
{
	bool taken = false;
	int byte, r = 0;

	stream->diag = diag;
	*ret = (struct report_piece){ .kind = REPORT_FINISHED };
	while (!r && !taken) {
		if (stream->in_events) {
			r = next_event(stream, ret, &taken);
			continue;
		}
		if (!stream->in_object) {
			r = next_outermost(stream, ret, &taken);
			continue;
		}
		byte = skip_space(stream);
		taken = true;
		if (byte == '}') {
			mark(stream, ret);
			skip(stream);
			stream->in_object = false;
			ret->kind = REPORT_END;
			return 0;
		}
		r = take_key(stream, ret);
		if (!r && !strcmp(ret->key, "traceEvents") && peek(stream) == '[') {
			skip(stream);
			stream->in_events = true;
			taken = false;
		} else if (!r) {
			r = take_piece(stream, REPORT_VALUE, ret);
		}
	}
	return r;
}

/* -------------------------------------------------------------------------------------------------------------- file */

int report_stream_open(const char *path, struct report_stream **ret, struct diag *diag)
{
	/* A trace may have gigabytes; it is read piece by piece. */
	static const struct text_file any_length = { .limit_bytes = INT64_MAX, .stream = true };
	struct report_stream *stream = calloc(1, sizeof(*stream));
	char reason[TEXT_FILE_BECAUSE_BYTES];
	struct archive_entry *entry;
	int r = 0, header;

	if (!stream)
		return -ENOMEM;
	*stream = (struct report_stream){ .line = 1, .diag = diag, .archive = archive_read_new() };
	stream->fd = text_file_open(&any_length, path, reason);
	if (stream->fd < 0) {
		r = stream->fd;
		diag_set(diag, 0, 0, "%s", reason);
	}
	if (!r && !stream->archive)
		r = -ENOMEM;
	/* What a library for is missing is a warning. */
	if (!r && (archive_read_support_filter_gzip(stream->archive) < ARCHIVE_WARN ||
		   archive_read_support_filter_zstd(stream->archive) < ARCHIVE_WARN ||
		   archive_read_support_format_raw(stream->archive) < ARCHIVE_WARN ||
		   archive_read_support_format_empty(stream->archive) < ARCHIVE_WARN))
		r = -ENOMEM;
	if (!r && archive_read_open_fd(stream->archive, stream->fd, BLOCK_BYTES) == ARCHIVE_OK &&
	    (header = archive_read_next_header(stream->archive, &entry)) >= ARCHIVE_WARN) {
		stream->is_empty = header == ARCHIVE_EOF;
		*ret = stream;
		return 0;
	}
	if (!r) {
		r = -EINVAL;
		diag_set(diag, 0, 0, "%s", archive_error_string(stream->archive));
	}
	report_stream_close(stream);
	return r;
}

void report_stream_close(struct report_stream *stream)
{
	if (!stream)
		return;
	archive_read_free(stream->archive);
	sys_close(&stream->fd);
	free(stream->text);
	free(stream);
}
