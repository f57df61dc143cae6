/* SPDX-License-Identifier: Apache-2.0 */
/* Version 6 of NCCL's profiler interface: collectives by copy engines. */

#include "plugin/versions/profiler_slots.h"
#include "plugin/versions/slots.h"

static enum nccl_result init_v6(void **ret_context, uint64_t comm_id, int *ret_mask, const char *comm_name, int nnodes,
				int nranks, int rank, nccl_debug_logger *logger)
{
	const struct plugin_profiler_said said = { .comm_id = comm_id,
						   .node_count = nnodes,
						   .rank_count = nranks,
						   .rank = rank,
						   .count_events = NCCL_PROFILER_COLL | NCCL_PROFILER_P2P |
								   NCCL_PROFILER_CE_COLL,
						   .time_events = NCCL_PROFILER_KERNEL_CH,
						   .call_events = NCCL_PROFILER_COLL_API };

	(void)comm_name;
	(void)logger;
	return plugin_profiler_slot_open(&said, ret_mask, ret_context);
}

extern PLUGIN_EXPORT const struct nccl_profiler_v5 ncclProfiler_v6;
const struct nccl_profiler_v5 ncclProfiler_v6 = {
	.name = PLUGIN_PROFILER_NAME,
	.init = init_v6,
	.startEvent = plugin_profiler_slot_start_5_6,
	.stopEvent = plugin_profiler_slot_stop_5_6,
	.recordEventState = plugin_profiler_slot_record_5_6,
	.finalize = plugin_profiler_slot_finalize,
};
