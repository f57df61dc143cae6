/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_value_has_a_word_of_its_own_and_is_found_by_it(void **state)
{
	enum topology_provenance provenance;
	enum topology_link_kind link_kind;
	enum topology_kind kind;

	(void)state;
	for (unsigned i = 0; i < TOPOLOGY_KIND_COUNT; i++) {
		assert_true(topology_kind_of_word(topology_kind_word((enum topology_kind)i), &kind));
		assert_int_equal(kind, i);
	}
	for (unsigned i = 0; i < TOPOLOGY_LINK_KIND_COUNT; i++) {
		assert_true(
			topology_link_kind_of_word(topology_link_kind_word((enum topology_link_kind)i), &link_kind));
		assert_int_equal(link_kind, i);
	}
	for (unsigned i = 0; i < TOPOLOGY_PROVENANCE_COUNT; i++) {
		assert_true(topology_provenance_of_word(topology_provenance_word((enum topology_provenance)i),
							&provenance));
		assert_int_equal(provenance, i);
	}
	for (unsigned i = 0; i < TOPOLOGY_CLASS_COUNT; i++)
		assert_int_equal(strlen(topology_class_word((enum topology_class)i)), 3);
	assert_string_equal(topology_kind_word(TOPOLOGY_NVSWITCH), "nvswitch");
	assert_string_equal(topology_class_word(TOPOLOGY_CLASS_PXB), "PXB");
}

static void words_that_are_none_are_told(void **state)
{
	enum topology_provenance provenance;
	enum topology_link_kind link_kind;
	enum topology_kind kind;

	(void)state;
	assert_false(topology_kind_of_word("GPU", &kind));
	assert_false(topology_kind_of_word("", &kind));
	assert_false(topology_link_kind_of_word("pcie", &link_kind));
	assert_false(topology_provenance_of_word("measured ", &provenance));
	assert_string_equal(topology_kind_word(TOPOLOGY_KIND_COUNT), "?");
	assert_string_equal(topology_class_word(TOPOLOGY_CLASS_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_value_has_a_word_of_its_own_and_is_found_by_it),
		cmocka_unit_test(words_that_are_none_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
