/* Whole files in and out. */
#ifndef TRIBUTARY_COMMAND_FILE_H
#define TRIBUTARY_COMMAND_FILE_H

#include <stddef.h>
#include <stdio.h>

/* *ret is malloc'ed and NUL-terminated; -EFBIG: longer than most bytes. */
int file_read(const char *path, size_t most, char **ret, size_t *ret_bytes);
/*
 * Written to a temporary file beside it and renamed, so that a reader sees the old one or the new one. What is no
 * regular file (a pipe, /dev/stdout) is written directly. -errno.
 */
int file_write(const char *path, const char *text, size_t bytes);
/* The same to path, or to out when path is NULL or "-"; says on stderr what went wrong. Returns an exit status. */
int file_put(const char *path, const char *text, size_t bytes, FILE *out);

#endif
