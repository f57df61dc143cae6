/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/pace/fanout.h"
#include "transport/pace/pace.h"

#define MS 1000000ULL

static void hosts_count_for_a_while(void **state)
{
	struct pace_fanout fanout = { 0 };
	uint64_t now_ns = 1000 * MS;

	(void)state;
	assert_int_equal(pace_fanout_count(&fanout), 0);
	for (uint64_t host = 1; host <= 7; host++)
		pace_fanout_note(&fanout, host, now_ns += MS);
	assert_int_equal(pace_fanout_count(&fanout), 7);
	pace_fanout_note(&fanout, 1, now_ns += 100 * MS); /* the others were lately */
	assert_int_equal(pace_fanout_count(&fanout), 7);
	pace_fanout_note(&fanout, 1, now_ns += 100 * MS);
	assert_int_equal(pace_fanout_count(&fanout), 1);
	for (uint64_t host = 1; host <= 7; host++)
		pace_fanout_note(&fanout, host, now_ns);
	pace_fanout_note(&fanout, 1, now_ns += 1000 * MS); /* after a rest */
	assert_int_equal(pace_fanout_count(&fanout), 1);
}

/* They are random numbers (host_id): of 16 that are sent to, those at random places of 64 are told apart. */
static void most_of_many_hosts_are_told_apart(void **state)
{
	uint64_t host = 1;

	(void)state;
	for (unsigned round = 0; round < 100; round++) {
		struct pace_fanout fanout = { 0 };

		for (unsigned i = 0; i < 16; i++, host = host * 6364136223846793005ULL + 1442695040888963407ULL)
			pace_fanout_note(&fanout, host, 1000 * MS);
		assert_in_range(pace_fanout_count(&fanout), 9, 16);
	}
}

/* An AlltoAll: as much goes to the others. */
static void senders_to_many_hosts_may_have_as_many_times_more(void **state)
{
	const struct pace_options options = { .speed_Bps = 125000000, .enabled = true };
	struct pace_sender senders[8] = { 0 };
	struct pace_message messages[8] = { 0 };
	uint64_t now_ns = 1000 * MS, share = (80 << 10) / 8;
	struct pace *pace;

	(void)state;
	assert_int_equal(pace_new(&options, &pace), 0);
	for (size_t i = 0; i < 8; i++) {
		senders[i] = (struct pace_sender){ .host = i + 1, .hosts = 7 };
		messages[i].sender = &senders[i];
		pace_join(pace, &senders[i]);
		pace_add(pace, &messages[i], 32 << 10, ++now_ns);
	}
	assert_int_equal(pace_flight(pace, &senders[0]), 4 * 7 * share);
	assert_int_equal(pace_unscheduled(pace, &senders[0]), PACE_UNSCHEDULED_BYTES); /* less than that */
	senders[0].hosts = 5;
	assert_int_equal(pace_unscheduled(pace, &senders[0]), 4 * 5 * share);
	senders[0].hosts = 4; /* of two trees */
	assert_int_equal(pace_flight(pace, &senders[0]), 4 * share);
	assert_int_equal(pace_unscheduled(pace, &senders[0]), 4 * share);
	senders[0].hosts = 3; /* a tree's */
	assert_int_equal(pace_flight(pace, &senders[0]), share);
	assert_int_equal(pace_unscheduled(pace, &senders[0]), share);
	senders[0].hosts = 200;
	assert_int_equal(pace_flight(pace, &senders[0]), 4 * 16 * share);
	senders[0].spread = 2; /* takes turns */
	assert_int_equal(pace_flight(pace, &senders[0]), 2 * share);
	assert_int_equal(pace_unscheduled(pace, &senders[0]), share);
	for (size_t i = 0; i < 8; i++) {
		pace_remove(pace, &messages[i]);
		pace_leave(pace, &senders[i]);
	}
	pace_free(pace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_count_for_a_while),
		cmocka_unit_test(most_of_many_hosts_are_told_apart),
		cmocka_unit_test(senders_to_many_hosts_may_have_as_many_times_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
