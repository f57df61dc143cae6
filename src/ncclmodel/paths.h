/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as NCCL's search sees it: the paths between GPUs and NICs, and the bandwidth (in GB/s) that each takes from. */
#ifndef TRIBUTARY_NCCLMODEL_PATHS_H
#define TRIBUTARY_NCCLMODEL_PATHS_H

#include "tributary/plan.h"
#include "tributary/topology.h"

enum { NCCLMODEL_ROWS_MAX = 2 * TOPOLOGY_ROUTE_MAX };

struct ncclmodel_hop {
	uint32_t rows[NCCLMODEL_ROWS_MAX]; /* one may be there twice */
	double parts[NCCLMODEL_ROWS_MAX];  /* of the channel's bandwidth: what NCCL takes of each row */
	size_t count;
	enum topology_class path_class; /* DIS: there is no way */
	double rate_GBps;               /* of its slowest row */
};

struct ncclmodel_paths {
	const struct topology *topology;
	const struct plan_request *request;
	double *residual_GBps; /* by row: directed links, then NICs in and out where they have no wire; INFINITY: no bound */
	struct ncclmodel_hop between[PLAN_GPUS_MAX][PLAN_GPUS_MAX];
	struct ncclmodel_hop in[PLAN_NICS_MAX][PLAN_GPUS_MAX], out[PLAN_GPUS_MAX][PLAN_NICS_MAX];
	uint8_t next[PLAN_GPUS_MAX][PLAN_GPUS_MAX]; /* the other GPUs, in the order in which they are tried */
	size_t next_count;                          /* with NVSwitches the neighbours alone */
	double most_GBps, gpu_GBps;                 /* the fastest way; the most that a GPU's own links carry */
	enum topology_class farthest;               /* class of hops between GPUs that are tried at all */
	int sm;                                     /* the least of all GPUs */
	bool amd;
};

/* -ENOENT, -ENOMEM. The topology and the request must outlive it. */
int ncclmodel_paths_init(const struct topology *topology, const struct plan_request *request,
			 struct ncclmodel_paths *ret);
void ncclmodel_paths_fini(struct ncclmodel_paths *paths);

#endif
