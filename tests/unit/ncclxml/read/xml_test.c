/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "ncclxml/read/xml.h"

static void refuse(const char *text, size_t bytes, int line, const char *part)
{
	struct diag diag = { .text = "" };
	struct ncclxml_document document;

	assert_int_equal(ncclxml_document_read(text, bytes, &document, &diag), -EINVAL);
	if (!strstr(diag.text, part))
		fail_msg("\"%s\" does not say \"%s\"", diag.text, part);
	if (line)
		assert_int_equal(diag.line, line);
}

static void elements_know_their_line_their_place_and_their_comment(void **state)
{
	static const char text[] = "<!-- of a -->\n<a x=\"1\" y=''>\n  <b/>\n\n  <!-- no --><!-- of c -->\n  <c>\n"
				   "    <d/></c>\n  <!-- t -->text<e/>\n</a>\n<!-- end -->\n";
	struct ncclxml_document document;
	struct ncclxml_element *at;
	struct diag diag;

	(void)state;
	assert_int_equal(ncclxml_document_read(text, strlen(text), &document, &diag), 0);
	at = document.root;
	assert_int_equal(document.element_count, 5);
	assert_string_equal(at->name, "a");
	assert_int_equal(at->line, 2);
	assert_int_equal(at->child_count, 3);
	assert_string_equal(at->comment, " of a ");
	assert_string_equal(ncclxml_attribute(at, "x"), "1");
	assert_string_equal(ncclxml_attribute(at, "y"), "");
	assert_null(ncclxml_attribute(at, "z"));
	at = ncclxml_next(document.root, at);
	assert_string_equal(at->name, "b");
	assert_int_equal(at->line, 3);
	assert_null(at->comment);
	at = ncclxml_next(document.root, at);
	assert_string_equal(at->name, "c");
	assert_int_equal(at->line, 6);
	assert_string_equal(at->comment, " of c ");
	at = ncclxml_next(document.root, at);
	assert_string_equal(at->name, "d");
	assert_int_equal(at->line, 7);
	at = ncclxml_next(document.root, at);
	assert_string_equal(at->name, "e");
	assert_null(at->comment);
	assert_null(ncclxml_next(document.root, at));
	ncclxml_document_fini(&document);
}

static void what_is_not_xml_is_refused_with_its_line(void **state)
{
	(void)state;
	refuse("", 0, 0, "not XML");
	refuse("hello", 5, 1, "not XML");
	refuse("<a>\n<b>\n</a>", 12, 3, "not XML: mismatched tag");
	refuse("<a>\n", 4, 0, "not XML");
	refuse("<a\0b/>", 6, 0, "not XML");
	refuse("<a x=\"1\" x=\"2\"/>", 16, 1, "not XML: duplicate attribute");
	refuse("<a/>\n<a/>", 9, 2, "another machine's, give the file of one alone");
	refuse("<a>\n<b>\xff</b></a>", 14, 2, "not XML");
}

static void entities_are_not_accepted(void **state)
{
	static const char bomb[] =
		"<!DOCTYPE a [\n<!ENTITY x \"xxxxxxxxxx\">\n<!ENTITY y \"&x;&x;&x;\">\n]>\n<a>&y;</a>";
	static const char file[] = "<!DOCTYPE a [\n<!ENTITY x SYSTEM \"file:///etc/passwd\">\n]>\n<a>&x;</a>";

	(void)state;
	refuse(bomb, strlen(bomb), 2, "entity");
	refuse(file, strlen(file), 2, "entity");
}

static void depth_attributes_elements_and_size_are_bounded(void **state)
{
	size_t room = NCCLXML_XML_BYTES_MAX + 2, used = 0;
	char *text = malloc(room);

	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; i <= NCCLXML_XML_DEPTH_MAX; i++)
		used += (size_t)snprintf(text + used, room - used, "<a>");
	refuse(text, used, 1, "inside each other");
	used = (size_t)snprintf(text, room, "<a");
	for (unsigned i = 0; i <= NCCLXML_XML_ATTRIBUTE_MAX; i++)
		used += (size_t)snprintf(text + used, room - used, " a%u=\"\"", i);
	used += (size_t)snprintf(text + used, room - used, "/>");
	refuse(text, used, 1, "attributes");
	used = (size_t)snprintf(text, room, "<a>");
	for (unsigned i = 0; i < NCCLXML_XML_ELEMENT_MAX; i++)
		used += (size_t)snprintf(text + used, room - used, "<b/>");
	used += (size_t)snprintf(text + used, room - used, "</a>");
	refuse(text, used, 1, "65536 elements");
	used = (size_t)snprintf(text, room, "<a b=\"%0*d\"/>", NCCLXML_XML_VALUE_MAX + 1, 0);
	refuse(text, used, 1, "64 KiB");
	refuse(text, NCCLXML_XML_BYTES_MAX + 1, 0, "16 MiB");
	free(text);
}

static void numbers_are_read_as_nccl_reads_them(void **state)
{
	(void)state;
	assert_int_equal(ncclxml_number("16"), 16);
	assert_int_equal(ncclxml_number("0x10"), 16);
	assert_int_equal(ncclxml_number("-1"), -1);
	assert_int_equal(ncclxml_number(""), 0);
	assert_int_equal(ncclxml_number("x16"), 0);
	assert_int_equal(ncclxml_number("16 lanes"), 16);
	assert_int_equal(ncclxml_number("99999999999"), 2147483647);
	assert_int_equal(ncclxml_number("-99999999999"), -2147483647 - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements_know_their_line_their_place_and_their_comment),
		cmocka_unit_test(what_is_not_xml_is_refused_with_its_line),
		cmocka_unit_test(entities_are_not_accepted),
		cmocka_unit_test(depth_attributes_elements_and_size_are_bounded),
		cmocka_unit_test(numbers_are_read_as_nccl_reads_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
