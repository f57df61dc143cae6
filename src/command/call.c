/* SPDX-License-Identifier: Apache-2.0 */
/* Commands by their names, and a command line against its command's table: options, operands, and which results go where. */
#include "command/command.h"

#include "base/log.h"
#include "base/parse.h"
#include "command/file.h"

#include <ctype.h>
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

const char *command_group_title(enum command_group group)
{
	static const char *const titles[COMMAND_GROUP_COUNT] = {
		[COMMAND_SEE] = "Measure and see a machine",
		[COMMAND_PLANNING] = "Plan what NCCL does on it",
		[COMMAND_JOBS] = "Run jobs",
		[COMMAND_CLUSTERS] = "Clusters",
		[COMMAND_FILES] = "Files",
		[COMMAND_OTHER] = "Other",
	};

	return titles[group];
}

const struct command *command_find(const struct command *const *table, const char *name)
{
	for (const struct command *const *at = table; *at; at++) {
		if (!strcmp((*at)->name, name))
			return *at;
	}
	return NULL;
}

struct nearest {
	unsigned best;
	const char *name; /* NULL: none is near */
};

static void consider(const char *name, const char *typed, struct nearest *nearest)
{
	unsigned slip = parse_slip(typed, name);

	if (slip >= nearest->best)
		return;
	nearest->best = slip;
	nearest->name = name;
}

int command_unknown(const struct command *const *table, const char *typed)
{
	bool is_option = typed[0] == '-';
	struct nearest nearest = { .best = PARSE_NO_SLIP };
	char lower[80];

	snprintf(lower, sizeof(lower), "%s", typed + strspn(typed, "-"));
	for (char *at = lower; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	for (const struct command *const *at = table; !is_option && *at; at++)
		if (!strchr((*at)->name, ' '))
			consider((*at)->name, lower, &nearest);
	if (is_option) {
		consider("help", lower, &nearest);
		consider("version", lower, &nearest);
	}
	if (!nearest.name)
		return command_usage_error("", "unknown %s \"%s\"", is_option ? "option" : "command", typed);
	return command_usage_error("", "unknown %s \"%s\": did you mean %s%s?", is_option ? "option" : "command", typed,
				   is_option ? "--" : "", nearest.name);
}

const struct command *const *command_next_second(const struct command *const *table, const struct command *command,
						 const struct command *const *at)
{
	size_t bytes = strlen(command->name);

	for (at = at ? at + 1 : table; *at; at++)
		if (!strncmp((*at)->name, command->name, bytes) && (*at)->name[bytes] == ' ')
			return at;
	return NULL;
}

const struct command *command_find_words(const struct command *const *table, int count, char **words, int *ret_taken)
{
	const struct command *command = NULL;
	char name[64];

	*ret_taken = 0;
	if (count >= 2 && snprintf(name, sizeof(name), "%s %s", words[0], words[1]) < (int)sizeof(name))
		command = command_find(table, name);
	if (command)
		*ret_taken = 2;
	else if (count >= 1 && !strchr(words[0], ' '))
		command = command_find(table, words[0]);
	if (command && !*ret_taken)
		*ret_taken = 1;
	return command;
}

/* The operand of that number in "show FILE"; false: there are not so many. */
static bool operand_of(const struct command *command, size_t number, char *ret, size_t ret_bytes)
{
	const char *at = command->operands;

	for (; number > 0 && at; number--) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	if (!at || !*at)
		return false;
	snprintf(ret, ret_bytes, "%.*s", (int)strcspn(at, " "), at);
	return true;
}

/* "show": "show, measure, order" where there are commands of two words. */
static void add_second_words(const struct command *const *table, const struct command *command, char *words,
			     size_t words_bytes)
{
	for (const struct command *const *at = NULL; (at = command_next_second(table, command, at));)
		snprintf(words + strlen(words), words_bytes - strlen(words), ", %s",
			 (*at)->name + strlen(command->name) + 1);
}

/* expected: the words, between commas or bars. */
static int say_unexpected(const struct command *command, const char *text, const char *expected)
{
	struct nearest nearest = { .best = PARSE_NO_SLIP };
	char words[128], *rest = words;

	snprintf(words, sizeof(words), "%s", expected);
	for (const char *word; (word = strtok_r(NULL, ", |", &rest));)
		consider(word, text, &nearest);
	return command_usage_error(command->name, "\"%s\" is not known, expected %s%s%s%s", text, expected,
				   nearest.name ? ": did you mean " : "", nearest.name ? nearest.name : "",
				   nearest.name ? "?" : "");
}

static int take_operand(const struct command *command, const char *text, struct command_call *ret)
{
	char expected[128];

	if (ret->operand_count == COMMAND_OPERANDS_MAX ||
	    !operand_of(command, ret->operand_count, expected, sizeof(expected)))
		return command_usage_error(command->name, "unexpected argument \"%s\"", text);
	if (!options_is_allowed(expected, text)) {
		add_second_words(ret->table, command, expected, sizeof(expected));
		return say_unexpected(command, text, expected);
	}
	ret->operands[ret->operand_count++] = text;
	return COMMAND_OK;
}

/* "COMMAND...", "[COMMAND...]": what follows the first operand has options of its own. */
static bool takes_rest(const struct command *command)
{
	return strstr(command->operands, "COMMAND...") != NULL;
}

static bool takes_files(const struct command *command)
{
	return !strcmp(command->operands, "FILE...") || !strcmp(command->operands, "[HOST...]");
}

int command_parse(const struct command *const *table, const struct command *command, int argc, char **argv,
		  struct command_call *ret)
{
	struct command_call call = { .table = table, .command = command };
	struct options_line line = { .argc = argc, .argv = argv };
	enum options_step step;
	char missing[128];
	struct diag diag;
	const char *text;
	size_t row;

	while ((step = options_next(command->options, &line, &row, &text, &diag)) != OPTIONS_END) {
		if (step == OPTIONS_WRONG)
			return command_usage_error(command->name, "%s", diag.text);
		if (step == OPTIONS_OPERAND && takes_files(command)) {
			/* They move to the front; the place of an option that was read is free. */
			argv[1 + call.operand_count++] = argv[line.at];
			continue;
		}
		if (step == OPTIONS_OPERAND && take_operand(command, text, &call) != COMMAND_OK)
			return COMMAND_USAGE;
		if (step == OPTIONS_ROW && call.values[row])
			return command_usage_error(command->name, "--%s is given twice", command->options[row].name);
		if (step == OPTIONS_ROW)
			call.values[row] = text;
		if (call.operand_count && takes_rest(command)) {
			call.rest = argv + line.at;
			break;
		}
	}
	if (operand_of(command, call.operand_count, missing, sizeof(missing)) && *missing != '[') {
		missing[strcspn(missing, ".")] = '\0';
		if (!call.operand_count)
			add_second_words(table, command, missing, sizeof(missing));
		return command_usage_error(command->name, "%s is missing", missing);
	}
	if (takes_files(command)) {
		argv[1 + call.operand_count] = NULL;
		call.rest = argv + 1;
	}
	*ret = call;
	return COMMAND_OK;
}

/* Not "out" of `cluster measure`, which counts on one of the hosts alone. */
static bool command_is_output(const char *option)
{
	static const char *const names[] = { "output", "html", "svg", "report" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(option, names[i]))
			return true;
	return false;
}

static bool is_output(const struct command_call *call, size_t option)
{
	return call->values[option] && command_is_output(call->command->options[option].name);
}

int command_check_outputs(const struct command_call *call)
{
	size_t count = options_count(call->command->options), streams = 0;
	char list[128] = "";

	for (size_t i = 0; i < count; i++) {
		const char *name = call->command->options[i].name, *value = call->values[i];

		if (!value || !(is_output(call, i) ? !strcmp(value, "-") : !strcmp(name, "json")))
			continue;
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s--%s", streams ? ", " : "", name);
		streams++;
	}
	if (streams > 1)
		return command_usage_error(call->command->name, "only one of %s can go to standard output", list);
	for (size_t i = 0; i < count; i++) {
		const char *value = is_output(call, i) ? call->values[i] : NULL;

		for (size_t k = 0; value && k < i; k++)
			if (is_output(call, k) && !strcmp(call->values[k], value))
				return command_usage_error(call->command->name, "--%s and --%s are the same file",
							   call->command->options[k].name,
							   call->command->options[i].name);
		if (value && file_check_put(value) != COMMAND_OK)
			return COMMAND_FAILED;
	}
	return COMMAND_OK;
}

static size_t own_option(const struct command_call *call, const char *name)
{
	size_t index = options_find(call->command->options, name, strlen(name));

	assert(call->command->options[index].name); /* a command asks for what is in its own table */
	return index;
}

const char *command_value(const struct command_call *call, const char *name)
{
	size_t index = own_option(call, name);

	return call->values[index] ? call->values[index] : call->command->options[index].standard;
}

bool command_given(const struct command_call *call, const char *name)
{
	return call->values[own_option(call, name)] != NULL;
}

int command_wrong_value(const struct command_call *call, const char *name, const char *fmt, ...)
{
	char expected[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(expected, sizeof(expected), fmt, args);
	va_end(args);
	return command_usage_error(call->command->name, "--%s is \"%.100s\", expected %s", name,
				   command_value(call, name), expected);
}

int command_number(const struct command_call *call, const char *name, uint64_t min, uint64_t max, uint64_t *ret)
{
	const char *text = command_value(call, name);

	if (text && parse_u64(text, min, max, ret) < 0)
		return command_wrong_value(call, name, "%" PRIu64 " to %" PRIu64, min, max);
	return COMMAND_OK;
}
