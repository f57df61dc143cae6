#include "plugin/session/files.h"

#include "base/sys.h"
#include "ncclxml/graph_xml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MODE = 0600, LONG_AGO_S = 1 };

static int make(struct session_files *files, const char *name, size_t reserve, const char *text, size_t bytes)
{
	int fd, r;

	unlinkat(files->directory, name, 0);
	fd = sys_openat(files->directory, name, O_RDWR | O_CREAT | O_EXCL, FILE_MODE);
	if (fd < 0)
		return fd;
	r = sys_reserve(fd, reserve);
	if (r == 0)
		r = sys_pwrite_whole(fd, text, bytes, 0);
	if (r < 0) {
		unlinkat(files->directory, name, 0);
		sys_close(&fd);
	}
	return r < 0 ? r : fd;
}

static int fd_in_place(const struct session_files *files)
{
	return files->published ? files->plan_fd : files->resting_fd;
}

/*
 * A time of access before that of the last change is set anew by the next read, unless the file system was mounted not
 * to keep it at all (mount(8), relatime and noatime).
 */
void session_files_watch(struct session_files *files)
{
	const struct timespec times[2] = { { .tv_sec = LONG_AGO_S }, { .tv_nsec = UTIME_NOW } };
	int saved_errno = errno;

	(void)futimens(fd_in_place(files), times);
	errno = saved_errno;
}

bool session_files_was_read(const struct session_files *files)
{
	int saved_errno = errno;
	struct stat st;
	bool read = fstat(fd_in_place(files), &st) == 0 && st.st_atim.tv_sec != LONG_AGO_S;

	errno = saved_errno;
	return read;
}

/* Tried out, because it depends on how the folder was mounted. */
static bool tells_reads(struct session_files *files)
{
	bool before, after;
	char byte;
	int fd;

	session_files_watch(files);
	before = session_files_was_read(files);
	fd = sys_openat(files->directory, files->graph_name, O_RDONLY, 0);
	if (fd < 0)
		return false;
	if (sys_pread_whole(fd, &byte, 1, 0) < 0)
		before = true;
	sys_close(&fd);
	after = session_files_was_read(files);
	return !before && after;
}

/* Not every file system can exchange names: there and back. */
static int exchange_works(struct session_files *files)
{
	for (unsigned i = 0; i < 2; i++) {
		int r = sys_renameat(files->directory, files->graph_name, files->other_name, SYS_RENAME_EXCHANGE);

		if (r < 0)
			return r;
	}
	return 0;
}

static int path_make(char path[static PATH_MAX], const char *directory, const char *name)
{
	int bytes = snprintf(path, PATH_MAX, "%s/%s", directory, name);

	return bytes < 0 || bytes >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int make_all(struct session_files *files, const char *path, const char *topology_text)
{
	size_t resting_bytes = strlen(graph_xml_resting);
	int fd, r;

	r = path_make(files->graph_path, path, files->graph_name);
	if (r == 0 && topology_text)
		r = path_make(files->topology_path, path, files->topology_name);
	if (r < 0)
		return r;
	if (topology_text) {
		r = fd = make(files, files->topology_name, strlen(topology_text), topology_text, strlen(topology_text));
		if (fd < 0)
			return r;
		sys_close(&fd);
	}
	r = files->resting_fd = make(files, files->graph_name, resting_bytes, graph_xml_resting, resting_bytes);
	if (r < 0)
		return r;
	r = files->plan_fd = make(files, files->other_name, SESSION_FILES_PLAN_BYTES, "", 0);
	if (r < 0)
		return r;
	files->can_tell_reads = tells_reads(files);
	return exchange_works(files);
}

int session_files_make(int directory, const char *path, const char *id, const char *topology_text,
		       struct session_files *ret, struct diag *diag)
{
	int saved_errno = errno, r;

	*ret = (struct session_files){ .directory = directory, .resting_fd = -1, .plan_fd = -1 };
	snprintf(ret->graph_name, sizeof(ret->graph_name), "g-%.64s", id);
	snprintf(ret->other_name, sizeof(ret->other_name), "o-%.64s", id);
	snprintf(ret->topology_name, sizeof(ret->topology_name), "t-%.64s", id);
	r = make_all(ret, path, topology_text);
	if (r < 0) {
		diag_set(diag, 0, 0, "the files for NCCL cannot be made in %.128s: %s", path, strerror(-r));
		session_files_remove(ret);
	}
	errno = saved_errno;
	return r;
}

void session_files_remove(struct session_files *files)
{
	int saved_errno = errno;

	if (files->graph_name[0]) {
		unlinkat(files->directory, files->graph_name, 0);
		unlinkat(files->directory, files->other_name, 0);
		unlinkat(files->directory, files->topology_name, 0);
	}
	sys_close(&files->resting_fd);
	sys_close(&files->plan_fd);
	files->graph_name[0] = '\0';
	errno = saved_errno;
}

static bool has_name(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink > 0;
}

bool session_files_are_there(const struct session_files *files)
{
	int saved_errno = errno;
	bool are = has_name(files->resting_fd) && has_name(files->plan_fd);

	errno = saved_errno;
	return are;
}

static int exchange(struct session_files *files, bool published)
{
	int r;

	if (files->published == published)
		return 0;
	r = sys_renameat(files->directory, files->graph_name, files->other_name, SYS_RENAME_EXCHANGE);
	if (r == 0)
		files->published = published;
	return r;
}

int session_files_prepare(struct session_files *files)
{
	int saved_errno = errno, r = 0;

	if (files->published || !files->plan_bytes)
		return 0;
	if (ftruncate(files->plan_fd, 0) < 0)
		r = -errno;
	errno = saved_errno;
	if (r == 0)
		r = sys_reserve(files->plan_fd, SESSION_FILES_PLAN_BYTES);
	if (r == 0)
		files->plan_bytes = 0;
	return r;
}

/* Longer texts that were there before are covered with newlines: a shorter file would give back the reserved room. */
static int write_padded(struct session_files *files, const char *text, size_t bytes)
{
	char newlines[512];
	int r = sys_pwrite_whole(files->plan_fd, text, bytes, 0);

	memset(newlines, '\n', sizeof(newlines));
	for (size_t at = bytes; r == 0 && at < files->plan_bytes;) {
		size_t part = files->plan_bytes - at < sizeof(newlines) ? files->plan_bytes - at : sizeof(newlines);

		r = sys_pwrite_whole(files->plan_fd, newlines, part, at);
		at += part;
	}
	if (bytes > files->plan_bytes)
		files->plan_bytes = bytes;
	return r;
}

int session_files_publish(struct session_files *files, const char *text, size_t bytes)
{
	int r;

	if (bytes > SESSION_FILES_PLAN_BYTES)
		return -E2BIG;
	r = exchange(files, false); /* nobody reads a text while it changes */
	if (r == 0)
		r = write_padded(files, text, bytes);
	if (r == 0)
		r = exchange(files, true);
	if (r == 0)
		session_files_watch(files);
	return r;
}

int session_files_rest(struct session_files *files)
{
	return exchange(files, false);
}
