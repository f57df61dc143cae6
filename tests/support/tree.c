/* SPDX-License-Identifier: Apache-2.0 */
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DESCRIPTORS = 16 };

void tree_open(struct tree *tree)
{
	snprintf(tree->root, sizeof(tree->root), "/tmp/tributary-test-XXXXXX");
	assert_non_null(mkdtemp(tree->root));
	tree->fd = open(tree->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(tree->fd >= 0);
}

void tree_close(struct tree *tree)
{
	tree_remove(tree->root);
	close(tree->fd);
}

int tree_new(void **state)
{
	struct tree *tree = malloc(sizeof(*tree));

	assert_non_null(tree);
	tree_open(tree);
	*state = tree;
	return 0;
}

int tree_free(void **state)
{
	tree_close(*state);
	free(*state);
	return 0;
}

void tree_text(const struct tree *tree, const char *path, const char *text)
{
	tree_write(tree->fd, path, text, strlen(text));
}

void tree_link(const struct tree *tree, const char *path, const char *target)
{
	tree_parents(tree->fd, path);
	if (symlinkat(target, tree->fd, path))
		assert_int_equal(errno, EEXIST);
}

void tree_parents(int fd, const char *path)
{
	char part[512];

	assert_true(strlen(path) < sizeof(part));
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdirat(fd, part, 0755))
			assert_int_equal(errno, EEXIST);
	}
}

static void write_file(int fd, const char *path, const void *data, size_t bytes, unsigned mode)
{
	int file = openat(fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(file >= 0);
	assert_int_equal(write(file, data, bytes), bytes);
	close(file);
}

void tree_write(int fd, const char *path, const void *data, size_t bytes)
{
	tree_parents(fd, path);
	write_file(fd, path, data, bytes, 0644);
}

void tree_put(const char *path, const char *text)
{
	write_file(AT_FDCWD, path, text, strlen(text), 0644);
}

void tree_put_mode(const char *path, const char *text, unsigned mode)
{
	write_file(AT_FDCWD, path, text, strlen(text), 0600);
	assert_int_equal(chmod(path, mode), 0);
}

char *tree_read(const char *path, size_t *ret_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t bytes = 0, room = 4096;
	char *text = NULL;
	ssize_t got;

	if (fd < 0)
		return NULL;
	do {
		room *= 2;
		text = realloc(text, room);
		assert_non_null(text);
		while ((got = read(fd, text + bytes, room - 1 - bytes)) > 0)
			bytes += (size_t)got;
		assert_true(got == 0);
	} while (bytes == room - 1);
	close(fd);
	text[bytes] = '\0';
	if (ret_bytes)
		*ret_bytes = bytes;
	return text;
}

unsigned tree_count(const char *folder, const char *prefix)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	unsigned count = 0;

	while (dir && (entry = readdir(dir)))
		count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			 !strncmp(entry->d_name, prefix, strlen(prefix));
	if (dir)
		closedir(dir);
	return count;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	return remove(path);
}

void tree_remove(const char *path)
{
	assert_int_equal(nftw(path, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS), 0);
}
