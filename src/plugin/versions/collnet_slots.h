/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots of ncclCollNet whose C type is the same in several versions of the interface, and another one than that of the
 * function in collnet.h; as slots.h has them for the net.
 *
 * Threads and errors: collnet.h; results are NCCL's.
 */
#ifndef TRIBUTARY_PLUGIN_VERSIONS_COLLNET_SLOTS_H
#define TRIBUTARY_PLUGIN_VERSIONS_COLLNET_SLOTS_H

#include "nccl/types.h"
#include "plugin/collnet.h"

enum nccl_result plugin_collnet_slot_listen_6_10(int device, void *handle, void **ret_listen_comm);
/* Sizes as int. */
enum nccl_result plugin_collnet_slot_register_6_7(void *comm, void *data, int size, int type, void **ret_mhandle);
enum nccl_result plugin_collnet_slot_reduce_all_6_8(void *coll_comm, void *send, void *recv, int count,
						    enum nccl_datatype type, enum nccl_redop op, void *send_mhandle,
						    void *recv_mhandle, void **ret_request);
#endif
