/* SPDX-License-Identifier: Apache-2.0 */
/* What aggregation brings a job, by its cluster: the design's formulas, worked out by hand for each case. */
#include "aggregate/gain.h"

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

#define GBIT UINT64_C(125000000)

static const char two_leaves[] = "switch spine\n"
				 "switch a parent=spine rate=100Gbit/s\n"
				 "switch b parent=spine rate=100Gbit/s\n"
				 "host n[1-4] leaf=a rate=400Gbit/s\n"
				 "host n[5-8] leaf=b rate=400Gbit/s\n";

static void a_narrow_uplink_is_crossed_once(void **state)
{
	(void)state;
	/* A ring crosses it with 2·7/8 of the bytes, the aggregation with all of them once: 1.75. */
	assert_in_range(gain(two_leaves, "n1", 8, 0), 1700, 1750);
	/* Nobody says how many hosts the job has: all of them. */
	assert_in_range(gain(two_leaves, "n1", 0, 0), 1700, 1750);
	/* Five hosts are on both leaves, whichever: 2·4/5. */
	assert_in_range(gain(two_leaves, "n6", 5, 0), 1550, 1600);
}

static void nothing_is_gained_inside_a_leaf(void **state)
{
	(void)state;
	assert_int_equal(gain(two_leaves, "n5", 4, 0), 0);
	assert_int_equal(gain(two_leaves, "n5", 2, 0), 0);
	assert_int_equal(gain("switch a\nhost n[1-8] leaf=a rate=10Gbit/s\n", "n1", 8, 0), 0);
	/* Nor where the uplinks are as wide as what is below them. */
	assert_int_equal(gain("switch spine\n"
			      "switch a parent=spine rate=400Gbit/s\nswitch b parent=spine rate=400Gbit/s\n"
			      "host n[1-4] leaf=a rate=100Gbit/s\nhost n[5-8] leaf=b rate=100Gbit/s\n",
			      "n1", 8, 0),
			 0);
}

static void aggregators_halve_what_a_host_moves(void **state)
{
	static const char served[] = "switch a\n"
				     "host n[1-8] leaf=a rate=10Gbit/s\n"
				     "aggregator spare:7471 leaf=a rate=100Gbit/s\n";

	(void)state;
	assert_in_range(gain(served, "n1", 8, 0), 1600, 1760);
	/* One that is slow hardly helps. */
	assert_int_equal(
		gain("switch a\nhost n[1-8] leaf=a rate=10Gbit/s\naggregator spare:7471 leaf=a rate=100Mbit/s\n", "n1",
		     8, 0),
		0);
}

static void rates_that_are_not_said_are_the_hosts_own(void **state)
{
	static const char bare[] = "switch spine\n"
				   "switch a parent=spine rate=10Gbit/s\nswitch b parent=spine rate=10Gbit/s\n"
				   "host n[1-4] leaf=a\nhost n[5-8] leaf=b\n";

	(void)state;
	assert_in_range(gain(bare, "n1", 8, 40 * GBIT), 1700, 1750);
	/* As wide as a host's card: the ring's bytes on the cards count as much. */
	assert_true(gain(bare, "n1", 8, 10 * GBIT) < 1200);
}

static void what_is_not_known_is_no_gain(void **state)
{
	(void)state;
	assert_int_equal(gain_permille(NULL, &(struct gain_job){ "n1", 8, GBIT }), 0);
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
		cmocka_unit_test(what_is_not_known_is_no_gain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
