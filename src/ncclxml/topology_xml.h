/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's topology files (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): text in, a machine graph out, and back. Pure. The writer is
 * in the plugin; the reader needs a library for XML and is in the command alone.
 *
 * NCCL's limits and rules are in limits.h, each with its source.
 */
#ifndef TRIBUTARY_NCCLXML_TOPOLOGY_XML_H
#define TRIBUTARY_NCCLXML_TOPOLOGY_XML_H

#include "base/log.h"
#include "tributary/topology.h"

/*
 * -EINVAL: not such a file, or a fact in it is impossible; line and reason in *diag; *ret is empty then. 0: *diag is a
 * warning about something that NCCL accepts but that is probably a mistake, or its text is "".
 */
int topology_xml_read(const char *text, size_t bytes, struct topology *ret, struct diag *diag);

enum topology_xml_sockets {
	TOPOLOGY_XML_SOCKETS_AUTO,     /* as switches when the measured rate is far from NCCL's constant, see docs */
	TOPOLOGY_XML_SOCKETS_CPUS,     /* as NCCL has them: <cpu>s, whose link NCCL's constant describes */
	TOPOLOGY_XML_SOCKETS_SWITCHES, /* as PCI switches under one <cpu>, with their measured rate */
	TOPOLOGY_XML_SOCKETS_COUNT
};

/* How the file may differ from the picture that NCCL makes by itself, beside the rates. */
struct topology_xml_shape {
	enum topology_xml_sockets sockets;
	bool bridges; /* a host bridge may be written as a PCI switch */
	/*
	 * TOPOLOGY_CLASS_PHB or _SYS: all GPUs of a CPU, or of the machine, are below one PCI switch, so NCCL uses P2P between
	 * them. As topology_xml_p2p says, or TOPOLOGY_CLASS_PXB: no GPU gets nearer to another. _SYS takes SOCKETS_AUTO.
	 */
	enum topology_class p2p_farthest;
};

/*
 * How far P2P between GPUs should reach by what was measured: TOPOLOGY_CLASS_PXB, NCCL's default, or the farthest class for
 * which all of this holds, and for the classes before it:
 *   - between all GPUs of that class P2P works and was measured, and so was the way through host memory; P2P is never the
 *     slower one, and somewhere at least 5 % faster;
 *   - no NIC would get nearer to a GPU than NCCL finds it: its choice of NICs and of GPUDirect RDMA stays as it is;
 *   - for TOPOLOGY_CLASS_SYS the CPUs can be written as switches (sockets.h).
 */
enum topology_class topology_xml_p2p(const struct topology *topology);

/* What the writer decided, for those who tell the user. */
struct topology_xml_report {
	bool sockets_as_switches;
	char changed_classes[232]; /* which path classes the file changes: "gpu0-gpu4 SYS->PHB, ..."; "" none */
	double worst_error_Bps;    /* of a link's value, as NCCL will compute it, against the graph's; sockets apart */
	/* Between sockets where the file cannot say it and NCCL's constant is farthest off, and that; 0: nowhere. */
	uint64_t socket_Bps, nccl_socket_Bps;
	size_t node_count;
};

/*
 * Each link's width × speed is the nearest that NCCL can express to its capacity (measured, else nominal). -E2BIG: more
 * than NCCL reads. *ret is malloc'ed and NUL-terminated; the caller frees it. ret_report may be NULL.
 */
int topology_xml_write(const struct topology *topology, const struct topology_xml_shape *shape, char **ret,
		       size_t *ret_bytes, struct topology_xml_report *ret_report, struct diag *diag);

struct plan_request;
/*
 * Whether NCCL takes GPUs of one host for different nodes: where it, by the values of the topology file, finds its network
 * faster than what is between two GPUs. A graph file for all of them would fail then.
 *
 * speeds_Bps: of each NIC of the request, as the network says it, where the graph knows none; 0: not known. Which two GPUs in
 * *diag; also true, with the reason, where it cannot be told.
 */
bool ncclxml_splits(const struct topology *topology, const struct topology_xml_shape *shape,
		    const struct plan_request *request, const uint64_t *speeds_Bps, struct diag *diag);

#endif
