/* SPDX-License-Identifier: Apache-2.0 */
/* A text file, bounded, from a path that somebody gave. The plugin reads such files, so nothing but libc is needed. */
#ifndef TRIBUTARY_BASE_TEXT_FILE_H
#define TRIBUTARY_BASE_TEXT_FILE_H

#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a file is longer than limit_bytes decides whether it is one of its kind ("profile"; NULL: any); of it at most `most`
 * bytes are read. *ret is NUL-terminated and freed by sys_free. -ENOENT and others as the system said, -EINVAL: not a
 * regular file, or UTF-16, -EFBIG; why in *why, one sentence. A byte-order mark of UTF-8, which editors of other systems
 * write, is left out, unless as_is: NCCL reads it as a part of the text.
 */
struct text_file {
	const char *kind;
	size_t limit_bytes;
	/*
	 * A pipe, a socket, a terminal or /dev/null may be read, too, and "-" is standard input: they may keep the caller waiting. No
	 * other device, some of which never end.
	 */
	bool stream;
	bool as_is;
};
/* The open file, not read yet, or the errors above; why, without the path. */
enum { TEXT_FILE_BECAUSE_BYTES = 128 };
int text_file_open(const struct text_file *file, const char *path, char because[static TEXT_FILE_BECAUSE_BYTES]);
int text_file_read(const struct text_file *file, const char *path, size_t most, char **ret, size_t *ret_bytes,
		   struct diag *why);

/*
 * A small file of /proc or /sys below that folder, no link, without the white space at its end. What does not fit gives its
 * beginning and -EOVERFLOW: a part of a value is no value. -EINVAL: there are NULs in it; others as the system said (a
 * `speed` whose link is down: -EINVAL, too).
 */
int text_file_value(int folder, const char *path, char *text, size_t room);

/* A path in a sentence, of which the beginning may not fit: "%s%s" with both. */
const char *text_file_lead(const char *path);
const char *text_file_shown(const char *path);

#endif
