/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's tuner interface, version 6: known to NCCL from 2.30.3 on.
 * Adds getChunkSize.
 */
#ifndef TRIBUTARY_NCCL_TUNER_V6_H
#define TRIBUTARY_NCCL_TUNER_V6_H

#include "nccl/tuner_structs.h"

/* Looked up as ncclTunerPlugin_v6. A callback that returns an error makes the user's collective fail. */
struct nccl_tuner_v6 {
	const char *name;
	enum nccl_result (*init)(void **ret_context, uint64_t comm_id, size_t nranks, size_t nnodes,
				 nccl_debug_logger *logger, struct nccl_tuner_nvl_domain_v5 *nvl_domain,
				 struct nccl_tuner_constants_v5 *constants);
	enum nccl_result (*getCollInfo)(void *context, enum nccl_func func, size_t bytes, int num_pipe_ops,
					float **cost_table, int num_algo, int num_proto, int reg_buff,
					int *ret_nchannels);
	enum nccl_result (*finalize)(void *context);
	enum nccl_result (*getChunkSize)(void *context, enum nccl_func func, size_t bytes, int algorithm, int protocol,
					 int nchannels, size_t *ret_chunk_bytes);
};
NCCL_ABI_SIZE(struct nccl_tuner_v6, 40);
NCCL_ABI_AT(struct nccl_tuner_v6, name, 0);
NCCL_ABI_AT(struct nccl_tuner_v6, init, 8);
NCCL_ABI_AT(struct nccl_tuner_v6, getCollInfo, 16);
NCCL_ABI_AT(struct nccl_tuner_v6, finalize, 24);
NCCL_ABI_AT(struct nccl_tuner_v6, getChunkSize, 32);

#endif
