/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include "base/metrics.h"
#include "base/log.h"
#include "base/parse.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 100, LEAST_COLUMNS = 20, OPTION_INDENT = 6 };

size_t options_count(const struct options_row *rows)
{
	size_t count = 0;

	while (rows[count].name)
		count++;
	return count;
}

size_t options_find(const struct options_row *rows, const char *name, size_t bytes)
{
	size_t i;

	for (i = 0; rows[i].name; i++)
		if (strlen(rows[i].name) == bytes && !memcmp(rows[i].name, name, bytes))
			break;
	return i;
}

/* ------------------------------------------------------------------------------------------------------------- parse */

bool options_ask_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	return false;
}

/* "auto|cpus|switches" allows three words; "FILE", in capitals, any text. */
static bool is_list(const char *argument)
{
	return *argument >= 'a' && *argument <= 'z';
}

bool options_is_allowed(const char *argument, const char *value)
{
	const char *word;
	size_t bytes;

	if (!is_list(argument))
		return true;
	while (parse_list_next(&argument, '|', &word, &bytes))
		if (strlen(value) == bytes && !memcmp(word, value, bytes))
			return true;
	return false;
}

/* A collective may be written as PyTorch and nccl-tests write it; value, which is argv's, is then as the list has it. */
static bool takes_word(const char *argument, char *value)
{
	char plain[64];

	if (options_is_allowed(argument, value))
		return true;
	if (strlen(value) >= sizeof(plain))
		return false;
	memcpy(plain, value, strlen(value) + 1);
	parse_collective(plain);
	if (!options_is_allowed(argument, plain))
		return false;
	memcpy(value, plain, strlen(plain) + 1); /* it never grows */
	return true;
}

/* With the nearest one that there is. */
static enum options_step say_unknown(const struct options_row *rows, const char *text, size_t bytes, struct diag *diag)
{
	unsigned best = PARSE_NO_SLIP;
	const char *nearest = NULL;
	char typed[80];

	snprintf(typed, sizeof(typed), "%.*s", (int)bytes, text);
	for (const struct options_row *row = rows;; row++) {
		const char *name = row->name ? row->name : "help"; /* of every command, and in no table */
		unsigned slip = parse_slip(typed, name);

		if (slip < best) {
			best = slip;
			nearest = name;
		}
		if (!row->name)
			break;
	}
	diag_set(diag, 0, 0, "unknown option \"--%.*s\"%s%s%s", (int)bytes, text, nearest ? ": did you mean --" : "",
		 nearest ? nearest : "", nearest ? "?" : "");
	return OPTIONS_WRONG;
}

static enum options_step take_row(const struct options_row *rows, struct options_line *line, size_t *ret_row,
				  const char **ret_text, struct diag *diag)
{
	char *text = line->argv[line->at] + 2, *equals = strchr(text, '='), empty[] = "", *value = empty;
	size_t bytes = equals ? (size_t)(equals - text) : strlen(text), index = options_find(rows, text, bytes);
	const struct options_row *row = &rows[index];

	if (!row->name)
		return say_unknown(rows, text, bytes, diag);
	if (!row->argument && equals) {
		diag_set(diag, 0, 0, "--%s takes no value", row->name);
		return OPTIONS_WRONG;
	}
	if (row->argument) {
		value = equals ? equals + 1 : line->at + 1 < line->argc ? line->argv[++line->at] : empty;
		if (!*value) {
			diag_set(diag, 0, 0, "--%s needs a value, %s", row->name, row->argument);
			return OPTIONS_WRONG;
		}
		if (!takes_word(row->argument, value)) {
			diag_set(diag, 0, 0, "--%s is \"%s\", expected %s", row->name, value, row->argument);
			return OPTIONS_WRONG;
		}
	}
	*ret_row = index;
	*ret_text = *value ? value : "";
	return OPTIONS_ROW;
}

enum options_step options_next(const struct options_row *rows, struct options_line *line, size_t *ret_row,
			       const char **ret_text, struct diag *diag)
{
	const char *text;

	if (++line->at < line->argc && !line->operands_only && !strcmp(line->argv[line->at], "--")) {
		line->operands_only = true;
		line->at++;
	}
	if (line->at >= line->argc)
		return OPTIONS_END;
	text = line->argv[line->at];
	if (!line->operands_only && !strncmp(text, "--", 2))
		return take_row(rows, line, ret_row, ret_text, diag);
	if (!line->operands_only && text[0] == '-' && text[1]) {
		diag_set(diag, 0, 0, "unknown option \"%s\"", text);
		return OPTIONS_WRONG;
	}
	*ret_text = text;
	return OPTIONS_OPERAND;
}

/* ------------------------------------------------------------------------------------------------------------- texts */

void options_print_wrapped(const char *text, size_t indent, size_t columns, FILE *out)
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

size_t options_terminal_columns(FILE *out)
{
	struct winsize size;

	return isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* A narrow terminal would break lines inside words. */
static size_t columns_of(FILE *out)
{
	size_t columns = options_terminal_columns(out);

	return columns < LEAST_COLUMNS || columns > COLUMNS ? COLUMNS : columns - 1;
}

static bool next_paragraph(const char **text, char *ret, size_t ret_bytes)
{
	const char *line;
	size_t bytes;

	if (!parse_list_next(text, '\n', &line, &bytes))
		return false;
	snprintf(ret, ret_bytes, "%.*s", (int)bytes, line);
	return true;
}

void options_print_paragraphs(const char *text, FILE *out)
{
	char paragraph[1024];

	while (next_paragraph(&text, paragraph, sizeof(paragraph))) {
		fputc('\n', out);
		options_print_wrapped(paragraph, 0, columns_of(out), out);
	}
}

void options_print_man_paragraphs(const char *text, FILE *out)
{
	char paragraph[1024];
	const char *separator = "";

	while (next_paragraph(&text, paragraph, sizeof(paragraph))) {
		fputs(separator, out);
		separator = ".PP\n";
		options_print_roff(paragraph, out);
		fputc('\n', out);
	}
}

static const char *help_of(const struct options_row *row, char *ret, size_t ret_bytes)
{
	snprintf(ret, ret_bytes, "%s%s%s%s", row->help, row->standard ? " (default: " : "",
		 row->standard ? row->standard : "", row->standard ? ")" : "");
	return ret;
}

void options_print_row(const struct options_row *row, FILE *out)
{
	char text[512];

	fprintf(out, "  --%s%s%s\n", row->name, row->argument ? " " : "", row->argument ? row->argument : "");
	options_print_wrapped(help_of(row, text, sizeof(text)), OPTION_INDENT, columns_of(out), out);
}

void options_print_help(const struct options_row *rows, FILE *out)
{
	fputs("\nOptions:\n", out);
	for (const struct options_row *row = rows; row->name; row++)
		options_print_row(row, out);
	fputs("  --help\n      this text\n", out);
}

void options_print_roff(const char *text, FILE *out)
{
	/* A line that begins with a dot or a quote would be a command. */
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else if (*text == '^')
			fputs("\\(ha", out);
		else
			fputc(*text, out);
	}
}

void options_print_man(const struct options_row *rows, FILE *out)
{
	char text[512];

	for (const struct options_row *row = rows; row->name; row++) {
		fputs(".TP\n.BR \\-\\-", out);
		options_print_roff(row->name, out);
		if (row->argument) {
			fputs(" \" \\fI", out);
			options_print_roff(row->argument, out);
			fputs("\\fR\"", out);
		}
		fputc('\n', out);
		options_print_roff(help_of(row, text, sizeof(text)), out);
		fputs(".\n", out);
	}
}

void options_print_man_metrics(const struct metrics_table *tables, FILE *out)
{
	const char *labels = NULL;

	fputs(".SH METRICS\ndocs/guide/metrics.md says how to get them. Names that end in _total are counters, the others gauges.\n",
	      out);
	for (; tables->rows; tables++) {
		if (!labels || strcmp(labels, tables->labels) != 0)
			fprintf(out, ".PP\nWith %s%s:\n", *tables->labels ? "the labels " : "no label", tables->labels);
		labels = tables->labels;
		for (const struct metrics_row *row = tables->rows; row->name; row++) {
			fprintf(out, ".TP\n.B %s\n", row->name);
			options_print_roff(row->help, out);
			fputc('\n', out);
		}
	}
}

/* -------------------------------------------------------------------------------------------------------------- completion */

struct options_value options_value_of(const struct options_row *row)
{
	bool words = is_list(row->argument);
	enum options_kind kind = words                              ? OPTIONS_WORDS
				 : !strcmp(row->argument, "FILE")   ? OPTIONS_FILE
				 : !strcmp(row->argument, "FOLDER") ? OPTIONS_FOLDER
								    : OPTIONS_UNKNOWN;

	return (struct options_value){ kind, words ? row->argument : "" };
}

void options_print_words(const char *words, char separator, FILE *out)
{
	for (; *words; words++)
		fputc(*words == '|' ? separator : *words, out);
}

void options_print_bash_values(const struct options_row *rows, const char *prefix,
			       struct options_value (*value_of)(const struct options_row *row), FILE *out)
{
	static const char *const kinds[OPTIONS_KIND_COUNT] = { [OPTIONS_UNKNOWN] = "kind=none",
							       [OPTIONS_WORDS] = "",
							       [OPTIONS_FILE] = "kind=file",
							       [OPTIONS_FOLDER] = "kind=directory",
							       [OPTIONS_WORDS_OR_FILE] = " kind=words-or-file" };

	for (const struct options_row *row = rows; row->name; row++) {
		struct options_value value;

		if (!row->argument)
			continue;
		value = value_of(row);
		fprintf(out, "\t%s--%s) ", prefix, row->name);
		if (*value.words) {
			fputs("words='", out);
			options_print_words(value.words, ' ', out);
			fputs("'", out);
		}
		fprintf(out, "%s ;;\n", kinds[value.kind]);
	}
}

void options_print_bash_names(const struct options_row *rows, FILE *out)
{
	for (const struct options_row *row = rows; row->name; row++)
		fprintf(out, "--%s ", row->name);
	fputs("--help", out);
}

void options_print_bash_equals(FILE *out)
{
	fputs("\tif [ \"$cur\" = = ]; then\n"
	      "\t\tcur=\n"
	      "\telif [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -gt 2 ]; then\n"
	      "\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
	      "\tfi\n",
	      out);
}

void options_print_bash_reply(FILE *out)
{
	fputs("\tcase $kind in\n"
	      "\tfile) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
	      "\tdirectory) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
	      "\tcommand) mapfile -t COMPREPLY < <(compgen -c -- \"$cur\") ;;\n"
	      "\twords-or-file) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"; compgen -f -- \"$cur\") "
	      ";;\n"
	      "\tnone) ;;\n"
	      "\twords) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
	      "\t*) COMPREPLY=($(compgen -W \"${words:-$options}\" -- \"$cur\")) ;;\n"
	      "\tesac\n"
	      "\tcase ${COMPREPLY[0]} in\n"
	      "\t*:) [ \"${#COMPREPLY[@]}\" = 1 ] && compopt -o nospace ;;\n"
	      "\tesac\n"
	      "}\n",
	      out);
}
