/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pace/arbiter_file.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* "tribpac" and the version of the layout; the version is in the name too, so that two versions do not meet. */
#define MAGIC       0x7472696270616304ULL
#define NAME_PREFIX "tributary-pace4-"

enum {
	LOCK_TRIES = 1000, /* of 1 ms: many may come at once to a machine that is busy with other things */
	OPEN_TRIES = 1000, /* each time others have come and gone meanwhile */
	SWEEP_MAX = 256,
};

static uint64_t namespace_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? 0 : (uint64_t)st.st_ino;
}

bool pace_arbiter_slot_is_dead(const struct pace_arbiter_slot *slot, const struct process_identity *self)
{
	/* The file lies in memory: whoever has a slot lives since this start of the kernel. */
	struct process_identity owner = { .boot = self->boot,
					  .pid_namespace = atomic_load(&slot->pid_namespace),
					  .start_ticks = atomic_load(&slot->start_ticks),
					  .pid = atomic_load(&slot->pid) };

	return owner.pid && self->pid && process_state(&owner, self) == PROCESS_GONE;
}

bool pace_arbiter_is_deserted(const struct pace_arbiter_shared *shared, const struct process_identity *self)
{
	for (size_t i = 0; i < PACE_ARBITER_SLOTS; i++)
		if (atomic_load(&shared->slots[i].owner) && !pace_arbiter_slot_is_dead(&shared->slots[i], self))
			return false;
	return true;
}

int pace_arbiter_file_lock(const struct pace_arbiter_file *file)
{
	const struct timespec nap = { .tv_nsec = (long)NS_PER_MS };

	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (flock(file->fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		nanosleep(&nap, NULL);
	}
	return -EBUSY;
}

void pace_arbiter_file_unlock(const struct pace_arbiter_file *file)
{
	flock(file->fd, LOCK_UN); /* said, not left to close: a forked child may hold the descriptor too */
}

void pace_arbiter_file_remove(const struct pace_arbiter_file *file)
{
	struct stat named, own;

	if (fstatat(file->directory_fd, file->name, &named, AT_SYMLINK_NOFOLLOW) < 0 || fstat(file->fd, &own) < 0)
		return;
	if (named.st_ino == own.st_ino && named.st_dev == own.st_dev)
		unlinkat(file->directory_fd, file->name, 0);
}

void pace_arbiter_file_close(struct pace_arbiter_file *file)
{
	if (file->shared)
		munmap(file->shared, sizeof(*file->shared));
	file->shared = NULL;
	sys_close(&file->fd);
	sys_close(&file->directory_fd);
}

/* The name of the device without what does not belong in a file name. */
static void name_make(const char *device_name, char name[static PACE_ARBITER_NAME_BYTES])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	snprintf(name, PACE_ARBITER_NAME_BYTES, NAME_PREFIX "%u-%llu-%.64s", (unsigned)process_user(),
		 (unsigned long long)namespace_of("/proc/self/ns/net"), device_name);
	for (char *at = name; *at; at++)
		if (!strchr(plain, *at))
			*at = '_';
}

static int check(const struct stat *st, struct diag *diag)
{
	if (!S_ISREG(st->st_mode)) {
		diag_set(diag, 0, 0, "it is not a regular file");
		return -EPROTO;
	}
	if (st->st_uid != geteuid()) {
		diag_set(diag, 0, 0, "it belongs to user %u", (unsigned)st->st_uid);
		return -EPERM;
	}
	if ((st->st_mode & 07777) != 0600 || st->st_nlink > 1) {
		diag_set(diag, 0, 0, "its mode is %04o with %u links, not 0600 with one", st->st_mode & 07777U,
			 (unsigned)st->st_nlink);
		return -EPERM;
	}
	if (st->st_size != 0 && st->st_size != (off_t)sizeof(struct pace_arbiter_shared)) {
		diag_set(diag, 0, 0, "it has %lld bytes, not %zu", (long long)st->st_size,
			 sizeof(struct pace_arbiter_shared));
		return -EPROTO;
	}
	return 0;
}

/* Maps what fd holds. Zeros are a valid empty file, so creators need no order among them. */
static int map(struct pace_arbiter_file *file, struct diag *diag)
{
	uint64_t found = 0;
	void *memory;
	int r;

	/* Blocks now or an error now: a write to a page that a full /dev/shm cannot give later would be SIGBUS. */
	do
		r = posix_fallocate(file->fd, 0, (off_t)sizeof(struct pace_arbiter_shared));
	while (r == EINTR);
	if (r) {
		diag_set(diag, 0, 0, "no room for it: %s", strerror(r));
		return -r;
	}
	memory = mmap(NULL, sizeof(struct pace_arbiter_shared), PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	if (memory == MAP_FAILED) {
		r = -errno;
		diag_set(diag, 0, 0, "mmap: %s", strerror(-r));
		return r;
	}
	file->shared = memory;
	if (!atomic_compare_exchange_strong(&file->shared->magic, &found, MAGIC) && found != MAGIC) {
		diag_set(diag, 0, 0, "it begins with %016llx, not %016llx", (unsigned long long)found,
			 (unsigned long long)MAGIC);
		return -EPROTO;
	}
	return 0;
}

/* 1: it was removed while we opened it, come again. */
static int open_once(struct pace_arbiter_file *file, struct diag *diag)
{
	struct stat st;
	int r;

	file->fd = openat(file->directory_fd, file->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (file->fd < 0 || fstat(file->fd, &st) < 0) {
		r = -errno;
		diag_set(diag, 0, 0, "open: %s", strerror(-r));
		return r;
	}
	r = check(&st, diag); /* before the lock: another user's file may be locked for ever */
	if (r < 0)
		return r;
	r = pace_arbiter_file_lock(file);
	if (r < 0) {
		diag_set(diag, 0, 0, "lock: %s", strerror(-r));
		return r;
	}
	if (fstat(file->fd, &st) < 0)
		return -errno;
	if (!st.st_nlink) {
		sys_close(&file->fd);
		return 1;
	}
	r = check(&st, diag);
	return r < 0 ? r : map(file, diag);
}

int pace_arbiter_file_open(struct pace_arbiter_file *file, const char *directory, const char *device_name,
			   struct diag *diag)
{
	int saved_errno = errno, r = 1;

	*file = (struct pace_arbiter_file){ .directory_fd = -1, .fd = -1 };
	name_make(device_name, file->name);
	file->directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (file->directory_fd < 0) {
		r = -errno;
		diag_set(diag, 0, 0, "%s: %s", directory, strerror(-r));
	}
	for (unsigned i = 0; r > 0 && i < OPEN_TRIES; i++)
		r = open_once(file, diag);
	if (r > 0) {
		diag_set(diag, 0, 0, "it was removed again and again");
		r = -EBUSY;
	}
	if (r < 0)
		pace_arbiter_file_close(file);
	errno = saved_errno;
	return r;
}

static void sweep_one(int directory_fd, const char *name, const struct process_identity *self)
{
	struct pace_arbiter_file file = { .directory_fd = -1, .fd = -1 };
	struct diag diag;
	struct stat st;

	file.fd = openat(directory_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (file.fd < 0)
		return;
	if (fstat(file.fd, &st) < 0 || check(&st, &diag) < 0 || flock(file.fd, LOCK_EX | LOCK_NB) < 0)
		goto out;
	/* Not removed meanwhile, and not one that its creator has yet to fill. */
	if (fstat(file.fd, &st) == 0 && st.st_nlink == 1 && st.st_size == (off_t)sizeof(struct pace_arbiter_shared) &&
	    map(&file, &diag) == 0 && pace_arbiter_is_deserted(file.shared, self))
		unlinkat(directory_fd, name, 0);
	pace_arbiter_file_unlock(&file);
out:
	pace_arbiter_file_close(&file);
}

void pace_arbiter_file_sweep(const struct pace_arbiter_file *file, const struct process_identity *self)
{
	int saved_errno = errno;
	char prefix[PACE_ARBITER_NAME_BYTES];
	struct dirent *entry;
	unsigned seen = 0;
	DIR *directory;
	int fd;

	snprintf(prefix, sizeof(prefix), NAME_PREFIX "%u-", (unsigned)process_user());
	fd = openat(file->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	directory = fd < 0 ? NULL : fdopendir(fd);
	if (!directory) {
		sys_close(&fd);
		errno = saved_errno;
		return;
	}
	while (seen < SWEEP_MAX && (entry = readdir(directory)) != NULL) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || strcmp(entry->d_name, file->name) == 0)
			continue;
		seen++;
		sweep_one(file->directory_fd, entry->d_name, self);
	}
	closedir(directory);
	errno = saved_errno;
}
