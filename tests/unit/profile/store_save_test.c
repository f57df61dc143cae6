/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "unit/profile/sample.h"
#include "unit/profile/state_place.h"

static void file_is_named_by_the_fingerprint(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES], expected[STORE_PATH_BYTES];

	state_place_save(place, state_place_machine, 5, NULL, path);
	snprintf(expected, sizeof(expected), "%s/%s.profile", place->directory, place->now.id);
	assert_string_equal(path, expected);
}

static void folders_and_file_may_be_read_by_others_whatever_the_umask(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	mode_t before = umask(0077);
	struct stat st;

	snprintf(place->params.state_dir, sizeof(place->params.state_dir), "%s/a/b//c", place->root);
	state_place_save(place, state_place_machine, 5, NULL, path);
	umask(before);
	assert_int_equal(stat(place->params.state_dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
}

static void failed_write_leaves_the_old_file(void **state)
{
	struct state_place *place = *state;
	struct rlimit before, little = { 100, 100 };
	char path[STORE_PATH_BYTES];
	struct diag why;

	state_place_save(place, state_place_machine, 5, NULL, path);
	/* A full disk, as far as a test may fill one: a write past this limit fails. */
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	little.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	assert_int_equal(state_place_try_save(place, NULL, &why), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_non_null(strstr(why.text, ".profile cannot be written: File too large; TRIBUTARY_STATE_DIR can name"));
	assert_int_equal(tree_count(place->directory, ""), 1); /* no temporary file either */
	assert_int_equal(state_place_find(place, &why), 5);
}

static void folder_that_may_not_be_written_names_the_remedy(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;
	int r;

	state_place_save(place, state_place_machine, 5, NULL, path);
	assert_int_equal(chmod(place->directory, 0555), 0);
	if (!state_place_become_nobody())
		skip();
	r = state_place_try_save(place, NULL, &why);
	state_place_become_root();
	assert_int_equal(r, -EACCES);
	assert_non_null(strstr(why.text, place->directory));
	assert_non_null(strstr(why.text, "Permission denied; TRIBUTARY_STATE_DIR can name another folder"));
	assert_int_equal(tree_count(place->directory, ""), 1);
	assert_int_equal(state_place_find(place, &why), 5);
	assert_int_equal(chmod(place->directory, 0755), 0);
}

static void folder_that_may_not_be_made_says_so(void **state)
{
	struct state_place *place = *state;
	struct diag why;
	int r;

	state_place_save(place, state_place_machine, 5, NULL, (char[STORE_PATH_BYTES]){ "" });
	snprintf(place->params.state_dir, sizeof(place->params.state_dir), "%s/below/it", place->directory);
	if (!state_place_become_nobody())
		skip();
	(void)chmod(place->directory, 0555); /* of whoever is no root and stays who he is */
	r = state_place_try_save(place, NULL, &why);
	state_place_become_root();
	assert_int_equal(chmod(place->directory, 0755), 0);
	assert_int_equal(r, -EACCES);
	assert_non_null(strstr(why.text, "cannot be made: Permission denied; TRIBUTARY_STATE_DIR can name another"));
}

static void folder_that_cannot_be_made_names_the_remedy(void **state)
{
	struct state_place *place = *state;
	struct diag why;

	state_place_write(place->directory, "a file", 6);
	assert_int_equal(state_place_try_save(place, NULL, &why), -ENOTDIR);
	assert_non_null(strstr(why.text, "cannot be made: Not a directory; TRIBUTARY_STATE_DIR can name another"));
	snprintf(place->params.state_dir, sizeof(place->params.state_dir), "%s/below", place->directory);
	assert_int_equal(state_place_try_save(place, NULL, &why), -ENOTDIR);
	assert_non_null(strstr(why.text, "TRIBUTARY_STATE_DIR can name another"));
}

static void folder_of_a_named_file_is_not_made(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;

	snprintf(path, sizeof(path), "%s/nowhere/mine", place->root);
	assert_int_equal(state_place_try_save(place, path, &why), -ENOENT);
	assert_non_null(strstr(why.text, "/nowhere/mine cannot be written: No such file or directory"));
	assert_null(strstr(why.text, "TRIBUTARY_STATE_DIR"));
}

static void file_without_a_folder_is_written_where_the_process_is(void **state)
{
	struct state_place *place = *state;
	char before[STORE_PATH_BYTES], path[STORE_PATH_BYTES];

	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(place->root), 0);
	state_place_save(place, state_place_machine, 5, "mine", path);
	assert_string_equal(path, "mine");
	assert_int_equal(access("mine", R_OK), 0);
	assert_int_equal(tree_count(place->root, ""), 1);
	assert_int_equal(chdir(before), 0);
}

static void links_and_devices_are_not_replaced(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES], target[STORE_PATH_BYTES];
	struct diag why;
	struct stat st;

	snprintf(target, sizeof(target), "%s/target", place->root);
	snprintf(path, sizeof(path), "%s/link", place->root);
	state_place_write(target, "precious", 8);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(state_place_try_save(place, path, &why), -EINVAL);
	assert_non_null(strstr(why.text, "/link is a symbolic link and is not replaced"));
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_size, 8);
	snprintf(path, sizeof(path), "%s/pipe", place->root);
	assert_int_equal(mkfifo(path, 0644), 0);
	assert_int_equal(state_place_try_save(place, path, &why), -EINVAL);
	assert_non_null(strstr(why.text, "/pipe is not a regular file and is not replaced"));
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
	assert_int_equal(tree_count(place->root, ""), 3);
}

static void profile_of_no_machine_needs_a_name(void **state)
{
	struct state_place *place = *state;
	struct profile profile = sample_profile(NULL);
	char path[STORE_PATH_BYTES], named[STORE_PATH_BYTES];
	struct diag why;

	assert_int_equal(store_save(&place->params, &profile, NULL, path, sizeof(path), &why), -EINVAL);
	assert_string_equal(why.text, "the profile belongs to no machine, so its file must be named");
	snprintf(named, sizeof(named), "%s/simulated", place->root);
	assert_int_equal(store_save(&place->params, &profile, named, path, sizeof(path), &why), 0);
	assert_string_equal(path, named);
	profile_fini(&profile);
}

#ifdef TRIBUTARY_FAULTS
static void no_memory_is_an_error_and_loses_nothing(void **state)
{
	struct state_place *place = *state;
	struct profile profile = state_place_profile(state_place_machine, 6), found;
	char path[STORE_PATH_BYTES];
	struct diag why;
	int r = -ENOMEM;

	state_place_save(place, state_place_machine, 5, NULL, path);
	for (unsigned nth = 1; r; nth++) {
		assert_true(nth < 1000);
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		r = store_save(&place->params, &profile, NULL, path, sizeof(path), &why);
		sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
		assert_true(!r || r == -ENOMEM);
		assert_int_equal(state_place_find(place, &why), r ? 5 : 6);
	}
	r = -ENOMEM;
	for (unsigned nth = 1; r; nth++) {
		assert_true(nth < 1000);
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		r = store_find(&place->params, &place->now, &found, path, sizeof(path), &why);
		assert_true(!r || r == -ENOMEM);
	}
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	profile_fini(&found);
	profile_fini(&profile);
}
#endif

#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, state_place_new, state_place_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLACE_TEST(file_is_named_by_the_fingerprint),
		PLACE_TEST(folders_and_file_may_be_read_by_others_whatever_the_umask),
		PLACE_TEST(failed_write_leaves_the_old_file),
		PLACE_TEST(folder_that_may_not_be_written_names_the_remedy),
		PLACE_TEST(folder_that_may_not_be_made_says_so),
		PLACE_TEST(folder_that_cannot_be_made_names_the_remedy),
		PLACE_TEST(folder_of_a_named_file_is_not_made),
		PLACE_TEST(file_without_a_folder_is_written_where_the_process_is),
		PLACE_TEST(links_and_devices_are_not_replaced),
		PLACE_TEST(profile_of_no_machine_needs_a_name),
#ifdef TRIBUTARY_FAULTS
		PLACE_TEST(no_memory_is_an_error_and_loses_nothing),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
