/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t this_thread(void)
{
	return (uint32_t)syscall(SYS_gettid); /* glibc has gettid only since 2.30 */
}

static struct {
	int calls, level, line;
	unsigned long flags;
	char file[64], fmt[16], text[2048];
} seen;

static void record(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	va_list args;

	seen.calls++;
	seen.level = level;
	seen.flags = flags;
	seen.line = line;
	snprintf(seen.file, sizeof(seen.file), "%s", file);
	snprintf(seen.fmt, sizeof(seen.fmt), "%s", fmt);
	va_start(args, fmt);
	snprintf(seen.text, sizeof(seen.text), "%s", va_arg(args, const char *));
	va_end(args);
	errno = EXDEV; /* a sink may do anything to it */
}

static int with_sink(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	log_set_sink(record);
	return 0;
}

static int without_sink(void **state)
{
	(void)state;
	log_set_sink(NULL);
	return 0;
}

static void sink_gets_one_finished_string(void **state)
{
	(void)state;
	log_write(LOG_LEVEL_INFO, LOG_INIT, "src/some/where.c", 42, "rank %d of %s", 3, "five%d");
	log_flush();
	assert_int_equal(seen.calls, 1);
	assert_int_equal(seen.level, LOG_LEVEL_INFO);
	assert_int_equal(seen.flags, LOG_INIT);
	assert_int_equal(seen.line, 42);
	assert_string_equal(seen.file, "where.c");
	assert_string_equal(seen.fmt, "%s");
	assert_string_equal(seen.text, "rank 3 of five%d");
}

static void macros_say_where_and_what_about(void **state)
{
	(void)state;
	log_warn("a");
	log_flush();
	assert_int_equal(seen.level, LOG_LEVEL_WARN);
	assert_true(seen.flags == LOG_ALL);
	assert_string_equal(seen.file, "log_test.c");
	log_info(LOG_GRAPH, "b");
	log_flush();
	assert_int_equal(seen.level, LOG_LEVEL_INFO);
	assert_int_equal(seen.flags, LOG_GRAPH);
	log_trace("c");
	log_flush();
	assert_int_equal(seen.level, LOG_LEVEL_TRACE);
	assert_int_equal(seen.calls, 3);
}

static void errno_is_kept(void **state)
{
	struct diag diag;

	(void)state;
	errno = ENOTTY;
	log_warn("x");
	assert_int_equal(errno, ENOTTY);
	log_flush();
	assert_int_equal(seen.calls, 1);
	assert_int_equal(errno, ENOTTY);
	diag_set(&diag, 1, 2, "%s", "y");
	assert_int_equal(errno, ENOTTY);
}

static void long_line_is_cut_not_overrun(void **state)
{
	static char text[5000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	log_warn("%s", text);
	log_flush();
	assert_int_equal(seen.calls, 1);
	assert_in_range(strlen(seen.text), 500, 1023);
}

/* What `write` prints to stderr. */
static size_t stderr_of(void (*write_it)(void), char *text, size_t text_bytes)
{
	int ends[2], saved = dup(STDERR_FILENO);
	ssize_t bytes;

	assert_return_code(saved, errno);
	assert_return_code(pipe(ends), errno);
	assert_return_code(dup2(ends[1], STDERR_FILENO), errno);
	write_it();
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[1]);
	bytes = read(ends[0], text, text_bytes - 1);
	close(ends[0]);
	assert_true(bytes >= 0);
	text[bytes] = '\0';
	return (size_t)bytes;
}

static void write_all_levels(void)
{
	log_info(LOG_NET, "quiet");
	log_trace("quieter");
	log_warn("loud %d", 1);
}

static void without_a_sink_only_warnings_reach_stderr(void **state)
{
	char text[256];

	(void)state;
	stderr_of(write_all_levels, text, sizeof(text));
	assert_string_equal(text, "tributary: loud 1\n");
}

static void write_long(void)
{
	static char text[5000];

	memset(text, 'x', sizeof(text) - 1);
	log_warn("%s", text);
}

static void long_warning_still_ends_its_line(void **state)
{
	char text[4096];
	size_t bytes;

	(void)state;
	bytes = stderr_of(write_long, text, sizeof(text));
	assert_in_range(bytes, 500, 1100);
	assert_int_equal(text[bytes - 1], '\n');
}

static atomic_flag said = ATOMIC_FLAG_INIT;
static atomic_int said_count;

static void *say_once(void *arg)
{
	for (int i = 0; i < 1000; i++) {
		if (log_once(&said))
			atomic_fetch_add(&said_count, 1);
	}
	return arg;
}

static void log_once_is_once_over_all_threads(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, say_once, NULL), 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&said_count), 1);
}

static void what_does_not_last_is_not_said(void **state)
{
	struct log_change change = { .logged = 1, .latest = 1 };
	uint64_t now_ns = 100 * NS_PER_S;
	unsigned lines = 0;

	(void)state;
	assert_false(log_lasts(&change, 1, now_ns));
	assert_false(log_lasts(&change, 2, now_ns));
	assert_false(log_lasts(&change, 2, now_ns + NS_PER_S - 1));
	assert_false(log_lasts(&change, 8, now_ns + NS_PER_S));
	assert_false(log_lasts(&change, 8, now_ns + 2 * NS_PER_S - 1));
	assert_true(log_lasts(&change, 8, now_ns + 2 * NS_PER_S));
	assert_false(log_lasts(&change, 8, now_ns + 9 * NS_PER_S));
	assert_false(log_lasts(&change, 4, now_ns + 9 * NS_PER_S));
	assert_false(log_lasts(&change, 4, now_ns + 11 * NS_PER_S - 1));
	assert_true(log_lasts(&change, 4, now_ns + 11 * NS_PER_S));
	now_ns += 11 * NS_PER_S;
	for (unsigned i = 0; i < 24 * 3600; i++) /* of a day, in which it changes each ten seconds */
		lines += log_lasts(&change, i / 10 % 2, now_ns += NS_PER_S);
	assert_int_equal(lines, 2);
}

/* ---- a sink that blocks ---- */

enum { LINES_MAX = 1024 };

static struct {
	sem_t entered, let_go;
	atomic_bool blocks;
	atomic_uint lines, lost, warnings;
	int numbers[LINES_MAX];
	char last[256];
	uint32_t thread;
} slow;

static void slow_sink(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	const char *text;
	va_list args;

	(void)flags, (void)file, (void)line;
	va_start(args, fmt);
	text = va_arg(args, const char *);
	va_end(args);
	if (atomic_load(&slow.blocks)) {
		sem_post(&slow.entered);
		while (sem_wait(&slow.let_go) < 0)
			;
	}
	slow.thread = this_thread();
	snprintf(slow.last, sizeof(slow.last), "%s", text);
	atomic_fetch_add(&slow.warnings, level == LOG_LEVEL_WARN);
	if (strncmp(text, "line ", 5) == 0)
		slow.numbers[atomic_fetch_add(&slow.lines, 1) % LINES_MAX] = (int)strtol(text + 5, NULL, 10);
	else if (strstr(text, " are lost: "))
		atomic_fetch_add(&slow.lost, (unsigned)strtoul(text, NULL, 10));
}

static int with_slow_sink(void **state)
{
	(void)state;
	memset(&slow, 0, sizeof(slow));
	sem_init(&slow.entered, 0, 0);
	sem_init(&slow.let_go, 0, 0);
	atomic_store(&slow.blocks, true);
	log_set_sink(slow_sink);
	return 0;
}

static void let_go(void)
{
	atomic_store(&slow.blocks, false);
	sem_post(&slow.let_go);
}

static void wait_until_blocked(void)
{
	while (sem_wait(&slow.entered) < 0)
		;
}

/* log_drain gives up at once while nothing has moved since it waited in vain. */
static void wait_until_written(void)
{
	while (!log_drain(100))
		sched_yield();
}

static void blocked_sink_blocks_no_caller(void **state)
{
	const unsigned sent = 500;

	(void)state;
	log_warn("line 0");
	wait_until_blocked();
	for (unsigned i = 1; i < sent; i++)
		log_warn("line %u", i);
	assert_int_equal(atomic_load(&slow.lines), 0);
	assert_false(log_drain(1));
	let_go();
	wait_until_written();
	assert_in_range(atomic_load(&slow.lines), 100, sent - 1); /* bounded, and counted */
	assert_int_equal(atomic_load(&slow.lines) + atomic_load(&slow.lost), sent);
	for (unsigned i = 0; i < atomic_load(&slow.lines); i++)
		assert_int_equal(slow.numbers[i], i); /* in order: what does not fit is the newest */
}

static void room_is_kept_for_warnings(void **state)
{
	(void)state;
	log_warn("first");
	wait_until_blocked();
	for (unsigned i = 0; i < 500; i++)
		log_info(LOG_NET, "line %u", i);
	log_warn("the one that matters");
	let_go();
	wait_until_written();
	assert_int_equal(atomic_load(&slow.warnings), 3); /* those two, and that lines are lost */
	assert_int_equal(atomic_load(&slow.lines) + atomic_load(&slow.lost), 500);
}

static void sink_that_was_taken_away_is_not_called_again(void **state)
{
	(void)state;
	log_warn("line 0");
	wait_until_blocked();
	for (unsigned i = 1; i < 10; i++)
		log_warn("line %u", i);
	log_set_sink(NULL); /* waits in vain for what is blocked, a bounded time */
	let_go();
	wait_until_written();
	assert_int_equal(atomic_load(&slow.lines), 1);
}

static void sink_gets_what_is_queued_before_it_is_taken_away(void **state)
{
	(void)state;
	atomic_store(&slow.blocks, false);
	for (unsigned i = 0; i < 50; i++)
		log_warn("line %u", i);
	log_set_sink(NULL);
	assert_int_equal(atomic_load(&slow.lines), 50);
}

static void collected_lines_are_written_by_the_thread_that_flushes(void **state)
{
	(void)state;
	atomic_store(&slow.blocks, false);
	log_collect();
	log_info(LOG_INIT, "line 0");
	log_info(LOG_INIT, "line 1");
	log_flush();
	assert_int_equal(atomic_load(&slow.lines), 2);
	assert_int_equal(slow.thread, this_thread());
	log_info(LOG_INIT, "line 2");
	wait_until_written();
	assert_int_not_equal(slow.thread, this_thread());
}

static void forked_child_of_a_blocked_process_logs_and_ends(void **state)
{
	int status = -1;
	pid_t child;

	(void)state;
	log_warn("line 0");
	wait_until_blocked();
	log_warn("line 1");
	child = fork();
	if (child == 0) {
		atomic_store(&slow.blocks, false);
		log_warn("of the child");
		log_flush();
		(void)log_drain(1000);
		/* Its own line alone: what its parent queued, its parent writes. */
		_exit(atomic_load(&slow.lines) == 0 && strcmp(slow.last, "of the child") == 0 ? 0 : 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	let_go();
	wait_until_written();
	assert_int_equal(atomic_load(&slow.lines), 2);
}

static void count_run(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static void what_is_run_waits_its_turn(void **state)
{
	atomic_uint runs = 0;
	unsigned taken = 0;

	(void)state;
	log_warn("line 0");
	wait_until_blocked();
	while (log_run(count_run, &runs) == 0)
		taken++;
	assert_in_range(taken, 50, 200);
	assert_int_equal(atomic_load(&runs), 0);
	let_go();
	wait_until_written();
	assert_int_equal(atomic_load(&runs), taken);
}

static struct {
	pthread_t tester;
	sem_t end;
	atomic_bool blocked, on_tester;
} run;

static void run_blocks(void *arg)
{
	(void)arg;
	atomic_store(&run.on_tester, pthread_equal(pthread_self(), run.tester) != 0);
	atomic_store(&run.blocked, true);
	while (!atomic_load(&run.on_tester) && sem_wait(&run.end) < 0)
		;
}

/* As a dump does to a file system that hangs: the thread that flushes is NCCL's, and peers wait for it. */
static void what_is_run_never_blocks_a_thread_that_flushes(void **state)
{
	(void)state;
	run.tester = pthread_self();
	atomic_store(&run.blocked, false);
	assert_int_equal(sem_init(&run.end, 0, 0), 0);
	atomic_store(&slow.blocks, false);
	log_collect();
	log_warn("line 0");
	assert_int_equal(log_run(run_blocks, NULL), 0);
	log_warn("line 1");
	log_flush();
	assert_int_equal(atomic_load(&slow.lines), 1); /* in order: the other one waits */
	assert_int_equal(slow.thread, this_thread());
	while (!atomic_load(&run.blocked))
		sched_yield();
	assert_false(atomic_load(&run.on_tester));
	log_collect();
	log_warn("line 2");
	log_flush();
	assert_int_equal(atomic_load(&slow.lines), 1);
	sem_post(&run.end);
	wait_until_written();
	assert_int_equal(atomic_load(&slow.lines), 3);
	sem_destroy(&run.end);
}

static void *log_many(void *arg)
{
	for (unsigned i = 0; i < 200; i++) {
		log_warn("line %u", i);
		if (i % 16 == 0)
			log_flush();
	}
	return arg;
}

static void threads_lose_nothing_without_a_count(void **state)
{
	pthread_t threads[4];

	(void)state;
	atomic_store(&slow.blocks, false);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, log_many, NULL), 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	wait_until_written();
	assert_int_equal(atomic_load(&slow.lines) + atomic_load(&slow.lost), 800);
}

#ifdef TRIBUTARY_FAULTS
static void without_a_thread_the_lines_wait_for_a_flush(void **state)
{
	(void)state;
	atomic_store(&slow.blocks, false);
	sys_fault_set(SYS_FAULT_THREAD, 1, EAGAIN);
	log_warn("line 0");
	assert_int_equal(atomic_load(&slow.lines), 0);
	log_flush();
	assert_int_equal(atomic_load(&slow.lines), 1);
	assert_int_equal(slow.thread, this_thread());
}
#endif

static void diag_is_cut_to_its_size(void **state)
{
	struct diag diag;
	char text[1000];

	(void)state;
	memset(text, 'y', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	diag_set(&diag, 7, 9, "%s", text);
	assert_int_equal(diag.line, 7);
	assert_int_equal(diag.column, 9);
	assert_int_equal(strlen(diag.text), sizeof(diag.text) - 1);
}

/* Whatever its length, and that of its words, a sentence begins and ends as it should, and no word is cut. */
static void a_long_sentence_keeps_its_end_and_whole_words(void **state)
{
	char whole[600] = "begins", is[96], *words;

	(void)state;
	for (size_t i = 0; strlen(whole) < 500; i++) {
		snprintf(whole + strlen(whole), sizeof(whole) - strlen(whole), " %.*s", (int)(1 + i * 7 % 11),
			 "abcdefghijkl");
		log_sentence(is, sizeof(is), "%s: leave it out", whole);
		assert_true(strlen(is) < sizeof(is));
		assert_memory_equal(is, "begins", 6);
		assert_string_equal(is + strlen(is) - 14, ": leave it out");
		words = strstr(is, " ... ");
		assert_int_equal(words != NULL, strlen(whole) + 14 >= sizeof(is));
		if (!words)
			continue;
		*words = '\0';
		assert_memory_equal(is, whole, strlen(is));
		assert_int_equal(whole[strlen(is)], ' ');
		words += 5;
		words[strlen(words) - 14] = '\0';
		assert_string_equal(words, whole + strlen(whole) - strlen(words));
		assert_int_equal(whole[strlen(whole) - strlen(words) - 1], ' ');
	}
}

static void a_sentence_may_hold_itself(void **state)
{
	char is[64] = "it is away";

	(void)state;
	log_sentence(is, sizeof(is), "aggregator %s: %s", "here", is);
	assert_string_equal(is, "aggregator here: it is away");
}

#define SLOW_TEST(name) cmocka_unit_test_setup_teardown(name, with_slow_sink, without_sink)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SLOW_TEST(blocked_sink_blocks_no_caller),
		SLOW_TEST(room_is_kept_for_warnings),
		SLOW_TEST(sink_that_was_taken_away_is_not_called_again),
		SLOW_TEST(sink_gets_what_is_queued_before_it_is_taken_away),
		SLOW_TEST(collected_lines_are_written_by_the_thread_that_flushes),
		SLOW_TEST(forked_child_of_a_blocked_process_logs_and_ends),
		SLOW_TEST(what_is_run_waits_its_turn),
		SLOW_TEST(what_is_run_never_blocks_a_thread_that_flushes),
		SLOW_TEST(threads_lose_nothing_without_a_count),
#ifdef TRIBUTARY_FAULTS
		SLOW_TEST(without_a_thread_the_lines_wait_for_a_flush),
#endif
		cmocka_unit_test_setup_teardown(sink_gets_one_finished_string, with_sink, without_sink),
		cmocka_unit_test_setup_teardown(macros_say_where_and_what_about, with_sink, without_sink),
		cmocka_unit_test_setup_teardown(errno_is_kept, with_sink, without_sink),
		cmocka_unit_test_setup_teardown(long_line_is_cut_not_overrun, with_sink, without_sink),
		cmocka_unit_test(without_a_sink_only_warnings_reach_stderr),
		cmocka_unit_test(long_warning_still_ends_its_line),
		cmocka_unit_test(log_once_is_once_over_all_threads),
		cmocka_unit_test(what_does_not_last_is_not_said),
		cmocka_unit_test(diag_is_cut_to_its_size),
		cmocka_unit_test(a_long_sentence_keeps_its_end_and_whole_words),
		cmocka_unit_test(a_sentence_may_hold_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
