/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/registry.h"

#include "base/parse.h"
#include "base/sys.h"
#include "plugin/steer/agreed.h"
#include "plugin/steer/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	NAME_BYTES = STEER_FOLDER_NAME_BYTES,
	OPEN_TRIES = 1000, /* each time others have come and gone meanwhile */
};

/* ------------------------------------------------------------------------------------------------------------- names */

bool steer_registry_is_own(const struct steer_registry *registry, const char *id)
{
	size_t instance = (size_t)(strrchr(registry->id, '-') - registry->id);

	return !strncmp(id, registry->id, instance + 1);
}

/* "ID-NUMBER" without the number. */
static bool id_before_number(const char *name, char id[static STEER_ID_BYTES])
{
	const char *end = strrchr(name, '-');

	if (!end || end - name >= STEER_ID_BYTES)
		return false;
	memcpy(id, name, (size_t)(end - name));
	id[end - name] = '\0';
	return true;
}

static void comm_name(const struct steer_registry *registry, char kind, uint64_t comm_id, char name[static NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "%c-%016" PRIx64 "-%016" PRIx64 "-%x", kind, comm_id, registry->host, STEER_LAYOUT);
}

static void space_name(const struct steer_registry *registry, int slot, char name[static NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "s-%.72s-%02u", registry->id, (unsigned)slot % 100);
}

/* --------------------------------------------------------------------------------------------------------------- life */

/*
 * Not flock: forked children keep that one. A record lock goes with the process, or with the first descriptor of the file
 * that the process closes, so a process never opens its own file twice.
 */
static int lock_own(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_SETLK, &lock) < 0 ? -errno : 0;
}

bool steer_registry_file_is_locked(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* kind: 'p' or 'w', or 'n' before it has that name. */
static bool file_is_of_live(const struct steer_registry *registry, char kind, const char *id)
{
	char name[NAME_BYTES];
	bool alive;
	int fd;

	if (steer_registry_is_own(registry, id))
		return true;
	steer_folder_name(kind, id, name);
	fd = sys_openat(registry->directory, name, O_RDONLY, 0);
	if (fd < 0)
		return fd != -ENOENT;
	alive = steer_registry_file_is_locked(fd);
	sys_close(&fd);
	return alive;
}

bool steer_registry_is_alive(const struct steer_registry *registry, const char *id)
{
	return file_is_of_live(registry, 'p', id) || file_is_of_live(registry, 'w', id);
}

/* --------------------------------------------------------------------------------------------------------------- sweep */

static bool link_owner(const struct steer_registry *registry, const char *name, char id[static STEER_ID_BYTES])
{
	ssize_t bytes = readlinkat(registry->directory, name, id, STEER_ID_BYTES - 1);

	id[bytes > 0 ? bytes : 0] = '\0';
	return bytes > 0;
}

/* Only the author is read, so that a decision of another version goes, too. */
static bool decision_is_deserted(const struct steer_registry *registry, const char *name)
{
	int fd = sys_openat(registry->directory, name, O_RDONLY, 0), r;
	char author[STEER_ID_BYTES];

	if (fd < 0)
		return false;
	r = sys_pread_whole(fd, author, sizeof(author), offsetof(struct steer_decision, author));
	sys_close(&fd);
	return r == 0 && memchr(author, '\0', sizeof(author)) && !steer_registry_is_alive(registry, author);
}

static int sweep_one(void *arg, const char *name)
{
	const struct steer_registry *registry = arg;
	char id[STEER_ID_BYTES];
	bool gone = false;

	if (name[1] != '-')
		return 0;
	switch (name[0]) {
	case 'd':
		gone = decision_is_deserted(registry, name);
		break;
	case 'c':
		gone = link_owner(registry, name, id) && !steer_registry_is_alive(registry, id);
		break;
	case 's':
	case 'a':
		gone = id_before_number(name + 2, id) && !steer_registry_is_alive(registry, id);
		break;
	case 'p':
	case 'w':
	case 'n':
		gone = !file_is_of_live(registry, name[0], name + 2);
		break;
	default:
		break;
	}
	if (gone)
		unlinkat(registry->directory, name, 0);
	return 0;
}

/* -------------------------------------------------------------------------------------------------------- this process */

/* A file gets its name when it is whole and locked: one that is not locked is of a process that is gone. */
static int process_file_make(struct steer_registry *registry)
{
	char name[NAME_BYTES], made[NAME_BYTES];
	int r;

	steer_folder_name(registry->kind, registry->id, name);
	steer_folder_name('n', registry->id, made);
	sys_close(&registry->process_fd);
	r = registry->process_fd = steer_folder_make(registry->directory, made, sizeof(*registry->own));
	if (r >= 0)
		r = sys_pwrite_whole(registry->process_fd, registry->own, sizeof(*registry->own), 0);
	if (r == 0)
		r = lock_own(registry->process_fd);
	if (r == 0)
		r = sys_renameat(registry->directory, made, name, 0);
	if (r < 0) {
		unlinkat(registry->directory, made, 0);
		sys_close(&registry->process_fd);
	}
	return r;
}

/* Opens the folder and puts a file into it, which keeps it there. */
static int enter(struct steer_registry *registry, struct diag *diag)
{
	for (unsigned i = 0; i < OPEN_TRIES; i++) {
		int fd = steer_folder_open(registry->shared_folder, registry->path, sizeof(registry->path), diag), r;

		if (fd < 0)
			return fd;
		registry->directory = fd;
		r = process_file_make(registry);
		if (r == 0 && steer_folder_has_name(fd))
			return 0;
		sys_close(&registry->process_fd);
		sys_close(&registry->directory);
		(void)rmdir(registry->path); /* unless others are in it */
		if (r < 0 && r != -ENOENT) {
			diag_set(diag, 0, 0, "%.128s: %s", registry->path, strerror(-r));
			return r;
		}
	}
	diag_set(diag, 0, 0, "%.128s was removed again and again", registry->path);
	return -EBUSY;
}

static int open_as(char kind, const char *shared_folder, const struct steer_process *process,
		   struct steer_registry *ret, struct diag *diag)
{
	static const char instance; /* each copy of the library has its own */
	struct process_identity self;
	int r;

	*ret = (struct steer_registry){
		.kind = kind, .directory = -1, .process_fd = -1, .host = process->host, .shared_folder = shared_folder
	};
	r = process_identity(&self);
	if (r < 0) {
		diag_set(diag, 0, 0, "/proc does not know this process");
		goto out;
	}
	r = -ENOMEM;
	ret->own = sys_zalloc(sizeof(*ret->own));
	if (!ret->own)
		goto out;
	memcpy(&ret->own->process, process, sizeof(*process));
	ret->own->process.identity = self;
	ret->own->process.instance = (uintptr_t)&instance;
	steer_process_id(&ret->own->process, ret->id);
	steer_process_seal(ret->own);
	r = enter(ret, diag);
	if (r == 0)
		(void)sys_each_name(ret->directory, ".", "", sweep_one, ret);
out:
	if (r < 0)
		steer_registry_close(ret);
	return r;
}

int steer_registry_open(const char *shared_folder, const struct steer_process *process, struct steer_registry *ret,
			struct diag *diag)
{
	return open_as('p', shared_folder, process, ret, diag);
}

int steer_registry_open_apart(const char *shared_folder, const struct steer_process *process,
			      struct steer_registry *ret, struct diag *diag)
{
	return open_as('w', shared_folder, process, ret, diag);
}

int steer_registry_restore(struct steer_registry *registry, struct diag *diag)
{
	if (!registry->own) /* the process is ending */
		return -ESHUTDOWN;
	if (steer_folder_has_name(registry->process_fd))
		return 0;
	sys_close(&registry->directory);
	return enter(registry, diag);
}

void steer_registry_close(struct steer_registry *registry)
{
	char name[NAME_BYTES];

	for (int i = 0; i < STEER_RECORDS; i++)
		steer_registry_drop(registry, i);
	if (registry->directory >= 0) {
		steer_folder_name(registry->kind, registry->id, name);
		unlinkat(registry->directory, name, 0);
		(void)rmdir(registry->path); /* if this was the last process */
	}
	sys_free(registry->own);
	registry->own = NULL;
	sys_close(&registry->process_fd);
	sys_close(&registry->directory);
}

static int record_write(struct steer_registry *registry, int slot)
{
	struct steer_record *own = &registry->own->records[slot];

	steer_record_seal(own);
	return sys_pwrite_whole(registry->process_fd, own, sizeof(*own),
				offsetof(struct steer_process_file, records) + (size_t)slot * sizeof(*own));
}

static void overflow_write(struct steer_registry *registry, uint32_t overflowed)
{
	registry->own->process.overflowed = overflowed;
	steer_process_seal(registry->own);
	(void)sys_pwrite_whole(registry->process_fd, registry->own, offsetof(struct steer_process_file, records), 0);
}

static int space_make(struct steer_registry *registry, int slot)
{
	char name[NAME_BYTES];
	int fd, r;

	space_name(registry, slot, name);
	r = fd = steer_folder_make(registry->directory, name, sizeof(struct steer_decision));
	sys_close(&fd);
	return r < 0 ? r : 0;
}

static void space_remove(struct steer_registry *registry, int slot)
{
	char name[NAME_BYTES];

	space_name(registry, slot, name);
	unlinkat(registry->directory, name, 0);
}

int steer_registry_add(struct steer_registry *registry, const struct steer_record *record)
{
	int slot = 0, r;
	struct steer_record *own;

	if (!registry->own) /* the process is ending */
		return -ESHUTDOWN;
	while (slot < STEER_RECORDS && registry->own->records[slot].used)
		slot++;
	r = slot < STEER_RECORDS ? space_make(registry, slot) : -ENOSPC;
	if (r == 0) {
		own = &registry->own->records[slot];
		memcpy(own, record, sizeof(*own));
		own->used = 1;
		r = record_write(registry, slot);
		own->used = r == 0;
		if (r < 0)
			space_remove(registry, slot);
	}
	if (r < 0)
		overflow_write(registry, registry->own->process.overflowed + 1);
	return r < 0 ? r : slot;
}

int steer_registry_refuse(struct steer_registry *registry, int slot, enum steer_reason reason)
{
	if (!registry->own) /* the process is ending */
		return -ESHUTDOWN;
	registry->own->records[slot].reason = (uint32_t)reason;
	return record_write(registry, slot);
}

void steer_registry_drop(struct steer_registry *registry, int slot)
{
	if (slot == STEER_NO_SLOT || !registry->own)
		return;
	if (slot < 0) {
		overflow_write(registry, registry->own->process.overflowed - 1);
		return;
	}
	if (!registry->own->records[slot].used)
		return;
	steer_agreed_forget(registry->directory, registry->id, registry->own->records[slot].serial);
	memset(&registry->own->records[slot], 0, sizeof(registry->own->records[slot]));
	(void)record_write(registry, slot);
	space_remove(registry, slot); /* it may have become the decision */
}

/* ---------------------------------------------------------------------------------------------------------- decisions */

int steer_registry_claim(struct steer_registry *registry, uint64_t comm_id)
{
	char name[NAME_BYTES], owner[STEER_ID_BYTES];
	int r = 0;

	comm_name(registry, 'c', comm_id, name);
	if (symlinkat(registry->id, registry->directory, name) < 0)
		r = -errno;
	if (r == -EEXIST && link_owner(registry, name, owner) && !steer_registry_is_alive(registry, owner))
		r = 0;               /* it died while planning */
	return r == -EEXIST ? r : 0; /* a second planner is no harm: one decision counts */
}

void steer_registry_unclaim(struct steer_registry *registry, uint64_t comm_id)
{
	char name[NAME_BYTES];

	comm_name(registry, 'c', comm_id, name);
	unlinkat(registry->directory, name, 0);
}

int steer_registry_decision(const struct steer_registry *registry, uint64_t comm_id, struct steer_decision *ret,
			    struct diag *diag)
{
	struct steer_decision raw;
	char name[NAME_BYTES];
	int fd, r;

	comm_name(registry, 'd', comm_id, name);
	r = fd = sys_openat(registry->directory, name, O_RDONLY, 0);
	if (r >= 0)
		r = sys_pread_whole(fd, &raw, sizeof(raw), 0);
	sys_close(&fd);
	if (r == 0)
		r = steer_decision_read(&raw, sizeof(raw), ret);
	if (r == 0 && ret->comm_id != comm_id)
		r = -EINVAL;
	if (r < 0 && r != -ENOENT)
		diag_set(diag, 0, 0, "the decision cannot be read: %s", strerror(-r));
	return r;
}

/* The name is taken with the content already there, by one of all who try. */
static int publish(struct steer_registry *registry, int slot, const struct steer_decision *decision)
{
	char from[NAME_BYTES], to[NAME_BYTES];
	int fd, r;

	space_name(registry, slot, from);
	comm_name(registry, 'd', decision->comm_id, to);
	r = fd = sys_openat(registry->directory, from, O_WRONLY, 0);
	if (fd < 0)
		return r;
	r = sys_pwrite_whole(fd, decision, sizeof(*decision), 0);
	sys_close(&fd);
	if (r == 0)
		r = sys_renameat(registry->directory, from, to, SYS_RENAME_NO_REPLACE);
	return r;
}

int steer_registry_decide(struct steer_registry *registry, int slot, struct steer_decision *decision,
			  bool *ret_is_author, struct diag *diag)
{
	int r;

	snprintf(decision->author, sizeof(decision->author), "%s", registry->id);
	steer_decision_seal(decision);
	r = publish(registry, slot, decision);
	*ret_is_author = r == 0;
	if (r == -EEXIST)
		r = steer_registry_decision(registry, decision->comm_id, decision, diag);
	else if (r < 0)
		diag_set(diag, 0, 0, "the decision cannot be written: %s", strerror(-r));
	return r == -ENOENT ? -EIO : r;
}

void steer_registry_forget(struct steer_registry *registry, uint64_t comm_id)
{
	char name[NAME_BYTES];

	comm_name(registry, 'd', comm_id, name);
	unlinkat(registry->directory, name, 0);
}
