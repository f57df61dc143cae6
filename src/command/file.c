/* SPDX-License-Identifier: Apache-2.0 */
#include "command/file.h"

#include "base/text_file.h"
#include "command/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_unreadable(const char *path, int error, const char *hint)
{
	if (!hint || error != -ENOENT)
		return command_failed(NULL, error, "\"%s\" cannot be read", path);
	return command_failed(NULL, 0, "\"%s\" cannot be read: %s; %s", path, strerror(-error), hint);
}

int file_load(const char *path, size_t most, const char *hint, char **ret, size_t *ret_bytes)
{
	const struct text_file file = { .limit_bytes = most, .stream = true };
	struct diag why = { .text = "" };
	int r = text_file_read(&file, path, most, ret, ret_bytes, &why);

	if (r < 0)
		return command_failed(NULL, 0, "%s%s%s", why.text, r == -ENOENT && hint ? "; " : "",
				      r == -ENOENT && hint ? hint : "");
	return COMMAND_OK;
}

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int write_directly(const char *path, const char *text, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, text, bytes);
	if (close(fd) < 0 && !r)
		r = -errno;
	return r;
}

/* What open() would give a new file: mkstemp makes files that nobody else may read. */
static mode_t usual_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

/* The file beside it is made, and goes again: rights alone say little to root, or of a server's folder. */
static int check_beside(const char *path)
{
	size_t bytes = strlen(path);
	char beside[PATH_MAX];
	int fd;

	if (bytes && path[bytes - 1] == '/')
		return -EISDIR;
	if ((size_t)snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >= sizeof(beside))
		return -ENAMETOOLONG;
	fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	unlink(beside);
	return 0;
}

int file_check(const char *path)
{
	char real[PATH_MAX];
	struct stat status;

	if (!path || !strcmp(path, "-"))
		return 0;
	if (stat(path, &status) < 0)
		return errno == ENOENT ? check_beside(path) : -errno;
	if (S_ISDIR(status.st_mode))
		return -EISDIR;
	if (access(path, W_OK) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return 0;
	return realpath(path, real) ? check_beside(real) : -errno;
}

int file_check_put(const char *path)
{
	int r = file_check(path);

	return r < 0 ? command_failed(NULL, r, "\"%s\" cannot be written", path) : COMMAND_OK;
}

int file_write(const char *path, const char *text, size_t bytes)
{
	char beside[PATH_MAX], real[PATH_MAX];
	struct stat status;
	bool there = stat(path, &status) == 0;
	int fd, r;

	if (there && access(path, W_OK) < 0)
		return -errno;
	if (there && !S_ISREG(status.st_mode))
		return write_directly(path, text, bytes);
	/* What a link leads to is replaced, not the link. */
	if (there && realpath(path, real))
		path = real;
	if ((size_t)snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >= sizeof(beside))
		return -ENAMETOOLONG;
	fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = write_all(fd, text, bytes);
	if (!r && (fchmod(fd, there ? status.st_mode & 0777 : usual_mode()) < 0 || fsync(fd) < 0))
		r = -errno;
	if (close(fd) < 0 && !r)
		r = -errno;
	if (!r && rename(beside, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(beside);
	return r;
}

int file_put(const char *path, const char *text, size_t bytes, FILE *out)
{
	int r;

	if (!path || !strcmp(path, "-")) {
		fwrite(text, 1, bytes, out);
		return COMMAND_OK;
	}
	r = file_write(path, text, bytes);
	return r < 0 ? command_failed(NULL, r, "\"%s\" cannot be written", path) : COMMAND_OK;
}

int file_put_made(const char *path, const char *failure, int (*draw)(const void *arg, FILE *to), const void *arg,
		  FILE *out)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *memory = open_memstream(&text, &bytes);
	int r = memory ? draw(arg, memory) : -ENOMEM, status;

	if (memory && fclose(memory) && r >= 0)
		r = -ENOMEM;
	status = r < 0 ? command_failed(NULL, r, "%s", failure) : file_put(path, text, bytes, out);
	free(text);
	return status;
}
