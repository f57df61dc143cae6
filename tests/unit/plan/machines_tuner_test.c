/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tuner makes NCCL choose, on all machines of topo/ (TRIBUTARY_SOURCE) and all subsets of their GPUs, on one host
 * and on several, 8 bytes to 1 GiB, by the model with the rates that are true for so many hosts: against the best that is
 * allowed, and against what NCCL would choose from our graph file without the tuner.
 */
#include "base/log.h"
#include "machine_spec.h"
#include "unit/ncclmodel/predict_costs.h"
#include "support/machines.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATH_BYTES = 1024, SIZES = 28 /* 2^3 to 2^30 */, TALLIES = 3, LARGE_STEP = 6007 };

/* A sanitized build takes ten times as long and looks for other mistakes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SUBSET_STEP = 23 };
#else
enum { SUBSET_STEP = 1 };
#endif

static const char *const where_words[] = { "one host", "several hosts", "either" };

static const char *const on_words[TALLIES] = { "one:", "2, 3 and 8:", "2, 3 and 8, with collnet:" };

struct tally {
	unsigned cases, edited, better;
	double worst;      /* chosen cost over the best allowed one */
	double worst_nccl; /* the same without the tuner */
	double worse;      /* chosen cost over NCCL's choice; above 1: the tuner did harm */
};

struct chance {
	const char *machine;
	const struct plan_set *set;
	struct predict_communicator truth, file;
	enum predict_collective collective;
	uint64_t bytes;
	unsigned banned; /* a bit for each of tree and ring, LL to Simple */
};

static void ban(struct predict_costs *costs, unsigned banned)
{
	for (unsigned i = 0; i < 6; i++)
		if (banned & 1U << i)
			costs->us[i / 3][i % 3] = -1;
}

/* The true cost of what a table makes NCCL choose. */
static double chosen_us(const struct predict_costs *costs, const struct predict_costs *truth)
{
	enum predict_algorithm algorithm;
	enum predict_protocol protocol;

	assert_true(predict_costs_choose(costs, &algorithm, &protocol));
	return (double)truth->us[algorithm][protocol];
}

static void take_chance(const struct chance *chance, const struct predict_tuner *tuner, struct tally *tally)
{
	struct predict_costs truth = predict_costs_of(&chance->truth, chance->collective, chance->bytes, 1);
	struct predict_costs costs = predict_costs_of(&chance->file, chance->collective, chance->bytes, 1);
	struct predict_table table = { &costs.us[0][0], PREDICT_ALGORITHM_COUNT, PREDICT_PROTOCOL_COUNT };
	enum predict_algorithm algorithm;
	enum predict_protocol protocol;
	struct predict_table true_table = { &truth.us[0][0], PREDICT_ALGORITHM_COUNT, PREDICT_PROTOCOL_COUNT };
	double best_us, nccl_us, ours_us;

	ban(&truth, chance->banned);
	ban(&costs, chance->banned);
	predict_collnet_truth(&tuner->collnet, (int)chance->collective, chance->bytes, &true_table);
	if (!predict_costs_choose(&costs, &algorithm, &protocol))
		return;
	best_us = chosen_us(&truth, &truth);
	nccl_us = chosen_us(&costs, &truth);
	tally->edited += predict_tuner_edit(tuner, (int)chance->collective, chance->bytes, 1, &table);
	ours_us = chosen_us(&costs, &truth);
	tally->cases++;
	tally->better += ours_us < nccl_us;
	if (ours_us / best_us > tally->worst)
		tally->worst = ours_us / best_us;
	if (nccl_us / best_us > tally->worst_nccl)
		tally->worst_nccl = nccl_us / best_us;
	if (ours_us / nccl_us > tally->worse)
		tally->worse = ours_us / nccl_us;
	if (ours_us > 1.02 * best_us || ours_us > nccl_us * (1 + 1e-6))
		fail_msg("%s, %zu GPUs on each of %zu hosts, %s, %llu bytes: %.2f us, at best %.2f, NCCL alone %.2f",
			 chance->machine, chance->set->plans[PLAN_RING].gpu_count, chance->truth.node_count,
			 predict_collective_word(chance->collective), (unsigned long long)chance->bytes, ours_us,
			 best_us, nccl_us);
}

/* With collnet, and what the cluster file says that it gains, or without: chain_gain_permille below 0. */
static void try_set(const char *machine, const struct topology *topology, const struct plan_request *request,
		    struct plan_set *set, size_t nodes, int chain_gain_permille, struct tally *tally)
{
	struct chance chance = { .machine = machine, .set = set };
	struct predict_tuner tuner;

	set->chain_gain_permille = chain_gain_permille < 0 ? 0 : (unsigned)chain_gain_permille;
	predict_of_set(set, nodes, &chance.truth);
	chance.truth.links_decide = nodes == 1; /* as perf/emulated_nccl.py finds */
	predict_of_file(set, nodes, &chance.file);
	predict_of_machine(topology, request, &chance.truth);
	predict_of_machine(topology, request, &chance.file);
	if (chance.truth.rank_count < 2 || !chance.truth.ring.usable)
		return;
	if (chain_gain_permille < 0)
		chance.truth.chain.usable = chance.file.chain.usable = false;
	predict_tuner_make(set, chance.truth.rank_count, nodes, chance.truth.sm, NULL, &tuner);
	if (chain_gain_permille >= 0) { /* as the plugin's tuner */
		predict_collnet_make(chance.truth.rank_count, nodes, NULL, &tuner.collnet);
		tuner.collnet.sizes_chunks = chain_gain_permille > 0;
	}
	for (int c = 0; c < PREDICT_COLLECTIVE_COUNT; c++) {
		for (int i = 0; i < SIZES; i++) {
			chance.collective = (enum predict_collective)c;
			chance.bytes = UINT64_C(8) << i;
			chance.banned = 0;
			take_chance(&chance, &tuner, tally);
			chance.banned = ((unsigned)i * 29 + (unsigned)c * 11) % 64; /* a user's NCCL_ALGO, NCCL_PROTO */
			take_chance(&chance, &tuner, tally);
		}
	}
}

static void try_subset(const char *machine, const struct topology *topology, const struct plan_request *request,
		       struct tally tallies[PLAN_WHERE_COUNT][TALLIES])
{
	static const int gains[] = { -1, 0, 1500, 2000 };
	struct plan_set set;

	for (int where = 0; where < (request->nic_count ? PLAN_WHERE_COUNT : 1); where++) {
		int r = plan_make_set(topology, request, (enum plan_where)where, &set);

		if (r == -ENODATA)
			continue;
		assert_int_equal(r, 0);
		if (where != PLAN_SEVERAL_HOSTS)
			try_set(machine, topology, request, &set, 1, -1, &tallies[where][0]);
		for (size_t nodes = 2; where != PLAN_ONE_HOST && nodes <= 8; nodes += nodes > 2 ? 5 : 1)
			for (size_t i = 0; i < sizeof(gains) / sizeof(gains[0]); i++)
				try_set(machine, topology, request, &set, nodes, gains[i],
					&tallies[where][gains[i] < 0 ? 1 : 2]);
	}
}

static void try_machine(void *arg, const char *name, const struct topology *topology)
{
	struct tally(*tallies)[TALLIES] = arg;
	struct plan_request all;
	unsigned last, step;

	assert_int_equal(plan_request_all(topology, &all), 0);
	last = (1U << all.gpu_count) - 1;
	step = all.gpu_count > 8 ? LARGE_STEP : SUBSET_STEP;
	for (unsigned mask = 1; mask <= last; mask = mask < last && mask + step > last ? last : mask + step) {
		struct plan_request request = machine_subset(&all, mask, 2);

		try_subset(name, topology, &request, tallies);
	}
}

static void print_tallies(struct tally tallies[PLAN_WHERE_COUNT][TALLIES])
{
	for (int where = 0; where < PLAN_WHERE_COUNT; where++) {
		for (int several = 0; several < TALLIES; several++) {
			const struct tally *tally = &tallies[where][several];

			if (tally->cases)
				print_message("planned for %-13s run on %-25s %8u choices, %u edited, %u better than "
					      "NCCL's; worst over the best allowed %.4f (NCCL alone %.4f), over "
					      "NCCL's %.4f\n",
					      where_words[where], on_words[several], tally->cases, tally->edited,
					      tally->better, tally->worst, tally->worst_nccl, tally->worse);
		}
	}
}

static void never_worse_than_nccl_and_near_the_best(void **state)
{
	struct tally tallies[PLAN_WHERE_COUNT][TALLIES] = { 0 };
	unsigned machines = machines_each(try_machine, tallies);

	(void)state;
	print_message("%u machines\n", machines);
	print_tallies(tallies);
	assert_true(machines > 0);
	/* The tuner has something to do. */
	assert_true(tallies[PLAN_EITHER][0].edited > 0);
	assert_true(tallies[PLAN_EITHER][0].better > 0);
	assert_true(tallies[PLAN_EITHER][2].better > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_worse_than_nccl_and_near_the_best),
	};

	return cmocka_run_group_tests_name("plan/machines_tuner", tests, NULL, NULL);
}
