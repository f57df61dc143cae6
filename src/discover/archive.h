/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: a tar, compressed by gzip, of what a root recorded. Somebody else's is read with bounds and stays in memory:
 * nothing is unpacked, no link followed. One thread.
 */
#ifndef TRIBUTARY_DISCOVER_ARCHIVE_H
#define TRIBUTARY_DISCOVER_ARCHIVE_H

#include "base/log.h"
#include "discover/root.h"

#include <stdbool.h>
#include <stdio.h>

/* What is in every capture, at the top. */
#define DISCOVER_ARCHIVE_FIRST "tributary-capture"

/* Whether these are a tar's or a gzip file's first bytes. */
bool discover_archive_is(const void *start, size_t bytes);
/* -EINVAL: damaged, or beyond a capture's bounds, or with a path or a kind of entry that no capture has. */
int discover_archive_read(const void *data, size_t bytes, struct discover_root **ret, struct diag *diag);
/* The same of a folder that a capture was unpacked into. */
int discover_archive_read_folder(const char *path, struct discover_root **ret, struct diag *diag);
/* packed: by gzip. The same entries give the same bytes. -ENOMEM, or as writing said. */
int discover_archive_write(struct discover_root *root, bool packed, FILE *to);

#endif
