/* SPDX-License-Identifier: Apache-2.0 */
/* Who is there: the other processes' files, read as they are. */
#include "plugin/steer/registry.h"

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { READ_TRIES = 100 }; /* a record may be in the middle of being written */

struct scan {
	struct steer_registry *registry;
	struct steer_snapshot *snapshot;
	uint64_t comm_id;
	struct steer_process_file file;
	unsigned char data[sizeof(struct steer_process_file)];
};

/* A record that is not whole is being written. */
static bool is_torn(const struct steer_process_file *raw, const struct steer_process_file *read)
{
	for (size_t i = 0; i < STEER_RECORDS; i++)
		if (raw->records[i].used && !read->records[i].used)
			return true;
	return false;
}

static int process_load(struct scan *scan, int fd)
{
	int r = -EINVAL;

	for (unsigned i = 0; i < READ_TRIES; i++) {
		r = sys_pread_whole(fd, scan->data, sizeof(scan->data), 0);
		if (r < 0)
			return r;
		r = steer_process_read(scan->data, sizeof(scan->data), &scan->file);
		if (r == 0 && !is_torn((const void *)scan->data, &scan->file))
			return 0;
		r = -EINVAL;
		sched_yield();
	}
	return r;
}

static int take_process(struct scan *scan, const struct steer_process_file *file, bool alive)
{
	struct steer_snapshot *snapshot = scan->snapshot;

	if (alive && snapshot->process_count == STEER_PROCESSES_MAX)
		return -E2BIG;
	if (alive)
		memcpy(&snapshot->processes[snapshot->process_count++], &file->process, sizeof(file->process));
	for (size_t i = 0; i < STEER_RECORDS; i++) {
		const struct steer_record *record = &file->records[i];
		struct steer_member *member;

		if (!record->used || record->comm_id != scan->comm_id || file->process.host != scan->registry->host)
			continue;
		if (!alive) {
			snapshot->dead_member_count++;
			continue;
		}
		if (snapshot->member_count++ >= STEER_MEMBERS_MAX)
			continue;
		member = &snapshot->members[snapshot->member_count - 1];
		memcpy(&member->process, &file->process, sizeof(member->process));
		memcpy(&member->record, record, sizeof(member->record));
	}
	return 0;
}

static int scan_one(void *arg, const char *name)
{
	struct scan *scan = arg;
	bool alive;
	int fd, r;

	if (steer_registry_is_own(scan->registry, name + 2))
		return 0;
	fd = sys_openat(scan->registry->directory, name, O_RDONLY, 0);
	if (fd < 0)
		return fd == -ENOENT || fd == -ELOOP ? 0 : fd; /* no process's file is a link */
	alive = steer_registry_file_is_locked(fd);
	r = process_load(scan, fd);
	sys_close(&fd);
	if (r == 0)
		return take_process(scan, &scan->file, alive);
	scan->snapshot->foreign_count += alive;
	return 0;
}

static int by_gpu(const void *left, const void *right)
{
	const struct steer_member *a = left, *b = right;

	return strcmp(a->record.bus_id, b->record.bus_id);
}

int steer_registry_scan(struct steer_registry *registry, uint64_t comm_id, struct steer_snapshot *ret,
			struct diag *diag)
{
	struct scan scan = { .registry = registry, .snapshot = ret, .comm_id = comm_id };
	int r;

	if (!registry->own) /* the process is ending */
		return -ESHUTDOWN;
	ret->process_count = ret->member_count = ret->dead_member_count = ret->foreign_count = 0;
	r = take_process(&scan, registry->own, true);
	if (r == 0)
		r = sys_each_name(registry->directory, ".", "p-", scan_one, &scan);
	if (r < 0)
		diag_set(diag, 0, 0, "the registry of processes cannot be read: %s", strerror(-r));
	else if (ret->member_count <= STEER_MEMBERS_MAX)
		qsort(ret->members, ret->member_count, sizeof(ret->members[0]), by_gpu);
	return r;
}
