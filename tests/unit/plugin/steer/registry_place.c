/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/plugin/steer/registry_place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "support/tree.h"

enum { CHILD_S = 60, NO_CONTAINER = 77 };

struct steer_process registry_place_process(uint32_t size, uint32_t rank)
{
	struct steer_process process;

	memset(&process, 0, sizeof(process));
	process.job_key = 1;
	process.host = REGISTRY_PLACE_HOST;
	process.local_size = size;
	process.local_rank = rank;
	process.world_size = size;
	return process;
}

int registry_place_open(void **state)
{
	struct steer_process process = registry_place_process(1, 0);
	struct registry_place *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	snprintf(place->root, sizeof(place->root), "/dev/shm/tributary-registry-XXXXXX");
	assert_non_null(mkdtemp(place->root));
	assert_int_equal(steer_registry_open(place->root, &process, &place->registry, &place->diag), 0);
	snprintf(place->folder, sizeof(place->folder), "%s", place->registry.path);
	*state = place;
	return 0;
}

int registry_place_close(void **state)
{
	struct registry_place *place = *state;

	steer_registry_close(&place->registry);
	tree_remove(place->root);
	free(place);
	return 0;
}

static struct steer_record record_of(uint64_t comm, const char *bus_id)
{
	struct steer_record record;

	memset(&record, 0, sizeof(record));
	record.comm_id = comm;
	snprintf(record.bus_id, sizeof(record.bus_id), "%s", bus_id);
	return record;
}

int registry_place_add(struct steer_registry *registry, uint64_t comm, const char *bus_id)
{
	struct steer_record record = record_of(comm, bus_id);

	return steer_registry_add(registry, &record);
}

void registry_place_scan(struct registry_place *place, uint64_t comm)
{
	assert_int_equal(steer_registry_scan(&place->registry, comm, &place->snapshot, &place->diag), 0);
}

void registry_place_decision(struct steer_decision *decision, uint64_t comm, int number)
{
	memset(decision, 0, sizeof(*decision));
	decision->comm_id = comm;
	decision->result = STEER_NCCL_SEARCHES;
	snprintf(decision->reason, sizeof(decision->reason), "%d", number);
}

static int other_replace(struct steer_registry *registry)
{
	struct steer_process_file *file = registry->own;

	file->magic++;
	return sys_pwrite_whole(registry->process_fd, file, sizeof(*file), 0);
}

static int other_tear(struct steer_registry *registry)
{
	struct steer_record record = record_of(5, "0000:11:00.0");

	record.used = 1; /* with a checksum that is wrong */
	return sys_pwrite_whole(registry->process_fd, &record, sizeof(record),
				offsetof(struct steer_process_file, records));
}

static int other_do(struct steer_registry *registry, enum registry_order order)
{
	static struct steer_decision decision;
	struct diag diag;
	bool is_author;
	pid_t pid;

	switch (order) {
	case REGISTRY_ADD:
		return registry_place_add(registry, 5, "0000:11:00.0");
	case REGISTRY_CLAIM:
		return steer_registry_claim(registry, 5);
	case REGISTRY_DECIDE:
		registry_place_decision(&decision, 5, 1);
		return steer_registry_decide(registry, 0, &decision, &is_author, &diag);
	case REGISTRY_TEAR:
		return other_tear(registry);
	case REGISTRY_REPLACE:
		return other_replace(registry);
	case REGISTRY_FORK:
		pid = fork();
		if (!pid)
			alarm(CHILD_S);
		while (!pid)
			pause();
		return pid;
	default:
		steer_registry_close(registry);
		_exit(0);
	}
}

static void other_main(const char *root, int orders, int replies)
{
	struct steer_process process = registry_place_process(1, 1);
	struct steer_registry registry;
	enum registry_order order;
	struct diag diag;
	int reply;

	reply = steer_registry_open(root, &process, &registry, &diag);
	while (write(replies, &reply, sizeof(reply)) == sizeof(reply) &&
	       read(orders, &order, sizeof(order)) == sizeof(order))
		reply = other_do(&registry, order);
	_exit(1);
}

static int other_wait(const struct registry_other *other)
{
	int reply = -EPIPE;

	assert_int_equal(read(other->replies, &reply, sizeof(reply)), sizeof(reply));
	return reply;
}

bool registry_place_contain(void)
{
	pid_t pid;
	int status;

	if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
		return false;
	pid = fork();
	if (pid > 0) {
		if (waitpid(pid, &status, 0) != pid)
			_exit(99);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
	}
	return pid == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("proc", "/proc", "proc", 0, NULL) == 0;
}

static bool other_start(const struct registry_place *place, bool contained, struct registry_other *ret)
{
	int down[2], up[2], reply;

	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	*ret = (struct registry_other){ fork(), down[1], up[0] };
	assert_true(ret->pid >= 0);
	if (!ret->pid) {
		close(down[1]);
		close(up[0]);
		if (contained && !registry_place_contain())
			_exit(NO_CONTAINER);
		other_main(place->root, down[0], up[1]);
	}
	close(down[0]);
	close(up[1]);
	if (read(ret->replies, &reply, sizeof(reply)) == sizeof(reply)) {
		assert_int_equal(reply, 0);
		return true;
	}
	assert_int_equal(waitpid(ret->pid, &reply, 0), ret->pid);
	assert_true(contained && WIFEXITED(reply) && WEXITSTATUS(reply) == NO_CONTAINER);
	close(ret->orders);
	close(ret->replies);
	return false;
}

struct registry_other registry_other_start(const struct registry_place *place)
{
	struct registry_other ret;

	assert_true(other_start(place, false, &ret));
	return ret;
}

bool registry_other_contain(const struct registry_place *place, struct registry_other *ret)
{
	return other_start(place, true, ret);
}

int registry_other_do(const struct registry_other *other, enum registry_order order)
{
	assert_int_equal(write(other->orders, &order, sizeof(order)), sizeof(order));
	return order == REGISTRY_END ? 0 : other_wait(other);
}

void registry_other_end(struct registry_other *other, int signal)
{
	if (signal)
		kill(other->pid, signal);
	else
		(void)registry_other_do(other, REGISTRY_END);
	assert_int_equal(waitpid(other->pid, NULL, 0), other->pid);
	close(other->orders);
	close(other->replies);
}

void registry_place_sweep(const struct registry_place *place)
{
	struct registry_other other = registry_other_start(place);

	registry_other_end(&other, 0);
}
