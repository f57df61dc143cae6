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

enum { FILE_MODE = 0644, ID_DIGITS = FINGERPRINT_ID_BYTES - 1 };

/* -------- the place -------- */

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
	r = state_dir_make(params, directory, why);
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
		r = state_dir_make(params, directory, why);
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
	r = state_dir_replace(path, text, bytes, FILE_MODE);
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
