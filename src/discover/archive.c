/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAR_MAGIC = 257, MODE = 0644, PACKED_MOST = 8 << 20 };

#define FIRST      DISCOVER_ARCHIVE_FIRST
#define FIRST_TEXT "version 1\n"

bool discover_archive_is(const void *start, size_t bytes)
{
	const unsigned char *at = start;

	if (bytes >= 2 && at[0] == 0x1f && at[1] == 0x8b)
		return true;
	return bytes >= TAR_MAGIC + 5 && !memcmp(at + TAR_MAGIC, "ustar", 5);
}

/* ---------------------------------------------------------------------------------------------------------------- read */

/* Of a reader whose input claims anything: the bytes that came, never the size that was said. *ret is freed in any case. */
static int read_data(struct archive *archive, size_t left, char **ret, size_t *ret_bytes, struct diag *diag)
{
	FILE *out = open_memstream(ret, ret_bytes);
	char some[4096];
	ssize_t got;
	size_t used = 0;
	int r = 0;

	if (!out)
		return -ENOMEM;
	while (!r && (got = archive_read_data(archive, some, sizeof(some))) != 0) {
		used += got > 0 ? (size_t)got : 0;
		if (got < 0) {
			diag_set(diag, 0, 0, "the capture is damaged: %.150s", archive_error_string(archive));
			r = -EINVAL;
		} else if (used > left) {
			diag_set(diag, 0, 0, "the capture is larger than %d MiB unpacked", DISCOVER_CAPTURE_MOST >> 20);
			r = -EINVAL;
		} else if (fwrite(some, 1, (size_t)got, out) != (size_t)got) {
			r = -ENOMEM;
		}
	}
	return fclose(out) && !r ? -ENOMEM : r;
}

/* tar writes a folder with a slash at its end, and some put "./" before all. */
static const char *clean(const char *path, char *room)
{
	size_t bytes;

	if (!path || strlen(path) >= DISCOVER_PATH_BYTES)
		return NULL;
	while (!strncmp(path, "./", 2))
		path += 2;
	bytes = strlen(path);
	if (bytes && path[bytes - 1] == '/')
		bytes--;
	memcpy(room, path, bytes);
	room[bytes] = '\0';
	return room;
}

static int put(struct discover_root *root, const char *path, enum discover_entry_kind kind, const void *data,
	       size_t bytes, struct diag *diag)
{
	int r = discover_root_put(root, path, kind, data, bytes);

	if (r == -EINVAL)
		diag_set(diag, 0, 0, "the capture has an entry outside of it: %.150s", path);
	else if (r == -E2BIG)
		diag_set(diag, 0, 0, "the capture has more than %d entries or %d MiB", DISCOVER_ENTRIES_MOST,
			 DISCOVER_CAPTURE_MOST >> 20);
	return r == -E2BIG ? -EINVAL : r;
}

/* prefix: bytes before each path. */
static int read_entry(struct archive *archive, struct archive_entry *entry, size_t prefix, struct discover_root *root,
		      size_t *left, struct diag *diag)
{
	char room[DISCOVER_PATH_BYTES];
	const char *whole = archive_entry_pathname(entry);
	const char *path = clean(whole && strlen(whole) > prefix ? whole + prefix
				 : prefix                        ? "."
								 : whole,
				 room),
		   *target = archive_entry_symlink(entry);
	char *data = NULL;
	size_t bytes = 0;
	int r;

	if (!path) {
		diag_set(diag, 0, 0, "the capture has an entry without a name, or with one that is too long");
		return -EINVAL;
	}
	if (!*path || !strcmp(path, "."))
		return 0; /* the folder itself */
	/* Folders of a file system have a size. */
	if (archive_entry_filetype(entry) != AE_IFREG && archive_entry_size(entry) > 0 && !prefix) {
		diag_set(diag, 0, 0, "the capture is damaged: %.150s has bytes, and is no file", path);
		return -EINVAL;
	}
	if (archive_entry_filetype(entry) == AE_IFDIR)
		return put(root, path, DISCOVER_FOLDER, NULL, 0, diag);
	if (archive_entry_filetype(entry) == AE_IFLNK && target) {
		if (strlen(target) >= DISCOVER_PATH_BYTES) {
			diag_set(diag, 0, 0, "the capture has a link that is too long: %.150s", path);
			return -EINVAL;
		}
		return put(root, path, DISCOVER_LINK, target, strlen(target), diag);
	}
	if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry)) {
		diag_set(diag, 0, 0, "the capture has an entry that is no file, folder or symbolic link: %.150s", path);
		return -EINVAL;
	}
	r = read_data(archive, *left, &data, &bytes, diag);
	if (!r)
		r = put(root, path, DISCOVER_FILE, data, bytes, diag);
	free(data);
	*left -= bytes;
	return r;
}

static int read_entries(struct archive *archive, size_t prefix, struct discover_root *root, struct diag *diag)
{
	size_t left = DISCOVER_CAPTURE_MOST;
	int r = 0;

	for (size_t count = 0; !r; count++) {
		struct archive_entry *entry;
		int status = archive_read_next_header(archive, &entry);

		if (status == ARCHIVE_EOF)
			return 0;
		if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
			diag_set(diag, 0, 0, "the capture is damaged: %.150s", archive_error_string(archive));
			return -EINVAL;
		}
		if (count == DISCOVER_ENTRIES_MOST) {
			diag_set(diag, 0, 0, "the capture has more than %d entries", DISCOVER_ENTRIES_MOST);
			return -EINVAL;
		}
		if (prefix && archive_entry_filetype(entry) == AE_IFDIR)
			(void)archive_read_disk_descend(archive);
		r = read_entry(archive, entry, prefix, root, &left, diag);
	}
	return r;
}

static int check_first(struct discover_root *root, struct diag *diag)
{
	char *first = NULL;
	size_t first_bytes;
	int r = 0;

	if (discover_root_answer(root, FIRST, NULL, NULL, &first, &first_bytes) < 0) {
		diag_set(diag, 0, 0, "it is an archive, but none that `tributary capture` made: " FIRST " is missing");
		r = -EINVAL;
	} else if (strcmp(first, FIRST_TEXT) != 0) {
		diag_set(diag, 0, 0, "the capture is of another version than this program knows");
		r = -EINVAL;
	}
	free(first);
	return r;
}

/* What is open; it is closed here. */
static int read_all(struct archive *archive, size_t prefix, struct discover_root **ret, struct diag *diag)
{
	struct discover_root *root = NULL;
	int r = discover_root_empty(&root);

	if (!r)
		r = read_entries(archive, prefix, root, diag);
	if (!r)
		r = check_first(root, diag);
	archive_read_free(archive);
	if (r < 0) {
		discover_root_close(root);
		return r;
	}
	*ret = root;
	return 0;
}

int discover_archive_read(const void *data, size_t bytes, struct discover_root **ret, struct diag *diag)
{
	struct archive *archive = archive_read_new();
	int r = archive ? 0 : -ENOMEM;

	if (!r && bytes > PACKED_MOST) {
		diag_set(diag, 0, 0, "the capture is larger than %d MiB", PACKED_MOST >> 20);
		r = -EINVAL;
	}
	if (!r && (archive_read_support_filter_gzip(archive) != ARCHIVE_OK ||
		   archive_read_support_format_tar(archive) != ARCHIVE_OK))
		r = -ENOMEM;
	if (!r && archive_read_open_memory(archive, data, bytes) != ARCHIVE_OK) {
		diag_set(diag, 0, 0, "it is no tar, packed or not: %.150s", archive_error_string(archive));
		r = -EINVAL;
	}
	if (r < 0 && archive)
		archive_read_free(archive);
	return r < 0 ? r : read_all(archive, 0, ret, diag);
}

/* As of an archive: links are kept, none is followed. */
int discover_archive_read_folder(const char *path, struct discover_root **ret, struct diag *diag)
{
	struct archive *archive = archive_read_disk_new();
	char folder[PATH_MAX];
	size_t bytes = strlen(path);
	int r = 0;

	while (bytes > 1 && path[bytes - 1] == '/')
		bytes--;
	if (!archive)
		return -ENOMEM;
	if ((size_t)snprintf(folder, sizeof(folder), "%.*s", (int)bytes, path) >= sizeof(folder))
		r = -ENAMETOOLONG;
	if (!r && (archive_read_disk_set_symlink_hybrid(archive) != ARCHIVE_OK ||
		   archive_read_disk_open(archive, folder) != ARCHIVE_OK)) {
		diag_set(diag, 0, 0, "it cannot be read: %.150s", archive_error_string(archive));
		r = -EINVAL;
	}
	if (r < 0)
		archive_read_free(archive);
	return r < 0 ? r : read_all(archive, bytes + 1, ret, diag);
}

/* --------------------------------------------------------------------------------------------------------------- write */

static int write_entry(struct archive *archive, const struct discover_entry *from)
{
	struct archive_entry *entry = archive_entry_new();
	char path[DISCOVER_PATH_BYTES + 1];
	int r = 0;

	if (!entry)
		return -ENOMEM;
	snprintf(path, sizeof(path), "%s%s", from->path, from->kind == DISCOVER_FOLDER ? "/" : "");
	archive_entry_set_pathname(entry, path);
	archive_entry_set_mtime(entry, 0, 0);
	archive_entry_set_perm(entry, from->kind == DISCOVER_FOLDER ? 0755 : MODE);
	archive_entry_set_filetype(entry, from->kind == DISCOVER_FOLDER ? AE_IFDIR
					  : from->kind == DISCOVER_LINK ? AE_IFLNK
									: AE_IFREG);
	if (from->kind == DISCOVER_LINK)
		archive_entry_set_symlink(entry, from->data);
	archive_entry_set_size(entry, from->kind == DISCOVER_FILE ? (int64_t)from->bytes : 0);
	if (archive_write_header(archive, entry) != ARCHIVE_OK ||
	    (from->kind == DISCOVER_FILE && archive_write_data(archive, from->data, from->bytes) < 0))
		r = -EIO;
	archive_entry_free(entry);
	return r;
}

static int write_all(struct archive *archive, bool packed, struct discover_root *root, FILE *to)
{
	struct discover_entry first = { .path = (char *)(uintptr_t)FIRST,
					.kind = DISCOVER_FILE,
					.data = (char *)(uintptr_t)FIRST_TEXT,
					.bytes = strlen(FIRST_TEXT) };
	const struct discover_entry *entries;
	size_t count;
	int r;

	/* No time in the packed file's head: the same machine gives the same bytes. No zeros at its end. */
	if ((packed && archive_write_add_filter_gzip(archive) != ARCHIVE_OK) ||
	    archive_write_set_format_pax_restricted(archive) != ARCHIVE_OK ||
	    (packed && archive_write_set_options(archive, "gzip:!timestamp") != ARCHIVE_OK) ||
	    archive_write_set_bytes_in_last_block(archive, 1) != ARCHIVE_OK ||
	    archive_write_open_FILE(archive, to) != ARCHIVE_OK)
		return -EIO;
	r = write_entry(archive, &first);
	entries = discover_root_entries(root, &count);
	for (size_t i = 0; i < count && !r; i++)
		if (strcmp(entries[i].path, FIRST) != 0)
			r = write_entry(archive, &entries[i]);
	if (!r && archive_write_close(archive) != ARCHIVE_OK)
		r = -EIO;
	return r;
}

int discover_archive_write(struct discover_root *root, bool packed, FILE *to)
{
	struct archive *archive = archive_write_new();
	int r = archive ? write_all(archive, packed, root, to) : -ENOMEM;

	if (r == -EIO && archive_errno(archive) > 0)
		r = -archive_errno(archive);
	if (archive)
		archive_write_free(archive);
	return r;
}
