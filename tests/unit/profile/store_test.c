/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/profile/sample.h"
#include "unit/profile/state_place.h"

/* -------- where -------- */

static void the_user_s_directory_comes_before_root_s(void **state)
{
	char two[STORE_DIRECTORIES_MAX][STORE_PATH_BYTES];
	struct params params;

	(void)state;
	params_defaults(&params);
	assert_int_equal(store_directories(&params, false, two), 1);
	assert_string_equal(two[0], "/var/lib/tributary");
	snprintf(params.state_home, sizeof(params.state_home), "/home/ada/.local/state");
	assert_int_equal(store_directories(&params, false, two), 2);
	assert_string_equal(two[0], "/home/ada/.local/state/tributary");
	assert_string_equal(two[1], "/var/lib/tributary");
	assert_int_equal(store_directories(&params, true, two), 1);
	assert_string_equal(two[0], "/var/lib/tributary");
	snprintf(params.state_dir, sizeof(params.state_dir), "/srv");
	assert_int_equal(store_directories(&params, false, two), 1);
	assert_string_equal(two[0], "/srv");
}

/* -------- found -------- */

static void what_was_saved_is_found(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;

	state_place_save(place, state_place_machine, 5, NULL, path);
	assert_int_equal(state_place_find(place, &why), 5);
	state_place_save(place, state_place_machine, 6, NULL, path);
	assert_int_equal(state_place_find(place, &why), 6);
	assert_int_equal(tree_count(place->directory, ""), 1);
}

static void file_named_by_the_user_is_taken(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;

	state_place_save(place, state_place_machine, 5, NULL, path);
	snprintf(place->params.profile, sizeof(place->params.profile), "%s/mine", place->root);
	state_place_save(place, state_place_machine, 7, place->params.profile, path);
	assert_string_equal(path, place->params.profile);
	assert_int_equal(state_place_find(place, &why), 7);
}

static void file_of_any_name_is_found_by_what_is_in_it(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES], other[STORE_PATH_BYTES + 8];
	struct diag why;

	state_place_save(place, state_place_foreign, 4, NULL, path);
	state_place_save(place, state_place_machine, 5, NULL, path);
	snprintf(other, sizeof(other), "%s/copied.profile", place->directory);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(state_place_find(place, &why), 5);
}

/* A width that cannot be read just now changes the id, but says nothing. */
static void unknown_value_does_not_hide_a_profile(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;

	state_place_save(place, state_place_machine, 5, NULL, path);
	state_place_is_now(place, "card 0000:19:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n"
				  "card 0000:1b:00.0 kind=nic id=15b3:101d subsystem=15b3:0040 class=020700\n"
				  "cpu vendor=GenuineIntel family=6 model=106 domains=2\n"
				  "driver nvidia version=550.54.15\n");
	assert_int_equal(state_place_find(place, &why), 5);
}

static void profile_by_root_serves_other_users(void **state)
{
	struct state_place *place = *state;
	char two[2][STORE_PATH_BYTES], path[STORE_PATH_BYTES];
	struct profile profile;
	struct diag why = { .text = "untouched" };

	state_place_save(place, state_place_machine, 5, NULL, path);
	snprintf(two[0], sizeof(two[0]), "%s/home", place->root);
	snprintf(two[1], sizeof(two[1]), "%s", place->directory);
	assert_int_equal(store_find_in(two, 2, &place->now, &profile, path, sizeof(path), &why), 0);
	assert_int_equal(profile.date_s, 5);
	assert_string_equal(why.text, "untouched");
	profile_fini(&profile);
}

/* -------- refused, each with its reason -------- */

static void nothing_there_is_said_with_the_folder(void **state)
{
	struct state_place *place = *state;
	struct diag why;

	assert_int_equal(state_place_find(place, &why), -ENOENT);
	assert_non_null(strstr(why.text, "there is no profile in "));
	assert_non_null(strstr(why.text, place->directory));
	assert_int_equal(mkdir(place->directory, 0755), 0);
	assert_int_equal(state_place_find(place, &why), -ENOENT);
	assert_non_null(strstr(why.text, "there is no profile in "));
}

static void named_file_that_is_not_there_is_said(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;

	state_place_save(place, state_place_machine, 5, NULL, path); /* the state directory does not make up for it */
	snprintf(place->params.profile, sizeof(place->params.profile), "%s/mine", place->root);
	assert_int_equal(state_place_find(place, &why), -ENOENT);
	assert_non_null(strstr(why.text, "/mine\" cannot be read: No such file or directory"));
}

static void changed_machine_is_refused_with_what_changed(void **state)
{
	static const struct {
		const char *now, *reason;
	} cases[] = {
		{ "card 0000:1a:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n"
		  "card 0000:1b:00.0 kind=nic id=15b3:101d subsystem=15b3:0040 class=020700\n"
		  "cpu vendor=GenuineIntel family=6 model=106 domains=2\n"
		  "driver nvidia version=550.54.15\n",
		  "the GPU 10de:20b5 was at 0000:19:00.0 and is at 0000:1a:00.0 now" },
		{ "card 0000:19:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n"
		  "cpu vendor=GenuineIntel family=6 model=106 domains=2\n"
		  "driver nvidia version=550.54.15\n",
		  "the network card 15b3:101d at 0000:1b:00.0 is gone" },
		{ "card 0000:18:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n" STATE_PLACE_MACHINE,
		  "there is a new GPU, 10de:20b5, at 0000:18:00.0" },
		{ "card 0000:19:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n"
		  "card 0000:1b:00.0 kind=nic id=15b3:101d subsystem=15b3:0040 class=020700\n"
		  "cpu vendor=GenuineIntel family=6 model=106 domains=2\n"
		  "driver nvidia version=550.54.15\n"
		  "link 0000:19:00.0 lanes=8 most_generation=4\n",
		  "the PCIe link of 0000:19:00.0 had 16 lanes and has 8 now" },
		{ "card 0000:19:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n"
		  "card 0000:1b:00.0 kind=nic id=15b3:101d subsystem=15b3:0040 class=020700\n"
		  "cpu vendor=GenuineIntel family=6 model=106 domains=2\n"
		  "driver nvidia version=560.35.03\n"
		  "link 0000:19:00.0 lanes=16 most_generation=4\n",
		  "the driver nvidia was 550.54.15 and is 560.35.03 now" },
	};
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;

	state_place_save(place, state_place_foreign, 4, NULL, path);
	state_place_save(place, state_place_machine, 5, NULL, path);
	for (unsigned named = 0; named < 2; named++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			state_place_is_now(place, cases[i].now);
			assert_int_equal(state_place_find(place, &why), -ESTALE);
			assert_non_null(strstr(why.text, place->root));
			assert_non_null(strstr(why.text, ".profile is out of date: "));
			assert_non_null(strstr(why.text, cases[i].reason));
		}
		state_place_text(place->params.profile, path);
	}
}

static void newest_of_those_that_are_out_of_date_is_named(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES], newest[STORE_PATH_BYTES];
	struct diag why;

	state_place_is_now(place, "card 0000:19:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n"
				  "card 0000:1b:00.0 kind=nic id=15b3:101d subsystem=15b3:0040 class=020700\n"
				  "cpu vendor=GenuineIntel family=6 model=106 domains=2\n"
				  "driver nvidia version=560.35.03\n"
				  "link 0000:19:00.0 lanes=16 most_generation=4\n");
	state_place_save(place, state_place_machine, 5, NULL, path);
	snprintf(newest, sizeof(newest), "%s/newest.profile", place->directory);
	state_place_save(place, state_place_machine, 6, newest, path);
	snprintf(path, sizeof(path), "%s/another.profile", place->directory);
	state_place_save(place, state_place_machine, 4, path, path);
	assert_int_equal(state_place_find(place, &why), -ESTALE);
	assert_non_null(strstr(why.text, "/newest.profile is out of date"));
}

static void profile_of_another_machine_is_refused(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;

	state_place_save(place, state_place_foreign, 5, NULL, path);
	assert_int_equal(state_place_find(place, &why), -EXDEV);
	assert_non_null(strstr(why.text, ".profile does not belong here: it is of another machine"));
	state_place_text(place->params.profile, path);
	assert_int_equal(state_place_find(place, &why), -EXDEV);
	assert_non_null(strstr(why.text, ".profile does not belong here: it is of another machine"));
}

static void damaged_profile_is_refused(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;
	char *text;

	state_place_save(place, state_place_machine, 5, NULL, path);
	text = tree_read(path, NULL);
	state_place_write(path, text, strlen(text) - 30);
	assert_int_equal(state_place_find(place, &why), -EBADMSG);
	assert_non_null(strstr(why.text, ".profile cannot be used: it is cut off"));
	text[30]++;
	state_place_write(path, text, strlen(text));
	assert_int_equal(state_place_find(place, &why), -EBADMSG);
	assert_non_null(strstr(why.text, ".profile cannot be used: it is damaged"));
	state_place_write(path, "", 0);
	assert_int_equal(state_place_find(place, &why), -EBADMSG);
	assert_non_null(strstr(why.text, ".profile cannot be used: it is empty"));
	free(text);
}

static void newer_profile_is_refused(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;

	state_place_save(place, state_place_machine, 5, NULL, path);
	state_place_write(path, "tributary-profile 3\nanything", 28);
	assert_int_equal(state_place_find(place, &why), -EPROTONOSUPPORT);
	assert_non_null(strstr(why.text, ".profile cannot be used: it is of version 3, "));
}

static void wrong_line_is_refused_with_its_number(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES], *text, *changed, *sealed;
	struct diag why;

	state_place_save(place, state_place_machine, 5, NULL, path);
	text = tree_read(path, NULL);
	changed = sample_replaced(text, "machine cpu", "machine disk");
	sealed = sample_resealed(changed);
	state_place_write(path, sealed, strlen(sealed));
	assert_int_equal(state_place_find(place, &why), -EINVAL);
	assert_int_equal(why.line, 6);
	assert_non_null(strstr(why.text, ".profile cannot be used: line 6: "));
	free(text);
	free(changed);
	free(sealed);
}

static void damaged_profile_does_not_hide_one_elsewhere(void **state)
{
	struct state_place *place = *state;
	char two[2][STORE_PATH_BYTES], path[STORE_PATH_BYTES];
	struct profile profile;
	struct diag why;

	state_place_save(place, state_place_machine, 5, NULL, path);
	snprintf(two[1], sizeof(two[1]), "%s", place->directory);
	snprintf(two[0], sizeof(two[0]), "%s/home", place->root);
	state_place_text(place->params.state_dir, two[0]);
	state_place_save(place, state_place_machine, 6, NULL, path);
	state_place_write(path, "tributary-profile 1\n", 20);
	assert_int_equal(store_find_in(two, 2, &place->now, &profile, path, sizeof(path), &why), 0);
	assert_int_equal(profile.date_s, 5);
	profile_fini(&profile);
	/* When the other does not help either, what is wrong with this machine's own is said. */
	state_place_is_now(place, state_place_foreign);
	assert_int_equal(store_find_in(two, 2, &place->now, &profile, path, sizeof(path), &why), -EXDEV);
	state_place_is_now(place, state_place_machine);
	assert_int_equal(store_find_in(two, 1, &place->now, &profile, path, sizeof(path), &why), -EBADMSG);
	snprintf(two[1], sizeof(two[1]), "%s/nowhere", place->root);
	assert_int_equal(store_find_in(two, 2, &place->now, &profile, path, sizeof(path), &why), -EBADMSG);
	assert_non_null(strstr(why.text, "/home/"));
}

/* Of two folders without one that fits: the one that says more, and of the same the first. */
static void what_says_most_is_said_of_two_folders(void **state)
{
	enum { NONE, FOREIGN, BAD, KINDS };
	static const int errors[KINDS] = { -ENOENT, -EXDEV, -EBADMSG };
	struct state_place *place = *state;
	char two[2][STORE_PATH_BYTES], path[STORE_PATH_BYTES];
	struct profile profile;
	struct diag why;

	for (int pair = 0; pair < KINDS * KINDS; pair++) {
		const int kinds[2] = { pair / KINDS, pair % KINDS };
		int said = kinds[1] > kinds[0];

		for (int i = 0; i < 2; i++) {
			snprintf(two[i], sizeof(two[i]), "%s/%d-%d", place->root, pair, i);
			state_place_text(place->params.state_dir, two[i]);
			if (kinds[i] != NONE)
				state_place_save(place, kinds[i] == BAD ? state_place_machine : state_place_foreign, 5,
						 NULL, path);
			if (kinds[i] == BAD)
				state_place_write(path, "tributary-profile 1\n", 20);
		}
		assert_int_equal(store_find_in(two, 2, &place->now, &profile, path, sizeof(path), &why),
				 errors[kinds[said]]);
		assert_non_null(strstr(why.text, two[said]));
	}
}

static void only_regular_files_are_read(void **state)
{
	struct state_place *place = *state;
	struct diag why;

	snprintf(place->params.profile, sizeof(place->params.profile), "%s/thing", place->root);
	assert_int_equal(mkfifo(place->params.profile, 0644), 0);
	assert_int_equal(state_place_find(place, &why), -EINVAL);
	assert_non_null(strstr(why.text, "/thing\" cannot be read: it is not a regular file"));
	assert_int_equal(unlink(place->params.profile), 0);
	assert_int_equal(mkdir(place->params.profile, 0755), 0);
	assert_int_equal(state_place_find(place, &why), -EINVAL);
	assert_non_null(strstr(why.text, "/thing\" cannot be read: it is a folder"));
	snprintf(place->params.profile, sizeof(place->params.profile), "/dev/zero");
	assert_int_equal(state_place_find(place, &why), -EINVAL);
}

static void huge_file_is_not_read(void **state)
{
	struct state_place *place = *state;
	struct diag why;

	snprintf(place->params.profile, sizeof(place->params.profile), "%s/huge", place->root);
	state_place_write(place->params.profile, "tributary-profile 1\n", 20);
	assert_int_equal(truncate(place->params.profile, 4 * 1024 * 1024), 0);
	assert_int_equal(state_place_find(place, &why), -EBADMSG);
	assert_int_equal(truncate(place->params.profile, 4 * 1024 * 1024 + 1), 0);
	assert_int_equal(state_place_find(place, &why), -EFBIG);
	assert_non_null(strstr(why.text, "/huge\" cannot be read: it is longer than 4 MiB"));
}

static void unreadable_file_says_why(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;

	state_place_save(place, state_place_machine, 5, NULL, path);
	assert_int_equal(chmod(path, 0), 0);
	if (!state_place_become_nobody())
		skip();
	assert_int_equal(state_place_find(place, &why), -EACCES);
	assert_non_null(strstr(why.text, ".profile\" cannot be read: Permission denied"));
	state_place_become_root();
	assert_int_equal(chmod(place->directory, 0), 0);
	assert_true(state_place_become_nobody());
	assert_int_equal(state_place_find(place, &why), -EACCES);
	state_place_become_root();
	assert_int_equal(chmod(place->directory, 0755), 0);
}

static void other_files_in_the_folder_are_passed_over(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES];
	struct diag why;

	assert_int_equal(mkdir(place->directory, 0755), 0);
	snprintf(path, sizeof(path), "%s/notes.txt", place->directory);
	state_place_write(path, "x", 1);
	snprintf(path, sizeof(path), "%s/.profile", place->directory);
	state_place_write(path, "x", 1);
	snprintf(path, sizeof(path), "%s/x.profile", place->directory);
	state_place_write(path, "x", 1);
	snprintf(path, sizeof(path), "%s/y.profile", place->directory);
	state_place_write(path, "", 0);
	assert_int_equal(state_place_find(place, &why), -ENOENT);
	assert_non_null(strstr(why.text, "there is no profile in "));
	state_place_save(place, state_place_machine, 5, NULL, path);
	state_place_is_now(
		place,
		"card 0000:18:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n" STATE_PLACE_MACHINE);
	assert_int_equal(state_place_find(place, &why), -ESTALE);
}

static void path_that_does_not_fit_is_an_error_and_no_cut(void **state)
{
	struct state_place *place = *state;
	char path[STORE_PATH_BYTES], little[8] = "before";
	struct profile profile;
	struct diag why = { 0 };

	state_place_save(place, state_place_machine, 5, NULL, path);
	assert_int_equal(store_find(&place->params, &place->now, &profile, little, sizeof(little), &why),
			 -ENAMETOOLONG);
	assert_non_null(strstr(why.text, "too long"));
	assert_string_equal(little, "before");
	profile = state_place_profile(state_place_machine, 6);
	why.text[0] = '\0';
	assert_int_equal(store_save(&place->params, &profile, NULL, little, sizeof(little), &why), -ENAMETOOLONG);
	assert_non_null(strstr(why.text, "too long"));
	assert_string_equal(little, "before");
	profile_fini(&profile);
	assert_int_equal(state_place_find(place, &why), 5); /* and nothing was replaced */
}

#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, state_place_new, state_place_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_user_s_directory_comes_before_root_s),
		PLACE_TEST(what_was_saved_is_found),
		PLACE_TEST(file_named_by_the_user_is_taken),
		PLACE_TEST(file_of_any_name_is_found_by_what_is_in_it),
		PLACE_TEST(unknown_value_does_not_hide_a_profile),
		PLACE_TEST(profile_by_root_serves_other_users),
		PLACE_TEST(nothing_there_is_said_with_the_folder),
		PLACE_TEST(named_file_that_is_not_there_is_said),
		PLACE_TEST(changed_machine_is_refused_with_what_changed),
		PLACE_TEST(newest_of_those_that_are_out_of_date_is_named),
		PLACE_TEST(profile_of_another_machine_is_refused),
		PLACE_TEST(damaged_profile_is_refused),
		PLACE_TEST(newer_profile_is_refused),
		PLACE_TEST(wrong_line_is_refused_with_its_number),
		PLACE_TEST(damaged_profile_does_not_hide_one_elsewhere),
		PLACE_TEST(what_says_most_is_said_of_two_folders),
		PLACE_TEST(only_regular_files_are_read),
		PLACE_TEST(huge_file_is_not_read),
		PLACE_TEST(unreadable_file_says_why),
		PLACE_TEST(other_files_in_the_folder_are_passed_over),
		PLACE_TEST(path_that_does_not_fit_is_an_error_and_no_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
