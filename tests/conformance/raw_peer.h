/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end of the TCP transport's protocol, by hand: sockets that say what no honest peer would. Each function
 * fails the test that calls it when the system does not do what it should.
 */
#ifndef TESTS_CONFORMANCE_RAW_PEER_H
#define TESTS_CONFORMANCE_RAW_PEER_H

#include "support/link.h"
#include "support/runtime.h"
#include "transport/tcp/wire.h"

#include <netinet/in.h>

/* Where a handle leads (IPv4), and what is in it. */
struct sockaddr_in raw_address(const uint8_t *handle_bytes, struct tcp_wire_handle *handle);
/* -1: refused. wait: the connection stands when this returns. */
int raw_connect(const struct sockaddr_in *address, bool wait);
/* What an honest sender with two streams would say first on stream 0. */
struct tcp_wire_hello raw_hello(const struct tcp_wire_handle *handle, uint64_t *random);
/* Sends; a socket that the other side has closed is fine. */
void raw_put(int fd, const void *bytes, size_t count);
/* The first `count` bytes of what an honest sender that has the secret says once it is challenged. */
void raw_put_hello(int fd, const struct tcp_wire_hello *hello, const uint8_t secret[static TCP_WIRE_SECRET_BYTES],
		   size_t count);
/* What is put there; false: the other side has closed. */
bool raw_prove_hello(int fd, const struct tcp_wire_hello *hello, const uint8_t secret[static TCP_WIRE_SECRET_BYTES],
		     uint8_t ret[static TCP_WIRE_HELLO_BYTES]);

/* Connects, greets, and has read the answer. */
int raw_stream(const struct sockaddr_in *address, const struct tcp_wire_hello *hello,
	       const uint8_t secret[static TCP_WIRE_SECRET_BYTES]);

/* The plugin's newest table, its log emptied. */
struct transport *raw_opened(void);
/* Connects and transfers through link->listener, which is open already. */
void raw_real_peer_is_served(struct transport *transport, struct link *link);

#endif
