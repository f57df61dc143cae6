/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a process: there while its transport is open, right when it is closed, and gone with the process. */
#include "plugin/metrics.h"

#include "base/params.h"
#include "plugin/profiler.h"
#include "plugin/state.h"
#include "plugin/steer.h"
#include "support/link.h"
#include "support/log_lines.h"
#include "support/runtime.h"
#include "tributary/predict.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MESSAGES = 20, BYTES = 100000 };

static char folder[] = "/tmp/metrics_test.XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char line[64];

	(void)state;
	snprintf(line, sizeof(line), "rm -rf %s", folder);
	return system(line);
}

/* In the processes of a test, where cmocka would go on with the next one. */
#define must(truth) must_at((truth), #truth, __LINE__)
static void must_at(bool truth, const char *what, int line)
{
	if (truth)
		return;
	fprintf(stderr, "line %d: not so: %s\n", line, what);
	_exit(99);
}

/* The number of files of processes, and the path of the last one.  A file that is renamed meanwhile may be listed twice or not
   at all: exact only when nobody writes. */
static unsigned files(char path[static 512])
{
	DIR *list = opendir(folder);
	const struct dirent *entry;
	unsigned count = 0;

	must(list != NULL);
	while ((entry = readdir(list)) != NULL)
		if (!strncmp(entry->d_name, PLUGIN_METRICS_PREFIX, strlen(PLUGIN_METRICS_PREFIX)) &&
		    !strstr(entry->d_name, ".new")) { /* which is being written */
			snprintf(path, 512, "%s/%s", folder, entry->d_name);
			count++;
		}
	closedir(list);
	return count;
}

static char own[512]; /* the path of this process's file */

/* In it: the value of the sample whose line begins so, and goes on with a space or a label. */
static double value_of(const char *name)
{
	char line[1024];
	double value = -1;
	FILE *file;

	file = fopen(own, "r");
	must(file != NULL);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)) && strchr(" {", line[strlen(name)]))
			value = strtod(strrchr(line, ' '), NULL);
	fclose(file);
	return value;
}

/* Runs in a process of its own, as its library begins and ends with it. */
static int in_a_process(int (*run)(void))
{
	pid_t child = fork();
	int status = -1;

	if (!child) {
		setenv("TRIBUTARY_STEER", "off", 1);
		exit(run());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void wait_for_file(void)
{
	uint64_t deadline_ns = runtime_deadline_ns(60000);

	while (!files(own)) {
		must(!runtime_past(deadline_ns));
		runtime_nap();
	}
}

/* The thread has written what was last when the transport is closed, and is gone, though for a moment not yet from /proc. */
static void wait_for_end(void)
{
	uint64_t deadline_ns = runtime_deadline_ns(60000);

	while (runtime_plugin_threads() > 0) {
		must(!runtime_past(deadline_ns));
		runtime_nap();
	}
}

static int talks_and_forks(void)
{
	const struct transport_ops *ops = &transport_tcp;
	struct transport *transport;
	struct link link;
	int status = 0;
	pid_t child;

	setenv("TRIBUTARY_METRICS", folder, 1);
	must(plugin_state_get(&transport) == 0);
	wait_for_file();
	plugin_metrics_communicator(true);
	plugin_metrics_communicator(false);
	plugin_metrics_communicator(false);
	must(link_open(ops, transport, 0, &link) == 0);
	for (unsigned i = 0; i < MESSAGES; i++)
		must(link_exchange(&link, BYTES, i) == 0);
	link_close(&link);
	child = fork(); /* a data loader, which ends as any process */
	if (!child)
		exit(0);
	must(waitpid(child, &status, 0) == child);
	must(access(own, F_OK) == 0);
	plugin_state_put();
	wait_for_end();
	must(value_of("tributary_sent_messages_total") == MESSAGES);
	must(value_of("tributary_received_messages_total") == MESSAGES);
	must(value_of("tributary_sent_bytes_total") >= MESSAGES * BYTES);
	must(value_of("tributary_received_bytes_total") >= MESSAGES * BYTES);
	must(value_of("tributary_connections_opened_total") == 2);
	must(value_of("tributary_connections") == 0);
	must(value_of("tributary_communicators_total") == 2); /* the last line is of those without */
	/* Opened again: what was counted goes on. */
	must(plugin_state_get(&transport) == 0);
	must(link_open(ops, transport, 0, &link) == 0);
	must(link_exchange(&link, BYTES, 1) == 0);
	link_close(&link);
	plugin_state_put();
	wait_for_end();
	must(value_of("tributary_sent_messages_total") == MESSAGES + 1);
	/* And a process may end with the transport open. */
	must(plugin_state_get(&transport) == 0);
	return 0;
}

static void what_was_counted_is_in_the_file_until_the_process_ends(void **state)
{
	char path[512] = "";

	(void)state;
	assert_int_equal(in_a_process(talks_and_forks), 0);
	assert_int_equal(files(path), 0);
}

/* The file is written now and then. */
static void wait_for_value(const char *name, double value)
{
	uint64_t deadline_ns = runtime_deadline_ns(60000);

	while (value_of(name) != value) {
		must(!runtime_past(deadline_ns));
		runtime_nap();
	}
}

/* A job on one host, or over NCCL's own network. */
static int counts_without_a_network(void)
{
	const struct plugin_profiler_operation operation = {
		.collective = PREDICT_ALLREDUCE, .algorithm = PREDICT_RING, .protocol = PREDICT_LL, .bytes = 1024
	};
	const struct plugin_profiler_comm comm = { .id = 1, .rank_count = 4, .node_count = 1, .count_events = 1 };
	struct plugin_profiler *profiler;
	void *handle;
	int mask = 0;

	setenv("TRIBUTARY_METRICS", folder, 1);
	for (unsigned turn = 1; turn <= 2; turn++) { /* with all communicators closed between them */
		plugin_profiler_init(&comm, &mask, &profiler);
		must(profiler != NULL);
		wait_for_file();
		for (unsigned i = 0; i < MESSAGES; i++)
			plugin_profiler_operation(profiler, &operation, NULL, &handle);
		plugin_profiler_fini(profiler);
		wait_for_value("tributary_operations_total", turn * MESSAGES);
		must(value_of("tributary_operation_bytes_total") == turn * MESSAGES * 1024);
		must(value_of("tributary_operations_lost_total") == 0);
		must(value_of("tributary_sent_bytes_total") == -1);
		wait_for_end(); /* nobody counts */
	}
	return 0;
}

static void operations_are_in_the_file_without_a_network(void **state)
{
	char path[512];

	(void)state;
	assert_int_equal(in_a_process(counts_without_a_network), 0);
	assert_int_equal(files(path), 0);
}

static int is_killed(void)
{
	struct transport *transport;

	setenv("TRIBUTARY_METRICS", folder, 1);
	must(plugin_state_get(&transport) == 0);
	wait_for_file();
	return raise(SIGKILL);
}

static int finds_the_others(void)
{
	struct transport *transport;

	setenv("TRIBUTARY_METRICS", folder, 1);
	must(plugin_state_get(&transport) == 0);
	plugin_state_put();
	wait_for_end();
	must(files(own) == 1);
	return value_of("tributary_connections") != 0;
}

static void the_file_of_a_killed_process_goes_with_the_next(void **state)
{
	const struct timespec old[2] = { { .tv_sec = time(NULL) - 2 * PLUGIN_METRICS_STALE_S },
					 { .tv_sec = time(NULL) - 2 * PLUGIN_METRICS_STALE_S } };
	char path[512];

	(void)state;
	assert_true(WIFSIGNALED(in_a_process(is_killed)));
	assert_int_equal(files(path), 1);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_int_equal(in_a_process(finds_the_others), 0);
	assert_int_equal(files(path), 0);
}

static int opens_with(const char *where, const char *says)
{
	uint64_t deadline_ns = runtime_deadline_ns(60000);
	struct transport *transport;

	log_lines_start(NULL);
	setenv("TRIBUTARY_METRICS", where, 1);
	for (unsigned i = 0; i < 3; i++) {
		must(plugin_state_get(&transport) == 0);
		plugin_state_put();
	}
	while (log_lines()->warnings < 1) {
		must(!runtime_past(deadline_ns));
		runtime_nap();
	}
	must(log_lines()->warnings == 1);
	must(strstr(log_lines_now.warning, says) != NULL);
	log_set_sink(NULL);
	return 0;
}

static int opens_with_a_missing_folder(void)
{
	return opens_with("/nowhere/at/all", "/nowhere/at/all (TRIBUTARY_METRICS): No such file");
}

static int opens_with_a_port(void)
{
	return opens_with("127.0.0.1:9400", "Only tributaryd answers on a port");
}

static void a_folder_that_cannot_be_had_is_one_warning(void **state)
{
	(void)state;
	assert_int_equal(in_a_process(opens_with_a_missing_folder), 0);
	assert_int_equal(in_a_process(opens_with_a_port), 0);
}

static int opens_without(void)
{
	struct transport *transport;

	unsetenv("TRIBUTARY_METRICS");
	must(plugin_state_get(&transport) == 0);
	must(runtime_plugin_threads() == 0);
	plugin_state_put();
	return 0;
}

static void nothing_is_there_unless_it_is_asked_for(void **state)
{
	char path[512];

	(void)state;
	assert_int_equal(in_a_process(opens_without), 0);
	assert_int_equal(files(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_counted_is_in_the_file_until_the_process_ends),
		cmocka_unit_test(operations_are_in_the_file_without_a_network),
		cmocka_unit_test(the_file_of_a_killed_process_goes_with_the_next),
		cmocka_unit_test(a_folder_that_cannot_be_had_is_one_warning),
		cmocka_unit_test(nothing_is_there_unless_it_is_asked_for),
	};

	setenv("TRIBUTARY_NET", "tcp", 1);
	setenv("TRIBUTARY_IF", "lo", 1);
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
