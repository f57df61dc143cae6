/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's tuner interface, version 2: known to NCCL from 2.21.5 on.
 * getCollInfo names one algorithm and protocol.
 */
#ifndef TRIBUTARY_NCCL_TUNER_V2_H
#define TRIBUTARY_NCCL_TUNER_V2_H

#include "nccl/types.h"

/* Looked up as ncclTunerPlugin_v2. A callback that returns an error makes the user's collective fail. */
struct nccl_tuner_v2 {
	const char *name;
	enum nccl_result (*init)(size_t nranks, size_t nnodes, nccl_debug_logger *logger, void **ret_context);
	enum nccl_result (*getCollInfo)(void *context, enum nccl_func func, size_t bytes, int collnet_supported,
					int nvls_supported, int num_pipe_ops, int *ret_algorithm, int *ret_protocol,
					int *ret_nchannels);
	enum nccl_result (*destroy)(void *context);
};
NCCL_ABI_SIZE(struct nccl_tuner_v2, 32);
NCCL_ABI_AT(struct nccl_tuner_v2, name, 0);
NCCL_ABI_AT(struct nccl_tuner_v2, init, 8);
NCCL_ABI_AT(struct nccl_tuner_v2, getCollInfo, 16);
NCCL_ABI_AT(struct nccl_tuner_v2, destroy, 24);

#endif
