/* Who aggregates what: turns are sound, even and repeatable, and segments have sensible lengths. */
#include "account.h"

#include "support/runtime.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct schedule_group group;
static struct account account;

static struct schedule *schedule_of(const struct schedule_group *of)
{
	struct schedule *schedule;

	assert_int_equal(schedule_new(of, &schedule), 0);
	return schedule;
}

static void run(struct schedule *schedule, size_t segments, size_t bytes)
{
	struct schedule_segment segment;

	for (size_t i = 0; i < segments; i++) {
		schedule_next(schedule, bytes, &segment);
		assert_int_equal(segment.number, i);
		account_segment(&account, &group, &segment, bytes);
	}
}

static void equal_hosts_of_one_leaf_take_turns(void **state)
{
	struct schedule *schedule;
	struct schedule_segment segment;

	(void)state;
	account_group(&group, (unsigned[]){ 8 }, 1, 1, 1000);
	schedule = schedule_of(&group);
	for (unsigned i = 0; i < 64; i++) {
		schedule_next(schedule, 4096, &segment);
		assert_int_equal(segment.root, i % 8);
	}
	schedule_free(schedule);
}

/*
 * In every m × n segments in a row, wherever they begin, each host roots one and aggregates m: then any window of them
 * puts the same on each host.
 */
static void equal_leaves_rotate_roots_and_aggregators(void **state)
{
	static const unsigned splits[][4] = { { 4, 4 }, { 2, 2, 2, 2 }, { 3, 3, 3 }, { 1, 1, 1, 1 }, { 8, 8, 8 } };
	enum { ROUNDS = 20, HOSTS_MOST = 24 };
	struct schedule_segment segment;

	(void)state;
	for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
		uint64_t roots[ROUNDS + 1][HOSTS_MOST], all[ROUNDS + 1][HOSTS_MOST];
		size_t leaves = 0, hosts, half;
		struct schedule *schedule;

		while (leaves < 4 && splits[i][leaves])
			leaves++;
		hosts = leaves * splits[i][0];
		half = hosts / 2;
		account_group(&group, splits[i], leaves, 1, 1000);
		memset(&account, 0, sizeof(account));
		schedule = schedule_of(&group);
		for (size_t number = 0; number < ROUNDS * hosts + half; number++) {
			schedule_next(schedule, 100, &segment);
			account_segment(&account, &group, &segment, 100);
			if (number % hosts != half)
				continue;
			memcpy(roots[number / hosts], account.rooted, hosts * sizeof(uint64_t));
			memcpy(all[number / hosts], account.aggregated, hosts * sizeof(uint64_t));
		}
		for (size_t round = 1; round < ROUNDS; round++) {
			for (size_t node = 0; node < hosts; node++) {
				assert_in_range(roots[round][node] - roots[round - 1][node], 100, 100);
				assert_in_range(all[round][node] - all[round - 1][node], 100 * leaves, 100 * leaves);
			}
		}
		schedule_free(schedule);
	}
}

static void groups_that_cannot_be_are_refused(void **state)
{
	struct schedule *schedule = NULL;

	(void)state;
	account_group(&group, (unsigned[]){ 2, 2 }, 2, 1, 1000);
	group.member_count = 0;
	assert_int_equal(schedule_new(&group, &schedule), -EINVAL);
	account_group(&group, (unsigned[]){ 2, 2 }, 2, 1, 1000);
	group.nodes[3].leaf = 2;
	assert_int_equal(schedule_new(&group, &schedule), -EINVAL);
	account_group(&group, (unsigned[]){ 2, 2 }, 2, 1, 1000);
	group.nodes[3].host = 4;
	assert_int_equal(schedule_new(&group, &schedule), -EINVAL);
	account_group(&group, (unsigned[]){ 2, 2 }, 2, 2, 1000);
	group.nodes[1].leaf = 1; /* two members of one host, in two leaves */
	assert_int_equal(schedule_new(&group, &schedule), -EINVAL);
	account_group(&group, (unsigned[]){ 2, 2 }, 2, 1, 1000);
	group.nodes[1].server = true;
	assert_int_equal(schedule_new(&group, &schedule), -EINVAL);
	account_group(&group, (unsigned[]){ 2, 2 }, 2, 1, 1000);
	group.node_count = group.member_count + SCHEDULE_SERVERS_MAX + 1;
	assert_int_equal(schedule_new(&group, &schedule), -EINVAL);
	assert_null(schedule);
	schedule_free(NULL);
}

static void the_largest_group_works(void **state)
{
	unsigned ones[SCHEDULE_MEMBERS_MAX];
	struct schedule *schedule;

	(void)state;
	for (size_t i = 0; i < SCHEDULE_MEMBERS_MAX; i++)
		ones[i] = 1;
	account_group(&group, ones, SCHEDULE_MEMBERS_MAX, 1, 1000);
	for (uint16_t i = 0; i < SCHEDULE_SERVERS_MAX; i++)
		account_add_server(&group, (uint16_t)(SCHEDULE_MEMBERS_MAX + i), 1000);
	memset(&account, 0, sizeof(account));
	schedule = schedule_of(&group);
	run(schedule, 1000, SIZE_MAX / 2048);
	schedule_free(schedule);
}

static void segments_are_long_enough_and_enough(void **state)
{
	enum { KIB = 1024 };
	struct schedule *schedule;

	(void)state;
	account_group(&group, (unsigned[]){ 8 }, 1, 1, 1000);
	schedule = schedule_of(&group);
	assert_int_equal(schedule_segment_bytes(schedule, 0, 16 * KIB), 0);
	assert_int_equal(schedule_segment_bytes(schedule, 1, 16 * KIB), 1);
	assert_int_equal(schedule_segment_bytes(schedule, 16 * KIB, 16 * KIB), 16 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 32 * KIB, 16 * KIB), 16 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 256 * KIB, 16 * KIB), 64 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 2048 * KIB, 16 * KIB), 128 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 2048 * KIB, 0), 128 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 2048 * KIB, 256 * KIB), 256 * KIB);
	for (size_t bytes = 1; bytes < 4096 * KIB; bytes += bytes / 7 + 1) {
		for (size_t least = 1; least <= 512 * KIB; least *= 2) {
			size_t segment = schedule_segment_bytes(schedule, bytes, least);

			assert_true(segment <= bytes);
			assert_true(segment >= least || segment == bytes);
		}
	}
	schedule_free(schedule);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_hosts_of_one_leaf_take_turns),
		cmocka_unit_test(equal_leaves_rotate_roots_and_aggregators),
		cmocka_unit_test(groups_that_cannot_be_are_refused),
		cmocka_unit_test(the_largest_group_works),
		cmocka_unit_test(segments_are_long_enough_and_enough),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
