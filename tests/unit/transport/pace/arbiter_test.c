/* SPDX-License-Identifier: Apache-2.0 */
#include "arbiter_place.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/random.h"
#include "transport/pace/arbiter_file.h"

static struct pace_arbiter_shared *map_file(void)
{
	char path[512];
	void *memory;
	int fd;

	assert_int_equal(files(path), 1);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	memory = mmap(NULL, sizeof(struct pace_arbiter_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	close(fd);
	return memory;
}

static void devices_do_not_share(void **state)
{
	struct pace_arbiter *first, *second;
	char path[512];

	(void)state;
	first = open_one("eth0");
	second = open_one("eth1");
	assert_int_equal(files(path), 2);
	assert_int_equal(reserve(first, 0, BUDGET), BUDGET);
	assert_int_equal(reserve(second, 0, BUDGET), BUDGET);
	pace_arbiter_close(first);
	pace_arbiter_close(second);
}

static void alone_a_process_has_the_whole_budget(void **state)
{
	struct pace_arbiter *arbiter;

	(void)state;
	arbiter = open_one("eth0");
	assert_int_equal(pace_arbiter_processes(arbiter), 1);
	assert_int_equal(reserve(arbiter, 0, BUDGET), BUDGET);
	pace_arbiter_close(arbiter);
}

static void those_that_want_more_share_equally_what_the_others_leave(void **state)
{
	struct pace_arbiter *a, *b, *c;

	(void)state;
	a = open_one("eth0");
	b = open_one("eth0");
	c = open_one("eth0");
	assert_int_equal(pace_arbiter_processes(c), 3);
	/* An idle process's share is used by the others. */
	assert_int_equal(reserve(a, 0, BUDGET), BUDGET);
	pace_arbiter_publish(a, BUDGET, true, 0, 0);
	/* Who comes late has a quantum at once, the rest as the first gives it back. */
	assert_int_equal(reserve(b, 0, BUDGET), QUANTUM);
	pace_arbiter_publish(b, QUANTUM, true, 0, 0);
	assert_int_equal(reserve(b, QUANTUM, BUDGET), 0);
	pace_arbiter_publish(a, 6 * QUANTUM, true, 0, 0);
	assert_int_equal(reserve(a, 6 * QUANTUM, BUDGET), 0); /* has more than half */
	assert_int_equal(reserve(b, QUANTUM, BUDGET), 3 * QUANTUM);
	pace_arbiter_publish(b, 4 * QUANTUM, true, 0, 0);
	pace_arbiter_publish(a, 3 * QUANTUM, true, 0, 0);
	assert_int_equal(reserve(a, 3 * QUANTUM, BUDGET), 2 * QUANTUM);
	pace_arbiter_publish(a, 5 * QUANTUM, true, 0, 0);
	/* A third that wants little takes from what is shared, not a third. */
	pace_arbiter_publish(a, 3 * QUANTUM, true, 0, 0);
	assert_int_equal(reserve(c, 0, 2 * QUANTUM), 2 * QUANTUM);
	pace_arbiter_publish(c, 2 * QUANTUM, false, 0, 0);
	pace_arbiter_publish(b, 2 * QUANTUM, true, 0, 0);
	assert_int_equal(reserve(b, 2 * QUANTUM, BUDGET), 2 * QUANTUM);
	pace_arbiter_publish(b, 4 * QUANTUM, true, 0, 0);
	assert_int_equal(reserve(a, 3 * QUANTUM, BUDGET), QUANTUM);
	pace_arbiter_close(a);
	pace_arbiter_close(b);
	/* All alone again. */
	assert_int_equal(reserve(c, 0, BUDGET), BUDGET);
	pace_arbiter_close(c);
}

static void deliveries_are_summed_over_processes_also_gone_ones(void **state)
{
	struct pace_arbiter *a, *b;

	(void)state;
	a = open_one("eth0");
	b = open_one("eth0");
	pace_arbiter_count_delivered(a, 5);
	pace_arbiter_count_delivered(b, 1ULL << 40);
	assert_true(pace_arbiter_delivered(a) == (1ULL << 40) + 5);
	pace_arbiter_close(b);
	assert_true(pace_arbiter_delivered(a) == (1ULL << 40) + 5);
	b = open_one("eth0");
	pace_arbiter_count_delivered(b, 3);
	assert_true(pace_arbiter_delivered(a) == (1ULL << 40) + 8);
	pace_arbiter_close(a);
	pace_arbiter_close(b);
}

static void all_places_may_be_taken(void **state)
{
	struct pace_arbiter *arbiters[PACE_ARBITER_SLOTS], *more;
	struct diag diag = { 0 };
	char path[512];

	(void)state;
	for (size_t i = 0; i < PACE_ARBITER_SLOTS; i++)
		arbiters[i] = open_one("eth0");
	assert_int_equal(pace_arbiter_open(directory, "eth0", &more, &diag), -EUSERS);
	assert_true(strlen(diag.text) > 0);
	pace_arbiter_close(arbiters[7]);
	arbiters[7] = open_one("eth0");
	for (size_t i = 0; i < PACE_ARBITER_SLOTS; i++)
		pace_arbiter_close(arbiters[i]);
	assert_int_equal(files(path), 0);
}

static void a_file_full_of_nonsense_never_breaks_anything(void **state)
{
	struct pace_arbiter_shared *shared;
	struct pace_arbiter *arbiter;

	(void)state;
	arbiter = open_one("eth0");
	shared = map_file();
	for (uint64_t seed = 1; seed <= 300; seed++) {
		uint64_t random = seed;
		uint64_t magic = atomic_load(&shared->magic);
		unsigned char *bytes = (unsigned char *)shared;

		for (size_t i = 0; i < sizeof(*shared); i++)
			bytes[i] = (unsigned char)random_next(&random);
		atomic_store(&shared->magic, magic);
		for (uint64_t tick = 1; tick < 5; tick++) {
			pace_arbiter_tick(arbiter, tick * NS_PER_S * 5);
			pace_arbiter_delivered(arbiter);
			assert_true(pace_arbiter_processes(arbiter) <= PACE_ARBITER_SLOTS + 1);
			assert_true(reserve(arbiter, 0, BUDGET) <= BUDGET);
			assert_true(reserve(arbiter, 0, BUDGET) >= QUANTUM);
			pace_arbiter_publish(arbiter, 0, true, 0, 0);
			pace_arbiter_count_delivered(arbiter, 1);
		}
	}
	munmap(shared, sizeof(*shared));
	pace_arbiter_close(arbiter);
}

/* ----------------------------------------------------------------------------------------------------- real processes */

static void a_killed_process_gives_back_what_it_held(void **state)
{
	struct pace_arbiter *arbiter;
	struct child child;

	(void)state;
	arbiter = open_one("eth0");
	child = child_start();
	assert_int_equal(reserve(arbiter, 0, BUDGET), QUANTUM);
	assert_int_equal(pace_arbiter_processes(arbiter), 2);
	pace_arbiter_tick(arbiter, NS_PER_S);
	pace_arbiter_tick(arbiter, NS_PER_S + 1);
	assert_int_equal(pace_arbiter_processes(arbiter), 2); /* quiet, but alive */
	child_end(&child, SIGKILL);
	pace_arbiter_tick(arbiter, NS_PER_S + 2);
	assert_int_equal(pace_arbiter_processes(arbiter), 1);
	assert_int_equal(reserve(arbiter, 0, BUDGET), BUDGET);
	pace_arbiter_close(arbiter);
}

static void the_next_process_finds_the_place_of_a_killed_one_free(void **state)
{
	struct pace_arbiter *arbiter;
	struct child child;
	char path[512];

	(void)state;
	child = child_start();
	child_end(&child, SIGKILL);
	assert_int_equal(files(path), 1);
	arbiter = open_one("eth0");
	assert_int_equal(pace_arbiter_processes(arbiter), 1);
	assert_int_equal(reserve(arbiter, 0, BUDGET), BUDGET);
	pace_arbiter_close(arbiter);
	assert_int_equal(files(path), 0);
}

static void a_process_that_leaves_gives_back_what_it_held(void **state)
{
	struct pace_arbiter *arbiter;
	struct child child;

	(void)state;
	arbiter = open_one("eth0");
	child = child_start();
	assert_int_equal(child_end(&child, 0), 0);
	assert_int_equal(reserve(arbiter, 0, BUDGET), BUDGET);
	pace_arbiter_close(arbiter);
}

static void a_forked_child_does_not_free_its_parents_place(void **state)
{
	struct pace_arbiter *first, *second;
	int status;
	pid_t pid;

	(void)state;
	first = open_one("eth0");
	second = open_one("eth0");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		pace_arbiter_close(first);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	pace_arbiter_tick(second, NS_PER_S);
	assert_int_equal(pace_arbiter_processes(second), 2);
	pace_arbiter_close(first);
	pace_arbiter_close(second);
}

static void a_pid_that_was_given_to_another_process_does_not_count(void **state)
{
	struct pace_arbiter_shared *shared;
	struct pace_arbiter *arbiter;
	struct child child;

	(void)state;
	arbiter = open_one("eth0");
	child = child_start();
	shared = map_file();
	atomic_fetch_add(&shared->slots[1].start_ticks, 1);
	pace_arbiter_tick(arbiter, NS_PER_S);
	pace_arbiter_tick(arbiter, NS_PER_S + 1);
	assert_int_equal(pace_arbiter_processes(arbiter), 1);
	child_end(&child, SIGKILL);
	munmap(shared, sizeof(*shared));
	pace_arbiter_close(arbiter);
}

static void a_process_of_another_pid_namespace_is_judged_by_its_beat(void **state)
{
	struct pace_arbiter_shared *shared;
	struct pace_arbiter *arbiter;
	struct child child;
	uint64_t now_ns = NS_PER_S;

	(void)state;
	arbiter = open_one("eth0");
	child = child_start();
	shared = map_file();
	/* As if of another namespace, where its pid means nothing here. */
	atomic_fetch_add(&shared->slots[1].pid_namespace, 1);
	atomic_store(&shared->slots[1].pid, 0x7fffffff);
	child_end(&child, SIGKILL);
	pace_arbiter_tick(arbiter, now_ns);
	/* Our own rest of a minute says nothing about it. */
	pace_arbiter_tick(arbiter, now_ns += 60 * NS_PER_S);
	assert_int_equal(pace_arbiter_processes(arbiter), 2);
	atomic_fetch_add(&shared->slots[1].beat, 1);
	for (unsigned i = 0; i < 3; i++)
		pace_arbiter_tick(arbiter, now_ns += NS_PER_S);
	assert_int_equal(pace_arbiter_processes(arbiter), 2);
	pace_arbiter_tick(arbiter, now_ns += NS_PER_S);
	assert_int_equal(pace_arbiter_processes(arbiter), 1); /* stale: ignored, not freed */
	assert_true(atomic_load(&shared->slots[1].owner) != 0);
	assert_int_equal(reserve(arbiter, 0, BUDGET), BUDGET);
	/* Its beat goes on: it counts again. */
	atomic_fetch_add(&shared->slots[1].beat, 1);
	pace_arbiter_tick(arbiter, now_ns += NS_PER_S);
	assert_int_equal(pace_arbiter_processes(arbiter), 2);
	for (unsigned i = 0; i < 10; i++)
		pace_arbiter_tick(arbiter, now_ns += NS_PER_S);
	assert_true(atomic_load(&shared->slots[1].owner) == 0);
	munmap(shared, sizeof(*shared));
	pace_arbiter_close(arbiter);
}

static void a_process_that_lost_its_place_takes_another(void **state)
{
	struct pace_arbiter_shared *shared;
	struct pace_arbiter *stopped, *watching, *late;

	(void)state;
	stopped = open_one("eth0");
	watching = open_one("eth0");
	shared = map_file();
	for (uint64_t i = 1; i < 20; i++)
		pace_arbiter_tick(watching, i * NS_PER_S); /* the stopped one does not tick: its lease ends */
	assert_true(atomic_load(&shared->slots[0].owner) == 0);
	late = open_one("eth0");
	assert_int_equal(pace_arbiter_processes(late), 2);
	pace_arbiter_tick(stopped, 20 * NS_PER_S);
	assert_int_equal(pace_arbiter_processes(stopped), 3);
	assert_true(atomic_load(&shared->slots[2].owner) != 0);
	pace_arbiter_publish(stopped, 3 * QUANTUM, true, 0, 0);
	assert_true(atomic_load(&shared->slots[0].outstanding_bytes) == 0);
	assert_true(atomic_load(&shared->slots[2].outstanding_bytes) == 3 * QUANTUM);
	munmap(shared, sizeof(*shared));
	pace_arbiter_close(stopped);
	pace_arbiter_close(watching);
	pace_arbiter_close(late);
}

/*
 * Processes that take and give back at random, as fast as they can. `held` counts what they hold, never more than what
 * their slots say: more is added after reserve, less before publish.
 */
enum { CROWD = 3, TURNS = 100000 };

struct crowd {
	_Atomic uint64_t held, most, taken[CROWD];
};

static void crowd_run(struct crowd *crowd, unsigned index)
{
	uint64_t random = index + 1, mine = 0;
	struct pace_arbiter *arbiter;
	struct diag diag;

	if (pace_arbiter_open(directory, "eth0", &arbiter, &diag) < 0)
		_exit(1);
	for (unsigned i = 0; i < TURNS; i++) {
		uint64_t more = reserve(arbiter, mine, 1 + random_below(&random, BUDGET)), now, most, less;

		now = atomic_fetch_add(&crowd->held, more) + more;
		most = atomic_load(&crowd->most);
		while (now > most && !atomic_compare_exchange_weak(&crowd->most, &most, now))
			;
		atomic_fetch_add(&crowd->taken[index], more);
		mine += more;
		less = random_below(&random, mine + 1);
		atomic_fetch_sub(&crowd->held, less);
		mine -= less;
		pace_arbiter_publish(arbiter, mine, random_below(&random, 2), 0, 0);
		if (random_below(&random, 1000) == 0)
			pace_arbiter_tick(arbiter, (uint64_t)i * NS_PER_US); /* no lease ends here */
	}
	atomic_fetch_sub(&crowd->held, mine);
	pace_arbiter_close(arbiter);
	_exit(0);
}

static void the_sum_stays_within_the_budget_and_a_quantum_each(void **state)
{
	struct crowd *crowd;
	pid_t pids[CROWD];
	char path[512];

	(void)state;
	crowd = mmap(NULL, sizeof(*crowd), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(crowd, MAP_FAILED);
	for (unsigned i = 0; i < CROWD; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			crowd_run(crowd, i);
	}
	for (unsigned i = 0; i < CROWD; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		assert_true(atomic_load(&crowd->taken[i]) > (uint64_t)TURNS / 100 * QUANTUM);
	}
	assert_int_equal(atomic_load(&crowd->held), 0);
	assert_in_range(atomic_load(&crowd->most), BUDGET / 2, BUDGET + CROWD * QUANTUM);
	assert_int_equal(files(path), 0);
	munmap(crowd, sizeof(*crowd));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIRECTORY(devices_do_not_share),
		IN_DIRECTORY(alone_a_process_has_the_whole_budget),
		IN_DIRECTORY(those_that_want_more_share_equally_what_the_others_leave),
		IN_DIRECTORY(deliveries_are_summed_over_processes_also_gone_ones),
		IN_DIRECTORY(all_places_may_be_taken),
		IN_DIRECTORY(a_file_full_of_nonsense_never_breaks_anything),
		IN_DIRECTORY(a_killed_process_gives_back_what_it_held),
		IN_DIRECTORY(the_next_process_finds_the_place_of_a_killed_one_free),
		IN_DIRECTORY(a_process_that_leaves_gives_back_what_it_held),
		IN_DIRECTORY(a_forked_child_does_not_free_its_parents_place),
		IN_DIRECTORY(a_pid_that_was_given_to_another_process_does_not_count),
		IN_DIRECTORY(a_process_of_another_pid_namespace_is_judged_by_its_beat),
		IN_DIRECTORY(a_process_that_lost_its_place_takes_another),
		IN_DIRECTORY(the_sum_stays_within_the_budget_and_a_quantum_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
