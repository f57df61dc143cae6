/* What is made of the tables of commands and options, and the files that hold it. */
#include "command/command.h"

#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_man(FILE *out)
{
	command_print_man(command_table, out);
}

static void print_completion(FILE *out)
{
	command_print_completion(command_table, out);
}

static char *printed(void (*print)(FILE *out))
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	print(out);
	fclose(out);
	return text;
}

static void man_page_is_what_the_tables_give(void **state)
{
	char *page = program_source_text("docs/tributary.1"), *now = printed(print_man);

	(void)state;
	if (strcmp(page, now) != 0)
		fail_msg("docs/tributary.1 is stale: make generated");
	free(now);
	free(page);
}

/* A hyphen of the command line, not of a word. */
static void option_line(const char *name, char *line, size_t line_bytes)
{
	size_t at = (size_t)snprintf(line, line_bytes, "\n.BR \\-\\-");

	for (; *name && at < line_bytes; name++)
		at += (size_t)snprintf(line + at, line_bytes - at, *name == '-' ? "\\%c" : "%c", *name);
}

static void man_page_has_every_command_option_and_variable(void **state)
{
	char *page = printed(print_man), *variables = printed(command_print_params_man), line[128];

	(void)state;
	for (const struct command *const *at = command_table; *at; at++) {
		snprintf(line, sizeof(line), "\n.SS %s", (*at)->name);
		assert_non_null(strstr(page, line));
		assert_true(strlen((*at)->help) < 100);
		for (size_t i = 0; i < options_count((*at)->options); i++) {
			assert_non_null((*at)->options[i].help);
			option_line((*at)->options[i].name, line, sizeof(line));
			assert_non_null(strstr(page, line));
		}
	}
	assert_non_null(strstr(page, variables));
	free(variables);
	free(page);
}

static void completion_is_what_the_tables_give(void **state)
{
	char *file = program_source_text("docs/tributary.bash");
	char *now = printed(print_completion);

	(void)state;
	if (strcmp(file, now) != 0)
		fail_msg("docs/tributary.bash is stale: make generated");
	free(now);
	free(file);
}

/* What bash offers for a line, a word each; the last word is the one being typed. */
static void complete(const char *words, size_t count, char *ret, size_t ret_bytes)
{
	char line[2048];
	FILE *pipe;
	size_t bytes;

	if (access("/bin/bash", X_OK)) {
		print_message("skipped: bash is not installed\n");
		skip();
	}
	snprintf(line, sizeof(line),
		 "bash --norc -c 'compopt() { :; }; . \"%s/docs/tributary.bash\"; "
		 "COMP_WORDS=(%s); "
		 "COMP_CWORD=%zu; _tributary; echo \"${COMPREPLY[*]}\"'",
		 program_source(), words, count - 1);
	pipe = popen(line, "re");
	assert_non_null(pipe);
	bytes = fread(ret, 1, ret_bytes - 1, pipe);
	ret[bytes] = '\0';
	assert_int_equal(pclose(pipe), 0);
}

static void completion_offers_commands_options_words_and_files(void **state)
{
	char *file = program_source_text("docs/tributary.bash"), text[4096];

	(void)state;
	free(file);
	complete("tributary \"\"", 2, text, sizeof(text));
	for (const struct command *const *at = command_table; *at; at++)
		if (!strchr((*at)->name, ' '))
			assert_non_null(strstr(text, (*at)->name));
	complete("tributary cluster order --t", 4, text, sizeof(text));
	assert_string_equal(text, "--tp\n");
	complete("tributary cluster order --algo \"\"", 5, text, sizeof(text));
	assert_string_equal(text, "ring tree\n");
	complete("tributary sh", 2, text, sizeof(text));
	assert_string_equal(text, "show\n");
	complete("tributary export --so", 3, text, sizeof(text));
	assert_string_equal(text, "--sockets\n");
	complete("tributary export --sockets \"\"", 4, text, sizeof(text));
	assert_string_equal(text, "auto cpus switches\n");
	complete("tributary export --sockets = s", 5, text, sizeof(text));
	assert_string_equal(text, "switches\n");
	complete("tributary lint /etc/host", 3, text, sizeof(text));
	assert_non_null(strstr(text, "/etc/hosts"));
	complete("tributary show --from /etc/host", 4, text, sizeof(text));
	assert_non_null(strstr(text, "/etc/hosts"));
	complete("tributary help do", 3, text, sizeof(text));
	assert_string_equal(text, "doctor\n");
	complete("tributary cluster \"\"", 3, text, sizeof(text));
	assert_string_equal(text, "show measure order\n");
	complete("tributary cluster show /etc/host", 4, text, sizeof(text));
	assert_non_null(strstr(text, "/etc/hosts"));
	complete("tributary cluster show --t", 4, text, sizeof(text));
	assert_string_equal(text, "--text\n");
	complete("tributary completion \"\"", 3, text, sizeof(text));
	assert_string_equal(text, "bash\n");
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
		cmocka_unit_test(man_page_is_what_the_tables_give),
		cmocka_unit_test(man_page_has_every_command_option_and_variable),
		cmocka_unit_test(completion_is_what_the_tables_give),
		cmocka_unit_test(completion_offers_commands_options_words_and_files),
		cmocka_unit_test(every_command_and_json_option_is_documented),
		cmocka_unit_test(options_are_parsed_by_their_tables),
		cmocka_unit_test(every_command_declared_can_be_called),
		cmocka_unit_test(operands_are_taken_in_their_order),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
