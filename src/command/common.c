#include "command/command.h"

#include "base/log.h"
#include "base/params.h"

#include <stdarg.h>
#include <string.h>

int command_usage_error(const char *name, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "tributary%s%s: ", *name ? " " : "", name);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, " (see `tributary help%s%s`)\n", *name ? " " : "", name);
	return COMMAND_USAGE;
}

int command_failed(const struct diag *diag, int error, const char *fmt, ...)
{
	va_list args;

	fputs("tributary: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	if (diag && diag->text[0]) {
		if (diag->line)
			fprintf(stderr, ", line %d", diag->line);
		if (diag->line && diag->column)
			fprintf(stderr, ", column %d", diag->column);
		fprintf(stderr, ": %s", diag->text);
	} else if (error) {
		fprintf(stderr, ": %s", strerror(error < 0 ? -error : error));
	}
	fputc('\n', stderr);
	return COMMAND_FAILED;
}

static void complain(void *arg, const char *sentence)
{
	fprintf(arg, "tributary: %s\n", sentence);
}

void command_load_params(struct params *ret)
{
	struct params_source source = params_from_environment();

	params_load(&source, complain, stderr, ret);
}
