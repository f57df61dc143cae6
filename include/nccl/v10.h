/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's net and collnet interfaces, version 10: known to NCCL from 2.26.2 on.
 * Adds the profiler callback and handles, and the traffic class of a connection.
 * The layout is checked member by member below each struct; types.h says what holds for all versions.
 */
#ifndef TRIBUTARY_NCCL_V10_H
#define TRIBUTARY_NCCL_V10_H

#include "nccl/types.h"

struct nccl_net_properties_v10 {
	const char *name;
	const char *pciPath; /* in /sys, or NULL */
	uint64_t guid;       /* same for two devices only if they are one card */
	int ptrSupport;      /* set of enum nccl_pointer */
	int regIsGlobal;     /* a registration holds for every comm */
	int forceFlush;      /* flush also where NCCL would not */
	int speed;           /* Mbit/s */
	int port;            /* from 1 */
	float latency;       /* microseconds */
	int maxComms;
	int maxRecvs; /* receives in one group */
	enum nccl_net_device_type netDeviceType;
	int netDeviceVersion;
	struct nccl_net_vdevice_v9 vProps;
	size_t maxP2pBytes;  /* 1 to NCCL_MAX_MESSAGE_BYTES */
	size_t maxCollBytes; /* 1 to NCCL_MAX_MESSAGE_BYTES */
};
NCCL_ABI_SIZE(struct nccl_net_properties_v10, 104);
NCCL_ABI_AT(struct nccl_net_properties_v10, name, 0);
NCCL_ABI_AT(struct nccl_net_properties_v10, pciPath, 8);
NCCL_ABI_AT(struct nccl_net_properties_v10, guid, 16);
NCCL_ABI_AT(struct nccl_net_properties_v10, ptrSupport, 24);
NCCL_ABI_AT(struct nccl_net_properties_v10, regIsGlobal, 28);
NCCL_ABI_AT(struct nccl_net_properties_v10, forceFlush, 32);
NCCL_ABI_AT(struct nccl_net_properties_v10, speed, 36);
NCCL_ABI_AT(struct nccl_net_properties_v10, port, 40);
NCCL_ABI_AT(struct nccl_net_properties_v10, latency, 44);
NCCL_ABI_AT(struct nccl_net_properties_v10, maxComms, 48);
NCCL_ABI_AT(struct nccl_net_properties_v10, maxRecvs, 52);
NCCL_ABI_AT(struct nccl_net_properties_v10, netDeviceType, 56);
NCCL_ABI_AT(struct nccl_net_properties_v10, netDeviceVersion, 60);
NCCL_ABI_AT(struct nccl_net_properties_v10, vProps, 64);
NCCL_ABI_AT(struct nccl_net_properties_v10, maxP2pBytes, 88);
NCCL_ABI_AT(struct nccl_net_properties_v10, maxCollBytes, 96);

/* Looked up as ncclNetPlugin_v10. */
struct nccl_net_v10 {
	const char *name;
	enum nccl_result (*init)(nccl_debug_logger *logger, nccl_profiler_callback *profiler);
	enum nccl_result (*devices)(int *ret_count);
	enum nccl_result (*getProperties)(int device, struct nccl_net_properties_v10 *ret_properties);
	enum nccl_result (*listen)(int device, void *handle, void **ret_listen_comm);
	enum nccl_result (*connect)(int device, struct nccl_net_comm_config *config, void *handle, void **ret_send_comm,
				    struct nccl_net_device_handle **ret_device_handle);
	enum nccl_result (*accept)(void *listen_comm, void **ret_recv_comm,
				   struct nccl_net_device_handle **ret_device_handle);
	enum nccl_result (*regMr)(void *comm, void *data, size_t size, int type, void **ret_mhandle);
	enum nccl_result (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
					void **ret_mhandle);
	enum nccl_result (*deregMr)(void *comm, void *mhandle);
	enum nccl_result (*isend)(void *send_comm, void *data, size_t size, int tag, void *mhandle,
				  void *profiler_handle, void **ret_request);
	enum nccl_result (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
				  void **profiler_handles, void **ret_request);
	enum nccl_result (*iflush)(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
				   void **ret_request);
	enum nccl_result (*test)(void *request, int *ret_done, int *ret_sizes);
	enum nccl_result (*closeSend)(void *send_comm);
	enum nccl_result (*closeRecv)(void *recv_comm);
	enum nccl_result (*closeListen)(void *listen_comm);
	enum nccl_result (*getDeviceMr)(void *comm, void *mhandle, void **ret_device_mhandle);
	enum nccl_result (*irecvConsumed)(void *recv_comm, int n, void *request);
	enum nccl_result (*makeVDevice)(int *ret_device, struct nccl_net_vdevice_v9 *members);
};
NCCL_ABI_SIZE(struct nccl_net_v10, 160);
NCCL_ABI_AT(struct nccl_net_v10, name, 0);
NCCL_ABI_AT(struct nccl_net_v10, init, 8);
NCCL_ABI_AT(struct nccl_net_v10, devices, 16);
NCCL_ABI_AT(struct nccl_net_v10, getProperties, 24);
NCCL_ABI_AT(struct nccl_net_v10, listen, 32);
NCCL_ABI_AT(struct nccl_net_v10, connect, 40);
NCCL_ABI_AT(struct nccl_net_v10, accept, 48);
NCCL_ABI_AT(struct nccl_net_v10, regMr, 56);
NCCL_ABI_AT(struct nccl_net_v10, regMrDmaBuf, 64);
NCCL_ABI_AT(struct nccl_net_v10, deregMr, 72);
NCCL_ABI_AT(struct nccl_net_v10, isend, 80);
NCCL_ABI_AT(struct nccl_net_v10, irecv, 88);
NCCL_ABI_AT(struct nccl_net_v10, iflush, 96);
NCCL_ABI_AT(struct nccl_net_v10, test, 104);
NCCL_ABI_AT(struct nccl_net_v10, closeSend, 112);
NCCL_ABI_AT(struct nccl_net_v10, closeRecv, 120);
NCCL_ABI_AT(struct nccl_net_v10, closeListen, 128);
NCCL_ABI_AT(struct nccl_net_v10, getDeviceMr, 136);
NCCL_ABI_AT(struct nccl_net_v10, irecvConsumed, 144);
NCCL_ABI_AT(struct nccl_net_v10, makeVDevice, 152);

/* Looked up as ncclCollNetPlugin_v10; only beside a usable net table of the same library. */
struct nccl_collnet_v10 {
	const char *name;
	enum nccl_result (*init)(nccl_debug_logger *logger);
	enum nccl_result (*devices)(int *ret_count);
	enum nccl_result (*getProperties)(int device, struct nccl_net_properties_v10 *ret_properties);
	enum nccl_result (*listen)(int device, void *handle, void **ret_listen_comm);
	enum nccl_result (*connect)(void **handles, int nranks, int rank, void *listen_comm, void **ret_coll_comm);
	enum nccl_result (*reduceSupport)(enum nccl_datatype type, enum nccl_redop op, int *ret_supported);
	enum nccl_result (*regMr)(void *comm, void *data, size_t size, int type, void **ret_mhandle);
	enum nccl_result (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
					void **ret_mhandle);
	enum nccl_result (*deregMr)(void *comm, void *mhandle);
	enum nccl_result (*iallreduce)(void *coll_comm, void *send, void *recv, size_t count, enum nccl_datatype type,
				       enum nccl_redop op, void *send_mhandle, void *recv_mhandle, void **ret_request);
	enum nccl_result (*iallgather)(void *coll_comm, void *send, int recv_count, struct nccl_net_sge_v9 *recv_parts,
				       size_t bytes_per_rank, size_t window_offset, size_t window_bytes,
				       void *send_mhandle, void **ret_request);
	enum nccl_result (*ireducescatter)(void *coll_comm, int send_count, struct nccl_net_sge_v9 *send_parts,
					   void *recv, size_t bytes_per_rank, size_t window_offset, size_t window_bytes,
					   enum nccl_datatype type, enum nccl_redop op, void *recv_mhandle,
					   void **ret_request);
	enum nccl_result (*iflush)(void *coll_comm, void *data, int size, void *mhandle, void **ret_request);
	enum nccl_result (*test)(void *request, int *ret_done, int *ret_sizes);
	enum nccl_result (*closeColl)(void *coll_comm);
	enum nccl_result (*closeListen)(void *listen_comm);
	enum nccl_result (*makeVDevice)(int *ret_device, struct nccl_net_vdevice_v9 *members);
};
NCCL_ABI_SIZE(struct nccl_collnet_v10, 144);
NCCL_ABI_AT(struct nccl_collnet_v10, name, 0);
NCCL_ABI_AT(struct nccl_collnet_v10, init, 8);
NCCL_ABI_AT(struct nccl_collnet_v10, devices, 16);
NCCL_ABI_AT(struct nccl_collnet_v10, getProperties, 24);
NCCL_ABI_AT(struct nccl_collnet_v10, listen, 32);
NCCL_ABI_AT(struct nccl_collnet_v10, connect, 40);
NCCL_ABI_AT(struct nccl_collnet_v10, reduceSupport, 48);
NCCL_ABI_AT(struct nccl_collnet_v10, regMr, 56);
NCCL_ABI_AT(struct nccl_collnet_v10, regMrDmaBuf, 64);
NCCL_ABI_AT(struct nccl_collnet_v10, deregMr, 72);
NCCL_ABI_AT(struct nccl_collnet_v10, iallreduce, 80);
NCCL_ABI_AT(struct nccl_collnet_v10, iallgather, 88);
NCCL_ABI_AT(struct nccl_collnet_v10, ireducescatter, 96);
NCCL_ABI_AT(struct nccl_collnet_v10, iflush, 104);
NCCL_ABI_AT(struct nccl_collnet_v10, test, 112);
NCCL_ABI_AT(struct nccl_collnet_v10, closeColl, 120);
NCCL_ABI_AT(struct nccl_collnet_v10, closeListen, 128);
NCCL_ABI_AT(struct nccl_collnet_v10, makeVDevice, 136);

#endif
