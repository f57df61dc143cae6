/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The net plugin in the types of NCCL's newest interface, as far as they are the same in several versions: what is another
 * one's alone is converted in versions/. It stands on one transport (state.h). Listeners, connections and requests are the
 * transport's own objects: NCCL holds them as opaque pointers.
 *
 * Threads: as NCCL calls: init, finalize, devices, properties, join and listen from any thread; a connection or listener
 * from one thread at a time. No call blocks, and errno is kept.
 *
 * Results are NCCL's, of the errors of transport.h (result.h), and of
 *   -ECHILD   this is a forked child; the engine is not touched (the close functions succeed and do nothing)
 *   -ENODEV   the network is left to NCCL: there are no devices
 * Outputs are written on success only.
 */
#ifndef TRIBUTARY_PLUGIN_NET_H
#define TRIBUTARY_PLUGIN_NET_H

#include "nccl/types.h"
#include "plugin/devices.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PLUGIN_NET_NO_TRAFFIC_CLASS = -1, PLUGIN_NET_GREATEST_TRAFFIC_CLASS = 255 };

/* NCCL's name for the plugin: in its log, and in NCCL_NET. */
#define PLUGIN_NET_NAME "Tributary"

/* One communicator, from version 11 on. Older versions have none: NULL. */
struct plugin_net_context {
	uint64_t comm_id;
	int traffic_class;
	bool holds_transport;
};

/* Versions up to 10: once for the process (again is harmless). What it takes is never given back: no finalize comes. */
enum nccl_result plugin_net_init_process(nccl_debug_logger *logger);
/* Versions from 11 on: for each communicator. *ret_context: struct plugin_net_context, ended by plugin_net_finalize(). */
enum nccl_result plugin_net_init(uint64_t comm_id, int traffic_class, nccl_debug_logger *logger, void **ret_context);
/* Connections that are still open go on working. NULL is fine. */
enum nccl_result plugin_net_finalize(void *context);

/* An error in a forked child: for calls that do nothing further. */
enum nccl_result plugin_net_check(void);

/* When the network is left to NCCL: 0, or 1 whose properties are -ENODEV, where plans are made all the same. */
enum nccl_result plugin_net_devices(int *ret_count);
/* 0 or -errno: versions/properties.h converts it. Text of *ret lives as long as the process. */
int plugin_net_properties(int device, struct plugin_net_properties *ret);
/* One device out of `count` physical ones. */
enum nccl_result plugin_net_join(int count, const int *members, int *ret_device);

/* handle: NCCL_HANDLE_BYTES. */
enum nccl_result plugin_net_listen(int device, void *handle, void **ret_listener);
/* traffic_class: negative for none. *ret_connection NULL: call again. */
enum nccl_result plugin_net_connect(int device, int traffic_class, void *handle, void **ret_connection);
enum nccl_result plugin_net_accept(void *listener, void **ret_connection);

/* memory: one bit of enum nccl_pointer. */
enum nccl_result plugin_net_register(void *connection, void *data, size_t bytes, int memory, void **ret_registration);
enum nccl_result plugin_net_register_dmabuf(void *connection, void *data, size_t bytes, int memory, uint64_t offset,
					    int fd, void **ret_registration);
enum nccl_result plugin_net_deregister(void *connection, void *registration);

/* *ret_request NULL: come again. */
enum nccl_result plugin_net_send(void *connection, void *data, size_t bytes, int tag, void *registration,
				 void **ret_request);
enum nccl_result plugin_net_receive(void *connection, int count, void **data, size_t *bytes, int *tags,
				    void **registrations, void **ret_request);
enum nccl_result plugin_net_flush(void *connection, int count, void **data, const size_t *bytes, void **registrations,
				  void **ret_request);
/*
 * ret_sizes may be NULL. NCCL's sizes are int in every version: one that does not fit is given as INT_MAX. That can be so
 * only from version 9 on, for messages of 2 GiB and more, whose sizes NCCL knows and does not look at.
 */
enum nccl_result plugin_net_test(void *request, int *ret_done, int *ret_sizes);

enum nccl_result plugin_net_close_connection(void *connection);
enum nccl_result plugin_net_close_listener(void *listener);

#endif
