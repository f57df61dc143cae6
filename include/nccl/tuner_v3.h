/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's tuner interface, version 3: known to NCCL from 2.22.3 on.
 * getCollInfo edits a table of costs instead: cost_table[algorithm][protocol], microseconds, num_algo by num_proto.
 */
#ifndef TRIBUTARY_NCCL_TUNER_V3_H
#define TRIBUTARY_NCCL_TUNER_V3_H

#include "nccl/types.h"

/* Looked up as ncclTunerPlugin_v3. A callback that returns an error makes the user's collective fail. */
struct nccl_tuner_v3 {
	const char *name;
	enum nccl_result (*init)(size_t nranks, size_t nnodes, nccl_debug_logger *logger, void **ret_context);
	enum nccl_result (*getCollInfo)(void *context, enum nccl_func func, size_t bytes, int num_pipe_ops,
					float **cost_table, int num_algo, int num_proto, int *ret_nchannels);
	enum nccl_result (*destroy)(void *context);
};
NCCL_ABI_SIZE(struct nccl_tuner_v3, 32);
NCCL_ABI_AT(struct nccl_tuner_v3, name, 0);
NCCL_ABI_AT(struct nccl_tuner_v3, init, 8);
NCCL_ABI_AT(struct nccl_tuner_v3, getCollInfo, 16);
NCCL_ABI_AT(struct nccl_tuner_v3, destroy, 24);

#endif
