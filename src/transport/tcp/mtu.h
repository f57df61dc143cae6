/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways that lose long packets and say nothing: streams are dialled anew with smaller ones. What was found of a way, an own
 * interface and a peer's address, is kept for the life of the process.
 *
 * Threads: struct tcp_mtu_ways has a lock of its own, taken last; the rest is a connection's, under its lock.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_MTU_H
#define TRIBUTARY_TRANSPORT_TCP_MTU_H

#include "transport/tcp/mtu_rule.h"

#include <pthread.h>
#include <stddef.h>

struct tcp_connection;
struct tcp_dial;
struct tcp_transport;

enum { TCP_MTU_WAYS_MAX = 256 }; /* the oldest is overwritten */

struct tcp_mtu_way {
	uint64_t way;          /* tcp_pin_way; 0: a free place */
	unsigned packet_bytes; /* that new sockets send at most; 0: as the interface has it */
	unsigned lost_bytes;   /* such packets were lost last */
	unsigned most_bytes;   /* and such ones first */
	bool works;            /* with packet_bytes, as was seen; else they are tried */
};

struct tcp_mtu_ways {
	pthread_mutex_t lock;
	unsigned count; /* with those that were overwritten */
	struct tcp_mtu_way list[TCP_MTU_WAYS_MAX];
};

/* Of a stream. */
struct tcp_mtu {
	struct tcp_mtu_rule rule;
	enum tcp_mtu_result result;      /* at the last look */
	bool stuck;                      /* its last socket was lost with a result that was not fine */
	uint64_t acknowledged, repeated; /* by its kernel's count, where the proof of a size begins */
};

/* Of a sender. */
struct tcp_mtu_sender {
	uint64_t moved_ns; /* when more than a sign of life arrived last, or nothing was to arrive */
	uint64_t left_ns;  /* when a path was left last for want of that (detour.c) */
	bool looks; /* tcp_mtu_watch is to come again soon; streams that are not stuck beat more often meanwhile */
};

/* Before connect: the socket's longest packet. */
void tcp_mtu_dial(struct tcp_transport *transport, struct tcp_dial *dial);
/*
 * A sender, from time to time, the last one at looked_ns, and soon where it says so (tcp_mtu_sender.looks): streams whose long
 * packets are lost are dialled anew, and a connection over which nothing gets through for TRIBUTARY_TIMEOUT fails.
 */
void tcp_mtu_watch(struct tcp_connection *connection, uint64_t looked_ns, uint64_t now_ns);

#endif
