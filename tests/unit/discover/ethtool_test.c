/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void an_answer_is_one_line_of_words(void **state)
{
	char name[] = "lo", *text;
	size_t bytes;

	(void)state;
	assert_int_equal(discover_ethtool_ask(name, &text, &bytes), 0);
	assert_int_equal(strlen(text), bytes);
	assert_null(strchr(text, '\n'));
	/* The loopback has no fastest mode and no pause frames. */
	assert_null(strstr(text, "most_Mbps"));
	free(text);
}

static void an_interface_that_is_not_there_says_nothing(void **state)
{
	char names[2][64] = { "none-such", "a-name-that-is-longer-than-any-interface-has" }, *text;
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(discover_ethtool_ask(names[i], &text, &bytes), 0);
		assert_string_equal(text, "");
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_one_line_of_words),
		cmocka_unit_test(an_interface_that_is_not_there_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
