/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's own search would choose for a machine: an estimate, from facts about NCCL 2.28 (nccl: graph/search.cc). It
 * sees nominal rates alone (PCIe by width and generation, a constant between sockets, the speed of a NIC's wire), knows
 * nothing of memories, pairs or limits that were measured, tries a list of speeds from the fastest to the slowest, and
 * gives all channels the same one. Where none fits it takes the GPUs in order at 0.1 GB/s. unit/ncclmodel/search says how near
 * it comes to what NCCL really chose; a graph that NCCL dumped is exact. Pure.
 */
#ifndef TRIBUTARY_NCCLMODEL_SEARCH_H
#define TRIBUTARY_NCCLMODEL_SEARCH_H

#include "tributary/plan.h"
#include "tributary/topology.h"

/* NCCL's channels before it doubles them. */
struct ncclmodel_graph {
	struct plan plan;              /* the channels that differ; rate_Bps: what NCCL believes of each */
	size_t copies;                 /* how often it has each of them */
	double intra_GBps, inter_GBps; /* what it believes of each channel; they differ for trees alone */
	bool fallback;                 /* no speed of its list fitted */
};

struct ncclmodel_choice {
	struct ncclmodel_graph ring, tree;
	size_t channel_count; /* of both, copies counted: NCCL takes the lesser */
};

/* Rings, and as many trees, with NCCL_NET_DISABLE_INTRA=1. -EINVAL: as plan_make, or two GPUs that no data can pass between; -ENOMEM. */
int ncclmodel_choose(const struct topology *topology, const struct plan_request *request, struct ncclmodel_choice *ret);

#endif
