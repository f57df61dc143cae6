/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ncclxml/read/scan.h"

static int escape_line;

static void on_escape(void *arg, int line)
{
	(void)arg;
	escape_line = line;
}

static void gives_up(const char *text, int line, const char *part)
{
	const char *reason = "";

	escape_line = 0;
	assert_int_equal(ncclxml_scan(text, strlen(text), on_escape, NULL, &reason), line);
	if (!strstr(reason, part))
		fail_msg("\"%s\" does not say \"%s\"", reason, part);
}

static void what_nccl_reads_passes(void **state)
{
	(void)state;
	gives_up("", 0, "");
	gives_up("<!-- a\n\t> -- b -->\n<system version=\"1\">\r\n  <cpu numaid='0'/>\n <pci x=\"1\" />\n</system>\n",
		 0, "");
	gives_up("<a b=\"\t\n\"/>\n", 0, "");
	gives_up("<!--\n-->\n<a/>", 0, "");
	gives_up("<!---->\n<a/>", 0, "");
	gives_up("<!--x-->\n<a/>", 0, "");
	gives_up("<!-- / > = -->\n<a/>", 0, "");
}

static void it_gives_up_on_the_line_where_nccl_does(void **state)
{
	(void)state;
	gives_up("<?xml version=\"1.0\"?>\n<system/>\n", 1, "<?instruction?>");
	gives_up("<!-- a -->\n<!DOCTYPE system>\n<system/>\n", 2, "<!DOCTYPE>");
	gives_up("\xef\xbb\xbf<system>\n</system>\n", 1, "a byte-order mark");
	gives_up("<system>\n\t<cpu/>\n</system>\n", 2, "a tab between");
	gives_up("<system>\n  text\n</system>\n", 2, "text between");
	gives_up("<system>\n<cpu a=\"1\"\n b=\"2\"/>\n</system>\n", 2, "a line break");
	gives_up("<system>\n<cpu a=\"1\"\tb=\"2\"/>\n</system>\n", 2, "something else than a space");
	gives_up("<system>\n</system >\n", 2, "closing tag");
	gives_up("<a>\n<b c = \"1\"/>\n</a>", 2, "");
	gives_up("<!--a=b-->\n<a/>", 1, "first word of a comment");
	gives_up("<a>\n<!-- never\nends", 3, "does not end");
	gives_up("<a\n", 1, "a line break");
	gives_up("<a b=\"1\"", 1, "ends inside a tag");
}

static void values_and_names_are_bounded(void **state)
{
	char text[600], value[260];
	const char *reason = "";

	(void)state;
	for (unsigned length = 250; length < 258; length++) {
		memset(value, 'x', length);
		value[length] = '\0';
		snprintf(text, sizeof(text), "<a>\n<b c=\"%s\"/></a>", value);
		assert_int_equal(ncclxml_scan(text, strlen(text), on_escape, NULL, &reason), length > 253 ? 2 : 0);
		snprintf(text, sizeof(text), "<%s/>", value);
		assert_int_equal(ncclxml_scan(text, strlen(text), on_escape, NULL, &reason), length > 253 ? 1 : 0);
	}
}

static void escapes_are_told(void **state)
{
	(void)state;
	gives_up("<a>\n<b c=\"x&amp;y\"/>\n</a>\n", 0, "");
	assert_int_equal(escape_line, 2);
	gives_up("<a>\n<b c=\"xy\"/>\n<!-- & --></a>\n", 0, "");
	assert_int_equal(escape_line, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_nccl_reads_passes),
		cmocka_unit_test(it_gives_up_on_the_line_where_nccl_does),
		cmocka_unit_test(values_and_names_are_bounded),
		cmocka_unit_test(escapes_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
