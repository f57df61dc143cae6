/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a profile so that whoever reads, at any moment or after a crash, sees the old one or the new one. */
#include "profile/store_places.h"

#include "base/sys.h"
#include "profile/profile_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MODE = 0644, DIRECTORY_MODE = 0755, ID_DIGITS = FINGERPRINT_ID_BYTES - 1 };

/* -------- the place -------- */

int store_make_directories(const char *directory)
{
	char part[STORE_PATH_BYTES];
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

int store_directory_make(const struct params *params, char directory[static STORE_PATH_BYTES], struct diag *why)
{
	int r = store_directory(params, directory, STORE_PATH_BYTES);

	if (r < 0) {
		diag_set(why, 0, 0, "there is no home folder to keep files in; TRIBUTARY_STATE_DIR can name one");
		return r;
	}
	r = store_make_directories(directory);
	if (r < 0)
		diag_set(why, 0, 0, "the folder %.100s cannot be made: %s; TRIBUTARY_STATE_DIR can name another",
			 directory, strerror(-r));
	return r;
}

static int own_place(const struct params *params, const struct profile *profile, char path[static STORE_PATH_BYTES],
		     struct diag *why)
{
	char directory[STORE_PATH_BYTES];
	int bytes, r;

	if (!profile->fingerprint.bytes || strlen(profile->fingerprint.id) != ID_DIGITS ||
	    strspn(profile->fingerprint.id, "0123456789abcdef") != ID_DIGITS) {
		diag_set(why, 0, 0, "the profile belongs to no machine, so its file must be named");
		return -EINVAL;
	}
	r = store_directory_make(params, directory, why);
	if (r < 0)
		return r;
	bytes = snprintf(path, STORE_PATH_BYTES, "%s/%s.profile", directory, profile->fingerprint.id);
	return bytes < 0 || bytes >= STORE_PATH_BYTES ? -ENAMETOOLONG : 0;
}

/* Renaming replaces whatever has the name: a device, when somebody writes to /dev/null as root. */
static int check_target(const char *path, struct diag *why)
{
	struct stat st;

	if (lstat(path, &st) < 0 || S_ISREG(st.st_mode))
		return 0; /* what else may be wrong with the path, making the temporary file finds out */
	diag_set(why, 0, 0, "%.120s is %s and is not replaced", path,
		 S_ISLNK(st.st_mode) ? "a symbolic link" : "not a regular file");
	return -EINVAL;
}

int store_check(const struct params *params, const char *path, struct diag *why)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	char directory[STORE_PATH_BYTES] = ".", beside[STORE_PATH_BYTES + 16];
	int saved_errno = errno, fd = -1, r;

	if (!path)
		r = store_directory_make(params, directory, why);
	else if (slash && (size_t)(slash - path) + 2 > sizeof(directory))
		r = -ENAMETOOLONG;
	else
		r = check_target(path, why);
	if (path && slash && !r)
		snprintf(directory, sizeof(directory), "%.*s", (int)(slash - path) + 1, path);
	/* Rights alone say little to root, or of a server's folder: a file is made, and goes again. */
	snprintf(beside, sizeof(beside), "%s/.check.XXXXXX", directory);
	if (!r)
		fd = mkostemp(beside, O_CLOEXEC);
	if (fd >= 0)
		unlink(beside);
	if (!r && fd < 0) {
		r = -errno;
		diag_set(why, 0, 0, "%.120s cannot be written: %s%s", path ? path : directory, strerror(-r),
			 path ? "" : "; TRIBUTARY_STATE_DIR can name another folder");
	}
	sys_close(&fd);
	errno = saved_errno;
	return r;
}

/* -------- the file -------- */

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

/* The rename itself must reach the disk, too. Some file systems cannot do that for a folder and say so. */
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

int store_replace(const char *path, const char *text, size_t bytes)
{
	char temporary[STORE_PATH_BYTES + 16], directory[STORE_PATH_BYTES];
	const char *slash = strrchr(path, '/');
	size_t before = slash ? (size_t)(slash - path) + 1 : 0;
	int fd, r = 0;

	/* mkostemp makes a new file or fails: it opens none that is there, and follows no link. */
	snprintf(temporary, sizeof(temporary), "%.*s.%s.XXXXXX", (int)before, path, path + before);
	snprintf(directory, sizeof(directory), "%.*s", (int)before, path);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = write_all(fd, text, bytes);
	if (!r && (fchmod(fd, FILE_MODE) < 0 || fsync(fd) < 0))
		r = -errno;
	if (close(fd) < 0 && !r) /* NFS reports a full disk here */
		r = -errno;
	if (!r && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(temporary);
		return r;
	}
	return sync_directory(before ? directory : ".");
}

static int save(const struct profile *profile, const char *path, bool own, struct diag *why)
{
	size_t bytes = 0;
	char *text = NULL;
	int r = check_target(path, why);

	if (r < 0)
		return r;
	r = profile_write(profile, &text, &bytes);
	if (r < 0) {
		diag_set(why, 0, 0, "the profile has no text form: %s", strerror(-r));
		return r;
	}
	r = store_replace(path, text, bytes);
	if (r < 0)
		diag_set(why, 0, 0, "%.120s cannot be written: %s%s", path, strerror(-r),
			 own ? "; TRIBUTARY_STATE_DIR can name another folder" : "");
	sys_free(text);
	return r;
}

int store_save(const struct params *params, const struct profile *profile, const char *path, char *ret_path,
	       size_t ret_path_bytes, struct diag *why)
{
	char place[STORE_PATH_BYTES] = "";
	int saved_errno = errno, r = 0;

	if (!path)
		r = own_place(params, profile, place, why);
	else if (strlen(path) < sizeof(place))
		memcpy(place, path, strlen(path) + 1);
	else
		r = -ENAMETOOLONG;
	if (!r && strlen(place) >= ret_path_bytes)
		r = -ENAMETOOLONG; /* before anything is replaced */
	if (!r)
		r = save(profile, place, !path, why);
	if (r == -ENAMETOOLONG)
		diag_set(why, 0, 0, "the path of the profile is too long");
	if (!r)
		memcpy(ret_path, place, strlen(place) + 1);
	errno = saved_errno;
	return r;
}
