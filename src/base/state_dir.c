/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state_dir.h"

#include "base/params.h"
#include "base/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	DIRECTORY_MODE = 0755,
	RANDOM_BYTES = 6, /* of mkostemp */
	ABANDONED_S = 600,
	LOOKED_AT_MAX = 10000,
};

static int copy_path(const char *path, char *ret, size_t ret_bytes)
{
	size_t bytes = strlen(path) + 1;

	if (bytes > ret_bytes)
		return -ENAMETOOLONG;
	memcpy(ret, path, bytes);
	return 0;
}

int state_dir_path_of(const struct params *params, bool root, char *ret, size_t ret_bytes)
{
	char path[STATE_DIR_PATH_BYTES];

	if (params->state_dir[0])
		return copy_path(params->state_dir, ret, ret_bytes);
	if (root)
		return copy_path(STATE_DIR_OF_ROOT, ret, ret_bytes);
	if (!params->state_home[0])
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/tributary", params->state_home);
	return copy_path(path, ret, ret_bytes);
}

int state_dir_path(const struct params *params, char *ret, size_t ret_bytes)
{
	return state_dir_path_of(params, geteuid() == 0, ret, ret_bytes);
}

int state_dir_make_folders(const char *directory)
{
	char part[STATE_DIR_PATH_BYTES];
	size_t bytes = strlen(directory);
	struct stat st;

	if (bytes >= sizeof(part))
		return -ENAMETOOLONG;
	for (size_t i = 1; i <= bytes; i++) {
		if (directory[i] != '/' && directory[i] != '\0')
			continue;
		memcpy(part, directory, i);
		part[i] = '\0';
		if (mkdir(part, DIRECTORY_MODE) < 0) {
			/* A part that we may not write to is no failure if it is there. */
			int error = errno;

			if (error != EEXIST && stat(part, &st) < 0)
				return -error;
		} else if (i == bytes &&
			   chmod(part, DIRECTORY_MODE) < 0) { /* others may read it whatever the umask is */
			return -errno;
		}
	}
	return stat(directory, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int state_dir_make(const struct params *params, char directory[static STATE_DIR_PATH_BYTES], struct diag *why)
{
	int r = state_dir_path(params, directory, STATE_DIR_PATH_BYTES);

	if (r < 0) {
		diag_set(why, 0, 0, "there is no home folder to keep files in; TRIBUTARY_STATE_DIR can name one");
		return r;
	}
	r = state_dir_make_folders(directory);
	if (r < 0)
		diag_set(why, 0, 0, "the folder %.100s cannot be made: %s; TRIBUTARY_STATE_DIR can name another",
			 directory, strerror(-r));
	return r;
}

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t written = write(fd, text, bytes);

		if (written < 0 && errno != EINTR)
			return -errno;
		if (written > 0) {
			text += written;
			bytes -= (size_t)written;
		}
	}
	return 0;
}

/* So that the rename is on the disk, too. Some file systems return an error for a folder. */
static int sync_directory(const char *directory)
{
	int r = 0, fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return errno == EACCES ? 0 : -errno; /* a folder that may be written and not read */
	if (fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP)
		r = -errno;
	sys_close(&fd);
	return r;
}

/* Processes that ended while they wrote leave these behind. */
static void remove_abandoned(const char *directory, const char *beginning)
{
	const size_t bytes = strlen(beginning);
	DIR *listing = opendir(directory);
	const struct dirent *entry;
	struct stat st;

	for (unsigned i = 0; listing && i < LOOKED_AT_MAX && (entry = readdir(listing)); i++)
		if (!strncmp(entry->d_name, beginning, bytes) && strlen(entry->d_name) == bytes + RANDOM_BYTES &&
		    fstatat(dirfd(listing), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		    st.st_mtime + ABANDONED_S < time(NULL))
			unlinkat(dirfd(listing), entry->d_name, 0);
	if (listing)
		closedir(listing);
}

int state_dir_replace(const char *path, const void *data, size_t bytes, unsigned mode)
{
	char temporary[STATE_DIR_PATH_BYTES + 16], directory[STATE_DIR_PATH_BYTES], beginning[STATE_DIR_PATH_BYTES];
	const char *slash = strrchr(path, '/');
	size_t before = slash ? (size_t)(slash - path) + 1 : 0;
	int fd, r = 0;

	/* mkostemp makes a new file or fails: it opens none that is there, and follows no link. */
	snprintf(temporary, sizeof(temporary), "%.*s.%s.XXXXXX", (int)before, path, path + before);
	snprintf(directory, sizeof(directory), "%.*s", before ? (int)before : 1, before ? path : ".");
	snprintf(beginning, sizeof(beginning), ".%s.", path + before);
	remove_abandoned(directory, beginning);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = write_all(fd, data, bytes);
	if (!r && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
		r = -errno;
	if (close(fd) < 0 && !r) /* NFS reports a full disk here */
		r = -errno;
	if (!r && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(temporary);
		return r;
	}
	return sync_directory(directory);
}
