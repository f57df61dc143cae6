/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text_file.h"

#include "base/parse.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { SHOWN_BYTES = 80 };

const char *text_file_lead(const char *path)
{
	return strlen(path) > SHOWN_BYTES ? "..." : "";
}

const char *text_file_shown(const char *path)
{
	return strlen(path) > SHOWN_BYTES ? path + strlen(path) - SHOWN_BYTES : path;
}

static int refuse(int error, const char *text, char because[static TEXT_FILE_BECAUSE_BYTES])
{
	snprintf(because, TEXT_FILE_BECAUSE_BYTES, "%s", text);
	return error;
}

static int refuse_longer(const struct text_file *file, char because[static TEXT_FILE_BECAUSE_BYTES])
{
	const bool is_MiB = file->limit_bytes >= 1 << 20;

	snprintf(because, TEXT_FILE_BECAUSE_BYTES, "it is longer than %zu %s", file->limit_bytes >> (is_MiB ? 20 : 10),
		 is_MiB ? "MiB" : "KiB");
	if (file->kind)
		snprintf(because + strlen(because), TEXT_FILE_BECAUSE_BYTES - strlen(because), ", which no %s is",
			 file->kind);
	return -EFBIG;
}

static bool may_be_read(const struct stat *st, int fd)
{
	return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode) ||
	       (S_ISCHR(st->st_mode) && (isatty(fd) || st->st_rdev == makedev(1, 3)));
}

/* A pipe or device would keep us waiting, so nothing but a regular file is read where nobody can wait. */
int text_file_open(const struct text_file *file, const char *path, char because[static TEXT_FILE_BECAUSE_BYTES])
{
	struct stat st = { 0 };
	int r = 0, fd;

	if (file->stream && !strcmp(path, "-"))
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
	else
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (file->stream ? 0 : O_NONBLOCK));
	if (fd < 0 || fstat(fd, &st) < 0)
		r = refuse(-errno, strerror(errno), because);
	else if (S_ISDIR(st.st_mode))
		r = refuse(-EINVAL, "it is a folder", because);
	else if (!S_ISREG(st.st_mode) && !file->stream)
		r = refuse(-EINVAL, "it is not a regular file", because);
	else if (!S_ISREG(st.st_mode) && !may_be_read(&st, fd))
		r = refuse(-EINVAL, "it is a device, not a file or a pipe", because);
	else if (st.st_size > (off_t)file->limit_bytes)
		r = refuse_longer(file, because);
	if (r < 0)
		sys_close(&fd);
	return r < 0 ? r : fd;
}

/* The number of bytes, at most `room`. */
static ssize_t read_some(int fd, char *text, size_t room)
{
	size_t got = 0;

	while (got < room) {
		ssize_t bytes = read(fd, text + got, room - got);

		if (bytes < 0 && errno != EINTR)
			return -errno;
		if (bytes == 0)
			break;
		got += bytes > 0 ? (size_t)bytes : 0;
	}
	return (ssize_t)got;
}

int text_file_value(int folder, const char *path, char *text, size_t room)
{
	int fd = sys_openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	ssize_t bytes = fd < 0 ? fd : read_some(fd, text, room);
	bool is_cut = bytes == (ssize_t)room;

	sys_close(&fd);
	if (bytes < 0)
		return (int)bytes;
	text[is_cut ? bytes - 1 : bytes] = '\0';
	if (!is_cut && strlen(text) != (size_t)bytes)
		return -EINVAL;
	parse_trim(text);
	return is_cut ? -EOVERFLOW : 0;
}

static int read_all(int fd, size_t room, char **ret, size_t *ret_bytes)
{
	char *text = sys_zalloc(room + 1);
	ssize_t r = text ? read_some(fd, text, room) : -ENOMEM;

	if (r < 0) {
		sys_free(text);
		return (int)r;
	}
	*ret = text;
	*ret_bytes = (size_t)r;
	return 0;
}

static int leave_mark_out(char *text, size_t *bytes, char because[static TEXT_FILE_BECAUSE_BYTES])
{
	if (*bytes >= 2 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2)))
		return refuse(-EINVAL, "it is UTF-16: iconv -f UTF-16 -t UTF-8 makes text of it that is read", because);
	if (*bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
		*bytes -= 3;
		memmove(text, text + 3, *bytes + 1); /* with its NUL */
	}
	return 0;
}

/* What grows while it is read is cut off where it was: its checksum or its last line says so. */
int text_file_read(const struct text_file *file, const char *path, size_t most, char **ret, size_t *ret_bytes,
		   struct diag *why)
{
	char because[TEXT_FILE_BECAUSE_BYTES] = "";
	int r, fd = text_file_open(file, path, because);
	struct stat st = { 0 };
	size_t room = file->stream ? file->limit_bytes + 1 : most; /* a pipe says how long it is at its end */

	/* A file of /proc says that it is empty. */
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && (size_t)st.st_size < room)
		room = (size_t)st.st_size;
	r = fd < 0 ? fd : read_all(fd, room, ret, ret_bytes);
	sys_close(&fd);
	if (!r && *ret_bytes > file->limit_bytes) {
		sys_free(*ret);
		r = refuse_longer(file, because);
	} else if (!r && !file->as_is) {
		r = leave_mark_out(*ret, ret_bytes, because);
		if (r < 0)
			sys_free(*ret);
	} else if (r < 0 && !because[0]) {
		refuse(r, strerror(-r), because);
	}
	if (r < 0)
		diag_set(why, 0, 0, "\"%s%s\" cannot be read: %s", text_file_lead(path), text_file_shown(path),
			 because);
	return r;
}
