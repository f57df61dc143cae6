/* SPDX-License-Identifier: Apache-2.0 */
/* The built program, $TRIBUTARY_BUILD/tributaryd, in a process of its own: start, refusals, privileges, signals. */
#include "aggregate/aggregator_wire.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "host_harness.h"
#include "support/port.h"
#include "support/runtime.h"
#include "support/tree.h"
#include "unit/aggregate/group_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char build[512], folder[] = "/tmp/tributary-daemon-XXXXXX", secret_path[64], notify_path[64], cluster_path[64];
static struct control_answer answer;

struct program {
	pid_t pid;
	int err;    /* its stderr */
	int notify; /* -1: none */
	char said[8192];
	uint16_t port;
};

static int host_harness_make(void **state)
{
	const char *at = runtime_setting("BUILD");

	(void)state;
	snprintf(build, sizeof(build), "%s", at ? at : "");
	if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
		return -1;
	snprintf(secret_path, sizeof(secret_path), "%s/secret", folder);
	snprintf(notify_path, sizeof(notify_path), "%s/notify", folder);
	snprintf(cluster_path, sizeof(cluster_path), "%s/cluster", folder);
	return 0;
}

static int host_harness_remove(void **state)
{
	(void)state;
	unlink(secret_path);
	unlink(notify_path);
	unlink(cluster_path);
	return rmdir(folder);
}

static void skip_without_program(void)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/tributaryd", build);
	if (access(path, X_OK) == 0)
		return;
	print_message("skipped: tributaryd is not built, or TRIBUTARY_BUILD does not say where\n");
	skip();
}

static int notify_open(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	unlink(notify_path);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", notify_path);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(chmod(notify_path, 0777), 0);
	return fd;
}

/* options: words. */
static struct program start(const char *options, bool notify)
{
	struct program program = { .notify = notify ? notify_open() : -1 };
	char path[600], line[600], *argv[40] = { path }, *rest = NULL;
	int pipes[2], argc = 1;

	snprintf(path, sizeof(path), "%s/tributaryd", build);
	snprintf(line, sizeof(line), "%s", options);
	for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	program.pid = fork();
	if (program.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipes[1], STDERR_FILENO);
		unsetenv("JOURNAL_STREAM");
		if (notify)
			setenv("NOTIFY_SOCKET", notify_path, 1);
		else
			unsetenv("NOTIFY_SOCKET");
		execv(path, argv);
		_exit(127);
	}
	close(pipes[1]);
	program.err = pipes[0];
	return program;
}

/* What it says until `text` is among it; fails the test after some seconds. */
static void hear(struct program *program, const char *text)
{
	uint64_t deadline_ns = runtime_deadline_ns(90000);

	while (!strstr(program->said, text)) {
		struct pollfd fd = { .fd = program->err, .events = POLLIN };
		size_t length = strlen(program->said);
		ssize_t got = 0;

		if (poll(&fd, 1, 100) > 0)
			got = read(program->err, program->said + length, sizeof(program->said) - 1 - length);
		if (got > 0)
			program->said[length + (size_t)got] = '\0';
		else if (fd.revents)
			break;
		if (runtime_past(deadline_ns))
			break;
	}
	if (!strstr(program->said, text))
		fail_msg("\"%s\" is not in: %s", text, program->said);
}

/* Its exit status; 128 + signal. */
static int end(struct program *program)
{
	uint64_t deadline_ns = runtime_deadline_ns(90000);
	int status = 0;

	while (waitpid(program->pid, &status, WNOHANG) == 0) {
		if (runtime_past(deadline_ns)) {
			kill(program->pid, SIGKILL);
			fail_msg("it does not end; it said: %s", program->said);
		}
		usleep(2000);
	}
	close(program->err);
	if (program->notify >= 0)
		close(program->notify);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static struct program serve(const char *options, bool notify)
{
	struct program program;
	char line[400];
	uint16_t port;

	/* A port that was free a moment ago; the program takes no other. */
	for (unsigned tries = 0;; tries++) {
		port = port_free();
		snprintf(line, sizeof(line), "--listen 127.0.0.1:%u --secret %s %s", port, secret_path, options);
		program = start(line, notify);
		program.port = port;
		hear(&program, "\n");
		if (!strstr(program.said, "already in use") || tries == 5)
			break;
		end(&program);
	}
	hear(&program, "listens on");
	return program;
}

static struct control_client *client_of(const struct program *program, struct control_secret *secret)
{
	struct control_client_setup setup = { .address = "127.0.0.1",
					      .port = program->port,
					      .secret = secret,
					      .name = "test",
					      .timeout_ns = 60 * NS_PER_S };
	struct control_client *client = NULL;
	struct diag diag;

	assert_int_equal(control_secret_read(secret_path, secret, &diag), 0);
	assert_int_equal(control_client_open(&setup, &client), 0);
	return client;
}

static void it_answers_tells_systemd_and_ends_by_sigterm(void **state)
{
	struct control_secret secret;
	struct control_client *client;
	struct program program;
	char text[128] = "";

	(void)state;
	skip_without_program();
	tree_put_mode(secret_path, "0123456789abcdef0123456789abcdef\n", 0600);
	program = serve("", true);
	assert_true(recv(program.notify, text, sizeof(text) - 1, 0) > 0);
	assert_memory_equal(text, "READY=1\n", 8);
	client = client_of(&program, &secret);
	assert_int_equal(control_client_ask(client), 0);
	assert_int_equal(host_harness_wait(client, &answer), CONTROL_EVENT_STATE);
	control_client_close(client);
	assert_int_equal(kill(program.pid, SIGTERM), 0);
	memset(text, 0, sizeof(text));
	assert_true(recv(program.notify, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "STOPPING=1");
	assert_int_equal(end(&program), 0);
}

static void groups_are_told_and_have_their_time(void **state)
{
	uint8_t handle[TRANSPORT_HANDLE_BYTES] = { 0 };
	struct control_request request = {
		.data_version = AGGREGATOR_WIRE_VERSION, .timeout_ms = 60000, .member_count = 1, .handles = handle
	};
	struct control_secret secret;
	struct control_client *client;
	struct program program;

	(void)state;
	skip_without_program();
	tree_put_mode(secret_path, "0123456789abcdef0123456789abcdef\n", 0600);
	for (unsigned way = 0; way < 3; way++) {
		static const char *const drains[] = { "--drain 3600", "--drain 0.3", "--drain 3600" };

		program = serve(drains[way], false);
		client = client_of(&program, &secret);
		assert_int_equal(control_client_request(client, &request), 0);
		assert_int_equal(host_harness_wait(client, &answer), CONTROL_EVENT_OFFER);
		assert_int_equal(kill(program.pid, way ? SIGINT : SIGTERM), 0);
		assert_int_equal(host_harness_wait(client, &answer), CONTROL_EVENT_DRAIN);
		if (way == 0) /* the group has moved on */
			control_client_close(client);
		if (way == 2) /* somebody is in a hurry */
			assert_int_equal(kill(program.pid, SIGINT), 0);
		assert_int_equal(end(&program), 0);
		if (way)
			control_client_close(client);
	}
}

/* Members that do something else for long: nothing to tell of. */
static void an_idle_group_is_no_news(void **state)
{
	struct cluster_aggregator aggregator = { .address = "127.0.0.1" };
	struct aggregate_facts facts;
	struct program program;
	struct params params;
	struct harness harness;

	(void)state;
	skip_without_program();
	tree_put_mode(secret_path, "0123456789abcdef0123456789abcdef\n", 0600);
	setenv("TRIBUTARY_REPORT_AFTER", "1", 1);
	program = serve("", false);
	unsetenv("TRIBUTARY_REPORT_AFTER");
	group_harness_params(&params);
	snprintf(params.secret, sizeof(params.secret), "%s", secret_path);
	assert_int_equal(group_harness_gather(&harness, &params, "aa"), 0);
	aggregator.port = program.port;
	group_harness_slow_hosts(&harness);
	harness.cluster.aggregators = &aggregator;
	harness.cluster.aggregator_count = 1;
	assert_int_equal(group_harness_connect(&harness), 0);
	aggregate_facts(harness.members[0].group, &facts);
	assert_int_equal(facts.aggregators, 1);
	sleep(2);
	group_harness_close(&harness);
	assert_int_equal(kill(program.pid, SIGTERM), 0);
	hear(&program, "told to end");
	assert_null(strstr(program.said, "has waited"));
	assert_int_equal(end(&program), 0);
}

static void refuses(const char *options, const char *says, int status)
{
	struct program program = start(options, false);

	hear(&program, says);
	assert_int_equal(end(&program), status);
}

static void what_it_cannot_work_with_it_refuses_with_the_remedy(void **state)
{
	char line[300];

	(void)state;
	skip_without_program();
	tree_put_mode(secret_path, "0123456789abcdef\n", 0644);
	snprintf(line, sizeof(line), "--listen 127.0.0.1:0 --secret %s", secret_path);
	refuses(line, "chmod 600", 1);
	tree_put_mode(secret_path, "short\n", 0600);
	refuses(line, "/dev/urandom", 1);
	tree_put_mode(secret_path, "0123456789abcdef\n", 0600);
	snprintf(line, sizeof(line), "--listen 127.0.0.1:0 --secret %s/nothing", folder);
	refuses(line, "No such file", 1);
	snprintf(line, sizeof(line), "--listen 192.0.2.1:7471 --secret %s", secret_path);
	refuses(line, "192.0.2.1:7471: ", 1);
	snprintf(line, sizeof(line), "--listen 127.0.0.1:0 --secret %s --user no-such-user", secret_path);
	refuses(line, "no such user", 1);
	refuses("--listen 127.0.0.1:0", "--secret is missing", 2);
}

static char *status_of(pid_t pid)
{
	char path[64], *text;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	text = tree_read(path, NULL);
	return text;
}

static void it_gives_its_privileges_away(void **state)
{
	struct program program;
	char *text;

	(void)state;
	skip_without_program();
	tree_put_mode(secret_path, "0123456789abcdef0123456789abcdef\n", 0600);
	program = serve(geteuid() == 0 ? "--user nobody" : "", false);
	text = status_of(program.pid);
	if (!text) {
		kill(program.pid, SIGTERM);
		assert_int_equal(end(&program), 0);
		print_message("skipped: /proc does not show the process (hidepid)\n");
		skip();
	}
	assert_non_null(strstr(text, "\nNoNewPrivs:\t1\n"));
	if (geteuid() == 0) {
		assert_null(strstr(text, "\nUid:\t0\t"));
		assert_null(strstr(text, "\nGid:\t0\t"));
		assert_non_null(strstr(text, "\nGroups:\t \n"));
		assert_non_null(strstr(text, "\nCapEff:\t0000000000000000\n"));
		assert_non_null(strstr(text, "\nCapPrm:\t0000000000000000\n"));
	}
	free(text);
	kill(program.pid, SIGTERM);
	assert_int_equal(end(&program), 0);
}

/* What the unit and the examples avoid: --user, even root's, is a decision. */
static void that_it_stays_root_is_said(void **state)
{
	static const char *const options[] = { "", "--user nobody", "--user root" };

	(void)state;
	skip_without_program();
	if (process_user() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
	tree_put_mode(secret_path, "0123456789abcdef0123456789abcdef\n", 0600);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		struct program program = serve(options[i], false);
		const char *said = strstr(program.said, "it runs as root and needs none of root's rights: give --user");

		assert_true(options[i][0] ? !said : said && strstr(said, "\n"));
		kill(program.pid, SIGTERM);
		assert_int_equal(end(&program), 0);
	}
}

/* ---- `tributary aggregators` ---- */

static int command(const char *arguments, char *text, size_t room)
{
	char line[1200];
	size_t count;
	FILE *pipe;
	int status;

	snprintf(line, sizeof(line), "%s/tributary aggregators %s 2>&1", build, arguments);
	pipe = popen(line, "re");
	assert_non_null(pipe);
	count = fread(text, 1, room - 1, pipe);
	text[count] = '\0';
	status = pclose(pipe);
	return WEXITSTATUS(status);
}

static void the_command_shows_those_that_answer_and_those_that_do_not(void **state)
{
	char text[8192], line[600];
	struct program program;

	(void)state;
	skip_without_program();
	tree_put_mode(secret_path, "0123456789abcdef0123456789abcdef\n", 0600);
	program = serve("--groups-max 5", false);
	snprintf(text, sizeof(text),
		 "tributary-cluster 1\nswitch leaf1\nhost node[1-2] leaf=leaf1\naggregator 127.0.0.1:%u leaf=leaf1\n",
		 program.port);
	tree_put_mode(cluster_path, text, 0600);
	snprintf(line, sizeof(line), "--cluster %s --secret %s --seconds 60", cluster_path, secret_path);
	if (command(line, text, sizeof(text)) != 0)
		fail_msg("%s", text);
	assert_non_null(strstr(text, "0 of 5 groups"));
	snprintf(line, sizeof(line), "--cluster %s --secret %s --seconds 60 --json", cluster_path, secret_path);
	assert_int_equal(command(line, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "\"groups_limit\": 5"));
	kill(program.pid, SIGTERM);
	assert_int_equal(end(&program), 0);
	snprintf(line, sizeof(line), "--cluster %s --secret %s --seconds 0.3", cluster_path, secret_path);
	assert_int_equal(command(line, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "does not answer"));
	assert_int_equal(command("", text, sizeof(text)), 1);
	assert_non_null(strstr(text, "TRIBUTARY_CLUSTER"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_answers_tells_systemd_and_ends_by_sigterm),
		cmocka_unit_test(groups_are_told_and_have_their_time),
		cmocka_unit_test(an_idle_group_is_no_news),
		cmocka_unit_test(what_it_cannot_work_with_it_refuses_with_the_remedy),
		cmocka_unit_test(it_gives_its_privileges_away),
		cmocka_unit_test(that_it_stays_root_is_said),
		cmocka_unit_test(the_command_shows_those_that_answer_and_those_that_do_not),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	return cmocka_run_group_tests(tests, host_harness_make, host_harness_remove);
}
