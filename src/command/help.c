/* `tributary help`: the list of commands, one command's help, or the whole man page. */
#include "command/command.h"

#include "base/parse.h"

#include <string.h>

enum { COLUMNS = 100, OPTION_INDENT = 6 };

void command_print_wrapped(FILE *out, const char *text, size_t indent, size_t columns)
{
	size_t column = 0, bytes;
	const char *word;

	while (parse_list_next(&text, ' ', &word, &bytes)) {
		if (column && column + 1 + bytes > columns) {
			fputc('\n', out);
			column = 0;
		}
		fprintf(out, "%*s%.*s", (int)(column ? 1 : indent), "", (int)bytes, word);
		column += (column ? 1 : indent) + bytes;
	}
	fputc('\n', out);
}

/* Paragraphs end with a newline. */
static void print_paragraphs(FILE *out, const char *text)
{
	char paragraph[1024];

	while (*text) {
		size_t bytes = strcspn(text, "\n");

		snprintf(paragraph, sizeof(paragraph), "%.*s", (int)bytes, text);
		fputc('\n', out);
		command_print_wrapped(out, paragraph, 0, COLUMNS);
		text += bytes + (text[bytes] == '\n');
	}
}

static void print_options(const struct command *command, FILE *out)
{
	size_t count = command_option_count(command);
	char text[512];

	fputs("\nOptions:\n", out);
	for (size_t i = 0; i < count; i++) {
		const struct command_option *option = &command->options[i];

		fprintf(out, "  --%s%s%s\n", option->name, option->argument ? " " : "",
			option->argument ? option->argument : "");
		snprintf(text, sizeof(text), "%s%s%s%s", option->help, option->standard ? " (default: " : "",
			 option->standard ? option->standard : "", option->standard ? ")" : "");
		command_print_wrapped(out, text, OPTION_INDENT, COLUMNS);
	}
	fputs("  --help\n      this text\n", out);
}

static void print_statuses(FILE *out)
{
	fputs("\nExit status: 0 success, 1 failed or interrupted, 2 wrong call; doctor and lint: 3 warnings, 4 "
	      "errors.\n",
	      out);
}

static void print_list(FILE *out)
{
	fputs("usage: tributary COMMAND [OPTION ...] [ARGUMENT]\n\n", out);
	for (const struct command *const *at = command_table; *at; at++)
		fprintf(out, "  %-13s  %-9s  %s\n", (*at)->name, (*at)->operands, (*at)->help);
	fputs("\n`tributary COMMAND --help` lists the options of one.\n", out);
	print_statuses(out);
}

void command_print_help(const struct command *command, FILE *out)
{
	if (command == &command_help) {
		print_list(out);
		return;
	}
	fprintf(out, "usage: tributary %s [OPTION ...]%s%s\n%s\n", command->name, *command->operands ? " " : "",
		command->operands, command->help);
	if (command->about)
		print_paragraphs(out, command->about);
	print_options(command, out);
	print_statuses(out);
}

static int run(const struct command_call *call, FILE *out)
{
	const struct command *command = &command_help;
	int taken = (int)call->operand_count;

	if (command_given(call, "man") && call->operand_count)
		return command_usage_error("help", "unexpected argument \"%s\"", call->operands[0]);
	if (command_given(call, "man")) {
		command_print_man(out);
		return COMMAND_OK;
	}
	if (call->operand_count)
		command = command_find_words((int)call->operand_count, (char **)call->operands, &taken);
	if (command && call->operand_count > (size_t)taken)
		return command_usage_error("help", "unexpected argument \"%s\"", call->operands[taken]);
	if (!command)
		return command_usage_error("", "unknown command \"%s\"", call->operands[0]);
	command_print_help(command, out);
	return COMMAND_OK;
}

const struct command command_help = {
	.name = "help",
	.operands = "[COMMAND] [WORD]",
	.help = "this list, or how to call one command",
	.options = { { "man", NULL, "print the man page of all commands", NULL } },
	.run = run,
};
