/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/archive.h"
#include "support/tree.h"
#include "unit/discover/fact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <archive.h>
#include <archive_entry.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 4 << 20 };

/* A tar being made: entries as a stranger may write them. */
struct maker {
	struct archive *archive;
	char *data;
	size_t bytes;
};

static void begin(struct maker *maker, bool version)
{
	maker->data = malloc(ROOM);
	assert_non_null(maker->data);
	maker->archive = archive_write_new();
	assert_int_equal(archive_write_set_format_gnutar(maker->archive), ARCHIVE_OK);
	assert_int_equal(archive_write_add_filter_gzip(maker->archive), ARCHIVE_OK);
	assert_int_equal(archive_write_open_memory(maker->archive, maker->data, ROOM, &maker->bytes), ARCHIVE_OK);
	if (!version)
		return;
	struct archive_entry *entry = archive_entry_new();

	archive_entry_set_pathname(entry, "tributary-capture");
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_size(entry, 10);
	assert_int_equal(archive_write_header(maker->archive, entry), ARCHIVE_OK);
	assert_int_equal(archive_write_data(maker->archive, "version 1\n", 10), 10);
	archive_entry_free(entry);
}

static void add(struct maker *maker, const char *path, unsigned type, const char *link, const char *data, size_t bytes)
{
	struct archive_entry *entry = archive_entry_new();

	archive_entry_set_pathname(entry, path);
	archive_entry_set_filetype(entry, type);
	archive_entry_set_perm(entry, 0644);
	archive_entry_set_size(entry, (int64_t)bytes);
	if (link && type == AE_IFLNK)
		archive_entry_set_symlink(entry, link);
	else if (link)
		archive_entry_set_hardlink(entry, link);
	assert_int_equal(archive_write_header(maker->archive, entry), ARCHIVE_OK);
	if (bytes)
		assert_int_equal(archive_write_data(maker->archive, data, bytes), bytes);
	archive_entry_free(entry);
}

static int end(struct maker *maker, struct discover_root **ret, struct diag *diag)
{
	int r;

	assert_int_equal(archive_write_close(maker->archive), ARCHIVE_OK);
	archive_write_free(maker->archive);
	memset(diag, 0, sizeof(*diag));
	r = discover_archive_read(maker->data, maker->bytes, ret, diag);
	free(maker->data);
	return r;
}

static void refused(struct maker *maker, const char *reason)
{
	struct discover_root *root;
	struct diag diag;

	assert_int_equal(end(maker, &root, &diag), -EINVAL);
	if (!strstr(diag.text, reason))
		fail_msg("\"%s\" does not say \"%s\"", diag.text, reason);
}

static void what_is_written_reads_the_same_and_twice_alike(void **state)
{
	char path[2][64] = { "/tmp/tributary-archive-1-XXXXXX", "/tmp/tributary-archive-2-XXXXXX" }, *data[2];
	struct discover_root *root, *again;
	size_t bytes[2];
	char text[16];
	struct diag diag;

	(void)state;
	assert_int_equal(discover_root_empty(&root), 0);
	assert_int_equal(discover_root_put(root, "b/empty", DISCOVER_FOLDER, NULL, 0), 0);
	assert_int_equal(discover_root_put(root, "b/link", DISCOVER_LINK, "mlx5_core", 9), 0);
	assert_int_equal(discover_root_put(root, "a", DISCOVER_FILE, "text\n", 5), 0);
	for (int i = 0; i < 2; i++) {
		int fd = mkstemp(path[i]);

		assert_true(fd >= 0);
		close(fd);
		assert_int_equal(fact_archive_write(path[i], root), 0);
		data[i] = tree_read(path[i], &bytes[i]);
		assert_non_null(data[i]);
		unlink(path[i]);
	}
	assert_int_equal(bytes[0], bytes[1]);
	assert_memory_equal(data[0], data[1], bytes[0]);
	assert_true(discover_archive_is(data[0], bytes[0]));
	assert_int_equal(discover_archive_read(data[0], bytes[0], &again, &diag), 0);
	assert_int_equal(discover_root_read(again, text, sizeof(text), "a"), 0);
	assert_string_equal(text, "text");
	assert_int_equal(discover_root_link(again, text, sizeof(text), "b/link"), 0);
	assert_string_equal(text, "mlx5_core");
	assert_true(discover_root_exists(again, "b/empty"));
	discover_root_close(root);
	discover_root_close(again);
	free(data[0]);
	free(data[1]);
}

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
	struct discover_root *root;

	(void)state;
	assert_int_equal(discover_root_empty(&root), 0);
	assert_int_equal(fact_archive_write("/dev/full", root), -ENOSPC);
	discover_root_close(root);
}

static void entries_outside_are_refused(void **state)
{
	static const char *const paths[] = { "/etc/passwd", "../up", "sys/../../up" };

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct maker maker;

		begin(&maker, true);
		add(&maker, paths[i], AE_IFREG, NULL, "x", 1);
		refused(&maker, "outside");
	}
}

static void other_kinds_of_entries_are_refused(void **state)
{
	static const unsigned kinds[] = { AE_IFCHR, AE_IFBLK, AE_IFIFO };
	struct maker maker;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		begin(&maker, true);
		add(&maker, "dev/thing", kinds[i], NULL, NULL, 0);
		refused(&maker, "no file, folder or symbolic link");
	}
	begin(&maker, true);
	add(&maker, "hard", AE_IFREG, "tributary-capture", NULL, 0);
	refused(&maker, "no file, folder or symbolic link");
}

static void links_are_text_and_lead_nowhere(void **state)
{
	struct discover_root *root;
	struct maker maker;
	char text[64];
	struct diag diag;

	(void)state;
	begin(&maker, true);
	add(&maker, "sys/link", AE_IFLNK, "/etc", NULL, 0);
	assert_int_equal(end(&maker, &root, &diag), 0);
	assert_true(discover_root_read(root, text, sizeof(text), "sys/link/hostname") < 0);
	assert_int_equal(discover_root_link(root, text, sizeof(text), "sys/link"), 0);
	assert_string_equal(text, "etc");
	discover_root_close(root);
}

static void too_much_is_refused(void **state)
{
	char *block = calloc(1, DISCOVER_CAPTURE_MOST + 1);
	struct maker maker;

	(void)state;
	assert_non_null(block);
	begin(&maker, true);
	add(&maker, "bomb", AE_IFREG, NULL, block, DISCOVER_CAPTURE_MOST + 1);
	refused(&maker, "64 MiB");
	begin(&maker, true);
	for (int i = 0; i < DISCOVER_ENTRIES_MOST; i++) {
		char path[16];

		snprintf(path, sizeof(path), "%d", i);
		add(&maker, path, AE_IFREG, NULL, NULL, 0);
	}
	refused(&maker, "20000 entries");
	free(block);
}

static void what_is_no_capture_says_so(void **state)
{
	struct discover_root *root;
	struct maker maker;
	struct diag diag;

	(void)state;
	begin(&maker, false);
	add(&maker, "hwloc.xml", AE_IFREG, NULL, "x", 1);
	refused(&maker, "none that `tributary capture` made");
	begin(&maker, false);
	add(&maker, "tributary-capture", AE_IFREG, NULL, "version 2\n", 10);
	refused(&maker, "another version");
	assert_int_equal(discover_archive_read("\x1f\x8bgarbage", 9, &root, &diag), -EINVAL);
}

static void a_capture_cut_short_is_refused_with_a_reason(void **state)
{
	struct discover_root *root;
	struct maker maker;
	char noise[4096];
	struct diag diag;

	(void)state;
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (char)(i * i >> 3);
	begin(&maker, true);
	add(&maker, "hwloc.xml", AE_IFREG, NULL, noise, sizeof(noise));
	assert_int_equal(archive_write_close(maker.archive), ARCHIVE_OK);
	archive_write_free(maker.archive);
	for (size_t bytes = 0; bytes < maker.bytes - 8; bytes += 7) {
		memset(&diag, 0, sizeof(diag));
		assert_int_equal(discover_archive_read(maker.data, bytes, &root, &diag), -EINVAL);
		assert_true(strlen(diag.text) > 10);
	}
	assert_int_equal(discover_archive_read(maker.data, maker.bytes, &root, &diag), 0);
	discover_root_close(root);
	free(maker.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_reads_the_same_and_twice_alike),
		cmocka_unit_test(a_file_that_cannot_be_written_is_an_error),
		cmocka_unit_test(entries_outside_are_refused),
		cmocka_unit_test(other_kinds_of_entries_are_refused),
		cmocka_unit_test(links_are_text_and_lead_nowhere),
		cmocka_unit_test(too_much_is_refused),
		cmocka_unit_test(what_is_no_capture_says_so),
		cmocka_unit_test(a_capture_cut_short_is_refused_with_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
