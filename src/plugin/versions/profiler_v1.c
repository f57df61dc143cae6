/* SPDX-License-Identifier: Apache-2.0 */
/* Version 1 of NCCL's profiler interface: numbers in place of names, and nothing of the communicator. */

#include "plugin/profiler.h"
#include "plugin/versions/profiler_slots.h"
#include "plugin/versions/slots.h"
#include "profile/operations.h"
#include "tributary/predict.h"

static uint64_t bytes_of(size_t count, uint8_t datatype)
{
	static const uint8_t bytes[NCCL_DATATYPE_COUNT] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

	return (uint64_t)count * (datatype < NCCL_DATATYPE_COUNT ? bytes[datatype] : 1);
}

static enum nccl_result start_v1(void *context, void **ret_handle, struct nccl_profiler_event_v1 *event)
{
	struct plugin_profiler_operation operation = { .collective = OPERATIONS_OTHER,
						       .algorithm = -1,
						       .protocol = -1 };

	*ret_handle = NULL;
	if (event->type == NCCL_PROFILER_COLL) {
		operation.collective = event->coll.func < PREDICT_COLLECTIVE_COUNT ? event->coll.func
										   : OPERATIONS_OTHER;
		operation.algorithm = event->coll.algo < PREDICT_ALGORITHM_COUNT ? event->coll.algo : -1;
		operation.protocol = event->coll.proto < PREDICT_PROTOCOL_COUNT ? event->coll.proto : -1;
		operation.channels = event->coll.nMaxChannels;
		operation.bytes = bytes_of(event->coll.count, event->coll.datatype);
	} else if (event->type == NCCL_PROFILER_P2P) {
		operation.collective = event->p2p.func == NCCL_FUNC_RECV ? OPERATIONS_RECV : OPERATIONS_SEND;
		operation.bytes = bytes_of(event->p2p.count, event->p2p.datatype);
	} else {
		return NCCL_SUCCESS;
	}
	plugin_profiler_operation(context, &operation, NULL, ret_handle);
	return NCCL_SUCCESS;
}

extern PLUGIN_EXPORT const struct nccl_profiler_v1 ncclProfiler_v1;
const struct nccl_profiler_v1 ncclProfiler_v1 = {
	.name = PLUGIN_PROFILER_NAME,
	.init = plugin_profiler_slot_init_1_3,
	.startEvent = start_v1,
	.stopEvent = plugin_profiler_slot_stop_1_4,
	.recordEventState = plugin_profiler_slot_record_1_4,
	.finalize = plugin_profiler_slot_finalize,
};
