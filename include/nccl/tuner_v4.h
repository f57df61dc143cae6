/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's tuner interface, version 4: known to NCCL from 2.24.3 on.
 * getCollInfo also learns whether the user's buffers are registered.
 */
#ifndef TRIBUTARY_NCCL_TUNER_V4_H
#define TRIBUTARY_NCCL_TUNER_V4_H

#include "nccl/types.h"

/* Looked up as ncclTunerPlugin_v4. A callback that returns an error makes the user's collective fail. */
struct nccl_tuner_v4 {
	const char *name;
	enum nccl_result (*init)(size_t nranks, size_t nnodes, nccl_debug_logger *logger, void **ret_context);
	enum nccl_result (*getCollInfo)(void *context, enum nccl_func func, size_t bytes, int num_pipe_ops,
					float **cost_table, int num_algo, int num_proto, int reg_buff,
					int *ret_nchannels);
	enum nccl_result (*destroy)(void *context);
};
NCCL_ABI_SIZE(struct nccl_tuner_v4, 32);
NCCL_ABI_AT(struct nccl_tuner_v4, name, 0);
NCCL_ABI_AT(struct nccl_tuner_v4, init, 8);
NCCL_ABI_AT(struct nccl_tuner_v4, getCollInfo, 16);
NCCL_ABI_AT(struct nccl_tuner_v4, destroy, 24);

#endif
