/* One parser for all command lines: --name, --name VALUE, --name=VALUE, operands, and `--` before operands. */
#include "command/command.h"

#include "command/file.h"

#include <assert.h>
#include <string.h>

size_t command_option_count(const struct command *command)
{
	size_t count = 0;

	while (count < COMMAND_OPTIONS_MAX && command->options[count].name)
		count++;
	return count;
}

static int find_option(const struct command *command, const char *name, size_t bytes, size_t *ret)
{
	size_t count = command_option_count(command);

	for (size_t i = 0; i < count; i++) {
		if (strlen(command->options[i].name) == bytes && !memcmp(command->options[i].name, name, bytes)) {
			*ret = i;
			return 0;
		}
	}
	return -1;
}

/* "auto|cpus|switches" allows three words; a word in capitals allows any text. */
static bool is_list(const char *argument)
{
	return strchr(argument, '|') != NULL;
}

static bool in_list(const char *list, const char *value)
{
	size_t bytes = strlen(value);

	while (*list) {
		size_t item = strcspn(list, "|");

		if (item == bytes && !memcmp(list, value, bytes))
			return true;
		list += item + (list[item] == '|');
	}
	return false;
}

/* Takes one option; *at is moved on past a value of its own. */
static int take_option(const struct command *command, int argc, char **argv, int *at, struct command_call *ret)
{
	const char *text = argv[*at] + 2, *equals = strchr(text, '='), *value = "";
	size_t bytes = equals ? (size_t)(equals - text) : strlen(text), index;
	const struct command_option *option;

	if (find_option(command, text, bytes, &index) < 0)
		return command_usage_error(command->name, "unknown option \"--%.*s\"", (int)bytes, text);
	option = &command->options[index];
	if (ret->values[index])
		return command_usage_error(command->name, "--%s is given twice", option->name);
	if (!option->argument && equals)
		return command_usage_error(command->name, "--%s takes no value", option->name);
	if (option->argument) {
		if (!equals && *at + 1 >= argc)
			return command_usage_error(command->name, "--%s needs a value, %s", option->name,
						   option->argument);
		value = equals ? equals + 1 : argv[++*at];
		if (!*value)
			return command_usage_error(command->name, "--%s needs a value, %s", option->name,
						   option->argument);
		if (is_list(option->argument) && !in_list(option->argument, value))
			return command_usage_error(command->name, "--%s is \"%s\", expected %s", option->name, value,
						   option->argument);
	}
	ret->values[index] = value;
	return COMMAND_OK;
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
static void add_second_words(const struct command *command, char *words, size_t words_bytes)
{
	for (const struct command *const *at = NULL; (at = command_next_second(command, at));)
		snprintf(words + strlen(words), words_bytes - strlen(words), ", %s",
			 (*at)->name + strlen(command->name) + 1);
}

static int take_operand(const struct command *command, const char *text, struct command_call *ret)
{
	char expected[128];

	if (ret->operand_count == COMMAND_OPERANDS_MAX ||
	    !operand_of(command, ret->operand_count, expected, sizeof(expected)))
		return command_usage_error(command->name, "unexpected argument \"%s\"", text);
	if (*expected >= 'a' && *expected <= 'z' && strcmp(expected, text) != 0) {
		add_second_words(command, expected, sizeof(expected));
		return command_usage_error(command->name, "\"%s\" is not known, expected %s", text, expected);
	}
	ret->operands[ret->operand_count++] = text;
	return COMMAND_OK;
}

/* "COMMAND...": what follows the first operand has options of its own. */
static bool takes_rest(const struct command *command)
{
	size_t bytes = strlen(command->operands);

	return bytes > 3 && !strcmp(command->operands + bytes - 3, "...");
}

int command_parse(const struct command *command, int argc, char **argv, struct command_call *ret)
{
	struct command_call call = { .command = command };
	char missing[128];
	bool options = true;
	int status;

	for (int i = 1; i < argc; i++) {
		if (options && !strcmp(argv[i], "--")) {
			options = false;
			continue;
		}
		if (options && !strncmp(argv[i], "--", 2))
			status = take_option(command, argc, argv, &i, &call);
		else if (options && argv[i][0] == '-' && argv[i][1])
			status = command_usage_error(command->name, "unknown option \"%s\"", argv[i]);
		else
			status = take_operand(command, argv[i], &call);
		if (status != COMMAND_OK)
			return status;
		if (call.operand_count && takes_rest(command)) {
			call.rest = argv + i;
			break;
		}
	}
	if (operand_of(command, call.operand_count, missing, sizeof(missing)) && *missing != '[') {
		missing[strcspn(missing, ".")] = '\0';
		if (!call.operand_count)
			add_second_words(command, missing, sizeof(missing));
		return command_usage_error(command->name, "%s is missing", missing);
	}
	*ret = call;
	return COMMAND_OK;
}

/* Not "out" of `cluster measure`, which counts on one of the hosts alone. */
static bool command_is_output(const char *option)
{
	static const char *const names[] = { "output", "html", "svg", "dot", "export-system" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(option, names[i]))
			return true;
	return false;
}

int command_check_outputs(const struct command_call *call)
{
	size_t count = command_option_count(call->command), streams = 0;
	char list[128] = "";

	for (size_t i = 0; i < count; i++) {
		const char *name = call->command->options[i].name, *value = call->values[i];
		bool output = value && command_is_output(name);

		if (!value || !(output ? !strcmp(value, "-") : !strcmp(name, "json")))
			continue;
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s--%s", streams ? ", " : "", name);
		streams++;
	}
	if (streams > 1)
		return command_usage_error(call->command->name, "only one of %s can go to standard output", list);
	for (size_t i = 0; i < count; i++)
		if (call->values[i] && command_is_output(call->command->options[i].name) &&
		    file_check_put(call->values[i]) != COMMAND_OK)
			return COMMAND_FAILED;
	return COMMAND_OK;
}

static size_t own_option(const struct command_call *call, const char *name)
{
	size_t index = 0;
	int r = find_option(call->command, name, strlen(name), &index);

	assert(!r); /* a command asks for what is in its own table */
	(void)r;
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
