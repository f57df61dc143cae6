/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "machine.h"
#include "ncclxml/lint.h"

#define GBPS(x) ((uint64_t)(x)*1000000000ULL)

/* Two sockets with two GPUs each behind root ports of their own, and a NIC behind another one. */
static const char ports[] = "<system version=\"1\">\n" MACHINE_CPU(
	"0", "0000ffff", MACHINE_GPU("01", "0") MACHINE_GPU("02", "1") MACHINE_NIC("03", "eth0"))
	MACHINE_CPU("1", "ffff0000", MACHINE_GPU("81", "2") MACHINE_GPU("82", "3")) "</system>\n";

/* The same with a switch of two GPUs and one GPU alone on each socket. */
static const char switches[] =
	"<system version=\"1\">\n" MACHINE_CPU("0", "0000ffff",
					       MACHINE_SWITCH("01", MACHINE_GPU("02", "0") MACHINE_GPU("03", "1"))
						       MACHINE_GPU("05", "2") MACHINE_NIC("07", "eth0"))
		MACHINE_CPU("1", "ffff0000",
			    MACHINE_SWITCH("81", MACHINE_GPU("82", "3") MACHINE_GPU("83", "4"))
				    MACHINE_GPU("85", "5")) "</system>\n";

/* A NIC beside GPUs on a switch, and a GPU on another. */
static const char nic_beside[] =
	"<system version=\"1\">\n" MACHINE_CPU("0", "0000ffff",
					       MACHINE_SWITCH("01", MACHINE_GPU("02", "0") MACHINE_NIC("04", "eth0"))
						       MACHINE_SWITCH("05", MACHINE_GPU("06", "1"))) "</system>\n";

/* Nearer pairs are fast by P2P; those of PHB and SYS as given, against 10 GB/s through host memory. */
static void measured(const char *text, uint64_t phb_Bps, uint64_t sys_Bps, struct topology *ret)
{
	machine_read(text, ret);
	machine_pairs(ret, 2);
	machine_pair_rates(ret, TOPOLOGY_CLASS_PIX, GBPS(20), GBPS(10));
	machine_pair_rates(ret, TOPOLOGY_CLASS_PHB, phb_Bps, GBPS(10));
	machine_pair_rates(ret, TOPOLOGY_CLASS_SYS, sys_Bps, GBPS(10));
}

static void it_reaches_as_far_as_it_is_faster(void **state)
{
	static const struct {
		uint64_t phb_Bps, sys_Bps;
		enum topology_class farthest;
	} cases[] = {
		{ GBPS(5), GBPS(5), TOPOLOGY_CLASS_PXB },
		{ GBPS(15), GBPS(5), TOPOLOGY_CLASS_PHB },
		{ GBPS(15), GBPS(15), TOPOLOGY_CLASS_SYS },
		{ GBPS(5), GBPS(15), TOPOLOGY_CLASS_PXB },  /* a threshold cannot say that */
		{ GBPS(10), GBPS(10), TOPOLOGY_CLASS_PXB }, /* nothing is gained */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct topology topology;

		measured(ports, cases[i].phb_Bps, cases[i].sys_Bps, &topology);
		assert_int_equal(topology_xml_p2p(&topology), cases[i].farthest);
		topology_fini(&topology);
	}
}

static struct topology_pair *pair_of(struct topology *topology, const char *from, const char *to)
{
	uint32_t pair = topology_find_pair(topology, topology_find(topology, from), topology_find(topology, to));

	assert_int_not_equal(pair, TOPOLOGY_NONE);
	return &topology->pairs[pair];
}

/* One pair of the other socket, in one direction. */
static void one_pair_that_disagrees_is_enough(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		struct topology topology;
		struct topology_pair *pair;

		measured(ports, GBPS(15), GBPS(15), &topology);
		pair = pair_of(&topology, "gpu3", "gpu2");
		if (i == 1)
			pair->p2p_works = false;
		else if (i == 2)
			pair->p2p.rate_Bps = GBPS(9);
		else if (i == 3)
			pair->p2p.provenance = TOPOLOGY_NOMINAL;
		else if (i == 4)
			pair->host = (struct topology_capacity){ .rate_Bps = 0 };
		assert_int_equal(topology_xml_p2p(&topology), i ? TOPOLOGY_CLASS_PXB : TOPOLOGY_CLASS_SYS);
		topology_fini(&topology);
	}
}

static void slices_have_none(void **state)
{
	struct topology topology;

	(void)state;
	measured(ports, GBPS(15), GBPS(15), &topology);
	topology.vertices[topology_find(&topology, "gpu3")].gpu.mig = 0;
	assert_int_equal(topology_xml_p2p(&topology), TOPOLOGY_CLASS_PXB);
	topology_fini(&topology);
}

static void no_nic_gets_nearer(void **state)
{
	struct topology topology;

	(void)state;
	measured(nic_beside, GBPS(15), 0, &topology);
	assert_int_equal(topology_xml_p2p(&topology), TOPOLOGY_CLASS_PXB);
	topology_fini(&topology);
	/* With the CPUs as switches a NIC of the other socket is no farther than one of this socket. */
	measured(ports, GBPS(15), GBPS(15), &topology);
	topology.vertices[topology_find(&topology, "cpu1")].cpu.affinity[0] = '\0';
	assert_int_equal(topology_xml_p2p(&topology), TOPOLOGY_CLASS_PHB);
	topology_fini(&topology);
}

/* A host bridge above all that hangs below a CPU, as discovery finds it. */
static void add_bridge(struct topology *topology, const char *cpu_name, const char *name, uint64_t rate_Bps)
{
	uint32_t cpu = topology_find(topology, cpu_name), bridge, at;
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_BRIDGE, name);
	struct topology_link link;

	assert_int_equal(topology_add_vertex(topology, &vertex, &bridge), 0);
	for (size_t i = 0; i < topology->link_count; i++)
		if (topology->links[i].kind == TOPOLOGY_LINK_PCI && topology->links[i].upper == cpu)
			topology->links[i].upper = bridge;
	link = topology_link_of(TOPOLOGY_LINK_INTERNAL, bridge, cpu);
	assert_int_equal(topology_add_link(topology, &link, &at), 0);
	machine_set(topology, name, cpu_name, rate_Bps, TOPOLOGY_MEASURED);
}

static enum topology_class class_in(const struct topology *topology, const struct topology_vertex *a,
				    const struct topology_vertex *b)
{
	uint32_t first = topology_find_bus_id(topology, a->bus_id), second = topology_find_bus_id(topology, b->bus_id);

	assert_int_not_equal(first, TOPOLOGY_NONE);
	assert_int_not_equal(second, TOPOLOGY_NONE);
	return topology_class_of(topology, first, second);
}

/* Within PXB of each other in the file are exactly the GPUs that P2P is to reach, and the NICs that were so before. */
static void check_file(const struct topology *topology, enum topology_class p2p_farthest)
{
	const struct topology_xml_shape shape = { .bridges = true, .p2p_farthest = p2p_farthest };
	struct diag diag = { .text = "" };
	struct lint_findings findings;
	struct topology file;
	size_t bytes, pairs = 0;
	char *text;

	if (topology_xml_write(topology, &shape, &text, &bytes, NULL, &diag) != 0)
		fail_msg("%s", diag.text);
	machine_read(text, &file);
	for (uint32_t a = 0; a < topology->vertex_count; a++) {
		const struct topology_vertex *gpu = &topology->vertices[a];

		for (uint32_t b = 0; gpu->kind == TOPOLOGY_GPU && b < topology->vertex_count; b++) {
			const struct topology_vertex *device = &topology->vertices[b];
			enum topology_class farthest = TOPOLOGY_CLASS_PXB;

			if (a == b || (device->kind != TOPOLOGY_GPU && device->kind != TOPOLOGY_NIC))
				continue;
			if (device->kind == TOPOLOGY_GPU)
				farthest = p2p_farthest;
			assert_int_equal(class_in(&file, gpu, device) <= TOPOLOGY_CLASS_PXB,
					 topology_class_of(topology, a, b) <= farthest);
			pairs++;
		}
	}
	assert_true(pairs >= 2);
	assert_int_equal(lint_topology_xml(text, bytes, topology, &findings, &diag), 0);
	if (findings.count)
		fail_msg("line %d: %s: %s", findings.at[0].line, findings.at[0].check, findings.at[0].text);
	lint_findings_fini(&findings);
	topology_fini(&file);
	free(text);
}

static void the_file_brings_together_exactly_these(void **state)
{
	static const char *const machines[] = { ports, switches, machine_text };

	(void)state;
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		for (unsigned k = 0; k < 12; k++) {
			struct topology topology;

			measured(machines[i], k % 3 > 0 ? GBPS(15) : GBPS(5), k % 3 > 1 ? GBPS(15) : GBPS(5),
				 &topology);
			if (k / 3 % 2) {
				add_bridge(&topology, "cpu0", "bridge:0000:00", GBPS(12));
				add_bridge(&topology, "cpu1", "bridge:0000:80", GBPS(12));
			}
			if (k / 6) /* far from NCCL's constant, 16 GB/s */
				machine_set(&topology, "cpu0", "cpu1", GBPS(60), TOPOLOGY_MEASURED);
			check_file(&topology, topology_xml_p2p(&topology));
			topology_fini(&topology);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_reaches_as_far_as_it_is_faster),
		cmocka_unit_test(one_pair_that_disagrees_is_enough),
		cmocka_unit_test(slices_have_none),
		cmocka_unit_test(no_nic_gets_nearer),
		cmocka_unit_test(the_file_brings_together_exactly_these),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
