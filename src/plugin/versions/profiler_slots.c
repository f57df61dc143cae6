/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/versions/profiler_slots.h"

#include "plugin/profiler.h"
#include "profile/operations.h"
#include "tributary/predict.h"

#include <string.h>

struct word {
	const char *name;
	int value;
};

static const struct word functions[] = {
	{ "AllReduce", PREDICT_ALLREDUCE },
	{ "AllGather", PREDICT_ALLGATHER },
	{ "ReduceScatter", PREDICT_REDUCESCATTER },
	{ "Send", OPERATIONS_SEND },
	{ "Recv", OPERATIONS_RECV },
	{ "Broadcast", PREDICT_BROADCAST },
	{ "Reduce", PREDICT_REDUCE },
	{ NULL, OPERATIONS_OTHER },
};
static const struct word algorithms[] = {
	{ "RING", PREDICT_RING },
	{ "TREE", PREDICT_TREE },
	{ "COLLNET_CHAIN", PREDICT_COLLNET_CHAIN },
	{ "COLLNET_DIRECT", PREDICT_COLLNET_DIRECT },
	{ "NVLS", PREDICT_NVLS },
	{ "NVLS_TREE", PREDICT_NVLS_TREE },
	{ "PAT", PREDICT_PAT },
	{ NULL, -1 },
};
static const struct word protocols[] = {
	{ "SIMPLE", PREDICT_SIMPLE }, { "LL", PREDICT_LL }, { "LL128", PREDICT_LL128 }, { NULL, -1 }
};
/* NCCL has no name for unsigned bytes. */
static const struct word sizes[] = {
	{ "ncclFloat32", 4 }, { "ncclBfloat16", 2 }, { "ncclFloat16", 2 }, { "ncclInt8", 1 },   { "ncclInt32", 4 },
	{ "ncclInt64", 8 },   { "ncclFloat64", 8 },  { "ncclUint32", 4 },  { "ncclUint64", 8 }, { NULL, 1 },
};

/* What the last word, which has no name, stands for: a name that is none of them. */
static int look_up(const struct word *words, const char *name)
{
	while (words->name && name && strcmp(words->name, name) != 0)
		words++;
	while (words->name && !name)
		words++;
	return words->value;
}

static uint64_t bytes_of(size_t count, const char *datatype)
{
	return (uint64_t)count * (uint64_t)look_up(sizes, datatype);
}

static void start_named(void *context, const struct plugin_profiler_named *named, void **ret_handle)
{
	const struct plugin_profiler_operation operation = {
		.collective = look_up(functions, named->func),
		.algorithm = look_up(algorithms, named->algo),
		.protocol = look_up(protocols, named->proto),
		.channels = named->channels,
		.bytes = bytes_of(named->count, named->datatype),
	};

	plugin_profiler_operation(context, &operation, named->parent, ret_handle);
}

enum nccl_result plugin_profiler_slot_open(const struct plugin_profiler_said *said, int *mask, void **ret_context)
{
	const struct plugin_profiler_comm comm = {
		.id = said->comm_id,
		.rank_count = said->rank_count > 0 ? (unsigned)said->rank_count : 0,
		.node_count = said->node_count > 0 ? (unsigned)said->node_count : 0,
		.rank = said->rank,
		.count_events = said->count_events,
		.time_events = said->time_events,
		.call_events = said->call_events,
	};
	struct plugin_profiler *profiler;

	plugin_profiler_init(&comm, mask, &profiler);
	*ret_context = profiler;
	return NCCL_SUCCESS;
}

enum nccl_result plugin_profiler_slot_init_1_3(void **ret_context, int *ret_mask)
{
	const struct plugin_profiler_said said = { .rank = -1, .count_events = NCCL_PROFILER_COLL | NCCL_PROFILER_P2P };

	return plugin_profiler_slot_open(&said, ret_mask, ret_context);
}

enum nccl_result plugin_profiler_slot_finalize(void *context)
{
	plugin_profiler_fini(context);
	return NCCL_SUCCESS;
}

enum nccl_result plugin_profiler_slot_start_2_4(void *context, void **ret_handle, unsigned type,
						const struct plugin_profiler_named *named)
{
	*ret_handle = NULL;
	if (type == NCCL_PROFILER_COLL || type == NCCL_PROFILER_P2P)
		start_named(context, named, ret_handle);
	return NCCL_SUCCESS;
}

enum nccl_result plugin_profiler_slot_stop_1_4(void *handle)
{
	(void)handle;
	return NCCL_SUCCESS;
}

enum nccl_result plugin_profiler_slot_record_1_4(void *handle, enum nccl_profiler_state state, void *args)
{
	(void)handle;
	(void)state;
	(void)args;
	return NCCL_SUCCESS;
}

static void start_coll_call(void *context, void **ret_handle, const struct nccl_profiler_event_v5 *event)
{
	const uint64_t bytes = bytes_of(event->collApi.count, event->collApi.datatype);
	const bool broadcasts = look_up(functions, event->collApi.func) == PREDICT_BROADCAST;

	plugin_profiler_call(context, broadcasts ? &bytes : NULL, event->collApi.graphCaptured, ret_handle);
}

enum nccl_result plugin_profiler_slot_start_5_6(void *context, void **ret_handle, struct nccl_profiler_event_v5 *event)
{
	struct plugin_profiler_named named;

	switch (event->type) {
	case NCCL_PROFILER_COLL:
		named = PLUGIN_PROFILER_COLL(event->coll, event->coll.nChannels);
		named.parent = event->parentObj;
		start_named(context, &named, ret_handle);
		break;
	case NCCL_PROFILER_P2P:
		named = PLUGIN_PROFILER_P2P(event->p2p, event->p2p.nChannels);
		named.parent = event->parentObj;
		start_named(context, &named, ret_handle);
		break;
	case NCCL_PROFILER_CE_COLL: /* by copy engines: no algorithm, no channels, no times */
		named = PLUGIN_PROFILER_P2P(event->ceColl, 0);
		named.parent = event->parentObj;
		start_named(context, &named, ret_handle);
		break;
	case NCCL_PROFILER_COLL_API:
		start_coll_call(context, ret_handle, event);
		break;
	case NCCL_PROFILER_P2P_API:
		plugin_profiler_call(context, NULL, event->p2pApi.graphCaptured, ret_handle);
		break;
	case NCCL_PROFILER_KERNEL_CH:
		plugin_profiler_channel(event->parentObj, event->kernelCh.pTimer, ret_handle);
		break;
	default:
		*ret_handle = NULL;
		break;
	}
	return NCCL_SUCCESS;
}

enum nccl_result plugin_profiler_slot_stop_5_6(void *handle)
{
	plugin_profiler_stop(handle);
	return NCCL_SUCCESS;
}

enum nccl_result plugin_profiler_slot_record_5_6(void *handle, enum nccl_profiler_state state,
						 union nccl_profiler_args_v5 *args)
{
	if (state == NCCL_PROFILER_KERNEL_CH_STOP && args)
		plugin_profiler_channel_ended(handle, args->kernelCh.pTimer);
	return NCCL_SUCCESS;
}
