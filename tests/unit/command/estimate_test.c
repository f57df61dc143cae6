/* SPDX-License-Identifier: Apache-2.0 */
/* The built program: `tributary estimate`. */
#include "command/command.h"

#include "program.h"

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

enum { TEXT_BYTES = 1 << 20 };

static char text[TEXT_BYTES];

/* "@name" stands for a file of the fixtures. */
static void estimate(const char *arguments, const char *what, int expected)
{
	char call[4096] = "estimate ";
	size_t at = strlen(call);

	for (const char *c = arguments; *c && at + 512 < sizeof(call); c++) {
		if (*c == '@')
			at += (size_t)snprintf(call + at, sizeof(call) - at, "%s/tests/fixtures/estimate/",
					       program_source());
		else
			call[at++] = *c;
		call[at] = '\0';
	}
	if (program_run(call, what, text, sizeof(text)) != expected)
		fail_msg("%s: not status %d: %s", call, expected, text);
}

static json_t *estimate_json(const char *arguments)
{
	char call[1024];
	json_t *value;

	snprintf(call, sizeof(call), "%s --json", arguments);
	estimate(call, PROGRAM_STDOUT, COMMAND_OK);
	value = json_loads(text, 0, NULL);
	assert_non_null(value);
	return value;
}

/* Of the first case, or of the one of that name. */
static double value_of(const json_t *value, const char *name, const char *key)
{
	const json_t *cases = json_object_get(value, "cases"), *one;
	size_t i;

	json_array_foreach((json_t *)cases, i,
			   one) if (!name || !strcmp(json_string_value(json_object_get(one, "name")),
						     name)) return json_number_value(json_object_get(one, key));
	fail_msg("there is no case \"%s\"", name);
	return 0;
}

static void the_published_results_come_out(void **state)
{
	static const struct {
		const char *arguments;
		double step_ms, exposed;
	} cases[] = { { "@recommendation.json --system @system-128.json --batch 512 --published", 54.00, 0.7550 },
		      { "@recommendation.json --system @system-8.json --batch 512 --published", 28.86, 0.5124 } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		json_t *value = estimate_json(cases[i].arguments);

		if (fabs(value_of(value, NULL, "step_s") * 1e3 - cases[i].step_ms) > 0.0051 ||
		    fabs(value_of(value, NULL, "exposed_of_communication") - cases[i].exposed) > 0.000051)
			fail_msg("%s: %s", cases[i].arguments, text);
		json_decref(value);
	}
}

/*
 * Four layers of 100 MB on 8 hosts of 1 GB/s with one device each (8 of the file's, so 64 ranks): a ring's AllReduce takes
 * 2 × 63/64 × 0.1 s. In another order more edges cross the
 * uplinks, which carry what one host does.
 */
static void communication_is_what_simulate_says(void **state)
{
	json_t *value = estimate_json("@layers.json --system @system-8.json --batch 1 --latency 0 "
				      "--fabric leaf-spine:2x4,4:1,8Gbit/s --order random:2"),
	       *tensor;

	(void)state;
	if (fabs(value_of(value, "ring, by leaf", "communication_s") - 4 * 0.2 * 63 / 64) > 1e-3)
		fail_msg("%s", text);
	assert_true(value_of(value, "ring", "step_s") > 1.5 * value_of(value, "ring, by leaf", "step_s"));
	assert_true(value_of(value, "one more aggregator a leaf", "step_s") > 0);
	/* Eight tensor-parallel devices of a host: one ring of 8 ranks, and activations inside. */
	tensor = estimate_json("@layers.json --system @system-8.json --parallel tp:8 --batch 1 --latency 0 "
			       "--fabric leaf-spine:2x4,4:1,8Gbit/s");
	if (fabs(value_of(tensor, "ring", "communication_s") - 4 * (0.2 * 7 / 8 + 2 * 1e6 * 2 * 7 / 8 / 200.01e9)) >
	    1e-4)
		fail_msg("%s", text);
	json_decref(value);
	json_decref(tensor);
}

/* What `simulate` says of one such AllReduce. */
static double simulated_s(const char *arguments)
{
	char call[1024];
	json_t *value;
	double time_s;

	snprintf(call, sizeof(call), "simulate --latency 0 --gpus 8 --json %s", arguments);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	value = json_loads(text, 0, NULL);
	time_s = json_number_value(json_object_get(json_array_get(json_object_get(value, "cases"), 0), "time_s"));
	json_decref(value);
	return time_s;
}

/*
 * Four layers of 100 MB: each is gathered before forward and before backward, and its gradients scattered, 63/64 of it at
 * 1 GB/s each time. Computing is nothing beside it, so all is exposed. However AllReduce is done, it is not used.
 */
static void fully_sharded_layers_are_gathered_twice_and_scattered(void **state)
{
	static const char *const names[] = { "ring", "ring, by leaf", "hierarchical", "with aggregators",
					     "one more aggregator a leaf" };
	json_t *value = estimate_json("@layers.json --system @system-8.json --parallel fsdp --latency 0 --aggregators "
				      "1,32Gbit/s --fabric leaf-spine:2x4,4:1,8Gbit/s");

	(void)state;
	assert_int_equal(json_array_size(json_object_get(value, "cases")), 5);
	for (size_t i = 0; i < 5; i++) {
		program_check_near(value_of(value, names[i], "communication_s"), 4 * 3 * 0.1 * 63 / 64, 1e-4);
		program_check_near(value_of(value, names[i], "step_s"), 4 * 3 * 0.1 * 63 / 64, 1e-4);
	}
	json_decref(value);
}

/* With the cluster's own aggregators, and with one more: four times what `simulate` says of a layer. */
static void aggregators_take_what_simulate_says(void **state)
{
	json_t *value = estimate_json("@layers.json --system @system-8.json --latency 0 --aggregators 1,16Gbit/s "
				      "--fabric leaf-spine:2x4,2:1,8Gbit/s");

	(void)state;
	program_check_near(value_of(value, "with aggregators", "communication_s"),
			   4 * simulated_s("--fabric leaf-spine:2x4,2:1,8Gbit/s --size 100000000 --algo aggregators "
					   "--aggregators 1,16Gbit/s"),
			   1e-4);
	program_check_near(value_of(value, "hierarchical", "communication_s"),
			   4 * simulated_s("--fabric leaf-spine:2x4,2:1,8Gbit/s --size 100000000 --algo hierarchical"),
			   1e-4);
	/* One of 32 Gbit/s, as four hosts have together, beside one of 16. */
	assert_true(value_of(value, "one more aggregator a leaf", "step_s") <
		    0.95 * value_of(value, "with aggregators", "step_s"));
	json_decref(value);
	/* Without any there is no such case. */
	value = estimate_json("@layers.json --system @system-8.json --fabric leaf-spine:2x4,2:1,8Gbit/s");
	assert_int_equal(json_array_size(json_object_get(value, "cases")), 4);
	json_decref(value);
}

#define RING                                                                                                       \
	"<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"2\" "     \
	"speedinter=\"2\" latencyinter=\"0\" typeintra=\"SYS\" typeinter=\"SYS\" samechannels=\"1\">\n<channel>\n" \
	"<net dev=\"0\"/>\n<gpu dev=\"0\"/>\n<gpu dev=\"4\"/>\n<gpu dev=\"1\"/>\n<gpu dev=\"5\"/>\n"               \
	"<gpu dev=\"2\"/>\n<gpu dev=\"6\"/>\n<gpu dev=\"7\"/>\n<gpu dev=\"3\"/>\n<net dev=\"0\"/>\n</channel>\n"   \
	"</graph>\n</graphs>\n"

/*
 * On four GPUs in pairs with NVLink NCCL's own search takes fewer channels than there is room for; of two sockets with four
 * each, a file's ring goes to and fro.
 */
static void nccls_own_channels_are_a_case(void **state)
{
	char call[1024];
	json_t *value;

	(void)state;
	program_put("system-4",
		    "{\"num_devices\": 4, \"num_nodes\": 1, \"f32_flops\": 156e12, \"f16_flops\": 312e12, "
		    "\"flops_util\": 0.7, \"mem_bw\": 1e12, \"mem_bw_util\": 0.8, \"num_nvlinks\": 12, "
		    "\"bw_per_nvlink\": 50e9, \"nvlink_util\": 0.6, \"num_ibroce_ports\": 8, \"ibroce_bw\": 25e9, "
		    "\"ibroce_util\": 0.5, \"ar_perc_intra\": 1}");
	snprintf(call, sizeof(call),
		 "@layers.json --system %s/system-4 --fabric leaf-spine:2x2,8000Gbit/s --from "
		 "'%s/topo/nvlink-pairs-4gpu/machine.topology'",
		 program_folder(), program_source());
	value = estimate_json(call);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(json_object_get(value, "cases"), 0), "changes")),
		"channels");
	assert_true(value_of(value, "ring, NCCL's own channels", "communication_s") >
		    1.5 * value_of(value, "ring", "communication_s"));
	json_decref(value);

	program_put("ring", RING);
	snprintf(call, sizeof(call),
		 "@layers.json --system @system-8.json --latency 0 --fabric leaf-spine:2x4,400Gbit/s --from "
		 "'%s/topo/two-level-8gpu/machine.topology' --graph %s/ring",
		 program_source(), program_folder());
	value = estimate_json(call);
	snprintf(call, sizeof(call),
		 "--fabric leaf-spine:2x4,400Gbit/s --size 100000000 --algo ring --from "
		 "'%s/topo/two-level-8gpu/machine.topology'",
		 program_source());
	program_check_near(value_of(value, "ring", "communication_s"), 4 * simulated_s(call), 1e-4);
	snprintf(call + strlen(call), sizeof(call) - strlen(call), " --graph %s/ring", program_folder());
	program_check_near(value_of(value, "ring, NCCL's own channels", "communication_s"), 4 * simulated_s(call),
			   1e-4);
	assert_true(value_of(value, "ring, NCCL's own channels", "step_s") > 2 * value_of(value, "ring", "step_s"));
	json_decref(value);
}

/*
 * 80 layers of P = 4 d² + 2 d f = 626 million parameters, d = 8192, f = 21846, a sample of 4096 tokens: a layer's forward is
 * (2 P + 4 × 4096 d) × 4096 FLOPs, its backward twice that, at 70.5 % of 312 TFLOP/s.
 */
static void the_language_model_is_its_formulas(void **state)
{
	const double parameters = 626360320.0, bytes = 2 * parameters, flops = 312e12 * 0.705, inside_Bps = 200.01e9;
	const double compute_s = 80 * 3 * (2 * parameters + 4.0 * 4096 * 8192) * 4096 / flops;
	const double gather_s = bytes / inside_Bps / 2, ring_s = 2.0 * 7 / 8 * bytes / 50e9;
	const double sums_s = 2.0 * 7 / 8 * (2.0 * 4096 * 8192 * 2) / inside_Bps;
	json_t *value;

	(void)state;
	/* Of the file's one host: the first gather of each way and the last scatter are exposed. */
	value = estimate_json("@transformer.json --system @system-8.json --published --parallel fsdp");
	program_check_near(value_of(value, NULL, "compute_s"), compute_s, 1e-4);
	program_check_near(value_of(value, NULL, "communication_s"), 80 * 3 * gather_s, 1e-4);
	program_check_near(value_of(value, NULL, "exposed_s"), 3 * gather_s, 1e-4);
	program_check_near(value_of(value, NULL, "step_s"), compute_s + 3 * gather_s, 1e-4);
	json_decref(value);
	/* On 8 hosts of 50 GB/s. 64 ranks: gathered and scattered at the NICs' rate. */
	value = estimate_json("@transformer.json --system @system-8.json --parallel fsdp --latency 0 "
			      "--fabric leaf-spine:2x4,4:1,400Gbit/s");
	program_check_near(value_of(value, "ring, by leaf", "compute_s"), compute_s, 1e-4);
	program_check_near(value_of(value, "ring, by leaf", "communication_s"), 80 * 3 * bytes * 63 / 64 / 50e9, 1e-4);
	json_decref(value);
	/* Cut in eight inside each host: a ring of eight for the gradients, two sums of activations a layer. */
	value = estimate_json("@transformer.json --system @system-8.json --parallel tp:8 --latency 0 "
			      "--fabric leaf-spine:2x4,4:1,400Gbit/s");
	program_check_near(value_of(value, "ring, by leaf", "compute_s"), compute_s / 8, 1e-4);
	program_check_near(value_of(value, "ring, by leaf", "communication_s"), 80 * (ring_s + 2 * sums_s), 1e-4);
	json_decref(value);
}

/* Of more than 256 hosts. */
static void a_lower_bound_is_called_so(void **state)
{
	json_t *value = estimate_json("@layers.json --system @system-8.json --fabric leaf-spine:9x32,8Gbit/s"), *one;
	size_t i;

	(void)state;
	json_array_foreach(json_object_get(value, "cases"), i, one)
		assert_int_equal(json_is_true(json_object_get(one, "lower_bound")),
				 strncmp(json_string_value(json_object_get(one, "name")), "ring", 4) != 0);
	assert_true(i > 2);
	json_decref(value);
	estimate("@layers.json --system @system-8.json --fabric leaf-spine:9x32,8Gbit/s", PROGRAM_STDOUT, COMMAND_OK);
	assert_non_null(strstr(text, "  lower bound\n"));
	estimate("@layers.json --system @system-8.json --fabric leaf-spine:8x32,8Gbit/s", PROGRAM_STDOUT, COMMAND_OK);
	assert_null(strstr(text, "ower bound"));
}

/* The order of ranks costs nothing; what aggregators bring is what they add to it. */
static void remedies_that_cost_nothing_come_first(void **state)
{
	static const char *const names[] = { "ring", "ring, by leaf", "one more aggregator a leaf" };
	double step_s[3] = { 0 };
	char said[256];
	json_t *value = estimate_json("@layers.json --system @system-8.json --fabric leaf-spine:2x4,4:1,8Gbit/s "
				      "--order random:2"),
	       *one;
	size_t i;

	(void)state;
	json_array_foreach(json_object_get(value, "cases"), i,
			   one) for (size_t j = 0; j < 3;
				     j++) if (!strcmp(json_string_value(json_object_get(one, "name")), names[j]))
		step_s[j] = program_number(one, "step_s");
	assert_true(step_s[2] > 0 && step_s[2] < step_s[1] && step_s[1] < step_s[0]);
	snprintf(
		said, sizeof(said),
		"; with ranks leaf by leaf (`tributary cluster order`) %.1f %% less; with one more aggregator of 32 Gbit/s a leaf, too, another %.1f %% less.",
		100 * (1 - step_s[1] / step_s[0]), 100 * (1 - step_s[2] / step_s[1]));
	assert_non_null(strstr(json_string_value(json_object_get(value, "answer")), said));
	json_decref(value);
	/* Of more than 256 hosts only a bound is known: it is no remedy. */
	value = estimate_json("@layers.json --system @system-8.json --fabric leaf-spine:9x32,8Gbit/s");
	assert_null(strstr(json_string_value(json_object_get(value, "answer")), "aggregat"));
	json_decref(value);
}

/*
 * Two stages of four hosts with eight devices, a leaf each. A micro-batch of a sample puts 8 × 1 MB on each of four ways
 * through an uplink of 1 GB/s: 32 ms, beside which computing is nothing. Four of them arrive until 128 ms and are back until
 * 160 ms; then each stage sums two layers of 100 MB, 32 ranks in a ring of 1 GB/s.
 */
static void pipelines_send_over_the_cluster(void **state)
{
	double sums_s = 2 * 0.2 * 31 / 32;
	json_t *value = estimate_json("@layers.json --system @system-8.json --batch 4 --pipeline 2 --micro-batches 4 "
				      "--latency 0 --fabric leaf-spine:2x4,4:1,8Gbit/s");

	(void)state;
	if (fabs(value_of(value, "ring", "communication_s") - (4 * 0.032 + sums_s)) > 1e-4 ||
	    fabs(value_of(value, "ring", "step_s") - (5 * 0.032 + sums_s)) > 1e-3)
		fail_msg("%s", text);
	assert_true(value_of(value, "ring", "bubble_s") > 0);
	assert_int_equal(json_integer_value(json_object_get(value, "stages")), 2);
	json_decref(value);
	estimate("@layers.json --system @system-8.json --batch 4 --pipeline 2 --micro-batches 4 "
		 "--fabric leaf-spine:2x4,4:1,8Gbit/s",
		 PROGRAM_STDOUT, COMMAND_OK);
	assert_non_null(strstr(text, "2 stages, 4 micro-batches"));
	assert_non_null(strstr(text, "bubble"));
}

static void what_is_wrong_is_said(void **state)
{
	static const struct {
		const char *arguments, *says;
		int status;
	} cases[] = {
		{ "@layers.json", "--system", COMMAND_USAGE },
		{ "@layers.json --system @none.json --published", "none.json", COMMAND_FAILED },
		{ "@layers.json --system @layers.json --published", "num_devices", COMMAND_FAILED },
		{ "@system-8.json --system @system-8.json --published", "GPU", COMMAND_FAILED },
		{ "@layers.json --system @system-8.json", "cluster", COMMAND_USAGE },
		{ "@layers.json --system @system-8.json --published --fabric leaf-spine:2x4,8Gbit/s", "published",
		  COMMAND_USAGE },
		{ "@layers.json --system @system-8.json --published --parallel pp", "tp:N", COMMAND_USAGE },
		{ "@layers.json --system @system-8.json --published --parallel tp:4", "tensor", COMMAND_FAILED },
		{ "@layers.json --system @system-8.json --published --batch 0", "batch", COMMAND_USAGE },
		{ "@layers.json --system @system-8.json --parallel tp:3 --fabric leaf-spine:2x4,8Gbit/s", "groups of 3",
		  COMMAND_FAILED },
		{ "@layers.json --system @system-8.json --fabric leaf-spine:2x4,8Gbit/s --pipeline 0", "expected 1 to",
		  COMMAND_USAGE },
		{ "@layers.json --system @system-8.json --fabric leaf-spine:2x4,8Gbit/s --pipeline 3",
		  "cut in 3 stages", COMMAND_FAILED },
		{ "@layers.json --system @system-8.json --fabric leaf-spine:2x4,8Gbit/s --pipeline 8",
		  "cut in 8 stages", COMMAND_FAILED },
		{ "@layers.json --system @system-8.json --fabric leaf-spine:2x4,8Gbit/s --pipeline 2 --micro-batches 2",
		  "a batch of 1", COMMAND_USAGE },
		{ "@layers.json --system @system-8.json --fabric leaf-spine:2x4,8Gbit/s --micro-batches 2",
		  "--pipeline", COMMAND_USAGE },
		{ "@layers.json --system @system-8.json --fabric leaf-spine:2x4,8Gbit/s --pipeline 2 --parallel fsdp",
		  "fsdp", COMMAND_USAGE },
		{ "@layers.json --system @system-8.json --published --pipeline 2", "no pipelines", COMMAND_USAGE },
		{ "@recommendation.json --system @system-8.json --pipeline 2 --fabric leaf-spine:2x4,8Gbit/s", "tables",
		  COMMAND_FAILED },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		estimate(cases[i].arguments, PROGRAM_STDERR, cases[i].status);
		if (!strstr(text, cases[i].says) || strchr(text, '\n') != strrchr(text, '\n'))
			fail_msg("%s: \"%s\" is not one line that names %s", cases[i].arguments, text, cases[i].says);
	}
}

#define SYSTEM                                                                                                    \
	"{\"num_devices\": %s, \"num_nodes\": 2, \"f32_flops\": 1e12, \"f16_flops\": 1e12, \"flops_util\": 1, "   \
	"\"mem_bw\": 1e12, \"mem_bw_util\": 1, \"num_nvlinks\": 1, \"bw_per_nvlink\": 1e11, \"nvlink_util\": 1, " \
	"\"num_ibroce_ports\": %s, \"ibroce_bw\": 1e9, \"ibroce_util\": 1, \"ar_perc_intra\": 0}"

/* Models and systems that would give figures that are none, or be read as others than they are. */
static void what_has_no_time_is_refused(void **state)
{
	static const struct {
		const char *devices, *ports, *model, *options, *says;
	} cases[] = {
		{ "16", "1", "{\"parameters\": 0, \"flops_per_sample\": 0}", "--published",
		  "neither computes nor sends" },
		{ "16", "1", "{\"parameters\": 0, \"flops_per_sample\": 0}", "--fabric leaf-spine:1x2,1GB/s",
		  "neither computes nor sends" },
		{ "16", "0", "{\"parameters\": 9, \"flops_per_sample\": 9}", "--published", "no link or port" },
		{ "16.5", "1", "{\"parameters\": 9, \"flops_per_sample\": 9}", "--published",
		  "\"num_devices\" is 16.5, expected a whole number" },
		{ "200", "1", "{\"parameters\": 9, \"flops_per_sample\": 9}", "--fabric leaf-spine:1x2,1GB/s",
		  "100 devices a host" },
		{ "16", "1", "{\"parameters\": 9, \"flops_per_sample\": 9}, {\"parameters\": \"9\"}", "--published",
		  "layers[1]: the number \"parameters\" is no number" },
		{ "16", "1", "7", "--published", "layers[0]: the number \"parameters\" is missing" },
		{ "16", "1", "{\"parameters\": 9, \"flops_per_sample\": 9, \"count\": 0}", "--published",
		  "\"count\" is 0, expected 1" },
	};
	char lines[1024], call[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(lines, sizeof(lines), SYSTEM, cases[i].devices, cases[i].ports);
		program_put("system", lines);
		snprintf(lines, sizeof(lines), "{\"type\": \"layers\", \"layers\": [%s]}", cases[i].model);
		program_put("model", lines);
		snprintf(call, sizeof(call), "%s/model --system %s/system %s", program_folder(), program_folder(),
			 cases[i].options);
		estimate(call, PROGRAM_STDERR, COMMAND_FAILED);
		if (!strstr(text, cases[i].says))
			fail_msg("%zu: \"%s\" does not say %s", i, text, cases[i].says);
	}
}

/* Slurm's topology.conf has none. */
static void rates_that_nobody_says_are_missed(void **state)
{
	char call[1024];

	(void)state;
	snprintf(call, sizeof(call),
		 "@layers.json --system @system-8.json --cluster %s/topo/clusters/slurm-topology.conf",
		 program_source());
	estimate(call, PROGRAM_STDERR, COMMAND_FAILED);
	assert_non_null(strstr(text, "no rate for 54 of its 54 hosts"));
	assert_non_null(strstr(text, "give --rate RATE"));
	estimate("@layers.json --system @system-8.json --fabric leaf-spine:2x2,8Gbit/s", PROGRAM_STDERR, COMMAND_OK);
	assert_string_equal(text, "");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_results_come_out),
		cmocka_unit_test(communication_is_what_simulate_says),
		cmocka_unit_test(remedies_that_cost_nothing_come_first),
		cmocka_unit_test(fully_sharded_layers_are_gathered_twice_and_scattered),
		cmocka_unit_test(aggregators_take_what_simulate_says),
		cmocka_unit_test(nccls_own_channels_are_a_case),
		cmocka_unit_test(the_language_model_is_its_formulas),
		cmocka_unit_test(a_lower_bound_is_called_so),
		cmocka_unit_test(pipelines_send_over_the_cluster),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(what_has_no_time_is_refused),
		cmocka_unit_test(rates_that_nobody_says_are_missed),
	};

	return cmocka_run_group_tests_name("estimate", tests, program_find, NULL);
}
