/* SPDX-License-Identifier: Apache-2.0 */
/* The built program: `tributary place`, on machines and clusters of topo/. */
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
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 16 };

static int place(const char *where, const char *options, const char *what, char *text)
{
	char call[1024];

	snprintf(call, sizeof(call), "place %s '%s/topo/%s' %s", strstr(where, "machine") ? "--from" : "--cluster",
		 program_source(), where, options);
	return program_run(call, what, text, TEXT_BYTES);
}

#define MACHINE "two-switch-8gpu-sm120/machine.topology"
#define CLUSTER "clusters/two-leaves.cluster"
#define SLURM   "clusters/slurm-topology.conf"

static void gpus_are_kept_or_spread(void **state)
{
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(place(MACHINE, "peer:4", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "job (peer-bound): GPUs 0,1,2,3\n");
	assert_int_equal(place(MACHINE, "host:2 --format cuda", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "CUDA_VISIBLE_DEVICES=0,4\n");
	assert_int_equal(place(MACHINE, "peer:2 --busy 0-2 --format slurm", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "--gres=gpu:8 --gpu-bind=map_gpu:4,5\n");
}

static void hosts_are_too(void **state)
{
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(place(CLUSTER, "peer:16 --gpus 8 --format hostfile --busy node1", PROGRAM_STDOUT, text),
			 COMMAND_OK);
	assert_string_equal(text, "node2 slots=8\nnode3 slots=8\n");
	assert_int_equal(place(CLUSTER, "host:2 --format slurm", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "--nodelist=node1,node5 --gres=gpu:1\n");
	/* 9 GPUs of hosts of 8 are two hosts. */
	assert_int_equal(place(CLUSTER, "peer:9 --gpus 8", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "job (peer-bound): hosts node1,node2\n");
}

static int queue(const char *jobs, const char *options, const char *what, char *text)
{
	char path[512], call[600];
	int status;

	snprintf(path, sizeof(path), "%s/jobs", program_folder());
	tree_put(path, jobs);
	snprintf(call, sizeof(call), "--jobs '%s' %s", path, options);
	status = place(MACHINE, call, what, text);
	unlink(path);
	return status;
}

static void a_queue_is_placed_and_who_waits_is_told_why(void **state)
{
	static const char jobs[] = "running a peer 0-2\nrunning b host 4 # loads\n\nwants c host 1\nwants d peer 2\n"
				   "wants e peer 4\n";
	char text[TEXT_BYTES];
	json_t *value, *list;

	(void)state;
	assert_int_equal(queue(jobs, "--json", PROGRAM_STDOUT, text), COMMAND_FAILED);
	value = json_loads(text, 0, NULL);
	list = json_object_get(value, "jobs");
	assert_int_equal(json_array_size(list), 3);
	/* Four would have to be on both switches, one of which has its uplink full. */
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "name")), "e");
	assert_non_null(strstr(json_string_value(json_object_get(json_array_get(list, 0), "waits")),
			       "would fill the uplink of switch:0000:31:00.0"));
	assert_int_equal(json_array_size(json_object_get(json_array_get(list, 0), "gpus")), 0);
	assert_true(json_is_null(json_object_get(json_array_get(list, 1), "waits")));
	/* The other switch's uplink is free: a's GPUs are all below it. */
	assert_int_equal(json_integer_value(json_array_get(json_object_get(json_array_get(list, 2), "gpus"), 0)), 3);
	json_decref(value);
	assert_int_equal(queue(jobs, "--share", PROGRAM_STDOUT, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "e (peer-bound): GPUs 3,5,6,7; shared, at most "));
	assert_non_null(strstr(text, "d (peer-bound): waits: 0 of 2 GPUs are free"));
}

/* Slurm's file has none: no uplink would ever be full. */
static void rates_that_are_missing_are_said(void **state)
{
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(place(SLURM, "peer:2", PROGRAM_STDERR, text), COMMAND_OK);
	assert_non_null(strstr(text, "no rate for 54 of its 54 hosts"));
	assert_non_null(strstr(text, "no rate for 6 of its 6 uplinks: one without is never full"));
	assert_int_equal(place(SLURM, "host:20 --rate 4:1,100Gbit/s --format hostfile", PROGRAM_STDERR, text),
			 COMMAND_OK);
	assert_string_equal(text, "");
	assert_int_equal(place(MACHINE, "peer:2 --rate 1GB/s", PROGRAM_STDERR, text), COMMAND_USAGE);
	assert_int_equal(place(MACHINE, "peer:2", PROGRAM_STDERR, text), COMMAND_OK);
	assert_string_equal(text, "");
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *jobs, *part;
	} files[] = {
		{ "wants a host\n", "jobs:1: expected \"running NAME" },
		{ "\nwants a both 2\n", "jobs:2: \"both\" is no kind of job" },
		{ "wants a host x\n", "\"x\" is no number of GPUs" },
		{ "wants a host 2 fast\n", "\"fast\", expected a rate with its unit, as 100Gbit/s" },
		{ "running a host 9\n", "there is no GPU 9" },
		{ "running a host 3-\n", "is no list of GPUs" },
		{ "running a host 1\nrunning b peer 0-2\n", "gpu1 runs a already" },
	};
	char text[TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		assert_int_equal(queue(files[i].jobs, "", PROGRAM_STDERR, text), COMMAND_FAILED);
		if (!strstr(text, files[i].part))
			fail_msg("%s: %s", files[i].jobs, text);
	}
	assert_int_equal(place(MACHINE, "", PROGRAM_STDERR, text), COMMAND_USAGE);
	assert_int_equal(place(MACHINE, "peer", PROGRAM_STDERR, text), COMMAND_USAGE);
	assert_int_equal(place(MACHINE, "peer:2 --format hostfile", PROGRAM_STDERR, text), COMMAND_USAGE);
	assert_int_equal(place(CLUSTER, "peer:2 --busy nobody", PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "there is no host nobody"));
	assert_int_equal(place(CLUSTER, "peer:9", PROGRAM_STDOUT, text), COMMAND_FAILED);
	assert_string_equal(text, "job (peer-bound): cannot be placed: there are 8 hosts, and it wants 9\n");
	assert_int_equal(place(CLUSTER, "peer:0", PROGRAM_STDERR, text), COMMAND_USAGE);
	assert_string_equal(text, "tributary: peer:0: \"0\" is no number of GPUs\n");
	assert_int_equal(place(CLUSTER, "peer:2:fast", PROGRAM_STDERR, text), COMMAND_USAGE);
	assert_int_equal(place(CLUSTER, "peer:2 --from x", PROGRAM_STDERR, text), COMMAND_USAGE);
	assert_int_equal(place(CLUSTER, "peer:2 --json --format slurm", PROGRAM_STDERR, text), COMMAND_USAGE);
}

static int place_on(const char *cluster, const char *options, const char *what, char *text)
{
	char path[512], call[1024];

	snprintf(path, sizeof(path), "%s/cluster", program_folder());
	tree_put(path, cluster);
	snprintf(call, sizeof(call), "place --cluster '%s' %s", path, options);
	return program_run(call, what, text, TEXT_BYTES);
}

/* As gethostname and the job's scheduler name them. */
static void hosts_are_known_without_their_domains(void **state)
{
	static const char cluster[] = "tributary-cluster 1\nswitch s\nhost a.x,b.x,c,d.x,d.y leaf=s\n";
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(place_on(cluster, "peer:2 --busy a,c.z", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "job (peer-bound): hosts b.x,d.x\n");
	/* There are two. */
	assert_int_equal(place_on(cluster, "peer:2 --busy d", PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_string_equal(text, "tributary: --busy: there is no host d\n");
	assert_int_equal(place_on(cluster, "peer:2 --busy a.z", PROGRAM_STDERR, text), COMMAND_FAILED);
}

/* As a file of one's own may have them. */
static void switches_in_a_circle_end(void **state)
{
	static const char machine[] =
		"tributary-topology 1\nvertex switch a\nvertex switch b\nlink pci a b\nlink pci b a\n"
		"vertex gpu gpu0\nvertex gpu gpu1\nlink pci gpu0 a\nlink pci gpu1 b\n";
	char text[TEXT_BYTES], call[1024];

	(void)state;
	snprintf(call, sizeof(call), "place peer:2 --from '%s'", program_put("circle.topology", machine));
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_string_equal(text, "job (peer-bound): GPUs 0,1\n");
}

static void nothing_to_place_is_said(void **state)
{
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(place_on("tributary-cluster 1\nswitch s\n", "peer:2", PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_string_equal(text, "tributary: the cluster has no hosts\n");
	assert_int_equal(queue("running a peer 0\n", "", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_string_equal(text, "There is no job to place.\n");
	/* What is busy and runs is one slot less, not two. */
	assert_int_equal(queue("running a peer 0-3\nwants b peer 5\n", "--busy 3", PROGRAM_STDOUT, text),
			 COMMAND_FAILED);
	assert_string_equal(text, "b (peer-bound): waits: 4 of 5 GPUs are free\n");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpus_are_kept_or_spread),
		cmocka_unit_test(hosts_are_too),
		cmocka_unit_test(a_queue_is_placed_and_who_waits_is_told_why),
		cmocka_unit_test(rates_that_are_missing_are_said),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(hosts_are_known_without_their_domains),
		cmocka_unit_test(switches_in_a_circle_end),
		cmocka_unit_test(nothing_to_place_is_said),
	};

	return cmocka_run_group_tests_name("place", tests, program_find, NULL);
}
