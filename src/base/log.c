#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

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
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		snprintf(text, sizeof(text), "(a message that could not be formatted)");
	va_end(args);
	if (sink)
		sink((int)level, subsystem, base_name(file), line, "%s", text);
	else
		write_stderr(text);
	errno = saved_errno;
}

void diag_set(struct diag *diag, int line, int column, const char *fmt, ...)
{
	int saved_errno = errno;
	va_list args;

	if (!diag)
		return;
	diag->line = line;
	diag->column = column;
	va_start(args, fmt);
	if (vsnprintf(diag->text, sizeof(diag->text), fmt, args) < 0)
		diag->text[0] = '\0';
	va_end(args);
	errno = saved_errno;
}
