/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/store_jobs.h"

#include "base/log.h"
#include "base/hash.h"
#include "base/sys.h"
#include "profile/store_places.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MODE = 0600, NAME_BYTES = 16, READ_BYTES = 2 * STORE_JOBS_BYTES, OPEN_TRIES = 10 };

static void name_of(unsigned file, const char *suffix, char name[static NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "jobs-%02u%s", file % STORE_JOBS_FILES, suffix);
}

/*
 * A full file gets the other name. Only who holds the lock of the file that has the name may take it away: two that did so
 * at once would put a file that has just begun over the full one. Who does not get the lock looks again, or adds to the full
 * file.
 */
static int open_with_room(int folder, const char *name, const char *old)
{
	struct stat st, named;
	int fd = -1;

	for (int i = 0; i < OPEN_TRIES; i++) {
		sys_close(&fd);
		fd = sys_openat(folder, name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, FILE_MODE);
		if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < STORE_JOBS_BYTES)
			break;
		if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
			continue;
		if (fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == st.st_ino)
			(void)sys_renameat(folder, name, old, 0);
		flock(fd, LOCK_UN);
	}
	return fd;
}

int store_jobs_add(const struct params *params, const char *host, const char *text, size_t bytes)
{
	const unsigned file = (unsigned)(hash_text(HASH_START, host) >> 32);
	char directory[STORE_PATH_BYTES], name[NAME_BYTES], old[NAME_BYTES];
	int saved_errno = errno, folder = -1, fd, r;
	struct diag diag;

	name_of(file, "", name);
	name_of(file, ".old", old);
	r = state_dir_make(params, directory, &diag);
	if (r == 0)
		r = folder = sys_openat(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY, 0);
	if (r >= 0) {
		r = fd = open_with_room(folder, name, old);
		if (r >= 0)
			r = write(fd, text, bytes) == (ssize_t)bytes ? 0 : -EIO;
		sys_close(&fd);
		sys_close(&folder);
	}
	errno = saved_errno;
	return r;
}

static int read_one(int folder, const char *name, char *text)
{
	int fd = sys_openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0), r;
	struct stat st;

	if (fd < 0)
		return fd;
	r = fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) && st.st_size < READ_BYTES ? 0 : -EINVAL;
	if (r == 0)
		r = sys_pread_whole(fd, text, (size_t)st.st_size, 0);
	if (r == 0)
		text[st.st_size] = '\0';
	sys_close(&fd);
	return r;
}

int store_jobs_read(const struct params *params, void (*each)(void *arg, const char *text), void *arg)
{
	static const char *const suffixes[] = { ".old", "" };
	char directory[STORE_PATH_BYTES], name[NAME_BYTES], *text;
	int r = state_dir_path(params, directory, sizeof(directory)), folder = -1;

	if (r == 0)
		r = folder = sys_openat(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY, 0);
	if (r < 0)
		return r;
	text = sys_zalloc(READ_BYTES);
	for (unsigned i = 0; text && i < 2 * STORE_JOBS_FILES; i++) {
		name_of(i / 2, suffixes[i % 2], name);
		if (read_one(folder, name, text) == 0)
			each(arg, text);
	}
	sys_close(&folder);
	r = text ? 0 : -ENOMEM;
	sys_free(text);
	return r;
}
