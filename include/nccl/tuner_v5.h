/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's tuner interface, version 5: known to NCCL from 2.28.3 on.
 * init gets the communicator's id, its NVLink domains and the model's constants, which it may change.
 */
#ifndef TRIBUTARY_NCCL_TUNER_V5_H
#define TRIBUTARY_NCCL_TUNER_V5_H

#include "nccl/tuner_structs.h"

/* Looked up as ncclTunerPlugin_v5. A callback that returns an error makes the user's collective fail. */
struct nccl_tuner_v5 {
	const char *name;
	enum nccl_result (*init)(void **ret_context, uint64_t comm_id, size_t nranks, size_t nnodes,
				 nccl_debug_logger *logger, struct nccl_tuner_nvl_domain_v5 *nvl_domain,
				 struct nccl_tuner_constants_v5 *constants);
	enum nccl_result (*getCollInfo)(void *context, enum nccl_func func, size_t bytes, int num_pipe_ops,
					float **cost_table, int num_algo, int num_proto, int reg_buff,
					int *ret_nchannels);
	enum nccl_result (*finalize)(void *context);
};
NCCL_ABI_SIZE(struct nccl_tuner_v5, 32);
NCCL_ABI_AT(struct nccl_tuner_v5, name, 0);
NCCL_ABI_AT(struct nccl_tuner_v5, init, 8);
NCCL_ABI_AT(struct nccl_tuner_v5, getCollInfo, 16);
NCCL_ABI_AT(struct nccl_tuner_v5, finalize, 24);

#endif
