/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many streams a connection has on one rail, found by measuring (docs/design/streams.md). Pure:
 * no socket, clock, thread or allocation. The sender's tick says what it measured since the last
 * one; the answer says which streams carry data, which are to exist, and what to measure next.
 * growth.c drives it.
 *
 * Ownership and threads: struct tcp_streams is the connection's, under its lock. struct
 * tcp_streams_way is shared by all connections of this process over one interface to one host; a
 * lock of its owner's is held during a step. Any content of it is harmless. No errors.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_STREAMS_H
#define TRIBUTARY_TRANSPORT_TCP_STREAMS_H

#include "transport/tcp/streams_measure.h"

enum tcp_streams_state {
	TCP_STREAMS_SETTLED, /* measures no more than how long frames wait */
	TCP_STREAMS_QUEUED,  /* something is worth a trial: waits for the way's turn */
	TCP_STREAMS_BASE,    /* has the turn: measures what the present streams carry, and dials */
	TCP_STREAMS_MORE,    /* measures what more streams carry */
	TCP_STREAMS_AGAIN,   /* they carry more: measures what the old ones carry without them */
	TCP_STREAMS_FEWER,   /* measures what half of them carry; the others live and carry nothing */
	TCP_STREAMS_STATE_COUNT
};

struct tcp_streams_answer {
	uint32_t open;              /* these are to exist: dial those that do not */
	uint32_t active;            /* of them these carry data */
	uint64_t waits_above_bytes; /* tcp_streams_sample.waited_ns */
	bool detailed;              /* the next sample needs the port's counter */
	bool turn;                  /* it wants the way's turn, or keeps it: one connection of the way at a time */
};

/* All zero to begin with, but for the first two. */
struct tcp_streams_way {
	uint64_t random;     /* any number, another one on each host */
	uint32_t remembered; /* streams that an earlier job kept: what the first trial tries; 0: none */
	uint32_t found;      /* by the last trial: each connection whose frames wait has so many; 0: no trial yet */
	double one_Bps, all_Bps; /* what one stream carried, and what those carried that a trial kept last; 0: not known */
	/* Private. */
	uint32_t limit; /* of active streams while a connection is in FEWER, until limit_until_ns */
	uint32_t failed_more, failed_fewer;
	uint64_t limit_until_ns, more_after_ns, fewer_after_ns, changed_ns, look_after_ns;
	double held_Bps; /* what the port sent as a trial failed, which the hold is for; 0: none did */
};

struct tcp_streams {
	enum tcp_streams_state state; /* for reports */
	/* Private. */
	uint32_t open, active, before; /* before: active in BASE */
	uint64_t since_ns;             /* when the state began, or its set of streams */
	uint64_t need_ns;              /* how long frames waited lately, less those in which none did */
	double kept;                   /* of the rate of the streams that were there first, over all trials */
	double usual_Bps;              /* what the settled streams carry while frames wait; 0: not known */
	unsigned trims;                /* in this trial: closed some of the new streams */
	bool given;                    /* streams for threads, without a trial */
	bool doubled;                  /* by the last trial: the next one tries four times as many */
	bool looks;                    /* in BASE: whether what a hold is for has changed */
	bool idle;                     /* the trial of fewer streams began as nothing waited */
	struct tcp_streams_measure base, trial, now;
};

void tcp_streams_init(struct tcp_streams *streams);
void tcp_streams_step(struct tcp_streams *streams, struct tcp_streams_way *way, const struct tcp_streams_sample *sample,
		      struct tcp_streams_answer *ret);

#endif
