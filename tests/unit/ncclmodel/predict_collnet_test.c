/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collnet's costs on several hosts: NCCL's table as its model makes it of our graph file, or of its own search, then the
 * tuner's edit, then NCCL's choice.
 */
#include "predict_costs.h"
#include "unit/plan/machine_spec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { FIRST_LOG2 = 3, LAST_LOG2 = 30, SMALL_LOG2 = 16, AGREED_LOG2 = 19, LARGE_LOG2 = 22, SMALL_NODES = 8 };

/* Two GPUs and a NIC of 10 or 100 Gbit/s. */
static const struct machine_spec machines[] = {
	{ .name = "10 Gbit/s",
	  .gpus = 2,
	  .nics = 1,
	  .sockets = 1,
	  .switches = 1,
	  .p2p = MACHINE_P2P_ALL,
	  .gdr = false,
	  .gpu_rate = 240,
	  .uplink_rate = 240,
	  .memory_rate = 1000,
	  .nic_rate = 160,
	  .wire_rate = 12 },
	{ .name = "100 Gbit/s",
	  .gpus = 2,
	  .nics = 1,
	  .sockets = 1,
	  .switches = 1,
	  .p2p = MACHINE_P2P_ALL,
	  .gdr = false,
	  .gpu_rate = 240,
	  .uplink_rate = 240,
	  .memory_rate = 1000,
	  .nic_rate = 160,
	  .wire_rate = 125 },
};
enum { BOXES = sizeof(machines) / sizeof(machines[0]) };

static struct plan_set set_of(const struct machine_spec *spec, unsigned gain_permille)
{
	struct plan_request request;
	struct topology topology;
	struct plan_set set;

	machine_spec_build(spec, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_EITHER, &set), 0);
	assert_true(set.has[PLAN_CHAIN]);
	set.chain_gain_permille = gain_permille;
	topology_fini(&topology);
	return set;
}

static struct predict_communicator published(const struct machine_spec *spec, size_t nodes, unsigned gain_permille)
{
	struct plan_set set = set_of(spec, gain_permille);
	struct predict_communicator communicator;

	predict_of_file(&set, nodes, &communicator);
	communicator.sm = 86;
	return communicator;
}

/* As NCCL searches by itself: chains as fast as PCIe, or as the NIC. */
static struct predict_communicator resting(const struct machine_spec *spec, size_t nodes, double chain_GBps)
{
	struct predict_communicator communicator = published(spec, nodes, 0);

	communicator.chain.intra_GBps = communicator.chain.inter_GBps = chain_GBps;
	return communicator;
}

static enum predict_algorithm chosen(const struct predict_costs *costs)
{
	enum predict_algorithm algorithm;
	enum predict_protocol protocol;

	assert_true(predict_costs_choose(costs, &algorithm, &protocol));
	return algorithm;
}

static bool edit(size_t ranks, size_t nodes, int collective, uint64_t bytes, const struct predict_table *table)
{
	struct predict_collnet collnet;

	predict_collnet_make(ranks, nodes, NULL, &collnet);
	return predict_collnet_edit(&collnet, collective, bytes, 1, table);
}

enum tuned { UNTUNED, TUNED, TUNED_WITH_CHUNKS };

static bool takes_collnet(const struct predict_communicator *communicator, uint64_t bytes, enum tuned tuned)
{
	struct predict_collnet collnet;
	struct predict_costs costs = predict_costs_of(communicator, PREDICT_ALLREDUCE, bytes, 1);
	struct predict_table table = { &costs.us[0][0], PREDICT_ALGORITHM_COUNT, PREDICT_PROTOCOL_COUNT };

	assert_true(costs.us[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] >= 0);
	predict_collnet_make(communicator->rank_count, communicator->node_count, NULL, &collnet);
	collnet.sizes_chunks = tuned == TUNED_WITH_CHUNKS;
	if (tuned)
		assert_true(predict_collnet_edit(&collnet, PREDICT_ALLREDUCE, bytes, 1, &table));
	return chosen(&costs) == PREDICT_COLLNET_CHAIN;
}

static void two_nodes_never_take_it(void **state)
{
	static const unsigned gains[] = { 0, 1000, 1750, 1999 };

	(void)state;
	for (size_t b = 0; b < BOXES; b++) {
		for (int log2 = FIRST_LOG2; log2 <= LAST_LOG2; log2++) {
			struct predict_communicator rests = resting(&machines[b], 2, 12);

			assert_false(takes_collnet(&rests, UINT64_C(1) << log2, TUNED));
			for (size_t g = 0; g < sizeof(gains) / sizeof(gains[0]); g++) {
				struct predict_communicator ours = published(&machines[b], 2, gains[g]);

				assert_false(takes_collnet(&ours, UINT64_C(1) << log2, TUNED));
			}
		}
	}
}

/* Where NCCL's calls are no longer than the operation, which the interface's version says, and as was measured. */
static void small_ones_take_it_on_some_nodes_alone(void **state)
{
	(void)state;
	for (size_t b = 0; b < BOXES; b++) {
		for (size_t nodes = 2; nodes <= 64; nodes++) {
			for (int log2 = FIRST_LOG2; log2 <= LARGE_LOG2; log2++) {
				struct predict_communicator ours = published(&machines[b], nodes, 1750);
				struct predict_communicator rests = resting(&machines[b], nodes, 12);
				bool small = nodes >= 3 && nodes <= SMALL_NODES && log2 <= SMALL_LOG2;
				uint64_t bytes = UINT64_C(1) << log2;

				assert_false(takes_collnet(&ours, bytes, TUNED));
				assert_false(takes_collnet(&rests, bytes, TUNED));
				if (!small) {
					assert_false(takes_collnet(&ours, bytes, TUNED_WITH_CHUNKS));
					assert_false(takes_collnet(&rests, bytes, TUNED_WITH_CHUNKS));
				} else if (
					nodes ==
					SMALL_NODES) { /* with fewer a tree takes few steps, by what NCCL thinks of networks */
					assert_true(takes_collnet(&ours, bytes, TUNED_WITH_CHUNKS));
					assert_true(takes_collnet(&rests, bytes, TUNED_WITH_CHUNKS));
				}
			}
		}
	}
}

/* The way from GPU to GPU inside the host is longer than a tree's, which takes a quicker protocol. */
static void small_ones_of_many_gpus_go_by_trees(void **state)
{
	static const size_t ranks[] = { 8, 16, 32, 64 };
	float last = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		struct predict_collnet collnet;
		float costs[PREDICT_ALGORITHM_COUNT][PREDICT_PROTOCOL_COUNT];
		struct predict_table table = { &costs[0][0], PREDICT_ALGORITHM_COUNT, PREDICT_PROTOCOL_COUNT };

		predict_collnet_make(ranks[i], 8, NULL, &collnet);
		collnet.sizes_chunks = true;
		for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++)
			for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++)
				costs[a][p] = 50;
		costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = 1;
		assert_true(predict_collnet_edit(&collnet, PREDICT_ALLREDUCE, 1024, 1, &table));
		assert_true(costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] >= last);
		last = costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE];
		assert_int_equal(last < 50, ranks[i] <= 32);
	}
}

/* One leaf, no aggregators: as many bytes as a ring. And where nothing of ours is known. */
static void large_ones_do_not_where_it_brings_nothing(void **state)
{
	static const double searched_GBps[] = { 1.25, 3, 12, 24 };

	(void)state;
	for (size_t b = 0; b < BOXES; b++) {
		for (size_t nodes = 3; nodes <= 64; nodes = nodes * 2 - 2) {
			for (int log2 = SMALL_LOG2 + 1; log2 <= LAST_LOG2; log2++) {
				struct predict_communicator ours = published(&machines[b], nodes, 0);

				/* In the middle what counts is still the number of steps. */
				if (log2 >= LARGE_LOG2 + (nodes > 16 ? 4 : 2))
					assert_false(takes_collnet(&ours, UINT64_C(1) << log2, TUNED));
				for (size_t i = 0; i < sizeof(searched_GBps) / sizeof(searched_GBps[0]); i++) {
					struct predict_communicator rests = resting(&machines[b], nodes,
										    searched_GBps[i]);

					if (rests.chain.intra_GBps * (double)rests.chain.channel_count <
					    0.4 * rests.ring.inter_GBps * (double)rests.ring.channel_count)
						continue; /* slower than the NIC: no search gives that */
					assert_false(takes_collnet(&rests, UINT64_C(1) << log2, TUNED));
				}
			}
		}
	}
}

static void large_ones_do_where_leaves_or_aggregators_save_bytes(void **state)
{
	(void)state;
	for (size_t b = 0; b < BOXES; b++)
		for (size_t nodes = 4; nodes <= 64; nodes *= 2)
			for (int log2 = LARGE_LOG2 + (nodes > 16 ? 2 : 1); log2 <= LAST_LOG2; log2++) {
				struct predict_communicator ours = published(&machines[b], nodes, 1750);

				assert_true(takes_collnet(&ours, UINT64_C(1) << log2, TUNED));
				/* Without our tuner NCCL leaves it. */
				assert_false(takes_collnet(&ours, UINT64_C(1) << log2, UNTUNED));
			}
}

/* By what the heads agreed on, whatever the table says of the channels: chains as fast as PCIe, or veiled. */
static void those_that_were_agreed_on_do_with_and_without_channels(void **state)
{
	(void)state;
	for (size_t b = 0; b < BOXES; b++) {
		for (size_t nodes = 4; nodes <= 64; nodes *= 2) {
			for (int log2 = FIRST_LOG2; log2 <= LAST_LOG2; log2++) {
				uint64_t bytes = UINT64_C(1) << log2;

				for (unsigned published_gain = 0; published_gain <= 1750; published_gain += 1750) {
					struct predict_communicator ours =
						published_gain ? published(&machines[b], nodes, published_gain)
							       : resting(&machines[b], nodes, 0.1);
					struct predict_costs costs = predict_costs_of(&ours, PREDICT_ALLREDUCE, bytes,
										      1);
					struct predict_table table = { &costs.us[0][0], PREDICT_ALGORITHM_COUNT,
								       PREDICT_PROTOCOL_COUNT };
					struct predict_collnet collnet;

					predict_collnet_make(2 * nodes, nodes, NULL, &collnet);
					collnet.gain_permille = 1500;
					assert_true(
						predict_collnet_edit(&collnet, PREDICT_ALLREDUCE, bytes, 1, &table));
					assert_int_equal(chosen(&costs) == PREDICT_COLLNET_CHAIN, log2 >= AGREED_LOG2);
					costs = predict_costs_of(&ours, PREDICT_ALLGATHER, bytes, 1);
					(void)predict_collnet_edit(&collnet, PREDICT_ALLGATHER, bytes, 1, &table);
					assert_int_not_equal(chosen(&costs), PREDICT_COLLNET_CHAIN);
				}
			}
		}
	}
}

static void what_is_not_allowed_stays_so(void **state)
{
	struct predict_communicator ours = published(&machines[0], 8, 1750);
	struct predict_costs costs = predict_costs_of(&ours, PREDICT_ALLREDUCE, 1 << 20, 1), before;
	struct predict_table table = { &costs.us[0][0], PREDICT_ALGORITHM_COUNT, PREDICT_PROTOCOL_COUNT };

	(void)state;
	/* Collectives that no collnet has, one node, and tables of another shape. */
	before = costs;
	assert_false(edit(2 * 8, 8, PREDICT_BROADCAST, 1 << 20, &table));
	assert_false(edit(2 * 1, 1, PREDICT_ALLREDUCE, 1 << 20, &table));
	table.protocol_count = 2;
	assert_false(edit(2 * 8, 8, PREDICT_ALLREDUCE, 1 << 20, &table));
	table.protocol_count = PREDICT_PROTOCOL_COUNT;
	table.algorithm_count = PREDICT_COLLNET_CHAIN;
	assert_false(edit(2 * 8, 8, PREDICT_ALLREDUCE, 1 << 20, &table));
	table.algorithm_count = PREDICT_ALGORITHM_COUNT;
	assert_memory_equal(&costs, &before, sizeof(costs));
	/* No collnet. */
	costs.us[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = -1;
	assert_false(edit(2 * 8, 8, PREDICT_ALLREDUCE, 1 << 20, &table));
	assert_true(costs.us[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] == -1);
	costs.us[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = NAN;
	assert_false(edit(2 * 8, 8, PREDICT_ALLREDUCE, 1 << 20, &table));
	/* NCCL_ALGO=CollNetChain: even on two nodes. */
	for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++)
		for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++)
			costs.us[a][p] = -1;
	costs.us[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = 100;
	assert_false(edit(2 * 2, 2, PREDICT_ALLREDUCE, 1 << 20, &table));
	assert_int_equal(chosen(&costs), PREDICT_COLLNET_CHAIN);
}

/* What NCCL says of its constants may be anything. */
static void constants_that_are_no_times_are_not_believed(void **state)
{
	struct predict_constants constants = predict_constants_default;
	struct predict_collnet by_default, got;
	const double wrong[] = { NAN, -1, INFINITY, 1e30 };

	(void)state;
	predict_collnet_make(16, 8, NULL, &by_default);
	constants.wire_latency_us[PREDICT_NETWORK][PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] += 7;
	predict_collnet_make(16, 8, &constants, &got);
	assert_true(fabs(got.chain_latency_us - by_default.chain_latency_us - 7) < 1e-3);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		constants.wire_latency_us[PREDICT_NETWORK][PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = wrong[i] * 1000;
		predict_collnet_make(16, 8, &constants, &got);
		assert_true(got.chain_latency_us == by_default.chain_latency_us);
		assert_true(got.direct_latency_us == by_default.direct_latency_us);
	}
}

static void chunks_are_cut_to_the_operation(void **state)
{
	static const struct {
		int collective, algorithm, protocol;
		uint64_t bytes;
		size_t chunk_bytes, expected;
	} cases[] = {
		{ PREDICT_ALLREDUCE, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, 1, 32768, 512 },
		{ PREDICT_ALLREDUCE, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, 512, 32768, 512 },
		{ PREDICT_ALLREDUCE, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, 513, 32768, 1024 },
		{ PREDICT_ALLREDUCE, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, 32256, 32768, 32256 },
		{ PREDICT_ALLREDUCE, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, 32257, 32768, 32768 },
		{ PREDICT_ALLREDUCE, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, 32257, 32700, 32700 },
		{ PREDICT_ALLREDUCE, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, 1 << 20, 65536, 65536 },
		{ PREDICT_ALLREDUCE, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, UINT64_MAX, 65536, 65536 },
		{ PREDICT_ALLREDUCE, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, 0, 65536, 65536 },
		{ PREDICT_ALLREDUCE, PREDICT_COLLNET_CHAIN, PREDICT_LL, 1024, 32768, 32768 },
		{ PREDICT_ALLREDUCE, PREDICT_RING, PREDICT_SIMPLE, 1024, 32768, 32768 },
		{ PREDICT_REDUCESCATTER, PREDICT_COLLNET_CHAIN, PREDICT_SIMPLE, 1024, 32768, 32768 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(predict_chunk_bytes(cases[i].collective, cases[i].algorithm, cases[i].protocol,
						     cases[i].bytes, cases[i].chunk_bytes),
				 cases[i].expected);
}

/* NCCL has them go by direct heads, where there are as many as GPUs; what our hosts do for them was not shown to gain. */
static void gathering_and_scattering_are_never_taken(void **state)
{
	static const enum predict_collective collectives[] = { PREDICT_ALLGATHER, PREDICT_REDUCESCATTER };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		for (uint64_t bytes = 1024; bytes <= 1 << 30; bytes *= 32) {
			struct predict_costs costs;
			struct predict_table table = { &costs.us[0][0], PREDICT_ALGORITHM_COUNT,
						       PREDICT_PROTOCOL_COUNT };

			for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++)
				for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++)
					costs.us[a][p] = -1;
			costs.us[PREDICT_RING][PREDICT_LL] = 100;
			costs.us[PREDICT_RING][PREDICT_SIMPLE] = 300;
			/* NCCL's own figure, and one that looks like a veiled one. */
			costs.us[PREDICT_COLLNET_DIRECT][PREDICT_SIMPLE] = i ? 40 : 9000;
			assert_true(edit(2 * 8, 8, (int)collectives[i], bytes, &table));
			assert_int_equal(chosen(&costs), PREDICT_RING);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_nodes_never_take_it),
		cmocka_unit_test(small_ones_take_it_on_some_nodes_alone),
		cmocka_unit_test(small_ones_of_many_gpus_go_by_trees),
		cmocka_unit_test(large_ones_do_not_where_it_brings_nothing),
		cmocka_unit_test(large_ones_do_where_leaves_or_aggregators_save_bytes),
		cmocka_unit_test(those_that_were_agreed_on_do_with_and_without_channels),
		cmocka_unit_test(what_is_not_allowed_stays_so),
		cmocka_unit_test(constants_that_are_no_times_are_not_believed),
		cmocka_unit_test(chunks_are_cut_to_the_operation),
		cmocka_unit_test(gathering_and_scattering_are_never_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
