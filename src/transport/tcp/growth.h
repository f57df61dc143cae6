/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sender's streams, as many as the network needs: what streams.h is told of the connection, and
 * what becomes of its answer. Streams join off the path: they are dialled by the service thread,
 * like lost ones, and carry data when all are welcomed. Of one that is no longer needed the socket
 * stays and carries nothing.
 *
 * Only where nothing else decides: TRIBUTARY_STREAMS=0, one rail without links that a hash may
 * spread streams over, another host, and a caller who polls.
 *
 * Threads: struct tcp_growth is the connection's, under its lock; struct tcp_growth_ways the
 * transport's, with a lock of its own, taken last.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_GROWTH_H
#define TRIBUTARY_TRANSPORT_TCP_GROWTH_H

#include "base/log.h"
#include "transport/tcp/growth_memory.h"
#include "transport/tcp/streams.h"

#include <pthread.h>

struct tcp_connection;
struct tcp_transport;

enum { TCP_GROWTH_WAYS_MAX = 64 };

/* Own interface and peer host. One connection of a way has the turn to try something, and says so again with each step. */
struct tcp_growth_way {
	int interface;
	uint64_t host;
	uint64_t holder, until_ns; /* the connection's id; 0: nobody */
	struct tcp_streams_way way;
	struct tcp_growth_recall recall;
	struct log_change said; /* streams */
};

struct tcp_growth_ways {
	pthread_mutex_t lock;
	struct tcp_growth_memory *memory; /* NULL: none */
	_Atomic uint64_t steps; /* of all connections */
	unsigned count;
	struct tcp_growth_way list[TCP_GROWTH_WAYS_MAX];
};

struct tcp_growth {
	struct tcp_growth_way *way; /* NULL: the streams stay as they are */
	struct tcp_streams streams;
	struct tcp_streams_answer answer;
	struct tcp_streams_sample sample; /* since the last step */
	uint64_t looked_ns, stepped_ns, steps; /* steps: of all connections, at the last one */
	bool waited; /* at the last look */
	bool asks;   /* the receiver for its port's turn, as it was told */
	uint64_t port_bytes; /* at the last detailed sample; 0: there is none */
	uint64_t port_Bps; /* nominal payload; 0: not known */
	double payload;    /* of what the port's counter counts */
};

void tcp_growth_init(struct tcp_connection *connection);
/*
 * Dials the streams of the controller's set that are not there; of others no dial begins. Connection
 * lock held, here and below.
 */
void tcp_growth_want(struct tcp_connection *connection, uint32_t set, uint64_t now_ns);
/* From now on these streams carry bytes. False: not yet, something is under way that the present ones must carry. */
bool tcp_growth_use(struct tcp_connection *connection, uint64_t active, uint64_t now_ns);
/* As the connection's data moves, from time to time. */
void tcp_growth_look(struct tcp_connection *connection, uint64_t now_ns);

#endif
