/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin lives in the training process: what it may hold, change and leave behind. Each case is a process of
 * its own, because what a library does to its process cannot be undone. The version is the case's argument.
 */
#include "plugin_ops.h"
#include "support/link.h"
#include "support/peer.h"
#include "support/runtime.h"
#include "support/traffic.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CASE_MS   150000
#define SETTLE_MS 60000
enum { SKIPPED = 77 };

static struct transport *opened(const char *version)
{
	struct transport *transport = NULL;

	plugin_ops_choose((int)strtol(version, NULL, 10));
	assert_int_equal(plugin_ops.open(NULL, &transport), 0);
	return transport;
}

/* Everything a job does: connect, transfer, close. */
static void one_job(struct transport *transport, uint64_t seed)
{
	struct link link;

	assert_int_equal(link_open(&plugin_ops, transport, 0, &link), 0);
	assert_int_equal(link_exchange(&link, 1000, seed), 0);
	assert_int_equal(link_exchange(&link, 2000000, seed), 0);
	link_close(&link);
}

/* ---- fork ---- */

/* In the child: every call ends at once, and none but the closes succeeds. */
static int child_calls(struct transport *transport, struct link *link, struct transport_request *request)
{
	uint8_t handle[TRANSPORT_HANDLE_BYTES], byte = 0;
	struct transport_connection *connection = NULL;
	struct transport_listener *listener = NULL;
	struct transport_request *other = NULL;
	void *data = &byte, *registration = NULL;
	size_t bytes = 1;
	bool done = false;
	int tag = 0, wrong = 0;

	alarm(60);
	memcpy(handle, link->handle, sizeof(handle));
	wrong |= (plugin_ops.listen(transport, 0, handle, &listener) >= 0) << 0;
	wrong |= (plugin_ops.accept(link->listener, &connection) >= 0) << 1;
	wrong |= (plugin_ops.connect(transport, 0, -1, link->handle, &connection) >= 0) << 2;
	wrong |= (plugin_ops.send(link->sender, data, 1, 0, NULL, &other) >= 0) << 3;
	wrong |= (plugin_ops.receive(link->receiver, 1, &data, &bytes, &tag, &registration, &other) >= 0) << 4;
	wrong |= (plugin_ops.test(request, &done, NULL) >= 0) << 5;
	link_close(link);
	plugin_ops.close(transport);
	return wrong;
}

/* A data loader forks out of a training process in mid-transfer. */
static int fork_role(int control, const char *argument)
{
	struct transport *transport = opened(argument);
	struct transport_request *send = NULL, *receive = NULL;
	uint8_t *from = malloc(3000000), *to = malloc(3000000);
	void *data = to, *registration = NULL;
	size_t bytes = 3000000;
	struct link link;
	int tag = 0, status;
	pid_t child;

	(void)control;
	assert_int_equal(link_open(&plugin_ops, transport, 0, &link), 0);
	pattern_fill(from, bytes, 1);
	while (!receive)
		assert_int_equal(plugin_ops.receive(link.receiver, 1, &data, &bytes, &tag, &registration, &receive), 0);
	while (!send)
		assert_int_equal(plugin_ops.send(link.sender, from, bytes, tag, NULL, &send), 0);
	child = fork();
	if (!child)
		_exit(child_calls(transport, &link, receive));
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("the child: status %#x (an exit status is the set of calls that gave no error)", status);
	/* What the child closed was its own copy. */
	assert_int_equal(link_finish_both(&plugin_ops, send, receive), 0);
	assert_true(pattern_wrong_at(to, bytes, 1) == SIZE_MAX);
	assert_int_equal(link_exchange(&link, 100000, 2), 0);
	link_close(&link);
	one_job(transport, 3);
	plugin_ops.close(transport);
	free(from);
	free(to);
	return 0;
}

/* ---- again and again ---- */

static void settled(const char *what, unsigned (*count)(void), unsigned bound)
{
	uint64_t deadline_ns = runtime_deadline_ns(SETTLE_MS);
	unsigned now;

	/* Once is enough: the service thread opens a file of /proc for a moment now and then. */
	while ((now = count()) > bound && !runtime_past(deadline_ns))
		usleep(10000);
	if (now > bound)
		fail_msg("%u %s, %u expected", now, what, bound);
}

/* Without what the heap keeps of what was freed while sockets lingered, which on a busy machine are many. */
static size_t resident_bytes(void)
{
	malloc_trim(0);
	return runtime_resident_bytes();
}

static int reinit_role(int control, const char *argument)
{
	unsigned fds, threads;

	(void)control;
	for (unsigned i = 0; i < 10; i++) {
		struct transport *transport = opened(argument);

		one_job(transport, i);
		plugin_ops.close(transport);
		if (i == 0) {
			fds = runtime_fd_count();
			threads = runtime_thread_count();
		}
	}
	settled("descriptors", runtime_fd_count, fds);
	settled("threads", runtime_thread_count, threads);
	return 0;
}

static int dlopen_role(int control, const char *argument)
{
	unsigned fds = 0, threads = 0;
	size_t resident = 0;

	(void)control;
	for (unsigned i = 0; i < 50; i++) {
		/* Every load is a new name to the linker when nothing holds the library. */
		struct transport *transport = opened(argument);

		if (i % 5 == 0)
			one_job(transport, i);
		plugin_ops.close(transport);
		if (i == 5) {
			fds = runtime_fd_count();
			threads = runtime_thread_count();
			resident = resident_bytes();
		}
	}
	settled("descriptors", runtime_fd_count, fds);
	settled("threads", runtime_thread_count, threads);
	if (!runtime_sanitized())
		assert_in_range(resident_bytes(), 0, resident + (4 << 20));
	return 0;
}

static int growth_role(int control, const char *argument)
{
	struct transport *transport = opened(argument);
	unsigned fds = 0, threads = 0;
	size_t resident = 0;

	(void)control;
	for (unsigned i = 0; i < 300; i++) {
		one_job(transport, i);
		if (i == 100) {
			fds = runtime_fd_count();
			threads = runtime_thread_count();
			resident = resident_bytes();
		}
	}
	settled("descriptors", runtime_fd_count, fds);
	settled("threads", runtime_thread_count, threads);
	if (!runtime_sanitized())
		assert_in_range(resident_bytes(), 0, resident + (4 << 20));
	plugin_ops.close(transport);
	return 0;
}

/* ---- what it may not touch ---- */

static void descriptors_close_on_exec(const bool *before, int limit)
{
	for (int fd = 0; fd < limit; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags >= 0 && !before[fd] && !(flags & FD_CLOEXEC))
			fail_msg("descriptor %d would survive exec", fd);
	}
}

static int cloexec_role(int control, const char *argument)
{
	enum { LIMIT = 512 };
	struct transport_connection *sender = NULL;
	struct link link = { .ops = &plugin_ops };
	struct transport *transport;
	bool before[LIMIT];

	(void)control;
	for (int fd = 0; fd < LIMIT; fd++)
		before[fd] = fcntl(fd, F_GETFD) >= 0;
	transport = opened(argument);
	descriptors_close_on_exec(before, LIMIT);
	assert_int_equal(plugin_ops.listen(transport, 0, link.handle, &link.listener), 0);
	descriptors_close_on_exec(before, LIMIT);
	for (unsigned i = 0; i < 1000 && !sender; i++) {
		assert_int_equal(plugin_ops.connect(transport, 0, -1, link.handle, &sender), 0);
		descriptors_close_on_exec(before, LIMIT);
	}
	link.sender = sender;
	link_close(&link);
	one_job(transport, 1);
	descriptors_close_on_exec(before, LIMIT);
	plugin_ops.close(transport);
	return 0;
}

/* Also where things go wrong. stdout is the user's: torchrun and MPI pass it on as the program's output. */
static int stdout_role(int control, const char *argument)
{
	int memory = memfd_create("stdout", MFD_CLOEXEC), kept = dup(STDOUT_FILENO);
	struct transport_request *request = NULL;
	struct transport *transport;
	uint8_t handle[TRANSPORT_HANDLE_BYTES] = { 1, 2, 3 }, byte;
	struct transport_connection *sender = NULL;
	void *data = &byte, *registration = NULL;
	struct link link;
	size_t bytes = 1;
	struct stat status;
	int tag = 0, r = 0;

	(void)control;
	assert_true(memory >= 0 && kept >= 0);
	setenv("TRIBUTARY_NO_SUCH_VARIABLE", "1", 1);
	setenv("TRIBUTARY_STREAMS", "a lot", 1);
	fflush(stdout);
	assert_true(dup2(memory, STDOUT_FILENO) == STDOUT_FILENO);
	transport = opened(argument);
	one_job(transport, 1);
	(void)plugin_ops.connect(transport, 0, -1, handle, &sender);
	(void)plugin_ops.listen(transport, 4711, handle, &link.listener);
	assert_int_equal(link_open(&plugin_ops, transport, 0, &link), 0);
	plugin_ops.close_connection(link.sender);
	link.sender = NULL;
	while (r == 0) {
		bool done = false;

		r = request ? plugin_ops.test(request, &done, NULL)
			    : plugin_ops.receive(link.receiver, 1, &data, &bytes, &tag, &registration, &request);
	}
	link_close(&link);
	plugin_ops.close(transport);
	fflush(stdout);
	assert_true(dup2(kept, STDOUT_FILENO) == STDOUT_FILENO);
	assert_int_equal(fstat(memory, &status), 0);
	assert_int_equal(status.st_size, 0);
	return 0;
}

static int signals_role(int control, const char *argument)
{
	struct sigaction before[NSIG], after;
	struct transport *transport;
	sigset_t mask, mask_after;

	(void)control;
	for (int i = 1; i < NSIG; i++)
		(void)sigaction(i, NULL, &before[i]);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	transport = opened(argument);
	one_job(transport, 1);
	plugin_ops.close(transport);
	for (int i = 1; i < NSIG; i++)
		if (sigaction(i, NULL, &after) == 0 && after.sa_handler != before[i].sa_handler)
			fail_msg("the handler of signal %d was changed", i);
	sigprocmask(SIG_SETMASK, NULL, &mask_after);
	assert_memory_equal(&mask, &mask_after, sizeof(mask));
	return 0;
}

/* ---- leaving the network to NCCL ---- */

static int devices_without(const char *name, const char *value, const char *argument)
{
	struct transport *transport;
	int count;

	setenv(name, value, 1);
	transport = opened(argument);
	count = plugin_ops.device_count(transport);
	plugin_ops.close(transport);
	return count;
}

static int disabled_role(int control, const char *argument)
{
	(void)control;
	return devices_without("TRIBUTARY_DISABLE", "1", argument);
}

static int off_role(int control, const char *argument)
{
	(void)control;
	return devices_without("TRIBUTARY_NET", "off", argument);
}

static bool has_active_rdma(void)
{
	glob_t ports;
	bool active = false;

	if (glob("/sys/class/infiniband/*/ports/*/state", 0, NULL, &ports) != 0)
		return false;
	for (size_t i = 0; i < ports.gl_pathc; i++) {
		char text[32] = "";
		FILE *file = fopen(ports.gl_pathv[i], "re");

		if (file) {
			active |= fgets(text, sizeof(text), file) && strstr(text, "ACTIVE");
			fclose(file);
		}
	}
	globfree(&ports);
	return active;
}

static bool mentions(const char *path, const char *what)
{
	char line[4096];
	bool found = false;
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	while (!found && fgets(line, sizeof(line), file))
		found = strstr(line, what);
	fclose(file);
	return found;
}

/*
 * NCCL asks for the number of devices after init, and goes to its next net, its own, when there is none. Until then nothing
 * may have been done that its own would notice: no RDMA library is loaded, no variable of NCCL's is set, no thread is left.
 */
static int auto_role(int control, const char *argument)
{
	static const char *const variables[] = { "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_NET", "NCCL_NET_PLUGIN" };
	bool set[sizeof(variables) / sizeof(variables[0])];
	int count;

	(void)control;
	if (!has_active_rdma())
		return SKIPPED;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		set[i] = getenv(variables[i]);
	count = devices_without("TRIBUTARY_NET", "auto", argument);
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		assert_int_equal(set[i], getenv(variables[i]) != NULL);
	assert_false(mentions("/proc/self/maps", "libibverbs"));
	assert_int_equal(runtime_thread_count(), 1);
	return count;
}

/* ---- what NCCL is told ---- */

static int properties_role(int control, const char *argument)
{
	struct transport_properties properties;
	struct transport *transport = opened(argument);
	int version = (int)strtol(argument, NULL, 10);
	const char *net = getenv("TRIBUTARY_NET");
	bool is_verbs = net && !strcmp(net, "verbs"); /* in VMs */

	(void)control;
	assert_int_equal(plugin_ops.device_properties(transport, 0, &properties), 0);
	assert_int_equal(properties.max_recvs, is_verbs ? TRANSPORT_MAX_RECVS : 1); /* 1: as of NCCL's own sockets */
	assert_int_equal(properties.memory, TRANSPORT_MEMORY_HOST);
	if (version >= 9)
		assert_true(properties.max_message_bytes == TRANSPORT_MAX_MESSAGE_BYTES);
	plugin_ops.close(transport);
	return 0;
}

/* ---- */

static const struct peer_role roles[] = {
	{ "fork in mid-transfer", fork_role },
	{ "init again after finalize", reinit_role },
	{ "dlopen 50 times", dlopen_role },
	{ "300 jobs grow nothing", growth_role },
	{ "descriptors close on exec", cloexec_role },
	{ "nothing on stdout", stdout_role },
	{ "signals are left alone", signals_role },
	{ "TRIBUTARY_DISABLE=1", disabled_role },
	{ "TRIBUTARY_NET=off", off_role },
	{ "TRIBUTARY_NET=auto and RDMA", auto_role },
	{ "properties", properties_role },
	{ NULL, NULL },
};

struct lifecycle_case {
	const char *role;
	char version[4];
};

static void in_a_process_of_its_own(void **state)
{
	const struct lifecycle_case *run = *state;
	struct peer peer;
	int status;

	assert_int_equal(peer_start(run->role, run->version, &peer), 0);
	status = peer_wait(&peer, CASE_MS);
	if (status == -ETIMEDOUT)
		peer_stop(&peer);
	if (status == SKIPPED) {
		print_message("skipped: this host has no active RDMA port\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	static const int versions[] = { 6, 10, 12 }; /* no finalize; a config in connect; contexts */
	enum { VERSIONS = sizeof(versions) / sizeof(versions[0]), ROLES = sizeof(roles) / sizeof(roles[0]) - 1 };
	static struct lifecycle_case cases[VERSIONS * ROLES];
	static char names[VERSIONS * ROLES][64];
	struct CMUnitTest tests[VERSIONS * ROLES];
	const char *filter;
	unsigned count = 0;

	peer_main(argc, argv, roles, 60);
	runtime_start("lifecycle_test", 110);
	runtime_set_streams(0);
	for (unsigned v = 0; v < VERSIONS; v++) {
		for (unsigned r = 0; r < ROLES; r++, count++) {
			cases[count].role = roles[r].name;
			snprintf(cases[count].version, sizeof(cases[count].version), "%d", versions[v]);
			snprintf(names[count], sizeof(names[count]), "v%d: %s", versions[v], roles[r].name);
			tests[count] = (struct CMUnitTest){ .name = names[count],
							    .test_func = in_a_process_of_its_own,
							    .initial_state = &cases[count] };
		}
	}
	filter = runtime_setting("TEST_FILTER");
	if (filter)
		cmocka_set_test_filter(filter);
	return _cmocka_run_group_tests("lifecycle", tests, count, NULL, NULL);
}
