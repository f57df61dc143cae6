/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots of NCCL's profiler whose C type is the same in several versions of the interface, and what their events have in
 * common, as slots.h has it for the net. Nothing here ever fails.
 */
#ifndef TRIBUTARY_PLUGIN_VERSIONS_PROFILER_SLOTS_H
#define TRIBUTARY_PLUGIN_VERSIONS_PROFILER_SLOTS_H

#include "nccl/profiler.h"

/* NCCL's name for the profiler, in its log. */
#define PLUGIN_PROFILER_NAME "Tributary"

enum nccl_result plugin_profiler_slot_init_1_3(void **ret_context, int *ret_mask);
enum nccl_result plugin_profiler_slot_stop_1_4(void *handle);
enum nccl_result plugin_profiler_slot_record_1_4(void *handle, enum nccl_profiler_state state, void *args);
enum nccl_result plugin_profiler_slot_start_5_6(void *context, void **ret_handle, struct nccl_profiler_event_v5 *event);
enum nccl_result plugin_profiler_slot_stop_5_6(void *handle);
enum nccl_result plugin_profiler_slot_record_5_6(void *handle, enum nccl_profiler_state state,
						 union nccl_profiler_args_v5 *args);
enum nccl_result plugin_profiler_slot_finalize(void *context);

/* From version 4 on. */
struct plugin_profiler_said {
	uint64_t comm_id;
	int node_count, rank_count, rank, count_events, time_events, call_events;
};
enum nccl_result plugin_profiler_slot_open(const struct plugin_profiler_said *said, int *mask, void **ret_context);

/* An operation by NCCL's names; algo and proto NULL: it has none. */
struct plugin_profiler_named {
	const char *func, *datatype, *algo, *proto;
	size_t count;
	unsigned channels;
	const void *parent; /* its call's handle, from version 5 on */
};
/* What an event's coll, or p2p and ceColl, say of it, from version 2 on. */
#define PLUGIN_PROFILER_COLL(coll, channel_count)                                                               \
	((struct plugin_profiler_named){ (coll).func, (coll).datatype, (coll).algo, (coll).proto, (coll).count, \
					 channel_count, NULL })
#define PLUGIN_PROFILER_P2P(p2p, channel_count) \
	((struct plugin_profiler_named){ (p2p).func, (p2p).datatype, NULL, NULL, (p2p).count, channel_count, NULL })
/* type: the event's; of any other than coll and p2p, named is not looked at. */
enum nccl_result plugin_profiler_slot_start_2_4(void *context, void **ret_handle, unsigned type,
						const struct plugin_profiler_named *named);

#endif
