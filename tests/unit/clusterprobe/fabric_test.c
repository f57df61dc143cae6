/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is found of fabrics whose truth is known: with the test-bed's noise, and without. Of the random ones every fourth;
 * TRIBUTARY_TEST_LONG=1: all.
 */
#include "clusterprobe/fabric_internal.h"

#include "base/log.h"
#include "fabric_ground_truth.h"
#include "support/runtime.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEP = 4 };

static size_t rounds_total;

/* 0: all is right. */
static int check_one(const struct fabric_truth *truth, const struct fabric_noise *noise, uint64_t seed, bool loud)
{
	struct fabric_truth_probe probe;
	struct fabric found = { 0 };
	struct diag diag = { 0 };
	char text[200];
	const char *wrong;

	assert_int_equal(fabric_truth_probe_open(truth, noise, seed, &probe), 0);
	assert_int_equal(fabric_measure(&probe.probe, truth->host_count, seed, &found, &diag), 0);
	wrong = fabric_truth_judge(truth, &found, 0.1, text, sizeof(text));
	if (!wrong && found.round_count > FABRIC_ROUNDS_FIXED + FABRIC_ROUNDS_EACH * truth->host_count)
		wrong = "too many rounds";
	assert_int_equal(found.round_count, probe.rounds);
	rounds_total += probe.rounds;
	if (wrong) {
		printf("seed %llu: %s\n", (unsigned long long)seed, wrong);
		if (loud)
			fabric_truth_print(truth, &found);
	}
	fabric_fini(&found);
	fabric_truth_probe_close(&probe);
	return wrong ? 1 : 0;
}

/* Wrong ones may be so many. FABRIC_SEED in the environment: this one alone. */
static void random_clusters(const struct fabric_noise *noise, size_t count, size_t hosts_max, size_t leaves_max,
			    size_t wrong_max)
{
	size_t wrong = 0, grey = 0, tried = 0, step = runtime_long() ? 1 : STEP;
	const char *first = getenv("FABRIC_SEED");

	rounds_total = 0;
	if (runtime_sanitized()) /* pure code of one thread, and minutes of it */
		count /= 10;
	wrong_max = (wrong_max + step - 1) / step;
	for (size_t i = 0; i < count; i += step, tried++) {
		struct fabric_visible visible;
		struct fabric_truth truth;
		uint64_t seed = first ? strtoull(first, NULL, 0) : 1000 + i;

		fabric_truth_random(seed, hosts_max, leaves_max, &truth);
		fabric_truth_visible(&truth, &visible);
		if (visible.grey)
			grey++;
		else
			wrong += (size_t)check_one(&truth, noise, seed, wrong < 5);
		if (first)
			break;
	}
	printf("%zu of %zu wrong, %zu just at a limit, %zu rounds\n", wrong, tried - grey, grey, rounds_total);
	assert_true(wrong <= wrong_max);
}

static void random_clusters_of_12_hosts_are_right(void **state)
{
	(void)state;
	random_clusters(&fabric_noise_testbed, 150, 12, 4, 0);
}

/* But for one whose uplink is measured as 12 % less than it is. */
static void random_clusters_on_busy_machines(void **state)
{
	(void)state;
	random_clusters(&fabric_noise_busy, 60, 12, 4, 1);
}

/* Not all: docs/guide/cluster.md says what is left. */
static void random_clusters_of_64_hosts_are_nearly_all_right(void **state)
{
	(void)state;
	random_clusters(&fabric_noise_testbed, 200, 64, 8, 3);
}

static void many_leaves_of_a_large_cluster(void **state)
{
	static const double choices[] = { 2, 4, 8 };
	static struct fabric_truth truth;
	size_t sizes[TRUTH_LEAVES_MAX];
	double ratios[TRUTH_LEAVES_MAX];
	uint64_t random = 7;

	(void)state;
	for (size_t i = 0; i < TRUTH_LEAVES_MAX; i++) {
		sizes[i] = 8;
		ratios[i] = choices[i % 3];
	}
	fabric_truth_make(sizes, ratios, TRUTH_LEAVES_MAX, &truth);
	truth.slow_host = 100;
	truth.nic_Bps[0][100] *= 0.4;
	truth.uplink_Bps[1][5] *= 0.5;
	fabric_truth_shuffle(&truth, &random);
	rounds_total = 0;
	assert_int_equal(check_one(&truth, &fabric_noise_testbed, 7, true), 0);
	printf("%zu hosts, %zu leaves: %zu rounds\n", truth.host_count, truth.leaf_count, rounds_total);
}

/* Every number of hosts: one leaf, no uplink, nobody slow. */
static void fabric_that_never_blocks_has_one_leaf(void **state)
{
	(void)state;
	for (size_t hosts = 2; hosts <= 40; hosts++) {
		struct fabric_truth truth;

		fabric_truth_make(&hosts, (const double[]){ 1 }, 1, &truth);
		assert_int_equal(check_one(&truth, &fabric_noise_testbed, hosts, true), 0);
		if (hosts % 4)
			continue;
		fabric_truth_make((const size_t[]){ hosts / 4, hosts / 4, hosts / 4, hosts / 4 },
				  (const double[]){ 1, 1, 1, 1 }, 4, &truth);
		assert_int_equal(check_one(&truth, &fabric_noise_testbed, hosts, true), 0);
	}
}

static void without_noise_rates_are_exact(void **state)
{
	struct fabric_truth_probe probe;
	struct fabric_truth truth;
	struct fabric found;
	struct diag diag = { 0 };
	char text[200];

	(void)state;
	fabric_truth_make((const size_t[]){ 4, 4, 4 }, (const double[]){ 2, 4, 8 }, 3, &truth);
	truth.uplink_Bps[1][0] /= 2;
	assert_int_equal(fabric_truth_probe_open(&truth, &fabric_noise_none, 1, &probe), 0);
	assert_int_equal(fabric_measure(&probe.probe, 12, 1, &found, &diag), 0);
	assert_null(fabric_truth_judge(&truth, &found, 0.001, text, sizeof(text)));
	assert_int_equal(found.leaf_count, 3);
	fabric_fini(&found);
	fabric_truth_probe_close(&probe);
}

/* The same cluster is measured in the same rounds: whoever changes how, looks at this record. */
static void without_noise_rounds_are_on_record(void **state)
{
	static const struct {
		size_t rounds;
		double full, loaded, doubtful; /* parts in thousandths */
		unsigned asymmetric, slow;     /* leaves and hosts */
	} records[] = {
		{ 113, 452, 217, 0, 1, 0 }, { 113, 443, 475, 0, 1, 1 },     { 175, 889, 781, 0, 2, 1 },
		{ 113, 423, 243, 0, 1, 1 }, { 67, 1000, 1000, 1000, 0, 1 }, { 155, 435, 167, 0, 0, 0 },
		{ 173, 617, 611, 0, 0, 0 }, { 60, 1000, 1000, 1000, 0, 1 }, { 60, 1000, 1000, 0, 0, 0 },
		{ 121, 413, 307, 0, 1, 0 }, { 50, 1000, 1000, 1000, 0, 1 }, { 60, 1000, 1000, 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
		struct fabric_truth_probe probe;
		struct fabric_truth truth;
		struct fabric found = { 0 };
		struct diag diag = { 0 };
		unsigned asymmetric = 0, slow = 0;

		fabric_truth_random(500 + i, 16, 4, &truth);
		assert_int_equal(fabric_truth_probe_open(&truth, &fabric_noise_none, 1, &probe), 0);
		assert_int_equal(fabric_measure(&probe.probe, truth.host_count, 1, &found, &diag), 0);
		for (size_t leaf = 0; leaf < found.leaf_count; leaf++)
			asymmetric += found.leaves[leaf].asymmetric;
		for (size_t host = 0; host < truth.host_count; host++)
			slow += found.hosts[host].slow != 0;
		assert_int_equal(found.round_count, records[i].rounds);
		assert_true(fabs(1000 * found.full_part - records[i].full) < 1);
		assert_true(fabs(1000 * found.loaded_part - records[i].loaded) < 1);
		assert_true(fabs(1000 * found.doubtful_part - records[i].doubtful) < 1);
		assert_int_equal(asymmetric, records[i].asymmetric);
		assert_int_equal(slow, records[i].slow);
		fabric_fini(&found);
		fabric_truth_probe_close(&probe);
	}
}

/* Two leaves of any sizes, one way and the other. */
static void nobody_sends_more_than_it_may(void **state)
{
	enum { SIZE_MOST = 40, TURNS = 4 };
	static struct fabric_flow flows[2 * SIZE_MOST * FABRIC_FLOWS_EACH];
	static uint16_t part[2 * SIZE_MOST], order[4 * SIZE_MOST];
	struct fabric_work work = { .part = part, .part_count = 2, .order = order, .flows = flows };

	(void)state;
	for (size_t sizes = 0; sizes < SIZE_MOST * SIZE_MOST; sizes++)
		for (size_t turn = 0; turn < 4 * TURNS; turn++)
			for (size_t each = 1; each <= FABRIC_FLOWS_EACH; each++) {
				size_t first = 1 + sizes / SIZE_MOST, count;
				uint8_t sends[2 * SIZE_MOST] = { 0 };
				uint16_t from = turn & 1;

				work.n = first + 1 + sizes % SIZE_MOST;
				for (size_t i = 0; i < work.n; i++)
					part[i] = i >= first;
				count = fabric_plan_uplink(&work, from, from, turn & 2, turn / 4, each);
				assert_in_range(count, 1, work.n * FABRIC_FLOWS_EACH);
				for (size_t i = 0; i < count; i++) {
					assert_int_equal(part[flows[i].from] == from, !(turn & 2));
					assert_int_not_equal(part[flows[i].from], part[flows[i].to]);
					if (++sends[flows[i].from] > FABRIC_FLOWS_EACH)
						fail_msg("leaves of %zu and %zu: %u sends", first, work.n - first,
							 sends[flows[i].from]);
				}
			}
}

/* How many of the hosts of a part send to one of it, and whether every host sends and receives at most once. */
static void check_flows(const struct fabric_work *work, size_t count, size_t ret_inside[static 4])
{
	bool sends[16] = { false }, receives[16] = { false };

	memset(ret_inside, 0, 4 * sizeof(*ret_inside));
	for (size_t i = 0; i < count; i++) {
		const struct fabric_flow *flow = &work->flows[i];

		assert_int_not_equal(flow->from, flow->to);
		assert_false(sends[flow->from] || receives[flow->to]);
		sends[flow->from] = receives[flow->to] = true;
		if (work->part[flow->from] == work->part[flow->to])
			ret_inside[work->part[flow->from]]++;
	}
}

/* Every part in its turn, the first and the last, too. */
static void rounds_use_every_part(void **state)
{
	enum { HOSTS = 16, PARTS = 4 };
	static const uint16_t sizes[PARTS] = { 4, 4, 4, 4 };
	static struct fabric_flow flows[HOSTS * FABRIC_FLOWS_EACH];
	static uint16_t part[HOSTS], order[2 * HOSTS], numbers[HOSTS];
	struct fabric_work work = { .n = HOSTS, .part = part, .part_count = PARTS, .order = order, .flows = flows };
	size_t inside[PARTS], seen[PARTS] = { 0 };

	(void)state;
	for (size_t i = 0, p = 0, left = sizes[0]; i < HOSTS; i++, left--) {
		left = left ? left : sizes[++p];
		part[i] = (uint16_t)p;
		numbers[i] = (uint16_t)i;
	}
	for (work.random = 1; work.random <= 100; work.random++) {
		uint64_t seed = work.random;

		assert_int_equal(fabric_plan_fill(&work), HOSTS);
		check_flows(&work, HOSTS, inside);
		/* Two flows of the part become one inside and one elsewhere, if two are drawn that can. */
		for (size_t p = 0; p < PARTS; p++)
			seen[p] += inside[p] > 0;
		assert_int_equal(fabric_plan_inside(&work, numbers, seed), HOSTS);
		check_flows(&work, HOSTS, inside);
		for (size_t p = 0; p < PARTS; p++)
			assert_int_equal(inside[p], sizes[p]);
		work.random = seed;
	}
	for (size_t p = 0; p < PARTS; p++)
		assert_true(seen[p] > 40);
}

/* One of them has more than eight times as many hosts as the other. */
static void two_leaves_of_unequal_sizes_are_right(void **state)
{
	static const size_t sizes[][2] = { { 31, 2 }, { 3, 40 }, { 17, 2 } };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct fabric_truth truth;

		fabric_truth_make(sizes[i], (const double[]){ 2, 2 }, 2, &truth);
		assert_int_equal(check_one(&truth, &fabric_noise_testbed, 1 + i, true), 0);
	}
}

/* Whatever round it is in. */
static void what_the_probe_says_is_passed_on(void **state)
{
	struct fabric_truth_probe probe;
	struct fabric_truth truth;
	struct fabric found = { 0 };
	struct diag diag = { 0 };
	size_t rounds;

	(void)state;
	fabric_truth_make((const size_t[]){ 3, 3 }, (const double[]){ 3, 3 }, 2, &truth);
	assert_int_equal(fabric_truth_probe_open(&truth, &fabric_noise_testbed, 1, &probe), 0);
	assert_int_equal(fabric_measure(&probe.probe, 6, 1, &found, &diag), 0);
	rounds = found.round_count;
	fabric_fini(&found);
	fabric_truth_probe_close(&probe);
	for (size_t at = 1; at <= rounds; at += 7) {
		assert_int_equal(fabric_truth_probe_open(&truth, &fabric_noise_testbed, 1, &probe), 0);
		probe.fail_at = (int)at;
		probe.error = -EINTR;
		assert_int_equal(fabric_measure(&probe.probe, 6, 1, &found, &diag), -EINTR);
		assert_null(found.hosts);
		fabric_truth_probe_close(&probe);
	}
	assert_int_equal(fabric_measure(&probe.probe, 1, 1, &found, &diag), -EINVAL);
	assert_int_equal(fabric_measure(&probe.probe, FABRIC_HOSTS_MAX + 1, 1, &found, &diag), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_noise_rates_are_exact),
		cmocka_unit_test(without_noise_rounds_are_on_record),
		cmocka_unit_test(nobody_sends_more_than_it_may),
		cmocka_unit_test(rounds_use_every_part),
		cmocka_unit_test(two_leaves_of_unequal_sizes_are_right),
		cmocka_unit_test(fabric_that_never_blocks_has_one_leaf),
		cmocka_unit_test(random_clusters_of_12_hosts_are_right),
		cmocka_unit_test(random_clusters_on_busy_machines),
		cmocka_unit_test(random_clusters_of_64_hosts_are_nearly_all_right),
		cmocka_unit_test(many_leaves_of_a_large_cluster),
		cmocka_unit_test(what_the_probe_says_is_passed_on),
	};

	runtime_start("fabric_test", 110);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
