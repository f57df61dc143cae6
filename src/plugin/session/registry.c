#include "plugin/session/registry.h"

#include "plugin/session/files.h"
#include "plugin/session/folder.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
	READ_MATTERS_MS = 3000,
	READ_TRIES = 100, /* a record may be in the middle of being written */
	NAME_BYTES = SESSION_FOLDER_NAME_BYTES,
	OPEN_TRIES = 1000, /* each time others have come and gone meanwhile */
	FILE_MODE = 0600,
};

/* ------------------------------------------------------------------------------------------------------------- names */

/* Of a plan's files, the number follows: its id ends before it. */
static bool id_without_number(const char *name, char id[static SESSION_ID_BYTES])
{
	const char *end = strrchr(name, '-');

	if (!end || end - name >= SESSION_ID_BYTES)
		return false;
	memcpy(id, name, (size_t)(end - name));
	id[end - name] = '\0';
	return true;
}

static void id_make(const struct process_identity *of, char id[static SESSION_ID_BYTES])
{
	snprintf(id, SESSION_ID_BYTES, "%08" PRIx32 "-%" PRIx64 "-%" PRIu32 "-%" PRIx64, (uint32_t)of->boot,
		 of->pid_namespace, of->pid, of->start_ticks);
}

/* What an id says; the upper half of the boot's number is taken from `self`. */
static bool id_read(const char *id, const struct process_identity *self, struct process_identity *ret)
{
	char text[NAME_BYTES], *part[4];
	uint64_t boot, pid;
	size_t count = 1;

	if (strlen(id) >= sizeof(text))
		return false;
	memcpy(text, id, strlen(id) + 1);
	part[0] = text;
	for (char *at = text; *at; at++) {
		if (*at != '-')
			continue;
		if (count == 4)
			return false;
		*at = '\0';
		part[count++] = at + 1;
	}
	if (count != 4 || parse_hex64(part[0], &boot) || boot > UINT32_MAX ||
	    parse_hex64(part[1], &ret->pid_namespace) || parse_u64(part[2], 1, INT32_MAX, &pid) ||
	    parse_hex64(part[3], &ret->start_ticks))
		return false;
	ret->boot = (uint32_t)boot == (uint32_t)self->boot ? self->boot : boot;
	ret->pid = (uint32_t)pid;
	return true;
}

static void decision_name(uint64_t comm_id, uint64_t host, char name[static NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "d-%016" PRIx64 "-%016" PRIx64, comm_id, host);
}

static void own_name(const struct session_registry *registry, char kind, char name[static NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "%c-%s", kind, registry->id);
}

/* -------------------------------------------------------------------------------------------------------- who is there */

/*
 * A lock of the kernel's, which goes with the process wherever its number means something. Without one nobody of another
 * process id namespace ever takes this process for gone.
 */
static void life_make(struct session_registry *registry)
{
	char name[NAME_BYTES], made[NAME_BYTES];
	int fd;

	own_name(registry, 'l', name);
	own_name(registry, 'n', made);
	unlinkat(registry->directory, made, 0);
	fd = sys_openat(registry->directory, made, O_RDWR | O_CREAT | O_EXCL, FILE_MODE);
	if (fd < 0)
		return;
	/* It has its name when it is locked: who finds it free takes it for that of a process that has gone. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || sys_renameat(registry->directory, made, name, 0) < 0) {
		unlinkat(registry->directory, made, 0);
		sys_close(&fd);
	}
	registry->life_fd = fd;
}

/* Whether its lock is there, and nobody has it. Forked children have it too; then it is said later. */
static bool life_has_ended(const struct session_registry *registry, const struct process_identity *of)
{
	char id[SESSION_ID_BYTES], name[NAME_BYTES];
	bool ended;
	int fd;

	id_make(of, id);
	snprintf(name, sizeof(name), "l-%s", id);
	fd = session_folder_file(registry->directory, name, 0);
	if (fd < 0)
		return false;
	ended = flock(fd, LOCK_SH | LOCK_NB) == 0;
	sys_close(&fd);
	return ended;
}

static enum process_state state_of(const struct session_registry *registry, const struct process_identity *of)
{
	enum process_state state = process_state(of, &registry->self);

	return state == PROCESS_UNKNOWN && life_has_ended(registry, of) ? PROCESS_GONE : state;
}

/* ------------------------------------------------------------------------------------------------------------- sweep */

static bool decision_is_deserted(struct session_registry *registry, const char *name)
{
	struct session_decision decision;
	int fd = session_folder_file(registry->directory, name, sizeof(decision)), r;
	struct process_identity author;

	if (fd < 0)
		return false;
	/* Only the author is asked for, so that one of another version goes too. */
	r = sys_pread_whole(fd, &author, sizeof(author), offsetof(struct session_decision, author));
	sys_close(&fd);
	return r == 0 && state_of(registry, &author) == PROCESS_GONE;
}

static int sweep_one(void *arg, const char *name)
{
	struct session_registry *registry = arg;
	struct process_identity of;
	char id[SESSION_ID_BYTES];
	bool gone = false;

	if (name[0] == 'd')
		gone = decision_is_deserted(registry, name);
	else if (strchr("xy", name[0]))
		gone = id_without_number(name + 2, id) && id_read(id, &registry->self, &of) &&
		       state_of(registry, &of) == PROCESS_GONE;
	else if (strchr("pgots", name[0]) && id_read(name + 2, &registry->self, &of))
		gone = state_of(registry, &of) == PROCESS_GONE;
	else if (name[0] == 'n' && id_read(name + 2, &registry->self, &of))
		gone = process_state(&of, &registry->self) == PROCESS_GONE; /* it may have no lock yet */
	if (gone)
		unlinkat(registry->directory, name, 0);
	return 0;
}

static int sweep_life(void *arg, const char *name)
{
	struct session_registry *registry = arg;
	struct process_identity of;

	if (name[0] == 'l' && id_read(name + 2, &registry->self, &of) && state_of(registry, &of) == PROCESS_GONE)
		unlinkat(registry->directory, name, 0);
	return 0;
}

/* By the locks it is told whose the other files are, so they go last. */
static void sweep(struct session_registry *registry)
{
	if (session_folder_walk(registry->directory, sweep_one, registry) == 0)
		session_folder_walk(registry->directory, sweep_life, registry);
}

/* -------------------------------------------------------------------------------------------------------- this process */

static int process_make(struct session_registry *registry, const struct session_process *process)
{
	char name[NAME_BYTES], made[NAME_BYTES];
	int r;

	registry->own = sys_zalloc(sizeof(*registry->own));
	if (!registry->own)
		return -ENOMEM;
	memcpy(&registry->own->process, process, sizeof(*process));
	registry->own->process.identity = registry->self;
	session_process_seal(registry->own);
	own_name(registry, 'p', name);
	own_name(registry, 'n', made);
	r = registry->process_fd = session_folder_make(registry->directory, made, sizeof(*registry->own));
	if (r >= 0)
		r = sys_pwrite_whole(registry->process_fd, registry->own, sizeof(*registry->own), 0);
	/* It has its name when it is whole; one of the same name is from this process's earlier life in a test. */
	if (r == 0)
		r = sys_renameat(registry->directory, made, name, 0);
	if (r < 0)
		unlinkat(registry->directory, made, 0);
	return r;
}

/* Opens the folder and puts a file into it, which keeps it there. */
static int enter(const char *shared_folder, struct session_registry *registry, struct diag *diag)
{
	for (unsigned i = 0; i < OPEN_TRIES; i++) {
		int fd = session_folder_open(shared_folder, registry->path, sizeof(registry->path), diag);

		if (fd < 0)
			return fd;
		registry->directory = fd;
		life_make(registry);
		if (session_folder_has_name(fd))
			return 0;
		sys_close(&registry->life_fd);
		sys_close(&registry->directory);
	}
	diag_set(diag, 0, 0, "%.128s was removed again and again", registry->path);
	return -EBUSY;
}

int session_registry_open(const char *shared_folder, const struct session_process *process,
			  struct session_registry *ret, struct diag *diag)
{
	int saved_errno = errno, r;

	*ret = (struct session_registry){ .directory = -1, .process_fd = -1, .life_fd = -1 };
	r = process_identity(&ret->self);
	if (r < 0) {
		diag_set(diag, 0, 0, "/proc does not know this process");
		goto out;
	}
	id_make(&ret->self, ret->id);
	r = enter(shared_folder, ret, diag);
	if (r < 0)
		goto out;
	sweep(ret);
	if (!process)
		goto out;
	r = process_make(ret, process);
	if (r < 0) {
		diag_set(diag, 0, 0, "%.128s: %s", ret->path, strerror(-r));
		goto out;
	}
	(void)session_registry_spare(ret); /* asked for again for each communicator */
out:
	if (r < 0)
		session_registry_close(ret);
	errno = saved_errno;
	return r;
}

bool session_registry_is_there(const struct session_registry *registry)
{
	int saved_errno = errno;
	bool is_there = registry->process_fd >= 0 && session_folder_has_name(registry->process_fd);

	errno = saved_errno;
	return is_there;
}

void session_registry_withdraw(struct session_registry *registry)
{
	static const char kinds[] = "pns";
	char name[NAME_BYTES];

	for (size_t i = 0; registry->directory >= 0 && kinds[i]; i++) {
		int saved_errno = errno;

		own_name(registry, kinds[i], name);
		unlinkat(registry->directory, name, 0);
		errno = saved_errno;
	}
	sys_free(registry->own);
	registry->own = NULL;
	registry->has_spare = false;
	sys_close(&registry->process_fd);
}

void session_registry_close(struct session_registry *registry)
{
	char name[NAME_BYTES];
	int saved_errno = errno;

	session_registry_withdraw(registry);
	if (registry->life_fd >= 0) {
		own_name(registry, 'l', name);
		unlinkat(registry->directory, name, 0);
	}
	if (registry->directory >= 0)
		(void)rmdir(registry->path); /* if we were the last one */
	errno = saved_errno;
	sys_close(&registry->life_fd);
	sys_close(&registry->directory);
}

int session_registry_write(struct session_registry *registry, unsigned slot, const struct session_record *record)
{
	struct session_record *own;

	if (!registry->own) /* withdrawn at exit, while this thread was waiting */
		return -ESHUTDOWN;
	if (slot >= SESSION_RECORDS)
		return -EINVAL;
	own = &registry->own->records[slot];
	memcpy(own, record, sizeof(*own));
	session_record_seal(own);
	return sys_pwrite_whole(registry->process_fd, own, sizeof(*own),
				offsetof(struct session_process_file, records) + slot * sizeof(*own));
}

static int header_write(struct session_registry *registry)
{
	session_process_seal(registry->own);
	return sys_pwrite_whole(registry->process_fd, registry->own, offsetof(struct session_process_file, records), 0);
}

int session_registry_overflow(struct session_registry *registry)
{
	if (!registry->own)
		return -ESHUTDOWN;
	registry->own->process.overflowed = 1;
	return header_write(registry);
}

int session_registry_readers(struct session_registry *registry, const struct session_reader_counts *readers)
{
	if (!registry->own || !memcmp(&registry->own->process.readers, readers, sizeof(*readers)))
		return 0;
	registry->own->process.readers = *readers;
	return header_write(registry);
}

/* ------------------------------------------------------------------------------------------------------------- others */

struct look {
	struct session_registry *registry;
	struct session_census *census;
	struct session_process_file file;
	uint64_t comm_id, host;
	unsigned char data[sizeof(struct session_process_file)];
};

/* A header or record of ours that is not whole is being written: come again. */
static bool is_torn(const struct session_process_file *raw, const struct session_process_file *read)
{
	for (size_t i = 0; i < SESSION_RECORDS; i++)
		if (raw->records[i].used && !read->records[i].used)
			return true;
	return false;
}

/* -ENOENT: gone; -EINVAL: not one, or of another version. */
static int process_load(struct look *look, const char *name)
{
	int fd = session_folder_file(look->registry->directory, name, sizeof(look->file)), r = 0;

	if (fd < 0)
		return fd;
	for (unsigned i = 0; i < READ_TRIES; i++) {
		r = sys_pread_whole(fd, look->data, sizeof(look->data), 0);
		if (r < 0)
			break;
		r = session_process_read(look->data, sizeof(look->data), &look->file);
		if (r == 0 && !is_torn((const void *)look->data, &look->file))
			break;
		r = -EINVAL;
		sched_yield();
	}
	sys_close(&fd);
	return r;
}

/* Who has read shows for a while that others of the same communicator, who have not, are to read yet. */
static bool matters(const struct session_record *record, uint64_t now_ns)
{
	return record->phase != SESSION_AWAY &&
	       (record->phase != SESSION_HAS_READ ||
		clock_elapsed_ns(record->phase_ns, now_ns) < READ_MATTERS_MS * NS_PER_MS);
}

static void note_other(struct look *look, const struct session_record *record)
{
	struct session_census *census = look->census;

	if (census->other_count++ >= SESSION_OTHERS_MAX)
		return;
	census->others[census->other_count - 1] = (struct session_other){
		.identity = look->file.process.identity,
		.job_key = look->file.process.job_key,
		.comm_id = record->comm_id,
		.serial = record->serial,
		.phase_ns = record->phase_ns,
		.phase = (enum session_phase)record->phase,
	};
}

static int look_at_records(struct look *look, enum process_state state)
{
	struct session_census *census = look->census;

	for (size_t i = 0; i < SESSION_RECORDS; i++) {
		const struct session_record *record = &look->file.records[i];
		struct session_member *member;

		if (!record->used || record->host != look->host)
			continue;
		if (record->comm_id != look->comm_id) {
			if (state != PROCESS_GONE && matters(record, census->now_ns))
				note_other(look, record);
			continue;
		}
		if (census->member_count++ >= SESSION_MEMBERS_MAX)
			continue;
		member = &census->members[census->member_count - 1];
		memcpy(&member->process, &look->file.process, sizeof(member->process));
		memcpy(&member->record, record, sizeof(member->record));
		member->state = state;
	}
	return 0;
}

static int look_at(void *arg, const char *name)
{
	struct look *look = arg;
	struct session_census *census = look->census;
	struct process_identity of;
	enum process_state state;
	int r;

	if (name[0] != 'p' || !id_read(name + 2, &look->registry->self, &of))
		return 0;
	r = process_load(look, name);
	if (r == -ENOENT || (r < 0 && state_of(look->registry, &of) == PROCESS_GONE))
		return 0;
	if (r < 0)
		return r; /* one that is there cannot be read: who is there is not known */
	if (!process_identity_same(&of, &look->file.process.identity))
		return -EINVAL;
	state = state_of(look->registry, &of);
	if (state != PROCESS_GONE) {
		if (census->process_count == SESSION_PROCESSES_MAX)
			return -E2BIG;
		memcpy(&census->processes[census->process_count], &look->file.process, sizeof(look->file.process));
		census->states[census->process_count++] = state;
	}
	return look_at_records(look, state);
}

int session_registry_look(struct session_registry *registry, uint64_t comm_id, uint64_t host,
			  struct session_census *ret, struct diag *diag)
{
	int saved_errno = errno, r;
	struct look *look = sys_zalloc(sizeof(*look));

	if (!look)
		return -ENOMEM;
	*look = (struct look){ .registry = registry, .census = ret, .comm_id = comm_id, .host = host };
	ret->process_count = ret->member_count = ret->other_count = 0;
	ret->now_ns = clock_now_ns();
	r = session_folder_walk(registry->directory, look_at, look);
	if (r < 0)
		diag_set(diag, 0, 0, "the registry of processes cannot be read: %s", strerror(-r));
	sys_free(look);
	errno = saved_errno;
	return r;
}

/* ---------------------------------------------------------------------------------------------------------- decisions */

int session_registry_spare(struct session_registry *registry)
{
	char name[NAME_BYTES];
	int saved_errno = errno, fd;

	if (registry->has_spare)
		return 0;
	own_name(registry, 's', name);
	fd = session_folder_make(registry->directory, name, sizeof(struct session_decision));
	registry->has_spare = fd >= 0;
	errno = saved_errno;
	if (fd < 0)
		return fd;
	sys_close(&fd);
	return 0;
}

int session_registry_decision(struct session_registry *registry, uint64_t comm_id, uint64_t host,
			      struct session_decision *ret, struct diag *diag)
{
	struct session_decision *raw = sys_zalloc(sizeof(*raw));
	int saved_errno = errno, fd, r;
	char name[NAME_BYTES];

	if (!raw)
		return -ENOMEM;
	decision_name(comm_id, host, name);
	r = fd = session_folder_file(registry->directory, name, sizeof(*raw));
	if (fd >= 0) {
		r = sys_pread_whole(fd, raw, sizeof(*raw), 0);
		sys_close(&fd);
	}
	if (r == 0)
		r = session_decision_read(raw, sizeof(*raw), ret);
	if (r == 0 && (ret->comm_id != comm_id || ret->host != host))
		r = -EINVAL;
	if (r < 0 && r != -ENOENT)
		diag_set(diag, 0, 0, "what was decided cannot be read: %s", strerror(-r));
	sys_free(raw);
	errno = saved_errno;
	return r;
}

/* The name is taken with the content already there, by one of all who try. */
static int claim(struct session_registry *registry, const struct session_decision *decision, const char *name)
{
	char spare[NAME_BYTES];
	int fd, r;

	own_name(registry, 's', spare);
	r = fd = sys_openat(registry->directory, spare, O_WRONLY, 0);
	if (fd < 0)
		return r;
	r = sys_pwrite_whole(fd, decision, sizeof(*decision), 0);
	sys_close(&fd);
	if (r == 0)
		r = sys_renameat(registry->directory, spare, name, SYS_RENAME_NO_REPLACE);
	if (r == 0)
		registry->has_spare = false;
	return r;
}

int session_registry_decide(struct session_registry *registry, struct session_decision *decision, struct diag *diag)
{
	uint64_t comm_id = decision->comm_id, host = decision->host;
	int saved_errno = errno, r = -ENOSPC;
	char name[NAME_BYTES];

	decision->author = registry->self;
	session_decision_seal(decision);
	decision_name(comm_id, host, name);
	if (registry->has_spare)
		r = claim(registry, decision, name);
	if (r == -EEXIST || r == -ENOSPC) {
		int found = session_registry_decision(registry, comm_id, host, decision, diag);

		if (found != -ENOENT || r == -EEXIST)
			r = found == -ENOENT ? -EIO : found;
	}
	if (r < 0)
		diag_set(diag, 0, 0, "a decision for the communicator cannot be written: %s", strerror(-r));
	errno = saved_errno;
	return r;
}

void session_registry_forget(struct session_registry *registry, uint64_t comm_id, uint64_t host)
{
	int saved_errno = errno;
	char name[NAME_BYTES];

	decision_name(comm_id, host, name);
	unlinkat(registry->directory, name, 0);
	errno = saved_errno;
}

/* ------------------------------------------------------------------------------------------------------ others' plans */

enum session_plan_state session_registry_plan_state(const struct session_registry *registry,
						    const struct process_identity *of, uint64_t serial)
{
	char id[SESSION_ID_BYTES];

	id_make(of, id);
	return session_files_plan_state(registry->directory, id, serial);
}

void session_registry_retract(const struct session_registry *registry, const struct process_identity *of,
			      uint64_t serial)
{
	char id[SESSION_ID_BYTES];

	id_make(of, id);
	session_files_retract(registry->directory, id, serial);
}

bool session_registry_was_read(const struct session_registry *registry, const struct process_identity *of)
{
	char id[SESSION_ID_BYTES];

	id_make(of, id);
	return session_files_of_other_was_read(registry->directory, id);
}
