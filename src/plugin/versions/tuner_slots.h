/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots of NCCL's tuner whose C type is the same in several versions of the interface, as slots.h has them for the
 * net. Names say from which version to which a slot's type holds.
 *
 * A callback that returns an error makes the user's collective fail: only init ever does (tuner.h says when).
 */
#ifndef TRIBUTARY_PLUGIN_VERSIONS_TUNER_SLOTS_H
#define TRIBUTARY_PLUGIN_VERSIONS_TUNER_SLOTS_H

#include "nccl/tuner_structs.h"
#include "nccl/types.h"

/* NCCL's name for the tuner, in its log. */
#define PLUGIN_TUNER_NAME "Tributary"

enum nccl_result plugin_tuner_slot_init_2_4(size_t nranks, size_t nnodes, nccl_debug_logger *logger,
					    void **ret_context);
enum nccl_result plugin_tuner_slot_init_5_6(void **ret_context, uint64_t comm_id, size_t nranks, size_t nnodes,
					    nccl_debug_logger *logger, struct nccl_tuner_nvl_domain_v5 *nvl_domain,
					    struct nccl_tuner_constants_v5 *constants);
enum nccl_result plugin_tuner_slot_costs_4_6(void *context, enum nccl_func func, size_t bytes, int num_pipe_ops,
					     float **cost_table, int num_algo, int num_proto, int reg_buff,
					     int *ret_nchannels);
/* destroy up to version 4, finalize from version 5 on. */
enum nccl_result plugin_tuner_slot_finalize(void *context);

#endif
