/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands print of the machines and clusters of this repository, word for word, as transcript.txt has it: "$" and a
 * call, then what it prints. Long outputs are there by their checksum. A line "$ tributary ..." that is added there is
 * another case: TRIBUTARY_TEST_UPDATE=1 writes the outputs anew, to be looked at before they are committed.
 */
#include "program.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRANSCRIPT "tests/unit/command/transcript.txt"
#define CALL       "$ tributary "

/* The calls of a transcript and what they print now. */
static char *run_calls(const char *transcript)
{
	static char output[1 << 16];
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	for (const char *line = strstr(transcript, CALL); line; line = strstr(line + 1, "\n" CALL)) {
		char call[1024];

		line += *line == '\n';
		snprintf(call, sizeof(call), "%.*s", (int)strcspn(line, "\n"), line);
		program_run(call + strlen(CALL), "2>&1", output, sizeof(output));
		fprintf(out, "%s%s\n%s", ftell(out) ? "\n" : "", call, output);
	}
	fclose(out);
	return text;
}

static void commands_print_what_they_printed(void **state)
{
	const bool updates = getenv("TRIBUTARY_TEST_UPDATE") != NULL;
	char *wanted = program_source_text(TRANSCRIPT), *text;
	const char *call = "";
	size_t line = 0, at = 0;

	(void)state;
	assert_int_equal(chdir(program_source()), 0);
	unsetenv("TRIBUTARY_TEST_UPDATE"); /* of which a call would complain */
	text = run_calls(wanted);
	if (updates)
		tree_put(TRANSCRIPT, text);
	/* The whole would be too much to print. */
	for (; text[at] && text[at] == wanted[at]; at++) {
		if (text[at] != '\n')
			continue;
		line = at + 1;
		if (!strncmp(text + line, CALL, strlen(CALL)))
			call = text + line;
	}
	if (text[at] != wanted[at] && !updates)
		fail_msg("%.*s\nprints\n%.*s\nand did\n%.*s\n(TRIBUTARY_TEST_UPDATE=1 takes that into " TRANSCRIPT ")",
			 (int)strcspn(call, "\n"), call, (int)strcspn(text + line, "\n"), text + line,
			 (int)strcspn(wanted + line, "\n"), wanted + line);
	free(text);
	free(wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands_print_what_they_printed),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
