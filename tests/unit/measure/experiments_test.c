/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/experiments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "ground_truth.h"

/* Two sockets, each with a switch of `width` GPUs and a NIC. */
static void build(struct topology *topology, unsigned width)
{
	uint32_t cpus[2];
	unsigned gpu = 0;

	topology_init(topology);
	for (unsigned i = 0; i < 2; i++) {
		char name[32];
		uint32_t bridge, vertex;

		cpus[i] = truth_cpu(topology, (int)i, 100);
		snprintf(name, sizeof(name), "bridge%u", i);
		bridge = truth_vertex(topology, TOPOLOGY_BRIDGE, name);
		truth_link(topology, TOPOLOGY_LINK_INTERNAL, bridge, cpus[i], 0, 40, 40);
		snprintf(name, sizeof(name), "switch%u", i);
		vertex = truth_vertex(topology, TOPOLOGY_SWITCH, name);
		truth_link(topology, TOPOLOGY_LINK_PCI, vertex, bridge, 24, 21, 21);
		for (unsigned j = 0; j < width; j++) {
			snprintf(name, sizeof(name), "gpu%u", gpu++);
			truth_link(topology, TOPOLOGY_LINK_PCI, truth_vertex(topology, TOPOLOGY_GPU, name), vertex, 24,
				   21, 21);
		}
		snprintf(name, sizeof(name), "nic%u", i);
		truth_link(topology, TOPOLOGY_LINK_PCI, truth_vertex(topology, TOPOLOGY_NIC, name), vertex, 24, 21, 21);
	}
	truth_link(topology, TOPOLOGY_LINK_SOCKET, cpus[0], cpus[1], 0, 40, 40);
}

static void plan(struct topology *topology, const struct probe_rules *rules, bool quick, struct probe **ret_probe,
		 struct measure_plan *ret)
{
	assert_int_equal(simulated_probe_open(topology, rules, 1, ret_probe), 0);
	assert_int_equal(measure_experiments_plan(topology, ret_probe, 1, quick, ret), 0);
}

static void rules_with_cores(struct probe_rules *rules)
{
	simulated_rules_init(rules);
	rules->cores_Bps = 50e9;
}

/* Of one experiment. */
static size_t crossings(const struct topology *topology, const struct measure_experiment *experiment, uint32_t directed)
{
	size_t count = 0;

	for (size_t i = 0; i < experiment->count; i++)
		count += truth_crossings(topology, &experiment->flows[i], directed) != 0;
	return count;
}

static void every_link_is_crossed_by_several_flows_in_each_direction_and_in_both(void **state)
{
	struct measure_plan plan_of;
	struct topology topology;
	struct probe_rules rules;
	struct probe *probe;

	(void)state;
	build(&topology, 4);
	rules_with_cores(&rules);
	plan(&topology, &rules, false, &probe, &plan_of);
	for (uint32_t i = 0; i < 2 * topology.link_count; i++) {
		bool several = false, both = false;

		for (size_t j = 0; j < plan_of.count; j++) {
			size_t here = crossings(&topology, &plan_of.items[j], i);
			size_t back = crossings(&topology, &plan_of.items[j], i ^ 1);

			several = several || (here > 1 && !back);
			both = both || (here && back);
		}
		assert_true(several);
		assert_true(both);
	}
	measure_experiments_fini(&plan_of);
	probe->ops->close(probe);
	topology_fini(&topology);
}

/* What a link carries shows only under more flows than two devices have between them. */
static void a_devices_link_is_once_crossed_by_all_its_kinds_of_flows(void **state)
{
	struct measure_plan plan_of;
	struct topology topology;
	struct probe_rules rules;
	struct probe *probe;

	(void)state;
	build(&topology, 4);
	rules_with_cores(&rules);
	plan(&topology, &rules, false, &probe, &plan_of);
	for (uint32_t i = 0; i < 2 * topology.link_count; i++) {
		size_t most = 0;

		for (size_t j = 0; j < plan_of.count; j++) {
			size_t here = crossings(&topology, &plan_of.items[j], i);

			most = here > most ? here : most;
		}
		assert_true(most >= 10);
	}
	measure_experiments_fini(&plan_of);
	probe->ops->close(probe);
	topology_fini(&topology);
}

static void every_pair_of_gpus_is_tried_directly_and_through_the_host(void **state)
{
	struct measure_plan plan_of;
	struct topology topology;
	struct probe_rules rules;
	struct probe *probe;
	size_t direct = 0, host = 0;

	(void)state;
	build(&topology, 4);
	rules_with_cores(&rules);
	rules.p2p = PROBE_RULES_P2P_SOCKET;
	plan(&topology, &rules, false, &probe, &plan_of);
	for (size_t i = 0; i < plan_of.count; i++) {
		const struct measure_experiment *experiment = &plan_of.items[i];

		if (!experiment->pair || experiment->flows->engine != PROBE_ENGINE_DEFAULT)
			continue;
		direct += experiment->flows->flow.way == TOPOLOGY_WAY_DIRECT;
		host += experiment->flows->flow.way == TOPOLOGY_WAY_HOST;
	}
	assert_int_equal(direct, 2 * 4 * 3); /* what the driver refuses is not tried */
	assert_int_equal(host, 8 * 7);
	measure_experiments_fini(&plan_of);
	probe->ops->close(probe);
	topology_fini(&topology);
}

static bool same(const struct measure_experiment *a, const struct measure_experiment *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!measure_experiments_same_flow(&a->flows[i], &b->flows[i]))
			return false;
	return true;
}

static void no_set_is_planned_twice_and_priorities_are_in_order(void **state)
{
	struct measure_plan plan_of;
	struct topology topology;
	struct probe_rules rules;
	struct probe *probe;

	(void)state;
	build(&topology, 3);
	rules_with_cores(&rules);
	plan(&topology, &rules, false, &probe, &plan_of);
	for (size_t i = 0; i < plan_of.count; i++) {
		assert_true(plan_of.items[i].count > 0 && plan_of.items[i].what[0]);
		assert_true(i == 0 || plan_of.items[i].priority >= plan_of.items[i - 1].priority);
		for (size_t j = 0; j < plan_of.items[i].count; j++)
			assert_true(probe->ops->can(probe, &plan_of.items[i].flows[j]));
		for (size_t j = 0; j < i; j++)
			assert_false(same(&plan_of.items[i], &plan_of.items[j]));
	}
	measure_experiments_fini(&plan_of);
	probe->ops->close(probe);
	topology_fini(&topology);
}

static void quick_plan_is_much_smaller_and_the_plan_grows_no_faster_than_pairs(void **state)
{
	size_t counts[3][2];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		for (unsigned quick = 0; quick < 2; quick++) {
			struct measure_plan plan_of;
			struct topology topology;
			struct probe_rules rules;
			struct probe *probe;

			build(&topology, 1u << (i + 1));
			rules_with_cores(&rules);
			plan(&topology, &rules, quick, &probe, &plan_of);
			counts[i][quick] = plan_of.count;
			measure_experiments_fini(&plan_of);
			probe->ops->close(probe);
			topology_fini(&topology);
		}
	assert_true(counts[2][1] * 2 < counts[2][0]);
	assert_true(counts[1][0] < 4 * counts[0][0] && counts[2][0] < 4 * counts[1][0]);
	assert_true(counts[2][1] < 3 * counts[1][1]);
}

static void machine_without_devices_has_its_memories_measured_and_an_empty_one_nothing(void **state)
{
	struct measure_plan plan_of;
	struct topology topology;
	struct probe_rules rules;
	struct probe *probe;

	(void)state;
	topology_init(&topology);
	rules_with_cores(&rules);
	plan(&topology, &rules, false, &probe, &plan_of);
	assert_int_equal(plan_of.count, 0);
	measure_experiments_fini(&plan_of);
	probe->ops->close(probe);
	truth_cpu(&topology, 0, 100);
	plan(&topology, &rules, false, &probe, &plan_of);
	assert_true(plan_of.count >= 3); /* reads, writes, copies */
	measure_experiments_fini(&plan_of);
	probe->ops->close(probe);
	topology_fini(&topology);
}

static void copy_within_a_memory_reads_it_and_writes_it(void **state)
{
	struct topology topology;
	struct topology_route route;
	struct topology_flow flow = { .way = TOPOLOGY_WAY_DIRECT, .via = TOPOLOGY_NONE };

	(void)state;
	topology_init(&topology);
	truth_cpu(&topology, 0, 100);
	flow.from = flow.to = topology_find(&topology, "memory0");
	assert_int_equal(measure_experiments_route(&topology, &flow, &route), 0);
	assert_int_equal(route.count, 2);
	assert_int_equal(route.links[0] ^ 1, route.links[1]);
	flow.from = flow.to = topology_find(&topology, "cpu0");
	assert_true(measure_experiments_route(&topology, &flow, &route) < 0);
	topology_fini(&topology);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_link_is_crossed_by_several_flows_in_each_direction_and_in_both),
		cmocka_unit_test(a_devices_link_is_once_crossed_by_all_its_kinds_of_flows),
		cmocka_unit_test(every_pair_of_gpus_is_tried_directly_and_through_the_host),
		cmocka_unit_test(no_set_is_planned_twice_and_priorities_are_in_order),
		cmocka_unit_test(quick_plan_is_much_smaller_and_the_plan_grows_no_faster_than_pairs),
		cmocka_unit_test(machine_without_devices_has_its_memories_measured_and_an_empty_one_nothing),
		cmocka_unit_test(copy_within_a_memory_reads_it_and_writes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
