/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/plan/nccl_chose.h"

#include "base/log.h"
#include "ncclxml/topology_xml.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATH_BYTES = 1024, TEXT_BYTES = 1 << 20 };

const struct nccl_chose nccl_chose_cases[] = {
	{ .graph = "azure-ncv4-1n", .machine = "ncv4-topo" },
	{ .graph = "azure-ncv4-2n", .machine = "ncv4-topo" },
	{ .graph = "azure-ncv4-graph-1n", .machine = "ncv4-topo", .given = true },
	{ .graph = "azure-ndv4-1n", .machine = "ndv4-topo", .told = true },
	{ .graph = "azure-ndv4-2n", .machine = "ndv4-topo", .told = true },
	{ .graph = "oci-h100-2n", .machine = "oci-h100-topo" },
	{ .graph = "rccl-3p_pcie-1n", .machine = "rccl-3p_pcie" },
	{ .graph = "rccl-3p_pcie-2n", .machine = "rccl-3p_pcie" },
	{ .graph = "rccl-4p2h_2nic-1n", .machine = "rccl-4p2h_2nic" },
	{ .graph = "rccl-4p2h_2nic-2n", .machine = "rccl-4p2h_2nic" },
	{ .graph = "rccl-8p_pcie-1n", .machine = "rccl-8p_pcie" },
	{ .graph = "rccl-8p_pcie-2n", .machine = "rccl-8p_pcie" },
	{ .graph = "rccl-8p_pcie_2nic-1n", .machine = "rccl-8p_pcie_2nic" },
	{ .graph = "rccl-8p_pcie_2nic-2n", .machine = "rccl-8p_pcie_2nic" },
	{ .graph = "rccl-8p_rome-1n", .machine = "rccl-8p_rome" },
	{ .graph = "rccl-8p_rome-2n", .machine = "rccl-8p_rome" },
	{ .graph = "rccl-8p_rome_pcie-1n", .machine = "rccl-8p_rome_pcie" },
	{ .graph = "rccl-8p_rome_pcie-2n", .machine = "rccl-8p_rome_pcie" },
};
const size_t nccl_chose_count = sizeof(nccl_chose_cases) / sizeof(nccl_chose_cases[0]);

char *nccl_chose_machine_text(const char *folder, const struct nccl_chose *which, size_t *ret_bytes)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s.xml", folder, which->machine);
	return tree_read(path, ret_bytes);
}

char *nccl_chose_graph_text(const char *folder, const struct nccl_chose *which, size_t *ret_bytes)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/nccl-chose/%s.graph.xml", folder, which->graph);
	return tree_read(path, ret_bytes);
}

static void tell(struct topology *topology)
{
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_NVSWITCH, "nvswitch0");
	size_t count = topology->vertex_count;
	uint32_t nvswitch;

	assert_int_equal(topology_add_vertex(topology, &vertex, &nvswitch), 0);
	for (uint32_t i = 0; i < count; i++) {
		struct topology_link link = topology_link_of(TOPOLOGY_LINK_NVLINK, i, nvswitch);
		struct topology_vertex *at = &topology->vertices[i];

		if (at->kind == TOPOLOGY_NIC) {
			at->nic.gdr = true;
			at->nic.speed_Bps = 25000000000;
		}
		if (at->kind != TOPOLOGY_GPU)
			continue;
		at->gpu.gdr = true;
		at->gpu.sm = 80;
		link.count = 12;
		link.nominal_Bps = 240000000000;
		link.capacity[0] = link.capacity[1] = (struct topology_capacity){ .rate_Bps = 240000000000,
										  .provenance = TOPOLOGY_NOMINAL };
		assert_int_equal(topology_add_link(topology, &link, NULL), 0);
	}
}

void nccl_chose_load(const struct nccl_chose *which, const char *machine_text, size_t bytes, struct topology *ret,
		     struct plan_request *ret_request)
{
	struct diag diag;

	if (topology_xml_read(machine_text, bytes, ret, &diag) < 0)
		fail_msg("%s:%d: %s", which->machine, diag.line, diag.text);
	if (which->told)
		tell(ret);
	assert_int_equal(plan_request_all(ret, ret_request), 0);
	ret_request->hosts = strstr(which->graph, "-2n") ? 2 : 1;
}
