/* SPDX-License-Identifier: Apache-2.0 */
/* The built program: `tributary simulate`. */
#include "command/command.h"

#include "program.h"
#include "support/runtime.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 20 };

static char text[TEXT_BYTES];

static void simulate(const char *arguments, const char *what, int expected)
{
	char call[1200];

	snprintf(call, sizeof(call), "simulate %s", arguments);
	assert_int_equal(program_run(call, what, text, sizeof(text)), expected);
}

static json_t *simulate_json(const char *arguments)
{
	char call[1100];
	json_t *value;

	snprintf(call, sizeof(call), "%s --json", arguments);
	simulate(call, PROGRAM_STDOUT, COMMAND_OK);
	value = json_loads(text, 0, NULL);
	assert_non_null(value);
	return value;
}

static double time_of(const json_t *value, size_t number)
{
	const json_t *one = json_array_get(json_object_get(value, "cases"), number);

	assert_non_null(one);
	return json_number_value(json_object_get(one, "time_s"));
}

/* 8 hosts of 100 Gbit/s in two leaves, each of which has 100 Gbit/s up: see docs/design/aggregation.md for the shares. */
static void a_cluster_file_is_simulated(void **state)
{
	char call[800];
	json_t *value;

	(void)state;
	snprintf(call, sizeof(call),
		 "--cluster '%s/topo/clusters/two-leaves.cluster' --size 800M --latency 0 --order leaf --algo "
		 "ring,hierarchical --detail pipelined",
		 program_source());
	value = simulate_json(call);
	assert_int_equal(json_array_size(json_object_get(value, "cases")), 2);
	assert_int_equal(json_integer_value(json_object_get(value, "hosts")), 8);
	program_check_near(time_of(value, 0), 1.75 * 800 * 1048576 / 12.5e9, 1e-5);
	/* What is in flight leaves links idle. */
	assert_true(time_of(value, 1) > 1.75 * 800 * 1048576 / 12.5e9);
	assert_true(time_of(value, 1) < 2.5 * 800 * 1048576 / 12.5e9);
	json_decref(value);
}

static void orders_are_cases_and_a_file_is_an_order(void **state)
{
	char path[512], call[800];
	json_t *value;

	(void)state;
	snprintf(path, sizeof(path), "%s/order", program_folder());
	tree_put(path, "# interleaved\nhost1\nhost5\n  host2 # its neighbour\nhost6\nhost3\nhost7\nhost4\nhost8\n");
	snprintf(call, sizeof(call),
		 "--fabric leaf-spine:2x4,4:1,8Gbit/s --algo ring --latency 0 --size 1G --order rank,leaf,random:7,%s",
		 path);
	value = simulate_json(call);
	program_check_near(time_of(value, 0), 1.75 * 1.073741824, 1e-5);
	program_check_near(time_of(value, 1), 1.75 * 1.073741824, 1e-5);
	assert_true(time_of(value, 2) > time_of(value, 1) * 1.5);
	program_check_near(time_of(value, 3), 4 * 1.75 * 1.073741824, 1e-5);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(json_object_get(value, "cases"), 3), "order")),
		"order");
	json_decref(value);
	unlink(path);
}

/* What every host is bounds what it brings: the machine's channels need each link as often as the planner says. */
static void a_machine_bounds_its_host(void **state)
{
	char call[800];
	json_t *with, *without;

	(void)state;
	snprintf(call, sizeof(call),
		 "--fabric leaf-spine:2x4,400Gbit/s --gpus 8 --algo ring --from "
		 "'%s/topo/two-level-8gpu/machine.topology'",
		 program_source());
	with = simulate_json(call);
	without = simulate_json("--fabric leaf-spine:2x4,400Gbit/s --gpus 8 --algo ring");
	assert_true(time_of(with, 0) > time_of(without, 0) * 2);
	json_decref(with);
	json_decref(without);
	snprintf(call, sizeof(call),
		 "--fabric leaf-spine:2x4,400Gbit/s --gpus 9 --from '%s/topo/two-level-8gpu/machine.topology'",
		 program_source());
	simulate(call, PROGRAM_STDERR, COMMAND_USAGE);
	assert_non_null(strstr(text, "the machine has 8"));
}

/* Bytes that the first case puts on a link, over those that each of a ring's 64 ranks sends for an AllReduce. */
static double crossings_of(const json_t *value, const char *link, double bytes)
{
	json_t *one = json_array_get(json_object_get(value, "cases"), 0), *at;
	size_t i;

	json_array_foreach(json_object_get(one, "links"), i,
			   at) if (!strcmp(json_string_value(json_object_get(at, "name")),
					   link)) return json_number_value(json_object_get(at, "bytes")) /
		(bytes * 2 * 63 / 64);
	fail_msg("there is no link \"%s\"", link);
	return 0;
}

static void write_ring(const char *path, const unsigned order[static 8], bool nets)
{
	const char *net = nets ? "<net dev=\"0\"/>\n" : "";
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fprintf(file,
		"<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" "
		"speedintra=\"2\" speedinter=\"2\" latencyinter=\"0\" typeintra=\"SYS\" typeinter=\"SYS\" "
		"samechannels=\"1\">\n<channel>\n%s",
		net);
	for (size_t i = 0; i < 8; i++)
		fprintf(file, "<gpu dev=\"%u\"/>\n", order[i]);
	fprintf(file, "%s</channel>\n</graph>\n</graphs>\n", net);
	assert_int_equal(fclose(file), 0);
}

#define MACHINE "--gpus 8 --from '%s/topo/two-level-8gpu/machine.topology'"

/* What `plan` writes for NCCL is what the plugin plans: nothing changes. */
static void a_graph_file_of_the_planned_channels_changes_nothing(void **state)
{
	char call[1024];
	json_t *with, *without;

	(void)state;
	snprintf(call, sizeof(call),
		 "plan --from '%s/topo/two-level-8gpu/machine.topology' --hosts 8 --nccl-graph --output '%s/graph'",
		 program_source(), program_folder());
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	snprintf(call, sizeof(call), "--fabric leaf-spine:2x4,400Gbit/s " MACHINE, program_source());
	without = simulate_json(call);
	snprintf(call, sizeof(call), "--fabric leaf-spine:2x4,400Gbit/s " MACHINE " --graph '%s/graph'",
		 program_source(), program_folder());
	with = simulate_json(call);
	for (size_t i = 0; i < 3; i++)
		program_check_near(time_of(with, i), time_of(without, i), 1e-4);
	json_decref(with);
	json_decref(without);
}

/*
 * GPUs 0 to 3 are on one socket with the NIC, 4 to 7 on the other: 0 4 1 5 2 6 7 3 leaves the first socket three times and
 * comes back three times.
 */
static void given_channels_cross_what_they_cross(void **state)
{
	static const unsigned order[8] = { 0, 4, 1, 5, 2, 6, 7, 3 };
	char call[1024];
	json_t *value;

	(void)state;
	snprintf(call, sizeof(call), "%s/ring", program_folder());
	write_ring(call, order, true);
	snprintf(call, sizeof(call),
		 "--fabric leaf-spine:2x4,400Gbit/s " MACHINE " --algo ring --size 1G --graph '%s/ring'",
		 program_source(), program_folder());
	value = simulate_json(call);
	program_check_near(crossings_of(value, "host1 cpu0>cpu1", 1073741824), 3, 1e-4);
	program_check_near(crossings_of(value, "host1 cpu1>cpu0", 1073741824), 3, 1e-4);
	program_check_near(crossings_of(value, "host1 gpu0>switch:0000:24:00.0", 1073741824), 1, 1e-4);
	program_check_near(crossings_of(value, "host1 out", 1073741824), 1, 1e-4);
	json_decref(value);
	/* Channels are all that --graph changes: who stands next to whom among hosts is --order's. */
	snprintf(call, sizeof(call),
		 "--fabric leaf-spine:2x4,64:1,400Gbit/s " MACHINE
		 " --algo ring --order leaf,random:7 --graph '%s/ring'",
		 program_source(), program_folder());
	value = simulate_json(call);
	assert_true(time_of(value, 1) > 1.5 * time_of(value, 0));
	json_decref(value);
}

static void a_graph_file_that_does_not_fit_is_refused(void **state)
{
	static const unsigned order[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, other[8] = { 0, 1, 2, 3, 4, 5, 6, 9 };
	static const struct {
		const char *fabric, *graph, *words;
	} cases[] = {
		{ "2x4", "none", "cannot be read" },
		{ "2x4", "other", "names GPU 9" },
		{ "2x4", "one-host", "is of one host" },
		{ "1x1", "ring", "is of several hosts" },
	};
	char call[1024];

	(void)state;
	snprintf(call, sizeof(call), "%s/ring", program_folder());
	write_ring(call, order, true);
	snprintf(call, sizeof(call), "%s/one-host", program_folder());
	write_ring(call, order, false);
	snprintf(call, sizeof(call), "%s/other", program_folder());
	write_ring(call, other, true);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(call, sizeof(call), "--fabric leaf-spine:%s,1Gbit/s " MACHINE " --graph '%s/%s'",
			 cases[i].fabric, program_source(), program_folder(), cases[i].graph);
		simulate(call, PROGRAM_STDERR, COMMAND_FAILED);
		if (!strstr(text, cases[i].words) || strchr(text, '\n') != strrchr(text, '\n'))
			fail_msg("%s: \"%s\", expected one line with \"%s\"", call, text, cases[i].words);
	}
	/* What the file does not have bounds nothing, which is said. */
	snprintf(call, sizeof(call), "--fabric leaf-spine:2x4,1Gbit/s " MACHINE " --algo tree --graph '%s/ring'",
		 program_source(), program_folder());
	simulate(call, PROGRAM_STDERR, COMMAND_OK);
	assert_non_null(strstr(text, "has no trees and no chains"));
}

/* The engine's schedule ends at 256 hosts: beyond it there is no time, but one that it cannot be below. */
static void of_more_hosts_aggregation_is_called_a_lower_bound(void **state)
{
	static const char rest[] = "4:1,100Gbit/s --aggregators 1,6400Gbit/s --size 64M --algo "
				   "ring,hierarchical,aggregators --detail pipelined";
	static const char *const sizes[] = { "8x32", "8x33" };
	static const char *const forms[2][3] = { { "pipelined", "pipelined", "pipelined" },
						 { "pipelined", "lower-bound", "lower-bound" } };
	char arguments[400];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		json_t *value;

		snprintf(arguments, sizeof(arguments), "--fabric leaf-spine:%s,%s", sizes[i], rest);
		value = simulate_json(arguments);
		for (size_t j = 0; j < 3; j++)
			assert_string_equal(json_string_value(json_object_get(
						    json_array_get(json_object_get(value, "cases"), j), "form")),
					    forms[i][j]);
		json_decref(value);
		simulate(arguments, PROGRAM_STDOUT, COMMAND_OK);
		assert_int_equal(strstr(text, "lower bound\n") != NULL, i);
		snprintf(arguments + strlen(arguments), sizeof(arguments) - strlen(arguments), " --html -");
		simulate(arguments, PROGRAM_STDOUT, COMMAND_OK);
		assert_int_equal(strstr(text, "\"form\":\"lower-bound\"") != NULL, i);
	}
}

static void text_names_times_bytes_and_links(void **state)
{
	(void)state;
	simulate("--fabric leaf-spine:2x4,4:1,8Gbit/s --aggregators 1,100Gbit/s --algo "
		 "ring,tree,hierarchical,aggregators "
		 "--order leaf,random:1",
		 PROGRAM_STDOUT, COMMAND_OK);
	assert_non_null(strstr(text, "8 hosts, 1 GPU each, 2 aggregators\n"));
	assert_non_null(strstr(text, "ring, order leaf "));
	assert_non_null(strstr(text, "tree, order random:1 "));
	assert_non_null(strstr(text, "\nhierarchical  "));
	assert_non_null(strstr(text, "Fullest links"));
	assert_non_null(strstr(text, "GB/s"));
}

static void patterns_and_jobs_are_cases(void **state)
{
	json_t *value = simulate_json("--fabric leaf-spine:2x4,4:1,8Gbit/s --collective incast --latency 0 --size 1G");

	(void)state;
	program_check_near(time_of(value, 0), 7 * 1.073741824, 1e-5);
	json_decref(value);
	value = simulate_json("--fabric leaf-spine:2x4,4:1,8Gbit/s --algo ring --jobs 2 --latency 0 --size 1G");
	assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(value, "cases"), 0), "jobs")),
			 2);
	program_check_near(time_of(value, 0), 1.5 * 1.073741824, 1e-5);
	json_decref(value);
}

/* It has nobody to send to, by whatever algorithm; what took no time has no rate. */
static void a_host_by_itself_takes_no_time(void **state)
{
	json_t *value, *one;
	const json_t *cases;
	size_t i;

	(void)state;
	simulate("--fabric leaf-spine:1x1,1GB/s --aggregators 1,1GB/s --algo ring,tree,hierarchical,aggregators --json",
		 PROGRAM_STDOUT, COMMAND_OK);
	value = json_loads(text, 0, NULL);
	cases = json_object_get(value, "cases");
	assert_int_equal(json_array_size(cases), 4);
	json_array_foreach(cases, i, one)
	{
		assert_true(json_number_value(json_object_get(one, "time_s")) <= 0);
		assert_true(json_is_null(json_object_get(one, "busbw_Bps")));
	}
	json_decref(value);
	simulate("--fabric leaf-spine:1x1,1GB/s", PROGRAM_STDOUT, COMMAND_OK);
	assert_null(strstr(text, "nan"));
	assert_null(strstr(text, "inf"));
}

/* The fastest is named, and what loses is said to. */
static void what_loses_is_said(void **state)
{
	char call[800];

	(void)state;
	snprintf(call, sizeof(call), "--cluster '%s/topo/clusters/two-leaves.cluster'", program_source());
	simulate(call, PROGRAM_STDOUT, COMMAND_OK);
	assert_int_equal(
		strncmp(text, "Aggregation gains nothing: hierarchical takes 1.35 times as long as ring, ", 74), 0);
	assert_non_null(strstr(text, "over best  "));
	assert_non_null(strstr(text, "  1.14  ")); /* the tree */
	strcat(call, " --algo ring");
	simulate(call, PROGRAM_STDOUT, COMMAND_OK);
	assert_null(strstr(text, "over best"));
	simulate("--fabric leaf-spine:1x1,8Gbit/s", PROGRAM_STDOUT, COMMAND_OK);
	assert_null(strstr(text, "over best"));
}

/* Every neighbour is on another leaf: --order's file. */
static void write_interleaved(unsigned leaves, unsigned hosts, char *path, size_t path_bytes)
{
	FILE *file;

	snprintf(path, path_bytes, "%s/interleaved", program_folder());
	file = fopen(path, "we");
	assert_non_null(file);
	for (unsigned host = 0; host < hosts; host++)
		for (unsigned leaf = 0; leaf < leaves; leaf++)
			fprintf(file, "host%u\n", leaf * hosts + host + 1);
	assert_int_equal(fclose(file), 0);
}

/* "| 2x4, 8:1 | 301 | 860 | 687 | 288 | 180 | 1.04, 2.98, 2.38: gains |": milliseconds; NCCL's are the better of ring and tree. */
static void check_row(const char *row, unsigned *checked)
{
	unsigned leaves, hosts, ratio, says_ms[5];
	double says_gain[3];
	char call[512], order[256];
	json_t *value;

	if (sscanf(row, "| %ux%u, %u:1 | %u | %u | %u | %u | %u | %lf, %lf, %lf:", &leaves, &hosts, &ratio, &says_ms[0],
		   &says_ms[1], &says_ms[2], &says_ms[3], &says_ms[4], &says_gain[0], &says_gain[1],
		   &says_gain[2]) != 11)
		return;
	if (leaves > 2 && !runtime_long())
		return;
	write_interleaved(leaves, hosts, order, sizeof(order));
	snprintf(call, sizeof(call),
		 "--fabric leaf-spine:%ux%u,%u:1,100Gbit/s --aggregators 1,%uGbit/s --algo "
		 "ring,tree,hierarchical,aggregators --order leaf,random:2,'%s'",
		 leaves, hosts, ratio, 100 * hosts, order);
	value = simulate_json(call);
	/* Three orders of the ring, then of the tree; aggregation has no order. */
	for (size_t i = 0; i < 5; i++) {
		double ms = 1e3 * (i < 3 ? fmin(time_of(value, i), time_of(value, i + 3)) : time_of(value, i + 3));

		if (fabs(ms - says_ms[i]) > 1)
			fail_msg("%s: %g ms, not %u", row, ms, says_ms[i]);
		if (i < 3 && fabs(ms / 1e3 / time_of(value, 6) - says_gain[i]) > 0.0051)
			fail_msg("%s: %g times, not %g", row, ms / 1e3 / time_of(value, 6), says_gain[i]);
	}
	json_decref(value);
	(*checked)++;
}

static void the_documented_gains_are_what_it_says(void **state)
{
	char *document = program_source_text("docs/guide/cluster.md"), *rest = document, *row;
	unsigned checked = 0;

	(void)state;
	while ((row = strsep(&rest, "\n")))
		check_row(row, &checked);
	assert_true(checked >= 6);
	free(document);
}

/* Slurm's file has no rate. Of links that bound nothing, messages would take their latency alone. */
static void without_rates_there_are_no_times(void **state)
{
	char call[800];
	json_t *value;

	(void)state;
	snprintf(call, sizeof(call), "--cluster '%s/topo/clusters/slurm-topology.conf'", program_source());
	simulate(call, "2>&1", COMMAND_FAILED);
	assert_non_null(strstr(text, "no rate for 54 of its 54 hosts"));
	assert_non_null(strstr(text, "give --rate RATE"));
	assert_null(strstr(text, "GB/s"));

	/* 53/54 of two times 1 GiB at 1 GB/s; uplinks as wide as anything, which is said. */
	strcat(call, " --rate 8Gbit/s --latency 0 --order leaf --algo ring --detail pipelined");
	value = simulate_json(call);
	program_check_near(time_of(value, 0), 2 * 53 / 54.0 * 1.073741824, 1e-5);
	assert_int_equal(json_integer_value(json_object_get(value, "uplinks_without_rate")), 6);
	json_decref(value);
	simulate(call, PROGRAM_STDERR, COMMAND_OK);
	assert_non_null(strstr(text, "no rate for 6 of its 6 uplinks: one without bounds nothing"));

	/* 32:1 leaves each leaf of 16 hosts half a host's rate, the one of 6 a fifth. */
	snprintf(call, sizeof(call),
		 "--cluster '%s/topo/clusters/slurm-topology.conf' --rate 32:1,8Gbit/s --latency 0 --order leaf --algo "
		 "ring --detail pipelined",
		 program_source());
	value = simulate_json(call);
	program_check_near(time_of(value, 0), 32 / 6.0 * 2 * 53 / 54.0 * 1.073741824, 1e-5);
	assert_int_equal(json_integer_value(json_object_get(value, "uplinks_without_rate")), 0);
	json_decref(value);
	simulate(call, PROGRAM_STDERR, COMMAND_OK);
	assert_string_equal(text, "");
}

/* What the file says counts, and --rate for the rest. */
static void a_rate_is_for_those_without(void **state)
{
	char path[512], call[800];
	json_t *value;

	(void)state;
	snprintf(path, sizeof(path), "%s/partly.cluster", program_folder());
	tree_put(path, "tributary-cluster 1\nswitch spine\nswitch a parent=spine rate=16Gbit/s\n"
		       "switch b parent=spine\nhost a1 leaf=a rate=16Gbit/s\nhost b1 leaf=b\n");
	snprintf(call, sizeof(call), "--cluster '%s' --algo ring --latency 0 --size 1G --detail pipelined", path);
	simulate(call, PROGRAM_STDERR, COMMAND_OK);
	assert_non_null(strstr(text, "no rate for 1 of its 2 hosts: each counts like the others"));
	assert_non_null(strstr(text, "no rate for 1 of its 2 uplinks"));
	value = simulate_json(call);
	program_check_near(time_of(value, 0), 1.073741824 / 2, 1e-5);
	json_decref(value);
	strcat(call, " --rate 8:1,8Gbit/s");
	value = simulate_json(call);
	program_check_near(time_of(value, 0), 8 * 1.073741824, 1e-5);
	json_decref(value);
}

/* No rate inside: nothing would bound the channels. */
static void a_machine_without_rates_is_refused(void **state)
{
	char path[512], call[800];

	(void)state;
	snprintf(path, sizeof(path), "%s/no-rates.topology", program_folder());
	tree_put(path, "tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex bridge bridge:0000:20 bus=0000:20\n"
		       "vertex gpu gpu0 bus=0000:23:00.0 class=0x030200 index=0 sm=86\n"
		       "vertex gpu gpu1 bus=0000:24:00.0 class=0x030200 index=1 sm=86\n"
		       "vertex nic mlx5_0 bus=0000:27:00.0 class=0x020000 interface=e port=1 guid=0x1 "
		       "speed_Bps=25000000000\n"
		       "link internal bridge:0000:20 cpu0\nlink pci gpu0 bridge:0000:20\nlink pci gpu1 bridge:0000:20\n"
		       "link pci mlx5_0 bridge:0000:20\n");
	snprintf(call, sizeof(call), "--fabric leaf-spine:2x2,100Gbit/s --gpus 2 --from '%s'", path);
	simulate(call, "2>&1", COMMAND_FAILED);
	assert_non_null(strstr(text, "no rate of the links inside the machine is known"));
	assert_null(strstr(text, "GB/s"));
	for (size_t i = 0; i < 4; i++) {
		static const char *const calls[] = { "explain", "tune", "explain --hosts 2", "tune --hosts 2" };

		snprintf(call, sizeof(call), "%s --from '%s'", calls[i], path);
		assert_int_equal(program_run(call, "2>&1", text, sizeof(text)), COMMAND_FAILED);
		assert_non_null(strstr(text, "no rate of the links between these devices is known"));
	}
	snprintf(call, sizeof(call), "place host:1 --from '%s'", path);
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "none is ever full"));
}

static void a_wrong_order_is_said_with_its_line(void **state)
{
	char path[512], call[600], words[1024];

	(void)state;
	snprintf(path, sizeof(path), "%s/order", program_folder());
	snprintf(call, sizeof(call), "--fabric leaf-spine:1x2,1GB/s --order '%s'", path);
	tree_put(path, "host1\n\n# nobody\nhost9\n");
	simulate(call, PROGRAM_STDERR, COMMAND_FAILED);
	snprintf(words, sizeof(words), "tributary: %s:4: there is no host host9 in this cluster\n", path);
	assert_string_equal(text, words);
	tree_put(path, "host1\nhost2\nhost1\n");
	simulate(call, PROGRAM_STDERR, COMMAND_FAILED);
	snprintf(words, sizeof(words),
		 "tributary: %s:3: the host host1 is named in two places; a host's ranks have to follow each other\n",
		 path);
	assert_string_equal(text, words);
}

static void the_page_shows_each_case(void **state)
{
	(void)state;
	simulate("--fabric leaf-spine:3x4,4:1,8Gbit/s --size 64M --algo ring,hierarchical --html -", PROGRAM_STDOUT,
		 COMMAND_OK);
	assert_non_null(strstr(text, "\"algorithm\":\"hierarchical\""));
	assert_non_null(strstr(text, "\"timeline\":[{\"link\":\""));
	assert_non_null(strstr(text, "\"phases\":[{\"phase\":\"reduce-scatter\""));
	assert_non_null(strstr(text, "\"phases\":[{\"phase\":\"to the leaf\""));
	assert_non_null(strstr(text, "</html>"));
	simulate("--fabric leaf-spine:2x2,8Gbit/s --aggregators 1,8Gbit/s --algo aggregators --json", PROGRAM_STDOUT,
		 COMMAND_OK);
	assert_non_null(strstr(text, "\"aggregator_nics\": [\n    {\n      \"switch\": \"leaf1\",\n"
				     "      \"out\": \"agg0.leaf1 out\""));
}

static void what_is_wrong_is_said_once(void **state)
{
	static const struct {
		const char *arguments;
		int status;
		const char *words;
	} cases[] = {
		{ "", COMMAND_USAGE, "--cluster FILE or --fabric TEXT" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --graph x", COMMAND_USAGE, "by --from or --profile" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --cluster x", COMMAND_USAGE, "--cluster FILE or --fabric TEXT" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --rate 1Gbit/s", COMMAND_USAGE, "has its rate in --fabric" },
		{ "--cluster @slurm --rate 4,1Gbit/s", COMMAND_USAGE, "as 100Gbit/s or 4:1,100Gbit/s" },
		{ "--cluster @slurm --rate 0:1,1Gbit/s", COMMAND_USAGE, "as 100Gbit/s or 4:1,100Gbit/s" },
		{ "--cluster @slurm --rate 4:1", COMMAND_USAGE, "as 100Gbit/s or 4:1,100Gbit/s" },
		{ "--cluster @slurm --rate 100", COMMAND_USAGE, "a rate with its unit, as 100Gbit/s" },
		{ "--fabric leaf-spine:2x4,100", COMMAND_USAGE, "a rate with its unit, as 100Gbit/s" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --aggregators 1,400", COMMAND_USAGE,
		  "with its unit, as 1,400Gbit/s" },
		{ "--cluster @slurm --rate 1GB/s --degrade leaf1=50%", COMMAND_USAGE, "what it has now is not known" },
		{ "--fabric torus:4", COMMAND_USAGE, "leaf-spine:" },
		{ "--fabric leaf-spine:2x4,4:0,1Gbit/s", COMMAND_USAGE, "a ratio as 4:1" },
		{ "--cluster /nonexistent/cluster", COMMAND_FAILED, "cannot be read: No such file" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --algo ring,star", COMMAND_USAGE, "ring, tree, hierarchical" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --order upwards", COMMAND_FAILED,
		  "an order is rank, leaf, random:SEED or a file" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --order random:x", COMMAND_USAGE, "random: and a number" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --size 0", COMMAND_USAGE, "bytes, as 64M" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --gpus 0", COMMAND_USAGE, "1 to 64" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --latency never", COMMAND_USAGE, "seconds" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --jobs 9", COMMAND_USAGE, "cannot be cut into 9" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --aggregators 1", COMMAND_USAGE, "as 1,400Gbit/s" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --degrade leaf9=50%", COMMAND_USAGE, "a host or a switch" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --degrade leaf1=0%", COMMAND_FAILED,
		  "\"leaf1 up\", a link of rate 0" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --degrade leaf1.down=0%", COMMAND_FAILED, "\"leaf1 down\"" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --degrade leaf1.up=0% --algo tree --size 4G", COMMAND_FAILED,
		  "\"leaf1 up\"" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --degrade leaf1.up=0% --algo hierarchical --size 4G", COMMAND_FAILED,
		  "\"leaf1 up\"" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --algo aggregators", COMMAND_FAILED, "no aggregators" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --algo tree --collective allgather", COMMAND_FAILED,
		  "rings alone: --algo ring" },
		{ "--fabric leaf-spine:64x64,1Gbit/s --collective alltoall", COMMAND_FAILED, "at most 1024 hosts" },
		{ "--fabric leaf-spine:2x4,1Gbit/s --json --html -", COMMAND_USAGE, "only one of" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *at = strstr(cases[i].arguments, "@slurm");
		char call[1024];

		snprintf(call, sizeof(call), "%.*s%s%s%s", at ? (int)(at - cases[i].arguments) : 1000,
			 cases[i].arguments, at ? program_source() : "", at ? "/topo/clusters/slurm-topology.conf" : "",
			 at ? at + 6 : "");
		simulate(call, PROGRAM_STDERR, cases[i].status);
		if (!strstr(text, cases[i].words) || strchr(text, '\n') != strrchr(text, '\n'))
			fail_msg("simulate %s: \"%s\", expected one line with \"%s\"", cases[i].arguments, text,
				 cases[i].words);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cluster_file_is_simulated),
		cmocka_unit_test(orders_are_cases_and_a_file_is_an_order),
		cmocka_unit_test(a_machine_bounds_its_host),
		cmocka_unit_test(a_graph_file_of_the_planned_channels_changes_nothing),
		cmocka_unit_test(given_channels_cross_what_they_cross),
		cmocka_unit_test(a_graph_file_that_does_not_fit_is_refused),
		cmocka_unit_test(of_more_hosts_aggregation_is_called_a_lower_bound),
		cmocka_unit_test(text_names_times_bytes_and_links),
		cmocka_unit_test(patterns_and_jobs_are_cases),
		cmocka_unit_test(a_host_by_itself_takes_no_time),
		cmocka_unit_test(what_loses_is_said),
		cmocka_unit_test(the_documented_gains_are_what_it_says),
		cmocka_unit_test(without_rates_there_are_no_times),
		cmocka_unit_test(a_rate_is_for_those_without),
		cmocka_unit_test(a_machine_without_rates_is_refused),
		cmocka_unit_test(a_wrong_order_is_said_with_its_line),
		cmocka_unit_test(the_page_shows_each_case),
		cmocka_unit_test(what_is_wrong_is_said_once),
	};

	return cmocka_run_group_tests_name("simulate", tests, program_find, NULL);
}
