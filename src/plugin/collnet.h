/*
 * The collnet plugin without NCCL's versions: what the collnet tables in versions/ convert to and from. It stands on the
 * aggregation engine (aggregate/aggregate.h), which the process opens with its first listener (state.h).
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
 * Errors: -errno as in aggregate.h, and
 *   -ECHILD   this is a forked child (the close functions give 0 and do nothing)
 *   -ENODEV   there are no devices: TRIBUTARY_DISABLE, TRIBUTARY_NET, TRIBUTARY_COLLNET
 * Outputs are written on success only.
 */
#ifndef TRIBUTARY_PLUGIN_COLLNET_H
#define TRIBUTARY_PLUGIN_COLLNET_H

#include "aggregate/aggregate.h"
#include "base/log.h"
#include "nccl/types.h"
#include "plugin/devices.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plugin_collnet_context; /* one communicator, from version 11 on. Older versions have none: NULL */
struct plugin_collnet_listener;
struct aggregate_group;

/* Versions up to 10. NCCL has initialised the net plugin before. */
int plugin_collnet_init_process(log_sink *logger);
/* Versions from 11 on: for each communicator. Ended by plugin_collnet_finalize(), to which NULL is fine. */
int plugin_collnet_init(uint64_t comm_id, log_sink *logger, struct plugin_collnet_context **ret);
int plugin_collnet_finalize(struct plugin_collnet_context *context);

/*
 * 0 where there is no collnet: it is switched off, or not asked for (NCCL_COLLNET_ENABLE) with TRIBUTARY_NET=verbs, whose
 * GPUDirect RDMA NCCL would not use beside it. The same on all hosts, whatever their cards.
 */
int plugin_collnet_devices(int *ret_count);
int plugin_collnet_properties(int device, struct plugin_net_properties *ret);

/*
 * handle: NCCL_HANDLE_BYTES. A head that cannot listen gets a listener all the same, whose handle makes connect fail at
 * every head: NCCL would leave the others waiting. So an error is -EINVAL (no such device) or one of those above.
 */
int plugin_collnet_listen(struct plugin_collnet_context *context, int device, void *handle,
			  struct plugin_collnet_listener **ret);
/*
 * handles: of `count` members, in whatever order; rank: this node's number, below count. Either all members get a group,
 * or all an error, after a warning that says why; the listener is then closed, as NCCL does not
 * do it. listener NULL (an earlier connect failed) is -EINVAL.
 */
int plugin_collnet_connect(struct plugin_collnet_listener *listener, int count, int rank, void *const *handles,
			   struct aggregate_group **ret);
/* Has this process ever had a group? */
bool plugin_collnet_was_connected(void);

/* Averages reach collnet as sums. */
bool plugin_collnet_supports(enum nccl_datatype type, enum nccl_redop operation);

/* memory: one bit of enum nccl_pointer; anything but host memory is -EOPNOTSUPP, as the properties say. */
int plugin_collnet_register(struct aggregate_group *group, void *data, size_t bytes, int memory, void **ret);
int plugin_collnet_deregister(struct aggregate_group *group, void *registration);

/* *ret NULL: 32 are outstanding, come again. */
int plugin_collnet_reduce_all(struct aggregate_group *group, const void *send, void *recv, size_t count,
			      enum nccl_datatype type, enum nccl_redop operation, struct aggregate_request **ret);
/* ret_bytes may be NULL. */
int plugin_collnet_test(struct aggregate_request *request, int *ret_done, int *ret_bytes);

int plugin_collnet_close_group(struct aggregate_group *group);
int plugin_collnet_close_listener(struct plugin_collnet_listener *listener);

#endif
