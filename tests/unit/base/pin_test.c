/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pin.h"
#include "support/runtime.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void lists_are_read_as_the_kernel_writes_them(void **state)
{
	static const char *const wrong[] = { "", "a", "1-", "-1", "3-1", "1,,b", "1 2", "99999", "0x1" };
	cpu_set_t set;

	(void)state;
	assert_true(pin_read_list("0-3,8", &set));
	assert_int_equal(CPU_COUNT(&set), 5);
	assert_true(CPU_ISSET(0, &set) && CPU_ISSET(3, &set) && CPU_ISSET(8, &set) && !CPU_ISSET(4, &set));
	assert_true(pin_read_list("7", &set));
	assert_int_equal(CPU_COUNT(&set), 1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(pin_read_list(wrong[i], &set));
}

static void a_thread_goes_near_and_never_where_it_may_not(void **state)
{
	char text[32];
	struct tree tree;
	cpu_set_t before, now;
	int first = 0;

	(void)state;
	tree_open(&tree);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	while (!CPU_ISSET((size_t)first, &before))
		first++;
	tree_text(&tree, "local_cpulist", "1000-1023\n"); /* none that it may have */
	pin_near(tree.root, 1);
	assert_int_equal(sched_getaffinity(0, sizeof(now), &now), 0);
	assert_true(CPU_EQUAL(&before, &now));
	snprintf(text, sizeof(text), "%d,1000-1023\n", first);
	tree_text(&tree, "local_cpulist", text);
	pin_near(tree.root, 2); /* too few */
	assert_int_equal(sched_getaffinity(0, sizeof(now), &now), 0);
	assert_true(CPU_EQUAL(&before, &now));
	pin_near(tree.root, 1);
	assert_int_equal(sched_getaffinity(0, sizeof(now), &now), 0);
	assert_int_equal(CPU_COUNT(&now), 1);
	assert_true(CPU_ISSET((size_t)first, &now));
	pin_near(NULL, 1);
	pin_near("/nonexistent", 1);
	sched_setaffinity(0, sizeof(before), &before);
	tree_close(&tree);
}

static unsigned count_in(const struct tree *tree, int cores)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (size_t i = 0; i < (size_t)cores; i++)
		CPU_SET(i, &set);
	return pin_core_count(&set, tree->root);
}

/* A container on a host of 64 cores may be allowed two, whatever its mask says. */
static void a_quota_counts(void **state)
{
	struct tree tree;

	(void)state;
	tree_open(&tree);
	assert_int_equal(count_in(&tree, 64), 64);
	tree_text(&tree, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
	tree_text(&tree, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	assert_int_equal(count_in(&tree, 64), 64);
	tree_text(&tree, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
	assert_int_equal(count_in(&tree, 64), 2);
	tree_text(&tree, "proc/self/cgroup", "0::/a/b\n");
	assert_int_equal(count_in(&tree, 64), 64);
	tree_text(&tree, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	assert_int_equal(count_in(&tree, 64), 64);
	tree_text(&tree, "sys/fs/cgroup/a/b/cpu.max", "1600000 100000\n");
	assert_int_equal(count_in(&tree, 64), 16);
	assert_int_equal(count_in(&tree, 8), 8);
	tree_text(&tree, "sys/fs/cgroup/a/cpu.max", "300000 100000\n");
	assert_int_equal(count_in(&tree, 64), 3);
	tree_text(&tree, "sys/fs/cgroup/cpu.max", "50000 100000\n");
	assert_int_equal(count_in(&tree, 64), 1);
	tree_text(&tree, "sys/fs/cgroup/cpu.max", "50000 0\n");
	assert_int_equal(count_in(&tree, 64), 3);
	tree_text(&tree, "proc/self/cgroup", "0::/\n");
	tree_text(&tree, "sys/fs/cgroup/cpu.max", "400000 100000\n");
	assert_int_equal(count_in(&tree, 64), 4);
	tree_close(&tree);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_read_as_the_kernel_writes_them),
		cmocka_unit_test(a_quota_counts),
		cmocka_unit_test(a_thread_goes_near_and_never_where_it_may_not),
	};

	(void)argc;
	runtime_start(argv[0], 30);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
