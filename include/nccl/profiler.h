/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's profiler interface, versions 1 to 6, from its binary layout: NCCL 2.23.4, 2.24.3, 2.25.1, 2.26.2, 2.28.3 and 2.29.2
 * are the first to know each. Of what an event carries only what this project reads is declared.
 *
 * One profiler serves a process: NCCL_PROFILER_PLUGIN's or libnccl-profiler.so, else the network library's. It names the
 * kinds of events that it wants in a mask whose address it gets at each init, the same one each time; NCCL reads that again
 * for each operation. startEvent writes the event's handle; with NULL, nothing more of the event is told. The handle is
 * what other events name as their parent. Results are ignored but for init's, after whose failure nothing is told at all.
 */
#ifndef TRIBUTARY_NCCL_PROFILER_H
#define TRIBUTARY_NCCL_PROFILER_H

#include "nccl/types.h"

#include <stdbool.h>

/* Bits of the mask; one of them is an event's type. */
enum nccl_profiler_event {
	NCCL_PROFILER_COLL = 1 << 1,
	NCCL_PROFILER_P2P = 1 << 2,
	NCCL_PROFILER_KERNEL_CH = 1 << 6, /* from version 3 on; with times from version 4 on */
	NCCL_PROFILER_GROUP_API = 1 << 8, /* the APIs: from version 5 on, and without being asked for */
	NCCL_PROFILER_COLL_API = 1 << 9,
	NCCL_PROFILER_P2P_API = 1 << 10,
	NCCL_PROFILER_CE_COLL = 1 << 12, /* by copy engines: from version 6 on */
};
enum nccl_profiler_state { NCCL_PROFILER_KERNEL_CH_STOP = 22 };

struct nccl_profiler_coll_v1 {
	const char *name;
	uint64_t commHash;
	uint64_t seqNumber;
	uint8_t func; /* enum nccl_func */
	const void *sendBuff;
	void *recvBuff;
	size_t count;
	int root;
	uint8_t datatype; /* enum nccl_datatype */
	uint32_t op;
	size_t trafficBytes;
	uint8_t nMaxChannels;
	uint8_t nWarps;
	uint8_t algo;
	uint8_t proto;
	int isCollnet;
	int isNvls;
};
struct nccl_profiler_p2p_v1 {
	const char *name;
	uint64_t commHash;
	uint8_t func;
	void *buff;
	uint8_t datatype;
	size_t count;
	int peer;
};
struct nccl_profiler_event_v1 {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct nccl_profiler_coll_v1 coll;
		struct nccl_profiler_p2p_v1 p2p;
	};
};
NCCL_ABI_SIZE(struct nccl_profiler_event_v1, 120);
NCCL_ABI_AT(struct nccl_profiler_event_v1, type, 0);
NCCL_ABI_AT(struct nccl_profiler_event_v1, parentObj, 8);
NCCL_ABI_AT(struct nccl_profiler_event_v1, coll.func, 48);
NCCL_ABI_AT(struct nccl_profiler_event_v1, coll.count, 72);
NCCL_ABI_AT(struct nccl_profiler_event_v1, coll.datatype, 84);
NCCL_ABI_AT(struct nccl_profiler_event_v1, coll.nMaxChannels, 104);
NCCL_ABI_AT(struct nccl_profiler_event_v1, coll.algo, 106);
NCCL_ABI_AT(struct nccl_profiler_event_v1, coll.proto, 107);
NCCL_ABI_AT(struct nccl_profiler_event_v1, p2p.func, 40);
NCCL_ABI_AT(struct nccl_profiler_event_v1, p2p.datatype, 56);
NCCL_ABI_AT(struct nccl_profiler_event_v1, p2p.count, 64);

/* From version 2 on, names in place of numbers: "AllReduce", "ncclFloat32", "RING", "LL128". */
struct nccl_profiler_p2p_v2 {
	const char *name;
	uint64_t commHash;
	const char *func;
	void *buff;
	const char *datatype;
	size_t count;
	int peer;
};
struct nccl_profiler_event_v2 {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t commHash;
			uint64_t seqNumber;
			const char *func;
			const void *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			size_t trafficBytes;
			uint8_t nMaxChannels;
			uint8_t nWarps;
			const char *algo;
			const char *proto;
		} coll;
		struct nccl_profiler_p2p_v2 p2p;
	};
};
NCCL_ABI_SIZE(struct nccl_profiler_event_v2, 128);
NCCL_ABI_AT(struct nccl_profiler_event_v2, coll.func, 48);
NCCL_ABI_AT(struct nccl_profiler_event_v2, coll.count, 72);
NCCL_ABI_AT(struct nccl_profiler_event_v2, coll.datatype, 88);
NCCL_ABI_AT(struct nccl_profiler_event_v2, coll.nMaxChannels, 104);
NCCL_ABI_AT(struct nccl_profiler_event_v2, coll.algo, 112);
NCCL_ABI_AT(struct nccl_profiler_event_v2, coll.proto, 120);
NCCL_ABI_AT(struct nccl_profiler_event_v2, p2p.func, 40);
NCCL_ABI_AT(struct nccl_profiler_event_v2, p2p.datatype, 56);
NCCL_ABI_AT(struct nccl_profiler_event_v2, p2p.count, 64);

struct nccl_profiler_event_v3 {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t commHash;
			uint64_t seqNumber;
			const char *func;
			const void *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			uint8_t nMaxChannels;
			uint8_t nWarps;
			const char *algo;
			const char *proto;
		} coll;
		struct nccl_profiler_p2p_v2 p2p;
	};
};
NCCL_ABI_SIZE(struct nccl_profiler_event_v3, 120);
NCCL_ABI_AT(struct nccl_profiler_event_v3, coll.func, 48);
NCCL_ABI_AT(struct nccl_profiler_event_v3, coll.count, 72);
NCCL_ABI_AT(struct nccl_profiler_event_v3, coll.datatype, 88);
NCCL_ABI_AT(struct nccl_profiler_event_v3, coll.nMaxChannels, 96);
NCCL_ABI_AT(struct nccl_profiler_event_v3, coll.algo, 104);
NCCL_ABI_AT(struct nccl_profiler_event_v3, coll.proto, 112);
NCCL_ABI_AT(struct nccl_profiler_event_v3, p2p.func, 40);

struct nccl_profiler_coll_v4 {
	uint64_t seqNumber;
	const char *func;
	const void *sendBuff;
	void *recvBuff;
	size_t count;
	int root;
	const char *datatype;
	uint8_t nChannels;
	uint8_t nWarps;
	const char *algo;
	const char *proto;
};
struct nccl_profiler_p2p_v4 {
	const char *func;
	void *buff;
	const char *datatype;
	size_t count;
	int peer;
	uint8_t nChannels;
};
struct nccl_profiler_event_v4 {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct nccl_profiler_coll_v4 coll;
		struct nccl_profiler_p2p_v4 p2p;
	};
};
NCCL_ABI_SIZE(struct nccl_profiler_event_v4, 104);
NCCL_ABI_AT(struct nccl_profiler_event_v4, coll.func, 32);
NCCL_ABI_AT(struct nccl_profiler_event_v4, coll.count, 56);
NCCL_ABI_AT(struct nccl_profiler_event_v4, coll.datatype, 72);
NCCL_ABI_AT(struct nccl_profiler_event_v4, coll.nChannels, 80);
NCCL_ABI_AT(struct nccl_profiler_event_v4, coll.algo, 88);
NCCL_ABI_AT(struct nccl_profiler_event_v4, coll.proto, 96);
NCCL_ABI_AT(struct nccl_profiler_event_v4, p2p.func, 24);
NCCL_ABI_AT(struct nccl_profiler_event_v4, p2p.datatype, 40);
NCCL_ABI_AT(struct nccl_profiler_event_v4, p2p.count, 48);
NCCL_ABI_AT(struct nccl_profiler_event_v4, p2p.nChannels, 60);

/* Versions 5 and 6. The parent of coll, p2p and ceColl is their API event. */
struct nccl_profiler_event_v5 {
	uint64_t type;
	void *parentObj;
	int rank;
	union {
		struct nccl_profiler_coll_v4 coll;
		struct nccl_profiler_p2p_v4 p2p;
		struct {
			bool graphCaptured;
			int groupDepth;
		} groupApi;
		struct {
			const char *func;
			size_t count;
			const char *datatype;
			int root;
			void *stream;
			bool graphCaptured;
		} collApi;
		struct {
			const char *func;
			size_t count;
			const char *datatype;
			void *stream;
			bool graphCaptured;
		} p2pApi;
		struct {
			uint8_t channelId;
			uint64_t pTimer; /* nanoseconds of the GPU's clock */
		} kernelCh;
		struct { /* only in version 6 */
			uint64_t seqNumber;
			const char *func;
			const void *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			const char *syncStrategy;
			bool intraBatchSync;
			uint32_t batchSize;
			uint32_t numBatches;
			uint32_t ceSeqNum;
			void *stream;
		} ceColl;
	};
};
NCCL_ABI_SIZE(struct nccl_profiler_event_v5, 112);
NCCL_ABI_AT(struct nccl_profiler_event_v5, parentObj, 8);
NCCL_ABI_AT(struct nccl_profiler_event_v5, coll.func, 32);
NCCL_ABI_AT(struct nccl_profiler_event_v5, coll.nChannels, 80);
NCCL_ABI_AT(struct nccl_profiler_event_v5, p2p.nChannels, 60);
NCCL_ABI_AT(struct nccl_profiler_event_v5, groupApi.graphCaptured, 24);
NCCL_ABI_AT(struct nccl_profiler_event_v5, collApi.graphCaptured, 64);
NCCL_ABI_AT(struct nccl_profiler_event_v5, p2pApi.graphCaptured, 56);
NCCL_ABI_AT(struct nccl_profiler_event_v5, kernelCh.pTimer, 32);
NCCL_ABI_AT(struct nccl_profiler_event_v5, ceColl.func, 32);
NCCL_ABI_AT(struct nccl_profiler_event_v5, ceColl.count, 56);
NCCL_ABI_AT(struct nccl_profiler_event_v5, ceColl.datatype, 72);

/* What recordEventState carries. */
union nccl_profiler_args_v5 {
	struct {
		uint64_t pTimer;
	} kernelCh;
};
NCCL_ABI_SIZE(union nccl_profiler_args_v5, 8);

/* Versions 1 to 3, looked up as ncclProfiler_v1 ..., differ in the event alone. */
struct nccl_profiler_v1 {
	const char *name;
	enum nccl_result (*init)(void **ret_context, int *ret_mask);
	enum nccl_result (*startEvent)(void *context, void **ret_handle, struct nccl_profiler_event_v1 *event);
	enum nccl_result (*stopEvent)(void *handle);
	enum nccl_result (*recordEventState)(void *handle, enum nccl_profiler_state state, void *args);
	enum nccl_result (*finalize)(void *context);
};
NCCL_ABI_SIZE(struct nccl_profiler_v1, 48);
NCCL_ABI_AT(struct nccl_profiler_v1, init, 8);
NCCL_ABI_AT(struct nccl_profiler_v1, startEvent, 16);
NCCL_ABI_AT(struct nccl_profiler_v1, stopEvent, 24);
NCCL_ABI_AT(struct nccl_profiler_v1, recordEventState, 32);
NCCL_ABI_AT(struct nccl_profiler_v1, finalize, 40);

struct nccl_profiler_v2 {
	const char *name;
	enum nccl_result (*init)(void **ret_context, int *ret_mask);
	enum nccl_result (*startEvent)(void *context, void **ret_handle, struct nccl_profiler_event_v2 *event);
	enum nccl_result (*stopEvent)(void *handle);
	enum nccl_result (*recordEventState)(void *handle, enum nccl_profiler_state state, void *args);
	enum nccl_result (*finalize)(void *context);
};
NCCL_ABI_SIZE(struct nccl_profiler_v2, 48);

struct nccl_profiler_v3 {
	const char *name;
	enum nccl_result (*init)(void **ret_context, int *ret_mask);
	enum nccl_result (*startEvent)(void *context, void **ret_handle, struct nccl_profiler_event_v3 *event);
	enum nccl_result (*stopEvent)(void *handle);
	enum nccl_result (*recordEventState)(void *handle, enum nccl_profiler_state state, void *args);
	enum nccl_result (*finalize)(void *context);
};
NCCL_ABI_SIZE(struct nccl_profiler_v3, 48);

struct nccl_profiler_v4 {
	const char *name;
	enum nccl_result (*init)(void **ret_context, int *ret_mask, const char *comm_name, uint64_t comm_id, int nnodes,
				 int nranks, int rank, nccl_debug_logger *logger);
	enum nccl_result (*startEvent)(void *context, void **ret_handle, struct nccl_profiler_event_v4 *event);
	enum nccl_result (*stopEvent)(void *handle);
	enum nccl_result (*recordEventState)(void *handle, enum nccl_profiler_state state, void *args);
	enum nccl_result (*finalize)(void *context);
};
NCCL_ABI_SIZE(struct nccl_profiler_v4, 48);

/* Looked up as ncclProfiler_v5 and, with the same types, ncclProfiler_v6. */
struct nccl_profiler_v5 {
	const char *name;
	enum nccl_result (*init)(void **ret_context, uint64_t comm_id, int *ret_mask, const char *comm_name, int nnodes,
				 int nranks, int rank, nccl_debug_logger *logger);
	enum nccl_result (*startEvent)(void *context, void **ret_handle, struct nccl_profiler_event_v5 *event);
	enum nccl_result (*stopEvent)(void *handle);
	enum nccl_result (*recordEventState)(void *handle, enum nccl_profiler_state state,
					     union nccl_profiler_args_v5 *args);
	enum nccl_result (*finalize)(void *context);
};
NCCL_ABI_SIZE(struct nccl_profiler_v5, 48);
NCCL_ABI_AT(struct nccl_profiler_v5, startEvent, 16);
NCCL_ABI_AT(struct nccl_profiler_v5, recordEventState, 32);

#endif
