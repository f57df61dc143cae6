/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_spec.h"

#include "base/log.h"
#include "plan/model.h"
#include "base/sys.h"
#include "unit/topology/machine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const pattern_words[] = { "ring", "tree", "chain" };

struct tally {
	unsigned cases, below_98, below_90, exact;
	double slowest_ms, total_ms, worst, shares;
	size_t channels;
};

static void plan_one(const struct machine_spec *spec, const struct topology *topology,
		     const struct plan_request *request, enum plan_pattern pattern, struct tally *tally)
{
	double start_ms = machine_cpu_ms(), ms, share;
	struct plan plan;
	struct diag diag;

	assert_int_equal(plan_make(topology, request, pattern, &plan), 0);
	ms = machine_cpu_ms() - start_ms;
	if (plan_verify(topology, request, &plan, &diag) < 0)
		fail_msg("%s, %zu GPUs, %u hosts, %s: %s", spec->name, request->gpu_count, request->hosts,
			 pattern_words[pattern], diag.text);
	share = (double)plan_total_Bps(&plan) / (double)plan.bound_Bps;
	tally->cases++;
	tally->shares += share;
	tally->channels += plan.channel_count;
	tally->below_98 += share < 0.98;
	tally->below_90 += share < 0.90;
	tally->exact += plan.exact;
	tally->total_ms += ms;
	tally->slowest_ms = ms > tally->slowest_ms ? ms : tally->slowest_ms;
	tally->worst = share < tally->worst ? share : tally->worst;
}

static void print_tally(const char *name, const struct tally *tally)
{
	print_message("%-40s %5u plans, %u below 98 %% of the bound, least %.1f %%, %u proved best; "
		      "%.2f ms on average, %.2f ms at most\n",
		      name, tally->cases, tally->below_98, 100 * tally->worst, tally->exact,
		      tally->total_ms / tally->cases, tally->slowest_ms);
}

static void add_tally(struct tally *sum, const struct tally *tally)
{
	sum->cases += tally->cases;
	sum->below_98 += tally->below_98;
	sum->below_90 += tally->below_90;
	sum->exact += tally->exact;
	sum->total_ms += tally->total_ms;
	sum->slowest_ms = tally->slowest_ms > sum->slowest_ms ? tally->slowest_ms : sum->slowest_ms;
	sum->worst = tally->worst < sum->worst ? tally->worst : sum->worst;
}

/* A sanitized build takes ten times as long and looks for other mistakes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SUBSET_STEP = 7 };
#else
enum { SUBSET_STEP = 1 };
#endif

/* Of sixteen GPUs some subsets of each size; with TRIBUTARY_TEST_LONG=1 every 149th. */
static unsigned sample_step(void)
{
	return getenv("TRIBUTARY_TEST_LONG") ? 149 : 6007;
}

/* Subsets of up to eight GPUs: each one. */
static struct tally plan_subsets(const struct machine_spec *spec)
{
	struct tally tally = { .worst = 1 };
	struct plan_request all;
	struct topology topology;
	unsigned last, step = spec->gpus > 8 ? sample_step() : SUBSET_STEP;

	machine_spec_build(spec, 11, &topology);
	assert_int_equal(plan_request_all(&topology, &all), 0);
	last = (1U << all.gpu_count) - 1;
	for (unsigned mask = 1; mask <= last; mask = mask < last && mask + step > last ? last : mask + step) {
		for (unsigned hosts = 1; hosts <= 3; hosts++) {
			struct plan_request request = machine_subset(&all, mask, hosts);

			request.crossnic = hosts == 3;
			for (int pattern = 0; pattern <= PLAN_CHAIN; pattern++)
				plan_one(spec, &topology, &request, (enum plan_pattern)pattern, &tally);
		}
	}
	topology_fini(&topology);
	print_tally(spec->name, &tally);
	return tally;
}

/* Of each machine, so that less fails: what plans move on average, of their bounds, and in how many channels. */
static const struct {
	double share;
	size_t channels;
} records[] = {
	{ 1.0000000, 153 },   /* single root, no switch */
	{ 1.0000000, 6705 },  /* single root, four switches */
	{ 1.0000000, 7769 },  /* dual root, two switches */
	{ 0.9998484, 3057 },  /* dual root, two switches, no P2P across */
	{ 1.0000000, 8097 },  /* dual root, P2P off */
	{ 0.9987807, 17379 }, /* two levels of switches */
	{ 1.0000000, 3321 },  /* one switch above four */
	{ 0.9998741, 8417 },  /* cascade */
	{ 0.9995340, 1809 },  /* asymmetric sockets */
	{ 0.9987546, 13175 }, /* NVLink pairs */
	{ 1.0000000, 264 },   /* NVLink mesh of four */
	{ 1.0000000, 1192 },  /* NVLink mesh of six */
	{ 0.9997430, 2054 },  /* slots that share both directions */
	{ 1.0000000, 1671 },  /* measured pairs */
	{ 0.9898733, 19613 }, /* every link deviates */
	{ 0.9997792, 934 },   /* memory is the narrowest */
	{ 0.9977187, 678 },   /* sixteen, four switches */
	{ 0.9932256, 998 },   /* sixteen, every link deviates */
	{ 0.9887996, 883 },   /* sixteen in an NVLink mesh */
	{ 0.9994553, 169 },   /* sixteen, measured pairs, P2P off */
	{ 1.0000000, 27 },    /* two GPUs */
};

static void compare_with_record(const struct tally *tally, size_t i)
{
	if (SUBSET_STEP > 1 || (machine_specs[i].gpus > 8 && getenv("TRIBUTARY_TEST_LONG")))
		return;
	if (tally->shares / tally->cases < records[i].share - 1e-5 || tally->channels > records[i].channels)
		fail_msg("%s: %.7f of the bound in %zu channels, which was %.7f in %zu", machine_specs[i].name,
			 tally->shares / tally->cases, tally->channels, records[i].share, records[i].channels);
}

static void every_subset_gets_a_plan_that_the_verifier_accepts_and_that_is_near_its_bound(void **state)
{
	struct tally sum = { .worst = 1 };

	(void)state;
	assert_int_equal(machine_spec_count, sizeof(records) / sizeof(records[0]));
	for (size_t i = 0; i < machine_spec_count; i++) {
		struct tally tally = plan_subsets(&machine_specs[i]);

		compare_with_record(&tally, i);

		/* Rings that share no link are not looked for where no switch joins so many GPUs: no such machine is built. */
		assert_true(tally.worst >= (machine_specs[i].nvlink_mesh && machine_specs[i].gpus > 8 ? 0.86 : 0.9));
		if (machine_specs[i].gpus <= 8)
			add_tally(&sum, &tally);
	}
	print_tally("all of up to eight GPUs", &sum);
	assert_true(sum.below_98 * 20 <= sum.cases);
}

/* Names instead of numbers: what a plan says whatever order the graph is in. */
static void assert_same_plan(const struct topology *a, const struct plan_request *a_request, const struct topology *b,
			     const struct plan_request *b_request, enum plan_pattern pattern)
{
	struct plan first, second;

	assert_int_equal(plan_make(a, a_request, pattern, &first), 0);
	assert_int_equal(plan_make(b, b_request, pattern, &second), 0);
	for (size_t i = 0; i < a_request->gpu_count; i++)
		assert_string_equal(a->vertices[a_request->gpus[i]].name, b->vertices[b_request->gpus[i]].name);
	for (size_t i = 0; i < a_request->nic_count; i++)
		assert_string_equal(a->vertices[a_request->nics[i]].name, b->vertices[b_request->nics[i]].name);
	assert_memory_equal(&first, &second, sizeof(first));
}

static void the_order_of_the_graph_does_not_change_the_plan(void **state)
{
	(void)state;
	for (size_t i = 0; i < machine_spec_count; i++) {
		struct topology topology, shuffled;
		struct plan_request request, other;
		uint64_t seed = 17 + i;

		machine_spec_build(&machine_specs[i], 23, &topology);
		machine_shuffle(&topology, &seed, &shuffled);
		assert_int_equal(plan_request_all(&topology, &request), 0);
		assert_int_equal(plan_request_all(&shuffled, &other), 0);
		for (unsigned hosts = 1; hosts <= 2; hosts++) {
			request.hosts = other.hosts = hosts;
			for (int pattern = 0; pattern <= PLAN_CHAIN; pattern++)
				assert_same_plan(&topology, &request, &shuffled, &other, (enum plan_pattern)pattern);
		}
		topology_fini(&topology);
		topology_fini(&shuffled);
	}
}

/* NCCL tries no rate below 18 GB/s on such a machine (sm 120), and falls back to one channel at 0.1 GB/s. */
static void two_switches_without_p2p_across_get_all_that_the_sockets_carry(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct plan plan;

	(void)state;
	machine_spec_build(&machine_sm_120, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make(&topology, &request, PLAN_RING, &plan), 0);
	assert_int_equal(plan_total_Bps(&plan), 16000000000);
	assert_int_equal(plan.bound_Bps, 16000000000);
	assert_true(plan.exact);
	assert_int_equal(plan.intra_class, TOPOLOGY_CLASS_SYS);
	topology_fini(&topology);
}

/* Both NVLink pairs and both sockets are used once by a ring that has the fewest crossings. */
static void of_equal_rates_the_fewest_crossings_win(void **state)
{
	static const struct machine_spec spec = { .name = "flat",
						  .gpus = 6,
						  .sockets = 2,
						  .switches = 2,
						  .gpu_rate = 100,
						  .uplink_rate = 900,
						  .socket_rate = 900,
						  .memory_rate = 9000,
						  .p2p = MACHINE_P2P_SOCKET };
	struct plan_request request;
	struct topology topology;
	struct plan plan;
	unsigned changes = 0;

	(void)state;
	machine_spec_build(&spec, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make(&topology, &request, PLAN_RING, &plan), 0);
	assert_int_equal(plan.channel_count, 1);
	for (size_t i = 0; i < 6; i++)
		changes += plan.channels[0].order[i] / 3 != plan.channels[0].order[(i + 1) % 6] / 3;
	assert_int_equal(changes, 2);
	topology_fini(&topology);
}

static void what_crosses_nothing_that_is_known_is_unbounded(void **state)
{
	static const struct machine_spec spec = { .name = "unknown", .gpus = 5, .nics = 1, .sockets = 1 };
	struct plan_request request;
	struct topology topology;
	struct plan plan;
	struct diag diag;

	(void)state;
	machine_spec_build(&spec, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	for (unsigned hosts = 1; hosts <= 2; hosts++) {
		request.hosts = hosts;
		assert_int_equal(plan_make(&topology, &request, PLAN_RING, &plan), 0);
		assert_int_equal(plan_verify(&topology, &request, &plan, &diag), 0);
		assert_int_equal(plan.channel_count, 1);
		assert_int_equal(plan.rate_Bps, PLAN_UNBOUNDED_BPS);
	}
	topology_fini(&topology);
}

static void no_more_channels_than_asked_for(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct plan plan;
	uint64_t before_Bps = 0;

	(void)state;
	machine_spec_build(&machine_specs[1], 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	request.hosts = 2;
	for (unsigned most = 1; most <= PLAN_CHANNELS_MAX; most++) {
		request.channels_max = most;
		assert_int_equal(plan_make(&topology, &request, PLAN_RING, &plan), 0);
		assert_true(plan.channel_count <= most);
		assert_true(plan_total_Bps(&plan) + PLAN_CHANNELS_MAX >= before_Bps);
		before_Bps = plan_total_Bps(&plan);
	}
	topology_fini(&topology);
}

static void little_work_still_gives_a_plan(void **state)
{
	(void)state;
	for (size_t i = 0; i < machine_spec_count; i++) {
		struct plan_request request;
		struct topology topology;
		struct plan plan;
		struct diag diag;

		machine_spec_build(&machine_specs[i], 1, &topology);
		assert_int_equal(plan_request_all(&topology, &request), 0);
		request.hosts = 2;
		request.work_limit = 1;
		for (int pattern = 0; pattern <= PLAN_CHAIN; pattern++) {
			assert_int_equal(plan_make(&topology, &request, (enum plan_pattern)pattern, &plan), 0);
			assert_int_equal(plan_verify(&topology, &request, &plan, &diag), 0);
		}
		topology_fini(&topology);
	}
}

static void wrong_requests_are_refused(void **state)
{
	struct plan_request good, bad;
	struct topology topology;
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_GPU, "gpu9");
	struct plan plan;

	(void)state;
	machine_spec_build(&machine_specs[0], 1, &topology);
	assert_int_equal(plan_request_all(&topology, &good), 0);
	bad = good;
	bad.gpu_count = 0;
	assert_int_equal(plan_make(&topology, &bad, PLAN_RING, &plan), -EINVAL);
	bad.gpu_count = PLAN_GPUS_MAX + 1;
	assert_int_equal(plan_make(&topology, &bad, PLAN_RING, &plan), -EINVAL);
	bad = good;
	bad.gpus[1] = bad.gpus[0];
	assert_int_equal(plan_make(&topology, &bad, PLAN_RING, &plan), -EINVAL);
	bad = good;
	bad.gpus[1] = good.nics[0];
	assert_int_equal(plan_make(&topology, &bad, PLAN_RING, &plan), -EINVAL);
	bad.gpus[1] = TOPOLOGY_NONE;
	assert_int_equal(plan_make(&topology, &bad, PLAN_RING, &plan), -EINVAL);
	bad = good;
	bad.hosts = 0;
	assert_int_equal(plan_make(&topology, &bad, PLAN_RING, &plan), -EINVAL);
	bad.hosts = 2;
	bad.nic_count = 0;
	assert_int_equal(plan_make(&topology, &bad, PLAN_TREE, &plan), -EINVAL);
	bad = good;
	bad.channels_max = PLAN_CHANNELS_MAX + 1;
	assert_int_equal(plan_make(&topology, &bad, PLAN_RING, &plan), -EINVAL);
	assert_int_equal(plan_make(&topology, &good, PLAN_PATTERN_COUNT, &plan), -EINVAL);
	bad = good;
	assert_int_equal(topology_add_vertex(&topology, &vertex, &bad.gpus[0]), 0);
	assert_int_equal(plan_make(&topology, &bad, PLAN_RING, &plan), -ENOENT);
	topology_fini(&topology);
}

#ifdef TRIBUTARY_FAULTS
static void without_memory_there_is_no_plan_and_no_leak(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct plan plan;
	uint64_t calls = 0;

	(void)state;
	machine_spec_build(&machine_specs[2], 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	request.hosts = 2;
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	assert_int_equal(plan_make(&topology, &request, PLAN_RING, &plan), 0);
	calls = sys_fault_calls(SYS_FAULT_MEMORY);
	for (uint64_t nth = 1; nth <= calls; nth++) {
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		assert_int_equal(plan_make(&topology, &request, PLAN_RING, &plan), -ENOMEM);
	}
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	topology_fini(&topology);
}
#endif

/* By hand: what limits each is in the comment. */
static void cuts_find_what_limits_a_machine(void **state)
{
	static const struct {
		struct machine_spec spec;
		enum plan_pattern pattern;
		unsigned hosts;
		uint64_t bound_Bps;
	} cases[] = {
		/* one GPU's link */
		{ { .gpus = 4, .sockets = 1, .gpu_rate = 100, .memory_rate = 9000 }, PLAN_RING, 1, 10000000000 },
		/* a chain has three hops up and three down, and there are four GPUs' links */
		{ { .gpus = 4, .sockets = 1, .gpu_rate = 100, .memory_rate = 9000 }, PLAN_TREE, 1, 6666666667 },
		/* four hops, all written to and read from one memory */
		{ { .gpus = 4, .sockets = 1, .gpu_rate = 900, .memory_rate = 100 }, PLAN_RING, 1, 2500000000 },
		/* the way between sockets */
		{ { .gpus = 4, .sockets = 2, .gpu_rate = 900, .socket_rate = 100, .memory_rate = 9000 },
		  PLAN_RING,
		  1,
		  10000000000 },
		/* an uplink, with P2P below it */
		{ { .gpus = 4,
		    .sockets = 2,
		    .switches = 2,
		    .gpu_rate = 900,
		    .uplink_rate = 70,
		    .socket_rate = 100,
		    .memory_rate = 9000 },
		  PLAN_RING,
		  1,
		  7000000000 },
		/* two wires together */
		{ { .gpus = 2,
		    .nics = 2,
		    .sockets = 1,
		    .gpu_rate = 900,
		    .nic_rate = 900,
		    .wire_rate = 30,
		    .memory_rate = 9000 },
		  PLAN_RING,
		  2,
		  6000000000 },
		/* those twice each way in a tree of many hosts */
		{ { .gpus = 2,
		    .nics = 2,
		    .sockets = 1,
		    .gpu_rate = 900,
		    .nic_rate = 900,
		    .wire_rate = 30,
		    .memory_rate = 9000 },
		  PLAN_TREE,
		  4,
		  3000000000 },
		/* three NVLinks out of each GPU */
		{ { .gpus = 4,
		    .sockets = 1,
		    .gpu_rate = 900,
		    .nvlink_mesh = true,
		    .nvlink_rate = 250,
		    .memory_rate = 9000 },
		  PLAN_RING,
		  1,
		  75000000000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct plan_request request;
		struct plan_model model;
		struct topology topology;
		uint64_t bound_Bps;

		machine_spec_build(&cases[i].spec, 1, &topology);
		assert_int_equal(plan_request_all(&topology, &request), 0);
		request.hosts = cases[i].hosts;
		assert_int_equal(plan_model_init(&model, &topology, &request, cases[i].pattern), 0);
		assert_int_equal(plan_cuts_bound(&model, &bound_Bps), 0);
		plan_model_fini(&model);
		if (bound_Bps != cases[i].bound_Bps)
			fail_msg("case %zu: %llu", i, (unsigned long long)bound_Bps);
		topology_fini(&topology);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_subset_gets_a_plan_that_the_verifier_accepts_and_that_is_near_its_bound),
		cmocka_unit_test(the_order_of_the_graph_does_not_change_the_plan),
		cmocka_unit_test(two_switches_without_p2p_across_get_all_that_the_sockets_carry),
		cmocka_unit_test(of_equal_rates_the_fewest_crossings_win),
		cmocka_unit_test(what_crosses_nothing_that_is_known_is_unbounded),
		cmocka_unit_test(no_more_channels_than_asked_for),
		cmocka_unit_test(little_work_still_gives_a_plan),
		cmocka_unit_test(wrong_requests_are_refused),
		cmocka_unit_test(cuts_find_what_limits_a_machine),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test(without_memory_there_is_no_plan_and_no_leak),
#endif
	};

	return cmocka_run_group_tests_name("plan/make", tests, NULL, NULL);
}
