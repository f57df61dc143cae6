/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all versions of NCCL's plugin interfaces share: enums, limits, callbacks and small structs. They are declared
 * from NCCL's binary layout (x86-64 and arm64 Linux) under names of our own, so that this header and a real nccl.h can
 * be included together. Members keep the names that NCCL's documentation uses. Text that NCCL declares `char *` but
 * never writes is `const char *` here.
 *
 * Rules that the types do not show:
 *   - connect and accept (net) never block: success with a NULL comm means "call again".
 *   - isend, irecv, iflush and every collnet operation may return a NULL request: "try again".
 *   - irecv with n > 1 groups receives; the sender picks its buffer by tag; test then fills sizes[n].
 *   - getProperties may be called at any time, before and after init.
 */
#ifndef TRIBUTARY_NCCL_TYPES_H
#define TRIBUTARY_NCCL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define NCCL_ABI_ASSERT(condition, text) static_assert(condition, text)
#else
#define NCCL_ABI_ASSERT(condition, text) _Static_assert(condition, text)
#endif
#define NCCL_ABI_SIZE(type, bytes)    NCCL_ABI_ASSERT(sizeof(type) == (bytes), "size of " #type)
#define NCCL_ABI_AT(type, member, at) NCCL_ABI_ASSERT(offsetof(type, member) == (at), #member " in " #type)

enum nccl_result {
	NCCL_SUCCESS = 0,
	NCCL_UNHANDLED_CUDA_ERROR = 1,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INTERNAL_ERROR = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6,
	NCCL_IN_PROGRESS = 7,
	NCCL_RESULT_COUNT
};
NCCL_ABI_SIZE(enum nccl_result, 4);

enum nccl_redop {
	NCCL_SUM = 0,
	NCCL_PROD = 1,
	NCCL_MAX = 2,
	NCCL_MIN = 3,
	NCCL_AVG = 4, /* reaches collnet as a sum */
	NCCL_REDOP_COUNT
};
NCCL_ABI_SIZE(enum nccl_redop, 4);

enum nccl_datatype {
	NCCL_INT8 = 0,
	NCCL_UINT8 = 1,
	NCCL_INT32 = 2,
	NCCL_UINT32 = 3,
	NCCL_INT64 = 4,
	NCCL_UINT64 = 5,
	NCCL_FLOAT16 = 6,
	NCCL_FLOAT32 = 7,
	NCCL_FLOAT64 = 8,
	NCCL_BFLOAT16 = 9,
	NCCL_FLOAT8E4M3 = 10,
	NCCL_FLOAT8E5M2 = 11,
	NCCL_DATATYPE_COUNT
};
NCCL_ABI_SIZE(enum nccl_datatype, 4);

/* Kinds of memory, a set in ptrSupport and one of them in regMr. */
enum nccl_pointer { NCCL_POINTER_HOST = 0x1, NCCL_POINTER_CUDA = 0x2, NCCL_POINTER_DMABUF = 0x4 };

enum nccl_net_device_type {
	NCCL_NET_DEVICE_HOST = 0, /* netDeviceVersion is 0 */
	NCCL_NET_DEVICE_UNPACK = 1,
	NCCL_NET_DEVICE_GIN_PROXY = 2,
	NCCL_NET_DEVICE_GIN_GDAKI = 3,
	NCCL_NET_DEVICE_COUNT
};
NCCL_ABI_SIZE(enum nccl_net_device_type, 4);

enum nccl_func {
	NCCL_FUNC_BROADCAST = 0,
	NCCL_FUNC_REDUCE = 1,
	NCCL_FUNC_ALLGATHER = 2,
	NCCL_FUNC_REDUCESCATTER = 3,
	NCCL_FUNC_ALLREDUCE = 4,
	NCCL_FUNC_SENDRECV = 5,
	NCCL_FUNC_SEND = 6,
	NCCL_FUNC_RECV = 7,
	NCCL_FUNC_COUNT
};
NCCL_ABI_SIZE(enum nccl_func, 4);

enum nccl_algorithm {
	NCCL_ALGO_TREE_ID = 0,
	NCCL_ALGO_RING_ID = 1,
	NCCL_ALGO_COLLNET_DIRECT_ID = 2,
	NCCL_ALGO_COLLNET_CHAIN_ID = 3,
	NCCL_ALGO_NVLS_ID = 4,
	NCCL_ALGO_NVLS_TREE_ID = 5,
	NCCL_ALGO_PAT_ID = 6,
	NCCL_ALGO_COUNT
};

enum nccl_protocol { NCCL_PROTO_LL_ID = 0, NCCL_PROTO_LL128_ID = 1, NCCL_PROTO_SIMPLE_ID = 2, NCCL_PROTO_COUNT };

enum nccl_log_level {
	NCCL_LEVEL_NONE = 0,
	NCCL_LEVEL_VERSION = 1,
	NCCL_LEVEL_WARN = 2,
	NCCL_LEVEL_INFO = 3,
	NCCL_LEVEL_ABORT = 4,
	NCCL_LEVEL_TRACE = 5
};

enum nccl_log_flag {
	NCCL_LOG_INIT = 0x1,
	NCCL_LOG_COLL = 0x2,
	NCCL_LOG_P2P = 0x4,
	NCCL_LOG_SHM = 0x8,
	NCCL_LOG_NET = 0x10,
	NCCL_LOG_GRAPH = 0x20,
	NCCL_LOG_TUNING = 0x40,
	NCCL_LOG_ENV = 0x80,
	NCCL_LOG_ALLOC = 0x100
};

enum {
	NCCL_HANDLE_BYTES = 128,
	NCCL_MAX_REQUESTS = 32, /* outstanding on one comm; NCCL itself posts up to 8 on a connection */
	NCCL_TRAFFIC_CLASS_NONE = -1,
	NCCL_RAIL_NONE = -1 /* railId and planeId */
};
#define NCCL_MAX_MESSAGE_BYTES ((size_t)1 << 40) /* the greatest maxP2pBytes and maxCollBytes: 1 TiB */
#define NCCL_COST_FORBIDDEN    (-1.0f)           /* in a tuner's cost table: not allowed, leave it so */

typedef void nccl_debug_logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);
typedef enum nccl_result nccl_profiler_callback(void **event_handle, int type, void *parent_handle, int64_t plugin_id,
						void *ext_data);

/* For receives that the GPU itself unpacks. A host transport leaves *ret_device_handle alone or sets it to NULL. */
struct nccl_net_device_handle {
	enum nccl_net_device_type netDeviceType;
	int netDeviceVersion;
	void *handle;
	size_t size;
	int needsProxyProgress;
};
NCCL_ABI_SIZE(struct nccl_net_device_handle, 32);
NCCL_ABI_AT(struct nccl_net_device_handle, netDeviceType, 0);
NCCL_ABI_AT(struct nccl_net_device_handle, netDeviceVersion, 4);
NCCL_ABI_AT(struct nccl_net_device_handle, handle, 8);
NCCL_ABI_AT(struct nccl_net_device_handle, size, 16);
NCCL_ABI_AT(struct nccl_net_device_handle, needsProxyProgress, 24);

enum { NCCL_VDEVICE_MEMBERS_V9 = 4, NCCL_VDEVICE_MEMBERS_V12 = 8 };

/* The physical devices in a virtual one; versions 9 to 11. */
struct nccl_net_vdevice_v9 {
	int ndevs;
	int devs[NCCL_VDEVICE_MEMBERS_V9];
};
NCCL_ABI_SIZE(struct nccl_net_vdevice_v9, 20);
NCCL_ABI_AT(struct nccl_net_vdevice_v9, ndevs, 0);
NCCL_ABI_AT(struct nccl_net_vdevice_v9, devs, 4);

struct nccl_net_vdevice_v12 {
	int ndevs;
	int devs[NCCL_VDEVICE_MEMBERS_V12];
};
NCCL_ABI_SIZE(struct nccl_net_vdevice_v12, 36);
NCCL_ABI_AT(struct nccl_net_vdevice_v12, ndevs, 0);
NCCL_ABI_AT(struct nccl_net_vdevice_v12, devs, 4);

/* From version 10 on: in connect (version 10), in init (version 11 and later). */
struct nccl_net_comm_config {
	int trafficClass;
};
NCCL_ABI_SIZE(struct nccl_net_comm_config, 4);
NCCL_ABI_AT(struct nccl_net_comm_config, trafficClass, 0);

/* Hints on peers and flows, from version 11 on: four 32-bit numbers, which this project does not read. */
struct nccl_net_comm_attr {
	int32_t hints[4];
};
NCCL_ABI_SIZE(struct nccl_net_comm_attr, 16);
NCCL_ABI_AT(struct nccl_net_comm_attr, hints, 0);

/* What a connection is about to be used for: op, algo and proto are bit sets. */
struct nccl_net_attr {
	struct nccl_net_comm_attr sendCommAttr;
	struct nccl_net_comm_attr recvCommAttr;
	uint32_t op;
	uint32_t algo;
	uint32_t proto;
};
NCCL_ABI_SIZE(struct nccl_net_attr, 44);
NCCL_ABI_AT(struct nccl_net_attr, sendCommAttr, 0);
NCCL_ABI_AT(struct nccl_net_attr, recvCommAttr, 16);
NCCL_ABI_AT(struct nccl_net_attr, op, 32);
NCCL_ABI_AT(struct nccl_net_attr, algo, 36);
NCCL_ABI_AT(struct nccl_net_attr, proto, 40);

/* One piece of a gathered or scattered buffer; collnet version 8. */
struct nccl_net_sge_v8 {
	void *mhandle;
	void *address;
	uint32_t size;
};
NCCL_ABI_SIZE(struct nccl_net_sge_v8, 24);
NCCL_ABI_AT(struct nccl_net_sge_v8, mhandle, 0);
NCCL_ABI_AT(struct nccl_net_sge_v8, address, 8);
NCCL_ABI_AT(struct nccl_net_sge_v8, size, 16);

/* The same from collnet version 9 on. */
struct nccl_net_sge_v9 {
	void *mhandle;
	void *address;
	size_t size;
};
NCCL_ABI_SIZE(struct nccl_net_sge_v9, 24);
NCCL_ABI_AT(struct nccl_net_sge_v9, mhandle, 0);
NCCL_ABI_AT(struct nccl_net_sge_v9, address, 8);
NCCL_ABI_AT(struct nccl_net_sge_v9, size, 16);

#endif
