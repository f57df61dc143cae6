/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ncclmodel/limits.h"
#include "ncclxml/read/scan.h"
#include "ncclxml/text.h"

static void no_escape(void *arg, int line)
{
	(void)arg;
	fail_msg("an escape on line %d", line);
}

static void elements_are_nested_and_closed(void **state)
{
	struct ncclxml_text text = { .depth = 0 };

	(void)state;
	ncclxml_text_open(&text, "system");
	ncclxml_text_attribute(&text, "version", "%d", 1);
	ncclxml_text_comment(&text, "one");
	ncclxml_text_open(&text, "cpu");
	ncclxml_text_close(&text);
	ncclxml_text_close(&text);
	assert_int_equal(text.out.error, 0);
	assert_int_equal(text.element_count, 2);
	assert_string_equal(text.out.at, "<system version=\"1\">\n  <!-- one -->\n  <cpu/>\n</system>\n");
	free(text.out.at);
}

static void what_would_have_to_be_escaped_is_left_out(void **state)
{
	struct ncclxml_text text = { .depth = 0 };
	const char *reason;

	(void)state;
	ncclxml_text_comment(&text, "a --> b<c>=d---");
	ncclxml_text_open(&text, "net");
	ncclxml_text_attribute(&text, "name", "%s", "a<b>&\"'\n\tc\x80");
	ncclxml_text_close(&text);
	assert_string_equal(text.out.at, "<!-- a - bcd -->\n<net name=\"abc\"/>\n");
	assert_int_equal(ncclxml_scan(text.out.at, text.out.bytes, no_escape, NULL, &reason), 0);
	free(text.out.at);
}

static void at_most_255_elements(void **state)
{
	struct ncclxml_text text = { .depth = 0 };

	(void)state;
	ncclxml_text_open(&text, "system");
	for (unsigned i = 0; i < 2; i++) {
		ncclxml_text_open(&text, "cpu");
		for (unsigned k = 0; k < 126; k++) {
			ncclxml_text_open(&text, "pci");
			ncclxml_text_close(&text);
		}
		ncclxml_text_close(&text);
	}
	assert_int_equal(text.element_count, NCCLMODEL_NODE_MAX);
	assert_int_equal(text.out.error, 0);
	ncclxml_text_open(&text, "cpu");
	assert_int_equal(text.out.error, -E2BIG);
	free(text.out.at);
}

static void at_most_128_children(void **state)
{
	struct ncclxml_text text = { .depth = 0 };

	(void)state;
	ncclxml_text_open(&text, "system");
	for (unsigned i = 0; i < NCCLMODEL_CHILD_MAX; i++) {
		ncclxml_text_open(&text, "cpu");
		ncclxml_text_close(&text);
	}
	assert_int_equal(text.out.error, 0);
	ncclxml_text_open(&text, "cpu");
	assert_int_equal(text.out.error, -E2BIG);
	free(text.out.at);
}

static void at_most_16_attributes_of_253_characters(void **state)
{
	struct ncclxml_text text = { .depth = 0 };
	char value[NCCLMODEL_VALUE_MAX + 2];
	const char *reason;

	(void)state;
	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	ncclxml_text_open(&text, "cpu");
	for (unsigned i = 0; i < NCCLMODEL_ATTRIBUTE_MAX; i++)
		ncclxml_text_attribute(&text, "a", "%s", value + 1);
	assert_int_equal(text.out.error, 0);
	ncclxml_text_close(&text);
	assert_int_equal(ncclxml_scan(text.out.at, text.out.bytes, no_escape, NULL, &reason), 0);
	free(text.out.at);
	text = (struct ncclxml_text){ .depth = 0 };
	ncclxml_text_open(&text, "cpu");
	ncclxml_text_attribute(&text, "a", "%s", value);
	assert_int_equal(text.out.error, -E2BIG);
	free(text.out.at);
	text = (struct ncclxml_text){ .depth = 0 };
	ncclxml_text_open(&text, "cpu");
	for (unsigned i = 0; i <= NCCLMODEL_ATTRIBUTE_MAX; i++)
		ncclxml_text_attribute(&text, "a", "%d", i);
	assert_int_equal(text.out.error, -E2BIG);
	free(text.out.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements_are_nested_and_closed),
		cmocka_unit_test(what_would_have_to_be_escaped_is_left_out),
		cmocka_unit_test(at_most_255_elements),
		cmocka_unit_test(at_most_128_children),
		cmocka_unit_test(at_most_16_attributes_of_253_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
