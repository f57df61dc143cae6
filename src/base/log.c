#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1024, WHOLE_BYTES = 4096 };

static _Atomic(log_sink *) current_sink;

void log_set_sink(log_sink *sink)
{
	atomic_store_explicit(&current_sink, sink, memory_order_release);
}

static const char *base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? slash + 1 : file;
}

/* One write() per line, so that lines of several processes on one terminal do not mix. */
static void write_stderr(const char *text)
{
	char line[LINE_BYTES + 32];
	int bytes = snprintf(line, sizeof(line), "tributary: %s\n", text);
	ssize_t written;

	if (bytes <= 0)
		return;
	written = write(STDERR_FILENO, line, (size_t)bytes);
	(void)written; /* there is nobody left to tell */
}

void log_write(enum log_level level, unsigned long subsystem, const char *file, int line, const char *fmt, ...)
{
	log_sink *sink = atomic_load_explicit(&current_sink, memory_order_acquire);
	int saved_errno = errno;
	char text[LINE_BYTES];
	va_list args;

	if (!sink && level != LOG_LEVEL_WARN)
		return;
	/* Formatted here: the sink gets one finished string, whatever its own printf understands. */
	va_start(args, fmt);
	log_sentence_v(text, sizeof(text), fmt, args);
	va_end(args);
	if (sink)
		sink((int)level, subsystem, base_name(file), line, "%s", text);
	else
		write_stderr(text);
	errno = saved_errno;
}

/* ---------------------------------------------------------------------------------------------------------- sentences */

/* The first of the last `room` bytes at which a word begins; the last word is cut where it is longer than that. */
static const char *last_words(const char *whole, size_t length, size_t room)
{
	const char *tail = whole + length - room, *blank = tail[-1] == ' ' ? tail - 1 : strchr(tail, ' ');

	return blank ? blank + 1 : tail;
}

static void put_shortened(char *ret, size_t bytes, const char *whole, size_t length)
{
	static const char gap[] = " ... ";
	size_t room = bytes - sizeof(gap), head = room / 2;
	const char *tail;

	while (head && whole[head] != ' ')
		head--;
	if (!head)
		head = room / 2;
	tail = last_words(whole, length, room - head);
	snprintf(ret, bytes, "%.*s%s%s", (int)head, whole, gap, tail);
}

void log_sentence_v(char *ret, size_t bytes, const char *fmt, va_list args)
{
	int saved_errno = errno, length;
	char whole[WHOLE_BYTES];

	length = vsnprintf(whole, sizeof(whole), fmt, args);
	if (length < 0)
		length = snprintf(whole, sizeof(whole), "(a message that could not be formatted)");
	if ((size_t)length >= sizeof(whole))
		length = sizeof(whole) - 1;
	if ((size_t)length < bytes)
		memcpy(ret, whole, (size_t)length + 1);
	else
		put_shortened(ret, bytes, whole, (size_t)length);
	errno = saved_errno;
}

void log_sentence(char *ret, size_t bytes, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_sentence_v(ret, bytes, fmt, args);
	va_end(args);
}

void diag_set_v(struct diag *diag, int line, int column, const char *fmt, va_list args)
{
	if (!diag)
		return;
	diag->line = line;
	diag->column = column;
	log_sentence_v(diag->text, sizeof(diag->text), fmt, args);
}

void diag_set(struct diag *diag, int line, int column, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	diag_set_v(diag, line, column, fmt, args);
	va_end(args);
}
