#include "command/command.h"

#include "base/params.h"

#include <stdarg.h>

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

int command_no_arguments(int argc, char **argv)
{
	if (argc < 2)
		return COMMAND_OK;
	return command_usage_error(argv[0], argv[1][0] == '-' ? "unknown option \"%s\"" : "unexpected argument \"%s\"",
				   argv[1]);
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
