/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fresh directory for each test in place of /dev/shm, and the processes that share an arbiter in it. For one test
 * program each, so all is static.
 */
#ifndef TRIBUTARY_TESTS_UNIT_TRANSPORT_PACE_ARBITER_PLACE_H
#define TRIBUTARY_TESTS_UNIT_TRANSPORT_PACE_ARBITER_PLACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/pace/arbiter.h"

enum { QUANTUM = 1000, BUDGET = 10 * QUANTUM };

static char directory[64];

static inline int directory_make(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/tributary-arbiter-test.XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static inline unsigned files(char path[static 512])
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	unsigned count = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, 512, "%s/%s", directory, entry->d_name);
		count++;
	}
	closedir(dir);
	return count;
}

static inline int directory_remove(void **state)
{
	char path[512];

	(void)state;
	while (files(path))
		if (unlink(path) < 0)
			return -1;
	return rmdir(directory);
}

static inline struct pace_arbiter *open_one(const char *device)
{
	struct pace_arbiter *arbiter;
	struct diag diag;

	assert_int_equal(pace_arbiter_open(directory, device, &arbiter, &diag), 0);
	return arbiter;
}

static inline uint64_t reserve(struct pace_arbiter *arbiter, uint64_t outstanding, uint64_t wanted)
{
	return pace_arbiter_reserve(arbiter, outstanding, wanted, BUDGET, QUANTUM);
}

struct child {
	pid_t pid;
	int said, told; /* pipes: from the child, to the child */
};

static inline void wait_byte(int fd)
{
	char byte;

	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
}

/* A process that takes all it gets, says so, and stays until it is told to go. */
static inline struct child child_start(void)
{
	int said[2], told[2];
	struct child child;

	assert_int_equal(pipe(said), 0);
	assert_int_equal(pipe(told), 0);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		struct pace_arbiter *arbiter;
		struct diag diag;
		uint64_t more;

		close(told[1]);
		if (pace_arbiter_open(directory, "eth0", &arbiter, &diag) < 0)
			_exit(1);
		more = reserve(arbiter, 0, BUDGET);
		pace_arbiter_publish(arbiter, more, true, 0, 0);
		if (write(said[1], "x", 1) != 1)
			_exit(2);
		wait_byte(told[0]);
		pace_arbiter_close(arbiter);
		_exit(0);
	}
	close(said[1]);
	close(told[0]);
	child.said = said[0];
	child.told = told[1];
	wait_byte(child.said);
	return child;
}

static inline int child_end(struct child *child, int kill_with)
{
	int status;

	if (kill_with)
		kill(child->pid, kill_with);
	close(child->told);
	close(child->said);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, directory_make, directory_remove)

#endif
