/* SPDX-License-Identifier: Apache-2.0 */
/* Version 2 of NCCL's profiler interface: names. */

#include "plugin/versions/profiler_slots.h"
#include "plugin/versions/slots.h"

static enum nccl_result start_v2(void *context, void **ret_handle, struct nccl_profiler_event_v2 *event)
{
	struct plugin_profiler_named named;

	*ret_handle = NULL;
	if (event->type == NCCL_PROFILER_COLL)
		named = (struct plugin_profiler_named){ .func = event->coll.func,
							.datatype = event->coll.datatype,
							.algo = event->coll.algo,
							.proto = event->coll.proto,
							.count = event->coll.count,
							.channels = event->coll.nMaxChannels };
	else if (event->type == NCCL_PROFILER_P2P)
		named = (struct plugin_profiler_named){ .func = event->p2p.func,
							.datatype = event->p2p.datatype,
							.count = event->p2p.count };
	else
		return NCCL_SUCCESS;
	plugin_profiler_slot_named(context, &named, ret_handle);
	return NCCL_SUCCESS;
}

extern PLUGIN_EXPORT const struct nccl_profiler_v2 ncclProfiler_v2;
const struct nccl_profiler_v2 ncclProfiler_v2 = {
	.name = PLUGIN_PROFILER_NAME,
	.init = plugin_profiler_slot_init_1_3,
	.startEvent = start_v2,
	.stopEvent = plugin_profiler_slot_stop_1_4,
	.recordEventState = plugin_profiler_slot_record_1_4,
	.finalize = plugin_profiler_slot_finalize,
};
