/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include "topology/internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void names_are_in_order_of_their_numbers(void **state)
{
	static const char *const sorted[] = { "",
					      "a",
					      "a0",
					      "a00",
					      "a01",
					      "a1",
					      "a2",
					      "a10",
					      "a10b2",
					      "a10b11",
					      "a11",
					      "a18446744073709551616",
					      "a18446744073709551617",
					      "aa",
					      "b",
					      "\xc3\xa9" };
	const size_t count = sizeof(sorted) / sizeof(sorted[0]);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < count; j++) {
			int order = topology_compare_names(sorted[i], sorted[j]);

			assert_true(i < j ? order < 0 : i > j ? order > 0 : order == 0);
		}
	}
}

static void vertices_are_found_by_name_and_bus(void **state)
{
	struct machine machine;
	const struct topology *topology = &machine.topology;

	(void)state;
	machine_build(&machine);
	assert_int_equal(topology_find(topology, "gpu5"), machine.gpu[5]);
	assert_int_equal(topology_find(topology, "gpu9"), TOPOLOGY_NONE);
	assert_int_equal(topology_find_bus_id(topology, "0000:19:00.0"), machine.gpu[0]);
	assert_int_equal(topology_find_bus_id(topology, "0000:1a:00.0"), machine.gpu[1]);
	assert_int_equal(topology_find_bus_id(topology, ""), TOPOLOGY_NONE);
	topology_fini(&machine.topology);
}

static void the_way_up_leads_to_the_cpu_and_its_memory(void **state)
{
	struct machine machine;
	struct topology *topology = &machine.topology;
	uint32_t link, circle[2];

	(void)state;
	machine_build(&machine);
	link = topology_uplink(topology, machine.gpu[2]);
	assert_int_equal(topology->links[link].upper, machine.leaf[1]);
	assert_int_equal(topology_uplink(topology, machine.nic[1]),
			 topology_find_link(topology, machine.leaf[2], machine.nic[1]));
	assert_int_equal(topology_uplink(topology, machine.cpu[0]), TOPOLOGY_NONE);
	assert_int_equal(topology_uplink(topology, machine.network), TOPOLOGY_NONE);
	assert_int_equal(topology_cpu_of(topology, machine.gpu[7]), machine.cpu[1]);
	assert_int_equal(topology_cpu_of(topology, machine.cpu[1]), machine.cpu[1]);
	assert_int_equal(topology_cpu_of(topology, machine.memory[0]), machine.cpu[0]);
	assert_int_equal(topology_cpu_of(topology, machine.network), TOPOLOGY_NONE);
	assert_int_equal(topology_cpu_of(topology, TOPOLOGY_NONE), TOPOLOGY_NONE);
	assert_int_equal(topology_memory_of(topology, machine.nic[1]), machine.memory[1]);
	assert_int_equal(topology_memory_of(topology, machine.memory[0]), machine.memory[0]);
	assert_int_equal(topology_memory_of(topology, machine.network), TOPOLOGY_NONE);
	circle[0] = machine_vertex(topology, TOPOLOGY_SWITCH, "switch0");
	circle[1] = machine_vertex(topology, TOPOLOGY_SWITCH, "switch1");
	machine_link(topology, TOPOLOGY_LINK_PCI, circle[0], circle[1]);
	machine_link(topology, TOPOLOGY_LINK_PCI, circle[1], circle[0]);
	assert_int_equal(topology_cpu_of(topology, circle[0]), TOPOLOGY_NONE);
	topology_fini(&machine.topology);
}

static void lists_are_of_one_kind_and_in_order(void **state)
{
	struct topology topology;
	uint32_t ten, two, *list;
	size_t count;

	(void)state;
	topology_init(&topology);
	assert_int_equal(topology_list(&topology, TOPOLOGY_GPU, &list, &count), 0);
	assert_int_equal(count, 0);
	free(list);
	ten = machine_vertex(&topology, TOPOLOGY_GPU, "gpu10");
	machine_vertex(&topology, TOPOLOGY_CPU, "cpu0");
	two = machine_vertex(&topology, TOPOLOGY_GPU, "gpu2");
	assert_int_equal(topology_list(&topology, TOPOLOGY_GPU, &list, &count), 0);
	assert_int_equal(count, 2);
	assert_true(list[0] == two && list[1] == ten);
	free(list);
	topology_fini(&topology);
}

static void directed_links_are_found_by_the_names_they_have(void **state)
{
	static const char *const none[] = { "",
					    "gpu0",
					    "gpu0>",
					    ">gpu0",
					    "gpu0>gpu9",
					    "gpu0>gpu1#0",
					    "gpu0>gpu1#1",
					    "gpu0>gpu1#03",
					    "gpu0>gpu1#4",
					    "gpu0>gpu1#",
					    "gpu0>gpu1#2x",
					    "gpu0>gpu1>gpu2",
					    "gpu0>gpu1#99999999999999999999" };
	struct machine machine;
	struct topology *topology = &machine.topology;
	char name[3 * TOPOLOGY_NAME_BYTES];
	uint32_t second;

	(void)state;
	machine_build(&machine);
	machine_link(topology, TOPOLOGY_LINK_NVLINK, machine.gpu[0], machine.gpu[1]);
	second = machine_link(topology, TOPOLOGY_LINK_NVLINK, machine.gpu[1], machine.gpu[0]);
	machine_link(topology, TOPOLOGY_LINK_NVLINK, machine.gpu[0], machine.gpu[1]);
	for (uint32_t i = 0; i < 2 * topology->link_count; i++) {
		assert_int_equal(topology_directed_name(topology, i, name, sizeof(name)), 0);
		assert_int_equal(topology_find_directed(topology, name), i);
	}
	assert_int_equal(topology_directed_name(topology, 2 * second, name, sizeof(name)), 0);
	assert_string_equal(name, "gpu1>gpu0#2");
	assert_int_equal(topology_parallel_number(topology, second), 2);
	assert_int_equal(topology_parallel_number(topology, 0), 0);
	assert_int_equal(topology_directed_name(topology, 2 * second, name, 12), 0);
	assert_int_equal(topology_directed_name(topology, 2 * second, name, 11), -ENOSPC);
	assert_int_equal(topology_directed_name(topology, 9999, name, sizeof(name)), -EINVAL);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(topology_find_directed(topology, none[i]), TOPOLOGY_NONE);
	assert_int_equal(topology_find_link(topology, machine.gpu[0], machine.gpu[5]), TOPOLOGY_NONE);
	topology_fini(&machine.topology);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_in_order_of_their_numbers),
		cmocka_unit_test(vertices_are_found_by_name_and_bus),
		cmocka_unit_test(the_way_up_leads_to_the_cpu_and_its_memory),
		cmocka_unit_test(lists_are_of_one_kind_and_in_order),
		cmocka_unit_test(directed_links_are_found_by_the_names_they_have),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
