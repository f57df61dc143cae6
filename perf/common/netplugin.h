/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives any NCCL net plugin as NCCL does, whatever version of the interface it exports (v6 to v12).
 *
 * A struct netplugin is one loaded library and the one table chosen from it. A struct netplugin_context is what
 * NCCL has for each communicator: from v11 on it is the plugin's own, before that only this loader knows it.
 * Listeners, comms, registrations and requests are the plugin's own opaque pointers.
 *
 * Differences between versions end here:
 *   - sizes are size_t; where the version has only int (registration up to v7, messages up to v8) a larger one is
 *     NCCL_INVALID_ARGUMENT and one warning, and the plugin is not called;
 *   - v10 takes a config in connect, v11 a context in init, listen and connect: netplugin_init() has both;
 *   - up to v10 init is called once for the process, at the first context, and there is no finalize;
 *   - v7's device handles are asked for and ignored: only host devices are driven.
 *
 * NCCL's rules that stay with the caller: come again while connect, accept, send, receive or flush give NULL; test only
 * the oldest outstanding request of a comm; at most 32 outstanding on a comm; a comm is used by one thread at a time.
 *
 * Threads: open, close, init and finalize from one thread at a time, the rest as the plugin allows it.
 * Errors: netplugin_open() gives 0 or -errno; everything else gives the plugin's own ncclResult_t (enum nccl_result) as
 * an int, 0 for success. Outputs are written only on success.
 */
#ifndef TRIBUTARY_PERF_NETPLUGIN_H
#define TRIBUTARY_PERF_NETPLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl/types.h" /* enum nccl_result, NCCL_HANDLE_BYTES, NCCL_POINTER_HOST, nccl_debug_logger */

enum {
	NETPLUGIN_OLDEST = 6,
	NETPLUGIN_NEWEST = 12,
	NETPLUGIN_MAX_RECVS = 32, /* in one call of netplugin_receive(); what a plugin takes is in its properties */
	NETPLUGIN_MAX_MEMBERS = NCCL_VDEVICE_MEMBERS_V12,
};

struct netplugin;
struct netplugin_context;

/* Fields that the version does not have: regIsGlobal, forceFlush, device type 0, maximum bytes 0, rail and plane -1,
 * member_count 0. Text belongs to the plugin. */
struct netplugin_properties {
	const char *name;
	const char *pci_path;
	uint64_t guid;
	int ptr_support;
	int registration_is_global;
	int force_flush;
	int speed_Mbps;
	int port;
	float latency_us;
	int max_comms;
	int max_recvs;
	int device_type;
	int device_version;
	int member_count;
	int members[NETPLUGIN_MAX_MEMBERS];
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request_size;
	int rail, plane;
};

/*
 * name: a path (it has a slash or ends in .so), else libnccl-net-<name>.so is looked for as dlopen does.
 * version: 0 for the newest there is, else exactly that one.
 * -ENOENT: no such library or no such table, -EINVAL: version out of range; the reason goes to stderr.
 */
int netplugin_open(const char *name, int version, struct netplugin **ret_plugin);
/* Contexts must be finalized before. Calls dlclose. NULL is fine. */
void netplugin_close(struct netplugin *plugin);

int netplugin_version(const struct netplugin *plugin);
const char *netplugin_name(const struct netplugin *plugin);
/* The plugin's own table, struct of netplugin_version(). */
const void *netplugin_table(const struct netplugin *plugin);
/* Whether the library exports a net table of this version, whichever one is driven. */
bool netplugin_has(const struct netplugin *plugin, int version);

/* The usual logger: warnings to stderr, with NETPLUGIN_DEBUG=INFO (or TRACE) also the rest. */
void netplugin_log(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* logger NULL: netplugin_log. traffic_class -1: undefined. comm_id must be the same on all ranks of a communicator. */
int netplugin_init(struct netplugin *plugin, uint64_t comm_id, int traffic_class, nccl_debug_logger *logger,
		   struct netplugin_context **ret_context);
/* Frees the context whatever the plugin says. NULL is fine. */
int netplugin_finalize(struct netplugin_context *context);

int netplugin_devices(struct netplugin *plugin, int *ret_count);
int netplugin_properties(struct netplugin *plugin, int device, struct netplugin_properties *ret_properties);
/* NCCL_INVALID_USAGE where version or plugin has none (before v9), or takes fewer members (4 before v12). */
int netplugin_make_vdevice(struct netplugin *plugin, int count, const int *members, int *ret_device);

int netplugin_listen(struct netplugin_context *context, int device, void *handle, void **ret_listener);
int netplugin_connect(struct netplugin_context *context, int device, void *handle, void **ret_comm);
int netplugin_accept(struct netplugin *plugin, void *listener, void **ret_comm);

int netplugin_reg(struct netplugin *plugin, void *comm, void *data, size_t bytes, int type, void **ret_mhandle);
int netplugin_reg_dmabuf(struct netplugin *plugin, void *comm, void *data, size_t bytes, int type, uint64_t offset,
			 int fd, void **ret_mhandle);
int netplugin_dereg(struct netplugin *plugin, void *comm, void *mhandle);

int netplugin_send(struct netplugin *plugin, void *comm, void *data, size_t bytes, int tag, void *mhandle,
		   void **ret_request);
/* A group of count receives; count 1 is the usual case. */
int netplugin_receive(struct netplugin *plugin, void *comm, int count, void *const *data, const size_t *bytes,
		      const int *tags, void *const *mhandles, void **ret_request);
/* Sizes are int in every version: one above INT_MAX is flushed as INT_MAX, as only its being there counts. */
int netplugin_flush(struct netplugin *plugin, void *comm, int count, void *const *data, const size_t *bytes,
		    void *const *mhandles, void **ret_request);
/* sizes: NULL, or room for the count of the group; they are ints in every version, so modulo 2^32 above 2 GiB. */
int netplugin_test(struct netplugin *plugin, void *request, int *ret_done, int *sizes);

int netplugin_close_send(struct netplugin *plugin, void *comm);
int netplugin_close_recv(struct netplugin *plugin, void *comm);
int netplugin_close_listen(struct netplugin *plugin, void *listener);

#endif
