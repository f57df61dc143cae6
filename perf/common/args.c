/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"

#include "base/parse.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *text, char **end, double *ret_value)
{
	double value;

	if (!((*text >= '0' && *text <= '9') || *text == '.'))
		return -EINVAL;
	errno = 0;
	value = strtod(text, end);
	if (*end == text || errno || !(value >= 0))
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int args_size(const char *text, size_t *ret_size)
{
	uint64_t bytes;
	int r = parse_size(text, 0, UINT64_C(1000000000000000), &bytes);

	if (r < 0)
		return r;
	*ret_size = (size_t)bytes;
	return 0;
}

int args_rate(const char *text, double *ret_bps)
{
	uint64_t rate_Bps;
	int r = parse_rate(text, 1, UINT64_C(1000000000000000), &rate_Bps);

	if (r < 0)
		return r;
	*ret_bps = (double)rate_Bps * 8;
	return 0;
}

int args_int(const char *text, int *ret_value)
{
	char *end = NULL;
	double value;

	if (number(text, &end, &value) < 0 || *end || value > INT_MAX || value != (double)(int)value)
		return -EINVAL;
	*ret_value = (int)value;
	return 0;
}

static int sizes(const char *text, struct args_list *ret_list)
{
	struct args_list list = { 0 };
	char item[32];

	if (!strcmp(text, "none")) {
		ret_list->count = 0;
		return 0;
	}
	while (*text) {
		size_t length = strcspn(text, ",");

		if (list.count == ARGS_LIST_MAX || length == 0 || length >= sizeof(item))
			return -EINVAL;
		memcpy(item, text, length);
		item[length] = 0;
		if (args_size(item, &list.values[list.count]) < 0)
			return -EINVAL;
		list.count++;
		text += length;
		if (*text == ',')
			text++;
	}
	if (list.count == 0)
		return -EINVAL;
	*ret_list = list;
	return 0;
}

static int store(const struct args_option *option, char *value)
{
	switch (option->kind) {
	case ARGS_FLAG:
		*(bool *)option->target = true;
		return 0;
	case ARGS_INT:
		return args_int(value, option->target);
	case ARGS_NUMBER: {
		char *end = NULL;
		double parsed;

		if (number(value, &end, &parsed) < 0 || *end)
			return -EINVAL;
		*(double *)option->target = parsed;
		return 0;
	}
	case ARGS_TEXT:
		*(const char **)option->target = value;
		return 0;
	case ARGS_SIZE:
		return args_size(value, option->target);
	case ARGS_RATE:
		return args_rate(value, option->target);
	case ARGS_SIZES:
		return sizes(value, option->target);
	}
	return -EINVAL;
}

static bool is_name(const char *typed, size_t bytes, const char *name)
{
	char words[2][64];

	if (bytes >= sizeof(words[0]))
		return false;
	snprintf(words[0], sizeof(words[0]), "%.*s", (int)bytes, typed);
	snprintf(words[1], sizeof(words[1]), "%s", name);
	parse_collective(words[0]);
	parse_collective(words[1]);
	return !strcmp(words[0], words[1]);
}

int args_names(const char *text, const char *const *names, int name_count, int *ret_indices)
{
	int count = 0, name, i;

	for (;; text++) {
		size_t bytes = strcspn(text, ",");

		for (name = 0; name < name_count; name++)
			if (is_name(text, bytes, names[name]))
				break;
		for (i = 0; i < count && ret_indices[i] != name; i++)
			;
		if (name == name_count || i < count)
			return -EINVAL;
		ret_indices[count++] = name;
		text += bytes;
		if (!*text)
			return count;
	}
}

size_t args_largest(const struct args_list *list, size_t least)
{
	int i;

	for (i = 0; i < list->count; i++)
		if (list->values[i] > least)
			least = list->values[i];
	return least;
}

static void help(const char *program, const char *summary, const struct args_option *options)
{
	static const char *const values[] = {
		[ARGS_FLAG] = "",      [ARGS_INT] = " N",     [ARGS_NUMBER] = " X",    [ARGS_TEXT] = " TEXT",
		[ARGS_SIZE] = " SIZE", [ARGS_RATE] = " RATE", [ARGS_SIZES] = " S,S,…",
	};
	char left[64];

	printf("usage: %s [OPTIONS]\n%s\n\n", program, summary);
	for (; options->name; options++) {
		snprintf(left, sizeof(left), "--%s%s", options->name, values[options->kind]);
		printf("  %-22s %s\n", left, options->help);
	}
	printf("  %-22s %s\n", "--help", "this text");
}

static const struct args_option *find(const struct args_option *options, const char *name, size_t length)
{
	for (; options->name; options++)
		if (strlen(options->name) == length && !memcmp(options->name, name, length))
			return options;
	return NULL;
}

int args_parse(int argc, char **argv, const char *summary, const struct args_option *options)
{
	int i;

	for (i = 1; i < argc; i++) {
		const char *name = argv[i] + 2;
		size_t length = strcspn(argv[i], "=") - 2;
		const struct args_option *option;
		char *value = NULL;

		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			help(argv[0], summary, options);
			return 1;
		}
		option = strncmp(argv[i], "--", 2) ? NULL : find(options, name, length);
		if (!option) {
			fprintf(stderr, "%s: no such option: %s (see --help)\n", argv[0], argv[i]);
			return -EINVAL;
		}
		if (name[length] == '=')
			value = argv[i] + 2 + length + 1;
		else if (option->kind != ARGS_FLAG && i + 1 < argc)
			value = argv[++i];
		if ((option->kind == ARGS_FLAG) != !value || store(option, value) < 0) {
			fprintf(stderr, "%s: --%s does not take '%s'\n", argv[0], option->name,
				value ? value : "nothing");
			return -EINVAL;
		}
	}
	return 0;
}
