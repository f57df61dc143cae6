/* SPDX-License-Identifier: Apache-2.0 */
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
	schedule = account_schedule(&group);
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
		schedule = account_schedule(&group);
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
	group.nodes[1].aggregator = true;
	assert_int_equal(schedule_new(&group, &schedule), -EINVAL);
	account_group(&group, (unsigned[]){ 2, 2 }, 2, 1, 1000);
	group.node_count = group.member_count + SCHEDULE_AGGREGATORS_MAX + 1;
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
	for (uint16_t i = 0; i < SCHEDULE_AGGREGATORS_MAX; i++)
		account_add_aggregator(&group, (uint16_t)(SCHEDULE_MEMBERS_MAX + i), 1000);
	memset(&account, 0, sizeof(account));
	schedule = account_schedule(&group);
	run(schedule, 1000, SIZE_MAX / 2048);
	schedule_free(schedule);
}

static void segments_are_long_enough_and_enough(void **state)
{
	enum { KIB = 1024 };
	struct schedule *schedule;

	(void)state;
	account_group(&group, (unsigned[]){ 8 }, 1, 1, 1000);
	schedule = account_schedule(&group);
	assert_int_equal(schedule_segment_least_bytes(0), 256 * KIB);
	assert_int_equal(schedule_segment_least_bytes(12500000), 32 * KIB);
	assert_int_equal(schedule_segment_least_bytes(125000000), 125000);
	assert_int_equal(schedule_segment_least_bytes(1250000000), 256 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 0, 16 * KIB), 0);
	assert_int_equal(schedule_segment_bytes(schedule, 1, 16 * KIB), 1);
	assert_int_equal(schedule_segment_bytes(schedule, 16 * KIB, 16 * KIB), 16 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 32 * KIB, 16 * KIB), 16 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 256 * KIB, 16 * KIB), 16 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 512 * KIB, 50000), 64 * KIB); /* 8, not 10, of 8 places */
	assert_int_equal(schedule_segment_bytes(schedule, 2048 * KIB, 16 * KIB), 16 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 2048 * KIB, 0), 256 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 2048 * KIB, 512 * KIB), 512 * KIB);
	for (size_t bytes = 1; bytes < 4096 * KIB; bytes += bytes / 7 + 1) {
		for (size_t least = 1; least <= 512 * KIB; least *= 2) {
			size_t segment = schedule_segment_bytes(schedule, bytes, least);

			assert_true(segment <= bytes);
			assert_true(segment >= least || segment == bytes);
		}
	}
	schedule_free(schedule);
}

/* While the end of an operation goes up to an aggregator, its beginning comes down. */
static void a_aggregator_gets_shorter_segments(void **state)
{
	enum { KIB = 1024 };
	struct schedule *schedule;

	(void)state;
	account_group(&group, (unsigned[]){ 8 }, 1, 1, 1000);
	account_add_aggregator(&group, 0, 8000);
	schedule = account_schedule(&group);
	assert_int_equal(schedule_segment_bytes(schedule, 16 * KIB, 16 * KIB), 16 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 256 * KIB, 8 * KIB), 32 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 256 * KIB, 64 * KIB), 64 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 2048 * KIB, 8 * KIB), 64 * KIB);
	assert_int_equal(schedule_segment_bytes(schedule, 2048 * KIB, 512 * KIB), 512 * KIB);
	schedule_free(schedule);
	account_group(&group, (unsigned[]){ 8 }, 1, 1, 1000);
	account_add_aggregator(&group, 0, 400); /* it has a part, and the members more */
	schedule = account_schedule(&group);
	assert_int_equal(schedule_segment_bytes(schedule, 2048 * KIB, 128 * KIB), 128 * KIB);
	schedule_free(schedule);
}

/* Less than three members' cards together: perf/results/segments.txt has the measurement. */
static void aggregators_that_are_too_slow_together_are_left(void **state)
{
	static const struct {
		uint64_t host_Bps, rates_Bps[2];
		bool used;
	} cases[] = {
		{ 1000, { 800, 800 }, false },  { 1000, { 2999, 0 }, true },    { 1000, { 1499, 1500 }, false },
		{ 1000, { 1500, 1500 }, true }, { 1000, { 2900, 2900 }, true }, { 0, { 1, 1 }, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		account_group(&group, (unsigned[]){ 8 }, 1, 1, cases[i].host_Bps);
		account_add_aggregator(&group, 0, cases[i].rates_Bps[0]);
		account_add_aggregator(&group, 0, cases[i].rates_Bps[1]);
		account_add_aggregator(&group, 0, 8000);
		group.nodes[10].lost = true; /* counts for nothing, and stays so */
		schedule_leave_aggregators(&group);
		assert_int_equal(!group.nodes[8].lost, cases[i].used);
		assert_int_equal(!group.nodes[9].lost, cases[i].used);
		assert_true(group.nodes[10].lost);
	}
	/* Uplinks may be what is slow. */
	account_group(&group, (unsigned[]){ 4, 4 }, 2, 1, 1000);
	account_add_aggregator(&group, 0, 800);
	schedule_leave_aggregators(&group);
	assert_false(group.nodes[8].lost);
}

/* Members of one host get the same share of what their host aggregates, and of what it passes on. */
static void members_of_a_host_take_turns(void **state)
{
	struct schedule_segment segment;
	struct schedule *schedule;
	uint64_t passed[24] = { 0 };

	(void)state;
	account_group(&group, (unsigned[]){ 5, 3 }, 2, 3, 1000);
	memset(&account, 0, sizeof(account));
	schedule = account_schedule(&group);
	for (size_t i = 0; i < 2400; i++) {
		schedule_next(schedule, 64, &segment);
		account_segment(&account, &group, &segment, 64);
		for (size_t host = 0; host < 8; host++)
			passed[segment.host_node[host]]++;
	}
	for (size_t i = 0; i < 24; i++) {
		size_t host = i / 3, first = host * 3;
		double share = schedule_node_share(schedule, (unsigned)i) * 2400 * 64;

		assert_in_range(passed[i], 799, 801);
		assert_true(account.aggregated[i] <= account.aggregated[first] + 64);
		assert_true(account.aggregated[i] + 64 >= account.aggregated[first]);
		assert_true((double)account.aggregated[i] <= share + 128);
		assert_true((double)account.aggregated[i] >= share - 128);
	}
	schedule_free(schedule);
}

static void a_aggregator_of_the_hosts_rate_together_takes_all(void **state)
{
	struct schedule_loads loads;
	struct schedule *schedule;

	(void)state;
	account_group(&group, (unsigned[]){ 8 }, 1, 1, 25000000);
	account_add_aggregator(&group, 0, 100000000);
	account_add_aggregator(&group, 0, 100000000);
	memset(&account, 0, sizeof(account));
	schedule = account_schedule(&group);
	run(schedule, 1000, 65536);
	schedule_loads(schedule, &loads);
	assert_true(loads.host > 0.999999 && loads.host < 1.000001);
	assert_true(loads.slowest_s_per_B * 25000000 < 1.000001);
	for (size_t host = 0; host < 8; host++)
		assert_int_equal(account.host_in[host], 65536000);
	assert_int_equal(account.aggregated[8], account.aggregated[9]);
	schedule_free(schedule);
}

static void a_slow_aggregator_gets_its_proportion_and_a_very_slow_one_nothing(void **state)
{
	struct schedule *schedule;
	double share;

	(void)state;
	account_group(&group, (unsigned[]){ 8 }, 1, 1, 25000000);
	account_add_aggregator(&group, 0, 20000000);
	schedule = account_schedule(&group);
	share = schedule_node_share(schedule, 8); /* 8 x / 20 = (1 + 6 (1 - x) / 8) / 25 */
	assert_true(share > 0.16278 && share < 0.16280);
	schedule_free(schedule);
	group.nodes[8].rate_Bps = 6249999;
	schedule = account_schedule(&group);
	assert_true(schedule_node_share(schedule, 8) == 0);
	memset(&account, 0, sizeof(account));
	run(schedule, 100, 100);
	assert_int_equal(account.aggregated[8], 0);
	schedule_free(schedule);
}

static void a_lost_aggregator_gets_nothing(void **state)
{
	struct schedule *schedule;

	(void)state;
	account_group(&group, (unsigned[]){ 4, 4, 4 }, 3, 1, 1000);
	account_add_aggregator(&group, 0, 10000);
	account_add_aggregator(&group, 3, 10000);
	group.nodes[12].lost = group.nodes[13].lost = true;
	memset(&account, 0, sizeof(account));
	schedule = account_schedule(&group);
	run(schedule, 1200, 10); /* asserts that a lost one is not named */
	for (size_t i = 0; i < 12; i++)
		assert_int_equal(account.rooted[i], 1000);
	assert_true(schedule_leaf_share(schedule, 3) == 0);
	schedule_free(schedule);
}

static void a_aggregator_apart_is_the_root(void **state)
{
	struct schedule_loads loads;
	struct schedule *schedule;

	(void)state;
	account_group(&group, (unsigned[]){ 1, 1, 1, 1, 1, 1, 1, 1 }, 8, 1, 1000);
	account_add_aggregator(&group, 8, 8000);
	memset(&account, 0, sizeof(account));
	schedule = account_schedule(&group);
	run(schedule, 100, 10);
	schedule_loads(schedule, &loads);
	assert_int_equal(account.rooted[8], 1000);
	assert_true(loads.host < 1.000001);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(account.host_in[i], 1000);
	schedule_free(schedule);
}

/* Nothing is known, or only uplinks are: shares are those of equal hosts, and no time is claimed. */
static void without_rates_hosts_are_equal(void **state)
{
	struct schedule_loads loads;
	struct schedule *schedule;

	(void)state;
	account_group(&group, (unsigned[]){ 4, 4 }, 2, 1, 0);
	schedule = account_schedule(&group);
	schedule_loads(schedule, &loads);
	assert_true(loads.slowest_s_per_B == 0);
	assert_true(loads.host > 1.7499999 && loads.host < 1.7500001);
	schedule_free(schedule);
	group.uplink_out_Bps[0] = 1000;
	schedule = account_schedule(&group);
	schedule_loads(schedule, &loads);
	assert_true(loads.slowest_s_per_B > 0);
	assert_true(schedule_node_share(schedule, 0) == 0.25);
	schedule_free(schedule);
	group.nodes[3].rate_Bps = 500; /* the others are taken for the same */
	schedule = account_schedule(&group);
	assert_true(schedule_node_share(schedule, 0) == schedule_node_share(schedule, 3));
	schedule_free(schedule);
}

/* On whatever machine: members of different kinds must agree on every segment. */
static void the_choice_is_the_same_everywhere(void **state)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	uint64_t random = 12345;

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		unsigned hosts[5], leaves = 1 + i % 5;
		struct schedule_segment segment;
		struct schedule *schedule;

		for (unsigned j = 0; j < leaves; j++)
			hosts[j] = 1 + (unsigned)random_below(&random, 9);
		account_group(&group, hosts, leaves, 1 + i % 2, 0);
		for (size_t j = 0; j < group.member_count; j++)
			group.nodes[j].rate_Bps = 1000000000 + random_below(&random, 777777777);
		for (unsigned j = 0; j < i % 4; j++) {
			uint16_t leaf = (uint16_t)random_below(&random, leaves + 1);

			account_add_aggregator(&group, leaf, random_below(&random, 9999999999));
		}
		for (size_t j = 0; j < group.leaf_count; j++) {
			uint64_t factor = random_below(&random, 3);

			group.uplink_out_Bps[j] = factor * (1000000000 + random_below(&random, 1000));
		}
		schedule = account_schedule(&group);
		for (unsigned j = 0; j < 500; j++) {
			schedule_next(schedule, 1 + random_below(&random, 65536), &segment);
			for (size_t leaf = 0; leaf < group.leaf_count; leaf++)
				hash = (hash ^ segment.leaf_node[leaf]) * UINT64_C(1099511628211);
			hash = (hash ^ segment.root) * UINT64_C(1099511628211);
		}
		schedule_free(schedule);
	}
	assert_int_equal(hash, UINT64_C(0x62569a8962fb3e5a));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_hosts_of_one_leaf_take_turns),
		cmocka_unit_test(equal_leaves_rotate_roots_and_aggregators),
		cmocka_unit_test(groups_that_cannot_be_are_refused),
		cmocka_unit_test(the_largest_group_works),
		cmocka_unit_test(members_of_a_host_take_turns),
		cmocka_unit_test(a_aggregator_of_the_hosts_rate_together_takes_all),
		cmocka_unit_test(a_slow_aggregator_gets_its_proportion_and_a_very_slow_one_nothing),
		cmocka_unit_test(a_lost_aggregator_gets_nothing),
		cmocka_unit_test(a_aggregator_apart_is_the_root),
		cmocka_unit_test(without_rates_hosts_are_equal),
		cmocka_unit_test(the_choice_is_the_same_everywhere),
		cmocka_unit_test(segments_are_long_enough_and_enough),
		cmocka_unit_test(a_aggregator_gets_shorter_segments),
		cmocka_unit_test(aggregators_that_are_too_slow_together_are_left),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
