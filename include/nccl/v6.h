/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's net and collnet interfaces, version 6: known to NCCL 2.16 and earlier.
 * One process-wide init; int sizes for registration and for transfers.
 * The layout is checked member by member below each struct; types.h says what holds for all versions.
 */
#ifndef TRIBUTARY_NCCL_V6_H
#define TRIBUTARY_NCCL_V6_H

#include "nccl/types.h"

struct nccl_net_properties_v6 {
	const char *name;
	const char *pciPath; /* in /sys, or NULL */
	uint64_t guid;       /* same for two devices only if they are one card */
	int ptrSupport;      /* set of enum nccl_pointer */
	int speed;           /* Mbit/s */
	int port;            /* from 1 */
	float latency;       /* microseconds */
	int maxComms;
	int maxRecvs; /* receives in one group */
};
NCCL_ABI_SIZE(struct nccl_net_properties_v6, 48);
NCCL_ABI_AT(struct nccl_net_properties_v6, name, 0);
NCCL_ABI_AT(struct nccl_net_properties_v6, pciPath, 8);
NCCL_ABI_AT(struct nccl_net_properties_v6, guid, 16);
NCCL_ABI_AT(struct nccl_net_properties_v6, ptrSupport, 24);
NCCL_ABI_AT(struct nccl_net_properties_v6, speed, 28);
NCCL_ABI_AT(struct nccl_net_properties_v6, port, 32);
NCCL_ABI_AT(struct nccl_net_properties_v6, latency, 36);
NCCL_ABI_AT(struct nccl_net_properties_v6, maxComms, 40);
NCCL_ABI_AT(struct nccl_net_properties_v6, maxRecvs, 44);

/* Looked up as ncclNetPlugin_v6. */
struct nccl_net_v6 {
	const char *name;
	enum nccl_result (*init)(nccl_debug_logger *logger);
	enum nccl_result (*devices)(int *ret_count);
	enum nccl_result (*getProperties)(int device, struct nccl_net_properties_v6 *ret_properties);
	enum nccl_result (*listen)(int device, void *handle, void **ret_listen_comm);
	enum nccl_result (*connect)(int device, void *handle, void **ret_send_comm);
	enum nccl_result (*accept)(void *listen_comm, void **ret_recv_comm);
	enum nccl_result (*regMr)(void *comm, void *data, int size, int type, void **ret_mhandle);
	enum nccl_result (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
					void **ret_mhandle);
	enum nccl_result (*deregMr)(void *comm, void *mhandle);
	enum nccl_result (*isend)(void *send_comm, void *data, int size, int tag, void *mhandle, void **ret_request);
	enum nccl_result (*irecv)(void *recv_comm, int n, void **data, int *sizes, int *tags, void **mhandles,
				  void **ret_request);
	enum nccl_result (*iflush)(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
				   void **ret_request);
	enum nccl_result (*test)(void *request, int *ret_done, int *ret_sizes);
	enum nccl_result (*closeSend)(void *send_comm);
	enum nccl_result (*closeRecv)(void *recv_comm);
	enum nccl_result (*closeListen)(void *listen_comm);
};
NCCL_ABI_SIZE(struct nccl_net_v6, 136);
NCCL_ABI_AT(struct nccl_net_v6, name, 0);
NCCL_ABI_AT(struct nccl_net_v6, init, 8);
NCCL_ABI_AT(struct nccl_net_v6, devices, 16);
NCCL_ABI_AT(struct nccl_net_v6, getProperties, 24);
NCCL_ABI_AT(struct nccl_net_v6, listen, 32);
NCCL_ABI_AT(struct nccl_net_v6, connect, 40);
NCCL_ABI_AT(struct nccl_net_v6, accept, 48);
NCCL_ABI_AT(struct nccl_net_v6, regMr, 56);
NCCL_ABI_AT(struct nccl_net_v6, regMrDmaBuf, 64);
NCCL_ABI_AT(struct nccl_net_v6, deregMr, 72);
NCCL_ABI_AT(struct nccl_net_v6, isend, 80);
NCCL_ABI_AT(struct nccl_net_v6, irecv, 88);
NCCL_ABI_AT(struct nccl_net_v6, iflush, 96);
NCCL_ABI_AT(struct nccl_net_v6, test, 104);
NCCL_ABI_AT(struct nccl_net_v6, closeSend, 112);
NCCL_ABI_AT(struct nccl_net_v6, closeRecv, 120);
NCCL_ABI_AT(struct nccl_net_v6, closeListen, 128);

/* Looked up as ncclCollNetPlugin_v6; only beside a usable net table of the same library. */
struct nccl_collnet_v6 {
	const char *name;
	enum nccl_result (*init)(nccl_debug_logger *logger);
	enum nccl_result (*devices)(int *ret_count);
	enum nccl_result (*getProperties)(int device, struct nccl_net_properties_v6 *ret_properties);
	enum nccl_result (*listen)(int device, void *handle, void **ret_listen_comm);
	enum nccl_result (*connect)(void **handles, int nranks, int rank, void *listen_comm, void **ret_coll_comm);
	enum nccl_result (*reduceSupport)(enum nccl_datatype type, enum nccl_redop op, int *ret_supported);
	enum nccl_result (*regMr)(void *comm, void *data, int size, int type, void **ret_mhandle);
	enum nccl_result (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
					void **ret_mhandle);
	enum nccl_result (*deregMr)(void *comm, void *mhandle);
	enum nccl_result (*iallreduce)(void *coll_comm, void *send, void *recv, int count, enum nccl_datatype type,
				       enum nccl_redop op, void *send_mhandle, void *recv_mhandle, void **ret_request);
	enum nccl_result (*iflush)(void *coll_comm, void *data, int size, void *mhandle, void **ret_request);
	enum nccl_result (*test)(void *request, int *ret_done, int *ret_sizes);
	enum nccl_result (*closeColl)(void *coll_comm);
	enum nccl_result (*closeListen)(void *listen_comm);
};
NCCL_ABI_SIZE(struct nccl_collnet_v6, 120);
NCCL_ABI_AT(struct nccl_collnet_v6, name, 0);
NCCL_ABI_AT(struct nccl_collnet_v6, init, 8);
NCCL_ABI_AT(struct nccl_collnet_v6, devices, 16);
NCCL_ABI_AT(struct nccl_collnet_v6, getProperties, 24);
NCCL_ABI_AT(struct nccl_collnet_v6, listen, 32);
NCCL_ABI_AT(struct nccl_collnet_v6, connect, 40);
NCCL_ABI_AT(struct nccl_collnet_v6, reduceSupport, 48);
NCCL_ABI_AT(struct nccl_collnet_v6, regMr, 56);
NCCL_ABI_AT(struct nccl_collnet_v6, regMrDmaBuf, 64);
NCCL_ABI_AT(struct nccl_collnet_v6, deregMr, 72);
NCCL_ABI_AT(struct nccl_collnet_v6, iallreduce, 80);
NCCL_ABI_AT(struct nccl_collnet_v6, iflush, 88);
NCCL_ABI_AT(struct nccl_collnet_v6, test, 96);
NCCL_ABI_AT(struct nccl_collnet_v6, closeColl, 104);
NCCL_ABI_AT(struct nccl_collnet_v6, closeListen, 112);

#endif
