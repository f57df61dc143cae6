#include "plugin/session/files.h"

#include "base/sys.h"
#include "ncclxml/graph_xml.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MODE = 0600, LONG_AGO_S = 1 };

static void plain_name(char kind, const char *id, char name[static SESSION_FILES_NAME_BYTES])
{
	snprintf(name, SESSION_FILES_NAME_BYTES, "%c-%.63s", kind, id);
}

static void numbered_name(char kind, const char *id, uint64_t number, char name[static SESSION_FILES_NAME_BYTES])
{
	snprintf(name, SESSION_FILES_NAME_BYTES, "%c-%.63s-%" PRIx64, kind, id, number);
}

static int make(int directory, const char *name, size_t reserve, const char *text, size_t bytes)
{
	int fd, r;

	unlinkat(directory, name, 0);
	fd = sys_openat(directory, name, O_RDWR | O_CREAT | O_EXCL, FILE_MODE);
	if (fd < 0)
		return fd;
	r = sys_reserve(fd, reserve);
	if (r == 0)
		r = sys_pwrite_whole(fd, text, bytes, 0);
	if (r < 0) {
		unlinkat(directory, name, 0);
		sys_close(&fd);
	}
	return r < 0 ? r : fd;
}

/*
 * A time of access before that of the last change is set anew by the next read, unless the file system was mounted not
 * to keep it at all (mount(8), relatime and noatime).
 */
static void watch(int fd)
{
	const struct timespec times[2] = { { .tv_sec = LONG_AGO_S }, { .tv_nsec = UTIME_NOW } };

	(void)futimens(fd, times);
}

static bool was_read(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_atim.tv_sec != LONG_AGO_S;
}

void session_files_watch(struct session_files *files)
{
	int saved_errno = errno;

	watch(files->published ? files->plan_fd : files->resting_fd);
	errno = saved_errno;
}

bool session_files_was_read(const struct session_files *files)
{
	int saved_errno = errno;
	bool read = files->published ? was_read(files->plan_fd) || was_read(files->back_fd)
				     : was_read(files->resting_fd);

	errno = saved_errno;
	return read;
}

bool session_files_plan_is_unread(const struct session_files *files)
{
	int saved_errno = errno;
	bool unread = files->published && files->plan_fd >= 0 && !was_read(files->plan_fd);

	errno = saved_errno;
	return unread;
}

/* Tried out, because it depends on how the folder was mounted. */
static bool tells_reads(struct session_files *files)
{
	bool before, after;
	char byte;
	int fd;

	watch(files->resting_fd);
	before = was_read(files->resting_fd);
	fd = sys_openat(files->directory, files->graph_name, O_RDONLY, 0);
	if (fd < 0)
		return false;
	if (sys_pread_whole(fd, &byte, 1, 0) < 0)
		before = true;
	sys_close(&fd);
	after = was_read(files->resting_fd);
	return !before && after;
}

static int path_make(char path[static PATH_MAX], const char *directory, const char *name)
{
	int bytes = snprintf(path, PATH_MAX, "%s/%s", directory, name);

	return bytes < 0 || bytes >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int resting_make(int directory, const char *name)
{
	size_t bytes = strlen(graph_xml_resting);

	return make(directory, name, bytes, graph_xml_resting, bytes);
}

static int make_all(struct session_files *files, const char *path, const char *topology_text)
{
	int fd, r;

	r = path_make(files->graph_path, path, files->graph_name);
	if (r == 0 && topology_text)
		r = path_make(files->topology_path, path, files->topology_name);
	if (r < 0)
		return r;
	if (topology_text) {
		r = fd = make(files->directory, files->topology_name, strlen(topology_text), topology_text,
			      strlen(topology_text));
		if (fd < 0)
			return r;
		sys_close(&fd);
	}
	r = files->resting_fd = resting_make(files->directory, files->graph_name);
	if (r < 0)
		return r;
	files->can_tell_reads = tells_reads(files);
	return 0;
}

int session_files_make(int directory, const char *path, const char *id, const char *topology_text,
		       struct session_files *ret, struct diag *diag)
{
	int saved_errno = errno, r;

	*ret = (struct session_files){ .directory = directory, .resting_fd = -1, .plan_fd = -1, .back_fd = -1 };
	snprintf(ret->id, sizeof(ret->id), "%.63s", id);
	plain_name('g', ret->id, ret->graph_name);
	plain_name('t', ret->id, ret->topology_name);
	r = make_all(ret, path, topology_text);
	if (r < 0) {
		diag_set(diag, 0, 0, "the files for NCCL cannot be made in %.128s: %s", path, strerror(-r));
		session_files_remove(ret);
	}
	errno = saved_errno;
	return r;
}

/* Of the plan that there is room for: what of it has its own names still. */
static void number_remove(struct session_files *files)
{
	char name[SESSION_FILES_NAME_BYTES];

	if (files->number) {
		numbered_name('x', files->id, files->number, name);
		unlinkat(files->directory, name, 0);
		numbered_name('y', files->id, files->number, name);
		unlinkat(files->directory, name, 0);
	}
	files->number = 0;
	files->plan_bytes = 0;
	sys_close(&files->plan_fd);
	sys_close(&files->back_fd);
}

void session_files_remove(struct session_files *files)
{
	int saved_errno = errno;

	number_remove(files);
	if (files->graph_name[0]) {
		unlinkat(files->directory, files->graph_name, 0);
		unlinkat(files->directory, files->topology_name, 0);
	}
	sys_close(&files->resting_fd);
	files->graph_name[0] = '\0';
	files->published = false;
	errno = saved_errno;
}

static bool has_name(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink > 0;
}

/* What takes a published plan back has its own name or, when somebody has used it, the graph file's. */
bool session_files_are_there(const struct session_files *files)
{
	int saved_errno = errno;
	struct stat st;
	bool are = fstatat(files->directory, files->graph_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		   has_name(files->published ? files->back_fd : files->resting_fd);

	errno = saved_errno;
	return are;
}

int session_files_prepare(struct session_files *files, uint64_t number)
{
	char name[SESSION_FILES_NAME_BYTES];
	int saved_errno = errno, r = 0;

	if (files->published || files->number == number)
		return 0;
	number_remove(files);
	files->number = number;
	numbered_name('x', files->id, number, name);
	r = files->plan_fd = make(files->directory, name, SESSION_FILES_PLAN_BYTES, "", 0);
	if (r >= 0) {
		numbered_name('y', files->id, number, name);
		r = files->back_fd = resting_make(files->directory, name);
	}
	if (r >= 0)
		watch(files->back_fd);
	else
		number_remove(files);
	errno = saved_errno;
	return r < 0 ? r : 0;
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

/* Who has taken it back, this process or another, has used the one file that can. */
static int rest(struct session_files *files)
{
	char name[SESSION_FILES_NAME_BYTES];
	int r;

	if (!files->published)
		return 0;
	numbered_name('y', files->id, files->number, name);
	r = sys_renameat(files->directory, name, files->graph_name, 0);
	if (r < 0 && r != -ENOENT)
		return r;
	sys_close(&files->resting_fd);
	files->resting_fd = files->back_fd;
	files->back_fd = -1;
	files->published = false;
	number_remove(files);
	return 0;
}

int session_files_publish(struct session_files *files, const char *text, size_t bytes)
{
	char name[SESSION_FILES_NAME_BYTES];
	int saved_errno = errno, r;

	if (bytes > SESSION_FILES_PLAN_BYTES)
		return -E2BIG;
	if (!files->number)
		return -ECANCELED;
	r = write_padded(files, text, bytes);
	if (r < 0 && files->published)
		(void)rest(files); /* rather than half a text */
	if (r < 0)
		return r;
	watch(files->plan_fd);
	if (!files->published) {
		numbered_name('x', files->id, files->number, name);
		r = sys_renameat(files->directory, name, files->graph_name, 0);
		files->published = r == 0;
	}
	errno = saved_errno;
	return r == -ENOENT ? -ECANCELED : r;
}

int session_files_rest(struct session_files *files)
{
	int saved_errno = errno, r = rest(files);

	errno = saved_errno;
	return r;
}

/* ------------------------------------------------------------------------------------------------------- of others */

static bool is_there(int directory, const char *name, struct stat *ret)
{
	return fstatat(directory, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Looked at in this order: what is not published yet has an x; while there is a y, the graph file is this plan. */
enum session_plan_state session_files_plan_state(int directory, const char *id, uint64_t number)
{
	enum session_plan_state state = SESSION_PLAN_OVER;
	char name[SESSION_FILES_NAME_BYTES];
	int saved_errno = errno;
	struct stat st, graph;

	numbered_name('x', id, number, name);
	if (is_there(directory, name, &st)) {
		state = SESSION_PLAN_UNREAD;
		goto out;
	}
	plain_name('g', id, name);
	if (!is_there(directory, name, &graph))
		goto out;
	numbered_name('y', id, number, name);
	if (is_there(directory, name, &st))
		state = graph.st_atim.tv_sec == LONG_AGO_S ? SESSION_PLAN_UNREAD : SESSION_PLAN_READ;
out:
	errno = saved_errno;
	return state;
}

/* First what is not published yet, so that it never is; then what is. */
void session_files_retract(int directory, const char *id, uint64_t number)
{
	char name[SESSION_FILES_NAME_BYTES], back[SESSION_FILES_NAME_BYTES], graph[SESSION_FILES_NAME_BYTES];
	int saved_errno = errno;

	numbered_name('x', id, number, name);
	numbered_name('y', id, number, back);
	plain_name('g', id, graph);
	if (unlinkat(directory, name, 0) == 0)
		unlinkat(directory, back, 0);
	else
		(void)sys_renameat(directory, back, graph, 0);
	errno = saved_errno;
}

bool session_files_of_other_was_read(int directory, const char *id)
{
	char name[SESSION_FILES_NAME_BYTES];
	int saved_errno = errno;
	struct stat st;
	bool read;

	plain_name('g', id, name);
	read = is_there(directory, name, &st) && st.st_atim.tv_sec != LONG_AGO_S;
	errno = saved_errno;
	return read;
}
