/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"
#include "discover/root_internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ADDRESS_DIGITS = 12 }; /* so many hexadecimal digits in a row are taken for an address */

/* ----------------------------------------------------------------------------------------------------- open and close */

static int make(struct discover_root **ret)
{
	struct discover_root *root = calloc(1, sizeof(*root));

	if (!root)
		return -ENOMEM;
	root->fd = -1;
	root->sorted = true;
	*ret = root;
	return 0;
}

int discover_root_empty(struct discover_root **ret)
{
	return make(ret);
}

int discover_root_open(const char *folder, bool record, struct discover_root **ret)
{
	struct discover_root *root;
	int r = make(&root);

	if (r < 0)
		return r;
	root->here = !*folder;
	root->record = record;
	root->folder = strdup(folder);
	if (!root->folder) {
		r = -ENOMEM;
		goto fail;
	}
	root->fd = open(*folder ? folder : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root->fd < 0) {
		r = -errno;
		goto fail;
	}
	*ret = root;
	return 0;
fail:
	discover_root_close(root);
	return r;
}

static void free_pairings(struct discover_pairing *at, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(at[i].real);
	free(at);
}

void discover_root_close(struct discover_root *root)
{
	if (!root)
		return;
	for (size_t i = 0; i < root->count; i++) {
		free(root->entries[i].path);
		free(root->entries[i].data);
	}
	free(root->entries);
	free_pairings(root->aliases, root->alias_count);
	free_pairings(root->identities, root->identity_count);
	free(root->folder);
	if (root->fd >= 0)
		close(root->fd);
	free(root);
}

const char *discover_root_folder(const struct discover_root *root)
{
	return root->folder;
}

/* ------------------------------------------------------------------------------------------------------------- entries */

static int compare_entries(const void *a, const void *b)
{
	const struct discover_entry *x = a, *y = b;
	int order = strcmp(x->path, y->path);

	return order ? order : (x->place > y->place) - (x->place < y->place);
}

static void drop(struct discover_root *root, struct discover_entry *entry)
{
	root->bytes -= entry->bytes;
	free(entry->path);
	free(entry->data);
	*entry = (struct discover_entry){ .path = NULL };
}

/* In order of path; of several entries of one path the last stays, but a folder never replaces what has bytes. */
void discover_root_sort(struct discover_root *root)
{
	size_t last = 0, kept = 0;

	if (root->sorted)
		return;
	qsort(root->entries, root->count, sizeof(*root->entries), compare_entries);
	for (size_t i = 1; i < root->count; i++) {
		if (strcmp(root->entries[last].path, root->entries[i].path) != 0) {
			last = i;
		} else if (root->entries[i].kind == DISCOVER_FOLDER) {
			drop(root, &root->entries[i]);
		} else {
			drop(root, &root->entries[last]);
			last = i;
		}
	}
	for (size_t i = 0; i < root->count; i++)
		if (root->entries[i].path)
			root->entries[kept++] = root->entries[i];
	root->count = kept;
	root->sorted = true;
}

static int compare_path(const void *key, const void *entry)
{
	return strcmp(key, ((const struct discover_entry *)entry)->path);
}

struct discover_entry *discover_root_find(struct discover_root *root, const char *path)
{
	discover_root_sort(root);
	if (!root->count)
		return NULL;
	return bsearch(path, root->entries, root->count, sizeof(*root->entries), compare_path);
}

bool discover_root_clean_path(const char *path)
{
	size_t bytes = strlen(path);

	if (!bytes || bytes >= DISCOVER_PATH_BYTES || *path == '/')
		return false;
	while (*path) {
		bytes = strcspn(path, "/");
		if (!bytes || (bytes == 1 && *path == '.') || (bytes == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += bytes;
		if (*path && !*++path)
			return false;
	}
	return true;
}

int discover_root_put(struct discover_root *root, const char *path, enum discover_entry_kind kind, const void *data,
		      size_t bytes)
{
	struct discover_entry made = { .kind = kind, .bytes = bytes };
	int r;

	if (!discover_root_clean_path(path))
		return -EINVAL;
	if (root->count >= DISCOVER_ENTRIES_MOST)
		discover_root_sort(root); /* the same path may have been there before */
	if (bytes > DISCOVER_CAPTURE_MOST - root->bytes || root->count >= DISCOVER_ENTRIES_MOST)
		return -E2BIG;
	made.place = root->next_place++;
	made.path = strdup(path);
	made.data = kind == DISCOVER_FOLDER ? NULL : malloc(bytes + 1);
	r = made.path && (made.data || kind == DISCOVER_FOLDER) ? sys_grow(&root->entries, root->count, 1, sizeof(made))
								: -ENOMEM;
	if (r < 0) {
		free(made.path);
		free(made.data);
		return r;
	}
	if (made.data) {
		if (bytes)
			memcpy(made.data, data, bytes);
		made.data[bytes] = '\0';
	}
	root->entries[root->count++] = made;
	root->bytes += bytes;
	/* In order as it comes is the usual case of a capture, and spares the sort. */
	root->sorted = root->sorted && (root->count < 2 || strcmp(root->entries[root->count - 2].path, made.path) < 0);
	return 0;
}

const struct discover_entry *discover_root_entries(struct discover_root *root, size_t *ret_count)
{
	discover_root_sort(root);
	*ret_count = root->count;
	return root->entries;
}

void discover_root_keep(struct discover_root *root, const char *path, enum discover_entry_kind kind, const void *data,
			size_t bytes)
{
	if (root->record)
		(void)discover_root_put(root, path, kind, data, bytes);
}

/* --------------------------------------------------------------------------------------------------------------- names */

static size_t address_at(const char *name)
{
	size_t digits = 0;

	for (size_t i = 0; name[i]; i++) {
		digits = isxdigit((unsigned char)name[i]) ? digits + 1 : 0;
		if (digits == ADDRESS_DIGITS)
			return i + 1 - digits;
	}
	return SIZE_MAX;
}

struct discover_pairing *discover_root_pair(struct discover_pairing **at, size_t *count, const char *real)
{
	if (sys_grow(at, *count, 1, sizeof(**at)) < 0)
		return NULL;
	(*at)[*count] = (struct discover_pairing){ .real = strdup(real) };
	return (*at)[*count].real ? &(*at)[(*count)++] : NULL;
}

const char *discover_root_alias(struct discover_root *root, const char *name)
{
	size_t at = address_at(name);
	struct discover_pairing *pairing;

	if (at == SIZE_MAX)
		return name;
	for (size_t i = 0; i < root->alias_count; i++)
		if (!strcmp(root->aliases[i].real, name))
			return root->aliases[i].shown;
	pairing = discover_root_pair(&root->aliases, &root->alias_count, name);
	if (!pairing)
		return "unnamed";
	snprintf(pairing->shown, sizeof(pairing->shown), "%.*smac%zu", (int)(at < 32 ? at : 32), name,
		 root->alias_count);
	return pairing->shown;
}

int discover_root_real_path(const struct discover_root *root, const char *path, char real[static PATH_MAX])
{
	size_t used = 0;

	while (*path) {
		size_t bytes = strcspn(path, "/");
		const char *part = path;
		size_t part_bytes = bytes;

		for (size_t i = 0; i < root->alias_count; i++) {
			const char *shown = root->aliases[i].shown;

			if (strlen(shown) == bytes && !memcmp(shown, path, bytes)) {
				part = root->aliases[i].real;
				part_bytes = strlen(part);
			}
		}
		if (used + part_bytes + 2 > PATH_MAX)
			return -ENAMETOOLONG;
		memcpy(real + used, part, part_bytes);
		used += part_bytes;
		path += bytes;
		if (*path == '/')
			real[used++] = *path++;
	}
	real[used] = '\0';
	return 0;
}
