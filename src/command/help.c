/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary help`: the list of commands, one command's help, or the man pages. */
#include "command/command.h"

#include "command/print/table.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_statuses(FILE *out)
{
	fputs("\nExit status: 0 success, 1 failed or interrupted, 2 wrong call; doctor and lint: 3 warnings, 4 "
	      "errors.\n",
	      out);
}

static bool has_documents(const char *program, const char *place, char ret[static PATH_MAX])
{
	char path[PATH_MAX];
	size_t bytes = strlen(program);

	while (bytes && program[bytes - 1] != '/')
		bytes--;
	return snprintf(path, sizeof(path), "%.*s%s/docs", (int)bytes, program, place) < PATH_MAX &&
	       realpath(path, ret);
}

/* Installed with this program, or where its source is. */
static void print_documents(FILE *out)
{
	char program[PATH_MAX], place[PATH_MAX];
	ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (bytes < 0)
		return;
	program[bytes] = '\0';
	if (has_documents(program, "../share/doc/tributary", place) || has_documents(program, "..", place))
		fprintf(out, "docs/ is %s\n", place);
}

static void print_list(const struct command *const *table, FILE *out)
{
	struct table columns;
	FILE *rows;

	fputs("usage: tributary COMMAND [OPTION ...] [ARGUMENT]\n\n", out);
	rows = table_begin(&columns, out);
	for (const struct command *const *at = table; *at; at++) {
		if (at == table || (*at)->group != at[-1]->group)
			fprintf(rows, "%s%s\n", at == table ? "" : "\n", command_group_title((*at)->group));
		fprintf(rows, "%s\t%s\t%s\n", (*at)->name, (*at)->operands, (*at)->help);
	}
	table_end(&columns, rows, "  l  l  l");
	fputs("\n`tributary COMMAND --help` lists the options of one.\n", out);
	print_statuses(out);
	print_documents(out);
}

/* "show" is one of several: the others have options of their own. */
static void print_second_words(const struct command *const *table, const struct command *command, FILE *out)
{
	const struct command *const *at = command_next_second(table, command, NULL);

	for (; at; at = command_next_second(table, command, at))
		fprintf(out, "%s`tributary %s --help`: %s\n",
			at == command_next_second(table, command, NULL) ? "\n" : "", (*at)->name, (*at)->help);
}

void command_print_help(const struct command *const *table, const struct command *command, FILE *out)
{
	if (command == &command_help) {
		print_list(table, out);
		return;
	}
	fprintf(out, "usage: tributary %s [OPTION ...]%s%s\n", command->name, *command->operands ? " " : "",
		command->operands);
	for (const struct command *const *at = NULL; (at = command_next_second(table, command, at));)
		fprintf(out, "       tributary %s [OPTION ...]%s%s\n", (*at)->name, *(*at)->operands ? " " : "",
			(*at)->operands);
	fprintf(out, "%s\n", command->help);
	print_second_words(table, command, out);
	if (command->about)
		options_print_paragraphs(command->about, out);
	options_print_help(command->options, out);
	fprintf(out, "\nExample:\n  %s\n", command->example);
	print_statuses(out);
	print_documents(out);
}

static int print_option(const struct command *command, const char *name, FILE *out)
{
	size_t row = options_find(command->options, name, strlen(name));

	if (!command->options[row].name)
		return command_usage_error(command->name, "unknown option \"--%s\"", name);
	fprintf(out, "tributary %s\n", command->name);
	options_print_row(&command->options[row], out);
	return COMMAND_OK;
}

static int run(const struct command_call *call, FILE *out)
{
	const struct command *command = &command_help;
	int taken = (int)call->operand_count;

	if (command_given(call, "man") && call->operand_count)
		return command_usage_error("help", "unexpected argument \"%s\"", call->operands[0]);
	if (command_given(call, "man"))
		return command_write_man(call->table, command_value(call, "man"));
	if (call->operand_count)
		command = command_find_words(call->table, (int)call->operand_count, (char **)call->operands, &taken);
	if (!command)
		return command_unknown(call->table, call->operands[0]);
	if (call->operand_count > (size_t)taken + 1)
		return command_usage_error("help", "unexpected argument \"%s\"", call->operands[taken + 1]);
	if (call->operand_count > (size_t)taken)
		return print_option(command, call->operands[taken], out);
	command_print_help(call->table, command, out);
	return COMMAND_OK;
}

const struct command command_help = {
	.name = "help",
	.group = COMMAND_OTHER,
	.operands = "[COMMAND] [WORD] [OPTION]",
	.help = "this list, or how to call one command, or what one of its options is",
	.options = { { "man", "FOLDER", "write the man pages there, into man1 and man7: man -M FOLDER tributary-plan",
		       NULL } },
	.example = "tributary help simulate algo",
	.run = run,
};
