/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a host end with when one of them dies, stops, forks, or loses its files. */
#include "plugin/steer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "plugin/steer/registry.h"
#include "support/tree.h"
#include "support/runtime.h"
#include "unit/plugin/steer/host.h"
#include "unit/plugin/steer/host_process.h"

enum { ALL = (1 << HOST_RANKS) - 1, GROWTH_KB = 256, HEAP_KEPT_BYTES = 16 << 20 };

static void a_rank_that_died_leaves_the_others_to_nccl(void **state)
{
	struct host *host = *state;

	host_start_all(host, 3, NULL);
	host_begin(host, 7, 1);
	host_kill(host, 1);
	assert_int_equal(host_do(host, 0, 0, HOST_GRAPH, 0), -ENODATA);
	assert_non_null(strstr(host->reply.info, "a rank has died"));
	assert_int_equal(host_do(host, 2, 0, HOST_GRAPH, 0), -ENODATA);
	host_start(host, 1, 1, 3, 3, NULL);
	assert_int_equal(host_initialise(host, 7, 2), 7);
}

/* Even where its file has been removed meanwhile: a smaller set is no set. */
static void a_rank_that_died_and_was_swept_away_is_missed(void **state)
{
	struct host *host = *state;

	host_start_all(host, 3, NULL);
	host_begin(host, 7, 1);
	host_kill(host, 1);
	host_start(host, 3, 3, 1, 1, "MASTER_PORT=9\n");
	assert_int_equal(host_do(host, 3, 0, HOST_INIT, 9), 0);
	assert_int_equal(host_do(host, 0, 0, HOST_GRAPH, 0), -ENODATA);
	assert_non_null(strstr(host->reply.info, "2 are known"));
	assert_int_equal(host_do(host, 2, 0, HOST_GRAPH, 0), -ENODATA);
}

static void a_decision_holds_though_its_author_died(void **state)
{
	struct host *host = *state;

	host_start_all(host, 3, NULL);
	host_begin(host, 7, 1);
	assert_int_equal(host_graphs(host, 1), 7);
	host_kill(host, 0);
	assert_int_equal(host_graphs(host, 6), 7); /* they will not get beyond NCCL's next exchange */
	host_start(host, 0, 0, 3, 3, NULL);
	host_begin(host, 1, 2); /* the next one cleans up */
	assert_int_equal(host_count(host, "d-"), 0);
	assert_int_equal(host_count(host, "p-"), 3);
	assert_int_equal(host_initialise(host, 7, 3), 7);
}

/* The name of a rank's file in the registry, behind its kind. */
static void id_of(struct host *host, unsigned rank, char id[static 256])
{
	char path[160], want[32];
	struct dirent *entry;
	DIR *dir;

	host_registry(host, path);
	snprintf(want, sizeof(want), "-%d-", (int)host->ranks[rank].pid);
	dir = opendir(path);
	assert_non_null(dir);
	id[0] = '\0';
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, "p-", 2) && strstr(entry->d_name, want))
			snprintf(id, 256, "%s", entry->d_name + 2);
	closedir(dir);
	assert_true(id[0]);
}

/* A file of a communicator, where NCCL_HOSTID=x. */
static void comm_path(struct host *host, char kind, uint64_t comm, char path[static 256])
{
	char folder[160];

	host_registry(host, folder);
	snprintf(path, 256, "%s/%c-%016llx-%016llx-%x", folder, kind, (unsigned long long)comm,
		 (unsigned long long)hash_bytes(HASH_START, "x", 1), STEER_LAYOUT);
}

/* By a debugger, a job control signal, or a machine that does not give it time: nobody waits for long. */
static void a_first_rank_that_is_stopped_holds_nobody_up(void **state)
{
	struct host *host = *state;
	char id[256], claim[256];
	uint64_t start_ns;

	host_start_all(host, 3, "NCCL_HOSTID=x\n");
	host_begin(host, 7, 1);
	kill(host->ranks[0].pid, SIGSTOP);
	id_of(host, 0, id);
	comm_path(host, 'c', 1, claim);
	assert_int_equal(symlink(id, claim), 0); /* it had just said that it plans */
	start_ns = clock_now_ns();
	assert_int_equal(host_graphs(host, 6), 7);
	assert_true(clock_elapsed_ns(start_ns, clock_now_ns()) >= NS_PER_S); /* it was given its time */
	kill(host->ranks[0].pid, SIGCONT);
	assert_int_equal(host_graphs(host, 1), 7); /* what the others decided */
	host_end(host, 7, 1, 1);
	assert_int_equal(host_count(host, ""), 3 + 1); /* one has told what was decided */
}

static void a_first_rank_that_dies_while_it_plans_is_not_waited_for(void **state)
{
	struct host *host = *state;
	char id[256], claim[256];

	host_start_all(host, 3, "NCCL_HOSTID=x\n");
	host_begin(host, 7, 1);
	id_of(host, 0, id);
	comm_path(host, 'c', 1, claim);
	assert_int_equal(symlink(id, claim), 0);
	host_kill(host, 0);
	assert_int_equal(host_do(host, 1, 0, HOST_GRAPH, 0), -ENODATA);
	assert_int_equal(host_do(host, 2, 0, HOST_GRAPH, 0), -ENODATA);
}

/* What the others have is not known: an error for this rank, where going on would make all hang. */
static void a_decision_that_cannot_be_read_fails_the_rank(void **state)
{
	struct host *host = *state;
	char path[256];
	int fd;

	host_start_all(host, 2, "NCCL_HOSTID=x\n");
	host_begin(host, 3, 1);
	assert_int_equal(host_graphs(host, 1), 3);
	comm_path(host, 'd', 1, path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 300), 1);
	close(fd);
	assert_int_equal(host_do(host, 1, 0, HOST_GRAPH, 0), -ENOENT);
	assert_int_equal(host->reply.warnings, 1);
	assert_non_null(strstr(host->reply.info, "may have a plan that this rank cannot follow"));
	assert_int_equal(host_do(host, 1, 0, HOST_GRAPH, 0), -ENOENT); /* for the other graphs, too */
	host_end(host, 1, 1, 1);
	assert_int_equal(host_do(host, 1, 0, HOST_TUNER, 1), -ENOENT);
	assert_int_equal(host_initialise(host, 3, 2), 3);
}

/* Another version has another layout; each sees that the other is there, and neither fails for it. */
static void ranks_of_two_versions_get_no_plan(void **state)
{
	static const char file[] = "another version of the plugin wrote this";
	struct host *host = *state;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[256];
	int fd;

	host_start_all(host, 2, "NCCL_HOSTID=x\n");
	assert_int_equal(host_initialise(host, 3, 1), 3);
	host_registry(host, path);
	strcat(path, "/p-00000001-1-2-3-4");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, file, sizeof(file)), sizeof(file));
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	comm_path(host, 'd', 2, path);
	path[strlen(path) - 1]++;
	host_begin(host, 3, 2);
	assert_int_equal(close(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)), 0); /* its decision */
	for (unsigned rank = 0; rank < 2; rank++) {
		assert_int_equal(host_do(host, rank, 0, HOST_GRAPH, 0), -ENODATA);
		assert_non_null(strstr(host->reply.info, "another version of the plugin"));
	}
	host_end(host, 3, 2, 0);
	close(fd);
	assert_int_equal(host_initialise(host, 3, 3), 3);
}

/* More than a snapshot of all processes holds: no plan, and no error. */
static void a_registry_that_is_too_full_leaves_all_to_nccl(void **state)
{
	enum { NAMES = 8200 };
	struct host *host = *state;
	char path[256];

	host_start_all(host, 2, NULL);
	host_begin(host, 3, 1);
	for (unsigned i = 0; i < NAMES; i++) {
		host_registry(host, path);
		snprintf(path + strlen(path), 32, "/x-%u", i);
		assert_int_equal(close(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)), 0);
	}
	for (unsigned rank = 0; rank < 2; rank++) {
		assert_int_equal(host_do(host, rank, 0, HOST_GRAPH, 0), -ENODATA);
		assert_non_null(strstr(host->reply.info, "the registry of processes cannot be read"));
	}
	host_end(host, 3, 1, 0);
}

static void a_folder_that_was_emptied_is_made_again(void **state)
{
	struct host *host = *state;
	char path[160];

	host_start_all(host, 2, NULL);
	host_registry(host, path);
	assert_int_equal(host_initialise(host, 3, 1), 3);
	tree_remove(path);
	assert_int_equal(host_initialise(host, 3, 2), 3);
	assert_int_equal(host_count(host, ""), 2 + 1);
	host_begin(host, 3, 3);
	tree_remove(path); /* in the middle: what the others have is not known */
	assert_int_equal(host_do(host, 0, 0, HOST_GRAPH, 0), -ENOENT);
	assert_int_equal(host_do(host, 1, 0, HOST_GRAPH, 0), -ENOENT);
	(void)host_ask(host, 0, 0, "NCCL_PROTO");
	(void)host_ask(host, 1, 0, "NCCL_PROTO");
	assert_int_equal(host_initialise(host, 3, 4), 3);
}

static void a_forked_child_gets_the_environment_and_removes_nothing(void **state)
{
	struct host *host = *state;

	host_start_all(host, 2, NULL);
	host_begin(host, 3, 1);
	assert_int_equal(host_do(host, 0, 0, HOST_FORK, 0), 0);
	assert_int_equal(host_count(host, "p-"), 2);
	assert_int_equal(host_graphs(host, 2), 3);              /* it is not taken for dead either */
	assert_int_equal(host_do(host, 1, 0, HOST_FORK, 0), 0); /* of the author */
	assert_int_equal(host_count(host, "d-"), 1);
	assert_int_equal(host_graphs(host, 1), 3);
	host_end(host, 3, 1, 1);
	assert_int_equal(host_initialise(host, 3, 2), 3);
}

static void a_process_that_ends_leaves_nothing(void **state)
{
	struct host *host = *state;
	char path[160];

	host_start_all(host, 2, NULL);
	host_registry(host, path);
	host_begin(host, 3, 1);
	assert_int_equal(host_graphs(host, 1), 3);
	assert_int_equal(host_graphs(host, 2), 3);
	assert_int_equal(host_count(host, "d-"), 1);
	host_exit(host, 0); /* the author, in the middle of an init */
	assert_int_equal(host_count(host, "d-"), 0);
	assert_int_equal(host_count(host, "p-"), 1);
	host_exit(host, 1);
	assert_int_equal(access(path, F_OK), -1);
}

/* Counted by walking the pages: VmRSS is a sum of the processors' counters, up to some hundred KiB off, and has files. */
static uint64_t anonymous_kb(pid_t pid)
{
	unsigned long long kb = 0;
	char path[48], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (!kb && fgets(line, sizeof(line), file))
		(void)sscanf(line, "Anonymous: %llu", &kb);
	fclose(file);
	return kb;
}

static uint64_t make_some(struct host *host, int64_t first, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(host_initialise(host, ALL, first + i), ALL);
	return anonymous_kb(host->ranks[0].pid);
}

/*
 * One after the other, each with a plan, and its memory stays what it was after the first ones. It may grow once: by what a
 * busy machine makes a process need, an arena of a second thread or a queue of lines.
 */
static void make_many(struct host *host, unsigned job, unsigned comms)
{
	const int64_t first = (int64_t)(job * 2 * comms) + 1;
	uint64_t before_kb, kb;
	char environment[64];
	int files;

	snprintf(environment, sizeof(environment), "TRIBUTARY_DUMP_DIR=\nMASTER_PORT=%u\n", 1 + job);
	/* Else the heap shrinks and grows by what happens to lie at its end. */
	mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
	mallopt(M_MMAP_THRESHOLD, HEAP_KEPT_BYTES);
	host_start_all(host, HOST_RANKS, environment);
	before_kb = make_some(host, first, comms / 2);
	files = host_do(host, 0, 0, HOST_FILES, 0);
	kb = make_some(host, first + comms / 2, comms / 2);
	if (!runtime_sanitized() && kb >= before_kb + GROWTH_KB)
		assert_true(make_some(host, first + comms, comms) < kb + GROWTH_KB);
	assert_int_equal(host_do(host, 0, 0, HOST_FILES, 0), files);
	for (unsigned rank = 0; rank < HOST_RANKS; rank++) {
		if (job % 2 || !host_process_can_exit)
			host_kill(host, rank);
		else
			host_exit(host, rank);
	}
}

/* Jobs of one user, at once on the same GPUs; half of them are killed. */
static void many_processes_with_many_communicators_leave_nothing(void **state)
{
	const unsigned jobs = runtime_long() ? 8 : 2, comms = runtime_long() ? 200 : 40;
	struct host *host = *state;
	int result;

	for (unsigned job = 0; job < jobs; job++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (child)
			continue;
		make_many(host, job, comms);
		_exit(0);
	}
	for (unsigned job = 0; job < jobs; job++)
		assert_true(wait(&result) > 0 && result == 0);
	host_start(host, 0, 0, 1, 1, NULL);
	assert_int_equal(host_do(host, 0, 0, HOST_INIT, 1 << 20), 0);
	assert_int_equal(host_count(host, ""), 2); /* what a process has in an init */
}

#define HOST_TEST(name) cmocka_unit_test_setup_teardown(name, host_open, host_close)

/* NCCL then has one topology of the GPUs of all hosts, which the graph file of one does not fit. */
static void nvlink_between_hosts_is_not_planned_for(void **state)
{
	struct host *host = *state;
	char path[256];

	snprintf(path, sizeof(path), "%s/dev", host->root);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/dev/nvidia-caps-imex-channels", host->root);
	assert_int_equal(mkdir(path, 0755), 0);
	host_start_all(host, 4, NULL);
	host_begin(host, 0xf, 1);
	assert_null(host_ask(host, 0, 0, "NCCL_TOPO_FILE"));
	assert_null(host_ask(host, 0, 0, "NCCL_GRAPH_FILE"));
	for (unsigned i = 0; i < 4; i++)
		host_kill(host, i);
	host_start_all(host, 4, "NCCL_MNNVL_ENABLE=0");
	assert_int_equal(host_initialise(host, 0xf, 2), 0xf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(a_rank_that_died_leaves_the_others_to_nccl),
		HOST_TEST(a_rank_that_died_and_was_swept_away_is_missed),
		HOST_TEST(a_decision_holds_though_its_author_died),
		HOST_TEST(a_first_rank_that_is_stopped_holds_nobody_up),
		HOST_TEST(a_first_rank_that_dies_while_it_plans_is_not_waited_for),
		HOST_TEST(a_decision_that_cannot_be_read_fails_the_rank),
		HOST_TEST(ranks_of_two_versions_get_no_plan),
		HOST_TEST(a_registry_that_is_too_full_leaves_all_to_nccl),
		HOST_TEST(a_folder_that_was_emptied_is_made_again),
		HOST_TEST(a_forked_child_gets_the_environment_and_removes_nothing),
		HOST_TEST(a_process_that_ends_leaves_nothing),
		HOST_TEST(nvlink_between_hosts_is_not_planned_for),
		HOST_TEST(many_processes_with_many_communicators_leave_nothing),
	};

	runtime_start("lives_test", 60);
	return cmocka_run_group_tests_name("plugin/steer/lives", tests, NULL, NULL);
}
