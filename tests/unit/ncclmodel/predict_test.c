/* SPDX-License-Identifier: Apache-2.0 */
#include "tributary/predict.h"

#include "base/log.h"
#include "unit/plan/machine_spec.h"
#include "predict_observed.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct predict_communicator communicator_of_case(const struct observed_case *observed)
{
	return (struct predict_communicator){
		.rank_count = observed->rank_count,
		.node_count = observed->node_count,
		.sm = observed->sm,
		.cpu = observed->cpu,
		.ring = observed->ring,
		.tree = observed->tree,
		.chain = observed->chain,
		.constants = predict_constants_default,
	};
}

/* NCCL prints one decimal, and counts in floats. */
static void every_line_that_nccl_printed(void **state)
{
	double worst_us = 0, worst_GBps = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(lines); i++) {
		const struct observed_line *line = &lines[i];
		struct predict_communicator communicator = communicator_of_case(&cases[line->in]);
		double off_us, off_GBps;
		struct predict_cost cost;

		if (predict_cost_of(&communicator, line->collective, line->algorithm, line->protocol, &cost) < 0)
			fail_msg("%s: line %zu is one that NCCL runs", cases[line->in].name, i);
		off_us = fabs(cost.latency_us - line->latency_us);
		off_GBps = fabs(cost.rate_GBps - line->rate_GBps);
		worst_us = fmax(worst_us, off_us);
		worst_GBps = fmax(worst_GBps, off_GBps);
		if (off_us > 0.051 || off_GBps > 0.051)
			fail_msg("%s: %s %s %s: %.3f us, %.3f GB/s; NCCL printed %.1f and %.1f", cases[line->in].name,
				 predict_collective_word(line->collective), predict_algorithm_word(line->algorithm),
				 predict_protocol_word(line->protocol), cost.latency_us, cost.rate_GBps,
				 line->latency_us, line->rate_GBps);
	}
	print_message("%zu lines of %zu communicators: at most %.3f us and %.3f GB/s from what NCCL printed\n",
		      COUNT(lines), COUNT(cases), worst_us, worst_GBps);
}

static bool nccl_printed(unsigned in, enum predict_collective collective, enum predict_algorithm algorithm,
			 enum predict_protocol protocol)
{
	for (size_t i = 0; i < COUNT(lines); i++) {
		if (lines[i].in == in && lines[i].collective == collective && lines[i].algorithm == algorithm &&
		    lines[i].protocol == protocol)
			return true;
	}
	return false;
}

static void nothing_that_nccl_would_not_run(void **state)
{
	static const enum predict_collective printed[] = { PREDICT_BROADCAST, PREDICT_ALLGATHER, PREDICT_ALLREDUCE };
	struct predict_cost cost;

	(void)state;
	for (unsigned in = 0; in < COUNT(cases); in++) {
		struct predict_communicator communicator = communicator_of_case(&cases[in]);

		for (unsigned c = 0; c < COUNT(printed); c++) {
			for (int a = 0; a < PREDICT_ALGORITHM_COUNT; a++) {
				for (int p = 0; p < PREDICT_PROTOCOL_COUNT; p++) {
					int r = predict_cost_of(&communicator, printed[c], (enum predict_algorithm)a,
								(enum predict_protocol)p, &cost);

					if ((r == 0) != nccl_printed(in, printed[c], (enum predict_algorithm)a,
								     (enum predict_protocol)p))
						fail_msg("%s: %s %s %s: we say %d", cases[in].name,
							 predict_collective_word(printed[c]),
							 predict_algorithm_word((enum predict_algorithm)a),
							 predict_protocol_word((enum predict_protocol)p), r);
				}
			}
		}
	}
}

/* ------------------------------------------------------------------------------------------------------------- sets */

static void assert_near(double a, double b)
{
	if (fabs(a - b) > 1e-6 * fabs(b) + 1e-6)
		fail_msg("%.9f is not %.9f", a, b);
}

static double judged_GBps(const struct topology *topology, struct plan_request request, const struct plan *plan,
			  unsigned hosts)
{
	struct plan verified = *plan;
	uint64_t rate_Bps;
	struct diag diag;

	request.hosts = hosts;
	for (size_t i = 0; hosts == 1 && i < verified.channel_count; i++)
		verified.channels[i].nic_in = verified.channels[i].nic_out = 0; /* one host has no business with them */
	if (plan_verify_rate(topology, &request, &verified, &rate_Bps, &diag) < 0)
		fail_msg("%u hosts: %s", hosts, diag.text);
	return (double)rate_Bps / 1e9;
}

/* Both speeds of each pattern against the verifier, which knows nothing of sets. */
static void check_file(const struct topology *topology, const struct plan_request *request, const struct plan_set *set)
{
	bool one = set->where == PLAN_ONE_HOST;
	const struct plan *ring = &set->plans[PLAN_RING], *tree = &set->plans[PLAN_TREE];
	struct predict_speeds speeds;

	predict_speeds_of_set(set, PLAN_RING, 0, &speeds);
	assert_near(speeds.intra_GBps, judged_GBps(topology, *request, ring, one ? 1 : 2));
	assert_near(speeds.inter_GBps, judged_GBps(topology, *request, ring, one ? 1 : 3));
	predict_speeds_of_set(set, PLAN_TREE, 0, &speeds);
	assert_near(speeds.intra_GBps, 2 * judged_GBps(topology, *request, tree, one ? 1 : 2));
	assert_near(speeds.inter_GBps, 2 * judged_GBps(topology, *request, tree, one ? 1 : 3));
}

/* What is true for so many nodes, whatever the file says. */
static void check_truth(const struct topology *topology, const struct plan_request *request, const struct plan_set *set,
			size_t nodes)
{
	struct predict_communicator truth;

	predict_of_set(set, nodes, &truth);
	assert_int_equal(truth.rank_count, nodes * request->gpu_count);
	assert_near(nodes > 2 ? truth.ring.inter_GBps : truth.ring.intra_GBps,
		    judged_GBps(topology, *request, &set->plans[PLAN_RING], (unsigned)nodes));
}

static void files_say_what_the_verifier_finds(void **state)
{
	static const struct machine_spec specs[] = {
		{ .name = "two sockets",
		  .gpus = 6,
		  .nics = 2,
		  .sockets = 2,
		  .switches = 2,
		  .p2p = MACHINE_P2P_SOCKET,
		  .gdr = true,
		  .gpu_rate = 240,
		  .uplink_rate = 200,
		  .socket_rate = 160,
		  .socket_back_rate = 140,
		  .memory_rate = 2000,
		  .nic_rate = 160,
		  .wire_rate = 25 },
		{ .name = "one switch, fast card",
		  .gpus = 4,
		  .nics = 1,
		  .sockets = 1,
		  .switches = 1,
		  .p2p = MACHINE_P2P_ALL,
		  .gdr = true,
		  .gpu_rate = 120,
		  .uplink_rate = 120,
		  .memory_rate = 1000,
		  .nic_rate = 240,
		  .wire_rate = 250 },
	};
	unsigned checked = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(specs); i++) {
		struct plan_request request;
		struct topology topology;

		machine_spec_build(&specs[i], 3, &topology);
		assert_int_equal(topology.limit_count, 0);
		assert_int_equal(plan_request_all(&topology, &request), 0);
		for (int where = 0; where < PLAN_WHERE_COUNT; where++) {
			struct plan_set set;

			if (plan_make_set(&topology, &request, (enum plan_where)where, &set) < 0)
				continue;
			check_file(&topology, &request, &set);
			for (size_t nodes = where == PLAN_SEVERAL_HOSTS ? 2 : 1; nodes <= (where ? 4U : 1U); nodes++)
				check_truth(&topology, &request, &set, nodes);
			checked++;
		}
		topology_fini(&topology);
	}
	assert_true(checked >= 2 * COUNT(specs));
}

static void the_quickest_is_the_best(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct predict_communicator communicator = communicator_of_case(&cases[i]);

		for (uint64_t bytes = 1; bytes <= UINT64_C(1) << 40; bytes *= 3) {
			struct predict_choice choice;
			unsigned quicker = 0;

			assert_int_equal(predict_best(&communicator, PREDICT_ALLREDUCE, bytes, &choice), 0);
			for (int e = 0; e < PREDICT_ALGORITHM_COUNT * PREDICT_PROTOCOL_COUNT; e++) {
				double time_us = predict_time_us(&communicator, PREDICT_ALLREDUCE,
								 (enum predict_algorithm)(e / PREDICT_PROTOCOL_COUNT),
								 (enum predict_protocol)(e % PREDICT_PROTOCOL_COUNT),
								 bytes);

				quicker += time_us >= 0 && time_us < choice.time_us;
			}
			assert_int_equal(quicker, 0);
			assert_near(choice.algbw_GBps, (double)bytes / choice.time_us / 1000);
			assert_near(choice.busbw_GBps, choice.algbw_GBps * 2 * ((double)cases[i].rank_count - 1) /
							       (double)cases[i].rank_count);
		}
	}
}

static void nobody_to_talk_to_is_no_time(void **state)
{
	struct predict_communicator communicator = communicator_of_case(&cases[0]), none = { 0 };
	struct predict_choice choice;

	(void)state;
	assert_int_equal(predict_best(&none, PREDICT_ALLREDUCE, 8, &choice), -ENOENT);
	communicator.rank_count = 1;
	assert_int_equal(predict_best(&communicator, PREDICT_ALLREDUCE, 8, &choice), -ENOENT);
	communicator = communicator_of_case(&cases[0]);
	communicator.node_count = 9; /* more than ranks */
	assert_int_equal(predict_best(&communicator, PREDICT_ALLREDUCE, 8, &choice), -ENOENT);
	communicator = communicator_of_case(&cases[0]);
	communicator.ring.intra_GBps = 0;
	assert_true(predict_time_us(&communicator, PREDICT_ALLREDUCE, PREDICT_RING, PREDICT_LL, 8) < 0);
	assert_true(predict_time_us(&communicator, PREDICT_ALLREDUCE, PREDICT_TREE, PREDICT_LL, 8) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_line_that_nccl_printed),      cmocka_unit_test(nothing_that_nccl_would_not_run),
		cmocka_unit_test(files_say_what_the_verifier_finds), cmocka_unit_test(the_quickest_is_the_best),
		cmocka_unit_test(nobody_to_talk_to_is_no_time),
	};

	return cmocka_run_group_tests_name("ncclmodel/predict", tests, NULL, NULL);
}
