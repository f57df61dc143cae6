/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static const struct options_row rows[] = {
	{ "from", "FILE", "a file", NULL },
	{ "color", "auto|never", "colours", "auto" },
	{ "json", NULL, "print JSON", NULL },
	{ 0 },
};

static void a_line_is_read_in_steps(void **state)
{
	char program[] = "p", from[] = "--from=a=b", color[] = "--color", never[] = "never", one[] = "-", ends[] = "--",
	     json[] = "--json", *argv[] = { program, from, color, never, json, one, ends, json, NULL };
	static const struct {
		enum options_step step;
		size_t row;
		const char *text;
	} steps[] = { { OPTIONS_ROW, 0, "a=b" },   { OPTIONS_ROW, 1, "never" },      { OPTIONS_ROW, 2, "" },
		      { OPTIONS_OPERAND, 9, "-" }, { OPTIONS_OPERAND, 9, "--json" }, { OPTIONS_END, 9, NULL } };
	struct options_line line = { .argc = 8, .argv = argv };

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		const char *text = NULL;
		size_t row = 9;

		assert_int_equal(options_next(rows, &line, &row, &text, NULL), steps[i].step);
		assert_int_equal(row, steps[i].row);
		if (steps[i].text)
			assert_string_equal(text, steps[i].text);
	}
}

static void what_is_wrong_is_said(void **state)
{
	static const struct {
		const char *words, *says;
	} cases[] = {
		{ "--form", "unknown option \"--form\": did you mean --from?" },
		{ "--hlep", "unknown option \"--hlep\": did you mean --help?" },
		{ "--nothing", "unknown option \"--nothing\"" },
		{ "--fro=m", "unknown option \"--fro\": did you mean --from?" },
		{ "-x", "unknown option \"-x\"" },
		{ "--json=1", "--json takes no value" },
		{ "--from", "--from needs a value, FILE" },
		{ "--from=", "--from needs a value, FILE" },
		{ "--color=aut", "--color is \"aut\", expected auto|never" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char program[] = "p", word[32], *argv[] = { program, word, NULL };
		struct options_line line = { .argc = 2, .argv = argv };
		struct diag diag = { 0 };
		const char *text;
		size_t row;

		snprintf(word, sizeof(word), "%s", cases[i].words);
		assert_int_equal(options_next(rows, &line, &row, &text, &diag), OPTIONS_WRONG);
		assert_string_equal(diag.text, cases[i].says);
	}
}

static void a_collective_may_be_named_as_elsewhere(void **state)
{
	static const struct options_row choice[] = { { "collective", "allreduce|alltoall", "what runs", "allreduce" },
						     { .name = NULL } };
	static const char *const words[][2] = { { "--collective=all_reduce", "allreduce" },
						{ "--collective=AllReduce", "allreduce" },
						{ "--collective=alltoall_perf", "alltoall" },
						{ "--collective=alltoall", "alltoall" } };

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		char program[] = "p", word[64], *argv[] = { program, word, NULL };
		struct options_line line = { .argc = 2, .argv = argv };
		struct diag diag = { 0 };
		const char *text;
		size_t row;

		snprintf(word, sizeof(word), "%s", words[i][0]);
		assert_int_equal(options_next(choice, &line, &row, &text, &diag), OPTIONS_ROW);
		assert_string_equal(text, words[i][1]);
	}
}

static void help_is_asked_for_before_operands_only(void **state)
{
	char program[] = "p", from[] = "--from", help[] = "-h", ends[] = "--", *asks[] = { program, from, help, NULL },
	     *names[] = { program, ends, help, NULL };

	(void)state;
	assert_true(options_ask_help(3, asks));
	assert_false(options_ask_help(2, asks));
	assert_false(options_ask_help(3, names));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_read_in_steps),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(a_collective_may_be_named_as_elsewhere),
		cmocka_unit_test(help_is_asked_for_before_operands_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
