/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built library's environment half: what NCCL is answered for the net plugin, where other libraries are installed, and
 * before a fork. Each case in a process of its own, with the loader's search path of the case.
 */
#include "support/runtime.h"
#include "support/tree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl/env.h"
#include "nccl/v11.h"

enum { ANSWER_BYTES = PATH_MAX };

static char plugin[PATH_MAX]; /* the library under test */

/* ------------------------------------------------------------------------------------------------- in a process of its own */

static const struct nccl_env_v1 *env_open(const char *path, void **ret_library)
{
	const struct nccl_env_v1 *env;

	*ret_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	env = *ret_library ? dlsym(*ret_library, "ncclEnvPlugin_v1") : NULL;
	if (!env || env->init(2, 28, 9, "+cuda12") != NCCL_SUCCESS)
		exit(-runtime_complain(EIO, "%s has no environment half", path));
	return env;
}

/* answer LIBRARY NAME: prints the answer, twice the same. */
static int answer_main(const char *path, const char *name)
{
	void *library;
	const struct nccl_env_v1 *env = env_open(path, &library);
	const char *first = env->getEnv(name), *second;
	char copy[ANSWER_BYTES];

	snprintf(copy, sizeof(copy), "%s", first ? first : "(none)");
	second = env->getEnv(name);
	printf("%s", copy);
	return env->finalize() != NCCL_SUCCESS || strcmp(second ? second : "(none)", copy) != 0;
}

static int child_initialises(void *library, bool declined)
{
	const struct nccl_net_v11 *net = dlsym(library, "ncclNetPlugin_v11");
	struct nccl_net_properties_v11 properties;
	struct nccl_net_comm_config config = { .trafficClass = -1 };
	void *context = NULL;
	int count = 0;

	if (!net || net->init(&context, 7, &config, NULL, NULL) != NCCL_SUCCESS || net->devices(&count) != NCCL_SUCCESS)
		return 3;
	if (declined)
		return context || count || net->finalize(context) != NCCL_SUCCESS ? 4 : 0;
	return count < 1 || net->getProperties(0, &properties) != NCCL_SUCCESS || net->finalize(context) != NCCL_SUCCESS
		       ? 5
		       : 0;
}

/* fork LIBRARY: everything is asked, as in ncclGetUniqueId; then a forked child is the rank. */
static int fork_main(const char *path)
{
	static const char *const names[] = { "NCCL_DEBUG", "NCCL_NET_PLUGIN", "NCCL_NET_PLUGIN_REF_COUNT",
					     "NCCL_NET",   "NCCL_TOPO_FILE",  "NCCL_GRAPH_FILE",
					     "NCCL_PROTO", "NCCL_HOSTID" };
	void *library;
	const struct nccl_env_v1 *env = env_open(path, &library);
	unsigned files = runtime_fd_count(), threads = runtime_thread_count();
	int status;
	pid_t pid;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)env->getEnv(names[i]);
	if (runtime_fd_count() != files || runtime_thread_count() != threads)
		return 2;
	pid = fork();
	if (!pid)
		_exit(child_initialises(library, getenv("TRIBUTARY_NET") && !strcmp(getenv("TRIBUTARY_NET"), "off")));
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 8;
}

/* ------------------------------------------------------------------------------------------------------------- in the test */

/* This program in that mode, with the folder first among those in which the loader looks. Its output; its exit status. */
static int run(const struct tree *place, const char *setting, const char *mode, const char *path, const char *name,
	       char output[static ANSWER_BYTES])
{
	ssize_t got, used = 0;
	int out[2], status;
	pid_t pid;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		setenv("LD_LIBRARY_PATH", place->root, 1);
		unsetenv("NCCL_NET_PLUGIN");
		unsetenv("NCCL_NET");
		if (setting)
			putenv((char *)(uintptr_t)setting);
		execl("/proc/self/exe", "env_test", mode, path, name, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	while ((got = read(out[0], output + used, (size_t)(ANSWER_BYTES - 1 - used))) > 0)
		used += got;
	output[used] = '\0';
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void expect(const struct tree *place, const char *setting, const char *path, const char *name,
		   const char *expected)
{
	char output[ANSWER_BYTES];

	assert_int_equal(run(place, setting, "answer", path, name, output), 0);
	assert_string_equal(output, expected);
}

static void copy(const char *from, const char *to)
{
	char buffer[65536];
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	ssize_t got;

	assert_true(in >= 0 && out >= 0);
	while ((got = read(in, buffer, sizeof(buffer))) > 0)
		assert_int_equal(write(out, buffer, (size_t)got), got);
	assert_int_equal(got, 0);
	close(in);
	close(out);
}

static const char *in(const struct tree *place, const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", place->root, name);
	return path;
}

static void one_variable_loads_both_halves(void **state)
{
	struct tree *place = *state;

	expect(place, NULL, plugin, "NCCL_NET_PLUGIN", plugin);
	assert_int_equal(symlink(plugin, in(place, "libnccl-env-tributary.so")), 0);
	expect(place, NULL, in(place, "libnccl-env-tributary.so"), "NCCL_NET_PLUGIN", plugin);
	expect(place, "NCCL_NET_PLUGIN=other", plugin, "NCCL_NET_PLUGIN", "other");
	expect(place, "NCCL_NET_PLUGIN=", plugin, "NCCL_NET_PLUGIN", "");
}

static void this_library_under_nccls_own_name_is_no_other(void **state)
{
	struct tree *place = *state;

	assert_int_equal(symlink(plugin, in(place, "libnccl-net.so")), 0);
	expect(place, NULL, plugin, "NCCL_NET_PLUGIN", plugin);
}

static void another_plugin_that_is_installed_stays(void **state)
{
	struct tree *place = *state;

	copy(plugin, in(place, "libnccl-net.so")); /* whoever's it is: not this library */
	expect(place, NULL, plugin, "NCCL_NET_PLUGIN", "(none)");
	expect(place, "NCCL_NET_PLUGIN=tributary", plugin, "NCCL_NET_PLUGIN", "tributary");
}

static void a_plugin_of_other_versions_is_another(void **state)
{
	struct tree *place = *state;
	Dl_info any; /* a library without our tables */

	assert_true(dladdr((const void *)(uintptr_t)&_cmocka_run_group_tests, &any));
	copy(any.dli_fname, in(place, "libnccl-net.so"));
	expect(place, NULL, plugin, "NCCL_NET_PLUGIN", "(none)");
}

/* NCCL opens it ahead of the net plugin's library, so that nothing may count on our tuner. */
static void another_tuner_that_is_installed_is_no_tuner_of_ours(void **state)
{
	struct tree *place = *state;
	Dl_info any;

	assert_true(dladdr((const void *)(uintptr_t)&_cmocka_run_group_tests, &any));
	tree_text(place, "our.cluster",
		  "tributary-cluster 1\nswitch top\nswitch a parent=top rate=100MB/s\n"
		  "switch b parent=top rate=100MB/s\nhost a[1-8] leaf=a rate=1GB/s\nhost b[1-8] leaf=b rate=1GB/s\n");
	setenv("TRIBUTARY_CLUSTER", in(place, "our.cluster"), 1);
	setenv("TRIBUTARY_NET", "tcp", 1);
	expect(place, NULL, plugin, "NCCL_COLLNET_ENABLE", "1");
	assert_int_equal(symlink(plugin, in(place, "libnccl-tuner.so")), 0); /* this library by that name */
	expect(place, NULL, plugin, "NCCL_COLLNET_ENABLE", "1");
	assert_int_equal(unlink(in(place, "libnccl-tuner.so")), 0);
	copy(any.dli_fname, in(place, "libnccl-tuner.so"));
	expect(place, NULL, plugin, "NCCL_COLLNET_ENABLE", "(none)");
	expect(place, "NCCL_TUNER_PLUGIN=tributary", plugin, "NCCL_COLLNET_ENABLE", "1");
	unsetenv("TRIBUTARY_CLUSTER");
	unsetenv("TRIBUTARY_NET");
}

/* NCCL takes a list with commas, of names up to 254 characters. */
static void a_path_that_nccl_cannot_take_becomes_the_name(void **state)
{
	struct tree *place = *state;
	char folder[300] = "";

	assert_int_equal(mkdir(in(place, "a,b"), 0755), 0);
	copy(plugin, in(place, "a,b/plugin.so"));
	expect(place, NULL, in(place, "a,b/plugin.so"), "NCCL_NET_PLUGIN", "tributary");
	memset(folder, 'x', 250);
	assert_int_equal(mkdir(in(place, folder), 0755), 0);
	strcat(folder, "/plugin.so");
	copy(plugin, in(place, folder));
	expect(place, NULL, in(place, folder), "NCCL_NET_PLUGIN", "tributary");
}

/* With the count at 0 NCCL would unload it with the first communicator that is declined, or the last one that is served. */
static void the_net_half_stays_loaded(void **state)
{
	struct tree *place = *state;

	expect(place, "TRIBUTARY_NET=off", plugin, "NCCL_NET_PLUGIN_REF_COUNT", "1000000");
	expect(place, "TRIBUTARY_NET=tcp", plugin, "NCCL_NET_PLUGIN_REF_COUNT", "1000000");
	expect(place, "NCCL_NET_PLUGIN_REF_COUNT=1", plugin, "NCCL_NET_PLUGIN_REF_COUNT", "1");
}

static void everything_else_is_the_environments(void **state)
{
	struct tree *place = *state;

	expect(place, "NCCL_ALGO=Ring", plugin, "NCCL_ALGO", "Ring");
	expect(place, "NCCL_TOPO_FILE=/x", plugin, "NCCL_TOPO_FILE", "/x");
	expect(place, NULL, plugin, "NCCL_TOPO_FILE", "(none)");
	expect(place, "SOMETHING=else", plugin, "SOMETHING", "else");
}

static void a_child_that_was_forked_after_ncclGetUniqueId_is_a_rank(void **state)
{
	struct tree *place = *state;
	char output[ANSWER_BYTES];

	assert_int_equal(run(place, "TRIBUTARY_NET=tcp", "fork", plugin, NULL, output), 0);
	assert_int_equal(run(place, "TRIBUTARY_NET=off", "fork", plugin, NULL, output), 0);
}

static void both_versions_are_one(void **state)
{
	void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
	const struct nccl_env_v1 *first;
	const struct nccl_env_v2 *second;

	(void)state;
	assert_non_null(library);
	first = dlsym(library, "ncclEnvPlugin_v1");
	second = dlsym(library, "ncclEnvPlugin_v2");
	assert_non_null(first);
	assert_non_null(second);
	assert_string_equal(first->name, second->name);
	assert_ptr_equal(first->getEnv, second->getEnv);
	assert_int_equal(first->init(0, 255, 255, NULL), NCCL_SUCCESS); /* whatever NCCL says it is */
	assert_int_equal(second->init(2, 30, 7, "", NULL), NCCL_SUCCESS);
	assert_int_equal(second->finalize(), NCCL_SUCCESS);
	assert_int_equal(first->finalize(), NCCL_SUCCESS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_new, tree_free)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(one_variable_loads_both_halves),
		TEST(this_library_under_nccls_own_name_is_no_other),
		TEST(another_plugin_that_is_installed_stays),
		TEST(a_plugin_of_other_versions_is_another),
		TEST(another_tuner_that_is_installed_is_no_tuner_of_ours),
		TEST(a_path_that_nccl_cannot_take_becomes_the_name),
		TEST(the_net_half_stays_loaded),
		TEST(everything_else_is_the_environments),
		TEST(a_child_that_was_forked_after_ncclGetUniqueId_is_a_rank),
		cmocka_unit_test(both_versions_are_one),
	};

	if (argc > 3 && !strcmp(argv[1], "answer"))
		return answer_main(argv[2], argv[3]);
	if (argc > 2 && !strcmp(argv[1], "fork"))
		return fork_main(argv[2]);
	runtime_start("env_test", 60);
	if (!runtime_setting("PLUGIN") || !realpath(runtime_setting("PLUGIN"), plugin))
		return -runtime_complain(EINVAL, "TRIBUTARY_PLUGIN names no library");
	return cmocka_run_group_tests_name("conformance/env", tests, NULL, NULL);
}
