/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tables a process takes of a folder that several clusters share, what it tells its peers of the table that TRIBUTARY_TUNING
 * names, and that connections compare it.
 */
#include "plugin/steer/tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/params.h"
#include "nccl/types.h"
#include "plugin/net.h"
#include "plugin/state.h"
#include "profile/store_tuning.h"
#include "support/tree.h"
#include "unit/plugin/fake_rdma.h"
#include "unit/plugin/fake_transport.h"

#define NAMED "00ab34cd56ef7890"

enum { NCCL_2_28_9 = 22809 };

static const char *tuning, *tuner, *algo, *proto;

static const char *get(const char *name)
{
	static const struct {
		const char *name, **value;
	} variables[] = {
		{ "TRIBUTARY_TUNING", &tuning },
		{ "TRIBUTARY_TUNER", &tuner },
		{ "NCCL_ALGO", &algo },
		{ "NCCL_PROTO", &proto },
	};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		if (!strcmp(name, variables[i].name))
			return *variables[i].value;
	return NULL;
}

static uint64_t told(unsigned nccl_version)
{
	const struct params_source source = { .get = get };
	struct steer_tuning loaded;
	struct params params;
	uint64_t number;

	params_load(&source, NULL, NULL, &params);
	snprintf(params.state_dir, sizeof(params.state_dir), "/nonexistent");
	steer_tuning_load(&params, &source, "/nonexistent", "", nccl_version, &loaded);
	number = steer_tuning_told(&loaded);
	steer_tuning_fini(&loaded);
	return number;
}

/* All that changes what a rank would choose. */
static void only_ranks_that_follow_alike_tell_the_same(void **state)
{
	uint64_t whole, numbers[4];

	(void)state;
	tuning = tuner = algo = proto = NULL;
	assert_true(told(NCCL_2_28_9) == 0);
	tuning = NAMED;
	whole = told(NCCL_2_28_9);
	assert_true(whole != 0 && whole == told(NCCL_2_28_9));
	assert_true(told(0) == 0); /* no environment half: that rank's init fails */
	tuner = "0";
	assert_true(told(NCCL_2_28_9) == 0);
	tuner = NULL;
	proto = "LL";
	numbers[0] = told(NCCL_2_28_9);
	proto = NULL;
	algo = "LL";
	numbers[1] = told(NCCL_2_28_9);
	algo = NULL;
	tuning = "00ab34cd56ef7891";
	numbers[2] = told(NCCL_2_28_9);
	numbers[3] = whole;
	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < i; k++)
			assert_true(numbers[i] && numbers[k] && numbers[i] != numbers[k]);
}

static void a_connection_shows_who_follows_another_table(void **state)
{
	uint8_t handle[NCCL_HANDLE_BYTES];
	void *context, *listener, *connection = NULL;

	(void)state;
	setenv("TRIBUTARY_NET", "tcp", 1);
	setenv("TRIBUTARY_IF", "lo", 1);
	setenv("TRIBUTARY_STEER", "off", 1);
	plugin_state_reset(NULL, &fake_rdma_none);
	assert_int_equal(plugin_net_init(1, -1, log_lines_sink, &context), 0);
	plugin_state_tell_tuning(7);
	assert_int_equal(plugin_net_listen(0, handle, &listener), 0);
	for (uint64_t other = 6; other < 10; other += 2) {
		plugin_state_tell_tuning(other - 6); /* 0: none */
		assert_int_not_equal(plugin_net_connect(0, -1, handle, &connection), 0);
		assert_non_null(strstr(log_lines()->warning, "does not follow the same tuning table"));
	}
	plugin_state_tell_tuning(7);
	assert_int_equal(plugin_net_connect(0, -1, handle, &connection), 0);
	if (connection)
		assert_int_equal(plugin_net_close_connection(connection), 0);
	assert_int_equal(plugin_net_close_listener(listener), 0);
	assert_int_equal(plugin_net_finalize(context), 0);
	plugin_state_reset(NULL, NULL);
}

static uint64_t table_saved(const struct params *params, size_t hosts, const char *gpus, const char *network)
{
	struct tuning_table table = {
		.nccl_version = NCCL_2_28_9, .rank_count = 4, .host_count = hosts, .measured = "2026-11-28T12:00:00Z"
	};
	char path[STORE_PATH_BYTES];
	struct diag why;
	uint64_t hash;

	snprintf(table.gpus, sizeof(table.gpus), "%s", gpus);
	snprintf(table.network, sizeof(table.network), "%s", network);
	table.choices[PREDICT_ALLREDUCE][20] =
		(struct tuning_choice){ .bytes_max = 1 << 20, .algorithm = PREDICT_TREE, .protocol = PREDICT_LL };
	assert_int_equal(store_tuning_save(params, &table, &hash, path, &why), 0);
	return hash;
}

static void a_folder_of_several_clusters(void **state)
{
	static const struct {
		size_t hosts;
		const char *gpus, *network;
		bool is_followed;
	} cases[] = {
		{ 1, "NVIDIA A100", "tcp 25 Gbit/s", true },  { 1, "NVIDIA A100", "tcp 10 Gbit/s", true },
		{ 1, "NVIDIA H100", "tcp 25 Gbit/s", false }, { 2, "NVIDIA A100", "tcp 25 Gbit/s", true },
		{ 2, "NVIDIA A100", "not known", true },      { 2, "not known", "tcp 25 Gbit/s", true },
		{ 2, "NVIDIA A100", "tcp 10 Gbit/s", false }, { 2, "NVIDIA A100", "verbs 25 Gbit/s", false },
		{ 2, "NVIDIA A100", "tcp 25", false },        { 2, "NVIDIA H100", "tcp 25 Gbit/s", false },
	};
	static const struct params_source source = { .get = get };

	(void)state;
	tuning = tuner = algo = proto = NULL;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tree machine;
		char name[TUNING_HASH_BYTES];
		struct steer_tuning loaded;
		struct params params;
		uint64_t hash;

		tree_open(&machine);
		tree_text(&machine, "proc/driver/nvidia/gpus/0000:07:00.0/information",
			  "Model: \t\t NVIDIA A100\nIRQ:   11\n");
		params_load(&source, NULL, NULL, &params);
		snprintf(params.state_dir, sizeof(params.state_dir), "%s", machine.root);
		hash = table_saved(&params, cases[i].hosts, cases[i].gpus, cases[i].network);
		for (int is_named = 0; is_named < 2; is_named++) {
			const struct steer_table *found;

			tuning_hash_format(hash, name);
			params.tuning = is_named ? hash : PARAMS_TUNING_AUTO;
			steer_tuning_load(&params, &source, machine.root, "tcp 25 Gbit/s", NCCL_2_28_9, &loaded);
			found = steer_tuning_find(&loaded, 4, cases[i].hosts);
			if ((found && found->hash == hash) != (is_named || cases[i].is_followed))
				fail_msg("%s of %s and %s on %zu hosts", name, cases[i].gpus, cases[i].network,
					 cases[i].hosts);
			steer_tuning_fini(&loaded);
		}
		tree_close(&machine);
	}
}

/* As tune.py makes the words from the plugin's line in NCCL's log: tests/bench/test_tune.py has the same. */
static void the_network_in_words(void **state)
{
	struct steer_nets nets = { .ours = true, .count = 2, .at = { { .speed_Bps = 3125000000 } } };
	char words[TUNING_NAME_BYTES];

	(void)state;
	steer_tuning_network(&nets, "tcp", words);
	assert_string_equal(words, "tcp 25 Gbit/s");
	nets.at[1].speed_Bps = 12500000;
	steer_tuning_network(&nets, "verbs", words);
	assert_string_equal(words, "verbs 25.1 Gbit/s");
	nets.at[0].speed_Bps = 0;
	steer_tuning_network(&nets, "tcp", words);
	assert_string_equal(words, "tcp 100 Mbit/s");
	nets.at[1].speed_Bps = 0;
	steer_tuning_network(&nets, "tcp", words);
	assert_string_equal(words, "tcp");
	nets.ours = false;
	steer_tuning_network(&nets, "tcp", words);
	assert_string_equal(words, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_of_several_clusters),
		cmocka_unit_test(the_network_in_words),
		cmocka_unit_test(only_ranks_that_follow_alike_tell_the_same),
		cmocka_unit_test(a_connection_shows_who_follows_another_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
