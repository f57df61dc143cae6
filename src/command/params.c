/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary params`: the table of src/base/params.c with the values that hold now, and as a section of the man page. */
#include "command/command.h"

#include "base/params.h"
#include "command/json.h"
#include "command/print/table.h"

#include <string.h>

enum { WRAP_COLUMNS = 100, INDENT = 4 };

static void print_table(const struct params *params, FILE *out)
{
	struct command_param_source source;
	char value[PARAMS_STRING_BYTES];
	struct param_info info;
	struct table table;
	FILE *rows = table_begin(&table, out);

	fputs("NAME\tVALUE\tDEFAULT\tRANGE\n", rows);
	for (size_t i = 0; i < params_count(); i++) {
		params_info(i, &info);
		if (params_format(params, i, value, sizeof(value)) < 0)
			value[0] = '\0';
		fprintf(rows, "%s\t%s\t%s\t%s%s%s%s\n", info.name, value[0] ? value : "(unset)",
			info.default_text[0] ? info.default_text : "(unset)", info.range, info.unit[0] ? " (" : "",
			info.unit, info.unit[0] ? ")" : "");
		if (command_param_source(params, i, &source))
			fprintf(rows, "    Set by %s in %s.\n", source.variable, source.from);
		options_print_wrapped(info.meaning, INDENT, WRAP_COLUMNS, rows);
	}
	table_end(&table, rows, "l  l  l  l");
}

void command_print_params_man(FILE *out)
{
	struct param_info info;

	for (size_t i = 0; i < params_count(); i++) {
		params_info(i, &info);
		fprintf(out, ".TP\n.B %s\n", info.name);
		options_print_roff(info.meaning, out);
		fputs("\nRange: ", out);
		options_print_roff(info.range, out);
		fprintf(out, "%s%s%s.\nDefault: ", info.unit[0] ? " (" : "", info.unit, info.unit[0] ? ")" : "");
		options_print_roff(info.default_text[0] ? info.default_text : "unset", out);
		fputs(".\n", out);
	}
}

static int print_json(const struct params *params, FILE *out)
{
	json_t *list = json_array(), *row;
	struct command_param_source source;
	char value[PARAMS_STRING_BYTES];
	struct param_info info;

	for (size_t i = 0; i < params_count(); i++) {
		params_info(i, &info);
		if (params_format(params, i, value, sizeof(value)) < 0)
			value[0] = '\0';
		row = json_pack("{ss so ss ss ss ss}", "name", info.name, "value", json_text(value), "default",
				info.default_text, "range", info.range, "unit", info.unit, "meaning", info.meaning);
		if (command_param_source(params, i, &source)) {
			json_object_set_new(row, "variable", json_text(source.variable));
			json_object_set_new(row, "from", json_text(source.from));
		}
		json_array_append_new(list, row);
	}
	return json_print("tributary-params 1", json_pack("{so}", "params", list), out);
}

static int run(const struct command_call *call, FILE *out)
{
	struct params params;

	command_load_params(&params);
	if (command_given(call, "json"))
		return print_json(&params, out);
	print_table(&params, out);
	return COMMAND_OK;
}

const struct command command_params = {
	.name = "params",
	.group = COMMAND_OTHER,
	.operands = "",
	.help = "every TRIBUTARY_* variable: value now, default, range, meaning",
	.about = "Values of the environment come before those of NCCL's configuration files ($NCCL_CONF_FILE or "
		 "~/.nccl.conf, /etc/nccl.conf), which NCCL puts into it. Values that are not valid, and names that "
		 "are no variable of Tributary, are named on standard error.",
	.options = { COMMAND_OPTION_JSON },
	.example = "tributary params",
	.run = run,
};
