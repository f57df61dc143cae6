/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/measure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ground_truth.h"
#include "measure/simulated_probe.h"

#define SECOND UINT64_C(1000000000)

/* One CPU with a switch of two GPUs and one GPU beside it. */
static void build(struct topology *truth, struct probe_rules *rules)
{
	uint32_t cpu, bridge, switch0;

	topology_init(truth);
	cpu = truth_cpu(truth, 0, 120);
	bridge = truth_vertex(truth, TOPOLOGY_BRIDGE, "bridge0");
	switch0 = truth_vertex(truth, TOPOLOGY_SWITCH, "switch0");
	truth_link(truth, TOPOLOGY_LINK_INTERNAL, bridge, cpu, 0, 60, 60);
	truth_link(truth, TOPOLOGY_LINK_PCI, switch0, bridge, 24, 21, 20);
	truth_link(truth, TOPOLOGY_LINK_PCI, truth_vertex(truth, TOPOLOGY_GPU, "gpu0"), switch0, 24, 20, 21.5);
	truth_link(truth, TOPOLOGY_LINK_PCI, truth_vertex(truth, TOPOLOGY_GPU, "gpu1"), switch0, 24, 20.5, 21);
	truth_link(truth, TOPOLOGY_LINK_PCI, truth_vertex(truth, TOPOLOGY_GPU, "gpu2"), bridge, 24, 21, 21);
	simulated_rules_init(rules);
	rules->cores_Bps = 50e9;
	rules->both[TOPOLOGY_LINK_PCI] = 0.85;
	rules->p2p_root = 0.5;
	rules->staged = 0.9;
	rules->noise = 0.02;
	rules->outliers = 0.01;
	rules->ramp_ns = 50000;
	rules->overhead_ns = 1000000;
	rules->latency_ns = 7000;
}

static void open_machine(const struct topology *truth, const struct probe_rules *rules, struct probe **ret_probe,
			 struct topology *ret_seen)
{
	assert_int_equal(simulated_probe_open(truth, rules, 3, ret_probe), 0);
	assert_int_equal(simulated_probe_hide(truth, ret_seen), 0);
}

static const struct topology_pair *pair_of(const struct topology *topology, const char *from, const char *to)
{
	uint32_t pair = topology_find_pair(topology, topology_find(topology, from), topology_find(topology, to));

	assert_int_not_equal(pair, TOPOLOGY_NONE);
	return &topology->pairs[pair];
}

static void assert_near(double rate_Bps, double expected_GBps)
{
	if (fabs(rate_Bps / 1e9 - expected_GBps) > 0.03 * expected_GBps)
		fail_msg("%.2f GB/s, not %.2f", rate_Bps / 1e9, expected_GBps);
}

static void machine_gets_capacities_limits_and_pairs(void **state)
{
	struct measure_options options = { .date_s = 1234 };
	struct measure_report report;
	struct topology truth, seen;
	const struct topology_pair *pair;
	const struct topology_capacity *capacity;
	struct probe_rules rules;
	struct probe *probe;

	(void)state;
	build(&truth, &rules);
	rules.p2p = PROBE_RULES_P2P_SOCKET;
	open_machine(&truth, &rules, &probe, &seen);
	assert_int_equal(measure_run(&seen, &probe, 1, &options, &report), 0);
	capacity = &seen.links[topology_find_directed(&seen, "switch0>bridge0") / 2].capacity[TOPOLOGY_UP];
	assert_near((double)capacity->rate_Bps, 21);
	assert_int_equal(capacity->provenance, TOPOLOGY_MEASURED);
	assert_int_equal(capacity->date_s, 1234);
	assert_true(capacity->spread > 0 && capacity->spread < 0.03);
	assert_int_not_equal(topology_find_limit(&seen, "gpu0.both"), TOPOLOGY_NONE);
	pair = pair_of(&seen, "gpu0", "gpu1");
	assert_true(pair->p2p_works && pair->p2p.provenance == TOPOLOGY_MEASURED);
	assert_near((double)pair->p2p.rate_Bps, 20);
	assert_int_equal(pair->p2p.latency_ns, 7000);
	assert_int_equal(pair->host.latency_ns, 14000);
	/* Through the root port P2P is slower than through the memory. */
	pair = pair_of(&seen, "gpu0", "gpu2");
	assert_true(pair->p2p_works && pair->host.rate_Bps > pair->p2p.rate_Bps);
	assert_near((double)pair->p2p.rate_Bps, 10);
	assert_false(report.stopped || report.out_of_time);
	assert_int_equal(report.finding_count, 0);
	assert_true(report.run_count >= 6 * report.experiment_count);
	measure_report_fini(&report);
	probe->ops->close(probe);
	topology_fini(&seen);
	topology_fini(&truth);
}

struct counted {
	size_t calls, wrong, last;
};

static void count_progress(void *arg, size_t done, size_t total, const char *what)
{
	struct counted *counted = arg;

	assert_non_null(what);
	counted->calls++;
	counted->wrong += done >= total || done < counted->last;
	counted->last = done;
}

/* So noisy that nearly every experiment needs all of its repetitions, far more than are expected at first. */
static void progress_never_runs_past_its_total(void **state)
{
	struct counted counted = { 0 };
	struct measure_options options = { .progress = count_progress, .progress_arg = &counted };
	struct measure_report report;
	struct topology truth, seen;
	struct probe_rules rules;
	struct probe *probe;

	(void)state;
	build(&truth, &rules);
	rules.noise = 0.05;
	open_machine(&truth, &rules, &probe, &seen);
	assert_int_equal(measure_run(&seen, &probe, 1, &options, &report), 0);
	assert_true(report.run_count > 12 * report.experiment_count);
	assert_int_equal(counted.calls, report.run_count);
	assert_int_equal(counted.wrong, 0);
	measure_report_fini(&report);
	probe->ops->close(probe);
	topology_fini(&seen);
	topology_fini(&truth);
}

static void pairs_that_the_driver_refuses_say_so(void **state)
{
	struct measure_options options = { .quick = true };
	struct measure_report report;
	struct topology truth, seen;
	struct probe_rules rules;
	struct probe *probe;

	(void)state;
	build(&truth, &rules);
	rules.p2p = PROBE_RULES_P2P_SWITCH;
	open_machine(&truth, &rules, &probe, &seen);
	assert_int_equal(measure_run(&seen, &probe, 1, &options, &report), 0);
	assert_true(pair_of(&seen, "gpu0", "gpu1")->p2p_works);
	assert_false(pair_of(&seen, "gpu0", "gpu2")->p2p_works);
	assert_int_equal(pair_of(&seen, "gpu0", "gpu2")->p2p.rate_Bps, 0);
	measure_report_fini(&report);
	probe->ops->close(probe);
	topology_fini(&seen);
	topology_fini(&truth);
}

struct progress {
	size_t calls, last_done, total, stop_at;
	_Atomic bool stop;
};

static void note_progress(void *arg, size_t done, size_t total, const char *what)
{
	struct progress *progress = arg;

	assert_true(what[0]);
	assert_true(done >= progress->last_done);
	progress->last_done = done;
	progress->total = total;
	if (++progress->calls == progress->stop_at)
		progress->stop = true;
}

static void stop_keeps_what_is_known_so_far(void **state)
{
	struct progress progress = { .stop_at = 0 };
	struct measure_options options = { .progress = note_progress,
					   .progress_arg = &progress,
					   .stop = &progress.stop };
	struct measure_report report;
	struct topology truth, seen;
	struct probe_rules rules;
	struct probe *probe;

	(void)state;
	build(&truth, &rules);
	for (size_t stop_at = 1; stop_at < 2000; stop_at *= 4) {
		progress = (struct progress){ .stop_at = stop_at };
		open_machine(&truth, &rules, &probe, &seen);
		probe->stop = &progress.stop;
		assert_int_equal(measure_run(&seen, &probe, 1, &options, &report), 0);
		if (progress.stop) {
			assert_true(report.stopped);
			assert_true(report.run_count <= stop_at);
		}
		/* Nothing is made worse than it was. */
		for (size_t i = 0; i < seen.link_count; i++)
			for (size_t j = 0; j < 2; j++)
				if (seen.links[i].capacity[j].provenance == TOPOLOGY_AT_LEAST && report.stopped)
					assert_true(seen.links[i].capacity[j].rate_Bps >= seen.links[i].nominal_Bps);
		measure_report_fini(&report);
		probe->ops->close(probe);
		topology_fini(&seen);
	}
	topology_fini(&truth);
}

static void budget_is_kept(void **state)
{
	static const uint64_t budgets[] = { SECOND / 100, SECOND, 3 * SECOND, 20 * SECOND };
	struct measure_report report;
	struct topology truth, seen;
	struct probe_rules rules;
	struct probe *probe;

	(void)state;
	build(&truth, &rules);
	for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
		struct measure_options options = { .budget_ns = budgets[i] };

		open_machine(&truth, &rules, &probe, &seen);
		assert_int_equal(measure_run(&seen, &probe, 1, &options, &report), 0);
		/* Finding out how long to run takes a while whatever the budget. */
		assert_true(report.time_ns <= budgets[i] || (i == 0 && report.time_ns < SECOND));
		assert_true(report.out_of_time || i > 0);
		assert_false(report.out_of_time && i == 3);
		measure_report_fini(&report);
		probe->ops->close(probe);
		topology_fini(&seen);
	}
	topology_fini(&truth);
}

static void nothing_to_measure_is_no_error_but_no_probe_is(void **state)
{
	struct measure_options options = { 0 };
	struct measure_report report;
	struct topology empty;
	struct probe_rules rules;
	struct probe *probe;

	(void)state;
	topology_init(&empty);
	simulated_rules_init(&rules);
	assert_int_equal(measure_run(&empty, NULL, 0, &options, &report), -EINVAL);
	assert_int_equal(simulated_probe_open(&empty, &rules, 1, &probe), 0);
	assert_int_equal(measure_run(&empty, &probe, 1, &options, &report), 0);
	assert_int_equal(report.run_count, 0);
	measure_report_fini(&report);
	probe->ops->close(probe);
	topology_fini(&empty);
}

/* ------------------------------------------------------------------------------------ a probe that fails or refuses */

struct faulty {
	struct probe probe; /* first */
	struct probe *inner;
	uint32_t from; /* whose flows to another GPU fail */
	int error;
};

static bool faulty_can(struct probe *probe, const struct probe_flow *flow)
{
	struct faulty *faulty = (struct faulty *)probe;

	return faulty->inner->ops->can(faulty->inner, flow);
}

static int faulty_run(struct probe *probe, const struct probe_flow *flows, size_t count, uint64_t duration_ns,
		      struct probe_rates *ret, struct diag *diag)
{
	struct faulty *faulty = (struct faulty *)probe;

	for (size_t i = 0; i < count; i++)
		if (flows[i].flow.from == faulty->from && flows[i].flow.way == TOPOLOGY_WAY_DIRECT &&
		    faulty->inner->topology->vertices[flows[i].flow.to].kind == TOPOLOGY_GPU) {
			diag_set(diag, 0, 0, "the card is on fire");
			return faulty->error;
		}
	return faulty->inner->ops->run(faulty->inner, flows, count, duration_ns, ret, diag);
}

static int faulty_latency(struct probe *probe, const struct probe_flow *flow, uint64_t *ret_ns, struct diag *diag)
{
	(void)probe;
	(void)flow;
	(void)ret_ns;
	diag_set(diag, 0, 0, "no clock");
	return -EIO;
}

static void flows_that_fail_cost_only_what_needs_them(void **state)
{
	static const int errors[] = { -ENOTSUP, -EIO };
	static const struct probe_ops ops = {
		.name = "faulty", .can = faulty_can, .run = faulty_run, .latency = faulty_latency
	};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct measure_options options = { .date_s = 1 };
		struct measure_report report;
		struct topology truth, seen;
		struct probe_rules rules;
		struct faulty faulty = { .error = errors[i] };
		struct probe *probe = &faulty.probe;
		bool said = false;

		build(&truth, &rules);
		open_machine(&truth, &rules, &faulty.inner, &seen);
		faulty.probe = (struct probe){ .ops = &ops, .topology = faulty.inner->topology };
		faulty.from = topology_find(&truth, "gpu0");
		assert_int_equal(measure_run(&seen, &probe, 1, &options, &report), 0);
		assert_false(pair_of(&seen, "gpu0", "gpu1")->p2p_works);
		assert_true(pair_of(&seen, "gpu1", "gpu0")->p2p_works);
		assert_int_equal(pair_of(&seen, "gpu1", "gpu0")->p2p.latency_ns, 0);
		assert_true(pair_of(&seen, "gpu0", "gpu1")->host.rate_Bps > 0);
		assert_near((double)seen.links[2].capacity[TOPOLOGY_UP].rate_Bps, 21);
		for (size_t j = 0; j < report.finding_count; j++)
			said = said || strstr(report.findings[j].text, "on fire");
		assert_true(said);
		measure_report_fini(&report);
		faulty.inner->ops->close(faulty.inner);
		topology_fini(&seen);
		topology_fini(&truth);
	}
}

static void lasting_neighbour_from_the_middle_on_is_not_averaged_in(void **state)
{
	struct measure_options options = { .date_s = 1 };
	struct measure_report report;
	struct topology truth, seen;
	struct probe_rules rules;
	struct probe *probe;
	double rate;

	(void)state;
	build(&truth, &rules);
	rules.neighbour_count = 1;
	rules.neighbours[0] = (struct probe_rules_neighbour){
		.link = "switch0>bridge0", .part = 0.4, .from_ns = 9 * SECOND, .to_ns = UINT64_MAX
	};
	open_machine(&truth, &rules, &probe, &seen);
	assert_int_equal(measure_run(&seen, &probe, 1, &options, &report), 0);
	rate = (double)seen.links[2].capacity[TOPOLOGY_UP].rate_Bps;
	/* What it was before, or said to be disturbed: never something between the two. */
	if (seen.links[2].capacity[TOPOLOGY_UP].provenance == TOPOLOGY_MEASURED)
		assert_near(rate, 21);
	else
		assert_true(report.finding_count > 0 || report.out_of_time);
	assert_true(report.repeat_count > 0);
	measure_report_fini(&report);
	probe->ops->close(probe);
	topology_fini(&seen);
	topology_fini(&truth);
}

/* What is left out of those that do not settle is counted, not how many are left. */
static void repetitions_that_settle_on_no_rate_are_said_to(void **state)
{
	struct measure_options options = { .date_s = 1 };
	struct measure_report report;
	struct topology truth, seen;
	struct probe_rules rules;
	struct probe *probe;
	unsigned said = 0;

	(void)state;
	build(&truth, &rules);
	rules.neighbour_count = PROBE_RULES_NEIGHBOURS_MAX;
	for (unsigned i = 0; i < PROBE_RULES_NEIGHBOURS_MAX; i++) /* ever more of it */
		rules.neighbours[i] = (struct probe_rules_neighbour){
			.link = "switch0>bridge0", .part = 0.1, .from_ns = (1 + 2 * i) * SECOND, .to_ns = UINT64_MAX
		};
	open_machine(&truth, &rules, &probe, &seen);
	assert_int_equal(measure_run(&seen, &probe, 1, &options, &report), 0);
	for (size_t i = 0; i < report.finding_count; i++) {
		size_t all = 0, aside = 0;

		if (report.findings[i].kind != MEASURE_DISTURBED)
			continue;
		assert_int_equal(sscanf(report.findings[i].text,
					"%zu repetitions settle on no rate, with %zu of them set aside", &all, &aside),
				 2);
		assert_true(all && aside < all);
		said++;
	}
	assert_true(said > 0);
	measure_report_fini(&report);
	probe->ops->close(probe);
	topology_fini(&seen);
	topology_fini(&truth);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(machine_gets_capacities_limits_and_pairs),
		cmocka_unit_test(progress_never_runs_past_its_total),
		cmocka_unit_test(pairs_that_the_driver_refuses_say_so),
		cmocka_unit_test(stop_keeps_what_is_known_so_far),
		cmocka_unit_test(budget_is_kept),
		cmocka_unit_test(nothing_to_measure_is_no_error_but_no_probe_is),
		cmocka_unit_test(flows_that_fail_cost_only_what_needs_them),
		cmocka_unit_test(repetitions_that_settle_on_no_rate_are_said_to),
		cmocka_unit_test(lasting_neighbour_from_the_middle_on_is_not_averaged_in),
	};

	return cmocka_run_group_tests(tests, truth_hold_clock, truth_release_clock);
}
