/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler_ops.h"

#include "nccl/env.h"
#include "nccl/v10.h"
#include "support/log_lines.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

enum { ERRNO = 77 };
#define POISON ((void *)(uintptr_t)0x5eed0)

int profiler_ops_version;

static struct {
	const struct nccl_profiler_v1 *v1;
	const struct nccl_profiler_v2 *v2;
	const struct nccl_profiler_v3 *v3;
	const struct nccl_profiler_v4 *v4;
	const struct nccl_profiler_v5 *v5; /* or v6 */
} tables;

void profiler_ops_load(void *library, int version)
{
	const struct nccl_env_v1 *env = dlsym(library, "ncclEnvPlugin_v1");
	const struct nccl_net_v10 *net = dlsym(library, "ncclNetPlugin_v10");

	profiler_ops_version = version;
	PROFILER_OPS_MUST(env && env->init(2, 28, 9, "") == NCCL_SUCCESS);
	PROFILER_OPS_MUST(net && net->init(log_lines_ignore, NULL) == NCCL_SUCCESS);
	tables.v1 = dlsym(library, version == 2   ? "ncclProfiler_v2"
				   : version == 3 ? "ncclProfiler_v3"
				   : version == 4 ? "ncclProfiler_v4"
						  : "ncclProfiler_v1");
	tables.v2 = dlsym(library, "ncclProfiler_v2");
	tables.v3 = dlsym(library, "ncclProfiler_v3");
	tables.v4 = dlsym(library, "ncclProfiler_v4");
	tables.v5 = dlsym(library, version == 6 ? "ncclProfiler_v6" : "ncclProfiler_v5");
	PROFILER_OPS_MUST(tables.v1 && tables.v2 && tables.v3 && tables.v4 && tables.v5);
}

void *profiler_ops_init(uint64_t id, int ranks, int nodes, int rank, int *mask)
{
	void *context = POISON;
	enum nccl_result result;

	errno = ERRNO;
	if (profiler_ops_version < 4)
		result = tables.v1->init(&context, mask);
	else if (profiler_ops_version == 4)
		result = tables.v4->init(&context, mask, "a name", id, nodes, ranks, rank, log_lines_ignore);
	else
		result = tables.v5->init(&context, id, mask, NULL, nodes, ranks, rank, log_lines_ignore);
	PROFILER_OPS_MUST(result == NCCL_SUCCESS && context != POISON && errno == ERRNO);
	return context;
}

void profiler_ops_finalize(void *context)
{
	errno = ERRNO;
	PROFILER_OPS_MUST((profiler_ops_version < PROFILER_OPS_WITH_CALLS ? tables.v1->finalize : tables.v5->finalize)(
				  context) == NCCL_SUCCESS);
	PROFILER_OPS_MUST(errno == ERRNO);
}

#define FILL(event, operation, number_of_channels)                                              \
	do {                                                                                    \
		memset(&(event), 0xa5, sizeof(event)); /* of what it does not need: anything */ \
		if ((operation) && (operation)->kind->is_p2p) {                                 \
			(event).p2p.func = (operation)->kind->name;                             \
			(event).p2p.datatype = (operation)->type->name;                         \
			(event).p2p.count = (operation)->count;                                 \
		} else if (operation) {                                                         \
			(event).coll.func = (operation)->kind->name;                            \
			(event).coll.datatype = (operation)->type->name;                        \
			(event).coll.algo = (operation)->algorithm->name;                       \
			(event).coll.proto = (operation)->protocol->name;                       \
			(event).coll.count = (operation)->count;                                \
			(event).coll.number_of_channels = (uint8_t)(operation)->channels;       \
		}                                                                               \
	} while (0)

static enum nccl_result start_v1(void *context, uint64_t type, void *parent,
				 const struct profiler_ops_operation *operation, void **handle)
{
	struct nccl_profiler_event_v1 event;

	memset(&event, 0xa5, sizeof(event));
	event.type = (uint8_t)type;
	event.parentObj = parent;
	if (operation && operation->kind->is_p2p) {
		event.p2p.func = operation->kind->number;
		event.p2p.datatype = operation->type->number;
		event.p2p.count = operation->count;
	} else if (operation) {
		event.coll.func = operation->kind->number;
		event.coll.datatype = operation->type->number;
		event.coll.algo = operation->algorithm->number;
		event.coll.proto = operation->protocol->number;
		event.coll.count = operation->count;
		event.coll.nMaxChannels = (uint8_t)operation->channels;
	}
	return tables.v1->startEvent(context, handle, &event);
}

static enum nccl_result start_v2_4(void *context, uint64_t type, void *parent,
				   const struct profiler_ops_operation *operation, void **handle)
{
	struct nccl_profiler_event_v2 v2;
	struct nccl_profiler_event_v3 v3;
	struct nccl_profiler_event_v4 v4;

	FILL(v2, operation, nMaxChannels);
	FILL(v3, operation, nMaxChannels);
	FILL(v4, operation, nChannels);
	v2.type = v3.type = v4.type = (uint8_t)type;
	v2.parentObj = v3.parentObj = v4.parentObj = parent;
	if (operation && operation->kind->is_p2p)
		v4.p2p.nChannels = (uint8_t)operation->channels;
	return profiler_ops_version == 2   ? tables.v2->startEvent(context, handle, &v2)
	       : profiler_ops_version == 3 ? tables.v3->startEvent(context, handle, &v3)
					   : tables.v4->startEvent(context, handle, &v4);
}

static enum nccl_result start_v5(void *context, struct nccl_profiler_event_v5 *event, uint64_t type, void *parent,
				 void **handle)
{
	event->type = type;
	event->parentObj = parent;
	return tables.v5->startEvent(context, handle, event);
}

/* An event of an operation, or (NULL) of a type that says nothing of one. */
void *profiler_ops_start(void *context, uint64_t type, void *parent, const struct profiler_ops_operation *operation)
{
	void *handle = POISON;
	struct nccl_profiler_event_v5 event;
	enum nccl_result result;

	errno = ERRNO;
	if (profiler_ops_version == 1) {
		result = start_v1(context, type, parent, operation, &handle);
	} else if (profiler_ops_version < PROFILER_OPS_WITH_CALLS) {
		result = start_v2_4(context, type, parent, operation, &handle);
	} else {
		FILL(event, operation, nChannels);
		if (operation && operation->kind->is_p2p)
			event.p2p.nChannels = (uint8_t)operation->channels;
		if (type == NCCL_PROFILER_CE_COLL) {
			event.ceColl.func = operation->kind->name;
			event.ceColl.datatype = operation->type->name;
			event.ceColl.count = operation->count;
		}
		result = start_v5(context, &event, type, parent, &handle);
	}
	PROFILER_OPS_MUST(result == NCCL_SUCCESS && handle != POISON && errno == ERRNO);
	return handle;
}

void profiler_ops_stop(void *handle)
{
	errno = ERRNO;
	PROFILER_OPS_MUST((profiler_ops_version < PROFILER_OPS_WITH_CALLS
				   ? tables.v1->stopEvent
				   : tables.v5->stopEvent)(handle) == NCCL_SUCCESS);
	PROFILER_OPS_MUST(errno == ERRNO);
}

/* What the states of an event carry differs; args may be NULL. */
void profiler_ops_record(void *handle, unsigned state, union nccl_profiler_args_v5 *args)
{
	errno = ERRNO;
	if (profiler_ops_version < PROFILER_OPS_WITH_CALLS)
		PROFILER_OPS_MUST(tables.v1->recordEventState(handle, (enum nccl_profiler_state)state, args) ==
				  NCCL_SUCCESS);
	else
		PROFILER_OPS_MUST(tables.v5->recordEventState(handle, (enum nccl_profiler_state)state, args) ==
				  NCCL_SUCCESS);
	PROFILER_OPS_MUST(errno == ERRNO);
}

/* An application's call; its handle. */
void *profiler_ops_call(void *context, const struct profiler_ops_operation *operation, bool captured)
{
	void *handle = POISON;
	struct nccl_profiler_event_v5 event;

	memset(&event, 0xa5, sizeof(event));
	if (operation->kind->is_p2p) {
		event.p2pApi.func = operation->kind->name;
		event.p2pApi.datatype = operation->type->name;
		event.p2pApi.count = operation->count;
		event.p2pApi.graphCaptured = captured;
	} else {
		event.collApi.func = operation->kind->name;
		event.collApi.datatype = operation->type->name;
		event.collApi.count = operation->count;
		event.collApi.graphCaptured = captured;
	}
	errno = ERRNO;
	PROFILER_OPS_MUST(start_v5(context, &event,
				   operation->kind->is_p2p ? NCCL_PROFILER_P2P_API : NCCL_PROFILER_COLL_API, NULL,
				   &handle) == NCCL_SUCCESS);
	PROFILER_OPS_MUST(handle != POISON && errno == ERRNO);
	return handle;
}

void *profiler_ops_channel(void *context, void *parent, uint64_t gpu_ns)
{
	void *handle = POISON;
	struct nccl_profiler_event_v5 event;

	if (profiler_ops_version < PROFILER_OPS_WITH_CALLS)
		return profiler_ops_start(context, NCCL_PROFILER_KERNEL_CH, parent, NULL);
	memset(&event, 0xa5, sizeof(event));
	event.kernelCh.channelId = 0;
	event.kernelCh.pTimer = gpu_ns;
	errno = ERRNO;
	PROFILER_OPS_MUST(start_v5(context, &event, NCCL_PROFILER_KERNEL_CH, parent, &handle) == NCCL_SUCCESS);
	PROFILER_OPS_MUST(handle != POISON && errno == ERRNO && (parent || !handle));
	return handle;
}
