/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's files: topology.conf, topology.yaml, and what scontrol prints. */
#include "cluster_check.h"

#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void slurm_trees_are_read(void **state)
{
	struct cluster *cluster = read_good("# switches above those that they name\n"
					    "SwitchName=spine Switches=pod[0-1]\n"
					    "SwitchName=pod0 Switches=s[0-1] LinkSpeed=100\n"
					    "SwitchName=s0 Nodes=dev[0-5]   # and a comment\n"
					    "switchname = s1 \\\n"
					    "   NODES=\"rack[0-1]_blade[08-11],login\" \\\n"
					    "   LINKSPEED=40Gbit/s\n"
					    "SwitchName=pod1 Nodes=x\r\n");

	(void)state;
	assert_int_equal(cluster->switch_count, 5);
	assert_string_equal(cluster->switches[0].name, "spine");
	assert_int_equal(cluster->switches[1].parent, 0);
	assert_string_equal(cluster->switches[3].name, "s0");
	assert_int_equal(cluster->switches[3].parent, 1);
	assert_int_equal(cluster->switches[1].up_rate_Bps, 0);
	assert_int_equal(cluster->switches[4].up_rate_Bps, 5000000000);
	assert_int_equal(cluster->switches[4].down_rate_Bps, 5000000000);
	assert_int_equal(cluster->host_count, 6 + 8 + 1 + 1);
	assert_int_equal(leaf_of(cluster, "dev3"), 3);
	assert_int_equal(leaf_of(cluster, "rack0_blade08"), 4);
	assert_int_equal(leaf_of(cluster, "rack1_blade11"), 4);
	assert_int_equal(leaf_of(cluster, "login"), 4);
	assert_int_equal(leaf_of(cluster, "x"), 2);
	assert_null(cluster_find(cluster, "rack1_blade8"));
	cluster_free(cluster);
}

static void check_same(const char *text, const char *ours)
{
	struct cluster *cluster = read_good(text);
	char *is = written(cluster);

	assert_string_equal(is, ours);
	free(is);
	cluster_free(cluster);
}

/* Above the leaves Nodes= has all nodes below: left aside, as are Level= and what is "(null)". */
static void what_scontrol_prints_is_read(void **state)
{
	(void)state;
	check_same("SwitchName=core Level=2 LinkSpeed=1 Nodes=t[1-9],extra Switches=row[1-2]\n"
		   "SwitchName=row1 Level=1 LinkSpeed=1 Nodes=t[1-4] Switches=rack[1-2]\n"
		   "SwitchName=rack1 Level=0 LinkSpeed=1 Nodes=t[1-2]\n"
		   "SwitchName=rack2 Level=0 LinkSpeed=1 Nodes=t[3-4] Switches=(null)\n"
		   "SwitchName=rack3 Level=00 LinkSpeed=1 Nodes=t[5-9]\n"
		   "SwitchName=row2 Level=1 LinkSpeed=1 Nodes=t[5-9] Switches=rack[3-4]\n"
		   "SwitchName=rack4 Level=0 LinkSpeed=1 Nodes=(null)\n",
		   HEAD "switch core\nswitch row1 parent=core\nswitch row2 parent=core\nswitch rack1 parent=row1\n"
			"switch rack2 parent=row1\nswitch rack3 parent=row2\nswitch rack4 parent=row2\n"
			"host t[1-2] leaf=rack1\nhost t[3-4] leaf=rack2\nhost t[5-9] leaf=rack3\n");
}

/* Files that list every cable: all that is above a switch is one level. */
static void switches_above_the_same_ones_are_one(void **state)
{
	static const char means[] = HEAD
		"switch core1..core10\nswitch e1 parent=core1..core10\nswitch e2 parent=core1..core10\n"
		"host n[1-2] leaf=e1\nhost n[3-4] leaf=e2\n";
	static const char leaves[] = "SwitchName=e1 Nodes=n[1-2]\nSwitchName=e2 Nodes=n[3-4]\n";
	char text[1024];

	(void)state;
	snprintf(text, sizeof(text),
		 "SwitchName=core10 Switches=e[1-2]\nSwitchName=core2 Switches=e[1-2]\n"
		 "SwitchName=core1 Switches=e[1-2]\n%s",
		 leaves);
	check_same(text, means);
	/* Behind the leaves, with other spellings, and with what scontrol adds. */
	snprintf(text, sizeof(text),
		 "%sswitchname=core1 level=1 nodes=n[1-4] SWITCHES=\"e2,e1\"\r\nSwitchName=core10 \\\n"
		 " Level=1 Switches=e[1-2] # cables\n",
		 leaves);
	check_same(text, means);
	/* Each above a part alone: they share e2 and e3. */
	check_same("SwitchName=c1 Switches=e[1-2]\nSwitchName=c2 Switches=e[2-3]\nSwitchName=c3 Switches=e[3-4]\n"
		   "SwitchName=e1 Nodes=n1\nSwitchName=e2 Nodes=n2\nSwitchName=e3 Nodes=n3\nSwitchName=e4 Nodes=n4\n",
		   HEAD
		   "switch c1..c3\nswitch e1 parent=c1..c3\nswitch e2 parent=c1..c3\nswitch e3 parent=c1..c3\n"
		   "switch e4 parent=c1..c3\nhost n1 leaf=e1\nhost n2 leaf=e2\nhost n3 leaf=e3\nhost n4 leaf=e4\n");
	/* Two pods stay apart below two cores, whose links to each are known. */
	check_same("SwitchName=x1 Switches=s[1-4]\nSwitchName=x2 Switches=s[1-4]\n"
		   "SwitchName=s1 Switches=a1,a2 LinkSpeed=1GB/s\nSwitchName=s2 Switches=a1,a2 LinkSpeed=2GB/s\n"
		   "SwitchName=s3 Switches=b1,b2 LinkSpeed=1GB/s\nSwitchName=s4 Switches=b1,b2\n"
		   "SwitchName=a1 Nodes=n1\nSwitchName=a2 Nodes=n2\nSwitchName=b1 Nodes=n3\nSwitchName=b2 Nodes=n4\n",
		   HEAD
		   "switch x1..x2\nswitch s1..s2 parent=x1..x2 rate=24Gbit/s\nswitch s3..s4 parent=x1..x2\n"
		   "switch a1 parent=s1..s2\nswitch a2 parent=s1..s2\nswitch b1 parent=s3..s4\n"
		   "switch b2 parent=s3..s4\nhost n1 leaf=a1\nhost n2 leaf=a2\nhost n3 leaf=b1\nhost n4 leaf=b2\n");
	/* A core that lists the leaves beside the spines between: the spines are above the leaves. */
	check_same("SwitchName=core Switches=s,t,a,b,far\nSwitchName=s Switches=a,b\nSwitchName=t Switches=a,b\n"
		   "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=far Nodes=n3\n",
		   HEAD "switch core\nswitch far parent=core\nswitch s..t parent=core\nswitch a parent=s..t\n"
			"switch b parent=s..t\nhost n3 leaf=far\nhost n1 leaf=a\nhost n2 leaf=b\n");
	check_same("---\n- topology: opa\n  cluster_default: true\n  tree:\n    switches:\n"
		   "      - switch: core1\n        children: e[1-2]\n      - switch: core10\n        children: e[1-2]\n"
		   "      - switch: e1\n        nodes: n[1-2]\n      - switch: e2\n        nodes: n[3-4]\n",
		   means);
}

/* Slurm calls them multi-homed: each host on the switches of all rails. Named again, the groups are the same. */
static void leaves_with_the_same_hosts_are_one(void **state)
{
	static const char text[] =
		"SwitchName=r1 Nodes=n[1-2]\nSwitchName=r2 Nodes=n2,n1\nSwitchName=q1 Nodes=n[3-4]\n"
		"SwitchName=q2 Nodes=n[3-4]\nSwitchName=s1 Switches=r1,q1\nSwitchName=s2 Switches=r2,q2\n";
	static const char means[] = HEAD
		"switch s1..s2\nswitch q1..q2 parent=s1..s2\nswitch r1..r2 parent=s1..s2\nhost n[3-4] leaf=q1..q2\n"
		"host n[1-2] leaf=r1..r2\n";
	struct cluster *cluster = read_good(text);
	char *slurm = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&slurm, &bytes);

	(void)state;
	check_same(text, means);
	assert_non_null(out);
	assert_int_equal(cluster_write_slurm(cluster, out), 0);
	fclose(out);
	check_same(slurm, means);
	free(slurm);
	cluster_free(cluster);
	check_bad("SwitchName=r1 Nodes=n[1-3]\nSwitchName=r2 Nodes=n[1-2]\n", 2, 21,
		  "the host n1 stands in a leaf already");
}

/* 64 core switches above 256: more namings than switches. A name that would be too long is the first's alone. */
static void large_fabrics_are_read(void **state)
{
	char text[1024], *large = NULL, a[130], b[130];
	struct cluster *cluster;
	size_t bytes = 0;
	FILE *out;

	(void)state;
	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	a[129] = b[129] = '\0';
	snprintf(text, sizeof(text), "SwitchName=%s Switches=e\nSwitchName=%s Switches=e\nSwitchName=e Nodes=n\n", a,
		 b);
	cluster = read_good(text);
	assert_string_equal(cluster->switches[0].name, a);
	cluster_free(cluster);
	out = open_memstream(&large, &bytes);
	assert_non_null(out);
	for (int i = 0; i < 64; i++)
		fprintf(out, "SwitchName=core%d Switches=e[1-256]\n", i);
	for (int i = 1; i <= 256; i++)
		fprintf(out, "SwitchName=e%d Nodes=n%d\n", i, i);
	fclose(out);
	cluster = read_good(large);
	assert_int_equal(cluster->switch_count, 257);
	assert_string_equal(cluster->switches[0].name, "core0..core63");
	assert_int_equal(cluster->switches[256].parent, 0);
	cluster_free(cluster);
	free(large);
}

static const char yaml_means[] = HEAD
	"switch top\nswitch e1 parent=top\nswitch e2 parent=top\nhost m[01-02] leaf=e1\nhost m[03-04] leaf=e2\n";

/* The tree that is the cluster's default, or else the first tree, in all the ways in which a line can be written. */
static void slurms_yaml_is_read(void **state)
{
	static const char blocks[] = "- topology: racks\n  cluster_default: true\n  block:\n    block_sizes:\n    - 2\n"
				     "    - 4\n    blocks:\n    - block: b1\n      nodes: m[01-04]\n";
	static const char other[] =
		"- topology: old\n  tree:\n    switches:\n      - switch: z\n        nodes: z[1-3]\n";
	static const char tree[] =
		"- topology: new\n  cluster_default: yes # this one\n  tree:\n"
		"    switches:\n      - switch: top\n        children: e[1-2]\n"
		"      - switch: e1\n        nodes: m[01-02]\n      - switch: e2\n        nodes: m[03-04]\n";
	char text[1024];

	(void)state;
	check_same(tree, yaml_means);
	snprintf(text, sizeof(text), "%%YAML 1.2\n# ours\n--- # begins\n\n%s%s%s", other, tree, blocks);
	check_same(text, yaml_means);
	snprintf(text, sizeof(text), "---\n%s%s", blocks, tree);
	check_same(text, yaml_means);
	/* The default is no tree: the first tree. */
	check_same(
		"- topology: flat\n  cluster_default: true\n  flat: true\n- topology: t\n  tree:\n    switches:\n"
		"    - nodes: 'm[01-02]'\n      switch: \"e1\"\n    -\n      switch: e2\r\n      nodes:   m[03-04]\r\n"
		"      speed: [1, 2]\n"
		"    - switch: top\n      children: e[1-2]\n- topology: u\n  tree:\n    switches:\n    - switch: x\n",
		yaml_means);
}

static void what_is_wrong_in_yaml_is_named_with_its_place(void **state)
{
	static const struct {
		const char *text;
		int line, column;
		const char *part;
	} cases[] = {
		{ "---\n", 2, 1, "no topology in it is a tree" },
		{ "---\n- topology: b\n  flat: true\n", 2, 1, "docs/format/cluster-file.md" },
		{ "---\ntopology: b\n", 2, 1, "expected - topology" },
		{ "- topology: a\n  tree:\n- topology: b\n", 3, 1, "switches: below tree:" },
		{ "- topology: a\n  tree:\n    switches: s1\n", 4, 1, "expected a list of switches" },
		{ "- topology: a\n  tree:\n    switches:\n      - nodes: n1\n", 4, 7, "must have switch: NAME" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch:\n", 4, 16, "the name of a switch" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: s\n        switch: t\n", 5, 9, "dash" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: s\n       nodes: t\n", 5, 8, "not below" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: s\n     - switch: t\n", 5, 6,
		  "dashes of a list" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: s\n        nodes: n[1-2\n", 5, 17,
		  "closing bracket" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: s\n        nodes:\n          - n1\n", 6, 11,
		  "nodes: LIST" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: s\n        nodes: [n1, n2]\n", 5, 16,
		  "scontrol show topology" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: s\n        nodes: \"n1\n", 5, 16,
		  "closing quote" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: s\n        children: t\n", 5, 19,
		  "nowhere defined" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: s\n        nodes: n1 n2\n", 5, 16,
		  "name of a host" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: &a s\n", 4, 17, "is not read here" },
		{ "- topology: a\n  tree: {switches: []}\n", 2, 9, "is not read here" },
		{ "- topology: a\n\ttree:\n", 2, 1, "a tab" },
		{ "- topology: a\n  cluster_default: maybe\n", 2, 20, "true or false" },
		{ "- topology: a\n  tree:\n    switches:\n      - switch: s\n        nodes: ALL\n", 5, 16,
		  "every node of slurm.conf" },
		{ "- topology: a\n  flat: true\n---\n- topology: b\n", 3, 1, "more than one document" },
		{ "- topology: a\n  what is this\n", 2, 3, "a key of this topology" },
		{ "- just a list\n", 1, 3, "a key of this topology" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_bad(cases[i].text, cases[i].line, cases[i].column, cases[i].part);
}

/* Slurm's file and ours that say the same have one fingerprint. */
static void both_forms_mean_the_same(void **state)
{
	struct cluster *theirs = read_good("SwitchName=b Nodes=n[3-4]\nSwitchName=top Switches=a,b\n"
					   "SwitchName=a Nodes=n[1-2]\n");
	struct cluster *ours = read_good(HEAD "switch top\nswitch a parent=top\nswitch b parent=top\n"
					      "host n1,n2 leaf=a\nhost n4 leaf=b\nhost n3 leaf=b\n");
	struct cluster *others = read_good(HEAD "switch top\nswitch a parent=top\nswitch b parent=top\n"
						"host n1,n3 leaf=a\nhost n4 leaf=b\nhost n2 leaf=b\n");

	(void)state;
	assert_int_equal(theirs->fingerprint, ours->fingerprint);
	assert_int_not_equal(theirs->fingerprint, others->fingerprint);
	cluster_free(theirs);
	cluster_free(ours);
	cluster_free(others);
}

/* A switch with hosts and switches is two in Slurm; one with nothing below it, or with aggregators alone, is none. */
static void slurm_has_either_hosts_or_switches(void **state)
{
	static const char text[] = "tributary-cluster 1\nswitch top\nswitch a parent=top rate=1GB/s\n"
				   "switch empty parent=top\nswitch agg parent=top\nhost x[1-3],y leaf=top\n"
				   "host z[08-10],z12 leaf=a rate=1GB/s\naggregator g:1 leaf=agg\n";
	struct cluster *cluster = read_good(text), *again;
	size_t bytes = 0;
	char *slurm = NULL;
	FILE *out = open_memstream(&slurm, &bytes);

	(void)state;
	assert_non_null(out);
	assert_int_equal(cluster_write_slurm(cluster, out), 0);
	fclose(out);
	assert_string_equal(slurm, "SwitchName=top Switches=a,top-hosts\nSwitchName=top-hosts Nodes=x[1-3],y\n"
				   "SwitchName=a Nodes=z[08-10,12]\n");
	again = read_good(slurm);
	assert_int_equal(again->host_count, cluster->host_count);
	assert_int_equal(again->switch_count, 3);
	cluster_free(again);
	cluster_free(cluster);
	free(slurm);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(slurm_has_either_hosts_or_switches),
		cmocka_unit_test(slurm_trees_are_read),
		cmocka_unit_test(what_scontrol_prints_is_read),
		cmocka_unit_test(slurms_yaml_is_read),
		cmocka_unit_test(what_is_wrong_in_yaml_is_named_with_its_place),
		cmocka_unit_test(switches_above_the_same_ones_are_one),
		cmocka_unit_test(leaves_with_the_same_hosts_are_one),
		cmocka_unit_test(large_fabrics_are_read),
		cmocka_unit_test(both_forms_mean_the_same),
	};

	return cmocka_run_group_tests_name("cluster_slurm", tests, NULL, NULL);
}
