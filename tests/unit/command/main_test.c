/* SPDX-License-Identifier: Apache-2.0 */
/* The built program: calls, exit statuses, stdout and stderr. */
#include "command/command.h"

#include "program.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void help_lists_every_command(void **state)
{
	static const char *const ways[] = { "help", "--help", "-h", "help help", "help --help" };
	char text[8192], one[8192], call[64];

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		assert_int_equal(program_run(ways[i], PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
		for (const struct command *const *at = command_table; *at; at++)
			assert_non_null(strstr(text, (*at)->name));
	}
	for (const struct command *const *at = command_table; *at; at++) {
		snprintf(call, sizeof(call), "help %s", (*at)->name);
		assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
		assert_non_null(strstr(text, (*at)->name));
		snprintf(call, sizeof(call), "%s --help", (*at)->name);
		assert_int_equal(program_run(call, PROGRAM_STDOUT, one, sizeof(one)), COMMAND_OK);
		assert_string_equal(one, text);
	}
}

static void without_a_command_all_are_listed(void **state)
{
	char text[8192], help[8192];

	(void)state;
	assert_int_equal(program_run("help", PROGRAM_STDOUT, help, sizeof(help)), COMMAND_OK);
	assert_int_equal(program_run("", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_USAGE);
	assert_string_equal(text, help);
}

static void help_of_one_option(void **state)
{
	char text[1024];

	(void)state;
	for (const struct command *const *at = command_table; *at; at++) {
		for (const struct options_row *row = (*at)->options; row->name; row++) {
			char call[96], first[96];

			snprintf(call, sizeof(call), "help %s %s", (*at)->name, row->name);
			snprintf(first, sizeof(first), "tributary %s\n  --%s", (*at)->name, row->name);
			assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
			assert_int_equal(strncmp(text, first, strlen(first)), 0);
			assert_null(strstr(text, "Options:"));
		}
	}
}

static void version_is_one_line(void **state)
{
	char text[256], again[256];

	(void)state;
	assert_int_equal(program_run("version", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_int_equal(strncmp(text, "tributary ", 10), 0);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	assert_int_equal(program_run("--version", PROGRAM_STDOUT, again, sizeof(again)), COMMAND_OK);
	assert_string_equal(text, again);
}

static void wrong_calls_get_one_line_and_status_2(void **state)
{
	static const char *const calls[] = {
		"nothing",
		"--nothing",
		"help nothing",
		"help help help",
		"help simulate nothing",
		"help simulate algo algo",
		"help cluster order nothing",
		"version x",
		"devices --x",
		"params --x",
		"params x",
		"params --json x",
		"params --json --json",
		"show --color sometimes",
		"show --svg",
		"show --svg=",
		"show --json=yes",
		"show -v",
		"export --sockets none",
		"export --json",
		"discover --json --facts",
		"measure --seconds 0",
		"measure --seconds soon",
		"capture",
		"capture a b",
		"lint",
		"completion",
		"completion csh",
		"cluster show",
		"cluster show /nowhere --text --slurm",
		"cluster show /nowhere --slurm --json",
		"plan --html picture --svg picture",
		"cluster measure a",
		"cluster measure --round 1",
		"help --man folder show",
	};
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(program_run(calls[i], PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
		assert_int_equal(strncmp(text, "tributary", 9), 0);
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
		assert_int_equal(program_run(calls[i], PROGRAM_STDOUT, text, sizeof(text)), COMMAND_USAGE);
		assert_string_equal(text, "");
	}
}

static void what_was_meant_is_named(void **state)
{
	static const struct {
		const char *call, *meant;
	} slips[] = { { "exlpain", "did you mean explain?" },
		      { "help measrue", "did you mean measure?" },
		      { "--hlep", "did you mean --help?" },
		      { "--versoin", "did you mean --version?" },
		      { "DOCTOR", "did you mean doctor?" },
		      { "plan --hel", "did you mean --help?" },
		      { "cluster ordre", "did you mean order?" },
		      { "plan --jsno", "did you mean --json?" },
		      { "cluster order --hostflie x", "did you mean --hostfile?" },
		      { "simulate --fab x", "did you mean --fabric?" } };
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(slips) / sizeof(slips[0]); i++) {
		assert_int_equal(program_run(slips[i].call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
		if (!strstr(text, slips[i].meant))
			fail_msg("%s: %s", slips[i].call, text);
	}
	assert_int_equal(program_run("nothing-like-it", PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
	assert_null(strstr(text, "did you mean"));
}

static void cluster_measure_says_at_once_what_is_wrong(void **state)
{
	char secret[512], call[2048], text[1024];

	(void)state;
	assert_int_equal(program_run("cluster measure --round 1", PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
	assert_non_null(strstr(text, "tributary cluster measure: --round is \"1\""));
	assert_non_null(strstr(text, "`tributary help cluster measure`"));
	/* Rank 1 does not come: who waited for it would say that. */
	snprintf(secret, sizeof(secret), "%s/secret", program_folder());
	tree_put(secret, "0123456789012345678901234567890123456789\n");
	assert_int_equal(chmod(secret, 0600), 0);
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	setenv("TRIBUTARY_TIMEOUT", "1", 1);
	snprintf(call, sizeof(call), "cluster measure --secret '%s' --out /nonexistent/cluster", secret);
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_string_equal(text, "tributary: \"/nonexistent/cluster\" cannot be written: No such file or directory\n");
	unsetenv("RANK");
	unsetenv("WORLD_SIZE");
	unsetenv("MASTER_ADDR");
	unsetenv("TRIBUTARY_TIMEOUT");
}

static void no_name_from_outside_reaches_the_terminal_as_a_command(void **state)
{
	static const char fabric[] = "--fabric leaf-spine:2x1,4:1,10Gbit/s";
	char calls[8][512], path[256], text[8192];
	size_t count = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s", program_put("hosts\033[31m", "\033[32mhost\n"));
	snprintf(calls[count++], sizeof(calls[0]), "plan --from '\033[31mfile'");
	snprintf(calls[count++], sizeof(calls[0]), "'\033[31mword'");
	snprintf(calls[count++], sizeof(calls[0]), "params '--\033[31m'");
	snprintf(calls[count++], sizeof(calls[0]), "cluster order %s --hostfile '%s'", fabric, path);
	snprintf(calls[count++], sizeof(calls[0]), "simulate %s --order '%s'", fabric, path);
	snprintf(path, sizeof(path), "%s", program_put("order\033[31m", "host1\nhost2\n"));
	snprintf(calls[count++], sizeof(calls[0]), "simulate %s --order 'leaf,%s'", fabric, path);
	snprintf(path, sizeof(path), "%s", program_put("jobs", "wants \033[31mjob peer 2\nwants other peer 1\n"));
	snprintf(calls[count++], sizeof(calls[0]), "place --jobs '%s' --from '%s'/topo/dual-root-8gpu", path,
		 program_source());
	for (size_t i = 0; i < count; i++) {
		program_run(calls[i], "2>&1", text, sizeof(text));
		assert_null(strchr(text, '\033'));
		assert_non_null(strstr(text, "?[3"));
	}
	setenv("NCCL_NET_PLUGIN", "other\n\033[31mtrue", 1);
	program_run("env", "2>&1", text, sizeof(text));
	unsetenv("NCCL_NET_PLUGIN");
	assert_non_null(strstr(text, "# NCCL_NET_PLUGIN=other??[31mtrue stays"));
}

static void file_that_is_not_there_is_named(void **state)
{
	static const char *const calls[] = { "show --from", "discover --from", "doctor --from",     "export --from",
					     "lint",        "show --profile",  "measure --simulate" };
	char call[128], text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		snprintf(call, sizeof(call), "%s /nonexistent/machine", calls[i]);
		assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
		assert_non_null(strstr(text, "/nonexistent/machine"));
		assert_non_null(strstr(text, "No such file"));
	}
}

/* NCCL takes such a file; whoever has it wants to see it. */
static void a_topology_file_with_a_bus_id_twice_is_shown_with_a_warning(void **state)
{
	static const char *const calls[] = { "show --from ", "discover --from ", "export --from " };
	char path[4096], call[4200], text[8192];

	(void)state;
	snprintf(path, sizeof(path), "%s/twice.xml", program_folder());
	tree_put(path, "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:05:00.0\" class=\"0x060400\"/>\n"
		       "<pci busid=\"0000:05:00.0\" class=\"0x060400\"/></cpu></system>\n");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		snprintf(call, sizeof(call), "%s%s", calls[i], path);
		assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
		if (!strstr(text, "warning: ") || !strstr(text, "line 2: 0000:05:00.0 is there twice"))
			fail_msg("%s", text);
	}
	snprintf(call, sizeof(call), "lint %s", path);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_ERRORS);
	assert_non_null(strstr(text, "duplicate-busid"));
}

static void help_of_a_command_names_those_of_two_words(void **state)
{
	char text[1 << 14];

	(void)state;
	assert_int_equal(program_run("cluster --help", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "tributary cluster measure [OPTION ...]\n"));
	assert_non_null(strstr(text, "tributary cluster order [OPTION ...] [FILE]\n"));
	assert_non_null(strstr(text, "`tributary cluster order --help`: which host"));
	assert_int_equal(program_run("cluster", PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
	assert_non_null(strstr(text, "show, measure, order is missing"));
	assert_int_equal(program_run("cluster list", PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
	assert_non_null(strstr(text, "\"list\" is not known, expected show, measure, order"));
}

static void output_that_cannot_be_written_is_an_error(void **state)
{
	char text[256];

	(void)state;
	assert_int_equal(program_run("params", "2>&1 >/dev/full", text, sizeof(text)), COMMAND_FAILED);
	assert_string_equal(text, "tributary: the output cannot be written: No space left on device\n");
}

static void devices_reports_a_name_that_matches_nothing(void **state)
{
	char text[1024];

	(void)state;
	assert_int_equal(setenv("TRIBUTARY_IF", "=nosuchif0", 1), 0);
	assert_int_equal(program_run("devices", PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "\"nosuchif0\""));
	unsetenv("TRIBUTARY_IF");
}

static void misspelt_variable_is_named_on_stderr(void **state)
{
	char text[1024];

	(void)state;
	assert_int_equal(setenv("TRIBUTARY_STREEMS", "1", 1), 0);
	assert_int_equal(program_run("params", PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "did you mean TRIBUTARY_STREAMS?"));
	unsetenv("TRIBUTARY_STREEMS");
}

/* Whatever the machine that runs the tests: the document is JSON, and has its first key. */
static void json_is_json(void **state)
{
	static const struct {
		const char *call, *key;
	} calls[] = {
		{ "version --json", "version" }, { "params --json", "params" },   { "discover --json", "vertices" },
		{ "show --json", "links" },      { "doctor --json", "findings" },
	};
	static char text[1 << 20];

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		json_error_t error;
		json_t *value;

		(void)program_run(calls[i].call, PROGRAM_STDOUT, text, sizeof(text));
		value = json_loads(text, 0, &error);
		if (!value)
			fail_msg("%s: line %d: %s", calls[i].call, error.line, error.text);
		assert_non_null(json_object_get(value, calls[i].key));
		json_decref(value);
	}
}

static void colours_are_for_terminals_or_when_asked_for(void **state)
{
	char text[8192], call[1024];

	(void)state;
	snprintf(call, sizeof(call), "show --from '%s/tests/browser/machine.topology'", program_source());
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_null(strchr(text, '\033'));
	strcat(call, " --color=always");
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strchr(text, '\033'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(help_lists_every_command),
		cmocka_unit_test(without_a_command_all_are_listed),
		cmocka_unit_test(help_of_one_option),
		cmocka_unit_test(version_is_one_line),
		cmocka_unit_test(wrong_calls_get_one_line_and_status_2),
		cmocka_unit_test(what_was_meant_is_named),
		cmocka_unit_test(cluster_measure_says_at_once_what_is_wrong),
		cmocka_unit_test(no_name_from_outside_reaches_the_terminal_as_a_command),
		cmocka_unit_test(file_that_is_not_there_is_named),
		cmocka_unit_test(a_topology_file_with_a_bus_id_twice_is_shown_with_a_warning),
		cmocka_unit_test(help_of_a_command_names_those_of_two_words),
		cmocka_unit_test(output_that_cannot_be_written_is_an_error),
		cmocka_unit_test(devices_reports_a_name_that_matches_nothing),
		cmocka_unit_test(misspelt_variable_is_named_on_stderr),
		cmocka_unit_test(json_is_json),
		cmocka_unit_test(colours_are_for_terminals_or_when_asked_for),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
