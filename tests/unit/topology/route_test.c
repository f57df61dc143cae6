/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct machine machine;

static int build(void **state)
{
	(void)state;
	machine_build(&machine);
	return 0;
}

static int take_down(void **state)
{
	(void)state;
	topology_fini(&machine.topology);
	return 0;
}

/* The directed names of a way, a blank between them; or "-ENOENT" and so on. */
static const char *way(const struct topology *topology, uint32_t from, uint32_t to, enum topology_way kind,
		       uint32_t via)
{
	static char text[TOPOLOGY_ROUTE_MAX * 3 * TOPOLOGY_NAME_BYTES];
	const struct topology_flow flow = { from, to, kind, via };
	struct topology_route route;
	size_t bytes = 0;

	switch (topology_route(topology, &flow, &route)) {
	case 0:
		break;
	case -ENOENT:
		return "-ENOENT";
	case -EINVAL:
		return "-EINVAL";
	case -E2BIG:
		return "-E2BIG";
	default:
		return "another error";
	}
	text[0] = '\0';
	for (size_t i = 0; i < route.count; i++) {
		if (i)
			text[bytes++] = ' ';
		assert_int_equal(topology_directed_name(topology, route.links[i], text + bytes, sizeof(text) - bytes),
				 0);
		bytes += strlen(text + bytes);
	}
	return text;
}

static const char *direct(const struct topology *topology, uint32_t from, uint32_t to)
{
	return way(topology, from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE);
}

static const char *host(const struct topology *topology, uint32_t from, uint32_t to)
{
	return way(topology, from, to, TOPOLOGY_WAY_HOST, TOPOLOGY_NONE);
}

static void assert_class(const struct topology *topology, uint32_t a, uint32_t b, const char *word)
{
	assert_string_equal(topology_class_word(topology_class_of(topology, a, b)), word);
	assert_string_equal(topology_class_word(topology_class_of(topology, b, a)), word);
}

static void gpus_go_by_the_nearest_common_switch(void **state)
{
	const struct topology *topology = &machine.topology;

	(void)state;
	assert_string_equal(direct(topology, machine.gpu[0], machine.gpu[1]),
			    "gpu0>switch:0000:18:00.0 switch:0000:18:00.0>gpu1");
	assert_string_equal(direct(topology, machine.gpu[0], machine.gpu[3]),
			    "gpu0>switch:0000:18:00.0 switch:0000:18:00.0>switch:0000:17:00.0 "
			    "switch:0000:17:00.0>switch:0000:1c:00.0 switch:0000:1c:00.0>gpu3");
	assert_string_equal(direct(topology, machine.gpu[3], machine.gpu[4]),
			    "gpu3>switch:0000:1c:00.0 switch:0000:1c:00.0>switch:0000:17:00.0 "
			    "switch:0000:17:00.0>bridge:0000:16 bridge:0000:16>cpu0 cpu0>cpu1 cpu1>bridge:0000:96 "
			    "bridge:0000:96>switch:0000:97:00.0 switch:0000:97:00.0>switch:0000:98:00.0 "
			    "switch:0000:98:00.0>gpu4");
	assert_string_equal(direct(topology, machine.gpu[2], machine.gpu[2]), "");
}

static void classes_are_those_of_nccl(void **state)
{
	struct topology *topology = &machine.topology;

	(void)state;
	for (unsigned a = 0; a < 8; a++)
		for (unsigned b = 0; b < 8; b++)
			assert_class(topology, machine.gpu[a], machine.gpu[b],
				     a == b           ? "LOC"
				     : a / 2 == b / 2 ? "PIX"
				     : a / 4 == b / 4 ? "PXB"
						      : "SYS");
	assert_class(topology, machine.gpu[1], machine.nic[0], "PIX");
	assert_class(topology, machine.gpu[2], machine.nic[0], "PXB");
	assert_class(topology, machine.gpu[2], machine.nic[1], "SYS");
	assert_class(topology, machine.gpu[2], machine.memory[0], "PHB");
	assert_class(topology, machine.gpu[2], machine.cpu[0], "PHB");
	assert_class(topology, machine.gpu[2], machine.memory[1], "SYS");
	assert_class(topology, machine.memory[0], machine.memory[1], "SYS");
	assert_class(topology, machine.nic[0], machine.memory[0], "PHB");
	assert_class(topology, machine.nic[0], machine.network, "NET");
	assert_class(topology, machine.nic[0], machine.nic[1], "SYS");
	assert_class(topology, machine.gpu[0], machine_vertex(topology, TOPOLOGY_GPU, "gpu8"), "DIS");
	assert_int_equal(topology_class_of(topology, machine.gpu[0], 999), TOPOLOGY_CLASS_DIS);
}

/* Two switches below one bridge, as of a box without a switch above them: through the bridge, not the CPU. */
static void a_common_bridge_is_phb(void **state)
{
	struct topology topology;
	uint32_t gpu0, gpu1, gpu2, bridge, cpu, leaf;

	(void)state;
	topology_init(&topology);
	cpu = machine_vertex(&topology, TOPOLOGY_CPU, "cpu0");
	bridge = machine_vertex(&topology, TOPOLOGY_BRIDGE, "bridge:0000:00");
	leaf = machine_vertex(&topology, TOPOLOGY_SWITCH, "switch:0000:01:00.0");
	gpu0 = machine_vertex(&topology, TOPOLOGY_GPU, "gpu0");
	gpu1 = machine_vertex(&topology, TOPOLOGY_GPU, "gpu1");
	gpu2 = machine_vertex(&topology, TOPOLOGY_GPU, "gpu2");
	machine_link(&topology, TOPOLOGY_LINK_INTERNAL, bridge, cpu);
	machine_link(&topology, TOPOLOGY_LINK_PCI, leaf, bridge);
	machine_link(&topology, TOPOLOGY_LINK_PCI, gpu0, leaf);
	machine_link(&topology, TOPOLOGY_LINK_PCI, gpu1, bridge);
	machine_link(&topology, TOPOLOGY_LINK_PCI, gpu2, cpu); /* as NCCL's files have it: no bridges */
	assert_class(&topology, gpu0, gpu1, "PHB");
	assert_string_equal(direct(&topology, gpu1, gpu0),
			    "gpu1>bridge:0000:00 bridge:0000:00>switch:0000:01:00.0 switch:0000:01:00.0>gpu0");
	assert_class(&topology, gpu0, gpu2, "PHB");
	topology_fini(&topology);
}

static void the_way_by_the_host_goes_up_and_down_again(void **state)
{
	const struct topology *topology = &machine.topology;

	(void)state;
	assert_string_equal(host(topology, machine.gpu[0], machine.gpu[1]),
			    "gpu0>switch:0000:18:00.0 switch:0000:18:00.0>switch:0000:17:00.0 "
			    "switch:0000:17:00.0>bridge:0000:16 bridge:0000:16>cpu0 cpu0>memory0 memory0>cpu0 "
			    "cpu0>bridge:0000:16 bridge:0000:16>switch:0000:17:00.0 "
			    "switch:0000:17:00.0>switch:0000:18:00.0 switch:0000:18:00.0>gpu1");
	/* Through the other socket's memory, twice across. */
	assert_non_null(strstr(way(topology, machine.gpu[0], machine.gpu[1], TOPOLOGY_WAY_HOST, machine.memory[1]),
			       "cpu0>cpu1 cpu1>memory1 memory1>cpu1 cpu1>cpu0"));
	assert_non_null(strstr(host(topology, machine.gpu[0], machine.gpu[5]), "cpu0>memory0 memory0>cpu0 cpu0>cpu1"));
	assert_non_null(strstr(host(topology, machine.gpu[5], machine.gpu[0]), "cpu1>memory1 memory1>cpu1 cpu1>cpu0"));
	assert_string_equal(way(topology, machine.gpu[0], machine.gpu[1], TOPOLOGY_WAY_HOST, machine.cpu[0]),
			    "-EINVAL");
	assert_string_equal(way(topology, machine.gpu[0], machine.gpu[1], TOPOLOGY_WAY_HOST, 999), "-EINVAL");
}

static void devices_and_memories_are_ends_and_not_ways(void **state)
{
	struct topology topology;
	uint32_t cpu[2], nic, memory, gpu;

	(void)state;
	topology_init(&topology);
	cpu[0] = machine_vertex(&topology, TOPOLOGY_CPU, "cpu0");
	cpu[1] = machine_vertex(&topology, TOPOLOGY_CPU, "cpu1");
	nic = machine_vertex(&topology, TOPOLOGY_NIC, "nic0");
	memory = machine_vertex(&topology, TOPOLOGY_MEMORY, "memory0");
	gpu = machine_vertex(&topology, TOPOLOGY_GPU, "gpu0");
	for (unsigned i = 0; i < 2; i++) {
		machine_link(&topology, TOPOLOGY_LINK_PCI, nic, cpu[i]);
		machine_link(&topology, TOPOLOGY_LINK_MEMORY, memory, cpu[i]);
		machine_link(&topology, TOPOLOGY_LINK_PCI, gpu, cpu[i]);
	}
	assert_string_equal(direct(&topology, cpu[0], cpu[1]), "-ENOENT");
	machine_link(&topology, TOPOLOGY_LINK_SOCKET, cpu[0], cpu[1]);
	assert_string_equal(direct(&topology, cpu[0], cpu[1]), "cpu0>cpu1");
	topology_fini(&topology);
}

static void nics_and_hosts_join_the_network_with_what_is_behind_them(void **state)
{
	struct topology topology;
	uint32_t cpu[2], memory[2], nic[2], host[2], leaf, spine;

	(void)state;
	assert_string_equal(direct(&machine.topology, machine.memory[1], machine.network),
			    "memory1>cpu1 cpu1>bridge:0000:96 bridge:0000:96>switch:0000:97:00.0 "
			    "switch:0000:97:00.0>switch:0000:98:00.0 switch:0000:98:00.0>mlx5_1 mlx5_1>network0");
	topology_init(&topology);
	leaf = machine_vertex(&topology, TOPOLOGY_NETWORK, "leaf0");
	spine = machine_vertex(&topology, TOPOLOGY_NETWORK, "spine0");
	for (unsigned i = 0; i < 2; i++) {
		char name[TOPOLOGY_NAME_BYTES];

		snprintf(name, sizeof(name), "cpu%u", i);
		cpu[i] = machine_vertex(&topology, TOPOLOGY_CPU, name);
		snprintf(name, sizeof(name), "memory%u", i);
		memory[i] = machine_vertex(&topology, TOPOLOGY_MEMORY, name);
		snprintf(name, sizeof(name), "nic%u", i);
		nic[i] = machine_vertex(&topology, TOPOLOGY_NIC, name);
		snprintf(name, sizeof(name), "host%u", i);
		host[i] = machine_vertex(&topology, TOPOLOGY_HOST, name);
		machine_link(&topology, TOPOLOGY_LINK_MEMORY, memory[i], cpu[i]);
		machine_link(&topology, TOPOLOGY_LINK_PCI, nic[i], cpu[i]);
		machine_link(&topology, TOPOLOGY_LINK_NETWORK, nic[i], leaf);
	}
	assert_class(&topology, memory[0], memory[1], "NET");
	assert_string_equal(direct(&topology, memory[0], memory[1]),
			    "memory0>cpu0 cpu0>nic0 nic0>leaf0 leaf0>nic1 nic1>cpu1 cpu1>memory1");
	/* A host on two switches does not forward between them. */
	machine_link(&topology, TOPOLOGY_LINK_NETWORK, host[0], leaf);
	machine_link(&topology, TOPOLOGY_LINK_NETWORK, host[0], spine);
	machine_link(&topology, TOPOLOGY_LINK_NETWORK, host[1], spine);
	assert_string_equal(direct(&topology, nic[0], host[1]), "-ENOENT");
	machine_link(&topology, TOPOLOGY_LINK_NETWORK, leaf, spine);
	assert_string_equal(direct(&topology, nic[0], host[1]), "nic0>leaf0 leaf0>spine0 spine0>host1");
	assert_class(&topology, host[0], host[1], "NET");
	topology_fini(&topology);
}

static void nvlink_is_nearer_than_pci(void **state)
{
	struct topology *topology = &machine.topology;

	(void)state;
	machine_link(topology, TOPOLOGY_LINK_NVLINK, machine.gpu[0], machine.gpu[4]);
	machine_link(topology, TOPOLOGY_LINK_NVLINK, machine.gpu[0], machine.gpu[4]);
	assert_class(topology, machine.gpu[0], machine.gpu[4], "NVL");
	assert_string_equal(direct(topology, machine.gpu[4], machine.gpu[0]), "gpu4>gpu0"); /* the first of the two */
	assert_class(topology, machine.gpu[1], machine.gpu[4], "SYS");                      /* nobody else profits */
	/* gpu4 - gpu0 - gpu5: by way of one GPU, and never of two. */
	machine_link(topology, TOPOLOGY_LINK_NVLINK, machine.gpu[5], machine.gpu[0]);
	machine_link(topology, TOPOLOGY_LINK_NVLINK, machine.gpu[5], machine.gpu[6]);
	assert_class(topology, machine.gpu[4], machine.gpu[5], "NVB"); /* nearer than the switch that they share */
	assert_string_equal(direct(topology, machine.gpu[4], machine.gpu[5]), "gpu4>gpu0 gpu0>gpu5");
	assert_class(topology, machine.gpu[4], machine.gpu[6], "PXB");
	/* NVB is for GPUs alone. */
	assert_class(topology, machine.gpu[4], machine.nic[1], "PIX");
}

static void nvswitches_join_all_their_gpus(void **state)
{
	struct topology *topology = &machine.topology;
	uint32_t nvswitch[2];

	(void)state;
	nvswitch[0] = machine_vertex(topology, TOPOLOGY_NVSWITCH, "nvswitch0");
	nvswitch[1] = machine_vertex(topology, TOPOLOGY_NVSWITCH, "nvswitch1");
	for (unsigned i = 0; i < 8; i++)
		machine_link(topology, TOPOLOGY_LINK_NVLINK, machine.gpu[i], nvswitch[i / 4]);
	assert_class(topology, machine.gpu[0], machine.gpu[3], "NVL");
	assert_string_equal(direct(topology, machine.gpu[0], machine.gpu[3]), "gpu0>nvswitch0 nvswitch0>gpu3");
	assert_class(topology, machine.gpu[0], machine.gpu[7], "SYS");
	machine_link(topology, TOPOLOGY_LINK_NVLINK, nvswitch[0], nvswitch[1]);
	assert_string_equal(direct(topology, machine.gpu[7], machine.gpu[0]),
			    "gpu7>nvswitch1 nvswitch1>nvswitch0 nvswitch0>gpu0");
	assert_class(topology, machine.gpu[0], machine.gpu[7], "NVL");
}

/* POWER9: the GPUs' NVLinks end at the CPU. */
static void nvlinks_that_end_at_a_cpu_join_no_gpus(void **state)
{
	struct topology topology;
	uint32_t cpu, gpu[2];

	(void)state;
	topology_init(&topology);
	cpu = machine_vertex(&topology, TOPOLOGY_CPU, "cpu0");
	gpu[0] = machine_vertex(&topology, TOPOLOGY_GPU, "gpu0");
	gpu[1] = machine_vertex(&topology, TOPOLOGY_GPU, "gpu1");
	machine_link(&topology, TOPOLOGY_LINK_NVLINK, gpu[0], cpu);
	machine_link(&topology, TOPOLOGY_LINK_NVLINK, gpu[1], cpu);
	assert_class(&topology, gpu[0], cpu, "NVL");
	assert_class(&topology, gpu[0], gpu[1], "PHB");
	topology_fini(&topology);
}

/* Grace: a GPU that has both C2C and PCI below its CPU, and a NIC there. */
static void c2c_is_taken_before_pci(void **state)
{
	struct topology topology;
	uint32_t cpu, memory, gpu, bridge, nic, leaf;

	(void)state;
	topology_init(&topology);
	cpu = machine_vertex(&topology, TOPOLOGY_CPU, "cpu0");
	memory = machine_vertex(&topology, TOPOLOGY_MEMORY, "memory0");
	bridge = machine_vertex(&topology, TOPOLOGY_BRIDGE, "bridge0");
	leaf = machine_vertex(&topology, TOPOLOGY_SWITCH, "switch0");
	gpu = machine_vertex(&topology, TOPOLOGY_GPU, "gpu0");
	nic = machine_vertex(&topology, TOPOLOGY_NIC, "nic0");
	machine_link(&topology, TOPOLOGY_LINK_PCI, gpu, bridge);
	machine_link(&topology, TOPOLOGY_LINK_PCI, nic, leaf);
	machine_link(&topology, TOPOLOGY_LINK_PCI, leaf, bridge);
	machine_link(&topology, TOPOLOGY_LINK_INTERNAL, bridge, cpu);
	machine_link(&topology, TOPOLOGY_LINK_MEMORY, memory, cpu);
	assert_class(&topology, gpu, nic, "PHB");
	machine_link(&topology, TOPOLOGY_LINK_C2C, gpu, cpu);
	assert_class(&topology, gpu, cpu, "C2C");
	assert_class(&topology, gpu, memory, "C2C");
	assert_class(&topology, gpu, nic, "P2C");
	assert_string_equal(direct(&topology, gpu, nic), "gpu0>cpu0 cpu0>bridge0 bridge0>switch0 switch0>nic0");
	assert_string_equal(direct(&topology, nic, gpu), "nic0>switch0 switch0>bridge0 bridge0>cpu0 cpu0>gpu0");
	topology_fini(&topology);
}

static void p2p_that_the_driver_refuses_leaves_nvlink_and_the_host(void **state)
{
	struct topology *topology = &machine.topology;
	struct topology_pair pair = { .from = machine.gpu[0], .to = machine.gpu[1] };

	(void)state;
	assert_int_equal(topology_add_pair(topology, &pair, NULL), 0);
	assert_string_equal(direct(topology, machine.gpu[0], machine.gpu[1]), "-ENOENT");
	assert_string_not_equal(direct(topology, machine.gpu[1], machine.gpu[0]),
				"-ENOENT"); /* nothing is said of it */
	assert_string_not_equal(host(topology, machine.gpu[0], machine.gpu[1]), "-ENOENT");
	assert_class(topology, machine.gpu[0], machine.gpu[1], "PIX"); /* the machine is the same */
	machine_link(topology, TOPOLOGY_LINK_NVLINK, machine.gpu[0], machine.gpu[1]);
	assert_string_equal(direct(topology, machine.gpu[0], machine.gpu[1]), "gpu0>gpu1");
	topology->pairs[0].p2p_works = true;
	assert_string_equal(direct(topology, machine.gpu[0], machine.gpu[1]), "gpu0>gpu1");
}

static void mig_slices_meet_in_host_memory_alone(void **state)
{
	struct topology *topology = &machine.topology;

	(void)state;
	topology->vertices[machine.gpu[0]].gpu.mig = 0;
	topology->vertices[machine.gpu[1]].gpu.mig = 1;
	assert_string_equal(direct(topology, machine.gpu[0], machine.gpu[1]), "-ENOENT");
	assert_string_equal(direct(topology, machine.gpu[0], machine.gpu[5]), "-ENOENT");
	assert_string_equal(direct(topology, machine.gpu[5], machine.gpu[0]), "-ENOENT");
	assert_string_not_equal(host(topology, machine.gpu[0], machine.gpu[1]), "-ENOENT");
	assert_string_not_equal(direct(topology, machine.gpu[0], machine.memory[0]), "-ENOENT");
	assert_string_not_equal(direct(topology, machine.gpu[0], machine.nic[0]), "-ENOENT");
}

static void latencies_that_are_known_add_up(void **state)
{
	struct topology *topology = &machine.topology;
	const struct topology_flow flow = { machine.gpu[0], machine.gpu[1], TOPOLOGY_WAY_HOST, TOPOLOGY_NONE };
	uint32_t up = machine_directed(topology, "gpu0>switch:0000:18:00.0");
	uint32_t down = machine_directed(topology, "memory0>cpu0");
	struct topology_route route;

	(void)state;
	topology->links[up / 2].capacity[up % 2].latency_ns = 300;
	topology->links[up / 2].capacity[!(up % 2)].latency_ns = 1000000; /* the other way, which is not taken */
	topology->links[down / 2].capacity[down % 2].latency_ns = 90;
	assert_int_equal(topology_route(topology, &flow, &route), 0);
	assert_int_equal(route.latency_ns, 390);
	assert_int_equal(route.path_class, TOPOLOGY_CLASS_PHB);
	assert_int_equal(route.count, 10);
}

static void the_first_of_equally_near_and_short_ways_is_taken(void **state)
{
	struct topology topology;
	uint32_t gpu[2], middle[3];

	(void)state;
	topology_init(&topology);
	gpu[0] = machine_vertex(&topology, TOPOLOGY_GPU, "gpu0");
	gpu[1] = machine_vertex(&topology, TOPOLOGY_GPU, "gpu1");
	middle[0] = machine_vertex(&topology, TOPOLOGY_CPU, "cpu0");
	middle[1] = machine_vertex(&topology, TOPOLOGY_SWITCH, "switch2");
	middle[2] = machine_vertex(&topology, TOPOLOGY_SWITCH, "switch1");
	for (unsigned i = 0; i < 3; i++)
		for (unsigned end = 0; end < 2; end++)
			machine_link(&topology, TOPOLOGY_LINK_PCI, gpu[end], middle[i]);
	assert_string_equal(direct(&topology, gpu[1], gpu[0]), "gpu1>switch2 switch2>gpu0");
	topology_fini(&topology);
}

static void ways_that_cannot_be_are_errors(void **state)
{
	struct topology *topology = &machine.topology;
	uint32_t last, lonely = machine_vertex(topology, TOPOLOGY_GPU, "gpu8");
	char name[TOPOLOGY_NAME_BYTES];

	(void)state;
	assert_string_equal(direct(topology, lonely, machine.gpu[0]), "-ENOENT");
	assert_string_equal(host(topology, lonely, machine.gpu[0]), "-ENOENT");
	assert_string_equal(host(topology, machine.gpu[0], lonely), "-ENOENT");
	assert_string_equal(direct(topology, machine.gpu[0], 999), "-EINVAL");
	assert_string_equal(direct(topology, TOPOLOGY_NONE, machine.gpu[0]), "-EINVAL");
	assert_string_equal(way(topology, 0, 1, TOPOLOGY_WAY_NONE, TOPOLOGY_NONE), "-ENOENT");
	assert_string_equal(way(topology, 0, 1, TOPOLOGY_WAY_COUNT, TOPOLOGY_NONE), "-EINVAL");
	last = machine.network;
	for (unsigned i = 0; i < TOPOLOGY_ROUTE_MAX; i++) {
		uint32_t next;

		snprintf(name, sizeof(name), "far%u", i);
		next = machine_vertex(topology, TOPOLOGY_NETWORK, name);
		machine_link(topology, TOPOLOGY_LINK_NETWORK, last, next);
		last = next;
	}
	assert_string_not_equal(direct(topology, machine.network, last), "-E2BIG");
	assert_string_equal(direct(topology, machine.nic[0], last), "-E2BIG");
}

#define with_machine(test) cmocka_unit_test_setup_teardown(test, build, take_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_machine(gpus_go_by_the_nearest_common_switch),
		with_machine(classes_are_those_of_nccl),
		cmocka_unit_test(a_common_bridge_is_phb),
		with_machine(the_way_by_the_host_goes_up_and_down_again),
		cmocka_unit_test(devices_and_memories_are_ends_and_not_ways),
		with_machine(nics_and_hosts_join_the_network_with_what_is_behind_them),
		with_machine(nvlink_is_nearer_than_pci),
		with_machine(nvswitches_join_all_their_gpus),
		cmocka_unit_test(nvlinks_that_end_at_a_cpu_join_no_gpus),
		cmocka_unit_test(c2c_is_taken_before_pci),
		with_machine(p2p_that_the_driver_refuses_leaves_nvlink_and_the_host),
		with_machine(mig_slices_meet_in_host_memory_alone),
		with_machine(latencies_that_are_known_add_up),
		cmocka_unit_test(the_first_of_equally_near_and_short_ways_is_taken),
		with_machine(ways_that_cannot_be_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
