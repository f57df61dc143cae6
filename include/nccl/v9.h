/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's net and collnet interfaces, version 9: known to NCCL from 2.24.3 on.
 * Transfer sizes become size_t; virtual devices (makeVDevice) and the greatest message come in.
 * The layout is checked member by member below each struct; types.h says what holds for all versions.
 */
#ifndef TRIBUTARY_NCCL_V9_H
#define TRIBUTARY_NCCL_V9_H

#include "nccl/types.h"

struct nccl_net_properties_v9 {
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
NCCL_ABI_SIZE(struct nccl_net_properties_v9, 104);
NCCL_ABI_AT(struct nccl_net_properties_v9, name, 0);
NCCL_ABI_AT(struct nccl_net_properties_v9, pciPath, 8);
NCCL_ABI_AT(struct nccl_net_properties_v9, guid, 16);
NCCL_ABI_AT(struct nccl_net_properties_v9, ptrSupport, 24);
NCCL_ABI_AT(struct nccl_net_properties_v9, regIsGlobal, 28);
NCCL_ABI_AT(struct nccl_net_properties_v9, forceFlush, 32);
NCCL_ABI_AT(struct nccl_net_properties_v9, speed, 36);
NCCL_ABI_AT(struct nccl_net_properties_v9, port, 40);
NCCL_ABI_AT(struct nccl_net_properties_v9, latency, 44);
NCCL_ABI_AT(struct nccl_net_properties_v9, maxComms, 48);
NCCL_ABI_AT(struct nccl_net_properties_v9, maxRecvs, 52);
NCCL_ABI_AT(struct nccl_net_properties_v9, netDeviceType, 56);
NCCL_ABI_AT(struct nccl_net_properties_v9, netDeviceVersion, 60);
NCCL_ABI_AT(struct nccl_net_properties_v9, vProps, 64);
NCCL_ABI_AT(struct nccl_net_properties_v9, maxP2pBytes, 88);
NCCL_ABI_AT(struct nccl_net_properties_v9, maxCollBytes, 96);

/* Looked up as ncclNetPlugin_v9. */
struct nccl_net_v9 {
	const char *name;
	enum nccl_result (*init)(nccl_debug_logger *logger);
	enum nccl_result (*devices)(int *ret_count);
	enum nccl_result (*getProperties)(int device, struct nccl_net_properties_v9 *ret_properties);
	enum nccl_result (*listen)(int device, void *handle, void **ret_listen_comm);
	enum nccl_result (*connect)(int device, void *handle, void **ret_send_comm,
				    struct nccl_net_device_handle **ret_device_handle);
	enum nccl_result (*accept)(void *listen_comm, void **ret_recv_comm,
				   struct nccl_net_device_handle **ret_device_handle);
	enum nccl_result (*regMr)(void *comm, void *data, size_t size, int type, void **ret_mhandle);
	enum nccl_result (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
					void **ret_mhandle);
	enum nccl_result (*deregMr)(void *comm, void *mhandle);
	enum nccl_result (*isend)(void *send_comm, void *data, size_t size, int tag, void *mhandle, void **ret_request);
	enum nccl_result (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
				  void **ret_request);
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
NCCL_ABI_SIZE(struct nccl_net_v9, 160);
NCCL_ABI_AT(struct nccl_net_v9, name, 0);
NCCL_ABI_AT(struct nccl_net_v9, init, 8);
NCCL_ABI_AT(struct nccl_net_v9, devices, 16);
NCCL_ABI_AT(struct nccl_net_v9, getProperties, 24);
NCCL_ABI_AT(struct nccl_net_v9, listen, 32);
NCCL_ABI_AT(struct nccl_net_v9, connect, 40);
NCCL_ABI_AT(struct nccl_net_v9, accept, 48);
NCCL_ABI_AT(struct nccl_net_v9, regMr, 56);
NCCL_ABI_AT(struct nccl_net_v9, regMrDmaBuf, 64);
NCCL_ABI_AT(struct nccl_net_v9, deregMr, 72);
NCCL_ABI_AT(struct nccl_net_v9, isend, 80);
NCCL_ABI_AT(struct nccl_net_v9, irecv, 88);
NCCL_ABI_AT(struct nccl_net_v9, iflush, 96);
NCCL_ABI_AT(struct nccl_net_v9, test, 104);
NCCL_ABI_AT(struct nccl_net_v9, closeSend, 112);
NCCL_ABI_AT(struct nccl_net_v9, closeRecv, 120);
NCCL_ABI_AT(struct nccl_net_v9, closeListen, 128);
NCCL_ABI_AT(struct nccl_net_v9, getDeviceMr, 136);
NCCL_ABI_AT(struct nccl_net_v9, irecvConsumed, 144);
NCCL_ABI_AT(struct nccl_net_v9, makeVDevice, 152);

/* Looked up as ncclCollNetPlugin_v9; only beside a usable net table of the same library. */
struct nccl_collnet_v9 {
	const char *name;
	enum nccl_result (*init)(nccl_debug_logger *logger);
	enum nccl_result (*devices)(int *ret_count);
	enum nccl_result (*getProperties)(int device, struct nccl_net_properties_v9 *ret_properties);
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
NCCL_ABI_SIZE(struct nccl_collnet_v9, 144);
NCCL_ABI_AT(struct nccl_collnet_v9, name, 0);
NCCL_ABI_AT(struct nccl_collnet_v9, init, 8);
NCCL_ABI_AT(struct nccl_collnet_v9, devices, 16);
NCCL_ABI_AT(struct nccl_collnet_v9, getProperties, 24);
NCCL_ABI_AT(struct nccl_collnet_v9, listen, 32);
NCCL_ABI_AT(struct nccl_collnet_v9, connect, 40);
NCCL_ABI_AT(struct nccl_collnet_v9, reduceSupport, 48);
NCCL_ABI_AT(struct nccl_collnet_v9, regMr, 56);
NCCL_ABI_AT(struct nccl_collnet_v9, regMrDmaBuf, 64);
NCCL_ABI_AT(struct nccl_collnet_v9, deregMr, 72);
NCCL_ABI_AT(struct nccl_collnet_v9, iallreduce, 80);
NCCL_ABI_AT(struct nccl_collnet_v9, iallgather, 88);
NCCL_ABI_AT(struct nccl_collnet_v9, ireducescatter, 96);
NCCL_ABI_AT(struct nccl_collnet_v9, iflush, 104);
NCCL_ABI_AT(struct nccl_collnet_v9, test, 112);
NCCL_ABI_AT(struct nccl_collnet_v9, closeColl, 120);
NCCL_ABI_AT(struct nccl_collnet_v9, closeListen, 128);
NCCL_ABI_AT(struct nccl_collnet_v9, makeVDevice, 136);

#endif
