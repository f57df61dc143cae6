/* SPDX-License-Identifier: Apache-2.0 */
/* The completions, bash's and fish's asked as the shells ask them, zsh's on a terminal, in a folder with a file and a folder of blanks in their names. */
#include "command/command.h"

#include "program.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TEXT_BYTES = 1 << 16 };

static char text[TEXT_BYTES];

static int prepare(void **state)
{
	char path[256];
	int r = program_find(state);

	snprintf(path, sizeof(path), "%s/a machine.xml", program_folder());
	tree_put(path, "");
	snprintf(path, sizeof(path), "%s/some folder", program_folder());
	assert_int_equal(mkdir(path, 0700), 0);
	return r;
}

static void need_bash(void)
{
	free(program_source_text("docs/completion/tributary.bash"));
	if (system("bash -c true") != 0) {
		print_message("skipped: no bash\n");
		skip();
	}
}

/* words: of the command line, the last of which is being typed. What is offered is in text, a line each. */
static void complete(const char *words, bool bash_completion)
{
	char line[2048];
	FILE *pipe;
	size_t bytes;

	snprintf(line, sizeof(line),
		 "cd '%s' && bash --norc -c 'compopt() { echo \"compopt $*\"; }; %s . \"$1\"; shift; "
		 "COMP_WORDS=(tributary \"$@\"); COMP_CWORD=$#; _tributary; printf \"%%s\\n\" \"${COMPREPLY[@]}\"' "
		 "x '%s/docs/completion/tributary.bash' %s 2>&1",
		 program_folder(), bash_completion ? "_command_offset() { echo \"offset $1\"; };" : "",
		 program_source(), words);
	pipe = popen(line, "re");
	assert_non_null(pipe);
	bytes = fread(text, 1, sizeof(text) - 1, pipe);
	text[bytes] = '\0';
	assert_int_equal(pclose(pipe), 0);
}

static bool offers(const char *line)
{
	size_t bytes = strlen(line);

	for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (!strncmp(at, line, bytes) && at[bytes] == '\n')
			return true;
	return false;
}

static void each_word_is_completed_with_what_may_stand_there(void **state)
{
	static const struct {
		const char *words, *offered, *not_offered;
	} cases[] = {
		{ "''", "simulate", "cluster measure" },
		{ "sim", "simulate", "show" },
		{ "run ''", "bash", "COMMAND..." },
		{ "run ba", "bash", "measure" },
		{ "run --c", "--collnet", "bash" },
		{ "run -- ba", "bash", "--help" },
		{ "show --", "--svg", "a machine.xml" },
		{ "show --from ''", "a machine.xml", "--svg" },
		{ "show --from ''", "some folder", "machine.xml" },
		{ "show --from = 'a '", "a machine.xml", "a" },
		{ "show --color ''", "never", "--svg" },
		{ "show --color = ''", "never", "--svg" },
		{ "measure --simulate ''", "some folder", "a machine.xml" },
		{ "measure --seconds ''", "", "--quick" },
		{ "cluster ''", "measure", "a machine.xml" },
		{ "cluster ''", "show", "FILE" },
		{ "cluster show ''", "a machine.xml", "show" },
		{ "cluster order ''", "a machine.xml", "measure" },
		{ "cluster order --f", "--format", "--slurm" },
		{ "cluster order --format ''", "torchrun", "--json" },
		{ "cluster measure --", "--declared", "--format" },
		{ "simulate --algo ''", "hierarchical", "--size" },
		{ "simulate --order ''", "leaf", "--size" },
		{ "simulate --order ''", "a machine.xml", "--size" },
		{ "simulate --order random : 1", "", "--size" },
		{ "simulate --fabric l", "leaf-spine:", "fat-tree:" },
		{ "simulate --fabric l", "compopt -o nospace", "" },
		{ "simulate --collective all", "alltoall", "incast" },
		{ "plan --hosts ''", "either", "--gpus" },
		{ "plan --gpus ''", "", "--nets" },
		{ "place ''", "peer:", "[JOB]" },
		{ "place --format ''", "cuda", "--json" },
		{ "lint ''", "a machine.xml", "--json" },
		{ "completion ''", "fish", "--help" },
		{ "help do", "doctor", "show" },
		{ "cluster show --t", "--text", "--json" },
		{ "help ''", "cluster", "[COMMAND]" },
		{ "help cluster ''", "order", "simulate" },
		{ "help show ''", "", "simulate" },
		{ "params --", "--json", "--from" },
	};

	(void)state;
	need_bash();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		complete(cases[i].words, false);
		if (!offers(cases[i].offered) || (cases[i].not_offered[0] && offers(cases[i].not_offered)) ||
		    strstr(text, "error") || strstr(text, "unbound"))
			fail_msg("tributary %s: %s", cases[i].words, text);
	}
}

/* What follows a command is its own. */
static void after_the_command_of_run_its_own_completion_counts(void **state)
{
	(void)state;
	need_bash();
	complete("run make -", true);
	assert_true(offers("offset 2"));
	complete("run --collnet auto -- make ''", true);
	assert_true(offers("offset 5"));
	complete("run --collnet = auto make ''", true);
	assert_true(offers("offset 5"));
	complete("run make ''", false);
	assert_true(offers("compopt -o default"));
}

/* Every option and every word of a list is offered, and no name of a kind of value is. */
static void every_option_and_word_is_offered(void **state)
{
	(void)state;
	need_bash();
	for (const struct command *const *at = command_table; *at; at++) {
		size_t count = options_count((*at)->options);
		char words[128], option[64];

		snprintf(words, sizeof(words), "%s --", (*at)->name);
		complete(words, false);
		for (size_t i = 0; i < count; i++) {
			snprintf(option, sizeof(option), "--%s", (*at)->options[i].name);
			if (!offers(option))
				fail_msg("%s: %s", words, text);
		}
		for (const char *c = text; *c; c++)
			assert_false(*c >= 'A' && *c <= 'Z');
	}
}

/* A line, in the shells that take it whole. */
static const struct {
	const char *line, *offered, *not_offered;
} lines[] = {
	{ "tributary ", "simulate", "order" },
	{ "tributary sim", "simulate", "show" },
	{ "tributary run ba", "bash", "measure" },
	{ "tributary run -- ba", "bash", "--collnet" },
	{ "tributary run --c", "--collnet", "bash" },
	{ "tributary show --", "--svg", "a machine.xml" },
	{ "tributary show --from ", "a machine.xml", "--svg" },
	{ "tributary show --from ", "some folder", "--svg" },
	{ "tributary show --color ", "never", "--svg" },
	{ "tributary measure --simulate ", "some folder", "--quick" },
	{ "tributary measure --seconds ", "", "--quick" },
	{ "tributary cluster ", "measure", "plan" },
	{ "tributary cluster show ", "a machine.xml", "plan" },
	{ "tributary cluster order ", "a machine.xml", "measure" },
	{ "tributary cluster order --f", "--format", "--slurm" },
	{ "tributary cluster order --format ", "torchrun", "--json" },
	{ "tributary cluster measure --", "--declared", "--format" },
	{ "tributary simulate --algo ", "hierarchical", "--size" },
	{ "tributary simulate --order ", "leaf", "--size" },
	{ "tributary simulate --order ", "a machine.xml", "--size" },
	{ "tributary simulate --fabric l", "leaf-spine:", "fat-tree:" },
	{ "tributary simulate --collective all", "alltoall", "incast" },
	{ "tributary plan --hosts ", "either", "--gpus" },
	{ "tributary place ", "peer:", "[JOB]" },
	{ "tributary lint ", "a machine.xml", "--from" },
	{ "tributary completion ", "zsh", "show" },
	{ "tributary help ", "cluster", "--json" },
	{ "tributary help cluster ", "order", "--json" },
	{ "tributary params --", "--json", "--from" },
};

static void need_shell(const char *shell)
{
	char line[64];

	snprintf(line, sizeof(line), "%s -c true 2>/dev/null", shell);
	free(program_source_text("docs/completion/_tributary"));
	if (system(line) != 0) {
		print_message("skipped: no %s\n", shell);
		skip();
	}
}

/* A word a line, without the blanks' backslashes and slashes of folders, and what fish says of it after a tab. */
static void take_offers(const char *command)
{
	char line[2048];
	FILE *pipe;
	size_t bytes;

	snprintf(line, sizeof(line), "cd '%s' && %s 2>&1 | sed 's/\t.*//; s/\\\\ / /g; s|/$||'", program_folder(),
		 command);
	pipe = popen(line, "re");
	assert_non_null(pipe);
	bytes = fread(text, 1, sizeof(text) - 1, pipe);
	text[bytes] = '\0';
	assert_int_equal(pclose(pipe), 0);
}

static void check_line(size_t i)
{
	if ((lines[i].offered[0] && !offers(lines[i].offered)) || offers(lines[i].not_offered) ||
	    strstr(text, "rror") || (!lines[i].offered[0] && text[0]))
		fail_msg("%s: %s", lines[i].line, text);
}

static void fish_completes_what_bash_does(void **state)
{
	char command[1024];

	(void)state;
	need_shell("fish --no-config");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(
			command, sizeof(command),
			"HOME=\"$PWD\" fish --no-config -c \"source '%s/docs/completion/tributary.fish'; complete -C '%s'\"",
			program_source(), lines[i].line);
		take_offers(command);
		check_line(i);
	}
}

static void zsh_completes_what_bash_does(void **state)
{
	char command[1024];

	(void)state;
	need_shell("zsh -f");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(command, sizeof(command),
			 "{ zsh -f '%s/tests/unit/command/complete.zsh' '%s/docs/completion/_tributary' '%s' .offers; "
			 "cat .offers; }",
			 program_source(), program_source(), lines[i].line);
		take_offers(command);
		check_line(i);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_word_is_completed_with_what_may_stand_there),
		cmocka_unit_test(after_the_command_of_run_its_own_completion_counts),
		cmocka_unit_test(every_option_and_word_is_offered),
		cmocka_unit_test(fish_completes_what_bash_does),
		cmocka_unit_test(zsh_completes_what_bash_does),
	};

	return cmocka_run_group_tests_name("completion", tests, prepare, NULL);
}
