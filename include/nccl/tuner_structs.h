/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's tuner plugins get at init, in versions 5 and 6 of the interface: one shape for both.
 */
#ifndef TRIBUTARY_NCCL_TUNER_STRUCTS_H
#define TRIBUTARY_NCCL_TUNER_STRUCTS_H

#include "nccl/types.h"

/* How the ranks lie in NVLink domains. */
struct nccl_tuner_nvl_domain_v5 {
	int nNvlDomains;
	int minRanksPerNvlDomain;
	int maxRanksPerNvlDomain;
};
NCCL_ABI_SIZE(struct nccl_tuner_nvl_domain_v5, 12);
NCCL_ABI_AT(struct nccl_tuner_nvl_domain_v5, nNvlDomains, 0);
NCCL_ABI_AT(struct nccl_tuner_nvl_domain_v5, minRanksPerNvlDomain, 4);
NCCL_ABI_AT(struct nccl_tuner_nvl_domain_v5, maxRanksPerNvlDomain, 8);

/*
 * The constants of NCCL's cost model, in and out. Last index: protocol; index of 7: algorithm; index of 3 before it: the
 * wire (NVLink, PCI, network). Latencies in microseconds, bandwidths in GB/s.
 */
struct nccl_tuner_constants_v5 {
	double baseLatencies[7][3];
	double hwLatencies[3][7][3];
	double llMaxBws[4][3];
	double perChMaxRingLL128Bws[4][3];
	double perChMaxTreeLL128Bws[4][3];
	double perChMaxTreeBws[4][3];
	double perChMaxNVLSTreeBws[4][3];
};
NCCL_ABI_SIZE(struct nccl_tuner_constants_v5, 1152);
NCCL_ABI_AT(struct nccl_tuner_constants_v5, baseLatencies, 0);
NCCL_ABI_AT(struct nccl_tuner_constants_v5, hwLatencies, 168);
NCCL_ABI_AT(struct nccl_tuner_constants_v5, llMaxBws, 672);
NCCL_ABI_AT(struct nccl_tuner_constants_v5, perChMaxRingLL128Bws, 768);
NCCL_ABI_AT(struct nccl_tuner_constants_v5, perChMaxTreeLL128Bws, 864);
NCCL_ABI_AT(struct nccl_tuner_constants_v5, perChMaxTreeBws, 960);
NCCL_ABI_AT(struct nccl_tuner_constants_v5, perChMaxNVLSTreeBws, 1056);

#endif
