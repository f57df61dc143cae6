/*
 * Whether NCCL takes GPUs of one host for different nodes. Pure.
 *
 * Where NCCL, by the values of the topology file, finds its network faster than what is between two GPUs, it counts them as
 * different nodes, and a graph file for all of them would fail.
 */
#ifndef TRIBUTARY_NCCLXML_SPLIT_H
#define TRIBUTARY_NCCLXML_SPLIT_H

#include "ncclxml/topology_xml.h"
#include "tributary/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct diag;

/*
 * speeds_Bps: of each NIC of the request, as the network says it, where the graph knows none; 0: not known. Which two GPUs in
 * *diag; also true, with the reason, where it cannot be told.
 */
bool ncclxml_splits(const struct topology *topology, const struct topology_xml_shape *shape,
		    const struct plan_request *request, const uint64_t *speeds_Bps, struct diag *diag);

#endif
