/* SPDX-License-Identifier: Apache-2.0 */
/* Of the processes of a host that send to one host, one at a time has the turn. */
#include "arbiter_place.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/random.h"
#include "support/runtime.h"
#include "transport/pace/arbiter_file.h"

enum { HOST = 77 };
#define NOW_NS (1000 * NS_PER_S)

static bool take(struct pace_arbiter *arbiter, uint64_t rested_ns, uint64_t now_ns)
{
	return pace_arbiter_turn_take(arbiter, HOST, rested_ns, now_ns);
}

static void one_at_a_time_has_the_turn(void **state)
{
	struct pace_arbiter *a = open_one("eth0"), *b = open_one("eth0"), *other = open_one("eth1");

	(void)state;
	assert_true(take(a, 0, NOW_NS));
	assert_false(take(b, 0, NOW_NS));
	assert_true(pace_arbiter_turn_take(b, HOST + 1, 0, NOW_NS)); /* another host's */
	assert_true(take(other, 0, NOW_NS));                         /* another port's */
	assert_true(take(a, 0, NOW_NS + 90 * NS_PER_MS));            /* again, so its lease begins again */
	assert_false(take(b, 0, NOW_NS + 190 * NS_PER_MS));
	assert_true(take(b, 0, NOW_NS + 191 * NS_PER_MS));
	assert_false(take(a, 0, NOW_NS + 192 * NS_PER_MS));
	pace_arbiter_turn_leave(a, HOST); /* which it has not */
	assert_false(take(a, 0, NOW_NS + 192 * NS_PER_MS));
	pace_arbiter_turn_leave(b, HOST);
	assert_true(take(a, 0, NOW_NS + 192 * NS_PER_MS));
	pace_arbiter_close(a);
	pace_arbiter_close(b);
	pace_arbiter_close(other);
}

/* A job that computes rests in all its processes. */
static void who_rested_waits_for_one_that_may_have_rested_too(void **state)
{
	struct pace_arbiter *a = open_one("eth0"), *b = open_one("eth0");

	(void)state;
	assert_true(take(a, 0, NOW_NS));
	assert_false(take(b, 5 * NS_PER_S, NOW_NS + 5 * NS_PER_S));
	assert_true(take(a, 5 * NS_PER_S, NOW_NS + 5 * NS_PER_S));
	assert_true(take(b, 0, NOW_NS + 6 * NS_PER_S));
	pace_arbiter_close(a);
	pace_arbiter_close(b);
}

static void without_a_place_each_has_its_turn(void **state)
{
	struct pace_arbiter *a = open_one("eth0"), *b = open_one("eth0");

	(void)state;
	assert_true(take(NULL, 0, NOW_NS));
	pace_arbiter_turn_leave(NULL, HOST);
	for (unsigned i = 1; i <= PACE_ARBITER_TURNS; i++) {
		assert_true(pace_arbiter_turn_take(a, i, 0, NOW_NS));
		assert_false(pace_arbiter_turn_take(b, i, 0, NOW_NS));
	}
	assert_true(pace_arbiter_turn_take(a, 1000, 0, NOW_NS));
	assert_true(pace_arbiter_turn_take(b, 1000, 0, NOW_NS));
	pace_arbiter_close(a);
	pace_arbiter_close(b);
}

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

/* Whatever is written there, the turn can be had within ten seconds. */
static void nonsense_delays_a_turn_and_no_more(void **state)
{
	struct pace_arbiter *arbiter = open_one("eth0");
	struct pace_arbiter_shared *shared = map_file();
	uint64_t random = runtime_seed();

	(void)state;
	assert_true(take(arbiter, 0, NOW_NS));
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t lease = random_next(&random) >> random_below(&random, 60);

		atomic_store(&shared->turns[0].lease, lease);
		if (!take(arbiter, 0, NOW_NS))
			assert_true(take(arbiter, 0, NOW_NS + 10001 * NS_PER_MS));
	}
	munmap(shared, sizeof(*shared));
	pace_arbiter_close(arbiter);
}

/* Takes the turn, and says so with each byte that it is asked; 'y' or 'n'. */
static struct child asked_start(int *ret_ask)
{
	int said[2], told[2];
	struct child child;

	assert_int_equal(pipe(said), 0);
	assert_int_equal(pipe(told), 0);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		struct pace_arbiter *arbiter;
		struct diag diag;
		char byte;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(told[1]);
		if (pace_arbiter_open(directory, "eth0", &arbiter, &diag) < 0)
			_exit(1);
		while (read(told[0], &byte, 1) == 1) {
			byte = take(arbiter, 0, clock_now_ns()) ? 'y' : 'n';
			if (write(said[1], &byte, 1) != 1)
				_exit(2);
		}
		pace_arbiter_close(arbiter);
		_exit(0);
	}
	close(said[1]);
	close(told[0]);
	child.said = said[0];
	child.told = *ret_ask = told[1];
	return child;
}

static bool child_has_turn(const struct child *child)
{
	char byte = 0;

	assert_int_equal(write(child->told, "?", 1), 1);
	assert_int_equal(read(child->said, &byte, 1), 1);
	return byte == 'y';
}

/* Not before its lease has ended, and then without anybody's help. Returns when. */
static uint64_t await_turn(struct pace_arbiter *arbiter, uint64_t taken_ns)
{
	const uint64_t deadline_ns = runtime_deadline_ns(20000);
	uint64_t now_ns = clock_now_ns();

	while (!take(arbiter, 0, now_ns)) {
		assert_false(runtime_past(deadline_ns));
		usleep(1000);
		now_ns = clock_now_ns();
	}
	assert_true(now_ns >= taken_ns + PACE_ARBITER_TURN_NS);
	return now_ns;
}

static void a_killed_process_loses_the_turn(void **state)
{
	struct pace_arbiter *arbiter = open_one("eth0");
	uint64_t taken_ns;
	int ask;
	struct child child = asked_start(&ask);

	(void)state;
	taken_ns = clock_now_ns();
	assert_true(child_has_turn(&child));
	assert_int_equal(child_end(&child, SIGKILL), -1);
	await_turn(arbiter, taken_ns);
	pace_arbiter_close(arbiter);
}

static void a_stopped_process_loses_the_turn_and_hears_of_it(void **state)
{
	struct pace_arbiter *arbiter = open_one("eth0");
	uint64_t taken_ns, lost_ns;
	int ask, status;
	struct child child = asked_start(&ask);

	(void)state;
	taken_ns = clock_now_ns();
	assert_true(child_has_turn(&child));
	assert_int_equal(kill(child.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
	lost_ns = await_turn(arbiter, taken_ns);
	assert_int_equal(kill(child.pid, SIGCONT), 0);
	/* Kept here meanwhile, unless this process was not run for so long. */
	if (!child_has_turn(&child)) {
		pace_arbiter_turn_leave(arbiter, HOST);
		assert_true(child_has_turn(&child));
	} else {
		assert_true(clock_now_ns() > lost_ns + PACE_ARBITER_TURN_NS);
	}
	assert_int_equal(child_end(&child, 0), 0);
	pace_arbiter_close(arbiter);
}

enum { CROWD = 3, TURNS = 3000 };

struct crowd {
	_Atomic uint64_t inside, met, had[CROWD];
};

/* By a clock that stands still, so that no lease ends. */
static void crowd_run(struct crowd *crowd, unsigned index)
{
	struct pace_arbiter *arbiter;
	struct diag diag;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* one that has the turn leaves the others asking */
	if (pace_arbiter_open(directory, "eth0", &arbiter, &diag) < 0)
		_exit(1);
	while (atomic_load(&crowd->had[index]) < TURNS) {
		if (!take(arbiter, 0, NOW_NS)) {
			sched_yield();
			continue;
		}
		atomic_fetch_add(&crowd->met, atomic_fetch_add(&crowd->inside, 1) != 0);
		if (atomic_fetch_add(&crowd->had[index], 1) % 16 == 0)
			sched_yield();         /* others come meanwhile */
		if (!take(arbiter, 0, NOW_NS)) /* still its own */
			_exit(2);
		atomic_fetch_sub(&crowd->inside, 1);
		pace_arbiter_turn_leave(arbiter, HOST);
	}
	pace_arbiter_close(arbiter);
	_exit(0);
}

static void processes_never_have_the_turn_at_once(void **state)
{
	struct crowd *crowd = mmap(NULL, sizeof(*crowd), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[CROWD];

	(void)state;
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
		assert_int_equal(atomic_load(&crowd->had[i]), TURNS);
	}
	assert_int_equal(atomic_load(&crowd->met), 0);
	munmap(crowd, sizeof(*crowd));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		IN_DIRECTORY(one_at_a_time_has_the_turn),
		IN_DIRECTORY(who_rested_waits_for_one_that_may_have_rested_too),
		IN_DIRECTORY(without_a_place_each_has_its_turn),
		IN_DIRECTORY(nonsense_delays_a_turn_and_no_more),
		IN_DIRECTORY(a_killed_process_loses_the_turn),
		IN_DIRECTORY(a_stopped_process_loses_the_turn_and_hears_of_it),
		IN_DIRECTORY(processes_never_have_the_turn_at_once),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
