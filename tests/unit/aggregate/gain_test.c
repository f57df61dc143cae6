/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What aggregation brings a job, by its cluster. At low rates enough segments are in flight, and the bytes of the busiest link, worked
 * out by hand, decide; unit/simulate/gain compares all rates with the simulator.
 */
#include "aggregate/gain.h"

#include "aggregate/pipeline.h"
#include "aggregate/schedule.h"
#include "base/log.h"
#include "tributary/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct cluster *read_cluster(const char *lines)
{
	struct diag diag = { .text = "" };
	struct cluster *cluster = NULL;
	char text[2048];

	snprintf(text, sizeof(text), "tributary-cluster 1\n%s", lines);
	if (cluster_read(text, strlen(text), &cluster, &diag) < 0)
		fail_msg("line %d: %s", diag.line, diag.text);
	return cluster;
}

static unsigned gain(const char *lines, const char *host, size_t hosts, uint64_t rate_Bps)
{
	struct cluster *cluster = read_cluster(lines);
	unsigned permille = gain_permille(cluster, &(struct gain_job){ host, hosts, rate_Bps });

	cluster_free(cluster);
	return permille;
}

#define MBIT UINT64_C(125000)

static const char two_leaves[] = "switch spine\n"
				 "switch a parent=spine rate=10Mbit/s\n"
				 "switch b parent=spine rate=10Mbit/s\n"
				 "host n[1-4] leaf=a rate=40Mbit/s\n"
				 "host n[5-8] leaf=b rate=40Mbit/s\n";

static const char large[] = "switch spine\n"
			    "switch a parent=spine rate=10Mbit/s\n"
			    "switch b parent=spine rate=10Mbit/s\n"
			    "host n[1-200] leaf=a rate=40Mbit/s\n"
			    "host n[201-400] leaf=b rate=40Mbit/s\n";

static void a_narrow_uplink_is_crossed_once(void **state)
{
	(void)state;
	/* A ring crosses it with 2·7/8 of the bytes, the aggregation with all of them once: 1.75. */
	assert_in_range(gain(two_leaves, "n1", 8, 0), 1700, 1750);
	/* Nobody says how many hosts the job has: all of them. */
	assert_in_range(gain(two_leaves, "n1", 0, 0), 1700, 1750);
	/* More than a group may have; of a cluster that is as large the largest group counts, where nobody says how many. */
	assert_int_equal(gain(two_leaves, "n1", 257, 0), 0);
	assert_int_equal(gain(large, "n1", 257, 0), 0);
	assert_int_equal(gain(large, "n1", 0, 0), gain(large, "n1", 256, 0));
	/* Five hosts are on both leaves, whichever: a ring has 2·4/5, but a tree less. */
	assert_in_range(gain(two_leaves, "n6", 5, 0), 1200, 1500);
}

static void nothing_is_gained_inside_a_leaf(void **state)
{
	(void)state;
	assert_in_range(gain(two_leaves, "n5", 4, 0), 500, 1000);
	assert_int_equal(gain(two_leaves, "n5", 2, 0), 0); /* two hosts are too few for it */
	assert_in_range(gain("switch a\nhost n[1-8] leaf=a rate=10Mbit/s\n", "n1", 8, 0), 500, 1000);
	/* Nor where the uplinks are as wide as what is below them. */
	assert_in_range(gain("switch spine\n"
			     "switch a parent=spine rate=40Mbit/s\nswitch b parent=spine rate=40Mbit/s\n"
			     "host n[1-4] leaf=a rate=10Mbit/s\nhost n[5-8] leaf=b rate=10Mbit/s\n",
			     "n1", 8, 0),
			500, 1000);
}

static void aggregators_halve_what_a_host_moves(void **state)
{
	static const char served[] = "switch a\n"
				     "host n[1-8] leaf=a rate=10Mbit/s\n"
				     "aggregator spare:7471 leaf=a rate=100Mbit/s\n";

	(void)state;
	assert_in_range(gain(served, "n1", 8, 0), 1600, 1760);
	/* One that is slow is not used. */
	assert_in_range(gain("switch a\nhost n[1-8] leaf=a rate=10Mbit/s\naggregator spare:7471 leaf=a rate=1Mbit/s\n",
			     "n1", 8, 0),
			500, 1000);
}

static void rates_that_are_not_said_are_the_hosts_own(void **state)
{
	static const char bare[] = "switch spine\n"
				   "switch a parent=spine rate=10Mbit/s\nswitch b parent=spine rate=10Mbit/s\n"
				   "host n[1-4] leaf=a\nhost n[5-8] leaf=b\n";

	(void)state;
	assert_in_range(gain(bare, "n1", 8, 40 * MBIT), 1700, 1750);
	/* As wide as a host's card: the ring's bytes on the cards count as much. */
	assert_true(gain(bare, "n1", 8, 10 * MBIT) < 1200);
}

/* Segments of 256 KiB, of which NCCL's calls keep 16 in flight: the links wait (docs/design/aggregation.md, Gain). */
static void few_segments_in_flight_gain_less(void **state)
{
	static const char fast[] = "switch spine\n"
				   "switch a parent=spine rate=50Gbit/s\nswitch b parent=spine rate=50Gbit/s\n"
				   "host n[1-4] leaf=a rate=100Gbit/s\nhost n[5-8] leaf=b rate=100Gbit/s\n";
	struct schedule_group group = { .member_count = 0 };
	struct pipeline_engine engine = pipeline_engine_today();
	struct gain gain_then;

	(void)state;
	assert_in_range(gain(fast, "n1", 8, 0), 1000, 1100);
	for (uint16_t i = 0; i < 8; i++)
		group.nodes[i] = (struct schedule_node){ .host = i, .leaf = i / 4, .rate_Bps = 100000 * MBIT };
	group.member_count = group.node_count = group.host_count = 8;
	group.leaf_count = 2;
	for (int i = 0; i < 2; i++)
		group.uplink_out_Bps[i] = group.uplink_in_Bps[i] = 50000 * MBIT;
	assert_int_equal(gain_of_group(&group), gain(fast, "n1", 8, 0));
	/* With more in flight the bytes decide, unless an engine is slower than the cards. */
	engine.calls = 64;
	assert_int_equal(gain_find(&group, NULL, &engine, &gain_then), 0);
	assert_in_range(gain_then.permille, 1600, 1750);
	engine.rate_Bps = 25000 * MBIT;
	assert_int_equal(gain_find(&group, NULL, &engine, &gain_then), 0);
	assert_in_range(gain_then.permille, 400, 510);
}

/* Whoever names hosts and leaves in another order comes to the same, to the last bit. */
static void the_order_does_not_matter(void **state)
{
	static const char forward[] = "switch spine\n"
				      "switch a parent=spine rate=9Gbit/s\nswitch b parent=spine rate=30Gbit/s\n"
				      "host n[1-3] leaf=a rate=25Gbit/s\nhost n4 leaf=a rate=20Gbit/s\n"
				      "host n[5-9] leaf=b rate=25Gbit/s\n";
	static const char backward[] = "switch spine\n"
				       "switch x parent=spine rate=30Gbit/s\nswitch y parent=spine rate=9Gbit/s\n"
				       "host m[1-5] leaf=x rate=25Gbit/s\nhost m6 leaf=y rate=20Gbit/s\n"
				       "host m[7-9] leaf=y rate=25Gbit/s\n";
	unsigned permille = gain(forward, "n1", 9, 0);

	(void)state;
	assert_true(permille > 0);
	assert_int_equal(gain(forward, "n9", 9, 0), permille);
	assert_int_equal(gain(backward, "m1", 9, 0), permille);
	assert_int_equal(gain(backward, "m6", 9, 0), permille);
}

static void what_is_not_known_is_no_gain(void **state)
{
	(void)state;
	assert_int_equal(gain_permille(NULL, &(struct gain_job){ "n1", 8, MBIT }), 0);
	assert_int_equal(gain("switch a\nhost n[1-8] leaf=a\n", "n1", 8, 0), 0);
	/* A host in no leaf: the job is taken to be on the others. */
	assert_in_range(gain(two_leaves, "stranger", 8, 0), 1700, 1750);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_narrow_uplink_is_crossed_once),
		cmocka_unit_test(nothing_is_gained_inside_a_leaf),
		cmocka_unit_test(aggregators_halve_what_a_host_moves),
		cmocka_unit_test(rates_that_are_not_said_are_the_hosts_own),
		cmocka_unit_test(few_segments_in_flight_gain_less),
		cmocka_unit_test(the_order_does_not_matter),
		cmocka_unit_test(what_is_not_known_is_no_gain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
