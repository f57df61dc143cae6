/* SPDX-License-Identifier: Apache-2.0 */
/* The built program: `tributary cluster measure`, two processes with hosts' names of their own, on the loopback interface. */
#include "command/command.h"

#include "program.h"
#include "schema.h"

#include "base/sys.h"
#include "support/port.h"
#include "support/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEXT_BYTES = 1 << 16, ARGUMENTS_MAX = 24, NAPS_MOST = 6000, NAP_MS = 10, NO_NAME = 77 };

/* Descriptors that a process may have: it raises the first limit itself. */
static struct rlimit descriptors = { RLIM_INFINITY, RLIM_INFINITY };

struct process {
	pid_t pid;
	char output[512], complaints[512]; /* files */
};

static char text[TEXT_BYTES], secret[512];

static const char *file_text(const char *path)
{
	FILE *file = fopen(path, "re");
	size_t bytes;

	assert_non_null(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	text[bytes] = '\0';
	fclose(file);
	return text;
}

/* A host's name belongs to a namespace; without the right to have one there are no two hosts here. */
static void become(const char *name, const struct process *process)
{
	if ((unshare(CLONE_NEWUTS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWUTS) < 0) ||
	    sethostname(name, strlen(name)) < 0)
		_exit(NO_NAME);
	if (!freopen(process->output, "w", stdout) || !freopen(process->complaints, "w", stderr))
		_exit(NO_NAME);
}

/* arguments: after `cluster measure`, ended by NULL. */
static struct process begin(unsigned rank, uint16_t port, const char *const *arguments)
{
	char *argv[ARGUMENTS_MAX] = { NULL }, name[32], number[32];
	struct process process;
	size_t count = 0;

	if (!program_path()[0]) {
		print_message("skipped: no program in TRIBUTARY_BUILD\n");
		skip();
	}
	snprintf(secret, sizeof(secret), "%s/secret", program_folder());
	/* Never again: the first process may be reading it. */
	if (access(secret, F_OK))
		tree_put_mode(secret, "one that is long enough", 0600);
	snprintf(process.output, sizeof(process.output), "%s/output-%u", program_folder(), rank);
	snprintf(process.complaints, sizeof(process.complaints), "%s/complaints-%u", program_folder(), rank);
	argv[count++] = (char *)(uintptr_t)program_path();
	argv[count++] = (char[]){ "cluster" };
	argv[count++] = (char[]){ "measure" };
	for (; *arguments; arguments++)
		argv[count++] = (char *)(uintptr_t)*arguments;
	process.pid = fork();
	assert_true(process.pid >= 0);
	if (process.pid)
		return process;
	snprintf(name, sizeof(name), "host-%u", rank);
	become(name, &process);
	/* Of so few none may be one that this program was started with. */
	if (descriptors.rlim_cur != RLIM_INFINITY && close_range(3, ~0U, 0) < 0)
		_exit(NO_NAME);
	if (descriptors.rlim_cur != RLIM_INFINITY && setrlimit(RLIMIT_NOFILE, &descriptors) < 0)
		_exit(NO_NAME);
	snprintf(number, sizeof(number), "%u", rank);
	setenv("RANK", number, 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	snprintf(number, sizeof(number), "%u", port);
	setenv("MASTER_PORT", number, 1);
	setenv("TRIBUTARY_SECRET", secret, 1);
	setenv("TRIBUTARY_TIMEOUT", "100", 1);
	execv(argv[0], argv);
	_exit(NO_NAME);
}

static int end(const struct process *process)
{
	int status;

	assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
	if (!WIFEXITED(status))
		fail_msg("it was killed by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

/*
 * Hosts of up to 50 MB/s have more than 125 KB/s, on however busy a machine. Neither of the two complains, and a progress bar is
 * for terminals: there is nothing on standard error.
 */
static void what_is_declared_is_compared_with_what_is_measured(void **state)
{
	char declared[512], found[512], kept[512];
	const char *const arguments[] = { "--round", "50",    "--limit", "50MB/s", "--declared",
					  declared,  "--out", found,     NULL };
	const char *const plain[] = { NULL };
	uint16_t port = port_free();
	struct process coordinator, member;
	int statuses[2];

	(void)state;
	snprintf(declared, sizeof(declared), "%s/declared", program_folder());
	snprintf(found, sizeof(found), "%s/found", program_folder());
	snprintf(kept, sizeof(kept), "%s/kept", program_folder());
	tree_put_mode(found, "the old one\n", 0644);
	unlink(kept);
	assert_int_equal(link(found, kept), 0);
	tree_put_mode(
		declared,
		"tributary-cluster 1\nswitch a\nhost host-0 leaf=a rate=125KB/s\nhost host-1 leaf=a rate=50MB/s\n",
		0644);
	/* What a user may have without asking is less than a host needs. */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
	descriptors.rlim_cur = 5;
	coordinator = begin(0, port, arguments);
	member = begin(1, port, plain);
	descriptors = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
	statuses[1] = end(&member);
	statuses[0] = end(&coordinator);
	if (statuses[0] == NO_NAME) {
		print_message("skipped: no namespace for a host's name\n");
		skip();
	}
	if (statuses[0] || statuses[1])
		fail_msg("%d, %d: %s", statuses[0], statuses[1], file_text(coordinator.complaints));
	assert_string_equal(file_text(coordinator.complaints), "");
	assert_string_equal(file_text(member.complaints), "");
	assert_string_equal(file_text(member.output), "");
	file_text(coordinator.output);
	assert_non_null(strstr(text, "2 hosts, "));
	assert_non_null(strstr(text, "what is declared:\n"));
	assert_non_null(strstr(text, "\nhost-0: "));
	assert_non_null(strstr(text, " measured, 1 Mbit/s declared\n"));
	file_text(found);
	assert_non_null(strstr(text, "rates measured\n"));
	assert_non_null(strstr(text, "host host-["));
	/* A reader who has opened the old file reads it to its end. */
	assert_string_equal(file_text(kept), "the old one\n");
}

/* What --json prints, by its schema. */
static void its_json_fits_its_schema(void **state)
{
	const char *const arguments[] = { "--round", "50", "--limit", "50MB/s", "--json", NULL }, *const plain[] = {
		NULL
	};
	uint16_t port = port_free();
	struct process coordinator = begin(0, port, arguments), member = begin(1, port, plain);
	int statuses[2] = { end(&coordinator), end(&member) };

	(void)state;
	if (statuses[0] == NO_NAME) {
		print_message("skipped: no namespace for a host's name\n");
		skip();
	}
	if (statuses[0] || statuses[1])
		fail_msg("%d, %d: %s", statuses[0], statuses[1], file_text(coordinator.complaints));
	json_decref(schema_check_output(file_text(coordinator.output)));
}

/* Somebody listens: from then on a signal is the program's own. */
static bool listens(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pollfd ready = { .events = POLLOUT };
	socklen_t bytes = sizeof(int);
	int error = -1, fd = sys_socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	ready.fd = fd;
	(void)sys_connect(fd, (struct sockaddr *)&address, sizeof(address));
	if (poll(&ready, 1, NAP_MS) == 1)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	sys_close(&fd);
	return error == 0;
}

static void control_c_ends_a_coordinator_that_waits(void **state)
{
	const char *const plain[] = { NULL };
	uint16_t port = port_free();
	struct process coordinator = begin(0, port, plain);
	bool here = false, gone = false;
	int status;

	(void)state;
	for (unsigned i = 0; i < NAPS_MOST && !here && !gone; i++) {
		siginfo_t info = { 0 };

		here = listens(port);
		gone = waitid(P_PID, (id_t)coordinator.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
		poll(NULL, 0, NAP_MS);
	}
	if (here)
		kill(coordinator.pid, SIGINT);
	status = end(&coordinator);
	if (status == NO_NAME) {
		print_message("skipped: no namespace for a host's name\n");
		skip();
	}
	assert_true(here);
	assert_int_equal(status, COMMAND_FAILED);
	assert_string_equal(file_text(coordinator.complaints), "tributary: interrupted\n");
	assert_string_equal(file_text(coordinator.output), "");
}

/*
 * Three standard ones, the listener, the own member's: none for who has connected, or none for the member. Linux takes a
 * descriptor for accept() before it looks whether anybody is there, so with one left either may lack it.
 */
static void descriptors_that_run_out_are_named(void **state)
{
	static const struct {
		unsigned most;
		const char *sentence, *other;
	} cases[] = { { 5, "no descriptor is left for the next of 2 ranks", "Too many open files" },
		      { 4, "Too many open files", "Too many open files" } };
	const char *const plain[] = { NULL };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct process coordinator;
		int status;

		descriptors = (struct rlimit){ cases[i].most, cases[i].most };
		coordinator = begin(0, port_free(), plain);
		descriptors = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
		status = end(&coordinator);
		if (status == NO_NAME) {
			print_message("skipped: no namespace for a host's name\n");
			skip();
		}
		assert_int_equal(status, COMMAND_FAILED);
		if (!strstr(file_text(coordinator.complaints), cases[i].sentence) && !strstr(text, cases[i].other))
			fail_msg("%u: %s", cases[i].most, text);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_declared_is_compared_with_what_is_measured),
		cmocka_unit_test(its_json_fits_its_schema),
		cmocka_unit_test(control_c_ends_a_coordinator_that_waits),
		cmocka_unit_test(descriptors_that_run_out_are_named),
	};

	return cmocka_run_group_tests_name("cluster_measure", tests, program_find, NULL);
}
