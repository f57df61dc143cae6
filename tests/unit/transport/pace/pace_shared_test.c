/* SPDX-License-Identifier: Apache-2.0 */
/* Several struct pace of one device, as processes of a host have them; and one that threads share. */
#include "pace_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "support/log_lines.h"

static char directory[64];

static int directory_make(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/tributary-pace-test.XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

/* Fails when anything was left in it: the last pace to go removes the file. */
static int directory_gone(void **state)
{
	(void)state;
	return rmdir(directory);
}

static void without_an_arbiter_there_is_one_line_and_the_process_paces_alone(void **state)
{
	struct pace_options options = plain;
	struct pace_message message = { 0 };
	struct pace *pace;

	(void)state;
	options.device_name = "eth0";
	options.arbiter_directory = "/nonexistent";
	options.fixed_budget_bytes = 16 * QUANTUM;
	log_lines_start(NULL);
	assert_int_equal(pace_new(&options, &pace), 0);
	log_set_sink(NULL);
	assert_int_equal(log_lines()->infos, 1);
	assert_int_equal(log_lines()->warnings, 0);
	pace_add(pace, &message, 100 * QUANTUM, 1);
	assert_int_equal(pace_granted(&message), 16 * QUANTUM);
	pace_remove(pace, &message);
	pace_free(pace);
}

static void senders_to_other_processes_compete_too(void **state)
{
	struct pace_options options = plain;
	struct pace_sender senders[2] = { { .host = 1 }, { .host = 2 } };
	struct pace_message first = { .sender = &senders[0] }, second = { .sender = &senders[1] };
	struct pace *a, *b;

	(void)state;
	options.speed_Bps = 125000000;
	options.device_name = "eth0";
	options.arbiter_directory = directory;
	assert_int_equal(pace_new(&options, &a), 0);
	assert_int_equal(pace_new(&options, &b), 0);
	pace_tick(a, NS_PER_S); /* finds the other */
	pace_add(a, &first, QUANTUM, NS_PER_S);
	assert_int_equal(pace_flight(a, NULL), 0);
	pace_add(b, &second, QUANTUM, NS_PER_S);
	assert_int_equal(pace_flight(b, NULL), (80 << 10) / 2);
	pace_delivered(a, &first, 1, NS_PER_S + 1);
	assert_int_equal(pace_flight(a, NULL), (80 << 10) / 2);
	pace_remove(a, &first);
	pace_remove(b, &second);
	pace_free(a);
	pace_free(b);
}

/* To however many processes: until one of these hears of another host. */
static void one_host_that_sends_to_several_processes_is_alone(void **state)
{
	struct pace_options options = plain;
	struct pace_sender senders[2][2] = { { { .host = 1 }, { .host = 1 } }, { { .host = 1 }, { .host = 2 } } };
	struct pace_sender other = { .host = 3 };
	struct pace_message first = { .sender = &senders[0][0] }, second = { .sender = &senders[1][1] };
	struct pace_message third = { .sender = &other }, fourth = { .sender = &senders[1][0] };
	uint64_t now_ns = NS_PER_S;
	struct pace *paces[2], *silent;

	(void)state;
	options.device_name = "eth0";
	options.arbiter_directory = directory;
	assert_int_equal(pace_new(&options, &silent), 0);
	for (unsigned p = 0; p < 2; p++) {
		assert_int_equal(pace_new(&options, &paces[p]), 0);
		pace_join(paces[p], &senders[p][0]);
		pace_join(paces[p], &senders[p][1]);
	}
	for (unsigned i = 0; i < 4; i++) {
		pace_tick(paces[0], now_ns += NS_PER_S);
		pace_tick(paces[1], now_ns);
		pace_tick(silent, now_ns);
		receive_from(paces[0], senders[0], 2, &now_ns);
		receive_from(paces[1], senders[1], 1, &now_ns);
	}
	pace_tick(paces[0], ++now_ns);
	for (unsigned p = 0; p < 2; p++) {
		assert_false(pace_has_one_sender(paces[p])); /* to others as well */
		assert_int_equal(pace_flight(paces[p], NULL), 0);
		assert_int_equal(pace_unscheduled(paces[p], &senders[p][0]), PACE_UNSCHEDULED_ALONE_BYTES);
		assert_int_equal(state_of(paces[p]).sharing_processes, 3);
	}
	pace_add(paces[0], &first, QUANTUM, ++now_ns);
	pace_add(paces[1], &second, QUANTUM, ++now_ns);
	receive_from(paces[0], senders[0], 2, &now_ns);
	for (unsigned p = 0; p < 2; p++)
		assert_int_not_equal(pace_flight(paces[p], NULL), 0);
	assert_int_equal(pace_unscheduled(paces[0], NULL), PACE_FLIGHT_LEAST_BYTES / 2);
	/* Now the other process hears of several, too: of two, while there is one here. */
	pace_join(paces[0], &other);
	pace_add(paces[0], &third, QUANTUM, ++now_ns);
	pace_add(paces[1], &fourth, QUANTUM, ++now_ns);
	receive_from(paces[0], senders[0], 2, &now_ns);
	assert_int_equal(pace_unscheduled(paces[0], NULL), PACE_FLIGHT_LEAST_BYTES / 4);
	pace_remove(paces[0], &third);
	pace_remove(paces[1], &fourth);
	pace_remove(paces[0], &first);
	pace_remove(paces[1], &second);
	/* What the other process heard long ago does not count; nor does what this one did, after two epochs. */
	for (unsigned i = 0; i < 8; i++) {
		pace_tick(paces[1], now_ns += 2 * NS_PER_S);
		receive_from(paces[0], senders[0], 2, &now_ns);
	}
	assert_int_equal(pace_flight(paces[0], NULL), 0);
	pace_leave(paces[0], &other);
	pace_free(silent);
	for (unsigned p = 0; p < 2; p++) {
		pace_leave(paces[p], &senders[p][0]);
		pace_leave(paces[p], &senders[p][1]);
		pace_free(paces[p]);
	}
}

static void two_paces_of_one_device_share_its_budget(void **state)
{
	struct pace_options options = plain;
	struct pace_message first = { 0 }, second = { 0 };
	struct pace *a, *b;

	(void)state;
	options.device_name = "eth0";
	options.arbiter_directory = directory;
	options.fixed_budget_bytes = 8 * QUANTUM;
	assert_int_equal(pace_new(&options, &a), 0);
	assert_int_equal(pace_new(&options, &b), 0);
	assert_int_equal(state_of(b).sharing_processes, 2);
	pace_add(a, &first, 100 * QUANTUM, 1);
	assert_int_equal(pace_granted(&first), 8 * QUANTUM);
	pace_add(b, &second, 100 * QUANTUM, 2);
	assert_int_equal(pace_granted(&second), QUANTUM); /* nobody is left with nothing */
	pace_delivered(a, &first, 2 * QUANTUM, 3);
	assert_int_equal(pace_granted(&first), 8 * QUANTUM); /* has more than half */
	pace_poll(b, 3 + 3 * NS_PER_MS);
	assert_int_equal(pace_granted(&second), 2 * QUANTUM);
	pace_delivered(a, &first, 4 * QUANTUM, 4);
	pace_delivered(b, &second, QUANTUM, 5);
	assert_int_equal(state_of(a).outstanding_bytes + state_of(b).outstanding_bytes, 8 * QUANTUM);
	assert_int_equal(state_of(b).outstanding_bytes, 4 * QUANTUM);
	pace_remove(a, &first);
	pace_poll(b, 4 + 6 * NS_PER_MS);
	assert_int_equal(state_of(b).outstanding_bytes, 8 * QUANTUM);
	pace_remove(b, &second);
	pace_free(a);
	pace_free(b);
}

/* --------------------------------------------------------------------------------------------------------- threads */

enum { THREADS = 4, MESSAGES = 2000 };

static struct pace *shared_pace;

static void *work(void *arg)
{
	struct pace *pace = shared_pace;
	uint64_t random = *(const uint64_t *)arg, now_ns = 1;

	for (unsigned i = 0; i < MESSAGES; i++) {
		struct pace_message message = { 0 };
		uint64_t total = 1 + random_below(&random, 5 * QUANTUM), got = 0;

		pace_add(pace, &message, total, now_ns);
		while (got < total) {
			uint64_t granted = pace_granted(&message);

			now_ns += NS_PER_US;
			if (granted == got) {
				pace_poll(pace, now_ns);
				sched_yield();
				continue;
			}
			pace_grant_sent(pace, &message, granted, now_ns);
			pace_delivered(pace, &message, granted - got, now_ns);
			got = granted;
			if (random_below(&random, 50) == 0)
				break; /* failed midway */
		}
		pace_remove(pace, &message);
		if (i % 100 == 0)
			pace_tick(pace, now_ns);
	}
	return NULL;
}

static void threads_share_a_pace(void **state)
{
	struct pace_options options = plain;
	uint64_t seeds[THREADS];
	pthread_t threads[THREADS];
	struct pace *pace;

	(void)state;
	options.device_name = "eth1";
	options.arbiter_directory = directory;
	assert_int_equal(pace_new(&options, &pace), 0);
	shared_pace = pace;
	for (size_t i = 0; i < THREADS; i++) {
		seeds[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &seeds[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(state_of(pace).outstanding_bytes, 0);
	assert_int_equal(state_of(pace).waiting_count, 0);
	pace_free(pace);
}

/* Messages of one connection, whose port fails again and again: nothing granted is lost, nor granted twice. */
static void messages_move_to_another_pace_with_what_they_lack(void **state)
{
	enum { COUNT = 8, STEPS = 20000 };
	struct pace_message messages[COUNT] = { 0 };
	uint64_t sizes[COUNT] = { 0 }, came[COUNT] = { 0 }, random = 1, now_ns = 1, done = 0;
	struct pace *paces[2];
	unsigned at = 0;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pace_new(&plain, &paces[i]), 0);
	for (unsigned step = 0; step < STEPS; step++) {
		const unsigned i = (unsigned)random_below(&random, COUNT);
		const uint64_t granted = pace_granted(&messages[i]);
		uint64_t held = 0;

		now_ns += 1000;
		if (!sizes[i]) {
			memset(&messages[i], 0, sizeof(messages[i]));
			sizes[i] = 1 + random_below(&random, 6 * QUANTUM);
			came[i] = 0;
			pace_add(paces[at], &messages[i], sizes[i], now_ns);
		} else if (granted > came[i]) {
			const uint64_t bytes = 1 + random_below(&random, granted - came[i]);

			came[i] += bytes;
			pace_delivered(paces[at], &messages[i], bytes, now_ns);
			if (came[i] == sizes[i]) {
				pace_remove(paces[at], &messages[i]);
				sizes[i] = 0;
				done++;
			}
		}
		if (!random_below(&random, 50)) {
			uint64_t before[COUNT];

			for (unsigned k = 0; k < COUNT; k++)
				if (sizes[k])
					pace_remove(paces[at], &messages[k]);
			assert_int_equal(state_of(paces[at]).outstanding_bytes, 0);
			at = !at;
			for (unsigned k = 0; k < COUNT; k++) {
				before[k] = pace_granted(&messages[k]);
				if (sizes[k])
					pace_add_again(paces[at], &messages[k], now_ns);
				assert_in_range(pace_granted(&messages[k]), before[k], UINT64_MAX);
			}
		}
		for (unsigned k = 0; k < COUNT; k++)
			held += sizes[k] ? pace_granted(&messages[k]) - came[k] : 0;
		assert_int_equal(state_of(paces[at]).outstanding_bytes, held);
		assert_int_equal(state_of(paces[!at]).waiting_count, 0);
	}
	assert_in_range(done, STEPS / 50, STEPS);
	for (unsigned i = 0; i < 2; i++)
		pace_free(paces[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_an_arbiter_there_is_one_line_and_the_process_paces_alone),
		cmocka_unit_test_setup_teardown(senders_to_other_processes_compete_too, directory_make, directory_gone),
		cmocka_unit_test_setup_teardown(one_host_that_sends_to_several_processes_is_alone, directory_make,
						directory_gone),
		cmocka_unit_test_setup_teardown(two_paces_of_one_device_share_its_budget, directory_make,
						directory_gone),
		cmocka_unit_test_setup_teardown(threads_share_a_pace, directory_make, directory_gone),
		cmocka_unit_test(messages_move_to_another_pace_with_what_they_lack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
