/* SPDX-License-Identifier: Apache-2.0 */
/* What commands say on stderr. */
#include "command/command.h"

#include "base/log.h"
#include "command/term.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* All messages come through here: paths, words and names from files may hold what a terminal obeys. */
__attribute__((format(printf, 1, 0))) static void put(const char *fmt, va_list args)
{
	char *text;

	if (vasprintf(&text, fmt, args) < 0)
		return;
	term_clean(text, text, strlen(text) + 1);
	fputs(text, stderr);
	free(text);
}

int command_usage_error(const char *name, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "tributary%s%s: ", *name ? " " : "", name);
	va_start(args, fmt);
	put(fmt, args);
	va_end(args);
	fprintf(stderr, " (see `tributary help%s%s`)\n", *name ? " " : "", name);
	return COMMAND_USAGE;
}

__attribute__((format(printf, 1, 2))) static void put_more(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	put(fmt, args);
	va_end(args);
}

static void put_diag(const struct diag *diag)
{
	if (diag->line)
		put_more(", line %d", diag->line);
	if (diag->line && diag->column)
		put_more(", column %d", diag->column);
	put_more(": %s", diag->text);
}

int command_failed(const struct diag *diag, int error, const char *fmt, ...)
{
	va_list args;

	fputs("tributary: ", stderr);
	va_start(args, fmt);
	put(fmt, args);
	va_end(args);
	if (diag && diag->text[0])
		put_diag(diag);
	else if (error)
		put_more(": %s", strerror(error < 0 ? -error : error));
	fputc('\n', stderr);
	return COMMAND_FAILED;
}

void command_warn(const struct diag *diag, const char *fmt, ...)
{
	va_list args;

	fputs("tributary: warning: ", stderr);
	va_start(args, fmt);
	put(fmt, args);
	va_end(args);
	put_diag(diag);
	fputc('\n', stderr);
}

void command_say(const char *fmt, ...)
{
	va_list args;

	fputs("tributary: ", stderr);
	va_start(args, fmt);
	put(fmt, args);
	va_end(args);
	fputc('\n', stderr);
}
