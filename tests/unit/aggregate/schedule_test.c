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

/* Neighbouring segments have different aggregators where a leaf has three hosts; all roots and all turns in a round. */
static void equal_leaves_rotate_roots_and_aggregators(void **state)
{
	static const unsigned splits[][4] = { { 4, 4 }, { 2, 2, 2, 2 }, { 3, 3, 3 }, { 1, 1, 1, 1 } };
	struct schedule_segment segment;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		size_t leaves = 0, hosts;
		struct schedule *schedule;
		uint16_t last[4];

		while (leaves < 4 && splits[i][leaves])
			leaves++;
		hosts = leaves * splits[i][0];
		account_group(&group, splits[i], leaves, 1, 1000);
		memset(&account, 0, sizeof(account));
		schedule = schedule_of(&group);
		for (size_t number = 0; number < 10 * hosts; number++) {
			schedule_next(schedule, 100, &segment);
			for (size_t leaf = 0; number && leaf < leaves && splits[i][0] > 2; leaf++)
				assert_int_not_equal(last[leaf], segment.leaf_node[leaf]);
			memcpy(last, segment.leaf_node, leaves * sizeof(*last));
			account_segment(&account, &group, &segment, 100);
			if ((number + 1) % hosts)
				continue;
			for (size_t node = 0; node < hosts; node++) {
				assert_int_equal(account.rooted[node], 100 * (number + 1) / hosts);
				assert_int_equal(account.aggregated[node], 100 * (number + 1) / splits[i][0]);
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
