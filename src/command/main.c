/* The `tributary` command: a table of subcommands. */
#include "command/command.h"

#include <string.h>

static int command_help(int argc, char **argv, FILE *out);

static const struct command commands[] = {
	{ "devices", "", "the interfaces that the TCP transport would use, and why", command_devices },
	{ "params", "[--man]", "every TRIBUTARY_* variable: value now, default, range, meaning", command_params },
	{ "version", "", "the version of this program", command_version },
	{ "help", "[command]", "this list, or how to call one command", command_help },
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	}
	return NULL;
}

static int command_help(int argc, char **argv, FILE *out)
{
	const struct command *command = argc > 1 ? find(argv[1]) : NULL;

	if (argc > 2)
		return command_usage_error("help", "unexpected argument \"%s\"", argv[2]);
	if (argc > 1 && !command)
		return command_usage_error("", "unknown command \"%s\"", argv[1]);
	if (command) {
		fprintf(out, "usage: tributary %s%s%s\n%s\n", command->name, *command->arguments ? " " : "",
			command->arguments, command->help);
		return COMMAND_OK;
	}
	fputs("usage: tributary command [argument ...]\n\n", out);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(out, "  %-8s %-10s %s\n", commands[i].name, commands[i].arguments, commands[i].help);
	return COMMAND_OK;
}

int main(int argc, char **argv)
{
	const struct command *command;
	int status;

	if (argc < 2)
		return command_usage_error("", "a command is missing");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		command = find("help");
	else if (!strcmp(argv[1], "--version"))
		command = find("version");
	else
		command = find(argv[1]);
	if (!command)
		return command_usage_error("", "unknown %s \"%s\"", argv[1][0] == '-' ? "option" : "command", argv[1]);
	if (argc == 3 && !strcmp(argv[2], "--help")) {
		char *help[] = { argv[2], argv[1], NULL };

		status = command_help(2, help, stdout);
	} else {
		status = command->run(argc - 1, argv + 1, stdout);
	}
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "tributary: the output cannot be written\n");
		return COMMAND_FAILED;
	}
	return status;
}
