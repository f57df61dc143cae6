/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sender measures of a connection's streams on one rail, summed over a while, and how two
 * such measures compare: the controller (streams.h) decides by that. Rates are those of the time in
 * which frames waited, unless said otherwise, because a hop of a ring carries on average what the
 * one before it does, however fast it is. Pure; any values are harmless.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_STREAMS_MEASURE_H
#define TRIBUTARY_TRANSPORT_TCP_STREAMS_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

enum { TCP_STREAMS_RAIL_MAX = 32 }; /* a stream is a bit of a set, and an index of an array */
#define TCP_STREAMS_PERIOD_NS 8000000ULL
#define TCP_STREAMS_ALL       UINT32_MAX
/* Of the rate of the old streams: so much they keep, if no new one took from them. */
#define TCP_STREAMS_KEPT      0.9

/*
 * What a trial does to others that send to the receiver's port. It knows what each of them sends
 * while its messages come, with the old streams and now: some of them are through sooner than others.
 */
struct tcp_streams_others {
	bool measured;   /* else nothing is known */
	double kept;     /* of what they sent in such a time before */
	double lost_Bps; /* the rest, in this connection's time */
	double each_Bps; /* one of them, on average */
};

/* What the sender measured since the last call. Times may be late or long, all may be 0. */
struct tcp_streams_sample {
	uint64_t now_ns, elapsed_ns;
	uint64_t rested_ns; /* beside elapsed_ns: no message was open, or nobody looked */
	/*
	 * How long frames waited: granted bytes were unsent and no stream took more; or, where the
	 * last answer's waits_above_bytes is not 0, more than that were granted and not
	 * acknowledged, for more streams hold more.
	 */
	uint64_t waited_ns;
	uint64_t unwaited_ns;                        /* messages were open, and no frames waited */
	uint64_t acknowledged_bytes;                 /* in elapsed_ns, of all streams */
	uint64_t waited_bytes[TCP_STREAMS_RAIL_MAX]; /* acknowledged of each stream in waited_ns */
	uint64_t flight_bytes;                       /* sent and not acknowledged as frames waited; 0: they did not */
	uint64_t path_ns;                            /* a round trip; 0: not known */
	uint64_t port_Bps;                           /* the port's payload, nominally; 0: not known. A hint. */
	uint32_t ready;                              /* streams that are connected */
	/* Streams for threads that send: worth a trial, and what they need at least once they have shown a gain. 0: no such threads. */
	unsigned threads, least;
	unsigned most; /* streams of two segments that fit into the bound in flight; 0: no bound */
	bool turn;     /* this connection has the way's turn, and the receiver's */
	/* By the receiver's word: several hosts send to its port, and that is full. */
	bool competes, receiver_full;
	struct tcp_streams_others others; /* as far as it is known; of the present set of streams */
	/* Only where the last answer had `detailed`. */
	uint64_t port_bytes;          /* payload that the own port sent in elapsed_ns, of all who use it */
};

/* All zero to begin with. */
struct tcp_streams_measure {
	uint64_t elapsed_ns, acknowledged_bytes, port_bytes;
	uint64_t waited_ns, waited_bytes[TCP_STREAMS_RAIL_MAX];
	uint64_t flight_bytes, flight_count;
	bool competes;
	struct tcp_streams_others others;
	unsigned
		periods; /* of TCP_STREAMS_PERIOD_NS or a little more in which frames waited: what tells noise from change */
	/* Private. */
	uint64_t period_ns, period_bytes;
	double least_Bps, most_Bps;
};

static inline unsigned tcp_streams_count(uint32_t set)
{
	return (unsigned)__builtin_popcount(set);
}
void tcp_streams_measure_add(struct tcp_streams_measure *measure, const struct tcp_streams_sample *sample);
/* What the set carried while frames waited. */
double tcp_streams_measure_rate(const struct tcp_streams_measure *measure, uint32_t set);
/* By the clock: what the connection, and what the port sent. */
double tcp_streams_measure_mean(const struct tcp_streams_measure *measure);
double tcp_streams_measure_port(const struct tcp_streams_measure *measure);
/* Between the slowest and the fastest period, in mean rates. */
double tcp_streams_measure_spread(const struct tcp_streams_measure *measure);
/* The `count` streams of the set that carried most. */
uint32_t tcp_streams_measure_fastest(const struct tcp_streams_measure *measure, uint32_t set, unsigned count);
/* Frames waited at first, then hardly, and as much is carried: what comes is sent at once. */
bool tcp_streams_measure_emptied(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after);
/* Frames hardly wait, for there are fewer of them: less is carried. */
bool tcp_streams_measure_starved(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after);
/* What the connection gained did not come from others that use the port. In a ring it may gain nothing yet. */
bool tcp_streams_measure_port_gained(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after);
/*
 * The connection has no more of the receiver's port than others have on average, and gains what
 * they lose: so they, and the old streams, may lose.
 */
bool tcp_streams_measure_is_fair(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after);
/*
 * Others that send to the receiver's port keep 0.9 and the margin, and lose at most half of what is
 * gained; or it is fair. Not, as long as the receiver does not say so.
 */
bool tcp_streams_measure_others_kept(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after,
				     double margin);
/*
 * The old streams, and those of the new ones that suffice for what was gained. A new one that is as
 * slow as the old ones that were slowed down shares a bottleneck with them: alone it would carry
 * what they did.
 */
uint32_t tcp_streams_measure_sufficient(const struct tcp_streams_measure *before, uint32_t old_set,
					const struct tcp_streams_measure *after, uint32_t new_set);

#endif
