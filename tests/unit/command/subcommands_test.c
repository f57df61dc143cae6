/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of the tables of commands and options, and the files that hold it. */
#include "command/command.h"

#include "base/params.h"
#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *printed(void (*print)(const struct command *const *table, FILE *out))
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	print(command_table, out);
	fclose(out);
	return text;
}

/* What a shell prints, cut off; its exit status. */
static int shell(const char *line, char *text, size_t text_bytes)
{
	FILE *pipe = popen(line, "re");
	size_t bytes;

	assert_non_null(pipe);
	bytes = fread(text, 1, text_bytes - 1, pipe);
	text[bytes] = '\0';
	return pclose(pipe);
}

/* As many, and each the same: none is left of a command that is no more. */
static void man_pages_are_what_the_tables_give(void **state)
{
	char line[2048], text[4096];

	(void)state;
	free(program_source_text("docs/man/man1/tributary.1"));
	snprintf(line, sizeof(line), "help --man '%s/man'", program_folder());
	assert_int_equal(program_run(line, PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
	snprintf(
		line, sizeof(line),
		"cd '%s/docs/man' && mkdir -p '%s/man/man5' && for page in cluster:cluster-file profile:profile; do python3 "
		"'%s/mk/man5.py' tributary-${page%%:*} \"$(sed -n 's/^tributary.* .- //p' man5/tributary-${page%%:*}.5)\" "
		"../format/${page#*:}.md >'%s/man/man5/tributary-'${page%%:*}.5; done; diff -r -x man8 . '%s/man' 2>&1",
		program_source(), program_folder(), program_source(), program_folder(), program_folder());
	if (shell(line, text, sizeof(text)) != 0)
		fail_msg("docs/man is stale, make generated: %s", text);
}

/* A hyphen of the command line, not of a word. */
static void option_line(const char *name, char *line, size_t line_bytes)
{
	size_t at = (size_t)snprintf(line, line_bytes, "\n.BR \\-\\-");

	for (; *name && at < line_bytes; name++)
		at += (size_t)snprintf(line + at, line_bytes - at, *name == '-' ? "\\%c" : "%c", *name);
}

static void man_pages_have_every_command_option_and_variable(void **state)
{
	char *variables = program_source_text("docs/man/man7/tributary-env.7"), line[128];

	(void)state;
	for (const struct command *const *at = command_table; *at; at++) {
		char name[128], *page;

		snprintf(name, sizeof(name), "docs/man/man1/tributary-%s.1", (*at)->name);
		for (char *c = name; *c; c++)
			*c = *c == ' ' ? '-' : *c;
		page = program_source_text(name);
		assert_true(strlen((*at)->help) < 100);
		for (size_t i = 0; i < options_count((*at)->options); i++) {
			assert_non_null((*at)->options[i].help);
			option_line((*at)->options[i].name, line, sizeof(line));
			assert_non_null(strstr(page, line));
		}
		free(page);
	}
	for (size_t i = 0; i < params_count(); i++) {
		struct param_info info;

		params_info(i, &info);
		snprintf(line, sizeof(line), "\n.B %s\n", info.name);
		assert_non_null(strstr(variables, line));
	}
	free(variables);
}

/* By mandoc and by groff. A page of what is not released has no date. */
static void man_pages_are_sound(void **state)
{
	static const char *const checks[] = {
		"mandoc -T lint -W warning */* | grep -v 'missing date'",
		"groff -man -ww -Tutf8 -z */* 2>&1",
	};
	char line[1024], text[4096];
	unsigned run = 0;

	(void)state;
	free(program_source_text("docs/man/man1/tributary.1"));
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		snprintf(line, sizeof(line), "command -v %.*s >/dev/null", (int)strcspn(checks[i], " "), checks[i]);
		if (shell(line, text, sizeof(text)) != 0)
			continue;
		snprintf(line, sizeof(line), "cd '%s/docs/man' && %s", program_source(), checks[i]);
		(void)shell(line, text, sizeof(text));
		assert_string_equal(text, "");
		run++;
	}
	if (!run) {
		print_message("skipped: neither mandoc nor groff is here\n");
		skip();
	}
}

static void completions_are_what_the_tables_give(void **state)
{
	static const struct {
		const char *file;
		void (*print)(const struct command *const *table, FILE *out);
	} files[] = { { "docs/completion/tributary.bash", command_print_completion },
		      { "docs/completion/_tributary", command_print_zsh },
		      { "docs/completion/tributary.fish", command_print_fish } };

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char *file = program_source_text(files[i].file), *now = printed(files[i].print);

		if (strcmp(file, now) != 0)
			fail_msg("%s is stale: make generated", files[i].file);
		free(now);
		free(file);
	}
}

/* help lists them under one title each. */
static void commands_of_a_group_stand_together(void **state)
{
	bool seen[COMMAND_GROUP_COUNT] = { false };

	(void)state;
	for (const struct command *const *at = command_table; *at; at++) {
		if (at != command_table && (*at)->group == at[-1]->group)
			continue;
		assert_false(seen[(*at)->group]);
		seen[(*at)->group] = true;
		assert_non_null(command_group_title((*at)->group));
	}
	for (size_t i = 0; i < COMMAND_GROUP_COUNT; i++)
		assert_true(seen[i]);
}

static void every_command_and_json_option_is_documented(void **state)
{
	char *page = program_source_text("docs/guide/command.md"), heading[64];

	(void)state;
	for (const struct command *const *at = command_table; *at; at++) {
		snprintf(heading, sizeof(heading), "\n## %s\n", (*at)->name);
		if (!strstr(page, heading))
			fail_msg("docs/guide/command.md has no section %s", (*at)->name);
	}
	free(page);
}

static void options_are_parsed_by_their_tables(void **state)
{
	char show[] = "show", from[] = "--from", a[] = "a", svg[] = "--svg=b=c", json[] = "--json", ends[] = "--",
	     help[] = "help", word[] = "--man";
	char *argv[] = { show, from, a, svg, json, NULL }, *rest[] = { help, ends, word, NULL };
	struct command_call call;

	(void)state;
	assert_int_equal(command_parse(command_table, &command_show, 5, argv, &call), COMMAND_OK);
	assert_string_equal(command_value(&call, "from"), "a");
	assert_string_equal(command_value(&call, "svg"), "b=c");
	assert_string_equal(command_value(&call, "color"), "auto");
	assert_null(command_value(&call, "html"));
	assert_true(command_given(&call, "json"));
	assert_false(command_given(&call, "color"));
	assert_int_equal(command_parse(command_table, &command_help, 3, rest, &call), COMMAND_OK);
	assert_false(command_given(&call, "man"));
	assert_int_equal(call.operand_count, 1);
	assert_string_equal(call.operands[0], "--man");
}

/* A command that is declared and in no table compiles, and nobody can call it. */
static void every_command_declared_can_be_called(void **state)
{
	char *header = program_source_text("src/command/command.h"),
	     *at = strstr(header, "extern const struct command ");
	size_t declared = 0, listed = 0;

	(void)state;
	assert_non_null(at);
	at[strcspn(at, ";")] = '\0';
	for (; (at = strpbrk(at, " \t")); at++) {
		char name[64];

		if (strncmp(at + 1, "command_", 8) != 0)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 9, ",\n"), at + 9);
		for (char *c = name; *c; c++)
			*c = *c == '_' ? ' ' : *c;
		if (!command_find(command_table, name))
			fail_msg("%s is declared, and not in the table", name);
		declared++;
	}
	while (command_table[listed])
		listed++;
	assert_int_equal(declared, listed);
	free(header);
}

static void operands_are_taken_in_their_order(void **state)
{
	char cluster[] = "cluster", show[] = "show", file[] = "a", other[] = "b", text[] = "--text";
	char *whole[] = { cluster, show, text, file, NULL }, *more[] = { cluster, show, file, other, NULL };
	char *turned[] = { cluster, file, show, NULL };
	struct command_call call;

	(void)state;
	assert_int_equal(command_parse(command_table, &command_cluster, 4, whole, &call), COMMAND_OK);
	assert_int_equal(call.operand_count, 2);
	assert_string_equal(call.operands[1], "a");
	assert_int_equal(command_parse(command_table, &command_cluster, 4, more, &call), COMMAND_USAGE);
	assert_int_equal(command_parse(command_table, &command_cluster, 3, turned, &call), COMMAND_USAGE);
	assert_int_equal(command_parse(command_table, &command_cluster, 2, whole, &call), COMMAND_USAGE);
	assert_int_equal(command_parse(command_table, &command_cluster, 1, whole, &call), COMMAND_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(man_pages_are_what_the_tables_give),
		cmocka_unit_test(man_pages_have_every_command_option_and_variable),
		cmocka_unit_test(man_pages_are_sound),
		cmocka_unit_test(completions_are_what_the_tables_give),
		cmocka_unit_test(commands_of_a_group_stand_together),
		cmocka_unit_test(every_command_and_json_option_is_documented),
		cmocka_unit_test(options_are_parsed_by_their_tables),
		cmocka_unit_test(every_command_declared_can_be_called),
		cmocka_unit_test(operands_are_taken_in_their_order),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
