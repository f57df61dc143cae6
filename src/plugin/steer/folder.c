/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/folder.h"

#include "base/params.h"
#include "base/process.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	OPEN_TRIES = 1000, /* each time others have come and gone meanwhile */
	FOLDER_MODE = 0700,
	FILE_MODE = 0600,
};

/* -EPERM: somebody else's, or open to others. */
static int folder_check(int fd, const char *path, struct diag *diag)
{
	struct stat st = { .st_mode = 0 };

	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 07777) == FOLDER_MODE)
		return 0;
	diag_set(diag, 0, 0,
		 "%s belongs to user %u with mode %04o, where this user's 0700 is needed: set TRIBUTARY_SHARED_DIR",
		 path, (unsigned)st.st_uid, st.st_mode & 07777U);
	return -EPERM;
}

int steer_folder_open(const char *shared_folder, char *ret_path, size_t ret_path_bytes, struct diag *diag)
{
	int parent = open(shared_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1, r;
	char name[24];

	snprintf(name, sizeof(name), "tributary-%u", (unsigned)process_user());
	snprintf(ret_path, ret_path_bytes, "%.*s/%s", PARAMS_STRING_BYTES - 1, shared_folder, name);
	if (parent < 0) {
		r = -errno;
		diag_set(diag, 0, 0, "%.128s: %s", shared_folder, strerror(-r));
		return r;
	}
	for (unsigned i = 0; i < OPEN_TRIES; i++) {
		r = sys_mkdirat(parent, name, FOLDER_MODE);
		if (r == 0 || r == -EEXIST)
			r = fd = sys_openat(parent, name, O_RDONLY | O_DIRECTORY, 0);
		if (r != -ENOENT) /* the last one to leave removed it in between */
			break;
	}
	if (r < 0)
		(void)unlinkat(parent, name, AT_REMOVEDIR); /* unless others are in it */
	sys_close(&parent);
	if (r < 0) {
		diag_set(diag, 0, 0, "%.128s: %s", ret_path, strerror(-r));
		return r;
	}
	r = folder_check(fd, ret_path, diag);
	if (r < 0)
		sys_close(&fd);
	return r < 0 ? r : fd;
}

void steer_folder_name(char kind, const char *id, char name[static STEER_FOLDER_NAME_BYTES])
{
	snprintf(name, STEER_FOLDER_NAME_BYTES, "%c-%.79s", kind, id);
}

bool steer_folder_has_name(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

/* A new file with room for so many bytes. */
int steer_folder_make(int directory, const char *name, size_t bytes)
{
	int fd, r;

	unlinkat(directory, name, 0);
	fd = sys_openat(directory, name, O_RDWR | O_CREAT | O_EXCL, FILE_MODE);
	if (fd < 0)
		return fd;
	r = sys_reserve(fd, bytes);
	if (r < 0) {
		unlinkat(directory, name, 0);
		sys_close(&fd);
		return r;
	}
	return fd;
}
