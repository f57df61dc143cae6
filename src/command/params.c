/* `tributary params`: the table of src/base/params.c with the values that hold now, or as a section of the man page. */
#include "command/command.h"

#include "base/params.h"
#include "base/parse.h"

#include <string.h>

enum { WRAP_COLUMNS = 100, INDENT = 4, VALUE_COLUMNS = 12, DEFAULT_COLUMNS = 8 };

static void print_wrapped(FILE *out, const char *text)
{
	size_t column = 0, bytes;
	const char *word;

	while (parse_list_next(&text, ' ', &word, &bytes)) {
		if (column && column + 1 + bytes > WRAP_COLUMNS) {
			fputc('\n', out);
			column = 0;
		}
		fprintf(out, "%*s%.*s", column ? 1 : INDENT, "", (int)bytes, word);
		column += (column ? 1 : INDENT) + bytes;
	}
	fputc('\n', out);
}

static void print_table(const struct params *params, FILE *out)
{
	char value[PARAMS_STRING_BYTES];
	int name_columns = 0;
	struct param_info info;

	for (size_t i = 0; i < params_count(); i++) {
		params_info(i, &info);
		if ((int)strlen(info.name) > name_columns)
			name_columns = (int)strlen(info.name);
	}
	fprintf(out, "%-*s  %-*s  %-*s  %s\n", name_columns, "NAME", VALUE_COLUMNS, "VALUE", DEFAULT_COLUMNS, "DEFAULT",
		"RANGE");
	for (size_t i = 0; i < params_count(); i++) {
		params_info(i, &info);
		if (params_format(params, i, value, sizeof(value)) < 0)
			value[0] = '\0';
		fprintf(out, "%-*s  %-*s  %-*s  %s%s%s%s\n", name_columns, info.name, VALUE_COLUMNS,
			value[0] ? value : "(unset)", DEFAULT_COLUMNS,
			info.default_text[0] ? info.default_text : "(unset)", info.range, info.unit[0] ? " (" : "",
			info.unit, info.unit[0] ? ")" : "");
		print_wrapped(out, info.meaning);
	}
}

/* Text that troff must not take for its own; a line that begins with a dot or a quote would be a command. */
static void print_roff(FILE *out, const char *text)
{
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

static void print_man(FILE *out)
{
	struct param_info info;

	for (size_t i = 0; i < params_count(); i++) {
		params_info(i, &info);
		fprintf(out, ".TP\n.B %s\n", info.name);
		print_roff(out, info.meaning);
		fputs("\nRange: ", out);
		print_roff(out, info.range);
		fprintf(out, "%s%s%s.\nDefault: ", info.unit[0] ? " (" : "", info.unit, info.unit[0] ? ")" : "");
		print_roff(out, info.default_text[0] ? info.default_text : "unset");
		fputs(".\n", out);
	}
}

int command_params(int argc, char **argv, FILE *out)
{
	struct params params;

	if (argc > 1 && !strcmp(argv[1], "--man")) {
		if (argc > 2)
			return command_usage_error(argv[0], "unexpected argument \"%s\"", argv[2]);
		print_man(out);
		return COMMAND_OK;
	}
	if (command_no_arguments(argc, argv) != COMMAND_OK)
		return COMMAND_USAGE;
	command_load_params(&params);
	print_table(&params, out);
	return COMMAND_OK;
}
