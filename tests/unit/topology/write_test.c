/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "base/random.h"

#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"

/* A small machine with a value in nearly every place, built upside down. */
static void build_small(struct topology *topology)
{
	struct topology_vertex vertex;
	struct topology_link link;
	uint32_t gpu10, gpu2, root, cpu, memory, nic, network, members[3];
	struct topology_capacity both = {
		.rate_Bps = 26000000000, .spread = 0.0125, .date_s = 1764000000, .provenance = TOPOLOGY_MEASURED
	};

	topology_init(topology);
	snprintf(topology->name, sizeof(topology->name), "box 1");
	snprintf(topology->driver, sizeof(topology->driver), "nvidia 550.54.15");
	network = machine_vertex(topology, TOPOLOGY_NETWORK, "network0");
	vertex = topology_vertex_of(TOPOLOGY_GPU, "gpu10");
	vertex.gpu.index = 10;
	vertex.gpu.mig = 0;
	assert_int_equal(topology_add_vertex(topology, &vertex, &gpu10), 0);
	vertex = topology_vertex_of(TOPOLOGY_GPU, "gpu2");
	vertex.gpu = (struct topology_gpu){ .index = 2, .sm = 86, .gdr = true, .mig = -1, .bar1_bytes = 268435456 };
	vertex.pci = (struct topology_pci){ 0x030200, 0x10de, 0x2235, 0x10de, 0x145a };
	vertex.memory_bytes = 48318382080;
	snprintf(vertex.bus_id, sizeof(vertex.bus_id), "0000:17:00.0");
	snprintf(vertex.model, sizeof(vertex.model), "NVIDIA \"A40\"\n\\ \x01");
	assert_int_equal(topology_add_vertex(topology, &vertex, &gpu2), 0);
	vertex = topology_vertex_of(TOPOLOGY_NIC, "mlx5_0");
	vertex.nic = (struct topology_nic){ .interface = "ens1f0np0",
					    .port = 1,
					    .guid = 0xb8cef60300a1b2c3,
					    .rdma = true,
					    .speed_Bps = 12500000000,
					    .latency_ns = 1300,
					    .max_connections = 131072,
					    .gdr = true,
					    .collnet = true };
	assert_int_equal(topology_add_vertex(topology, &vertex, &nic), 0);
	root = machine_vertex(topology, TOPOLOGY_BRIDGE, "bridge:0000:16");
	vertex = topology_vertex_of(TOPOLOGY_CPU, "cpu0");
	vertex.cpu = (struct topology_cpu){ .numa = 0,
					    .architecture = "x86_64",
					    .vendor = "GenuineIntel",
					    .family = 6,
					    .model = 106,
					    .affinity = "ffff0000,0000ffff" };
	assert_int_equal(topology_add_vertex(topology, &vertex, &cpu), 0);
	vertex = topology_vertex_of(TOPOLOGY_MEMORY, "memory0");
	vertex.cpu.numa = 0;
	vertex.memory_bytes = 270000000000;
	assert_int_equal(topology_add_vertex(topology, &vertex, &memory), 0);
	machine_link(topology, TOPOLOGY_LINK_NETWORK, nic, network);
	machine_link(topology, TOPOLOGY_LINK_PCI, nic, root);
	machine_link(topology, TOPOLOGY_LINK_MEMORY, memory, cpu);
	machine_link(topology, TOPOLOGY_LINK_INTERNAL, root, cpu);
	link = topology_link_of(TOPOLOGY_LINK_NVLINK, gpu10, gpu2); /* the lower index first, the later name first */
	link.count = 4;
	link.nominal_Bps = 56250000000;
	link.capacity[TOPOLOGY_UP] = (struct topology_capacity){ .rate_Bps = 52000000000,
								 .latency_ns = 1800,
								 .provenance = TOPOLOGY_AT_LEAST };
	assert_int_equal(topology_add_link(topology, &link, NULL), 0);
	machine_link(topology, TOPOLOGY_LINK_PCI, gpu10, root);
	link = topology_link_of(TOPOLOGY_LINK_PCI, gpu2, root);
	link.pci = (struct topology_pci_link){ 3, 8, 4, 16, "0000:16:02.0" };
	link.nominal_Bps = topology_pci_Bps(3, 8);
	link.capacity[TOPOLOGY_DOWN] = (struct topology_capacity){ .latency_ns = 700 };
	assert_int_equal(topology_add_link(topology, &link, NULL), 0);
	machine_link(topology, TOPOLOGY_LINK_PCI, gpu2, root);
	members[0] = machine_directed(topology, "gpu2>bridge:0000:16");
	members[1] = machine_directed(topology, "bridge:0000:16>gpu10");
	members[2] = machine_directed(topology, "bridge:0000:16>gpu2#2");
	assert_int_equal(topology_add_limit(topology, "gpu2.both", &both, members, 3, NULL), 0);
	assert_int_equal(topology_add_limit(topology, "empty", &(struct topology_capacity){ 0 }, NULL, 0, NULL), 0);
	assert_int_equal(
		topology_add_pair(topology,
				  &(struct topology_pair){ .from = gpu10, .to = gpu2, .p2p_works = true, .p2p = both },
				  NULL),
		0);
	assert_int_equal(
		topology_add_pair(topology, &(struct topology_pair){ .from = gpu2, .to = gpu10, .host = both }, NULL),
		0);
}

/*
 * Of the two PCI links of gpu2 the one without values comes first, so gpu2>bridge... of the builder's is #2 here and
 * the other way round.
 */
static const char small_text[] =
	"tributary-topology 1\n"
	"name \"box 1\"\n"
	"driver \"nvidia 550.54.15\"\n"
	"vertex bridge bridge:0000:16\n"
	"vertex cpu cpu0 numa=0 architecture=x86_64 cpu_vendor=GenuineIntel cpu_family=6 cpu_model=106 "
	"affinity=ffff0000,0000ffff\n"
	"vertex gpu gpu2 bus=0000:17:00.0 model=\"NVIDIA \\\"A40\\\"\\n\\\\ \\x01\" class=0x030200 vendor=0x10de "
	"device=0x2235 subsystem_vendor=0x10de subsystem_device=0x145a index=2 sm=86 gdr=1 bar1_bytes=268435456 "
	"memory_bytes=48318382080\n"
	"vertex gpu gpu10 index=10 mig=0\n"
	"vertex memory memory0 numa=0 memory_bytes=270000000000\n"
	"vertex nic mlx5_0 interface=ens1f0np0 port=1 guid=0xb8cef60300a1b2c3 speed_Bps=12500000000 latency_ns=1300 "
	"max_connections=131072 gdr=1 collnet=1 rdma=1\n"
	"vertex network network0\n"
	"link internal bridge:0000:16 cpu0\n"
	"link pci gpu2 bridge:0000:16\n"
	"link pci gpu2 bridge:0000:16 generation=3 lanes=8 most_generation=4 most_lanes=16 port=0000:16:02.0 "
	"nominal_Bps=6000000000\n"
	"link nvlink gpu2 gpu10 count=4 nominal_Bps=56250000000\n"
	"link pci gpu10 bridge:0000:16\n"
	"link memory memory0 cpu0\n"
	"link pci mlx5_0 bridge:0000:16\n"
	"link network mlx5_0 network0\n"
	"rate bridge:0000:16>gpu2#2 0 unknown latency_ns=700\n"
	"rate gpu10>gpu2 52000000000 at_least latency_ns=1800\n"
	"limit empty 0 unknown\n"
	"limit gpu2.both 26000000000 measured spread=0.0125 date=1764000000 "
	"members=bridge:0000:16>gpu2,bridge:0000:16>gpu10,gpu2>bridge:0000:16#2\n"
	"pair gpu2 gpu10 p2p_works=0 host_Bps=26000000000 host_provenance=measured host_spread=0.0125 "
	"host_date=1764000000\n"
	"pair gpu10 gpu2 p2p_works=1 p2p_Bps=26000000000 p2p_provenance=measured p2p_spread=0.0125 "
	"p2p_date=1764000000\n";

static void text_is_sorted_and_complete(void **state)
{
	struct topology topology;
	char *text;

	(void)state;
	build_small(&topology);
	text = machine_text(&topology);
	assert_string_equal(text, small_text);
	free(text);
	topology_fini(&topology);
}

static void an_empty_graph_is_one_line(void **state)
{
	struct topology topology;
	char *text;

	(void)state;
	topology_init(&topology);
	text = machine_text(&topology);
	assert_string_equal(text, "tributary-topology 1\n");
	free(text);
}

static void what_was_read_has_every_value_of_what_was_written(void **state)
{
	struct topology topology;
	const struct topology_vertex *vertex;
	const struct topology_pair *pair;
	const struct topology_link *link;
	uint32_t directed;

	(void)state;
	assert_int_equal(topology_read(small_text, strlen(small_text), &topology, NULL), 0);
	assert_string_equal(topology.name, "box 1");
	vertex = &topology.vertices[topology_find(&topology, "gpu2")];
	assert_int_equal(vertex->kind, TOPOLOGY_GPU);
	assert_string_equal(vertex->model, "NVIDIA \"A40\"\n\\ \x01");
	assert_string_equal(vertex->bus_id, "0000:17:00.0");
	assert_int_equal(vertex->pci.class_code, 0x030200);
	assert_int_equal(vertex->pci.subsystem_device, 0x145a);
	assert_true(vertex->gpu.gdr && vertex->gpu.index == 2 && vertex->gpu.sm == 86 && vertex->gpu.mig == -1);
	assert_int_equal(vertex->memory_bytes, 48318382080);
	assert_int_equal(topology.vertices[topology_find(&topology, "gpu10")].gpu.mig, 0);
	vertex = &topology.vertices[topology_find(&topology, "mlx5_0")];
	assert_true(vertex->nic.rdma && vertex->nic.guid == 0xb8cef60300a1b2c3 &&
		    vertex->nic.max_connections == 131072);
	vertex = &topology.vertices[topology_find(&topology, "cpu0")];
	assert_true(vertex->cpu.numa == 0 && vertex->cpu.family == 6 && vertex->cpu.model == 106);
	directed = topology_find_directed(&topology, "bridge:0000:16>gpu2#2");
	link = &topology.links[directed / 2];
	assert_int_equal(directed % 2, TOPOLOGY_DOWN);
	assert_int_equal(link->capacity[TOPOLOGY_DOWN].latency_ns, 700);
	assert_int_equal(link->capacity[TOPOLOGY_DOWN].provenance, TOPOLOGY_UNKNOWN);
	assert_true(link->pci.generation == 3 && link->pci.lanes == 8 && link->pci.most_lanes == 16 &&
		    link->count == 1);
	assert_string_equal(link->pci.port, "0000:16:02.0");
	link = &topology.links[topology_find_directed(&topology, "gpu10>gpu2") / 2];
	assert_int_equal(link->lower, topology_find(&topology, "gpu2")); /* turned, as gpu2 has the lower index now */
	assert_int_equal(link->capacity[TOPOLOGY_DOWN].rate_Bps, 52000000000);
	assert_int_equal(link->count, 4);
	assert_int_equal(topology.limits[topology_find_limit(&topology, "gpu2.both")].member_count, 3);
	assert_true(topology.limits[topology_find_limit(&topology, "gpu2.both")].capacity.spread == 0.0125);
	pair = &topology.pairs[topology_find_pair(&topology, topology_find(&topology, "gpu2"),
						  topology_find(&topology, "gpu10"))];
	assert_true(!pair->p2p_works && !pair->p2p.rate_Bps && pair->host.date_s == 1764000000);
	topology_fini(&topology);
}

static void the_order_of_building_does_not_show(void **state)
{
	struct topology topology, other;
	struct machine machine;
	char *text, *other_text;
	uint64_t seed = 1;

	(void)state;
	machine_build(&machine);
	machine_rate(&machine.topology, "cpu0>cpu1", 20000000000);
	machine_rate(&machine.topology, "cpu1>cpu0", 19000000000);
	text = machine_text(&machine.topology);
	for (unsigned i = 0; i < 20; i++) {
		machine_shuffle(&machine.topology, &seed, &other);
		other_text = machine_text(&other);
		assert_string_equal(text, other_text);
		free(other_text);
		topology_fini(&other);
	}
	free(text);
	topology_fini(&machine.topology);
	build_small(&topology);
	for (unsigned i = 0; i < 20; i++) {
		machine_shuffle(&topology, &seed, &other);
		text = machine_text(&other);
		assert_string_equal(text, small_text);
		free(text);
		topology_fini(&other);
	}
	topology_fini(&topology);
}

/* Parallel links that differ in nothing but the limits that they are members of. */
static void alike_links_are_told_apart_by_their_limits(void **state)
{
	struct topology topology, other;
	uint32_t a, b, second, third;
	uint64_t seed = 7;
	char *text, *other_text;

	(void)state;
	topology_init(&topology);
	a = machine_vertex(&topology, TOPOLOGY_GPU, "gpu0");
	b = machine_vertex(&topology, TOPOLOGY_GPU, "gpu1");
	machine_link(&topology, TOPOLOGY_LINK_NVLINK, a, b);
	second = 2 * machine_link(&topology, TOPOLOGY_LINK_NVLINK, a, b);
	third = 2 * machine_link(&topology, TOPOLOGY_LINK_NVLINK, a, b) + 1;
	assert_int_equal(topology_add_limit(&topology, "x", &(struct topology_capacity){ 0 }, &second, 1, NULL), 0);
	assert_int_equal(topology_add_limit(&topology, "y", &(struct topology_capacity){ 0 }, &third, 1, NULL), 0);
	text = machine_text(&topology);
	for (unsigned i = 0; i < 20; i++) {
		machine_shuffle(&topology, &seed, &other);
		other_text = machine_text(&other);
		assert_string_equal(text, other_text);
		free(other_text);
		topology_fini(&other);
	}
	free(text);
	topology_fini(&topology);
}

/* ... or in their rates, in one of the two directions. */
static void alike_links_are_told_apart_by_their_rates(void **state)
{
	struct topology topology, other;
	uint64_t seed = 7;
	char *text, *other_text;
	uint32_t a, b;

	(void)state;
	topology_init(&topology);
	a = machine_vertex(&topology, TOPOLOGY_GPU, "gpu0");
	b = machine_vertex(&topology, TOPOLOGY_GPU, "gpu1");
	for (uint32_t i = 0; i < 9; i++) {
		uint32_t link = machine_link(&topology, TOPOLOGY_LINK_NVLINK, a, b);

		for (unsigned direction = 0; direction < 2; direction++)
			topology.links[link].capacity[direction] = (struct topology_capacity){
				.rate_Bps = 1000 + (direction ? i / 3 : i % 3), .provenance = TOPOLOGY_MEASURED
			};
	}
	text = machine_text(&topology);
	for (unsigned i = 0; i < 20; i++) {
		machine_shuffle(&topology, &seed, &other);
		other_text = machine_text(&other);
		assert_string_equal(text, other_text);
		free(other_text);
		topology_fini(&other);
	}
	free(text);
	topology_fini(&topology);
}

static void random_graphs_survive_writing_and_reading(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3000; seed++) {
		struct topology first, again, shuffled;
		char *text, *again_text, *shuffled_text;
		struct diag diag = { 0 };
		uint64_t random = seed;

		machine_random(&random, &first);
		text = machine_text(&first);
		if (topology_read(text, strlen(text), &again, &diag) < 0)
			fail_msg("seed %u, line %d, column %d: %s\n%s", (unsigned)seed, diag.line, diag.column,
				 diag.text, text);
		assert_int_equal(again.vertex_count, first.vertex_count);
		assert_int_equal(again.link_count, first.link_count);
		again_text = machine_text(&again);
		machine_shuffle(&first, &random, &shuffled);
		shuffled_text = machine_text(&shuffled);
		if (strcmp(text, again_text) != 0 || strcmp(text, shuffled_text) != 0)
			fail_msg("seed %u:\n%s\n%s\n%s", (unsigned)seed, text, again_text, shuffled_text);
		free(text);
		free(again_text);
		free(shuffled_text);
		topology_fini(&first);
		topology_fini(&again);
		topology_fini(&shuffled);
	}
}

static void the_locale_does_not_matter(void **state)
{
	struct topology topology;
	char *text;

	(void)state;
	if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8")) {
		print_message("skipped: no locale with a decimal comma is installed\n");
		skip();
	}
	assert_int_equal(topology_read(small_text, strlen(small_text), &topology, NULL), 0);
	text = machine_text(&topology);
	setlocale(LC_ALL, "C");
	assert_string_equal(text, small_text);
	free(text);
	topology_fini(&topology);
}

static void values_out_of_range_are_left_out(void **state)
{
	struct topology topology;
	struct topology_link *link;
	char *text;

	(void)state;
	topology_init(&topology);
	machine_vertex(&topology, TOPOLOGY_GPU, "gpu0");
	machine_vertex(&topology, TOPOLOGY_CPU, "cpu0");
	machine_link(&topology, TOPOLOGY_LINK_PCI, 0, 1);
	link = &topology.links[0];
	link->pci.generation = 8;
	link->nominal_Bps = UINT64_MAX;
	link->capacity[0] = (struct topology_capacity){ .rate_Bps = 5, .provenance = TOPOLOGY_UNKNOWN };
	link->capacity[1] = (struct topology_capacity){ .rate_Bps = 5, .provenance = TOPOLOGY_NOMINAL, .spread = -1 };
	text = machine_text(&topology);
	assert_string_equal(text, "tributary-topology 1\nvertex cpu cpu0\nvertex gpu gpu0\nlink pci gpu0 cpu0\n"
				  "rate cpu0>gpu0 5 nominal\n");
	free(text);
	topology_fini(&topology);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_sorted_and_complete),
		cmocka_unit_test(an_empty_graph_is_one_line),
		cmocka_unit_test(what_was_read_has_every_value_of_what_was_written),
		cmocka_unit_test(the_order_of_building_does_not_show),
		cmocka_unit_test(alike_links_are_told_apart_by_their_limits),
		cmocka_unit_test(alike_links_are_told_apart_by_their_rates),
		cmocka_unit_test(random_graphs_survive_writing_and_reading),
		cmocka_unit_test(the_locale_does_not_matter),
		cmocka_unit_test(values_out_of_range_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
