/* SPDX-License-Identifier: Apache-2.0 */
/*
 * include/nccl/profiler.h beside what NCCL itself is compiled with: sizes, places, numbers and the order of arguments are the
 * same. (Those that NCCL ships for plugins differ: in 2.28.9 a member is an int that is a bool.) Only compiled, by tests/abi/check.
 */
#include "nccl/profiler.h"

#include <stddef.h>
#include <sys/types.h>

typedef enum nccl_result ncclResult_t;
typedef nccl_debug_logger *ncclDebugLogger_t;
typedef pid_t ncclPid_t;
#include <nccl_profiler.h>

#define SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), "size of " #ours)
#define AT(ours, theirs, member)                                                             \
	_Static_assert(offsetof(ours, member) == offsetof(theirs, member) &&                 \
			       sizeof(((ours *)0)->member) == sizeof(((theirs *)0)->member), \
		       #member " of " #ours)
#define NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)

NUMBER(NCCL_PROFILER_COLL, ncclProfileColl);
NUMBER(NCCL_PROFILER_P2P, ncclProfileP2p);
NUMBER(NCCL_PROFILER_KERNEL_CH, ncclProfileKernelCh);
NUMBER(NCCL_PROFILER_GROUP_API, ncclProfileGroupApi);
NUMBER(NCCL_PROFILER_COLL_API, ncclProfileCollApi);
NUMBER(NCCL_PROFILER_P2P_API, ncclProfileP2pApi);
NUMBER(NCCL_PROFILER_KERNEL_CH_STOP, ncclProfilerKernelChStop);
SIZE(enum nccl_profiler_state, ncclProfilerEventState_t);

#define TABLE(ours, theirs)                 \
	SIZE(ours, theirs);                 \
	AT(ours, theirs, name);             \
	AT(ours, theirs, init);             \
	AT(ours, theirs, startEvent);       \
	AT(ours, theirs, stopEvent);        \
	AT(ours, theirs, recordEventState); \
	AT(ours, theirs, finalize)
#define EVENT(ours, theirs, channels)     \
	SIZE(ours, theirs);               \
	AT(ours, theirs, type);           \
	AT(ours, theirs, parentObj);      \
	AT(ours, theirs, rank);           \
	AT(ours, theirs, coll.seqNumber); \
	AT(ours, theirs, coll.func);      \
	AT(ours, theirs, coll.sendBuff);  \
	AT(ours, theirs, coll.recvBuff);  \
	AT(ours, theirs, coll.count);     \
	AT(ours, theirs, coll.root);      \
	AT(ours, theirs, coll.datatype);  \
	AT(ours, theirs, coll.channels);  \
	AT(ours, theirs, coll.nWarps);    \
	AT(ours, theirs, coll.algo);      \
	AT(ours, theirs, coll.proto);     \
	AT(ours, theirs, p2p.func);       \
	AT(ours, theirs, p2p.buff);       \
	AT(ours, theirs, p2p.datatype);   \
	AT(ours, theirs, p2p.count);      \
	AT(ours, theirs, p2p.peer)
#define NAMED(ours, theirs)              \
	AT(ours, theirs, coll.name);     \
	AT(ours, theirs, coll.commHash); \
	AT(ours, theirs, p2p.name);      \
	AT(ours, theirs, p2p.commHash)

TABLE(struct nccl_profiler_v1, ncclProfiler_v1_t);
EVENT(struct nccl_profiler_event_v1, ncclProfilerEventDescr_v1_t, nMaxChannels);
NAMED(struct nccl_profiler_event_v1, ncclProfilerEventDescr_v1_t);
AT(struct nccl_profiler_event_v1, ncclProfilerEventDescr_v1_t, coll.op);
AT(struct nccl_profiler_event_v1, ncclProfilerEventDescr_v1_t, coll.trafficBytes);
AT(struct nccl_profiler_event_v1, ncclProfilerEventDescr_v1_t, coll.isCollnet);
AT(struct nccl_profiler_event_v1, ncclProfilerEventDescr_v1_t, coll.isNvls);
TABLE(struct nccl_profiler_v2, ncclProfiler_v2_t);
EVENT(struct nccl_profiler_event_v2, ncclProfilerEventDescr_v2_t, nMaxChannels);
NAMED(struct nccl_profiler_event_v2, ncclProfilerEventDescr_v2_t);
AT(struct nccl_profiler_event_v2, ncclProfilerEventDescr_v2_t, coll.trafficBytes);
TABLE(struct nccl_profiler_v3, ncclProfiler_v3_t);
EVENT(struct nccl_profiler_event_v3, ncclProfilerEventDescr_v3_t, nMaxChannels);
NAMED(struct nccl_profiler_event_v3, ncclProfilerEventDescr_v3_t);
TABLE(struct nccl_profiler_v4, ncclProfiler_v4_t);
EVENT(struct nccl_profiler_event_v4, ncclProfilerEventDescr_v4_t, nChannels);
AT(struct nccl_profiler_event_v4, ncclProfilerEventDescr_v4_t, p2p.nChannels);

#define CALLS(ours, theirs)                       \
	AT(ours, theirs, p2p.nChannels);          \
	AT(ours, theirs, groupApi.graphCaptured); \
	AT(ours, theirs, groupApi.groupDepth);    \
	AT(ours, theirs, collApi.func);           \
	AT(ours, theirs, collApi.count);          \
	AT(ours, theirs, collApi.datatype);       \
	AT(ours, theirs, collApi.root);           \
	AT(ours, theirs, collApi.stream);         \
	AT(ours, theirs, collApi.graphCaptured);  \
	AT(ours, theirs, p2pApi.func);            \
	AT(ours, theirs, p2pApi.count);           \
	AT(ours, theirs, p2pApi.datatype);        \
	AT(ours, theirs, p2pApi.stream);          \
	AT(ours, theirs, p2pApi.graphCaptured);   \
	AT(ours, theirs, kernelCh.channelId);     \
	AT(ours, theirs, kernelCh.pTimer)

TABLE(struct nccl_profiler_v5, ncclProfiler_v5_t);
EVENT(struct nccl_profiler_event_v5, ncclProfilerEventDescr_v5_t, nChannels);
CALLS(struct nccl_profiler_event_v5, ncclProfilerEventDescr_v5_t);
AT(union nccl_profiler_args_v5, ncclProfilerEventStateArgs_v5_t, kernelCh.pTimer);

/* NCCL's own unions are larger by the kinds of events that are never asked for; ours lies within them. */
#if __has_include(<profiler/profiler_v6.h>)
NUMBER(NCCL_PROFILER_CE_COLL, ncclProfileCeColl);
TABLE(struct nccl_profiler_v5, ncclProfiler_v6_t);
EVENT(struct nccl_profiler_event_v5, ncclProfilerEventDescr_v6_t, nChannels);
CALLS(struct nccl_profiler_event_v5, ncclProfilerEventDescr_v6_t);
AT(struct nccl_profiler_event_v5, ncclProfilerEventDescr_v6_t, ceColl.func);
AT(struct nccl_profiler_event_v5, ncclProfilerEventDescr_v6_t, ceColl.count);
AT(struct nccl_profiler_event_v5, ncclProfilerEventDescr_v6_t, ceColl.datatype);
AT(struct nccl_profiler_event_v5, ncclProfilerEventDescr_v6_t, ceColl.stream);
AT(union nccl_profiler_args_v5, ncclProfilerEventStateArgs_v6_t, kernelCh.pTimer);
#endif

/* Pointers and numbers are in the same order: what fits one fits the other. */
#define INIT_4(table) ((table)->init(NULL, (int[1]){ 0 }, "name", (uint64_t)1, 2, 3, 4, NULL))
#define INIT_5(table) ((table)->init(NULL, (uint64_t)1, (int[1]){ 0 }, "name", 2, 3, 4, NULL))
int inits(const struct nccl_profiler_v1 *v1, const ncclProfiler_v1_t *theirs_1, const struct nccl_profiler_v4 *v4,
	  const ncclProfiler_v4_t *theirs_4, const struct nccl_profiler_v5 *v5, const ncclProfiler_v5_t *theirs_5)
{
	return (int)(v1->init(NULL, NULL) + theirs_1->init(NULL, NULL) + INIT_4(v4) + INIT_4(theirs_4) + INIT_5(v5) +
		     INIT_5(theirs_5));
}
