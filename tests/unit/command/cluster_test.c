/* SPDX-License-Identifier: Apache-2.0 */
/* The built program: `tributary cluster show`, on the clusters of topo/. */
#include "command/command.h"

#include "program.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 16 };

static int show(const char *name, const char *options, const char *what, char *text)
{
	char call[1024];

	snprintf(call, sizeof(call), "cluster show '%s/topo/clusters/%s' %s", program_source(), name, options);
	return program_run(call, what, text, TEXT_BYTES);
}

static json_t *show_json(const char *name)
{
	char text[TEXT_BYTES];
	json_t *value;

	assert_int_equal(show(name, "--json", PROGRAM_STDOUT, text), COMMAND_OK);
	value = json_loads(text, 0, NULL);
	assert_non_null(value);
	return value;
}

static const json_t *named(const json_t *of, const char *list, const char *key, const char *name)
{
	const json_t *array = json_object_get(of, list), *entry;
	size_t i;

	json_array_foreach(array, i, entry)
	{
		if (!strcmp(json_string_value(json_object_get(entry, key)), name))
			return entry;
	}
	fail_msg("no %s %s", list, name);
	return NULL;
}

static void check_near(double is, double expected)
{
	if (is < expected - 1e-4 || is > expected + 1e-4)
		fail_msg("%g, expected %g", is, expected);
}

static void two_leaves_share_the_roots(void **state)
{
	json_t *value = show_json("two-leaves.cluster");

	(void)state;
	assert_int_equal(json_array_size(json_object_get(value, "hosts")), 8);
	check_near(program_number(named(value, "switches", "name", "leaf1"), "root_share"), 0.5);
	check_near(program_number(named(value, "hosts", "name", "node7"), "share"), 0.25);
	check_near(program_number(json_object_get(value, "loads"), "host"), 1.75);
	check_near(program_number(json_object_get(value, "loads"), "uplink"), 1);
	assert_true(json_is_null(json_object_get(named(value, "switches", "name", "spine"), "parent")));
	json_decref(value);
}

static void aggregators_have_shares(void **state)
{
	json_t *value = show_json("with-aggregators.cluster");
	const json_t *aggregator = named(value, "aggregators", "address", "agg1.example.org");

	(void)state;
	assert_int_equal(json_integer_value(json_object_get(aggregator, "rate_Bps")), 12500000000);
	assert_int_equal(json_integer_value(json_object_get(aggregator, "port")), 7471);
	assert_true(program_number(aggregator, "share") > 0.5);
	assert_string_equal(
		json_string_value(json_object_get(named(value, "aggregators", "address", "2001:db8::7"), "leaf")),
		"spine");
	assert_true(json_is_null(json_object_get(named(value, "switches", "name", "leaf3"), "up_rate_Bps")));
	json_decref(value);
}

static void slurm_is_understood(void **state)
{
	json_t *value = show_json("slurm-topology.conf");

	(void)state;
	assert_int_equal(json_array_size(json_object_get(value, "hosts")), 54);
	assert_string_equal(json_string_value(json_object_get(named(value, "hosts", "name", "node017"), "leaf")),
			    "leaf2");
	assert_string_equal(json_string_value(json_object_get(named(value, "hosts", "name", "rack4_gpu8"), "leaf")),
			    "leaf3");
	assert_string_equal(json_string_value(json_object_get(named(value, "switches", "name", "leaf4"), "parent")),
			    "pod2");
	json_decref(value);
}

/* What --text prints is the same cluster again. */
static void canonical_text_means_the_same(void **state)
{
	static const char *const names[] = { "two-leaves.cluster", "with-aggregators.cluster", "slurm-topology.conf",
					     "lldp.json", "ibnetdiscover.txt" };
	char text[TEXT_BYTES], again[TEXT_BYTES], path[512], call[600];

	(void)state;
	snprintf(path, sizeof(path), "%s/again.cluster", program_folder());
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(show(names[i], "--text", PROGRAM_STDOUT, text), COMMAND_OK);
		tree_put(path, text);
		snprintf(call, sizeof(call), "cluster show '%s' --text", path);
		assert_int_equal(program_run(call, PROGRAM_STDOUT, again, sizeof(again)), COMMAND_OK);
		assert_string_equal(text, again);
	}
	unlink(path);
}

/* Declared by LLDP and by InfiniBand: hosts with two rails and a management switch; spines of which one cable is slow. */
static void what_switches_say_is_understood(void **state)
{
	json_t *value = show_json("lldp.json");

	(void)state;
	assert_int_equal(json_array_size(json_object_get(value, "hosts")), 8);
	assert_int_equal(json_array_size(json_object_get(value, "switches")), 3);
	assert_string_equal(json_string_value(json_object_get(named(value, "hosts", "name", "node5"), "leaf")),
			    "leaf3..leaf4");
	check_near(program_number(named(value, "switches", "name", "leaf1..leaf2"), "up_rate_Bps"), 50e9);
	json_decref(value);
	value = show_json("ibnetdiscover.txt");
	assert_int_equal(json_array_size(json_object_get(value, "hosts")), 6);
	check_near(program_number(named(value, "switches", "name", "leaf2"), "up_rate_Bps"), 37.5e9);
	check_near(program_number(named(value, "hosts", "name", "node5"), "rate_Bps"), 12.5e9);
	json_decref(value);
}

/* As Slurm's it has the same switches and hosts, and no rates. */
static void slurm_is_written_from_any_form(void **state)
{
	char text[TEXT_BYTES], path[512], call[600];

	(void)state;
	assert_int_equal(show("ibnetdiscover.txt", "--slurm", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "SwitchName=spine1..spine2 Switches=leaf1,leaf2\nSwitchName=leaf1 Nodes=node[1-3]\n"
				  "SwitchName=leaf2 Nodes=node4,node5,node6\n");
	assert_int_equal(show("with-aggregators.cluster", "--slurm", PROGRAM_STDOUT, text), COMMAND_OK);
	snprintf(path, sizeof(path), "%s/topology.conf", program_folder());
	tree_put(path, text);
	snprintf(call, sizeof(call), "cluster show '%s'", path);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, ": 12 hosts on 3 leaves, 0 aggregators"));
	unlink(path);
}

/* By glob, in each subcommand that reads a cluster; and not from a file whose lines can be taken out. */
static void what_is_excluded_is_left_out(void **state)
{
	static const char *const calls[] = { "cluster order", "simulate --algo ring --cluster", "place --cluster",
					     "export --graph-json --cluster" };
	char text[TEXT_BYTES], path[512], call[700];

	(void)state;
	assert_int_equal(show("ibnetdiscover.txt", "--exclude 'node[12],spine2' --slurm", PROGRAM_STDOUT, text),
			 COMMAND_OK);
	assert_string_equal(text, "SwitchName=spine1 Switches=leaf1,leaf2\nSwitchName=leaf1 Nodes=node3\n"
				  "SwitchName=leaf2 Nodes=node4,node5,node6\n");
	assert_int_equal(show("ibnetdiscover.txt", "--exclude 'node9*'", PROGRAM_STDERR, text), COMMAND_OK);
	assert_string_equal(text, "tributary: --exclude node9*: no host or switch in the file has such a name\n");
	assert_int_equal(show("two-leaves.cluster", "--exclude node1", PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "take out the lines"));
	snprintf(path, sizeof(path), "%s/topo/clusters/ibnetdiscover.txt", program_source());
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		snprintf(call, sizeof(call), "%s '%s' --exclude 'node[12]' --rate 4:1,100Gbit/s%s", calls[i], path,
			 i == 2 ? " host:1" : "");
		assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
		if (strstr(text, "node1") || strstr(text, "node2"))
			fail_msg("%s: %s", call, text);
	}
	assert_int_equal(program_run("simulate --fabric leaf-spine:2x2,1:1,10Gbit/s --exclude x", PROGRAM_STDERR, text,
				     sizeof(text)),
			 COMMAND_USAGE);
	assert_non_null(strstr(text, "--exclude is for --cluster FILE"));
	assert_int_equal(program_run("cluster order --fabric leaf-spine:2x2,1:1,10Gbit/s --exclude x", PROGRAM_STDERR,
				     text, sizeof(text)),
			 COMMAND_USAGE);
	assert_non_null(strstr(text, "--exclude is for FILE"));
}

static void text_says_it_in_a_tree(void **state)
{
	char text[TEXT_BYTES], path[512], call[600];

	(void)state;
	/* The uplinks of many rails together. */
	snprintf(path, sizeof(path), "%s/wide.cluster", program_folder());
	tree_put(path, "tributary-cluster 1\nswitch s\nswitch a parent=s rate=14400Gbit/s\nhost n leaf=a "
		       "rate=9999Mbit/s\n");
	snprintf(call, sizeof(call), "cluster show '%s'", path);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "  a: uplink 14400 Gbit/s; 1 host of 9.999 Gbit/s;"));
	unlink(path);
	assert_int_equal(show("two-leaves.cluster", "", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, ": 8 hosts on 2 leaves, 0 aggregators; fingerprint "));
	assert_non_null(strstr(text, "\nspine\n  leaf1: uplink 100 Gbit/s; 4 hosts of 100 Gbit/s; roots 50.0 %\n"));
	assert_non_null(strstr(text, "at most 1.750 on a NIC, 1.000 on an uplink."));
	assert_int_equal(show("with-aggregators.cluster", "", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "aggregator [2001:db8::7]:7471, 100 Gbit/s"));
}

static void a_wrong_file_is_refused_with_its_place(void **state)
{
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(program_run("cluster show /nonexistent/cluster", PROGRAM_STDERR, text, sizeof(text)),
			 COMMAND_FAILED);
	assert_non_null(
		strstr(text, "tributary: \"/nonexistent/cluster\" cannot be read: No such file or directory\n"));
	assert_int_equal(show("../README.md", "", PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "README.md:3:1: expected tributary-cluster 1, or Slurm's topology.conf"));
	assert_non_null(strstr(text, "; what `lldpctl -f json` and `ibnetdiscover` print is read, too\n"));
	assert_int_equal(program_run("cluster show /dev/null", PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "tributary: /dev/null:1:1: the file is empty: expected tributary-cluster 1"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_leaves_share_the_roots),
		cmocka_unit_test(aggregators_have_shares),
		cmocka_unit_test(slurm_is_understood),
		cmocka_unit_test(canonical_text_means_the_same),
		cmocka_unit_test(what_switches_say_is_understood),
		cmocka_unit_test(slurm_is_written_from_any_form),
		cmocka_unit_test(what_is_excluded_is_left_out),
		cmocka_unit_test(text_says_it_in_a_tree),
		cmocka_unit_test(a_wrong_file_is_refused_with_its_place),
	};

	return cmocka_run_group_tests_name("cluster", tests, program_find, NULL);
}
