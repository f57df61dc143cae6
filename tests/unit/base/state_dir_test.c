/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/params.h"
#include "base/state_dir.h"
#include "support/tree.h"

static void directory_is_the_one_named_else_root_s_else_the_user_s(void **state)
{
	char directory[STATE_DIR_PATH_BYTES] = "before";
	struct params params;

	(void)state;
	params_defaults(&params);
	assert_int_equal(state_dir_path_of(&params, true, directory, sizeof(directory)), 0);
	assert_string_equal(directory, "/var/lib/tributary");
	assert_int_equal(state_dir_path_of(&params, false, directory, sizeof(directory)), -ENOENT);
	snprintf(params.state_home, sizeof(params.state_home), "/home/ada/.local/state");
	assert_int_equal(state_dir_path_of(&params, false, directory, sizeof(directory)), 0);
	assert_string_equal(directory, "/home/ada/.local/state/tributary");
	snprintf(params.state_dir, sizeof(params.state_dir), "/srv");
	assert_int_equal(state_dir_path(&params, directory, sizeof(directory)), 0);
	assert_string_equal(directory, "/srv");
	assert_int_equal(state_dir_path(&params, directory, 4), -ENAMETOOLONG);
	assert_string_equal(directory, "/srv");
}

static void a_file_is_replaced_whole_with_its_mode(void **state)
{
	char root[] = "/tmp/tributary-state-XXXXXX", directory[STATE_DIR_PATH_BYTES], path[STATE_DIR_PATH_BYTES + 8];
	struct params params;
	struct diag why;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(root));
	params_defaults(&params);
	snprintf(params.state_dir, sizeof(params.state_dir), "%s/a/b", root);
	assert_int_equal(state_dir_make(&params, directory, &why), 0);
	snprintf(path, sizeof(path), "%s/file", directory);
	assert_int_equal(state_dir_replace(path, "longer", 6, 0644), 0);
	assert_int_equal(state_dir_replace(path, "abc", 3, 0600), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 3);
	tree_remove(root);
}

/* A process may end while it writes; one that still writes is not disturbed. */
static void what_was_abandoned_is_removed(void **state)
{
	static const struct {
		const char *name;
		int age_s;
		bool goes;
	} files[] = {
		{ ".file.aB3dE6", 1000, true },    { ".file.zzzzzz", 10, false },  { ".file.aB3dE67", 1000, false },
		{ ".others.aB3dE6", 1000, false }, { "file.aB3dE6", 1000, false }, { ".filed.aB3dE", 1000, false },
	};
	char root[] = "/tmp/tributary-state-XXXXXX", path[STATE_DIR_PATH_BYTES];

	(void)state;
	assert_non_null(mkdtemp(root));
	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const struct timespec then[2] = { { .tv_sec = time(NULL) - files[i].age_s },
						  { .tv_sec = time(NULL) - files[i].age_s } };

		snprintf(path, sizeof(path), "%s/%s", root, files[i].name);
		assert_int_equal(close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
		assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
	}
	snprintf(path, sizeof(path), "%s/file", root);
	assert_int_equal(state_dir_replace(path, "abc", 3, 0600), 0);
	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, files[i].name);
		assert_int_equal(access(path, F_OK) < 0, files[i].goes);
	}
	tree_remove(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(directory_is_the_one_named_else_root_s_else_the_user_s),
		cmocka_unit_test(a_file_is_replaced_whole_with_its_mode),
		cmocka_unit_test(what_was_abandoned_is_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
