/* SPDX-License-Identifier: Apache-2.0 */
#include "command/completion_words.h"

#include <string.h>

struct options_value completion_value_of(const struct options_row *row)
{
	static const struct {
		const char *name, *argument;
		struct options_value value;
	} known[] = {
		{ "order", NULL, { OPTIONS_WORDS_OR_FILE, "rank|leaf|random:" } },
		{ "algo", "LIST", { OPTIONS_WORDS, "ring|tree|hierarchical|aggregators" } },
		{ "fabric", "FABRIC", { OPTIONS_WORDS, "leaf-spine:|fat-tree:|rail-optimised:" } },
		{ "parallel", "WORD", { OPTIONS_WORDS, "ddp|fsdp|tp:" } },
		{ "hosts", "N", { OPTIONS_WORDS, "either" } },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(row->name, known[i].name) &&
		    (!known[i].argument || !strcmp(row->argument, known[i].argument)))
			return known[i].value;
	return options_value_of(row);
}

void completion_second_words(const struct command *const *table, const struct command *command, char *ret,
			     size_t ret_bytes)
{
	*ret = '\0';
	if (!strchr(command->operands, ' ') || *command->operands == '[')
		return;
	snprintf(ret, ret_bytes, "%.*s", (int)strcspn(command->operands, " "), command->operands);
	for (const struct command *const *at = NULL; (at = command_next_second(table, command, at));)
		snprintf(ret + strlen(ret), ret_bytes - strlen(ret), "|%s", (*at)->name + strlen(command->name) + 1);
}

bool completion_takes_words(const struct command *command)
{
	return *command->operands >= 'a' && *command->operands <= 'z' && !strchr(command->operands, ' ');
}

bool completion_takes_file(const struct command *command)
{
	return !strcmp(command->operands, "FILE") || !strcmp(command->operands, "FILE...") ||
	       !strcmp(command->operands, "[FILE]");
}

bool completion_takes_command(const struct command *command)
{
	return strstr(command->operands, "COMMAND...") != NULL;
}
