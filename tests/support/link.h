/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of a test, over any transport's table. Every wait is bounded: -ETIMEDOUT after a minute.
 *
 * A struct link holds both ends of a connection in one process; link_close() accepts a half-built one. Nothing here
 * is shared between threads.
 */
#ifndef TESTS_SUPPORT_LINK_H
#define TESTS_SUPPORT_LINK_H

#include "transport/transport.h"

#define LINK_PATIENCE_MS 60000

struct link {
	const struct transport_ops *ops;
	struct transport_listener *listener;
	struct transport_connection *sender, *receiver;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
};

/* Both ends in this process, polled in turn. *link is defined even after a failure: close it. */
int link_open(const struct transport_ops *ops, struct transport *transport, int device, struct link *link);
void link_close(struct link *link);

/* One end alone; the other side is another process or thread. */
int link_connect(const struct transport_ops *ops, struct transport *transport, int device, uint8_t *handle,
		 struct transport_connection **ret);
int link_accept(const struct transport_ops *ops, struct transport_listener *listener,
		struct transport_connection **ret);

/* Posts and completes one message while the other end does its part elsewhere. */
int link_send(const struct transport_ops *ops, struct transport_connection *sender, void *data, size_t bytes, int tag);
int link_receive(const struct transport_ops *ops, struct transport_connection *receiver, void *data, size_t bytes,
		 int tag, size_t *ret_bytes);

/* One message of `bytes` pattern bytes from end to end of the link, checked. */
int link_exchange(struct link *link, size_t bytes, uint64_t seed);

/* Polls both, each to its end, in turn; -ETIMEDOUT. */
int link_finish_both(const struct transport_ops *ops, struct transport_request *send,
		     struct transport_request *receive);

/* Polls a request to its end: 0, the transport's error, or -ETIMEDOUT. sizes: NULL or TRANSPORT_MAX_RECVS. */
int link_finish(const struct transport_ops *ops, struct transport_request *request, size_t *sizes);

#endif
