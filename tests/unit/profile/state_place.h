/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state directory in a temporary folder, and a machine that looks for its profile there. Every function fails the
 * running test when it cannot do its work. One thread.
 */
#ifndef TRIBUTARY_TESTS_UNIT_PROFILE_STATE_PLACE_H
#define TRIBUTARY_TESTS_UNIT_PROFILE_STATE_PLACE_H

#include "base/params.h"
#include "profile/store_places.h"
#include "support/tree.h"

#define STATE_PLACE_MACHINE                                                          \
	"card 0000:19:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n" \
	"card 0000:1b:00.0 kind=nic id=15b3:101d subsystem=15b3:0040 class=020700\n" \
	"cpu vendor=GenuineIntel family=6 model=106 domains=2\n"                     \
	"driver nvidia version=550.54.15\n"                                          \
	"link 0000:19:00.0 lanes=16 most_generation=4\n"

extern const char state_place_machine[], state_place_foreign[]; /* of two machines */

struct state_place {
	char root[64], directory[80];
	struct params params;
	struct fingerprint now;
};

/* cmocka setup and teardown: *state is the place, its directory is not there yet. */
int state_place_new(void **state);
int state_place_free(void **state);

void state_place_text(char text[static PARAMS_STRING_BYTES], const char *value);
/* The machine is this one now. */
void state_place_is_now(struct state_place *place, const char *text);
struct profile state_place_profile(const char *text, int64_t date_s);
/* Saves in the state directory (path NULL), or under a path; ret_path has STORE_PATH_BYTES. */
void state_place_save(struct state_place *place, const char *text, int64_t date_s, const char *path, char *ret_path);
int state_place_try_save(struct state_place *place, const char *path, struct diag *why);
/* The date of what is found, or the error. */
int64_t state_place_find(struct state_place *place, struct diag *why);

void state_place_write(const char *path, const char *text, size_t bytes);

/* As another user, since root may do anything. False: this process cannot become one. */
bool state_place_become_nobody(void);
void state_place_become_root(void);

#endif
