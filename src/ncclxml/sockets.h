/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether to write the CPUs as <cpu>s, between which NCCL sees a constant of its own, or as PCI switches under one
 * <cpu>, each with the measured rate between sockets. Pure.
 *
 * As switches, what was SYS between devices of different sockets becomes PHB, because the way still leads through a
 * <cpu>. By default that changes no rule of NCCL's: P2P and GPUDirect RDMA end at PXB, LL128 wants PXB. But who set
 * NCCL_P2P_LEVEL or NCCL_NET_GDR_LEVEL to PHB gets them across sockets too; the GPUs of one socket are below one switch,
 * so what was PHB between them becomes PXB; what goes through host memory inside one socket, and to a NIC behind another
 * root port, is charged with the rate between sockets; a NIC of the other socket is no longer farther than such a one; and
 * NCCL's threads are bound to all CPUs instead of those of one domain. So TOPOLOGY_XML_SOCKETS_AUTO takes switches only
 * when all of this holds:
 *   - a rate between two CPUs that have devices was measured, and is more than a quarter off NCCL's constant (a lower
 *     bound: above it); the rates of all pairs are within a quarter of each other, because a star has one for each CPU;
 *   - every pair of GPUs across sockets (not joined by NVLink) can use P2P, or no pair of GPUs of the machine can;
 *   - no two GPUs of one socket are PHB, unless P2P is to reach so far;
 *   - the rate is above the constant, or no two GPUs of one socket go through host memory, and no two GPUs of different
 *     sockets both have a NIC within PXB that is faster than the rate: NCCL would send between them over these NICs;
 *   - a NIC that a GPU has behind another root port of its socket is no faster than the rate, and the GPU has none on
 *     another socket then;
 *   - no NIC gets nearer to a GPU;
 *   - the CPUs' masks are known.
 * Where P2P is to reach across the sockets they are switches below one more, whatever the rate.
 */
#ifndef TRIBUTARY_NCCLXML_SOCKETS_H
#define TRIBUTARY_NCCLXML_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ncclmodel/limits.h"
#include "ncclxml/topology_xml.h"

struct ncclxml_sockets {
	uint32_t cpus[NCCLMODEL_NODE_MAX]; /* those that have GPUs or NICs, by the number of their domain */
	size_t cpu_count;
	bool as_switches;
	uint64_t rate_Bps[NCCLMODEL_NODE_MAX]; /* of each CPU's switch: the least to any other one */
	enum topology_provenance provenance[NCCLMODEL_NODE_MAX];
};

/* -E2BIG: more CPUs or GPUs than NCCL reads elements; -EINVAL: switches were asked for and no rate is known. */
int ncclxml_sockets_decide(const struct topology *topology, const struct topology_xml_shape *shape,
			   struct ncclxml_sockets *ret, struct diag *diag);
/* Whether a NIC would be nearer to a GPU if all GPUs up to that class were below one switch. */
bool ncclxml_sockets_bring_nics_nearer(const struct topology *topology, enum topology_class farthest);
/* Whether the CPUs can be switches below one more, so that P2P reaches across sockets: struct topology_xml_shape. */
bool ncclxml_sockets_allow_p2p(const struct topology *topology);
/* "gpu0-gpu4 SYS->PHB, ...": the pairs of devices whose class is another one in the file. */
void ncclxml_sockets_changes(const struct topology *topology, bool as_switches, enum topology_class p2p_farthest,
			     char *text, size_t text_bytes);
/* The rate between two sockets that NCCL's constant misses most, and that; as switches, or where none is: 0. */
void ncclxml_sockets_missed(const struct topology *topology, const struct ncclxml_sockets *sockets, uint64_t *ret_Bps,
			    uint64_t *ret_nccl_Bps);
/* All CPUs' masks in one, as NCCL writes it; false: one is not known. */
bool ncclxml_sockets_affinity(const struct topology *topology, const struct ncclxml_sockets *sockets, char *text,
			      size_t text_bytes);

#endif
