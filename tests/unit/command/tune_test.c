/* SPDX-License-Identifier: Apache-2.0 */
/* The built program: `tributary tune`. */
#include "command/command.h"

#include "program.h"
#include "schema.h"
#include "tributary/predict.h"

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

enum { TEXT_BYTES = 1 << 18 };

static int tune(const char *machine, const char *options, const char *what, char *text)
{
	char call[1024];

	snprintf(call, sizeof(call), "tune --from '%s/topo/%s/machine.topology' %s", program_source(), machine,
		 options);
	return program_run(call, what, text, TEXT_BYTES);
}

static json_t *tune_json(const char *machine, const char *options)
{
	char call[256], *text = malloc(TEXT_BYTES);
	json_t *value;

	assert_non_null(text);
	snprintf(call, sizeof(call), "%s --json", options);
	assert_int_equal(tune(machine, call, PROGRAM_STDOUT, text), COMMAND_OK);
	value = schema_check_output(text);
	free(text);
	return value;
}

static double time_of(const json_t *line, const char *key)
{
	const json_t *value = json_object_get(json_object_get(line, key), "time_us");

	assert_non_null(value);
	return json_number_value(value);
}

/* Returns in how many lines the tuner makes a difference. */
static unsigned check_line(const json_t *line, double *worst_us)
{
	double tuned_us = time_of(line, "tuned"), best_us = tuned_us, alone_us = time_of(line, "not_tuned");
	const json_t *allowed = json_object_get(line, "allowed"), *entry;
	size_t at;

	json_array_foreach(allowed, at, entry)
	{
		double time_us = json_number_value(json_object_get(entry, "time_us"));

		assert_true(time_us > 0);
		best_us = time_us < best_us ? time_us : best_us;
	}
	assert_true(tuned_us <= 1.02 * best_us);
	assert_true(tuned_us <= alone_us);
	/* More bytes take longer. */
	assert_true(best_us >= *worst_us);
	*worst_us = best_us;
	return tuned_us < alone_us;
}

static unsigned check_all(const json_t *value)
{
	const json_t *collectives = json_object_get(value, "collectives"), *collective, *line;
	unsigned differences = 0;
	size_t i, j;

	assert_int_equal(json_array_size(collectives), PREDICT_COLLECTIVE_COUNT);
	json_array_foreach(collectives, i, collective)
	{
		const json_t *sizes = json_object_get(collective, "sizes");
		double worst_us = 0;

		assert_string_equal(json_string_value(json_object_get(collective, "collective")),
				    predict_collective_word((enum predict_collective)i));
		assert_int_equal(json_array_size(sizes), 28);
		assert_int_equal(json_integer_value(json_object_get(json_array_get(sizes, 0), "bytes")), 8);
		assert_int_equal(json_integer_value(json_object_get(json_array_get(sizes, 27), "bytes")), 1 << 30);
		json_array_foreach(sizes, j, line) differences += check_line(line, &worst_us);
	}
	return differences;
}

static void the_tuner_matters_on_one_host_of_a_job_of_several(void **state)
{
	json_t *one = tune_json("nvlink-pairs-4gpu", ""), *either = tune_json("nvlink-pairs-4gpu", "--hosts either"),
	       *two = tune_json("nvlink-pairs-4gpu", "--hosts either --nodes 2");

	(void)state;
	assert_true(json_is_true(json_object_get(one, "tuned")));
	assert_true(json_is_true(json_object_get(either, "tuned")));
	assert_true(json_is_false(json_object_get(two, "tuned")));
	assert_int_equal(json_integer_value(json_object_get(either, "ranks")), 4);
	assert_int_equal(json_integer_value(json_object_get(two, "ranks")), 8);
	assert_true(check_all(one) > 0);
	assert_true(check_all(either) > 0);
	assert_int_equal(check_all(two), 0);
	json_decref(one);
	json_decref(either);
	json_decref(two);
}

static unsigned count(const char *text, const char *word)
{
	unsigned times = 0;

	for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
		times++;
	return times;
}

static void text_names_each_collective_and_json_all_that_is_allowed(void **state)
{
	char *text = malloc(TEXT_BYTES);

	(void)state;
	assert_non_null(text);
	assert_int_equal(tune("two-switch-8gpu-sm120", "", PROGRAM_STDOUT, text), COMMAND_OK);
	for (int c = 0; c < PREDICT_COLLECTIVE_COUNT; c++)
		assert_non_null(strstr(text, predict_collective_word((enum predict_collective)c)));
	assert_int_equal(count(text, "\n    takes "), PREDICT_COLLECTIVE_COUNT);
	/* Without NVLink NCCL does not run LL128, and nothing offers it. */
	assert_int_equal(tune("two-switch-8gpu-sm120", "--json", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_null(strstr(text, "\"LL128\""));
	assert_int_equal(tune("nvlink-pairs-4gpu", "--gpus 0,1 --json", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "\"LL128\""));
	free(text);
}

static const char two_leaves[] = "tributary-cluster 1\n"
				 "switch spine\n"
				 "switch a parent=spine rate=5Mbit/s\n"
				 "switch b parent=spine rate=5Mbit/s\n"
				 "host n[1-4] leaf=a rate=10Mbit/s\n"
				 "host n[5-8] leaf=b rate=10Mbit/s\n";

/* The same table as NCCL gets: what is large goes through collnet where the cluster file says that it gains. */
static void collnet_is_taken_where_the_cluster_says_that_it_gains(void **state)
{
	char path[] = "/tmp/tributary-tune-XXXXXX", options[128], *text = malloc(TEXT_BYTES);
	int fd = mkstemp(path);
	json_t *without, *with, *known;

	(void)state;
	assert_true(text && fd >= 0);
	assert_int_equal(write(fd, two_leaves, strlen(two_leaves)), strlen(two_leaves));
	close(fd);
	without = tune_json("two-switch-8gpu-sm120", "--hosts 8");
	with = tune_json("two-switch-8gpu-sm120", "--hosts 8 --collnet");
	snprintf(options, sizeof(options), "--hosts 8 --cluster %s", path);
	known = tune_json("two-switch-8gpu-sm120", options);
	assert_true(json_is_null(json_object_get(without, "collnet_gain")));
	assert_true(json_is_false(json_object_get(without, "tuned")));
	assert_true(json_is_true(json_object_get(with, "tuned")));
	assert_true(json_real_value(json_object_get(with, "collnet_gain")) < 1);
	assert_true(json_real_value(json_object_get(known, "collnet_gain")) > 1.5);
	assert_int_equal(check_all(without), 0);
	(void)check_all(with);
	assert_true(check_all(known) > 0);
	json_decref(without);
	json_decref(with);
	json_decref(known);
	assert_int_equal(tune("two-switch-8gpu-sm120", "--hosts 8 --json", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_null(strstr(text, "CollNetChain"));
	assert_int_equal(tune("two-switch-8gpu-sm120", options, PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "Tree/Simple to 4 MiB, CollNetChain/Simple"));
	assert_non_null(strstr(text, "\ncollnet: on; large AllReduces at 1.7"));
	assert_int_equal(tune("two-switch-8gpu-sm120", "--hosts 8 --collnet", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "; set NCCL_COLLNET_ENABLE=1 on every host"));
	snprintf(options, sizeof(options), "--hosts 64 --cluster %s", path);
	assert_int_equal(tune("two-switch-8gpu-sm120", options, PROGRAM_STDERR, text), COMMAND_USAGE);
	assert_non_null(strstr(text, "has 8 hosts: the communicator is on 64"));
	unlink(path);
	free(text);
}

#define TABLE                                                                                                         \
	"tributary tuning 1\nnccl 2.28.9\nranks 8\nhosts 2\ngpus A100\nnetwork eth0\nmeasured 2026-11-27T18:30:00Z\n" \
	"choice allreduce 65536 tree ll 4 0 35210 51000\n"

/* What is kept is found by the hash of its text. */
static void a_table_is_kept_once_and_a_wrong_one_is_not(void **state)
{
	char call[512], *text = malloc(TEXT_BYTES);
	json_t *first, *second, *again;

	(void)state;
	assert_non_null(text);
	setenv("TRIBUTARY_STATE_DIR", program_folder(), 1);
	snprintf(call, sizeof(call), "tune --install '%s' --json", program_put("table", TABLE));
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, TEXT_BYTES), COMMAND_OK);
	first = schema_check_output(text);
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, TEXT_BYTES), COMMAND_OK);
	second = schema_check_output(text);
	assert_true(json_is_true(json_object_get(first, "is_new")) && json_is_false(json_object_get(second, "is_new")));
	snprintf(call, sizeof(call), "tune --install '%s' --json", json_string_value(json_object_get(first, "file")));
	assert_int_equal(program_run(call, PROGRAM_STDOUT, text, TEXT_BYTES), COMMAND_OK);
	again = schema_check_output(text);
	assert_true(json_equal(second, again));
	assert_non_null(strstr(call, json_string_value(json_object_get(first, "table"))));
	snprintf(call, sizeof(call), "tune --install '%s'",
		 program_put("wrong", TABLE "choice allreduce 1000 tree ll 0 0 0 0\n"));
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, TEXT_BYTES), COMMAND_FAILED);
	assert_non_null(strstr(text, "line 9"));
	assert_non_null(strstr(text, "\"1000\" is no power of two"));
	assert_int_equal(program_run("tune --install /nowhere", PROGRAM_STDERR, text, TEXT_BYTES), COMMAND_FAILED);
	assert_non_null(strstr(text, "`tributary tune --measure` makes tuning tables"));
	memset(text, '#', 1 << 17);
	text[1 << 17] = '\0';
	snprintf(call, sizeof(call), "tune --install '%s'", program_put("long", text));
	assert_int_equal(program_run(call, PROGRAM_STDERR, text, TEXT_BYTES), COMMAND_FAILED);
	assert_non_null(strstr(text, "it is longer than 64 KiB"));
	unsetenv("TRIBUTARY_STATE_DIR");
	json_decref(first);
	json_decref(second);
	json_decref(again);
	free(text);
}

static void wrong_calls_say_what_is_wrong(void **state)
{
	static const struct {
		const char *options, *words;
	} calls[] = {
		{ "--gpus 0", "one GPU" },
		{ "--gpus 77", "77" },
		{ "--hosts 0", "--hosts" },
		{ "--hosts either --nodes 0", "--nodes" },
		{ "--nodes x", "--nodes" },
		{ "--nodes 2", "--hosts either" },
		{ "--hosts 3 --nodes 1", "--hosts either" },
		{ "--collnet", "several hosts" },
		{ "--turns 7", "--turns is for --measure" },
		{ "-- torchrun", "a command is for --measure" },
		{ "--hosts either --cluster /nowhere", "several hosts" },
		{ "--hosts 3 --cluster /nowhere", "/nowhere" },
	};
	char *text = malloc(TEXT_BYTES);

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_not_equal(tune("nvlink-pairs-4gpu", calls[i].options, PROGRAM_STDERR, text), COMMAND_OK);
		if (!strstr(text, calls[i].words) || count(text, "\n") != 1)
			fail_msg("tune %s: \"%s\"", calls[i].options, text);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_tuner_matters_on_one_host_of_a_job_of_several),
		cmocka_unit_test(text_names_each_collective_and_json_all_that_is_allowed),
		cmocka_unit_test(collnet_is_taken_where_the_cluster_says_that_it_gains),
		cmocka_unit_test(a_table_is_kept_once_and_a_wrong_one_is_not),
		cmocka_unit_test(wrong_calls_say_what_is_wrong),
	};

	return cmocka_run_group_tests_name("command/tune", tests, program_find, NULL);
}
