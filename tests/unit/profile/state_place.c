/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/profile/state_place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/profile/sample.h"
#include "support/tree.h"

enum { NOBODY = 65534 };

const char state_place_machine[] = STATE_PLACE_MACHINE,
	   state_place_foreign[] = "cpu vendor=AuthenticAMD family=25 model=1 domains=8\n";

int state_place_new(void **state)
{
	struct state_place *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	snprintf(place->root, sizeof(place->root), "/tmp/tributary-store-XXXXXX");
	assert_non_null(mkdtemp(place->root));
	assert_int_equal(chmod(place->root, 0755), 0);
	snprintf(place->directory, sizeof(place->directory), "%s/state", place->root);
	params_defaults(&place->params);
	snprintf(place->params.state_dir, sizeof(place->params.state_dir), "%s", place->directory);
	assert_int_equal(fingerprint_of_text(state_place_machine, strlen(state_place_machine), &place->now), 0);
	*state = place;
	return 0;
}

int state_place_free(void **state)
{
	struct state_place *place = *state;

	tree_remove(place->root);
	fingerprint_fini(&place->now);
	free(place);
	return 0;
}

void state_place_text(char text[static PARAMS_STRING_BYTES], const char *value)
{
	assert_true(strlen(value) < PARAMS_STRING_BYTES);
	memcpy(text, value, strlen(value) + 1);
}

struct profile state_place_profile(const char *text, int64_t date_s)
{
	struct fingerprint fingerprint;
	struct profile profile;

	assert_int_equal(fingerprint_of_text(text, strlen(text), &fingerprint), 0);
	profile = sample_profile(&fingerprint);
	profile.date_s = date_s;
	fingerprint_fini(&fingerprint);
	return profile;
}

void state_place_save(struct state_place *place, const char *text, int64_t date_s, const char *path, char *ret_path)
{
	struct profile profile = state_place_profile(text, date_s);
	struct diag why = { .text = "untouched" };

	errno = ENOTTY;
	assert_int_equal(store_save(&place->params, &profile, path, ret_path, STORE_PATH_BYTES, &why), 0);
	assert_int_equal(errno, ENOTTY);
	assert_string_equal(why.text, "untouched");
	profile_fini(&profile);
}

int state_place_try_save(struct state_place *place, const char *path, struct diag *why)
{
	struct profile profile = state_place_profile(state_place_machine, 99);
	char ret_path[STORE_PATH_BYTES] = "before";
	int r = store_save(&place->params, &profile, path, ret_path, sizeof(ret_path), why);

	if (r < 0)
		assert_string_equal(ret_path, "before");
	profile_fini(&profile);
	return r;
}

int64_t state_place_find(struct state_place *place, struct diag *why)
{
	char path[STORE_PATH_BYTES] = "before";
	struct profile profile;
	int64_t date_s;
	int r;

	*why = (struct diag){ .text = "untouched" };
	errno = ENOTTY;
	r = store_find(&place->params, &place->now, &profile, path, sizeof(path), why);
	assert_int_equal(errno, ENOTTY);
	if (r < 0) {
		assert_string_equal(path, "before");
		assert_string_not_equal(why->text, "untouched");
		return r;
	}
	assert_string_equal(why->text, "untouched");
	assert_int_equal(access(path, R_OK), 0);
	date_s = profile.date_s;
	profile_fini(&profile);
	return date_s;
}

void state_place_is_now(struct state_place *place, const char *text)
{
	fingerprint_fini(&place->now);
	assert_int_equal(fingerprint_of_text(text, strlen(text), &place->now), 0);
}

void state_place_write(const char *path, const char *text, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, bytes), bytes);
	close(fd);
}

bool state_place_become_nobody(void)
{
	return geteuid() != 0 || seteuid(NOBODY) == 0;
}

void state_place_become_root(void)
{
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
}
