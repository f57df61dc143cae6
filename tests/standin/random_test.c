/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random schedules: the same hundred in every `make check`; 100,000 others with TRIBUTARY_TEST_LONG=1, or as many as
 * TRIBUTARY_TEST_SEEDS says, from TRIBUTARY_TEST_SEED on. A schedule is the same whenever it is played.
 */
#include "play.h"
#include "support/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORKERS = 2, FEW = 100, MANY = 100000, FAILURES_SHOWN = 5 };

struct worker {
	struct play_counts counts;
	unsigned failures;
	int opened;
};

static void show(const struct play *play, uint64_t seed, const char *why)
{
	fprintf(stderr, "TRIBUTARY_TEST_SEED=%#" PRIx64 ": %s\n", seed, why);
	for (unsigned i = 0; i < play->process_count; i++)
		fprintf(stderr, "process %u of job %u in place %u logged:\n%.*s", i, play->processes[i].job,
			(unsigned)play->processes[i].place, (int)play->board->processes[i].log_bytes,
			play->board->processes[i].log);
}

static void work(struct worker *worker, uint64_t seed, unsigned first, unsigned count)
{
	char folder[] = "/tmp/standin-XXXXXX";
	static struct play play;

	assert_non_null(mkdtemp(folder));
	worker->opened = play_open(&play, folder, NULL);
	for (unsigned i = first; worker->opened == 0 && i < count && worker->failures < FAILURES_SHOWN; i += WORKERS) {
		schedule_run(&play, seed + i);
		if (play.failed) {
			worker->failures++;
			show(&play, seed + i, play.why);
		}
	}
	worker->counts = play.counts;
	tree_remove(folder);
}

static void add(struct worker *to, const struct worker *from)
{
	const uint64_t *more = (const uint64_t *)&from->counts;
	uint64_t *sum = (uint64_t *)&to->counts;

	for (size_t i = 0; i < sizeof(to->counts) / sizeof(*sum); i++)
		sum[i] += more[i];
	to->failures += from->failures;
	if (from->opened < 0)
		to->opened = from->opened;
}

static unsigned schedules_wanted(void)
{
	const char *text = runtime_setting("TEST_SEEDS");

	return text ? (unsigned)strtoul(text, NULL, 0) : runtime_long() ? MANY : FEW;
}

static void every_communicator_gets_its_own_plan_or_none(void **state)
{
	const unsigned count = schedules_wanted();
	const uint64_t seed = count == FEW && !runtime_setting("TEST_SEEDS") ? 1 : runtime_seed();
	const uint64_t start_ns = runtime_now_ns();
	struct worker *workers, sum = { .opened = 0 };
	const struct play_counts *counts = &sum.counts;
	pid_t pids[WORKERS];
	int status, bad = 0;

	(void)state;
	workers = mmap(NULL, WORKERS * sizeof(*workers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(workers != MAP_FAILED);
	fflush(NULL);
	for (unsigned i = 0; i < WORKERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			work(&workers[i], seed, i, count);
			fflush(NULL);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		bad |= status;
		add(&sum, &workers[i]);
	}
	munmap(workers, WORKERS * sizeof(*workers));
	if (sum.opened < 0) {
		printf("skipped: no namespaces here: %s\n", strerror(-sum.opened));
		skip();
	}
	printf("%" PRIu64 " schedules, %.0f in a second, %" PRIu64 " turns, %" PRIu64 " waits, %" PRIu64 " kills\n",
	       counts->schedules, (double)counts->schedules * 1e9 / (double)(runtime_now_ns() - start_ns),
	       counts->turns, counts->waits, counts->kills);
	printf("%" PRIu64 " communicators, %" PRIu64 " not finished; %" PRIu64 " plans were due, %" PRIu64
	       " were made; %u schedules failed\n",
	       counts->communicators, counts->given_up, counts->due, counts->planned, sum.failures);
	printf("%" PRIu64 " communicators followed a tuning table, %" PRIu64 " were refused one that was named\n",
	       counts->followed, counts->refused);
	assert_int_equal(bad, 0);
	assert_int_equal(sum.failures, 0);
	assert_true(count < FEW || (counts->due > counts->schedules / 2 && counts->waits > counts->schedules / 50 &&
				    counts->followed > counts->schedules / 4 && counts->refused > 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_communicator_gets_its_own_plan_or_none),
	};

	runtime_start("standin/random_test", runtime_long() || runtime_setting("TEST_SEEDS") ? 3000 : 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
