/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster file: all its forms are read, what is wrong is named with its place, and what is written is read again. */
#include "cluster_check.h"

#include "base/log.h"
#include "base/sys.h"
#include "support/runtime.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void every_fact_of_our_form_is_read(void **state)
{
	struct cluster *cluster = read_good("# two leaves\n\n" HEAD "switch spine\n"
					    "  switch leaf1 parent=spine rate=100Gbit/s # both directions\n"
					    "switch leaf2 parent=spine up=40Gbit/s down=2.5GB/s\r\n"
					    "host node[01-03],gpu7 leaf=leaf1 rate=25Gbit/s\n"
					    "host other leaf=leaf2\n"
					    "aggregator agg.example.org:7471 leaf=leaf1 rate=12500000000\n"
					    "aggregator [fe80::1]:7471 leaf=spine");

	(void)state;
	assert_int_equal(cluster->switch_count, 3);
	assert_string_equal(cluster->switches[0].name, "spine");
	assert_int_equal(cluster->switches[0].parent, CLUSTER_NONE);
	assert_int_equal(cluster->switches[0].up_rate_Bps, 0);
	assert_string_equal(cluster->switches[1].name, "leaf1");
	assert_int_equal(cluster->switches[1].parent, 0);
	assert_int_equal(cluster->switches[1].up_rate_Bps, 12500000000);
	assert_int_equal(cluster->switches[1].down_rate_Bps, 12500000000);
	assert_int_equal(cluster->switches[2].up_rate_Bps, 5000000000);
	assert_int_equal(cluster->switches[2].down_rate_Bps, 2500000000);
	assert_int_equal(cluster->host_count, 5);
	assert_int_equal(leaf_of(cluster, "node02"), 1);
	assert_int_equal(cluster_find(cluster, "gpu7")->rate_Bps, 3125000000);
	assert_int_equal(leaf_of(cluster, "other"), 2);
	assert_int_equal(cluster_find(cluster, "other")->rate_Bps, 0);
	assert_int_equal(cluster->aggregator_count, 2);
	assert_string_equal(cluster->aggregators[0].address, "agg.example.org");
	assert_int_equal(cluster->aggregators[0].port, 7471);
	assert_int_equal(cluster->aggregators[0].leaf, 1);
	assert_int_equal(cluster->aggregators[0].rate_Bps, 12500000000);
	assert_string_equal(cluster->aggregators[1].address, "fe80::1");
	assert_int_equal(cluster->aggregators[1].leaf, 0);
	cluster_free(cluster);
	cluster_free(NULL);
}

static void an_empty_cluster_is_one(void **state)
{
	struct cluster *cluster = read_good(HEAD);

	(void)state;
	assert_int_equal(cluster->switch_count, 0);
	assert_null(cluster_find(cluster, "node1"));
	cluster_free(cluster);
}

static void each_fact_changes_the_fingerprint(void **state)
{
	static const char *const texts[] = {
		HEAD
		"switch s\nswitch a parent=s rate=8Gbit/s\nhost n1 leaf=a rate=1GB/s\naggregator x:1 leaf=a rate=1GB/s",
		HEAD "switch s\nswitch a rate=8Gbit/s\nhost n1 leaf=a rate=1GB/s\naggregator x:1 leaf=a rate=1GB/s",
		HEAD
		"switch s\nswitch a parent=s up=8Gbit/s\nhost n1 leaf=a rate=1GB/s\naggregator x:1 leaf=a rate=1GB/s",
		HEAD
		"switch s\nswitch a parent=s down=8Gbit/s\nhost n1 leaf=a rate=1GB/s\naggregator x:1 leaf=a rate=1GB/s",
		HEAD "switch s\nswitch a parent=s rate=8Gbit/s\nhost n01 leaf=a rate=1GB/s\naggregator x:1 leaf=a "
		     "rate=1GB/s",
		HEAD
		"switch s\nswitch a parent=s rate=8Gbit/s\nhost n1 leaf=s rate=1GB/s\naggregator x:1 leaf=a rate=1GB/s",
		HEAD "switch s\nswitch a parent=s rate=8Gbit/s\nhost n1 leaf=a\naggregator x:1 leaf=a rate=1GB/s",
		HEAD
		"switch s\nswitch a parent=s rate=8Gbit/s\nhost n1 leaf=a rate=1GB/s\naggregator y:1 leaf=a rate=1GB/s",
		HEAD
		"switch s\nswitch a parent=s rate=8Gbit/s\nhost n1 leaf=a rate=1GB/s\naggregator x:2 leaf=a rate=1GB/s",
		HEAD
		"switch s\nswitch a parent=s rate=8Gbit/s\nhost n1 leaf=a rate=1GB/s\naggregator x:1 leaf=s rate=1GB/s",
		HEAD "switch s\nswitch a parent=s rate=8Gbit/s\nhost n1 leaf=a rate=1GB/s\naggregator x:1 leaf=a",
		HEAD "switch s\nswitch a parent=s rate=8Gbit/s\nhost n1 leaf=a rate=1GB/s",
		HEAD "switch s\nswitch a parent=s rate=8Gbit/s\nswitch b\nhost n1 leaf=a rate=1GB/s",
	};
	enum { COUNT = sizeof(texts) / sizeof(texts[0]) };
	uint64_t prints[COUNT];

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		struct cluster *cluster = read_good(texts[i]);

		prints[i] = cluster->fingerprint;
		cluster_free(cluster);
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(prints[i], prints[j]);
	}
}

/* It is kept, and nothing that hosts have to agree on. */
static void how_rates_are_known_is_no_part_of_the_fingerprint(void **state)
{
	struct cluster *declared = read_good(HEAD "switch a\nhost n1 leaf=a rate=1GB/s\n");
	struct cluster *said = read_good(HEAD "rates declared\nswitch a\nhost n1 leaf=a rate=1GB/s\n");
	struct cluster *measured = read_good(HEAD "rates measured\nswitch a\nhost n1 leaf=a rate=1GB/s\n");
	char *out = written(measured);
	struct cluster *again = read_good(out);

	(void)state;
	assert_false(declared->measured);
	assert_false(said->measured);
	assert_true(measured->measured);
	assert_true(again->measured);
	assert_int_equal(declared->fingerprint, said->fingerprint);
	assert_int_equal(declared->fingerprint, measured->fingerprint);
	free(out);
	out = written(said);
	assert_null(strstr(out, "rates"));
	free(out);
	cluster_free(declared);
	cluster_free(said);
	cluster_free(measured);
	cluster_free(again);
}

static void hosts_are_found_with_and_without_domain(void **state)
{
	struct cluster *cluster = read_good(HEAD "switch a\nswitch b\nhost n1,n2.one,n3.one,n3.two,n4,n4.one leaf=a\n"
						 "host n10 leaf=b\n");

	(void)state;
	assert_non_null(cluster_find(cluster, "n1"));
	assert_non_null(cluster_find(cluster, "n1.anywhere.org"));
	assert_string_equal(cluster_find(cluster, "n2")->name, "n2.one");
	assert_null(cluster_find(cluster, "n2.two"));
	assert_null(cluster_find(cluster, "n3"));
	assert_string_equal(cluster_find(cluster, "n3.two")->name, "n3.two");
	assert_string_equal(cluster_find(cluster, "n4")->name, "n4");
	assert_string_equal(cluster_find(cluster, "n4.one")->name, "n4.one");
	assert_null(cluster_find(cluster, "n"));
	assert_null(cluster_find(cluster, ""));
	assert_int_equal(leaf_of(cluster, "n10"), 1);
	cluster_free(cluster);
}

static void lists_are_expanded(void **state)
{
	static const struct {
		const char *list;
		const char *names[8];
	} cases[] = {
		{ "a", { "a" } },
		{ "a,b2", { "a", "b2" } },
		{ "n[1-3]", { "n1", "n2", "n3" } },
		{ "n[8-11]", { "n8", "n9", "n10", "n11" } },
		{ "n[08-11]", { "n08", "n09", "n10", "n11" } },
		{ "n[098-101]x", { "n098x", "n099x", "n100x", "n101x" } },
		{ "n[1,3-4,007]", { "n1", "n3", "n4", "n007" } },
		{ "r[0-1]n[1-2].d,z", { "r0n1.d", "r0n2.d", "r1n1.d", "r1n2.d", "z" } },
		{ "[1-2]", { "1", "2" } },
		{ "a[1][2][3]", { "a123" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cluster *cluster;
		char text[256];
		size_t count = 0;

		snprintf(text, sizeof(text), HEAD "switch s\nhost %s leaf=s\n", cases[i].list);
		cluster = read_good(text);
		while (count < 8 && cases[i].names[count])
			assert_non_null(cluster_find(cluster, cases[i].names[count++]));
		assert_int_equal(cluster->host_count, count);
		cluster_free(cluster);
	}
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
	static const struct {
		const char *text;
		int line, column;
		const char *part;
	} cases[] = {
		{ "", 1, 1, "tributary-cluster 1" },
		{ "", 1, 1, "the file is empty: expected tributary-cluster 1" },
		{ "# nothing", 2, 1, "empty but for" },
		{ "# nothing\n\n", 3, 1, "empty but for blank lines and comments: expected tributary-cluster 1" },
		{ "hello\n", 1, 1, "tributary-cluster 1, or Slurm's topology.conf, topology.yaml" },
		{ "tributary-cluster 2\n", 1, 19, "version 1" },
		{ "tributary-cluster 1 x\n", 1, 21, "the end of the line" },
		{ HEAD "leaf a\n", 2, 1, "switch, host, aggregator" },
		{ HEAD "switch\n", 2, 7, "name of a switch" },
		{ HEAD "switch a\nswitch a\n", 3, 8, "the switch a already" },
		{ HEAD "switch a b=c\n", 2, 10, "parent=SWITCH" },
		{ HEAD "switch a leaf=c\n", 2, 10, "parent=SWITCH" },
		{ HEAD "switch a parent=b\n", 2, 17, "no line above has the switch b" },
		{ HEAD "switch a parent=a\n", 2, 17, "below itself" },
		{ HEAD "switch a rate=1 rate=2\n", 2, 17, "already" },
		{ HEAD "switch a rate=1GB/s up=1GB/s\n", 2, 15, "both directions" },
		{ HEAD "switch a rate=fast\n", 2, 15, "found \"fast\"" },
		{ HEAD "switch a rate=0\n", 2, 15, "a rate with its unit" },
		{ HEAD "switch a rate=\n", 2, 15, "found nothing" },
		{ HEAD "switch a rate\n", 2, 10, "rate=RATE" },
		{ HEAD "switch s\033[1m\n", 2, 8, "s?[1m" },
		{ HEAD "host n1\n", 2, 6, "leaf=SWITCH is missing" },
		{ HEAD "switch a\nhost n1 leaf=b\n", 3, 14, "no line above" },
		{ HEAD "switch a\nhost n1 leaf=a\nhost n[0-3] leaf=a\n", 4, 6, "the host n1 stands in a leaf already" },
		{ HEAD "switch a\nhost n1,n1 leaf=a\n", 3, 6, "the host n1" },
		{ HEAD "switch a\nhost n[1-2 leaf=a\n", 3, 7, "closing bracket" },
		{ HEAD "switch a\nhost n[2-1] leaf=a\n", 3, 8, "lower end first" },
		{ HEAD "switch a\nhost n[] leaf=a\n", 3, 8, "numbers and ranges" },
		{ HEAD "switch a\nhost n[1,] leaf=a\n", 3, 8, "numbers and ranges" },
		{ HEAD "switch a\nhost n[1234567890] leaf=a\n", 3, 8, "nine digits" },
		{ HEAD "switch a\nhost n[a-b] leaf=a\n", 3, 8, "numbers and ranges" },
		{ HEAD "switch a\nhost n],m leaf=a\n", 3, 6, "name of a host" },
		{ HEAD "switch a\nhost n,,m leaf=a\n", 3, 8, "found nothing" },
		{ HEAD "switch a\nhost a[1][1][1][1][1][1][1][1][1] leaf=a\n", 3, 31, "at most 8" },
		{ HEAD "switch a\nhost n[0-4096] leaf=a\n", 3, 6, "more than 4096 hosts" },
		{ HEAD "switch a\nhost n[0-999999999]m[0-999999999] leaf=a\n", 3, 6, "more than 4096 hosts" },
		{ HEAD "switch a\naggregator x leaf=a\n", 3, 12, "ADDRESS:PORT" },
		{ HEAD "switch a\naggregator :1 leaf=a\n", 3, 12, "ADDRESS:PORT" },
		{ HEAD "switch a\naggregator x:0 leaf=a\n", 3, 12, "1 to 65535" },
		{ HEAD "switch a\naggregator x:65536 leaf=a\n", 3, 12, "1 to 65535" },
		{ HEAD "switch a\naggregator x:1\n", 3, 12, "leaf=SWITCH is missing" },
		{ HEAD "switch a\naggregator ::1:1 leaf=a\n", 3, 12, "an aggregator's host" },
		{ HEAD "switch a\naggregator [:z]:1 leaf=a\n", 3, 12, "ADDRESS:PORT" },
		{ HEAD "switch a\naggregator x:1 leaf=a\naggregator x:1 leaf=a\n", 4, 12, "already" },
		{ "SwitchName=a b\n", 1, 14, "a line of Key=Value" },
		{ "SwitchName=\n", 1, 12, "a value" },
		{ "Nodes=a\n", 1, 1, "must have SwitchName=" },
		{ "SwitchName=a Node=b\n", 1, 14, "one of SwitchName=" },
		{ "SwitchName=a switchname=b\n", 1, 14, "already" },
		{ "SwitchName=a Nodes=\"b\n", 1, 21, "closing quote" },
		{ "SwitchName=a \\\n  Nodes=b[1\n", 2, 10, "closing bracket" },
		{ "SwitchName=a Switches=b\n", 1, 23, "switch b is named here and nowhere defined" },
		{ "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", 2, 23, "below itself" },
		{ "SwitchName=a Switches=a\n", 1, 23, "below itself" },
		{ "SwitchName=a Nodes=n Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a\n", 1, 31,
		  "itself" },
		{ "SwitchName=a Nodes=ALL\n", 1, 20, "ALL is every node of slurm.conf" },
		{ "SwitchName=a Nodes=\"all\"\n", 1, 21, "sinfo -ho %N" },
		{ "ClusterName=c\nSlurmctldHost=h\n", 1, 1, "slurm.conf, which says nothing of switches" },
		{ "# ours\nPartitionName=p Nodes=ALL\n", 2, 1, "topology.conf or topology.yaml" },
		{ "SwitchName=a LinkSpeed=fast\n", 1, 24, "a rate with its unit" },
		{ "BlockName=b1 Nodes=n[1-18]\n", 1, 1, "topology/block" },
		{ "SwitchName=a\nInclude=other\n", 2, 1, "prints, which has all of them" },
		{ "SwitchName=a Nodes=n\nInclude /etc/slurm/other.conf\n", 2, 1, "Include is not followed" },
		{ "SwitchName=a\n  include other\n", 2, 3, "Include is not followed" },
		{ "# ours\ninclude other.conf\n", 2, 1, "Include is not followed" },
		{ "Include other.conf\nSwitchName=a\n", 1, 1, "Include is not followed" },
		{ "Including other.conf\n", 1, 1, "expected tributary-cluster 1" },
		{ "SwitchName=a Level=low\n", 1, 20, "a number" },
		{ "{\"lldp\":{}}\n", 1, 1, "cluster show FILE --text" },
		{ "# Topology file: generated\n\nvendid=0x2c9\n", 3, 1, "cluster show FILE --text" },
		{ "SwitchName=a Nodes=n\nSwitchName=b Nodes=n,m\n", 2, 20, "stands in a leaf already" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_bad(cases[i].text, cases[i].line, cases[i].column, cases[i].part);
}

static void long_names_and_texts_are_refused(void **state)
{
	struct cluster *cluster;
	struct diag diag = { 0 };
	char text[600], *large;

	(void)state;
	strcpy(text, HEAD "switch ");
	memset(text + strlen(text), 'x', 253);
	text[strlen(HEAD) + 7 + 253] = '\0';
	cluster = read_good(text);
	assert_int_equal(strlen(cluster->switches[0].name), 253);
	cluster_free(cluster);
	strcat(text, "y");
	check_bad(text, 2, 8, "at most 253");
	strcpy(text, HEAD "switch s\nhost [1-2]");
	memset(text + strlen(text), 'x', 253);
	strcpy(text + strlen(HEAD) + 9 + 10 + 253, " leaf=s");
	check_bad(text, 3, 6, "at most 253");
	large = calloc(1, (4 << 20) + 1);
	assert_non_null(large);
	assert_int_equal(cluster_read(large, (4 << 20) + 1, &cluster, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "4 MiB"));
	free(large);
}

static void the_canonical_text_is_short_and_stays(void **state)
{
	static const char text[] = HEAD "switch spine\n"
					"switch a parent=spine rate=100Gbit/s\n"
					"switch b parent=spine up=100Gbit/s down=1Mbit/s\n"
					"switch c\n"
					"host login leaf=a\n"
					"host n[1-3] leaf=a rate=25Gbit/s\n"
					"host n4 leaf=a rate=10Gbit/s\n"
					"host n[5,7-12] leaf=a rate=25Gbit/s\n"
					"host n[06,98-101].x.org leaf=b rate=1000001B/s\n"
					"aggregator [::1]:2 leaf=spine rate=100Gbit/s\n"
					"aggregator agg:1 leaf=a\n";
	/* In an order of its own. */
	struct cluster *cluster = read_good(HEAD
					    "switch c\nswitch spine\nswitch b parent=spine up=12500000000 down=125000\n"
					    "switch a parent=spine rate=12.5GB/s\n"
					    "aggregator [::1]:2 leaf=spine rate=12500MB/s\n"
					    "host n[101,100].x.org,n99.x.org,n98.x.org,n06.x.org leaf=b rate=1000001\n"
					    "host n12,n11,n10,n9,n8,n7,n5 leaf=a rate=25gbit/s\n"
					    "host login leaf=a\nhost n4 leaf=a rate=10000Mbit/s\n"
					    "host n3,n[1-2] leaf=a rate=25000000kbit/s\naggregator agg:1 leaf=a\n");
	char *out = written(cluster), *again;
	struct cluster *twice = read_good(out);

	(void)state;
	assert_int_equal(twice->fingerprint, cluster->fingerprint);
	again = written(twice);
	assert_string_equal(out, again);
	/* Switches are in the order of their depth, then of their names. */
	assert_non_null(strstr(out, "switch c\nswitch spine\n"));
	assert_string_equal(strstr(out, "host "), strstr(text, "host "));
	free(out);
	free(again);
	cluster_free(cluster);
	cluster_free(twice);
}

/* ------------------------------------------------------------------------------------------------------- at random */

struct random_cluster {
	unsigned switches, hosts, aggregators;
	int parent[12], leaf[40], at[6];
	unsigned rate[12], number[40];
};

static void make_random(uint64_t *random, struct random_cluster *ret)
{
	ret->switches = 1 + (unsigned)random_below(random, 12);
	ret->hosts = (unsigned)random_below(random, 41);
	ret->aggregators = (unsigned)random_below(random, 7);
	for (unsigned i = 0; i < ret->switches; i++) {
		ret->parent[i] = i && random_below(random, 4) ? (int)random_below(random, i) : CLUSTER_NONE;
		ret->rate[i] = (unsigned)random_below(random, 3);
	}
	for (unsigned i = 0; i < ret->hosts; i++)
		ret->leaf[i] = (int)random_below(random, ret->switches);
	for (unsigned i = 0; i < ret->aggregators; i++)
		ret->at[i] = (int)random_below(random, ret->switches);
}

/* Hosts in an order that the random numbers choose; everything else says the same. */
static void put_random(uint64_t *random, const struct random_cluster *from, char *text)
{
	static const char *const rates[][3] = { { "", "", "" },
						{ " rate=25Gbit/s", " up=3.125GB/s down=3125000000", " rate=3125MB/s" },
						{ " up=1kB/s", " up=1000B/s", " up=8kbit/s" } };
	unsigned turn = (unsigned)random_below(random, 41);

	text += sprintf(text, HEAD);
	for (unsigned i = 0; i < from->switches; i++) {
		text += sprintf(text, "switch s%u%s", i, rates[from->rate[i]][random_below(random, 3)]);
		text += from->parent[i] == CLUSTER_NONE ? 0 : sprintf(text, " parent=s%d", from->parent[i]);
		text += sprintf(text, random_below(random, 2) ? "\n" : " # so\n\n");
	}
	for (unsigned i = 0; i < from->hosts; i++) {
		unsigned host = (i + turn) % from->hosts;

		text += sprintf(text, "host n%0*u%s leaf=s%d\n", host % 3 ? 3 : 1, host, host % 7 ? "" : ".d2.org",
				from->leaf[host]);
	}
	for (unsigned i = from->aggregators; i-- > 0;)
		text += sprintf(text, "aggregator 10.0.0.%u:%u leaf=s%d\n", i, 7000 + i, from->at[i]);
}

static void random_clusters_come_back(void **state)
{
	uint64_t random = runtime_seed();

	(void)state;
	for (unsigned round = 0; round < 500; round++) {
		static char first[8192], second[8192];
		struct random_cluster from;
		struct cluster *a, *b, *c;
		char *out, *again;

		make_random(&random, &from);
		put_random(&random, &from, first);
		put_random(&random, &from, second);
		a = read_good(first);
		b = read_good(second);
		assert_int_equal(a->fingerprint, b->fingerprint);
		assert_int_equal(a->host_count, from.hosts);
		out = written(a);
		c = read_good(out);
		again = written(c);
		assert_string_equal(out, again);
		assert_int_equal(a->fingerprint, c->fingerprint);
		assert_int_equal(c->host_count, from.hosts);
		for (size_t i = 0; i < a->host_count; i++) {
			assert_string_equal(a->hosts[i].name, c->hosts[i].name);
			assert_int_equal(a->hosts[i].leaf, c->hosts[i].leaf);
			assert_ptr_equal(cluster_find(a, c->hosts[i].name), &a->hosts[i]);
		}
		free(out);
		free(again);
		cluster_free(a);
		cluster_free(b);
		cluster_free(c);
	}
}

/* Whatever of a good text is there, it is read or refused, and never read past its end. */
static void any_beginning_is_read_or_refused(void **state)
{
	static const char text[] = HEAD
		"switch a rate=1GB/s\nhost n[1-2],x leaf=a rate=5Mbit/s\naggregator x:1 leaf=a\n";

	(void)state;
	for (size_t bytes = 0; bytes < sizeof(text); bytes++) {
		char *copy = malloc(bytes ? bytes : 1);
		struct cluster *cluster = NULL;
		struct diag diag = { 0 };

		assert_non_null(copy);
		memcpy(copy, text, bytes);
		if (cluster_read(copy, bytes, &cluster, &diag) < 0)
			assert_true(diag.line >= 1 && diag.column >= 1 && diag.text[0]);
		cluster_free(cluster);
		free(copy);
	}
}

#ifdef TRIBUTARY_FAULTS

static void without_memory_there_is_an_error(void **state)
{
	static const char *const texts[] = {
		HEAD "switch s\nswitch a parent=s\nhost n[1-400] leaf=a\naggregator x:1 leaf=s\n",
		"SwitchName=s Switches=a\nSwitchName=a Nodes=n[1-400]\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct cluster *cluster = NULL;
		uint64_t nth = 0;
		char *text = NULL;
		size_t bytes;
		int r;

		do {
			sys_fault_set(SYS_FAULT_MEMORY, ++nth, ENOMEM);
			r = cluster_read(texts[i], strlen(texts[i]), &cluster, NULL);
			sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
			assert_true(r == 0 || (r == -ENOMEM && !cluster));
		} while (r < 0);
		assert_true(nth > 6);
		sys_fault_set(SYS_FAULT_MEMORY, 1, ENOMEM);
		assert_int_equal(cluster_format(cluster, &text, &bytes), -ENOMEM);
		sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
		assert_null(text);
		cluster_free(cluster);
	}
}

#else

static void without_memory_there_is_an_error(void **state)
{
	(void)state;
	print_message("skipped: needs a build with FAULTS=1\n");
	skip();
}

#endif

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fact_of_our_form_is_read),
		cmocka_unit_test(an_empty_cluster_is_one),
		cmocka_unit_test(each_fact_changes_the_fingerprint),
		cmocka_unit_test(how_rates_are_known_is_no_part_of_the_fingerprint),
		cmocka_unit_test(hosts_are_found_with_and_without_domain),
		cmocka_unit_test(lists_are_expanded),
		cmocka_unit_test(what_is_wrong_is_named_with_its_place),
		cmocka_unit_test(long_names_and_texts_are_refused),
		cmocka_unit_test(the_canonical_text_is_short_and_stays),
		cmocka_unit_test(random_clusters_come_back),
		cmocka_unit_test(any_beginning_is_read_or_refused),
		cmocka_unit_test(without_memory_there_is_an_error),
	};

	runtime_start("cluster_test", 110);
	return cmocka_run_group_tests_name("cluster", tests, NULL, NULL);
}
