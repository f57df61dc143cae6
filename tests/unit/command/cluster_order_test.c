/* SPDX-License-Identifier: Apache-2.0 */
/* The built program: `tributary cluster order`, its files for launchers and its figures. */
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
#define MIXED "--hosts node1,node5,node2,node6,node3,node7,node4,node8 "

static int order(const char *options, const char *what, char *text)
{
	char call[1024];

	snprintf(call, sizeof(call), "cluster order '%s/topo/clusters/two-leaves.cluster' %s", program_source(),
		 options);
	return program_run(call, what, text, TEXT_BYTES);
}

static double number(const json_t *of, const char *first, const char *second, const char *third)
{
	const json_t *value = json_object_get(json_object_get(of, first), second);

	value = third ? json_object_get(value, third) : value;
	assert_true(json_is_number(value));
	return json_number_value(value);
}

/* Interleaved, all 8 edges cross; in order one does: a link of one host's rate then takes a quarter of the time. */
static void a_mixed_ring_gets_four_times_as_fast(void **state)
{
	char text[TEXT_BYTES], said[80];
	const json_t *uplinks, *hosts, *one, *before, *after;
	json_t *value;
	double ratio;
	size_t i;

	(void)state;
	assert_int_equal(order(MIXED "--json", PROGRAM_STDOUT, text), COMMAND_OK);
	value = json_loads(text, 0, NULL);
	assert_non_null(value);
	hosts = json_object_get(json_object_get(value, "after"), "hosts");
	assert_int_equal(json_array_size(hosts), 8);
	assert_string_equal(json_string_value(json_array_get(hosts, 3)), "node4");
	uplinks = json_object_get(value, "uplinks");
	assert_int_equal(json_array_size(uplinks), 4);
	json_array_foreach(uplinks, i, one)
	{
		program_check_near(number(one, "before", "ring", NULL), 7.0 * (1 << 30), 1e-4);
		program_check_near(number(one, "after", "ring", NULL), 1.75 * (1 << 30), 1e-4);
	}
	before = json_object_get(value, "before");
	after = json_object_get(value, "after");
	ratio = number(after, "phases", "ring", "time_s") / number(before, "phases", "ring", "time_s");
	assert_true(ratio > 0.24 && ratio < 0.26);
	assert_true(number(after, "phases", "tree", "time_s") < number(before, "phases", "tree", "time_s"));
	/* NCCL's trees are faster than its rings before, and slower after. */
	ratio = number(before, "phases", "tree", "time_s") / number(after, "phases", "ring", "time_s");
	assert_true(ratio > 2.2 && ratio < 2.4);
	snprintf(said, sizeof(said), "AllReduce should be %.2f times as fast, ", ratio);
	assert_non_null(strstr(json_string_value(json_object_get(value, "answer")), said));
	json_decref(value);
}

static void launchers_get_their_files(void **state)
{
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(order(MIXED "--gpus 2 --format hostfile", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "node1 slots=2\nnode2 slots=2\nnode3 slots=2\nnode4 slots=2\nnode5 slots=2\n"
				  "node6 slots=2\nnode7 slots=2\nnode8 slots=2\n");
	assert_int_equal(order("--hosts node2,node1 --gpus 2 --format slurm", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "node2\nnode2\nnode1\nnode1\n");
	assert_int_equal(order("--hosts node[7-8] --gpus 4 --format torchrun", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "# torchrun --nnodes=2 --nproc_per_node=4 --master_addr=node7 --node_rank=NODE_RANK\n"
				  "# NODE_RANK HOST RANKS\n0 node7 0-3\n1 node8 4-7\n");
}

static void a_hosts_file_is_read_in_any_way(void **state)
{
	char path[512], call[600], text[TEXT_BYTES];

	(void)state;
	snprintf(path, sizeof(path), "%s/hosts", program_folder());
	tree_put(path, "# now: slots=7\nnode8 slots=2\nnode7.example.org:2\nnode6\nnode6\n\n");
	snprintf(call, sizeof(call), "--hostfile '%s' --format slurm", path);
	assert_int_equal(order(call, PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "node8\nnode7.example.org\nnode6\n");
	/* What is printed has as many ranks as --gpus says, not as the file does. */
	assert_int_equal(order(call, PROGRAM_STDERR, text), COMMAND_OK);
	assert_non_null(strstr(text, "has 2 ranks on a host, and --gpus is 1: give --gpus 2"));
	snprintf(call, sizeof(call), "--hostfile '%s' --gpus 2", path);
	assert_int_equal(order(call, PROGRAM_STDERR, text), COMMAND_OK);
	assert_string_equal(text, "");
	unlink(path);
}

static void tensor_groups_go_into_one_leaf(void **state)
{
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(order(MIXED "--gpus 8 --tp 16 --pp 2", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "tensor 16, pipeline 2, data 2;"));
	assert_non_null(strstr(text, "leaf1 up                 7.50    0.00"));
}

/* Tensor groups inside leaves cost the pipeline its place there, which nobody is to find out by himself. */
static void a_phase_that_gives_way_is_explained(void **state)
{
	static const char why[] = "What takes longer gives way: orders are compared by tensor, ";
	char text[TEXT_BYTES], *at;

	(void)state;
	assert_int_equal(order(MIXED "--gpus 8 --tp 16 --pp 2", PROGRAM_STDOUT, text), COMMAND_OK);
	at = strstr(text, why);
	assert_non_null(at);
	assert_memory_equal(at + strlen(why), "ring, tree, pipeline", 20);
	assert_int_equal(order(MIXED, PROGRAM_STDOUT, text), COMMAND_OK);
	assert_null(strstr(text, why));
}

static void what_does_not_fit_is_refused(void **state)
{
	static const struct {
		const char *options, *part;
	} calls[] = {
		{ "--fabric leaf-spine:2x2,1GB/s", "give one cluster: FILE or --fabric" },
		{ "--tp 3", "cannot be cut into groups of 3" },
		{ "--tp 2 --dp 8", "takes 16 hosts of 1 GPUs, and there are 8" },
		{ "--gpus 8 --dp 4", "must fill whole hosts" },
		{ "--hosts node1,nobody", "there is no host nobody" },
		{ "--hosts node1,node2,node1", "the list of hosts: the host node1 is named in two places" },
		{ "--hosts 'node[1-'", "the list of hosts is wrong" },
		{ "--hosts node1 --hostfile x", "both name the hosts" },
		{ "--hostfile /nonexistent/hosts", "cannot be read" },
		{ "--json --format slurm", "--json and --format slurm: give one" },
	};
	char text[TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_not_equal(order(calls[i].options, PROGRAM_STDERR, text), COMMAND_OK);
		if (!strstr(text, calls[i].part))
			fail_msg("%s: %s", calls[i].options, text);
	}
}

static void check_hostfile(const char *lines, const char *expected)
{
	char path[512], call[600], text[TEXT_BYTES], words[1024];

	snprintf(path, sizeof(path), "%.90s/hosts", program_folder());
	tree_put(path, lines);
	snprintf(call, sizeof(call), "--hostfile '%s'", path);
	assert_int_equal(order(call, PROGRAM_STDERR, text), COMMAND_FAILED);
	snprintf(words, sizeof(words), "tributary: %s%s\n", path, expected);
	assert_string_equal(text, words);
}

static void a_wrong_hosts_file_is_said_with_its_line(void **state)
{
	(void)state;
	check_hostfile("# ours\n\nnode1 slots=2\nnode9 slots=2\n", ":4: there is no host node9 in this cluster");
	check_hostfile("node1\nnode1\nnode2\n\nnode1\n",
		       ":5: the host node1 is named in two places; a host's ranks have to follow each other");
	check_hostfile("# nobody\n", " names no host");
}

static void a_host_by_itself_has_no_tables(void **state)
{
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(order("--hosts node3 --gpus 8", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "nothing goes over the network"));
	assert_null(strstr(text, "predicted"));
	assert_int_equal(order("--hosts node3,node4", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "predicted"));
	assert_non_null(strstr(text, "Nothing crosses an uplink."));
}

/* Slurm's file has no rates: bytes are known, times are not, and 0 s would be a lie. */
static void times_without_rates_are_not_known(void **state)
{
	char call[1024], text[TEXT_BYTES];
	const json_t *ring, *tensor;
	json_t *value;

	(void)state;
	snprintf(call, sizeof(call), "cluster order '%s/topo/clusters/slurm-topology.conf'", program_source());
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "-: not known, as the rates of hosts are not: give --rate RATE"));
	snprintf(call, sizeof(call), "cluster order '%s/topo/clusters/slurm-topology.conf' --json", program_source());
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	value = json_loads(text, 0, NULL);
	ring = json_object_get(json_object_get(json_object_get(value, "after"), "phases"), "ring");
	tensor = json_object_get(json_object_get(json_object_get(value, "after"), "phases"), "tensor");
	assert_true(json_is_null(json_object_get(ring, "time_s")));
	assert_true(json_is_null(json_object_get(ring, "slowest_link_s")));
	assert_true(json_number_value(json_object_get(ring, "uplink_bytes")) > 0);
	assert_true(json_is_real(json_object_get(tensor, "time_s"))); /* there is none: no time */
	json_decref(value);
	snprintf(call, sizeof(call), "cluster order '%s/topo/clusters/slurm-topology.conf' --rate 4:1,100Gbit/s",
		 program_source());
	assert_int_equal(program_run(call, "2>&1", text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "AllReduce, ring  168.6 ms"));
	assert_null(strstr(text, "not known"));
	assert_null(strstr(text, "no rate"));
	assert_int_equal(order("", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_null(strstr(text, "not known"));
}

/* Slurm knows node1, the cluster file node1.example.org: the file is for Slurm. */
static void hosts_are_printed_as_they_were_named(void **state)
{
	char path[512], call[1024], text[TEXT_BYTES];

	(void)state;
	snprintf(path, sizeof(path), "%s/cluster", program_folder());
	tree_put(path, "tributary-cluster 1\nswitch s\nhost a.example.org,b.example.org,c leaf=s rate=1GB/s\n");
	snprintf(call, sizeof(call), "cluster order '%s' --hosts a,b.example.org,c.example.org --format slurm", path);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_string_equal(text, "a\nb.example.org\nc.example.org\n");
	snprintf(call, sizeof(call), "cluster order '%s' --hosts a,c,a.example.org --format slurm", path);
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "named in two places"));
}

static void help_knows_it(void **state)
{
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(program_run("help cluster order", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "usage: tributary cluster order [OPTION ...] [FILE]"));
	assert_int_equal(program_run("cluster order --help", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "--tp N"));
	assert_int_equal(program_run("help cluster --help", PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_int_equal(program_run("help show order", PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mixed_ring_gets_four_times_as_fast),
		cmocka_unit_test(launchers_get_their_files),
		cmocka_unit_test(a_hosts_file_is_read_in_any_way),
		cmocka_unit_test(tensor_groups_go_into_one_leaf),
		cmocka_unit_test(a_phase_that_gives_way_is_explained),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(a_wrong_hosts_file_is_said_with_its_line),
		cmocka_unit_test(a_host_by_itself_has_no_tables),
		cmocka_unit_test(times_without_rates_are_not_known),
		cmocka_unit_test(hosts_are_printed_as_they_were_named),
		cmocka_unit_test(help_knows_it),
	};

	return cmocka_run_group_tests_name("cluster_order", tests, program_find, NULL);
}
