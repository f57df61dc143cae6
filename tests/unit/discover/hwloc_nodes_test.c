/* SPDX-License-Identifier: Apache-2.0 */
/* Which NUMA nodes have cores: the cases are as hwloc writes machines with memory of GPUs, HBM and CXL. */
#include "discover/hwloc_nodes.h"

#include "discover/build.h"
#include "discover/discover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE(index, cpus, more) "<object type=\"NUMANode\" os_index=\"" #index "\" cpuset=\"" cpus "\" " more "/>"
#define BELOW(nodes, what)      "<object type=\"Package\" nodeset=\"" nodes "\">" what "</object>"
#define HOST                    "<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:[00-00]\"/>"
#define DRAM                    "subtype=\"DRAM\""

/* expected: the nodes with cores in the order of the file; near: of the first bridge, several: it says so. */
static void check(const char *objects, const char *expected, int near, bool several)
{
	char text[4096], found[64] = "";
	struct discover_tree tree;
	struct diag diag;
	size_t used = 0;
	int node = -2;
	bool more = false;

	snprintf(text, sizeof(text), "<topology version=\"2.0\"><object type=\"Machine\">%s</object></topology>",
		 objects);
	assert_int_equal(discover_hwloc_read(text, strlen(text), &tree, &diag), 0);
	for (uint32_t i = 0; i < tree.count; i++) {
		if (tree.at[i].type == HWLOC_XML_NODE && tree.at[i].has_cpus)
			used += (size_t)snprintf(found + used, sizeof(found) - used, "%s%d", used ? " " : "",
						 tree.at[i].os_index);
		if (tree.at[i].type == HWLOC_XML_BRIDGE && node == -2) {
			node = tree.at[i].node;
			more = tree.at[i].several_nodes;
		}
	}
	assert_string_equal(found, expected);
	assert_int_equal(node, near);
	assert_int_equal(more, several);
	discover_tree_fini(&tree);
}

static void memory_of_gpus_hbm_and_cxl_has_no_cores(void **state)
{
	(void)state;
	/* GH200: the GPU's memory has the cpuset of the nearest cores; hwloc 2.x of a kernel that gives none. */
	check(BELOW("0x7", NODE(0, "0xf", "") NODE(1, "0xf", "subtype=\"GPUMemory\"")
				   NODE(2, "", "subtype=\"GPUMemory\"") HOST),
	      "0", 0, false);
	/* Cores that no other node has do not make the memory of a GPU a CPU. */
	check(BELOW("0x3", NODE(0, "0xf", "") NODE(1, "0xf0", "subtype=\"gpumemory\"") HOST), "0", 0, false);
	/* HBM beside DRAM, with subtypes, and without: older hwloc. */
	check(BELOW("0x5", NODE(0, "0x3", DRAM) NODE(2, "0x3", "subtype=\"HBM\"") HOST)
		      BELOW("0xa", NODE(1, "0xc", DRAM) NODE(3, "0xc", "subtype=\"HBM\"")),
	      "0 1", 0, false);
	check(BELOW("0xa", NODE(1, "0xc", "") NODE(3, "0xc", "") HOST)
		      BELOW("0x5", NODE(0, "0x3", "") NODE(2, "0x3", "")),
	      "1 0", 1, false);
	/* The DRAM's number is the higher one. */
	check(BELOW("0x3", NODE(0, "0xf", "subtype=\"MCDRAM\"") NODE(1, "0xf", DRAM) HOST), "1", 1, false);
	/* CXL memory of a package with two nodes, which stands first. */
	check(BELOW("0x15", NODE(4, "0xff", "subtype=\"CXL-DRAM\"") NODE(0, "0x0f", DRAM) NODE(2, "0xf0", DRAM) HOST),
	      "0 2", 0, true);
	/* A bridge that is near to memory alone is near to the node of that memory. */
	check(NODE(0, "0x0f", "") NODE(1, "0xf0", "") NODE(2, "0xf0", "subtype=\"SPM\"") BELOW("0x4", HOST), "0 1", 1,
	      false);
}

static void nodes_with_cores_stay(void **state)
{
	(void)state;
	/* HBM is all that there is (Xeon Max without DIMMs, A64FX). */
	check(BELOW("0x1", NODE(0, "0x3", "subtype=\"HBM\"") HOST) BELOW("0x2", NODE(1, "0xc", "subtype=\"HBM\"")),
	      "0 1", 0, false);
	/* One node has some of the cores of another and its own. */
	check(BELOW("0x3", NODE(0, "0x0f", "") NODE(1, "0x3c", "") HOST), "0 1", 0, true);
	/* hwloc 1.x: cores are below their node; the words of a cpuset may be empty. */
	check("<object type=\"NUMANode\" os_index=\"0\" nodeset=\"0x1\" cpuset=\"0xff,,0x1\">" HOST "</object>"
	      "<object type=\"NUMANode\" os_index=\"1\" nodeset=\"0x2\" cpuset=\"0x0\"></object>",
	      "0", 0, false);
	/* Cores without memory are no node of the file, and a device may be near to them. */
	check(NODE(5, "0x3", "") BELOW("0x2", HOST), "5", 1, false);
}

static void a_number_stands_once(void **state)
{
	static const char text[] = "<topology version=\"2.0\">" NODE(1, "0x1", "") NODE(1, "0x1", "") "</topology>";
	struct discover_tree tree;
	struct diag diag;

	(void)state;
	assert_int_equal(discover_hwloc_read(text, strlen(text), &tree, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "two NUMA nodes of the same number"));
}

/* The graph has CPUs for nodes with cores alone, and memory is a fact of the file. */
static void memory_is_a_fact(void **state)
{
	static const char text[] =
		"<topology version=\"3.0\"><object type=\"Machine\" nodeset=\"0x7\">" NODE(0, "0xf", DRAM)
			NODE(1, "0xf", "subtype=\"GPUMemory\" local_memory=\"101535711232\"")
				NODE(2, "0xf", "subtype=\"HBM\"") "</object></topology>";
	struct discover_facts facts = { 0 };
	struct topology topology;
	struct diag diag = { 0 };

	(void)state;
	assert_int_equal(discover_bytes(text, strlen(text), &topology, &facts, NULL, &diag), 0);
	assert_int_equal(topology.vertex_count, 2); /* cpu0, memory0 */
	assert_int_not_equal(topology_find(&topology, "cpu0"), TOPOLOGY_NONE);
	assert_string_equal(facts.text,
			    "numa 1 cpus=none memory_bytes=101535711232\nnuma 2 cpus=none memory_bytes=0\n");
	discover_facts_fini(&facts);
	topology_fini(&topology);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_of_gpus_hbm_and_cxl_has_no_cores),
		cmocka_unit_test(nodes_with_cores_stay),
		cmocka_unit_test(a_number_stands_once),
		cmocka_unit_test(memory_is_a_fact),
	};

	return cmocka_run_group_tests_name("discover_hwloc_nodes", tests, NULL, NULL);
}
