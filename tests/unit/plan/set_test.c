/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_spec.h"
#include "set_check.h"

#include "base/log.h"
#include "base/sys.h"
#include "ncclxml/graph_xml.h"
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

static const char *const where_words[] = { "one host", "several hosts", "either" };

/* A sanitized build takes ten times as long and looks for other mistakes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SUBSET_STEP = 31, LARGE_STEP = 24007 };
#else
enum { SUBSET_STEP = 7, LARGE_STEP = 6007 };
#endif

enum { CASES_MAX = 16384 };

struct set_tally {
	unsigned cases, none;            /* none: -ENODATA */
	unsigned ring_below, tree_below; /* what a set may lose */
	double ring_least, tree_least;
	unsigned channels[PLAN_CHANNELS_MAX + 1];
	double *times_ms;
};

static void tally_set(const char *name, const struct topology *topology, const struct plan_request *request,
		      const struct plan_set *set, struct set_tally *tally)
{
	double ring, tree;

	set_check(name, topology, request, set, &ring, &tree);
	tally->channels[set->channel_count]++;
	tally->ring_below += ring < 0.98 - 1e-6;
	tally->tree_below += tree < 0.95 - 1e-6;
	tally->ring_least = ring < tally->ring_least ? ring : tally->ring_least;
	tally->tree_least = tree < tally->tree_least ? tree : tally->tree_least;
}

static void set_one(const struct machine_spec *spec, const struct topology *topology,
		    const struct plan_request *request, enum plan_where where, struct set_tally *tally)
{
	double start_ms = machine_cpu_ms();
	struct plan_set set;
	int r = plan_make_set(topology, request, where, &set);

	assert_true(tally->cases < CASES_MAX);
	tally->times_ms[tally->cases++] = machine_cpu_ms() - start_ms;
	if (r == -ENODATA) {
		assert_int_equal(where, PLAN_EITHER);
		tally->none++;
		return;
	}
	assert_int_equal(r, 0);
	assert_int_equal(set.where, where);
	tally_set(spec->name, topology, request, &set, tally);
}

static int compare_times(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

static void print_set_tally(const char *name, const char *where, struct set_tally *tally)
{
	qsort(tally->times_ms, tally->cases, sizeof(double), compare_times);
	print_message("%-40s %-13s %4u sets, %2u none; rings below 98 %%: %3u, least %5.1f %%; trees below 95 %%: %3u, "
		      "least %5.1f %%; ms 50/95/100 %%: %.2f %.2f %.2f; channels",
		      name, where, tally->cases, tally->none, tally->ring_below, 100 * tally->ring_least,
		      tally->tree_below, 100 * tally->tree_least, tally->times_ms[tally->cases / 2],
		      tally->times_ms[tally->cases * 95 / 100], tally->times_ms[tally->cases - 1]);
	for (size_t i = 0; i <= PLAN_CHANNELS_MAX; i++)
		if (tally->channels[i])
			print_message(" %zu:%u", i, tally->channels[i]);
	print_message("\n");
}

static void add_set_tally(const struct set_tally *tally, struct set_tally *sum)
{
	sum->cases += tally->cases;
	sum->none += tally->none;
	sum->ring_below += tally->ring_below;
	sum->tree_below += tally->tree_below;
	sum->ring_least = tally->ring_least < sum->ring_least ? tally->ring_least : sum->ring_least;
	sum->tree_least = tally->tree_least < sum->tree_least ? tally->tree_least : sum->tree_least;
}

/* Of up to eight GPUs the figures are added to the sum. */
static void set_subsets(const struct machine_spec *spec, enum plan_where where, struct set_tally *sum)
{
	struct set_tally tally = { .ring_least = 1, .tree_least = 1 };
	struct plan_request all;
	struct topology topology;
	unsigned last, step = spec->gpus > 8 ? LARGE_STEP : getenv("TRIBUTARY_TEST_LONG") ? 1 : SUBSET_STEP;

	tally.times_ms = calloc(CASES_MAX, sizeof(double));
	assert_non_null(tally.times_ms);
	machine_spec_build(spec, 11, &topology);
	assert_int_equal(plan_request_all(&topology, &all), 0);
	last = (1U << all.gpu_count) - 1;
	for (unsigned mask = 1; mask <= last; mask = mask < last && mask + step > last ? last : mask + step) {
		for (unsigned hosts = 2; hosts <= (where == PLAN_ONE_HOST ? 2U : 3U); hosts++) {
			struct plan_request request = machine_subset(&all, mask, hosts);

			request.crossnic = hosts == 3;
			set_one(spec, &topology, &request, where, &tally);
		}
	}
	topology_fini(&topology);
	print_set_tally(spec->name, where_words[where], &tally);
	free(tally.times_ms);
	if (spec->gpus <= 8)
		add_set_tally(&tally, sum);
}

/* On either number of hosts a tree must suit both, and may lose a tenth. */
static void a_set_loses_no_more_than_it_may(void **state)
{
	(void)state;
	for (int where = 0; where < PLAN_WHERE_COUNT; where++) {
		struct set_tally sum = { .ring_least = 1, .tree_least = 1 };

		for (size_t i = 0; i < machine_spec_count; i++)
			if (machine_specs[i].nics || where == PLAN_ONE_HOST)
				set_subsets(&machine_specs[i], (enum plan_where)where, &sum);
		print_message("all of up to eight GPUs, %s: %u sets, %u none; rings below 98 %%: %u, least %.1f %%; "
			      "trees below 95 %%: %u, least %.1f %%\n",
			      where_words[where], sum.cases, sum.none, sum.ring_below, 100 * sum.ring_least,
			      sum.tree_below, 100 * sum.tree_least);
		assert_true(sum.ring_below <= 2 + sum.cases / 100 && sum.ring_least >= 0.9);
		assert_true(where == PLAN_EITHER || sum.tree_below <= 2 + sum.cases / 100);
		assert_true(sum.tree_least >= (where == PLAN_EITHER ? 0.85 : 0.9));
		assert_true(sum.none * 20 <= sum.cases);
	}
}

/* Up to eight GPUs behind two switches, as NCCL gives up on: 0.1 GB/s is all that it believes them to carry. */
static void an_sm_120_machine_gets_its_channels_at_what_the_sockets_carry(void **state)
{
	struct graph_xml_numbers numbers = { .inter_latency_us = 0 };
	struct diag diag = { .text = "" };
	struct plan_request request;
	struct topology topology;
	struct graph_xml graphs;
	struct plan_set set;

	(void)state;
	machine_spec_build(&machine_sm_120, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_ONE_HOST, &set), 0);
	assert_true(set.channel_count >= 2);
	assert_int_equal(set.intra_Bps[PLAN_RING] * set.channel_count, 16000000000);
	for (size_t i = 0; i < request.gpu_count; i++)
		topology.vertices[request.gpus[i]].gpu.index = (int)i;
	assert_int_equal(graph_xml_of_set(&topology, &request, &set, &numbers, &graphs, &diag), 0);
	assert_int_equal(graphs.graphs[0].channel_count, set.channel_count);
	assert_true(graphs.graphs[0].intra_GBps * (double)set.channel_count > 15.99);
	assert_true(graphs.graphs[1].intra_GBps * (double)set.channel_count > 7);
	topology_fini(&topology);
}

static void assert_same_set(const struct plan_set *a, const struct plan_set *b)
{
	assert_int_equal(a->channel_count, b->channel_count);
	assert_int_equal(a->tree_balanced, b->tree_balanced);
	assert_memory_equal(a->intra_Bps, b->intra_Bps, sizeof(a->intra_Bps));
	assert_memory_equal(a->inter_Bps, b->inter_Bps, sizeof(a->inter_Bps));
	for (int pattern = 0; pattern < PLAN_PATTERN_COUNT; pattern++)
		assert_memory_equal(a->plans[pattern].channels, b->plans[pattern].channels,
				    sizeof(a->plans[pattern].channels));
}

static void the_order_of_the_graph_does_not_change_the_set(void **state)
{
	(void)state;
	for (size_t i = 0; i < machine_spec_count; i++) {
		for (int where = 0; where < PLAN_WHERE_COUNT; where++) {
			struct topology topology, shuffled;
			struct plan_request request, other;
			struct plan_set first, second;
			uint64_t seed = 17 + i;
			int r;

			machine_spec_build(&machine_specs[i], 23, &topology);
			machine_shuffle(&topology, &seed, &shuffled);
			assert_int_equal(plan_request_all(&topology, &request), 0);
			assert_int_equal(plan_request_all(&shuffled, &other), 0);
			r = plan_make_set(&topology, &request, (enum plan_where)where, &first);
			assert_int_equal(plan_make_set(&shuffled, &other, (enum plan_where)where, &second), r);
			if (r == 0)
				assert_same_set(&first, &second);
			topology_fini(&topology);
			topology_fini(&shuffled);
		}
	}
}

static const struct machine_spec *machine_named(const char *name)
{
	for (size_t i = 0; i < machine_spec_count; i++)
		if (!strcmp(machine_specs[i].name, name))
			return &machine_specs[i];
	fail_msg("there is no %s", name);
	return NULL;
}

/* NCCL uses the first channels alone where another host has fewer. */
static void the_first_channels_use_the_nics_evenly(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct plan_set set;

	(void)state;
	machine_spec_build(machine_named("two levels of switches"), 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(request.nic_count, 4);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_SEVERAL_HOSTS, &set), 0);
	for (int pattern = 0; pattern <= PLAN_CHAIN; pattern++) {
		const struct plan_channel *channels = set.plans[pattern].channels;

		assert_true(set.channel_count >= 2);
		assert_int_not_equal(channels[0].nic_in, channels[1].nic_in);
		if (set.channel_count >= 4)
			assert_int_not_equal(channels[2].nic_in, channels[3].nic_in);
	}
	topology_fini(&topology);
}

/* 48 GB/s are more than a channel moves: two. And 600 GB/s: as many as there may be. */
static void what_one_channel_cannot_move_is_spread_over_copies(void **state)
{
	static const struct {
		unsigned gpu_rate;
		size_t channels;
	} cases[] = { { 120, 2 }, { 240, 2 }, { 480, 2 }, { 500, 3 }, { 2400, 10 }, { 6000, 16 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine_spec spec = {
			.gpus = 2, .sockets = 1, .gpu_rate = cases[i].gpu_rate, .memory_rate = 60000
		};
		struct plan_request request;
		struct topology topology;
		struct plan_set set;

		machine_spec_build(&spec, 1, &topology);
		assert_int_equal(plan_request_all(&topology, &request), 0);
		assert_int_equal(plan_make_set(&topology, &request, PLAN_ONE_HOST, &set), 0);
		assert_int_equal(set.channel_count, cases[i].channels);
		assert_int_equal(set.intra_Bps[PLAN_RING], cases[i].gpu_rate * 100000000ULL / cases[i].channels);
		topology_fini(&topology);
	}
}

static void no_more_channels_than_asked_for_in_a_set(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct plan_set set;
	double ring, tree;

	(void)state;
	machine_spec_build(machine_named("two levels of switches"), 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	for (unsigned most = 1; most <= PLAN_CHANNELS_MAX; most++) {
		request.channels_max = most;
		assert_int_equal(plan_make_set(&topology, &request, PLAN_SEVERAL_HOSTS, &set), 0);
		assert_true(set.channel_count <= most);
		if (most > 1)
			set_check("most", &topology, &request, &set, &ring, &tree);
	}
	topology_fini(&topology);
}

/*
 * One GPU beside a NIC, three others behind a slow link between sockets: the second GPU of a chain is best on the NIC's
 * side. With a single GPU there is no second one.
 */
static void trees_are_balanced_where_that_costs_nothing(void **state)
{
	static const struct machine_spec near_and_far = { .gpus = 2,
							  .nics = 1,
							  .sockets = 2,
							  .gpu_rate = 900,
							  .socket_rate = 100,
							  .memory_rate = 9000,
							  .nic_rate = 900,
							  .wire_rate = 200 };
	static const struct machine_spec near = { .gpus = 2,
						  .nics = 1,
						  .sockets = 1,
						  .gpu_rate = 900,
						  .memory_rate = 9000,
						  .nic_rate = 900,
						  .wire_rate = 200 };
	struct plan_request request;
	struct topology topology;
	struct plan_set set;

	(void)state;
	machine_spec_build(&near, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_SEVERAL_HOSTS, &set), 0);
	assert_true(set.tree_balanced);
	request.gpu_count = 1;
	assert_int_equal(plan_make_set(&topology, &request, PLAN_SEVERAL_HOSTS, &set), 0);
	assert_false(set.tree_balanced);
	topology_fini(&topology);
	/* The far GPU's edge would cross the sockets once more. */
	machine_spec_build(&near_and_far, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_SEVERAL_HOSTS, &set), 0);
	assert_false(set.tree_balanced);
	topology_fini(&topology);
}

static void sets_of_wrong_requests_are_refused(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct plan_set set;

	(void)state;
	machine_spec_build(&machine_specs[0], 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_WHERE_COUNT, &set), -EINVAL);
	request.nic_count = 0;
	assert_int_equal(plan_make_set(&topology, &request, PLAN_ONE_HOST, &set), 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_SEVERAL_HOSTS, &set), -EINVAL);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_EITHER, &set), -EINVAL);
	request.gpu_count = 0;
	assert_int_equal(plan_make_set(&topology, &request, PLAN_ONE_HOST, &set), -EINVAL);
	topology_fini(&topology);
}

static void little_work_still_gives_a_set(void **state)
{
	(void)state;
	for (size_t i = 0; i < machine_spec_count; i++) {
		for (int where = 0; where < PLAN_WHERE_COUNT; where++) {
			struct plan_request request;
			struct topology topology;
			struct plan_set set;
			double ring, tree;
			int r;

			machine_spec_build(&machine_specs[i], 1, &topology);
			assert_int_equal(plan_request_all(&topology, &request), 0);
			request.work_limit = 1;
			r = plan_make_set(&topology, &request, (enum plan_where)where, &set);
			assert_true(r == 0 || (r == -ENODATA && where == PLAN_EITHER));
			if (r == 0)
				set_check(machine_specs[i].name, &topology, &request, &set, &ring, &tree);
			topology_fini(&topology);
		}
	}
}

#ifdef TRIBUTARY_FAULTS
static void without_memory_there_is_no_set_and_no_leak(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct plan_set set;
	uint64_t calls;

	(void)state;
	machine_spec_build(&machine_specs[2], 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	request.hosts = 3;
	request.gpu_count = 4;
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_EITHER, &set), 0);
	calls = sys_fault_calls(SYS_FAULT_MEMORY);
	for (uint64_t nth = 1; nth <= calls; nth += 1 + nth / 200) {
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		assert_int_equal(plan_make_set(&topology, &request, PLAN_EITHER, &set), -ENOMEM);
	}
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	topology_fini(&topology);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_loses_no_more_than_it_may),
		cmocka_unit_test(an_sm_120_machine_gets_its_channels_at_what_the_sockets_carry),
		cmocka_unit_test(the_order_of_the_graph_does_not_change_the_set),
		cmocka_unit_test(the_first_channels_use_the_nics_evenly),
		cmocka_unit_test(what_one_channel_cannot_move_is_spread_over_copies),
		cmocka_unit_test(no_more_channels_than_asked_for_in_a_set),
		cmocka_unit_test(trees_are_balanced_where_that_costs_nothing),
		cmocka_unit_test(sets_of_wrong_requests_are_refused),
		cmocka_unit_test(little_work_still_gives_a_set),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test(without_memory_there_is_no_set_and_no_leak),
#endif
	};

	return cmocka_run_group_tests_name("plan/set", tests, NULL, NULL);
}
