/* SPDX-License-Identifier: Apache-2.0 */
/* What of the store does not ask who the process is, so that tests can be anybody. */
#ifndef TRIBUTARY_PROFILE_STORE_PLACES_H
#define TRIBUTARY_PROFILE_STORE_PLACES_H

#include "base/state_dir.h"
#include "profile/store.h"

#include <stdbool.h>

enum {
	STORE_PATH_BYTES = STATE_DIR_PATH_BYTES,
	STORE_DIRECTORIES_MAX = 2,
	STORE_FILES_MAX = 1000, /* looked at in one folder */
};

/*
 * Where to look, in order: the state directory, and unless it was named, for other users also root's, since a profile
 * is usually measured by root. Returns how many.
 */
size_t store_directories(const struct params *params, bool root, char ret[][STORE_PATH_BYTES]);

/* store_find in these folders: of all that is found the first that fits, else the error that says most. */
int store_find_in(char directories[][STORE_PATH_BYTES], size_t count, const struct fingerprint *now,
		  struct profile *ret, char *ret_path, size_t ret_path_bytes, struct diag *why);

#endif
