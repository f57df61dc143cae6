/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins with one thing wrong (libs/mutant.c): the schedules of random_test find each of them, and nothing in a right one. */
#include "play.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SCHEDULES = 200, OF_A_RIGHT_ONE = 30, FOUND = 1, NOT_FOUND = 0, NOT_OPENED = 77 };

/* Until the judge finds something. */
static int play_mutant(const char *mutant, unsigned schedules)
{
	char folder[] = "/tmp/standin-XXXXXX";
	static struct play play;
	unsigned seed = 0;
	int result = NOT_FOUND;

	if (!mkdtemp(folder) || play_open(&play, folder, mutant) < 0)
		return NOT_OPENED;
	while (result == NOT_FOUND && seed < schedules) {
		schedule_run(&play, ++seed);
		if (play.failed)
			result = FOUND;
	}
	printf("%-45s schedule %u: %s\n", mutant, seed, result == FOUND ? play.why : "nothing");
	tree_remove(folder);
	return result;
}

static int play_apart(const char *mutant, unsigned schedules)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		int result = play_mutant(mutant, schedules);

		fflush(NULL);
		_exit(result);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NOT_OPENED) {
		printf("skipped: no namespaces here\n");
		skip();
	}
	return WEXITSTATUS(status);
}

static void nothing_is_found_in_a_right_one(void **state)
{
	(void)state;
	assert_int_equal(play_apart("nothing", OF_A_RIGHT_ONE), NOT_FOUND);
}

static void each_wrong_one_is_found(void **state)
{
	static const char *const mutants[] = {
		"plans although a rank lacks the plugin",
		"takes the decision of an earlier id",
		"plans for other GPUs",
		"gives one rank no plan",
		"keeps its record after NCCL_PROTO",
		"waits for another rank",
		"misses plans",
		"takes unlike settings for alike",
		"takes unwilling ranks for willing",
		"takes unlike tables for alike",
		"follows a table within the first group",
		"plans for shrunk communicators",
		"answers a split with its parent's plan",
		"leaves its file behind",
		"leaves decisions behind",
		"changes errno",
		"crashes",
		"crashes as it is opened",
	};
	unsigned missed = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++)
		missed += play_apart(mutants[i], SCHEDULES) != FOUND;
	assert_int_equal(missed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_found_in_a_right_one),
		cmocka_unit_test(each_wrong_one_is_found),
	};

	runtime_start("standin/mutant_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
