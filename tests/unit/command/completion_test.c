/* The completion for bash, asked as bash asks it, in a folder with a file and a folder of blanks in their names. */
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
	free(program_source_text("docs/tributary.bash"));
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
		 "x '%s/docs/tributary.bash' %s 2>&1",
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
		{ "completion ''", "bash", "--help" },
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_word_is_completed_with_what_may_stand_there),
		cmocka_unit_test(after_the_command_of_run_its_own_completion_counts),
		cmocka_unit_test(every_option_and_word_is_offered),
	};

	return cmocka_run_group_tests_name("completion", tests, prepare, NULL);
}
