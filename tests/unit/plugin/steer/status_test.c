/* SPDX-License-Identifier: Apache-2.0 */
/* What became of communicators: as text in the registry, and among the recent jobs. */
#include "plugin/steer/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/process.h"
#include "plugin/steer/operations.h"
#include "profile/store_jobs.h"
#include "support/tree.h"

enum { TEXT_BYTES = 1 << 20, PROCESSES = 64, JOBS = 400 };

static char text[TEXT_BYTES];
static struct tree tree;
static struct params params;
static struct steer_setup setup;
static struct steer_status status;

static const char *no_variable(const char *name)
{
	(void)name;
	return NULL;
}

static const char *run_variable(const char *name)
{
	return strcmp(name, STEER_JOB_VARIABLE) != 0 ? NULL : "00000000000000aa";
}

static const struct params_source nothing = { .get = no_variable }, of_run = { .get = run_variable };

static int make_folder(void **state)
{
	(void)state;
	tree_open(&tree);
	memset(&params, 0, sizeof(params));
	snprintf(params.state_dir, sizeof(params.state_dir), "%s/state", tree.root);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	tree_close(&tree);
	return 0;
}

static void begin(const struct params_source *source, const char *why)
{
	struct steer_process process;
	struct diag diag;

	memset(&process, 0, sizeof(process));
	steer_setup_init(&setup);
	snprintf(setup.why.text, sizeof(setup.why.text), "%s", why);
	setup.settings.job.local_rank = STEER_RANK_UNKNOWN;
	assert_int_equal(steer_registry_open(tree.root, &process, &setup.registry, &diag), 0);
	steer_status_begin(&params, source, &setup, &status);
}

static void end(void)
{
	steer_status_end(&status, &setup);
	steer_registry_close(&setup.registry);
	status.operations = NULL;
}

static void add(uint64_t comm_id, const char *why)
{
	static struct steer_decision decision;

	decision = (struct steer_decision){ .comm_id = comm_id, .member_count = 1 };
	snprintf(decision.members[0].bus_id, sizeof(decision.members[0].bus_id), "0000:11:00.0");
	snprintf(decision.reason, sizeof(decision.reason), "%s", why);
	steer_status_add(&status, &setup, &decision);
}

static void take(void *arg, const char *part)
{
	(void)arg;
	snprintf(text + strlen(text), TEXT_BYTES - strlen(text), "%s", part);
}

static const char *recent(void)
{
	text[0] = '\0';
	assert_int_equal(store_jobs_read(&params, take, NULL), 0);
	return text;
}

static size_t count_of(const char *what)
{
	size_t count = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		count++;
	return count;
}

/* Files in the registry's folder whose name begins so; the first text's text. Others are not opened: closing one would unlock it. */
static size_t running(char kind)
{
	char path[512];
	struct dirent *entry;
	size_t count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/tributary-%u", tree.root, (unsigned)process_user());
	dir = opendir(path);
	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != kind || entry->d_name[1] != '-')
			continue;
		if (!count++ && kind == 't') {
			FILE *file;

			snprintf(path, sizeof(path), "%s/tributary-%u/%s", tree.root, (unsigned)process_user(),
				 entry->d_name);
			file = fopen(path, "re");
			assert_non_null(file);
			text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
			fclose(file);
		}
	}
	closedir(dir);
	return count;
}

static void a_process_tells_while_it_runs_and_at_its_end(void **state)
{
	(void)state;
	begin(&nothing, "");
	assert_int_equal(running('t'), 0);
	add(1, "too slow");
	add(2, "too slow");
	add(3, "");
	assert_int_equal(running('t'), 1);
	assert_non_null(strstr(text, "process "));
	assert_non_null(strstr(text, "\ncomm 0000000000000002 count 2 gpus 0000:11:00.0 channels 0 alone 0.00 several "
				     "0.00 why too slow\n"));
	assert_non_null(strstr(text, "\ncomm 0000000000000003 count 1 "));
	assert_null(strstr(text, "\nend "));
	end();
	assert_int_equal(running('t') + running('p'), 0);
	recent();
	assert_int_equal(count_of("process "), 1);
	assert_int_equal(count_of("comm "), 2);
	assert_int_equal(count_of("\nend "), 1);
}

static void what_a_killed_process_left_is_moved_by_the_next(void **state)
{
	pid_t child;
	int result;

	(void)state;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		begin(&nothing, "");
		add(7, "killed");
		_exit(0);
	}
	assert_int_equal(waitpid(child, &result, 0), child);
	assert_int_equal(running('t'), 1);
	begin(&nothing, "");
	assert_int_equal(running('t'), 0);
	assert_non_null(strstr(recent(), "comm 0000000000000007 count 1 "));
	assert_int_equal(count_of("\nend "), 1);
	end();
	/* This one had nothing to tell. */
	recent();
	assert_int_equal(count_of("process "), 1);
}

/* As where there is no profile: it registers nothing, and counts. */
static struct operations *begin_apart(void)
{
	struct operations *operations;

	snprintf(params.shared_dir, sizeof(params.shared_dir), "%s", tree.root);
	steer_setup_init(&setup);
	snprintf(setup.why.text, sizeof(setup.why.text), "there is no profile");
	setup.settings.job.local_rank = STEER_RANK_UNKNOWN;
	steer_status_begin(&params, &nothing, &setup, &status);
	assert_int_equal(running('t'), 0);
	operations = steer_status_operations(&status, &setup);
	assert_non_null(operations);
	assert_ptr_equal(steer_status_operations(&status, &setup), operations);
	return operations;
}

static void count_one(struct operations *operations)
{
	const struct operations_line line = { .collective = PREDICT_ALLREDUCE, .size_class = 20 };

	operations->rows[7].count = 1;
	operations->rows[7].key = operations_key(0, &line);
	operations->row_count = 1;
}

/* Of another process: that of this one is never opened. */
static void is_seen_and_is_no_rank(const char *id)
{
	struct steer_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	struct operations *operations = calloc(1, sizeof(*operations));
	struct steer_registry registry;
	struct steer_process process;
	struct diag diag;

	memset(&process, 0, sizeof(process));
	assert_int_equal(steer_registry_open(tree.root, &process, &registry, &diag), 0);
	assert_true(steer_registry_is_alive(&registry, id));
	assert_int_equal(steer_registry_scan(&registry, 1, snapshot, &diag), 0);
	assert_int_equal(snapshot->process_count, 1); /* that child itself */
	assert_int_equal(snapshot->foreign_count + snapshot->member_count + snapshot->dead_member_count, 0);
	assert_int_equal(steer_operations_read(registry.directory, id, operations), 0);
	assert_int_equal(operations->rows[7].count, 1);
	steer_registry_close(&registry);
	free(operations);
	free(snapshot);
}

static void in_a_child(void (*run)(const char *id), const char *id)
{
	pid_t child = fork();
	int result;

	assert_true(child >= 0);
	if (child == 0) {
		run(id);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &result, 0), child);
	assert_int_equal(result, 0);
}

static void one_that_only_counts_is_seen_and_is_no_rank(void **state)
{
	(void)state;
	count_one(begin_apart());
	assert_int_equal(running('p'), 0);
	assert_int_equal(running('w') + running('o'), 2);
	assert_int_equal(running('t'), 1);
	assert_non_null(strstr(text, " why there is no profile\n"));
	in_a_child(is_seen_and_is_no_rank, status.apart.id);
	assert_int_equal(running('w') + running('o') + running('t'), 3);
	end();
	assert_int_equal(running('w') + running('o') + running('t'), 0);
	assert_non_null(strstr(recent(), "\noperation allreduce to 1048576 "));
}

static void counts_and_is_killed(const char *unused)
{
	(void)unused;
	count_one(begin_apart());
}

static void what_a_killed_one_counted_is_moved_by_the_next(void **state)
{
	(void)state;
	in_a_child(counts_and_is_killed, NULL);
	assert_int_equal(running('w') + running('o') + running('t'), 3);
	snprintf(params.shared_dir, sizeof(params.shared_dir), "%s", tree.root);
	steer_setup_init(&setup);
	steer_status_begin(&params, &nothing, &setup, &status);
	assert_non_null(steer_status_operations(&status, &setup));
	assert_int_equal(running('w') + running('o') + running('t'), 3); /* its own */
	assert_non_null(strstr(recent(), "\noperation allreduce to 1048576 "));
	end();
}

static void where_nothing_can_be_shown_it_is_counted_all_the_same(void **state)
{
	(void)state;
	snprintf(params.shared_dir, sizeof(params.shared_dir), "%s/none", tree.root);
	steer_setup_init(&setup);
	steer_status_begin(&params, &nothing, &setup, &status);
	count_one(steer_status_operations(&status, &setup));
	end();
	assert_non_null(strstr(recent(), "\noperation allreduce to 1048576 "));
}

static void what_holds_for_a_process_is_told_at_once(void **state)
{
	(void)state;
	begin(&of_run, "NCCL_GRAPH_FILE is set");
	assert_int_equal(running('t'), 1);
	assert_non_null(strstr(text, " job 00000000000000aa "));
	assert_non_null(strstr(text, " why NCCL_GRAPH_FILE is set\n"));
	end();
	assert_non_null(strstr(recent(), " why NCCL_GRAPH_FILE is set\nend "));
}

/* Many processes end at the same time: no line of one is in the middle of another's. */
static void many_processes_end_at_once(void **state)
{
	int go[2], result;
	char byte;

	(void)state;
	assert_int_equal(pipe(go), 0);
	for (unsigned i = 0; i < PROCESSES; i++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0) {
			close(go[1]);
			begin(&nothing, "");
			for (unsigned k = 0; k < 20; k++) {
				char why[32];

				snprintf(why, sizeof(why), "reason %u of %u", k, i);
				add(k, why);
			}
			_exit(read(go[0], &byte, 1) == 0 ? (end(), 0) : 1);
		}
	}
	close(go[0]);
	close(go[1]);
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_true(wait(&result) > 0 && result == 0);
	assert_int_equal(running('t') + running('p'), 0);
	recent();
	assert_int_equal(count_of("process "), PROCESSES);
	for (char *at = text; *at; at = strchr(at, '\n') + 1) {
		char *own = at;
		unsigned first = 0, of = 0;

		assert_int_equal(strncmp(at, "process ", 8), 0);
		for (unsigned k = 0; k < 20; k++) {
			own = strchr(own, '\n') + 1;
			assert_int_equal(sscanf(own,
						"comm %*s count 1 gpus %*s channels 0 alone 0.00 several 0.00 "
						"why reason %u of %u",
						&first, &of),
					 2);
			assert_int_equal(first, k);
		}
		at = strchr(own, '\n') + 1;
		assert_int_equal(strncmp(at, "end ", 4), 0);
	}
}

/* The full one is never lost, whoever gives it its other name. */
static void many_processes_fill_a_file_at_once(void **state)
{
	static char line[4096];
	char path[512];
	int result;

	(void)state;
	memset(line, 'x', sizeof(line));
	for (unsigned i = 0; i < 8; i++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (child)
			continue;
		for (unsigned k = 0; k < 500; k++) {
			int old;
			struct stat st;

			if (store_jobs_add(&params, "", line, sizeof(line)) < 0)
				_exit(1);
			snprintf(path, sizeof(path), "%s/state/jobs-%02u.old", tree.root,
				 (unsigned)(HASH_START >> 32) % STORE_JOBS_FILES);
			old = stat(path, &st);
			if (k == 499 ? old < 0 : old == 0 && st.st_size < STORE_JOBS_BYTES)
				_exit(2);
		}
		_exit(0);
	}
	for (unsigned i = 0; i < 8; i++)
		assert_true(wait(&result) > 0 && result == 0);
}

static void files_do_not_grow_without_end(void **state)
{
	char long_why[STEER_REASON_BYTES], path[512];
	struct stat st;
	size_t all = 0;

	(void)state;
	memset(long_why, 'x', sizeof(long_why) - 1);
	long_why[sizeof(long_why) - 1] = '\0';
	for (unsigned i = 0; i < JOBS; i++) {
		begin(&nothing, "");
		for (unsigned k = 0; k < 2 * JOB_COMMS; k++) {
			memcpy(long_why, (char[]){ (char)('A' + k % 26), (char)('A' + k / 26) }, 2);
			if (i % 100 == 0 || k < 3)
				add(k, long_why);
		}
		assert_true(status.comm_count <= JOB_COMMS);
		end();
	}
	for (unsigned i = 0; i < 2 * STORE_JOBS_FILES; i++) {
		snprintf(path, sizeof(path), "%s/state/jobs-%02u%s", tree.root, i / 2, i % 2 ? ".old" : "");
		if (stat(path, &st) == 0) {
			assert_true(st.st_size < STORE_JOBS_BYTES + JOB_TEXT_BYTES);
			all += (size_t)st.st_size;
		}
	}
	assert_true(all > STORE_JOBS_BYTES && all < 2 * (STORE_JOBS_BYTES + JOB_TEXT_BYTES));
	recent();
	assert_true(count_of("process ") > 20);
}

/* No home, or one that cannot be written: the job does not notice. */
static void without_a_place_nothing_is_kept(void **state)
{
	(void)state;
	tree_text(&tree, "file", "\n");
	snprintf(params.state_dir, sizeof(params.state_dir), "%s/file/state", tree.root);
	begin(&nothing, "");
	add(1, "nowhere");
	errno = 0;
	end();
	assert_int_equal(errno, 0);
	assert_int_equal(running('t'), 0);
	params.state_dir[0] = '\0';
	params.state_home[0] = '\0';
	if (geteuid() == 0)
		return; /* /var/lib/tributary is no test's */
	begin(&nothing, "");
	add(1, "nowhere");
	end();
	assert_int_equal(running('t'), 0);
}

static void jobs_are_told_apart(void **state)
{
	struct steer_job job = { .key = 5, .local_rank = 3 };

	(void)state;
	assert_int_equal(steer_status_job(&job, 1), steer_status_job(&job, 2));
	job.local_rank = STEER_RANK_UNKNOWN;
	assert_int_not_equal(steer_status_job(&job, 1), steer_status_job(&job, 2));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_process_tells_while_it_runs_and_at_its_end, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(what_a_killed_process_left_is_moved_by_the_next, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(one_that_only_counts_is_seen_and_is_no_rank, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(what_a_killed_one_counted_is_moved_by_the_next, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(where_nothing_can_be_shown_it_is_counted_all_the_same, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(what_holds_for_a_process_is_told_at_once, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(many_processes_end_at_once, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(many_processes_fill_a_file_at_once, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(files_do_not_grow_without_end, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(without_a_place_nothing_is_kept, make_folder, remove_folder),
		cmocka_unit_test(jobs_are_told_apart),
	};

	return cmocka_run_group_tests_name("plugin/steer/status", tests, NULL, NULL);
}
