/* SPDX-License-Identifier: Apache-2.0 */
/* What root.c (entries and names) and root_read.c (reading) share. */
#ifndef TRIBUTARY_DISCOVER_ROOT_INTERNAL_H
#define TRIBUTARY_DISCOVER_ROOT_INTERNAL_H

#include "discover/root.h"

#include <limits.h>

struct discover_pairing {
	char *real;
	char shown[64];
};

struct discover_root {
	int fd; /* -1: in memory */
	char *folder;
	bool here, record;
	struct discover_entry *entries;
	size_t count, bytes;
	bool sorted;
	uint64_t next_place;
	struct discover_pairing *aliases, *identities;
	size_t alias_count, identity_count;
};

/* In order of path, each once. */
void discover_root_sort(struct discover_root *root);
/* NULL: none. Valid until something is put. */
struct discover_entry *discover_root_find(struct discover_root *root, const char *path);
bool discover_root_clean_path(const char *path);
/* The path on this machine: each part that is an alias is replaced by what it stands for. */
int discover_root_real_path(const struct discover_root *root, const char *path, char real[static PATH_MAX]);
/* Adds `real` to a list; NULL: no memory. */
struct discover_pairing *discover_root_pair(struct discover_pairing **at, size_t *count, const char *real);

#endif
