/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA ports and the memory of GPUs, over the fake library and the fake driver: the CPU cannot touch that memory, and what a
 * card writes there is seen when the same card has read there, and not before.
 */
#include "measure/probe_rdma.h"

#include "base/clock.h"
#include "measure/experiments.h"
#include "measure/probe_cuda.h"
#include "measure/resources.h"
#include "support/runtime.h"
#include "unit/measure/ground_truth.h"
#include "unit/gpu/fake_cuda.h"
#include "unit/transport/tcp/fake_sysfs.h"
#include "unit/transport/verbs/fake_verbs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "ground_truth.h"

enum { CALLS_MOST = 2000, BUFFER_BYTES = 2 << 20, GPUS = 3, NICS = 2, LENT = 16 };

#define NIC "pci0000:80/0000:80:01.0/0000:81:00.1"

/* ---- a driver whose memory is the fake devices' ---- */

/* The fake driver has a byte for each, so that it counts, checks and fails as always. */
static struct {
	struct fake_verbs_gpu gpu;
	uint64_t byte;
} lent[LENT];
static struct gpu_cuda driver;
static unsigned char spoilt;                         /* is added to what memory is filled with */
static enum lends { GIVEN, REFUSED, ANOTHER } lends; /* descriptors */

static unsigned find(uint64_t address)
{
	unsigned i = 0;

	while (i < LENT && !(lent[i].gpu.address && address - (uintptr_t)lent[i].gpu.address < lent[i].gpu.bytes))
		i++;
	assert_true(i < LENT);
	return i;
}

static int mem_alloc(uint64_t *ret, size_t bytes)
{
	uint64_t byte;
	unsigned i = 0;
	int r = fake_cuda_table()->mem_alloc(&byte, 1);

	if (r)
		return r;
	while (lent[i].gpu.address)
		i++;
	assert_true(i < LENT);
	lent[i].gpu = fake_verbs_gpu_new(bytes);
	lent[i].byte = byte;
	*ret = (uintptr_t)lent[i].gpu.address;
	return 0;
}

static int mem_free(uint64_t address)
{
	unsigned i = find(address);

	fake_verbs_gpu_free(&lent[i].gpu);
	return fake_cuda_table()->mem_free(lent[i].byte);
}

static int memset_d8(uint64_t to, unsigned char value, size_t bytes)
{
	unsigned i = find(to);
	int r = fake_cuda_table()->memset_d8(lent[i].byte, value, 1);

	if (!r)
		memset(lent[i].gpu.view + (to - (uintptr_t)lent[i].gpu.address), value + spoilt, bytes);
	return r;
}

static int memcpy_dtoh(void *to, uint64_t from, size_t bytes)
{
	unsigned i = find(from);
	int r = fake_cuda_table()->memcpy_dtoh(to, lent[i].byte, 1);

	if (!r)
		memcpy(to, lent[i].gpu.view + (from - (uintptr_t)lent[i].gpu.address), bytes);
	return r;
}

static int get_handle(void *ret, uint64_t address, size_t bytes, int kind, unsigned long long flags)
{
	unsigned i = find(address);

	assert_int_equal(kind, GPU_CUDA_HANDLE_DMABUF);
	assert_true(!flags && bytes <= lent[i].gpu.bytes);
	if (lends == REFUSED)
		return GPU_CUDA_NOT_SUPPORTED;
	*(int *)ret = lends == GIVEN ? dup(lent[i].gpu.fd) : memfd_create("another", MFD_CLOEXEC);
	return 0;
}

/* ---- a machine ---- */

/* A CPU; below a switch gpu0, gpu1 and a port; at the CPU's bridge gpu2 and another port. */
struct machine {
	struct topology topology;
	uint32_t memory, upper, gpus[GPUS], nics[NICS];
	struct probe *cuda, *probe;
	struct diag no_gpu;
};

static void build(struct machine *machine, struct fake_sysfs *tree)
{
	struct topology *topology = &machine->topology;
	char path[160], name[16];
	uint32_t cpu, bridge, vertex;

	topology_init(topology);
	cpu = truth_cpu(topology, 0, 100);
	machine->memory = topology_memory_of(topology, cpu);
	bridge = truth_vertex(topology, TOPOLOGY_BRIDGE, "bridge");
	truth_link(topology, TOPOLOGY_LINK_INTERNAL, bridge, cpu, 0, 40, 40);
	vertex = truth_vertex(topology, TOPOLOGY_SWITCH, "switch");
	machine->upper = truth_link(topology, TOPOLOGY_LINK_PCI, vertex, bridge, 24, 21, 21);
	for (unsigned i = 0; i < GPUS; i++) {
		snprintf(name, sizeof(name), "gpu%u", i);
		machine->gpus[i] = truth_vertex(topology, TOPOLOGY_GPU, name);
		snprintf(topology->vertices[machine->gpus[i]].bus_id, sizeof(topology->vertices->bus_id),
			 "0000:%u0:00.0", i + 1);
		truth_link(topology, TOPOLOGY_LINK_PCI, machine->gpus[i], i < 2 ? vertex : bridge, 24, 21, 21);
	}
	for (unsigned i = 0; i < NICS; i++) {
		snprintf(name, sizeof(name), "nic:fake%u", i);
		machine->nics[i] = truth_vertex(topology, TOPOLOGY_NIC, name);
		topology->vertices[machine->nics[i]].nic.rdma = true;
		truth_link(topology, TOPOLOGY_LINK_PCI, machine->nics[i], i < 1 ? vertex : bridge, 24, 21, 21);
		snprintf(path, sizeof(path), "class/infiniband/fake%u/ports/1/gid_attrs/types/1", i);
		tree_text(&tree->tree, path, "RoCE v2\n");
	}
}

static void driver_start(void)
{
	fake_cuda_reset(GPUS);
	clock_set_fake(NULL); /* the devices take real time */
	driver = *fake_cuda_table();
	driver.mem_alloc = mem_alloc;
	driver.mem_free = mem_free;
	driver.memset_d8 = memset_d8;
	driver.memcpy_dtoh = memcpy_dtoh;
	driver.mem_get_handle_for_range = get_handle;
	gpu_cuda_set_table(&driver);
	spoilt = 0;
	lends = GIVEN;
}

static void machine_open(struct machine *machine, struct fake_sysfs *tree, struct fake_verbs_options options)
{
	const struct probe_cuda_options cuda_options = { .buffer_bytes = BUFFER_BYTES };
	struct diag diag = { .text = "" };

	options.devices = NICS;
	assert_int_equal(probe_cuda_open(&machine->topology, NULL, &cuda_options, &machine->cuda, &diag), 0);
	assert_int_equal(probe_rdma_open(&machine->topology, NULL,
					 &(struct probe_rdma_options){ .api = fake_verbs_start(&options),
								       .sysfs_root = tree->tree.root,
								       .buffer_bytes = BUFFER_BYTES,
								       .cuda = machine->cuda,
								       .ret_no_gpu = &machine->no_gpu },
					 &machine->probe, &diag),
			 0);
}

static void machine_close(struct machine *machine)
{
	struct fake_verbs_counts counts;

	machine->probe->ops->close(machine->probe);
	machine->cuda->ops->close(machine->cuda);
	assert_int_equal(fake_cuda_alive(), 0);
	assert_int_equal(fake_cuda.misuses, 0);
	assert_int_equal(fake_verbs_stop(), 0);
	fake_verbs_counts(&counts);
	assert_int_equal(counts.wrong_calls, 0);
	assert_int_equal(counts.overflows, 0);
}

/* The driver by itself: a test opens the devices as it wants them. */
static int set_up(void **state)
{
	int r = fake_sysfs_new(state);

	driver_start();
	return r;
}

static int tear_down(void **state)
{
	fake_cuda_remove();
	return fake_sysfs_free(state);
}

static struct probe_flow from_gpu(const struct machine *machine, unsigned gpu, unsigned nic)
{
	return (struct probe_flow){ .flow = { machine->gpus[gpu], machine->memory, TOPOLOGY_WAY_HOST,
					      machine->nics[nic] } };
}

static struct probe_flow to_gpu(const struct machine *machine, unsigned gpu, unsigned nic)
{
	return (struct probe_flow){ .flow = { machine->memory, machine->gpus[gpu], TOPOLOGY_WAY_HOST,
					      machine->nics[nic] } };
}

static struct probe_flow loop(const struct machine *machine, unsigned nic)
{
	return (struct probe_flow){ .flow = { machine->nics[nic], machine->nics[nic], TOPOLOGY_WAY_HOST,
					      TOPOLOGY_NONE } };
}

static bool can(const struct machine *machine, struct probe_flow flow)
{
	return machine->probe->ops->can(machine->probe, &flow);
}

static int run(const struct machine *machine, const struct probe_flow *flows, size_t count, struct diag *diag)
{
	double rates[8] = { 0 };
	struct probe_rates ret = { .rate_Bps = rates };
	int r = machine->probe->ops->run(machine->probe, flows, count, 2 * NS_PER_MS, &ret, diag);

	for (size_t i = 0; i < count && r == 0; i++)
		assert_true(rates[i] > 0);
	return r;
}

/* ---- tests ---- */

static void flows_go_between_gpus_and_memories_through_ports(void **state)
{
	struct machine machine = { .probe = NULL };
	struct probe_flow flow;

	build(&machine, *state);
	machine_open(&machine, *state, (struct fake_verbs_options){ .dmabuf = true });
	assert_string_equal(machine.no_gpu.text, "");
	for (unsigned gpu = 0; gpu < GPUS; gpu++)
		for (unsigned nic = 0; nic < NICS; nic++) {
			assert_true(can(&machine, from_gpu(&machine, gpu, nic)));
			assert_true(can(&machine, to_gpu(&machine, gpu, nic)));
		}
	flow = from_gpu(&machine, 0, 0);
	flow.flow.to = machine.gpus[1];
	assert_false(can(&machine, flow));
	flow.flow.to = machine.nics[0];
	assert_false(can(&machine, flow));
	flow = from_gpu(&machine, 0, 0);
	flow.flow.from = machine.memory;
	assert_false(can(&machine, flow));
	flow = from_gpu(&machine, 0, 0);
	flow.flow.way = TOPOLOGY_WAY_DIRECT;
	assert_false(can(&machine, flow));
	flow = from_gpu(&machine, 0, 0);
	flow.engine = PROBE_ENGINE_KERNEL;
	assert_false(can(&machine, flow));
	flow = from_gpu(&machine, 0, 0);
	assert_false(machine.cuda->ops->can(machine.cuda, &flow));
	machine_close(&machine);
	topology_fini(&machine.topology);
}

static void check_flows(struct machine *machine)
{
	struct probe_flow flows[5] = { from_gpu(machine, 0, 0), to_gpu(machine, 1, 0), to_gpu(machine, 0, 0),
				       from_gpu(machine, 2, 1), loop(machine, 1) };
	struct diag diag = { .text = "" };

	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(run(machine, &flows[i], 1, &diag), 0);
	assert_int_equal(run(machine, flows, 5, &diag), 0);
	assert_int_equal(fake_verbs_regions(), 0);
}

static void memory_of_gpus_is_read_and_written(void **state)
{
	struct machine machine = { .probe = NULL };
	struct fake_verbs_counts counts;

	build(&machine, *state);
	machine_open(&machine, *state, (struct fake_verbs_options){ .dmabuf = true, .lazy = true });
	check_flows(&machine);
	fake_verbs_counts(&counts);
	assert_int_equal(counts.reads, 4); /* one for each flow into a GPU, so that it sees what was written */
	machine_close(&machine);
	topology_fini(&machine.topology);
}

/* By its address, where there is no DMA-BUF: of the device, of the driver, of this memory. */
static void peer_memory_takes_the_place_of_dmabuf(void **state)
{
	static const struct {
		bool device, driver;
		enum lends lends;
	} cases[] = {
		{ false, true, GIVEN }, { true, false, GIVEN }, { true, true, REFUSED }, { true, true, ANOTHER }
	};
	struct fake_sysfs *tree = *state;
	struct machine machine = { .probe = NULL };

	build(&machine, tree);
	tree_text(&tree->tree, "module/nvidia_peermem/version", "1\n");
	fake_interface(tree, "eth2", NIC, 3, "02:00:00:00:00:01", "100000");
	tree_link(&tree->tree, "class/infiniband/fake0/device", "../../../devices/" NIC);
	tree_link(&tree->tree, "class/infiniband/fake1/device", "../../../devices/" NIC);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		driver_start();
		lends = cases[i].lends;
		driver.mem_get_handle_for_range = cases[i].driver ? get_handle : NULL;
		machine_open(&machine, tree, (struct fake_verbs_options){ .dmabuf = cases[i].device, .peermem = true });
		assert_string_equal(machine.no_gpu.text, "");
		check_flows(&machine);
		machine_close(&machine);
	}
	topology_fini(&machine.topology);
}

static void check_refused(struct machine *machine, const char *why)
{
	struct probe_flow flow = from_gpu(machine, 0, 0);
	struct diag diag = { .text = "" };

	assert_string_equal(machine->no_gpu.text, why);
	assert_false(can(machine, flow));
	assert_int_equal(run(machine, &flow, 1, &diag), -ENOTSUP);
	flow = loop(machine, 0);
	assert_int_equal(run(machine, &flow, 1, &diag), 0);
	machine_close(machine);
}

static void what_is_refused_is_said_and_the_host_is_measured(void **state)
{
	struct machine machine = { .probe = NULL };

	build(&machine, *state);
	machine_open(&machine, *state, (struct fake_verbs_options){ .dmabuf = false });
	check_refused(&machine, "neither DMA-BUF nor nvidia-peermem lends fake0 memory of gpu0");
	lends = REFUSED;
	machine_open(&machine, *state, (struct fake_verbs_options){ .dmabuf = true });
	check_refused(&machine, "neither DMA-BUF nor nvidia-peermem lends fake0 memory of gpu0");
	lends = ANOTHER;
	machine_open(&machine, *state, (struct fake_verbs_options){ .dmabuf = true });
	check_refused(&machine, "fake0 cannot register memory of gpu0: Invalid argument");
	topology_fini(&machine.topology);
}

static void other_bytes_than_were_sent_are_noticed(void **state)
{
	struct machine machine = { .probe = NULL };
	struct diag diag = { .text = "" };
	struct probe_flow flow;

	build(&machine, *state);
	machine_open(&machine, *state, (struct fake_verbs_options){ .dmabuf = true });
	flow = from_gpu(&machine, 0, 0);
	spoilt = 1;
	assert_int_equal(run(&machine, &flow, 1, &diag), -EIO);
	assert_string_equal(diag.text, "what fake0 wrote is not what fake0 read");
	spoilt = 0;
	assert_int_equal(run(&machine, &flow, 1, &diag), 0);
	machine_close(&machine);
	topology_fini(&machine.topology);
}

/* Every call of the library, and every one of the driver, fails once: an error each time, and nothing is left. */
static void every_call_may_fail(void **state)
{
	struct machine machine = { .probe = NULL };

	build(&machine, *state);
	for (unsigned cuda = 0; cuda < 2; cuda++) {
		uint64_t nth = 1;
		bool met = true;

		for (; met && nth < CALLS_MOST; nth++) {
			struct probe_flow flows[2] = { from_gpu(&machine, 0, 0), to_gpu(&machine, 1, 0) };
			struct diag diag = { .text = "" };
			int r;

			driver_start();
			fake_verbs_fail_call(0);
			machine_open(&machine, *state, (struct fake_verbs_options){ .dmabuf = true });
			if (cuda)
				fake_cuda.fail_at = fake_cuda.calls + nth;
			else
				fake_verbs_fail_call(nth);
			r = run(&machine, flows, 2, &diag);
			met = (cuda ? fake_cuda.failed != NULL : fake_verbs_failed()) && r < 0;
			assert_true(r == 0 || r == -EIO || r == -ENOTSUP);
			assert_true(r == 0 || diag.text[0]);
			fake_cuda.fail_at = 0;
			machine_close(&machine);
		}
		assert_true(nth > (cuda ? 5 : 15) && !met);
	}
	topology_fini(&machine.topology);
}

/* While it looks which devices take memory of GPUs, too: those that do not are left to the host's. */
static void every_call_of_the_driver_may_fail_at_first(void **state)
{
	struct machine machine = { .probe = NULL };
	bool met = true;

	build(&machine, *state);
	for (uint64_t nth = 1; met; nth++) {
		driver_start();
		probe_cuda_open(&machine.topology, NULL, NULL, &machine.cuda, NULL);
		machine.cuda->ops->close(machine.cuda);
		/* As many calls open the probe itself. */
		fake_cuda.fail_at = 2 * fake_cuda.calls + nth;
		machine_open(&machine, *state, (struct fake_verbs_options){ .dmabuf = true });
		met = fake_cuda.failed != NULL;
		assert_true(!met || machine.no_gpu.text[0] || can(&machine, from_gpu(&machine, 2, 1)));
		assert_true(can(&machine, loop(&machine, 0)));
		fake_cuda.fail_at = 0;
		machine_close(&machine);
	}
	topology_fini(&machine.topology);
}

/* ---- what is planned ---- */

/* What a card reads from a GPU enters by its slot and leaves by it again, for the memory. */
static void links_are_charged_in_the_direction_of_the_bytes(void **state)
{
	struct machine machine = { .probe = NULL };
	struct topology *topology = &machine.topology;
	uint32_t gpu, nic;

	build(&machine, *state);
	gpu = topology_uplink(topology, machine.gpus[0]);
	nic = topology_uplink(topology, machine.nics[0]);
	for (unsigned out = 0; out < 2; out++) {
		const struct probe_flow flow = out ? from_gpu(&machine, 0, 0) : to_gpu(&machine, 0, 0);

		assert_int_equal(truth_crossings(topology, &flow, topology_directed(gpu, TOPOLOGY_UP)), out);
		assert_int_equal(truth_crossings(topology, &flow, topology_directed(gpu, TOPOLOGY_DOWN)), !out);
		assert_int_equal(truth_crossings(topology, &flow, topology_directed(nic, TOPOLOGY_UP)), 1);
		assert_int_equal(truth_crossings(topology, &flow, topology_directed(nic, TOPOLOGY_DOWN)), 1);
		assert_int_equal(truth_crossings(topology, &flow, topology_directed(machine.upper, TOPOLOGY_UP)), out);
		assert_int_equal(truth_crossings(topology, &flow, topology_directed(machine.upper, TOPOLOGY_DOWN)),
				 !out);
	}
	topology_fini(&machine.topology);
}

static bool uses(const struct measure_resources *resources, uint32_t resource)
{
	struct measure_use list[MEASURE_USES_MAX];
	size_t count = measure_resources_of_flow(resources, 0, 0, list);

	for (size_t i = 0; i < count; i++)
		if (list[i].resource == resource)
			return true;
	return false;
}

static void the_card_moves_and_no_engine_of_the_gpu(void **state)
{
	struct machine machine = { .probe = NULL };
	struct measure_resources resources;
	struct probe_flow flow;
	uint32_t gpu, nic;

	build(&machine, *state);
	flow = from_gpu(&machine, 0, 0);
	gpu = topology_uplink(&machine.topology, machine.gpus[0]);
	nic = topology_uplink(&machine.topology, machine.nics[0]);
	assert_int_equal(measure_resources_init(
				 &resources, &machine.topology,
				 &(struct measure_result){
					 .experiment = &(struct measure_experiment){ .flows = &flow, .count = 1 } },
				 1),
			 0);
	assert_true(uses(&resources, resources.engine[topology_directed(nic, TOPOLOGY_UP)]));
	assert_true(uses(&resources, resources.engine[topology_directed(nic, TOPOLOGY_DOWN)]));
	assert_false(uses(&resources, resources.engine[topology_directed(gpu, TOPOLOGY_UP)]));
	measure_resources_fini(&resources);
	topology_fini(&machine.topology);
}

static bool has(const struct measure_experiment *experiment, struct probe_flow flow)
{
	for (size_t i = 0; i < experiment->count; i++)
		if (measure_experiments_same_flow(&experiment->flows[i], &flow))
			return true;
	return false;
}

/* How many experiments are of these flows and no others. */
static size_t planned(const struct measure_plan *plan, const struct probe_flow *flows, size_t count)
{
	size_t found = 0;

	for (size_t i = 0; i < plan->count; i++) {
		size_t same = 0;

		for (size_t j = 0; j < count; j++)
			same += has(&plan->items[i], flows[j]);
		found += same == count && plan->items[i].count == count;
	}
	return found;
}

static void gpus_are_planned_alone_and_at_once(void **state)
{
	struct machine machine = { .probe = NULL };
	struct measure_plan plan;

	build(&machine, *state);
	machine_open(&machine, *state, (struct fake_verbs_options){ .dmabuf = true });
	assert_int_equal(measure_experiments_plan(&machine.topology, &machine.probe, 1, false, &plan), 0);
	for (unsigned out = 0; out < 2; out++) {
		struct probe_flow (*way)(const struct machine *, unsigned, unsigned) = out ? from_gpu : to_gpu;
		struct probe_flow near[3] = { way(&machine, 0, 0), way(&machine, 1, 0), way(&machine, 2, 1) };
		struct probe_flow far = way(&machine, 0, 1), alike = way(&machine, 1, 1);

		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(planned(&plan, &near[i], 1), 1);
		assert_int_equal(planned(&plan, near, 2), 1); /* those of the switch into their port */
		assert_int_equal(planned(&plan, near, 3), 1);
		assert_int_equal(planned(&plan, &far, 1), 1);
		assert_int_equal(planned(&plan, &alike, 1), 0);
	}
	measure_experiments_fini(&plan);
	machine_close(&machine);
	/* Without memory of GPUs nothing of it is. */
	lends = REFUSED;
	machine_open(&machine, *state, (struct fake_verbs_options){ .dmabuf = true });
	assert_int_equal(measure_experiments_plan(&machine.topology, &machine.probe, 1, false, &plan), 0);
	for (size_t i = 0; i < plan.count; i++)
		assert_false(measure_experiments_by_nic(&machine.topology, &plan.items[i].flows->flow));
	measure_experiments_fini(&plan);
	machine_close(&machine);
	topology_fini(&machine.topology);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(flows_go_between_gpus_and_memories_through_ports),
		TEST(memory_of_gpus_is_read_and_written),
		TEST(peer_memory_takes_the_place_of_dmabuf),
		TEST(what_is_refused_is_said_and_the_host_is_measured),
		TEST(other_bytes_than_were_sent_are_noticed),
		TEST(every_call_may_fail),
		TEST(every_call_of_the_driver_may_fail_at_first),
		TEST(links_are_charged_in_the_direction_of_the_bytes),
		TEST(the_card_moves_and_no_engine_of_the_gpu),
		TEST(gpus_are_planned_alone_and_at_once),
	};
#undef TEST

	runtime_start("probe_rdma_gpu_test", 120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
