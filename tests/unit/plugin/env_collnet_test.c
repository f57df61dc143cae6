/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the environment half answers to NCCL_COLLNET_ENABLE and NCCL_IGNORE_COLLNET_MISMATCH. It does so once for a process,
 * so each case has its own.
 */
#include "plugin/env.h"

#include "support/tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define TWO_LEAVES(rate)                                                                               \
	"tributary-cluster 1\nswitch s\nswitch a parent=s rate=" rate "\nswitch b parent=s rate=" rate \
	"\nhost h[0-3] leaf=a rate=400Mbit/s\nhost h[4-7] leaf=b rate=400Mbit/s\n"
static const char *const narrow = TWO_LEAVES("100Mbit/s"), *const wide = TWO_LEAVES("1600Mbit/s");
static const char *const one_leaf = "tributary-cluster 1\nswitch a\nhost h[0-7] leaf=a rate=400Mbit/s\n";
static const char *const two_hosts = "tributary-cluster 1\nswitch s\nswitch a parent=s rate=1Mbit/s\n"
				     "switch b parent=s rate=1Mbit/s\nhost h0 leaf=a\nhost h1 leaf=b\n";

static bool answers(const char *name, const char *expected)
{
	const char *answer = plugin_env_get(name);

	return !strcmp(answer ? answer : "none", expected);
}

/*
 * In a process of its own, with this cluster file (NULL: none) and these settings. NULL is "none". ignores: the same of
 * NCCL_IGNORE_COLLNET_MISMATCH.
 */
static void expect_both(const char *cluster, const char *settings, const char *expected, const char *ignores)
{
	static const char *const names[] = {
		"NCCL_COLLNET_ENABLE", "NCCL_NET_PLUGIN",   "NCCL_NET",          "TRIBUTARY_NET",
		"TRIBUTARY_TUNER",     "TRIBUTARY_COLLNET", "TRIBUTARY_DISABLE", "NCCL_TUNER_PLUGIN",
		"TRIBUTARY_CLUSTER",   "WORLD_SIZE",        "LOCAL_WORLD_SIZE",  "NCCL_IGNORE_COLLNET_MISMATCH"
	};
	char path[64], list[256], *save = NULL;
	struct tree tree;
	int status;
	pid_t child;

	tree_open(&tree);
	snprintf(path, sizeof(path), "%s/cluster", tree.root);
	if (cluster)
		tree_put(path, cluster);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		bool wants = strcmp(expected, "none") != 0 && strcmp(expected, "0") != 0;

		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			unsetenv(names[i]);
		setenv("NCCL_NET_PLUGIN", "tributary", 1);
		setenv("TRIBUTARY_NET", "tcp", 1);
		setenv("TRIBUTARY_PROFILE", tree.root, 1); /* this machine's own, if there is one, does not matter */
		if (cluster)
			setenv("TRIBUTARY_CLUSTER", path, 1);
		snprintf(list, sizeof(list), "%s", settings);
		for (char *at = strtok_r(list, " ", &save); at; at = strtok_r(NULL, " ", &save))
			putenv(at);
		/* Before NCCL asks this library for variables, it has the user's value alone. */
		if (plugin_env_wants_collnet() != (getenv("NCCL_COLLNET_ENABLE") && wants))
			_exit(1);
		plugin_env_init(22809);
		if (!answers("NCCL_COLLNET_ENABLE", expected) || plugin_env_wants_collnet() != wants)
			_exit(2);
		setenv("TRIBUTARY_CLUSTER", "/nowhere", 1);
		if (!answers("NCCL_COLLNET_ENABLE", expected)) /* the same for every communicator */
			_exit(3);
		_exit(answers("NCCL_IGNORE_COLLNET_MISMATCH", ignores) ? 0 : 4);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	tree_close(&tree);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("with %s: not %s, %s: %d", settings, expected, ignores, WEXITSTATUS(status));
}

static void expect(const char *cluster, const char *settings, const char *expected)
{
	expect_both(cluster, settings, expected, "1");
}

static void it_is_offered_where_the_cluster_file_promises_a_gain(void **state)
{
	(void)state;
	expect(narrow, "", "1");
	expect(narrow, "WORLD_SIZE=16 LOCAL_WORLD_SIZE=2", "1");
	expect(narrow, "WORLD_SIZE=8 LOCAL_WORLD_SIZE=2", "1"); /* four hosts, which may be of both leaves */
	expect(wide, "", "none");
	expect(one_leaf, "", "none");
	expect(two_hosts, "", "none");
	expect(NULL, "", "none");
	expect("nonsense", "", "none");
}

static void not_where_the_user_or_another_plugin_has_a_say(void **state)
{
	(void)state;
	expect(narrow, "NCCL_COLLNET_ENABLE=0", "0");
	expect(wide, "NCCL_COLLNET_ENABLE=1", "1");
	expect_both(narrow, "NCCL_NET_PLUGIN=aws", "none", "none");
	expect_both(narrow, "NCCL_NET_PLUGIN=none", "none", "none");
	expect(narrow, "NCCL_NET_PLUGIN=/opt/libnccl-net-tributary.so", "1");
	expect(narrow, "NCCL_NET=Socket", "none");
	expect(narrow, "TRIBUTARY_NET=off", "none");
	expect(narrow, "TRIBUTARY_NET=verbs", "none"); /* for GPUDirect RDMA */
	expect(narrow, "TRIBUTARY_COLLNET=0", "none");
	expect(narrow, "TRIBUTARY_TUNER=0", "none");
	expect(narrow, "NCCL_TUNER_PLUGIN=none", "none");
	expect(narrow, "TRIBUTARY_DISABLE=1", "none");
	/* Rank 0's alone counts, which may be where there is no cluster file. */
	expect_both(NULL, "NCCL_IGNORE_COLLNET_MISMATCH=0", "none", "0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_offered_where_the_cluster_file_promises_a_gain),
		cmocka_unit_test(not_where_the_user_or_another_plugin_has_a_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
