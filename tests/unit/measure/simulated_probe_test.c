/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/simulated_probe.h"

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

#include "ground_truth.h"
#include "oracle.h"
#include "base/random.h"

#define MS UINT64_C(1000000)

/*
 * Two GPUs and a NIC below one switch, whose slot is as wide as one of theirs; a third GPU on a root port. 10 GB/s
 * each.
 */
struct fixture {
	struct topology truth;
	struct probe_rules rules;
	struct probe *probe;
	uint32_t memory, cpu, gpu0, gpu1, gpu2, nic;
};

static void build(struct fixture *fixture)
{
	struct topology *truth = &fixture->truth;
	uint32_t bridge, switch0;

	topology_init(truth);
	simulated_rules_init(&fixture->rules);
	fixture->rules.cores_Bps = 30e9;
	fixture->cpu = truth_cpu(truth, 0, 100);
	fixture->memory = topology_find(truth, "memory0");
	bridge = truth_vertex(truth, TOPOLOGY_BRIDGE, "bridge0");
	switch0 = truth_vertex(truth, TOPOLOGY_SWITCH, "switch0");
	fixture->gpu0 = truth_vertex(truth, TOPOLOGY_GPU, "gpu0");
	fixture->gpu1 = truth_vertex(truth, TOPOLOGY_GPU, "gpu1");
	fixture->gpu2 = truth_vertex(truth, TOPOLOGY_GPU, "gpu2");
	fixture->nic = truth_vertex(truth, TOPOLOGY_NIC, "nic0");
	truth_link(truth, TOPOLOGY_LINK_INTERNAL, bridge, fixture->cpu, 0, 30, 30);
	truth_link(truth, TOPOLOGY_LINK_PCI, switch0, bridge, 12, 10, 10);
	truth_link(truth, TOPOLOGY_LINK_PCI, fixture->gpu0, switch0, 12, 10, 10);
	truth_link(truth, TOPOLOGY_LINK_PCI, fixture->gpu1, switch0, 12, 10, 10);
	truth_link(truth, TOPOLOGY_LINK_PCI, fixture->gpu2, bridge, 12, 10, 10);
	truth_link(truth, TOPOLOGY_LINK_PCI, fixture->nic, switch0, 12, 10, 10);
}

static void start(struct fixture *fixture)
{
	assert_int_equal(simulated_probe_open(&fixture->truth, &fixture->rules, 1, &fixture->probe), 0);
}

static void end(struct fixture *fixture)
{
	fixture->probe->ops->close(fixture->probe);
	topology_fini(&fixture->truth);
}

static struct probe_flow direct(uint32_t from, uint32_t to)
{
	return (struct probe_flow){ .flow = { from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE } };
}

static void expect(struct fixture *fixture, const struct probe_flow *flows, size_t count, const double *rates_GBps)
{
	double rates[8];

	assert_int_equal(simulated_probe_solve(fixture->probe, flows, count, rates), 0);
	for (size_t i = 0; i < count; i++)
		if (fabs(rates[i] / 1e9 - rates_GBps[i]) > 0.003 * rates_GBps[i])
			fail_msg("flow %zu gets %.3f GB/s, not %.3f", i, rates[i] / 1e9, rates_GBps[i]);
}

static void flows_share_what_they_have_in_common(void **state)
{
	struct fixture fixture;

	(void)state;
	build(&fixture);
	start(&fixture);
	expect(&fixture, (struct probe_flow[]){ direct(fixture.gpu0, fixture.memory) }, 1, (double[]){ 10 });
	expect(&fixture,
	       (struct probe_flow[]){ direct(fixture.gpu0, fixture.memory), direct(fixture.gpu1, fixture.memory),
				      direct(fixture.gpu2, fixture.memory) },
	       3, (double[]){ 5, 5, 10 });
	expect(&fixture,
	       (struct probe_flow[]){ direct(fixture.gpu0, fixture.memory), direct(fixture.memory, fixture.gpu0) }, 2,
	       (double[]){ 10, 10 });
	end(&fixture);
}

static void both_directions_at_once_get_less_than_twice_one(void **state)
{
	struct fixture fixture;

	(void)state;
	build(&fixture);
	fixture.rules.both[TOPOLOGY_LINK_PCI] = 0.8;
	start(&fixture);
	expect(&fixture,
	       (struct probe_flow[]){ direct(fixture.gpu0, fixture.memory), direct(fixture.memory, fixture.gpu0) }, 2,
	       (double[]){ 8, 8 });
	end(&fixture);
}

static void engines_and_devices_have_limits_of_their_own(void **state)
{
	struct fixture fixture;

	(void)state;
	build(&fixture);
	fixture.rules.engine_out[TOPOLOGY_GPU] = 0.9;
	fixture.rules.engine_in[TOPOLOGY_GPU] = 0.7;
	fixture.rules.kernel = 0.95;
	fixture.rules.device[TOPOLOGY_GPU] = 0.6;
	start(&fixture);
	expect(&fixture, (struct probe_flow[]){ direct(fixture.gpu0, fixture.memory) }, 1, (double[]){ 9 });
	expect(&fixture, (struct probe_flow[]){ direct(fixture.memory, fixture.gpu0) }, 1, (double[]){ 7 });
	expect(&fixture,
	       (struct probe_flow[]){ direct(fixture.gpu0, fixture.memory), direct(fixture.memory, fixture.gpu0) }, 2,
	       (double[]){ 6, 6 });
	/* A neighbour's writes need no engine of the receiver, and a NIC brings its own. */
	fixture.rules.device[TOPOLOGY_GPU] = 1;
	fixture.probe->ops->close(fixture.probe);
	start(&fixture);
	expect(&fixture, (struct probe_flow[]){ direct(fixture.gpu1, fixture.gpu0) }, 1, (double[]){ 9 });
	expect(&fixture, (struct probe_flow[]){ direct(fixture.gpu0, fixture.nic) }, 1, (double[]){ 10 });
	expect(&fixture,
	       (struct probe_flow[]){
		       { .flow = direct(fixture.gpu0, fixture.memory).flow, .engine = PROBE_ENGINE_KERNEL } },
	       1, (double[]){ 9.5 });
	end(&fixture);
}

static void p2p_has_its_own_rates_and_its_extent(void **state)
{
	struct probe_flow far, host;
	struct fixture fixture;

	(void)state;
	build(&fixture);
	fixture.rules.p2p_root = 0.6;
	fixture.rules.staged = 0.9;
	fixture.rules.pairs[0] = (struct probe_rules_pair){ "gpu1", "gpu0", 0.75 };
	fixture.rules.pair_count = 1;
	start(&fixture);
	host = direct(fixture.gpu0, fixture.gpu2);
	host.flow.way = TOPOLOGY_WAY_HOST;
	expect(&fixture, (struct probe_flow[]){ direct(fixture.gpu0, fixture.gpu1) }, 1, (double[]){ 10 });
	expect(&fixture, (struct probe_flow[]){ direct(fixture.gpu1, fixture.gpu0) }, 1, (double[]){ 7.5 });
	expect(&fixture, (struct probe_flow[]){ direct(fixture.gpu0, fixture.gpu2) }, 1, (double[]){ 6 });
	expect(&fixture, &host, 1, (double[]){ 9 });
	fixture.probe->ops->close(fixture.probe);

	fixture.rules.p2p = PROBE_RULES_P2P_SWITCH;
	start(&fixture);
	far = direct(fixture.gpu0, fixture.gpu2);
	assert_true(fixture.probe->ops->can(fixture.probe,
					    &(struct probe_flow){ .flow = direct(fixture.gpu0, fixture.gpu1).flow }));
	assert_false(fixture.probe->ops->can(fixture.probe, &far));
	assert_true(fixture.probe->ops->can(fixture.probe, &host));
	end(&fixture);
}

static void cores_of_a_cpu_are_shared_by_what_they_move(void **state)
{
	struct fixture fixture;

	(void)state;
	build(&fixture);
	start(&fixture);
	expect(&fixture, (struct probe_flow[]){ direct(fixture.memory, fixture.cpu) }, 1, (double[]){ 30 });
	expect(&fixture,
	       (struct probe_flow[]){ direct(fixture.memory, fixture.cpu), direct(fixture.cpu, fixture.memory),
				      direct(fixture.memory, fixture.memory) },
	       3, (double[]){ 10, 10, 10 });
	end(&fixture);
}

/* Mean of many runs, and their standard deviation over it. */
static double mean_of(struct fixture *fixture, uint64_t duration_ns, size_t runs, double *ret_deviation)
{
	struct probe_flow flow = direct(fixture->gpu0, fixture->memory);
	double sum = 0, squares = 0, rate;
	struct probe_rates rates = { .rate_Bps = &rate };
	struct diag diag;

	for (size_t i = 0; i < runs; i++) {
		assert_int_equal(fixture->probe->ops->run(fixture->probe, &flow, 1, duration_ns, &rates, &diag), 0);
		assert_int_equal(rates.time_ns, duration_ns + fixture->rules.overhead_ns);
		sum += rate;
		squares += rate * rate;
	}
	sum /= (double)runs;
	*ret_deviation = sqrt(squares / (double)runs - sum * sum) / sum;
	return sum;
}

static void runs_are_noisy_short_ones_low_and_the_same_for_the_same_seed(void **state)
{
	struct fixture fixture;
	double deviation, again, mean;

	(void)state;
	build(&fixture);
	fixture.rules.noise = 0.02;
	fixture.rules.ramp_ns = 1 * MS;
	fixture.rules.overhead_ns = 3 * MS;
	start(&fixture);
	mean = mean_of(&fixture, 1000 * MS, 2000, &deviation);
	assert_true(fabs(mean / 1e10 - 0.999) < 0.002);
	assert_true(fabs(deviation - 0.02) < 0.002);
	mean = mean_of(&fixture, 10 * MS, 2000, &deviation);
	assert_true(fabs(mean / 1e10 - 0.9) < 0.002); /* 1 - ramp / duration */
	fixture.probe->ops->close(fixture.probe);
	start(&fixture);
	mean = mean_of(&fixture, 10 * MS, 20, &deviation);
	fixture.probe->ops->close(fixture.probe);
	start(&fixture);
	again = mean_of(&fixture, 10 * MS, 20, &deviation);
	assert_true(mean == again);
	end(&fixture);
}

static void neighbour_takes_its_part_while_it_is_there(void **state)
{
	struct fixture fixture;
	double deviation;

	(void)state;
	build(&fixture);
	fixture.rules.neighbour_count = 1;
	fixture.rules.neighbours[0] = (struct probe_rules_neighbour){
		.link = "gpu0>switch0",
		.part = 0.4,
		.from_ns = 10 * MS,
		.to_ns = 25 * MS,
	};
	start(&fixture);
	assert_true(fabs(mean_of(&fixture, 10 * MS, 1, &deviation) / 1e9 - 10) < 0.01);
	assert_true(fabs(mean_of(&fixture, 10 * MS, 1, &deviation) / 1e9 - 6) < 0.01);
	assert_true(fabs(mean_of(&fixture, 10 * MS, 1, &deviation) / 1e9 - 8) < 0.01); /* half of its time */
	assert_true(fabs(mean_of(&fixture, 10 * MS, 1, &deviation) / 1e9 - 10) < 0.01);
	end(&fixture);
}

static void stop_ends_a_run_and_a_strange_flow_is_refused(void **state)
{
	_Atomic bool stop = false;
	struct fixture fixture;
	struct probe_flow flow;
	double rate;
	struct probe_rates rates = { .rate_Bps = &rate };
	struct diag diag;

	(void)state;
	build(&fixture);
	start(&fixture);
	flow = direct(fixture.nic, fixture.nic);
	assert_false(fixture.probe->ops->can(fixture.probe, &flow));
	assert_int_equal(fixture.probe->ops->run(fixture.probe, &flow, 1, MS, &rates, &diag), -ENOTSUP);
	flow = direct(12345, fixture.nic);
	assert_false(fixture.probe->ops->can(fixture.probe, &flow));
	fixture.probe->stop = &stop;
	stop = true;
	flow = direct(fixture.gpu0, fixture.memory);
	assert_int_equal(fixture.probe->ops->run(fixture.probe, &flow, 1, MS, &rates, &diag), -EINTR);
	end(&fixture);
	build(&fixture);
	fixture.rules.neighbour_count = 1;
	fixture.rules.neighbours[0].link[0] = 'x';
	assert_int_equal(simulated_probe_open(&fixture.truth, &fixture.rules, 1, &fixture.probe), -EINVAL);
	topology_fini(&fixture.truth);
}

/* Nothing may exceed its bound, and every flow has a full constraint: nobody could get more without another's less. */
static void rates_of_random_machines_are_feasible_and_leave_nothing_over(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct probe_simulated_rows rows;
		struct topology truth;
		struct probe_rules rules;
		struct probe_flow *flows;
		struct probe *probe;
		uint64_t random = seed;
		double rates[10];
		size_t all, count = 1 + seed % 10;

		truth_random(seed, &truth, &rules);
		assert_int_equal(simulated_probe_open(&truth, &rules, 1, &probe), 0);
		all = oracle_flows(&truth, probe, &flows);
		for (size_t i = 0; i < count; i++)
			flows[i] = flows[i + random_below(&random, all - i)];
		assert_int_equal(simulated_probe_solve(probe, flows, count, rates), 0);
		assert_int_equal(simulated_probe_constraints(probe, flows, count, &rows), 0);
		for (size_t i = 0; i < count; i++) {
			bool full = false;

			for (size_t j = 0; j < rows.count; j++) {
				double load = 0;

				for (size_t k = 0; k < count; k++)
					load += rows.weight[j * count + k] * rates[k];
				assert_true(load <= rows.bound_Bps[j] * 1.001);
				full = full || (rows.weight[j * count + i] > 0 && load > rows.bound_Bps[j] * 0.99);
			}
			assert_true(full);
		}
		simulated_rows_fini(&rows);
		free(flows);
		probe->ops->close(probe);
		topology_fini(&truth);
	}
}

static void rules_are_read_and_wrong_ones_refused(void **state)
{
	static const char text[] = "# a machine\n"
				   "p2p socket\n"
				   "both pci 0.85  # of the sum\n"
				   "engine-in gpu 0.9\n"
				   "cores-GBps 12.5\n"
				   "pair gpu0 gpu1 0.5\n"
				   "neighbour gpu0>gpu1#2 0.4 1000 2000\n"
				   "\n"
				   "noise 0.02\n"
				   "ramp-ns 60000";
	static const char *const wrong[] = {
		"p2p everywhere",    "both pci",   "both pci 1.5",  "both pci 0",          "both tin 0.5",
		"engine-in cpu 0.5", "noise -1",   "pair gpu0 0.5", "noise 0.1 0.2",       "neighbour gpu0>gpu1 1 0 1",
		"ramp-ns 1.5",       "nonsense 1", "cores-GBps x",  "a b c d e f g h i j",
	};
	struct probe_rules rules;
	struct diag diag = { 0 };

	(void)state;
	assert_int_equal(simulated_rules_read(text, sizeof(text) - 1, &rules, &diag), 0);
	assert_int_equal(rules.p2p, PROBE_RULES_P2P_SOCKET);
	assert_true(rules.both[TOPOLOGY_LINK_PCI] == 0.85 && rules.both[TOPOLOGY_LINK_MEMORY] == 1);
	assert_true(rules.engine_in[TOPOLOGY_GPU] == 0.9 && rules.cores_Bps == 12.5e9 && rules.noise == 0.02);
	assert_string_equal(rules.pairs[0].to, "gpu1");
	assert_string_equal(rules.neighbours[0].link, "gpu0>gpu1#2");
	assert_int_equal(rules.neighbours[0].to_ns, 2000);
	assert_int_equal(rules.ramp_ns, 60000);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char line[128];

		snprintf(line, sizeof(line), "noise 0.02\n%s\n", wrong[i]);
		assert_int_equal(simulated_rules_read(line, strlen(line), &rules, &diag), -EINVAL);
		assert_int_equal(diag.line, 2);
	}
}

static void what_discovery_sees_has_nothing_that_was_measured(void **state)
{
	struct fixture fixture;
	struct topology hidden;

	(void)state;
	build(&fixture);
	assert_int_equal(simulated_probe_hide(&fixture.truth, &hidden), 0);
	assert_int_equal(hidden.vertex_count, fixture.truth.vertex_count);
	for (size_t i = 0; i < hidden.link_count; i++)
		for (size_t j = 0; j < 2; j++) {
			assert_int_equal(hidden.links[i].capacity[j].rate_Bps, hidden.links[i].nominal_Bps);
			assert_int_equal(hidden.links[i].capacity[j].provenance,
					 hidden.links[i].nominal_Bps ? TOPOLOGY_NOMINAL : TOPOLOGY_UNKNOWN);
		}
	topology_fini(&hidden);
	topology_fini(&fixture.truth);
	assert_true(simulated_probe_read("/nonexistent", &hidden, &fixture.rules, &(struct diag){ 0 }) < 0);
}

static void latency_is_that_of_the_way_and_of_each_copy(void **state)
{
	struct fixture fixture;
	struct probe_flow flow;
	struct diag diag;
	uint64_t direct_ns, host_ns;

	(void)state;
	build(&fixture);
	fixture.rules.latency_ns = 8000;
	for (size_t i = 0; i < fixture.truth.link_count; i++)
		fixture.truth.links[i].capacity[0].latency_ns = fixture.truth.links[i].capacity[1].latency_ns = 100;
	start(&fixture);
	flow = direct(fixture.gpu0, fixture.gpu1);
	assert_int_equal(fixture.probe->ops->latency(fixture.probe, &flow, &direct_ns, &diag), 0);
	assert_int_equal(direct_ns, 8200);
	flow.flow.way = TOPOLOGY_WAY_HOST;
	assert_int_equal(fixture.probe->ops->latency(fixture.probe, &flow, &host_ns, &diag), 0);
	assert_int_equal(host_ns, 16800);
	flow = direct(fixture.nic, fixture.nic);
	assert_int_equal(fixture.probe->ops->latency(fixture.probe, &flow, &host_ns, &diag), -ENOTSUP);
	end(&fixture);
}

static void linear_programs_of_the_oracle_are_solved(void **state)
{
	/* 3x + 5y with x <= 4, 2y <= 12, 3x + 2y <= 18: 36 at (2, 6). */
	static const double weight[] = { 1, 0, 0, 2, 3, 2 }, bound[] = { 4, 12, 18 }, gain[] = { 3, 5 };

	(void)state;
	assert_true(fabs(oracle_maximise(weight, bound, gain, 3, 2) - 36) < 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flows_share_what_they_have_in_common),
		cmocka_unit_test(both_directions_at_once_get_less_than_twice_one),
		cmocka_unit_test(engines_and_devices_have_limits_of_their_own),
		cmocka_unit_test(p2p_has_its_own_rates_and_its_extent),
		cmocka_unit_test(cores_of_a_cpu_are_shared_by_what_they_move),
		cmocka_unit_test(runs_are_noisy_short_ones_low_and_the_same_for_the_same_seed),
		cmocka_unit_test(neighbour_takes_its_part_while_it_is_there),
		cmocka_unit_test(stop_ends_a_run_and_a_strange_flow_is_refused),
		cmocka_unit_test(rates_of_random_machines_are_feasible_and_leave_nothing_over),
		cmocka_unit_test(rules_are_read_and_wrong_ones_refused),
		cmocka_unit_test(what_discovery_sees_has_nothing_that_was_measured),
		cmocka_unit_test(latency_is_that_of_the_way_and_of_each_copy),
		cmocka_unit_test(linear_programs_of_the_oracle_are_solved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
