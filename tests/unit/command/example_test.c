/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of --help and the man pages: each does what it shows, in a folder with the files that they name. */
#include "command/command.h"

#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char text[1 << 20];

/* Of a job, what launchers would start; srun's has a rank, and no second one. */
static void prepare_folder(void)
{
	char line[4096];

	program_put("secret", "one that is long enough to be one");
	snprintf(
		line, sizeof(line),
		"cd '%s' && chmod 600 secret && mkdir bin state metrics && ln -s '%s' bin/tributary && "
		"printf '#!/bin/sh\\nexit 0\\n' >bin/torchrun && "
		"printf '#!/bin/sh\\nexit 255\\n' >bin/ssh && chmod 755 bin/ssh && "
		"printf '#!/bin/sh\\nshift\\nRANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 exec \"$@\"\\n' >bin/srun && "
		"chmod 755 bin/torchrun bin/srun && cp '%s/tests/fixtures/discover/two-node.tar.gz' machine.tar.gz && "
		"cp '%s/topo/nvlink-pairs-4gpu/machine.topology' . && cp '%s/topo/clusters/with-aggregators.cluster' cluster "
		"&& cp '%s/tests/fixtures/estimate/layers.json' model.json && "
		"cp '%s/tests/fixtures/estimate/system-8.json' system.json && "
		"for i in 0 1; do gzip <'%s'/tests/fixtures/report/rank$i.json >rank$i.json.gz; done",
		program_folder(), program_path(), program_source(), program_source(), program_source(),
		program_source(), program_source(), program_source());
	assert_int_equal(system(line), 0);
	setenv("TRIBUTARY_STATE_DIR", "state", 1);
}

static int run_line(const struct command *command)
{
	char line[1024];
	size_t bytes;
	FILE *pipe;
	int status;

	/* A measurement is begun and interrupted. */
	snprintf(line, sizeof(line), "cd '%s' && PATH=$PWD/bin:$PATH && %s%s 2>&1", program_folder(),
		 command == &command_measure ? "exec timeout -s INT 1 " : "", command->example);
	pipe = popen(line, "re");
	assert_non_null(pipe);
	bytes = fread(text, 1, sizeof(text) - 1, pipe);
	text[bytes] = '\0';
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void every_example_runs(void **state)
{
	/* No launcher or remote shell starts ranks, nobody writes metrics or answers, there is one host alone, the interfaces are the machine's own; and lint and doctor find something. */
	static const struct command *const may_fail[] = { &command_bench,   &command_aggregators,
							  &command_check,   &command_cluster_measure,
							  &command_devices, &command_doctor,
							  &command_lint };

	(void)state;
	if (!program_path()[0] || !program_source()[0]) {
		print_message("skipped: no program in TRIBUTARY_BUILD\n");
		skip();
	}
	prepare_folder();
	for (const struct command *const *at = command_table; *at; at++) {
		int status = run_line(*at);
		bool fits = status == COMMAND_OK ||
			    (*at == &command_measure && (status == 124 || status == COMMAND_FAILED));

		for (size_t i = 0; i < sizeof(may_fail) / sizeof(may_fail[0]); i++)
			fits |= *at == may_fail[i] && status != COMMAND_USAGE && status <= COMMAND_ERRORS;
		if (!fits)
			fail_msg("%s: status %d: %s", (*at)->example, status, text);
		print_message("%s\n", (*at)->example);
	}
}

/* They are of their command, and --help shows them. */
static void every_command_shows_its_example(void **state)
{
	(void)state;
	for (const struct command *const *at = command_table; *at; at++) {
		char call[64], name[64];

		assert_non_null((*at)->example);
		snprintf(name, sizeof(name), "tributary %s", (*at)->name);
		if (!strstr((*at)->example, name))
			fail_msg("%s is no example of %s", (*at)->example, name);
		snprintf(call, sizeof(call), "help %s", (*at)->name);
		assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
		assert_true(*at == &command_help || strstr(text, (*at)->example)); /* help help is the list */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_example_runs),
		cmocka_unit_test(every_command_shows_its_example),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
