#include "profile/text_file.h"

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
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

/* A pipe or device would keep us waiting, so nothing but a regular file is read. */
static int open_regular(const struct text_file *file, const char *path, struct diag *why)
{
	const char *lead = text_file_lead(path), *shown = text_file_shown(path);
	struct stat st = { 0 };
	int r = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		if (r == -ENOENT)
			diag_set(why, 0, 0, "%s%s is not there", lead, shown);
		else
			diag_set(why, 0, 0, "%s%s cannot be read: %s", lead, shown, strerror(-r));
	} else if (!S_ISREG(st.st_mode)) {
		r = -EINVAL;
		diag_set(why, 0, 0, "%s%s is not a regular file", lead, shown);
	} else if (st.st_size > (off_t)file->limit_bytes) {
		r = -EFBIG;
		diag_set(why, 0, 0, "%s%s is longer than %zu MiB, which no %s is", lead, shown, file->limit_bytes >> 20,
			 file->kind);
	}
	if (r < 0)
		sys_close(&fd);
	return r < 0 ? r : fd;
}

/* What grows while it is read is cut off where it was: its checksum or its last line says so. */
int text_file_read(const struct text_file *file, const char *path, size_t most, char **ret, size_t *ret_bytes,
		   struct diag *why)
{
	int r = 0, fd = open_regular(file, path, why);
	struct stat st = { 0 };
	size_t got = 0, room;
	ssize_t bytes = 1;
	char *text;

	if (fd < 0)
		return fd;
	room = !fstat(fd, &st) && (size_t)st.st_size < most ? (size_t)st.st_size : most;
	text = sys_zalloc(room + 1);
	if (!text)
		r = -ENOMEM;
	while (r >= 0 && bytes > 0 && got < room) {
		bytes = read(fd, text + got, room - got);
		if (bytes < 0 && errno != EINTR)
			r = -errno;
		got += bytes > 0 ? (size_t)bytes : 0;
		bytes = bytes < 0 ? 1 : bytes;
	}
	sys_close(&fd);
	if (r < 0) {
		diag_set(why, 0, 0, "%s%s cannot be read: %s", text_file_lead(path), text_file_shown(path),
			 strerror(-r));
		sys_free(text);
		return r;
	}
	*ret = text;
	*ret_bytes = got;
	return 0;
}
