/* SPDX-License-Identifier: Apache-2.0 */
/* The first line of what commands print: it is the same in the JSON, and says what the values beside it say. */
#include "command/answer.h"
#include "command/command.h"

#include "program.h"
#include "schema.h"

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

enum { TEXT_BYTES = 1 << 20, CALL_BYTES = 1024 };

static char text[TEXT_BYTES], call[CALL_BYTES], answer[1024]; /* answer: the last one */

static const char *const machines[] = {
	"topo/asymmetric-6gpu/machine.topology",      "topo/cascade-8gpu/machine.topology",
	"topo/degraded-uplink-4gpu/machine.topology", "topo/dual-root-8gpu/machine.topology",
	"topo/four-domains-8gpu/machine.topology",    "topo/four-switch-16gpu/machine.topology",
	"topo/nvlink-pairs-4gpu/machine.topology",    "topo/p2p-off-4gpu/machine.topology",
	"topo/two-level-8gpu/machine.topology",       "topo/two-switch-8gpu-sm120/machine.topology",
	"topo/workstation-2gpu/machine.topology",     "tests/browser/machine.topology",
	"tests/fixtures/discover/two-node.tar.gz",
};
enum { MACHINE_COUNT = sizeof(machines) / sizeof(machines[0]) };

/* The call in both forms: one sentence first, the same in both. Returns the JSON. */
static json_t *ask(const char *arguments)
{
	json_t *value;
	size_t bytes;

	snprintf(call, sizeof(call), "%s --json", arguments);
	(void)program_run(call, PROGRAM_STDOUT, text, sizeof(text));
	value = schema_check_output(text);
	snprintf(answer, sizeof(answer), "%s", json_string_value(json_object_get(value, "answer")));
	(void)program_run(arguments, PROGRAM_STDOUT, text, sizeof(text));
	bytes = strcspn(text, "\n");
	if (strlen(answer) != bytes || strncmp(answer, text, bytes) != 0)
		fail_msg("tributary %s: \"%.*s\" is not \"%s\"", arguments, (int)bytes, text, answer);
	assert_true(bytes > 20 && !strstr(answer, "nan") && !strstr(answer, "inf "));
	return value;
}

static json_t *ask_machine(const char *command, const char *machine, const char *options)
{
	char arguments[CALL_BYTES - 16];

	snprintf(arguments, sizeof(arguments), "%s --from '%s/%s' %s", command, program_source(), machine, options);
	return ask(arguments);
}

static void expect(const char *what)
{
	if (!strstr(answer, what))
		fail_msg("%s: \"%s\" does not say \"%s\"", call, answer, what);
}

static bool begins(const char *line, const char *what)
{
	return !strncmp(line, what, strlen(what));
}

static bool differs(double ratio)
{
	return ratio < 0.995 || ratio >= 1.005;
}

static void expect_ratio(double ratio)
{
	char words[64];

	snprintf(words, sizeof(words), "%.2f times as %s", ratio < 1 ? 1 / ratio : ratio, ratio < 1 ? "long" : "fast");
	expect(words);
}

static double time_of(const json_t *size, const char *whose)
{
	return program_number(json_object_get(size, whose), "time_us");
}

/* Not for what others gain more, nor for a little. */
static bool loses(const json_t *sizes)
{
	const json_t *size;
	double product = 1;
	bool lost = false;
	size_t at;

	json_array_foreach(sizes, at, size)
	{
		double gain = time_of(size, "nccl") / time_of(size, "tributary");

		lost |= gain < 0.97;
		product *= gain > 1 || gain < 0.97 ? gain : 1;
	}
	return lost && product < 1;
}

/* The largest size first; where nothing differs there, the rest; "No difference" before all else where nothing does. */
static void check_explained(const json_t *value)
{
	const json_t *sizes = json_object_get(value, "sizes"), *size;
	double last = 1, best = 1, worst = 1;
	size_t at;

	json_array_foreach(sizes, at, size)
	{
		last = time_of(size, "nccl") / time_of(size, "tributary");
		best = last > best ? last : best;
		worst = last < worst ? last : worst;
	}
	assert_int_equal(begins(answer, "No difference"), !differs(last));
	assert_int_equal(begins(answer, "No difference: "), !differs(best) && !differs(worst));
	if (differs(last))
		expect_ratio(last);
	else if (differs(best))
		expect_ratio(best);
	if (differs(worst))
		expect_ratio(worst);
	if (differs(best) && !(differs(last) && last > 1))
		expect_ratio(best);
	assert_int_equal(strstr(answer, "TRIBUTARY_STEER=topology") != NULL, loses(sizes));
}

static void explain_says_what_its_table_says(void **state)
{
	static const char *const options[] = { "", "--hosts 2", "--hosts 2 --collective allgather", "--hosts either" };
	size_t gains = 0;

	(void)state;
	for (size_t i = 0; i < MACHINE_COUNT; i++) {
		for (size_t j = 0; j < sizeof(options) / sizeof(options[0]); j++) {
			json_t *value = ask_machine("explain", machines[i], options[j]);

			check_explained(value);
			gains += !begins(answer, "No difference");
			json_decref(value);
		}
	}
	assert_true(gains > 0 && gains < MACHINE_COUNT * 4);
}

/* A few small sizes lose less than large ones gain; rounding is no loss; what all lose is. */
static void losses_are_weighed_against_gains(void **state)
{
	static const struct {
		double gains[4];
		bool loses;
	} cases[] = {
		{ { 0.72, 0.76, 1.24, 1.88 }, false }, { { 0.98, 1, 1, 1 }, false },
		{ { 0.98, 0.98, 0.98, 0.98 }, false }, { { 1, 1, 1, 0.9 }, true },
		{ { 0.5, 0.9, 1.1, 1.2 }, true },      { { 1, 1, 1, 1 }, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct answer_balance balance = { 0 };

		for (size_t k = 0; k < 4; k++)
			answer_weigh(&balance, cases[i].gains[k]);
		assert_int_equal(answer_loses(&balance), cases[i].loses);
	}
}

static void tune_says_what_its_table_says(void **state)
{
	static const char *const options[] = { "", "--hosts 2 --collnet", "--hosts either" };

	(void)state;
	for (size_t i = 0; i < MACHINE_COUNT; i++) {
		for (size_t j = 0; j < sizeof(options) / sizeof(options[0]); j++) {
			json_t *value = ask_machine("tune", machines[i], options[j]), *collective, *size;
			double best = 1;
			size_t c, s;

			json_array_foreach(json_object_get(value, "collectives"), c, collective)
				json_array_foreach(json_object_get(collective, "sizes"), s, size)
			{
				double gain = time_of(size, "not_tuned") / time_of(size, "tuned");

				best = gain > best ? gain : best;
			}
			assert_int_equal(begins(answer, "No difference: "), !differs(best));
			if (differs(best))
				expect_ratio(best);
			json_decref(value);
		}
	}
}

/* The plugin looks for a profile where it is told, or in the state directory. */
static void measure_says_what_the_plugin_needs_to_find_the_profile(void **state)
{
	char arguments[512], profile[256];

	(void)state;
	snprintf(profile, sizeof(profile), "%s/box.profile", program_folder());
	snprintf(arguments, sizeof(arguments), "measure --quick --simulate '%s/topo/nvlink-pairs-4gpu' --output %s",
		 program_source(), profile);
	json_decref(ask(arguments));
	expect("; set TRIBUTARY_PROFILE=");
	expect(profile);
	setenv("TRIBUTARY_PROFILE", profile, 1);
	json_decref(ask(arguments));
	expect("; the plugin plans by this profile, no setting is needed.");
	unsetenv("TRIBUTARY_PROFILE");
}

static void plan_says_what_rings_carry(void **state)
{
	(void)state;
	for (size_t i = 0; i < MACHINE_COUNT; i++) {
		json_t *value = ask_machine("plan", machines[i], "");
		double total_GBps = program_number(json_object_get(value, "ring"), "total_Bps") / 1e9;
		char words[64];

		snprintf(words, sizeof(words), " carry %.*f GB/s",
			 total_GBps >= 99.95   ? 0
			 : total_GBps >= 9.995 ? 1
					       : 2,
			 total_GBps);
		expect(words);
		assert_int_equal(strstr(answer, "tributary measure") != NULL, i + 1 == MACHINE_COUNT);
		json_decref(value);
	}
	json_decref(ask_machine("plan", machines[0], "--hosts either"));
	expect(" on several");
	json_decref(ask_machine("plan", "tests/browser/machine.topology", "--gpus 0"));
	expect("One GPU exchanges nothing");
}

static void plan_compared_says_the_same_only_where_it_is(void **state)
{
	char dump[256], arguments[512];
	json_t *value, *other;
	double gain;

	(void)state;
	/* A graph file of ours is no better than ours. */
	snprintf(dump, sizeof(dump), "%s/dump.xml", program_folder());
	snprintf(arguments, sizeof(arguments), "plan --from '%s/%s' --nccl-graph --output %s", program_source(),
		 "topo/nvlink-pairs-4gpu/machine.topology", dump);
	assert_int_equal(program_run(arguments, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	snprintf(arguments, sizeof(arguments), "--compare %s", dump);
	json_decref(ask_machine("plan", "topo/nvlink-pairs-4gpu/machine.topology", arguments));
	assert_true(begins(answer, "No difference: "));
	/* One with the GPUs of both pairs in turns is. */
	program_put("dump.xml", "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" "
				"speedintra=\"10\" speedinter=\"10\" latencyinter=\"0\" typeintra=\"SYS\" "
				"typeinter=\"PIX\" samechannels=\"1\"><channel><gpu dev=\"0\"/><gpu dev=\"2\"/>"
				"<gpu dev=\"1\"/><gpu dev=\"3\"/></channel></graph></graphs>\n");
	value = ask_machine("plan", "topo/nvlink-pairs-4gpu/machine.topology", arguments);
	other = json_object_get(value, "compared");
	gain = program_number(json_object_get(value, "ring"), "total_Bps") /
	       program_number(json_object_get(other, "ring"), "total_Bps");
	assert_true(differs(gain));
	snprintf(arguments, sizeof(arguments), "carry %.2f times what NCCL's carry as rings", gain);
	expect(arguments);
	json_decref(value);
}

/* The worst first, and counted; what was skipped in the last line. */
static void doctor_names_the_worst_first(void **state)
{
	static const char *const verdicts[] = { "error", "warning", "note", "unknown", "good", "skipped" };

	(void)state;
	for (size_t i = 0; i < MACHINE_COUNT; i++) {
		json_t *value = ask_machine("doctor", machines[i], ""), *finding;
		size_t counts[6] = { 0 }, at, before = 0;
		char words[64], *last;

		json_array_foreach(json_object_get(value, "findings"), at, finding)
		{
			const char *verdict = json_string_value(json_object_get(finding, "verdict"));
			size_t which = 0;

			while (strcmp(verdicts[which], verdict) != 0)
				which++;
			assert_true(which >= before);
			before = which;
			counts[which]++;
			if (!at && which < 3) {
				expect(json_string_value(json_object_get(finding, "evidence")));
				expect(json_string_value(json_object_get(finding, "check")));
			}
		}
		for (size_t j = 0; j < 3; j++) {
			snprintf(words, sizeof(words), "%zu %s%s", counts[j], verdicts[j], counts[j] == 1 ? "" : "s");
			if (counts[j])
				expect(words);
		}
		assert_int_equal(begins(answer, "Nothing"), counts[0] + counts[1] == 0);
		text[strlen(text) - 1] = '\0';
		last = strrchr(text, '\n');
		assert_int_equal(begins(last + 1, "skipped: "), counts[5] > 0);
		json_decref(value);
	}
}

static double case_time(const json_t *cases, const char *algorithm, double limit)
{
	double best = limit;
	const json_t *one;
	size_t at;

	json_array_foreach(cases, at,
			   one) if (!strcmp(json_string_value(json_object_get(one, "algorithm")), algorithm) &&
				    program_number(one, "time_s") < best) best = program_number(one, "time_s");
	return best;
}

static const char *longer(double ratio)
{
	static char words[64];

	snprintf(words, sizeof(words), " take %.2f times as long as in the order ", ratio);
	return words;
}

/* What NCCL does alone in this order. */
static double order_time(const json_t *cases, const char *order)
{
	const json_t *one;
	double best = 1e9;
	size_t at;

	json_array_foreach(cases, at, one)
	{
		const char *is = json_string_value(json_object_get(one, "order"));

		if (is && !strcmp(is, order) &&
		    strcmp(json_string_value(json_object_get(one, "algorithm")), "hierarchical") != 0)
			best = fmin(best, program_number(one, "time_s"));
	}
	return best;
}

static void simulate_says_whether_aggregation_and_order_gain(void **state)
{
	static const char *const fabrics[] = { "leaf-spine:2x4,1:1,100Gbit/s", "leaf-spine:2x4,8:1,100Gbit/s",
					       "leaf-spine:2x4,16:1,100Gbit/s", "leaf-spine:4x8,4:1,100Gbit/s" };
	size_t gains = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(fabrics) / sizeof(fabrics[0]); i++) {
		const json_t *cases;
		double nccl, ours, of_orders;
		json_t *value;
		char arguments[256];

		snprintf(arguments, sizeof(arguments), "simulate --fabric %s --order rank,random:2", fabrics[i]);
		value = ask(arguments);
		cases = json_object_get(value, "cases");
		nccl = case_time(cases, "tree", case_time(cases, "ring", 1e9));
		ours = case_time(cases, "hierarchical", 1e9);
		if (differs(nccl / ours))
			expect_ratio(nccl / ours);
		assert_int_equal(begins(answer, "Aggregation (hierarchical) is "), nccl / ours >= 1.005);
		assert_int_equal(begins(answer, "Aggregation gains nothing: "), nccl / ours < 0.995);
		assert_int_equal(strstr(answer, "`tributary cluster order`") != NULL, i > 0); /* narrow uplinks */
		of_orders = order_time(cases, "random:2") / order_time(cases, "rank");
		if (differs(of_orders))
			expect(longer(fmax(of_orders, 1 / of_orders)));
		gains += nccl > ours;
		json_decref(value);
	}
	assert_true(gains > 0 && gains < 4);
	json_decref(ask("simulate --fabric leaf-spine:4x8,4:1,100Gbit/s --order random:2"));
	assert_non_null(
		strstr(answer, "; ranks leaf by leaf (`tributary cluster order`) should take NCCL alone 166.4 ms."));
	json_decref(ask("simulate --fabric leaf-spine:4x8,4:1,100Gbit/s --order leaf"));
	assert_null(strstr(answer, "`tributary cluster order`"));
	/* The order is that of leaves; eight GPUs a host make the ring longer than the formula has it. */
	json_decref(ask("simulate --fabric leaf-spine:2x4,8:1,100Gbit/s --gpus 8"));
	assert_non_null(strstr(answer, "expects 1.04, beside ranks leaf by leaf and for one GPU a host, and"));
	assert_null(strstr(answer, "`tributary cluster order`"));
	json_decref(ask("simulate --fabric leaf-spine:2x4,4:1,100Gbit/s --collective allgather"));
	assert_true(begins(answer, "AllGather of 1 GiB a rank takes ")); /* as the ring that it can be alone */
}

static void order_says_the_same_only_where_it_is(void **state)
{
	char arguments[512];
	json_t *value;

	(void)state;
	value = ask("cluster order --fabric leaf-spine:2x4,4:1,100Gbit/s");
	assert_true(begins(answer, "No difference: "));
	json_decref(value);
	value = ask("cluster order --fabric leaf-spine:1x1,1:1,100Gbit/s --gpus 4");
	assert_true(begins(answer, "No difference in any order: "));
	json_decref(value);
	value = ask("cluster order --fabric leaf-spine:2x4,4:1,100Gbit/s --hosts 'host[1,5,2,6,3,7,4,8]'");
	assert_true(begins(answer, "Give the ranks"));
	/* A tree before, a ring after. */
	expect("AllReduce should be 2.29 times as fast, 150.3 ms instead of 343.6 ms");
	json_decref(value);
	snprintf(arguments, sizeof(arguments), "cluster order '%s/topo/clusters/ibnetdiscover.txt'", program_source());
	json_decref(ask(arguments));
	expect("AllReduce should be 1.66 times as fast, 86.07 ms instead of 143.2 ms");
	snprintf(arguments, sizeof(arguments),
		 "cluster order '%s/topo/clusters/slurm-topology.conf' --hosts 'node[001,017,002,018]'",
		 program_source());
	value = ask(arguments);
	expect("0.75 of the bytes on the busiest uplink");
	json_decref(value);
}

/* Two GPUs; what the last link's way down carries. */
static void put_machine(unsigned last_GBps)
{
	static const char sound[] = "tributary-topology 1\n"
				    "vertex cpu cpu0 numa=0\n"
				    "vertex memory memory0 numa=0\n"
				    "vertex gpu gpu0 bus=0000:02:00.0 index=0\n"
				    "vertex gpu gpu1 bus=0000:03:00.0 index=1\n"
				    "link memory memory0 cpu0\n"
				    "link pci gpu0 cpu0 nominal_Bps=24000000000\n"
				    "link pci gpu1 cpu0 nominal_Bps=24000000000\n"
				    "rate memory0>cpu0 150000000000 measured\n"
				    "rate cpu0>memory0 120000000000 measured\n"
				    "rate gpu0>cpu0 22000000000 measured\nrate cpu0>gpu0 22000000000 measured\n"
				    "rate gpu1>cpu0 22000000000 measured\n";
	char machine[1024];

	snprintf(machine, sizeof(machine), "%srate cpu0>gpu1 %u000000000 measured\n", sound, last_GBps);
	program_put("machine.topology", machine);
}

static void measure_says_whether_the_links_are_sound(void **state)
{
	char arguments[256];

	(void)state;
	program_put("rules", "noise 0\n");
	snprintf(arguments, sizeof(arguments), "measure --quick --simulate %s", program_folder());
	put_machine(22);
	json_decref(ask(arguments));
	expect("Nothing is wrong: 4 rates measured, none below 9");
	put_machine(6);
	json_decref(ask(arguments));
	expect("1 of 4 measured links carries less than 70 % of the nominal rate: cpu0>gpu1 6.00 of 24.0 GB/s, 25 %; "
	       "`tributary doctor` looks for the cause.");
}

/* As nvbandwidth has it: a row for each sender, a column for each receiver, what was not measured N/A. */
static void measure_prints_rates_from_each_to_each(void **state)
{
	json_t *value, *pair;
	char arguments[512];
	size_t at, found = 0;

	(void)state;
	snprintf(arguments, sizeof(arguments), "measure --quick --simulate '%s/topo/nvlink-pairs-4gpu'",
		 program_source());
	value = ask(arguments);
	assert_non_null(strstr(text, "\nGPU to GPU, P2P, GB/s  gpu0  gpu1  gpu2  gpu3\ngpu0"));
	assert_non_null(strstr(text, "\nmemory to GPU, GB/s  gpu0  gpu1  gpu2  gpu3\nmemory0"));
	json_array_foreach(json_object_get(value, "pairs"), at, pair)
	{
		const json_t *host = json_object_get(pair, "host");
		char *row = strstr(text, "\nGPU to GPU, host memory, GB/s  gpu0  gpu1  gpu2  gpu3\n"), name[64];
		const char *from = json_string_value(json_object_get(pair, "from"));
		int column = json_string_value(json_object_get(pair, "to"))[3] - '0';
		double rates[4] = { 0 };

		if (strcmp(json_string_value(json_object_get(host, "provenance")), "measured") != 0)
			continue;
		snprintf(name, sizeof(name), "\n%s ", from);
		assert_non_null(row);
		row = strstr(row, name);
		assert_non_null(row);
		row += strlen(name);
		for (int i = 0; i < 4; i++) {
			row += strspn(row, " ");
			rates[i] = strtod(row, NULL);
			assert_true((rates[i] > 0) != !strncmp(row, "N/A", 3));
			row += strcspn(row, " \n");
		}
		program_check_near(rates[column], program_number(host, "rate_Bps") / 1e9, 0.005);
		found++;
	}
	assert_int_equal(found, 12);
	json_decref(value);
}

static void measure_says_that_the_machine_was_used_meanwhile(void **state)
{
	char arguments[256];

	(void)state;
	put_machine(22);
	program_put("rules", "noise 0.5\n");
	snprintf(arguments, sizeof(arguments), "measure --quick --simulate %s", program_folder());
	json_decref(ask(arguments));
	expect("Something else used this machine meanwhile");
	assert_non_null(strstr(text, "\ndisturbed: "));
}

static void others_begin_with_their_result(void **state)
{
	char arguments[512];
	double step_s;
	json_t *value;

	(void)state;
	snprintf(
		arguments, sizeof(arguments),
		"estimate '%s/tests/fixtures/estimate/layers.json' --system '%s/tests/fixtures/estimate/system-8.json' "
		"--fabric leaf-spine:2x2,4:1,1Gbit/s",
		program_source(), program_source());
	value = ask(arguments);
	assert_int_equal(sscanf(answer, "A step takes %lf s", &step_s), 1);
	program_check_near(program_number(json_array_get(json_object_get(value, "cases"), 0), "step_s"), step_s,
			   0.0001);
	json_decref(value);
	value = ask_machine("place peer:2", machines[0], "");
	assert_int_equal(json_array_size(json_object_get(value, "jobs")), 1);
	expect("job (peer-bound): GPUs ");
	json_decref(value);
	snprintf(arguments, sizeof(arguments), "--jobs %s", program_put("jobs", "wants a host 2\nwants b peer 9\n"));
	value = ask_machine("place", machines[0], arguments);
	assert_string_equal(answer, "1 of 2 jobs have a place, the others wait.");
	json_decref(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(explain_says_what_its_table_says),
		cmocka_unit_test(losses_are_weighed_against_gains),
		cmocka_unit_test(tune_says_what_its_table_says),
		cmocka_unit_test(measure_says_what_the_plugin_needs_to_find_the_profile),
		cmocka_unit_test(plan_says_what_rings_carry),
		cmocka_unit_test(plan_compared_says_the_same_only_where_it_is),
		cmocka_unit_test(doctor_names_the_worst_first),
		cmocka_unit_test(simulate_says_whether_aggregation_and_order_gain),
		cmocka_unit_test(order_says_the_same_only_where_it_is),
		cmocka_unit_test(measure_says_whether_the_links_are_sound),
		cmocka_unit_test(measure_prints_rates_from_each_to_each),
		cmocka_unit_test(measure_says_that_the_machine_was_used_meanwhile),
		cmocka_unit_test(others_begin_with_their_result),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
