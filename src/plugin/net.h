/*
 * The net plugin without NCCL's versions: what each file in versions/ converts to and from. It stands on one transport
 * (state.h). Listeners, connections and requests are the transport's own objects: NCCL holds them as opaque pointers.
 *
 * Threads: as NCCL calls: init, finalize, devices, properties, join and listen from any thread; a connection or listener
 * from one thread at a time. No call blocks, and errno is kept.
 *
 * Errors: -errno as in transport.h, and
 *   -ECHILD   this is a forked child; the engine is not touched (the close functions give 0 and do nothing)
 *   -ENODEV   the network is left to NCCL: there are no devices
 * Outputs are written on success only.
 */
#ifndef TRIBUTARY_PLUGIN_NET_H
#define TRIBUTARY_PLUGIN_NET_H

#include "base/log.h"
#include "plugin/devices.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transport_listener;
struct transport_connection;
struct transport_request;

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
int plugin_net_init_process(log_sink *logger);
/* Versions from 11 on: for each communicator. Ended by plugin_net_finalize(). */
int plugin_net_init(uint64_t comm_id, int traffic_class, log_sink *logger, struct plugin_net_context **ret);
/* Connections that are still open go on working. NULL is fine. */
int plugin_net_finalize(struct plugin_net_context *context);

/* -ECHILD in a forked child, else 0: for calls that do nothing further. */
int plugin_net_check(void);

/* When the network is left to NCCL: 0, or 1 whose properties are -ENODEV, where plans are made all the same. */
int plugin_net_devices(int *ret_count);
/* Text of *ret lives as long as the process. */
int plugin_net_properties(int device, struct plugin_net_properties *ret);
/* One device out of `count` physical ones. */
int plugin_net_join(int count, const int *members, int *ret_device);

/* handle: NCCL_HANDLE_BYTES. */
int plugin_net_listen(int device, void *handle, struct transport_listener **ret);
/* traffic_class: negative for none. *ret NULL: call again. */
int plugin_net_connect(int device, int traffic_class, void *handle, struct transport_connection **ret);
int plugin_net_accept(struct transport_listener *listener, struct transport_connection **ret);

/* memory: one bit of enum nccl_pointer. */
int plugin_net_register(struct transport_connection *connection, void *data, size_t bytes, int memory, void **ret);
int plugin_net_register_dmabuf(struct transport_connection *connection, void *data, size_t bytes, int memory,
			       uint64_t offset, int fd, void **ret);
int plugin_net_deregister(struct transport_connection *connection, void *registration);

/* *ret NULL: come again. */
int plugin_net_send(struct transport_connection *connection, void *data, size_t bytes, int tag, void *registration,
		    struct transport_request **ret);
int plugin_net_receive(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
		       const int *tags, void *const *registrations, struct transport_request **ret);
int plugin_net_flush(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
		     void *const *registrations, struct transport_request **ret);
/*
 * sizes may be NULL. NCCL's sizes are int in every version: one that does not fit is given as INT_MAX. That can be so
 * only from version 9 on, for messages of 2 GiB and more, whose sizes NCCL knows and does not look at.
 */
int plugin_net_test(struct transport_request *request, int *ret_done, int *ret_sizes);

int plugin_net_close_connection(struct transport_connection *connection);
int plugin_net_close_listener(struct transport_listener *listener);

#endif
