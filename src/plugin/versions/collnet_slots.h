/*
 * The slots of ncclCollNet whose C type is the same in several versions of the interface, as slots.h has them for the net:
 * each converts straight to the inner form (collnet.h). Names say from which version to which a slot's type holds.
 *
 * Threads and errors: collnet.h; results are NCCL's.
 */
#ifndef TRIBUTARY_PLUGIN_VERSIONS_COLLNET_SLOTS_H
#define TRIBUTARY_PLUGIN_VERSIONS_COLLNET_SLOTS_H

#include "nccl/types.h"

/* NCCL's name for it, in its log. */
#define PLUGIN_COLLNET_NAME "Tributary"

/* All versions. */
enum nccl_result plugin_collnet_slot_devices(int *ret_count);
enum nccl_result plugin_collnet_slot_connect(void **handles, int nranks, int rank, void *listen_comm,
					     void **ret_coll_comm);
enum nccl_result plugin_collnet_slot_support(enum nccl_datatype type, enum nccl_redop op, int *ret_supported);
enum nccl_result plugin_collnet_slot_register_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset,
						     int fd, void **ret_mhandle);
enum nccl_result plugin_collnet_slot_deregister(void *comm, void *mhandle);
/* Nothing to do for host memory: no request, which is as good as done. */
enum nccl_result plugin_collnet_slot_flush(void *coll_comm, void *data, int size, void *mhandle, void **ret_request);
enum nccl_result plugin_collnet_slot_test(void *request, int *ret_done, int *ret_sizes);
enum nccl_result plugin_collnet_slot_close_group(void *coll_comm);
enum nccl_result plugin_collnet_slot_close_listener(void *listen_comm);

enum nccl_result plugin_collnet_slot_init_6_10(nccl_debug_logger *logger);
enum nccl_result plugin_collnet_slot_init_11(void **ret_context, uint64_t comm_id, nccl_debug_logger *logger);
enum nccl_result plugin_collnet_slot_finalize_11(void *context);
enum nccl_result plugin_collnet_slot_listen_6_10(int device, void *handle, void **ret_listen_comm);
enum nccl_result plugin_collnet_slot_listen_11(void *context, int device, void *handle, void **ret_listen_comm);

/* Sizes: int, then size_t. */
enum nccl_result plugin_collnet_slot_register_6_7(void *comm, void *data, int size, int type, void **ret_mhandle);
enum nccl_result plugin_collnet_slot_register_8(void *comm, void *data, size_t size, int type, void **ret_mhandle);
enum nccl_result plugin_collnet_slot_reduce_all_6_8(void *coll_comm, void *send, void *recv, int count,
						    enum nccl_datatype type, enum nccl_redop op, void *send_mhandle,
						    void *recv_mhandle, void **ret_request);
enum nccl_result plugin_collnet_slot_reduce_all_9(void *coll_comm, void *send, void *recv, size_t count,
						  enum nccl_datatype type, enum nccl_redop op, void *send_mhandle,
						  void *recv_mhandle, void **ret_request);
#endif
