/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots of ncclNet whose C type is the same in several versions of the interface, and another one than that of the
 * function in net.h, to which each converts, so that a version's file can be deleted without touching another. What one
 * version alone has is in that version's file. Names say from which version to which a slot's type holds.
 *
 * Threads and errors: net.h; results are NCCL's.
 *
 * NCCL's collnet tables are in the same files, and what several of them share is in collnet_slots.h; tuners have files
 * of their own. The inner forms are src/plugin/collnet.h and tuner.h.
 */
#ifndef TRIBUTARY_PLUGIN_VERSIONS_SLOTS_H
#define TRIBUTARY_PLUGIN_VERSIONS_SLOTS_H

#include "nccl/types.h"

/* On the tables that NCCL looks up; plugin.map lists them too. */
#define PLUGIN_EXPORT __attribute__((visibility("default")))

/* All versions. */
enum nccl_result plugin_slot_flush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
				   void **ret_request);

enum nccl_result plugin_slot_init_11(void **ret_context, uint64_t comm_id, struct nccl_net_comm_config *config,
				     nccl_debug_logger *logger, nccl_profiler_callback *profiler);
/* Hints on a connection's use. Nothing here depends on them yet. */
enum nccl_result plugin_slot_set_attr_11(void *context, struct nccl_net_attr *attr);

enum nccl_result plugin_slot_listen_11(void *context, int device, void *handle, void **ret_listen_comm);
enum nccl_result plugin_slot_connect_7_9(int device, void *handle, void **ret_send_comm,
					 struct nccl_net_device_handle **ret_device_handle);
enum nccl_result plugin_slot_connect_11(void *context, int device, void *handle, void **ret_send_comm,
					struct nccl_net_device_handle **ret_device_handle);
enum nccl_result plugin_slot_accept_7(void *listen_comm, void **ret_recv_comm,
				      struct nccl_net_device_handle **ret_device_handle);

/* Sizes as int; the profiler's handles. */
enum nccl_result plugin_slot_register_6_7(void *comm, void *data, int size, int type, void **ret_mhandle);
enum nccl_result plugin_slot_send_6_8(void *send_comm, void *data, int size, int tag, void *mhandle,
				      void **ret_request);
enum nccl_result plugin_slot_send_10(void *send_comm, void *data, size_t size, int tag, void *mhandle,
				     void *profiler_handle, void **ret_request);
enum nccl_result plugin_slot_receive_6_8(void *recv_comm, int n, void **data, int *sizes, int *tags, void **mhandles,
					 void **ret_request);
enum nccl_result plugin_slot_receive_10(void *recv_comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
					void **profiler_handles, void **ret_request);

/* For devices that unpack by themselves; ours are host devices, so NCCL has no reason to call it. */
enum nccl_result plugin_slot_device_mr_7(void *comm, void *mhandle, void **ret_device_mhandle);
/* NCCL calls it after every receive if it is there, whatever the device: an error here stops its proxy. Nothing to do. */
enum nccl_result plugin_slot_consumed_7(void *recv_comm, int n, void *request);

enum nccl_result plugin_slot_join_9_11(int *ret_device, struct nccl_net_vdevice_v9 *members);

#endif
