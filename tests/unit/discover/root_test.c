/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/root.h"

#include "unit/discover/fake_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct discover_root *recording(const struct tree *folder)
{
	struct discover_root *root;

	assert_int_equal(discover_root_open(folder->root, true, &root), 0);
	return root;
}

/* A root in memory with what another one recorded. */
static struct discover_root *replay(struct discover_root *from)
{
	const struct discover_entry *entries;
	struct discover_root *root;
	size_t count;

	assert_int_equal(discover_root_empty(&root), 0);
	entries = discover_root_entries(from, &count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(
			discover_root_put(root, entries[i].path, entries[i].kind, entries[i].data, entries[i].bytes),
			0);
	return root;
}

static void only_what_was_read_is_recorded(void **state)
{
	struct discover_root *root;
	const struct discover_entry *entries;
	char text[64];
	size_t count;

	tree_text(*state, "sys/wanted", "42\n");
	tree_text(*state, "sys/unwanted", "secret\n");
	root = recording(*state);
	assert_int_equal(discover_root_read(root, text, sizeof(text), "sys/%s", "wanted"), 0);
	assert_string_equal(text, "42");
	assert_true(discover_root_read(root, text, sizeof(text), "sys/absent") < 0);
	entries = discover_root_entries(root, &count);
	assert_int_equal(count, 1);
	assert_string_equal(entries[0].path, "sys/wanted");
	assert_string_equal(entries[0].data, "42\n");
	discover_root_close(root);
}

static void of_an_rdma_address_only_its_kind_is_known(void **state)
{
	static const struct {
		const char *text, *kind;
	} cases[] = {
		{ "0000:0000:0000:0000:0000:0000:0000:0000\n", "none" },
		{ "0000:0000:0000:0000:0000:ffff:0a63:584d\n", "ipv4" },
		{ "fe80:0000:0000:0000:0a1b:2cff:fe3d:4e5f\n", "link-local" },
		{ "2001:0db8:0000:0000:0000:ffff:0a63:584d\n", "other" },
	};
	struct discover_root *root, *again;
	const struct discover_entry *entries;
	char path[32], text[16];
	size_t count;

	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "sys/gids/%zu", i);
		tree_text(*state, path, cases[i].text);
	}
	root = recording(*state);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(discover_root_show(root, DISCOVER_SHOWN_GID, text, sizeof(text), "sys/gids/%zu", i),
				 0);
		assert_string_equal(text, cases[i].kind);
	}
	assert_true(discover_root_show(root, DISCOVER_SHOWN_GID, text, sizeof(text), "sys/gids/4") < 0);
	assert_int_equal(discover_root_show(root, DISCOVER_SHOWN_GID, text, 4, "sys/gids/2"), -EFBIG);
	entries = discover_root_entries(root, &count);
	assert_int_equal(count, 4);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(entries[i].data, cases[i].kind);
	again = replay(root);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(discover_root_show(again, DISCOVER_SHOWN_GID, text, sizeof(text), "sys/gids/%zu", i),
				 0);
		assert_string_equal(text, cases[i].kind);
	}
	discover_root_close(root);
	discover_root_close(again);
}

static void an_interfaces_name_in_a_file_is_shown_as_elsewhere(void **state)
{
	struct discover_root *root, *again;
	const struct discover_entry *entries;
	char text[32];
	size_t count;

	tree_text(*state, "sys/parent", "enx0011223344ff\n");
	tree_text(*state, "sys/other", "eth0\n");
	root = recording(*state);
	assert_int_equal(discover_root_show(root, DISCOVER_SHOWN_NAME, text, sizeof(text), "sys/parent"), 0);
	assert_string_equal(text, "enxmac1");
	assert_int_equal(discover_root_show(root, DISCOVER_SHOWN_NAME, text, sizeof(text), "sys/other"), 0);
	assert_string_equal(text, "eth0");
	assert_string_equal(discover_root_alias(root, "enx0011223344ff"), "enxmac1");
	entries = discover_root_entries(root, &count);
	for (size_t i = 0; i < count; i++)
		assert_null(strstr(entries[i].data, "0011223344ff"));
	again = replay(root);
	assert_int_equal(discover_root_show(again, DISCOVER_SHOWN_NAME, text, sizeof(text), "sys/parent"), 0);
	assert_string_equal(text, "enxmac1");
	discover_root_close(root);
	discover_root_close(again);
}

/* A capture may have a path more than once, and not in order: the last one counts. */
static void of_entries_of_one_path_the_last_stays(void **state)
{
	const struct discover_entry *entries;
	struct discover_root *root;
	char text[8], path[8];
	size_t count;

	(void)state;
	assert_int_equal(discover_root_empty(&root), 0);
	for (int i = 0; i < 400; i++) {
		snprintf(path, sizeof(path), "a/%d", 9 - i % 10);
		snprintf(text, sizeof(text), "%d", i);
		assert_int_equal(discover_root_put(root, path, DISCOVER_FILE, text, strlen(text)), 0);
	}
	entries = discover_root_entries(root, &count);
	assert_int_equal(count, 10);
	for (int i = 0; i < 10; i++) {
		snprintf(text, sizeof(text), "%d", 399 - i);
		assert_string_equal(entries[i].data, text);
	}
	discover_root_close(root);
}

static void what_was_recorded_reads_the_same(void **state)
{
	struct discover_root *root, *again;
	struct discover_names names;
	char text[64];
	int64_t number;

	tree_text(*state, "sys/a/number", "-7\n");
	tree_text(*state, "sys/a/hex", "0x030200\n");
	tree_text(*state, "sys/b/other", "x");
	tree_link(*state, "sys/a/driver", "../../bus/drivers/mlx5_core");
	root = recording(*state);
	assert_int_equal(discover_root_list(root, &names, "sys"), 0);
	discover_names_fini(&names);
	assert_int_equal(discover_root_number(root, &number, "sys/a/number"), 0);
	assert_int_equal(discover_root_number(root, &number, "sys/a/hex"), 0);
	assert_int_equal(discover_root_link(root, text, sizeof(text), "sys/a/driver"), 0);
	assert_false(discover_root_exists(root, "sys/c"));
	assert_true(discover_root_exists(root, "sys/b"));
	again = replay(root);
	assert_int_equal(discover_root_list(again, &names, "sys"), 0);
	assert_int_equal(names.count, 2);
	assert_string_equal(names.at[0], "a");
	assert_string_equal(names.at[1], "b");
	discover_names_fini(&names);
	assert_int_equal(discover_root_number(again, &number, "sys/a/number"), 0);
	assert_int_equal(number, -7);
	assert_int_equal(discover_root_number(again, &number, "sys/a/hex"), 0);
	assert_int_equal(number, 0x030200);
	assert_int_equal(discover_root_link(again, text, sizeof(text), "sys/a/driver"), 0);
	assert_string_equal(text, "mlx5_core");
	assert_false(discover_root_exists(again, "sys/c"));
	assert_true(discover_root_exists(again, "sys/b"));
	assert_int_equal(discover_root_list(again, &names, "sys/c"), -ENOENT);
	discover_root_close(root);
	discover_root_close(again);
}

static void an_address_in_a_name_is_replaced_everywhere(void **state)
{
	struct discover_root *root, *again;
	const struct discover_entry *entries;
	struct discover_names names;
	char text[64];
	size_t count;

	tree_text(*state, "sys/class/net/enx0011223344ff/mtu", "9000\n");
	tree_text(*state, "sys/class/net/eth0/mtu", "1500\n");
	tree_link(*state, "sys/up", "../net/enx0011223344ff");
	root = recording(*state);
	assert_int_equal(discover_root_list(root, &names, "sys/class/net"), 0);
	assert_int_equal(names.count, 2);
	assert_string_equal(names.at[0], "enxmac1");
	discover_names_fini(&names);
	assert_int_equal(discover_root_read(root, text, sizeof(text), "sys/class/net/enxmac1/mtu"), 0);
	assert_string_equal(text, "9000");
	assert_int_equal(discover_root_link(root, text, sizeof(text), "sys/up"), 0);
	assert_string_equal(text, "enxmac1");
	assert_string_equal(discover_root_alias(root, "enx0011223344ff"), "enxmac1");
	assert_string_equal(discover_root_alias(root, "enx0011223344fe"), "enxmac2");
	assert_string_equal(discover_root_alias(root, "enp23s0f0np0"), "enp23s0f0np0");
	entries = discover_root_entries(root, &count);
	for (size_t i = 0; i < count; i++)
		assert_null(strstr(entries[i].path, "0011223344ff"));
	again = replay(root);
	assert_int_equal(discover_root_read(again, text, sizeof(text), "sys/class/net/enxmac1/mtu"), 0);
	assert_string_equal(text, "9000");
	discover_root_close(root);
	discover_root_close(again);
}

static void an_identity_becomes_a_number_that_tells_the_same_from_others(void **state)
{
	struct discover_root *root, *again;
	const struct discover_entry *entries;
	char a[8], b[8], c[8];
	size_t count;

	tree_text(*state, "a", "0a1b:2c3d\n");
	tree_text(*state, "b", "ffff:0000\n");
	tree_text(*state, "c", "0a1b:2c3d\n");
	root = recording(*state);
	assert_int_equal(discover_root_show(root, DISCOVER_SHOWN_IDENTITY, a, sizeof(a), "a"), 0);
	assert_int_equal(discover_root_show(root, DISCOVER_SHOWN_IDENTITY, b, sizeof(b), "b"), 0);
	assert_int_equal(discover_root_show(root, DISCOVER_SHOWN_IDENTITY, c, sizeof(c), "c"), 0);
	assert_string_equal(a, "1");
	assert_string_equal(b, "2");
	assert_string_equal(c, "1");
	entries = discover_root_entries(root, &count);
	assert_string_equal(entries[2].data, "1");
	again = replay(root);
	assert_int_equal(discover_root_show(again, DISCOVER_SHOWN_IDENTITY, b, sizeof(b), "b"), 0);
	assert_int_equal(discover_root_show(again, DISCOVER_SHOWN_IDENTITY, c, sizeof(c), "c"), 0);
	assert_string_not_equal(b, c);
	discover_root_close(root);
	discover_root_close(again);
}

static void paths_that_lead_out_are_refused(void **state)
{
	static const char *const bad[] = { "", "/sys/a", "../a", "a/../b", "a/..", "a//b", "a/", ".", "a/./b" };
	struct discover_root *root;
	char text[16], longest[DISCOVER_PATH_BYTES + 1];

	assert_int_equal(discover_root_empty(&root), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(discover_root_put(root, bad[i], DISCOVER_FILE, "x", 1), -EINVAL);
		assert_true(discover_root_read(root, text, sizeof(text), "%s", bad[i]) < 0);
	}
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(discover_root_put(root, longest, DISCOVER_FILE, "x", 1), -EINVAL);
	longest[sizeof(longest) - 2] = '\0';
	assert_int_equal(discover_root_put(root, longest, DISCOVER_FILE, "x", 1), 0);
	discover_root_close(root);
	(void)state;
}

static void entries_and_bytes_have_an_end(void **state)
{
	struct discover_root *root;
	char path[32], *block = calloc(1, DISCOVER_CAPTURE_MOST);

	(void)state;
	assert_non_null(block);
	assert_int_equal(discover_root_empty(&root), 0);
	for (int i = DISCOVER_ENTRIES_MOST; i--;) {
		snprintf(path, sizeof(path), "%d", i);
		assert_int_equal(discover_root_put(root, path, DISCOVER_FILE, "x", 1), 0);
	}
	assert_int_equal(discover_root_put(root, "more", DISCOVER_FILE, "x", 1), -E2BIG);
	discover_root_close(root);
	assert_int_equal(discover_root_empty(&root), 0);
	assert_int_equal(discover_root_put(root, "a", DISCOVER_FILE, block, DISCOVER_CAPTURE_MOST), 0);
	assert_int_equal(discover_root_put(root, "b", DISCOVER_FILE, block, 1), -E2BIG);
	discover_root_close(root);
	free(block);
}

static void the_later_of_two_entries_stays_but_no_folder_hides_a_file(void **state)
{
	const struct discover_entry *entries;
	struct discover_root *root;
	size_t count;

	(void)state;
	assert_int_equal(discover_root_empty(&root), 0);
	assert_int_equal(discover_root_put(root, "b", DISCOVER_FILE, "1", 1), 0);
	assert_int_equal(discover_root_put(root, "a", DISCOVER_FOLDER, NULL, 0), 0);
	assert_int_equal(discover_root_put(root, "b", DISCOVER_FILE, "22", 2), 0);
	assert_int_equal(discover_root_put(root, "b", DISCOVER_FOLDER, NULL, 0), 0);
	entries = discover_root_entries(root, &count);
	assert_int_equal(count, 2);
	assert_string_equal(entries[1].data, "22");
	discover_root_close(root);
}

static void a_file_that_is_too_long_or_no_text_is_not_known(void **state)
{
	struct discover_root *root;
	char text[8] = "before", *longest = malloc(DISCOVER_TEXT_BYTES + 1);

	assert_non_null(longest);
	memset(longest, 'x', DISCOVER_TEXT_BYTES);
	longest[DISCOVER_TEXT_BYTES] = '\0';
	tree_text(*state, "longest", longest);
	tree_text(*state, "long", "12345678");
	tree_write(((struct tree *)*state)->fd, "binary", "a\0b", 3);
	root = recording(*state);
	assert_int_equal(discover_root_read(root, text, sizeof(text), "longest"), -EFBIG);
	assert_int_equal(discover_root_read(root, text, sizeof(text), "long"), -EFBIG);
	assert_int_equal(discover_root_read(root, text, sizeof(text), "binary"), -EINVAL);
	assert_string_equal(text, "before");
	discover_root_close(root);
	free(longest);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_new, tree_free)
	const struct CMUnitTest tests[] = {
		TEST(only_what_was_read_is_recorded),
		TEST(of_an_rdma_address_only_its_kind_is_known),
		TEST(an_interfaces_name_in_a_file_is_shown_as_elsewhere),
		TEST(of_entries_of_one_path_the_last_stays),
		TEST(what_was_recorded_reads_the_same),
		TEST(an_address_in_a_name_is_replaced_everywhere),
		TEST(an_identity_becomes_a_number_that_tells_the_same_from_others),
		TEST(paths_that_lead_out_are_refused),
		TEST(entries_and_bytes_have_an_end),
		TEST(the_later_of_two_entries_stays_but_no_folder_hides_a_file),
		TEST(a_file_that_is_too_long_or_no_text_is_not_known),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
