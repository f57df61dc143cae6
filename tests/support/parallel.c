/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/parallel.h"
#include "support/runtime.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
	pid_t pid; /* 0: it has ended */
	int output;
};

static void child_start(const struct CMUnitTest *test, CMFixtureFunction setup, CMFixtureFunction teardown,
			const sigset_t *signals, struct child *ret)
{
	pid_t parent = getpid();

	ret->output = memfd_create(test->name, MFD_CLOEXEC);
	if (ret->output < 0)
		exit(-runtime_complain(2, "%s: no file for its output: %s", test->name, strerror(errno)));
	ret->pid = fork();
	if (ret->pid < 0)
		exit(-runtime_complain(2, "%s: no process: %s", test->name, strerror(errno)));
	if (ret->pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(2);
	sigprocmask(SIG_SETMASK, signals, NULL);
	dup2(ret->output, STDOUT_FILENO);
	dup2(ret->output, STDERR_FILENO);
	setvbuf(stdout, NULL, _IOLBF, 0); /* in order with what goes to stderr */
	exit(_cmocka_run_group_tests(test->name, test, 1, setup, teardown) ? 1 : 0);
}

static void child_print(struct child *child)
{
	char text[4096];
	off_t at = 0;
	ssize_t got;

	while ((got = pread(child->output, text, sizeof(text), at)) > 0 &&
	       fwrite(text, 1, (size_t)got, stdout) == (size_t)got)
		at += got;
	fflush(stdout);
	close(child->output);
}

/* Those that have ended; the number of them that failed. */
static int children_reap(const struct CMUnitTest *tests, struct child *children, size_t count, size_t *left)
{
	int failed = 0, status;

	for (size_t i = 0; i < count; i++) {
		if (!children[i].pid || waitpid(children[i].pid, &status, WNOHANG) != children[i].pid)
			continue;
		children[i].pid = 0;
		--*left;
		child_print(&children[i]);
		if (WIFSIGNALED(status))
			printf("%s: ended by signal %d\n", tests[i].name, WTERMSIG(status));
		else if (WEXITSTATUS(status) > 1)
			printf("%s: ended with status %d\n", tests[i].name, WEXITSTATUS(status));
		failed += status != 0;
	}
	return failed;
}

static _Noreturn void children_give_up(const struct CMUnitTest *tests, struct child *children, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!children[i].pid)
			continue;
		kill(children[i].pid, SIGKILL);
		waitpid(children[i].pid, NULL, 0);
		child_print(&children[i]);
		printf("%s: still running\n", tests[i].name);
	}
	fflush(stdout);
	_exit(124);
}

int parallel_run(const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup, CMFixtureFunction teardown)
{
	const char *filter = runtime_setting("TEST_FILTER");
	struct child children[32];
	sigset_t awaited, before;
	size_t left = count;
	int failed = 0;

	if (filter) {
		cmocka_set_test_filter(filter);
		return _cmocka_run_group_tests("tests", tests, count, setup, teardown);
	}
	if (count > sizeof(children) / sizeof(children[0]))
		exit(-runtime_complain(2, "more than %zu tests", sizeof(children) / sizeof(children[0])));
	sigemptyset(&awaited);
	sigaddset(&awaited, SIGCHLD);
	sigaddset(&awaited, SIGALRM);
	sigaddset(&awaited, SIGTERM);
	sigaddset(&awaited, SIGINT);
	sigprocmask(SIG_BLOCK, &awaited, &before);
	fflush(NULL);
	for (size_t i = 0; i < count; i++)
		child_start(&tests[i], setup, teardown, &before, &children[i]);
	while (left) {
		int signal_number = sigwaitinfo(&awaited, NULL);

		if (signal_number > 0 && signal_number != SIGCHLD)
			children_give_up(tests, children, count);
		failed += children_reap(tests, children, count, &left);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return failed;
}
