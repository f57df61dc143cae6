/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recent jobs in the state directory: text that the plugin adds at the end of each process, in one file for each host,
 * named by the host's name. A file that is full becomes the one before. Files: jobs-NN, jobs-NN.old, NN two digits, so
 * that a home of many hosts is not filled; two hosts may share a file.
 */
#ifndef TRIBUTARY_PROFILE_STORE_JOBS_H
#define TRIBUTARY_PROFILE_STORE_JOBS_H

#include <stddef.h>

struct params;

enum { STORE_JOBS_BYTES = 1 << 17, STORE_JOBS_FILES = 64 };

/*
 * One write at the end of the file, which the kernel does not mix with those of other processes of the host. -ENOENT: the
 * user has no home; others as the system said. Any thread.
 */
int store_jobs_add(const struct params *params, const char *host, const char *text, size_t bytes);
/* Calls `each` with the text of every file; -ENOENT: no state directory. */
int store_jobs_read(const struct params *params, void (*each)(void *arg, const char *text), void *arg);

#endif
