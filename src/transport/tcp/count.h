/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of connections, by the device that carries them. Callers hold the transport's lock, except where noted. */
#ifndef TRIBUTARY_TRANSPORT_TCP_COUNT_H
#define TRIBUTARY_TRANSPORT_TCP_COUNT_H

#include "transport/transport.h"

struct tcp_connection;
struct tcp_stream;

/* It takes the lock. */
void tcp_count_device(struct transport *transport, int device, struct transport_counters *ret);
/* It joins the transport's list, or leaves it. */
void tcp_count_opened(struct tcp_connection *connection);
void tcp_count_gone(struct tcp_connection *connection);
/* Before it is carried by another device. Connection lock held, too. */
void tcp_count_moves(struct tcp_connection *connection);
/* Before a live stream's socket is closed. Connection lock held alone. */
void tcp_count_lost(struct tcp_connection *connection, const struct tcp_stream *stream);

#endif
