/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/infer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground_truth.h"

enum { RESULTS_MAX = 32, FLOWS_MAX = 8, REPEATS = 12 };

/* Experiments written down by hand: flows by the names of their ends, rates in GB/s, all repetitions nearly alike. */
struct fixture {
	struct topology topology;
	struct measure_experiment experiments[RESULTS_MAX];
	struct probe_flow flows[RESULTS_MAX][FLOWS_MAX];
	struct measure_series series[RESULTS_MAX];
	struct measure_result results[RESULTS_MAX];
	size_t count;
	struct measure_resources resources;
	struct measure_figure *figures;
	struct probe *probe;
};

static uint32_t find(struct fixture *fixture, const char *name)
{
	uint32_t vertex = topology_find(&fixture->topology, name);

	assert_int_not_equal(vertex, TOPOLOGY_NONE);
	return vertex;
}

static void result(struct fixture *fixture, size_t flow_count, const char *const *ends, const double *rates_GBps)
{
	size_t index = fixture->count++;
	double rates[FLOWS_MAX];

	assert_true(index < RESULTS_MAX);
	for (size_t i = 0; i < flow_count; i++)
		fixture->flows[index][i] = (struct probe_flow){
			.flow = { find(fixture, ends[2 * i]), find(fixture, ends[2 * i + 1]), TOPOLOGY_WAY_DIRECT,
				  TOPOLOGY_NONE },
		};
	fixture->experiments[index] = (struct measure_experiment){
		.what = "by hand",
		.probe = fixture->probe,
		.flows = fixture->flows[index],
		.count = flow_count,
	};
	measure_series_init(&fixture->series[index], flow_count, 0.01);
	for (uint32_t i = 0; i < REPEATS; i++) {
		for (size_t j = 0; j < flow_count; j++)
			rates[j] = rates_GBps[j] * 1e9 * (i % 2 ? 1.002 : 0.998);
		assert_int_equal(measure_series_add(&fixture->series[index], rates, i), 0);
	}
	fixture->results[index] = (struct measure_result){
		.experiment = &fixture->experiments[index],
		.series = &fixture->series[index],
		.usable = true,
	};
}

static void single(struct fixture *fixture, const char *from, const char *to, double rate_GBps)
{
	const char *const ends[] = { from, to };

	result(fixture, 1, ends, &rate_GBps);
}

static void begin(struct fixture *fixture)
{
	memset(fixture, 0, sizeof(*fixture));
	topology_init(&fixture->topology);
}

static void infer(struct fixture *fixture)
{
	assert_int_equal(measure_repeat_analyse(fixture->series, fixture->count), 0);
	assert_int_equal(
		measure_resources_init(&fixture->resources, &fixture->topology, fixture->results, fixture->count), 0);
	fixture->figures = calloc(fixture->resources.count, sizeof(*fixture->figures));
	assert_non_null(fixture->figures);
	assert_int_equal(measure_infer(&fixture->resources, fixture->figures), 0);
}

static void end(struct fixture *fixture)
{
	for (size_t i = 0; i < fixture->count; i++)
		measure_series_fini(&fixture->series[i]);
	measure_resources_fini(&fixture->resources);
	free(fixture->figures);
	topology_fini(&fixture->topology);
}

static void expect(struct fixture *fixture, const char *link, double rate_GBps, bool limiting)
{
	uint32_t directed = topology_find_directed(&fixture->topology, link);
	const struct measure_figure *figure;

	assert_int_not_equal(directed, TOPOLOGY_NONE);
	figure = &fixture->figures[directed];
	if (fabs(figure->rate_Bps / 1e9 - rate_GBps) > 0.005 * rate_GBps || figure->limiting != limiting)
		fail_msg("%s: %.2f GB/s, %s", link, figure->rate_Bps / 1e9,
			 figure->limiting ? "limiting" : "not limiting");
}

/* Two GPUs below a switch of a bridge; slots of 24 GB/s. */
static void build_switch(struct fixture *fixture, double uplink_GBps)
{
	struct topology *topology = &fixture->topology;
	uint32_t cpu = truth_cpu(topology, 0, 200), bridge = truth_vertex(topology, TOPOLOGY_BRIDGE, "bridge0");
	uint32_t switch0 = truth_vertex(topology, TOPOLOGY_SWITCH, "switch0");

	truth_link(topology, TOPOLOGY_LINK_INTERNAL, bridge, cpu, 0, 1, 1);
	truth_link(topology, TOPOLOGY_LINK_PCI, switch0, bridge, uplink_GBps, 1, 1);
	truth_link(topology, TOPOLOGY_LINK_PCI, truth_vertex(topology, TOPOLOGY_GPU, "gpu0"), switch0, 24, 1, 1);
	truth_link(topology, TOPOLOGY_LINK_PCI, truth_vertex(topology, TOPOLOGY_GPU, "gpu1"), switch0, 24, 1, 1);
}

static void uplink_that_slows_its_gpus_is_measured(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture);
	build_switch(&fixture, 24);
	single(&fixture, "gpu0", "memory0", 20);
	single(&fixture, "gpu1", "memory0", 20.5);
	result(&fixture, 2, (const char *[]){ "gpu0", "memory0", "gpu1", "memory0" }, (double[]){ 11, 11 });
	infer(&fixture);
	expect(&fixture, "switch0>bridge0", 22, true);
	expect(&fixture, "gpu0>switch0", 20, true);
	expect(&fixture, "gpu1>switch0", 20.5, true);
	/* In a row with the slot, and by convention not the narrower one. */
	expect(&fixture, "bridge0>cpu0", 22, false);
	expect(&fixture, "cpu0>memory0", 22, false);
	expect(&fixture, "memory0>cpu0", 0, false);
	end(&fixture);
}

static void uplink_that_nothing_fills_has_a_lower_bound(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture);
	build_switch(&fixture, 48);
	single(&fixture, "gpu0", "memory0", 20);
	single(&fixture, "gpu1", "memory0", 20);
	result(&fixture, 2, (const char *[]){ "gpu0", "memory0", "gpu1", "memory0" }, (double[]){ 20, 20 });
	infer(&fixture);
	expect(&fixture, "switch0>bridge0", 40, false);
	expect(&fixture, "gpu0>switch0", 20, true);
	end(&fixture);
}

/* One GPU alone below a switch: nobody can tell its slot from the switch's, unless one is trained far narrower. */
static void slots_in_a_row_are_told_apart_by_nominal_rates_or_not_at_all(void **state)
{
	(void)state;
	for (unsigned narrow = 0; narrow < 2; narrow++) {
		struct fixture fixture;

		begin(&fixture);
		build_switch(&fixture, narrow ? 12 : 24);
		single(&fixture, "gpu0", "memory0", 10.5);
		infer(&fixture);
		expect(&fixture, "gpu0>switch0", 10.5, false);
		expect(&fixture, "switch0>bridge0", 10.5, narrow);
		end(&fixture);
	}
}

static void both_directions_at_once_make_a_limit(void **state)
{
	struct fixture fixture;
	uint32_t link;

	(void)state;
	begin(&fixture);
	build_switch(&fixture, 24);
	single(&fixture, "gpu0", "memory0", 20);
	single(&fixture, "memory0", "gpu0", 20);
	single(&fixture, "gpu1", "memory0", 20);
	single(&fixture, "memory0", "gpu1", 20);
	result(&fixture, 2, (const char *[]){ "gpu0", "memory0", "memory0", "gpu0" }, (double[]){ 16, 16 });
	result(&fixture, 4,
	       (const char *[]){ "gpu0", "memory0", "memory0", "gpu0", "gpu1", "memory0", "memory0", "gpu1" },
	       (double[]){ 10.5, 10.5, 10.5, 10.5 });
	result(&fixture, 2, (const char *[]){ "gpu0", "memory0", "gpu1", "memory0" }, (double[]){ 11.5, 11.5 });
	result(&fixture, 2, (const char *[]){ "memory0", "gpu0", "memory0", "gpu1" }, (double[]){ 11.5, 11.5 });
	infer(&fixture);
	link = topology_find_link(&fixture.topology, find(&fixture, "gpu0"), find(&fixture, "switch0"));
	assert_true(fixture.figures[2 * fixture.topology.link_count + link].limiting);
	assert_true(fabs(fixture.figures[2 * fixture.topology.link_count + link].rate_Bps / 32e9 - 1) < 0.01);
	link = topology_find_link(&fixture.topology, find(&fixture, "switch0"), find(&fixture, "bridge0"));
	assert_true(fixture.figures[2 * fixture.topology.link_count + link].limiting);
	assert_int_equal(measure_conclude(&fixture.topology, &fixture.resources, fixture.figures, true, 77), 0);
	link = topology_find_limit(&fixture.topology, "gpu0.both");
	assert_int_not_equal(link, TOPOLOGY_NONE);
	assert_int_equal(fixture.topology.limits[link].capacity.provenance, TOPOLOGY_MEASURED);
	assert_int_equal(fixture.topology.limits[link].capacity.date_s, 77);
	assert_int_equal(fixture.topology.limits[link].member_count, 2);
	assert_int_equal(topology_find_limit(&fixture.topology, "gpu1.both"), TOPOLOGY_NONE);
	/* Once more: the same limits, not others beside them. */
	assert_int_equal(measure_conclude(&fixture.topology, &fixture.resources, fixture.figures, true, 78), 0);
	assert_int_equal(fixture.topology.limits[link].capacity.date_s, 78);
	assert_int_equal(topology_find_limit(&fixture.topology, "gpu0.both#2"), TOPOLOGY_NONE);
	end(&fixture);
}

/* Two flows that one copy engine sends do not show that the link beyond it is full. */
static void engine_that_is_full_explains_its_flows(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture);
	build_switch(&fixture, 24);
	single(&fixture, "gpu0", "memory0", 18);
	single(&fixture, "gpu0", "gpu1", 18);
	single(&fixture, "gpu1", "memory0", 18);
	result(&fixture, 2, (const char *[]){ "gpu0", "memory0", "gpu0", "gpu1" }, (double[]){ 9, 9 });
	/* Kernels bring more through the slot than the copy engine does. */
	result(&fixture, 1, (const char *[]){ "gpu0", "memory0" }, (double[]){ 20 });
	fixture.flows[fixture.count - 1][0].engine = PROBE_ENGINE_KERNEL;
	result(&fixture, 2, (const char *[]){ "gpu0", "memory0", "gpu1", "memory0" }, (double[]){ 18, 18 });
	infer(&fixture);
	expect(&fixture, "gpu0>switch0", 20, true);
	expect(&fixture, "switch0>bridge0", 36, false);
	end(&fixture);
}

static void what_cannot_be_used_says_nothing(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture);
	build_switch(&fixture, 24);
	single(&fixture, "gpu0", "memory0", 20);
	single(&fixture, "gpu1", "memory0", 20);
	result(&fixture, 2, (const char *[]){ "gpu0", "memory0", "gpu1", "memory0" }, (double[]){ 11, 11 });
	fixture.results[2].usable = false;
	infer(&fixture);
	expect(&fixture, "switch0>bridge0", 20, false);
	end(&fixture);
}

static void cut_short_a_lower_bound_does_not_replace_a_larger_nominal_rate(void **state)
{
	(void)state;
	for (unsigned complete = 0; complete < 2; complete++) {
		struct fixture fixture;
		struct topology_capacity *uplink;

		begin(&fixture);
		build_switch(&fixture, 24);
		uplink = &fixture.topology.links[2].capacity[TOPOLOGY_UP];
		*uplink = (struct topology_capacity){ .rate_Bps = 24000000000,
						      .latency_ns = 5,
						      .provenance = TOPOLOGY_NOMINAL };
		single(&fixture, "gpu0", "memory0", 20);
		infer(&fixture);
		assert_int_equal(measure_conclude(&fixture.topology, &fixture.resources, fixture.figures, complete, 1),
				 0);
		uplink = &fixture.topology.links[2].capacity[TOPOLOGY_UP];
		assert_int_equal(uplink->provenance, complete ? TOPOLOGY_AT_LEAST : TOPOLOGY_NOMINAL);
		assert_int_equal(uplink->latency_ns, 5);
		end(&fixture);
	}
}

static void single_flow_below_what_its_links_carry_makes_a_pair(void **state)
{
	struct fixture fixture;
	uint32_t pair;

	(void)state;
	begin(&fixture);
	build_switch(&fixture, 24);
	single(&fixture, "memory0", "gpu0", 18); /* reads */
	single(&fixture, "gpu1", "gpu0", 20);    /* is written */
	single(&fixture, "memory0", "gpu1", 20);
	infer(&fixture);
	fixture.probe = NULL;
	fixture.results[1].latency_ns = 900;
	for (size_t i = 0; i < fixture.count; i++) {
		fixture.experiments[i].pair = true;
		assert_int_equal(simulated_probe_open(&fixture.topology,
						      &(struct probe_rules){ .p2p = PROBE_RULES_P2P_ALL }, 1,
						      &fixture.experiments[i].probe),
				 0);
	}
	assert_int_equal(measure_conclude(&fixture.topology, &fixture.resources, fixture.figures, true, 1), 0);
	pair = topology_find_pair(&fixture.topology, find(&fixture, "memory0"), find(&fixture, "gpu0"));
	assert_int_not_equal(pair, TOPOLOGY_NONE);
	assert_true(llabs((long long)fixture.topology.pairs[pair].p2p.rate_Bps - 18000000000) < 100000000);
	pair = topology_find_pair(&fixture.topology, find(&fixture, "gpu1"), find(&fixture, "gpu0"));
	assert_int_not_equal(pair, TOPOLOGY_NONE);
	assert_true(fixture.topology.pairs[pair].p2p_works);
	assert_int_equal(fixture.topology.pairs[pair].p2p.latency_ns, 900);
	assert_int_equal(fixture.topology.pairs[pair].host.provenance, TOPOLOGY_UNKNOWN);
	for (size_t i = 0; i < fixture.count; i++)
		fixture.experiments[i].probe->ops->close(fixture.experiments[i].probe);
	end(&fixture);
}

static void what_the_graph_cannot_explain_is_found(void **state)
{
	struct measure_report report = { 0 };
	struct fixture fixture;
	bool slow = false, unreached = false;

	(void)state;
	begin(&fixture);
	build_switch(&fixture, 48);
	single(&fixture, "gpu0", "memory0", 20);
	single(&fixture, "memory0", "gpu1", 20);
	single(&fixture, "gpu1", "memory0", 20);
	/* Neither a common link nor both directions of one explain this: different ways, all of them wider. */
	result(&fixture, 2, (const char *[]){ "gpu0", "memory0", "gpu1", "memory0" }, (double[]){ 20, 20 });
	result(&fixture, 2, (const char *[]){ "gpu0", "memory0", "memory0", "gpu1" }, (double[]){ 12, 12 });
	infer(&fixture);
	assert_int_equal(measure_conclude(&fixture.topology, &fixture.resources, fixture.figures, true, 1), 0);
	fixture.topology.limit_count = 0;
	assert_int_equal(measure_conclude_check(&fixture.topology, &fixture.resources, fixture.figures, &report), 0);
	for (size_t i = 0; i < report.finding_count; i++) {
		slow = slow || report.findings[i].kind == MEASURE_CONTRADICTION;
		unreached = unreached || report.findings[i].kind == MEASURE_NOT_MEASURABLE;
	}
	assert_true(slow);
	assert_false(unreached);
	measure_report_fini(&report);
	end(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uplink_that_slows_its_gpus_is_measured),
		cmocka_unit_test(uplink_that_nothing_fills_has_a_lower_bound),
		cmocka_unit_test(slots_in_a_row_are_told_apart_by_nominal_rates_or_not_at_all),
		cmocka_unit_test(both_directions_at_once_make_a_limit),
		cmocka_unit_test(engine_that_is_full_explains_its_flows),
		cmocka_unit_test(what_cannot_be_used_says_nothing),
		cmocka_unit_test(cut_short_a_lower_bound_does_not_replace_a_larger_nominal_rate),
		cmocka_unit_test(single_flow_below_what_its_links_carry_makes_a_pair),
		cmocka_unit_test(what_the_graph_cannot_explain_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
