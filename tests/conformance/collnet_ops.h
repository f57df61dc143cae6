/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built plugin through one version's collnet table, as NCCL's proxy thread calls it, in one form for all versions. The
 * library is the one that TRIBUTARY_PLUGIN names. What a version has not got (contexts before 11) ends here.
 *
 * Results are NCCL's (enum nccl_result). No call may change errno: one that does ends the program.
 */
#ifndef TESTS_CONFORMANCE_COLLNET_OPS_H
#define TESTS_CONFORMANCE_COLLNET_OPS_H

#include "common/netplugin.h"
#include "nccl/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COLLNET_OLDEST = 6, COLLNET_NEWEST = 12 };

/* A communicator: the net plugin's, and collnet's beside it. */
struct collnet_ops {
	int version;
	struct netplugin *net;
	struct netplugin_context *net_context;
	const void *table; /* struct nccl_collnet_vN */
	void *context;     /* versions from 11 on */
};

/* Loads the library, initialises net, then collnet, as NCCL does. Asserts. version 0: the newest. */
void collnet_ops_open(int version, uint64_t comm_id, struct collnet_ops *ret);
void collnet_ops_close(struct collnet_ops *ops);

const char *collnet_ops_name(const struct collnet_ops *ops);
int collnet_ops_devices(const struct collnet_ops *ops, int *ret_count);
int collnet_ops_properties(const struct collnet_ops *ops, int device, struct netplugin_properties *ret);
int collnet_ops_join(const struct collnet_ops *ops, int count, const int *members, int *ret_device);
int collnet_ops_listen(const struct collnet_ops *ops, int device, void *handle, void **ret_listener);
int collnet_ops_connect(const struct collnet_ops *ops, void **handles, int nranks, int rank, void *listener,
			void **ret_group);
int collnet_ops_support(const struct collnet_ops *ops, int type, int operation, int *ret_supported);
/* bytes above INT_MAX: NCCL_INVALID_ARGUMENT where the version has int, and the plugin is not called. */
int collnet_ops_register(const struct collnet_ops *ops, void *group, void *data, size_t bytes, int memory, void **ret);
int collnet_ops_register_dmabuf(const struct collnet_ops *ops, void *group, void *data, size_t bytes, void **ret);
int collnet_ops_deregister(const struct collnet_ops *ops, void *group, void *registration);
int collnet_ops_reduce(const struct collnet_ops *ops, void *group, void *send, void *recv, size_t count, int type,
		       int operation, void *registration, void **ret_request);
/* AllGather and ReduceScatter are left out. */
bool collnet_ops_only_reduces(const struct collnet_ops *ops);
int collnet_ops_flush(const struct collnet_ops *ops, void *group, void *data, int bytes, void *registration,
		      void **ret_request);
int collnet_ops_test(const struct collnet_ops *ops, void *request, int *ret_done, int *ret_bytes);
int collnet_ops_close_group(const struct collnet_ops *ops, void *group);
int collnet_ops_close_listener(const struct collnet_ops *ops, void *listener);
int collnet_ops_finalize(const struct collnet_ops *ops, void *context);

#endif
