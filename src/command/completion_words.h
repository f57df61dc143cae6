/* SPDX-License-Identifier: Apache-2.0 */
/* What may stand where, for the completions of all shells. */
#ifndef TRIBUTARY_COMMAND_COMPLETION_WORDS_H
#define TRIBUTARY_COMMAND_COMPLETION_WORDS_H

#include "command/command.h"

/* Of an option with a value. */
struct options_value completion_value_of(const struct options_row *row);
/* The words that may follow a command with words of its own, "show|measure|order"; "" of any other. */
void completion_second_words(const struct command *const *table, const struct command *command, char *ret,
			     size_t ret_bytes);
/* Whether the operand is one of some words, "bash|zsh|fish"; whether it is a file. */
bool completion_takes_words(const struct command *command);
bool completion_takes_file(const struct command *command);
/* Whether what follows is a command of its own. */
bool completion_takes_command(const struct command *command);
#endif
