/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a program or of one of its subcommands, in a table: the parser, --help, the man page and the
 * completions come from it. Any thread. Not part of the plugin.
 */
#ifndef TRIBUTARY_BASE_OPTIONS_H
#define TRIBUTARY_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct diag;
struct metrics_table;

/* A table ends with a row without a name. */
struct options_row {
	const char *name; /* without "--" */
	/*
	 * What follows: "FILE", "FOLDER", "SECONDS", or the words that are allowed: "auto|cpus|switches". NULL:
	 * nothing.
	 */
	const char *argument;
	const char *help;     /* a clause, without a full stop */
	const char *standard; /* the value when it is not given; NULL: none */
};

/* A command line, read from argv[1] on: --name, --name VALUE, --name=VALUE, operands, and `--` before operands. */
struct options_line {
	int argc;
	char **argv;
	int at;             /* the word that is read; 0 at first */
	bool operands_only; /* `--` was read */
};

enum options_step { OPTIONS_END, OPTIONS_ROW, OPTIONS_OPERAND, OPTIONS_WRONG };

/*
 * Reads the next option or operand. OPTIONS_ROW: *ret_row is its row, *ret_text its value, "" without one. OPTIONS_OPERAND:
 * *ret_text is it. OPTIONS_WRONG: *diag says why.
 */
enum options_step options_next(const struct options_row *rows, struct options_line *line, size_t *ret_row,
			       const char **ret_text, struct diag *diag);
/* Whether it is one of "auto|cpus|switches"; any text is where the argument is in capitals. */
bool options_is_allowed(const char *argument, const char *value);
/* `--help` or `-h` anywhere before `--`: whoever asks for help wants nothing else. */
bool options_ask_help(int argc, char **argv);
size_t options_count(const struct options_row *rows);
/* The row of that name, bytes of it; options_count() if there is none. */
size_t options_find(const struct options_row *rows, const char *name, size_t bytes);

/* The rows as --help lists them, one of them, and as the man page does. */
void options_print_help(const struct options_row *rows, FILE *out);
void options_print_row(const struct options_row *row, FILE *out);
void options_print_man(const struct options_row *rows, FILE *out);
/* The section METRICS. */
void options_print_man_metrics(const struct metrics_table *tables, FILE *out);
/* Paragraphs, each of which ends with a newline: an empty line before each for --help, .PP between them for man. */
void options_print_paragraphs(const char *text, FILE *out);
void options_print_man_paragraphs(const char *text, FILE *out);
/* Text that troff must not take for its own. */
void options_print_roff(const char *text, FILE *out);
/* Of the terminal that out is; 0: it is none, or does not say. */
size_t options_terminal_columns(FILE *out);
/* Words of text, in lines of at most `columns`, each after `indent` spaces. */
void options_print_wrapped(const char *text, size_t indent, size_t columns, FILE *out);

/* What may follow an option, for the completions of shells. */
enum options_kind {
	OPTIONS_UNKNOWN, /* a number, a rate: nothing that a shell could know */
	OPTIONS_WORDS,
	OPTIONS_FILE,
	OPTIONS_FOLDER,
	OPTIONS_WORDS_OR_FILE,
	OPTIONS_KIND_COUNT
};
struct options_value {
	enum options_kind kind;
	const char *words; /* with | between them; one that ends in ':' wants more after it */
};
/* By the row's argument alone. */
struct options_value options_value_of(const struct options_row *row);
void options_print_words(const char *words, char separator, FILE *out);

/*
 * Completion for bash, in a function with the variables cur, prev, words and kind. Of each row with a value, a branch of `case`:
 * what may follow it.
 */
void options_print_bash_values(const struct options_row *rows, const char *prefix,
			       struct options_value (*value_of)(const struct options_row *row), FILE *out);
void options_print_bash_names(const struct options_row *rows, FILE *out);
/* bash makes a word of its own of the equals sign in --option=value: cur and prev are put right. */
void options_print_bash_equals(FILE *out);
/* The end of the function: the words or files that fit cur. */
void options_print_bash_reply(FILE *out);

#endif
