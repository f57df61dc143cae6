/* SPDX-License-Identifier: Apache-2.0 */
/* Version 3 of NCCL's profiler interface: one member of events less. */

#include "plugin/versions/profiler_slots.h"
#include "plugin/versions/slots.h"

static enum nccl_result start_v3(void *context, void **ret_handle, struct nccl_profiler_event_v3 *event)
{
	const struct plugin_profiler_named named =
		event->type == NCCL_PROFILER_P2P ? PLUGIN_PROFILER_P2P(event->p2p, 0)
						 : PLUGIN_PROFILER_COLL(event->coll, event->coll.nMaxChannels);

	return plugin_profiler_slot_start_2_4(context, ret_handle, event->type, &named);
}

extern PLUGIN_EXPORT const struct nccl_profiler_v3 ncclProfiler_v3;
const struct nccl_profiler_v3 ncclProfiler_v3 = {
	.name = PLUGIN_PROFILER_NAME,
	.init = plugin_profiler_slot_init_1_3,
	.startEvent = start_v3,
	.stopEvent = plugin_profiler_slot_stop_1_4,
	.recordEventState = plugin_profiler_slot_record_1_4,
	.finalize = plugin_profiler_slot_finalize,
};
