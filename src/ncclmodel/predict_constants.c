/* SPDX-License-Identifier: Apache-2.0 */
#include "tributary/predict.h"

/* Facts about NCCL 2.30.7, as it prints and uses them. Rows: LL, LL128, Simple. */

const struct predict_constants predict_constants_default = {
	.base_latency_us = {
		[PREDICT_TREE] = { 6.8, 14.0, 8.4 },
		[PREDICT_RING] = { 6.6, 14.0, 8.4 },
		[PREDICT_PAT] = { 8.0, 8.0, 8.0 },
	},
	.wire_latency_us = {
		[PREDICT_NVLINK] = {
			[PREDICT_TREE] = { 0.6, 1.25, 4.0 },
			[PREDICT_RING] = { 0.6, 1.9, 3.4 },
			[PREDICT_COLLNET_DIRECT] = { 0, 0, 3.7 },
			[PREDICT_COLLNET_CHAIN] = { 0, 0, 2.8 },
			[PREDICT_NVLS] = { 0, 0, 25 },
			[PREDICT_NVLS_TREE] = { 0, 0, 25 },
			[PREDICT_PAT] = { 0, 0, 4.0 },
		},
		[PREDICT_PCI] = {
			[PREDICT_TREE] = { 1.0, 1.9, 4.0 },
			[PREDICT_RING] = { 1.0, 2.5, 5.7 },
			[PREDICT_COLLNET_DIRECT] = { 0, 0, 3.7 },
			[PREDICT_COLLNET_CHAIN] = { 0, 0, 2.8 },
			[PREDICT_PAT] = { 0, 0, 4.0 },
		},
		[PREDICT_NETWORK] = {
			[PREDICT_TREE] = { 5.0, 8.5, 14 },
			[PREDICT_RING] = { 2.7, 4.0, 14 },
			[PREDICT_COLLNET_DIRECT] = { 0, 0, 31 },
			[PREDICT_COLLNET_CHAIN] = { 0, 0, 30 },
			[PREDICT_NVLS] = { 0, 0, 18 },
			[PREDICT_NVLS_TREE] = { 0, 0, 20.9 },
			[PREDICT_PAT] = { 0, 0, 14 },
		},
	},
	/* Volta, Ampere, Hopper, Blackwell; of more than one node the first row is Intel's, the second AMD's. */
	.ll_most_GBps = { { 39, 39, 20.4 }, { 87.7, 22.5, 19 }, { 141, 45, 35 }, { 282, 90, 70 } },
	.ring_ll128_channel_most_GBps = { { 20, 20, 20 }, { 20, 20, 20 }, { 36.7, 36.7, 36.7 }, { 40, 40, 40 } },
	.tree_ll128_channel_most_GBps = { { 20, 20, 20 }, { 20, 20, 20 }, { 36.7, 36.7, 29 }, { 55.6, 31.67, 20 } },
	.tree_channel_most_GBps = { { 26.5, 18.5, 10 }, { 24, 23.6, 17.8 }, { 38.7, 41.4, 36 }, { 70, 42.8, 24 } },
};

static const char *const collectives[] = {
	[PREDICT_BROADCAST] = "Broadcast",         [PREDICT_REDUCE] = "Reduce",       [PREDICT_ALLGATHER] = "AllGather",
	[PREDICT_REDUCESCATTER] = "ReduceScatter", [PREDICT_ALLREDUCE] = "AllReduce",
};
static const char *const algorithms[] = {
	[PREDICT_TREE] = "Tree", [PREDICT_RING] = "Ring",          [PREDICT_COLLNET_DIRECT] = "CollNetDirect",
	[PREDICT_PAT] = "PAT",   [PREDICT_NVLS_TREE] = "NVLSTree", [PREDICT_COLLNET_CHAIN] = "CollNetChain",
	[PREDICT_NVLS] = "NVLS",
};
static const char *const protocols[] = {
	[PREDICT_LL] = "LL",
	[PREDICT_LL128] = "LL128",
	[PREDICT_SIMPLE] = "Simple",
};

const char *predict_collective_word(enum predict_collective collective)
{
	return (unsigned)collective < PREDICT_COLLECTIVE_COUNT ? collectives[collective] : "?";
}

const char *predict_algorithm_word(enum predict_algorithm algorithm)
{
	return (unsigned)algorithm < PREDICT_ALGORITHM_COUNT ? algorithms[algorithm] : "?";
}

const char *predict_protocol_word(enum predict_protocol protocol)
{
	return (unsigned)protocol < PREDICT_PROTOCOL_COUNT ? protocols[protocol] : "?";
}
