/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/growth_memory.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/state_dir.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS_MAX = 64, FILE_MODE = 0600, LOCK_TRIES = 500 /* of 1 ms */ };
#define NAME "streams"

/* One key; ways to several hosts of a subnet share it. */
struct tcp_growth_slot {
	struct tcp_streams_memory_key key;
	bool read;           /* the file was, and held: */
	unsigned remembered; /* 0: nothing */
	bool proved;         /* this process has kept streams itself */
	bool changed;        /* to be written: */
	unsigned streams;    /* 0: what the file holds is to be removed */
};

struct tcp_growth_memory {
	pthread_mutex_t lock;
	unsigned users; /* the owner, and the log's queue */
	bool queued, complained;
	unsigned count;
	struct tcp_growth_slot slots[SLOTS_MAX];
	char directory[STATE_DIR_PATH_BYTES];
};

struct tcp_growth_memory *tcp_growth_memory_new(const struct params *params)
{
	struct tcp_growth_memory *memory = params->streams ? NULL : sys_zalloc(sizeof(*memory));

	if (!memory)
		return NULL;
	if (state_dir_path(params, memory->directory, sizeof(memory->directory)) < 0) {
		sys_free(memory);
		return NULL;
	}
	pthread_mutex_init(&memory->lock, NULL);
	memory->users = 1;
	return memory;
}

void tcp_growth_memory_free(struct tcp_growth_memory *memory)
{
	bool last;

	if (!memory)
		return;
	pthread_mutex_lock(&memory->lock);
	last = --memory->users == 0;
	pthread_mutex_unlock(&memory->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&memory->lock);
	sys_free(memory);
}

/* -------- the file: on the log's queue -------- */

static const char *fault_of(const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return "it is not a regular file";
	if (st->st_uid != geteuid())
		return "it belongs to another user";
	if ((st->st_mode & 07777) != FILE_MODE)
		return "its mode is not 0600";
	return st->st_nlink > 1 ? "it has several links" : NULL;
}

static void complain(struct tcp_growth_memory *memory, const char *why)
{
	if (!memory->complained)
		log_info(LOG_NET, "numbers of streams are not kept for later jobs in %s/" NAME ": %s",
			 memory->directory, why);
	memory->complained = true;
}

/* -ENOENT: there is none. Other errors are said. */
static int open_file(struct tcp_growth_memory *memory, int folder, int flags)
{
	int fd = sys_openat(folder, NAME, flags | O_NOFOLLOW | O_NONBLOCK, FILE_MODE);
	const char *fault = NULL;
	struct stat st;

	if (fd == -ENOENT)
		return fd;
	if (fd < 0)
		fault = fd == -ELOOP ? "it is a symbolic link" : strerror(-fd);
	else
		fault = fstat(fd, &st) < 0 ? strerror(errno) : fault_of(&st);
	if (!fault)
		return fd;
	complain(memory, fault);
	sys_close(&fd);
	return -EPERM;
}

static bool has_name(int fd, int folder)
{
	struct stat named, own;

	return fstatat(folder, NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &own) == 0 &&
	       named.st_ino == own.st_ino && named.st_dev == own.st_dev;
}

/* Under its lock, while no other file gets the name. Where that cannot be had, another process may lose what it wrote last. */
static int open_locked(struct tcp_growth_memory *memory, int folder)
{
	const struct timespec nap = { .tv_nsec = (long)NS_PER_MS };
	int fd;

	for (unsigned tries = 1;; tries++) {
		fd = open_file(memory, folder, O_RDWR | O_CREAT);
		if (fd < 0 || tries == LOCK_TRIES)
			return fd;
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 ? has_name(fd, folder) : errno != EWOULDBLOCK)
			return fd;
		sys_close(&fd);
		nanosleep(&nap, NULL);
	}
}

static void read_file(int fd, struct tcp_streams_memory *ret)
{
	uint8_t bytes[TCP_STREAMS_MEMORY_BYTES];
	struct stat st;

	ret->count = 0;
	if (fstat(fd, &st) == 0 && st.st_size <= (off_t)sizeof(bytes) &&
	    sys_pread_whole(fd, bytes, (size_t)st.st_size, 0) == 0)
		(void)tcp_streams_memory_read(bytes, (size_t)st.st_size, ret);
}

static void replace_file(struct tcp_growth_memory *memory, const struct tcp_streams_memory *kept)
{
	char path[STATE_DIR_PATH_BYTES + sizeof(NAME) + 1];
	uint8_t bytes[TCP_STREAMS_MEMORY_BYTES];
	int r;

	snprintf(path, sizeof(path), "%s/" NAME, memory->directory);
	r = state_dir_replace(path, bytes, tcp_streams_memory_write(kept, bytes), FILE_MODE);
	if (r < 0)
		complain(memory, strerror(-r));
}

/* Puts these slots into the file, which has what others wrote meanwhile. *kept: what it holds. */
static void update(struct tcp_growth_memory *memory, const struct tcp_growth_slot *slots, unsigned changed,
		   struct tcp_streams_memory *kept)
{
	const uint64_t now_s = (uint64_t)time(NULL);
	int folder, fd;

	kept->count = 0;
	if (changed && state_dir_make_folders(memory->directory) < 0)
		return;
	folder = sys_openat(AT_FDCWD, memory->directory, O_RDONLY | O_DIRECTORY, 0);
	fd = folder < 0 ? folder : changed ? open_locked(memory, folder) : open_file(memory, folder, O_RDONLY);
	if (fd >= 0) {
		read_file(fd, kept);
		for (unsigned i = 0; i < changed; i++)
			tcp_streams_memory_put(kept, &slots[i].key, slots[i].streams, now_s);
		if (changed) {
			replace_file(memory, kept);
			flock(fd, LOCK_UN); /* a forked child may hold the descriptor, too */
		}
	}
	sys_close(&fd);
	sys_close(&folder);
}

static void run(void *arg)
{
	struct tcp_growth_memory *memory = arg;
	struct tcp_growth_slot slots[SLOTS_MAX];
	struct tcp_streams_memory kept;
	unsigned changed = 0;

	pthread_mutex_lock(&memory->lock);
	memory->queued = false;
	for (unsigned i = 0; i < memory->count; i++) {
		if (memory->slots[i].changed)
			slots[changed++] = memory->slots[i];
		memory->slots[i].changed = false;
	}
	pthread_mutex_unlock(&memory->lock);
	update(memory, slots, changed, &kept);
	pthread_mutex_lock(&memory->lock);
	for (unsigned i = 0; i < memory->count; i++) {
		struct tcp_growth_slot *slot = &memory->slots[i];

		if (!slot->read)
			slot->remembered = tcp_streams_memory_find(&kept, &slot->key, (uint64_t)time(NULL));
		slot->read = true;
	}
	pthread_mutex_unlock(&memory->lock);
	tcp_growth_memory_free(memory);
}

/* -------- the slots -------- */

/* With the lock held. One that waits in the queue sees to what changes meanwhile. */
static void queue(struct tcp_growth_memory *memory)
{
	if (memory->queued)
		return;
	memory->queued = true;
	memory->users++;
	pthread_mutex_unlock(&memory->lock); /* in a forked child it runs at once */
	if (log_run(run, memory) < 0) {
		pthread_mutex_lock(&memory->lock);
		memory->users--;
		memory->queued = false; /* the next change tries again */
		return;
	}
	pthread_mutex_lock(&memory->lock);
}

void tcp_growth_memory_ask(struct tcp_growth_memory *memory, struct tcp_growth_recall *recall,
			   const struct tcp_interface *interface, const struct sockaddr_storage *peer)
{
	struct tcp_streams_memory_key key;

	if (!memory || recall->slot)
		return;
	key = tcp_streams_memory_key(interface, peer);
	pthread_mutex_lock(&memory->lock);
	for (unsigned i = 0; i < memory->count && !recall->slot; i++)
		if (tcp_streams_memory_same(&memory->slots[i].key, &key))
			recall->slot = &memory->slots[i];
	if (!recall->slot && memory->count < SLOTS_MAX) {
		recall->slot = &memory->slots[memory->count++];
		recall->slot->key = key;
		queue(memory);
	}
	pthread_mutex_unlock(&memory->lock);
}

void tcp_growth_memory_recall(struct tcp_growth_memory *memory, struct tcp_growth_recall *recall,
			      struct tcp_streams_way *way)
{
	if (!recall->slot || recall->recalled)
		return;
	pthread_mutex_lock(&memory->lock);
	recall->recalled = recall->slot->read;
	if (recall->slot->read && !way->found) /* else a trial has said more since */
		recall->remembered = way->remembered = recall->slot->remembered;
	pthread_mutex_unlock(&memory->lock);
}

void tcp_growth_memory_note(struct tcp_growth_memory *memory, struct tcp_growth_recall *recall,
			    const struct tcp_streams_way *way)
{
	struct tcp_growth_slot *slot = recall->slot;
	const bool found = way->found != recall->found, forgotten = recall->remembered && !way->remembered;

	recall->found = way->found;
	recall->remembered = way->remembered;
	if (!slot || (!found && !forgotten))
		return;
	pthread_mutex_lock(&memory->lock);
	if (found || !slot->proved) { /* to another host of the subnet they may have been right */
		slot->streams = found ? way->found : 0;
		slot->proved |= found;
		slot->changed = true;
		queue(memory);
	}
	pthread_mutex_unlock(&memory->lock);
}
