/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/fork.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

static int disarm(void **state)
{
	(void)state;
	plugin_fork_disarm(&plugin_fork);
	return 0;
}

/* What plugin_fork_check() says in a child of a child of this process. */
static bool grandchild_is_forked(const struct plugin_fork *mark)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		pid_t grandchild = fork();

		if (grandchild == 0)
			_exit(plugin_fork_check(mark));
		if (grandchild < 0 || waitpid(grandchild, &status, 0) != grandchild || !WIFEXITED(status))
			_exit(2);
		_exit(WEXITSTATUS(status) == (int)plugin_fork_check(mark) ? WEXITSTATUS(status) : 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_in_range(WEXITSTATUS(status), 0, 1);
	return WEXITSTATUS(status);
}

static void before_arming_no_process_is_a_child(void **state)
{
	(void)state;
	assert_false(plugin_is_forked());
	assert_false(grandchild_is_forked(&plugin_fork));
}

static void children_are_found_by_the_wiped_page(void **state)
{
	(void)state;
	plugin_fork_arm(&plugin_fork);
	if (!plugin_fork.page) {
		print_message("skipped: this kernel, or qemu-user, has no MADV_WIPEONFORK\n");
		skip();
	}
	plugin_fork.owner = getpid(); /* as if the child had the parent's id in a pid namespace of its own */
	assert_false(plugin_is_forked());
	assert_true(grandchild_is_forked(&plugin_fork));
	assert_false(plugin_is_forked());
}

static void children_are_found_by_process_id(void **state)
{
	struct plugin_fork mark = PLUGIN_FORK_UNARMED;

	(void)state;
	plugin_fork_arm_by_pid(&mark);
	assert_null(mark.page);
	assert_false(plugin_fork_check(&mark));
	assert_true(grandchild_is_forked(&mark));
}

static void arming_again_changes_nothing_and_keeps_errno(void **state)
{
	void *page;

	(void)state;
	errno = EXDEV;
	plugin_fork_arm(&plugin_fork);
	page = plugin_fork.page;
	plugin_fork_arm(&plugin_fork);
	plugin_fork_arm_by_pid(&plugin_fork);
	assert_ptr_equal(plugin_fork.page, page);
	assert_int_equal(errno, EXDEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(before_arming_no_process_is_a_child, disarm),
		cmocka_unit_test_teardown(children_are_found_by_the_wiped_page, disarm),
		cmocka_unit_test_teardown(children_are_found_by_process_id, disarm),
		cmocka_unit_test_teardown(arming_again_changes_nothing_and_keeps_errno, disarm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
