/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files in and out. "-" is standard input, or where results go. */
#ifndef TRIBUTARY_COMMAND_FILE_H
#define TRIBUTARY_COMMAND_FILE_H

#include <stddef.h>
#include <stdio.h>

/*
 * *ret is NUL-terminated, and freed by free(). Says on stderr what went wrong, and the hint (or NULL) where there is no such
 * file. An exit status.
 */
int file_load(const char *path, size_t most, const char *hint, char **ret, size_t *ret_bytes);
/* "PATH" cannot be read: REASON. Returns COMMAND_FAILED. */
int file_unreadable(const char *path, int error, const char *hint);
/*
 * Written to a temporary file beside it and renamed, so that a reader sees the old one or the new one. What is no
 * regular file (a pipe, /dev/stdout) is written directly. -errno.
 */
int file_write(const char *path, const char *text, size_t bytes);
/* Whether file_write could, as far as can be told without writing. path NULL or "-": 0. -errno. */
int file_check(const char *path);
/* The same, before work whose result would be lost; says on stderr what is wrong. Returns an exit status. */
int file_check_put(const char *path);
/* file_write to path, or to out when path is NULL or "-"; says on stderr what went wrong. Returns an exit status. */
int file_put(const char *path, const char *text, size_t bytes, FILE *out);
/* The same with what draw(arg) writes to `to`; it returns -errno. failure is said then, "the picture cannot be drawn". */
int file_put_made(const char *path, const char *failure, int (*draw)(const void *arg, FILE *to), const void *arg,
		  FILE *out);

#endif
