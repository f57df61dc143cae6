/* SPDX-License-Identifier: Apache-2.0 */
#include "arbiter_place.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "support/runtime.h"
#include "transport/pace/arbiter_file.h"

enum { CROWD = 3 };

static void file_is_the_owners_alone_and_goes_with_the_last_process(void **state)
{
	struct pace_arbiter *first, *second;
	char path[512];
	struct stat st;

	(void)state;
	first = open_one("eth0/../x y");
	second = open_one("eth0/../x y");
	assert_int_equal(files(path), 1);
	assert_null(strchr(path + strlen(directory) + 1, '/'));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, sizeof(struct pace_arbiter_shared));
	pace_arbiter_close(first);
	assert_int_equal(files(path), 1);
	pace_arbiter_close(second);
	assert_int_equal(files(path), 0);
	pace_arbiter_close(NULL);
}

static void refused(int error)
{
	struct pace_arbiter *arbiter;
	struct diag diag = { 0 };

	errno = 77;
	assert_int_equal(pace_arbiter_open(directory, "eth0", &arbiter, &diag), error);
	assert_true(strlen(diag.text) > 0);
	assert_int_equal(errno, 77);
}

/* Leaves a file under the arbiter's name. */
static int file_make(char path[static 512])
{
	struct pace_arbiter *arbiter = open_one("eth0");
	int fd;

	assert_int_equal(files(path), 1);
	pace_arbiter_close(arbiter);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

static void files_that_are_not_ours_are_refused_and_left_alone(void **state)
{
	struct pace_arbiter *arbiter;
	char path[512], other[600];
	struct stat st;
	struct diag diag;
	int fd = file_make(path);

	(void)state;
	assert_int_equal(fchmod(fd, 0644), 0);
	refused(-EPERM);
	assert_int_equal(fchmod(fd, 0600), 0);
	snprintf(other, sizeof(other), "%s.link", path);
	assert_int_equal(link(path, other), 0);
	refused(-EPERM);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(ftruncate(fd, 100), 0);
	refused(-EPROTO);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(write(fd, "something", 9), 9);
	assert_int_equal(ftruncate(fd, sizeof(struct pace_arbiter_shared)), 0);
	refused(-EPROTO);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, sizeof(struct pace_arbiter_shared));
	close(fd);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	refused(-ELOOP);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(-EPROTO);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(pace_arbiter_open("/nonexistent", "eth0", &arbiter, &diag), -ENOENT);
}

static void a_file_of_another_user_is_refused(void **state)
{
	char path[512];
	int fd;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can give a file away\n");
		skip();
	}
	fd = file_make(path);
	if (fchown(fd, 12345, (gid_t)-1) < 0) {
		close(fd);
		print_message("skipped: this root cannot give a file away\n");
		skip();
	}
	close(fd);
	refused(-EPERM);
}

static void a_lock_that_is_held_does_not_hang(void **state)
{
	char path[512];
	int fd = file_make(path);
	struct pace_arbiter_file file = { .fd = fd };

	(void)state;
	assert_int_equal(pace_arbiter_file_lock(&file), 0);
	refused(-EBUSY);
	pace_arbiter_file_unlock(&file);
	pace_arbiter_close(open_one("eth0"));
	close(fd);
}

/* On a machine that has other things to do. */
static void a_lock_that_is_held_for_a_while_is_waited_for(void **state)
{
	enum { HELD_US = 200000 };
	char path[512];
	int fd = file_make(path);
	struct pace_arbiter_file file = { .fd = fd };
	pid_t holder;

	(void)state;
	assert_int_equal(pace_arbiter_file_lock(&file), 0);
	holder = fork();
	assert_true(holder >= 0);
	if (holder == 0) {
		usleep(HELD_US);
		_exit(0); /* the lock goes with the last copy of the descriptor */
	}
	close(fd);
	pace_arbiter_close(open_one("eth0"));
	assert_int_equal(waitpid(holder, NULL, 0), holder);
	assert_int_equal(files(path), 0);
}

static void what_killed_processes_left_for_other_devices_is_swept(void **state)
{
	struct pace_arbiter *arbiter, *other;
	struct child child;
	char path[512];

	(void)state;
	child = child_start();
	other = open_one("eth2");
	assert_int_equal(files(path), 2);
	child_end(&child, SIGKILL);
	arbiter = open_one("eth1");
	assert_int_equal(files(path), 2); /* eth0's is gone, eth2's is in use */
	pace_arbiter_close(other);
	pace_arbiter_close(arbiter);
	assert_int_equal(files(path), 0);
}

/* Joining and leaving at once: the file is removed only when nobody is in it, and nobody is left on a removed one. */
static void processes_that_come_and_go_meet_in_one_file(void **state)
{
	pid_t pids[CROWD];
	char path[512];

	(void)state;
	for (unsigned i = 0; i < CROWD; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] != 0)
			continue;
		for (unsigned k = 0; k < 300; k++) {
			struct pace_arbiter *arbiter;
			struct diag diag;
			struct stat st;

			if (pace_arbiter_open(directory, "eth0", &arbiter, &diag) < 0)
				_exit(1);
			if (files(path) != 1 || stat(path, &st) < 0)
				_exit(2);
			pace_arbiter_close(arbiter);
		}
		_exit(0);
	}
	for (unsigned i = 0; i < CROWD; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	assert_int_equal(files(path), 0);
}

/* As a job ends whose NCCL has no finalize; and a forked child that ends is not its parent. */
static void a_process_that_ends_without_closing_leaves_no_file(void **state)
{
	struct pace_arbiter *own;
	char path[512];
	int status;
	pid_t pid;

	(void)state;
	if (runtime_sanitized()) /* a leak checker has its say at exit */
		skip();
	for (unsigned i = 0; i < 2; i++) {
		own = i ? open_one("eth0") : NULL;
		pid = fork();
		assert_true(pid >= 0);
		if (!pid) {
			(void)(i ? NULL : open_one("eth0"));
			close(STDOUT_FILENO); /* what the test has in its buffers is its own */
			close(STDERR_FILENO);
			exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_int_equal(files(path), i);
		if (!own)
			continue;
		pace_arbiter_tick(own, 1);
		assert_int_equal(pace_arbiter_processes(own), 1);
		pace_arbiter_close(own);
		assert_int_equal(files(path), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIRECTORY(file_is_the_owners_alone_and_goes_with_the_last_process),
		IN_DIRECTORY(files_that_are_not_ours_are_refused_and_left_alone),
		IN_DIRECTORY(a_file_of_another_user_is_refused),
		IN_DIRECTORY(a_lock_that_is_held_does_not_hang),
		IN_DIRECTORY(a_lock_that_is_held_for_a_while_is_waited_for),
		IN_DIRECTORY(what_killed_processes_left_for_other_devices_is_swept),
		IN_DIRECTORY(processes_that_come_and_go_meet_in_one_file),
		IN_DIRECTORY(a_process_that_ends_without_closing_leaves_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
