#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DESCRIPTORS = 16 };

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

void tree_write(int fd, const char *path, const void *data, size_t bytes)
{
	int file;

	tree_parents(fd, path);
	file = openat(fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(file >= 0);
	assert_int_equal(write(file, data, bytes), bytes);
	close(file);
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
