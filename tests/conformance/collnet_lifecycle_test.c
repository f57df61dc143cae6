/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What collnet may hold, change and leave behind in the training process: forks, groups closed with everything in flight,
 * init again and again, dlclose; and where there is none. Each case is a crew of processes of its own.
 */
#include "collnet_crew.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 150000, RUN_MS = 90000, SETTLE_MS = 60000, OPERATION_BYTES = 200000 };

static const struct collnet_shape few = {
	.name = "few", .operations = 30, .max_bytes = 90000, .window = 8, .type = -1
};

static void run_crew(const char *role, unsigned count, int version, const char *words)
{
	struct collnet_crew crew;
	int status;

	collnet_crew_start(role, count, version, runtime_seed(), words, &crew);
	collnet_crew_introduce(&crew, runtime_seed());
	status = collnet_crew_wait(&crew, WAIT_MS);
	if (status)
		fail_msg("%s, version %d: status %d", role, version, status);
}

/* ---- fork ---- */

/* In the child: every call ends at once, and none but the closes succeeds. The set of those that did. */
static int child_calls(struct collnet_member *member, void *request)
{
	uint8_t handle[NCCL_HANDLE_BYTES], data[8] = { 0 };
	void *handles[1] = { handle }, *out = NULL;
	struct netplugin_properties properties;
	int count, wrong = 0;

	alarm(60);
	memcpy(handle, member->handles[0], sizeof(handle));
	wrong |= !collnet_ops_devices(&member->ops, &count) << 0;
	wrong |= !collnet_ops_properties(&member->ops, 0, &properties) << 1;
	wrong |= !collnet_ops_listen(&member->ops, 0, handle, &out) << 2;
	wrong |= !collnet_ops_connect(&member->ops, handles, 1, 0, NULL, &out) << 3;
	wrong |= !collnet_ops_reduce(&member->ops, member->group, data, data, 1, NCCL_INT8, NCCL_SUM, NULL, &out) << 4;
	wrong |= !collnet_ops_test(&member->ops, request, &count, NULL) << 5;
	wrong |= !collnet_ops_register(&member->ops, member->group, data, 8, NCCL_POINTER_HOST, &out) << 6;
	if (collnet_ops_close_group(&member->ops, member->group) ||
	    collnet_ops_finalize(&member->ops, member->ops.context))
		wrong |= 0x80;
	return wrong;
}

static int fork_role(int control, const char *argument)
{
	struct collnet_member member;
	void *send = calloc(1, OPERATION_BYTES), *recv = malloc(OPERATION_BYTES), *request = NULL;
	int status, done = 0, r;
	pid_t child;

	collnet_member_open(control, argument, &member);
	collnet_member_meet(&member);
	r = collnet_member_connect(&member);
	while (r == 0 && !request)
		r = collnet_ops_reduce(&member.ops, member.group, send, recv, OPERATION_BYTES, NCCL_UINT8, NCCL_SUM,
				       NULL, &request);
	if (r)
		return 3;
	child = fork();
	if (!child)
		_exit(child_calls(&member, request));
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status))
		return runtime_complain(1, "the child: status %#x (the set of calls that gave no error)", status), 4;
	/* What the child closed was its own copy. */
	while (r == 0 && !done)
		r = collnet_ops_test(&member.ops, request, &done, NULL);
	if (r == 0)
		r = collnet_member_run(&member, &few, RUN_MS);
	collnet_member_close(&member);
	free(send);
	free(recv);
	return r ? 5 : 0;
}

/* ---- closing ---- */

/* All memory is freed right after closeColl, as NCCL does. A sanitizer sees who touches it then. */
static int closing_role(int control, const char *argument)
{
	struct collnet_member member;
	void *memory[NCCL_MAX_REQUESTS] = { NULL };
	uint64_t random;
	int r;

	collnet_member_open(control, argument, &member);
	collnet_member_meet(&member);
	r = collnet_member_connect(&member);
	random = member.seed + member.index;
	for (unsigned i = 0; r == 0 && i < NCCL_MAX_REQUESTS; i++) {
		void *request = NULL;

		memory[i] = calloc(1, OPERATION_BYTES);
		r = collnet_ops_reduce(&member.ops, member.group, memory[i], memory[i], OPERATION_BYTES / 4,
				       NCCL_FLOAT32, NCCL_SUM, NULL, &request);
		if (r == NCCL_REMOTE_ERROR) /* another member was faster */
			r = 0;
	}
	usleep((useconds_t)random_below(&random, 20000));
	if (r == 0 && collnet_ops_close_group(&member.ops, member.group) != NCCL_SUCCESS)
		r = 4;
	for (unsigned i = 0; i < NCCL_MAX_REQUESTS; i++)
		free(memory[i]);
	member.group = NULL;
	usleep(20000);
	collnet_member_close(&member);
	return r ? 5 : 0;
}

/* ---- again and again ---- */

static int settled(const char *what, unsigned (*count)(void), unsigned bound)
{
	uint64_t deadline_ns = runtime_deadline_ns(SETTLE_MS);
	unsigned now;

	while ((now = count()) > bound && !runtime_past(deadline_ns))
		usleep(10000);
	return now > bound ? runtime_complain(EIO, "%u %s, %u expected", now, what, bound) : 0;
}

/* Every time a new load of the library, a new engine, a new group; handles travel by way of the test. */
static int again_role(int control, const char *argument)
{
	unsigned fds = 0, threads = 0, rounds = 8;

	for (unsigned round = 0; round < rounds; round++) {
		struct collnet_member member;
		int r;

		collnet_member_open(control, argument, &member);
		collnet_member_meet(&member);
		r = collnet_member_connect(&member);
		if (r == 0)
			r = collnet_member_run(&member, &few, RUN_MS);
		collnet_member_close(&member);
		if (r)
			return 3;
		if (round == 1) {
			fds = runtime_fd_count();
			threads = runtime_thread_count();
		}
	}
	return settled("descriptors", runtime_fd_count, fds) < 0 ||
			       settled("threads", runtime_thread_count, threads) < 0
		       ? 4
		       : 0;
}

static int cloexec_role(int control, const char *argument)
{
	enum { LIMIT = 512 };
	struct collnet_member member;
	bool before[LIMIT];
	int r;

	for (int fd = 0; fd < LIMIT; fd++)
		before[fd] = fcntl(fd, F_GETFD) >= 0;
	collnet_member_open(control, argument, &member);
	collnet_member_meet(&member);
	r = collnet_member_connect(&member);
	for (int fd = 0; fd < LIMIT; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags >= 0 && !before[fd] && !(flags & FD_CLOEXEC))
			r = runtime_complain(4, "descriptor %d would survive exec", fd);
	}
	if (r == 0)
		r = collnet_member_run(&member, &few, RUN_MS);
	collnet_member_close(&member);
	return r ? 4 : 0;
}

/* ---- where there is none ---- */

static int absent_role(int control, const char *argument)
{
	struct collnet_member member;
	char words[COLLNET_WORDS_BYTES] = "", *value;
	int count = -1, net_count = -1;

	sscanf(argument, "%*u %*u %*d %*x %63s", words);
	value = strchr(words, '=');
	if (!value)
		return 2;
	*value = '\0';
	setenv(words, value + 1, 1);
	collnet_member_open(control, argument, &member);
	if (collnet_ops_devices(&member.ops, &count) || netplugin_devices(member.ops.net, &net_count))
		return 3;
	collnet_member_close(&member);
	/* Without collnet alone, the net is as it was. */
	if (count || (net_count > 0) != (strstr(words, "_COLLNET") != NULL))
		return runtime_complain(4, "%d and %d devices", count, net_count), 4;
	return 0;
}

static void none_where_it_is_switched_off(void **state)
{
	static const char *const settings[] = { "TRIBUTARY_COLLNET=0", "TRIBUTARY_DISABLE=1", "TRIBUTARY_NET=off",
						"NCCL_COLLNET_ENABLE=0" };

	(void)state;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		for (int version = 6; version <= 12; version += 3) {
			struct collnet_crew crew;

			collnet_crew_start("absent", 1, version, runtime_seed(), settings[i], &crew);
			assert_int_equal(collnet_crew_wait(&crew, WAIT_MS), 0);
		}
	}
}

static void forked_children_do_nothing(void **state)
{
	(void)state;
	run_crew("fork", 2, 6, "-");
	run_crew("fork", 3, 12, "-");
}

static void groups_close_with_everything_in_flight(void **state)
{
	(void)state;
	for (unsigned i = 0; i < (runtime_long() ? 30 : 3); i++)
		run_crew("closing", 2 + i % 3, i % 2 ? 12 : 8, "-");
}

static void again_and_again_leaves_nothing(void **state)
{
	static const int versions[] = { 6, 12 };

	(void)state;
	for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
		struct collnet_crew crew;

		collnet_crew_start("again", 3, versions[v], runtime_seed(), "-", &crew);
		for (unsigned round = 0; round < 8; round++)
			collnet_crew_introduce(&crew, runtime_seed());
		assert_int_equal(collnet_crew_wait(&crew, WAIT_MS), 0);
	}
}

static void descriptors_close_on_exec(void **state)
{
	(void)state;
	run_crew("cloexec", 2, 12, "-");
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = {
		{ "fork", fork_role },       { "closing", closing_role }, { "again", again_role },
		{ "cloexec", cloexec_role }, { "absent", absent_role },   { NULL, NULL },
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_where_it_is_switched_off),
		cmocka_unit_test(forked_children_do_nothing),
		cmocka_unit_test(groups_close_with_everything_in_flight),
		cmocka_unit_test(again_and_again_leaves_nothing),
		cmocka_unit_test(descriptors_close_on_exec),
	};
	const char *filter;

	peer_main(argc, argv, roles, 100);
	runtime_start("collnet_lifecycle_test", 110);
	runtime_set_streams(0);
	filter = runtime_setting("TEST_FILTER");
	if (filter)
		cmocka_set_test_filter(filter);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
