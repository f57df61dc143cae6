/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's configuration files, as the built program reads them. */
#include "command/command.h"

#include "program.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* $NCCL_CONF_FILE with this text, and nothing of it in the environment. */
static void configure(const char *text)
{
	static const char *const names[] = { "NCCL_SOCKET_IFNAME", "TRIBUTARY_IF", "TRIBUTARY_STREAMS",
					     "NCCL_NET_PLUGIN", "TRIBUTARY_TIMEOUT" };
	char path[512];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	snprintf(path, sizeof(path), "%s/nccl.conf", program_folder());
	setenv("NCCL_CONF_FILE", path, 1);
	tree_put(path, text);
}

/* A text of a row of `tributary params --json`, as "value from"; "" where there is none. */
static const char *row(const char *name)
{
	static char result[256];
	static char text[32768];
	json_t *all, *list;

	assert_int_equal(program_run("params --json", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	all = json_loads(text, 0, NULL);
	assert_non_null(all);
	list = json_object_get(all, "params");
	result[0] = '\0';
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *at = json_array_get(list, i);
		const char *from = json_string_value(json_object_get(at, "from"));
		const char *variable = json_string_value(json_object_get(at, "variable"));

		if (!strcmp(json_string_value(json_object_get(at, "name")), name))
			snprintf(result, sizeof(result), "%s %s %s", json_string_value(json_object_get(at, "value")),
				 variable ? variable : "-", from ? from : "-");
	}
	json_decref(all);
	return result;
}

static void a_value_of_the_file_holds_and_is_said_to_come_from_there(void **state)
{
	char expected[600], text[4096];

	(void)state;
	configure("# of this site\n\nNCCL_SOCKET_IFNAME==lo\nTRIBUTARY_STREAMS=3\n");
	snprintf(expected, sizeof(expected), "=lo NCCL_SOCKET_IFNAME %s", getenv("NCCL_CONF_FILE"));
	assert_string_equal(row("TRIBUTARY_IF"), expected);
	snprintf(expected, sizeof(expected), "3 TRIBUTARY_STREAMS %s", getenv("NCCL_CONF_FILE"));
	assert_string_equal(row("TRIBUTARY_STREAMS"), expected);
	assert_string_equal(row("TRIBUTARY_QPS"), "1 - -");
	assert_int_equal(program_run("devices", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "\nlo "));
	snprintf(expected, sizeof(expected), "NCCL_SOCKET_IFNAME==lo, set in %s.", getenv("NCCL_CONF_FILE"));
	assert_non_null(strstr(text, expected));
	assert_int_equal(program_run("devices --json", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, getenv("NCCL_CONF_FILE")));
	assert_int_equal(program_run("params", PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
	assert_string_equal(text, "");
}

static void the_environment_comes_first_and_of_the_file_the_first_line(void **state)
{
	char expected[600];

	(void)state;
	configure("TRIBUTARY_STREAMS=3\nTRIBUTARY_STREAMS=4\nTRIBUTARY_TIMEOUT=7\n");
	setenv("TRIBUTARY_TIMEOUT", "5", 1);
	assert_string_equal(row("TRIBUTARY_TIMEOUT"), "5 TRIBUTARY_TIMEOUT the environment");
	snprintf(expected, sizeof(expected), "3 TRIBUTARY_STREAMS %s", getenv("NCCL_CONF_FILE"));
	assert_string_equal(row("TRIBUTARY_STREAMS"), expected);
	setenv("TRIBUTARY_TIMEOUT", "", 1); /* set to nothing: NCCL leaves it so */
	assert_string_equal(row("TRIBUTARY_TIMEOUT"), "30 - -");
}

static void lines_that_nccl_makes_nothing_of_are_named(void **state)
{
	char text[4096];

	(void)state;
	configure("NCCL_SOCKET_IFNAME = lo\nexport TRIBUTARY_STREAMS=3\nTRIBUTARY_STREAMS=2\nno value\n");
	assert_int_equal(program_run("params", PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "line 1 "));
	assert_non_null(strstr(text, "line 2 "));
	assert_null(strstr(text, "line 3 "));
	assert_non_null(strstr(text, "line 4 "));
	assert_memory_equal(row("TRIBUTARY_STREAMS"), "2 ", 2);
	assert_string_equal(row("TRIBUTARY_IF"), " - -");
	configure("TRIBUTARY_STREAMS=\nTRIBUTARY_IF=lo\r\nNCCL_SOCKET_IFNAME=\"lo\"\n");
	assert_int_equal(program_run("params", PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
	assert_null(strstr(text, "line 1"));
	assert_non_null(strstr(text, "line 2: NCCL takes quotes and blanks"));
	assert_non_null(strstr(text, "line 3: NCCL takes quotes and blanks"));
	setenv("NCCL_CONF_FILE", "/nowhere/at/all", 1);
	assert_int_equal(program_run("params", PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
	assert_string_equal(text, "");
}

static void misspelt_names_and_wrong_values_are_named_with_their_line(void **state)
{
	static const char *const commands[] = { "params", "params --json", "devices" };
	char expected[700], text[4096];

	(void)state;
	configure("# of this site\nTRIBUTARY_TIMEOT=5\nTRIBUTARY_STREAMS=many\nNCCL_SOCKET_IFNAME==lo\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		assert_int_equal(program_run(commands[i], PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
		snprintf(expected, sizeof(expected),
			 "tributary: %s, line 2: TRIBUTARY_TIMEOT is not a variable of Tributary and is ignored; did "
			 "you mean TRIBUTARY_TIMEOUT?\n",
			 getenv("NCCL_CONF_FILE"));
		assert_non_null(strstr(text, expected));
		snprintf(expected, sizeof(expected), "tributary: %s, line 3: TRIBUTARY_STREAMS=many is not valid",
			 getenv("NCCL_CONF_FILE"));
		assert_non_null(strstr(text, expected));
	}
	/* That of the environment comes first, and is named without a line. */
	setenv("TRIBUTARY_TIMEOT", "6", 1);
	assert_int_equal(program_run("params", PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
	unsetenv("TRIBUTARY_TIMEOT");
	assert_non_null(strstr(text, "tributary: TRIBUTARY_TIMEOT is not a variable"));
	assert_null(strstr(text, "line 2"));
}

/* NCCL reads the files in the process of the job, where they may have changed. */
static void a_command_that_is_run_does_not_get_them(void **state)
{
	char text[4096];

	(void)state;
	configure("NCCL_SOCKET_IFNAME==lo\nNCCL_NET_PLUGIN=other\n");
	assert_int_equal(program_run("run -- sh -c 'echo ${NCCL_NET_PLUGIN-unset},$NCCL_SOCKET_IFNAME'", PROGRAM_STDOUT,
				     text, sizeof(text)),
			 0);
	assert_string_equal(text, "unset,\n"); /* what the file says stays, and NCCL reads it there */
	configure("NCCL_NET_PLUGIN=tributary\n");
	assert_int_equal(program_run("env", PROGRAM_STDOUT, text, sizeof(text)), 0);
	assert_null(strstr(text, "NCCL_NET_PLUGIN"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_of_the_file_holds_and_is_said_to_come_from_there),
		cmocka_unit_test(the_environment_comes_first_and_of_the_file_the_first_line),
		cmocka_unit_test(lines_that_nccl_makes_nothing_of_are_named),
		cmocka_unit_test(misspelt_names_and_wrong_values_are_named_with_their_line),
		cmocka_unit_test(a_command_that_is_run_does_not_get_them),
	};

	if (access("/etc/nccl.conf", F_OK) == 0) {
		puts("skipped: this machine has /etc/nccl.conf, which is read after each file of the tests");
		return 77;
	}
	return cmocka_run_group_tests(tests, program_find, NULL);
}
