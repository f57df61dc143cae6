/* SPDX-License-Identifier: Apache-2.0 */
/* The probe of RDMA devices over the fake: what it can, what it moves, what it says when it cannot. */
#include "measure/probe_rdma.h"

#include "base/clock.h"
#include "base/params.h"
#include "measure/experiments.h"
#include "support/runtime.h"
#include "unit/measure/ground_truth.h"
#include "unit/transport/tcp/fake_sysfs.h"
#include "unit/transport/verbs/fake_verbs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ground_truth.h"

enum { CALLS_MOST = 2000, BUFFER_BYTES = 2 << 20 };

/* A CPU with its memory, below it two RDMA ports and a NIC without. */
struct machine {
	struct topology topology;
	uint32_t memory, nics[2], plain;
	struct probe *probe;
};

static void build(struct machine *machine, struct fake_sysfs *tree)
{
	char path[160], name[16];
	uint32_t cpu, bridge;

	topology_init(&machine->topology);
	cpu = truth_cpu(&machine->topology, 0, 100);
	machine->memory = topology_memory_of(&machine->topology, cpu);
	bridge = truth_vertex(&machine->topology, TOPOLOGY_BRIDGE, "bridge");
	truth_link(&machine->topology, TOPOLOGY_LINK_INTERNAL, bridge, cpu, 0, 40, 40);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "nic:fake%u", i);
		machine->nics[i] = truth_vertex(&machine->topology, TOPOLOGY_NIC, name);
		machine->topology.vertices[machine->nics[i]].nic.rdma = true;
		truth_link(&machine->topology, TOPOLOGY_LINK_PCI, machine->nics[i], bridge, 24, 21, 21);
		snprintf(path, sizeof(path), "class/infiniband/fake%u/ports/1/gid_attrs/types/1", i);
		tree_text(&tree->tree, path, "RoCE v2\n");
	}
	machine->plain = truth_vertex(&machine->topology, TOPOLOGY_NIC, "nic:eth0");
	truth_link(&machine->topology, TOPOLOGY_LINK_PCI, machine->plain, bridge, 8, 6, 6);
}

static int probe_open_with(struct machine *machine, const struct fake_sysfs *tree,
			   const struct fake_verbs_options *options, const struct params *params, struct diag *diag)
{
	const struct probe_rdma_options probe_options = { .api = fake_verbs_start(options),
							  .sysfs_root = tree->tree.root,
							  .params = params,
							  .buffer_bytes = BUFFER_BYTES };

	return probe_rdma_open(&machine->topology, NULL, &probe_options, &machine->probe, diag);
}

static int probe_open(struct machine *machine, const struct fake_sysfs *tree, const struct fake_verbs_options *options,
		      struct diag *diag)
{
	return probe_open_with(machine, tree, options, NULL, diag);
}

static void probe_end(struct machine *machine)
{
	struct fake_verbs_counts counts;

	if (machine->probe)
		machine->probe->ops->close(machine->probe);
	machine->probe = NULL;
	assert_int_equal(fake_verbs_stop(), 0);
	fake_verbs_counts(&counts);
	assert_int_equal(counts.wrong_calls, 0);
	assert_int_equal(counts.overflows, 0);
}

static struct probe_flow through(const struct machine *machine, uint32_t from, uint32_t to, uint32_t via)
{
	(void)machine;
	return (struct probe_flow){ .flow = { from, to, TOPOLOGY_WAY_HOST, via } };
}

static int run(struct machine *machine, const struct probe_flow *flows, size_t count, double *rates, struct diag *diag)
{
	struct probe_rates ret = { .rate_Bps = rates };

	return machine->probe->ops->run(machine->probe, flows, count, 2 * NS_PER_MS, &ret, diag);
}

static void flows_go_through_memories_from_port_to_port(void **state)
{
	struct machine machine = { .probe = NULL };
	struct probe_flow flow;
	struct diag diag = { 0 };
	bool can;

	build(&machine, *state);
	assert_int_equal(probe_open(&machine, *state, &(struct fake_verbs_options){ .devices = 2 }, &diag), 0);
	for (unsigned i = 0; i < 4; i++) {
		flow = through(&machine, machine.nics[i / 2], machine.nics[i % 2], i ? machine.memory : TOPOLOGY_NONE);
		can = machine.probe->ops->can(machine.probe, &flow);
		assert_true(can);
	}
	flow.engine = PROBE_ENGINE_KERNEL;
	assert_false(machine.probe->ops->can(machine.probe, &flow));
	flow = through(&machine, machine.nics[0], machine.plain, TOPOLOGY_NONE);
	assert_false(machine.probe->ops->can(machine.probe, &flow));
	flow = through(&machine, machine.nics[0], machine.nics[0], machine.nics[1]);
	assert_false(machine.probe->ops->can(machine.probe, &flow));
	flow = (struct probe_flow){ .flow = { machine.nics[0], machine.memory, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE } };
	assert_false(machine.probe->ops->can(machine.probe, &flow)); /* no card only writes */
	assert_int_equal(run(&machine, &flow, 1, (double[1]){ 0 }, &diag), -ENOTSUP);
	probe_end(&machine);
	topology_fini(&machine.topology);
}

static void several_flows_move_at_once(void **state)
{
	struct machine machine = { .probe = NULL };
	struct fake_verbs_counts counts;
	struct probe_flow flows[3];
	double rates[3] = { 0 };
	struct diag diag = { 0 };

	build(&machine, *state);
	assert_int_equal(
		probe_open(&machine, *state, &(struct fake_verbs_options){ .devices = 2, .lazy = true }, &diag), 0);
	flows[0] = through(&machine, machine.nics[0], machine.nics[0], TOPOLOGY_NONE);
	flows[1] = through(&machine, machine.nics[1], machine.nics[1], TOPOLOGY_NONE);
	flows[2] = through(&machine, machine.nics[0], machine.nics[1], machine.memory);
	for (size_t count = 1; count <= 3; count++) {
		assert_int_equal(run(&machine, flows, count, rates, &diag), 0);
		for (size_t i = 0; i < count; i++)
			assert_true(rates[i] > 0);
	}
	fake_verbs_counts(&counts);
	assert_true(counts.bytes > 3 * 256 << 10);
	assert_int_equal(fake_verbs_regions(), 0);
	probe_end(&machine);
	topology_fini(&machine.topology);
}

static void ports_that_do_not_reach_each_other_are_said(void **state)
{
	struct machine machine = { .probe = NULL };
	struct diag diag = { 0 };
	struct probe_flow flow;
	double rate;

	build(&machine, *state);
	assert_int_equal(probe_open(&machine, *state, &(struct fake_verbs_options){ .devices = 2 }, &diag), 0);
	flow = through(&machine, machine.nics[0], machine.nics[1], TOPOLOGY_NONE);
	fake_verbs_path(1, false);
	assert_int_equal(run(&machine, &flow, 1, &rate, &diag), -ENOTSUP);
	assert_string_equal(diag.text, "no way leads from one of these ports to the other");
	fake_verbs_path(1, true);
	assert_int_equal(run(&machine, &flow, 1, &rate, &diag), 0);
	fake_verbs_lose(1, FAKE_VERBS_REFUSED);
	assert_int_equal(run(&machine, &flow, 1, &rate, &diag), -EIO);
	assert_non_null(strstr(diag.text, "an RDMA device fails: "));
	probe_end(&machine);
	topology_fini(&machine.topology);
}

static void without_a_port_there_is_no_probe(void **state)
{
	struct machine machine = { .probe = NULL };
	struct diag diag = { 0 };

	build(&machine, *state);
	assert_int_equal(probe_open(&machine, *state, &(struct fake_verbs_options){ .devices = 0 }, &diag), -ENODEV);
	assert_string_equal(diag.text, "this host has no RDMA device");
	probe_end(&machine);
	machine.topology.vertices[machine.nics[0]].nic.rdma = machine.topology.vertices[machine.nics[1]].nic.rdma =
		false;
	assert_int_equal(probe_open(&machine, *state, &(struct fake_verbs_options){ .devices = 1 }, &diag), -ENODEV);
	assert_string_equal(diag.text, "no RDMA device is in the graph of this machine");
	probe_end(&machine);
	topology_fini(&machine.topology);
}

/* Names and values of the environment. */
static const char *names[4], *values[4];

static const char *get(const char *name)
{
	for (unsigned i = 0; i < 4; i++)
		if (!strcmp(names[i], name))
			return values[i];
	return NULL;
}

static void must_be_right(void *arg, const char *sentence)
{
	(void)arg;
	fail_msg("%s", sentence);
}

static int open_for(struct machine *machine, const struct fake_sysfs *tree, const char *hca, const char *index,
		    struct diag *diag)
{
	const struct params_source source = { get, (char *const[]){ NULL } };
	struct params params;

	values[0] = hca;
	values[1] = index;
	values[2] = "3";
	values[3] = "106";
	params_load(&source, must_be_right, NULL, &params);
	return probe_open_with(machine, tree, &(struct fake_verbs_options){ .devices = 2 }, &params, diag);
}

static bool can_loop(const struct machine *machine, unsigned port)
{
	const struct probe_flow flow = through(machine, machine->nics[port], machine->nics[port], TOPOLOGY_NONE);

	return machine->probe->ops->can(machine->probe, &flow);
}

static struct ibv_ah_attr path_of_a_loop(struct machine *machine, unsigned port)
{
	const struct probe_flow flow = through(machine, machine->nics[port], machine->nics[port], TOPOLOGY_NONE);
	struct diag diag = { 0 };
	double rate;

	assert_int_equal(run(machine, &flow, 1, &rate, &diag), 0);
	return fake_verbs_last_path(port);
}

static void check_choice(struct machine *machine, const struct fake_sysfs *tree)
{
	struct diag diag = { 0 };
	struct ibv_ah_attr path;
	char complaint[128];

	assert_int_equal(open_for(machine, tree, "=fake1", NULL, &diag), 0);
	assert_false(can_loop(machine, 0));
	assert_true(can_loop(machine, 1));
	assert_int_equal(path_of_a_loop(machine, 1).grh.sgid_index, 1);
	probe_end(machine);
	assert_int_equal(open_for(machine, tree, "^fake1", "0", &diag), 0);
	assert_true(can_loop(machine, 0));
	assert_false(can_loop(machine, 1));
	path = path_of_a_loop(machine, 0);
	assert_int_equal(path.grh.sgid_index, 0);
	assert_int_equal(path.sl, 3);
	assert_int_equal(path.grh.traffic_class, 106);
	probe_end(machine);
	assert_int_equal(open_for(machine, tree, NULL, "77", &diag), -ENODEV);
	assert_non_null(strstr(diag.text, names[1]));
	probe_end(machine);
	assert_int_equal(open_for(machine, tree, "none", NULL, &diag), -ENODEV);
	snprintf(complaint, sizeof(complaint), "%s=none leaves out every RDMA device", names[0]);
	assert_string_equal(diag.text, complaint);
	probe_end(machine);
}

/* By its variables, and by NCCL's. */
static void what_the_transport_would_use_is_measured(void **state)
{
	static const char *const all[2][4] = {
		{ "TRIBUTARY_HCA", "TRIBUTARY_GID_INDEX", "TRIBUTARY_SERVICE_LEVEL", "TRIBUTARY_TRAFFIC_CLASS" },
		{ "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_SL", "NCCL_IB_TC" },
	};
	struct machine machine = { .probe = NULL };

	build(&machine, *state);
	for (unsigned i = 0; i < 2; i++) {
		memcpy(names, all[i], sizeof(names));
		check_choice(&machine, *state);
	}
	topology_fini(&machine.topology);
}

/* Of the device, that is: were it our own memory, all that other probes could still measure would be given up. */
static void too_little_memory_to_lock_is_an_error_of_the_device(void **state)
{
	struct machine machine = { .probe = NULL };
	struct diag diag = { 0 };
	struct probe_flow flow;
	double rate;

	build(&machine, *state);
	assert_int_equal(
		probe_open(&machine, *state, &(struct fake_verbs_options){ .devices = 1, .most_regions = 1 }, &diag),
		0);
	flow = through(&machine, machine.nics[0], machine.nics[0], TOPOLOGY_NONE);
	assert_int_equal(run(&machine, &flow, 1, &rate, &diag), -EIO);
	assert_string_equal(diag.text, "fake0 cannot register 2097152 bytes: Cannot allocate memory");
	probe_end(&machine);
	topology_fini(&machine.topology);
}

/* Every call of the library fails once: an error of the device each time, and nothing is left. */
static void every_call_may_fail(void **state)
{
	struct machine machine = { .probe = NULL };
	uint64_t nth = 1;
	bool met = true;

	build(&machine, *state);
	for (; met && nth < CALLS_MOST; nth++) {
		struct diag diag = { 0 }, of_run = { 0 };
		struct probe_flow flows[2] = { through(&machine, machine.nics[0], machine.nics[0], TOPOLOGY_NONE),
					       through(&machine, machine.nics[0], machine.nics[1], TOPOLOGY_NONE) };
		double rates[2];
		int r;

		fake_verbs_fail_call(0);
		r = probe_open(&machine, *state, &(struct fake_verbs_options){ .devices = 2 }, &diag);
		assert_int_equal(r, 0);
		fake_verbs_fail_call(nth);
		r = run(&machine, flows, 2, rates, &of_run);
		met = fake_verbs_failed() && r < 0;
		assert_true(r == 0 || r == -EIO || r == -ENOTSUP);
		assert_true(r == 0 || of_run.text[0]);
		probe_end(&machine);
	}
	assert_true(nth > 15 && !met);
	topology_fini(&machine.topology);
}

static size_t crossings(const struct topology *topology, const struct measure_experiment *experiment, uint32_t directed)
{
	size_t count = 0;

	for (size_t i = 0; i < experiment->count; i++)
		count += truth_crossings(topology, &experiment->flows[i], directed);
	return count;
}

/* By itself each port loads its slot in both directions at once; then all together, in pairs and in a ring. */
static void loops_and_rings_are_planned(void **state)
{
	struct machine machine = { .probe = NULL };
	struct measure_plan plan;
	struct diag diag = { 0 };
	size_t singles = 0, together = 0;
	uint32_t link;

	build(&machine, *state);
	assert_int_equal(probe_open(&machine, *state, &(struct fake_verbs_options){ .devices = 2 }, &diag), 0);
	assert_int_equal(measure_experiments_plan(&machine.topology, &machine.probe, 1, false, &plan), 0);
	link = topology_uplink(&machine.topology, machine.nics[0]);
	for (size_t i = 0; i < plan.count; i++) {
		const struct measure_experiment *experiment = &plan.items[i];

		singles += experiment->count == 1;
		together += experiment->count == 2;
		if (experiment->count == 1 && experiment->flows->flow.from == experiment->flows->flow.to &&
		    experiment->flows->flow.from == machine.nics[0]) {
			assert_int_equal(experiment->priority, 0);
			assert_int_equal(crossings(&machine.topology, experiment, topology_directed(link, TOPOLOGY_UP)),
					 1);
			assert_int_equal(
				crossings(&machine.topology, experiment, topology_directed(link, TOPOLOGY_DOWN)), 1);
		}
	}
	assert_int_equal(singles, 4);
	assert_int_equal(together, 2);
	measure_experiments_fini(&plan);
	probe_end(&machine);
	topology_fini(&machine.topology);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(flows_go_through_memories_from_port_to_port, fake_sysfs_new,
						fake_sysfs_free),
		cmocka_unit_test_setup_teardown(several_flows_move_at_once, fake_sysfs_new, fake_sysfs_free),
		cmocka_unit_test_setup_teardown(ports_that_do_not_reach_each_other_are_said, fake_sysfs_new,
						fake_sysfs_free),
		cmocka_unit_test_setup_teardown(what_the_transport_would_use_is_measured, fake_sysfs_new,
						fake_sysfs_free),
		cmocka_unit_test_setup_teardown(without_a_port_there_is_no_probe, fake_sysfs_new, fake_sysfs_free),
		cmocka_unit_test_setup_teardown(too_little_memory_to_lock_is_an_error_of_the_device, fake_sysfs_new,
						fake_sysfs_free),
		cmocka_unit_test_setup_teardown(every_call_may_fail, fake_sysfs_new, fake_sysfs_free),
		cmocka_unit_test_setup_teardown(loops_and_rings_are_planned, fake_sysfs_new, fake_sysfs_free),
	};

	runtime_start("probe_rdma_test", 120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
