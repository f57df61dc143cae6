/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/root_internal.h"

#include "base/parse.h"
#include "base/sys.h"
#include "discover/config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_NAMES = 65536 };

/* --------------------------------------------------------------------------------------------------------------- files */

__attribute__((format(printf, 2, 0))) static int print_path(char path[static DISCOVER_PATH_BYTES], const char *fmt,
							    va_list args)
{
	int bytes = vsnprintf(path, DISCOVER_PATH_BYTES, fmt, args);

	return bytes > 0 && bytes < DISCOVER_PATH_BYTES && discover_root_clean_path(path) ? 0 : -ENAMETOOLONG;
}

static int read_file(const struct discover_root *root, const char *path, char *data, size_t room, size_t *ret_bytes)
{
	char real[PATH_MAX];
	struct stat stat;
	size_t used = 0;
	ssize_t got = 0;
	int fd, r = discover_root_real_path(root, path, real);

	if (r < 0)
		return r;
	fd = openat(root->fd, real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &stat) || !S_ISREG(stat.st_mode))
		r = -EINVAL;
	while (!r && used < room && (got = read(fd, data + used, room - used)) > 0)
		used += (size_t)got;
	if (!r && got < 0)
		r = -errno;
	close(fd);
	if (!r)
		*ret_bytes = used;
	return r;
}

/* All of a file, up to room bytes, from wherever the root has it. Not recorded yet. */
static int fetch(struct discover_root *root, const char *path, char *data, size_t room, size_t *ret_bytes)
{
	const struct discover_entry *entry;

	if (root->fd >= 0)
		return read_file(root, path, data, room, ret_bytes);
	entry = discover_root_find(root, path);
	if (!entry || entry->kind != DISCOVER_FILE)
		return -ENOENT;
	*ret_bytes = entry->bytes < room ? entry->bytes : room;
	memcpy(data, entry->data, *ret_bytes);
	return 0;
}

/* "0000:0000:0000:0000:0000:ffff:0a63:584d"; of a capture one of the words. */
static const char *gid_kind(const char *text)
{
	static const char *const words[] = { "none", "ipv4", "link-local", "other" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(text, words[i]))
			return words[i];
	if (strspn(text, "0:") == strlen(text))
		return "none";
	if (!strncmp(text, "0000:0000:0000:0000:0000:ffff:", 30))
		return "ipv4";
	return !strncmp(text, "fe80:", 5) ? "link-local" : "other";
}

/* From 1; 0: no memory. */
static size_t identity_of(struct discover_root *root, const char *text)
{
	for (size_t i = 0; i < root->identity_count; i++)
		if (!strcmp(root->identities[i].real, text))
			return i + 1;
	return discover_root_pair(&root->identities, &root->identity_count, text) ? root->identity_count : 0;
}

/* What is changed is kept as it is shown, in no case as it was. */
static int read_text(struct discover_root *root, enum discover_shown shown, char *text, size_t room, const char *path)
{
	char whole[DISCOVER_TEXT_BYTES], number[24];
	const char *as = whole;
	size_t bytes = 0;
	int r = fetch(root, path, whole, sizeof(whole), &bytes);

	if (r < 0)
		return r;
	if (bytes == sizeof(whole))
		return -EFBIG;
	whole[bytes] = '\0';
	if (shown == DISCOVER_SHOWN_WHOLE)
		discover_root_keep(root, path, DISCOVER_FILE, whole, bytes);
	if (memchr(whole, '\0', bytes))
		return -EINVAL;
	parse_trim(whole);
	if (shown == DISCOVER_SHOWN_NAME) {
		as = discover_root_alias(root, whole);
	} else if (shown == DISCOVER_SHOWN_GID) {
		as = gid_kind(whole);
	} else if (shown == DISCOVER_SHOWN_IDENTITY) {
		snprintf(number, sizeof(number), "%zu", identity_of(root, whole));
		as = number;
	}
	if (strlen(as) >= room)
		return -EFBIG;
	if (shown != DISCOVER_SHOWN_WHOLE)
		discover_root_keep(root, path, DISCOVER_FILE, as, strlen(as));
	memcpy(text, as, strlen(as) + 1);
	return 0;
}

int discover_root_read(struct discover_root *root, char *text, size_t room, const char *fmt, ...)
{
	char path[DISCOVER_PATH_BYTES];
	va_list args;
	int r;

	va_start(args, fmt);
	r = print_path(path, fmt, args);
	va_end(args);
	return r < 0 ? r : read_text(root, DISCOVER_SHOWN_WHOLE, text, room, path);
}

int discover_root_show(struct discover_root *root, enum discover_shown shown, char *text, size_t room, const char *fmt,
		       ...)
{
	char path[DISCOVER_PATH_BYTES];
	va_list args;
	int r;

	va_start(args, fmt);
	r = print_path(path, fmt, args);
	va_end(args);
	return r < 0 ? r : read_text(root, shown, text, room, path);
}

int discover_root_number(struct discover_root *root, int64_t *ret, const char *fmt, ...)
{
	char path[DISCOVER_PATH_BYTES], text[64];
	uint64_t value;
	va_list args;
	int r;

	va_start(args, fmt);
	r = print_path(path, fmt, args);
	va_end(args);
	if (!r)
		r = read_text(root, DISCOVER_SHOWN_WHOLE, text, sizeof(text), path);
	if (r < 0)
		return r;
	if (strncmp(text, "0x", 2))
		return parse_i64(text, INT64_MIN, INT64_MAX, ret);
	r = parse_hex64(text, &value);
	if (!r && value > INT64_MAX)
		r = -ERANGE;
	if (!r)
		*ret = (int64_t)value;
	return r;
}

static int read_link(struct discover_root *root, const char *path, char *target, size_t room)
{
	const struct discover_entry *entry;
	char real[PATH_MAX];
	ssize_t got;
	int r;

	if (root->fd >= 0) {
		r = discover_root_real_path(root, path, real);
		if (r < 0)
			return r;
		got = readlinkat(root->fd, real, target, room);
		if (got < 0)
			return -errno;
		if ((size_t)got >= room)
			return -EFBIG;
		target[got] = '\0';
		return 0;
	}
	entry = discover_root_find(root, path);
	if (!entry || entry->kind != DISCOVER_LINK)
		return -ENOENT;
	if (entry->bytes >= room || memchr(entry->data, '\0', entry->bytes))
		return -EINVAL;
	memcpy(target, entry->data, entry->bytes + 1);
	return 0;
}

int discover_root_link(struct discover_root *root, char *text, size_t room, const char *fmt, ...)
{
	char path[DISCOVER_PATH_BYTES], target[PATH_MAX];
	const char *last;
	va_list args;
	int r;

	va_start(args, fmt);
	r = print_path(path, fmt, args);
	va_end(args);
	if (!r)
		r = read_link(root, path, target, sizeof(target));
	if (r < 0)
		return r;
	last = strrchr(target, '/');
	last = discover_root_alias(root, last ? last + 1 : target);
	if (!*last || strlen(last) >= room)
		return -EFBIG;
	/* The way to it is a matter of where the folder lies; its end is what was asked for. */
	discover_root_keep(root, path, DISCOVER_LINK, last, strlen(last));
	memcpy(text, last, strlen(last) + 1);
	return 0;
}

bool discover_root_exists(struct discover_root *root, const char *fmt, ...)
{
	char path[DISCOVER_PATH_BYTES], real[PATH_MAX];
	struct stat stat;
	va_list args;
	int r;

	va_start(args, fmt);
	r = print_path(path, fmt, args);
	va_end(args);
	if (r < 0)
		return false;
	if (root->fd < 0)
		return discover_root_find(root, path) != NULL;
	if (discover_root_real_path(root, path, real) < 0 || fstatat(root->fd, real, &stat, 0))
		return false;
	discover_root_keep(root, path, DISCOVER_FOLDER, NULL, 0);
	return true;
}

/* ------------------------------------------------------------------------------------------------------------- folders */

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int add_name(struct discover_names *names, const char *name)
{
	if (names->count >= MOST_NAMES)
		return -E2BIG;
	if (strlen(name) >= sizeof(names->at[0]))
		return 0; /* no device has such a name */
	if (sys_grow(&names->at, names->count, 1, sizeof(names->at[0])) < 0)
		return -ENOMEM;
	snprintf(names->at[names->count++], sizeof(names->at[0]), "%s", name);
	return 0;
}

/* Real names in order first, so that aliases are given out in that order. */
static int list_folder(struct discover_root *root, const char *path, struct discover_names *names)
{
	const struct dirent *entry;
	char real[PATH_MAX];
	DIR *dir;
	int fd, r = discover_root_real_path(root, path, real);

	if (r < 0)
		return r;
	fd = openat(root->fd, real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		r = -errno;
		close(fd);
		return r;
	}
	while (!r && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			r = add_name(names, entry->d_name);
	closedir(dir);
	if (!r && names->count)
		qsort(names->at, names->count, sizeof(names->at[0]), compare_names);
	return r;
}

static int list_memory(struct discover_root *root, const char *path, struct discover_names *names)
{
	size_t prefix = strlen(path);
	int r = 0;

	discover_root_sort(root);
	for (size_t i = 0; i < root->count && !r; i++) {
		const char *entry = root->entries[i].path;
		char name[64];
		size_t bytes;

		if (strncmp(entry, path, prefix) || entry[prefix] != '/')
			continue;
		bytes = strcspn(entry + prefix + 1, "/");
		if (bytes >= sizeof(name))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)bytes, entry + prefix + 1);
		if (!names->count || strcmp(names->at[names->count - 1], name))
			r = add_name(names, name);
	}
	if (!r && !names->count && !discover_root_find(root, path))
		r = -ENOENT;
	return r;
}

/* After aliases the order is another one. Two of one name cannot be: aliases are numbered. */
static void show_names(struct discover_root *root, const char *path, struct discover_names *names)
{
	char entry[DISCOVER_PATH_BYTES + 64];

	for (size_t i = 0; i < names->count; i++) {
		char real[sizeof(names->at[0])];

		memcpy(real, names->at[i], sizeof(real));
		snprintf(names->at[i], sizeof(names->at[i]), "%s", discover_root_alias(root, real));
		snprintf(entry, sizeof(entry), "%s/%s", path, names->at[i]);
		discover_root_keep(root, entry, DISCOVER_FOLDER, NULL, 0);
	}
	if (names->count)
		qsort(names->at, names->count, sizeof(names->at[0]), compare_names);
}

int discover_root_list(struct discover_root *root, struct discover_names *ret, const char *fmt, ...)
{
	struct discover_names names = { 0 };
	char path[DISCOVER_PATH_BYTES];
	va_list args;
	int r;

	*ret = names;
	va_start(args, fmt);
	r = print_path(path, fmt, args);
	va_end(args);
	if (!r)
		r = root->fd >= 0 ? list_folder(root, path, &names) : list_memory(root, path, &names);
	if (r < 0) {
		discover_names_fini(&names);
		return r;
	}
	discover_root_keep(root, path, DISCOVER_FOLDER, NULL, 0);
	show_names(root, path, &names);
	*ret = names;
	return 0;
}

void discover_names_fini(struct discover_names *names)
{
	free(names->at);
	*names = (struct discover_names){ 0 };
}

/* --------------------------------------------------------------------------------------------------------- other bytes */

int discover_root_config(struct discover_root *root, const char *bus_id, uint8_t ret[static DISCOVER_CONFIG_BYTES],
			 size_t *ret_bytes)
{
	uint8_t bytes[DISCOVER_CONFIG_BYTES];
	char path[DISCOVER_PATH_BYTES];
	size_t count = 0;
	int r;

	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/config", bus_id);
	r = fetch(root, path, (char *)bytes, sizeof(bytes), &count);
	if (r < 0)
		return r;
	discover_config_clean(bytes, count);
	discover_root_keep(root, path, DISCOVER_FILE, bytes, count);
	memset(ret, 0, DISCOVER_CONFIG_BYTES);
	memcpy(ret, bytes, count);
	*ret_bytes = count;
	return 0;
}

static int fetch_answer(struct discover_root *root, const char *name, char **ret, size_t *ret_bytes)
{
	const struct discover_entry *entry = root->fd < 0 ? discover_root_find(root, name) : NULL;
	size_t room = entry ? entry->bytes : root->fd < 0 ? 0 : DISCOVER_ANSWER_MOST, bytes = 0;
	char *text;
	int r;

	if (room > DISCOVER_ANSWER_MOST)
		return -EFBIG;
	text = malloc(room + 1);
	if (!text)
		return -ENOMEM;
	r = fetch(root, name, text, room, &bytes);
	if (!r && root->fd >= 0 && bytes == room)
		r = -EFBIG;
	if (r < 0) {
		free(text);
		return r;
	}
	text[bytes] = '\0';
	*ret = text;
	*ret_bytes = bytes;
	return 0;
}

int discover_root_answer(struct discover_root *root, const char *name,
			 int (*ask)(void *arg, char **ret, size_t *ret_bytes), void *arg, char **ret, size_t *ret_bytes)
{
	char *text = NULL;
	size_t bytes = 0;
	int r;

	if (root->here)
		r = ask ? ask(arg, &text, &bytes) : -ENOENT;
	else
		r = fetch_answer(root, name, &text, &bytes);
	if (r < 0)
		return r;
	discover_root_keep(root, name, DISCOVER_FILE, text, bytes);
	*ret = text;
	*ret_bytes = bytes;
	return 0;
}
