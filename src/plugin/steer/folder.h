/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder tributary-UID in shared memory, and plain files in it. It comes with the first process and goes with the
 * last: rmdir fails while somebody has a file there, and an opener that finds its folder without a name comes again.
 * Errors: -errno. Any thread.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_FOLDER_H
#define TRIBUTARY_PLUGIN_STEER_FOLDER_H

#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>

enum { STEER_FOLDER_NAME_BYTES = 96 }; /* longest name of a file, with its NUL */

/* "KIND-ID" */
void steer_folder_name(char kind, const char *id, char name[static STEER_FOLDER_NAME_BYTES]);

/* Its descriptor; made if it is not there. -EPERM: somebody else's, or open to others. ret_path: its name. */
int steer_folder_open(const char *shared_folder, char *ret_path, size_t ret_path_bytes, struct diag *diag);
/* False: it, or a file, was removed. */
bool steer_folder_has_name(int fd);
/* A new file with room for so many bytes: its descriptor. */
int steer_folder_make(int directory, const char *name, size_t bytes);

#endif
