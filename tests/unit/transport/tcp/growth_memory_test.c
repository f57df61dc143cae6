/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs keep for later ones in the state directory, and whose files are left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/params.h"
#include "streams_network.h"
#include "support/random.h"
#include "support/runtime.h"
#include "support/tree.h"
#include "transport/tcp/growth_memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOBODY = 65534, PATH_BYTES = 128 };

static char root[64], file[PATH_BYTES];
static struct params params;
static unsigned lines;

static void count_lines(int level, unsigned long flags, const char *source, int line, const char *fmt, ...)
{
	(void)level, (void)flags, (void)source, (void)line, (void)fmt;
	lines++;
}

static int place_new(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/tributary-memory-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	params_defaults(&params);
	snprintf(params.state_dir, sizeof(params.state_dir), "%s/state", root);
	snprintf(file, sizeof(file), "%s/state/streams", root);
	lines = 0;
	return 0;
}

static int place_free(void **state)
{
	(void)state;
	log_set_sink(NULL);
	tree_remove(root);
	return 0;
}

/* A way of a job to a host in the subnet 10.a.b.0. */
struct job {
	struct tcp_growth_memory *memory;
	struct tcp_growth_recall recall;
	struct tcp_streams_way way;
	unsigned subnet;
};

static const struct tcp_interface interface = { .name = "eth0", .address.ss_family = AF_INET };

static struct sockaddr_storage peer_in(unsigned subnet)
{
	struct sockaddr_storage peer = { .ss_family = AF_INET };

	((struct sockaddr_in *)&peer)->sin_addr.s_addr = htonl(0x0a000007 | subnet << 8);
	return peer;
}

static void ask(struct job *job)
{
	const struct sockaddr_storage peer = peer_in(job->subnet);

	tcp_growth_memory_ask(job->memory, &job->recall, &interface, &peer);
	assert_true(log_drain(60000));
	tcp_growth_memory_recall(job->memory, &job->recall, &job->way);
}

static struct job begin(unsigned subnet)
{
	struct job job = { .memory = tcp_growth_memory_new(&params), .subnet = subnet };

	assert_non_null(job.memory);
	ask(&job);
	return job;
}

static void note(struct job *job)
{
	tcp_growth_memory_note(job->memory, &job->recall, &job->way);
	assert_true(log_drain(60000));
}

static void find(struct job *job, unsigned streams)
{
	job->way.found = streams;
	note(job);
}

static void end(struct job *job)
{
	tcp_growth_memory_free(job->memory);
	job->memory = NULL;
}

static void keep(unsigned subnet, unsigned streams)
{
	struct job job = begin(subnet);

	find(&job, streams);
	end(&job);
}

static unsigned recalled(unsigned subnet)
{
	struct job job = begin(subnet);

	end(&job);
	return job.way.remembered;
}

static void a_later_job_tries_what_an_earlier_one_kept(void **state)
{
	struct job job;
	struct stat st;

	(void)state;
	assert_int_equal(recalled(1), 0);
	assert_int_equal(access(params.state_dir, F_OK), -1); /* who only reads makes nothing */
	job = begin(1);
	find(&job, 2);
	find(&job, 4);
	find(&job, 10);
	assert_int_equal(recalled(1), 10);
	assert_int_equal(recalled(2), 0);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	find(&job, 1); /* fewer did as much */
	assert_int_equal(recalled(1), 0);
	end(&job);
}

static void a_number_that_failed_is_forgotten(void **state)
{
	struct job job;

	(void)state;
	keep(1, 10);
	keep(2, 7);
	job = begin(1);
	assert_int_equal(job.way.remembered, 10);
	note(&job);
	assert_int_equal(recalled(1), 10); /* not tried yet */
	job.way.remembered = 0;
	note(&job);
	assert_int_equal(recalled(1), 0);
	assert_int_equal(recalled(2), 7);
	end(&job);
}

/* Ways to two hosts of a subnet share the entry: what holds for one need not for the other. */
static void what_this_process_has_kept_stays_if_it_fails_elsewhere(void **state)
{
	struct job first, second;

	(void)state;
	keep(1, 10);
	first = begin(1);
	second = (struct job){ .memory = first.memory, .subnet = 1 };
	ask(&second);
	assert_int_equal(second.way.remembered, 10);
	find(&first, 12);
	second.way.remembered = 0;
	note(&second);
	assert_int_equal(recalled(1), 12);
	end(&first);
}

/* The answer may come late. */
static void what_a_trial_has_found_is_not_recalled_over(void **state)
{
	struct job job;

	(void)state;
	keep(1, 10);
	job = (struct job){ .memory = tcp_growth_memory_new(&params), .subnet = 1, .way.found = 2 };
	ask(&job);
	assert_true(job.recall.recalled);
	assert_int_equal(job.way.remembered, 0);
	end(&job);
}

static void wait_for_byte(void *arg)
{
	char byte;

	while (read(*(int *)arg, &byte, 1) < 0)
		;
}

/* A file system that does not answer delays nothing but the number. */
static void a_slow_file_is_recalled_when_it_has_come(void **state)
{
	const struct sockaddr_storage peer = peer_in(1);
	struct job job;
	int ends[2];

	(void)state;
	keep(1, 10);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(log_run(wait_for_byte, &ends[0]), 0);
	job = (struct job){ .memory = tcp_growth_memory_new(&params) };
	tcp_growth_memory_ask(job.memory, &job.recall, &interface, &peer);
	tcp_growth_memory_recall(job.memory, &job.recall, &job.way);
	assert_int_equal(job.way.remembered, 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_true(log_drain(60000));
	tcp_growth_memory_recall(job.memory, &job.recall, &job.way);
	assert_int_equal(job.way.remembered, 10);
	end(&job);
	close(ends[0]);
	close(ends[1]);
}

/* As a transport is closed. */
static void what_is_in_the_queue_is_written_after_the_end(void **state)
{
	const struct sockaddr_storage peer = peer_in(1);
	struct job job = { .memory = tcp_growth_memory_new(&params) };
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(log_run(wait_for_byte, &ends[0]), 0);
	tcp_growth_memory_ask(job.memory, &job.recall, &interface, &peer);
	for (unsigned i = 2; i < 9; i++) { /* the last one counts */
		job.way.found = i;
		tcp_growth_memory_note(job.memory, &job.recall, &job.way);
	}
	end(&job);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_true(log_drain(60000));
	assert_int_equal(recalled(1), 8);
	close(ends[0]);
	close(ends[1]);
}

static void nothing_is_kept_where_streams_are_set_or_there_is_no_place(void **state)
{
	struct job job = { 0 };

	(void)state;
	params.streams = 4;
	assert_null(tcp_growth_memory_new(&params));
	params.streams = 0;
	if (geteuid() != 0) {
		params.state_dir[0] = '\0';
		assert_null(tcp_growth_memory_new(&params));
	}
	ask(&job); /* all do nothing without one */
	find(&job, 4);
	end(&job);
	assert_int_equal(access(file, F_OK), -1);
}

static void is_left_alone(const char *at)
{
	struct stat before, after;
	struct job job;

	lines = 0;
	log_set_sink(count_lines);
	assert_int_equal(lstat(at, &before), 0);
	job = begin(1);
	assert_int_equal(job.way.remembered, 0);
	find(&job, 10);
	find(&job, 12);
	end(&job);
	assert_int_equal(lines, 1);
	assert_int_equal(lstat(at, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(before.st_mode, after.st_mode);
	assert_int_equal(before.st_size, after.st_size);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

static void a_file_that_others_may_have_written_is_left_alone(void **state)
{
	char other[PATH_BYTES];

	(void)state;
	snprintf(other, sizeof(other), "%s/other", root);
	keep(1, 10);
	assert_int_equal(recalled(1), 10);
	assert_int_equal(chmod(file, 0644), 0);
	is_left_alone(file);
	assert_int_equal(chmod(file, 0600), 0);
	assert_int_equal(recalled(1), 10); /* nothing else was wrong with it */
	assert_int_equal(link(file, other), 0);
	is_left_alone(file);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(symlink(other, file), 0);
	is_left_alone(file);
	is_left_alone(other);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(mkdir(file, 0600), 0);
	is_left_alone(file);
	assert_int_equal(rmdir(file), 0);
	assert_int_equal(mkfifo(file, 0600), 0); /* and it keeps nobody waiting */
	is_left_alone(file);
}

static void another_user_s_file_is_left_alone(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	keep(1, 10);
	assert_int_equal(chown(file, NOBODY, (gid_t)-1), 0);
	is_left_alone(file);
}

static void write_file(const uint8_t *bytes, size_t count)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), count);
	close(fd);
}

static void a_damaged_file_is_empty_and_gets_whole_again(void **state)
{
	static uint8_t bytes[1 << 20];
	uint64_t random = runtime_seed();
	struct stat st;

	(void)state;
	log_set_sink(count_lines);
	for (unsigned i = 0; i < 20; i++) {
		size_t count = i ? random_below(&random, sizeof(bytes)) : sizeof(bytes);

		keep(1, 10);
		assert_int_equal(stat(file, &st), 0);
		if (i % 2 && st.st_size > 1) {
			assert_int_equal(truncate(file, (off_t)random_below(&random, (uint64_t)st.st_size)), 0);
		} else {
			for (size_t k = 0; k < count; k++)
				bytes[k] = (uint8_t)random_next(&random);
			write_file(bytes, count);
		}
		assert_int_equal(recalled(1), 0);
	}
	keep(2, 7);
	assert_int_equal(recalled(2), 7);
	assert_int_equal(lines, 0);
}

static void entries_are_forgotten_after_a_day(void **state)
{
	static struct tcp_streams_memory memory;
	static const int64_t ages_s[] = { 86000, 87000, -3600 };
	const struct sockaddr_storage peer = peer_in(1);
	const struct tcp_streams_memory_key key = tcp_streams_memory_key(&interface, &peer);
	uint8_t bytes[TCP_STREAMS_MEMORY_BYTES];

	(void)state;
	keep(1, 10);
	for (unsigned i = 0; i < 3; i++) {
		memory.count = 0;
		tcp_streams_memory_put(&memory, &key, 5, (uint64_t)(time(NULL) - ages_s[i]));
		write_file(bytes, tcp_streams_memory_write(&memory, bytes));
		assert_int_equal(recalled(1), i ? 0 : 5);
	}
}

enum { WRITERS = 3, WRITES = 20 };

static void write_many(unsigned writer)
{
	struct job job = { .memory = tcp_growth_memory_new(&params) };

	for (unsigned i = 0; i < WRITES; i++) {
		job.recall = (struct tcp_growth_recall){ 0 };
		job.way = (struct tcp_streams_way){ 0 };
		job.subnet = writer * WRITES + i;
		ask(&job);
		find(&job, 2 + writer);
	}
	end(&job);
}

/* Whole at any time. */
static void look_at_file(void)
{
	static struct tcp_streams_memory memory;
	uint8_t bytes[TCP_STREAMS_MEMORY_BYTES];
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t count;

	if (fd < 0)
		return;
	count = read(fd, bytes, sizeof(bytes));
	close(fd);
	assert_true(count >= 0);
	if (count > 0) /* not its first moment, which counts as empty */
		assert_int_equal(tcp_streams_memory_read(bytes, (size_t)count, &memory), 0);
}

static void processes_that_write_at_once_lose_nothing(void **state)
{
	pid_t writers[WRITERS];
	unsigned left = WRITERS, missing = 0;

	(void)state;
	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = fork();
		assert_true(writers[i] >= 0);
		if (!writers[i]) {
			write_many(i);
			_exit(0);
		}
	}
	while (left) {
		int status;

		look_at_file();
		if (waitpid(-1, &status, WNOHANG) <= 0)
			continue;
		assert_int_equal(status, 0);
		left--;
	}
	for (unsigned i = 0; i < WRITERS * WRITES; i++)
		missing += recalled(i) != 2 + i / WRITES;
	/* Where a writer stands still with the lock for long, each of the others may go over what it writes then. */
	assert_in_range(missing, 0, WRITERS * WRITES / 2);
}

static double share_of(const double *buckets, double from_s, double until_s)
{
	double sum = 0;

	for (unsigned i = (unsigned)(from_s * 100 + 0.5); i < (unsigned)(until_s * 100 + 0.5); i++)
		sum += buckets[i];
	return sum / (until_s - from_s) / PORT_BPS;
}

static struct network network;

static void play(const struct scenario *scenario, uint64_t seed, double seconds)
{
	network_make(&network, scenario, seed, 0);
	network.memory = tcp_growth_memory_new(&params);
	network_play(&network, seconds);
	assert_true(log_drain(60000));
	tcp_growth_memory_free(network.memory);
}

static void a_later_job_has_its_rate_after_a_fifth_of_a_second(void **state)
{
	static const struct scenario networks[] = {
		{ "flows of a tenth", .caps = CAPS_EQUAL, .cap = 0.1, .hint = 1 },
		{ "ring", .caps = CAPS_EQUAL, .cap = 0.1, .hint = 1, .ring = true, .connections = 4 },
		{ "one way", .caps = CAPS_EQUAL, .cap = 0.1, .hint = 1, .one_way = true, .connections = 2 },
	};
	double found;

	(void)state;
	for (unsigned i = 0; i < 9; i++) {
		play(&networks[i / 3], i, 2);
		found = share_of(network.carried, 1.5, 2);
		assert_true(found > 0.9);
		assert_true(share_of(network.carried, 0.2, 0.3) < 0.93 * found);
		play(&networks[i / 3], i + 100, 0.5);
		assert_true(share_of(network.carried, 0.2, 0.3) >= 0.93 * found);
		assert_int_equal(unlink(file), 0);
	}
}

static void keep_wrong_number(void)
{
	const struct scenario narrow = { "", .caps = CAPS_EQUAL, .cap = 1.0 / 32, .hint = 1, .seconds = 5 };

	play(&narrow, 1, 2);
	assert_in_range(network.open_most_late, 30, 32);
}

static void a_wrong_number_does_no_harm(void **state)
{
	static const struct scenario full = { "", .hint = 1, .seconds = 3 },
				     unknown = { "", .open_mib = 1, .seconds = 3 },
				     foreign = { "", .shared = 0.5, .foreign = 1, .seconds = 3 };

	(void)state;
	keep_wrong_number();
	play(&full, 1, 3); /* nobody asks for it, and it stays */
	assert_int_equal(network.dialled, 0);
	assert_null(network.recall[0].slot);
	play(&unknown, 1, 3);
	assert_int_equal(network.open_most_late, 1);
	assert_true(share_of(network.carried, 0, 3) > 0.97);
	play(&unknown, 1, 0.5); /* it failed, so this one does not try it */
	assert_int_equal(network.ways[0].remembered, 0);
	keep_wrong_number();
	play(&foreign, 1, 3);
	assert_int_equal(network.open_most_late, 1);
	/* After half a second of the first trial it has its half of the uplink. */
	assert_true(share_of(network.foreign_bytes, 0.8, 3) >= 0.9 * 0.25);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, place_new, place_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_PLACE(a_later_job_tries_what_an_earlier_one_kept),
		IN_PLACE(a_number_that_failed_is_forgotten),
		IN_PLACE(what_this_process_has_kept_stays_if_it_fails_elsewhere),
		IN_PLACE(what_a_trial_has_found_is_not_recalled_over),
		IN_PLACE(a_slow_file_is_recalled_when_it_has_come),
		IN_PLACE(what_is_in_the_queue_is_written_after_the_end),
		IN_PLACE(nothing_is_kept_where_streams_are_set_or_there_is_no_place),
		IN_PLACE(a_file_that_others_may_have_written_is_left_alone),
		IN_PLACE(another_user_s_file_is_left_alone),
		IN_PLACE(a_damaged_file_is_empty_and_gets_whole_again),
		IN_PLACE(entries_are_forgotten_after_a_day),
		IN_PLACE(processes_that_write_at_once_lose_nothing),
		IN_PLACE(a_later_job_has_its_rate_after_a_fifth_of_a_second),
		IN_PLACE(a_wrong_number_does_no_harm),
	};

	runtime_start("growth_memory", 120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
