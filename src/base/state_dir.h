/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory, and how files are replaced in it. Blocks as files do. Any thread; none of it keeps errno. */
#ifndef TRIBUTARY_BASE_STATE_DIR_H
#define TRIBUTARY_BASE_STATE_DIR_H

#include "base/log.h"

struct params;

#define STATE_DIR_OF_ROOT "/var/lib/tributary"
enum { STATE_DIR_PATH_BYTES = 1024 };

/*
 * TRIBUTARY_STATE_DIR, else /var/lib/tributary for root, else $XDG_STATE_HOME/tributary, else ~/.local/state/tributary. -ENOENT:
 * the user has no home; -ENAMETOOLONG.
 */
int state_dir_path(const struct params *params, char *ret, size_t ret_bytes);
/* The same for root or for another user, so that tests can be anybody. */
int state_dir_path_of(const struct params *params, bool root, char *ret, size_t ret_bytes);
/* Every folder of the path that is not there. */
int state_dir_make_folders(const char *directory);
/* state_dir_path, made with all folders above it if it is not there. */
int state_dir_make(const struct params *params, char directory[static STATE_DIR_PATH_BYTES], struct diag *why);
/* Whoever reads, at any moment or after a crash, sees the old file or this one. */
int state_dir_replace(const char *path, const void *data, size_t bytes, unsigned mode);

#endif
