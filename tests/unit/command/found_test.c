/* SPDX-License-Identifier: Apache-2.0 */
/* What was found, as a cluster file and against a declared one. */
#include "command/cluster_measure.h"

#include "tributary/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char names[4][CLUSTERPROBE_NAME_BYTES] = { "h0", "h1", "h2", "h3" };

/* h0 and h1 on one leaf, h2 and h3 on the other; only the first is narrow, and only upwards. */
static struct fabric_leaf leaves[2] = {
	{ .host_count = 2, .up = { FABRIC_NARROW, 1e6, 4e6, 4e6, 2 }, .down = { FABRIC_HOSTS, 4e6, 4e6, 4e6, 2 } },
	{ .host_count = 2, .up = { FABRIC_OTHERS, 3e6, 4e6, 3e6, 2 }, .down = { FABRIC_HOSTS, 4e6, 4e6, 4e6, 2 } },
};
static struct fabric_host hosts[4] = { { 0, 2e6, 2e6, 0, false },
				       { 0, 2e6, 2e6, 0, false },
				       { 1, 2e6, 2e6, 0, false },
				       { 1, 2e6, 1e6, FABRIC_SLOW_IN, false } };
static const struct clusterprobe_result result = {
	.host_count = 4,
	.names = names,
	.fabric = { .host_count = 4, .leaf_count = 2, .hosts = hosts, .leaves = leaves }
};

static void only_what_is_known_is_written(void **state)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };

	(void)state;
	assert_int_equal(cluster_found(&result, &cluster, &diag), 0);
	assert_int_equal(cluster->host_count, 4);
	assert_true(cluster->measured);
	assert_int_equal(cluster_find(cluster, "h3")->rate_Bps, 1000000);
	assert_int_equal(cluster->switches[cluster_find(cluster, "h1")->leaf].up_rate_Bps, 1000000);
	assert_int_equal(cluster->switches[cluster_find(cluster, "h1")->leaf].down_rate_Bps, 0);
	assert_int_equal(cluster->switches[cluster_find(cluster, "h2")->leaf].up_rate_Bps, 0);
	assert_int_not_equal(cluster_find(cluster, "h1")->leaf, cluster_find(cluster, "h2")->leaf);
	cluster_free(cluster);
}

/* Lines about what is declared; the text is the caller's. */
static char *compare(const char *declared, size_t *ret_count)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(cluster_read(declared, strlen(declared), &cluster, &diag), 0);
	*ret_count = cluster_contradictions(&result, cluster, "", out);
	fclose(out);
	cluster_free(cluster);
	return text;
}

static void what_fits_is_no_contradiction(void **state)
{
	size_t count;
	char *text = compare("tributary-cluster 1\nswitch s\nswitch a parent=s up=1000000 down=9000000\n"
			     "switch b parent=s rate=9000000\nhost h0,h1 leaf=a rate=2000000\nhost h2,h3 leaf=b\n",
			     &count);

	(void)state;
	assert_string_equal(text, "");
	assert_int_equal(count, 0);
	free(text);
}

static void contradictions_are_named(void **state)
{
	size_t count;
	char *text = compare("tributary-cluster 1\nswitch s\nswitch a parent=s rate=4000000\nswitch b parent=s\n"
			     "host h0,h2 leaf=a\nhost h1 leaf=b rate=8000000\n",
			     &count);

	(void)state;
	assert_non_null(strstr(text, "h3 is measured, and not declared"));
	assert_non_null(strstr(text, "h0 and h1 share a leaf; declared on a and b"));
	assert_non_null(strstr(text, "h0 and h2 are both declared on a; a narrow link is between them"));
	assert_non_null(strstr(text, "h1: 16 Mbit/s measured, 64 Mbit/s declared"));
	assert_non_null(strstr(text, "uplink of a (leaf1), up: 8 Mbit/s measured, 32 Mbit/s declared"));
	assert_int_equal(count, 5);
	free(text);
}

static char *printed(const struct clusterprobe_result *what)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	cluster_found_print(what, out);
	fclose(out);
	return text;
}

static struct clusterprobe_latency latencies[3] = { { 0, 1, 20000, 15000 },
						    { 2, 3, 22000, 16000 },
						    { 1, 2, 40000, 31000 } };

/* All that is said of leaves, of uplinks however much is known of them, of hosts, and of latencies. */
static void what_is_found_is_said_with_its_evidence(void **state)
{
	struct fabric_leaf said[3] = {
		{ .host_count = 2,
		  .up = { FABRIC_NARROW, 1e6, 4e6, 5e6, 2 },
		  .down = { FABRIC_HOSTS, 4e6, 4e6, 5e6, 2 },
		  .inside_part = 0.98,
		  .outside_part = 0.26,
		  .inside_count = 12,
		  .outside_count = 40,
		  .asymmetric = true },
		{ .host_count = 1,
		  .up = { FABRIC_JOINT, 15e7, 4e8, 4e8, 6 },
		  .down = { FABRIC_OTHERS, 3e6, 4e6, 3e6, 2 } },
		{ .host_count = 1,
		  .up = { FABRIC_NARROW, 2e6, 4e6, 3e6, 2 },
		  .down = { FABRIC_NARROW, 2e6, 4e6, 3e6, 2 } },
	};
	struct fabric_host members[4] = { { 0, 2e6, 2e6, 0, false },
					  { 0, 2e6, 5e5, FABRIC_SLOW_IN, false },
					  { 1, 2e6, 2e6, 0, true },
					  { 2, 1e6, 1e6, FABRIC_SLOW_OUT | FABRIC_SLOW_IN, true } };
	struct clusterprobe_result what = { .host_count = 4,
					    .names = names,
					    .seconds = 61.4,
					    .latencies = latencies,
					    .latency_count = 3,
					    .fabric = { .host_count = 4,
							.leaf_count = 3,
							.hosts = members,
							.leaves = said,
							.round_count = 120,
							.median_Bps = 2e6 } };
	char *text = printed(&what);

	(void)state;
	assert_string_equal(
		text,
		"4 hosts, 120 rounds in 61 s\n"
		"3 leaves with narrow links between them\n"
		"  leaf1: h0 h1\n"
		"    up   8 Mbit/s: its hosts carry 32 Mbit/s together, the others 40 Mbit/s (2 rounds)\n"
		"    down at least 32 Mbit/s: all that its hosts carry (2 rounds)\n"
		"    with its uplink full, 12 flows inside had 98 % of their NICs' rate, 40 flows out or in 26 %\n"
		"    asymmetric: one direction carries far less than the other\n"
		"  leaf2: h2\n"
		"    up   1.2 Gbit/s, this uplink or the other leaf's: with two leaves it cannot be told which; its "
		"hosts carry 3.2 Gbit/s (6 rounds)\n"
		"    down at least 24 Mbit/s: all that the other leaves let through; how much more cannot be told (2 "
		"rounds)\n"
		"  leaf3: h3\n"
		"    up   16 Mbit/s: its hosts carry 32 Mbit/s together, the others 24 Mbit/s (2 rounds)\n"
		"    down 16 Mbit/s: its hosts carry 32 Mbit/s together, the others 24 Mbit/s (2 rounds)\n"
		"NICs: median 16 Mbit/s, from 4 Mbit/s to 16 Mbit/s\n"
		"  h1 is slow: 16 Mbit/s out, 4 Mbit/s in, whoever it talks to\n"
		"  h3 is slow: 8 Mbit/s out, 8 Mbit/s in, whoever it talks to; alone in its leaf, so it may be a "
		"narrow uplink\n"
		"Round trip of a byte, inside leaves: median 20 us, least 15 us (1 pairs)\n"
		"Round trip of a byte, between leaves: median 40 us, least 16 us (2 pairs)\n");
	free(text);
}

static void a_fabric_that_never_blocks_cannot_be_told(void **state)
{
	struct fabric_leaf one = { .host_count = 4 };
	struct fabric_host members[4] = { { .leaf = 0, .out_Bps = 2e6, .in_Bps = 2e6 },
					  { .leaf = 0, .out_Bps = 2e6, .in_Bps = 2e6 },
					  { .leaf = 0, .out_Bps = 2e6, .in_Bps = 2e6 },
					  { .leaf = 0, .out_Bps = 2e6, .in_Bps = 2e6 } };
	struct clusterprobe_result what = { .host_count = 4,
					    .names = names,
					    .seconds = 30,
					    .latencies = latencies,
					    .latency_count = 3,
					    .flows = { 0, 2, 8, 2e6, 2.4e6 },
					    .fabric = { .host_count = 4,
							.leaf_count = 1,
							.hosts = members,
							.leaves = &one,
							.round_count = 61,
							.median_Bps = 2e6,
							.full_part = 0.995,
							.loaded_part = 0.97 } };
	char *text = printed(&what);

	(void)state;
	assert_string_equal(text, "4 hosts, 61 rounds in 30 s\n"
				  "Cannot tell the leaves: no narrow link was found. 99.5 % of all flows had the full "
				  "rate of their NICs, and in the round that filled most, all hosts together 97.0 %.\n"
				  "  leaf1: h0 h1 h2 h3\n"
				  "NICs: median 16 Mbit/s, from 16 Mbit/s to 16 Mbit/s\n"
				  "Round trip of a byte, any pair: median 22 us, least 15 us (3 pairs)\n");
	free(text);
	what.flows.all_Bps = 16e6;
	text = printed(&what);
	assert_non_null(strstr(text, "to 16 Mbit/s\nOne connection from h0 to h2 carries 16 Mbit/s, 8 carry 128 Mbit/s: "
				     "NICs and uplinks may carry more than is said here, which --streams 8 shows\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_known_is_written),
		cmocka_unit_test(what_fits_is_no_contradiction),
		cmocka_unit_test(contradictions_are_named),
		cmocka_unit_test(what_is_found_is_said_with_its_evidence),
		cmocka_unit_test(a_fabric_that_never_blocks_cannot_be_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
