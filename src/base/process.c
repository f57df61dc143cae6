/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include "base/hash.h"
#include "base/parse.h"
#include "base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	STAT_STATE_FIELD = 3, /* of /proc/PID/stat, counted from 1; see proc(5); the first one after the name */
	STAT_THREADS_FIELD = 20,
	STAT_START_FIELD = 22,
};

/* The name in /proc/PID/stat is in parentheses and may hold any character, so the fields count from the last ')'. */
static const char *stat_field(const char *text, unsigned number)
{
	const char *at = strrchr(text, ')');

	for (unsigned field = STAT_STATE_FIELD; at && field <= number; field++)
		at = strchr(at + 1, ' ');
	return at ? at + 1 : NULL;
}

int process_stat_number(const char *text, unsigned number, uint64_t *ret)
{
	const char *at = stat_field(text, number);
	char word[24];

	if (!at)
		return -EINVAL;
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, " \n"), at);
	return parse_u64(word, 0, UINT64_MAX, ret);
}

static int start_in_stat(const char *text, uint64_t *ret)
{
	return process_stat_number(text, STAT_START_FIELD, ret);
}

/* It has ended, and its parent has not asked how. So looks also a process whose first thread alone has ended. */
static bool is_zombie(const char *text)
{
	const char *state = stat_field(text, STAT_STATE_FIELD);
	uint64_t threads = 0;

	return state && (*state == 'Z' || *state == 'X') &&
	       process_stat_number(text, STAT_THREADS_FIELD, &threads) == 0 && threads <= 1;
}

/* -ENOENT: no such process, or one that has ended. */
static int start_of(uint32_t pid, uint64_t *ret)
{
	char path[32], text[1024];
	int r;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	r = text_file_value(AT_FDCWD, path, text, sizeof(text));
	if (r == -ESRCH)
		return -ENOENT; /* it went between open and read */
	if (r == 0 && is_zombie(text))
		return -ENOENT;
	return r < 0 ? r : start_in_stat(text, ret);
}

bool process_has_ended(uint32_t pid)
{
	int saved_errno = errno;
	uint64_t start;
	bool ended = start_of(pid, &start) == -ENOENT && start_of((uint32_t)getpid(), &start) == 0;

	errno = saved_errno;
	return ended;
}

static uint64_t boot_of(void)
{
	char text[64];

	if (text_file_value(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof(text)) < 0)
		return 0;
	return hash_text(HASH_START, text);
}

static int identify(struct process_identity *ret)
{
	struct process_identity self = { .boot = boot_of(), .pid = (uint32_t)getpid() };
	char link[16], own[16];
	ssize_t bytes = readlink("/proc/self", link, sizeof(link) - 1);
	struct stat st;

	link[bytes > 0 ? bytes : 0] = '\0';
	snprintf(own, sizeof(own), "%u", self.pid);
	/* A /proc of another PID namespace tells about other processes: it must know us by our own number. */
	if (!self.boot || strcmp(link, own) != 0 || stat("/proc/self/ns/pid", &st) < 0 ||
	    start_of(self.pid, &self.start_ticks) < 0)
		return -ENOENT;
	self.pid_namespace = (uint64_t)st.st_ino;
	*ret = self;
	return 0;
}

int process_identity(struct process_identity *ret)
{
	int saved_errno = errno, r = identify(ret);

	errno = saved_errno;
	return r;
}

uint64_t process_host(void)
{
	int saved_errno = errno;
	uint64_t boot = boot_of();
	struct stat st;

	if (stat("/proc/self/ns/net", &st) == 0)
		boot = hash_bytes(boot, &st.st_ino, sizeof(st.st_ino));
	errno = saved_errno;
	return boot;
}

enum process_state process_state(const struct process_identity *of, const struct process_identity *self)
{
	int saved_errno = errno, r;
	uint64_t start_ticks = 0;

	if (of->boot != self->boot)
		return PROCESS_GONE;
	if (of->pid_namespace != self->pid_namespace)
		return PROCESS_UNKNOWN;
	r = start_of(of->pid, &start_ticks);
	errno = saved_errno;
	if (r == -ENOENT || (r == 0 && start_ticks != of->start_ticks))
		return PROCESS_GONE;
	return r == 0 ? PROCESS_ALIVE : PROCESS_UNKNOWN;
}

/* Lines of first inside, first outside, count; user_namespaces(7). */
uint32_t process_user_outside(const char *map, uint32_t inside)
{
	unsigned first, outside, count;
	int bytes;

	for (; sscanf(map, " %u %u %u%n", &first, &outside, &count, &bytes) == 3; map += bytes)
		if (inside >= first && inside - first < count)
			return outside + (inside - first);
	return inside;
}

uint32_t process_user(void)
{
	int saved_errno = errno;
	char map[4096];
	uint32_t inside = geteuid();
	int r = text_file_value(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map));

	errno = saved_errno;
	return r < 0 ? inside : process_user_outside(map, inside);
}
