/* SPDX-License-Identifier: Apache-2.0 */
#include "command/command.h"
#include "command/file.h"

#include "program.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void file_is_replaced_whole_and_nothing_is_left_beside_it(void **state)
{
	char path[256], *text;
	struct stat status;
	size_t bytes, files;

	(void)state;
	snprintf(path, sizeof(path), "%s/whole", program_folder());
	assert_int_equal(file_write(path, "first", 5), 0);
	files = tree_count(program_folder(), "");
	assert_int_equal(file_write(path, "second text", 11), 0);
	assert_int_equal(tree_count(program_folder(), ""), files);
	assert_int_equal(file_load(path, 100, NULL, &text, &bytes), COMMAND_OK);
	assert_int_equal(bytes, 11);
	assert_string_equal(text, "second text");
	free(text);
	assert_int_equal(stat(path, &status), 0);
	/* As any new file: others may read it, unless the umask says otherwise. */
	assert_int_equal(status.st_mode & 0600, 0600);
}

static void a_file_keeps_its_rights_and_a_link_stays_one(void **state)
{
	char path[256], link[256], *text;
	struct stat status;
	size_t bytes;

	(void)state;
	snprintf(path, sizeof(path), "%s/private", program_folder());
	snprintf(link, sizeof(link), "%s/link", program_folder());
	assert_int_equal(file_write(path, "first", 5), 0);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(symlink("private", link), 0);
	assert_int_equal(file_write(link, "second", 6), 0);
	assert_int_equal(lstat(link, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_int_equal(file_load(path, 100, NULL, &text, &bytes), COMMAND_OK);
	assert_string_equal(text, "second");
	free(text);
}

/* What file_write would say, without a trace. */
static void a_check_changes_nothing(void **state)
{
	char path[256], *text;
	size_t bytes, files;

	(void)state;
	snprintf(path, sizeof(path), "%s/checked", program_folder());
	files = tree_count(program_folder(), "");
	assert_int_equal(file_check(path), 0);
	assert_int_equal(tree_count(program_folder(), ""), files);
	assert_int_equal(file_write(path, "kept", 4), 0);
	assert_int_equal(file_check(path), 0);
	assert_int_equal(file_load(path, 100, NULL, &text, &bytes), COMMAND_OK);
	assert_string_equal(text, "kept");
	free(text);
	assert_int_equal(file_check(NULL), 0);
	assert_int_equal(file_check("-"), 0);
	assert_int_equal(file_check("/dev/null"), 0);
	assert_int_equal(file_check(program_folder()), -EISDIR);
	assert_int_equal(file_check("/proc/none"), file_write("/proc/none", "x", 1));
	strcat(path, "/below");
	assert_int_equal(file_check(path), -ENOTDIR);
	snprintf(path, sizeof(path), "%s/none/below", program_folder());
	assert_int_equal(file_check(path), -ENOENT);
	snprintf(path, sizeof(path), "%s/slash/", program_folder());
	assert_int_equal(file_check(path), -EISDIR);
}

static void failed_write_leaves_the_old_file(void **state)
{
	char path[256], folder[256], *text;
	size_t bytes;

	(void)state;
	snprintf(folder, sizeof(folder), "%s/folder", program_folder());
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_true(file_write(folder, "x", 1) < 0);
	snprintf(path, sizeof(path), "%s/none/file", program_folder());
	assert_int_equal(file_write(path, "x", 1), -ENOENT);
	assert_int_equal(file_write("/dev/full", "x", 1), -ENOSPC);
	assert_int_equal(file_load("/dev/zero", 1 << 20, NULL, &text, &bytes), COMMAND_FAILED);
	assert_int_equal(file_load(path, 10, NULL, &text, &bytes), COMMAND_FAILED);
}

static void devices_and_pipes_are_written_directly(void **state)
{
	(void)state;
	assert_int_equal(file_write("/dev/null", "x", 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_is_replaced_whole_and_nothing_is_left_beside_it),
		cmocka_unit_test(a_file_keeps_its_rights_and_a_link_stays_one),
		cmocka_unit_test(a_check_changes_nothing),
		cmocka_unit_test(failed_write_leaves_the_old_file),
		cmocka_unit_test(devices_and_pipes_are_written_directly),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
