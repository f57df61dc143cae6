/* SPDX-License-Identifier: Apache-2.0 */
/* Version 4 of NCCL's profiler interface: what the communicator is, and times, which are left alone (profiler.h). */

#include "plugin/versions/profiler_slots.h"
#include "plugin/versions/slots.h"

static enum nccl_result init_v4(void **ret_context, int *ret_mask, const char *comm_name, uint64_t comm_id, int nnodes,
				int nranks, int rank, nccl_debug_logger *logger)
{
	const struct plugin_profiler_said said = { .comm_id = comm_id,
						   .node_count = nnodes,
						   .rank_count = nranks,
						   .rank = rank,
						   .count_events = NCCL_PROFILER_COLL | NCCL_PROFILER_P2P };

	(void)comm_name;
	(void)logger;
	return plugin_profiler_slot_open(&said, ret_mask, ret_context);
}

static enum nccl_result start_v4(void *context, void **ret_handle, struct nccl_profiler_event_v4 *event)
{
	const struct plugin_profiler_named named = event->type == NCCL_PROFILER_P2P
							   ? PLUGIN_PROFILER_P2P(event->p2p, event->p2p.nChannels)
							   : PLUGIN_PROFILER_COLL(event->coll, event->coll.nChannels);

	return plugin_profiler_slot_start_2_4(context, ret_handle, event->type, &named);
}

extern PLUGIN_EXPORT const struct nccl_profiler_v4 ncclProfiler_v4;
const struct nccl_profiler_v4 ncclProfiler_v4 = {
	.name = PLUGIN_PROFILER_NAME,
	.init = init_v4,
	.startEvent = start_v4,
	.stopEvent = plugin_profiler_slot_stop_1_4,
	.recordEventState = plugin_profiler_slot_record_1_4,
	.finalize = plugin_profiler_slot_finalize,
};
