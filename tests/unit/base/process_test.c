/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_process_is_known_by_more_than_its_number(void **state)
{
	struct process_identity self, again, other;

	(void)state;
	errno = EXDEV;
	assert_int_equal(process_identity(&self), 0);
	assert_int_equal(process_identity(&again), 0);
	assert_true(self.boot == again.boot && self.pid_namespace == again.pid_namespace &&
		    self.start_ticks == again.start_ticks && self.pid == again.pid);
	assert_int_equal(self.pid, getpid());
	assert_int_equal(process_state(&self, &self), PROCESS_ALIVE);
	other = self;
	other.start_ticks++;
	assert_int_equal(process_state(&other, &self), PROCESS_GONE);
	other = self;
	other.boot++;
	assert_int_equal(process_state(&other, &self), PROCESS_GONE);
	other = self;
	other.pid_namespace++;
	assert_int_equal(process_state(&other, &self), PROCESS_UNKNOWN);
	assert_int_equal(errno, EXDEV);
}

static void a_user_is_the_one_of_the_host(void **state)
{
	static const char rootless[] = "         0       1000          1\n         1     100000      65536\n";

	(void)state;
	assert_int_equal(process_user_outside(rootless, 0), 1000);
	assert_int_equal(process_user_outside(rootless, 1), 100000);
	assert_int_equal(process_user_outside(rootless, 65536), 165535);
	assert_int_equal(process_user_outside(rootless, 65537), 65537);
	assert_int_equal(process_user_outside("0 0 4294967295\n", 4294967294), 4294967294);
	assert_int_equal(process_user_outside("nonsense", 7), 7);
	errno = EXDEV;
	(void)process_user();
	assert_int_equal(errno, EXDEV);
}

static void a_process_that_has_ended_is_gone(void **state)
{
	struct process_identity self, child;
	siginfo_t ended;
	int ready[2];
	pid_t pid;

	(void)state;
	assert_int_equal(process_identity(&self), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		process_identity(&child);
		if (write(ready[1], &child, sizeof(child)) != (ssize_t)sizeof(child))
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &child, sizeof(child)), sizeof(child));
	assert_int_equal(child.pid, pid);
	assert_int_equal(process_state(&child, &self), PROCESS_ALIVE);
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
	assert_int_equal(process_state(&child, &self), PROCESS_GONE); /* though its parent has not asked how it ended */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(process_state(&child, &self), PROCESS_GONE);
	close(ready[0]);
	close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_user_is_the_one_of_the_host),
		cmocka_unit_test(a_process_is_known_by_more_than_its_number),
		cmocka_unit_test(a_process_that_has_ended_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
