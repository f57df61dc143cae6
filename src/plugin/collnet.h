/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collnet plugin in the types of NCCL's newest interface, as far as they are the same in several versions, as net.h is
 * the net's. It stands on the aggregation engine (aggregate/aggregate.h), which the process opens with its first listener
 * (state.h).
 *
 * NCCL makes one group for each head process and NIC: one member a node. Groups and requests are opaque to it.
 *
 * Devices are those of the net plugin: the same number, order and names, because NCCL keeps one entry for both in its
 * topology, and what is said here first holds for both. So properties are the net's, too, but for what only collectives
 * have.
 *
 * Threads: a group or listener from one thread at a time; all else from any. plugin_collnet_connect alone blocks, for at
 * most TRIBUTARY_TIMEOUT. errno is kept.
 *
 * Results are NCCL's, of the errors of aggregate.h (result.h), and of
 *   -ECHILD   this is a forked child (the close functions succeed and do nothing)
 *   -ENODEV   there are no devices: TRIBUTARY_DISABLE, TRIBUTARY_NET, TRIBUTARY_COLLNET
 * Outputs are written on success only.
 */
#ifndef TRIBUTARY_PLUGIN_COLLNET_H
#define TRIBUTARY_PLUGIN_COLLNET_H

#include "aggregate/aggregate.h"
#include "nccl/types.h"
#include "plugin/devices.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NCCL's name for it, in its log. */
#define PLUGIN_COLLNET_NAME "Tributary"

/* Versions up to 10. NCCL has initialised the net plugin before. */
enum nccl_result plugin_collnet_init_process(nccl_debug_logger *logger);
/* Versions from 11 on: for each communicator. Ended by plugin_collnet_finalize(), to which NULL is fine. */
enum nccl_result plugin_collnet_init(void **ret_context, uint64_t comm_id, nccl_debug_logger *logger);
enum nccl_result plugin_collnet_finalize(void *context);

/* 0 where there is no collnet: it is switched off, or not asked for (NCCL_COLLNET_ENABLE). */
enum nccl_result plugin_collnet_devices(int *ret_count);
/* 0 or -errno: versions/properties.h converts it. */
int plugin_collnet_properties(int device, struct plugin_net_properties *ret);

/*
 * context: NULL for versions up to 10. handle: NCCL_HANDLE_BYTES. A head that cannot listen gets a listener all the same,
 * whose handle makes connect fail at every head: NCCL would leave the others waiting. So an error is -EINVAL (no such
 * device) or one of those above.
 */
enum nccl_result plugin_collnet_listen(void *context, int device, void *handle, void **ret_listener);
/*
 * handles: of `count` members, in whatever order; rank: this node's number, below count. Either all members get a group,
 * or all an error, after a warning that says why; the listener is then closed, as NCCL does not
 * do it. listener NULL (an earlier connect failed) is -EINVAL.
 */
enum nccl_result plugin_collnet_connect(void **handles, int count, int rank, void *listener, void **ret_group);
/* Has this process ever had a group? */
bool plugin_collnet_was_connected(void);

/* Averages reach collnet as sums. */
enum nccl_result plugin_collnet_support(enum nccl_datatype type, enum nccl_redop operation, int *ret_supported);

/* memory: one bit of enum nccl_pointer; anything but host memory is -EOPNOTSUPP, as the properties say. */
enum nccl_result plugin_collnet_register(void *group, void *data, size_t bytes, int memory, void **ret_registration);
enum nccl_result plugin_collnet_register_dmabuf(void *group, void *data, size_t bytes, int memory, uint64_t offset,
						int fd, void **ret_registration);
enum nccl_result plugin_collnet_deregister(void *group, void *registration);

/* *ret_request NULL: 32 are outstanding, come again. */
enum nccl_result plugin_collnet_reduce_all(void *group, void *send, void *recv, size_t count, enum nccl_datatype type,
					   enum nccl_redop operation, void *send_registration, void *recv_registration,
					   void **ret_request);
/* Nothing to do for host memory: no request, which is as good as done. */
enum nccl_result plugin_collnet_flush(void *group, void *data, int bytes, void *registration, void **ret_request);
/* ret_bytes may be NULL. */
enum nccl_result plugin_collnet_test(void *request, int *ret_done, int *ret_bytes);

enum nccl_result plugin_collnet_close_group(void *group);
enum nccl_result plugin_collnet_close_listener(void *listener);

#endif
