/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Movers: threads that send and receive long messages in place of the caller's, where that one is the limit
 * (docs/design/streams.md). The caller goes on to poll, and to cut and answer frames. Where it would make a long call it leaves
 * the stream to a mover: of a sender what is to be written, of a receiver the payload under way. The other direction, and
 * short messages, stay with whoever holds the connection's lock.
 *
 * A mover takes the lock, prepares a call (struct tcp_move), makes it without the lock, and takes the lock again to note what
 * it has brought. A stream that is lost meanwhile is shut down and dropped by the mover; errors are told to users when no
 * mover has a stream of the connection.
 *
 * Threads: movers are started at work and end when movers_rule.h finds that they bring nothing. The lock of struct tcp_movers
 * is taken last.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_MOVERS_H
#define TRIBUTARY_TRANSPORT_TCP_MOVERS_H

#include "base/log.h"
#include "transport/tcp/movers_rule.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <sys/uio.h>

struct params;
struct tcp_connection;
struct tcp_stream;
struct tcp_transport;

enum {
	TCP_CALL_PARTS = 32,
	TCP_MOVERS_MAX = 16,
	TCP_MOVERS_LEAST_BYTES = 16 << 10, /* a mover has to wake for it; a shorter call is not timed either */
};

enum tcp_move_state {
	TCP_MOVE_NONE,
	TCP_MOVE_HELD, /* a mover has it, or it waits for one */
	TCP_MOVE_CALL, /* and is in a call */
};

/* One system call: of read.c or stream.c, who fill it. */
struct tcp_call {
	int fd, flags;
	int count;
	size_t bytes; /* of all parts */
	bool was_full, amid;
	struct iovec parts[TCP_CALL_PARTS];
};

/* Of one stream: what a mover does without and with the lock. */
struct tcp_move {
	struct tcp_stream *stream;
	struct tcp_call call;
	ssize_t result;
	uint64_t call_ns;
};

struct tcp_movers {
	pthread_mutex_t lock;
	pthread_cond_t work, left;
	TAILQ_HEAD(, tcp_stream) queue;
	_Atomic unsigned queued, idle; /* streams that no mover has yet; movers without one */
	unsigned count;                /* threads */
	_Atomic unsigned most;         /* the same; 0: none */
	_Atomic bool on;
	bool chooses; /* whether they are at work; else TRIBUTARY_MOVERS says so */
	_Atomic bool proven; /* they have shown a gain, */
	struct log_change said; /* which is logged */
	bool stop;
	bool (*move)(struct tcp_stream *stream); /* tcp_move */
	size_t least_bytes; /* of a call that is left to them */
	struct tcp_movers_rule rule;
	const char *near; /* PCI path of the network card, or NULL: their cores are there */
	unsigned core_count; /* of `cores`, or what the process's cgroup allows */
	cpu_set_t cores; /* of the process as the transport was opened: NCCL narrows its own threads later */
};

/* move: makes one call of a stream (tcp_move). */
void tcp_movers_init(struct tcp_transport *transport, bool (*move)(struct tcp_stream *stream));
/* Ends the threads. All connections are closed. */
void tcp_movers_fini(struct tcp_movers *movers);
/*
 * Leaves the stream to a mover. True: one has it, so nobody else makes that call. False: no mover is at work, or fewer bytes
 * wait than are worth it. Connection lock held.
 */
bool tcp_movers_take(struct tcp_stream *stream, uint64_t bytes);
/* Whether calls of this connection may be left to movers: they are at work, and long messages are open. Lock held. */
bool tcp_movers_are_on(const struct tcp_connection *connection);
/* How many streams each of so many connections may need for them to share the work. 0: they are not at work. */
unsigned tcp_movers_streams(const struct tcp_connection *connection, unsigned connections);
/* They have shown a gain, or are at work in any case. */
bool tcp_movers_are_proven(const struct tcp_connection *connection);
/* No stream of it is with a mover afterwards, or becomes theirs. No lock held; waits for the calls under way. */
void tcp_movers_leave(struct tcp_connection *connection);
/* The same, until the requests that are open now have ended: their buffers may not be theirs any more. */
void tcp_movers_pause(struct tcp_connection *connection);
void tcp_movers_resume(struct tcp_connection *connection); /* these have; connection lock held */
/* A mover waits for the connection's lock, which a caller that polls would take again before it wakes: not now, then. */
bool tcp_movers_go_first(struct tcp_connection *connection);
/* Whether long calls are to be timed. */
bool tcp_movers_measure(const struct tcp_connection *connection);
/* What this thread's look at a request posted then has cost: begins and ends their work. Connection lock held. */
void tcp_movers_note(struct tcp_connection *connection, uint64_t posted_ns, uint64_t now_ns);
/* A stream waits and every mover is busy: one call in this thread. No lock held. */
void tcp_movers_help(struct tcp_transport *transport);

/* move.c. One call of a stream that is held. True: there is more of it. No lock held. */
bool tcp_move(struct tcp_stream *stream);
/* The same in three steps, for tests. Begin: false: there is nothing to do. End: true: there is more. */
bool tcp_move_begin(struct tcp_move *move);
void tcp_move_call(struct tcp_move *move);
bool tcp_move_end(struct tcp_move *move);
/* The next stream that waits, or NULL; and its return, which may wait again. */
struct tcp_stream *tcp_movers_next(struct tcp_movers *movers);
void tcp_movers_return(struct tcp_movers *movers, struct tcp_stream *stream, bool again);

#endif
