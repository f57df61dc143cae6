/* SPDX-License-Identifier: Apache-2.0 */
/* Version 6 of NCCL's tuner interface: the size of chunks. */

#include "nccl/tuner_v6.h"

#include "plugin/tuner.h"
#include "plugin/versions/slots.h"
#include "plugin/versions/tuner_slots.h"

static enum nccl_result init_v6(void **ret_context, uint64_t comm_id, size_t nranks, size_t nnodes,
				nccl_debug_logger *logger, struct nccl_tuner_nvl_domain_v5 *nvl_domain,
				struct nccl_tuner_constants_v5 *constants)
{
	enum nccl_result r = plugin_tuner_slot_init_5_6(ret_context, comm_id, nranks, nnodes, logger, nvl_domain,
							constants);

	plugin_tuner_sizes_chunks(*ret_context);
	return r;
}

/* Comes with NCCL's own choice. */
static enum nccl_result chunk_size_v6(void *context, enum nccl_func func, size_t bytes, int algorithm, int protocol,
				      int nchannels, size_t *ret_chunk_bytes)
{
	(void)nchannels;
	*ret_chunk_bytes = plugin_tuner_chunk(context, (int)func, bytes, algorithm, protocol, *ret_chunk_bytes);
	return NCCL_SUCCESS;
}

extern PLUGIN_EXPORT const struct nccl_tuner_v6 ncclTunerPlugin_v6;
const struct nccl_tuner_v6 ncclTunerPlugin_v6 = {
	.name = PLUGIN_TUNER_NAME,
	.init = init_v6,
	.getCollInfo = plugin_tuner_slot_costs_4_6,
	.finalize = plugin_tuner_slot_finalize,
	.getChunkSize = chunk_size_v6,
};
