/* SPDX-License-Identifier: Apache-2.0 */
/* That no failure is lost where tests run in processes of their own, and no hang goes unnamed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/parallel.h"
#include "support/runtime.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_BYTES = 16384 };

static bool set_up;

static int group_setup(void **state)
{
	(void)state;
	set_up = true;
	return 0;
}

static void passes(void **state)
{
	(void)state;
	assert_true(set_up);
	print_message("was here\n");
}

static void fails(void **state)
{
	(void)state;
	assert_true(false);
}

static void dies(void **state)
{
	(void)state;
	raise(SIGKILL);
}

static void hangs_until_the_program_is_told_to_end(void **state)
{
	(void)state;
	print_message("got so far\n");
	kill(getppid(), SIGTERM);
	for (;;)
		pause();
}

/* parallel_run() in a process of its own; the exit status, and all that it printed. */
static int run(const struct CMUnitTest *tests, size_t count, char text[static TEXT_BYTES])
{
	int output = memfd_create("output", MFD_CLOEXEC), status;
	ssize_t bytes;
	pid_t pid;

	assert_true(output >= 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(output, STDOUT_FILENO);
		dup2(output, STDERR_FILENO);
		exit(parallel_run(tests, count, group_setup, NULL));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	bytes = pread(output, text, TEXT_BYTES - 1, 0);
	assert_true(bytes > 0);
	text[bytes] = '\0';
	close(output);
	return WEXITSTATUS(status);
}

static void tests_that_pass_are_no_failure(void **state)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(passes), { "again", passes, NULL, NULL, NULL } };
	char text[TEXT_BYTES], *first;

	(void)state;
	assert_int_equal(run(tests, 2, text), 0);
	first = strstr(text, "was here");
	assert_non_null(first);
	assert_non_null(strstr(first + 1, "was here"));
	assert_non_null(strstr(text, "OK ] passes"));
	assert_non_null(strstr(text, "OK ] again"));
}

static void every_failure_counts(void **state)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(fails), cmocka_unit_test(passes), cmocka_unit_test(dies) };
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(run(tests, 3, text), 2);
	assert_non_null(strstr(text, "[  FAILED  ] fails"));
	assert_non_null(strstr(text, "OK ] passes"));
	assert_non_null(strstr(text, "dies: ended by signal 9"));
}

static void a_test_that_hangs_is_named_with_what_it_printed(void **state)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(hangs_until_the_program_is_told_to_end) };
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(run(tests, 1, text), 124);
	assert_non_null(strstr(text, "got so far"));
	assert_non_null(strstr(text, "hangs_until_the_program_is_told_to_end: still running"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tests_that_pass_are_no_failure),
		cmocka_unit_test(every_failure_counts),
		cmocka_unit_test(a_test_that_hangs_is_named_with_what_it_printed),
	};

	runtime_start("parallel_test", 30);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
